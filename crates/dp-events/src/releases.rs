//! The releases at work: the cells of a closed step in, its numbers out, with one noise for the whole horizon.
//!
//! # Keys that are found in the rows
//! Which keys occur is itself private. They are shown by the theorem of [`dp_apps::histogram::discovery`], for totals: a key is shown
//! once its released total reaches the threshold of the step ([`Planned::threshold`]), and stays. Its other statistics are
//! read off the same noisy cells as the total, and are part of the release that the theorem speaks of.

use std::collections::BTreeMap;
use std::sync::Arc;

use dp_apps::histogram::discovery::Columns;
use dp_mechanisms::noise::HashKey;
use dp_mechanisms::{Mechanism, Seed, Snapshot, SparseMechanism};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::encoding::{Cells, ReleaseCells, Share};
use crate::error::{Error, Result};
use crate::people::take;
use crate::plan::Planned;
use crate::state::{Randomness, SecretBytes};
use crate::statistics::{Number, Statistics};

/// A key with the step, counted from 0 within these releases, from which on it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownKey {
    /// Its name; empty where a release is not split.
    pub name: String,
    /// The first step.
    pub from: usize,
}

/// Everything that was published of one release.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The keys, in the order in which they are printed within a step.
    pub keys: Vec<ShownKey>,
    /// The numbers, by step, by key that is published by then, and by statistic.
    pub numbers: Vec<Number>,
}

/// What one step publishes of one release, of the keys of one owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StepNumbers {
    /// By key and statistic.
    Listed(Vec<Number>),
    /// By the names of the keys that are shown, in their order.
    Found(Vec<(Box<str>, Vec<Number>)>),
}

/// All releases of a dashboard between their first and their last step, or the keys of one owner of them. It takes the cells of
/// one step after the other, and cannot be cloned.
///
/// # Privacy
/// Everything published satisfies the budget that the releases were planned for, if the cells come from
/// [`Intake`](crate::intake::Intake), or from its parts with every row of a person limited in one place. The noise of a key
/// depends on no other key, so the owners of keys, each with a share of its own, are together the release of all: with
/// secret noise each draws a seed by itself, and none of them knows the noise of another; with a reproducible seed each makes the
/// noise that one owner of all keys would make, to the last bit.
///
/// # Complexity
/// A step costs that of one [`Mechanism`] and its statistics for every release; where keys are found, one column of noise for
/// every key that ever occurred.
///
/// # Example
/// ```
/// use dp_events::encoding::{Cells, Share};
/// use dp_events::{Dashboard, Randomness, Releases};
/// # let text = r#"
/// #     [privacy]
/// #     rho = 0.1
/// #     protects = "event"
/// #     relation = "zero-out"
/// #     [input]
/// #     files = ["visits.csv"]
/// #     time = "date"
/// #     [steps]
/// #     length = "1 day"
/// #     first = "2026-01-01"
/// #     last = "2026-01-03"
/// #     [[release]]
/// #     name = "visits"
/// #     statistics = ["total"]
/// #     by = { column = "region", values = ["North", "South", "East"] }
/// #     [output]
/// #     folder = "public"
/// # "#;
/// # let dashboard = Dashboard::new(dp_events::Spec::parse(text, "dashboard.toml".as_ref())?)?;
/// # let encodings = dp_events::encoding::Encoding::all(dashboard.spec());
/// // A step without rows, closed by one owner of all keys and by two owners of some.
/// let close = |share: Share| {
///     let planned = dashboard.planned()?.clone();
///     Releases::new(planned, share, Randomness::Reproducible(7))?.close(&Cells::of_share(&encodings, share))
/// };
/// let dp_events::releases::StepNumbers::Listed(all) = &close(Share::WHOLE)?[0] else { panic!() };
/// let parts = [close(Share::new(0, 2))?, close(Share::new(1, 2))?];
/// let parts = parts.iter().flat_map(|part| match &part[0] {
///     dp_events::releases::StepNumbers::Listed(numbers) => numbers.clone(),
///     dp_events::releases::StepNumbers::Found(_) => Vec::new(),
/// });
/// assert_eq!(*all, parts.collect::<Vec<_>>());
/// # Ok::<(), dp_events::Error>(())
/// ```
pub struct Releases {
    planned: Arc<[Planned]>,
    share: Share,
    live: Vec<Live>,
    step: usize,
}

