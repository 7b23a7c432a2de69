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

use std::fmt;
use std::sync::Arc;

use super::{Bracket, check_delta, check_rate, noise_multiplier};
use crate::budget::Budget;
use crate::error::{Error, Result, check_count, check_positive};
use crate::plan::Plan;
use crate::problem::{Metric, Problem};
use crate::sensitivity::{Footprint, Participation, Relation, Sensitivity};
use crate::strategy::toeplitz::Core;
use crate::strategy::{Measurement, RowNorms, Strategy, banded, unwatched};

/// Who may take part when: one of b groups in turn, each of its people with probability p.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CyclicPoisson {
    groups: usize,
    rate: f64,
    steps: usize,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    truncation: Option<Truncation>,
}

/// A buffer of fixed size: of everybody who is drawn, no more than `capacity` enter a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Truncation {
    /// The number of people in all groups together.
    pub people: u64,
    /// How many of them a step has room for.
    pub capacity: u64,
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
        Ok(Self { groups, rate, steps, truncation: None })
    }

    /// `groups` groups in turn, each at the rate at which a step draws the fraction `share` of all people.
    ///
    /// # Errors
    /// As [`CyclicPoisson::new`]; more groups than steps that it takes to draw everybody once.
    pub fn of_share(groups: usize, share: f64, steps: usize) -> Result<Self> {
        check_rate(share)?;
        let rate = groups as f64 * share;
        // 1/share may be just below an integer.
        if rate > 1.0 + 1e-12 {
            return Err(Error::OutOfRange {
                what: "groups",
                value: groups as f64,
                range: "at most as many as steps that draw everybody once on average",
            });
        }
        Self::new(groups, rate.min(1.0), steps)
    }

    /// The same with batches that are truncated; plans pay for it out of their δ.
    ///
    /// # Privacy
    /// Groups are drawn by a keyed hash, each person in any of them with probability 1/b, so the number drawn in a step is
    /// binomial over all people at the rate p/b; [`CyclicPoisson::truncation_delta`] has the rest of the proof.
    ///
    /// # Errors
    /// No people or no room.
    pub fn with_truncation(mut self, truncation: Truncation) -> Result<Self> {
        check_count("people", usize::try_from(truncation.people).unwrap_or(usize::MAX))?;
        check_count("capacity", usize::try_from(truncation.capacity).unwrap_or(usize::MAX))?;
        self.truncation = Some(truncation);
        Ok(self)
    }

    /// The room of a step, where it is bounded.
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// What is certain about one person without looking at the draws: in at most [`CyclicPoisson::rounds`] steps, b apart.
    pub fn participation(&self) -> Participation {
        // Neither number is zero.
        Participation::repeated(self.steps.div_ceil(self.groups), self.groups)
            .unwrap_or(Participation::Single)
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
        Ok(overflow_delta(people, self.rate, capacity, self.steps, epsilon))
    }

    /// What is left of δ once truncation is paid for.
    fn remaining_delta(&self, epsilon: f64, delta: f64) -> Result<f64> {
        let Some(Truncation { people, capacity }) = self.truncation else { return Ok(delta) };
        let rate = (self.rate / self.groups as f64).next_up();
        let left = (delta - overflow_delta(people, rate, capacity, self.steps, epsilon)).next_down();
        if left > 0.0 {
            return Ok(left);
        }
        Err(Error::OutOfRange {
            what: "capacity",
            value: capacity as f64,
            range: "large enough that a step overflows with less than delta; choose a larger one",
        })
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
        if problem.steps() != self.steps {
            return Err(Error::Dimension {
                what: "the problem, in steps,",
                expected: self.steps,
                actual: problem.steps(),
            });
        }
        let single = problem.clone().with_participation(Participation::Single);
        let strategy = banded::with_bands(&single, self.groups, &mut unwatched)?;
        self.plan_with(Arc::new(strategy), contribution, epsilon, delta)
    }

    /// The noise for a strategy of one's own.
    ///
    /// # Privacy
    /// As [`CyclicPoisson::plan`]. The number of bands is read off what the strategy measures.
    ///
    /// # Errors
    /// As [`CyclicPoisson::plan`]; a strategy over another number of steps, with more bands than there are groups, or with bands
    /// that cannot be counted.
    pub fn plan_with(
        &self,
        strategy: Arc<dyn Strategy>,
        contribution: f64,
        epsilon: f64,
        delta: f64,
    ) -> Result<SampledPlan> {
        check_positive("contribution", contribution)?;
        check_positive("epsilon", epsilon)?;
        check_delta(delta)?;
        if strategy.steps() != self.steps {
            return Err(Error::Dimension {
                what: "the strategy, in steps,",
                expected: self.steps,
                actual: strategy.steps(),
            });
        }
        let bands = bands(strategy.as_ref())?;
        if bands > self.groups {
            return Err(Error::OutOfRange {
                what: "bands of the strategy",
                value: bands as f64,
                range: "at most the number of groups",
            });
        }
        let remaining = self.remaining_delta(epsilon, delta)?;
        let squared = strategy.sensitivity(Participation::Single)?.squared;
        let multiplier = noise_multiplier(epsilon, remaining, self.rate, self.rounds())?;
        let scale = (contribution * squared.sqrt().next_up()).next_up();
        let sigma =
            check_positive("the noise that budget and bounds demand", (scale * multiplier.upper).next_up())?;
        let rows = strategy.row_norms()?;
        let budget = Budget::approximate(epsilon, delta)?;
        Ok(SampledPlan { sampling: *self, strategy, multiplier, squared, contribution, sigma, rows, budget })
    }
}

