//! The sealed folder: everything between two runs, in one file that is replaced as a whole.
//!
//! | file | what it is |
//! |---|---|
//! | `key` | the secret under which the state is sealed, for its owner's eyes only |
//! | `sealed` | the state: seeds, cells so far, published numbers, people by keyed hash, consumed rows by keyed hash |
//! | `mark` | how often the state was written: an older one put back in its place is refused |
//! | `lock` | held while a run works on the state |
//!
//! What is published is a function of the state, and a new state is on disk before anything of it is published. A run that
//! is killed at any time therefore either has not happened, or is published by the next one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rand::TryRng;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};
use crate::ledger::Entry;
use crate::people::take;
use crate::spec::Identity;
use crate::statistics::Number;

const MAGIC: &[u8; 8] = b"DPEVENTS";
const VERSION: u32 = 2;
const NONCE: usize = 24;
const TAG: usize = 16;
/// No state is smaller than this, so that a dashboard with few people looks like any other.
const SMALLEST: usize = 1 << 16;

/// Where the noise comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Randomness {
    /// Secret, from the operating system.
    System,
    /// From a number that anybody can repeat: **not private**, for tests and demonstrations.
    Reproducible(u64),
}

/// What a state says of itself without its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) identity: Identity,
    pub(crate) randomness: Randomness,
    pub(crate) ledger: Vec<Entry>,
}

/// One release between two runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    /// The secret of its noise.
    pub(crate) seed: [u8; 32],
    /// Its cells at every step so far, one step after the other.
    pub(crate) cells: Vec<i64>,
    /// A hash of the last measurement, by which a later run proves that it continues the same noise.
    pub(crate) witness: [u8; 32],
    /// Everything published so far, by step, key and statistic.
    pub(crate) numbers: Vec<Number>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.seed.zeroize();
        self.cells.zeroize();
    }
}

/// The state as a run takes it apart.
pub(crate) struct Contents {
    pub(crate) header: Header,
    pub(crate) releases: Vec<Kept>,
    /// Rows, people and open steps, for [`crate::intake`] and [`crate::consumed`].
    pub(crate) rest: Zeroizing<Vec<u8>>,
}

/// The folder of a state, locked against every other run while this value lives.
pub(crate) struct Folder {
    path: PathBuf,
    key: Zeroizing<[u8; 32]>,
    written: u64,
    _lock: File,
}

impl Folder {
    /// Locks the folder, which is made with a new key if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        make_folder(path)?;
        let lock_path = path.join("lock");
        let lock =
            owner_only().truncate(false).open(&lock_path).map_err(|error| Error::file(&lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::state(path, "another run is working on it; wait until it has finished"));
            }
            Err(TryLockError::Error(error)) => return Err(Error::file(&lock_path, error)),
        }
        let key_path = path.join("key");
        let key = match fs::read(&key_path) {
            Ok(bytes) => {
                let bytes = Zeroizing::new(bytes);
                let key: Option<[u8; 32]> = bytes.as_slice().try_into().ok();
                Zeroizing::new(
                    key.ok_or_else(|| Error::state(path, "its key is not 32 bytes; restore the file `key`"))?,
                )
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.join("sealed").exists() || path.join("mark").exists() {
                    return Err(Error::state(path, "its key is missing; restore the file `key`"));
                }
                let mut key = Zeroizing::new([0; 32]);
                random(path, key.as_mut_slice())?;
                write_whole(&key_path, key.as_slice())?;
                key
            }
            Err(error) => return Err(Error::file(&key_path, error)),
        };
        Ok(Self { path: path.to_owned(), key, written: 0, _lock: lock })
    }

    /// The saved state, if there is one.
    pub(crate) fn read(&mut self) -> Result<Option<Contents>> {
        let mark = match fs::read(self.path.join("mark")) {
            Ok(bytes) => bytes.as_slice().try_into().ok().map(u64::from_le_bytes).ok_or_else(|| {
                Error::state(&self.path, "the file `mark` is damaged; restore the whole folder")
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(Error::file(&self.path.join("mark"), error)),
        };
        let path = self.path.join("sealed");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound && mark == 0 => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::state(
                    &self.path,
                    "the file `sealed` is missing, but releases were made from it; restore it, or begin anew with another \
                     budget in another folder",
                ));
            }
            Err(error) => return Err(Error::file(&path, error)),
        };
        let (written, plain) =
            unseal(&self.key, &bytes).map_err(|reason| Error::state(&self.path, reason))?;
        if written < mark {
            return Err(Error::state(
                &self.path,
                "an older state was put back: its noise has been used for other releases already; restore the latest one",
            ));
        }
        self.written = written;
        let contents =
            decode(&plain).ok_or_else(|| Error::state(&self.path, "its contents contradict each other"))?;
        Ok(Some(contents))
    }

    /// Whether nothing has been saved yet.
    pub(crate) fn is_new(&self) -> bool {
        self.written == 0
    }

    /// Replaces the saved state. When this returns, the new one survives a crash; if it fails, the old one does.
    pub(crate) fn write(&mut self, contents: &Contents) -> Result<()> {
        let mut plain = encode(contents).map_err(|error| Error::state(&self.path, error))?;
        pad(&mut plain);
        let mut nonce = [0; NONCE];
        random(&self.path, &mut nonce)?;
        let written = self.written + 1;
        let sealed =
            seal(&self.key, written, &nonce, plain).map_err(|reason| Error::state(&self.path, reason))?;
        write_whole(&self.path.join("sealed"), &sealed)?;
        self.written = written;
        write_whole(&self.path.join("mark"), &written.to_le_bytes())
    }
}

