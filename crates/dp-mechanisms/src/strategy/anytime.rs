//! A strategy without a horizon: its sensitivity is bounded for ever.
//!
//! `c(x) = Π_j (1 - θ̂_j x) / Π_j (1 - θ_j x)` with interlacing roots, as in [`super::blt`], but with buffers that remember
//! from a few steps to 10^12 of them, and calibrated to the squared norm of the infinite column,
//!
//! `Δ² = 1 + Σ_{ij} ω_i ω_j / (1 - θ_i θ_j)`.
//!
//! # Which roots
//! With `c_k² ≈ φ(ln k)/k` the release of step t has the variance `Δ² ∫_0^{ln t} du/φ(u) / π²` up to constants, and `Δ² = ∫ φ`. Whoever knows
//! that there are n steps takes `φ = 1` up to `ln n`, for a variance of `(ln n)²/π²`. Who does not must choose: an error within a factor R
//! of that at every t beyond an expected length needs `1/φ ≤ 2 R u` there, so that `∫ φ` grows with `ln ln t`, without end. No strategy
//! of this kind has a bounded ratio for ever, but the bill is small: for a thousand times the expected length, `R ≈ 1 + ½ ln(1 + ln 1000 / ln n)`.
//!
//! The roots here make the largest ratio between the mean squared error of the first t steps and the best one for exactly t steps as small
//! as they can for t from an expected length ([`Problem::expecting`]) to a thousand times that, and let it rise by three tenths with each
//! factor of ten beyond:
//!
//! | expected length | t = ⅒ of it | 1 | 10 | 100 | 1000 |
//! |---|---|---|---|---|---|
//! | 100 | 1.95 | 1.41 | 1.41 | 1.43 | 1.44 |
//! | 1024 (unless said otherwise) | 1.74 | 1.36 | 1.34 | 1.35 | 1.36 |
//! | 10^4 | 1.60 | 1.31 | 1.29 | 1.29 | 1.31 |

use dp_linalg::minimize::{self, Options};
use dp_linalg::rational::{Rational, Sum, sum_of_squares};

use super::blt::Roots;
use super::row_norms::Geometric;
use super::toeplitz::{Core, ToeplitzStrategy};
use super::{
    Coefficients, Factorization, Measurement, NoiseFilter, Progress, RowNorms, Strategy, Watch, tell,
};
use crate::error::{Error, Result};
use crate::problem::Problem;
use crate::sensitivity::{Participation, Sensitivity};
use crate::workload::Workload;

/// The length that is expected where nobody says so.
pub const DEFAULT_EXPECTED: usize = 1024;

/// The number of buffers, and the logarithm of the ratio between what two neighbours remember.
const BUFFERS: usize = 13;
const SPACING: f64 = 2.3;

/// Of the way from a pole to the next, a zero leaves at least this share on either side, for roots that meet lose their digits.
const APART: f64 = 0.03;

/// The parameters for [`DEFAULT_EXPECTED`]: what [`fit`] finds.
const DEFAULT: [f64; BUFFERS + 1] =
    [-0.824, 1.023, 0.045, 0.179, -0.995, -0.152, 0.1, -1.494, -0.15, 0.184, -5.0, -4.605, -3.213, -2.315];

/// Lengths at which the error is compared, as powers of ten of the expected one.
const DECADES: [f64; 17] =
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0, 5.0, 6.0];

/// Up to so many decades the ratio is held down, and beyond it may rise by so much with each.
const HELD: f64 = 3.0;
const RISE: f64 = 0.3;

/// Covers the rounding of closed sums over all pairs of buffers.
const MARGIN: f64 = 1.0 + 2e-10;

/// The participations whose correlations are added one by one.
const CORRELATED: usize = 1 << 16;

/// The first steps of the strategy without a horizon, calibrated for all of it.
#[derive(Debug, Clone)]
pub struct Anytime {
    core: Rational,
    inner: ToeplitzStrategy,
}

