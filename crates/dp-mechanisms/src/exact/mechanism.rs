//! The exact mechanism: push an input, get the release.

use std::fmt;

use zeroize::Zeroize;

use super::decode::Decoder;
use super::measure::Measure;
use super::noise::IntegerNoise;
use super::plan::ExactPlan;
use crate::durable::Resumable;
use crate::error::{Error, Result};
use crate::mechanism::{Release, check_vectors};
use crate::noise::Seed;
use crate::snapshot::Snapshot;

/// A live stream of private releases that floating point cannot betray.
///
/// A step measures `y = C̃x + z` in integers and releases `A C̃⁻¹ y`. Only y has touched data; everything after it is
/// post-processing in f64.
///
/// A mechanism is not `Clone` (two copies would answer twice with one noise), prints neither its noise nor its inputs, and
/// wipes both from memory when it is dropped.
///
/// # Privacy
/// All releases together satisfy the plan's budget under its footprint, also when inputs depend on earlier releases,
/// and also for somebody who sees every bit of them. That an input was refused is visible to whoever sees the error.
///
/// # Complexity
/// Per step and coordinate amortized O(log² n) for Toeplitz strategies, O(log n) for trees, O(n) for dense ones, and one
/// sample of exact noise per measurement. Memory: the horizon times the dimension. Nothing is allocated per step.
///
/// # Example
/// ```
/// use dp_mechanisms::exact::{ExactBudget, ExactMechanism, ExactPlan};
/// use dp_mechanisms::{Footprint, Method, Participation, Problem, Relation, Workload};
/// let strategy = Method::BinaryTree.build(&Problem::new(Workload::count(), 3)?)?;
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let plan = ExactPlan::new(&strategy, footprint, 1, 1.0, ExactBudget::pure(1.0)?)?;
/// let mut mechanism = ExactMechanism::new(plan)?;
/// let mut count = [0.0];
/// for visit in [1.0, 0.0, 1.0] {
///     let release = mechanism.release(&[visit], &mut count)?;
///     println!("step {}: {} ± {}", release.step, count[0], release.standard_deviation);
/// }
/// assert!(mechanism.release(&[1.0], &mut count).is_err(), "the horizon is over");
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct ExactMechanism {
    plan: ExactPlan,
    seed: Seed,
    measure: Measure,
    noise: IntegerNoise,
    decoder: Decoder,
    /// The input of the current step in grid units.
    units: Vec<i64>,
    /// The measurements of the current step.
    measured: Vec<i128>,
}

impl ExactMechanism {
    /// A mechanism with secret noise from the operating system.
    ///
    /// # Errors
    /// No system randomness, or what the numeric core refuses.
    pub fn new(plan: ExactPlan) -> Result<Self> {
        Self::with_seed(plan, Seed::from_system()?)
    }

    /// A mechanism whose noise anybody who knows the seed can repeat and subtract: for tests, demonstrations and
    /// reproductions only. Its releases are **not private** under a [`Seed::reproducible`] seed.
    ///
    /// # Errors
    /// What the numeric core refuses.
    pub fn reproducible(plan: ExactPlan, seed: Seed) -> Result<Self> {
        Self::with_seed(plan, seed)
    }

    fn with_seed(plan: ExactPlan, seed: Seed) -> Result<Self> {
        let dimension = plan.dimension();
        let measure = Measure::new(plan.shared_strategy(), dimension, plan.lattice().magnitude());
        let decoder = Decoder::new(plan.shared_strategy(), dimension, measure.most_rows())?;
        let noise = IntegerNoise::new(seed.duplicate(), dimension, plan.sampler());
        let measured = vec![0; measure.most_rows() * dimension];
        Ok(Self { plan, seed, measure, noise, decoder, units: vec![0; dimension], measured })
    }

    /// Takes the input of the next step, rounded to the grid, and writes the release after it.
    ///
    /// # Errors
    /// A step past the horizon, a wrong number of coordinates, NaN, infinities, or an input outside the declared domain.
    /// The mechanism is then exactly as before, and the output untouched.
    pub fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release> {
        let (step, standard_deviation) = self.next_step()?;
        check_vectors(self.plan.dimension(), input, output)?;
        self.plan.lattice().round(step, input, &mut self.units)?;
        self.advance(output)?;
        Ok(Release { step, standard_deviation })
    }

    /// As [`Self::release`], for inputs in grid units.
    ///
    /// # Errors
    /// As [`Self::release`].
    pub fn release_units(&mut self, units: &[i64], output: &mut [f64]) -> Result<Release> {
        let (step, standard_deviation) = self.next_step()?;
        for (what, actual) in [("the input", units.len()), ("the output buffer", output.len())] {
            if actual != self.plan.dimension() {
                return Err(Error::Dimension { what, expected: self.plan.dimension(), actual });
            }
        }
        self.plan.lattice().check_units(step, units)?;
        self.units.copy_from_slice(units);
        self.advance(output)?;
        Ok(Release { step, standard_deviation })
    }

