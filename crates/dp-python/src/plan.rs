//! Planning, comparing and calibrating: everything that happens before data.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
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

use crate::arguments::{self, whole, whole_or_none};
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

/// What is released, for how long, with how much noise, and how good that is. Made by :func:`plan`.
///
/// ``print(plan)`` shows the table of all strategies; notebooks show it as HTML. The table is made when it is first asked for.
#[pyclass(frozen, module = "continual_dp")]
pub(crate) struct Plan {
    pub(crate) form: Form,
    /// What the strategies are compared for.
    request: Request,
    /// The strategy in use beside the lower bound, once somebody has asked.
    own: OnceLock<Report>,
    /// All strategies, once somebody has asked.
    all: OnceLock<Report>,
    /// How a person's part in a step is clipped, where steps are sums of clipped vectors.
    pub(crate) clip: Option<Clipping>,
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

    /// The strategy in use beside the lower bound.
    fn own(&self, py: Python<'_>) -> PyResult<&Report> {
        let name = self.core().strategy().name();
        kept(py, &self.own, || {
            Ok(Request { method: Some(name.parse()?), memory: None, ..self.request.clone() })
        })
    }

    /// All strategies, that in use always among them.
    fn all(&self, py: Python<'_>) -> PyResult<Report> {
        let mut report = kept(py, &self.all, || Ok(self.request.clone()))?.clone();
        let name = self.core().strategy().name();
        if report.strategies.iter().all(|one| one.name != name) {
            report.strategies.extend(self.own(py)?.strategies.iter().cloned());
            report.strategies.sort_by(|left, right| left.gap.total_cmp(&right.gap));
        }
        Ok(report)
    }

