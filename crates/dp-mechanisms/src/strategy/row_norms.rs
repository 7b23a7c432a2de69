//! The squared norms `‖b_t‖²` of the rows of B, by what they are known from.

use dp_linalg::norms;
use dp_linalg::rational::{Mode, Sum, sum_of_squares};

/// The squared norms `‖b_t‖²` of the rows of B: the variance of release t is `σ²‖b_t‖²` per coordinate.
///
/// Strategies of few parameters have them in closed form, and long scaled ones as a curve through some computed rows: a
/// horizon of millions of steps needs no table of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RowNorms {
    steps: usize,
    mean: f64,
    max: f64,
    form: Form,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Table(Vec<f64>),
    Geometric(Geometric),
    Curve(Curve),
}

impl RowNorms {
    /// Norms that were all computed.
    pub fn exact(squared: Vec<f64>) -> Self {
        let steps = squared.len();
        let mean = norms::compensated_sum(squared.iter().copied()) / steps as f64;
        let max = squared.iter().copied().fold(0.0, f64::max);
        Self { steps, mean, max, form: Form::Table(squared) }
    }

    /// The rows of a Toeplitz matrix whose series is made of geometric sequences.
    pub(crate) fn geometric(geometric: Geometric, steps: usize) -> Self {
        let (mean, max) = (geometric.rows(steps) / steps as f64, geometric.row(steps));
        Self { steps, mean, max, form: Form::Geometric(geometric) }
    }

    /// A curve through the norms of some rows, counted from 0, among them the first and the last; smooth but for kinks at some
    /// of these rows.
    pub(crate) fn interpolated(rows: &[usize], squared: &[f64], kinks: &[usize], steps: usize) -> Self {
        let curve = Curve::new(rows, squared, kinks, steps);
        let (sum, largest) = curve.sum_and_largest(rows);
        Self { steps, mean: sum / steps as f64, max: largest, form: Form::Curve(curve) }
    }

    /// The number of rows.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The squared norm of a row, counted from 0.
    ///
    /// # Complexity
    /// O(1), O(k²) for k geometric sequences.
    pub fn at(&self, row: usize) -> Option<f64> {
        (row < self.steps).then(|| match &self.form {
            Form::Table(squared) => squared[row],
            Form::Geometric(geometric) => geometric.row(row + 1),
            Form::Curve(curve) => curve.at(row),
        })
    }

    /// The squared norms of all rows in turn.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.steps).filter_map(|row| self.at(row))
    }

    /// `‖B‖_F² / n`.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// `max_t ‖b_t‖²`.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// False when some of them are interpolated between computed ones (very long horizons).
    pub fn is_exact(&self) -> bool {
        !matches!(self.form, Form::Curve(_))
    }
}

/// The series of a decoder B as a sum of geometric sequences, and another such sum from the end of a window on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Geometric {
    first: Vec<Mode>,
    window: usize,
    later: Vec<Mode>,
}

impl Geometric {
    /// `b_k = Σ_i w_i (1-γ_i)^k`.
    pub(crate) fn new(modes: Vec<Mode>) -> Self {
        Self { first: modes, window: usize::MAX, later: Vec::new() }
    }

    /// The sums of the last `width` terms of such a series, given those of all terms.
    ///
    /// Past the window `b_{w+j} = p_{w+j} - p_j` for the prefix sums p: the constant cancels.
    pub(crate) fn windowed(prefix_sums: Vec<Mode>, width: usize) -> Self {
        let later = prefix_sums
            .iter()
            .filter(|mode| mode.gap > 0.0)
            .map(|mode| {
                let change = (width as f64 * (-mode.gap).ln_1p()).exp_m1();
                Mode { gap: mode.gap, weight: mode.weight * change }
            })
            .collect();
        Self { first: prefix_sums, window: width, later }
    }

    /// `Σ_{k<length} b_k²`: the squared norm of the row with so many entries.
    pub(crate) fn row(&self, length: usize) -> f64 {
        let first = sum_of_squares(&self.first, Sum::Plain, length.min(self.window));
        match length.checked_sub(self.window) {
            Some(rest) => first + sum_of_squares(&self.later, Sum::Plain, rest),
            None => first,
        }
    }

