//! The scaled square root: a smooth row scaling around a Toeplitz core, fitted to the mean squared error.
//!
//! `C = D1 · T · D2` with `ln d_t = p1 ln τ + p2 ln(1-τ) + p3 ln²τ + p4 ln²(1-τ)`, `τ = (t-½)/n`, and D2 such that
//! every column has norm 1. (Two cubic terms more are 0 here; the largest error needs them.) The four parameters are found by BFGS on E2; whatever they are, the sensitivity is
//! 1 by construction, so the fit can cost accuracy but never privacy. For the count this comes within 0.2% of
//! the dense optimum at n = 1024, with two multiplications more per step than the square root.
//!
//! Under repeated participation that can fill the horizon the core has as many bands as the participations are apart, so that columns
//! which can meet in one person are orthogonal, and D2 gives the columns norms that fall from one block of b steps to the next,
//! `ln s = q1 τ + q2 τ²` at the middle τ of the block. One person has at most one step in a block: `Δ²` is the sum of the
//! largest `times` values of `s²`, exactly, for any horizon. Rows then know their place in the block. Where participations cannot fill the
//! horizon, columns that meet are better, up to 4096 steps (the module `repeated`).

use dp_linalg::minimize::{self, Options};
use rayon::prelude::*;

use super::optimal_toeplitz::minimize_coefficients;
use super::repeated::repeated;
use super::toeplitz::{Core, Readout, Scaling, ToeplitzStrategy, root_coefficients, root_core};
use super::{Progress, Watch, least, tell};
use crate::error::Result;
use crate::problem::{Problem, Statistic};
use crate::workload::{Recurrence, Workload};

/// The parameters of a row scaling: those of the logarithms, of their squares and of their cubes, in turn for τ and `1-τ`.
pub type Parameters = [f64; 6];

/// Parameters without cubic terms.
pub(super) fn quadratic(parameters: &[f64]) -> Parameters {
    [parameters[0], parameters[1], parameters[2], parameters[3], 0.0, 0.0]
}

/// The longest horizon at which parameters are fitted; they drift so slowly with the horizon that longer ones
/// use the same.
const FIT_LIMIT: usize = 1 << 14;

/// The same where a statistic has to be applied by convolution, to every column that the fit looks at.
const CONVOLVED_LIMIT: usize = 1 << 12;

/// The coefficients of a band are fitted over at least so many times its length, where there are as many steps.
const FEWEST_BANDS: usize = 8;

/// Windows are not made shorter than that for a fit.
const SHORTEST_WINDOW: usize = 16;

/// Up to this many columns of B the error is summed in full during the fit; above it, by quadrature.
const ALL_COLUMNS: usize = 256;

/// The longest horizon at which a scaling for several participations is fitted. The norms of the columns of B jump from
/// block to block, so that all of them are summed.
const REPEATED_LIMIT: usize = 1 << 9;

/// Up to this many steps the whole square root is a candidate also where bands keep the columns of one person apart; beyond, its
/// Gram matrix takes long, and it never wins.
const WHOLE_LIMIT: usize = 1 << 9;

/// The diagonal of D1 for the given parameters.
pub fn row_scaling(parameters: &Parameters, steps: usize) -> Vec<f64> {
    (0..steps).map(|step| log_row(parameters, step, steps).exp()).collect()
}

/// The same for parameters that were fitted to windows of a shorter horizon. Nearer to an end than its first or last step, where powers of
/// logarithms would go astray, rows are as there.
pub(super) fn stretched_rows(parameters: &Parameters, fitted: usize, steps: usize) -> Vec<f64> {
    if fitted >= steps {
        return row_scaling(parameters, steps);
    }
    let edge = 0.5 / fitted as f64;
    let time = |step: usize| ((step as f64 + 0.5) / steps as f64).clamp(edge, 1.0 - edge);
    (0..steps).map(|step| log_row_at(parameters, time(step)).exp()).collect()
}

/// `ln d_t = p1 ln τ + p2 ln(1-τ) + p3 ln²τ + p4 ln²(1-τ) + p5 ln³τ + p6 ln³(1-τ)` in the middle τ of a step.
pub(super) fn log_row(parameters: &Parameters, step: usize, steps: usize) -> f64 {
    log_row_at(parameters, (step as f64 + 0.5) / steps as f64)
}

fn log_row_at(parameters: &Parameters, time: f64) -> f64 {
    let (early, late) = (time.ln(), (1.0 - time).ln());
    let [p1, p2, p3, p4, p5, p6] = parameters;
    early * (p1 + early * (p3 + early * p5)) + late * (p2 + late * (p4 + late * p6))
}

