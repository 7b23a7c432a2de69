//! Strategies with a lower-triangular Toeplitz core T, optionally with scaled rows and columns:
//! `C = D1 · T · D2`.
//!
//! This one type carries the square root, its normalized and scaled versions, and every other strategy whose
//! core is a Toeplitz operator; they differ only in the [`Core`] and in the [`Scaling`].
//!
//! | quantity | without scaling | with scaling |
//! |---|---|---|
//! | sensitivity (single) | `Σ c_k²` | the columns are normalized: 1 |
//! | sensitivity (repeated) | see [`sensitivity::toeplitz`] | by what the columns are known to be |
//! | noise | `ξ = T⁻¹ z` | `ξ_t = (T⁻¹ D1⁻¹ z)_t / D2_t` |
//! | decoder | `b = a/c` | column i is A applied to `D2_j⁻¹ t⁻¹_{j-i} / d_i` |

mod applied;
mod core;
mod covariance;
mod filter;
mod pieces;
mod rows;
mod shape;
mod spectral;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dp_linalg::rational::Rational;
use dp_linalg::series;
use dp_linalg::toeplitz::BlockKernel;
use ndarray::Array2;

use super::optimal::of_normalized_columns;
use super::{
    Coefficients, Factorization, Measurement, NoiseFilter, RowNorms, Strategy, check_materializable,
};
use crate::error::{Error, Result, check_count};
use crate::problem::Problem;
use crate::sensitivity::{self, Participation, Sensitivity};
use crate::workload::Workload;

pub use core::Core;
pub(crate) use covariance::{column_norms, for_each_row_norm, has_recurrence};
use pieces::Pieces;
pub(crate) use pieces::{rough_row_norms, starts};
pub(crate) use rows::Readout;
pub use shape::Scaling;
use shape::{Columns, Shape, scaled_matrix};
pub(crate) use spectral::{root_coefficients, root_core};

/// `‖b_t‖²` of `C = D1 · T · D2` by the inverse series of T and the two diagonals, that of D2 inverted.
///
/// # Errors
/// What the numeric core refuses.
pub(crate) fn scaled_row_norms(
    workload: &Workload,
    inverse: &[f64],
    rows: Vec<f64>,
    column_norms: Vec<f64>,
) -> Result<RowNorms> {
    rows::scaled(workload, inverse, &Scaling { rows, column_norms })
}

/// `‖b_t‖²` of `C = T` by the inverse series of T.
///
/// # Errors
/// What the numeric core refuses.
pub(crate) fn row_norms(workload: &Workload, inverse: Vec<f64>) -> Result<RowNorms> {
    rows::unscaled(workload, inverse)
}

/// Above this many steps the norms of a rational core are closed forms and not sums.
const CLOSED_FORM_FROM: usize = 1 << 16;

/// The closed form is accurate to 1e-12 for weights of one sign, where nothing cancels; this is added to stay on the private
/// side.
const CLOSED_FORM_MARGIN: f64 = 1.0 + 1e-10;

/// What is left of rounding when normalized columns are multiplied out again.
const NORMALIZED_SQUARED_SENSITIVITY: f64 = 1.0 + 1e-14;

/// A strategy with a Toeplitz core.
///
/// # Privacy
/// The sensitivity is that of the coefficients, rounded up, times what the inverse that the stream applies may differ from
/// theirs (`applied` in this module's source has the proof); an inverse that has lost its digits is refused.
///
/// # Complexity
/// Noise: O(n log n) in all for a full core of a known horizon, O(buffers) or O(bands) per step otherwise.
#[derive(Debug, Clone)]
pub struct ToeplitzStrategy {
    name: &'static str,
    workload: Workload,
    steps: usize,
    shape: Shape,
    /// An upper bound of `‖c·g - 1‖_1` for the inverse g that the stream applies.
    residual: f64,
    /// The spectrum of the inverse, made by the first stream and shared by all.
    kernel: OnceLock<Arc<BlockKernel>>,
    known: Arc<Mutex<Known>>,
}

/// What was computed already and takes long, shared by all readings of a strategy, for a plan asks for the same several times.
#[derive(Debug, Default)]
struct Known {
    /// Interpolated row norms by workload: dozens of transforms of the whole horizon.
    rows: Vec<(Workload, RowNorms)>,
    /// Sensitivities by way of a Gram matrix.
    sensitivities: Vec<(Participation, Sensitivity)>,
}

