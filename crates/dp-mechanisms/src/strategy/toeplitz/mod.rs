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
mod covariance;
mod filter;
mod pieces;
mod rows;
mod spectral;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use dp_linalg::rational::Rational;
use dp_linalg::toeplitz::BlockKernel;
use dp_linalg::{fft, series};
use ndarray::Array2;

use super::{
    Coefficients, Factorization, Measurement, NoiseFilter, RowNorms, Strategy, check_materializable,
};
use crate::error::{Error, Result, check_count};
use crate::problem::Problem;
use crate::sensitivity::{self, Participation, Sensitivity};
use crate::workload::Workload;

pub(crate) use covariance::{column_norms, for_each_row_norm, has_recurrence};
use pieces::Pieces;
pub(crate) use rows::Readout;
pub(crate) use spectral::{root_coefficients, root_core};

/// A lower-triangular Toeplitz operator, by what makes it cheap to invert on a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Core {
    /// All coefficients of T and of its inverse; the noise is a convolution with the latter.
    Full {
        /// `c_0 … c_{n-1}`.
        coefficients: Vec<f64>,
        /// The coefficients of `1/c(x)`.
        inverse: Vec<f64>,
    },
    /// A rational generating function: one buffer per pole.
    Rational(Rational),
    /// `c_k = 0` for k ≥ b: forward substitution over the last b-1 values of ξ.
    Banded(Vec<f64>),
    /// The inverse has b coefficients: a finite filter over the last b values of z.
    BandedInverse(Vec<f64>),
}

impl Core {
    /// A core from its coefficients, with the inverse computed from them.
    ///
    /// # Errors
    /// Coefficients that are not finite or start with zero.
    pub fn full(coefficients: Vec<f64>) -> Result<Self> {
        let inverse = series::inverse(&coefficients, coefficients.len())?;
        Ok(Self::Full { coefficients, inverse })
    }

    fn save(&self) -> Coefficients {
        let none = Coefficients::none();
        match self {
            Self::Full { coefficients, inverse } => {
                none.with("coefficients", coefficients.as_slice()).with("inverse", inverse.as_slice())
            }
            Self::Rational(rational) => none.with("theta", rational.theta()).with("omega", rational.omega()),
            Self::Banded(band) => none.with("band", band.as_slice()),
            Self::BandedInverse(band) => none.with("inverse band", band.as_slice()),
        }
    }

    fn of_coefficients(saved: &Coefficients, steps: usize) -> Result<Self> {
        let band = |name: &str| match saved.list(name) {
            Ok(band) if band.is_empty() => {
                Err(Error::State { reason: "its strategy has no bands".to_owned() })
            }
            band => band,
        };
        if saved.get("theta").is_some() {
            return Ok(Self::Rational(Rational::new(saved.list("theta")?, saved.list("omega")?)?));
        }
        if saved.get("band").is_some() {
            return Ok(Self::Banded(band("band")?));
        }
        if saved.get("inverse band").is_some() {
            return Ok(Self::BandedInverse(band("inverse band")?));
        }
        let coefficients = saved.list_of("coefficients", steps)?;
        Ok(Self::Full { coefficients, inverse: saved.list_of("inverse", steps)? })
    }

    /// The first `steps` coefficients of T.
    pub(crate) fn coefficients(&self, steps: usize) -> Result<Vec<f64>> {
        Ok(match self {
            Self::Full { coefficients, .. } => coefficients[..steps].to_vec(),
            Self::Rational(rational) => rational.coefficients(steps),
            Self::Banded(band) => padded(band, steps),
            Self::BandedInverse(band) => series::inverse(&padded(band, steps), steps)?,
        })
    }

    /// The first `steps` coefficients of the inverse of T.
    pub(crate) fn inverse(&self, steps: usize) -> Result<Vec<f64>> {
        Ok(match self {
            Self::Full { inverse, .. } => inverse[..steps].to_vec(),
            Self::Rational(rational) => rational.inverse()?.coefficients(steps),
            Self::Banded(band) => series::inverse(&padded(band, steps), steps)?,
            Self::BandedInverse(band) => padded(band, steps),
        })
    }
}

