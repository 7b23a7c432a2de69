//! Private gradients of people who are drawn at random: who was not drawn cannot enter, and nobody enters twice.

use std::fmt;

use dp_mechanisms::{Plan, Seed};

use crate::batches::PoissonBatches;
use crate::clip::Clipping;
use crate::error::{Error, Result};
use crate::gradients::{PrivateGradients, Step};

/// [`PrivateGradients`] of a plan with cyclic Poisson sampling, which draws its own batches.
///
/// A trainer asks who was [drawn](Self::drawn), adds the gradients of these people, and finishes the step. Divide noisy sums by
/// the [expected size](Self::expected_size) of a batch, which is public, never by how many were drawn.
///
/// # Privacy
/// That of the plan, if the people are who they are said to be. Draws and groups follow from the same secret as the noise
/// ([`PoissonBatches`]), and a gradient enters only for a person who was drawn and has not entered yet. Somebody who was drawn and is
/// left out counts as a gradient of zero.
///
/// # Example
/// ```
/// use dp_ftrl::{Clipping, SampledGradients};
/// use dp_mechanisms::accountant::sampling::CyclicPoisson;
/// use dp_mechanisms::{Problem, Relation, Seed, Workload};
/// let people: Vec<String> = (0..500).map(|number| format!("person {number}")).collect();
/// let clipping = Clipping::flat(1.0)?;
/// let sampling = CyclicPoisson::new(2, 0.1, 20)?;
/// let noise = sampling.plan(&Problem::new(Workload::count(), 20)?, clipping.norm(), 2.0, 1e-5)?;
/// let plan = noise.releases(clipping.footprint(Relation::ZeroOut, sampling.participation())?)?;
/// let mut gradients = SampledGradients::new(plan, clipping, 3, &people, Seed::from_system()?)?;
/// let mut sum = [0.0; 3];
/// for _ in 0..20 {
///     for person in gradients.drawn().to_vec() {
///         gradients.add(person, &[1.0, 0.0, 0.0])?;
///     }
///     gradients.finish(&mut sum)?;
/// }
/// assert!(gradients.finish(&mut sum).is_err(), "twenty steps were planned");
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
pub struct SampledGradients {
    gradients: PrivateGradients,
    batches: PoissonBatches,
    /// Who was drawn for the open step.
    drawn: Vec<usize>,
    /// Which of them have entered.
    entered: Vec<bool>,
}

impl SampledGradients {
    /// Gradients of the given dimension, of people by their identifiers.
    ///
    /// # Errors
    /// A plan without sampling, and what [`PrivateGradients::open`] and [`PoissonBatches::new`] refuse.
    pub fn new<I: AsRef<[u8]>>(
        plan: Plan,
        clipping: Clipping,
        dimension: usize,
        people: impl IntoIterator<Item = I>,
        seed: Seed,
    ) -> Result<Self> {
        let Some(sampling) = plan.sampling() else {
            return Err(Error::OutOfRange {
                what: "sampling rate of the plan",
                value: 1.0,
                range: "that of a plan with sampling; use PrivateGradients for this one",
            });
        };
        let gradients = PrivateGradients::open(plan, clipping, dimension, seed, None)?;
        let batches = PoissonBatches::new(sampling, people, gradients.hash_key(SECRET))?;
        let mut this = Self {
            gradients,
            drawn: Vec::with_capacity(batches.largest_group()),
            entered: Vec::with_capacity(batches.largest_group()),
            batches,
        };
        this.draw();
        Ok(this)
    }

    /// Who was drawn for the open step, by their places in the list and in rising order: as secret as the noise.
    pub fn drawn(&self) -> &[usize] {
        &self.drawn
    }

    /// Clips one person's gradient into the batch.
    ///
    /// # Errors
    /// [`Error::NotAdmitted`] for a person who was not drawn or has entered; what [`PrivateGradients::add`] refuses. The batch is
    /// then as before.
    pub fn add(&mut self, person: usize, gradient: &[f64]) -> Result<()> {
        let refused = |reason| Error::NotAdmitted { person, step: self.gradients.step() + 1, reason };
        let place = self.drawn.binary_search(&person).map_err(|_| refused("they were not drawn for it"))?;
        if self.entered[place] {
            return Err(refused("they have entered it already"));
        }
        self.gradients.add(gradient)?;
        self.entered[place] = true;
        Ok(())
    }

    /// Writes the noisy sum of the batch, and draws the next one.
    ///
    /// # Errors
    /// As [`PrivateGradients::finish`]; everything is then as before.
    pub fn finish(&mut self, out: &mut [f64]) -> Result<Step> {
        let step = self.gradients.finish(out)?;
        self.draw();
        Ok(step)
    }

    /// The expected number of people in a batch: public, and so what a noisy sum may be divided by.
    pub fn expected_size(&self) -> f64 {
        self.batches.expected_size()
    }

    /// Who may be drawn when; not who was.
    pub fn batches(&self) -> &PoissonBatches {
        &self.batches
    }

    /// The number of finished steps.
    pub fn step(&self) -> usize {
        self.gradients.step()
    }

    /// The plan, with its sampling.
    pub fn plan(&self) -> &Plan {
        self.gradients.plan()
    }

    fn draw(&mut self) {
        self.batches.draw(self.gradients.step(), &mut self.drawn);
        self.entered.clear();
        self.entered.resize(self.drawn.len(), false);
    }
}

/// The purpose for which the secret of the draws is derived.
pub(crate) const SECRET: &str = "cyclic poisson sampling";

/// Neither draws nor noise nor gradients leave through a debug print.
impl fmt::Debug for SampledGradients {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SampledGradients")
            .field("gradients", &self.gradients)
            .field("batches", &self.batches)
            .finish_non_exhaustive()
    }
}
