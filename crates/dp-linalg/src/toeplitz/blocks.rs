//! Lower-triangular Toeplitz products of inputs that are known a block of steps ahead.

use std::fmt;
use std::sync::Arc;

use ndarray::{ArrayViewMut1, ArrayViewMut2, Axis, parallel::prelude::*};
use num_complex::Complex64;
use rayon::prelude::ParallelSliceMut;

use crate::buffers::forget;
use crate::error::{check_finite, check_length};
use crate::fft::{Plan, Scratch};
use crate::{Error, Result};

/// Blocks into which a long horizon is cut. Every transform then is this much shorter than one of the whole horizon and
/// stays closer to the processor, which pays for the products of all pairs of blocks.
const BLOCKS: usize = 4;

/// Up to this many steps there is one block: its transforms fit the cache as they are.
const SINGLE_BLOCK: usize = 1 << 14;

/// Frequencies whose products are summed before the next ones are looked at: they stay in the first-level cache.
const FREQUENCIES: usize = 512;

/// The spectra of a lower-triangular Toeplitz operator that [`BlockToeplitz`] applies, shared by any number of streams.
///
/// **Complexity** one transform of two blocks for each block of the horizon; about 2n values of memory.
pub struct BlockKernel {
    plan: Plan,
    block: usize,
    steps: usize,
    /// For each distance between two blocks the spectrum of the coefficients that lead from one to the other.
    spectra: Vec<Vec<Complex64>>,
}

impl BlockKernel {
    /// The operator with these coefficients, for as many steps.
    ///
    /// # Errors
    /// [`Error::Empty`] or [`Error::NonFinite`].
    pub fn new(coefficients: &[f64]) -> Result<Self> {
        Self::with_block(coefficients, block_length(coefficients.len()))
    }

    fn with_block(coefficients: &[f64], block: usize) -> Result<Self> {
        check_finite("Toeplitz coefficients", coefficients)?;
        let steps = coefficients.len();
        let plan = Plan::at_least(2 * block - 1);
        // Inputs start at 0 and outputs end where the transform ends: with room for both, nothing wraps around.
        let shift = plan.size() - block;
        let mut scratch = Scratch::default();
        let mut segment = vec![0.0; plan.size()];
        let spectra = (0..steps.div_ceil(block))
            .map(|distance| {
                for (index, value) in segment.iter_mut().enumerate() {
                    let lag = (distance * block + index).checked_sub(shift);
                    *value = lag.and_then(|lag| coefficients.get(lag)).copied().unwrap_or(0.0);
                }
                let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
                scratch.spectrum_into(&plan, &segment, &mut spectrum);
                // What the inverse transform leaves out.
                spectrum.iter_mut().for_each(|value| *value *= 1.0 / plan.size() as f64);
                spectrum
            })
            .collect();
        Ok(Self { plan, block, steps, spectra })
    }

    /// The number of values that a stream of so many steps keeps for each coordinate: a block of outputs, and the spectra of
    /// the blocks before.
    pub fn memory(steps: usize) -> usize {
        let block = block_length(steps);
        block + 2 * (steps - block)
    }

    /// The number of steps in a block; the last one may be shorter.
    pub fn block(&self) -> usize {
        self.block
    }
}

fn block_length(steps: usize) -> usize {
    if steps <= SINGLE_BLOCK { steps } else { steps.div_ceil(BLOCKS) }
}

impl fmt::Debug for BlockKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BlockKernel")
            .field("steps", &self.steps)
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

/// `y_t = Σ_{s ≤ t} c_{t-s} x_s` for d-vectors `x_t`, a block of steps at a time.
///
/// The spectra of earlier blocks are kept, so that a block costs two transforms and one product of spectra for each
/// block before it.
///
/// **Complexity** O(d log n) amortized time per step. Memory: less than 2n·d values, or none beside the transform buffers
/// when there is a single block.
///
/// ```
/// use std::sync::Arc;
/// use dp_linalg::toeplitz::{BlockKernel, BlockToeplitz};
/// let mut sums = BlockToeplitz::new(Arc::new(BlockKernel::new(&[1.0; 3])?), 1)?;
/// let mut block = [1.0, 2.0, 3.0];
/// sums.push_block(&mut block)?;
/// assert!(block.iter().zip([1.0, 3.0, 6.0]).all(|(sum, expected)| (sum - expected).abs() < 1e-15));
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub struct BlockToeplitz {
    kernel: Arc<BlockKernel>,
    dimension: usize,
    /// Blocks done.
    done: usize,
    /// For each coordinate the spectra of the blocks before, but never that of the last.
    past: Vec<Vec<Complex64>>,
    /// Buffers for each group of coordinates that a thread works through.
    scratches: Vec<(Scratch, Vec<Complex64>)>,
}

