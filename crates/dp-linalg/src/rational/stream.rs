//! A rational operator applied or inverted one step at a time.

use std::ops::Range;

use rayon::prelude::*;

use super::Rational;
use crate::error::{Error, Result, check_length};

/// From this dimension on a step is shared among rayon's threads.
const PARALLEL_FROM: usize = 65_536;

/// A number that a stream stores and exchanges: `f64`, or `f32` for half the memory. Arithmetic is in f64 either way.
pub trait Sample: sealed::Sealed + Copy + Default + Send + Sync {
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

/// The state of a [`Rational`] operator C, or of its inverse, on a stream of d-vectors: k buffers per coordinate.
///
/// ```text
/// solve   ξ = z - Σ_i ω_i s_i,    s_i ← θ_i s_i + ξ        (ξ = C⁻¹ z)
/// apply   y = x + Σ_i ω_i s_i,    s_i ← θ_i s_i + x        (y = C x)
/// ```
///
/// The state is cut into tiles of [`RationalStream::TILE`] coordinates that hold their k buffers one after the other, so a
/// step is one pass over memory in pieces that fit the first-level cache. Use one stream for one direction;
/// nothing is allocated after [`RationalStream::new`].
pub struct RationalStream<T = f64> {
    theta: Vec<f64>,
    omega: Vec<f64>,
    dimension: usize,
    state: Vec<T>,
}

#[derive(Clone, Copy)]
enum Direction {
    Solve,
    Apply,
}

impl<T: Sample> RationalStream<T> {
    /// The number of coordinates handled together. Tiles start at multiples of it.
    pub const TILE: usize = 512;

    /// A stream at its first step.
    ///
    /// **Complexity** k·d numbers of memory.
    ///
    /// # Errors
    /// The dimension is 0.
    pub fn new(operator: &Rational, dimension: usize) -> Result<Self> {
        if dimension == 0 {
            return Err(Error::OutOfRange { what: "dimension", value: 0.0, range: "at least 1" });
        }
        Ok(RationalStream {
            theta: operator.theta().to_vec(),
            omega: operator.omega().to_vec(),
            dimension,
            state: vec![T::default(); operator.buffers() * dimension],
        })
    }

    /// The number of coordinates d.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The buffers, for a snapshot.
    pub fn state(&self) -> &[T] {
        &self.state
    }

    /// Goes back to a snapshot.
    ///
    /// # Errors
    /// The snapshot has another size.
    pub fn restore(&mut self, state: &[T]) -> Result<()> {
        check_length("state", self.state.len(), state.len())?;
        self.state.copy_from_slice(state);
        Ok(())
    }

    /// Goes back to the first step.
    pub fn reset(&mut self) {
        self.state.fill(T::default());
    }

    /// One step of the inverse: writes `ξ_t = (C⁻¹ z)_t`.
    ///
    /// **Complexity** O(k d), in parallel from d = 65536 on.
    ///
    /// # Errors
    /// A vector does not have d entries.
    pub fn solve_step(&mut self, z: &[T], xi: &mut [T]) -> Result<()> {
        check_length("z", self.dimension, z.len())?;
        self.solve_step_with(xi, |range, tile| tile.copy_from_slice(&z[range]))
    }

    /// [`RationalStream::solve_step`] with the input made on the spot: `fill` writes the entries of z in the given range of
    /// coordinates, which are filtered while they are still in the cache.
    ///
    /// Each range is one tile, asked for exactly once, in any order and from any thread.
    ///
    /// # Errors
    /// The output does not have d entries.
    pub fn solve_step_with(
        &mut self,
        xi: &mut [T],
        fill: impl Fn(Range<usize>, &mut [T]) + Sync,
    ) -> Result<()> {
        if self.dimension < PARALLEL_FROM {
            return self.solve_step_in_order(xi, fill);
        }
        check_length("xi", self.dimension, xi.len())?;
        self.step_in_parallel(Direction::Solve, xi, fill);
        Ok(())
    }

