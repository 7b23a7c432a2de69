//! Scaled Toeplitz cores for people who take part again and again: `C = D1 · T · D2` with sixteen parameters.
//!
//! Where participations can fill the horizon (`times · separation ≥ n`) the columns of one person are kept apart: T has as many bands as
//! the separation b, columns have norms that are the same in each block of b steps and fall from block to block, and where they
//! fall, at the beginning of a block, rows fall as well.
//!
//! Where they cannot, such bands throw most of the memory away: at 4:8 in 128 steps they cost a quarter more than columns that
//! overlap. What is best there has a core that falls as the square root does for lags below b, drops, and stays nearly level until
//! one person is through. Both are
//!
//! ```text
//! T_k = root_k · e^{q(k)}    q = a1 k/b + a2 (k/b)² + a3 ln(1-k/b) + a4 ln(1+k) for k < b,
//!                            q = a5 + a6 ln(k/b) + a7 k/n + a8 (k/n)² from b on
//! rows      ln d = p1 ln τ + p2 ln(1-τ) + r1 ln v + r2 ln² v + r3 ln(1-v) + r4 ln²(1-v)
//!                            τ = (t-½)/n, and v = (i+½)/b for the i-th step of a block
//! columns   ln s = q1 τ + q2 τ²
//! ```
//!
//! the first without any `T_k` beyond the bands and τ of the columns in the middle of the block, the second without r. These numbers speak of
//! shares of the horizon and of the separation, so that they are fitted at a small scale, by the slopes of the dense program
//! ([`super::optimal`]), and serve any horizon. They come within two or three percent of the dense optimum.
//!
//! Whatever they are, the sensitivity is that of the heaviest blocks, or of the Gram matrix of C: the fit can cost accuracy, never
//! privacy.

use dp_linalg::minimize::{self, Options};
use ndarray::{Array2, ArrayView2};

use super::optimal::{self, Chains, LogError, log_error};
use super::scaled::{block_lengths, block_rows, shortened};
use super::toeplitz::{Core, ToeplitzStrategy, root_coefficients};
use super::{Progress, Watch, tell};
use crate::error::Result;
use crate::problem::{Metric, Problem, Statistic};
use crate::sensitivity::{DENSE_LIMIT, Participation};
use crate::workload::Recurrence;

/// Fewer steps leave nothing to fit.
const FEWEST_STEPS: usize = 8;

/// The horizons of a fit at most, how sharply the heaviest set is chosen there, and the iterations for it.
const STAGES: [(usize, f64, usize); 3] = [(128, 200.0, 60), (128, 1000.0, 60), (256, 2000.0, 40)];

/// The last stage where a statistic has a memory of its own, as momentum has, which is not the same share of a shorter horizon.
const OWN_MEMORY: (usize, f64, usize) = (512, 2000.0, 30);

/// The rows' p1, p2, r1 … r4, the columns' q1, q2, the core's a1 … a8: where a count with a few participations ends, about.
const START: [f64; PARAMETERS] =
    [0.0, 0.7, 0.0, 0.0, 0.0, 0.0, 0.1, 0.05, 0.95, -0.7, 0.0, 0.0, -1.5, 0.5, 2.1, -1.9];

/// How many there are, and where those of the columns and of the core begin.
const PARAMETERS: usize = 16;
const COLUMNS: usize = 6;
const LAGS: usize = 8;

