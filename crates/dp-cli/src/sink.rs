//! Where releases go: lines of steps, as CSV or JSON Lines, to a file that can be continued, a pipe or a device.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use crate::files::{self, Kind};

/// One line of output: a released number, of an item where a step has several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) step: usize,
    pub(crate) item: Option<String>,
    pub(crate) release: f64,
    pub(crate) standard_deviation: f64,
}

/// How lines are written. Numbers are written so that reading them back gives the same bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Format {
    /// What the column of the items is called, if there is one.
    pub(crate) items: Option<&'static str>,
    /// JSON Lines in place of CSV.
    pub(crate) json: bool,
    /// The half-width of the band around a release that holds 95 % of its noise, in standard deviations, where its ends are
    /// written.
    pub(crate) band: Option<f64>,
}

/// One JSON line, whatever its items are called.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    step: usize,
    #[serde(alias = "name")]
    item: Option<String>,
    release: f64,
    standard_deviation: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl Format {
    fn header(self) -> String {
        let item = self.items.map(|item| format!(",{item}")).unwrap_or_default();
        let band = if self.band.is_some() { ",low,high" } else { "" };
        format!("step{item},release,standard_deviation{band}")
    }

    /// The ends of the band, where they are written.
    fn ends(self, line: &Line) -> Option<[f64; 2]> {
        let margin = self.band? * line.standard_deviation;
        Some([line.release - margin, line.release + margin])
    }

    fn write(self, line: &Line, to: &mut dyn Write) -> Result<()> {
        let Line { step, item, release, standard_deviation } = line;
        let item = item.as_deref().unwrap_or_default();
        let ends = self.ends(line);
        if self.json {
            let number = serde_json::to_string;
            write!(to, "{{\"step\":{step}")?;
            if let Some(items) = self.items {
                write!(to, ",\"{items}\":{}", serde_json::to_string(item)?)?;
            }
            let (release, deviation) = (number(release)?, number(standard_deviation)?);
            write!(to, ",\"release\":{release},\"standard_deviation\":{deviation}")?;
            if let Some([low, high]) = ends {
                write!(to, ",\"low\":{},\"high\":{}", number(&low)?, number(&high)?)?;
            }
            writeln!(to, "}}")?;
            return Ok(());
        }
        write!(to, "{step},")?;
        if self.items.is_some() {
            write!(to, "{},", quoted(item))?;
        }
        write!(to, "{release},{standard_deviation}")?;
        if let Some([low, high]) = ends {
            write!(to, ",{low},{high}")?;
        }
        writeln!(to)?;
        Ok(())
    }

    fn read(self, text: &str) -> Option<Line> {
        let (line, ends) = self.parse(text)?;
        // A deviation that nobody knows has a band that nobody knows.
        let same = |left: &f64, right: &f64| left == right || (left.is_nan() && right.is_nan());
        let expected = self.ends(&line).map_or(Vec::new(), Vec::from);
        let fits =
            expected.len() == ends.len() && expected.iter().zip(&ends).all(|(one, other)| same(one, other));
        (fits && line.item.is_some() == self.items.is_some()).then_some(line)
    }

    /// A line, and the ends of its band as far as they are written.
    fn parse(self, text: &str) -> Option<(Line, Vec<f64>)> {
        if self.json {
            let Object { step, item, release, standard_deviation, low, high } =
                serde_json::from_str(text).ok()?;
            let ends = [low, high].into_iter().flatten().collect();
            return Some((Line { step, item, release, standard_deviation }, ends));
        }
        let mut fields = text.splitn(2, ',');
        let step = fields.next()?.parse().ok()?;
        // The numbers stand at the end; whatever is between them and the step is the item.
        let numbers = if self.band.is_some() { 4 } else { 2 };
        let mut fields = fields.next()?.rsplitn(numbers + 1, ',');
        let mut found: Vec<f64> = Vec::with_capacity(numbers);
        for _ in 0..numbers {
            found.push(fields.next()?.parse().ok()?);
        }
        let item = fields.next().map(unquoted);
        found.reverse();
        let ends = found.split_off(2);
        let (release, standard_deviation) = (found[0], found[1]);
        Some((Line { step, item, release, standard_deviation }, ends))
    }
}

/// A CSV field, in quotes where it needs them.
fn quoted(item: &str) -> String {
    if item.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", item.replace('"', "\"\""))
    } else {
        item.to_owned()
    }
}

fn unquoted(field: &str) -> String {
    match field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => field.to_owned(),
    }
}

/// What an output must hold to belong to a state.
pub(crate) struct Standing<'a> {
    /// The number of steps released.
    pub(crate) done: usize,
    /// The lines of the last steps, which the state remembers and a crash may have kept from the output.
    pub(crate) again: &'a [Line],
    /// The first step that the state remembers; all lines of it and of later ones are in `again`.
    pub(crate) remembered: usize,
    /// Whether every step has lines, so that a missing one is noticed.
    pub(crate) every_step: bool,
}

/// An output.
pub(crate) struct Sink {
    format: Format,
    writer: BufWriter<Box<dyn Write>>,
    /// The file, where there is one that can be synced.
    file: Option<File>,
    name: String,
    lines: Vec<Line>,
    keep: bool,
}

impl Sink {
    /// Starts an output anew: `-`, a pipe, a device, or a file that is empty, missing, or may be overwritten. With `keep`,
    /// all lines are remembered for a plot.
    pub(crate) fn start(path: &Path, format: Format, keep: bool, overwrite: bool) -> Result<Self> {
        let (target, file): (Box<dyn Write>, _) = if path == Path::new("-") {
            (Box::new(std::io::stdout()), None)
        } else {
            let file = files::create(path, overwrite)?;
            let again = file.try_clone().with_context(|| format!("cannot write to `{}`", path.display()))?;
            (Box::new(file), (files::kind(path)? == Kind::Regular).then_some(again))
        };
        let name = if file.is_some() { format!("`{}`", path.display()) } else { "the output".to_owned() };
        let mut sink = Self { format, writer: BufWriter::new(target), file, name, lines: Vec::new(), keep };
        sink.header()?;
        Ok(sink)
    }

