//! Streams of unknown length: a fresh strategy for every epoch, each twice as long as the one before.

mod plan;

use std::fmt;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroize;

pub use plan::{DoublingPlan, Epoch};

use crate::durable::Resumable;
use crate::error::{Error, Result};
use crate::mechanism::{Release, check_vectors};
use crate::noise::{CorrelatedNoise, GaussianSource, Seed, Side};
use crate::snapshot::Snapshot;
use crate::workload::{Kind, Workload, WorkloadStream};

/// A mechanism that never ends, with the epochs of a [`DoublingPlan`].
///
/// The strategy of the whole stream is block diagonal, `C = diag(C_0, C_1, …)`. The input noise
/// `ξ = (σ_0 C_0⁻¹ z_0, σ_1 C_1⁻¹ z_1, …)` is added to the data and one exact workload stream runs over the sum, so
/// that what is released is `A (x + ξ)` for any workload A.
///
/// # Privacy
/// That of the plan, also when inputs depend on earlier releases.
///
/// # Cost
/// The noise of finished epochs stays in the sum. [`DoublingPlan::cost`] is the ratio of the standard deviation at step t to
/// that of a mechanism that had known the horizon t. For the count, the square-root strategy and a first epoch of 16
/// steps it is 1.00 at t = 16, 1.27 at 48, 1.63 at 240, 1.89 at 1008 and 2.11 at 4080, the ends of epochs.
///
/// # Complexity
/// Per step that of the strategy. Memory is that of the current epoch's strategy, allocated when the epoch
/// starts; nothing is allocated within an epoch. Workloads without a finite recurrence (`poly`, `weights`) keep
/// the past, and are rebuilt from it at the start of each epoch.
pub struct DoublingMechanism {
    plan: DoublingPlan,
    dimension: usize,
    seed: Seed,
    statistic: WorkloadStream,
    /// The running epoch and its number.
    epoch: (usize, Arc<Epoch>),
    noise: CorrelatedNoise,
    /// The unit input noise of the last step.
    current: Vec<f64>,
    /// The input of the last step with its noise.
    noisy: Vec<f64>,
}

impl DoublingMechanism {
    /// A mechanism with secret noise from the operating system.
    ///
    /// # Errors
    /// A dimension of zero, or no system randomness.
    pub fn new(plan: DoublingPlan, dimension: usize) -> Result<Self> {
        Self::with_seed(plan, dimension, Seed::from_system()?)
    }