/// The strategy for a problem with several participations; nothing where there are too few steps to fit anything, or too many
/// for a Gram matrix where one is needed.
///
/// # Complexity
/// A hundred evaluations or two of the dense program at up to 128 steps, and some dozen at up to 256, of momentum at up to 512.
///
/// # Errors
/// Weights whose series has no square root, or a watch that stops the fit.
pub(super) fn repeated(
    name: &'static str,
    problem: &Problem,
    watch: &mut Watch<'_>,
) -> Result<Option<ToeplitzStrategy>> {
    let steps = problem.steps();
    let family = Family::of(problem);
    if problem.times() <= 1 || steps < FEWEST_STEPS || (!family.apart && steps > DENSE_LIMIT) {
        return Ok(None);
    }
    let parameters = fit(problem, watch)?;
    let Tables { mut core, rows, lengths } =
        family.tables(&parameters, &root_coefficients(problem.statistics(), steps)?);
    // Parameters that overflow far from the scale of the fit are no candidate, nor are cores whose inverse has no digits.
    let usable = |values: &[f64]| values.iter().all(|value| value.is_finite() && *value > 0.0);
    if !usable(&rows) || !usable(&lengths) || core.iter().any(|value| !value.is_finite()) {
        return Ok(None);
    }
    let core = if family.apart {
        core.truncate(family.separation);
        Core::Banded(core)
    } else if let Ok(core) = Core::full(core) {
        core
    } else {
        return Ok(None);
    };
    Ok(ToeplitzStrategy::of_lengths(name, problem.workload(), steps, core, rows, lengths).ok())
}

/// The parameters of least error at scales at which the dense program is cheap.
fn fit(problem: &Problem, watch: &mut Watch<'_>) -> Result<Vec<f64>> {
    let metric = if problem.is_joint() { Metric::Mse } else { problem.metric() };
    let exponents = metric.power_means();
    let own = |one: &Statistic| matches!(one.workload().recurrence(), Recurrence::Second { .. });
    let last = if problem.statistics().iter().any(own) { OWN_MEMORY } else { STAGES[STAGES.len() - 1] };
    let soft = STAGES[..STAGES.len() - 1].iter().map(|stage| (*stage, exponents[0]));
    let rising = exponents.iter().map(|exponent| (last, *exponent));
    let mut point = START.to_vec();
    for ((length, sharpness, iterations), exponent) in soft.chain(rising) {
        let small = small_scale(problem, length)?;
        let target = optimal::target(&small)?;
        let program = Program::new(target.view(), &small, Family::of(problem).apart)?;
        let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
            tell(watch, Progress::Evaluation)?;
            Ok(program.evaluate(point, (exponent, sharpness), gradient).unwrap_or(f64::NAN))
        };
        let options = Options { iterations, relative_decrease: 1e-6, memory: 12 };
        point = minimize::lbfgs(objective, point, options)?.point;
    }
    Ok(point)
}

/// The same shares of the horizon in fewer steps. Where participations would be less than a step apart, they stay neighbours,
/// and are as many as may fill a quarter of the horizon.
fn small_scale(problem: &Problem, length: usize) -> Result<Problem> {
    let (steps, times) = (problem.steps(), problem.times());
    let length = steps.min(length);
    let apart = problem.participation().separation() as f64 * (length as f64 / steps as f64);
    let participation = if Family::of(problem).apart {
        // Rounded up, they still fill it.
        Participation::repeated(times, apart.ceil() as usize)?
    } else if apart >= 1.0 {
        Participation::repeated(times, apart as usize)?
    } else {
        Participation::repeated(times.min(length / 4).max(2), 1)?
    };
    let small = match shortened(problem.statistics(), steps, length)? {
        Some(statistics) => Problem::joint(statistics, length)?,
        None => problem.with_steps(length),
    };
    Ok(small.with_participation(participation))
}

/// What the parameters are read with.
#[derive(Debug, Clone, Copy)]
struct Family {
    separation: usize,
    /// Whether the columns of one person are kept apart.
    apart: bool,
}

/// The diagonals and the core that parameters stand for.
struct Tables {
    core: Vec<f64>,
    rows: Vec<f64>,
    lengths: Vec<f64>,
}

impl Family {
    fn of(problem: &Problem) -> Self {
        Self { separation: problem.participation().separation(), apart: problem.fills_horizon() }
    }

