//! The binary tree with every node measured, decoded with inverse-variance weights.

use std::sync::Arc;

use dp_linalg::rational::Sample;
use dp_linalg::tree::{Node, complete_ancestors, complete_nodes, dyadic_nodes, levels, position};
use ndarray::{Array2, ArrayView1};
use zeroize::Zeroize;

use super::tree::{Measured, PrefixSums, native_side, prefix_row_norms, sensitivity, sum_over_dyadic_levels};
use super::{
    Coefficients, Factorization, Measurement, NoiseFilter, RowNorms, Strategy, check_materializable,
};
use crate::error::{Error, Result};
use crate::noise::{Side, TILE, UnitNoise};
use crate::problem::Problem;
use crate::sensitivity::{Participation, Sensitivity};
use crate::workload::Workload;

/// A tree whose redundant nodes are used to average noise away.
///
/// C has a row for each of the `2n - popcount(n)` complete nodes, in the order in which they become complete.
/// `Δ² = ⌊log2 n⌋ + 1`, since each leaf lies below one complete node per level at most.
///
/// - `honaker-online`: the sum below a node is estimated from its own measurement and the estimates of its two
///   children, with inverse-variance weights. The variances are `v_0 = 1`, `v_h = 2v_{h-1} / (1 + 2v_{h-1})`,
///   and a release sums the estimates of its dyadic nodes.
/// - `honaker-full`: least squares, `B = A C⁺`. It looks ahead to nodes that complete later, which is private
///   for adaptive streams all the same: only `B z` is looked ahead, and the noise does not depend on the data.
///
/// # Complexity
/// Online: amortized O(d) per step and two vectors per level. Full: O(n d) before the first step and n vectors
/// of memory. Row norms: O(n log n) for count and average, O(n²) for other workloads, up to
/// [`MATERIALIZE_LIMIT`](super::MATERIALIZE_LIMIT) steps.
///
/// # Example
/// ```
/// use dp_mechanisms::strategy::{Strategy, honaker::Honaker};
/// use dp_mechanisms::{Problem, Workload};
/// let problem = Problem::new(Workload::count(), 64)?;
/// let online = Honaker::online(&problem).row_norms()?;
/// let full = Honaker::full(&problem).row_norms()?;
/// assert!(full.mean() < 0.63 * online.mean());
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Honaker {
    workload: Workload,
    steps: usize,
    decoding: Decoding,
    /// By level, the variance `v_h` of an estimate from below.
    variances: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decoding {
    Online,
    Full,
}

impl Honaker {
    /// Estimates from below: each release uses the nodes that are complete at its time.
    pub fn online(problem: &Problem) -> Self {
        Self::new(problem, Decoding::Online)
    }

    /// Least squares over all nodes.
    pub fn full(problem: &Problem) -> Self {
        Self::new(problem, Decoding::Full)
    }

    fn new(problem: &Problem, decoding: Decoding) -> Self {
        let steps = problem.steps();
        let variances = std::iter::successors(Some(1.0), |below| Some(2.0 * below / (1.0 + 2.0 * below)));
        Self {
            workload: problem.workload().clone(),
            steps,
            decoding,
            variances: variances.take(levels(steps)).collect(),
        }
    }

    fn online_filter<T: Sample>(&self, dimension: usize, side: Side) -> FromBelow<T> {
        FromBelow {
            sums: PrefixSums::new(self.steps, dimension, side),
            estimates: Estimates::new(&self.variances, dimension),
            measured: vec![0.0; dimension],
        }
    }

    /// Adds `factor` times the estimate from below of a node to a row over the measurements.
    fn add_estimate(&self, row: &mut [f64], node: Node, factor: f64) {
        let own = self.variances[node.level];
        row[position(node)] += factor * own;
        self.add_children(row, node, factor * (1.0 - own));
    }

    /// The same for the sum of the estimates of the two children, if there are any.
    fn add_children(&self, row: &mut [f64], node: Node, factor: f64) {
        for child in node.children().into_iter().flatten() {
            self.add_estimate(row, child, factor);
        }
    }

    /// The weights of the measurements in the estimated input of a step (counted from 0): a row of `A⁻¹ B`.
    fn input_row(&self, step: usize, row: &mut [f64]) {
        row.fill(0.0);
        match self.decoding {
            Decoding::Online => {
                // One node takes the place of those dyadic nodes of the prefix before that it contains.
                let level = (step + 1).trailing_zeros() as usize;
                let node = Node { level, index: step >> level };
                self.add_estimate(row, node, 1.0);
                let start = node.leaves().start;
                for replaced in dyadic_nodes(step).filter(|other| other.leaves().start >= start) {
                    self.add_estimate(row, replaced, -1.0);
                }
            }
            Decoding::Full => {
                for node in complete_ancestors(step, self.steps) {
                    // The leaf, plus its equal share of how far each node above moves the sum of its children.
                    let share = self.variances[node.level] / (1_u64 << node.level) as f64;
                    row[position(node)] += share;
                    self.add_children(row, node, -share);
                }
            }
        }
    }

    /// Visits the rows of B: the workload, applied to the estimated inputs as to any stream. O(n²) in all where the
    /// workload streams in constant time.
    fn for_each_row(&self, mut visit: impl FnMut(usize, &[f64])) -> Result<()> {
        check_materializable(self.steps)?;
        let measurements = complete_nodes(self.steps);
        let mut workload = self.workload.stream(self.steps, measurements)?;
        let mut input = vec![0.0; measurements];
        let mut output = vec![0.0; measurements];
        for step in 0..self.steps {
            self.input_row(step, &mut input);
            workload.push(&input, &mut output)?;
            visit(step, &output);
        }
        Ok(())
    }

    /// The variance of every prefix sum under least squares, in O(n).
    ///
    /// The trees of the forest are independent, and each grows by doubling. With x_p the prefixes of a tree and S its
    /// total, of variance v: a pair of trees has the prefixes `x_p` and `S_left + x_p'`, and the measurement
    /// of the new total, whose prior variance is 2v, lowers `Var(x)` by `Cov(x, S)² / (2v + 1)` and divides
    /// `Cov(x, S)` by `2v + 1`.
    fn least_squares_variances(&self) -> Vec<f64> {
        let mut squared = vec![0.0; self.steps];
        let mut prefixes = vec![(1.0, 1.0)];
        for (level, v) in self.variances.iter().copied().enumerate() {
            if level > 0 {
                let below = self.variances[level - 1];
                let half = prefixes.len();
                for p in 0..half {
                    let (variance, covariance) = prefixes[p];
                    prefixes.push((below + variance, below + covariance));
                }
                for (variance, covariance) in &mut prefixes {
                    let scale = 1.0 / (2.0 * below + 1.0);
                    *variance -= *covariance * *covariance * scale;
                    *covariance *= scale;
                }
            }
            debug_assert!((prefixes[prefixes.len() - 1].0 - v).abs() < 1e-12);
            if self.steps >> level & 1 == 1 {
                let start = self.steps >> (level + 1) << (level + 1);
                let earlier = sum_over_dyadic_levels(start, &self.variances);
                for (sum, (variance, _)) in squared[start..].iter_mut().zip(&prefixes) {
                    *sum = earlier + variance;
                }
            }
        }
        squared
    }
}

impl Strategy for Honaker {
    fn name(&self) -> &'static str {
        match self.decoding {
            Decoding::Online => "honaker-online",
            Decoding::Full => "honaker-full",
        }
    }

    fn workload(&self) -> &Workload {
        &self.workload
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
        Ok(sensitivity(Measured::AllNodes, self.steps, participation))
    }

    fn row_norms(&self) -> Result<RowNorms> {
        if !self.workload.is_prefix_sum() {
            let mut squared = Vec::new();
            self.for_each_row(|_, row| squared.push(row.iter().map(|b| b * b).sum()))?;
            return Ok(RowNorms::exact(squared));
        }
        let squared = match self.decoding {
            Decoding::Online => {
                prefix_row_norms(&self.workload, self.steps, |t| sum_over_dyadic_levels(t, &self.variances))
            }
            Decoding::Full => {
                let variances = self.least_squares_variances();
                prefix_row_norms(&self.workload, self.steps, |t| variances[t - 1])
            }
        };
        Ok(RowNorms::exact(squared.unwrap_or_default()))
    }

    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        Ok(match self.decoding {
            Decoding::Online => Box::new(self.online_filter::<f64>(dimension, native_side(&self.workload))),
            Decoding::Full => Box::new(LeastSquares {
                variances: self.variances.clone(),
                steps: self.steps,
                dimension,
                step: 0,
                noise: Vec::new(),
            }),
        })
    }

    fn compact_filter(&self, dimension: usize) -> Result<Option<Box<dyn NoiseFilter>>> {
        Ok(match self.decoding {
            Decoding::Online => Some(Box::new(self.online_filter::<f32>(dimension, Side::Input))),
            Decoding::Full => None,
        })
    }

    fn memory(&self, dimension: usize) -> usize {
        match self.decoding {
            Decoding::Online => (2 * levels(self.steps) + 1) * dimension,
            Decoding::Full => self.steps * dimension,
        }
    }

    fn coefficients(&self) -> Option<Coefficients> {
        Some(Coefficients::none())
    }

    fn measurement(&self) -> Result<Measurement> {
        match self.decoding {
            Decoding::Online => Ok(Measurement::AllNodes),
            Decoding::Full => Err(Error::NotApplicable {
                strategy: self.name(),
                workload: self.workload.to_string(),
                reason: "its decoder needs later measurements; honaker-online measures the same nodes",
            }),
        }
    }

    fn reading(&self, workload: &Workload) -> Result<Arc<dyn Strategy>> {
        Ok(Arc::new(Self { workload: workload.clone(), ..self.clone() }))
    }

    fn materialize(&self) -> Result<Factorization> {
        let mut decoder = Array2::zeros((self.steps, complete_nodes(self.steps)));
        self.for_each_row(|step, row| decoder.row_mut(step).assign(&ArrayView1::from(row)))?;
        let mut strategy = Array2::zeros((complete_nodes(self.steps), self.steps));
        for leaf in 0..self.steps {
            for node in complete_ancestors(leaf, self.steps) {
                strategy[[position(node), leaf]] = 1.0;
            }
        }
        Ok(Factorization { decoder, strategy })
    }
}

