//! Inverses with two diagonals below their own: momentum, whose inverse is `(1 - βx) diag(1/η) (1 - x)`.
//!
//! The entries of L have both signs, and `L Lᵀ + t²` must not be formed: its small eigenvalues would be lost. Orthogonal
//! transformations of `[L, tI]` lead to its lower-triangular root R instead, one row at a time with a remainder of two
//! columns; the variances of `R⁻ᵀ w` for independent w, from the last to the first, are the diagonal of the inverse.

use super::{LANES, Lanes};
use crate::workload::{Recurrence, Workload};

/// The entries of an inverse with three diagonals.
#[derive(Debug, Clone)]
pub(super) struct SecondOrder {
    /// Column i: the entries in rows i, i+1 and i+2, zero past the last row.
    columns: Vec<[f64; 3]>,
    /// `1/(1-β)`: the steps after which an input is forgotten.
    memory: f64,
}

impl SecondOrder {
    /// The inverse of a workload, or `None` when it has another number of diagonals.
    pub(super) fn of(workload: &Workload, steps: usize) -> Option<Self> {
        let Recurrence::Second { beta } = workload.recurrence() else { return None };
        let inverse_rate = |step: usize| 1.0 / workload.rate(step);
        let mut columns: Vec<[f64; 3]> = (0..steps)
            .map(|i| {
                let (here, next) = (inverse_rate(i), inverse_rate(i + 1));
                [here, -next - beta * here, beta * next]
            })
            .collect();
        clip(&mut columns);
        columns
            .iter()
            .flatten()
            .all(|entry| entry.is_finite())
            .then_some(Self { columns, memory: 1.0 / (1.0 - beta) })
    }

    pub(super) fn steps(&self) -> usize {
        self.columns.len()
    }

    /// By how much rounding of the entries changes the small singular values, about: the sums of `|A|` along a row.
    pub(super) fn condition(&self) -> f64 {
        let steps = self.steps() as f64;
        steps * steps.min(self.memory)
    }

    /// No row or column of |L| sums to more than three times the largest entry.
    pub(super) fn largest_eigenvalue(&self) -> f64 {
        9.0 * self.columns.iter().flatten().fold(0.0_f64, |a, b| a.max(b * b))
    }

    /// The transpose, in reverse.
    pub(super) fn transposed(&self) -> Self {
        let steps = self.steps();
        let entry = |i: usize, below: usize| match (steps - 1).checked_sub(i + below) {
            Some(column) => self.columns[column][below],
            None => 0.0,
        };
        let columns = (0..steps).map(|i| std::array::from_fn(|below| entry(i, below))).collect();
        Self { columns, memory: self.memory }
    }

    /// `D^{-1/2} A⁻¹`.
    pub(super) fn scaled(&self, v: &[f64]) -> Self {
        let root = |row: usize| v.get(row).map_or(1.0, |weight| weight.sqrt());
        let columns = self.columns.iter().enumerate();
        let scale =
            |(i, column): (usize, &[f64; 3])| std::array::from_fn(|below| column[below] / root(i + below));
        Self { columns: columns.map(scale).collect(), memory: self.memory }
    }

    /// Adds `weight · diag((L Lᵀ + shift)⁻¹)` of each group of lanes to `sum`.
    pub(super) fn add_inverse_diagonals(&self, nodes: impl Iterator<Item = (Lanes, Lanes)>, sum: &mut [f64]) {
        let mut root = vec![[[0.0; LANES]; 3]; self.steps()];
        for (shifts, weights) in nodes {
            self.root(shifts.map(f64::sqrt), &mut root);
            add_variances(&root, weights, sum);
        }
    }

    /// The columns of the lower-triangular R with `R Rᵀ = L Lᵀ + t²`.
    fn root(&self, t: Lanes, root: &mut [[Lanes; 3]]) {
        // The remainder: columns (top, middle) and (0, bottom) in the present row and the next.
        let (mut top, mut middle, mut bottom) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for (column, out) in self.columns.iter().zip(root) {
            for lane in 0..LANES {
                let [first, second, third] = *column;
                // The remainder's first column, then t, are turned into the column of L.
                let (length, cosine, sine) = rotation(first, top[lane]);
                let (down, far) = (cosine * second + sine * middle[lane], cosine * third);
                let left = (cosine * middle[lane] - sine * second, -sine * third);
                let (pivot, cosine, sine) = rotation(length, t[lane]);
                let right = (-sine * down, -sine * far);
                out[0][lane] = pivot;
                out[1][lane] = cosine * down;
                out[2][lane] = cosine * far;
                // Three columns are left in the next two rows: made lower triangular again.
                let (length, cosine, sine) = rotation(left.0, right.0);
                let (low, rest) = (cosine * left.1 + sine * right.1, cosine * right.1 - sine * left.1);
                let (length, cosine, sine) = rotation(length, bottom[lane]);
                top[lane] = length;
                middle[lane] = cosine * low;
                bottom[lane] = (rest * rest + sine * sine * low * low).sqrt();
            }
        }
    }
}

/// Removes what stands below the last row.
fn clip(columns: &mut [[f64; 3]]) {
    let steps = columns.len();
    for (i, column) in columns.iter_mut().enumerate().skip(steps.saturating_sub(2)) {
        column[steps - i..].fill(0.0);
    }
}

/// The length of (a, b), and the cosine and sine that turn it onto the first axis.
fn rotation(a: f64, b: f64) -> (f64, f64, f64) {
    let length = (a * a + b * b).sqrt();
    if length > 0.0 { (length, a / length, b / length) } else { (0.0, 1.0, 0.0) }
}

/// Adds the weighted squared norms of the columns of R⁻¹: the variances of x in `Rᵀ x = w`, from the last to the first.
fn add_variances(root: &[[Lanes; 3]], weights: Lanes, sum: &mut [f64]) {
    // The variances of the next two values, and their covariance.
    let (mut next, mut both, mut later) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for ([pivot, down, far], sum) in root.iter().zip(sum).rev() {
        let mut total = 0.0;
        for lane in 0..LANES {
            let inverse = 1.0 / pivot[lane];
            let (a, b) = (down[lane] * inverse, far[lane] * inverse);
            let covariance = -(a * next[lane] + b * both[lane]);
            // The covariance with the next value and with the one after it give the variance.
            let with_later = -(a * both[lane] + b * later[lane]);
            let variance = inverse * inverse - a * covariance - b * with_later;
            later[lane] = next[lane];
            both[lane] = covariance;
            next[lane] = variance;
            total += weights[lane] * variance;
        }
        *sum += total;
    }
}
