//! Bounds for sums over a window of w steps in a horizon of any few times its length.
//!
//! The weights that prove a bound (see [`super`]) are constant over blocks of steps, and the blocks repeat with the window: a
//! period of w steps is divided at the remainder of n, and each part into nearly equal blocks. With b blocks in a period, an
//! input reaches its own block as a prefix sum L, the following b blocks as a sum, and the block one period later as a prefix sum to be
//! taken away:
//!
//! `A = (I - S^b) ⊗ L + (S + … + S^b) ⊗ 11ᵀ`,
//!
//! where a product ⊗ has a factor for blocks and one for places within a block. In the orthonormal polynomials on ℓ places
//! (Legendre's, in discrete form) 11ᵀ has the single entry ℓ, and L is tridiagonal: ½ on its diagonal, `(ℓ+1)/2` in front, and
//! `∓β_k` beside it with `β_k = ½ ((ℓ²-k²)/(4k²-1))^{1/2}`, for L and its transpose add up to `I + 11ᵀ`. The singular
//! vectors of the scaled `I - S^b`, which falls into chains of blocks one period apart, then leave a matrix of as many rows as there are blocks
//! in front and behind it, for every singular value σ, a chain `σ (½ + K)` with K skew and tridiagonal.
//!
//! The nuclear norm of the whole is an integral of a determinant, for `ln(1 + s²/t²)` has the integral πs:
//!
//! `‖M‖_* = (1/π) ∫_0^∞ ln det(I + MᵀM/t²) dt`
//!
//! and a chain adds to it, by elimination from its end, `2 Σ ln(p_k/t)` with `p_k = τ + σ²β²_{k+1}/p_{k+1}` and
//! `τ² = t² + σ²/4`. What it leaves at the first polynomial is `r = 1/(p_1 τ)`. All of these are sums and quotients of positive numbers. With
//! `q = 1 + β_1² σ² r` there remains `2 Σ ln q + ln det(I + YᵀY)` for `Y = q^{-1/2} (H + ½ β_1² σ³ r) q^{-1/2} / t`, of as many rows as
//! there are blocks.
//!
//! The trapezoidal rule in `ln t` is off by a factor within `1 ± 4e-7`. What is replaced by geometric sums at either end makes
//! the bound smaller: `t ln(1 + s²/t²)` falls more slowly than t on one side, and than 1/t on the other.

use std::f64::consts::PI;

use dp_linalg::minimize::{self, Options};
use dp_linalg::{dense, norms};
use ndarray::Array2;
use rayon::prelude::*;

use super::MeanBound;
use super::long::{MAX_EXPONENT, MEAN_EXPONENT};
use crate::error::{Result, check_count};
use crate::problem::Metric;

/// Distance of the nodes in `ln t`; the rule is off by a factor within `1 ± 4 e^{-π²/h} / (2π/h)`.
const STEP: f64 = 0.7;

/// How far, in `ln t`, the nodes reach below and above the spectrum.
const REACH: [f64; 2] = [11.0, 3.5];

/// What covers quadrature and rounding.
const MARGIN: f64 = 1.0 - 1e-6;

/// The blocks of the whole horizon, and the fewest in a window.
const BLOCKS: usize = 96;
const FEWEST: usize = 2;

/// Horizons of more windows than that are left to [`crate::bounds::circulant`], which loses a few thousandths there.
const MOST_WINDOWS: usize = 128;

/// The steps of the short horizon at which weights are optimized, and the most windows in it.
const SHORT: usize = 128;
const SHORT_WINDOWS: f64 = 8.0;

/// How the weights of longer horizons differ from those of the short one: powers of the odds of time in the first and in the second
/// half, as parts of what [`super::long`] has found for the count. At [`TRIED`] steps at most, they are tried until one is worse.
const FLATTENED: [[f64; 2]; 5] = [[0.0, 0.0], [0.0, 0.5], [0.5, 0.5], [0.5, 1.0], [1.0, 1.0]];
const TRIED: usize = 1 << 12;