    /// The steps that share the norm of their columns.
    fn block(self) -> usize {
        if self.apart { self.separation } else { 1 }
    }

    fn tables(self, parameters: &[f64], root: &[f64]) -> Tables {
        let steps = root.len();
        let modulated = |(lag, value): (usize, &f64)| {
            if self.apart && lag >= self.separation {
                return 0.0;
            }
            let slopes = self.lag_slopes(lag, steps);
            let exponent: f64 = slopes.iter().zip(&parameters[LAGS..]).map(|(slope, a)| slope * a).sum();
            value / root[0] * exponent.exp()
        };
        let in_block = [2, 3, 4, 5].map(|index: usize| parameters[index]);
        Tables {
            core: root.iter().enumerate().map(modulated).collect(),
            rows: block_rows(&[parameters[0], parameters[1], 0.0, 0.0], in_block, steps, self.block()),
            lengths: block_lengths(&parameters[COLUMNS..LAGS], steps, self.block()),
        }
    }

    /// What multiplies each of a1 … a8 at a lag.
    fn lag_slopes(self, lag: usize, steps: usize) -> [f64; 8] {
        let (of_separation, of_horizon) = (lag as f64 / self.separation as f64, lag as f64 / steps as f64);
        let mut slopes = [0.0; 8];
        let (near, far) = slopes.split_at_mut(4);
        if lag < self.separation {
            let (left, steps) = ((-of_separation).ln_1p(), (lag as f64).ln_1p());
            near.copy_from_slice(&[of_separation, of_separation * of_separation, left, steps]);
        } else {
            far.copy_from_slice(&[1.0, of_separation.ln(), of_horizon, of_horizon * of_horizon]);
        }
        slopes
    }
}

/// The error as a function of the parameters.
struct Program<'a> {
    target: ArrayView2<'a, f64>,
    root: Vec<f64>,
    chains: Chains,
    family: Family,
}

impl<'a> Program<'a> {
    fn new(target: ArrayView2<'a, f64>, problem: &Problem, apart: bool) -> Result<Self> {
        let (steps, separation) = (problem.steps(), problem.participation().separation());
        let bands = if apart { separation.min(steps) } else { steps };
        let chains = Chains { times: problem.times(), separation, bands };
        let root = root_coefficients(problem.statistics(), steps)?;
        Ok(Self { target, root, chains, family: Family { separation, apart } })
    }

