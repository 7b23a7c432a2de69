//! Several statistics of one stream from one noise: total, window and daily value for less than splitting the budget.
//!
//! Everything is read off the noisy inputs `x + C⁻¹z`, so all statistics together cost one measurement `C x + z`; what
//! remains is to choose C for all of them ([`Problem::joint`]). The way from question to releases:
//!
//! 1. [`in_own_units`] weighs the statistics, each in units of the error that it would have alone;
//! 2. [`JointPlan::best`] chooses the strategy and calibrates it, and knows every statistic's standard deviation;
//! 3. a [`Mechanism`](crate::Mechanism) of [`JointPlan::plan`] takes inputs and gives them back with their noise, in whatever
//!    arithmetic the plan has;
//! 4. a [`Readout`] turns those into all statistics, one step at a time.
//!
//! Only the third touches data. The fourth is post-processing and may round, be repeated or be restored as it likes.
//!
//! For total, window of 7 and value of the step over 256 steps, equally weighted, the errors are 1.384, 1.353 and 1.525 times
//! those that each would have alone; three noises with a third of the budget each make that 3, 3 and 3.

use std::sync::Arc;

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::planner::{self, lower_bounds};
use crate::problem::{Metric, Problem, Statistic};
use crate::sensitivity::{Footprint, Participation, Relation};
use crate::strategy::{Method, RowNorms, Strategy};
use crate::workload::{Workload, WorkloadStream};

/// Statistics weighted so that one unit of importance is one unit of the error that the statistic would have alone:
/// `w_i = importance_i / E_i`.
///
/// # Complexity
/// That of planning each statistic by itself.
///
/// # Errors
/// Zero steps, an importance that is not finite and positive, or a workload that no strategy serves.
///
/// # Example
/// ```
/// use dp_mechanisms::{Participation, Problem, Workload, joint};
/// let wanted = [(Workload::count(), 1.0), (Workload::window(7)?, 1.0), (Workload::step(), 2.0)];
/// let statistics = joint::in_own_units(&wanted, 64, Participation::Single)?;
/// // Nothing has less error than 1 for the value of every step.
/// assert!((statistics[2].weight() - 2.0).abs() < 1e-6);
/// let problem = Problem::joint(statistics, 64)?;
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn in_own_units(
    wanted: &[(Workload, f64)],
    steps: usize,
    participation: Participation,
) -> Result<Vec<Statistic>> {
    wanted
        .iter()
        .map(|(workload, importance)| {
            // Checked before anything is computed.
            Statistic::new(workload.clone(), *importance)?;
            let problem = Problem::new(workload.clone(), steps)?.with_participation(participation);
            Statistic::new(workload.clone(), importance / least_alone(&problem)?)
        })
        .collect()
}

/// The mean squared error factor of the best strategy for one statistic: the dense optimum where it is affordable, and the
/// planner's choice beyond.
fn least_alone(problem: &Problem) -> Result<f64> {
    let participation = problem.participation();
    let strategy = if problem.steps() <= Method::Optimal.practical_limit(participation) {
        Method::Optimal.build(problem)?
    } else {
        planner::best(problem, &Footprint::scalar(0.0, 1.0, Relation::ZeroOut, participation)?, 1)?
    };
    problem.error(strategy.as_ref())
}

/// A strategy for several statistics, with the squared norms of the rows of every decoder `A_i C⁻¹`.
///
/// # Example
/// ```
/// use dp_mechanisms::{Joint, Method, Problem, Statistic, Workload};
/// let statistics = vec![Statistic::new(Workload::count(), 0.2)?, Statistic::new(Workload::step(), 1.0)?];
/// let problem = Problem::joint(statistics, 100)?;
/// let joint = Joint::new(problem.clone(), Method::ScaledSqrt.build(&problem)?)?;
/// assert_eq!(joint.report()?.statistics.len(), 2);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Joint {
    problem: Problem,
    strategy: Arc<dyn Strategy>,
    /// Those of the noisy inputs.
    inputs: RowNorms,
    /// Those of every statistic.
    rows: Vec<RowNorms>,
}

