//! The live release of a statistic, or of several: inputs in, private numbers out.

use std::path::PathBuf;
use std::sync::Arc;

use dp_mechanisms::{Horizon, Readout, Session, StateFile};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList};

use crate::arguments::{self, whole_or_none};
use crate::arrays;
use crate::errors::Refusal;
use crate::live::{Held, Live, Stepped, detached};
use crate::plan::{Form, Plan, names};

/// The name under which the reading of several statistics is kept in a state.
const READING: &str = "readout";

/// A stream of private releases: one for every input, with correlated noise, all together within the budget.
///
/// Made of a :class:`Plan`. Without a file it lives as long as the object; :meth:`open` keeps it in a sealed state on disk,
/// so that it survives a crash and goes on in another process; :meth:`save` does so from now on. An input that is refused
/// changes nothing.
///
/// >>> import continual_dp as cdp
/// >>> week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=100)
/// >>> with cdp.Release(week) as release:
/// ...     monday = release.step(1.0)
/// ...     rest = release.steps([1, 0, 0, 1, 1, 1])
/// >>> bool(abs(rest[-1] - 5) < 3)
/// True
///
/// Several statistics come as a dictionary:
///
/// >>> both = cdp.plan(["count", "step"], steps=7, bounds=(0, 1), relation="zero-out", rho=100)
/// >>> sorted(cdp.Release(both).step(1.0))
/// ['count', 'step']
#[pyclass(extends = Live, frozen, module = "continual_dp")]
pub(crate) struct Release {
    plan: Py<Plan>,
    dimension: usize,
    /// The statistics that are read off, where there are several.
    names: Vec<String>,
    held: Arc<Held<Inner>>,
}

struct Inner {
    session: Session,
    reading: Option<Readout>,
    /// How many statistics it reads.
    statistics: usize,
    /// What was read off the last group of releases.
    shown: Vec<f64>,
}

impl Stepped for Inner {
    fn step(&self) -> usize {
        self.session.step()
    }
}

impl Inner {
    /// Seals the reading of several statistics beside the mechanism, as it stands now.
    fn attach(&mut self) -> Result<(), Refusal> {
        if let (true, Some(reading)) = (self.session.is_durable(), &self.reading) {
            self.session
                .attach(READING, serde_json::to_vec(&reading.state()).map_err(|_| Refusal::internal())?);
        }
        Ok(())
    }

    /// Reads the statistics off the group that was committed last.
    fn read_on(&mut self) -> Result<(), Refusal> {
        let Some(reading) = &mut self.reading else { return Ok(()) };
        let released = self.session.last_committed();
        let length = released.iter().next().map_or(0, |(_, values)| values.len()) * self.statistics;
        self.shown.clear();
        self.shown.resize(released.len() * length, 0.0);
        for ((_, release), shown) in released.iter().zip(self.shown.chunks_exact_mut(length.max(1))) {
            reading.push(release, shown)?;
        }
        Ok(())
    }

    /// The numbers of the group that was committed last, step after step, on the grid of their statistic where it has one.
    fn values(&self) -> Vec<f64> {
        if self.reading.is_some() {
            return self.shown.clone();
        }
        let (plan, released) = (self.session.plan(), self.session.last_committed());
        let values = released.iter().flat_map(|(_, values)| values);
        values.map(|value| plan.on_grid(*value)).collect()
    }

    /// Takes consecutive inputs and returns their releases. Nothing is taken if one of them would be refused.
    fn take(&mut self, inputs: &[f64], dimension: usize) -> Result<Vec<f64>, Refusal> {
        let (step, plan) = (self.session.step(), self.session.plan());
        let rows = inputs.len() / dimension;
        if rows > plan.steps() - step {
            return Err(dp_mechanisms::Error::HorizonReached { horizon: plan.steps() }.into());
        }
        let domain = plan.footprint().domain();
        for (number, input) in (step + 1..).zip(inputs.chunks_exact(dimension)) {
            domain.check(number, input)?;
        }
        if rows == 0 {
            return Ok(Vec::new());
        }
        // The state holds the releases of the group, and the reading as it stands before them.
        self.attach()?;
        let staged = inputs.chunks_exact(dimension).try_for_each(|input| self.session.stage(input));
        self.session.commit()?;
        self.read_on()?;
        staged?;
        Ok(self.values())
    }
}

