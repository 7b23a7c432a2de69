//! The noise `ξ = C⁻¹ z` of a dense lower-triangular strategy.

use std::sync::Arc;

use dp_linalg::{dense, forget};
use ndarray::{Array2, s};

use crate::error::Result;
use crate::noise::{Side, UnitNoise};
use crate::strategy::NoiseFilter;

/// Up to this many values all noise is made at once by one blocked triangular solve; above it, step by step, so that
/// the first release does not wait for the last.
const WHOLE_HORIZON_LIMIT: usize = 1 << 24;

/// The filter that suits the size, for a matrix with the given number of bands.
pub(super) fn build(strategy: &Arc<Array2<f64>>, bands: usize, dimension: usize) -> Box<dyn NoiseFilter> {
    if bands < strategy.nrows() {
        Box::new(BandedSubstitution::new(strategy, bands, dimension))
    } else if strategy.nrows().saturating_mul(dimension) <= WHOLE_HORIZON_LIMIT {
        Box::new(WholeHorizon { strategy: Arc::clone(strategy), noise: None, step: 0 })
    } else {
        step_by_step(strategy, dimension)
    }
}

/// The filter that makes one step at a time.
pub(super) fn step_by_step(strategy: &Arc<Array2<f64>>, dimension: usize) -> Box<dyn NoiseFilter> {
    let noise = Array2::zeros((strategy.nrows(), dimension));
    Box::new(Substitution { strategy: Arc::clone(strategy), noise, step: 0 })
}

/// All of ξ at once, made when the first step asks for it.
struct WholeHorizon {
    strategy: Arc<Array2<f64>>,
    /// One row per step.
    noise: Option<Array2<f64>>,
    step: usize,
}

impl WholeHorizon {
    fn make(&self, source: &mut dyn UnitNoise, dimension: usize) -> Result<Array2<f64>> {
        let mut rows = Array2::zeros((self.strategy.nrows(), dimension));
        let mut z = vec![0.0; dimension];
        for (step, mut row) in rows.outer_iter_mut().enumerate() {
            source.fill_row(step, &mut z);
            row.iter_mut().zip(&z).for_each(|(value, z)| *value = *z);
        }
        Ok(dense::solve_lower(self.strategy.view(), rows.view())?)
    }
}

impl Drop for WholeHorizon {
    fn drop(&mut self) {
        self.noise.iter_mut().filter_map(Array2::as_slice_memory_order_mut).for_each(forget);
    }
}

impl NoiseFilter for WholeHorizon {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let noise = match self.noise.take() {
            Some(noise) => noise,
            None => self.make(source, out.len())?,
        };
        let noise = self.noise.insert(noise);
        out.iter_mut().zip(noise.row(self.step)).for_each(|(value, made)| *value = *made);
        self.step += 1;
        Ok(())
    }
}

/// Forward substitution, `ξ_t = (z_t - Σ_{j<t} C_tj ξ_j) / C_tt`.
struct Substitution {
    strategy: Arc<Array2<f64>>,
    /// The rows of ξ made so far.
    noise: Array2<f64>,
    step: usize,
}

impl Drop for Substitution {
    fn drop(&mut self) {
        self.noise.as_slice_memory_order_mut().into_iter().for_each(forget);
    }
}

impl NoiseFilter for Substitution {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        source.fill_row(self.step, out);
        let row = self.strategy.row(self.step);
        for (entry, past) in row.iter().zip(self.noise.slice(s![..self.step, ..]).outer_iter()) {
            out.iter_mut().zip(past).for_each(|(value, past)| *value -= entry * past);
        }
        let pivot = row[self.step];
        for (value, kept) in out.iter_mut().zip(self.noise.row_mut(self.step)) {
            *value /= pivot;
            *kept = *value;
        }
        self.step += 1;
        Ok(())
    }
}

/// Forward substitution over the last b-1 rows of ξ.
struct BandedSubstitution {
    /// Row t, age a: `C[t, t-a]`.
    band: Array2<f64>,
    /// The last b rows of ξ; step t stands in slot `t mod b`.
    ring: Vec<f64>,
    step: usize,
}

impl BandedSubstitution {
    fn new(strategy: &Array2<f64>, bands: usize, dimension: usize) -> Self {
        let entry = |(t, a): (usize, usize)| if a <= t { strategy[[t, t - a]] } else { 0.0 };
        let band = Array2::from_shape_fn((strategy.nrows(), bands), entry);
        Self { band, ring: vec![0.0; bands * dimension], step: 0 }
    }
}

impl Drop for BandedSubstitution {
    fn drop(&mut self) {
        forget(&mut self.ring);
    }
}

impl NoiseFilter for BandedSubstitution {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let (t, bands, dimension) = (self.step, self.band.ncols(), out.len());
        source.fill_row(t, out);
        for age in 1..bands.min(t + 1) {
            let weight = self.band[[t, age]];
            let start = (t - age) % bands * dimension;
            for (value, past) in out.iter_mut().zip(&self.ring[start..start + dimension]) {
                *value -= weight * past;
            }
        }
        let pivot = self.band[[t, 0]];
        let slot = t % bands * dimension;
        for (value, kept) in out.iter_mut().zip(&mut self.ring[slot..slot + dimension]) {
            *value /= pivot;
            *kept = *value;
        }
        self.step += 1;
        Ok(())
    }
}
