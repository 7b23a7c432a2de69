//! A rational operator applied or inverted one step at a time.

use std::ops::Range;

use super::Rational;
use crate::buffers::{Buffers, LANES, NARROW, ROWS, Sample, TILE, add_products, dot, drive};
use crate::error::{Result, check_length};

/// The state of a [`Rational`] operator C, or of its inverse, on a stream of d-vectors: k buffers per coordinate.
///
/// ```text
/// solve   ξ = z - Σ_i ω_i s_i,    s_i ← θ_i s_i + ξ        (ξ = C⁻¹ z)
/// apply   y = x + Σ_i ω_i s_i,    s_i ← θ_i s_i + x        (y = C x)
/// ```
///
/// Use one stream for one direction; nothing is allocated after [`RationalStream::new`]. A coordinate goes through the same
/// operations in the same order whatever the dimension and however many rows are given at once, so the results agree to
/// the last bit.
pub struct RationalStream<T: Sample = f64> {
    theta: Vec<f64>,
    omega: Vec<f64>,
    buffers: Buffers<T>,
}

impl<T: Sample> RationalStream<T> {
    /// A stream at its first step.
    ///
    /// **Complexity** k·d numbers of memory.
    ///
    /// # Errors
    /// The dimension is 0.
    pub fn new(operator: &Rational, dimension: usize) -> Result<Self> {
        Ok(RationalStream {
            theta: operator.theta().to_vec(),
            omega: operator.omega().to_vec(),
            buffers: Buffers::new(operator.buffers(), dimension)?,
        })
    }

    /// The number of coordinates d.
    pub fn dimension(&self) -> usize {
        self.buffers.dimension
    }

    /// The buffers, for a snapshot.
    pub fn state(&self) -> &[T] {
        &self.buffers.state
    }

    /// Goes back to a snapshot.
    ///
    /// # Errors
    /// The snapshot has another size.
    pub fn restore(&mut self, state: &[T]) -> Result<()> {
        check_length("state", self.buffers.state.len(), state.len())?;
        self.buffers.state.copy_from_slice(state);
        Ok(())
    }

    /// Goes back to the first step.
    pub fn reset(&mut self) {
        self.buffers.state.fill(T::default());
    }

    /// Asks for what is kept of these coordinates, which the next step needs: who has something else to compute before hides the
    /// time of memory behind it. Nothing changes.
    ///
    /// **Complexity** one instruction for every 64 bytes.
    pub fn fetch(&self, coordinates: Range<usize>) {
        self.buffers.fetch(coordinates);
    }

    /// One step of the inverse: writes `ξ_t = (C⁻¹ z)_t`.
    ///
    /// **Complexity** O(k d), in parallel from d = 65536 on.
    ///
    /// # Errors
    /// A vector does not have d entries.
    pub fn solve_step(&mut self, z: &[f64], xi: &mut [f64]) -> Result<()> {
        check_length("z", self.dimension(), z.len())?;
        check_length("xi", self.dimension(), xi.len())?;
        xi.copy_from_slice(z);
        self.solve_in_place(xi)
    }

    /// Any number of steps of the inverse, one row after the other: takes the rows of z and leaves those of ξ.
    ///
    /// **Complexity** as [`RationalStream::solve_step`] for each row.
    ///
    /// # Errors
    /// The values are not whole rows.
    pub fn solve_in_place(&mut self, rows: &mut [f64]) -> Result<()> {
        let dimension = self.dimension();
        check_length("rows", rows.len().next_multiple_of(dimension), rows.len())?;
        match self.theta.len() {
            1..=4 if dimension <= NARROW => self.solve_narrow::<4>(rows),
            5..=8 if dimension <= NARROW => self.solve_narrow::<8>(rows),
            9..=12 if dimension <= NARROW => self.solve_narrow::<12>(rows),
            _ => {
                let (theta, omega) = (&self.theta, &self.omega);
                for rows in rows.chunks_mut(ROWS * dimension) {
                    self.buffers.for_each_tile(rows, |state, tiles| {
                        for tile in tiles {
                            add_products(-1.0, omega, state, tile);
                            drive(theta, state, tile);
                        }
                    });
                }
            }
        }
        Ok(())
    }

    /// One step of the operator itself: writes `y_t = (C x)_t`.
    ///
    /// **Complexity** O(k d), in parallel from d = 65536 on.
    ///
    /// # Errors
    /// A vector does not have d entries.
    pub fn apply_step(&mut self, x: &[f64], y: &mut [f64]) -> Result<()> {
        check_length("x", self.dimension(), x.len())?;
        check_length("y", self.dimension(), y.len())?;
        y.copy_from_slice(x);
        let (theta, omega) = (&self.theta, &self.omega);
        self.buffers.for_each_tile(y, |state, tiles| {
            for tile in tiles {
                // The input drives the buffers of the operator: it is kept aside.
                let mut input = [0.0; TILE];
                let input = &mut input[..tile.len()];
                input.copy_from_slice(tile);
                add_products(1.0, omega, state, tile);
                drive(theta, state, input);
            }
        });
        Ok(())
    }

    /// The rows of each coordinate in turn, for at most K poles; K is a multiple of the lanes, and what is not needed is 0.
    fn solve_narrow<const K: usize>(&mut self, rows: &mut [f64]) {
        let (mut theta, mut omega) = ([0.0; K], [0.0; K]);
        theta[..self.theta.len()].copy_from_slice(&self.theta);
        omega[..self.omega.len()].copy_from_slice(&self.omega);
        let dimension = self.dimension();
        for coordinate in 0..dimension {
            let mut state = [0.0; K];
            let stored = self.buffers.state[coordinate..].iter().step_by(dimension);
            for (value, stored) in state.iter_mut().zip(stored) {
                *value = stored.to_f64();
            }
            for value in rows[coordinate..].iter_mut().step_by(dimension) {
                for (omega, state) in omega.as_chunks::<LANES>().0.iter().zip(state.as_chunks::<LANES>().0) {
                    *value -= dot(*omega, *state);
                }
                for (state, theta) in state.iter_mut().zip(&theta) {
                    *state = T::from_f64(theta * *state + *value).to_f64();
                }
            }
            let stored = self.buffers.state[coordinate..].iter_mut().step_by(dimension);
            for (value, stored) in state.iter().zip(stored) {
                *stored = T::from_f64(*value);
            }
        }
    }
}
