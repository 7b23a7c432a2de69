//! Refusals of the libraries as Python exceptions: the same words, and nothing of anybody's data.

use std::fmt;

use pyo3::prelude::*;

/// Why something was refused: the name of a Python exception in `continual_dp`, and a sentence.
#[derive(Debug)]
pub(crate) struct Refusal {
    class: &'static str,
    words: String,
}

impl Refusal {
    fn new(class: &'static str, words: impl fmt::Display) -> Self {
        Self { class, words: words.to_string() }
    }

    /// An argument whose value is not accepted; a `ValueError`.
    pub(crate) fn input(words: impl fmt::Display) -> Self {
        Self::new("InputError", words)
    }

    /// An argument of the wrong kind; a `TypeError`.
    pub(crate) fn kind(words: impl fmt::Display) -> Self {
        Self::new("KindError", words)
    }

    /// An object that was closed, or belongs to another process.
    pub(crate) fn closed(words: impl fmt::Display) -> Self {
        Self::new("ClosedError", words)
    }

    /// A saved state that cannot be used.
    pub(crate) fn state(words: impl fmt::Display) -> Self {
        Self::new("StateError", words)
    }

    /// A mistake of this library.
    pub(crate) fn internal() -> Self {
        Self::new(
            "InternalError",
            "the library met a case that it holds to be impossible; the object is closed, so that nothing wrong is released",
        )
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        Python::attach(|py| {
            let class = py.import("continual_dp._errors").and_then(|errors| errors.getattr(refusal.class));
            match class.and_then(|class| class.call1((refusal.words,))) {
                Ok(exception) => PyErr::from_value(exception),
                Err(error) => error,
            }
        })
    }
}

/// A number that is none, by its kind.
fn kind_of(value: f64) -> &'static str {
    if value.is_nan() { "NaN" } else { "infinite" }
}

impl From<dp_mechanisms::Error> for Refusal {
    fn from(error: dp_mechanisms::Error) -> Self {
        use dp_mechanisms::Error as E;
        match &error {
            E::NonFiniteInput { step, index, value } => Self::input(format!(
                "step {step}: coordinate {index} of the input is {}; only finite values are accepted",
                kind_of(*value)
            )),
            E::OutOfBounds { step, index, low, high, .. } => Self::input(format!(
                "step {step}: coordinate {index} of the input is outside the declared bounds [{low}, {high}]; clamp it or \
                 declare wider bounds"
            )),
            E::NormTooLarge { step, radius, .. } => Self::input(format!(
                "step {step}: the norm of the input is above the declared {radius}; clip it or declare a larger norm"
            )),
            E::HorizonReached { .. } => Self::new("HorizonError", error),
            E::NotApplicable { .. } => Self::new("NotApplicableError", error),
            E::TooLarge { .. } | E::NoConvergence { .. } => Self::new("LimitError", error),
            E::Entropy { .. } => Self::new("EntropyError", error),
            E::State { .. } => Self::state(error),
            E::Interrupted => Self::new("ContinualError", error),
            _ => Self::input(error),
        }
    }
}

impl From<dp_apps::Error> for Refusal {
    fn from(error: dp_apps::Error) -> Self {
        match error {
            dp_apps::Error::Mechanism(error) => error.into(),
            other => Self::input(other.without_values()),
        }
    }
}

impl From<dp_events::Error> for Refusal {
    fn from(error: dp_events::Error) -> Self {
        use dp_events::Error as E;
        match error {
            E::Spec(_) => Self::new("DescriptionError", error),
            E::Input(_) | E::File { .. } => Self::new("FileError", error),
            E::Mechanism { release, source } => {
                let Self { class, words } = source.into();
                Self { class, words: format!("release `{release}`: {words}") }
            }
            // A past that changed, a state that does not fit.
            other => Self::state(other),
        }
    }
}

/// What is wrong with a table in memory.
impl From<Refusal> for dp_events::Error {
    fn from(refusal: Refusal) -> Self {
        Self::File { path: "frame".into(), reason: refusal.words }
    }
}

impl From<dp_ftrl::Error> for Refusal {
    fn from(error: dp_ftrl::Error) -> Self {
        use dp_ftrl::Error as E;
        match error {
            E::Mechanism(error) => error.into(),
            E::NonFinite { what, index, value } => Self::input(format!(
                "coordinate {index} of {what} is {}; only finite values are accepted",
                kind_of(value)
            )),
            E::UnfinishedBatch { .. }
            | E::UnsavedStep { .. }
            | E::SavedModel { .. }
            | E::ModelFile { .. } => Self::state(error),
            other => Self::input(other),
        }
    }
}
