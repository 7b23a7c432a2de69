//! Very long vectors on one machine or many: each shard makes the noise of a range of coordinates, and keeps its own state.
//!
//! # The set
//! [`ShardSet::create`] consumes a seed and cuts all coordinates into ranges that neither overlap nor leave a hole. What it
//! writes, a manifest with the secret and a record for every shard, is the only way to open a shard that is kept; shards of
//! a run that is not kept come from [`NoiseShard::in_memory`], which consumes its seed as well.
//!
//! # A step is answered once
//! A shard notes every step, with a keyed digest of its input, in a record that is synchronized to the disk before the
//! release becomes visible. The state of the noise, which is far larger, is written by [`NoiseShard::checkpoint`] as seldom
//! as wanted. After a crash the shard stands at its last checkpoint, and the steps behind it that the record lists may have
//! been seen. It answers such a step again only if the input is the same to the last bit, in which case the release is,
//! too. Whoever cannot repeat the inputs moves on by [`NoiseShard::skip_to`]: the releases that were lost are then simply
//! not used, which costs accuracy and no privacy.
//!
//! # What cannot be noticed
//! A copy of the whole directory is another live set with the same noise, and so is one that is put back from a backup
//! after it went on. Move it, never copy it.

mod ahead;
mod checkpoint;
mod record;
mod set;

use std::fmt;
use std::ops::Range;

use dp_linalg::rational::Sample;
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::noise::{Precision, Seed, ShardedNoise, TILE};
use crate::plan::Plan;
use crate::sensitivity::Domain;
use ahead::Ahead;
use record::Files;
pub use set::ShardSet;

/// The live noise of a range of coordinates: takes the exact sum of a step in double precision, gives it back with its
/// noise, rounded once to single precision.
///
/// It is not `Clone` and prints neither noise nor inputs.
///
/// # Privacy
/// All shards of a set together are the one mechanism of their plan that releases `x_t + σ ξ_t`: every coordinate belongs to
/// one of them, and none answers a step twice with different inputs; see [`crate::shards`]. The input is that of the plan's
/// footprint *over all shards*: who makes sums of clipped vectors clips by the norm of the whole vector.
///
/// # Complexity
/// A step costs that of [`ShardedNoise`] for its coordinates, on all cores; after [`NoiseShard::prepare`] the noise is
/// already there. Of a kept shard, also a digest of the input and one synchronized write of 24 bytes. A checkpoint writes
/// the buffers of the strategy in single precision, and opening reads them.
///
/// # Example
/// ```
/// use dp_mechanisms::shards::NoiseShard;
/// use dp_mechanisms::sensitivity::Term;
/// use dp_mechanisms::{Budget, Footprint, Method, Participation, Plan, Problem, Relation, Seed, Workload};
/// let strategy = Method::Blt.build(&Problem::new(Workload::count(), 10)?)?;
/// let term = Term { weight: 1.0, participation: Participation::Single };
/// let footprint = Footprint::encoded(vec![term], Relation::ZeroOut)?;
/// let plan = Plan::idealized(strategy, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// let mut shards = NoiseShard::in_memory(&plan, 10_000, 2, Seed::from_system()?)?;
/// assert_eq!(shards[1].range(), 8192..10_000);
/// let mut noisy = vec![0.0; 1808];
/// assert_eq!(shards[1].release(&vec![0.25; 1808], &mut noisy)?, 1);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct NoiseShard {
    plan: Plan,
    range: Range<usize>,
    dimension: usize,
    noise: Ahead,
    step: usize,
    files: Option<Files>,
}

impl NoiseShard {
    /// All shards of a run that is not kept: `count` ranges of nearly equal length.
    ///
    /// # Errors
    /// A count of zero, a dimension that the plan's footprint is not proved for, noise that does not fit in memory, what the
    /// strategy refuses.
    pub fn in_memory(plan: &Plan, dimension: usize, count: usize, seed: Seed) -> Result<Vec<Self>> {
        let plan = &of_shards(plan, dimension)?;
        let shards =
            ShardedNoise::shards(plan.strategy().as_ref(), seed, dimension, count, Precision::Single)?;
        Ok(shards.into_iter().map(|noise| Self::around(plan.clone(), noise, None, None)).collect())
    }

    /// A shard with noise that stands anywhere, and the row of its next step if that is made already.
    fn around(
        plan: Plan,
        noise: ShardedNoise,
        row: Option<Zeroizing<Vec<f64>>>,
        files: Option<Files>,
    ) -> Self {
        let (range, dimension) = (noise.range(), noise.dimension());
        let step = noise.step() - usize::from(row.is_some());
        Self { plan, range, dimension, noise: Ahead::new(noise, row), step, files }
    }

