//! A run: who does what, in which order, and what is on disk when.
//!
//! | when | the first process | every other process |
//! |---|---|---|
//! | start | connects, compares what all have | connects, says what it has |
//! | state | opens the state of the dashboard | takes the one of its two states that belongs to it |
//! | rows | hands out blocks; all workers read | the same |
//! | steps | closes those that are over for its keys, and gathers what all publish | closes them for its keys, forgets what nobody needs any more |
//! | stage | waits for all | writes a state that holds its people and keys before and after |
//! | commit | writes the new state: **from here on the run has happened** | |
//! | publish | writes the output | ends |

use std::fmt::Write as _;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

use dp_events::consumed::{Consumed, RowHasher, Stretch};
use dp_events::dashboard::{Design, Gather, Gathering};
use dp_events::intake::{Event, OpenSteps, Opened, Parser};
use dp_events::part::{self, Part, PartFolder, PartOf};
use dp_events::people::{HashKey, People};
use dp_events::rows::{self, InputFile};
use dp_events::spec::{BadRows, Identity, Spec};
use dp_events::{Dashboard, Mistake, Outcome, Randomness, Releases};
use serde::{Deserialize, Serialize};

use crate::closing::Closing;
use crate::mesh::{self, Broken, Hosts, Mesh};
use crate::operators::owner_of_person;
use crate::sealed::Sealed;
use crate::secret::{Secret, masked};
use crate::work::{self, Found, Job, Progress, Published, Reached, Unit};
use crate::{Error, Result, failed};

/// How far the clocks of two machines may be apart.
const SKEW: u64 = 300;

/// Bytes at either end of a file by which processes find out that they have different ones.
const SAMPLE: u64 = 1 << 16;

/// How often progress is reported.
const REPORT: Duration = Duration::from_secs(1);

/// Receives lines.
pub type Log = Box<dyn Fn(&str)>;

/// How a dashboard is run over several workers.
pub struct Options {
    /// Workers in each process.
    pub workers: usize,
    /// Where all processes are, and what they share; nothing where this process is the only one.
    pub hosts: Option<(Hosts, Secret)>,
    /// Receives lines about the progress, for whoever runs it: they speak of the data.
    pub log: Option<Log>,
}

/// What processes tell each other.
#[derive(Serialize, Deserialize)]
enum Message {
    /// What a process has.
    Facts(Facts),
    /// The run begins.
    Start(Box<Start>),
    /// The state of this process fits.
    Ready,
    /// All states fit.
    Go,
    /// How far a process is.
    Progress(Reached),
    /// What a process has read, and whether a row could not be used.
    Finished(Vec<(u32, Found)>, bool),
    /// Write the state of a generation.
    Stage(u64),
    /// It is written.
    Staged,
    /// The run is over.
    Done,
    /// The run cannot go on.
    Failed(String),
}

/// What must be the same for all processes.
#[derive(Serialize, Deserialize)]
struct Facts {
    version: String,
    program: [u8; 32],
    workers: usize,
    identity: Identity,
    randomness: Randomness,
    files: Vec<FileFacts>,
    /// Seconds since 1970.
    clock: u64,
}

#[derive(Serialize, Deserialize, PartialEq)]
struct FileFacts {
    name: String,
    length: u64,
    sample: [u8; 32],
}

/// What the other processes need to know.
#[derive(Serialize, Deserialize)]
struct Start {
    set: [u8; 16],
    generation: u64,
    key: [u8; 32],
    opened: Opened,
    closed: u32,
    units: Vec<Unit>,
    consumed: Consumed,
    design: Design,
}

