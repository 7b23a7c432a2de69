//! Private gradients: batches of clipped gradients in, noisy sums out.

use std::sync::Arc;

use dp_mechanisms::noise::HashKey;
use dp_mechanisms::{Budget, Participation, Plan, Relation, Seed, Session, StateFile, Strategy};

use crate::clip::{ClippedSum, Clipping};
use crate::error::{Error, Result, check_length};

/// A live stream of noisy gradient sums: `Σ_i clip(g_i) + σ ξ_t` for every batch t.
///
/// Gradients are added one person at a time and a batch is finished into a caller's buffer. What is made of the noisy
/// sums ([`crate::Sgd`], [`crate::Ftrl`], or a trainer of your own) is post-processing and costs no privacy. Divide by a
/// *public* number, such as the planned batch size, where an average is wanted.
///
/// With a [`StateFile`] ([`PrivateGradients::open`]) the state is sealed on disk before a noisy sum becomes visible. A process that is
/// killed at any point reopens it and continues with the same noise. A batch that was not finished is gone, and nobody has seen
/// anything of it: add all its gradients again. The noisy sum of the last finished batch is shown again by
/// [`PrivateGradients::last_finished`], because the crash may have come before the optimizer used it.
///
/// # Privacy
/// All noisy sums together satisfy the budget, under the relation and participation that were declared, even if every
/// gradient is computed from all noisy sums before it (the model) and even if somebody sees all of them. One person must
/// be added at most once to a batch and only to batches that the participation allows:
/// [`crate::CyclicBatches`] makes a schedule that does. An empty batch gets its noise like every other.
///
/// Leaving a person out because their gradient was refused (NaN) depends on that person alone and counts as a gradient
/// of zero. Everything else that is computed from gradients — norms, losses on training data, the error message itself —
/// is outside the guarantee. The noise is that of [`dp_mechanisms::Mechanism`], Gaussian in floating point: gradients are
/// no integers, and the exact mode does not apply to them. With a state all of this holds through any number of crashes: a step is
/// answered once, and shown again from the state rather than computed again; see [`dp_mechanisms::state`] for what a backup
/// that is put back would do.
///
/// # Complexity
/// Adding: O(d). Finishing: O(d) and one step of the strategy's noise filter. Nothing is allocated per step after the first two.
/// With a state, one synchronized write of about 16 bytes a coordinate for each step; reopening makes the noise of all steps before.
///
/// # Example
/// ```
/// use dp_ftrl::{Clipping, PrivateGradients};
/// use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 2)?)?;
/// let budget = Budget::approximate(1.0, 1e-6)?;
/// let mut gradients = PrivateGradients::new(
///     strategy, Clipping::flat(1.0)?, 3, Relation::ZeroOut, Participation::Single, budget, Seed::from_system()?,
/// )?;
/// let mut noisy = [0.0; 3];
/// for batch in [[[1.0, 2.0, 2.0], [0.1, 0.0, 0.0]], [[0.0, 0.0, 9.0], [0.0, 0.2, 0.0]]] {
///     for gradient in &batch {
///         gradients.add(gradient)?;
///     }
///     gradients.finish(&mut noisy)?;
/// }
/// assert!(gradients.finish(&mut noisy).is_err(), "two steps were planned");
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug)]
pub struct PrivateGradients {
    batch: ClippedSum,
    /// All noise comes from here.
    session: Session,
    /// A step is made and waits for the disk.
    unsaved: bool,
}

/// What is known about a finished batch beside its noisy sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The step, counted from 1.
    pub step: usize,
    /// The standard deviation of the noise in each coordinate of the strategy's *workload*, applied to all noisy sums so
    /// far: of the prefix sum for the count, of the iterate for momentum.
    pub standard_deviation: f64,
}

impl Step {
    pub(crate) fn of(plan: &Plan, step: usize) -> Self {
        Self { step, standard_deviation: plan.standard_deviation(step).unwrap_or_default() }
    }
}