/// The square root with every column scaled to norm 1 (Henzinger, Kalinin, Upadhyay 2025). For several participations the
/// whole of it, or its first b coefficients, whose columns do not meet (`Δ² = times`).
///
/// # Errors
/// Weights whose series has no square root.
pub fn normalized_sqrt(problem: &Problem) -> Result<ToeplitzStrategy> {
    let (workload, steps) = (problem.workload(), problem.steps());
    let of_core =
        |core| ToeplitzStrategy::normalized("normalized-sqrt", workload, steps, core, vec![1.0; steps]);
    let whole = of_core(root_core(problem.statistics(), steps)?)?;
    if problem.times() <= 1 {
        return Ok(whole);
    }
    let mut band = root_coefficients(problem.statistics(), steps)?;
    band.truncate(problem.participation().separation());
    Ok(least([of_core(Core::Banded(band))?, whole.clone()], problem)?.unwrap_or(whole))
}

/// The square root with fitted row scaling and normalized columns. For several participations with the best banded core and
/// fitted rows and column norms, or with columns that meet, or the whole square root with a bounded sensitivity where that is better.
///
/// # Complexity
/// A few dozen evaluations of about `min(n, 256) · n` operations for the fit. For several participations some dozen of
/// O(n log n) for the core as well and some hundred of the dense program at up to 256 steps; where they do not fill the horizon
/// (`times · separation < n`), up to 4096 steps, O(n³) for a Gram matrix.
///
/// # Errors
/// Weights whose series has no square root, or a watch that stops the fit.
pub fn scaled_sqrt(problem: &Problem, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let (steps, separation) = (problem.steps(), problem.participation().separation());
    if problem.times() <= 1 {
        return whole(problem, watch);
    }
    // One band is the same whatever its coefficient is.
    let mut band = vec![1.0];
    if separation > 1 {
        band = root_coefficients(problem.statistics(), steps)?;
        band.truncate(separation);
    }
    let banded = with_band(problem, band, watch)?;
    let mut candidates = vec![banded.clone()];
    if separation > 1 {
        // Far beyond the band its coefficients do not depend on the horizon.
        let length = steps.min(FIT_LIMIT.max(FEWEST_BANDS * separation));
        let fitted = minimize_coefficients(&problem.with_steps(length), separation, watch)?;
        // The best band without scaling is not always the best one with it.
        candidates.push(with_band(problem, fitted, watch)?);
    }
    candidates.extend(repeated("scaled-sqrt", problem, watch)?);
    if !problem.fills_horizon() || steps <= WHOLE_LIMIT {
        candidates.push(whole(problem, watch)?);
    }
    Ok(least(candidates, problem)?.unwrap_or(banded))
}

/// The whole square root with fitted rows, and columns of norm 1.
fn whole(problem: &Problem, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let (workload, steps) = (problem.workload(), problem.steps());
    let core = root_core(problem.statistics(), steps)?;
    let rows = match shortened(problem.statistics(), steps, fit_limit(problem.statistics()))? {
        Some(short) => {
            let limit = fit_limit(&short);
            stretched_rows(&fit(&short, limit, &root_core(&short, limit)?, watch)?, limit, steps)
        }
        None => row_scaling(&fit(problem.statistics(), steps, &core, watch)?, steps),
    };
    ToeplitzStrategy::normalized("scaled-sqrt", workload, steps, core, rows)
}

/// The longest horizon at which parameters are fitted to these statistics.
fn fit_limit(statistics: &[Statistic]) -> usize {
    let convolved = statistics.iter().any(|one| matches!(one.workload().recurrence(), Recurrence::None));
    if convolved { CONVOLVED_LIMIT } else { FIT_LIMIT }
}

/// The statistics of a horizon beyond a limit at that limit, with windows that are as long in comparison; nothing
/// where there is no window, or where so little would be left of one that its first steps are as good.
pub(super) fn shortened(
    statistics: &[Statistic],
    steps: usize,
    limit: usize,
) -> Result<Option<Vec<Statistic>>> {
    let short = |width: usize| (width as f64 * (limit as f64 / steps as f64)).round() as usize;
    let windows = statistics.iter().filter_map(|one| match one.workload().recurrence() {
        Recurrence::Window { width } => Some(short(width.min(steps))),
        _ => None,
    });
    if steps <= limit || windows.max().is_none_or(|width| width < SHORTEST_WINDOW) {
        return Ok(None);
    }
    let shortened = |one: &Statistic| match one.workload().recurrence() {
        Recurrence::Window { width } => {
            Statistic::new(Workload::window(short(width.min(steps)).max(1))?, one.weight())
        }
        _ => Ok(one.clone()),
    };
    statistics.iter().map(shortened).collect::<Result<Vec<_>>>().map(Some)
}

