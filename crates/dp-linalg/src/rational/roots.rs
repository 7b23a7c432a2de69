//! The zeros of `1 + Σ_i w_i/(λ - θ_i)`, which are the poles of its reciprocal.

use super::sums::Mode;
use crate::error::{Error, Result};

/// The modes of the reciprocal of `c = 1 + Σ_i w_i/(λ - θ_i)`, where `λ = 1/x`.
///
/// In the gap `μ = 1 - λ` the function is `f(μ) = 1 + Σ_i w_i/(γ_i - μ)`. With all weights positive it rises from -∞ to +∞
/// between neighbouring gaps and from -∞ to 1 above the last one: one zero in each interval. With all weights negative it
/// falls instead, and the remaining zero is below the smallest gap, between it and 0 exactly when f(0) > 0. The weights
/// of the reciprocal are `1/c'` at its poles.
pub(super) fn reciprocal_modes(mut modes: Vec<Mode>) -> Result<Vec<Mode>> {
    modes.sort_by(|a, b| a.gap.total_cmp(&b.gap));
    let sign = modes.iter().map(|mode| mode.weight).find(|&weight| weight != 0.0).unwrap_or(1.0).signum();
    if let Some(mode) = modes.iter().find(|mode| mode.weight * sign < 0.0) {
        return Err(Error::OutOfRange { what: "omega", value: mode.weight, range: "all of one sign" });
    }

    // A pole without weight, or a second one at the same place, is also a zero: it stays, without weight.
    let mut result = Vec::with_capacity(modes.len());
    let mut active: Vec<Mode> = Vec::with_capacity(modes.len());
    for mode in modes {
        match active.last_mut() {
            _ if mode.weight == 0.0 => result.push(mode),
            Some(last) if last.gap == mode.gap => {
                last.weight += mode.weight;
                result.push(Mode { gap: mode.gap, weight: 0.0 });
            }
            _ => active.push(mode),
        }
    }

    let mut ends: Vec<f64> = active.iter().map(|mode| mode.gap).collect();
    if let (Some(&last), true) = (ends.last(), sign > 0.0) {
        // f ≥ 0 from here on, because every distance is at least the sum of the weights.
        ends.push(last + active.iter().map(|mode| mode.weight).sum::<f64>());
    } else if !active.is_empty() {
        let at_one = 1.0 + active.iter().map(|mode| mode.weight / mode.gap).sum::<f64>();
        if at_one.is_nan() || at_one <= 0.0 {
            return Err(Error::OutOfRange { what: "c(1)", value: at_one, range: "positive" });
        }
        ends.insert(0, 0.0);
    }
    result.extend(ends.windows(2).map(|interval| zero_between(&active, sign, interval[0], interval[1])));
    match result.iter().find(|mode| mode.gap >= 2.0) {
        Some(mode) => {
            Err(Error::OutOfRange { what: "pole of the inverse", value: 1.0 - mode.gap, range: "above -1" })
        }
        None => Ok(result),
    }
}

/// The zero in an interval at whose ends `sign · f` is negative and positive.
///
/// The unknown is the distance from the nearer end, found by bisection on the bits of the float: 64 halvings give every
/// digit even if the zero is next to a pole, where the distance may be many orders of magnitude smaller than the gap.
fn zero_between(modes: &[Mode], sign: f64, left: f64, right: f64) -> Mode {
    let half = 0.5 * (right - left);
    let positive = |origin: f64, offset: f64| {
        let terms = modes.iter().map(|mode| mode.weight / ((mode.gap - origin) - offset));
        sign * (1.0 + terms.sum::<f64>()) >= 0.0
    };
    let from_left = positive(left, half);
    let (origin, direction) = if from_left { (left, 1.0) } else { (right, -1.0) };
    let (mut near, mut far) = (0_u64, half.to_bits());
    while far - near > 1 {
        let middle = near.midpoint(far);
        // Close to the left end `sign · f` is still negative, close to the right end it is already positive.
        if positive(origin, direction * f64::from_bits(middle)) == from_left {
            far = middle;
        } else {
            near = middle;
        }
    }
    let offset = direction * f64::from_bits(far);
    let slope: f64 = modes.iter().map(|mode| mode.weight / ((mode.gap - origin) - offset).powi(2)).sum();
    Mode { gap: origin + offset, weight: -1.0 / slope }
}
