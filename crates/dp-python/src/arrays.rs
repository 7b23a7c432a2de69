//! Arrays in and out, without copying where that is possible.

use numpy::{
    Element, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::arguments::name_of;
use crate::errors::Refusal;

/// An array of real numbers that is read, in its own precision.
pub(crate) enum Readable<'py> {
    Single(PyReadonlyArrayDyn<'py, f32>),
    Double(PyReadonlyArrayDyn<'py, f64>),
}

impl Readable<'_> {
    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Self::Single(array) => array.shape(),
            Self::Double(array) => array.shape(),
        }
    }
}

/// An array of real numbers that is written to, in its own precision.
pub(crate) enum Writable<'py> {
    Single(PyReadwriteArrayDyn<'py, f32>),
    Double(PyReadwriteArrayDyn<'py, f64>),
}

/// Whatever numpy makes of an argument, if it is an array of real numbers.
fn real_numbers<'py>(what: &str, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = given.py().import("numpy")?.call_method1("asarray", (given,)).map_err(|_| {
        PyErr::from(Refusal::kind(format!("{what} is {}, not an array of numbers", name_of(given))))
    })?;
    let array = array.cast_into::<PyUntypedArray>()?;
    let kind: char = array.dtype().getattr("kind")?.extract()?;
    if "biuf".contains(kind) {
        return Ok(array);
    }
    Err(Refusal::kind(format!("{what} has dtype {}; real numbers are needed", array.dtype())).into())
}

/// The numbers behind an argument in double precision: the array itself where it is one, otherwise a copy.
///
/// # Errors
/// What is no array of real numbers.
pub(crate) fn doubles<'py>(what: &str, given: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArrayDyn<'py, f64>> {
    let array = real_numbers(what, given)?;
    // `ascontiguousarray` would make a vector of a number.
    let array = array.py().import("numpy")?.call_method1("require", (array, "float64", "C"))?;
    Ok(array.cast::<PyArrayDyn<f64>>()?.try_readonly().map_err(|_| busy(what))?)
}

/// The integers of an array of one dimension, if an argument is one: the array itself where they have 64 bits, otherwise a copy.
///
/// # Errors
/// An array that somebody else is writing to.
pub(crate) fn integers<'py>(
    what: &str,
    given: &Bound<'py, PyAny>,
) -> PyResult<Option<PyReadonlyArrayDyn<'py, i64>>> {
    let Ok(array) = given.cast::<PyUntypedArray>() else { return Ok(None) };
    let dtype = array.dtype();
    let (kind, size): (char, usize) =
        (dtype.getattr("kind")?.extract()?, dtype.getattr("itemsize")?.extract()?);
    // Unsigned integers of 64 bits may not fit.
    if array.ndim() != 1 || !(kind == 'i' || (kind == 'u' && size < 8)) {
        return Ok(None);
    }
    let array = array.py().import("numpy")?.call_method1("require", (array, "int64", "C"))?;
    Ok(Some(array.cast::<PyArrayDyn<i64>>()?.try_readonly().map_err(|_| busy(what))?))
}

/// The numbers behind an argument: in single precision where they are, and in double precision otherwise.
///
/// # Errors
/// What is no array of real numbers.
pub(crate) fn readable<'py>(what: &str, given: &Bound<'py, PyAny>) -> PyResult<Readable<'py>> {
    let array = real_numbers(what, given)?;
    if let Ok(single) = array.as_any().cast::<PyArrayDyn<f32>>()
        && single.is_c_contiguous()
    {
        return Ok(Readable::Single(single.try_readonly().map_err(|_| busy(what))?));
    }
    doubles(what, array.as_any()).map(Readable::Double)
}

