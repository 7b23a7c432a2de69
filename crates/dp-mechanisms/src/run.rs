//! The ways in which a plan runs: what a mechanism does in a step, behind one small trait.

use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::noise::{CorrelatedNoise, GaussianSource, Seeds, Side};
use crate::snapshot::Payload;
use crate::strategy::Strategy;
use crate::workload::WorkloadStream;

/// One plan at work. [`Mechanism`](crate::Mechanism) checks the step, the lengths and the domain before it asks for anything,
/// and keeps the step, the seeds and the identity; a run keeps what the next step needs, and wipes it on drop.
pub(crate) trait Run: Send {
    /// Takes the input of a step, counted from 1, and writes what is released after it. On an error nothing has changed that a
    /// later release could show.
    fn advance(&mut self, step: usize, input: &[f64], output: &mut [f64]) -> Result<()>;

    /// What cannot be made again from plan, seeds and step: a secret.
    fn save(&self) -> Payload;

    /// Continues a fresh run after so many steps.
    fn restore(&mut self, step: usize, saved: &Payload) -> Result<()>;

    /// Values of the last step by which a resumed run proves that it continues the same noise.
    fn witness(&self) -> Vec<f64>;

    /// The public transcript of the last step, where it is more than the release.
    #[cfg(test)]
    fn measurements(&self) -> &[i128] {
        &[]
    }
}

/// Contents that no plan could have saved.
pub(crate) fn unfit(reason: impl std::fmt::Display) -> Error {
    Error::State { reason: format!("its contents do not fit the plan: {reason}") }
}

/// A bounded horizon in floating point: the statistic, or the input itself, plus the strategy's correlated noise.
pub(crate) struct LinearRun {
    sigma: f64,
    /// Nothing where inputs are released.
    statistic: Option<WorkloadStream>,
    noise: CorrelatedNoise,
    /// The noise of the current step, overwritten at every one.
    current: Vec<f64>,
}

impl LinearRun {
    pub(crate) fn new(
        strategy: &dyn Strategy,
        sigma: f64,
        dimension: usize,
        side: Side,
        seeds: Seeds,
    ) -> Result<Self> {
        let statistic = match side {
            Side::Output => Some(strategy.workload().stream(strategy.steps(), dimension)?),
            Side::Input => None,
        };
        let source = Box::new(GaussianSource::from_seeds(seeds, dimension));
        let noise = CorrelatedNoise::new(strategy, dimension, side, source)?;
        Ok(Self { sigma, statistic, noise, current: vec![0.0; dimension] })
    }
}

impl Run for LinearRun {
    fn advance(&mut self, _step: usize, input: &[f64], output: &mut [f64]) -> Result<()> {
        if let ([input], [output], [noise]) = (input, &mut *output, &mut self.current[..]) {
            // One number: what is done for it is about as long as the loops around it would be.
            *noise = self.noise.next_number()?;
            *output = match &mut self.statistic {
                Some(statistic) => statistic.push_number(*input)?,
                None => *input,
            };
            *output += self.sigma * *noise;
            return Ok(());
        }
        self.noise.next_into(&mut self.current)?;
        match &mut self.statistic {
            Some(statistic) => statistic.push(input, output)?,
            None => output.copy_from_slice(input),
        }
        for (value, noise) in output.iter_mut().zip(&self.current) {
            *value += self.sigma * noise;
        }
        Ok(())
    }

    fn save(&self) -> Payload {
        Payload::Statistic(self.statistic.as_ref().map(WorkloadStream::state).unwrap_or_default())
    }

    fn restore(&mut self, step: usize, saved: &Payload) -> Result<()> {
        match (&mut self.statistic, saved) {
            (Some(statistic), Payload::Statistic(values)) => {
                statistic.restore(step, values).map_err(unfit)?;
            }
            (None, Payload::Statistic(values)) if values.is_empty() => {}
            _ => return Err(unfit("another kind of contents")),
        }
        self.noise.skip_to(step, &mut self.current)
    }

    fn witness(&self) -> Vec<f64> {
        self.current.clone()
    }
}

impl Drop for LinearRun {
    fn drop(&mut self) {
        self.current.zeroize();
    }
}
