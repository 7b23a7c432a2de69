//! Choosing a strategy by computation: every applicable one is evaluated, the best is picked, and a lower bound
//! says how much better any other could be.
//!
//! [`evaluate`] compares all strategies, `choice` picks one for what one person can change, and `floor` proves what none
//! of them can beat.

mod choice;
mod floor;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result, check_count};
use crate::problem::{Metric, Problem};
use crate::sensitivity::{Participation, Sensitivity};
use crate::strategy::{Method, Progress, RowNorms, Strategy, Watch, tell, unwatched};

pub use choice::{COMFORTABLE_MEMORY, best, best_watched, best_within, main_participation};
pub use floor::lower_bound;
pub(crate) use floor::lower_bounds;

/// What is asked of the planner.
#[derive(Debug, Clone)]
pub struct Request {
    /// What the strategies are built for, and the error to minimize.
    pub problem: Problem,
    /// One strategy alone, or all of them.
    pub method: Option<Method>,
    /// The number of coordinates, for the memory.
    pub dimension: usize,
    /// The largest number of `f64` values the noise may keep, if limited.
    pub memory: Option<usize>,
    /// Once this much time has passed and one strategy is known, no further one is tried and the one at hand is given up.
    pub time: Duration,
    /// Strategies from elsewhere, built for the problem, that are compared with the others;
    /// [`crate::conformance::check`] says whether they keep what a [`Strategy`] promises.
    pub others: Vec<Arc<dyn Strategy>>,
    /// The noise that the budget asks for.
    pub noise: Noise,
}

/// What is added to measurements, and hence the norm in which columns of C are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Noise {
    /// Gaussian noise: `Δ² = Δ_2²`, and variances are error factors over μ².
    #[default]
    Gaussian,
    /// Laplace noise, of pure ε: `Δ² = Δ_1²`, and variances are twice error factors over ε². Only strategies whose decoder needs
    /// no later measurements have a guarantee. No ℓ1 norm is below the ℓ2 norm, so the lower bounds hold here as well.
    Laplace,
}

impl Request {
    /// All strategies for a problem, for streams of one coordinate.
    pub fn new(problem: Problem) -> Self {
        Self {
            problem,
            method: None,
            dimension: 1,
            memory: None,
            time: Duration::from_secs(20),
            others: Vec::new(),
            noise: Noise::Gaussian,
        }
    }
}

/// One evaluated strategy. `mse` and `max_se` are the factors E2 and E∞, per unit `(ζ/μ)²`; for several statistics their
/// weighted sums.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Evaluation {
    /// The name.
    pub name: &'static str,
    /// `Δ(C)²`.
    pub sensitivity_squared: f64,
    /// Whether the sensitivity is attained, or a proven upper bound.
    pub sensitivity_exact: bool,
    /// `E2 = Δ² ‖B‖_F² / n`.
    pub mse: f64,
    /// `E∞ = Δ² max_t ‖b_t‖²`.
    pub max_se: f64,
    /// How far the chosen metric lies above the lower bound, as a fraction.
    pub gap: f64,
    /// The `f64` values its noise keeps.
    pub memory: usize,
    /// Whether every row of B was computed, or some interpolated.
    pub exact: bool,
    /// Seconds spent on building and evaluating it.
    pub seconds: f64,
}

/// A strategy that was not evaluated.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Skipped {
    /// The name.
    pub name: &'static str,
    /// Why.
    pub reason: String,
}

/// The lower bounds beside which the strategies are reported.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Bounds {
    /// A lower bound on E2.
    pub mse: f64,
    /// What proves it.
    pub kind: String,
    /// A lower bound on E∞.
    pub max_se: f64,
    /// What proves that.
    pub max_kind: String,
}

/// What the planner found.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Report {
    /// The workload, as on the command line, or all statistics.
    pub workload: String,
    /// The number of steps.
    pub steps: usize,
    /// The error that was minimized.
    pub metric: Metric,
    /// How often one person takes part.
    pub participation: String,
    /// What nothing can beat.
    pub lower_bound: Bounds,
    /// The evaluated strategies, best first.
    pub strategies: Vec<Evaluation>,
    /// The strategies that were not evaluated.
    pub skipped: Vec<Skipped>,
    /// The best one.
    pub chosen: &'static str,
    /// The best one, built.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub strategy: Arc<dyn Strategy>,
}