/// Reads the public part of a state without changing it.
pub(crate) fn read_header(path: &Path) -> Result<(Header, Vec<usize>)> {
    if !path.join("sealed").exists() {
        return Err(Error::state(path, "there is no state here; name the folder that `dp run` keeps"));
    }
    let contents = Folder::open(path)?.read()?;
    let contents = contents.ok_or_else(|| Error::state(path, "there is no state here"))?;
    let numbers = contents.releases.iter().map(|kept| kept.numbers.len()).collect();
    Ok((contents.header, numbers))
}

/// Secret bytes from the operating system.
pub(crate) fn random(path: &Path, bytes: &mut [u8]) -> Result<()> {
    rand::rngs::SysRng
        .try_fill_bytes(bytes)
        .map_err(|error| Error::state(path, format!("the system has no randomness to give: {error}")))
}

fn encode(contents: &Contents) -> std::result::Result<Zeroizing<Vec<u8>>, serde_json::Error> {
    let header = serde_json::to_vec(&contents.header)?;
    let releases: usize = contents
        .releases
        .iter()
        .map(|kept| 32 + 32 + 16 + 8 * kept.cells.len() + 32 * kept.numbers.len())
        .sum();
    // The exact capacity, with room for padding: a vector that grows would leave copies of the secret behind.
    let size = 4 * 8 + header.len() + releases + contents.rest.len();
    let mut bytes = Zeroizing::new(Vec::with_capacity(padded(size + 8)));
    let count = |bytes: &mut Vec<u8>, number: usize| bytes.extend_from_slice(&(number as u64).to_le_bytes());
    count(&mut bytes, header.len());
    bytes.extend_from_slice(&header);
    count(&mut bytes, contents.releases.len());
    for kept in &contents.releases {
        bytes.extend_from_slice(&kept.seed);
        bytes.extend_from_slice(&kept.witness);
        count(&mut bytes, kept.cells.len());
        kept.cells.iter().for_each(|cell| bytes.extend_from_slice(&cell.to_le_bytes()));
        count(&mut bytes, kept.numbers.len());
        for number in &kept.numbers {
            for value in [number.value, number.standard_deviation, number.low, number.high] {
                bytes.extend_from_slice(&value.to_bits().to_le_bytes());
            }
        }
    }
    count(&mut bytes, contents.rest.len());
    bytes.extend_from_slice(&contents.rest);
    Ok(bytes)
}

fn decode(mut bytes: &[u8]) -> Option<Contents> {
    let bytes = &mut bytes;
    let count = |bytes: &mut &[u8]| usize::try_from(u64::from_le_bytes(take(bytes)?)).ok();
    let slice = |bytes: &mut &[u8], length: usize| {
        let (first, rest) = bytes.split_at_checked(length)?;
        let first = first.to_vec();
        *bytes = rest;
        Some(first)
    };
    let length = count(bytes)?;
    let header = serde_json::from_slice(&slice(bytes, length)?).ok()?;
    let mut releases = Vec::new();
    for _ in 0..count(bytes)? {
        let (seed, witness) = (take(bytes)?, take(bytes)?);
        let length = count(bytes)?;
        let cells = (0..length).map(|_| take(bytes).map(i64::from_le_bytes)).collect::<Option<_>>()?;
        let length = count(bytes)?;
        let mut float = || take(bytes).map(|bits| f64::from_bits(u64::from_le_bytes(bits)));
        let numbers = (0..length)
            .map(|_| {
                Some(Number { value: float()?, standard_deviation: float()?, low: float()?, high: float()? })
            })
            .collect::<Option<_>>()?;
        releases.push(Kept { seed, cells, witness, numbers });
    }
    let length = count(bytes)?;
    let rest = Zeroizing::new(slice(bytes, length)?);
    Some(Contents { header, releases, rest })
}

