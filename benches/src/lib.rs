//! Shared by the benches and by the programs that measure.

pub mod chart;
pub mod growth;
pub mod record;

use std::time::{Duration, Instant};

/// The shortest of several runs: the run that other work on the machine disturbed least.
pub fn shortest(runs: usize, mut work: impl FnMut()) -> Duration {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}
