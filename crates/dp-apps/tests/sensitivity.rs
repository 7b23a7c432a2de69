//! Every footprint against every small stream and every neighbour, through the matrices of two strategies.

use std::collections::HashMap;

use dp_apps::episodes::Episodes;
use dp_apps::histogram::{Change, Histogram, Rules, Universe};
use dp_apps::substrings::Substrings;
use dp_apps::substrings::dictionary::Dictionary;
use dp_apps::{Encoding, Result};
use dp_mechanisms::{Footprint, Method, Participation, Problem, Relation, Workload};
use ndarray::Array2;

const STRATEGIES: [&str; 2] = ["sqrt", "binary-tree"];

/// `CᵀC` of a strategy.
fn gram(name: &str, steps: usize) -> Array2<f64> {
    let strategy =
        name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), steps).unwrap()).unwrap();
    let matrix = strategy.materialize().unwrap().strategy;
    matrix.t().dot(&matrix)
}

/// The squared sensitivity that a footprint claims.
fn claimed(footprint: &Footprint, name: &str, steps: usize) -> f64 {
    let strategy =
        name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), steps).unwrap()).unwrap();
    footprint.squared_sensitivity(|participation| strategy.sensitivity(participation)).unwrap().squared
}

/// All changes of a stream, as (coordinate, step, amount).
fn encoded<E: Encoding + Clone>(encoding: &E, stream: &[&E::Event]) -> Vec<(u64, usize, f64)> {
    let mut encoding = encoding.clone();
    let mut all = Vec::new();
    let mut changes = Vec::new();
    for (step, event) in stream.iter().enumerate() {
        changes.clear();
        encoding.encode(event, &mut changes).unwrap();
        all.extend(changes.iter().map(|(coordinate, amount)| (*coordinate, step, *amount)));
    }
    all
}

/// The difference of two encoded streams, by coordinate.
fn difference(
    left: &[(u64, usize, f64)],
    right: &[(u64, usize, f64)],
    steps: usize,
) -> HashMap<u64, Vec<f64>> {
    let mut differences: HashMap<u64, Vec<f64>> = HashMap::new();
    for (changes, sign) in [(left, 1.0), (right, -1.0)] {
        for (coordinate, step, amount) in changes {
            differences.entry(*coordinate).or_insert_with(|| vec![0.0; steps])[*step] += sign * amount;
        }
    }
    differences
}

/// `Σ_s ‖C d_s‖²`.
fn moved(gram: &Array2<f64>, differences: &HashMap<u64, Vec<f64>>) -> f64 {
    let mut total = 0.0;
    for difference in differences.values() {
        for (i, a) in difference.iter().enumerate().filter(|(_, a)| **a != 0.0) {
            for (j, b) in difference.iter().enumerate().filter(|(_, b)| **b != 0.0) {
                total += a * b * gram[[i, j]];
            }
        }
    }
    total
}

/// All words of a length over an alphabet; `None` is an absent letter.
fn words(letters: &[Option<char>], length: usize) -> Vec<Vec<Option<char>>> {
    (0..length).fold(vec![Vec::new()], |words, _| {
        words
            .iter()
            .flat_map(|word| {
                letters.iter().map(move |letter| word.iter().copied().chain([*letter]).collect())
            })
            .collect()
    })
}

