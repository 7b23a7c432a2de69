//! The state of a shard's noise on disk: its buffers, sealed in chunks, so that no second copy of them is in memory.
//!
//! `magic · version · set · shard · step · row? · nonce · chunk · chunk · …`; every chunk is sealed by itself with the number
//! it has, and the whole header authenticated with each.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::Path;

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::noise::{ShardedNoise, system_bytes};
use crate::state::{beside, owner_only, refuse, remove_leftover, sync_directory};

const MAGIC: &[u8; 8] = b"DPSHARD1";
const TAG: usize = 16;
/// Parts of the noise in a chunk.
const PARTS: usize = 16;
/// Chunks that are sealed or opened together, by all cores.
const TOGETHER: usize = 8;
/// Values of the row in a chunk.
const ROW: usize = 1 << 17;

/// Which shard of which set.
#[derive(Clone)]
pub(super) struct Header {
    pub(super) set: [u8; 16],
    pub(super) index: usize,
}

/// Magic, set, shard, step, whether there is a row, and the nonce.
const HEADER: usize = 8 + 16 + 8 + 8 + 1 + 16;

impl Header {
    fn bytes(&self, step: usize, row: bool, nonce: &[u8; 16]) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(&self.set);
        bytes[24..32].copy_from_slice(&(self.index as u64).to_le_bytes());
        bytes[32..40].copy_from_slice(&(step as u64).to_le_bytes());
        bytes[40] = u8::from(row);
        bytes[41..].copy_from_slice(nonce);
        bytes
    }
}

/// The nonce of a chunk: the file's own, and the number of the chunk.
fn nonce_of(header: &[u8; HEADER], chunk: u64) -> XNonce {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(&header[41..]);
    nonce[16..].copy_from_slice(&chunk.to_le_bytes());
    nonce.into()
}

/// A kept shard needs noise whose state can be saved.
pub(super) fn check_saveable(noise: &ShardedNoise, strategy: &'static str, workload: String) -> Result<()> {
    if noise.save_part(0, &mut Vec::new()) {
        return Ok(());
    }
    Err(Error::NotApplicable {
        strategy,
        workload,
        reason: "its noise has no short memory that could be kept; use blt, scaled-blt, banded or binary-tree",
    })
}

/// Replaces the checkpoint at `path`.
pub(super) fn write(
    path: &Path,
    key: &[u8; 32],
    header: &Header,
    step: usize,
    noise: &ShardedNoise,
    row: Option<&[f64]>,
) -> Result<()> {
    let failed = |error: std::io::Error| refuse(path, &error.to_string());
    let cipher = XChaCha20Poly1305::new(key.into());
    let mut nonce = [0; 16];
    system_bytes(&mut nonce)?;
    let header = header.bytes(step, row.is_some(), &nonce);
    let temporary = beside(path, ".new");
    remove_leftover(&temporary).map_err(failed)?;
    let mut file = owner_only().open(&temporary).map_err(failed)?;
    file.write_all(&header).map_err(failed)?;
    let mut number = 0;
    let mut seal = |file: &mut File, chunks: &mut [Zeroizing<Vec<u8>>]| -> Result<()> {
        let first = number;
        chunks.par_iter_mut().enumerate().try_for_each(|(index, chunk)| {
            cipher
                .encrypt_in_place_detached(
                    &nonce_of(&header, first + index as u64),
                    &header,
                    chunk.as_mut_slice(),
                )
                .map(|tag| chunk.extend_from_slice(&tag))
                .map_err(|_| refuse(path, "a chunk is too large to be sealed"))
        })?;
        number += chunks.len() as u64;
        chunks.iter().try_for_each(|chunk| file.write_all(chunk)).map_err(failed)
    };
    let mut state = Zeroizing::new(Vec::new());
    let mut waiting: Vec<Zeroizing<Vec<u8>>> = Vec::with_capacity(TOGETHER);
    let parts: Vec<usize> = (0..noise.parts()).collect();
    for chunk in parts.chunks(PARTS) {
        state.clear();
        for part in chunk {
            if !noise.save_part(*part, &mut state) {
                return Err(refuse(path, "the noise has no state that can be kept"));
            }
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(4 * state.len() + TAG));
        // The state is kept in single precision, so nothing is rounded here.
        state.iter().for_each(|value| bytes.extend_from_slice(&(*value as f32).to_bits().to_le_bytes()));
        waiting.push(bytes);
        if waiting.len() == TOGETHER {
            seal(&mut file, &mut waiting)?;
            waiting.clear();
        }
    }
    seal(&mut file, &mut waiting)?;
    for chunk in row.unwrap_or_default().chunks(ROW) {
        let mut bytes = Zeroizing::new(Vec::with_capacity(8 * chunk.len() + TAG));
        chunk.iter().for_each(|value| bytes.extend_from_slice(&value.to_bits().to_le_bytes()));
        seal(&mut file, std::slice::from_mut(&mut bytes))?;
    }
    let replace = || -> std::io::Result<()> {
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_directory(path)
    };
    replace().map_err(failed)
}

