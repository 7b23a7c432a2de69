//! What all counting applications share: an encoding in front of the sparse mechanism, and questions to it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{
    Budget, Footprint, Participation, Plan, Relation, Seed, Snapshot, SparseMechanism, Strategy,
};

use crate::error::{Error, Result};

/// Events as sparse changes of a vector, with a proof of how far one person can move it.
pub trait Encoding {
    /// What arrives at one step.
    type Event: ?Sized;

    /// The number of coordinates.
    fn dimension(&self) -> u64;

    /// What one person can change. The implementation's documentation holds the proof.
    ///
    /// # Errors
    /// Parameters for which nothing can be proved.
    fn footprint(&self) -> Result<Footprint>;

    /// Appends the changes that the event makes. On an error the encoding is as before.
    ///
    /// # Errors
    /// An event outside the public rules of the encoding.
    fn encode(&mut self, event: &Self::Event, changes: &mut Vec<(u64, f64)>) -> Result<()>;

    /// A line that two encodings share only if every event and every coordinate means the same to both. A state that one
    /// has saved is refused by the other: its counts would appear under other names.
    fn identity(&self) -> String;

    /// The name of a coordinate, if there is such a coordinate.
    fn label(&self, coordinate: u64) -> Option<String>;

    /// The coordinate with a name, if there is one.
    fn coordinate(&self, label: &str) -> Option<u64>;
}

/// A released number and the standard deviation of its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The released value: unbiased.
    pub value: f64,
    /// The standard deviation of its noise.
    pub standard_deviation: f64,
}

/// The coordinates with the largest released values.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// Coordinates and released values, largest first.
    pub entries: Vec<(u64, f64)>,
    /// With the stated probability *every* released value, reported or not, is within this distance of the truth.
    /// Then no coordinate that is missing here exceeds one that is present by more than twice this distance.
    pub band: f64,
}

/// An application at work: events in, private answers out.
///
/// # Privacy
/// That of [`SparseMechanism`]: everything that is ever asked, together, satisfies the budget under the encoding's
/// footprint, adaptively. What is asked must not depend on the events except through earlier answers. Sums over
/// ranges and the largest values are computed from answers, and cost nothing.
///
/// # Example
/// ```
/// use dp_apps::{Counts, substrings::Substrings};
/// use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 100)?)?;
/// let encoding = Substrings::new("ACGT".chars(), 3, Relation::Replace)?;
/// let mut counts = Counts::new(encoding, strategy, Budget::approximate(1.0, 1e-6)?, Seed::from_system()?)?;
/// for base in "GATTACA".chars() {
///     counts.push(&Some(base))?;
/// }
/// let estimate = counts.count("ATT")?;
/// println!("ATT: {:.0} ± {:.0}", estimate.value, estimate.standard_deviation);
/// # Ok::<(), dp_apps::Error>(())
/// ```
pub struct Counts<E> {
    encoding: E,
    mechanism: SparseMechanism,
    changes: Vec<(u64, f64)>,
}

/// The most coordinates that are all asked for to find the largest: each keeps its noise from then on.
const MOST_COMPARED: u64 = 1 << 22;

/// Neither events nor what an encoding remembers of them leave through a debug print.
impl<E: Encoding> fmt::Debug for Counts<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Counts")
            .field("encoding", &self.encoding.identity())
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

impl<E: Encoding> Counts<E> {
    /// Starts. Where the noise comes from is the seed's: [`Seed::from_system`] for answers that are private,
    /// [`Seed::reproducible`] for tests and demonstrations.
    ///
    /// # Errors
    /// What cannot be calibrated, or a workload that [`SparseMechanism`] does not serve.
    pub fn new(encoding: E, strategy: Arc<dyn Strategy>, budget: Budget, seed: Seed) -> Result<Self> {
        let mechanism = SparseMechanism::new(plan(&encoding, strategy, budget)?, seed)?;
        Ok(Self { encoding, mechanism, changes: Vec::new() })
    }