/// The estimates from below of the nodes that wait for their right sibling, one per level.
struct Estimates<T: Sample> {
    variances: Vec<f64>,
    waiting: Vec<T>,
}

impl<T: Sample> Estimates<T> {
    fn new(variances: &[f64], dimension: usize) -> Self {
        Self { variances: variances.to_vec(), waiting: vec![T::default(); variances.len() * dimension] }
    }

    /// One level up: from the estimate of a right child and the measurement of its parent to the parent's estimate. In the
    /// place of the measurement is left how far it moved the sum of the children.
    #[inline]
    fn raise(&self, level: usize, measured: &mut [f64], estimate: &mut [f64]) {
        let own = self.variances[level];
        let left = &self.waiting[(level - 1) * estimate.len()..];
        for ((value, left), measured) in estimate.iter_mut().zip(left).zip(measured) {
            let children = left.to_f64() + *value;
            *measured = own * (*measured - children);
            *value = children + *measured;
        }
    }

    /// Keeps the estimate of the largest node that ends at a step for the one above it.
    #[inline]
    fn keep(&mut self, level: usize, estimate: &[f64]) {
        for (kept, value) in self.waiting[level * estimate.len()..].iter_mut().zip(estimate) {
            *kept = T::from_f64(*value);
        }
    }

