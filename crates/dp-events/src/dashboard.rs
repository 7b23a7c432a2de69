//! A run: rows in, steps closed by the clock, numbers published.

use dp_mechanisms::{Mechanism, Seed};
use zeroize::{Zeroize, Zeroizing};

use crate::consumed::Consumed;
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::intake::Intake;
use crate::ledger::Entry;
use crate::people::HashKey;
use crate::plan::{self, Planned};
use crate::publish;
use crate::rows;
use crate::spec::Spec;
use crate::state::{self, Contents, Folder, Header, Kept, Randomness};
use crate::statistics::{Number, Statistics};

/// A dashboard: its description, and the plan that follows from it.
pub struct Dashboard {
    spec: Spec,
    planned: Vec<Planned>,
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

/// A row that cannot be used, for whoever may see the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where it is, and what is wrong with it. Nothing of its contents.
    pub mistake: crate::Mistake,
}

impl Dashboard {
    /// Plans a description.
    ///
    /// # Errors
    /// What calibration refuses.
    pub fn new(spec: Spec) -> Result<Self> {
        let planned = plan::plan(&spec)?;
        Ok(Self { spec, planned })
    }

    /// The description.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The releases as they are planned.
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// Reads what is new, closes every step that is over at an instant (in nanoseconds since 1970), and publishes.
    ///
    /// # Privacy
    /// The number, times and names of what is published depend on the description and the clock alone. A new state is sealed
    /// before any of it is published, and what is published is a function of the sealed state.
    ///
    /// # Errors
    /// Files that cannot be read, a past that changed, a state of another description; nothing is then published, and the
    /// state is as before.
    pub fn run(&self, until: i128, randomness: Randomness) -> Result<Outcome> {
        // Everything that can be refused without the state is refused before it is made.
        let columns = self.spec.columns();
        let files = rows::files(&self.spec)?;
        let encodings: Vec<Encoding> = self.planned.iter().map(|planned| planned.encoding.clone()).collect();
        let fresh = !self.spec.state.join("key").exists();
        if fresh {
            for file in &files {
                rows::check_columns(&file.path, &columns)?;
            }
        }
        let mut folder = Folder::open(&self.spec.state)?;
        let saved = folder.read()?;
        let (mut contents, mut intake, mut consumed) = match saved {
            Some(contents) => self.resume(contents, &encodings, randomness)?,
            None => self.start(&encodings, randomness)?,
        };
        let before = intake.open();
        let consumed_before = consumed.clone();
        for file in &files {
            let key = HashKey::new(*intake.key().expose());
            let length = rows::length(&file.path)?;
            let mut reading = consumed.begin(&file.name, &file.path, columns.len(), &key);
            rows::read(&file.path, &columns, &mut |row| {
                if reading.is_new(row)? { intake.push(row, &file.path) } else { Ok(()) }
            })?;
            let record = reading.finish(rows::end(&file.path, length))?;
            consumed.end(&file.name, record);
        }
        let closed = self.spec.calendar.closed_at(until).max(before);
        let mut steps: Vec<Vec<Vec<i64>>> = Vec::new();
        while intake.open() < closed {
            steps.push(intake.close());
        }
        intake.forget();
        for (index, (planned, kept)) in self.planned.iter().zip(&mut contents.releases).enumerate() {
            let new = steps.iter().map(|cells| cells[index].as_slice());
            advance(planned, kept, new).map_err(|error| error.of(planned, &self.spec))?;
        }
        let outcome = Outcome { before, published: closed, steps: self.spec.calendar.steps() };
        if outcome.published > before || consumed != consumed_before || folder.is_new() {
            contents.rest = rest(&intake, &consumed);
            folder.write(&contents)?;
        }
        let numbers: Vec<&[Number]> = contents.releases.iter().map(|kept| kept.numbers.as_slice()).collect();
        publish::publish(&self.spec, &self.planned, &contents.header, closed, &numbers)?;
        Ok(outcome)
    }