impl fmt::Display for CyclicPoisson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} groups in turn at the rate {}", self.groups, self.rate)?;
        match self.truncation {
            Some(Truncation { people, capacity }) => {
                write!(formatter, ", at most {capacity} of {people} people in a step")
            }
            None => Ok(()),
        }
    }
}

/// `(1 + e^ε)` times Chernoff's bound on the probability that any of so many steps draws more than `capacity` of so many people.
fn overflow_delta(people: u64, rate: f64, capacity: u64, steps: usize, epsilon: f64) -> f64 {
    if capacity >= people {
        return 0.0;
    }
    let (drawn, p) = ((capacity + 1) as f64 / people as f64, rate);
    if drawn <= p {
        return 1.0;
    }
    let rest = if drawn < 1.0 { (1.0 - drawn) * ((1.0 - drawn) / (1.0 - p)).ln() } else { 0.0 };
    let divergence = drawn * (drawn / p).ln() + rest;
    // Rounded up by more than the logarithms can be wrong.
    let overflow = steps as f64 * (-(people as f64) * divergence * (1.0 - 1e-12)).exp();
    ((1.0 + epsilon.exp()) * overflow * (1.0 + 1e-12)).min(1.0)
}

/// One more than the largest distance between row and column of an entry of C that is not zero.
fn bands(strategy: &dyn Strategy) -> Result<usize> {
    match strategy.measurement()? {
        Measurement::Toeplitz(Core::Banded(band)) | Measurement::Scaled { core: Core::Banded(band), .. } => {
            Ok(band.len())
        }
        Measurement::Dense(matrix) if matrix.is_square() => {
            let distances = matrix.indexed_iter().filter(|(_, entry)| **entry != 0.0);
            Ok(distances.map(|((row, column), _)| row.abs_diff(column) + 1).max().unwrap_or(1))
        }
        _ => Err(Error::NotApplicable {
            strategy: strategy.name(),
            workload: strategy.workload().to_string(),
            reason: "sampling needs a strategy with few bands: identity or banded",
        }),
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
    contribution: f64,
    sigma: f64,
    rows: RowNorms,
    budget: Budget,
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

    /// The variance that a metric asks for.
    pub fn error(&self, metric: Metric) -> f64 {
        self.sigma * self.sigma * metric.of(&self.rows)
    }

    /// The plan by which a mechanism releases what is measured of the people who were drawn.
    ///
    /// # Privacy
    /// The footprint says what one person changes where they take part: no more than the contribution that the noise is for, in
    /// the steps of [`CyclicPoisson::participation`]. That they take part with the probability of the sampling, and that nobody sees
    /// when, is up to whoever fills the steps; `dp_ftrl::batches::PoissonBatches` draws them from the mechanism's own secret.
    ///
    /// # Errors
    /// A relation other than zero-out, another participation, or a contribution that is larger than planned.
    pub fn releases(&self, footprint: Footprint) -> Result<Plan> {
        if footprint.relation() != Relation::ZeroOut {
            return Err(Error::NotApplicable {
                strategy: self.strategy.name(),
                workload: self.strategy.workload().to_string(),
                reason: "what sampling amplifies is proved for adding or removing a person: the relation zero-out",
            });
        }
        if footprint.terms().iter().any(|term| term.participation != self.sampling.participation()) {
            return Err(Error::OutOfRange {
                what: "participation of the footprint",
                value: self.sampling.groups as f64,
                range: "that of the sampling, as many steps apart as there are groups",
            });
        }
        // Unit columns: what is left is the squared contribution.
        let unit = footprint.squared_sensitivity(|_| Ok(Sensitivity { squared: 1.0, exact: true }))?;
        // The sum of squares is rounded up, by a few units in the last place.
        if unit.squared.sqrt() > self.contribution * (1.0 + 1e-12) {
            return Err(Error::OutOfRange {
                what: "contribution of one person",
                value: unit.squared.sqrt(),
                range: "at most that of the plan",
            });
        }
        let squared = (unit.squared * self.squared).next_up();
        // At least the planned noise, and more by what rounding of the footprint may have added.
        let sigma = self.sigma.max((squared.sqrt().next_up() * self.multiplier.upper).next_up());
        Ok(Plan::sampled(
            Arc::clone(&self.strategy),
            footprint,
            self.budget,
            Sensitivity { squared, exact: true },
            sigma,
            self.rows.clone(),
            self.sampling,
        ))
    }
}

/// The plan of least error for a metric.
pub fn best(plans: Vec<SampledPlan>, metric: Metric) -> Option<SampledPlan> {
    plans.into_iter().min_by(|one, other| one.error(metric).total_cmp(&other.error(metric)))
}

/// Plans for 1, 2, 4, … bands, for steps that draw the fraction `share` of all people: b groups, each at the rate `b·share`. The
/// first has independent noise and the most amplification, the last correlates as far as one person's steps are apart and has
/// the least.
///
/// Errors are those of the noise. That a batch is drawn at random also makes its sum vary around what all people would give, by a
/// variance that depends on the data, and therefore stands in no plan: people who contribute vectors of mean square m add
/// `share·(1 - rate)·m` each to the variance of a step, less with more groups, and nothing at the rate 1.
///
/// # Errors
/// Those of [`CyclicPoisson::plan`], and a share outside (0, 1].
pub fn compare_bands(
    problem: &Problem,
    share: f64,
    truncation: Option<Truncation>,
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
            let sampling = CyclicPoisson::of_share(bands, share, problem.steps())?;
            let sampling = truncation.map_or(Ok(sampling), |room| sampling.with_truncation(room))?;
            sampling.plan(problem, contribution, epsilon, delta)
        })
        .collect()
}

