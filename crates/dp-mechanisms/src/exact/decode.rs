//! From noisy measurements to releases: post-processing, and therefore free to round.
//!
//! Nothing here sees data or noise, only their exact integer sum y, so nothing here concerns privacy. The release is `A C̃⁻¹ y`,
//! computed in f64 in one of these ways:
//!
//! | T | its inverse on the measurements | values per coordinate |
//! |---|---|---|
//! | all coefficients (`sqrt`, `scaled-sqrt`, …) | those of `1/c̃`, an online convolution | n |
//! | rational (`blt`, `scaled-blt`, `anytime`) | the recursion of the real T | one per pole |
//! | that times a comb (`scaled-blt` for windows) | the same | one per pole, and the window |
//! | banded, or with a banded inverse | forward substitution, or a finite filter | the bands |
//! | trees | the decoder of the tree | O(log n) |
//! | dense | forward substitution | n |
//!
//! The recursion belongs to T and not to the rounded T̃. What that leaves in the release is `A D2⁻¹ T⁻¹ (T̃ - T) D2 x`, which
//! [`recursion_bias`] bounds for the declared inputs; a plan gives T̃ enough bits to keep it below a millionth of a standard
//! deviation, and falls back to the coefficients of `1/c̃` where it cannot.

use std::sync::Arc;

use dp_linalg::rational::{CombStream, RationalStream};
use dp_linalg::toeplitz::{BandedStream, OnlineToeplitz};
use dp_linalg::{fft, series};

use super::integer::{Entries, IntegerStrategy, inverse_series};
use crate::error::Result;
use crate::noise::{Side, UnitNoise};
use crate::strategy::toeplitz::{Core, for_each_row_norm, has_recurrence, row_norms, scaled_row_norms};
use crate::strategy::{NoiseFilter, RowNorms};
use crate::workload::{InverseStream, Recurrence, Workload, WorkloadStream};

/// The state of the decoder, for vectors of a fixed dimension.
pub(super) struct Decoder {
    strategy: Arc<IntegerStrategy>,
    dimension: usize,
    step: usize,
    inner: Inner,
    /// What is done with the estimates of the inner decoder.
    last: Last,
    estimate: Vec<f64>,
}

/// The last step of decoding.
enum Last {
    /// They are what is wanted.
    Nothing,
    /// Estimated inputs become the statistic.
    Apply(Box<WorkloadStream>),
    /// The statistic becomes estimated inputs.
    Undo(Box<InverseStream>),
}

enum Inner {
    /// `B` or `T⁻¹` as a convolution.
    Toeplitz(Box<OnlineToeplitz>),
    /// `T⁻¹` as a recursion of few values.
    Recursion(Recursion),
    /// The decoding of a tree, which is linear in what it is given: noise elsewhere, measurements here.
    Tree { filter: Box<dyn NoiseFilter>, rows: Rows },
    /// Forward substitution over all estimates so far.
    Substitution { estimates: Vec<f64> },
}

/// The inverse of a core with a short memory.
enum Recursion {
    Poles(RationalStream),
    Windowed(CombStream, RationalStream),
    Substitution(BandedStream),
    Finite(BandedStream),
}

impl Recursion {
    /// Nothing for a core whose inverse takes all coefficients.
    fn new(core: &Core, steps: usize, dimension: usize) -> Result<Option<Self>> {
        let within = |band: &[f64]| BandedStream::new(&band[..band.len().min(steps)], dimension);
        Ok(Some(match core {
            Core::Full { .. } => return Ok(None),
            Core::Rational(rational) => Self::Poles(RationalStream::new(rational, dimension)?),
            Core::Windowed { rational, comb } => {
                Self::Windowed(CombStream::new(comb, dimension)?, RationalStream::new(rational, dimension)?)
            }
            Core::Banded(band) => Self::Substitution(within(band)?),
            Core::BandedInverse(band) => Self::Finite(within(band)?),
        }))
    }

