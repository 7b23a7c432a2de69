//! Counts of many things at once: items of a known or an unknown universe, ordered values, substrings, episodes.

use std::path::PathBuf;
use std::sync::Arc;

use dp_apps::episodes::Episodes as EpisodeEncoding;
use dp_apps::histogram::discovery::{Discovery as Found, Threshold};
use dp_apps::histogram::{Change, Histogram as Items, Rules, Universe};
use dp_apps::ordered::Ordered;
use dp_apps::substrings::Substrings as Words;
use dp_apps::substrings::dictionary::Dictionary;
use dp_apps::{Counts as Core, Encoding, Estimate};
use dp_mechanisms::session::Save;
use dp_mechanisms::{Plan, Session, Snapshot, StateFile};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::arguments::{self, name_of, whole, whole_or_none};
use crate::arrays;
use crate::common::{Common, counting};
use crate::errors::Refusal;
use crate::live::{Held, Live, Stepped, detached};

/// What all kinds of counts can do, whatever their events are.
enum Kind {
    Items(Core<Items>),
    Values(Core<Ordered>),
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
            Kind::Values($counts) => $call,
            Kind::Words($counts) => $call,
            Kind::Listed($counts) => $call,
            Kind::Episodes($counts) => $call,
            Kind::Found($found) => $other,
        }
    };
}

impl Save for Kind {
    fn snapshot(&self) -> Snapshot {
        of_kind!(self, counts => counts.snapshot(), found => found.snapshot())
    }
}

struct Inner {
    session: Session<Kind>,
    /// Whether something was counted that the file does not have.
    unsaved: bool,
}

impl Stepped for Inner {
    fn step(&self) -> usize {
        of_kind!(self.session.live(), counts => counts.step(), found => found.step())
    }

    /// What is asked after a step is answered once that step is on disk.
    fn settle(&mut self) -> Result<(), Refusal> {
        if self.unsaved {
            self.session.save()?;
        }
        self.unsaved = false;
        Ok(())
    }
}

impl Inner {
    fn plan(&self) -> &Plan {
        of_kind!(self.session.live(), counts => counts.plan(), found => found.plan())
    }

    fn count(&mut self, name: &str) -> Result<Estimate, Refusal> {
        self.settle()?;
        Ok(of_kind!(self.session.live_mut(), counts => counts.count(name), found => found.count(name))?)
    }
}

