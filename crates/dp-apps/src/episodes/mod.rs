//! Episodes: how many minimal occurrences each short subsequence has had in a stream of letters.
//!
//! An occurrence of an episode `e = e_1 … e_m` is an interval of steps whose letters contain e as a subsequence; it is
//! minimal if no shorter interval inside it contains e. Minimal occurrences are counted at their ends.
//!
//! # How far one letter moves the counts
//! Of one sign, an episode of m letters changes at most ⌈m/2⌉ times when a letter of the stream is replaced, and for most episodes less
//! often. The proof stands in the submodule `ends`; up to six letters the number is found by trying every stream, in a finite number of classes. With k
//! changes of one sign in a coordinate its squared size is at most that of k distinct steps, and the inner products between the signs,
//! which enter with a minus, are dropped (columns with non-negative inner products).

mod ends;

use std::collections::HashMap;
use std::fmt;

use dp_mechanisms::{Footprint, Participation, Relation};

use crate::counts::{Encoding, digest, unit_terms};
use crate::error::{Error, Result};
use crate::substrings::Alphabet;

use ends::{Admissible, Letter, TABLE_LIMIT, Table, most_admissible};

/// The encoding that counts minimal occurrences at their ends. An event is a letter, or `None` for a step without one.
///
/// # Privacy
/// Neighbours differ in one letter at one step, absent under zero-out; the bound is proved in [the module](self). For all
/// episodes up to a length it is summed over all words; for a list, over the list with the worst pair of letters. Print
/// counts that were chosen by *released* values or by public knowledge: choosing by true counts leaks.
///
/// # Complexity
/// Per letter, one comparison for each prefix of an episode that ends in the letter. No occurrences are stored: the
/// state is the latest start of every prefix.
///
/// # Example
/// ```
/// use dp_apps::episodes::Episodes;
/// use dp_apps::{Counts, Encoding};
/// use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};
/// let episodes = Episodes::all("LMR".chars(), 2, Relation::Replace)?;
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 100)?)?;
/// let plan = episodes.plan(&strategy, Budget::approximate(1.0, 1e-6)?)?;
/// let mut counts = Counts::new(episodes, plan, Seed::from_system()?)?;
/// counts.push(&Some('L'))?;
/// println!("{:?}", counts.count("LR")?);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Clone)]
pub struct Episodes {
    family: Family,
    relation: Relation,
    labels: Vec<String>,
    positions: HashMap<String, u64>,
    nodes: Vec<Node>,
    /// The nodes that end in a letter, longest prefixes first, so that each sees the state before the letter.
    by_letter: HashMap<char, Vec<usize>>,
    step: u64,
}

#[derive(Debug, Clone)]
enum Family {
    All { alphabet: Alphabet, longest: usize },
    Listed,
}

/// Which prefixes have occurred, and when, is data.
impl fmt::Debug for Episodes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Episodes")
            .field("family", &self.family)
            .field("relation", &self.relation)
            .field("episodes", &self.labels.len())
            .finish_non_exhaustive()
    }
}

/// A prefix of an episode.
#[derive(Clone)]
struct Node {
    /// The prefix without its last letter; `None` for a single letter.
    parent: Option<usize>,
    depth: usize,
    /// The latest start of an occurrence so far, counted from 1; 0 if there is none.
    start: u64,
    /// The coordinate, if the prefix is itself an episode.
    coordinate: Option<u64>,
}

/// The most prefixes that are kept.
const MOST_PREFIXES: u64 = 1 << 22;

/// The most comparisons that the bound for a list may take.
const MOST_COMPARISONS: f64 = (1_u64 << 34) as f64;

impl Episodes {
    /// All episodes of length 1 to `longest`.
    ///
    /// # Errors
    /// An empty or repeating alphabet, a length of zero, or more than 2^22 episodes.
    pub fn all(letters: impl IntoIterator<Item = char>, longest: usize, relation: Relation) -> Result<Self> {
        let alphabet = Alphabet::new(letters)?;
        let number = alphabet.words(longest)?;
        if number > MOST_PREFIXES {
            return Err(Error::OutOfRange {
                what: "number of episodes",
                value: number as f64,
                range: "at most 2^22",
            });
        }
        let mut labels: Vec<String> = vec![String::new()];
        let mut shorter = 0;
        for _ in 0..longest {
            let end = labels.len();
            for word in shorter..end {
                for letter in alphabet.letters() {
                    labels.push(format!("{}{letter}", labels[word]));
                }
            }
            shorter = end;
        }
        labels.remove(0);
        Self::build(labels, Family::All { alphabet, longest }, relation)
    }

