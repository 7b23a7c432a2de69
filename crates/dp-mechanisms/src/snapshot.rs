//! Snapshots: everything a mechanism needs to continue, as exact bits.

use std::fmt;
use std::sync::Arc;

use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::noise::{Origin, Seed, Seeds, Segment};
use crate::plan::Plan;
use crate::saved::Saved;

/// A mechanism between two steps.
///
/// The noise is a pure function of seeds and step, so a snapshot stores the seeds instead of the noise. It also
/// holds the exact statistic: keep it as secret as the data. Wiped from memory on drop, printed without its
/// contents.
pub struct Snapshot {
    identity: Identity,
    dimension: usize,
    step: usize,
    seeds: Seeds,
    payload: Payload,
    /// Values of the last step, by which a resumed mechanism proves that it continues the same one.
    witness: Vec<f64>,
    releases: Vec<f64>,
    /// What others need beside the mechanism, by name.
    attachments: Vec<(String, Vec<u8>)>,
    /// The numbers in use: no secret, and the same for the whole stream, so they are kept beside the rest.
    saved: Option<Arc<Saved>>,
}

/// What a run keeps, by what it is.
pub(crate) enum Payload {
    /// The state of the workload, in floating point.
    Statistic(Vec<f64>),
    /// All inputs so far in units of the grid, step after step.
    Inputs(Vec<i64>),
    /// Coordinates with their entries, of a sparse mechanism.
    Cells(Vec<f64>),
    /// The state of the workload, which has seen noisy inputs, and the inputs of the current epoch in units of the grid.
    Epoch {
        /// In floating point.
        statistic: Vec<f64>,
        /// Step after step.
        inputs: Vec<i64>,
    },
}

impl Payload {
    fn tag(&self) -> u64 {
        match self {
            Self::Statistic(_) => 0,
            Self::Inputs(_) => 1,
            Self::Cells(_) => 2,
            Self::Epoch { .. } => 3,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Statistic(values) | Self::Cells(values) => values.len(),
            Self::Inputs(values) => values.len(),
            // The number of inputs stands in front of them.
            Self::Epoch { statistic, inputs } => statistic.len() + 1 + inputs.len(),
        }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        match self {
            Self::Statistic(values) | Self::Cells(values) => values.zeroize(),
            Self::Inputs(values) => values.zeroize(),
            Self::Epoch { statistic, inputs } => {
                statistic.zeroize();
                inputs.zeroize();
            }
        }
    }
}

impl Snapshot {
    pub(crate) fn new(
        identity: Identity,
        dimension: usize,
        step: usize,
        seeds: Seeds,
        payload: Payload,
        witness: Vec<f64>,
    ) -> Self {
        let (releases, attachments) = (Vec::new(), Vec::new());
        Self { identity, dimension, step, seeds, payload, witness, releases, attachments, saved: None }
    }

    /// Adds the numbers that the plan applies.
    pub(crate) fn with_saved(mut self, saved: Option<Arc<Saved>>) -> Self {
        self.saved = saved;
        self
    }

    /// The numbers that the plan applies, where they are known.
    pub(crate) fn saved(&self) -> Option<&Saved> {
        self.saved.as_deref()
    }

    /// The plan to continue with: the given one, or if it differs from the one that the state was begun with in nothing but
    /// how a machine rounds, that one.
    ///
    /// # Errors
    /// [`Error::State`] for another plan, by what is different.
    pub(crate) fn plan_to_continue(&self, plan: Plan, identity: impl Fn(&Plan) -> Identity) -> Result<Plan> {
        let now = identity(&plan);
        if now == self.identity {
            return Ok(plan);
        }
        let rounding = ["coefficients", "sigma"];
        if let Some(saved) = &self.saved
            && self.identity.differs_only_in(&now, &rounding)
        {
            let begun = plan.continuing(saved)?;
            self.check_identity(&identity(&begun))?;
            return Ok(begun);
        }
        self.check_identity(&now)?;
        Ok(plan)
    }

    /// Adds the latest releases, which the receiver may not have seen yet: `dimension` values per step, the last
    /// of them those of the snapshot's own step.
    ///
    /// # Errors
    /// A number of values that is not a multiple of the dimension, or more steps than were released.
    pub fn with_releases(mut self, releases: Vec<f64>) -> Result<Self> {
        if !releases.len().is_multiple_of(self.dimension) || releases.len() / self.dimension > self.step {
            return Err(Error::Dimension {
                what: "the batch of releases",
                expected: self.step.saturating_mul(self.dimension),
                actual: releases.len(),
            });
        }
        self.releases = releases;
        Ok(self)
    }

