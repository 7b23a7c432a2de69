//! Counts of many things at once: items of a known or an unknown universe, substrings, episodes.

use std::path::PathBuf;
use std::sync::Arc;

use dp_apps::episodes::Episodes as EpisodeEncoding;
use dp_apps::histogram::discovery::Discovery as Found;
use dp_apps::histogram::{Change, Histogram as Items, Rules, Universe};
use dp_apps::substrings::Substrings as Words;
use dp_apps::substrings::dictionary::Dictionary;
use dp_apps::{Counts as Core, Encoding, Estimate};
use dp_mechanisms::{
    Budget, Footprint, Method, Plan, Problem, Relation, Seed, Snapshot, StateFile, Strategy, Workload,
    planner,
};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::arguments::{self, name_of};
use crate::errors::Refusal;
use crate::live::{Held, Live, detached};
use crate::plan::watched;

/// The strategies that are tried where the best one cannot be measured in exact integers.
const MEASURED: [Method; 3] = [Method::ScaledBlt, Method::Blt, Method::Sqrt];

/// What all kinds of counts can do, whatever their events are.
enum Kind {
    Items(Core<Items>),
    Words(Core<Words>),
    Listed(Core<Dictionary>),
    Episodes(Core<EpisodeEncoding>),
    Found(Box<Found>),
}

/// The same call of whichever counts there are.
macro_rules! of_kind {
    ($kind:expr, $counts:ident => $call:expr, $found:ident => $other:expr) => {
        match $kind {
            Kind::Items($counts) => $call,
            Kind::Words($counts) => $call,
            Kind::Listed($counts) => $call,
            Kind::Episodes($counts) => $call,
            Kind::Found($found) => $other,
        }
    };
}

struct Inner {
    kind: Kind,
    file: Option<StateFile>,
    /// Whether something was counted that the file does not have.
    unsaved: bool,
}

impl Inner {
    /// What is asked after a step is answered once that step is on disk.
    fn settle(&mut self) -> Result<(), Refusal> {
        if let (true, Some(file)) = (self.unsaved, &self.file) {
            file.write(&of_kind!(&self.kind, counts => counts.snapshot(), found => found.snapshot()))?;
        }
        self.unsaved = false;
        Ok(())
    }

    fn plan(&self) -> &Plan {
        of_kind!(&self.kind, counts => counts.plan(), found => found.plan())
    }

    fn step(&self) -> usize {
        of_kind!(&self.kind, counts => counts.step(), found => found.step())
    }

    fn count(&mut self, name: &str) -> Result<Estimate, Refusal> {
        self.settle()?;
        Ok(of_kind!(&mut self.kind, counts => counts.count(name), found => found.count(name))?)
    }
}

/// Private counts of many things: the base of :class:`Histogram`, :class:`Discovery`, :class:`Substrings` and
/// :class:`Episodes`.
#[pyclass(extends = Live, subclass, frozen, module = "continual_dp")]
pub(crate) struct Counts {
    held: Held<Inner>,
}

#[pymethods]
impl Counts {
    /// The released count of a thing by its name, and the standard deviation of its noise.
    fn count(&self, py: Python<'_>, name: &str) -> PyResult<(f64, f64)> {
        let found = self.held.with(py, |inner| inner.count(name))?;
        Ok((found.value, found.standard_deviation))
    }

    /// The things with the largest released counts, largest first. Of an unknown universe, those that stand out.
    #[pyo3(signature = (most=10))]
    fn top(&self, py: Python<'_>, most: usize) -> PyResult<Vec<(String, f64)>> {
        self.held.with(py, |inner| -> Result<_, Refusal> {
            inner.settle()?;
            of_kind!(&mut inner.kind, counts => {
                let top = counts.top(most, 0.05)?;
                let label = |coordinate| counts.encoding().label(coordinate).unwrap_or_default();
                Ok(top.entries.into_iter().map(|(coordinate, value)| (label(coordinate), value)).collect())
            }, found => {
                let found = found.found()?.into_iter().map(|found| (found.key, found.value));
                Ok(found.take(most).collect())
            })
        })
    }

    /// The standard deviation of every count after the current step.
    #[getter]
    fn standard_deviation(&self, py: Python<'_>) -> PyResult<f64> {
        self.held
            .with(py, |inner| Ok::<_, Refusal>(inner.plan().standard_deviation(inner.step()).unwrap_or(0.0)))
    }

