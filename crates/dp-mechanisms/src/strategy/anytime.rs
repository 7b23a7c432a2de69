//! Strategies without a horizon: the same noise whether the stream ends soon or goes on for ever.
//!
//! # One step of each person
//! `C = D1 · T · D2` with T the square root of the count and rows that fade, `d_t = (t + a)^-p` with p = 0.3 and a tenth of the expected
//! length ([`Problem::expecting`]) for a. As `c_k ≤ 1/√(πk)`, even an endless column has a finite norm, `f_j² = Σ_k d_{j+k}² c_k²`, and D2
//! makes it 1. [`Problem::steps`] are the most steps there can be: a cap. `2^40` of them, as [`Plan::doubling`](crate::Plan::doubling)
//! takes, stand for no cap. T has a rational core, a buffer for each factor of ten in time.
//!
//! # Theorem
//! The variance of release t, `‖b_t‖²` for a budget of μ = 1, is at most `(1 + p²κ²/2 + o(1)) (ln t/π)²`, `κ = B(½, ½+p)`, without a cap and for
//! ever; for p = 0.3 that is 1.24 times. No strategy that knows that there are t steps has a mean squared error below
//! `(1 - o(1)) (ln t/π)²` (the Schatten bound). So the ratio to the best plan for exactly t steps is bounded for all t, by a number that any small p
//! brings as close to 1 as one likes, in the limit of long streams.
//!
//! *Proof.* Let `s = j + a`. The norms f fall with j, and the sums of `1/c` up to k, which are the coefficients of `1/((1-x)c(x)) = c(x)`,
//! are `c_k`. Summation by parts makes of `B = A D2⁻¹ T⁻¹ D1⁻¹`, for i ≤ t, the non-negative numbers
//!
//! `d_i b_{t,i} = f_t c_{t-i} + Σ_{i≤j<t} (f_j - f_{j+1}) c_{j-i}`.
//!
//! 1. *Norms of columns.* Up to k = s the rows are at most `d_j`, and beyond `d_{j+k}²  ≤ d_j² (s/k)^2p`. So `f_j² ≤ d_j² L_j` with
//!    `π L_j = ln s + 1 + π + 1/2p`.
//! 2. *How fast they fall.* `d_t² - d_{t+1}² ≤ 2p/(t+a) d_t²` by convexity, hence `f_j² - f_{j+1}² ≤ (2p/s) f_j²` and
//!    `f_j - f_{j+1} ≤ (p/s)(1 + O(1/s)) f_j`.
//! 3. *The first part* has the squared norm `f_t² Σ_i c_{t-i}²/d_i² ≤ L_t (ln t + O(1))/π`, as `d_i ≥ d_t`: `(1 + o(1))(ln t/π)²`.
//! 4. *The second*, divided by `d_i`, is by 1 and 2 at most `p Σ_j √L_j (i+a)^p s^(-1-p) c_{j-i}` up to a factor `1 + O(1/i)`. With
//!    `c_k ≤ 1/√(πk)` the sum over j is an integral at most, `∫ (i+a+x)^(-1-p) x^-½ dx = κ (i+a)^(-½-p)`, and the weight of far j falls
//!    as a power, so that `L_j` is `L_i + O(1)` under it: at most `pκ √(L_i/(π(i+a)))` up to smaller terms. The squares add up over i to
//!    `p²κ² Σ_i L_i/(π(i+a)) = (1 + o(1)) p²κ² (ln t/π)²/2`.
//! 5. *Their product* is at most `pκ √(L_t) √(L_t) Σ_i 1/(π √((t-i)(i+a)))` and a term for i = t, which is O(ln t). ∎
//!
//! So nothing has to be handed over from one plan to the next. (A Toeplitz C, whose columns are all alike, cannot do this, by an argument that is
//! no proof: with `c_k² ≈ φ(ln k)/k` the variance is about `∫φ · ∫_0^{ln t} 1/φ / π²`, and what keeps it below `R (ln t/π)²` has
//! `1/φ ≤ 2R ln k`, so that `∫φ` has no end.)
//!
//! # Ratios
//! Mean squared error of the first t steps of a count over what is proved that nothing can beat for exactly t steps, without a cap:
//!
//! | expected length | t = 10 | 100 | 1000 | 10^4 | 10^6 | 10^8 |
//! |---|---|---|---|---|---|---|
//! | 100 | 1.45 | 1.27 | 1.26 | 1.26 | 1.27 | 1.27 |
//! | 1000 (1024 unless said otherwise) | 1.81 | 1.35 | 1.22 | 1.22 | 1.25 | 1.25 |
//! | 10^4 | 2.25 | 1.60 | 1.28 | 1.19 | 1.21 | 1.23 |
//!
//! # Several steps of each person
//! Columns of the strategy above grow alike as time goes on, so that k steps of one person cost k² in the end. There the
//! strategy is [`Anytime`]: a Toeplitz matrix whose columns have a finite norm by themselves.

