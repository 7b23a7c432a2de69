//! Randomized response: a client answers one question by one sign, which is wrong with a probability that hides the client.

use std::num::NonZeroU64;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::Seed;
use super::discrete::bernoulli_exp_neg;
use crate::budget::Budget;
use crate::error::{Error, Result};

/// Privacy losses are multiples of 2^-32.
const LOSS_UNIT: NonZeroU64 = NonZeroU64::MIN.saturating_add((1 << 32) - 1);

/// The largest privacy loss that is made use of: a sign is then wrong once in e^32 times, and less would be no use to anybody.
const LARGEST_LOSS: f64 = 32.0;

/// The value 1 of a client, in units of [`RandomizedResponse::answer`].
pub const ONE: i32 = 1 << 16;

/// Questions of equal probability, a power of two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Questions {
    /// The probability that one of them is drawn, in units of 2^-32.
    pub weight: u32,
    /// The logarithm of their number.
    pub bits: u32,
}

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The group of the question.
    pub group: usize,
    /// The question in its group.
    pub question: u64,
    /// The sign.
    pub positive: bool,
}

/// One question, drawn from public groups without a look at the data, and its answer: a sign whose mean is the client's value v in [-1, 1]
/// divided by [`Self::scale`].
///
/// # Privacy
/// The truth is a sign with mean v, drawn first. It is turned with probability `1/(1 + e^ε')` exactly, where ε' is ε rounded down to
/// a multiple of 2^-32. Whatever the client's value, either sign has a probability between `1/(1 + e^ε')` and `e^ε'/(1 + e^ε')`, and the
/// question does not depend on the client: the answer is ε'-differentially private under replacement, δ = 0 (Warner 1965). Everything is
/// drawn in integers, and nothing else is sent: no bit of an answer says more.
///
/// # Example
/// ```
/// use dp_mechanisms::noise::response::{ONE, Questions, RandomizedResponse};
/// use dp_mechanisms::{Budget, Seed};
/// // One question: are you on the left?
/// let response = RandomizedResponse::new(Budget::pure(1.0)?, vec![Questions { weight: u32::MAX, bits: 0 }])?;
/// let answer = response.answer(Seed::from_system()?, |_, _| ONE);
/// println!("{}", if answer.positive { "yes" } else { "no" });
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RandomizedResponse {
    budget: Budget,
    /// ε' in units of 2^-32.
    loss: u64,
    groups: Vec<Questions>,
}

impl RandomizedResponse {
    /// For a budget of any form, see [`Budget::pure_epsilon`]. What the weights lack to 1 goes to the last group.
    ///
    /// # Errors
    /// No groups, groups of more than 2^63 questions, weights of more than 1, or an ε below 2^-32.
    pub fn new(budget: Budget, groups: Vec<Questions>) -> Result<Self> {
        let epsilon = budget.pure_epsilon();
        let loss = (epsilon.min(LARGEST_LOSS) * LOSS_UNIT.get() as f64).floor();
        if !(loss >= 1.0) {
            return Err(Error::OutOfRange {
                what: "epsilon of an answer",
                value: epsilon,
                range: "at least 2^-32",
            });
        }
        let mut groups = groups;
        let total: u64 = groups.iter().map(|group| u64::from(group.weight)).sum();
        let range = "at least one group, weights of at most 1, at most 2^63 questions each";
        let bits = groups.iter().map(|group| group.bits).max().unwrap_or(u32::MAX);
        let refused = Error::OutOfRange { what: "weight of all questions", value: total as f64, range };
        let (Some(last), Some(rest)) = (groups.last_mut(), LOSS_UNIT.get().checked_sub(total)) else {
            return Err(refused);
        };
        last.weight = u32::try_from(u64::from(last.weight) + rest).unwrap_or(u32::MAX);
        if bits > 63 {
            return Err(refused);
        }
        Ok(Self { budget, loss: loss as u64, groups })
    }

    /// ε', which is at most the ε of the budget.
    pub fn epsilon(&self) -> f64 {
        self.loss as f64 / LOSS_UNIT.get() as f64
    }

    /// The budget that it was made for.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The groups of questions.
    pub fn groups(&self) -> &[Questions] {
        &self.groups
    }

    /// The probability of a group, in the arithmetic of [`Self::answer`].
    pub fn probability(&self, group: usize) -> f64 {
        let weight = self.groups.get(group).map_or(0, |group| u64::from(group.weight));
        // A single group is always drawn, whatever 32 bits hold.
        if self.groups.len() == 1 { 1.0 } else { weight as f64 / LOSS_UNIT.get() as f64 }
    }

    /// `(e^ε' + 1)/(e^ε' - 1)`: a sign times this has the mean v, and this is its largest deviation.
    pub fn scale(&self) -> f64 {
        1.0 / (self.epsilon() / 2.0).tanh()
    }