impl Anytime {
    /// The first `steps` steps; more steps would not change the noise of these.
    ///
    /// # Complexity
    /// None for the default length, some tenths of a second for the fit to another one.
    ///
    /// # Errors
    /// What the numeric core refuses, or a watch that stops the fit.
    ///
    /// # Example
    /// ```
    /// use dp_mechanisms::strategy::{Strategy, anytime::Anytime, unwatched};
    /// use dp_mechanisms::{Participation, Problem, Workload};
    /// // About a year of days is expected, and there is room for ten thousand times that.
    /// let days = Problem::new(Workload::count(), 3_650_000)?.expecting(365)?;
    /// let strategy = Anytime::new(&days, &mut unwatched)?;
    /// let squared = strategy.sensitivity(Participation::Single)?.squared;
    /// let year = strategy.row_norms()?.iter().take(365).sum::<f64>() / 365.0;
    /// // Whoever had known that it is one year would have had 6.94 at best.
    /// assert!(squared * year < 1.4 * 6.94);
    /// # Ok::<(), dp_mechanisms::Error>(())
    /// ```
    pub fn new(problem: &Problem, watch: &mut Watch<'_>) -> Result<Self> {
        let (workload, steps) = (problem.workload(), problem.steps());
        let roots = match problem.expected() {
            None | Some(DEFAULT_EXPECTED) => roots(&DEFAULT),
            Some(expected) => roots(&fit(expected, watch)?),
        };
        let core = roots.rational()?;
        let inner = ToeplitzStrategy::plain("anytime", workload, steps, Core::Rational(core.clone()))?;
        Ok(Self { core, inner })
    }

    /// The strategy that consists of the numbers of [`Strategy::coefficients`].
    ///
    /// # Errors
    /// [`Error::State`] for lists that are missing or of another length.
    pub(crate) fn of_coefficients(workload: &Workload, steps: usize, saved: &Coefficients) -> Result<Self> {
        let inner = ToeplitzStrategy::of_coefficients("anytime", workload, steps, saved)?;
        let Core::Rational(core) = inner.core().into_owned() else {
            let reason = "its strategy without a horizon is of another version".to_owned();
            return Err(Error::State { reason });
        };
        Ok(Self { core, inner })
    }
}

/// Poles a [`SPACING`] apart and a zero between each and the next: first the log-odds of the first pole's gap, then those of
/// the share of the way at which each zero stands.
fn roots(parameters: &[f64]) -> Roots {
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let first = logistic(parameters[0]);
    let (mut poles, mut zeros) = (Vec::new(), Vec::new());
    for (index, parameter) in parameters[1..].iter().enumerate() {
        let share = APART + (1.0 - 2.0 * APART) * logistic(*parameter);
        let pole = first * (-SPACING * index as f64).exp();
        zeros.push(if index == 0 { first.powf(1.0 - share) } else { pole * (SPACING * share).exp() });
        poles.push(pole);
    }
    // In increasing order of the gaps.
    poles.reverse();
    zeros.reverse();
    Roots { poles, zeros }
}

/// The parameters for an expected length.
fn fit(expected: usize, watch: &mut Watch<'_>) -> Result<Vec<f64>> {
    let lengths: Vec<(usize, f64)> = DECADES
        .iter()
        .map(|decades| {
            let length = (expected as f64 * 10.0_f64.powf(*decades)).round();
            // The mean squared error of the best strategy for a count of so many steps is about this.
            let best = (length.ln() / std::f64::consts::PI + 0.75).powi(2);
            (length as usize, best * (1.0 + RISE * (decades - HELD).max(0.0)))
        })
        .collect();
    let reached = (expected as f64).ln() / SPACING + HELD;
    let mut point: Vec<f64> = (0..=BUFFERS)
        .map(|index| match index {
            0 => -0.9,
            _ if (index as f64) < reached + 1.0 => -0.2,
            _ => -2.0,
        })
        .collect();
    // A smooth maximum, sharper from one round to the next.
    for sharpness in [20.0, 40.0, 80.0, 160.0, 320.0] {
        let largest = |point: &[f64]| -> f64 {
            let roots = roots(point);
            let squared = 1.0 + sum_of_squares(&roots.strategy_modes(), Sum::Plain, usize::MAX);
            let decoder = Geometric::new(roots.decoder_modes(&[0.0]));
            let ratio =
                |&(length, target): &(usize, f64)| squared * decoder.rows(length) / length as f64 / target;
            let ratios: Vec<f64> = lengths.iter().map(ratio).collect();
            let top = ratios.iter().copied().fold(0.0, f64::max);
            let mean = ratios.iter().map(|ratio| (sharpness * (ratio - top)).exp()).sum::<f64>();
            let held = point.iter().map(|x| (x.abs() - 5.0).max(0.0).powi(2)).sum::<f64>();
            top + (mean / ratios.len() as f64).ln() / sharpness + held
        };
        let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
            tell(watch, Progress::Evaluation)?;
            minimize::numeric_gradient(|point| Ok(largest(point)), point, 1e-5, gradient)
        };
        let options = Options { iterations: 60, relative_decrease: 1e-7, memory: 12 };
        point = minimize::lbfgs(objective, point, options)?.point;
    }
    // So coarse that machines agree, and fine enough for a thousandth of the error.
    Ok(point.iter().map(|parameter| (parameter * 100.0).round() / 100.0).collect())
}

