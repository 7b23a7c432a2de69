//! Bounds over horizons of any length, for workloads that a few poles make: count, exponential decay, momentum.
//!
//! Any positive weights w of the rows and v of the columns prove `E∞ ≥ ‖W^{1/2} A D^{1/2}‖_*² / (Σ w Σ v)`, and `w = 1` proves
//! `E2 ≥ ‖A D^{1/2}‖_*² / (n Σ v)`. The weights here are powers of the odds of time,
//!
//! `v_t = ((n - t + ½)/(t - ½))^{c / ln 2n}`,
//!
//! and `w_t = v_{n+1-t}` where rows are weighted: a Toeplitz workload is its own transpose in reverse. For the count this one
//! parameter is within a thousandth of the best weights from a thousand steps on, and c hardly depends on the horizon. With momentum
//! the last inputs have not come to bear yet: within its memory of m steps from the end, the weights fall by `(k/(k + m))^s`
//! at a distance of k. They are made constant over pieces that are short against the distance to either end, a few hundred for any
//! horizon.
//!
//! Under momentum the largest error is that of a count in units of the memory m, but for both ends. The first m releases stay
//! below the level of the others, whatever is done, and weigh nothing; nor do the inputs of as many last steps. The last release, which
//! can only be lowered at the cost of those before it, has the weight of several memories, and so has the first input. From
//! twenty memories on this is within a few thousandths of the best weights.
//!
//! The nuclear norm is an integral of a determinant, for `ln(1 + t²σ²)/t²` has the integral πσ:
//!
//! `‖M‖_* = (1/π) ∫_0^∞ ln det(I + t² M Mᵀ) / t² dt`
//!
//! and the determinant is what a Kalman filter computes: `I + t² M Mᵀ` is the covariance of observations of the workload's
//! state, driven by independent noise of variance `t² v`, through independent noise of variance 1. Over a piece nothing
//! changes, and the filter leaps over L of its steps by `log2 L` compositions ([`Leap`]).
//!
//! Every quantity is positive, and the trapezoidal rule in `ln t` has a relative error of `2 e^{-π²/h}` at most. What is left
//! out at either end of the integral, or replaced by geometric sums, makes the bound smaller: `ln(1 + ax) ≥ a ln(1 + x)` for
//! a ≤ 1, and the logarithm does not fall as t grows.

use std::f64::consts::PI;

use rayon::prelude::*;

use crate::error::{Result, check_count};
use crate::problem::Metric;
use crate::strategy::toeplitz::starts;
use crate::workload::{Recurrence, Workload};

/// Distance of the nodes in `ln t`; the rule is off by a factor within `1 ± 2e-7`.
const STEP: f64 = 0.6;

/// How far, in `ln t`, the nodes reach below the spectrum, where the integrand soon is geometric, and above it.
const REACH: [f64; 2] = [6.0, 12.0];

/// The length of a piece in the logit of time.
const LENGTH: f64 = 0.15;

/// The best exponents c for the mean and for the largest error of the count.
pub(super) const MEAN_EXPONENT: f64 = 1.62;
pub(super) const MAX_EXPONENT: f64 = 0.87;

/// Exponents to choose from, where the best is not known.
const EXPONENTS: [f64; 5] = [0.0, 0.4, MAX_EXPONENT, 1.3, MEAN_EXPONENT];

/// Powers s to choose from.
const POWERS: [f64; 4] = [0.0, 1.0, 2.0, 3.0];

/// For the largest error of momentum: the memories at either end that weigh nothing, to choose from.
const GAPS: [f64; 3] = [0.75, 0.95, 1.15];

/// The weight of the first input, in those of `m ln(n/m)` inputs a memory later, to choose from.
const MASSES: [f64; 2] = [0.45, 0.8];

/// From so many memories on no other weights are tried.
const LONG_MEMORIES: f64 = 16.0;

/// Beyond this loss of digits nothing is claimed.
const LARGEST_MARGIN: f64 = 1e-3;

