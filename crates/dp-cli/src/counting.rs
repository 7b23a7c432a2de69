//! What the commands that count share: rows of a CSV file in, lines `step,item,release,standard_deviation` out.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use dp_apps::{Counts, Encoding};
use dp_mechanisms::{Participation, Relation, Seed, Snapshot, StateFile};
use serde::{Deserialize, Serialize};

use crate::arguments::{self, BudgetArguments, Usage};
use crate::plot::{self, Curve, Panel};

/// Where rows come from, what is printed of the counts, and how the run is continued.
#[derive(Args)]
pub(crate) struct CountingArguments {
    /// The CSV file with a header line and one row per step, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub(crate) input: PathBuf,
    /// The column to read
    #[arg(long, value_name = "NAME")]
    pub(crate) column: String,
    /// What is protected: that a person's row is there at all (zero-out), or what it says (replace)
    #[arg(long, value_name = "zero-out|replace")]
    pub(crate) relation: Relation,
    /// The number of rows that the guarantee is planned for
    #[arg(long, value_parser = arguments::steps)]
    steps: usize,
    /// A name that `dp plan` lists
    #[arg(long, default_value = "sqrt")]
    strategy: String,
    /// The statistic of each item: count, window:W, exp:A or average
    #[arg(long, default_value = "count")]
    workload: String,
    /// Items to print, chosen without looking at the data
    #[arg(long, value_name = "ITEM,…", value_delimiter = ',', conflicts_with = "top")]
    show: Vec<String>,
    /// Print the items with the largest released values, this many [default: 10]
    #[arg(long, value_name = "NUMBER")]
    top: Option<usize>,
    /// Print after every so many rows, and after the last one
    #[arg(long, value_name = "ROWS", default_value = "1", value_parser = arguments::steps)]
    every: usize,
    /// Keep the state here, sealed, so that the run can be continued with the same file, longer by new rows
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// The key of the state [default: the state's name with .key appended; made if there is none]
    #[arg(long, value_name = "FILE", requires = "state")]
    state_key: Option<PathBuf>,
    /// Where lines go, or - for standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
    /// Draw the printed items with their 95 % bands
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write one JSON object per line instead of CSV
    #[arg(long)]
    json: bool,
    /// NOT PRIVATE: noise that everybody can repeat and subtract, for tests and demonstrations
    #[arg(long, value_name = "NUMBER")]
    reproducible_seed: Option<u64>,
    #[command(flatten)]
    budget: BudgetArguments,
}

/// One line of output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    step: usize,
    item: String,
    release: f64,
    standard_deviation: f64,
}

const HEADER: &str = "step,item,release,standard_deviation\n";

