//! The sealed folder: everything between two runs, in one file that is replaced as a whole.
//!
//! | file | what it is |
//! |---|---|
//! | `sealed` | the state: seeds, strategies, cells so far, published numbers, people and consumed rows by keyed hash |
//! | `key` | the secret under which the state is sealed, for its owner's eyes only; a run locks it |
//! | `key.mark` | how often the state was written: an older one put back in its place is refused |
//!
//! Key and mark may lie elsewhere (`output.key`), so that a folder that is put back as a whole is found out; where they lie
//! inside and are put back too, later releases have noise of their own and cost what a second dashboard costs. The file is a
//! [`StateFile`].
//!
//! What is published is a function of the state, and a new state is on disk before anything of it is published. A run that
//! is killed at any time therefore either has not happened, or is published by the next one.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use dp_mechanisms::StateFile;
use rand::TryRng;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::ledger::Entry;
use crate::people::take;
use crate::plan::Fitted;
use crate::spec::Identity;

/// What stands in front of the sealed part.
const DESCRIPTION: &str = "description=1\nholds=a dashboard\n";
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
    /// What was spent, by this description and those before it.
    pub(crate) ledger: Vec<Entry>,
    /// The number of steps that were published under earlier descriptions.
    pub(crate) from: usize,
    /// The strategies, as they were fitted when the first step was planned.
    pub(crate) fitted: Vec<Fitted>,
    /// The processes that keep people and keys.
    pub(crate) processes: usize,
    /// A name that the states of all processes have in common.
    pub(crate) set: [u8; 16],
    /// How often the state was written.
    pub(crate) generation: u64,
}

impl Header {
    /// What the present description spends.
    pub(crate) fn present(&self) -> &[Entry] {
        let before = self.ledger.len().saturating_sub(self.fitted.len());
        &self.ledger[before..]
    }
}

/// The state as a run takes it apart.
pub(crate) struct Contents {
    pub(crate) header: Header,
    /// Releases, rows, people and open steps, for [`crate::releases`], [`crate::intake`] and [`crate::consumed`].
    pub(crate) rest: Zeroizing<Vec<u8>>,
}

/// Bytes of a state while they are written. They grow into new memory and wipe the old: a vector would leave copies of the secret
/// behind, and how much there is to write is known only once it is written.
#[derive(Default)]
pub(crate) struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    pub(crate) fn extend_from_slice(&mut self, more: &[u8]) {
        let needed = self.0.len() + more.len();
        if needed > self.0.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(2 * self.0.capacity()).max(1024)));
            larger.extend_from_slice(&self.0);
            self.0 = larger;
        }
        self.0.extend_from_slice(more);
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    pub(crate) fn finish(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}

/// The folder of a state, locked against every other run while this value lives.
pub(crate) struct Folder {
    path: PathBuf,
    file: StateFile,
}

impl Folder {
    /// Locks the folder, which is made with a new key if it is not there.
    pub(crate) fn open(path: &Path, key: Option<&Path>) -> Result<Self> {
        make_folder(path)?;
        let beside = path.join("key");
        let file =
            StateFile::open(&path.join("sealed"), Some(key.unwrap_or(&beside))).map_err(Error::Sealed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The saved state, if there is one.
    pub(crate) fn read(&self) -> Result<Option<Contents>> {
        let Some((description, plain)) = self.file.read_secret().map_err(Error::Sealed)? else {
            return Ok(None);
        };
        if description != DESCRIPTION {
            return Err(Error::state(&self.path, "it is not the state of a dashboard"));
        }
        let contents =
            decode(&plain).ok_or_else(|| Error::state(&self.path, "its contents contradict each other"))?;
        Ok(Some(contents))
    }

    /// Replaces the saved state. When this returns, the new one survives a crash. If it fails, the old one is in place, or the new one
    /// is and a power failure may undo it, after which the mark refuses the old one; this run publishes nothing of it.
    pub(crate) fn write(&self, contents: &Contents) -> Result<()> {
        let header = serde_json::to_vec(&contents.header).map_err(|error| Error::state(&self.path, error))?;
        let size = 16 + header.len() + contents.rest.len();
        // The exact capacity, with room for padding: a vector that grows would leave copies of the secret behind.
        let mut plain = Zeroizing::new(Vec::with_capacity(padded(size)));
        for part in [&header, &*contents.rest] {
            plain.extend_from_slice(&(part.len() as u64).to_le_bytes());
            plain.extend_from_slice(part);
        }
        plain.resize(padded(size), 0);
        self.file.write_secret(DESCRIPTION, plain).map_err(Error::Sealed)
    }
}

/// Reads the public part of a state without changing it.
pub(crate) fn read_header(path: &Path, key: Option<&Path>) -> Result<Header> {
    if !path.join("sealed").exists() {
        return Err(Error::state(path, "there is no state here; name the folder that `dp run` keeps"));
    }
    let contents = Folder::open(path, key)?.read()?;
    Ok(contents.ok_or_else(|| Error::state(path, "there is no state here"))?.header)
}

/// Secret bytes from the operating system.
pub(crate) fn random(path: &Path, bytes: &mut [u8]) -> Result<()> {
    rand::rngs::SysRng
        .try_fill_bytes(bytes)
        .map_err(|error| Error::state(path, format!("the system has no randomness to give: {error}")))
}

fn decode(mut bytes: &[u8]) -> Option<Contents> {
    let bytes = &mut bytes;
    let mut part = || {
        let length = usize::try_from(u64::from_le_bytes(take(bytes)?)).ok()?;
        let (first, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(first)
    };
    let header = serde_json::from_slice(part()?).ok()?;
    Some(Contents { header, rest: Zeroizing::new(part()?.to_vec()) })
}

/// The size to which a state of some size is filled up: only its highest bits tell, at most an eighth is added.
fn padded(size: usize) -> usize {
    let size = size.max(SMALLEST);
    let unit = 1_usize << size.ilog2().saturating_sub(3);
    size.div_ceil(unit) * unit
}

pub(crate) fn make_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| Error::file(path, error))
}

/// Replaces a file that anybody may read, as a whole: written beside, synced, renamed, its folder synced. What it holds follows from
/// the saved state, so that the next run can make it good.
pub(crate) fn write_public(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = PathBuf::from(name);
    let replace = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    };
    replace().map_err(|error| {
        // What is half written is of no use to anybody.
        let _ = fs::remove_file(&beside);
        Error::file(
            path,
            format!("{error}. The state is saved and nothing is lost: mend this, and run again"),
        )
    })
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
}
