//! A run of a mechanism from which releases become visible in groups, with or without a state on disk.

use std::fmt;

use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::mechanism::Mechanism;
use crate::noise::{HashKey, Seed};
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::state::StateFile;

/// A mechanism whose releases become visible only once they are durable: or, without a state, once they are committed.
///
/// Inputs are [staged](Self::stage) one by one and [committed](Self::commit) in groups, one disk synchronization
/// per group. The releases of the last group stay in the state until the next one replaces them; before staging
/// more, the receiver must have stored what it was given.
///
/// # Privacy
/// That of [`Mechanism`], through any number of crashes: a step is answered once, and shown again from the state rather than
/// computed again. See [`crate::state`] for what is kept of a state, and what is refused.
///
/// # Example
/// ```
/// use dp_mechanisms::{
///     Budget, Footprint, Method, Participation, Plan, Problem, Relation, Seed, Session, StateFile, Workload,
/// };
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("visits.state");
/// let strategy = Method::Blt.build(&Problem::new(Workload::count(), 365)?)?;
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let plan = Plan::new(strategy, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// let open = || Session::open(plan.clone(), Seed::from_system()?, Some(StateFile::open(&path, None)?));
/// let mut session = open()?;
/// session.stage(&[1.0])?;
/// let released = session.commit()?.clone();
/// drop(session); // Killed, perhaps, before anybody saw the release.
/// let session = open()?;
/// assert_eq!((session.step(), session.last_committed()), (1, &released));
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct Session {
    mechanism: Mechanism,
    file: Option<StateFile>,
    staged: Releases,
    committed: Releases,
    attachments: Vec<(String, Vec<u8>)>,
}

/// Consecutive releases.
#[derive(Clone, PartialEq, Default)]
pub struct Releases {
    /// Releases made up to and including the last of these.
    last_step: usize,
    dimension: usize,
    values: Vec<f64>,
}

impl Releases {
    fn none(dimension: usize, step: usize) -> Self {
        Self { last_step: step, dimension, values: Vec::new() }
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.dimension).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Each step, counted from 1, with its release.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[f64])> {
        let first = self.last_step + 1 - self.len();
        self.values.chunks_exact(self.dimension.max(1)).enumerate().map(move |(i, value)| (first + i, value))
    }
}

