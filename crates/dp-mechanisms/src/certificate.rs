//! Lower bounds on E2 by duality without matrices, for workloads whose *inverse* is bidiagonal (count, average,
//! exponential decay): nearly tight at millions of steps, in O(n) memory.
//!
//! For every positive vector v of column weights, `D = diag(v)`, `n · min E2 ≥ ‖A D^{1/2}‖_*² / Σ v`
//! ([`crate::bounds::dual_certificate`], which takes any workload as a dense matrix). A vector of any origin proves a
//! bound; only its quality depends on where it comes from.
//!
//! With `L = D^{-1/2} A⁻¹` bidiagonal, `D^{1/2} AᵀA D^{1/2} = (L Lᵀ)⁻¹`, so everything the dual program needs — its
//! value and its gradient — is the diagonal of `T^{-1/2}` for the tridiagonal `T = L Lᵀ`:
//!
//! `T^{-1/2} = (2/π) ∫_0^∞ (T + t²)⁻¹ dt`
//!
//! The trapezoidal rule in `ln t` converges geometrically, and the diagonal of each inverse takes one sweep in each
//! direction. Written in differential form (the squares of the entries of L and what the shift adds to them) both
//! sweeps add, multiply and divide positive numbers only: every diagonal entry is accurate to a few n ε, however
//! ill-conditioned T is.

use dp_linalg::minimize::{self, Options};
use rayon::prelude::*;

use crate::error::{Result, check_count, check_positive};
use crate::workload::{Kind, Workload};

/// A lower bound on E2 and the column weights that prove it.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanBound {
    /// No strategy has a smaller mean squared error factor.
    pub lower_bound: f64,
    /// The point v of the dual program, which [`bidiagonal_certificate`] and [`crate::bounds::dual_certificate`] verify.
    pub column_weights: Vec<f64>,
}

/// Distance of the nodes in `ln t`; the rule is off by a factor within `1 ± 2 e^{-π²/h}`, about 4e-11.
const STEP: f64 = 0.4;

/// How far, in `ln t`, the nodes reach past the spectrum. The geometric sums that replace the rest leave a relative
/// error of `e^{-3·8}`, and on the small side only.
const REACH: f64 = 8.0;

/// Covers the error of the quadrature and of rounding.
const MARGIN: f64 = 1.0 - 1e-9;

/// Nodes that one sweep carries along, so that their divisions overlap.
const LANES: usize = 4;

/// The parts of the quadrature that run in parallel.
const GROUPS: usize = 8;

/// The longest horizon of the first level when weights are optimized from short horizons to long ones.
const COARSEST: usize = 64;

/// The longest horizon at which weights are optimized rather than stretched.
const OPTIMIZED: usize = 1 << 14;

/// The squared entries of the bidiagonal `A⁻¹`, or `None` when the inverse has more diagonals.
#[derive(Debug, Clone)]
struct SquaredInverse {
    diagonal: Vec<f64>,
    /// Entry i stands in row i+1, column i.
    below: Vec<f64>,
}

impl SquaredInverse {
    fn of(workload: &Workload, steps: usize) -> Option<Self> {
        let (diagonal, below): (fn(f64) -> f64, f64) = match workload.kind() {
            Kind::Count => (|_| 1.0, 1.0),
            Kind::Average => (|t| t * t, 1.0),
            Kind::Exponential { alpha } => (|_| 1.0, 1.0 / (alpha * alpha)),
            _ => return None,
        };
        let diagonal: Vec<f64> = (1..=steps).map(|t| diagonal(t as f64)).collect();
        // The column of the average's inverse at input t is (t, -t).
        let below = diagonal[..steps.saturating_sub(1)].iter().map(|entry| entry * below).collect();
        Some(Self { diagonal, below })
    }

    /// The squared entries of `L = D^{-1/2} A⁻¹`.
    fn scaled(&self, v: &[f64]) -> Self {
        let divided = |entries: &[f64], v: &[f64]| entries.iter().zip(v).map(|(e, v)| e / v).collect();
        Self { diagonal: divided(&self.diagonal, v), below: divided(&self.below, &v[1..]) }
    }

