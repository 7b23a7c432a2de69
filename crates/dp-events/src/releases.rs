//! The releases at work: the cells of a closed step in, its numbers out, with one noise for the whole horizon.
//!
//! # Keys that are found in the rows
//! Which keys occur is itself private: one that a single person mentions would give that person away. So every conceivable
//! key has its column of noise, which follows from a secret and the name of the key, and a key is shown once its *released* total
//! reaches the threshold of the step ([`Planned::threshold`]); from then on it stays.
//!
//! **Theorem.** Let the release of all conceivable keys be (ε, δ)-DP, let one person raise no total by more than c and touch at
//! most K keys (both versions of a replaced person taken together), and let noise exceed `τ_t - c` with probability at most
//! `δ'/(nK)` at each of n steps. Then showing the keys that are touched and have reached `τ_t`, with all their releases, is
//! (ε, δ + δ')-DP, adaptively.
//!
//! *Proof.* What is shown is a function of the release Y of all keys and of which keys are touched: `f_x(Y)`. Let E be the event
//! that a key reaches the threshold at a step at which it is touched under one of the two neighbours x and x' only. Outside E a
//! key that is shown is touched in both, so `f_x(Y) = f_x'(Y)`, and for every set of outputs
//! `P_x(f_x(Y) ∈ O) ≤ P_x(f_x'(Y) ∈ O) + P_x(E) ≤ e^ε P_x'(f_x'(Y) ∈ O) + δ + P_x(E)`. A key that is touched in one
//! of them only is touched by the one person alone, so its total is at most c and E needs noise above `τ_t - c`: over K keys and n
//! steps with probability δ' at most. The noise of a key has had no effect on anything before it is shown, so this also holds
//! for streams that depend on earlier releases. ∎

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Arc;

use dp_mechanisms::noise::HashKey;
use dp_mechanisms::sparse::MOST_COORDINATES;
use dp_mechanisms::{Mechanism, Seed, Snapshot, SparseMechanism};
use zeroize::Zeroize;

use crate::encoding::{Cells, ReleaseCells};
use crate::error::{Error, Result};
use crate::people::take;
use crate::plan::Planned;
use crate::state::Randomness;
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

/// All releases of a dashboard between their first and their last step. It takes the cells of one step after the other, and
/// cannot be cloned.
///
/// # Privacy
/// Everything published satisfies the budget that the releases were planned for, if the cells come from
/// [`Intake`](crate::intake::Intake), or from its parts with every row of a person limited in one place.
///
/// # Complexity
/// A step costs that of one [`Mechanism`] and its statistics for every release; where keys are found, one column of noise for
/// every key that ever occurred.
pub struct Releases {
    planned: Arc<[Planned]>,
    live: Vec<Live>,
    step: usize,
}

/// One release at work.
enum Live {
    Listed(Box<Listed>),
    Found(Box<Found>),
}

struct Listed {
    mechanism: Mechanism,
    statistics: Statistics,
    numbers: Vec<Number>,
    input: Vec<f64>,
    noisy: Vec<f64>,
}

/// A release whose keys are found in the rows.
struct Found {
    mechanism: SparseMechanism,
    secret: HashKey,
    taken: HashSet<u64>,
    keys: BTreeMap<Box<str>, FoundKey>,
    numbers: Vec<Number>,
    history: Vec<f64>,
}

struct FoundKey {
    coordinate: u64,
    statistics: Statistics,
    /// The released total so far.
    total: f64,
    shown: Option<usize>,
}

