//! The numbers of one CSV column, read by a thread of their own so that what has arrived can be released together.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Result, bail};

use crate::records::Records;

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
    pub(crate) fn open(input: &Path, column: &str, skip: usize, waiting: usize) -> Self {
        let (sender, receiver) = sync_channel(waiting);
        let (input, column) = (input.to_owned(), column.to_owned());
        let skip = if input == Path::new("-") { 0 } else { skip };
        std::thread::spawn(move || {
            if let Err(error) = read(&input, &column, skip, &sender) {
                // The receiver may be gone already; then nobody wants to know.
                let _ = sender.send(Err(error));
            }
        });
        Self { receiver }
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

fn read(input: &Path, column: &str, skip: usize, sender: &SyncSender<Result<Row>>) -> Result<()> {
    let mut records = Records::open(input, &[column])?;
    let mut rows = 0;
    while records.advance()? {
        rows += 1;
        if rows <= skip {
            continue;
        }
        let row = Row { line: records.line(), value: records.number()? };
        if sender.send(Ok(row)).is_err() {
            return Ok(());
        }
    }
    if rows < skip {
        bail!(
            "{} has {rows} rows, but the state has used {skip} already; continue with the same file, longer by the new \
             rows",
            records.name()
        );
    }
    Ok(())
}