impl Release {
    fn start(
        py: Python<'_>,
        plan: Py<Plan>,
        reproducible_seed: Option<u64>,
        state: Option<(PathBuf, Option<PathBuf>)>,
    ) -> PyResult<Py<Self>> {
        let described = plan.get();
        if described.clip.is_some() {
            let words = "plan is one for sums of clipped vectors; give it to Noise or PrivateGradients";
            return Err(Refusal::input(words).into());
        }
        let core = described.core();
        let dimension = core.dimension().map_err(Refusal::from)?;
        let seed = arguments::seed(py, reproducible_seed)?;
        let joint = match &described.form {
            Form::One(_) => None,
            Form::Several(joint) => Some(joint),
        };
        let names = joint.map_or_else(Vec::new, |joint| names(joint));
        let statistics = names.len();
        let inner = detached(py, || {
            let file = match state {
                Some((path, key)) => Some(StateFile::open(&path, key.as_deref())?),
                None => None,
            };
            let session = Session::open(core.clone(), seed, file)?;
            let mut reading = joint.map(|joint| joint.readout(dimension)).transpose()?;
            let before = session.step() - session.last_committed().len();
            if let (Some(reading), Some(saved)) = (&mut reading, session.attachment(READING)) {
                let saved: Vec<Vec<f64>> = serde_json::from_slice(saved)
                    .map_err(|_| Refusal::state("the saved state holds no reading of the statistics"))?;
                reading.restore(before, &saved)?;
            }
            let mut inner = Inner { session, reading, statistics, shown: Vec::new() };
            inner.read_on()?;
            Ok::<_, Refusal>(inner)
        })?;
        let held = Held::new("release", inner);
        let base = held.live();
        Py::new(py, base.add_subclass(Self { plan, dimension, names, held }))
    }

    /// The numbers of one step as Python sees them.
    fn one<'py>(&self, py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyAny>> {
        let vector = |values: &[f64]| match values {
            [value] if self.dimension == 1 => Ok(value.into_pyobject(py)?.into_any()),
            values => Ok(arrays::array(py, values.to_vec())),
        };
        if self.names.is_empty() {
            return vector(values);
        }
        let all = PyDict::new(py);
        for (name, values) in self.names.iter().zip(values.chunks_exact(self.dimension)) {
            all.set_item(name, vector(values)?)?;
        }
        Ok(all.into_any())
    }

    /// The numbers of several steps as Python sees them.
    fn many<'py>(&self, py: Python<'py>, values: Vec<f64>) -> PyResult<Bound<'py, PyAny>> {
        let array = |values: Vec<f64>| {
            if self.dimension == 1 {
                return Ok(arrays::array(py, values));
            }
            let rows = values.len() / self.dimension;
            arrays::matrix(py, values, rows, self.dimension)
        };
        if self.names.is_empty() {
            return array(values);
        }
        let all = PyDict::new(py);
        let width = self.names.len() * self.dimension;
        for (index, name) in self.names.iter().enumerate() {
            let own = index * self.dimension..(index + 1) * self.dimension;
            let values = values.chunks_exact(width).flat_map(|row| row[own.clone()].iter().copied());
            all.set_item(name, array(values.collect())?)?;
        }
        Ok(all.into_any())
    }
}

#[pymethods]
impl Release {
    #[new]
    #[pyo3(signature = (plan, *, reproducible_seed=None))]
    fn new(
        py: Python<'_>,
        plan: Py<Plan>,
        #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
    ) -> PyResult<Py<Self>> {
        Self::start(py, plan, reproducible_seed, None)
    }

