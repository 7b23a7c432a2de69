//! Many coordinates, few of them touched or looked at: a mechanism that costs what is used and not what exists.
//!
//! The noise of the whole release is one matrix `z` with a column per coordinate, and a column is a pure function of
//! the seed and the coordinate. Nobody has to write down the parts of it that are never looked at: a column comes
//! into being when its coordinate is first asked for, and is then run forward to the current step.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::exact::ExactCells;
use crate::identity::Identity;
use crate::noise::{CorrelatedNoise, HashKey, Seed, Seeds, Side, UnitNoise, used_rows};
use crate::plan::{Horizon, Plan};
use crate::snapshot::{Payload, Snapshot};
use crate::workload::{Recurrence, Workload};

/// The largest number of coordinates: each index must be exact in a saved state.
pub const MOST_COORDINATES: u64 = 1 << 53;

/// How many noise values a snapshot carries, by which a resumed mechanism proves that it continues the same noise.
const WITNESSES: usize = 8;

/// A live stream of private releases over a huge number of coordinates, of which a step changes a few and a reader
/// asks for a few: the answer for coordinate s after step t is `(A x_s)_t + σ (B z_s)_t`, as in
/// [`Mechanism`](crate::Mechanism). An exact plan measures every coordinate in integers, as the dense mechanism does, when it is
/// asked for.
///
/// # Privacy
/// The answers are entries of the release of the whole vector, which satisfies the plan's budget, adaptively. Which
/// entries are looked at may depend on earlier answers and on anything public, but **not on the data**: asking for
/// exactly the coordinates that were touched would publish which ones those are. The same step and coordinate always
/// have the same answer, because the column of `z` is a function of the secret seed and the coordinate alone.
///
/// # Complexity
/// A step costs O(1) per changed coordinate. The first question for a coordinate after t steps costs t steps of the
/// strategy's scalar noise filter, every later one the steps since. Memory: the state of the touched coordinates,
/// and one scalar filter for each coordinate that was ever asked for. Of an exact plan all inputs that are not zero are kept, and a
/// step of a coordinate costs one product for each of them beside the sample of noise.
///
/// # Example
/// ```
/// use dp_mechanisms::{Method, Problem, sensitivity::Term};
/// use dp_mechanisms::{Budget, Footprint, Participation, Plan, Relation, Seed, SparseMechanism, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 10)?)?;
/// let term = Term { weight: 1.0, participation: Participation::Single };
/// let footprint = Footprint::encoded(vec![term], Relation::ZeroOut)?.of_dimension(1_000_000)?;
/// let plan = Plan::exact(&strategy, footprint, Budget::approximate(1.0, 1e-6)?, 1.0)?;
/// let mut mechanism = SparseMechanism::new(plan, Seed::from_system()?)?;
/// mechanism.push(&[(123_456, 1.0)])?;
/// let first = mechanism.ask(123_456)?;
/// assert_eq!(mechanism.ask(123_456)?, first, "a question asked twice has one answer");
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct SparseMechanism {
    plan: Plan,
    dimension: u64,
    step: usize,
    seeds: Seeds,
    coordinates: Coordinates,
    /// Room for the changes of a step, added up by coordinate; wiped after every step.
    touched: (Vec<(u64, f64)>, Vec<f64>),
}

/// What is kept of the coordinates that were touched or asked for.
enum Coordinates {
    /// The true statistic and the noise, apart from each other.
    Idealized { cells: HashMap<u64, Cell>, columns: HashMap<u64, Column> },
    /// Integers.
    Exact(Box<ExactCells>),
}

/// The true inputs of one coordinate that still matter, oldest first, each with its step. All workloads but the
/// window need a single entry: the statistic right after the last change.
#[derive(Default)]
struct Cell {
    entries: Vec<(usize, f64)>,
}

impl Cell {
    fn add(&mut self, workload: &Workload, step: usize, value: f64) {
        if let Recurrence::Window { width } = workload.recurrence() {
            self.entries.retain(|(past, _)| past + width > step);
            match self.entries.last_mut() {
                Some((last, sum)) if *last == step => *sum += value,
                _ => append(&mut self.entries, (step, value)),
            }
        } else {
            let sum = self.total(workload, step) + value;
            self.entries.zeroize();
            self.entries.push((step, sum));
        }
    }