impl Drop for BlockToeplitz {
    fn drop(&mut self) {
        self.past.iter_mut().for_each(|past| forget(past));
        self.scratches.iter_mut().for_each(|(_, sums)| forget(sums));
    }
}

impl BlockToeplitz {
    /// A stream at its first step.
    ///
    /// # Errors
    /// A dimension of 0, or so large that the state does not fit the address space.
    pub fn new(kernel: Arc<BlockKernel>, dimension: usize) -> Result<Self> {
        let spectrum = kernel.plan.spectrum_size();
        let kept = (kernel.spectra.len() - 1) * spectrum;
        let values = dimension.checked_mul(kept.max(kernel.steps));
        if !values.is_some_and(|values| values > 0 && values <= isize::MAX as usize / size_of::<Complex64>())
        {
            let range = "at least 1, and the horizon times it addressable";
            return Err(Error::OutOfRange { what: "dimension", value: dimension as f64, range });
        }
        let mut scratch = Scratch::default();
        scratch.reserve(&kernel.plan);
        let groups = rayon::current_num_threads().clamp(1, dimension);
        let past = vec![vec![Complex64::ZERO; kept]; dimension];
        let scratches = vec![(scratch, vec![Complex64::ZERO; spectrum]); groups];
        Ok(Self { kernel, dimension, done: 0, past, scratches })
    }

    /// The number of steps in the next block; 0 past the horizon.
    pub fn next_steps(&self) -> usize {
        self.kernel.block.min(self.kernel.steps.saturating_sub(self.done * self.kernel.block))
    }

    /// Takes the inputs of the next block, one row after the other, and leaves the outputs in their place.
    ///
    /// # Errors
    /// [`Error::Exhausted`] past the horizon, [`Error::Dimension`] for anything but the rows of the next block.
    pub fn push_block(&mut self, rows: &mut [f64]) -> Result<()> {
        let steps = self.next_steps();
        if steps == 0 {
            return Err(Error::Exhausted { horizon: self.kernel.steps });
        }
        check_length("rows of a block", steps * self.dimension, rows.len())?;
        let (kernel, done) = (self.kernel.as_ref(), self.done);
        let group = self.dimension.div_ceil(self.scratches.len());
        // The length was checked: the shape fits.
        if let Ok(mut rows) = ArrayViewMut2::from_shape((steps, self.dimension), rows) {
            let push = |mut columns: ArrayViewMut2<'_, f64>,
                        past: &mut [Vec<Complex64>],
                        (scratch, sums): &mut (Scratch, Vec<Complex64>)| {
                for (column, past) in columns.columns_mut().into_iter().zip(past) {
                    kernel.push_column(done, column, past, scratch, sums);
                }
            };
            if let [buffers] = &mut self.scratches[..] {
                // Handing a single group to another thread would only make it wait.
                push(rows, &mut self.past, buffers);
            } else {
                rows.axis_chunks_iter_mut(Axis(1), group)
                    .into_par_iter()
                    .zip(self.past.par_chunks_mut(group))
                    .zip(&mut self.scratches)
                    .for_each(|((columns, past), buffers)| push(columns, past, buffers));
            }
        }
        self.done += 1;
        Ok(())
    }
}

