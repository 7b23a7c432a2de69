//! The noise of Toeplitz strategies, streamed: `ξ_t = (T⁻¹ D1⁻¹ z)_t / D2_t`.

use std::sync::{Arc, OnceLock};

use dp_linalg::fft;
use dp_linalg::rational::RationalStream;
use dp_linalg::toeplitz::OnlineToeplitz;
use ndarray::Array2;
use rayon::prelude::*;

use super::{Core, Scaling};
use crate::error::Result;
use crate::noise::{self, Side, UnitNoise};
use crate::strategy::NoiseFilter;

/// Up to this many values the whole noise of a known horizon is made at once by FFT; above it, online.
const WHOLE_HORIZON_LIMIT: usize = 1 << 25;

/// The filter that suits the core.
pub(super) fn build(
    core: &Core,
    scaling: Option<&Scaling>,
    kernel: &OnceLock<Arc<fft::Kernel>>,
    steps: usize,
    dimension: usize,
) -> Result<Box<dyn NoiseFilter>> {
    let scaling = scaling.cloned();
    Ok(match core {
        Core::Full { inverse, .. } if steps.saturating_mul(dimension) <= WHOLE_HORIZON_LIMIT => {
            let kernel = Arc::clone(kernel.get_or_init(|| Arc::new(fft::Kernel::new(inverse, steps))));
            Box::new(WholeHorizon { kernel, steps, scaling, noise: None, step: 0 })
        }
        Core::Full { inverse, .. } => Box::new(Scaled {
            scaling,
            step: 0,
            scratch: vec![0.0; dimension],
            inner: Online(Box::new(OnlineToeplitz::new(inverse, dimension)?)),
        }),
        Core::Rational(rational) => {
            Box::new(Buffers { scaling, step: 0, stream: RationalStream::new(rational, dimension)? })
        }
        Core::Banded(band) => {
            let band = &band[..band.len().min(steps)];
            let inner = Recursive { taps: Taps::new(&band[1..], dimension), leading: band[0] };
            Box::new(Scaled { scaling, step: 0, scratch: vec![0.0; dimension], inner })
        }
        Core::BandedInverse(band) => {
            let band = &band[..band.len().min(steps)];
            let inner = Finite { taps: Taps::new(&band[1..], dimension), leading: band[0] };
            Box::new(Scaled { scaling, step: 0, scratch: vec![0.0; dimension], inner })
        }
    })
}

/// One application of `T⁻¹` to the next vector.
trait Inverse: Send {
    fn next(&mut self, z: &[f64], out: &mut [f64]) -> Result<()>;
}

struct Online(Box<OnlineToeplitz>);

impl Inverse for Online {
    fn next(&mut self, z: &[f64], out: &mut [f64]) -> Result<()> {
        Ok(self.0.push(z, out)?)
    }
}

/// `k` buffers per coordinate, updated in place behind the sampled values; long vectors are shared among threads.
struct Buffers {
    scaling: Option<Scaling>,
    step: usize,
    stream: RationalStream,
}

impl NoiseFilter for Buffers {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let step = self.step;
        if out.len() <= noise::TILE {
            source.fill_row(step, out);
        } else {
            // Whole tiles of the source: none of its values is drawn twice.
            let source = &*source;
            out.par_chunks_mut(noise::TILE)
                .enumerate()
                .for_each(|(index, tile)| source.fill_range(step, index * noise::TILE, tile));
        }
        match &self.scaling {
            // The values to be filtered are already where the filter expects them.
            None => self.stream.solve_step_with(out, |_, _| ())?,
            Some(scaling) => {
                let factor = 1.0 / scaling.rows[step];
                self.stream.solve_step_with(out, |_, tile| scale(tile, factor))?;
                let norm = scaling.column_norms[step];
                if out.len() <= noise::TILE {
                    scale(out, norm);
                } else {
                    out.par_chunks_mut(noise::TILE).for_each(|tile| scale(tile, norm));
                }
            }
        }
        self.step += 1;
        Ok(())
    }
}

fn scale(values: &mut [f64], factor: f64) {
    for value in values {
        *value *= factor;
    }
}

/// The last few vectors with a weight for each age: `Σ_k w_k v_{t-1-k}`.
struct Taps {
    weights: Vec<f64>,
    ring: Vec<f64>,
    dimension: usize,
    newest: usize,
}

impl Taps {
    fn new(weights: &[f64], dimension: usize) -> Self {
        Self { weights: weights.to_vec(), ring: vec![0.0; weights.len() * dimension], dimension, newest: 0 }
    }

    /// Adds `sign · Σ_k w_k v_{t-1-k}` to `out`.
    fn accumulate(&self, sign: f64, out: &mut [f64]) {
        let slots = self.weights.len();
        for (age, weight) in self.weights.iter().enumerate() {
            let start = (self.newest + slots - age) % slots * self.dimension;
            for (value, past) in out.iter_mut().zip(&self.ring[start..start + self.dimension]) {
                *value += sign * weight * past;
            }
        }
    }

