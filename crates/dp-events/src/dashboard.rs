//! A run: rows in, steps closed by the clock, numbers published.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::consumed::Consumed;
use crate::encoding::Share;
use crate::error::{Error, Mistake, Result};
use crate::guarantee;
use crate::intake::{BadRow, Event, Intake, Parser};
use crate::ledger::{Entry, Ledger};
use crate::people::PseudonymKey;
use crate::plan::{self, Fitted, Planned};
use crate::publish;
use crate::releases::{Archive, Releases};
use crate::rows::{self, InputFile, Source, Table};
use crate::spec::{BadRows, Spec};
use crate::state::{self, Contents, Folder, Header, Randomness, SecretBytes};

/// A dashboard: its description, and the plan that follows from it.
pub struct Dashboard {
    spec: Arc<Spec>,
    planned: OnceLock<Arc<[Planned]>>,
}

/// What a run did, as far as the clock alone decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The number of steps published before the run.
    pub before: usize,
    /// The number of steps published now.
    pub published: usize,
    /// The number of all steps.
    pub steps: usize,
}

/// What a run publishes, as text in place of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// What the run did.
    pub outcome: Outcome,
    /// The table of every release, in their order: CSV, or JSON Lines.
    pub tables: Vec<String>,
    /// The promise in plain words, a sentence or two for each thing to know.
    pub receipt: Vec<String>,
}

/// A row that cannot be used or counts nowhere, for whoever may see the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where it is, and what is wrong with it. Nothing of its contents.
    pub mistake: Mistake,
    /// Whether the row is in order, and only its keys are in no list.
    pub elsewhere: bool,
}

/// What is said of a row whose keys are in no list.
const ELSEWHERE: &str = "the key is in the list of no release, so the row counts nowhere; add the key to `values`, or give the rest \
                         a name with `other`";

/// What going on with another description means.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What is different, field by field, in sentences.
    pub differences: Vec<String>,
    /// The number of steps that are published under the description so far.
    pub published: usize,
    /// What has been spent.
    pub before: Ledger,
    /// What is spent in all once the change is made.
    pub after: Ledger,
}

/// How the new rows of all files come to the intake of a run.
pub trait Gather {
    /// The processes that keep people and keys.
    fn processes(&self) -> usize {
        1
    }

    /// Counts every new row of the files, and remembers it as consumed. It may also close steps that are over.
    ///
    /// # Errors
    /// Files that cannot be read, a past that changed, a row that cannot be used where the description says to stop there.
    fn gather(&mut self, run: Gathering<'_>) -> Result<()>;

    /// Makes durable what belongs to the state of a number elsewhere; called before that state is written.
    ///
    /// # Errors
    /// Whatever stands against it: nothing is then written.
    fn stage(&mut self, _generation: u64) -> Result<()> {
        Ok(())
    }
}

/// What rows are brought to.
pub struct Gathering<'a> {
    /// The input files, in their order.
    pub files: &'a [InputFile],
    /// Takes the rows.
    pub intake: &'a mut Intake,
    /// Remembers them.
    pub consumed: &'a mut Consumed,
    /// The releases of the keys that this process owns.
    pub releases: &'a mut Releases,
    /// What was published so far, of all keys.
    pub archive: &'a mut Archive,
    /// How the releases were planned, for other owners of keys.
    pub design: Design,
    /// The number of steps that are over.
    pub closed: usize,
    /// The name that the states of all processes have in common.
    pub set: [u8; 16],
    /// How often the state was written so far.
    pub generation: u64,
}

/// How the releases of a dashboard were planned: whoever has it measures with the same coefficients.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Design {
    from: usize,
    fitted: Vec<Fitted>,
}

impl Design {
    /// Of releases that begin with a step.
    pub fn of(from: usize, planned: &[Planned]) -> Self {
        Self { from, fitted: planned.iter().map(|planned| planned.fitted().clone()).collect() }
    }

