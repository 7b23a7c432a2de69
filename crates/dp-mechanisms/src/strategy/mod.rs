//! Strategies: the matrices C that are measured, and the noise that their measurement leaves in the release.
//!
//! A strategy for a workload A is a factorization `A = B C`. What the mechanism adds to the release is `B z`, or
//! equivalently `ξ = A⁻¹ B z` to the input (`ξ = C⁻¹ z` for a square C). A [`Strategy`] says how sensitive C is,
//! how large the rows of B are, and streams the noise; matrices appear only in [`Strategy::materialize`], for
//! tests and small dense programs.
//!
//! Lower-triangularity is a property of the interface: a [`NoiseFilter`] makes the noise of step t before that
//! of step t+1 and never sees the data at all.

pub mod anytime;
pub mod banded;
pub mod blt;
pub mod group;
pub mod honaker;
pub mod identity;
pub mod optimal;
pub mod optimal_toeplitz;
mod row_norms;
pub mod scaled;
pub mod scaled_blt;
pub mod structured;
pub mod toeplitz;
pub mod tree;

use std::fmt;
use std::sync::Arc;

use ndarray::Array2;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::noise::{Side, UnitNoise};
use crate::sensitivity::{Footprint, Participation, Sensitivity};
use crate::workload::Workload;

pub use row_norms::RowNorms;

/// The two factors of a workload, as matrices: `decoder · strategy = A`.
#[derive(Debug, Clone, PartialEq)]
pub struct Factorization {
    /// B, with a row per release.
    pub decoder: Array2<f64>,
    /// C, with a row per measurement and a column per input.
    pub strategy: Array2<f64>,
}

/// What a strategy measures, by the structure that makes measuring live data cheap; see [`crate::exact`].
#[derive(Debug, Clone, PartialEq)]
pub enum Measurement {
    /// `C = T`, by its coefficients.
    Toeplitz(Vec<f64>),
    /// `C = D1 · T · D2` with D2 such that every column has the same norm.
    Scaled {
        /// The diagonal of D1.
        rows: Vec<f64>,
        /// The coefficients of T.
        coefficients: Vec<f64>,
    },
    /// The node of the binary tree that ends at each step and covers as many steps as its lowest digit is worth.
    LeftNodes,
    /// All complete nodes of the binary tree, in the order in which they become complete.
    AllNodes,
    /// A lower-triangular matrix without further structure.
    Dense(Array2<f64>),
}

/// A factorization `A = B C` of a workload over a known number of steps.
pub trait Strategy: fmt::Debug + Send + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// The workload A.
    fn workload(&self) -> &Workload;

    /// The number of steps n.
    fn steps(&self) -> usize;

    /// `Δ(C)²` for unit changes, computed from the coefficients in use and rounded up.
    ///
    /// # Errors
    /// When no proven bound can be computed (too large a matrix).
    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity>;

    /// `‖b_t‖²` for every step.
    ///
    /// # Errors
    /// When it would take a matrix that is too large.
    fn row_norms(&self) -> Result<RowNorms>;

    /// A fresh stream of the strategy's noise for vectors of the given dimension.
    ///
    /// # Errors
    /// What the numeric core refuses.
    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>>;

    /// The stream of [`Strategy::noise_filter`] with its state in single precision, for very long vectors; nothing for a
    /// strategy without a short memory.
    ///
    /// # Errors
    /// What the numeric core refuses.
    fn compact_filter(&self, _dimension: usize) -> Result<Option<Box<dyn NoiseFilter>>> {
        Ok(None)
    }

    /// The number of `f64` values a filter of the given dimension keeps.
    fn memory(&self, dimension: usize) -> usize;

    /// A lower bound on the error of every strategy under the participation that this one was built for, if building it
    /// proved one: the metric and the bound.
    fn proven_lower_bound(&self) -> Option<(Metric, f64)> {
        None
    }

    /// Both factors as matrices.
    ///
    /// # Errors
    /// More than [`MATERIALIZE_LIMIT`] steps.
    fn materialize(&self) -> Result<Factorization>;

    /// C, for releases that measure live data.
    ///
    /// # Errors
    /// More than [`MATERIALIZE_LIMIT`] steps without a structure, or a decoder that needs later measurements.
    fn measurement(&self) -> Result<Measurement> {
        Ok(Measurement::Dense(self.materialize()?.strategy))
    }
}

