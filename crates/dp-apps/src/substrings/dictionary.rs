//! Occurrences of the words of a public dictionary in a stream of letters.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use dp_mechanisms::{Footprint, Participation, Relation};

use crate::counts::{Encoding, digest, unit_terms};
use crate::error::{Error, Result};

/// The encoding that counts the words of a dictionary at their ends. An event is a letter, or `None` for a step without
/// one; letters that occur in no word are allowed.
///
/// # Privacy
/// Neighbours differ in one letter at one step. Let a word w of length m have smallest period q: the least shift at
/// which it overlaps itself, or m if it never does. Occurrences of w that contain the letter lie in m consecutive
/// positions, any two at least q apart, so there are at most `r = ⌈m/q⌉`, and with `Δ(r, q)` the sensitivity for r steps
/// at least q apart their change has squared size at most `Δ(r, q)²`. Zero-out only removes such occurrences. Replace also makes new ones;
/// a window cannot be w both before and after, so there are at most `min(r, m-r)` of these where r were lost, and as
/// inner products are non-negative the two parts add no more than their own squares.
/// Words of one length that do not overlap themselves share m windows before and m after, which bounds how many of
/// them change. For a length with so many words that all this exceeds the bound for *all* strings of the length
/// (`c_m²`, or `c_m² + mΔ_1²`, see [`Substrings`](super::Substrings)), that one is used.
///
/// # Complexity
/// O(1) amortized per letter plus one for each word that ends there (an Aho–Corasick automaton).
///
/// # Example
/// ```
/// use dp_apps::substrings::dictionary::Dictionary;
/// use dp_apps::{Counts, Encoding};
/// use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};
/// let words = ["GATTACA", "TATA"].map(String::from);
/// let dictionary = Dictionary::new(words, Relation::Replace)?;
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 1000)?)?;
/// let plan = dictionary.plan(&strategy, Budget::approximate(1.0, 1e-6)?)?;
/// let mut counts = Counts::new(dictionary, plan, Seed::from_system()?)?;
/// counts.push(&Some('T'))?;
/// println!("{:?}", counts.count("TATA")?);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Clone)]
pub struct Dictionary {
    words: Vec<String>,
    positions: HashMap<String, u64>,
    relation: Relation,
    nodes: Vec<Node>,
    edges: HashMap<(usize, char), usize>,
    /// The longest suffix of the stream that begins a word.
    current: usize,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// The longest proper suffix that begins a word.
    fallback: usize,
    /// The longest proper suffix that is a word.
    shorter_word: Option<usize>,
    word: Option<u64>,
}

/// Which word the stream is about to complete is data.
impl fmt::Debug for Dictionary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Dictionary")
            .field("words", &self.words)
            .field("relation", &self.relation)
            .finish_non_exhaustive()
    }
}

impl Dictionary {
    /// A dictionary of the given words.
    ///
    /// # Errors
    /// No words, an empty word, or one word twice.
    pub fn new(words: impl IntoIterator<Item = String>, relation: Relation) -> Result<Self> {
        let words: Vec<String> = words.into_iter().collect();
        if words.is_empty() || words.iter().any(String::is_empty) {
            return Err(Error::OutOfRange { what: "length of a word", value: 0.0, range: "at least 1" });
        }
        let mut positions = HashMap::new();
        let mut nodes = vec![Node::default()];
        let mut edges: HashMap<(usize, char), usize> = HashMap::new();
        for (position, word) in words.iter().enumerate() {
            if positions.insert(word.clone(), position as u64).is_some() {
                return Err(Error::Duplicate { what: "word", text: word.clone() });
            }
            let mut node = 0;
            for letter in word.chars() {
                node = *edges.entry((node, letter)).or_insert_with(|| {
                    nodes.push(Node::default());
                    nodes.len() - 1
                });
            }
            nodes[node].word = Some(position as u64);
        }
        let mut dictionary = Self { words, positions, relation, nodes, edges, current: 0 };
        dictionary.link();
        Ok(dictionary)
    }

    /// Links every node to its suffixes, shortest nodes first.
    fn link(&mut self) {
        let mut children: Vec<Vec<(char, usize)>> = vec![Vec::new(); self.nodes.len()];
        for ((from, letter), to) in &self.edges {
            children[*from].push((*letter, *to));
        }
        let mut queue: VecDeque<usize> = children[0].iter().map(|(_, child)| *child).collect();
        while let Some(node) = queue.pop_front() {
            for (letter, child) in &children[node] {
                let fallback = self.follow(self.nodes[node].fallback, *letter);
                self.nodes[*child].fallback = fallback;
                self.nodes[*child].shorter_word = match self.nodes[fallback].word {
                    Some(_) => Some(fallback),
                    None => self.nodes[fallback].shorter_word,
                };
                queue.push_back(*child);
            }
        }
    }

    fn follow(&self, mut node: usize, letter: char) -> usize {
        loop {
            if let Some(next) = self.edges.get(&(node, letter)) {
                return *next;
            }
            if node == 0 {
                return 0;
            }
            node = self.nodes[node].fallback;
        }
    }