    /// Writes to `estimate` the noise of the largest node that ends at `step`, estimated from below; `measured` holds the rows
    /// of z for the nodes that the step completes, from the leaf upwards, and is left as [`Estimates::raise`] says.
    #[inline]
    fn complete(&mut self, step: usize, measured: &mut [f64], estimate: &mut [f64]) {
        let dimension = estimate.len();
        let (leaf, inner) = measured.split_at_mut(dimension);
        estimate.copy_from_slice(leaf);
        for (below, measured) in inner.chunks_exact_mut(dimension).enumerate() {
            self.raise(below + 1, measured, estimate);
        }
        self.keep(step.trailing_zeros() as usize, estimate);
    }
}

/// Online decoding: each step combines the nodes it completes, and adds the result to the prefix before them.
struct FromBelow<T: Sample> {
    sums: PrefixSums<T>,
    estimates: Estimates<T>,
    /// The measurement at hand, or all of several steps.
    measured: Vec<f64>,
}

impl<T: Sample> NoiseFilter for FromBelow<T> {
    fn side(&self) -> Side {
        self.sums.side()
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let step = self.sums.next_step()?;
        let first = complete_nodes(step - 1);
        let top = step.trailing_zeros() as usize;
        source.fill_row(first, out);
        for level in 1..=top {
            let measured = &mut self.measured[..out.len()];
            source.fill_row(first + level, measured);
            self.estimates.raise(level, measured, out);
        }
        self.estimates.keep(top, out);
        self.sums.append(out);
        Ok(())
    }

    fn next_rows(&mut self, source: &mut dyn UnitNoise, dimension: usize, out: &mut [f64]) -> Result<()> {
        let before = self.sums.next_step()? - 1;
        let first = complete_nodes(before);
        let count = complete_nodes(before + out.len() / dimension) - first;
        // Grows for the first block, and for one that completes more nodes than any before.
        self.measured.resize(self.measured.len().max(count * dimension), 0.0);
        let mut rest = &mut self.measured[..count * dimension];
        source.fill_rows(first, dimension, rest);
        for row in out.chunks_exact_mut(dimension) {
            let step = self.sums.next_step()?;
            let nodes = step.trailing_zeros() as usize + 1;
            let (own, later) = rest.split_at_mut(nodes * dimension);
            self.estimates.complete(step, own, row);
            self.sums.append(row);
            rest = later;
        }
        Ok(())
    }

