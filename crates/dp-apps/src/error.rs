//! What the applications refuse, each case with the offending value.

use thiserror::Error as ThisError;

/// A request that cannot be served, found before any state changes.
///
/// The message of an error about an event holds the offending value, which is somebody's data;
/// [`Error::without_values`] says the same without it.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is outside its documented range.
    #[error("{what} = {value} is outside its range: {range}")]
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// The value that was given.
        value: f64,
        /// The accepted range, in words.
        range: &'static str,
    },
    /// A name that is not part of the public universe.
    #[error("`{text}` is not a known {what}; the universe is fixed and public")]
    Unknown {
        /// What was looked up.
        what: &'static str,
        /// The name.
        text: String,
    },
    /// A name that occurs twice where each may occur once.
    #[error("the {what} `{text}` is given twice")]
    Duplicate {
        /// What was given.
        what: &'static str,
        /// The name.
        text: String,
    },
    /// One person contributes more in a step than the rules, on which the noise depends, allow.
    #[error("a contribution has {actual} items; the rules allow {limit}")]
    TooManyItems {
        /// The number that was given.
        actual: usize,
        /// The number that is allowed.
        limit: usize,
    },
    /// A removal where the rules, on which the noise depends, allow insertions only.
    #[error("`{item}` is removed, but the rules allow insertions only")]
    Removal {
        /// The item.
        item: String,
    },
    /// A workload that the local model cannot serve.
    #[error(
        "clients send prefix sums, so the strategy must be for the workload count; this one is for {workload}"
    )]
    NotPrefixSums {
        /// The strategy's workload.
        workload: String,
    },
    /// A plan that was calibrated for something else that one person can change.
    #[error("the plan was not calibrated for {encoding}; make it with the encoding's own `plan`")]
    OtherPlan {
        /// What is counted.
        encoding: String,
    },
    /// A message of the wrong length.
    #[error("a message has {actual} numbers, but the protocol has {expected} intervals")]
    Message {
        /// The number of intervals.
        expected: usize,
        /// The length of the message.
        actual: usize,
    },
    /// A message of another protocol.
    #[error("a message is of another kind than the protocol's, or answers a question that it does not ask")]
    OtherMessage,
    /// Too few or too many vertices.
    #[error("{vertices} vertices; expected {range}")]
    Vertices {
        /// The number given.
        vertices: usize,
        /// What is accepted.
        range: &'static str,
    },
    /// A vertex that does not exist.
    #[error("vertex {vertex} is not one of the {vertices} vertices, which are counted from 0")]
    UnknownVertex {
        /// The vertex given.
        vertex: usize,
        /// The number of vertices.
        vertices: usize,
    },
    /// An edge from a vertex to itself.
    #[error("an edge from vertex {vertex} to itself crosses no cut and is not accepted")]
    Loop {
        /// The vertex.
        vertex: usize,
    },
    /// A weight outside its declared range, or not a number.
    #[error("weight {weight} of edge {u}-{v} is outside [{low}, {high}]")]
    Weight {
        /// One end of the edge.
        u: usize,
        /// The other end.
        v: usize,
        /// The weight given.
        weight: f64,
        /// The smallest accepted weight.
        low: f64,
        /// The largest accepted weight.
        high: f64,
    },
    /// A vertex that stands twice in the two sides of a cut.
    #[error("vertex {vertex} stands twice in the two sides of the cut")]
    RepeatedVertex {
        /// The vertex.
        vertex: usize,
    },
    /// A vector whose length does not fit.
    #[error("{what} has {actual} values; expected {expected}")]
    Length {
        /// Which vector.
        what: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        actual: usize,
    },
    /// The mechanism refused.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanisms::Error),
    /// The numeric core refused.
    #[error(transparent)]
    Numeric(#[from] dp_linalg::Error),
}

impl Error {
    /// What is wrong with an event, without the value that is wrong: for messages that others than the data's owner
    /// read.
    pub fn without_values(&self) -> String {
        match self {
            Self::Unknown { what, .. } => format!("not a known {what}; the universe is fixed and public"),
            Self::Duplicate { what, .. } => format!("an {what} is given twice"),
            Self::TooManyItems { limit, .. } => format!("more items than the {limit} that the rules allow"),
            Self::Removal { .. } => "a removal, but the rules allow insertions only".to_owned(),
            Self::UnknownVertex { vertices, .. } => {
                format!("not one of the {vertices} vertices, which are counted from 0")
            }
            Self::Loop { .. } => "an edge from a vertex to itself".to_owned(),
            Self::Weight { low, high, .. } => format!("a weight outside [{low}, {high}]"),
            other => other.to_string(),
        }
    }
}

/// The result of an application.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses a vector of the wrong length.
pub(crate) fn check_length(what: &'static str, actual: usize, expected: usize) -> Result<()> {
    if actual == expected { Ok(()) } else { Err(Error::Length { what, expected, actual }) }
}
