//! The program for several participations, over all matrices with more bands than the participations are apart.
//!
//! Columns at least b steps apart may meet in one person. The sensitivity is bounded by the heaviest chain of `chain`, which
//! is convex in `X = CᵀC`, and so is the error; X has as many bands as C, so that there are no local minima to be caught in.
//! Where the participations can fill the horizon (`times · separation ≥ n`) columns overlap little with those that are b
//! and more steps away, and not with those beyond 2b: with 2b bands the bound is exact, and bands of b alone, without any
//! overlap of columns that meet, cost about 1% more. Where they cannot, all bands are used: bands of b cost 3% more for 4:5 in 40
//! steps, 22% for 2:8 in 64 and more than twice for 2:2 in 48. Columns are *not* all of one norm at the optimum: the early ones
//! serve more releases and are measured better.
//!
//! Both the heaviest set and the largest row are approached through smooth functions, sharper from stage to stage.

use dp_linalg::dense;
use dp_linalg::minimize::{self, Options};
use dp_linalg::norms;
use ndarray::{Array1, Array2, ArrayView2, Axis};

use super::apart::{Solution, power_mean};
use super::chain::{Chains, Heaviest};
use crate::error::Result;
use crate::problem::{Metric, Problem};
use crate::sensitivity;
use crate::strategy::{Progress, Watch, tell};

/// How sharply the heaviest set is chosen, in units of its inverse weight, and the iterations for it.
const STAGES: [(f64, usize); 4] = [(100.0, 60), (500.0, 80), (2000.0, 120), (8000.0, 80)];

/// The longest horizon: beyond, a matrix with so many bands has too many entries.
pub(super) const LIMIT: usize = 1024;

/// Up to so many steps of chains, `times · n²`, all bands are used.
const CHAIN_LIMIT: usize = 1 << 22;

/// The number of bands that serve a problem.
pub(super) fn bands(problem: &Problem) -> usize {
    let (steps, times) = (problem.steps(), problem.times());
    let separation = problem.participation().separation();
    if problem.fills_horizon() || times * steps * steps > CHAIN_LIMIT {
        steps.min(2 * separation)
    } else {
        steps
    }
}

/// Minimizes the problem's metric under at least two participations, from a strategy: one whose columns are kept apart, or, where
/// all bands are used and that would be too far away, one that is near or the coefficients of a Toeplitz strategy.
///
/// # Complexity
/// Some three hundred evaluations, each five products of n×n matrices and the chains; more for the largest row.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the program.
pub(super) fn solve(
    workload: ArrayView2<'_, f64>,
    start: Start<'_>,
    problem: &Problem,
    watch: &mut Watch<'_>,
) -> Result<Solution> {
    // The rows of several statistics at once have no largest one.
    let metric = if problem.is_joint() { Metric::Mse } else { problem.metric() };
    let (bands, times) = (bands(problem), problem.times());
    let chains = Chains { times, separation: problem.participation().separation(), bands };
    let program = Program { workload, chains };
    let mut point: Vec<f64> = match start {
        Start::Coefficients(coefficients) => program.start(coefficients),
        Start::Strategy(near) => {
            let scale = near[[0, 0]].abs();
            program.entries().map(|place| near[place] / scale).collect()
        }
    };
    let mut gradient = vec![0.0; point.len()];
    let exponents = metric.power_means();
    let (first, last) = (exponents[0], exponents[exponents.len() - 1]);
    let rising = exponents.iter().map(|exponent| (STAGES[2], *exponent));
    let soft = if matches!(start, Start::Coefficients(_)) { &STAGES[..2] } else { &STAGES[1..2] };
    let stages = soft.iter().map(|stage| (*stage, first)).chain(rising).chain([(STAGES[3], last)]);
    for ((sharpness, iterations), exponent) in stages {
        let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
            tell(watch, Progress::Evaluation)?;
            Ok(program.evaluate(point, exponent, sharpness, gradient).map_or(f64::NAN, |(value, _)| value))
        };
        let options = Options { iterations, relative_decrease: 1e-7, memory: 12 };
        point = minimize::lbfgs(objective, point, options)?.point;
    }
    let (_, weights) = program.evaluate(&point, last, STAGES[3].0, &mut gradient)?;
    let mut strategy = program.unpack(&point);
    let heaviest = sensitivity::dense(strategy.view(), problem.participation())?.squared;
    // Rounded so that the scaled columns stay below.
    strategy *= (times as f64 / heaviest).sqrt() * (1.0 - 4.0 * f64::EPSILON);
    Ok(Solution { strategy, row_weights: &weights / weights.sum() })
}

/// Where the program begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start<'a> {
    /// The coefficients of a Toeplitz strategy.
    Coefficients(&'a [f64]),
    /// A lower-triangular matrix.
    Strategy(ArrayView2<'a, f64>),
}

struct Program<'a> {
    workload: ArrayView2<'a, f64>,
    chains: Chains,
}

