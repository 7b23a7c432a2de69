//! Buffered linear Toeplitz strategies: rational generating functions with a few poles, optimized.
//!
//! `c(x) = Π_j (1 - θ̂_j x) / Π_j (1 - θ_j x)` with interlacing roots `1 > θ_1 > θ̂_1 > θ_2 > θ̂_2 > … > 0`. All weights of
//! its partial fractions are then positive, so the coefficients are positive and do not increase, and the inverse swaps
//! the two sets of roots. The noise streams with k buffers per coordinate.
//!
//! The roots minimize `Δ² · ‖B‖_F²/n` or `Δ² · max_t ‖b_t‖²` under the participation at hand. With the roots known, the
//! decoder `b = a/c` is a sum of k+1 geometric sequences with positive weights, and both norms are quadratic forms in closed
//! sums of powers: an evaluation costs O(k²) for the count, exponential decay and windows, and O(n k) for other workloads.

use dp_linalg::minimize::{self, Options};
use dp_linalg::rational::{Mode, Rational, Sum, sum_of_squares};

use super::row_norms::Geometric;
use super::toeplitz::{Core, ToeplitzStrategy};
use super::{Progress, Watch, tell};
use crate::error::{Result, check_count};
use crate::problem::{Metric, Problem, Statistic};
use crate::workload::{Recurrence, Workload};

/// The longest horizon to which roots are fitted where an evaluation walks through the series.
const SERIES_LIMIT: usize = 1 << 13;

/// Relative distance of gaps at which a pole and a zero are taken to cancel.
const COINCIDENT: f64 = 1e-4;

/// The most buffers chosen by default.
const MAX_BUFFERS: usize = 8;

/// The number of buffers that brings the error within about half a percent of that of the best Toeplitz strategy.
pub fn default_buffers(steps: usize) -> usize {
    (steps.max(2).ilog2() as usize / 3 + 1).clamp(1, MAX_BUFFERS)
}

/// The optimized strategy with the default number of buffers.
///
/// # Complexity
/// The fit takes milliseconds for the count, exponential decay and windows, whatever the horizon.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the fit.
///
/// # Example
/// ```
/// use dp_mechanisms::strategy::{Strategy, blt, unwatched};
/// use dp_mechanisms::{Participation, Problem, Workload};
/// let strategy = blt::blt(&Problem::new(Workload::count(), 1024)?, &mut unwatched)?;
/// let sensitivity = strategy.sensitivity(Participation::Single)?;
/// // The square root has 9.67.
/// assert!(sensitivity.squared * strategy.row_norms()?.mean() < 9.36);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn blt(problem: &Problem, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let (workload, steps) = (problem.workload(), problem.steps());
    let core = fit(problem, default_buffers(steps), watch)?;
    ToeplitzStrategy::plain("blt", workload, steps, Core::Rational(core))
}

/// The best rational core with the given number of buffers, or with fewer where more do not help.
///
/// # Errors
/// Zero buffers, what the numeric core refuses, or a watch that stops the fit.
pub fn fit(problem: &Problem, buffers: usize, watch: &mut Watch<'_>) -> Result<Rational> {
    check_count("buffers", buffers)?;
    let fit = Fit::new(problem)?;
    let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
        tell(watch, Progress::Evaluation)?;
        minimize::numeric_gradient(|point| Ok(fit.error(point)), point, 1e-5, gradient)
    };
    let options = Options { iterations: 400, relative_decrease: 1e-11, memory: 16 };
    let minimum = minimize::lbfgs(objective, fit.start(buffers), options)?;
    Roots::at(&minimum.point, fit.floor).simplified().rational()
}

/// Roots to start from for a memory of so many steps, as [`Roots::at`] takes them: spread evenly in log-odds between one over the memory
/// and one.
pub(super) fn spread(memory: usize, buffers: usize) -> Vec<f64> {
    between(0.5 - (memory as f64).ln(), buffers)
}

