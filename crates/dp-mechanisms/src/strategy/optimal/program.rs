//! The dense program and its dual, solved by Newton's method on the dual.
//!
//! Primal: `min Σ_t w_t a_tᵀ X⁻¹ a_t` over positive definite X with unit diagonal (`X = CᵀC`, `a_t` the rows of A).
//! Dual: with `B = W^{1/2} A V^{1/2}` and its singular values s,
//!
//! `max_v S(w, v)² / (Σ w Σ v)`,   `S = Σ s = ‖B‖_*`
//!
//! and for the largest row instead of a weighted mean the same maximum over v *and* w, which is `γ_2²`.
//!
//! Everything follows from one eigendecomposition `BᵀB = Q s² Qᵀ` and `P = B Q s⁻¹`:
//!
//! - the gradient of 2S in `ln v` is `g = diag(Q s Qᵀ)`, and in `ln w` it is `diag(P s Pᵀ)`;
//! - a primal point is `X(v) = D^{-1/2} Q s Qᵀ D^{-1/2}`, scaled to a unit diagonal;
//! - S is concave in (w, v) jointly, and its second derivative in relative changes of (v, w) is `-K/2` with
//!   `K = Σ_kl (Z_k ∘ Z_l)(Z_k ∘ Z_l)ᵀ s_k s_l / (s_k + s_l)`, where Z stacks Q over -P.
//!
//! Written out, K would cost O(n⁴). But `s_k s_l/(s_k + s_l) = ∫ s_k e^{-t s_k} s_l e^{-t s_l} dt`, and with a
//! trapezoidal rule in `ln t` K is a sum of a dozen matrices `(Z diag(s e^{-ts}) Zᵀ)^{∘2}`, each a product and an
//! entrywise square, all positive semidefinite. A Newton step costs about as much as the eigendecomposition before
//! it, and a handful of steps do what the fixed point `v ← g(v)` does in hundreds.
//!
//! For the largest row a logarithmic barrier keeps all weights positive on the way, and with them the primal points: rows
//! and columns that do not matter lose their weights at the optimum.

use std::rc::Rc;

use dp_linalg::dense::{self, SymmetricEigen};
use dp_linalg::norms;
use ndarray::{Array1, Array2, ArrayView2, Axis, Zip, concatenate, s};

use crate::error::{Error, Result, check_positive};
use crate::strategy::{Progress, Watch, tell};

/// What is minimized.
#[derive(Debug, Clone, PartialEq)]
pub enum Objective {
    /// The mean of the squared row norms of B, E2.
    Mean,
    /// Their mean with non-negative weights (of any positive sum), one per release.
    Weighted(Vec<f64>),
    /// The largest of them, E∞.
    Max,
}

/// How the dual is climbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ascent {
    /// Newton's method with a safeguarded step.
    Newton,
    /// `v ← diag((D^{1/2} AᵀWA D^{1/2})^{1/2})`, which needs no second derivative and many more steps.
    FixedPoint,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stopping {
    /// The relative duality gap that is good enough.
    pub tolerance: f64,
    /// The largest number of eigendecompositions.
    pub eigendecompositions: usize,
    /// How to get there.
    pub ascent: Ascent,
}

impl Default for Stopping {
    fn default() -> Self {
        Self { tolerance: 1e-6, eigendecompositions: 60, ascent: Ascent::Newton }
    }
}

/// What a solution is worth, proved from both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Certificate {
    /// The objective at the solution: E2, its weighted version, or E∞.
    pub error: f64,
    /// A lower bound on the objective of every strategy.
    pub lower_bound: f64,
    /// The eigendecompositions that were computed at the full horizon.
    pub eigendecompositions: usize,
}

impl Certificate {
    /// The relative duality gap `error / lower_bound - 1`.
    pub fn gap(&self) -> f64 {
        self.error / self.lower_bound - 1.0
    }
}

/// A solution of the program.
#[derive(Debug, Clone)]
pub struct Optimum {
    /// The lower-triangular C with `CᵀC = X`, up to rounding of norm 1 in every column.
    pub strategy: Array2<f64>,
    /// The column weights v of the best lower bound.
    pub column_weights: Vec<f64>,
    /// The row weights w of the best lower bound, with sum 1.
    pub row_weights: Vec<f64>,
    /// What is proved.
    pub certificate: Certificate,
}

