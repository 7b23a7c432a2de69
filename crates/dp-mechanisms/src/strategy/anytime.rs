//! A strategy without a horizon: its sensitivity is bounded for ever.
//!
//! `C = (1-x)^{-(½-β)}`, and for the count `B = (1-x)^{-(½+β)}`. The coefficients of C are square summable,
//!
//! ```text
//! γ_m = Σ_k c_k c_{k+m},   γ_0 = Γ(2β)/Γ(½+β)²,   γ_m = γ_{m-1} (m-½-β)/(m-½+β)
//! ```
//!
//! so noise calibrated to γ_0 is enough however long the stream becomes. With β = 0.04 the release of step t has 1.86, 1.67 and
//! 1.54 times the variance of a square root planned for exactly t steps at t = 2¹⁰, 2¹⁴ and 2²⁰.

use dp_linalg::series;

use super::toeplitz::{Core, ToeplitzStrategy};
use super::{Coefficients, Factorization, Measurement, NoiseFilter, RowNorms, Strategy};
use crate::error::{Error, Result};
use crate::problem::Problem;
use crate::sensitivity::{Participation, Sensitivity};
use crate::workload::Workload;

/// The exponent β that serves streams of a thousand to a million steps well.
pub const DEFAULT_BETA: f64 = 0.04;

/// Relative accuracy of the gamma function, of the three operations around it, and room to spare.
const GAMMA_MARGIN: f64 = 1.0 + 1e-13;

/// The distance of participations beyond which their correlation is no longer computed one by one.
const FARTHEST: usize = 1 << 20;

/// The first steps of the strategy without a horizon, calibrated for all of it.
#[derive(Debug, Clone)]
pub struct Anytime {
    beta: f64,
    inner: ToeplitzStrategy,
}

impl Anytime {
    /// The first `steps` steps; more steps would not change the noise of these.
    ///
    /// # Errors
    /// A β outside (0, ½).
    pub fn new(problem: &Problem, beta: f64) -> Result<Self> {
        let (workload, steps) = (problem.workload(), problem.steps());
        if !(beta > 0.0 && beta < 0.5) {
            return Err(Error::OutOfRange {
                what: "anytime exponent",
                value: beta,
                range: "strictly between 0 and 1/2",
            });
        }
        let power = 0.5 - beta;
        let core = Core::Full {
            coefficients: series::binomial(power, steps),
            inverse: series::binomial(-power, steps),
        };
        Ok(Self { beta, inner: ToeplitzStrategy::plain("anytime", workload, steps, core)? })
    }

    /// The strategy that consists of the numbers of [`Strategy::coefficients`].
    ///
    /// # Errors
    /// [`Error::State`] for lists that are missing or of another length.
    pub(crate) fn of_coefficients(workload: &Workload, steps: usize, saved: &Coefficients) -> Result<Self> {
        let inner = ToeplitzStrategy::of_coefficients("anytime", workload, steps, saved)?;
        Ok(Self { beta: saved.number("beta")?, inner })
    }
}

