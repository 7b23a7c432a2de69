//! What the commands that count share: rows of a CSV file in, lines `step,item,release,standard_deviation` out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use dp_apps::{Counts, Encoding};
use dp_mechanisms::session::Save;
use dp_mechanisms::{Budget, Footprint, Participation, Plan, Relation, Seed, Snapshot, Strategy};

use crate::arguments::{self, NoiseArguments, OutputArguments, Usage};
use crate::engine::{Engine, Live};
use crate::files::{self, Files, Kind};
use crate::guarantee::{Guarantee, Unit};
use crate::output;
use crate::plot::{self, Curve, Panel};
use crate::records::{BadRows, Fault, Records, Row, RowArguments};
use crate::rows;
use crate::sink::{Format, Line};

/// The most items among which the largest are looked for.
const MOST_COMPARED: u64 = 1 << 22;

/// Where rows come from, what is printed of the counts, and how the run is continued.
#[derive(Args)]
pub(crate) struct CountingArguments {
    /// The CSV file with a header line and one row per step, or - for standard input; a run that is continued with
    /// --state needs the same file again, longer by new rows
    #[arg(long, value_name = "FILE|-")]
    pub(crate) input: PathBuf,
    /// The column to read
    #[arg(long, value_name = "NAME")]
    pub(crate) column: String,
    /// What is protected about a row: what it says, if it might as well have been blank (zero-out), or if it might have said
    /// anything else (replace)
    #[arg(long, value_name = "zero-out|replace")]
    pub(crate) relation: Relation,
    /// The number of rows that the guarantee is planned for
    #[arg(long, value_parser = arguments::steps)]
    steps: Option<usize>,
    /// A name that `dp plan` lists, or auto for one within half a percent of the smallest error there can be, or else the
    /// best that the encoding's proof covers; where steps times items exceed a million (always, with --discover), among
    /// those with a short memory for each item
    #[arg(long, default_value = "auto")]
    pub(crate) strategy: String,
    /// The statistic of each item: count, window:W, exp:A or average
    #[arg(long, default_value = "count")]
    pub(crate) workload: String,
    /// Items to print, chosen without looking at the data
    #[arg(long, value_name = "ITEM,…", value_delimiter = ',', conflicts_with = "top")]
    pub(crate) show: Vec<String>,
    /// Print the items with the largest released values, this many [default: 10; all that stand out, with --discover]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) top: Option<usize>,
    /// Print after every so many rows, and after the last one
    #[arg(long, value_name = "ROWS", default_value = "1", value_parser = arguments::steps)]
    pub(crate) every: usize,
    /// Compute in floating point instead of exact integers: faster, but the low bits of a released number can give a person
    /// away to whoever studies them
    #[arg(long)]
    pub(crate) idealized: bool,
    #[command(flatten)]
    pub(crate) rows: RowArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) noise: NoiseArguments,
}

/// Why a row was not taken.
pub(crate) enum Refusal {
    /// Something is wrong with the row.
    Row(Fault),
    /// Something is wrong with the run.
    Run(anyhow::Error),
}

impl From<dp_apps::Error> for Refusal {
    fn from(error: dp_apps::Error) -> Self {
        match error {
            dp_apps::Error::Mechanism(error) => Self::Run(error.into()),
            other => Self::Row(Fault::of(&other)),
        }
    }
}

/// Private counts at work.
pub(crate) trait Counter {
    /// The number of rows counted.
    fn step(&self) -> usize;

    /// The plan.
    fn plan(&self) -> &Plan;

    /// Takes the row of the next step, by its fields; without fields it is blank.
    fn push(&mut self, fields: Option<&[String]>) -> Result<(), Refusal>;

    /// Shows a row that an earlier run has counted to whatever remembers rows.
    fn replay(&mut self, fields: Option<&[String]>) -> Result<(), Refusal>;

    /// Whether there is such an item.
    fn knows(&self, item: &str) -> bool;

    /// The number of items among which the largest are looked for.
    fn items(&self) -> u64;

    /// The release of an item.
    fn count(&mut self, item: &str) -> dp_apps::Result<f64>;

    /// The items with the largest releases, largest first.
    fn largest(&mut self, most: Option<usize>) -> Result<Vec<(String, f64)>>;

    /// Everything needed to continue later.
    fn snapshot(&self) -> Snapshot;

    /// How good the answers of the current step are, in a sentence.
    fn accuracy(&self) -> Result<String>;