/// Singular values below this fraction of the largest are raised to it in the primal point, which must be positive
/// definite; the dual takes them as they are.
const SMALLEST_SINGULAR: f64 = 1e-12;

/// Where the smallest eigenvalue is below this fraction of the largest, singular values are computed as such and not as the
/// roots of eigenvalues, which would lose their digits.
const WELL_CONDITIONED: f64 = 1e-9;

/// The largest change of `ln v` in one step.
const LARGEST_CHANGE: f64 = 3.0;

/// A fraction of a step below which there is no way up.
const SMALLEST_STEP: f64 = 1e-6;

/// Columns below this fraction of the longest squared one are short.
const SHORT_COLUMN: f64 = 0.9;

/// The gap that the barrier aims at next, as a fraction of the present one.
const BARRIER_SHARE: f64 = 0.05;

/// However large the gap is, the barrier aims at this one.
const LARGEST_BARRIER_GAP: f64 = 0.05;

/// Distance of the nodes of K in `ln t`: off by at most `2 e^{-π²/h}`, about 0.3%, in a matrix that only guides.
const NODE_STEP: f64 = 1.5;

/// Rows of K that are added up together.
const CURVATURE_ROWS: usize = 256;

/// Solves the program for any lower-triangular workload from the given column weights.
///
/// The watch is told of every eigendecomposition.
///
/// # Complexity
/// One eigendecomposition and about a dozen symmetric products of n×n matrices for each step (2n×n for
/// [`Objective::Max`]); eight matrices of memory.
///
/// # Errors
/// Weights of the wrong number or sign, what the numeric core refuses, or a watch that stops the program. Reaching the limit of eigendecompositions
/// is not an error: the certificate says what the best point found is worth.
pub fn solve(
    workload: ArrayView2<'_, f64>,
    objective: &Objective,
    start: &[f64],
    options: Stopping,
    watch: &mut Watch<'_>,
) -> Result<Optimum> {
    let steps = workload.nrows();
    if start.len() != steps || workload.ncols() != steps {
        return Err(Error::Dimension { what: "the column weights", expected: steps, actual: start.len() });
    }
    for weight in start {
        check_positive("column weight", *weight)?;
    }
    let start = Weights { columns: Array1::from(start.to_vec()), rows: row_weights(objective, steps)? };
    climb(workload, objective, start, options, watch)
}

/// The same from weights of columns and rows.
pub(super) fn climb(
    workload: ArrayView2<'_, f64>,
    objective: &Objective,
    mut start: Weights,
    options: Stopping,
    watch: &mut Watch<'_>,
) -> Result<Optimum> {
    check_positive("tolerance", options.tolerance)?;
    let program = Program { workload, objective };
    start.normalize();
    let mut base = Rc::new(program.evaluate(start)?);
    let mut used = 1;
    // The bound and the primal point need not be best at the same step.
    let (mut highest, mut lowest) = (Rc::clone(&base), Rc::clone(&base));
    let mut shorter: Option<Climb> = None;
    loop {
        let certificate =
            Certificate { error: lowest.error, lower_bound: highest.lower_bound, eigendecompositions: used };
        tell(watch, Progress::Optimum { eigendecompositions: used, gap: certificate.gap() })?;
        if certificate.gap() <= options.tolerance || used >= options.eigendecompositions {
            return finish(&highest, &lowest, certificate);
        }
        let Climb { direction, step, barrier } = match shorter.take() {
            Some(shorter) => shorter,
            None => Climb::from(&base, options.ascent, program.barrier(&certificate, options.tolerance))?,
        };
        if !(step > SMALLEST_STEP && direction.iter().all(|change| change.is_finite())) {
            return finish(&highest, &lowest, certificate);
        }
        let point = Rc::new(program.evaluate(base.weights.moved(&direction, step))?);
        used += 1;
        if point.lower_bound > highest.lower_bound {
            highest = Rc::clone(&point);
        }
        if point.error < lowest.error {
            lowest = Rc::clone(&point);
        }
        if point.merit(barrier) >= base.merit(barrier) - 1e-13 {
            base = point;
        } else {
            shorter = Some(Climb { direction, step: step / 4.0, barrier });
        }
    }
}

fn finish(highest: &Point, lowest: &Point, certificate: Certificate) -> Result<Optimum> {
    Ok(Optimum {
        strategy: lowest.strategy()?,
        column_weights: highest.weights.columns.to_vec(),
        row_weights: highest.weights.rows.to_vec(),
        certificate,
    })
}

