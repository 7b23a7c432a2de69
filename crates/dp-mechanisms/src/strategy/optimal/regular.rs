//! What no strategy can beat under repeated participation, from sets of equidistant steps.
//!
//! For every matrix `M = Σ_S λ_S R_S` with `Σ λ_S = 1`, S admissible and `R_S` a correlation matrix on S (positive
//! semidefinite, unit diagonal), and every strategy with `X = CᵀC`, one person who draws S with probability `λ_S` and
//! contributes with signs (or unit vectors) of correlation `R_S` moves the measurement by `⟨M, X⟩` in the mean, so that
//! `Δ² ≥ ⟨M, X⟩`. With the weighted workload `A_w = W^{1/2}A`, `Σ w = 1`, the error is then at least
//!
//! `min_X ⟨M, X⟩ · tr(A_wᵀA_w X⁻¹) = ‖A_w M^{1/2}‖_*²`
//!
//! (Cauchy–Schwarz for the nuclear norm). The sets here are `{θ, θ + g, θ + 2g, …}` with `g = max(b, ⌈n/times⌉)`, which are
//! admissible and disjoint. Random signs are `R = I`; the correlations are what makes the bound sharp, for they find
//! the strategies out whose columns overlap.
//!
//! At the optimum `M = X⁻¹ A_wᵀA_w X⁻¹`. A good strategy proposes the blocks of that matrix, scaled to equal diagonals, and
//! a few steps of ascent improve on them.

use dp_linalg::dense::{self, SymmetricEigen};
use dp_linalg::minimize::{self, Options};
use dp_linalg::norms;
use ndarray::{Array2, ArrayView2, Axis};

use crate::error::Result;
use crate::sensitivity::Participation;
use crate::strategy::{Progress, Watch, tell};

/// Singular values below this fraction of the largest do not guide the ascent.
const SMALLEST_SINGULAR: f64 = 1e-8;

/// The best bound found, and the eigendecompositions it took.
///
/// # Complexity
/// One or two dozen eigendecompositions of n×n matrices.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the ascent.
pub(super) fn lower_bound(
    weighted: ArrayView2<'_, f64>,
    strategy: ArrayView2<'_, f64>,
    participation: Participation,
    watch: &mut Watch<'_>,
) -> Result<(f64, usize)> {
    let steps = weighted.ncols();
    let times = participation.times_within(steps);
    let family =
        Family { weighted, stride: participation.separation().max(steps.div_ceil(times)).min(steps) };
    let inverse = dense::inverse_lower(strategy)?;
    let decoder = dense::matmul(weighted, inverse.view());
    let start = family.start(dense::matmul(inverse.view(), decoder.t()).view())?;
    let (mut highest, mut used) = (0.0_f64, 0);
    let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
        tell(watch, Progress::Evaluation)?;
        used += 1;
        let Ok(bound) = family.evaluate(point, gradient) else { return Ok(f64::NAN) };
        highest = highest.max(bound);
        // Small where the bound is large; of order one.
        gradient.iter_mut().for_each(|slope| *slope *= -1.0);
        Ok(-bound.ln())
    };
    let options = Options { iterations: 15, relative_decrease: 1e-5, memory: 8 };
    minimize::lbfgs(objective, start, options)?;
    Ok((highest, used))
}

/// The matrices M over equidistant steps.
struct Family<'a> {
    weighted: ArrayView2<'a, f64>,
    stride: usize,
}

