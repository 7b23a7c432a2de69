//! The squared row norms of the decoder B of a Toeplitz strategy, without the matrix.

use dp_linalg::fft::{self, Kernel, Scratch};
use dp_linalg::rational::Rational;
use dp_linalg::series;
use ndarray::Array1;
use rayon::prelude::*;

use super::Scaling;
use crate::error::Result;
use crate::strategy::row_norms::Geometric;
use crate::strategy::{RowNorms, check_materializable, prefix_sums_of_squares};
use crate::workload::{Recurrence, Workload};

/// Up to this many steps every entry of B is computed; above it, selected rows, and the rest interpolated.
pub(super) const EXACT_LIMIT: usize = 8192;

/// `C = T`: for Toeplitz workloads `b = a/c` and the norms are partial sums.
pub(super) fn unscaled(workload: &Workload, mut inverse: Vec<f64>) -> Result<RowNorms> {
    let steps = inverse.len();
    if workload.constant_rate().is_none() {
        let identity = Scaling { rows: vec![1.0; steps], column_norms: vec![1.0; steps] };
        return scaled(workload, &inverse, &identity);
    }
    let toeplitz = if workload.is_average() { Workload::count() } else { workload.clone() };
    Readout::new(&toeplitz, steps)?.apply_from(0, &mut inverse);
    let mut squared = prefix_sums_of_squares(&inverse);
    for (step, norm) in squared.iter_mut().enumerate() {
        *norm /= workload.divisor(step).powi(2);
    }
    Ok(RowNorms::exact(squared))
}

/// The rows of `C = T` with a rational core in closed form, for workloads that are a product of poles or a window over one;
/// nothing for others, or where the closed form would lose its digits.
///
/// The average divides those of the count by t², and is interpolated: its mean has no closed form.
pub(super) fn closed_form(workload: &Workload, core: &Rational, steps: usize) -> Option<RowNorms> {
    let rate = workload.constant_rate()?;
    let mut modes = core.quotient_modes(&workload.pole_gaps())?;
    modes.iter_mut().for_each(|mode| mode.weight *= rate);
    let geometric = match workload.recurrence() {
        Recurrence::Window { width } => Geometric::windowed(modes, width),
        _ => Geometric::new(modes),
    };
    if !geometric.is_accurate(steps) {
        return None;
    }
    let sums = RowNorms::geometric(geometric, steps);
    Some(if workload.is_average() { divided(workload, &sums) } else { sums })
}

/// The rows of an average from those of the sums that it divides, interpolated.
pub(super) fn divided(workload: &Workload, sums: &RowNorms) -> RowNorms {
    let nodes = sample_rows(workload, sums.steps());
    let squared = |&row: &usize| Some(sums.at(row)? / workload.divisor(row).powi(2));
    let squared: Vec<f64> = nodes.iter().filter_map(squared).collect();
    RowNorms::interpolated(&nodes, &squared, &[], sums.steps())
}

/// `C = D1 · T · D2`.
///
/// # Complexity
/// O(n²) up to [`EXACT_LIMIT`] steps (O(n² log n) for workloads without a recurrence); above it one FFT for each
/// of a few dozen rows.
pub(super) fn scaled(workload: &Workload, inverse: &[f64], scaling: &Scaling) -> Result<RowNorms> {
    let steps = inverse.len();
    if steps > EXACT_LIMIT {
        return interpolated(workload, inverse, scaling);
    }
    let readout = Readout::new(workload, steps)?;
    // Parts of fixed size, summed in order: the same numbers however many threads there are.
    let part = steps.div_ceil(64);
    let parts: Vec<Array1<f64>> = (0..steps.div_ceil(part))
        .into_par_iter()
        .map(|index| {
            let (mut norms, mut column) = (Array1::<f64>::zeros(steps), vec![0.0; steps]);
            for index in index * part..((index + 1) * part).min(steps) {
                readout.decoder_column(inverse, scaling, index, &mut column);
                for (norm, value) in norms.iter_mut().zip(&column).skip(index) {
                    *norm += value * value;
                }
            }
            norms
        })
        .collect();
    let squared = parts.into_iter().fold(Array1::zeros(steps), |sum, part| sum + part);
    Ok(RowNorms::exact(squared.to_vec()))
}

