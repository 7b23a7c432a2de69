//! Planning, comparing and calibrating: everything that happens before data.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dp_ftrl::Clipping;
use dp_mechanisms::budget::Kind;
use dp_mechanisms::planner::{self, Noise, Report, Request};
use dp_mechanisms::strategy::Watch;
use dp_mechanisms::{
    Arithmetic, Budget, Footprint, Horizon, Joint, JointPlan, Method, Metric, Participation, Plan as Core,
    Problem, Relation, Strategy, Workload, exact, joint,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::{Value, json};

use crate::arguments;
use crate::arrays;
use crate::errors::Refusal;
use crate::live::detached;

/// How often a computation asks whether somebody has pressed Ctrl-C.
const GLANCE: Duration = Duration::from_millis(20);

/// Plans outside of the interpreter, and stops when Python has a signal to handle.
pub(crate) fn watched<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Watch<'_>) -> dp_mechanisms::Result<R> + Send,
) -> PyResult<R> {
    let mut raised = None;
    let mut last = Instant::now();
    let outcome = py.detach(|| {
        let mut watch = |_| {
            if last.elapsed() < GLANCE {
                return ControlFlow::Continue(());
            }
            last = Instant::now();
            // A path to the method would be of one lifetime only.
            #[allow(clippy::redundant_closure_for_method_calls)]
            let signals = Python::attach(|py| py.check_signals());
            match signals {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        match catch_unwind(AssertUnwindSafe(|| work(&mut watch))) {
            Ok(outcome) => outcome.map_err(Refusal::from),
            Err(_) => Err(Refusal::internal()),
        }
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(outcome?),
    }
}

/// What is released, for how long, with how much noise, and why no other strategy was chosen. Made by :func:`plan`.
///
/// ``print(plan)`` shows the table of all strategies; notebooks show it as HTML.
#[pyclass(frozen, module = "continual_dp")]
pub(crate) struct Plan {
    pub(crate) form: Form,
    report: Report,
    /// The norm of a person's part in a step, where steps are sums of clipped vectors.
    pub(crate) clip: Option<f64>,
}

/// One statistic or several.
pub(crate) enum Form {
    One(Core),
    Several(Box<JointPlan>),
}

impl Plan {
    /// The plan of what the mechanism releases.
    pub(crate) fn core(&self) -> &Core {
        match &self.form {
            Form::One(plan) => plan,
            Form::Several(plan) => plan.plan(),
        }
    }

    fn problem_statistics(&self) -> Vec<String> {
        match &self.form {
            Form::One(plan) => vec![plan.workload().to_string()],
            Form::Several(plan) => names(plan),
        }
    }

    /// The evaluation of the strategy in use, as in the table.
    fn evaluation(&self) -> Option<&planner::Evaluation> {
        let name = self.core().strategy().name();
        self.report.strategies.iter().find(|one| one.name == name)
    }

    /// Mean and largest variance of a release, weighted over the statistics where there are several.
    fn errors(&self) -> (f64, f64) {
        let sigma = self.core().sigma();
        let variance = sigma * sigma;
        match &self.form {
            Form::One(plan) => (variance * plan.row_norms().mean(), variance * plan.row_norms().max()),
            Form::Several(plan) => {
                let statistics = plan.joint().problem().statistics();
                let rows =
                    (0..).zip(statistics).filter_map(|(i, one)| Some((one, plan.joint().row_norms(i)?)));
                rows.fold((0.0, 0.0), |(mean, max), (one, rows)| {
                    let weight = variance * one.weight();
                    (mean + weight * rows.mean(), max + weight * rows.max())
                })
            }
        }
    }

    fn document(&self) -> Value {
        let plan = self.core();
        let (mean, largest) = self.errors();
        let statistics = self.problem_statistics();
        let mut document = json!({
            "workload": statistics.join(" + "),
            "horizon": plan.horizon().to_string(),
            "participation": self.report.participation,
            "relation": plan.footprint().relation().to_string(),
            "metric": self.report.metric,
            "budget": plan.budget().kind(),
            "arithmetic": plan.arithmetic().to_string(),
            "dimension": plan.footprint().dimension(),
            "strategy": plan.strategy().name(),
            "sigma": plan.sigma(),
            "sensitivity": plan.sensitivity().squared.sqrt(),
            "mean_squared_error": mean,
            "largest_squared_error": largest,
            "lower_bound": self.lower_bound(),
            "gap": self.gap(),
            "bounds": self.report.lower_bound,
            "strategies": self.report.strategies,
            "skipped": self.report.skipped,
        });
        if let Form::Several(_) = &self.form {
            document["statistics"] = json!(statistics);
        }
        document
    }
}

/// The statistics of a joint plan.
pub(crate) fn names(plan: &JointPlan) -> Vec<String> {
    plan.joint().problem().statistics().iter().map(|one| one.workload().to_string()).collect()
}

fn bound_of(report: &Report) -> f64 {
    match report.metric {
        Metric::Mse => report.lower_bound.mse,
        Metric::Max => report.lower_bound.max_se,
    }
}

#[pymethods]
impl Plan {
    /// The statistic, or all of them.
    #[getter]
    fn workload(&self) -> String {
        self.problem_statistics().join(" + ")
    }

    /// The statistics that are released together.
    #[getter]
    fn statistics(&self) -> Vec<String> {
        self.problem_statistics()
    }

    /// The number of steps; ``None`` without an end.
    #[getter]
    fn steps(&self) -> Option<usize> {
        match self.core().horizon() {
            Horizon::Steps(steps) => Some(steps),
            Horizon::Doubling(_) => None,
        }
    }

    /// The number of coordinates of an input; ``None`` where it was not stated.
    #[getter]
    fn dimension(&self) -> Option<usize> {
        self.core().footprint().dimension()
    }

    /// The name of the strategy.
    #[getter]
    fn strategy(&self) -> &'static str {
        self.core().strategy().name()
    }

    /// The budget for all releases together, in words.
    #[getter]
    fn budget(&self) -> String {
        arguments::budget_words(self.core().budget())
    }

    /// The standard deviation of every independent entry of noise.
    #[getter]
    fn sigma(&self) -> f64 {
        self.core().sigma()
    }

    /// Whether data and noise meet in exact integers.
    #[getter]
    fn exact(&self) -> bool {
        matches!(self.core().arithmetic(), Arithmetic::Exact { .. })
    }

    /// What inputs are rounded to multiples of, in exact integers.
    #[getter]
    fn grid(&self) -> Option<f64> {
        match self.core().arithmetic() {
            Arithmetic::Exact { grid } => Some(grid),
            Arithmetic::Idealized => None,
        }
    }

    /// The mean over all steps of the variance of a release; weighted over the statistics where there are several.
    #[getter]
    fn mean_squared_error(&self) -> f64 {
        self.errors().0
    }

    /// The largest variance of a release.
    #[getter]
    fn largest_squared_error(&self) -> f64 {
        self.errors().1
    }

    /// What no strategy can beat in the metric that was asked for, in the same unit as the errors.
    #[getter]
    fn lower_bound(&self) -> f64 {
        let own = match self.report.metric {
            Metric::Mse => self.errors().0,
            Metric::Max => self.errors().1,
        };
        own / (1.0 + self.gap())
    }

    /// How far the error lies above the lower bound, as a fraction.
    #[getter]
    fn gap(&self) -> f64 {
        self.evaluation().map_or(f64::NAN, |one| one.gap)
    }

    /// All strategies that were looked at, best first: one dictionary each. Errors are factors, for noise of one unit.
    #[getter]
    fn table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &json!(self.report.strategies))
    }

    /// The standard deviation of a release after a step, counted from 1; of one statistic by its name where there are several.
    ///
    /// >>> import continual_dp as cdp
    /// >>> week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=0.5, strategy="identity")
    /// >>> round(week.standard_deviation(4) / week.standard_deviation(1), 6)
    /// 2.0
    #[pyo3(signature = (step, statistic=None))]
    fn standard_deviation(&self, step: usize, statistic: Option<&str>) -> PyResult<f64> {
        let found = match &self.form {
            Form::One(plan) => plan.standard_deviation(step),
            Form::Several(plan) => plan.standard_deviation(self.position(statistic)?, step),
        };
        Ok(found.ok_or_else(|| {
            Refusal::input(format!("step = {step} is outside its range: 1 to the last planned step"))
        })?)
    }

    /// The standard deviations of all steps as an array; of one statistic by its name where there are several.
    #[pyo3(signature = (statistic=None))]
    fn standard_deviations<'py>(
        &self,
        py: Python<'py>,
        statistic: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Horizon::Doubling(_) = self.core().horizon() {
            return Err(Refusal::input("a plan without an end has no last step; ask for single steps").into());
        }
        let values = match &self.form {
            Form::One(plan) => detached(py, || Ok::<_, Refusal>(plan.deviations().collect::<Vec<f64>>()))?,
            Form::Several(plan) => {
                let (index, sigma) = (self.position(statistic)?, plan.plan().sigma());
                let rows = plan.joint().row_norms(index);
                rows.map(|rows| rows.iter().map(|squared| sigma * squared.sqrt()).collect())
                    .unwrap_or_default()
            }
        };
        Ok(arrays::array(py, values))
    }

    /// The distance within which all releases of all steps stay at once, except with probability ``failure``.
    #[pyo3(signature = (failure=0.05))]
    fn simultaneous_band(&self, failure: f64) -> PyResult<f64> {
        let plan = self.core();
        let dimension = plan.dimension().map_err(Refusal::from)?;
        Ok(plan.simultaneous_band(dimension, failure).map_err(Refusal::from)?)
    }

    /// Everything as a dictionary of plain values.
    ///
    /// >>> import continual_dp as cdp
    /// >>> week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=0.5)
    /// >>> week.to_dict()["budget"]
    /// {'zero-concentrated': {'rho': 0.5}}
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.document())
    }

    fn __repr__(&self) -> String {
        let plan = self.core();
        format!(
            "Plan({:?}, {}, strategy={:?}, sigma={:.6}, {}, {:?})",
            self.problem_statistics().join(" + "),
            plan.horizon(),
            plan.strategy().name(),
            plan.sigma(),
            plan.arithmetic(),
            arguments::budget_words(plan.budget()),
        )
    }

    fn __str__(&self) -> String {
        format!("{}\n\n{}", self.__repr__(), text_table(&self.report))
    }

    fn _repr_html_(&self) -> String {
        let plan = self.core();
        let words = format!(
            "{} over {}: strategy {}, σ = {:.6}, {}, {}",
            self.problem_statistics().join(" + "),
            plan.horizon(),
            plan.strategy().name(),
            plan.sigma(),
            plan.arithmetic(),
            arguments::budget_words(plan.budget()),
        );
        html_table(&words, &self.report)
    }
}

