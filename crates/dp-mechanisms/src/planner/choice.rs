//! The strategy for what one person can change: the best one, found in the order of what trying it costs.

use std::sync::Arc;
use std::time::Duration;

use super::{Noise, Request, evaluate_watched, lower_bounds};
use crate::budget::{Budget, Kind};
use crate::error::{Error, Result};
use crate::plan::{Plan, stated};
use crate::problem::Problem;
use crate::sensitivity::{Footprint, Participation, Term};
use crate::strategy::{self, Method, Progress, Strategy, Watch, tell, unwatched};

/// Up to this many values, [`best`] lets a strategy keep one for every step and coordinate.
pub const COMFORTABLE_MEMORY: u64 = 1 << 20;

/// Beyond this many steps [`best`] computes no Gram matrix of C.
const GRAM_COMFORT: usize = 512;

/// [`best`] is content with a mean squared error this far above what nothing can beat, as a fraction.
const CONTENT: f64 = 0.005;

/// Below this many seconds the order in which strategies are tried does not matter.
const INSTANT: f64 = 0.05;

/// How many seconds [`best`] lets the fit of a dense strategy take, by [`Method::effort`] and not by a clock.
const PATIENCE: f64 = 2.0;

impl Plan {
    /// The main door: the strategy of least error for a problem and what one person can change, with the noise that the
    /// budget demands, in exact integers on the footprint's [grid](Footprint::grid).
    ///
    /// Which strategy it is follows from the arguments alone, so that a release can be continued on another machine. It is
    /// fitted to the participation of the footprint, whatever that of the problem. For another unit give the strategy of [`best`]
    /// to [`Plan::exact`].
    ///
    /// # Privacy
    /// That of [`Plan::exact`]: the budget, also for somebody who sees every bit. The choice looks at no data.
    ///
    /// # Errors
    /// As [`best_within`] and [`Plan::exact`].
    ///
    /// # Example
    /// ```
    /// use dp_mechanisms::{Budget, Footprint, Participation, Plan, Problem, Relation, Workload};
    /// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
    /// let year = Problem::new(Workload::count(), 365)?;
    /// let plan = Plan::best(&year, footprint, Budget::approximate(1.0, 1e-6)?)?;
    /// assert!(plan.standard_deviation(365).unwrap() < 13.0);
    /// # Ok::<(), dp_mechanisms::Error>(())
    /// ```
    pub fn best(problem: &Problem, footprint: Footprint, budget: Budget) -> Result<Self> {
        let (dimension, grid) = (stated(&footprint)? as u64, footprint.grid());
        let strategy = best_within(problem, &footprint, dimension, &budget, &mut unwatched)?;
        Self::exact(&strategy, footprint, budget, grid)
    }
}

/// [`best`] for the noise that a budget asks for: a pure ε takes Laplace noise, and of all strategies the best for that.
///
/// # Errors
/// As [`best_watched`].
pub fn best_within(
    problem: &Problem,
    footprint: &Footprint,
    dimension: u64,
    budget: &Budget,
    watch: &mut Watch<'_>,
) -> Result<Arc<dyn Strategy>> {
    let Kind::Pure { .. } = budget.kind() else {
        return best_watched(problem, footprint, dimension, watch);
    };
    let problem = problem.clone().with_participation(main_participation(footprint));
    // Without a time limit: a slower machine must choose the same strategy.
    let request = Request { noise: Noise::Laplace, time: Duration::MAX, ..Request::new(problem) };
    evaluate_watched(&request, watch)?.measurable(&request.problem, watch)
}

