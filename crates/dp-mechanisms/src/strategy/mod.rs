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
mod coefficients;
pub mod group;
pub mod honaker;
pub mod identity;
mod method;
pub mod optimal;
pub mod optimal_toeplitz;
mod repeated;
mod row_norms;
pub mod scaled;
pub mod scaled_blt;
pub mod structured;
pub mod toeplitz;
pub mod tree;
mod watch;
pub mod weighted_tree;
mod windowed;

use std::fmt;
use std::sync::Arc;

use ndarray::Array2;

use crate::error::{Error, Result};
use crate::noise::{Side, UnitNoise};
use crate::problem::{Metric, Problem};
use crate::sensitivity::{Footprint, Participation, Sensitivity};
use crate::workload::Workload;

pub use coefficients::Coefficients;
pub use method::Method;
pub use row_norms::RowNorms;
use toeplitz::Core;
pub(crate) use watch::tell;
pub use watch::{Progress, Watch, unwatched};

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
    /// `C = T`.
    Toeplitz(Core),
    /// `C = D1 · T · D2`.
    Scaled {
        /// The diagonal of D1, positive.
        rows: Vec<f64>,
        /// T.
        core: Core,
        /// The diagonal of D2, positive; without one, such that every column has the same norm.
        columns: Option<Vec<f64>>,
    },
    /// The node of the binary tree that ends at each step and covers as many steps as its lowest digit is worth.
    LeftNodes,
    /// All complete nodes of the binary tree, in the order in which they become complete.
    AllNodes,
    /// Nodes of a tree with weights, in the order in which they become complete.
    WeightedNodes(weighted_tree::WeightedNodes),
    /// A lower-triangular matrix without further structure.
    Dense(Array2<f64>),
}

impl Measurement {
    /// The largest ℓ1 norm of a column, or an upper bound of it, rounded up.
    ///
    /// # Errors
    /// What the coefficients of the core refuse.
    fn absolute_column(&self, steps: usize) -> Result<f64> {
        let column = match self {
            Self::Toeplitz(core) => core.coefficients(steps)?.iter().map(|value| value.abs()).sum(),
            Self::Scaled { rows, core, columns } => {
                scaled_absolute_column(rows, &core.coefficients(steps)?, columns.as_deref())
            }
            Self::LeftNodes | Self::AllNodes => return Ok(dp_linalg::tree::levels(steps) as f64),
            Self::WeightedNodes(_) => return Ok(1.0),
            Self::Dense(matrix) => {
                let column = |column: ndarray::ArrayView1<'_, f64>| column.iter().map(|c| c.abs()).sum();
                matrix.columns().into_iter().map(column).fold(0.0, f64::max)
            }
        };
        // Additions of numbers of one sign round by at most half a unit each.
        Ok(column * (1.0 + (steps as f64 + 8.0) * f64::EPSILON))
    }
}

/// An upper bound on the ℓ1 norms of the columns of `D1 · T · D2`, whose ℓ2 norms are 1 where D2 is not given: exact up to
/// [`MATERIALIZE_LIMIT`] steps, and by what the diagonals hold at most beyond.
fn scaled_absolute_column(rows: &[f64], coefficients: &[f64], columns: Option<&[f64]>) -> f64 {
    let steps = rows.len();
    let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    if steps > MATERIALIZE_LIMIT {
        let sum: f64 = coefficients.iter().map(|value| value.abs()).sum();
        return columns.map_or((steps as f64).sqrt(), |columns| sum * largest(rows) * largest(columns));
    }
    let column = |j: usize| {
        let (mut absolute, mut squared) = (0.0, 0.0);
        for (row, coefficient) in rows[j..].iter().zip(coefficients) {
            let entry = row * coefficient;
            absolute += entry.abs();
            squared += entry * entry;
        }
        absolute * columns.map_or_else(|| 1.0 / squared.sqrt(), |columns| columns[j])
    };
    (0..steps).map(column).fold(0.0, f64::max)
}

