//! The scaled BLT: row scaling and normalized columns around a rational core.
//!
//! `C = D1 · T · D2` as in [`super::scaled`], with T a rational operator of a few buffers in place of the square root.
//! Columns are normalized by D2, so T need not decay towards the end of the stream to keep its first column short; a BLT
//! fitted to *twice* the horizon is the right core. For the count five buffers come within 0.15% of the dense optimum at
//! n = 4096 — closer than the full square root with the same scaling — and a step costs five multiplications and additions
//! per coordinate. Fitted to the largest error instead, all rows become nearly equal: within 0.6% of what nothing can beat at
//! every length from 2^10 to 10^8 steps.
//!
//! Windows have a ring of their width beside the buffers (the module `windowed`), which remembers what the window lets go of. That is
//! within 1 % of what nothing can beat at every share of horizons up to 2^20 steps.
//!
//! Norms are exact for any horizon by the recursions of the state space, O(n k²); those of a ring by tables.
//!
//! Under repeated participation the core is the BLT fitted to it, and both diagonals fall in time: nothing in C increases,
//! so that the worst set of steps is known ([`crate::sensitivity`]) and the sensitivity exact in O(n) for each
//! participation. The early columns, which serve more releases, are measured better than the late ones: this gains
//! little for the count, and several percent for momentum.

use dp_linalg::minimize::{self, Options};
use dp_linalg::rational::Rational;

use super::scaled::{self, Parameters, row_scaling};
use super::toeplitz::{
    Core, Scaling, ToeplitzStrategy, column_norms, for_each_row_norm, has_recurrence, rough_row_norms,
};
use super::{Progress, Watch, blt, least, tell, windowed};
use crate::error::Result;
use crate::problem::{Metric, Problem, Statistic};
use crate::sensitivity::{self, Participation};
use crate::workload::{Recurrence, Workload};

/// The longest horizon at which a row scaling is fitted; it drifts slowly with the horizon.
const FIT_LIMIT: usize = 1 << 11;

/// The longest horizon at which falling diagonals are fitted for several participations: two numbers that hardly depend on it.
const REPEATED_LIMIT: usize = 1 << 9;

/// Up to this many steps normalized columns are considered for several participations.
const GRAM_LIMIT: usize = 1 << 9;

/// Windows are not made shorter than that for a fit of rows, which hardly matter where a window is a small part of the horizon.
const SHORTEST_WINDOW: usize = 16;

/// The row scaling of the count for `n = 2^4, 2^6, …` steps, fitted to the mean squared error at that very length.
const COUNT_MEAN: &[Parameters] = &[
    [0.3470, 0.4069, 0.0351, 0.0048, 0.0, 0.0],
    [0.3270, 0.3907, 0.0297, -0.0020, 0.0, 0.0],
    [0.2977, 0.3552, 0.0247, -0.0089, 0.0, 0.0],
    [0.2683, 0.3111, 0.0206, -0.0162, 0.0, 0.0],
    [0.2389, 0.2658, 0.0170, -0.0236, 0.0, 0.0],
    [0.2105, 0.2205, 0.0139, -0.0314, 0.0, 0.0],
    [0.1861, 0.1744, 0.0114, -0.0397, 0.0, 0.0],
    [0.1675, 0.1439, 0.0096, -0.0448, 0.0, 0.0],
    [0.1496, 0.1116, 0.0081, -0.0509, 0.0, 0.0],
    [0.1348, 0.0812, 0.0068, -0.0565, 0.0, 0.0],
    [0.1217, 0.0572, 0.0058, -0.0611, 0.0, 0.0],
];

/// The same for the average, whose error all comes from the first steps.
const AVERAGE_MEAN: &[Parameters] = &[
    [-0.9317, 0.1771, -0.0533, -0.0361, 0.0, 0.0],
    [-1.0315, 0.0482, -0.0478, -0.0657, 0.0, 0.0],
    [-1.0807, -0.1231, -0.0406, -0.1109, 0.0, 0.0],
    [-1.0814, -0.1231, -0.0323, -0.1108, 0.0, 0.0],
    [-1.0818, -0.1231, -0.0266, -0.1108, 0.0, 0.0],
    [-1.1387, -0.1250, -0.0258, -0.1099, 0.0, 0.0],
    [-1.1388, -0.1250, -0.0223, -0.1099, 0.0, 0.0],
    [-1.2427, -0.1257, -0.0241, -0.1097, 0.0, 0.0],
    [-1.2428, -0.1257, -0.0215, -0.1097, 0.0, 0.0],
    [-1.2429, -0.1257, -0.0194, -0.1097, 0.0, 0.0],
    [-1.4396, -0.1257, -0.0240, -0.1097, 0.0, 0.0],
];

