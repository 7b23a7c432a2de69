//! Learning: noise on sums of clipped vectors, in place; and gradients that are clipped, summed and noised here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use dp_ftrl::{Clipping, PrivateGradients as Gradients, gradients};
use dp_mechanisms::noise::ShardedNoise;
use dp_mechanisms::shards::{NoiseShard, ShardSet};
use dp_mechanisms::{Origin, StateFile};
use pyo3::prelude::*;

use crate::arguments::{self, whole, whole_or_none};
use crate::arrays::{self, Readable, Writable};
use crate::errors::Refusal;
use crate::live::{Held, Live, Stepped, detached};
use crate::plan::Plan;

/// How the vectors of a plan are clipped, and their number of coordinates.
fn clipped(plan: &Plan) -> Result<(&Clipping, usize), Refusal> {
    match &plan.clip {
        Some(clipping) => Ok((clipping, plan.core().dimension()?)),
        None => Err(Refusal::input(
            "plan is one for published statistics; plan with clip=… and dimension=… for sums of clipped vectors",
        )),
    }
}

/// Correlated noise for sums of clipped vectors, added in place to any writable buffer of float32 or float64.
///
/// Made of a :class:`Plan` with ``clip``: the caller promises that every step is a sum of vectors, one a person, each clipped
/// to that norm (:class:`PrivateGradients` does it itself). The sum of a step is taken once; the noise of all steps together
/// keeps the budget.
///
/// >>> import continual_dp as cdp, numpy as np
/// >>> plan = cdp.plan("momentum:0.9", steps=100, clip=1.0, dimension=10_000, relation="zero-out", epsilon=8, delta=1e-6)
/// >>> noise = cdp.Noise(plan)
/// >>> gradient = np.zeros(10_000, dtype=np.float32)
/// >>> noise.add(gradient)
/// 1
/// >>> bool(gradient.std() > 0.1)
/// True
#[pyclass(extends = Live, frozen, module = "continual_dp")]
pub(crate) struct Noise {
    plan: Py<Plan>,
    range: (usize, usize),
    held: Arc<Held<NoiseShard>>,
}

impl Stepped for NoiseShard {
    fn step(&self) -> usize {
        NoiseShard::step(self)
    }
}

impl Noise {
    fn around(py: Python<'_>, plan: &Py<Plan>, shard: NoiseShard) -> PyResult<Py<Self>> {
        let range = (shard.range().start, shard.range().end);
        let held = Held::new("noise", shard);
        let base = held.live();
        Py::new(py, base.add_subclass(Self { plan: plan.clone_ref(py), range, held }))
    }
}

#[pymethods]
impl Noise {
    #[new]
    #[pyo3(signature = (plan, *, reproducible_seed=None))]
    fn new(
        py: Python<'_>,
        plan: Py<Plan>,
        #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
    ) -> PyResult<Py<Self>> {
        let (_, dimension) = clipped(plan.get())?;
        let seed = arguments::seed(py, reproducible_seed)?;
        let mut shards = detached(py, || NoiseShard::in_memory(plan.get().core(), dimension, 1, seed))?;
        Self::around(py, &plan, shards.remove(0))
    }

    /// The same noise in ``count`` parts, each for a range of coordinates; fewer where there are not so many coordinates.
    ///
    /// >>> import continual_dp as cdp
    /// >>> plan = cdp.plan("count", steps=9, clip=1.0, dimension=10_000, relation="zero-out", rho=1)
    /// >>> [part.range for part in cdp.Noise.shards(plan, 2)]
    /// [(0, 8192), (8192, 10000)]
    #[staticmethod]
    #[pyo3(signature = (plan, count, *, reproducible_seed=None))]
    fn shards(
        py: Python<'_>,
        plan: Py<Plan>,
        #[pyo3(from_py_with = whole)] count: usize,
        #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
    ) -> PyResult<Vec<Py<Self>>> {
        let (_, dimension) = clipped(plan.get())?;
        let seed = arguments::seed(py, reproducible_seed)?;
        let shards = detached(py, || NoiseShard::in_memory(plan.get().core(), dimension, count, seed))?;
        shards.into_iter().map(|shard| Self::around(py, &plan, shard)).collect()
    }

