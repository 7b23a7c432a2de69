//! The best Toeplitz strategy: all n coefficients optimized.
//!
//! Minimizes `Δ² · Σ_k w_k b_k² / n`, `b = a/c`, over the coefficients c, where `w_k` is the number of rows that hold `b_k`
//! (all count once for the largest row). With `y` the sum of the columns of one person, `Δ² = ‖y‖²`, and
//!
//! ```text
//! ∂Δ²/∂c_j = 2 Σ_i y_{j+ib},      ∂/∂c_j Σ_k w_k b_k² = -2 Σ_k w_k b_k g_{k-j},   g = b/c
//! ```
//!
//! so that value and gradient cost a few products of series. At the square root g is 1 and the curvature nearly the same in
//! all directions, which is why limited-memory BFGS needs only a few dozen evaluations, whatever n is.

use dp_linalg::minimize::{self, Options};
use dp_linalg::{fft, series};

use super::toeplitz::{Core, ToeplitzStrategy, root_coefficients};
use super::{Progress, Watch, least, tell};
use crate::error::{Result, check_count};
use crate::problem::{Metric, Problem, Statistic};
use crate::sensitivity::Participation;
use crate::workload::Workload;

/// The Toeplitz strategy of least error.
///
/// For several participations the error is minimized for the pattern `{0, b, 2b, …}`, which is the worst one only for
/// non-negative, non-increasing coefficients or for bands no wider than b. The best of three strategies of these kinds is
/// taken: the minimum made non-increasing, the minimum over b bands, and the square root.
///
/// # Complexity
/// A few dozen evaluations of O(n log n); streaming as for any full Toeplitz strategy.
///
/// # Errors
/// Weights whose series has no square root to start from, or a watch that stops the fit.
pub fn optimal_toeplitz(problem: &Problem, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let (workload, steps) = (problem.workload(), problem.steps());
    let free = minimize_coefficients(problem, steps, watch)?;
    let strategy = |coefficients| {
        ToeplitzStrategy::plain("optimal-toeplitz", workload, steps, Core::full(coefficients)?)
    };
    if problem.times() <= 1 {
        return strategy(free);
    }
    let bands = problem.participation().separation().min(steps);
    let mut banded = minimize_coefficients(problem, bands, watch)?;
    banded.resize(steps, 0.0);
    let candidates = [non_increasing(&free), banded, root_coefficients(problem.statistics(), steps)?];
    let candidates = candidates.into_iter().map(strategy).collect::<Result<Vec<_>>>()?;
    match least(candidates, problem)? {
        Some(best) => Ok(best),
        None => strategy(free),
    }
}

/// The non-negative, non-increasing sequence nearest to the given one: neighbours that increase are averaged.
fn non_increasing(values: &[f64]) -> Vec<f64> {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut block = (value.max(0.0), 1);
        while let Some(&(before, length)) = blocks.last()
            && before < block.0
        {
            let joined = length + block.1;
            block = ((before * length as f64 + block.0 * block.1 as f64) / joined as f64, joined);
            blocks.pop();
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(value, length)| std::iter::repeat_n(value, length)).collect()
}

/// The best first `bands` coefficients when all later ones are zero.
///
/// # Errors
/// As [`optimal_toeplitz`].
pub(super) fn minimize_coefficients(
    problem: &Problem,
    bands: usize,
    watch: &mut Watch<'_>,
) -> Result<Vec<f64>> {
    check_count("bands", bands)?;
    let steps = problem.steps();
    let readouts = problem
        .statistics()
        .iter()
        .map(|one| Readout::new(one, steps, problem.metric()))
        .collect::<Result<Vec<_>>>()?;
    let mut start = root_coefficients(problem.statistics(), steps)?;
    start.truncate(bands);
    // The error does not depend on the scale of c.
    let leading = start[0];
    for value in &mut start {
        *value /= leading;
    }
    let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
        tell(watch, Progress::Evaluation)?;
        // What the numeric core refuses is no candidate.
        Ok(error(point, &readouts, problem.participation(), gradient).unwrap_or(f64::NAN))
    };
    let options = Options { iterations: 150, relative_decrease: 1e-9, memory: 10 };
    Ok(minimize::lbfgs(objective, start, options)?.point)
}

/// What one statistic adds to the error.
struct Readout {
    /// Its series a.
    weights: Vec<f64>,
    /// `w_k`: how much `b_k²` counts.
    importance: Vec<f64>,
}

impl Readout {
    fn new(statistic: &Statistic, steps: usize, metric: Metric) -> Result<Self> {
        let (weights, rows) = statistic.workload().toeplitz_part(steps)?;
        let mut importance = importance(statistic.workload(), &rows, metric);
        importance.iter_mut().for_each(|value| *value *= statistic.weight());
        Ok(Self { weights, importance })
    }
}

