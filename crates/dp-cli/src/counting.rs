//! What the commands that count share: rows of a CSV file in, lines `step,item,release,standard_deviation` out.

mod lines;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use dp_apps::{Counts, Encoding};
use dp_mechanisms::{Budget, Footprint, Relation, Seed, Snapshot, StateFile, Strategy, planner};

use self::lines::{Line, Sink};
use crate::arguments::{self, NoiseArguments, OutputArguments, Usage};
use crate::output;
use crate::plot::{self, Curve, Panel};
use crate::records::Records;

/// Where rows come from, what is printed of the counts, and how the run is continued.
#[derive(Args)]
pub(crate) struct CountingArguments {
    /// The CSV file with a header line and one row per step, or - for standard input; a run that is continued with
    /// --state needs the same file again, longer by new rows
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,
    /// The column to read
    #[arg(long, value_name = "NAME")]
    pub(crate) column: String,
    /// What is protected: that a person's row is there at all (zero-out), or what it says (replace)
    #[arg(long, value_name = "zero-out|replace")]
    pub(crate) relation: Relation,
    /// The number of rows that the guarantee is planned for
    #[arg(long, value_parser = arguments::steps)]
    steps: usize,
    /// A name that `dp plan` lists, or auto for one within half a percent of the smallest error there can be, or else the
    /// best that the encoding's proof covers; where steps times items exceed a million (always, with --discover), among
    /// those with a short memory for each item
    #[arg(long, default_value = "auto")]
    strategy: String,
    /// The statistic of each item: count, window:W, exp:A or average
    #[arg(long, default_value = "count")]
    workload: String,
    /// Items to print, chosen without looking at the data
    #[arg(long, value_name = "ITEM,…", value_delimiter = ',', conflicts_with = "top")]
    show: Vec<String>,
    /// Print the items with the largest released values, this many [default: 10; all that stand out, with --discover]
    #[arg(long, value_name = "NUMBER")]
    top: Option<usize>,
    /// Print after every so many rows, and after the last one
    #[arg(long, value_name = "ROWS", default_value = "1", value_parser = arguments::steps)]
    every: usize,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    noise: NoiseArguments,
}

/// Private counts at work, as the loop over the rows sees them.
pub(crate) trait Counter {
    /// The number of rows counted.
    fn step(&self) -> usize;

    /// The standard deviation of every release after the current step.
    fn standard_deviation(&self) -> f64;

    /// Takes the row of the next step, by its fields.
    fn push(&mut self, fields: &[&str]) -> Result<()>;

    /// Shows a row that an earlier run has counted to whatever remembers rows.
    fn replay(&mut self, fields: &[&str]) -> Result<()>;

    /// The release of an item.
    fn count(&mut self, item: &str) -> dp_apps::Result<f64>;

    /// The items with the largest releases, largest first.
    fn largest(&mut self, most: Option<usize>) -> Result<Vec<(String, f64)>>;

    /// Everything needed to continue later.
    fn snapshot(&self) -> Snapshot;

    /// How good the answers of the current step are, in a sentence.
    fn accuracy(&self) -> Result<String>;
}

/// How counting begins.
pub(crate) enum Beginning<'a> {
    /// With secret noise.
    Secret,
    /// With noise that anybody can repeat.
    Reproducible(Seed),
    /// Where an earlier run stopped.
    Saved(&'a Snapshot),
}

impl CountingArguments {
    /// The budget, which must have been given.
    pub(crate) fn budget(&self) -> Result<Budget> {
        self.noise.budget.required()
    }

    /// The strategy by name, or the best for what one person can change.
    pub(crate) fn strategy(&self, footprint: &Footprint, dimension: u64) -> Result<Arc<dyn Strategy>> {
        let workload = arguments::workload(&self.workload)?;
        let found = if self.strategy == "auto" {
            planner::for_footprint(&workload, self.steps, footprint, dimension)
        } else {
            let participation = planner::main_participation(footprint);
            let problem = arguments::problem(&workload, self.steps, participation)?;
            arguments::method(&self.strategy)?.build(&problem)
        };
        found.map_err(Usage::error)
    }

    /// Counts every row. `event` turns a row, by the values of the named columns, into the encoding's event.
    pub(crate) fn count<E: Encoding>(
        &self,
        encoding: E,
        columns: &[&str],
        event: impl Fn(&E, &[&str]) -> Result<Box<E::Event>>,
    ) -> Result<()> {
        let budget = self.budget()?;
        let footprint = encoding.footprint().map_err(Usage::error)?;
        let strategy = self.strategy(&footprint, encoding.dimension())?;
        self.run(columns, |beginning| {
            let counts = match beginning {
                Beginning::Secret => Counts::new(encoding, strategy, budget),
                Beginning::Reproducible(seed) => Counts::reproducible(encoding, strategy, budget, seed),
                Beginning::Saved(snapshot) => Counts::resume(encoding, strategy, budget, snapshot),
            };
            Ok(Known { counts: counts?, event })
        })
    }

