//! What a worker does: read its blocks of the input, and carry them through the operators.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use dp_events::consumed::{Consumed, Record, Stretch};
use dp_events::encoding::Cells;
use dp_events::intake::{Opened, Parser};
use dp_events::people::People;
use dp_events::releases::StepNumbers;
use dp_events::rows::InputFile;
use dp_events::rows::blocks::{Block, Passage};
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

use crate::closing::{Closed, Closing};
use crate::mesh::{Broken, Wire};
use crate::operators::{Placed, Steps, aggregate, bound_contributions, release};
use crate::reading::{Composer, Reader};
use crate::{Result, failed};

/// Blocks that a worker has read but not yet sent on.
const AHEAD: usize = 2;

/// How many blocks for each worker may be on their way at once: this bounds what a slow worker makes others hold.
const WINDOW: usize = 4;

/// A time is the number of a unit, and within it the number of a batch of rows.
const BATCH_BITS: u32 = 24;

/// How many batches of a file that is read as a whole may be on their way.
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
    /// The keys of this process.
    pub(crate) closing: Arc<Mutex<Closing>>,
    pub(crate) broken: Arc<Broken>,
    pub(crate) progress: Arc<Progress>,
}

/// How far the workers of a process are.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Units and rows that each worker has read.
    pub(crate) workers: Vec<[AtomicU64; 2]>,
    /// Steps that the process has closed.
    pub(crate) steps: AtomicU64,
}

impl Progress {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| Default::default()).collect(), steps: AtomicU64::new(0) }
    }

    /// As it is now.
    pub(crate) fn now(&self) -> Reached {
        let read = |one: &[AtomicU64; 2]| one.each_ref().map(|count| count.load(Ordering::Relaxed));
        Reached {
            workers: self.workers.iter().map(read).collect(),
            steps: self.steps.load(Ordering::Relaxed),
        }
    }
}

/// How far a process is, at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// Units and rows that each worker has read.
    pub(crate) workers: Vec<[u64; 2]>,
    /// Steps that it has closed.
    pub(crate) steps: u64,
}

/// What a worker has when it is done.
pub(crate) struct Outcome {
    pub(crate) people: People,
    pub(crate) found: Vec<(u32, Found)>,
    /// The cells of its keys in steps that are not over.
    pub(crate) steps: BTreeMap<u32, Cells>,
    /// What all processes publish of every step, at the first worker of all.
    pub(crate) published: Published,
    /// Whether a row could not be used.
    pub(crate) bad: bool,
}

/// What is published, by step and process.
pub(crate) type Published = BTreeMap<(u32, usize), Vec<StepNumbers>>;

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
fn work(worker: &mut Worker, job: &Job, people: People) -> Result<Outcome> {
    let mut flow = Flow::build(worker, job, people);
    let mut reader = Reader::new(job)?;
    let found = flow.read_all(worker, job, &mut reader)?;
    let bad = reader.bad;
    drop(reader);
    flow.finish(worker, job, found, bad)
}

pub(crate) type EventInput = timely::dataflow::operators::core::input::Handle<
    u64,
    timely::container::CapacityContainerBuilder<Vec<Placed>>,
>;

/// What a unit makes of the places in which it may begin, for a worker.
type Note = (u64, u32, Passage);

type NoteInput = timely::dataflow::operators::core::input::Handle<
    u64,
    timely::container::CapacityContainerBuilder<Vec<Note>>,
>;

/// The dataflow, as one worker holds it.
struct Flow {
    index: usize,
    workers: usize,
    input: EventInput,
    notes: NoteInput,
    passages: Rc<RefCell<HashMap<u32, Passage>>>,
    people: Rc<RefCell<People>>,
    steps: Steps,
    published: Rc<RefCell<Published>>,
    /// How far everybody's limits are enforced.
    bounded: ProbeHandle<u64>,
    /// Whether everything is published.
    done: ProbeHandle<u64>,
}

/// A time is the number of a unit, and within it the number of a batch of rows.
fn time_of(unit: usize) -> u64 {
    (unit as u64) << BATCH_BITS
}

