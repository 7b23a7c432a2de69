//! The memory of a recurrence on d-vectors: a few buffers per coordinate, laid out for one pass per step.

#![allow(
    clippy::inline_always,
    reason = "what is not inlined is not compiled for the vectors of the machine"
)]

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::error::{Error, Result};

/// From this dimension on a step is shared among rayon's threads.
const PARALLEL_FROM: usize = 65_536;

/// Up to this dimension each coordinate runs through all given rows by itself, with its state in registers.
pub(crate) const NARROW: usize = 16;

/// Buffers whose terms are added to each other before they meet the sum.
pub(crate) const LANES: usize = 4;

/// The bytes that come from memory at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// The number of coordinates handled together.
pub(crate) const TILE: usize = 512;

/// The most rows that go through a tile together.
pub(crate) const ROWS: usize = 8;

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
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
}

impl Sample for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
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

    /// Asks for the memory of these coordinates, as [`fetch`] does.
    pub(crate) fn fetch(&self, coordinates: Range<usize>) {
        // Tiles follow each other, each with all of its buffers: parts of the coordinates are parts of the state, in order.
        let at = |coordinate: usize| (self.count * coordinate).min(self.state.len());
        fetch(&self.state[at(coordinates.start)..at(coordinates.end)]);
    }

    /// Hands every tile of at most [`ROWS`] rows to `advance`, with the buffers of the tile: it goes through all of the rows while
    /// its buffers are in the cache. Nothing is allocated.
    pub(crate) fn for_each_tile(
        &mut self,
        rows: &mut [f64],
        advance: impl Fn(&mut [T], &mut [&mut [f64]]) + Sync,
    ) {
        let mut parts = Parts::default();
        for (part, row) in parts.iter_mut().zip(rows.chunks_exact_mut(self.dimension)) {
            *part = row;
        }
        // Sixteen tiles at least to a thread: a single one is over before it could be handed on.
        let least = if self.dimension < PARALLEL_FROM { usize::MAX } else { 16 * TILE };
        across(self.count, &mut self.state, parts, least, &advance);
    }
}

/// The same coordinates of some rows; what is not needed is empty.
type Parts<'a> = [&'a mut [f64]; ROWS];

/// Cuts rows before a coordinate.
fn split(parts: Parts<'_>, at: usize) -> (Parts<'_>, Parts<'_>) {
    let (mut before, mut after) = (Parts::default(), Parts::default());
    for ((part, before), after) in parts.into_iter().zip(&mut before).zip(&mut after) {
        let at = at.min(part.len());
        (*before, *after) = part.split_at_mut(at);
    }
    (before, after)
}

/// Goes through tiles, from twice `least` coordinates on by several threads.
fn across<T: Sample>(
    count: usize,
    state: &mut [T],
    mut parts: Parts<'_>,
    least: usize,
    advance: &(impl Fn(&mut [T], &mut [&mut [f64]]) + Sync),
) {
    let width = parts[0].len();
    if width / 2 >= least {
        let middle = (width / 2).next_multiple_of(TILE);
        let (left, right) = state.split_at_mut(count * middle);
        let (before, after) = split(parts, middle);
        rayon::join(
            || across(count, left, before, least, advance),
            || across(count, right, after, least, advance),
        );
        return;
    }
    let rows = parts.iter().take_while(|part| !part.is_empty()).count();
    let mut state = state;
    while !parts[0].is_empty() {
        let tile = parts[0].len().min(TILE);
        let (buffers, others) = state.split_at_mut(count * tile);
        let (mut tiles, later) = split(parts, tile);
        advance(buffers, &mut tiles[..rows]);
        (state, parts) = (others, later);
    }
}

