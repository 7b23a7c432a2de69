//! Exact inversion: a non-negative integer from one random word and a table of 64-bit thresholds.
//!
//! With weights `w_v` and `T_k = Σ_{v<k} w_v / Σ_v w_v`, the integer is the `k` with `T_k <= U < T_{k+1}`.
//! The thresholds are irrational; the table holds integers next to `2^64 T_k`, and words that fall on them
//! are settled with as many digits of `U` and of the thresholds as it takes.

use std::fmt;

use num_bigint::BigUint;
use rand::CryptoRng;

use super::bernoulli::{LazyUniform, Ratio};

/// How the weights decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decay {
    /// `w_v = exp(-rate v²)`
    Gaussian,
    /// `w_v = exp(-rate v)`
    Exponential,
}

/// The weights of a distribution on the non-negative integers.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    pub(super) decay: Decay,
    pub(super) rate: Ratio,
    /// Halves `w_0`, for magnitudes that a random sign follows: both signs of zero are the same integer.
    pub(super) halve_zero: bool,
}

/// A real number between two integers, in units of `2^-bits` where `bits` is known from the context.
#[derive(Debug, Clone)]
pub(super) struct Enclosure {
    pub(super) low: BigUint,
    pub(super) high: BigUint,
}

impl Enclosure {
    fn times(&self, other: &Self, bits: usize) -> Self {
        Self { low: (&self.low * &other.low) >> bits, high: ((&self.high * &other.high) >> bits) + 1u32 }
    }
}

/// `exp(-x)` for a rational `x >= 0`.
fn exp_neg(x: &Ratio, bits: usize) -> Enclosure {
    // With y = x / 2^halvings <= 1 the series of exp(-y) alternates with decreasing terms, so each partial
    // sum misses by less than the first term left out; squaring then undoes the halvings.
    let halvings =
        usize::try_from((x.numerator.bits() + 1).saturating_sub(x.denominator.bits())).unwrap_or(usize::MAX);
    let divisor = &x.denominator << halvings;
    let unit = BigUint::from(1u32) << bits;
    let mut term = Enclosure { low: unit.clone(), high: unit };
    // Sums of the terms with positive and with negative sign.
    let zero = Enclosure { low: BigUint::ZERO, high: BigUint::ZERO };
    let mut sums = [zero.clone(), zero];
    for order in 0u32.. {
        let sum = &mut sums[order as usize % 2];
        sum.low += &term.low;
        sum.high += &term.high;
        let divisor = &divisor * (order + 1);
        term.low = &term.low * &x.numerator / &divisor;
        term.high = &term.high * &x.numerator / &divisor + 1u32;
        if term.low == BigUint::ZERO {
            break;
        }
    }
    let [positive, negative] = sums;
    let subtrahend = negative.high + &term.high;
    let low = if positive.low > subtrahend { positive.low - subtrahend } else { BigUint::ZERO };
    let mut power = Enclosure { low, high: positive.high + term.high - negative.low };
    for _ in 0..halvings {
        power = power.times(&power, bits);
    }
    power
}

impl Weights {
    /// Enclosures of `T_1, T_2, …`, up to where the rest of the distribution is lost in the rounding.
    pub(super) fn thresholds(&self, bits: usize) -> Vec<Enclosure> {
        let unit = BigUint::from(1u32) << bits;
        // Consecutive weights have the ratio exp(-rate (2v + 1)) or exp(-rate): no further exponential is
        // needed.
        let mut ratio = exp_neg(&self.rate, bits);
        let ratio_of_ratios = match self.decay {
            Decay::Gaussian => Some(ratio.times(&ratio, bits)),
            Decay::Exponential => None,
        };
        let mut weight = Enclosure { low: unit.clone(), high: unit.clone() };
        let start = if self.halve_zero { &unit >> 1 } else { unit.clone() };
        let mut sum = Enclosure { low: start.clone(), high: start };
        let mut sums = Vec::new();
        loop {
            sums.push(sum.clone());
            weight = weight.times(&ratio, bits);
            if weight.low == BigUint::ZERO {
                break;
            }
            sum.low += &weight.low;
            sum.high += &weight.high;
            if let Some(factor) = &ratio_of_ratios {
                ratio = ratio.times(factor, bits);
            }
        }
        // The ratios never increase, so a geometric series bounds all the weights that were not summed.
        let rest = (weight.high << bits) / (&unit - ratio.high) + 1u32;
        let total = Enclosure { low: sum.low, high: sum.high + rest };
        sums.into_iter()
            .map(|sum| Enclosure {
                low: (sum.low << bits) / &total.high,
                high: (sum.high << bits) / &total.low + 1u32,
            })
            .collect()
    }
}

/// Bits of a random word that choose where the scan of the table starts.
const GUIDE_BITS: u32 = 8;

/// Samples a distribution on the non-negative integers exactly.
#[derive(Clone)]
pub(super) struct Inversion {
    weights: Weights,
    /// `last[k]` is the largest first digit with which `U < T_{k+1}` is possible. Only it and its predecessor
    /// leave that comparison open; the final entry is `u64::MAX`.
    last: Vec<u64>,
    /// `guide[b]` is the first `k` whose `last[k]` is not below every word that starts with the bits `b`.
    guide: [u16; 1 << GUIDE_BITS],
}

impl fmt::Debug for Inversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inversion").field("weights", &self.weights).finish_non_exhaustive()
    }
}

