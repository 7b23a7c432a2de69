//! placeholder, replaced by the merge.
use thiserror::Error as ThisError;
/// Errors.
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
    /// A buffer of another length.
    #[error("{what} has {actual} numbers, but {expected} are expected")]
    Dimension {
        /// What.
        what: &'static str,
        /// Expected.
        expected: usize,
        /// Actual.
        actual: usize,
    },
    /// A word that names nothing.
    #[error("`{text}` is not a {what}: expected {expected}")]
    Parse {
        /// What was parsed.
        what: &'static str,
        /// The text.
        text: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// The mechanism refused.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanisms::Error),
}
/// The result.
pub type Result<T> = std::result::Result<T, Error>;