    /// The weighted sum after `step`, before the average's division.
    fn total(&self, workload: &Workload, step: usize) -> f64 {
        self.entries.iter().map(|(past, value)| value * workload.weight(step - past)).sum()
    }

    fn statistic(&self, workload: &Workload, step: usize) -> f64 {
        self.total(workload, step) / workload.divisor(step - 1)
    }
}

/// With the room behind them, where older ones stood before they left the window.
impl Drop for Cell {
    fn drop(&mut self) {
        self.entries.zeroize();
    }
}

/// Appends to a vector of secrets: one that grows by itself would leave a copy behind.
pub(crate) fn append<T: Copy + Zeroize>(secrets: &mut Vec<T>, value: T) {
    if secrets.len() == secrets.capacity() {
        let mut larger = Vec::with_capacity(2 * secrets.len().max(2));
        larger.extend_from_slice(secrets);
        secrets.zeroize();
        *secrets = larger;
    }
    secrets.push(value);
}

/// The noise of one coordinate, at the step it was last asked for.
struct Column {
    noise: CorrelatedNoise,
    current: [f64; 1],
}

impl Drop for Column {
    fn drop(&mut self) {
        self.current.zeroize();
    }
}

impl SparseMechanism {
    /// A mechanism before its first step, over the coordinates of the plan's footprint. Where its noise comes from is the
    /// seed's; see [`Mechanism::new`](crate::Mechanism::new).
    ///
    /// # Errors
    /// A footprint that does not state its dimension or has more than [`MOST_COORDINATES`], a plan without an
    /// end or that releases inputs, or a workload without a short state per coordinate (polynomial decay, given weights, momentum).
    pub fn new(plan: Plan, seed: Seed) -> Result<Self> {
        Self::with_seeds(plan, seed.into())
    }

    fn with_seeds(plan: Plan, seeds: Seeds) -> Result<Self> {
        let dimension = plan.dimension()? as u64;
        if dimension > MOST_COORDINATES {
            return Err(Error::OutOfRange {
                what: "dimension",
                value: dimension as f64,
                range: "an integer from 1 to 2^53",
            });
        }
        if !matches!(plan.horizon(), Horizon::Steps(_)) || plan.releases_inputs() {
            return Err(Error::NotApplicable {
                strategy: plan.strategy().name(),
                workload: plan.workload().to_string(),
                reason: "a sparse mechanism releases statistics of a known number of steps",
            });
        }
        let workload = plan.strategy().workload();
        if !matches!(workload.recurrence(), Recurrence::First { .. } | Recurrence::Window { .. }) {
            return Err(Error::NotApplicable {
                strategy: plan.strategy().name(),
                workload: workload.to_string(),
                reason: "a sparse mechanism serves count, average, window and exponential decay",
            });
        }
        // A coordinate that a step does not change has input 0 in that step.
        plan.footprint().domain().check(1, &[0.0])?;
        let coordinates = match plan.integers() {
            Some(exact) => Coordinates::Exact(Box::new(ExactCells::new(exact, seeds.duplicate()))),
            None => Coordinates::Idealized { cells: HashMap::new(), columns: HashMap::new() },
        };
        Ok(Self { plan, dimension, step: 0, seeds, coordinates, touched: Default::default() })
    }

    /// Takes the changes of the next step; changes of one coordinate add up, and a coordinate without a change has
    /// input 0.
    ///
    /// # Errors
    /// A step past the horizon, a coordinate out of range, NaN, infinities, or changes that add up to an input outside the
    /// declared domain. The mechanism is then as before.
    pub fn push(&mut self, changes: &[(u64, f64)]) -> Result<usize> {
        let step = self.step + 1;
        if step > self.plan.steps() {
            return Err(Error::HorizonReached { horizon: self.plan.steps() });
        }
        self.check_changes(step, changes)?;
        match &mut self.coordinates {
            Coordinates::Idealized { cells, .. } => {
                let workload = self.plan.strategy().workload();
                for (coordinate, value) in changes {
                    cells.entry(*coordinate).or_default().add(workload, step, *value);
                }
            }
            Coordinates::Exact(cells) => cells.take(step),
        }
        self.step = step;
        Ok(step)
    }