    /// The name of the strategy.
    #[getter]
    fn strategy(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.held.with(py, |inner| Ok::<_, Refusal>(inner.plan().strategy().name()))
    }

    /// The number of steps taken so far.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |inner| Ok::<_, Refusal>(inner.step()))
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.held.is_closed(py)
    }

    /// Saves what was counted, where there is a state, wipes everything from memory, and unlocks the state.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.closed(py) {
            self.held.with(py, Inner::settle)?;
        }
        self.held.close(py);
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, py: Python<'_>, _arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        let (name, counts) = (this.get_type().name()?, this.get());
        if counts.closed(this.py()) {
            return Ok(format!("{name}(closed)"));
        }
        Ok(format!("{name}({} steps done)", counts.done(this.py())?))
    }
}

/// What all kinds of counts are made with.
struct Common {
    workload: Workload,
    steps: usize,
    relation: Relation,
    budget: Budget,
    strategy: Option<Method>,
    exact: bool,
    seed: Seed,
    file: Option<StateFile>,
    saved: Option<Snapshot>,
}

impl Common {
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        workload: &str,
        steps: usize,
        relation: &str,
        budget: (Option<f64>, Option<f64>, Option<f64>, Option<f64>),
        strategy: &str,
        exact: bool,
        reproducible_seed: Option<u64>,
        state: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (epsilon, delta, rho, mu) = budget;
        let strategy = match strategy {
            "auto" => None,
            name => Some(name.parse::<Method>().map_err(Refusal::from)?),
        };
        let workload = workload.parse().map_err(Refusal::from)?;
        let relation = relation.parse().map_err(Refusal::from)?;
        let budget = arguments::budget(epsilon, delta, rho, mu)?;
        let seed = arguments::seed(py, reproducible_seed)?;
        let (file, saved) = detached(py, || {
            let file = state.map(|path| StateFile::open(&path, None)).transpose()?;
            let saved = file.as_ref().map(StateFile::read).transpose()?.flatten();
            Ok::<_, Refusal>((file, saved))
        })?;
        Ok(Self { workload, steps, relation, budget, strategy, exact, seed, file, saved })
    }

    /// The strategies to try, best first.
    fn strategies(
        &self,
        py: Python<'_>,
        footprint: &Footprint,
        dimension: u64,
    ) -> PyResult<Vec<Arc<dyn Strategy>>> {
        watched(py, |watch| {
            let participation = planner::main_participation(footprint);
            let problem = Problem::new(self.workload.clone(), self.steps)?.with_participation(participation);
            if let Some(method) = self.strategy {
                return Ok(vec![method.build_watched(&problem, watch)?]);
            }
            let best = planner::best_watched(&problem, footprint, dimension, watch)?;
            if !self.exact || best.measurement().is_ok() {
                return Ok(vec![best]);
            }
            let built = MEASURED.iter().filter_map(|method| method.build_watched(&problem, watch).ok());
            Ok(built.filter(|strategy| strategy.measurement().is_ok()).collect())
        })
    }

    /// Starts counting, or goes on where the state stands.
    fn counts<E>(
        self,
        py: Python<'_>,
        encoding: impl Fn() -> dp_apps::Result<E> + Send,
        kind: fn(Core<E>) -> Kind,
    ) -> PyResult<PyClassInitializer<Counts>>
    where
        E: Encoding + Send,
    {
        let first = encoding().map_err(Refusal::from)?;
        let footprint = first.footprint().map_err(Refusal::from)?;
        let strategies = self.strategies(py, &footprint, first.dimension())?;
        let inner = detached(py, move || {
            let Self { budget, exact, seed, file, saved, .. } = self;
            let Some(strategy) = strategies.into_iter().next() else {
                return Err(Refusal::input(
                    "no strategy serves these counts in exact integers; try exact=False",
                ));
            };
            let encoding = encoding()?;
            let plan = if exact {
                encoding.plan(&strategy, budget)
            } else {
                encoding.idealized_plan(&strategy, budget)
            }?;
            let counts = match &saved {
                None => Core::new(encoding, plan, seed),
                Some(saved) => Core::resume(encoding, plan, saved, seed),
            }?;
            Ok(Inner { kind: kind(counts), file, unsaved: true })
        })?;
        Ok(of_inner(inner))
    }
}

fn of_inner(inner: Inner) -> PyClassInitializer<Counts> {
    PyClassInitializer::from(Live).add_subclass(Counts { held: Held::new("count", inner) })
}

