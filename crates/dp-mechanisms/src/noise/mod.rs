//! Sources of noise.

pub mod discrete;