    /// The releases of a description, planned like this.
    ///
    /// # Errors
    /// A design of other releases.
    pub fn planned(&self, spec: &Spec) -> Result<Vec<Planned>> {
        plan::plan_again(spec, self.from, &self.fitted)
    }
}

/// One file after the other, and one row after the other.
pub struct InTurn;

impl Gather for InTurn {
    fn gather(&mut self, mut run: Gathering<'_>) -> Result<()> {
        run.files.iter().try_for_each(|file| run.count(&Source::File(file.clone())))
    }
}

/// The rows of a table, one after the other, and no file.
struct OfTable<'a>(&'a dyn Table);

impl Gather for OfTable<'_> {
    fn gather(&mut self, mut run: Gathering<'_>) -> Result<()> {
        run.count(&Source::Table(self.0))
    }
}

impl Gathering<'_> {
    /// Counts every new row of a source, and remembers it as consumed.
    fn count(&mut self, source: &Source<'_>) -> Result<()> {
        let parser = self.intake.parser().clone();
        let columns = parser.spec().columns();
        let length = source.length()?;
        let mut reading = self.consumed.begin(source.name(), source.path(), columns.len(), parser.key());
        source.read(&columns, &mut |row| {
            if reading.is_new(row)? { self.intake.push(row, source.path()) } else { Ok(()) }
        })?;
        let record = reading.finish(source.end(length))?;
        self.consumed.end(source.name(), record);
        Ok(())
    }
}

/// A run between reading the state and writing it.
struct Running {
    header: Header,
    releases: Releases,
    archive: Archive,
    intake: Intake,
    consumed: Consumed,
}

impl Dashboard {
    /// A dashboard of a description. Nothing is planned until it is needed.
    ///
    /// # Errors
    /// None at present; a description has been checked already.
    pub fn new(spec: Spec) -> Result<Self> {
        Ok(Self { spec: Arc::new(spec), planned: OnceLock::new() })
    }

    /// The description.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The releases as they are planned for all steps, fitted by the first call.
    ///
    /// # Errors
    /// What calibration refuses.
    pub fn planned(&self) -> Result<&Arc<[Planned]>> {
        if let Some(planned) = self.planned.get() {
            return Ok(planned);
        }
        let planned: Arc<[Planned]> = plan::plan(&self.spec, 0)?.into();
        Ok(self.planned.get_or_init(|| planned))
    }

    /// Reads what is new, closes every step that is over at an instant (in nanoseconds since 1970), and publishes.
    ///
    /// # Privacy
    /// The number, times and names of what is published depend on the description and the clock alone (and, where keys are
    /// found in the rows, on what is published). A new state is sealed before any of it is published, and what is published is a
    /// function of the sealed state.
    ///
    /// # Complexity
    /// Reading the files, and making the noise of all steps so far. Strategies are fitted by the first run only.
    ///
    /// # Errors
    /// Files that cannot be read, a past that changed, a state of another description; nothing is then published, and the
    /// state is as before.
    pub fn run(&self, until: i128, randomness: Randomness) -> Result<Outcome> {
        self.run_with(until, randomness, &mut InTurn)
    }

    /// [`Dashboard::run`] on rows that are in memory already, in place of the files of the description. They follow the rule of
    /// a file: all rows so far with the new ones behind them, or new rows only.
    ///
    /// # Errors
    /// As [`Dashboard::run`].
    pub fn run_on(&self, until: i128, randomness: Randomness, table: &dyn Table) -> Result<Outcome> {
        Source::Table(table).check_columns(&self.spec.columns())?;
        self.check_first(&[Source::Table(table)])?;
        self.run_over(until, randomness, &[], &mut OfTable(table))
    }

