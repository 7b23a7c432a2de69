//! The program for several participations: measurements that one person touches twice are kept apart.
//!
//! Columns at least b steps apart may meet in one person. If C has b bands they are orthogonal, and then, whatever the
//! signs, `Δ² = max_S Σ_{j∈S} X_jj` over the admissible sets S, with `X = CᵀC`: exactly the heaviest set of the diagonal.
//! What is lost against columns that may overlap, the program of `overlapping` shows: about 1% where the participations can
//! fill the horizon (`times · separation ≥ n`), much where they cannot.
//!
//! The heaviest set is a linear program over an interval matrix, hence without a gap to its dual: it is the least total
//! price of windows of b consecutive steps (each at its price, and all steps at `times` theirs) such that every step is
//! covered by prices of at least `X_jj`. So with non-negative prices y and
//!
//! `X_jj = y_all + Σ_{windows ∋ j} y_window`,   `Δ² ≤ times · y_all + Σ y_window`
//!
//! the product `Δ² · ‖B‖²` is a smooth function of the prices and of the directions of the columns. The program is convex
//! in X, and X has b bands just when C has, so that there are no local minima to be caught in. Columns are *not* all of
//! one norm at its optimum: the early ones serve more releases and are measured better, which gains 4% over unit
//! columns for the count and 13% for momentum 0.9 (4:16 in 64 steps).
//!
//! The largest row is approached through power means, which are smooth.

use dp_linalg::minimize::{self, Options};
use dp_linalg::{dense, norms};
use ndarray::{Array1, Array2, ArrayView2, Axis};

use crate::error::Result;
use crate::problem::{Metric, Problem};
use crate::sensitivity;
use crate::strategy::{Progress, Watch, tell};

/// The share of the columns' norms that the price of all steps pays for at the start; the windows share the rest evenly.
const COMMON_SHARE: f64 = 0.7;

/// A solution of the program.
pub(super) struct Solution {
    /// The lower-triangular C, of squared sensitivity `times`.
    pub(super) strategy: Array2<f64>,
    /// How much every release counts in the objective at the solution; their sum is 1.
    pub(super) row_weights: Array1<f64>,
}

/// Minimizes the problem's metric under at least two participations, from the coefficients of a Toeplitz strategy.
///
/// # Complexity
/// One to three hundred evaluations, each two products and a triangular inverse of n×n matrices; four times as many for
/// the largest row.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the program.
pub(super) fn solve(
    workload: ArrayView2<'_, f64>,
    start: &[f64],
    problem: &Problem,
    watch: &mut Watch<'_>,
) -> Result<Solution> {
    let participation = problem.participation();
    // The rows of several statistics at once have no largest one.
    let metric = if problem.is_joint() { Metric::Mse } else { problem.metric() };
    let bands = participation.separation().min(workload.nrows());
    let program = Program { workload, bands, times: problem.times() };
    let mut point = program.start(start);
    let mut gradient = vec![0.0; point.len()];
    for &exponent in metric.power_means() {
        let unit = program.evaluate(&point, exponent, &mut gradient)?.0;
        let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
            tell(watch, Progress::Evaluation)?;
            let value = program.evaluate(point, exponent, gradient).map_or(f64::NAN, |(value, _)| value);
            gradient.iter_mut().for_each(|slope| *slope /= unit);
            Ok(value / unit)
        };
        let options = Options { iterations: 300, relative_decrease: 1e-7, memory: 12 };
        point = minimize::lbfgs(objective, point, options)?.point;
    }
    let exponent = metric.power_means().last().copied().unwrap_or(1);
    let (_, weights) = program.evaluate(&point, exponent, &mut gradient)?;
    let mut strategy = program.unpack(&point).strategy;
    let columns: Vec<f64> =
        strategy.axis_iter(Axis(1)).map(|column| norms::round_up_sum_of_squares(&column.to_vec())).collect();
    let heaviest = sensitivity::orthogonal_columns(&columns, participation).squared;
    // Rounded so that the scaled columns stay below.
    strategy *= (program.times as f64 / heaviest).sqrt() * (1.0 - 4.0 * f64::EPSILON);
    Ok(Solution { strategy, row_weights: &weights / weights.sum() })
}