/// A workload, ready to be applied to whole columns.
pub(crate) struct Readout<'a> {
    workload: &'a Workload,
    /// The weights of a workload that must be applied by convolution.
    weights: Option<Vec<f64>>,
}

impl<'a> Readout<'a> {
    pub(crate) fn new(workload: &'a Workload, steps: usize) -> Result<Self> {
        let weights = match workload.recurrence() {
            Recurrence::None => workload.series(steps)?,
            _ => None,
        };
        Ok(Self { workload, weights })
    }

    /// Column `index` of `B = A D2⁻¹ T⁻¹ D1⁻¹`, from row `index` on (what stands before is left alone).
    fn decoder_column(&self, inverse: &[f64], scaling: &Scaling, index: usize, column: &mut [f64]) {
        let scale = 1.0 / scaling.rows[index];
        for ((value, coefficient), norm) in
            column[index..].iter_mut().zip(inverse).zip(&scaling.column_norms[index..])
        {
            *value = coefficient * norm * scale;
        }
        self.apply_from(index, column);
    }

    /// The squared norm of one column of B: what fitting a scaling needs.
    pub(crate) fn column_energy(
        &self,
        inverse: &[f64],
        scaling: &Scaling,
        index: usize,
        scratch: &mut [f64],
    ) -> f64 {
        self.decoder_column(inverse, scaling, index, scratch);
        scratch[index..].iter().map(|value| value * value).sum()
    }

    /// Applies the workload in place to a vector that is zero before `start`.
    fn apply_from(&self, start: usize, values: &mut [f64]) {
        let tail = &mut values[start..];
        match self.workload.recurrence() {
            Recurrence::Window { width: 1 } => {}
            Recurrence::Window { width } => {
                running(tail, 1.0);
                for index in (width..tail.len()).rev() {
                    tail[index] -= tail[index - width];
                }
            }
            Recurrence::First { decay } => {
                running(tail, decay);
                for (step, value) in (start..).zip(tail) {
                    *value /= self.workload.divisor(step);
                }
            }
            Recurrence::Second { beta } => {
                running(tail, beta);
                for (step, value) in (start..).zip(&mut *tail) {
                    *value *= self.workload.rate(step);
                }
                running(tail, 1.0);
            }
            Recurrence::None => {
                let weights = self.weights.as_deref().unwrap_or_default();
                let product = fft::convolve_truncated(weights, tail, tail.len());
                tail.copy_from_slice(&product);
            }
        }
    }
}

/// `s_t = decay · s_{t-1} + x_t`, in place.
fn running(values: &mut [f64], decay: f64) {
    let mut sum = 0.0;
    for value in values {
        sum = sum * decay + *value;
        *value = sum;
    }
}

/// Selected rows of B by FFT, and a cubic through their logarithms in the logit of time.
fn interpolated(workload: &Workload, inverse: &[f64], scaling: &Scaling) -> Result<RowNorms> {
    let steps = inverse.len();
    if workload.constant_rate().is_none() {
        check_materializable(steps)?;
    }
    let nodes = sample_rows(workload, steps);
    if let Recurrence::Window { width: 1 } = workload.recurrence() {
        // Each entry of a row is a product: no transform is needed.
        let norm = |&row: &usize| -> f64 {
            let entries = inverse[..=row].iter().zip(scaling.rows[..=row].iter().rev());
            scaling.column_norms[row].powi(2) * entries.map(|(entry, d)| (entry / d).powi(2)).sum::<f64>()
        };
        let norms: Vec<f64> = nodes.par_iter().map(norm).collect();
        return Ok(RowNorms::interpolated(&nodes, &norms, &[], steps));
    }
    let weights = workload.series(steps)?.unwrap_or_else(|| series::count(steps));
    // b_{t,i} = (1/d_i) Σ_j A_{t,j} n_j t⁻¹_{j-i}: with j counted back from t, a product of two series. Rows of similar length share
    // the spectrum of the inverse.
    let mut norms = Vec::with_capacity(nodes.len());
    for rows in
        nodes.chunk_by(|left, right| (left + 1).next_power_of_two() == (right + 1).next_power_of_two())
    {
        let length = (rows[0] + 1).next_power_of_two().min(steps);
        let kernel = Kernel::new(&inverse[..length], length);
        let norm = |(scratch, weighted, entries): &mut (Scratch, Vec<f64>, Vec<f64>), &row: &usize| {
            weighted.clear();
            let ages = weights[..=row].iter().zip(scaling.column_norms[..=row].iter().rev());
            weighted.extend(ages.map(|(weight, norm)| weight * norm));
            entries.resize(row + 1, 0.0);
            kernel.apply_into(weighted, entries, scratch)?;
            let scale = 1.0 / workload.divisor(row);
            let squares = entries.iter().zip(scaling.rows[..=row].iter().rev());
            Ok(squares.map(|(entry, d)| (scale * entry / d).powi(2)).sum())
        };
        let squared: Result<Vec<f64>> = rows.par_iter().map_init(Default::default, norm).collect();
        norms.extend(squared?);
    }
    Ok(RowNorms::interpolated(&nodes, &norms, &window_kinks(workload, steps), steps))
}