impl ToeplitzStrategy {
    /// `C = T`.
    ///
    /// # Errors
    /// Zero steps, or a core whose inverse has lost its digits.
    pub fn plain(name: &'static str, workload: &Workload, steps: usize, core: Core) -> Result<Self> {
        Self::new(name, workload, steps, Shape::Plain(core))
    }

    /// Every strategy is made here, so that none is undone by an inverse without digits.
    fn new(name: &'static str, workload: &Workload, steps: usize, shape: Shape) -> Result<Self> {
        check_count("steps", steps)?;
        let residual = applied::residual(&shape.core(), name, workload, steps)?;
        let (workload, kernel, known) = (workload.clone(), OnceLock::new(), Arc::default());
        Ok(Self { name, workload, steps, shape, residual, kernel, known })
    }

    /// [`Self::new`] with tables.
    fn of_tables(
        name: &'static str,
        workload: &Workload,
        core: Core,
        scaling: Scaling,
        columns: Columns,
    ) -> Result<Self> {
        let steps = scaling.rows.len();
        Self::new(name, workload, steps, Shape::Tables(core, Arc::new(scaling), columns))
    }

    /// `C = D1 · T · D2` with the given diagonal of D1, and D2 such that every column has norm 1.
    ///
    /// # Errors
    /// Rows that are not as many as steps, or not all finite and positive, or a core whose inverse has lost its digits.
    pub fn normalized(
        name: &'static str,
        workload: &Workload,
        steps: usize,
        core: Core,
        rows: Vec<f64>,
    ) -> Result<Self> {
        check_diagonal("the row scaling", &rows, steps)?;
        let scaling = Scaling::of_core(&core, rows)?;
        Self::of_tables(name, workload, core, scaling, Columns::Normalized)
    }

    /// [`ToeplitzStrategy::normalized`] with a rational core and the diagonal of D1 by the logarithm of its entries, which vary
    /// smoothly in the logit of time. Long horizons take no tables: there D1 is geometric in pieces.
    ///
    /// # Errors
    /// Zero steps, or a diagonal that is not finite and positive.
    pub(crate) fn smooth(
        name: &'static str,
        workload: &Workload,
        steps: usize,
        core: Rational,
        log_row: impl Fn(usize) -> f64,
    ) -> Result<Self> {
        check_count("steps", steps)?;
        if steps > CLOSED_FORM_FROM
            && let Some(pieces) = Pieces::new(&core, &log_row, steps)
        {
            return Self::new(name, workload, steps, Shape::Pieces(core, Arc::new(pieces)));
        }
        let rows = (0..steps).map(|step| log_row(step).exp()).collect();
        Self::normalized(name, workload, steps, Core::Rational(core), rows)
    }

    /// `C = D1 · T · D2` with the given diagonal of D1, and D2 such that the columns have the given norms.
    ///
    /// # Errors
    /// Rows or lengths that are not as many as steps, or not all finite and positive.
    pub(crate) fn of_lengths(
        name: &'static str,
        workload: &Workload,
        steps: usize,
        core: Core,
        rows: Vec<f64>,
        lengths: Vec<f64>,
    ) -> Result<Self> {
        check_diagonal("the row scaling", &rows, steps)?;
        check_diagonal("the column norms", &lengths, steps)?;
        let scaling = Scaling::of_core(&core, rows)?.with_lengths(&lengths);
        Self::of_tables(name, workload, core, scaling, Columns::Lengths(lengths))
    }

    /// `C = D1 · T · D2` with the given diagonals, if nothing in it increases in time.
    ///
    /// # Errors
    /// Diagonals that are not as many as steps, or not all finite and positive.
    pub(crate) fn non_increasing(
        name: &'static str,
        workload: &Workload,
        steps: usize,
        core: Core,
        rows: Vec<f64>,
        columns: Vec<f64>,
    ) -> Result<Option<Self>> {
        check_diagonal("the row scaling", &rows, steps)?;
        check_diagonal("the column scaling", &columns, steps)?;
        let coefficients = core.coefficients(steps)?;
        let falls = |values: &[f64]| values.windows(2).all(|pair| pair[0] >= pair[1]);
        let positive = coefficients.last().is_some_and(|last| *last >= 0.0);
        if !(positive && falls(&coefficients) && falls(&rows) && falls(&columns)) {
            return Ok(None);
        }
        let column_norms = columns.iter().map(|column| 1.0 / column).collect();
        let scaling = Scaling { rows, column_norms };
        Self::of_tables(name, workload, core, scaling, Columns::NonIncreasing(columns)).map(Some)
    }