    /// The logarithm of the error, and its gradient.
    fn evaluate(&self, point: &[f64], smoothness: (i32, f64), gradient: &mut [f64]) -> Result<f64> {
        let steps = self.root.len();
        let Tables { core, rows, lengths } = self.family.tables(point, &self.root);
        let entry = |(i, j): (usize, usize)| if i < j { 0.0 } else { core[i - j] * rows[i] };
        let mut strategy = Array2::from_shape_fn((steps, steps), entry);
        for (mut column, length) in strategy.columns_mut().into_iter().zip(&lengths) {
            let norm = column.dot(&column).sqrt();
            column *= length / norm;
        }
        let LogError { value, slopes, .. } =
            log_error(self.target, strategy.view(), self.chains, smoothness)?;
        // By the logarithms of rows, lengths and coefficients; a change of a whole column is one of its length alone.
        let (mut by_row, mut by_length, mut by_lag) = (vec![0.0; steps], vec![0.0; steps], vec![0.0; steps]);
        for j in 0..steps {
            let along: f64 = (j..steps).map(|i| slopes[[i, j]] * strategy[[i, j]]).sum();
            by_length[j] = along;
            let share = along / (lengths[j] * lengths[j]);
            for i in j..steps {
                let entry = strategy[[i, j]];
                let change = entry * (slopes[[i, j]] - entry * share);
                by_row[i] += change;
                by_lag[i - j] += change;
            }
        }
        gradient.fill(0.0);
        let block = self.family.block();
        for (index, ((row, length), lag)) in by_row.iter().zip(&by_length).zip(&by_lag).enumerate() {
            let time = (index as f64 + 0.5) / steps as f64;
            let place = ((index % block) as f64 + 0.5) / block as f64;
            let (early, late) = (place.ln(), (1.0 - place).ln());
            let middle = ((index / block) as f64 + 0.5) * block as f64 / steps as f64;
            let of_rows = [time.ln(), (1.0 - time).ln(), early, early * early, late, late * late];
            let of_columns = [middle, middle * middle];
            let of_lags = self.family.lag_slopes(index, steps);
            let mut add = |from: usize, factor: f64, slopes: &[f64]| {
                gradient[from..].iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += factor * slope);
            };
            add(0, *row, &of_rows);
            add(COLUMNS, *length, &of_columns);
            add(LAGS, *lag, &of_lags);
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::strategy::{Method, Strategy, unwatched};
    use approx::assert_relative_eq;

    fn problem(text: &str, steps: usize, times: usize, separation: usize) -> Problem {
        let participation = Participation::repeated(times, separation).unwrap();
        Problem::new(text.parse().unwrap(), steps).unwrap().with_participation(participation)
    }

    fn built(problem: &Problem) -> ToeplitzStrategy {
        repeated("repeated", problem, &mut unwatched).unwrap().unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        for (text, times, separation, exponent) in
            [("count", 3, 3, 1), ("momentum:0.5", 2, 4, 16), ("average", 4, 1, 1), ("count", 5, 3, 1)]
        {
            let problem = problem(text, 13, times, separation);
            let target = optimal::target(&problem).unwrap();
            let program = Program::new(target.view(), &problem, Family::of(&problem).apart).unwrap();
            let mut point = START;
            point.iter_mut().enumerate().for_each(|(index, value)| *value += 0.1 * (index % 3) as f64);
            let mut gradients = [[0.0; PARAMETERS]; 3];
            let [exact, numeric, scratch] = &mut gradients;
            program.evaluate(&point, (exponent, 20.0), exact).unwrap();
            let function = |point: &[f64]| program.evaluate(point, (exponent, 20.0), scratch);
            minimize::numeric_gradient(function, &point, 1e-5, numeric).unwrap();
            for (a, b) in exact.iter().zip(numeric.iter()) {
                assert_relative_eq!(a, b, epsilon = 1e-6, max_relative = 1e-5);
            }
        }
    }

    /// The dense optimum of these problems is certified to a percent or two.
    #[test]
    fn it_comes_within_a_few_percent_of_the_dense_optimum() {
        for (text, times, separation) in
            [("count", 4, 6), ("count", 2, 12), ("count", 3, 1), ("count", 4, 16)]
        {
            let problem = problem(text, 64, times, separation);
            let optimal = problem.error(Method::Optimal.build(&problem).unwrap().as_ref()).unwrap();
            let ratio = problem.error(&built(&problem)).unwrap() / optimal;
            assert!(ratio < 1.03, "{text} {times}:{separation}: {ratio}");
        }
    }

    /// Found by trying all sets.
    #[test]
    fn the_sensitivity_is_never_below_the_worst_set() {
        for (steps, times, separation) in
            [(16, 2, 2), (16, 3, 2), (15, 4, 3), (14, 2, 6), (14, 2, 7), (13, 5, 3)]
        {
            let problem = problem("count", steps, times, separation);
            let strategy = built(&problem);
            let matrix = strategy.materialize().unwrap().strategy;
            for participation in [problem.participation(), Participation::repeated(3, 1).unwrap()] {
                let stated = strategy.sensitivity(participation).unwrap().squared;
                let attained = conformance::worst_set(&matrix, participation);
                assert!(
                    stated >= attained && stated < 1.1 * attained,
                    "{steps} {times}:{separation}, {participation}: {stated} {attained}"
                );
            }
        }
    }
}
