//! Snapshots: everything a mechanism needs to continue, as exact bits.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};
use crate::noise::Seed;

/// A mechanism between two steps.
///
/// The noise is a pure function of seed and step, so a snapshot stores the seed instead of the noise. It also
/// holds the exact statistic: keep it as secret as the data. Wiped from memory on drop, printed without its
/// contents.
pub struct Snapshot {
    identity: String,
    dimension: usize,
    step: usize,
    seed: Seed,
    statistic: Vec<f64>,
    /// The noise of the last step, by which a resumed mechanism proves that it continues the same one.
    noise: Vec<f64>,
    releases: Vec<f64>,
    /// What an application needs beside the mechanism.
    attachment: Vec<u8>,
}

impl Snapshot {
    pub(crate) fn new(
        identity: String,
        dimension: usize,
        step: usize,
        seed: Seed,
        statistic: Vec<f64>,
        noise: Vec<f64>,
    ) -> Self {
        Self {
            identity,
            dimension,
            step,
            seed,
            statistic,
            noise,
            releases: Vec::new(),
            attachment: Vec::new(),
        }
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
                expected: self.step * self.dimension,
                actual: releases.len(),
            });
        }
        self.releases = releases;
        Ok(self)
    }

    /// Adds what an application needs to continue beside the mechanism. It is sealed with the rest, and read by the
    /// application alone.
    pub fn with_attachment(mut self, attachment: Vec<u8>) -> Self {
        self.attachment.zeroize();
        self.attachment = attachment;
        self
    }

    /// What [`Snapshot::with_attachment`] added, nothing otherwise: a secret like the rest.
    pub fn attachment(&self) -> &[u8] {
        &self.attachment
    }

    /// The plan this snapshot belongs to, see [`crate::Plan::identity`].
    pub fn identity(&self) -> &str {
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

    /// The latest releases, `dimension` values per step, ending with those of [`Snapshot::step`].
    pub fn releases(&self) -> &[f64] {
        &self.releases
    }

    /// Refuses to be used with another plan.
    pub(crate) fn check_identity(&self, identity: &str) -> Result<()> {
        if self.identity == identity {
            return Ok(());
        }
        Err(Error::State {
            reason: format!(
                "it belongs to another plan; saved: {}; requested: {identity}; resume with the saved plan, or start a \
                 new state elsewhere",
                self.identity
            ),
        })
    }

    /// Refuses to continue with noise other than that of the last step, bit for bit.
    pub(crate) fn check_noise(&self, noise: &[f64]) -> Result<()> {
        if noise.iter().map(|value| value.to_bits()).eq(self.noise.iter().map(|value| value.to_bits())) {
            return Ok(());
        }
        Err(Error::State {
            reason: "its noise does not come out the same here; resume with the program and on the kind of machine \
                     that saved it"
                .to_owned(),
        })
    }

    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    pub(crate) fn statistic(&self) -> &[f64] {
        &self.statistic
    }

    pub(crate) fn noise(&self) -> &[f64] {
        &self.noise
    }

    /// The secret part as bytes: counts as `u64`, values as the bits of `f64`, all little endian, and the attachment.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let values = self.statistic.len() + self.noise.len() + self.releases.len();
        // The exact capacity: a vector that grows would leave copies of the secret behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(4 * 8 + 32 + values * 8 + self.attachment.len()));
        for count in [self.dimension, self.step, self.statistic.len(), self.releases.len()] {
            bytes.extend_from_slice(&(count as u64).to_le_bytes());
        }
        bytes.extend_from_slice(self.seed.expose());
        for value in self.statistic.iter().chain(&self.noise).chain(&self.releases) {
            bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        bytes.extend_from_slice(&self.attachment);
        bytes
    }

    /// Reads what [`Snapshot::encode`] wrote.
    pub(crate) fn decode(identity: String, bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::State { reason: "its contents contradict each other".to_owned() };
        let (counts, rest) = bytes.split_at_checked(32).ok_or_else(damaged)?;
        let (seed, rest) = rest.split_first_chunk::<32>().ok_or_else(damaged)?;
        let mut lengths = words(counts).map(|word| usize::try_from(word).map_err(|_| damaged()));
        let mut count = || lengths.next().unwrap_or_else(|| Err(damaged()));
        let (dimension, step, statistic, releases) = (count()?, count()?, count()?, count()?);
        let total = statistic.checked_add(dimension).and_then(|total| total.checked_add(releases));
        let length = total.and_then(|total| total.checked_mul(8)).filter(|_| dimension > 0);
        let (values, attachment) =
            length.and_then(|length| rest.split_at_checked(length)).ok_or_else(damaged)?;
        let mut values = words(values).map(f64::from_bits);
        let mut floats = |count: usize| values.by_ref().take(count).collect::<Vec<f64>>();
        let (statistic, noise, releases) = (floats(statistic), floats(dimension), floats(releases));
        Self::new(identity, dimension, step, Seed::from_bytes(*seed), statistic, noise)
            .with_releases(releases)
            .map(|snapshot| snapshot.with_attachment(attachment.to_vec()))
            .map_err(|_| damaged())
    }
}

/// The little-endian words of a byte string.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|chunk| u64::from_le_bytes(*chunk))
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
        self.statistic.zeroize();
        self.noise.zeroize();
        self.releases.zeroize();
        self.attachment.zeroize();
    }
}