    fn save(&self, state: &mut Vec<f64>) -> bool {
        self.sums.save(state);
        state.extend(self.estimates.waiting.iter().map(|value| value.to_f64()));
        true
    }

    fn restore(&mut self, steps: usize, state: &[f64]) -> Result<()> {
        let (sums, waiting) = state.split_at(self.sums.saved().min(state.len()));
        super::restore_into(waiting, &mut self.estimates.waiting)?;
        self.sums.restore(steps, sums)
    }
}

/// Least-squares decoding: all of `ξ = C⁺ z` is made before the first step.
struct LeastSquares {
    variances: Vec<f64>,
    steps: usize,
    dimension: usize,
    step: usize,
    /// Row-major, empty until the first step.
    noise: Vec<f64>,
}

/// Values of z that are read together.
const READ_AHEAD: usize = 1 << 12;

impl LeastSquares {
    /// An upward sweep estimates every node from below and notes how far each measurement moves the sum of the two
    /// children; a downward sweep hands each node half of what its parent moved in the end, because siblings
    /// are equally uncertain. Coordinates are handled a tile at a time, and the only scratch is a
    /// tile's correction of each inner node.
    fn prepare(&mut self, source: &mut dyn UnitNoise) {
        self.noise = vec![0.0; self.steps * self.dimension];
        let width = self.dimension.min(TILE);
        let together = (READ_AHEAD / width).clamp(1, self.steps);
        let mut measured = vec![0.0; (2 * together + levels(self.steps)) * width];
        let mut corrections = vec![0.0; self.steps * width];
        for first in (0..self.dimension).step_by(width) {
            let width = width.min(self.dimension - first);
            let mut sweeps = Sweeps {
                steps: self.steps,
                stride: self.dimension,
                estimates: Estimates::new(&self.variances, width),
                estimate: vec![0.0; width],
                corrections: &mut corrections,
                carried: vec![0.0; (levels(self.steps) + 1) * width],
            };
            for start in (0..self.steps).step_by(together) {
                let nodes = complete_nodes(start)..complete_nodes((start + together).min(self.steps));
                let rows = &mut measured[..nodes.len() * width];
                if width == self.dimension {
                    source.fill_rows(nodes.start, width, rows);
                } else {
                    for (row, values) in nodes.zip(rows.chunks_exact_mut(width)) {
                        source.fill_range(row, first, values);
                    }
                }
                let noise = &mut self.noise[first..];
                // The same code with a width that the compiler knows.
                if width == 1 {
                    sweeps.up(1, start, rows, noise);
                } else {
                    sweeps.up(width, start, rows, noise);
                }
            }
            let noise = &mut self.noise[first..];
            if width == 1 { sweeps.down(1, noise) } else { sweeps.down(width, noise) }
        }
        measured.zeroize();
    }
}

/// The two sweeps over a tile of coordinates. Inner nodes are known by their middle, which is different for each.
struct Sweeps<'a> {
    steps: usize,
    /// From the noise of a step to that of the next.
    stride: usize,
    estimates: Estimates<f64>,
    estimate: Vec<f64>,
    /// By the middle of each inner node, how far its measurement moves the sum of its children.
    corrections: &'a mut [f64],
    /// By level, how far the node above the current leaf is moved in the end.
    carried: Vec<f64>,
}