impl Family<'_> {
    /// The steps of a class.
    fn class(&self, offset: usize) -> Vec<usize> {
        (offset..self.weighted.ncols()).step_by(self.stride).collect()
    }

    /// A point: the logarithms of all λ, then a lower-triangular root of every R, whose rows count by their direction.
    /// The proposal is a factor of M.
    fn start(&self, proposal: ArrayView2<'_, f64>) -> Result<Vec<f64>> {
        let mut point = vec![0.0; self.stride];
        for offset in 0..self.stride {
            let class = self.class(offset);
            let root = dense::lq_lower(proposal.select(Axis(0), &class).view())?;
            let squares = norms::row_squared_norms(root.view());
            point[offset] = (squares.sum() / class.len() as f64).max(f64::MIN_POSITIVE).ln();
            for (a, (row, square)) in root.outer_iter().zip(&squares).enumerate() {
                let length = square.sqrt();
                // Nothing is known of a step without weight: it is independent.
                let entry =
                    |c: usize| if length > 0.0 { row[c] / length } else { f64::from(u8::from(a == c)) };
                point.extend((0..=a).map(entry));
            }
        }
        Ok(point)
    }

    /// The bound, and the gradient of its logarithm.
    fn evaluate(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let steps = self.weighted.ncols();
        let mut factor = Array2::zeros((steps, steps));
        let mut lengths = vec![1.0; steps];
        let total: f64 = point[..self.stride].iter().map(|logarithm| logarithm.exp()).sum();
        let mut entries = point[self.stride..].iter();
        for (offset, logarithm) in point[..self.stride].iter().enumerate() {
            let class = self.class(offset);
            let root = (logarithm.exp() / total).sqrt();
            for (a, &i) in class.iter().enumerate() {
                for (&j, entry) in class[..=a].iter().zip(entries.by_ref()) {
                    factor[[i, j]] = *entry;
                }
                let length = class[..=a].iter().map(|&j| factor[[i, j]] * factor[[i, j]]).sum::<f64>().sqrt();
                lengths[i] = length;
                class[..=a].iter().for_each(|&j| factor[[i, j]] *= root / length);
            }
        }
        let product = dense::matmul(self.weighted, factor.view());
        let SymmetricEigen { values, vectors } = dense::symmetric_eigen(dense::gram(product.view()).view())?;
        let largest = values[steps - 1].max(0.0);
        // What is within the rounding of zero counts as zero: this can only lower the bound.
        let noise = 8.0 * steps as f64 * f64::EPSILON * largest;
        let nuclear =
            norms::compensated_sum(values.iter().filter(|value| **value > noise).map(|value| value.sqrt()));
        let scales = values.mapv(|value| 1.0 / value.max(largest * SMALLEST_SINGULAR.powi(2)).sqrt());
        // The slope of the nuclear norm is the polar factor.
        let polar =
            dense::matmul(dense::matmul(product.view(), (&vectors * &scales).view()).view(), vectors.t());
        let slopes = dense::matmul(self.weighted.t(), polar.view());
        let (logarithms, gradient) = gradient.split_at_mut(self.stride);
        let mut gradient = gradient.iter_mut();
        for (offset, logarithm) in logarithms.iter_mut().enumerate() {
            let class = self.class(offset);
            let share = point[offset].exp() / total;
            let mut radial = 0.0;
            for (a, &i) in class.iter().enumerate() {
                let along: f64 = class[..=a].iter().map(|&j| slopes[[i, j]] * factor[[i, j]]).sum();
                radial += along;
                for (&j, slope) in class[..=a].iter().zip(gradient.by_ref()) {
                    let across = share.sqrt() * slopes[[i, j]] - along / share.sqrt() * factor[[i, j]];
                    *slope = 2.0 * across / (lengths[i] * nuclear);
                }
            }
            *logarithm = radial / nuclear - share;
        }
        Ok(nuclear * nuclear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use approx::assert_relative_eq;

    #[test]
    fn gradients_agree_with_differences() {
        let matrix = "momentum:0.5".parse::<Workload>().unwrap().materialize(9).unwrap();
        let family = Family { weighted: matrix.view(), stride: 4 };
        let mut point = family.start(matrix.view()).unwrap();
        for (index, value) in point.iter_mut().enumerate() {
            *value += 0.1 * ((index * 7 % 5) as f64 - 2.0);
        }
        let mut gradients = [vec![0.0; point.len()], vec![0.0; point.len()], vec![0.0; point.len()]];
        let [exact, numeric, scratch] = &mut gradients;
        family.evaluate(&point, exact).unwrap();
        let function = |x: &[f64]| family.evaluate(x, scratch).map(f64::ln);
        minimize::numeric_gradient(function, &point, 1e-5, numeric).unwrap();
        for (a, b) in exact.iter().zip(numeric.iter()) {
            assert_relative_eq!(a, b, epsilon = 1e-7, max_relative = 1e-5);
        }
    }

    #[test]
    fn independent_signs_prove_the_schatten_bound() {
        // Equal weights of four classes and R = I: ‖A‖_*²/n over the four.
        let matrix = Workload::count().materialize(12).unwrap();
        let family = Family { weighted: matrix.view(), stride: 4 };
        let point = family.start(Array2::eye(12).view()).unwrap();
        let bound = family.evaluate(&point, &mut vec![0.0; point.len()]).unwrap();
        assert_relative_eq!(bound, norms::count_schatten1(12).powi(2) / 4.0, max_relative = 1e-12);
    }
}
