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

    /// The unit of which every change is a multiple: 1 where events are counted.
    fn grid(&self) -> f64 {
        1.0
    }

    /// The calibrated plan in exact integers: the low bits of an answer tell nothing about anybody; see [`Plan::exact`].
    ///
    /// # Errors
    /// What cannot be calibrated, or a strategy that cannot be measured on live data.
    fn plan(&self, strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Plan> {
        Ok(Plan::exact(
            strategy,
            self.footprint()?.of_dimension(width(self.dimension()))?,
            budget,
            self.grid(),
        )?)
    }

    /// The same in floating point, whose low bits can give a person away to whoever studies them; see [`Plan::idealized`].
    ///
    /// # Errors
    /// What cannot be calibrated.
    fn idealized_plan(&self, strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Plan> {
        Ok(Plan::idealized(
            Arc::clone(strategy),
            self.footprint()?.of_dimension(width(self.dimension()))?,
            budget,
        )?)
    }
}

/// A number of coordinates as footprints state it.
pub(crate) fn width(dimension: u64) -> usize {
    usize::try_from(dimension).unwrap_or(usize::MAX)
}

/// A released number and the standard deviation of its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The released value: unbiased. A whole number where events are counted in exact integers.
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
/// use dp_apps::{Counts, Encoding, substrings::Substrings};
/// use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 100)?)?;
/// let encoding = Substrings::new("ACGT".chars(), 3, Relation::Replace)?;
/// let plan = encoding.plan(&strategy, Budget::approximate(1.0, 1e-6)?)?;
/// let mut counts = Counts::new(encoding, plan, Seed::from_system()?)?;
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
    /// [`Seed::reproducible`] for tests and demonstrations. The plan is that of the encoding, [`Encoding::plan`].
    ///
    /// # Errors
    /// A plan for something else that one person can change, or a workload that [`SparseMechanism`] does not serve.
    pub fn new(encoding: E, plan: Plan, seed: Seed) -> Result<Self> {
        check_plan(&encoding, &plan)?;
        Ok(Self { encoding, mechanism: SparseMechanism::new(plan, seed)?, changes: Vec::new() })
    }

    /// Continues where a snapshot was taken. An encoding that remembers events (the last letters of a string) must be
    /// shown the events before the snapshot again: encode them before, or [`Self::replay`] them now. See
    /// [`SparseMechanism::resume`] for what must never be done.
    ///
    /// # Errors
    /// A snapshot of another plan or encoding, a seed of another origin, or as [`Self::new`].
    pub fn resume(encoding: E, plan: Plan, snapshot: &Snapshot, seed: Seed) -> Result<Self> {
        check_plan(&encoding, &plan)?;
        let mechanism = SparseMechanism::resume(plan, snapshot, seed)?;
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
        let value = self.release_of(coordinate)?;
        Ok(Estimate { value: self.plan().on_grid(value), standard_deviation: self.standard_deviation() })
    }

    /// The same before it is rounded, for what is computed from many of them.
    pub(crate) fn release_of(&mut self, coordinate: u64) -> Result<f64> {
        Ok(self.mechanism.ask(coordinate)?)
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
        let standard_deviation = self.standard_deviation() * (length as f64).sqrt();
        Ok(Estimate { value: self.plan().on_grid(value), standard_deviation })
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
        // Rounded only now: rounded values of many coordinates are equal.
        entries.iter_mut().for_each(|(_, value)| *value = self.plan().on_grid(*value));
        Ok(Top { entries, band })
    }

    /// The half-width within which the releases of *all* coordinates after the current step stay at once with
    /// probability `1 - failure`: `σ‖b_t‖ sqrt(2 ln(2d/β))`, and half a unit where answers are rounded to whole ones. (The
    /// exponential moments of discrete Gaussian noise are at most those of the continuous one, so that the tail bound
    /// `2 exp(-x²/2σ²‖b‖²)` holds for both.)
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
        let noise = self.standard_deviation() * (2.0 * (2.0 * values / failure).ln()).sqrt();
        Ok(noise + self.plan().release_unit().unwrap_or(0.0) / 2.0)
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

    /// Everything but the encoding, to continue later: a secret.
    pub fn snapshot(&self) -> Snapshot {
        self.mechanism.snapshot().with_attachment(ATTACHMENT, owner(&self.encoding.identity(), 0))
    }
}

/// Refuses a plan that was not calibrated for what one person can change here.
fn check_plan(encoding: &impl Encoding, plan: &Plan) -> Result<()> {
    if *plan.footprint() == encoding.footprint()?.of_dimension(width(encoding.dimension()))? {
        return Ok(());
    }
    Err(Error::OtherPlan { encoding: encoding.identity() })
}

/// The name under which an application keeps what it needs beside the mechanism.
pub(crate) const ATTACHMENT: &str = "encoding";

/// The attachment of a snapshot begins with the identity of what made it, on a line of its own; `more` bytes follow.
pub(crate) fn owner(identity: &str, more: usize) -> Vec<u8> {
    // The exact capacity: a vector that grows would leave copies of secrets behind.
    let mut attachment = Vec::with_capacity(identity.len() + 1 + more);
    attachment.extend_from_slice(identity.as_bytes());
    attachment.push(b'\n');
    attachment
}

/// Refuses a snapshot that something else has made; returns what follows the identity.
pub(crate) fn check_owner<'a>(snapshot: &'a Snapshot, identity: &str) -> Result<&'a [u8]> {
    let mut parts = snapshot.attachment(ATTACHMENT).unwrap_or_default().splitn(2, |byte| *byte == b'\n');
    let (saved, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if saved == identity.as_bytes() {
        return Ok(rest);
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