/// An array over the memory of what is none.
fn shared<'py>(what: &str, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = given.py();
    let numpy = py.import("numpy")?;
    let shared = match py.import("builtins")?.call_method1("memoryview", (given,)) {
        Ok(view) => numpy.call_method1("asarray", (view,)),
        Err(_) => numpy.call_method1("from_dlpack", (given,)),
    };
    let shared = shared.map_err(|_| {
        PyErr::from(Refusal::kind(format!(
            "{what} is {}; an array of float32 or float64 whose memory can be shared is needed",
            name_of(given)
        )))
    })?;
    Ok(shared.cast_into::<PyUntypedArray>()?)
}

/// The memory behind an argument, to be written to: an array, or what shares its memory through the buffer protocol or DLPack.
///
/// # Errors
/// What is not float32 or float64, not contiguous, or read-only; never a copy.
pub(crate) fn writable<'py>(what: &str, given: &Bound<'py, PyAny>) -> PyResult<Writable<'py>> {
    let array = match given.cast::<PyUntypedArray>() {
        Ok(array) => array.clone(),
        Err(_) => shared(what, given)?,
    };
    let flags = array.getattr("flags")?;
    let dtype = array.dtype();
    if !flags.getattr("writeable")?.extract::<bool>()? {
        return Err(Refusal::input(format!("{what} is read-only; give a writable copy of it")).into());
    }
    if !array.is_c_contiguous() {
        return Err(Refusal::input(format!("{what} is not contiguous; give a contiguous copy of it")).into());
    }
    let array = array.into_any();
    if let Ok(single) = array.cast::<PyArrayDyn<f32>>() {
        return Ok(Writable::Single(single.try_readwrite().map_err(|_| busy(what))?));
    }
    match array.cast::<PyArrayDyn<f64>>() {
        Ok(double) => Ok(Writable::Double(double.try_readwrite().map_err(|_| busy(what))?)),
        Err(_) => {
            Err(Refusal::kind(format!("{what} has dtype {dtype}; float32 or float64 is needed")).into())
        }
    }
}

/// An array that somebody else is writing to.
pub(crate) fn busy(what: &str) -> Refusal {
    Refusal::input(format!("{what} is being written to by another call"))
}

/// A new array of one dimension.
pub(crate) fn array(py: Python<'_>, values: Vec<f64>) -> Bound<'_, PyAny> {
    PyArray1::from_vec(py, values).into_any()
}

/// A new array of `rows` times `columns` values.
pub(crate) fn matrix(
    py: Python<'_>,
    values: Vec<f64>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'_, PyAny>> {
    Ok(PyArray1::from_vec(py, values).reshape([rows, columns])?.into_any())
}

/// The number of rows of an array: its first length.
pub(crate) fn rows(array: &PyReadonlyArrayDyn<'_, f64>) -> usize {
    array.shape().first().copied().unwrap_or(0)
}

/// Refuses an array of a shape that is none of those that are expected.
pub(crate) fn check_shape(
    what: &str,
    array: &PyReadonlyArrayDyn<'_, f64>,
    expected: &[&[usize]],
) -> Result<(), Refusal> {
    let shape = array.shape();
    if expected.contains(&shape) {
        return Ok(());
    }
    let expected: Vec<String> = expected.iter().map(|shape| format!("{shape:?}")).collect();
    Err(Refusal::input(format!("{what} has shape {shape:?}, but {} is needed", expected.join(" or "))))
}

/// The values of an array, which was made contiguous or found to be so.
pub(crate) fn slice<'a, T: Element>(
    what: &str,
    array: &'a PyReadonlyArrayDyn<'_, T>,
) -> Result<&'a [T], Refusal> {
    array.as_slice().map_err(|_| Refusal::input(format!("{what} is not contiguous")))
}

/// The values of an array that is written to.
pub(crate) fn slice_mut<'a, T: Element>(
    what: &str,
    array: &'a mut PyReadwriteArrayDyn<'_, T>,
) -> Result<&'a mut [T], Refusal> {
    array.as_slice_mut().map_err(|_| Refusal::input(format!("{what} is not contiguous")))
}
