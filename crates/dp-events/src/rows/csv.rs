//! CSV files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder};

use super::{Fields, Row};
use crate::error::{Error, Mistake, Result};

/// Bytes that are read from the file at a time.
const BUFFER: usize = 1 << 18;

pub(super) fn read(
    path: &Path,
    columns: &[String],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    read_from(file, path, columns, each)
}

pub(super) fn read_from(
    source: impl Read,
    path: &Path,
    columns: &[String],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |error: csv::Error| Error::file(path, error);
    // Rows with fewer or more fields than the header are a matter of policy, not of this reader.
    let mut reader = ReaderBuilder::new()
        .flexible(true)
        .buffer_capacity(BUFFER)
        .from_reader(BufReader::with_capacity(BUFFER, source));
    let header = reader.byte_headers().map_err(failed)?;
    let places: Vec<usize> =
        columns.iter().map(|column| place(path, header, column)).collect::<Result<_>>()?;
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(failed)? {
        let line = record.position().map_or(0, csv::Position::line);
        each(&Row { line, fields: Fields::Record { record: &record, places: &places } })?;
    }
    Ok(())
}

pub(super) fn place(path: &Path, header: &ByteRecord, column: &str) -> Result<usize> {
    // A mark that some programs put in front of UTF-8.
    let bare = |name: &[u8]| name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name).trim_ascii().to_vec();
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
                "there is no column `{column}`; the columns are {}",
                if list.is_empty() { "none: the file is empty".to_owned() } else { list.join(", ") }
            )))
        }
    }
}

#[cfg(test)]
mod tests {
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
}