/// Refuses a strategy whose columns may have negative inner products where the footprint's proof needs them not to.
///
/// # Privacy
/// Entrywise non-negative matrices have non-negative inner products, and so have those whose Gram matrix says so beyond
/// its rounding error. What cannot be decided is refused.
///
/// # Errors
/// [`Error::NotApplicable`].
pub(crate) fn check_columns(strategy: &dyn Strategy, footprint: &Footprint) -> Result<()> {
    if !footprint.needs_non_negative_columns() {
        return Ok(());
    }
    let non_negative = |values: &[f64]| values.iter().all(|value| *value >= 0.0);
    let matrix_is_fine = |matrix: &Array2<f64>| {
        let gram = dp_linalg::dense::gram(matrix.view());
        let longest = gram.diag().iter().copied().fold(0.0, f64::max);
        let slack = longest * (matrix.nrows() as f64 + 8.0) * f64::EPSILON;
        matrix.iter().all(|value| *value >= 0.0) || gram.iter().all(|value| *value >= slack)
    };
    let fine = match strategy.measurement() {
        Ok(Measurement::Toeplitz(coefficients)) => non_negative(&coefficients),
        Ok(Measurement::Scaled { rows, coefficients }) => non_negative(&rows) && non_negative(&coefficients),
        Ok(Measurement::LeftNodes | Measurement::AllNodes) => true,
        Ok(Measurement::Dense(matrix)) => matrix_is_fine(&matrix),
        // What cannot be measured live can still be looked at.
        Err(_) => strategy.materialize().is_ok_and(|factors| matrix_is_fine(&factors.strategy)),
    };
    if fine {
        return Ok(());
    }
    Err(Error::NotApplicable {
        strategy: strategy.name(),
        workload: strategy.workload().to_string(),
        reason: "the encoding's sensitivity is proved for strategies whose columns have non-negative inner \
                 products only; use sqrt, blt or binary-tree with non-negative weights",
    })
}

/// The largest number of steps for which a strategy is written out as a matrix.
pub const MATERIALIZE_LIMIT: usize = 4096;

/// Refuses to write out a matrix that is too large.
pub(crate) fn check_materializable(steps: usize) -> Result<()> {
    if steps > MATERIALIZE_LIMIT {
        return Err(Error::TooLarge { what: "the matrix of a strategy", steps, limit: MATERIALIZE_LIMIT });
    }
    Ok(())
}

/// The state machine that turns rows of `z` into correlated noise.
pub trait NoiseFilter: Send {
    /// Whether [`NoiseFilter::next_into`] writes input noise `ξ_t` or output noise `(B z)_t`.
    fn side(&self) -> Side;

    /// Writes the noise of the next step, of unit σ. Nothing is allocated per step.
    ///
    /// # Errors
    /// What the numeric core refuses; never depends on data.
    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()>;

    /// Writes the noise of as many next steps as `out` holds rows of `dimension` coordinates: the same values as one step
    /// at a time, to the last bit.
    ///
    /// # Errors
    /// As [`NoiseFilter::next_into`].
    fn next_rows(&mut self, source: &mut dyn UnitNoise, dimension: usize, out: &mut [f64]) -> Result<()> {
        out.chunks_exact_mut(dimension).try_for_each(|row| self.next_into(source, row))
    }
}

/// `Σ_{k ≤ t} c_k²` for every t: the squared row norms of a lower-triangular Toeplitz matrix.
pub(crate) fn prefix_sums_of_squares(coefficients: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    coefficients
        .iter()
        .map(|coefficient| {
            sum += coefficient * coefficient;
            sum
        })
        .collect()
}

/// Which error counts, and to which the optimized strategies are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The mean squared error over all releases, `E2 = Δ² ‖B‖_F² / n`.
    #[default]
    Mse,
    /// The largest squared error of a release, `E∞ = Δ² max_t ‖b_t‖²`.
    Max,
}

impl Metric {
    /// The metric of a strategy's row norms, before the sensitivity.
    pub fn of(self, rows: &RowNorms) -> f64 {
        match self {
            Self::Mse => rows.mean(),
            Self::Max => rows.max(),
        }
    }

    /// The exponents of the power means of squared row norms that are minimized one after the other. The mean is itself;
    /// the maximum is approached through means that are smooth.
    pub(crate) fn power_means(self) -> &'static [i32] {
        match self {
            Self::Mse => &[1],
            Self::Max => &[16, 64, 256, 1000],
        }
    }
}

/// The candidate of least error, if there is one: `Δ²` under the participation times the metric of its rows.
///
/// # Errors
/// What the candidates refuse.
pub(crate) fn least<S: Strategy>(
    candidates: impl IntoIterator<Item = S>,
    participation: Participation,
    metric: Metric,
) -> Result<Option<S>> {
    let mut best: Option<(f64, S)> = None;
    for candidate in candidates {
        let error = candidate.sensitivity(participation)?.squared * metric.of(&candidate.row_norms()?);
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, candidate));
        }
    }
    Ok(best.map(|(_, candidate)| candidate))
}

/// The strategies that [`build`] knows, those that take longest to build last.
pub const NAMES: &[&str] = &[
    "sqrt",
    "blt",
    "scaled-blt",
    "group",
    "anytime",
    "honaker-full",
    "honaker-online",
    "binary-tree",
    "identity",
    "output",
    "banded",
    "banded-inverse",
    "normalized-sqrt",
    "scaled-sqrt",
    "optimal-toeplitz",
    "optimal",
    "structured",
];

