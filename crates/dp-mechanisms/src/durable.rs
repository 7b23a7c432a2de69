//! A mechanism that survives crashes: its state is sealed on disk before any release becomes visible.
//!
//! # The rule
//! A release may be seen only after the state that contains it is durable. A process that is killed at any point
//! then resumes in one of two ways: the state does not have the step yet (nobody has seen it: it is made now), or
//! it does (it is shown again from the state, never computed again from data that may have changed).
//!
//! # The file
//! `magic · version · plan identity · length · nonce · XChaCha20-Poly1305(snapshot)`. The public part in front is
//! authenticated with the rest. The key lives in a file of its own, readable by its owner only, so that neither
//! the seed nor the true statistic ever reaches the disk in clear. Files are replaced atomically: written beside,
//! synced, renamed, directory synced.
//!
//! Sealing cannot detect an old but intact state put back in place of the current one. Never restore a state from
//! a backup and continue with other data: the noise of both continuations would be the same.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::mechanism::{Mechanism, Release};
use crate::noise::Seed;
use crate::snapshot::Snapshot;

const MAGIC: &[u8; 8] = b"DPSTREAM";
/// The version of the file format; a file of another version is refused.
pub const VERSION: u32 = 2;
const NONCE: usize = 24;
const TAG: usize = 16;

/// The sealed state of one mechanism on disk, locked against every other process while this value lives.
pub struct StateFile {
    path: PathBuf,
    key: Zeroizing<[u8; 32]>,
    /// Holds the lock. The state file itself is replaced at every write, so it cannot carry one.
    _lock: File,
}

impl StateFile {
    /// Locks the state at `path` and reads its key, by default from `path` with `.key` appended. A key is made,
    /// for its owner's eyes only, if there is neither key nor state yet.
    ///
    /// # Errors
    /// [`Error::State`]: another process holds the state, the key is missing, malformed or readable by others, or
    /// the file system refuses.
    pub fn open(path: &Path, key: Option<&Path>) -> Result<Self> {
        let lock = lock(&beside(path, ".lock"))?;
        let default = beside(path, ".key");
        let key = key.unwrap_or(&default);
        let key = match read_key(key)? {
            Some(key) => key,
            None if path.exists() => {
                return Err(refuse(
                    key,
                    "the key of this state is missing; give the file it was sealed with",
                ));
            }
            None => make_key(key)?,
        };
        Ok(Self { path: path.to_owned(), key, _lock: lock })
    }