    fn next_step(&self) -> Result<(usize, f64)> {
        let step = self.step() + 1;
        let deviation = self.plan.standard_deviation(step);
        deviation
            .map(|deviation| (step, deviation))
            .ok_or(Error::HorizonReached { horizon: self.plan.steps() })
    }

    /// One step with the input in `units`.
    fn advance(&mut self, output: &mut [f64]) -> Result<()> {
        let dimension = self.plan.dimension();
        let (first, rows) = self.measure.next_rows();
        let measured = &mut self.measured[..rows * dimension];
        self.measure.push(&self.units, measured);
        for (row, sums) in (first..).zip(measured.chunks_exact_mut(dimension)) {
            self.noise.add_row(row, sums);
        }
        self.decoder.push(first, measured, output)?;
        let grid = self.plan.grid();
        output.iter_mut().for_each(|value| *value *= grid);
        Ok(())
    }

    /// The noisy measurements of the latest step: the public transcript of which its release is a function.
    pub fn measurements(&self) -> &[i128] {
        let rows = match self.measure.step() {
            0 => 0,
            _ => self.measure.latest_rows(),
        };
        &self.measured[..rows * self.plan.dimension()]
    }

    /// The number of releases made so far.
    pub fn step(&self) -> usize {
        self.measure.step()
    }

    /// The plan.
    pub fn plan(&self) -> &ExactPlan {
        &self.plan
    }

    /// The number of coordinates of an input.
    pub fn dimension(&self) -> usize {
        self.plan.dimension()
    }

    /// Everything needed to continue later: the seed and the inputs so far. A secret.
    ///
    /// # Complexity
    /// The number of inputs so far; noise and releases are not stored but made again.
    pub fn snapshot(&self) -> Snapshot {
        let (identity, dimension) = (self.plan.identity(), self.dimension());
        let (seed, inputs) = (self.seed.duplicate(), self.measure.history());
        Snapshot::new(identity, dimension, self.step(), seed, inputs, self.witness())
    }

    /// The last measurements in f64, by which a resumed mechanism proves that it measures the same matrix with the same
    /// noise. They are as public as the release.
    fn witness(&self) -> Vec<f64> {
        self.measured[..self.dimension()].iter().map(|value| *value as f64).collect()
    }

    /// Continues where a snapshot was taken, with the very same noise.
    ///
    /// # Privacy
    /// As [`crate::Mechanism::resume`]: one snapshot must never be continued with two different streams.
    ///
    /// # Complexity
    /// That of all steps before.
    ///
    /// # Errors
    /// A snapshot of another plan, or one whose contents do not fit the plan.
    pub fn resume(plan: ExactPlan, snapshot: &Snapshot) -> Result<Self> {
        snapshot.check_identity(&plan.identity())?;
        let mut mechanism = Self::with_seed(plan, snapshot.seed().duplicate())?;
        let unfit =
            |reason: String| Error::State { reason: format!("its contents do not fit the plan: {reason}") };
        let dimension = mechanism.dimension();
        if snapshot.dimension() != dimension || snapshot.statistic().len() / dimension != snapshot.step() {
            return Err(unfit("another number of inputs".to_owned()));
        }
        let mut units = vec![0; dimension];
        let mut output = vec![0.0; dimension];
        for input in snapshot.statistic().chunks_exact(dimension) {
            for (unit, value) in units.iter_mut().zip(input) {
                if !(value.fract() == 0.0) {
                    return Err(unfit(format!("{value} is not an integer")));
                }
                *unit = *value as i64;
            }
            mechanism.release_units(&units, &mut output).map_err(|error| unfit(error.to_string()))?;
        }
        units.zeroize();
        if mechanism.witness() != snapshot.noise() {
            return Err(unfit(
                "the measurements do not come out the same here; resume with the program and on the kind of machine that \
                 saved it"
                    .to_owned(),
            ));
        }
        Ok(mechanism)
    }
}

impl Resumable for ExactMechanism {
    type Plan = ExactPlan;

    fn start(plan: ExactPlan, dimension: usize, seed: Seed) -> Result<Self> {
        if plan.dimension() != dimension {
            return Err(Error::Dimension { what: "the plan", expected: dimension, actual: plan.dimension() });
        }
        Self::with_seed(plan, seed)
    }

    fn resume(plan: ExactPlan, snapshot: &Snapshot) -> Result<Self> {
        Self::resume(plan, snapshot)
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot()
    }

    fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release> {
        self.release(input, output)
    }

    fn plan(&self) -> &ExactPlan {
        self.plan()
    }

    fn dimension(&self) -> usize {
        self.dimension()
    }

    fn step(&self) -> usize {
        self.step()
    }
}

/// Neither noise nor inputs leave through a debug print.
impl fmt::Debug for ExactMechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExactMechanism")
            .field("plan", &self.plan)
            .field("step", &self.step())
            .finish_non_exhaustive()
    }
}

impl Drop for ExactMechanism {
    fn drop(&mut self) {
        self.units.zeroize();
        self.measured.zeroize();
    }
}