    /// Counts every row with what `begin` makes.
    pub(crate) fn run<C: Counter>(
        &self,
        columns: &[&str],
        begin: impl FnOnce(Beginning) -> Result<C>,
    ) -> Result<()> {
        let OutputArguments { output, plot, json, .. } = &self.output;
        let resumable = self.output.is_resumable();
        if resumable && self.input == Path::new("-") {
            return Err(Usage::error(
                "--state needs a file as --input: a continued run reads its rows again",
            ));
        }
        let seed = self.noise.reproducible_seed();
        let file = self.output.open_state()?;
        let saved = file.as_ref().map(StateFile::read).transpose()?.flatten();
        let mut records = Records::open(&self.input, columns)?;
        let mut counter = begin(match (&saved, seed) {
            (Some(snapshot), _) => Beginning::Saved(snapshot),
            (None, Some(seed)) => Beginning::Reproducible(Seed::reproducible(seed)),
            (None, None) => Beginning::Secret,
        })?;
        let done = counter.step();
        for step in 0..done {
            if !records.advance()? {
                bail!(
                    "the input has {step} rows, but the state has used {done} already; continue with the same file"
                );
            }
            counter.replay(&records.fields()).with_context(|| records.place())?;
        }
        let again = if done > 0 { self.lines(&mut counter)? } else { Vec::new() };
        let mut sink = Sink::open(output, *json, resumable, done, &again)?;
        let mut drawn = sink.earlier.clone();
        drawn.extend(again);
        let progress = output::progress(&self.input, self.steps, done);
        let mut shown = done;
        let result = loop {
            match records.advance() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            // Whatever was counted before a bad row stays valid, and is shown.
            if let Err(error) = counter.push(&records.fields()).with_context(|| records.place()) {
                break Err(error);
            }
            progress.inc(1);
            if counter.step().is_multiple_of(self.every) {
                self.show(&mut counter, file.as_ref(), &mut sink, &mut drawn)?;
                shown = counter.step();
            }
        };
        if counter.step() > shown {
            self.show(&mut counter, file.as_ref(), &mut sink, &mut drawn)?;
        }
        progress.finish_and_clear();
        result?;
        if counter.step() > 0 {
            eprintln!("after step {}, {}", counter.step(), counter.accuracy()?);
        }
        match plot {
            // That nothing stands out is an answer, not a failure.
            Some(path) if drawn.is_empty() && counter.step() > 0 => {
                eprintln!("there is no item to draw, so `{}` is not drawn", path.display());
                Ok(())
            }
            Some(path) => self.draw(path, &drawn),
            None => Ok(()),
        }
    }

    /// Saves the state, and only then shows what it releases.
    fn show(
        &self,
        counter: &mut impl Counter,
        file: Option<&StateFile>,
        sink: &mut Sink,
        drawn: &mut Vec<Line>,
    ) -> Result<()> {
        let lines = self.lines(counter)?;
        if let Some(file) = file {
            // The state forgets the step shown before: by now it must be safe in the output.
            sink.make_durable()?;
            file.write(&counter.snapshot())?;
        }
        for line in lines {
            sink.write(&line)?;
            if self.output.plot.is_some() {
                drawn.push(line);
            }
        }
        sink.flush()
    }

    /// The lines of the current step: a function of releases and public choices alone.
    fn lines(&self, counter: &mut impl Counter) -> Result<Vec<Line>> {
        let releases = if self.show.is_empty() {
            counter.largest(self.top)?
        } else {
            let named = |item: &String| Ok((item.clone(), counter.count(item).map_err(Usage::error)?));
            self.show.iter().map(named).collect::<Result<_>>()?
        };
        let (step, standard_deviation) = (counter.step(), counter.standard_deviation());
        let line = |(item, release)| Line { step, item, release, standard_deviation };
        Ok(releases.into_iter().map(line).collect())
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
                let own = lines.iter().filter(|line| line.item == item.item);
                let values = own.map(|line| (line.step as f64, line.release, line.standard_deviation));
                Curve::noisy(item.item.clone(), colour, values)
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

/// Counts over coordinates that are known beforehand, and how a row becomes an event.
struct Known<E, F> {
    counts: Counts<E>,
    event: F,
}

impl<E: Encoding, F: Fn(&E, &[&str]) -> Result<Box<E::Event>>> Counter for Known<E, F> {
    fn step(&self) -> usize {
        self.counts.step()
    }

    fn standard_deviation(&self) -> f64 {
        self.counts.standard_deviation()
    }

    fn push(&mut self, fields: &[&str]) -> Result<()> {
        let event = (self.event)(self.counts.encoding(), fields)?;
        self.counts.push(&event)?;
        Ok(())
    }

    fn replay(&mut self, fields: &[&str]) -> Result<()> {
        let event = (self.event)(self.counts.encoding(), fields)?;
        Ok(self.counts.replay(&event)?)
    }

    fn count(&mut self, item: &str) -> dp_apps::Result<f64> {
        Ok(self.counts.count(item)?.value)
    }

    fn largest(&mut self, most: Option<usize>) -> Result<Vec<(String, f64)>> {
        let top = self.counts.top(most.unwrap_or(10), 0.05)?;
        let label = |coordinate| self.counts.encoding().label(coordinate).unwrap_or_default();
        Ok(top.entries.into_iter().map(|(coordinate, value)| (label(coordinate), value)).collect())
    }

    fn snapshot(&self) -> Snapshot {
        self.counts.snapshot()
    }

    fn accuracy(&self) -> Result<String> {
        Ok(format!(
            "all {} counts are within {:.2} of the truth with probability 95 %",
            self.counts.encoding().dimension(),
            self.counts.band(0.05)?
        ))
    }
}
