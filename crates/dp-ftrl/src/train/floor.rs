//! What the noise of a training does to what it is added to, step by step: the floor under its curve.

use dp_mechanisms::strategy::Measurement;
use dp_mechanisms::{Plan, Strategy, Workload};

use super::{Aim, Optimizer, Trainer};
use crate::iterates;

/// The noise that a training has to live with.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseFloor {
    /// What the noise is in.
    pub place: Place,
    /// Its standard deviation in each coordinate, step by step.
    pub deviations: Vec<f64>,
}

/// Where noise is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the model after a step: descent is linear, and only adds noise up.
    Model,
    /// In the average gradient of a step, as it reaches an optimizer that is not linear: what it makes of noise depends on the gradients.
    Gradient,
    /// In the same, in units of the clipping norm of the step, which moves.
    ClippedGradient,
}

impl Trainer<'_> {
    /// The noise in the model by a plan of this trainer's, or in what reaches an optimizer whose steps are no linear function of
    /// gradients; none where a strategy with more measurements than steps would have to be written out for too many of them.
    ///
    /// # Complexity
    /// One evaluation of the strategy's row norms, or O(n³) for such a strategy.
    pub fn noise_floor(&self, plan: &Plan) -> Option<NoiseFloor> {
        let (place, made, divisor) = match (self.settings.quantile, self.settings.optimizer) {
            (None, Optimizer::Sgd) => (Place::Model, self.workload(Aim::Iterates).ok()?, 1.0),
            // Sums reach the optimizer; what is averaged over is the public size of a batch.
            (None, Optimizer::Adam) => (Place::Gradient, Workload::step(), self.settings.batch as f64),
            (Some(_), _) => (Place::ClippedGradient, Workload::step(), self.settings.batch as f64),
        };
        let deviations = if *plan.workload() == made {
            plan.deviations().map(|deviation| deviation / divisor).collect()
        } else {
            let squared = squared_row_norms(plan.strategy().as_ref(), &made)?;
            squared.iter().map(|squared| plan.sigma() * squared.sqrt() / divisor).collect()
        };
        Some(NoiseFloor { place, deviations })
    }
}

/// A strategy with more measurements than steps is written out for at most this many.
const MOST_WRITTEN_OUT: usize = 1024;

/// `‖b_t‖²` of what a workload makes of the noise that a strategy puts on the inputs.
fn squared_row_norms(strategy: &dyn Strategy, made: &Workload) -> Option<Vec<f64>> {
    // With more measurements than steps, what is read off them for another workload may be another noise.
    let more =
        matches!(strategy.measurement(), Ok(Measurement::AllNodes | Measurement::WeightedNodes(_)) | Err(_));
    match strategy.reading(made) {
        Ok(read) if !more => Some(read.row_norms().ok()?.iter().collect()),
        _ if strategy.steps() <= MOST_WRITTEN_OUT => iterates::squared_row_norms(strategy, made).ok(),
        _ => None,
    }
}