    /// Starts in exact integers: what a coordinate changes by must be whole numbers, and the low bits of an answer tell
    /// nothing about anybody; see [`Plan::exact`].
    ///
    /// # Errors
    /// As [`Self::new`], or a strategy that cannot be measured on live data.
    ///
    /// # Example
    /// ```
    /// use dp_apps::{Counts, substrings::Substrings};
    /// use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};
    /// let strategy = Method::ScaledBlt.build(&Problem::new(Workload::count(), 100)?)?;
    /// let encoding = Substrings::new("ACGT".chars(), 3, Relation::Replace)?;
    /// let budget = Budget::approximate(1.0, 1e-6)?;
    /// let mut counts = Counts::exact(encoding, &strategy, budget, Seed::from_system()?)?;
    /// counts.push(&Some('G'))?;
    /// assert!(counts.count("G")?.value.is_finite());
    /// # Ok::<(), dp_apps::Error>(())
    /// ```
    pub fn exact(encoding: E, strategy: &Arc<dyn Strategy>, budget: Budget, seed: Seed) -> Result<Self> {
        let mechanism = SparseMechanism::new(exact_plan(&encoding, strategy, budget)?, seed)?;
        Ok(Self { encoding, mechanism, changes: Vec::new() })
    }

    /// [`Self::resume`] of exact integers.
    ///
    /// # Errors
    /// As [`Self::resume`].
    pub fn resume_exact(
        encoding: E,
        strategy: &Arc<dyn Strategy>,
        budget: Budget,
        snapshot: &Snapshot,
        seed: Seed,
    ) -> Result<Self> {
        let mechanism = SparseMechanism::resume(exact_plan(&encoding, strategy, budget)?, snapshot, seed)?;
        check_owner(snapshot, &encoding.identity())?;
        Ok(Self { encoding, mechanism, changes: Vec::new() })
    }

    /// Continues where a snapshot was taken. An encoding that remembers events (the last letters of a string) must be
    /// shown the events before the snapshot again: encode them before, or [`Self::replay`] them now. See
    /// [`SparseMechanism::resume`] for what must never be done.
    ///
    /// # Errors
    /// A snapshot of another plan or encoding, or a seed of another origin.
    pub fn resume(
        encoding: E,
        strategy: Arc<dyn Strategy>,
        budget: Budget,
        snapshot: &Snapshot,
        seed: Seed,
    ) -> Result<Self> {
        let mechanism = SparseMechanism::resume(plan(&encoding, strategy, budget)?, snapshot, seed)?;
        check_owner(snapshot, &encoding.identity())?;
        Ok(Self { encoding, mechanism, changes: Vec::new() })
    }

    /// Shows the encoding an event that was counted before the snapshot; nothing is counted again.
    ///
    /// # Errors
    /// An event outside the rules.
    pub fn replay(&mut self, event: &E::Event) -> Result<()> {
        self.changes.clear();
        self.encoding.encode(event, &mut self.changes)
    }

    /// Takes the event of the next step.
    ///
    /// # Errors
    /// An event outside the rules, or a step past the horizon; nothing has changed then.
    pub fn push(&mut self, event: &E::Event) -> Result<usize> {
        // The horizon is checked first: an encoding that has taken an event cannot give it back.
        let horizon = self.mechanism.plan().steps();
        if self.mechanism.step() >= horizon {
            return Err(dp_mechanisms::Error::HorizonReached { horizon }.into());
        }
        self.changes.clear();
        self.encoding.encode(event, &mut self.changes)?;
        Ok(self.mechanism.push(&self.changes)?)
    }

    /// The release of one coordinate after the current step.
    ///
    /// # Errors
    /// No step taken yet, or no such coordinate.
    pub fn ask(&mut self, coordinate: u64) -> Result<Estimate> {
        let value = self.mechanism.ask(coordinate)?;
        Ok(Estimate { value, standard_deviation: self.standard_deviation() })
    }

