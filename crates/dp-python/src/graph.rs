//! Graphs that change with every step: all weights, cuts, or a function of the graph.

use std::sync::Arc;

use dp_apps::graph::{
    Cut, CutEncoding, EdgeUpdate, GraphEncoding, GraphFunction, Partition, VertexPairs, max_cut, min_cut,
    project, sparsest_cut,
};
use dp_mechanisms::{Mechanism, Plan};
use pyo3::prelude::*;

use crate::arguments::{self, name_of, whole, whole_or_none};
use crate::arrays;
use crate::common::{Common, counting};
use crate::errors::Refusal;
use crate::live::{Held, Live, Stepped, detached};

struct Inner {
    encoding: GraphEncoding,
    mechanism: Mechanism,
    exact: bool,
    /// The pairs of vertices, where all weights are released.
    pairs: Option<VertexPairs>,
    input: Vec<f64>,
    values: Vec<f64>,
}

impl Stepped for Inner {
    fn step(&self) -> usize {
        self.mechanism.step()
    }
}

impl Inner {
    /// The answers of the last step with their standard deviations.
    fn answers(&self) -> Result<Vec<(f64, f64)>, Refusal> {
        let (step, plan) = (self.step(), self.mechanism.plan());
        let deviation = plan.standard_deviation(step).unwrap_or(0.0);
        let answers = self.encoding.answers(&self.values, deviation)?.into_iter();
        Ok(answers.map(|one| (plan.on_grid(one.value), one.standard_deviation)).collect())
    }

    /// Takes the updates of a step. Nothing has changed where one of them, or the step, is refused.
    fn push(&mut self, updates: &mut [EdgeUpdate]) -> Result<(), Refusal> {
        let horizon = self.mechanism.plan().steps();
        if self.step() >= horizon {
            return Err(dp_mechanisms::Error::HorizonReached { horizon }.into());
        }
        for update in updates.iter_mut() {
            self.encoding.check(update)?;
            if self.exact {
                update.weight = self.encoding.on_grid(update.weight);
            }
        }
        self.encoding.encode(updates, &mut self.input)?;
        self.mechanism.release(&self.input, &mut self.values)?;
        Ok(())
    }
}

/// The updates of a step: pairs of vertices, with a weight or without one.
fn updates(given: &Bound<'_, PyAny>) -> PyResult<Vec<EdgeUpdate>> {
    given
        .try_iter()?
        .map(|one| {
            let one = one?;
            if let Ok((u, v)) = one.extract::<(usize, usize)>() {
                return Ok(EdgeUpdate::new(u, v, 1.0));
            }
            let (u, v, weight) = one.extract().map_err(|_| {
                let words = "an edge is a pair of vertices, counted from 0, with a weight or without one";
                PyErr::from(Refusal::kind(format!("edges holds {}; {words}", name_of(&one))))
            })?;
            Ok(EdgeUpdate::new(u, v, weight))
        })
        .collect()
}

/// The two sides of a cut; the second is everybody else where it is not given.
fn cut(given: &Bound<'_, PyAny>, vertices: usize) -> PyResult<Cut> {
    let (s, p) = if let Ok([s, p]) = given.extract::<[Vec<usize>; 2]>() {
        (s, p)
    } else if let Ok(s) = given.extract::<Vec<usize>>() {
        let p = (0..vertices).filter(|vertex| !s.contains(vertex)).collect();
        (s, p)
    } else {
        let words = "a cut is a list of vertices, or two lists";
        return Err(Refusal::kind(format!("cuts holds {}; {words}", name_of(given))).into());
    };
    let side = |side: &[usize]| side.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    Ok(Cut { name: format!("{}:{}", side(&s), side(&p)), s, p })
}

