//! A comb: a rational function of a power of x, streamed with one value per coordinate for every step of the delay.

use super::{Rational, Sample};
use crate::buffers::{Buffers, TILE};
use crate::error::{Error, Result, check_length};

/// The power series `(1 - ζ x^w)/(1 - π x^w)`, `0 ≤ π, ζ < 1`: what repeats after w steps, and fades.
///
/// Beside a [`Rational`] it makes an operator with two memories: a few buffers for what is smooth, and a ring of w values for what
/// happens when a window lets go of an input.
///
/// # Example
/// ```
/// use dp_linalg::rational::Comb;
/// let comb = Comb::new(2, 0.75, 0.5)?;
/// let mut series = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
/// comb.multiply(&mut series);
/// assert_eq!(series, [1.0, 0.0, -0.25, 0.0, -0.125, 0.0]);
/// comb.inverse().multiply(&mut series);
/// assert_eq!(series, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comb {
    width: usize,
    zero: f64,
    pole: f64,
}

impl Comb {
    /// The comb of a delay, with ζ and π.
    ///
    /// # Errors
    /// A delay of 0, or numbers outside [0, 1).
    pub fn new(width: usize, zero: f64, pole: f64) -> Result<Self> {
        if width == 0 {
            return Err(Error::OutOfRange { what: "the delay", value: 0.0, range: "at least 1" });
        }
        for (what, value) in [("the zero of a comb", zero), ("the pole of a comb", pole)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::OutOfRange { what, value, range: "[0, 1)" });
            }
        }
        Ok(Self { width, zero, pole })
    }

    /// The delay w.
    pub fn width(&self) -> usize {
        self.width
    }

    /// ζ.
    pub fn zero(&self) -> f64 {
        self.zero
    }

    /// π.
    pub fn pole(&self) -> f64 {
        self.pole
    }

    /// The reciprocal.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { zero: self.pole, pole: self.zero, ..*self }
    }

    /// Multiplies a series by the comb, in place.
    ///
    /// Of a non-negative series no entry is wrong by more than `2 n/w + 4` rounding errors of the same entry of its product with
    /// `(1 + ζ x^w)/(1 - π x^w)`: the division adds numbers of one sign, and a single subtraction follows.
    ///
    /// **Complexity** O(n).
    pub fn multiply(&self, series: &mut [f64]) {
        for index in self.width..series.len() {
            series[index] += self.pole * series[index - self.width];
        }
        for index in (self.width..series.len()).rev() {
            series[index] -= self.zero * series[index - self.width];
        }
    }

    /// An upper bound on the sum of the absolute coefficients.
    pub fn absolute_sum(&self) -> f64 {
        // Products and a quotient of three numbers.
        (1.0 + self.zero) / (1.0 - self.pole) * (1.0 + 8.0 * f64::EPSILON)
    }

    /// A bound on `‖(c̃ - c) c⁻¹‖_1` over n coefficients, for `c = r · comb` and c̃ as [`Rational::coefficients`] and
    /// [`Comb::multiply`] compute it.
    ///
    /// With `|ω|`, `|θ|` and `1 + ζ x^w` in place of ω, θ and `1 - ζ x^w` c has a majorant, and no coefficient is wrong by more than
    /// `4 n/w + min(2^13, 4n + 64)` rounding errors of the majorant's: powers of θ ≥ ½ lose no more than as many units as there are
    /// products since the last refreshed one and as their logarithm is long, and are 0 below `e^{-745}`; those of a smaller θ lose less than a few
    /// units of the first one, all together.
    ///
    /// # Errors
    /// As [`Rational::inverse`].
    pub fn rounding(&self, rational: &Rational, n: usize) -> Result<f64> {
        let sum = |rational: &Rational| -> f64 {
            let terms = rational.theta().iter().zip(rational.omega());
            1.0 + terms.map(|(theta, omega)| omega.abs() * geometric(theta.abs(), n)).sum::<f64>()
        };
        let operations = 4.0 * (n / self.width) as f64 + (4.0 * n as f64 + 64.0).min(8192.0);
        let both =
            sum(rational) * self.absolute_sum() * sum(&rational.inverse()?) * self.inverse().absolute_sum();
        // Twice, for the poles of the inverse are rounded.
        Ok(2.0 * operations * f64::EPSILON * both)
    }
}