/// A banded core with fitted rows and column norms, for participations as far apart as the core has bands.
fn with_band(problem: &Problem, band: Vec<f64>, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let (workload, steps, times) = (problem.workload(), problem.steps(), problem.times());
    let separation = band.len();
    // Long horizons are fitted at a smaller scale: fewer steps, less far apart.
    let length = steps.min(REPEATED_LIMIT);
    let bands = (separation * length).div_ceil(steps);
    if bands == 1 {
        let lengths = block_lengths(&fit_lengths(problem, length, watch)?, steps, separation);
        let rows = vec![1.0; steps];
        return ToeplitzStrategy::of_lengths(
            "scaled-sqrt",
            workload,
            steps,
            Core::Banded(band),
            rows,
            lengths,
        );
    }
    let core = Core::Banded(band[..bands].to_vec());
    let coefficients = core.coefficients(length)?;
    let rows_of = |parameters: &[f64], steps: usize, block: usize| {
        block_rows(parameters, [parameters[4], parameters[5], 0.0, 0.0], steps, block)
    };
    let candidate = |parameters: &[f64]| {
        let lengths = block_lengths(&parameters[6..], length, bands);
        let rows = rows_of(parameters, length, bands);
        let usable = rows.iter().chain(&lengths).all(|value| *value > 0.0 && value.is_finite());
        usable.then(|| {
            let scaling = Scaling::normalizing_above(ALL_COLUMNS, &coefficients, rows).with_lengths(&lengths);
            (scaling, heaviest_blocks(&lengths, bands, times))
        })
    };
    let inverse = core.inverse(length)?;
    let parameters =
        minimize_error(problem.statistics(), &inverse, &all_columns(length), vec![0.0; 8], candidate, watch)?;
    let rows = rows_of(&parameters, steps, separation);
    let lengths = block_lengths(&parameters[6..], steps, separation);
    ToeplitzStrategy::of_lengths("scaled-sqrt", workload, steps, Core::Banded(band), rows, lengths)
}

/// Rows with four parameters of the whole horizon, and four of the place `v = (i + ½)/b` in a block of b steps: where the norms of
/// columns fall, at the beginning of a block, rows fall as well. `ln d = … + r1 ln v + r2 ln² v + r3 ln(1-v) + r4 ln²(1-v)`.
pub(super) fn block_rows(whole: &[f64], in_block: [f64; 4], steps: usize, block: usize) -> Vec<f64> {
    let mut rows = row_scaling(&quadratic(whole), steps);
    for (step, row) in rows.iter_mut().enumerate() {
        let place = ((step % block) as f64 + 0.5) / block as f64;
        let (early, late) = (place.ln(), (1.0 - place).ln());
        let [r1, r2, r3, r4] = in_block;
        *row *= (early * (r1 + r2 * early) + late * (r3 + r4 * late)).exp();
    }
    rows
}

/// The parameters of column norms for a core of one band: C is a diagonal s, whose error `Δ² Σ_j ‖A_j‖²/s_j²` needs the columns of A
/// once, and rows are not scaled.
fn fit_lengths(problem: &Problem, length: usize, watch: &mut Watch<'_>) -> Result<Vec<f64>> {
    let identity = Core::Banded(vec![1.0]);
    let plain = Scaling::normalizing(&identity.coefficients(length)?, vec![1.0; length]);
    let inverse = identity.inverse(length)?;
    let (mut energies, mut scratch) = (vec![0.0; length], vec![0.0; length]);
    for one in problem.statistics() {
        let readout = Readout::new(one.workload(), length)?;
        for (column, energy) in energies.iter_mut().enumerate() {
            *energy += one.weight() * readout.column_energy(&inverse, &plain, column, &mut scratch);
        }
    }
    let error = |parameters: &[f64]| -> f64 {
        let lengths = block_lengths(parameters, length, 1);
        let sum: f64 = energies.iter().zip(&lengths).map(|(energy, length)| energy / (length * length)).sum();
        heaviest_blocks(&lengths, 1, problem.times()) * sum / length as f64
    };
    minimize_numerically(error, vec![0.0; 2], watch)
}

