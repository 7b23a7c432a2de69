//! Lower bounds: what no factorization, or no mechanism at all, can beat.
//!
//! All bounds on matrix mechanisms are in the units of E2 and E∞, per unit `(ζ/μ)²`.

use dp_linalg::fft::{self, Complex64};
use dp_linalg::{dense, norms};
use ndarray::{Array1, Array2, ArrayView2};

use crate::certificate;
use crate::error::{Error, Result, check_count, check_positive};
use crate::problem::{Metric, Statistic};
use crate::sensitivity::Participation;
use crate::workload::{Recurrence, Workload};

/// A lower bound and where it comes from.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LowerBound {
    /// The bound.
    pub value: f64,
    /// Which argument proves it.
    pub kind: &'static str,
}

impl LowerBound {
    /// The larger of two bounds.
    pub fn or(self, other: Self) -> Self {
        if other.value > self.value { other } else { self }
    }
}

/// The largest number of steps for which a bound may decompose a matrix.
pub const DENSE_LIMIT: usize = 2048;

/// The steps that a circulant bound takes at once, in a few hundredths of a second.
pub(crate) const CIRCULANT_LIMIT: usize = 1 << 18;

/// Up to this many steps a matrix is decomposed in any case.
const SMALL: usize = 512;

/// [`DENSE_LIMIT`] for workloads with a banded inverse, whose singular values are summed in O(n).
const BANDED_LIMIT: usize = 1 << 16;

/// `E2 ≥ (‖A‖_1 / n)²` for the count, from its singular values `1/(2 sin((2i-1)π/(4n+2)))`.
///
/// # Complexity
/// O(1).
pub fn schatten_count(steps: usize) -> f64 {
    (norms::count_schatten1(steps) / steps as f64).powi(2)
}

/// `E2 ≥ (‖A‖_1 / n)²` for any workload matrix.
///
/// # Errors
/// What the singular value decomposition refuses.
pub fn schatten(workload: ArrayView2<'_, f64>) -> Result<f64> {
    Ok((norms::schatten1(workload)? / workload.nrows() as f64).powi(2))
}

/// The dual certificate for positive weights v: `E2 ≥ ‖A D^{1/2}‖_1² / (n tr D)`, `D = diag(v)`.
///
/// This is `max_s tr(sD(2X(sD) - I))/n` in the notation of the dense program, optimized over the scale s of v. It
/// holds for every positive v and is tight at the optimal one; with `v = 1` it is the Schatten bound.
///
/// # Complexity
/// One singular value computation, O(n³).
///
/// # Errors
/// A weight that is not finite and positive, or a wrong number of them.
pub fn dual_certificate(workload: ArrayView2<'_, f64>, weights: &[f64]) -> Result<f64> {
    let steps = workload.ncols();
    if weights.len() != steps {
        return Err(Error::Dimension { what: "the dual weights", expected: steps, actual: weights.len() });
    }
    for weight in weights {
        check_positive("dual weight", *weight)?;
    }
    let roots = Array1::from_iter(weights.iter().map(|weight| weight.sqrt()));
    let scaled = &workload * &roots;
    let total: f64 = norms::compensated_sum(weights.iter().copied());
    Ok(norms::schatten1(scaled.view())?.powi(2) / (workload.nrows() as f64 * total))
}

/// By what factor repeated participation raises the dual certificate with column weights v ([`dual_certificate`]):
/// `Σ v / max(largest sum over a window of b steps, Σ v / times)`.
///
/// One person with random signs moves the measurement by `Σ_{j∈S} X_jj` in the mean, so `Δ² ≥ Σ λ_S Σ_{j∈S} X_jj` for all
/// weights `λ ≥ 0` of admissible sets with sum 1. Which v are `Σ λ_S 1_S`, or below? The vectors with 0/1 entries and
/// at most one 1 in b consecutive places, and `times` in all, are the admissible sets; the constraints are sums over
/// intervals, hence totally unimodular, and every v ≥ 0 that satisfies them is such a mixture. The factor is what v may
/// be scaled by until it does, against sum 1.
pub fn participation_factor(weights: &[f64], participation: Participation) -> f64 {
    let times = participation.times_within(weights.len()).max(1);
    if times == 1 {
        return 1.0;
    }
    let total: f64 = norms::compensated_sum(weights.iter().copied());
    // A running sum would cancel; a window is summed afresh whenever one of its own length has passed.
    let separation = participation.separation();
    let mut largest = 0.0_f64;
    for (block, chunk) in weights.chunks(separation).enumerate() {
        let next = &weights[((block + 1) * separation).min(weights.len())..];
        // Suffixes of this block, and prefixes of the next that complete the window.
        let mut suffixes: Vec<f64> = chunk.to_vec();
        for index in (1..suffixes.len()).rev() {
            suffixes[index - 1] += suffixes[index];
        }
        let mut prefix = 0.0;
        for (index, suffix) in suffixes.iter().enumerate() {
            largest = largest.max(suffix + prefix);
            prefix += next.get(index).copied().unwrap_or(0.0);
        }
    }
    total / largest.max(total / times as f64)
}

