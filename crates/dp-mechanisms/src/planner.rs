//! Choosing a strategy by computation: every applicable one is evaluated, the best is picked, and a lower bound
//! says how much better any other could be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bounds::{self, LowerBound};
use crate::certificate;
use crate::error::{Error, Result, check_count};
use crate::sensitivity::{Footprint, Participation};
use crate::strategy::{self, Strategy, optimal};
use crate::workload::Workload;

pub use crate::strategy::Metric;

/// What is asked of the planner.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is released.
    pub workload: Workload,
    /// The number of steps.
    pub steps: usize,
    /// One strategy alone, or all of them.
    pub strategy: Option<String>,
    /// The error to minimize.
    pub metric: Metric,
    /// How often one person takes part.
    pub participation: Participation,
    /// The number of coordinates, for the memory.
    pub dimension: usize,
    /// The largest number of `f64` values the noise may keep, if limited.
    pub memory: Option<usize>,
    /// No further strategy is tried once this much time has passed.
    pub time: Duration,
}

impl Request {
    /// All strategies, for the mean squared error of a single participation.
    pub fn new(workload: Workload, steps: usize) -> Self {
        Self {
            workload,
            steps,
            strategy: None,
            metric: Metric::Mse,
            participation: Participation::Single,
            dimension: 1,
            memory: None,
            time: Duration::from_secs(20),
        }
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
/// Zero steps or dimension, an unknown strategy, or no strategy that applies within the limits.
///
/// # Example
/// ```
/// use dp_mechanisms::{Workload, planner};
/// let report = planner::evaluate(&planner::Request::new(Workload::count(), 64))?;
/// assert!(report.strategies[0].gap < 0.01);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn evaluate(request: &Request) -> Result<Report> {
    evaluate_watched(request, &mut |_| ())
}

/// What the planner is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// It starts with a strategy.
    Strategy {
        /// Its name.
        name: &'static str,
        /// How many came before it.
        position: usize,
        /// How many there are.
        of: usize,
    },
    /// The dense program got closer to its optimum.
    Optimum {
        /// The eigendecompositions so far.
        eigendecompositions: usize,
        /// The relative gap that is left.
        gap: f64,
    },
}