/// Chains that are eliminated together.
const LANES: usize = 8;

/// A nearly tight lower bound on E2 or E∞ of a window, with the column weights that prove it; `None` for horizons of more
/// than 128 windows, where the circulant bound is as good.
///
/// # Complexity
/// Some fifty times O(n), and a few times as many factorizations of a matrix of one or two hundred rows.
///
/// # Errors
/// Zero steps or a width of zero.
///
/// # Example
/// ```
/// use dp_mechanisms::{Metric, certificate::window_bound};
/// let bound = window_bound(62, 256, Metric::Mse)?.expect("few windows");
/// // The optimum is 6.42621.
/// assert!(bound.lower_bound > 6.42 && bound.lower_bound < 6.42621);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn window_bound(width: usize, steps: usize, metric: Metric) -> Result<Option<MeanBound>> {
    check_count("steps", steps)?;
    check_count("width", width)?;
    // A window that is never full is a count.
    let width = width.min(steps);
    if steps.div_ceil(width) > MOST_WINDOWS {
        return Ok(None);
    }
    let profile = Profile::fitted(width, steps, metric)?;
    if steps <= SHORT {
        return Ok(Some(proved(width, steps, metric, &profile)?));
    }
    let tried = steps.min(TRIED);
    let narrow = ((width as f64 * (tried as f64 / steps as f64)).round() as usize).max(1);
    let (mut best, mut chosen) = (proved(narrow, tried, metric, &profile.over(tried))?, FLATTENED[0]);
    for parts in &FLATTENED[1..] {
        let other = proved(narrow, tried, metric, &profile.over(tried).flattened(*parts, metric))?;
        if other.lower_bound <= best.lower_bound {
            break;
        }
        (best, chosen) = (other, *parts);
    }
    let whole = |parts| proved(width, steps, metric, &profile.over(steps).flattened(parts, metric));
    Ok(Some(if tried < steps { whole(chosen)? } else { best }))
}

/// The bound that a profile of the columns proves, and its weights.
fn proved(width: usize, steps: usize, metric: Metric, profile: &Profile) -> Result<MeanBound> {
    let blocks = Blocks::new(width, steps);
    let columns = blocks.weights(|time| profile.at(time));
    let rows = match metric {
        Metric::Mse => vec![1.0; columns.len()],
        // A Toeplitz workload is its own transpose in reverse.
        Metric::Max => blocks.weights(|time| profile.at(steps as f64 - time)),
    };
    let nuclear = MARGIN * blocks.nuclear(&rows, &columns)?;
    let lower_bound = nuclear * nuclear / (blocks.total(&rows) * blocks.total(&columns));
    let lengths = blocks.lengths.iter();
    let column_weights =
        lengths.zip(&columns).flat_map(|(&length, &weight)| std::iter::repeat_n(weight, length)).collect();
    Ok(MeanBound { lower_bound, column_weights })
}

/// Weights of the columns over time, from a short horizon.
#[derive(Clone)]
struct Profile {
    /// Logarithms, one for each step of the short horizon.
    logarithms: Vec<f64>,
    /// Steps of the short horizon for one of the long one.
    rate: f64,
    steps: f64,
    /// The powers of the odds of time, `t/(n - t)`, in either half.
    powers: [f64; 2],
}