    /// Reads all rows and says which cannot be used, for whoever may see the data. Nothing is written.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn examine(&self, most: usize) -> Result<Vec<Finding>> {
        let columns = self.spec.columns();
        let encodings: Vec<Encoding> = self.planned.iter().map(|planned| planned.encoding.clone()).collect();
        let mut intake = Intake::new(&self.spec, &encodings, HashKey::new([0; 32]));
        let mut found = Vec::new();
        for file in rows::files(&self.spec)? {
            rows::read(&file.path, &columns, &mut |row| {
                if let Some(bad) = intake.take(row)
                    && found.len() < most
                {
                    let (file, message) = (file.path.clone(), bad.sentence().to_owned());
                    found.push(Finding { mistake: crate::Mistake { file, line: row.line, message } });
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    fn start<'a>(
        &'a self,
        encodings: &'a [Encoding],
        randomness: Randomness,
    ) -> Result<(Contents, Intake<'a>, Consumed)> {
        let mut key = Zeroizing::new([0; 32]);
        state::random(&self.spec.state, key.as_mut_slice())?;
        let mut releases = Vec::new();
        for (index, _) in self.planned.iter().enumerate() {
            let mut seed = [0; 32];
            match randomness {
                Randomness::System => state::random(&self.spec.state, &mut seed)?,
                Randomness::Reproducible(number) => {
                    let mut hasher =
                        blake3::Hasher::new_derive_key("dp-events reproducible noise of a release");
                    hasher.update(&number.to_le_bytes()).update(&(index as u64).to_le_bytes());
                    seed = *hasher.finalize().as_bytes();
                }
            }
            releases.push(Kept { seed, cells: Vec::new(), witness: [0; 32], numbers: Vec::new() });
        }
        let ledger = self.planned.iter().map(|planned| Entry {
            release: planned.name.clone(),
            steps: planned.plan.steps(),
            strategy: planned.strategy().to_owned(),
            rho: planned.rho(),
            slack: planned.slack(),
        });
        let header = Header { identity: self.spec.identity(), randomness, ledger: ledger.collect() };
        let intake = Intake::new(&self.spec, encodings, HashKey::new(*key));
        Ok((Contents { header, releases, rest: Zeroizing::default() }, intake, Consumed::default()))
    }

    fn resume<'a>(
        &'a self,
        contents: Contents,
        encodings: &'a [Encoding],
        randomness: Randomness,
    ) -> Result<(Contents, Intake<'a>, Consumed)> {
        let refuse = |reason: String| Error::state(&self.spec.state, reason);
        let differences = contents.header.identity.differences(&self.spec.identity());
        if !differences.is_empty() {
            return Err(refuse(format!(
                "it was made for another description: {}. What has been promised cannot be changed afterwards; restore \
                 {}, or begin a new dashboard with a budget and a state folder of its own",
                differences.join("; "),
                self.spec.path.display()
            )));
        }
        match (contents.header.randomness, randomness) {
            (saved, asked) if saved == asked => {}
            (Randomness::System, Randomness::Reproducible(_)) => {
                return Err(refuse(
                    "its noise is secret and cannot be continued with a reproducible seed".to_owned(),
                ));
            }
            (Randomness::Reproducible(_), Randomness::System) => {
                return Err(refuse(
                    "its noise is reproducible and protects nobody; begin a new state for releases that are private"
                        .to_owned(),
                ));
            }
            _ => return Err(refuse("it was made with another reproducible seed".to_owned())),
        }
        let damaged = || refuse("its contents contradict each other".to_owned());
        let mut rest = contents.rest.as_slice();
        let intake = Intake::decode(&self.spec, encodings, &mut rest).ok_or_else(damaged)?;
        let consumed = Consumed::decode(&mut rest).ok_or_else(damaged)?;
        let fits = contents.releases.iter().zip(&self.planned).all(|(kept, planned)| {
            kept.cells.len() == intake.open() * planned.dimension()
                && kept.numbers.len() == intake.open() * planned.keys * planned.statistics.len()
        });
        if !fits || contents.releases.len() != self.planned.len() {
            return Err(damaged());
        }
        Ok((contents, intake, consumed))
    }
}

fn rest(intake: &Intake<'_>, consumed: &Consumed) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::new());
    intake.encode(&mut bytes);
    consumed.encode(&mut bytes);
    bytes
}

/// What can go wrong while a release goes on.
enum Failed {
    Mechanism(dp_mechanisms::Error),
    Witness,
}

impl From<dp_mechanisms::Error> for Failed {
    fn from(error: dp_mechanisms::Error) -> Self {
        Self::Mechanism(error)
    }
}

impl Failed {
    fn of(self, planned: &Planned, spec: &Spec) -> Error {
        match self {
            Self::Mechanism(source) => Error::Mechanism { release: planned.name.clone(), source },
            Self::Witness => Error::state(
                &spec.state,
                format!(
                    "the noise of release `{}` does not come out the same here; continue with the program and on the kind \
                     of machine that began it",
                    planned.name
                ),
            ),
        }
    }
}

/// Takes a release through new steps: the past is made again from the seed and checked, the new is appended.
fn advance<'a>(
    planned: &Planned,
    kept: &mut Kept,
    new: impl Iterator<Item = &'a [i64]>,
) -> std::result::Result<(), Failed> {
    let mut new = new.peekable();
    if new.peek().is_none() {
        return Ok(());
    }
    let dimension = planned.dimension();
    let mut mechanism = Mechanism::new(planned.plan.clone(), Seed::shared(kept.seed))?;
    let mut statistics = Statistics::new(planned)?;
    let (mut input, mut noisy) = (vec![0.0; dimension], vec![0.0; dimension]);
    let mut discarded = Vec::new();
    for cells in kept.cells.chunks_exact(dimension) {
        fill(&mut input, cells);
        mechanism.release(&input, &mut noisy)?;
        discarded.clear();
        statistics.push(planned, &noisy, &mut discarded)?;
    }
    if !kept.cells.is_empty() && witness(&noisy) != kept.witness {
        return Err(Failed::Witness);
    }
    for cells in new {
        fill(&mut input, cells);
        mechanism.release(&input, &mut noisy)?;
        statistics.push(planned, &noisy, &mut kept.numbers)?;
        kept.cells.extend_from_slice(cells);
    }
    input.zeroize();
    kept.witness = witness(&noisy);
    Ok(())
}

/// Cells as the mechanism takes them; all of them are far below what a double holds exactly.
fn fill(input: &mut [f64], cells: &[i64]) {
    input.iter_mut().zip(cells).for_each(|(input, cell)| *input = *cell as f64);
}

/// A hash of the latest noisy cells, which are public like everything that is made of them.
fn witness(noisy: &[f64]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    noisy.iter().for_each(|value| {
        hasher.update(&value.to_bits().to_le_bytes());
    });
    *hasher.finalize().as_bytes()
}
