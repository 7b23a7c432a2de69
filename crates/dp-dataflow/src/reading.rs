//! How a worker reads: the blocks it is given, from the places in which they begin, into events.

use std::collections::HashMap;

use dp_events::consumed::{Digest, RowHasher, Stretch};
use dp_events::intake::Event;
use dp_events::rows;
use dp_events::rows::blocks::{Block, Layout, Passage, Place};

use crate::Result;
use crate::operators::Placed;
use crate::work::{EventInput, Found, Job, Unit};

/// Rows in a batch of a file that is read as a whole.
const BATCH: u64 = 8192;

/// Finds the places in which blocks begin, from the passages of those before them.
pub(crate) struct Composer {
    next: usize,
    place: Place,
    /// The places of this worker's blocks.
    known: HashMap<usize, Place>,
}

impl Composer {
    pub(crate) fn new() -> Self {
        Self { next: 0, place: Place::Row, known: HashMap::new() }
    }

    /// Whether it is known where a unit of this worker begins.
    pub(crate) fn knows(&self, unit: usize) -> bool {
        self.known.contains_key(&unit)
    }

    /// Where it begins.
    pub(crate) fn take(&mut self, unit: usize) -> Place {
        self.known.remove(&unit).unwrap_or(Place::Row)
    }

    pub(crate) fn compose(
        &mut self,
        units: &[Unit],
        passages: &mut HashMap<u32, Passage>,
        index: usize,
        workers: usize,
    ) {
        while let Some(unit) = units.get(self.next) {
            let begins = match unit {
                Unit::Whole { .. } => true,
                Unit::Bytes { start, .. } => *start == 0,
            };
            let place = if begins { Place::Row } else { self.place };
            if self.next % workers == index {
                self.known.entry(self.next).or_insert(place);
            }
            if let Unit::Bytes { .. } = unit {
                let Some(passage) = passages.remove(&(self.next as u32)) else {
                    self.place = place;
                    return;
                };
                self.place = passage.from(place);
            }
            self.next += 1;
        }
    }
}

/// Reads units, and makes events of their rows.
pub(crate) struct Reader<'a> {
    job: &'a Job,
    layouts: Vec<Option<Layout>>,
    hasher: RowHasher,
    columns: Vec<String>,
    event: Event,
    /// Whether a row could not be used.
    pub(crate) bad: bool,
    /// Rows read so far.
    pub(crate) rows: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(job: &'a Job) -> Result<Self> {
        let columns = job.parser.spec().columns();
        let mut layouts: Vec<Option<Layout>> = vec![None; job.files.len()];
        for unit in &job.units {
            if let Unit::Bytes { file, .. } = unit
                && layouts[*file].is_none()
            {
                layouts[*file] = Some(Layout::of(&job.files[*file].path, &columns)?);
            }
        }
        let hasher = RowHasher::new(job.parser.key(), columns.len());
        Ok(Self { job, layouts, hasher, columns, event: Event::default(), bad: false, rows: 0 })
    }

    /// Reads a unit; `wait` is called behind every batch of a file that is read as a whole.
    pub(crate) fn read(
        &mut self,
        unit: usize,
        block: Option<Block>,
        place: Place,
        input: &mut EventInput,
        wait: &mut dyn FnMut(&mut EventInput, u64) -> Result<()>,
    ) -> Result<Found> {
        let job = self.job;
        let file = &job.files[job.units[unit].file()];
        let mut rows = 0_u64;
        let found = if let (Unit::Bytes { end, new, .. }, Some(block), Some(layout)) =
            (job.units[unit], block, &self.layouts[job.units[unit].file()])
        {
            let mut digest = Digest::default();
            let (hasher, event, bad) = (&mut self.hasher, &mut self.event, &mut self.bad);
            block.rows(&file.path, place, layout, &mut |row| {
                digest.push(hasher, row);
                if new {
                    *bad |= job.parser.parse(row, event).is_some();
                    give(job, event, rows, input);
                }
                rows += 1;
                Ok(())
            })?;
            Found::Bytes(Stretch { end, digest })
        } else {
            let mut reading =
                job.consumed.begin(&file.name, &file.path, self.columns.len(), job.parser.key());
            let (event, bad) = (&mut self.event, &mut self.bad);
            rows::read(&file.path, &self.columns, &mut |row| {
                if reading.is_new(row)? {
                    *bad |= job.parser.parse(row, event).is_some();
                    give(job, event, rows, input);
                }
                rows += 1;
                if rows.is_multiple_of(BATCH) { wait(input, rows / BATCH) } else { Ok(()) }
            })?;
            Found::Whole(Box::new(reading.finish(0)?))
        };
        input.flush();
        self.rows += rows;
        Ok(found)
    }
}

/// Sends an event on, if it counts in some step.
fn give(job: &Job, event: &mut Event, position: u64, input: &mut EventInput) {
    if event.contributions.is_empty() {
        return;
    }
    if let Some(step) = job.parser.counted_in(event.step, job.opened) {
        let event = Event { step, ..std::mem::take(event) };
        input.send(Placed { position, event });
    }
}
