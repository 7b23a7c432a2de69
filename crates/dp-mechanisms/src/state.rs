//! The sealed state of a mechanism on disk: one copy, locked while it lives, never an older one.
//!
//! # The rule
//! A release may be seen only after the state that contains it is durable. A process that is killed at any point
//! then resumes in one of two ways: the state does not have the step yet (nobody has seen it: it is made now), or
//! it does (it is shown again from the state, never computed again from data that may have changed).
//!
//! # The files
//! - The **state**: `magic · version · lengths · plan identity · name of the state · number of the write · nonce ·
//!   XChaCha20-Poly1305(snapshot)`. What stands in front is authenticated with the rest. It is replaced atomically: written
//!   beside, synced, renamed, directory synced. Its length is rounded up to one of few lengths, at most an eighth above what
//!   it holds.
//! - The **plan** beside the state: the numbers that the strategy is made of and the scale of its noise, sealed like the state,
//!   written before it and once, because they never change. A state continues with them, whatever planning the same problem on
//!   another machine would end at. Without this file it continues where planning ends at the very same numbers.
//! - The **key**, readable by its owner only, so that neither a seed nor the true statistic ever reaches the disk in clear. It
//!   is made once and never replaced, so the lock of a live mechanism is on it. One key belongs to one state.
//! - The **mark** beside the key: name and number of the last write of the state. A state that is older than its mark is
//!   refused, and so is a key and a mark whose state is gone. Before each write the state must still be the one that was read
//!   or written last.
//!
//! Somebody who puts back state *and* mark is not found out. What was released since would then be released again for data
//! that may differ; the noise of all rows that the old state had not used is fresh, so this costs what two mechanisms cost.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::noise::system_bytes;
use crate::saved::Saved;
use crate::snapshot::Snapshot;

const MAGIC: &[u8; 8] = b"DPSTREAM";
const PLAN_MAGIC: &[u8; 8] = b"DPSTPLAN";
/// The version of the file format; a file of another version is refused.
pub const VERSION: u32 = 4;
const NAME: usize = 16;
const NONCE: usize = 24;
const TAG: usize = 16;
/// Magic, version and two lengths.
const FRONT: usize = 8 + 4 + 16;
/// No sealed snapshot is shorter.
const SHORTEST: usize = 1024;

/// The sealed state of one mechanism on disk, locked against every other process while this value lives.
pub struct StateFile {
    path: PathBuf,
    key: Zeroizing<[u8; 32]>,
    /// Holds the lock.
    _key_file: File,
    mark: PathBuf,
    last: Mutex<Last>,
    /// Whether the plan is on disk.
    plan_kept: AtomicBool,
}

/// The last write that is known: which state, the how many-eth write, and its nonce.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Last {
    name: [u8; NAME],
    number: u64,
    nonce: Option<[u8; NONCE]>,
}

impl StateFile {
    /// Locks the state at `path` and reads its key, by default from `path` with `.key` appended. A key is made,
    /// for its owner's eyes only, if there is neither key nor state yet. Symbolic links are followed to the state itself.
    ///
    /// # Errors
    /// [`Error::State`]: another process holds the state; the state has a second name (a hard link); the key is missing,
    /// malformed or readable by others; the state is missing where key and mark say that there was one; the mark is missing;
    /// or the file system refuses.
    pub fn open(path: &Path, key: Option<&Path>) -> Result<Self> {
        let (path, exists) = resolve(path)?;
        let default = beside(&path, ".key");
        let key_path = key.unwrap_or(&default);
        let (key, key_file) = match read_key(key_path)? {
            Some(found) => found,
            None if exists => {
                return Err(refuse(
                    key_path,
                    "the key of this state is missing; give the file it was sealed with",
                ));
            }
            None => {
                make_key(key_path)?;
                read_key(key_path)?.ok_or_else(|| refuse(key_path, "the key that was made is gone"))?
            }
        };
        lock(key_path, &key_file)?;
        let key_path = fs::canonicalize(key_path).map_err(|error| refuse(key_path, &error.to_string()))?;
        let mark = beside(&key_path, ".mark");
        let (name, number) = match (read_mark(&mark)?, exists) {
            (Some((_, number @ 1..)), false) => {
                return Err(refuse(
                    &path,
                    &format!(
                        "the state is missing, but its key has sealed {number} writes of it; starting again would spend \
                         the budget a second time. Restore the state, or use another state and key"
                    ),
                ));
            }
            (Some(mark), _) => mark,
            (None, true) => {
                return Err(refuse(
                    &mark,
                    "the mark of this state is missing: nobody can tell whether the state is the last one. It lies \
                     beside the key; restore it",
                ));
            }
            (None, false) => {
                let mut name = [0; NAME];
                system_bytes(&mut name)?;
                write_mark(&mark, name, 0)?;
                (name, 0)
            }
        };
        let nonce = None;
        let last = Mutex::new(Last { name, number, nonce });
        Ok(Self { path, key, _key_file: key_file, mark, last, plan_kept: AtomicBool::new(false) })
    }

