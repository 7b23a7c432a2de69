//! `dp release`: a private statistic of a CSV column after every row.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use dp_mechanisms::session::Save;
use dp_mechanisms::{
    Arithmetic, Footprint, Joint, JointPlan, Mechanism, Method, Participation, Plan, Readout, Relation,
    Snapshot,
};

use crate::arguments::{self, NoiseArguments, OutputArguments, Usage};
use crate::dated::{self, DatedArguments, Job};
use crate::engine::{self, Engine, Live};
use crate::files::{self, Files, Kind};
use crate::guarantee::{Guarantee, Unit};
use crate::plot::{self, Curve, Panel};
use crate::records::{self, BadRows, Fault, Records, Row, RowArguments};
use crate::rows;
use crate::sink::{Format, Line};

/// Release statistics of a CSV column, after every row or after every day
///
/// Reads one number per row and writes `step,release,standard_deviation` as rows arrive, with --band also the ends of the band that
/// holds 95 % of the noise. All lines together satisfy the budget. With --state, the run can be interrupted at any time, even killed, and
/// continued: each step is released once, and shown again unchanged if the interruption kept it from the output.
///
/// A row is one person's, unless --change says that it holds many. With --time, rows of many people are summed up by day, week
/// or hour, and limits per --person are enforced: a small job of `dp run`, whose table is written.
///
/// A row that cannot be used ends the run with exit code 1, unless --bad-rows says otherwise; whatever was released before
/// stays valid.
#[derive(Args)]
pub(crate) struct Release {
    /// The CSV file with a header line, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,
    /// The column to read; without it, and with --time, rows are counted
    #[arg(long, value_name = "NAME", required_unless_present = "time", requires = "bounds")]
    column: Option<String>,
    /// What a value may be; the noise depends on it, unless --change is given, so choose it without looking at the data
    #[arg(long, value_name = "LO:HI", value_parser = arguments::bounds, allow_hyphen_values = true, requires = "column")]
    bounds: Option<(f64, f64)>,
    /// By how much one person can change the value of a row, where a row holds many people; the bounds then say only what the
    /// value may be [default: what the bounds allow]
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true, conflicts_with = "time")]
    change: Option<f64>,
    /// What is protected about a row: its value, if it might as well have been blank (zero-out), or which value within the
    /// bounds it is (replace)
    #[arg(long, value_name = "zero-out|replace")]
    relation: Relation,
    /// The number of rows that the guarantee is planned for
    #[arg(
        long,
        value_parser = arguments::steps,
        required_unless_present_any = ["doubling", "time"],
        conflicts_with = "time"
    )]
    steps: Option<usize>,
    /// Nobody knows how many rows there will be: plan for this many, then for twice as many more, and so on for ever
    #[arg(long, value_name = "ROWS", value_parser = arguments::steps, conflicts_with_all = ["steps", "time"])]
    doubling: Option<usize>,
    /// The statistic: total (running sum, also called count), step, average, window:W, exp:A, poly:C, momentum:B or
    /// weights:FILE; with --time also mean. Given several times, all are read off one noise that is planned for them together
    #[arg(long, required = true)]
    workload: Vec<String>,
    /// A name that `dp plan` lists, or auto for the best
    #[arg(long, default_value = "auto", conflicts_with = "time")]
    strategy: String,
    /// In how many rows one person may appear: single, or K:B for at most K rows, any two at least B apart; with --time, in how
    /// many steps [default: single]
    #[arg(long, value_name = "K:B")]
    participation: Option<Participation>,
    /// The input begins with this row of the stream, counted from 1; needed where a pipe continues a --state
    #[arg(long, value_name = "ROW", value_parser = arguments::steps, conflicts_with = "time")]
    from_row: Option<usize>,
    /// Compute in floating point instead of exact integers: faster, but the low bits of a released number can give a person
    /// away to whoever studies them
    #[arg(long, conflicts_with = "time")]
    idealized: bool,
    /// Values are rounded to multiples of this, such as 1 where they are whole numbers [default: a power of two near 1/65536 of
    /// what one person can change]
    #[arg(long, value_name = "UNIT", conflicts_with = "idealized", allow_negative_numbers = true)]
    grid: Option<f64>,
    #[command(flatten)]
    rows: RowArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    dated: DatedArguments,
    // Last, because it ends with a heading of its own.
    #[command(flatten)]
    noise: NoiseArguments,
}

