//! The numbers of one CSV column, read by a thread of their own so that what has arrived can be released together.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result, anyhow, bail};

/// A number and the line it stands on.
pub(crate) struct Row {
    pub(crate) line: u64,
    pub(crate) value: f64,
}

/// Rows as they arrive. After an error nothing follows.
pub(crate) struct Rows {
    receiver: Receiver<Result<Row>>,
}

impl Rows {
    /// Starts to read. `-` is standard input, of which no row is skipped: a pipe brings new rows.
    pub(crate) fn open(input: &Path, column: &str, skip: usize, waiting: usize) -> Result<Self> {
        let is_pipe = input == Path::new("-");
        let name = if is_pipe { "standard input".to_owned() } else { format!("`{}`", input.display()) };
        let source: Box<dyn Read + Send> = if is_pipe {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(input).with_context(|| format!("cannot read {name}"))?)
        };
        let (sender, receiver) = sync_channel(waiting);
        let column = column.to_owned();
        let skip = if is_pipe { 0 } else { skip };
        std::thread::spawn(move || {
            if let Err(error) = read(source, &name, &column, skip, &sender) {
                // The receiver may be gone already; then nobody wants to know.
                let _ = sender.send(Err(error));
            }
        });
        Ok(Self { receiver })
    }

    /// The next row, waiting for it; none at the end.
    pub(crate) fn wait(&self) -> Option<Result<Row>> {
        self.receiver.recv().ok()
    }

    /// The next row if it has arrived already.
    pub(crate) fn ready(&self) -> Option<Result<Row>> {
        self.receiver.try_recv().ok()
    }
}

fn read(
    source: impl Read,
    name: &str,
    column: &str,
    skip: usize,
    sender: &SyncSender<Result<Row>>,
) -> Result<()> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source);
    let headers = reader.headers().with_context(|| format!("cannot read the header of {name}"))?;
    if headers.is_empty() || (headers.len() == 1 && headers[0].is_empty()) {
        bail!("{name} is empty; it needs a header line with the column `{column}` and one row per step");
    }
    let index = headers.iter().position(|header| header == column).ok_or_else(|| {
        let columns: Vec<&str> = headers.iter().collect();
        anyhow!("{name} has no column `{column}`; choose one of: {}", columns.join(", "))
    })?;
    let mut skipped = 0;
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        let more = reader.read_record(&mut record).map_err(|error| match error.kind() {
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => anyhow!(
                "{name}, line {}: the row has {len} fields, but the header has {expected_len}; complete the row",
                pos.as_ref().map_or(line, csv::Position::line)
            ),
            _ => anyhow::Error::new(error).context(format!("{name}, line {line}: the row cannot be read")),
        })?;
        if !more {
            break;
        }
        let line = record.position().map_or(line, csv::Position::line);
        if skipped < skip {
            skipped += 1;
            continue;
        }
        let text = record.get(index).unwrap_or("");
        let value: f64 = text.parse().map_err(|_| {
            anyhow!("{name}, line {line}: `{text}` in column `{column}` is not a number; correct or remove the row")
        })?;
        if !value.is_finite() {
            bail!(
                "{name}, line {line}: `{text}` in column `{column}` is not a finite number; correct or remove the row"
            );
        }
        if sender.send(Ok(Row { line, value })).is_err() {
            return Ok(());
        }
    }
    if skipped < skip {
        bail!(
            "{name} has {skipped} rows, but the state has used {skip} already; continue with the same file, longer by \
             the new rows"
        );
    }
    Ok(())
}