/// One release at work.
enum Live {
    /// Another owner has all of its keys.
    Elsewhere,
    Listed(Box<Listed>),
    Found(Box<Found>),
}

struct Listed {
    mechanism: Mechanism,
    statistics: Statistics,
    input: Vec<f64>,
    noisy: Vec<f64>,
}

/// A release whose keys are found in the rows.
struct Found {
    mechanism: SparseMechanism,
    columns: Columns,
    keys: BTreeMap<Box<str>, FoundKey>,
    history: Vec<f64>,
}

struct FoundKey {
    coordinate: u64,
    statistics: Statistics,
    /// The released total so far.
    total: f64,
    shown: bool,
}

impl Releases {
    /// Before the first step.
    ///
    /// # Errors
    /// What the mechanisms refuse, or a system without randomness.
    pub fn new(planned: Arc<[Planned]>, share: Share, randomness: Randomness) -> Result<Self> {
        let mut live = Vec::new();
        for (index, one) in planned.iter().enumerate() {
            let start = || -> dp_mechanisms::Result<Live> {
                let (plan, seed) = (one.plan.clone(), seed(randomness, index)?);
                let cells = share.cells(&one.encoding);
                Ok(if one.encoding.is_named() {
                    Live::Found(Box::new(Found::new(SparseMechanism::new(plan, seed)?)))
                } else if cells.is_empty() {
                    Live::Elsewhere
                } else if share == Share::WHOLE {
                    Live::Listed(Box::new(Listed::new(one, share, Mechanism::new(plan, seed)?)?))
                } else {
                    Live::Listed(Box::new(Listed::new(one, share, Mechanism::part(plan, cells, seed)?)?))
                })
            };
            live.push(start().map_err(|source| Error::Mechanism { release: one.name.clone(), source })?);
        }
        Ok(Self { planned, share, live, step: 0 })
    }

    /// All of it, leaving nothing: no releases that any step could be closed of.
    pub fn take(&mut self) -> Self {
        let nothing = Self { planned: Arc::new([]), share: self.share, live: Vec::new(), step: self.step };
        std::mem::replace(self, nothing)
    }

    /// The releases as they are planned.
    pub fn planned(&self) -> &Arc<[Planned]> {
        &self.planned
    }

    /// The number of steps published.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Takes the cells of the next step, and makes its numbers by release.
    ///
    /// # Errors
    /// A step past the horizon, or cells of other releases. After an error the releases are not to be used again.
    pub fn close(&mut self, cells: &Cells) -> Result<Vec<StepNumbers>> {
        let mut all = Vec::with_capacity(self.live.len());
        for ((planned, live), cells) in self.planned.iter().zip(&mut self.live).zip(cells.releases()) {
            let closed = match (live, cells) {
                (Live::Listed(live), ReleaseCells::Listed(cells)) => live.close(planned, cells),
                (Live::Found(live), ReleaseCells::Named(cells)) => live.close(planned, self.step, cells),
                (Live::Elsewhere, ReleaseCells::Listed(cells)) if cells.is_empty() => {
                    Ok(StepNumbers::Listed(Vec::new()))
                }
                _ => Err(dp_mechanisms::Error::Empty { what: "the cells of a release of this kind" }),
            };
            all.push(closed.map_err(|source| Error::Mechanism { release: planned.name.clone(), source })?);
        }
        self.step += 1;
        Ok(all)
    }

