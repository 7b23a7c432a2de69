//! Tests of goodness of fit whose level is proven, not approximated: a false alarm has probability at most α.

use dp_linalg::dense;
use ndarray::{Array2, ArrayView1, ArrayView2};

/// The interval that a χ² variable with the given degrees of freedom leaves with probability at most `alpha`.
///
/// Laurent and Massart (2000): `χ² ≥ k + 2 sqrt(k x) + 2x` and `χ² ≤ k - 2 sqrt(k x)` have probability at most
/// `e^{-x}` each.
fn chi_square_interval(degrees: f64, alpha: f64) -> (f64, f64) {
    let x = (2.0 / alpha).ln();
    let root = 2.0 * (degrees * x).sqrt();
    (degrees - root, degrees + root + 2.0 * x)
}

/// Tests that the columns of `samples` are independent draws of `N(0, factor · factorᵀ)`.
///
/// With `factor · factorᵀ = L Lᵀ` the whitened columns `w = L⁻¹ column` are standard normal. A covariance matrix is
/// determined by its values in the n² directions `e_i`, `e_i + e_j` and `e_i - e_j`. In each of them the N columns
/// must have the energy of χ²_N, and in each `e_i` a mean of zero. Bonferroni shares α among all of these.
///
/// # Errors
/// The first statistic outside its interval.
pub fn covariance_fits(
    samples: ArrayView2<'_, f64>,
    factor: ArrayView2<'_, f64>,
    alpha: f64,
) -> Result<(), String> {
    let lower = dense::lq_lower(factor).map_err(|error| error.to_string())?;
    let whitened = dense::solve_lower(lower.view(), samples).map_err(|error| error.to_string())?;
    let (n, count) = whitened.dim();
    let share = alpha / (n * n + n) as f64;
    let (low, high) = chi_square_interval(count as f64, share);
    let energy = |what: String, sum: f64| {
        if (low..=high).contains(&sum) {
            return Ok(());
        }
        Err(format!("{what}: {sum} outside [{low}, {high}]"))
    };
    // P(|N(0,1)| ≥ a) ≤ 2 exp(-a²/2).
    let farthest = (2.0 * (2.0 / share).ln()).sqrt();
    for (i, row) in whitened.rows().into_iter().enumerate() {
        energy(format!("step {}", i + 1), row.dot(&row))?;
        let mean = row.sum() / (count as f64).sqrt();
        if mean.is_nan() || mean.abs() > farthest {
            return Err(format!("step {}: standardized mean {mean} beyond {farthest}", i + 1));
        }
        for (j, other) in whitened.rows().into_iter().enumerate().take(i) {
            for sign in [1.0, -1.0] {
                energy(format!("steps {} and {}", j + 1, i + 1), combined_energy(row, other, sign) / 2.0)?;
            }
        }
    }
    Ok(())
}

/// `‖a + sign·b‖²`.
fn combined_energy(a: ArrayView1<'_, f64>, b: ArrayView1<'_, f64>, sign: f64) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a + sign * b).powi(2)).sum()
}

/// Tests that the values are independent standard normal ones, by the largest distance between distribution functions.
///
/// Dvoretzky-Kiefer-Wolfowitz with Massart's constant: `P(sup|F_N - Φ| > e) ≤ 2 exp(-2Ne²)`.
///
/// # Errors
/// The distance, if it is too large.
pub fn is_standard_normal(mut values: Vec<f64>, alpha: f64) -> Result<(), String> {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let bound = ((2.0 / alpha).ln() / (2.0 * count)).sqrt();
    let distance = values.iter().enumerate().fold(0.0_f64, |distance, (rank, value)| {
        let expected = normal_cdf(*value);
        distance.max(expected - rank as f64 / count).max((rank + 1) as f64 / count - expected)
    });
    if distance <= bound {
        return Ok(());
    }
    Err(format!("distribution functions differ by {distance}, more than {bound}"))
}

/// Whitens columns with covariance `factor · factorᵀ` and returns all their entries.
pub fn whitened(samples: ArrayView2<'_, f64>, factor: ArrayView2<'_, f64>) -> Vec<f64> {
    let lower = dense::lq_lower(factor).unwrap_or_else(|error| panic!("{error}"));
    let entries: Array2<f64> =
        dense::solve_lower(lower.view(), samples).unwrap_or_else(|error| panic!("{error}"));
    entries.into_iter().collect()
}

/// Φ.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Φ⁻¹, by bisection.
pub fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < probability { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