/// Roots spread evenly between the log-odds of the first and ½.
fn between(first: f64, buffers: usize) -> Vec<f64> {
    let spacing = (0.5 - first).max(1.0) / (2 * buffers) as f64;
    let mut point = vec![spacing.ln(); 2 * buffers];
    point[0] = first;
    point
}

/// The gaps `1 - θ_j` of the poles of c and `1 - θ̂_j` of its zeros.
pub(super) struct Roots {
    pub(super) poles: Vec<f64>,
    pub(super) zeros: Vec<f64>,
}

impl Roots {
    /// Interlacing roots from free parameters: the log-odds of all gaps in increasing order, the first as it is and then
    /// the logarithms of their differences. Gaps lie between `floor` and 1.
    pub(super) fn at(parameters: &[f64], floor: f64) -> Self {
        let mut odds = 0.0;
        let gaps: Vec<f64> = parameters
            .iter()
            .enumerate()
            .map(|(index, parameter)| {
                odds += if index == 0 { *parameter } else { parameter.exp() };
                floor + (1.0 - floor) / (1.0 + (-odds).exp())
            })
            .collect();
        Self::alternating(&gaps)
    }

    /// Poles and zeros in turn.
    fn alternating(gaps: &[f64]) -> Self {
        Self {
            poles: gaps.iter().copied().step_by(2).collect(),
            zeros: gaps.iter().copied().skip(1).step_by(2).collect(),
        }
    }

    /// The same function, up to [`COINCIDENT`], without the neighbouring poles and zeros that cancel: more buffers than the
    /// optimum can use end in such pairs, whose fractions would lose their digits.
    pub(super) fn simplified(&self) -> Self {
        let mut gaps: Vec<f64> =
            self.poles.iter().zip(&self.zeros).flat_map(|(pole, zero)| [*pole, *zero]).collect();
        while gaps.len() > 2
            && let Some(index) = gaps.windows(2).position(|pair| pair[1] - pair[0] < COINCIDENT * pair[1])
        {
            gaps.drain(index..index + 2);
        }
        Self::alternating(&gaps)
    }

    pub(super) fn rational(&self) -> Result<Rational> {
        let theta = |gaps: &[f64]| gaps.iter().map(|gap| 1.0 - gap).collect::<Vec<f64>>();
        Ok(Rational::from_roots(&theta(&self.poles), &theta(&self.zeros))?)
    }

    /// `c_{j+1} = Σ_i ω_i (1-γ_i)^j`, `ω_i = Π_j (θ_i - θ̂_j) / Π_{l≠i} (θ_i - θ_l)`.
    pub(super) fn strategy_modes(&self) -> Vec<Mode> {
        partial_fractions(&self.poles, &self.zeros)
    }

    /// `b_j = Σ_i β_i (1-γ_i)^j` for `b = 1/(c · Π (1 - p x))`, `p = 1 - gap`, over one gap or two.
    pub(super) fn decoder_modes(&self, gaps: &[f64]) -> Vec<Mode> {
        let mut modes = partial_fractions(&[&self.zeros, gaps].concat(), &self.poles);
        if gaps.len() > 1 {
            // Two poles more than zeros: a power of x more in the denominator.
            for mode in &mut modes {
                mode.weight *= 1.0 - mode.gap;
            }
        }
        modes
    }
}

/// The partial fractions of a quotient with the given roots, `Π (p_i - q_j) / Π_{l≠i} (p_i - p_l)` at every pole.
///
/// The factors are paired so that neither product over- or underflows.
fn partial_fractions(poles: &[f64], zeros: &[f64]) -> Vec<Mode> {
    poles
        .iter()
        .enumerate()
        .map(|(i, gap)| {
            let mut others = poles.iter().enumerate().filter(|(l, _)| *l != i).map(|(_, other)| other - gap);
            let weight = zeros
                .iter()
                .map(|zero| zero - gap)
                .fold(1.0, |product, factor| product * factor / others.next().unwrap_or(1.0));
            Mode { gap: *gap, weight: others.fold(weight, |product, factor| product / factor) }
        })
        .collect()
}

