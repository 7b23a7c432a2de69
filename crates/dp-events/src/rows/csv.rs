//! CSV files: lines without quotes are split as they are, all others by a full reader.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder};
use memchr::{memchr, memchr_iter, memchr2};

use super::{Fields, Row};
use crate::error::{Error, Mistake, Result};

/// Bytes that are read from the file at a time.
const BUFFER: usize = 1 << 18;

/// A mark that some programs put in front of UTF-8.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) fn read(
    path: &Path,
    columns: &[String],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |error| Error::file(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let mut first = [0; 4];
    let length = file.read(&mut first).map_err(failed)?;
    if let Some(message) = other_format(&first[..length]) {
        return Err(Error::Input(Mistake { file: path.to_owned(), line: 1, message: message.to_owned() }));
    }
    read_from(first[..length].chain(file), path, columns, each)
}

/// What to do with a file that is no CSV by its first bytes.
pub(super) fn other_format(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 6] = [
        (b"\x1f\x8b", "the file is compressed with gzip; unpack it, or write it as Parquet"),
        (b"\x28\xb5\x2f\xfd", "the file is compressed with zstd; unpack it, or write it as Parquet"),
        (b"PK\x03\x04", "the file is a zip archive, as spreadsheets are; save it as CSV"),
        (b"PAR1", "the file is Parquet; give it a name that ends in `.parquet`"),
        (b"\xff\xfe", "the file is written in UTF-16; save it as UTF-8"),
        (b"\xfe\xff", "the file is written in UTF-16; save it as UTF-8"),
    ];
    known.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, message)| *message)
}

