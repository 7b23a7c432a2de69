//! Gradients of very large models: a range of coordinates at a time, in single precision, on as many machines as wanted.

use std::fmt;
use std::ops::Range;

use dp_mechanisms::noise::{Precision, ShardedNoise};
use dp_mechanisms::{Plan, Seed};

use crate::error::{Error, Result, check_length};
use crate::gradients::Step;

/// The noisy gradient sums of a range of a model's coordinates: what [`crate::PrivateGradients`] makes, without its `f64`
/// buffers of the whole model.
///
/// Each machine holds the sums of its own coordinates, already clipped, and adds the noise of those coordinates in place.
/// All shards are given the same plan and the same secret seed; together they are the one mechanism of that plan, and the
/// noise of a coordinate is the same to the last bit however the model is cut.
///
/// # Privacy
/// That of [`crate::PrivateGradients`] with the same plan, if two things hold that no shard can check alone. Gradients are
/// clipped by the norm of the *whole* vector: add up the squared norms of the parts over the shards before shortening
/// them. And every coordinate belongs to exactly one shard: a coordinate that is released twice, with one noise and
/// different sums, gives their difference away. Sums in single precision round; a norm that is bounded by κ before
/// rounding is bounded by `κ(1 + 2⁻²⁴)` after it, which [`GradientShard::ROUNDING`] is there to take off the clipping norm.
///
/// # Complexity
/// A step costs O(d) for the coordinates of the range, on all cores, with the state of the strategy's filter in single
/// precision. Nothing is allocated per step.
///
/// # Example
/// ```
/// use dp_ftrl::{Clipping, GradientShard, gradients};
/// use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed, Workload};
/// let strategy = Method::Blt.build(&Problem::new(Workload::count(), 10)?)?;
/// let clipping = Clipping::flat(1.0)?;
/// let budget = Budget::approximate(1.0, 1e-6)?;
/// let plan = gradients::plan(strategy, &clipping, Relation::ZeroOut, Participation::Single, budget)?;
/// // Two machines, one secret.
/// let secret = [7; 32];
/// let mut parts = [0..6000, 6000..10_000].map(|range| {
///     GradientShard::new(plan.clone(), Seed::shared(secret), 10_000, range).unwrap()
/// });
/// let (mut left, mut right) = (vec![0.0; 6000], vec![0.0; 4000]);
/// parts[0].finish(&mut left)?;
/// parts[1].finish(&mut right)?;
/// assert!(left[0] != 0.0 && left[..4000] != right[..]);
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
pub struct GradientShard {
    plan: Plan,
    noise: ShardedNoise,
}

impl GradientShard {
    /// What to multiply a clipping norm by so that vectors rounded to single precision still keep it.
    pub const ROUNDING: f64 = 1.0 - 1.2e-7;

    /// The coordinates `range` out of `dimension`. The plan is that of [`crate::gradients::plan`].
    ///
    /// # Errors
    /// An empty range or one that does not lie within the dimension, or a strategy whose noise keeps every step and does
    /// not fit in memory.
    pub fn new(plan: Plan, seed: Seed, dimension: usize, range: Range<usize>) -> Result<Self> {
        let noise = ShardedNoise::new(plan.strategy().as_ref(), seed, dimension, range, Precision::Single)?;
        Ok(Self { plan, noise })
    }

    /// Adds the noise of the next step to a sum of clipped gradients, in place.
    ///
    /// # Errors
    /// A sum that is not as long as the range or not finite, or a step past the horizon; sum and noise are then as before.
    pub fn finish(&mut self, sum: &mut [f32]) -> Result<Step> {
        check_length("the sum", self.noise.range().len(), sum.len())?;
        if let Some(index) = sum.iter().position(|value| !value.is_finite()) {
            return Err(Error::NonFinite { what: "the sum", index, value: f64::from(sum[index]) });
        }
        let step = self.step() + 1;
        let standard_deviation = self
            .plan
            .standard_deviation(step)
            .ok_or(dp_mechanisms::Error::HorizonReached { horizon: self.plan.steps() })?;
        self.noise.add_to(self.plan.sigma(), sum)?;
        Ok(Step { step, standard_deviation })
    }

    /// Catches up with a run that was interrupted after so many steps; the noise continues as it would have.
    ///
    /// # Complexity
    /// That of making the noise of all steps before.
    ///
    /// # Errors
    /// A step past the horizon.
    pub fn skip_to(&mut self, step: usize) -> Result<()> {
        Ok(self.noise.skip_to(step)?)
    }

    /// The number of finished steps.
    pub fn step(&self) -> usize {
        self.noise.step()
    }

    /// The coordinates of this shard.
    pub fn range(&self) -> Range<usize> {
        self.noise.range()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// The noise never leaves through a debug print.
impl fmt::Debug for GradientShard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GradientShard").field("noise", &self.noise).finish_non_exhaustive()
    }
}
