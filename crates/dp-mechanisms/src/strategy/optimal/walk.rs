//! What no strategy can beat under repeated participation, from random walks over the steps.
//!
//! For every matrix `M = E[R_S]` over random admissible sets S, with `R_S` a correlation matrix on S (positive semidefinite, unit
//! diagonal), and every strategy with `X = CᵀC`, one person who draws S and contributes with signs (or unit vectors) of
//! correlation `R_S` moves the measurement by `⟨M, X⟩` in the mean, so that `Δ² ≥ ⟨M, X⟩`. With the weighted workload
//! `A_w = W^{1/2}A`, `Σ w = 1`, the error is then at least
//!
//! `min_X ⟨M, X⟩ · tr(A_wᵀA_w X⁻¹) = ‖A_w M^{1/2}‖_*² = (tr (A_w M A_wᵀ)^{1/2})²`
//!
//! (Cauchy–Schwarz for the nuclear norm). The sets here are drawn by a walk of at most `times` steps, each at least the
//! separation long: first at `x_1` with probability `v_1`, then from i to j with probability `P_m(i, j)`, or to the end. The sign is
//! kept on the way with correlation `ρ_ij`; the product of these along the walk is a correlation matrix, that of a Markov
//! chain. With `Q_m = P_m ∘ ρ`, and `v_m` the probabilities of the m-th place,
//!
//! `M_ij = Σ_m v_m(i) W_m(i, j)` for `i ≤ j`,   `W_m = I + Q_m W_{m+1}`.
//!
//! Where the heaviest sets of a good strategy are, the walk of [`Chains`] goes: it is the start, and a few steps of ascent improve
//! on it.

use dp_linalg::dense::{self, SymmetricEigen};
use dp_linalg::minimize::{self, Options};
use dp_linalg::norms;
use ndarray::{Array1, Array2, ArrayView2, Axis};

use super::chain::Chains;
use crate::error::Result;
use crate::strategy::{Progress, Watch, tell};

/// Eigenvalues below this fraction of the largest do not guide the ascent.
const SMALLEST_EIGENVALUE: f64 = 1e-14;

/// How sharply the first walk prefers the heaviest sets, in units of their inverse weight.
const SHARPNESS: f64 = 2000.0;

/// The largest number of participations for which a walk is tried.
pub(super) const LONGEST: usize = 32;

/// What the start takes for certain: a correlation that can still be moved.
const NEARLY_ONE: f64 = 0.98;

/// The best bound found, and the eigendecompositions it took. The Gram matrix is scaled to a sensitivity of 1.
///
/// # Complexity
/// One or two dozen evaluations, each an eigendecomposition and `3 · times` products of n×n matrices.
///
/// # Errors
/// What the numeric core refuses, or a watch that stops the ascent.
pub(super) fn lower_bound(
    weighted: ArrayView2<'_, f64>,
    gram: ArrayView2<'_, f64>,
    chains: Chains,
    watch: &mut Watch<'_>,
) -> Result<(f64, usize)> {
    let walk = Walk { weighted, times: chains.times, separation: chains.separation };
    let start = walk.start(gram, chains);
    let (mut highest, mut used) = (0.0_f64, 0);
    let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
        tell(watch, Progress::Evaluation)?;
        used += 1;
        let Ok(bound) = walk.evaluate(point, gradient) else { return Ok(f64::NAN) };
        highest = highest.max(bound);
        // Small where the bound is large; of order one.
        gradient.iter_mut().for_each(|slope| *slope *= -1.0);
        Ok(-bound.ln())
    };
    let iterations = (200 / chains.times).clamp(6, 30);
    minimize::lbfgs(objective, start, Options { iterations, relative_decrease: 1e-5, memory: 8 })?;
    // Probabilities and their products round.
    Ok((highest * (1.0 - 1e-11), used))
}

/// The walks.
struct Walk<'a> {
    weighted: ArrayView2<'a, f64>,
    times: usize,
    separation: usize,
}