    /// The release of one coordinate after the current step.
    ///
    /// # Errors
    /// A coordinate out of range, or no step taken yet.
    pub fn ask(&mut self, coordinate: u64) -> Result<f64> {
        self.check_coordinate(coordinate)?;
        if self.step == 0 {
            return Err(Error::OutOfRange {
                what: "number of steps before a question",
                value: 0.0,
                range: "an integer of at least 1",
            });
        }
        let noise = match &mut self.coordinates {
            Coordinates::Exact(cells) => return cells.ask(coordinate, self.step),
            Coordinates::Idealized { .. } => self.noise(coordinate)?,
        };
        let Coordinates::Idealized { cells, .. } = &self.coordinates else { return Ok(noise) };
        let workload = self.plan.strategy().workload();
        let statistic = cells.get(&coordinate).map_or(0.0, |cell| cell.statistic(workload, self.step));
        Ok(statistic + self.plan.sigma() * noise)
    }

    /// The releases of one coordinate after every step since it was last asked for (since the first, where it never was, or
    /// the mechanism was resumed), appended in order. All of them are entries of the one release of the whole vector.
    ///
    /// # Errors
    /// A coordinate out of range, or a plan that is not exact.
    pub fn ask_since(&mut self, coordinate: u64, releases: &mut Vec<f64>) -> Result<()> {
        self.check_coordinate(coordinate)?;
        match &mut self.coordinates {
            Coordinates::Exact(cells) => {
                cells.ask_each(coordinate, self.step, &mut |release| releases.push(release)).map(|_| ())
            }
            Coordinates::Idealized { .. } => Err(Error::NotApplicable {
                strategy: self.plan.strategy().name(),
                workload: self.plan.workload().to_string(),
                reason: "past steps of a coordinate can be asked for in exact arithmetic only",
            }),
        }
    }

    /// The secret of a keyed hash for one purpose, which follows from the first seed: the same through every resume,
    /// independent of the noise.
    pub fn hash_key(&self, purpose: &str) -> HashKey {
        HashKey::derive(self.seeds.seed(0), purpose)
    }