impl Profile {
    /// The best weights of a short horizon with a window that is as long in comparison, or with as many windows as it has room for.
    fn fitted(width: usize, steps: usize, metric: Metric) -> Result<Self> {
        let windows = (steps as f64 / width as f64).min(SHORT_WINDOWS);
        let short = SHORT.min(steps);
        let short_width = ((short as f64 / windows).round() as usize).max(1);
        let rate = short_width as f64 / width as f64;
        let rate =
            if (steps as f64) * rate <= short as f64 + 1.0 { short as f64 / steps as f64 } else { rate };
        let matrix =
            Array2::from_shape_fn(
                (short, short),
                |(i, j)| {
                    if i >= j && i - j < short_width { 1.0 } else { 0.0 }
                },
            );
        let negative_logarithm = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
            let roots: Vec<f64> = point.iter().map(|x| (0.5 * x).exp()).collect();
            let row = |i: usize| match metric {
                Metric::Mse => 1.0,
                Metric::Max => roots[short - 1 - i],
            };
            let scaled = Array2::from_shape_fn((short, short), |(i, j)| row(i) * matrix[[i, j]] * roots[j]);
            if !scaled.iter().all(|entry| entry.is_finite()) {
                return Ok(f64::INFINITY);
            }
            let eigen = dense::gram_root_eigen(scaled.view())?;
            let (total, nuclear) = (roots.iter().map(|root| root * root).sum::<f64>(), eigen.values.sum());
            for (j, slope) in gradient.iter_mut().enumerate() {
                let vectors = eigen.vectors.row(j);
                let root: f64 = vectors.iter().zip(&eigen.values).map(|(x, value)| x * x * value).sum();
                *slope = roots[j] * roots[j] / total - root / nuclear;
            }
            Ok(match metric {
                Metric::Mse => total.ln() - 2.0 * nuclear.ln(),
                Metric::Max => total.ln() - nuclear.ln(),
            })
        };
        let options = Options { iterations: 30, relative_decrease: 1e-6, memory: 8 };
        let logarithms = minimize::lbfgs(negative_logarithm, vec![0.0; short], options)?.point;
        Ok(Self { logarithms, rate, steps: steps as f64, powers: [0.0; 2] })
    }

    /// The same profile over another number of steps.
    fn over(&self, steps: usize) -> Self {
        let (rate, logarithms) = (self.rate * self.steps / steps as f64, self.logarithms.clone());
        Self { logarithms, rate, steps: steps as f64, powers: self.powers }
    }

    /// The same with flatter ends, the more so the longer it is: the weights of a count are the power `c/ln 2n` of the odds of what is
    /// left, and these are parts of how far that has fallen.
    fn flattened(self, parts: [f64; 2], metric: Metric) -> Self {
        let exponent = match metric {
            Metric::Mse => MEAN_EXPONENT,
            Metric::Max => MAX_EXPONENT,
        };
        let power = |steps: f64| exponent / (2.0 * steps).ln();
        let fallen = (power(self.logarithms.len() as f64) - power(self.steps)).max(0.0);
        Self { powers: parts.map(|part| part * fallen), ..self }
    }

    /// The weight at a time: near either end that of the same number of windows from it, linear in the logarithm between steps.
    fn at(&self, time: f64) -> f64 {
        let length = self.logarithms.len() as f64;
        let (early, late) = (time * self.rate, (self.steps - time) * self.rate);
        let place = if early <= late { early.min(0.5 * length) } else { length - late.min(0.5 * length) };
        let place = (place - 0.5).clamp(0.0, length - 1.0);
        let (left, share) = (place.floor() as usize, place.fract());
        let right = (left + 1).min(self.logarithms.len() - 1);
        let power = self.powers[usize::from(2.0 * time > self.steps)];
        let odds = (time / (self.steps - time)).ln();
        (self.logarithms[left] * (1.0 - share) + self.logarithms[right] * share + power * odds).exp()
    }
}

/// A horizon in blocks that repeat with the window.
struct Blocks {
    lengths: Vec<usize>,
    /// The blocks in a window.
    period: usize,
}

