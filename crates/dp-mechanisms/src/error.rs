//! What the mechanisms refuse, each case with the offending value and the remedy.

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
    /// Something that must hold at least one value is empty.
    #[error("{what} is empty; give at least one value")]
    Empty {
        /// What was empty.
        what: &'static str,
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
    /// An input contains NaN or an infinity.
    #[error("step {step}: coordinate {index} of the input is {value}; only finite values are accepted")]
    NonFiniteInput {
        /// The step that was refused, counted from 1.
        step: usize,
        /// The coordinate.
        index: usize,
        /// The value.
        value: f64,
    },
    /// An input lies outside the declared bounds, on which the noise depends.
    #[error(
        "step {step}: coordinate {index} of the input is {value}, outside the declared bounds [{low}, {high}]; \
         clamp it or declare wider bounds"
    )]
    OutOfBounds {
        /// The step that was refused, counted from 1.
        step: usize,
        /// The coordinate.
        index: usize,
        /// The value.
        value: f64,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// An input vector is longer than the declared norm, on which the noise depends.
    #[error(
        "step {step}: the input has norm {norm}, above the declared {radius}; clip it or declare a larger norm"
    )]
    NormTooLarge {
        /// The step that was refused, counted from 1.
        step: usize,
        /// The norm of the input.
        norm: f64,
        /// The declared bound.
        radius: f64,
    },
    /// All planned steps are used; more noise would repeat or leave the guarantee.
    #[error("all {horizon} planned steps are released; plan a longer horizon")]
    HorizonReached {
        /// The planned number of steps.
        horizon: usize,
    },
    /// The strategy does not exist for this workload.
    #[error("strategy {strategy} does not serve workload {workload}: {reason}")]
    NotApplicable {
        /// The strategy.
        strategy: &'static str,
        /// The workload.
        workload: String,
        /// Why not.
        reason: &'static str,
    },
    /// The computation would need a matrix that is too large.
    #[error("{what} needs a dense matrix at {steps} steps; the limit is {limit}")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// The number of steps.
        steps: usize,
        /// The largest number of steps it is computed for.
        limit: usize,
    },
    /// A text does not describe a workload, strategy, budget or participation.
    #[error("`{text}` is not a {what}; expected {expected}")]
    Parse {
        /// What was to be read.
        what: &'static str,
        /// The text.
        text: String,
        /// The accepted forms.
        expected: &'static str,
    },
    /// The operating system gave no randomness.
    #[error("the operating system's random generator failed: {reason}")]
    Entropy {
        /// The system's message.
        reason: String,
    },
    /// A saved state does not fit: damaged, of another version, or of another plan.
    #[error("the saved state cannot be used: {reason}")]
    State {
        /// What is wrong with it.
        reason: String,
    },
    /// An optimizer did not reach its tolerance.
    #[error("{what} stopped at a relative gap of {gap:e} after {iterations} iterations")]
    NoConvergence {
        /// The optimizer.
        what: &'static str,
        /// The gap it reached.
        gap: f64,
        /// The iterations it used.
        iterations: usize,
    },
    /// Whoever watched the work stopped it.
    #[error("the work was stopped before it was done")]
    Interrupted,
    /// The numeric core refused.
    #[error(transparent)]
    Numeric(#[from] dp_linalg::Error),
}

/// The result of a mechanism operation.
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
