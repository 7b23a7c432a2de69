//! Private learning through its public interface.

mod clipping;
mod examples;
mod gradients;
mod momentum;
mod optimizers;
mod processes;
mod regret;
mod sampling;
mod shard;
mod training;