impl Blocks {
    fn new(width: usize, steps: usize) -> Self {
        let wanted = (BLOCKS * width).div_ceil(steps).max(FEWEST);
        let rest = steps % width;
        let early = if rest == 0 { 0 } else { (wanted * rest).div_ceil(width) };
        let mut period = divided(rest, early);
        period.extend(divided(width - rest, wanted.saturating_sub(early).max(1)));
        let mut lengths = Vec::new();
        let mut left = steps;
        for &length in period.iter().cycle() {
            if left == 0 {
                break;
            }
            lengths.push(length);
            left -= length;
        }
        Self { lengths, period: period.len() }
    }

    /// One weight for each block, that of its middle.
    fn weights(&self, at: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut start = 0.0;
        let of_block = |&length: &usize| {
            let middle = start + 0.5 * length as f64;
            start += length as f64;
            at(middle)
        };
        self.lengths.iter().map(of_block).collect()
    }

    /// The sum of weights over all steps.
    fn total(&self, weights: &[f64]) -> f64 {
        norms::compensated_sum(
            self.lengths.iter().zip(weights).map(|(&length, weight)| length as f64 * weight),
        )
    }

    /// A lower bound on `‖W^{1/2} A D^{1/2}‖_*`, nearly equal to it.
    fn nuclear(&self, rows: &[f64], columns: &[f64]) -> Result<f64> {
        let reduced = Reduced::new(self, rows, columns)?;
        let (from, to) = reduced.spectrum();
        let (from, to) = (from.ln() - REACH[0], to.ln() + REACH[1]);
        let nodes = ((to - from) / STEP).ceil() as usize + 1;
        let ends = 1.0 / (1.0 - (-STEP).exp());
        let values: Vec<f64> = (0..nodes)
            .into_par_iter()
            .map(|index| {
                let t = (from + STEP * index as f64).exp();
                let end = if index == 0 || index + 1 == nodes { ends } else { 1.0 };
                end * t * reduced.log_determinant(t)
            })
            .collect();
        Ok(STEP / PI * norms::compensated_sum(values))
    }
}

/// So many nearly equal parts of a length, none of them empty.
fn divided(length: usize, parts: usize) -> Vec<usize> {
    let parts = parts.min(length);
    (0..parts).map(|part| (part + 1) * length / parts - part * length / parts).collect()
}

/// The workload in the singular vectors of its chains of blocks and in polynomials.
struct Reduced {
    /// What the constants of blocks do to each other.
    front: Array2<f64>,
    /// Singular values of the chains, and the length of their blocks.
    chains: Vec<(f64, usize)>,
    /// Chains of equal blocks, by number.
    groups: Vec<Vec<usize>>,
}

