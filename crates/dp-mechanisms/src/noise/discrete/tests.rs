//! Statistics with stated size and level, golden vectors from an independent model, and scripted ties.

use std::convert::Infallible;
use std::num::NonZeroU64;

use rand::{Rng, SeedableRng, TryCryptoRng, TryRng};
use rand_chacha::ChaCha20Rng;

use super::*;

/// A generator that plays back the given words and then must not be asked again.
pub(super) struct Script(std::vec::IntoIter<u64>);

impl Script {
    pub(super) fn new(words: Vec<u64>) -> Self {
        Self(words.into_iter())
    }
}

impl TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|word| word as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next().expect("the script has enough words"))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for byte in dst {
            *byte = self.next_u64() as u8;
        }
        Ok(())
    }
}

impl TryCryptoRng for Script {}

/// The first words of SplitMix64 with state 1: the stream behind the golden vectors.
fn recorded_words(count: usize) -> Script {
    let mut state = 1u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    });
    Script::new(words.take(count).collect())
}

/// Samples per chi-square test.
const SAMPLES: u32 = 100_000;

/// The one-sided normal quantile of the level α = 10^-6 of every test here.
const QUANTILE: f64 = 4.753_424;

/// Pearson's statistic divided by its critical value at level α (Wilson and Hilferty): above one means
/// reject.
///
/// Bin `i` holds the samples with exactly `i` edges at or below them; `below(e)` is the probability of `y <
/// e`. Bins with fewer than ten expected samples are joined to the next.
fn chi_square(edges: &[i128], below: impl Fn(i128) -> f64, mut sample: impl FnMut() -> i128) -> f64 {
    let mut counts = vec![0.0; edges.len() + 1];
    for _ in 0..SAMPLES {
        let y = sample();
        counts[edges.partition_point(|&edge| edge <= y)] += 1.0;
    }
    let cumulative = edges.iter().map(|&edge| below(edge)).chain([1.0]);
    let (mut statistic, mut bins) = (0.0, 0.0);
    let (mut done, mut count) = (0.0, 0.0);
    for (cumulative, bin) in cumulative.zip(counts) {
        count += bin;
        let expected = f64::from(SAMPLES) * (cumulative - done);
        if expected >= 10.0 {
            statistic += (count - expected).powi(2) / expected;
            bins += 1.0;
            (done, count) = (cumulative, 0.0);
        }
    }
    let freedom: f64 = bins - 1.0;
    assert!(freedom >= 1.0);
    let spread = 2.0 / (9.0 * freedom);
    statistic / (freedom * (1.0 - spread + QUANTILE * spread.sqrt()).powi(3))
}

