//! How much noise a budget demands.

use dp_mechanisms::budget::Kind;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arguments;
use crate::errors::Refusal;
use crate::live::detached;

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