impl Report {
    /// The best of the strategies that can be measured on live data, for exact plans; the problem is the one of the request.
    ///
    /// # Errors
    /// No strategy that can be, or [`Error::Interrupted`].
    pub fn measurable(&self, problem: &Problem, watch: &mut Watch<'_>) -> Result<Arc<dyn Strategy>> {
        let mut refusal = Error::Empty { what: "the list of strategies that can be measured on live data" };
        for one in &self.strategies {
            let strategy = if one.name == self.chosen {
                Arc::clone(&self.strategy)
            } else {
                one.name.parse::<Method>()?.build_watched(problem, watch)?
            };
            match strategy.measurement() {
                Ok(_) => return Ok(strategy),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// The best of the methods that can be built for any number of steps, for epochs that double for ever.
    ///
    /// # Errors
    /// No such method among the strategies.
    pub fn endless(&self, participation: Participation) -> Result<Method> {
        Ok(self.endless_methods(participation)?[0])
    }

    /// All of them, the best first: exact measurements need one that can be measured on live data.
    ///
    /// # Errors
    /// As [`Report::endless`].
    pub fn endless_methods(&self, participation: Participation) -> Result<Vec<Method>> {
        let methods = self.strategies.iter().filter_map(|one| one.name.parse::<Method>().ok());
        let endless: Vec<Method> =
            methods.filter(|method| method.practical_limit(participation) == usize::MAX).collect();
        if endless.is_empty() {
            return Err(Error::NotApplicable {
                strategy: "auto",
                workload: self.workload.clone(),
                reason: "no strategy serves this workload for ever",
            });
        }
        Ok(endless)
    }
}

/// Evaluates the strategies and picks the best.
///
/// Strategies are tried in the order of what they are expected to take, whatever the horizon.
///
/// # Complexity
/// That of building each strategy and of its row norms, and one decomposition of an n×n matrix for the bound up to
/// 1024 steps; bounded by the requested time.
///
/// # Errors
/// A dimension of zero, or no strategy that applies within the limits.
///
/// # Example
/// ```
/// use dp_mechanisms::{Problem, Workload, planner};
/// let report = planner::evaluate(&planner::Request::new(Problem::new(Workload::count(), 64)?))?;
/// assert!(report.strategies[0].gap < 0.01);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn evaluate(request: &Request) -> Result<Report> {
    evaluate_watched(request, &mut unwatched)
}

/// [`evaluate`], under the eyes of somebody who sees what it is doing and can stop it.
///
/// # Errors
/// As [`evaluate`], and [`Error::Interrupted`].
pub fn evaluate_watched(request: &Request, watch: &mut Watch<'_>) -> Result<Report> {
    check_count("dimension", request.dimension)?;
    let Request { problem, .. } = request;
    let start = Instant::now();
    let mut methods: Vec<Method> = request.method.map_or_else(|| Method::ALL.to_vec(), |method| vec![method]);
    methods.sort_by(|left, right| left.effort(problem).total_cmp(&right.effort(problem)));
    let mut found: Vec<(Evaluation, Arc<dyn Strategy>)> = Vec::new();
    let mut skipped = Vec::new();
    for other in &request.others {
        check_fits(other.as_ref(), problem)?;
        found.push(evaluate_one(other.name(), request, watch, |_| Ok(Arc::clone(other)))?);
    }
    let of = methods.len();
    for (position, &method) in methods.iter().enumerate() {
        let name = method.name();
        tell(watch, Progress::Strategy { name, position, of })?;
        let left = request.time.saturating_sub(start.elapsed());
        if request.method.is_none()
            && let Some(reason) = refusal(method, problem, left, found.is_empty())
        {
            skipped.push(Skipped { name, reason });
            continue;
        }
        let short = method.practical_limit(problem.participation()) == usize::MAX;
        if request.method.is_none() && request.noise == Noise::Laplace && !short {
            skipped.push(Skipped { name, reason: "its columns are long in ℓ1".to_owned() });
            continue;
        }
        let mut over = false;
        let mut timed = |progress| {
            // What was begun is given up once there is something else to show.
            if !found.is_empty() && start.elapsed() > request.time {
                over = true;
                return ControlFlow::Break(());
            }
            watch(progress)
        };
        match evaluate_one(name, request, &mut timed, |watch| method.build_watched(problem, watch)) {
            Ok(pair) => match request.memory {
                Some(limit) if pair.0.memory > limit => {
                    let reason = format!("keeps {} values, above the limit of {limit}", pair.0.memory);
                    skipped.push(Skipped { name, reason });
                }
                _ => found.push(pair),
            },
            Err(Error::Interrupted) if over => skipped.push(Skipped { name, reason: OUT_OF_TIME.to_owned() }),
            Err(error) if request.method.is_none() && error != Error::Interrupted => {
                skipped.push(Skipped { name, reason: error.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    let lower_bound = lower_bounds(problem, &found)?;
    let floor = match problem.metric() {
        Metric::Mse => lower_bound.mse,
        Metric::Max => lower_bound.max_se,
    };
    let value = |evaluation: &Evaluation| match problem.metric() {
        Metric::Mse => evaluation.mse,
        Metric::Max => evaluation.max_se,
    };
    for (evaluation, _) in &mut found {
        evaluation.gap = value(evaluation) / floor - 1.0;
    }
    found.sort_by(|(left, _), (right, _)| value(left).total_cmp(&value(right)));
    let Some((best, strategy)) = found.first() else {
        return Err(Error::NotApplicable {
            strategy: "auto",
            workload: name_of(problem),
            reason: "no strategy fits the memory limit",
        });
    };
    Ok(Report {
        workload: name_of(problem),
        steps: problem.steps(),
        metric: problem.metric(),
        participation: problem.participation().to_string(),
        lower_bound,
        chosen: best.name,
        strategy: Arc::clone(strategy),
        strategies: found.iter().map(|(evaluation, _)| evaluation.clone()).collect(),
        skipped,
    })
}

/// Why a strategy that was not given up is not in the table.
const OUT_OF_TIME: &str = "the time limit was reached";

/// Why the planner does not try a method on its own account, if so.
fn refusal(method: Method, problem: &Problem, left: Duration, nothing_yet: bool) -> Option<String> {
    let limit = method.practical_limit(problem.participation());
    if problem.steps() > limit {
        return Some(format!("takes too long beyond {limit} steps unless asked for by name"));
    }
    if nothing_yet {
        return None;
    }
    if left.is_zero() {
        return Some(OUT_OF_TIME.to_owned());
    }
    let expected = method.effort(problem);
    (expected > left.as_secs_f64())
        .then(|| format!("would take about {expected:.0} s, more than is left of the time limit"))
}

/// The statistics of a problem, as on the command line.
fn name_of(problem: &Problem) -> String {
    let names: Vec<String> = problem.statistics().iter().map(|one| one.workload().to_string()).collect();
    names.join(" + ")
}

/// Refuses a strategy from elsewhere that was built for something else.
fn check_fits(strategy: &dyn Strategy, problem: &Problem) -> Result<()> {
    if strategy.workload() == problem.workload() && strategy.steps() == problem.steps() {
        return Ok(());
    }
    Err(Error::NotApplicable {
        strategy: strategy.name(),
        workload: name_of(problem),
        reason: "it was built for another workload or number of steps",
    })
}

fn evaluate_one(
    name: &'static str,
    request: &Request,
    watch: &mut Watch<'_>,
    build: impl FnOnce(&mut Watch<'_>) -> Result<Arc<dyn Strategy>>,
) -> Result<(Evaluation, Arc<dyn Strategy>)> {
    let start = Instant::now();
    let problem = &request.problem;
    let strategy = build(watch)?;
    tell(watch, Progress::Evaluation)?;
    let participation = problem.participation();
    let sensitivity = match request.noise {
        Noise::Gaussian => strategy.sensitivity(participation)?,
        Noise::Laplace => {
            let absolute = strategy.absolute_sensitivity(participation)?;
            Sensitivity::upper_bound((absolute * absolute).next_up())
        }
    };
    tell(watch, Progress::Evaluation)?;
    let rows = problem.row_norms(strategy.as_ref())?;
    let evaluation = Evaluation {
        name,
        sensitivity_squared: sensitivity.squared,
        sensitivity_exact: sensitivity.exact,
        mse: sensitivity.squared * problem.total(&rows, Metric::Mse),
        max_se: sensitivity.squared * problem.total(&rows, Metric::Max),
        gap: f64::NAN,
        memory: strategy.memory(request.dimension),
        exact: rows.iter().all(RowNorms::is_exact),
        seconds: start.elapsed().as_secs_f64(),
    };
    Ok((evaluation, strategy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::sensitivity::{Footprint, Relation, Term};
    use crate::strategy::Measurement;
    use crate::workload::Workload;

    fn request(workload: &Workload, steps: usize) -> Request {
        Request::new(Problem::new(workload.clone(), steps).unwrap())
    }

    #[test]
    fn the_best_is_picked_and_certified() {
        for (text, metric) in [("count", Metric::Mse), ("window:16", Metric::Mse), ("average", Metric::Max)] {
            let problem = Problem::new(text.parse().unwrap(), 64).unwrap().with_metric(metric);
            let report = evaluate(&Request::new(problem)).unwrap();
            for pair in report.strategies.windows(2) {
                assert!(pair[0].gap <= pair[1].gap);
            }
            let best = &report.strategies[0];
            assert_eq!(best.name, report.chosen);
            assert!(best.gap >= -1e-9 && best.gap < 0.02, "{text}: {best:?}");
        }
    }

    #[test]
    fn whoever_watches_sees_every_strategy_and_the_gap_of_the_optimum() {
        let mut seen = Vec::new();
        let request = request(&Workload::count(), 32);
        let mut watch = |progress| {
            seen.push(progress);
            ControlFlow::Continue(())
        };
        let report = evaluate_watched(&request, &mut watch).unwrap();
        let names: Vec<&str> = seen
            .iter()
            .filter_map(|progress| match progress {
                Progress::Strategy { name, .. } => Some(*name),
                _ => None,
            })
            .collect();
        assert_eq!(names.len(), Method::ALL.len());
        assert!(Method::ALL.iter().all(|method| names.contains(&method.name())));
        let last = seen.iter().rev().find_map(|progress| match progress {
            Progress::Optimum { gap, .. } => Some(*gap),
            _ => None,
        });
        assert!(last.is_some_and(|gap| gap < 1e-6), "{last:?}");
        assert_eq!(
            report.strategies,
            evaluate(&request)
                .unwrap()
                .strategies
                .iter()
                .zip(&report.strategies)
                .map(|(one, other)| Evaluation { seconds: other.seconds, ..one.clone() })
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn laplace_noise_has_other_strategies() {
        for (text, steps, best) in
            [("count", 8, "identity"), ("count", 300, "weighted-tree"), ("window:3", 50, "identity")]
        {
            let mut request = request(&text.parse().unwrap(), steps);
            request.noise = Noise::Laplace;
            let report = evaluate(&request).unwrap();
            let identity = report.strategies.iter().find(|one| one.name == "identity").unwrap();
            // Below some length the weighted tree is the identity, up to the rounding of the bound.
            let tie = (report.strategies[0].mse / identity.mse - 1.0).abs() < 1e-12;
            assert!(report.chosen == best || best == "identity" && tie, "{text} {}", report.chosen);
            // The ℓ2 bound holds, and is far.
            assert!(report.strategies.iter().all(|one| one.gap >= 0.0));
            assert!(report.skipped.iter().any(|skipped| skipped.name == "honaker-full"));
        }
    }

    #[test]
    fn limits_are_respected() {
        let mut request = request(&Workload::count(), 64);
        request.memory = Some(10);
        let report = evaluate(&request).unwrap();
        assert!(report.strategies.iter().all(|evaluation| evaluation.memory <= 10));
        assert!(report.skipped.iter().any(|skipped| skipped.name == "sqrt"));
        request.memory = Some(0);
        request.method = Some(Method::Blt);
        assert!(matches!(evaluate(&request), Err(Error::NotApplicable { strategy: "auto", .. })));
        request.dimension = 0;
        assert!(matches!(evaluate(&request), Err(Error::OutOfRange { what: "dimension", .. })));
    }

    #[test]
    fn a_footprint_gets_the_strategy_that_its_proof_and_the_memory_allow() {
        let once = Term { weight: 1.0, participation: Participation::Single };
        let thrice = Term { weight: 2.0, participation: Participation::repeated(3, 1).unwrap() };
        for terms in [vec![once], vec![once, thrice]] {
            let footprint = Footprint::encoded(terms, Relation::Replace).unwrap();
            let footprint = footprint.needing_non_negative_columns();
            let error = |name: &str, workload: &Workload| -> Result<f64> {
                let problem = Problem::new(workload.clone(), 48)?;
                let problem = problem.with_participation(main_participation(&footprint));
                let strategy = name.parse::<Method>()?.build(&problem)?;
                let plan = crate::Plan::idealized(strategy, footprint.clone(), Budget::gaussian(1.0)?)?;
                Ok(plan.sigma().powi(2) * plan.row_norms().mean())
            };
            for text in ["count", "window:5", "average"] {
                let workload: Workload = text.parse().unwrap();
                for dimension in [1, 1 << 40] {
                    let problem = Problem::new(workload.clone(), 48).unwrap();
                    let chosen = best(&problem, &footprint, dimension).unwrap();
                    let least = error(chosen.name(), &workload).unwrap();
                    let small = !chosen.name().parse::<Method>().unwrap().remembers_every_step();
                    assert!(small || dimension == 1, "{text}: {chosen:?}");
                    let rivals =
                        Method::ALL.iter().filter(|method| dimension == 1 || !method.remembers_every_step());
                    for error in rivals.filter_map(|method| error(method.name(), &workload).ok()) {
                        assert!(least <= error * 1.005, "{text} {dimension}: {}", chosen.name());
                    }
                }
            }
        }
    }

    #[test]
    fn it_is_known_who_remembers_every_step_and_who_is_toeplitz() {
        let steps = 64;
        for text in ["count", "window:3"] {
            let problem = Problem::new(text.parse().unwrap(), steps).unwrap();
            for method in Method::ALL {
                let Ok(strategy) = method.build(&problem) else { continue };
                let toeplitz = matches!(strategy.measurement(), Ok(Measurement::Toeplitz(_)));
                assert!(toeplitz || !method.is_toeplitz(), "{method} {text}");
                let per_coordinate = strategy.memory(2) - strategy.memory(1);
                let known = method.remembers_every_step();
                assert_eq!(per_coordinate >= steps, known, "{method} {text}: {per_coordinate}");
            }
        }
    }

    #[test]
    fn repeated_participation_raises_both_sides() {
        let problem = Problem::new(Workload::count(), 60).unwrap();
        let single = evaluate(&Request::new(problem.clone())).unwrap();
        let repeated = Participation::repeated(3, 20).unwrap();
        let report = evaluate(&Request::new(problem.with_participation(repeated))).unwrap();
        assert!(report.lower_bound.mse > single.lower_bound.mse);
        assert!(report.strategies[0].mse > single.strategies[0].mse);
        assert!(report.strategies.iter().all(|evaluation| evaluation.gap >= 0.0));
    }

    #[test]
    fn what_takes_milliseconds_is_tried_before_what_takes_minutes() {
        for text in ["count", "exp:1.001"] {
            let problem = Problem::new(text.parse().unwrap(), 100_000_000).unwrap();
            let effort = |method: Method| method.effort(&problem);
            for dear in [Method::Sqrt, Method::Group, Method::HonakerOnline] {
                assert!(effort(Method::ScaledBlt) < effort(dear), "{text} {dear}");
                assert!(effort(Method::Blt) < effort(dear), "{text} {dear}");
            }
        }
        // With hardly any time at all, what is first is what there is.
        let problem = Problem::new(Workload::count(), 1 << 26).unwrap();
        let report = evaluate(&Request { time: Duration::from_nanos(1), ..Request::new(problem) }).unwrap();
        assert!(["blt", "scaled-blt"].contains(&report.chosen), "{}", report.chosen);
        assert_eq!(report.strategies.len(), 1);
    }

    #[test]
    fn a_strategy_once_begun_is_given_up_when_the_time_is_over() {
        let problem = Problem::new(Workload::count(), 300).unwrap();
        let first = Method::Sqrt.build(&problem).unwrap();
        // Something is known before the first method starts, and no time is left for any.
        let request = Request {
            time: Duration::ZERO,
            others: vec![first],
            method: Some(Method::Optimal),
            ..Request::new(problem)
        };
        let report = evaluate(&request).unwrap();
        assert_eq!(report.chosen, "sqrt");
        assert_eq!(report.skipped, [Skipped { name: "optimal", reason: OUT_OF_TIME.to_owned() }]);
    }

    #[test]
    fn strategies_from_elsewhere_stand_in_the_table_if_they_fit() {
        let problem = Problem::new(Workload::count(), 40).unwrap();
        let others = vec![Method::Optimal.build(&problem).unwrap()];
        let alone = Request { method: Some(Method::Sqrt), ..Request::new(problem.clone()) };
        let report = evaluate(&Request { others: others.clone(), ..alone.clone() }).unwrap();
        assert_eq!((report.chosen, report.strategies.len()), ("optimal", 2));
        let longer = Request { problem: Problem::new(Workload::count(), 41).unwrap(), others, ..alone };
        assert!(matches!(evaluate(&longer), Err(Error::NotApplicable { strategy: "optimal", .. })));
    }
}
