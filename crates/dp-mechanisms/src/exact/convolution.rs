//! Exact online convolution: `(C̃x)_t` for an integer Toeplitz matrix, while the inputs arrive.

use std::sync::Arc;

use zeroize::Zeroize;

use super::transform::{Factor, Field, fields, recover};

/// Steps whose mutual contributions are added one by one, where sums fit one word and where they take two.
const DIRECT: (usize, usize) = (256, 64);

/// Up to this many steps all contributions are added one by one: transforms would keep more than they save.
const ALL_DIRECT: usize = 1024;

/// The number of blocks of one level that make one of the next.
const RADIX: usize = 16;

/// `y_t = Σ_{s ≤ t} c_{t-s} x_s` in integers.
///
/// Relaxed convolution by blocks. The inputs are cut into blocks of m steps, sixteen of which are a block of the next level.
/// When a block is complete its spectrum is kept, and the sums of the next block of that level are made from all
/// spectra of the same larger block at once: one transform forward and one backward for each block and level. A pair
/// `s ≤ t` is served by the lowest level at which both are in one block of the next, and within the lowest block directly.
///
/// # Complexity
/// Amortized O(log² n / log 16) per step and coordinate. A coordinate keeps a spectrum of 2n residues and n/16 sums of 128
/// bits; up to 1024 steps nothing beside the inputs. Everything is allocated by `new`.
pub(super) struct OnlineConvolution {
    kernel: Arc<Kernel>,
    /// Coordinate after coordinate, what its levels keep.
    states: Vec<State>,
    scratch: Vec<u64>,
}

/// What all coordinates share: the coefficients and their spectra.
pub(super) struct Kernel {
    coefficients: Vec<i64>,
    fields: Vec<Field>,
    /// Steps in the lowest block.
    direct: usize,
    /// Whether every sum fits one word.
    narrow: bool,
    levels: Vec<Level>,
}

struct Level {
    /// Steps in a block.
    block: usize,
    /// Blocks that a later block of the same larger one can look back on.
    slots: usize,
    /// By prime, then by distance in blocks from 1 on: the spectra of `c_{(d-1)m} … c_{(d+1)m-1}`.
    spectra: Vec<Vec<Vec<Factor>>>,
}

struct State {
    /// By level: the spectra of the blocks of the current larger block, by slot and then by prime.
    spectra: Vec<Vec<u64>>,
    /// By level: what earlier blocks contribute to the current one.
    sums: Vec<Vec<i128>>,
}

impl OnlineConvolution {
    /// `reach` bounds every sum that can arise; it must be below [`super::transform::REACH`].
    pub(super) fn new(coefficients: Vec<i64>, dimension: usize, reach: u128) -> Self {
        Self::with_kernel(Arc::new(Kernel::new(coefficients, reach)), dimension)
    }

    /// The same with a kernel that others use as well.
    pub(super) fn with_kernel(kernel: Arc<Kernel>, dimension: usize) -> Self {
        let words = kernel.fields.len();
        let state = || State {
            spectra: kernel
                .levels
                .iter()
                .map(|level| vec![0; level.slots * words * 2 * level.block])
                .collect(),
            sums: kernel.levels.iter().map(|level| vec![0; level.block]).collect(),
        };
        let states = (0..dimension).map(|_| state()).collect();
        let scratch = vec![0; kernel.levels.last().map_or(0, |level| words * 2 * level.block)];
        Self { kernel, states, scratch }
    }

    /// Writes the sums of a step whose inputs, and all before them, stand in `inputs`: coordinate after coordinate, one
    /// per step of the horizon.
    pub(super) fn push(&mut self, step: usize, inputs: &[i64], output: &mut [i128]) {
        let horizon = self.kernel.coefficients.len();
        for ((inputs, state), output) in inputs.chunks_exact(horizon).zip(&mut self.states).zip(output) {
            *output = self.kernel.sum(step, inputs, state);
            self.kernel.finish_blocks(step + 1, inputs, state, &mut self.scratch);
        }
    }
}

impl Kernel {
    pub(super) fn new(coefficients: Vec<i64>, reach: u128) -> Self {
        let horizon = coefficients.len();
        // Below half of a word, so that no partial sum leaves it.
        let narrow = reach < 1 << 62;
        let (first, most) = (if narrow { DIRECT.0 } else { DIRECT.1 }, RADIX - 1);
        let blocks: Vec<usize> = if horizon <= ALL_DIRECT {
            Vec::new()
        } else {
            std::iter::successors(Some(first), |block| block.checked_mul(RADIX))
                .take_while(|block| *block < horizon)
                .collect()
        };
        let direct = if blocks.is_empty() { horizon.max(1) } else { first };
        let longest = blocks.last().map_or(2, |block| 2 * block);
        let fields = fields(longest, reach);
        let levels = blocks
            .into_iter()
            .map(|block| {
                let slots = most.min(horizon.div_ceil(block) - 1);
                let part = |distance: usize| {
                    let start = ((distance - 1) * block).min(horizon);
                    &coefficients[start..horizon.min(start + 2 * block)]
                };
                let spectra = fields
                    .iter()
                    .map(|field| (1..=slots).map(|d| field.spectrum(part(d), 2 * block)).collect())
                    .collect();
                Level { block, slots, spectra }
            })
            .collect();
        Self { coefficients, fields, direct, narrow, levels }
    }