    /// Begins noise that is kept in a new directory, in ``count`` parts that :meth:`open` opens, here or on other machines.
    ///
    /// >>> import continual_dp as cdp, numpy as np, os, tempfile
    /// >>> plan = cdp.plan("count", steps=9, clip=1.0, dimension=100, relation="zero-out", rho=1)
    /// >>> place = os.path.join(tempfile.mkdtemp(), "noise")
    /// >>> cdp.Noise.create(place, plan)
    /// 1
    /// >>> with cdp.Noise.open(place, plan) as noise:
    /// ...     step = noise.add(np.zeros(100))
    /// ...     saved = noise.checkpoint()
    /// >>> cdp.Noise.open(place, plan).done
    /// 1
    #[staticmethod]
    #[pyo3(signature = (directory, plan, count=1, *, reproducible_seed=None))]
    fn create(
        py: Python<'_>,
        directory: PathBuf,
        plan: Py<Plan>,
        #[pyo3(from_py_with = whole)] count: usize,
        #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
    ) -> PyResult<usize> {
        let (_, dimension) = clipped(plan.get())?;
        let seed = arguments::seed(py, reproducible_seed)?;
        detached(py, || {
            let ranges = ShardedNoise::cuts(dimension, count)?;
            ShardSet::create(&directory, plan.get().core(), dimension, &ranges, seed)?;
            Ok::<_, Refusal>(ranges.len())
        })
    }

    /// Goes on with a part of the noise in a directory, from its last checkpoint.
    #[staticmethod]
    #[pyo3(signature = (directory, plan, shard=0))]
    fn open(
        py: Python<'_>,
        directory: PathBuf,
        plan: Py<Plan>,
        #[pyo3(from_py_with = whole)] shard: usize,
    ) -> PyResult<Py<Self>> {
        let (_, dimension) = clipped(plan.get())?;
        let (held, origin) = detached(py, || {
            let core = plan.get().core().clone().of_dimension(dimension)?;
            let set = ShardSet::open(&directory, &core)?;
            Ok::<_, Refusal>((set.shard(shard)?, set.origin()))
        })?;
        if origin == Origin::Reproducible {
            arguments::warn_not_private(py)?;
        }
        Self::around(py, &plan, held)
    }

    /// Adds the noise of the next step to the sum of that step, in place, and returns the step, counted from 1.
    ///
    /// ``sum`` is a contiguous writable buffer of float32 or float64 with as many values as :attr:`range`, of any shape:
    /// a numpy array, or whatever shares its memory through the buffer protocol or DLPack, such as a torch tensor.
    fn add(&self, py: Python<'_>, sum: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut sum = arrays::writable("sum", sum)?;
        match &mut sum {
            Writable::Single(array) => {
                let values = arrays::slice_mut("sum", array)?;
                self.held.with(py, |shard| shard.release_in_place(values))
            }
            Writable::Double(array) => {
                let values = arrays::slice_mut("sum", array)?;
                self.held.with(py, |shard| shard.release_in_place(values))
            }
        }
    }

    /// The seconds that so many steps take without Python, for measuring what the border costs. Their noise is thrown away.
    fn _seconds_of(&self, py: Python<'_>, steps: usize, single: bool) -> PyResult<f64> {
        self.held.with(py, |shard| {
            let length = shard.range().len();
            let (mut singles, mut doubles) = (Vec::new(), Vec::new());
            if single {
                singles.resize(length, 0.0_f32);
            } else {
                doubles.resize(length, 0.0_f64);
            }
            let start = Instant::now();
            for _ in 0..steps {
                if single {
                    shard.release_in_place(&mut singles)?
                } else {
                    shard.release_in_place(&mut doubles)?
                };
            }
            Ok::<_, Refusal>(start.elapsed().as_secs_f64())
        })
    }

    /// Begins to make the noise of the next step on other cores, and returns at once.
    fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        self.held.with(py, |shard| {
            shard.prepare();
            Ok::<_, Refusal>(())
        })
    }

    /// Moves on without answering, until so many steps are behind: for steps whose results are in a model already.
    fn skip_to(&self, py: Python<'_>, #[pyo3(from_py_with = whole)] step: usize) -> PyResult<()> {
        self.held.with(py, |shard| shard.skip_to(step))
    }

    /// Writes where the noise stands to its directory, and returns the step.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, NoiseShard::checkpoint)
    }

    /// The plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<Plan> {
        self.plan.clone_ref(py)
    }

    /// The coordinates of this part: the first, and the one behind the last.
    #[getter]
    fn range(&self) -> (usize, usize) {
        self.range
    }

    /// The number of steps that somebody may have seen; those behind :attr:`done` are answered again for the same sum only.
    #[getter]
    fn answered(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |shard| Ok::<_, Refusal>(shard.answered()))
    }
}

