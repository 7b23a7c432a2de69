//! The optimizers that a training can use, behind one face.

use dp_mechanisms::Workload;
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::error::Result;
use crate::{Adam, Sgd};

/// What is made of noisy sums; post-processing all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Gradient descent with momentum.
    Sgd,
    /// Steps that adapt to the size of each coordinate's gradients.
    Adam,
}

/// An optimizer between two steps.
#[derive(Debug, Clone)]
pub(super) enum Live {
    Sgd(Sgd),
    Adam(Adam),
}

/// The decay of Adam's second moment.
const SECOND_DECAY: f64 = 0.999;

impl Live {
    /// The optimizer of the settings, before its first step.
    pub(super) fn new(settings: &Settings, start: Vec<f64>, steps: usize) -> Result<Self> {
        Ok(match settings.optimizer {
            // Gradients are summed, not averaged: the public batch size goes into the rate.
            Optimizer::Sgd => {
                let rates = settings.schedule.rates(settings.rate, steps, settings.batch as f64)?;
                Self::Sgd(Sgd::starting_at(start, settings.momentum, rates)?)
            }
            // The size of the gradients does not matter to Adam, only to the floor that keeps it from dividing by zero.
            Optimizer::Adam => {
                let rates = settings.schedule.rates(settings.rate, steps, 1.0)?;
                let adam = Adam::starting_at(start, rates)?;
                Self::Adam(adam.with_decays(settings.momentum, SECOND_DECAY)?)
            }
        })
    }

    /// The workload of which the iterates are the releases; for Adam as if its denominators stood still.
    pub(super) fn workload(&self, settings: &Settings, steps: usize) -> Result<Workload> {
        match self {
            Self::Sgd(sgd) => sgd.workload(steps),
            Self::Adam(_) => {
                let rates = settings.schedule.rates(settings.rate, steps, 1.0)?;
                Ok(Workload::momentum(settings.momentum, &rates.values(steps))?)
            }
        }
    }

    pub(super) fn update(&mut self, sum: &[f64]) -> Result<()> {
        match self {
            Self::Sgd(sgd) => sgd.update(sum).map(|_| ()),
            Self::Adam(adam) => adam.update(sum).map(|_| ()),
        }
    }

    pub(super) fn step(&self) -> usize {
        match self {
            Self::Sgd(sgd) => sgd.step(),
            Self::Adam(adam) => adam.step(),
        }
    }

    pub(super) fn parameters(&self) -> &[f64] {
        match self {
            Self::Sgd(sgd) => sgd.parameters(),
            Self::Adam(adam) => adam.parameters(),
        }
    }

    pub(super) fn state(&self) -> Vec<f64> {
        match self {
            Self::Sgd(sgd) => sgd.state(),
            Self::Adam(adam) => adam.state(),
        }
    }

    pub(super) fn restore(&mut self, step: usize, state: &[f64]) -> Result<()> {
        match self {
            Self::Sgd(sgd) => sgd.restore(step, state),
            Self::Adam(adam) => adam.restore(step, state),
        }
    }
}
