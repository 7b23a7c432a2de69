//! How many ends of minimal occurrences one letter of the stream can move.
//!
//! Let e have m letters. Let y be the stream without the letter of step p, and x the stream with the letter a there. Let `A_j` be
//! the latest start of `e_1 … e_j` before p and `B_j` the earliest end of `e_{j+1} … e_m` after p (with `A_0` after p, `B_m` before p, and
//! infinities where there is none). Both are non-increasing in j. An occurrence in y that spans p is `[A_j, B_j]` or
//! contains one of these; x has in addition `D_j = [A_{j-1}, B_j]` for the j with `e_j = a` (starting, ending at p if j = 1, m).
//! In the order `[A_0, B_0], D_1, [A_1, B_1], D_2, …, [A_m, B_m]` neither starts nor ends ever rise. So a finite one of them is minimal
//! exactly if the one before it ends later and the one after it starts earlier, where equal ones count once: `ends` walks along.
//!
//! # Every stream, for short episodes
//! Which ends there are depends on the stream through the order of the `A_j` and that of the `B_j` alone. A letter c behind the stream sets
//! `A_j` to `A_{j-1}` for all j with `e_j = c`, from the last j to the first (`A_0` being later than all), so the order after the letter
//! follows from the order before it: the orders of all streams of any length are what is reached from "nothing has occurred" by letters, at
//! most 2^m of them. The `B_j` are the same for the reversed episode in the reversed stream. [`Table`] tries every pair of orders, which
//! is every stream: the number that it finds is the largest that there is, and some stream attains it.
//!
//! # ⌈m/2⌉ for all
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
//! The ends that the stream with b at p has, and the stream with a lacks, are b-gains or a-losses. Both live on the drops of one and the
//! same y. So they correspond to different indices of e — gains where e has b, losses where it has a, from the second place on — such
//! that nothing follows a gain directly and no loss directly follows a loss. A gain may directly follow a loss, but not always:
//!
//! *Lemma.* If B falls at s < m, then the first `e_s` after p does not stand before the first `e_{s+1}`. For if it did, the first `e_{s+1}` after
//! it would be the first after p, and `B_{s-1} = B_s`.
//!
//! *A gain at i, losses at i+2, i+4, …, j and a gain at j+1 do not go together.* For the first loss, the k of its end is i+1: with `B_{i+1} = B_i`
//! A would have to stay the same until i+2, which is a drop. For each later one it is the index between, as the loss before it is an a-drop.
//! So B falls at each of i, …, j, and by the lemma the first `e_i` stands nowhere before the first `e_{j+1}`, with the first `e_j` between them.
//! But `e_i = e_{j+1} = b` and `e_j = a` is another letter.
//!
//! Two neighbours among the indices are at least 2 apart, except for a loss and the gain directly behind it. Before these two there is a
//! gap of 3 or more since the gain before them, or, if there was no gain, the first index is at least 2. So k indices need
//! `m ≥ 2k - 1` places: k is at most ⌈m/2⌉. [`most_admissible`] finds the largest such set for the letters of an episode. ∎

use std::collections::HashSet;

/// Up to this length of an episode every stream is tried: about a thousand pairs of orders for an episode of this length.
pub(super) const TABLE_LIMIT: usize = 6;

/// A letter of an episode, by the order of first occurrence or by what a caller makes of it; `None` stands for any letter that the
/// episode does not have, or for no letter.
pub(super) type Letter = Option<u32>;

/// The most ends that the stream has with one letter at a step and lacks with another, for all pairs of letters of a short episode.
pub(super) struct Table {
    /// One more than the largest letter of the episode: the place of `None`.
    absent: u32,
    most: Vec<usize>,
}

impl Table {
    /// Tries every pair of orders. Letters are numbered from 0.
    ///
    /// # Complexity
    /// O(4^m m) for each letter, for m letters.
    pub(super) fn new(episode: &[u32]) -> Self {
        let length = episode.len();
        let absent = episode.iter().max().map_or(0, |letter| *letter + 1);
        let letters: Vec<Letter> = (0..absent).map(Some).chain([None]).collect();
        // Starts before p: 1, 2, …; p itself and what is after it lie higher.
        let starts: Vec<Vec<u8>> = orders(episode).into_iter().collect();
        let reversed: Vec<u32> = episode.iter().rev().copied().collect();
        // Ends after p: 2, 3, …, the latest rank being the nearest; p itself is at 1, what is before it at 0.
        let nearest = length as u8 + 2;
        let ends_after: Vec<Vec<Option<u8>>> = orders(&reversed)
            .into_iter()
            .map(|ranks| {
                let end = |index: usize| match ranks[length - index - 1] {
                    0 => None,
                    rank => Some(nearest - rank),
                };
                (0..length).map(end).collect()
            })
            .collect();
        let mut most = vec![0; letters.len() * letters.len()];
        let mut found = vec![0_u32; letters.len()];
        for starts in &starts {
            for ends_after in &ends_after {
                for (found, letter) in found.iter_mut().zip(&letters) {
                    *found = ends(episode, starts, ends_after, *letter);
                }
                for (pair, most) in most.iter_mut().enumerate() {
                    let (with, without) = (found[pair / letters.len()], found[pair % letters.len()]);
                    *most = (*most).max((with & !without).count_ones() as usize);
                }
            }
        }
        Self { absent, most }
    }

