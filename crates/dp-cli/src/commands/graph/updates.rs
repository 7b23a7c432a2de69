//! Edge updates from CSV, one batch per step.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use dp_apps::graph::EdgeUpdate;
use serde::Deserialize;

use crate::records;

/// The updates of one step.
pub(super) struct Batch {
    pub(super) step: usize,
    pub(super) updates: Vec<EdgeUpdate>,
    /// Where they stand, for messages.
    pub(super) place: String,
}

#[derive(Clone, Copy, Deserialize)]
struct Row {
    step: usize,
    u: usize,
    v: usize,
    #[serde(default = "one")]
    weight: f64,
}

fn one() -> f64 {
    1.0
}

/// The batches of all steps up to the last one that has a row; steps without rows are empty batches.
pub(super) struct Batches {
    name: String,
    rows: csv::DeserializeRecordsIntoIter<Box<dyn Read>, Row>,
    /// The first row of a later step.
    ahead: Option<Row>,
    /// The step of the last batch.
    step: usize,
    line: u64,
    failed: bool,
}

impl Batches {
    /// Starts to read; `-` is standard input.
    pub(super) fn open(input: &Path) -> Result<Self> {
        let (mut reader, name) = records::reader(input)?;
        let headers = reader.headers().with_context(|| format!("cannot read the header of {name}"))?;
        for column in ["step", "u", "v"] {
            if !headers.iter().any(|header| header == column) {
                bail!(
                    "{name} has no column `{column}`; it needs the header step,u,v,weight (weight may be left out)"
                );
            }
        }
        let rows = reader.into_deserialize();
        Ok(Self { name, rows, ahead: None, step: 0, line: 1, failed: false })
    }

    fn row(&mut self) -> Result<Option<Row>> {
        let Some(row) = self.rows.next() else { return Ok(None) };
        self.line += 1;
        let row = row.map_err(|error| anyhow!("{}: {error}; correct or remove the row", self.name))?;
        if row.step < self.step.max(1) {
            bail!(
                "{}, line {}: step {} comes after step {}; sort the rows by step, counted from 1",
                self.name,
                self.line,
                row.step,
                self.step
            );
        }
        Ok(Some(row))
    }

    fn batch(&mut self) -> Result<Option<Batch>> {
        let mut next = match self.ahead.take() {
            Some(row) => Some(row),
            None => self.row()?,
        };
        if next.is_none() {
            return Ok(None);
        }
        self.step += 1;
        let mut updates = Vec::new();
        while let Some(row) = next.take() {
            if row.step > self.step {
                self.ahead = Some(row);
                break;
            }
            updates.push(EdgeUpdate::new(row.u, row.v, row.weight));
            next = self.row()?;
        }
        Ok(Some(Batch { step: self.step, updates, place: format!("{}, step {}", self.name, self.step) }))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    /// After an error nothing follows.
    fn next(&mut self) -> Option<Result<Batch>> {
        if self.failed {
            return None;
        }
        let batch = self.batch().transpose();
        self.failed = matches!(batch, Some(Err(_)));
        batch
    }
}
