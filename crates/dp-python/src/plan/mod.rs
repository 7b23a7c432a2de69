//! A plan: everything that is known before data.

pub(crate) mod choice;
pub(crate) mod table;

use std::sync::OnceLock;

use dp_ftrl::Clipping;
use dp_mechanisms::planner::{self, Report, Request};
use dp_mechanisms::{Arithmetic, Horizon, JointPlan, Metric, Plan as Core};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::arguments::{self, whole};
use crate::arrays;
use crate::errors::Refusal;
use crate::live::detached;
use crate::watch::watched;
use table::{html_table, text_table};

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