/// A lower bound on `Δ(C)² ‖B‖_F² / n` over all factorizations of A where one person takes part repeatedly: `‖A L‖_*² / n`, where
/// the columns of L are `√λ_j 1_{S_j}` and `S_j` holds `times` steps from j on, as close together as they may be. λ is the mean of the
/// weights over `S_j`, with sum 1.
///
/// Whoever takes part in the steps `S_j`, always with the same unit vector, moves the measurement by `‖C 1_{S_j}‖ ≤ Δ`. So
/// `‖C L‖_F² = Σ λ_j ‖C 1_{S_j}‖² ≤ Δ²`, and `A L = B · C L` gives `‖A L‖_* ≤ ‖B‖_F ‖C L‖_F ≤ ‖B‖_F Δ`. The certificate of single
/// participation, raised by [`participation_factor`], is the same with random signs in `S_j`, under which neighbouring columns of
/// C cancel that in truth add up: the closer together the steps of a person are, the more this one gains.
///
/// # Complexity
/// One singular value computation, O(n³).
///
/// # Errors
/// A weight that is not finite and positive, or a wrong number of them.
pub fn repeated_certificate(
    workload: ArrayView2<'_, f64>,
    weights: &[f64],
    participation: Participation,
) -> Result<f64> {
    let steps = workload.ncols();
    if weights.len() != steps {
        return Err(Error::Dimension { what: "the dual weights", expected: steps, actual: weights.len() });
    }
    for weight in weights {
        check_positive("dual weight", *weight)?;
    }
    let (times, separation) = (participation.times_within(steps).max(1), participation.separation());
    let starts = steps - (times - 1) * separation;
    let of = |start: usize| (0..times).map(move |index| start + index * separation);
    let sums: Vec<f64> = (0..starts).map(|start| of(start).map(|step| weights[step]).sum()).collect();
    let total = norms::compensated_sum(sums.iter().copied());
    let mut moved = Array2::zeros((workload.nrows(), starts));
    for (start, mut column) in moved.columns_mut().into_iter().enumerate() {
        of(start).for_each(|step| column += &workload.column(step));
        column *= (sums[start] / total).sqrt();
    }
    Ok(norms::schatten1(moved.view())?.powi(2) / workload.nrows() as f64)
}

/// [`participation_factor`] of so many equal weights.
pub fn equal_participation_factor(columns: usize, participation: Participation) -> f64 {
    let times = participation.times_within(columns).max(1);
    let windows = columns as f64 / participation.separation().min(columns) as f64;
    if times == 1 { 1.0 } else { windows.min(times as f64) }
}

/// The dual weights `v = diag(X⁻¹ AᵀA X⁻¹)` of a strategy with Gram matrix `X = CᵀC`: optimal at the optimum, and
/// close to it for a strategy that is close.
///
/// With `B = A C⁻¹` the weights are the squared column norms of `B C⁻ᵀ`, computed from the two factors.
///
/// # Errors
/// A strategy whose matrix is not square or not invertible.
pub fn dual_weights(decoder: ArrayView2<'_, f64>, strategy: ArrayView2<'_, f64>) -> Result<Vec<f64>> {
    let steps = strategy.ncols();
    if strategy.nrows() != steps {
        return Err(Error::Dimension { what: "the strategy", expected: steps, actual: strategy.nrows() });
    }
    let inverse = dense::inverse_lower(strategy)?;
    let product = dense::matmul(decoder, inverse.t());
    Ok(norms::column_squared_norms(product.view()).to_vec())
}