/// `Δ²` over an unbounded stream: the coefficients are non-negative and do not increase, so participations as early and as
/// close as allowed are the worst, `Δ² = times · γ_0 + 2 Σ_{m≥1} (times - m) γ_{m·separation}`.
///
/// # Privacy
/// Holds for every horizon at once. γ_0 is rounded up by more than the error of the gamma function, and every factor of the
/// recurrence by more than its rounding.
///
/// Correlations beyond a distance of 2^20 are bounded by the one there, for they fall.
///
/// # Complexity
/// O(times · separation), and never more than 2^20.
pub fn squared_sensitivity(beta: f64, participation: Participation) -> f64 {
    let root = libm::tgamma(0.5 + beta);
    let single = libm::tgamma(2.0 * beta) / (root * root) * GAMMA_MARGIN;
    let (times, separation) = (participation.times_within(usize::MAX), participation.separation());
    if times <= 1 {
        return single;
    }
    let mut total = times as f64 * single;
    let mut product = single;
    let mut distance = 0_usize;
    for m in 1..times {
        let wanted = m.saturating_mul(separation);
        while distance < wanted.min(FARTHEST) {
            distance += 1;
            let half = distance as f64 - 0.5;
            product *= (half - beta) / (half + beta) * (1.0 + 4.0 * f64::EPSILON);
        }
        if wanted > FARTHEST {
            // `2 Σ_{l≥m} (times - l)` times what none of the later ones exceeds.
            let left = (times - m) as f64;
            total += left * (left + 1.0) * product * (1.0 + 4.0 * f64::EPSILON);
            break;
        }
        total += 2.0 * (times - m) as f64 * product;
    }
    total * (1.0 + 4.0 * times as f64 * f64::EPSILON)
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
        let squared = squared_sensitivity(self.beta, participation);
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
        Some(self.inner.coefficients()?.with("beta", [self.beta]))
    }

    fn measurement(&self) -> Result<Measurement> {
        self.inner.measurement()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(steps: usize, beta: f64) -> Anytime {
        Anytime::new(&Problem::new(Workload::count(), steps).unwrap(), beta).unwrap()
    }

    #[test]
    fn the_bound_holds_for_every_horizon_and_is_its_limit() {
        let repeated = Participation::repeated(4, 10).unwrap();
        for beta in [0.04, 0.2, 0.4] {
            for participation in [Participation::Single, repeated] {
                let bound = squared_sensitivity(beta, participation);
                let mut last = 0.0;
                for steps in [1, 10, 1000, 1 << 17] {
                    let strategy = count(steps, beta);
                    let within = strategy.inner.sensitivity(participation).unwrap().squared;
                    assert!(
                        within > last && within <= bound,
                        "{beta} {participation} {steps}: {within} {bound}"
                    );
                    last = within;
                }
                // The missing tail is about (times/Γ(½-β))² n^{-2β}/(2β).
                let times = participation.times_within(1000) as f64;
                let gamma = libm::tgamma(0.5 - beta);
                let tail = (times / gamma).powi(2) * 2.0_f64.powf(-34.0 * beta) / (2.0 * beta);
                assert!((last + tail - bound).abs() < 1e-3 * bound, "{beta}: {last} + {tail} {bound}");
            }
        }
    }

    #[test]
    fn the_count_is_decoded_by_the_complementary_power() {
        let strategy = count(300, 0.04);
        let rows = strategy.row_norms().unwrap();
        let expected = crate::strategy::prefix_sums_of_squares(&series::binomial(0.54, 300));
        for (row, wanted) in rows.iter().zip(&expected) {
            assert!((row / wanted - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn not_knowing_the_horizon_costs_less_than_a_factor_of_two() {
        // Variance of the last release over that of the square root made for exactly this horizon.
        for (steps, cost) in [(1 << 10, 1.861), (1 << 14, 1.667), (1 << 17, 1.588)] {
            let strategy = count(steps, DEFAULT_BETA);
            let root = crate::strategy::prefix_sums_of_squares(&series::binomial(0.5, steps));
            let known = root[steps - 1] * root[steps - 1];
            let ratio = squared_sensitivity(DEFAULT_BETA, Participation::Single)
                * strategy.row_norms().unwrap().max()
                / known;
            assert!((ratio - cost).abs() < 1e-3, "{steps}: {ratio}");
        }
    }

    #[test]
    fn participations_far_apart_are_bounded_at_once() {
        let squared = |times, separation| {
            squared_sensitivity(0.04, Participation::repeated(times, separation).unwrap())
        };
        // The truth lies between independent columns and participations that are nearer.
        let (far, near) = (squared(2, 1 << 32), squared(2, FARTHEST));
        let single = squared_sensitivity(0.04, Participation::Single);
        assert!(far <= near * (1.0 + 1e-12) && far > 2.0 * single, "{far} {near}");
        let (many, few) = (squared(1 << 40, 1 << 40), squared(1 << 20, 1 << 40));
        assert!(many.is_finite() && many > few);
        // Just below and above the limit the sum is the same to what the last terms differ by.
        let (below, above) = (squared(3, FARTHEST / 2), squared(3, FARTHEST / 2 + 1));
        assert!((above / below - 1.0).abs() < 1e-6 && above <= below * (1.0 + 1e-12), "{below} {above}");
    }
}
