//! Lower bounds on E2 by duality without matrices, for workloads whose *inverse* is banded (count, average, exponential
//! decay; momentum with any schedule): nearly tight at any length, in O(n) memory.
//!
//! For every positive vector v of column weights, `D = diag(v)`, `n · min E2 ≥ ‖A D^{1/2}‖_*² / Σ v`
//! ([`crate::bounds::dual_certificate`], which takes any workload as a dense matrix). A vector of any origin proves a
//! bound; only its quality depends on where it comes from.
//!
//! With `L = D^{-1/2} A⁻¹` banded, `D^{1/2} AᵀA D^{1/2} = (L Lᵀ)⁻¹`, so everything the dual program needs — its
//! value and its gradient — is the diagonal of `T^{-1/2}` for the banded `T = L Lᵀ`:
//!
//! `T^{-1/2} = (2/π) ∫_0^∞ (T + t²)⁻¹ dt`
//!
//! The trapezoidal rule in `ln t` converges geometrically, and the diagonal of each inverse takes one sweep in each
//! direction: `bidiagonal` where A⁻¹ has one diagonal below its own, `second_order` where it has two.
//!
//! Weights of one parameter are nearly as good over long horizons, and need not be written out: `long`. Windows have no
//! banded inverse, but a structure of their own: `window`.

mod bidiagonal;
mod long;
mod second_order;
mod window;

use dp_linalg::minimize::{self, Options};
use rayon::prelude::*;

use crate::error::{Result, check_count, check_positive};
use crate::workload::{Recurrence, Workload};
use bidiagonal::Bidiagonal;
pub use long::long_bound;
use second_order::SecondOrder;
pub use window::window_bound;

/// A lower bound on E2 and the column weights that prove it.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanBound {
    /// No strategy has a smaller mean squared error factor.
    pub lower_bound: f64,
    /// The point v of the dual program, which [`banded_certificate`] and [`crate::bounds::dual_certificate`] verify.
    pub column_weights: Vec<f64>,
}

/// Distance of the nodes in `ln t`; the rule is off by a factor within `1 ± 2 e^{-π²/h}`, about 4e-11.
const STEP: f64 = 0.4;

/// How far, in `ln t`, the nodes reach past the spectrum. The geometric sums that replace the rest leave a relative
/// error of `e^{-3·8}`, and on the small side only.
const REACH: f64 = 8.0;

/// Nodes that one sweep carries along, so that their divisions overlap.
const LANES: usize = 4;

/// The parts of the quadrature that run in parallel.
const GROUPS: usize = 8;

/// The longest horizon at which weights are optimized rather than stretched.
const OPTIMIZED: usize = 1 << 14;

/// Weights below this fraction of the mean have vanished.
const VANISHED: f64 = 1e-5;

/// The longest horizon of the first level when weights are optimized from short horizons to long ones.
const COARSEST: usize = 64;

/// One number for each node that a sweep carries along.
type Lanes = [f64; LANES];

/// The inverse of a workload, by its number of diagonals, with rows scaled to `L = D^{-1/2} A⁻¹`.
#[derive(Debug, Clone)]
enum Inverse {
    Bidiagonal(Bidiagonal),
    SecondOrder(SecondOrder),
}

impl Inverse {
    /// `A⁻¹`, or `None` when it has more diagonals.
    fn of(workload: &Workload, steps: usize) -> Option<Self> {
        let bidiagonal = || Bidiagonal::of(workload, steps).map(Self::Bidiagonal);
        let second_order = || SecondOrder::of(workload, steps).map(Self::SecondOrder);
        bidiagonal().or_else(second_order)
    }

    fn steps(&self) -> usize {
        match self {
            Self::Bidiagonal(inverse) => inverse.steps(),
            Self::SecondOrder(inverse) => inverse.steps(),
        }
    }

    /// `D^{-1/2} A⁻¹`.
    fn scaled(&self, v: &[f64]) -> Self {
        match self {
            Self::Bidiagonal(inverse) => Self::Bidiagonal(inverse.scaled(v)),
            Self::SecondOrder(inverse) => Self::SecondOrder(inverse.scaled(v)),
        }
    }