impl Inversion {
    /// Tabulates the thresholds.
    ///
    /// The rate must leave fewer than 2^16 weights above 2^-64 of the total: 1/2^11 (Gaussian) and 1/2^4
    /// (exponential) leave a few hundred.
    pub(super) fn new(weights: Weights) -> Self {
        // 128 bits are enough for every rate in use; the loop is what makes that a fact and not an
        // assumption.
        let mut bits = 128;
        let last = loop {
            if let Some(last) = tabulate(&weights.thresholds(bits), bits) {
                break last;
            }
            bits *= 2;
        };
        let guide = std::array::from_fn(|bucket| {
            let smallest = (bucket as u64) << (64 - GUIDE_BITS);
            last.partition_point(|&entry| entry < smallest) as u16
        });
        Self { weights, last, guide }
    }

    /// Draws one integer. Expected time is constant; one word is used except with probability below 2^-52.
    #[inline]
    pub(super) fn sample<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> u64 {
        let word = rng.next_u64();
        match self.locate(word) {
            Some(value) => value,
            None => self.locate_exactly(LazyUniform::starting_with(word), rng),
        }
    }

    /// The integer, where the first digit of `U` decides it.
    #[inline]
    fn locate(&self, word: u64) -> Option<u64> {
        let mut index = usize::from(self.guide[(word >> (64 - GUIDE_BITS)) as usize]);
        while word > self.last[index] {
            index += 1;
        }
        (word < self.last[index] - 1).then_some(index as u64)
    }

    /// The integer, from as many digits as it takes.
    #[cold]
    fn locate_exactly<R: CryptoRng + ?Sized>(&self, mut uniform: LazyUniform, rng: &mut R) -> u64 {
        let mut digits = 1;
        loop {
            // One spare digit keeps the enclosures thin beside the interval that U is known to lie in.
            let thresholds = self.weights.thresholds(64 * (digits + 1));
            let low = uniform.prefix(digits, rng) << 64;
            let high = &low + (BigUint::from(1u32) << 64);
            let index = thresholds.partition_point(|threshold| threshold.high <= low);
            if thresholds.get(index).is_some_and(|threshold| high <= threshold.low) {
                return index as u64;
            }
            digits += 1;
        }
    }
}

/// The entries `last[k]`, or nothing if the thresholds are not yet known well enough for 64-bit entries.
fn tabulate(thresholds: &[Enclosure], bits: usize) -> Option<Vec<u64>> {
    let mut entries = Vec::new();
    for Enclosure { low, high } in thresholds {
        // Less than half a unit wide: `high` rounds up to at most `floor(low) + 2`.
        if high - low >= BigUint::from(1u32) << (bits - 65) {
            return None;
        }
        let entry = u64::try_from(low >> (bits - 64)).ok()?.saturating_add(1);
        entries.push(entry);
        if entry == u64::MAX {
            return Some(entries);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::super::tests::Script;
    use super::*;

    fn ratio(numerator: u64, denominator: u64) -> Ratio {
        Ratio { numerator: numerator.into(), denominator: denominator.into() }
    }

    fn tables() -> Vec<Inversion> {
        [
            (Decay::Gaussian, 5000, 1),
            (Decay::Gaussian, 2, 5),
            (Decay::Gaussian, 1, 2047),
            (Decay::Exponential, 2, 17),
        ]
        .map(|(decay, n, d)| Inversion::new(Weights { decay, rate: ratio(n, d), halve_zero: n % 2 == 0 }))
        .into()
    }

    /// The decimal digits were computed independently, with 60-digit arithmetic.
    #[test]
    fn exponentials_are_enclosed() {
        for (x, digits) in [
            (ratio(1, 1), "367879441171442321595523770161460867445811131031767834507836"),
            (ratio(1, 2048), "999511837939889365387935756103002921334995329956222014848394"),
            (ratio(7, 3), "096971967864405062809906659298370731480720858924804393653047"),
        ] {
            for bits in [64, 128, 190] {
                let Enclosure { low, high } = exp_neg(&x, bits);
                let decimal: BigUint = digits.parse().unwrap();
                let scale = BigUint::from(10u32).pow(60);
                let value: BigUint = (decimal << bits) / scale;
                assert!(low <= value && value <= high, "exp(-{x:?})");
                assert!(high - low < BigUint::from(400u32));
            }
        }
    }

    #[test]
    fn tables_are_short_sorted_and_closed() {
        for table in tables() {
            assert!(table.last.is_sorted() && table.last.len() < 1000);
            assert_eq!(table.last.last(), Some(&u64::MAX));
        }
    }

    /// A word whose continuation is pinned to either side of a threshold goes to that side.
    #[test]
    fn ties_are_settled_by_the_digits_of_the_threshold() {
        for table in tables() {
            let mut settled = 0;
            // Each tie recomputes all thresholds at several precisions; every eleventh is enough.
            for (index, threshold) in table.weights.thresholds(320).into_iter().enumerate().step_by(11) {
                if table.last.get(index).is_none_or(|&last| last == u64::MAX) {
                    break;
                }
                let digits: BigUint = threshold.low >> 128;
                for (pinned, expected) in [(&digits - 2u32, index), (&digits + 2u32, index + 1)] {
                    let words: Vec<u64> = pinned.iter_u64_digits().rev().collect();
                    assert_eq!(table.locate(words[0]), None);
                    assert_eq!(table.sample(&mut Script::new(words)), expected as u64);
                    settled += 1;
                }
            }
            assert_eq!(settled, 2 * (table.last.len() - 1).div_ceil(11));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_table_and_the_slow_path_agree(word in any::<u64>(), seed in any::<u64>()) {
            for table in tables() {
                if let Some(value) = table.locate(word) {
                    let mut rng = ChaCha20Rng::seed_from_u64(seed);
                    prop_assert_eq!(table.locate_exactly(LazyUniform::starting_with(word), &mut rng), value);
                }
            }
        }
    }
}