/// A dense bound holds for any longer horizon: split the steps into blocks of `block` and keep, in each block, the
/// rows and columns of that block. The blocks of A are equal (A is Toeplitz) and every factorization of A
/// contains factorizations of them, so `E2(n) ≥ ⌊n/block⌋·block/n · E2(block)`.
pub fn from_blocks(bound_for_block: f64, block: usize, steps: usize) -> f64 {
    bound_for_block * ((steps / block) * block) as f64 / steps as f64
}

/// A bound on E2 or E∞ of a Toeplitz workload from circulant matrices, given its series: nearly tight where the horizon is long
/// against the memory of the workload.
///
/// A circulant matrix U whose eigenvalues have modulus 1 is orthogonal, and so no corner of it has a spectral norm above 1. For
/// probability vectors u and v, `‖diag(u)^{1/2} A diag(v)^{1/2}‖_*` is then at least its inner product with a corner of U,
/// `Σ_k a_k c_k U_k` with `c_k = Σ_j (u_{j+k} v_j)^{1/2}`, and the best eigenvalues make it the mean of the moduli of the
/// spectrum of `a_k c_k`. Equal weights (`c_k = 1 - k/n`) bound E2; for E∞ the weights are free, and half a wave
/// (`u_j = v_j ∝ sin²(π(j+1)/(n+1))`) loses k²/n² only.
///
/// # Complexity
/// O(n log n).
///
/// # Example
/// ```
/// use dp_mechanisms::{Metric, bounds::circulant};
/// // Over a thousand windows the square root has E2 = 4.4644 and E∞ = 4.4655.
/// let mut window = vec![0.0; 16_000];
/// window[..16].fill(1.0);
/// let (mean, max) = (circulant(&window, Metric::Mse), circulant(&window, Metric::Max));
/// assert!((4.461..4.4644).contains(&mean) && (4.4654..4.4655).contains(&max));
/// ```
pub fn circulant(series: &[f64], metric: Metric) -> f64 {
    let n = series.len() as f64;
    let angle = std::f64::consts::PI / (n + 1.0);
    let overlap = |k: f64| match metric {
        Metric::Mse => 1.0 - k / n,
        Metric::Max => ((n - k) * (k * angle).cos() + ((k + 1.0) * angle).sin() / angle.sin()) / (n + 1.0),
    };
    let mut column: Vec<f64> = series.iter().enumerate().map(|(k, a)| a * overlap(k as f64)).collect();
    column.resize((2 * column.len()).next_power_of_two(), 0.0);
    let moduli = fft::circulant_power(&column, |value| Complex64::from(value.norm()));
    // The margin covers the rounding of the transforms.
    moduli.first().map_or(0.0, |mean| (mean * (1.0 - 1e-11)).powi(2))
}

/// The bound of [`circulant`] on `Σ w_i E2_i` for several Toeplitz statistics; nothing where one of them is not Toeplitz.
///
/// Circulant matrices `U_i` whose eigenvalues satisfy `Σ |u_i|² ≤ 1` have a stack of corners of spectral norm at most 1, and the
/// nuclear norm of the stacked `w_i^{1/2} A_i` is at least its inner product with them. The best ones make that the mean of
/// `(Σ w_i |s_i|²)^{1/2}` over the spectra `s_i` of `a_ik (1 - k/n)`.
///
/// # Complexity
/// O(n log n) for each.
///
/// # Errors
/// What the numeric core refuses.
pub(crate) fn joint_circulant(statistics: &[Statistic], steps: usize) -> Result<Option<f64>> {
    let length = steps.min(CIRCULANT_LIMIT);
    let size = (2 * length).next_power_of_two();
    let mut spectrum = vec![0.0; size / 2 + 1];
    for one in statistics {
        let Some(series) = one.workload().series(length)? else { return Ok(None) };
        let overlap = |(k, a): (usize, &f64)| a * (1.0 - k as f64 / length as f64);
        let mut column: Vec<f64> = series.iter().enumerate().map(overlap).collect();
        column.resize(size, 0.0);
        for (sum, power) in spectrum.iter_mut().zip(fft::power_spectrum(&column)) {
            *sum += one.weight() * power;
        }
    }
    // All frequencies but the first and the last stand for two.
    let moduli = spectrum.iter().map(|power| power.sqrt());
    let ends = spectrum[0].sqrt() + spectrum[size / 2].sqrt();
    let mean = (2.0 * norms::compensated_sum(moduli) - ends) / size as f64;
    // The margin covers the rounding of the transforms.
    let value = (mean * (1.0 - 1e-11)).powi(2);
    Ok(Some(from_blocks(value, length, steps)))
}