    /// The transpose with rows and columns in reverse, which is lower triangular again.
    fn transposed(&self) -> Self {
        match self {
            Self::Bidiagonal(inverse) => Self::Bidiagonal(inverse.transposed()),
            Self::SecondOrder(inverse) => Self::SecondOrder(inverse.transposed()),
        }
    }

    /// No eigenvalue of `L Lᵀ` is larger.
    fn largest_eigenvalue(&self) -> f64 {
        match self {
            Self::Bidiagonal(inverse) => inverse.largest_eigenvalue(),
            Self::SecondOrder(inverse) => inverse.largest_eigenvalue(),
        }
    }

    /// Adds `weight · diag((L Lᵀ + shift)⁻¹)` of each group of lanes to `sum`.
    fn add_inverse_diagonals(&self, nodes: impl Iterator<Item = (Lanes, Lanes)>, sum: &mut [f64]) {
        match self {
            Self::Bidiagonal(inverse) => inverse.add_inverse_diagonals(nodes, sum),
            Self::SecondOrder(inverse) => inverse.add_inverse_diagonals(nodes, sum),
        }
    }

    /// How long weights are optimized at one horizon: those of momentum span many orders of magnitude.
    fn iterations(&self) -> usize {
        match self {
            Self::Bidiagonal(_) => 40,
            Self::SecondOrder(_) => 120,
        }
    }

    /// What covers the error of the quadrature and of rounding.
    fn margin(&self) -> f64 {
        match self {
            Self::Bidiagonal(_) => 1.0 - 1e-9,
            Self::SecondOrder(inverse) => 1.0 - (8.0 * f64::EPSILON * inverse.condition()).max(1e-6),
        }
    }

    /// The diagonal of `(L Lᵀ)^{-1/2}`.
    ///
    /// # Complexity
    /// About 65 nodes of O(n) each, in parallel.
    fn inverse_root_diagonal(&self) -> Vec<f64> {
        let n = self.steps();
        let mut inverse = vec![0.0; n];
        let mut one = [0.0; LANES];
        one[0] = 1.0;
        self.add_inverse_diagonals(std::iter::once(([0.0; LANES], one)), &mut inverse);
        let smallest = 1.0 / inverse.iter().sum::<f64>();
        let largest = self.largest_eigenvalue();
        if !(smallest > 0.0 && smallest.is_finite() && largest.is_finite()) {
            // Out of the range of f64: nothing is proved.
            return vec![0.0; n];
        }
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
                let mut sum = vec![0.0; n];
                let lanes = |block: &usize| -> (Lanes, Lanes) {
                    let lanes: [(f64, f64); LANES] = std::array::from_fn(|lane| node(block * LANES + lane));
                    (lanes.map(|(shift, _)| shift), lanes.map(|(_, weight)| weight))
                };
                self.add_inverse_diagonals(group.iter().map(lanes), &mut sum);
                sum
            })
            .collect();
        let mut total = vec![0.0; n];
        for sum in partial {
            total.iter_mut().zip(sum).for_each(|(total, part)| *total += part);
        }
        if total.iter().all(|entry| entry.is_finite()) { total } else { vec![0.0; n] }
    }
}

/// The bound of [`crate::bounds::dual_certificate`] for a workload with a banded inverse; `None` for any other.
///
/// It is smaller than the dense one by a factor of about `1 - 2e-9` (`1 - 2e-6` for momentum), which covers quadrature and rounding.
///
/// # Complexity
/// O(n) with a constant of about 65 pairs of sweeps.
///
/// # Errors
/// No weights, or weights that are not finite and positive.
pub fn banded_certificate(workload: &Workload, v: &[f64]) -> Result<Option<f64>> {
    check_count("steps", v.len())?;
    for weight in v {
        check_positive("column weight", *weight)?;
    }
    Ok(Inverse::of(workload, v.len()).map(|inverse| {
        let nuclear = inverse.margin() * inverse.scaled(v).inverse_root_diagonal().iter().sum::<f64>();
        nuclear * nuclear / (v.len() as f64 * v.iter().sum::<f64>())
    }))
}

