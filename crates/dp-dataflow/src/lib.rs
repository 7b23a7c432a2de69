//! A private dashboard over many workers and machines, on timely dataflow.
//!
//! The same description, the same limits, the same noise and the same output as a run in one place, to the last bit, whatever the
//! number of workers and the order in which rows arrive.
//!
//! | module | owns |
//! |---|---|
//! | [`operators`] | limits per person, sums per key and step, the end of a step: on timely streams, usable alone |
//! | `work`, `reading` | what a worker does: read its blocks of the input, and carry them through the operators |
//! | `closing` | what a process does with the steps of its keys: add up, add noise, keep |
//! | [`mesh`] | connections between processes, and how their loss is noticed |
//! | `sealed` | connections that nobody else can read or change |
//! | [`secret`] | what the processes of a run have in common |
//! | `alike` | what must be the same for all processes, and must not change while they read |
//! | `team` | what processes tell each other |
//! | [`run`](mod@run) | a run: who does what, in which order, and what is on disk when |
//!
//! # How a run goes
//! The first process opens the state of the dashboard, exactly as a run in one place does, and hands the input out in blocks. Each
//! worker reads every n-th block once, makes events of its rows and sends each to the worker that owns the person. There the
//! limits are enforced in the order of the input, and what counts is added up and sent to the worker that owns the key. When all
//! rows are read, every process closes the steps that are over for its own keys: it adds their noise, without asking anybody,
//! and sends what is published to the first process, which puts it in order, seals the new state and publishes. People and keys
//! stay where they are: every process keeps those it owns, with the noise of its keys, in a sealed state of its own.
//!
//! # When something breaks
//! A process that is killed, or cannot go on, ends the run everywhere with one sentence. Nothing has been published then, unless
//! the new state of the first process was on disk, and that is written last: each of the other processes keeps the state
//! before and the state after, and the next run takes the one that belongs to the state of the first. So every step is
//! released once, none is lost, and nobody is counted twice.
//!
//! # What each process sees
//! Every process reads a part of the rows in clear, knows the key of pseudonyms while it runs, and keeps its share of the
//! people by pseudonym, sealed. It sees the true sums of the keys it owns, and holds their noise: with secret noise every process
//! draws its own, and none knows that of another. Connections are encrypted and authenticated under the shared secret: whoever
//! listens on the network sees how many bytes go where and when.

mod alike;
mod closing;
pub mod mesh;
pub mod operators;
mod reading;
pub mod run;
mod sealed;
pub mod secret;
mod team;
mod work;

pub use dp_events::{Error, Result};
pub use mesh::Hosts;
pub use run::{Log, Workers, run};
pub use secret::Secret;

/// An error in words, of a run over several workers.
fn failed(reason: impl Into<String>) -> Error {
    Error::Parts { reason: reason.into() }
}

/// The example of the README is an example like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
