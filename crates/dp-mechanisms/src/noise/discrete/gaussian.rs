//! The discrete Gaussian.

use std::f64::consts::PI;

use num_bigint::BigUint;
use rand::CryptoRng;

use super::bernoulli::{Ratio, bernoulli_exp_neg_enclosed, bernoulli_exp_neg_ratio};
use super::inversion::{Decay, Inversion, Weights};
use super::{SamplerError, ratio_in_range, sign_and_low_bits, signed};

/// Blocks have a standard-deviation parameter below this power of two, and at least half of it if they hold
/// more than one integer each.
const LOG2_BLOCK_SCALE: u32 = 5;

/// Blocks below this one have an acceptance exponent below one, and fit the fixed-point arithmetic.
const FAST_BLOCKS: u64 = 1 << (2 * (LOG2_BLOCK_SCALE - 1));

/// The fixed-point exponent is below `2^64 γ` by less than this.
const SLACK: u64 = 5;

/// The bits of a random word that are left beside a sign.
const ONE_WORD: u32 = 63;

/// The discrete Gaussian `P(y) ∝ exp(-y² / 2σ²)` on the integers, with rational `σ²`, sampled exactly.
///
/// | parameter | accepted |
/// |---|---|
/// | `σ² = numerator/denominator` | 2^-14 to 2^124, both ends included |
/// | `σ² = 4^doublings · numerator/denominator` | to 2^200 ([`DiscreteGaussian::wide`]) |
/// | `σ` as a double | 2^-7 to 2^62, both ends included |
///
/// The range is that of the *parameter*; for the variance of the samples see [`variance`](Self::variance).
///
/// **Privacy.** Added to an integer vector whose neighbours differ by at most Δ in ℓ2 norm, independent
/// samples give Δ²/(2σ²)-zCDP, the same as the continuous Gaussian (Canonne, Kamath and Steinke, *The
/// Discrete Gaussian for Differential Privacy*, 2020), and compose adaptively as zCDP does. Calibrations
/// through μ-GDP or the exact (ε, δ) curve of the continuous Gaussian are *not* covered by that theorem.
/// Timing: see the [module](super).
///
/// **Complexity.** A table of at most a few hundred words is built once, in a fraction of a millisecond. A
/// sample takes constant expected time at every σ and about three random words, and allocates nothing except
/// with probability below 2^-50.
///
/// # Example
///
/// ```
/// use dp_mechanisms::noise::discrete::DiscreteGaussian;
/// use rand::SeedableRng;
///
/// let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(7);
/// let noise = DiscreteGaussian::new(5, 2)?; // σ² = 5/2
/// let noisy_count: i128 = 1234 + noise.sample(&mut rng);
/// assert!((1200..1270).contains(&noisy_count));
/// # Ok::<(), dp_mechanisms::noise::discrete::SamplerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DiscreteGaussian {
    numerator: u128,
    denominator: u128,
    /// `σ² = 4^doublings · numerator / denominator`.
    doublings: u32,
    /// A magnitude is `2^low_bits · block + low`.
    low_bits: u32,
    blocks: Inversion,
    /// `1/s²` in units of 2^-72, rounded down, where `s = σ / 2^low_bits` is the scale of the blocks.
    inverse_block_variance: u64,
}

impl DiscreteGaussian {
    /// The sampler with `σ² = numerator / denominator`.
    ///
    /// # Errors
    ///
    /// [`SamplerError::InvalidVariance`] unless `σ²` is in [2^-14, 2^124].
    pub fn new(numerator: u128, denominator: u128) -> Result<Self, SamplerError> {
        if !ratio_in_range(numerator, denominator, 14, 124) {
            return Err(SamplerError::InvalidVariance { numerator, denominator });
        }
        Ok(Self::scaled(numerator, denominator, 0))
    }