/// Around the kink of a window, rows are at least `2^-RESOLUTION` of the horizon apart.
const RESOLUTION: u32 = 12;

/// The rows at which the norms have a kink: where a window is full for the first time, and where columns begin that it does not
/// leave before the end.
fn window_kinks(workload: &Workload, steps: usize) -> Vec<usize> {
    match workload.recurrence() {
        Recurrence::Window { width } if (2..steps).contains(&width) => vec![width - 1, steps - width],
        _ => Vec::new(),
    }
}

/// Rows at which B is computed: dense at both ends, evenly spread in the logit between, and around a window.
fn sample_rows(workload: &Workload, steps: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..8).chain(steps - 8..steps).collect();
    let range = (2.0 * steps as f64).ln();
    let count = 48;
    for index in 0..=count {
        let x = range * (2.0 * f64::from(index) / f64::from(count) - 1.0);
        rows.push(((steps as f64 / (1.0 + (-x).exp())) as usize).min(steps - 1));
    }
    // Denser towards a kink, and nowhere so dense that rounding decides how a spline bends.
    let nearest = (steps >> RESOLUTION).max(1);
    for kink in window_kinks(workload, steps) {
        let mut around = vec![kink];
        for distance in (0..usize::BITS).map(|bit| nearest << bit).take_while(|distance| *distance < steps) {
            around.extend(kink.checked_sub(distance));
            around.push((kink + distance).min(steps - 1));
        }
        let apart = |row: &usize| around.iter().all(|near| near.abs_diff(*row) >= nearest);
        rows.retain(|row| *row < 8 || *row + 8 >= steps || apart(row));
        rows.extend(around);
    }
    // What the second kink has taken from the first, and no row of either right beside the other: a spline would go on as steeply as a
    // kink is left.
    let kinks = window_kinks(workload, steps);
    rows.retain(|row| {
        *row < 8 || *row + 8 >= steps || kinks.iter().all(|kink| kink.abs_diff(*row) >= nearest)
    });
    rows.extend(kinks);
    rows.sort_unstable();
    rows.dedup();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use crate::strategy::toeplitz::sqrt_core;
    use crate::strategy::{blt, scaled, unwatched};
    use approx::assert_relative_eq;

    #[test]
    fn interpolation_agrees_with_every_row() {
        for (text, steps) in [
            ("count", 3000),
            ("average", 3000),
            ("exp:1.01", 3000),
            ("window:40", 3000),
            ("window:750", 3000),
            ("window:2000", 3000),
            ("window:2999", 3000),
            ("poly:0.5", 3000),
            ("step", 3000),
        ] {
            let workload: Workload = text.parse().unwrap();
            let core = sqrt_core(&workload, steps).unwrap();
            let (coefficients, inverse) = (core.coefficients(steps).unwrap(), core.inverse(steps).unwrap());
            let scaling = Scaling::normalizing(&coefficients, vec![1.0; steps]);
            let all = scaled(&workload, &inverse, &scaling).unwrap();
            let some = interpolated(&workload, &inverse, &scaling).unwrap();
            assert!(all.is_exact() && !some.is_exact());
            let relative = (some.mean() / all.mean() - 1.0).abs();
            assert!(relative < 2e-3, "{text}: {relative}");
            for (row, (a, b)) in all.iter().zip(some.iter()).enumerate() {
                assert!((a / b - 1.0).abs() < 2e-2, "{text} row {row}: {a} {b}");
            }
        }
    }

    /// A quarter of the horizon: what is a power of two away from one kink lies beside the other.
    #[test]
    fn no_row_stands_right_beside_a_kink() {
        for (width, steps) in [(1 << 18, 1 << 20), (1 << 14, 1 << 18), (1000, 1 << 20), (3 << 18, 1 << 20)] {
            let workload = Workload::window(width).unwrap();
            let (rows, kinks) = (sample_rows(&workload, steps), [width - 1, steps - width]);
            for kink in kinks {
                assert!(rows.contains(&kink), "{width} {steps}");
                let beside = |row: &&usize| **row != kink && row.abs_diff(kink) < steps >> RESOLUTION;
                let beside = rows.iter().find(beside);
                assert!(beside.is_none(), "{width} {steps}: {beside:?} beside {kink}");
            }
        }
    }

    #[test]
    fn closed_forms_agree_with_every_row() {
        let steps = 5000;
        let mut covered = 0;
        for text in [
            "count",
            "average",
            "exp:1.001",
            "exp:1.3",
            "window:400",
            "window:9000",
            "momentum:0.9",
            "poly:0.5",
        ] {
            let workload: Workload = text.parse().unwrap();
            let problem = Problem::new(workload.clone(), steps).unwrap();
            let core = blt::fit(&problem, 5, &mut unwatched).unwrap();
            let Some(closed) = closed_form(&workload, &core, steps) else {
                assert_eq!(text, "poly:0.5");
                continue;
            };
            covered += 1;
            let table = unscaled(&workload, core.inverse().unwrap().coefficients(steps)).unwrap();
            // The average alone is interpolated.
            let tolerance = if closed.is_exact() { 1e-9 } else { 1e-3 };
            assert_eq!(closed.is_exact(), text != "average");
            assert_relative_eq!(closed.mean(), table.mean(), max_relative = tolerance);
            assert_relative_eq!(closed.max(), table.max(), max_relative = tolerance);
            for (a, b) in closed.iter().zip(table.iter()) {
                assert_relative_eq!(a, b, max_relative = tolerance);
            }
        }
        assert_eq!(covered, 7);
    }

    #[test]
    fn normalized_columns_never_exceed_one() {
        use crate::strategy::Strategy;
        for (text, steps) in [("count", 5), ("count", 700), ("window:7", 100), ("poly:2", 300)] {
            let problem = Problem::new(text.parse().unwrap(), steps).unwrap();
            let strategy = scaled::normalized_sqrt(&problem).unwrap();
            let matrix = strategy.materialize().unwrap().strategy;
            let claimed = strategy.sensitivity(crate::Participation::Single).unwrap().squared;
            for column in matrix.columns() {
                let squared = dp_linalg::norms::round_up_sum_of_squares(&column.to_vec());
                assert!(squared <= claimed && squared > 1.0 - 1e-12, "{text} {steps}: {squared}");
            }
        }
    }

    #[test]
    fn long_horizons_are_normalized_by_fft_on_the_safe_side() {
        let steps = 5000;
        let coefficients = series::binomial(0.5, steps);
        let rows: Vec<f64> = (0..steps).map(|t| ((t as f64 + 0.5) / steps as f64).powf(0.3)).collect();
        let scaling = Scaling::normalizing(&coefficients, rows.clone());
        for j in (0..steps).step_by(97).chain([steps - 1]) {
            let column: Vec<f64> =
                coefficients[..steps - j].iter().zip(&rows[j..]).map(|(c, d)| c * d).collect();
            let squared = dp_linalg::norms::round_up_sum_of_squares(&column);
            let bound = scaling.column_norms[j] * scaling.column_norms[j];
            assert!(bound >= squared && bound < squared * (1.0 + 1e-9), "{j}: {squared} {bound}");
        }
    }
}
