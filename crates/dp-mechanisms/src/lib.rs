//! Differential privacy under continual observation.
//!
//! One line from data to release: `workload A → strategy C → calibrated plan σ → correlated noise → release`.
//!
//! | module | owns |
//! |---|---|
//! | [`workload`] | the statistics A, streamed |
//! | [`strategy`] | the factorizations `A = B C`, one file each |
//! | [`sensitivity`] | neighbouring relation, participation, footprint of an encoding |
//! | [`budget`] | (ε, δ), zCDP, GDP and the exact Gaussian calibration |
//! | [`plan`] | the only place that computes σ |
//! | [`bounds`] | what nothing can beat |
//! | [`planner`] | evaluates the strategies for a workload and picks |
//! | [`noise`] | where `z` comes from, and the correlated noise made of it |

pub mod bounds;
pub mod budget;
mod error;
pub mod noise;
pub mod plan;
pub mod planner;
pub mod sensitivity;
pub mod strategy;
pub mod workload;

pub use budget::Budget;
pub use error::{Error, Result};
pub use noise::{CorrelatedNoise, GaussianSource, Seed, Side};
pub use plan::Plan;
pub use sensitivity::{Footprint, Participation, Relation, Sensitivity};
pub use strategy::Strategy;
pub use workload::Workload;