/// Reads what is new, closes every step that is over and publishes, as [`Dashboard::run`] does, with several workers. The first
/// process, or the only one, returns what it did.
///
/// # Privacy
/// That of [`Dashboard::run`]: the limits of a person are enforced in one place, and sums and noise are the same.
///
/// # Errors
/// Those of [`Dashboard::run`]; processes that do not answer or are not alike, by name; a process that is lost; a clock that
/// went backwards. Nothing is published then that the next run would not publish as well.
pub fn run(
    dashboard: &Dashboard,
    until: i128,
    randomness: Randomness,
    options: Options,
) -> Result<Option<Outcome>> {
    if options.workers == 0 {
        return Err(failed("there must be at least one worker"));
    }
    let spec = dashboard.spec();
    if let Some((hosts, _)) = &options.hosts
        && hosts.process >= hosts.addresses.len()
    {
        return Err(failed(format!(
            "there is no process {} among {}; they are counted from 0",
            hosts.process,
            hosts.addresses.len()
        )));
    }
    let broken = Arc::new(Broken::default());
    let (process, mesh) = match &options.hosts {
        Some((hosts, secret)) if hosts.addresses.len() > 1 => {
            (hosts.process, mesh::connect(hosts, secret, &broken)?)
        }
        _ => (0, Mesh { data: vec![None], control: vec![None], sessions: vec![[0; 32]] }),
    };
    let processes = mesh.data.len();
    let files = rows::files(spec)?;
    let mut team = Team::new(mesh, process, &broken)?;
    let facts = facts(spec, &files, options.workers, randomness)?;
    if process > 0 {
        let outcome = follow(spec, &files, facts, &mut team, &options);
        if let Err(error) = &outcome {
            team.tell_all(&Message::Failed(error.to_string()));
        }
        return outcome.map(|()| None);
    }
    let mut lead = || {
        for other in 1..processes {
            let other_facts = team.wait_for(other, |message| match message {
                Message::Facts(facts) => Some(facts),
                _ => None,
            })?;
            compare(other, &facts, &other_facts)?;
        }
        let mut lead = Lead { team: &mut team, spec, until, options: &options, processes };
        dashboard.run_with(until, randomness, &mut lead)
    };
    let outcome = lead();
    match &outcome {
        Ok(_) => team.finish(),
        Err(error) => team.tell_all(&Message::Failed(error.to_string())),
    }
    outcome.map(Some)
}

/// The other processes, as one sees them.
struct Team {
    process: usize,
    control: Vec<Option<Mutex<Sealed>>>,
    data: Vec<Option<mesh::Wire>>,
    sessions: Vec<[u8; 32]>,
    inbox: mpsc::Receiver<(usize, Message)>,
    waiting: Vec<(usize, Message)>,
    /// How far each process is.
    reached: Vec<Reached>,
    broken: Arc<Broken>,
    over: Arc<AtomicBool>,
}