/// The state of the inverse of a [`Comb`] on a stream of d-vectors: a ring of w vectors.
///
/// ```text
/// y_t = z_t + (ζ - π) u_{t-w},    u_t = z_t + ζ u_{t-w}        (y = C⁻¹ z)
/// ```
///
/// Nothing is allocated after [`CombStream::new`]. A coordinate goes through the same operations in the same order whatever the
/// dimension and however many rows are given at once, so the results agree to the last bit.
pub struct CombStream<T: Sample = f64> {
    zero: f64,
    rest: f64,
    /// A ring of w slots.
    past: Buffers<T>,
    width: usize,
    /// The slot that holds the oldest vector, and takes the next one.
    next: usize,
}

impl<T: Sample> CombStream<T> {
    /// A stream at its first step.
    ///
    /// **Complexity** w·d numbers of memory.
    ///
    /// # Errors
    /// The dimension is 0.
    pub fn new(comb: &Comb, dimension: usize) -> Result<Self> {
        let Comb { width, zero, pole } = *comb;
        Ok(Self { zero, rest: zero - pole, past: Buffers::new(width, dimension)?, width, next: 0 })
    }

    /// The ring, for a snapshot.
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
        self.next = steps % self.width;
        Ok(())
    }

    /// Any number of steps of the inverse, one row after the other: takes the rows of z and leaves those of `C⁻¹ z`.
    ///
    /// **Complexity** O(d) for each row, in parallel from d = 65536 on.
    ///
    /// # Errors
    /// The values are not whole rows.
    pub fn solve_in_place(&mut self, rows: &mut [f64]) -> Result<()> {
        let dimension = self.past.dimension;
        check_length("rows", rows.len().next_multiple_of(dimension), rows.len())?;
        let (zero, rest) = (self.zero, self.rest);
        let step = |slots: &mut [T], values: &mut [f64]| {
            for (slot, value) in slots.iter_mut().zip(values) {
                let (fresh, past) = (*value, slot.to_f64());
                *value = fresh + rest * past;
                *slot = T::from_f64(fresh + zero * past);
            }
        };
        let mut left = rows;
        while !left.is_empty() {
            // In a single tile the slots follow each other as the rows do.
            let together = if dimension <= TILE { self.width - self.next } else { 1 };
            let count = together.min(left.len() / dimension);
            let (part, later) = left.split_at_mut(count * dimension);
            if dimension <= TILE {
                step(&mut self.past.state[self.next * dimension..], part);
            } else {
                let next = self.next;
                self.past.for_each_tile(part, |state, tiles| {
                    for tile in tiles {
                        step(&mut state[next * tile.len()..], tile);
                    }
                });
            }
            self.next = (self.next + count) % self.width;
            left = later;
        }
        Ok(())
    }
}