    fn remember(&mut self, vector: &[f64]) {
        if self.weights.is_empty() {
            return;
        }
        self.newest = (self.newest + 1) % self.weights.len();
        let start = self.newest * self.dimension;
        self.ring[start..start + self.dimension].copy_from_slice(vector);
    }
}

/// `ξ_t = (z_t - Σ_{k≥1} c_k ξ_{t-k}) / c_0`.
struct Recursive {
    taps: Taps,
    leading: f64,
}

impl Inverse for Recursive {
    fn next(&mut self, z: &[f64], out: &mut [f64]) -> Result<()> {
        out.copy_from_slice(z);
        self.taps.accumulate(-1.0, out);
        scale(out, 1.0 / self.leading);
        self.taps.remember(out);
        Ok(())
    }
}

/// `ξ_t = Σ_k c⁻¹_k z_{t-k}`.
struct Finite {
    taps: Taps,
    leading: f64,
}

impl Inverse for Finite {
    fn next(&mut self, z: &[f64], out: &mut [f64]) -> Result<()> {
        for (value, fresh) in out.iter_mut().zip(z) {
            *value = self.leading * fresh;
        }
        self.taps.accumulate(1.0, out);
        self.taps.remember(z);
        Ok(())
    }
}

/// Two multiplications per value around an inverse.
struct Scaled<I> {
    scaling: Option<Scaling>,
    step: usize,
    scratch: Vec<f64>,
    inner: I,
}

impl<I: Inverse> NoiseFilter for Scaled<I> {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        source.fill_row(self.step, &mut self.scratch);
        if let Some(scaling) = &self.scaling {
            let factor = 1.0 / scaling.rows[self.step];
            scale(&mut self.scratch, factor);
        }
        self.inner.next(&self.scratch, out)?;
        if let Some(scaling) = &self.scaling {
            scale(out, scaling.column_norms[self.step]);
        }
        self.step += 1;
        Ok(())
    }
}

/// All of ξ at once, made when the first step asks for it.
struct WholeHorizon {
    kernel: Arc<fft::Kernel>,
    steps: usize,
    scaling: Option<Scaling>,
    /// The vectors of all steps, one after the other.
    noise: Option<Vec<f64>>,
    step: usize,
}

impl WholeHorizon {
    fn make(&self, source: &mut dyn UnitNoise, dimension: usize) -> Vec<f64> {
        let mut rows = Array2::zeros((self.steps, dimension));
        // Slices, because a view of a row costs as much as the rest of a scalar step.
        let z = rows.as_slice_mut().unwrap_or_default();
        for (step, row) in z.chunks_exact_mut(dimension).enumerate() {
            source.fill_row(step, row);
        }
        if let Some(scaling) = &self.scaling {
            for (row, scale) in z.chunks_exact_mut(dimension).zip(&scaling.rows) {
                let factor = 1.0 / scale;
                row.iter_mut().for_each(|value| *value *= factor);
            }
        }
        let mut made = Array2::zeros((self.steps, dimension));
        self.kernel.apply_columns(rows.view(), &mut made);
        let (mut noise, _) = made.into_raw_vec_and_offset();
        if let Some(scaling) = &self.scaling {
            for (row, norm) in noise.chunks_exact_mut(dimension).zip(&scaling.column_norms) {
                row.iter_mut().for_each(|value| *value *= norm);
            }
        }
        noise
    }
}

impl NoiseFilter for WholeHorizon {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let noise = match self.noise.take() {
            Some(noise) => noise,
            None => self.make(source, out.len()),
        };
        let noise = self.noise.insert(noise);
        out.copy_from_slice(&noise[self.step * out.len()..][..out.len()]);
        self.step += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Metric, Strategy, scaled_blt};
    use crate::{GaussianSource, Seed, Workload};

    #[test]
    fn buffers_make_the_noise_of_the_matrix_at_any_dimension() {
        let steps = 12;
        let strategy = scaled_blt::scaled_blt(&Workload::count(), steps, Metric::Mse).unwrap();
        let matrices = strategy.materialize().unwrap();
        // Below and above a tile of the source, and above what is shared among threads.
        for dimension in [3, noise::TILE + 5, 70_001] {
            let mut source = GaussianSource::new(Seed::reproducible(3), dimension);
            let mut filter = strategy.noise_filter(dimension).unwrap();
            let mut prefix = vec![0.0; dimension];
            let mut expected = vec![0.0; dimension];
            let mut row = vec![0.0; dimension];
            for step in 0..steps {
                filter.next_into(&mut source, &mut row).unwrap();
                prefix.iter_mut().zip(&row).for_each(|(sum, value)| *sum += value);
                expected.fill(0.0);
                for past in 0..=step {
                    source.fill_row(past, &mut row);
                    let weight = matrices.decoder[[step, past]];
                    expected.iter_mut().zip(&row).for_each(|(sum, z)| *sum += weight * z);
                }
                let worst = prefix.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-11, "{dimension} at step {step}: {worst}");
            }
        }
    }
}
