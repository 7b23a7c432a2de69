//! Substrings: how often each short string has occurred in a stream of letters.

pub mod dictionary;

use std::fmt;

use dp_mechanisms::sparse::MOST_COORDINATES;
use dp_mechanisms::{Footprint, Participation, Relation};

use crate::counts::{Encoding, unit_terms};
use crate::error::{Error, Result};

/// The length of the longest words that are counted; each letter is compared with that many before it.
const LONGEST: usize = 1024;

/// A public, ordered set of letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alphabet {
    letters: Vec<char>,
}

impl Alphabet {
    /// The given letters.
    ///
    /// # Errors
    /// No letters, or one of them twice.
    pub fn new(letters: impl IntoIterator<Item = char>) -> Result<Self> {
        let letters: Vec<char> = letters.into_iter().collect();
        if letters.is_empty() {
            return Err(Error::OutOfRange { what: "size of the alphabet", value: 0.0, range: "at least 1" });
        }
        for (index, letter) in letters.iter().enumerate() {
            if letters[..index].contains(letter) {
                return Err(Error::Duplicate { what: "letter", text: letter.to_string() });
            }
        }
        Ok(Self { letters })
    }

    /// The number of letters.
    pub fn size(&self) -> usize {
        self.letters.len()
    }

    /// The letters, in order.
    pub fn letters(&self) -> &[char] {
        &self.letters
    }

    /// The position of a letter.
    ///
    /// # Errors
    /// A letter that is not in the alphabet.
    pub fn position(&self, letter: char) -> Result<usize> {
        self.letters
            .iter()
            .position(|known| *known == letter)
            .ok_or_else(|| Error::Unknown { what: "letter", text: letter.to_string() })
    }

    /// The number of words of length 1 to `longest`.
    ///
    /// # Errors
    /// A length outside 1 to 1024, or more words than coordinates.
    pub fn words(&self, longest: usize) -> Result<u64> {
        if !(1..=LONGEST).contains(&longest) {
            return Err(Error::OutOfRange {
                what: "largest length",
                value: longest as f64,
                range: "an integer from 1 to 1024",
            });
        }
        let (mut total, mut words) = (0_u64, 1_u64);
        for _ in 0..longest {
            words = words.saturating_mul(self.letters.len() as u64);
            total = total.saturating_add(words);
            if total > MOST_COORDINATES {
                return Err(Error::OutOfRange {
                    what: "number of words",
                    value: total as f64,
                    range: "at most 2^53",
                });
            }
        }
        Ok(total)
    }
}

/// The encoding that counts all strings of length 1 to ℓ: after each letter, the strings that end there have a 1.
/// An event is a letter, or `None` for a step without one, across which no string is counted.
///
/// # Privacy
/// Neighbours differ in one letter at one step p; see [`Encoding::footprint`] below. Zero-out makes the letter absent.
///
/// **Claim.** With `c_m²` the squared sensitivity for m consecutive steps and `Δ_1²` that for one step,
/// `Δ² = Σ_{m≤ℓ} c_m²` under zero-out and `Δ² = Σ_{m≤ℓ} (c_m² + m Δ_1²)` under replace, for strategies whose columns have
/// non-negative inner products.
///
/// **Proof.** Only the m windows of length m that contain p change, and they end at the consecutive steps p … p+m-1. Write
/// `C_i` for the column of the i-th of these ends, and `W_i`, `W'_i` for the window before and after the change. Coordinate s
/// changes by `d_s = Σ_{W_i = s} e_i - Σ_{W'_i = s} e_i`. Dropping the inner products between the two parts, which enter
/// with a minus sign,
/// `Σ_s ‖C d_s‖² ≤ Σ_{(i,j): W_i = W_j} ⟨C_i, C_j⟩ + Σ_{(i,j): W'_i = W'_j} ⟨C_i, C_j⟩`.
/// Zero-out has the first sum only, and it is at most `‖Σ_i C_i‖² ≤ c_m²`. Under replace, no pair i ≠ j is in both sums:
/// p is at different places of the two windows, so if `W_i = W_j`, then at the place where p lies in `W'_i` that window has
/// the new letter and `W'_j` still has the old one. So the pairs with i ≠ j contribute at most `Σ_{i≠j} ⟨C_i, C_j⟩`, the m
/// pairs with i = j at most twice `Σ_i ‖C_i‖²`, and together that is at most `c_m² + m Δ_1²`. Letters all equal, one of them
/// replaced, attain it. ∎
///
/// One coordinate can change several times in the same direction, which is why ℓ² (a count of changed entries) is not a
/// bound: for ℓ = 2 it is 4 where 7 is possible.
///
/// # Complexity
/// O(ℓ) per letter, whatever the number of strings.
#[derive(Clone)]
pub struct Substrings {
    alphabet: Alphabet,
    longest: usize,
    relation: Relation,
    dimension: u64,
    /// The last letters, newest last, as digits; never more than `longest` of them.
    recent: Vec<usize>,
}

/// The last letters are data.
impl fmt::Debug for Substrings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Substrings")
            .field("alphabet", &self.alphabet)
            .field("longest", &self.longest)
            .field("relation", &self.relation)
            .finish_non_exhaustive()
    }
}