    /// As [`Self::new`] with a given seed: **not private** under a [`Seed::reproducible`] one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn reproducible(plan: DoublingPlan, dimension: usize, seed: Seed) -> Result<Self> {
        Self::with_seed(plan, dimension, seed)
    }

    fn with_seed(plan: DoublingPlan, dimension: usize, seed: Seed) -> Result<Self> {
        plan.footprint().check_dimension(dimension)?;
        let epoch = plan.epoch(0)?;
        let noise = epoch_noise(&seed, 0, &epoch, dimension)?;
        let statistic = plan.workload().stream(known_steps(plan.workload(), epoch.end()), dimension)?;
        let (current, noisy) = (vec![0.0; dimension], vec![0.0; dimension]);
        Ok(Self { plan, dimension, seed, statistic, epoch: (0, epoch), noise, current, noisy })
    }

    /// Takes the input of the next step and writes the release after it.
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN, infinities, an input outside the declared domain, or a next epoch that is
    /// too long for the strategy. The mechanism then releases the same as if nothing had been asked.
    pub fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release> {
        let step = self.step() + 1;
        check_vectors(self.dimension, input, output)?;
        self.plan.footprint().domain().check(step, input)?;
        if step > self.epoch.1.end() {
            self.start_epoch(self.epoch.0 + 1)?;
        }
        let standard_deviation = self.plan.standard_deviation(step)?;
        self.noise.next_into(&mut self.current)?;
        let sigma = self.epoch.1.plan.sigma();
        for ((noisy, noise), value) in self.noisy.iter_mut().zip(&self.current).zip(input) {
            *noisy = value + sigma * noise;
        }
        self.statistic.push(&self.noisy, output)?;
        Ok(Release { step, standard_deviation })
    }

    /// Enters an epoch; the steps before it have been taken.
    fn start_epoch(&mut self, index: usize) -> Result<()> {
        let epoch = self.plan.epoch(index)?;
        let noise = epoch_noise(&self.seed, index, &epoch, self.dimension)?;
        if is_convolution(self.plan.workload()) {
            let mut longer = self.plan.workload().stream(epoch.end(), self.dimension)?;
            longer.restore(self.step(), &self.statistic.state())?;
            self.statistic = longer;
        }
        self.noise = noise;
        self.epoch = (index, epoch);
        Ok(())
    }

    /// The number of releases made so far.
    pub fn step(&self) -> usize {
        self.statistic.step()
    }

    /// The plan.
    pub fn plan(&self) -> &DoublingPlan {
        &self.plan
    }

    /// The epoch of the last release, or the first one.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch.1
    }

    /// Everything needed to continue later. It holds the seed and the true statistic: a secret.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(
            self.plan.identity(),
            self.dimension,
            self.step(),
            self.seed.duplicate(),
            self.statistic.state(),
            self.current.clone(),
        )
    }

    /// Continues where a snapshot was taken, with the very same noise; the warnings of
    /// [`Mechanism::resume`](crate::Mechanism::resume) apply.
    ///
    /// # Complexity
    /// That of planning the epochs so far and of making the noise of the running one.
    ///
    /// # Errors
    /// A snapshot of another plan, one whose contents do not fit the plan, or noise that does not come out as it was.
    pub fn resume(plan: DoublingPlan, snapshot: &Snapshot) -> Result<Self> {
        snapshot.check_identity(&plan.identity())?;
        let mut mechanism = Self::with_seed(plan, snapshot.dimension(), snapshot.seed().duplicate())?;
        let step = snapshot.step();
        let mut index = 0;
        while mechanism.plan.epoch(index)?.end() < step {
            index += 1;
        }
        let epoch = mechanism.plan.epoch(index)?;
        let workload = mechanism.plan.workload();
        let mut statistic = workload.stream(known_steps(workload, epoch.end()), mechanism.dimension)?;
        statistic
            .restore(step, snapshot.statistic())
            .map_err(|error| Error::State { reason: format!("its contents do not fit the plan: {error}") })?;
        mechanism.statistic = statistic;
        mechanism.noise = epoch_noise(&mechanism.seed, index, &epoch, mechanism.dimension)?;
        mechanism.noise.skip_to(step - epoch.start, &mut mechanism.current)?;
        mechanism.epoch = (index, epoch);
        snapshot.check_noise(&mechanism.current)?;
        Ok(mechanism)
    }
}

impl Resumable for DoublingMechanism {
    type Plan = DoublingPlan;

    fn start(plan: DoublingPlan, dimension: usize, seed: Seed) -> Result<Self> {
        Self::with_seed(plan, dimension, seed)
    }

    fn resume(plan: DoublingPlan, snapshot: &Snapshot) -> Result<Self> {
        Self::resume(plan, snapshot)
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot()
    }

    fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release> {
        self.release(input, output)
    }

    fn plan(&self) -> &DoublingPlan {
        self.plan()
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn step(&self) -> usize {
        self.step()
    }
}

/// Neither noise nor true state leaves through a debug print.
impl fmt::Debug for DoublingMechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DoublingMechanism")
            .field("plan", &self.plan)
            .field("step", &self.step())
            .finish_non_exhaustive()
    }
}

impl Drop for DoublingMechanism {
    fn drop(&mut self) {
        self.current.zeroize();
        self.noisy.zeroize();
    }
}

/// Whether the exact statistic needs all past inputs, and so a known number of steps.
fn is_convolution(workload: &Workload) -> bool {
    matches!(workload.kind(), Kind::Polynomial { .. } | Kind::Weights { .. })
}

/// The steps for which the exact statistic is made: as many as there are, unless its size depends on them.
fn known_steps(workload: &Workload, end: usize) -> usize {
    if is_convolution(workload) { end } else { usize::MAX }
}

/// The input noise of an epoch, from a seed of its own.
fn epoch_noise(seed: &Seed, index: usize, epoch: &Epoch, dimension: usize) -> Result<CorrelatedNoise> {
    let mut bytes = [0; 32];
    let mut generator = ChaCha20Rng::from_seed(*seed.expose());
    generator.set_stream(index as u64);
    generator.fill_bytes(&mut bytes);
    let own = Seed::from_bytes(bytes);
    bytes.zeroize();
    let source = Box::new(GaussianSource::new(own, dimension));
    CorrelatedNoise::new(epoch.plan.strategy().as_ref(), dimension, Side::Input, source)
}

#[cfg(test)]
mod tests;
