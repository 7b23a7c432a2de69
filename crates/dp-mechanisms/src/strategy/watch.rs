//! Watching what takes long, and stopping it.

use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// What is going on in the build of a strategy, or in the planner that runs builds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// The planner starts with a strategy.
    Strategy {
        /// Its name.
        name: &'static str,
        /// How many came before it.
        position: usize,
        /// How many there are.
        of: usize,
    },
    /// The dense program got closer to its optimum.
    Optimum {
        /// The eigendecompositions so far.
        eigendecompositions: usize,
        /// The relative gap that is left.
        gap: f64,
    },
    /// An optimizer is about to evaluate its objective once more.
    Evaluation,
}

/// Sees the progress of a build and says whether to go on.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// The watch of nobody: everything is done to its end.
///
/// # Example
/// ```
/// use dp_mechanisms::strategy::{blt, unwatched};
/// use dp_mechanisms::{Problem, Workload};
/// let strategy = blt::blt(&Problem::new(Workload::count(), 100)?, &mut unwatched)?;
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn unwatched(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Tells the watch.
///
/// # Errors
/// [`Error::Interrupted`] if it wants no more.
pub(crate) fn tell(watch: &mut Watch<'_>, progress: Progress) -> Result<()> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Interrupted),
    }
}