/// What is released: one statistic, or several that are read off one noise.
enum Planned {
    One(Plan),
    Several(Box<JointPlan>),
}

impl Planned {
    fn plan(&self) -> &Plan {
        match self {
            Self::One(plan) => plan,
            Self::Several(joint) => joint.plan(),
        }
    }
}

impl Release {
    pub(crate) fn run(&self) -> Result<()> {
        if self.dated.is_given()? {
            return self.by_calendar();
        }
        let (Some(column), Some(bounds)) = (&self.column, self.bounds) else {
            return Err(Usage::error("give --column and --bounds, or --time to count rows"));
        };
        let mut files = Files::default();
        files.reads("--input", &self.input);
        for weights in self.workload.iter().filter_map(|text| text.strip_prefix("weights:")) {
            files.reads("--workload", Path::new(weights));
        }
        self.output.check(files)?;
        let planned = self.plan(bounds)?;
        if self.output.is_resumable() && self.from_row.is_none() && files::kind(&self.input)? == Kind::Stream
        {
            return Err(Usage::error(
                "a pipe with --state needs --from-row: say which row of the stream comes first, so that none is counted \
                 twice (1 if the pipe brings all rows from the beginning)",
            ));
        }
        let records = Records::open(&self.input, &[column], &[])?;
        let unit = if self.change.is_some() { Unit::Part } else { Unit::Row };
        let (participation, budget) = (self.participation(), self.noise.budget.words());
        Guarantee { unit, participation, budget, plan: planned.plan() }.print();
        let items = matches!(planned, Planned::Several(_)).then_some("statistic");
        let engine = Engine {
            input: &self.input,
            output: &self.output,
            format: Format {
                items,
                json: self.output.json,
                band: self.output.band.then(|| planned.plan().budget().band()),
            },
            steps: self.steps.unwrap_or(0),
            every: 1,
            every_step: true,
            from: self.from_row,
        };
        let seed = self.noise.seed()?;
        let (_, lines) = engine.run(rows::one_per_step(records), |saved| {
            let mechanism = engine::mechanism(planned.plan().clone(), saved, seed)?;
            let several = match planned {
                Planned::One(_) => None,
                Planned::Several(plan) => Some(Several::new(*plan, saved)?),
            };
            Ok(Numbers { command: self, column, bounds, mechanism, several, release: [0.0] })
        })?;
        match &self.output.plot {
            Some(path) => self.draw(path, column, &lines),
            None => Ok(()),
        }
    }

    /// The same job on rows with times.
    fn by_calendar(&self) -> Result<()> {
        let value = match (&self.column, self.bounds) {
            (Some(column), Some((low, high))) => {
                let resolution = self.grid.map(|grid| format!(", resolution = {grid:?}")).unwrap_or_default();
                Some(format!(
                    "{{ column = {}, bounds = [{low:?}, {high:?}]{resolution} }}",
                    dated::quoted(column)
                ))
            }
            _ => None,
        };
        let statistics = self.workload.iter().map(|text| text.replace("count", "total")).collect();
        self.dated.run(&Job {
            input: &self.input,
            relation: self.relation,
            participation: self.participation,
            bad_rows: self.rows.bad_rows,
            value,
            statistics,
            by: None,
            output: &self.output,
            noise: &self.noise,
        })
    }

    fn participation(&self) -> Participation {
        self.participation.unwrap_or(Participation::Single)
    }