/// A lower bound on E2 or E∞ for any number of steps; `None` for a workload that is not made of one or two real poles, or is so
/// close to a double pole that its digits are lost.
///
/// # Complexity
/// O(log² n): some milliseconds for the count, and a dozen times that at most for other workloads.
///
/// # Errors
/// Zero steps.
///
/// # Example
/// ```
/// use dp_mechanisms::{Metric, Workload, certificate::long_bound};
/// let bound = long_bound(&Workload::count(), 4096, Metric::Mse)?.expect("one pole");
/// // The optimum is 11.4906.
/// assert!(bound > 11.48 && bound < 11.4906);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn long_bound(workload: &Workload, steps: usize, metric: Metric) -> Result<Option<f64>> {
    check_count("steps", steps)?;
    let Some(poles) = Poles::of(workload) else { return Ok(None) };
    let plain = |exponent| Shape { exponent, memory: 1.0, power: 0.0, ends: None };
    let shapes: Vec<Shape> = match (workload.recurrence(), metric) {
        (_, Metric::Mse) if workload.is_count() => vec![plain(MEAN_EXPONENT)],
        (_, Metric::Max) if workload.is_count() => vec![plain(MAX_EXPONENT)],
        (Recurrence::Second { beta }, _) => {
            let memory = 1.0 / (1.0 - beta);
            let memories = steps as f64 / memory;
            let powers = |&exponent: &f64| POWERS.map(|power| Shape { memory, power, ..plain(exponent) });
            let mut shapes = Vec::new();
            if metric == Metric::Mse || memories < LONG_MEMORIES {
                shapes.extend(EXPONENTS[2..].iter().flat_map(powers));
            }
            if metric == Metric::Max && memories >= 1.0 {
                let ends =
                    GAPS.iter().flat_map(|gap| MASSES.map(|mass| Ends::new(steps, memory, *gap, mass)));
                shapes.extend(ends.map(|ends| Shape { memory, ends: Some(ends), ..plain(MAX_EXPONENT) }));
            }
            shapes
        }
        _ => EXPONENTS.map(plain).to_vec(),
    };
    let bounds = shapes.iter().map(|&shape| Pieces::new(steps, shape, metric).bound(&poles));
    Ok(Some(bounds.fold(0.0, f64::max)))
}

/// The weights of the columns, see [the module](self).
#[derive(Debug, Clone, Copy)]
struct Shape {
    exponent: f64,
    memory: f64,
    power: f64,
    ends: Option<Ends>,
}

/// What weighs differently at both ends.
#[derive(Debug, Clone, Copy)]
struct Ends {
    /// The steps after the first one, and those at the end, that weigh nothing.
    gap: usize,
    /// The weight of the first step, in that of a step one memory later.
    first: f64,
}

impl Ends {
    fn new(steps: usize, memory: f64, gap: f64, mass: f64) -> Self {
        let first = mass * memory * (steps as f64 / memory).ln();
        // Between both gaps something is left.
        let gap = ((gap * memory) as usize).min(steps.saturating_sub(2) / 3);
        Self { gap, first: first.max(1.0) }
    }
}

/// A workload `a_k = Σ_i h_i λ_i^k` of two poles, of which the second may have no weight.
#[derive(Debug, Clone, Copy)]
struct Poles {
    lambda: [f64; 2],
    weights: [f64; 2],
    /// How much larger the terms are than their sum.
    cancellation: f64,
}

impl Poles {
    fn of(workload: &Workload) -> Option<Self> {
        let one = |lambda| Self { lambda: [lambda, 0.0], weights: [1.0, 0.0], cancellation: 1.0 };
        let poles = match workload.recurrence() {
            Recurrence::First { decay } if !workload.is_average() => one(decay),
            // a_k = η (1 - β^{k+1})/(1 - β).
            Recurrence::Second { beta } => {
                let gain = workload.constant_rate()? / (1.0 - beta);
                let cancellation = (1.0 - beta).powi(-2);
                Self { lambda: [1.0, beta], weights: [gain, -gain * beta], cancellation }
            }
            _ => return None,
        };
        (poles.margin() <= LARGEST_MARGIN).then_some(poles)
    }

    /// What covers the quadrature and rounding.
    fn margin(&self) -> f64 {
        (256.0 * f64::EPSILON * self.cancellation).max(1e-6)
    }
}

/// Weights that are constant over pieces of time.
#[derive(Debug)]
struct Pieces {
    /// The first step of each piece, and past the last.
    starts: Vec<usize>,
    columns: Vec<f64>,
    rows: Vec<f64>,
}