/// Reads the checkpoint at `path`, if there is one, into fresh noise. Returns the row of the next step if it was made before
/// the noise was saved: the noise then stands behind that step.
pub(super) fn read(
    path: &Path,
    key: &[u8; 32],
    expected: &Header,
    noise: &mut ShardedNoise,
) -> Result<Option<Zeroizing<Vec<f64>>>> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => refuse(path, "it is truncated"),
        _ => refuse(path, &error.to_string()),
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut file = BufReader::new(file);
    let mut header = [0; HEADER];
    file.read_exact(&mut header).map_err(failed)?;
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(word)
    };
    if &header[..8] != MAGIC {
        return Err(refuse(path, "it is not the checkpoint of a shard, or of another version"));
    }
    if header[8..24] != expected.set || word(24) != expected.index as u64 {
        return Err(refuse(path, "it belongs to another shard"));
    }
    let stands = usize::try_from(word(32)).ok().and_then(|step| step.checked_add(usize::from(header[40])));
    let stands = stands.filter(|step| *step <= noise.steps());
    let stands = stands.ok_or_else(|| refuse(path, "its step lies past the horizon"))?;
    let cipher = XChaCha20Poly1305::new(key.into());
    let mut number = 0;
    let mut open = |file: &mut BufReader<File>, chunks: &mut [Zeroizing<Vec<u8>>]| -> Result<()> {
        chunks.iter_mut().try_for_each(|chunk| file.read_exact(chunk)).map_err(failed)?;
        let first = number;
        number += chunks.len() as u64;
        chunks.par_iter_mut().enumerate().try_for_each(|(index, chunk)| {
            let body = chunk.len() - TAG;
            let (values, tag) = chunk.split_at_mut(body);
            let tag: &[u8] = tag;
            cipher
                .decrypt_in_place_detached(
                    &nonce_of(&header, first + index as u64),
                    &header,
                    values,
                    tag.into(),
                )
                .map_err(|_| refuse(path, "its seal is broken: it is damaged, or of another key"))?;
            chunk.truncate(body);
            Ok(())
        })
    };
    let parts: Vec<usize> = (0..noise.parts()).collect();
    let mut state = Zeroizing::new(Vec::new());
    for group in parts.chunks(PARTS * TOGETHER) {
        let mut lengths: Vec<Vec<usize>> = Vec::with_capacity(TOGETHER);
        for chunk in group.chunks(PARTS) {
            let mut length = |part: &usize| {
                state.clear();
                noise.save_part(*part, &mut state);
                state.len()
            };
            lengths.push(chunk.iter().map(&mut length).collect());
        }
        let room = |lengths: &Vec<usize>| Zeroizing::new(vec![0; 4 * lengths.iter().sum::<usize>() + TAG]);
        let mut chunks: Vec<Zeroizing<Vec<u8>>> = lengths.iter().map(room).collect();
        open(&mut file, &mut chunks)?;
        let mut part = group[0];
        for (bytes, lengths) in chunks.iter().zip(&lengths) {
            let mut values = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            for length in lengths {
                state.clear();
                state.extend(values.by_ref().take(*length).map(f64::from));
                noise.restore_part(part, stands, &state)?;
                part += 1;
            }
        }
    }
    let mut row = None;
    if header[40] != 0 {
        let mut values = Zeroizing::new(vec![0.0; noise.range().len()]);
        for part in values.chunks_mut(ROW) {
            let mut bytes = Zeroizing::new(vec![0; 8 * part.len() + TAG]);
            open(&mut file, std::slice::from_mut(&mut bytes))?;
            for (value, bytes) in part.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *value = f64::from_le_bytes(*bytes);
            }
        }
        row = Some(values);
    }
    if file.read(&mut [0]).map_err(failed)? != 0 {
        return Err(refuse(path, "something follows its end"));
    }
    noise.restored(stands);
    Ok(row)
}