/// Private counts of many things: the base of :class:`Histogram`, :class:`Discovery`, :class:`Quantiles`,
/// :class:`Substrings` and :class:`Episodes`.
#[pyclass(extends = Live, subclass, frozen, module = "continual_dp")]
pub(crate) struct Counts {
    held: Arc<Held<Inner>>,
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
    fn top(&self, py: Python<'_>, #[pyo3(from_py_with = whole)] most: usize) -> PyResult<Vec<(String, f64)>> {
        self.held.with(py, |inner| -> Result<_, Refusal> {
            inner.settle()?;
            of_kind!(inner.session.live_mut(), counts => {
                let top = counts.top(most, 0.05)?;
                // Ranges of ordered values have no name.
                let named = top.entries.into_iter();
                let named = named.filter_map(|(at, value)| Some((counts.encoding().label(at)?, value)));
                Ok(named.collect())
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
}

/// The file that keeps a run, locked.
fn state_file(py: Python<'_>, state: Option<PathBuf>) -> PyResult<Option<StateFile>> {
    detached(py, || Ok::<_, Refusal>(state.map(|path| StateFile::open(&path, None)).transpose()?))
}

/// Starts counting, or goes on where the state stands.
fn counts<E: Encoding + Send>(
    py: Python<'_>,
    common: Common,
    file: Option<StateFile>,
    exact: bool,
    encoding: E,
    kind: fn(Core<E>) -> Kind,
) -> PyResult<PyClassInitializer<Counts>> {
    let footprint = encoding.footprint().map_err(Refusal::from)?;
    let strategy = common.strategy(py, &footprint, encoding.dimension())?;
    let inner = detached(py, move || {
        let Common { budget, seed, .. } = common;
        let plan = if exact {
            encoding.plan(&strategy, budget)
        } else {
            encoding.idealized_plan(&strategy, budget)
        }?;
        let session = Session::begin(file, |saved| {
            let counts = match saved {
                None => Core::new(encoding, plan, seed),
                Some(saved) => Core::resume(encoding, plan, saved, seed),
            };
            Ok::<_, Refusal>(kind(counts?))
        })?;
        Ok::<_, Refusal>(Inner { session, unsaved: true })
    })?;
    Ok(of_inner(inner))
}

fn of_inner(inner: Inner) -> PyClassInitializer<Counts> {
    let held = Held::new("count", inner);
    held.live().add_subclass(Counts { held })
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

/// A public universe: a range of integers, or a list of names.
fn universe(given: &Bound<'_, PyAny>) -> PyResult<Universe> {
    let universe = if given.hasattr("start")? && given.hasattr("step")? {
        let (first, count) = (given.getattr("start")?.extract::<i64>()?, given.len()? as u64);
        if given.getattr("step")?.extract::<i64>()? != 1 {
            return Err(Refusal::input("universe is a range with gaps; give consecutive integers").into());
        }
        Universe::integers(first, count)
    } else {
        let names = given.try_iter()?.map(|name| {
            let name = name?;
            item(&name)?.ok_or_else(|| no_item("universe", &name))
        });
        Universe::named(names.collect::<PyResult<Vec<String>>>()?)
    };
    Ok(universe.map_err(Refusal::from)?)
}

/// What people bring in a step: an array of integers, one each, or lists of names.
enum Brought<'a> {
    Integers(&'a [i64]),
    Named { inserted: Vec<Vec<String>>, removed: Vec<Vec<String>> },
}

impl Brought<'_> {
    fn named(people: &Bound<'_, PyAny>, removed: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let inserted = self::people("people", people)?;
        let removed =
            removed.map(|removed| self::people("removed", removed)).transpose()?.unwrap_or_default();
        if removed.len() > inserted.len() {
            let words = "removed has more people than people; give an empty list for the rest";
            return Err(Refusal::input(words).into());
        }
        Ok(Self::Named { inserted, removed })
    }

    /// As changes of items of a universe.
    fn changes(&self, universe: &Universe) -> Result<Vec<Vec<Change<u64>>>, Refusal> {
        let unknown = |text: String| dp_apps::Error::Unknown { what: "item", text };
        match self {
            Self::Integers(integers) => {
                let position = |one: &i64| universe.position_of(*one).ok_or_else(|| unknown(one.to_string()));
                Ok(integers
                    .iter()
                    .map(|one| Ok(vec![Change::Insert(position(one)?)]))
                    .collect::<dp_apps::Result<_>>()?)
            }
            Self::Named { inserted, removed } => {
                let find = |name: &String| universe.position(name).ok_or_else(|| unknown(name.clone()));
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
                Ok(event)
            }
        }
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

counting! {
    /// Private counts of items of a known universe, over steps of many people.
    ///
    /// ``universe`` is a list of names, or a ``range`` of integers; one person may change up to ``items`` of them in a step.
    ///
    /// >>> import continual_dp as cdp
    /// >>> shop = cdp.Histogram(["bread", "milk", "salt"], steps=30, relation="zero-out", items=2, rho=100)
    /// >>> shop.push([["bread", "milk"], "bread", ["salt"]])      # three people
    /// 1
    /// >>> value, deviation = shop.count("bread")
    /// >>> abs(value - 2) < 8 * deviation
    /// True
    /// >>> [name for name, _ in shop.top(3)][0] in ("bread", "milk", "salt")
    /// True
    class Histogram(Counts)
    signature (universe, *, items=1, distinct=true, removals=false, participation=None, exact=true, state=None)
    arguments (
        universe: &Bound<'_, PyAny>, #[pyo3(from_py_with = whole)] items: usize, distinct: bool, removals: bool,
        participation: Option<&Bound<'_, PyAny>>, exact: bool, state: Option<PathBuf>
    )
    new (py, common) {
        let participation = arguments::participation(participation)?;
        let rules = Rules { items, distinct, removals, relation: common.relation, participation };
        let items = Items::new(self::universe(universe)?, rules).map_err(Refusal::from)?;
        let file = state_file(py, state)?;
        Ok(counts(py, common, file, exact, items, Kind::Items)?.add_subclass(Self))
    }

    /// Takes the people of the next step, each an item or a list of items, and returns the step. An array of integers, one
    /// item a person, is read where it is.
    ///
    /// ``removed`` holds what they take away, in the same order, where the rules allow it.
    #[pyo3(signature = (people, removed=None))]
    fn push(
        this: &Bound<'_, Self>,
        people: &Bound<'_, PyAny>,
        removed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let array = match removed {
            None => arrays::integers("people", people)?,
            Some(_) => None,
        };
        let brought = match &array {
            Some(array) => Brought::Integers(arrays::slice("people", array)?),
            None => Brought::named(people, removed)?,
        };
        this.as_super().get().held.with(this.py(), |inner| {
            let Kind::Items(items) = inner.session.live_mut() else { return Err(Refusal::internal()) };
            let event = brought.changes(items.encoding().universe())?;
            let step = items.push(&event)?;
            inner.unsaved = true;
            Ok(step)
        })
    }
}

counting! {
    /// Private counts of items that nobody knows beforehand: those that stand out appear by themselves.
    ///
    /// ``threshold_delta`` is paid on top of the budget, for showing names at all. Where names are looked for after ``every``
    /// so many steps and after the last one, less has to stand out there, and more after other steps.
    ///
    /// >>> import continual_dp as cdp
    /// >>> words = cdp.Discovery(steps=30, relation="zero-out", epsilon=8, delta=1e-6, threshold_delta=1e-12)
    /// >>> words.push(["rust"] * 500 + ["a secret"])
    /// 1
    /// >>> [name for name, _ in words.top()]
    /// ['rust']
    class Discovery(Counts)
    signature (*, threshold_delta, every=1, items=1, distinct=true, participation=None, state=None)
    arguments (
        threshold_delta: f64, #[pyo3(from_py_with = whole)] every: usize, #[pyo3(from_py_with = whole)] items: usize, distinct: bool, participation: Option<&Bound<'_, PyAny>>,
        state: Option<PathBuf>
    )
    new (py, common) {
        let participation = arguments::participation(participation)?;
        let rules = Rules { items, distinct, removals: false, relation: common.relation, participation };
        let when = Threshold::new(threshold_delta).and_then(|when| when.printing_every(every)).map_err(Refusal::from)?;
        let footprint = rules.footprint(None).map_err(Refusal::from)?;
        let strategy = common.strategy(py, &footprint, dp_mechanisms::sparse::MOST_COORDINATES)?;
        let file = state_file(py, state)?;
        let inner = detached(py, move || {
            let plan = Found::plan_for(&rules, &strategy, common.budget)?;
            let session = Session::begin(file, |saved| {
                let found = match saved {
                    None => Found::new(rules, plan, when, common.seed),
                    Some(saved) => Found::resume(rules, plan, when, saved, common.seed),
                };
                Ok::<_, Refusal>(Kind::Found(Box::new(found?)))
            })?;
            Ok::<_, Refusal>(Inner { session, unsaved: true })
        })?;
        Ok(of_inner(inner).add_subclass(Self))
    }

    /// Takes the people of the next step, each an item or a list of items, and returns the step.
    fn push(this: &Bound<'_, Self>, people: &Bound<'_, PyAny>) -> PyResult<usize> {
        let people = self::people("people", people)?;
        this.as_super().get().held.with(this.py(), |inner| {
            let Kind::Found(found) = inner.session.live_mut() else { return Err(Refusal::internal()) };
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
        this.as_super().get().held.with(this.py(), |inner| match inner.session.live() {
            Kind::Found(found) => Ok(found.threshold()),
            _ => Err(Refusal::internal()),
        })
    }
}

counting! {
    /// Quantiles of numbers, one of each person in a step, and how many lie in any range.
    ///
    /// The numbers are rounded to ``low``, ``low + resolution``, … up to ``high``; what lies beyond a bound counts as the bound.
    /// They are counted in a tree of ranges, so that the error grows with the logarithm of the number of values only.
    ///
    /// >>> import continual_dp as cdp, numpy as np
    /// >>> ages = cdp.Quantiles(0, 120, 1, steps=30, relation="zero-out", rho=1e6)
    /// >>> ages.push(np.arange(18, 99))
    /// 1
    /// >>> median, low, high = ages.quantile(0.5)
    /// >>> median
    /// 58.0
    /// >>> adults, deviation = ages.between(18, 64)
    /// >>> abs(adults - 47) < 8 * deviation
    /// True
    class Quantiles(Counts)
    signature (low, high, resolution, *, participation=None, exact=true, state=None)
    arguments (
        low: f64, high: f64, resolution: f64, participation: Option<&Bound<'_, PyAny>>, exact: bool,
        state: Option<PathBuf>
    )
    new (py, common) {
        let participation = arguments::participation(participation)?;
        let relation = common.relation;
        let values = detached(py, || Ordered::new(low, high, resolution, relation, participation))?;
        let file = state_file(py, state)?;
        Ok(counts(py, common, file, exact, values, Kind::Values)?.add_subclass(Self))
    }

    /// Takes the numbers of the next step, one of each person, and returns the step.
    fn push(this: &Bound<'_, Self>, values: &Bound<'_, PyAny>) -> PyResult<usize> {
        let array = arrays::doubles("values", values)?;
        arrays::check_shape("values", &array, &[&[arrays::rows(&array)]])?;
        let slice = arrays::slice("values", &array)?;
        this.as_super().get().held.with(this.py(), |inner| {
            let Kind::Values(values) = inner.session.live_mut() else { return Err(Refusal::internal()) };
            let step = values.push(slice)?;
            inner.unsaved = true;
            Ok(step)
        })
    }

    /// The number below which the part ``part`` of all numbers lies, and two between which the true one lies, except with
    /// probability ``failure``.
    #[pyo3(signature = (part, failure=0.05))]
    fn quantile(this: &Bound<'_, Self>, part: f64, failure: f64) -> PyResult<(f64, f64, f64)> {
        this.as_super().get().held.with(this.py(), |inner| {
            inner.settle()?;
            let Kind::Values(values) = inner.session.live_mut() else { return Err(Refusal::internal()) };
            let found = values.quantile(part, failure)?;
            Ok((found.value, found.low, found.high))
        })
    }

    /// How many numbers lie between two, both included, and the standard deviation of its noise.
    fn between(this: &Bound<'_, Self>, low: f64, high: f64) -> PyResult<(f64, f64)> {
        this.as_super().get().held.with(this.py(), |inner| {
            inner.settle()?;
            let Kind::Values(values) = inner.session.live_mut() else { return Err(Refusal::internal()) };
            let found = values.between(low, high)?;
            Ok((found.value, found.standard_deviation))
        })
    }
}

counting! {
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
    class Substrings(Counts)
    signature (alphabet=None, longest=None, *, words=None, exact=true)
    arguments (alphabet: Option<&str>, #[pyo3(from_py_with = whole_or_none)] longest: Option<usize>, words: Option<Vec<String>>, exact: bool)
    new (py, common) {
        let relation = common.relation;
        let counts = match (alphabet, longest, words) {
            (Some(alphabet), Some(longest), None) => {
                let words = Words::new(alphabet.chars(), longest, relation).map_err(Refusal::from)?;
                counts(py, common, None, exact, words, Kind::Words)?
            }
            (None, None, Some(words)) => {
                let words = Dictionary::new(words, relation).map_err(Refusal::from)?;
                counts(py, common, None, exact, words, Kind::Listed)?
            }
            _ => return Err(Refusal::input("give either alphabet and longest, or words").into()),
        };
        Ok(counts.add_subclass(Self))
    }

    /// Takes the letter of the next step, or ``None`` for a step without one, and returns the step.
    fn push(this: &Bound<'_, Self>, letter: Option<&str>) -> PyResult<usize> {
        let letter = self::letter(letter)?;
        this.as_super().get().held.with(this.py(), |inner| match inner.session.live_mut() {
            Kind::Words(counts) => Ok(counts.push(&letter)?),
            Kind::Listed(counts) => Ok(counts.push(&letter)?),
            _ => Err(Refusal::internal()),
        })
    }
}

counting! {
    /// Private counts of the minimal occurrences of each short subsequence of a stream of letters.
    ///
    /// Give an ``alphabet`` and the ``longest`` length, or a list of ``episodes``. It lives as long as the object.
    ///
    /// >>> import continual_dp as cdp
    /// >>> alarms = cdp.Episodes("ab", 2, steps=100, relation="zero-out", rho=10)
    /// >>> alarms.push("a"), alarms.push("b")
    /// (1, 2)
    /// >>> value, deviation = alarms.count("ab")
    class Episodes(Counts)
    signature (alphabet=None, longest=None, *, episodes=None, exact=true)
    arguments (alphabet: Option<&str>, #[pyo3(from_py_with = whole_or_none)] longest: Option<usize>, episodes: Option<Vec<String>>, exact: bool)
    new (py, common) {
        let relation = common.relation;
        let encoding = match (alphabet, longest, episodes) {
            (Some(alphabet), Some(longest), None) => EpisodeEncoding::all(alphabet.chars(), longest, relation),
            (None, None, Some(listed)) => EpisodeEncoding::listed(listed, relation),
            _ => return Err(Refusal::input("give either alphabet and longest, or episodes").into()),
        };
        let encoding = encoding.map_err(Refusal::from)?;
        Ok(counts(py, common, None, exact, encoding, Kind::Episodes)?.add_subclass(Self))
    }

    /// Takes the letter of the next step, or ``None`` for a step without one, and returns the step.
    fn push(this: &Bound<'_, Self>, letter: Option<&str>) -> PyResult<usize> {
        let letter = self::letter(letter)?;
        this.as_super().get().held.with(this.py(), |inner| match inner.session.live_mut() {
            Kind::Episodes(counts) => Ok(counts.push(&letter)?),
            _ => Err(Refusal::internal()),
        })
    }
}
