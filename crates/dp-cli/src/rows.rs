//! The rows of a CSV file, read by a thread of their own so that what has arrived can be released together.

use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::Result;

use crate::records::{Records, Row};

/// Rows as they arrive. After an error nothing follows.
pub(crate) struct Rows {
    receiver: Receiver<Result<Row>>,
}

impl Rows {
    /// Starts to read, at most `waiting` rows ahead.
    pub(crate) fn start(mut records: Records, waiting: usize) -> Self {
        let (sender, receiver) = sync_channel(waiting);
        std::thread::spawn(move || {
            while let Some(row) = records.next_row().transpose() {
                let last = row.is_err();
                // The receiver may be gone already; then nobody wants to know.
                if sender.send(row).is_err() || last {
                    return;
                }
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
