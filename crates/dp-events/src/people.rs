//! What of each person counts: limits that are enforced row by row, by a keyed hash of the identifier.
//!
//! Whether a row counts depends on the rows of that person alone, so a person who is added or removed changes nothing about
//! anybody else. Identifiers are never kept: a person is a 128-bit keyed hash, whose key lives in the sealed state.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::encoding::Encoding;
use crate::intake::Event;
use crate::spec::{Limits, Protects};
use crate::state::SecretBytes;

/// A person, by the keyed hash of the identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pseudonym(u128);

impl Pseudonym {
    /// A number that spreads people evenly, such as over machines.
    pub fn number(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// A secret key under which identifiers and rows are remembered.
pub struct PseudonymKey(Zeroizing<[u8; 32]>);

impl PseudonymKey {
    /// The key with these bytes, which must come from a cryptographic generator and stay secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for whoever may know them.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The pseudonym of an identifier.
    pub fn pseudonym(&self, identifier: &[u8]) -> Pseudonym {
        let hash = blake3::keyed_hash(&self.0, identifier);
        let (first, _) = hash.as_bytes().split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        Pseudonym(u128::from_le_bytes(*first))
    }
}

/// A keyed hash is as good as any other: a table may use its first word as it is.
#[derive(Default)]
struct FirstWord(u64);

impl Hasher for FirstWord {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

/// A step in which a person counts, and with how many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Visit {
    step: u32,
    rows: u32,
}

/// What is remembered of a person.
#[derive(Debug, Default, PartialEq, Eq)]
struct Person {
    /// Steps in which the person has counted and that no longer matter one by one.
    past: u32,
    /// The releases of different people that have counted the person, a bit for each.
    counted: u32,
    /// Steps that are open, or near enough to an open one to matter for the separation.
    visits: Vec<Visit>,
}

/// The most releases of different people: the bits of a word.
pub(crate) const MOST_PEOPLE_RELEASES: usize = 32;

/// Everybody who has counted so far.
pub struct People {
    limits: Limits,
    table: HashMap<Pseudonym, Person, BuildHasherDefault<FirstWord>>,
}

impl People {
    /// Nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, table: HashMap::default() }
    }

    /// Everybody in parts, by their owner, counted from 0.
    pub fn split(self, parts: usize, owner: impl Fn(Pseudonym) -> usize) -> Vec<Self> {
        let mut split: Vec<Self> = (0..parts).map(|_| Self::new(self.limits)).collect();
        if let [all] = split.as_mut_slice() {
            all.table = self.table;
            return split;
        }
        for (pseudonym, person) in self.table {
            if let Some(part) = split.get_mut(owner(pseudonym)) {
                part.table.insert(pseudonym, person);
            }
        }
        split
    }

    /// Adds people who are not among these.
    pub fn join(&mut self, others: Self) {
        if self.table.is_empty() {
            self.table = others.table;
        } else {
            self.table.extend(others.table);
        }
    }

    /// Forgets what no later row can depend on, once all steps before `open` are closed and so much is protected.
    pub fn forget(&mut self, open: u32, protects: Protects) {
        self.close(open, protects == Protects::Person);
    }

    /// The number of people.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nobody has counted.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether one more row of a person counts in a step, which is then remembered.
    ///
    /// # Privacy
    /// Of each person at most `rows_per_step` rows count in a step, in at most `steps` steps, any two at least `separation`
    /// apart, in whatever order the rows come.
    pub fn admit(&mut self, person: Pseudonym, step: u32) -> bool {
        let limits = self.limits;
        let mut entry = match self.table.entry(person) {
            Entry::Vacant(entry) => {
                let visits = vec![Visit { step, rows: 1 }];
                entry.insert(Person { visits, ..Person::default() });
                return true;
            }
            Entry::Occupied(entry) => entry,
        };
        let person = entry.get_mut();
        if let Some(visit) = person.visits.iter_mut().find(|visit| visit.step == step) {
            let fits = visit.rows < limits.rows_per_step;
            visit.rows += u32::from(fits);
            return fits;
        }
        let used = person.past as usize + person.visits.len();
        let apart = person.visits.iter().all(|visit| visit.step.abs_diff(step) >= limits.separation);
        let fits = used < limits.steps as usize && apart;
        if fits {
            person.visits.push(Visit { step, rows: 1 });
        }
        fits
    }

    /// Takes from an event what does not count because of the limits, and says whether anything is left.
    ///
    /// # Privacy
    /// As [`People::admit`]; and a release of different people counts each of them once.
    pub fn limit(&mut self, event: &mut Event, encodings: &[Encoding]) -> bool {
        let Some(person) = event.person else { return !event.contributions.is_empty() };
        if event.contributions.is_empty() || !self.admit(person, event.step) {
            event.contributions.clear();
            return false;
        }
        event.contributions.retain(|contribution| {
            let people = encodings.get(contribution.release as usize).and_then(Encoding::counts_people);
            people.is_none_or(|index| self.first_time(person, index))
        });
        !event.contributions.is_empty()
    }

    /// Whether a release of different people has not counted the person before, which is then remembered.
    pub(crate) fn first_time(&mut self, person: Pseudonym, release: usize) -> bool {
        let bit = 1_u32 << release;
        let person = self.table.entry(person).or_default();
        let first = person.counted & bit == 0;
        person.counted |= bit;
        first
    }

    /// Forgets what no later row can depend on, once all steps before `open` are closed.
    ///
    /// `across_steps` says whether the number of steps is limited; where it is not, people of closed steps are forgotten.
    pub fn close(&mut self, open: u32, across_steps: bool) {
        let separation = self.limits.separation;
        self.table.retain(|_, person| {
            let before = person.visits.len();
            person.visits.retain(|visit| {
                visit.step >= open || u64::from(visit.step) + u64::from(separation) > u64::from(open)
            });
            person.past += (before - person.visits.len()) as u32;
            across_steps || !person.visits.is_empty()
        });
    }

    /// All of it as bytes, in an order that says nothing about the order of rows.
    pub(crate) fn encode(&self, bytes: &mut SecretBytes) {
        let mut people: Vec<(&Pseudonym, &Person)> = self.table.iter().collect();
        people.sort_unstable_by_key(|(pseudonym, _)| pseudonym.0);
        bytes.extend_from_slice(&(people.len() as u64).to_le_bytes());
        for (pseudonym, person) in people {
            bytes.extend_from_slice(&pseudonym.0.to_le_bytes());
            for word in [person.past, person.counted, person.visits.len() as u32] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            for visit in &person.visits {
                bytes.extend_from_slice(&visit.step.to_le_bytes());
                bytes.extend_from_slice(&visit.rows.to_le_bytes());
            }
        }
    }

    /// Reads what [`People::encode`] wrote from the front of some bytes; nothing if they are not that.
    pub(crate) fn decode(limits: Limits, bytes: &mut &[u8]) -> Option<Self> {
        let count = u64::from_le_bytes(take(bytes)?);
        let mut people = Self::new(limits);
        for _ in 0..count {
            let pseudonym = Pseudonym(u128::from_le_bytes(take(bytes)?));
            let mut word = || take(bytes).map(u32::from_le_bytes);
            let (past, counted, length) = (word()?, word()?, word()?);
            let visits = (0..length).map(|_| Some(Visit { step: word()?, rows: word()? }));
            let visits = visits.collect::<Option<Vec<_>>>()?;
            people.table.insert(pseudonym, Person { past, counted, visits });
        }
        Some(people)
    }
}

/// The next bytes of a slice, which then begins behind them.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PseudonymKey {
        PseudonymKey::new([7; 32])
    }

    #[test]
    fn pseudonyms_depend_on_the_key_and_on_every_byte() {
        let (one, other) = (key(), PseudonymKey::new([8; 32]));
        assert_eq!(one.pseudonym(b"Ada"), key().pseudonym(b"Ada"));
        assert_ne!(one.pseudonym(b"Ada"), one.pseudonym(b"Adb"));
        assert_ne!(one.pseudonym(b"Ada"), other.pseudonym(b"Ada"));
    }

    /// Every sequence of five rows in six steps, under every small limit: what is admitted satisfies the limits, and a
    /// row is refused only because of them.
    #[test]
    fn limits_hold_for_every_order_of_rows() {
        for (rows_per_step, steps, separation) in [(1, 1, 1), (1, 2, 1), (2, 2, 2), (1, 3, 2), (2, 1, 3)] {
            let limits = Limits { rows_per_step, steps, separation };
            for code in 0..6_u32.pow(5) {
                let sequence: Vec<u32> = (0..5).map(|i| code / 6_u32.pow(i) % 6).collect();
                let mut people = People::new(limits);
                let person = key().pseudonym(b"somebody");
                let mut counted = [0_u32; 6];
                for step in sequence {
                    let mut after = counted;
                    after[step as usize] += 1;
                    let admitted = people.admit(person, step);
                    assert_eq!(admitted, admissible(&after, limits), "{counted:?} {step} {limits:?}");
                    if admitted {
                        counted = after;
                    }
                }
            }
        }
    }

    fn admissible(counted: &[u32], limits: Limits) -> bool {
        let steps: Vec<usize> = (0..counted.len()).filter(|step| counted[*step] > 0).collect();
        counted.iter().all(|rows| *rows <= limits.rows_per_step)
            && steps.len() <= limits.steps as usize
            && steps.windows(2).all(|pair| pair[1] - pair[0] >= limits.separation as usize)
    }

    /// Closing steps and saving changes no later answer, as long as no row comes for a closed step.
    #[test]
    fn forgetting_and_saving_change_no_answer() {
        let limits = Limits { rows_per_step: 2, steps: 3, separation: 2 };
        for code in 0..5_u32.pow(6) {
            let person = key().pseudonym(b"somebody");
            let (mut kept, mut saved) = (People::new(limits), People::new(limits));
            let mut step = 0;
            for i in 0..6 {
                let digit = code / 5_u32.pow(i) % 5;
                step += digit / 2;
                assert_eq!(kept.admit(person, step + digit % 2), saved.admit(person, step + digit % 2));
                saved.close(step, true);
                let mut bytes = SecretBytes::default();
                saved.encode(&mut bytes);
                saved = People::decode(limits, &mut bytes.finish().as_slice()).unwrap();
            }
        }
    }

    #[test]
    fn people_are_counted_once_and_forgotten_where_steps_stand_alone() {
        let limits = Limits { rows_per_step: 1, steps: 1, separation: 1 };
        let mut people = People::new(limits);
        let person = key().pseudonym(b"somebody");
        assert!(
            people.first_time(person, 0) && !people.first_time(person, 0) && people.first_time(person, 31)
        );
        assert!(people.admit(person, 0));
        people.close(1, true);
        assert!(!people.first_time(person, 0) && !people.admit(person, 1));
        people.close(2, false);
        assert_eq!(people.len(), 0);
        assert!(People::decode(limits, &mut [1_u8, 0, 0].as_slice()).is_none());
    }
}