/// Builds a strategy by name for a workload, horizon and participation (which the optimized ones are fitted to),
/// with the mean squared error as the aim.
///
/// # Errors
/// As [`build_for`].
pub fn build(
    name: &str,
    workload: &Workload,
    steps: usize,
    participation: Participation,
) -> Result<Arc<dyn Strategy>> {
    build_for(name, workload, steps, participation, Metric::Mse)
}

/// Builds a strategy by name; the optimized ones are fitted to the participation and the metric.
///
/// # Errors
/// An unknown name, zero steps, or a workload the strategy does not serve.
pub fn build_for(
    name: &str,
    workload: &Workload,
    steps: usize,
    participation: Participation,
    metric: Metric,
) -> Result<Arc<dyn Strategy>> {
    build_watched(name, workload, steps, participation, metric, &mut |_, _| ())
}

/// [`build_for`], with a report of what takes long: `progress` is called by the dense program after every
/// eigendecomposition, with their number and the relative gap that is left.
///
/// # Errors
/// As [`build_for`].
pub fn build_watched(
    name: &str,
    workload: &Workload,
    steps: usize,
    participation: Participation,
    metric: Metric,
    progress: &mut dyn FnMut(usize, f64),
) -> Result<Arc<dyn Strategy>> {
    Ok(match known_name(name)? {
        "sqrt" => Arc::new(toeplitz::sqrt(workload, steps)?),
        "normalized-sqrt" => Arc::new(scaled::normalized_repeated(workload, steps, participation, metric)?),
        "scaled-sqrt" => Arc::new(scaled::scaled_repeated(workload, steps, participation, metric)?),
        "optimal" => {
            Arc::new(optimal::Optimal::repeated_watched(workload, steps, participation, metric, progress)?)
        }
        "structured" => Arc::new(structured::Structured::repeated(workload, steps, participation, metric)?),
        "blt" => Arc::new(blt::blt(workload, steps, participation, metric)?),
        "scaled-blt" => Arc::new(scaled_blt::repeated(workload, steps, participation, metric)?),
        "banded" => Arc::new(banded::banded(workload, steps, participation, metric)?),
        "banded-inverse" => Arc::new(banded::banded_inverse(workload, steps, participation)?),
        "optimal-toeplitz" => {
            Arc::new(optimal_toeplitz::optimal_toeplitz(workload, steps, participation, metric)?)
        }
        "honaker-full" => Arc::new(honaker::Honaker::full(workload, steps)?),
        "honaker-online" => Arc::new(honaker::Honaker::online(workload, steps)?),
        "binary-tree" => Arc::new(tree::BinaryTree::new(workload, steps)?),
        "group" => Arc::new(group::Group::new(workload, steps)?),
        "anytime" => Arc::new(anytime::Anytime::new(workload, steps, anytime::DEFAULT_BETA)?),
        "identity" => Arc::new(identity::Independent::on_input(workload, steps)?),
        // `known_name` lets nothing else through.
        _ => Arc::new(identity::Independent::on_output(workload, steps)?),
    })
}

/// The name as the registry spells it.
///
/// # Errors
/// An unknown name.
pub fn known_name(name: &str) -> Result<&'static str> {
    NAMES.iter().find(|known| **known == name).copied().ok_or_else(|| Error::Parse {
        what: "strategy",
        text: name.to_owned(),
        expected: "one of the names that `plan` lists",
    })
}

/// The number of steps up to which the planner tries a strategy on its own account.
pub fn practical_limit(name: &str, participation: Participation) -> usize {
    match name {
        // The banded program takes some hundred products where the single one takes a handful of decompositions.
        "optimal" | "structured" if participation != Participation::Single => 1 << 9,
        // Seconds, at this size.
        "optimal" | "structured" => 1 << 10,
        "honaker-full" | "scaled-sqrt" | "normalized-sqrt" => 1 << 20,
        "optimal-toeplitz" => 1 << 17,
        _ => usize::MAX,
    }
}

/// Whether a strategy's noise filter keeps a value of every step for every coordinate, and not just a few.
pub fn remembers_every_step(name: &str) -> bool {
    matches!(
        name,
        "sqrt"
            | "normalized-sqrt"
            | "scaled-sqrt"
            | "optimal"
            | "optimal-toeplitz"
            | "group"
            | "anytime"
            | "honaker-full"
    )
}

/// Whether C is a Toeplitz matrix, whose sensitivity to repeated participation is read off its coefficients.
pub fn is_toeplitz(name: &str) -> bool {
    matches!(name, "sqrt" | "blt" | "banded" | "banded-inverse" | "optimal-toeplitz" | "identity")
}