/// Column norms `e^{q1 τ + q2 τ²}`, constant within blocks of the given length.
pub(super) fn block_lengths(parameters: &[f64], steps: usize, block: usize) -> Vec<f64> {
    (0..steps)
        .map(|j| {
            let time = ((j / block) as f64 + 0.5) * block as f64 / steps as f64;
            (time * (parameters[0] + parameters[1] * time)).exp()
        })
        .collect()
}

/// The sum of the largest squared lengths of so many blocks.
fn heaviest_blocks(lengths: &[f64], block: usize, times: usize) -> f64 {
    let mut squared: Vec<f64> = lengths.iter().step_by(block).map(|length| length * length).collect();
    squared.sort_by(|left, right| right.total_cmp(left));
    squared.iter().take(times).sum()
}

/// The parameters that minimize E2 for a core, starting from no scaling at all.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the fit.
pub fn fit(statistics: &[Statistic], steps: usize, core: &Core, watch: &mut Watch<'_>) -> Result<Parameters> {
    let length = steps.min(fit_limit(statistics));
    if length < 2 {
        return Ok([0.0; 6]);
    }
    let coefficients = core.coefficients(length)?;
    let normalized = |parameters: &[f64]| {
        let rows = row_scaling(&quadratic(parameters), length);
        let usable = rows.iter().all(|row| *row > 0.0 && row.is_finite());
        usable.then(|| (Scaling::normalizing_above(ALL_COLUMNS, &coefficients, rows), 1.0))
    };
    // Columns that a window does not leave before the end have a kink where they begin.
    let kinks = statistics.iter().filter_map(|one| match one.workload().recurrence() {
        Recurrence::Window { width } => length.checked_sub(width),
        _ => None,
    });
    let (inverse, columns) = (core.inverse(length)?, quadrature(length, kinks));
    let point = minimize_error(statistics, &inverse, &columns, vec![0.0; 4], normalized, watch)?;
    Ok(quadratic(&point))
}

/// The parameters that minimize `Δ² Σ w_i ‖B_i‖_F²` over the weighted columns of the decoders B, where the candidate says which scaling of the
/// core they stand for and its `Δ²`.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the fit.
pub(super) fn minimize_error(
    statistics: &[Statistic],
    inverse: &[f64],
    columns: &[(usize, f64)],
    start: Vec<f64>,
    candidate: impl Fn(&[f64]) -> Option<(Scaling, f64)>,
    watch: &mut Watch<'_>,
) -> Result<Vec<f64>> {
    let length = inverse.len();
    let readouts = statistics
        .iter()
        .map(|one| Ok((one.weight(), Readout::new(one.workload(), length)?)))
        .collect::<Result<Vec<_>>>()?;
    let error = |parameters: &[f64]| -> f64 {
        let Some((scaling, squared_sensitivity)) = candidate(parameters) else { return f64::INFINITY };
        // Summed in order, not as threads finish: a resumed mechanism must fit the very same parameters.
        let energies: Vec<f64> = columns
            .par_iter()
            .map_init(
                || vec![0.0; length],
                |scratch, &(column, weight)| {
                    let energy = |(share, readout): &(f64, Readout<'_>)| {
                        share * readout.column_energy(inverse, &scaling, column, scratch)
                    };
                    weight * readouts.iter().map(energy).sum::<f64>()
                },
            )
            .collect();
        squared_sensitivity * energies.iter().sum::<f64>() / length as f64
    };
    minimize_numerically(error, start, watch)
}

/// Where an error is least that is not finite outside of its domain.
fn minimize_numerically(
    error: impl Fn(&[f64]) -> f64,
    start: Vec<f64>,
    watch: &mut Watch<'_>,
) -> Result<Vec<f64>> {
    let options = Options { iterations: 40, relative_decrease: 1e-7, memory: 8 };
    let objective = |point: &[f64], gradient: &mut [f64]| {
        let evaluate = |point: &[f64]| -> Result<f64> {
            tell(watch, Progress::Evaluation)?;
            Ok(error(point))
        };
        minimize::numeric_gradient(evaluate, point, 1e-4, gradient)
    };
    Ok(minimize::lbfgs(objective, start, options)?.point)
}

/// Every column, with weight 1.
pub(super) fn all_columns(steps: usize) -> Vec<(usize, f64)> {
    (0..steps).map(|column| (column, 1.0)).collect()
}