/// A short list of coefficients, continued by zeros.
fn padded(band: &[f64], steps: usize) -> Vec<f64> {
    let mut coefficients: Vec<f64> = band.iter().copied().take(steps).collect();
    coefficients.resize(steps, 0.0);
    coefficients
}

/// The diagonal matrices of `C = D1 · T · D2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The diagonal of D1.
    rows: Vec<f64>,
    /// The diagonal of `D2⁻¹`: upper bounds of the column norms of `D1 · T`.
    column_norms: Vec<f64>,
}

impl Scaling {
    /// [`Scaling::normalizing`] by the cheapest way that the core allows.
    fn of_core(core: &Core, rows: Vec<f64>) -> Result<Self> {
        match core {
            Core::Rational(rational) if covariance::nothing_cancels(rational) => {
                let column_norms = covariance::column_norms(rational, &rows);
                Ok(Self { rows, column_norms })
            }
            _ => Ok(Self::normalizing(&core.coefficients(rows.len())?, rows)),
        }
    }

    /// The same with columns of at most the given norms in place of 1.
    pub(crate) fn with_lengths(mut self, lengths: &[f64]) -> Self {
        for (norm, length) in self.column_norms.iter_mut().zip(lengths) {
            *norm = (*norm / length).next_up();
        }
        self
    }

    /// Any positive diagonals: that of D1, and that of D2 inverted.
    pub(crate) fn of_diagonals(rows: Vec<f64>, column_norms: Vec<f64>) -> Self {
        Self { rows, column_norms }
    }

    /// The scaling with the given positive rows whose columns make `D1 · T · D2` have columns of norm at most 1.
    ///
    /// # Privacy
    /// Column norms are sums `Σ_k d_{j+k}² c_k²` of non-negative terms. They are computed directly for short
    /// horizons and by one FFT correlation for long ones; a bound on the rounding error of either is added
    /// before the root is taken, so the norms are never underestimated.
    pub(crate) fn normalizing(coefficients: &[f64], rows: Vec<f64>) -> Self {
        Self::normalizing_above(DIRECT_LIMIT, coefficients, rows)
    }

    /// As [`Scaling::normalizing`], summed directly up to the given number of steps and by FFT above it.
    pub(crate) fn normalizing_above(direct: usize, coefficients: &[f64], rows: Vec<f64>) -> Self {
        let steps = rows.len();
        let squared_rows: Vec<f64> = rows.iter().map(|d| d * d).collect();
        let squared: Vec<f64> = coefficients.iter().map(|c| c * c).collect();
        let energy = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let (sums, absolute, relative) = if steps <= direct {
            let sums = (0..steps)
                .map(|j| squared_rows[j..].iter().zip(&squared).map(|(d, c)| d * c).sum())
                .collect();
            (sums, 0.0, (steps as f64 + 8.0) * f64::EPSILON)
        } else {
            let sums = fft::correlate(&squared_rows, &squared);
            let depth = (steps as f64).log2() + 4.0;
            (sums, 16.0 * depth * f64::EPSILON * energy(&squared_rows) * energy(&squared), 1e-15)
        };
        let column_norms = sums
            .iter()
            .map(|sum: &f64| ((sum.max(0.0) + absolute) * (1.0 + relative)).sqrt().next_up())
            .collect();
        Self { rows, column_norms }
    }
}

/// The diagonals of a strategy: as tables with what is known of the columns, or in closed form where the horizon is long and
/// every column has norm 1.
#[derive(Debug, Clone, PartialEq)]
enum Diagonals {
    Tables(Scaling, Columns),
    Pieces(Pieces),
}