    /// The sum over the rows of lengths `1 … steps`.
    pub(crate) fn rows(&self, steps: usize) -> f64 {
        let first = sum_of_squares(&self.first, Sum::Triangular, steps.min(self.window));
        match steps.checked_sub(self.window) {
            Some(rest) => {
                let full = sum_of_squares(&self.first, Sum::Plain, self.window);
                first + rest as f64 * full + sum_of_squares(&self.later, Sum::Triangular, rest)
            }
            None => first,
        }
    }

    /// Whether the sums keep at least half of their digits: terms of both signs may cancel.
    pub(crate) fn is_accurate(&self, steps: usize) -> bool {
        let absolute = |modes: &[Mode]| {
            modes.iter().map(|mode| Mode { gap: mode.gap, weight: mode.weight.abs() }).collect()
        };
        let uncancelled =
            Self { first: absolute(&self.first), window: self.window, later: absolute(&self.later) };
        [1, self.window.min(steps), steps].iter().all(|&length| {
            let row = self.row(length);
            row > 0.0 && uncancelled.row(length) < 1e6 * row
        })
    }
}

/// Rows that are this far apart at most are summed one by one.
const ONE_BY_ONE: usize = 64;

/// Natural cubic splines through the logarithms of squared norms, in the logit of time, from one kink to the next.
#[derive(Debug, Clone, PartialEq)]
struct Curve {
    steps: usize,
    xs: Vec<f64>,
    ys: Vec<f64>,
    bends: Vec<f64>,
}

impl Curve {
    fn new(rows: &[usize], squared: &[f64], kinks: &[usize], steps: usize) -> Self {
        let xs: Vec<f64> = rows.iter().map(|&row| logit(row as f64, steps)).collect();
        let ys: Vec<f64> = squared.iter().map(|norm| norm.ln()).collect();
        let n = xs.len();
        let mut bends = vec![0.0; n];
        let mut upper = vec![0.0; n];
        // Thomas algorithm for the tridiagonal system of second derivatives.
        for i in 1..n.saturating_sub(1) {
            if kinks.contains(&rows[i]) {
                continue;
            }
            let (left, right) = (xs[i] - xs[i - 1], xs[i + 1] - xs[i]);
            let slope = 6.0 * ((ys[i + 1] - ys[i]) / right - (ys[i] - ys[i - 1]) / left);
            let pivot = 2.0 * (left + right) - left * upper[i - 1];
            upper[i] = right / pivot;
            bends[i] = (slope - left * bends[i - 1]) / pivot;
        }
        for i in (1..n.saturating_sub(1)).rev() {
            bends[i] -= upper[i] * bends[i + 1];
        }
        Self { steps, xs, ys, bends }
    }

    fn at(&self, row: usize) -> f64 {
        self.between(row as f64)
    }

    /// The curve at any time, in rows.
    fn between(&self, row: f64) -> f64 {
        let x = logit(row, self.steps);
        let i = self.xs.partition_point(|node| *node < x).clamp(1, self.xs.len() - 1);
        let width = self.xs[i] - self.xs[i - 1];
        let (b, a) = ((x - self.xs[i - 1]) / width, (self.xs[i] - x) / width);
        let bend = (a * a * a - a) * self.bends[i - 1] + (b * b * b - b) * self.bends[i];
        (a * self.ys[i - 1] + b * self.ys[i] + bend * width * width / 6.0).exp()
    }

    /// The sum over all rows, and the largest value seen on the way: distant nodes are joined by Simpson's rule, whose
    /// parts are short in the logit of time.
    fn sum_and_largest(&self, rows: &[usize]) -> (f64, f64) {
        let mut largest = self.ys.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp();
        let mut value = |row: f64| {
            let value = self.between(row);
            largest = largest.max(value);
            value
        };
        // The integral from half a row before to half a row after is the value in the row.
        let mut sum = value((self.steps - 1) as f64);
        for pair in rows.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if to - from <= ONE_BY_ONE {
                sum += (from..to).map(|row| value(row as f64)).sum::<f64>();
                continue;
            }
            sum += value(from as f64);
            let ends = [from as f64 + 0.5, to as f64 - 0.5];
            let positions = ends.map(|row| logit(row, self.steps));
            let parts = ((positions[1] - positions[0]) * 16.0).ceil().max(4.0) as usize;
            let time = |part: usize| match part {
                0 => ends[0],
                part if part == parts => ends[1],
                part => {
                    let x = positions[0] + (positions[1] - positions[0]) * part as f64 / parts as f64;
                    self.steps as f64 / (1.0 + (-x).exp()) - 0.5
                }
            };
            for part in 0..parts {
                let (left, right) = (time(part), time(part + 1));
                let middle = left.midpoint(right);
                sum += (right - left) / 6.0 * (value(left) + 4.0 * value(middle) + value(right));
            }
        }
        (sum, largest)
    }
}