impl Sweeps<'_> {
    /// Takes the measurements of the steps after `start`, and leaves those of the leaves in `noise`.
    #[allow(clippy::inline_always, reason = "a known width makes the loops over coordinates vanish")]
    #[inline(always)]
    fn up(&mut self, width: usize, start: usize, measured: &mut [f64], noise: &mut [f64]) {
        let mut rest = measured;
        let mut step = start;
        while !rest.is_empty() {
            step += 1;
            let top = step.trailing_zeros() as usize;
            let (own, later) = rest.split_at_mut((top + 1) * width);
            self.estimates.complete(step, own, &mut self.estimate[..width]);
            let (leaf, moved) = own.split_at(width);
            noise[(step - 1) * self.stride..][..width].copy_from_slice(leaf);
            for (level, moved) in moved.chunks_exact(width).enumerate() {
                self.corrections[(step - (1 << level)) * width..][..width].copy_from_slice(moved);
            }
            rest = later;
        }
    }

    /// Leaf by leaf; before a leaf come the inner nodes that start at it, from the largest down.
    #[allow(clippy::inline_always, reason = "a known width makes the loops over coordinates vanish")]
    #[inline(always)]
    fn down(&mut self, width: usize, noise: &mut [f64]) {
        for leaf in 0..self.steps {
            let largest = if leaf == 0 { levels(self.steps) } else { leaf.trailing_zeros() as usize + 1 };
            for level in (0..largest).rev() {
                let node = Node { level, index: leaf >> level };
                if !node.is_complete(self.steps) {
                    continue;
                }
                let (own, above) = self.carried[level * width..].split_at_mut(width);
                let above = if node.parent().is_complete(self.steps) { &above[..width] } else { &[] };
                if level == 0 {
                    for (value, above) in noise[leaf * self.stride..][..width].iter_mut().zip(above) {
                        *value += above / 2.0;
                    }
                } else {
                    let middle = leaf + (1 << (level - 1));
                    own.copy_from_slice(&self.corrections[middle * width..][..width]);
                    for (own, above) in own.iter_mut().zip(above) {
                        *own += above / 2.0;
                    }
                }
            }
        }
    }
}

impl NoiseFilter for LeastSquares {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        self.next_rows(source, self.dimension, out)
    }

    fn next_rows(&mut self, source: &mut dyn UnitNoise, dimension: usize, out: &mut [f64]) -> Result<()> {
        if out.len() / dimension > self.steps - self.step {
            return Err(Error::HorizonReached { horizon: self.steps });
        }
        if self.step == 0 {
            self.prepare(source);
        }
        out.copy_from_slice(&self.noise[self.step * dimension..][..out.len()]);
        self.step += out.len() / dimension;
        Ok(())
    }
}

/// What was made ahead is wiped from memory.
impl Drop for LeastSquares {
    fn drop(&mut self) {
        self.noise.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(steps: usize, decoding: Decoding) -> Honaker {
        Honaker::new(&Problem::new(Workload::count(), steps).unwrap(), decoding)
    }

    #[test]
    fn full_decoding_is_the_pseudo_inverse() {
        for steps in [1, 2, 3, 4, 7, 12, 29, 32] {
            let tree = count(steps, Decoding::Full);
            let strategy = tree.materialize().unwrap().strategy;
            let expected = dp_linalg::dense::pseudo_inverse(strategy.view()).unwrap();
            let mut row = vec![0.0; strategy.nrows()];
            for step in 0..steps {
                tree.input_row(step, &mut row);
                for (actual, expected) in row.iter().zip(expected.row(step)) {
                    assert!((actual - expected).abs() < 1e-12, "{steps}: {actual} {expected}");
                }
            }
        }
    }

    #[test]
    fn fast_variances_equal_the_rows_of_the_decoder() {
        for decoding in [Decoding::Online, Decoding::Full] {
            for steps in [1, 2, 3, 5, 8, 29, 64, 77] {
                let tree = count(steps, decoding);
                let rows = dp_linalg::norms::row_squared_norms(tree.materialize().unwrap().decoder.view());
                for (fast, slow) in tree.row_norms().unwrap().iter().zip(&rows) {
                    assert!((fast - slow).abs() < 1e-12, "{steps}: {fast} {slow}");
                }
            }
        }
    }

    /// Values that depend on row and coordinate alone.
    struct Pattern;

    impl UnitNoise for Pattern {
        fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
            for (coordinate, value) in (first..).zip(out) {
                *value = ((row * 37 + coordinate * 11) % 101) as f64 - 50.0;
            }
        }
    }

    #[test]
    fn tiles_do_not_show() {
        // More coordinates than a tile holds, and the same coordinates alone.
        let tree = count(6, Decoding::Full);
        let dimension = TILE + 101;
        let mut wide = tree.noise_filter(dimension).unwrap();
        let mut narrow = tree.noise_filter(101).unwrap();
        let (mut long, mut short) = (vec![0.0; dimension], vec![0.0; 101]);
        for _ in 0..6 {
            wide.next_into(&mut Pattern, &mut long).unwrap();
            narrow.next_into(&mut Pattern, &mut short).unwrap();
            assert_eq!(long[..101], short);
            // The pattern repeats after 101 coordinates.
            assert_eq!(long[101 * (TILE / 101)..][..101], short);
        }
        assert!(matches!(wide.next_into(&mut Pattern, &mut long), Err(Error::HorizonReached { horizon: 6 })));
    }
}