    /// The most ends that there are with one letter and not with the other.
    pub(super) fn most(&self, with: Letter, without: Letter) -> usize {
        let place = |letter: Letter| letter.map_or(self.absent, |letter| letter.min(self.absent)) as usize;
        self.most[place(with) * place(None) + place(with) + place(without)]
    }
}

/// The orders that the latest starts of the prefixes of an episode can have, as ranks from 1 on; 0 for a prefix that has not occurred.
fn orders(episode: &[u32]) -> HashSet<Vec<u8>> {
    let letters: HashSet<u32> = episode.iter().copied().collect();
    let nothing = vec![0; episode.len()];
    let mut reached = HashSet::from([nothing.clone()]);
    let mut queue = vec![nothing];
    while let Some(order) = queue.pop() {
        for letter in &letters {
            let mut next = order.clone();
            for place in (0..episode.len()).rev().filter(|place| episode[*place] == *letter) {
                next[place] = if place == 0 { u8::MAX } else { next[place - 1] };
            }
            // Starts never rise along the prefixes: ranks are counted from the last prefix on.
            let (mut last, mut rank) = (0, 0);
            for start in next.iter_mut().rev() {
                rank += u8::from(*start != last);
                last = *start;
                *start = rank;
            }
            if reached.insert(next.clone()) {
                queue.push(next);
            }
        }
    }
    reached
}

/// The ends at p or later of minimal occurrences that start at p or earlier, and the first that starts later, as a set of bits: of the
/// stream with the given letter at p.
fn ends(episode: &[u32], starts: &[u8], ends_after: &[Option<u8>], letter: Letter) -> u32 {
    let length = episode.len();
    // Higher is later. A prefix that has not occurred has rank 0.
    let (at_p, after_p) = (u8::MAX - 1, u8::MAX);
    let start = |index: usize, own: u8| if index == 0 { own } else { starts[index - 1] };
    let end = |index: usize, own: u8| if index == length { Some(own) } else { ends_after[index] };
    let mut set = 0;
    // The last interval so far, if it ends before the one before it.
    let mut corner: Option<(u8, u8)> = None;
    let mut last: Option<(u8, u8)> = None;
    let mut visit = |start: u8, end: Option<u8>| {
        let Some(end) = end.filter(|_| start > 0) else { return };
        if last == Some((start, end)) {
            return;
        }
        if let Some((_, minimal)) = corner.filter(|(before, _)| start < *before) {
            set |= 1_u32 << minimal;
        }
        corner = last.is_none_or(|(_, before)| end < before).then_some((start, end));
        last = Some((start, end));
    };
    visit(after_p, end(0, 0));
    for index in 1..=length {
        if letter == Some(episode[index - 1]) {
            visit(start(index - 1, at_p), end(index, 1));
        }
        visit(start(index, after_p), end(index, 0));
    }
    if let Some((_, minimal)) = corner {
        set |= 1 << minimal;
    }
    // What ends before p is there with every letter.
    set & !1
}

/// The largest set of gains at the letter `with` and losses at the letter `without` that [the proof](self) admits in the places read so
/// far, by what the last of them holds; `None` where that is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Admissible {
    /// Neither a gain nor a loss; a loss that comes next is loose.
    free: Option<usize>,
    /// Neither, directly behind a gain or a tight loss.
    behind: Option<usize>,
    gain: Option<usize>,
    /// A loss that no gain follows directly: every second place before it is a loss, back to a gain.
    tight: Option<usize>,
    /// Any other loss.
    loose: Option<usize>,
}

impl Admissible {
    /// No place yet.
    pub(super) const EMPTY: Self = Self { free: Some(0), behind: None, gain: None, tight: None, loose: None };

    /// With one more place, the first of which holds no loss.
    pub(super) fn extended(self, is_gain: bool, is_loss: bool, place: usize) -> Self {
        let more = |before: Option<usize>| before.map(|number| number + 1);
        let free = self.free.max(self.behind).max(self.loose);
        let is_loss = is_loss && place > 0;
        Self {
            free,
            behind: self.gain.max(self.tight),
            gain: more(free).filter(|_| is_gain),
            tight: more(self.behind).filter(|_| is_loss),
            loose: more(self.free).filter(|_| is_loss),
        }
    }