/// A factorization `A = B C` of a workload over a known number of steps.
///
/// # Privacy
/// Whoever implements this is trusted. A [`crate::Plan`] draws z with `σ = Δ/μ` and adds what the filter makes of it, so the
/// guarantee holds if, and only if,
///
/// - [`Strategy::sensitivity`] is never below the true `Δ(C)²` under the participation, computed from the numbers in use and
///   rounded up, for changes of any sign by at most 1 in each of one person's steps, and for vectors as well as numbers;
/// - C is *the matrix that the filter undoes*: the noise of the release is `B z` with `B C = A` for that very C, every row
///   of z is used for the whole stream, and none is drawn twice;
/// - neither the noise nor what it costs depends on data: a filter sees z alone;
/// - two filters of one strategy make the same noise from the same z, to the last bit: a release that is continued depends on it.
///
/// Everything else ([`Strategy::row_norms`], [`Strategy::memory`], [`Strategy::materialize`]) can cost accuracy or
/// time and never privacy. [`crate::conformance::check`] looks for mistakes in all of it, and
/// [`Request::others`](crate::planner::Request::others) puts a strategy of your own beside those of this crate.
///
/// # Example
/// A strategy of one's own: every measurement is an input and a share of the one before it, `C = 1 + cx`.
/// ```
/// use std::sync::Arc;
/// use dp_mechanisms::conformance::check;
/// use dp_mechanisms::noise::UnitNoise;
/// use dp_mechanisms::planner::{Request, evaluate};
/// use dp_mechanisms::strategy::{Factorization, NoiseFilter, RowNorms};
/// use dp_mechanisms::{
///     Budget, Footprint, Participation, Plan, Problem, Relation, Result, Sensitivity, Side, Strategy, Workload,
/// };
/// use ndarray::Array2;
///
/// #[derive(Debug)]
/// struct Echo { workload: Workload, steps: usize, share: f64 }
///
/// struct EchoNoise { share: f64, row: usize, last: Vec<f64> }
///
/// impl NoiseFilter for EchoNoise {
///     fn side(&self) -> Side { Side::Input }
///     fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
///         source.fill_row(self.row, out);
///         self.row += 1;
///         for (noise, last) in out.iter_mut().zip(&mut self.last) {
///             *noise -= self.share * *last;
///             *last = *noise;
///         }
///         Ok(())
///     }
/// }
///
/// impl Strategy for Echo {
///     fn name(&self) -> &'static str { "echo" }
///     fn workload(&self) -> &Workload { &self.workload }
///     fn steps(&self) -> usize { self.steps }
///     fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
///         // A column is 1 and c below it, and several are together no longer than one after the other.
///         let longest = participation.times_within(self.steps) as f64 * self.share.hypot(1.0).next_up();
///         Ok(Sensitivity { squared: (longest * longest).next_up(), exact: false })
///     }
///     fn row_norms(&self) -> Result<RowNorms> {
///         Ok(RowNorms::exact(self.materialize()?.decoder.rows().into_iter().map(|row| row.dot(&row)).collect()))
///     }
///     fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
///         Ok(Box::new(EchoNoise { share: self.share, row: 0, last: vec![0.0; dimension] }))
///     }
///     fn memory(&self, dimension: usize) -> usize { dimension }
///     fn materialize(&self) -> Result<Factorization> {
///         let entry = |(i, j): (usize, usize)| if i == j { 1.0 } else if i == j + 1 { self.share } else { 0.0 };
///         let inverse = |(i, j): (usize, usize)| if i < j { 0.0 } else { (-self.share).powi((i - j) as i32) };
///         let square = (self.steps, self.steps);
///         let decoder = self.workload.materialize(self.steps)?.dot(&Array2::from_shape_fn(square, inverse));
///         Ok(Factorization { decoder, strategy: Array2::from_shape_fn(square, entry) })
///     }
/// }
///
/// let echo = |steps| -> Arc<dyn Strategy> { Arc::new(Echo { workload: Workload::count(), steps, share: 0.5 }) };
/// // A dozen steps are enough to find a mistake.
/// assert_eq!(check(echo(12).as_ref(), &[Participation::repeated(3, 4)?])?, Ok(()));
/// // It stands in the planner's table, here behind better ones, and runs like any other, in exact integers.
/// let report = evaluate(&Request { others: vec![echo(100)], ..Request::new(Problem::new(Workload::count(), 100)?) })?;
/// assert!(report.strategies.iter().any(|evaluation| evaluation.name == "echo"));
/// let person = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let plan = Plan::exact(&echo(100), person, Budget::approximate(1.0, 1e-6)?, 1.0)?;
/// assert!(plan.standard_deviation(100) > plan.standard_deviation(1));
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
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

    /// `Δ_1(C) = max ‖Σ ± C[:,j]‖_1` for unit changes, or a proven upper bound, rounded up: what Laplace noise of a pure
    /// budget grows with.
    ///
    /// # Privacy
    /// Several participations add up at most the longest columns, whatever their signs.
    ///
    /// # Errors
    /// A decoder that needs later measurements, for which Laplace noise has no guarantee on adaptive streams, or too large
    /// a matrix.
    fn absolute_sensitivity(&self, participation: Participation) -> Result<f64> {
        let times = participation.times_within(self.steps()) as f64;
        let measurement = self.measurement()?;
        if let Measurement::Dense(matrix) = &measurement
            && (!matrix.is_square() || matrix.indexed_iter().any(|((i, j), entry)| j > i && *entry != 0.0))
        {
            return Err(Error::NotApplicable {
                strategy: self.name(),
                workload: self.workload().to_string(),
                reason: "Laplace noise protects adaptive streams only where no measurement needs later inputs",
            });
        }
        Ok((times * measurement.absolute_column(self.steps())?).next_up())
    }

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

    /// The same matrix C and the same noise, read out by another workload: `B = A' C⁻¹`.
    ///
    /// # Errors
    /// [`Error::NotApplicable`] for a strategy whose noise is made for its own workload alone, which is the default.
    fn reading(&self, workload: &Workload) -> Result<Arc<dyn Strategy>> {
        Err(Error::NotApplicable {
            strategy: self.name(),
            workload: workload.to_string(),
            reason: "its noise is made for one workload alone",
        })
    }

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

    /// The numbers that the strategy is made of, by which a state knows it again; see [`Coefficients`]. Without them, which is the
    /// default, a state tells strategies apart by the noise that they make, and refuses one that comes out differently.
    fn coefficients(&self) -> Option<Coefficients> {
        None
    }

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
    let fine = match strategy.measurement() {
        Ok(Measurement::Toeplitz(core) | Measurement::Scaled { core, .. }) => {
            non_negative(&core.coefficients(strategy.steps())?)
        }
        Ok(Measurement::LeftNodes | Measurement::AllNodes | Measurement::WeightedNodes(_)) => true,
        Ok(Measurement::Dense(matrix)) => has_non_negative_products(&matrix),
        // What cannot be measured live can still be looked at.
        Err(_) => strategy.materialize().is_ok_and(|factors| has_non_negative_products(&factors.strategy)),
    };
    if fine { Ok(()) } else { Err(refused_columns(strategy)) }
}

