//! What can go wrong, each with a place and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// One mistake in a file, where it is and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

/// An error of a dashboard. None of them says anything about the contents of a row, only where it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file that describes the dashboard has mistakes: all of them, in order.
    #[error("{}", list(.0))]
    Spec(Vec<Mistake>),
    /// An input file does not have what the description asks for.
    #[error("{0}")]
    Input(Mistake),
    /// A file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says, and what to do.
        reason: String,
    },
    /// Rows that were consumed by an earlier run are not there any more, or not the same.
    #[error("{}{}: {reason}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Past {
        /// The file.
        path: PathBuf,
        /// The line at which it was noticed; nothing where a file has no lines, or is read in parts.
        line: Option<u64>,
        /// Which rows, and what to do.
        reason: String,
    },
    /// The saved state cannot be continued.
    #[error("{}: {reason}", path.display())]
    State {
        /// The folder of the state.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// The sealed file of the state cannot be opened, read or replaced.
    #[error("{0}")]
    Sealed(dp_mechanisms::Error),
    /// The description is not the one that the state was made for.
    #[error("{}: it was made for another description: {}. {advice}", path.display(), differences.join("; "))]
    Changed {
        /// The folder of the state.
        path: PathBuf,
        /// What is different, field by field.
        differences: Vec<String>,
        /// What to do.
        advice: String,
    },
    /// A run over several workers or machines cannot go on.
    #[error("{reason}")]
    Parts {
        /// Why not, and what to do.
        reason: String,
    },
    /// What the mechanism refuses.
    #[error("release `{release}`: {source}")]
    Mechanism {
        /// The name of the release.
        release: String,
        /// The refusal.
        source: dp_mechanisms::Error,
    },
}

impl Error {
    /// A file that the system refuses to read or write.
    pub fn file(path: &Path, reason: impl fmt::Display) -> Self {
        Self::File { path: path.to_owned(), reason: reason.to_string() }
    }

    /// A state that cannot be continued.
    pub(crate) fn state(path: &Path, reason: impl fmt::Display) -> Self {
        Self::State { path: path.to_owned(), reason: reason.to_string() }
    }
}

fn list(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