    fn solve(&mut self, row: &mut [f64]) -> Result<()> {
        Ok(match self {
            Self::Poles(stream) => stream.solve_in_place(row),
            Self::Windowed(comb, stream) => {
                comb.solve_in_place(row)?;
                stream.solve_in_place(row)
            }
            Self::Substitution(stream) => stream.solve_in_place(row),
            Self::Finite(stream) => stream.apply_in_place(row),
        }?)
    }
}

/// The measurements of the current step, in the place where a filter looks for noise.
struct Rows {
    first: usize,
    dimension: usize,
    values: Vec<f64>,
}

impl UnitNoise for Rows {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        // Causal filters ask for rows of the current step only.
        let start = row.saturating_sub(self.first) * self.dimension + first;
        for (out, value) in out.iter_mut().zip(self.values.get(start..).unwrap_or_default()) {
            *out = *value;
        }
    }
}

impl Decoder {
    /// Decodes to the statistic, or to inputs with their noise.
    pub(super) fn new(
        strategy: Arc<IntegerStrategy>,
        dimension: usize,
        most_rows: usize,
        side: Side,
    ) -> Result<Self> {
        let steps = strategy.steps();
        let source = strategy.source().clone();
        let workload = source.workload();
        // What follows an inner decoder that stops at the given side.
        let from = |native: Side| {
            Ok::<_, crate::Error>(match (native, side) {
                (Side::Input, Side::Output) => Last::Apply(Box::new(workload.stream(steps, dimension)?)),
                (Side::Output, Side::Input) => {
                    Last::Undo(Box::new(workload.inverse_stream(steps, dimension)?))
                }
                _ => Last::Nothing,
            })
        };
        let recursion = match &strategy.recursion {
            Some(core) => Recursion::new(core, steps, dimension)?,
            None => None,
        };
        let (inner, last) = match (&strategy.entries, recursion) {
            (_, Some(recursion)) => (Inner::Recursion(recursion), from(Side::Input)?),
            (Entries::Toeplitz { coefficients, bits }, None) => {
                let inverse = inverse_series(coefficients, *bits)?;
                match workload.series(steps)? {
                    Some(weights) if side == Side::Output => {
                        let decoder = series::product(&weights, &inverse, steps);
                        (Inner::Toeplitz(Box::new(OnlineToeplitz::new(&decoder, dimension)?)), Last::Nothing)
                    }
                    _ => {
                        let operator = Box::new(OnlineToeplitz::new(&inverse, dimension)?);
                        (Inner::Toeplitz(operator), from(Side::Input)?)
                    }
                }
            }
            (Entries::Scaled { coefficients, bits, .. }, None) => {
                let inverse = inverse_series(coefficients, bits[1])?;
                (Inner::Toeplitz(Box::new(OnlineToeplitz::new(&inverse, dimension)?)), from(Side::Input)?)
            }
            (Entries::LeftNodes { .. } | Entries::AllNodes { .. } | Entries::WeightedNodes { .. }, None) => {
                let filter = source.noise_filter(dimension)?;
                let last = from(filter.side())?;
                let rows = Rows { first: 0, dimension, values: vec![0.0; most_rows * dimension] };
                (Inner::Tree { filter, rows }, last)
            }
            (Entries::Dense { .. }, None) => {
                (Inner::Substitution { estimates: vec![0.0; steps * dimension] }, from(Side::Input)?)
            }
        };
        Ok(Self { strategy, dimension, step: 0, inner, last, estimate: vec![0.0; dimension] })
    }

