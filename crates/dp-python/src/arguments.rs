//! Words and numbers of Python as values of the libraries.

use dp_ftrl::Clipping;
use dp_mechanisms::budget::Kind;
use dp_mechanisms::{Budget, Method, Metric, Participation, Seed, Workload};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::Refusal;

/// The largest ε: twice its exponential is still a number.
const LARGEST_EPSILON: f64 = 700.0;

/// The budget in one of its forms.
pub(crate) fn budget(
    epsilon: Option<f64>,
    delta: Option<f64>,
    rho: Option<f64>,
    mu: Option<f64>,
) -> Result<Budget, Refusal> {
    Ok(match (epsilon, delta, rho, mu) {
        (Some(epsilon), ..) if epsilon > LARGEST_EPSILON => {
            return Err(Refusal::input(format!(
                "epsilon = {epsilon:e} promises nothing: its exponential is no number any more; give at most \
                 {LARGEST_EPSILON}"
            )));
        }
        (Some(epsilon), Some(delta), None, None) if delta != 0.0 => Budget::approximate(epsilon, delta)?,
        (Some(epsilon), _, None, None) => Budget::pure(epsilon)?,
        (None, None, Some(rho), None) => Budget::zero_concentrated(rho)?,
        (None, None, None, Some(mu)) => Budget::gaussian(mu)?,
        _ => {
            return Err(Refusal::input(
                "the privacy budget is needed in one form: epsilon and delta, epsilon alone, rho, or mu",
            ));
        }
    })
}

/// A number of things. The interpreter adds the name of the argument as a note.
pub(crate) fn whole<T: TryFrom<u64>>(given: &Bound<'_, PyAny>) -> PyResult<T> {
    match given.extract::<u64>() {
        Ok(number) => number.try_into().map_err(|_| outside()),
        Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => Err(outside()),
        Err(_) => Err(Refusal::kind(format!("a whole number is needed, and not {}", name_of(given))).into()),
    }
}

fn outside() -> PyErr {
    Refusal::input("the number is negative or too large; a whole number from 0 to 2^64 - 1 is needed").into()
}

/// The same, where it may be left out.
pub(crate) fn whole_or_none<T: TryFrom<u64>>(given: &Bound<'_, PyAny>) -> PyResult<Option<T>> {
    if given.is_none() { Ok(None) } else { whole(given).map(Some) }
}

/// A budget in words.
pub(crate) fn budget_words(budget: &Budget) -> String {
    match budget.kind() {
        Kind::Approximate { epsilon, delta } => {
            format!("({epsilon}, {delta:e})-differential privacy")
        }
        Kind::Pure { epsilon } => format!("{epsilon}-differential privacy"),
        Kind::ZeroConcentrated { rho } => format!("{rho}-zero-concentrated differential privacy"),
        Kind::Gaussian { mu } => format!("{mu}-Gaussian differential privacy"),
    }
}

/// `"single"`, `"4:30"` or `(4, 30)`; a single one where nothing is said.
pub(crate) fn participation(given: Option<&Bound<'_, PyAny>>) -> PyResult<Participation> {
    let Some(given) = given else { return Ok(Participation::Single) };
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(text.to_cow()?.parse().map_err(Refusal::from)?);
    }
    match given.extract::<[usize; 2]>() {
        Ok([times, separation]) => Ok(Participation::repeated(times, separation).map_err(Refusal::from)?),
        Err(_) => Err(Refusal::kind(format!(
            "participation is {}; give \"single\", or how often and how far apart, such as (4, 30)",
            name_of(given)
        ))
        .into()),
    }
}

/// Two numbers, the lower first.
pub(crate) fn bounds(what: &str, given: &Bound<'_, PyAny>) -> PyResult<(f64, f64)> {
    match given.extract::<[f64; 2]>() {
        Ok([low, high]) => Ok((low, high)),
        Err(_) => {
            Err(Refusal::kind(format!("{what} is {}; give two numbers, (low, high)", name_of(given))).into())
        }
    }
}

/// A norm to which whole vectors are clipped; or layers of given lengths and norms, and how long they are together.
pub(crate) fn clipping(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<(Clipping, Option<usize>)>> {
    let Some(given) = given else { return Ok(None) };
    if let Ok(norm) = given.extract::<f64>() {
        return Ok(Some((Clipping::flat(norm).map_err(Refusal::from)?, None)));
    }
    let Ok(layers) = given.extract::<Vec<(usize, f64)>>() else {
        return Err(Refusal::kind(format!(
            "clip is {}; give a norm, or the length and the norm of every layer, such as [(784, 1.0), (10, 0.1)]",
            name_of(given)
        ))
        .into());
    };
    let (lengths, norms): (Vec<usize>, Vec<f64>) = layers.into_iter().unzip();
    let clipping = Clipping::per_layer(&lengths, &norms).map_err(Refusal::from)?;
    let together = lengths.iter().fold(0_usize, |sum, length| sum.saturating_add(*length));
    Ok(Some((clipping, Some(together))))
}

/// `"mse"` or `"max"`.
pub(crate) fn metric(text: &str) -> Result<Metric, Refusal> {
    match text {
        "mse" => Ok(Metric::Mse),
        "max" => Ok(Metric::Max),
        _ => Err(Refusal::input(format!("`{text}` is not a metric; expected mse or max"))),
    }
}

/// A strategy by its name; nothing for the best.
pub(crate) fn method(name: &str) -> Result<Option<Method>, Refusal> {
    match name {
        "auto" => Ok(None),
        name => Ok(Some(name.parse()?)),
    }
}

/// What is asked for: one statistic or several.
pub(crate) fn workloads(given: &Bound<'_, PyAny>) -> PyResult<(Vec<Workload>, bool)> {
    let parse = |text: &str| text.parse::<Workload>().map_err(Refusal::from);
    if let Ok(text) = given.cast::<PyString>() {
        return Ok((vec![parse(&text.to_cow()?)?], false));
    }
    if let Ok(names) = given.extract::<Vec<String>>() {
        if names.is_empty() {
            return Err(Refusal::input("the list of workloads is empty; give at least one").into());
        }
        let found = names.iter().map(|name| parse(name)).collect::<Result<_, _>>()?;
        return Ok((found, true));
    }
    match given.extract::<Vec<f64>>() {
        Ok(weights) => Ok((vec![Workload::weights(&weights).map_err(Refusal::from)?], false)),
        Err(_) => Err(Refusal::kind(format!(
            "workload is {}; give a name, a list of names, or weights with the newest input's first",
            name_of(given)
        ))
        .into()),
    }
}

/// The kind of a value, for messages: never the value.
pub(crate) fn name_of(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    format!("a {name}")
}

/// Where noise comes from, with a warning if anybody can repeat it.
pub(crate) fn seed(py: Python<'_>, reproducible: Option<u64>) -> PyResult<Seed> {
    let Some(number) = reproducible else { return Ok(Seed::from_system().map_err(Refusal::from)?) };
    warn_not_private(py)?;
    Ok(Seed::reproducible(number))
}

/// Says that what comes is not private.
pub(crate) fn warn_not_private(py: Python<'_>) -> PyResult<()> {
    let category = py.import("continual_dp._errors")?.getattr("NotPrivateWarning")?;
    let words = "reproducible_seed makes releases that are NOT PRIVATE: whoever knows the number can subtract the noise";
    let arguments = PyTuple::new(py, [words.into_pyobject(py)?.into_any(), category])?;
    py.import("warnings")?.call_method1("warn", arguments)?;
    Ok(())
}
