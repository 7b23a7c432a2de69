//! The optimal strategy: the dense program `min tr(AᵀW A X⁻¹)` over positive definite X with unit diagonal.
//!
//! It serves every workload and every metric, proves by duality how close to the optimum it is, and is the yardstick
//! for all others. Its price is dense: O(n³) to find, O(n² + n·d) memory, O(t·d) operations at step t.
//!
//! Under repeated participation the sensitivity is that of the heaviest set of steps one person can
//! take, and the program another one: over X with as many bands as the participations are apart, in `apart`, and then over X whose
//! columns may overlap, in `overlapping`. Its noise is a forward substitution over the last 2b steps where the participations can
//! fill the horizon, and over all of them otherwise. The lower bounds beside it are proved in `walk` and `regular`.

mod apart;
mod chain;
mod filter;
mod overlapping;
mod program;
mod regular;
mod walk;

pub(super) use chain::Chains;
pub(super) use overlapping::{LogError, log_error};

use std::sync::Arc;

use dp_linalg::{dense, norms};
use ndarray::{Array1, Array2, ArrayView2, Axis, concatenate, s};

use program::Weights;
pub use program::{Ascent, Certificate, Objective, Optimum, Stopping, solve};

use super::coefficients::{packed_triangle, unpacked_triangle};
use super::toeplitz::root_coefficients;
use super::{
    Coefficients, Factorization, Measurement, NoiseFilter, RowNorms, Strategy, Watch, check_materializable,
    repeated, scaled, unwatched,
};
use crate::error::{Error, Result};
use crate::problem::{Metric, Problem};
use crate::sensitivity::{self, Participation, Sensitivity};
use crate::workload::Workload;
use crate::{bounds, certificate};

/// The strategy of the dense program.
///
/// # Privacy
/// Every column is divided by its norm, rounded up, and the sensitivity is computed from the matrix in use: what the
/// optimizer did can cost accuracy, never privacy.
///
/// # Example
/// ```
/// use dp_mechanisms::strategy::{optimal::Optimal, unwatched};
/// use dp_mechanisms::{Problem, Workload};
/// let optimal = Optimal::new(&Problem::new(Workload::count(), 64)?, &mut unwatched)?;
/// assert!((optimal.certificate().error - 4.409397).abs() < 1e-5 && optimal.certificate().gap() < 1e-6);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Optimal {
    workload: Workload,
    /// C, lower triangular.
    strategy: Arc<Array2<f64>>,
    /// The number of its bands.
    bands: usize,
    rows: RowNorms,
    column_weights: Vec<f64>,
    certificate: Certificate,
    /// The metric that the certificate speaks of, unless rows were weighted.
    proves: Option<Metric>,
}

impl Optimal {
    /// The strategy that minimizes an objective for one participation, whatever the problem's metric. For several statistics the
    /// rows of the objective are those of the root of `G = Σ w_i A_iᵀA_i`, whose mean alone has a meaning.
    ///
    /// # Complexity
    /// See [`solve`]; from the start that is chosen here a handful of steps, for the largest row up to a dozen, and a seventh
    /// of that for the shorter horizons that its start comes from.
    ///
    /// # Errors
    /// More than [`super::MATERIALIZE_LIMIT`] steps, or as [`solve`].
    pub fn for_objective(
        problem: &Problem,
        objective: &Objective,
        options: Stopping,
        watch: &mut Watch<'_>,
    ) -> Result<Self> {
        let (workload, steps) = (problem.workload(), problem.steps());
        check_materializable(steps)?;
        let optimum = optimum(problem, objective, options, watch)?;
        let Optimum { mut strategy, column_weights, certificate, .. } = optimum;
        for mut column in strategy.axis_iter_mut(Axis(1)) {
            let norm = norms::round_up_sum_of_squares(&column.to_vec()).sqrt().next_up();
            column /= norm;
        }
        let rows = decoder_rows(workload.materialize(steps)?.view(), strategy.view())?;
        Ok(Self {
            workload: workload.clone(),
            strategy: Arc::new(strategy),
            bands: steps,
            rows,
            column_weights,
            certificate,
            proves: match objective {
                Objective::Mean => Some(Metric::Mse),
                Objective::Max => Some(Metric::Max),
                Objective::Weighted(_) => None,
            },
        })
    }