    /// The strategy that measures what [`Strategy::measurement`] said of one with a Toeplitz core, without fitting anything
    /// again: what a saved plan needs. Its sensitivity is computed anew.
    ///
    /// # Errors
    /// A measurement without a Toeplitz core, or what the other constructors refuse.
    pub fn measuring(
        name: &'static str,
        workload: &Workload,
        steps: usize,
        measurement: Measurement,
    ) -> Result<Self> {
        let (rows, core, columns) = match measurement {
            Measurement::Toeplitz(core) => return Self::plain(name, workload, steps, core),
            Measurement::Scaled { rows, core, columns: None } => {
                return Self::normalized(name, workload, steps, core, rows);
            }
            Measurement::Scaled { rows, core, columns: Some(columns) } => (rows, core, columns),
            _ => {
                return Err(Error::NotApplicable {
                    strategy: name,
                    workload: workload.to_string(),
                    reason: "what it measures has no Toeplitz core",
                });
            }
        };
        let known = Self::non_increasing(name, workload, steps, core.clone(), rows.clone(), columns.clone())?;
        if let Some(strategy) = known {
            return Ok(strategy);
        }
        let norms = Scaling::of_core(&core, rows.clone())?.column_norms;
        let lengths = norms.iter().zip(&columns).map(|(norm, column)| (norm * column).next_up());
        Self::of_lengths(name, workload, steps, core, rows, lengths.collect())
    }

    /// The strategy that consists of the numbers of [`Strategy::coefficients`].
    ///
    /// # Errors
    /// [`Error::State`] for lists that are missing or of another length.
    pub(crate) fn of_coefficients(
        name: &'static str,
        workload: &Workload,
        steps: usize,
        saved: &Coefficients,
    ) -> Result<Self> {
        check_count("steps", steps)?;
        Ok(Self {
            name,
            workload: workload.clone(),
            steps,
            shape: Shape::of_coefficients(saved, steps)?,
            residual: saved.number("residual")?,
            kernel: OnceLock::new(),
            known: Arc::default(),
        })
    }

