//! A banded operator applied or inverted one step at a time.

use std::ops::Range;

use crate::buffers::{Buffers, LANES, NARROW, ROWS, Sample, TILE, add_products, dot};
use crate::error::{Error, Result, check_finite, check_length};

/// The state of a lower-triangular Toeplitz operator with b coefficients, or of its inverse, on a stream of d-vectors: the
/// last b-1 vectors.
///
/// ```text
/// solve   ξ_t = (z_t - Σ_{k≥1} c_k ξ_{t-k}) / c_0        (ξ = C⁻¹ z)
/// apply   y_t = c_0 x_t + Σ_{k≥1} c_k x_{t-k}            (y = C x)
/// ```
///
/// Use one stream for one direction; nothing is allocated after [`BandedStream::new`]. A coordinate goes through the same
/// operations in the same order whatever the dimension and however many rows are given at once, so the results agree to
/// the last bit.
///
/// **Complexity** O(b) time per coordinate and step, (b-1)·d numbers of memory; in parallel from d = 65536 on.
pub struct BandedStream<T: Sample = f64> {
    leading: f64,
    /// `c_{b-1} … c_1`, twice: whatever slot is the newest, the weights of all slots in order are a part of it.
    reversed: Vec<f64>,
    /// A ring of b-1 slots.
    past: Buffers<T>,
    /// The slot that the next vector goes to, which holds the oldest one.
    next: usize,
}

impl<T: Sample> BandedStream<T> {
    /// A stream at its first step.
    ///
    /// # Errors
    /// No coefficients, one that is not finite, a first one that is 0, or a dimension of 0.
    pub fn new(coefficients: &[f64], dimension: usize) -> Result<Self> {
        check_finite("the band", coefficients)?;
        let leading = coefficients[0];
        if leading == 0.0 {
            return Err(Error::OutOfRange { what: "the first of the band", value: leading, range: "not 0" });
        }
        let reversed: Vec<f64> = coefficients[1..].iter().rev().copied().collect();
        let past = Buffers::new(reversed.len(), dimension)?;
        Ok(Self { leading, reversed: reversed.repeat(2), past, next: 0 })
    }

    /// The last vectors, for a snapshot.
    pub fn state(&self) -> &[T] {
        &self.past.state
    }

    /// Goes back to a snapshot that was taken after so many steps.
    ///
    /// # Errors
    /// The snapshot has another size.
    pub fn restore(&mut self, steps: usize, state: &[T]) -> Result<()> {
        check_length("state", self.past.state.len(), state.len())?;
        self.past.state.copy_from_slice(state);
        self.next = steps.checked_rem(self.reversed.len() / 2).unwrap_or(0);
        Ok(())
    }

    /// Asks for what is kept of these coordinates, which the next step needs: who has something else to compute before hides the
    /// time of memory behind it. Nothing changes.
    ///
    /// **Complexity** one instruction for every 64 bytes.
    pub fn fetch(&self, coordinates: Range<usize>) {
        self.past.fetch(coordinates);
    }

    /// Any number of steps of the inverse, one row after the other: takes the rows of z and leaves those of ξ.
    ///
    /// # Errors
    /// The values are not whole rows.
    pub fn solve_in_place(&mut self, rows: &mut [f64]) -> Result<()> {
        let inverse = 1.0 / self.leading;
        self.for_each_row(rows, -1.0, |fresh, sum| {
            let xi = (fresh + sum) * inverse;
            (xi, xi)
        })
    }

    /// Any number of steps of the operator itself, one row after the other.
    ///
    /// # Errors
    /// The values are not whole rows.
    pub fn apply_in_place(&mut self, rows: &mut [f64]) -> Result<()> {
        let leading = self.leading;
        self.for_each_row(rows, 1.0, |fresh, sum| (leading * fresh + sum, fresh))
    }

