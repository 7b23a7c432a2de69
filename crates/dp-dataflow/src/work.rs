//! What a worker does: read its blocks of the input, and carry them through the operators.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use dp_events::consumed::{Consumed, Digest, Record, RowHasher, Stretch};
use dp_events::encoding::Cells;
use dp_events::intake::{Event, Opened, Parser};
use dp_events::people::People;
use dp_events::rows::blocks::{Block, Layout, Passage, Place};
use dp_events::rows::{self, InputFile};
use serde::{Deserialize, Serialize};
use timely::WorkerConfig;
use timely::communication::allocator::ProcessBuilder;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::{AllocatorBuilder, Hooks};
use timely::dataflow::ProbeHandle;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::Operator;
use timely::dataflow::operators::{Input, Probe};
use timely::worker::Worker;

use crate::mesh::{Broken, Wire};
use crate::operators::{Placed, aggregate, bound_contributions, owner_of_cell, release};
use crate::{Result, failed};

/// Blocks that a worker has read but not yet sent on.
const AHEAD: usize = 2;

/// How many blocks for each worker may be on their way at once: this bounds what a slow worker makes others hold.
const WINDOW: usize = 4;

/// A time is the number of a unit, and within it the number of a batch of rows.
const BATCH_BITS: u32 = 24;

/// Rows in a batch of a file that is read as a whole, and the batches that may be on their way.
const BATCH: u64 = 8192;
const BATCHES: u64 = 8;

/// How long a worker sleeps that has nothing to do.
const NAP: Duration = Duration::from_millis(1);

/// The smallest and the largest block, in bytes.
const BLOCK: (u64, u64) = (1 << 12, 1 << 20);

/// Something that one worker reads: its place in the list of all is its place in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// A file from its first row to its last.
    Whole {
        /// Which.
        file: usize,
    },
    /// Bytes of a file.
    Bytes {
        /// Which.
        file: usize,
        /// The first.
        start: u64,
        /// The first behind them.
        end: u64,
        /// Whether their rows are new; otherwise they are only compared.
        new: bool,
    },
}

impl Unit {
    pub(crate) fn file(self) -> usize {
        match self {
            Self::Whole { file } | Self::Bytes { file, .. } => file,
        }
    }
}

/// Cuts files into units: those that can be read in blocks where they are unread, given with their lengths, and the others whole.
pub(crate) fn units(files: &[(u64, Option<u64>)], workers: usize) -> Vec<Unit> {
    let all: u64 = files.iter().map(|(length, _)| length).sum();
    let size = (all / (workers as u64 * 32)).clamp(BLOCK.0, BLOCK.1);
    let mut units = Vec::new();
    for (file, (length, unread)) in files.iter().enumerate() {
        let Some(unread) = *unread else {
            units.push(Unit::Whole { file });
            continue;
        };
        for (from, to, new) in [(0, unread.min(*length), false), (unread.min(*length), *length, true)] {
            let mut start = from;
            while start < to {
                let end = (start + size).min(to);
                units.push(Unit::Bytes { file, start, end, new });
                start = end;
            }
        }
    }
    units
}

/// What a unit turned out to hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Found {
    Bytes(Stretch),
    Whole(Box<Record>),
}

/// What all workers of a process have to know.
pub(crate) struct Job {
    pub(crate) parser: Parser,
    pub(crate) files: Vec<InputFile>,
    pub(crate) units: Vec<Unit>,
    pub(crate) consumed: Consumed,
    pub(crate) opened: Opened,
    /// The number of steps that are over.
    pub(crate) closed: u32,
    /// The workers of the first process own all cells.
    pub(crate) owners: usize,
    pub(crate) broken: Arc<Broken>,
    pub(crate) progress: Arc<Progress>,
}

/// How far the workers of a process are.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) units: AtomicU64,
    pub(crate) rows: AtomicU64,
}

/// What a worker has when it is done.
pub(crate) struct Outcome {
    pub(crate) people: People,
    pub(crate) found: Vec<(u32, Found)>,
    pub(crate) steps: Vec<(u32, Cells)>,
    /// Whether a row could not be used.
    pub(crate) bad: bool,
}

