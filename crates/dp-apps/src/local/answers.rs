//! Messages that are one answer: a question about where a client's weight lies, answered by a sign.
//!
//! The w intervals and what lies beyond the last midpoint are the `L = w + 1` leaves of a binary tree: node k of level l holds
//! the leaves from `⌊kL/2^l⌋` up to `⌊(k+1)L/2^l⌋`, its halves are the nodes 2k and 2k+1 of the next level. Let `d_{l,k}` be the client's weight in
//! the left half of a node minus that in the right half. As the whole weight is 1, the weight to the left of a midpoint is
//!
//! `G_t = x_t + Σ_l min(r, 1-r) d_{l,k}`,
//!
//! where `x_t = k/2^l` is the place in the tree at which a node begins with leaf t, in each level above that k is the node around `x_t` and r in
//! (0, 1) is where in the node `x_t` lies. (Left of `x_t` lie r of the weight of the node where both halves have the same, and
//! `min(r, 1-r) d` more where they do not; then the same in the half that holds `x_t`.)
//!
//! # The questions
//! A level l is drawn with probability `p_l`, a row j of the Hadamard matrix `H` of 2^l rows with equal probabilities, and the client's
//! value for this question is `v = Σ_k H_{jk} d_{l,k}`, in [-1, 1] because the weights of all halves sum to 1 at most. The sign s of
//! [`RandomizedResponse`] has the mean `v/κ`, κ = `(e^ε + 1)/(e^ε - 1)`. So `κ s H_{jk}/p_l` is unbiased for `d_{l,k}` (the rows of H are
//! orthogonal), and one message estimates all G. This is the Haar transform with Hadamard randomized response of Cormode, Kulkarni and
//! Srivastava (2019), for any number of leaves and with levels drawn by what they weigh.
//!
//! # Error
//! An estimate of `G_t - x_t` by one message is ±κ/p_l times the weight of level l: its second moment is exactly
//! `κ² Σ_l min(r,1-r)²/p_l`, at least its variance, whoever the client is. Averaged over t this is smallest for `p_l` in proportion to the root
//! of the mean of `min(r,1-r)²`, which is what is drawn from.
//!
//! The integral of an estimate between two borders has in each node the sum `c_{l,k} ≥ 0` of the weights of the midpoints there, times 1/w, as a
//! coefficient: second moment `V = κ² Σ_l Σ_k c²/p_l`, size at most `M = κ max_l Σ_k c/p_l`, and both are largest between 0 and 1. Averages of n
//! independent messages exceed their mean by more than τ with probability at most `exp(-nτ²/(2V + 2(M + 1)τ/3))` (Bernstein; the mean itself
//! is at most 1).

use dp_mechanisms::Budget;
use dp_mechanisms::noise::response::{Answer, ONE, Questions, RandomizedResponse};

use crate::error::{Error, Result};

/// The tree of a number of intervals, and the questions about it.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    intervals: usize,
    response: RandomizedResponse,
}

/// Where the left edge of a leaf lies in the tree: `numerator/2^level`, with the smallest level.
struct Place {
    level: usize,
    numerator: usize,
}

impl Place {
    /// The nodes around the place, from the root on: (level, node, `min(r, 1 - r)`).
    fn nodes(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        (0..self.level).map(|level| {
            let size = 1_usize << (self.level - level);
            let inside = self.numerator % size;
            (level, self.numerator / size, inside.min(size - inside) as f64 / size as f64)
        })
    }

    fn position(&self) -> f64 {
        self.numerator as f64 / (1_u64 << self.level) as f64
    }
}

/// The left edge of leaf t = 1, …, leaves - 1.
fn place(leaves: usize, leaf: usize) -> Place {
    let mut place = Place { level: 0, numerator: 0 };
    while (place.numerator * leaves) >> place.level != leaf {
        place.level += 1;
        place.numerator = (leaf << place.level).div_ceil(leaves);
    }
    place
}

/// The number of levels that have questions.
fn levels(leaves: usize) -> usize {
    leaves.next_power_of_two().trailing_zeros() as usize
}

impl Answers {
    pub(super) fn new(intervals: usize, budget: Budget) -> Result<Self> {
        if !(1..=1 << 24).contains(&intervals) {
            return Err(Error::OutOfRange {
                what: "number of intervals",
                value: intervals as f64,
                range: "1 to 2^24",
            });
        }
        let leaves = intervals + 1;
        let mut squares = vec![0.0; levels(leaves)];
        for leaf in 1..leaves {
            for (level, _, weight) in place(leaves, leaf).nodes() {
                squares[level] += weight * weight;
            }
        }
        let total: f64 = squares.iter().copied().map(f64::sqrt).sum();
        // Never none, and never all: what rounding leaves is the last one's.
        let weight = |square: f64| (square.sqrt() / total * 4_294_967_295.0).floor().max(1.0) as u32;
        let groups = squares
            .iter()
            .enumerate()
            .map(|(level, square)| Questions { weight: weight(*square), bits: level as u32 })
            .collect();
        Ok(Self { intervals, response: RandomizedResponse::new(budget, groups)? })
    }

