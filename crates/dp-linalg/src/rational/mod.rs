//! Toeplitz operators with a rational generating function.
//!
//! [`Rational`] is `c(x) = 1 + Σ_i ω_i x/(1 - θ_i x)`, that is `c_0 = 1` and `c_j = Σ_i ω_i θ_i^{j-1}`: k pairs of numbers
//! describe a lower-triangular Toeplitz operator of any length, [`RationalStream`] applies it or its inverse with k
//! buffers per coordinate, and its norms are closed forms in O(k²).
//!
//! Poles close to 1 are the interesting ones, so everything inside is computed from the *gap* `1 - θ`, which is an exact
//! f64 for θ ≥ 1/2; powers, sums and roots then keep their relative accuracy however small the gap is.

mod comb;
mod roots;
mod stream;
mod sums;

pub use crate::buffers::Sample;
pub use comb::{Comb, CombStream};
pub use stream::RationalStream;
pub use sums::{Mode, Sum, sum_of_squares};

use crate::error::{Error, Result, check_finite, check_length};
use crate::norms::compensated_sum;
use roots::reciprocal_modes;
use sums::power;

/// A pole of the workload this close (relative to the larger gap) to a pole of `c⁻¹` makes the partial fractions cancel.
const COINCIDENT: f64 = 1e-2;
/// Powers are computed afresh this often, so that rounding does not build up along a long series.
const REFRESH: usize = 64;

/// The power series `c(x) = 1 + Σ_i ω_i x/(1 - θ_i x)`, `-1 < θ_i < 1`.
///
/// # Example
/// ```
/// use dp_linalg::rational::Rational;
/// let c = Rational::new(vec![0.5], vec![0.25])?;
/// assert_eq!(c.coefficients(4), [1.0, 0.25, 0.125, 0.0625]);
/// // (1 - x/4)/(1 - x/2) inverted swaps the two factors.
/// assert_eq!(c.inverse()?.theta(), [0.25]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Rational {
    theta: Vec<f64>,
    omega: Vec<f64>,
}

impl Rational {
    /// The series with the poles `1/θ_i` and the weights ω_i; equal θ are allowed and add their weights.
    ///
    /// # Errors
    /// There is no pole, the two lengths differ, a weight is not finite or a θ is not in (-1, 1).
    pub fn new(theta: Vec<f64>, omega: Vec<f64>) -> Result<Self> {
        check_poles("theta", &theta)?;
        check_finite("omega", &omega)?;
        check_length("omega", theta.len(), omega.len())?;
        Ok(Rational { theta, omega })
    }

    /// `c(x) = Π(1 - θ̂_j x)/Π(1 - θ_j x)` with as many zeros as poles: `ω_i = Π_j(θ_i - θ̂_j)/Π_{l≠i}(θ_i - θ_l)`.
    ///
    /// Interlacing roots `θ_1 > θ̂_1 > θ_2 > θ̂_2 > …` give positive weights, and exchanging the arguments gives the
    /// inverse.
    ///
    /// **Complexity** O(k²).
    ///
    /// # Errors
    /// The lengths differ or are 0, a root is not in (-1, 1), or two of the θ are equal.
    pub fn from_roots(theta: &[f64], theta_hat: &[f64]) -> Result<Self> {
        check_poles("theta", theta)?;
        check_poles("theta_hat", theta_hat)?;
        check_length("theta_hat", theta.len(), theta_hat.len())?;
        let mut omega = Vec::with_capacity(theta.len());
        for (i, &pole) in theta.iter().enumerate() {
            // Numerator and denominator are interleaved so that neither product over- or underflows by itself.
            let mut weight = pole - theta_hat[i];
            for (l, (&other, &zero)) in theta.iter().zip(theta_hat).enumerate() {
                if l != i {
                    if other == pole {
                        return Err(Error::OutOfRange {
                            what: "theta",
                            value: pole,
                            range: "distinct values",
                        });
                    }
                    weight *= (pole - zero) / (pole - other);
                }
            }
            omega.push(weight);
        }
        Rational::new(theta.to_vec(), omega)
    }

    /// The number k of poles, and of buffers a stream needs for each coordinate.
    pub fn buffers(&self) -> usize {
        self.theta.len()
    }

    /// The θ_i.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The ω_i.
    pub fn omega(&self) -> &[f64] {
        &self.omega
    }

    /// The first n coefficients `c_0 … c_{n-1}`.
    ///
    /// **Complexity** O(n k).
    pub fn coefficients(&self, n: usize) -> Vec<f64> {
        let mut coefficients = vec![0.0; n];
        let Some((first, rest)) = coefficients.split_first_mut() else { return coefficients };
        *first = 1.0;
        for (&theta, &omega) in self.theta.iter().zip(&self.omega) {
            for (block, chunk) in rest.chunks_mut(REFRESH).enumerate() {
                let mut term = omega * power(1.0 - theta, block * REFRESH);
                for coefficient in chunk {
                    *coefficient += term;
                    term *= theta;
                }
            }
        }
        coefficients
    }