    /// The episodes of a public list.
    ///
    /// # Errors
    /// No episodes, an empty one, one twice, more than 2^22 beginnings of episodes, or so many different letters that the
    /// bound would take more than 2^34 comparisons.
    pub fn listed(episodes: impl IntoIterator<Item = String>, relation: Relation) -> Result<Self> {
        Self::build(episodes.into_iter().collect(), Family::Listed, relation)
    }

    fn build(labels: Vec<String>, family: Family, relation: Relation) -> Result<Self> {
        if labels.is_empty() || labels.iter().any(String::is_empty) {
            return Err(Error::OutOfRange { what: "length of an episode", value: 0.0, range: "at least 1" });
        }
        let mut positions = HashMap::new();
        let mut nodes: Vec<Node> = Vec::new();
        let mut edges: HashMap<(Option<usize>, char), usize> = HashMap::new();
        let mut by_letter: HashMap<char, Vec<usize>> = HashMap::new();
        for (position, label) in labels.iter().enumerate() {
            if positions.insert(label.clone(), position as u64).is_some() {
                return Err(Error::Duplicate { what: "episode", text: label.clone() });
            }
            let mut parent = None;
            for (depth, letter) in label.chars().enumerate() {
                parent = Some(*edges.entry((parent, letter)).or_insert_with(|| {
                    by_letter.entry(letter).or_default().push(nodes.len());
                    nodes.push(Node { parent, depth, start: 0, coordinate: None });
                    nodes.len() - 1
                }));
            }
            if let Some(node) = parent {
                nodes[node].coordinate = Some(position as u64);
            }
            if nodes.len() as u64 > MOST_PREFIXES {
                return Err(Error::OutOfRange {
                    what: "number of beginnings of episodes",
                    value: nodes.len() as f64,
                    range: "at most 2^22",
                });
            }
        }
        // Every pair of letters is tried on every episode of a list.
        let letters = by_letter.len() as f64 + 1.0;
        let length: usize = labels.iter().map(|label| label.chars().count()).sum();
        let comparisons = letters * letters * length as f64;
        if matches!(family, Family::Listed) && comparisons > MOST_COMPARISONS {
            return Err(Error::OutOfRange {
                what: "number of comparisons (different letters squared, times the length of the list)",
                value: comparisons,
                range: "at most 2^34",
            });
        }
        for list in by_letter.values_mut() {
            list.sort_by_key(|node| std::cmp::Reverse(nodes[*node].depth));
        }
        Ok(Self { family, relation, labels, positions, nodes, by_letter, step: 0 })
    }

    /// How many coordinates change at most k times in one direction, as a list of (k, number): the sum over all words.
    fn changes_of_all(&self, alphabet: &Alphabet, longest: usize) -> HashMap<usize, f64> {
        let size = alphabet.size();
        let mut numbers = HashMap::new();
        // Words that differ in the names of other letters only are one: `number` of them, with letters up to `letters`.
        let mut words = vec![(Vec::new(), 2, 1.0)];
        for _ in 0..longest.min(TABLE_LIMIT) {
            let mut longer: Vec<(Vec<u32>, usize, f64)> = Vec::new();
            for (word, letters, number) in &words {
                for letter in 0..(letters + 1).min(size) {
                    let (letters, choices) = if letter == *letters {
                        (letters + 1, (size - letters) as f64)
                    } else {
                        (*letters, 1.0)
                    };
                    longer.push(([word.as_slice(), &[letter as u32]].concat(), letters, number * choices));
                }
            }
            words = longer;
            for (word, _, number) in &words {
                let table = Table::new(word);
                for (with, without) in self.signs(BEFORE, AFTER) {
                    *numbers.entry(table.most(with, without)).or_default() += number;
                }
            }
        }
        let others = size.saturating_sub(2) as f64;
        let second = if size > 1 { 1.0 } else { 0.0 };
        for (with, without) in self.signs(BEFORE, AFTER) {
            // Words that lead to the same search state need not be told apart.
            let mut states = HashMap::from([(Admissible::EMPTY, 1.0)]);
            for place in 0..longest {
                let mut next: HashMap<Admissible, f64> = HashMap::new();
                for (search, number) in &states {
                    for (letter, weight) in [(BEFORE, 1.0), (AFTER, second), (None, others)] {
                        let is = |role: Letter| role.is_some() && role == letter;
                        if weight > 0.0 {
                            *next.entry(search.extended(is(with), is(without), place)).or_default() +=
                                number * weight;
                        }
                    }
                }
                states = next;
                for (search, number) in states.iter().filter(|_| place >= TABLE_LIMIT) {
                    *numbers.entry(search.most()).or_default() += number;
                }
            }
        }
        numbers
    }

