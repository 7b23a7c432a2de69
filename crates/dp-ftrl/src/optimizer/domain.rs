//! Where the parameters may lie.

use crate::error::{Error, Result, check_positive};

/// A closed convex set of parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Region {
    /// No constraint.
    Everything,
    /// `‖θ‖ ≤ radius`.
    Ball {
        /// The radius, above 0.
        radius: f64,
    },
    /// `low ≤ θ_i ≤ high` for every coordinate.
    Box {
        /// The smallest value of a coordinate.
        low: f64,
        /// The largest value of a coordinate.
        high: f64,
    },
    /// `θ_i ≥ 0` and `Σ θ_i = 1`: the probability distributions.
    Simplex,
}

impl Region {
    /// Refuses a domain without points.
    ///
    /// # Errors
    /// A radius that is not finite and positive, bounds that are not finite or not ordered.
    pub fn check(&self) -> Result<()> {
        match *self {
            Self::Ball { radius } => check_positive("radius", radius).map(|_| ()),
            Self::Box { low, high } if !(low.is_finite() && high.is_finite() && low <= high) => {
                Err(Error::OutOfRange {
                    what: "lower bound of the box",
                    value: low,
                    range: "finite and not above the upper bound, which is finite too",
                })
            }
            _ => Ok(()),
        }
    }

    /// Moves a point to the nearest point of the domain, in the Euclidean sense.
    ///
    /// `scratch` holds as many values as the point; only the simplex uses it.
    ///
    /// # Complexity
    /// O(d); O(d log d) for the simplex.
    pub(crate) fn project(&self, point: &mut [f64], scratch: &mut [f64]) {
        match *self {
            Self::Everything => {}
            Self::Ball { radius } => {
                let norm = norm(point);
                if norm > radius {
                    let factor = radius / norm;
                    point.iter_mut().for_each(|value| *value *= factor);
                }
            }
            Self::Box { low, high } => point.iter_mut().for_each(|value| *value = value.clamp(low, high)),
            Self::Simplex => {
                let shift = simplex_shift(point, scratch);
                point.iter_mut().for_each(|value| *value = (*value - shift).max(0.0));
            }
        }
    }

    /// `min ⟨direction, θ⟩` over the domain: what the best fixed point would have lost to the sum of linear losses.
    /// Minus infinity where it is unbounded.
    pub fn linear_minimum(&self, direction: &[f64]) -> f64 {
        match *self {
            Self::Everything if direction.iter().all(|value| *value == 0.0) => 0.0,
            Self::Everything => f64::NEG_INFINITY,
            Self::Ball { radius } => -radius * norm(direction),
            Self::Box { low, high } => direction.iter().map(|value| (value * low).min(value * high)).sum(),
            Self::Simplex => direction.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The number that, subtracted from every coordinate and cut off at 0, leaves a sum of 1.
///
/// With the coordinates in falling order `u_1 ≥ u_2 ≥ …` it is `(Σ_{i≤k} u_i - 1)/k` for the last k at which `u_k` is above
/// it: exactly the coordinates that stay positive have been averaged.
fn simplex_shift(point: &[f64], sorted: &mut [f64]) -> f64 {
    sorted.copy_from_slice(point);
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, f64::NEG_INFINITY);
    for (count, value) in (1_u32..).zip(sorted.iter()) {
        sum += value;
        let candidate = (sum - 1.0) / f64::from(count);
        if *value <= candidate {
            break;
        }
        shift = candidate;
    }
    shift
}