/// What the decoder `b = a/c` of one statistic is made of.
enum Decoder {
    /// `a = 1/Π (1 - p x)` by the gaps `1 - p`, one of them or two.
    Poles(Vec<f64>),
    /// `a = (1 - x^w)/(1 - x)`, w below the horizon.
    Window(usize),
    /// Any series, and the weight of the squared norm of every row.
    Series { weights: Vec<f64>, rows: Vec<f64> },
}

/// The error as a function of the roots.
struct Fit {
    /// That of every statistic, and how much it counts.
    decoders: Vec<(f64, Decoder)>,
    /// Roots closer to the unit circle than the workload itself serve nothing: all gaps are above this one.
    floor: f64,
    /// With no more steps than an evaluation walks through.
    problem: Problem,
}

impl Fit {
    fn new(problem: &Problem) -> Result<Self> {
        let steps = problem.steps();
        let walks =
            |one: &Statistic| one.workload().is_average() || one.workload().recurrence() == Recurrence::None;
        let length = if problem.statistics().iter().any(walks) { steps.min(SERIES_LIMIT) } else { steps };
        let decoders = problem
            .statistics()
            .iter()
            .map(|one| Ok((one.weight(), Decoder::new(one.workload(), length)?)))
            .collect::<Result<Vec<_>>>()?;
        let floor = decoders.iter().map(|(_, decoder)| decoder.gap()).fold(f64::INFINITY, f64::min);
        Ok(Self { decoders, floor, problem: problem.with_steps(length) })
    }

    /// Roots spread evenly in log-odds between one over the memory of the workload and one.
    fn start(&self, buffers: usize) -> Vec<f64> {
        let memory = |(_, decoder): &(f64, Decoder)| match decoder {
            Decoder::Window(width) => (*width).max(2),
            _ => self.problem.steps().max(2),
        };
        let memory = self.decoders.iter().map(memory).max().unwrap_or(2);
        if self.floor > 0.0 {
            between(-(memory as f64).min(30.0).ln(), buffers)
        } else {
            spread(memory, buffers)
        }
    }

    fn error(&self, parameters: &[f64]) -> f64 {
        let roots = Roots::at(parameters, self.floor);
        let error = self.squared_sensitivity(&roots) * self.decoder_norm(&roots);
        // Roots that have met make the fractions cancel; nothing positive comes of them.
        if error > 0.0 { error } else { f64::INFINITY }
    }

    /// `‖Σ_i C e_{ib}‖²`: after each participation k geometric sequences run on until the next.
    fn squared_sensitivity(&self, roots: &Roots) -> f64 {
        let modes = roots.strategy_modes();
        let (steps, times) = (self.problem.steps(), self.problem.times());
        let separation = self.problem.participation().separation();
        // The geometric sequences in flight, scaled by their weights.
        let mut flight: Vec<Mode> = modes.iter().map(|mode| Mode { gap: mode.gap, weight: 0.0 }).collect();
        let mut total = 0.0;
        for time in 0..times {
            let here = time * separation;
            let next = if time + 1 < times { here + separation } else { steps };
            let rest = next - here - 1;
            let value = 1.0 + flight.iter().map(|mode| mode.weight).sum::<f64>();
            for (state, mode) in flight.iter_mut().zip(&modes) {
                state.weight = state.weight * (1.0 - mode.gap) + mode.weight;
            }
            total += value * value + sum_of_squares(&flight, Sum::Plain, rest);
            for state in &mut flight {
                state.weight *= (rest as f64 * (-state.gap).ln_1p()).exp();
            }
        }
        total
    }

    /// `‖B‖_F²/n` or `max_t ‖b_t‖²`, summed over the statistics.
    fn decoder_norm(&self, roots: &Roots) -> f64 {
        let (steps, metric) = (self.problem.steps(), self.problem.metric());
        self.decoders.iter().map(|(weight, decoder)| weight * decoder.norm(roots, steps, metric)).sum()
    }
}

