//! Inverses with one diagonal below their own: count, average, exponential decay.
//!
//! Written in differential form (the squares of the entries of L and what the shift adds to them) both sweeps add, multiply
//! and divide positive numbers only: every diagonal entry is accurate to a few n ε, however ill-conditioned T is.

use super::{LANES, Lanes};
use crate::workload::Workload;

/// The squared entries of a bidiagonal inverse.
#[derive(Debug, Clone)]
pub(super) struct Bidiagonal {
    diagonal: Vec<f64>,
    /// Entry i stands in row i+1, column i.
    below: Vec<f64>,
}

impl Bidiagonal {
    /// The inverse of a workload, or `None` when it has more diagonals.
    pub(super) fn of(workload: &Workload, steps: usize) -> Option<Self> {
        let squared_decay = workload.squared_decay()?;
        let diagonal: Vec<f64> = (0..steps).map(|step| workload.divisor(step).powi(2)).collect();
        // The column of the average's inverse at input t is (t, -t).
        let below = diagonal[..steps.saturating_sub(1)].iter().map(|entry| entry * squared_decay).collect();
        Some(Self { diagonal, below })
    }

    pub(super) fn steps(&self) -> usize {
        self.diagonal.len()
    }

    /// No row of `|L Lᵀ|` sums to more than four times the largest squared entry of L.
    pub(super) fn largest_eigenvalue(&self) -> f64 {
        4.0 * self.diagonal.iter().chain(&self.below).fold(0.0_f64, |a, b| a.max(*b))
    }

    /// The transpose, in reverse.
    pub(super) fn transposed(&self) -> Self {
        let reversed = |entries: &[f64]| entries.iter().rev().copied().collect();
        Self { diagonal: reversed(&self.diagonal), below: reversed(&self.below) }
    }

    /// The squared entries of `L = D^{-1/2} A⁻¹`.
    pub(super) fn scaled(&self, v: &[f64]) -> Self {
        let divided = |entries: &[f64], v: &[f64]| entries.iter().zip(v).map(|(e, v)| e / v).collect();
        Self { diagonal: divided(&self.diagonal, v), below: divided(&self.below, &v[1..]) }
    }

    /// Adds `weight · diag((L Lᵀ + shift)⁻¹)` of each group of lanes to `sum`.
    pub(super) fn add_inverse_diagonals(&self, nodes: impl Iterator<Item = (Lanes, Lanes)>, sum: &mut [f64]) {
        // What the shifts add to the pivots.
        let mut added = vec![[0.0; LANES]; self.steps()];
        for (shifts, weights) in nodes {
            self.add_group(shifts, weights, &mut added, sum);
        }
    }

    fn add_group(&self, shifts: Lanes, weights: Lanes, added: &mut [Lanes], sum: &mut [f64]) {
        let n = self.diagonal.len();
        // Downwards: the pivot of row i is q_i + s_i.
        let mut s = shifts;
        added[0] = s;
        for ((q, e), slot) in self.diagonal.iter().zip(&self.below).zip(&mut added[1..]) {
            for lane in 0..LANES {
                s[lane] = e * (s[lane] / (q + s[lane])) + shifts[lane];
            }
            *slot = s;
        }
        // Upwards: the pivot of row i is e_{i-1} + p_i; where both sweeps meet, s_i + p_i - shift is left.
        let mut p_without_shift = [self.diagonal[n - 1]; LANES];
        for i in (0..n).rev() {
            if i + 1 < n {
                let (q, e) = (self.diagonal[i], self.below[i]);
                for lane in 0..LANES {
                    let p = p_without_shift[lane] + shifts[lane];
                    p_without_shift[lane] = q * (p / (e + p));
                }
            }
            let mut total = 0.0;
            for lane in 0..LANES {
                total += weights[lane] / (added[i][lane] + p_without_shift[lane]);
            }
            sum[i] += total;
        }
    }
}
