//! What private learning refuses, each case with the offending value.

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
    /// A vector has the wrong number of coordinates.
    #[error("{what} has {actual} coordinates, but {expected} are needed")]
    Dimension {
        /// What has the wrong length.
        what: &'static str,
        /// The number that is needed.
        expected: usize,
        /// The number that was given.
        actual: usize,
    },
    /// A vector contains NaN or an infinity.
    #[error("coordinate {index} of {what} is {value}; only finite values are accepted")]
    NonFinite {
        /// The vector.
        what: &'static str,
        /// The coordinate.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A sum of clipped gradients, or a plan, belongs to another clipping rule than the one the noise covers.
    #[error("{what} was made with another clipping rule; the noise covers {expected}")]
    Clipping {
        /// What does not fit.
        what: &'static str,
        /// The rule that the noise was made for.
        expected: String,
    },
    /// The parts of a gradient that several machines hold do not make a whole.
    #[error("the parts of a gradient do not fit together at coordinate {at}: {reason}")]
    Parts {
        /// What is wrong.
        reason: &'static str,
        /// The first coordinate of the part at fault.
        at: usize,
    },
    /// A plan was made for people who take part at other times.
    #[error(
        "the plan is for people who take part {planned}, and here they take part {actual} (times:steps apart)"
    )]
    Participation {
        /// How often the plan lets a person take part.
        planned: String,
        /// How often they do.
        actual: String,
    },
    /// A person is named twice in a list of people, each of whom may enter a batch once.
    #[error("entry {place} of the list of people is somebody who was named before; name everybody once")]
    NamedTwice {
        /// The place in the list, from 0.
        place: usize,
    },
    /// A person who was not drawn, or has entered already, cannot enter a batch.
    #[error("person {person} cannot enter the batch of step {step}: {reason}")]
    NotAdmitted {
        /// The person's place in the list of people.
        person: usize,
        /// The step, counted from 1.
        step: usize,
        /// Why not.
        reason: &'static str,
    },
    /// A strategy was built for another workload than the one that is needed.
    #[error("the strategy serves the workload {actual}; build it for {expected}")]
    Workload {
        /// The workload that the strategy serves.
        actual: String,
        /// The workload that is needed.
        expected: &'static str,
    },
    /// A state was asked for in the middle of a batch, where it would forget or repeat somebody's gradient.
    #[error("the batch holds {added} gradients; finish it before saving the state")]
    UnfinishedBatch {
        /// The number of gradients added since the last step.
        added: usize,
    },
    /// A finished step could not be written to the disk yet.
    #[error("step {step} is made but not saved; finish it again before the next batch begins")]
    UnsavedStep {
        /// The step.
        step: usize,
    },
    /// A word that names nothing.
    #[error("`{text}` is not a {what}; expected {expected}")]
    Parse {
        /// What was asked for.
        what: &'static str,
        /// The word.
        text: String,
        /// The words that are known.
        expected: &'static str,
    },
    /// The data cannot be learned from.
    #[cfg(feature = "training")]
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// A saved model cannot be continued.
    #[error(
        "the saved model cannot be continued: {reason}; restore what was saved, or start a new state elsewhere"
    )]
    SavedModel {
        /// Why not.
        reason: &'static str,
    },
    /// The file of a saved model cannot be used.
    #[error("`{path}`: {reason}")]
    ModelFile {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The mechanism refused.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanisms::Error),
}

/// The result of an operation of private learning.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses anything but a finite number above zero (NaN included).
pub(crate) fn check_positive(what: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(Error::OutOfRange { what, value, range: "a finite number above 0" })
    }
}

/// Refuses zero.
pub(crate) fn check_count(what: &'static str, value: usize) -> Result<usize> {
    if value > 0 {
        Ok(value)
    } else {
        Err(Error::OutOfRange { what, value: 0.0, range: "an integer of at least 1" })
    }
}

/// Refuses a vector of the wrong length.
pub(crate) fn check_length(what: &'static str, expected: usize, actual: usize) -> Result<()> {
    if actual == expected { Ok(()) } else { Err(Error::Dimension { what, expected, actual }) }
}

/// Refuses a vector with NaN or an infinity.
pub(crate) fn check_finite(what: &'static str, values: &[f64]) -> Result<()> {
    // Blocks without a branch inside: a gradient is long, and almost always finite.
    let block = values.chunks(64).position(|block| !block.iter().fold(true, |all, v| all & v.is_finite()));
    let Some(start) = block.map(|block| 64 * block) else { return Ok(()) };
    let within = values[start..].iter().position(|value| !value.is_finite());
    let index = start + within.unwrap_or_default();
    Err(Error::NonFinite { what, index, value: values[index] })
}
