//! Rows of files, one after the other, as the fields that are used.
//!
//! | module | reads |
//! |---|---|
//! | `csv` | CSV, without allocating per row |
//! | [`blocks`] | parts of a CSV file, apart from each other |
//! | `parquet` | Parquet, with the feature of that name |

pub mod blocks;
mod csv;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::spec::Spec;

/// One row: where it is, and the fields that are used.
pub struct Row<'a> {
    /// The line on which it begins, or its number where a file has no lines.
    pub line: u64,
    fields: Fields<'a>,
}

enum Fields<'a> {
    /// A record of CSV and where the columns stand in it.
    Record { record: &'a ::csv::ByteRecord, places: &'a [usize] },
    /// A line without quotes, where its fields end, and where the columns stand among them.
    Line { line: &'a [u8], ends: &'a [usize], places: &'a [usize] },
    /// The columns themselves.
    Texts(&'a [Option<&'a [u8]>]),
    /// The same, of which some are dates and times by their type.
    #[cfg(feature = "parquet")]
    Typed { texts: &'a [Option<&'a [u8]>], times: &'a [bool] },
}

impl<'a> Row<'a> {
    /// A row from elsewhere than a file: its number, and its fields in the order of [`Spec::columns`], nothing for one that is
    /// absent.
    pub fn new(line: u64, fields: &'a [Option<&'a [u8]>]) -> Self {
        Self { line, fields: Fields::Texts(fields) }
    }

    /// Whether a field was a date or a time by its type: its text is written as RFC 3339 has it, whatever format texts have.
    pub fn is_time(&self, column: usize) -> bool {
        self.times().get(column).copied().unwrap_or(false)
    }

    /// By column whether it was a date or a time by its type; nothing where fields have no types.
    fn times(&self) -> &[bool] {
        match self.fields {
            #[cfg(feature = "parquet")]
            Fields::Typed { times, .. } => times,
            _ => &[],
        }
    }

    /// Whether an absent field is a blank one, as in Parquet and in tables in memory; a line of CSV without it has ended too early.
    pub(crate) fn has_blanks_absent(&self) -> bool {
        !matches!(self.fields, Fields::Record { .. } | Fields::Line { .. })
    }

    /// The field of a column, counted in the order in which columns were asked for; nothing if the row does not have it.
    pub fn field(&self, column: usize) -> Option<&[u8]> {
        match self.fields {
            Fields::Record { record, places } => record.get(*places.get(column)?),
            Fields::Line { line, ends, places } => {
                let place = *places.get(column)?;
                let end = *ends.get(place)?;
                let start =
                    place.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |comma| comma + 1);
                line.get(start..end)
            }
            Fields::Texts(texts) => *texts.get(column)?,
            #[cfg(feature = "parquet")]
            Fields::Typed { texts, .. } => *texts.get(column)?,
        }
    }
}

/// An input file and the name under which a state remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Its name in the description, with the name inside the folder where a folder is named.
    pub name: String,
}

/// Rows that are in memory already, in place of files.
pub trait Table {
    /// Hands every row to `each`, with the fields of the columns in their order, as the texts that a CSV file would hold.
    ///
    /// # Errors
    /// A column that the table does not have, or what `each` returns.
    fn read(&self, columns: &[String], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()>;
}

/// Where rows come from.
pub(crate) enum Source<'a> {
    File(InputFile),
    Table(&'a dyn Table),
}

impl Source<'_> {
    /// A file that no state remembers.
    fn of(path: &Path) -> Self {
        Self::File(InputFile { path: path.to_owned(), name: String::new() })
    }

