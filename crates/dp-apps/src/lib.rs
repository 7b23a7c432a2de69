//! Applications: encodings of events into vectors, in front of the one mechanism.

pub mod graph;