/// Mathias' bound on the max error of the count: `E∞ ≥ (γ̂(n)(½ + 1/(2n)))²`.
pub fn mathias_count(steps: usize) -> f64 {
    let n = steps as f64;
    (mathias_gamma(steps) * (0.5 + 0.5 / n)).powi(2)
}

/// Mathias' upper bound on the smallest max error of the count: `(γ̂(n)/2 + ½)²`.
pub fn mathias_count_upper(steps: usize) -> f64 {
    (mathias_gamma(steps) / 2.0 + 0.5).powi(2)
}

/// `γ̂(n) = (1/n) Σ_j 1/|sin((2j-1)π/(2n))|`.
pub fn mathias_gamma(steps: usize) -> f64 {
    // Both halves are alike; an odd number has the sine of a right angle between them.
    (2.0 * norms::cosecant_sum(steps) + (steps % 2) as f64) / steps as f64
}

/// For a non-increasing Toeplitz workload with `a_0 = 1`: `E∞ ≥ 4/(4 - a_1²)` from its first two steps.
///
/// # Errors
/// `a_1` outside [0, 1].
pub fn two_steps(second_weight: f64) -> Result<f64> {
    if !(0.0..=1.0).contains(&second_weight) {
        return Err(Error::OutOfRange { what: "second weight", value: second_weight, range: "[0, 1]" });
    }
    Ok(4.0 / (4.0 - second_weight * second_weight))
}

/// Haagerup's bound with a test matrix Q: `E∞ ≥ (‖Q∘A‖ / ‖Q‖)²` in spectral norms, since `γ_2` is the norm of
/// Schur multiplication by A.
///
/// # Errors
/// Matrices of different shapes, or a test matrix that is zero.
pub fn haagerup(workload: ArrayView2<'_, f64>, test: ArrayView2<'_, f64>) -> Result<f64> {
    if workload.dim() != test.dim() {
        return Err(Error::Dimension {
            what: "the test matrix",
            expected: workload.nrows(),
            actual: test.nrows(),
        });
    }
    let norm = check_positive("norm of the test matrix", norms::spectral(test)?)?;
    let product: Array2<f64> = &workload * &test;
    Ok((norms::spectral(product.view())? / norm).powi(2))
}

/// The saddle-point bound on the max error: `E∞ ≥ ‖U^{1/2} A V^{1/2}‖_1²` for probability vectors u, v.
///
/// # Errors
/// Weights that are negative, not finite, or do not sum to something positive.
pub fn weighted_schatten_max(workload: ArrayView2<'_, f64>, rows: &[f64], columns: &[f64]) -> Result<f64> {
    let normalized = |what, weights: &[f64], expected: usize| -> Result<Array1<f64>> {
        if weights.len() != expected {
            return Err(Error::Dimension { what, expected, actual: weights.len() });
        }
        if let Some(weight) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
            return Err(Error::OutOfRange { what, value: *weight, range: "a finite number of at least 0" });
        }
        let total = check_positive(what, norms::compensated_sum(weights.iter().copied()))?;
        Ok(Array1::from_iter(weights.iter().map(|weight| (weight / total).sqrt())))
    };
    let rows = normalized("row weights", rows, workload.nrows())?;
    let columns = normalized("column weights", columns, workload.ncols())?;
    let scaled = Array2::from_shape_fn(workload.dim(), |(i, j)| rows[i] * workload[[i, j]] * columns[j]);
    Ok(norms::schatten1(scaled.view())?.powi(2))
}