    /// The saved snapshot, if there is one.
    ///
    /// # Errors
    /// [`Error::State`] with a reason of its own for: not a state file, another version, truncated or extended,
    /// damaged or sealed with another key.
    pub fn read(&self) -> Result<Option<Snapshot>> {
        match fs::read(&self.path) {
            Ok(bytes) => open_sealed(&self.key, &bytes).map(Some).map_err(|error| match error {
                Error::State { reason } => refuse(&self.path, &reason),
                other => other,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refuse(&self.path, &error.to_string())),
        }
    }

    /// Replaces the saved snapshot. When this returns, the new one survives a crash; if it fails, the old one does.
    ///
    /// # Errors
    /// [`Error::State`] when the file system refuses, [`Error::Entropy`] without system randomness.
    pub fn write(&self, snapshot: &Snapshot) -> Result<()> {
        let bytes = seal(&self.key, snapshot)?;
        let temporary = beside(&self.path, ".new");
        let replace = || -> std::io::Result<()> {
            remove_leftover(&temporary)?;
            let mut file = owner_only().open(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            sync_directory(&self.path)
        };
        replace().map_err(|error| refuse(&self.path, &error.to_string()))
    }
}

impl std::fmt::Debug for StateFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StateFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A mechanism that can be saved between two steps and continued with the very same noise.
pub trait Resumable: Sized {
    /// What it is made from.
    type Plan;

    /// A mechanism before its first step, whose noise is a function of the seed.
    ///
    /// # Errors
    /// What the mechanism's constructor refuses.
    fn start(plan: Self::Plan, dimension: usize, seed: Seed) -> Result<Self>;

    /// The mechanism as it was when the snapshot was taken.
    ///
    /// # Errors
    /// A snapshot of another plan, or one whose contents do not fit the plan.
    fn resume(plan: Self::Plan, snapshot: &Snapshot) -> Result<Self>;

    /// Everything needed to continue later.
    fn snapshot(&self) -> Snapshot;

    /// Takes the input of the next step and writes the release after it.
    ///
    /// # Errors
    /// What the mechanism refuses, and then it is as before.
    fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release>;

    /// The plan.
    fn plan(&self) -> &Self::Plan;

    /// The number of coordinates of an input.
    fn dimension(&self) -> usize;

    /// The number of releases made so far.
    fn step(&self) -> usize;
}

/// A mechanism whose releases become visible only once they are durable.
///
/// Inputs are [staged](Self::stage) one by one and [committed](Self::commit) in groups, one disk synchronization
/// per group. The releases of the last group stay in the state until the next one replaces them; before staging
/// more, the receiver must have stored what it was given.
pub struct DurableMechanism<M = Mechanism> {
    mechanism: M,
    file: StateFile,
    staged: Releases,
    committed: Releases,
    attachment: Zeroizing<Vec<u8>>,
}

/// Staged releases are nobody's to see, and what is attached is a secret.
impl<M: std::fmt::Debug> std::fmt::Debug for DurableMechanism<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DurableMechanism")
            .field("mechanism", &self.mechanism)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Consecutive releases.
#[derive(Debug, Clone, PartialEq, Default)]
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

impl<M: Resumable> DurableMechanism<M> {
    /// Resumes the saved state, or starts a new one with secret noise from the operating system.
    ///
    /// # Errors
    /// A saved state of another plan or dimension or one that cannot be read; what [`Resumable::start`] refuses.
    pub fn open(plan: M::Plan, dimension: usize, file: StateFile) -> Result<Self> {
        Self::open_or(plan, dimension, file, Seed::from_system)
    }

    /// As [`Self::open`], but a new state starts with a given seed: **not private**, for tests and demonstrations.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_reproducible(plan: M::Plan, dimension: usize, file: StateFile, seed: Seed) -> Result<Self> {
        Self::open_or(plan, dimension, file, || Ok(seed))
    }

    fn open_or(
        plan: M::Plan,
        dimension: usize,
        file: StateFile,
        seed: impl FnOnce() -> Result<Seed>,
    ) -> Result<Self> {
        let Some(snapshot) = file.read()? else {
            let mechanism = M::start(plan, dimension, seed()?)?;
            let none = Releases::none(dimension, 0);
            let attachment = Zeroizing::default();
            return Ok(Self { mechanism, file, staged: none.clone(), committed: none, attachment });
        };
        if snapshot.dimension() != dimension {
            return Err(Error::Dimension {
                what: "the saved state",
                expected: dimension,
                actual: snapshot.dimension(),
            });
        }
        let step = snapshot.step();
        let mechanism = M::resume(plan, &snapshot)?;
        let committed = Releases { last_step: step, dimension, values: snapshot.releases().to_vec() };
        let attachment = Zeroizing::new(snapshot.attachment().to_vec());
        Ok(Self { mechanism, file, staged: Releases::none(dimension, step), committed, attachment })
    }

    /// What was attached to the saved state, nothing otherwise: a secret like the rest.
    pub fn attachment(&self) -> &[u8] {
        &self.attachment
    }

    /// Saves these bytes, sealed, with every state from the next [`Self::commit`] on: what the caller needs to continue.
    pub fn attach(&mut self, bytes: Vec<u8>) {
        self.attachment = Zeroizing::new(bytes);
    }

    /// Takes the input of the next step. Its release stays hidden until [`Self::commit`].
    ///
    /// # Errors
    /// What [`Resumable::release`] refuses; the steps staged before stay staged.
    pub fn stage(&mut self, input: &[f64]) -> Result<()> {
        let dimension = self.mechanism.dimension();
        let start = self.staged.values.len();
        self.staged.values.resize(start + dimension, 0.0);
        match self.mechanism.release(input, &mut self.staged.values[start..]) {
            Ok(release) => {
                self.staged.last_step = release.step;
                Ok(())
            }
            Err(error) => {
                self.staged.values.truncate(start);
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
        let snapshot = self.mechanism.snapshot().with_releases(self.staged.values.clone())?;
        self.file.write(&snapshot.with_attachment(self.attachment.to_vec()))?;
        std::mem::swap(&mut self.committed, &mut self.staged);
        self.staged.values.clear();
        self.staged.last_step = self.committed.last_step;
        Ok(&self.committed)
    }

    /// The releases of the last commit: after a crash the receiver may have seen all, some or none of them.
    pub fn last_committed(&self) -> &Releases {
        &self.committed
    }

    /// Notes durably that the receiver has stored every release, so that none is shown again after a resume.
    ///
    /// # Errors
    /// As [`Self::commit`]; refused while steps are staged, whose releases nobody has seen.
    pub fn acknowledge(&mut self) -> Result<()> {
        if !self.staged.is_empty() {
            return Err(Error::State { reason: "staged steps must be committed first".to_owned() });
        }
        if !self.committed.is_empty() {
            self.file.write(&self.mechanism.snapshot().with_attachment(self.attachment.to_vec()))?;
            self.committed.values.clear();
        }
        Ok(())
    }

    /// The number of releases that are durable.
    pub fn step(&self) -> usize {
        self.committed.last_step
    }

    /// The plan.
    pub fn plan(&self) -> &M::Plan {
        self.mechanism.plan()
    }
}

/// Seals a snapshot.
fn seal(key: &[u8; 32], snapshot: &Snapshot) -> Result<Vec<u8>> {
    let mut body = snapshot.encode();
    let identity = snapshot.identity().as_bytes();
    let mut nonce = [0; NONCE];
    system_bytes(&mut nonce)?;
    let mut sealed = Vec::with_capacity(MAGIC.len() + 20 + identity.len() + NONCE + body.len() + TAG);
    sealed.extend_from_slice(MAGIC);
    sealed.extend_from_slice(&VERSION.to_le_bytes());
    sealed.extend_from_slice(&(identity.len() as u64).to_le_bytes());
    sealed.extend_from_slice(&(body.len() as u64).to_le_bytes());
    sealed.extend_from_slice(identity);
    let tag = XChaCha20Poly1305::new(key.into())
        .encrypt_in_place_detached(XNonce::from_slice(&nonce), &sealed, &mut body)
        .map_err(|_| Error::State { reason: "it is too large to be sealed".to_owned() })?;
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&body);
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

/// Opens what [`seal`] made.
fn open_sealed(key: &[u8; 32], bytes: &[u8]) -> Result<Snapshot> {
    let state = |reason: String| Error::State { reason };
    let cut = || state(format!("it is truncated: {} bytes are left", bytes.len()));
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
    if magic != MAGIC {
        return Err(state("it is not a state file".to_owned()));
    }
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(state(format!("it has format version {version}; this program reads version {VERSION}")));
    }
    let (identity_length, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    let (body_length, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    let lengths = [identity_length, body_length].map(|bytes| u64::from_le_bytes(*bytes));
    let expected = lengths[0].checked_add(lengths[1]).and_then(|sum| sum.checked_add((NONCE + TAG) as u64));
    if expected != Some(rest.len() as u64) {
        return Err(state(format!(
            "it is truncated or extended: {} bytes follow the header, which speaks of {} + {} + {}",
            rest.len(),
            lengths[0],
            lengths[1],
            NONCE + TAG
        )));
    }
    // Both lengths are below rest.len(), so they fit a usize.
    let (identity, rest) = rest.split_at(lengths[0] as usize);
    let (nonce, rest) = rest.split_at(NONCE);
    let (body, tag) = rest.split_at(rest.len() - TAG);
    let header = &bytes[..MAGIC.len() + 20 + identity.len()];
    let mut body = Zeroizing::new(body.to_vec());
    XChaCha20Poly1305::new(key.into())
        .decrypt_in_place_detached(XNonce::from_slice(nonce), header, &mut body, tag.into())
        .map_err(|_| {
            state("its seal is broken: the file is damaged, or it was sealed with another key".to_owned())
        })?;
    let identity = String::from_utf8(identity.to_vec())
        .map_err(|_| state("its plan identity is not text".to_owned()))?;
    Snapshot::decode(identity, &body)
}

fn system_bytes(bytes: &mut [u8]) -> Result<()> {
    use rand::TryRng;
    rand::rngs::SysRng.try_fill_bytes(bytes).map_err(|error| Error::Entropy { reason: error.to_string() })
}

/// The path with something appended to its file name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn refuse(path: &Path, reason: &str) -> Error {
    Error::State { reason: format!("{}: {reason}", path.display()) }
}

/// Options that create a new file that only its owner may read, and nothing else.
fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a rename, or a new file, in the directory of `path` durable.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    // Elsewhere a directory cannot be opened as a file, and renames are durable without it.
    #[cfg(unix)]
    {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Removes what a crash left behind; the lock says that nobody is writing it now.
fn remove_leftover(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn lock(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| refuse(path, &error.to_string()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refuse(
            path,
            "another process is using this state; wait for it to end, or use another state file",
        )),
        Err(TryLockError::Error(error)) => Err(refuse(path, &error.to_string())),
    }
}

fn read_key(path: &Path) -> Result<Option<Zeroizing<[u8; 32]>>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refuse(path, &error.to_string())),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let metadata = file.metadata().map_err(|error| refuse(path, &error.to_string()))?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(refuse(path, "the key can be read by others than its owner; run chmod 600 on it"));
        }
    }
    let mut key = Zeroizing::new([0; 32]);
    let mut more = [0];
    let exact = file.read_exact(key.as_mut()).is_ok() && matches!(file.read(&mut more), Ok(0));
    if exact {
        Ok(Some(key))
    } else {
        Err(refuse(path, "a key has exactly 32 bytes; give the file the state was sealed with"))
    }
}