/// Reads line by line for as long as no quote and no lone carriage return appears, and hands the rest to a full reader, which
/// gives the same fields for the same lines.
///
/// # Complexity
/// Lines are split up to the last column that is used; memory holds a buffer, or the longest line if that is longer.
pub(super) fn read_from(
    mut source: impl Read,
    path: &Path,
    columns: &[String],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let mut lines = Lines::default();
    let (mut buffer, mut filled) = (vec![0; BUFFER], 0);
    loop {
        if filled == buffer.len() {
            // A line longer than the buffer.
            buffer.resize(2 * buffer.len(), 0);
        }
        let read = match source.read(&mut buffer[filled..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.map_err(|error| Error::file(path, error))?,
        };
        let last = read == 0;
        filled += read;
        let (used, plain) = lines.take(&buffer[..filled], last, path, columns, each)?;
        if !plain {
            return lines.full(&buffer[used..filled], source, path, columns, each);
        }
        buffer.copy_within(used..filled, 0);
        filled -= used;
        if last {
            return lines.finish(path, columns);
        }
    }
}

/// Reads the lines of a part of a file, as [`read_from`] reads a whole one. Given where the columns stand, the part is one behind
/// the header, and its lines are counted from 2.
pub(super) fn read_part(
    bytes: &[u8],
    path: &Path,
    columns: &[String],
    places: Option<&[usize]>,
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let mut lines = Lines::default();
    if let Some(places) = places {
        (lines.line, lines.header) = (1, true);
        lines.at(places.to_vec());
    }
    let (used, plain) = lines.take(bytes, true, path, columns, each)?;
    if plain {
        lines.finish(path, columns)
    } else {
        lines.full(&bytes[used..], std::io::empty(), path, columns, each)
    }
}

/// What is known while lines are read.
#[derive(Default)]
struct Lines {
    places: Vec<usize>,
    /// Where the fields of the current line end.
    ends: Vec<usize>,
    /// The number of fields up to the last one that is used.
    most: usize,
    line: u64,
    header: bool,
}

impl Lines {
    /// Takes all whole lines of some bytes, and the last one where the file ends. Returns how many bytes were used, and whether
    /// the next line can be taken in the same way.
    fn take(
        &mut self,
        bytes: &[u8],
        last: bool,
        path: &Path,
        columns: &[String],
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<(usize, bool)> {
        let mut start = 0;
        while start < bytes.len() {
            let (end, next) = match memchr(b'\n', &bytes[start..]) {
                Some(length) => (start + length, start + length + 1),
                None if last => (bytes.len(), bytes.len()),
                // The last byte may be the first half of a line break.
                None => return Ok((start, !needs_full_reader(&bytes[start..bytes.len() - 1]))),
            };
            let line = &bytes[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if needs_full_reader(line) {
                return Ok((start, false));
            }
            let line = if self.line == 0 { line.strip_prefix(BOM).unwrap_or(line) } else { line };
            self.line += 1;
            start = next;
            if line.is_empty() {
                continue;
            }
            if !self.header {
                self.header = true;
                let header: ByteRecord = line.split(|byte| *byte == b',').collect();
                self.begin(path, &header, columns)?;
                continue;
            }
            self.ends.clear();
            self.ends.extend(memchr_iter(b',', line).take(self.most));
            if self.ends.len() < self.most {
                self.ends.push(line.len());
            }
            let fields = Fields::Line { line, ends: &self.ends, places: &self.places };
            each(&Row { line: self.line, fields })?;
        }
        Ok((start, true))
    }

    fn begin(&mut self, path: &Path, header: &ByteRecord, columns: &[String]) -> Result<()> {
        self.at(columns.iter().map(|column| place(path, header, column)).collect::<Result<_>>()?);
        Ok(())
    }

    /// The columns stand at these places.
    fn at(&mut self, places: Vec<usize>) {
        self.most = places.iter().max().map_or(0, |last| last + 1);
        self.places = places;
    }

    /// The end of a file. One without a header has no columns.
    fn finish(mut self, path: &Path, columns: &[String]) -> Result<()> {
        if self.header { Ok(()) } else { self.begin(path, &ByteRecord::new(), columns) }
    }

    /// The rest of a file, with everything that CSV allows: the bytes that are in memory, and what follows them.
    fn full(
        mut self,
        bytes: &[u8],
        source: impl Read,
        path: &Path,
        columns: &[String],
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let failed = |error: csv::Error| Error::file(path, error);
        // The reader takes a mark from the beginning of what it reads, which is not the beginning of the file: one more mark keeps
        // it from taking a part of a field.
        let mut begin = if self.line == 0 { Vec::new() } else { BOM.to_vec() };
        begin.extend_from_slice(bytes);
        // Rows with fewer or more fields than the header are a matter of policy, not of this reader.
        let mut reader = ReaderBuilder::new()
            .flexible(true)
            .has_headers(false)
            .buffer_capacity(BUFFER)
            .from_reader(Seen { source: Cursor::new(begin).chain(source), bytes: Vec::new(), used: 0 });
        let (mut record, mut read) = (ByteRecord::new(), 0);
        while reader.read_byte_record(&mut record).map_err(failed)? {
            let end = reader.position().byte();
            let (line, lines) = reader.get_mut().lines_of((end - read) as usize);
            let line = self.line + line;
            (self.line, read) = (self.line + lines, end);
            if !self.header {
                self.header = true;
                self.begin(path, &record, columns)?;
                continue;
            }
            each(&Row { line, fields: Fields::Record { record: &record, places: &self.places } })?;
        }
        self.finish(path, columns)
    }
}

/// A source that keeps what was read of it until its lines are counted. The full reader counts lines for itself, but takes blank
/// lines before a record, and the second half of a line end, for a part of that record.
struct Seen<R> {
    source: R,
    bytes: Vec<u8>,
    used: usize,
}

impl<R: Read> Read for Seen<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.bytes.drain(..self.used);
        self.used = 0;
        let length = self.source.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..length]);
        Ok(length)
    }
}

impl<R> Seen<R> {
    /// The line on which the record in the next so many bytes begins, counted from the 1 of their first, and their line ends.
    fn lines_of(&mut self, length: usize) -> (u64, u64) {
        let bytes = self.bytes.get(self.used..self.used + length).unwrap_or_default();
        self.used += bytes.len();
        let record = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let blank = record.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        let before = blank.filter(|byte| **byte == b'\n').count() as u64;
        (before + 1, memchr_iter(b'\n', bytes).count() as u64)
    }
}