impl Reduced {
    fn new(blocks: &Blocks, rows: &[f64], columns: &[f64]) -> Result<Self> {
        let Blocks { lengths, period } = blocks;
        let count = lengths.len();
        let (mut left, mut right) = (Array2::zeros((count, count)), Array2::zeros((count, count)));
        let mut chains = Vec::with_capacity(count);
        for (first, &length) in lengths.iter().enumerate().take(*period) {
            let members: Vec<usize> = (first..count).step_by(*period).collect();
            let chain = Array2::from_shape_fn((members.len(), members.len()), |(i, j)| {
                let entry = if i == j {
                    1.0
                } else if i == j + 1 {
                    -1.0
                } else {
                    0.0
                };
                (rows[members[i]] * columns[members[j]]).sqrt() * entry
            });
            let eigen = dense::gram_root_eigen(chain.view())?;
            let images = dense::matmul(chain.view(), eigen.vectors.view());
            for (k, &value) in eigen.values.iter().enumerate() {
                for (i, &member) in members.iter().enumerate() {
                    left[[member, chains.len()]] = images[[i, k]] / value;
                    right[[member, chains.len()]] = eigen.vectors[[i, k]];
                }
                chains.push((value, length));
            }
        }
        let between = Array2::from_shape_fn((count, count), |(i, j)| {
            let reached = i > j && i - j <= *period;
            let sums = lengths[i] as f64 * lengths[j] as f64;
            if reached { (sums * rows[i] * columns[j]).sqrt() } else { 0.0 }
        });
        let mut front = dense::matmul(left.t(), dense::matmul(between.view(), right.view()).view());
        for (index, &(value, length)) in chains.iter().enumerate() {
            front[[index, index]] += 0.5 * (length as f64 + 1.0) * value;
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (index, &(_, length)) in chains.iter().enumerate() {
            match groups.iter_mut().find(|group| chains[group[0]].1 == length) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        Ok(Self { front, chains, groups })
    }

    /// Between which numbers most singular values lie.
    fn spectrum(&self) -> (f64, f64) {
        let smallest = self.chains.iter().map(|chain| 0.5 * chain.0).fold(f64::INFINITY, f64::min);
        let of_chain = |&(value, length): &(f64, usize)| (0.5 * value * length as f64).powi(2);
        let largest = norms::frobenius_squared(self.front.view())
            + self.chains.iter().map(of_chain).fold(0.0, f64::max);
        (smallest, largest.sqrt())
    }

    /// `ln det(I + MᵀM/t²)`, or 0 where the digits do not suffice.
    fn log_determinant(&self, t: f64) -> f64 {
        let mut sum = 0.0;
        // q and what is added to the diagonal of the front.
        let mut factors = vec![1.0; self.chains.len()];
        let mut front = self.front.clone();
        for group in &self.groups {
            let length = self.chains[group[0]].1;
            if length < 2 {
                continue;
            }
            let first = squared_coupling(length, 1);
            for lanes in group.chunks(LANES) {
                let values: [f64; LANES] =
                    std::array::from_fn(|lane| lanes.get(lane).map_or(0.0, |&index| self.chains[index].0));
                let (logarithms, remainders) = eliminated(&values, length, t);
                for (lane, &index) in lanes.iter().enumerate() {
                    sum += 2.0 * logarithms[lane];
                    let coupled = first * values[lane].powi(2) * remainders[lane];
                    factors[index] = 1.0 + coupled;
                    front[[index, index]] += 0.5 * coupled * values[lane];
                }
            }
        }
        sum += 2.0 * norms::compensated_sum(factors.iter().map(|factor| factor.ln()));
        for ((i, j), entry) in front.indexed_iter_mut() {
            *entry /= t * (factors[i] * factors[j]).sqrt();
        }
        let mut gram = dense::gram(front.view());
        gram.diag_mut().mapv_inplace(|entry| entry + 1.0);
        // Every part of the integral is positive: what is left out makes the bound smaller.
        dense::lower_root(gram.view())
            .map_or(0.0, |root| sum + 2.0 * norms::compensated_sum(root.diag().iter().map(|x| x.ln())))
    }
}

/// `β_k²` on so many places.
fn squared_coupling(length: usize, k: usize) -> f64 {
    let (length, k) = (length as f64, k as f64);
    0.25 * (length - k) * (length + k) / (4.0 * k * k - 1.0)
}

/// `Σ ln(p_k/t)` and `1/(p_1 τ)` of chains with the given singular values.
fn eliminated(values: &[f64; LANES], length: usize, t: f64) -> ([f64; LANES], [f64; LANES]) {
    let squares = values.map(|value| (value / t).powi(2));
    let tau = squares.map(|square| (1.0 + 0.25 * square).sqrt());
    // Everything in units of t; logarithms of products that are still in range.
    let (mut pivots, mut products, mut logarithms) = (tau, tau, [0.0; LANES]);
    for k in (1..length - 1).rev() {
        let coupling = squared_coupling(length, k + 1);
        for lane in 0..LANES {
            pivots[lane] = tau[lane] + squares[lane] * coupling / pivots[lane];
            products[lane] *= pivots[lane];
        }
        if products.iter().any(|product| *product > 1e150) {
            for lane in 0..LANES {
                logarithms[lane] += products[lane].ln();
                products[lane] = 1.0;
            }
        }
    }
    for lane in 0..LANES {
        logarithms[lane] += products[lane].ln();
    }
    (logarithms, std::array::from_fn(|lane| 1.0 / (pivots[lane] * tau[lane] * t * t)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::{dual_certificate, weighted_schatten_max};
    use crate::workload::Workload;

    /// The reduced norm is that of the matrix, for blocks and remainders of every kind.
    #[test]
    fn the_reduced_norm_is_the_norm_of_the_matrix() {
        for (width, steps) in
            [(1, 1), (1, 7), (3, 3), (2, 5), (7, 30), (10, 200), (250, 300), (96, 192), (33, 131), (130, 131)]
        {
            let blocks = Blocks::new(width, steps);
            assert_eq!(blocks.lengths.iter().sum::<usize>(), steps);
            let rows = blocks.weights(|time| 1.0 + time / steps as f64);
            let columns = blocks.weights(|time| (1.5 - time / steps as f64).powi(3));
            let spread = |weights: &[f64]| -> Vec<f64> {
                let parts = blocks.lengths.iter().zip(weights);
                parts.flat_map(|(&length, &weight)| std::iter::repeat_n(weight, length)).collect()
            };
            let (long_rows, long_columns) = (spread(&rows), spread(&columns));
            let matrix = Workload::window(width).unwrap().materialize(steps).unwrap();
            let total = blocks.total(&rows) * blocks.total(&columns);
            let dense = weighted_schatten_max(matrix.view(), &long_rows, &long_columns).unwrap() * total;
            let ratio = blocks.nuclear(&rows, &columns).unwrap() / dense.sqrt();
            assert!((1.0 - 1e-5..1.0 + 5e-7).contains(&ratio), "{width} in {steps}: {ratio}");
        }
    }

    #[test]
    fn the_weights_prove_the_bound_to_anybody() {
        for (width, steps) in [(40, 150), (149, 150), (500, 60), (2, 90)] {
            let bound = window_bound(width, steps, Metric::Mse).unwrap().unwrap();
            let matrix = Workload::window(width).unwrap().materialize(steps).unwrap();
            let dense = dual_certificate(matrix.view(), &bound.column_weights).unwrap();
            let ratio = bound.lower_bound / dense;
            assert!((1.0 - 2e-5..=1.0).contains(&ratio), "{width} in {steps}: {ratio}");
        }
        assert!(window_bound(1, 129, Metric::Mse).unwrap().is_none());
        assert!(window_bound(0, 9, Metric::Mse).is_err() && window_bound(9, 0, Metric::Mse).is_err());
    }

    #[test]
    fn the_bounds_are_nearly_the_optimum() {
        // Optima of the dense program, mean and largest error.
        for (width, steps, metric, optimum) in [
            (250, 1024, Metric::Mse, 9.414_4),
            (32, 1024, Metric::Mse, 5.661_3),
            (512, 1024, Metric::Mse, 9.984_1),
            (1000, 1024, Metric::Mse, 8.851_4),
        ] {
            let bound = window_bound(width, steps, metric).unwrap().unwrap().lower_bound;
            let ratio = bound / optimum;
            assert!((0.998..1.000_01).contains(&ratio), "{width} in {steps}: {ratio}");
        }
    }

    /// A window that is never full is a count, whose weights are known in closed form.
    #[test]
    fn the_ends_of_long_horizons_are_as_flat_as_those_of_the_count() {
        for (steps, metric) in [(1 << 12, Metric::Mse), (1 << 17, Metric::Mse), (1 << 15, Metric::Max)] {
            let count = super::super::long_bound(&Workload::count(), steps, metric).unwrap().unwrap();
            let ratio = window_bound(steps, steps, metric).unwrap().unwrap().lower_bound / count;
            assert!((0.998..1.001).contains(&ratio), "{steps}, {metric:?}: {ratio}");
        }
    }
}