    /// For scaled columns of known norms, 1 unless given. Under several participations exact if the bands keep those that
    /// can meet apart, from the Gram matrix where that is affordable, and by the triangle inequality otherwise.
    fn sensitivity_of_lengths(
        &self,
        lengths: Option<&[f64]>,
        participation: Participation,
    ) -> Result<Sensitivity> {
        let times = participation.times_within(self.steps);
        let square = |length: &f64| length * length * NORMALIZED_SQUARED_SENSITIVITY;
        let longest = lengths.unwrap_or(&[1.0]).iter().map(square).fold(0.0, f64::max);
        if times <= 1 {
            return Ok(Sensitivity::exact(longest));
        }
        if let Core::Banded(band) = self.core().as_ref()
            && band.len() <= participation.separation()
        {
            let squared = match lengths {
                Some(lengths) => lengths.iter().map(square).collect(),
                None => vec![longest; self.steps],
            };
            return Ok(sensitivity::orthogonal_columns(&squared, participation));
        }
        if self.steps > sensitivity::DENSE_LIMIT {
            return Ok(Sensitivity::upper_bound(sensitivity::triangle_bound(times, longest)));
        }
        if let Some((_, computed)) = self.known().sensitivities.iter().find(|(of, _)| *of == participation) {
            return Ok(*computed);
        }
        let computed = sensitivity::dense(self.strategy_matrix()?.view(), participation)?;
        // Two machines must arrive at the same, whatever the last bits of a dense product are.
        let computed = of_normalized_columns(computed, times);
        self.known().sensitivities.push((participation, computed));
        Ok(computed)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A squared sensitivity of the coefficients, with what the applied inverse may add to it.
    pub(crate) fn charged(&self, squared: f64, participation: Participation) -> f64 {
        if self.residual == 0.0 {
            return squared;
        }
        let spread = self.shape.scaling().map_or(1.0, |scaling| applied::spread(&scaling));
        let times = participation.times_within(self.steps);
        (squared * applied::charge(self.residual, spread, times)).next_up()
    }

    /// That of the coefficients c, whose inverse the stream applies up to the residual.
    fn sensitivity_of_coefficients(&self, participation: Participation) -> Result<Sensitivity> {
        match &self.shape {
            Shape::Plain(Core::Rational(rational))
                if self.steps > CLOSED_FORM_FROM
                    && covariance::nothing_cancels(rational)
                    && participation.times_within(self.steps) <= 1 =>
            {
                Ok(Sensitivity::exact(rational.sum_of_squares(self.steps) * CLOSED_FORM_MARGIN))
            }
            Shape::Plain(core) => Ok(sensitivity::toeplitz(&core.coefficients(self.steps)?, participation)),
            Shape::Tables(_, _, Columns::Normalized) | Shape::Pieces(..) => {
                self.sensitivity_of_lengths(None, participation)
            }
            Shape::Tables(_, _, Columns::Lengths(lengths)) => {
                self.sensitivity_of_lengths(Some(lengths), participation)
            }
            Shape::Tables(core, scaling, Columns::NonIncreasing(columns)) => {
                let coefficients = core.coefficients(self.steps)?;
                // The stream divides by the reciprocal of the diagonal, which rounds.
                let bound = sensitivity::non_increasing(&coefficients, &scaling.rows, columns, participation);
                Ok(Sensitivity::exact(bound.squared * NORMALIZED_SQUARED_SENSITIVITY))
            }
        }
    }

    fn compute_row_norms(&self) -> Result<RowNorms> {
        let steps = self.steps;
        let by_recursion = |core: &Rational, scaling: &Scaling| -> Result<RowNorms> {
            let mut squared = Vec::with_capacity(steps);
            let (inverse, Scaling { rows, column_norms }) = (core.inverse()?, scaling);
            let visit = |norm| squared.push(norm);
            covariance::for_each_row_norm(&self.workload, &inverse, rows, column_norms, visit);
            Ok(RowNorms::exact(squared))
        };
        let recurs = covariance::has_recurrence(&self.workload);
        match &self.shape {
            Shape::Plain(core) => {
                if let Core::Rational(rational) = core
                    && steps > CLOSED_FORM_FROM
                    && let Some(rows) = rows::closed_form(&self.workload, rational, steps)
                {
                    return Ok(rows);
                }
                rows::unscaled(&self.workload, core.inverse(steps)?)
            }
            Shape::Pieces(core, pieces) if covariance::leaps(&self.workload) => {
                Ok(pieces.row_norms(&self.workload, &core.inverse()?))
            }
            Shape::Pieces(core, pieces) if recurs => by_recursion(core, &pieces.tables()),
            Shape::Pieces(core, pieces) => {
                rows::scaled(&self.workload, &core.inverse()?.coefficients(steps), &pieces.tables())
            }
            Shape::Tables(Core::Rational(core), scaling, _) if recurs => by_recursion(core, scaling),
            Shape::Tables(..) if self.workload.is_average() && steps > rows::EXACT_LIMIT => {
                Ok(rows::divided(&self.workload, &self.reading(&Workload::count())?.row_norms()?))
            }
            Shape::Tables(core, scaling, _) => rows::scaled(&self.workload, &core.inverse(steps)?, scaling),
        }
    }

    /// C as a matrix.
    fn strategy_matrix(&self) -> Result<Array2<f64>> {
        let coefficients = self.core().coefficients(self.steps)?;
        Ok(match self.shape.scaling() {
            None => lower(&coefficients),
            Some(scaling) => scaled_matrix(&coefficients, &scaling),
        })
    }

    /// Whether there are diagonals around T.
    pub(crate) fn is_scaled(&self) -> bool {
        !matches!(self.shape, Shape::Plain(_))
    }

    /// The core T.
    pub fn core(&self) -> Cow<'_, Core> {
        self.shape.core()
    }
}