    /// All of it as bytes, for a sealed state: a secret.
    pub(crate) fn save(&self, bytes: &mut SecretBytes) {
        put(bytes, self.step);
        for live in &self.live {
            match live {
                Live::Elsewhere => {}
                Live::Listed(live) => {
                    put_bytes(bytes, &live.mechanism.snapshot().to_bytes());
                    let streams = live.statistics.state();
                    put(bytes, streams.len());
                    for stream in streams {
                        put(bytes, stream.len());
                        stream
                            .iter()
                            .for_each(|value| bytes.extend_from_slice(&value.to_bits().to_le_bytes()));
                    }
                }
                Live::Found(live) => {
                    put_bytes(bytes, &live.mechanism.snapshot().to_bytes());
                    bytes.extend_from_slice(live.columns.secret().as_bytes());
                    put(bytes, live.keys.len());
                    for (name, key) in &live.keys {
                        put_bytes(bytes, name.as_bytes());
                        put(bytes, usize::from(key.shown));
                        put(bytes, key.coordinate as usize);
                    }
                }
            }
        }
    }

    /// Continues what [`Releases::save`] wrote. Noise that a release has used stays; all other noise comes from a new secret
    /// of the system, so that a state that is put back and continued twice costs what two dashboards cost.
    ///
    /// # Errors
    /// Bytes that are something else, noise that does not come out the same here, or what the mechanisms refuse.
    pub(crate) fn resume(
        planned: Arc<[Planned]>,
        share: Share,
        bytes: &mut &[u8],
        randomness: Randomness,
        damaged: impl Fn() -> Error,
    ) -> Result<Self> {
        let step = get(bytes).ok_or_else(&damaged)?;
        let mut live = Vec::new();
        for (index, one) in planned.iter().enumerate() {
            let cells = share.cells(&one.encoding);
            if !one.encoding.is_named() && cells.is_empty() {
                live.push(Live::Elsewhere);
                continue;
            }
            let refuse = |source| Error::Mechanism { release: one.name.clone(), source };
            let snapshot = Snapshot::from_bytes(get_bytes(bytes).ok_or_else(&damaged)?).map_err(refuse)?;
            let (plan, seed) = (one.plan.clone(), seed(randomness, index).map_err(refuse)?);
            if snapshot.step() != step {
                return Err(damaged());
            }
            if one.encoding.is_named() {
                let mut found = Found::new(SparseMechanism::resume(plan, &snapshot, seed).map_err(refuse)?);
                found.restore(one, step, bytes).ok_or_else(&damaged)?.map_err(refuse)?;
                live.push(Live::Found(Box::new(found)));
                continue;
            }
            let mechanism = if share == Share::WHOLE {
                Mechanism::resume(plan, &snapshot, seed)
            } else {
                Mechanism::resume_part(plan, cells, &snapshot, seed)
            };
            let mut listed = Listed::new(one, share, mechanism.map_err(refuse)?).map_err(refuse)?;
            let mut streams = Vec::new();
            for _ in 0..get(bytes).ok_or_else(&damaged)? {
                let length = get(bytes).ok_or_else(&damaged)?;
                let values =
                    (0..length).map(|_| take(bytes).map(|word| f64::from_bits(u64::from_le_bytes(word))));
                streams.push(values.collect::<Option<Vec<f64>>>().ok_or_else(&damaged)?);
            }
            listed.statistics.restore(step, &streams).map_err(refuse)?;
            live.push(Live::Listed(Box::new(listed)));
        }
        Ok(Self { planned, share, live, step })
    }
}

/// What was published of all releases, step after step.
pub struct Archive {
    releases: Vec<Archived>,
    step: usize,
}

/// What was published of one release.
#[derive(Default)]
struct Archived {
    /// Keys that were found in the rows, with the step from which on they are shown.
    found: BTreeMap<Box<str>, usize>,
    numbers: Vec<Number>,
}

impl Archive {
    /// Nothing published yet.
    pub fn new(planned: &[Planned]) -> Self {
        Self { releases: planned.iter().map(|_| Archived::default()).collect(), step: 0 }
    }

    /// Takes what the next step publishes, from every owner of keys in their order.
    pub fn publish(&mut self, parts: Vec<Vec<StepNumbers>>) {
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        for release in &mut self.releases {
            let mut found: BTreeMap<Box<str>, Vec<Number>> = BTreeMap::new();
            for part in &mut parts {
                match part.next() {
                    Some(StepNumbers::Listed(numbers)) => release.numbers.extend(numbers),
                    Some(StepNumbers::Found(keys)) => found.extend(keys),
                    None => {}
                }
            }
            for (name, numbers) in found {
                release.found.entry(name).or_insert(self.step);
                release.numbers.extend(numbers);
            }
        }
        self.step += 1;
    }

