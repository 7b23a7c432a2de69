//! Gradients of very large models: a range of coordinates at a time, on as many machines as wanted.

mod norms;

use std::fmt;
use std::ops::Range;

use dp_mechanisms::Plan;
use dp_mechanisms::shards::NoiseShard;
use rayon::prelude::*;
use zeroize::Zeroize;

use crate::clip::Clipping;
use crate::error::{Error, Result, check_length};
use crate::gradients::{Step, check_plan};
pub use norms::{MeasuredPart, PartNorms, Shortening};

/// The noisy gradient sums of a range of a model's coordinates: what [`crate::PrivateGradients`] makes, on one machine of
/// several.
///
/// A gradient is clipped in two phases. Each shard [measures](GradientShard::measure) its part; the norms of all parts are
/// put together by [`Shortening::of`], wherever that is; and each shard [adds](GradientShard::add) its part, shortened by
/// what the norm of the whole gradient asks for. A shard adds nothing that was not measured and put together with parts that
/// cover the model exactly once, so that no gradient enters a sum unclipped.
///
/// Gradients come in single precision. They are shortened, summed and noised in double precision, and the result is rounded
/// once, when all noise is in it: no rounding that depends on the data alone is ever released.
///
/// # Privacy
/// That of [`crate::PrivateGradients`] with the same plan, for all shards of the set together; [`dp_mechanisms::shards`]
/// says how a step is answered once, also through crashes. What one machine tells another, the norms of parts, is private
/// and stays between them.
///
/// # Complexity
/// A gradient costs two passes over its part, a step costs that of [`NoiseShard`] on all cores, or the addition alone where
/// the noise was [made before](GradientShard::prepare). Nothing as long as the model is allocated per step. Memory: the
/// strategy's buffers in single precision, and a sum and a row of noise in double precision.
///
/// # Example
/// ```
/// use dp_ftrl::shard::{MeasuredPart, Shortening};
/// use dp_ftrl::{Clipping, GradientShard, gradients};
/// use dp_mechanisms::shards::NoiseShard;
/// use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed, Workload};
/// let strategy = Method::Blt.build(&Problem::new(Workload::count(), 10)?)?;
/// let clipping = Clipping::flat(1.0)?;
/// let budget = Budget::approximate(1.0, 1e-6)?;
/// let plan = gradients::plan(strategy, &clipping, Relation::ZeroOut, Participation::Single, budget)?;
/// let mut shards: Vec<GradientShard> = NoiseShard::in_memory(&plan, 10_000, 2, Seed::from_system()?)?
///     .into_iter()
///     .map(|noise| GradientShard::new(noise, clipping.clone()))
///     .collect::<Result<_, _>>()?;
/// // The gradient of one person, of norm 50 before clipping.
/// let gradient = vec![0.5_f32; 10_000];
/// let parts: Vec<&[f32]> = shards.iter().map(|shard| &gradient[shard.range()]).collect();
/// let norms = shards.iter().zip(&parts).map(|(shard, part)| shard.measure(part)).collect::<Result<Vec<_>, _>>()?;
/// let shortening = Shortening::of(&clipping, 10_000, norms.clone())?;
/// for ((shard, part), norms) in shards.iter_mut().zip(parts).zip(&norms) {
///     shard.add(MeasuredPart::new(part, norms), &shortening)?;
///     let mut noisy = vec![0.0; part.len()];
///     assert_eq!(shard.finish(&mut noisy)?.step, 1);
/// }
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
pub struct GradientShard {
    clipping: Clipping,
    noise: NoiseShard,
    sum: Vec<f64>,
    added: usize,
}

impl GradientShard {
    /// A shard with noise of its own, made for gradients that are clipped by the rule: the plan is that of
    /// [`crate::gradients::plan`].
    ///
    /// # Errors
    /// A plan for another clipping, or layers that are not those of the model.
    pub fn new(noise: NoiseShard, clipping: Clipping) -> Result<Self> {
        check_plan(noise.plan(), &clipping)?;
        if let Some(end) = clipping.layers(noise.dimension()).last().map(|(layer, _)| layer.end) {
            check_length("the model", end, noise.dimension())?;
        }
        let sum = vec![0.0; noise.range().len()];
        Ok(Self { clipping, noise, sum, added: 0 })
    }

