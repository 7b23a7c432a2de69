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
//! | [`bounds`], [`certificate`] | what nothing can beat, in closed form and by duality without matrices |
//! | [`planner`] | evaluates the strategies for a workload and picks |
//! | [`noise`] | where `z` comes from, and the correlated noise made of it |
//! | [`mechanism`] | push an input, get the release |
//! | [`exact`] | the same in exact integers, for adversaries who look at every bit |
//! | [`snapshot`], [`durable`] | continuing later, and surviving crashes |
//! | [`sparse`] | a mechanism over a huge number of coordinates, few of them touched or asked for |
//! | [`horizon`] | streams of unknown length |

pub mod bounds;
pub mod budget;
pub mod certificate;
pub mod durable;
mod error;
pub mod exact;
pub mod horizon;
pub mod mechanism;
pub mod noise;
pub mod plan;
pub mod planner;
pub mod sensitivity;
pub mod snapshot;
pub mod sparse;
pub mod strategy;
pub mod workload;

pub use budget::Budget;
pub use durable::{DurableMechanism, Resumable, StateFile};
pub use error::{Error, Result};
pub use horizon::DoublingMechanism;
pub use mechanism::{Mechanism, Release};
pub use noise::{CorrelatedNoise, GaussianSource, Seed, Side};
pub use plan::Plan;
pub use sensitivity::{Footprint, Participation, Relation, Sensitivity};
pub use snapshot::Snapshot;
pub use sparse::SparseMechanism;
pub use strategy::Strategy;
pub use workload::Workload;
