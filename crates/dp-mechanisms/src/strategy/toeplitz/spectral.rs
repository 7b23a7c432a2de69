//! The Toeplitz core for several statistics at once.
//!
//! In the limit of a long stream the best Toeplitz strategy for the series a has `|c|² = |a|` on the unit circle. For several
//! statistics `|a|²` becomes `g = Σ w_i |a_i|²`, and c is the root of the series without zeros inside the circle whose
//! modulus is `g^{1/2}` (its outer factor), found from the logarithm of g: with `ln g = Σ_k l_k x^k` over all integers k,
//!
//! `c(x) = exp(¼ (l_0 + 2 Σ_{k>0} l_k x^k))`.
//!
//! A total makes g infinite at 1. There `g |1-x|²` is factored instead, and `(1-x)^{-1/2}` put back in closed form.

use dp_linalg::fft::{self, Complex64};
use dp_linalg::series;

use super::{Core, sqrt_core};
use crate::error::{Result, check_count};
use crate::problem::Statistic;

/// The circle has at least this many points for every step: the logarithm's coefficients fall slowly where g is small.
const OVERSAMPLING: usize = 8;

/// Where g is below this fraction of its mean it counts as that much; only accuracy depends on it.
const FLOOR: f64 = 1e-9;

/// The coefficients of the core: the square root of a single statistic, and the root of all spectra together for several.
///
/// # Complexity
/// O(n log n).
///
/// # Errors
/// Weights whose series has no square root.
pub(crate) fn root_coefficients(statistics: &[Statistic], steps: usize) -> Result<Vec<f64>> {
    check_count("steps", steps)?;
    if let [one] = statistics {
        return one.workload().root_series(steps);
    }
    let sums = statistics.iter().any(|one| one.workload().is_running_sum(steps));
    let size = (OVERSAMPLING * steps).next_power_of_two();
    let mut correlations = vec![0.0; steps];
    for one in statistics {
        let (mut weights, rows) = one.workload().toeplitz_part(steps)?;
        let mean_row = rows.iter().sum::<f64>() / steps as f64;
        if sums {
            for index in (1..steps).rev() {
                weights[index] -= weights[index - 1];
            }
        }
        for (sum, value) in correlations.iter_mut().zip(fft::correlate(&weights, &weights)) {
            *sum += one.weight() * mean_row * value;
        }
    }
    let floor = FLOOR * correlations[0];
    let mut column = vec![0.0; size];
    for (lag, value) in correlations.iter().enumerate() {
        column[lag] = *value;
        if lag > 0 {
            column[size - lag] = *value;
        }
    }
    let mut logarithm = fft::circulant_power(&column, |value| (0.25 * value.re.max(floor).ln()).into());
    for (lag, value) in logarithm.iter_mut().enumerate().skip(1) {
        *value *= if lag < size / 2 { 2.0 } else { 0.0 };
    }
    let mut root = fft::circulant_power(&logarithm, Complex64::exp);
    root.truncate(steps);
    Ok(if sums { series::product(&root, &series::binomial(0.5, steps), steps) } else { root })
}

/// The core with the coefficients of [`root_coefficients`].
///
/// # Errors
/// Weights whose series has no square root.
pub(crate) fn root_core(statistics: &[Statistic], steps: usize) -> Result<Core> {
    match statistics {
        [one] => sqrt_core(one.workload(), steps),
        _ => Core::full(root_coefficients(statistics, steps)?),
    }
}
