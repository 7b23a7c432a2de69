//! What the applications refuse, each case with the offending value.

use thiserror::Error as ThisError;

/// A request that cannot be served, found before any state changes.
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
    /// A message of the wrong length.
    #[error("a message has {actual} numbers, but the protocol has {expected} intervals")]
    Message {
        /// The number of intervals.
        expected: usize,
        /// The length of the message.
        actual: usize,
    },
    /// The mechanism refused.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanisms::Error),
}

/// The result of an application.
pub type Result<T> = std::result::Result<T, Error>;