impl Plan {
    /// The place of a statistic by its name.
    fn position(&self, statistic: Option<&str>) -> Result<usize, Refusal> {
        let known = self.problem_statistics();
        match statistic {
            Some(name) => known.iter().position(|one| one == name),
            None if known.len() == 1 => Some(0),
            None => None,
        }
        .ok_or_else(|| Refusal::input(format!("statistic must be one of {}", known.join(", "))))
    }
}

/// A document as Python's own dictionaries and lists.
pub(crate) fn to_python<'py>(py: Python<'py>, document: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (document.to_string(),))
}

const HEADINGS: [&str; 5] = ["strategy", "mean error²", "largest error²", "above the bound", "values kept"];

fn cells(one: &planner::Evaluation) -> [String; 5] {
    [
        one.name.to_owned(),
        format!("{:.4}", one.mse),
        format!("{:.4}", one.max_se),
        format!("{:.2} %", 100.0 * one.gap),
        one.memory.to_string(),
    ]
}

/// The strategies of a report as a table of text.
fn text_table(report: &Report) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(report.strategies.iter().map(cells));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |row: &[String; 5]| {
        let rest = (1..5).map(|column| format!("  {:>1$}", row[column], widths[column]));
        format!("{:<1$}{2}\n", row[0], widths[0], rest.collect::<String>())
    };
    let table: String = rows.iter().map(line).collect();
    format!("{table}nothing is below {:.4} ({})", bound_of(report), bound_kind(report))
}

