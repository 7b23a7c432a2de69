//! Named columns of a CSV file, row by row, and what is to happen with rows that cannot be used.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};

/// The most bytes that a row may have: a field whose closing quote is missing would otherwise swallow the rest.
const LONGEST_ROW: usize = 1 << 24;

/// What happens with rows that cannot be used.
#[derive(Args, Clone, Copy)]
pub(crate) struct RowArguments {
    /// What happens with a row that cannot be used: the run ends there (refuse), or the row counts as a blank one (drop),
    /// or what is out of bounds is moved to the nearest bound and the rest counts as blank (clamp). That a run ended is
    /// seen by whoever sees the output; with drop and clamp nothing depends on the row
    #[arg(long, value_enum, value_name = "refuse|drop|clamp", default_value = "refuse")]
    pub(crate) bad_rows: BadRows,
    /// Show the value of a row that cannot be used in the message about it: somebody's data
    #[arg(long)]
    pub(crate) show_values: bool,
}

/// What happens with a row that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BadRows {
    /// The run ends, with what was released before
    Refuse,
    /// The row counts as a blank one
    Drop,
    /// What is out of bounds is moved to the nearest bound; what cannot be moved counts as blank
    Clamp,
}

/// What is wrong with a row.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The column, if it is the fault of one.
    pub(crate) column: Option<String>,
    /// What is wrong, without the value.
    pub(crate) what: String,
    /// The value: somebody's data.
    pub(crate) value: Option<String>,
}

impl Fault {
    /// Something wrong in a column.
    pub(crate) fn new(column: &str, what: impl Into<String>, value: &str) -> Self {
        Self { column: Some(column.to_owned()), what: what.into(), value: Some(value.to_owned()) }
    }

    /// What is wrong with a whole row, for whoever looks at its fields.
    pub(crate) fn without_column(&self) -> Self {
        Self { column: None, what: self.what.clone(), value: None }
    }

    /// What an application refused.
    pub(crate) fn of(error: &dp_apps::Error) -> Self {
        Self { column: None, what: error.without_values(), value: Some(error.to_string()) }
    }
}

impl RowArguments {
    /// A value that may stand for the row's: its own, or a blank one where the policy says so.
    pub(crate) fn settle<T>(
        self,
        place: &Place,
        value: Result<T, Fault>,
        blank: impl FnOnce() -> T,
    ) -> Result<T> {
        match value {
            Ok(value) => Ok(value),
            Err(_) if self.bad_rows != BadRows::Refuse => Ok(blank()),
            Err(fault) => Err(self.refusal(place, &fault)),
        }
    }

    /// The error that ends a run at a row.
    pub(crate) fn refusal(self, place: &Place, fault: &Fault) -> anyhow::Error {
        let column = fault.column.as_ref().map(|column| format!(", column `{column}`")).unwrap_or_default();
        let value = match &fault.value {
            Some(value) if self.show_values => format!(" ({value})"),
            Some(_) => " (--show-values shows the value)".to_owned(),
            None => String::new(),
        };
        anyhow!(
            "{place}{column}: {}{value}; correct the row, or choose with --bad-rows what happens with such rows",
            fault.what
        )
    }
}

/// Where a row stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    name: Arc<str>,
    line: u64,
}

#[cfg(test)]
impl Place {
    /// A place for tests that do not look at it.
    pub(crate) fn unknown() -> Self {
        Self { name: "a test".into(), line: 1 }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, line {}", self.name, self.line)
    }
}

/// One row: where it stands, and the fields that were asked for.
pub(crate) struct Row {
    pub(crate) place: Place,
    pub(crate) fields: Result<Vec<String>, Fault>,
}

/// A finite number from the text of a column.
pub(crate) fn number(column: &str, text: &str) -> Result<f64, Fault> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Fault::new(column, "not a finite number", text)),
        Err(_) => Err(Fault::new(column, "not a number", text)),
    }
}

/// A CSV file with a header line.
pub(crate) struct Records {
    reader: csv::Reader<Limited>,
    record: csv::ByteRecord,
    columns: Vec<(String, usize)>,
    width: usize,
    name: Arc<str>,
    used: Arc<AtomicUsize>,
}

impl Records {
    /// Opens a file, or standard input for `-`, reads its header, and finds the columns. Those of `optional` may be missing:
    /// their fields are empty then.
    pub(crate) fn open(input: &Path, columns: &[&str], optional: &[&str]) -> Result<Self> {
        let (source, name): (Box<dyn Read + Send>, String) = if input == Path::new("-") {
            (Box::new(io::stdin()), "standard input".to_owned())
        } else {
            let name = format!("`{}`", input.display());
            (Box::new(File::open(input).with_context(|| format!("cannot read {name}"))?), name)
        };
        let used = Arc::new(AtomicUsize::new(0));
        let source = Limited { source, used: Arc::clone(&used) };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(source);
        let headers =
            reader.byte_headers().with_context(|| format!("cannot read the header of {name}"))?.clone();
        if headers.is_empty() || (headers.len() == 1 && headers[0].is_empty()) {
            bail!("{name} is empty; it needs a header line with the column `{}`", columns.join("`, `"));
        }
        let find = |column: &str| headers.iter().position(|header| header == column.as_bytes());
        let mut found = Vec::new();
        for column in columns {
            let index = find(column).ok_or_else(|| {
                let known: Vec<_> = headers.iter().map(String::from_utf8_lossy).collect();
                anyhow!("{name} has no column `{column}`; choose one of: {}", known.join(", "))
            })?;
            found.push(((*column).to_owned(), index));
        }
        found
            .extend(optional.iter().map(|column| ((*column).to_owned(), find(column).unwrap_or(usize::MAX))));
        let width = headers.len();
        Ok(Self { reader, record: csv::ByteRecord::new(), columns: found, width, name: name.into(), used })
    }

    /// Reads the next row; none at the end.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>> {
        self.used.store(0, Ordering::Relaxed);
        let line = self.reader.position().line();
        let more = self
            .reader
            .read_byte_record(&mut self.record)
            .with_context(|| format!("{}, line {line}: the row cannot be read", self.name))?;
        if !more {
            return Ok(None);
        }
        let line = self.record.position().map_or(line, csv::Position::line);
        Ok(Some(Row { place: Place { name: Arc::clone(&self.name), line }, fields: self.fields() }))
    }

    fn fields(&self) -> Result<Vec<String>, Fault> {
        let (width, expected) = (self.record.len(), self.width);
        if width != expected {
            let what = format!("the row has {width} fields, but the header has {expected}");
            return Err(Fault { column: None, what, value: None });
        }
        let field = |(column, index): &(String, usize)| {
            let bytes = self.record.get(*index).unwrap_or_default();
            let text = std::str::from_utf8(bytes);
            text.map(str::to_owned).map_err(|_| Fault::new(column, "not text in UTF-8", "bytes"))
        };
        self.columns.iter().map(field).collect()
    }

    /// What the source is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// A source that refuses to give more than a row may have before it is asked for the next one.
struct Limited {
    source: Box<dyn Read + Send>,
    used: Arc<AtomicUsize>,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        if self.used.fetch_add(read, Ordering::Relaxed) > LONGEST_ROW {
            let message = format!("it has more than {LONGEST_ROW} bytes; is a quote missing?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(read)
    }
}
