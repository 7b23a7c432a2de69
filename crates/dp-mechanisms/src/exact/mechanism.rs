//! An exact plan at work: measure in integers, add integer noise, decode.

use std::ops::Range;
use std::sync::Arc;

use zeroize::Zeroize;

use super::decode::Decoder;
use super::measure::Measure;
use super::noise::IntegerNoise;
use super::plan::ExactPlan;
use crate::error::Result;
use crate::noise::{Seeds, Side};
use crate::run::{Run, unfit};
use crate::snapshot::Payload;

/// A step measures `y = C̃x + z` in integers and releases `A C̃⁻¹ y`. Only y has touched data; everything after it is
/// post-processing in f64.
///
/// # Complexity
/// Per step and coordinate amortized O(log² n) for Toeplitz strategies, O(log n) for trees, O(n) for dense ones, and one
/// sample of exact noise per measurement. Memory: the horizon times the dimension. Nothing is allocated per step.
pub(crate) struct ExactRun {
    plan: Arc<ExactPlan>,
    /// The number of coordinates that are measured here.
    dimension: usize,
    measure: Measure,
    noise: IntegerNoise,
    decoder: Decoder,
    /// The input of the current step in grid units.
    units: Vec<i64>,
    /// The measurements of the current step.
    measured: Vec<i128>,
}

impl ExactRun {
    /// The coordinates `part` of the plan: no coordinate knows of another, so they are measured as if all were. The statistic is
    /// released, or the inputs with their noise.
    pub(crate) fn new(plan: Arc<ExactPlan>, part: Range<usize>, seeds: Seeds, side: Side) -> Result<Self> {
        let dimension = part.len();
        let measure = Measure::new(plan.shared_strategy(), dimension, plan.lattice().magnitude());
        let decoder = Decoder::new(plan.shared_strategy(), dimension, measure.most_rows(), side)?;
        let noise = IntegerNoise::new(seeds, plan.dimension(), part, plan.sampler());
        let measured = vec![0; measure.most_rows() * dimension];
        Ok(Self { plan, dimension, measure, noise, decoder, units: vec![0; dimension], measured })
    }

    /// One step with the input in `units`.
    fn measure_units(&mut self, output: &mut [f64]) -> Result<()> {
        let dimension = self.dimension;
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
}

impl Run for ExactRun {
    fn advance(&mut self, step: usize, input: &[f64], output: &mut [f64]) -> Result<()> {
        self.plan.lattice().round(step, input, &mut self.units)?;
        self.measure_units(output)
    }

    fn save(&self) -> Payload {
        Payload::Inputs(self.inputs())
    }

    fn restore(&mut self, step: usize, saved: &Payload) -> Result<()> {
        let Payload::Inputs(inputs) = saved else { return Err(unfit("another kind of contents")) };
        self.repeat(step, inputs)
    }

    /// The last measurements in f64: as public as the release.
    fn witness(&self) -> Vec<f64> {
        self.measured[..self.dimension].iter().map(|value| *value as f64).collect()
    }

    #[cfg(test)]
    fn measurements(&self) -> &[i128] {
        let rows = match self.measure.step() {
            0 => 0,
            _ => self.measure.latest_rows(),
        };
        &self.measured[..rows * self.dimension]
    }
}

impl ExactRun {
    /// All inputs so far in units of the grid: a secret.
    pub(crate) fn inputs(&self) -> Vec<i64> {
        self.measure.history()
    }

    /// Takes the inputs of so many steps once more, in a fresh run.
    ///
    /// # Errors
    /// Inputs that are not as many, or outside the declared domain.
    pub(crate) fn repeat(&mut self, step: usize, inputs: &[i64]) -> Result<()> {
        let dimension = self.dimension;
        if Some(inputs.len()) != step.checked_mul(dimension) {
            return Err(unfit("another number of inputs"));
        }
        let mut output = vec![0.0; dimension];
        for (step, units) in (1..).zip(inputs.chunks_exact(dimension)) {
            self.plan.lattice().check_units(step, units).map_err(unfit)?;
            self.units.copy_from_slice(units);
            self.measure_units(&mut output)?;
        }
        Ok(())
    }
}

impl Drop for ExactRun {
    fn drop(&mut self) {
        self.units.zeroize();
        self.measured.zeroize();
    }
}