impl Strategy for ToeplitzStrategy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn workload(&self) -> &Workload {
        &self.workload
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
        let Sensitivity { squared, exact } = self.sensitivity_of_coefficients(participation)?;
        Ok(Sensitivity { squared: self.charged(squared, participation), exact })
    }

    fn row_norms(&self) -> Result<RowNorms> {
        if let Some((_, rows)) = self.known().rows.iter().find(|(workload, _)| *workload == self.workload) {
            return Ok(rows.clone());
        }
        let rows = self.compute_row_norms()?;
        // What is exact is a table, too long to keep, or a closed form, too quick to.
        if !rows.is_exact() {
            self.known().rows.push((self.workload.clone(), rows.clone()));
        }
        Ok(rows)
    }

    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        filter::build(&self.shape, &self.kernel, self.steps, dimension)
    }

    fn compact_filter(&self, dimension: usize) -> Result<Option<Box<dyn NoiseFilter>>> {
        filter::recurrence::<f32>(&self.shape, self.steps, dimension)
    }

    fn memory(&self, dimension: usize) -> usize {
        let per_coordinate = match self.core().as_ref() {
            Core::Full { .. } => BlockKernel::memory(self.steps),
            Core::Rational(rational) => rational.buffers(),
            Core::Windowed { rational, comb } => rational.buffers() + comb.width(),
            Core::Banded(band) | Core::BandedInverse(band) => band.len().min(self.steps) - 1,
        };
        per_coordinate * dimension + self.shape.memory()
    }

    fn reading(&self, workload: &Workload) -> Result<Arc<dyn Strategy>> {
        Ok(Arc::new(Self { workload: workload.clone(), ..self.clone() }))
    }

    fn measurement(&self) -> Result<Measurement> {
        Ok(self.shape.measurement())
    }

    fn coefficients(&self) -> Option<Coefficients> {
        Some(self.shape.save().with("residual", [self.residual]))
    }

    fn materialize(&self) -> Result<Factorization> {
        check_materializable(self.steps)?;
        let mut inverse = lower(&self.core().inverse(self.steps)?);
        if let Some(scaling) = self.shape.scaling() {
            for ((i, j), value) in inverse.indexed_iter_mut() {
                *value *= scaling.column_norms[i] / scaling.rows[j];
            }
        }
        let workload = self.workload.materialize(self.steps)?;
        let decoder = dp_linalg::dense::matmul(workload.view(), inverse.view());
        Ok(Factorization { decoder, strategy: self.strategy_matrix()? })
    }
}

/// T as a matrix, by its coefficients.
fn lower(series: &[f64]) -> Array2<f64> {
    let entry = |(i, j): (usize, usize)| if i >= j { series[i - j] } else { 0.0 };
    Array2::from_shape_fn((series.len(), series.len()), entry)
}

/// Refuses a diagonal that is not as long as the stream, or not positive.
fn check_diagonal(what: &'static str, values: &[f64], steps: usize) -> Result<()> {
    if values.len() != steps {
        return Err(Error::Dimension { what, expected: steps, actual: values.len() });
    }
    for value in values {
        crate::error::check_positive(what, *value)?;
    }
    Ok(())
}

/// The core of the square-root strategies.
///
/// # Errors
/// Weights whose series has no square root.
pub fn sqrt_core(workload: &Workload, steps: usize) -> Result<Core> {
    check_count("steps", steps)?;
    let coefficients = workload.root_series(steps)?;
    // The closed form is accurate in every coefficient, however small.
    let inverse = if workload.is_prefix_sum() {
        series::binomial(-0.5, steps)
    } else {
        series::inverse(&coefficients, steps)?
    };
    Ok(Core::Full { coefficients, inverse })
}

/// `C = sqrt(A)`: the square root of the workload's generating function, so that `B = C` for a Toeplitz workload. For several
/// statistics, the root of the series whose spectrum is `Σ w_i |a_i|²`.
///
/// # Errors
/// Weights whose series has no square root.
pub fn sqrt(problem: &Problem) -> Result<ToeplitzStrategy> {
    let (workload, steps) = (problem.workload(), problem.steps());
    ToeplitzStrategy::plain("sqrt", workload, steps, root_core(problem.statistics(), steps)?)
}