    /// Takes the measurements of the next step, in units of C̃ times the grid, and writes the release.
    pub(super) fn push(&mut self, first_row: usize, measured: &[i128], output: &mut [f64]) -> Result<()> {
        let (step, dimension) = (self.step, self.dimension);
        let unit = libm::ldexp(1.0, -self.strategy.bits().cast_signed());
        let estimate = &mut self.estimate;
        let (row, column) = match &self.strategy.entries {
            Entries::Scaled { rows, columns, bits, .. } => (
                libm::ldexp(1.0, bits[0].cast_signed()) / rows[step] as f64,
                libm::ldexp(1.0, bits[2].cast_signed()) / columns[step] as f64,
            ),
            _ => (1.0, 1.0),
        };
        match (&mut self.inner, &self.strategy.entries) {
            (Inner::Recursion(recursion), _) => {
                for (value, measured) in estimate.iter_mut().zip(measured) {
                    *value = *measured as f64 * unit * row;
                }
                recursion.solve(estimate)?;
                estimate.iter_mut().for_each(|value| *value *= column);
            }
            (Inner::Toeplitz(operator), _) => {
                // The measurements wait in the output, and the estimates follow.
                for (value, measured) in output.iter_mut().zip(measured) {
                    *value = *measured as f64 * unit * row;
                }
                operator.push(output, estimate)?;
                estimate.iter_mut().for_each(|value| *value *= column);
            }
            (Inner::Tree { filter, rows }, _) => {
                rows.first = first_row;
                for (value, measured) in rows.values.iter_mut().zip(measured) {
                    *value = *measured as f64 * unit;
                }
                filter.next_into(rows, estimate)?;
            }
            (Inner::Substitution { estimates }, Entries::Dense { packed, .. }) => {
                let row = &packed[step * (step + 1) / 2..][..=step];
                let (past, current) = estimates.split_at_mut(step * dimension);
                for (j, value) in estimate.iter_mut().enumerate() {
                    let known: f64 = row
                        .iter()
                        .zip(past.chunks_exact(dimension))
                        .map(|(entry, estimate)| *entry as f64 * unit * estimate[j])
                        .sum();
                    *value = (measured[j] as f64 * unit - known) / (row[step] as f64 * unit);
                }
                current[..dimension].copy_from_slice(estimate);
            }
            // `new` pairs decoders and entries.
            (Inner::Substitution { .. }, _) => {}
        }
        match &mut self.last {
            Last::Nothing => output.copy_from_slice(&self.estimate),
            Last::Apply(workload) => workload.push(&self.estimate, output)?,
            Last::Undo(workload) => workload.push(&self.estimate, output)?,
        }
        self.step += 1;
        Ok(())
    }
}

/// The reciprocals of the diagonals of a scaled matrix as they were rounded: those of D1 as they are, those of D2 inverted.
fn diagonals(rows: &[i64], columns: &[i64], bits: [u32; 3]) -> (Vec<f64>, Vec<f64>) {
    let unit = |bits: u32| libm::ldexp(1.0, bits.cast_signed());
    (
        rows.iter().map(|row| *row as f64 / unit(bits[0])).collect(),
        columns.iter().map(|column| unit(bits[2]) / *column as f64).collect(),
    )
}

/// `‖b_t‖²` of the decoder of C̃, in units of `2^-bits`.
pub(super) fn decoder_row_norms(strategy: &IntegerStrategy) -> Result<RowNorms> {
    let workload = strategy.source().workload();
    match (&strategy.entries, &strategy.recursion) {
        (Entries::Toeplitz { coefficients, bits }, None) => {
            row_norms(workload, inverse_series(coefficients, *bits)?)
        }
        (Entries::Scaled { rows, columns, bits, .. }, Some(Core::Rational(core)))
            if has_recurrence(workload) =>
        {
            let (rows, norms) = diagonals(rows, columns, *bits);
            let mut squared = Vec::with_capacity(rows.len());
            for_each_row_norm(workload, &core.inverse()?, &rows, &norms, |norm| squared.push(norm));
            Ok(RowNorms::exact(squared))
        }
        (Entries::Scaled { rows, coefficients, columns, bits }, recursion) => {
            let inverse = match recursion {
                Some(core) => core.inverse(rows.len())?,
                None => inverse_series(coefficients, bits[1])?,
            };
            let (rows, norms) = diagonals(rows, columns, *bits);
            scaled_row_norms(workload, &inverse, rows, norms)
        }
        // The decoder is that of the real strategy. Trees are not rounded; dense matrices by less than 2^-20 of their largest
        // entry.
        (Entries::Toeplitz { .. }, Some(_))
        | (
            Entries::LeftNodes { .. }
            | Entries::AllNodes { .. }
            | Entries::WeightedNodes { .. }
            | Entries::Dense { .. },
            _,
        ) => strategy.source().row_norms(),
    }
}

