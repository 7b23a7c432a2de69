//! How private many steps are together.

use dp_mechanisms::accountant::{self, Accountant as Core, Event};
use pyo3::prelude::*;

use crate::arguments::whole;
use crate::errors::Refusal;
use crate::live::detached;

/// A number that is proved to lie between two others.
///
/// ``upper`` is what may be promised; ``lower`` says how loose that can be at most.
#[pyclass(frozen, get_all, module = "continual_dp")]
pub(crate) struct Bracket {
    /// What may be promised.
    upper: f64,
    /// Nothing below it is true.
    lower: f64,
}

impl From<accountant::Bracket> for Bracket {
    fn from(bracket: accountant::Bracket) -> Self {
        Self { upper: bracket.upper, lower: bracket.lower }
    }
}

#[pymethods]
impl Bracket {
    fn __repr__(&self) -> String {
        format!("Bracket(upper={}, lower={})", self.upper, self.lower)
    }

    fn __float__(&self) -> f64 {
        self.upper
    }
}

/// How private many steps are together, whatever they are: steps are added, and ε or δ asked for.
///
/// Neighbours differ in the presence of one person. All answers are proved bounds.
///
/// >>> import continual_dp as cdp
/// >>> steps = cdp.Accountant().sampled_gaussian(1.1, rate=0.01, times=1000)
/// >>> print(f"{steps.epsilon(1e-5).upper:.2f}")
/// 1.52
#[pyclass(frozen, module = "continual_dp")]
pub(crate) struct Accountant(Core);

impl Accountant {
    fn and(&self, py: Python<'_>, event: dp_mechanisms::Result<Event>, times: u64) -> PyResult<Self> {
        let (event, so_far) = (event.map_err(Refusal::from)?, self.0.clone());
        detached(py, move || so_far.with(&event, times)).map(Self)
    }
}

#[pymethods]
impl Accountant {
    #[new]
    fn new() -> Self {
        Self(Core::new())
    }

    /// Adds steps of Gaussian noise in which everybody takes part.
    ///
    /// >>> import continual_dp as cdp
    /// >>> one = cdp.Accountant().gaussian(2.0)
    /// >>> one.delta(1.0).upper < 0.01
    /// True
    #[pyo3(signature = (noise_multiplier, times=1))]
    fn gaussian(
        &self,
        py: Python<'_>,
        noise_multiplier: f64,
        #[pyo3(from_py_with = whole)] times: u64,
    ) -> PyResult<Self> {
        self.and(py, Event::gaussian(noise_multiplier), times)
    }

    /// Adds steps of Gaussian noise in which everybody takes part with a probability (Poisson sampling).
    ///
    /// >>> import continual_dp as cdp
    /// >>> seldom = cdp.Accountant().sampled_gaussian(1.0, rate=0.001, times=100)
    /// >>> always = cdp.Accountant().gaussian(1.0, times=100)
    /// >>> seldom.epsilon(1e-6).upper < always.epsilon(1e-6).upper / 20
    /// True
    #[pyo3(signature = (noise_multiplier, rate, times=1))]
    fn sampled_gaussian(
        &self,
        py: Python<'_>,
        noise_multiplier: f64,
        rate: f64,
        #[pyo3(from_py_with = whole)] times: u64,
    ) -> PyResult<Self> {
        self.and(py, Event::sampled_gaussian(noise_multiplier, rate), times)
    }

    /// Adds steps of Laplace noise.
    ///
    /// >>> import continual_dp as cdp
    /// >>> 0.49 < cdp.Accountant().laplace(2.0).epsilon(1e-9).upper < 0.501
    /// True
    #[pyo3(signature = (scale, times=1))]
    fn laplace(
        &self,
        py: Python<'_>,
        scale: f64,
        #[pyo3(from_py_with = whole)] times: u64,
    ) -> PyResult<Self> {
        self.and(py, Event::laplace(scale), times)
    }

    /// Adds steps of which nothing is known but their pure ε.
    ///
    /// >>> import continual_dp as cdp
    /// >>> 0.99 < cdp.Accountant().pure(0.5, times=2).epsilon(1e-9).upper < 1.01
    /// True
    #[pyo3(signature = (epsilon, times=1))]
    fn pure(&self, py: Python<'_>, epsilon: f64, #[pyo3(from_py_with = whole)] times: u64) -> PyResult<Self> {
        self.and(py, Event::pure(epsilon), times)
    }

    /// ε at a given δ, from both sides.
    fn epsilon(&self, py: Python<'_>, delta: f64) -> PyResult<Bracket> {
        detached(py, || self.0.epsilon(delta)).map(Into::into)
    }

    /// δ at a given ε, from both sides.
    fn delta(&self, py: Python<'_>, epsilon: f64) -> PyResult<Bracket> {
        detached(py, || self.0.delta(epsilon)).map(Into::into)
    }
}

/// How private steps of Gaussian noise are together, or the noise that makes them so.
///
/// Everybody takes part in a step with probability ``sampling_rate``. Given ``noise_multiplier`` (the standard deviation of
/// the noise over what one person can change), returns ε as a :class:`Bracket`; given ``epsilon``, returns the noise
/// multiplier as one.
///
/// >>> import continual_dp as cdp
/// >>> round(cdp.account(delta=1e-5, noise_multiplier=1.1, sampling_rate=0.01, steps=1000).upper, 2)
/// 1.52
/// >>> noise = cdp.account(delta=1e-5, epsilon=1.52, sampling_rate=0.01, steps=1000)
/// >>> 1.09 < noise.upper < 1.11
/// True
#[pyfunction]
#[pyo3(signature = (*, delta, noise_multiplier=None, epsilon=None, sampling_rate=1.0, steps=1))]
pub(crate) fn account(
    py: Python<'_>,
    delta: f64,
    noise_multiplier: Option<f64>,
    epsilon: Option<f64>,
    sampling_rate: f64,
    #[pyo3(from_py_with = whole)] steps: u64,
) -> PyResult<Bracket> {
    let found = match (noise_multiplier, epsilon) {
        (Some(noise), None) => detached(py, || {
            let step = Event::sampled_gaussian(noise, sampling_rate)?;
            Core::new().with(&step, steps)?.epsilon(delta)
        }),
        (None, Some(epsilon)) => {
            detached(py, || accountant::noise_multiplier(epsilon, delta, sampling_rate, steps))
        }
        _ => return Err(Refusal::input("give either noise_multiplier or epsilon").into()),
    };
    found.map(Into::into)
}