    /// Replaces each value by the first of `step(value, ± Σ_k c_k past_k)` and remembers the second.
    fn for_each_row(
        &mut self,
        rows: &mut [f64],
        sign: f64,
        step: impl Fn(f64, f64) -> (f64, f64) + Sync,
    ) -> Result<()> {
        let dimension = self.past.dimension;
        check_length("rows", rows.len().next_multiple_of(dimension), rows.len())?;
        let slots = self.reversed.len() / 2;
        if dimension <= NARROW {
            self.for_each_value(rows, sign, step);
            return Ok(());
        }
        let after = |slot: usize| if slot + 1 < slots { slot + 1 } else { 0 };
        for rows in rows.chunks_mut(ROWS * dimension) {
            let first = self.next;
            self.past.for_each_tile(rows, |past, tiles| {
                let mut next = first;
                for tile in tiles {
                    let weights = &self.reversed[slots - next..][..slots];
                    let mut sums = [0.0; TILE];
                    let sums = &mut sums[..tile.len()];
                    add_products(sign, weights, past, sums);
                    for (value, sum) in tile.iter_mut().zip(sums.iter_mut()) {
                        (*value, *sum) = step(*value, *sum);
                    }
                    for (slot, kept) in past.iter_mut().skip(next * tile.len()).zip(sums) {
                        *slot = T::from_f64(*kept);
                    }
                    next = after(next);
                }
            });
            self.next = (0..rows.len() / dimension).fold(first, |slot, _| after(slot));
        }
        Ok(())
    }

    /// How many rows of long vectors are best given at once: a tile goes through them while what is kept of it is in the cache, and
    /// to hold them takes no more than a quarter of what is kept.
    pub fn rows_at_once(&self) -> usize {
        (self.reversed.len() / 8).clamp(1, ROWS)
    }