    /// The saved snapshot, if there is one.
    ///
    /// # Errors
    /// [`Error::State`] with a reason of its own for: not a state file, another version, truncated or extended,
    /// damaged or sealed with another key, another state than that of the key, older than the last one that was written.
    pub fn read(&self) -> Result<Option<Snapshot>> {
        let Some((identity, secret)) = self.read_secret()? else { return Ok(None) };
        let refuse = |reason: &str| refuse(&self.path, reason);
        let identity = Identity::parse(&identity).ok_or_else(|| refuse("its plan identity is not one"))?;
        let snapshot = Snapshot::decode(identity, &secret).map_err(|error| match error {
            Error::State { reason } => refuse(&reason),
            other => other,
        })?;
        let name = self.last.lock().unwrap_or_else(PoisonError::into_inner).name;
        let saved = self.read_plan(name)?;
        self.plan_kept.store(saved.is_some(), Ordering::Relaxed);
        Ok(Some(snapshot.with_saved(saved.map(Arc::new))))
    }

    /// As [`StateFile::read`], of a state that [`StateFile::write_secret`] wrote: its public description, and the secret
    /// followed by zeros.
    ///
    /// # Errors
    /// As [`StateFile::read`].
    pub fn read_secret(&self) -> Result<Option<(String, Zeroizing<Vec<u8>>)>> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refuse(&self.path, &error.to_string())),
        };
        let (identity, secret, read) = open_sealed(&self.key, &bytes).map_err(|error| match error {
            Error::State { reason } => refuse(&self.path, &reason),
            other => other,
        })?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if read.name != last.name {
            return Err(refuse(
                &self.path,
                "its key belongs to another state, and one key seals one state; give the key that this state was begun with",
            ));
        }
        if read.number < last.number {
            return Err(refuse(
                &self.path,
                &format!(
                    "it is older than the last one: this is write {}, and write {} was made; an old state would release \
                     the steps since then a second time. Restore the latest state, or start a new one with its own key \
                     and its own budget",
                    read.number, last.number
                ),
            ));
        }
        *last = read;
        Ok(Some((identity, secret)))
    }

    /// The plan beside the state, if there is one.
    fn read_plan(&self, name: [u8; NAME]) -> Result<Option<Saved>> {
        let path = beside(&self.path, ".plan");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refuse(&path, &error.to_string())),
        };
        let damaged = || {
            refuse(
                &path,
                "it is damaged, or not the plan of this state: restore it, or remove it and continue where the plan comes out \
                 the same",
            )
        };
        let front = plan_front(name);
        let rest = bytes.strip_prefix(front.as_slice()).ok_or_else(damaged)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE>().ok_or_else(damaged)?;
        let (body, tag) = rest.split_last_chunk::<TAG>().ok_or_else(damaged)?;
        let mut body = body.to_vec();
        XChaCha20Poly1305::new((&*self.key).into())
            .decrypt_in_place_detached(XNonce::from_slice(nonce), &front, &mut body, tag.into())
            .map_err(|_| damaged())?;
        Saved::decode(&body).map(Some).ok_or_else(damaged)
    }

    /// Writes the plan beside the state.
    fn write_plan(&self, saved: &Saved, name: [u8; NAME]) -> Result<()> {
        let path = beside(&self.path, ".plan");
        let mut sealed = plan_front(name);
        let mut nonce = [0; NONCE];
        system_bytes(&mut nonce)?;
        let mut body = saved.encode();
        let tag = XChaCha20Poly1305::new((&*self.key).into())
            .encrypt_in_place_detached(XNonce::from_slice(&nonce), &sealed, &mut body)
            .map_err(|_| refuse(&path, "it is too large to be sealed"))?;
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&body);
        sealed.extend_from_slice(&tag);
        replace_file(&path, &sealed)
            .and_then(|()| sync_directory(&path))
            .map_err(|error| refuse(&path, &error.to_string()))
    }

    /// Replaces the saved snapshot. When this returns, the new one survives a crash. If it fails, either the old one is in
    /// place, or the new one is and the error says that a power failure may undo it; nothing that it holds may be shown, and
    /// writing may be tried again.
    ///
    /// # Errors
    /// [`Error::State`] when the state is not the one that was read or written last, or the file system refuses;
    /// [`Error::Entropy`] without system randomness.
    pub fn write(&self, snapshot: &Snapshot) -> Result<()> {
        self.replace(&snapshot.identity().to_string(), snapshot.encode(), snapshot.saved())
    }

    /// As [`StateFile::write`], for whoever keeps several mechanisms, or other things, in one state: a public description,
    /// which stands in the file in clear, and a secret, which is sealed.
    ///
    /// # Errors
    /// As [`StateFile::write`].
    pub fn write_secret(&self, identity: &str, secret: Zeroizing<Vec<u8>>) -> Result<()> {
        self.replace(identity, secret, None)
    }

    fn replace(&self, identity: &str, secret: Zeroizing<Vec<u8>>, saved: Option<&Saved>) -> Result<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let on_disk = front_of(&self.path)?;
        if on_disk.map(|found| found.nonce) != last.nonce.map(Some) {
            return Err(refuse(
                &self.path,
                "it is not the state that was read or written last: somebody else has replaced it, and nothing is written \
                 over it",
            ));
        }
        let mut next = Last { name: last.name, number: last.number + 1, nonce: None };
        let bytes = seal(&self.key, identity, secret, &mut next)?;
        if let Some(saved) = saved
            && !self.plan_kept.load(Ordering::Relaxed)
        {
            self.write_plan(saved, next.name)?;
            self.plan_kept.store(true, Ordering::Relaxed);
        }
        replace_file(&self.path, &bytes).map_err(|error| refuse(&self.path, &error.to_string()))?;
        *last = next;
        sync_directory(&self.path).map_err(|error| {
            let reason =
                format!("the new state is in place, but its directory could not be synced, so a power failure may undo it: {error}");
            refuse(&self.path, &reason)
        })?;
        write_mark(&self.mark, next.name, next.number)
    }
}

