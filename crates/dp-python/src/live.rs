//! Objects that hold secrets and move forward: one place for what all of them refuse, and for leaving the interpreter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::Refusal;

/// The base of all objects that hold secret noise. They move forward step by step, belong to one process, cannot be copied or
/// pickled, and are closed once: at the end of a ``with`` block or by :meth:`close`.
#[pyclass(subclass, frozen, module = "continual_dp")]
pub(crate) struct Live {
    held: Arc<dyn Closable>,
}

#[pymethods]
impl Live {
    /// The number of steps taken so far.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.done(py)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.held.is_closed(py)
    }

    /// Saves what was taken, where there is a state, wipes everything from memory, and unlocks the state.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.held.close(py)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, py: Python<'_>, _arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        let (name, live, py) = (this.get_type().name()?, this.get(), this.py());
        if live.closed(py) {
            return Ok(format!("{name}(closed)"));
        }
        Ok(format!("{name}({} steps done)", live.done(py)?))
    }

    fn __reduce_ex__(this: &Bound<'_, Self>, _protocol: i32) -> PyResult<()> {
        refuse_copy(this)
    }

    fn __copy__(this: &Bound<'_, Self>) -> PyResult<()> {
        refuse_copy(this)
    }

    fn __deepcopy__(this: &Bound<'_, Self>, _memo: &Bound<'_, PyDict>) -> PyResult<()> {
        refuse_copy(this)
    }
}

fn refuse_copy(this: &Bound<'_, Live>) -> PyResult<()> {
    Err(PyTypeError::new_err(format!(
        "a {} cannot be copied or pickled: two copies would answer with one noise, and their difference would be that of the \
         data; keep its state in a file, and open it where it is needed",
        this.get_type().name()?
    )))
}

/// What moves forward.
pub(crate) trait Stepped: Send {
    /// The number of steps taken.
    fn step(&self) -> usize;

    /// Keeps what was taken, before the object is closed.
    fn settle(&mut self) -> Result<(), Refusal> {
        Ok(())
    }
}

/// What all live objects can do, whatever they hold.
trait Closable: Send + Sync {
    fn done(&self, py: Python<'_>) -> PyResult<usize>;
    fn close(&self, py: Python<'_>) -> PyResult<()>;
    fn is_closed(&self, py: Python<'_>) -> bool;
}

/// What is behind a live object: gone once it is closed, and of use only in the process that made it.
pub(crate) struct Held<T> {
    what: &'static str,
    process: u32,
    inner: Mutex<Option<T>>,
}

impl<T: Send> Held<T> {
    pub(crate) fn new(what: &'static str, inner: T) -> Arc<Self> {
        Arc::new(Self { what, process: std::process::id(), inner: Mutex::new(Some(inner)) })
    }

    /// Works on what is held, outside of the interpreter, one caller after the other. Whatever panics closes the object.
    pub(crate) fn with<R: Send, E: Into<Refusal>>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        let outcome = py.detach(|| {
            // A fork has the same noise: what it answered, this process would answer again.
            if self.process != std::process::id() {
                return Err(Refusal::closed(format!(
                    "this {} was made in another process, which still has it; two processes would answer with one noise",
                    self.what
                )));
            }
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(held) = inner.as_mut() else {
                return Err(Refusal::closed(format!("this {} is closed", self.what)));
            };
            if let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| work(held))) {
                return outcome.map_err(Into::into);
            }
            *inner = None;
            Err(Refusal::internal())
        });
        Ok(outcome?)
    }
}

impl<T: Stepped + 'static> Held<T> {
    /// The base of the Python object around it.
    pub(crate) fn live(self: &Arc<Self>) -> PyClassInitializer<Live> {
        let held: Arc<dyn Closable> = Arc::<Self>::clone(self);
        PyClassInitializer::from(Live { held })
    }
}

impl<T: Stepped> Closable for Held<T> {
    fn done(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |held| Ok::<_, Refusal>(held.step()))
    }

    /// Drops what is held, which wipes it. A second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let kept = if self.is_closed(py) { Ok(()) } else { self.with(py, Stepped::settle) };
        py.detach(|| *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = None);
        kept
    }

    fn is_closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }
}

/// Work outside of the interpreter that belongs to no object.
pub(crate) fn detached<R: Send, E: Into<Refusal>>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R, E> + Send,
) -> PyResult<R> {
    let outcome = py.detach(|| match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err(Refusal::internal()),
    });
    Ok(outcome?)
}