/// The people of a step: each an item, or a list of items.
fn people(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<String>>> {
    given
        .try_iter()?
        .map(|person| {
            let person = person?;
            if let Some(item) = item(&person)? {
                return Ok(vec![item]);
            }
            let Ok(items) = person.try_iter() else { return Err(no_item(what, &person)) };
            items
                .map(|one| {
                    let one = one?;
                    item(&one)?.ok_or_else(|| no_item(what, &one))
                })
                .collect()
        })
        .collect()
}

fn no_item(what: &str, given: &Bound<'_, PyAny>) -> PyErr {
    Refusal::kind(format!("{what} holds {}; an item is a text or an integer", name_of(given))).into()
}

/// An item by its name: a text, or an integer.
fn item(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if given.is_instance_of::<PyString>() {
        return given.extract().map(Some);
    }
    Ok(given.extract::<i64>().ok().map(|number| number.to_string()))
}

/// Private counts of items of a known universe, over steps of many people.
///
/// ``universe`` is a list of names, or a ``range`` of integers; one person may change up to ``items`` of them in a step.
///
/// >>> import continual_dp as cdp
/// >>> shop = cdp.Histogram(["bread", "milk", "salt"], steps=30, relation="zero-out", items=2, rho=100)
/// >>> shop.push([["bread", "milk"], "bread", ["salt"]])      # three people
/// 1
/// >>> value, deviation = shop.count("bread")
/// >>> abs(value - 2) < 6 * deviation
/// True
/// >>> [name for name, _ in shop.top(3)][0] in ("bread", "milk", "salt")
/// True
#[pyclass(extends = Counts, frozen, module = "continual_dp")]
pub(crate) struct Histogram;

#[pymethods]
impl Histogram {
    #[new]
    #[pyo3(signature = (
        universe, *, steps, relation, items=1, distinct=true, removals=false, participation=None, workload="count",
        epsilon=None, delta=None, rho=None, mu=None, strategy="auto", exact=true, state=None, reproducible_seed=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        universe: &Bound<'_, PyAny>,
        steps: usize,
        relation: &str,
        items: usize,
        distinct: bool,
        removals: bool,
        participation: Option<&Bound<'_, PyAny>>,
        workload: &str,
        epsilon: Option<f64>,
        delta: Option<f64>,
        rho: Option<f64>,
        mu: Option<f64>,
        strategy: &str,
        exact: bool,
        state: Option<PathBuf>,
        reproducible_seed: Option<u64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let budget = (epsilon, delta, rho, mu);
        let common =
            Common::new(py, workload, steps, relation, budget, strategy, exact, reproducible_seed, state)?;
        let participation = arguments::participation(participation)?;
        let rules = Rules { items, distinct, removals, relation: common.relation, participation };
        let universe = if universe.hasattr("start")? && universe.hasattr("step")? {
            let (first, count) = (universe.getattr("start")?.extract::<i64>()?, universe.len()? as u64);
            if universe.getattr("step")?.extract::<i64>()? != 1 {
                return Err(Refusal::input("universe is a range with gaps; give consecutive integers").into());
            }
            Universe::integers(first, count)
        } else {
            let names = universe.try_iter()?.map(|name| {
                let name = name?;
                item(&name)?.ok_or_else(|| no_item("universe", &name))
            });
            Universe::named(names.collect::<PyResult<Vec<String>>>()?)
        };
        let universe = universe.map_err(Refusal::from)?;
        let counts = common.counts(py, || Items::new(universe.clone(), rules), Kind::Items)?;
        Ok(counts.add_subclass(Self))
    }

    /// Takes the people of the next step, each an item or a list of items, and returns the step.
    ///
    /// ``removed`` holds what they take away, in the same order, where the rules allow it.
    #[pyo3(signature = (people, removed=None))]
    fn push(
        this: &Bound<'_, Self>,
        people: &Bound<'_, PyAny>,
        removed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let inserted = self::people("people", people)?;
        let removed =
            removed.map(|removed| self::people("removed", removed)).transpose()?.unwrap_or_default();
        if removed.len() > inserted.len() {
            return Err(Refusal::input(
                "removed has more people than people; give an empty list for the rest",
            )
            .into());
        }
        let counts = this.as_super().get();
        counts.held.with(this.py(), |inner| {
            let Kind::Items(items) = &mut inner.kind else { return Err(Refusal::internal()) };
            let find = |name: &String| {
                let unknown = || dp_apps::Error::Unknown { what: "item", text: name.clone() };
                items.encoding().universe().position(name).ok_or_else(unknown)
            };
            let mut event = Vec::with_capacity(inserted.len());
            for (index, person) in inserted.iter().enumerate() {
                let mut changes = Vec::new();
                for name in person {
                    changes.push(Change::Insert(find(name)?));
                }
                for name in removed.get(index).into_iter().flatten() {
                    changes.push(Change::Remove(find(name)?));
                }
                event.push(changes);
            }
            let step = items.push(&event)?;
            inner.unsaved = true;
            Ok(step)
        })
    }
}