    /// Adds what somebody needs to continue beside the mechanism, or replaces it. It is sealed with the rest, and read by
    /// whoever knows its name.
    pub fn with_attachment(mut self, name: &str, mut contents: Vec<u8>) -> Self {
        match self.attachments.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => {
                std::mem::swap(old, &mut contents);
                contents.zeroize();
            }
            None => self.attachments.push((name.to_owned(), contents)),
        }
        self
    }

    /// What [`Snapshot::with_attachment`] added under a name: a secret like the rest.
    pub fn attachment(&self, name: &str) -> Option<&[u8]> {
        self.attachments.iter().find(|(known, _)| known == name).map(|(_, contents)| contents.as_slice())
    }

    pub(crate) fn attachments(&self) -> &[(String, Vec<u8>)] {
        &self.attachments
    }

    /// The plan this snapshot belongs to, see [`crate::Plan::identity`].
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The number of coordinates of an input.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The number of releases made.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Where the randomness came from.
    pub fn origin(&self) -> Origin {
        self.seeds.origin()
    }

    /// The latest releases, `dimension` values per step, ending with those of [`Snapshot::step`].
    pub fn releases(&self) -> &[f64] {
        &self.releases
    }

    /// Refuses to be used with another plan, and says what is different.
    pub(crate) fn check_identity(&self, now: &Identity) -> Result<()> {
        let differences = self.identity.differences(now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::State {
            reason: format!(
                "it belongs to another plan: {}; resume with the saved plan, or start a new state elsewhere",
                differences.join("; ")
            ),
        })
    }

    /// Refuses to continue with noise other than that of the last step, bit for bit.
    pub(crate) fn check_witness(&self, now: &[f64]) -> Result<()> {
        if now.iter().map(|value| value.to_bits()).eq(self.witness.iter().map(|value| value.to_bits())) {
            return Ok(());
        }
        Err(Error::State {
            reason: "its noise does not come out the same here; resume with the program and on the kind of machine \
                     that saved it"
                .to_owned(),
        })
    }

    pub(crate) fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    pub(crate) fn payload(&self) -> &Payload {
        &self.payload
    }

    /// All of it as bytes, for a state that holds more than one mechanism: a secret, to be sealed like a [`crate::StateFile`].
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let (identity, secret) = (self.identity.to_string(), self.encode());
        let mut bytes = Zeroizing::new(Vec::with_capacity(8 + identity.len() + secret.len()));
        bytes.extend_from_slice(&(identity.len() as u64).to_le_bytes());
        bytes.extend_from_slice(identity.as_bytes());
        bytes.extend_from_slice(&secret);
        bytes
    }

    /// Reads what [`Snapshot::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::State`] for bytes that are not a snapshot.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let front = || {
            let (length, rest) = bytes.split_first_chunk()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (identity, secret) = rest.split_at_checked(length)?;
            Some((Identity::parse(std::str::from_utf8(identity).ok()?)?, secret))
        };
        let (identity, secret) =
            front().ok_or_else(|| Error::State { reason: "its contents are no snapshot".to_owned() })?;
        Self::decode(identity, secret)
    }

    /// The secret part as bytes: counts as `u64`, values as their bits, all little endian.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let attached: usize =
            self.attachments.iter().map(|(name, contents)| 16 + name.len() + contents.len()).sum();
        let values = self.payload.len() + self.witness.len() + self.releases.len();
        let segments = self.seeds.segments();
        // The exact capacity: a vector that grows would leave copies of the secret behind.
        let length = 9 * 8 + segments.len() * 48 + values * 8 + attached;
        let mut bytes = Zeroizing::new(Vec::with_capacity(length));
        let counts = [
            self.dimension as u64,
            self.step as u64,
            self.payload.tag(),
            self.payload.len() as u64,
            self.witness.len() as u64,
            self.releases.len() as u64,
            self.attachments.len() as u64,
            segments.len() as u64,
            origin_number(self.seeds.origin()),
        ];
        let mut word = |value: u64| bytes.extend_from_slice(&value.to_le_bytes());
        counts.into_iter().for_each(&mut word);
        match &self.payload {
            Payload::Statistic(values) | Payload::Cells(values) => {
                values.iter().for_each(|value| word(value.to_bits()));
            }
            Payload::Inputs(values) => values.iter().for_each(|value| word(value.cast_unsigned())),
            Payload::Epoch { statistic, inputs } => {
                word(inputs.len() as u64);
                inputs.iter().for_each(|value| word(value.cast_unsigned()));
                statistic.iter().for_each(|value| word(value.to_bits()));
            }
        }
        self.witness.iter().chain(&self.releases).for_each(|value| word(value.to_bits()));
        for segment in segments {
            bytes.extend_from_slice(&(segment.part as u64).to_le_bytes());
            bytes.extend_from_slice(&(segment.row as u64).to_le_bytes());
            bytes.extend_from_slice(segment.seed.expose());
        }
        for (name, contents) in &self.attachments {
            bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&(contents.len() as u64).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(contents);
        }
        bytes
    }

    /// Reads what [`Snapshot::encode`] wrote.
    pub(crate) fn decode(identity: Identity, bytes: &[u8]) -> Result<Self> {
        Reader(bytes)
            .snapshot(identity)
            .ok_or_else(|| Error::State { reason: "its contents contradict each other".to_owned() })
    }
}