/// A nearly tight lower bound on E2 for a workload with a banded inverse; `None` for any other.
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
/// use dp_mechanisms::{Workload, certificate::banded_bound};
/// let bound = banded_bound(&Workload::count(), 64)?.expect("the inverse of the count is bidiagonal");
/// // The optimum is 4.4093972.
/// assert!(bound.lower_bound > 4.4093 && bound.lower_bound < 4.4094);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn banded_bound(workload: &Workload, steps: usize) -> Result<Option<MeanBound>> {
    let Some(Weights { columns, .. }) = climb(workload, steps, false)? else { return Ok(None) };
    Ok(banded_certificate(workload, &columns)?
        .map(|lower_bound| MeanBound { lower_bound, column_weights: columns }))
}

/// A nearly tight lower bound on E∞ for a workload with a banded inverse, `‖W^{1/2} A D^{1/2}‖_*² / (Σ w Σ v)` for weights w of
/// the rows and v of the columns; `None` for any other.
///
/// # Complexity
/// Twice that of [`banded_bound`].
///
/// # Errors
/// Zero steps.
///
/// # Example
/// ```
/// use dp_mechanisms::{Workload, certificate::banded_max_bound};
/// let bound = banded_max_bound(&Workload::count(), 256)?.expect("the inverse of the count is bidiagonal");
/// // The optimum is 6.4149.
/// assert!(bound > 6.414 && bound < 6.415);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn banded_max_bound(workload: &Workload, steps: usize) -> Result<Option<f64>> {
    let Some(weights) = climb(workload, steps, true)? else { return Ok(None) };
    Ok(Inverse::of(workload, steps).map(|inverse| {
        let nuclear = inverse.margin() * weights.scale(&inverse).inverse_root_diagonal().iter().sum::<f64>();
        nuclear * nuclear / weights.total()
    }))
}

/// A point of the dual.
#[derive(Debug, Clone)]
struct Weights {
    columns: Vec<f64>,
    /// Those of the rows where they are free, and 1 otherwise.
    rows: Option<Vec<f64>>,
}

impl Weights {
    /// Weights of the columns, followed by those of the rows where they are free.
    fn of(values: &[f64], free_rows: bool) -> Self {
        let (columns, rows) = values.split_at(if free_rows { values.len() / 2 } else { values.len() });
        Self { columns: columns.to_vec(), rows: free_rows.then(|| rows.to_vec()) }
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.columns.iter().chain(self.rows.iter().flatten()).copied()
    }

    fn map(&self, f: impl Fn(&[f64]) -> Vec<f64>) -> Self {
        Self { columns: f(&self.columns), rows: self.rows.as_deref().map(f) }
    }

    /// The product of both sums, up to a constant where rows are not free.
    fn total(&self) -> f64 {
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        sum(&self.columns) * self.rows.as_deref().map_or(1.0, sum)
    }

    /// `D^{-1/2} A⁻¹ W^{-1/2}`.
    fn scale(&self, inverse: &Inverse) -> Inverse {
        let scaled = inverse.scaled(&self.columns);
        match &self.rows {
            Some(rows) => {
                let reversed: Vec<f64> = rows.iter().rev().copied().collect();
                scaled.transposed().scaled(&reversed).transposed()
            }
            None => scaled,
        }
    }
}

/// Weights that make the bound on E2, or with free rows that on E∞, large.
fn climb(workload: &Workload, steps: usize, free_rows: bool) -> Result<Option<Weights>> {
    check_count("steps", steps)?;
    let mut length = steps;
    let mut levels = vec![steps];
    while length > COARSEST {
        length = length.div_ceil(4);
        levels.push(length);
    }
    let mut weights = Weights { columns: vec![1.0; length], rows: free_rows.then(|| vec![1.0; length]) };
    for &length in levels.iter().rev() {
        let Some(inverse) = Inverse::of(workload, length) else { return Ok(None) };
        weights = weights.map(|values| stretched(values, length));
        // Twice as many weights take longer to settle.
        if length <= OPTIMIZED / if free_rows { 8 } else { 1 } {
            weights = optimize(&inverse, &weights)?;
        }
    }
    Ok(Some(weights))
}

/// Up to this many steps [`banded_bound`] takes a few seconds at most.
pub(crate) fn practical_limit(workload: &Workload) -> usize {
    match workload.recurrence() {
        Recurrence::Second { .. } => 1 << 20,
        _ => 1 << 21,
    }
}

