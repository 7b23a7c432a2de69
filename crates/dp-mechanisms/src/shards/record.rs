//! The files of one shard: the record of the steps that were answered, and the checkpoint of its noise.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::checkpoint::{self, Header};
use crate::error::Result;
use crate::noise::{ShardedNoise, TILE};
use crate::state::{lock, owner_only, refuse, sync_directory};

/// A keyed digest of an input.
type Digest = [u8; 16];

/// A step as it is written down: the step, and the digest of its input.
const ENTRY: usize = 8 + 16;

/// What one live shard holds on the disk, locked against every other process.
pub(super) struct Files {
    state: PathBuf,
    path: PathBuf,
    /// Holds the lock: it is written in place and never replaced.
    record: File,
    key: Zeroizing<[u8; 32]>,
    header: Header,
    /// The steps that were answered, in order, each with the digest of its input.
    answered: Vec<(usize, Digest)>,
}

/// Where the files of a shard are.
fn path(directory: &Path, index: usize, ending: &str) -> PathBuf {
    directory.join(format!("shard-{index}.{ending}"))
}

/// An empty record for a shard of a new set.
pub(super) fn create(directory: &Path, index: usize) -> Result<()> {
    let path = path(directory, index, "record");
    let make = || -> std::io::Result<()> {
        owner_only().open(&path)?.sync_all()?;
        sync_directory(&path)
    };
    make().map_err(|error| refuse(&path, &error.to_string()))
}

impl Files {
    /// Locks the shard and reads its record.
    ///
    /// # Errors
    /// [`crate::Error::State`]: another process holds the shard, the record is missing, or not that of this set.
    pub(super) fn open(directory: &Path, header: Header, key: Zeroizing<[u8; 32]>) -> Result<Self> {
        let (state, path) = (path(directory, header.index, "state"), path(directory, header.index, "record"));
        let failed = |error: std::io::Error| refuse(&path, &error.to_string());
        let mut record = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| {
            refuse(&path, &format!("the record of the steps that were answered cannot be opened: {error}"))
        })?;
        lock(&path, &record)?;
        let mut bytes = Vec::new();
        record.read_to_end(&mut bytes).map_err(failed)?;
        let (entries, torn) = bytes.as_chunks::<ENTRY>();
        let mut answered: Vec<(usize, Digest)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let (step, digest) = entry.split_at(8);
            let step = u64::from_le_bytes(step.try_into().unwrap_or_default()) as usize;
            if answered.last().is_some_and(|(before, _)| *before >= step) || step == 0 {
                return Err(refuse(&path, "its steps are not in order: it is damaged"));
            }
            answered.push((step, digest.try_into().unwrap_or_default()));
        }
        if !torn.is_empty() {
            // A crash came while an entry was written: its release was never shown.
            record.set_len((entries.len() * ENTRY) as u64).map_err(failed)?;
        }
        record.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self { state, path, record, key, header, answered })
    }

    /// The last step that was answered.
    pub(super) fn answered(&self) -> usize {
        self.answered.last().map_or(0, |(step, _)| *step)
    }

    /// Writes down durably that a step is answered for an input, or checks that it was answered for the same input.
    pub(super) fn note(&mut self, step: usize, first: usize, input: &[f64]) -> Result<()> {
        let digest = digest(&self.key, step, first, input);
        if step <= self.answered() {
            return match self.answered.binary_search_by_key(&step, |(step, _)| *step) {
                Ok(index) if self.answered[index].1 == digest => Ok(()),
                Ok(_) => Err(refuse(
                    &self.path,
                    &format!(
                        "step {step} was answered before, for another input; repeat the inputs exactly, or skip to step {}",
                        self.answered()
                    ),
                )),
                // It was skipped then: nobody has seen it. It cannot be noted out of order, and is not worth it.
                Err(_) => Err(refuse(
                    &self.path,
                    &format!("step {step} was skipped before; skip to step {}", self.answered()),
                )),
            };
        }
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&(step as u64).to_le_bytes());
        entry[8..].copy_from_slice(&digest);
        let start = (self.answered.len() * ENTRY) as u64;
        let write = |record: &mut File| -> std::io::Result<()> {
            record.seek(SeekFrom::Start(start))?;
            record.write_all(&entry)?;
            record.sync_data()
        };
        if let Err(error) = write(&mut self.record) {
            // What cannot be shortened either is overwritten by the next attempt, or truncated when it is opened.
            let _ = self.record.set_len(start);
            return Err(refuse(&self.path, &error.to_string()));
        }
        self.answered.push((step, digest));
        Ok(())
    }

    /// Replaces the checkpoint.
    pub(super) fn save(&self, step: usize, noise: &ShardedNoise, row: Option<&[f64]>) -> Result<()> {
        checkpoint::write(&self.state, &self.key, &self.header, step, noise, row)
    }

    /// Puts the checkpoint, if there is one, into fresh noise; the row of the next step if that was made already.
    pub(super) fn load(&self, noise: &mut ShardedNoise) -> Result<Option<Zeroizing<Vec<f64>>>> {
        checkpoint::read(&self.state, &self.key, &self.header, noise)
    }
}

/// A digest that nobody without the key can compute or check, whatever they know about the input.
///
/// Each tile of the input is authenticated by Poly1305 under a key of its own, which XChaCha20 derives from step and
/// coordinate; the exclusive or of all of them changes with any of the values, except with a probability below 2⁻⁹⁰.
/// At most one digest is ever kept for a step.
fn digest(key: &[u8; 32], step: usize, first: usize, input: &[f64]) -> Digest {
    let cipher = XChaCha20Poly1305::new(key.into());
    let tile = |(index, values): (usize, &[f64])| -> Digest {
        let mut bytes = Zeroizing::new(Vec::with_capacity(8 * TILE));
        for value in values {
            bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        let mut nonce = *b"input of a shard's step!";
        nonce[..8].copy_from_slice(&(step as u64).to_le_bytes());
        nonce[8..16].copy_from_slice(&((first + index * TILE) as u64).to_le_bytes());
        // Nothing is encrypted, so it cannot be too long to be.
        cipher
            .encrypt_in_place_detached(XNonce::from_slice(&nonce), &bytes, &mut [])
            .map_or([0; 16], Into::into)
    };
    let together = |a: Digest, b: Digest| (u128::from_le_bytes(a) ^ u128::from_le_bytes(b)).to_le_bytes();
    input.par_chunks(TILE).enumerate().map(tile).reduce(|| [0; 16], together)
}