    pub(super) fn intervals(&self) -> usize {
        self.intervals
    }

    pub(super) fn response(&self) -> &RandomizedResponse {
        &self.response
    }

    /// The value of a client for a question, in units of 2^-16; `weights` are those of the intervals in the same units, and what they lack to
    /// 1 lies beyond.
    pub(super) fn value(&self, weights: &[i32], level: usize, row: u64) -> i32 {
        let leaves = self.intervals + 1;
        let beyond = ONE - weights.iter().sum::<i32>();
        let (mut value, mut half, mut end) = (0, 0_usize, 0);
        for (leaf, weight) in weights.iter().chain([&beyond]).enumerate() {
            // The half of a node of this level in which the leaf is: halves may be empty.
            while leaf >= end {
                half += 1;
                end = (half * leaves) >> (level + 1);
            }
            let node = (half - 1) as u64 / 2;
            let odd = ((row & node).count_ones() + (half as u32 - 1)) % 2 == 1;
            value += if odd { -weight } else { *weight };
        }
        value
    }

    /// The index of a question among all, if it is one.
    pub(super) fn index(&self, answer: &Answer) -> Option<usize> {
        let known = answer.group < self.response.groups().len() && answer.question >> answer.group == 0;
        known.then(|| (1 << answer.group) - 1 + answer.question as usize)
    }

    /// The number of all questions.
    pub(super) fn questions(&self) -> usize {
        (1 << levels(self.intervals + 1)) - 1
    }

    /// The estimated weight to the left of each midpoint, from the sum of signs for each question.
    ///
    /// # Complexity
    /// O(w log w).
    pub(super) fn estimates(&self, sums: &[f64], clients: f64) -> Vec<f64> {
        let leaves = self.intervals + 1;
        let mut differences = sums.to_vec();
        for level in 0..levels(leaves) {
            let scale = self.response.scale() / (self.response.probability(level) * clients);
            let own = &mut differences[(1 << level) - 1..(2 << level) - 1];
            transform(own);
            own.iter_mut().for_each(|difference| *difference *= scale);
        }
        let estimate = |leaf: usize| {
            let place = place(leaves, leaf);
            let terms =
                place.nodes().map(|(level, node, weight)| weight * differences[(1 << level) - 1 + node]);
            place.position() + terms.sum::<f64>()
        };
        (1..leaves).map(estimate).collect()
    }

    /// The root of the second moment of the estimate by one message at midpoint t = 1, …, w: at least its standard deviation.
    pub(super) fn deviation(&self, midpoint: usize) -> f64 {
        let place = place(self.intervals + 1, midpoint);
        let second: f64 =
            place.nodes().map(|(level, _, weight)| weight * weight / self.response.probability(level)).sum();
        self.response.scale() * second.sqrt()
    }

    /// What the integral of the average of messages exceeds its mean by with a probability of at most `failure`, between any two places
    /// that do not depend on the messages.
    pub(super) fn integrated_quantile(&self, failure: f64, clients: f64) -> f64 {
        let leaves = self.intervals + 1;
        let mut coefficients = vec![0.0; self.questions()];
        for leaf in 1..leaves {
            for (level, node, weight) in place(leaves, leaf).nodes() {
                coefficients[(1 << level) - 1 + node] += weight / self.intervals as f64;
            }
        }
        let (mut second, mut largest) = (0.0, 0.0_f64);
        for level in 0..levels(leaves) {
            let own = &coefficients[(1 << level) - 1..(2 << level) - 1];
            let probability = self.response.probability(level);
            second += own.iter().map(|value| value * value).sum::<f64>() / probability;
            largest = largest.max(own.iter().sum::<f64>() / probability);
        }
        let scale = self.response.scale();
        let logarithm = (1.0 / failure).ln() / clients;
        let range = (scale * largest + 1.0) * logarithm / 3.0;
        range + (range * range + 2.0 * scale * scale * second * logarithm).sqrt()
    }
}