/// Whether the columns of a matrix have non-negative inner products, beyond the rounding error of its Gram matrix.
pub(crate) fn has_non_negative_products(matrix: &Array2<f64>) -> bool {
    let gram = || dp_linalg::dense::gram(matrix.view());
    let beyond_rounding = |gram: Array2<f64>| {
        let longest = gram.diag().iter().copied().fold(0.0, f64::max);
        let slack = longest * (matrix.nrows() as f64 + 8.0) * f64::EPSILON;
        gram.iter().all(|value| *value >= slack)
    };
    matrix.iter().all(|value| *value >= 0.0) || beyond_rounding(gram())
}

/// Why a strategy is refused whose columns may work against each other.
pub(crate) fn refused_columns(strategy: &dyn Strategy) -> Error {
    Error::NotApplicable {
        strategy: strategy.name(),
        workload: strategy.workload().to_string(),
        reason: "the encoding's sensitivity is proved for strategies whose columns have non-negative inner \
                 products only; use sqrt, blt or binary-tree with non-negative weights",
    }
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

    /// How many steps of long vectors are best made by one [`NoiseFilter::next_rows`]: more than one where that saves time and to hold
    /// them takes no more than a quarter of what the filter keeps.
    fn rows_at_once(&self) -> usize {
        1
    }

    /// Appends the numbers from which the filter continues, exactly, and says whether it can: a filter without a short
    /// memory appends nothing.
    fn save(&self, _state: &mut Vec<f64>) -> bool {
        false
    }

    /// Continues a fresh filter of the same strategy and dimension from what [`NoiseFilter::save`] appended after so many
    /// steps.
    ///
    /// # Errors
    /// [`Error::State`]: a state of another length, or a filter that cannot be saved.
    fn restore(&mut self, _steps: usize, _state: &[f64]) -> Result<()> {
        Err(Error::State { reason: "noise without a short memory cannot be saved".to_owned() })
    }
}

/// Writes saved numbers back where they came from.
pub(crate) fn restore_into<T: dp_linalg::rational::Sample>(state: &[f64], into: &mut [T]) -> Result<()> {
    if state.len() != into.len() {
        return Err(Error::State {
            reason: format!("its noise has {} numbers, but {} are needed", state.len(), into.len()),
        });
    }
    into.iter_mut().zip(state).for_each(|(to, from)| *to = T::from_f64(*from));
    Ok(())
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

/// The candidate of least error for a problem, if there is one.
///
/// # Errors
/// What the candidates refuse.
pub(crate) fn least<S: Strategy>(
    candidates: impl IntoIterator<Item = S>,
    problem: &Problem,
) -> Result<Option<S>> {
    let mut best: Option<(f64, S)> = None;
    for candidate in candidates {
        let error = problem.error(&candidate)?;
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, candidate));
        }
    }
    Ok(best.map(|(_, candidate)| candidate))
}