/// `w_k`: how much `b_k²` counts in the error of a workload.
fn importance(workload: &Workload, rows: &[f64], metric: Metric) -> Vec<f64> {
    if metric == Metric::Max && !workload.is_average() {
        // The last row holds every coefficient.
        return vec![1.0; rows.len()];
    }
    let mut sum = 0.0;
    let mut importance: Vec<f64> = rows
        .iter()
        .rev()
        .map(|row| {
            sum += row / rows.len() as f64;
            sum
        })
        .collect();
    importance.reverse();
    importance
}

/// The error at c and its gradient.
fn error(
    coefficients: &[f64],
    readouts: &[Readout],
    participation: Participation,
    gradient: &mut [f64],
) -> Result<f64> {
    let steps = readouts.first().map_or(coefficients.len(), |readout| readout.weights.len());
    let inverse = series::inverse(coefficients, steps)?;
    let mut norm = 0.0;
    let mut descent = vec![0.0; steps];
    for Readout { weights, importance } in readouts {
        let decoder = series::product(weights, &inverse, steps);
        let ratio = series::product(&decoder, &inverse, steps);
        let weighted: Vec<f64> = decoder.iter().zip(importance).map(|(b, w)| b * w).collect();
        norm += weighted.iter().zip(&decoder).map(|(x, b)| x * b).sum::<f64>();
        for (sum, value) in descent.iter_mut().zip(fft::correlate(&weighted, &ratio)) {
            *sum += value;
        }
    }

    let shifts: Vec<usize> =
        (0..participation.times_within(steps)).map(|time| time * participation.separation()).collect();
    let mut column = vec![0.0; steps];
    for &shift in &shifts {
        for (sum, coefficient) in column[shift..].iter_mut().zip(coefficients) {
            *sum += coefficient;
        }
    }
    let sensitivity: f64 = column.iter().map(|value| value * value).sum();
    for (j, (slope, change)) in gradient.iter_mut().zip(&descent).enumerate() {
        let pushed: f64 = shifts.iter().filter_map(|shift| column.get(j + shift)).sum();
        *slope = 2.0 * (pushed * norm - sensitivity * change);
    }
    Ok(sensitivity * norm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Strategy, blt, unwatched};
    use approx::assert_relative_eq;

    fn error_of(strategy: &dyn Strategy, participation: Participation) -> f64 {
        strategy.sensitivity(participation).unwrap().squared * strategy.row_norms().unwrap().mean()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let repeated = Participation::repeated(3, 4).unwrap();
        for (text, participation) in
            [("count", Participation::Single), ("window:5", repeated), ("average", repeated)]
        {
            let statistics = [("step", 0.7), (text, 1.0)].map(|(text, weight)| {
                Readout::new(&Statistic::new(text.parse().unwrap(), weight).unwrap(), 20, Metric::Mse)
                    .unwrap()
            });
            let point: Vec<f64> = (0..20).map(|k| 1.0 / f64::from(k + 1)).collect();
            let (mut exact, mut numeric, mut scratch) = ([0.0; 20], [0.0; 20], [0.0; 20]);
            let value = error(&point, &statistics, participation, &mut exact).unwrap();
            let function = |x: &[f64]| error(x, &statistics, participation, &mut scratch);
            assert_eq!(Ok(value), minimize::numeric_gradient(function, &point, 1e-5, &mut numeric));
            for (a, b) in exact.iter().zip(&numeric) {
                assert_relative_eq!(a, b, epsilon = 1e-7, max_relative = 1e-6);
            }
        }
    }

    #[test]
    fn many_buffers_reach_the_optimum_and_never_pass_it() {
        for steps in [64, 1024] {
            let problem = Problem::new(Workload::count(), steps).unwrap();
            let single = Participation::Single;
            let best = error_of(&optimal_toeplitz(&problem, &mut unwatched).unwrap(), single);
            let rational = error_of(&blt::blt(&problem, &mut unwatched).unwrap(), single);
            let ratio = rational / best;
            assert!(ratio > 1.0 - 1e-7 && ratio < 1.001, "{steps}: {ratio}");
        }
    }

    #[test]
    fn increasing_neighbours_are_averaged() {
        assert_eq!(non_increasing(&[4.0, 1.0, 2.0, 3.0, 1.0, -1.0]), [4.0, 2.0, 2.0, 2.0, 1.0, 0.0]);
        assert_eq!(non_increasing(&[1.0, 2.0, 9.0]), [4.0, 4.0, 4.0]);
    }

    #[test]
    fn the_square_root_is_improved_for_every_workload() {
        let repeated = Participation::repeated(4, 50).unwrap();
        for text in ["count", "window:20", "exp:1.1", "poly:0.5", "average", "poly:2"] {
            let single = Problem::new(text.parse().unwrap(), 200).unwrap();
            let sqrt = crate::strategy::toeplitz::sqrt(&single).unwrap();
            for participation in [Participation::Single, repeated] {
                let problem = single.clone().with_participation(participation);
                let best = optimal_toeplitz(&problem, &mut unwatched).unwrap();
                let (best, sqrt) = (error_of(&best, participation), error_of(&sqrt, participation));
                assert!(best <= sqrt, "{text} {participation}: {best} {sqrt}");
            }
        }
    }
}
