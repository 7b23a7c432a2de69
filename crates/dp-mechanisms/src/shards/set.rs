//! A set of shards: one manifest, one secret, ranges that cover every coordinate once.

use std::fmt;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::checkpoint::{Header, check_saveable};
use super::record::{self, Files};
use super::{NoiseShard, of_shards};
use crate::error::{Error, Result, check_count};
use crate::identity::Identity;
use crate::noise::{Origin, Precision, Seed, ShardedNoise, system_bytes};
use crate::plan::Plan;
use crate::state::{make_key, owner_only, read_key, refuse, sync_directory};

const MAGIC: &[u8; 8] = b"DPSHRDS1";
const NONCE: usize = 24;
const TAG: usize = 16;

/// The shards of one run, kept in a directory; see [`crate::shards`].
///
/// The directory holds a key, a manifest sealed with it (the plan, the ranges and the secret of the noise), and for each
/// shard a record and a checkpoint. Several machines share the directory, or each gets the key, the manifest and the files
/// of its own shards: moved there, never copied.
///
/// # Example
/// ```
/// use dp_mechanisms::shards::ShardSet;
/// use dp_mechanisms::sensitivity::Term;
/// use dp_mechanisms::{Budget, Footprint, Method, Participation, Plan, Problem, Relation, Seed, Workload};
/// let strategy = Method::Blt.build(&Problem::new(Workload::count(), 10)?)?;
/// let term = Term { weight: 1.0, participation: Participation::Single };
/// let footprint = Footprint::encoded(vec![term], Relation::ZeroOut)?;
/// let plan = Plan::idealized(strategy, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// let place = std::env::temp_dir().join(format!("dp-shards-{}", std::process::id()));
/// let set = ShardSet::create(&place, &plan, 100, &[0..60, 60..100], Seed::from_system()?)?;
/// let mut shard = set.shard(1)?;
/// let mut noisy = vec![0.0; 40];
/// shard.release(&[1.0; 40], &mut noisy)?;
/// shard.checkpoint()?;
/// drop(shard);
/// let again = ShardSet::open(&place, &plan)?.shard(1)?;
/// assert_eq!((again.step(), again.answered()), (1, 1));
/// std::fs::remove_dir_all(&place).unwrap();
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct ShardSet {
    directory: PathBuf,
    plan: Plan,
    key: Zeroizing<[u8; 32]>,
    id: [u8; 16],
    ranges: Vec<Range<usize>>,
    seed: Seed,
}

impl ShardSet {
    /// Makes a new set in a new directory, and consumes the seed.
    ///
    /// # Errors
    /// Ranges that are empty, overlap, or leave out a coordinate; a directory that is there already; what the file system
    /// refuses.
    pub fn create(
        directory: &Path,
        plan: &Plan,
        dimension: usize,
        ranges: &[Range<usize>],
        seed: Seed,
    ) -> Result<Self> {
        check_ranges(dimension, ranges)?;
        let plan = of_shards(plan, dimension)?;
        let failed = |error: std::io::Error| refuse(directory, &error.to_string());
        fs::create_dir(directory).map_err(failed)?;
        let path = directory.join("key");
        make_key(&path)?;
        let (key, _) = read_key(&path)?.ok_or_else(|| refuse(&path, "the key of the set is gone"))?;
        let mut id = [0; 16];
        system_bytes(&mut id)?;
        (0..ranges.len()).try_for_each(|index| record::create(directory, index))?;
        let set = Self { directory: directory.to_owned(), plan, key, id, ranges: ranges.to_vec(), seed };
        set.write()?;
        Ok(set)
    }