impl Program<'_> {
    fn steps(&self) -> usize {
        self.workload.nrows()
    }

    /// The entries of C inside its bands, row by row.
    fn entries(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let bands = self.chains.bands;
        (0..self.steps()).flat_map(move |i| ((i + 1).saturating_sub(bands)..=i).map(move |j| (i, j)))
    }

    /// A point: the entries of the bands.
    fn start(&self, coefficients: &[f64]) -> Vec<f64> {
        self.entries().map(|(i, j)| coefficients[i - j] / coefficients[0]).collect()
    }

    fn unpack(&self, point: &[f64]) -> Array2<f64> {
        let mut strategy = Array2::zeros((self.steps(), self.steps()));
        for (place, entry) in self.entries().zip(point) {
            strategy[place] = *entry;
        }
        strategy
    }

    /// The logarithm of the objective, its gradient, and how much the squared norm of every row of B counts in it.
    fn evaluate(
        &self,
        point: &[f64],
        exponent: i32,
        sharpness: f64,
        gradient: &mut [f64],
    ) -> Result<(f64, Array1<f64>)> {
        let error = log_error(self.workload, self.unpack(point).view(), self.chains, (exponent, sharpness))?;
        for (place, slope) in self.entries().zip(&mut *gradient) {
            *slope = error.slopes[place];
        }
        Ok((error.value, error.row_weights))
    }
}

/// The logarithm of an error as a function of C.
pub(in crate::strategy) struct LogError {
    pub(in crate::strategy) value: f64,
    /// Its slope in every entry of C; those above the diagonal mean nothing.
    pub(in crate::strategy) slopes: Array2<f64>,
    /// How much the squared norm of every row of B counts in it.
    pub(in crate::strategy) row_weights: Array1<f64>,
}

/// `ln (Δ² · mean ‖b_t‖²)` with a power mean of the given exponent and a maximum over sets of the given sharpness.
///
/// # Errors
/// What the numeric core refuses.
pub(in crate::strategy) fn log_error(
    workload: ArrayView2<'_, f64>,
    strategy: ArrayView2<'_, f64>,
    chains: Chains,
    (exponent, sharpness): (i32, f64),
) -> Result<LogError> {
    let inverse = dense::inverse_lower(strategy)?;
    let mut decoder = dense::matmul(workload, inverse.view());
    let rows = norms::row_squared_norms(decoder.view());
    let (mean, row_weights) = power_mean(&rows, exponent);
    decoder *= &row_weights.mapv(f64::sqrt).insert_axis(Axis(1));
    // d‖B‖² = -2 ⟨BᵀB C⁻ᵀ, dC⟩.
    let error_slopes = dense::matmul(dense::gram(decoder.view()).view(), inverse.t());
    // Sharpness is measured against `times` columns of mean length, whatever the scale of C.
    let mut gram = dense::gram(strategy);
    let per_column = chains.times as f64 / strategy.ncols() as f64;
    let scale = per_column * gram.diag().sum();
    gram /= scale;
    let Heaviest { value, mut slopes } = chains.heaviest(gram.view(), sharpness);
    let along = (&slopes * &gram).sum();
    slopes /= scale * value;
    slopes.diag_mut().mapv_inplace(|slope| slope + per_column / scale * (1.0 - along / value));
    let sensitivity_slopes = dense::matmul(strategy, slopes.view());
    let slopes = 2.0 * (sensitivity_slopes - error_slopes / mean);
    Ok(LogError { value: (scale * value).ln() + mean.ln(), slopes, row_weights })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use approx::assert_relative_eq;

    #[test]
    fn gradients_agree_with_differences() {
        let matrix = "momentum:0.5".parse::<Workload>().unwrap().materialize(11).unwrap();
        let coefficients: Vec<f64> = (0..11).map(|k| 1.0 / f64::from(k + 1)).collect();
        for (times, bands, exponent) in [(4, 11, 1), (4, 11, 16), (3, 6, 1), (4, 3, 1), (2, 11, 1)] {
            let chains = Chains { times, separation: 3, bands };
            let program = Program { workload: matrix.view(), chains };
            let mut point = program.start(&coefficients);
            for (index, value) in point.iter_mut().enumerate() {
                *value *= 1.0 + 0.1 * ((index * 7 % 5) as f64 - 2.0);
            }
            let mut gradients = [vec![0.0; point.len()], vec![0.0; point.len()], vec![0.0; point.len()]];
            let [exact, numeric, scratch] = &mut gradients;
            program.evaluate(&point, exponent, 20.0, exact).unwrap();
            let function = |x: &[f64]| program.evaluate(x, exponent, 20.0, scratch).map(|(value, _)| value);
            minimize::numeric_gradient(function, &point, 1e-5, numeric).unwrap();
            for (a, b) in exact.iter().zip(numeric.iter()) {
                assert_relative_eq!(a, b, epsilon = 1e-6, max_relative = 1e-5);
            }
        }
    }

    /// The smooth maximum is never below the bound that noise is calibrated to, and close to it when sharp.
    #[test]
    fn the_smooth_maximum_is_the_bound_in_the_limit() {
        let workload = Workload::count().materialize(12).unwrap();
        for (times, bands) in [(4, 12), (3, 6), (2, 12)] {
            let chains = Chains { times, separation: 3, bands };
            let program = Program { workload: workload.view(), chains };
            let strategy = program.unpack(&program.start(&[1.0; 12]));
            let gram = dense::gram(strategy.view());
            let participation = crate::Participation::repeated(times, 3).unwrap();
            let bound = sensitivity::dense(strategy.view(), participation).unwrap().squared;
            let smooth = chains.heaviest(gram.view(), 50.0).value;
            assert!(bound <= smooth * (1.0 + 1e-9), "{times} {bands}: {bound} {smooth}");
        }
    }
}
