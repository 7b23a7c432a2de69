//! What is recorded of a training.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Training;
use crate::data::Examples;
use crate::error::Result;

/// A finished epoch, and how the model did on the test examples after it, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FinishedEpoch {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// Steps taken by then.
    pub steps: usize,
    /// The share of test examples whose label is the most likely class; none without test examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The mean loss of the test examples; none without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// How long the epoch took, scoring included.
    pub seconds: f64,
}

impl Training<'_> {
    /// Takes one step, as [`Training::step_forward`], and scores the model on test examples where it ends an epoch. Says
    /// whether there was a step left to take.
    ///
    /// # Privacy
    /// A score is exact: nothing protects the test examples, so they must not be private.
    ///
    /// # Errors
    /// As [`Training::step_forward`]; test examples of another shape.
    pub fn advance(&mut self, test: Option<&Examples>) -> Result<bool> {
        if let Some(test) = test {
            self.network.check_examples(test)?;
        }
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
    pub fn run(&mut self, test: Option<&Examples>) -> Result<&[FinishedEpoch]> {
        while self.advance(test)? {}
        Ok(&self.epochs)
    }

    /// The epochs so far, those before the training was resumed included.
    pub fn epochs(&self) -> &[FinishedEpoch] {
        &self.epochs
    }

    fn score_finished_epoch(&mut self, test: Option<&Examples>) -> Result<()> {
        let (steps, per_epoch) = (self.step(), self.batches.per_epoch());
        let epoch = steps / per_epoch;
        let recorded = self.epochs.last().map_or(0, |last| last.epoch);
        if epoch > recorded && steps.is_multiple_of(per_epoch) {
            let score = test.map(|test| self.network.score(self.parameters(), test)).transpose()?;
            let seconds = self.epoch_started.elapsed().as_secs_f64();
            let (accuracy, loss) = (score.map(|score| score.accuracy), score.map(|score| score.loss));
            self.epochs.push(FinishedEpoch { epoch, steps, accuracy, loss, seconds });
            self.epoch_started = Instant::now();
            if let Some(file) = &self.file {
                // The next step leaves this model behind: its score could not be made up for.
                file.write(&self.save())?;
            }
        }
        Ok(())
    }
}