impl Team {
    fn new(mesh: Mesh, process: usize, broken: &Arc<Broken>) -> Result<Self> {
        let (send, inbox) = mpsc::channel();
        let over = Arc::new(AtomicBool::new(false));
        for (other, stream) in mesh.control.iter().enumerate() {
            let Some(stream) = stream else { continue };
            let stream = stream.try_clone().map_err(|error| failed(error.to_string()))?;
            let (send, broken, over) = (send.clone(), Arc::clone(broken), Arc::clone(&over));
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                loop {
                    match mesh::receive::<Message>(&mut stream, mesh::LONGEST) {
                        Ok(Message::Failed(reason)) => {
                            broken.set(if other == 0 {
                                reason
                            } else {
                                format!("process {other}: {reason}")
                            });
                            return;
                        }
                        Ok(message) => {
                            let last = matches!(message, Message::Done);
                            over.fetch_or(last, Ordering::AcqRel);
                            if send.send((other, message)).is_err() || last {
                                return;
                            }
                        }
                        Err(_) => {
                            if !over.load(Ordering::Acquire) {
                                broken.set(format!("process {other} is gone"));
                            }
                            return;
                        }
                    }
                }
            });
        }
        Ok(Self {
            process,
            reached: vec![Reached::default(); mesh.control.len()],
            control: mesh.control.into_iter().map(|stream| stream.map(Mutex::new)).collect(),
            data: mesh.data,
            sessions: mesh.sessions,
            inbox,
            waiting: Vec::new(),
            broken: Arc::clone(broken),
            over,
        })
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let there: Vec<usize> =
            (0..self.control.len()).filter(|other| self.control[*other].is_some()).collect();
        there.into_iter()
    }

    fn tell(&self, other: usize, message: &Message) -> Result<()> {
        let Some(stream) = &self.control[other] else { return Ok(()) };
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        mesh::send(&mut *stream, message).map_err(|_| {
            self.broken.set(format!("process {other} is gone"));
            failed(self.broken.reason().unwrap_or_default())
        })
    }

    /// Tells everybody, and does not mind who hears it.
    fn tell_all(&self, message: &Message) {
        self.others().for_each(|other| {
            let _ = self.tell(other, message);
        });
    }

    fn finish(&self) {
        self.over.store(true, Ordering::Release);
        self.tell_all(&Message::Done);
    }

    /// Takes what has arrived; progress is noted.
    fn take(&mut self, patience: Duration) {
        if let Ok((other, message)) = self.inbox.recv_timeout(patience) {
            match message {
                Message::Progress(reached) => self.reached[other] = reached,
                message => self.waiting.push((other, message)),
            }
        }
    }

    /// The next message of a kind from a process.
    fn wait_for<R>(&mut self, from: usize, wanted: impl Fn(Message) -> Option<R>) -> Result<R> {
        loop {
            if let Some(at) = self.waiting.iter().position(|(other, _)| *other == from) {
                let (_, message) = self.waiting.remove(at);
                return wanted(message).ok_or_else(|| {
                    failed(format!("process {from} said something that does not belong here"))
                });
            }
            self.broken.check()?;
            self.take(Duration::from_millis(20));
        }
    }
}

/// What must be the same for all processes, as this one has it.
fn facts(spec: &Spec, files: &[InputFile], workers: usize, randomness: Randomness) -> Result<Facts> {
    // Both ends and the length of a program tell one build from another.
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let program = sample(&program, rows::length(&program)?)?;
    let files = files.iter().map(|file| {
        let length = rows::length(&file.path)?;
        Ok(FileFacts { name: file.name.clone(), length, sample: sample(&file.path, length)? })
    });
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program,
        workers,
        identity: spec.identity(),
        randomness,
        files: files.collect::<Result<_>>()?,
        clock,
    })
}