impl Substrings {
    /// All strings of length 1 to `longest` over an alphabet.
    ///
    /// # Errors
    /// An empty or repeating alphabet, a length of zero, or more strings than coordinates.
    pub fn new(letters: impl IntoIterator<Item = char>, longest: usize, relation: Relation) -> Result<Self> {
        let alphabet = Alphabet::new(letters)?;
        let dimension = alphabet.words(longest)?;
        Ok(Self { alphabet, longest, relation, dimension, recent: Vec::with_capacity(longest + 1) })
    }
}

impl Encoding for Substrings {
    type Event = Option<char>;

    fn dimension(&self) -> u64 {
        self.dimension
    }

    fn footprint(&self) -> Result<Footprint> {
        let mut terms = Vec::new();
        for length in 1..=self.longest {
            terms.push((Participation::repeated(length, 1)?, 1.0));
            if self.relation == Relation::Replace {
                terms.push((Participation::Single, length as f64));
            }
        }
        unit_terms(terms, self.relation)
    }

    fn encode(&mut self, event: &Option<char>, changes: &mut Vec<(u64, f64)>) -> Result<()> {
        let Some(letter) = event else {
            self.recent.clear();
            return Ok(());
        };
        self.recent.push(self.alphabet.position(*letter)?);
        if self.recent.len() > self.longest {
            self.recent.remove(0);
        }
        // Strings of length m come after all shorter ones, in the order of their digits.
        let size = self.alphabet.size() as u64;
        let (mut first, mut code, mut power) = (0, 0, 1);
        for digit in self.recent.iter().rev() {
            code += *digit as u64 * power;
            power *= size;
            changes.push((first + code, 1.0));
            first += power;
        }
        Ok(())
    }

    fn identity(&self) -> String {
        format!("substrings up to {} over {:?}", self.longest, self.alphabet.letters)
    }

    fn label(&self, coordinate: u64) -> Option<String> {
        let size = self.alphabet.size() as u64;
        let (mut code, mut words, mut length) = (coordinate, size, 1);
        while code >= words {
            code -= words;
            words = words.checked_mul(size)?;
            length += 1;
        }
        if length > self.longest {
            return None;
        }
        let mut text = Vec::with_capacity(length);
        for _ in 0..length {
            text.push(self.alphabet.letters()[(code % size) as usize]);
            code /= size;
        }
        Some(text.into_iter().rev().collect())
    }

    fn coordinate(&self, label: &str) -> Option<u64> {
        let size = self.alphabet.size() as u64;
        let (mut first, mut code, mut power, mut length) = (0, 0, 1, 0);
        for letter in label.chars().rev() {
            if length > 0 {
                first += power;
            }
            code += self.alphabet.position(letter).ok()? as u64 * power;
            power = power.checked_mul(size)?;
            length += 1;
            if length > self.longest {
                return None;
            }
        }
        (length > 0).then_some(first + code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_has_a_coordinate_and_back() {
        for letters in ["a", "ab", "xyz"] {
            let encoding = Substrings::new(letters.chars(), 4, Relation::Replace).unwrap();
            let mut labels = std::collections::HashSet::new();
            for coordinate in 0..encoding.dimension() {
                let label = encoding.label(coordinate).unwrap();
                assert_eq!(encoding.coordinate(&label), Some(coordinate), "{label}");
                assert!(labels.insert(label));
            }
            assert_eq!(encoding.label(encoding.dimension()), None);
        }
        let encoding = Substrings::new("ab".chars(), 2, Relation::Replace).unwrap();
        for outside in ["", "c", "aaa", "ac"] {
            assert_eq!(encoding.coordinate(outside), None, "{outside}");
        }
    }

    #[test]
    fn counts_equal_those_of_the_text() {
        let text = "abracadabraabab";
        let mut encoding = Substrings::new("abcdr".chars(), 3, Relation::Replace).unwrap();
        let mut counts = vec![0.0; encoding.dimension() as usize];
        let mut changes = Vec::new();
        for letter in text.chars() {
            encoding.encode(&Some(letter), &mut changes).unwrap();
        }
        for (coordinate, value) in changes {
            counts[coordinate as usize] += value;
        }
        for (coordinate, count) in counts.iter().enumerate() {
            let word = encoding.label(coordinate as u64).unwrap();
            let expected = (0..text.len()).filter(|start| text[*start..].starts_with(&word)).count();
            assert_eq!(*count, expected as f64, "{word}");
        }
    }

    #[test]
    fn absent_letters_separate_and_foreign_letters_leave_no_trace() {
        let mut encoding = Substrings::new("ab".chars(), 2, Relation::Replace).unwrap();
        let mut changes = Vec::new();
        encoding.encode(&Some('a'), &mut changes).unwrap();
        assert!(encoding.encode(&Some('z'), &mut changes).is_err());
        changes.clear();
        encoding.encode(&Some('b'), &mut changes).unwrap();
        assert_eq!(changes, [(1, 1.0), (2 + 1, 1.0)]);
        encoding.encode(&None, &mut changes).unwrap();
        changes.clear();
        encoding.encode(&Some('b'), &mut changes).unwrap();
        assert_eq!(changes, [(1, 1.0)]);
        assert!(Substrings::new("".chars(), 2, Relation::Replace).is_err());
        assert!(Substrings::new("aa".chars(), 2, Relation::Replace).is_err());
        assert!(Substrings::new("ab".chars(), 0, Relation::Replace).is_err());
        assert!(Substrings::new("ab".chars(), 60, Relation::Replace).is_err());
    }
}
