//! Choosing a strategy by computation: every applicable one is evaluated, the best is picked, and a lower bound
//! says how much better any other could be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bounds::{self, LowerBound};
use crate::certificate;
use crate::error::{Error, Result, check_count};
use crate::problem::{Metric, Problem};
use crate::sensitivity::{Footprint, Participation};
use crate::strategy::{self, Method, Progress, Strategy, Watch, optimal, tell, unwatched};
use crate::workload::Workload;

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
    /// No further strategy is tried once this much time has passed.
    pub time: Duration,
}

impl Request {
    /// All strategies for a problem, for streams of one coordinate.
    pub fn new(problem: Problem) -> Self {
        Self { problem, method: None, dimension: 1, memory: None, time: Duration::from_secs(20) }
    }
}

/// One evaluated strategy. `mse` and `max_se` are the factors E2 and E∞, per unit `(ζ/μ)²`.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Skipped {
    /// The name.
    pub name: &'static str,
    /// Why.
    pub reason: String,
}

/// The lower bounds beside which the strategies are reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The workload, as on the command line.
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
    #[serde(skip)]
    pub strategy: Arc<dyn Strategy>,
}

/// Up to this many steps the bound is sharpened by one dense dual certificate.
const CERTIFICATE_LIMIT: usize = 1024;

/// Evaluates the strategies and picks the best.
///
/// # Complexity
/// That of building each strategy and of its row norms, and one decomposition of an n×n matrix for the bound up to
/// 1024 steps; bounded by the requested time between strategies.
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
    let methods = request.method.as_ref().map_or(Method::ALL, std::slice::from_ref);
    let mut found: Vec<(Evaluation, Arc<dyn Strategy>)> = Vec::new();
    let mut skipped = Vec::new();
    let of = methods.len();
    for (position, &method) in methods.iter().enumerate() {
        let name = method.name();
        tell(watch, Progress::Strategy { name, position, of })?;
        if start.elapsed() > request.time && !found.is_empty() {
            skipped.push(Skipped { name, reason: "the time limit was reached".to_owned() });
            continue;
        }
        let limit = method.practical_limit(problem.participation());
        if request.method.is_none() && problem.steps() > limit {
            let reason = format!("takes too long beyond {limit} steps unless asked for by name");
            skipped.push(Skipped { name, reason });
            continue;
        }
        match evaluate_one(method, request, watch) {
            Ok(pair) => match request.memory {
                Some(limit) if pair.0.memory > limit => {
                    let reason = format!("keeps {} values, above the limit of {limit}", pair.0.memory);
                    skipped.push(Skipped { name, reason });
                }
                _ => found.push(pair),
            },
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
            workload: problem.workload().to_string(),
            reason: "no strategy fits the memory limit",
        });
    };
    Ok(Report {
        workload: problem.workload().to_string(),
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

fn evaluate_one(
    method: Method,
    request: &Request,
    watch: &mut Watch<'_>,
) -> Result<(Evaluation, Arc<dyn Strategy>)> {
    let start = Instant::now();
    let strategy = method.build_watched(&request.problem, watch)?;
    let sensitivity = strategy.sensitivity(request.problem.participation())?;
    let rows = strategy.row_norms()?;
    let evaluation = Evaluation {
        name: method.name(),
        sensitivity_squared: sensitivity.squared,
        sensitivity_exact: sensitivity.exact,
        mse: sensitivity.squared * rows.mean(),
        max_se: sensitivity.squared * rows.max(),
        gap: f64::NAN,
        memory: strategy.memory(request.dimension),
        exact: rows.is_exact(),
        seconds: start.elapsed().as_secs_f64(),
    };
    Ok((evaluation, strategy))
}

/// Up to this many values, [`for_footprint`] lets a strategy keep one for every step and coordinate.
pub const COMFORTABLE_MEMORY: u64 = 1 << 20;

/// Beyond this many steps [`for_footprint`] computes no Gram matrix of C.
const GRAM_COMFORT: usize = 512;

/// [`for_footprint`] is content with a mean squared error this far above what nothing can beat, as a fraction.
const CONTENT: f64 = 0.005;

/// The strategy with the smallest mean squared error for what one person can change, where every one of `dimension`
/// coordinates may have a noise filter of its own, as in a [`SparseMechanism`](crate::SparseMechanism).
///
/// Strategies are fitted to the [`main_participation`] and judged by their sensitivity under the whole footprint; those
/// that the proof behind the footprint does not cover are left out. Where steps times coordinates exceed
/// [`COMFORTABLE_MEMORY`], so are those whose filter remembers every step. Where somebody takes part repeatedly in more than
/// 512 steps, only Toeplitz strategies remain: any other needs the Gram matrix of C for its sensitivity. Strategies are
/// tried in the order of what they cost to build, until one is within half a percent of the lower bound.
///
/// The choice depends on nothing but the arguments: a release that is continued on a slower machine has it again.
///
/// # Complexity
/// That of the bound, of building the strategies that are tried, and of their row norms.
///
/// # Errors
/// Zero steps, or no strategy that applies.
pub fn for_footprint(
    workload: &Workload,
    steps: usize,
    footprint: &Footprint,
    dimension: u64,
) -> Result<Arc<dyn Strategy>> {
    let comfortable = dimension.saturating_mul(steps as u64) <= COMFORTABLE_MEMORY;
    let quick = steps <= GRAM_COMFORT
        || footprint.terms().iter().all(|term| term.participation.times_within(steps) == 1);
    let participation = main_participation(footprint);
    let single = Problem::new(workload.clone(), steps)?;
    let problem = single.clone().with_participation(participation);
    let methods = Method::ALL.iter().filter(|method| {
        steps <= method.practical_limit(participation)
            && (comfortable || !method.remembers_every_step())
            && (quick || method.is_toeplitz())
    });
    let evaluate = |method: &Method| -> Result<(f64, Arc<dyn Strategy>)> {
        let strategy = method.build(&problem)?;
        strategy::check_columns(strategy.as_ref(), footprint)?;
        let sensitivity =
            footprint.squared_sensitivity(|participation| strategy.sensitivity(participation))?;
        Ok((sensitivity.squared * strategy.row_norms()?.mean(), strategy))
    };
    // Whoever takes part more often than once has at least the sensitivity of taking part once.
    let weight: f64 = footprint.terms().iter().map(|term| term.weight * term.weight).sum();
    let floor = weight * lower_bounds(&single, &[])?.mse;
    let mut best: Option<(f64, Arc<dyn Strategy>)> = None;
    for method in methods {
        // What does not serve the workload or the footprint is no candidate.
        let Ok((error, strategy)) = evaluate(method) else { continue };
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, strategy));
        }
        if error <= (1.0 + CONTENT) * floor {
            break;
        }
    }
    best.map(|(_, strategy)| strategy).ok_or_else(|| Error::NotApplicable {
        strategy: "auto",
        workload: workload.to_string(),
        reason: "no strategy serves this workload and what one person can change",
    })
}

