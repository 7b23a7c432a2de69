//! The one loop of all commands that release: rows become steps, steps become releases, and what is released is saved before
//! it is shown.

use std::path::Path;

use anyhow::{Result, bail};
use dp_mechanisms::session::Save;
use dp_mechanisms::{Mechanism, Plan, Seed, Session, Snapshot};

use crate::arguments::OutputArguments;
use crate::consumed::{self, Consumed};
use crate::output;
use crate::records::Row;
use crate::rows::Rows;
use crate::sink::{Format, Line, Sink, Standing};

/// The names under which the digest of the rows and the last lines stand in a state.
const ROWS: &str = "rows";
const LINES: &str = "lines";

/// The most lines that become durable together, however many steps they are of.
const MOST_LINES: usize = 1 << 16;

/// A live release as the loop sees it.
pub(crate) trait Live: Save {
    /// The number of steps taken.
    fn step(&self) -> usize;

    /// Takes the rows of the next step.
    ///
    /// # Errors
    /// A row that cannot be used, where the policy does not say otherwise; nothing has changed then.
    fn push(&mut self, rows: &[Row]) -> Result<()>;

    /// Shows the rows of a step that an earlier run has taken to whatever remembers rows.
    fn replay(&mut self, rows: &[Row]) -> Result<()>;

    /// The lines after the current step: a function of releases and public choices alone.
    fn lines(&mut self) -> Result<Vec<Line>>;

    /// Whether the lines after the current step can be made once more, perhaps for other questions than before.
    fn can_be_asked_again(&self) -> bool;
}

/// Where a run reads and writes.
pub(crate) struct Engine<'a> {
    pub(crate) input: &'a Path,
    pub(crate) output: &'a OutputArguments,
    pub(crate) format: Format,
    /// The number of planned steps; 0 where nobody knows.
    pub(crate) steps: usize,
    /// There are lines after every so many steps, and after the last one.
    pub(crate) every: usize,
    /// Whether every step has lines then, so that a missing one is noticed.
    pub(crate) every_step: bool,
    /// The step whose rows come first, if it is not the first.
    pub(crate) from: Option<usize>,
}

/// A mechanism before its first step, or where a state stopped.
pub(crate) fn mechanism(plan: Plan, saved: Option<&Snapshot>, seed: Seed) -> Result<Mechanism> {
    Ok(match saved {
        Some(snapshot) => Mechanism::resume(plan, snapshot, seed)?,
        None => Mechanism::new(plan, seed)?,
    })
}

impl Engine<'_> {
    /// Takes all steps. `begin` makes the live object, where a state was saved from its snapshot. Returns it with all lines, if
    /// they are wanted for a plot.
    ///
    /// # Errors
    /// What went wrong on the way; whatever was released before is saved and shown.
    pub(crate) fn run<L: Live>(
        &self,
        steps: impl Iterator<Item = Result<Vec<Row>>> + Send + 'static,
        begin: impl FnOnce(Option<&Snapshot>) -> Result<L>,
    ) -> Result<(Session<L>, Vec<Line>)> {
        let mut session = Session::begin(self.output.open_state()?, begin)?;
        let done = session.live().step();
        let mut consumed = Consumed::saved(session.attachment(ROWS).unwrap_or_default(), done)?;
        let rows = Rows::start(steps, self.output.group.min(1024));
        self.compare(&rows, &consumed, session.live_mut())?;
        let sink = self.sink(&mut session, &consumed)?;
        let mut run = Run { session, sink, first: done + 1, lines: Vec::new(), last: Vec::new() };
        let progress = output::progress(self.input, self.steps, done);
        let (mut shown, mut group) = (done, 0);
        let outcome = loop {
            // Whatever has arrived by now becomes durable together, up to a step that has lines.
            let whole = shown == run.session.live().step();
            let full = group >= self.output.group || run.lines.len() >= MOST_LINES;
            let mut next = if whole && full { None } else { rows.ready() };
            if next.is_none() {
                if whole && group > 0 {
                    run.commit(&consumed)?;
                    progress.inc(group as u64);
                    group = 0;
                }
                next = rows.wait();
            }
            let rows = match next {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok(rows)) => rows,
            };
            let live = run.session.live_mut();
            if let Err(error) = live.push(&rows) {
                break Err(error);
            }
            rows.iter().for_each(|row| consumed.push(&consumed::bytes_of(row)));
            group += 1;
            if live.step().is_multiple_of(self.every) {
                run.lines.extend(live.lines()?);
                shown = live.step();
            }
        };
        // What was counted before the end, or before a bad row, stays valid, and is shown.
        let live = run.session.live_mut();
        if live.step() > shown {
            run.lines.extend(live.lines()?);
        }
        if group > 0 {
            run.commit(&consumed)?;
        }
        progress.finish_and_clear();
        let finished = run.finish(&consumed)?;
        outcome.map(|()| finished)
    }

    /// The output, with the lines that a state remembers.
    fn sink(&self, session: &mut Session<impl Live>, consumed: &Consumed) -> Result<Sink> {
        let OutputArguments { output, plot, overwrite, .. } = self.output;
        if !session.is_durable() {
            return Sink::start(output, self.format, plot.is_some(), *overwrite);
        }
        let remembered = session.attachment(LINES).and_then(decoded);
        let live = session.live_mut();
        let done = live.step();
        let (mut first, mut again) = remembered.unwrap_or((done + 1, Vec::new()));
        if done > 0 && live.can_be_asked_again() {
            let now = live.lines()?;
            if !now.iter().eq(again.iter().filter(|line| line.step == done)) {
                // Other items are asked for than before: they are saved before they are shown.
                (first, again) = (done, now);
                save(session, consumed, first, &again)?;
            }
        }
        let standing = Standing { done, again: &again, remembered: first, every_step: self.every_step };
        Sink::continued(output, self.format, plot.is_some(), &standing)
    }

    /// Reads the steps that a state has released once more, and refuses rows that it has not used.
    fn compare(&self, rows: &Rows, consumed: &Consumed, live: &mut impl Live) -> Result<()> {
        let done = live.step();
        let from = self.from.unwrap_or(1);
        if from != 1 && from != done + 1 {
            bail!(
                "the state has used {done} rows: give --from-row {} for a pipe that brings the next row first, or --from-row \
                 1 for one that brings all rows again",
                done + 1
            );
        }
        if from > done {
            return Ok(());
        }
        let mut past = consumed.again();
        for step in from..=done {
            let Some(rows) = rows.wait() else {
                bail!(
                    "the input has {} rows, but the state has used {done} already; continue with the same file, longer by \
                     the new rows",
                    step - 1
                );
            };
            let rows = rows?;
            rows.iter().try_for_each(|row| past.push(&consumed::bytes_of(row), &row.place))?;
            live.replay(&rows)?;
        }
        past.finish()
    }
}

