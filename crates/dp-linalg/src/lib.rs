//! Numbers only: Toeplitz operators, power series and dense roots in `f64`. No privacy, no randomness.
//!
//! Read the modules in the order of the data flow:
//!
//! | module | owns |
//! |---|---|
//! | [`fft`] | planned real convolutions; the only place that knows the FFT crate |
//! | [`series`] | power series: product, inverse, square root, closed forms |
//! | [`bell`] | partial Bell polynomials in scaled form |
//! | [`toeplitz`] | lower-triangular Toeplitz operators, offline and online |
//! | [`rational`] | Toeplitz operators with a rational generating function, streamed in k buffers, and combs |
//! | [`dense`] | eigendecomposition, square roots, LQ, least squares; the only place that knows a backend |
//! | [`minimize`] | smooth minimization: limited-memory BFGS |
//! | [`norms`] | column, row, Frobenius, Schatten and spectral norms |
//! | [`tree`] | dyadic decompositions |
//! | [`ranges`] | trees of ranges over ordered values: least squares, quantiles |

pub mod bell;
mod buffers;
pub mod dense;
mod error;
pub mod fft;
pub mod minimize;
pub mod norms;
pub mod ranges;
pub mod rational;
pub mod series;
pub mod toeplitz;
pub mod tree;

pub use buffers::forget;
pub use error::{Error, Result};

/// The example of the README is an example like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
