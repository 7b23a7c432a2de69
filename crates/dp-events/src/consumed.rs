//! Which rows were consumed: files may grow or be followed by others, but their past must not change.
//!
//! Of every file the state keeps a digest of the used fields of its rows, also as it was at a bounded number of positions.
//! A file that is read again must begin with the same rows; those are skipped, and the ones behind them are new. The same
//! file name may also come back with new rows only: then none of its first rows is one of the first rows that are known.
//!
//! The digest of rows is a polynomial of their keyed hashes, so that digests of consecutive parts of a file, made apart from each
//! other, give the digest of the whole.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::people::{PseudonymKey, take};
use crate::rows::Row;
use crate::state::SecretBytes;

/// Rows at the beginning of a file that are remembered one by one.
const FIRST: usize = 64;

/// The most positions at which the digest of a file is remembered; every second one is forgotten when there are more.
const MOST_MARKS: usize = 4096;

/// The prime `2^61 - 1`.
const PRIME: u64 = (1 << 61) - 1;

type Hash = [u8; 16];

/// Two polynomials modulo a prime, at two secret places.
type Lanes = [u64; 2];

fn reduced(value: u128) -> u64 {
    let folded = (value & u128::from(PRIME)) as u64 + (value >> 61) as u64;
    if folded >= PRIME { folded - PRIME } else { folded }
}

/// `value · factor + addend`, lane by lane, all below the prime.
fn advance(value: Lanes, factor: Lanes, addend: Lanes) -> Lanes {
    let lane = |i: usize| reduced(u128::from(value[i]) * u128::from(factor[i]) + u128::from(addend[i]));
    [lane(0), lane(1)]
}

/// Hashes rows under a secret key.
#[derive(Clone)]
pub struct RowHasher {
    key: [u8; 32],
    places: Lanes,
    columns: usize,
    buffer: Vec<u8>,
}

impl RowHasher {
    /// For rows with so many used fields.
    pub fn new(key: &PseudonymKey, columns: usize) -> Self {
        let secret = blake3::keyed_hash(key.expose(), b"dp-events places of the digest of rows");
        let (key, bytes) = (*key.expose(), secret.as_bytes());
        Self { key, places: lanes(bytes), columns, buffer: Vec::new() }
    }

    fn hash(&mut self, row: &Row<'_>) -> Hash {
        self.buffer.clear();
        for column in 0..self.columns {
            // A length in front of each field, and another for none: no two rows run into the same bytes.
            let field = row.field(column);
            let length = field.map_or(u32::MAX, |field| field.len() as u32);
            self.buffer.extend_from_slice(&length.to_le_bytes());
            self.buffer.extend_from_slice(field.unwrap_or_default());
        }
        let hash = blake3::keyed_hash(&self.key, &self.buffer);
        hash.as_bytes().split_first_chunk::<16>().map_or([0; 16], |(first, _)| *first)
    }
}

impl Drop for RowHasher {
    fn drop(&mut self) {
        self.key.zeroize();
        self.places.zeroize();
        self.buffer.zeroize();
    }
}

/// The first 16 bytes as two numbers below the prime.
fn lanes(bytes: &[u8]) -> Lanes {
    let lane = |chunk: Option<&[u8]>| {
        let chunk = chunk.and_then(|chunk| chunk.try_into().ok()).unwrap_or([0; 8]);
        reduced(u128::from(u64::from_le_bytes(chunk)))
    };
    [lane(bytes.get(..8)), lane(bytes.get(8..16))]
}

/// What is remembered of consecutive rows: how many they are, the polynomial `Σ_i h_i g^{n-i}` of their hashes, and the hashes
/// of the first.
///
/// Two sequences that differ have the same digest with a probability of about `n / 2^122` over the secret key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    rows: u64,
    lanes: Lanes,
    first: Vec<Hash>,
}

impl Digest {
    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds the next row.
    pub fn push(&mut self, hasher: &mut RowHasher, row: &Row<'_>) {
        let hash = hasher.hash(row);
        self.push_hash(hasher, hash);
    }

    fn push_hash(&mut self, hasher: &RowHasher, hash: Hash) {
        self.rows += 1;
        self.lanes = advance(self.lanes, hasher.places, lanes(&hash));
        if self.first.len() < FIRST {
            self.first.push(hash);
        }
    }

