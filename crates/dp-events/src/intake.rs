//! From rows to the cells of steps: times, people, limits, keys and values, one row after the other.
//!
//! The way has three parts, which can be run apart from each other, on many machines if need be: a [`Parser`] makes an
//! [`Event`] of a row and looks at nothing else; [`People`] takes from the events of a person what does not count; and
//! [`Cells`] add up what is left, step by step. [`Intake`] is all three in one place.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::encoding::{Cells, Contribution, Encoding, ReleaseCells, Share, Unfit};
use crate::error::{Error, Mistake, Result};
use crate::people::{People, Pseudonym, PseudonymKey, take};
use crate::rows::Row;
use crate::spec::{BadRows, Late, Spec};
use crate::state::SecretBytes;

/// Why a row cannot be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRow {
    /// It has no time, or one that cannot be read or lies outside the calendar.
    Time,
    /// It has no identifier of a person.
    Person,
    /// Its line ends before the key.
    Key,
    /// Its value is no number.
    Value,
}

impl BadRow {
    /// What is wrong, without saying what the row holds.
    pub fn sentence(self) -> &'static str {
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

/// A row as far as it counts: when, of whom, and what it adds to which releases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The step, counted from 0.
    pub step: u32,
    /// The person, where people are protected.
    pub person: Option<Pseudonym>,
    /// What it adds; nothing if the row does not count. Up to two need no memory of their own, which would be given back by
    /// another thread than took it where events travel.
    pub contributions: SmallVec<[Contribution; 2]>,
}

/// Which steps rows can count in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The number of steps that are released.
    pub open: u32,
    /// Rows of the steps before this one never count.
    pub first: u32,
}

/// Makes events of rows, each by itself.
#[derive(Clone)]
pub struct Parser {
    spec: Arc<Spec>,
    encodings: Arc<[Encoding]>,
    key: Arc<PseudonymKey>,
}

impl Parser {
    /// A parser of rows with the fields of [`Spec::columns`], whose people get their pseudonyms from a key.
    pub fn new(spec: Arc<Spec>, key: Arc<PseudonymKey>) -> Self {
        let encodings = Encoding::all(&spec).into();
        Self { spec, encodings, key }
    }

    /// The encodings of the releases.
    pub fn encodings(&self) -> &Arc<[Encoding]> {
        &self.encodings
    }

    /// The description.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// The key of pseudonyms.
    pub fn key(&self) -> &Arc<PseudonymKey> {
        &self.key
    }

    /// Reads a row into an event, whose room is used again, and says what is wrong with the row, if anything is. The step is
    /// that of the row's time; [`Parser::counted_in`] says in which one it counts.
    ///
    /// # Complexity
    /// Linear in the used fields of the row. Nothing is allocated, but for keys that are found in the rows.
    pub fn parse(&self, row: &Row<'_>, event: &mut Event) -> Option<BadRow> {
        event.contributions.clear();
        event.person = None;
        let Some(step) = self.spec.calendar.step_of_field(row, 0) else {
            return Some(BadRow::Time);
        };
        event.step = step as u32;
        let identifier = match self.spec.input.person {
            None => None,
            Some(_) => match row.field(1).map(<[u8]>::trim_ascii) {
                Some(identifier) if !identifier.is_empty() => Some(identifier),
                _ => return Some(BadRow::Person),
            },
        };
        let mut bad = None;
        for (release, encoding) in (0..).zip(self.encodings.iter()) {
            match encoding.encode(release, row) {
                Ok(contribution) => event.contributions.push(contribution),
                Err(Unfit::Elsewhere) => {}
                Err(Unfit::NoKey) => bad = bad.or(Some(BadRow::Key)),
                Err(Unfit::NoNumber) => bad = bad.or(Some(BadRow::Value)),
            }
        }
        if !event.contributions.is_empty() {
            event.person = identifier.map(|identifier| self.key.pseudonym(identifier));
        }
        bad
    }

    /// The step in which a row of a step counts; nothing if it does not.
    pub fn counted_in(&self, step: u32, opened: Opened) -> Option<u32> {
        let Opened { open, first } = opened;
        match (step >= open, self.spec.late) {
            _ if step < first => None,
            (true, _) => Some(step),
            (false, Late::Next) if (open as usize) < self.spec.calendar.steps() => Some(open),
            (false, _) => None,
        }
    }
}

