//! Lower-triangular Toeplitz products of inputs that arrive one at a time.

use num_complex::Complex64;
use rayon::prelude::*;

use crate::buffers::forget;
use crate::error::check_finite;
use crate::fft::{Plan, Scratch};
use crate::{Error, Result};

/// Steps whose mutual contributions are added one input at a time.
const STEP_BLOCK: usize = 8;

/// From this block length on two transforms are faster than the direct block product.
const TRANSFORM_BLOCK: usize = 64;

/// Coordinates that lie side by side in memory: one tile of a short horizon stays in the first-level cache.
const TILE: usize = 64;

/// Values touched by one update below which starting threads costs more than it saves.
const PARALLEL_VALUES: usize = 1 << 16;

/// `y_t = Σ_{s ≤ t} c_{t-s} x_s`, released step by step while the d-vectors `x_t` arrive.
///
/// Relaxed convolution with a kernel known in advance. After every `m` inputs with `m` a multiple of 8, let `L` be the
/// largest power of two that divides m: the inputs `x_{m-L} … x_{m-1}` are multiplied by `c_1 … c_{2L-1}` and added to
/// the outputs `y_m … y_{m+L-1}`, by a cyclic transform of length 2L whose kernel spectrum is kept. Every pair `s ≤ t`
/// is served exactly once: by the smallest aligned block that holds both, or, within eight steps, directly.
///
/// The sum that waits for step t and the input of step t share one place, since the sum is released just when the
/// input arrives.
///
/// **Complexity** amortized O(d log² n) time per step; single steps cost up to O(d n log n). Memory: n·d values, plus
/// O(n) for the kernel and its spectra and for the transform buffers of each thread. All of it is allocated by `new`.
///
/// ```
/// use dp_linalg::toeplitz::OnlineToeplitz;
/// let mut sums = OnlineToeplitz::new(&[1.0; 3], 2)?;
/// let mut output = [0.0; 2];
/// sums.push(&[1.0, 10.0], &mut output)?;
/// sums.push(&[2.0, 20.0], &mut output)?;
/// assert_eq!(output, [3.0, 30.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Clone)]
pub struct OnlineToeplitz {
    kernel: Kernel,
    dimension: usize,
    step: usize,
    /// Tiles of up to [`TILE`] coordinates one after the other; a tile holds n rows, one per step.
    tiles: Vec<f64>,
    /// Transform buffers, one per group of tiles that a thread works through.
    scratches: Vec<Scratch>,
}

/// What all tiles share: the coefficients and what is prepared from them.
#[derive(Clone)]
struct Kernel {
    coefficients: Vec<f64>,
    /// Plan and kernel spectrum of the block lengths `TRANSFORM_BLOCK · 2^i`.
    levels: Vec<(Plan, Vec<Complex64>)>,
}

impl Drop for OnlineToeplitz {
    fn drop(&mut self) {
        forget(&mut self.tiles);
    }
}