/// The plan for gradients clipped by a rule: what [`PrivateGradients::new`] makes, and what resuming needs again.
///
/// # Errors
/// As [`Plan::idealized`].
pub fn plan(
    strategy: Arc<dyn Strategy>,
    clipping: &Clipping,
    relation: Relation,
    participation: Participation,
    budget: Budget,
) -> Result<Plan> {
    Ok(Plan::idealized(strategy, clipping.footprint(relation, participation)?, budget)?)
}

impl PrivateGradients {
    /// Private gradients of the given dimension. Where the noise comes from is the seed's: [`Seed::from_system`] for
    /// gradients that are private, [`Seed::reproducible`] for tests, demonstrations and reproductions.
    ///
    /// # Errors
    /// A dimension of zero or not that of the clipping's layers, a sensitivity that cannot be bounded, or what the strategy
    /// refuses.
    pub fn new(
        strategy: Arc<dyn Strategy>,
        clipping: Clipping,
        dimension: usize,
        relation: Relation,
        participation: Participation,
        budget: Budget,
        seed: Seed,
    ) -> Result<Self> {
        let plan = plan(strategy, &clipping, relation, participation, budget)?;
        Self::open(plan, clipping, dimension, seed, None)
    }

    /// The same for a plan that was made before: that of [`plan`], or of people who are drawn at random
    /// ([`dp_mechanisms::accountant::sampling::SampledPlan::releases`]), for whom [`crate::SampledGradients`] sees to it that
    /// only those who were drawn take part. Resumes what the file holds, if there is one and it holds something; where the
    /// noise comes from is the seed's ([`Session::open`]).
    ///
    /// # Errors
    /// A plan for another clipping; a saved state of another plan, dimension or origin, or one that cannot be read; and as
    /// [`PrivateGradients::new`].
    pub fn open(
        plan: Plan,
        clipping: Clipping,
        dimension: usize,
        seed: Seed,
        file: Option<StateFile>,
    ) -> Result<Self> {
        check_plan(&plan, &clipping)?;
        let batch = ClippedSum::new(clipping, dimension)?;
        let plan = plan.of_dimension(dimension)?.releasing_inputs()?;
        Ok(Self { batch, session: Session::open(plan, seed, file)?, unsaved: false })
    }

    /// Clips one person's gradient into the batch. The gradient may depend on everything released so far.
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

    /// Makes the step durable, where there is a state, then writes the noisy sum of the batch and starts the next one.
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

    /// The number of gradients in the open batch. In a schedule that depends on the data it is as private as they are.
    pub fn added(&self) -> usize {
        self.batch.added()
    }

    /// The number of finished steps, all of them durable where there is a state.
    pub fn step(&self) -> usize {
        self.session.step()
    }

    /// The number of coordinates.
    pub fn dimension(&self) -> usize {
        self.batch.dimension()
    }

    /// The plan: strategy, footprint, budget, σ and the standard deviation of every step.
    pub fn plan(&self) -> &Plan {
        self.session.plan()
    }

    /// The clipping rule.
    pub fn clipping(&self) -> &Clipping {
        self.batch.clipping()
    }

    /// The standard deviation σ of every entry of z, of which the noise of all steps is made.
    pub fn noise_standard_deviation(&self) -> f64 {
        self.plan().sigma()
    }

    /// The secret of a keyed hash for one purpose, the same in every life of a state from its first step on; see
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

    fn check_saved(&self) -> Result<()> {
        if self.unsaved { Err(Error::UnsavedStep { step: self.step() + 1 }) } else { Ok(()) }
    }
}

/// Refuses a plan whose footprint is not that of the clipping.
pub(crate) fn check_plan(plan: &Plan, clipping: &Clipping) -> Result<()> {
    let planned = plan.footprint();
    let fits = match planned.terms().first() {
        Some(term) => {
            let mut own = clipping.footprint(planned.relation(), term.participation)?;
            if let Some(dimension) = planned.dimension() {
                own = own.of_dimension(dimension)?;
            }
            own == *planned
        }
        None => false,
    };
    if fits { Ok(()) } else { Err(Error::Clipping { what: "the plan", expected: format!("{planned:?}") }) }
}