use std::sync::Arc;

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

/// p: how fast rows fade. Less costs early steps more, and more costs those after very many steps.
const FADING: f64 = 0.3;

/// a: the share of the expected length after which rows begin to fade.
const LEAD: f64 = 0.1;

/// The parameters of the fastest poles of the core, for [`roots`]; with all others halfway between their neighbours its spectrum is that of the
/// square root within 8 %, which costs a tenth of a percent of the error.
const FASTEST: [f64; 4] = [-0.842, 0.985, 0.057, -0.003];

/// The strategy for a problem's participation, and its steps as the most that there can be.
///
/// # Privacy
/// For a single participation every column has norm 1, as in every [`ToeplitzStrategy::normalized`]; for several see [`Anytime`].
///
/// # Complexity
/// Some hundredths of a second for any cap and a single participation; some tenths of a second for the fit to another expected length otherwise.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the fit.
///
/// # Example
/// ```
/// use dp_mechanisms::strategy::{anytime, unwatched};
/// use dp_mechanisms::{Participation, Problem, Workload};
/// // About a year of days is expected, and there is room for a hundred thousand times that.
/// let days = Problem::new(Workload::count(), 36_500_000)?.expecting(365)?;
/// let strategy = anytime::anytime(&days, &mut unwatched)?;
/// let squared = strategy.sensitivity(Participation::Single)?.squared;
/// let year = strategy.row_norms()?.iter().take(365).sum::<f64>() / 365.0;
/// // Whoever had known that it is one year would have had 6.94 at best.
/// assert!(squared * year < 1.3 * 6.94);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn anytime(problem: &Problem, watch: &mut Watch<'_>) -> Result<Arc<dyn Strategy>> {
    if problem.times() > 1 {
        return Ok(Arc::new(Anytime::new(problem, watch)?));
    }
    let steps = problem.steps();
    let buffers = ((steps as f64).ln() / SPACING).ceil() as usize + 1;
    let mut parameters = FASTEST.to_vec();
    parameters.resize(FASTEST.len().max(buffers + 1), 0.0);
    let lead = LEAD * problem.expected().unwrap_or(DEFAULT_EXPECTED).min(steps) as f64;
    let log_row = |step: usize| -FADING * ((step + 1) as f64 + lead).ln();
    let core = roots(&parameters).rational()?;
    Ok(Arc::new(ToeplitzStrategy::smooth("anytime", problem.workload(), steps, core, log_row)?))
}

/// The strategy that consists of the numbers of [`Strategy::coefficients`].
///
/// # Errors
/// [`Error::State`] for lists that are missing or of another length.
pub(crate) fn of_coefficients(
    workload: &Workload,
    steps: usize,
    saved: &Coefficients,
) -> Result<Arc<dyn Strategy>> {
    let inner = ToeplitzStrategy::of_coefficients("anytime", workload, steps, saved)?;
    if inner.is_scaled() {
        return Ok(Arc::new(inner));
    }
    let Core::Rational(core) = inner.core().into_owned() else {
        let reason = "its strategy without a horizon is of another version".to_owned();
        return Err(Error::State { reason });
    };
    Ok(Arc::new(Anytime { core, inner }))
}

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

