//! `dp release`: a private statistic of a CSV column after every row.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use dp_mechanisms::{Footprint, Horizon, Method, Participation, Plan, Relation, Session, exact};

use crate::arguments::{self, NoiseArguments, OutputArguments, Usage};
use crate::consumed::{self, Consumed, ROWS};
use crate::files::{self, Files, Kind};
use crate::guarantee::{Arithmetic, Guarantee, Unit};
use crate::output;
use crate::plot::{self, Curve, Panel};
use crate::records::{self, BadRows, Fault, Records, Row, RowArguments};
use crate::rows::Rows;
use crate::sink::{Format, Line, Sink, Standing};

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
    /// The most rows that become durable, and visible, together
    #[arg(long, value_name = "ROWS", default_value = "1024", value_parser = arguments::steps)]
    group: usize,
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    noise: NoiseArguments,
}

impl Release {
    pub(crate) fn run(&self) -> Result<()> {
        let plan = self.plan()?;
        let arithmetic = match plan.arithmetic() {
            dp_mechanisms::Arithmetic::Idealized => Arithmetic::Idealized,
            dp_mechanisms::Arithmetic::Exact { .. } => Arithmetic::Exact,
        };
        let (horizon, sigma) = match plan.horizon() {
            Horizon::Steps(steps) => (format!("{steps} steps"), Some(plan.sigma())),
            Horizon::Doubling(first) => (format!("epochs that double, from {first} steps on"), None),
        };
        let name = plan.strategy().name();
        let guarantee = self.guarantee(name, horizon, sigma, arithmetic);
        self.run_with(&plan, &guarantee)
    }