/// Quarter-σ edges out to 3σ, on the integers.
fn edges(scale: f64) -> Vec<i128> {
    let mut edges: Vec<i128> = (-12..=12).map(|i| (f64::from(i) * scale / 4.0).ceil() as i128).collect();
    edges.extend([-1, 0, 1, 2]);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// `P(y < edge)` of the discrete Gaussian: summed, or from σ = 10^5 on by the normal distribution with
/// continuity correction, which is then within 10^-11.
fn gaussian_below(variance: f64) -> impl Fn(i128) -> f64 {
    let sigma = variance.sqrt();
    let reach = if sigma < 1e5 { (12.0 * sigma) as i128 + 12 } else { 0 };
    let mut sums = vec![0.0];
    for y in -reach..=reach {
        sums.push(sums[sums.len() - 1] + (-((y * y) as f64) / (2.0 * variance)).exp());
    }
    move |edge| {
        if reach > 0 {
            sums[(edge + reach) as usize] / sums[sums.len() - 1]
        } else {
            0.5 * libm::erfc(-(edge as f64 - 0.5) / (sigma * std::f64::consts::SQRT_2))
        }
    }
}

/// σ² as numerator and denominator: tables alone, one low bit, several, and many.
const VARIANCES: [(u128, u128); 8] = [
    (1, 4),
    (1, 1),
    (5, 2),
    (100, 1),
    (1100, 1),
    (3_000_001, 3),
    (1_000_000_000_000_000_000, 1),
    (1 << 116, 1),
];

#[test]
fn gaussian_samples_fit_and_the_test_has_power() {
    let mut rng = ChaCha20Rng::seed_from_u64(20);
    for (a, b) in VARIANCES {
        let variance = a as f64 / b as f64;
        let (edges, below) = (edges(variance.sqrt()), gaussian_below(variance));
        for (p, q, fits) in [(1, 1, true), (4, 9, false), (9, 4, false)] {
            let sampler = DiscreteGaussian::new(a * p, b * q).unwrap();
            let ratio = chi_square(&edges, &below, || sampler.sample(&mut rng));
            assert_eq!(ratio < 1.0, fits, "σ² = {a}/{b} against {p}/{q} of it: {ratio}");
        }
    }
}

#[test]
fn low_bits_of_wide_samples_are_uniform() {
    let mut rng = ChaCha20Rng::seed_from_u64(21);
    let edges: Vec<i128> = (1..32).collect();
    let uniform = |edge: i128| edge as f64 / 32.0;
    let gaussian = DiscreteGaussian::new(3_000_001, 3).unwrap();
    assert!(chi_square(&edges, uniform, || gaussian.sample(&mut rng).rem_euclid(32)) < 1.0);
    let laplace = DiscreteLaplace::new(1 << 40, 3).unwrap();
    assert!(chi_square(&edges, uniform, || laplace.sample(&mut rng).rem_euclid(32)) < 1.0);
    let narrow = DiscreteGaussian::new(64, 1).unwrap();
    assert!(chi_square(&edges, uniform, || narrow.sample(&mut rng).rem_euclid(32)) > 1.0);
}

#[test]
fn laplace_samples_fit_and_the_test_has_power() {
    let mut rng = ChaCha20Rng::seed_from_u64(22);
    for (a, b) in [(1, 2), (10, 3), (17, 1), (1000, 1), (1 << 60, 7)] {
        let scale = a as f64 / b as f64;
        let below = |edge: i128| {
            let tail = |magnitude: i128| (-magnitude as f64 / scale).exp() / (1.0 + (-1.0 / scale).exp());
            if edge > 0 { 1.0 - tail(edge) } else { tail(1 - edge) }
        };
        for (p, q, fits) in [(1, 1, true), (2, 3, false), (3, 2, false)] {
            let sampler = DiscreteLaplace::new(a * p, b * q).unwrap();
            let ratio = chi_square(&edges(scale), below, || sampler.sample(&mut rng));
            assert_eq!(ratio < 1.0, fits, "scale {a}/{b} against {p}/{q} of it: {ratio}");
        }
    }
}

#[test]
fn bernoulli_frequencies_fit_and_the_test_has_power() {
    let mut rng = ChaCha20Rng::seed_from_u64(23);
    let n = f64::from(SAMPLES);
    let mut deviation = |numerator, denominator, assumed: f64| {
        let denominator = NonZeroU64::new(denominator).unwrap();
        let heads = (0..SAMPLES).filter(|_| bernoulli_exp_neg(numerator, denominator, &mut rng)).count();
        let p = (-assumed).exp();
        (heads as f64 - n * p).abs() / (n * p * (1.0 - p)).sqrt()
    };
    for (numerator, denominator) in
        [(1, 10), (1, 3), (1, 1), (3, 2), (7, 3), (5, 1), (u64::MAX / 2, u64::MAX)]
    {
        let gamma = numerator as f64 / denominator as f64;
        assert!(deviation(numerator, denominator, gamma) < QUANTILE, "{numerator}/{denominator}");
        assert!(deviation(numerator, denominator, gamma * 1.5) > QUANTILE);
        assert!(deviation(numerator, denominator, gamma / 1.5) > QUANTILE);
    }
    let one = NonZeroU64::MIN;
    assert!((0..1000).all(|_| bernoulli_exp_neg(0, one, &mut rng)));
    assert!(!(0..1000).any(|_| bernoulli_exp_neg(u64::MAX, one, &mut rng)));
}

/// The coin for exponents of any size makes the same decisions from the same words.
#[test]
fn the_slow_coin_agrees_with_the_fast_one() {
    let (mut fast, mut slow) = (ChaCha20Rng::seed_from_u64(24), ChaCha20Rng::seed_from_u64(24));
    for numerator in 0..4000 {
        let gamma = bernoulli::Ratio { numerator: (numerator % 40).into(), denominator: 11u32.into() };
        let expected = bernoulli_exp_neg(numerator % 40, NonZeroU64::new(11).unwrap(), &mut fast);
        assert_eq!(bernoulli::bernoulli_exp_neg_ratio(gamma, &mut slow), expected);
    }
    assert_eq!(fast.next_u64(), slow.next_u64());
}

/// 1/3 is 0x5555… in every digit: scripted words tie with it, and then fall to either side.
#[test]
fn a_tie_with_the_exponent_is_settled_by_the_next_digit() {
    const THIRD: u64 = 0x5555_5555_5555_5555;
    let three = NonZeroU64::new(3).unwrap();
    // Above 1/3 in the third digit: the run is empty.
    assert!(bernoulli_exp_neg(1, three, &mut Script::new(vec![THIRD, THIRD, THIRD + 1])));
    // Below it, and the next uniform is larger: a run of one.
    assert!(!bernoulli_exp_neg(1, three, &mut Script::new(vec![THIRD, THIRD, THIRD - 1, THIRD + 1])));
    // Below it, then tied with the next uniform to three digits, of which the last is smaller: a run of two.
    let words = vec![THIRD, THIRD, THIRD - 1, THIRD, THIRD, 0, u64::MAX];
    assert!(bernoulli_exp_neg(1, three, &mut Script::new(words)));
}

/// Expected values: an independent model of the construction in 80-digit real arithmetic, on the same words.
#[test]
fn recorded_words_give_known_samples() {
    let cases: [((u128, u128), [i128; 12]); 7] = [
        ((1, 4), [0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ((1, 1), [-1, 2, -1, -1, 0, -1, -1, 1, -1, -1, 0, 1]),
        ((5, 2), [-1, 3, -1, -2, -1, -1, -1, 1, -1, -2, 0, 1]),
        ((100, 1), [-8, 22, -6, -15, -4, -5, -6, 6, -9, -10, 1, 7]),
        ((3_000_001, 3), [-783, 604, -1537, 1273, -609, -201, -1016, 127, 355, 1058, -837, 592]),
        (
            (1_000_000_000_000_000_000, 1),
            [
                -788_246_070,
                600_239_443,
                -1_545_051_884,
                1_268_635_505,
                -605_998_343,
                -211_079_834,
                -998_870_112,
                133_941_236,
                372_313_345,
                1_076_677_721,
                -844_672_101,
                587_422_217,
            ],
        ),
        (
            (21_267_647_932_558_653_966_460_912_964_485_513_216, 1),
            [
                -3_600_448_050_514_655_075,
                2_850_174_549_025_623_469,
                -6_930_826_351_491_497_003,
                5_997_579_621_842_465_403,
                -2_611_412_746_893_704_468,
                -948_470_844_491_819_099,
                -4_833_234_045_454_220_072,
                574_085_706_097_009_790,
                1_756_995_408_808_885_687,
                4_925_135_558_484_876_905,
                -3_796_913_590_796_565_581,
                2_740_075_414_607_601_632,
            ],
        ),
    ];
    for ((a, b), expected) in cases {
        let sampler = DiscreteGaussian::new(a, b).unwrap();
        let mut rng = recorded_words(100);
        assert_eq!(expected.map(|_| sampler.sample(&mut rng)), expected, "σ² = {a}/{b}");
    }
    let cases: [((u128, u128), [i128; 12]); 4] = [
        ((1, 2), [0, 2, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ((10, 3), [-3, 12, -2, -7, -1, -2, -2, 2, -3, -4, 0, 2]),
        ((1000, 1), [-863, 632, -2050, 1587, -579, -146, -1137, 127, 326, 1221, -907, 608]),
        (
            (1_000_000_000_000_000_000, 7),
            [
                -121_521_200_833_323_963,
                89_067_954_657_050_733,
                -297_653_116_776_778_209,
                232_460_359_456_282_003,
                -81_606_648_340_428_264,
                -20_632_514_635_628_354,
                -169_052_962_429_926_361,
                17_940_178_315_531_555,
                45_898_907_270_536_685,
                171_924_884_712_134_387,
                -127_660_748_967_133_666,
                85_627_356_706_487_551,
            ],
        ),
    ];
    for ((a, b), expected) in cases {
        let sampler = DiscreteLaplace::new(a, b).unwrap();
        let mut rng = recorded_words(100);
        assert_eq!(expected.map(|_| sampler.sample(&mut rng)), expected, "scale {a}/{b}");
    }
}