/// The most by which decoding with the real T moves each release, for inputs of at most one unit: in every step a bound of
/// `Σ_k |(A D2⁻¹ T⁻¹ (T̃ - T) D2)_tk|`. Nothing for decoders that belong to T̃ itself.
///
/// With `Q = (1, 1, …) * T⁻¹(T̃ - T)` as series, p the diagonal of D2 and `H = p * |Q|`, summation by parts bounds the count by
/// `H_t/p_t + Σ_{j<t} |1/p_j - 1/p_{j+1}| H_j`; other workloads are sums of counts.
///
/// # Complexity
/// O(n log n).
///
/// # Errors
/// What the numeric core refuses.
pub(super) fn recursion_bias(strategy: &IntegerStrategy) -> Result<Option<Vec<f64>>> {
    let Some(core) = &strategy.recursion else { return Ok(None) };
    let (coefficients, bits) = match &strategy.entries {
        Entries::Toeplitz { coefficients, bits } => (coefficients, *bits),
        Entries::Scaled { coefficients, bits, .. } => (coefficients, bits[1]),
        _ => return Ok(None),
    };
    let steps = strategy.steps();
    let unit = libm::ldexp(1.0, -bits.cast_signed());
    // The difference of neighbouring doubles is exact.
    let error: Vec<f64> = core
        .coefficients(steps)?
        .iter()
        .zip(coefficients)
        .map(|(real, rounded)| *rounded as f64 * unit - real)
        .collect();
    if error.iter().all(|value| *value == 0.0) {
        return Ok(Some(vec![0.0; steps]));
    }
    let mut sums = fft::convolve_truncated(&core.inverse(steps)?, &error, steps);
    let mut sum = 0.0;
    for value in &mut sums {
        sum += *value;
        *value = f64::abs(sum);
    }
    let mut bound = if let Entries::Scaled { columns, .. } = &strategy.entries {
        let columns: Vec<f64> = columns.iter().map(|column| *column as f64).collect();
        let mixed = fft::convolve_truncated(&sums, &columns, steps);
        let mut variation = 0.0;
        (0..steps)
            .map(|t| {
                let here = mixed[t] / columns[t];
                let bound = here + variation;
                if let Some(next) = columns.get(t + 1) {
                    variation += (1.0 / columns[t] - 1.0 / next).abs() * mixed[t];
                }
                bound
            })
            .collect()
    } else {
        let mut total = 0.0;
        sums.iter()
            .map(|sum| {
                total += sum;
                total
            })
            .collect::<Vec<f64>>()
    };
    as_workload(strategy.source().workload(), &mut bound)?;
    // Rounding in the transforms, relative to sums of positive terms.
    bound.iter_mut().for_each(|value| *value *= 1.0 + 1e-6);
    Ok(Some(bound))
}

/// From bounds on the count of something to bounds on another workload of it.
fn as_workload(workload: &Workload, bound: &mut [f64]) -> Result<()> {
    // The largest so far, for workloads that look back.
    let mut largest = 0.0_f64;
    let steps = bound.len();
    match workload.recurrence() {
        _ if workload.is_prefix_sum() => {
            for (step, value) in bound.iter_mut().enumerate() {
                *value /= workload.divisor(step);
            }
        }
        // The inner sums are at most twice the count's, and are then added up with the rates.
        Recurrence::Second { .. } => {
            let mut rates = 0.0;
            for (step, value) in bound.iter_mut().enumerate() {
                largest = largest.max(*value);
                rates += workload.rate(step).abs();
                *value = 2.0 * rates * largest;
            }
        }
        // Summation by parts once more: the weights change by so much in all.
        _ => {
            let weights = workload.series(steps)?.unwrap_or_default();
            let (mut change, mut last) = (0.0, 0.0_f64);
            for (value, weight) in bound.iter_mut().zip(weights) {
                largest = largest.max(*value);
                change += (weight - last).abs();
                last = weight;
                *value = change * largest;
            }
        }
    }
    Ok(())
}