impl Joint {
    /// The best strategy for a joint problem and what one person can change, where every one of `dimension` coordinates may
    /// have a noise filter of its own; see [`planner::best`].
    ///
    /// # Errors
    /// A problem that is not joint, or as [`planner::best`].
    pub fn best(problem: Problem, footprint: &Footprint, dimension: u64) -> Result<Self> {
        let problem = problem.with_participation(planner::main_participation(footprint));
        check_joint(&problem)?;
        let strategy = planner::best(&problem, footprint, dimension)?;
        Self::new(problem, strategy)
    }

    /// A given strategy.
    ///
    /// # Errors
    /// A problem that is not joint, a strategy built for something else than its noisy inputs, or one whose noise serves
    /// one workload alone.
    pub fn new(problem: Problem, strategy: Arc<dyn Strategy>) -> Result<Self> {
        check_joint(&problem)?;
        if strategy.workload() != problem.workload() || strategy.steps() != problem.steps() {
            return Err(Error::NotApplicable {
                strategy: strategy.name(),
                workload: problem.workload().to_string(),
                reason: "it was built for another workload or number of steps",
            });
        }
        let inputs = strategy.row_norms()?;
        let rows = problem.row_norms(strategy.as_ref())?;
        Ok(Self { problem, strategy, inputs, rows })
    }

    /// What is asked for.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The strategy, whose workload is the input of every step.
    pub fn strategy(&self) -> &Arc<dyn Strategy> {
        &self.strategy
    }

    /// The squared norms of the rows of a statistic's decoder.
    pub fn row_norms(&self, statistic: usize) -> Option<&RowNorms> {
        self.rows.get(statistic)
    }

    /// A live reading of all statistics off vectors of the given dimension.
    ///
    /// # Errors
    /// A dimension of zero, or what the workloads refuse.
    pub fn readout(&self, dimension: usize) -> Result<Readout> {
        let stream = |one: &Statistic| one.workload().stream(self.problem.steps(), dimension);
        let streams = self.problem.statistics().iter().map(stream).collect::<Result<_>>()?;
        Ok(Readout { streams, dimension })
    }

    /// Every statistic's error beside what it would be alone, with a share of the budget, and at best.
    ///
    /// # Complexity
    /// That of planning each statistic by itself, and of the bounds.
    ///
    /// # Errors
    /// What planning refuses.
    pub fn report(&self) -> Result<JointReport> {
        let (steps, participation) = (self.problem.steps(), self.problem.participation());
        let squared = self.strategy.sensitivity(participation)?.squared;
        let bound = match self.strategy.proven_lower_bound() {
            Some((Metric::Mse, bound)) => bound,
            _ => lower_bounds(&self.problem.clone().with_metric(Metric::Mse), &[])?.mse,
        };
        let statistics = self.problem.statistics();
        let report = |(one, rows): (&Statistic, &RowNorms)| -> Result<StatisticReport> {
            let alone = Problem::new(one.workload().clone(), steps)?.with_participation(participation);
            let least = least_alone(&alone)?;
            let error = squared * rows.mean();
            Ok(StatisticReport {
                workload: one.workload().to_string(),
                weight: one.weight(),
                error,
                largest_error: squared * rows.max(),
                alone: least,
                above_alone: error / least,
                split: least * statistics.len() as f64,
                lower_bound: lower_bounds(&alone, &[])?.mse,
            })
        };
        let error = squared * self.problem.total(&self.rows, Metric::Mse);
        Ok(JointReport {
            strategy: self.strategy.name(),
            steps,
            participation: participation.to_string(),
            error,
            lower_bound: bound,
            gap: error / bound - 1.0,
            statistics: statistics.iter().zip(&self.rows).map(report).collect::<Result<_>>()?,
        })
    }
}

fn check_joint(problem: &Problem) -> Result<()> {
    if problem.is_joint() {
        return Ok(());
    }
    Err(Error::NotApplicable {
        strategy: "joint",
        workload: problem.workload().to_string(),
        reason: "the problem releases one statistic; ask with Problem::joint",
    })
}

/// What a joint plan is worth. Errors are factors E2 and E∞, per unit `(ζ/μ)²`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct JointReport {
    /// The strategy.
    pub strategy: &'static str,
    /// The number of steps.
    pub steps: usize,
    /// How often one person takes part.
    pub participation: String,
    /// `Σ w_i E_i`.
    pub error: f64,
    /// What no strategy can beat in that sum.
    pub lower_bound: f64,
    /// How far the sum lies above it, as a fraction.
    pub gap: f64,
    /// The statistics, one by one.
    pub statistics: Vec<StatisticReport>,
}