/// Private counts of items that nobody knows beforehand: those that stand out appear by themselves.
///
/// ``threshold_delta`` is paid on top of the budget, for showing names at all.
///
/// >>> import continual_dp as cdp
/// >>> words = cdp.Discovery(steps=30, relation="zero-out", epsilon=8, delta=1e-6, threshold_delta=1e-6)
/// >>> words.push(["rust"] * 500 + ["a secret"])
/// 1
/// >>> [name for name, _ in words.top()]
/// ['rust']
#[pyclass(extends = Counts, frozen, module = "continual_dp")]
pub(crate) struct Discovery;

#[pymethods]
impl Discovery {
    #[new]
    #[pyo3(signature = (
        *, steps, relation, threshold_delta, items=1, distinct=true, participation=None, workload="count", epsilon=None,
        delta=None, rho=None, mu=None, strategy="auto", state=None, reproducible_seed=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        steps: usize,
        relation: &str,
        threshold_delta: f64,
        items: usize,
        distinct: bool,
        participation: Option<&Bound<'_, PyAny>>,
        workload: &str,
        epsilon: Option<f64>,
        delta: Option<f64>,
        rho: Option<f64>,
        mu: Option<f64>,
        strategy: &str,
        state: Option<PathBuf>,
        reproducible_seed: Option<u64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let budget = (epsilon, delta, rho, mu);
        let common =
            Common::new(py, workload, steps, relation, budget, strategy, true, reproducible_seed, state)?;
        let participation = arguments::participation(participation)?;
        let rules = Rules { items, distinct, removals: false, relation: common.relation, participation };
        let footprint = rules.footprint(None).map_err(Refusal::from)?;
        let coordinates = dp_mechanisms::sparse::MOST_COORDINATES;
        let strategy = common.strategies(py, &footprint, coordinates)?.remove(0);
        let inner = detached(py, move || {
            let Common { budget, seed, file, saved, .. } = common;
            let plan = Found::plan_for(&rules, &strategy, budget)?;
            let found = match &saved {
                None => Found::new(rules, plan, threshold_delta, seed),
                Some(saved) => Found::resume(rules, plan, threshold_delta, saved, seed),
            }?;
            Ok::<_, Refusal>(Inner { kind: Kind::Found(Box::new(found)), file, unsaved: true })
        })?;
        Ok(of_inner(inner).add_subclass(Self))
    }

    /// Takes the people of the next step, each an item or a list of items, and returns the step.
    fn push(this: &Bound<'_, Self>, people: &Bound<'_, PyAny>) -> PyResult<usize> {
        let people = self::people("people", people)?;
        this.as_super().get().held.with(this.py(), |inner| {
            let Kind::Found(found) = &mut inner.kind else { return Err(Refusal::internal()) };
            let person = |items: Vec<String>| items.into_iter().map(Change::Insert).collect();
            let event: Vec<Vec<Change<String>>> = people.into_iter().map(person).collect();
            let step = found.push(&event)?;
            inner.unsaved = true;
            Ok(step)
        })
    }

    /// The count that an item must reach to appear.
    #[getter]
    fn threshold(this: &Bound<'_, Self>) -> PyResult<f64> {
        this.as_super().get().held.with(this.py(), |inner| match &inner.kind {
            Kind::Found(found) => Ok(found.threshold()),
            _ => Err(Refusal::internal()),
        })
    }
}

/// The one letter of a step, or nothing.
fn letter(given: Option<&str>) -> Result<Option<char>, Refusal> {
    let Some(text) = given else { return Ok(None) };
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok(Some(letter)),
        _ => Err(Refusal::input(
            "letter is not one letter; push one letter a step, or None for a step without one",
        )),
    }
}

/// Private counts of how often each short string has occurred in a stream of letters.
///
/// Give an ``alphabet`` and the ``longest`` length, or a list of ``words``. It lives as long as the object.
///
/// >>> import continual_dp as cdp
/// >>> reads = cdp.Substrings("ACGT", 3, steps=100, relation="replace", rho=10)
/// >>> for base in "GATTACA":
/// ...     step = reads.push(base)
/// >>> value, deviation = reads.count("ATT")
/// >>> deviation > 0
/// True
#[pyclass(extends = Counts, frozen, module = "continual_dp")]
pub(crate) struct Substrings;

