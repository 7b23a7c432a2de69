//! Differential privacy under continual observation.

pub mod noise;