    /// The number of coordinates with each participation, for the words of one length.
    fn terms(&self, length: usize, periods: &[usize]) -> Result<Vec<(Participation, f64)>> {
        let replace = self.relation == Relation::Replace;
        let mut general = vec![(Participation::repeated(length, 1)?, 1.0)];
        if replace {
            general.push((Participation::Single, length as f64));
        }
        let mut separate = Vec::new();
        let mut alone = 0;
        for period in periods {
            let times = length.div_ceil(*period);
            let made = if replace { times.min(length - times) } else { 0 };
            if times == 1 {
                alone += 1 + made;
                continue;
            }
            separate.push((Participation::repeated(times, *period)?, 1.0));
            if made > 0 {
                separate.push((Participation::repeated(made, *period)?, 1.0));
            }
        }
        let windows = if replace { 2 * length } else { length };
        separate.push((Participation::Single, alone.min(windows) as f64));
        // Both are proved; for every strategy r steps move it by at most r times what one does, which compares them.
        let size = |terms: &[(Participation, f64)]| {
            terms
                .iter()
                .map(|(participation, number)| {
                    let times = participation.times_within(usize::MAX) as f64;
                    number * times * times
                })
                .sum::<f64>()
        };
        Ok(if size(&separate) <= size(&general) { separate } else { general })
    }
}

/// The smallest period of a word: its length minus that of its longest proper border.
fn smallest_period(word: &[char]) -> usize {
    let mut borders = vec![0; word.len() + 1];
    let mut border = 0;
    for end in 1..word.len() {
        while border > 0 && word[end] != word[border] {
            border = borders[border];
        }
        border += usize::from(word[end] == word[border]);
        borders[end + 1] = border;
    }
    word.len() - border
}

impl Encoding for Dictionary {
    type Event = Option<char>;

    fn dimension(&self) -> u64 {
        self.words.len() as u64
    }

    fn footprint(&self) -> Result<Footprint> {
        let mut periods: HashMap<usize, Vec<usize>> = HashMap::new();
        for word in &self.words {
            let letters: Vec<char> = word.chars().collect();
            periods.entry(letters.len()).or_default().push(smallest_period(&letters));
        }
        let mut lengths: Vec<(&usize, &Vec<usize>)> = periods.iter().collect();
        lengths.sort_unstable();
        let mut terms = Vec::new();
        for (length, periods) in lengths {
            terms.extend(self.terms(*length, periods)?);
        }
        unit_terms(terms, self.relation)
    }

    fn encode(&mut self, event: &Option<char>, changes: &mut Vec<(u64, f64)>) -> Result<()> {
        let Some(letter) = event else {
            self.current = 0;
            return Ok(());
        };
        self.current = self.follow(self.current, *letter);
        let mut node = Some(self.current);
        while let Some(index) = node {
            changes.extend(self.nodes[index].word.map(|word| (word, 1.0)));
            node = self.nodes[index].shorter_word;
        }
        Ok(())
    }

    fn identity(&self) -> String {
        format!("dictionary of {}", digest(self.words.iter().map(String::as_str)))
    }

    fn label(&self, coordinate: u64) -> Option<String> {
        self.words.get(coordinate as usize).cloned()
    }

    fn coordinate(&self, label: &str) -> Option<u64> {
        self.positions.get(label).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_the_smallest_self_overlaps() {
        for (word, period) in [("a", 1), ("aaaa", 1), ("abab", 2), ("ababa", 2), ("abcab", 3), ("abc", 3)] {
            assert_eq!(smallest_period(&word.chars().collect::<Vec<_>>()), period, "{word}");
        }
    }

    #[test]
    fn counts_equal_those_of_the_text() {
        let words = ["a", "aba", "abab", "bab", "bb", "c", "ccc", "cab"];
        let mut dictionary = Dictionary::new(words.map(String::from), Relation::Replace).unwrap();
        // Every text over three letters up to length 7.
        for code in 0..3_u32.pow(7) {
            let text: String =
                (0..7).map(|place| ['a', 'b', 'c'][(code / 3_u32.pow(place) % 3) as usize]).collect();
            let mut counts = [0.0; 8];
            let mut changes = Vec::new();
            dictionary.encode(&None, &mut changes).unwrap();
            for letter in text.chars() {
                dictionary.encode(&Some(letter), &mut changes).unwrap();
            }
            for (coordinate, value) in changes {
                counts[coordinate as usize] += value;
            }
            for (word, count) in words.iter().zip(counts) {
                let expected = (0..text.len()).filter(|start| text[*start..].starts_with(word)).count();
                assert_eq!(count, expected as f64, "{word} in {text}");
            }
        }
    }

    #[test]
    fn refuses_empty_and_repeated_words() {
        for bad in [vec![], vec![""], vec!["a", "b", "a"]] {
            assert!(
                Dictionary::new(bad.iter().map(ToString::to_string), Relation::Replace).is_err(),
                "{bad:?}"
            );
        }
    }
}