    /// The lines after the current step: of items by name, or of those with the largest releases.
    fn lines(&mut self, show: &[String], top: Option<usize>) -> Result<Vec<Line>> {
        let releases = if show.is_empty() {
            self.largest(top)?
        } else {
            let named = |item: &String| Ok((item.clone(), self.count(item).map_err(Usage::error)?));
            show.iter().map(named).collect::<Result<_>>()?
        };
        let (step, standard_deviation) = (self.step(), self.standard_deviation());
        let line = |(item, release)| Line { step, item: Some(item), release, standard_deviation };
        Ok(releases.into_iter().map(line).collect())
    }

    /// The standard deviation of every release after the current step.
    fn standard_deviation(&self) -> f64 {
        self.plan().standard_deviation(self.step()).unwrap_or(0.0)
    }
}

/// What a command counts: its columns, the public files it has read, and in how many rows one person may appear.
pub(crate) struct Counting<'a> {
    pub(crate) columns: &'a [&'a str],
    pub(crate) list: Option<(&'static str, &'a Path)>,
    pub(crate) participation: Participation,
}

impl CountingArguments {
    /// The budget, which must have been given.
    pub(crate) fn budget(&self) -> Result<Budget> {
        self.noise.budget.required()
    }

    /// The strategy by name, or the best for what one person can change.
    pub(crate) fn strategy(&self, footprint: &Footprint, dimension: u64) -> Result<Arc<dyn Strategy>> {
        let workload = arguments::workload(&self.workload)?;
        arguments::strategy_for(&self.strategy, &workload, self.steps()?, footprint, dimension)
    }

    fn steps(&self) -> Result<usize> {
        self.steps.ok_or_else(|| Usage::error("how many rows will there be? give --steps"))
    }

    /// The plan of an encoding.
    pub(crate) fn plan(&self, encoding: &impl Encoding) -> Result<Plan> {
        let budget = self.budget()?;
        let footprint = encoding.footprint().map_err(Usage::error)?;
        let strategy = self.strategy(&footprint, encoding.dimension())?;
        let plan = if self.idealized {
            encoding.idealized_plan(&strategy, budget)
        } else {
            encoding.plan(&strategy, budget)
        };
        plan.map_err(Usage::error)
    }

    /// Counts every row. `event` turns a row, by the values of the named columns, into the encoding's event; without fields,
    /// into that of a blank row.
    pub(crate) fn count<E: Encoding>(
        &self,
        counting: &Counting,
        encoding: E,
        event: impl Fn(&E, Option<&[String]>) -> Result<Box<E::Event>, Fault>,
    ) -> Result<()> {
        let plan = self.plan(&encoding)?;
        self.run(counting, |saved, seed| {
            let counts = match saved {
                Some(snapshot) => Counts::resume(encoding, plan, snapshot, seed),
                None => Counts::new(encoding, plan, seed),
            };
            Ok(Known { counts: counts?, event })
        })
    }

    /// Refuses what can be refused before anything is opened.
    fn check(&self, counting: &Counting) -> Result<()> {
        let mut files = Files::default();
        files.reads("--input", &self.input);
        if let Some((option, path)) = counting.list {
            files.reads(option, path);
        }
        if let Some(weights) = self.workload.strip_prefix("weights:") {
            files.reads("--workload", Path::new(weights));
        }
        self.output.check(files)?;
        if self.output.is_resumable() && files::kind(&self.input)? == Kind::Stream {
            return Err(Usage::error(
                "--state needs a file as --input: a continued run reads its rows again",
            ));
        }
        Ok(())
    }

    /// Counts every row with what `begin` makes, from a snapshot where there is one.
    pub(crate) fn run<C: Counter>(
        &self,
        counting: &Counting,
        begin: impl FnOnce(Option<&Snapshot>, Seed) -> Result<C>,
    ) -> Result<()> {
        self.check(counting)?;
        let records = Records::open(&self.input, counting.columns, &[])?;
        let seed = self.noise.seed()?;
        let engine = Engine {
            input: &self.input,
            output: &self.output,
            format: Format {
                items: Some("item"),
                json: self.output.json,
                band: if self.output.band { Some(self.budget()?.band()) } else { None },
            },
            steps: self.steps()?,
            every: self.every,
            every_step: false,
            from: None,
        };
        let (counted, lines) = engine.run(rows::one_per_step(records), |saved| {
            let counter = begin(saved, seed)?;
            self.check_questions(&counter)?;
            self.guarantee(&counter, counting.participation).print();
            Ok(Counted { counter, command: self })
        })?;
        let counter = &counted.live().counter;
        if counter.step() > 0 {
            output::note(&format!("after step {}, {}", counter.step(), counter.accuracy()?));
        }
        match &self.output.plot {
            Some(path) => self.draw(path, &lines),
            None => Ok(()),
        }
    }