/// `Δ²` over an unbounded stream: the coefficients are positive and do not increase, so participations as early and as
/// close as allowed are the worst, `Δ² = times · γ_0 + 2 Σ_{m≥1} (times - m) γ_{m·separation}` with `γ_m = Σ_k c_k c_{k+m}`.
///
/// # Privacy
/// Holds for every horizon at once: all terms are positive, and their closed sums are rounded up.
///
/// # Complexity
/// O(k) for each participation, of which 2^16 at most are looked at one by one.
fn squared_sensitivity(core: &Rational, participation: Participation) -> f64 {
    let single = core.sum_of_squares(usize::MAX) * MARGIN;
    let (times, separation) = (participation.times_within(usize::MAX), participation.separation());
    if times <= 1 {
        return single;
    }
    let gap = |theta: &f64| 1.0 - theta;
    // γ_m = Σ_j weight_j θ_j^m: its own first coefficient, and every pair of geometric sequences.
    let modes: Vec<(f64, f64)> = (core.theta().iter().zip(core.omega()))
        .map(|(theta, omega)| {
            let pairs = core.theta().iter().zip(core.omega());
            let met: f64 = pairs
                .map(|(other, weight)| weight / (gap(theta) + gap(other) - gap(theta) * gap(other)))
                .sum();
            ((-gap(theta)).ln_1p(), omega * (1.0 / theta + met))
        })
        .collect();
    let after = |steps: f64| modes.iter().map(|(rate, weight)| weight * (rate * steps).exp()).sum::<f64>();
    let mut total = times as f64 * single;
    for m in 1..times.min(CORRELATED) {
        total += 2.0 * (times - m) as f64 * after(m as f64 * separation as f64) * MARGIN;
    }
    if times > CORRELATED {
        // The rest of each geometric sequence: `left` terms at most, and no more than all of them.
        let left = (times - CORRELATED) as f64;
        for (rate, weight) in &modes {
            let lost = -(rate * separation as f64).exp_m1();
            let first = weight * (rate * separation as f64 * CORRELATED as f64).exp();
            total += 2.0 * left * first * (0.5 * (left + 1.0)).min(1.0 / lost) * MARGIN;
        }
    }
    total * MARGIN
}

impl Strategy for Anytime {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn workload(&self) -> &Workload {
        self.inner.workload()
    }

    fn steps(&self) -> usize {
        self.inner.steps()
    }

