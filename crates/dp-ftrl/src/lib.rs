//! Private learning with correlated noise.
//!
//! A trainer computes one gradient per person; [`PrivateGradients`] clips them, sums them over a batch and adds the noise
//! of a strategy, correlated over the steps so that most of it cancels in the sum of many steps. Everything after that —
//! the optimizer, the model, its predictions — is post-processing.
//!
//! | module | owns |
//! |---|---|
//! | [`clip`] | the bound on one person's part in a step |
//! | [`adaptive`] | a bound that follows a private quantile of the gradients' norms |
//! | [`batches`] | who takes part when: in a fixed order over several epochs, or drawn at random in secret |
//! | [`gradients`], [`sampled`], [`durable`] | the live object: gradients in, noisy sums out; of people who are drawn; continued later, and through crashes |
//! | [`shard`] | the same for very large models: a range of coordinates at a time, in single precision |
//! | [`optimizer`] | follow the regularized leader, gradient descent with momentum |
//! | [`iterates`] | the noise in an optimizer's iterates, for any strategy |
//! | [`regret`] | what a run lost, measured and bounded |
//! | [`data`], [`model`], [`train`] | examples to learn from, what learns, and the loop around it all; with the feature `training`, which is on unless it is switched off |
//!
//! [`train`] shows what different noise reaches on handwritten digits at the same budget (and `docs/learning.svg` draws it).

pub mod adaptive;
pub mod batches;
pub mod clip;
#[cfg(feature = "training")]
pub mod data;
pub mod durable;
mod error;
pub mod gradients;
pub mod iterates;
#[cfg(feature = "training")]
pub mod model;
pub mod optimizer;
pub mod regret;
pub mod sampled;
pub mod shard;
#[cfg(feature = "training")]
pub mod train;

pub use adaptive::AdaptiveNorm;
pub use batches::{CyclicBatches, PoissonBatches};
pub use clip::{ClippedSum, Clipping};
pub use durable::DurableGradients;
pub use error::{Error, Result};
pub use gradients::{PrivateGradients, Step};
pub use optimizer::{Adam, Domain, Ftrl, Rates, Sgd};
pub use regret::{Regret, RegretBound};
pub use sampled::SampledGradients;
pub use shard::GradientShard;
