//! Scaled strategies with a rational core: column norms of C and row norms of B by recursions over time.
//!
//! With `1/c(x) = 1 + Σ_i ω̂_i x/(1 - θ̂_i x)` and `w_t = z_t/d_t` the noise is a small state space,
//!
//! ```text
//! y_t = w_t + Σ_i ω̂_i v_i,    v_i ← θ̂_i v_i + w_t,    release ← ρ · release + n_t y_t
//! ```
//!
//! (ρ = 1 for the count, 1/α for exponential decay, and the average divides the count by t; with momentum ρ = β, and what is
//! released is the sum of this with the learning rates). The covariance of `(v, release)` follows from step to step in
//! O(k²), and its last entry is the squared row norm: all of them in O(n k²), exactly.

use dp_linalg::rational::Rational;
use pulp::{Arch, Simd, WithSimd};

use crate::workload::{Recurrence, Workload};

/// Whether all poles and weights are non-negative, so that sums over the coefficients of the core keep all their digits.
pub(super) fn nothing_cancels(core: &Rational) -> bool {
    core.theta().iter().chain(core.omega()).all(|value| *value >= 0.0)
}

/// The covariances of one state with all others, in vector registers.
const LANES: usize = 8;

/// Copies values into whole groups of lanes; what is added is zero and stays without effect.
fn padded(values: impl ExactSizeIterator<Item = f64>) -> Vec<[f64; LANES]> {
    let mut lanes = vec![[0.0; LANES]; values.len().div_ceil(LANES)];
    for (index, value) in values.enumerate() {
        lanes[index / LANES][index % LANES] = value;
    }
    lanes
}

/// Two poles of a core: the product of them, and of their weights (twice where the poles differ).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) decay: f64,
    /// From the poles themselves: the product is rounded, and its millionth power shows it.
    pub(super) log_decay: f64,
    pub(super) weight: f64,
}

/// Each pair of poles once.
pub(super) fn pairs(core: &Rational) -> Vec<Pair> {
    let poles: Vec<(f64, f64)> = core.theta().iter().copied().zip(core.omega().iter().copied()).collect();
    let with = |i: usize, l: usize| {
        let twice = if i == l { 1.0 } else { 2.0 };
        Pair {
            decay: poles[i].0 * poles[l].0,
            log_decay: poles[i].0.ln() + poles[l].0.ln(),
            weight: twice * poles[i].1 * poles[l].1,
        }
    };
    (0..poles.len()).flat_map(|i| (0..=i).map(move |l| (i, l))).map(|(i, l)| with(i, l)).collect()
}

/// Column norms of `D1 · T` from the last to the first: `n_j² = d_j² + Σ_{i,l} ω_i ω_l R_il(j+1)` with
/// `R_il(j) = d_j² + θ_i θ_l R_il(j+1)`.
#[derive(Debug, Default)]
pub(super) struct Recursion {
    /// Decays, weights and sums R of the pairs.
    lanes: Vec<[[f64; LANES]; 3]>,
    pairs: usize,
}

impl Recursion {
    pub(super) fn clear(&mut self) {
        self.lanes.clear();
        self.pairs = 0;
    }

    /// Adds a pair, with its sum past the last column.
    pub(super) fn push(&mut self, pair: Pair, sum: f64) {
        if self.pairs.is_multiple_of(LANES) {
            self.lanes.push([[0.0; LANES]; 3]);
        }
        if let Some([decays, weights, sums]) = self.lanes.last_mut() {
            let lane = self.pairs % LANES;
            (decays[lane], weights[lane], sums[lane]) = (pair.decay, pair.weight, sum);
        }
        self.pairs += 1;
    }

    /// Writes the norms of as many columns as there are rows; their squares are `factor · d_j²`, which is 1 where all pairs were
    /// added, and the sums of the pairs, times a margin of several units of roundoff more than needed.
    ///
    /// **Complexity** O(1) for each pair and column.
    pub(super) fn norms(&mut self, factor: f64, rows: &[f64], margin: f64, norms: &mut [f64]) {
        Arch::new().dispatch(Norms { lanes: &mut self.lanes, factor, rows, margin, columns: norms });
    }
}