    /// The same for few coordinates, one value after the other.
    fn for_each_value(&mut self, rows: &mut [f64], sign: f64, step: impl Fn(f64, f64) -> (f64, f64)) {
        let dimension = self.past.dimension;
        let slots = self.reversed.len() / 2;
        let past = &mut self.past.state[..];
        for row in rows.chunks_exact_mut(dimension) {
            let weights = &self.reversed[slots - self.next..][..slots];
            let start = self.next * dimension;
            for (coordinate, value) in row.iter_mut().enumerate() {
                let column = &mut past[coordinate.min(slots * dimension)..];
                let at = |slot: usize| column[slot * dimension].to_f64();
                let mut sum = 0.0;
                let quarters = weights.chunks_exact(LANES);
                let rest = quarters.remainder();
                for (quarter, weights) in quarters.enumerate() {
                    let slot = LANES * quarter;
                    let values = [at(slot), at(slot + 1), at(slot + 2), at(slot + 3)];
                    sum += sign * dot([weights[0], weights[1], weights[2], weights[3]], values);
                }
                if !rest.is_empty() {
                    let slot = slots - rest.len();
                    let (mut last, mut values) = ([0.0; LANES], [0.0; LANES]);
                    for (index, weight) in rest.iter().enumerate() {
                        (last[index], values[index]) = (*weight, at(slot + index));
                    }
                    sum += sign * dot(last, values);
                }
                let (made, kept) = step(*value, sum);
                *value = made;
                if let Some(slot) = column.get_mut(start) {
                    *slot = T::from_f64(kept);
                }
            }
            self.next = if self.next + 1 < slots { self.next + 1 } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Solving undoes applying, which is the sum over the band; dimensions and blocks of rows do not show.
        #[test]
        fn streams_match_the_band_in_any_shape(
            band in prop::collection::vec(-0.2..0.2_f64, 0..12),
            values in prop::collection::vec(-1.0..1.0_f64, 30),
            together in 1_usize..30,
        ) {
            let mut coefficients = vec![1.5];
            coefficients.extend(&band);
            let mut applied = values.clone();
            let mut apply = BandedStream::<f64>::new(&coefficients, 1).unwrap();
            let mut solve = BandedStream::<f64>::new(&coefficients, 1).unwrap();
            let mut wide = BandedStream::<f64>::new(&coefficients, NARROW + 1).unwrap();
            let mut single = BandedStream::<f32>::new(&coefficients, 1).unwrap();
            for rows in applied.chunks_mut(together) {
                apply.apply_in_place(rows).unwrap();
            }
            for (t, made) in applied.iter().enumerate() {
                let expected: f64 =
                    coefficients.iter().take(t + 1).enumerate().map(|(k, c)| c * values[t - k]).sum();
                prop_assert!((made - expected).abs() < 1e-14);
                let mut row = vec![values[t]; NARROW + 1];
                wide.apply_in_place(&mut row).unwrap();
                prop_assert!(row.iter().all(|value| value.to_bits() == made.to_bits()));
                let mut back = [*made];
                solve.solve_in_place(&mut back).unwrap();
                prop_assert!((back[0] - values[t]).abs() < 1e-13);
                let mut back = [*made];
                single.solve_in_place(&mut back).unwrap();
                prop_assert!((back[0] - values[t]).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn rows_at_once_do_not_show() {
        // Tiles, a part of one, and what is shared among threads; more rows than go through a tile together.
        for (dimension, bands) in [(1300, 6), (70_001, 2), (700, 1)] {
            let coefficients: Vec<f64> = (0..bands).map(|k| 1.0 / (1.0 + f64::from(k))).collect();
            let mut together = BandedStream::<f64>::new(&coefficients, dimension).unwrap();
            let mut single = BandedStream::<f64>::new(&coefficients, dimension).unwrap();
            let mut rows: Vec<f64> = (0..11 * dimension).map(|i| ((i * 7) % 31) as f64 - 15.0).collect();
            let mut alone = rows.clone();
            let (first, rest) = rows.split_at_mut(2 * dimension);
            together.solve_in_place(first).unwrap();
            together.solve_in_place(rest).unwrap();
            alone.chunks_exact_mut(dimension).for_each(|row| single.solve_in_place(row).unwrap());
            assert!(rows == alone && together.state() == single.state(), "{dimension} coordinates");
        }
        assert_eq!(BandedStream::<f64>::new(&[1.0; 32], 1).unwrap().rows_at_once(), 7);
        assert_eq!(BandedStream::<f64>::new(&[1.0], 1).unwrap().rows_at_once(), 1);
    }

    #[test]
    fn threads_do_not_show() {
        let coefficients = [2.0, 1.0, -0.5, 0.25, 0.125, 0.5];
        let dimension = 70_001;
        let mut wide = BandedStream::<f32>::new(&coefficients, dimension).unwrap();
        let mut narrow = BandedStream::<f32>::new(&coefficients, 3).unwrap();
        for t in 0..9 {
            let mut row: Vec<f64> = (0..dimension).map(|i| ((i * 7 + t * 13) % 31) as f64 - 15.0).collect();
            let first = dimension - 3;
            let mut alone = row[first..].to_vec();
            wide.solve_in_place(&mut row).unwrap();
            narrow.solve_in_place(&mut alone).unwrap();
            assert_eq!(row[first..], alone);
        }
    }

    #[test]
    fn wrong_sizes_are_refused() {
        assert!(matches!(BandedStream::<f64>::new(&[], 1), Err(Error::Empty { .. })));
        assert!(matches!(BandedStream::<f64>::new(&[0.0, 1.0], 1), Err(Error::OutOfRange { .. })));
        assert!(matches!(BandedStream::<f64>::new(&[1.0], 0), Err(Error::OutOfRange { .. })));
        let mut stream = BandedStream::<f64>::new(&[1.0, 2.0], 2).unwrap();
        assert!(matches!(stream.solve_in_place(&mut [0.0; 3]), Err(Error::Dimension { .. })));
    }
}
