//! The memory of a recurrence on d-vectors: a few buffers per coordinate, laid out for one pass per step.

use rayon::prelude::*;

use crate::error::{Error, Result};

/// From this dimension on a step is shared among rayon's threads.
const PARALLEL_FROM: usize = 65_536;

/// Up to this dimension each coordinate runs through all given rows by itself, with its state in registers.
pub(crate) const NARROW: usize = 16;

/// Buffers whose terms are added to each other before they meet the sum.
pub(crate) const LANES: usize = 4;

/// The number of coordinates handled together.
pub(crate) const TILE: usize = 512;

/// A number that a stream keeps: `f64`, or `f32` for half the memory. Values go in and out, and are added, in f64.
pub trait Sample: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// The value in f64.
    fn to_f64(self) -> f64;
    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f64 {}
    impl Sealed for f32 {}
}

impl Sample for f64 {
    fn to_f64(self) -> f64 {
        self
    }
    fn from_f64(value: f64) -> Self {
        value
    }
}

impl Sample for f32 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

/// Leaves zeros in memory that is about to be given back, whether or not anybody would read them.
///
/// Streams do this with all that they keep when they are dropped.
pub fn forget<T: Default + Copy>(values: &mut [T]) {
    values.fill(T::default());
    // The optimizer must take them for read.
    std::hint::black_box(values);
}

/// `count` buffers of d numbers. They are cut into tiles of [`TILE`] coordinates that hold their buffers one after the other,
/// so a step is one pass over memory in pieces that fit the first-level cache.
pub(crate) struct Buffers<T: Sample> {
    count: usize,
    pub(crate) dimension: usize,
    pub(crate) state: Vec<T>,
}

impl<T: Sample> Drop for Buffers<T> {
    fn drop(&mut self) {
        forget(&mut self.state);
    }
}

impl<T: Sample> Buffers<T> {
    /// Buffers full of zeros.
    pub(crate) fn new(count: usize, dimension: usize) -> Result<Self> {
        if dimension == 0 {
            return Err(Error::OutOfRange { what: "dimension", value: 0.0, range: "at least 1" });
        }
        Ok(Self { count, dimension, state: vec![T::default(); count * dimension] })
    }

    /// Hands every tile of a row to `advance`, with the buffers of the tile.
    pub(crate) fn for_each_tile(&mut self, row: &mut [f64], advance: impl Fn(&mut [T], &mut [f64]) + Sync) {
        if self.count == 0 {
            row.chunks_mut(TILE).for_each(|tile| advance(&mut [], tile));
        } else if self.dimension < PARALLEL_FROM {
            for (state, tile) in self.state.chunks_mut(self.count * TILE).zip(row.chunks_mut(TILE)) {
                advance(state, tile);
            }
        } else {
            // Sixteen tiles at least to a thread: a single one is over before it could be handed on.
            self.state
                .par_chunks_mut(self.count * TILE)
                .zip(row.par_chunks_mut(TILE))
                .with_min_len(16)
                .for_each(|(state, tile)| advance(state, tile));
        }
    }
}

/// `sums += sign · Σ_i w_i s_i` over the buffers `s_i` of a tile, with the terms of four buffers added to each other first.
pub(crate) fn add_products<T: Sample>(sign: f64, weights: &[f64], state: &[T], sums: &mut [f64]) {
    let length = sums.len();
    for (weights, buffers) in weights.chunks(LANES).zip(state.chunks(LANES * length)) {
        let weight = |index: usize| sign * weights[index];
        let buffer = |index: usize| &buffers[index * length..][..length];
        match weights.len() {
            1 => {
                let a = weight(0);
                sums.iter_mut().zip(buffer(0)).for_each(|(sum, p)| *sum += a * p.to_f64());
            }
            2 => {
                let (a, b) = (weight(0), weight(1));
                let parts = buffer(0).iter().zip(buffer(1));
                sums.iter_mut().zip(parts).for_each(|(sum, (p, q))| *sum += a * p.to_f64() + b * q.to_f64());
            }
            3 => {
                let (a, b, c) = (weight(0), weight(1), weight(2));
                let parts = buffer(0).iter().zip(buffer(1)).zip(buffer(2));
                sums.iter_mut().zip(parts).for_each(|(sum, ((p, q), r))| {
                    *sum += (a * p.to_f64() + b * q.to_f64()) + c * r.to_f64();
                });
            }
            _ => {
                let (a, b, c, d) = (weight(0), weight(1), weight(2), weight(3));
                let parts = buffer(0).iter().zip(buffer(1)).zip(buffer(2).iter().zip(buffer(3)));
                sums.iter_mut().zip(parts).for_each(|(sum, ((p, q), (r, s)))| {
                    *sum += (a * p.to_f64() + b * q.to_f64()) + (c * r.to_f64() + d * s.to_f64());
                });
            }
        }
    }
}

/// Four products, in the order of [`add_products`].
pub(crate) fn dot(weights: [f64; LANES], values: [f64; LANES]) -> f64 {
    (weights[0] * values[0] + weights[1] * values[1]) + (weights[2] * values[2] + weights[3] * values[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_what_is_forgotten() {
        let mut values = vec![1.5_f32, -2.0, f32::NAN];
        forget(&mut values);
        assert_eq!(values, [0.0; 3]);
    }
}