    /// Adds the rows that follow.
    pub fn append(&mut self, hasher: &RowHasher, next: &Self) {
        let (mut power, mut square, mut exponent) = ([1, 1], hasher.places, next.rows);
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = advance(power, square, [0, 0]);
            }
            square = advance(square, square, [0, 0]);
            exponent >>= 1;
        }
        self.rows += next.rows;
        self.lanes = advance(self.lanes, power, next.lanes);
        let room = FIRST - self.first.len();
        self.first.extend(next.first.iter().take(room));
    }
}

/// What is remembered of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// All of its rows.
    digest: Digest,
    /// Where in the file they end, in bytes; 0 where that is not known.
    bytes: u64,
    /// The number of rows, and the digest of so many, at some positions.
    marks: Vec<(u64, Lanes)>,
    /// The distance of marks while rows are added one by one.
    stride: u64,
}

impl Record {
    fn push(&mut self, hasher: &RowHasher, hash: Hash) {
        self.digest.push_hash(hasher, hash);
        self.stride = self.stride.max(1);
        if self.digest.rows.is_multiple_of(self.stride) {
            self.mark();
        }
    }

    /// Remembers the digest as it is now.
    fn mark(&mut self) {
        self.marks.push((self.digest.rows, self.digest.lanes));
        if self.marks.len() > MOST_MARKS {
            // Every second mark stays: those at multiples of twice the distance.
            let kept = self.marks.iter().skip(1).step_by(2).copied().collect();
            self.marks = kept;
            self.stride *= 2;
        }
    }

    /// The first row behind the last mark before a row.
    fn after_mark(&self, row: u64) -> u64 {
        let index = self.marks.partition_point(|(rows, _)| *rows < row);
        index.checked_sub(1).map_or(1, |index| self.marks[index].0 + 1)
    }
}

/// All files that were read so far, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumed {
    files: BTreeMap<String, Record>,
}

/// A file while it is read: tells rows that are new from those that are known.
pub struct Reading<'a> {
    path: &'a Path,
    hasher: RowHasher,
    known: Record,
    /// What the file turns out to hold.
    seen: Record,
    /// Whether its rows follow the known ones, once its first row has decided it.
    verdict: Verdict,
    /// The line of the latest row.
    line: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing read yet.
    Open,
    /// The file begins as it did.
    Grown,
    /// The file holds new rows only.
    New,
}

/// Consecutive rows of a file: how far they reach, and what they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// The first byte behind them.
    pub end: u64,
    /// The rows.
    pub digest: Digest,
}