/// That of the count, fitted to the largest squared error.
const COUNT_MAX: &[Parameters] = &[
    [0.46403, 0.22999, 0.07560, -0.00075, 0.00718, -0.00317],
    [0.46665, 0.27378, 0.07524, -0.00350, 0.00630, -0.00272],
    [0.38831, 0.25948, 0.04510, -0.01184, 0.00192, -0.00254],
    [0.39552, 0.28551, 0.04868, -0.00813, 0.00211, -0.00174],
    [0.38873, 0.29293, 0.04801, -0.00917, 0.00202, -0.00170],
    [0.38588, 0.30803, 0.04788, -0.00648, 0.00198, -0.00128],
    [0.37356, 0.30001, 0.04563, -0.01095, 0.00182, -0.00170],
    [0.35879, 0.28880, 0.04250, -0.01590, 0.00161, -0.00220],
    [0.34614, 0.28429, 0.03984, -0.01801, 0.00144, -0.00237],
    [0.33426, 0.27706, 0.03718, -0.01980, 0.00128, -0.00237],
    [0.32270, 0.27690, 0.03467, -0.01872, 0.00113, -0.00204],
    [0.31043, 0.27763, 0.03207, -0.01743, 0.00100, -0.00176],
    [0.30016, 0.28552, 0.02989, -0.01334, 0.00089, -0.00119],
];

/// The binary logarithm of the first tabulated horizon, and the distance to the next.
const TABLE_FROM: f64 = 4.0;
const TABLE_SPACING: f64 = 2.0;

/// A rational core for twice the horizon, fitted rows, normalized columns; the default number of buffers. For several
/// participations the fitted BLT with diagonals that fall in time, or the normalized one with a bounded sensitivity where that
/// is better.
///
/// # Complexity
/// Milliseconds for the roots; the rows are tabulated for count and average, and take a hundred evaluations of
/// O(k²) at each of up to 2048 steps otherwise; for longer momentum, whose memory does not grow with the horizon, of
/// O(k² log n) at each of some hundred rows. For several participations some hundred evaluations of about n² operations at up
/// to 512 steps.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the fit.
///
/// # Example
/// ```
/// use dp_mechanisms::strategy::{Strategy, scaled_blt, unwatched};
/// use dp_mechanisms::{Problem, Workload};
/// let strategy = scaled_blt::scaled_blt(&Problem::new(Workload::count(), 4096)?, &mut unwatched)?;
/// // The certified optimum over all strategies is 11.4906; the square root has 12.61.
/// assert!(strategy.row_norms()?.mean() < 11.51);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn scaled_blt(problem: &Problem, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let (workload, steps, times) = (problem.workload(), problem.steps(), problem.times());
    let buffers = blt::default_buffers(steps);
    if times <= 1 {
        let buffers = window(problem).map_or(buffers, windowed::default_buffers);
        return with_buffers(problem, buffers, watch);
    }
    let core = blt::fit(problem, buffers, watch)?;
    // Long horizons are fitted at a smaller scale: fewer steps, less far apart.
    let length = steps.min(REPEATED_LIMIT);
    let separation = (problem.participation().separation() * length).div_ceil(steps);
    let shorter = Participation::repeated(times, separation)?;
    let small = if length < steps {
        blt::fit(&problem.with_steps(length).with_participation(shorter), buffers, watch)?
    } else {
        core.clone()
    };
    let coefficients = small.coefficients(length);
    let candidate = |parameters: &[f64]| {
        let (rows, columns) = falling(parameters, length);
        let usable = rows.iter().chain(&columns).all(|value| *value > 0.0 && value.is_finite());
        usable.then(|| {
            let squared = sensitivity::non_increasing(&coefficients, &rows, &columns, shorter).squared;
            let inverted = columns.iter().map(|column| 1.0 / column).collect();
            (Scaling::of_diagonals(rows, inverted), squared)
        })
    };
    let inverse = small.inverse()?.coefficients(length);
    let columns = scaled::all_columns(length);
    let parameters =
        scaled::minimize_error(problem.statistics(), &inverse, &columns, vec![0.25; 2], candidate, watch)?;
    let (rows, columns) = falling(&parameters, steps);
    let plain = ToeplitzStrategy::plain("scaled-blt", workload, steps, Core::Rational(core.clone()))?;
    let core = Core::Rational(core);
    let falling = ToeplitzStrategy::non_increasing("scaled-blt", workload, steps, core, rows, columns)?;
    // Columns that meet are bounded by a Gram matrix, which takes minutes at thousands of steps and hardly ever wins there.
    let normalized = (steps <= GRAM_LIMIT).then(|| with_buffers(problem, buffers, watch)).transpose()?;
    let candidates = [Some(plain.clone()), falling, normalized].into_iter().flatten();
    Ok(least(candidates, problem)?.unwrap_or(plain))
}