/// The logit of the middle of a row.
fn logit(row: f64, steps: usize) -> f64 {
    ((row + 0.5) / (steps as f64 - row - 0.5)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn a_curve_sums_what_it_passes_through() {
        let steps = 200_000;
        let norm = |row: usize| ((row + 1) as f64).ln() + 1.0 + 1e-6 * row as f64;
        let mut rows: Vec<usize> = (0..200)
            .map(|i| (steps as f64 / (1.0 + (-0.13 * (f64::from(i) - 99.5)).exp())) as usize)
            .chain([0, 1, 2, 3, steps - 1])
            .collect();
        rows.sort_unstable();
        rows.dedup();
        let squared: Vec<f64> = rows.iter().map(|&row| norm(row)).collect();
        let curve = RowNorms::interpolated(&rows, &squared, &[], steps);
        assert!(!curve.is_exact() && curve.steps() == steps && curve.at(steps).is_none());
        let mean = (0..steps).map(norm).sum::<f64>() / steps as f64;
        assert_relative_eq!(curve.mean(), mean, max_relative = 1e-7);
        assert_relative_eq!(curve.mean(), curve.iter().sum::<f64>() / steps as f64, max_relative = 1e-8);
        assert_relative_eq!(curve.max(), norm(steps - 1), max_relative = 1e-12);
        for (row, value) in curve.iter().enumerate() {
            assert_relative_eq!(value, norm(row), max_relative = 1e-4);
        }
    }

    #[test]
    fn a_kink_stays_where_it_is() {
        let (steps, kink) = (100_000, 30_000);
        let norm = |row: usize| 5.0 + row.saturating_sub(kink) as f64 / 2000.0;
        let rows: Vec<usize> = [0, 1, 2, 5, 20, 100, 1000, 10_000, 29_000, 29_990, kink]
            .into_iter()
            .chain([30_010, 31_000, 35_000, 50_000, 70_000, 90_000, 99_000, 99_990, steps - 1])
            .collect();
        let squared: Vec<f64> = rows.iter().map(|&row| norm(row)).collect();
        let curve = RowNorms::interpolated(&rows, &squared, &[kink], steps);
        let smooth = RowNorms::interpolated(&rows, &squared, &[], steps);
        let worst = |curve: &RowNorms| {
            curve.iter().take(kink).map(|value| (value / 5.0 - 1.0).abs()).fold(0.0, f64::max)
        };
        assert!(worst(&curve) < 1e-12 && worst(&smooth) > 1e-4, "{} {}", worst(&curve), worst(&smooth));
        let mean = (0..steps).map(norm).sum::<f64>() / steps as f64;
        assert_relative_eq!(curve.mean(), mean, max_relative = 1e-2);
    }

    #[test]
    fn geometric_rows_are_the_sums_of_their_table() {
        let modes = vec![Mode { gap: 0.0, weight: 0.2 }, Mode { gap: 0.01, weight: 0.5 }];
        let prefix = |k: usize| 0.2 + 0.5 * 0.99_f64.powf(k as f64);
        for width in [7, 300, 1000] {
            let entry = |k: usize| if k < width { prefix(k) } else { prefix(k) - prefix(k - width) };
            let series: Vec<f64> = (0..500).map(entry).collect();
            let table = RowNorms::exact(super::super::prefix_sums_of_squares(&series));
            let closed = RowNorms::geometric(Geometric::windowed(modes.clone(), width), 500);
            assert!(closed.is_exact());
            assert_relative_eq!(closed.mean(), table.mean(), max_relative = 1e-12);
            assert_relative_eq!(closed.max(), table.max(), max_relative = 1e-12);
            for (a, b) in closed.iter().zip(table.iter()) {
                assert_relative_eq!(a, b, max_relative = 1e-12);
            }
        }
    }
}