/// A hash of the length and of both ends of a file.
fn sample(path: &Path, length: u64) -> Result<[u8; 32]> {
    use std::io::{Read, Seek, SeekFrom};
    let failed = |error| Error::file(path, error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&length.to_le_bytes());
    let mut bytes = Vec::new();
    for start in [0, length.saturating_sub(SAMPLE)] {
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        bytes.clear();
        (&mut file).take(SAMPLE).read_to_end(&mut bytes).map_err(failed)?;
        hasher.update(&bytes);
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Refuses a process that is not like this one.
fn compare(other: usize, here: &Facts, there: &Facts) -> Result<()> {
    let refuse = |reason: String| Err(failed(format!("process {other} {reason}")));
    if here.version != there.version {
        return refuse(format!(
            "runs version {} of the program, this is version {}",
            there.version, here.version
        ));
    }
    if here.program != there.program {
        return refuse("runs another build of the program; start the same file everywhere".to_owned());
    }
    if here.workers != there.workers {
        return refuse(format!("has {} workers, this one {}", there.workers, here.workers));
    }
    let differences = here.identity.differences(&there.identity);
    if !differences.is_empty() {
        return refuse(format!("has another description: {}", differences.join("; ")));
    }
    if here.randomness != there.randomness {
        return refuse("was started with another seed".to_owned());
    }
    let names = |facts: &Facts| facts.files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
    if names(here) != names(there) {
        return refuse(format!(
            "has other input files: {} against {}",
            names(there).join(", "),
            names(here).join(", ")
        ));
    }
    for (mine, theirs) in here.files.iter().zip(&there.files) {
        if mine != theirs {
            return refuse(format!("has another {}: it must be the same file everywhere", mine.name));
        }
    }
    if here.clock.abs_diff(there.clock) > SKEW {
        return refuse(format!(
            "has a clock that differs by {} seconds from this one",
            here.clock.abs_diff(there.clock)
        ));
    }
    Ok(())
}

/// When each file was last changed, and how long it is.
fn stamps(files: &[InputFile]) -> Result<Vec<(u64, Option<SystemTime>)>> {
    let stamp = |file: &InputFile| {
        let data = std::fs::metadata(&file.path).map_err(|error| Error::file(&file.path, error))?;
        Ok((data.len(), data.modified().ok()))
    };
    files.iter().map(stamp).collect()
}

fn unchanged(files: &[InputFile], before: &[(u64, Option<SystemTime>)]) -> Result<()> {
    for ((file, now), before) in files.iter().zip(stamps(files)?).zip(before) {
        if now != *before {
            return Err(Error::file(
                &file.path,
                "it changed while it was read; run again when nobody writes to it",
            ));
        }
    }
    Ok(())
}

/// The part of the first process in a run.
struct Lead<'a> {
    team: &'a mut Team,
    spec: &'a Spec,
    until: i128,
    options: &'a Options,
    processes: usize,
}

impl Lead<'_> {
    /// Where every file is unread, as far as it can be read in blocks.
    fn unread(
        &self,
        files: &[InputFile],
        consumed: &Consumed,
        key: &HashKey,
    ) -> Result<Vec<(u64, Option<u64>)>> {
        let columns = self.spec.columns();
        let mut hasher = RowHasher::new(key, columns.len());
        files
            .iter()
            .map(|file| {
                let length = rows::length(&file.path)?;
                if !rows::is_in_blocks(&file.path) {
                    return Ok((length, None));
                }
                let unread = rows::with_first(&file.path, &columns, &mut |first| {
                    consumed.unread(&file.name, &file.path, &mut hasher, first)
                })?;
                Ok((length, unread))
            })
            .collect()
    }

    /// The first row that cannot be used, as a run in one place finds it.
    fn first_bad(&self, files: &[InputFile], consumed: &Consumed, parser: &Parser) -> Result<()> {
        let columns = self.spec.columns();
        let mut event = Event::default();
        for file in files {
            let mut reading = consumed.begin(&file.name, &file.path, columns.len(), parser.key());
            rows::read(&file.path, &columns, &mut |row| match (
                reading.is_new(row)?,
                parser.parse(row, &mut event),
            ) {
                (true, Some(bad)) => Err(Error::Input(Mistake {
                    file: file.path.clone(),
                    line: row.line,
                    message: bad.sentence().to_owned(),
                })),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Runs the workers of this process, and says now and then how far all of them are.
    fn execute(&mut self, job: Job, people: Vec<People>, units: usize) -> Result<Done> {
        let wires = std::mem::take(&mut self.team.data);
        let (mut last, log, progress) =
            (Instant::now(), self.options.log.as_ref(), Arc::clone(&job.progress));
        let team = &mut *self.team;
        Done::of(job, people, wires, 0, || {
            team.take(Duration::ZERO);
            if last.elapsed() >= REPORT
                && let Some(log) = log
            {
                last = Instant::now();
                team.reached[0] = progress.now();
                log(&report(&team.reached, units));
            }
            Ok(())
        })
    }

    fn log(&self, text: &str) {
        if let Some(log) = &self.options.log {
            log(text);
        }
    }
}

/// How far all processes are, in a line.
fn report(reached: &[Reached], units: usize) -> String {
    let all = |index: usize| -> u64 {
        reached.iter().flat_map(|process| process.workers.iter().map(move |worker| worker[index])).sum()
    };
    let mut text = format!("{} of {units} blocks and {} rows are read", all(0), all(1));
    for (process, reached) in reached.iter().enumerate() {
        let workers: Vec<String> = reached.workers.iter().map(|[units, _]| units.to_string()).collect();
        let _ = write!(
            text,
            "; process {process}: {} blocks by its workers, {} steps closed",
            if workers.is_empty() { "no".to_owned() } else { workers.join(" + ") },
            reached.steps
        );
    }
    text
}

/// What the workers of a process have done, put together.
struct Done {
    people: Vec<People>,
    found: Vec<(u32, Found)>,
    bad: bool,
    steps: OpenSteps,
    releases: Releases,
    published: Published,
}

impl Done {
    fn of(
        job: Job,
        people: Vec<People>,
        wires: Vec<Option<mesh::Wire>>,
        process: usize,
        meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        let closing = Arc::clone(&job.closing);
        let outcomes = work::execute(job, people, wires, process, meanwhile)?;
        let closing = Arc::into_inner(closing).ok_or_else(|| failed("the keys are still in use"))?;
        let closing = closing.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut people, mut found, mut bad) = (Vec::new(), Vec::new(), false);
        let (mut open, mut published) = (Vec::new(), Published::new());
        for (worker, outcome) in outcomes.into_iter().enumerate() {
            people.push(outcome.people);
            found.extend(outcome.found);
            bad |= outcome.bad;
            open.extend(outcome.steps.into_iter().map(|(step, cells)| (worker, step, cells)));
            published.extend(outcome.published);
        }
        let (steps, releases) = closing.finish(open.into_iter())?;
        Ok(Self { people, found, bad, steps, releases, published })
    }
}

impl Gather for Lead<'_> {
    fn processes(&self) -> usize {
        self.processes
    }

    fn gather(&mut self, run: Gathering<'_>) -> Result<()> {
        let (processes, workers) = (self.processes, self.options.workers);
        if self.spec.calendar.closed_at(self.until) < run.intake.open() {
            return Err(failed(format!(
                "the clock went backwards: step {} was published already, and is not over at this time",
                run.intake.open()
            )));
        }
        let stamps = stamps(run.files)?;
        let parser = run.intake.parser().clone();
        let unread = self.unread(run.files, run.consumed, parser.key())?;
        let units = work::units(&unread, processes * workers);
        let opened = run.intake.opened();
        let closed = run.closed as u32;
        let whole = run.files.iter().zip(&unread).filter(|(_, (_, unread))| unread.is_none());
        let whole = whole.map(|(file, _)| file.name.as_str());
        for other in self.team.others() {
            let start = Start {
                set: run.set,
                generation: run.generation,
                key: masked(&self.team.sessions[other], parser.key().expose()),
                opened,
                closed,
                units: units.clone(),
                consumed: run.consumed.only(whole.clone()),
                design: run.design.clone(),
            };
            self.team.tell(other, &Message::Start(Box::new(start)))?;
        }
        for other in self.team.others() {
            self.team.wait_for(other, |message| matches!(message, Message::Ready).then_some(()))?;
        }
        self.team.tell_all(&Message::Go);
        self.log(&format!(
            "{} blocks of input for {processes} processes with {workers} workers each; steps {} to {} are to be closed",
            units.len(),
            run.intake.open() + 1,
            run.closed
        ));
        let people = run.intake.take_people(workers, |person| {
            // All of them belong to the first process.
            owner_of_person(person, processes * workers).min(workers - 1)
        });
        let progress = Arc::new(Progress::new(workers));
        let encodings = Arc::clone(parser.encodings());
        let (steps, releases) = (run.intake.take_steps(), run.releases.take());
        let closing = Closing::new(steps, releases, encodings, 0, workers, processes);
        let job = Job {
            parser: parser.clone(),
            files: run.files.to_vec(),
            units: units.clone(),
            consumed: run.consumed.clone(),
            opened,
            closed,
            closing: Arc::new(Mutex::new(closing)),
            broken: Arc::clone(&self.team.broken),
            progress: Arc::clone(&progress),
        };
        let mut done = self.execute(job, people, units.len())?;
        let (mut found, mut bad) = (std::mem::take(&mut done.found), done.bad);
        for other in self.team.others() {
            let (theirs, unfit) = self.team.wait_for(other, |message| match message {
                Message::Finished(found, bad) => Some((found, bad)),
                _ => None,
            })?;
            found.extend(theirs);
            bad |= unfit;
        }
        unchanged(run.files, &stamps)?;
        if bad && self.spec.input.bad_rows == BadRows::Refuse {
            self.first_bad(run.files, run.consumed, &parser)?;
        }
        self.remember(run.files, &units, &unread, found, run.consumed, parser.key())?;
        run.intake.put_back(done.people, done.steps);
        *run.releases = done.releases;
        for step in opened.open..closed {
            let mut parts = Vec::with_capacity(processes);
            for process in 0..processes {
                let part = done.published.remove(&(step, process));
                parts.push(
                    part.ok_or_else(|| {
                        failed(format!("process {process} has not closed step {}", step + 1))
                    })?,
                );
            }
            run.archive.publish(parts);
        }
        self.log(&format!(
            "all rows are read, every person's limits are kept, and {} steps are closed",
            closed.saturating_sub(opened.open)
        ));
        Ok(())
    }

    fn stage(&mut self, generation: u64) -> Result<()> {
        for other in self.team.others() {
            self.team.tell(other, &Message::Stage(generation))?;
        }
        for other in self.team.others() {
            self.team.wait_for(other, |message| matches!(message, Message::Staged).then_some(()))?;
        }
        self.log("the states of all processes are on disk");
        Ok(())
    }
}

impl Lead<'_> {
    /// Notes which rows were consumed, and refuses those that changed since an earlier run.
    fn remember(
        &self,
        files: &[InputFile],
        units: &[Unit],
        unread: &[(u64, Option<u64>)],
        mut found: Vec<(u32, Found)>,
        consumed: &mut Consumed,
        key: &HashKey,
    ) -> Result<()> {
        found.sort_by_key(|(unit, _)| *unit);
        if found.len() != units.len() || (0..).zip(&found).any(|(index, (unit, _))| *unit != index) {
            return Err(failed("a block of the input was read twice, or not at all"));
        }
        let hasher = RowHasher::new(key, self.spec.columns().len());
        let mut stretches: Vec<Vec<Stretch>> = vec![Vec::new(); files.len()];
        for ((_, found), unit) in found.into_iter().zip(units) {
            match found {
                Found::Bytes(stretch) => stretches[unit.file()].push(stretch),
                Found::Whole(record) => consumed.end(&files[unit.file()].name, *record),
            }
        }
        for ((file, stretches), (_, unread)) in files.iter().zip(&stretches).zip(unread) {
            if let Some(unread) = unread {
                consumed.end_in_parts(&file.name, &file.path, &hasher, *unread, stretches)?;
            }
        }
        Ok(())
    }
}

/// The part of every other process in a run.
fn follow(spec: &Spec, files: &[InputFile], facts: Facts, team: &mut Team, options: &Options) -> Result<()> {
    let (process, workers, processes) = (team.process, options.workers, team.control.len());
    let randomness = facts.randomness;
    team.tell(0, &Message::Facts(facts))?;
    let stamps = stamps(files)?;
    let start = team.wait_for(0, |message| match message {
        Message::Start(start) => Some(*start),
        _ => None,
    })?;
    let key = Arc::new(HashKey::new(masked(&team.sessions[0], &start.key)));
    let path = part::folder_of(&spec.state, process);
    let place = PartOf { set: start.set, number: start.generation, process, processes };
    let (mut folder, part) = PartFolder::open(&path, place, spec, &start.design, randomness)?;
    if part.steps.open() != start.opened.open as usize {
        return Err(failed(format!("{}: it has closed other steps than the dashboard", path.display())));
    }
    team.tell(0, &Message::Ready)?;
    team.wait_for(0, |message| matches!(message, Message::Go).then_some(()))?;
    let first = process * workers;
    let people = part.people.split(workers, |person| {
        owner_of_person(person, processes * workers).saturating_sub(first).min(workers - 1)
    });
    let parser = Parser::new(Arc::new(spec.clone()), key);
    let encodings = Arc::clone(parser.encodings());
    let closing = Closing::new(part.steps, part.releases, encodings, process, workers, processes);
    let progress = Arc::new(Progress::new(workers));
    let job = Job {
        parser,
        files: files.to_vec(),
        units: start.units,
        consumed: start.consumed,
        opened: start.opened,
        closed: start.closed,
        closing: Arc::new(Mutex::new(closing)),
        broken: Arc::clone(&team.broken),
        progress: Arc::clone(&progress),
    };
    let wires = std::mem::take(&mut team.data);
    let mut last = Instant::now();
    let done = Done::of(job, people, wires, process, || {
        if last.elapsed() < REPORT {
            return Ok(());
        }
        last = Instant::now();
        team.tell(0, &Message::Progress(progress.now()))
    })?;
    unchanged(files, &stamps)?;
    team.tell(0, &Message::Finished(done.found, done.bad))?;
    let mut people = People::new(spec.limits);
    done.people.into_iter().for_each(|part| people.join(part));
    people.forget(done.steps.open() as u32, spec.privacy.protects);
    let part = Part { people, steps: done.steps, releases: done.releases };
    loop {
        let stage = team.wait_for(0, |message| match message {
            Message::Stage(generation) => Some(Some(generation)),
            Message::Done => Some(None),
            _ => None,
        })?;
        match stage {
            Some(generation) => {
                folder.stage(&part, generation)?;
                team.tell(0, &Message::Staged)?;
            }
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[privacy]\nrho = 0.5\nprotects = \"event\"\nrelation = \"zero-out\"\n[input]\nfiles = [\"a.csv\"]\n\
        time = \"day\"\n[steps]\nlength = \"1 day\"\nfirst = \"2026-01-01\"\nlast = \"2026-01-02\"\n[[release]]\nname = \"visits\"\n\
        statistics = [\"total\"]\n[output]\nfolder = \"public\"\n";

    fn here(text: &str) -> Facts {
        let spec = Spec::parse(text, "dashboard.toml".as_ref()).unwrap();
        let file = FileFacts { name: "a.csv".to_owned(), length: 7, sample: [1; 32] };
        Facts {
            version: "1.0.0".to_owned(),
            program: [2; 32],
            workers: 2,
            identity: spec.identity(),
            randomness: Randomness::System,
            files: vec![file],
            clock: 1_000_000,
        }
    }

    /// Everything in which a process may differ is named, and small differences of clocks are not minded.
    #[test]
    fn what_is_different_is_named() {
        let refused = |there: &Facts| compare(3, &here(TEXT), there).unwrap_err().to_string();
        assert!(compare(3, &here(TEXT), &Facts { clock: 1_000_000 + SKEW, ..here(TEXT) }).is_ok());
        let files = |name: &str, sample: u8| {
            vec![FileFacts { name: name.to_owned(), length: 7, sample: [sample; 32] }]
        };
        for (there, expected) in [
            (
                Facts { version: "1.0.1".to_owned(), ..here(TEXT) },
                "runs version 1.0.1 of the program, this is version 1.0.0",
            ),
            (Facts { program: [3; 32], ..here(TEXT) }, "runs another build of the program"),
            (Facts { workers: 1, ..here(TEXT) }, "has 1 workers, this one 2"),
            (
                here(&TEXT.replace("0.5", "0.6")),
                "has another description: privacy was rho = 0.5, now rho = 0.6",
            ),
            (
                Facts { randomness: Randomness::Reproducible(1), ..here(TEXT) },
                "was started with another seed",
            ),
            (Facts { files: files("b.csv", 1), ..here(TEXT) }, "has other input files: b.csv against a.csv"),
            (Facts { files: files("a.csv", 9), ..here(TEXT) }, "has another a.csv"),
            (Facts { clock: 1_000_301, ..here(TEXT) }, "has a clock that differs by 301 seconds"),
            (Facts { clock: 999_699, ..here(TEXT) }, "has a clock that differs by 301 seconds"),
        ] {
            let text = refused(&there);
            assert!(text.contains(&format!("process 3 {expected}")), "{text}");
        }
    }
}