impl std::fmt::Debug for OnlineToeplitz {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OnlineToeplitz")
            .field("horizon", &self.horizon())
            .field("dimension", &self.dimension)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl OnlineToeplitz {
    /// An operator for as many steps as there are coefficients, on vectors of length `dimension`.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] or [`Error::NonFinite`] for the coefficients; [`Error::OutOfRange`] if `dimension` is 0 or the
    /// state does not fit the address space.
    pub fn new(coefficients: &[f64], dimension: usize) -> Result<Self> {
        check_finite("Toeplitz coefficients", coefficients)?;
        let horizon = coefficients.len();
        let values =
            horizon.checked_mul(dimension).filter(|&values| values > 0 && values <= isize::MAX as usize / 8);
        let Some(values) = values else {
            let range = "at least 1, and the horizon times it addressable";
            return Err(Error::OutOfRange { what: "dimension", value: dimension as f64, range });
        };
        let kernel = Kernel::new(coefficients);
        let mut scratch = Scratch::default();
        if let Some((plan, _)) = kernel.levels.last() {
            scratch.reserve(plan);
        }
        let groups = rayon::current_num_threads().clamp(1, dimension.div_ceil(TILE));
        Ok(Self { kernel, dimension, step: 0, tiles: vec![0.0; values], scratches: vec![scratch; groups] })
    }

    /// The number of steps pushed so far.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The number of steps this operator was made for.
    pub fn horizon(&self) -> usize {
        self.kernel.coefficients.len()
    }

    /// The length d of inputs and outputs.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Takes the input of the next step and writes the output of the same step. Allocates nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Exhausted`] past the horizon, [`Error::Dimension`] if a slice does not have length d,
    /// [`Error::NonFinite`] for an input that would spoil all later outputs. The operator is unchanged after an error.
    pub fn push(&mut self, input: &[f64], output: &mut [f64]) -> Result<()> {
        let horizon = self.horizon();
        if self.step >= horizon {
            return Err(Error::Exhausted { horizon });
        }
        for (what, actual) in [("input of a step", input.len()), ("output of a step", output.len())] {
            if actual != self.dimension {
                return Err(Error::Dimension { what, expected: self.dimension, actual });
            }
        }
        check_finite("input of a step", input)?;

        let (kernel, step) = (&self.kernel, self.step);
        let block = kernel.block_after(step);
        if self.scratches.len() == 1 || self.dimension * block.max(STEP_BLOCK) < PARALLEL_VALUES {
            kernel.push_tiles(step, input, output, &mut self.tiles, &mut self.scratches[0]);
        } else {
            let group = self.dimension.div_ceil(TILE).div_ceil(self.scratches.len()) * TILE;
            (
                self.tiles.par_chunks_mut(group * horizon),
                input.par_chunks(group),
                output.par_chunks_mut(group),
            )
                .into_par_iter()
                .zip(&mut self.scratches)
                .for_each(|((tiles, input, output), scratch)| {
                    kernel.push_tiles(step, input, output, tiles, scratch);
                });
        }
        self.step += 1;
        Ok(())
    }
}

impl Kernel {
    fn new(coefficients: &[f64]) -> Self {
        let horizon = coefficients.len();
        let mut scratch = Scratch::default();
        let levels = std::iter::successors(Some(TRANSFORM_BLOCK), |block| block.checked_mul(2))
            .take_while(|&block| block < horizon)
            .map(|block| {
                let plan = Plan::exact(2 * block);
                let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
                scratch.spectrum_into(&plan, &coefficients[..horizon.min(2 * block)], &mut spectrum);
                (plan, spectrum)
            })
            .collect();
        Self { coefficients: coefficients.to_vec(), levels }
    }

    /// The length of the block product that is due once the input of `step` is in; 0 if none is.
    fn block_after(&self, step: usize) -> usize {
        let inputs = step + 1;
        if inputs.is_multiple_of(STEP_BLOCK) && inputs < self.coefficients.len() {
            1 << inputs.trailing_zeros()
        } else {
            0
        }
    }

    /// One step of consecutive tiles.
    fn push_tiles(
        &self,
        step: usize,
        input: &[f64],
        output: &mut [f64],
        tiles: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let horizon = self.coefficients.len();
        let block = self.block_after(step);
        let parts = input.chunks(TILE).zip(output.chunks_mut(TILE)).zip(tiles.chunks_mut(TILE * horizon));
        for ((input, output), tile) in parts {
            let width = input.len();
            let block_end = (step / STEP_BLOCK + 1) * STEP_BLOCK;
            let waiting = &mut tile[step * width..horizon.min(block_end) * width];
            add_products(waiting, input, &self.coefficients);
            output.copy_from_slice(&waiting[..width]);
            waiting[..width].copy_from_slice(input);
            if block == 0 {
                continue;
            }
            let (past, future) = tile.split_at_mut((step + 1) * width);
            let inputs = &past[(step + 1 - block) * width..];
            let ends = block.min(horizon - step - 1);
            let sums = &mut future[..ends * width];
            if block < TRANSFORM_BLOCK {
                for (s, input) in inputs.chunks_exact(width).enumerate() {
                    add_products(sums, input, &self.coefficients[block - s..]);
                }
            } else {
                self.add_transformed(width, inputs, sums, scratch);
            }
        }
    }

