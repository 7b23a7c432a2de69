//! Histograms: how often each item of a universe is present, after every step.

pub mod discovery;
mod threshold;

use std::collections::HashMap;

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Relation};

use crate::counts::{Encoding, digest, root_up};
use crate::error::{Error, Result};

/// One change of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change<T> {
    /// The item's count grows by one.
    Insert(T),
    /// The item's count falls by one.
    Remove(T),
}

impl<T> Change<T> {
    /// The item and by how much its count changes.
    pub fn parts(&self) -> (&T, f64) {
        match self {
            Self::Insert(item) => (item, 1.0),
            Self::Remove(item) => (item, -1.0),
        }
    }
}

/// What one person may contribute, and what is protected about it. The noise depends on every field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The most items that one person changes in one step.
    pub items: usize,
    /// Whether these items are all different.
    pub distinct: bool,
    /// Whether items may be removed.
    pub removals: bool,
    /// What two neighbouring streams differ in.
    pub relation: Relation,
    /// In how many steps one person may contribute.
    pub participation: Participation,
}

impl Rules {
    /// One inserted item per person, in one step.
    pub fn one_item(relation: Relation) -> Self {
        Self { items: 1, distinct: true, removals: false, relation, participation: Participation::Single }
    }

    /// The footprint over a universe of the given size; `None` is an unlimited one.
    ///
    /// # Privacy
    /// Let `v` be one person's contribution to one step and s the number of items. Zero-out changes the input by `v`:
    /// `‖v‖² ≤ s` if the items are distinct (at most one ±1 in each coordinate) and `‖v‖² ≤ ‖v‖_1² ≤ s²` otherwise.
    /// Replace changes it by `v - v'`. Without removals `⟨v, v'⟩ ≥ 0`, so `‖v - v'‖² ≤ ‖v‖² + ‖v'‖²`, which is 2s or 2s²;
    /// with removals `v' = -v` is allowed and `‖v - v'‖ ≤ ‖v‖ + ‖v'‖` is attained. Distinct items over a universe of u
    /// have no more than u entries: u replaces s, and 2s when it is smaller. A universe of one item leaves s² of
    /// the 2s².
    ///
    /// # Errors
    /// Zero items.
    pub fn footprint(&self, universe: Option<u64>) -> Result<Footprint> {
        if self.items == 0 {
            return Err(Error::OutOfRange { what: "items per person", value: 0.0, range: "at least 1" });
        }
        let items = self.items as f64;
        let entries = universe.map_or(f64::INFINITY, |universe| universe as f64);
        let one = if self.distinct { items.min(entries) } else { items * items };
        let squared = match (self.relation, self.removals, self.distinct) {
            (Relation::ZeroOut, ..) => one,
            (Relation::Replace, true, _) => 4.0 * one,
            (Relation::Replace, false, true) => (2.0 * items).min(entries),
            (Relation::Replace, false, false) => one * entries.min(2.0),
        };
        let term = Term { weight: root_up(squared), participation: self.participation };
        Ok(Footprint::encoded(vec![term], self.relation)?)
    }

    /// Refuses a contribution that the noise does not cover.
    fn check<T: PartialEq + ToString>(&self, contribution: &[Change<T>]) -> Result<()> {
        if contribution.len() > self.items {
            return Err(Error::TooManyItems { actual: contribution.len(), limit: self.items });
        }
        for (index, change) in contribution.iter().enumerate() {
            let item = change.parts().0;
            if !self.removals && matches!(change, Change::Remove(_)) {
                return Err(Error::Removal { item: item.to_string() });
            }
            if self.distinct && contribution[..index].iter().any(|earlier| earlier.parts().0 == item) {
                return Err(Error::Duplicate { what: "item", text: item.to_string() });
            }
        }
        Ok(())
    }
}

/// A public, fixed set of items.
#[derive(Debug, Clone, PartialEq)]
pub struct Universe {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Named { names: Vec<String>, index: HashMap<String, u64> },
    Integers { first: i64, count: u64 },
}