    /// The answer of one client, who is used up by it. The value is that of the client for a group and a question of it, in units of
    /// 2^-16; beyond 1 it is 1.
    pub fn answer(&self, seed: Seed, value: impl FnOnce(usize, u64) -> i32) -> Answer {
        let mut generator = ChaCha20Rng::from_seed(*seed.expose());
        let mut place = generator.next_u32();
        let mut group = 0;
        while let Some(questions) = self.groups.get(group).filter(|_| group + 1 < self.groups.len()) {
            if place < questions.weight {
                break;
            }
            place -= questions.weight;
            group += 1;
        }
        let bits = self.groups.get(group).map_or(0, |questions| questions.bits);
        let question = generator.next_u64() & ((1 << bits) - 1);
        let value = value(group, question).clamp(-ONE, ONE);
        // 17 bits: of 2^17 places, 2^16 (1 + v) are positive.
        let truth = i64::from(generator.next_u32() >> 15) < i64::from(ONE) + i64::from(value);
        Answer { group, question, positive: truth != self.turned(&mut generator) }
    }

    /// True with probability `1/(1 + e^ε')`. In each round a fair coin says no, or else a coin of probability `q = e^-ε'` says yes, or else
    /// there is another round: yes has `(q/2)/(1/2 + q/2)` of the rounds that end.
    fn turned(&self, generator: &mut ChaCha20Rng) -> bool {
        loop {
            if generator.next_u32() >> 31 == 0 {
                return false;
            }
            if bernoulli_exp_neg(self.loss, LOSS_UNIT, generator) {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coin(budget: Budget) -> RandomizedResponse {
        RandomizedResponse::new(budget, vec![Questions { weight: u32::MAX, bits: 0 }]).unwrap()
    }

    /// 40 000 answers each, seeded; α = 1e-4 two-sided (3.9 deviations) for each of 9 frequencies. Power: with 1.5 ε or 2/3 ε the
    /// frequency at the value 1 is 7 to 30 limits away.
    #[test]
    fn signs_are_turned_as_often_as_the_budget_asks_for() {
        let number = 40_000;
        for epsilon in [0.3, 1.0, 2.5_f64] {
            let response = coin(Budget::pure(epsilon).unwrap());
            for value in [1.0, 0.0, -0.625] {
                let positive = (0..number)
                    .filter(|seed| {
                        let value = (value * f64::from(ONE)) as i32;
                        response.answer(Seed::reproducible(*seed), |_, _| value).positive
                    })
                    .count();
                let frequency = positive as f64 / number as f64;
                let expected = |epsilon: f64| f64::midpoint(1.0, value * (epsilon / 2.0).tanh());
                let limit = 3.9 * 0.5 / (number as f64).sqrt();
                assert!(
                    (frequency - expected(epsilon)).abs() < limit,
                    "ε = {epsilon}, v = {value}: {frequency}"
                );
                if value == 1.0 {
                    for other in [1.5 * epsilon, epsilon / 1.5] {
                        assert!((frequency - expected(other)).abs() > limit, "no power at {epsilon}");
                    }
                }
            }
        }
    }

    /// 32 768 questions, seeded: by groups of 1/2, 1/8 and 3/8, within 3.9 deviations (α = 1e-4 for each).
    #[test]
    fn questions_are_drawn_by_their_weights() {
        let groups = [(1 << 31, 0), (1 << 29, 1), (0, 2)].map(|(weight, bits)| Questions { weight, bits });
        let response = RandomizedResponse::new(Budget::pure(1.0).unwrap(), groups.to_vec()).unwrap();
        assert_eq!([0, 1, 2, 3].map(|group| response.probability(group)), [0.5, 0.125, 0.375, 0.0]);
        let number = 32_768_u64;
        let mut counts = std::collections::HashMap::new();
        for seed in 0..number {
            let answer = response.answer(Seed::reproducible(seed), |_, _| 0);
            *counts.entry((answer.group, answer.question)).or_insert(0.0) += 1.0 / number as f64;
        }
        assert_eq!(counts.len(), 7);
        for ((group, question), share) in counts {
            let expected = response.probability(group) / f64::from(1 << response.groups()[group].bits);
            let deviation = (expected * (1.0 - expected) / number as f64).sqrt();
            assert!((share - expected).abs() < 3.9 * deviation, "{group}, {question}: {share}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_budgets_are_rounded_down() {
        let one = Questions { weight: 1 << 31, bits: 0 };
        let budget = Budget::pure(1.0).unwrap();
        assert!(RandomizedResponse::new(budget, Vec::new()).is_err());
        assert!(RandomizedResponse::new(budget, vec![one; 3]).is_err());
        assert!(RandomizedResponse::new(budget, vec![Questions { bits: 64, ..one }]).is_err());
        assert!(RandomizedResponse::new(Budget::pure(1e-12).unwrap(), vec![one]).is_err());
        for epsilon in [0.1, 1.0, 3.3] {
            let used = coin(Budget::pure(epsilon).unwrap()).epsilon();
            assert!(used <= epsilon && used > epsilon - 1e-9);
        }
        assert_eq!(coin(Budget::gaussian(1e9).unwrap()).epsilon(), LARGEST_LOSS);
    }
}