    /// The release of a coordinate by its name.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn count(&mut self, label: &str) -> Result<Estimate> {
        let coordinate = self
            .encoding
            .coordinate(label)
            .ok_or_else(|| Error::Unknown { what: "name", text: label.to_owned() })?;
        self.ask(coordinate)
    }

    /// The sum over a range of coordinates; its variance is the length of the range times that of one coordinate.
    ///
    /// # Complexity
    /// One question for each coordinate.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn range(&mut self, range: Range<u64>) -> Result<Estimate> {
        let length = range.end.saturating_sub(range.start);
        let mut value = 0.0;
        for coordinate in range {
            value += self.mechanism.ask(coordinate)?;
        }
        Ok(Estimate { value, standard_deviation: self.standard_deviation() * (length as f64).sqrt() })
    }

    /// The `size` coordinates with the largest releases after the current step, with the [`Self::band`] that all
    /// coordinates keep with probability `1 - failure`.
    ///
    /// # Complexity
    /// One question for every coordinate there is, and O(size) memory beyond that of the questions.
    ///
    /// # Errors
    /// As [`Self::ask`] and [`Self::band`]; more than 2^22 coordinates, of which only named ones can be asked for.
    pub fn top(&mut self, size: usize, failure: f64) -> Result<Top> {
        let band = self.band(failure)?;
        let dimension = self.mechanism.dimension();
        if dimension > MOST_COMPARED {
            return Err(Error::OutOfRange {
                what: "number of items among which to find the largest",
                value: dimension as f64,
                range: "at most 2^22; ask for items by name instead",
            });
        }
        let size = size.min(dimension as usize);
        let largest_first = |left: &(u64, f64), right: &(u64, f64)| right.1.total_cmp(&left.1);
        let mut entries = Vec::new();
        for coordinate in 0..dimension {
            entries.push((coordinate, self.mechanism.ask(coordinate)?));
            if entries.len() > 2 * size + 64 {
                entries.select_nth_unstable_by(size, largest_first);
                entries.truncate(size);
            }
        }
        entries.sort_by(largest_first);
        entries.truncate(size);
        Ok(Top { entries, band })
    }

    /// The half-width within which the releases of *all* coordinates after the current step stay at once with
    /// probability `1 - failure`: `σ‖b_t‖ sqrt(2 ln(2d/β))`.
    ///
    /// # Errors
    /// A failure probability outside (0, 1).
    pub fn band(&self, failure: f64) -> Result<f64> {
        if !(failure > 0.0 && failure < 1.0) {
            return Err(Error::OutOfRange {
                what: "failure probability",
                value: failure,
                range: "strictly between 0 and 1",
            });
        }
        let values = self.mechanism.dimension() as f64;
        Ok(self.standard_deviation() * (2.0 * (2.0 * values / failure).ln()).sqrt())
    }

    /// The standard deviation of every release after the current step; 0 before the first.
    pub fn standard_deviation(&self) -> f64 {
        self.plan().standard_deviation(self.step()).unwrap_or(0.0)
    }

    /// The number of steps taken.
    pub fn step(&self) -> usize {
        self.mechanism.step()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.mechanism.plan()
    }

    /// The encoding.
    pub fn encoding(&self) -> &E {
        &self.encoding
    }

    /// Everything but the encoding, to continue later: a secret. A note of the caller's is kept with it, see [`note`].
    pub fn snapshot(&self, note: &[u8]) -> Snapshot {
        self.mechanism.snapshot().with_attachment(ATTACHMENT, owner(&self.encoding.identity(), note, 0))
    }
}

/// The plan of an encoding.
fn plan(encoding: &impl Encoding, strategy: Arc<dyn Strategy>, budget: Budget) -> Result<Plan> {
    let dimension = usize::try_from(encoding.dimension()).unwrap_or(usize::MAX);
    Ok(Plan::new(strategy, encoding.footprint()?.of_dimension(dimension)?, budget)?)
}