/// Raises the bound by BFGS in the logarithms of the weights, scaled so that the curvature is about the same in every
/// direction.
fn optimize(inverse: &Inverse, start: &Weights) -> Result<Weights> {
    let free_rows = start.rows.is_some();
    let relative = start.map(|values| {
        let total: f64 = values.iter().sum();
        values.iter().map(|weight| (weight / total).sqrt()).collect()
    });
    let scales: Vec<f64> = relative.values().collect();
    let at = |point: &[f64]| -> Weights {
        let values: Vec<f64> = point.iter().zip(&scales).map(|(x, scale)| (x / scale).exp()).collect();
        Weights::of(&values, free_rows)
    };
    let negative_logarithm = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
        let weights = at(point);
        if !weights.values().all(f64::is_normal) {
            return Ok(f64::INFINITY);
        }
        let scaled = weights.scale(inverse);
        let mut roots = scaled.inverse_root_diagonal();
        let nuclear: f64 = roots.iter().sum();
        if nuclear == 0.0 {
            return Ok(f64::INFINITY);
        }
        if free_rows {
            // The other root, of `LᵀL`, in reverse.
            roots.extend(scaled.transposed().inverse_root_diagonal().iter().rev());
        }
        let shares = weights.map(|values| {
            let total: f64 = values.iter().sum();
            values.iter().map(|weight| weight / total).collect()
        });
        for (((slope, root), share), scale) in
            gradient.iter_mut().zip(&roots).zip(shares.values()).zip(&scales)
        {
            *slope = (share - root / nuclear) / scale;
        }
        Ok(weights.total().ln() - 2.0 * nuclear.ln())
    };
    let from = start.values().zip(&scales).map(|(weight, scale)| weight.ln() * scale).collect();
    let options = Options { iterations: inverse.iterations(), relative_decrease: 1e-8, memory: 12 };
    Ok(at(&minimize::lbfgs(negative_logarithm, from, options)?.point))
}