    fn guarantee<'a>(
        &self,
        strategy: &'a str,
        horizon: String,
        sigma: Option<f64>,
        arithmetic: Arithmetic,
    ) -> Guarantee<'a> {
        let (relation, participation) = (self.relation, self.participation);
        let budget = self.noise.budget.words();
        Guarantee { unit: Unit::Row, relation, participation, budget, strategy, horizon, sigma, arithmetic }
    }

    fn run_with(&self, plan: &Plan, guarantee: &Guarantee) -> Result<()> {
        let OutputArguments { output, plot, json, overwrite, .. } = &self.output;
        let mut files = Files::default();
        files.reads("--input", &self.input);
        if let Some(weights) = self.workload.strip_prefix("weights:") {
            files.reads("--workload", Path::new(weights));
        }
        self.output.check(files)?;
        let resumable = self.output.is_resumable();
        let pipe = files::kind(&self.input)? == Kind::Stream;
        if resumable && pipe && self.from_row.is_none() {
            return Err(Usage::error(
                "a pipe with --state needs --from-row: say which row of the stream comes first, so that none is counted \
                 twice (1 if the pipe brings all rows from the beginning)",
            ));
        }
        let records = Records::open(&self.input, &[&self.column], &[])?;
        let name = records.name().to_owned();
        guarantee.print();
        let mut stream = Stream::open(self, plan)?;
        let done = stream.step();
        let from = self.from_row.unwrap_or(1);
        if from != 1 && from != done + 1 {
            bail!(
                "the state has used {done} rows: give --from-row {} for a pipe that brings the next row first, or --from-row \
                 1 for one that brings all rows again",
                done + 1
            );
        }
        let mut consumed = Consumed::saved(stream.attachment(), done)?;
        let progress = output::progress(&self.input, self.steps.unwrap_or(0), done);
        let rows = Rows::start(records, self.group.min(1024));
        let mut past = consumed.again();
        for row in from..=done {
            let Some(again) = rows.wait() else {
                bail!(
                    "{name} has {} rows, but the state has used {done} already; continue with the same file, longer by the \
                     new rows",
                    row - 1
                );
            };
            let again = again?;
            past.push(&consumed::bytes_of(&again), &again.place)?;
        }
        let format = Format { items: None, json: *json };
        let mut sink = if resumable {
            let again = stream.committed();
            let remembered = done + 1 - again.len();
            let standing = Standing { done, again: &again, remembered, every_step: true };
            Sink::continued(output, format, plot.is_some(), &standing)?
        } else {
            Sink::start(output, format, plot.is_some(), *overwrite)?
        };
        while let Some(first) = rows.wait() {
            let mut problem = None;
            let mut next = Some(first);
            let mut group = 0;
            // Whatever has arrived by now becomes durable together.
            while let Some(row) = next.take() {
                match row.and_then(|row| self.stage(&mut stream, &row).map(|()| row)) {
                    Ok(row) => {
                        consumed.push(&consumed::bytes_of(&row));
                        group += 1;
                    }
                    Err(error) => {
                        problem = Some(error);
                        break;
                    }
                }
                next = if group < self.group { rows.ready() } else { None };
            }
            if group > 0 {
                stream.commit(&mut sink, &consumed)?;
                progress.inc(group as u64);
            }
            if let Some(error) = problem {
                stream.finish(&mut sink)?;
                return Err(error);
            }
        }
        stream.finish(&mut sink)?;
        progress.finish_and_clear();
        match plot {
            Some(path) => self.draw(path, sink.lines()),
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
                let planned = methods.iter().map(plan).find(|plan| plan.is_ok());
                return planned.unwrap_or_else(|| plan(&methods[0])).map_err(Usage::error);
            }
            (None, Some(steps)) => steps,
            (None, None) => {
                return Err(Usage::error("how many rows? give --steps, or --doubling if nobody knows"));
            }
        };
        if self.idealized {
            let budget = self.noise.budget.required()?;
            let strategy = arguments::strategy(&self.strategy, &workload, steps, self.participation)?;
            return Plan::new(strategy, footprint, budget).context(cannot);
        }
        let budget = self.noise.budget.exact()?;
        let strategy =
            arguments::exact_strategy(&self.strategy, &workload, steps, self.participation, budget)?;
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

    fn stage(&self, stream: &mut Stream, row: &Row) -> Result<()> {
        let (low, high) = self.bounds;
        let value = match &row.fields {
            Ok(fields) => records::number(&self.column, fields.first().map_or("", String::as_str)),
            Err(Fault { what, .. }) => Err(Fault { column: None, what: what.clone(), value: None }),
        };
        let value = value.and_then(|value| match self.rows.bad_rows {
            BadRows::Clamp => Ok(value.clamp(low, high)),
            _ if (low..=high).contains(&value) => Ok(value),
            _ => {
                Err(Fault::new(&self.column, format!("outside the bounds {low}:{high}"), &value.to_string()))
            }
        });
        // A blank row is 0, or what the bounds allow that is nearest to it.
        let value = self.rows.settle(&row.place, value, || 0.0_f64.clamp(low, high))?;
        stream.stage(value).with_context(|| row.place.to_string())
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

/// The mechanism, with or without a state on disk.
struct Stream {
    session: Session,
}

impl Stream {
    fn open(command: &Release, plan: &Plan) -> Result<Self> {
        let (seed, file) = (command.noise.seed()?, command.output.open_state()?);
        Ok(Self { session: Session::open(plan.clone(), seed, file)? })
    }

    /// The number of steps that are already released.
    fn step(&self) -> usize {
        self.session.step()
    }

    /// The lines of the last group, which a crash may have kept from the output.
    fn committed(&self) -> Vec<Line> {
        self.session.last_committed().iter().map(|(step, release)| self.line(step, release)).collect()
    }

    /// What the state remembers of the rows that it has used.
    fn attachment(&self) -> &[u8] {
        self.session.attachment(ROWS).unwrap_or_default()
    }

    fn stage(&mut self, value: f64) -> Result<()> {
        Ok(self.session.stage(&[value])?)
    }

    /// Makes what is staged durable, then writes it.
    fn commit(&mut self, sink: &mut Sink, consumed: &Consumed) -> Result<()> {
        if self.session.is_durable() {
            // The state forgets the group before: by now it must be safe in the output.
            sink.make_durable()?;
            self.session.attach(ROWS, consumed.encode());
        }
        self.session.commit()?;
        for line in self.committed() {
            sink.write(&line)?;
        }
        sink.flush()
    }

    fn finish(&mut self, sink: &mut Sink) -> Result<()> {
        sink.make_durable()?;
        Ok(self.session.acknowledge()?)
    }

    fn line(&self, step: usize, release: &[f64]) -> Line {
        // A report never stops a release: without an end, some deviations would take matrices that are too large.
        let standard_deviation = self.session.plan().standard_deviation(step).unwrap_or(f64::NAN);
        let release = release.first().copied().unwrap_or(f64::NAN);
        Line { step, item: None, release, standard_deviation }
    }
}