/// The arguments of [`Recursion::norms`], which is compiled for the widest vectors that the machine has; products and sums are
/// rounded one by one on all of them.
struct Norms<'a> {
    lanes: &'a mut [[[f64; LANES]; 3]],
    factor: f64,
    rows: &'a [f64],
    margin: f64,
    columns: &'a mut [f64],
}

impl WithSimd for Norms<'_> {
    type Output = ();

    #[allow(
        clippy::inline_always,
        reason = "what is not inlined is not compiled for the vectors of the machine"
    )]
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { lanes, factor, rows, margin, columns } = self;
        for (norm, row) in columns.iter_mut().zip(rows).rev() {
            let energy = row * row;
            let mut total = [0.0; LANES];
            for [decays, weights, sums] in &mut *lanes {
                for lane in 0..LANES {
                    total[lane] += weights[lane] * sums[lane];
                    sums[lane] = decays[lane] * sums[lane] + energy;
                }
            }
            *norm = factor * energy + total.iter().sum::<f64>();
        }
        // Side by side. What the root rounds down is far within the margin.
        columns.iter_mut().for_each(|norm| *norm = (*norm * margin).sqrt());
    }
}

/// Upper bounds of the column norms of `D1 · T`, from the last column to the first.
///
/// # Privacy
/// For a core where [`nothing_cancels`]: the relative error is then at most the number of operations along the recursion
/// times the unit roundoff, and more than that is added.
///
/// **Complexity** O(n k²).
pub(crate) fn column_norms(core: &Rational, rows: &[f64]) -> Vec<f64> {
    let mut recursion = Recursion::default();
    pairs(core).into_iter().for_each(|pair| recursion.push(pair, 0.0));
    let operations = 4.0 * (rows.len() + recursion.pairs) as f64 + 64.0;
    let mut norms = vec![0.0; rows.len()];
    recursion.norms(1.0, rows, 1.0 + operations * f64::EPSILON, &mut norms);
    norms
}

/// Whether the release is a recurrence that [`for_each_row_norm`] knows.
pub(crate) fn has_recurrence(workload: &Workload) -> bool {
    matches!(workload.recurrence(), Recurrence::First { .. } | Recurrence::Second { .. })
}

/// Whether it is the same at every step, up to a divisor, so that [`Pieces`](super::pieces::Pieces) can leap over steps.
pub(crate) fn leaps(workload: &Workload) -> bool {
    match workload.recurrence() {
        Recurrence::First { .. } => true,
        Recurrence::Second { .. } => workload.constant_rate().is_some(),
        Recurrence::Window { .. } | Recurrence::None => false,
    }
}

