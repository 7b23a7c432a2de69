//! `dp release`: a private statistic of a CSV column after every row.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use dp_mechanisms::{Footprint, Mechanism, Method, Participation, Plan, Relation, Snapshot, exact};

use crate::arguments::{self, NoiseArguments, OutputArguments, Usage};
use crate::engine::{self, Engine, Live};
use crate::files::{self, Files, Kind};
use crate::guarantee::{Guarantee, Unit};
use crate::plot::{self, Curve, Panel};
use crate::records::{self, BadRows, Fault, Records, Row, RowArguments};
use crate::rows;
use crate::sink::{Format, Line};

/// Release a statistic of a CSV column, one line per row
///
/// Reads one number per row and writes `step,release,standard_deviation` as rows arrive. All lines together satisfy
/// the budget. With --state, the run can be interrupted at any time, even killed, and continued: each step is released
/// once, and shown again unchanged if the interruption kept it from the output.
///
/// A row that cannot be used ends the run with exit code 1, unless --bad-rows says otherwise; whatever was released before
/// stays valid.
#[derive(Args)]
pub(crate) struct Release {
    /// The CSV file with a header line, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,
    /// The column to read
    #[arg(long, value_name = "NAME")]
    column: String,
    /// What a value may be; the noise depends on it, so choose it without looking at the data
    #[arg(long, value_name = "LO:HI", value_parser = arguments::bounds, allow_hyphen_values = true)]
    bounds: (f64, f64),
    /// What is protected about a row: its value, if it might as well have been blank (zero-out), or which value within the
    /// bounds it is (replace)
    #[arg(long, value_name = "zero-out|replace")]
    relation: Relation,
    /// The number of rows that the guarantee is planned for
    #[arg(long, value_parser = arguments::steps, required_unless_present = "doubling")]
    steps: Option<usize>,
    /// Nobody knows how many rows there will be: plan for this many, then for twice as many more, and so on for ever
    #[arg(long, value_name = "ROWS", value_parser = arguments::steps, conflicts_with = "steps")]
    doubling: Option<usize>,
    /// The statistic: count (running sum), average, window:W, exp:A, poly:C, momentum:B or weights:FILE
    #[arg(long)]
    workload: String,
    /// A name that `dp plan` lists, or auto for the best
    #[arg(long, default_value = "auto")]
    strategy: String,
    /// In how many rows one person may appear: single, or K:B for at most K rows, any two at least B apart
    #[arg(long, value_name = "K:B", default_value = "single")]
    participation: Participation,
    /// The input begins with this row of the stream, counted from 1; needed where a pipe continues a --state
    #[arg(long, value_name = "ROW", value_parser = arguments::steps)]
    from_row: Option<usize>,
    /// Compute in floating point instead of exact integers: faster, but the low bits of a released number can give a person
    /// away to whoever studies them
    #[arg(long)]
    idealized: bool,
    /// Values are rounded to multiples of this [default: a power of two near 1/65536 of the bounds]
    #[arg(long, value_name = "UNIT", conflicts_with = "idealized", allow_negative_numbers = true)]
    grid: Option<f64>,
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    noise: NoiseArguments,
}

impl Release {
    pub(crate) fn run(&self) -> Result<()> {
        let mut files = Files::default();
        files.reads("--input", &self.input);
        if let Some(weights) = self.workload.strip_prefix("weights:") {
            files.reads("--workload", Path::new(weights));
        }
        self.output.check(files)?;
        let plan = self.plan()?;
        if self.output.is_resumable() && self.from_row.is_none() && files::kind(&self.input)? == Kind::Stream
        {
            return Err(Usage::error(
                "a pipe with --state needs --from-row: say which row of the stream comes first, so that none is counted \
                 twice (1 if the pipe brings all rows from the beginning)",
            ));
        }
        let records = Records::open(&self.input, &[&self.column], &[])?;
        let (unit, participation, budget) = (Unit::Row, self.participation, self.noise.budget.words());
        Guarantee { unit, participation, budget, plan: &plan }.print();
        let engine = Engine {
            input: &self.input,
            output: &self.output,
            format: Format { items: None, json: self.output.json },
            steps: self.steps.unwrap_or(0),
            every: 1,
            every_step: true,
            from: self.from_row,
        };
        let seed = self.noise.seed()?;
        let (_, lines) = engine.run(rows::one_per_step(records), |saved| {
            Ok(Numbers { command: self, mechanism: engine::mechanism(plan, saved, seed)?, release: [0.0] })
        })?;
        match &self.output.plot {
            Some(path) => self.draw(path, &lines),
            None => Ok(()),
        }
    }

