//! Banded strategies with cyclic Poisson sampling: correlated noise and amplification together.
//!
//! People are divided into b groups beforehand, without looking at the data. Step t draws every person of group `t mod b`
//! independently with probability p. With a strategy of at most b bands, the columns that one person can touch do not overlap.
//!
//! # Privacy
//!
//! Fix the group j of the person who is added or removed. Steps j, j + b, j + 2b, … are the only ones that the person can enter,
//! ⌈n/b⌉ at most. Column s of C is zero outside rows s to s + b - 1, so the rows fall into blocks, and what the person changes in
//! a block is `x·c_s` if they were drawn at step s and nothing otherwise, `‖x·c_s‖ ≤ κ·Δ_1(C)`, Δ_1 the largest column norm.
//! Everything else in the block is the same for both neighbours, may depend on earlier releases, and is independent of the draw of
//! the person. A block is therefore a Gaussian mechanism with Poisson sampling at rate p and noise multiplier `σ/(κ·Δ_1(C))`, chosen
//! adaptively, and the blocks compose (Choquette-Choo et al., *(Amplified) Banded Matrix Factorization*, 2023, theorem 4). One band
//! is independent noise, as in DP-SGD; p = 1 has no amplification and is ordinary repeated participation.

use std::sync::Arc;

use serde::Serialize;

use super::{Bracket, check_delta, check_rate, noise_multiplier};
use crate::error::{Error, Result, check_count, check_positive};
use crate::problem::Problem;
use crate::strategy::{RowNorms, Strategy, banded, unwatched};

/// Who may take part when: one of b groups in turn, each of its people with probability p.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CyclicPoisson {
    groups: usize,
    rate: f64,
    steps: usize,
}

impl CyclicPoisson {
    /// `groups` groups in turn over `steps` steps, each person of the group drawn with probability `rate`.
    ///
    /// # Errors
    /// No groups or steps, more groups than steps, or a rate outside (0, 1].
    pub fn new(groups: usize, rate: f64, steps: usize) -> Result<Self> {
        check_count("groups", groups)?;
        check_count("steps", steps)?;
        check_rate(rate)?;
        if groups > steps {
            return Err(Error::OutOfRange {
                what: "groups",
                value: groups as f64,
                range: "at most the number of steps",
            });
        }
        Ok(Self { groups, rate, steps })
    }

    /// The number of groups, and the most bands that a strategy may have.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The probability with which a person of the group is drawn.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// In how many steps one person can be drawn, ⌈n/b⌉.
    pub fn rounds(&self) -> u64 {
        self.steps.div_ceil(self.groups) as u64
    }

    /// What a buffer of fixed size adds to δ: a step that draws more than `capacity` of a group of at most `people` leaves out
    /// the rest by a rule that does not look at the data.
    ///
    /// # Privacy
    /// Let τ bound the probability that any step overflows. Runs with and without the buffer can be told apart by at most τ under
    /// each neighbour, so `P'(S) ≤ P(S) + τ ≤ e^ε Q(S) + δ + τ ≤ e^ε Q'(S) + δ + (1 + e^ε) τ`. For the number drawn Chernoff's bound
    /// gives `exp(-m KL((capacity+1)/m ‖ p))`, added up over the steps.
    ///
    /// # Errors
    /// No people, no capacity, or ε not finite and positive.
    pub fn truncation_delta(&self, people: u64, capacity: u64, epsilon: f64) -> Result<f64> {
        check_count("people", people as usize)?;
        check_count("capacity", capacity as usize)?;
        check_positive("epsilon", epsilon)?;
        if capacity >= people {
            return Ok(0.0);
        }
        let (drawn, p) = ((capacity + 1) as f64 / people as f64, self.rate);
        if drawn <= p {
            return Ok(1.0);
        }
        let rest = if drawn < 1.0 { (1.0 - drawn) * ((1.0 - drawn) / (1.0 - p)).ln() } else { 0.0 };
        let divergence = drawn * (drawn / p).ln() + rest;
        // Rounded up by more than the logarithms can be wrong.
        let overflow = self.steps as f64 * (-(people as f64) * divergence * (1.0 - 1e-12)).exp();
        Ok(((1.0 + epsilon.exp()) * overflow * (1.0 + 1e-12)).min(1.0))
    }

