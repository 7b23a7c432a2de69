//! From rows to the cells of steps: times, people, limits, keys and values, one row after the other.

use std::collections::VecDeque;

use crate::encoding::{Contribution, Encoding, Unfit, capped};
use crate::error::{Error, Mistake, Result};
use crate::people::{HashKey, People, take};
use crate::rows::Row;
use crate::spec::{BadRows, Late, Protects, Spec};

/// Why a row cannot be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadRow {
    /// It has no time, or one that cannot be read or lies outside the calendar.
    Time,
    /// It has no identifier of a person.
    Person,
    /// Its key is missing.
    Key,
    /// Its value is no number.
    Value,
}

impl BadRow {
    /// What is wrong, without saying what the row holds.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Time => {
                "the time is missing, cannot be read or lies outside the steps; correct it, or give `input.format`"
            }
            Self::Person => "the person has no identifier; every row must have one",
            Self::Key => "the key is missing; the row has fewer fields than the header",
            Self::Value => "the value is not a finite number; correct it",
        }
    }
}

/// The cells of the steps that are not released yet, and who has counted in them.
pub(crate) struct Intake<'a> {
    spec: &'a Spec,
    encodings: &'a [Encoding],
    key: HashKey,
    people: People,
    /// The number of steps that are released.
    open: usize,
    /// The cells of every step from `open` on that has any, by release.
    cells: VecDeque<Option<Vec<Vec<i64>>>>,
    /// What the current row adds, by release.
    contributions: Vec<Option<Contribution>>,
}

impl<'a> Intake<'a> {
    /// Nothing read yet.
    pub(crate) fn new(spec: &'a Spec, encodings: &'a [Encoding], key: HashKey) -> Self {
        Self {
            spec,
            encodings,
            key,
            people: People::new(spec.limits),
            open: 0,
            cells: VecDeque::new(),
            contributions: vec![None; encodings.len()],
        }
    }

    pub(crate) fn key(&self) -> &HashKey {
        &self.key
    }

    /// The number of steps that are released.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Takes a row: it counts, or does not, as the description says.
    ///
    /// # Errors
    /// A row that cannot be used, where the description says to stop there.
    pub(crate) fn push(&mut self, row: &Row<'_>, file: &std::path::Path) -> Result<()> {
        match (self.take(row), self.spec.input.bad_rows) {
            (Some(bad), BadRows::Refuse) => Err(Error::Input(Mistake {
                file: file.to_owned(),
                line: row.line,
                message: bad.sentence().to_owned(),
            })),
            _ => Ok(()),
        }
    }

    /// Takes a row and says what is wrong with it, if anything is.
    pub(crate) fn take(&mut self, row: &Row<'_>) -> Option<BadRow> {
        let Some(step) = row.field(0).and_then(|time| self.spec.calendar.step_of(time.trim_ascii())) else {
            return Some(BadRow::Time);
        };
        let person = if self.spec.input.person.is_some() {
            match row.field(1).map(<[u8]>::trim_ascii) {
                Some(identifier) if !identifier.is_empty() => Some(identifier),
                _ => return Some(BadRow::Person),
            }
        } else {
            None
        };
        let step = match (step >= self.open, self.spec.late) {
            (true, _) => step,
            (false, Late::Next) if self.open < self.spec.calendar.steps() => self.open,
            (false, _) => return None,
        };
        let mut bad = None;
        let mut counts = false;
        for (slot, encoding) in self.contributions.iter_mut().zip(self.encodings) {
            *slot = match encoding.encode(row) {
                Ok(contribution) => Some(contribution),
                Err(unfit) => {
                    bad = bad.or(match unfit {
                        Unfit::Elsewhere => None,
                        Unfit::NoKey => Some(BadRow::Key),
                        Unfit::NoNumber => Some(BadRow::Value),
                    });
                    None
                }
            };
            counts |= slot.is_some();
        }
        if !counts {
            return bad;
        }
        let person = person.map(|identifier| self.key.pseudonym(identifier));
        if let Some(person) = person
            && !self.people.admit(person, step as u32)
        {
            return bad;
        }
        let slot = step - self.open;
        if self.cells.len() <= slot {
            self.cells.resize_with(slot + 1, || None);
        }
        let encodings = self.encodings;
        let cells = self.cells[slot].get_or_insert_with(|| empty_cells(encodings));
        for ((encoding, contribution), cells) in encodings.iter().zip(&self.contributions).zip(cells) {
            let Some(contribution) = contribution else { continue };
            if let crate::encoding::Measure::People(index) = encoding.measure {
                let first = person.is_some_and(|person| self.people.first_time(person, index));
                if !first {
                    continue;
                }
            }
            encoding.add(*contribution, cells);
        }
        bad
    }

    /// Closes the first open step: its cells, by release, as the mechanism takes them.
    pub(crate) fn close(&mut self) -> Vec<Vec<i64>> {
        let first = self.cells.pop_front().flatten();
        let mut cells = first.unwrap_or_else(|| empty_cells(self.encodings));
        cells.iter_mut().for_each(|cells| capped(cells));
        self.open += 1;
        cells
    }

    /// Forgets what no later row can depend on.
    pub(crate) fn forget(&mut self) {
        self.people.close(self.open as u32, self.spec.privacy.protects == Protects::Person);
    }

    /// All of it as bytes, for the sealed state.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.key.expose());
        bytes.extend_from_slice(&(self.open as u64).to_le_bytes());
        self.people.encode(bytes);
        bytes.extend_from_slice(&(self.cells.len() as u64).to_le_bytes());
        for cells in &self.cells {
            bytes.push(u8::from(cells.is_some()));
            for cell in cells.iter().flatten().flatten() {
                bytes.extend_from_slice(&cell.to_le_bytes());
            }
        }
    }

    /// Reads what [`Intake::encode`] wrote; nothing if the bytes are not that.
    pub(crate) fn decode(spec: &'a Spec, encodings: &'a [Encoding], bytes: &mut &[u8]) -> Option<Self> {
        let key = HashKey::new(take(bytes)?);
        let open = usize::try_from(u64::from_le_bytes(take(bytes)?)).ok()?;
        let people = People::decode(spec.limits, bytes)?;
        let length = usize::try_from(u64::from_le_bytes(take(bytes)?)).ok()?;
        if open.checked_add(length)? > spec.calendar.steps() {
            return None;
        }
        let mut intake = Self { people, open, ..Self::new(spec, encodings, key) };
        for _ in 0..length {
            let [present] = take::<1>(bytes)?;
            let mut cells = (present == 1).then(|| empty_cells(encodings));
            for cell in cells.iter_mut().flatten().flatten() {
                *cell = i64::from_le_bytes(take(bytes)?);
            }
            intake.cells.push_back(cells);
        }
        Some(intake)
    }
}

fn empty_cells(encodings: &[Encoding]) -> Vec<Vec<i64>> {
    encodings.iter().map(|encoding| vec![0; encoding.dimension()]).collect()
}
