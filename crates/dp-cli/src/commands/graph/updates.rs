//! Edge updates from CSV, one batch per step, for every step up to a public end.

use std::path::Path;

use anyhow::{Result, bail};
use dp_apps::graph::EdgeUpdate;

use crate::records::{self, Fault, Place, Records, Row, RowArguments};

/// The updates of one step, each with the place of its row.
pub(super) struct Batch {
    pub(super) step: usize,
    pub(super) updates: Vec<(Place, EdgeUpdate)>,
}

/// The batches of the steps 1 to `until`, whether they have rows or not: how many there are does not depend on the data.
pub(super) struct Batches {
    records: Records,
    policy: RowArguments,
    /// The first row of a later step.
    ahead: Option<(usize, Place, EdgeUpdate)>,
    /// The step of the last batch.
    step: usize,
    until: usize,
    /// The largest step that the plan allows.
    steps: usize,
}

impl Batches {
    /// Starts to read; `-` is standard input.
    pub(super) fn open(input: &Path, policy: RowArguments, until: usize, steps: usize) -> Result<Self> {
        let records = Records::open(input, &["step", "u", "v"], &["weight"])?;
        Ok(Self { records, policy, ahead: None, step: 0, until, steps })
    }

    /// The next row that can be used.
    fn update(&mut self) -> Result<Option<(usize, Place, EdgeUpdate)>> {
        while let Some(row) = self.records.next_row()? {
            let place = row.place.clone();
            let parsed = parse(row).and_then(|(step, update)| self.check(step).map(|()| (step, update)));
            // Without an update a row changes nothing, so a blank one is none.
            if let Some((step, update)) = self.policy.settle(&place, parsed.map(Some), || None)? {
                return Ok(Some((step, place, update)));
            }
        }
        Ok(None)
    }

    fn check(&self, step: usize) -> Result<(), Fault> {
        let fault = |what: String| Err(Fault::new("step", what, &step.to_string()));
        match step {
            step if step > self.steps => fault(format!("beyond the {} planned steps", self.steps)),
            step if step < self.step.max(1) => {
                fault("comes after a later step; sort the rows by step, counted from 1".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The updates of the next step; none after the last.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.step == self.until {
            // Rows of later steps wait for a later run; the rest is read so that a bad row is seen now.
            return Ok(None);
        }
        self.step += 1;
        let mut updates = Vec::new();
        loop {
            let next = match self.ahead.take() {
                Some(next) => Some(next),
                None => self.update()?,
            };
            match next {
                Some((step, place, update)) if step == self.step => updates.push((place, update)),
                later => {
                    self.ahead = later;
                    return Ok(Some(Batch { step: self.step, updates }));
                }
            }
        }
    }

    /// Refuses an end before a step that is already released.
    pub(super) fn check_end(&self, done: usize) -> Result<()> {
        if self.until < done {
            bail!(
                "--until {} is before step {done}, up to which the state has released; give a later one",
                self.until
            );
        }
        Ok(())
    }
}

fn parse(row: Row) -> Result<(usize, EdgeUpdate), Fault> {
    let fields = row.fields?;
    let [step, u, v, weight] = fields.as_slice() else {
        return Err(Fault { column: None, what: "the row is not complete".to_owned(), value: None });
    };
    let count = |column: &str, text: &str| {
        text.parse::<usize>().map_err(|_| Fault::new(column, "not a number counted from 0", text))
    };
    let weight = if weight.is_empty() { 1.0 } else { records::number("weight", weight)? };
    Ok((count("step", step)?, EdgeUpdate::new(count("u", u)?, count("v", v)?, weight)))
}

/// An update as bytes that no other one has.
pub(super) fn bytes_of(step: usize, update: &EdgeUpdate) -> Vec<u8> {
    let EdgeUpdate { u, v, weight } = *update;
    [step as u64, u as u64, v as u64, weight.to_bits()].into_iter().flat_map(u64::to_le_bytes).collect()
}
