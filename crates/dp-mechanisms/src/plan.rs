//! The plan: the only place that computes σ.

use std::sync::Arc;

use crate::budget::Budget;
use crate::error::{Error, Result, check_count};
use crate::sensitivity::{Footprint, Sensitivity};
use crate::strategy::{RowNorms, Strategy, check_columns};

/// A strategy with the noise that a budget and a footprint demand. It exists only calibrated.
///
/// `σ = Δ / μ`, where Δ is the sensitivity of the strategy under the footprint and μ what the budget buys; every
/// step of the computation is rounded up.
///
/// # Privacy
/// All releases together satisfy the budget under the footprint's neighbouring relation, for adaptively chosen
/// inputs.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use dp_mechanisms::{Budget, Footprint, Method, Participation, Plan, Problem, Relation, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 365)?)?;
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let plan = Plan::new(strategy, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// assert!(plan.standard_deviation(365).unwrap() < 13.0);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    strategy: Arc<dyn Strategy>,
    footprint: Footprint,
    budget: Budget,
    sensitivity: Sensitivity,
    sigma: f64,
    rows: Arc<RowNorms>,
}

impl Plan {
    /// Calibrates a strategy.
    ///
    /// # Errors
    /// When the sensitivity under the footprint cannot be bounded (or is proved for other strategies only), or σ is not
    /// a finite number.
    pub fn new(strategy: Arc<dyn Strategy>, footprint: Footprint, budget: Budget) -> Result<Self> {
        check_columns(strategy.as_ref(), &footprint)?;
        let sensitivity =
            footprint.squared_sensitivity(|participation| strategy.sensitivity(participation))?;
        let sigma = (sensitivity.squared.sqrt().next_up() / budget.mu()).next_up();
        if !(sigma > 0.0 && sigma.is_finite()) {
            return Err(Error::OutOfRange {
                what: "the noise that budget and bounds demand",
                value: sigma,
                range: "a finite positive number",
            });
        }
        let rows = Arc::new(strategy.row_norms()?);
        Ok(Self { strategy, footprint, budget, sensitivity, sigma, rows })
    }

    /// The strategy.
    pub fn strategy(&self) -> &Arc<dyn Strategy> {
        &self.strategy
    }

    /// What one person can change.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// The budget for all releases together.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The sensitivity of the strategy under the footprint.
    pub fn sensitivity(&self) -> Sensitivity {
        self.sensitivity
    }

    /// The standard deviation of every entry of `z`.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.strategy.steps()
    }

    /// The standard deviation `σ‖b_t‖` of each coordinate of the release of step `t`, counted from 1.
    pub fn standard_deviation(&self, step: usize) -> Option<f64> {
        let index = step.checked_sub(1)?;
        self.rows.at(index).map(|squared| self.sigma * squared.sqrt())
    }

    /// The squared row norms behind the standard deviations.
    pub fn row_norms(&self) -> &RowNorms {
        &self.rows
    }

    /// The half-width within which all `steps · dimension` released coordinates stay at once with probability
    /// `1 - failure`: `σ max_t‖b_t‖ sqrt(2 ln(2nd/β))`.
    ///
    /// # Errors
    /// A failure probability outside (0, 1), or a dimension of zero.
    pub fn simultaneous_band(&self, dimension: usize, failure: f64) -> Result<f64> {
        check_count("dimension", dimension)?;
        if !(failure > 0.0 && failure < 1.0) {
            return Err(Error::OutOfRange {
                what: "failure probability",
                value: failure,
                range: "strictly between 0 and 1",
            });
        }
        let values = self.steps() as f64 * dimension as f64;
        Ok(self.sigma * self.rows.max().sqrt() * (2.0 * (2.0 * values / failure).ln()).sqrt())
    }

    /// A line that identifies the plan: two plans with the same line release the same thing with the same noise.
    pub fn identity(&self) -> String {
        format!(
            "workload={:?} strategy={} steps={} rows={:.6e}/{:.6e} footprint={:?} budget={:?} sigma={:016x}",
            self.strategy.workload(),
            self.strategy.name(),
            self.steps(),
            // A fitted strategy is known by its errors; six digits hold on every machine.
            self.rows.mean(),
            self.rows.max(),
            self.footprint,
            self.budget,
            self.sigma.to_bits()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensitivity::{Participation, Relation, Term};
    use crate::workload::Workload;
    use crate::{Method, Problem};

    #[test]
    fn proofs_that_need_non_negative_columns_get_them() {
        let term = Term { weight: 1.0, participation: Participation::Single };
        let footprint = Footprint::encoded(vec![term], Relation::Replace).unwrap();
        let budget = Budget::gaussian(1.0).unwrap();
        // 1 - x: neighbouring columns have inner product -1, and their difference has squared norm 6, not 4.
        let signed = Workload::weights(&[1.0, -1.0]).unwrap();
        let plan = |method: Method, workload: &Workload, footprint: Footprint| {
            let strategy = method.build(&Problem::new(workload.clone(), 9)?)?;
            Plan::new(strategy, footprint, budget)
        };
        assert!(plan(Method::Output, &signed, footprint.clone()).is_ok());
        let needing = footprint.needing_non_negative_columns();
        let refused = plan(Method::Output, &signed, needing.clone());
        assert!(matches!(refused, Err(Error::NotApplicable { strategy: "output", .. })));
        for &method in Method::ALL {
            // Every strategy for the count is decided by what its columns do.
            let outcome = plan(method, &Workload::count(), needing.clone());
            let columns = method.build(&Problem::new(Workload::count(), 9).unwrap()).unwrap();
            let matrix = columns.materialize().unwrap().strategy;
            let smallest = matrix.t().dot(&matrix).iter().copied().fold(f64::INFINITY, f64::min);
            assert_eq!(outcome.is_ok(), smallest >= -1e-12, "{method}: smallest inner product {smallest}");
        }
    }
}