    /// As [`Dashboard::run`], with another way to bring rows to the intake: over several workers, or machines.
    ///
    /// # Privacy
    /// As [`Dashboard::run`], if `gather` counts every row as [`InTurn`] does.
    ///
    /// # Errors
    /// As [`Dashboard::run`], what `gather` returns, and a state that another number of processes made.
    pub fn run_with(&self, until: i128, randomness: Randomness, gather: &mut dyn Gather) -> Result<Outcome> {
        let files = self.files()?;
        self.check_first(&files.iter().cloned().map(Source::File).collect::<Vec<_>>())?;
        self.run_over(until, randomness, &files, gather)
    }

    /// As [`Dashboard::run`], with what would be published returned as text: nothing is written to the folder of the
    /// output. With `keep`, the sealed state is kept and continued as ever, and the text is that of all steps so far; without
    /// it, no state is read or left behind, and the same rows cost their budget again if they are released again.
    ///
    /// # Errors
    /// As [`Dashboard::run`].
    pub fn texts(&self, until: i128, randomness: Randomness, keep: bool, json: bool) -> Result<Texts> {
        let files = self.files()?;
        self.check_first(&files.iter().cloned().map(Source::File).collect::<Vec<_>>())?;
        let (outcome, running) = if keep {
            let folder = Folder::open(&self.spec.state, self.spec.key.as_deref())?;
            let (running, fresh) = self.begin(&folder, randomness, 1)?;
            self.advance(Some(&folder), running, &files, until, fresh, &mut InTurn)?
        } else {
            let running = self.start(randomness, Vec::new(), 0, 1)?;
            self.advance(None, running, &files, until, true, &mut InTurn)?
        };
        let Running { header, releases, archive, .. } = &running;
        let tables = publish::tables(&self.spec, header, releases.planned(), archive);
        let text = |table: &publish::Table<'_>| if json { table.json_lines() } else { table.csv() };
        let tables = tables.iter().map(text).collect();
        Ok(Texts { outcome, tables, receipt: guarantee::receipt(&self.spec, header) })
    }

    fn run_over(
        &self,
        until: i128,
        randomness: Randomness,
        files: &[InputFile],
        gather: &mut dyn Gather,
    ) -> Result<Outcome> {
        let folder = Folder::open(&self.spec.state, self.spec.key.as_deref())?;
        let (running, fresh) = self.begin(&folder, randomness, gather.processes())?;
        self.go_on(&folder, running, files, until, fresh, gather)
    }

    /// The run that a state continues, or the first one; and whether it is the first.
    fn begin(&self, folder: &Folder, randomness: Randomness, processes: usize) -> Result<(Running, bool)> {
        let (running, fresh) = match folder.read()? {
            Some(contents) => (self.resume(contents, randomness)?, false),
            None => (self.start(randomness, Vec::new(), 0, processes)?, true),
        };
        self.check_processes(&running.header, processes)?;
        Ok((running, fresh))
    }

    /// What going on under this description means, where it is not the one that the state was made for; nothing where it is.
    ///
    /// # Errors
    /// No state, one that cannot be opened, a change that cannot be made at all, or what calibration refuses.
    pub fn change(&self) -> Result<Option<Change>> {
        let contents = Folder::open(&self.spec.state, self.spec.key.as_deref())?.read()?;
        let contents = contents.ok_or_else(|| Error::state(&self.spec.state, "there is no state here"))?;
        let header = &contents.header;
        let differences = header.identity.differences(&self.spec.identity());
        if differences.is_empty() {
            return Ok(None);
        }
        let published = self.published_steps(&contents)?;
        self.check_change(header, published)?;
        let reproducible = header.randomness != Randomness::System;
        let before = Ledger { entries: header.ledger.clone(), reproducible };
        let mut after = before.clone();
        after
            .entries
            .extend(plan::plan(&self.spec, published)?.iter().map(|planned| planned.spent().clone()));
        Ok(Some(Change { differences, published, before, after }))
    }