/// [`evaluate`], with a report of what it is doing.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_watched(request: &Request, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    check_count("steps", request.steps)?;
    check_count("dimension", request.dimension)?;
    let start = Instant::now();
    let names: Vec<&'static str> = match &request.strategy {
        Some(name) => vec![strategy::known_name(name)?],
        None => strategy::NAMES.to_vec(),
    };
    let mut found: Vec<(Evaluation, Arc<dyn Strategy>)> = Vec::new();
    let mut skipped = Vec::new();
    let of = names.len();
    for (position, name) in names.into_iter().enumerate() {
        progress(Progress::Strategy { name, position, of });
        if start.elapsed() > request.time && !found.is_empty() {
            skipped.push(Skipped { name, reason: "the time limit was reached".to_owned() });
            continue;
        }
        let limit = strategy::practical_limit(name, request.participation);
        if request.strategy.is_none() && request.steps > limit {
            let reason = format!("takes too long beyond {limit} steps unless asked for by name");
            skipped.push(Skipped { name, reason });
            continue;
        }
        match evaluate_one(name, request, progress) {
            Ok(pair) => match request.memory {
                Some(limit) if pair.0.memory > limit => {
                    let reason = format!("keeps {} values, above the limit of {limit}", pair.0.memory);
                    skipped.push(Skipped { name, reason });
                }
                _ => found.push(pair),
            },
            Err(error) if request.strategy.is_none() => {
                skipped.push(Skipped { name, reason: error.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    let lower_bound = lower_bounds(request, &found)?;
    let floor = match request.metric {
        Metric::Mse => lower_bound.mse,
        Metric::Max => lower_bound.max_se,
    };
    let value = |evaluation: &Evaluation| match request.metric {
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
            workload: request.workload.to_string(),
            reason: "no strategy fits the memory limit",
        });
    };
    Ok(Report {
        workload: request.workload.to_string(),
        steps: request.steps,
        metric: request.metric,
        participation: request.participation.to_string(),
        lower_bound,
        chosen: best.name,
        strategy: Arc::clone(strategy),
        strategies: found.iter().map(|(evaluation, _)| evaluation.clone()).collect(),
        skipped,
    })
}

fn evaluate_one(
    name: &'static str,
    request: &Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Evaluation, Arc<dyn Strategy>)> {
    let start = Instant::now();
    let Request { workload, steps, participation, metric, .. } = request;
    let mut optimum = |eigendecompositions, gap| progress(Progress::Optimum { eigendecompositions, gap });
    let strategy = strategy::build_watched(name, workload, *steps, *participation, *metric, &mut optimum)?;
    let sensitivity = strategy.sensitivity(request.participation)?;
    let rows = strategy.row_norms()?;
    let evaluation = Evaluation {
        name,
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
    check_count("steps", steps)?;
    let comfortable = dimension.saturating_mul(steps as u64) <= COMFORTABLE_MEMORY;
    let quick = steps <= GRAM_COMFORT
        || footprint.terms().iter().all(|term| term.participation.times_within(steps) == 1);
    let participation = main_participation(footprint);
    let names = strategy::NAMES.iter().filter(|name| {
        steps <= strategy::practical_limit(name, participation)
            && (comfortable || !strategy::remembers_every_step(name))
            && (quick || strategy::is_toeplitz(name))
    });
    let evaluate = |name: &str| -> Result<(f64, Arc<dyn Strategy>)> {
        let strategy = strategy::build(name, workload, steps, participation)?;
        strategy::check_columns(strategy.as_ref(), footprint)?;
        let sensitivity =
            footprint.squared_sensitivity(|participation| strategy.sensitivity(participation))?;
        Ok((sensitivity.squared * strategy.row_norms()?.mean(), strategy))
    };
    // Whoever takes part more often than once has at least the sensitivity of taking part once.
    let weight: f64 = footprint.terms().iter().map(|term| term.weight * term.weight).sum();
    let floor = weight * lower_bounds(&Request::new(workload.clone(), steps), &[])?.mse;
    let mut best: Option<(f64, Arc<dyn Strategy>)> = None;
    for name in names {
        // What does not serve the workload or the footprint is no candidate.
        let Ok((error, strategy)) = evaluate(name) else { continue };
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
fn lower_bounds(request: &Request, found: &[(Evaluation, Arc<dyn Strategy>)]) -> Result<Bounds> {
    let closed_form = bounds::mean(&request.workload, request.steps)?;
    let mut mean = closed_form.clone();
    let mut max = bounds::max_above(closed_form.clone(), &request.workload, request.steps)?;
    for (metric, value) in found.iter().filter_map(|(_, strategy)| strategy.proven_lower_bound()) {
        let bound = LowerBound { value, kind: "optimality certificate" };
        match metric {
            Metric::Mse => mean = mean.or(bound),
            Metric::Max => max = max.or(bound),
        }
    }
    let banded = if request.steps <= certificate::practical_limit(&request.workload) {
        certificate::banded_bound(&request.workload, request.steps)?
    } else {
        None
    };
    // Certificates are proved by column weights, from which follows what several participations add.
    let raised = |value: f64, weights: &[f64]| LowerBound {
        value: value * bounds::participation_factor(weights, request.participation),
        kind: "dual certificate",
    };
    if let Some(bound) = banded {
        mean = mean.or(raised(bound.lower_bound, &bound.column_weights));
    } else if request.steps <= CERTIFICATE_LIMIT {
        let weights = optimal::scaled_sqrt_start(&request.workload, request.steps)?;
        let matrix = request.workload.materialize(request.steps)?;
        mean = mean.or(raised(bounds::dual_certificate(matrix.view(), &weights)?, &weights));
    }
    if request.metric == Metric::Max
        && request.steps <= certificate::practical_limit(&request.workload)
        && let Some(value) = certificate::banded_max_bound(&request.workload, request.steps)?
    {
        max = max.or(LowerBound { value, kind: "dual certificate" });
    }
    // The Schatten bound is the certificate of equal weights.
    let schatten = closed_form;
    if schatten.kind != "diagonal" {
        let block = bounds::block(&request.workload, request.steps);
        let columns = request.steps / block * block;
        let factor = bounds::equal_participation_factor(columns, request.participation);
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

    #[test]
    fn the_best_is_picked_and_certified() {
        for (text, metric) in [("count", Metric::Mse), ("window:16", Metric::Mse), ("average", Metric::Max)] {
            let request = Request { metric, ..Request::new(text.parse().unwrap(), 64) };
            let report = evaluate(&request).unwrap();
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
        let request = Request::new(Workload::count(), 32);
        let report = evaluate_watched(&request, &mut |progress| seen.push(progress)).unwrap();
        let names: Vec<&str> = seen
            .iter()
            .filter_map(|progress| match progress {
                Progress::Strategy { name, .. } => Some(*name),
                Progress::Optimum { .. } => None,
            })
            .collect();
        assert_eq!(names, strategy::NAMES);
        let last = seen.iter().rev().find_map(|progress| match progress {
            Progress::Optimum { gap, .. } => Some(*gap),
            Progress::Strategy { .. } => None,
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
        let mut request = Request::new(Workload::count(), 64);
        request.memory = Some(10);
        let report = evaluate(&request).unwrap();
        assert!(report.strategies.iter().all(|evaluation| evaluation.memory <= 10));
        assert!(report.skipped.iter().any(|skipped| skipped.name == "sqrt"));
        request.strategy = Some("nonsense".to_owned());
        assert!(evaluate(&request).is_err());
        assert!(evaluate(&Request::new(Workload::count(), 0)).is_err());
    }

    #[test]
    fn a_footprint_gets_the_strategy_that_its_proof_and_the_memory_allow() {
        let once = Term { weight: 1.0, participation: Participation::Single };
        let thrice = Term { weight: 2.0, participation: Participation::repeated(3, 1).unwrap() };
        for terms in [vec![once], vec![once, thrice]] {
            let footprint = Footprint::encoded(terms, Relation::Replace).unwrap();
            let footprint = footprint.needing_non_negative_columns();
            let error = |name: &str, workload: &Workload| -> Result<f64> {
                let strategy = strategy::build(name, workload, 48, main_participation(&footprint))?;
                let plan = crate::Plan::new(strategy, footprint.clone(), Budget::gaussian(1.0)?)?;
                Ok(plan.sigma().powi(2) * plan.row_norms().mean())
            };
            for text in ["count", "window:5", "average"] {
                let workload: Workload = text.parse().unwrap();
                for dimension in [1, 1 << 40] {
                    let chosen = for_footprint(&workload, 48, &footprint, dimension).unwrap();
                    let least = error(chosen.name(), &workload).unwrap();
                    let small = !strategy::remembers_every_step(chosen.name());
                    assert!(small || dimension == 1, "{text}: {chosen:?}");
                    let rivals = strategy::NAMES
                        .iter()
                        .filter(|name| dimension == 1 || !strategy::remembers_every_step(name));
                    for error in rivals.filter_map(|name| error(name, &workload).ok()) {
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
            let workload = text.parse().unwrap();
            for name in strategy::NAMES {
                let Ok(strategy) = strategy::build(name, &workload, steps, Participation::Single) else {
                    continue;
                };
                let toeplitz = matches!(strategy.measurement(), Ok(Measurement::Toeplitz(_)));
                assert!(toeplitz || !strategy::is_toeplitz(name), "{name} {text}");
                let per_coordinate = strategy.memory(2) - strategy.memory(1);
                let known = strategy::remembers_every_step(name);
                assert_eq!(per_coordinate >= steps, known, "{name} {text}: {per_coordinate}");
            }
        }
    }

    #[test]
    fn repeated_participation_raises_both_sides() {
        let single = evaluate(&Request::new(Workload::count(), 60)).unwrap();
        let repeated = Participation::repeated(3, 20).unwrap();
        let request = Request { participation: repeated, ..Request::new(Workload::count(), 60) };
        let report = evaluate(&request).unwrap();
        assert!(report.lower_bound.mse > single.lower_bound.mse);
        assert!(report.strategies[0].mse > single.strategies[0].mse);
        assert!(report.strategies.iter().all(|evaluation| evaluation.gap >= 0.0));
    }
}