/// Runs all workers of a process, connected to those of others.
///
/// # Errors
/// The first that any of them met, or a process that is gone.
pub(crate) fn execute(
    job: Job,
    people: Vec<People>,
    wires: Vec<Option<Wire>>,
    process: usize,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<Vec<Outcome>> {
    let threads = people.len();
    let hooks = Hooks::default();
    let inside = ProcessBuilder::new_typed_vector(threads, hooks.refill.clone(), None);
    let (builders, others): (Vec<AllocatorBuilder>, Box<dyn std::any::Any + Send>) = if wires.len() > 1 {
        let (builders, guard) = initialize_networking_from_sockets(inside, wires, process, threads, hooks)
            .map_err(|error| failed(error.to_string()))?;
        (builders.into_iter().map(AllocatorBuilder::Tcp).collect(), Box::new(guard))
    } else {
        (inside.into_iter().map(AllocatorBuilder::Process).collect(), Box::new(()))
    };
    let broken = Arc::clone(&job.broken);
    let people = Mutex::new(people.into_iter().map(Some).collect::<Vec<_>>());
    let guards = timely::execute::execute_from(builders, others, WorkerConfig::default(), move |worker| {
        let mut table = people.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = table.get_mut(worker.index() % threads).and_then(Option::take);
        drop(table);
        let outcome = match mine {
            Some(people) => work(worker, &job, people),
            None => Err(failed("a worker was started twice")),
        };
        if let Err(error) = &outcome {
            job.broken.set(error.to_string());
            for dataflow in worker.installed_dataflows() {
                worker.drop_dataflow(dataflow);
            }
        }
        outcome
    })
    .map_err(failed)?;
    // Joined elsewhere: where a connection is gone, its threads stay, and nobody waits for them.
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let outcomes = guards.join();
        let _ = send.send(outcomes);
    });
    let outcomes = loop {
        match receive.recv_timeout(Duration::from_millis(20)) {
            Ok(outcomes) => break outcomes,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                broken.check()?;
                meanwhile()?;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(failed("the workers ended without a word"));
            }
        }
    };
    broken.check()?;
    outcomes.into_iter().map(|outcome| outcome.map_err(failed).and_then(|inner| inner)).collect()
}