impl Pieces {
    /// The weights of a shape, at the middle of each piece.
    fn new(steps: usize, shape: Shape, metric: Metric) -> Self {
        let mut starts = starts(steps, LENGTH);
        let Shape { exponent, memory, power, ends } = shape;
        if let Some(Ends { gap, .. }) = ends {
            // The first step, both gaps, and the same in reverse.
            starts.extend(
                [1, 1 + gap, steps - gap, gap, steps - 1 - gap, steps - 1].map(|at| at.min(steps - 1)),
            );
            starts.sort_unstable();
            starts.dedup();
        }
        starts.push(steps);
        // With its ends apart, momentum counts in units of its memory.
        let unit = if ends.is_some() { memory } else { 1.0 };
        let (total, range) = (steps as f64, (2.0 * steps as f64 / unit).ln());
        // At a distance from the beginning; that from the end is what is left.
        let smooth = |time: f64| {
            let left = total - time;
            (left / time).powf(exponent / range) * (left / (left + memory)).powf(power)
        };
        let weight = |from: usize, to: usize| match ends {
            Some(Ends { first, .. }) if to == 1 => first * smooth(memory.min(0.5 * total)),
            Some(Ends { gap, .. }) if from < 1 + gap || to > steps - gap => 0.0,
            _ => smooth(f64::midpoint(from as f64, to as f64)),
        };
        let pieces = starts.windows(2);
        let columns = pieces.clone().map(|piece| weight(piece[0], piece[1])).collect();
        let rows = pieces
            .map(|piece| if metric == Metric::Max { weight(steps - piece[1], steps - piece[0]) } else { 1.0 })
            .collect();
        Self { starts, columns, rows }
    }

    fn total(&self, weights: &[f64]) -> f64 {
        self.starts.windows(2).zip(weights).map(|(piece, weight)| (piece[1] - piece[0]) as f64 * weight).sum()
    }

    /// `‖W^{1/2} A D^{1/2}‖_*² / (Σ w Σ v)`, rounded down.
    fn bound(&self, poles: &Poles) -> f64 {
        let nuclear = (1.0 - poles.margin()) * self.nuclear_norm(poles);
        nuclear * nuclear / (self.total(&self.rows) * self.total(&self.columns))
    }

    fn nuclear_norm(&self, poles: &Poles) -> f64 {
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max).sqrt();
        let positive = |values: &[f64]| {
            values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min)
        };
        let inverse = |values: &[f64]| (1.0 / positive(values)).sqrt();
        let steps = self.starts[self.starts.len() - 1] as f64;
        let [h1, h2] = poles.weights;
        // The largest singular value is at most n times the largest entry; that of the inverse, where weights are positive, at most 4 times.
        let from =
            -(steps * (h1.abs() + h2.abs()) * largest(&self.rows) * largest(&self.columns)).ln() - REACH[0];
        let to = (4.0 * inverse(&self.rows) * inverse(&self.columns) / (h1 + h2).abs()).ln() + REACH[1];
        let nodes = ((to - from) / STEP).ceil().max(1.0) as usize;
        let ends = 1.0 / (1.0 - (-STEP).exp());
        let terms: Vec<f64> = (0..=nodes)
            .into_par_iter()
            .map(|node| {
                let t = (from + STEP * node as f64).exp();
                let end = if node == 0 || node == nodes { ends } else { 1.0 };
                end * self.log_determinant(poles, t) / t
            })
            .collect();
        // In order: the same bits on any number of threads.
        terms.iter().sum::<f64>() * STEP / PI
    }

    /// `ln det(I + t² W^{1/2} A D Aᵀ W^{1/2})`.
    fn log_determinant(&self, poles: &Poles, t: f64) -> f64 {
        let mut covariance = Symmetric::driven(t * t * self.columns[0]);
        let mut total = 0.0;
        for (index, piece) in self.starts.windows(2).enumerate() {
            let (length, row) = (piece[1] - piece[0], self.rows[index]);
            let here = Leap::step(poles, t * t * self.columns[index], row);
            // The last step of a piece is followed by an input of the next one.
            let next = self.columns.get(index + 1).unwrap_or(&self.columns[index]);
            let last = Leap::step(poles, t * t * next, row);
            total += here.apply(length - 1, &mut covariance) + last.apply(1, &mut covariance);
        }
        total
    }
}

/// A symmetric 2 × 2 matrix.
#[derive(Debug, Clone, Copy)]
struct Symmetric {
    a: f64,
    b: f64,
    d: f64,
}

