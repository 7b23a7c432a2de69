//! The scaled square root: a smooth row scaling around a Toeplitz core, fitted to the mean squared error.
//!
//! `C = D1 · T · D2` with `ln d_t = p1 ln τ + p2 ln(1-τ) + p3 ln²τ + p4 ln²(1-τ)`, `τ = (t-½)/n`, and D2 such that
//! every column has norm 1. The four parameters are found by BFGS on E2; whatever they are, the sensitivity is
//! 1 by construction, so the fit can cost accuracy but never privacy. For the count this comes within 0.2% of
//! the dense optimum at n = 1024, with two multiplications more per step than the square root.

use dp_linalg::minimize::{self, Options};
use rayon::prelude::*;

use super::toeplitz::{Core, Scaling, ToeplitzStrategy, column_energy, sqrt_core};
use crate::error::Result;
use crate::workload::{Kind, Workload};

/// The parameters of a row scaling.
pub type Parameters = [f64; 4];

/// The longest horizon at which parameters are fitted; they drift so slowly with the horizon that longer ones
/// use the same.
const FIT_LIMIT: usize = 1 << 14;

/// Up to this many columns of B the error is summed in full during the fit; above it, by quadrature.
const ALL_COLUMNS: usize = 256;

/// The diagonal of D1 for the given parameters.
pub fn row_scaling(parameters: &Parameters, steps: usize) -> Vec<f64> {
    (0..steps)
        .map(|t| {
            let time = (t as f64 + 0.5) / steps as f64;
            let (early, late) = (time.ln(), (1.0 - time).ln());
            let [p1, p2, p3, p4] = parameters;
            (p1 * early + p2 * late + p3 * early * early + p4 * late * late).exp()
        })
        .collect()
}

/// The square root with fitted row scaling and normalized columns.
///
/// # Complexity
/// A few dozen evaluations of about `min(n, 256) · n` operations for the fit.
///
/// # Errors
/// Zero steps, or weights whose series has no square root.
pub fn scaled_sqrt(workload: &Workload, steps: usize) -> Result<ToeplitzStrategy> {
    let core = sqrt_core(workload, steps)?;
    let parameters = fit(workload, steps, &core)?;
    ToeplitzStrategy::normalized("scaled-sqrt", workload, steps, core, row_scaling(&parameters, steps))
}

/// The parameters that minimize E2 for a core, starting from no scaling at all.
///
/// # Errors
/// What the numeric core refuses.
pub fn fit(workload: &Workload, steps: usize, core: &Core) -> Result<Parameters> {
    let length = steps.min(FIT_LIMIT);
    if length < 2 {
        return Ok([0.0; 4]);
    }
    let coefficients = core.coefficients(length)?;
    let inverse = core.inverse(length)?;
    let weights = match workload.kind() {
        Kind::Polynomial { .. } | Kind::Weights { .. } => workload.series(length)?,
        _ => None,
    };
    let columns = quadrature(length);
    let error = |parameters: &[f64]| -> f64 {
        let parameters = [parameters[0], parameters[1], parameters[2], parameters[3]];
        let rows = row_scaling(&parameters, length);
        if !rows.iter().all(|row| *row > 0.0 && row.is_finite()) {
            return f64::INFINITY;
        }
        let scaling = Scaling::normalizing_above(ALL_COLUMNS, &coefficients, rows);
        // Summed in order, not as threads finish: a resumed mechanism must fit the very same parameters.
        let energies: Vec<f64> = columns
            .par_iter()
            .map_init(
                || vec![0.0; length],
                |scratch, &(column, weight)| {
                    weight * column_energy(workload, weights.as_deref(), &inverse, &scaling, column, scratch)
                },
            )
            .collect();
        energies.iter().sum::<f64>() / length as f64
    };
    let options = Options { iterations: 40, relative_decrease: 1e-7, memory: 8 };
    let minimum = minimize::lbfgs(
        |point, gradient| minimize::numeric_gradient(error, point, 1e-4, gradient),
        vec![0.0; 4],
        options,
    );
    Ok([minimum.point[0], minimum.point[1], minimum.point[2], minimum.point[3]])
}

/// Columns and weights whose weighted sum approximates the sum over all columns: every column near both ends,
/// and a trapezoidal rule in the logit of time between.
fn quadrature(steps: usize) -> Vec<(usize, f64)> {
    if steps <= ALL_COLUMNS {
        return (0..steps).map(|column| (column, 1.0)).collect();
    }
    let ends = 16;
    let mut nodes: Vec<usize> = (0..ends).chain(steps - ends..steps).collect();
    let position = |column: f64| ((column + 0.5) / (steps as f64 - column - 0.5)).ln();
    let (from, to) = (position(ends as f64), position((steps - ends - 1) as f64));
    let count = 64;
    for index in 0..=count {
        let x = from + (to - from) * f64::from(index) / f64::from(count);
        nodes.push(((steps as f64 / (1.0 + (-x).exp()) - 0.5).round() as usize).min(steps - 1));
    }
    nodes.sort_unstable();
    nodes.dedup();
    // Every column is shared between its two neighbouring nodes, linearly.
    let mut weights = vec![1.0; nodes.len()];
    for (index, pair) in nodes.windows(2).enumerate() {
        let between = (pair[1] - pair[0] - 1) as f64;
        weights[index] += between / 2.0;
        weights[index + 1] += between / 2.0;
    }
    nodes.into_iter().zip(weights).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Strategy;

    #[test]
    fn the_fit_comes_close_to_the_dense_optimum() {
        // The optima are certified values of the dense program.
        let rows = [
            ("count", 64, 4.409_397_208),
            ("count", 256, 6.372_668_148),
            ("window:16", 128, 4.259_030_290),
            ("exp:1.1", 128, 2.156_712_598),
        ];
        for (text, steps, optimum) in rows {
            let strategy = scaled_sqrt(&text.parse().unwrap(), steps).unwrap();
            let error = strategy.row_norms().unwrap().mean();
            let ratio = error / optimum;
            assert!((1.0..1.004).contains(&ratio), "{text} at {steps}: {ratio}");
        }
    }

    #[test]
    fn quadrature_counts_every_column_once() {
        for steps in [1, 2, 100, 257, 1000, 16_384] {
            let total: f64 = quadrature(steps).iter().map(|(_, weight)| weight).sum();
            assert!((total - steps as f64).abs() < 1e-6, "{steps}: {total}");
        }
    }
}
