//! Exact releases: what is measured is integers plus integer noise, and nothing a computer rounds.
//!
//! This is how data meets noise unless [`crate::Plan::idealized`] is asked for, which adds floating point noise to a floating point
//! statistic. Its guarantee is that of real numbers,
//! and the low bits of its outputs can tell neighbouring streams apart. Here the release is `A C̃⁻¹ (C̃x + z)`, where
//!
//! - `x` is the data on a declared grid: integers times the grid,
//! - `C̃` is an integer matrix, the strategy rounded to entries of 40 bits and more ([`IntegerStrategy`]),
//! - `z` is discrete Gaussian or discrete Laplace noise, sampled exactly ([`crate::noise::discrete`]),
//! - `C̃x + z` is computed without rounding or overflow: the plan proves the bounds before data arrives,
//! - the sensitivity of C̃ is an exact integer, and the noise parameter a rational rounded up once ([`crate::Plan::exact`]).
//!
//! `C̃x + z` is all that ever depends on the data. What follows is post-processing in f64 and cannot leak.
//!
//! | module | one idea |
//! |---|---|
//! | `integer` | C̃ and its sensitivity |
//! | `lattice` | inputs on a grid |
//! | [`budget`] | what exact noise must be for a budget |
//! | `plan` | all of it, calibrated |
//! | `transform`, `convolution` | exact products in prime fields, online |
//! | `measure`, `noise`, `decode` | `C̃x`, `z`, and the way back |
//! | `mechanism` | one step after the other, behind [`crate::Mechanism`] |
//! | `sparse` | many coordinates, measured when somebody asks |

pub mod budget;
mod convolution;
mod decode;
mod integer;
mod lattice;
mod measure;
mod mechanism;
mod noise;
mod plan;
mod sparse;
mod sums;
mod transform;

pub use integer::{ENTRY_BITS, FEWEST_BITS, IntegerStrategy, MOST_BITS};
pub use lattice::grid;
pub(crate) use mechanism::ExactRun;
pub(crate) use plan::ExactPlan;
pub use plan::NoiseParameter;
pub(crate) use sparse::ExactCells;
pub(crate) use sums::to_f64;

#[cfg(test)]
use crate::budget::Kind;
#[cfg(test)]
mod tests;