    /// As [`Dashboard::run`], under a description that is not the one that the state was made for: its releases begin anew with the
    /// first step that is not published yet, with noise of their own and the whole budget of the description, which adds to
    /// what was spent before ([`Dashboard::change`] says what that comes to). What was published so far moves to a folder
    /// `until-STEP` within the output.
    ///
    /// # Privacy
    /// The old and the new releases compose. Limits per person begin anew as well, which the budget of the new releases
    /// covers.
    ///
    /// # Errors
    /// As [`Dashboard::run`], and a change of the calendar's beginning, length or zone, or of what is protected.
    pub fn run_changed(&self, until: i128, randomness: Randomness) -> Result<Outcome> {
        let files = self.files()?;
        let folder = Folder::open(&self.spec.state, self.spec.key.as_deref())?;
        let contents = folder.read()?;
        let contents =
            contents.ok_or_else(|| Error::state(&self.spec.state, "there is no state to change"))?;
        self.check_processes(&contents.header, 1)?;
        if contents.header.identity.differences(&self.spec.identity()).is_empty() {
            let running = self.resume(contents, randomness)?;
            return self.go_on(&folder, running, &files, until, false, &mut InTurn);
        }
        self.check_randomness(contents.header.randomness, randomness)?;
        let published = self.published_steps(&contents)?;
        self.check_change(&contents.header, published)?;
        let mut running = self.start(randomness, contents.header.ledger, published, 1)?;
        running.intake.begin_at(published);
        self.set_aside(published)?;
        self.go_on(&folder, running, &files, until, true, &mut InTurn)
    }