impl Flow {
    fn build(worker: &mut Worker, job: &Job, people: People) -> Self {
        let (index, workers) = (worker.index(), worker.peers());
        let encodings = Arc::clone(job.parser.encodings());
        let people = Rc::new(RefCell::new(people));
        let passages: Rc<RefCell<HashMap<u32, Passage>>> = Rc::default();
        let steps = Steps::default();
        let published: Rc<RefCell<Published>> = Rc::default();
        let (bounded, done) = (ProbeHandle::new(), ProbeHandle::new());
        let (closed, open) = (job.closed, job.opened.open);
        let (input, notes) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, events) = scope.new_input::<Vec<Placed>>();
            let (notes, noted) = scope.new_input::<Vec<Note>>();
            let heard = Rc::clone(&passages);
            noted.sink(Exchange::new(|note: &Note| note.0), "Passages", move |(input, _)| {
                input.for_each(|_, data| {
                    heard.borrow_mut().extend(data.drain(..).map(|(_, unit, passage)| (unit, passage)));
                });
            });
            // Rows come in any order of their times, so no step is complete before all of them are read.
            let complete = |frontier: Option<&u64>| if frontier.is_none() { u32::MAX } else { 0 };
            let events =
                bound_contributions(events, Arc::clone(&encodings), Rc::clone(&people)).probe_with(&bounded);
            let sums = aggregate(events, Arc::clone(&encodings), complete);
            let owner = closer(job, index);
            let released = release(sums, encodings, Rc::clone(&steps), open, complete, move || closed, owner);
            let gathered = Rc::clone(&published);
            released
                .unary::<timely::container::CapacityContainerBuilder<Vec<()>>, _, _, _>(
                    Exchange::new(|_: &Closed| 0),
                    "Gather",
                    move |_, _| {
                        move |input, _| {
                            input.for_each(|_, data| {
                                let parts = data.drain(..).map(|one| ((one.step, one.process), one.numbers));
                                gathered.borrow_mut().extend(parts);
                            });
                        }
                    },
                )
                .probe_with(&done);
            (input, notes)
        });
        Self { index, workers, input, notes, passages, people, steps, published, bounded, done }
    }

    /// Reads every unit of this worker, not further ahead than the slowest allows.
    fn read_all(
        &mut self,
        worker: &mut Worker,
        job: &Job,
        reader: &mut Reader<'_>,
    ) -> Result<Vec<(u32, Found)>> {
        let mut mine = (self.index..job.units.len()).step_by(self.workers);
        let mut loaded: VecDeque<(usize, Option<Block>)> = VecDeque::new();
        let mut composer = Composer::new();
        let mut found = Vec::new();
        let progress = &job.progress.workers[self.index % job.progress.workers.len()];
        if self.index < job.units.len() {
            self.input.advance_to(time_of(self.index));
        }
        loop {
            job.broken.check()?;
            while loaded.len() < AHEAD
                && let Some(unit) = mine.next()
            {
                loaded.push_back((unit, self.load(job, unit)?));
            }
            let Some(unit) = loaded.front().map(|(unit, _)| *unit) else { return Ok(found) };
            composer.compose(&job.units, &mut self.passages.borrow_mut(), self.index, self.workers);
            if !self.is_near(unit) || !composer.knows(unit) {
                worker.step_or_park(Some(NAP));
                continue;
            }
            let block = loaded.pop_front().and_then(|(_, block)| block);
            let bounded = &self.bounded;
            let mut wait = |input: &mut EventInput, batch: u64| -> Result<()> {
                input.advance_to(time_of(unit) + batch);
                worker.step();
                while bounded.less_than(&(time_of(unit) + batch.saturating_sub(BATCHES))) {
                    job.broken.check()?;
                    worker.step_or_park(Some(NAP));
                }
                Ok(())
            };
            let place = composer.take(unit);
            found.push((unit as u32, reader.read(unit, block, place, &mut self.input, &mut wait)?));
            progress[0].fetch_add(1, Ordering::Relaxed);
            progress[1].store(reader.rows, Ordering::Relaxed);
            if unit + self.workers < job.units.len() {
                self.input.advance_to(time_of(unit + self.workers));
            }
            worker.step();
        }
    }

    /// Reads the bytes of a unit, and tells everybody what they make of the places in which it may begin.
    fn load(&mut self, job: &Job, unit: usize) -> Result<Option<Block>> {
        let Unit::Bytes { file, start, end, .. } = job.units[unit] else { return Ok(None) };
        let block = Block::read(&job.files[file].path, start, end)?;
        let passage = block.passage();
        (0..self.workers).for_each(|to| self.notes.send((to as u64, unit as u32, passage)));
        // A new time sends what the exchange still holds back.
        self.notes.advance_to(*self.notes.time() + 1);
        Ok(Some(block))
    }

    /// Whether everybody's limits are enforced up to a few units before one.
    fn is_near(&self, unit: usize) -> bool {
        let reached = self
            .bounded
            .with_frontier(|frontier| frontier.first().map_or(u64::MAX, |time| time >> BATCH_BITS));
        (unit as u64) < reached.saturating_add((WINDOW * self.workers) as u64)
    }

    /// Nothing more is read: what is on its way arrives, and steps are closed.
    fn finish(self, worker: &mut Worker, job: &Job, found: Vec<(u32, Found)>, bad: bool) -> Result<Outcome> {
        let Self { input, notes, people, steps, published, done, .. } = self;
        drop((input, notes));
        // The operators hold the other references, and are gone once the dataflow is.
        while !done.done() || worker.has_dataflows() {
            job.broken.check()?;
            worker.step_or_park(Some(NAP));
        }
        let people = Rc::into_inner(people)
            .map(RefCell::into_inner)
            .ok_or_else(|| failed("the people are still in use"))?;
        Ok(Outcome { people, found, steps: steps.take(), published: published.take(), bad })
    }
}

