//! Which rows were consumed: files may grow or be followed by others, but their past must not change.
//!
//! Of every file the state keeps a chain of keyed hashes over the used fields of its rows, at a bounded number of positions.
//! A file that is read again must begin with the same rows; those are skipped, and the ones behind them are new. The same
//! file name may also come back with new rows only: then none of its first rows is one of the first rows that are known.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::people::{HashKey, take};
use crate::rows::Row;

/// Rows at the beginning of a file that are remembered one by one.
const FIRST: usize = 64;

/// The most positions at which the chain of a file is remembered; their distance doubles when there are more.
const MOST_MARKS: usize = 4096;

type Hash = [u8; 16];

/// What is remembered of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Record {
    /// The number of rows consumed.
    rows: u64,
    /// The chain after the last of them.
    chain: Hash,
    /// The hashes of the first rows.
    first: Vec<Hash>,
    /// The chain after every `stride`-th row.
    marks: Vec<Hash>,
    stride: u64,
}

impl Record {
    fn push(&mut self, row: Hash, chain: Hash) {
        self.rows += 1;
        self.chain = chain;
        if self.first.len() < FIRST {
            self.first.push(row);
        }
        self.stride = self.stride.max(1);
        if self.rows.is_multiple_of(self.stride) {
            self.marks.push(chain);
            if self.marks.len() > MOST_MARKS {
                // Every second mark stays: those at multiples of twice the distance.
                let kept = self.marks.iter().skip(1).step_by(2).copied().collect();
                self.marks = kept;
                self.stride *= 2;
            }
        }
    }
}

/// All files that were read so far, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Consumed {
    files: BTreeMap<String, Record>,
}

/// A file while it is read: tells rows that are new from those that are known.
pub(crate) struct Reading<'a> {
    path: &'a Path,
    key: &'a HashKey,
    columns: usize,
    known: Record,
    /// What the file turns out to hold.
    seen: Record,
    /// Whether its rows follow the known ones, once its first row has decided it.
    verdict: Verdict,
    buffer: Vec<u8>,
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

impl Consumed {
    /// Begins to read a file.
    pub(crate) fn begin<'a>(
        &self,
        name: &str,
        path: &'a Path,
        columns: usize,
        key: &'a HashKey,
    ) -> Reading<'a> {
        let known = self.files.get(name).cloned().unwrap_or_default();
        let verdict = if known.rows == 0 { Verdict::New } else { Verdict::Open };
        Reading { path, key, columns, known, seen: Record::default(), verdict, buffer: Vec::new() }
    }

    /// Remembers a file that was read to its end.
    pub(crate) fn end(&mut self, name: &str, reading: Reading<'_>) -> Result<()> {
        let record = reading.finish()?;
        self.files.insert(name.to_owned(), record);
        Ok(())
    }

    /// All of it as bytes, for the sealed state.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let count = |bytes: &mut Vec<u8>, number: u64| bytes.extend_from_slice(&number.to_le_bytes());
        count(bytes, self.files.len() as u64);
        for (name, record) in &self.files {
            count(bytes, name.len() as u64);
            bytes.extend_from_slice(name.as_bytes());
            count(bytes, record.rows);
            count(bytes, record.stride);
            bytes.extend_from_slice(&record.chain);
            for hashes in [&record.first, &record.marks] {
                count(bytes, hashes.len() as u64);
                hashes.iter().for_each(|hash| bytes.extend_from_slice(hash));
            }
        }
    }

    /// Reads what [`Consumed::encode`] wrote; nothing if the bytes are not that.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let count = |bytes: &mut &[u8]| usize::try_from(u64::from_le_bytes(take(bytes)?)).ok();
        let mut files = BTreeMap::new();
        for _ in 0..count(bytes)? {
            let length = count(bytes)?;
            let (name, rest) = bytes.split_at_checked(length)?;
            let name = String::from_utf8(name.to_vec()).ok()?;
            *bytes = rest;
            let (rows, stride) = (count(bytes)? as u64, count(bytes)? as u64);
            let chain = take(bytes)?;
            let mut hashes = || {
                let length = count(bytes)?;
                (0..length).map(|_| take(bytes)).collect::<Option<Vec<Hash>>>()
            };
            let (first, marks) = (hashes()?, hashes()?);
            files.insert(name, Record { rows, chain, first, marks, stride });
        }
        Some(Self { files })
    }
}

