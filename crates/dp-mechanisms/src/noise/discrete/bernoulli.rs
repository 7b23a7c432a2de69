//! Lazily drawn uniforms, and coins that fall true with probability exactly `exp(-γ)`.
//!
//! For `0 <= γ <= 1` and independent uniforms, the event `γ > U_1 > U_2 > … > U_k` has probability
//! `γ^k / k!`, so the longest such descending run has even length with probability `Σ (-γ)^k / k! = exp(-γ)` (von
//! Neumann 1951, Forsyth 1972). Only comparisons of uniforms are needed.

use std::num::NonZeroU64;

use num_bigint::BigUint;
use rand::CryptoRng;

/// A uniform real number in [0, 1), known by the leading base-2^64 digits that were needed so far.
#[derive(Debug)]
pub(super) struct LazyUniform {
    first: u64,
    /// Empty, and therefore not allocated, until a comparison ties on the first digit.
    rest: Vec<u64>,
}

impl LazyUniform {
    pub(super) fn starting_with(first: u64) -> Self {
        Self { first, rest: Vec::new() }
    }

    /// The `index`-th digit, drawn if it was not yet.
    fn digit<R: CryptoRng + ?Sized>(&mut self, index: usize, rng: &mut R) -> u64 {
        let Some(index) = index.checked_sub(1) else { return self.first };
        while self.rest.len() <= index {
            self.rest.push(rng.next_u64());
        }
        self.rest[index]
    }

    /// Whether this number is below `other`: decided by the first digit in which they differ.
    fn is_below<R: CryptoRng + ?Sized>(&mut self, other: &mut Self, rng: &mut R) -> bool {
        let mut index = 0;
        loop {
            let (mine, theirs) = (self.digit(index, rng), other.digit(index, rng));
            if mine != theirs {
                return mine < theirs;
            }
            index += 1;
        }
    }

    /// The first `digits` digits as an integer `n`: the number lies in `[n, n + 1) / 2^(64 digits)`.
    pub(super) fn prefix<R: CryptoRng + ?Sized>(&mut self, digits: usize, rng: &mut R) -> BigUint {
        (0..digits).fold(BigUint::ZERO, |prefix, index| (prefix << 64) + self.digit(index, rng))
    }

    /// Whether this number is below `numerator/denominator`.
    fn is_below_ratio<R: CryptoRng + ?Sized>(&mut self, ratio: &Ratio, rng: &mut R) -> bool {
        let mut digits = 1;
        loop {
            let prefix = self.prefix(digits, rng);
            let scaled = &ratio.numerator << (64 * digits);
            if (&prefix + 1u32) * &ratio.denominator <= scaled {
                return true;
            }
            if prefix * &ratio.denominator >= scaled {
                return false;
            }
            digits += 1;
        }
    }
}

/// A non-negative rational of any size; the denominator is not zero.
#[derive(Debug, Clone)]
pub(super) struct Ratio {
    pub(super) numerator: BigUint,
    pub(super) denominator: BigUint,
}

/// The fast coin: true with probability `exp(-γ)`, for `γ < 1` with `head <= 2^64 γ < head + slack`.
///
/// `exact` supplies `γ` itself, in the rare case (probability `slack / 2^64`) that `head` cannot decide.
#[inline]
pub(super) fn bernoulli_exp_neg_enclosed<R: CryptoRng + ?Sized>(
    head: u64,
    slack: u64,
    exact: impl FnOnce() -> Ratio,
    rng: &mut R,
) -> bool {
    let first = rng.next_u64();
    let mut uniform = LazyUniform::starting_with(first);
    if first >= head && (first - head >= slack || !uniform.is_below_ratio(&exact(), rng)) {
        return true;
    }
    rest_of_run_is_odd(uniform, rng)
}

/// Given the first uniform of a descending run, whether an odd number follows it (so that the run is even).
fn rest_of_run_is_odd<R: CryptoRng + ?Sized>(mut last: LazyUniform, rng: &mut R) -> bool {
    let mut odd = false;
    loop {
        let mut next = LazyUniform::starting_with(rng.next_u64());
        if !next.is_below(&mut last, rng) {
            return odd;
        }
        last = next;
        odd = !odd;
    }
}

/// True with probability `exp(-1)`: with `γ = 1` the first uniform is always in the run.
fn bernoulli_exp_neg_one<R: CryptoRng + ?Sized>(rng: &mut R) -> bool {
    rest_of_run_is_odd(LazyUniform::starting_with(rng.next_u64()), rng)
}

/// The slow coin: true with probability `exp(-γ)` for any rational `γ >= 0`.
pub(super) fn bernoulli_exp_neg_ratio<R: CryptoRng + ?Sized>(gamma: Ratio, rng: &mut R) -> bool {
    let Ratio { mut numerator, denominator } = gamma;
    while numerator >= denominator {
        if !bernoulli_exp_neg_one(rng) {
            return false;
        }
        numerator -= &denominator;
    }
    let mut uniform = LazyUniform::starting_with(rng.next_u64());
    !uniform.is_below_ratio(&Ratio { numerator, denominator }, rng) || rest_of_run_is_odd(uniform, rng)
}

/// True with probability exactly `exp(-numerator / denominator)`.
///
/// **Complexity.** A constant expected number of random words, whatever the ratio: integer parts of the
/// exponent are spent one factor `exp(-1)` at a time and the first failure ends the matter. Nothing is
/// allocated except with probability below 2^-60.
///
/// # Example
///
/// ```
/// use std::num::NonZeroU64;
/// use dp_mechanisms::noise::discrete::bernoulli_exp_neg;
/// use rand::SeedableRng;
///
/// let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
/// let three = NonZeroU64::new(3).unwrap();
/// assert!(bernoulli_exp_neg(0, three, &mut rng));
/// let heads = (0..1000).filter(|_| bernoulli_exp_neg(2, three, &mut rng)).count();
/// assert!((450..580).contains(&heads)); // exp(-2/3) = 0.513…
/// ```
pub fn bernoulli_exp_neg<R: CryptoRng + ?Sized>(
    numerator: u64,
    denominator: NonZeroU64,
    rng: &mut R,
) -> bool {
    for _ in 0..numerator / denominator {
        if !bernoulli_exp_neg_one(rng) {
            return false;
        }
    }
    let remainder = numerator % denominator;
    let head = (u128::from(remainder) << 64) / u128::from(denominator.get());
    let exact = || Ratio { numerator: remainder.into(), denominator: denominator.get().into() };
    bernoulli_exp_neg_enclosed(head as u64, 1, exact, rng)
}