/// What is released of a graph, by its name.
fn function(
    what: &str,
    largest_weight: f64,
    degree_bound: usize,
    leaves: usize,
    threshold: usize,
) -> Result<GraphFunction, Refusal> {
    Ok(match what {
        "edges" => GraphFunction::Edges,
        "forest" => GraphFunction::SpanningForest { largest_weight },
        "triangles" => GraphFunction::Triangles { degree_bound },
        "stars" => GraphFunction::Stars { leaves, degree_bound },
        "high-degree" => GraphFunction::HighDegree { threshold },
        "degrees" => GraphFunction::DegreeHistogram { degree_bound },
        _ => {
            return Err(Refusal::input(format!(
                "`{what}` is nothing that is released of a graph; expected weights, cuts, edges, forest, triangles, stars, \
                 high-degree or degrees"
            )));
        }
    })
}

/// The live graph behind the Python object.
#[pyclass(extends = Live, subclass, frozen, module = "continual_dp")]
pub(crate) struct GraphRelease {
    names: Vec<String>,
    held: Arc<Held<Inner>>,
}

impl GraphRelease {
    /// Two sides of a cut of the projected graph.
    fn partition(
        &self,
        py: Python<'_>,
        find: fn(VertexPairs, &[f64]) -> dp_apps::Result<Partition>,
    ) -> PyResult<(f64, Vec<usize>, Vec<usize>)> {
        self.held.with(py, |inner| {
            let Some(pairs) = inner.pairs else {
                return Err(Refusal::input(
                    "cuts are found in released weights; make a Graph of \"weights\"",
                ));
            };
            let found = find(pairs, &project(pairs, &inner.values)?.weights)?;
            Ok((found.weight, found.first(), found.second()))
        })
    }
}

#[pymethods]
impl GraphRelease {
    /// What the released numbers are called, in their order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The released numbers of the last step with their standard deviations, by name.
    fn answers(&self, py: Python<'_>) -> PyResult<Vec<(String, f64, f64)>> {
        let answers = self.held.with(py, |inner| inner.answers())?;
        let named = self.names.iter().cloned().zip(answers);
        Ok(named.map(|(name, (value, deviation))| (name, value, deviation)).collect())
    }

    /// The smallest cut of the released graph: its weight and its two sides.
    fn min_cut(&self, py: Python<'_>) -> PyResult<(f64, Vec<usize>, Vec<usize>)> {
        self.partition(py, min_cut)
    }

    /// A large cut of the released graph: its weight and its two sides.
    fn max_cut(&self, py: Python<'_>) -> PyResult<(f64, Vec<usize>, Vec<usize>)> {
        self.partition(py, max_cut)
    }

    /// A sparse cut of the released graph: its weight and its two sides.
    fn sparsest_cut(&self, py: Python<'_>) -> PyResult<(f64, Vec<usize>, Vec<usize>)> {
        self.partition(py, sparsest_cut)
    }

    /// The name of the strategy.
    #[getter]
    fn strategy(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.held.with(py, |inner| Ok::<_, Refusal>(inner.mechanism.plan().strategy().name()))
    }
}