    /// The number of steps taken.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The number of coordinates.
    pub fn dimension(&self) -> u64 {
        self.dimension
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Everything needed to continue later. It holds the seed and the true statistic: a secret.
    ///
    /// # Complexity
    /// The touched coordinates; no noise is stored.
    pub fn snapshot(&self) -> Snapshot {
        let numbers = match &self.coordinates {
            Coordinates::Idealized { cells, columns } => {
                let witnesses = columns
                    .iter()
                    .filter(|(_, column)| column.noise.step() == self.step)
                    .map(|(coordinate, column)| (*coordinate, column.current[0]))
                    .collect();
                let cells = cells.iter().map(|(coordinate, cell)| (*coordinate, cell.entries.as_slice()));
                saved_numbers(witnesses, cells.collect(), |(step, value)| [*step as f64, *value])
            }
            Coordinates::Exact(cells) => {
                let witnesses = cells.witnesses(self.step).collect();
                // Units are below 2^53, and so exact.
                saved_numbers(witnesses, cells.inputs().collect(), |(step, units)| {
                    [*step as f64, *units as f64]
                })
            }
        };
        let payload = Payload::Cells(numbers);
        Snapshot::new(identity(&self.plan), 1, self.step, self.seeds.duplicate(), payload, Vec::new())
            .with_saved(self.plan.saved())
    }

    /// Continues where a snapshot was taken, with the very same noise: a question that was already answered after the
    /// snapshot's step has the same answer again.
    ///
    /// # Privacy
    /// As [`Mechanism::resume`](crate::Mechanism::resume): never continue twice with different data.
    ///
    /// # Errors
    /// A snapshot of another plan or dimension, or one whose contents do not fit.
    pub fn resume(plan: Plan, snapshot: &Snapshot, seed: Seed) -> Result<Self> {
        let plan = snapshot.plan_to_continue(plan, identity)?;
        if snapshot.step() > plan.steps() {
            return Err(crate::run::unfit("it is past its horizon"));
        }
        let mut seeds = snapshot.seeds().duplicate();
        seeds.continue_with(0, used_rows(plan.strategy().as_ref(), snapshot.step())?, seed)?;
        let mut mechanism = Self::with_seeds(plan, seeds)?;
        let damaged = || Error::State { reason: "its contents do not fit the plan".to_owned() };
        let Payload::Cells(numbers) = snapshot.payload() else { return Err(damaged()) };
        mechanism.step = snapshot.step();
        let (count, numbers) = numbers.split_first().ok_or_else(damaged)?;
        let (witnesses, mut numbers) =
            numbers.split_at_checked((*count as usize).saturating_mul(2)).ok_or_else(damaged)?;
        while let [coordinate, length, rest @ ..] = numbers {
            let entries = rest.get(..(*length as usize).saturating_mul(2)).ok_or_else(damaged)?;
            numbers = &rest[entries.len()..];
            mechanism.check_coordinate(*coordinate as u64).map_err(|_| damaged())?;
            let mut entries = entries.chunks_exact(2).map(|pair| (pair[0] as usize, pair[1]));
            match &mut mechanism.coordinates {
                Coordinates::Idealized { cells, .. } => {
                    cells.insert(*coordinate as u64, Cell { entries: entries.collect() });
                }
                Coordinates::Exact(cells) => {
                    let until = mechanism.step;
                    entries.try_for_each(|(step, units)| {
                        let fits = step < until && units.fract() == 0.0 && units.abs() < 2.0_f64.powi(53);
                        let added = fits && cells.restore(*coordinate as u64, step, units as i64);
                        if added { Ok(()) } else { Err(damaged()) }
                    })?;
                }
            }
        }
        if !numbers.is_empty() {
            return Err(damaged());
        }
        for witness in witnesses.chunks_exact(2) {
            let (coordinate, step) = (witness[0] as u64, mechanism.step);
            let noise = match &mut mechanism.coordinates {
                Coordinates::Exact(cells) => cells.measurement(coordinate, step)?,
                Coordinates::Idealized { .. } => mechanism.noise(coordinate)?,
            };
            if noise.to_bits() != witness[1].to_bits() {
                return Err(Error::State {
                    reason: "its noise does not come out the same here; resume with the program and on the kind of \
                             machine that saved it"
                        .to_owned(),
                });
            }
        }
        // Nobody has asked yet.
        match &mut mechanism.coordinates {
            Coordinates::Exact(cells) => cells.forget_questions(),
            Coordinates::Idealized { columns, .. } => columns.clear(),
        }
        Ok(mechanism)
    }

    /// The noise of a coordinate at the current step, of unit σ.
    fn noise(&mut self, coordinate: u64) -> Result<f64> {
        // Exact plans have no noise apart from their measurements.
        let Coordinates::Idealized { columns, .. } = &mut self.coordinates else { return Ok(0.0) };
        let column = match columns.entry(coordinate) {
            Entry::Occupied(column) => column.into_mut(),
            Entry::Vacant(place) => {
                let source = Box::new(ColumnSource::new(self.seeds.duplicate(), coordinate));
                let strategy = self.plan.strategy().as_ref();
                let noise = CorrelatedNoise::new(strategy, 1, Side::Output, source)?;
                place.insert(Column { noise, current: [0.0] })
            }
        };
        column.noise.skip_to(self.step, &mut column.current)?;
        Ok(column.current[0])
    }

    /// Refuses changes that add up to an input outside the declared domain.
    fn check_changes(&mut self, step: usize, changes: &[(u64, f64)]) -> Result<()> {
        changes.iter().try_for_each(|(coordinate, _)| self.check_coordinate(*coordinate))?;
        let domain = self.plan.footprint().domain();
        let (touched, values) = &mut self.touched;
        touched.clear();
        values.clear();
        touched.extend_from_slice(changes);
        // In place: a stable sort would keep a copy elsewhere.
        touched.sort_unstable_by_key(|(coordinate, _)| *coordinate);
        touched.dedup_by(|later, sum| {
            let same = later.0 == sum.0;
            if same {
                sum.1 += later.1;
            }
            same
        });
        values.extend(touched.iter().map(|(_, value)| *value));
        let outcome = match (&mut self.coordinates, self.plan.integers()) {
            (Coordinates::Exact(cells), Some(exact)) => cells.stage(exact, step, touched, values),
            _ => domain.check(step, values),
        };
        let outcome = outcome.map_err(|error| {
            let place = |index: usize| {
                touched.get(index).map_or(index, |(at, _)| usize::try_from(*at).unwrap_or(usize::MAX))
            };
            match error {
                Error::NonFiniteInput { step, index, value } => {
                    Error::NonFiniteInput { step, index: place(index), value }
                }
                Error::OutOfBounds { step, index, value, low, high } => {
                    Error::OutOfBounds { step, index: place(index), value, low, high }
                }
                other => other,
            }
        });
        values.zeroize();
        // With the room behind them, from where changes of one coordinate moved together.
        touched.zeroize();
        outcome
    }

    fn check_coordinate(&self, coordinate: u64) -> Result<()> {
        if coordinate < self.dimension {
            return Ok(());
        }
        Err(Error::OutOfRange {
            what: "coordinate",
            value: coordinate as f64,
            range: "below the dimension of the mechanism",
        })
    }
}

/// Sparse and dense mechanisms read different matrices `z` from one seed; a state of one is refused by the other.
fn identity(plan: &Plan) -> Identity {
    plan.identity().with("coordinates", "made when asked for")
}

/// Witnesses, and of every coordinate its entries, in order.
fn saved_numbers<T>(
    mut witnesses: Vec<(u64, f64)>,
    mut cells: Vec<(u64, &[T])>,
    number: impl Fn(&T) -> [f64; 2],
) -> Vec<f64> {
    witnesses.sort_unstable_by_key(|(coordinate, _)| *coordinate);
    witnesses.truncate(WITNESSES);
    cells.sort_unstable_by_key(|(coordinate, _)| *coordinate);
    let cell_numbers: usize = cells.iter().map(|(_, entries)| 2 + 2 * entries.len()).sum();
    let mut numbers = Vec::with_capacity(1 + 2 * witnesses.len() + cell_numbers);
    numbers.push(witnesses.len() as f64);
    numbers.extend(witnesses.iter().flat_map(|(coordinate, noise)| [*coordinate as f64, *noise]));
    for (coordinate, entries) in cells {
        numbers.extend([coordinate as f64, entries.len() as f64]);
        numbers.extend(entries.iter().flat_map(&number));
    }
    numbers
}

/// Neither noise nor true state leaves through a debug print.
impl fmt::Debug for SparseMechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SparseMechanism")
            .field("plan", &self.plan)
            .field("dimension", &self.dimension)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// One column of `z`: a ChaCha20 stream of its own, cut into chunks of rows so that any row is found quickly.
struct ColumnSource {
    seeds: Seeds,
    coordinate: u64,
    /// The generator, the segment of its seed, and the row that it makes next.
    running: Option<(ChaCha20Rng, usize, usize)>,
}

/// Rows per chunk.
const CHUNK: usize = 64;

/// Distance between chunks in the stream, in 32-bit words; a chunk needs about 131.
const WORDS_PER_CHUNK: u128 = 1 << 16;

impl ColumnSource {
    fn new(seeds: impl Into<Seeds>, coordinate: u64) -> Self {
        Self { seeds: seeds.into(), coordinate, running: None }
    }

    /// The generator before a row.
    fn before(&self, row: usize) -> ChaCha20Rng {
        let seed = self.seeds.seed(self.seeds.segment_of(row));
        let mut generator = ChaCha20Rng::from_seed(*seed.expose());
        generator.set_stream(self.coordinate);
        generator.set_word_pos((row / CHUNK) as u128 * WORDS_PER_CHUNK);
        for _ in 0..row % CHUNK {
            let _: f64 = StandardNormal.sample(&mut generator);
        }
        generator
    }
}

impl UnitNoise for ColumnSource {
    fn fill_range(&self, row: usize, _first: usize, out: &mut [f64]) {
        out.fill(StandardNormal.sample(&mut self.before(row)));
    }

    fn fill_row(&mut self, row: usize, out: &mut [f64]) {
        let segment = self.seeds.segment_of(row);
        let mut generator = match self.running.take() {
            Some((generator, same, next)) if (same, next) == (segment, row) && !row.is_multiple_of(CHUNK) => {
                generator
            }
            _ => self.before(row),
        };
        out.fill(StandardNormal.sample(&mut generator));
        self.running = Some((generator, segment, row + 1));
    }
}

#[cfg(test)]
mod tests;