/// The first steps of a Toeplitz strategy for people who take part repeatedly, calibrated for all steps that may ever come.
///
/// `c(x) = Π_j (1 - θ̂_j x) / Π_j (1 - θ_j x)` with interlacing roots, as in [`super::blt`], but with buffers that remember
/// from a few steps to 10^12 of them, and calibrated to the squared norm of the infinite column,
/// `Δ² = 1 + Σ_{ij} ω_i ω_j / (1 - θ_i θ_j)`.
///
/// The roots make the largest ratio between the mean squared error of the first t steps and the best one for exactly t steps, for a
/// single participation, as small as they can for t from an expected length to a thousand times that, 1.44 for a length of 100
/// and 1.36 for 1024, and let it rise by three tenths with each factor of ten beyond.
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

    /// For people who take part repeatedly.
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

    fn endless(expected: usize) -> Arc<dyn Strategy> {
        let problem = Problem::new(Workload::count(), 1 << 40).unwrap().expecting(expected).unwrap();
        anytime(&problem, &mut unwatched).unwrap()
    }

    /// The mean of the first squared row norms: one by one where there are few, by the trapezoidal rule in the logarithm of time beyond.
    fn mean_of_first(rows: &RowNorms, length: usize) -> f64 {
        let each = length.min(4096);
        let mut sum: f64 = rows.iter().take(each).sum();
        let parts = ((length as f64 / each as f64).log2() * 32.0).ceil().max(1.0);
        let mut last = each;
        for part in 1..=parts as usize {
            let next =
                (each as f64 * (length as f64 / each as f64).powf(part as f64 / parts)).round() as usize;
            let ends = [last, next].map(|end| rows.at(end - 1).unwrap());
            sum += (next - last) as f64 * ends[0].midpoint(ends[1]);
            last = next;
        }
        sum / length as f64
    }

    /// The mean squared error of the first steps, over the best one for exactly so many: certified lower bounds.
    #[test]
    fn not_knowing_the_horizon_costs_less_than_three_tenths_for_ever() {
        let lengths = [10, 30, 102, 300, 1000, 10_000, 100_000, 1_000_000, 100_000_000];
        let best = lengths.map(|length| {
            crate::planner::lower_bound(&Problem::new(Workload::count(), length).unwrap()).unwrap()
        });
        for (expected, largest, tenth) in [(100, 1.28, 1.47), (1000, 1.27, 1.38), (10_000, 1.25, 1.32)] {
            let strategy = endless(expected);
            assert_eq!(strategy.sensitivity(Participation::Single).unwrap().squared, 1.0 + 1e-14);
            let rows = strategy.row_norms().unwrap();
            for (length, best) in lengths.into_iter().zip(best) {
                let ratio = mean_of_first(&rows, length) / best;
                println!("{expected} expected, {length}: {ratio:.4}");
                let limit = if length >= expected { largest } else { tenth };
                assert!(
                    10 * length < expected || (1.1..limit).contains(&ratio),
                    "{expected} {length}: {ratio}"
                );
            }
            // Beyond certificates: the best is about this.
            for power in [30, 35, 40] {
                let steps = 1_usize << power;
                let about = ((steps as f64).ln() / std::f64::consts::PI + 0.75).powi(2);
                let ratio = mean_of_first(&rows, steps) / about;
                println!("{expected} expected, 2^{power}: {ratio:.4}");
                assert!((1.1..1.27).contains(&ratio), "{expected} 2^{power}: {ratio}");
            }
        }
    }

    /// In place of noise: row r is the r-th unit vector.
    struct UnitRows;

    impl crate::noise::UnitNoise for UnitRows {
        fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
            out.fill(0.0);
            if let Some(value) = row.checked_sub(first).and_then(|index| out.get_mut(index)) {
                *value = 1.0;
            }
        }
    }

    /// What the stream of an endless plan really applies: its inverse is a matrix whose columns, as far as they are seen here, have norms below 1
    /// that rise towards 1 for later rows, and whose decoder has the reported norms.
    #[test]
    fn the_endless_stream_applies_what_is_calibrated() {
        let steps = 600;
        let strategy = endless(100);
        let mut filter = strategy.noise_filter(steps).unwrap();
        let mut inverse = ndarray::Array2::<f64>::zeros((steps, steps));
        let mut sums = vec![0.0; steps];
        let rows = strategy.row_norms().unwrap();
        for (step, mut row) in inverse.rows_mut().into_iter().enumerate() {
            let mut out = vec![0.0; steps];
            filter.next_into(&mut UnitRows, &mut out).unwrap();
            for (sum, value) in sums.iter_mut().zip(&out) {
                *sum += value;
            }
            let squared: f64 = sums.iter().map(|value| value * value).sum();
            assert!((rows.at(step).unwrap() / squared - 1.0).abs() < 1e-3, "{step}");
            row.assign(&ndarray::aview1(&out));
        }
        let matrix = dp_linalg::dense::inverse_lower(inverse.view()).unwrap();
        for (step, column) in matrix.columns().into_iter().enumerate() {
            let seen: f64 = column.iter().map(|value| value * value).sum();
            // What comes later: d_t² / (π (t - step)) is an upper bound of every entry, in units of the first one's square.
            let first = column[step] * column[step] * (step as f64 + 11.0).powf(0.6);
            let later: f64 = (0..1000)
                .map(|part| (steps as f64 * 1.05_f64.powi(part), steps as f64 * 1.05_f64.powi(part + 1)))
                .take_while(|(from, _)| *from < 1e18)
                .map(|(from, to)| (to / from).ln() * from.powf(-0.6) / std::f64::consts::PI)
                .sum();
            assert!(seen < 1.0, "{step}: {seen}");
            if step < steps / 4 {
                let whole = seen + first * later * 1.5;
                assert!(whole > 1.0, "{step}: {seen} and at most {whole}");
            }
        }
    }

    /// A cap takes less noise than none: columns that end there are measured better.
    #[test]
    fn a_cap_costs_less() {
        let mean = |cap: usize, length: usize| {
            let problem = Problem::new(Workload::count(), cap).unwrap().expecting(100).unwrap();
            mean_of_first(&anytime(&problem, &mut unwatched).unwrap().row_norms().unwrap(), length)
        };
        for cap in [1000, 100_000] {
            for (length, share) in [(100, 1.0), (cap, 0.95)] {
                let (capped, none) = (mean(cap, length), mean(1 << 40, length));
                assert!(capped < share * none, "{cap} {length}: {capped} {none}");
            }
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