    /// The bound for the unbounded stream, whatever the number of steps.
    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
        let squared = squared_sensitivity(&self.core, participation);
        Ok(Sensitivity::upper_bound(self.inner.charged(squared, participation)))
    }

    fn row_norms(&self) -> Result<RowNorms> {
        self.inner.row_norms()
    }

    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        self.inner.noise_filter(dimension)
    }

    fn memory(&self, dimension: usize) -> usize {
        self.inner.memory(dimension)
    }

    fn materialize(&self) -> Result<Factorization> {
        self.inner.materialize()
    }

    fn coefficients(&self) -> Option<Coefficients> {
        self.inner.coefficients()
    }

    fn measurement(&self) -> Result<Measurement> {
        self.inner.measurement()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::unwatched;

    fn count(steps: usize) -> Anytime {
        Anytime::new(&Problem::new(Workload::count(), steps).unwrap(), &mut unwatched).unwrap()
    }

    fn for_ever(strategy: &Anytime, participation: Participation) -> f64 {
        strategy.sensitivity(participation).unwrap().squared
    }

    #[test]
    fn the_bound_holds_for_every_horizon_and_is_its_limit() {
        // Long steps, so that the horizon passes what any buffer remembers: the same poles with few of them.
        let few = Rational::from_roots(&[0.999, 0.9, 0.3], &[0.99, 0.6, 0.1]).unwrap();
        let repeated = Participation::repeated(4, 10).unwrap();
        let often = Participation::repeated(40, 3).unwrap();
        for participation in [Participation::Single, repeated, often] {
            let bound = squared_sensitivity(&few, participation);
            let mut last = 0.0;
            for steps in [1, 10, 1000, 1 << 17] {
                let core = Core::Rational(few.clone());
                let plain = ToeplitzStrategy::plain("anytime", &Workload::count(), steps, core).unwrap();
                let within = plain.sensitivity(participation).unwrap().squared;
                assert!(within > last && within <= bound, "{participation} {steps}: {within} {bound}");
                last = within;
            }
            assert!((last / bound - 1.0).abs() < 1e-9, "{participation}: {last} {bound}");
        }
        // The strategy itself, in part: what is missing lies beyond the horizon.
        let strategy = count(1 << 17);
        for participation in [Participation::Single, repeated] {
            let within = strategy.inner.sensitivity(participation).unwrap().squared;
            let bound = for_ever(&strategy, participation);
            assert!(within < bound && bound < 1.2 * within, "{participation}: {within} {bound}");
        }
    }

    #[test]
    fn steps_beyond_do_not_change_the_noise_of_the_first() {
        let (short, long) = (count(40), count(300));
        assert_eq!(for_ever(&short, Participation::Single), for_ever(&long, Participation::Single));
        let (short, long) = (short.row_norms().unwrap(), long.row_norms().unwrap());
        for (one, other) in short.iter().zip(long.iter()) {
            assert!((one / other - 1.0).abs() < 1e-12);
        }
    }

    /// The mean squared error of the first steps, over the best one for exactly so many: certified lower bounds.
    #[test]
    fn not_knowing_the_horizon_costs_less_than_two_fifths() {
        let ratio = |expected: usize, length: usize| {
            let problem = Problem::new(Workload::count(), length).unwrap();
            let best = crate::planner::lower_bound(&problem).unwrap();
            let expecting = problem.expecting(expected).unwrap();
            let strategy = Anytime::new(&expecting, &mut unwatched).unwrap();
            let mean = strategy.row_norms().unwrap().mean();
            for_ever(&strategy, Participation::Single) * mean / best
        };
        for length in [1024, 3000, 10_000, 30_000, 100_000, 300_000, 1_024_000] {
            let ratio = ratio(1024, length);
            assert!((1.3..1.37).contains(&ratio), "{length}: {ratio}");
        }
        assert!(ratio(1024, 102) < 1.75);
        // Another length, for which the roots are fitted.
        for length in [500, 5000, 50_000, 500_000] {
            let ratio = ratio(500, length);
            assert!((1.3..1.4).contains(&ratio), "{length}: {ratio}");
        }
    }

    #[test]
    fn the_default_is_what_is_fitted() {
        let fitted = roots(&fit(DEFAULT_EXPECTED, &mut unwatched).unwrap()).rational().unwrap();
        let known = roots(&DEFAULT).rational().unwrap();
        let (fitted, known) = (
            squared_sensitivity(&fitted, Participation::Single),
            squared_sensitivity(&known, Participation::Single),
        );
        assert!((fitted / known - 1.0).abs() < 0.02, "{fitted} {known}");
    }

    #[test]
    fn participations_far_apart_or_very_many_are_bounded_at_once() {
        let strategy = count(1);
        let squared =
            |times, separation| for_ever(&strategy, Participation::repeated(times, separation).unwrap());
        // Between independent columns and participations that are nearer.
        let single = for_ever(&strategy, Participation::Single);
        let (far, near) = (squared(2, 1 << 32), squared(2, 1 << 20));
        assert!(far < near && far > 2.0 * single, "{far} {near}");
        let (many, few) = (squared(1 << 40, 1 << 40), squared(1 << 20, 1 << 40));
        assert!(many.is_finite() && many > few);
        // Where the sum is cut does not matter: between all of it and twice as much.
        let (below, above) = (squared(CORRELATED, 3), squared(CORRELATED + 1, 3));
        assert!(above > below && above < below * (1.0 + 3.0 / CORRELATED as f64), "{below} {above}");
    }
}