impl Diagonals {
    fn tables(&self) -> Cow<'_, Scaling> {
        match self {
            Self::Tables(scaling, _) => Cow::Borrowed(scaling),
            Self::Pieces(pieces) => Cow::Owned(pieces.tables()),
        }
    }

    fn columns(&self) -> &Columns {
        match self {
            Self::Tables(_, columns) => columns,
            Self::Pieces(_) => &Columns::Normalized,
        }
    }

    /// The number of values kept.
    fn memory(&self) -> usize {
        match self {
            Self::Tables(scaling, _) => scaling.rows.len() + scaling.column_norms.len(),
            Self::Pieces(pieces) => pieces.memory(),
        }
    }
}

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

/// What is known of the columns of a scaled strategy, beside the diagonals themselves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Columns {
    /// All have norm 1.
    Normalized,
    /// They have the given norms.
    Lengths(Vec<f64>),
    /// Nothing in `D1 · T · D2` increases in time, and this is the diagonal of D2.
    NonIncreasing(Vec<f64>),
}

/// Up to this many steps the column norms are summed directly.
const DIRECT_LIMIT: usize = 4096;

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
    core: Core,
    scaling: Option<Arc<Diagonals>>,
    /// An upper bound of `‖c·g - 1‖_1` for the inverse g that the stream applies.
    residual: f64,
    /// The spectrum of the inverse, made by the first stream and shared by all.
    kernel: OnceLock<Arc<BlockKernel>>,
}