    /// The strategy of least error: the single program for one participation, to a relative gap of 1e-6, and for several the best
    /// of what is affordable — the programs of `apart` and `overlapping`, and the single optimum. The certificate has the gap,
    /// up to 1024 steps mostly below 1%.
    ///
    /// # Complexity
    /// A handful of eigendecompositions. For several participations some hundred evaluations of both programs, each two to
    /// five products of n×n matrices, and a few dozen eigendecompositions; about half a minute for 512 steps.
    ///
    /// # Errors
    /// As [`Optimal::for_objective`].
    pub fn new(problem: &Problem, watch: &mut Watch<'_>) -> Result<Self> {
        let (workload, steps) = (problem.workload(), problem.steps());
        let participation = problem.participation();
        let objective = match problem.metric() {
            Metric::Max if !problem.is_joint() => Objective::Max,
            _ => Objective::Mean,
        };
        let single = Self::for_objective(problem, &objective, Stopping::default(), watch)?;
        if problem.times() <= 1 {
            return Ok(single);
        }
        let target = target(problem)?;
        let start = repeated_start(problem);
        let apart = apart::solve(target.view(), &start, problem, watch)?;
        let weighted = |weights: &Array1<f64>| &target * &weights.mapv(f64::sqrt).view().insert_axis(Axis(1));
        let (times, separation) = (problem.times(), participation.separation());
        // More participations only make it harder.
        let mut lower_bound = single.certificate.lower_bound;
        let mut eigendecompositions = single.certificate.eigendecompositions;
        let mut candidates = Vec::new();
        if steps <= overlapping::LIMIT {
            let bands = overlapping::bands(problem);
            let near = if bands < steps { Some(apart.strategy.clone()) } else { nearby(problem, watch)? };
            let from = near.as_ref().map_or(overlapping::Start::Coefficients(&start), |near| {
                overlapping::Start::Strategy(near.view())
            });
            let solution = overlapping::solve(target.view(), from, problem, watch)?;
            if times <= walk::LONGEST {
                let gram = dense::gram(solution.strategy.view()) / times as f64;
                let chains = chain::Chains { times, separation, bands };
                let weighted = weighted(&solution.row_weights);
                let (bound, used) = walk::lower_bound(weighted.view(), gram.view(), chains, watch)?;
                lower_bound = lower_bound.max(bound);
                eigendecompositions += used;
            }
            candidates.push((solution, bands));
        }
        if steps > overlapping::LIMIT || times > walk::LONGEST || problem.fills_horizon() {
            let weighted = weighted(&apart.row_weights);
            let strategy = apart.strategy.view();
            let (bound, used) = regular::lower_bound(weighted.view(), strategy, participation, watch)?;
            lower_bound = lower_bound.max(bound);
            eigendecompositions += used;
        }
        candidates.push((apart, separation.min(steps)));
        let mut best = (problem.error(&single)?, single);
        for (solution, bands) in candidates {
            let strategy = solution.strategy;
            let decoder = dense::matmul(target.view(), dense::inverse_lower(strategy.view())?.view());
            let column_weights = bounds::dual_weights(decoder.view(), strategy.view())?;
            let rows = decoder_rows(workload.materialize(steps)?.view(), strategy.view())?;
            let strategy = Arc::new(strategy);
            let candidate = Self { strategy, bands, rows, column_weights, ..best.1.clone() };
            let error = problem.error(&candidate)?;
            if error <= best.0 {
                best = (error, candidate);
            }
        }
        let (error, strategy) = best;
        let certificate = Certificate { error, lower_bound, eigendecompositions };
        Ok(Self { certificate, ..strategy })
    }

    /// The strategy that consists of the numbers of [`Strategy::coefficients`]. What was proved about it is not among them.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) for lists that are missing or of another length.
    pub(crate) fn of_coefficients(workload: &Workload, steps: usize, saved: &Coefficients) -> Result<Self> {
        let bands = saved.number("bands")? as usize;
        Ok(Self {
            workload: workload.clone(),
            strategy: Arc::new(unpacked_triangle(&saved.list("matrix")?, steps, bands)?),
            bands,
            rows: RowNorms::exact(saved.list_of("squared norms", steps)?),
            column_weights: Vec::new(),
            certificate: Certificate { error: f64::NAN, lower_bound: 0.0, eigendecompositions: 0 },
            proves: None,
        })
    }

    /// What is proved about the objective, under the participation that the strategy was built for.
    pub fn certificate(&self) -> Certificate {
        self.certificate
    }

    /// The column weights that prove the lower bound of the certificate.
    pub fn column_weights(&self) -> &[f64] {
        &self.column_weights
    }
}

/// The squared norms of the rows of `A C⁻¹`.
fn decoder_rows(workload: ArrayView2<'_, f64>, strategy: ArrayView2<'_, f64>) -> Result<RowNorms> {
    let decoder = dense::matmul(workload, dense::inverse_lower(strategy)?.view());
    Ok(RowNorms::exact(norms::row_squared_norms(decoder.view()).to_vec()))
}