impl std::fmt::Debug for StateFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StateFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What stands in front of a sealed plan, authenticated with it.
fn plan_front(name: [u8; NAME]) -> Vec<u8> {
    [PLAN_MAGIC.as_slice(), &VERSION.to_le_bytes(), &name].concat()
}

/// Puts a new file in the place of an old one: it is there whole or not at all.
fn replace_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = beside(path, ".new");
    remove_leftover(&temporary)?;
    let mut file = owner_only().open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// Seals a secret under its description, and notes the nonce.
fn seal(key: &[u8; 32], identity: &str, mut body: Zeroizing<Vec<u8>>, write: &mut Last) -> Result<Vec<u8>> {
    let padded = padded_length(body.len());
    if padded > body.capacity() {
        let mut longer = Zeroizing::new(Vec::with_capacity(padded));
        longer.extend_from_slice(&body);
        body = longer;
    }
    body.resize(padded, 0);
    let mut nonce = [0; NONCE];
    system_bytes(&mut nonce)?;
    write.nonce = Some(nonce);
    let mut sealed = Vec::with_capacity(FRONT + identity.len() + NAME + 8 + NONCE + body.len() + TAG);
    sealed.extend_from_slice(MAGIC);
    sealed.extend_from_slice(&VERSION.to_le_bytes());
    sealed.extend_from_slice(&(identity.len() as u64).to_le_bytes());
    sealed.extend_from_slice(&(body.len() as u64).to_le_bytes());
    sealed.extend_from_slice(identity.as_bytes());
    sealed.extend_from_slice(&write.name);
    sealed.extend_from_slice(&write.number.to_le_bytes());
    let tag = XChaCha20Poly1305::new(key.into())
        .encrypt_in_place_detached(XNonce::from_slice(&nonce), &sealed, &mut body)
        .map_err(|_| Error::State { reason: "it is too large to be sealed".to_owned() })?;
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(&body);
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

/// The least of few lengths that holds so many bytes: all but the leading digits are zero, as many as `log2 log2` of it.
fn padded_length(length: usize) -> usize {
    let length = length.max(SHORTEST);
    let digits = length.ilog2();
    let kept = digits.ilog2() + 1;
    length.checked_next_multiple_of(1 << (digits - kept)).unwrap_or(length)
}

/// Opens what [`seal`] made.
fn open_sealed(key: &[u8; 32], bytes: &[u8]) -> Result<(String, Zeroizing<Vec<u8>>, Last)> {
    let state = |reason: String| Error::State { reason };
    let cut = || state(format!("it is truncated: {} bytes are left", bytes.len()));
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
    if magic != MAGIC {
        return Err(state("it is not a state file".to_owned()));
    }
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(state(format!(
            "it has format version {version}, and this program reads version {VERSION}; finish it with the program that \
             began it, or start a new state with its own key and budget"
        )));
    }
    let (identity_length, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    let (body_length, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    let lengths = [identity_length, body_length].map(|bytes| u64::from_le_bytes(*bytes));
    let fixed = NAME + 8 + NONCE + TAG;
    let expected = lengths[0].checked_add(lengths[1]).and_then(|sum| sum.checked_add(fixed as u64));
    if expected != Some(rest.len() as u64) {
        return Err(state(format!(
            "it is truncated or extended: {} bytes follow the header, which speaks of {} + {} + {fixed}",
            rest.len(),
            lengths[0],
            lengths[1],
        )));
    }
    // Both lengths are below rest.len(), so they fit a usize.
    let (identity, rest) = rest.split_at(lengths[0] as usize);
    let last = last_in(rest).ok_or_else(cut)?;
    let (body, tag) = rest[NAME + 8 + NONCE..].split_at(lengths[1] as usize);
    let header = &bytes[..FRONT + identity.len() + NAME + 8];
    let mut body = Zeroizing::new(body.to_vec());
    let nonce = last.nonce.unwrap_or_default();
    XChaCha20Poly1305::new(key.into())
        .decrypt_in_place_detached(XNonce::from_slice(&nonce), header, &mut body, tag.into())
        .map_err(|_| {
            state("its seal is broken: the file is damaged, or it was sealed with another key".to_owned())
        })?;
    let identity = std::str::from_utf8(identity).map_err(|_| state("its identity is no text".to_owned()))?;
    Ok((identity.to_owned(), body, last))
}

/// Name, number and nonce, which follow the identity.
fn last_in(bytes: &[u8]) -> Option<Last> {
    let (name, rest) = bytes.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (nonce, _) = rest.split_first_chunk()?;
    Some(Last { name: *name, number: u64::from_le_bytes(*number), nonce: Some(*nonce) })
}

/// Which write the file on disk is, if there is one; not authenticated.
fn front_of(path: &Path) -> Result<Option<Last>> {
    let wrong = |error: std::io::Error| refuse(path, &error.to_string());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    let mut front = [0; FRONT];
    file.read_exact(&mut front).map_err(wrong)?;
    let length = front[12..20].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut rest = Vec::new();
    file.take(length.saturating_add((NAME + 8 + NONCE) as u64)).read_to_end(&mut rest).map_err(wrong)?;
    let after = usize::try_from(length).ok().and_then(|length| rest.get(length..));
    after.and_then(last_in).map(Some).ok_or_else(|| refuse(path, "it is not a state file any more"))
}

/// The file that a path leads to, and whether it exists.
fn resolve(path: &Path) -> Result<(PathBuf, bool)> {
    let wrong = |error: std::io::Error| refuse(path, &error.to_string());
    match fs::symlink_metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).map_err(wrong)?;
            let name = path.file_name().ok_or_else(|| refuse(path, "it is no name of a file"))?;
            return Ok((parent.join(name), false));
        }
        Err(error) => return Err(wrong(error)),
    }
    // Writing replaces the file by rename, which would cut a link off and leave the old state alive under its name.
    let path = fs::canonicalize(path).map_err(wrong)?;
    let metadata = fs::metadata(&path).map_err(|error| refuse(&path, &error.to_string()))?;
    if !metadata.is_file() {
        return Err(refuse(&path, "a state is a regular file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&metadata) > 1 {
        return Err(refuse(
            &path,
            "the state has a second name (a hard link), under which an old copy would live on; remove that name",
        ));
    }
    Ok((path, true))
}

fn read_mark(path: &Path) -> Result<Option<([u8; NAME], u64)>> {
    match fs::read(path) {
        Ok(bytes) => {
            let name = bytes.first_chunk::<NAME>().copied();
            let number = bytes.get(NAME..).and_then(|rest| <[u8; 8]>::try_from(rest).ok());
            match name.zip(number) {
                Some((name, number)) => Ok(Some((name, u64::from_le_bytes(number)))),
                None => Err(refuse(path, "it is not the mark of a state; restore it")),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refuse(path, &error.to_string())),
    }
}

/// Writes the mark: a new one appears whole or not at all, an old one is overwritten in place, 24 bytes, which no file system
/// tears.
fn write_mark(path: &Path, name: [u8; NAME], number: u64) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut bytes = [0; NAME + 8];
        bytes[..NAME].copy_from_slice(&name);
        bytes[NAME..].copy_from_slice(&number.to_le_bytes());
        if path.exists() {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.write_all(&bytes)?;
            return file.sync_all();
        }
        replace_file(path, &bytes)?;
        sync_directory(path)
    };
    write().map_err(|error| refuse(path, &error.to_string()))
}