/// Diagonals of D1 and D2 that do not increase: `e^{-p1² τ}` and `e^{-p2² τ}`.
fn falling(parameters: &[f64], steps: usize) -> (Vec<f64>, Vec<f64>) {
    let diagonal = |rate: f64| -> Vec<f64> {
        let mut last = f64::INFINITY;
        (0..steps)
            .map(|t| {
                // Rounding may not raise what the formula lowers.
                last = last.min((-rate * rate * (t as f64 + 0.5) / steps as f64).exp());
                last
            })
            .collect()
    };
    (diagonal(parameters[0]), diagonal(parameters[1]))
}

/// [`scaled_blt`] for one participation, with a given number of buffers.
///
/// # Errors
/// Zero buffers, or as [`scaled_blt`].
pub fn with_buffers(problem: &Problem, buffers: usize, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let (workload, steps) = (problem.workload(), problem.steps());
    if let (Some(width), 1) = (window(problem), problem.times()) {
        return with_ring(problem, width, buffers, watch);
    }
    let core = core(problem, buffers, watch)?;
    let alone = match problem.statistics() {
        [one] => Some(one.workload()),
        _ => None,
    };
    let parameters = match (alone, problem.metric()) {
        (Some(one), Metric::Mse) if one.is_count() => tabulated(COUNT_MEAN, steps),
        (Some(one), Metric::Max) if one.is_count() => tabulated(COUNT_MAX, steps),
        (Some(one), Metric::Mse) if one.is_average() => tabulated(AVERAGE_MEAN, steps),
        // The memory of momentum has a length in steps, and not in shares of the horizon.
        (Some(one), metric) if steps > FIT_LIMIT && has_constant_momentum(one) => {
            fit_long(one, steps, metric, &core, watch)?
        }
        _ => fit(&problem.with_steps(steps.min(FIT_LIMIT)), buffers, watch)?,
    };
    let log_row = |step: usize| scaled::log_row(&parameters, step, steps);
    ToeplitzStrategy::smooth("scaled-blt", workload, steps, core, log_row)
}

/// The width of the only statistic, if it is a window that lets go of inputs before the horizon.
fn window(problem: &Problem) -> Option<usize> {
    match problem.statistics() {
        [one] => match one.workload().recurrence() {
            Recurrence::Window { width } if (2..problem.steps()).contains(&width) => Some(width),
            _ => None,
        },
        _ => None,
    }
}

/// A window for one participation: buffers and a ring, and for the mean rows that are fitted to as many windows, beyond
/// [`FIT_LIMIT`] at that length.
fn with_ring(
    problem: &Problem,
    width: usize,
    buffers: usize,
    watch: &mut Watch<'_>,
) -> Result<ToeplitzStrategy> {
    let (workload, steps) = (problem.workload(), problem.steps());
    let core = windowed::fit(width, 2 * steps, buffers, watch)?;
    let parameters = if problem.metric() == Metric::Max {
        // Rows that lower the mean raise the largest one.
        [0.0; 6]
    } else if steps <= FIT_LIMIT {
        scaled::fit(problem.statistics(), steps, &core, watch)?
    } else {
        let share = FIT_LIMIT as f64 / steps as f64;
        let short = ((width as f64 * share).round() as usize).max(width.min(SHORTEST_WINDOW));
        let statistic = Statistic::new(Workload::window(short)?, 1.0)?;
        let core = windowed::fit(short, 2 * FIT_LIMIT, buffers, watch)?;
        scaled::fit(&[statistic], FIT_LIMIT, &core, watch)?
    };
    let rows = scaled::stretched_rows(&parameters, FIT_LIMIT, steps);
    ToeplitzStrategy::normalized("scaled-blt", workload, steps, core, rows)
}