/// One statistic in a joint plan.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StatisticReport {
    /// Its name, as on the command line.
    pub workload: String,
    /// How much its squared error counts.
    pub weight: f64,
    /// Its mean squared error in the joint plan.
    pub error: f64,
    /// Its largest squared error in the joint plan.
    pub largest_error: f64,
    /// The mean squared error that it would have if it were alone and had the whole budget.
    pub alone: f64,
    /// The first of them over the last.
    pub above_alone: f64,
    /// Its mean squared error with a noise of its own and an equal share of the budget.
    pub split: f64,
    /// What no strategy can beat for it alone.
    pub lower_bound: f64,
}

/// A calibrated plan for several statistics of one stream.
///
/// # Privacy
/// All releases of all statistics together satisfy the plan's budget: they are post-processing of the noisy inputs that the
/// plan's mechanism releases, which do.
///
/// # Example
/// ```
/// use dp_mechanisms::{
///     Budget, Footprint, JointPlan, Mechanism, Participation, Problem, Relation, Seed, Workload, joint,
/// };
/// let once = Participation::Single;
/// let wanted = [(Workload::count(), 1.0), (Workload::window(7)?, 1.0), (Workload::step(), 1.0)];
/// let problem = Problem::joint(joint::in_own_units(&wanted, 90, once)?, 90)?;
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, once)?;
/// let plan = JointPlan::best(problem, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// let mut mechanism = Mechanism::new(plan.plan().clone(), Seed::reproducible(1))?;
/// let mut readout = plan.readout(1)?;
/// let (mut noisy, mut statistics) = ([0.0], [0.0; 3]);
/// for day in 1..=90 {
///     mechanism.release(&[1.0], &mut noisy)?;
///     readout.push(&noisy, &mut statistics)?;
///     let [total, week, today] = statistics;
///     assert!((total - f64::from(day)).abs() < 6.0 * plan.standard_deviation(0, day as usize).unwrap());
/// }
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct JointPlan {
    joint: Joint,
    plan: Plan,
    /// The standard deviation of an entry of z.
    sigma: f64,
}

impl JointPlan {
    /// The best strategy for the problem and what one person can change, with the noise that the budget demands, in exact
    /// integers: [`Plan::best`] for several statistics.
    ///
    /// # Errors
    /// As [`Joint::best`] and [`Plan::best`].
    pub fn best(problem: Problem, footprint: Footprint, budget: Budget) -> Result<Self> {
        let problem = problem.with_participation(planner::main_participation(&footprint));
        check_joint(&problem)?;
        let plan = Plan::best(&problem, footprint, budget)?;
        Self::new(Joint::new(problem, Arc::clone(plan.strategy()))?, plan)
    }

    /// A plan that was made for the strategy of the joint problem: exact or idealized, with whatever footprint and budget.
    ///
    /// # Errors
    /// A plan of another number of steps, or without a standard deviation for its first step.
    pub fn new(joint: Joint, plan: Plan) -> Result<Self> {
        let steps = joint.problem.steps();
        if plan.steps() != steps {
            return Err(Error::Dimension { what: "the plan", expected: steps, actual: plan.steps() });
        }
        let first = joint.inputs.at(0).and_then(|norm| Some(plan.standard_deviation(1)? / norm.sqrt()));
        let sigma = first.filter(|sigma| *sigma > 0.0 && sigma.is_finite());
        let sigma = sigma.ok_or(Error::OutOfRange {
            what: "the noise of the first step",
            value: first.unwrap_or(f64::NAN),
            range: "a finite positive number",
        })?;
        Ok(Self { joint, plan, sigma })
    }

    /// The plan of the noisy inputs, for a [`Mechanism`](crate::Mechanism).
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The statistics and their strategy.
    pub fn joint(&self) -> &Joint {
        &self.joint
    }

    /// The number of statistics.
    pub fn statistics(&self) -> usize {
        self.joint.rows.len()
    }