/// The cells of the steps that are not released yet, of the keys of one owner.
pub struct OpenSteps {
    encodings: Arc<[Encoding]>,
    share: Share,
    /// The number of steps that are released.
    open: usize,
    /// The cells of every step from `open` on that has any.
    cells: VecDeque<Option<Cells>>,
}

impl OpenSteps {
    /// Nothing in any step.
    pub fn new(encodings: Arc<[Encoding]>, share: Share) -> Self {
        Self { encodings, share, open: 0, cells: VecDeque::new() }
    }

    /// The number of steps that are released.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The cells of an open step.
    fn cells_of(&mut self, step: u32) -> &mut Cells {
        let slot = step as usize - self.open;
        if self.cells.len() <= slot {
            self.cells.resize_with(slot + 1, || None);
        }
        self.cells[slot].get_or_insert_with(|| Cells::of_share(&self.encodings, self.share))
    }

    /// Adds cells of a step; nothing if it is released already.
    pub fn add(&mut self, step: u32, cells: &Cells) {
        if step as usize >= self.open {
            self.cells_of(step).merge(cells);
        }
    }

    /// Closes the first open step: its cells as the mechanisms take them.
    pub fn close(&mut self) -> Cells {
        let first = self.cells.pop_front().flatten();
        self.open += 1;
        first.unwrap_or_else(|| Cells::of_share(&self.encodings, self.share)).capped()
    }

    /// All of it as bytes, for the sealed state.
    pub(crate) fn encode(&self, bytes: &mut SecretBytes) {
        bytes.extend_from_slice(&(self.open as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.cells.len() as u64).to_le_bytes());
        for cells in &self.cells {
            bytes.push(u8::from(cells.is_some()));
            for release in cells.iter().flat_map(Cells::releases) {
                match release {
                    ReleaseCells::Listed(cells) => {
                        cells.iter().for_each(|cell| bytes.extend_from_slice(&cell.to_le_bytes()));
                    }
                    ReleaseCells::Named(cells) => {
                        bytes.extend_from_slice(&(cells.len() as u64).to_le_bytes());
                        for (name, cell) in cells {
                            bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
                            bytes.extend_from_slice(name.as_bytes());
                            bytes.extend_from_slice(&cell.to_le_bytes());
                        }
                    }
                }
            }
        }
    }

    /// Reads what [`OpenSteps::encode`] wrote, of a calendar of so many steps; nothing if the bytes are not that.
    pub(crate) fn decode(
        encodings: Arc<[Encoding]>,
        share: Share,
        steps: usize,
        bytes: &mut &[u8],
    ) -> Option<Self> {
        let count = |bytes: &mut &[u8]| usize::try_from(u64::from_le_bytes(take(bytes)?)).ok();
        let (open, length) = (count(bytes)?, count(bytes)?);
        if open.checked_add(length)? > steps {
            return None;
        }
        let mut all = Self { open, ..Self::new(encodings, share) };
        for _ in 0..length {
            let [present] = take::<1>(bytes)?;
            let mut cells = (present == 1).then(|| Cells::of_share(&all.encodings, share));
            for release in cells.iter_mut().flat_map(Cells::releases_mut) {
                match release {
                    ReleaseCells::Listed(cells) => {
                        for cell in cells {
                            *cell = i64::from_le_bytes(take(bytes)?);
                        }
                    }
                    ReleaseCells::Named(cells) => {
                        for _ in 0..count(bytes)? {
                            let length = count(bytes)?;
                            let (name, rest) = bytes.split_at_checked(length)?;
                            *bytes = rest;
                            let name = std::str::from_utf8(name).ok()?.into();
                            cells.insert(name, i64::from_le_bytes(take(bytes)?));
                        }
                    }
                }
            }
            all.cells.push_back(cells);
        }
        Some(all)
    }
}

/// The cells of the steps that are not released yet, and who has counted in them.
///
/// Where several processes keep a dashboard, each has its share of the cells and its people; rows are then counted by whoever
/// takes both out.
pub struct Intake {
    parser: Parser,
    people: People,
    /// Rows of the steps before this one never count.
    first: usize,
    steps: OpenSteps,
    /// The event of the current row.
    event: Event,
}

impl Intake {
    /// Nothing read yet.
    pub fn new(parser: Parser) -> Self {
        Self::of_share(parser, Share::WHOLE)
    }

    /// Nothing read yet, for one of several owners of keys.
    pub(crate) fn of_share(parser: Parser, share: Share) -> Self {
        let people = People::new(parser.spec.limits);
        let steps = OpenSteps::new(Arc::clone(&parser.encodings), share);
        Self { parser, people, first: 0, steps, event: Event::default() }
    }