    /// Adds to each row `sums[t]` what the rows of `inputs` contribute, coordinate by coordinate.
    fn add_transformed(&self, width: usize, inputs: &[f64], sums: &mut [f64], scratch: &mut Scratch) {
        let block = inputs.len() / width;
        let (plan, spectrum) = &self.levels[(block / TRANSFORM_BLOCK).trailing_zeros() as usize];
        for coordinate in 0..width {
            let real = &mut scratch.real[..plan.size()];
            for (value, row) in real.iter_mut().zip(inputs.chunks_exact(width)) {
                *value = row[coordinate];
            }
            real[block..].fill(0.0);
            // The second half of the cyclic product is free of wrapped terms.
            let product = &scratch.filter_in_place(plan, spectrum)[block..];
            for (row, value) in sums.chunks_exact_mut(width).zip(product) {
                row[coordinate] += value;
            }
        }
    }
}

/// Adds `coefficients[t] · input` to row t of `rows`, for as many rows as both have.
fn add_products(rows: &mut [f64], input: &[f64], coefficients: &[f64]) {
    if let [input] = *input {
        for (sum, c) in rows.iter_mut().zip(coefficients) {
            *sum += c * input;
        }
        return;
    }
    for (row, c) in rows.chunks_exact_mut(input.len()).zip(coefficients) {
        for (sum, x) in row.iter_mut().zip(input) {
            *sum += c * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{series, toeplitz::LowerToeplitz};
    use ndarray::Array2;
    use proptest::prelude::*;

    /// Pushes all rows and compares with the offline product, relative to the largest output.
    fn assert_online_is_offline(coefficients: &[f64], inputs: &Array2<f64>) {
        let (n, d) = inputs.dim();
        let offline =
            LowerToeplitz::new(coefficients.to_vec()).unwrap().apply_columns(inputs.view()).unwrap();
        let scale = offline.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let mut online = OnlineToeplitz::new(coefficients, d).unwrap();
        let mut output = vec![f64::NAN; d];
        for (t, row) in inputs.rows().into_iter().enumerate() {
            assert_eq!(online.step(), t);
            online.push(row.as_slice().unwrap(), &mut output).unwrap();
            for (x, y) in output.iter().zip(offline.row(t)) {
                assert!((x - y).abs() <= 1e-12 * scale, "n = {n}, d = {d}, step {t}: {x} against {y}");
            }
        }
        let outcome = online.push(&vec![0.0; d], &mut output);
        assert_eq!(outcome, Err(Error::Exhausted { horizon: n }));
    }

    fn wave(n: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, d), |(t, i)| ((t * t % 1009 + 31 * i) as f64 * 0.7).sin())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn online_is_offline(
            (n, d, values) in (1_usize..400, 1_usize..6).prop_flat_map(|(n, d)| {
                (Just(n), Just(d), prop::collection::vec(-1.0..1.0_f64, n * (d + 1)))
            })
        ) {
            let (coefficients, inputs) = values.split_at(n);
            assert_online_is_offline(coefficients, &Array2::from_shape_vec((n, d), inputs.to_vec()).unwrap());
        }
    }

    #[test]
    fn long_streams_agree() {
        for n in [1 << 15, 40_001] {
            assert_online_is_offline(&series::binomial(0.5, n), &wave(n, 1));
        }
    }

    #[test]
    fn wide_streams_agree_with_and_without_threads() {
        // More than one tile, the last one ragged; wide enough for the parallel path at block ends and in every step.
        assert_online_is_offline(&series::binomial(0.5, 300), &wave(300, 333));
        assert_online_is_offline(&series::binomial(-0.5, 20), &wave(20, 9001));
    }

    #[test]
    fn state_is_one_value_per_step_and_coordinate() {
        let online = OnlineToeplitz::new(&[1.0; 64], 1000).unwrap();
        assert_eq!(online.tiles.capacity(), 64 * 1000);
        assert!(online.kernel.levels.is_empty());
    }

    #[test]
    fn a_refused_push_changes_nothing() {
        let mut online = OnlineToeplitz::new(&[1.0, 1.0], 2).unwrap();
        let mut output = [0.0; 2];
        assert!(matches!(online.push(&[1.0], &mut output), Err(Error::Dimension { actual: 1, .. })));
        assert!(matches!(
            online.push(&[1.0, 2.0], &mut output[..1]),
            Err(Error::Dimension { actual: 1, .. })
        ));
        assert!(matches!(online.push(&[1.0, f64::NAN], &mut output), Err(Error::NonFinite { index: 1, .. })));
        assert_eq!(online.step(), 0);
        online.push(&[1.0, 2.0], &mut output).unwrap();
        assert_eq!(output, [1.0, 2.0]);
        assert!(matches!(OnlineToeplitz::new(&[], 1), Err(Error::Empty { .. })));
        assert!(matches!(OnlineToeplitz::new(&[1.0], 0), Err(Error::OutOfRange { .. })));
        assert!(matches!(OnlineToeplitz::new(&[1.0, 1.0], usize::MAX), Err(Error::OutOfRange { .. })));
    }
}