/// The strategy with the smallest error for what one person can change, where every one of `dimension` coordinates may have a
/// noise filter of its own, as in a [`SparseMechanism`](crate::SparseMechanism).
///
/// Strategies are fitted to the [`main_participation`] and judged by their sensitivity under the whole footprint; those
/// that the proof behind the footprint does not cover are left out, and so are those that cannot be measured on live data in
/// exact integers. Where steps times coordinates exceed
/// [`COMFORTABLE_MEMORY`], so are those whose filter remembers every step. Where somebody takes part repeatedly in more than
/// 512 steps, only Toeplitz strategies remain, for any other needs the Gram matrix of C for its sensitivity, and `scaled-sqrt` where
/// participations can fill the horizon: there the columns of one person do not meet. Where a dense strategy would
/// take more than some seconds, as under repetition from about 190 steps on, it is left to those who ask for it by name. Strategies are
/// tried in the order of what they cost to build, until one is within half a percent of the lower bound.
///
/// The choice depends on nothing but the arguments: a release that is continued on a slower machine has it again.
///
/// # Complexity
/// That of the bound, of building the strategies that are tried, and of their row norms.
///
/// # Errors
/// No strategy that applies.
pub fn best(problem: &Problem, footprint: &Footprint, dimension: u64) -> Result<Arc<dyn Strategy>> {
    best_watched(problem, footprint, dimension, &mut unwatched)
}

/// [`best`], under the eyes of somebody who can stop it.
///
/// # Errors
/// As [`best`], and [`Error::Interrupted`].
pub fn best_watched(
    problem: &Problem,
    footprint: &Footprint,
    dimension: u64,
    watch: &mut Watch<'_>,
) -> Result<Arc<dyn Strategy>> {
    let steps = problem.steps();
    let comfortable = dimension.saturating_mul(steps as u64) <= COMFORTABLE_MEMORY;
    let quick = steps <= GRAM_COMFORT
        || footprint.terms().iter().all(|term| term.participation.times_within(steps) == 1);
    let participation = main_participation(footprint);
    let single = problem.clone().with_participation(Participation::Single);
    let problem = single.clone().with_participation(participation);
    // Bands as wide as the participations are apart need no Gram matrix for any that are at least as far apart.
    let several = |term: &&Term| term.participation.times_within(steps) > 1;
    let apart = problem.fills_horizon()
        && footprint
            .terms()
            .iter()
            .filter(several)
            .all(|term| term.participation.separation() >= participation.separation());
    let mut methods: Vec<Method> = Method::ALL
        .iter()
        .copied()
        .filter(|method| {
            steps <= method.practical_limit(participation)
                && (comfortable || !method.remembers_every_step())
                && (quick || method.is_toeplitz() || (apart && *method == Method::ScaledSqrt))
                && !(matches!(method, Method::Optimal | Method::Structured)
                    && method.effort(&problem) > PATIENCE)
        })
        .collect();
    let cost = |method: &Method| method.effort(&problem).max(INSTANT);
    methods.sort_by(|left, right| cost(left).total_cmp(&cost(right)));
    let evaluate = |method: Method, watch: &mut Watch<'_>| -> Result<(f64, Arc<dyn Strategy>)> {
        tell(watch, Progress::Evaluation)?;
        let strategy = method.build_watched(&problem, watch)?;
        strategy::check_columns(strategy.as_ref(), footprint)?;
        // What cannot be measured on live data cannot be exact, and the choice is one for both arithmetics.
        strategy.measurement()?;
        let sensitivity =
            footprint.squared_sensitivity(|participation| strategy.sensitivity(participation))?;
        let rows = problem.row_norms(strategy.as_ref())?;
        Ok((sensitivity.squared * problem.total(&rows, problem.metric()), strategy))
    };
    // Whoever takes part more often than once has at least the sensitivity of taking part once.
    let weight: f64 = footprint.terms().iter().map(|term| term.weight * term.weight).sum();
    let floor = weight * lower_bounds(&single, &[])?.of(problem.metric());
    let mut best: Option<(f64, Arc<dyn Strategy>)> = None;
    for method in methods {
        // What does not serve the workload or the footprint is no candidate.
        let (error, strategy) = match evaluate(method, watch) {
            Ok(found) => found,
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(_) => continue,
        };
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, strategy));
        }
        if error <= (1.0 + CONTENT) * floor {
            break;
        }
    }
    best.map(|(_, strategy)| strategy).ok_or_else(|| Error::NotApplicable {
        strategy: "auto",
        workload: super::name_of(&problem),
        reason: "no strategy serves this workload and what one person can change",
    })
}

/// The participation of the heaviest term: what an optimized strategy is fitted to.
pub fn main_participation(footprint: &Footprint) -> Participation {
    let heaviest = footprint.terms().iter().max_by(|left, right| left.weight.total_cmp(&right.weight));
    heaviest.map_or(Participation::Single, |term| term.participation)
}
