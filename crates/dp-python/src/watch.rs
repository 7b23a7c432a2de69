//! Computations that somebody may stop: outside of the interpreter, with an ear for its signals.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use dp_mechanisms::strategy::Watch;
use pyo3::prelude::*;

use crate::errors::Refusal;

/// How often a computation asks whether somebody has pressed Ctrl-C.
const GLANCE: Duration = Duration::from_millis(20);

/// Plans outside of the interpreter, and stops when Python has a signal to handle.
pub(crate) fn watched<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Watch<'_>) -> dp_mechanisms::Result<R> + Send,
) -> PyResult<R> {
    let mut raised = None;
    let mut last = Instant::now();
    let outcome = py.detach(|| {
        let mut watch = |_| {
            if last.elapsed() < GLANCE {
                return ControlFlow::Continue(());
            }
            last = Instant::now();
            // A path to the method would be of one lifetime only.
            #[allow(clippy::redundant_closure_for_method_calls)]
            let signals = Python::attach(|py| py.check_signals());
            match signals {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        match catch_unwind(AssertUnwindSafe(|| work(&mut watch))) {
            Ok(outcome) => outcome.map_err(Refusal::from),
            Err(_) => Err(Refusal::internal()),
        }
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(outcome?),
    }
}