/// A change of the logarithms of the weights, and the fraction of it to try next.
struct Climb {
    direction: Array1<f64>,
    step: f64,
    barrier: f64,
}

impl Climb {
    fn from(point: &Point, ascent: Ascent, barrier: f64) -> Result<Self> {
        let direction = match ascent {
            Ascent::FixedPoint => point.fixed_point_direction(),
            Ascent::Newton => point.newton_direction(barrier)?,
        };
        let largest = direction.fold(0.0_f64, |largest, change| largest.max(change.abs()));
        Ok(Self { direction, step: (LARGEST_CHANGE / largest).min(1.0), barrier })
    }
}

/// The weights w of the rows, with sum 1. For the largest row they are only where the search starts.
fn row_weights(objective: &Objective, steps: usize) -> Result<Array1<f64>> {
    let Objective::Weighted(weights) = objective else {
        return Ok(Array1::from_elem(steps, 1.0 / steps as f64));
    };
    if weights.len() != steps {
        return Err(Error::Dimension { what: "the row weights", expected: steps, actual: weights.len() });
    }
    if let Some(value) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
        return Err(Error::OutOfRange {
            what: "row weight",
            value: *value,
            range: "a finite number of at least 0",
        });
    }
    let total = check_positive("sum of the row weights", weights.iter().sum())?;
    Ok(weights.iter().map(|weight| weight / total).collect())
}

/// A point (v, w) of the dual.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    pub(super) columns: Array1<f64>,
    pub(super) rows: Array1<f64>,
}

impl Weights {
    /// Scales both to sum 1, where the dual is `S²`.
    fn normalize(&mut self) {
        self.columns /= self.columns.sum();
        self.rows /= self.rows.sum();
    }

    /// The columns and, if the direction covers them, the rows, each times `e^{step · direction}`.
    fn moved(&self, direction: &Array1<f64>, step: f64) -> Self {
        let mut moved = self.clone();
        for (weight, change) in moved.columns.iter_mut().chain(&mut moved.rows).zip(direction) {
            // Far below any other weight, and its root still a normal number.
            *weight = (*weight * (step * change).exp()).max(1e-200);
        }
        moved.normalize();
        moved
    }
}

struct Program<'a> {
    workload: ArrayView2<'a, f64>,
    objective: &'a Objective,
}

impl Program<'_> {
    /// The weight τ of the logarithmic barrier `τ (Σ ln v + Σ ln w)` with which the dual is climbed next.
    ///
    /// The largest row alone needs one: there rows and columns that do not matter lose their weights, and a point of the dual
    /// without them has no primal point beside it. At the maximum with the barrier the gap is `2nτ`.
    fn barrier(&self, certificate: &Certificate, tolerance: f64) -> f64 {
        if *self.objective != Objective::Max {
            return 0.0;
        }
        let aim = (BARRIER_SHARE * certificate.gap()).clamp(0.5 * tolerance, LARGEST_BARRIER_GAP);
        aim / (2 * self.workload.nrows()) as f64
    }

    fn evaluate(&self, weights: Weights) -> Result<Point> {
        let mut weighted = &self.workload * &weights.columns.mapv(f64::sqrt);
        weighted *= &weights.rows.mapv(f64::sqrt).insert_axis(Axis(1));
        let SymmetricEigen { values: singular, vectors } = singular_values(weighted.view())?;
        let steps = singular.len();
        let raised = singular.mapv(|value| value.max(SMALLEST_SINGULAR * singular[steps - 1]));
        let nuclear = norms::compensated_sum(singular.iter().copied());
        let squared_rows = |matrix: &Array2<f64>| norms::row_squared_norms(matrix.view());
        let error = |spread: &Array1<f64>| {
            // Row t of A X⁻¹ Aᵀ: the columns of A times the root of the diagonal, rotated.
            let decoder = dense::matmul(
                (&self.workload * &spread.mapv(f64::sqrt)).view(),
                (&vectors / &raised.mapv(f64::sqrt)).view(),
            );
            let rows = squared_rows(&decoder);
            match self.objective {
                Objective::Max => rows.fold(0.0_f64, |a, b| a.max(*b)),
                _ => rows.dot(&weights.rows),
            }
        };
        let mut spread = squared_rows(&(&vectors * &raised.mapv(f64::sqrt)));
        let mut least = error(&spread);
        // Columns that do not matter are better left short than scaled up: they have hardly any weight.
        let lengths = &spread / &weights.columns;
        let longest = lengths.fold(0.0_f64, |a, b| a.max(*b));
        if lengths.iter().any(|length| *length < SHORT_COLUMN * longest) {
            let unscaled = &weights.columns * longest;
            let error = error(&unscaled);
            if error < least {
                (spread, least) = (unscaled, error);
            }
        }
        let stacked = if *self.objective == Objective::Max {
            let left = dense::matmul(weighted.view(), (&vectors / &raised).view());
            concatenate![Axis(0), vectors, left]
        } else {
            vectors
        };
        let gradient = squared_rows(&(&stacked * &singular.mapv(f64::sqrt)));
        Ok(Point {
            weights,
            singular,
            raised,
            stacked,
            gradient,
            spread,
            nuclear,
            lower_bound: nuclear * nuclear,
            error: least,
        })
    }
}