    /// Offers a row, and where the policy says so a blank one in its place.
    fn take(&self, row: &Row, mut offer: impl FnMut(Option<&[String]>) -> Result<(), Refusal>) -> Result<()> {
        let offered = match &row.fields {
            Ok(fields) => offer(Some(fields)),
            Err(fault) => Err(Refusal::Row(fault.without_column())),
        };
        let refused = match offered {
            Err(Refusal::Row(_)) if self.rows.bad_rows != BadRows::Refuse => offer(None),
            other => other,
        };
        refused.map_err(|refusal| match refusal {
            Refusal::Row(fault) => self.rows.refusal(&row.place, &fault),
            Refusal::Run(error) => error.context(row.place.to_string()),
        })
    }

    /// Refuses questions that can have no answer.
    fn check_questions(&self, counter: &impl Counter) -> Result<()> {
        if let Some(unknown) = self.show.iter().find(|item| !counter.knows(item)) {
            return Err(Usage::error(format!(
                "`{unknown}` of --show is not one of the items that are counted"
            )));
        }
        if self.show.is_empty() && counter.items() > MOST_COMPARED {
            return Err(Usage::error(format!(
                "the largest of {} items cannot be found, as every single one would be looked at; name at most {} with \
                 --show",
                counter.items(),
                MOST_COMPARED
            )));
        }
        Ok(())
    }

    fn guarantee<'a>(&self, counter: &'a impl Counter, participation: Participation) -> Guarantee<'a> {
        let budget = self.noise.budget.words();
        Guarantee { unit: Unit::Row, participation, budget, plan: counter.plan() }
    }

    fn draw(&self, path: &Path, lines: &[Line]) -> Result<()> {
        let last = lines.last().map_or(0, |last| last.step);
        // The items of the last step, as many as can be told apart.
        let items = lines.iter().filter(|line| line.step == last).take(COLOURS.len());
        let curves = items
            .zip(COLOURS)
            .map(|(item, colour)| {
                let own = lines.iter().filter(|line| line.item == item.item);
                let values = own.map(|line| (line.step as f64, line.release, line.standard_deviation));
                Curve::noisy(item.item.clone().unwrap_or_default(), colour, values)
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

/// Private counts of a column, as the loop over the rows sees them.
struct Counted<'a, C> {
    counter: C,
    command: &'a CountingArguments,
}

impl<C: Counter> Live for Counted<'_, C> {
    fn step(&self) -> usize {
        self.counter.step()
    }

    fn push(&mut self, rows: &[Row]) -> Result<()> {
        rows.iter().try_for_each(|row| self.command.take(row, |fields| self.counter.push(fields)))
    }

    fn replay(&mut self, rows: &[Row]) -> Result<()> {
        rows.iter().try_for_each(|row| self.command.take(row, |fields| self.counter.replay(fields)))
    }

    fn lines(&mut self) -> Result<Vec<Line>> {
        self.counter.lines(&self.command.show, self.command.top)
    }

    /// A coordinate that is asked for again has the same answer, and any other one can be asked for.
    fn can_be_asked_again(&self) -> bool {
        true
    }
}

impl<C: Counter> Save for Counted<'_, C> {
    fn snapshot(&self) -> Snapshot {
        self.counter.snapshot()
    }
}

/// Counts over coordinates that are known beforehand, and how a row becomes an event.
struct Known<E, F> {
    counts: Counts<E>,
    event: F,
}

impl<E: Encoding, F: Fn(&E, Option<&[String]>) -> Result<Box<E::Event>, Fault>> Counter for Known<E, F> {
    fn step(&self) -> usize {
        self.counts.step()
    }

    fn plan(&self) -> &Plan {
        self.counts.plan()
    }

    fn push(&mut self, fields: Option<&[String]>) -> Result<(), Refusal> {
        let event = (self.event)(self.counts.encoding(), fields).map_err(Refusal::Row)?;
        self.counts.push(&event)?;
        Ok(())
    }

    fn replay(&mut self, fields: Option<&[String]>) -> Result<(), Refusal> {
        let event = (self.event)(self.counts.encoding(), fields).map_err(Refusal::Row)?;
        Ok(self.counts.replay(&event)?)
    }

    fn knows(&self, item: &str) -> bool {
        self.counts.encoding().coordinate(item).is_some()
    }

    fn items(&self) -> u64 {
        self.counts.encoding().dimension()
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