    /// The sampler with `σ² = 4^doublings · numerator / denominator`, for noise wider than [`Self::new`] allows: what
    /// stands below the blocks takes two random words in place of one from `σ = 2^68` on.
    ///
    /// # Errors
    ///
    /// [`SamplerError::InvalidVariance`] unless `numerator / denominator` is in [1, 2^124] and `σ²` at most 2^200.
    pub fn wide(numerator: u128, denominator: u128, doublings: u32) -> Result<Self, SamplerError> {
        if doublings == 0 {
            return Self::new(numerator, denominator);
        }
        let fits = ratio_in_range(numerator, denominator, 0, 124)
            && doublings <= 100
            && ratio_in_range(numerator, denominator, 0, (200 - 2 * doublings).min(124));
        if !fits {
            return Err(SamplerError::InvalidVariance { numerator, denominator });
        }
        Ok(Self::scaled(numerator, denominator, doublings))
    }

    fn scaled(numerator: u128, denominator: u128, doublings: u32) -> Self {
        let (a, b) = (BigUint::from(numerator) << (2 * doublings), BigUint::from(denominator));
        // The least j with σ² < 4^j · 4^5; it is at most 96 because σ² <= 2^200.
        let mut low_bits = 0;
        while a >= &b << (2 * (low_bits + LOG2_BLOCK_SCALE)) {
            low_bits += 1;
        }
        // With j > 0 the blocks have s² >= 4^4, so this is at most 2^64. Lowering 2^64 by one keeps it a
        // lower bound within one unit. With j = 0 it is never used.
        let inverse_block_variance = (&b << (2 * low_bits + 72)) / &a;
        let inverse_block_variance = u64::try_from(inverse_block_variance).unwrap_or(u64::MAX);
        let rate = Ratio { numerator: b << (2 * low_bits), denominator: a << 1 };
        let blocks = Inversion::new(Weights { decay: Decay::Gaussian, rate, halve_zero: low_bits == 0 });
        Self { numerator, denominator, doublings, low_bits, blocks, inverse_block_variance }
    }

    /// The sampler whose `σ` is exactly the given double: its square is a rational of 128-bit integers.
    ///
    /// # Errors
    ///
    /// [`SamplerError::InvalidStandardDeviation`] unless `σ` is a number in [2^-7, 2^62].
    pub fn with_standard_deviation(sigma: f64) -> Result<Self, SamplerError> {
        if !(1.0 / 128.0..=(1u64 << 62) as f64).contains(&sigma) {
            return Err(SamplerError::InvalidStandardDeviation { value: sigma });
        }
        // σ = mantissa · 2^exponent; the range excludes subnormal numbers and gives -59 <= exponent <= 10.
        let bits = sigma.to_bits();
        let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
        let exponent = (bits >> 52).cast_signed() as i32 - 1075;
        let shift = 2 * exponent.unsigned_abs();
        if exponent < 0 {
            Self::new(mantissa * mantissa, 1 << shift)
        } else {
            Self::new((mantissa * mantissa) << shift, 1)
        }
    }

    /// Draws one sample.
    ///
    /// The magnitude is below 2^123; the chance that it exceeds `kσ` is below `2 exp(-k²/2)`.
    #[inline]
    pub fn sample<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> i128 {
        if self.low_bits > ONE_WORD {
            return self.sample_wide(rng);
        }
        loop {
            let block = self.blocks.sample(rng);
            let (negative, low) = sign_and_low_bits(rng.next_u64(), self.low_bits);
            if self.low_bits == 0 {
                return signed(negative, block.into());
            }
            let magnitude = u128::from(block) << self.low_bits | u128::from(low);
            let is_second_zero = negative && magnitude == 0;
            if !is_second_zero && self.accept(block, low.into(), rng) {
                return signed(negative, magnitude);
            }
        }
    }

