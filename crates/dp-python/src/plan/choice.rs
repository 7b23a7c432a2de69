//! Making a plan: what is asked for, what one person can be, and which strategy serves it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dp_ftrl::Clipping;
use dp_mechanisms::budget::Kind;
use dp_mechanisms::planner::{self, Noise, Report, Request};
use dp_mechanisms::strategy::Watch;
use dp_mechanisms::{
    Arithmetic, Budget, Footprint, Joint, JointPlan, Method, Metric, Participation, Plan as Core, Problem,
    Relation, Strategy, Workload, joint,
};
use pyo3::prelude::*;

use super::{Form, Plan};
use crate::arguments::{self, whole_or_none};
use crate::errors::Refusal;
use crate::watch::watched;

/// What a strategy is built for, and in which order it is judged.
pub(crate) struct Wanted {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) several: bool,
    pub(crate) weights: Vec<f64>,
    pub(crate) steps: usize,
    pub(crate) participation: Participation,
    pub(crate) metric: Metric,
}

impl Wanted {
    /// The problem; several statistics are weighted in units of what each would have alone.
    pub(crate) fn problem(&self, watch: &mut Watch<'_>) -> dp_mechanisms::Result<Problem> {
        let problem = if self.several {
            let mut statistics = Vec::new();
            for (workload, weight) in self.workloads.iter().zip(&self.weights) {
                // Each of them plans by itself: between two there is time to stop.
                if watch(dp_mechanisms::strategy::Progress::Evaluation).is_break() {
                    return Err(dp_mechanisms::Error::Interrupted);
                }
                let one = [(workload.clone(), *weight)];
                statistics.extend(joint::in_own_units(&one, self.steps, self.participation)?);
            }
            Problem::joint(statistics, self.steps)?
        } else {
            Problem::new(self.workloads[0].clone(), self.steps)?
        };
        Ok(problem.with_participation(self.participation).with_metric(self.metric))
    }
}

/// The weight of every statistic; equal ones where nothing is said.
pub(crate) fn weights(given: Option<Vec<f64>>, workloads: usize, several: bool) -> Result<Vec<f64>, Refusal> {
    match given {
        None => Ok(vec![1.0; workloads]),
        Some(_) if !several => {
            Err(Refusal::input("weights are for several statistics; give a list of workloads"))
        }
        Some(weights) if weights.len() == workloads => Ok(weights),
        Some(weights) => Err(Refusal::input(format!(
            "weights has {} numbers for {workloads} statistics; give one for each",
            weights.len()
        ))),
    }
}