    fn plan(&self, bounds: (f64, f64)) -> Result<Planned> {
        let workloads =
            self.workload.iter().map(|text| arguments::workload(text)).collect::<Result<Vec<_>>>()?;
        let (footprint, cannot) = (self.footprint(bounds)?, "this combination cannot be calibrated");
        let budget = &self.noise.budget;
        let (budget, arithmetic) = if self.idealized {
            (budget.required()?, Arithmetic::Idealized)
        } else {
            (budget.exact()?, Arithmetic::Exact { grid: self.grid.unwrap_or_else(|| footprint.grid()) })
        };
        let steps = match (self.doubling, self.steps) {
            (Some(first), _) => {
                let [workload] = &workloads[..] else {
                    return Err(Usage::error("several statistics need a known end: give --steps"));
                };
                let methods =
                    arguments::endless_strategies(&self.strategy, workload, first, self.participation())?;
                let plan = |method: &Method| {
                    Plan::doubling(workload, *method, footprint.clone(), budget, arithmetic, first)
                };
                if self.idealized {
                    return Ok(Planned::One(plan(&methods[0]).context(cannot)?));
                }
                // Of those that are tried in turn, some cannot be measured on live data.
                let planned = methods.iter().map(plan).find(Result::is_ok);
                let planned = planned.unwrap_or_else(|| plan(&methods[0])).map_err(Usage::error)?;
                return Ok(Planned::One(planned));
            }
            (None, Some(steps)) => steps,
            (None, None) => {
                return Err(Usage::error("how many rows? give --steps, or --doubling if nobody knows"));
            }
        };
        let problem = arguments::joint_problem(&workloads, &[], steps, self.participation())?;
        let strategy = arguments::strategy_within(&self.strategy, &problem, &footprint, budget)?;
        let plan = match arithmetic {
            Arithmetic::Idealized => Plan::idealized(strategy.clone(), footprint, budget).context(cannot)?,
            Arithmetic::Exact { grid } => {
                Plan::exact(&strategy, footprint, budget, grid).map_err(Usage::error)?
            }
        };
        if !problem.is_joint() {
            return Ok(Planned::One(plan));
        }
        let joint = Joint::new(problem, strategy).and_then(|joint| JointPlan::new(joint, plan));
        Ok(Planned::Several(Box::new(joint.map_err(Usage::error)?)))
    }

    fn footprint(&self, (low, high): (f64, f64)) -> Result<Footprint> {
        let footprint = Footprint::scalar(low, high, self.relation, self.participation());
        let footprint = footprint.map_err(Usage::error)?;
        match self.change {
            Some(change) => footprint.with_change(change).map_err(Usage::error),
            None => Ok(footprint),
        }
    }

    /// The number in a row; where the policy says so, one that may stand for it.
    fn value(&self, column: &str, (low, high): (f64, f64), row: &Row) -> Result<f64> {
        let value = match &row.fields {
            Ok(fields) => records::number(column, fields.first().map_or("", String::as_str)),
            Err(fault) => Err(fault.without_column()),
        };
        let value = value.and_then(|value| match self.rows.bad_rows {
            BadRows::Clamp => Ok(value.clamp(low, high)),
            _ if (low..=high).contains(&value) => Ok(value),
            _ => {
                let advice = match self.change {
                    None => "; where a row holds many people, widen them and give --change",
                    Some(_) => "",
                };
                let what = format!("outside the bounds {low}:{high}{advice}");
                Err(Fault::new(column, what, &value.to_string()))
            }
        });
        // A blank row is 0, or what the bounds allow that is nearest to it.
        self.rows.settle(&row.place, value, || 0.0_f64.clamp(low, high))
    }

    fn draw(&self, path: &Path, column: &str, lines: &[Line]) -> Result<()> {
        if lines.is_empty() {
            bail!("nothing was released, so there is nothing to draw in `{}`", path.display());
        }
        let panel = |workload: &String| {
            let own = lines.iter().filter(|line| line.item.as_ref().is_none_or(|item| item == workload));
            let curve = Curve::noisy(
                "release, with the band that holds 95 % of the noise".to_owned(),
                plot::BLUE,
                own.map(|line| (line.step as f64, line.release, line.standard_deviation)),
            );
            Panel {
                title: format!("{workload} of {column}"),
                horizontal: "step".to_owned(),
                vertical: "released value".to_owned(),
                headroom: 0.15,
                curves: vec![curve],
            }
        };
        let panels: Vec<Panel> = self.workload.iter().map(panel).collect();
        plot::draw(path, "Private releases", &panels)
    }
}

/// The name under which a state remembers the statistics and how far they are.
const STATISTICS: &str = "statistics";