fn bound_kind(report: &Report) -> &str {
    match report.metric {
        Metric::Mse => &report.lower_bound.kind,
        Metric::Max => &report.lower_bound.max_kind,
    }
}

/// The same as HTML. All words are ours or of the public description, none can hold markup.
fn html_table(words: &str, report: &Report) -> String {
    let row = |tag: &str, cells: &[String; 5]| {
        format!("<tr><{tag}>{}</{tag}></tr>", cells.join(&format!("</{tag}><{tag}>")))
    };
    let head = row("th", &HEADINGS.map(str::to_owned));
    let body: String = report.strategies.iter().map(|one| row("td", &cells(one))).collect();
    format!(
        "<p>{words}</p><table><thead>{head}</thead><tbody>{body}</tbody></table><p>nothing is below {:.4} ({})</p>",
        bound_of(report),
        bound_kind(report)
    )
}

/// What a strategy is built for, and in which order it is judged.
struct Wanted {
    workloads: Vec<Workload>,
    several: bool,
    weights: Vec<f64>,
    steps: usize,
    participation: Participation,
    metric: Metric,
}

impl Wanted {
    /// The problem; several statistics are weighted in units of what each would have alone.
    fn problem(&self, watch: &mut Watch<'_>) -> dp_mechanisms::Result<Problem> {
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
fn weights(given: Option<Vec<f64>>, workloads: usize, several: bool) -> Result<Vec<f64>, Refusal> {
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

/// Chooses the strategy of least error, calibrates its noise to the budget, and says how good it is.
///
/// ``workload``
///     What is released after every step: ``"count"`` (running sum), ``"average"``, ``"window:7"``, ``"step"``,
///     ``"exp:1.1"``, ``"poly:0.5"``, ``"momentum:0.9"``, weights as a list of numbers with the newest input's first, or a
///     list of several names, which are then released together from one noise.
/// ``steps`` or ``doubling``
///     For how many steps; or, where nobody knows, the length of a first epoch that doubles for ever.
/// ``bounds``, ``norm`` or ``clip``
///     What one person can be: a number between two bounds in each of ``dimension`` coordinates; a vector of at most this
///     norm; or a part of a sum, clipped to this norm (for :class:`Noise` and :class:`PrivateGradients`).
/// ``relation``
///     What is protected: ``"zero-out"`` (whether somebody is there) or ``"replace"`` (who it is).
/// ``participation``
///     ``"single"``, or ``(times, separation)``: in at most so many steps, so far apart.
/// ``epsilon`` and ``delta``, ``epsilon`` alone, ``rho``, or ``mu``
///     The budget for all releases together.
/// ``exact``
///     In integers, which floating point cannot betray: the default, except for ``clip``.
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
    steps: Option<usize>,
    doubling: Option<usize>,
    bounds: Option<(f64, f64)>,
    norm: Option<f64>,
    clip: Option<f64>,
    dimension: Option<usize>,
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
    memory: Option<usize>,
) -> PyResult<Plan> {
    let (workloads, several) = arguments::workloads(workload)?;
    let relation: Relation = relation.parse().map_err(Refusal::from)?;
    let participation = arguments::participation(participation)?;
    let budget = arguments::budget(epsilon, delta, rho, mu)?;
    let method = match strategy {
        "auto" => None,
        name => Some(name.parse::<Method>().map_err(Refusal::from)?),
    };
    let person = Person::new(bounds, norm, clip)?;
    let dimension = match (dimension, clip) {
        (None, Some(_)) => {
            return Err(Refusal::input("clip needs dimension: how many coordinates the vectors have").into());
        }
        (given, _) => given.unwrap_or(1),
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
        (None, Some(first)) if several || exact || clip.is_some() => {
            return Err(Refusal::input(format!(
                "doubling = {first} is for one published statistic, and not measured in exact integers yet; plan for a \
                 number of steps, or accept numbers whose low bits can give a person away with exact=False"
            ))
            .into());
        }
        // Early epochs are over soon: what counts is a later one.
        (None, Some(first)) => first.saturating_mul(64).min(1 << 14).max(first),
        _ => return Err(Refusal::input("how many steps? give either steps or doubling").into()),
    };
    let grid = grid.unwrap_or_else(|| person.grid());
    let request = Choice { method, memory, dimension, budget, exact, clipped: clip.is_some() };
    let (form, report) = watched(py, |watch| {
        let problem = wanted.problem(watch)?;
        if let Some(first) = doubling {
            let (method, report) = request.endless(&problem, watch)?;
            let plan = Core::doubling(problem.workload(), method, footprint, budget, first)?;
            return Ok((Form::One(plan), report));
        }
        let (strategy, report) = request.strategy(&problem, &footprint, watch)?;
        let plan = if exact {
            Core::exact(&strategy, footprint, budget, grid)?
        } else {
            Core::new(Arc::clone(&strategy), footprint, budget)?
        };
        if problem.is_joint() {
            let plan = JointPlan::new(Joint::new(problem, strategy)?, plan)?;
            return Ok((Form::Several(Box::new(plan)), report));
        }
        Ok((Form::One(plan), report))
    })?;
    Ok(Plan { form, report, clip })
}

/// What one person can be.
enum Person {
    Bounds(f64, f64),
    Norm(f64),
    Clip(f64),
}

impl Person {
    fn new(bounds: Option<(f64, f64)>, norm: Option<f64>, clip: Option<f64>) -> Result<Self, Refusal> {
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
        Ok(match *self {
            Self::Bounds(low, high) => Footprint::vector(low, high, dimension, relation, participation)?,
            Self::Norm(norm) => Footprint::ball(norm, relation, participation)?.of_dimension(dimension)?,
            Self::Clip(norm) => {
                Clipping::flat(norm)?.footprint(relation, participation)?.of_dimension(dimension)?
            }
        })
    }

    /// The unit of exact measurements, where none is given.
    fn grid(&self) -> f64 {
        exact::grid(match *self {
            Self::Bounds(low, high) => low.abs().max(high.abs()),
            Self::Norm(norm) | Self::Clip(norm) => norm,
        })
    }
}

/// How a strategy is found.
struct Choice {
    method: Option<Method>,
    memory: Option<usize>,
    dimension: usize,
    budget: Budget,
    exact: bool,
    clipped: bool,
}

impl Choice {
    fn request(&self, problem: &Problem) -> Request {
        let pure = matches!(self.budget.kind(), Kind::Pure { .. });
        Request {
            method: self.method,
            dimension: self.dimension,
            memory: self.memory,
            // A release that is continued on a slower machine must choose the same strategy again.
            time: Duration::MAX,
            noise: if pure { Noise::Laplace } else { Noise::Gaussian },
            ..Request::new(problem.clone())
        }
    }

    /// The strategy, and what the planner says about it and the others.
    fn strategy(
        &self,
        problem: &Problem,
        footprint: &Footprint,
        watch: &mut Watch<'_>,
    ) -> dp_mechanisms::Result<(Arc<dyn Strategy>, Report)> {
        let mut request = self.request(problem);
        if self.clipped && self.method.is_none() && self.memory.is_none() {
            // Vectors may be long: the strategy is found among those that are affordable, and reported alone.
            let best = planner::best_watched(problem, footprint, self.dimension as u64, watch)?;
            request.method = Some(best.name().parse()?);
        }
        let report = planner::evaluate_watched(&request, watch)?;
        let strategy =
            if self.exact { report.measurable(problem, watch)? } else { Arc::clone(&report.strategy) };
        Ok((strategy, report))
    }

    /// The best method that can be built for any number of steps.
    fn endless(&self, problem: &Problem, watch: &mut Watch<'_>) -> dp_mechanisms::Result<(Method, Report)> {
        let report = planner::evaluate_watched(&self.request(problem), watch)?;
        let method = report.endless(problem.participation())?;
        Ok((method, report))
    }
}

/// All strategies for a workload side by side, with what no strategy can beat. Made by :func:`compare`.
#[pyclass(frozen, module = "continual_dp")]
pub(crate) struct Comparison(Report);

#[pymethods]
impl Comparison {
    /// The best strategy.
    #[getter]
    fn chosen(&self) -> &'static str {
        self.0.chosen
    }

    /// What no strategy can beat in the metric that was asked for.
    #[getter]
    fn lower_bound(&self) -> f64 {
        bound_of(&self.0)
    }

    /// The strategies, best first: one dictionary each.
    #[getter]
    fn table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &json!(self.0.strategies))
    }

    /// Everything as a dictionary of plain values.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &json!(self.0))
    }

    fn __repr__(&self) -> String {
        format!(
            "Comparison({:?}, steps={}, chosen={:?}, lower_bound={:.4})",
            self.0.workload,
            self.0.steps,
            self.0.chosen,
            bound_of(&self.0)
        )
    }

    fn __str__(&self) -> String {
        text_table(&self.0)
    }

    fn _repr_html_(&self) -> String {
        html_table(&format!("{} over {} steps", self.0.workload, self.0.steps), &self.0)
    }
}