/// Chooses a strategy of least error, calibrates its noise to the budget, and says how good it is.
///
/// ``workload``
///     What is released after every step: ``"count"`` (running sum), ``"average"``, ``"window:7"``, ``"step"``,
///     ``"exp:1.1"``, ``"poly:0.5"``, ``"momentum:0.9"``, weights as a list of numbers with the newest input's first, or a
///     list of several names, which are then released together from one noise.
/// ``steps`` or ``doubling``
///     For how many steps; or, where nobody knows, the length of a first epoch that doubles for ever.
/// ``bounds``, ``norm`` or ``clip``
///     What one person can be: a number between two bounds in each of ``dimension`` coordinates; a vector of at most this
///     norm; or a part of a sum, clipped to this norm (for :class:`Noise` and :class:`PrivateGradients`). Layers that are
///     clipped each for itself are a list of their lengths and norms, ``[(length, norm), …]``.
/// ``relation``
///     What is protected: ``"zero-out"`` (whether somebody is there) or ``"replace"`` (who it is).
/// ``participation``
///     ``"single"``, or ``(times, separation)``: in at most so many steps, so far apart.
/// ``epsilon`` and ``delta``, ``epsilon`` alone, ``rho``, or ``mu``
///     The budget for all releases together.
/// ``exact``
///     In integers, which floating point cannot betray: the default, except for ``clip``. Counts and windows are then released
///     as multiples of ``grid``, to which inputs are rounded.
/// ``strategy``
///     A name that :func:`compare` lists, or ``"auto"``, which is the same here, in ``dp --strategy auto`` and in Rust's
///     ``Plan::best``: strategies are tried in the order of what they cost, until one is within half a percent of what nothing
///     can beat. :attr:`Plan.table` and :func:`compare` evaluate all of them, and may find a better one by that much. For a pure
///     ``epsilon``, and under a limit of ``memory``, it is the best of all.
///
/// >>> import continual_dp as cdp
/// >>> year = cdp.plan("count", steps=365, bounds=(0, 1), relation="zero-out", epsilon=1, delta=1e-6)
/// >>> year.standard_deviation(365) < 13
/// True
/// >>> year.gap < 0.02
/// True
///
/// Several statistics together cost little more than each alone:
///
/// >>> both = cdp.plan(["count", "window:7"], steps=60, bounds=(0, 1), relation="zero-out", rho=0.1)
/// >>> both.statistics
/// ['count', 'window:7']
#[pyfunction]
#[pyo3(signature = (
    workload, *, relation, steps=None, doubling=None, bounds=None, norm=None, clip=None, dimension=None,
    participation=None, metric="mse", epsilon=None, delta=None, rho=None, mu=None, strategy="auto", exact=None,
    grid=None, weights=None, memory=None
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn plan(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    relation: &str,
    #[pyo3(from_py_with = whole_or_none)] steps: Option<usize>,
    #[pyo3(from_py_with = whole_or_none)] doubling: Option<usize>,
    bounds: Option<&Bound<'_, PyAny>>,
    norm: Option<f64>,
    clip: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = whole_or_none)] dimension: Option<usize>,
    participation: Option<&Bound<'_, PyAny>>,
    metric: &str,
    epsilon: Option<f64>,
    delta: Option<f64>,
    rho: Option<f64>,
    mu: Option<f64>,
    strategy: &str,
    exact: Option<bool>,
    grid: Option<f64>,
    weights: Option<Vec<f64>>,
    #[pyo3(from_py_with = whole_or_none)] memory: Option<usize>,
) -> PyResult<Plan> {
    let (workloads, several) = arguments::workloads(workload)?;
    let relation: Relation = relation.parse().map_err(Refusal::from)?;
    let participation = arguments::participation(participation)?;
    let budget = arguments::budget(epsilon, delta, rho, mu)?;
    let method = arguments::method(strategy)?;
    let bounds = bounds.map(|bounds| arguments::bounds("bounds", bounds)).transpose()?;
    let (clip, layers) = arguments::clipping(clip)?.unzip();
    let person = Person::new(bounds, norm, clip.clone())?;
    let dimension = match (dimension, &clip, layers.flatten()) {
        (None, Some(_), None) => {
            return Err(Refusal::input("clip needs dimension: how many coordinates the vectors have").into());
        }
        (Some(given), _, Some(layers)) if given != layers => {
            return Err(Refusal::input(format!(
                "dimension = {given}, but the layers of clip have {layers} coordinates together"
            ))
            .into());
        }
        (given, _, layers) => given.or(layers).unwrap_or(1),
    };
    let exact = exact.unwrap_or(clip.is_none());
    if exact && clip.is_some() {
        let words = "exact is for published statistics: sums of clipped vectors are no integers";
        return Err(Refusal::input(words).into());
    }
    if grid.is_some() && !exact {
        return Err(Refusal::input("grid is for exact plans").into());
    }
    let footprint = person.footprint(dimension, relation, participation)?;
    let count = workloads.len();
    let mut wanted = Wanted {
        workloads,
        several,
        weights: self::weights(weights, count, several)?,
        steps: 1,
        participation,
        metric: arguments::metric(metric)?,
    };
    wanted.steps = match (steps, doubling) {
        (Some(steps), None) => steps,
        (None, Some(first)) if several || clip.is_some() => {
            return Err(Refusal::input(format!(
                "doubling = {first} is for one published statistic; plan for a number of steps"
            ))
            .into());
        }
        // Early epochs are over soon: what counts is a later one.
        (None, Some(first)) => first.saturating_mul(64).min(1 << 14).max(first),
        _ => return Err(Refusal::input("how many steps? give either steps or doubling").into()),
    };
    let arithmetic = if exact {
        Arithmetic::Exact { grid: grid.unwrap_or_else(|| footprint.grid()) }
    } else {
        Arithmetic::Idealized
    };
    let choice = Choice { method, memory, dimension, budget, arithmetic };
    let (form, request, report) = watched(py, |watch| {
        let problem = wanted.problem(watch)?;
        let request = choice.request(&problem);
        if let Some(first) = doubling {
            let (plan, report) = choice.endless(&request, footprint, first, watch)?;
            return Ok((Form::One(plan), request, report));
        }
        let (strategy, report) = choice.strategy(&request, &footprint, watch)?;
        let plan = match arithmetic {
            Arithmetic::Exact { grid } => Core::exact(&strategy, footprint, budget, grid)?,
            Arithmetic::Idealized => Core::idealized(Arc::clone(&strategy), footprint, budget)?,
        };
        if problem.is_joint() {
            let plan = JointPlan::new(Joint::new(problem, strategy)?, plan)?;
            return Ok((Form::Several(Box::new(plan)), request, report));
        }
        Ok((Form::One(plan), request, report))
    })?;
    let all = report.map(OnceLock::from).unwrap_or_default();
    Ok(Plan { form, request, own: OnceLock::new(), all, clip })
}

