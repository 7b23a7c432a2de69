//! Episodes: how many minimal occurrences each short subsequence has had in a stream of letters.
//!
//! An occurrence of an episode `e = e_1 … e_m` is an interval of steps whose letters contain e as a subsequence; it is
//! minimal if no shorter interval inside it contains e. Minimal occurrences are counted at their ends.
//!
//! # How far one letter moves the counts
//! Let y be the stream without the letter of step p, and x the stream with the letter a there. Let `A_j` be the latest
//! start of `e_1 … e_j` before p and `B_j` the earliest end of `e_{j+1} … e_m` after p (with `A_0` after p, `B_m` before p, and
//! infinities where there is none). Both are non-increasing in j. An occurrence in y that spans p is `[A_j, B_j]` or
//! contains one of these; x has in addition `D_j = [A_{j-1}, B_j]` for the j with `e_j = a` (starting, ending at p if j = 1, m).
//! `D_j` lies inside `[A_{j-1}, B_{j-1}]` and inside `[A_j, B_j]`, so it is new only if *both* A and B fall at j: call such a j
//! a drop. New ones are then minimal: an interval inside `D_j` would need an index ≤ j-1 for its start and ≥ j for its end.
//!
//! *Ends that appear with a.* `D_j` ends at `B_j`. If `[A_j, B_j]` is a minimal occurrence in y, that end is no news. So j is
//! the last step with a finite `A_{j-1}`, or j = m, or A stays the same from j to the next index at which B falls: j+1 is not
//! a drop, nor is any index before the next fall of B. Call j an **a-gain**; then j+1 is not a drop.
//!
//! *Ends that disappear with a.* Suppose `[A_k, B_k]` is minimal in y, with k the first index of its `B_k`, and `D_j` lies inside
//! it with an earlier end. Then `A_{j-1} = A_k`, and minimality says that A falls where B next does: j is the first index after k
//! at which B falls, `e_j = a`, and `j ≥ 2`. The end stays after all if k itself is a drop with `e_k = a`, because `D_k` ends at
//! `B_k`. Call j an **a-loss**; if j-1 is an a-drop, then j is not an a-loss (B falls at j-1, so k = j-1).
//!
//! Replace a by b at p. Ends that appear are a-losses or b-gains, ends that disappear (seen from the stream with a) are
//! a-gains or b-losses. Both live on the drops of one and the same y. So the ends of one sign correspond to
//! different indices of e — gains where e has one letter, losses where it has the other, from the second place on — such that
//! nothing follows a gain directly and no loss directly follows a loss. `most_changes` finds the largest such set:
//! 1, 1, 2, 3, 3, 4 at most for m = 1 … 6, instead of m. With k changes of one sign in a coordinate its squared size is at most
//! that of k distinct steps, and the inner products between the signs, which enter with a minus, are dropped (columns with
//! non-negative inner products). ∎

use std::collections::HashMap;
use std::fmt;

use dp_mechanisms::{Footprint, Participation, Relation};