impl Universe {
    /// Items with names, in the given order.
    ///
    /// # Errors
    /// No items, or one of them twice.
    pub fn named(names: impl IntoIterator<Item = String>) -> Result<Self> {
        let names: Vec<String> = names.into_iter().collect();
        let mut index = HashMap::with_capacity(names.len());
        for (position, name) in names.iter().enumerate() {
            if index.insert(name.clone(), position as u64).is_some() {
                return Err(Error::Duplicate { what: "item", text: name.clone() });
            }
        }
        if names.is_empty() {
            return Err(Error::OutOfRange { what: "size of the universe", value: 0.0, range: "at least 1" });
        }
        Ok(Self { kind: Kind::Named { names, index } })
    }

    /// The integers `first .. first + count`, which take no memory.
    ///
    /// # Errors
    /// A count of zero, or one beyond the integers.
    pub fn integers(first: i64, count: u64) -> Result<Self> {
        if count == 0 || first.checked_add_unsigned(count - 1).is_none() {
            return Err(Error::OutOfRange {
                what: "size of the universe",
                value: count as f64,
                range: "at least 1, within the 64-bit integers",
            });
        }
        Ok(Self { kind: Kind::Integers { first, count } })
    }

    /// The number of items.
    pub fn size(&self) -> u64 {
        match &self.kind {
            Kind::Named { names, .. } => names.len() as u64,
            Kind::Integers { count, .. } => *count,
        }
    }

    /// The name at a position.
    pub fn name(&self, position: u64) -> Option<String> {
        match &self.kind {
            Kind::Named { names, .. } => names.get(position as usize).cloned(),
            Kind::Integers { first, count } => (position < *count)
                .then(|| first.checked_add_unsigned(position))
                .flatten()
                .map(|n| n.to_string()),
        }
    }

    /// The position of a name.
    pub fn position(&self, name: &str) -> Option<u64> {
        match &self.kind {
            Kind::Named { index, .. } => index.get(name).copied(),
            Kind::Integers { .. } => self.position_of(name.parse().ok()?),
        }
    }

    /// The position of an integer.
    pub fn position_of(&self, number: i64) -> Option<u64> {
        match &self.kind {
            Kind::Named { .. } => self.position(&number.to_string()),
            Kind::Integers { first, count } => {
                (number >= *first).then(|| number.abs_diff(*first)).filter(|position| position < count)
            }
        }
    }
}

/// The encoding of a histogram over a known universe. An event is everything that happens in one step: one
/// contribution for each person, its items as positions in the [`Universe`].
///
/// # Privacy
/// See [`Rules::footprint`]. A contribution outside the rules is refused.
///
/// # Complexity
/// O(1) per change: a step does not depend on the size of the universe. Ask for what is needed; asking for everything
/// costs the universe.
///
/// # Example
/// ```
/// use dp_apps::{Counts, Encoding};
/// use dp_apps::histogram::{Change, Histogram, Rules, Universe};
/// use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};
/// let encoding = Histogram::new(Universe::integers(0, 1_000_000)?, Rules::one_item(Relation::ZeroOut))?;
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 365)?)?;
/// let plan = encoding.plan(&strategy, Budget::approximate(1.0, 1e-6)?)?;
/// let mut counts = Counts::new(encoding, plan, Seed::from_system()?)?;
/// counts.push(&[vec![Change::Insert(31_337)], vec![Change::Insert(42)]])?;
/// println!("{:?}", counts.count("31337")?);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Histogram {
    universe: Universe,
    rules: Rules,
}

impl Histogram {
    /// An empty histogram.
    ///
    /// # Errors
    /// Rules without items.
    pub fn new(universe: Universe, rules: Rules) -> Result<Self> {
        rules.footprint(Some(universe.size()))?;
        Ok(Self { universe, rules })
    }

