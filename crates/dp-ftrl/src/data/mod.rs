//! Labelled examples: the digits that come with the crate, many from a recipe, and tables of one's own.
//!
//! # Nothing here looks at private data twice
//! What is done to an example before training may depend on that example and on public constants, and on nothing else.
//! Centring by the mean of a column, scaling by its largest value, or finding the classes by listing the labels would
//! each release a statistic of everybody's data beside the guarantee: one person's extreme value would move everybody's
//! features. So bounds and classes are given by whoever trains, and are chosen without looking.

mod digits;
mod error;
mod made;
mod table;

use std::collections::HashMap;
use std::ops::Range;

use dp_mechanisms::noise::HashKey;

pub use digits::{DIGITS_FOR_TRAINING, digits};
pub use error::DataError;
pub use made::{MADE, made};
pub use table::{Rows, Table};

/// Examples with features in [0, 1] and one of finitely many labels. Each example belongs to another person, unless
/// [`Examples::belonging_to`] says otherwise.
#[derive(Clone, PartialEq)]
pub struct Examples {
    features: Vec<f64>,
    labels: Vec<usize>,
    width: usize,
    classes: usize,
    /// Where the examples of each person end; empty where each example is a person.
    ends: Vec<usize>,
}

impl Examples {
    /// No examples yet, of `width` features each, with labels `0 .. classes`.
    ///
    /// # Errors
    /// No features, or fewer than two classes.
    pub fn new(width: usize, classes: usize) -> Result<Self, DataError> {
        if width == 0 {
            return Err(DataError::NoFeatures);
        }
        if classes < 2 {
            return Err(DataError::TooFewClasses { classes });
        }
        Ok(Self { features: Vec::new(), labels: Vec::new(), width, classes, ends: Vec::new() })
    }

    /// Adds an example.
    ///
    /// # Errors
    /// Another number of features, features outside [0, 1], an unknown label, or people that are known already; nothing is
    /// added then.
    pub fn push(&mut self, features: &[f64], label: usize) -> Result<(), DataError> {
        let row = self.len() + 1;
        if !self.ends.is_empty() {
            return Err(DataError::Grouped);
        }
        if features.len() != self.width {
            return Err(DataError::Ragged { row, expected: self.width, actual: features.len() });
        }
        if let Some(index) = features.iter().position(|value| !(0.0..=1.0).contains(value)) {
            return Err(DataError::Unscaled { row, index, value: features[index] });
        }
        if label >= self.classes {
            return Err(DataError::Label { row, label: label.to_string() });
        }
        self.features.extend_from_slice(features);
        self.labels.push(label);
        Ok(())
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The number of features of an example.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Features and label of an example; none behind the last.
    pub fn get(&self, index: usize) -> Option<(&[f64], usize)> {
        let label = *self.labels.get(index)?;
        Some((&self.features[index * self.width..(index + 1) * self.width], label))
    }

    /// All examples in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[f64], usize)> {
        self.features.chunks_exact(self.width).zip(self.labels.iter().copied())
    }

    /// The same examples, with the person of each: all of a person's examples become one contribution. They are brought
    /// next to each other, people in the order of their first examples.
    ///
    /// # Errors
    /// Not as many names as examples.
    pub fn belonging_to(self, people: &[String]) -> Result<Self, DataError> {
        if people.len() != self.len() {
            return Err(DataError::Ragged { row: people.len(), expected: self.len(), actual: people.len() });
        }
        let mut known: HashMap<&str, usize> = HashMap::new();
        let numbers: Vec<usize> = people
            .iter()
            .map(|name| {
                let next = known.len();
                *known.entry(name).or_insert(next)
            })
            .collect();
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|row| numbers[*row]);
        let mut grouped =
            Self { features: Vec::with_capacity(self.features.len()), labels: Vec::new(), ..self };
        grouped.ends = vec![0; known.len()];
        for (end, row) in (1..).zip(order) {
            let features = &self.features[row * self.width..(row + 1) * self.width];
            grouped.features.extend_from_slice(features);
            grouped.labels.push(self.labels[row]);
            grouped.ends[numbers[row]] = end;
        }
        Ok(grouped)
    }

    /// The number of people.
    pub fn people(&self) -> usize {
        if self.ends.is_empty() { self.len() } else { self.ends.len() }
    }

    /// The examples of a person; none behind the last.
    pub fn of_person(&self, person: usize) -> Range<usize> {
        if self.ends.is_empty() {
            return person.min(self.len())..(person + 1).min(self.len());
        }
        let end = |person: usize| self.ends.get(person).copied().unwrap_or(self.len());
        person.checked_sub(1).map_or(0, end)..end(person)
    }

    /// A short number that follows from all examples, whose they are, and a secret: other examples have another one, except
    /// with a probability below 10^-9 for up to 10^9 numbers, and without the secret it tells nothing about them.
    ///
    /// A polynomial modulo 2^61 - 1 in a secret point, hashed with the secret once more.
    ///
    /// # Complexity
    /// Two multiplications for each feature.
    pub fn digest(&self, key: &HashKey) -> u64 {
        const PRIME: u128 = (1 << 61) - 1;
        let point = u128::from(key.number(b"point")) % PRIME;
        let mut sum = 1_u128;
        let mut add = |word: u64| {
            for half in [word >> 32, word & 0xffff_ffff] {
                sum = (sum * point + u128::from(half)) % PRIME;
            }
        };
        for size in [self.width, self.classes, self.labels.len(), self.ends.len()] {
            add(size as u64);
        }
        self.features.iter().for_each(|feature| add(feature.to_bits()));
        self.labels.iter().chain(&self.ends).for_each(|number| add(*number as u64));
        key.child(b"sum").number(&(sum as u64).to_le_bytes())
    }

    /// The examples of the first `count` people, and the rest.
    ///
    /// # Errors
    /// More people than there are.
    pub fn split_at(mut self, count: usize) -> Result<(Self, Self), DataError> {
        if count > self.people() {
            return Err(DataError::Split { wanted: count, available: self.people() });
        }
        let row = self.of_person(count).start;
        let mut rest = Self {
            features: self.features.split_off(row * self.width),
            labels: self.labels.split_off(row),
            ends: Vec::new(),
            ..self
        };
        if !self.ends.is_empty() {
            rest.ends = self.ends.split_off(count);
            rest.ends.iter_mut().for_each(|end| *end -= row);
        }
        Ok((self, rest))
    }
}

/// The data never leaves through a debug print.
impl std::fmt::Debug for Examples {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Examples")
            .field("len", &self.len())
            .field("width", &self.width)
            .field("classes", &self.classes)
            .finish_non_exhaustive()
    }
}