/// Everything a worker does.
#[expect(clippy::too_many_lines, reason = "one loop, whose handles all belong to one dataflow")]
fn work(worker: &mut Worker, job: &Job, people: People) -> Result<Outcome> {
    let (index, workers) = (worker.index(), worker.peers());
    let encodings = Arc::clone(job.parser.encodings());
    let people = Rc::new(RefCell::new(people));
    let passages: Rc<RefCell<HashMap<u32, Passage>>> = Rc::default();
    let steps = Rc::new(RefCell::new(BTreeMap::new()));
    let over: Rc<RefCell<Vec<(u32, Cells)>>> = Rc::default();
    let bounded = ProbeHandle::new();
    let done = ProbeHandle::new();
    let (owners, closed, open) = (job.owners, job.closed, job.opened.open);
    let (mut input, mut notes) = worker.dataflow::<u64, _, _>(|scope| {
        let (input, events) = scope.new_input::<Vec<Placed>>();
        let (notes, noted) = scope.new_input::<Vec<(u64, u32, Passage)>>();
        let heard = Rc::clone(&passages);
        noted.unary::<timely::container::CapacityContainerBuilder<Vec<()>>, _, _, _>(
            Exchange::new(|note: &(u64, u32, Passage)| note.0),
            "Passages",
            move |_, _| {
                move |input, _| {
                    input.for_each(|_, data| {
                        heard.borrow_mut().extend(data.drain(..).map(|(_, unit, passage)| (unit, passage)));
                    });
                }
            },
        );
        // Rows come in any order of their times, so no step is complete before all of them are read.
        let complete = |frontier: Option<&u64>| if frontier.is_none() { u32::MAX } else { 0 };
        let events =
            bound_contributions(events, Arc::clone(&encodings), Rc::clone(&people)).probe_with(&bounded);
        let owner = move |encoding: &_, cell: std::result::Result<u32, &str>| {
            cell.map_or(0, |cell| owner_of_cell(encoding, cell, owners))
        };
        let sums = aggregate(events, Arc::clone(&encodings), complete, owner);
        let taken = Rc::clone(&over);
        release(
            sums,
            Arc::clone(&encodings),
            Rc::clone(&steps),
            open,
            complete,
            move || closed,
            move |step, cells| {
                // All cells go to the workers of the first process.
                if index < owners {
                    taken.borrow_mut().push((step, cells));
                }
                Vec::<()>::new()
            },
        )
        .probe_with(&done);
        (input, notes)
    });

    let mut reader = Reader::new(job)?;
    let mut mine = (index..job.units.len()).step_by(workers);
    let mut loaded: VecDeque<(usize, Option<Block>)> = VecDeque::new();
    let mut composer = Composer { next: 0, place: Place::Row, known: HashMap::new() };
    let time = |unit: usize| (unit as u64) << BATCH_BITS;
    let mut found = Vec::new();
    if index < job.units.len() {
        input.advance_to(time(index));
    }
    loop {
        job.broken.check()?;
        while loaded.len() < AHEAD
            && let Some(unit) = mine.next()
        {
            let block = match job.units[unit] {
                Unit::Whole { .. } => None,
                Unit::Bytes { file, start, end, .. } => {
                    let block = Block::read(&job.files[file].path, start, end)?;
                    let passage = block.passage();
                    (0..workers).for_each(|to| notes.send((to as u64, unit as u32, passage)));
                    // A new time sends what the exchange still holds back.
                    notes.advance_to(*notes.time() + 1);
                    Some(block)
                }
            };
            loaded.push_back((unit, block));
        }
        let Some((unit, _)) = loaded.front() else { break };
        let unit = *unit;
        composer.compose(&job.units, &mut passages.borrow_mut(), index, workers);
        let reached =
            bounded.with_frontier(|frontier| frontier.first().map_or(u64::MAX, |time| time >> BATCH_BITS));
        let near = (unit as u64) < reached.saturating_add((WINDOW * workers) as u64);
        let place = composer.known.get(&unit).copied();
        if let (true, Some(place)) = (near, place) {
            composer.known.remove(&unit);
            let block = loaded.pop_front().and_then(|(_, block)| block);
            let mut wait = |input: &mut EventInput, batch: u64| -> Result<()> {
                input.advance_to(time(unit) + batch);
                worker.step();
                while bounded.less_than(&(time(unit) + batch.saturating_sub(BATCHES))) {
                    job.broken.check()?;
                    worker.step_or_park(Some(NAP));
                }
                Ok(())
            };
            found.push((unit as u32, reader.read(unit, block, place, &mut input, &mut wait)?));
            job.progress.units.fetch_add(1, Ordering::Relaxed);
            let next = unit + workers;
            if next < job.units.len() {
                input.advance_to(time(next));
            }
            worker.step();
        } else {
            worker.step_or_park(Some(NAP));
        }
    }
    input.close();
    notes.close();
    while !done.done() {
        job.broken.check()?;
        worker.step_or_park(Some(NAP));
    }
    let bad = reader.bad;
    drop(reader);
    // The operators hold the other references, and are gone once the dataflow is.
    while worker.has_dataflows() {
        job.broken.check()?;
        worker.step_or_park(Some(NAP));
    }
    let people = Rc::into_inner(people)
        .map(RefCell::into_inner)
        .ok_or_else(|| failed("the people are still in use"))?;
    let mut cells = over.take();
    cells.extend(steps.take());
    Ok(Outcome { people, found, steps: cells, bad })
}

type EventInput = timely::dataflow::operators::core::input::Handle<
    u64,
    timely::container::CapacityContainerBuilder<Vec<Placed>>,
>;

/// Finds the places in which blocks begin, from the passages of those before them.
struct Composer {
    next: usize,
    place: Place,
    /// The places of this worker's blocks.
    known: HashMap<usize, Place>,
}

impl Composer {
    fn compose(
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
struct Reader<'a> {
    job: &'a Job,
    layouts: Vec<Option<Layout>>,
    hasher: RowHasher,
    columns: Vec<String>,
    event: Event,
    bad: bool,
}

impl<'a> Reader<'a> {
    fn new(job: &'a Job) -> Result<Self> {
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
        Ok(Self { job, layouts, hasher, columns, event: Event::default(), bad: false })
    }

    fn read(
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
        job.progress.rows.fetch_add(rows, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_every_byte_once_and_end_where_the_past_does() {
        let files =
            [(1_000_000, Some(0)), (5_000, None), (100_000, Some(33_333)), (10, Some(10)), (0, Some(0))];
        for workers in [1, 3, 100] {
            let mut next = vec![0; files.len()];
            for unit in units(&files, workers) {
                match unit {
                    Unit::Whole { file } => assert_eq!(file, 1),
                    Unit::Bytes { file, start, end, new } => {
                        assert!(start == next[file] && end > start, "{unit:?}");
                        let unread = files[file].1.unwrap();
                        assert!(if new { start >= unread } else { end <= unread }, "{unit:?}");
                        next[file] = end;
                    }
                }
            }
            assert_eq!(next, [1_000_000, 0, 100_000, 10, 0]);
        }
    }
}