#[pymethods]
impl Substrings {
    #[new]
    #[pyo3(signature = (
        alphabet=None, longest=None, *, words=None, steps, relation, workload="count", epsilon=None, delta=None, rho=None,
        mu=None, strategy="auto", exact=true, reproducible_seed=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        alphabet: Option<&str>,
        longest: Option<usize>,
        words: Option<Vec<String>>,
        steps: usize,
        relation: &str,
        workload: &str,
        epsilon: Option<f64>,
        delta: Option<f64>,
        rho: Option<f64>,
        mu: Option<f64>,
        strategy: &str,
        exact: bool,
        reproducible_seed: Option<u64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let budget = (epsilon, delta, rho, mu);
        let common =
            Common::new(py, workload, steps, relation, budget, strategy, exact, reproducible_seed, None)?;
        let relation = common.relation;
        let counts = match (alphabet, longest, words) {
            (Some(alphabet), Some(longest), None) => {
                common.counts(py, || Words::new(alphabet.chars(), longest, relation), Kind::Words)?
            }
            (None, None, Some(words)) => {
                common.counts(py, || Dictionary::new(words.iter().cloned(), relation), Kind::Listed)?
            }
            _ => return Err(Refusal::input("give either alphabet and longest, or words").into()),
        };
        Ok(counts.add_subclass(Self))
    }

    /// Takes the letter of the next step, or ``None`` for a step without one, and returns the step.
    fn push(this: &Bound<'_, Self>, letter: Option<&str>) -> PyResult<usize> {
        let letter = self::letter(letter)?;
        this.as_super().get().held.with(this.py(), |inner| match &mut inner.kind {
            Kind::Words(counts) => Ok(counts.push(&letter)?),
            Kind::Listed(counts) => Ok(counts.push(&letter)?),
            _ => Err(Refusal::internal()),
        })
    }
}

/// Private counts of the minimal occurrences of each short subsequence of a stream of letters.
///
/// >>> import continual_dp as cdp
/// >>> alarms = cdp.Episodes("ab", 2, steps=100, relation="zero-out", rho=10)
/// >>> alarms.push("a"), alarms.push("b")
/// (1, 2)
/// >>> value, deviation = alarms.count("ab")
#[pyclass(extends = Counts, frozen, module = "continual_dp")]
pub(crate) struct Episodes;

#[pymethods]
impl Episodes {
    #[new]
    #[pyo3(signature = (
        alphabet=None, longest=None, *, episodes=None, steps, relation, workload="count", epsilon=None, delta=None, rho=None,
        mu=None, strategy="auto", exact=true, reproducible_seed=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        alphabet: Option<&str>,
        longest: Option<usize>,
        episodes: Option<Vec<String>>,
        steps: usize,
        relation: &str,
        workload: &str,
        epsilon: Option<f64>,
        delta: Option<f64>,
        rho: Option<f64>,
        mu: Option<f64>,
        strategy: &str,
        exact: bool,
        reproducible_seed: Option<u64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let budget = (epsilon, delta, rho, mu);
        let common =
            Common::new(py, workload, steps, relation, budget, strategy, exact, reproducible_seed, None)?;
        let relation = common.relation;
        let encoding = || match (alphabet, longest, &episodes) {
            (Some(alphabet), Some(longest), _) => EpisodeEncoding::all(alphabet.chars(), longest, relation),
            (_, _, listed) => EpisodeEncoding::listed(listed.iter().flatten().cloned(), relation),
        };
        if episodes.is_some() == (alphabet.is_some() && longest.is_some()) {
            return Err(Refusal::input("give either alphabet and longest, or episodes").into());
        }
        let counts = common.counts(py, encoding, Kind::Episodes)?;
        Ok(counts.add_subclass(Self))
    }

    /// Takes the letter of the next step, or ``None`` for a step without one, and returns the step.
    fn push(this: &Bound<'_, Self>, letter: Option<&str>) -> PyResult<usize> {
        let letter = self::letter(letter)?;
        this.as_super().get().held.with(this.py(), |inner| match &mut inner.kind {
            Kind::Episodes(counts) => Ok(counts.push(&letter)?),
            _ => Err(Refusal::internal()),
        })
    }
}