    /// The sum of a step.
    fn sum(&self, step: usize, inputs: &[i64], state: &State) -> i128 {
        let start = step - step % self.direct;
        let recent = inputs[start..=step].iter().rev().zip(&self.coefficients);
        let direct = if self.narrow {
            i128::from(recent.fold(0_i64, |sum, (x, c)| sum.wrapping_add(x.wrapping_mul(*c))))
        } else {
            recent.map(|(x, c)| i128::from(*x) * i128::from(*c)).sum()
        };
        let earlier = self.levels.iter().zip(&state.sums).map(|(level, sums)| sums[step % level.block]);
        direct + earlier.sum::<i128>()
    }

    /// What follows from the blocks that are complete once so many inputs have arrived.
    fn finish_blocks(&self, arrived: usize, inputs: &[i64], state: &mut State, scratch: &mut [u64]) {
        if arrived >= self.coefficients.len() {
            return;
        }
        for (index, level) in self.levels.iter().enumerate() {
            let block = level.block;
            if !arrived.is_multiple_of(block) {
                return;
            }
            let position = arrived / block % RADIX;
            if position == 0 {
                // The next level looks back from here.
                state.sums[index].fill(0);
                continue;
            }
            let (words, length) = (self.fields.len(), 2 * block);
            let spectra = &mut state.spectra[index];
            let size = words * length;
            let scratch = &mut scratch[..size];
            scratch.fill(0);
            for (word, field) in self.fields.iter().enumerate() {
                let place = (position - 1) * size + word * length;
                field.transform(&inputs[arrived - block..arrived], &mut spectra[place..place + length]);
                let sums = &mut scratch[word * length..(word + 1) * length];
                for distance in 1..=position {
                    let place = (position - distance) * size + word * length;
                    field.add_product(
                        &spectra[place..place + length],
                        &level.spectra[word][distance - 1],
                        sums,
                    );
                }
                field.backward(sums);
            }
            let mut sums = state.sums[index].iter_mut();
            // The second half of the cyclic product is free of wrapped terms.
            recover(&self.fields, scratch, block, |value| {
                if let Some(sum) = sums.next() {
                    *sum = value;
                }
            });
        }
    }
}

impl Drop for OnlineConvolution {
    fn drop(&mut self) {
        for state in &mut self.states {
            state.spectra.iter_mut().for_each(Zeroize::zeroize);
            state.sums.iter_mut().for_each(Zeroize::zeroize);
        }
        self.scratch.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sums of a stream of two coordinates, and the same by definition where asked for.
    fn compare(horizon: usize, bits: u32, reach: u128, every: usize) {
        // A multiplicative generator of full period, cut to the bits in use: any numbers will do.
        let mut last = 1_u64;
        let mut next = |bits: u32| {
            last = last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (last >> (64 - bits)).cast_signed() - (1 << (bits - 1))
        };
        let coefficients: Vec<i64> = (0..horizon).map(|_| next(bits)).collect();
        let inputs: Vec<i64> = (0..2 * horizon).map(|_| next(10)).collect();
        let mut online = OnlineConvolution::new(coefficients.clone(), 2, reach);
        let mut output = [0; 2];
        for step in 0..horizon {
            if step % every != 0 && step + 1 != horizon {
                online.push(step, &inputs, &mut output);
                continue;
            }
            // What is yet to come is not looked at.
            let mut known = inputs.clone();
            known[step + 1..horizon].fill(0);
            known[horizon + step + 1..].fill(0);
            online.push(step, &known, &mut output);
            for (output, inputs) in output.iter().zip(inputs.chunks_exact(horizon)) {
                let expected: i128 = inputs[..=step]
                    .iter()
                    .rev()
                    .zip(&coefficients)
                    .map(|(x, c)| i128::from(*x) * i128::from(*c))
                    .sum();
                assert_eq!(*output, expected, "step {step} of {horizon}");
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_definition_at_every_level_and_with_one_prime_or_two() {
        for (horizon, every) in
            [(1, 1), (2, 1), (700, 1), (1024, 1), (1025, 1), (3000, 7), (4097, 1), (9000, 61)]
        {
            compare(horizon, 30, 1 << 60, every);
            compare(horizon, 50, 1 << 80, every);
        }
        compare(70_000, 20, 1 << 60, 997);
    }
}