    /// Mean and largest variance of a release, weighted over the statistics where there are several.
    fn errors(&self) -> (f64, f64) {
        match &self.form {
            Form::One(plan) => {
                let variance = plan.sigma() * plan.sigma();
                (variance * plan.row_norms().mean(), variance * plan.row_norms().max())
            }
            Form::Several(plan) => {
                let variance = unit_variance(plan);
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

    fn document(&self, py: Python<'_>) -> PyResult<Value> {
        let (plan, report) = (self.core(), self.all(py)?);
        let (mean, largest) = self.errors();
        let statistics = self.problem_statistics();
        let mut document = json!({
            "workload": statistics.join(" + "),
            "horizon": plan.horizon().to_string(),
            "participation": report.participation,
            "relation": plan.footprint().relation().to_string(),
            "metric": report.metric,
            "budget": plan.budget().kind(),
            "arithmetic": plan.arithmetic().to_string(),
            "dimension": plan.footprint().dimension(),
            "strategy": plan.strategy().name(),
            "sigma": plan.sigma(),
            "sensitivity": plan.sensitivity().squared.sqrt(),
            "mean_squared_error": mean,
            "largest_squared_error": largest,
            "lower_bound": self.lower_bound(py)?,
            "gap": self.gap(py)?,
            "bounds": report.lower_bound,
            "strategies": report.strategies,
            "skipped": report.skipped,
        });
        if let Form::Several(_) = &self.form {
            document["statistics"] = json!(statistics);
        }
        if let Some(clipping) = &self.clip {
            document["clip"] = json!(clipping.to_string());
        }
        Ok(document)
    }
}

/// What the planner finds, kept after the first time.
fn kept<'a>(
    py: Python<'_>,
    place: &'a OnceLock<Report>,
    request: impl FnOnce() -> dp_mechanisms::Result<Request> + Send,
) -> PyResult<&'a Report> {
    if let Some(report) = place.get() {
        return Ok(report);
    }
    let report = watched(py, |watch| planner::evaluate_watched(&request()?, watch))?;
    Ok(place.get_or_init(|| report))
}

/// The variance of a statistic whose row of B has norm 1; an exact plan scales its strategy, and σ alone does not say it.
fn unit_variance(plan: &JointPlan) -> f64 {
    let row = plan.joint().row_norms(0).and_then(|rows| rows.at(0));
    let deviation = plan.standard_deviation(0, 1);
    deviation.zip(row).map_or(f64::NAN, |(deviation, squared)| deviation * deviation / squared)
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
    fn lower_bound(&self, py: Python<'_>) -> PyResult<f64> {
        let own = match self.request.problem.metric() {
            Metric::Mse => self.errors().0,
            Metric::Max => self.errors().1,
        };
        Ok(own / (1.0 + self.gap(py)?))
    }

    /// How far the error lies above the lower bound, as a fraction.
    #[getter]
    fn gap(&self, py: Python<'_>) -> PyResult<f64> {
        let (name, own) = (self.core().strategy().name(), self.own(py)?);
        Ok(own.strategies.iter().find(|one| one.name == name).map_or(f64::NAN, |one| one.gap))
    }

    /// All strategies, best first, one dictionary each, as :func:`compare` finds them. Errors are factors, for noise of one
    /// unit.
    #[getter]
    fn table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &json!(self.all(py)?.strategies))
    }

    /// The standard deviation of a release after a step, counted from 1; of one statistic by its name where there are several.
    ///
    /// >>> import continual_dp as cdp
    /// >>> week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=0.5, strategy="identity")
    /// >>> round(week.standard_deviation(4) / week.standard_deviation(1), 6)
    /// 2.0
    #[pyo3(signature = (step, statistic=None))]
    fn standard_deviation(
        &self,
        #[pyo3(from_py_with = whole)] step: usize,
        statistic: Option<&str>,
    ) -> PyResult<f64> {
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
                let index = self.position(statistic)?;
                let steps = 1..=plan.plan().steps();
                steps.filter_map(|step| plan.standard_deviation(index, step)).collect()
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
        to_python(py, &self.document(py)?)
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

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{}\n\n{}", self.__repr__(), text_table(&self.all(py)?)))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
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
        Ok(html_table(&words, &self.all(py)?))
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
    let grid = grid.unwrap_or_else(|| person.grid());
    let choice = Choice { method, memory, dimension, budget, exact };
    let (form, request, report) = watched(py, |watch| {
        let problem = wanted.problem(watch)?;
        let request = choice.request(&problem);
        if let Some(first) = doubling {
            let unit = exact.then_some(grid);
            let (plan, report) = choice.endless(&request, footprint, unit, first, watch)?;
            return Ok((Form::One(plan), request, report));
        }
        let (strategy, report) = choice.strategy(&request, &footprint, watch)?;
        let plan = if exact {
            Core::exact(&strategy, footprint, budget, grid)?
        } else {
            Core::new(Arc::clone(&strategy), footprint, budget)?
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

    /// The unit of exact measurements, where none is given.
    fn grid(&self) -> f64 {
        exact::grid(match self {
            Self::Bounds(low, high) => low.abs().max(high.abs()),
            Self::Norm(norm) => *norm,
            Self::Clip(clipping) => clipping.norm(),
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
        let strategy =
            if self.exact { report.measurable(problem, watch)? } else { Arc::clone(&report.strategy) };
        Ok((strategy, self.method.is_none().then_some(report)))
    }

    /// Epochs that double for ever, by the best method that can be built for any number of steps and, with a grid, measured in
    /// exact integers.
    fn endless(
        &self,
        request: &Request,
        footprint: Footprint,
        grid: Option<f64>,
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
        let plan = |method: &Method| match grid {
            Some(grid) => {
                Core::doubling_exact(workload, *method, footprint.clone(), self.budget, grid, first)
            }
            None => Core::doubling(workload, *method, footprint.clone(), self.budget, first),
        };
        let planned = methods.iter().map(plan).find(Result::is_ok);
        Ok((planned.unwrap_or_else(|| plan(&methods[0]))?, report))
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
    #[pyo3(from_py_with = whole)] steps: usize,
    participation: Option<&Bound<'_, PyAny>>,
    metric: &str,
    weights: Option<Vec<f64>>,
    #[pyo3(from_py_with = whole)] dimension: usize,
    #[pyo3(from_py_with = whole_or_none)] memory: Option<usize>,
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

/// How much noise a budget demands for one number. Made by :func:`calibrate`.
#[pyclass(frozen, get_all, module = "continual_dp")]
pub(crate) struct Calibration {
    /// The standard deviation of Gaussian noise, rounded up.
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

/// How much Gaussian noise a budget demands for a number that one person can change by at most ``change``, by the exact
/// conversion: what ``dp calibrate`` prints, to the last bit.
///
/// >>> import continual_dp as cdp
/// >>> round(cdp.calibrate(epsilon=1, delta=1e-6).sigma, 4)
/// 4.2247
#[pyfunction]
#[pyo3(signature = (*, epsilon=None, delta=None, rho=None, mu=None, change=1.0))]
pub(crate) fn calibrate(
    py: Python<'_>,
    epsilon: Option<f64>,
    delta: Option<f64>,
    rho: Option<f64>,
    mu: Option<f64>,
    change: f64,
) -> PyResult<Calibration> {
    let budget = detached(py, || arguments::budget(epsilon, delta, rho, mu))?;
    if let Kind::Pure { .. } = budget.kind() {
        return Err(
            Refusal::input("epsilon needs delta here: no Gaussian noise satisfies a pure epsilon").into()
        );
    }
    if !(change > 0.0 && change.is_finite()) {
        return Err(Refusal::input(format!("change = {change} is not finite and positive")).into());
    }
    let sigma = (budget.unit_sigma() * change).next_up();
    Ok(Calibration { sigma, mu: budget.mu(), rho: budget.rho_equivalent() })
}