fn core(problem: &Problem, buffers: usize, watch: &mut Watch<'_>) -> Result<Rational> {
    let once = problem.with_steps(2 * problem.steps()).with_participation(Participation::Single);
    let once = once.with_metric(Metric::Mse);
    // Row scaling makes the average of the count; the core need not do it once more.
    let core_of = match problem.statistics() {
        [one] if one.workload().is_average() => Problem::new(Workload::count(), once.steps())?,
        _ => once,
    };
    blt::fit(&core_of, buffers, watch)
}

/// A tabulated row scaling, linear in the logarithm of the horizon between the tabulated ones and beyond.
fn tabulated(table: &[Parameters], steps: usize) -> Parameters {
    let position = (((steps as f64).log2() - TABLE_FROM) / TABLE_SPACING).max(0.0);
    let index = (position as usize).min(table.len() - 2);
    let share = position - index as f64;
    std::array::from_fn(|i| table[index][i] + share * (table[index + 1][i] - table[index][i]))
}

/// The parameters that minimize the metric, starting from those of the count.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the fit.
fn fit(problem: &Problem, buffers: usize, watch: &mut Watch<'_>) -> Result<Parameters> {
    let (steps, metric) = (problem.steps(), problem.metric());
    if steps < 2 {
        return Ok([0.0; 6]);
    }
    let core = core(problem, buffers, watch)?;
    let workload = match problem.statistics() {
        [one] if has_recurrence(one.workload()) => one.workload(),
        statistics => return scaled::fit(statistics, steps, &Core::Rational(core), watch),
    };
    let inverse = core.inverse()?;
    let every = |parameters: &Parameters| {
        let rows = row_scaling(parameters, steps);
        let usable = rows.iter().all(|row| *row > 0.0 && row.is_finite());
        usable.then(|| {
            let column_norms = column_norms(&core, &rows);
            let mut norms = Vec::with_capacity(steps);
            for_each_row_norm(workload, &inverse, &rows, &column_norms, |norm| norms.push((norm, 1.0)));
            norms
        })
    };
    minimize_power_means(steps, metric, every, watch)
}

/// Whether a workload is momentum with one rate for all steps.
fn has_constant_momentum(workload: &Workload) -> bool {
    matches!(workload.recurrence(), Recurrence::Second { .. }) && workload.constant_rate().is_some()
}

/// The parameters that make the error of momentum small at a long horizon, from a few hundred of its rows.
///
/// # Errors
/// As [`fit`].
fn fit_long(
    workload: &Workload,
    steps: usize,
    metric: Metric,
    core: &Rational,
    watch: &mut Watch<'_>,
) -> Result<Parameters> {
    let inverse = core.inverse()?;
    let some = |parameters: &Parameters| {
        let log_row = |step: usize| scaled::log_row(parameters, step, steps);
        rough_row_norms(workload, core, &inverse, log_row, steps)
    };
    minimize_power_means(steps, metric, some, watch)
}