    /// The standard deviation of each coordinate of a statistic (counted from 0) at step `t` (counted from 1).
    pub fn standard_deviation(&self, statistic: usize, step: usize) -> Option<f64> {
        let squared = self.joint.row_norms(statistic)?.at(step.checked_sub(1)?)?;
        Some(self.sigma * squared.sqrt())
    }

    /// A release of a statistic (counted from 0) on the grid of the data, where it is a sum of inputs; see [`Plan::on_grid`].
    pub fn on_grid(&self, statistic: usize, release: f64) -> f64 {
        let one = self.joint.problem.statistics().get(statistic);
        one.map_or(release, |one| self.plan.on_grid_of(one.workload(), release))
    }

    /// A live reading of all statistics off what the plan's mechanism releases.
    ///
    /// # Errors
    /// As [`Joint::readout`].
    pub fn readout(&self, dimension: usize) -> Result<Readout> {
        self.joint.readout(dimension)
    }
}

/// Reads several statistics off noisy inputs, one step at a time.
///
/// # Complexity
/// That of all workload streams; nothing is allocated per step.
#[derive(Debug)]
pub struct Readout {
    streams: Vec<WorkloadStream>,
    dimension: usize,
}

impl Readout {
    /// Takes the noisy input of the next step and writes every statistic's vector, one after the other.
    ///
    /// # Errors
    /// A step past the horizon or vectors of the wrong length; nothing has changed then.
    pub fn push(&mut self, noisy: &[f64], statistics: &mut [f64]) -> Result<()> {
        let expected = self.streams.len() * self.dimension;
        if statistics.len() != expected {
            let actual = statistics.len();
            return Err(Error::Dimension { what: "the output buffer", expected, actual });
        }
        for (stream, output) in self.streams.iter_mut().zip(statistics.chunks_exact_mut(self.dimension)) {
            stream.push(noisy, output)?;
        }
        Ok(())
    }

    /// The number of steps read so far.
    pub fn step(&self) -> usize {
        self.streams.first().map_or(0, WorkloadStream::step)
    }

    /// Everything needed to read on later, statistic after statistic. It follows from what was released.
    pub fn state(&self) -> Vec<Vec<f64>> {
        self.streams.iter().map(WorkloadStream::state).collect()
    }