/// `Σ_{k<n} θ^k`, or more.
fn geometric(theta: f64, n: usize) -> f64 {
    (1.0 / (1.0 - theta)).min(n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series;
    use proptest::prelude::*;

    #[test]
    fn the_comb_is_its_own_series_and_the_inverse_undoes_it() {
        for (width, zero, pole) in [(1, 0.5, 0.25), (3, 0.9, 0.3), (7, 0.2, 0.6), (40, 0.7, 0.2)] {
            let n = 30;
            let comb = Comb::new(width, zero, pole).unwrap();
            let mut product = vec![0.0; n];
            product[0] = 1.0;
            comb.multiply(&mut product);
            for (k, value) in product.iter().enumerate() {
                let m = i32::try_from(k / width).unwrap();
                let expected = match (k % width, m) {
                    (0, 0) => 1.0,
                    (0, m) => (pole - zero) * pole.powi(m - 1),
                    _ => 0.0,
                };
                assert!((value - expected).abs() < 1e-15, "{width} {k}: {value} {expected}");
            }
            assert!(product.iter().map(|value| value.abs()).sum::<f64>() <= comb.absolute_sum());
            comb.inverse().multiply(&mut product);
            let left: f64 = product[1..].iter().map(|value| value.abs()).sum();
            assert!((product[0] - 1.0).abs() < 1e-15 && left < 1e-14, "{width}: {left}");
        }
    }

    #[test]
    fn what_rounding_leaves_is_bounded() {
        let rational = Rational::new(vec![0.999, 0.9, 0.3], vec![0.05, 0.2, 0.3]).unwrap();
        let comb = Comb::new(10, 0.7, 0.25).unwrap();
        let n = 500;
        let mut coefficients = rational.coefficients(n);
        comb.multiply(&mut coefficients);
        let mut inverse = rational.inverse().unwrap().coefficients(n);
        comb.inverse().multiply(&mut inverse);
        let product = series::product(&coefficients, &inverse, n);
        let left: f64 = product[1..].iter().map(|value| value.abs()).sum();
        let bound = comb.rounding(&rational, n).unwrap();
        assert!(left < bound && bound < 1e-8, "{left} {bound}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Streaming is the product with the inverse; dimensions, blocks of rows and snapshots do not show.
        #[test]
        fn streams_match_the_series_in_any_shape(
            width in 1_usize..12,
            zero in 0.0..0.95_f64,
            pole in 0.0..0.95_f64,
            values in prop::collection::vec(-1.0..1.0_f64, 30),
            together in 1_usize..30,
            saved in 0_usize..30,
        ) {
            let comb = Comb::new(width, zero, pole).unwrap();
            let mut expected = values.clone();
            comb.inverse().multiply(&mut expected);
            let mut made = values.clone();
            let mut stream = CombStream::<f64>::new(&comb, 1).unwrap();
            for rows in made.chunks_mut(together) {
                stream.solve_in_place(rows).unwrap();
            }
            let wide_dimension = TILE + 3;
            let mut wide = CombStream::<f64>::new(&comb, wide_dimension).unwrap();
            let mut single = CombStream::<f32>::new(&comb, 1).unwrap();
            for (t, value) in made.iter().enumerate() {
                prop_assert!((value - expected[t]).abs() < 1e-13);
                let mut row = vec![values[t]; wide_dimension];
                wide.solve_in_place(&mut row).unwrap();
                prop_assert!(row.iter().all(|other| other.to_bits() == value.to_bits()));
                let mut short = [values[t]];
                single.solve_in_place(&mut short).unwrap();
                prop_assert!((short[0] - value).abs() < 1e-4);
            }
            let mut first = CombStream::<f64>::new(&comb, 1).unwrap();
            first.solve_in_place(&mut values[..saved].to_vec()).unwrap();
            let mut again = CombStream::<f64>::new(&comb, 1).unwrap();
            again.restore(saved, first.state()).unwrap();
            let mut rest = values[saved..].to_vec();
            again.solve_in_place(&mut rest).unwrap();
            prop_assert_eq!(&rest, &made[saved..]);
        }
    }

    #[test]
    fn threads_do_not_show() {
        let comb = Comb::new(3, 0.7, 0.25).unwrap();
        let dimension = 70_001;
        let mut wide = CombStream::<f32>::new(&comb, dimension).unwrap();
        let mut narrow = CombStream::<f32>::new(&comb, 3).unwrap();
        for t in 0..9 {
            let mut row: Vec<f64> = (0..dimension).map(|i| ((i * 7 + t * 13) % 31) as f64 - 15.0).collect();
            let mut alone = row[dimension - 3..].to_vec();
            wide.solve_in_place(&mut row).unwrap();
            narrow.solve_in_place(&mut alone).unwrap();
            assert_eq!(row[dimension - 3..], alone);
        }
    }

    #[test]
    fn combs_that_do_not_fade_are_refused() {
        for (width, zero, pole) in
            [(0, 0.5, 0.2), (2, 1.0, 0.2), (2, 0.5, 1.0), (2, -0.1, 0.2), (2, f64::NAN, 0.2)]
        {
            assert!(matches!(Comb::new(width, zero, pole), Err(Error::OutOfRange { .. })));
        }
        let comb = Comb::new(2, 0.5, 0.25).unwrap();
        assert!(matches!(CombStream::<f64>::new(&comb, 0), Err(Error::OutOfRange { .. })));
        let mut stream = CombStream::<f64>::new(&comb, 2).unwrap();
        assert!(matches!(stream.solve_in_place(&mut [0.0; 3]), Err(Error::Dimension { .. })));
        assert!(matches!(stream.restore(1, &[0.0; 3]), Err(Error::Dimension { .. })));
    }
}