    /// The name under which a state remembers it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::File(file) => &file.name,
            Self::Table(_) => "frame",
        }
    }

    /// What messages call it.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(file) => &file.path,
            Self::Table(_) => Path::new("frame"),
        }
    }

    /// Its length in bytes; 0 for what is not in a file.
    pub(crate) fn length(&self) -> Result<u64> {
        match self {
            Self::File(file) => length(&file.path),
            Self::Table(_) => Ok(0),
        }
    }

    /// Where its rows end, in bytes; see [`end`].
    pub(crate) fn end(&self, before: u64) -> u64 {
        match self {
            Self::File(file) => end(&file.path, before),
            Self::Table(_) => 0,
        }
    }

    /// Hands every row to `each`.
    pub(crate) fn read(
        &self,
        columns: &[String],
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::File(file) => read(&file.path, columns, each),
            Self::Table(table) => table.read(columns, each),
        }
    }

    /// Refuses what does not have the columns, without reading its rows.
    pub(crate) fn check_columns(&self, columns: &[String]) -> Result<()> {
        self.with_first(columns, &mut |_| Ok(()))
    }

    /// Hands the first row to `each`, or nothing where there is none.
    fn with_first<R>(
        &self,
        columns: &[String],
        each: &mut dyn FnMut(Option<&Row<'_>>) -> Result<R>,
    ) -> Result<R> {
        let mut found = None;
        let read = self.read(columns, &mut |row| {
            found = Some(each(Some(row)));
            // An error that stands for "enough": the first row ends the reading.
            Err(Error::file(self.path(), "enough"))
        });
        match found {
            Some(found) => found,
            None => read.and_then(|()| each(None)),
        }
    }
}

/// The files of a description, folders opened: those that end in `.csv` or `.parquet`, by name.
///
/// # Errors
/// A path that is not there, a folder that cannot be read or holds no such file, two files of one name.
pub fn files(spec: &Spec) -> Result<Vec<InputFile>> {
    let mut found: Vec<InputFile> = Vec::new();
    for written in &spec.input.files {
        let path = spec.resolve(written);
        let kind = std::fs::metadata(&path).map_err(|error| {
            let named = format!("name it as it is called under `input.files` of {}", spec.path.display());
            Error::file(&path, format!("{error}; put the file there, or {named}"))
        })?;
        let name = written.to_string_lossy().into_owned();
        if !kind.is_dir() {
            found.push(InputFile { path, name });
            continue;
        }
        let entries = std::fs::read_dir(&path).map_err(|error| Error::file(&path, error))?;
        let mut inside = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::file(&path, error))?.path();
            if is_csv(&entry) || is_parquet(&entry) {
                let inner = entry.file_name().unwrap_or_default().to_string_lossy();
                inside
                    .push(InputFile { name: format!("{}/{inner}", name.trim_end_matches('/')), path: entry });
            }
        }
        if inside.is_empty() {
            // Steps that close without rows are published for good, so a folder that is not there yet stops the run.
            let advice =
                "holds no file that ends in `.csv` or `.parquet`; put the rows there, or name their folder";
            return Err(Error::file(&path, advice));
        }
        inside.sort_by(|left, right| left.name.cmp(&right.name));
        found.extend(inside);
    }
    for (index, file) in found.iter().enumerate() {
        if found[..index].iter().any(|other| other.name == file.name) {
            return Err(Error::file(&file.path, "is listed twice; name every file once"));
        }
    }
    Ok(found)
}

