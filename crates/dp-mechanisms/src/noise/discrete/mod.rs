//! Exact samplers over the integers: no floating point between the generator and the sample.
//!
//! | type | probability of `y` | parameter |
//! |---|---|---|
//! | [`DiscreteGaussian`] | proportional to `exp(-y² / 2σ²)` | rational σ² in [2^-14, 2^124] |
//! | [`DiscreteLaplace`] | proportional to `exp(-abs(y) / s)` | rational s in [2^-7, 2^62] |
//! | [`bernoulli_exp_neg`] | true with probability `exp(-n/d)` | any `n/d` of 64-bit integers |
//!
//! # How it works
//!
//! A magnitude is split as `y = 2^j·v + u` with `0 <= u < 2^j`, where `j` brings the scale of the *block* `v`
//! below a small constant. The block is drawn by inversion of its exact distribution, `u` is `j` random bits,
//! and the pair is accepted with probability `f(2^j·v + u) / f(2^j·v)`, which is `exp(-γ)` for a rational
//! `γ`. Small scales have `j = 0` and nothing is ever rejected; large ones accept at least 15 proposals in
//! 16.
//!
//! # Why it is exact
//!
//! Every decision compares a uniform real number `U` with a fixed real number `T`: a threshold of the
//! inversion, the rational `γ`, or another uniform. `U` is known only by the 64-bit digits drawn so far, `T`
//! only by an enclosure of integers. When the two intervals are disjoint the comparison is decided, and
//! decided correctly for *every* continuation of `U`; when they overlap (probability below 2^-50 per sample)
//! another digit is drawn and the enclosure is recomputed with more bits, in arbitrary precision, until they
//! are. The samples therefore have the stated distribution exactly, up to the quality of the generator; the
//! precision of the tables decides only how often the slow path runs.
//!
//! # Timing
//!
//! Running time is constant in expectation and has exponential tails, but it is **not** independent of the
//! sample. The number of rejected proposals says nothing about the value that is returned in the end. The
//! last, accepted proposal does: the scan of the table and the memory it touches depend on the block `v`, and
//! the length of the acceptance test on `γ`. Someone who can time single samples, or shares a cache with the
//! sampler, learns something about the magnitude at the resolution of one block (between σ/32 and σ/16 for
//! the Gaussian); nothing depends on the sign or, directly, on the data the noise is added to. Releases that
//! are timed from outside should leave on a schedule.

mod bernoulli;
mod gaussian;
mod inversion;
mod laplace;

pub use bernoulli::bernoulli_exp_neg;
pub use gaussian::DiscreteGaussian;
pub use laplace::DiscreteLaplace;

/// A parameter outside the range of an exact sampler.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The variance parameter of a discrete Gaussian is not in [2^-14, 2^124], or its denominator is zero.
    #[error("variance parameter {numerator}/{denominator} is not in [2^-14, 2^124]")]
    InvalidVariance {
        /// Numerator as given.
        numerator: u128,
        /// Denominator as given.
        denominator: u128,
    },
    /// The standard-deviation parameter of a discrete Gaussian is not a number in [2^-7, 2^62].
    #[error("standard deviation parameter {value} is not in [2^-7, 2^62]")]
    InvalidStandardDeviation {
        /// The value as given.
        value: f64,
    },
    /// The scale of a discrete Laplace is not in [2^-7, 2^62], or its denominator is zero.
    #[error("scale {numerator}/{denominator} is not in [2^-7, 2^62]")]
    InvalidScale {
        /// Numerator as given.
        numerator: u128,
        /// Denominator as given.
        denominator: u128,
    },
}

/// Whether `2^-low <= numerator/denominator <= 2^high`, without overflow.
fn ratio_in_range(numerator: u128, denominator: u128, low: u32, high: u32) -> bool {
    denominator > 0
        && denominator.div_ceil(1 << low) <= numerator
        && numerator.div_ceil(1 << high) <= denominator
}

/// Splits one random word into a sign and `bits <= 63` uniform bits.
fn sign_and_low_bits(word: u64, bits: u32) -> (bool, u64) {
    // Shifting in two steps keeps the second shift below 64 when `bits` is zero.
    (word >> 63 == 1, (word << 1 >> 1) >> (63 - bits))
}

/// The integer with this sign and magnitude.
fn signed(negative: bool, magnitude: u128) -> i128 {
    let magnitude = magnitude.cast_signed();
    if negative { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests;
