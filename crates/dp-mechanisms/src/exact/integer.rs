//! Strategies in integers: the matrix C̃ that is measured, and its sensitivity without rounding.
//!
//! `C̃ = round(2^s · C)` entry by entry; trees are 0/1 matrices, so `2^s · C` itself. For `C = D1 · T · D2` the three
//! factors are rounded and their exact product is C̃. Whatever the rounding did, C̃ *is* the strategy from here on: its own
//! columns give the sensitivity and its own inverse decodes.

use dp_linalg::{series, tree};
use ndarray::Array2;
use num_bigint::BigUint;

use super::transform::{Convolver, LONGEST};
use crate::error::{Error, Result};
use crate::sensitivity::{self, Participation};
use crate::strategy::{Measurement, Strategy, check_materializable};

/// The largest number of bits in an entry of C̃.
pub const ENTRY_BITS: u32 = 40;

/// The same for scaled Toeplitz matrices, whose entries are products of three factors with a third of the bits each.
pub const SCALED_ENTRY_BITS: u32 = 54;

/// The smallest number of bits at which C̃ still resembles C.
pub const FEWEST_BITS: u32 = 20;

/// A lower-triangular integer matrix, by its structure.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entries {
    /// By coefficients, in units of `2^-bits`.
    Toeplitz { coefficients: Vec<i64>, bits: u32 },
    /// `rows[i] · coefficients[i-j] · columns[j]`.
    Scaled { rows: Vec<i64>, coefficients: Vec<i64>, columns: Vec<i64>, bits: [u32; 3] },
    /// `2^bits` times the indicator of the node that ends at each step and covers as many steps as its lowest digit is
    /// worth.
    LeftNodes { bits: u32 },
    /// `2^bits` times the indicators of all complete nodes, in the order in which they become complete.
    AllNodes { bits: u32 },
    /// Rows one after the other, each up to its diagonal.
    Dense { packed: Vec<i64>, bits: u32 },
}

/// An integer matrix with one column per step.
#[derive(Debug, Clone)]
pub struct IntegerStrategy {
    pub(super) entries: Entries,
    steps: usize,
    name: &'static str,
    source: std::sync::Arc<dyn Strategy>,
}

impl IntegerStrategy {
    /// Rounds a strategy to entries of at most `bits` bits.
    ///
    /// # Complexity
    /// O(n log n) for Toeplitz matrices, scaled or not; O(n²) time and memory for dense ones, which are written out.
    ///
    /// # Errors
    /// Fewer than 20 bits, a decoder that looks ahead, a dense matrix that is not lower triangular with a diagonal, or
    /// more steps than a dense matrix is written out for.
    pub fn new(strategy: &std::sync::Arc<dyn Strategy>, bits: u32) -> Result<Self> {
        if !(FEWEST_BITS..=SCALED_ENTRY_BITS).contains(&bits) {
            return Err(Error::OutOfRange {
                what: "bits of an integer strategy",
                value: f64::from(bits),
                range: "20 to 54 (choose a coarser grid or a larger budget)",
            });
        }
        let steps = strategy.steps();
        if steps > LONGEST {
            return Err(Error::TooLarge { what: "an exact convolution", steps, limit: LONGEST });
        }
        let refuse = |reason| Error::NotApplicable {
            strategy: strategy.name(),
            workload: strategy.workload().to_string(),
            reason,
        };
        let measurement = strategy.measurement()?;
        let bits = match measurement {
            Measurement::Scaled { .. } => bits,
            _ => bits.min(ENTRY_BITS),
        };
        let entries = match measurement {
            Measurement::Toeplitz(coefficients) => {
                let (coefficients, bits) = rounded(&coefficients, bits)?;
                Entries::Toeplitz { coefficients, bits }
            }
            Measurement::Scaled { rows, coefficients } => scaled(&rows, &coefficients, bits)?,
            Measurement::LeftNodes => Entries::LeftNodes { bits },
            Measurement::AllNodes => Entries::AllNodes { bits },
            Measurement::Dense(matrix) => {
                check_materializable(steps)?;
                if matrix.dim() != (steps, steps) {
                    return Err(refuse("an exact release measures square or tree-shaped matrices only"));
                }
                dense(&matrix, bits)?
                    .ok_or_else(|| refuse("its matrix is not lower triangular with a diagonal"))?
            }
        };
        let invertible = match &entries {
            Entries::Toeplitz { coefficients, .. } | Entries::Scaled { coefficients, .. } => {
                coefficients[0] != 0
            }
            _ => true,
        };
        if !invertible {
            return Err(refuse("its diagonal rounds to zero"));
        }
        Ok(Self { entries, steps, name: strategy.name(), source: strategy.clone() })
    }