impl Reading<'_> {
    /// Takes the next row of the file and says whether it is new.
    ///
    /// # Errors
    /// [`Error::Past`] where a known row is not there any more.
    pub(crate) fn is_new(&mut self, row: &Row<'_>) -> Result<bool> {
        self.buffer.clear();
        for column in 0..self.columns {
            // A length in front of each field, and another for none: no two rows run into the same bytes.
            let field = row.field(column);
            let length = field.map_or(u32::MAX, |field| field.len() as u32);
            self.buffer.extend_from_slice(&length.to_le_bytes());
            self.buffer.extend_from_slice(field.unwrap_or_default());
        }
        let hash = short(self.key, &self.buffer);
        let mut link = [0; 32];
        link[..16].copy_from_slice(&self.seen.chain);
        link[16..].copy_from_slice(&hash);
        let chain = short(self.key, &link);
        self.seen.push(hash, chain);
        match self.verdict {
            Verdict::New => {
                if self.known.rows > 0 && self.seen.rows <= FIRST as u64 && self.known.first.contains(&hash) {
                    return Err(self.changed(1, self.known.rows.min(FIRST as u64)));
                }
                Ok(true)
            }
            Verdict::Open if self.known.first.first() == Some(&hash) => {
                self.verdict = Verdict::Grown;
                self.check()
            }
            Verdict::Open if self.known.first.contains(&hash) => Err(self.changed(1, 1)),
            Verdict::Open => {
                self.verdict = Verdict::New;
                Ok(true)
            }
            Verdict::Grown => self.check(),
        }
    }

    /// Whether a row of a grown file is new; known rows must be as they were.
    fn check(&self) -> Result<bool> {
        let number = self.seen.rows;
        if number > self.known.rows {
            return Ok(true);
        }
        let index = (number - 1) as usize;
        let alone = self.known.first.get(index).zip(self.seen.first.get(index));
        if alone.is_some_and(|(known, seen)| known != seen) {
            return Err(self.changed(number, number));
        }
        let stride = self.known.stride.max(1);
        if number.is_multiple_of(stride) {
            let mark = self.known.marks.get((number / stride - 1) as usize);
            if mark.is_some_and(|mark| *mark != self.seen.chain) {
                return Err(self.changed(number + 1 - stride, number));
            }
        }
        if number == self.known.rows && self.known.chain != self.seen.chain {
            return Err(self.changed(number - number % stride + 1, number));
        }
        Ok(false)
    }

    fn changed(&self, first: u64, last: u64) -> Error {
        let rows =
            if first == last { format!("row {first} is") } else { format!("rows {first} to {last} are") };
        Error::Past {
            path: self.path.to_owned(),
            reason: format!(
                "{rows} not as an earlier run read them: rows that were counted must stay as they are. Restore the file, or \
                 give new rows a file of their own"
            ),
        }
    }

    fn finish(self) -> Result<Record> {
        match self.verdict {
            Verdict::Open => Ok(self.known),
            Verdict::Grown if self.seen.rows < self.known.rows => Err(Error::Past {
                path: self.path.to_owned(),
                reason: format!(
                    "an earlier run read {} rows, now there are {}: rows that were counted must stay as they are. Restore \
                     the file, or give new rows a file of their own",
                    self.known.rows, self.seen.rows
                ),
            }),
            Verdict::Grown | Verdict::New => Ok(self.seen),
        }
    }
}

fn short(key: &HashKey, bytes: &[u8]) -> Hash {
    let hash = blake3::keyed_hash(key.expose(), bytes);
    hash.as_bytes().split_first_chunk::<16>().map_or([0; 16], |(first, _)| *first)
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
        let key = HashKey::new([3; 32]);
        let mut reading = consumed.begin("rows.csv", &path, 2, &key);
        let mut new = Vec::new();
        rows::read(&path, &["a".to_owned(), "b".to_owned()], &mut |row| {
            if reading.is_new(row)? {
                new.push(row.line - 1);
            }
            Ok(())
        })?;
        let mut after = consumed.clone();
        after.end("rows.csv", reading)?;
        let mut bytes = Vec::new();
        after.encode(&mut bytes);
        *consumed = Consumed::decode(&mut bytes.as_slice()).unwrap();
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