/// Asks for values that are about to be needed, so that they come to the cache while something else is computed. It waits for
/// nothing and changes nothing; where processors have no instruction for it that is stable in Rust, it does nothing.
fn fetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for value in values.iter().step_by((CACHE_LINE / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint that reads nothing by itself and cannot fault, for the address of a value that is alive.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// `sums += sign · Σ_i w_i s_i` over the buffers `s_i` of a tile, with the terms of four buffers added to each other first.
pub(crate) fn add_products<T: Sample>(sign: f64, weights: &[f64], state: &[T], sums: &mut [f64]) {
    Arch::new().dispatch(AddProducts { sign, weights, state, sums });
}

/// `s_i ← θ_i s_i + input` for every buffer of a tile.
pub(crate) fn drive<T: Sample>(theta: &[f64], state: &mut [T], input: &[f64]) {
    Arch::new().dispatch(Drive { theta, state, input });
}

/// The arguments of [`add_products`]. This and [`Drive`] are compiled for the widest vectors that the machine has; products and
/// sums are rounded one by one on all of them, so that a stream is the same to the last bit everywhere.
struct AddProducts<'a, T> {
    sign: f64,
    weights: &'a [f64],
    state: &'a [T],
    sums: &'a mut [f64],
}

impl<T: Sample> WithSimd for AddProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { sign, weights, state, sums } = self;
        let length = sums.len();
        for (weights, buffers) in weights.chunks(LANES).zip(state.chunks(LANES * length)) {
            let weight = |index: usize| sign * weights[index];
            let buffer = |index: usize| &buffers[index * length..][..length];
            match weights.len() {
                1 => {
                    let a = weight(0);
                    for (sum, p) in sums.iter_mut().zip(buffer(0)) {
                        *sum += a * p.to_f64();
                    }
                }
                2 => {
                    let (a, b) = (weight(0), weight(1));
                    for (sum, (p, q)) in sums.iter_mut().zip(buffer(0).iter().zip(buffer(1))) {
                        *sum += a * p.to_f64() + b * q.to_f64();
                    }
                }
                3 => {
                    let (a, b, c) = (weight(0), weight(1), weight(2));
                    let parts = buffer(0).iter().zip(buffer(1)).zip(buffer(2));
                    for (sum, ((p, q), r)) in sums.iter_mut().zip(parts) {
                        *sum += (a * p.to_f64() + b * q.to_f64()) + c * r.to_f64();
                    }
                }
                _ => {
                    let (a, b, c, d) = (weight(0), weight(1), weight(2), weight(3));
                    let parts = buffer(0).iter().zip(buffer(1)).zip(buffer(2).iter().zip(buffer(3)));
                    for (sum, ((p, q), (r, s))) in sums.iter_mut().zip(parts) {
                        *sum += (a * p.to_f64() + b * q.to_f64()) + (c * r.to_f64() + d * s.to_f64());
                    }
                }
            }
        }
    }
}

/// The arguments of [`drive`].
struct Drive<'a, T> {
    theta: &'a [f64],
    state: &'a mut [T],
    input: &'a [f64],
}

impl<T: Sample> WithSimd for Drive<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (&theta, buffer) in self.theta.iter().zip(self.state.chunks_mut(self.input.len())) {
            for (value, input) in buffer.iter_mut().zip(self.input) {
                *value = T::from_f64(theta * value.to_f64() + input);
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

    /// Whatever vectors the machine has, a tile is what the formulas say, one rounding after the other.
    fn check_tiles<T: Sample + PartialEq + std::fmt::Debug>() {
        let value = |index: usize| (index as f64 * 0.731 + 0.1).sin();
        for count in 1..=9 {
            for length in [1, 2, 7, 8, 9, 31, TILE] {
                let weights: Vec<f64> = (0..count).map(|index| value(index + 7)).collect();
                let state: Vec<T> = (0..count * length).map(|index| T::from_f64(value(3 * index))).collect();
                let fresh: Vec<f64> = (0..length).map(|index| value(5 * index + 1)).collect();
                let (mut sums, mut driven) = (fresh.clone(), state.clone());
                add_products(-1.0, &weights, &state, &mut sums);
                drive(&weights, &mut driven, &fresh);
                for at in 0..length {
                    let term = |index: usize| -weights[index] * state[index * length + at].to_f64();
                    let expected = (0..count).step_by(LANES).fold(fresh[at], |sum, first| {
                        sum + match count - first {
                            1 => term(first),
                            2 => term(first) + term(first + 1),
                            3 => (term(first) + term(first + 1)) + term(first + 2),
                            _ => (term(first) + term(first + 1)) + (term(first + 2) + term(first + 3)),
                        }
                    });
                    assert_eq!(sums[at].to_bits(), expected.to_bits(), "{count} buffers, {at} of {length}");
                    for (index, weight) in weights.iter().enumerate() {
                        let kept = state[index * length + at].to_f64();
                        assert_eq!(driven[index * length + at], T::from_f64(weight * kept + fresh[at]));
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_are_rounded_as_the_formulas_say() {
        check_tiles::<f64>();
        check_tiles::<f32>();
    }

    #[test]
    fn asking_for_memory_changes_nothing() {
        let mut buffers = Buffers::<f32>::new(3, 1000).unwrap();
        buffers.state.iter_mut().zip(1_u16..).for_each(|(value, index)| *value = f32::from(index));
        let before = buffers.state.clone();
        // Within, over a tile's end, up to the end and beyond it.
        for coordinates in [0..1, 500..530, 990..1000, 990..2000, 5000..6000] {
            buffers.fetch(coordinates);
        }
        assert_eq!(buffers.state, before);
    }
}