struct Program<'a> {
    workload: ArrayView2<'a, f64>,
    bands: usize,
    times: usize,
}

/// A point of the search, taken apart.
struct Parts {
    /// The bands as they stand in the point.
    raw: Array2<f64>,
    /// The norms of their columns.
    lengths: Array1<f64>,
    /// The norms that the prices give them.
    norms: Array1<f64>,
    /// `times · y_all + Σ y_window`.
    price: f64,
    /// C: the raw columns, of the given norms.
    strategy: Array2<f64>,
}

impl Program<'_> {
    fn steps(&self) -> usize {
        self.workload.nrows()
    }

    /// The entries of C inside its bands, row by row.
    fn entries(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let bands = self.bands;
        (0..self.steps()).flat_map(move |i| ((i + 1).saturating_sub(bands)..=i).map(move |j| (i, j)))
    }

    /// A point: the entries of the bands, then the roots of the prices, that of all steps last.
    fn start(&self, coefficients: &[f64]) -> Vec<f64> {
        let windows = self.steps() - self.bands + 1;
        let window = ((1.0 - COMMON_SHARE) / self.bands as f64).sqrt();
        let entries = self.entries().map(|(i, j)| coefficients[i - j] / coefficients[0]);
        entries.chain(std::iter::repeat_n(window, windows)).chain([COMMON_SHARE.sqrt()]).collect()
    }

    fn unpack(&self, point: &[f64]) -> Parts {
        let steps = self.steps();
        let windows = steps - self.bands + 1;
        let (entries, roots) = point.split_at(point.len() - windows - 1);
        let mut raw = Array2::zeros((steps, steps));
        for (place, entry) in self.entries().zip(entries) {
            raw[place] = *entry;
        }
        let lengths = norms::column_squared_norms(raw.view()).mapv(f64::sqrt);
        let prices: Vec<f64> = roots.iter().map(|root| root * root).collect();
        let all = prices[windows];
        // Step j lies in the windows that begin at most b-1 steps before it.
        let sums = running_sums(&prices[..windows]);
        let covered = |j: usize| sums[(j + 1).min(windows)] - sums[(j + 1).saturating_sub(self.bands)];
        let norms: Array1<f64> = (0..steps).map(|j| (all + covered(j)).sqrt()).collect();
        let price = self.times as f64 * all + sums[windows];
        let strategy = &raw * &(&norms / &lengths);
        Parts { raw, lengths, norms, price, strategy }
    }

    /// The objective, its gradient, and how much the squared norm of every row of B counts in it.
    fn evaluate(&self, point: &[f64], exponent: i32, gradient: &mut [f64]) -> Result<(f64, Array1<f64>)> {
        let steps = self.steps();
        let Parts { raw, lengths, norms, price, strategy } = self.unpack(point);
        let inverse = dense::inverse_lower(strategy.view())?;
        let mut decoder = dense::matmul(self.workload, inverse.view());
        let rows = norms::row_squared_norms(decoder.view());
        let (mean, weights) = power_mean(&rows, exponent);
        decoder *= &weights.mapv(f64::sqrt).insert_axis(Axis(1));
        // d‖B‖² = -2 ⟨BᵀB C⁻ᵀ, dC⟩.
        let slopes = dense::matmul(dense::gram(decoder.view()).view(), inverse.t());
        let along: Vec<f64> = (0..steps)
            .map(|j| {
                let rows = j..(j + self.bands).min(steps);
                rows.map(|i| -2.0 * slopes[[i, j]] * raw[[i, j]]).sum::<f64>() / lengths[j]
            })
            .collect();
        // A change of a raw column along itself changes nothing.
        for ((i, j), slope) in self.entries().zip(&mut *gradient) {
            let across = -2.0 * slopes[[i, j]] - along[j] * raw[[i, j]] / lengths[j];
            *slope = price * across * norms[j] / lengths[j];
        }
        let windows = steps - self.bands + 1;
        let first = gradient.len() - windows - 1;
        let per_square: Vec<f64> =
            along.iter().zip(&norms).map(|(slope, norm)| slope / (2.0 * norm)).collect();
        let sums = running_sums(&per_square);
        for (window, slope) in gradient[first..].iter_mut().enumerate() {
            let (covered, cost) = if window < windows {
                (sums[window + self.bands] - sums[window], 1.0)
            } else {
                (sums[steps], self.times as f64)
            };
            *slope = 2.0 * point[first + window] * (price * covered + mean * cost);
        }
        Ok((price * mean, weights))
    }
}