impl CountingArguments {
    /// Counts every row. `event` turns a row, by the values of the named columns, into the encoding's event and hands it
    /// to whoever takes it.
    pub(crate) fn run<E: Encoding>(
        &self,
        mut encoding: E,
        columns: &[&str],
        event: impl Fn(&E, &[&str]) -> Result<Box<E::Event>>,
    ) -> Result<()> {
        if self.reproducible_seed.is_some() {
            eprintln!("warning: --reproducible-seed makes releases that are NOT PRIVATE");
        }
        if self.state.is_some() && self.input == Path::new("-") {
            return Err(Usage::error(
                "--state needs a file as --input: a continued run reads its rows again",
            ));
        }
        let budget = self.budget.required()?;
        let workload = arguments::workload(&self.workload)?;
        let strategy = arguments::strategy(&self.strategy, &workload, self.steps, Participation::Single)?;
        let file = match &self.state {
            Some(path) => Some(StateFile::open(path, self.state_key.as_deref())?),
            None => None,
        };
        let saved = file.as_ref().map(StateFile::read).transpose()?.flatten();
        let mut rows = Rows::open(&self.input, columns)?;
        let done = saved.as_ref().map_or(0, Snapshot::step);
        let mut ignored = Vec::new();
        for step in 0..done {
            let Some(row) = rows.next()? else {
                bail!(
                    "the input has {step} rows, but the state has used {done} already; continue with the same file"
                );
            };
            let event = event(&encoding, &row.fields()).with_context(|| row.place())?;
            encoding.encode(&event, &mut ignored).with_context(|| row.place())?;
            ignored.clear();
        }
        let mut counts = match (&saved, self.reproducible_seed) {
            (Some(snapshot), _) => Counts::resume(encoding, strategy, budget, snapshot)?,
            (None, Some(seed)) => Counts::reproducible(encoding, strategy, budget, Seed::reproducible(seed))?,
            (None, None) => Counts::new(encoding, strategy, budget)?,
        };
        let again = if done > 0 { self.lines(&mut counts)? } else { Vec::new() };
        let mut sink = Sink::open(&self.output, self.json, self.state.is_some(), &again)?;
        let mut drawn = sink.earlier.clone();
        drawn.extend(again);
        let mut shown = done;
        let mut result = Ok(());
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let pushed = event(counts.encoding(), &row.fields())
                .and_then(|event| Ok(counts.push(&event)?))
                .with_context(|| row.place());
            if let Err(error) = pushed {
                // Whatever was counted before stays valid, and is shown.
                result = Err(error);
                break;
            }
            if counts.step().is_multiple_of(self.every) {
                self.show(&mut counts, file.as_ref(), &mut sink, &mut drawn)?;
                shown = counts.step();
            }
        }
        if counts.step() > shown {
            self.show(&mut counts, file.as_ref(), &mut sink, &mut drawn)?;
        }
        result?;
        if counts.step() > 0 {
            eprintln!(
                "after step {}, all {} counts are within {:.2} of the truth with probability 95 %",
                counts.step(),
                counts.encoding().dimension(),
                counts.band(0.05)?
            );
        }
        match &self.plot {
            Some(path) => self.draw(path, &drawn),
            None => Ok(()),
        }
    }

    /// Saves the state, and only then shows what it releases.
    fn show<E: Encoding>(
        &self,
        counts: &mut Counts<E>,
        file: Option<&StateFile>,
        sink: &mut Sink,
        drawn: &mut Vec<Line>,
    ) -> Result<()> {
        let lines = self.lines(counts)?;
        if let Some(file) = file {
            // The state forgets the step shown before: by now it must be safe in the output.
            sink.make_durable()?;
            file.write(&counts.snapshot())?;
        }
        for line in lines {
            sink.write(&line)?;
            if self.plot.is_some() {
                drawn.push(line);
            }
        }
        sink.flush()
    }

    /// The lines of the current step: a function of releases and public choices alone.
    fn lines<E: Encoding>(&self, counts: &mut Counts<E>) -> Result<Vec<Line>> {
        let (step, standard_deviation) = (counts.step(), counts.standard_deviation());
        let line = |item: String, release| Line { step, item, release, standard_deviation };
        if !self.show.is_empty() {
            return self
                .show
                .iter()
                .map(|item| Ok(line(item.clone(), counts.count(item).map_err(Usage::error)?.value)))
                .collect();
        }
        let top = counts.top(self.top.unwrap_or(10), 0.05)?;
        let label = |coordinate| counts.encoding().label(coordinate).unwrap_or_default();
        Ok(top.entries.iter().map(|(coordinate, value)| line(label(*coordinate), *value)).collect())
    }

    fn draw(&self, path: &Path, lines: &[Line]) -> Result<()> {
        let Some(last) = lines.last() else {
            bail!("nothing was released, so there is nothing to draw in `{}`", path.display());
        };
        // The items of the last step, as many as can be told apart.
        let items = lines.iter().filter(|line| line.step == last.step).take(COLOURS.len());
        let curves = items
            .zip(COLOURS)
            .map(|(item, colour)| {
                let own: Vec<&Line> = lines.iter().filter(|line| line.item == item.item).collect();
                let half = |line: &Line| 1.96 * line.standard_deviation;
                Curve {
                    label: item.item.clone(),
                    colour,
                    points: own.iter().map(|line| (line.step as f64, line.release)).collect(),
                    band: own
                        .iter()
                        .map(|line| (line.release - half(line), line.release + half(line)))
                        .collect(),
                }
            })
            .collect();
        let panel = Panel {
            title: format!("{} of {}, with bands that hold 95 % of the noise", self.workload, self.column),
            horizontal: "step".to_owned(),
            vertical: "released value".to_owned(),
            headroom: 0.25,
            curves,
        };
        plot::draw(path, "Private counts", &[panel])
    }
}

const COLOURS: [plotters::style::RGBColor; 5] = [
    plot::BLUE,
    plot::ORANGE,
    plot::DARK,
    plotters::style::RGBColor(0, 140, 90),
    plotters::style::RGBColor(150, 60, 160),
];

/// Rows of text.
struct Rows {
    reader: csv::Reader<Box<dyn Read>>,
    indices: Vec<usize>,
    name: String,
}

struct Row {
    record: csv::StringRecord,
    indices: Vec<usize>,
    name: String,
}

impl Row {
    fn fields(&self) -> Vec<&str> {
        self.indices.iter().map(|index| self.record.get(*index).unwrap_or("")).collect()
    }

    fn place(&self) -> String {
        format!("{}, line {}", self.name, self.record.position().map_or(0, csv::Position::line))
    }
}