    /// Adds `weight · diag((L Lᵀ + shift)⁻¹)` of every lane to `sum`. `added` is scratch for what the shifts add to
    /// the pivots.
    fn add_inverse_diagonals(
        &self,
        shifts: [f64; LANES],
        weights: [f64; LANES],
        added: &mut [[f64; LANES]],
        sum: &mut [f64],
    ) {
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

    /// The diagonal of `(L Lᵀ)^{-1/2}`.
    ///
    /// # Complexity
    /// About 65 nodes of O(n) each, in parallel.
    fn inverse_root_diagonal(&self) -> Vec<f64> {
        let n = self.diagonal.len();
        let mut inverse = vec![0.0; n];
        let mut one = [0.0; LANES];
        one[0] = 1.0;
        self.add_inverse_diagonals([0.0; LANES], one, &mut vec![[0.0; LANES]; n], &mut inverse);
        let smallest = 1.0 / inverse.iter().sum::<f64>();
        // No row of |T| sums to more than four times the largest squared entry of L.
        let largest = 4.0 * self.diagonal.iter().chain(&self.below).fold(0.0_f64, |a, b| a.max(*b));
        let from = 0.5 * smallest.ln() - REACH;
        let nodes = ((0.5 * largest.ln() + REACH - from) / STEP).ceil() as usize + 1;
        let ends = 1.0 / (1.0 - (-STEP).exp());
        let node = |index: usize| -> (f64, f64) {
            if index >= nodes {
                return (1.0, 0.0);
            }
            let t = (from + STEP * index as f64).exp();
            let end = if index == 0 || index + 1 == nodes { ends } else { 1.0 };
            (t * t, std::f64::consts::FRAC_2_PI * STEP * t * end)
        };
        // Groups of blocks, added up in order: the same bits on any number of threads.
        let blocks: Vec<usize> = (0..nodes.div_ceil(LANES)).collect();
        let partial: Vec<Vec<f64>> = blocks
            .par_chunks(blocks.len().div_ceil(GROUPS))
            .map(|group| {
                let (mut sum, mut added) = (vec![0.0; n], vec![[0.0; LANES]; n]);
                for block in group {
                    let lanes: [(f64, f64); LANES] = std::array::from_fn(|lane| node(block * LANES + lane));
                    let (shifts, weights) = (lanes.map(|(shift, _)| shift), lanes.map(|(_, weight)| weight));
                    self.add_inverse_diagonals(shifts, weights, &mut added, &mut sum);
                }
                sum
            })
            .collect();
        let mut total = vec![0.0; n];
        for sum in partial {
            total.iter_mut().zip(sum).for_each(|(total, part)| *total += part);
        }
        total
    }
}

/// The bound of [`crate::bounds::dual_certificate`] for a workload with a bidiagonal inverse; `None` for any other.
///
/// It is smaller than the dense one by a factor of about `1 - 2e-9`, which covers quadrature and rounding.
///
/// # Complexity
/// O(n) with a constant of about 65 pairs of sweeps.
///
/// # Errors
/// No weights, or weights that are not finite and positive.
pub fn bidiagonal_certificate(workload: &Workload, v: &[f64]) -> Result<Option<f64>> {
    check_count("steps", v.len())?;
    for weight in v {
        check_positive("column weight", *weight)?;
    }
    Ok(SquaredInverse::of(workload, v.len()).map(|inverse| {
        let nuclear = MARGIN * inverse.scaled(v).inverse_root_diagonal().iter().sum::<f64>();
        nuclear * nuclear / (v.len() as f64 * v.iter().sum::<f64>())
    }))
}

/// A nearly tight lower bound on E2 for a workload with a bidiagonal inverse; `None` for any other.
///
/// The weights are optimized by BFGS at a short horizon, stretched to one four times as long, optimized again, and
/// so on up to a few thousand steps; from there on stretching alone is as good, and any weights prove a bound.
///
/// # Complexity
/// A few dozen evaluations of O(n).
///
/// # Errors
/// Zero steps.
///
/// # Example
/// ```
/// use dp_mechanisms::{Workload, certificate::bidiagonal_bound};
/// let bound = bidiagonal_bound(&Workload::count(), 64)?.expect("the inverse of the count is bidiagonal");
/// // The optimum is 4.4093972.
/// assert!(bound.lower_bound > 4.4093 && bound.lower_bound < 4.4094);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn bidiagonal_bound(workload: &Workload, steps: usize) -> Result<Option<MeanBound>> {
    check_count("steps", steps)?;
    let mut length = steps;
    let mut levels = vec![steps];
    while length > COARSEST {
        length = length.div_ceil(4);
        levels.push(length);
    }
    let mut v = vec![1.0; length];
    for &length in levels.iter().rev() {
        let Some(inverse) = SquaredInverse::of(workload, length) else { return Ok(None) };
        v = stretched(&v, length);
        if length <= OPTIMIZED {
            v = optimize(&inverse, &v);
        }
    }
    Ok(bidiagonal_certificate(workload, &v)?.map(|lower_bound| MeanBound { lower_bound, column_weights: v }))
}

