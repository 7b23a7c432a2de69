//! A live object and the state that it is kept in, if any: what is released becomes visible once the state has it.

use std::fmt;

use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::mechanism::Mechanism;
use crate::noise::{HashKey, Seed};
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::state::StateFile;

/// Something live whose state can be saved.
pub trait Save {
    /// Everything needed to continue later: a secret.
    fn snapshot(&self) -> Snapshot;
}

/// A live object, the file that keeps it if there is one, and what is kept beside it.
///
/// Over anything that can be [saved](Save), a session [begins](Self::begin) where the file stands and [saves](Self::save) before
/// others see what was released; when that is, is up to the caller. Over a mechanism, which is what it is unless told
/// otherwise, it keeps that order itself: releases become visible only once they are durable, or, without a file, once they are
/// committed. Inputs are [staged](Self::stage) one by one and [committed](Self::commit) in groups, one disk synchronization
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
///     Budget, Footprint, Participation, Plan, Problem, Relation, Seed, Session, StateFile, Workload,
/// };
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("visits.state");
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let year = Problem::new(Workload::count(), 365)?;
/// let plan = Plan::best(&year, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// let open = || Session::open(plan.clone(), Seed::from_system()?, Some(StateFile::open(&path, None)?));
/// let mut session = open()?;
/// session.stage(&[1.0])?;
/// let released = session.commit()?.clone();
/// drop(session); // Killed, perhaps, before anybody saw the release.
/// let session = open()?;
/// assert_eq!((session.step(), session.last_committed()), (1, &released));
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct Session<L = Staging> {
    live: L,
    file: Option<StateFile>,
    attachments: Vec<(String, Vec<u8>)>,
}

/// A mechanism and the releases that nobody has seen yet.
pub struct Staging {
    mechanism: Mechanism,
    staged: Releases,
    committed: Releases,
}

impl Save for Staging {
    fn snapshot(&self) -> Snapshot {
        self.mechanism.snapshot()
    }
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

impl<L: Save> Session<L> {
    /// Opens what the file holds, or begins anew; without a file, begins. `begin` makes the live object, from the
    /// snapshot where there is one.
    ///
    /// # Errors
    /// What [`StateFile::read`] refuses, or what `begin` does.
    pub fn begin<E: From<Error>>(
        file: Option<StateFile>,
        begin: impl FnOnce(Option<&Snapshot>) -> std::result::Result<L, E>,
    ) -> std::result::Result<Self, E> {
        let saved = file.as_ref().map(StateFile::read).transpose()?.flatten();
        let live = begin(saved.as_ref())?;
        let attachments = saved.map(|snapshot| snapshot.attachments().to_vec()).unwrap_or_default();
        Ok(Self { live, file, attachments })
    }

    /// The live object.
    pub fn live(&self) -> &L {
        &self.live
    }

    /// The live object, to be moved forward. What it releases may be seen after [`Self::save`].
    pub fn live_mut(&mut self) -> &mut L {
        &mut self.live
    }

    /// Makes the state durable, where there is a file.
    ///
    /// # Errors
    /// What [`StateFile::write`] refuses; saving may be tried again.
    pub fn save(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.write(&self.snapshot()))
    }

    /// What the live object attaches by itself stays as it is now.
    fn snapshot(&self) -> Snapshot {
        let own = self.live.snapshot();
        let beside: Vec<_> =
            self.attachments.iter().filter(|(name, _)| own.attachment(name).is_none()).collect();
        beside.into_iter().fold(own, |all, (name, contents)| all.with_attachment(name, contents.clone()))
    }

    /// Keeps something beside the live object, sealed in the state from the next write on.
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

    /// Whether there is a state on disk.
    pub fn is_durable(&self) -> bool {
        self.file.is_some()
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
        Self::begin(file, |saved| {
            let mechanism = match saved {
                None => Mechanism::new(plan, seed)?,
                Some(snapshot) => Mechanism::resume(plan, snapshot, seed)?,
            };
            let none = Releases::none(mechanism.dimension(), mechanism.step());
            let values = saved.map(|snapshot| snapshot.releases().to_vec()).unwrap_or_default();
            Ok(Staging { mechanism, committed: Releases { values, ..none.clone() }, staged: none })
        })
    }

    /// Takes the input of the next step. Its release stays hidden until [`Self::commit`].
    ///
    /// # Errors
    /// What [`Mechanism::release`] refuses; the steps staged before stay staged.
    pub fn stage(&mut self, input: &[f64]) -> Result<()> {
        let Staging { mechanism, staged, .. } = &mut self.live;
        let start = staged.values.len();
        staged.values.resize(start + mechanism.dimension(), 0.0);
        match mechanism.release(input, &mut staged.values[start..]) {
            Ok(step) => {
                staged.last_step = step;
                Ok(())
            }
            Err(error) => {
                staged.values.truncate(start);
                Err(error)
            }
        }
    }

    /// Makes all staged steps durable, then shows their releases.
    ///
    /// The group committed before is dropped from the state: its receiver must have stored it by now.
    ///
    /// # Errors
    /// What [`StateFile::write`] refuses; everything stays staged and hidden, and committing may be tried again.
    pub fn commit(&mut self) -> Result<&Releases> {
        if let Some(file) = &self.file {
            file.write(&self.snapshot().with_releases(self.live.staged.values.clone())?)?;
        }
        let Staging { staged, committed, .. } = &mut self.live;
        std::mem::swap(committed, staged);
        staged.values.clear();
        staged.last_step = committed.last_step;
        Ok(committed)
    }

    /// The releases of the last commit: after a crash the receiver may have seen all, some or none of them.
    pub fn last_committed(&self) -> &Releases {
        &self.live.committed
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
        self.live.committed.values.clear();
        Ok(())
    }

    fn check_nothing_staged(&self) -> Result<()> {
        if self.live.staged.is_empty() {
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
        if !self.live.committed.is_empty() {
            self.save()?;
            self.live.committed.values.clear();
        }
        Ok(())
    }

    /// The number of releases that may be seen.
    pub fn step(&self) -> usize {
        self.live.committed.last_step
    }

    /// The secret of a keyed hash for one purpose; see [`Mechanism::hash_key`].
    pub fn hash_key(&self, purpose: &str) -> HashKey {
        self.live.mechanism.hash_key(purpose)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.live.mechanism.plan()
    }
}

/// Neither staged releases nor anything secret leaves through a debug print.
impl fmt::Debug for Staging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Staging")
            .field("mechanism", &self.mechanism)
            .field("committed", &self.committed)
            .finish_non_exhaustive()
    }
}

impl<L: fmt::Debug> fmt::Debug for Session<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("live", &self.live)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.staged.values.zeroize();
    }
}

impl<L> Drop for Session<L> {
    fn drop(&mut self) {
        for (_, contents) in &mut self.attachments {
            contents.zeroize();
        }
    }
}

#[cfg(test)]
mod tests;
