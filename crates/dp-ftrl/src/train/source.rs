//! Where a training gets the sum of a batch from: with noise, or without.

use dp_mechanisms::Plan;

use crate::error::Result;
use crate::{ClippedSum, PrivateGradients};

/// The sums of batches.
#[derive(Debug)]
pub(super) enum Source {
    /// Without noise, for comparisons.
    Exact(ClippedSum),
    /// With noise.
    Private(Box<PrivateGradients>),
}

impl Source {
    /// Moves a part of the batch in.
    pub(super) fn absorb(&mut self, part: &mut ClippedSum) -> Result<()> {
        match self {
            Self::Exact(sum) => sum.absorb(part),
            Self::Private(gradients) => gradients.absorb(part),
        }
    }

    /// Writes the sum of the batch and starts the next one.
    pub(super) fn finish(&mut self, out: &mut [f64]) -> Result<()> {
        match self {
            Self::Exact(sum) => {
                out.copy_from_slice(sum.values());
                sum.clear();
            }
            Self::Private(gradients) => {
                gradients.finish(out)?;
            }
        }
        Ok(())
    }

    /// Writes the last sum again, where there was noise in it.
    pub(super) fn last_finished(&self, out: &mut [f64]) -> Result<()> {
        if let Self::Private(gradients) = self {
            gradients.last_finished(out)?;
        }
        Ok(())
    }

    /// The plan of the noise.
    pub(super) fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Exact(_) => None,
            Self::Private(gradients) => Some(gradients.plan()),
        }
    }
}