/// Several statistics, read off the noisy numbers of a column.
struct Several {
    plan: JointPlan,
    readout: Readout,
    values: Vec<f64>,
}

impl Several {
    /// Before the first step, or where a state stopped.
    fn new(plan: JointPlan, saved: Option<&Snapshot>) -> Result<Self> {
        let (readout, values) = (plan.readout(1)?, vec![0.0; plan.statistics()]);
        let mut several = Self { plan, readout, values };
        if let Some(saved) = saved {
            let states = several.states(saved.attachment(STATISTICS).unwrap_or_default());
            let Some(states) = states else {
                bail!("the state was made for other statistics; give the same --workload in the same order");
            };
            several.readout.restore(saved.step(), &states)?;
        }
        Ok(several)
    }

    fn names(&self) -> Vec<String> {
        let statistics = self.plan.joint().problem().statistics().iter();
        statistics.map(|one| one.workload().to_string()).collect()
    }

    /// The statistics and how far they are, for a sealed state: as many bytes whatever the numbers are.
    fn saved(&self) -> Vec<u8> {
        let mut bytes = (self.names().join(",") + "\n").into_bytes();
        for state in self.readout.state() {
            bytes.extend_from_slice(&(state.len() as u64).to_le_bytes());
            state.iter().for_each(|value| bytes.extend_from_slice(&value.to_bits().to_le_bytes()));
        }
        bytes
    }

    /// Reads what [`Several::saved`] wrote; nothing if it was of other statistics.
    fn states(&self, bytes: &[u8]) -> Option<Vec<Vec<f64>>> {
        let mut bytes = bytes.strip_prefix((self.names().join(",") + "\n").as_bytes())?;
        let mut number = || {
            let (number, rest) = bytes.split_first_chunk()?;
            bytes = rest;
            Some(u64::from_le_bytes(*number))
        };
        let mut states = Vec::new();
        for _ in 0..self.values.len() {
            let length = number()?;
            states.push((0..length).map(|_| number().map(f64::from_bits)).collect::<Option<_>>()?);
        }
        Some(states)
    }
}

/// Statistics of the numbers of a column.
struct Numbers<'a> {
    command: &'a Release,
    column: &'a str,
    bounds: (f64, f64),
    mechanism: Mechanism,
    several: Option<Several>,
    release: [f64; 1],
}

impl Live for Numbers<'_> {
    fn step(&self) -> usize {
        self.mechanism.step()
    }

    fn push(&mut self, rows: &[Row]) -> Result<()> {
        for row in rows {
            let value = self.command.value(self.column, self.bounds, row)?;
            let released = self.mechanism.release(&[value], &mut self.release);
            released.with_context(|| row.place.to_string())?;
            if let Some(Several { readout, values, .. }) = &mut self.several {
                readout.push(&self.release, values)?;
            }
        }
        Ok(())
    }

    fn replay(&mut self, _rows: &[Row]) -> Result<()> {
        Ok(())
    }

    fn lines(&mut self) -> Result<Vec<Line>> {
        let (step, plan) = (self.mechanism.step(), self.mechanism.plan());
        let Some(several) = &self.several else {
            // A report never stops a release: without an end, some deviations would take matrices that are too large.
            let deviation = plan.standard_deviation(step).unwrap_or(f64::NAN);
            let release = plan.on_grid(self.release[0]);
            return Ok(vec![Line { step, item: None, release, standard_deviation: deviation }]);
        };
        // By the names under which they were asked for.
        let line = |(index, (name, value)): (usize, (&String, &f64))| {
            let standard_deviation = several.plan.standard_deviation(index, step).unwrap_or(f64::NAN);
            let release = several.plan.on_grid(index, *value);
            Line { step, item: Some(name.clone()), release, standard_deviation }
        };
        Ok(self.command.workload.iter().zip(&several.values).enumerate().map(line).collect())
    }

    fn can_be_asked_again(&self) -> bool {
        false
    }
}

impl Save for Numbers<'_> {
    fn snapshot(&self) -> Snapshot {
        match &self.several {
            Some(several) => self.mechanism.snapshot().with_attachment(STATISTICS, several.saved()),
            None => self.mechanism.snapshot(),
        }
    }
}