impl Consumed {
    /// What is remembered of some files alone.
    pub fn only<'a>(&self, names: impl Iterator<Item = &'a str>) -> Self {
        let records = names.filter_map(|name| Some((name.to_owned(), self.files.get(name)?.clone())));
        Self { files: records.collect() }
    }

    /// Begins to read a file from its first row to its last.
    pub fn begin<'a>(&self, name: &str, path: &'a Path, columns: usize, key: &PseudonymKey) -> Reading<'a> {
        let known = self.files.get(name).cloned().unwrap_or_default();
        let verdict = if known.digest.rows == 0 { Verdict::New } else { Verdict::Open };
        let (hasher, seen) = (RowHasher::new(key, columns), Record::default());
        Reading { path, hasher, known, seen, verdict, line: 1 }
    }

    /// Remembers a file that was read to its end.
    pub fn end(&mut self, name: &str, record: Record) {
        self.files.insert(name.to_owned(), record);
    }

    /// The first byte of a file that no earlier run has read, for somebody who reads it in parts: 0 if all of it is new. The first
    /// row decides whether it is the file that is known; nothing where only reading it from the beginning can tell.
    ///
    /// # Errors
    /// [`Error::Past`] if its first row is one of those that are known, and not the first.
    pub fn unread(
        &self,
        name: &str,
        path: &Path,
        hasher: &mut RowHasher,
        first: Option<&Row<'_>>,
    ) -> Result<Option<u64>> {
        let (Some(known), Some(first)) = (self.files.get(name), first) else { return Ok(Some(0)) };
        let hash = hasher.hash(first);
        match known.digest.first.iter().position(|known| *known == hash) {
            None => Ok(Some(0)),
            Some(0) => Ok((known.bytes > 0).then_some(known.bytes)),
            Some(_) => Err(changed(path, Some(first.line), 1, 1)),
        }
    }

    /// Remembers a file that was read in parts, given in their order; `unread` is what [`Consumed::unread`] returned, and one of
    /// the parts ends there.
    ///
    /// # Errors
    /// [`Error::Past`] where the known rows are not there any more.
    pub fn end_in_parts(
        &mut self,
        name: &str,
        path: &Path,
        hasher: &RowHasher,
        unread: u64,
        parts: &[Stretch],
    ) -> Result<()> {
        let known = self.files.get(name).filter(|_| unread > 0);
        let mut seen = Record { stride: 1, ..Record::default() };
        for part in parts {
            seen.digest.append(hasher, &part.digest);
            seen.bytes = part.end;
            seen.mark();
            if let Some(known) = known
                && part.end == unread
                && seen.digest != known.digest
            {
                return Err(changed(path, None, 1, known.digest.rows));
            }
        }
        match known {
            Some(known) if !parts.iter().any(|part| part.end == unread) => {
                return Err(vanished(path, None, known.digest.rows, seen.digest.rows));
            }
            None if unread == 0 => {
                let known = self.files.get(name).map_or(&[][..], |known| &known.digest.first);
                if seen.digest.first.iter().any(|hash| known.contains(hash)) {
                    return Err(changed(path, None, 1, known.len() as u64));
                }
            }
            _ => {}
        }
        if seen.digest.rows > 0 {
            self.files.insert(name.to_owned(), seen);
        }
        Ok(())
    }

    /// All of it as bytes, for the sealed state.
    pub(crate) fn encode(&self, bytes: &mut SecretBytes) {
        let count = |bytes: &mut SecretBytes, number: u64| bytes.extend_from_slice(&number.to_le_bytes());
        count(bytes, self.files.len() as u64);
        for (name, record) in &self.files {
            count(bytes, name.len() as u64);
            bytes.extend_from_slice(name.as_bytes());
            count(bytes, record.digest.rows);
            count(bytes, record.bytes);
            count(bytes, record.stride);
            record.digest.lanes.iter().for_each(|lane| count(bytes, *lane));
            count(bytes, record.digest.first.len() as u64);
            record.digest.first.iter().for_each(|hash| bytes.extend_from_slice(hash));
            count(bytes, record.marks.len() as u64);
            for (rows, lanes) in &record.marks {
                count(bytes, *rows);
                lanes.iter().for_each(|lane| count(bytes, *lane));
            }
        }
    }

    /// Reads what [`Consumed::encode`] wrote; nothing if the bytes are not that.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let number = |bytes: &mut &[u8]| take(bytes).map(u64::from_le_bytes);
        let mut files = BTreeMap::new();
        for _ in 0..number(bytes)? {
            let length = usize::try_from(number(bytes)?).ok()?;
            let (name, rest) = bytes.split_at_checked(length)?;
            let name = String::from_utf8(name.to_vec()).ok()?;
            *bytes = rest;
            let (rows, end, stride) = (number(bytes)?, number(bytes)?, number(bytes)?);
            let lanes = [number(bytes)?, number(bytes)?];
            let first = (0..number(bytes)?).map(|_| take(bytes)).collect::<Option<Vec<Hash>>>()?;
            let marks = (0..number(bytes)?)
                .map(|_| Some((number(bytes)?, [number(bytes)?, number(bytes)?])))
                .collect::<Option<Vec<_>>>()?;
            let record = Record { digest: Digest { rows, lanes, first }, bytes: end, marks, stride };
            files.insert(name, record);
        }
        Some(Self { files })
    }
}

