//! Optimizers: what is made of noisy gradients. Pure post-processing, without any part in privacy.
//!
//! # Which strategy for which optimizer
//!
//! An optimizer is a linear map of the noisy gradients, up to a projection, and the noise in its iterates is that map
//! applied to the noise of the gradients. The optimizers are the same whatever correlates the noise; only the *strategy*
//! is built for a workload:
//!
//! | optimizer | iterates | workload to build the strategy for |
//! |---|---|---|
//! | [`Ftrl`] | `Π(-(1/λ) Σ ĝ)` | [`Workload::count`] |
//! | [`Sgd`] without momentum, constant rate | `-η Σ ĝ` | [`Workload::count`] |
//! | [`Sgd`] with momentum or a schedule | `-M ĝ` | [`Sgd::workload`], that is [`Workload::momentum`] |
//! | [`Adam`] | not linear | [`Workload::momentum`] with its first decay: what it would be if its denominators stood still |
//!
//! A strategy for the count under [`Sgd`] with momentum is just as private; momentum is then post-processing of prefix
//! sums, and its iterates are noisier than they could be. [`crate::iterates`] computes by how much, and its table shows it.

mod adam;
mod domain;
mod ftrl;
mod sgd;

pub use adam::Adam;
pub use domain::Region;
pub use ftrl::Ftrl;
pub use sgd::{Rates, Sgd};

#[cfg(doc)]
use dp_mechanisms::Workload;
