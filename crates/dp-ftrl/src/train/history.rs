//! What is recorded of a training.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Training;
use crate::data::Examples;
use crate::error::Result;

/// How the model did on the test examples after an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// Steps taken by then.
    pub steps: usize,
    /// The share of test examples whose label is the most likely class.
    pub accuracy: f64,
    /// The mean loss of the test examples.
    pub loss: f64,
    /// How long the epoch took, scoring included.
    pub seconds: f64,
}

impl Training<'_> {
    /// Takes one step, as [`Training::step_forward`], and scores the model on test examples where it ends an epoch. Says
    /// whether there was a step left to take.
    ///
    /// # Errors
    /// As [`Training::step_forward`]; test examples of another shape.
    pub fn advance(&mut self, test: &Examples) -> Result<bool> {
        self.network.check_examples(test)?;
        // A crash may have come between an epoch's last step and its score.
        self.score_finished_epoch(test)?;
        let advanced = self.step_forward()?;
        self.score_finished_epoch(test)?;
        Ok(advanced)
    }

    /// Takes all steps that are left and returns all epochs.
    ///
    /// # Errors
    /// As [`Training::advance`].
    pub fn run(&mut self, test: &Examples) -> Result<&[Epoch]> {
        while self.advance(test)? {}
        Ok(&self.epochs)
    }

    /// The epochs so far, those before the training was resumed included.
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    fn score_finished_epoch(&mut self, test: &Examples) -> Result<()> {
        let (steps, per_epoch) = (self.step(), self.batches.per_epoch());
        let epoch = self.epochs.len() + 1;
        if steps == epoch * per_epoch {
            let score = self.network.score(self.parameters(), test)?;
            let seconds = self.epoch_started.elapsed().as_secs_f64();
            self.epochs.push(Epoch { epoch, steps, accuracy: score.accuracy, loss: score.loss, seconds });
            self.epoch_started = Instant::now();
        }
        Ok(())
    }
}