    /// The banded strategy with as many bands as groups that is best for a problem, and its noise.
    ///
    /// `contribution` bounds the Euclidean norm of what one person adds to a step. The error of the problem's metric is minimized.
    ///
    /// # Privacy
    /// All releases together are (ε, δ)-private when one person is added or removed; see the head of this module. σ is
    /// `contribution · Δ_1(C) · multiplier`, every factor rounded up, with the multiplier proved by the accountant.
    ///
    /// # Errors
    /// A contribution or ε that is not finite and positive, δ outside (0, 1), a problem over another number of steps, a workload
    /// without banded strategies, or a noise that cannot be certified.
    pub fn plan(
        &self,
        problem: &Problem,
        contribution: f64,
        epsilon: f64,
        delta: f64,
    ) -> Result<SampledPlan> {
        check_positive("contribution", contribution)?;
        check_positive("epsilon", epsilon)?;
        check_delta(delta)?;
        if problem.steps() != self.steps {
            return Err(Error::Dimension {
                what: "the problem, in steps,",
                expected: self.steps,
                actual: problem.steps(),
            });
        }
        let single = problem.clone().with_participation(crate::Participation::Single);
        let strategy = banded::with_bands(&single, self.groups, &mut unwatched)?;
        let squared = strategy.sensitivity(crate::Participation::Single)?.squared;
        let multiplier = noise_multiplier(epsilon, delta, self.rate, self.rounds())?;
        let scale = (contribution * squared.sqrt().next_up()).next_up();
        let sigma =
            check_positive("the noise that budget and bounds demand", (scale * multiplier.upper).next_up())?;
        let rows = strategy.row_norms()?;
        Ok(SampledPlan { sampling: *self, strategy: Arc::new(strategy), multiplier, squared, sigma, rows })
    }
}

/// A banded strategy with sampling, and the noise that (ε, δ) demands. It exists only calibrated.
///
/// # Example
/// ```
/// use dp_mechanisms::accountant::sampling::CyclicPoisson;
/// use dp_mechanisms::{Problem, Workload};
/// let problem = Problem::new(Workload::count(), 256)?;
/// // Everybody in one of 4 groups; a step draws 4 % of its group, 1 % of all.
/// let plan = CyclicPoisson::new(4, 0.04, 256)?.plan(&problem, 1.0, 2.0, 1e-6)?;
/// let independent = CyclicPoisson::new(1, 0.01, 256)?.plan(&problem, 1.0, 2.0, 1e-6)?;
/// assert!(plan.mean_squared_error() < independent.mean_squared_error());
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SampledPlan {
    sampling: CyclicPoisson,
    strategy: Arc<dyn Strategy>,
    multiplier: Bracket,
    squared: f64,
    sigma: f64,
    rows: RowNorms,
}

impl SampledPlan {
    /// Who takes part when.
    pub fn sampling(&self) -> CyclicPoisson {
        self.sampling
    }

    /// The strategy, with at most as many bands as there are groups.
    pub fn strategy(&self) -> &Arc<dyn Strategy> {
        &self.strategy
    }

    /// The noise multiplier of a block, and what it cannot be below.
    pub fn multiplier(&self) -> Bracket {
        self.multiplier
    }

    /// The squared column norm `Δ_1(C)²`, rounded up.
    pub fn sensitivity_squared(&self) -> f64 {
        self.squared
    }

    /// The standard deviation of every entry of `z`.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The mean over the steps of the variance of a released coordinate.
    pub fn mean_squared_error(&self) -> f64 {
        self.sigma * self.sigma * self.rows.mean()
    }

    /// The largest variance of a released coordinate.
    pub fn max_squared_error(&self) -> f64 {
        self.sigma * self.sigma * self.rows.max()
    }
}

/// Plans for 1, 2, 4, … bands, for steps that draw the fraction `share` of all people: b groups, each at the rate `b·share`. The
/// first has independent noise and the most amplification, the last correlates as far as one person's steps are apart and has
/// the least.
///
/// # Errors
/// Those of [`CyclicPoisson::plan`], and a share outside (0, 1].
pub fn compare_bands(
    problem: &Problem,
    share: f64,
    contribution: f64,
    epsilon: f64,
    delta: f64,
) -> Result<Vec<SampledPlan>> {
    check_rate(share)?;
    // Groups that a rate of at most 1 can serve; 1/share may be just below an integer.
    let most = ((1.0 / share) * (1.0 + 1e-12)).floor().min(problem.steps() as f64).min(MOST_BANDS) as usize;
    let mut bands: Vec<usize> =
        (0..usize::BITS).map(|power| 1_usize << power).take_while(|bands| *bands < most).collect();
    bands.push(most);
    bands
        .into_iter()
        .map(|bands| {
            let sampling = CyclicPoisson::new(bands, (bands as f64 * share).min(1.0), problem.steps())?;
            sampling.plan(problem, contribution, epsilon, delta)
        })
        .collect()
}