/// The parameters that minimize the metric, given squared row norms by parameters and how many rows each of them stands for.
///
/// # Errors
/// A watch that stops the fit.
fn minimize_power_means(
    steps: usize,
    metric: Metric,
    row_norms: impl Fn(&Parameters) -> Option<Vec<(f64, f64)>>,
    watch: &mut Watch<'_>,
) -> Result<Parameters> {
    // The mean hardly needs the cubic terms, and is fitted without them. Each parameter is in units that move the first or
    // the last row about as far as any other.
    let free = if metric == Metric::Max { 6 } else { 4 };
    let range = (2.0 * steps as f64).ln();
    let scales: Parameters = [1, 1, 2, 2, 3, 3].map(|power| range.powi(power));
    let unscaled = |point: &[f64]| -> Parameters {
        std::array::from_fn(|index| point.get(index).map_or(0.0, |value| value / scales[index]))
    };
    // Squared norms in units of the scale, so that high powers stay within range.
    let power_mean = |parameters: &[f64], exponent: i32, scale: f64| -> f64 {
        let Some(norms) = row_norms(&unscaled(parameters)) else { return f64::INFINITY };
        let total: f64 = norms.iter().map(|(norm, count)| count * (norm / scale).powi(exponent)).sum();
        scale * (total / steps as f64).powf(1.0 / f64::from(exponent))
    };
    let start = match metric {
        Metric::Mse => COUNT_MEAN,
        Metric::Max => COUNT_MAX,
    };
    let start = tabulated(start, steps);
    let mut point: Vec<f64> = (0..free).map(|index| start[index] * scales[index]).collect();
    let mut scale = 1.0;
    for &exponent in metric.power_means() {
        let objective = |point: &[f64], gradient: &mut [f64]| {
            let evaluate = |point: &[f64]| -> Result<f64> {
                tell(watch, Progress::Evaluation)?;
                Ok(power_mean(point, exponent, scale))
            };
            minimize::numeric_gradient(evaluate, point, 1e-4, gradient)
        };
        let options = Options { iterations: 60, relative_decrease: 1e-8, memory: 8 };
        let minimum = minimize::lbfgs(objective, point, options)?;
        point = minimum.point;
        scale = minimum.value;
    }
    Ok(unscaled(&point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Strategy, unwatched};

    fn problem(workload: &Workload, steps: usize) -> Problem {
        Problem::new(workload.clone(), steps).unwrap()
    }

    fn built(problem: &Problem) -> ToeplitzStrategy {
        scaled_blt(problem, &mut unwatched).unwrap()
    }

    fn error(strategy: &dyn Strategy) -> f64 {
        strategy.sensitivity(Participation::Single).unwrap().squared * strategy.row_norms().unwrap().mean()
    }

    #[test]
    fn the_count_comes_close_to_the_dense_optimum() {
        // Certified values of the dense program.
        for (steps, optimum) in [
            (64, 4.409_397_208),
            (256, 6.372_668_148),
            (1024, 8.734_696),
            (2048, 10.063_582),
            (4096, 11.490_55),
        ] {
            let ratio = error(&built(&problem(&Workload::count(), steps))) / optimum;
            assert!((1.0..1.002).contains(&ratio), "{steps}: {ratio}");
        }
    }

    #[test]
    fn tabulated_scalings_are_as_good_as_fitted_ones() {
        let count = Workload::count();
        for steps in [16, 100, 256, 1024] {
            let buffers = blt::default_buffers(steps);
            let problem = problem(&count, steps);
            let fitted = fit(&problem, buffers, &mut unwatched).unwrap();
            let core = Core::Rational(core(&problem, buffers, &mut unwatched).unwrap());
            let best =
                ToeplitzStrategy::normalized("scaled-blt", &count, steps, core, row_scaling(&fitted, steps))
                    .unwrap();
            let table = built(&problem);
            let ratio = error(&table) / error(&best);
            assert!(ratio < 1.0 + 1e-4, "{steps}: {ratio}");
        }
    }

    #[test]
    fn every_length_comes_close_to_what_nothing_can_beat() {
        for text in ["count", "average"] {
            let workload: Workload = text.parse().unwrap();
            for steps in [3, 20, 100, 700, 3000, 30_000, 100_000, 600_000] {
                let bound = crate::certificate::banded_bound(&workload, steps).unwrap().unwrap().lower_bound;
                let ratio = error(&built(&problem(&workload, steps))) / bound;
                assert!((1.0..1.005).contains(&ratio), "{text} {steps}: {ratio}");
            }
        }
    }

    #[test]
    fn other_workloads_gain_as_well() {
        for text in ["exp:1.01", "average", "poly:0.5", "momentum:0.9"] {
            let problem = problem(&text.parse().unwrap(), 500);
            let plain = blt::blt(&problem, &mut unwatched).unwrap();
            let scaled = built(&problem);
            let (plain, scaled) = (error(&plain), error(&scaled));
            assert!(scaled < plain, "{text}: {scaled} {plain}");
        }
    }

    #[test]
    fn windows_come_close_to_what_nothing_can_beat() {
        for (width, steps) in [
            (2, 200),
            (8, 200),
            (50, 200),
            (140, 200),
            (194, 200),
            (32, 4096),
            (1000, 4096),
            (1 << 14, 1 << 16),
        ] {
            let problem = problem(&Workload::window(width).unwrap(), steps);
            let strategy = built(&problem);
            let buffers = strategy.memory(2) - strategy.memory(1) - width;
            assert!((1..=6).contains(&buffers), "{width} {steps}: {buffers}");
            let bound = crate::certificate::window_bound(width, steps, Metric::Mse).unwrap().unwrap();
            let ratio = error(&strategy) / bound.lower_bound;
            assert!((1.0..1.01).contains(&ratio), "{width} {steps}: {ratio}");
        }
    }

    #[test]
    fn the_largest_error_of_windows_is_that_of_normalized_columns() {
        for width in [16, 128] {
            let problem = problem(&Workload::window(width).unwrap(), 512).with_metric(Metric::Max);
            let whole = problem.error(&scaled::normalized_sqrt(&problem).unwrap()).unwrap();
            let ratio = problem.error(&built(&problem)).unwrap() / whole;
            assert!(ratio < 1.02, "{width}: {ratio}");
        }
    }

    #[test]
    fn falling_diagonals_improve_the_blt_under_repeated_participation() {
        let participation = Participation::repeated(4, 50).unwrap();
        for (text, share) in [("count", 1.0 + 1e-12), ("momentum:0.9", 0.99)] {
            let problem = problem(&text.parse().unwrap(), 200).with_participation(participation);
            let error = |strategy: &ToeplitzStrategy| {
                let sensitivity = strategy.sensitivity(participation).unwrap();
                assert!(sensitivity.exact, "{text}");
                sensitivity.squared * strategy.row_norms().unwrap().mean()
            };
            let plain = blt::blt(&problem, &mut unwatched).unwrap();
            let scaled = built(&problem);
            let (scaled, plain) = (error(&scaled), error(&plain));
            assert!(scaled < share * plain, "{text}: {scaled} {plain}");
        }
    }

    #[test]
    fn the_largest_error_of_the_count_is_within_a_hundredth_at_every_length() {
        for steps in [1 << 10, 3000, 1 << 14, 1 << 17, 1 << 20, 10_000_000, 1 << 24, 100_000_000] {
            let problem = problem(&Workload::count(), steps).with_metric(Metric::Max);
            let strategy = built(&problem);
            assert!(steps <= 1 << 16 || strategy.memory(1) < 20_000, "{steps}: {}", strategy.memory(1));
            let largest = problem.error(&strategy).unwrap();
            let bound =
                crate::certificate::long_bound(&Workload::count(), steps, Metric::Max).unwrap().unwrap();
            let ratio = largest / bound;
            assert!((1.0..1.0075).contains(&ratio), "{steps}: {largest} {bound} {ratio}");
        }
    }

    #[test]
    fn the_largest_error_of_momentum_is_within_about_a_hundredth_at_every_length() {
        for (beta, steps, limit) in
            [(0.5, 3000, 1.008), (0.9, 1 << 16, 1.008), (0.99, 2048, 1.014), (0.99, 1 << 20, 1.008)]
        {
            let workload = Workload::momentum(beta, &[1.0]).unwrap();
            let problem = problem(&workload, steps).with_metric(Metric::Max);
            let strategy = built(&problem);
            assert!(steps <= 1 << 16 || strategy.memory(1) < 20_000, "{steps}: {}", strategy.memory(1));
            let largest = problem.error(&strategy).unwrap();
            let bound = crate::certificate::long_bound(&workload, steps, Metric::Max).unwrap().unwrap();
            let ratio = largest / bound;
            assert!((1.0..limit).contains(&ratio), "{beta} {steps}: {largest} {bound} {ratio}");
        }
    }

    #[test]
    fn the_mean_error_of_momentum_is_close_to_the_bound_at_every_length() {
        for (beta, steps) in [(0.5, 3000), (0.9, 1 << 16), (0.99, 1 << 20), (0.9, 1 << 24)] {
            let problem = problem(&Workload::momentum(beta, &[1.0]).unwrap(), steps);
            let mean = problem.error(&built(&problem)).unwrap();
            let bound = crate::certificate::long_bound(problem.workload(), steps, Metric::Mse).unwrap();
            let ratio = mean / bound.unwrap();
            assert!((1.0..1.006).contains(&ratio), "{beta} {steps}: {mean} {ratio}");
        }
    }

    #[test]
    fn fitting_to_the_largest_row_lowers_it() {
        let largest_of = |metric| {
            let problem = problem(&Workload::count(), 256).with_metric(metric);
            built(&problem).row_norms().unwrap().max()
        };
        let (mean, largest) = (largest_of(Metric::Mse), largest_of(Metric::Max));
        // The optimum over all strategies is 6.415.
        assert!(largest < 6.47 && mean > 7.6, "{largest} {mean}");
    }
}