impl Walk<'_> {
    fn steps(&self) -> usize {
        self.weighted.ncols()
    }

    /// The pairs of steps of which the second can follow the first, row by row.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (steps, separation) = (self.steps(), self.separation);
        (0..steps).flat_map(move |i| (i + separation..steps).map(move |j| (i, j)))
    }

    fn square(&self, values: impl Iterator<Item = f64>) -> Array2<f64> {
        let mut matrix = Array2::zeros((self.steps(), self.steps()));
        for (place, value) in self.pairs().zip(values) {
            matrix[place] = value;
        }
        matrix
    }

    /// A point: the preference of every pair, the area tangent of its correlation, and the preference of every step at every place,
    /// all as logarithms beside which ending counts as 0.
    fn start(&self, gram: ArrayView2<'_, f64>, chains: Chains) -> Vec<f64> {
        let steps = self.steps();
        let edges = self.square(self.pairs().map(|(i, j)| chains.edge(gram, i, j, SHARPNESS)));
        let mut places = chains.nodes(gram, SHARPNESS);
        for m in (1..self.times).rev() {
            // What can follow a step counts in its favour.
            for i in 0..steps {
                let follow = (i + self.separation..steps).map(|j| edges[[i, j]] + places[[m, j]]);
                let largest = follow.clone().fold(0.0, f64::max);
                let sum: f64 = follow.map(|value| (value - largest).exp()).sum();
                places[[m - 1, i]] += largest + (sum + (-largest).exp()).ln();
            }
        }
        let correlation = |(i, j): (usize, usize)| {
            let noise = 0.1 / SHARPNESS;
            NEARLY_ONE * gram[[i, j]] / gram[[i, j]].hypot(noise)
        };
        let preferences = self.pairs().map(|place| edges[place]);
        let tangents = self.pairs().map(|place| correlation(place).atanh());
        preferences.chain(tangents).chain(places.iter().copied()).collect()
    }

    /// The bound, and the gradient of its logarithm.
    fn evaluate(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let (steps, times) = (self.steps(), self.times);
        let count = self.pairs().count();
        let preferences = self.square(point[..count].iter().copied());
        let correlations = self.square(point[count..2 * count].iter().map(|tangent| tangent.tanh()));
        let places = &point[2 * count..];
        let place = |m: usize| &places[m * steps..(m + 1) * steps];
        // Where a walk is at every place, and how it goes on.
        let mut at: Vec<Array1<f64>> = vec![softmax(place(0))];
        let mut moves: Vec<Array2<f64>> = Vec::with_capacity(times);
        for m in 1..times {
            let next = self.transitions(&preferences, place(m));
            at.push(at[m - 1].dot(&next));
            moves.push(next);
        }
        // `W_m`, the last first.
        let signed = |m: usize| &moves[m] * &correlations;
        let mut onward = vec![Array2::eye(steps)];
        for m in (0..times - 1).rev() {
            let mut next = dense::matmul(signed(m).view(), onward[onward.len() - 1].view());
            next.diag_mut().mapv_inplace(|value| value + 1.0);
            onward.push(next);
        }
        onward.reverse();
        let mut upper = Array2::<f64>::zeros((steps, steps));
        for (at, onward) in at.iter().zip(&onward) {
            upper += &(onward * &at.view().insert_axis(Axis(1)));
        }
        let mut mixture = &upper + &upper.t();
        mixture.diag_mut().mapv_inplace(|value| 0.5 * value);
        let (nuclear, slopes) = self.nuclear(mixture.view())?;
        // The bound is the square. Only the upper half was made: what stands beside the diagonal counts twice.
        let halved = Array2::from_shape_fn((steps, steps), |(i, j)| match i.cmp(&j) {
            std::cmp::Ordering::Less => 4.0 * slopes[[i, j]] / nuclear,
            std::cmp::Ordering::Equal => 2.0 * slopes[[i, j]] / nuclear,
            std::cmp::Ordering::Greater => 0.0,
        });
        let row_slopes = |m: usize| (&onward[m] * &halved).sum_axis(Axis(1));
        // Backwards: first what being at a place is worth, then what the moves are.
        let mut worth: Vec<Array1<f64>> = vec![row_slopes(times - 1)];
        for m in (0..times - 1).rev() {
            let later = moves[m].dot(&worth[worth.len() - 1]);
            worth.push(row_slopes(m) + later);
        }
        worth.reverse();
        gradient.fill(0.0);
        let mean = at[0].dot(&worth[0]);
        for (i, slope) in gradient[2 * count..2 * count + steps].iter_mut().enumerate() {
            *slope = at[0][i] * (worth[0][i] - mean);
        }
        let mut adjoint = &halved * &at[0].view().insert_axis(Axis(1));
        for m in 0..times - 1 {
            let by_move = dense::matmul(adjoint.view(), onward[m + 1].t());
            let (of_pairs, of_places) = gradient.split_at_mut(2 * count);
            let (of_preferences, of_tangents) = of_pairs.split_at_mut(count);
            let of_places = &mut of_places[(m + 1) * steps..(m + 2) * steps];
            let mut index = 0;
            for i in 0..steps {
                let slope = |j: usize| by_move[[i, j]] * correlations[[i, j]] + at[m][i] * worth[m + 1][j];
                let later = i + self.separation..steps;
                let mean: f64 = later.clone().map(|j| moves[m][[i, j]] * slope(j)).sum();
                for j in later {
                    let (probability, kept) = (moves[m][[i, j]], correlations[[i, j]]);
                    let moved = probability * (slope(j) - mean);
                    of_preferences[index] += moved;
                    of_places[j] += moved;
                    of_tangents[index] += by_move[[i, j]] * probability * (1.0 - kept * kept);
                    index += 1;
                }
            }
            if m + 2 < times {
                let carried = dense::matmul(signed(m).t(), adjoint.view());
                adjoint = carried + &halved * &at[m + 1].view().insert_axis(Axis(1));
            }
        }
        Ok(nuclear * nuclear)
    }

    /// How a walk goes on from every step, given the preferences of the next place; what is missing from 1 ends it.
    fn transitions(&self, preferences: &Array2<f64>, place: &[f64]) -> Array2<f64> {
        let steps = self.steps();
        let mut moves = Array2::zeros((steps, steps));
        for i in 0..steps.saturating_sub(self.separation) {
            let later = i + self.separation..steps;
            let preference = |j: usize| preferences[[i, j]] + place[j];
            let largest = later.clone().map(preference).fold(0.0, f64::max);
            let mut sum = (-largest).exp();
            for j in later.clone() {
                let value = (preference(j) - largest).exp();
                moves[[i, j]] = value;
                sum += value;
            }
            later.for_each(|j| moves[[i, j]] /= sum);
        }
        moves
    }

    /// `tr (A_w M A_wᵀ)^{1/2}`, not above the true one, and its slopes in M.
    fn nuclear(&self, mixture: ArrayView2<'_, f64>) -> Result<(f64, Array2<f64>)> {
        let product = dense::matmul(dense::matmul(self.weighted, mixture).view(), self.weighted.t());
        let symmetric = 0.5 * (&product + &product.t());
        let SymmetricEigen { values, vectors } = dense::symmetric_eigen(symmetric.view())?;
        let largest = values[values.len() - 1].max(0.0);
        // What rounding may have added is taken off again.
        let noise = 16.0 * self.steps() as f64 * f64::EPSILON * largest;
        let nuclear = norms::compensated_sum(values.iter().map(|value| (value - noise).max(0.0).sqrt()));
        let scales = values.mapv(|value| value.max(largest * SMALLEST_EIGENVALUE).powf(-0.25));
        let root = dense::matmul(self.weighted.t(), (&vectors * &scales).view());
        Ok((nuclear, 0.5 * dense::matmul(root.view(), root.t())))
    }
}

