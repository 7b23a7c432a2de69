//! Exact online convolution: `(C̃x)_t` for an integer Toeplitz matrix, while the inputs arrive.

use zeroize::Zeroize;

use super::transform::Convolver;

/// Steps whose mutual contributions are added one input at a time.
const STEP_BLOCK: usize = 8;

/// From this block length on the transform is faster than the direct block product.
const TRANSFORM_BLOCK: usize = 64;

/// `y_t = Σ_{s ≤ t} c_{t-s} x_s` in integers.
///
/// Relaxed convolution, as in [`dp_linalg::toeplitz::OnlineToeplitz`]: after every `m` inputs, let `L` be the largest
/// power of two that divides m; the last L inputs are multiplied by `c_1 … c_{2L-1}` in a cyclic product of length 2L
/// whose second half is added to the next L sums.
///
/// # Complexity
/// Amortized O(d log² n) per step; n·d sums of 128 bits. Everything is allocated by `new`.
pub(super) struct OnlineConvolution {
    coefficients: Vec<i64>,
    convolver: Convolver,
    /// Coordinate after coordinate, a sum per step.
    sums: Vec<i128>,
    scratch: Vec<u64>,
}

impl OnlineConvolution {
    /// `reach` bounds every sum that can arise; it must be below [`super::transform::REACH`].
    pub(super) fn new(coefficients: Vec<i64>, dimension: usize, reach: u128) -> Self {
        let horizon = coefficients.len();
        // The longest block that is ever multiplied is the largest power of two below the horizon.
        let longest = 2 * (1 << horizon.saturating_sub(1).checked_ilog2().unwrap_or(0));
        let convolver = Convolver::new(&coefficients, 2 * TRANSFORM_BLOCK, longest, reach);
        let scratch = vec![0; convolver.scratch_size(longest)];
        Self { coefficients, convolver, sums: vec![0; horizon * dimension], scratch }
    }

    /// Writes the sums of a step whose inputs, and all before them, stand in `inputs`: coordinate after coordinate, one
    /// per step of the horizon.
    pub(super) fn push(&mut self, step: usize, inputs: &[i64], output: &mut [i128]) {
        let horizon = self.coefficients.len();
        let parts = inputs.chunks_exact(horizon).zip(self.sums.chunks_exact_mut(horizon)).zip(output);
        for ((inputs, sums), output) in parts {
            let block_end = (step / STEP_BLOCK + 1) * STEP_BLOCK;
            add_products(&mut sums[step..horizon.min(block_end)], inputs[step], &self.coefficients);
            *output = sums[step];
            let arrived = step + 1;
            if !arrived.is_multiple_of(STEP_BLOCK) || arrived >= horizon {
                continue;
            }
            let block = 1 << arrived.trailing_zeros();
            let ends = block.min(horizon - arrived);
            let sums = &mut sums[arrived..arrived + ends];
            let inputs = &inputs[arrived - block..arrived];
            if block < TRANSFORM_BLOCK {
                for (s, input) in inputs.iter().enumerate() {
                    add_products(sums, *input, &self.coefficients[block - s..]);
                }
            } else {
                let mut sums = sums.iter_mut();
                self.convolver.multiply(inputs, 2 * block, block, &mut self.scratch, |value| {
                    if let Some(sum) = sums.next() {
                        *sum += value;
                    }
                });
            }
        }
    }
}

/// Adds `coefficients[t] · input` to `sums[t]`, for as many as both have.
fn add_products(sums: &mut [i128], input: i64, coefficients: &[i64]) {
    for (sum, coefficient) in sums.iter_mut().zip(coefficients) {
        *sum += i128::from(*coefficient) * i128::from(input);
    }
}

impl Drop for OnlineConvolution {
    fn drop(&mut self) {
        self.sums.zeroize();
        self.scratch.zeroize();
    }
}