impl Reading<'_> {
    /// Takes the next row of the file and says whether it is new.
    ///
    /// # Errors
    /// [`Error::Past`] where a known row is not there any more.
    pub fn is_new(&mut self, row: &Row<'_>) -> Result<bool> {
        let hash = self.hasher.hash(row);
        self.seen.push(&self.hasher, hash);
        self.line = row.line;
        let known = &self.known.digest;
        match self.verdict {
            Verdict::New => {
                let first = known.rows > 0 && self.seen.digest.rows <= FIRST as u64;
                if first && known.first.contains(&hash) {
                    return Err(changed(self.path, Some(row.line), 1, known.rows.min(FIRST as u64)));
                }
                Ok(true)
            }
            Verdict::Open if known.first.first() == Some(&hash) => {
                self.verdict = Verdict::Grown;
                self.check()
            }
            Verdict::Open if known.first.contains(&hash) => Err(changed(self.path, Some(row.line), 1, 1)),
            Verdict::Open => {
                self.verdict = Verdict::New;
                Ok(true)
            }
            Verdict::Grown => self.check(),
        }
    }

    /// Whether a row of a grown file is new; known rows must be as they were.
    fn check(&self) -> Result<bool> {
        let number = self.seen.digest.rows;
        if number > self.known.digest.rows {
            return Ok(true);
        }
        let index = (number - 1) as usize;
        let alone = self.known.digest.first.get(index).zip(self.seen.digest.first.get(index));
        if alone.is_some_and(|(known, seen)| known != seen) {
            return Err(changed(self.path, Some(self.line), number, number));
        }
        let mark = self.known.marks.binary_search_by_key(&number, |(rows, _)| *rows);
        let lanes = match mark {
            Ok(index) => Some(self.known.marks[index].1),
            Err(_) => (number == self.known.digest.rows).then_some(self.known.digest.lanes),
        };
        if lanes.is_some_and(|lanes| lanes != self.seen.digest.lanes) {
            return Err(changed(self.path, Some(self.line), self.known.after_mark(number), number));
        }
        Ok(false)
    }

    /// What is remembered of the file, whose rows end at a byte; 0 where that is not known.
    ///
    /// # Errors
    /// [`Error::Past`] where known rows are missing.
    pub fn finish(self, bytes: u64) -> Result<Record> {
        let (known, seen) = (self.known.digest.rows, self.seen.digest.rows);
        match self.verdict {
            Verdict::Open => Ok(self.known),
            Verdict::Grown if seen < known => Err(vanished(self.path, Some(self.line), known, seen)),
            Verdict::Grown | Verdict::New => Ok(Record { bytes, ..self.seen }),
        }
    }
}

fn changed(path: &Path, line: Option<u64>, first: u64, last: u64) -> Error {
    let rows = if first == last { format!("row {first} is") } else { format!("rows {first} to {last} are") };
    Error::Past {
        path: path.to_owned(),
        line,
        reason: format!(
            "{rows} not as an earlier run read them: rows that were counted must stay as they are. Restore the file, or \
             give new rows a file of their own"
        ),
    }
}