/// `Σ_j H_{jk} values_j` for all k, in place: the fast Walsh-Hadamard transform.
fn transform(values: &mut [f64]) {
    let mut half = 1;
    while half < values.len() {
        for block in values.chunks_exact_mut(2 * half) {
            let (left, right) = block.split_at_mut(half);
            for (left, right) in left.iter_mut().zip(right) {
                (*left, *right) = (*left + *right, *left - *right);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clients that can be: all their weight in one interval or beyond, or spread over two places.
    fn clients(intervals: usize) -> Vec<Vec<i32>> {
        let mut clients = Vec::new();
        for first in 0..=intervals {
            for second in 0..=first {
                let mut weights = vec![0; intervals + 1];
                weights[first] += 3 * ONE / 4;
                weights[second] += ONE / 4;
                weights.pop();
                clients.push(weights);
            }
        }
        clients
    }

    /// Over every question and both signs, with their exact probabilities, for all clients: the ratio of the probabilities of a message
    /// under any two clients is at most e^ε and attains it, estimates have the right mean, and second moments are those that are stated.
    #[test]
    fn messages_are_private_and_estimates_unbiased_for_every_client() {
        for intervals in [1, 2, 3, 4, 6, 7, 9] {
            for epsilon in [0.5, 3.0] {
                let answers = Answers::new(intervals, Budget::pure(epsilon).unwrap()).unwrap();
                let response = answers.response();
                let turned = 1.0 / (1.0 + response.epsilon().exp());
                let mut extremes = vec![(1.0_f64, 0.0_f64); 2 * answers.questions()];
                for weights in clients(intervals) {
                    let (mut mean, mut second) = (vec![0.0; intervals], vec![0.0; intervals]);
                    let mut total = 0.0;
                    for (level, questions) in response.groups().iter().enumerate() {
                        for row in 0..1_u64 << questions.bits {
                            let value = f64::from(answers.value(&weights, level, row)) / f64::from(ONE);
                            assert!((-1.0..=1.0).contains(&value));
                            for positive in [true, false] {
                                let truth = f64::midpoint(1.0, if positive { value } else { -value });
                                let share = truth * (1.0 - turned) + (1.0 - truth) * turned;
                                let answer = Answer { group: level, question: row, positive };
                                let index = answers.index(&answer).unwrap();
                                let extreme = &mut extremes[2 * index + usize::from(positive)];
                                *extreme = (extreme.0.min(share), extreme.1.max(share));
                                let chance = share * response.probability(level) / (1_u64 << level) as f64;
                                let mut sums = vec![0.0; answers.questions()];
                                sums[index] = if positive { 1.0 } else { -1.0 };
                                let estimates = answers.estimates(&sums, 1.0);
                                for (midpoint, estimate) in estimates.into_iter().enumerate() {
                                    let centre = place(intervals + 1, midpoint + 1).position();
                                    mean[midpoint] += chance * estimate;
                                    second[midpoint] += chance * (estimate - centre).powi(2);
                                }
                                total += chance;
                            }
                        }
                    }
                    assert!((total - 1.0).abs() < 1e-12);
                    let mut truth = 0;
                    for (midpoint, weight) in weights.iter().enumerate() {
                        truth += weight;
                        let error = mean[midpoint] - f64::from(truth) / f64::from(ONE);
                        assert!(error.abs() < 1e-9, "{intervals} intervals at {midpoint}: {error}");
                        let stated = answers.deviation(midpoint + 1).powi(2);
                        assert!((second[midpoint] / stated - 1.0).abs() < 1e-9);
                    }
                }
                let ratio = extremes.iter().map(|(low, high)| high / low).fold(0.0, f64::max);
                assert!(
                    ratio <= epsilon.exp() * (1.0 + 1e-12) && ratio > epsilon.exp() * (1.0 - 1e-8),
                    "{ratio}"
                );
            }
        }
    }

    /// Against the published formula, which has eight levels of equal weight for 142 intervals: `κ² 8²/12`.
    #[test]
    fn deviations_at_142_intervals_are_below_the_published_ones() {
        let answers = Answers::new(142, Budget::pure(1.0).unwrap()).unwrap();
        let squares: f64 = (1..=142).map(|midpoint| answers.deviation(midpoint).powi(2)).sum();
        let (deviation, published) =
            ((squares / 142.0).sqrt(), answers.response().scale() * 8.0 / 12.0_f64.sqrt());
        assert!(deviation < published && published < 5.0, "{deviation} against {published}");
    }

    #[test]
    fn places_are_where_nodes_begin() {
        for leaves in [3_usize, 4, 5, 8, 13, 143] {
            for leaf in 1..leaves {
                let place = place(leaves, leaf);
                assert_eq!((place.numerator * leaves) >> place.level, leaf);
                assert!(place.level <= levels(leaves) && place.numerator % 2 == 1);
            }
        }
    }
}