impl Symmetric {
    /// What an input of this variance adds to the states, which all take it as it is.
    fn driven(variance: f64) -> Self {
        Self { a: variance, b: variance, d: variance }
    }

    fn determinant(self) -> f64 {
        (self.a * self.d - self.b * self.b).max(0.0)
    }

    fn plus(self, other: Self) -> Self {
        Self { a: self.a + other.a, b: self.b + other.b, d: self.d + other.d }
    }

    /// `M S Mᵀ`.
    fn within(self, m: Matrix) -> Self {
        let [[p, q], [r, s]] = m;
        let (first, second) = (
            [p * self.a + q * self.b, p * self.b + q * self.d],
            [r * self.a + s * self.b, r * self.b + s * self.d],
        );
        Self {
            a: first[0] * p + first[1] * q,
            b: first[0] * r + first[1] * s,
            d: second[0] * r + second[1] * s,
        }
    }
}

type Matrix = [[f64; 2]; 2];

fn times(x: Matrix, y: Matrix) -> Matrix {
    let entry = |i: usize, j: usize| x[i][0] * y[0][j] + x[i][1] * y[1][j];
    [[entry(0, 0), entry(0, 1)], [entry(1, 0), entry(1, 1)]]
}

/// `(I + C J)⁻¹`, the logarithm of `det(I + C J) = 1 + tr(C J) + det C det J`, and `(I + C J)⁻¹ C = (C⁻¹ + J)⁻¹`.
fn joined(c: Symmetric, j: Symmetric) -> (Matrix, f64, Symmetric) {
    let product =
        [[c.a * j.a + c.b * j.b, c.a * j.b + c.b * j.d], [c.b * j.a + c.d * j.b, c.b * j.b + c.d * j.d]];
    let determinants = c.determinant() * j.determinant();
    let more = (product[0][0] + product[1][1] + determinants).max(0.0);
    let scale = 1.0 / (1.0 + more);
    let inverse = [
        [(1.0 + product[1][1]) * scale, -product[0][1] * scale],
        [-product[1][0] * scale, (1.0 + product[0][0]) * scale],
    ];
    // (C⁻¹ + J)⁻¹ = (C + det C · adj J)/det(I + C J).
    let volume = c.determinant();
    let posterior = Symmetric {
        a: (c.a + volume * j.d) * scale,
        b: (c.b - volume * j.b) * scale,
        d: (c.d + volume * j.a) * scale,
    };
    (inverse, more.ln_1p(), posterior)
}

/// Some steps of the filter at once: a state of covariance P before the first observation becomes one of covariance
/// `F (P⁻¹ + J)⁻¹ Fᵀ + Q`, and the logarithms of the variances of the observations sum to `ln det(I + P J)` and what does not
/// depend on P.
#[derive(Debug, Clone, Copy)]
struct Leap {
    transition: Matrix,
    added: Symmetric,
    information: Symmetric,
    logarithm: f64,
}

impl Leap {
    /// An observation with the weight of its row, then the next input.
    fn step(poles: &Poles, variance: f64, row: f64) -> Self {
        let [h1, h2] = poles.weights;
        Self {
            transition: [[poles.lambda[0], 0.0], [0.0, poles.lambda[1]]],
            added: Symmetric::driven(variance),
            information: Symmetric { a: row * h1 * h1, b: row * h1 * h2, d: row * h2 * h2 },
            logarithm: 0.0,
        }
    }

    /// This, then another.
    fn then(&self, next: &Self) -> Self {
        let (inverse, logarithm, posterior) = joined(self.added, next.information);
        let passed = times(inverse, self.transition);
        // J2 (I + Q1 J2)⁻¹ is (J2⁻¹ + Q1)⁻¹.
        let (_, _, seen) = joined(next.information, self.added);
        let [[p, q], [r, s]] = self.transition;
        Self {
            transition: times(next.transition, passed),
            added: posterior.within(next.transition).plus(next.added),
            information: seen.within([[p, r], [q, s]]).plus(self.information),
            logarithm: self.logarithm + next.logarithm + logarithm,
        }
    }