/// The singular values, ascending, and right singular vectors. What is within the rounding of zero counts as zero: this can
/// only lower the bound.
fn singular_values(matrix: ArrayView2<'_, f64>) -> Result<SymmetricEigen> {
    let SymmetricEigen { values, vectors } = dense::symmetric_eigen(dense::gram(matrix).view())?;
    let (steps, largest) = (values.len(), values[values.len() - 1]);
    if values[0] > WELL_CONDITIONED * largest {
        return Ok(SymmetricEigen { values: values.mapv(f64::sqrt), vectors });
    }
    let SymmetricEigen { values, vectors } = dense::gram_root_eigen(matrix)?;
    let noise = 8.0 * steps as f64 * f64::EPSILON * values[steps - 1];
    let values = values.mapv(|value| if value > noise { value } else { 0.0 });
    Ok(SymmetricEigen { values, vectors })
}

/// What a weight adds to its own curvature, so that one that should vanish does so in one step: its slope beyond the barrier's
/// push p is `-m`, and as long as nothing else changes the slope is zero where the weight has fallen to its `p/(p + m)`-th part.
/// Newton's step is `-ln(1 + m/p)` if the curvature is `m / ln(1 + m/p)`, which is p for small m. Without a barrier it is `m/2`:
/// the weight falls by e² a step. Either is p at the optimum.
fn vanishing_curvature(excess: f64, pushed: f64) -> f64 {
    let ratio = excess / pushed;
    if ratio > 1e-6 && ratio.is_finite() { excess / ratio.ln_1p() } else { 0.5 * excess + pushed }
}

/// What one eigendecomposition tells about a point of the dual.
struct Point {
    weights: Weights,
    /// The singular values of B, ascending.
    singular: Array1<f64>,
    /// The same, none of them too small for the primal.
    raised: Array1<f64>,
    /// Q, and P below it when the rows are weighted freely.
    stacked: Array2<f64>,
    /// `diag(Q s Qᵀ)`, then `diag(P s Pᵀ)`.
    gradient: Array1<f64>,
    /// `diag(Q s Qᵀ)` with the raised singular values, or more: what X is divided by.
    spread: Array1<f64>,
    /// S.
    nuclear: f64,
    lower_bound: f64,
    error: f64,
}

impl Point {
    /// What is climbed, up to scale: the logarithm of the bound with the barrier.
    fn merit(&self, barrier: f64) -> f64 {
        let logarithms = |weights: &Array1<f64>| weights.iter().map(|weight| weight.ln()).sum::<f64>();
        let inside = if barrier > 0.0 {
            barrier * (logarithms(&self.weights.columns) + logarithms(&self.weights.rows))
        } else {
            0.0
        };
        self.lower_bound.ln() + inside
    }

    /// The free weights times S: what the gradient equals at the optimum.
    fn target(&self) -> Array1<f64> {
        let free = self.weights.columns.iter().chain(&self.weights.rows).take(self.gradient.len());
        free.map(|weight| weight * self.nuclear).collect()
    }

    fn fixed_point_direction(&self) -> Array1<f64> {
        let target = self.target();
        Zip::from(&self.gradient).and(&target).map_collect(|g, v| (g / v).ln())
    }