/// Hands the cells of a worker to the process, which closes a step once it has those of all of its workers.
fn closer(job: &Job, index: usize) -> impl FnMut(u32, Cells) -> Vec<Closed> + 'static {
    let (closing, broken) = (Arc::clone(&job.closing), Arc::clone(&job.broken));
    let progress = Arc::clone(&job.progress);
    move |step, cells| {
        let mut closing = closing.lock().unwrap_or_else(PoisonError::into_inner);
        match closing.close(index % progress.workers.len(), step, cells) {
            Ok(closed) => {
                progress.steps.fetch_add(u64::from(closed.is_some()), Ordering::Relaxed);
                closed.into_iter().collect()
            }
            Err(error) => {
                broken.set(error.to_string());
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_tests::description::Description;

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

    /// Two workers, of which the second waits for a file that nobody writes yet. The first stops within its window: of all
    /// its rows no more than those of a few blocks are on their way, however long the other takes. Then it goes on.
    #[cfg(unix)]
    #[test]
    fn a_slow_worker_holds_the_others_back() {
        const ROWS: u64 = 10;
        const BLOCKS: usize = 60;
        let folder = tempfile::tempdir().unwrap();
        let (rows, slow) = (folder.path().join("rows.csv"), folder.path().join("slow.csv"));
        let line = "2026-01-01,x\n";
        let block = ROWS * line.len() as u64;
        // The header fills a line of the first block.
        std::fs::write(&rows, format!("day,whatxxxx\n{}", line.repeat(BLOCKS * ROWS as usize - 1))).unwrap();
        let small_file = folder.path().join("small.csv");
        std::fs::write(&small_file, "day,what\n2026-01-02,x\n").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&slow).status().unwrap().success());

        let text = Description::of_events()
            .set("input.files", "[\"rows.csv\", \"slow.csv\"]")
            .release("visits", "statistics = [\"total\"]")
            .to_string();
        let spec = Arc::new(dp_events::Spec::parse(&text, &folder.path().join("dashboard.toml")).unwrap());
        let dashboard = dp_events::Dashboard::new((*spec).clone()).unwrap();
        let planned = Arc::clone(dashboard.planned().unwrap());
        let parser = Parser::new(spec, Arc::new(dp_events::people::PseudonymKey::new([1; 32])));
        let encodings = Arc::clone(parser.encodings());
        let whole = dp_events::encoding::Share::WHOLE;
        let releases =
            dp_events::Releases::new(planned, whole, dp_events::Randomness::Reproducible(1)).unwrap();
        let steps = dp_events::intake::OpenSteps::new(Arc::clone(&encodings), whole);
        // The first worker has the blocks of one file, the second small files of which the first is slow.
        let blocks = (0..BLOCKS as u64).map(|index| Unit::Bytes {
            file: 0,
            start: index * block,
            end: (index + 1) * block,
            new: true,
        });
        let small = (0..BLOCKS).map(|index| Unit::Whole { file: if index == 0 { 1 } else { 2 } });
        let units = blocks.zip(small).flat_map(<[Unit; 2]>::from).collect();
        let name = |path: &std::path::Path| InputFile { path: path.to_owned(), name: "a file".to_owned() };
        let progress = Arc::new(Progress::new(2));
        let job = Job {
            parser: parser.clone(),
            files: vec![name(&rows), name(&slow), name(&small_file)],
            units,
            consumed: Consumed::default(),
            opened: Opened { open: 0, first: 0 },
            closed: 1,
            closing: Arc::new(Mutex::new(Closing::new(steps, releases, encodings, 0, 2, 1))),
            broken: Arc::default(),
            progress: Arc::clone(&progress),
        };
        // Units 0, 2, 4, 6 and 8 lie within the window of the unit that is not read: the last is 7 behind it.
        let most = 1 + WINDOW as u64;
        let (mut calls, mut written) = (0, false);
        let people = (0..2).map(|_| People::new(parser.spec().limits)).collect();
        let outcomes = execute(job, people, vec![None], 0, || {
            let [units, rows] = progress.now().workers[0];
            if written {
                return Ok(());
            }
            assert!(units <= most && rows <= most * ROWS, "{units} units and {rows} rows are on their way");
            calls += u32::from(units == most);
            if calls == 20 {
                std::fs::write(&slow, "day,what\n2026-01-02,x\n").unwrap();
                written = true;
            }
            Ok(())
        })
        .unwrap();
        assert!(written && outcomes.len() == 2);
        let now = progress.now();
        let all: u64 = now.workers.iter().map(|[_, rows]| rows).sum();
        assert_eq!((all, now.steps), (BLOCKS as u64 * (ROWS + 1) - 1, 1));
    }
}