    /// Reads all rows and says which cannot be used, and which count nowhere, at most so many of either, for whoever may see the
    /// data. Nothing is written.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn examine(&self, most: usize) -> Result<Vec<Finding>> {
        let (mut found, mut numbers) = (Vec::new(), [0, 0]);
        let files: Vec<_> = rows::files(&self.spec)?.into_iter().map(Source::File).collect();
        self.find(&files, &mut |finding| {
            let number = &mut numbers[usize::from(finding.elsewhere)];
            *number += 1;
            if *number <= most {
                found.push(finding);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Hands over every row that cannot be used or counts nowhere.
    fn find(&self, sources: &[Source<'_>], each: &mut dyn FnMut(Finding) -> Result<()>) -> Result<()> {
        let columns = self.spec.columns();
        let parser = Parser::new(Arc::clone(&self.spec), Arc::new(PseudonymKey::new([0; 32])));
        let mut event = Event::default();
        for source in sources {
            source.read(&columns, &mut |row| {
                let bad = parser.parse(row, &mut event);
                let elsewhere = bad.is_none() && event.contributions.is_empty();
                if !elsewhere && bad.is_none() {
                    return Ok(());
                }
                let (file, message) = (source.path().to_owned(), bad.map_or(ELSEWHERE, BadRow::sentence));
                each(Finding {
                    mistake: Mistake { file, line: row.line, message: message.to_owned() },
                    elsewhere,
                })
            })?;
        }
        Ok(())
    }

    /// Refuses before the folder of a state is made what a first run would refuse after it: a budget that cannot be kept, and
    /// rows, where the description says to stop at one that cannot be used. A later run has a folder, and leaves it as it is.
    fn check_first(&self, sources: &[Source<'_>]) -> Result<()> {
        if self.spec.state.join("sealed").exists() {
            return Ok(());
        }
        self.planned()?;
        match self.spec.input.bad_rows {
            BadRows::Drop => Ok(()),
            BadRows::Refuse => self.find(sources, &mut |finding| {
                if finding.elsewhere { Ok(()) } else { Err(Error::Input(finding.mistake)) }
            }),
        }
    }

    /// The input files, with the columns that are asked for.
    fn files(&self) -> Result<Vec<InputFile>> {
        let files = rows::files(&self.spec)?;
        let columns = self.spec.columns();
        files.iter().try_for_each(|file| rows::check_columns(&file.path, &columns))?;
        Ok(files)
    }

    /// Reads rows, closes steps, saves and publishes.
    fn go_on(
        &self,
        folder: &Folder,
        running: Running,
        files: &[InputFile],
        until: i128,
        fresh: bool,
        gather: &mut dyn Gather,
    ) -> Result<Outcome> {
        let (outcome, running) = self.advance(Some(folder), running, files, until, fresh, gather)?;
        publish::publish(&self.spec, &running.header, running.releases.planned(), &running.archive)?;
        Ok(outcome)
    }

    /// Reads rows, closes steps and saves, where there is a folder.
    fn advance(
        &self,
        folder: Option<&Folder>,
        mut running: Running,
        files: &[InputFile],
        until: i128,
        fresh: bool,
        gather: &mut dyn Gather,
    ) -> Result<(Outcome, Running)> {
        let before = running.intake.open();
        let consumed_before = running.consumed.clone();
        let closed = self.spec.calendar.closed_at(until).max(before);
        gather.gather(Gathering {
            files,
            intake: &mut running.intake,
            consumed: &mut running.consumed,
            releases: &mut running.releases,
            archive: &mut running.archive,
            design: Design { from: running.header.from, fitted: running.header.fitted.clone() },
            closed,
            set: running.header.set,
            generation: running.header.generation,
        })?;
        while running.intake.open() < closed {
            let numbers = running.releases.close(&running.intake.close())?;
            running.archive.publish(vec![numbers]);
        }
        running.intake.forget();
        let outcome = Outcome { before, published: closed, steps: self.spec.calendar.steps() };
        let changed = outcome.published > before || running.consumed != consumed_before || fresh;
        if let (Some(folder), true) = (folder, changed) {
            running.header.generation += 1;
            gather.stage(running.header.generation)?;
            folder.write(&running.contents())?;
        }
        Ok((outcome, running))
    }

    fn start(
        &self,
        randomness: Randomness,
        mut ledger: Vec<Entry>,
        from: usize,
        processes: usize,
    ) -> Result<Running> {
        let planned = match from {
            0 => Arc::clone(self.planned()?),
            _ => plan::plan(&self.spec, from)?.into(),
        };
        let mut key = Zeroizing::new([0; 32]);
        state::random(&self.spec.state, key.as_mut_slice())?;
        ledger.extend(planned.iter().map(|planned| planned.spent().clone()));
        let fitted = planned.iter().map(|planned| planned.fitted().clone()).collect();
        let mut set = [0; 16];
        state::random(&self.spec.state, &mut set)?;
        let (identity, generation) = (self.spec.identity(), 0);
        let header = Header { identity, randomness, ledger, from, fitted, processes, set, generation };
        let share = Share::new(0, processes);
        let archive = Archive::new(&planned);
        let releases = Releases::new(planned, share, randomness)?;
        let parser = Parser::new(Arc::clone(&self.spec), Arc::new(PseudonymKey::new(*key)));
        let intake = Intake::of_share(parser, share);
        Ok(Running { header, releases, archive, intake, consumed: Consumed::default() })
    }

    fn resume(&self, contents: Contents, randomness: Randomness) -> Result<Running> {
        let differences = contents.header.identity.differences(&self.spec.identity());
        if !differences.is_empty() {
            return Err(Error::Changed {
                path: self.spec.state.clone(),
                differences: self.spec.placed(&differences),
                advice: format!(
                    "What has been promised cannot be changed silently: restore {}; or see what the change costs with `dp check`, \
                     and accept that with `dp run --accept-change`; or begin another dashboard, with a state of its own, \
                     for what is new",
                    self.spec.path.display()
                ),
            });
        }
        self.check_randomness(contents.header.randomness, randomness)?;
        let Contents { header, rest } = contents;
        let planned: Arc<[Planned]> = plan::plan_again(&self.spec, header.from, &header.fitted)?.into();
        let damaged = || Error::state(&self.spec.state, "its contents contradict each other");
        let mut rest = rest.as_slice();
        let share = Share::new(0, header.processes);
        let releases = Releases::resume(Arc::clone(&planned), share, &mut rest, randomness, damaged)?;
        let archive = Archive::restore(&planned, &mut rest).ok_or_else(damaged)?;
        let intake = Intake::decode(&self.spec, share, &mut rest).ok_or_else(damaged)?;
        let consumed = Consumed::decode(&mut rest).ok_or_else(damaged)?;
        if header.from + releases.step() != intake.open()
            || archive.step() != releases.step()
            || header.present().len() != self.spec.releases.len()
        {
            return Err(damaged());
        }
        Ok(Running { header, releases, archive, intake, consumed })
    }

    fn check_processes(&self, header: &Header, processes: usize) -> Result<()> {
        if header.processes == processes {
            return Ok(());
        }
        Err(Error::state(
            &self.spec.state,
            format!(
                "its people and keys are kept by {} processes, and this run has {processes}; start as many as before",
                header.processes
            ),
        ))
    }

    fn check_randomness(&self, saved: Randomness, asked: Randomness) -> Result<()> {
        let reason = match (saved, asked) {
            (saved, asked) if saved == asked => return Ok(()),
            (Randomness::System, Randomness::Reproducible(_)) => {
                "its noise is secret and cannot be continued with a reproducible seed"
            }
            (Randomness::Reproducible(_), Randomness::System) => {
                "its noise is reproducible and protects nobody; begin a new state for releases that are private"
            }
            _ => "it was made with another reproducible seed",
        };
        Err(Error::state(&self.spec.state, reason))
    }

    /// How many steps a state has published: the first number of its releases, and those before them.
    fn published_steps(&self, contents: &Contents) -> Result<usize> {
        let damaged = || Error::state(&self.spec.state, "its contents contradict each other");
        let steps = crate::people::take(&mut contents.rest.as_slice()).ok_or_else(damaged)?;
        let steps = usize::try_from(u64::from_le_bytes(steps)).map_err(|_| damaged())?;
        Ok(contents.header.from + steps)
    }

    /// Refuses changes after which old and new steps are not of one calendar or not about the same thing.
    fn check_change(&self, header: &Header, published: usize) -> Result<()> {
        let fixed = [
            "privacy.protects",
            "privacy.relation",
            "steps.length",
            "steps.zone",
            "steps.first",
            "input.person",
        ];
        let differences = header.identity.differences(&self.spec.identity());
        let refused: Vec<String> = differences
            .iter()
            .filter(|difference| fixed.iter().any(|name| difference.starts_with(&format!("{name} was "))))
            .cloned()
            .collect();
        let advice = if !refused.is_empty() {
            format!("This cannot be changed at all ({}): begin another dashboard", refused.join("; "))
        } else if published >= self.spec.calendar.steps() {
            format!(
                "{published} steps are published, and the description ends before: choose a later `steps.last`"
            )
        } else {
            return Ok(());
        };
        let differences = self.spec.placed(&differences);
        Err(Error::Changed { path: self.spec.state.clone(), differences, advice })
    }

    /// Moves what was published under the description so far to a folder of its own.
    fn set_aside(&self, published: usize) -> Result<()> {
        let folder = self.spec.output.join(format!("until-{published}"));
        let failed = |error| Error::file(&folder, error);
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let entries = std::fs::read_dir(&self.spec.output).map_err(failed)?;
        for entry in entries {
            let path: PathBuf = entry.map_err(failed)?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                // Copied, so that a run that is killed here changes nothing that is published.
                std::fs::copy(&path, folder.join(name)).map_err(failed)?;
            }
        }
        Ok(())
    }
}

impl Running {
    fn contents(&self) -> Contents {
        let mut rest = SecretBytes::default();
        self.releases.save(&mut rest);
        self.archive.save(&mut rest);
        self.intake.encode(&mut rest);
        self.consumed.encode(&mut rest);
        Contents { header: self.header.clone(), rest: rest.finish() }
    }
}