/// Evaluates every strategy for a workload, without a budget: errors are factors, for noise of one unit.
///
/// >>> import continual_dp as cdp
/// >>> found = cdp.compare("count", steps=64)
/// >>> found.table[0]["name"] == found.chosen
/// True
/// >>> found.table[0]["gap"] < 0.01
/// True
#[pyfunction]
#[pyo3(signature = (
    workload, *, steps, participation=None, metric="mse", weights=None, dimension=1, memory=None, seconds=20.0, pure=false
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn compare(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    steps: usize,
    participation: Option<&Bound<'_, PyAny>>,
    metric: &str,
    weights: Option<Vec<f64>>,
    dimension: usize,
    memory: Option<usize>,
    seconds: f64,
    pure: bool,
) -> PyResult<Comparison> {
    let (workloads, several) = arguments::workloads(workload)?;
    let weights = self::weights(weights, workloads.len(), several)?;
    let participation = arguments::participation(participation)?;
    let wanted =
        Wanted { workloads, several, weights, steps, participation, metric: arguments::metric(metric)? };
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| Refusal::input("seconds is outside its range: a number of at least 0"))?;
    let noise = if pure { Noise::Laplace } else { Noise::Gaussian };
    let report = watched(py, |watch| {
        let problem = wanted.problem(watch)?;
        let request = Request { dimension, memory, time, noise, ..Request::new(problem) };
        planner::evaluate_watched(&request, watch)
    })?;
    Ok(Comparison(report))
}