/// The path with something appended to its file name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn refuse(path: &Path, reason: &str) -> Error {
    Error::State { reason: format!("{}: {reason}", path.display()) }
}

/// Options that create a new file that only its owner may read, and nothing else.
pub(crate) fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a rename, or a new file, in the directory of `path` durable.
pub(crate) fn sync_directory(path: &Path) -> std::io::Result<()> {
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
pub(crate) fn remove_leftover(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Locks the key and makes sure that it is still the one under its name.
pub(crate) fn lock(path: &Path, file: &File) -> Result<()> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(refuse(
                path,
                "another process is using this state; wait for it to end, or use another state and key",
            ));
        }
        Err(TryLockError::Error(error)) => return Err(refuse(path, &error.to_string())),
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let wrong = |error: std::io::Error| refuse(path, &error.to_string());
        let (held, named) = (file.metadata().map_err(wrong)?, fs::metadata(path).map_err(wrong)?);
        if (held.dev(), held.ino()) != (named.dev(), named.ino()) {
            return Err(refuse(path, "the key was replaced while it was being locked; try again"));
        }
    }
    Ok(())
}

pub(crate) fn read_key(path: &Path) -> Result<Option<(Zeroizing<[u8; 32]>, File)>> {
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
        Ok(Some((key, file)))
    } else {
        Err(refuse(path, "a key has exactly 32 bytes; give the file the state was sealed with"))
    }
}

pub(crate) fn make_key(path: &Path) -> Result<()> {
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
    write().map_err(|error| refuse(path, &error.to_string()))
}

#[cfg(test)]
mod tests;