    fn plan(&self) -> Result<Plan> {
        let workload = arguments::workload(&self.workload)?;
        let (footprint, cannot) = (self.footprint()?, "this combination cannot be calibrated");
        let steps = match (self.doubling, self.steps) {
            (Some(first), _) => {
                let methods =
                    arguments::endless_strategies(&self.strategy, &workload, first, self.participation)?;
                if self.idealized {
                    let budget = self.noise.budget.required()?;
                    return Plan::doubling(&workload, methods[0], footprint, budget, first).context(cannot);
                }
                let (budget, grid) = (self.noise.budget.exact()?, self.grid());
                let plan = |method: &Method| {
                    Plan::doubling_exact(&workload, *method, footprint.clone(), budget, grid, first)
                };
                // Of those that are tried in turn, some cannot be measured on live data.
                let planned = methods.iter().map(plan).find(Result::is_ok);
                return planned.unwrap_or_else(|| plan(&methods[0])).map_err(Usage::error);
            }
            (None, Some(steps)) => steps,
            (None, None) => {
                return Err(Usage::error("how many rows? give --steps, or --doubling if nobody knows"));
            }
        };
        if self.idealized {
            let budget = self.noise.budget.required()?;
            let strategy = arguments::strategy_for(&self.strategy, &workload, steps, &footprint, 1)?;
            return Plan::new(strategy, footprint, budget).context(cannot);
        }
        let budget = self.noise.budget.exact()?;
        let strategy = arguments::exact_strategy(&self.strategy, &workload, steps, &footprint, budget)?;
        Plan::exact(&strategy, footprint, budget, self.grid()).map_err(Usage::error)
    }

    /// The unit of exact measurements.
    fn grid(&self) -> f64 {
        let (low, high) = self.bounds;
        self.grid.unwrap_or_else(|| exact::grid(low.abs().max(high.abs())))
    }

    fn footprint(&self) -> Result<Footprint> {
        let (low, high) = self.bounds;
        Footprint::scalar(low, high, self.relation, self.participation).map_err(Usage::error)
    }

    /// The number in a row; where the policy says so, one that may stand for it.
    fn value(&self, row: &Row) -> Result<f64> {
        let (low, high) = self.bounds;
        let value = match &row.fields {
            Ok(fields) => records::number(&self.column, fields.first().map_or("", String::as_str)),
            Err(fault) => Err(fault.without_column()),
        };
        let value = value.and_then(|value| match self.rows.bad_rows {
            BadRows::Clamp => Ok(value.clamp(low, high)),
            _ if (low..=high).contains(&value) => Ok(value),
            _ => {
                Err(Fault::new(&self.column, format!("outside the bounds {low}:{high}"), &value.to_string()))
            }
        });
        // A blank row is 0, or what the bounds allow that is nearest to it.
        self.rows.settle(&row.place, value, || 0.0_f64.clamp(low, high))
    }

    fn draw(&self, path: &Path, lines: &[Line]) -> Result<()> {
        if lines.is_empty() {
            bail!("nothing was released, so there is nothing to draw in `{}`", path.display());
        }
        let curve = Curve::noisy(
            "release, with the band that holds 95 % of the noise".to_owned(),
            plot::BLUE,
            lines.iter().map(|line| (line.step as f64, line.release, line.standard_deviation)),
        );
        let panel = Panel {
            title: format!("{} of {}", self.workload, self.column),
            horizontal: "step".to_owned(),
            vertical: "released value".to_owned(),
            headroom: 0.15,
            curves: vec![curve],
        };
        plot::draw(path, "Private releases", &[panel])
    }
}

/// A statistic of the numbers of a column.
struct Numbers<'a> {
    command: &'a Release,
    mechanism: Mechanism,
    release: [f64; 1],
}

impl Live for Numbers<'_> {
    fn step(&self) -> usize {
        self.mechanism.step()
    }

    fn push(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let value = self.command.value(row)?;
            let released = self.mechanism.release(&[value], &mut self.release);
            released.with_context(|| row.place.to_string())?;
        }
        Ok(())
    }

    fn replay(&mut self, _rows: &[Row]) -> Result<()> {
        Ok(())
    }

    fn lines(&mut self) -> Result<Vec<Line>> {
        let (step, plan) = (self.mechanism.step(), self.mechanism.plan());
        // A report never stops a release: without an end, some deviations would take matrices that are too large.
        let standard_deviation = plan.standard_deviation(step).unwrap_or(f64::NAN);
        Ok(vec![Line { step, item: None, release: plan.on_grid(self.release[0]), standard_deviation }])
    }

    fn can_be_asked_again(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Snapshot {
        self.mechanism.snapshot()
    }
}