    pub(crate) fn key(&self) -> &Arc<PseudonymKey> {
        self.parser.key()
    }

    /// Begins with a later step: rows of those before it, which were counted elsewhere, are left out whatever the description
    /// says about late rows.
    pub(crate) fn begin_at(&mut self, open: usize) {
        self.steps.open = open;
        self.first = open;
    }

    /// The number of steps that are released.
    pub fn open(&self) -> usize {
        self.steps.open
    }

    /// Takes a row: it counts, or does not, as the description says.
    ///
    /// # Errors
    /// A row that cannot be used, where the description says to stop there.
    pub fn push(&mut self, row: &Row<'_>, file: &std::path::Path) -> Result<()> {
        match (self.take(row), self.parser.spec.input.bad_rows) {
            (Some(bad), BadRows::Refuse) => Err(Error::Input(Mistake {
                file: file.to_owned(),
                line: row.line,
                message: bad.sentence().to_owned(),
            })),
            _ => Ok(()),
        }
    }

    /// Takes a row and says what is wrong with it, if anything is.
    pub fn take(&mut self, row: &Row<'_>) -> Option<BadRow> {
        let mut event = std::mem::take(&mut self.event);
        let bad = self.parser.parse(row, &mut event);
        if !event.contributions.is_empty() {
            self.count(&mut event);
        }
        self.event = event;
        bad
    }

    /// Counts an event, as far as the limits of its person allow.
    pub fn count(&mut self, event: &mut Event) {
        let Some(step) = self.parser.counted_in(event.step, self.opened()) else { return };
        event.step = step;
        let encodings = &self.parser.encodings;
        if !self.people.limit(event, encodings) {
            return;
        }
        let encodings = Arc::clone(encodings);
        let cells = self.steps.cells_of(step);
        event.contributions.iter().for_each(|contribution| cells.add(&encodings, contribution));
    }

    /// What makes events of rows.
    pub fn parser(&self) -> &Parser {
        &self.parser
    }

    /// Which steps rows can count in.
    pub fn opened(&self) -> Opened {
        Opened { open: self.steps.open as u32, first: self.first as u32 }
    }

    /// Takes the people out, in parts by their owner: whoever has them counts their rows, until [`Intake::put_back`].
    pub fn take_people(&mut self, parts: usize, owner: impl Fn(Pseudonym) -> usize) -> Vec<People> {
        let nobody = People::new(self.parser.spec.limits);
        std::mem::replace(&mut self.people, nobody).split(parts, owner)
    }

    /// Takes the open steps out, until [`Intake::put_back`].
    pub fn take_steps(&mut self) -> OpenSteps {
        let (encodings, share) = (Arc::clone(&self.steps.encodings), self.steps.share);
        std::mem::replace(&mut self.steps, OpenSteps::new(encodings, share))
    }

    /// Puts people and open steps back.
    pub fn put_back(&mut self, people: Vec<People>, steps: OpenSteps) {
        people.into_iter().for_each(|people| self.people.join(people));
        self.steps = steps;
    }

    /// Closes the first open step: its cells as the mechanisms take them.
    pub fn close(&mut self) -> Cells {
        self.steps.close()
    }

    /// Forgets what no later row can depend on.
    pub fn forget(&mut self) {
        self.people.forget(self.steps.open as u32, self.parser.spec.privacy.protects);
    }

    /// All of it as bytes, for the sealed state.
    pub(crate) fn encode(&self, bytes: &mut SecretBytes) {
        bytes.extend_from_slice(self.key().expose());
        bytes.extend_from_slice(&(self.first as u64).to_le_bytes());
        self.people.encode(bytes);
        self.steps.encode(bytes);
    }

    /// Reads what [`Intake::encode`] wrote; nothing if the bytes are not that.
    pub(crate) fn decode(spec: &Arc<Spec>, share: Share, bytes: &mut &[u8]) -> Option<Self> {
        let parser = Parser::new(Arc::clone(spec), Arc::new(PseudonymKey::new(take(bytes)?)));
        let first = usize::try_from(u64::from_le_bytes(take(bytes)?)).ok()?;
        let people = People::decode(spec.limits, bytes)?;
        let encodings = Arc::clone(&parser.encodings);
        let steps = OpenSteps::decode(encodings, share, spec.calendar.steps(), bytes)?;
        Some(Self { parser, people, first, steps, event: Event::default() })
    }
}