    /// The same for a list: the worst pair of letters, place by place of the sorted numbers of changes, which bounds the
    /// sum for every pair and every strategy.
    fn changes_of_list(&self) -> HashMap<usize, f64> {
        let mut tables: HashMap<Vec<u32>, Table> = HashMap::new();
        let mut episodes: Vec<(Vec<char>, Vec<u32>)> = Vec::new();
        for label in &self.labels {
            let mut letters: Vec<char> = Vec::new();
            let mut word = Vec::new();
            for letter in label.chars() {
                let place = letters.iter().position(|known| *known == letter).unwrap_or_else(|| {
                    letters.push(letter);
                    letters.len() - 1
                });
                word.push(place as u32);
            }
            if word.len() <= TABLE_LIMIT {
                tables.entry(word.clone()).or_insert_with(|| Table::new(&word));
            }
            episodes.push((letters, word));
        }
        // `None` is any letter that occurs in no episode.
        let letters: Vec<Option<char>> = self.by_letter.keys().copied().map(Some).chain([None]).collect();
        let mut worst: Vec<usize> = Vec::new();
        for before in &letters {
            for after in letters.iter().filter(|after| *after != before) {
                let mut changes: Vec<usize> = Vec::new();
                for (letters, word) in &episodes {
                    let role = |letter: Option<char>| {
                        letters.iter().position(|known| Some(*known) == letter).map(|place| place as u32)
                    };
                    for (with, without) in self.signs(role(*before), role(*after)) {
                        changes.push(tables.get(word).map_or_else(
                            || most_admissible(word, with, without),
                            |table| table.most(with, without),
                        ));
                    }
                }
                changes.sort_unstable_by(|left, right| right.cmp(left));
                worst.resize(changes.len(), 0);
                for (largest, number) in worst.iter_mut().zip(changes) {
                    *largest = number.max(*largest);
                }
            }
        }
        let mut numbers = HashMap::new();
        for changes in worst {
            *numbers.entry(changes).or_default() += 1.0;
        }
        numbers
    }

    /// The two signs of a change: ends that the stream has with a letter and lacks with another, and the other way round.
    fn signs(&self, before: Letter, after: Letter) -> [(Letter, Letter); 2] {
        let after = if self.relation == Relation::Replace { after } else { None };
        [(before, after), (after, before)]
    }
}

/// In the sum over all words, the letter that was there and the letter that replaces it.
const BEFORE: Letter = Some(0);
const AFTER: Letter = Some(1);

impl Encoding for Episodes {
    type Event = Option<char>;

    fn dimension(&self) -> u64 {
        self.labels.len() as u64
    }

    fn footprint(&self) -> Result<Footprint> {
        let numbers = match &self.family {
            Family::All { alphabet, longest } => self.changes_of_all(alphabet, *longest),
            Family::Listed => self.changes_of_list(),
        };
        let mut numbers: Vec<(usize, f64)> =
            numbers.into_iter().filter(|(changes, _)| *changes > 0).collect();
        numbers.sort_unstable_by_key(|(changes, _)| *changes);
        let mut terms = Vec::new();
        for (changes, number) in numbers {
            terms.push((Participation::repeated(changes, 1)?, number));
        }
        unit_terms(terms, self.relation)
    }

    fn encode(&mut self, event: &Option<char>, changes: &mut Vec<(u64, f64)>) -> Result<()> {
        let Some(letter) = event else {
            self.step += 1;
            return Ok(());
        };
        let ends = match (&self.family, self.by_letter.get(letter)) {
            (_, Some(ends)) => ends,
            (Family::All { .. }, None) => {
                return Err(Error::Unknown { what: "letter", text: letter.to_string() });
            }
            // A list does not limit the letters of the stream.
            (Family::Listed, None) => &Vec::new(),
        };
        self.step += 1;
        for node in ends {
            let start = self.nodes[*node].parent.map_or(self.step, |parent| self.nodes[parent].start);
            // Minimal if it starts after the latest occurrence that ended before.
            if start > self.nodes[*node].start {
                self.nodes[*node].start = start;
                changes.extend(self.nodes[*node].coordinate.map(|coordinate| (coordinate, 1.0)));
            }
        }
        Ok(())
    }