/// The text of a file that somebody wrote, from its bytes: UTF-8, without the mark that some programs put in front of it.
///
/// # Errors
/// What is wrong, and what to do, as a sentence to stand behind the name of the file, with the line.
///
/// # Example
/// ```
/// use dp_events::rows::text_of;
/// assert_eq!(text_of(b"\xef\xbb\xbfNorth\n".to_vec()).unwrap(), "North\n");
/// assert_eq!(text_of(b"North\nK\xf6ln\n".to_vec()).unwrap_err().0, 2);
/// ```
pub fn text_of(bytes: Vec<u8>) -> std::result::Result<String, (u64, &'static str)> {
    if let Some(message) = csv::other_format(&bytes).filter(|message| message.contains("UTF-16")) {
        return Err((1, message));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        (
            1 + memchr::memchr_iter(b'\n', before).count() as u64,
            "this line is not UTF-8; save the file as UTF-8",
        )
    })?;
    match text.strip_prefix('\u{feff}') {
        Some(rest) => Ok(rest.to_owned()),
        None => Ok(text),
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

fn is_csv(path: &Path) -> bool {
    has_ending(path, "csv")
}

fn is_parquet(path: &Path) -> bool {
    has_ending(path, "parquet")
}

/// The length of a file in bytes.
///
/// # Errors
/// A file that cannot be read.
pub fn length(path: &Path) -> Result<u64> {
    std::fs::metadata(path).map(|file| file.len()).map_err(|error| Error::file(path, error))
}

/// Where the rows of a file end that had a length before it was read: there, if it is text and has not changed since; 0 otherwise.
pub(crate) fn end(path: &Path, before: u64) -> u64 {
    let same = length(path).is_ok_and(|after| after == before);
    if same && is_in_blocks(path) { before } else { 0 }
}

/// Whether a file can be read in blocks: CSV, but not Parquet.
pub fn is_in_blocks(path: &Path) -> bool {
    !is_parquet(path)
}

/// Hands every row of a file to `each`, with the fields of the columns in their order.
///
/// # Complexity
/// Linear in the bytes of the file; nothing is allocated per row of CSV.
///
/// # Errors
/// A file that cannot be read, a column that it does not have, or what `each` returns.
pub fn read(path: &Path, columns: &[String], each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
    if is_parquet(path) {
        #[cfg(feature = "parquet")]
        return parquet::read(path, columns, each);
        #[cfg(not(feature = "parquet"))]
        return Err(Error::file(path, "this program was built without Parquet; convert the file to CSV"));
    }
    csv::read(path, columns, each)
}

/// The names of the columns of a Parquet file, in their order.
///
/// # Errors
/// A file that cannot be read.
#[cfg(feature = "parquet")]
pub fn parquet_columns(path: &Path) -> Result<Vec<String>> {
    parquet::columns(path)
}

/// Hands every row of a Parquet file to `each`, as the texts of the columns in their order; a field that is absent or has no text
/// is empty.
///
/// # Errors
/// A file that cannot be read, a field that is no UTF-8, or what `each` returns.
#[cfg(feature = "parquet")]
pub fn read_parquet<E: From<Error>>(
    path: &Path,
    columns: &[String],
    mut each: impl FnMut(&[&str]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    // An error of the caller's ends the reading, and is returned in the place of the reader's own.
    let mut refused = None;
    let outcome = parquet::read(path, columns, &mut |row| {
        let text = |column: usize| std::str::from_utf8(row.field(column).unwrap_or_default());
        let texts = (0..columns.len()).map(text).collect::<std::result::Result<Vec<&str>, _>>();
        let texts = texts.map_err(|_| Error::file(path, format!("row {} is not UTF-8", row.line)))?;
        each(&texts).map_err(|error| {
            refused = Some(error);
            Error::file(path, "refused")
        })
    });
    match refused {
        Some(error) => Err(error),
        None => Ok(outcome?),
    }
}

/// Hands the first row of a file to `each`, or nothing where it has none.
///
/// # Errors
/// A file that cannot be read, a column that it does not have, or what `each` returns.
pub fn with_first<R>(
    path: &Path,
    columns: &[String],
    each: &mut dyn FnMut(Option<&Row<'_>>) -> Result<R>,
) -> Result<R> {
    Source::of(path).with_first(columns, each)
}

/// Refuses a file that does not have the columns, without reading its rows.
///
/// # Errors
/// A file that cannot be read, or a column that it does not have.
pub fn check_columns(path: &Path, columns: &[String]) -> Result<()> {
    Source::of(path).check_columns(columns)
}

/// The rows of a text of CSV, for tests.
#[cfg(test)]
pub(crate) fn read_text(
    text: &str,
    columns: &[String],
    each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    csv::read_from(text.as_bytes(), Path::new("rows.csv"), columns, each)
}
