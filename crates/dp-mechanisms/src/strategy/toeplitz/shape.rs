//! What a Toeplitz strategy measures: T alone, or between two diagonals.

use std::borrow::Cow;
use std::sync::Arc;

use dp_linalg::fft;
use dp_linalg::rational::Rational;
use ndarray::Array2;

use super::core::Core;
use super::covariance;
use super::pieces::Pieces;
use crate::error::Result;
use crate::strategy::{Coefficients, Measurement};

/// Up to this many steps the column norms are summed directly.
const DIRECT_LIMIT: usize = 4096;

/// The diagonal matrices of `C = D1 · T · D2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The diagonal of D1.
    pub(super) rows: Vec<f64>,
    /// The diagonal of `D2⁻¹`: upper bounds of the column norms of `D1 · T`.
    pub(super) column_norms: Vec<f64>,
}

impl Scaling {
    /// [`Scaling::normalizing`] by the cheapest way that the core allows.
    pub(super) fn of_core(core: &Core, rows: Vec<f64>) -> Result<Self> {
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

/// C, in those combinations that have a meaning.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// `C = T`.
    Plain(Core),
    /// `C = D1 · T · D2` by tables, with what is known of the columns.
    Tables(Core, Arc<Scaling>, Columns),
    /// The same in closed form, for long horizons: a rational core, and columns of norm 1.
    Pieces(Rational, Arc<Pieces>),
}

impl Shape {
    pub(super) fn core(&self) -> Cow<'_, Core> {
        match self {
            Self::Plain(core) | Self::Tables(core, ..) => Cow::Borrowed(core),
            Self::Pieces(core, _) => Cow::Owned(Core::Rational(core.clone())),
        }
    }

    /// Both diagonals, where there are any.
    pub(super) fn scaling(&self) -> Option<Cow<'_, Scaling>> {
        match self {
            Self::Plain(_) => None,
            Self::Tables(_, scaling, _) => Some(Cow::Borrowed(scaling)),
            Self::Pieces(_, pieces) => Some(Cow::Owned(pieces.tables())),
        }
    }

    /// The number of values kept of the diagonals.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tables(_, scaling, _) => scaling.rows.len() + scaling.column_norms.len(),
            Self::Pieces(_, pieces) => pieces.memory(),
        }
    }

    /// As [`Strategy::measurement`](crate::strategy::Strategy::measurement).
    pub(super) fn measurement(&self) -> Measurement {
        let core = self.core().into_owned();
        let Some(scaling) = self.scaling() else { return Measurement::Toeplitz(core) };
        let columns = match self {
            Self::Tables(_, scaling, Columns::Lengths(_)) => {
                Some(scaling.column_norms.iter().map(|norm| 1.0 / norm).collect())
            }
            Self::Tables(_, _, Columns::NonIncreasing(columns)) => Some(columns.clone()),
            _ => None,
        };
        Measurement::Scaled { rows: scaling.into_owned().rows, core, columns }
    }

    /// The numbers that it consists of.
    pub(super) fn save(&self) -> Coefficients {
        let saved = self.core().save();
        match self {
            Self::Plain(_) => saved,
            Self::Pieces(_, pieces) => pieces.save(saved),
            Self::Tables(_, scaling, columns) => {
                let Scaling { rows, column_norms } = scaling.as_ref();
                let saved = saved.with("rows", rows.as_slice()).with("column norms", column_norms.as_slice());
                match columns {
                    Columns::Normalized => saved,
                    Columns::Lengths(lengths) => saved.with("lengths", lengths.as_slice()),
                    Columns::NonIncreasing(columns) => saved.with("columns", columns.as_slice()),
                }
            }
        }
    }

    /// Reads what [`Shape::save`] wrote.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) for lists that are missing or of another length.
    pub(super) fn of_coefficients(saved: &Coefficients, steps: usize) -> Result<Self> {
        let core = Core::of_coefficients(saved, steps)?;
        if let Core::Rational(core) = &core
            && let Some(pieces) = Pieces::of_coefficients(core, steps, saved)?
        {
            return Ok(Self::Pieces(core.clone(), Arc::new(pieces)));
        }
        if saved.get("rows").is_none() {
            return Ok(Self::Plain(core));
        }
        let column_norms = saved.list_of("column norms", steps)?;
        let scaling = Scaling { rows: saved.list_of("rows", steps)?, column_norms };
        let columns = if saved.get("lengths").is_some() {
            Columns::Lengths(saved.list_of("lengths", steps)?)
        } else if saved.get("columns").is_some() {
            Columns::NonIncreasing(saved.list_of("columns", steps)?)
        } else {
            Columns::Normalized
        };
        Ok(Self::Tables(core, Arc::new(scaling), columns))
    }
}

/// `D1 · T · D2` as a matrix.
pub(super) fn scaled_matrix(coefficients: &[f64], scaling: &Scaling) -> Array2<f64> {
    let n = coefficients.len();
    Array2::from_shape_fn((n, n), |(i, j)| {
        if i >= j { coefficients[i - j] * scaling.rows[i] / scaling.column_norms[j] } else { 0.0 }
    })
}
