//! The optimal strategy: the dense program `min tr(AᵀW A X⁻¹)` over positive definite X with unit diagonal.
//!
//! It serves every workload and every metric, proves by duality how close to the optimum it is, and is the yardstick
//! for all others. Its price is dense: O(n³) to find, O(n² + n·d) memory, O(t·d) operations at step t.
//!
//! Under repeated participation ([`Optimal::repeated`]) the sensitivity is that of the heaviest set of steps one person can
//! take, and the program another one: over X with as many bands as the participations are apart, in `repeated`. Its noise
//! is a forward substitution over the last b steps. The lower bound beside it is proved in `regular`.

mod filter;
mod program;
mod regular;
mod repeated;

use std::sync::Arc;

use dp_linalg::{dense, norms};
use ndarray::{Array2, Axis};

pub use program::{Certificate, Method, Objective, Optimum, Options, solve};

use super::toeplitz::sqrt_coefficients;
use super::{Factorization, Metric, NoiseFilter, RowNorms, Strategy, check_materializable, scaled};
use crate::error::{Result, check_count};
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
/// use dp_mechanisms::{Workload, strategy::optimal::Optimal};
/// let optimal = Optimal::mean(&Workload::count(), 64)?;
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
    /// The strategy with the smallest mean squared error, to a relative gap of 1e-6.
    ///
    /// # Errors
    /// As [`Optimal::new`].
    pub fn mean(workload: &Workload, steps: usize) -> Result<Self> {
        Self::new(workload, steps, &Objective::Mean, Options::default(), &mut |_, _| ())
    }

    /// The strategy that minimizes the objective. `progress` is called after every eigendecomposition with their
    /// number and the relative duality gap.
    ///
    /// # Complexity
    /// See [`solve`]; from the start that is chosen here a handful of steps.
    ///
    /// # Errors
    /// Zero steps, more than [`super::MATERIALIZE_LIMIT`] of them, or as [`solve`].
    pub fn new(
        workload: &Workload,
        steps: usize,
        objective: &Objective,
        options: Options,
        progress: &mut dyn FnMut(usize, f64),
    ) -> Result<Self> {
        check_count("steps", steps)?;
        check_materializable(steps)?;
        let matrix = workload.materialize(steps)?;
        let start = start(workload, steps)?;
        let optimum = solve(matrix.view(), objective, &start, options, progress)?;
        let Optimum { mut strategy, column_weights, certificate, .. } = optimum;
        for mut column in strategy.axis_iter_mut(Axis(1)) {
            let norm = norms::round_up_sum_of_squares(&column.to_vec()).sqrt().next_up();
            column /= norm;
        }
        let decoder = dense::matmul(matrix.view(), dense::inverse_lower(strategy.view())?.view());
        let rows = RowNorms::exact(norms::row_squared_norms(decoder.view()).to_vec());
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

    /// The strategy for the metric under a participation: the single program for one, and for several the best of what
    /// is affordable — the banded program of `repeated`, and the single optimum, which wins where people take part a few
    /// times at short distances within a long stream.
    ///
    /// # Complexity
    /// Some hundred evaluations of the banded program, each two products of n×n matrices, and about twenty
    /// eigendecompositions; a few seconds for 512 steps.
    ///
    /// # Errors
    /// As [`Optimal::new`].
    pub fn repeated(
        workload: &Workload,
        steps: usize,
        participation: Participation,
        metric: Metric,
    ) -> Result<Self> {
        Self::repeated_watched(workload, steps, participation, metric, &mut |_, _| ())
    }

    /// [`Optimal::repeated`], with a report after every eigendecomposition of the single program as in [`Optimal::new`].
    ///
    /// # Errors
    /// As [`Optimal::new`].
    pub fn repeated_watched(
        workload: &Workload,
        steps: usize,
        participation: Participation,
        metric: Metric,
        progress: &mut dyn FnMut(usize, f64),
    ) -> Result<Self> {
        let objective = match metric {
            Metric::Mse => Objective::Mean,
            Metric::Max => Objective::Max,
        };
        let single = Self::new(workload, steps, &objective, Options::default(), progress)?;
        if participation.times_within(steps) <= 1 {
            return Ok(single);
        }
        let matrix = workload.materialize(steps)?;
        let start = repeated_start(workload, steps);
        let repeated::Banded { strategy, row_weights } =
            repeated::solve(matrix.view(), &start, participation, metric)?;
        let weighted = &matrix * &row_weights.mapv(f64::sqrt).insert_axis(Axis(1));
        let (regular, used) = regular::lower_bound(weighted.view(), strategy.view(), participation)?;
        let decoder = dense::matmul(matrix.view(), dense::inverse_lower(strategy.view())?.view());
        let rows = RowNorms::exact(norms::row_squared_norms(decoder.view()).to_vec());
        let column_weights = bounds::dual_weights(decoder.view(), strategy.view())?;
        let banded = Self {
            workload: workload.clone(),
            bands: participation.separation(),
            strategy: Arc::new(strategy),
            rows,
            column_weights,
            ..single.clone()
        };
        let error = |strategy: &Self| -> Result<f64> {
            Ok(strategy.sensitivity(participation)?.squared * metric.of(&strategy.rows))
        };
        let (apart, overlapping) = (error(&banded)?, error(&single)?);
        // More participations only make it harder.
        let lower_bound = regular.max(single.certificate.lower_bound);
        let eigendecompositions = single.certificate.eigendecompositions + used;
        let certificate = Certificate { error: apart.min(overlapping), lower_bound, eigendecompositions };
        Ok(Self { certificate, ..if apart <= overlapping { banded } else { single } })
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

/// Column weights near those of the optimal mean squared error.
///
/// At the optimum they are `diag(X⁻¹ AᵀA X⁻¹)`. Where the dual can be climbed without matrices that is done first; the
/// scaled square root gives its own X, at most a fraction of a percent from the optimum; and weights without a
/// square root start from the columns of A.
///
/// # Errors
/// What the numeric core refuses.
pub fn start(workload: &Workload, steps: usize) -> Result<Vec<f64>> {
    if let Some(bound) = certificate::banded_bound(workload, steps)? {
        return Ok(bound.column_weights);
    }
    scaled_sqrt_start(workload, steps)
}

/// The column weights of the scaled square root, or of the columns of A where it does not exist.
///
/// # Errors
/// What the numeric core refuses.
pub fn scaled_sqrt_start(workload: &Workload, steps: usize) -> Result<Vec<f64>> {
    let usable = |weights: &Vec<f64>| weights.iter().all(|weight| weight.is_normal() && *weight > 0.0);
    if let Ok(strategy) = scaled::scaled_sqrt(workload, steps) {
        let Factorization { decoder, strategy } = strategy.materialize()?;
        let weights = bounds::dual_weights(decoder.view(), strategy.view())?;
        if usable(&weights) {
            return Ok(weights);
        }
    }
    let columns = norms::column_squared_norms(workload.materialize(steps)?.view());
    Ok(columns.mapv(f64::sqrt).to_vec())
}

/// Coefficients of a Toeplitz strategy to start the banded program from: the square root, or independent noise where it does
/// not exist.
fn repeated_start(workload: &Workload, steps: usize) -> Vec<f64> {
    let mut identity = vec![0.0; steps];
    identity[0] = 1.0;
    match sqrt_coefficients(workload, steps) {
        Ok(root) if root.iter().all(|coefficient| coefficient.is_finite()) => root,
        _ => identity,
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