/// The same in exact integers.
fn exact_plan(encoding: &impl Encoding, strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Plan> {
    let dimension = usize::try_from(encoding.dimension()).unwrap_or(usize::MAX);
    Ok(Plan::exact(strategy, encoding.footprint()?.of_dimension(dimension)?, budget, 1.0)?)
}

/// The name under which an application keeps what it needs beside the mechanism.
pub(crate) const ATTACHMENT: &str = "encoding";

/// The note that was given to [`Counts::snapshot`], or to that of a
/// [`Discovery`](crate::histogram::discovery::Discovery).
pub fn note(snapshot: &Snapshot) -> &[u8] {
    let mut parts = snapshot.attachment(ATTACHMENT).unwrap_or_default().splitn(2, |byte| *byte == b'\n');
    parts.nth(1).and_then(split_note).map_or(&[], |(note, _)| note)
}

/// A note behind its length, and what follows it.
fn split_note(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// The attachment of a snapshot begins with the identity of what made it, on a line of its own, and a note behind its
/// length; `more` bytes follow.
pub(crate) fn owner(identity: &str, note: &[u8], more: usize) -> Vec<u8> {
    // The exact capacity: a vector that grows would leave copies of secrets behind.
    let mut attachment = Vec::with_capacity(identity.len() + 9 + note.len() + more);
    attachment.extend_from_slice(identity.as_bytes());
    attachment.push(b'\n');
    attachment.extend_from_slice(&(note.len() as u64).to_le_bytes());
    attachment.extend_from_slice(note);
    attachment
}

/// Refuses a snapshot that something else has made; returns what follows the identity and the note.
pub(crate) fn check_owner<'a>(snapshot: &'a Snapshot, identity: &str) -> Result<&'a [u8]> {
    let mut parts = snapshot.attachment(ATTACHMENT).unwrap_or_default().splitn(2, |byte| *byte == b'\n');
    let (saved, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if saved == identity.as_bytes() {
        return split_note(rest).map(|(_, rest)| rest).ok_or_else(|| {
            dp_mechanisms::Error::State {
                reason: "what an application added to it cannot be read".to_owned(),
            }
            .into()
        });
    }
    let reason = format!(
        "it counts something else; saved: {}; requested: {identity}; resume with the same items in the same order, or \
         start a new state elsewhere",
        String::from_utf8_lossy(saved)
    );
    Err(dp_mechanisms::Error::State { reason }.into())
}

/// A short line for a list of names in their order: its length and the FNV-1a hash of its bytes. It guards against
/// mistakes, not against attacks; the names are public.
pub(crate) fn digest<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    // A byte that no text contains ends each name.
    let bytes = names.flat_map(|name| name.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{count} names {hash:016x}")
}

/// Parts of a footprint over coordinates that are counted: `number` coordinates with the same participation. Counts
/// rise and fall at different steps, so the columns of the strategy must not work against each other.
pub(crate) fn unit_terms(
    numbers: impl IntoIterator<Item = (Participation, f64)>,
    relation: Relation,
) -> Result<Footprint> {
    let mut merged: Vec<(Participation, f64)> = Vec::new();
    for (participation, number) in numbers {
        match merged.iter_mut().find(|(known, _)| *known == participation) {
            Some((_, sum)) => *sum += number,
            None => merged.push((participation, number)),
        }
    }
    let terms = merged
        .into_iter()
        .filter(|(_, number)| *number > 0.0)
        .map(|(participation, number)| Term { weight: root_up(number), participation })
        .collect();
    Ok(Footprint::encoded(terms, relation)?.needing_non_negative_columns())
}

/// A square root whose square is not below the number.
pub(crate) fn root_up(number: f64) -> f64 {
    let root = number.sqrt();
    if root * root == number && root.fract() == 0.0 { root } else { root.next_up() }
}