    /// The number of steps published.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Everything published of a release so far.
    pub fn published(&self, release: usize, planned: &Planned) -> Option<Published> {
        let archived = self.releases.get(release)?;
        let keys = if planned.encoding.is_named() {
            archived
                .found
                .iter()
                .map(|(name, from)| ShownKey { name: name.to_string(), from: *from })
                .collect()
        } else {
            (0..planned.keys).map(|_| ShownKey { name: String::new(), from: 0 }).collect()
        };
        Some(Published { keys, numbers: archived.numbers.clone() })
    }

    /// All of it as bytes.
    pub(crate) fn save(&self, bytes: &mut SecretBytes) {
        put(bytes, self.step);
        for release in &self.releases {
            put(bytes, release.found.len());
            for (name, from) in &release.found {
                put_bytes(bytes, name.as_bytes());
                put(bytes, *from);
            }
            put_numbers(bytes, &release.numbers);
        }
    }

    /// Reads what [`Archive::save`] wrote; nothing if the bytes are not that.
    pub(crate) fn restore(planned: &[Planned], bytes: &mut &[u8]) -> Option<Self> {
        let mut archive = Self { step: get(bytes)?, ..Self::new(planned) };
        for (release, planned) in archive.releases.iter_mut().zip(planned) {
            for _ in 0..get(bytes)? {
                let name = std::str::from_utf8(get_bytes(bytes)?).ok()?.into();
                release.found.insert(name, get(bytes)?);
            }
            release.numbers = get_numbers(bytes)?;
            let statistics = planned.statistics.len();
            let expected = if planned.encoding.is_named() {
                release.found.values().map(|from| archive.step.saturating_sub(*from)).sum::<usize>()
                    * statistics
            } else {
                archive.step * planned.keys * statistics
            };
            if release.numbers.len() != expected {
                return None;
            }
        }
        Some(archive)
    }
}

/// Where the noise of a release comes from.
fn seed(randomness: Randomness, index: usize) -> dp_mechanisms::Result<Seed> {
    match randomness {
        Randomness::System => Seed::from_system(),
        Randomness::Reproducible(number) => {
            let mut hasher = blake3::Hasher::new_derive_key("dp-events reproducible noise of a release");
            hasher.update(&number.to_le_bytes()).update(&(index as u64).to_le_bytes());
            let hash = hasher.finalize();
            let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
            Ok(Seed::reproducible(u64::from_le_bytes(first)))
        }
    }
}

impl Listed {
    fn new(planned: &Planned, share: Share, mechanism: Mechanism) -> dp_mechanisms::Result<Self> {
        let dimension = mechanism.dimension();
        Ok(Self {
            mechanism,
            statistics: Statistics::new(planned, share.keys(&planned.encoding).len())?,
            input: vec![0.0; dimension],
            noisy: vec![0.0; dimension],
        })
    }

    fn close(&mut self, planned: &Planned, cells: &[i64]) -> dp_mechanisms::Result<StepNumbers> {
        if cells.len() != self.input.len() {
            let (expected, actual) = (self.input.len(), cells.len());
            return Err(dp_mechanisms::Error::Dimension { what: "the cells of a step", expected, actual });
        }
        // Cells are far below what a double holds exactly.
        self.input.iter_mut().zip(cells).for_each(|(input, cell)| *input = *cell as f64);
        self.mechanism.release(&self.input, &mut self.noisy)?;
        let mut numbers = Vec::new();
        self.statistics.push(planned, &self.noisy, &mut numbers)?;
        Ok(StepNumbers::Listed(numbers))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.input.zeroize();
    }
}

impl Found {
    fn new(mechanism: SparseMechanism) -> Self {
        let columns = Columns::new(mechanism.hash_key("coordinates of keys"));
        Self { mechanism, columns, keys: BTreeMap::new(), history: Vec::new() }
    }