    /// The size of the largest set.
    pub(super) fn most(self) -> usize {
        self.free.max(self.behind).max(self.gain).max(self.tight).max(self.loose).unwrap_or(0)
    }
}

/// The most ends that there can be with one letter and not with the other, by [the proof](self), for an episode of any length.
pub(super) fn most_admissible(episode: &[u32], with: Letter, without: Letter) -> usize {
    let extend = |search: Admissible, (place, letter): (usize, &u32)| {
        search.extended(with == Some(*letter), without == Some(*letter), place)
    };
    episode.iter().enumerate().fold(Admissible::EMPTY, extend).most()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(letters: u32, length: usize) -> impl Iterator<Item = Vec<u32>> {
        let code = move |code: u32, place: usize| code / letters.pow(place as u32) % letters;
        (0..letters.pow(length as u32))
            .map(move |number| (0..length).map(|place| code(number, place)).collect())
    }

    /// By the definition: the steps at which an interval ends that contains the episode, while neither of the two one step shorter does.
    fn minimal_ends(stream: &[u32], episode: &[u32]) -> HashSet<usize> {
        let occurs = |start: usize, end: usize| {
            let mut rest = stream[start..end].iter();
            episode.iter().all(|letter| rest.any(|found| found == letter))
        };
        let minimal = |start, end| occurs(start, end) && !occurs(start + 1, end) && !occurs(start, end - 1);
        (1..=stream.len()).filter(|end| (0..*end).any(|start| minimal(start, *end))).collect()
    }

    /// All streams of two letters with up to 5 steps on either side of p, and a third letter at p for none of the two.
    #[test]
    fn tables_are_what_streams_attain() {
        for episode in (1..=3).flat_map(|length| words(2, length)) {
            let table = Table::new(&episode);
            let mut most = [[0; 3]; 3];
            let sides: Vec<Vec<u32>> = (0..=5).flat_map(|length| words(2, length)).collect();
            for left in &sides {
                for right in &sides {
                    let with = |letter: u32| [left.as_slice(), &[letter], right].concat();
                    let ends = [0, 1, 2].map(|letter| minimal_ends(&with(letter), &episode));
                    for (x, with) in ends.iter().enumerate() {
                        for (y, without) in ends.iter().enumerate() {
                            most[x][y] = with.difference(without).count().max(most[x][y]);
                        }
                    }
                }
            }
            let letter = |place: usize| (place < 2).then_some(place as u32);
            for (x, row) in most.iter().enumerate() {
                for (y, most) in row.iter().enumerate() {
                    assert_eq!(table.most(letter(x), letter(y)), *most, "{episode:?} with {x}, not {y}");
                }
            }
        }
    }

    #[test]
    fn no_stream_beats_the_proof_and_half_of_the_letters_are_attained() {
        for length in 1..=TABLE_LIMIT {
            let (mut attained, mut allowed) = (0, 0);
            for episode in words(if length < TABLE_LIMIT { 3 } else { 2 }, length) {
                let table = Table::new(&episode);
                for (with, without) in
                    [(Some(0), Some(1)), (Some(0), None), (None, Some(1)), (Some(1), Some(0))]
                {
                    let (most, bound) = (table.most(with, without), most_admissible(&episode, with, without));
                    assert!(
                        most <= bound,
                        "{episode:?} with {with:?}, not {without:?}: {most} above {bound}"
                    );
                    (attained, allowed) = (most.max(attained), bound.max(allowed));
                }
            }
            assert_eq!((attained, allowed), (length.div_ceil(2), length.div_ceil(2)), "{length} letters");
        }
    }

    /// The search over sets of indices against every set, for every word of three letters.
    #[test]
    fn the_largest_admissible_set_is_found() {
        for length in 1..=8 {
            let mut most = 0;
            for word in words(3, length) {
                let admissible = |set: usize| {
                    let chosen: Vec<usize> = (0..length).filter(|place| set >> place & 1 == 1).collect();
                    // Whether the last one is a gain, or a loss that is tied to a gain.
                    let (mut last, mut tied): (Option<usize>, bool) = (None, false);
                    chosen.into_iter().all(|place| {
                        let gap = last.map_or(usize::MAX, |last| place - last);
                        let before = last.map(|last| word[last]);
                        last = Some(place);
                        match word[place] {
                            0 => {
                                let apart = gap > 1 || before == Some(1) && !tied;
                                tied = true;
                                apart
                            }
                            1 => {
                                tied = tied && gap == 2;
                                place > 0 && gap > 1
                            }
                            _ => false,
                        }
                    })
                };
                let sets = (0..1_usize << length).filter(|set| admissible(*set));
                let largest = sets.map(usize::count_ones).max().unwrap_or(0) as usize;
                assert_eq!(most_admissible(&word, Some(0), Some(1)), largest, "{word:?}");
                most = most.max(largest);
            }
            assert_eq!(most, length.div_ceil(2));
        }
    }
}
