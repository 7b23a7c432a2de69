//! What a process does with the steps of its keys: put the sums of its workers together, add the noise, keep what is open.

use std::collections::BTreeMap;
use std::sync::Arc;

use dp_events::encoding::{Cells, Encoding, Share};
use dp_events::intake::OpenSteps;
use dp_events::releases::{Releases, StepNumbers};
use serde::{Deserialize, Serialize};

use crate::{Result, failed};

/// What one process publishes of one step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Closed {
    pub(crate) step: u32,
    pub(crate) process: usize,
    pub(crate) numbers: Vec<StepNumbers>,
}

/// The keys of a process: shared by its workers, each of which sums up a part of them.
pub(crate) struct Closing {
    steps: OpenSteps,
    releases: Releases,
    encodings: Arc<[Encoding]>,
    process: usize,
    workers: usize,
    processes: usize,
    /// What workers have handed over of steps that others have not.
    handed: BTreeMap<u32, Vec<Option<Cells>>>,
}

impl Closing {
    pub(crate) fn new(
        steps: OpenSteps,
        releases: Releases,
        encodings: Arc<[Encoding]>,
        process: usize,
        workers: usize,
        processes: usize,
    ) -> Self {
        Self { steps, releases, encodings, process, workers, processes, handed: BTreeMap::new() }
    }

    /// The cells of a worker's keys in the next step that it has not handed over. The last worker to do so closes the step, and
    /// receives what is published of it.
    pub(crate) fn close(&mut self, worker: usize, step: u32, cells: Cells) -> Result<Option<Closed>> {
        self.hand(worker, step, cells)?;
        if self.handed.get(&step).is_none_or(|parts| parts.iter().any(Option::is_none)) {
            return Ok(None);
        }
        if step as usize != self.steps.open() {
            return Err(failed("a step was closed before the one in front of it"));
        }
        self.settle(step);
        let numbers = self.releases.close(&self.steps.close())?;
        Ok(Some(Closed { step, process: self.process, numbers }))
    }

    fn hand(&mut self, worker: usize, step: u32, cells: Cells) -> Result<()> {
        let parts = self.handed.entry(step).or_insert_with(|| (0..self.workers).map(|_| None).collect());
        match parts.get_mut(worker) {
            Some(part) if part.is_none() => *part = Some(cells),
            _ => return Err(failed("a worker handed a step over twice")),
        }
        Ok(())
    }

    /// Puts the parts of a step together, one worker behind the other, and adds them to what is known of it.
    fn settle(&mut self, step: u32) {
        let Some(parts) = self.handed.remove(&step) else { return };
        let first = self.process * self.workers;
        let mut parts = (first..).zip(parts).map(|(worker, part)| {
            let share = Share::new(worker, self.processes * self.workers);
            part.unwrap_or_else(|| Cells::of_share(&self.encodings, share))
        });
        if let Some(mut all) = parts.next() {
            parts.for_each(|part| all.join(&part));
            self.steps.add(step, &all);
        }
    }

    /// Keeps what workers have of steps that are not over, and returns all that is to be kept.
    pub(crate) fn finish(
        mut self,
        open: impl Iterator<Item = (usize, u32, Cells)>,
    ) -> Result<(OpenSteps, Releases)> {
        for (worker, step, cells) in open {
            self.hand(worker, step, cells)?;
        }
        while let Some(step) = self.handed.keys().next().copied() {
            self.settle(step);
        }
        Ok((self.steps, self.releases))
    }
}