    /// [`RationalStream::solve_step_with`] on the calling thread, tile after tile from the first coordinate to the last, for a
    /// source that can only be read in order.
    ///
    /// # Errors
    /// The output does not have d entries.
    pub fn solve_step_in_order(
        &mut self,
        xi: &mut [T],
        fill: impl FnMut(Range<usize>, &mut [T]),
    ) -> Result<()> {
        check_length("xi", self.dimension, xi.len())?;
        self.step_in_order(Direction::Solve, xi, fill);
        Ok(())
    }

    /// One step of the operator itself: writes `y_t = (C x)_t`.
    ///
    /// **Complexity** O(k d), in parallel from d = 65536 on.
    ///
    /// # Errors
    /// A vector does not have d entries.
    pub fn apply_step(&mut self, x: &[T], y: &mut [T]) -> Result<()> {
        check_length("x", self.dimension, x.len())?;
        check_length("y", self.dimension, y.len())?;
        let fill = |range: Range<usize>, tile: &mut [T]| tile.copy_from_slice(&x[range]);
        if self.dimension < PARALLEL_FROM {
            self.step_in_order(Direction::Apply, y, fill);
        } else {
            self.step_in_parallel(Direction::Apply, y, fill);
        }
        Ok(())
    }

    fn step_in_order(
        &mut self,
        direction: Direction,
        output: &mut [T],
        mut fill: impl FnMut(Range<usize>, &mut [T]),
    ) {
        let buffers = self.theta.len();
        let tiles = self.state.chunks_mut(buffers * Self::TILE).zip(output.chunks_mut(Self::TILE));
        for (index, (state, tile)) in tiles.enumerate() {
            fill(coordinates(index * Self::TILE, tile), tile);
            advance(direction, &self.theta, &self.omega, state, tile);
        }
    }

    fn step_in_parallel(
        &mut self,
        direction: Direction,
        output: &mut [T],
        fill: impl Fn(Range<usize>, &mut [T]) + Sync,
    ) {
        let (theta, omega) = (&self.theta, &self.omega);
        let tiles =
            self.state.par_chunks_mut(theta.len() * Self::TILE).zip(output.par_chunks_mut(Self::TILE));
        // Sixteen tiles at least to a thread: a single one is over before it could be handed on.
        tiles.with_min_len(16).enumerate().for_each(|(index, (state, tile))| {
            fill(coordinates(index * Self::TILE, tile), tile);
            advance(direction, theta, omega, state, tile);
        });
    }
}

fn coordinates<T>(start: usize, tile: &[T]) -> Range<usize> {
    start..start + tile.len()
}

/// One step of one tile, in place; the accumulator keeps the sums in f64 whatever the storage.
fn advance<T: Sample>(direction: Direction, theta: &[f64], omega: &[f64], state: &mut [T], tile: &mut [T]) {
    let mut accumulator = [0.0; RationalStream::<f64>::TILE];
    let accumulator = &mut accumulator[..tile.len()];
    let sign = match direction {
        Direction::Solve => -1.0,
        Direction::Apply => 1.0,
    };
    for (sum, value) in accumulator.iter_mut().zip(tile.iter()) {
        *sum = value.to_f64();
    }
    for (&omega, buffer) in omega.iter().zip(state.chunks(tile.len())) {
        let weight = sign * omega;
        for (sum, value) in accumulator.iter_mut().zip(buffer) {
            *sum += weight * value.to_f64();
        }
    }
    for (value, sum) in tile.iter_mut().zip(accumulator.iter_mut()) {
        let input = value.to_f64();
        *value = T::from_f64(*sum);
        if let Direction::Apply = direction {
            // The input drives the buffers of the operator, the output those of its inverse.
            *sum = input;
        }
    }
    for (&theta, buffer) in theta.iter().zip(state.chunks_mut(tile.len())) {
        for (value, input) in buffer.iter_mut().zip(accumulator.iter()) {
            *value = T::from_f64(theta * value.to_f64() + input);
        }
    }
}
