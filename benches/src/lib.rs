//! Shared by the benches and by the programs that measure.

pub mod chart;
pub mod growth;
pub mod record;

use std::time::{Duration, Instant};

use dp_mechanisms::GaussianSource;
use dp_mechanisms::noise::{TILE, UnitNoise};
use rayon::prelude::*;

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

/// What a piece of work took: time on the clock, and time of all processors of this process.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Time on the clock; waiting for a busy machine counts.
    pub elapsed: Duration,
    /// Time that the threads of this process were running, of all runs together because the system counts it in steps of
    /// milliseconds. Equal to `elapsed` where the system does not say.
    pub processor: Duration,
}

impl Spent {
    /// Times the work once.
    pub fn on(work: impl FnOnce()) -> Self {
        // Asking the system takes as long as a short run: the clock starts after it.
        let before = processor_time();
        let start = Instant::now();
        work();
        let elapsed = start.elapsed();
        let processor = match (before, processor_time()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => elapsed,
        };
        Self { elapsed, processor }
    }

    /// How many times the processor time of `other` this is, or nothing where it is too short to be counted.
    pub fn processor_ratio(&self, other: &Self) -> String {
        if other.processor < Duration::from_millis(40) {
            return "-".to_owned();
        }
        format!("{:.2}", self.processor.as_secs_f64() / other.processor.as_secs_f64())
    }

    /// The shorter time on the clock, and the time of the processors for both.
    pub fn and(self, other: Self) -> Self {
        Self { elapsed: self.elapsed.min(other.elapsed), processor: self.processor + other.processor }
    }
}

/// The time that all threads of this process have been running so far, from Linux's scheduler.
fn processor_time() -> Option<Duration> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let statistics = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += statistics.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanoseconds))
}

/// The largest resident memory of this process so far, where the system says.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Independent normal values in single precision, a tile at a time by all threads, as noise for long vectors is made: what
/// correlated noise is measured beside.
#[allow(clippy::large_stack_arrays, reason = "a tile of the source, as the noise uses it")]
pub fn sample_single(source: &GaussianSource, row: usize, out: &mut [f32]) {
    out.par_chunks_mut(TILE).enumerate().for_each(|(index, out)| {
        let mut values = [0.0; TILE];
        let values = &mut values[..out.len()];
        source.fill_range(row, index * TILE, values);
        out.iter_mut().zip(values).for_each(|(out, value)| *out = *value as f32);
    });
}