/// What a run has made and not shown yet, and where it goes.
struct Run<L> {
    session: Session<L>,
    sink: Sink,
    /// The first step whose lines are not shown yet.
    first: usize,
    lines: Vec<Line>,
    /// The lines of the last step that was shown, if the state remembers others beside them.
    last: Vec<Line>,
}

impl<L: Live> Run<L> {
    /// Saves the state, and only then shows what it releases.
    fn commit(&mut self, consumed: &Consumed) -> Result<()> {
        if self.session.is_durable() {
            // The state forgets the lines that were committed before: by now they must be safe in the output.
            self.sink.make_durable()?;
            save(&mut self.session, consumed, self.first, &self.lines)?;
        }
        self.last.clear();
        let step = self.session.live().step();
        if self.first < step {
            self.last.extend(self.lines.iter().filter(|line| line.step == step).cloned());
        }
        self.first = step + 1;
        self.lines.drain(..).try_for_each(|line| self.sink.write(&line))?;
        self.sink.flush()
    }

    /// The lines of the last step stay in the state until the next ones, so that an output that lost them can be repaired; those
    /// before are forgotten, as how many there are depends on when rows arrived.
    fn finish(mut self, consumed: &Consumed) -> Result<(Session<L>, Vec<Line>)> {
        self.sink.make_durable()?;
        if let (true, Some(last)) = (self.session.is_durable(), self.last.first()) {
            save(&mut self.session, consumed, last.step, &self.last)?;
        }
        Ok((self.session, self.sink.into_lines()))
    }
}

/// Writes a state that remembers the rows that were used and the lines from a step on.
fn save(session: &mut Session<impl Live>, consumed: &Consumed, first: usize, lines: &[Line]) -> Result<()> {
    session.attach(ROWS, consumed.encode());
    session.attach(LINES, encoded(first, lines));
    Ok(session.save()?)
}

/// Lines of consecutive steps for a sealed state. Of lines that have the same items the number of bytes is the same.
fn encoded(first: usize, lines: &[Line]) -> Vec<u8> {
    let mut bytes = (first as u64).to_le_bytes().to_vec();
    for Line { step, item, release, standard_deviation } in lines {
        let item = item.as_ref().map(String::as_bytes);
        let length = item.map_or(u64::MAX, |item| item.len() as u64);
        for number in [*step as u64, release.to_bits(), standard_deviation.to_bits(), length] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(item.unwrap_or_default());
    }
    bytes
}

/// Reads what [`encoded`] wrote.
fn decoded(bytes: &[u8]) -> Option<(usize, Vec<Line>)> {
    fn number(bytes: &mut &[u8]) -> Option<u64> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u64::from_le_bytes(*number))
    }
    let mut bytes = bytes;
    let first = usize::try_from(number(&mut bytes)?).ok()?;
    let mut lines = Vec::new();
    while !bytes.is_empty() {
        let step = usize::try_from(number(&mut bytes)?).ok()?;
        let (release, deviation) = (number(&mut bytes)?, number(&mut bytes)?);
        let item = match number(&mut bytes)? {
            u64::MAX => None,
            length => {
                let (item, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
                bytes = rest;
                Some(String::from_utf8(item.to_vec()).ok()?)
            }
        };
        let (release, standard_deviation) = (f64::from_bits(release), f64::from_bits(deviation));
        lines.push(Line { step, item, release, standard_deviation });
    }
    Some((first, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_lines_are_read_back_and_damaged_ones_are_not() {
        let line = |step, item: Option<&str>| Line {
            step,
            item: item.map(str::to_owned),
            release: -0.1,
            standard_deviation: f64::MAX,
        };
        let lines = [line(3, None), line(3, Some("")), line(4, Some("a, \"b\"\n"))];
        let bytes = encoded(2, &lines);
        assert_eq!(decoded(&bytes), Some((2, lines.to_vec())));
        let read = (0..bytes.len()).filter(|length| decoded(&bytes[..*length]).is_some());
        // Cut between two lines it cannot be told from fewer; the seal on the file can.
        assert_eq!(read.collect::<Vec<_>>(), [8, 40, 72]);
    }
}