fn make_key(path: &Path) -> Result<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    system_bytes(key.as_mut())?;
    let temporary = beside(path, ".new");
    let write = || -> std::io::Result<()> {
        remove_leftover(&temporary)?;
        let mut file = owner_only().open(&temporary)?;
        file.write_all(key.as_ref())?;
        file.sync_all()?;
        // Unlike a rename, a link never replaces a key that somebody else made in the meantime.
        fs::hard_link(&temporary, path)?;
        fs::remove_file(&temporary)?;
        sync_directory(path)
    };
    write().map_err(|error| refuse(path, &error.to_string()))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::tests::plan as make_plan;
    use crate::plan::Plan;

    fn plan(steps: usize) -> Plan {
        make_plan("identity", "count", steps).unwrap()
    }

    fn open(directory: &Path) -> DurableMechanism {
        let file = StateFile::open(&directory.join("state"), None).unwrap();
        DurableMechanism::<Mechanism>::open(plan(6), 2, file).unwrap()
    }

    fn reason(result: Result<Option<Snapshot>>) -> String {
        match result {
            Err(Error::State { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn resumes_with_the_releases_that_were_not_acknowledged() {
        let directory = tempfile::tempdir().unwrap();
        let mut mechanism = open(directory.path());
        assert!(mechanism.last_committed().is_empty());
        mechanism.stage(&[1.0, 0.5]).unwrap();
        mechanism.stage(&[0.0, 0.5]).unwrap();
        assert_eq!(mechanism.step(), 0, "nothing is visible before it is durable");
        let first = mechanism.commit().unwrap().clone();
        assert_eq!(first.iter().map(|(step, _)| step).collect::<Vec<_>>(), [1, 2]);
        // Killed with a step staged: nobody has seen it, so it never happened.
        mechanism.stage(&[1.0, 1.0]).unwrap();
        drop(mechanism);
        let mut mechanism = open(directory.path());
        assert_eq!(mechanism.step(), 2);
        assert_eq!(*mechanism.last_committed(), first);
        assert!(mechanism.stage(&[f64::NAN, 0.0]).is_err());
        mechanism.stage(&[1.0, 1.0]).unwrap();
        assert!(mechanism.acknowledge().is_err());
        let second = mechanism.commit().unwrap().clone();
        assert_eq!(second.iter().map(|(step, _)| step).collect::<Vec<_>>(), [3]);
        mechanism.acknowledge().unwrap();
        drop(mechanism);
        let mechanism = open(directory.path());
        assert!(mechanism.last_committed().is_empty() && mechanism.step() == 3);
    }

    #[test]
    fn interrupted_runs_release_what_an_uninterrupted_one_does() {
        let run = |group: usize| {
            let directory = tempfile::tempdir().unwrap();
            let mut seen: Vec<Vec<f64>> = Vec::new();
            while seen.len() < 6 {
                let file = StateFile::open(&directory.path().join("state"), None).unwrap();
                let seed = Seed::reproducible(4);
                let mut mechanism =
                    DurableMechanism::<Mechanism>::open_reproducible(plan(6), 2, file, seed).unwrap();
                for t in mechanism.step()..(mechanism.step() + group).min(6) {
                    mechanism.stage(&[t as f64 / 6.0, 1.0]).unwrap();
                }
                seen.extend(mechanism.commit().unwrap().iter().map(|(_, release)| release.to_vec()));
            }
            seen
        };
        assert_eq!(run(1), run(6));
        assert_eq!(run(4), run(6));
    }

    #[test]
    fn damage_at_any_byte_and_any_truncation_is_refused() {
        let mut mechanism = Mechanism::new(plan(6), 2).unwrap();
        let mut release = [0.0; 2];
        mechanism.release(&[1.0, -1.0], &mut release).unwrap();
        let snapshot = mechanism.snapshot().with_releases(release.to_vec()).unwrap();
        let key = [7; 32];
        let sealed = seal(&key, &snapshot).unwrap();
        let opened = open_sealed(&key, &sealed).unwrap();
        assert_eq!(opened.releases(), release);
        assert_eq!(opened.statistic(), snapshot.statistic());
        assert_eq!(opened.seed().expose(), snapshot.seed().expose());
        let refused = |bytes: &[u8]| matches!(open_sealed(&key, bytes), Err(Error::State { .. }));
        for index in 0..sealed.len() {
            let mut damaged = sealed.clone();
            for bit in 0..8 {
                damaged[index] ^= 1 << bit;
                assert!(refused(&damaged), "byte {index}, bit {bit}");
                damaged[index] ^= 1 << bit;
            }
            assert!(refused(&sealed[..index]), "truncated to {index}");
        }
        let mut extended = sealed.clone();
        extended.push(0);
        assert!(refused(&extended));
        // Nothing secret stands in the file as it is.
        let secret = snapshot.seed().expose();
        assert!(!sealed.windows(8).any(|window| secret.windows(8).any(|part| part == window)));
        let value = snapshot.statistic()[0].to_le_bytes();
        assert!(!sealed.windows(8).any(|window| window == value));
    }

    #[test]
    fn every_refusal_has_a_reason_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let mut mechanism = open(directory.path());
        mechanism.stage(&[0.0, 0.0]).unwrap();
        mechanism.commit().unwrap();
        drop(mechanism);
        let intact = fs::read(&path).unwrap();
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = intact.clone();
            change(&mut bytes);
            fs::write(&path, bytes).unwrap();
            reason(StateFile::open(&path, None).unwrap().read())
        };
        let reasons = [
            with(&|bytes| bytes[0] ^= 1),
            with(&|bytes| bytes[8] = 9),
            with(&|bytes| bytes.truncate(100)),
            with(&|bytes| {
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
            }),
        ];
        for (reason, expected) in
            reasons.iter().zip(["not a state file", "version 9", "truncated or extended", "seal is broken"])
        {
            assert!(reason.contains(expected), "{reason}");
        }
        fs::write(&path, &intact).unwrap();
        let file = StateFile::open(&path, None).unwrap();
        let other = DurableMechanism::<Mechanism>::open(plan(7), 2, file).unwrap_err();
        assert!(other.to_string().contains("another plan"), "{other}");
        let file = StateFile::open(&path, None).unwrap();
        assert!(matches!(
            DurableMechanism::<Mechanism>::open(plan(6), 3, file),
            Err(Error::Dimension { .. })
        ));
        // Another key, a missing key, a short key.
        let other_key = directory.path().join("other.key");
        make_key(&other_key).unwrap();
        let broken = reason(StateFile::open(&path, Some(&other_key)).unwrap().read());
        assert!(broken.contains("another key"), "{broken}");
        let missing = StateFile::open(&path, Some(&directory.path().join("none"))).unwrap_err();
        assert!(missing.to_string().contains("missing"), "{missing}");
        let key = beside(&path, ".key");
        fs::remove_file(&key).unwrap();
        owner_only().open(&key).unwrap().write_all(&[1; 31]).unwrap();
        let short = StateFile::open(&path, None).unwrap_err();
        assert!(short.to_string().contains("32 bytes"), "{short}");
    }

    #[test]
    fn two_processes_cannot_use_one_state() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let held = StateFile::open(&path, None).unwrap();
        let refused = StateFile::open(&path, None).unwrap_err();
        assert!(refused.to_string().contains("another process"), "{refused}");
        drop(held);
        assert!(StateFile::open(&path, None).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn key_and_state_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let mut mechanism = open(directory.path());
        mechanism.stage(&[0.0, 0.0]).unwrap();
        mechanism.commit().unwrap();
        drop(mechanism);
        let key = beside(&path, ".key");
        for file in [&path, &key] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = StateFile::open(&path, None).unwrap_err();
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }

    #[test]
    fn a_failed_write_shows_nothing_and_can_be_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mut mechanism = open(&inner);
        mechanism.stage(&[0.0, 0.0]).unwrap();
        let away = directory.path().join("away");
        fs::rename(&inner, &away).unwrap();
        assert!(mechanism.commit().is_err());
        assert_eq!(mechanism.step(), 0);
        fs::rename(&away, &inner).unwrap();
        assert_eq!(mechanism.commit().unwrap().len(), 1);
    }
}
