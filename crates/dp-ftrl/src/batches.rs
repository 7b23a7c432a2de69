//! Who takes part when: a schedule of batches with a participation that can be proved.

use std::ops::Range;

use dp_mechanisms::Participation;

use crate::error::{Error, Result, check_count};

/// Several passes over the examples, always in the same order and the same batches.
///
/// Example i stands in batch `⌊i/B⌋` of every epoch; the last batch is shorter if the batch size does not divide the
/// number of examples.
///
/// # Privacy
/// With `b = ⌈n/B⌉` batches in an epoch, example i takes part in the steps `⌊i/B⌋ + e·b` for the epochs e = 0, 1, …, and
/// in no others: as many steps as there are epochs, any two of them a multiple of b apart and so at least b. This is what
/// [`CyclicBatches::participation`] declares. It holds because the order never changes; a random but fixed order is as
/// good, while shuffling again for each epoch can bring the same example in two steps in a row and has separation 1.
/// "One person" is one example: who owns several of them is protected only if they are merged into one gradient.
///
/// # No amplification by sampling
/// A secret random choice of who takes part buys nothing here, although it could for a *banded* C: divide the examples
/// into b fixed groups, let step t draw from group `t mod b` only, each example independently with probability q, and let C
/// have at most b bands. The columns of the steps of one group then do not overlap, so what is released about the group
/// is a sequence of Gaussian mechanisms, one for each visit, each on a sample of rate q. Their composition is far more
/// private than the Gaussian mechanism on everybody — but it is not a Gaussian mechanism. Its (ε, δ) needs an accountant
/// for the *sampled* Gaussian mechanism (the privacy loss distribution of a mixture, composed over the visits with errors
/// rounded to the safe side) and a plan that knows the rate. The budgets of this workspace know one curve, that of the
/// plain Gaussian mechanism, for which they are exact; a μ that stood for anything else would be wrong at every ε but
/// one. Until such an accountant exists and is verified, the noise is that of everybody taking part.
///
/// # Example
/// ```
/// use dp_ftrl::CyclicBatches;
/// let batches = CyclicBatches::new(10, 4, 3)?;
/// assert_eq!(batches.steps(), 9);
/// assert_eq!(batches.batch(2), Some(8..10));
/// assert_eq!(batches.participation().to_string(), "3:3");
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CyclicBatches {
    examples: usize,
    batch: usize,
    epochs: usize,
    participation: Participation,
}

impl CyclicBatches {
    /// `epochs` passes over `examples` examples in batches of `batch`.
    ///
    /// # Errors
    /// Zero for any of the numbers, a batch larger than the data, or more steps than can be counted.
    pub fn new(examples: usize, batch: usize, epochs: usize) -> Result<Self> {
        check_count("number of examples", examples)?;
        check_count("batch size", batch)?;
        check_count("number of epochs", epochs)?;
        if batch > examples {
            return Err(Error::OutOfRange {
                what: "batch size",
                value: batch as f64,
                range: "at most the number of examples",
            });
        }
        if examples.div_ceil(batch).checked_mul(epochs).is_none() {
            return Err(Error::OutOfRange {
                what: "number of epochs",
                value: epochs as f64,
                range: "few enough that the steps can be counted",
            });
        }
        let participation = Participation::repeated(epochs, examples.div_ceil(batch))?;
        Ok(Self { examples, batch, epochs, participation })
    }

    /// The number of steps in an epoch, `⌈n/B⌉`.
    pub fn per_epoch(&self) -> usize {
        self.examples.div_ceil(self.batch)
    }

    /// The number of steps, for which the strategy is built.
    pub fn steps(&self) -> usize {
        self.per_epoch() * self.epochs
    }

    /// In how many steps one example takes part, and how far they are apart.
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// The examples of a step (counted from 0), or nothing past the last one.
    pub fn batch(&self, step: usize) -> Option<Range<usize>> {
        if step >= self.steps() {
            return None;
        }
        let start = step % self.per_epoch() * self.batch;
        Some(start..(start + self.batch).min(self.examples))
    }

    /// All steps with their examples, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        let batches = *self;
        (0..batches.steps()).filter_map(move |step| batches.batch(step))
    }

    /// The largest number of examples in a step: public, and so what a noisy sum may be divided by.
    pub fn batch_size(&self) -> usize {
        self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_comes_once_an_epoch_and_no_sooner_than_declared() {
        for examples in 1..=12 {
            for batch in 1..=examples {
                for epochs in 1..=4 {
                    let batches = CyclicBatches::new(examples, batch, epochs).unwrap();
                    let (times, separation) = match batches.participation() {
                        Participation::Single => (1, usize::MAX),
                        Participation::Repeated(repeated) => (repeated.times(), repeated.separation()),
                    };
                    let steps: Vec<Range<usize>> = batches.iter().collect();
                    assert_eq!(steps.len(), batches.steps());
                    assert!(steps.iter().all(|step| !step.is_empty() && step.len() <= batch));
                    assert_eq!(batches.batch(batches.steps()), None);
                    for example in 0..examples {
                        let visits: Vec<usize> =
                            (0..steps.len()).filter(|step| steps[*step].contains(&example)).collect();
                        assert_eq!(visits.len(), epochs, "{batches:?}");
                        assert!(visits.len() <= times, "{batches:?}");
                        assert!(visits.windows(2).all(|pair| pair[1] - pair[0] >= separation), "{batches:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_nothing_to_do_and_more_than_can_be_counted() {
        for (examples, batch, epochs) in
            [(0, 1, 1), (1, 0, 1), (1, 1, 0), (3, 4, 1), (usize::MAX, 1, 2), (4, 2, usize::MAX)]
        {
            let refused = CyclicBatches::new(examples, batch, epochs);
            assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{examples} {batch} {epochs}");
        }
    }
}
