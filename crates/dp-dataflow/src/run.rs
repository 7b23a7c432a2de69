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

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dp_events::consumed::{Consumed, RowHasher, Stretch};
use dp_events::dashboard::{Gather, Gathering};
use dp_events::intake::{Event, OpenSteps, Parser};
use dp_events::part::{self, Part, PartFolder, PartOf};
use dp_events::people::{People, PseudonymKey};
use dp_events::rows::{self, InputFile};
use dp_events::spec::{BadRows, Spec};
use dp_events::{Dashboard, Mistake, Outcome, Randomness, Releases};

use crate::alike::{self, Facts, stamps, unchanged};
use crate::closing::Closing;
use crate::mesh::{self, Broken, Hosts, Mesh};
use crate::operators::owner_of_person;
use crate::secret::{Secret, masked};
use crate::team::{Message, Start, Team};
use crate::work::{self, Found, Job, Progress, Published, Unit};
use crate::{Error, Result, failed};

/// How often progress is reported.
const REPORT: Duration = Duration::from_secs(1);

/// Receives lines.
pub type Log = Box<dyn Fn(&str)>;

/// How a dashboard is run over several workers.
pub struct Workers {
    /// Workers in each process.
    pub workers: usize,
    /// Where all processes are, and what they share; nothing where this process is the only one.
    pub hosts: Option<(Hosts, Secret)>,
    /// Receives lines about the progress, for whoever runs it: they speak of the data.
    pub log: Option<Log>,
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
    options: Workers,
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
    let facts = alike::facts(spec, &files, options.workers, randomness)?;
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
            alike::compare(other, &facts, &other_facts)?;
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

/// The part of the first process in a run.
struct Lead<'a> {
    team: &'a mut Team,
    spec: &'a Spec,
    until: i128,
    options: &'a Workers,
    processes: usize,
}

impl Lead<'_> {
    /// Where every file is unread, as far as it can be read in blocks.
    fn unread(
        &self,
        files: &[InputFile],
        consumed: &Consumed,
        key: &PseudonymKey,
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
                log(&team.report(units));
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
        key: &PseudonymKey,
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
fn follow(spec: &Spec, files: &[InputFile], facts: Facts, team: &mut Team, options: &Workers) -> Result<()> {
    let (process, workers, processes) = (team.process, options.workers, team.control.len());
    let randomness = facts.randomness;
    team.tell(0, &Message::Facts(facts))?;
    let stamps = stamps(files)?;
    let start = team.wait_for(0, |message| match message {
        Message::Start(start) => Some(*start),
        _ => None,
    })?;
    let key = Arc::new(PseudonymKey::new(masked(&team.sessions[0], &start.key)));
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