impl Releases {
    /// Before the first step.
    ///
    /// # Errors
    /// What the mechanisms refuse, or a system without randomness.
    pub fn new(planned: Arc<[Planned]>, randomness: Randomness) -> Result<Self> {
        let mut live = Vec::new();
        for (index, one) in planned.iter().enumerate() {
            let start = || -> dp_mechanisms::Result<Live> {
                let seed = seed(randomness, index)?;
                Ok(if one.encoding.is_named() {
                    Live::Found(Box::new(Found::new(SparseMechanism::new(one.plan.clone(), seed)?)))
                } else {
                    Live::Listed(Box::new(Listed::new(one, Mechanism::new(one.plan.clone(), seed)?)?))
                })
            };
            live.push(start().map_err(|source| Error::Mechanism { release: one.name.clone(), source })?);
        }
        Ok(Self { planned, live, step: 0 })
    }

    /// The releases as they are planned.
    pub fn planned(&self) -> &Arc<[Planned]> {
        &self.planned
    }

    /// The number of steps published.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Takes the cells of the next step and makes its numbers.
    ///
    /// # Errors
    /// A step past the horizon, or cells of other releases. After an error the releases are not to be used again.
    pub fn close(&mut self, cells: &Cells) -> Result<()> {
        for ((planned, live), cells) in self.planned.iter().zip(&mut self.live).zip(cells.releases()) {
            let closed = match (live, cells) {
                (Live::Listed(live), ReleaseCells::Listed(cells)) => live.close(planned, cells),
                (Live::Found(live), ReleaseCells::Named(cells)) => live.close(planned, self.step, cells),
                _ => Err(dp_mechanisms::Error::Empty { what: "the cells of a release of this kind" }),
            };
            closed.map_err(|source| Error::Mechanism { release: planned.name.clone(), source })?;
        }
        self.step += 1;
        Ok(())
    }

    /// Everything published of a release so far.
    pub fn published(&self, release: usize) -> Option<Published> {
        let (planned, live) = (self.planned.get(release)?, self.live.get(release)?);
        Some(match live {
            Live::Listed(live) => Published {
                keys: (0..planned.keys).map(|_| ShownKey { name: String::new(), from: 0 }).collect(),
                numbers: live.numbers.clone(),
            },
            Live::Found(live) => Published {
                keys: live.keys.iter().filter_map(|(name, key)| key.shown_key(name)).collect(),
                numbers: live.numbers.clone(),
            },
        })
    }

