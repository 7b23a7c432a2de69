//! Named columns of a CSV file, row by row, with errors that say where.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

/// A CSV file with a header line, and the row that was read last.
pub(crate) struct Records {
    reader: csv::Reader<Box<dyn Read>>,
    record: csv::StringRecord,
    columns: Vec<(String, usize)>,
    name: String,
    line: u64,
}

impl Records {
    /// Opens a file, or standard input for `-`, and reads its header.
    pub(crate) fn open(input: &Path, columns: &[&str]) -> Result<Self> {
        let (mut reader, name) = reader(input)?;
        let headers = reader.headers().with_context(|| format!("cannot read the header of {name}"))?;
        if headers.is_empty() || (headers.len() == 1 && headers[0].is_empty()) {
            bail!(
                "{name} is empty; it needs a header line with the column `{}` and one row per step",
                columns.join("`, `")
            );
        }
        let find = |column: &&str| {
            let index = headers.iter().position(|header| header == *column).ok_or_else(|| {
                let known: Vec<&str> = headers.iter().collect();
                anyhow!("{name} has no column `{column}`; choose one of: {}", known.join(", "))
            })?;
            Ok(((*column).to_owned(), index))
        };
        let columns = columns.iter().map(find).collect::<Result<_>>()?;
        Ok(Self { reader, record: csv::StringRecord::new(), columns, name, line: 1 })
    }

    /// Reads the next row; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.line = self.reader.position().line();
        let more = self.reader.read_record(&mut self.record).map_err(|error| match error.kind() {
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => anyhow!(
                "{}, line {}: the row has {len} fields, but the header has {expected_len}; complete the row",
                self.name,
                pos.as_ref().map_or(self.line, csv::Position::line)
            ),
            _ => anyhow::Error::new(error)
                .context(format!("{}, line {}: the row cannot be read", self.name, self.line)),
        })?;
        self.line = self.record.position().map_or(self.line, csv::Position::line);
        Ok(more)
    }

    /// The fields of the row, one for each column that was asked for.
    pub(crate) fn fields(&self) -> Vec<&str> {
        self.columns.iter().map(|(_, index)| self.record.get(*index).unwrap_or("")).collect()
    }

    /// The finite number in the first of the columns.
    pub(crate) fn number(&self) -> Result<f64> {
        let (column, index) = self.columns.first().context("no column was asked for")?;
        let text = self.record.get(*index).unwrap_or("");
        let wrong = |what: &str| {
            anyhow!(
                "{}: `{text}` in column `{column}` is not a {what}; correct or remove the row",
                self.place()
            )
        };
        let value: f64 = text.parse().map_err(|_| wrong("number"))?;
        if value.is_finite() { Ok(value) } else { Err(wrong("finite number")) }
    }

    /// What the source is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The line on which the row stands.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Where the row stands, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}, line {}", self.name, self.line)
    }
}

/// A reader of a CSV file with a header line, or of standard input for `-`, and what to call it in messages.
pub(crate) fn reader(input: &Path) -> Result<(csv::Reader<Box<dyn Read>>, String)> {
    let (source, name): (Box<dyn Read>, String) = if input == Path::new("-") {
        (Box::new(std::io::stdin()), "standard input".to_owned())
    } else {
        let name = format!("`{}`", input.display());
        (Box::new(File::open(input).with_context(|| format!("cannot read {name}"))?), name)
    };
    Ok((csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source), name))
}