impl Rows {
    fn open(input: &Path, columns: &[&str]) -> Result<Self> {
        let (source, name): (Box<dyn Read>, String) = if input == Path::new("-") {
            (Box::new(std::io::stdin()), "standard input".to_owned())
        } else {
            let name = format!("`{}`", input.display());
            (Box::new(File::open(input).with_context(|| format!("cannot read {name}"))?), name)
        };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source);
        let headers = reader.headers().with_context(|| format!("cannot read the header of {name}"))?;
        let find = |column: &&str| {
            headers.iter().position(|header| header == *column).ok_or_else(|| {
                let known: Vec<&str> = headers.iter().collect();
                anyhow!("{name} has no column `{column}`; choose one of: {}", known.join(", "))
            })
        };
        let indices = columns.iter().map(find).collect::<Result<_>>()?;
        Ok(Self { reader, indices, name })
    }

    fn next(&mut self) -> Result<Option<Row>> {
        let mut record = csv::StringRecord::new();
        let more =
            self.reader.read_record(&mut record).with_context(|| format!("cannot read {}", self.name))?;
        Ok(more.then(|| Row { record, indices: self.indices.clone(), name: self.name.clone() }))
    }
}

/// The output, continued where the state says.
struct Sink {
    json: bool,
    writer: BufWriter<Box<dyn Write>>,
    file: Option<File>,
    /// What an earlier run wrote before the step that is shown again.
    earlier: Vec<Line>,
}

impl Sink {
    /// Opens `-` or a file, and writes `again`, the lines of the step that the state stands at. A continued file must agree
    /// with them as far as it goes; what a crash cut short is completed.
    fn open(path: &Path, json: bool, resumable: bool, again: &[Line]) -> Result<Self> {
        let context = || format!("cannot write to `{}`", path.display());
        let mut earlier = Vec::new();
        let mut missing = if json { String::new() } else { HEADER.to_owned() };
        let (target, file): (Box<dyn Write>, Option<File>) = if path == Path::new("-") {
            (Box::new(std::io::stdout()), None)
        } else {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(!resumable)
                .open(path)
                .with_context(context)?;
            let mut contents = String::new();
            file.read_to_string(&mut contents).with_context(context)?;
            if !contents.is_empty() {
                earlier = kept(&contents, json, again)
                    .with_context(|| format!("`{}` does not belong to this state", path.display()))?;
                for line in &earlier {
                    missing += &text(line, json)?;
                }
                if !contents.starts_with(&missing) {
                    bail!("`{}` was edited since it was written; choose another output file", path.display());
                }
                // What stands before the step that is shown again is never touched.
                file.set_len(missing.len() as u64).with_context(context)?;
                file.seek(SeekFrom::End(0)).with_context(context)?;
                missing.clear();
            }
            (Box::new(file.try_clone().with_context(context)?), Some(file))
        };
        let mut sink = Self { json, writer: BufWriter::new(target), file, earlier };
        sink.writer.write_all(missing.as_bytes())?;
        for line in again {
            sink.write(line)?;
        }
        sink.make_durable()?;
        Ok(sink)
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        self.writer.write_all(text(line, self.json)?.as_bytes())?;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    fn make_durable(&mut self) -> Result<()> {
        self.flush()?;
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        Ok(())
    }
}

fn text(line: &Line, json: bool) -> Result<String> {
    if json {
        return Ok(serde_json::to_string(line)? + "\n");
    }
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.serialize(line)?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// The lines of an earlier run before the step of `again`; those of that step must be the beginning of `again`.
fn kept(contents: &str, json: bool, again: &[Line]) -> Result<Vec<Line>> {
    let complete = contents.rfind('\n').map_or("", |end| &contents[..=end]);
    let mut lines: Vec<Line> = Vec::new();
    if json {
        for line in complete.lines() {
            lines.push(serde_json::from_str(line).context("a line is not a release")?);
        }
    } else {
        for line in csv::Reader::from_reader(complete.as_bytes()).deserialize() {
            lines.push(line.context("a line is not a release")?);
        }
    }
    let step = again.first().map_or(0, |line| line.step);
    if let Some(later) = lines.iter().find(|line| line.step > step) {
        bail!("it holds step {}, but the state stands at step {step}; restore the state", later.step);
    }
    let before = lines.iter().position(|line| line.step == step).unwrap_or(lines.len());
    let same = lines[before..].iter().zip(again).all(|(old, new)| old == new);
    if !same || lines.len() - before > again.len() {
        bail!(
            "its lines of step {step} are not those that were released; restore the file, or choose another"
        );
    }
    lines.truncate(before);
    Ok(lines)
}