/// How much noise a budget demands for one number that one person can change by at most 1. Made by :func:`calibrate`.
#[pyclass(frozen, get_all, module = "continual_dp")]
pub(crate) struct Calibration {
    /// The standard deviation of Gaussian noise.
    sigma: f64,
    /// What the budget buys in Gaussian differential privacy.
    mu: f64,
    /// What that noise satisfies in zero-concentrated differential privacy.
    rho: f64,
}

#[pymethods]
impl Calibration {
    fn __repr__(&self) -> String {
        format!("Calibration(sigma={}, mu={}, rho={})", self.sigma, self.mu, self.rho)
    }

    /// The same as a dictionary.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = [("sigma", self.sigma), ("mu", self.mu), ("rho", self.rho)];
        let dictionary = PyDict::new(py);
        for (name, value) in values {
            dictionary.set_item(PyString::new(py, name), value)?;
        }
        Ok(dictionary)
    }
}

/// How much Gaussian noise a budget demands for a change of at most 1, by the exact conversion.
///
/// >>> import continual_dp as cdp
/// >>> round(cdp.calibrate(epsilon=1, delta=1e-6).sigma, 4)
/// 4.2247
#[pyfunction]
#[pyo3(signature = (*, epsilon=None, delta=None, rho=None, mu=None))]
pub(crate) fn calibrate(
    epsilon: Option<f64>,
    delta: Option<f64>,
    rho: Option<f64>,
    mu: Option<f64>,
) -> PyResult<Calibration> {
    let budget = arguments::budget(epsilon, delta, rho, mu)?;
    if let Kind::Pure { .. } = budget.kind() {
        return Err(
            Refusal::input("epsilon needs delta here: no Gaussian noise satisfies a pure epsilon").into()
        );
    }
    Ok(Calibration { sigma: budget.unit_sigma(), mu: budget.mu(), rho: budget.rho_equivalent() })
}