impl BlockKernel {
    /// One block of one coordinate.
    fn push_column(
        &self,
        done: usize,
        mut column: ArrayViewMut1<'_, f64>,
        past: &mut [Complex64],
        scratch: &mut Scratch,
        sums: &mut [Complex64],
    ) {
        let size = self.plan.size();
        let width = sums.len();
        let real = &mut scratch.real[..size];
        for (value, x) in real.iter_mut().zip(&column) {
            *value = *x;
        }
        real[column.len()..].fill(0.0);
        let (past, places) = past.split_at_mut(done * width);
        // Only the spectrum of the last block is not kept.
        let current = places.get_mut(..width).unwrap_or(&mut scratch.spectrum[..width]);
        let work = &mut scratch.work[..self.plan.work_size()];
        self.plan.forward(real, current, work);
        for (part, sums) in sums.chunks_mut(FREQUENCIES).enumerate() {
            let range = part * FREQUENCIES..part * FREQUENCIES + sums.len();
            for ((sum, x), factor) in
                sums.iter_mut().zip(&current[range.clone()]).zip(&self.spectra[0][range.clone()])
            {
                *sum = x * factor;
            }
            for (earlier, x) in past.chunks_exact(width).enumerate() {
                let factors = &self.spectra[done - earlier][range.clone()];
                for ((sum, x), factor) in sums.iter_mut().zip(&x[range.clone()]).zip(factors) {
                    *sum += x * factor;
                }
            }
        }
        self.plan.inverse_unscaled(sums, real, work);
        for (value, y) in column.iter_mut().zip(&real[size - self.block..]) {
            *value = *y;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toeplitz::LowerToeplitz;
    use ndarray::Array2;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Any number of blocks, the last one ragged, gives the offline product.
        #[test]
        fn blocks_are_offline(
            (n, d, block, values) in (1_usize..200, 1_usize..6).prop_flat_map(|(n, d)| {
                (Just(n), Just(d), 1..=n, prop::collection::vec(-1.0..1.0_f64, n * (d + 1)))
            })
        ) {
            let (coefficients, inputs) = values.split_at(n);
            let inputs = Array2::from_shape_vec((n, d), inputs.to_vec()).unwrap();
            let offline =
                LowerToeplitz::new(coefficients.to_vec()).unwrap().apply_columns(inputs.view()).unwrap();
            let kernel = Arc::new(BlockKernel::with_block(coefficients, block).unwrap());
            prop_assert_eq!(kernel.block(), block);
            let mut stream = BlockToeplitz::new(kernel, d).unwrap();
            let mut rows = inputs.into_raw_vec_and_offset().0;
            let mut rest = &mut rows[..];
            while stream.next_steps() > 0 {
                let (now, later) = rest.split_at_mut(stream.next_steps() * d);
                stream.push_block(now).unwrap();
                rest = later;
            }
            prop_assert!(rest.is_empty());
            let scale = n as f64;
            for (x, y) in rows.iter().zip(&offline) {
                prop_assert!((x - y).abs() <= 1e-13 * scale, "{} against {}", x, y);
            }
        }
    }

    #[test]
    fn long_horizons_are_cut() {
        let kernel = BlockKernel::new(&vec![1.0; SINGLE_BLOCK + 1]).unwrap();
        assert_eq!(kernel.spectra.len(), BLOCKS);
        assert!((BlockKernel::memory(1 << 20) as f64 / 2.0_f64.powi(20) - 1.75).abs() < 1e-9);
        assert_eq!(BlockKernel::new(&vec![1.0; SINGLE_BLOCK]).unwrap().spectra.len(), 1);
    }

    #[test]
    fn wrong_sizes_are_refused() {
        assert!(matches!(BlockKernel::new(&[]), Err(Error::Empty { .. })));
        assert!(matches!(BlockKernel::new(&[f64::NAN]), Err(Error::NonFinite { .. })));
        let kernel = Arc::new(BlockKernel::new(&[1.0, 2.0]).unwrap());
        assert!(matches!(BlockToeplitz::new(Arc::clone(&kernel), 0), Err(Error::OutOfRange { .. })));
        assert!(matches!(BlockToeplitz::new(Arc::clone(&kernel), usize::MAX), Err(Error::OutOfRange { .. })));
        let mut stream = BlockToeplitz::new(kernel, 3).unwrap();
        assert!(matches!(stream.push_block(&mut [0.0; 5]), Err(Error::Dimension { expected: 6, .. })));
        stream.push_block(&mut [0.0; 6]).unwrap();
        assert!(matches!(stream.push_block(&mut [0.0; 6]), Err(Error::Exhausted { horizon: 2 })));
    }
}