counting! {
    /// A graph under observation: its weights, cuts, or a function of it, released after every step.
    ///
    /// ``what`` is ``"weights"`` of all pairs of vertices, ``"cuts"`` (those in ``cuts``: a list of vertices against all others, or
    /// two lists), ``"edges"``, ``"forest"`` (the weight of a minimum spanning forest), ``"triangles"``, ``"stars"``,
    /// ``"high-degree"`` or ``"degrees"``. For weights and cuts one update is protected, with a weight in ``weights``, from -1 to 1 unless
    /// it says otherwise; for
    /// functions the graph only grows, and one edge is protected with all its insertions. It lives as long as the object.
    ///
    /// >>> import continual_dp as cdp
    /// >>> friends = cdp.Graph("triangles", 100, steps=30, relation="zero-out", degree_bound=5, rho=1000)
    /// >>> value = friends.push([(0, 1), (1, 2), (2, 0)])
    /// >>> abs(value - 1) < 8 * friends.answers()[0][2]
    /// True
    ///
    /// Cuts of the whole graph are read off its weights:
    ///
    /// >>> roads = cdp.Graph("weights", 4, steps=30, relation="zero-out", weights=(0, 1), rho=1e6)
    /// >>> weights = roads.push([(0, 1, 1.0), (2, 3, 1.0), (1, 2, 0.25)])
    /// >>> sorted(roads.min_cut()[1:])
    /// [[0, 1], [2, 3]]
    class Graph(GraphRelease)
    signature (
        what, vertices, *, cuts=None, weights=None, largest_weight=1.0, degree_bound=10, leaves=2, threshold=10, exact=true
    )
    arguments (
        what: &str, #[pyo3(from_py_with = whole)] vertices: usize, cuts: Option<Vec<Bound<'_, PyAny>>>, weights: Option<&Bound<'_, PyAny>>, largest_weight: f64,
        #[pyo3(from_py_with = whole)] degree_bound: usize, #[pyo3(from_py_with = whole)] leaves: usize, #[pyo3(from_py_with = whole)] threshold: usize, exact: bool
    )
    new (py, common) {
        if (what == "cuts") != cuts.is_some() {
            return Err(Refusal::input("cuts are given for \"cuts\", and for nothing else").into());
        }
        if what == "degrees" && common.workload != dp_mechanisms::Workload::count() {
            let words = "a degree histogram is that of the whole graph: leave workload at count";
            return Err(Refusal::input(words).into());
        }
        let weights = weights.map_or(Ok((-1.0, 1.0)), |weights| arguments::bounds("weights", weights))?;
        let of_pairs = || CutEncoding::with_weights(vertices, weights.0, weights.1).map_err(Refusal::from);
        let mut pairs = None;
        let encoding = match (what, cuts) {
            ("weights", _) => {
                let encoding = of_pairs()?;
                pairs = Some(encoding.pairs());
                GraphEncoding::weights(encoding)
            }
            (_, Some(cuts)) => {
                let cuts = cuts.iter().map(|one| cut(one, vertices)).collect::<PyResult<_>>()?;
                GraphEncoding::cuts(of_pairs()?, cuts).map_err(Refusal::from)?
            }
            _ => {
                let function = function(what, largest_weight, degree_bound, leaves, threshold)?;
                GraphEncoding::function(function, vertices).map_err(Refusal::from)?
            }
        };
        let dimension = encoding.dimension();
        let footprint = encoding.footprint(common.relation).map_err(Refusal::from)?;
        let footprint = footprint.of_dimension(dimension).map_err(Refusal::from)?;
        let strategy = common.strategy(py, &footprint, dimension as u64)?;
        let names = encoding.names();
        let inner = detached(py, move || {
            let plan = if exact {
                Plan::exact(&strategy, footprint, common.budget, encoding.grid())?
            } else {
                Plan::idealized(strategy, footprint, common.budget)?
            };
            let mechanism = Mechanism::new(plan, common.seed)?;
            let (input, values) = (vec![0.0; dimension], vec![0.0; dimension]);
            Ok::<_, Refusal>(Inner { encoding, mechanism, exact, pairs, input, values })
        })?;
        let held = Held::new("graph", inner);
        Ok(held.live().add_subclass(GraphRelease { names, held }).add_subclass(Self))
    }

    /// Takes the edges of the next step, pairs of vertices with a weight or without one, and returns what is released after
    /// it: a number, or an array in the order of :attr:`names`.
    fn push<'py>(this: &Bound<'py, Self>, edges: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let mut updates = updates(edges)?;
        let (py, graph) = (this.py(), this.as_super().get());
        let answers = graph.held.with(py, |inner| {
            inner.push(&mut updates)?;
            inner.answers()
        })?;
        match answers[..] {
            [(value, _)] => Ok(value.into_pyobject(py)?.into_any()),
            _ => Ok(arrays::array(py, answers.into_iter().map(|(value, _)| value).collect())),
        }
    }
}
