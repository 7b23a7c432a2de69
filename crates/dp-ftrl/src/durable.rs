//! Private gradients that survive crashes.

use dp_mechanisms::noise::HashKey;
use dp_mechanisms::{Plan, Seed, Session, StateFile};

use crate::clip::{ClippedSum, Clipping};
use crate::error::{Error, Result, check_length};
use crate::gradients::{Step, check_plan, of_gradients};

/// [`crate::PrivateGradients`] whose state is sealed on disk before a noisy sum becomes visible.
///
/// A process that is killed at any point reopens the same state and continues with the same noise. A batch that was not
/// finished is gone, and nobody has seen anything of it: add all its gradients again. The noisy sum of the last finished
/// batch is shown again by [`DurableGradients::last_finished`], because the crash may have come before the optimizer
/// used it.
///
/// # Privacy
/// As for [`crate::PrivateGradients`], through any number of crashes: a step is answered once, and shown again from the
/// state rather than computed again. See [`dp_mechanisms::state`] for what a backup that is put back would do.
///
/// # Complexity
/// As for [`crate::PrivateGradients`], plus one synchronized write of about 16 bytes a coordinate for each step. Reopening
/// makes the noise of all steps before.
#[derive(Debug)]
pub struct DurableGradients {
    batch: ClippedSum,
    session: Session,
    /// A step is made and waits for the disk.
    unsaved: bool,
}

impl DurableGradients {
    /// Resumes the saved state, or starts a new one. The plan is that of [`crate::gradients::plan`]; where the noise comes
    /// from is the seed's ([`Session::open`]).
    ///
    /// # Errors
    /// A plan for another clipping, a saved state of another plan, dimension or origin, or one that cannot be read.
    pub fn open(
        plan: Plan,
        clipping: Clipping,
        dimension: usize,
        file: StateFile,
        seed: Seed,
    ) -> Result<Self> {
        check_plan(&plan, &clipping)?;
        let batch = ClippedSum::new(clipping, dimension)?;
        let session = Session::open(of_gradients(plan, dimension)?, seed, Some(file))?;
        Ok(Self { batch, session, unsaved: false })
    }

    /// Clips one person's gradient into the batch; see [`crate::PrivateGradients::add`].
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN or infinities; a step that still waits for the disk. The batch is then as before.
    pub fn add(&mut self, gradient: &[f64]) -> Result<()> {
        self.check_saved()?;
        self.batch.add(gradient)
    }

    /// Moves a part of the batch that was summed elsewhere into it; see [`ClippedSum::absorb`].
    ///
    /// # Errors
    /// Another dimension or another clipping; a step that still waits for the disk. Both sums are then as before.
    pub fn absorb(&mut self, part: &mut ClippedSum) -> Result<()> {
        self.check_saved()?;
        self.batch.absorb(part)
    }

    /// Makes the step durable, then writes the noisy sum of the batch and starts the next one.
    ///
    /// # Errors
    /// A step past the horizon or a buffer of another dimension: nothing has happened. A disk that refuses: the step is
    /// made but hidden, and all that can be done is to finish again, which tries the disk again.
    pub fn finish(&mut self, out: &mut [f64]) -> Result<Step> {
        check_length("the output buffer", self.batch.dimension(), out.len())?;
        if !self.unsaved {
            self.session.stage(self.batch.values())?;
            self.batch.clear();
            self.unsaved = true;
        }
        self.session.commit()?;
        self.unsaved = false;
        // A commit with a staged step always leaves a release.
        self.last_finished(out)?.ok_or(Error::UnsavedStep { step: self.step() })
    }

    /// Writes the noisy sum of the last finished batch once more, if there is one: after a crash the optimizer may not
    /// have used it yet.
    ///
    /// # Errors
    /// A buffer of another dimension.
    pub fn last_finished(&self, out: &mut [f64]) -> Result<Option<Step>> {
        check_length("the output buffer", self.batch.dimension(), out.len())?;
        let Some((step, values)) = self.session.last_committed().iter().last() else { return Ok(None) };
        out.copy_from_slice(values);
        Ok(Some(Step::of(self.plan(), step)))
    }

    /// The number of finished steps, all of them durable.
    pub fn step(&self) -> usize {
        self.session.step()
    }

    /// The secret of a keyed hash for one purpose, the same in every life of the state from its first step on; see
    /// [`dp_mechanisms::Mechanism::hash_key`].
    pub fn hash_key(&self, purpose: &str) -> HashKey {
        self.session.hash_key(purpose)
    }

    /// Keeps something beside the noise, sealed in the state from the next step on.
    pub fn attach(&mut self, name: &str, contents: Vec<u8>) {
        self.session.attach(name, contents);
    }

    /// What was attached under a name.
    pub fn attachment(&self, name: &str) -> Option<&[u8]> {
        self.session.attachment(name)
    }

    /// The number of gradients in the open batch.
    pub fn added(&self) -> usize {
        self.batch.added()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.session.plan()
    }

    fn check_saved(&self) -> Result<()> {
        if self.unsaved { Err(Error::UnsavedStep { step: self.step() + 1 }) } else { Ok(()) }
    }
}