/// Each band costs a multiplication per coordinate and step; more than these are not considered.
const MOST_BANDS: f64 = 256.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Participation, Workload};

    fn problem(steps: usize) -> Problem {
        Problem::new(Workload::count(), steps).unwrap()
    }

    #[test]
    fn without_amplification_it_is_repeated_participation() {
        // Four groups, everybody of a group in each of its steps: 16 participations, 4 apart, exact in both accounts.
        let plan = CyclicPoisson::new(4, 1.0, 64).unwrap().plan(&problem(64), 1.0, 1.0, 1e-6).unwrap();
        let participation = Participation::repeated(16, 4).unwrap();
        let delta = plan.strategy().sensitivity(participation).unwrap().squared.sqrt();
        let sigma = delta / Budget::approximate(1.0, 1e-6).unwrap().mu();
        assert!((plan.sigma() / sigma - 1.0).abs() < 1e-9, "{} {sigma}", plan.sigma());
    }

    #[test]
    fn one_band_is_independent_noise() {
        let plan = CyclicPoisson::new(1, 0.05, 100).unwrap().plan(&problem(100), 2.0, 1.0, 1e-5).unwrap();
        let multiplier = noise_multiplier(1.0, 1e-5, 0.05, 100).unwrap();
        assert!((plan.sigma() / (2.0 * multiplier.upper) - 1.0).abs() < 1e-12);
        // Prefix sums of independent noise: the variance of step t is t σ².
        assert!((plan.max_squared_error() / (100.0 * plan.sigma().powi(2)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn strategies_have_no_more_bands_than_groups() {
        for groups in [1, 3, 8] {
            let plan =
                CyclicPoisson::new(groups, 0.1, 40).unwrap().plan(&problem(40), 1.0, 2.0, 1e-5).unwrap();
            let matrix = plan.strategy().materialize().unwrap().strategy;
            for ((row, column), value) in matrix.indexed_iter() {
                assert!(*value == 0.0 || (row >= column && row < column + groups), "{row} {column} {value}");
            }
            let longest =
                (0..40).map(|column| matrix.column(column).dot(&matrix.column(column))).fold(0.0, f64::max);
            // The dot products of the test round too, by 40 units in the last place at most.
            let ratio = plan.sensitivity_squared() / longest;
            assert!((1.0 - 40.0 * f64::EPSILON..1.001).contains(&ratio), "{groups}: {ratio}");
        }
    }

    #[test]
    fn the_best_number_of_bands_lies_between_the_ends() {
        let plans = compare_bands(&problem(512), 1.0 / 64.0, 1.0, 2.0, 1e-6).unwrap();
        let bands: Vec<usize> = plans.iter().map(|plan| plan.sampling().groups()).collect();
        assert_eq!(bands, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(plans[6].sampling().rate(), 1.0);
        let errors: Vec<f64> = plans.iter().map(SampledPlan::mean_squared_error).collect();
        let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(best < 0.98 * errors[0] && best < 0.98 * errors[6], "{errors:?}");
    }

    #[test]
    fn overflowing_batches_cost_what_their_probability_says() {
        let sampling = CyclicPoisson::new(2, 0.1, 10).unwrap();
        // P(Binomial(20, 0.1) ≥ 11), exactly, from the sum of its terms.
        let (mut term, mut exact) = (0.9_f64.powi(20), 0.0);
        for drawn in 0..20_u32 {
            if drawn >= 11 {
                exact += term;
            }
            term *= f64::from(20 - drawn) / f64::from(drawn + 1) / 9.0;
        }
        let bound = sampling.truncation_delta(20, 10, 1.0).unwrap();
        let floor = 10.0 * (1.0 + 1_f64.exp()) * exact;
        assert!(bound >= floor && bound < 20.0 * floor, "{bound} {floor}");
        assert_eq!(sampling.truncation_delta(20, 20, 1.0).unwrap(), 0.0);
        assert_eq!(sampling.truncation_delta(20, 1, 1.0).unwrap(), 1.0);
        assert!(
            sampling.truncation_delta(0, 1, 1.0).is_err() && sampling.truncation_delta(9, 0, 1.0).is_err()
        );
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(CyclicPoisson::new(0, 0.1, 10).is_err());
        assert!(CyclicPoisson::new(11, 0.1, 10).is_err());
        for rate in [0.0, 1.1, f64::NAN] {
            assert!(CyclicPoisson::new(2, rate, 10).is_err());
            assert!(compare_bands(&problem(10), rate, 1.0, 1.0, 1e-5).is_err());
        }
        let sampling = CyclicPoisson::new(2, 0.1, 10).unwrap();
        assert!(matches!(sampling.plan(&problem(11), 1.0, 1.0, 1e-5), Err(Error::Dimension { .. })));
        assert!(sampling.plan(&problem(10), 0.0, 1.0, 1e-5).is_err());
        assert!(sampling.plan(&problem(10), 1.0, -1.0, 1e-5).is_err());
        assert!(sampling.plan(&problem(10), 1.0, 1.0, 1.0).is_err());
    }
}