impl ToeplitzStrategy {
    /// `C = T`.
    ///
    /// # Errors
    /// Zero steps, or a core whose inverse has lost its digits.
    pub fn plain(name: &'static str, workload: &Workload, steps: usize, core: Core) -> Result<Self> {
        check_count("steps", steps)?;
        let residual = applied::residual(&core, name, workload, steps)?;
        Ok(Self {
            name,
            workload: workload.clone(),
            steps,
            core,
            scaling: None,
            residual,
            kernel: OnceLock::new(),
        })
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
        let residual = applied::residual(&core, name, workload, steps)?;
        let scaling = Diagonals::Tables(Scaling::of_core(&core, rows)?, Columns::Normalized);
        let strategy = Self::scaled(name, workload, steps, core, scaling);
        Ok(Self { residual, ..strategy })
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
            let (core, scaling) = (Core::Rational(core), Diagonals::Pieces(pieces));
            return Ok(Self::scaled(name, workload, steps, core, scaling));
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
        let scaling = Diagonals::Tables(scaling, Columns::Lengths(lengths));
        Ok(Self::scaled(name, workload, steps, core, scaling))
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
        let scaling = Diagonals::Tables(Scaling { rows, column_norms }, Columns::NonIncreasing(columns));
        Ok(Some(Self::scaled(name, workload, steps, core, scaling)))
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

    fn scaled(name: &'static str, workload: &Workload, steps: usize, core: Core, scaling: Diagonals) -> Self {
        let (workload, kernel) = (workload.clone(), OnceLock::new());
        let scaling = Some(Arc::new(scaling));
        Self { name, workload, steps, core, scaling, residual: 0.0, kernel }
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
        let core = Core::of_coefficients(saved, steps)?;
        let scaling = if let Core::Rational(core) = &core
            && let Some(pieces) = Pieces::of_coefficients(core, steps, saved)?
        {
            Some(Diagonals::Pieces(pieces))
        } else if saved.get("rows").is_some() {
            let column_norms = saved.list_of("column norms", steps)?;
            let scaling = Scaling { rows: saved.list_of("rows", steps)?, column_norms };
            let columns = if saved.get("lengths").is_some() {
                Columns::Lengths(saved.list_of("lengths", steps)?)
            } else if saved.get("columns").is_some() {
                Columns::NonIncreasing(saved.list_of("columns", steps)?)
            } else {
                Columns::Normalized
            };
            Some(Diagonals::Tables(scaling, columns))
        } else {
            None
        };
        Ok(Self {
            name,
            workload: workload.clone(),
            steps,
            core,
            scaling: scaling.map(Arc::new),
            residual: saved.number("residual")?,
            kernel: OnceLock::new(),
        })
    }

    /// For scaled columns of known norms, 1 unless given. Under several participations exact if the bands keep those that
    /// can meet apart, from the Gram matrix where that is affordable, and by the triangle inequality otherwise.
    fn sensitivity_of_lengths(
        &self,
        scaling: &Diagonals,
        lengths: Option<&[f64]>,
        participation: Participation,
    ) -> Result<Sensitivity> {
        let times = participation.times_within(self.steps);
        let square = |length: &f64| length * length * NORMALIZED_SQUARED_SENSITIVITY;
        let longest = lengths.unwrap_or(&[1.0]).iter().map(square).fold(0.0, f64::max);
        if times <= 1 {
            return Ok(Sensitivity::exact(longest));
        }
        if let Core::Banded(band) = &self.core
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
        let matrix = scaled_matrix(&self.core.coefficients(self.steps)?, &scaling.tables());
        sensitivity::dense(matrix.view(), participation)
    }

    /// A squared sensitivity of the coefficients, with what the applied inverse may add to it.
    pub(crate) fn charged(&self, squared: f64, participation: Participation) -> f64 {
        if self.residual == 0.0 {
            return squared;
        }
        let spread = self.scaling.as_ref().map_or(1.0, |scaling| applied::spread(&scaling.tables()));
        let times = participation.times_within(self.steps);
        (squared * applied::charge(self.residual, spread, times)).next_up()
    }

    /// That of the coefficients c, whose inverse the stream applies up to the residual.
    fn sensitivity_of_coefficients(&self, participation: Participation) -> Result<Sensitivity> {
        let Some(scaling) = &self.scaling else {
            if let Core::Rational(rational) = &self.core
                && self.steps > CLOSED_FORM_FROM
                && covariance::nothing_cancels(rational)
                && participation.times_within(self.steps) <= 1
            {
                return Ok(Sensitivity::exact(rational.sum_of_squares(self.steps) * CLOSED_FORM_MARGIN));
            }
            return Ok(sensitivity::toeplitz(&self.core.coefficients(self.steps)?, participation));
        };
        match scaling.columns() {
            Columns::Normalized => self.sensitivity_of_lengths(scaling, None, participation),
            Columns::Lengths(lengths) => self.sensitivity_of_lengths(scaling, Some(lengths), participation),
            Columns::NonIncreasing(columns) => {
                let coefficients = self.core.coefficients(self.steps)?;
                // The stream divides by the reciprocal of the diagonal, which rounds.
                let rows = &scaling.tables().rows;
                let bound = sensitivity::non_increasing(&coefficients, rows, columns, participation);
                Ok(Sensitivity::exact(bound.squared * NORMALIZED_SQUARED_SENSITIVITY))
            }
        }
    }

    /// The core T.
    pub fn core(&self) -> &Core {
        &self.core
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
        if let (None, Core::Rational(core)) = (&self.scaling, &self.core)
            && self.steps > CLOSED_FORM_FROM
            && let Some(rows) = rows::closed_form(&self.workload, core, self.steps)
        {
            return Ok(rows);
        }
        let Some(scaling) = &self.scaling else {
            return rows::unscaled(&self.workload, self.core.inverse(self.steps)?);
        };
        match (scaling.as_ref(), &self.core) {
            (Diagonals::Pieces(pieces), Core::Rational(core)) if covariance::leaps(&self.workload) => {
                Ok(pieces.row_norms(&self.workload, &core.inverse()?))
            }
            (scaling, Core::Rational(core)) if covariance::has_recurrence(&self.workload) => {
                let scaling = scaling.tables();
                let mut squared = Vec::with_capacity(self.steps);
                let inverse = core.inverse()?;
                covariance::for_each_row_norm(
                    &self.workload,
                    &inverse,
                    &scaling.rows,
                    &scaling.column_norms,
                    |norm| squared.push(norm),
                );
                Ok(RowNorms::exact(squared))
            }
            (scaling, core) => rows::scaled(&self.workload, &core.inverse(self.steps)?, &scaling.tables()),
        }
    }

    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        filter::build(&self.core, self.scaling.as_ref(), &self.kernel, self.steps, dimension)
    }