/// Says which steps; whether their values may be seen is not known here.
impl fmt::Debug for Releases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Releases")
            .field("steps", &self.len())
            .field("last_step", &self.last_step)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Resumes the state in the file, or starts a new one; without a file, starts.
    ///
    /// The seed is where randomness comes from, and a state that was begun with another origin is refused. A secret of the
    /// system makes all noise that no release has used yet ([`Mechanism::resume`]); a reproducible or shared seed must be that
    /// of the beginning.
    ///
    /// # Errors
    /// A saved state of another plan, dimension or origin, or one that cannot be read; what [`Mechanism::new`] refuses.
    pub fn open(plan: Plan, seed: Seed, file: Option<StateFile>) -> Result<Self> {
        let saved = match &file {
            Some(file) => file.read()?,
            None => None,
        };
        let Some(snapshot) = saved else {
            let mechanism = Mechanism::new(plan, seed)?;
            let none = Releases::none(mechanism.dimension(), 0);
            return Ok(Self {
                mechanism,
                file,
                staged: none.clone(),
                committed: none,
                attachments: Vec::new(),
            });
        };
        let mechanism = Mechanism::resume(plan, &snapshot, seed)?;
        let (dimension, step) = (mechanism.dimension(), mechanism.step());
        let committed = Releases { last_step: step, dimension, values: snapshot.releases().to_vec() };
        let attachments = snapshot.attachments().to_vec();
        Ok(Self { mechanism, file, staged: Releases::none(dimension, step), committed, attachments })
    }

    /// Takes the input of the next step. Its release stays hidden until [`Self::commit`].
    ///
    /// # Errors
    /// What [`Mechanism::release`] refuses; the steps staged before stay staged.
    pub fn stage(&mut self, input: &[f64]) -> Result<()> {
        let start = self.staged.values.len();
        self.staged.values.resize(start + self.mechanism.dimension(), 0.0);
        match self.mechanism.release(input, &mut self.staged.values[start..]) {
            Ok(step) => {
                self.staged.last_step = step;
                Ok(())
            }
            Err(error) => {
                self.staged.values.truncate(start);
                Err(error)
            }
        }
    }

    /// Keeps something beside the mechanism, sealed in the state from the next commit on.
    pub fn attach(&mut self, name: &str, mut contents: Vec<u8>) {
        match self.attachments.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => {
                std::mem::swap(old, &mut contents);
                contents.zeroize();
            }
            None => self.attachments.push((name.to_owned(), contents)),
        }
    }

    /// What was attached under a name.
    pub fn attachment(&self, name: &str) -> Option<&[u8]> {
        self.attachments.iter().find(|(known, _)| known == name).map(|(_, contents)| contents.as_slice())
    }

    /// Makes all staged steps durable, then shows their releases.
    ///
    /// The group committed before is dropped from the state: its receiver must have stored it by now.
    ///
    /// # Errors
    /// What [`StateFile::write`] refuses; everything stays staged and hidden, and committing may be tried again.
    pub fn commit(&mut self) -> Result<&Releases> {
        if let Some(file) = &self.file {
            file.write(&self.snapshot().with_releases(self.staged.values.clone())?)?;
        }
        std::mem::swap(&mut self.committed, &mut self.staged);
        self.staged.values.clear();
        self.staged.last_step = self.committed.last_step;
        Ok(&self.committed)
    }

    /// The releases of the last commit: after a crash the receiver may have seen all, some or none of them.
    pub fn last_committed(&self) -> &Releases {
        &self.committed
    }

    /// Keeps the run in a file from now on. What was released before counts as received.
    ///
    /// # Errors
    /// A file that holds a state already, a run that is kept elsewhere, staged steps, or what [`StateFile::write`] refuses; the
    /// run is then as before.
    pub fn keep(&mut self, file: StateFile) -> Result<()> {
        let refuse = |reason: &str| Err(Error::State { reason: reason.to_owned() });
        if self.file.is_some() {
            return refuse("this run is kept in a file already; a second copy would be a second live run");
        }
        if file.read()?.is_some() {
            return refuse("the file holds another run already; name a new one");
        }
        self.check_nothing_staged()?;
        file.write(&self.snapshot())?;
        self.file = Some(file);
        self.committed.values.clear();
        Ok(())
    }

    fn check_nothing_staged(&self) -> Result<()> {
        if self.staged.is_empty() {
            return Ok(());
        }
        Err(Error::State { reason: "staged steps must be committed first".to_owned() })
    }

    /// Notes durably that the receiver has stored every release, so that none is shown again after a resume.
    ///
    /// # Errors
    /// As [`Self::commit`]; refused while steps are staged, whose releases nobody has seen.
    pub fn acknowledge(&mut self) -> Result<()> {
        self.check_nothing_staged()?;
        if !self.committed.is_empty() {
            if let Some(file) = &self.file {
                file.write(&self.snapshot())?;
            }
            self.committed.values.clear();
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        let attach = |snapshot: Snapshot, (name, contents): &(String, Vec<u8>)| {
            snapshot.with_attachment(name, contents.clone())
        };
        self.attachments.iter().fold(self.mechanism.snapshot(), attach)
    }

    /// The number of releases that may be seen.
    pub fn step(&self) -> usize {
        self.committed.last_step
    }

    /// The secret of a keyed hash for one purpose; see [`Mechanism::hash_key`].
    pub fn hash_key(&self, purpose: &str) -> HashKey {
        self.mechanism.hash_key(purpose)
    }

    /// Whether there is a state on disk.
    pub fn is_durable(&self) -> bool {
        self.file.is_some()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.mechanism.plan()
    }
}

/// Neither staged releases nor anything secret leaves through a debug print.
impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("mechanism", &self.mechanism)
            .field("file", &self.file)
            .field("committed", &self.committed)
            .finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.staged.values.zeroize();
        for (_, contents) in &mut self.attachments {
            contents.zeroize();
        }
    }
}

#[cfg(test)]
mod tests;
