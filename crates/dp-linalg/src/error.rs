//! What can go wrong with numbers, each case with the offending value.

use thiserror::Error as ThisError;

/// An input that the numeric core refuses, or a computation that has no answer.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Something that must hold at least one value is empty.
    #[error("{what} is empty; give at least one value")]
    Empty {
        /// What was empty.
        what: &'static str,
    },
    /// A value is NaN or infinite.
    #[error("{what}[{index}] is {value}; only finite values are accepted")]
    NonFinite {
        /// What held the value.
        what: &'static str,
        /// Where it stood.
        index: usize,
        /// The value.
        value: f64,
    },
    /// The square root of a power series needs a positive constant term.
    #[error(
        "a power series with constant term {leading} has no real square root; the constant term must be positive"
    )]
    NoSquareRoot {
        /// The constant term.
        leading: f64,
    },
    /// The reciprocal of a power series needs a non-zero constant term.
    #[error("a power series with constant term {leading} has no inverse; the constant term must not be zero")]
    NotInvertible {
        /// The constant term.
        leading: f64,
    },
    /// Two lengths that must agree do not.
    #[error("{what} has length {actual}, but {expected} is needed")]
    Dimension {
        /// What has the wrong length.
        what: &'static str,
        /// The length that is needed.
        expected: usize,
        /// The length that was given.
        actual: usize,
    },
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
    /// An online operator was pushed past the length it was made for.
    #[error("all {horizon} steps of this operator are used; make a longer one")]
    Exhausted {
        /// The number of steps the operator was made for.
        horizon: usize,
    },
    /// A symmetric matrix that must be positive definite is not.
    #[error("the matrix is not positive definite: its smallest eigenvalue is {smallest}")]
    NotPositiveDefinite {
        /// The smallest eigenvalue that was found.
        smallest: f64,
    },
    /// A triangular or square system is singular.
    #[error("the matrix is singular: pivot {index} is {value}")]
    Singular {
        /// The position of the pivot.
        index: usize,
        /// The pivot.
        value: f64,
    },
    /// An iterative backend routine gave up.
    #[error("{routine} did not converge")]
    NoConvergence {
        /// The routine.
        routine: &'static str,
    },
}

/// The result of a numeric operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses a length that is not the one that is needed.
pub(crate) fn check_length(what: &'static str, expected: usize, actual: usize) -> Result<()> {
    if expected == actual { Ok(()) } else { Err(Error::Dimension { what, expected, actual }) }
}

/// Refuses an empty slice and the first value that is NaN or infinite.
pub(crate) fn check_finite(what: &'static str, values: &[f64]) -> Result<()> {
    if values.is_empty() {
        return Err(Error::Empty { what });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::NonFinite { what, index, value: values[index] }),
        None => Ok(()),
    }
}