    /// The universe.
    pub fn universe(&self) -> &Universe {
        &self.universe
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl Encoding for Histogram {
    type Event = [Vec<Change<u64>>];

    fn dimension(&self) -> u64 {
        self.universe.size()
    }

    fn footprint(&self) -> Result<Footprint> {
        self.rules.footprint(Some(self.universe.size()))
    }

    fn encode(&mut self, event: &Self::Event, changes: &mut Vec<(u64, f64)>) -> Result<()> {
        for contribution in event {
            self.rules.check(contribution)?;
            for change in contribution {
                let (item, amount) = change.parts();
                if *item >= self.universe.size() {
                    return Err(Error::Unknown { what: "item", text: item.to_string() });
                }
                changes.push((*item, amount));
            }
        }
        Ok(())
    }

    fn identity(&self) -> String {
        let universe = match &self.universe.kind {
            Kind::Named { names, .. } => digest(names.iter().map(String::as_str)),
            Kind::Integers { first, count } => format!("{count} integers from {first}"),
        };
        format!("histogram of {universe}, {:?}", self.rules)
    }

    fn label(&self, coordinate: u64) -> Option<String> {
        self.universe.name(coordinate)
    }

    fn coordinate(&self, label: &str) -> Option<u64> {
        self.universe.position(label)
    }
}

#[cfg(test)]
mod tests {
    use super::Change::{Insert, Remove};
    use super::*;

    #[test]
    fn footprints_of_the_common_rules() {
        let weight = |rules: Rules, universe| rules.footprint(universe).unwrap().terms()[0].weight;
        let close =
            |actual: f64, expected: f64| actual >= expected && actual < expected * (1.0 + 1e-15) + 1e-15;
        for (relation, removals, items, distinct, universe, expected) in [
            (Relation::ZeroOut, false, 1, true, None, 1.0),
            (Relation::ZeroOut, true, 1, true, None, 1.0),
            (Relation::Replace, false, 1, true, None, 2f64.sqrt()),
            (Relation::Replace, true, 1, true, None, 2.0),
            (Relation::ZeroOut, false, 5, true, None, 5f64.sqrt()),
            (Relation::ZeroOut, false, 5, false, None, 5.0),
            (Relation::Replace, false, 5, true, None, 10f64.sqrt()),
            (Relation::Replace, false, 5, true, Some(7), 7f64.sqrt()),
            (Relation::Replace, false, 5, false, None, 50f64.sqrt()),
            (Relation::Replace, false, 5, false, Some(1), 5.0),
            (Relation::Replace, true, 5, true, Some(3), 12f64.sqrt()),
        ] {
            let rules = Rules { items, distinct, removals, relation, participation: Participation::Single };
            let actual = weight(rules, universe);
            assert!(close(actual, expected), "{rules:?} {universe:?}: {actual} against {expected}");
        }
        assert!(Rules { items: 0, ..Rules::one_item(Relation::Replace) }.footprint(None).is_err());
    }

    #[test]
    fn universes_name_their_items_and_refuse_nonsense() {
        let named = Universe::named(["ash", "oak"].map(String::from)).unwrap();
        assert_eq!((named.size(), named.position("oak"), named.name(1)), (2, Some(1), Some("oak".into())));
        assert_eq!((named.position("elm"), named.name(2)), (None, None));
        let integers = Universe::integers(-2, 5).unwrap();
        for position in 0..5 {
            assert_eq!(integers.position(&integers.name(position).unwrap()), Some(position));
        }
        for outside in ["-3", "3", "x", "99999999999999999999"] {
            assert_eq!(integers.position(outside), None, "{outside}");
        }
        assert!(Universe::named([]).is_err());
        assert!(Universe::named(["a", "a"].map(String::from)).is_err());
        assert!(Universe::integers(0, 0).is_err() && Universe::integers(i64::MAX, 2).is_err());
    }

    #[test]
    fn contributions_outside_the_rules_are_refused() {
        let universe = Universe::integers(0, 4).unwrap();
        let rules = Rules { items: 2, ..Rules::one_item(Relation::ZeroOut) };
        let mut histogram = Histogram::new(universe, rules).unwrap();
        let mut changes = Vec::new();
        for bad in [
            vec![Insert(0), Insert(1), Insert(2)],
            vec![Insert(3), Insert(3)],
            vec![Remove(1)],
            vec![Insert(4)],
        ] {
            assert!(histogram.encode(std::slice::from_ref(&bad), &mut changes).is_err(), "{bad:?}");
        }
        changes.clear();
        histogram.encode(&[vec![Insert(0), Insert(3)], vec![Insert(0)], vec![]], &mut changes).unwrap();
        assert_eq!(changes, [(0, 1.0), (3, 1.0), (0, 1.0)]);
    }
}