    /// [`Self::sample`] with more low bits than one word holds beside the sign.
    fn sample_wide<R: CryptoRng + ?Sized>(&self, rng: &mut R) -> i128 {
        loop {
            let block = self.blocks.sample(rng);
            let (negative, high) = sign_and_low_bits(rng.next_u64(), ONE_WORD);
            let low =
                (u128::from(high) << 64 | u128::from(rng.next_u64())) >> (64 + ONE_WORD - self.low_bits);
            // 2^26 blocks are 2^21 deviations and more: the chance is below exp(-2^41), and the sum stays below 2^123.
            if block >> 26 != 0 {
                continue;
            }
            let magnitude = u128::from(block) << self.low_bits | low;
            let is_second_zero = negative && magnitude == 0;
            if !is_second_zero && self.accept(block, low, rng) {
                return signed(negative, magnitude);
            }
        }
    }

    /// True with probability `exp(-γ)`, where `γ = ((2^j block + low)² - (2^j block)²) / 2σ²`.
    #[inline]
    fn accept<R: CryptoRng + ?Sized>(&self, block: u64, low: u128, rng: &mut R) -> bool {
        let exact = || self.exponent(block, low);
        if block < FAST_BLOCKS {
            bernoulli_exp_neg_enclosed(self.exponent_head(block, low), SLACK, exact, rng)
        } else {
            bernoulli_exp_neg_ratio(exact(), rng)
        }
    }

    /// `γ = x (block + x/2) / s²` with `x = low / 2^j`, in units of 2^-64, too small by less than [`SLACK`].
    ///
    /// `x` is exact in 64 bits, or cut to units of 2^-64 if there are more: against `(block + x)/s² < 2^8/2^8` that is worth
    /// less than one final unit. `block + x/2 < 2^8` and then its product with `x` are cut to units of 2^-56;
    /// divided by `s² >= 2^8` each cut is worth less than one final unit. The stored `1/s²` is
    /// short by at most 2^-72, worth less than one unit against a product below 2^8, and the last cut by less
    /// than one.
    #[inline]
    fn exponent_head(&self, block: u64, low: u128) -> u64 {
        // The highest 64 of the low bits.
        let x = (low << (128 - self.low_bits) >> 64) as u64;
        let midpoint = block << 56 | x >> 9;
        high_half(high_half(x, midpoint), self.inverse_block_variance)
    }

    /// `γ` itself.
    #[cold]
    fn exponent(&self, block: u64, low: u128) -> Ratio {
        let sum = (BigUint::from(block) << (self.low_bits + 1)) + low;
        let denominator = BigUint::from(self.numerator) << (2 * self.doublings + 1);
        Ratio { numerator: sum * low * self.denominator, denominator }
    }

    /// `σ²` as a double; not quite the variance of the samples when `σ` is small.
    pub fn variance_parameter(&self) -> f64 {
        libm::ldexp(self.numerator as f64 / self.denominator as f64, 2 * self.doublings.cast_signed())
    }

    /// The variance of a sample, `Σ y² exp(-y²/2σ²) / Σ exp(-y²/2σ²)`, for error statements.
    ///
    /// It is below `σ²`, by less than one part in 10^6 from `σ = 1` on and less than one in 10^15 from
    /// `σ = 1.5` on. The relative error of the result is a few units of 2^-52 (times `1/σ²` below `σ = 1`, the
    /// condition of the exponential).
    pub fn variance(&self) -> f64 {
        let parameter = self.variance_parameter();
        // Either the sum itself or its Poisson dual, whichever has an exponent of at least π.
        if parameter < 1.0 / (2.0 * PI) {
            let (zeroth, second) = theta_moments(0.5 / parameter);
            second / zeroth
        } else {
            let (zeroth, second) = theta_moments(2.0 * PI * PI * parameter);
            parameter - 4.0 * PI * PI * parameter * parameter * (second / zeroth)
        }
    }
}