/// The participation of the heaviest term: what an optimized strategy is fitted to.
pub fn main_participation(footprint: &Footprint) -> Participation {
    let heaviest = footprint.terms().iter().max_by(|left, right| left.weight.total_cmp(&right.weight));
    heaviest.map_or(Participation::Single, |term| term.participation)
}

/// The best bounds: closed forms, what building the strategies proved, and dual certificates where they are
/// affordable.
fn lower_bounds(problem: &Problem, found: &[(Evaluation, Arc<dyn Strategy>)]) -> Result<Bounds> {
    let (workload, steps, participation) = (problem.workload(), problem.steps(), problem.participation());
    let closed_form = bounds::mean(workload, steps)?;
    let mut mean = closed_form.clone();
    let mut max = bounds::max_above(closed_form.clone(), workload, steps)?;
    for (metric, value) in found.iter().filter_map(|(_, strategy)| strategy.proven_lower_bound()) {
        let bound = LowerBound { value, kind: "optimality certificate" };
        match metric {
            Metric::Mse => mean = mean.or(bound),
            Metric::Max => max = max.or(bound),
        }
    }
    let banded = if steps <= certificate::practical_limit(workload) {
        certificate::banded_bound(workload, steps)?
    } else {
        None
    };
    // Certificates are proved by column weights, from which follows what several participations add.
    let raised = |value: f64, weights: &[f64]| LowerBound {
        value: value * bounds::participation_factor(weights, participation),
        kind: "dual certificate",
    };
    if let Some(bound) = banded {
        mean = mean.or(raised(bound.lower_bound, &bound.column_weights));
    } else if steps <= CERTIFICATE_LIMIT {
        let weights = optimal::scaled_sqrt_start(workload, steps)?;
        let matrix = workload.materialize(steps)?;
        mean = mean.or(raised(bounds::dual_certificate(matrix.view(), &weights)?, &weights));
    }
    if problem.metric() == Metric::Max
        && steps <= certificate::practical_limit(workload)
        && let Some(value) = certificate::banded_max_bound(workload, steps)?
    {
        max = max.or(LowerBound { value, kind: "dual certificate" });
    }
    // The Schatten bound is the certificate of equal weights.
    let schatten = closed_form;
    if schatten.kind != "diagonal" {
        let block = bounds::block(workload, steps);
        let columns = steps / block * block;
        let factor = bounds::equal_participation_factor(columns, participation);
        let kind = if factor > 1.0 { "schatten, repeated participation" } else { schatten.kind };
        mean = mean.or(LowerBound { value: schatten.value * factor, kind });
    }
    let max = max.or(mean.clone());
    Ok(Bounds {
        mse: mean.value,
        kind: mean.kind.to_owned(),
        max_se: max.value,
        max_kind: max.kind.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::sensitivity::{Relation, Term};
    use crate::strategy::Measurement;
    use std::ops::ControlFlow;

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
        assert_eq!(names, Method::ALL.iter().map(|method| method.name()).collect::<Vec<_>>());
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
                let plan = crate::Plan::new(strategy, footprint.clone(), Budget::gaussian(1.0)?)?;
                Ok(plan.sigma().powi(2) * plan.row_norms().mean())
            };
            for text in ["count", "window:5", "average"] {
                let workload: Workload = text.parse().unwrap();
                for dimension in [1, 1 << 40] {
                    let chosen = for_footprint(&workload, 48, &footprint, dimension).unwrap();
                    let least = error(chosen.name(), &workload).unwrap();
                    let small = !chosen.name().parse::<Method>().unwrap().remembers_every_step();
                    assert!(small || dimension == 1, "{text}: {chosen:?}");
                    let rivals =
                        Method::ALL.iter().filter(|method| dimension == 1 || !method.remembers_every_step());
                    for error in rivals.filter_map(|method| error(method.name(), &workload).ok()) {
                        assert!(least <= error * (1.0 + CONTENT), "{text} {dimension}: {}", chosen.name());
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
}