/// `(Σ_t r_t^p / n)^{1/p}` and its derivatives in r.
pub(super) fn power_mean(values: &Array1<f64>, exponent: i32) -> (f64, Array1<f64>) {
    let count = values.len() as f64;
    let largest = values.fold(0.0_f64, |largest, value| largest.max(*value));
    let mean = values.fold(0.0, |sum, value| sum + (value / largest).powi(exponent)) / count;
    let power_mean = largest * mean.powf(1.0 / f64::from(exponent));
    (power_mean, values.mapv(|value| (value / power_mean).powi(exponent - 1) / count))
}

/// The sum of the first i values, for every i from 0.
fn running_sums(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    std::iter::once(0.0)
        .chain(values.iter().map(|value| {
            sum += value;
            sum
        }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensitivity::Participation;
    use crate::workload::Workload;
    use approx::assert_relative_eq;

    #[test]
    fn gradients_agree_with_differences() {
        let matrix = "momentum:0.5".parse::<Workload>().unwrap().materialize(9).unwrap();
        let program = Program { workload: matrix.view(), bands: 4, times: 2 };
        let coefficients: Vec<f64> = (0..9).map(|k| 1.0 / f64::from(k + 1)).collect();
        let mut point = program.start(&coefficients);
        for (index, value) in point.iter_mut().enumerate() {
            *value *= 1.0 + 0.1 * ((index * 7 % 5) as f64 - 2.0);
        }
        let mut gradients = [vec![0.0; point.len()], vec![0.0; point.len()], vec![0.0; point.len()]];
        let [exact, numeric, scratch] = &mut gradients;
        for exponent in [1, 16] {
            program.evaluate(&point, exponent, exact).unwrap();
            let function = |x: &[f64]| program.evaluate(x, exponent, scratch).map(|(value, _)| value);
            minimize::numeric_gradient(function, &point, 1e-5, numeric).unwrap();
            for (a, b) in exact.iter().zip(numeric.iter()) {
                assert_relative_eq!(a, b, epsilon = 1e-6, max_relative = 1e-5);
            }
        }
    }

    #[test]
    fn prices_pay_for_the_heaviest_set() {
        let matrix = Workload::count().materialize(12).unwrap();
        let program = Program { workload: matrix.view(), bands: 4, times: 2 };
        let mut point = program.start(&[1.0; 12]);
        for (index, value) in point.iter_mut().enumerate() {
            *value *= 1.0 + 0.3 * ((index * 5 % 7) as f64 - 3.0);
        }
        let parts = program.unpack(&point);
        let squared: Vec<f64> = parts.norms.iter().map(|norm| norm * norm).collect();
        let participation = Participation::repeated(2, 4).unwrap();
        assert!(
            sensitivity::orthogonal_columns(&squared, participation).squared <= parts.price * (1.0 + 1e-14)
        );
        for (column, norm) in parts.strategy.axis_iter(Axis(1)).zip(&parts.norms) {
            assert_relative_eq!(column.dot(&column).sqrt(), *norm, max_relative = 1e-13);
        }
    }
}