use crate::counts::{Encoding, digest, unit_terms};
use crate::error::{Error, Result};
use crate::substrings::Alphabet;

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
        let others = alphabet.size().saturating_sub(2) as f64;
        let second = if alphabet.size() > 1 { 1.0 } else { 0.0 };
        let weights = [(Letter::Before, 1.0), (Letter::After, second), (Letter::Other, others)];
        let mut numbers = HashMap::new();
        for roles in Roles::of_signs(self.relation) {
            // Words that lead to the same search state need not be told apart.
            let mut states = HashMap::from([(Search::default(), 1.0)]);
            for place in 0..longest {
                let mut next: HashMap<Search, f64> = HashMap::new();
                for (search, number) in &states {
                    for (letter, weight) in weights {
                        if weight > 0.0 {
                            *next.entry(search.extended(roles, letter, place)).or_default() +=
                                number * weight;
                        }
                    }
                }
                states = next;
                for (search, number) in &states {
                    *numbers.entry(search.most()).or_default() += number;
                }
            }
        }
        numbers
    }

    /// The same for a list: the worst pair of letters, place by place of the sorted numbers of changes, which bounds the
    /// sum for every pair and every strategy.
    fn changes_of_list(&self) -> HashMap<usize, f64> {
        // `None` is any letter that occurs in no episode.
        let letters: Vec<Option<char>> = self.by_letter.keys().copied().map(Some).chain([None]).collect();
        let mut worst: Vec<usize> = Vec::new();
        for before in &letters {
            for after in letters.iter().filter(|after| *after != before) {
                let mut changes: Vec<usize> = Vec::new();
                for roles in Roles::of_signs(self.relation) {
                    changes.extend(self.labels.iter().map(|label| {
                        most_changes(
                            roles,
                            label.chars().map(|letter| match Some(letter) {
                                letter if letter == *before => Letter::Before,
                                letter if letter == *after => Letter::After,
                                _ => Letter::Other,
                            }),
                        )
                    }));
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
}

/// What a letter of an episode is to a change of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    /// The letter that was there.
    Before,
    /// The letter that replaces it.
    After,
    /// Neither.
    Other,
}

/// Which letters make changes of one sign: by gains and by losses.
#[derive(Debug, Clone, Copy)]
struct Roles {
    gain: Option<Letter>,
    loss: Option<Letter>,
}

impl Roles {
    /// The two signs: ends that only the stream with the first letter has, and ends that only the other has.
    fn of_signs(relation: Relation) -> [Self; 2] {
        match relation {
            Relation::ZeroOut => [
                Self { gain: Some(Letter::Before), loss: None },
                Self { gain: None, loss: Some(Letter::Before) },
            ],
            Relation::Replace => [
                Self { gain: Some(Letter::Before), loss: Some(Letter::After) },
                Self { gain: Some(Letter::After), loss: Some(Letter::Before) },
            ],
        }
    }
}

/// The largest admissible set of indices in a prefix, by what its last place holds; `None` where that is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Search {
    free: usize,
    gain: Option<usize>,
    loss: Option<usize>,
}

impl Search {
    /// Nothing follows a gain; a gain, but no loss, may follow a loss; the first place holds no loss.
    fn extended(self, roles: Roles, letter: Letter, place: usize) -> Self {
        let gains = roles.gain == Some(letter);
        let losses = roles.loss == Some(letter) && place > 0;
        Self {
            free: self.most(),
            gain: gains.then(|| self.free.max(self.loss.unwrap_or(0)) + 1),
            loss: losses.then_some(self.free + 1),
        }
    }

    fn most(self) -> usize {
        self.free.max(self.gain.unwrap_or(0)).max(self.loss.unwrap_or(0))
    }
}

/// The most ends of one sign that one letter can change for an episode; see [the module](self).
fn most_changes(roles: Roles, letters: impl Iterator<Item = Letter>) -> usize {
    letters
        .enumerate()
        .fold(Search::default(), |search, (place, letter)| search.extended(roles, letter, place))
        .most()
}

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

    /// The search over sets of indices against every set, for every word of three kinds of letters.
    #[test]
    fn the_largest_admissible_set_is_found() {
        let kinds = [Letter::Before, Letter::After, Letter::Other];
        for length in 1..=6 {
            let mut most = 0;
            for code in 0..3_usize.pow(length) {
                let word: Vec<Letter> =
                    (0..length).map(|place| kinds[code / 3_usize.pow(place) % 3]).collect();
                let [roles, _] = Roles::of_signs(Relation::Replace);
                let admissible = |set: usize| {
                    let chosen = |place: usize| place < word.len() && set >> place & 1 == 1;
                    (0..word.len()).filter(|place| chosen(*place)).all(|place| match word[place] {
                        Letter::Before => !chosen(place + 1),
                        Letter::After => {
                            place > 0 && !(chosen(place + 1) && word[place + 1] == Letter::After)
                        }
                        Letter::Other => false,
                    })
                };
                let sets = (0..1_usize << length).filter(|set| admissible(*set));
                let largest = sets.map(usize::count_ones).max().unwrap_or(0) as usize;
                assert_eq!(most_changes(roles, word.iter().copied()), largest, "{word:?}");
                most = most.max(largest);
            }
            assert_eq!(most, [1, 1, 2, 3, 3, 4][length as usize - 1]);
        }
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