/// The upper word of a product.
#[inline]
fn high_half(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// `Σ exp(-rate n²)` and `Σ n² exp(-rate n²)` over the integers, for `rate >= π`.
fn theta_moments(rate: f64) -> (f64, f64) {
    // The fifth pair of terms is below exp(-16π) relative to the first.
    (1..=4).fold((1.0, 0.0), |(zeroth, second), n| {
        let square = f64::from(n * n);
        let pair = 2.0 * (-rate * square).exp();
        (zeroth + pair, second + square * pair)
    })
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    const SMALLEST: f64 = 1.0 / 128.0;

    proptest! {
        // Each case builds tables.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_fixed_point_exponent_is_within_its_slack(
            numerator in (1u128 << 10)..(1 << 124), denominator in 1u128..1000, block in 0..FAST_BLOCKS, bits in any::<u64>(),
        ) {
            prop_assume!(numerator / denominator > 1024);
            let sampler = DiscreteGaussian::new(numerator, denominator).unwrap();
            let (_, low) = sign_and_low_bits(bits, sampler.low_bits);
            let low = u128::from(low);
            let head = sampler.exponent_head(block, low);
            let Ratio { numerator, denominator } = sampler.exponent(block, low);
            let scaled = numerator << 64;
            prop_assert!(BigUint::from(head) * &denominator <= scaled);
            prop_assert!((BigUint::from(head) + SLACK) * &denominator > scaled);
            prop_assert!(scaled >> 64 < denominator);
        }

        #[test]
        fn the_fixed_point_exponent_of_wide_noise_is_within_its_slack(
            numerator in (1u128 << 100)..(1 << 124), denominator in 1u128..1000, doublings in 20_u32..=38,
            block in 0..FAST_BLOCKS, bits in any::<u128>(),
        ) {
            let sampler = DiscreteGaussian::wide(numerator, denominator, doublings).unwrap();
            let low = bits >> (128 - sampler.low_bits);
            prop_assert!(sampler.low_bits > ONE_WORD && sampler.low_bits <= 96);
            let head = sampler.exponent_head(block, low);
            let Ratio { numerator, denominator } = sampler.exponent(block, low);
            let scaled = numerator << 64;
            prop_assert!(BigUint::from(head) * &denominator <= scaled);
            prop_assert!((BigUint::from(head) + SLACK) * &denominator > scaled);
        }

        #[test]
        fn every_constructor_answers(numerator in any::<u128>(), denominator in any::<u128>(), shift in 0u32..128) {
            for (a, b) in [(numerator, denominator >> shift), (numerator >> shift, denominator), (numerator >> shift, 1)] {
                let (low, high) = (BigUint::from(a) << 14, BigUint::from(b) << 124);
                let valid = b > 0 && low >= BigUint::from(b) && BigUint::from(a) <= high;
                match DiscreteGaussian::new(a, b) {
                    Ok(_) => prop_assert!(valid),
                    Err(error) => {
                        prop_assert!(!valid);
                        prop_assert_eq!(error, SamplerError::InvalidVariance { numerator: a, denominator: b });
                    }
                }
            }
        }

        #[test]
        fn doubles_are_taken_exactly(sigma in (SMALLEST..1e6).prop_map(|x| x * x * x)) {
            prop_assume!(sigma >= SMALLEST && sigma <= (1u64 << 62) as f64);
            let sampler = DiscreteGaussian::with_standard_deviation(sigma).unwrap();
            // Squares of doubles have 106 bits: compare through exact products.
            let (p, q) = (BigUint::from(sampler.numerator).sqrt(), BigUint::from(sampler.denominator).sqrt());
            prop_assert_eq!(&p * &p, BigUint::from(sampler.numerator));
            prop_assert_eq!(&q * &q, BigUint::from(sampler.denominator));
            prop_assert_eq!(u128::try_from(p).unwrap() as f64 / u128::try_from(q).unwrap() as f64, sigma);
        }
    }

    #[test]
    fn the_ends_of_the_ranges_are_checked() {
        for (a, b) in [(1, 1 << 14), (1 << 124, 1), (u128::MAX, u128::MAX), (u128::MAX, 16)] {
            assert!(DiscreteGaussian::new(a, b).is_ok(), "{a}/{b}");
        }
        for (a, b) in
            [(0, 0), (1, 0), (0, 1), (1, (1 << 14) + 1), ((1 << 124) + 1, 1), (1, u128::MAX), (u128::MAX, 1)]
        {
            assert!(DiscreteGaussian::new(a, b).is_err(), "{a}/{b}");
        }
        let largest = (1u64 << 62) as f64;
        assert!(DiscreteGaussian::with_standard_deviation(SMALLEST).is_ok());
        assert!(DiscreteGaussian::with_standard_deviation(largest).is_ok());
        for sigma in [f64::NAN, f64::INFINITY, 0.0, -1.0, SMALLEST.next_down(), largest.next_up()] {
            assert!(DiscreteGaussian::with_standard_deviation(sigma).is_err(), "{sigma}");
        }
    }

    #[test]
    fn wide_noise_ends_where_its_sums_would_overflow() {
        assert!(DiscreteGaussian::wide(1 << 124, 1, 38).is_ok());
        assert!(DiscreteGaussian::wide((1 << 124) + 1, 1, 38).is_err());
        assert!(DiscreteGaussian::wide(1 << 124, 1, 39).is_err());
        assert!(DiscreteGaussian::wide(1, 2, 3).is_err() && DiscreteGaussian::wide(1, 1, 101).is_err());
        assert!(DiscreteGaussian::wide(1, 1, u32::MAX).is_err());
        // Without doublings it is the same sampler.
        let (a, b) =
            (DiscreteGaussian::new(1 << 80, 3).unwrap(), DiscreteGaussian::wide(1 << 80, 3, 0).unwrap());
        let draw = |sampler: &DiscreteGaussian| {
            let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(3);
            (0..50).map(|_| sampler.sample(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(&a), draw(&b));
    }

    /// 40,000 samples of `σ = 2^90` in 16 cells of probability 1/16 each: chi-squared with 15 degrees of freedom exceeds 44.3
    /// with probability 1e-4, and does so by far for noise that is two thirds or three halves as wide.
    #[test]
    fn wide_noise_has_the_law_of_a_gaussian() {
        let sampler = DiscreteGaussian::wide(1 << 120, 1, 30).unwrap();
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(11);
        let scale = 2.0_f64.powi(90);
        let samples: Vec<f64> = (0..40_000).map(|_| sampler.sample(&mut rng) as f64 / scale).collect();
        let statistic = |stretch: f64| {
            let mut cells = [0_u32; 16];
            for sample in &samples {
                let rank = 0.5 * libm::erfc(-sample * stretch / std::f64::consts::SQRT_2);
                cells[((rank * 16.0) as usize).min(15)] += 1;
            }
            cells.iter().map(|count| (f64::from(*count) - 2500.0).powi(2) / 2500.0).sum::<f64>()
        };
        assert!(statistic(1.0) < 44.3, "{}", statistic(1.0));
        assert!(statistic(1.5) > 1000.0 && statistic(2.0 / 3.0) > 1000.0);
        // The lowest bits are bits: as many odd as even samples, within five deviations.
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(12);
        let odd: u32 = (0..40_000).map(|_| (sampler.sample(&mut rng) & 1) as u32).sum();
        assert!((f64::from(odd) - 20_000.0).abs() < 500.0, "{odd}");
    }

    /// Reference values: the defining sums in 60-digit arithmetic.
    #[test]
    fn the_variance_is_the_true_one() {
        for (a, b, variance) in [
            (1, 100, 3.857_499_695_927_835_6e-22),
            (1, 10, 0.013_296_725_173_624_157),
            (4, 25, 0.080_802_637_955_378_84),
            (1, 4, 0.215_012_675_088_138_48),
            (1, 2, 0.498_979_130_832_820_47),
            (1, 1, 0.999_999_788_767_728_1),
            (5, 2, 2.5),
            (100, 1, 100.0),
        ] {
            let computed = DiscreteGaussian::new(a, b).unwrap().variance();
            assert_relative_eq!(computed, variance, max_relative = 2e-14);
        }
    }
}