    fn identity(&self) -> String {
        let family = match &self.family {
            Family::All { .. } => "all",
            Family::Listed => "listed",
        };
        format!("{family} episodes, {}", digest(self.labels.iter().map(String::as_str)))
    }

    fn label(&self, coordinate: u64) -> Option<String> {
        self.labels.get(coordinate as usize).cloned()
    }

    fn coordinate(&self, label: &str) -> Option<u64> {
        self.positions.get(label).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the letters of the steps `start..=end` contain the episode in order.
    fn occurs(stream: &[Option<char>], episode: &str, start: usize, end: usize) -> bool {
        let mut rest = stream[start..=end].iter().flatten();
        episode.chars().all(|letter| rest.any(|found| *found == letter))
    }

    /// By the definition: an interval that contains the episode, while neither of the two one step shorter does.
    fn minimal_ends(stream: &[Option<char>], episode: &str) -> Vec<usize> {
        let minimal = |start: usize, end: usize| {
            occurs(stream, episode, start, end)
                && (start == end
                    || !(occurs(stream, episode, start + 1, end) || occurs(stream, episode, start, end - 1)))
        };
        (0..stream.len()).filter(|end| (0..=*end).any(|start| minimal(start, *end))).collect()
    }

    #[test]
    fn ends_are_those_of_the_definition_for_every_short_stream() {
        let letters = [Some('a'), Some('b'), Some('c'), None];
        for code in 0..4_usize.pow(7) {
            let stream: Vec<Option<char>> =
                (0..7).map(|place| letters[code / 4_usize.pow(place) % 4]).collect();
            let listed = ["a", "ab", "aa", "aba", "abc", "cc", "bab"].map(String::from);
            let mut episodes = Episodes::listed(listed.clone(), Relation::Replace).unwrap();
            let mut ends = vec![Vec::new(); listed.len()];
            let mut changes = Vec::new();
            for (step, event) in stream.iter().enumerate() {
                changes.clear();
                episodes.encode(event, &mut changes).unwrap();
                for (coordinate, amount) in &changes {
                    assert_eq!(*amount, 1.0);
                    ends[*coordinate as usize].push(step);
                }
            }
            for (episode, ends) in listed.iter().zip(ends) {
                assert_eq!(ends, minimal_ends(&stream, episode), "{episode} in {stream:?}");
            }
        }
    }

    #[test]
    fn all_episodes_and_a_list_of_them_agree() {
        let mut all = Episodes::all("ab".chars(), 3, Relation::Replace).unwrap();
        let labels: Vec<String> = (0..all.dimension()).map(|index| all.label(index).unwrap()).collect();
        assert_eq!(labels[..6], ["a", "b", "aa", "ab", "ba", "bb"].map(String::from));
        assert_eq!(labels.len(), 14);
        let mut listed = Episodes::listed(labels.clone(), Relation::Replace).unwrap();
        for letter in "abbabaab".chars() {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            all.encode(&Some(letter), &mut left).unwrap();
            listed.encode(&Some(letter), &mut right).unwrap();
            left.sort_by_key(|(coordinate, _)| *coordinate);
            right.sort_by_key(|(coordinate, _)| *coordinate);
            assert_eq!(left, right);
        }
        for (index, label) in labels.iter().enumerate() {
            assert_eq!(all.coordinate(label), Some(index as u64));
        }
        assert_eq!((all.coordinate("abab"), all.label(14)), (None, None));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Episodes::all("".chars(), 2, Relation::Replace).is_err());
        assert!(Episodes::all("ab".chars(), 0, Relation::Replace).is_err());
        assert!(Episodes::all("ab".chars(), 40, Relation::Replace).is_err());
        for bad in [vec![], vec![""], vec!["ab", "ab"]] {
            assert!(Episodes::listed(bad.iter().map(ToString::to_string), Relation::Replace).is_err());
        }
        let mut all = Episodes::all("ab".chars(), 2, Relation::Replace).unwrap();
        assert!(all.encode(&Some('z'), &mut Vec::new()).is_err());
        assert_eq!(all.step, 0);
    }
}
