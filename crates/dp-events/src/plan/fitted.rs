//! A strategy as the sealed state keeps it, so that every later run measures with the same coefficients.

use std::sync::Arc;

use dp_mechanisms::strategy::Measurement;
use dp_mechanisms::strategy::toeplitz::{Core, ToeplitzStrategy};
use dp_mechanisms::{Method, Problem, Strategy};
use serde::{Deserialize, Serialize};

/// A strategy as it was fitted, and the squared norms of the rows of every statistic's decoder, to the last bit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fitted {
    pub(super) method: String,
    /// Nothing for strategies that are built at once.
    pub(super) shape: Option<Shape>,
    /// By statistic; the last is the total, which decides on keys that are found.
    pub(super) row_norms: Vec<Vec<u64>>,
    /// How far the squared error, or the weighted sum of squared errors, is above what nothing can beat, as a fraction.
    #[serde(default)]
    pub(super) gap: Option<u64>,
}

/// The coefficients of `D1 · T · D2` as bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    coefficients: Vec<u64>,
    inverse: Option<Vec<u64>>,
    pub(super) rows: Option<Vec<u64>>,
    columns: Option<Vec<u64>>,
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub(super) fn floats(bits: &[u64]) -> Vec<f64> {
    bits.iter().map(|bits| f64::from_bits(*bits)).collect()
}

impl Shape {
    /// What a strategy with a Toeplitz core measures; nothing for others.
    pub(super) fn of(strategy: &dyn Strategy) -> dp_mechanisms::Result<Option<Self>> {
        let (core, rows, columns) = match strategy.measurement()? {
            Measurement::Toeplitz(core) => (core, None, None),
            Measurement::Scaled { rows, core, columns } => (core, Some(rows), columns),
            _ => return Ok(None),
        };
        let (coefficients, inverse) = match core {
            Core::Full { coefficients, inverse } => (coefficients, Some(inverse)),
            Core::Banded(band) => (band, None),
            _ => return Ok(None),
        };
        Ok(Some(Self {
            coefficients: bits(&coefficients),
            inverse: inverse.map(|values| bits(&values)),
            rows: rows.map(|values| bits(&values)),
            columns: columns.map(|values| bits(&values)),
        }))
    }

    fn measurement(&self) -> Measurement {
        let coefficients = floats(&self.coefficients);
        let core = match &self.inverse {
            Some(inverse) => Core::Full { coefficients, inverse: floats(inverse) },
            None => Core::Banded(coefficients),
        };
        match &self.rows {
            Some(rows) => {
                Measurement::Scaled { rows: floats(rows), core, columns: self.columns.as_deref().map(floats) }
            }
            None => Measurement::Toeplitz(core),
        }
    }
}

impl Fitted {
    /// The strategy, built of what was fitted.
    pub(super) fn strategy(&self, problem: &Problem) -> dp_mechanisms::Result<Arc<dyn Strategy>> {
        let method: Method = self.method.parse()?;
        match &self.shape {
            None => method.build(problem),
            Some(shape) => Ok(Arc::new(ToeplitzStrategy::measuring(
                method.name(),
                problem.workload(),
                problem.steps(),
                shape.measurement(),
            )?)),
        }
    }
}