    /// Takes a covariance through so many of these, and returns what the observations add to the logarithm.
    fn apply(mut self, mut count: usize, covariance: &mut Symmetric) -> f64 {
        let mut total = 0.0;
        while count > 0 {
            if count & 1 == 1 {
                let (_, logarithm, posterior) = joined(*covariance, self.information);
                *covariance = posterior.within(self.transition).plus(self.added);
                total += self.logarithm + logarithm;
            }
            count >>= 1;
            if count > 0 {
                self = self.then(&self);
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{banded_bound, banded_certificate};
    use dp_linalg::norms::schatten1;
    use ndarray::Array1;

    #[test]
    fn nuclear_norms_are_those_of_the_matrix() {
        for text in ["count", "exp:1", "exp:1.3", "momentum:0.5", "momentum:0.95"] {
            let workload: Workload = text.parse().unwrap();
            let poles = Poles::of(&workload).unwrap();
            for steps in [1, 2, 3, 40, 700] {
                let ends = Some(Ends::new(steps, 20.0, 0.95, 0.8));
                for (exponent, power, ends, metric) in [
                    (0.0, 0.0, None, Metric::Mse),
                    (1.6, 0.0, None, Metric::Mse),
                    (2.5, 0.0, None, Metric::Max),
                    (1.0, 3.0, None, Metric::Max),
                    (0.9, 0.0, ends, Metric::Max),
                ] {
                    let pieces = Pieces::new(steps, Shape { exponent, memory: 20.0, power, ends }, metric);
                    let spread = |weights: &[f64]| -> Array1<f64> {
                        let lengths = pieces.starts.windows(2).map(|piece| piece[1] - piece[0]);
                        lengths.zip(weights).flat_map(|(length, w)| vec![w.sqrt(); length]).collect()
                    };
                    let (rows, columns) = (spread(&pieces.rows), spread(&pieces.columns));
                    let matrix = workload.materialize(steps).unwrap();
                    let scaled = &matrix * &columns * rows.insert_axis(ndarray::Axis(1));
                    let ratio = pieces.nuclear_norm(&poles) / schatten1(scaled.view()).unwrap();
                    // Never above by more than the margin, and hardly below.
                    assert!((1.0 - 1e-5..1.0 + 4e-7).contains(&ratio), "{text} {steps} {exponent}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn two_ways_to_the_bound_agree() {
        for (text, tolerance) in [("count", 1e-4), ("momentum:0.9", 1e-4)] {
            let workload: Workload = text.parse().unwrap();
            let pieces =
                Pieces::new(5000, Shape { exponent: 1.6, memory: 1.0, power: 0.0, ends: None }, Metric::Mse);
            let spread: Vec<f64> = pieces
                .starts
                .windows(2)
                .zip(&pieces.columns)
                .flat_map(|(piece, weight)| vec![*weight; piece[1] - piece[0]])
                .collect();
            let here = pieces.bound(&Poles::of(&workload).unwrap());
            let there = banded_certificate(&workload, &spread).unwrap().unwrap();
            assert!((here / there - 1.0).abs() < tolerance, "{text}: {here} {there}");
        }
    }

    #[test]
    fn the_count_loses_less_than_a_thousandth() {
        for (steps, loss) in [(256, 2e-3), (1024, 1e-3), (4096, 1e-3)] {
            let best = banded_bound(&Workload::count(), steps).unwrap().unwrap().lower_bound;
            let here = long_bound(&Workload::count(), steps, Metric::Mse).unwrap().unwrap();
            assert!((1.0 - loss..1.0 + 1e-6).contains(&(here / best)), "{steps}: {here} {best}");
        }
        // An independent computation with weights of its own: 36.2246 and 36.2411 at 2^24.
        for (metric, expected) in [(Metric::Mse, 36.2246), (Metric::Max, 36.2411)] {
            let here = long_bound(&Workload::count(), 1 << 24, metric).unwrap().unwrap();
            assert!((0.9995..1.0).contains(&(here / expected)), "{metric:?}: {here}");
        }
    }

    #[test]
    fn workloads_that_are_not_poles_have_no_such_bound() {
        for text in ["average", "window:3", "poly:1", "momentum:0.9999999"] {
            let bound = long_bound(&text.parse().unwrap(), 1000, Metric::Mse).unwrap();
            assert!(bound.is_none(), "{text}");
        }
        let schedule = Workload::momentum(0.5, &[1.0, 0.5]).unwrap();
        assert!(long_bound(&schedule, 1000, Metric::Mse).unwrap().is_none());
    }
}
