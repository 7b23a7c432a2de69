//! Training with people who are drawn at random: bands, noise and strategy chosen together.

use dp_mechanisms::accountant::sampling::{CyclicPoisson, SampledPlan, Truncation, best, compare_bands};
use dp_mechanisms::budget::Kind;
use dp_mechanisms::noise::HashKey;
use dp_mechanisms::{Budget, Metric, Plan, Problem, Relation};

use super::{Aim, Trainer};
use crate::PoissonBatches;
use crate::error::{Error, Result, check_count};
use crate::sampled::SECRET;

/// How people are drawn in a training with cyclic Poisson sampling, and the guarantee that it is to give.
///
/// The expected size of a batch is [`Settings::batch`](super::Settings::batch), and there are as many steps as a fixed order
/// would have. Neighbours differ in whether a person takes part at all (zero-out).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CyclicSampling {
    /// The sums for which noise is correlated.
    pub aim: Aim,
    /// The number of groups that take turns, and of bands; the best number, if none is given. One is independent noise, as in
    /// DP-SGD.
    pub bands: Option<usize>,
    /// The largest number of people that a step has room for, paid for out of δ; everybody who is drawn, if none is given.
    pub capacity: Option<usize>,
    /// For the whole run: of (ε, δ).
    pub budget: Budget,
}

impl Trainer<'_> {
    /// A plan for 1, 2, 4, … bands, or for the number that is asked for alone.
    ///
    /// # Errors
    /// A budget that is not of (ε, δ), a capacity that overflows too often, more groups than batches in an epoch, or a workload
    /// without banded strategies (momentum with a schedule; correlate for [`Aim::Sums`] then).
    pub fn sampled_plans(&self, sampling: &CyclicSampling) -> Result<Vec<SampledPlan>> {
        let Kind::Approximate { epsilon, delta } = sampling.budget.kind() else {
            return Err(Error::OutOfRange {
                what: "delta of the budget",
                value: 0.0,
                range: "given with an epsilon: what sampling buys is known for one delta at a time",
            });
        };
        let (people, steps) = (self.examples.people(), self.batches.steps());
        let share = self.settings.batch as f64 / people as f64;
        let problem = Problem::new(self.workload(sampling.aim)?, steps)?;
        let contribution = self.clipping()?.norm();
        let truncation = match sampling.capacity {
            Some(capacity) => {
                check_count("capacity", capacity)?;
                Some(Truncation { people: people as u64, capacity: capacity as u64 })
            }
            None => None,
        };
        let Some(bands) = sampling.bands else {
            return Ok(compare_bands(&problem, share, truncation, contribution, epsilon, delta)?);
        };
        let mut drawn = CyclicPoisson::of_share(bands, share, steps)?;
        if let Some(truncation) = truncation {
            drawn = drawn.with_truncation(truncation)?;
        }
        Ok(vec![drawn.plan(&problem, contribution, epsilon, delta)?])
    }

    /// The best of several sampled plans, as a plan of this training's gradients.
    ///
    /// # Errors
    /// No plans; what [`SampledPlan::releases`] refuses.
    pub fn best_of(&self, plans: Vec<SampledPlan>) -> Result<Plan> {
        let Some(plan) = best(plans, Metric::Mse) else {
            return Err(Error::OutOfRange { what: "number of plans", value: 0.0, range: "at least 1" });
        };
        let footprint = self.clipping()?.footprint(Relation::ZeroOut, plan.sampling().participation())?;
        Ok(plan.releases(footprint)?)
    }

    /// The plan of least error in the model: bands, σ and strategy chosen together.
    ///
    /// # Errors
    /// As [`Trainer::sampled_plans`].
    pub fn sampled_plan(&self, sampling: &CyclicSampling) -> Result<Plan> {
        self.best_of(self.sampled_plans(sampling)?)
    }

    /// Refuses a plan for people who take part otherwise than this training lets them.
    pub(super) fn check_plan(&self, plan: &Plan) -> Result<()> {
        self.check_strategy(plan.strategy().as_ref())?;
        let participation = match plan.sampling() {
            None => self.batches.participation(),
            Some(sampling) => {
                let expected = self.examples.people() as f64 * sampling.rate() / sampling.groups() as f64;
                let batch = self.settings.batch as f64;
                if (expected - batch).abs() > 1e-9 * batch {
                    return Err(Error::OutOfRange {
                        what: "expected batch size of the plan",
                        value: expected,
                        range: "the batch size of the settings",
                    });
                }
                sampling.participation()
            }
        };
        match plan.footprint().terms().iter().find(|term| term.participation != participation) {
            None => Ok(()),
            Some(other) => Err(Error::Participation {
                planned: other.participation.to_string(),
                actual: participation.to_string(),
            }),
        }
    }

    /// Who is drawn, where the plan relies on it: by the secret of its noise, and by the people's places among the examples.
    pub(super) fn draws(&self, plan: &Plan, key: impl Fn(&str) -> HashKey) -> Result<Option<PoissonBatches>> {
        let people = (0..self.examples.people()).map(|person| (person as u64).to_le_bytes());
        plan.sampling().map(|sampling| PoissonBatches::new(sampling, people, key(SECRET))).transpose()
    }
}
