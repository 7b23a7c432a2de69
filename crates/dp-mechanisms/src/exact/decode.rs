//! From noisy measurements to releases: post-processing, and therefore free to round.
//!
//! Nothing here sees data or noise, only their exact integer sum. The release is `A C̃⁻¹ y`, computed in f64 from the
//! coefficients of C̃ itself (not of the strategy it is a rounding of), so decoding is unbiased up to f64.

use std::sync::Arc;

use dp_linalg::series;
use dp_linalg::toeplitz::OnlineToeplitz;

use super::integer::{Entries, IntegerStrategy, inverse_series};
use crate::error::Result;
use crate::noise::{Side, UnitNoise};
use crate::strategy::toeplitz::{row_norms, scaled_row_norms};
use crate::strategy::{NoiseFilter, RowNorms};
use crate::workload::WorkloadStream;

/// The state of the decoder, for vectors of a fixed dimension.
pub(super) struct Decoder {
    strategy: Arc<IntegerStrategy>,
    dimension: usize,
    step: usize,
    inner: Inner,
    /// Applies the workload to estimated inputs, where the inner decoder stops at those.
    workload: Option<Box<WorkloadStream>>,
    estimate: Vec<f64>,
}

enum Inner {
    /// `B` or `T⁻¹` as a convolution.
    Toeplitz(Box<OnlineToeplitz>),
    /// The decoding of a tree, which is linear in what it is given: noise elsewhere, measurements here.
    Tree { filter: Box<dyn NoiseFilter>, rows: Rows },
    /// Forward substitution over all estimates so far.
    Substitution { estimates: Vec<f64> },
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
    pub(super) fn new(strategy: Arc<IntegerStrategy>, dimension: usize, most_rows: usize) -> Result<Self> {
        let steps = strategy.steps();
        let source = strategy.source().clone();
        let workload = source.workload();
        let stream = || workload.stream(steps, dimension).map(Box::new).map(Some);
        let (inner, workload) = match &strategy.entries {
            Entries::Toeplitz { coefficients, bits } => {
                let inverse = inverse_series(coefficients, *bits)?;
                match workload.series(steps)? {
                    Some(weights) => {
                        let decoder = series::product(&weights, &inverse, steps);
                        (Inner::Toeplitz(Box::new(OnlineToeplitz::new(&decoder, dimension)?)), None)
                    }
                    None => (Inner::Toeplitz(Box::new(OnlineToeplitz::new(&inverse, dimension)?)), stream()?),
                }
            }
            Entries::Scaled { coefficients, bits, .. } => {
                let inverse = inverse_series(coefficients, bits[1])?;
                (Inner::Toeplitz(Box::new(OnlineToeplitz::new(&inverse, dimension)?)), stream()?)
            }
            Entries::LeftNodes { .. } | Entries::AllNodes { .. } => {
                let filter = source.noise_filter(dimension)?;
                let stream = if filter.side() == Side::Input { stream()? } else { None };
                let rows = Rows { first: 0, dimension, values: vec![0.0; most_rows * dimension] };
                (Inner::Tree { filter, rows }, stream)
            }
            Entries::Dense { .. } => {
                (Inner::Substitution { estimates: vec![0.0; steps * dimension] }, stream()?)
            }
        };
        Ok(Self { strategy, dimension, step: 0, inner, workload, estimate: vec![0.0; dimension] })
    }

    /// Takes the measurements of the next step, in units of C̃ times the grid, and writes the release.
    pub(super) fn push(&mut self, first_row: usize, measured: &[i128], output: &mut [f64]) -> Result<()> {
        let (step, dimension) = (self.step, self.dimension);
        let unit = libm::ldexp(1.0, -self.strategy.bits().cast_signed());
        let estimate = &mut self.estimate;
        match (&mut self.inner, &self.strategy.entries) {
            (Inner::Toeplitz(operator), entries) => {
                let (row, column) = match entries {
                    Entries::Scaled { rows, columns, bits, .. } => (
                        libm::ldexp(1.0, bits[0].cast_signed()) / rows[step] as f64,
                        libm::ldexp(1.0, bits[2].cast_signed()) / columns[step] as f64,
                    ),
                    _ => (1.0, 1.0),
                };
                // With a workload to follow, the measurements wait in the output and the estimates go to it.
                let (from, to) = if self.workload.is_some() {
                    (&mut *output, &mut estimate[..])
                } else {
                    (&mut estimate[..], &mut *output)
                };
                for (value, measured) in from.iter_mut().zip(measured) {
                    *value = *measured as f64 * unit * row;
                }
                operator.push(from, to)?;
                to.iter_mut().for_each(|value| *value *= column);
            }
            (Inner::Tree { filter, rows }, _) => {
                rows.first = first_row;
                for (value, measured) in rows.values.iter_mut().zip(measured) {
                    *value = *measured as f64 * unit;
                }
                filter.next_into(
                    rows,
                    if self.workload.is_some() { &mut estimate[..] } else { &mut *output },
                )?;
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
        if let Some(workload) = &mut self.workload {
            workload.push(&self.estimate, output)?;
        }
        self.step += 1;
        Ok(())
    }
}

/// `‖b_t‖²` of the decoder of C̃, in units of `2^-bits`.
pub(super) fn decoder_row_norms(strategy: &IntegerStrategy) -> Result<RowNorms> {
    let workload = strategy.source().workload();
    match &strategy.entries {
        Entries::Toeplitz { coefficients, bits } => row_norms(workload, inverse_series(coefficients, *bits)?),
        Entries::Scaled { rows, coefficients, columns, bits } => {
            let unit = |bits: u32| libm::ldexp(1.0, bits.cast_signed());
            scaled_row_norms(
                workload,
                &inverse_series(coefficients, bits[1])?,
                rows.iter().map(|row| *row as f64 / unit(bits[0])).collect(),
                columns.iter().map(|column| unit(bits[2]) / *column as f64).collect(),
            )
        }
        // Trees are not rounded; dense matrices by less than 2^-20 of their largest entry.
        Entries::LeftNodes { .. } | Entries::AllNodes { .. } | Entries::Dense { .. } => {
            strategy.source().row_norms()
        }
    }
}
