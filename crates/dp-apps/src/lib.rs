//! Applications: encodings of events into vectors, in front of the one mechanism.
//!
//! | module | events | released after every step |
//! |---|---|---|
//! | [`histogram`] | items inserted and removed, over a known universe | the count of any item, ranges, the top |
//! | [`histogram::discovery`] | items of an unknown universe | the items whose counts stand out, and these counts |
//! | [`ordered`] | one number of each person | how many lie in any range, and any quantile |
//! | [`substrings`] | letters | how often each short string, or each word of a dictionary, has occurred |
//! | [`episodes`] | letters | how many minimal occurrences each short subsequence has had |
//! | [`graph`] | weighted edges | the weights of a synthetic graph with all its cuts, or a function of the graph |
//! | [`local`] | one value per client, privatized by the client | medians, quantiles, minimizers of convex losses |
//!
//! An application is an [`Encoding`]: it turns an event into sparse changes of a vector and states, with a proof, how
//! far one person can move that vector ([`Encoding::footprint`]). [`Counts`] puts an encoding in front of a
//! [`SparseMechanism`](dp_mechanisms::SparseMechanism) and answers questions with an error statement. Nothing here
//! samples noise or computes σ.

mod counts;
pub mod episodes;
mod error;
pub mod graph;
pub mod histogram;
pub mod local;
pub mod ordered;
pub mod substrings;

pub use counts::{Counts, Encoding, Estimate, Top};
pub use error::{Error, Result};

/// The example of the README is an example like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