/// Each band costs a multiplication per coordinate and step; more than these are not considered.
const MOST_BANDS: f64 = 256.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensitivity::Term;
    use crate::{Method, Workload};

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
        let plans = compare_bands(&problem(512), 1.0 / 64.0, None, 1.0, 2.0, 1e-6).unwrap();
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
    fn truncated_batches_are_paid_for_out_of_delta() {
        let sampling = CyclicPoisson::new(4, 0.04, 64).unwrap();
        let plan = |capacity: u64, delta: f64| {
            let room = Truncation { people: 10_000, capacity };
            sampling.with_truncation(room).unwrap().plan(&problem(64), 1.0, 2.0, delta)
        };
        // A step draws 100 of 10,000 on average, with a deviation of 10: 200 is ten deviations away, 120 two of them.
        let sigma = |plan: SampledPlan| plan.sigma();
        let free = sampling.plan(&problem(64), 1.0, 2.0, 1e-6).unwrap();
        assert_eq!(sigma(plan(10_000, 1e-6).unwrap()), free.sigma());
        let wide = sigma(plan(200, 1e-6).unwrap());
        assert!(wide >= free.sigma() && wide < free.sigma() * 1.001);
        assert!(matches!(plan(120, 1e-6), Err(Error::OutOfRange { what: "capacity", .. })));
        // What is left of δ is what the noise is made for.
        let spent = CyclicPoisson::new(1, 0.01, 64).unwrap().truncation_delta(10_000, 175, 2.0).unwrap();
        let left = sampling.plan(&problem(64), 1.0, 2.0, 1e-6 - spent).unwrap();
        assert!(spent > 1e-9 && spent < 1e-6, "{spent}");
        assert!((sigma(plan(175, 1e-6).unwrap()) / left.sigma() - 1.0).abs() < 1e-9);
        for bad in [Truncation { people: 0, capacity: 1 }, Truncation { people: 1, capacity: 0 }] {
            assert!(sampling.with_truncation(bad).is_err());
        }
    }

    #[test]
    fn releases_follow_the_footprint_that_was_planned() {
        let sampling = CyclicPoisson::new(4, 0.1, 40).unwrap();
        let planned = sampling.plan(&problem(40), 5.0, 2.0, 1e-5).unwrap();
        let footprint = |weights: &[f64], relation, participation| {
            let terms = weights.iter().map(|weight| Term { weight: *weight, participation }).collect();
            Footprint::encoded(terms, relation).unwrap()
        };
        let (ten, zero_out) = (sampling.participation(), Relation::ZeroOut);
        assert_eq!(ten, Participation::repeated(10, 4).unwrap());
        let plan = planned.releases(footprint(&[3.0, 4.0], zero_out, ten)).unwrap();
        assert!(plan.sigma() >= planned.sigma() && plan.sigma() < planned.sigma() * (1.0 + 1e-12));
        assert_eq!((plan.sampling(), plan.steps()), (Some(sampling), 40));
        assert!(plan.identity().to_string().contains("sampling=4 groups in turn at the rate 0.1"));
        for bad in [
            footprint(&[3.0, 4.1], zero_out, ten),
            footprint(&[5.0], zero_out, Participation::Single),
            footprint(&[5.0], zero_out, Participation::repeated(10, 3).unwrap()),
            footprint(&[2.0], Relation::Replace, ten),
        ] {
            assert!(planned.releases(bad.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn strategies_of_ones_own_are_taken_if_their_bands_are_few() {
        let sampling = CyclicPoisson::new(3, 0.1, 30).unwrap();
        let banded = |bands| -> Arc<dyn Strategy> {
            Arc::new(banded::with_bands(&problem(30), bands, &mut unwatched).unwrap())
        };
        let own = sampling.plan_with(banded(2), 1.0, 1.0, 1e-5).unwrap();
        assert_eq!(own.sampling(), sampling);
        let refused = |strategy| sampling.plan_with(strategy, 1.0, 1.0, 1e-5).unwrap_err();
        assert!(
            matches!(refused(banded(4)), Error::OutOfRange { what: "bands of the strategy", value, .. } if value == 4.0)
        );
        let build = |method: Method, steps| method.build(&problem(steps)).unwrap();
        assert!(sampling.plan_with(build(Method::Identity, 30), 1.0, 1.0, 1e-5).is_ok());
        assert!(matches!(refused(build(Method::Sqrt, 30)), Error::NotApplicable { .. }));
        assert!(matches!(refused(build(Method::Optimal, 30)), Error::OutOfRange { .. }));
        assert!(matches!(refused(build(Method::Identity, 31)), Error::Dimension { .. }));
    }

    #[test]
    fn bad_input_is_refused() {
        assert!(
            CyclicPoisson::of_share(5, 0.25, 10).is_err() && CyclicPoisson::of_share(4, 0.25, 10).is_ok()
        );
        assert!(CyclicPoisson::new(0, 0.1, 10).is_err());
        assert!(CyclicPoisson::new(11, 0.1, 10).is_err());
        for rate in [0.0, 1.1, f64::NAN] {
            assert!(CyclicPoisson::new(2, rate, 10).is_err());
            assert!(compare_bands(&problem(10), rate, None, 1.0, 1.0, 1e-5).is_err());
        }
        let sampling = CyclicPoisson::new(2, 0.1, 10).unwrap();
        assert!(matches!(sampling.plan(&problem(11), 1.0, 1.0, 1e-5), Err(Error::Dimension { .. })));
        assert!(sampling.plan(&problem(10), 0.0, 1.0, 1e-5).is_err());
        assert!(sampling.plan(&problem(10), 1.0, -1.0, 1e-5).is_err());
        assert!(sampling.plan(&problem(10), 1.0, 1.0, 1.0).is_err());
    }
}