fn vanished(path: &Path, line: Option<u64>, known: u64, seen: u64) -> Error {
    Error::Past {
        path: path.to_owned(),
        line,
        reason: format!(
            "an earlier run read {known} rows, now there are {seen}: rows that were counted must stay as they are. Restore \
             the file, or give new rows a file of their own"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    /// The new rows of a file with these lines, after what is consumed.
    fn read(consumed: &mut Consumed, lines: &[String]) -> Result<Vec<u64>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, format!("a,b\n{}\n", lines.join("\n"))).unwrap();
        let key = PseudonymKey::new([3; 32]);
        let mut reading = consumed.begin("rows.csv", &path, 2, &key);
        let mut new = Vec::new();
        rows::read(&path, &["a".to_owned(), "b".to_owned()], &mut |row| {
            if reading.is_new(row)? {
                new.push(row.line - 1);
            }
            Ok(())
        })?;
        let mut after = consumed.clone();
        after.end("rows.csv", reading.finish(0)?);
        let mut bytes = SecretBytes::default();
        after.encode(&mut bytes);
        *consumed = Consumed::decode(&mut bytes.finish().as_slice()).unwrap();
        assert_eq!(*consumed, after);
        Ok(new)
    }

    fn lines(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|i| format!("{i},{}", i * i)).collect()
    }

    #[test]
    fn files_grow_and_are_followed_by_others() {
        let mut consumed = Consumed::default();
        assert_eq!(read(&mut consumed, &lines(0..100)).unwrap().len(), 100);
        assert_eq!(read(&mut consumed, &lines(0..100)).unwrap(), [0_u64; 0]);
        assert_eq!(read(&mut consumed, &lines(0..103)).unwrap(), [101, 102, 103]);
        // The same name with new rows only, which then grows in turn.
        assert_eq!(read(&mut consumed, &lines(200..202)).unwrap(), [1, 2]);
        assert_eq!(read(&mut consumed, &lines(200..205)).unwrap(), [3, 4, 5]);
    }

    #[test]
    fn a_changed_past_is_named_by_its_position() {
        let mut consumed = Consumed::default();
        read(&mut consumed, &lines(0..300)).unwrap();
        for place in [0, 1, 63, 64, 150, 299] {
            let mut changed = lines(0..310);
            changed[place].push('x');
            let message = read(&mut consumed.clone(), &changed).unwrap_err().to_string();
            let named =
                if place == 0 { "rows 1 to 64 are".to_owned() } else { format!("row {} is", place + 1) };
            assert!(message.contains(&named), "{place}: {message}");
            let mut vanished = lines(0..310);
            vanished.remove(place);
            let message = read(&mut consumed.clone(), &vanished).unwrap_err().to_string();
            assert!(message.contains(&format!("row {} is", place + 1)), "{place}: {message}");
        }
        let message = read(&mut consumed.clone(), &lines(0..299)).unwrap_err().to_string();
        assert!(message.contains("an earlier run read 300 rows, now there are 299"), "{message}");
        // The order of columns that are used is the order of the description, so other columns may come and go.
        assert_eq!(read(&mut consumed, &lines(0..301)).unwrap(), [301]);
    }

    /// However a file is cut, its digest is that of its rows one by one; and one that changed has another.
    #[test]
    fn digests_of_parts_are_the_digest_of_the_whole() {
        let key = PseudonymKey::new([4; 32]);
        let mut hasher = RowHasher::new(&key, 1);
        let of = |hasher: &mut RowHasher, rows: &[u32]| {
            let mut digest = Digest::default();
            let lines: String = rows.iter().flat_map(|row| [row.to_string(), "\n".to_owned()]).collect();
            rows::read_text(&format!("a\n{lines}"), &["a".to_owned()], &mut |row| {
                digest.push(hasher, row);
                Ok(())
            })
            .unwrap();
            digest
        };
        let rows: Vec<u32> = (0..200).collect();
        let whole = of(&mut hasher, &rows);
        for cuts in [[0, 0], [1, 1], [63, 64], [5, 199], [200, 200]] {
            let mut joined = of(&mut hasher, &rows[..cuts[0]]);
            for part in [&rows[cuts[0]..cuts[1]], &rows[cuts[1]..]] {
                let part = of(&mut hasher, part);
                joined.append(&hasher, &part);
            }
            assert_eq!(joined, whole, "{cuts:?}");
        }
        let (mut swapped, mut missing) = (rows.clone(), rows.clone());
        swapped.swap(100, 150);
        missing.remove(199);
        for other in [swapped, missing] {
            assert_ne!(of(&mut hasher, &other), whole);
        }
        let other_key = of(&mut RowHasher::new(&PseudonymKey::new([5; 32]), 1), &rows);
        assert_ne!(other_key, whole);
    }

    #[test]
    fn long_files_are_remembered_in_bounded_memory() {
        let mut consumed = Consumed::default();
        let rows = 4 * MOST_MARKS + 5;
        read(&mut consumed, &lines(0..rows)).unwrap();
        assert!(consumed.files["rows.csv"].marks.len() <= MOST_MARKS);
        for place in [5000, rows - 1] {
            let mut changed = lines(0..rows + 1);
            changed[place].push('x');
            let message = read(&mut consumed.clone(), &changed).unwrap_err().to_string();
            let named = message
                .split_once("rows ")
                .and_then(|(_, rest)| rest.split_once(" are"))
                .map(|(range, _)| range);
            let (first, last) = named.unwrap().split_once(" to ").unwrap();
            let range = first.parse::<usize>().unwrap()..=last.parse::<usize>().unwrap();
            assert!(range.contains(&(place + 1)) && range.end() - range.start() < 16, "{message}");
        }
    }
}