/// The size to which a state of some size is filled up: only its highest bits tell, at most an eighth is added.
fn padded(size: usize) -> usize {
    let size = size.max(SMALLEST);
    let unit = 1_usize << size.ilog2().saturating_sub(3);
    size.div_ceil(unit) * unit
}

fn pad(plain: &mut Vec<u8>) {
    let size = padded(plain.len());
    plain.resize(size, 0);
}

fn seal(
    key: &[u8; 32],
    written: u64,
    nonce: &[u8; NONCE],
    mut plain: Zeroizing<Vec<u8>>,
) -> std::result::Result<Vec<u8>, String> {
    let mut sealed = Vec::with_capacity(MAGIC.len() + 12 + NONCE + plain.len() + TAG);
    sealed.extend_from_slice(MAGIC);
    sealed.extend_from_slice(&VERSION.to_le_bytes());
    sealed.extend_from_slice(&written.to_le_bytes());
    let tag = XChaCha20Poly1305::new(key.into())
        .encrypt_in_place_detached(XNonce::from_slice(nonce), &sealed, &mut plain)
        .map_err(|_| "it is too large to be sealed".to_owned())?;
    sealed.extend_from_slice(nonce);
    sealed.extend_from_slice(&plain);
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

fn unseal(key: &[u8; 32], bytes: &[u8]) -> std::result::Result<(u64, Zeroizing<Vec<u8>>), String> {
    let cut = || "it is truncated; restore the latest state".to_owned();
    let (header, rest) = bytes.split_at_checked(MAGIC.len() + 12).ok_or_else(cut)?;
    let mut fields = header;
    if take::<8>(&mut fields).as_ref() != Some(MAGIC) {
        return Err("it is not the state of a dashboard".to_owned());
    }
    let version = take(&mut fields).map(u32::from_le_bytes).ok_or_else(cut)?;
    if version != VERSION {
        return Err(format!("it has format version {version}; this program reads version {VERSION}"));
    }
    let written = take(&mut fields).map(u64::from_le_bytes).ok_or_else(cut)?;
    let (nonce, rest) = rest.split_at_checked(NONCE).ok_or_else(cut)?;
    let (body, tag) = rest.len().checked_sub(TAG).and_then(|at| rest.split_at_checked(at)).ok_or_else(cut)?;
    let mut plain = Zeroizing::new(body.to_vec());
    XChaCha20Poly1305::new(key.into())
        .decrypt_in_place_detached(XNonce::from_slice(nonce), header, &mut plain, tag.into())
        .map_err(|_| {
            "its seal is broken: the file is damaged, or it was sealed with another key".to_owned()
        })?;
    Ok((written, plain))
}

fn make_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| Error::file(path, error))
}

fn owner_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Replaces a file that anybody may read, as a whole.
pub(crate) fn write_public(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    write_with(options, path, bytes)
}

/// Replaces a file for its owner's eyes only, as a whole.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(owner_only(), path, bytes)
}

/// Replaces a file as a whole: written beside, synced, renamed, its folder synced.
fn write_with(mut options: OpenOptions, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = PathBuf::from(name);
    let mut replace = || -> std::io::Result<()> {
        let mut file = options.truncate(true).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    };
    replace().map_err(|error| Error::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_tell_their_highest_bits_only() {
        assert_eq!(padded(10), SMALLEST);
        for size in [70_000, 100_000, 1_000_000, 123_456_789] {
            let filled = padded(size);
            assert!(filled >= size && filled as f64 <= size as f64 * 1.125, "{size}: {filled}");
            assert_eq!(padded(filled), filled);
        }
    }

    #[test]
    fn seals_break_when_anything_changes() {
        let key = [5; 32];
        let sealed = seal(&key, 3, &[1; NONCE], Zeroizing::new(b"secret".to_vec())).unwrap();
        let (written, plain) = unseal(&key, &sealed).unwrap();
        assert_eq!((written, plain.as_slice()), (3, b"secret".as_slice()));
        for place in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[place] ^= 1;
            assert!(unseal(&key, &damaged).is_err(), "{place}");
            assert!(unseal(&key, &sealed[..place]).is_err(), "{place}");
        }
        assert!(unseal(&[6; 32], &sealed).is_err());
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
    }
}