fn softmax(values: &[f64]) -> Array1<f64> {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares: Array1<f64> = values.iter().map(|value| (value - largest).exp()).collect();
    let total = shares.sum();
    shares / total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::unwatched;
    use crate::workload::Workload;
    use approx::assert_relative_eq;

    fn point(walk: &Walk<'_>) -> Vec<f64> {
        let length = 2 * walk.pairs().count() + walk.times * walk.steps();
        (0..length).map(|index| 0.3 * ((index * 7 % 11) as f64 - 4.0)).collect()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let matrix = "momentum:0.5".parse::<Workload>().unwrap().materialize(9).unwrap();
        for times in [2, 4] {
            let walk = Walk { weighted: matrix.view(), times, separation: 2 };
            let point = point(&walk);
            let mut gradients = [vec![0.0; point.len()], vec![0.0; point.len()], vec![0.0; point.len()]];
            let [exact, numeric, scratch] = &mut gradients;
            walk.evaluate(&point, exact).unwrap();
            let function = |x: &[f64]| walk.evaluate(x, scratch).map(f64::ln);
            minimize::numeric_gradient(function, &point, 1e-5, numeric).unwrap();
            for (a, b) in exact.iter().zip(numeric.iter()) {
                assert_relative_eq!(a, b, epsilon = 1e-7, max_relative = 1e-5);
            }
        }
    }

    /// The bound of any walk is that of its sets written out one by one.
    #[test]
    fn a_walk_is_a_mixture_of_admissible_sets() {
        let matrix = Workload::count().materialize(6).unwrap();
        let walk = Walk { weighted: matrix.view(), times: 3, separation: 2 };
        let point = point(&walk);
        let count = walk.pairs().count();
        let preferences = walk.square(point[..count].iter().copied());
        let kept = walk.square(point[count..2 * count].iter().map(|tangent| tangent.tanh()));
        let place = |m: usize| &point[2 * count + 6 * m..2 * count + 6 * (m + 1)];
        let (first, moves) = (softmax(place(0)), [1, 2].map(|m| walk.transitions(&preferences, place(m))));
        let mut mixture = Array2::<f64>::zeros((6, 6));
        let mut add = |set: &[usize], probability: f64| {
            for (a, &i) in set.iter().enumerate() {
                for (b, &j) in set.iter().enumerate() {
                    let between = &set[a.min(b)..=a.max(b)];
                    let correlation: f64 = between.windows(2).map(|pair| kept[[pair[0], pair[1]]]).product();
                    mixture[[i, j]] += probability * correlation;
                }
            }
        };
        let end = |m: usize, i: usize| 1.0 - moves[m].row(i).sum();
        for i in 0..6 {
            add(&[i], first[i] * end(0, i));
            for j in i + 2..6 {
                let pair = first[i] * moves[0][[i, j]];
                add(&[i, j], pair * end(1, j));
                (j + 2..6).for_each(|l| add(&[i, j, l], pair * moves[1][[j, l]]));
            }
        }
        let bound = walk.evaluate(&point, &mut vec![0.0; point.len()]).unwrap();
        assert_relative_eq!(walk.nuclear(mixture.view()).unwrap().0.powi(2), bound, max_relative = 1e-9);
    }

    /// One step that serves one release: whoever takes part in all of four moves four times as far as in one.
    #[test]
    fn the_same_sign_everywhere_proves_the_square_of_the_number_of_steps() {
        // One release, the sum of all steps: Δ² ‖b‖² ≥ |⟨1, 1⟩|² for whoever is in all steps.
        let sum = Array2::ones((1, 4));
        let chains = Chains { times: 4, separation: 1, bands: 4 };
        let gram = Array2::from_elem((4, 4), 1.0 / 16.0);
        let (bound, _) = lower_bound(sum.view(), gram.view(), chains, &mut unwatched).unwrap();
        assert!(bound > 15.0 && bound <= 16.0, "{bound}");
    }
}
