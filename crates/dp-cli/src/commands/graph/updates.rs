//! Edge updates from CSV, the rows of one step at a time, for every step up to a public end.

use std::path::Path;

use anyhow::Result;
use dp_apps::graph::EdgeUpdate;

use crate::records::{self, Fault, Records, Row, RowArguments};

/// The rows of the steps 1 to `until`, whether they have any or not: how many steps there are does not depend on the data.
pub(super) struct Batches {
    records: Records,
    policy: RowArguments,
    /// The first row of a later step.
    ahead: Option<(usize, Row)>,
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

    /// The next row that can be used, with its step.
    fn row(&mut self) -> Result<Option<(usize, Row)>> {
        while let Some(row) = self.records.next_row()? {
            let step = parse(&row).and_then(|(step, _)| self.check(step).map(|()| Some(step)));
            // Without an update a row changes nothing, so a blank one is none.
            if let Some(step) = self.policy.settle(&row.place, step, || None)? {
                return Ok(Some((step, row)));
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

    fn batch(&mut self) -> Result<Vec<Row>> {
        self.step += 1;
        let mut rows = Vec::new();
        loop {
            let next = match self.ahead.take() {
                Some(next) => Some(next),
                None => self.row()?,
            };
            match next {
                Some((step, row)) if step == self.step => rows.push(row),
                later => {
                    self.ahead = later;
                    return Ok(rows);
                }
            }
        }
    }
}

impl Iterator for Batches {
    type Item = Result<Vec<Row>>;

    /// The rows of the next step; none after the last. Rows of later steps wait for a later run.
    fn next(&mut self) -> Option<Self::Item> {
        (self.step < self.until).then(|| self.batch())
    }
}

/// The step and the update in a row.
pub(super) fn parse(row: &Row) -> Result<(usize, EdgeUpdate), Fault> {
    let fields = row.fields.as_ref().map_err(Fault::without_column)?;
    let [step, u, v, weight] = fields.as_slice() else {
        return Err(Fault { column: None, what: "the row is not complete".to_owned(), value: None });
    };
    let count = |column: &str, text: &str| {
        text.parse::<usize>().map_err(|_| Fault::new(column, "not a number counted from 0", text))
    };
    let weight = if weight.is_empty() { 1.0 } else { records::number("weight", weight)? };
    Ok((count("step", step)?, EdgeUpdate::new(count("u", u)?, count("v", v)?, weight)))
}
