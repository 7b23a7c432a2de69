//! Streams of unknown length: a fresh strategy for every epoch, each twice as long as the one before.

mod plan;

use std::sync::Arc;

use zeroize::Zeroize;

pub(crate) use plan::{DoublingPlan, Epoch};

use crate::error::Result;
use crate::exact::ExactRun;
use crate::noise::{CorrelatedNoise, GaussianSource, Seeds, Side};
use crate::run::{Run, unfit};
use crate::snapshot::Payload;
use crate::workload::{Recurrence, Workload, WorkloadStream};

/// A plan without an end at work.
///
/// The strategy of the whole stream is block diagonal, `C = diag(C_0, C_1, …)`. The input noise
/// `ξ = (σ_0 C_0⁻¹ z_0, σ_1 C_1⁻¹ z_1, …)` is added to the data and one exact workload stream runs over the sum, so
/// that what is released is `A (x + ξ)` for any workload A.
///
/// # Cost
/// The noise of finished epochs stays in the sum. The cost of not knowing the horizon is the ratio of the standard deviation at step t to
/// that of a mechanism that had known the horizon t. For the count, the square-root strategy and a first epoch of 16
/// steps it is 1.00 at t = 16, 1.27 at 48, 1.63 at 240, 1.89 at 1008 and 2.11 at 4080, the ends of epochs.
///
/// # Complexity
/// Per step that of the strategy. Memory is that of the current epoch's strategy, allocated when the epoch
/// starts; nothing is allocated within an epoch. Workloads without a finite recurrence (`poly`, `weights`) keep
/// the past, and are rebuilt from it at the start of each epoch.
pub(crate) struct DoublingRun {
    plan: DoublingPlan,
    dimension: usize,
    seeds: Seeds,
    statistic: WorkloadStream,
    /// The running epoch and its number.
    epoch: (usize, Arc<Epoch>),
    noise: EpochNoise,
    /// The input of the last step with its noise.
    noisy: Vec<f64>,
}

/// What makes noisy inputs in one epoch.
enum EpochNoise {
    /// Correlated noise, and the unit noise of the last step.
    Idealized { noise: CorrelatedNoise, current: Vec<f64> },
    /// Measurements in integers.
    Exact(Box<ExactRun>),
}

impl EpochNoise {
    /// That of an epoch before its first step, from seeds of its own.
    fn new(seeds: &Seeds, index: usize, epoch: &Epoch, dimension: usize) -> Result<Self> {
        let seeds = seeds.of_part(index);
        if let Some(exact) = epoch.plan.integers() {
            return Ok(Self::Exact(Box::new(ExactRun::new(
                Arc::clone(exact),
                0..dimension,
                seeds,
                Side::Input,
            )?)));
        }
        let source = Box::new(GaussianSource::from_seeds(seeds, dimension));
        let noise = CorrelatedNoise::new(epoch.plan.strategy().as_ref(), dimension, Side::Input, source)?;
        Ok(Self::Idealized { noise, current: vec![0.0; dimension] })
    }
}

impl Drop for EpochNoise {
    fn drop(&mut self) {
        if let Self::Idealized { current, .. } = self {
            current.zeroize();
        }
    }
}

impl DoublingRun {
    pub(crate) fn new(plan: DoublingPlan, dimension: usize, seeds: Seeds) -> Result<Self> {
        let epoch = Arc::clone(plan.first());
        let noise = EpochNoise::new(&seeds, 0, &epoch, dimension)?;
        let statistic = plan.workload().stream(known_steps(plan.workload(), epoch.end()), dimension)?;
        let noisy = vec![0.0; dimension];
        Ok(Self { plan, dimension, seeds, statistic, epoch: (0, epoch), noise, noisy })
    }

    /// Enters an epoch; the steps before it have been taken.
    fn start_epoch(&mut self, index: usize) -> Result<()> {
        let epoch = self.plan.epoch(index)?;
        let noise = EpochNoise::new(&self.seeds, index, &epoch, self.dimension)?;
        // The exact statistic needs all past inputs, and so a known number of steps.
        if self.plan.workload().recurrence() == Recurrence::None {
            let mut longer = self.plan.workload().stream(epoch.end(), self.dimension)?;
            let mut past = self.statistic.state();
            let restored = longer.restore(self.statistic.step(), &past);
            past.zeroize();
            restored?;
            self.statistic = longer;
        }
        self.noise = noise;
        self.epoch = (index, epoch);
        Ok(())
    }
}

impl Run for DoublingRun {
    fn advance(&mut self, step: usize, input: &[f64], output: &mut [f64]) -> Result<()> {
        if step > self.epoch.1.end() {
            self.start_epoch(self.epoch.0 + 1)?;
        }
        match &mut self.noise {
            EpochNoise::Idealized { noise, current } => {
                noise.next_into(current)?;
                let sigma = self.epoch.1.plan.sigma();
                for ((noisy, noise), value) in self.noisy.iter_mut().zip(current).zip(input) {
                    *noisy = value + sigma * *noise;
                }
            }
            EpochNoise::Exact(run) => run.advance(step - self.epoch.1.start, input, &mut self.noisy)?,
        }
        self.statistic.push(&self.noisy, output)
    }

    fn save(&self) -> Payload {
        let statistic = self.statistic.state();
        match &self.noise {
            EpochNoise::Idealized { .. } => Payload::Statistic(statistic),
            EpochNoise::Exact(run) => Payload::Epoch { statistic, inputs: run.inputs() },
        }
    }

    fn restore(&mut self, step: usize, saved: &Payload) -> Result<()> {
        let (index, epoch) = self.plan.epoch_of(step)?;
        let mut noise = EpochNoise::new(&self.seeds, index, &epoch, self.dimension)?;
        let within = step - epoch.start;
        let saved = match (&mut noise, saved) {
            (EpochNoise::Idealized { noise, current }, Payload::Statistic(statistic)) => {
                noise.skip_to(within, current)?;
                statistic
            }
            (EpochNoise::Exact(run), Payload::Epoch { statistic, inputs }) => {
                run.repeat(within, inputs)?;
                statistic
            }
            _ => return Err(unfit("another kind of contents")),
        };
        let workload = self.plan.workload();
        let mut statistic = workload.stream(known_steps(workload, epoch.end()), self.dimension)?;
        statistic.restore(step, saved).map_err(unfit)?;
        self.statistic = statistic;
        self.noise = noise;
        self.epoch = (index, epoch);
        Ok(())
    }

    fn witness(&self) -> Vec<f64> {
        match &self.noise {
            EpochNoise::Idealized { current, .. } => current.clone(),
            EpochNoise::Exact(run) => run.witness(),
        }
    }
}

impl Drop for DoublingRun {
    fn drop(&mut self) {
        self.noisy.zeroize();
    }
}

/// The steps for which the exact statistic is made: as many as there are, unless its size depends on them.
fn known_steps(workload: &Workload, end: usize) -> usize {
    if workload.recurrence() == Recurrence::None { end } else { usize::MAX }
}

#[cfg(test)]
mod tests;