    /// The same matrix with entries in units of `2^-bits`, for tests that enumerate.
    #[cfg(test)]
    pub(super) fn with_bits(&self, few: u32) -> Self {
        let mut coarse = self.clone();
        match &mut coarse.entries {
            Entries::Toeplitz { coefficients, bits } => {
                for coefficient in coefficients {
                    *coefficient = (*coefficient + (1 << (*bits - few - 1))) >> (*bits - few);
                }
                *bits = few;
            }
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => *bits = few,
            Entries::Scaled { .. } | Entries::Dense { .. } => {}
        }
        coarse
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The name of the strategy this is a rounding of.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The strategy this is a rounding of.
    pub(super) fn source(&self) -> &std::sync::Arc<dyn Strategy> {
        &self.source
    }

    /// The number of measurements, each with its own noise.
    pub fn measurements(&self) -> usize {
        match self.entries {
            Entries::AllNodes { .. } => tree::complete_nodes(self.steps),
            _ => self.steps,
        }
    }

    /// The power of two by which C̃ is larger than the strategy, up to the normalization of scaled ones.
    pub(super) fn bits(&self) -> u32 {
        match &self.entries {
            Entries::Scaled { bits, .. } => bits.iter().sum(),
            Entries::Toeplitz { bits, .. }
            | Entries::LeftNodes { bits }
            | Entries::AllNodes { bits }
            | Entries::Dense { bits, .. } => *bits,
        }
    }

    /// The number of bits that were asked for, as far as the structure uses them.
    pub(super) fn entry_bits(&self) -> u32 {
        match self.entries {
            Entries::Scaled { .. } => SCALED_ENTRY_BITS,
            _ => ENTRY_BITS,
        }
    }

    /// The largest sum of magnitudes in a row: no measurement exceeds this times the largest input.
    pub(super) fn reach(&self) -> BigUint {
        match &self.entries {
            Entries::Toeplitz { coefficients, .. } => magnitudes(coefficients),
            Entries::Scaled { rows, coefficients, columns, .. } => {
                magnitudes(coefficients) * largest(rows) * largest(columns)
            }
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => BigUint::from(self.steps) << *bits,
            Entries::Dense { packed, .. } => {
                rows_of(packed, self.steps).map(magnitudes).max().unwrap_or_default()
            }
        }
    }

    /// `Δ(C̃)²` for unit changes: the exact integer, or a proven upper bound of it.
    ///
    /// # Privacy
    /// Single participation: the longest column, in integers. Repeated participation: for non-negative, non-increasing
    /// Toeplitz matrices the sum of the columns `0, b, 2b, …`, in integers (and rounding keeps both properties);
    /// for other Toeplitz matrices that of the non-increasing majorant; for trees the integer program of the tree times
    /// `4^bits`; otherwise the Gram bound of [`sensitivity::dense`] enlarged by its rounding, or the triangle inequality.
    ///
    /// # Errors
    /// What the Gram bound refuses, or a sum beyond 128 bits.
    pub fn squared_sensitivity(&self, participation: Participation) -> Result<BigUint> {
        let times = participation.times_within(self.steps);
        let triangle = |longest: BigUint| longest * times * times;
        match &self.entries {
            Entries::Toeplitz { coefficients, .. } => {
                toeplitz(coefficients, times, participation.separation())
            }
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => {
                let nodes = self.source.sensitivity(participation)?.squared;
                Ok(ceiling(nodes) << (2 * bits))
            }
            Entries::Scaled { rows, coefficients, columns, .. } => {
                let longest = column_energies(rows, coefficients)
                    .into_iter()
                    .zip(columns)
                    .map(|(energy, scale)| energy * scale.unsigned_abs() * scale.unsigned_abs())
                    .max()
                    .unwrap_or_default();
                self.by_gram(participation, longest, triangle)
            }
            Entries::Dense { packed, .. } => {
                let mut energies = vec![BigUint::ZERO; self.steps];
                for row in rows_of(packed, self.steps) {
                    for (energy, entry) in energies.iter_mut().zip(row) {
                        *energy += square(*entry);
                    }
                }
                self.by_gram(participation, energies.into_iter().max().unwrap_or_default(), triangle)
            }
        }
    }

    fn by_gram(
        &self,
        participation: Participation,
        longest: BigUint,
        triangle: impl Fn(BigUint) -> BigUint,
    ) -> Result<BigUint> {
        if participation.times_within(self.steps) <= 1 {
            return Ok(longest);
        }
        let bound = triangle(longest);
        if self.steps > sensitivity::DENSE_LIMIT {
            return Ok(bound);
        }
        let gram = sensitivity::dense(self.materialize()?.view(), participation)?.squared;
        // The entries of scaled matrices lose their last bits in f64; the margin is far above that.
        Ok(ceiling(gram * (1.0 + 1e-12)).min(bound))
    }

    /// The ℓ1 sensitivity for unit changes: the largest column sum of magnitudes, times the participations.
    ///
    /// # Errors
    /// What writing out a scaled matrix refuses.
    pub fn absolute_sensitivity(&self, participation: Participation) -> Result<BigUint> {
        let column = match &self.entries {
            Entries::Toeplitz { coefficients, .. } => magnitudes(coefficients),
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => {
                BigUint::from(tree::levels(self.steps)) << *bits
            }
            Entries::Scaled { rows, coefficients, columns, .. } => {
                magnitudes(coefficients) * largest(rows) * largest(columns)
            }
            Entries::Dense { packed, .. } => {
                let mut sums = vec![BigUint::ZERO; self.steps];
                for row in rows_of(packed, self.steps) {
                    for (sum, entry) in sums.iter_mut().zip(row) {
                        *sum += entry.unsigned_abs();
                    }
                }
                sums.into_iter().max().unwrap_or_default()
            }
        };
        Ok(column * participation.times_within(self.steps))
    }

    /// The matrix C̃ in f64, for tests and small dense programs; its entries of up to 53 bits are exact.
    ///
    /// # Errors
    /// More steps than a matrix is written out for.
    pub fn materialize(&self) -> Result<Array2<f64>> {
        check_materializable(self.steps)?;
        let n = self.steps;
        let lower = |entry: &dyn Fn(usize, usize) -> f64| {
            Array2::from_shape_fn((n, n), |(i, j)| if i >= j { entry(i, j) } else { 0.0 })
        };
        Ok(match &self.entries {
            Entries::Toeplitz { coefficients, .. } => lower(&|i, j| coefficients[i - j] as f64),
            Entries::Scaled { rows, coefficients, columns, .. } => lower(&|i, j| {
                (i128::from(rows[i]) * i128::from(coefficients[i - j]) * i128::from(columns[j])) as f64
            }),
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => {
                self.source.materialize()?.strategy * 2.0_f64.powi(bits.cast_signed())
            }
            Entries::Dense { packed, .. } => lower(&|i, j| packed[i * (i + 1) / 2 + j] as f64),
        })
    }
}

/// The values times `2^s`, rounded, with the largest s that keeps them within `bits` bits.
fn rounded(values: &[f64], bits: u32) -> Result<(Vec<i64>, u32)> {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    // The largest magnitude is below 2^exponent.
    let exponent = libm::frexp(largest).1;
    let shift = u32::try_from(bits.cast_signed() - exponent).ok().filter(|shift| *shift <= 400);
    let shift = shift.ok_or(Error::OutOfRange {
        what: "the largest entry of an integer strategy",
        value: largest,
        range: "above 2^-346 and below 2 to the power of the bits of an entry",
    })?;
    let scale = libm::ldexp(1.0, shift.cast_signed());
    Ok((values.iter().map(|value| (value * scale).round() as i64).collect(), shift))
}

/// Rounds the rows and the core of `D1 · T · D2` and normalizes the columns of what came out.
fn scaled(rows: &[f64], coefficients: &[f64], bits: u32) -> Result<Entries> {
    let part = bits / 3;
    let (mut rows, row_bits) = rounded(rows, part)?;
    // A scale must not vanish, and any positive one will do.
    rows.iter_mut().for_each(|row| *row = (*row).max(1));
    let (coefficients, core_bits) = rounded(coefficients, bits - 2 * part)?;
    // Square roots of exact sums, in f64: how columns are scaled is a choice, not a claim.
    let norms: Vec<f64> =
        column_energies(&rows, &coefficients).iter().map(|energy| to_f64(energy).sqrt()).collect();
    let shortest = norms.iter().copied().fold(f64::INFINITY, f64::min);
    let unit = libm::ldexp(1.0, part.cast_signed());
    let columns = norms.iter().map(|norm| (unit * shortest / norm).floor().max(1.0) as i64).collect();
    Ok(Entries::Scaled { rows, coefficients, columns, bits: [row_bits, core_bits, part] })
}

/// `Σ_k rows[j+k]² coefficients[k]²` for every j: an exact correlation.
fn column_energies(rows: &[i64], coefficients: &[i64]) -> Vec<BigUint> {
    let steps = rows.len();
    let length = (2 * steps).next_power_of_two();
    // Parts of a third of the bits each: squares of 36 bits, and sums that fit the reach of two primes.
    let squares =
        |values: &mut dyn Iterator<Item = &i64>| values.map(|value| value * value).collect::<Vec<i64>>();
    let kernel = squares(&mut coefficients.iter());
    let reversed = squares(&mut rows.iter().rev());
    let convolver = Convolver::new(&kernel, length, length, super::transform::REACH - 1);
    let mut scratch = vec![0; convolver.scratch_size(length)];
    let mut energies = Vec::with_capacity(length);
    convolver.multiply(&reversed, length, 0, &mut scratch, |value| {
        energies.push(BigUint::from(value.unsigned_abs()));
    });
    energies.truncate(steps);
    energies.reverse();
    energies
}

fn dense(matrix: &Array2<f64>, bits: u32) -> Result<Option<Entries>> {
    let steps = matrix.nrows();
    let (values, shift) = rounded(&matrix.iter().copied().collect::<Vec<f64>>(), bits)?;
    let mut packed = Vec::with_capacity(steps * (steps + 1) / 2);
    for (i, row) in values.chunks_exact(steps).enumerate() {
        if row[i] == 0 || row[i + 1..].iter().any(|entry| *entry != 0) {
            return Ok(None);
        }
        packed.extend_from_slice(&row[..=i]);
    }
    Ok(Some(Entries::Dense { packed, bits: shift }))
}

/// The rows of a packed lower triangle.
pub(super) fn rows_of(packed: &[i64], steps: usize) -> impl Iterator<Item = &[i64]> {
    (0..steps).map(|i| &packed[i * (i + 1) / 2..(i + 1) * (i + 2) / 2])
}

/// The sensitivity of an integer Toeplitz matrix.
fn toeplitz(coefficients: &[i64], times: usize, separation: usize) -> Result<BigUint> {
    let overflow = || Error::OutOfRange {
        what: "participation times",
        value: times as f64,
        range: "few enough that the squared sensitivity fits 128 bits",
    };
    let energy = |values: &[i128]| {
        values
            .iter()
            .try_fold(0_u128, |sum, value| sum.checked_add(value.unsigned_abs().checked_pow(2)?))
            .ok_or_else(overflow)
    };
    let mut sums: Vec<i128> = coefficients.iter().copied().map(i128::from).collect();
    let single = energy(&sums)?;
    if times <= 1 {
        return Ok(single.into());
    }
    let monotone =
        sums.windows(2).all(|pair| pair[0] >= pair[1]) && sums.last().is_some_and(|last| *last >= 0);
    if !monotone {
        sums.iter_mut().for_each(|value| *value = value.abs());
        for index in (1..sums.len()).rev() {
            sums[index - 1] = sums[index - 1].max(sums[index]);
        }
    }
    // From the back, so that what is added has not been added to: after all shifts, the sum over the set {0, b, 2b, …}.
    let majorant = sums.clone();
    for shift in (1..times).map(|i| i * separation) {
        for (sum, value) in sums[shift..].iter_mut().zip(&majorant) {
            *sum += value;
        }
    }
    let bound = BigUint::from(energy(&sums)?);
    Ok(if monotone { bound } else { bound.min(BigUint::from(single) * times * times) })
}

fn magnitudes(values: &[i64]) -> BigUint {
    values.iter().map(|value| u128::from(value.unsigned_abs())).sum::<u128>().into()
}

fn largest(values: &[i64]) -> u64 {
    values.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0)
}

fn square(value: i64) -> u128 {
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
pub(super) fn to_f64(value: &BigUint) -> f64 {
    let excess = value.bits().saturating_sub(64);
    let head = u64::try_from(value >> excess).unwrap_or(u64::MAX);
    libm::ldexp(head as f64, i32::try_from(excess).unwrap_or(i32::MAX))
}

/// The coefficients of an integer series in units of `2^-bits`, exactly, and those of its inverse.
pub(super) fn inverse_series(coefficients: &[i64], bits: u32) -> Result<Vec<f64>> {
    let unit = libm::ldexp(1.0, -bits.cast_signed());
    let values: Vec<f64> = coefficients.iter().map(|value| *value as f64 * unit).collect();
    Ok(series::inverse(&values, values.len())?)
}