/// Any (ε, δ)-DP mechanism for the workload, δ small, with noise that may depend on the data:
/// `MSE ≥ γ_F²/(n (e^{4ε}-1)²)`; give the bound on `E2 = γ_F²/n`.
///
/// # Errors
/// ε not finite and positive.
pub fn any_mechanism(smallest_mean_error: f64, epsilon: f64) -> Result<f64> {
    check_positive("epsilon", epsilon)?;
    Ok(smallest_mean_error / (4.0 * epsilon).exp_m1().powi(2))
}

/// Any (ε, δ)-DP mechanism whose noise does not depend on the data: `MSE ≥ γ_F²/(n (e^{2ε}-1)²)`.
///
/// # Errors
/// ε not finite and positive.
pub fn any_data_independent_mechanism(smallest_mean_error: f64, epsilon: f64) -> Result<f64> {
    check_positive("epsilon", epsilon)?;
    Ok(smallest_mean_error / (2.0 * epsilon).exp_m1().powi(2))
}

/// The number of parity queries of width w over d bits, `C(d, w)`, as a float.
fn binomial(d: usize, w: usize) -> f64 {
    (0..w).map(|i| (d - i) as f64 / (i + 1) as f64).product()
}

/// Parity queries `Q_{d,w}`: every mechanism has squared error at least `C(d,w)/(e^{4ε}-1)²` on the average query.
///
/// # Errors
/// `w > d`, or ε not finite and positive.
pub fn parity_queries(d: usize, w: usize, epsilon: f64) -> Result<f64> {
    if w > d {
        return Err(Error::OutOfRange {
            what: "parity width",
            value: w as f64,
            range: "at most the dimension",
        });
    }
    any_mechanism(binomial(d, w), epsilon)
}

/// How many steps the bound of [`mean`] takes at once: where there are too many for one matrix, fewer than would be possible,
/// for [`circulant`] is better there as a rule.
pub(crate) fn block(workload: &Workload, steps: usize) -> usize {
    steps.min(match workload.recurrence() {
        _ if workload.is_count() => usize::MAX,
        Recurrence::First { .. } | Recurrence::Second { .. } => BANDED_LIMIT,
        _ if steps <= DENSE_LIMIT => DENSE_LIMIT,
        _ => DENSE_LIMIT / 2,
    })
}

/// The best bound on E2 that can be computed for a workload without a given strategy.
///
/// # Errors
/// Zero steps, or what the numeric core refuses.
pub fn mean(workload: &Workload, steps: usize) -> Result<LowerBound> {
    check_count("steps", steps)?;
    let block = block(workload, steps);
    if block == steps || workload.series(1)?.is_some() {
        let singular_values = if workload.is_count() {
            Some(schatten_count(block))
        } else if block <= SMALL {
            // The matrix takes no time, and no margin.
            None
        } else {
            certificate::banded_certificate(workload, &vec![1.0; block])?
        };
        let bound = match singular_values {
            Some(bound) => bound,
            None => schatten(workload.materialize(block)?.view())?,
        };
        let kind = if block == steps { "schatten" } else { "schatten of blocks" };
        let bound = LowerBound { value: from_blocks(bound, block, steps), kind };
        // The singular values of the whole cannot be improved on by one orthogonal matrix.
        if block == steps {
            return Ok(bound);
        }
        let length = steps.min(CIRCULANT_LIMIT);
        let value = circulant(&workload.series(length)?.unwrap_or_default(), Metric::Mse);
        return Ok(bound.or(LowerBound { value: from_blocks(value, length, steps), kind: "circulant" }));
    }
    // The diagonal alone: ‖b_t‖·‖C[:,t]‖ ≥ |A_tt|.
    let diagonal = (0..steps).map(|t| (workload.rate(t) / workload.divisor(t)).powi(2));
    Ok(LowerBound { value: norms::compensated_sum(diagonal) / steps as f64, kind: "diagonal" })
}

/// The best bound on E∞ that can be computed for a workload without a given strategy.
///
/// # Errors
/// Zero steps, or what the numeric core refuses.
pub fn max(workload: &Workload, steps: usize) -> Result<LowerBound> {
    max_above(mean(workload, steps)?, workload, steps)
}