/// Whether a line, or the beginning of one, cannot be split as it is.
fn needs_full_reader(line: &[u8]) -> bool {
    memchr2(b'"', b'\r', line).is_some()
}

pub(super) fn place(path: &Path, header: &ByteRecord, column: &str) -> Result<usize> {
    let bare = |name: &[u8]| name.strip_prefix(BOM).unwrap_or(name).trim_ascii().to_vec();
    let names: Vec<Vec<u8>> = header.iter().map(bare).collect();
    let mut found = (0..names.len()).filter(|index| names[*index] == column.as_bytes());
    let mistake = |message: String| Error::Input(Mistake { file: path.to_owned(), line: 1, message });
    match (found.next(), found.next()) {
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => {
            Err(mistake(format!("the column `{column}` is there twice; rename one of them")))
        }
        (None, _) => {
            let list: Vec<String> =
                names.iter().map(|name| format!("`{}`", String::from_utf8_lossy(name))).collect();
            Err(mistake(format!(
                "there is no column `{column}`; the columns are {}{}",
                if list.is_empty() { "none: the file is empty".to_owned() } else { list.join(", ") },
                other_delimiter(&names)
            )))
        }
    }
}

/// What to do where everything stands in one column because the fields are separated by something else than commas.
fn other_delimiter(names: &[Vec<u8>]) -> String {
    let [only] = names else { return String::new() };
    let known = [(b';', "semicolons"), (b'\t', "tabs"), (b'|', "bars")];
    match known.iter().find(|(byte, _)| only.contains(byte)) {
        Some((_, what)) => format!("; the fields seem to be separated by {what}: save the file with commas"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn rows(text: &str, columns: &[&str]) -> Result<Vec<(u64, Vec<Option<String>>)>> {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let mut found = Vec::new();
        read_from(text.as_bytes(), Path::new("a.csv"), &columns, &mut |row| {
            let text = |column| row.field(column).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            found.push((row.line, (0..columns.len()).map(text).collect()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn fields_come_in_the_order_that_was_asked_for() {
        let text = "\u{feff}a, b ,c\n1,2,3\n\"x\ny\",,\"q\"\"q\"\n4\n";
        let found = rows(text, &["c", "a", "b"]).unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found[0], (2, vec![some("3"), some("1"), some("2")]));
        assert_eq!(found[1], (3, vec![some("q\"q"), some("x\ny"), some("")]));
        assert_eq!(found[2], (5, vec![None, some("4"), None]));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn columns_that_are_missing_or_double_are_refused_by_name() {
        let missing = rows("a,b\n", &["time"]).unwrap_err().to_string();
        assert_eq!(missing, "a.csv:1: there is no column `time`; the columns are `a`, `b`");
        assert!(rows("a,a\n", &["a"]).unwrap_err().to_string().contains("twice"));
        assert!(rows("", &["a"]).unwrap_err().to_string().contains("empty"));
    }

    /// A source that gives so many bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let (drop, rest) = self.0.split_at(self.1.min(self.0.len()).min(buffer.len()));
            buffer[..drop.len()].copy_from_slice(drop);
            self.0 = rest;
            Ok(drop.len())
        }
    }

    type Pairs = std::result::Result<Vec<[Option<Vec<u8>>; 2]>, String>;

    /// Two columns of a text, by the reader above from drops of some size, and by a full reader alone.
    fn both_ways(text: &str, columns: [&str; 2], drop: usize) -> (Pairs, Pairs) {
        let (path, columns) = (Path::new("a.csv"), columns.map(str::to_owned));
        let mut found = Vec::new();
        let end = read_from(Drops(text.as_bytes(), drop), path, &columns, &mut |row| {
            found.push([0, 1].map(|column| row.field(column).map(<[u8]>::to_vec)));
            Ok(())
        });
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let header = reader.byte_headers().unwrap().clone();
        let places = columns.iter().map(|column| place(path, &header, column)).collect::<Result<Vec<_>>>();
        let expected = places.map_err(|error| error.to_string()).map(|places| {
            let records = reader.byte_records().map(|record| record.unwrap());
            records.map(|record| [0, 1].map(|i| record.get(places[i]).map(<[u8]>::to_vec))).collect()
        });
        (end.map(|()| found).map_err(|error| error.to_string()), expected)
    }

    /// Every text of up to six letters behind a header: lines that are split as they are, and those of a full reader, in
    /// whatever order they come, give the fields that a full reader gives for all of it.
    #[test]
    fn both_ways_of_reading_give_the_same_fields() {
        let letters = ["a", ",", "\"", "\n", "\r"];
        for length in 0..=6_u32 {
            for code in 0..5_usize.pow(length) {
                let body: String = (0..length).map(|i| letters[code / 5_usize.pow(i) % 5]).collect();
                let text = format!("p,q,r\n{body}");
                let (found, expected) = both_ways(&text, ["q", "p"], 1 + code % 9);
                assert_eq!(found, expected, "{text:?}");
            }
        }
    }

    /// The same on 20 000 random files: with and without a header that has the columns, a mark in front, quotes, blank lines,
    /// rows that are too short or too long and all line ends, from reads of 1 to 16 bytes. What is refused is refused alike.
    #[test]
    fn both_ways_of_reading_agree_on_random_files() {
        let pieces = [
            "p",
            "q",
            ",",
            ",",
            "\n",
            "\r\n",
            "7",
            " ",
            ",,",
            "\n\n",
            "\u{feff}",
            "\r",
            "\"",
            "\"\"",
            "\"x,\r\ny\"",
        ];
        let mut rng = StdRng::seed_from_u64(15);
        let (mut refused, mut rows) = (0, 0);
        for _ in 0..20_000 {
            // Without the last four a file is split as it is to its end; with few of them, to somewhere in its middle.
            let special = [0.0, 0.02, 0.3][rng.random_range(0..3_usize)];
            let mut text = if rng.random_bool(0.3) { "\u{feff}".to_owned() } else { String::new() };
            text += ["", "q,p\n", "r,p,q\r\n", "\"p\",q\n"][rng.random_range(0..4_usize)];
            for _ in 0..rng.random_range(0..60) {
                let from = if rng.random_bool(special) { 11..15 } else { 0..11 };
                text += pieces[rng.random_range(from)];
            }
            let (found, expected) = both_ways(&text, ["p", "q"], rng.random_range(1..=16));
            assert_eq!(found, expected, "{text:?}");
            refused += usize::from(found.is_err());
            rows += found.map_or(0, |rows| rows.len());
        }
        assert!(refused > 1000 && rows > 50_000, "{refused} {rows}");
    }

    /// A file with lone carriage returns is one line to a search for line feeds, and must not be kept in memory as one.
    #[test]
    fn what_is_no_plain_line_is_handed_on_before_its_end() {
        let mut lines = Lines { places: vec![0], ends: Vec::new(), most: 1, line: 1, header: true };
        let mut take = |bytes: &[u8]| {
            let nobody: &mut dyn FnMut(&Row<'_>) -> Result<()> = &mut |_| panic!("there is no whole line");
            lines.take(bytes, false, Path::new("a.csv"), &["a".to_owned()], nobody).unwrap()
        };
        assert_eq!(take(b"1,2\r3,4"), (0, false));
        assert_eq!(take(b"1,\"2"), (0, false));
        assert_eq!(take(b"1,2\r"), (0, true));
        assert_eq!(take(b"1"), (0, true));
    }

    #[test]
    fn lines_may_be_longer_than_the_buffer_and_end_without_a_break() {
        let long = "x".repeat(BUFFER + 7);
        let text = format!("a,b\r\n1,{long}\r\n\r\n2,y");
        let found = rows(&text, &["a", "b"]).unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found, [(2, vec![some("1"), some(&long)]), (4, vec![some("2"), some("y")])]);
    }
}