/// Calls `visit` with `‖b_t‖²` for every step of `B = A D2⁻¹ T⁻¹ D1⁻¹`, given the inverse of the core, for a workload that
/// [`has_recurrence`].
///
/// **Complexity** O(n k²) time, O(k²) memory.
pub(crate) fn for_each_row_norm(
    workload: &Workload,
    inverse: &Rational,
    rows: &[f64],
    column_norms: &[f64],
    mut visit: impl FnMut(f64),
) {
    let (decay, momentum) = match workload.recurrence() {
        Recurrence::First { decay } => (decay, false),
        Recurrence::Second { beta } => (beta, true),
        Recurrence::Window { .. } | Recurrence::None => (1.0, false),
    };
    // Covariances of the sum over a momentum, with v and with the momentum, and its variance.
    let (mut with_sum, mut crossed_sum, mut sum) = (vec![0.0; inverse.buffers()], 0.0, 0.0);
    let theta = padded(inverse.theta().iter().copied());
    let omega = padded(inverse.omega().iter().copied());
    let groups = theta.len();
    // Covariances of v with itself (a row of groups for each state), with y and with the release.
    let mut states = vec![[0.0; LANES]; inverse.buffers() * groups];
    let mut with_input = vec![[0.0; LANES]; groups];
    let mut with_release = vec![[0.0; LANES]; groups];
    let mut release = 0.0;
    for (index, (row, norm)) in rows.iter().zip(column_norms).enumerate() {
        let fresh = 1.0 / (row * row);
        with_input.fill([0.0; LANES]);
        for ((state, pole), weight) in
            states.chunks_exact_mut(groups).zip(inverse.theta()).zip(inverse.omega())
        {
            for ((covariances, poles), sums) in state.iter_mut().zip(&theta).zip(&mut with_input) {
                for lane in 0..LANES {
                    sums[lane] += weight * covariances[lane];
                    covariances[lane] = pole * poles[lane] * covariances[lane] + fresh;
                }
            }
        }
        let (mut input, mut crossed) = (fresh, 0.0);
        for (((sums, crosses), weights), poles) in
            with_input.iter().zip(&mut with_release).zip(&omega).zip(&theta)
        {
            for lane in 0..LANES {
                input += weights[lane] * sums[lane];
                crossed += weights[lane] * crosses[lane];
                crosses[lane] = poles[lane] * (decay * crosses[lane] + norm * sums[lane]) + norm * fresh;
            }
        }
        release = decay * decay * release + 2.0 * decay * norm * crossed + norm * norm * input;
        if momentum {
            let rate = workload.rate(index);
            let read: f64 = inverse.omega().iter().zip(&with_sum).map(|(omega, cross)| omega * cross).sum();
            let before = decay * crossed_sum + norm * read;
            let crosses = with_release.as_flattened();
            for ((cross, pole), new) in with_sum.iter_mut().zip(inverse.theta()).zip(crosses) {
                *cross = pole * *cross + rate * new;
            }
            sum += rate * (2.0 * before + rate * release);
            crossed_sum = before + rate * release;
            visit(sum);
            continue;
        }
        visit(workload.divisor(index).powi(-2) * release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Strategy;
    use crate::strategy::toeplitz::{Core, ToeplitzStrategy};

    /// Ten buffers, so that the lanes do not come out even.
    fn core() -> Rational {
        let theta = (0..10).map(|i| 1.0 - 0.9 * 0.4_f64.powi(i)).collect();
        Rational::new(theta, (0..10).map(|i| 0.3 / f64::from(i + 2)).collect()).unwrap()
    }

    #[test]
    fn recursions_agree_with_the_matrices() {
        let steps = 60;
        let rows: Vec<f64> = (0..steps).map(|t| (t as f64 + 0.5).powf(0.3) * (steps - t) as f64).collect();
        let schedule: Vec<f64> = (1..steps).map(|t| 1.0 / (t as f64).sqrt()).collect();
        let workloads = ["count", "average", "exp:1.2", "momentum:0.9", "momentum:0"]
            .map(|text| text.parse().unwrap())
            .into_iter()
            .chain([Workload::momentum(0.8, &schedule).unwrap()]);
        for workload in workloads {
            let text = workload.to_string();
            let strategy =
                ToeplitzStrategy::normalized("test", &workload, steps, Core::Rational(core()), rows.clone())
                    .unwrap();
            let matrices = strategy.materialize().unwrap();
            for column in matrices.strategy.columns() {
                let squared = column.iter().map(|value| value * value).sum::<f64>();
                assert!(squared <= 1.0 + 1e-14 && squared > 1.0 - 1e-12, "{text}: {squared}");
            }
            let norms = strategy.row_norms().unwrap();
            assert!(norms.is_exact());
            for (norm, row) in norms.iter().zip(matrices.decoder.rows()) {
                let expected = row.iter().map(|value| value * value).sum::<f64>();
                assert!((norm / expected - 1.0).abs() < 1e-10, "{text}: {norm} {expected}");
            }
        }
    }

    #[test]
    fn column_norms_are_never_underestimated() {
        let steps = 3000;
        let rows: Vec<f64> = (0..steps).map(|t| ((t as f64 + 0.5) / steps as f64).powf(0.4)).collect();
        let (core, coefficients) = (core(), core().coefficients(steps));
        let norms = column_norms(&core, &rows);
        for j in (0..steps).step_by(53).chain([steps - 1]) {
            let column: Vec<f64> = coefficients.iter().zip(&rows[j..]).map(|(c, d)| c * d).collect();
            let squared = dp_linalg::norms::round_up_sum_of_squares(&column);
            let bound = norms[j] * norms[j];
            assert!(
                bound >= squared * (1.0 - 1e-15) && bound < squared * (1.0 + 1e-10),
                "{j}: {squared} {bound}"
            );
        }
    }
}