    /// All of it as bytes, for a sealed state: a secret.
    pub(crate) fn save(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.step);
        for live in &self.live {
            match live {
                Live::Listed(live) => {
                    put_bytes(bytes, &live.mechanism.snapshot().to_bytes());
                    put_numbers(bytes, &live.numbers);
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
                    put_numbers(bytes, &live.numbers);
                    bytes.extend_from_slice(live.secret.as_bytes());
                    put(bytes, live.keys.len());
                    for (name, key) in &live.keys {
                        put_bytes(bytes, name.as_bytes());
                        put(bytes, key.shown.map_or(0, |step| step + 1));
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
        bytes: &mut &[u8],
        randomness: Randomness,
        damaged: impl Fn() -> Error,
    ) -> Result<Self> {
        let step = get(bytes).ok_or_else(&damaged)?;
        let mut live = Vec::new();
        for (index, one) in planned.iter().enumerate() {
            let refuse = |source| Error::Mechanism { release: one.name.clone(), source };
            let snapshot = Snapshot::from_bytes(get_bytes(bytes).ok_or_else(&damaged)?).map_err(refuse)?;
            let numbers = get_numbers(bytes).ok_or_else(&damaged)?;
            let (plan, seed) = (one.plan.clone(), seed(randomness, index).map_err(refuse)?);
            if snapshot.step() != step {
                return Err(damaged());
            }
            if one.encoding.is_named() {
                let mut found = Found::new(SparseMechanism::resume(plan, &snapshot, seed).map_err(refuse)?);
                found.numbers = numbers;
                found.restore(one, step, bytes).ok_or_else(&damaged)?.map_err(refuse)?;
                live.push(Live::Found(Box::new(found)));
                continue;
            }
            let mechanism = Mechanism::resume(plan, &snapshot, seed).map_err(refuse)?;
            let mut listed = Listed::new(one, mechanism).map_err(refuse)?;
            if numbers.len() != step * one.keys * one.statistics.len() {
                return Err(damaged());
            }
            listed.numbers = numbers;
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
        Ok(Self { planned, live, step })
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
    fn new(planned: &Planned, mechanism: Mechanism) -> dp_mechanisms::Result<Self> {
        let dimension = planned.dimension();
        Ok(Self {
            mechanism,
            statistics: Statistics::new(planned, planned.keys)?,
            numbers: Vec::new(),
            input: vec![0.0; dimension],
            noisy: vec![0.0; dimension],
        })
    }

    fn close(&mut self, planned: &Planned, cells: &[i64]) -> dp_mechanisms::Result<()> {
        // Cells are far below what a double holds exactly.
        self.input.iter_mut().zip(cells).for_each(|(input, cell)| *input = *cell as f64);
        self.mechanism.release(&self.input, &mut self.noisy)?;
        self.statistics.push(planned, &self.noisy, &mut self.numbers)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.input.zeroize();
    }
}

impl FoundKey {
    fn shown_key(&self, name: &str) -> Option<ShownKey> {
        self.shown.map(|from| ShownKey { name: name.to_owned(), from })
    }
}

impl Found {
    fn new(mechanism: SparseMechanism) -> Self {
        let secret = mechanism.hash_key("coordinates of keys");
        Self {
            mechanism,
            secret,
            taken: HashSet::new(),
            keys: BTreeMap::new(),
            numbers: Vec::new(),
            history: Vec::new(),
        }
    }

    /// The column of a key: it follows from the secret and the name, and two keys whose hashes collide are told apart by
    /// hashing again.
    fn add(&mut self, planned: &Planned, name: &str) -> dp_mechanisms::Result<u64> {
        if let Some(key) = self.keys.get(name) {
            return Ok(key.coordinate);
        }
        let mut hash = self.secret.child(name.as_bytes());
        let mut coordinate = hash.number(b"") % MOST_COORDINATES;
        while !self.taken.insert(coordinate) {
            hash = hash.child(b"again");
            coordinate = hash.number(b"") % MOST_COORDINATES;
        }
        let key = FoundKey { coordinate, statistics: Statistics::new(planned, 1)?, total: 0.0, shown: None };
        self.keys.insert(name.into(), key);
        Ok(coordinate)
    }

    fn close(
        &mut self,
        planned: &Planned,
        step: usize,
        cells: &BTreeMap<Box<str>, i64>,
    ) -> dp_mechanisms::Result<()> {
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
        let mut current = Vec::new();
        for key in self.keys.values_mut() {
            self.history.clear();
            self.mechanism.ask_since(key.coordinate, &mut self.history)?;
            for noisy in &self.history {
                current.clear();
                key.total += noisy;
                key.statistics.push(planned, &[*noisy], &mut current)?;
            }
            if key.total >= threshold {
                key.shown.get_or_insert(step);
            }
            if key.shown.is_some() {
                self.numbers.extend_from_slice(&current);
            }
        }
        Ok(())
    }

    /// Reads the keys; what is known of their noise is made again. Nothing if the bytes are something else.
    fn restore(
        &mut self,
        planned: &Planned,
        step: usize,
        bytes: &mut &[u8],
    ) -> Option<dp_mechanisms::Result<()>> {
        self.secret = HashKey::from_bytes(take(bytes)?);
        for _ in 0..get(bytes)? {
            let name: Box<str> = std::str::from_utf8(get_bytes(bytes)?).ok()?.into();
            let shown = get(bytes)?.checked_sub(1);
            let coordinate = get(bytes)? as u64;
            if coordinate >= MOST_COORDINATES || !self.taken.insert(coordinate) {
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

fn put(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&(number as u64).to_le_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, more: &[u8]) {
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

pub(crate) fn put_numbers(bytes: &mut Vec<u8>, numbers: &[Number]) {
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
