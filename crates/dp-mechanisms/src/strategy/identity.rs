//! The two trivial strategies: noise on every input, and noise on every output.

use std::sync::Arc;

use ndarray::Array2;

use super::toeplitz::Core;
use super::{
    Coefficients, Factorization, Measurement, NoiseFilter, RowNorms, Strategy, check_materializable,
};
use crate::error::{Error, Result};
use crate::noise::{Side, UnitNoise};
use crate::problem::Problem;
use crate::sensitivity::{self, Participation, Sensitivity};
use crate::workload::Workload;

/// Independent noise on one side of the workload.
///
/// - `identity`: `C = I`, `B = A`. Optimal for the max error of the running average (E∞ = 1).
/// - `output`: `C = A`, `B = I`.
///
/// # Complexity
/// One O(d) pass per step, no state.
#[derive(Debug, Clone)]
pub struct Independent {
    workload: Workload,
    steps: usize,
    side: Side,
}

impl Independent {
    /// `C = I`: independent noise on every input.
    pub fn on_input(problem: &Problem) -> Self {
        Self { workload: problem.workload().clone(), steps: problem.steps(), side: Side::Input }
    }

    /// `C = A`: independent noise on every release.
    pub fn on_output(problem: &Problem) -> Self {
        Self { side: Side::Output, ..Self::on_input(problem) }
    }
}

impl Strategy for Independent {
    fn name(&self) -> &'static str {
        match self.side {
            Side::Input => "identity",
            Side::Output => "output",
        }
    }

    fn workload(&self) -> &Workload {
        &self.workload
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
        if self.side == Side::Input {
            return Ok(Sensitivity::exact(participation.times_within(self.steps) as f64));
        }
        if let Some(series) = self.workload.series(self.steps)? {
            return Ok(sensitivity::toeplitz(&series, participation));
        }
        if self.workload.is_average() && participation.times_within(self.steps) == 1 {
            // The first column 1, 1/2, …, 1/n is the longest.
            let first: Vec<f64> = (1..=self.steps).map(|t| (1.0 / t as f64).next_up()).collect();
            return Ok(Sensitivity::exact(dp_linalg::norms::round_up_sum_of_squares(&first)));
        }
        check_materializable(self.steps)?;
        sensitivity::dense(self.workload.materialize(self.steps)?.view(), participation)
    }

    fn row_norms(&self) -> Result<RowNorms> {
        if self.side == Side::Output {
            return Ok(RowNorms::exact(vec![1.0; self.steps]));
        }
        if let Some(series) = self.workload.series(self.steps)? {
            return Ok(RowNorms::exact(super::prefix_sums_of_squares(&series)));
        }
        if self.workload.is_average() {
            return Ok(RowNorms::exact((1..=self.steps).map(|t| 1.0 / t as f64).collect()));
        }
        check_materializable(self.steps)?;
        let matrix = self.workload.materialize(self.steps)?;
        Ok(RowNorms::exact(dp_linalg::norms::row_squared_norms(matrix.view()).to_vec()))
    }

    fn noise_filter(&self, _dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        Ok(Box::new(Rows { side: self.side, row: 0 }))
    }

    fn compact_filter(&self, dimension: usize) -> Result<Option<Box<dyn NoiseFilter>>> {
        self.noise_filter(dimension).map(Some)
    }

    fn memory(&self, _dimension: usize) -> usize {
        0
    }

    fn coefficients(&self) -> Option<Coefficients> {
        Some(Coefficients::none())
    }

    fn measurement(&self) -> Result<Measurement> {
        if self.side == Side::Input {
            return Ok(Measurement::Toeplitz(Core::Banded(vec![1.0])));
        }
        match self.workload.series(self.steps)? {
            Some(series) => Ok(Measurement::Toeplitz(Core::full(series)?)),
            None => Ok(Measurement::Dense(self.materialize()?.strategy)),
        }
    }

    fn reading(&self, workload: &Workload) -> Result<Arc<dyn Strategy>> {
        if self.side == Side::Output {
            // C is the workload itself: the noise of another is another.
            return Err(Error::NotApplicable {
                strategy: self.name(),
                workload: workload.to_string(),
                reason: "it measures its own workload",
            });
        }
        Ok(Arc::new(Self { workload: workload.clone(), ..self.clone() }))
    }

    fn materialize(&self) -> Result<Factorization> {
        check_materializable(self.steps)?;
        let identity = Array2::eye(self.steps);
        let workload = self.workload.materialize(self.steps)?;
        Ok(match self.side {
            Side::Input => Factorization { decoder: workload, strategy: identity },
            Side::Output => Factorization { decoder: identity, strategy: workload },
        })
    }
}

/// The rows of `z` as they come.
struct Rows {
    side: Side,
    row: usize,
}

impl NoiseFilter for Rows {
    fn side(&self) -> Side {
        self.side
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        source.fill_row(self.row, out);
        self.row += 1;
        Ok(())
    }

    fn next_rows(&mut self, source: &mut dyn UnitNoise, dimension: usize, out: &mut [f64]) -> Result<()> {
        source.fill_rows(self.row, dimension, out);
        self.row += out.len() / dimension;
        Ok(())
    }

    fn save(&self, _state: &mut Vec<f64>) -> bool {
        true
    }

    fn restore(&mut self, steps: usize, state: &[f64]) -> Result<()> {
        self.row = steps;
        super::restore_into::<f64>(state, &mut [])
    }
}