    /// Continues the output of a state: what stands before the steps that the state remembers is kept, and the lines of
    /// those steps are written again, exactly as they were released.
    pub(crate) fn continued(path: &Path, format: Format, keep: bool, standing: &Standing) -> Result<Self> {
        let name = format!("`{}`", path.display());
        let context = || format!("cannot write to {name}");
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).open(path).with_context(context)?;
        let (lines, kept) = complete_lines(&file, format, keep, standing)
            .with_context(|| format!("{name} does not belong to this state"))?;
        let mut file = file;
        // What stands before the steps that are shown again is never touched.
        file.set_len(kept).with_context(context)?;
        file.seek(SeekFrom::End(0)).with_context(context)?;
        let target = Box::new(file.try_clone().with_context(context)?);
        let mut sink = Self { format, writer: BufWriter::new(target), file: Some(file), name, lines, keep };
        if kept == 0 {
            sink.header()?;
        }
        for line in standing.again {
            sink.write(line)?;
        }
        sink.make_durable()?;
        Ok(sink)
    }

    fn header(&mut self) -> Result<()> {
        if self.format.json {
            return Ok(());
        }
        let header = self.format.header();
        writeln!(self.writer, "{header}").map_err(|error| self.unwritable(error))?;
        self.flush()
    }

    /// The lines that were kept for a plot.
    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.lines
    }

    /// Writes one line.
    pub(crate) fn write(&mut self, line: &Line) -> Result<()> {
        let format = self.format;
        format.write(line, &mut self.writer).map_err(|error| match error.downcast() {
            Ok(error) => self.unwritable(error),
            Err(other) => other,
        })?;
        if self.keep {
            self.lines.push(line.clone());
        }
        Ok(())
    }

    /// Shows everything written so far to its reader.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(|error| self.unwritable(error))
    }

    /// Makes everything written so far survive a power failure, where the output is a file.
    pub(crate) fn make_durable(&mut self) -> Result<()> {
        self.flush()?;
        match &self.file {
            Some(file) => file.sync_data().map_err(|error| self.unwritable(error)),
            None => Ok(()),
        }
    }

    fn unwritable(&self, error: std::io::Error) -> anyhow::Error {
        let context = format!(
            "cannot write to {}; make room and run the same command again: with --state it continues where it stopped",
            self.name
        );
        anyhow::Error::new(error).context(context)
    }
}

/// Reads what earlier runs wrote, up to the first step that is shown again: the lines, if they are to be kept, and the
/// number of bytes they take. A line that a crash cut short is not counted.
fn complete_lines(file: &File, format: Format, keep: bool, standing: &Standing) -> Result<(Vec<Line>, u64)> {
    let mut reader = BufReader::new(file);
    let (mut lines, mut kept, mut position) = (Vec::new(), 0, 0);
    let mut again = standing.again.iter();
    let mut last: Option<usize> = None;
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        bytes.clear();
        let length = reader.read_until(b'\n', &mut bytes)?;
        if bytes.pop() != Some(b'\n') {
            break;
        }
        position += length as u64;
        let text = std::str::from_utf8(&bytes).map_err(|_| anyhow!("line {number} is not text"))?;
        if !format.json && number == 1 {
            let header = format.header();
            if text != header {
                bail!("line 1 is not `{header}`, with which every such output begins");
            }
            kept = position;
            continue;
        }
        let line =
            format.read(text).ok_or_else(|| anyhow!("line {number} is not a release; restore the file"))?;
        let step = line.step;
        if step > standing.done {
            bail!(
                "it holds step {step}, but the state has released {} steps; restore the state that belongs to it",
                standing.done
            );
        }
        let gap = standing.every_step && last.is_some_and(|last| step > last + 1);
        if gap || last.is_some_and(|last| step < last) {
            bail!("line {number} is step {step}, out of order; restore the file");
        }
        last = Some(step);
        if step < standing.remembered {
            kept = position;
            if keep {
                lines.push(line);
            }
        } else if again.next() != Some(&line) {
            bail!("line {number} of step {step} is not what was released; restore the file");
        }
    }
    if let Some(last) = last.filter(|last| standing.every_step && last + 1 < standing.remembered) {
        bail!(
            "it ends at step {last}, but the state remembers releases from step {} only; restore the file",
            standing.remembered
        );
    }
    Ok((lines, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_as_they_were_written() {
        for (items, names) in
            [(None, vec![None]), (Some("item"), vec![Some("a"), Some("a,b \"c\""), Some(""), Some("\"")])]
        {
            for (json, band) in [(false, None), (true, None), (false, Some(1.96)), (true, Some(1.96))] {
                let format = Format { items, json, band };
                for name in &names {
                    for release in [0.0, -0.1, 1e300, 5e-324, 3.0] {
                        let item = name.map(str::to_owned);
                        let line = Line { step: 7, item, release, standard_deviation: 0.1 + 0.2 };
                        let mut text = Vec::new();
                        format.write(&line, &mut text).unwrap();
                        let text = String::from_utf8(text).unwrap();
                        assert_eq!(format.read(text.trim_end()), Some(line), "{text}");
                    }
                }
                for damaged in ["", "1", "1,2", "x,1,2", "1,2,3,4,", "{}", "{\"step\":1}"] {
                    assert_eq!(format.read(damaged), None, "{damaged}");
                }
            }
        }
    }
}