/// The largest exact change over all streams of letters and all neighbours, for each strategy.
fn exhaustive<E: Encoding<Event = Option<char>> + Clone>(
    encoding: &E,
    letters: &str,
    steps: usize,
    relation: Relation,
    mut visit: impl FnMut(&HashMap<u64, Vec<f64>>),
) -> [f64; 2] {
    let letters: Vec<Option<char>> = letters.chars().map(Some).collect();
    let grams = STRATEGIES.map(|name| gram(name, steps));
    let mut worst = [0.0_f64; 2];
    for stream in words(&letters, steps) {
        let before = encoded(encoding, &stream.iter().collect::<Vec<_>>());
        for step in 0..steps {
            let replacements: Vec<Option<char>> = match relation {
                Relation::ZeroOut => vec![None],
                Relation::Replace => {
                    letters.iter().copied().filter(|letter| *letter > stream[step]).collect()
                }
            };
            for replacement in replacements {
                let mut neighbour = stream.clone();
                neighbour[step] = replacement;
                let after = encoded(encoding, &neighbour.iter().collect::<Vec<_>>());
                let differences = difference(&before, &after, steps);
                visit(&differences);
                for (worst, gram) in worst.iter_mut().zip(&grams) {
                    *worst = worst.max(moved(gram, &differences));
                }
            }
        }
    }
    worst
}

/// Fails unless the bound holds; returns how far, in standard deviations of noise, it lies above the exact value.
#[track_caller]
fn assert_bounds(footprint: &Footprint, steps: usize, exact: [f64; 2], context: &str) -> f64 {
    let mut largest = 0.0_f64;
    for (name, exact) in STRATEGIES.iter().zip(exact) {
        let bound = claimed(footprint, name, steps);
        let ratio = (bound / exact).sqrt();
        println!("{context}, {name}: Δ² = {exact:.4}, bound {bound:.4}, noise ratio {ratio:.4}");
        assert!(bound >= exact * (1.0 - 1e-12), "{context}, {name}: {bound} is below {exact}");
        largest = largest.max(ratio);
    }
    largest
}

#[test]
fn histograms_of_every_rule_are_bounded_and_tight() {
    let steps = 3;
    let grams = STRATEGIES.map(|name| gram(name, steps));
    for relation in [Relation::ZeroOut, Relation::Replace] {
        for removals in [false, true] {
            for distinct in [false, true] {
                for items in [1, 2, 3] {
                    let rules =
                        Rules { items, distinct, removals, relation, participation: Participation::Single };
                    let mut encoding = Histogram::new(Universe::integers(0, 3).unwrap(), rules).unwrap();
                    // Everything that one person may contribute to one step.
                    let choices: Vec<Option<Change<u64>>> = (0..3)
                        .flat_map(|item| [Some(Change::Insert(item)), Some(Change::Remove(item))])
                        .chain([None])
                        .collect();
                    let mut contributions: Vec<Vec<Change<u64>>> = vec![Vec::new()];
                    for _ in 0..items {
                        contributions = contributions
                            .iter()
                            .flat_map(|one| {
                                choices.iter().map(move |choice| one.iter().copied().chain(*choice).collect())
                            })
                            .collect();
                    }
                    contributions
                        .retain(|one| encoding.encode(std::slice::from_ref(one), &mut Vec::new()).is_ok());
                    let empty: &[Vec<Change<u64>>] = &[];
                    let mut exact = [0.0_f64; 2];
                    for one in &contributions {
                        let others: &[Vec<Change<u64>>] = match relation {
                            Relation::ZeroOut => &[vec![]],
                            Relation::Replace => &contributions,
                        };
                        for other in others {
                            for step in 0..steps {
                                let (mut left, mut right) = ([empty; 3], [empty; 3]);
                                left[step] = std::slice::from_ref(one);
                                right[step] = std::slice::from_ref(other);
                                let left = encoded(&encoding, &left);
                                let right = encoded(&encoding, &right);
                                let differences = difference(&left, &right, steps);
                                for (exact, gram) in exact.iter_mut().zip(&grams) {
                                    *exact = exact.max(moved(gram, &differences));
                                }
                            }
                        }
                    }
                    let context = format!("{rules:?}");
                    let ratio = assert_bounds(&encoding.footprint().unwrap(), steps, exact, &context);
                    assert!(ratio < 1.0 + 1e-9, "{context}: {ratio}");
                }
            }
        }
    }
}

