//! Sums and squares of integer columns, without rounding: what the sensitivity of C̃ is made of.

use num_bigint::BigUint;

use super::transform::{Convolver, REACH};
use crate::error::{Error, Result};

/// `Σ_k rows[j+k]² coefficients[k]²` for every j, exactly: a sum of parts, each in units of a power of two.
pub(super) struct Energies(Vec<(u32, Vec<u128>)>);

impl Energies {
    /// Exact correlations, with the squares of the rows and of the coefficients in parts of few bits.
    pub(super) fn new(rows: &[i64], coefficients: &[i64]) -> Result<Self> {
        let steps = rows.len();
        let squared = |value: i64| u128::from(value.unsigned_abs()).pow(2);
        let logarithm = |value: u128| u128::BITS - value.leading_zeros();
        let bits_of = |values: &[i64]| logarithm(squared(largest(values).cast_signed())).max(1);
        let (row_bits, coefficient_bits) = (bits_of(rows), bits_of(coefficients));
        // A sum of `steps` products of parts stays below the reach of the transform.
        let row_width = row_bits.div_ceil(row_bits.div_ceil(61));
        let width = 121_u32.saturating_sub(row_width + logarithm(steps as u128)).min(60);
        if width < 20 {
            return Err(Error::TooLarge {
                what: "the exact columns of a scaled strategy",
                steps,
                limit: 1 << 24,
            });
        }
        let length = (2 * steps).next_power_of_two();
        let part = |value: i64, start: u32, width: u32| (squared(value) >> start & ((1 << width) - 1)) as i64;
        let mut parts = Vec::new();
        for start in (0..coefficient_bits).step_by(width as usize) {
            let kernel: Vec<i64> = coefficients.iter().map(|value| part(*value, start, width)).collect();
            let convolver = Convolver::new(&kernel, length, REACH - 1);
            for row_start in (0..row_bits).step_by(row_width as usize) {
                let reversed: Vec<i64> =
                    rows.iter().rev().map(|row| part(*row, row_start, row_width)).collect();
                let mut sums = Vec::with_capacity(length);
                convolver.multiply(&reversed, |value| sums.push(value.unsigned_abs()));
                sums.truncate(steps);
                sums.reverse();
                parts.push((start + row_start, sums));
            }
        }
        Ok(Self(parts))
    }

    /// All of them in f64.
    pub(super) fn estimates(&self) -> Vec<f64> {
        let mut estimates = vec![0.0; self.0.first().map_or(0, |(_, sums)| sums.len())];
        for (shift, sums) in &self.0 {
            let unit = libm::ldexp(1.0, shift.cast_signed());
            estimates.iter_mut().zip(sums).for_each(|(estimate, sum)| *estimate += *sum as f64 * unit);
        }
        estimates
    }

    /// The largest of them times the square of a scale each, exactly.
    pub(super) fn longest(&self, scales: &[i64]) -> BigUint {
        let mut estimates = self.estimates();
        estimates.iter_mut().zip(scales).for_each(|(energy, scale)| *energy *= (*scale as f64).powi(2));
        let close = estimates.iter().copied().fold(0.0, f64::max) * (1.0 - 1e-9);
        let exact = |index: usize| {
            let energy: BigUint =
                self.0.iter().map(|(shift, sums)| BigUint::from(sums[index]) << *shift).sum();
            energy * square(scales[index])
        };
        let candidates = (0..scales.len()).filter(|index| estimates[*index] >= close);
        candidates.map(exact).max().unwrap_or_default()
    }
}

/// The sensitivity of an integer Toeplitz matrix.
pub(super) fn toeplitz(coefficients: &[i64], times: usize, separation: usize) -> Result<BigUint> {
    let single = energy(coefficients.iter().map(|value| Some(i128::from(*value))))?;
    if times <= 1 {
        return Ok(single);
    }
    let exact =
        |coefficients: &[i64]| energy(combined(coefficients, None, times, separation)?.into_iter().map(Some));
    if never_rises(coefficients) {
        return exact(coefficients);
    }
    if bands(coefficients) <= separation {
        return Ok(single * times);
    }
    let mut majorant: Vec<i64> = coefficients.iter().map(|value| value.abs()).collect();
    for index in (1..majorant.len()).rev() {
        majorant[index - 1] = majorant[index - 1].max(majorant[index]);
    }
    Ok(exact(&majorant)?.min(single * times * times))
}