impl Decoder {
    fn new(workload: &Workload, steps: usize) -> Result<Self> {
        Ok(match workload.recurrence() {
            Recurrence::Window { width } if width < steps => Self::Window(width),
            // A schedule scales steps; the Toeplitz matrix behind it has constant rates.
            recurrence if recurrence != Recurrence::None && !workload.is_average() => {
                Self::Poles(workload.pole_gaps())
            }
            _ => {
                let (weights, rows) = workload.toeplitz_part(steps)?;
                Self::Series { weights, rows }
            }
        })
    }

    /// The distance of the workload's pole from the unit circle, where it has one.
    fn gap(&self) -> f64 {
        match self {
            Self::Poles(gaps) => gaps[0],
            Self::Window(_) | Self::Series { .. } => 0.0,
        }
    }

    /// `‖B‖_F²/n` or `max_t ‖b_t‖²`.
    fn norm(&self, roots: &Roots, steps: usize, metric: Metric) -> f64 {
        let norm = |geometric: Geometric| match metric {
            Metric::Mse => geometric.rows(steps) / steps as f64,
            Metric::Max => geometric.row(steps),
        };
        match self {
            Self::Poles(gaps) => norm(Geometric::new(roots.decoder_modes(gaps))),
            Self::Window(width) => norm(Geometric::windowed(roots.decoder_modes(&[0.0]), *width)),
            Self::Series { weights, rows } => {
                let modes = roots.strategy_modes();
                let mut buffers = vec![0.0; modes.len()];
                let (mut row_norm, mut total, mut largest) = (0.0, 0.0, 0.0_f64);
                for (weight, row) in weights.iter().zip(rows) {
                    let mut entry = *weight;
                    for (mode, buffer) in modes.iter().zip(&buffers) {
                        entry -= mode.weight * buffer;
                    }
                    for (mode, buffer) in modes.iter().zip(&mut buffers) {
                        *buffer = (1.0 - mode.gap) * *buffer + entry;
                    }
                    row_norm += entry * entry;
                    total += row * row_norm;
                    largest = largest.max(row * row_norm);
                }
                match metric {
                    Metric::Mse => total / steps as f64,
                    Metric::Max => largest,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensitivity::Participation;
    use crate::strategy::{Strategy, unwatched};
    use approx::assert_relative_eq;
    use proptest::prelude::*;

    fn error(strategy: &dyn Strategy, participation: Participation, metric: Metric) -> f64 {
        let rows = strategy.row_norms().unwrap();
        let norm = match metric {
            Metric::Mse => rows.mean(),
            Metric::Max => rows.max(),
        };
        strategy.sensitivity(participation).unwrap().squared * norm
    }

    fn with_buffers(workload: &Workload, steps: usize, buffers: usize) -> ToeplitzStrategy {
        let problem = Problem::new(workload.clone(), steps).unwrap();
        let core = fit(&problem, buffers, &mut unwatched).unwrap();
        ToeplitzStrategy::plain("blt", workload, steps, Core::Rational(core)).unwrap()
    }

    #[test]
    fn the_count_reaches_the_reference_errors() {
        // Minima found by an independent optimizer.
        for (steps, buffers, reference) in [(1024, 3, 9.355_47), (4096, 4, 12.2419)] {
            let found =
                error(&with_buffers(&Workload::count(), steps, buffers), Participation::Single, Metric::Mse);
            assert_relative_eq!(found, reference, max_relative = 1e-5);
        }
    }

    #[test]
    fn closed_forms_agree_with_the_coefficients_in_use() {
        let repeated = Participation::repeated(4, 30).unwrap();
        for text in
            ["count", "exp:1.01", "exp:3", "window:40", "window:500", "poly:0.5", "average", "momentum:0.9"]
        {
            let workload: Workload = text.parse().unwrap();
            for participation in [Participation::Single, repeated] {
                for metric in [Metric::Mse, Metric::Max] {
                    let problem = Problem::new(workload.clone(), 300).unwrap();
                    let problem = problem.with_participation(participation).with_metric(metric);
                    let fit = Fit::new(&problem).unwrap();
                    let start = fit.start(3);
                    let core = Roots::at(&start, fit.floor).rational().unwrap();
                    let strategy =
                        ToeplitzStrategy::plain("blt", &workload, 300, Core::Rational(core)).unwrap();
                    assert_relative_eq!(
                        fit.error(&start),
                        error(&strategy, participation, metric),
                        max_relative = 1e-9
                    );
                }
            }
        }
    }

    #[test]
    fn superfluous_buffers_are_dropped() {
        for (text, steps) in [("momentum:0.9", 64), ("count", 16), ("count", 256)] {
            let workload: Workload = text.parse().unwrap();
            let core = fit(&Problem::new(workload, steps).unwrap(), 8, &mut unwatched).unwrap();
            assert!(core.buffers() < 8, "{text} at {steps}: {core:?}");
            let product = dp_linalg::series::product(
                &core.coefficients(steps),
                &core.inverse().unwrap().coefficients(steps),
                steps,
            );
            let worst = product[1..].iter().fold(0.0_f64, |worst, value| worst.max(value.abs()));
            assert!(worst < 1e-11, "{text} at {steps}: {worst}");
        }
    }

    #[test]
    fn fitting_to_the_metric_and_the_participation_pays() {
        let repeated = Participation::repeated(8, 32).unwrap();
        let single = Problem::new(Workload::count(), 256).unwrap();
        for (participation, metric) in
            [(Participation::Single, Metric::Max), (repeated, Metric::Mse), (repeated, Metric::Max)]
        {
            let problem = single.clone().with_participation(participation).with_metric(metric);
            let [fitted, other] = [&problem, &single]
                .map(|problem| error(&blt(problem, &mut unwatched).unwrap(), participation, metric));
            assert!(fitted < other * 0.999, "{participation} {metric:?}: {fitted} {other}");
        }
    }

    #[test]
    fn the_square_root_is_beaten_with_few_buffers() {
        for text in ["count", "exp:1.05", "window:64", "poly:0.5", "poly:1"] {
            let problem = Problem::new(text.parse().unwrap(), 1000).unwrap();
            let sqrt = crate::strategy::toeplitz::sqrt(&problem).unwrap();
            let single = Participation::Single;
            let fitted = blt(&problem, &mut unwatched).unwrap();
            let ratio = error(&fitted, single, Metric::Mse) / error(&sqrt, single, Metric::Mse);
            // Windows are not completely monotone, so positive weights cannot follow their root.
            let limit = if text.starts_with("window") { 1.2 } else { 1.0 };
            assert!(ratio < limit, "{text}: {ratio}");
        }
    }

    #[test]
    fn the_sensitivity_of_long_horizons_is_never_underestimated() {
        for steps in [70_000, 1 << 18] {
            let problem = Problem::new(Workload::count(), steps).unwrap();
            let strategy = blt(&problem, &mut unwatched).unwrap();
            let claimed = strategy.sensitivity(Participation::Single).unwrap().squared;
            let summed =
                dp_linalg::norms::round_up_sum_of_squares(&strategy.core().coefficients(steps).unwrap());
            assert!(claimed >= summed && claimed < summed * (1.0 + 1e-9), "{steps}: {claimed} {summed}");
        }
    }

    proptest! {
        #[test]
        fn any_parameters_give_positive_weights_and_a_monotone_strategy(
            parameters in prop::collection::vec(-3.0..1.0_f64, 1..6),
            floor in 0.0..0.9_f64,
        ) {
            let doubled: Vec<f64> = parameters.iter().flat_map(|p| [*p, 0.5 * p]).collect();
            let roots = Roots::at(&doubled, floor);
            prop_assert!(roots.strategy_modes().iter().all(|mode| mode.weight > 0.0));
            prop_assert!(roots.decoder_modes(&[floor]).iter().all(|mode| mode.weight > 0.0));
            let coefficients = roots.rational().unwrap().coefficients(50);
            prop_assert!(coefficients.windows(2).all(|pair| pair[0] >= pair[1] && pair[1] >= 0.0));
        }
    }
}