/// `max_p Σ_m (‖Σ_i C_i‖² + Σ_i ‖C_i‖²)` over the windows of a finite stream that contain p (without the second sum under
/// zero-out): the claim for each place of the letter, where the footprint takes the worst for each length.
fn windows_over_one_letter(gram: &Array2<f64>, longest: usize, relation: Relation) -> f64 {
    let steps = gram.ncols();
    let at = |p: usize| -> f64 {
        (1..=longest)
            .map(|length| {
                let ends = || p.max(length - 1)..(p + length).min(steps);
                let together: f64 = ends().flat_map(|i| ends().map(move |j| gram[[i, j]])).sum();
                let alone: f64 = ends().map(|i| gram[[i, i]]).sum();
                if relation == Relation::Replace { together + alone } else { together }
            })
            .sum()
    };
    (0..steps).map(at).fold(0.0, f64::max)
}

#[test]
fn substrings_attain_their_bound_and_the_square_of_the_length_is_none() {
    for (letters, longest, steps) in [("ab", 1, 6), ("ab", 2, 7), ("ab", 3, 8), ("abc", 2, 5)] {
        for relation in [Relation::ZeroOut, Relation::Replace] {
            let encoding = Substrings::new(letters.chars(), longest, relation).unwrap();
            let exact = exhaustive(&encoding, letters, steps, relation, |_| {});
            let context = format!("substrings of {letters} up to {longest}, {steps} steps, {relation}");
            let footprint = encoding.footprint().unwrap();
            assert_bounds(&footprint, steps, exact, &context);
            for (name, exact) in STRATEGIES.iter().zip(exact) {
                let formula = windows_over_one_letter(&gram(name, steps), longest, relation);
                assert!(
                    (exact / formula - 1.0).abs() < 1e-12,
                    "{context}, {name}: {exact} against {formula}"
                );
            }
            if relation == Relation::Replace {
                let single =
                    claimed(&Rules::one_item(Relation::ZeroOut).footprint(None).unwrap(), "sqrt", steps);
                let square_of_the_length = (longest * longest) as f64 * single;
                assert!(square_of_the_length < exact[0] * 0.9, "{context}: ℓ² must not pass for a bound");
            }
        }
    }
}

#[test]
fn substrings_at_a_long_horizon_agree_with_independent_values() {
    for (longest, expected) in
        [(1, 2.0), (2, 7.582_388_246_228_346), (4, 35.181_103_074_361_53), (8, 192.295_569_987_363_68)]
    {
        let encoding = Substrings::new("ab".chars(), longest, Relation::Replace).unwrap();
        let single = claimed(&Rules::one_item(Relation::ZeroOut).footprint(None).unwrap(), "sqrt", 512);
        let ratio = claimed(&encoding.footprint().unwrap(), "sqrt", 512) / single;
        // Several participations are charged for the rounding of the inverse that is applied: 1e-11 at 512 steps, never less.
        let excess = ratio / expected - 1.0;
        assert!((-1e-12..1e-10).contains(&excess), "ℓ = {longest}: {ratio} against {expected}");
    }
}

#[test]
fn dictionaries_are_bounded_through_their_overlaps() {
    let mut ratios = Vec::new();
    for list in [
        vec!["a"],
        vec!["a", "b"],
        vec!["aaa"],
        vec!["aba"],
        vec!["abc"],
        vec!["ab", "ba"],
        vec!["aa", "bb", "ab"],
        vec!["abab", "aa", "b"],
        vec!["ab", "bc", "ca", "ac", "cb", "ba"],
        vec!["aaa", "bbb", "ababa"],
        vec!["aab", "baa", "aba", "bab", "abb", "bba", "aaa", "bbb"],
    ] {
        for relation in [Relation::ZeroOut, Relation::Replace] {
            let encoding = Dictionary::new(list.iter().map(ToString::to_string), relation).unwrap();
            let (letters, steps) = if list.concat().contains('c') { ("abc", 6) } else { ("ab", 8) };
            let exact = exhaustive(&encoding, letters, steps, relation, |_| {});
            let context = format!("dictionary {list:?}, {relation}");
            ratios.push(assert_bounds(&encoding.footprint().unwrap(), steps, exact, &context));
        }
    }
    assert!(ratios[0] < 1.0 + 1e-9 && ratios[2] < 1.0 + 1e-9, "one letter is exact");
    assert!(ratios.iter().all(|ratio| *ratio < 2.1), "{ratios:?}");
}