    /// Takes the exact sum of the next step and writes it with its noise: `x_t + σ ξ_t`, added in double precision and
    /// rounded once. Returns the step, counted from 1.
    ///
    /// # Errors
    /// A step past the horizon, vectors that are not as long as the range, NaN or infinities; a step that was answered
    /// before with another input ([`Error::State`]); a record that cannot be written. The output is then untouched and the
    /// shard as before.
    pub fn release(&mut self, sum: &[f64], out: &mut [f32]) -> Result<usize> {
        self.check_step(&[("the sum of a shard", sum.len()), ("the output of a shard", out.len())])?;
        self.check_finite(sum)?;
        self.plan.footprint().domain().check(self.step + 1, sum)?;
        let noise = self.noise.row()?;
        if let Some(files) = &mut self.files {
            files.note(self.step + 1, self.range.start, sum)?;
        }
        let sigma = self.plan.sigma();
        out.par_chunks_mut(TILE).zip(sum.par_chunks(TILE)).zip(noise.par_chunks(TILE)).for_each(
            |((out, sum), noise)| {
                for ((out, sum), noise) in out.iter_mut().zip(sum).zip(noise) {
                    *out = (sum + sigma * noise) as f32;
                }
            },
        );
        self.noise.use_up();
        self.step += 1;
        Ok(self.step)
    }

    /// [`NoiseShard::release`] in place, in the precision of the values: the noise is added in double precision, and the result
    /// rounded once. Values in single precision come out as `release` would have made them.
    ///
    /// # Errors
    /// As [`NoiseShard::release`]; the values are then untouched.
    pub fn release_in_place<T: Sample>(&mut self, values: &mut [T]) -> Result<usize> {
        self.check_step(&[("the sum of a shard", values.len())])?;
        self.check_finite(values)?;
        let domain = self.plan.footprint().domain();
        let noise = self.noise.row()?;
        // What is not kept, and bounded by its encoding alone, is looked at by nothing else.
        if self.files.is_some() || domain != Domain::Encoded {
            let sum: Zeroizing<Vec<f64>> =
                Zeroizing::new(values.par_iter().map(|value| value.to_f64()).collect());
            domain.check(self.step + 1, &sum)?;
            if let Some(files) = &mut self.files {
                files.note(self.step + 1, self.range.start, &sum)?;
            }
        }
        let sigma = self.plan.sigma();
        values.par_chunks_mut(TILE).zip(noise.par_chunks(TILE)).for_each(|(values, noise)| {
            for (value, noise) in values.iter_mut().zip(noise) {
                *value = T::from_f64(value.to_f64() + sigma * noise);
            }
        });
        self.noise.use_up();
        self.step += 1;
        Ok(self.step)
    }

    /// Refuses a step past the horizon, and vectors that are not as long as the range.
    fn check_step(&self, lengths: &[(&'static str, usize)]) -> Result<()> {
        if self.step >= self.plan.steps() {
            return Err(Error::HorizonReached { horizon: self.plan.steps() });
        }
        for &(what, actual) in lengths {
            if actual != self.range.len() {
                return Err(Error::Dimension { what, expected: self.range.len(), actual });
            }
        }
        Ok(())
    }

    fn check_finite<T: Sample>(&self, values: &[T]) -> Result<()> {
        match values.par_iter().position_first(|value| !value.to_f64().is_finite()) {
            Some(index) => {
                Err(Error::NonFiniteInput { step: self.step + 1, index, value: values[index].to_f64() })
            }
            None => Ok(()),
        }
    }

    /// Starts to make the noise of the next step on other cores and returns at once; [`NoiseShard::release`] then finds it
    /// made. Called by a thread of a rayon pool, it uses that pool, otherwise the global one.
    pub fn prepare(&mut self) {
        self.noise.start();
    }

    /// Moves on without answering, until so many steps are behind: for steps that a checkpoint does not have, and whose
    /// releases are in a model that was saved later, or are given up. They are never answered again by this shard.
    ///
    /// # Complexity
    /// That of making the noise of the steps between.
    ///
    /// # Errors
    /// A step past the horizon, or one that is behind already: noise does not run backwards.
    pub fn skip_to(&mut self, step: usize) -> Result<()> {
        if step > self.plan.steps() {
            return Err(Error::HorizonReached { horizon: self.plan.steps() });
        }
        if step < self.step {
            return Err(Error::State {
                reason: format!("the noise stands at step {} and cannot go back to step {step}", self.step),
            });
        }
        while self.step < step {
            self.noise.row()?;
            self.noise.use_up();
            self.step += 1;
        }
        Ok(())
    }

    /// Writes the state of the noise, so that a shard that is opened later stands here; returns the step. Save the model of
    /// this step first: a shard can be moved forward to the step of a model, but not back.
    ///
    /// # Errors
    /// [`Error::State`]: a shard that is not kept, or a file system that refuses; the old checkpoint is then in place.
    pub fn checkpoint(&mut self) -> Result<usize> {
        let Some(files) = &mut self.files else {
            return Err(Error::State { reason: "this shard is not kept; open it from a set".to_owned() });
        };
        let (noise, row) = self.noise.settled()?;
        files.save(self.step, noise, row)?;
        Ok(self.step)
    }

    /// The number of steps behind.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The number of steps that may have been seen, by this process or one before it. Those above [`NoiseShard::step`] are
    /// answered again for the same input only.
    pub fn answered(&self) -> usize {
        self.files.as_ref().map_or(self.step, |files| files.answered().max(self.step))
    }

    /// The coordinates of this shard.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The number of coordinates of all shards.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// The plan by which vectors of so many coordinates are released with their noise, refused where they cannot be.
fn of_shards(plan: &Plan, dimension: usize) -> Result<Plan> {
    plan.clone().of_dimension(dimension)?.releasing_inputs()
}

/// Neither noise nor inputs leave through a debug print.
impl fmt::Debug for NoiseShard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NoiseShard")
            .field("range", &self.range)
            .field("dimension", &self.dimension)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