    /// Reads on from a saved state.
    ///
    /// # Errors
    /// A state of other statistics, or a step past the horizon; a readout that refused is not to be used.
    pub fn restore(&mut self, step: usize, saved: &[Vec<f64>]) -> Result<()> {
        if saved.len() != self.streams.len() {
            let (expected, actual) = (self.streams.len(), saved.len());
            return Err(Error::Dimension { what: "the saved readout", expected, actual });
        }
        self.streams.iter_mut().zip(saved).try_for_each(|(stream, saved)| stream.restore(step, saved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{CorrelatedNoise, GaussianSource, Seed, Side};
    use crate::planner::Request;
    use crate::{Mechanism, bounds};
    use approx::assert_relative_eq;

    fn wanted(names: &[&str]) -> Vec<(Workload, f64)> {
        names.iter().map(|name| (name.parse().unwrap(), 1.0)).collect()
    }

    fn problem(names: &[&str], steps: usize, participation: Participation) -> Problem {
        let statistics = in_own_units(&wanted(names), steps, participation).unwrap();
        Problem::joint(statistics, steps).unwrap().with_participation(participation)
    }

    #[test]
    fn the_joint_optimum_is_certified_and_has_the_reference_errors() {
        // An independent solution of the program, to four digits.
        let rows: [(&[&str], &[f64]); 2] = [
            (&["total", "window:7", "step"], &[1.384, 1.353, 1.525]),
            (&["total", "window:7"], &[1.171, 1.285]),
        ];
        for (names, expected) in rows {
            let problem = problem(names, 256, Participation::Single);
            let joint = Joint::new(problem.clone(), Method::Optimal.build(&problem).unwrap()).unwrap();
            let report = joint.report().unwrap();
            assert!(report.gap > -1e-9 && report.gap < 2e-6, "{names:?}: {}", report.gap);
            for (one, expected) in report.statistics.iter().zip(expected) {
                assert!((one.above_alone - expected).abs() < 6e-4, "{names:?}: {one:?}");
                assert_relative_eq!(one.split, names.len() as f64 * one.alone);
                assert!(one.lower_bound <= one.alone && one.lower_bound > 0.99 * one.alone, "{one:?}");
            }
        }
    }

    #[test]
    fn scaled_strategies_come_close_to_the_joint_optimum() {
        // An average weighs the first steps and a window all of them: one smooth scaling serves both less well.
        let rows: [(&[&str], f64); 4] = [
            (&["total", "window:7", "step"], 1.01),
            (&["total", "step"], 1.01),
            (&["exp:1.1", "step"], 1.01),
            (&["average", "window:30"], 1.08),
        ];
        for (names, limit) in rows {
            let problem = problem(names, 200, Participation::Single);
            let error = |method: Method| problem.error(method.build(&problem).unwrap().as_ref()).unwrap();
            let optimum = error(Method::Optimal);
            for method in [Method::ScaledSqrt, Method::ScaledBlt] {
                let ratio = error(method) / optimum;
                assert!(ratio > 1.0 - 1e-6 && ratio < limit, "{names:?} {method}: {ratio}");
            }
        }
    }

    #[test]
    fn every_row_norm_is_that_of_the_statistic_applied_to_the_one_noise() {
        let steps = 24;
        for participation in [Participation::Single, Participation::repeated(3, 8).unwrap()] {
            let problem =
                problem(&["total", "window:5", "exp:1.2", "poly:0.5", "average"], steps, participation);
            let mut served = 0;
            for &method in Method::ALL {
                let Ok(strategy) = method.build(&problem) else { continue };
                let Ok(joint) = Joint::new(problem.clone(), strategy) else { continue };
                served += 1;
                // B of the noisy inputs is C⁻¹ (or a left inverse).
                let noise = joint.strategy().materialize().unwrap().decoder;
                for (index, one) in problem.statistics().iter().enumerate() {
                    let decoder = one.workload().materialize(steps).unwrap().dot(&noise);
                    let rows = joint.row_norms(index).unwrap();
                    for (row, norm) in decoder.outer_iter().zip(rows.iter()) {
                        assert_relative_eq!(row.dot(&row), norm, max_relative = 1e-8);
                    }
                    // One noise: reading the strategy by a statistic changes nothing of it.
                    let read = joint.strategy().reading(one.workload()).unwrap();
                    let drawn = |strategy: &dyn Strategy| {
                        let source = Box::new(GaussianSource::new(Seed::reproducible(3), 1));
                        let mut noise = CorrelatedNoise::new(strategy, 1, Side::Input, source).unwrap();
                        let mut out = [0.0];
                        (0..steps)
                            .map(|_| {
                                noise.next_into(&mut out).unwrap();
                                out[0]
                            })
                            .collect::<Vec<f64>>()
                    };
                    for (a, b) in drawn(read.as_ref()).iter().zip(drawn(joint.strategy().as_ref())) {
                        assert!((a - b).abs() < 1e-9, "{method} {}", one.workload());
                    }
                    let squared =
                        |strategy: &dyn Strategy| strategy.sensitivity(participation).unwrap().squared;
                    assert_eq!(
                        squared(read.as_ref()).to_bits(),
                        squared(joint.strategy().as_ref()).to_bits()
                    );
                }
            }
            assert!(served >= 10, "{served}");
        }
    }

    #[test]
    fn certificates_of_long_streams_stay_below_the_optimum() {
        for names in [&["total", "window:7", "step"][..], &["window:20", "step"], &["exp:1.3", "poly:0.5"]] {
            let problem = problem(names, 300, Participation::Single);
            let optimum = problem.error(Method::Optimal.build(&problem).unwrap().as_ref()).unwrap();
            let circulant = bounds::joint_circulant(problem.statistics(), 300).unwrap().unwrap();
            assert!(circulant < optimum && circulant > 0.5 * optimum, "{names:?}: {circulant} {optimum}");
            // The sum of what each of them needs alone is a bound as well.
            let apart = names.len() as f64;
            assert!(apart <= optimum * (1.0 + 1e-6), "{names:?}: {optimum}");
        }
    }

    #[test]
    fn the_planner_compares_strategies_for_several_statistics() {
        let problem = problem(&["total", "step"], 60, Participation::Single);
        let report = planner::evaluate(&Request::new(problem)).unwrap();
        assert_eq!((report.chosen, report.workload.as_str()), ("optimal", "count + step"));
        assert!(report.strategies.len() >= 9 && report.strategies.iter().all(|one| one.gap > -1e-9));
        assert!(report.strategies[0].gap < 1e-5);
        assert!(report.skipped.iter().any(|skipped| skipped.name == "output"), "{:?}", report.skipped);
    }

    #[test]
    fn repeated_participation_is_planned_for_all_statistics() {
        let participation = Participation::repeated(4, 30).unwrap();
        let problem = problem(&["total", "step"], 120, participation);
        let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, participation).unwrap();
        let joint = Joint::best(problem.clone(), &footprint, 1).unwrap();
        let best = joint.report().unwrap();
        assert!(best.gap > 0.0 && best.gap < 0.1, "{} {}", best.strategy, best.gap);
        // Fitted to one participation it is worse.
        let once = problem.clone().with_participation(Participation::Single);
        let other = problem.error(Method::Optimal.build(&once).unwrap().as_ref()).unwrap();
        assert!(best.error < 0.95 * other, "{} {other}", best.error);
    }

    #[test]
    fn a_readout_is_what_each_statistic_makes_of_the_noisy_inputs_and_continues() {
        let steps = 20;
        let problem = problem(&["total", "window:3", "step", "average"], steps, Participation::Single);
        let footprint = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single).unwrap();
        let joint = Joint::best(problem.clone(), &footprint, 1).unwrap();
        let plan = Plan::idealized(Arc::clone(joint.strategy()), footprint, Budget::gaussian(1.0).unwrap());
        let plan = JointPlan::new(joint, plan.unwrap()).unwrap();
        let mut mechanism =
            Mechanism::new(plan.plan().clone().of_dimension(2).unwrap(), Seed::reproducible(9)).unwrap();
        let mut whole = plan.readout(2).unwrap();
        let mut streams: Vec<_> =
            problem.statistics().iter().map(|one| one.workload().stream(steps, 2).unwrap()).collect();
        let (mut noisy, mut out, mut other) = ([0.0; 2], [0.0; 8], [0.0; 8]);
        for step in 0..steps {
            if step == 7 {
                let mut resumed = plan.readout(2).unwrap();
                resumed.restore(whole.step(), &whole.state()).unwrap();
                whole = resumed;
            }
            mechanism.release(&[0.5, -0.5], &mut noisy).unwrap();
            whole.push(&noisy, &mut out).unwrap();
            for (stream, part) in streams.iter_mut().zip(other.chunks_exact_mut(2)) {
                stream.push(&noisy, part).unwrap();
            }
            assert_eq!(out, other);
        }
        assert!(matches!(whole.push(&noisy, &mut out), Err(Error::HorizonReached { .. })));
        assert!(plan.standard_deviation(0, 0).is_none() && plan.standard_deviation(4, 1).is_none());
        assert!(
            plan.standard_deviation(3, steps).is_some() && plan.standard_deviation(0, steps + 1).is_none()
        );
        assert_relative_eq!(
            plan.standard_deviation(2, 5).unwrap(),
            plan.plan().standard_deviation(5).unwrap(),
            max_relative = 1e-9
        );
    }

    #[test]
    fn what_is_not_joint_is_refused() {
        assert!(matches!(Problem::joint(Vec::new(), 5), Err(Error::Empty { .. })));
        assert!(Statistic::new(Workload::count(), f64::NAN).is_err());
        assert!(in_own_units(&[(Workload::count(), 0.0)], 5, Participation::Single).is_err());
        let single = Problem::new(Workload::count(), 5).unwrap();
        let strategy = Method::Sqrt.build(&single).unwrap();
        assert!(Joint::new(single, Arc::clone(&strategy)).is_err());
        let joint = problem(&["total"], 5, Participation::Single);
        assert!(Joint::new(joint.clone(), strategy).is_err());
        let output = Method::Output.build(&joint).unwrap();
        assert!(matches!(Joint::new(joint, output), Err(Error::NotApplicable { strategy: "output", .. })));
    }
}