    /// The reciprocal `1/c(x)`, again of this form and with as many poles: its poles are the zeros of c, which separate the
    /// poles of c and are found one per interval.
    ///
    /// The poles are rounded to f64. The closed forms below do not go through this rounding.
    ///
    /// **Complexity** O(k²) up to the number of bits.
    ///
    /// # Errors
    /// The weights are not all of one sign (the zeros need not be real then), or a zero of c lies on or inside the unit
    /// circle, so that the coefficients of the inverse do not decay.
    pub fn inverse(&self) -> Result<Self> {
        let modes = self.inverse_modes()?;
        Rational::new(
            modes.iter().map(|mode| 1.0 - mode.gap).collect(),
            modes.iter().map(|mode| mode.weight).collect(),
        )
    }

    fn inverse_modes(&self) -> Result<Vec<Mode>> {
        reciprocal_modes(self.modes().collect())
    }

    fn modes(&self) -> impl Iterator<Item = Mode> {
        self.theta.iter().zip(&self.omega).map(|(&theta, &weight)| Mode { gap: 1.0 - theta, weight })
    }

    /// `Σ_{k<n} c_k²`, the squared norm of the first column of the n×n operator.
    ///
    /// **Complexity** O(k²), whatever n is.
    pub fn sum_of_squares(&self, n: usize) -> f64 {
        let Some(rest) = n.checked_sub(1) else { return 0.0 };
        let modes: Vec<Mode> = self.modes().collect();
        1.0 + sum_of_squares(&modes, Sum::Plain, rest)
    }

    /// `b(x) = c(x)⁻¹ / Π_m (1 - p_m x)`, `p_m = 1 - gap_m`, as a sum of geometric sequences: the decoder of a workload that is
    /// such a product. Nothing without a pole, where two poles come too close to each other for that to keep its digits, or the weights of
    /// c have both signs.
    ///
    /// With `1/c = 1 + Σ_i ω̂_i x/(1 - θ̂_i x)` the weights are `ω̂_i θ̂_i^{M-1}/Π_m (θ̂_i - p_m)` at the poles of the inverse and
    /// `p_m^{M-1}/(c(1/p_m) Π_{l≠m} (p_m - p_l))` at the M others. For positive weights and one p above every pole of c, all of
    /// them are positive: nothing cancels in sums of squares.
    ///
    /// **Complexity** O(k²) up to the number of bits.
    ///
    /// # Example
    /// ```
    /// use dp_linalg::rational::{Rational, Sum, sum_of_squares};
    /// let c = Rational::new(vec![0.5], vec![0.25])?;
    /// // Prefix sums of 1/c = 1 - x/4 - x²/16 - …
    /// let modes = c.quotient_modes(&[0.0]).unwrap();
    /// let squared = 1.0 + 0.75_f64.powi(2) + 0.6875_f64.powi(2);
    /// assert!((sum_of_squares(&modes, Sum::Plain, 3) - squared).abs() < 1e-15);
    /// # Ok::<(), dp_linalg::Error>(())
    /// ```
    pub fn quotient_modes(&self, gaps: &[f64]) -> Option<Vec<Mode>> {
        if gaps.is_empty() {
            // Without a pole the first coefficient is out of line.
            return None;
        }
        let mut modes = self.inverse_modes().ok()?;
        // `p^{M-1}`, one factor for each pole beyond the first.
        let power = |gap: f64| gaps.iter().skip(1).fold(1.0, |product, _| product * (1.0 - gap));
        for mode in &mut modes {
            mode.weight *= power(mode.gap) * distances(mode.gap, gaps)?;
        }
        for (index, &gap) in gaps.iter().enumerate() {
            let others: Vec<f64> = [&gaps[..index], &gaps[index + 1..]].concat();
            let value = 1.0 + compensated_sum(self.modes().map(|mode| mode.weight / (mode.gap - gap)));
            // A pole of c exactly at p makes the value infinite and the residue 0, which is right.
            modes.push(Mode { gap, weight: power(gap) * distances(gap, &others)? / value });
        }
        Some(modes)
    }
}

/// `1/Π_m (p - p_m)` by the gaps, if none of them is too close.
fn distances(gap: f64, others: &[f64]) -> Option<f64> {
    others.iter().try_fold(1.0, |product, other| {
        let distance = other - gap;
        let close = distance.abs() <= COINCIDENT * gap.max(*other);
        (!close).then_some(product / distance)
    })
}

fn check_poles(what: &'static str, theta: &[f64]) -> Result<()> {
    check_finite(what, theta)?;
    match theta.iter().find(|theta| theta.abs() >= 1.0) {
        Some(&value) => Err(Error::OutOfRange { what, value, range: "-1 < θ < 1" }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