/// The matrix whose rows the program shortens: the workload, or for several statistics the lower-triangular M with
/// `MᵀM = Σ w_i A_iᵀA_i`, of which `‖M C⁻¹‖_F² = Σ w_i ‖A_i C⁻¹‖_F²`.
///
/// # Errors
/// What the numeric core refuses.
pub fn target(problem: &Problem) -> Result<Array2<f64>> {
    let steps = problem.steps();
    if !problem.is_joint() {
        return problem.workload().materialize(steps);
    }
    let mut stacked = Array2::zeros((steps, 0));
    for one in problem.statistics() {
        // Transposed, and the inputs in reverse: the factor `L Lᵀ` of that, turned around, is the wanted `MᵀM`.
        let part = one.workload().materialize(steps)? * one.weight().sqrt();
        stacked = concatenate![Axis(1), stacked, part.t().slice(s![..;-1, ..])];
    }
    let reversed = dense::lq_lower(stacked.view())?;
    Ok(reversed.slice(s![..;-1, ..;-1]).t().as_standard_layout().into_owned())
}

/// The fewest steps from which the weights of the largest row are stretched to twice as many.
const COARSEST: usize = 64;

/// The relative gap to which a coarser program is solved: its optimum is only a start.
const COARSE_TOLERANCE: f64 = 1e-3;

/// Minimizes an objective over a problem's horizon from a good start. For the largest row that is the optimum for half as many
/// steps, which costs an eighth: rows and columns that do not matter have lost their weights there already.
fn optimum(
    problem: &Problem,
    objective: &Objective,
    options: Stopping,
    watch: &mut Watch<'_>,
) -> Result<Optimum> {
    let (target, steps) = (target(problem)?, problem.steps());
    if *objective != Objective::Max || steps < 2 * COARSEST {
        return solve(target.view(), objective, &start(problem)?, options, watch);
    }
    let coarse = Stopping { tolerance: COARSE_TOLERANCE.max(options.tolerance), ..options };
    let coarse = optimum(&problem.with_steps(steps / 2), objective, coarse, watch)?;
    let start = Weights {
        columns: stretched(&coarse.column_weights, steps),
        rows: stretched(&coarse.row_weights, steps),
    };
    program::climb(target.view(), objective, start, options, watch)
}

/// Weights of a shorter horizon (of two steps at least) for a longer one. What happens near the ends does not depend on the
/// horizon: there a quarter of the weights keeps its shape. Those between are interpolated over the share of the horizon,
/// and the ends are scaled to meet them.
fn stretched(coarse: &[f64], steps: usize) -> Array1<f64> {
    let (length, end) = (coarse.len(), coarse.len() / 4);
    let middle = |step: usize| {
        let at = (step as f64 + 0.5) * length as f64 / steps as f64 - 0.5;
        let below = (at.max(0.0) as usize).min(length - 2);
        let share = (at - below as f64).clamp(0.0, 1.0);
        ((1.0 - share) * coarse[below].ln() + share * coarse[below + 1].ln()).exp()
    };
    let first = middle(end) / coarse[end];
    let last = middle(steps - 1 - end) / coarse[length - 1 - end];
    let weight = |step: usize| match steps - 1 - step {
        _ if step < end => first * coarse[step],
        after if after < end => last * coarse[length - 1 - after],
        _ => middle(step),
    };
    (0..steps).map(weight).collect()
}

/// Column weights near those of the optimal mean squared error.
///
/// At the optimum they are `diag(X⁻¹ AᵀA X⁻¹)`. Where the dual can be climbed without matrices that is done first; the
/// scaled square root gives its own X, at most a fraction of a percent from the optimum; and weights without a
/// square root start from the columns of A.
///
/// # Errors
/// What the numeric core refuses.
pub fn start(problem: &Problem) -> Result<Vec<f64>> {
    if !problem.is_joint()
        && let Some(bound) = certificate::banded_bound(problem.workload(), problem.steps())?
    {
        return Ok(bound.column_weights);
    }
    scaled_sqrt_start(problem)
}

/// The column weights of the scaled square root, or of the columns of A where it does not exist.
///
/// # Errors
/// What the numeric core refuses.
pub fn scaled_sqrt_start(problem: &Problem) -> Result<Vec<f64>> {
    let usable = |weights: &Vec<f64>| weights.iter().all(|weight| weight.is_normal() && *weight > 0.0);
    let once = problem.clone().with_participation(Participation::Single).with_metric(Metric::Mse);
    let target = target(problem)?;
    if let Ok(strategy) = scaled::scaled_sqrt(&once, &mut unwatched) {
        let strategy = strategy.materialize()?.strategy;
        let decoder = dense::matmul(target.view(), dense::inverse_lower(strategy.view())?.view());
        let weights = bounds::dual_weights(decoder.view(), strategy.view())?;
        if usable(&weights) {
            return Ok(weights);
        }
    }
    Ok(norms::column_squared_norms(target.view()).mapv(f64::sqrt).to_vec())
}