fn origin_number(origin: Origin) -> u64 {
    match origin {
        Origin::System => 0,
        Origin::Shared => 1,
        Origin::Reproducible => 2,
    }
}

/// What is left to read of a snapshot.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.word()?).ok()
    }

    fn words<T>(&mut self, count: usize, from: impl Fn(u64) -> T) -> Option<Vec<T>> {
        let bytes = self.take(count.checked_mul(8)?)?;
        Some(bytes.as_chunks::<8>().0.iter().map(|word| from(u64::from_le_bytes(*word))).collect())
    }

    fn snapshot(mut self, identity: Identity) -> Option<Snapshot> {
        let (dimension, step, tag, values) = (self.count()?, self.count()?, self.word()?, self.count()?);
        let (witness, releases) = (self.count()?, self.count()?);
        let (attachments, segments, origin) = (self.count()?, self.count()?, self.word()?);
        let origin = match origin {
            0 => Origin::System,
            1 => Origin::Shared,
            2 => Origin::Reproducible,
            _ => return None,
        };
        let payload = match tag {
            0 => Payload::Statistic(self.words(values, f64::from_bits)?),
            1 => Payload::Inputs(self.words(values, u64::cast_signed)?),
            2 => Payload::Cells(self.words(values, f64::from_bits)?),
            3 => {
                let count = self.count()?;
                let inputs = self.words(count, u64::cast_signed)?;
                let rest = values.checked_sub(1)?.checked_sub(count)?;
                Payload::Epoch { statistic: self.words(rest, f64::from_bits)?, inputs }
            }
            _ => return None,
        };
        let witness = self.words(witness, f64::from_bits)?;
        let releases = self.words(releases, f64::from_bits)?;
        let mut seeds = Vec::new();
        for _ in 0..segments {
            let (part, row) = (self.count()?, self.count()?);
            let secret: [u8; 32] = self.take(32)?.try_into().ok()?;
            seeds.push(Segment { part, row, seed: Seed::from_bytes(secret, origin) });
        }
        let seeds = Seeds::from_segments(seeds)?;
        if dimension == 0 {
            return None;
        }
        let mut snapshot = Snapshot::new(identity, dimension, step, seeds, payload, witness);
        snapshot = snapshot.with_releases(releases).ok()?;
        for _ in 0..attachments {
            let (name, contents) = (self.count()?, self.count()?);
            let name = String::from_utf8(self.take(name)?.to_vec()).ok()?;
            let contents = self.take(contents)?.to_vec();
            snapshot = snapshot.with_attachment(&name, contents);
        }
        // What is left is padding.
        self.0.iter().all(|byte| *byte == 0).then_some(snapshot)
    }
}

/// Says which plan and step, and nothing that is secret.
impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshot")
            .field("identity", &self.identity)
            .field("dimension", &self.dimension)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.witness.zeroize();
        self.releases.zeroize();
        for (_, contents) in &mut self.attachments {
            contents.zeroize();
        }
    }
}
