//! All strategies for a workload side by side, without a budget.

use std::time::Duration;

use dp_mechanisms::planner::{self, Noise, Report, Request};
use pyo3::prelude::*;
use serde_json::json;

use crate::arguments::{self, whole, whole_or_none};
use crate::errors::Refusal;
use crate::plan::choice::{self, Wanted};
use crate::plan::table::{bound_of, html_table, text_table};
use crate::plan::to_python;
use crate::watch::watched;

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
    let weights = choice::weights(weights, workloads.len(), several)?;
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