/// The number of ends of one sign, per episode, that the proof allows.
fn allowed(footprint: &Footprint) -> usize {
    footprint.terms().iter().map(|term| term.participation.times_within(usize::MAX)).max().unwrap_or(0)
}

#[test]
fn episodes_are_bounded_within_a_factor() -> Result<()> {
    for (letters, longest, steps) in
        [("a", 3, 6), ("ab", 1, 5), ("ab", 2, 8), ("ab", 3, 9), ("abc", 2, 6), ("abc", 3, 6)]
    {
        for relation in [Relation::ZeroOut, Relation::Replace] {
            if letters.len() == 1 && relation == Relation::Replace {
                continue;
            }
            let encoding = Episodes::all(letters.chars(), longest, relation)?;
            let exact = exhaustive(&encoding, letters, steps, relation, |_| {});
            let context = format!("episodes of {letters} up to {longest}, {steps} steps, {relation}");
            let ratio = assert_bounds(&encoding.footprint()?, steps, exact, &context);
            assert!(ratio <= 2.25, "{context}: {ratio}");
        }
    }
    Ok(())
}

/// Each episode alone: the list's footprint is then the proof's claim for this very word and its worst letters.
#[test]
fn no_episode_changes_more_often_than_the_proof_allows() -> Result<()> {
    for (letters, length, steps) in [("ab", 2, 7), ("ab", 3, 8), ("ab", 4, 9), ("abc", 3, 6), ("abc", 4, 6)] {
        let alphabet: Vec<Option<char>> = letters.chars().map(Some).collect();
        let episodes: Vec<String> =
            words(&alphabet, length).iter().map(|word| word.iter().flatten().collect()).collect();
        for relation in [Relation::ZeroOut, Relation::Replace] {
            let bounds: Vec<usize> = episodes
                .iter()
                .map(|episode| Ok(allowed(&Episodes::listed([episode.clone()], relation)?.footprint()?)))
                .collect::<Result<_>>()?;
            let all = Episodes::listed(episodes.clone(), relation)?;
            let mut most = 0;
            exhaustive(&all, letters, steps, relation, |differences| {
                for (coordinate, difference) in differences {
                    for sign in [1.0, -1.0] {
                        let changes = difference.iter().filter(|change| **change == sign).count();
                        let bound = bounds[*coordinate as usize];
                        let episode = &episodes[*coordinate as usize];
                        assert!(
                            changes <= bound,
                            "{episode}, {relation}: {changes} changes, {bound} allowed"
                        );
                        most = most.max(changes);
                    }
                    assert!(difference.iter().all(|change| change.abs() <= 1.0));
                }
            });
            let bound = bounds.iter().max().copied().unwrap_or(0);
            println!(
                "{letters}, length {length}, {relation}: at most {most} changes of a sign, {bound} allowed"
            );
        }
    }
    Ok(())
}

#[test]
fn listed_episodes_are_bounded() -> Result<()> {
    for list in [vec!["ab"], vec!["aa", "b"], vec!["aba", "ba"], vec!["abc", "ca", "b"]] {
        for relation in [Relation::ZeroOut, Relation::Replace] {
            let encoding = Episodes::listed(list.iter().map(ToString::to_string), relation)?;
            let exact = exhaustive(&encoding, "abc", 6, relation, |_| {});
            assert_bounds(&encoding.footprint()?, 6, exact, &format!("episodes {list:?}, {relation}"));
        }
    }
    Ok(())
}