    /// The column of a key.
    fn add(&mut self, planned: &Planned, name: &str) -> dp_mechanisms::Result<u64> {
        if let Some(key) = self.keys.get(name) {
            return Ok(key.coordinate);
        }
        let coordinate = self.columns.assign(name);
        let key = FoundKey { coordinate, statistics: Statistics::new(planned, 1)?, total: 0.0, shown: false };
        self.keys.insert(name.into(), key);
        Ok(coordinate)
    }

    fn close(
        &mut self,
        planned: &Planned,
        step: usize,
        cells: &BTreeMap<Box<str>, i64>,
    ) -> dp_mechanisms::Result<StepNumbers> {
        let mut changes = Vec::with_capacity(cells.len());
        for (name, cell) in cells {
            changes.push((self.add(planned, name)?, *cell as f64));
        }
        self.mechanism.push(&changes)?;
        changes.iter_mut().for_each(|(coordinate, value)| {
            coordinate.zeroize();
            value.zeroize();
        });
        let threshold = planned.threshold(step).unwrap_or(f64::INFINITY);
        let (mut current, mut numbers) = (Vec::new(), Vec::new());
        for (name, key) in &mut self.keys {
            self.history.clear();
            self.mechanism.ask_since(key.coordinate, &mut self.history)?;
            for noisy in &self.history {
                current.clear();
                key.total += noisy;
                key.statistics.push(planned, &[*noisy], &mut current)?;
            }
            key.shown |= key.total >= threshold;
            if key.shown {
                numbers.push((name.clone(), current.clone()));
            }
        }
        Ok(StepNumbers::Found(numbers))
    }

    /// Reads the keys; what is known of their noise is made again. Nothing if the bytes are something else.
    fn restore(
        &mut self,
        planned: &Planned,
        step: usize,
        bytes: &mut &[u8],
    ) -> Option<dp_mechanisms::Result<()>> {
        self.columns = Columns::new(HashKey::from_bytes(take(bytes)?));
        for _ in 0..get(bytes)? {
            let name: Box<str> = std::str::from_utf8(get_bytes(bytes)?).ok()?.into();
            let shown = get(bytes)? == 1;
            let coordinate = get(bytes)? as u64;
            if !self.columns.restore(coordinate) {
                return None;
            }
            let mut made = || -> dp_mechanisms::Result<FoundKey> {
                let mut key =
                    FoundKey { coordinate, statistics: Statistics::new(planned, 1)?, total: 0.0, shown };
                if step > 0 {
                    self.history.clear();
                    self.mechanism.ask_since(coordinate, &mut self.history)?;
                    let mut past = Vec::new();
                    for noisy in &self.history {
                        past.clear();
                        key.total += noisy;
                        key.statistics.push(planned, &[*noisy], &mut past)?;
                    }
                }
                Ok(key)
            };
            match made() {
                Ok(key) => _ = self.keys.insert(name, key),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(()))
    }
}

fn put(bytes: &mut SecretBytes, number: usize) {
    bytes.extend_from_slice(&(number as u64).to_le_bytes());
}

fn put_bytes(bytes: &mut SecretBytes, more: &[u8]) {
    put(bytes, more.len());
    bytes.extend_from_slice(more);
}

fn get(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(take(bytes)?)).ok()
}

fn get_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = get(bytes)?;
    let (first, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(first)
}

pub(crate) fn put_numbers(bytes: &mut SecretBytes, numbers: &[Number]) {
    put(bytes, numbers.len());
    for number in numbers {
        for value in [number.value, number.standard_deviation, number.low, number.high] {
            bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }
}

pub(crate) fn get_numbers(bytes: &mut &[u8]) -> Option<Vec<Number>> {
    let length = get(bytes)?;
    let mut float = || take(bytes).map(|bits| f64::from_bits(u64::from_le_bytes(bits)));
    let one =
        |_| Some(Number { value: float()?, standard_deviation: float()?, low: float()?, high: float()? });
    (0..length).map(one).collect()
}