/// Gradients of people, clipped, summed and given their noise: what an optimizer may see.
///
/// Add the gradient of every person of a batch, then :meth:`finish` it. Made of a :class:`Plan` with ``clip``, for the whole
/// vector or layer by layer; with ``state``, every noisy sum is sealed in that file before it is returned, and a run goes on
/// there. :attr:`done` is the number of finished batches.
///
/// >>> import continual_dp as cdp, numpy as np
/// >>> plan = cdp.plan("count", steps=10, clip=1.0, dimension=3, relation="zero-out", rho=1e6)
/// >>> gradients = cdp.PrivateGradients(plan)
/// >>> gradients.add_many(np.array([[3.0, 4.0, 0.0], [0.0, 0.5, 0.0]]))   # one row a person
/// >>> np.allclose(gradients.finish(), [0.6, 1.3, 0.0], atol=0.05)
/// True
///
/// Two layers, the first clipped to norm 1 and the second to norm 0.1:
///
/// >>> layers = cdp.plan("count", steps=10, clip=[(2, 1.0), (1, 0.1)], relation="zero-out", rho=1e6)
/// >>> gradients = cdp.PrivateGradients(layers)
/// >>> gradients.add([3.0, 4.0, 7.0])
/// >>> np.allclose(gradients.finish(), [0.6, 0.8, 0.1], atol=0.05)
/// True
#[pyclass(extends = Live, frozen, module = "continual_dp")]
pub(crate) struct PrivateGradients {
    plan: Py<Plan>,
    dimension: usize,
    held: Arc<Held<Gradients>>,
}

impl Stepped for Gradients {
    fn step(&self) -> usize {
        Gradients::step(self)
    }
}

#[pymethods]
impl PrivateGradients {
    #[new]
    #[pyo3(signature = (plan, *, state=None, key=None, reproducible_seed=None))]
    fn new(
        py: Python<'_>,
        plan: Py<Plan>,
        state: Option<PathBuf>,
        key: Option<PathBuf>,
        #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
    ) -> PyResult<Py<Self>> {
        let (clipping, dimension) = clipped(plan.get())?;
        let clipping = clipping.clone();
        let seed = arguments::seed(py, reproducible_seed)?;
        let core = plan.get().core();
        let held = detached(py, || {
            let (relation, budget) = (core.footprint().relation(), *core.budget());
            let participation = dp_mechanisms::planner::main_participation(core.footprint());
            let strategy = core.strategy().clone();
            let plan = gradients::plan(strategy, &clipping, relation, participation, budget)?;
            let file = state.map(|path| StateFile::open(&path, key.as_deref())).transpose()?;
            Ok::<_, Refusal>(Gradients::open(plan, clipping, dimension, seed, file)?)
        })?;
        let held = Held::new("batch of gradients", held);
        let base = held.live();
        Py::new(py, base.add_subclass(Self { plan, dimension, held }))
    }

    /// Clips the gradient of one person into the batch.
    fn add(&self, py: Python<'_>, gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = arrays::doubles("gradient", gradient)?;
        arrays::check_shape("gradient", &array, &[&[self.dimension]])?;
        let values = arrays::slice("gradient", &array)?;
        self.held.with(py, |gradients| gradients.add(values))
    }

    /// Clips the gradients of several people into the batch: one row each, in float32 or float64. All of them, or none.
    fn add_many(&self, py: Python<'_>, gradients: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = arrays::readable("gradients", gradients)?;
        let shape = array.shape().to_vec();
        if shape.len() != 2 || shape[1] != self.dimension {
            return Err(Refusal::input(format!(
                "gradients has shape {shape:?}, but one row of {} values for each person is needed",
                self.dimension
            ))
            .into());
        }
        let dimension = self.dimension;
        let refuse = |row: usize| {
            Refusal::input(format!(
                "row {row} of gradients holds NaN or an infinity; only finite values are accepted"
            ))
        };
        match &array {
            Readable::Single(array) => {
                let values = arrays::slice("gradients", array)?;
                self.held.with(py, |gradients| {
                    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                        return Err(refuse(at / dimension));
                    }
                    let mut row = vec![0.0; dimension];
                    for values in values.chunks_exact(dimension) {
                        row.iter_mut().zip(values).for_each(|(row, value)| *row = f64::from(*value));
                        gradients.add(&row)?;
                    }
                    row.fill(0.0);
                    Ok(())
                })
            }
            Readable::Double(array) => {
                let values = arrays::slice("gradients", array)?;
                self.held.with(py, |gradients| {
                    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                        return Err(refuse(at / dimension));
                    }
                    values
                        .chunks_exact(dimension)
                        .try_for_each(|row| gradients.add(row))
                        .map_err(Refusal::from)
                })
            }
        }
    }

    /// The noisy sum of the batch, as an array of float64; the next batch begins. Divide by a public number only.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut out = vec![0.0; self.dimension];
        self.held.with(py, |gradients| gradients.finish(&mut out).map(drop))?;
        Ok(arrays::array(py, out))
    }

    /// The noisy sum of the last finished batch once more: with a state, a crash may have come before it was used.
    fn last_finished<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut out = vec![0.0; self.dimension];
        let found = self.held.with(py, |gradients| gradients.last_finished(&mut out))?;
        Ok(found.map(|_| arrays::array(py, out)))
    }

    /// The plan.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<Plan> {
        self.plan.clone_ref(py)
    }
}