    /// The first phase of clipping: the norms of this shard's part of one person's gradient, for [`Shortening::of`].
    ///
    /// # Errors
    /// A part that is not as long as the range, NaN or infinities. Leave the person out on every machine then, as if their
    /// gradient were zero; without this part no other one can be added.
    pub fn measure(&self, part: &[f32]) -> Result<PartNorms> {
        PartNorms::of(&self.clipping, self.noise.dimension(), &self.noise.range(), part)
    }

    /// The second phase: adds the part, shortened. Each person at most once in a step.
    ///
    /// # Errors
    /// [`Error::Parts`]: a part that is not that of this shard, or not the one that was measured and added up. The sum is
    /// then as before.
    pub fn add(&mut self, part: MeasuredPart<'_>, shortening: &Shortening) -> Result<()> {
        let range = self.noise.range();
        let again = self.measure(part.values)?;
        if again != *part.norms {
            return Err(Error::Parts { reason: "it is not the part that was measured", at: range.start });
        }
        let factors = shortening.factors(part.norms)?;
        for ((layer, _), factor) in self.clipping.layers(self.noise.dimension()).zip(factors) {
            let (start, end) = (layer.start.max(range.start), layer.end.min(range.end));
            if start >= end {
                continue;
            }
            let within = start - range.start..end - range.start;
            let (sums, values) = (&mut self.sum[within.clone()], &part.values[within]);
            let add = |sums: &mut [f64], values: &[f32]| {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * f64::from(*value));
            };
            if sums.len() <= SHARED {
                add(sums, values);
            } else {
                sums.par_chunks_mut(SHARED).zip(values.par_chunks(SHARED)).for_each(|(s, v)| add(s, v));
            }
        }
        self.added += 1;
        Ok(())
    }

    /// Writes the noisy sum of the batch, rounded once, and starts the next batch.
    ///
    /// # Errors
    /// What [`NoiseShard::release`] refuses, among others a step that was answered before for another sum; batch and noise
    /// are then as before.
    pub fn finish(&mut self, out: &mut [f32]) -> Result<Step> {
        let step = self.noise.release(&self.sum, out)?;
        self.clear();
        Ok(Step::of(self.plan(), step))
    }

    /// Forgets what was added to the batch.
    pub fn clear(&mut self) {
        self.sum.fill(0.0);
        self.added = 0;
    }

    /// Starts to make the noise of the next step on other cores, while gradients are computed; see [`NoiseShard::prepare`].
    pub fn prepare(&mut self) {
        self.noise.prepare();
    }

    /// Moves on to a later step without answering those between; see [`NoiseShard::skip_to`].
    ///
    /// # Errors
    /// As [`NoiseShard::skip_to`]; [`Error::UnfinishedBatch`] where gradients have been added.
    pub fn skip_to(&mut self, step: usize) -> Result<()> {
        match self.added {
            0 => Ok(self.noise.skip_to(step)?),
            added => Err(Error::UnfinishedBatch { added }),
        }
    }

    /// Saves the state of the noise; see [`NoiseShard::checkpoint`].
    ///
    /// # Errors
    /// As [`NoiseShard::checkpoint`]; [`Error::UnfinishedBatch`] where gradients have been added.
    pub fn checkpoint(&mut self) -> Result<usize> {
        match self.added {
            0 => Ok(self.noise.checkpoint()?),
            added => Err(Error::UnfinishedBatch { added }),
        }
    }

    /// The number of finished steps.
    pub fn step(&self) -> usize {
        self.noise.step()
    }

    /// The number of steps that may have been seen, before a crash included; see [`NoiseShard::answered`].
    pub fn answered(&self) -> usize {
        self.noise.answered()
    }

    /// The number of gradients in the open batch.
    pub fn added(&self) -> usize {
        self.added
    }

    /// The coordinates of this shard.
    pub fn range(&self) -> Range<usize> {
        self.noise.range()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.noise.plan()
    }
}

/// Parts longer than this are added by several cores.
const SHARED: usize = 1 << 16;

/// Neither noise nor gradients leave through a debug print.
impl fmt::Debug for GradientShard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GradientShard").field("noise", &self.noise).finish_non_exhaustive()
    }
}

impl Drop for GradientShard {
    fn drop(&mut self) {
        self.sum.zeroize();
    }
}