    /// The set in a directory.
    ///
    /// # Errors
    /// [`Error::State`]: no set, a damaged one, or one of another plan.
    pub fn open(directory: &Path, plan: &Plan) -> Result<Self> {
        let path = manifest(directory);
        let bytes = fs::read(&path).map_err(|error| refuse(&path, &error.to_string()))?;
        let key_path = directory.join("key");
        let (key, _) =
            read_key(&key_path)?.ok_or_else(|| refuse(&key_path, "the key of the set is missing"))?;
        let damaged = || refuse(&path, "it is damaged, or of another key");
        let rest =
            bytes.strip_prefix(MAGIC).ok_or_else(|| refuse(&path, "it is not the manifest of a set"))?;
        let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| damaged())?;
        let (identity, rest) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE>().ok_or_else(damaged)?;
        let (body, tag) = rest.split_last_chunk::<TAG>().ok_or_else(damaged)?;
        let mut body = Zeroizing::new(body.to_vec());
        let header = &bytes[..MAGIC.len() + 8 + length];
        XChaCha20Poly1305::new((&*key).into())
            .decrypt_in_place_detached(XNonce::from_slice(nonce), header, &mut body, tag.into())
            .map_err(|_| damaged())?;
        let (id, rest) = body.split_first_chunk::<16>().ok_or_else(damaged)?;
        let (seed, rest) = rest.split_first_chunk::<32>().ok_or_else(damaged)?;
        let (origin, ends) = rest.split_first().ok_or_else(damaged)?;
        let origin = match origin {
            0 => Origin::System,
            1 => Origin::Shared,
            _ => Origin::Reproducible,
        };
        let mut start = 0;
        let range = |end: &[u8; 8]| {
            let end = u64::from_le_bytes(*end) as usize;
            std::mem::replace(&mut start, end)..end
        };
        let ranges: Vec<Range<usize>> = ends.as_chunks::<8>().0.iter().map(range).collect();
        check_ranges(start, &ranges).map_err(|_| damaged())?;
        let plan = of_shards(plan, start)?;
        let saved = std::str::from_utf8(identity).ok().and_then(Identity::parse).ok_or_else(damaged)?;
        let differences = saved.differences(&plan.identity());
        if !differences.is_empty() {
            return Err(refuse(&path, &format!("it belongs to another plan: {}", differences.join(", "))));
        }
        Ok(Self {
            directory: directory.to_owned(),
            plan,
            id: *id,
            ranges,
            seed: Seed::from_bytes(*seed, origin),
            key,
        })
    }

    /// A shard: as it was at its last checkpoint, or at its first step.
    ///
    /// # Errors
    /// [`Error::State`]: another process (or another part of this one) holds the shard, its record is missing, its
    /// checkpoint damaged or that of another shard. A strategy whose noise cannot be kept or does not fit in memory; an
    /// index that is no shard.
    pub fn shard(&self, index: usize) -> Result<NoiseShard> {
        let range = self.ranges.get(index).cloned().ok_or(Error::OutOfRange {
            what: "index of a shard",
            value: index as f64,
            range: "below the number of shards",
        })?;
        let strategy = self.plan.strategy();
        let seed = self.seed.duplicate();
        let mut noise =
            ShardedNoise::new(strategy.as_ref(), seed, self.dimension(), range, Precision::Single)?;
        check_saveable(&noise, strategy.name(), strategy.workload().to_string())?;
        let header = Header { set: self.id, index };
        let files = Files::open(&self.directory, header, self.key.clone())?;
        let row = files.load(&mut noise)?;
        Ok(NoiseShard::around(self.plan.clone(), noise, row, Some(files)))
    }

    /// Where the secret comes from; releases of a [`Origin::Reproducible`] one are not private.
    pub fn origin(&self) -> Origin {
        self.seed.origin()
    }

    /// The ranges of the shards.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The number of coordinates of all shards.
    pub fn dimension(&self) -> usize {
        self.ranges.last().map_or(0, |range| range.end)
    }

    fn write(&self) -> Result<()> {
        let identity = self.plan.identity().to_string();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(identity.len() as u64).to_le_bytes());
        bytes.extend_from_slice(identity.as_bytes());
        let mut body = Zeroizing::new(Vec::with_capacity(16 + 32 + 1 + 8 * self.ranges.len()));
        body.extend_from_slice(&self.id);
        body.extend_from_slice(self.seed.expose());
        body.push(match self.seed.origin() {
            Origin::System => 0,
            Origin::Shared => 1,
            Origin::Reproducible => 2,
        });
        self.ranges.iter().for_each(|range| body.extend_from_slice(&(range.end as u64).to_le_bytes()));
        let mut nonce = [0; NONCE];
        system_bytes(&mut nonce)?;
        let path = manifest(&self.directory);
        let tag = XChaCha20Poly1305::new((&*self.key).into())
            .encrypt_in_place_detached(XNonce::from_slice(&nonce), &bytes, &mut body)
            .map_err(|_| refuse(&path, "it is too large to be sealed"))?;
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&tag);
        let write = || -> std::io::Result<()> {
            let temporary = self.directory.join("manifest.new");
            let mut file = owner_only().open(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            sync_directory(&path)?;
            sync_directory(&self.directory)
        };
        write().map_err(|error| refuse(&path, &error.to_string()))
    }
}

fn manifest(directory: &Path) -> PathBuf {
    directory.join("manifest")
}

/// Refuses ranges that overlap, leave a hole, or do not end at the last coordinate.
fn check_ranges(dimension: usize, ranges: &[Range<usize>]) -> Result<()> {
    check_count("number of shards", ranges.len())?;
    let mut end = 0;
    for range in ranges {
        if range.start != end {
            return Err(Error::OutOfRange {
                what: "the first coordinate of a shard",
                value: range.start as f64,
                range: "the end of the shard before it: shards neither overlap nor leave a hole",
            });
        }
        check_count("coordinates of a shard", range.len())?;
        end = range.end;
    }
    if end == dimension {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what: "the end of the last shard",
        value: end as f64,
        range: "the number of coordinates of all shards",
    })
}

/// The secret does not leave through a debug print.
impl fmt::Debug for ShardSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShardSet")
            .field("directory", &self.directory)
            .field("ranges", &self.ranges)
            .finish_non_exhaustive()
    }
}