    fn compact_filter(&self, dimension: usize) -> Result<Option<Box<dyn NoiseFilter>>> {
        filter::recurrence::<f32>(&self.core, self.scaling.as_ref(), self.steps, dimension)
    }

    fn memory(&self, dimension: usize) -> usize {
        let per_coordinate = match &self.core {
            Core::Full { .. } => BlockKernel::memory(self.steps),
            Core::Rational(rational) => rational.buffers(),
            Core::Banded(band) | Core::BandedInverse(band) => band.len().min(self.steps) - 1,
        };
        let shared = self.scaling.as_ref().map_or(0, |scaling| scaling.memory());
        per_coordinate * dimension + shared
    }

    fn reading(&self, workload: &Workload) -> Result<Arc<dyn Strategy>> {
        Ok(Arc::new(Self { workload: workload.clone(), ..self.clone() }))
    }

    fn measurement(&self) -> Result<Measurement> {
        let core = self.core.clone();
        let Some(scaling) = &self.scaling else { return Ok(Measurement::Toeplitz(core)) };
        let Scaling { rows, column_norms } = scaling.tables().into_owned();
        let columns = match scaling.columns() {
            Columns::Normalized => None,
            Columns::Lengths(_) => Some(column_norms.iter().map(|norm| 1.0 / norm).collect()),
            Columns::NonIncreasing(columns) => Some(columns.clone()),
        };
        Ok(Measurement::Scaled { rows, core, columns })
    }

    fn coefficients(&self) -> Option<Coefficients> {
        let saved = self.core.save();
        let saved = match self.scaling.as_deref() {
            None => saved,
            Some(Diagonals::Pieces(pieces)) => pieces.save(saved),
            Some(Diagonals::Tables(Scaling { rows, column_norms }, columns)) => {
                let saved = saved.with("rows", rows.as_slice()).with("column norms", column_norms.as_slice());
                match columns {
                    Columns::Normalized => saved,
                    Columns::Lengths(lengths) => saved.with("lengths", lengths.as_slice()),
                    Columns::NonIncreasing(columns) => saved.with("columns", columns.as_slice()),
                }
            }
        };
        Some(saved.with("residual", [self.residual]))
    }

    fn materialize(&self) -> Result<Factorization> {
        check_materializable(self.steps)?;
        let n = self.steps;
        let coefficients = self.core.coefficients(n)?;
        let inverse = self.core.inverse(n)?;
        let lower =
            |series: &[f64]| Array2::from_shape_fn((n, n), |(i, j)| if i >= j { series[i - j] } else { 0.0 });
        let workload = self.workload.materialize(n)?;
        let (strategy, inverse) = match &self.scaling {
            None => (lower(&coefficients), lower(&inverse)),
            Some(scaling) => {
                let scaling = scaling.tables();
                let mut undone = lower(&inverse);
                for ((i, j), value) in undone.indexed_iter_mut() {
                    *value *= scaling.column_norms[i] / scaling.rows[j];
                }
                (scaled_matrix(&coefficients, &scaling), undone)
            }
        };
        Ok(Factorization { decoder: dp_linalg::dense::matmul(workload.view(), inverse.view()), strategy })
    }
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

/// `D1 · T · D2` as a matrix.
fn scaled_matrix(coefficients: &[f64], scaling: &Scaling) -> Array2<f64> {
    let n = coefficients.len();
    Array2::from_shape_fn((n, n), |(i, j)| {
        if i >= j { coefficients[i - j] * scaling.rows[i] / scaling.column_norms[j] } else { 0.0 }
    })
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