/// Coefficients of a Toeplitz strategy to start the banded program from: the square root, or independent noise where it does
/// not exist.
fn repeated_start(problem: &Problem) -> Vec<f64> {
    let mut identity = vec![0.0; problem.steps()];
    identity[0] = 1.0;
    match root_coefficients(problem.statistics(), problem.steps()) {
        Ok(root) if root.iter().all(|coefficient| coefficient.is_finite()) => root,
        _ => identity,
    }
}

/// A matrix close to the optimum over all bands, where there is one: a scaled Toeplitz core.
///
/// # Errors
/// A watch that stops the fit.
fn nearby(problem: &Problem, watch: &mut Watch<'_>) -> Result<Option<Array2<f64>>> {
    match repeated::repeated("optimal", problem, watch) {
        Ok(Some(strategy)) => Ok(Some(strategy.materialize()?.strategy)),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        // Weights without a square root, or too few steps.
        Ok(None) | Err(_) => Ok(None),
    }
}

/// A computed squared sensitivity of a matrix that was scaled so that the true one is `times`, or close to it, made coarse.
///
/// A plan that is built again — after a crash, or on another machine — must arrive at the very same σ, while the last
/// bits of a dense computation depend on the processor. Where the answer is exactly `times` (one participation, or
/// columns that do not meet) it is that and what rounding may add to it; a bound is rounded up to a multiple of 2^-32, but
/// never above the triangle inequality for columns of norm 1.
pub(crate) fn of_normalized_columns(computed: Sensitivity, times: usize) -> Sensitivity {
    let rounding = 1.0 + 1e-14;
    let (squared, unit) = (computed.squared, times as f64 * rounding);
    let scaled_to = (squared / unit - 1.0).abs() < 1e-12;
    if computed.exact && (scaled_to || times <= 1) {
        return Sensitivity::exact(if scaled_to { squared.max(unit) } else { squared });
    }
    let trivial = times as f64 * unit;
    let grid = f64::from(1 << 16).powi(2);
    let coarse = (squared * grid).ceil() / grid;
    Sensitivity::upper_bound(if squared <= trivial { coarse.min(trivial) } else { coarse })
}

impl Strategy for Optimal {
    fn name(&self) -> &'static str {
        "optimal"
    }

    fn workload(&self) -> &Workload {
        &self.workload
    }

    fn steps(&self) -> usize {
        self.strategy.nrows()
    }

    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
        let computed = sensitivity::dense(self.strategy.view(), participation)?;
        Ok(of_normalized_columns(computed, participation.times_within(self.steps())))
    }

    fn row_norms(&self) -> Result<RowNorms> {
        Ok(self.rows.clone())
    }

    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        Ok(filter::build(&self.strategy, self.bands, dimension))
    }

    fn memory(&self, dimension: usize) -> usize {
        self.bands * (self.steps() + dimension)
    }

    fn proven_lower_bound(&self) -> Option<(Metric, f64)> {
        self.proves.map(|metric| (metric, self.certificate.lower_bound))
    }

    fn reading(&self, workload: &Workload) -> Result<Arc<dyn Strategy>> {
        let rows = decoder_rows(workload.materialize(self.steps())?.view(), self.strategy.view())?;
        // What was proved was proved of the problem that it was built for.
        Ok(Arc::new(Self { workload: workload.clone(), rows, proves: None, ..self.clone() }))
    }

    fn coefficients(&self) -> Option<Coefficients> {
        let matrix = Coefficients::none().with("matrix", packed_triangle(&self.strategy, self.bands));
        let rows: Vec<f64> = self.rows.iter().collect();
        Some(matrix.with("bands", [self.bands as f64]).with("squared norms", rows))
    }

    fn measurement(&self) -> Result<Measurement> {
        check_materializable(self.steps())?;
        Ok(Measurement::Dense(self.strategy.as_ref().clone()))
    }

    fn materialize(&self) -> Result<Factorization> {
        let inverse = dense::inverse_lower(self.strategy.view())?;
        let workload = self.workload.materialize(self.steps())?;
        Ok(Factorization {
            decoder: dense::matmul(workload.view(), inverse.view()),
            strategy: self.strategy.as_ref().clone(),
        })
    }
}

#[cfg(test)]
mod tests;