    /// The solution u of `K u = g - S v`, the relative change of the weights; with a barrier τ of
    /// `(K + τS) u = g + τS - (1 + nτ) S v`.
    fn newton_direction(&self, barrier: f64) -> Result<Array1<f64>> {
        let pushed = barrier * self.nuclear;
        let all = 1.0 + barrier * self.singular.len() as f64;
        let slope = &self.gradient - &(self.target() * all - pushed);
        let mut curvature = self.curvature();
        // Along the weights themselves K is zero (both kinds) or redundant (one kind): the dual does not change.
        let scale = 1.0 / self.nuclear;
        for (mut row, g) in curvature.outer_iter_mut().zip(&self.gradient) {
            row.scaled_add(scale * g, &self.gradient);
        }
        // The last term is rounding.
        let ridge = 1e-13 * curvature.diag().sum();
        for (diagonal, slope) in curvature.diag_mut().iter_mut().zip(&slope) {
            *diagonal += vanishing_curvature((-slope).max(0.0), pushed) + ridge;
        }
        let root = dense::lower_root(curvature.view())?;
        let right = slope.insert_axis(Axis(1));
        let reversed = root.t();
        let half = dense::solve_lower(reversed.slice(s![..;-1, ..;-1]), right.slice(s![..;-1, ..]))?;
        Ok(dense::solve_lower(root.view(), half.slice(s![..;-1, ..]))?.remove_axis(Axis(1)))
    }

    /// K by quadrature; its lower triangle, and of what stands above that nothing.
    fn curvature(&self) -> Array2<f64> {
        let steps = self.singular.len();
        let (smallest, largest) = (self.raised[0], self.raised[steps - 1]);
        // Below the first node the exponentials are 1 and the geometric sum of the weights is put on it; past the
        // last one they vanish.
        let first = (0.02 / largest).ln();
        let nodes = (((5.0 / smallest).ln() - first) / NODE_STEP).ceil() as usize + 1;
        let size = self.stacked.nrows();
        let mut curvature = Array2::<f64>::zeros((size, size));
        for index in 0..nodes {
            let t = (first + NODE_STEP * index as f64).exp();
            let end = if index == 0 { 1.0 / (1.0 - (-NODE_STEP).exp()) } else { 1.0 };
            let weight = NODE_STEP * t * end;
            // The values ascend: at large t only the first few matter.
            let alive = self.singular.iter().take_while(|value| **value * t < 30.0).count();
            if alive == 0 {
                break;
            }
            let kernel = self.singular.slice(s![..alive]).mapv(|value| (value * (-t * value).exp()).sqrt());
            let scaled = &self.stacked.slice(s![.., ..alive]) * &kernel;
            // The lower triangle is all that is read, a few rows at a time: what is squared is still in the cache.
            for start in (0..size).step_by(CURVATURE_ROWS) {
                let end = (start + CURVATURE_ROWS).min(size);
                let product =
                    dense::matmul(scaled.slice(s![start..end, ..]), scaled.slice(s![..end, ..]).t());
                Zip::from(curvature.slice_mut(s![start..end, ..end]))
                    .and(&product)
                    .for_each(|sum, entry| *sum += weight * entry * entry);
            }
        }
        if size > steps {
            curvature.slice_mut(s![steps.., ..steps]).mapv_inplace(|entry| -entry);
        }
        curvature
    }

    /// The lower-triangular C with `CᵀC = X`, `X = diag(g)^{-1/2} Q s Qᵀ diag(g)^{-1/2}` and on the diagonal what is missing to 1,
    /// which can only lower the error.
    fn strategy(&self) -> Result<Array2<f64>> {
        let steps = self.singular.len();
        let mut factor = &self.stacked.slice(s![..steps, ..]) * &self.raised.mapv(f64::sqrt);
        factor /= &self.spread.mapv(f64::sqrt).insert_axis(Axis(1));
        let missing = norms::row_squared_norms(factor.view()).mapv(|squared| (1.0 - squared).max(0.0).sqrt());
        if missing.iter().any(|length| *length > 1e-6) {
            factor = concatenate![Axis(1), factor, Array2::from_diag(&missing)];
        }
        // `X = F Fᵀ`. Reversing the order of the inputs turns the factor `L Lᵀ` into the wanted `CᵀC`.
        let reversed = dense::lq_lower(factor.slice(s![..;-1, ..]))?;
        Ok(reversed.slice(s![..;-1, ..;-1]).t().as_standard_layout().into_owned())
    }
}