/// Raises the bound by BFGS in `ln v`, scaled so that the curvature is about the same in every direction.
fn optimize(inverse: &SquaredInverse, start: &[f64]) -> Vec<f64> {
    let total: f64 = start.iter().sum();
    let scales: Vec<f64> = start.iter().map(|weight| (weight / total).sqrt()).collect();
    let weights = |point: &[f64]| -> Vec<f64> {
        point.iter().zip(&scales).map(|(x, scale)| (x / scale).exp()).collect()
    };
    let negative_logarithm = |point: &[f64], gradient: &mut [f64]| -> f64 {
        let v = weights(point);
        if !v.iter().all(|weight| weight.is_normal()) {
            return f64::INFINITY;
        }
        let root = inverse.scaled(&v).inverse_root_diagonal();
        let (nuclear, total) = (root.iter().sum::<f64>(), v.iter().sum::<f64>());
        for (((slope, g), v), scale) in gradient.iter_mut().zip(&root).zip(&v).zip(&scales) {
            *slope = (v / total - g / nuclear) / scale;
        }
        total.ln() - 2.0 * nuclear.ln()
    };
    let from = start.iter().zip(&scales).map(|(weight, scale)| weight.ln() * scale).collect();
    let options = Options { iterations: 40, relative_decrease: 1e-8, memory: 12 };
    weights(&minimize::lbfgs(negative_logarithm, from, options).point)
}

/// Weights of a short horizon, read at the same relative times of a long one: linear in `ln v` over the logit of
/// time.
fn stretched(v: &[f64], length: usize) -> Vec<f64> {
    let logit = |index: usize, n: usize| ((index as f64 + 0.5) / (n as f64 - index as f64 - 0.5)).ln();
    let mut right = 1;
    (0..length)
        .map(|index| {
            let at = logit(index, length);
            while right + 1 < v.len() && logit(right, v.len()) < at {
                right += 1;
            }
            let Some(upper) = v.get(right) else { return v[0] };
            let (x0, x1) = (logit(right - 1, v.len()), logit(right, v.len()));
            let (y0, y1) = (v[right - 1].ln(), upper.ln());
            (y0 + (y1 - y0) * (at - x0) / (x1 - x0)).exp()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::dual_certificate;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Both ways to the bound agree, for any weights and every workload that has both.
        #[test]
        fn the_bidiagonal_bound_is_the_dense_one(
            logarithms in prop::collection::vec(-3.0_f64..3.0, 1..40),
        ) {
            let v: Vec<f64> = logarithms.iter().map(|x| x.exp()).collect();
            for text in ["count", "average", "exp:1", "exp:1.3"] {
                let workload: Workload = text.parse().unwrap();
                let dense = dual_certificate(workload.materialize(v.len()).unwrap().view(), &v).unwrap();
                let bound = bidiagonal_certificate(&workload, &v).unwrap().unwrap();
                prop_assert!((bound / dense - 1.0).abs() < 1e-8, "{text}: {bound} {dense}");
                prop_assert!(bound <= dense * (1.0 + 1e-12), "{text}: {bound} {dense}");
            }
        }
    }

    #[test]
    fn bad_weights_are_refused() {
        let count = Workload::count();
        for v in [vec![], vec![1.0, 0.0, 1.0], vec![1.0, f64::NAN, 1.0], vec![-1.0, 1.0, 1.0]] {
            assert!(bidiagonal_certificate(&count, &v).is_err());
        }
        assert!(bidiagonal_certificate(&Workload::window(3).unwrap(), &[1.0, 1.0]).unwrap().is_none());
    }

    #[test]
    fn the_bound_reaches_the_certified_optimum() {
        // Values of the dense program, computed elsewhere to a gap of 1e-9.
        let rows = [
            ("count", 64, 4.409_397_205),
            ("count", 256, 6.372_668_143),
            ("average", 128, 0.022_987_684_89),
            ("exp:1.1", 128, 2.156_712_597),
        ];
        for (text, steps, optimum) in rows {
            let bound = bidiagonal_bound(&text.parse().unwrap(), steps).unwrap().unwrap();
            let ratio = bound.lower_bound / optimum;
            assert!((1.0 - 1e-5..1.0 + 1e-9).contains(&ratio), "{text} at {steps}: {ratio}");
        }
        // At 4096 steps the optimum lies between 11.49055 and 11.49068.
        let bound = bidiagonal_bound(&Workload::count(), 4096).unwrap().unwrap().lower_bound;
        assert!((11.4902..11.49068).contains(&bound), "{bound}");
        assert!(bidiagonal_bound(&"poly:1".parse().unwrap(), 16).unwrap().is_none());
    }
}
