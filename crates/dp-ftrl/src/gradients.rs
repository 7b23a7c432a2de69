//! Private gradients: batches of clipped gradients in, noisy sums out.

use std::fmt;
use std::sync::Arc;

use dp_mechanisms::noise::HashKey;
use dp_mechanisms::{Budget, Mechanism, Participation, Plan, Relation, Seed, Snapshot, Strategy};

use crate::clip::{ClippedSum, Clipping};
use crate::error::{Error, Result, check_length};

/// A live stream of noisy gradient sums: `Σ_i clip(g_i) + σ ξ_t` for every batch t.
///
/// Gradients are added one person at a time and a batch is finished into a caller's buffer. What is made of the noisy
/// sums ([`crate::Sgd`], [`crate::Ftrl`], or a trainer of your own) is post-processing and costs no privacy. Divide by a
/// *public* number, such as the planned batch size, where an average is wanted.
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
/// no integers, and the exact mode does not apply to them.
///
/// # Complexity
/// Adding: O(d). Finishing: O(d) and one step of the strategy's noise filter. Nothing is allocated per step.
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
pub struct PrivateGradients {
    batch: ClippedSum,
    /// All noise comes from here.
    mechanism: Mechanism,
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
        Self::with_plan(plan, clipping, dimension, seed)
    }

    /// The same for a plan that was made before: that of [`plan`], or of people who are drawn at random
    /// ([`dp_mechanisms::accountant::sampling::SampledPlan::releases`]), for whom [`crate::SampledGradients`] sees to it that
    /// only those who were drawn take part.
    ///
    /// # Errors
    /// A plan for another clipping, and as [`PrivateGradients::new`].
    pub fn with_plan(plan: Plan, clipping: Clipping, dimension: usize, seed: Seed) -> Result<Self> {
        check_plan(&plan, &clipping)?;
        let batch = ClippedSum::new(clipping, dimension)?;
        Ok(Self { batch, mechanism: Mechanism::new(of_gradients(plan, dimension)?, seed)? })
    }

    /// The secret of a keyed hash for one purpose; see [`Mechanism::hash_key`].
    pub fn hash_key(&self, purpose: &str) -> HashKey {
        self.mechanism.hash_key(purpose)
    }

    /// Clips one person's gradient into the batch. The gradient may depend on everything released so far.
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN or infinities; the batch is then as before.
    pub fn add(&mut self, gradient: &[f64]) -> Result<()> {
        self.batch.add(gradient)
    }

    /// Moves a part of the batch that was summed elsewhere into it; see [`ClippedSum::absorb`].
    ///
    /// # Errors
    /// Another dimension or another clipping; both sums are then as before.
    pub fn absorb(&mut self, part: &mut ClippedSum) -> Result<()> {
        self.batch.absorb(part)
    }

    /// Writes the noisy sum of the batch, and starts the next one.
    ///
    /// # Errors
    /// A step past the horizon, or a buffer of another dimension. The batch and the noise are then as before.
    pub fn finish(&mut self, out: &mut [f64]) -> Result<Step> {
        check_length("the output buffer", self.batch.dimension(), out.len())?;
        let step = self.mechanism.release(self.batch.values(), out)?;
        self.batch.clear();
        Ok(Step::of(self.plan(), step))
    }

    /// The number of gradients in the open batch. In a schedule that depends on the data it is as private as they are.
    pub fn added(&self) -> usize {
        self.batch.added()
    }

    /// The number of finished steps.
    pub fn step(&self) -> usize {
        self.mechanism.step()
    }

    /// The number of coordinates.
    pub fn dimension(&self) -> usize {
        self.mechanism.dimension()
    }

    /// The plan: strategy, footprint, budget, σ and the standard deviation of every step.
    pub fn plan(&self) -> &Plan {
        self.mechanism.plan()
    }

    /// The clipping rule.
    pub fn clipping(&self) -> &Clipping {
        self.batch.clipping()
    }

    /// The standard deviation σ of every entry of z, of which the noise of all steps is made.
    pub fn noise_standard_deviation(&self) -> f64 {
        self.plan().sigma()
    }

    /// Everything needed to continue between two batches: the seed of the noise, the number of finished steps and the
    /// noise of the last one (to recognize it again). It holds no gradient and no model: save the optimizer beside it.
    /// A secret, because of the seed.
    ///
    /// # Errors
    /// [`Error::UnfinishedBatch`]: a state in the middle of a batch would not say whose gradients it holds, and whoever
    /// continues from it might add somebody twice. Finish the batch, or drop it.
    pub fn snapshot(&self) -> Result<Snapshot> {
        match self.added() {
            0 => Ok(self.mechanism.snapshot()),
            added => Err(Error::UnfinishedBatch { added }),
        }
    }

    /// Continues where a snapshot was taken; see [`Mechanism::resume`] for the seed. The plan is that of [`plan`].
    ///
    /// # Privacy
    /// As [`Mechanism::resume`]. [`crate::DurableGradients`] keeps one live copy of the state and locks it.
    ///
    /// # Complexity
    /// That of making the noise of all steps before.
    ///
    /// # Errors
    /// A plan for another clipping, a snapshot of another plan, or noise that does not come out as it was.
    pub fn resume(plan: Plan, clipping: Clipping, snapshot: &Snapshot, seed: Seed) -> Result<Self> {
        check_plan(&plan, &clipping)?;
        let batch = ClippedSum::new(clipping, snapshot.dimension())?;
        let plan = of_gradients(plan, snapshot.dimension())?;
        Ok(Self { batch, mechanism: Mechanism::resume(plan, snapshot, seed)? })
    }
}

/// The plan by which vectors of so many coordinates are released with their noise.
pub(crate) fn of_gradients(plan: Plan, dimension: usize) -> Result<Plan> {
    Ok(plan.of_dimension(dimension)?.releasing_inputs()?)
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

/// Neither noise nor gradients leave through a debug print.
impl fmt::Debug for PrivateGradients {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PrivateGradients").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}