/// What one person can be.
enum Person {
    Bounds(f64, f64),
    Norm(f64),
    Clip(Clipping),
}

impl Person {
    fn new(bounds: Option<(f64, f64)>, norm: Option<f64>, clip: Option<Clipping>) -> Result<Self, Refusal> {
        match (bounds, norm, clip) {
            (Some((low, high)), None, None) => Ok(Self::Bounds(low, high)),
            (None, Some(norm), None) => Ok(Self::Norm(norm)),
            (None, None, Some(clip)) => Ok(Self::Clip(clip)),
            _ => Err(Refusal::input(
                "what can one person be? give one of bounds=(low, high), norm=… and clip=…, chosen without looking at the \
                 data",
            )),
        }
    }

    fn footprint(
        &self,
        dimension: usize,
        relation: Relation,
        participation: Participation,
    ) -> Result<Footprint, Refusal> {
        Ok(match self {
            Self::Bounds(low, high) => Footprint::vector(*low, *high, dimension, relation, participation)?,
            Self::Norm(norm) => Footprint::ball(*norm, relation, participation)?.of_dimension(dimension)?,
            Self::Clip(clipping) => clipping.footprint(relation, participation)?.of_dimension(dimension)?,
        })
    }
}

/// How a strategy is found.
struct Choice {
    method: Option<Method>,
    memory: Option<usize>,
    dimension: usize,
    budget: Budget,
    arithmetic: Arithmetic,
}

impl Choice {
    fn is_pure(&self) -> bool {
        matches!(self.budget.kind(), Kind::Pure { .. })
    }

    /// All strategies, as they are compared for somebody who waits.
    fn request(&self, problem: &Problem) -> Request {
        Request {
            dimension: self.dimension,
            memory: self.memory,
            noise: if self.is_pure() { Noise::Laplace } else { Noise::Gaussian },
            ..Request::new(problem.clone())
        }
    }

    /// Without a time limit: a release that is continued on a slower machine must choose the same strategy again.
    fn unhurried(&self, request: &Request) -> Request {
        Request { method: self.method, time: Duration::MAX, ..request.clone() }
    }

    /// The strategy; and what the planner says about all of them, where it had to look at all.
    fn strategy(
        &self,
        request: &Request,
        footprint: &Footprint,
        watch: &mut Watch<'_>,
    ) -> dp_mechanisms::Result<(Arc<dyn Strategy>, Option<Report>)> {
        let problem = &request.problem;
        match self.method {
            Some(method) if self.memory.is_none() => {
                return Ok((method.build_watched(problem, watch)?, None));
            }
            None if self.memory.is_none() && !self.is_pure() => {
                let best = planner::best_watched(problem, footprint, self.dimension as u64, watch)?;
                return Ok((best, None));
            }
            _ => {}
        }
        let report = planner::evaluate_watched(&self.unhurried(request), watch)?;
        let strategy = match self.arithmetic {
            Arithmetic::Exact { .. } => report.measurable(problem, watch)?,
            Arithmetic::Idealized => Arc::clone(&report.strategy),
        };
        Ok((strategy, self.method.is_none().then_some(report)))
    }

    /// Epochs that double for ever, by the best method that can be built for any number of steps and measured in the arithmetic.
    fn endless(
        &self,
        request: &Request,
        footprint: Footprint,
        first: usize,
        watch: &mut Watch<'_>,
    ) -> dp_mechanisms::Result<(Core, Option<Report>)> {
        let workload = request.problem.workload();
        let (methods, report) = if let Some(method) = self.method {
            (vec![method], None)
        } else {
            let report = planner::evaluate_watched(&self.unhurried(request), watch)?;
            (report.endless_methods(request.problem.participation())?, Some(report))
        };
        let plan = |method: &Method| {
            Core::doubling(workload, *method, footprint.clone(), self.budget, self.arithmetic, first)
        };
        let planned = methods.iter().map(plan).find(Result::is_ok);
        Ok((planned.unwrap_or_else(|| plan(&methods[0]))?, report))
    }
}