    /// Goes on with the release in a sealed file, or begins one there.
    ///
    /// ``key`` is the file of the key, made if there is none; by default the state's name with ``.key`` appended. The file is
    /// locked while the object is open: a second process is refused.
    ///
    /// >>> import continual_dp as cdp, os, tempfile
    /// >>> week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=1)
    /// >>> path = os.path.join(tempfile.mkdtemp(), "visits.state")
    /// >>> with cdp.Release.open(path, week) as release:
    /// ...     monday = release.step(1)
    /// >>> with cdp.Release.open(path, week) as release:   # another day, another process
    /// ...     release.done, release.last == [(1, monday)]
    /// (1, True)
    #[staticmethod]
    #[pyo3(signature = (path, plan, *, key=None, reproducible_seed=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        plan: Py<Plan>,
        key: Option<PathBuf>,
        #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
    ) -> PyResult<Py<Self>> {
        Self::start(py, plan, reproducible_seed, Some((path, key)))
    }

    /// Keeps the release in a sealed file from now on: every later step is on disk before it is shown.
    ///
    /// >>> import continual_dp as cdp, os, tempfile
    /// >>> week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=1)
    /// >>> path = os.path.join(tempfile.mkdtemp(), "visits.state")
    /// >>> with cdp.Release(week) as release:
    /// ...     monday = release.step(1)
    /// ...     release.save(path)
    /// ...     tuesday = release.step(0)
    /// >>> cdp.Release.open(path, week).done
    /// 2
    #[pyo3(signature = (path, *, key=None))]
    fn save(&self, py: Python<'_>, path: PathBuf, key: Option<PathBuf>) -> PyResult<()> {
        self.held.with(py, |inner| -> Result<(), Refusal> {
            let file = StateFile::open(&path, key.as_deref())?;
            if let Some(reading) = &inner.reading {
                let state = serde_json::to_vec(&reading.state()).map_err(|_| Refusal::internal())?;
                inner.session.attach(READING, state);
            }
            Ok(inner.session.keep(file)?)
        })
    }

    /// Takes the input of the next step and returns the release after it: a number, an array, or a dictionary of them.
    fn step<'py>(&self, py: Python<'py>, input: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let values = match input.extract::<f64>() {
            Ok(value) if self.dimension == 1 => {
                self.held.with(py, |inner| inner.take(&[value], self.dimension))?
            }
            _ => {
                let array = arrays::doubles("input", input)?;
                arrays::check_shape("input", &array, &[&[self.dimension]])?;
                let slice = arrays::slice("input", &array)?;
                self.held.with(py, |inner| inner.take(slice, self.dimension))?
            }
        };
        self.one(py, &values)
    }

    /// Takes the inputs of several steps, one row each, and returns their releases. All are taken, or none.
    fn steps<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let array = arrays::doubles("inputs", inputs)?;
        let any = arrays::rows(&array);
        let expected: &[&[usize]] =
            if self.dimension == 1 { &[&[any], &[any, 1]] } else { &[&[any, self.dimension]] };
        arrays::check_shape("inputs", &array, expected)?;
        let slice = arrays::slice("inputs", &array)?;
        let values = self.held.with(py, |inner| inner.take(slice, self.dimension))?;
        self.many(py, values)
    }

    /// The releases of all inputs of an iterable, one after the other, each as soon as its input is there.
    ///
    /// >>> import continual_dp as cdp
    /// >>> week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=1)
    /// >>> len(list(cdp.Release(week).stream(iter([1, 0, 1]))))
    /// 3
    fn stream(this: &Bound<'_, Self>, inputs: &Bound<'_, PyAny>) -> PyResult<Stream> {
        Ok(Stream { release: this.clone().unbind(), inputs: inputs.try_iter()?.unbind() })
    }

    /// The steps of the last call with their releases: after a crash, what may not have been stored anywhere else.
    #[getter]
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (first, values) = self.held.with(py, |inner| -> Result<_, Refusal> {
            let first = inner.session.last_committed().iter().next().map(|(step, _)| step);
            Ok((first, inner.values()))
        })?;
        let width = self.dimension * self.names.len().max(1);
        let list = PyList::empty(py);
        for (step, values) in first.into_iter().flat_map(|first| (first..).zip(values.chunks_exact(width))) {
            list.append((step, self.one(py, values)?))?;
        }
        Ok(list)
    }

    /// Says that the last releases are stored: the state forgets them.
    fn acknowledge(&self, py: Python<'_>) -> PyResult<()> {
        self.held.with(py, |inner| -> Result<(), Refusal> {
            inner.attach()?;
            inner.session.acknowledge()?;
            inner.shown.clear();
            Ok(())
        })
    }

    /// The plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<Plan> {
        self.plan.clone_ref(py)
    }

    /// The number of steps that are left; ``None`` without an end.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let done = self.held.with(py, |inner| Ok::<_, Refusal>(inner.step()))?;
        Ok(match self.plan.get().core().horizon() {
            Horizon::Steps(steps) => Some(steps - done),
            Horizon::Doubling(_) => None,
        })
    }
}

/// The releases of an iterable, made by :meth:`Release.stream`.
#[pyclass(frozen, module = "continual_dp")]
pub(crate) struct Stream {
    release: Py<Release>,
    inputs: Py<PyIterator>,
}

#[pymethods]
impl Stream {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut inputs = self.inputs.bind(py).clone();
        inputs.next().map(|input| self.release.get().step(py, &input?)).transpose()
    }
}