/// Columns and weights whose weighted sum approximates the sum over all columns: every column near both ends,
/// and a trapezoidal rule in the logit of time between, denser around kinks.
fn quadrature(steps: usize, kinks: impl Iterator<Item = usize>) -> Vec<(usize, f64)> {
    if steps <= ALL_COLUMNS {
        return all_columns(steps);
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
    for kink in kinks {
        nodes.push(kink.min(steps - 1));
        for distance in (0..usize::BITS).map(|bit| 1_usize << bit).take_while(|distance| *distance < steps) {
            nodes.extend(kink.checked_sub(distance));
            nodes.extend(Some(kink + distance).filter(|node| *node < steps));
        }
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
    use crate::sensitivity::Participation;
    use crate::strategy::{Strategy, unwatched};

    /// One band is a diagonal s, and `Δ² Σ_j ‖A_j‖²/s_j²/n` was minimized over `ln s = q1 τ + q2 τ²` elsewhere, by a random search in numpy.
    /// Equal entries have an error of 3.2089 (average), 615 (count) and 30 (step).
    #[test]
    fn diagonals_for_neighbouring_steps_are_the_best_of_their_kind() {
        let (steps, participation) = (40, Participation::repeated(30, 1).unwrap());
        for (text, least) in [("average", 2.002_493_742), ("count", 607.739_593), ("step", 30.0)] {
            let problem = Problem::new(text.parse().unwrap(), steps).unwrap();
            let problem = problem.with_participation(participation);
            let diagonal = with_band(&problem, vec![0.7], &mut unwatched).unwrap();
            let ratio = problem.error(&diagonal).unwrap() / least;
            assert!((1.0 - 1e-6..1.01).contains(&ratio), "{text}: {ratio}");
        }
    }

    #[test]
    fn the_fit_comes_close_to_the_dense_optimum() {
        // The optima are certified values of the dense program.
        let rows = [
            ("count", 64, 4.409_397_208),
            ("count", 256, 6.372_668_148),
            ("window:16", 128, 4.259_030_290),
            ("exp:1.1", 128, 2.156_712_598),
            ("window:250", 1024, 9.414_395),
        ];
        for (text, steps, optimum) in rows {
            let problem = Problem::new(text.parse().unwrap(), steps).unwrap();
            let strategy = scaled_sqrt(&problem, &mut unwatched).unwrap();
            let error = strategy.row_norms().unwrap().mean();
            let ratio = error / optimum;
            assert!((1.0..1.004).contains(&ratio), "{text} at {steps}: {ratio}");
        }
    }

    #[test]
    fn stretched_rows_keep_within_what_was_fitted() {
        let parameters = [-0.25, -0.46, -0.03, -0.07, 0.0, 0.0];
        let (short, long) = (row_scaling(&parameters, 8), stretched_rows(&parameters, 8, 4096));
        let inside = row_scaling(&parameters, 4096);
        assert_eq!(long[256..3840], inside[256..3840]);
        assert!(long[..256].iter().all(|row| (row - short[0]).abs() < 1e-12));
        assert!(long[3840..].iter().all(|row| (row - short[7]).abs() < 1e-12));
        // Otherwise the last row is far from all that were fitted.
        assert!(inside[4095] < 0.2 * short.iter().copied().fold(f64::INFINITY, f64::min));
        assert_eq!(stretched_rows(&parameters, 4096, 4096), inside);
    }

    #[test]
    fn the_scaling_lowers_the_error_of_its_banded_core() {
        let participation = Participation::repeated(4, 25).unwrap();
        for text in ["count", "momentum:0.9", "average"] {
            let problem = Problem::new(text.parse().unwrap(), 100).unwrap().with_participation(participation);
            let error = |strategy: &ToeplitzStrategy| {
                strategy.sensitivity(participation).unwrap().squared * strategy.row_norms().unwrap().mean()
            };
            let scaled = scaled_sqrt(&problem, &mut unwatched).unwrap();
            let toeplitz = super::super::banded::banded(&problem, &mut unwatched).unwrap();
            let normalized = normalized_sqrt(&problem).unwrap();
            assert!(
                error(&scaled) < 0.99 * error(&toeplitz),
                "{text}: {} {}",
                error(&scaled),
                error(&toeplitz)
            );
            assert!(error(&scaled) < error(&normalized), "{text}: {}", error(&normalized));
            assert!(scaled.sensitivity(participation).unwrap().exact, "{text}");
        }
    }

    #[test]
    fn quadrature_counts_every_column_once() {
        for steps in [1, 2, 100, 257, 1000, 16_384] {
            for kinks in [vec![], vec![steps / 3, steps - 1]] {
                let total: f64 = quadrature(steps, kinks.into_iter()).iter().map(|(_, weight)| weight).sum();
                assert!((total - steps as f64).abs() < 1e-6, "{steps}: {total}");
            }
        }
    }
}