/// [`max`], given a bound on the mean: the largest of several numbers is at least that.
pub(crate) fn max_above(mean: LowerBound, workload: &Workload, steps: usize) -> Result<LowerBound> {
    let mut bound = mean;
    if workload.is_count() {
        bound = bound.or(LowerBound { value: mathias_count(steps), kind: "mathias" });
    }
    if workload.is_average() {
        bound = bound.or(LowerBound { value: 1.0, kind: "first step" });
    }
    let forgets = matches!(workload.recurrence(), Recurrence::Window { .. } | Recurrence::None);
    if steps > DENSE_LIMIT
        && forgets
        && let Some(series) = workload.series(steps.min(CIRCULANT_LIMIT))?
    {
        // The first steps of a stream are a stream.
        bound = bound.or(LowerBound { value: circulant(&series, Metric::Max), kind: "circulant" });
    }
    // Whether the weights decrease is known of all but those that were given one by one.
    let length = steps.min(workload.unnamed().map_or(2, |numbers| numbers.len() + 1));
    if let Some(series) = workload.series(length)? {
        let monotone = series.windows(2).all(|pair| pair[0] >= pair[1]) && series[length - 1] >= 0.0;
        if length >= 2 && monotone {
            let value = series[0] * series[0] * two_steps(series[1] / series[0])?;
            bound = bound.or(LowerBound { value, kind: "two steps" });
        }
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Problem;
    use crate::strategy::Method;

    #[test]
    fn the_closed_form_is_the_schatten_norm() {
        for steps in [1, 2, 5, 64] {
            let matrix = Workload::count().materialize(steps).unwrap();
            let (closed, computed) = (schatten_count(steps), schatten(matrix.view()).unwrap());
            assert!((closed / computed - 1.0).abs() < 1e-12, "{steps}");
        }
    }

    #[test]
    fn certificates_lie_between_schatten_and_the_optimum() {
        // The certified optimum of the dense program.
        let (steps, optimum) = (64, 4.409_397_208_071_117);
        let workload = Workload::count();
        let factors = Method::ScaledSqrt
            .build(&Problem::new(workload.clone(), steps).unwrap())
            .unwrap()
            .materialize()
            .unwrap();
        let weights = dual_weights(factors.decoder.view(), factors.strategy.view()).unwrap();
        let matrix = workload.materialize(steps).unwrap();
        let certificate = dual_certificate(matrix.view(), &weights).unwrap();
        assert!(certificate <= optimum * (1.0 + 1e-9) && certificate > optimum * 0.995, "{certificate}");
        assert!(certificate > schatten_count(steps));
        let flat = dual_certificate(matrix.view(), &vec![3.0; steps]).unwrap();
        assert!((flat / schatten_count(steps) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_window_or_the_total_limits_what_participation_adds() {
        let weights = [0.5, 3.0, 1.0, 0.25, 2.0, 0.125, 4.0, 1.5];
        let total: f64 = weights.iter().sum();
        let largest =
            |x: &[f64], participation| crate::sensitivity::orthogonal_columns(x, participation).squared;
        for (times, separation) in [(2, 1), (2, 3), (3, 2), (8, 1), (4, 2), (5, 3), (2, 8)] {
            let participation = Participation::repeated(times, separation).unwrap();
            let factor = participation_factor(&weights, participation);
            let equal = participation_factor(&[0.5; 8], participation);
            assert!((equal_participation_factor(8, participation) / equal - 1.0).abs() < 1e-15);
            if participation.times_within(8) == 1 {
                assert_eq!(factor, 1.0);
                continue;
            }
            // ⟨v, x⟩ · factor ≤ Σ v · (heaviest set of x), with equality for all steps or for one window.
            let inner = |x: &[f64]| -> f64 { x.iter().zip(&weights).map(|(x, v)| x * v).sum() };
            let mut tightest = 0.0_f64;
            let mut diagonals: Vec<Vec<f64>> = vec![vec![1.0; 8], weights.to_vec()];
            for first in 0..8 {
                diagonals.push(
                    (0..8).map(|j| f64::from(u8::from((first..first + separation).contains(&j)))).collect(),
                );
                diagonals.push((0..8).map(|j| ((j * 5 + first * 3) % 7) as f64).collect());
            }
            for x in &diagonals {
                let ratio = inner(x) * factor / (total * largest(x, participation));
                assert!(ratio <= 1.0 + 1e-12, "{participation} {x:?}: {ratio}");
                tightest = tightest.max(ratio);
            }
            assert!(tightest > 1.0 - 1e-12, "{participation}: {tightest}");
        }
    }

    #[test]
    fn circulant_bounds_are_below_the_optimum_and_close_to_it_for_short_memories() {
        for (text, steps, share) in [
            ("window:4", 200, 0.98),
            ("window:50", 200, 0.8),
            ("poly:1.5", 200, 0.99),
            ("exp:1.5", 300, 0.99),
        ] {
            let workload: Workload = text.parse().unwrap();
            let matrix = workload.materialize(steps).unwrap();
            let series = workload.series(steps).unwrap().unwrap();
            let (mean, max) = (circulant(&series, Metric::Mse), circulant(&series, Metric::Max));
            assert!(mean <= schatten(matrix.view()).unwrap(), "{text}: {mean}");
            let weights: Vec<f64> = (1..=steps)
                .map(|j| (j as f64 * std::f64::consts::PI / (steps + 1) as f64).sin().powi(2))
                .collect();
            assert!(
                max <= weighted_schatten_max(matrix.view(), &weights, &weights).unwrap(),
                "{text}: {max}"
            );
            let root = Method::Sqrt.build(&Problem::new(workload.clone(), steps).unwrap()).unwrap();
            let squared = root.sensitivity(Participation::Single).unwrap().squared;
            let rows = root.row_norms().unwrap();
            assert!(mean > share * squared * rows.mean(), "{text}: {mean} {}", squared * rows.mean());
            assert!(max > share * squared * rows.max(), "{text}: {max} {}", squared * rows.max());
        }
    }

    #[test]
    fn blocks_bound_longer_horizons() {
        let workload = Workload::exponential(1.5).unwrap();
        let long = schatten(workload.materialize(100).unwrap().view()).unwrap();
        let block = schatten(workload.materialize(30).unwrap().view()).unwrap();
        assert!(from_blocks(block, 30, 100) <= long * (1.0 + 1e-12));
    }

    #[test]
    fn max_error_bounds_are_consistent() {
        for steps in [2, 16, 256] {
            let (low, high) = (mathias_count(steps), mathias_count_upper(steps));
            assert!(low <= high);
            let matrix = Workload::count().materialize(steps).unwrap();
            // Mathias' bound in another guise: uniform weights give the Schatten bound.
            let uniform = vec![1.0; steps];
            let weighted = weighted_schatten_max(matrix.view(), &uniform, &uniform).unwrap();
            assert!((weighted / schatten_count(steps) - 1.0).abs() < 1e-12);
            assert!(weighted <= high);
            let test = Array2::from_shape_fn((steps, steps), |(i, j)| 1.0 / (i as f64 - j as f64 + 0.5));
            let haagerup = haagerup(matrix.view(), test.view()).unwrap();
            assert!(haagerup <= high * (1.0 + 1e-12) && haagerup > 0.5, "{haagerup}");
        }
        // Two steps of the count: the bound is attained (2/sqrt(3))².
        assert!((two_steps(1.0).unwrap() - 4.0 / 3.0).abs() < 1e-15);
        assert!(two_steps(1.5).is_err() && two_steps(f64::NAN).is_err());
    }

    #[test]
    fn parity_counts_queries() {
        let (d, w, epsilon) = (10, 3, 0.5_f64);
        let expected = 120.0 / (4.0 * epsilon).exp_m1().powi(2);
        assert!((parity_queries(d, w, epsilon).unwrap() / expected - 1.0).abs() < 1e-12);
        assert!(parity_queries(3, 4, 0.5).is_err() && parity_queries(3, 2, -1.0).is_err());
        assert!(any_data_independent_mechanism(1.0, 0.5).unwrap() > any_mechanism(1.0, 0.5).unwrap());
    }

    #[test]
    fn bad_weights_are_refused() {
        let matrix = Workload::count().materialize(3).unwrap();
        assert!(dual_certificate(matrix.view(), &[1.0, 1.0]).is_err());
        assert!(dual_certificate(matrix.view(), &[1.0, 0.0, 1.0]).is_err());
        assert!(weighted_schatten_max(matrix.view(), &[1.0, f64::NAN, 1.0], &[1.0; 3]).is_err());
        assert!(haagerup(matrix.view(), Array2::zeros((3, 3)).view()).is_err());
    }
}