/// Weights of a short horizon for a long one: near both ends those of the same steps, between them read at the same relative
/// times, linear in `ln v` over the logit of time, and all of it in one piece.
fn stretched(v: &[f64], length: usize) -> Vec<f64> {
    let logit = |index: usize, n: usize| ((index as f64 + 0.5) / (n as f64 - index as f64 - 0.5)).ln();
    let short = v.len();
    let reach = short / 8;
    let mut right = 1;
    let mut between = |index: usize| {
        let at = logit(index, length);
        while right + 1 < short && logit(right, short) < at {
            right += 1;
        }
        let Some(upper) = v.get(right) else { return v[0] };
        let (x0, x1) = (logit(right - 1, short), logit(right, short));
        let (y0, y1) = (v[right - 1].ln(), upper.ln());
        (y0 + (y1 - y0) * (at - x0) / (x1 - x0)).exp()
    };
    let mut long: Vec<f64> = vec![0.0; length];
    for (index, weight) in long.iter_mut().enumerate().skip(reach).take(length - 2 * reach) {
        *weight = between(index);
    }
    if reach > 0 {
        // A weight that has vanished at the short horizon may matter at the long one.
        let floor = VANISHED * v.iter().sum::<f64>() / short as f64;
        let v: Vec<f64> = v.iter().map(|weight| weight.max(floor)).collect();
        let (first, last) = (long[reach] / v[reach], long[length - reach - 1] / v[short - reach - 1]);
        for index in 0..reach {
            long[index] = v[index] * first;
            long[length - index - 1] = v[short - index - 1] * last;
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::dual_certificate;
    use crate::strategy::{optimal::Optimal, unwatched};
    use crate::{Metric, Problem};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Both ways to the bound agree, for any weights and every workload that has both.
        #[test]
        fn the_banded_bound_is_the_dense_one(
            logarithms in prop::collection::vec(-3.0_f64..3.0, 1..40),
        ) {
            let v: Vec<f64> = logarithms.iter().map(|x| x.exp()).collect();
            let schedule = [0.5, 2.0, 1.0, 0.1];
            let workloads = ["count", "average", "exp:1", "exp:1.3", "momentum:0.9", "momentum:0"]
                .map(|text| text.parse().unwrap())
                .into_iter()
                .chain([Workload::momentum(0.7, &schedule).unwrap()]);
            for workload in workloads {
                let text = workload.to_string();
                let tolerance = if text.starts_with("momentum") { 3e-6 } else { 1e-8 };
                let dense = dual_certificate(workload.materialize(v.len()).unwrap().view(), &v).unwrap();
                let bound = banded_certificate(&workload, &v).unwrap().unwrap();
                prop_assert!((bound / dense - 1.0).abs() < tolerance, "{text}: {bound} {dense}");
                prop_assert!(bound <= dense * (1.0 + 1e-12), "{text}: {bound} {dense}");
            }
        }
    }

    #[test]
    fn long_memories_cost_few_digits() {
        for beta in [0.5, 0.9, 0.99, 0.999, 0.999_999] {
            for steps in [50, 400] {
                let workload = Workload::momentum(beta, &[1.0]).unwrap();
                let v: Vec<f64> = (0..steps).map(|j| 1.3 - j as f64 / steps as f64).collect();
                let inverse = Inverse::of(&workload, steps).unwrap();
                let nuclear = inverse.scaled(&v).inverse_root_diagonal().iter().sum::<f64>();
                let dense = dual_certificate(workload.materialize(steps).unwrap().view(), &v).unwrap();
                let ratio = nuclear / (dense * steps as f64 * v.iter().sum::<f64>()).sqrt();
                // A hundredth of the margin.
                assert!((ratio - 1.0).abs() < 0.01 * (1.0 - inverse.margin()), "{beta} {steps}: {ratio}");
            }
        }
    }

    #[test]
    fn weights_out_of_range_prove_nothing() {
        for text in ["count", "momentum:0.9"] {
            for v in [[1e-310, 1.0, 1.0], [1e300, 1e-300, 1.0]] {
                let bound = banded_certificate(&text.parse().unwrap(), &v).unwrap().unwrap();
                assert!((0.0..=6.0).contains(&bound), "{text}: {bound}");
            }
        }
    }

    #[test]
    fn bad_weights_are_refused() {
        let count = Workload::count();
        for v in [vec![], vec![1.0, 0.0, 1.0], vec![1.0, f64::NAN, 1.0], vec![-1.0, 1.0, 1.0]] {
            assert!(banded_certificate(&count, &v).is_err());
        }
        assert!(banded_certificate(&Workload::window(3).unwrap(), &[1.0, 1.0]).unwrap().is_none());
    }

    #[test]
    fn the_bound_reaches_the_certified_optimum() {
        // Values of the dense program, computed elsewhere to a gap of 1e-9.
        let rows = [
            ("count", 64, 4.409_397_205),
            ("count", 256, 6.372_668_143),
            ("average", 128, 0.022_987_684_89),
            ("exp:1.1", 128, 2.156_712_597),
            ("momentum:0.9", 128, 189.574_750_09),
        ];
        for (text, steps, optimum) in rows {
            let bound = banded_bound(&text.parse().unwrap(), steps).unwrap().unwrap();
            let ratio = bound.lower_bound / optimum;
            assert!((1.0 - 1e-5..1.0 + 1e-9).contains(&ratio), "{text} at {steps}: {ratio}");
        }
        // At 4096 steps the optimum lies between 11.49055 and 11.49068.
        let bound = banded_bound(&Workload::count(), 4096).unwrap().unwrap().lower_bound;
        assert!((11.4902..11.49068).contains(&bound), "{bound}");
        assert!(banded_bound(&"poly:1".parse().unwrap(), 16).unwrap().is_none());
    }

    #[test]
    fn the_bound_on_the_largest_error_reaches_the_optimum() {
        for (text, steps) in [("count", 1), ("count", 200), ("exp:1.05", 150), ("momentum:0.5", 100)] {
            let problem = Problem::new(text.parse().unwrap(), steps).unwrap().with_metric(Metric::Max);
            let bound = banded_max_bound(problem.workload(), steps).unwrap().unwrap();
            let optimum = Optimal::new(&problem, &mut unwatched).unwrap();
            let ratio = bound / optimum.certificate().error;
            assert!((1.0 - 1e-4..1.0 + 1e-9).contains(&ratio), "{text} at {steps}: {ratio}");
        }
        assert!(banded_max_bound(&"poly:1".parse().unwrap(), 16).unwrap().is_none());
    }
}