/// The sum of the columns `0, b, 2b, …`, each times its scale if there are any.
pub(super) fn combined(
    coefficients: &[i64],
    scales: Option<&[i64]>,
    times: usize,
    separation: usize,
) -> Result<Vec<i128>> {
    let mut sums = vec![0_i128; coefficients.len()];
    for shift in (0..times).filter_map(|time| time.checked_mul(separation)) {
        let scale = i128::from(scales.map_or(1, |scales| scales[shift]));
        for (sum, value) in sums[shift..].iter_mut().zip(coefficients) {
            *sum = sum.checked_add(i128::from(*value) * scale).ok_or_else(too_many)?;
        }
    }
    Ok(sums)
}

/// The sum of squares; nothing for a value stands for one beyond 128 bits.
pub(super) fn energy(values: impl Iterator<Item = Option<i128>>) -> Result<BigUint> {
    // Squares are collected in a word until it is full.
    let (mut total, mut part) = (BigUint::ZERO, 0_u128);
    for value in values {
        let magnitude = value.ok_or_else(too_many)?.unsigned_abs();
        if let Some(sum) = magnitude.checked_mul(magnitude).and_then(|square| part.checked_add(square)) {
            part = sum;
        } else {
            let magnitude = BigUint::from(magnitude);
            total += &magnitude * &magnitude;
        }
    }
    Ok(total + part)
}

pub(super) fn too_many() -> Error {
    Error::OutOfRange {
        what: "participation times",
        value: f64::INFINITY,
        range: "few enough that sums of columns fit 128 bits",
    }
}

/// Whether the values are non-negative and never increase.
pub(super) fn never_rises(values: &[i64]) -> bool {
    values.windows(2).all(|pair| pair[0] >= pair[1]) && values.last().is_none_or(|last| *last >= 0)
}

/// The number of coefficients up to the last that is not zero.
pub(super) fn bands(coefficients: &[i64]) -> usize {
    coefficients.iter().rposition(|value| *value != 0).map_or(0, |last| last + 1)
}

pub(super) fn magnitudes(values: &[i64]) -> BigUint {
    values.iter().map(|value| u128::from(value.unsigned_abs())).sum::<u128>().into()
}

pub(super) fn largest(values: &[i64]) -> u64 {
    values.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0)
}

pub(super) fn square(value: i64) -> u128 {
    u128::from(value.unsigned_abs()).pow(2)
}

/// A finite non-negative number as `mantissa · 2^exponent`, exactly.
pub(super) fn dyadic(value: f64) -> (u64, i32) {
    let (fraction, exponent) = libm::frexp(value);
    // The fraction has 53 bits, so this is an integer.
    (libm::ldexp(fraction, 53) as u64, exponent - 53)
}

/// The least integer that is not below a finite non-negative number.
pub(super) fn ceiling(value: f64) -> BigUint {
    let (mantissa, exponent) = dyadic(value);
    let mantissa = BigUint::from(mantissa);
    if exponent >= 0 {
        mantissa << exponent
    } else {
        let unit = BigUint::from(1_u32) << exponent.unsigned_abs();
        (mantissa + &unit - 1_u32) / unit
    }
}

/// The nearest double or one of its neighbours; infinite beyond the range.
pub(crate) fn to_f64(value: &BigUint) -> f64 {
    let excess = value.bits().saturating_sub(64);
    let head = u64::try_from(value >> excess).unwrap_or(u64::MAX);
    libm::ldexp(head as f64, i32::try_from(excess).unwrap_or(i32::MAX))
}
