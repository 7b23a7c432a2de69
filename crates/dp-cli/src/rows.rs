//! The rows of a CSV file step by step, read by a thread of their own so that what has arrived can be released together.

use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::Result;

use crate::records::{Records, Row};

/// The rows of each step as they arrive. After an error nothing follows.
pub(crate) struct Rows {
    receiver: Receiver<Result<Vec<Row>>>,
}

impl Rows {
    /// Starts to read, at most `waiting` steps ahead.
    pub(crate) fn start(
        steps: impl Iterator<Item = Result<Vec<Row>>> + Send + 'static,
        waiting: usize,
    ) -> Self {
        let (sender, receiver) = sync_channel(waiting);
        std::thread::spawn(move || {
            for rows in steps {
                let last = rows.is_err();
                // The receiver may be gone already; then nobody wants to know.
                if sender.send(rows).is_err() || last {
                    return;
                }
            }
        });
        Self { receiver }
    }

    /// The rows of the next step, waiting for them; none at the end.
    pub(crate) fn wait(&self) -> Option<Result<Vec<Row>>> {
        self.receiver.recv().ok()
    }

    /// The rows of the next step if they have arrived already.
    pub(crate) fn ready(&self) -> Option<Result<Vec<Row>>> {
        self.receiver.try_recv().ok()
    }
}

/// A step for every row.
pub(crate) fn one_per_step(mut records: Records) -> impl Iterator<Item = Result<Vec<Row>>> + Send + 'static {
    std::iter::from_fn(move || Some(records.next_row().transpose()?.map(|row| vec![row])))
}
