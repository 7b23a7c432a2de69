//! The discrete Laplace (two-sided geometric) distribution.

use num_bigint::BigUint;
use rand::CryptoRng;

use super::bernoulli::{Ratio, bernoulli_exp_neg_enclosed};
use super::inversion::{Decay, Inversion, Weights};
use super::{SamplerError, ratio_in_range, sign_and_low_bits, signed};

/// Blocks have a scale below this power of two, and at least half of it if they hold more than one integer
/// each.
const LOG2_BLOCK_SCALE: u32 = 4;

/// The fixed-point exponent is below `2^64 γ` by less than this.
const SLACK: u64 = 2;

/// The discrete Laplace distribution `P(y) ∝ exp(-|y| / s)` on the integers, with rational scale `s`, sampled
/// exactly.
///
/// | parameter | accepted |
/// |---|---|
/// | `s = numerator/denominator` | 2^-7 to 2^62, both ends included |
///
/// **Privacy.** Added to an integer vector whose neighbours differ by at most Δ in ℓ1 norm, independent
/// samples give (Δ/s, 0)-differential privacy (Ghosh, Roughgarden and Sundararajan, 2009). Timing: see the
/// [module](super).
///
/// **Complexity.** As for [`DiscreteGaussian`](super::DiscreteGaussian): one table of several hundred words,
/// built in about a millisecond, then constant expected time and about three random words per sample.
///
/// # Example
///
/// ```
/// use dp_mechanisms::noise::discrete::DiscreteLaplace;
/// use rand::SeedableRng;
///
/// let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(7);
/// let noise = DiscreteLaplace::new(10, 3)?; // ε = 0.3 per unit of sensitivity
/// let noisy_count: i128 = 1234 + noise.sample(&mut rng);
/// assert!((1100..1400).contains(&noisy_count));
/// # Ok::<(), dp_mechanisms::noise::discrete::SamplerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DiscreteLaplace {
    numerator: u128,
    denominator: u128,
    /// A magnitude is `2^low_bits · block + low`.
    low_bits: u32,
    blocks: Inversion,
    /// `2^low_bits / s`, the reciprocal of the scale of the blocks, in units of 2^-67, rounded down.
    inverse_block_scale: u64,
}

impl DiscreteLaplace {
    /// The sampler with scale `numerator / denominator`.
    ///
    /// # Errors
    ///
    /// [`SamplerError::InvalidScale`] unless the scale is in [2^-7, 2^62].
    pub fn new(numerator: u128, denominator: u128) -> Result<Self, SamplerError> {
        if !ratio_in_range(numerator, denominator, 7, 62) {
            return Err(SamplerError::InvalidScale { numerator, denominator });
        }
        let (a, b) = (BigUint::from(numerator), BigUint::from(denominator));
        // The least j with s < 2^j · 2^4; it is at most 59 because s <= 2^62.
        let mut low_bits = 0;
        while a >= &b << (low_bits + LOG2_BLOCK_SCALE) {
            low_bits += 1;
        }
        // With j > 0 the blocks have a scale of at least 2^3, so this is at most 2^64; one less is still a
        // lower bound within one unit. With j = 0 it is never used.
        let inverse_block_scale = (&b << (low_bits + 67)) / &a;
        let inverse_block_scale = u64::try_from(inverse_block_scale).unwrap_or(u64::MAX);
        let rate = Ratio { numerator: b << low_bits, denominator: a };
        let blocks = Inversion::new(Weights { decay: Decay::Exponential, rate, halve_zero: low_bits == 0 });
        Ok(Self { numerator, denominator, low_bits, blocks, inverse_block_scale })
    }

    /// Draws one sample.
    ///
    /// The magnitude is below 2^123; the chance that it exceeds `ks` is below `2 exp(-k)`.
    #[inline]
    pub fn sample<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> i128 {
        loop {
            let block = self.blocks.sample(rng);
            let (negative, low) = sign_and_low_bits(rng.next_u64(), self.low_bits);
            if self.low_bits == 0 {
                return signed(negative, block.into());
            }
            let magnitude = u128::from(block) << self.low_bits | u128::from(low);
            let is_second_zero = negative && magnitude == 0;
            if !is_second_zero
                && bernoulli_exp_neg_enclosed(self.exponent_head(low), SLACK, || self.exponent(low), rng)
            {
                return signed(negative, magnitude);
            }
        }
    }

    /// `γ = low / s`, at most 1/8, in units of 2^-64, too small by less than [`SLACK`].
    ///
    /// The stored reciprocal is short by at most 2^-67, worth less than an eighth of a unit, and the cut by
    /// less than one.
    #[inline]
    fn exponent_head(&self, low: u64) -> u64 {
        let x = low << (64 - self.low_bits);
        ((u128::from(x) * u128::from(self.inverse_block_scale)) >> 67) as u64
    }

    /// `γ` itself.
    #[cold]
    fn exponent(&self, low: u64) -> Ratio {
        Ratio { numerator: BigUint::from(low) * self.denominator, denominator: self.numerator.into() }
    }

    /// The variance of a sample, `1 / (2 sinh²(1/2s))`, for error statements.
    pub fn variance(&self) -> f64 {
        let sinh = (0.5 * self.denominator as f64 / self.numerator as f64).sinh();
        0.5 / (sinh * sinh)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Each case builds tables.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_fixed_point_exponent_is_within_its_slack(
            numerator in 16u128..(1 << 62), denominator in 1u128..1000, bits in any::<u64>(),
        ) {
            prop_assume!(numerator / denominator > 16);
            let sampler = DiscreteLaplace::new(numerator, denominator).unwrap();
            let (_, low) = sign_and_low_bits(bits, sampler.low_bits);
            let head = sampler.exponent_head(low);
            let Ratio { numerator, denominator } = sampler.exponent(low);
            let scaled = numerator << 64;
            prop_assert!(BigUint::from(head) * &denominator <= scaled);
            prop_assert!((BigUint::from(head) + SLACK) * &denominator > scaled);
        }

        #[test]
        fn every_constructor_answers(numerator in any::<u128>(), denominator in any::<u128>(), shift in 0u32..128) {
            for (a, b) in [(numerator, denominator >> shift), (numerator >> shift, denominator), (numerator >> shift, 1)] {
                let (low, high) = (BigUint::from(a) << 7, BigUint::from(b) << 62);
                let valid = b > 0 && low >= BigUint::from(b) && BigUint::from(a) <= high;
                prop_assert_eq!(DiscreteLaplace::new(a, b).is_ok(), valid);
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_are_checked() {
        for (a, b) in [(1, 1 << 7), (1 << 62, 1), (u128::MAX, u128::MAX)] {
            assert!(DiscreteLaplace::new(a, b).is_ok(), "{a}/{b}");
        }
        for (a, b) in [(0, 0), (1, 0), (0, 1), (1, (1 << 7) + 1), ((1 << 62) + 1, 1), (u128::MAX, 1)] {
            let expected = SamplerError::InvalidScale { numerator: a, denominator: b };
            assert_eq!(DiscreteLaplace::new(a, b).unwrap_err(), expected);
        }
    }
}
