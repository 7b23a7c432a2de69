//! `dp release`: a private statistic of a CSV column after every row.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use dp_mechanisms::exact::{ExactMechanism, ExactPlan};
use dp_mechanisms::{
    DoublingMechanism, DoublingPlan, DurableMechanism, Footprint, Mechanism, Participation, Plan, Relation,
    Resumable, Seed,
};

use crate::arguments::{self, NoiseArguments, OutputArguments, Usage};
use crate::output;
use crate::plot::{self, Curve, Panel};
use crate::rows::{Row, Rows};
use crate::sink::{Format, Line, Sink};

/// Release a statistic of a CSV column, one line per row
///
/// Reads one number per row and writes `step,release,standard_deviation` as rows arrive. All lines together satisfy
/// the budget. With --state, the run can be interrupted at any time, even killed, and continued: each step is released
/// once, and shown again unchanged if the interruption kept it from the output.
///
/// A row that cannot be used ends the run with exit code 1; whatever was released before stays valid.
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
    /// What is protected: that a person's value is there at all (zero-out), or which value it is (replace)
    #[arg(long, value_name = "zero-out|replace")]
    relation: Relation,
    /// The number of rows that the guarantee is planned for
    #[arg(long, value_parser = arguments::steps, required_unless_present = "doubling")]
    steps: Option<usize>,
    /// Nobody knows how many rows there will be: plan for this many, then for twice as many more, and so on for ever
    #[arg(long, value_name = "ROWS", value_parser = arguments::steps, conflicts_with_all = ["steps", "exact"])]
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
    /// Move values outside the bounds to the nearest bound instead of refusing them
    #[arg(long)]
    clamp: bool,
    /// Measure in exact integers, safe from whoever looks at the low bits of a number; allows --delta 0
    #[arg(long)]
    exact: bool,
    /// With --exact, values are rounded to multiples of this [default: a power of two near 1/65536 of the bounds]
    #[arg(long, value_name = "UNIT", requires = "exact", allow_negative_numbers = true)]
    grid: Option<f64>,
    /// The most rows that become durable, and visible, together
    #[arg(long, value_name = "ROWS", default_value = "1024", value_parser = arguments::steps)]
    group: usize,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    noise: NoiseArguments,
}

impl Release {
    pub(crate) fn run(&self) -> Result<()> {
        match (self.doubling, self.steps) {
            (None, Some(steps)) if self.exact => {
                let plan = self.exact_plan(steps)?;
                self.run_with(Stream::<ExactMechanism>::open(self, plan, ExactPlan::standard_deviation)?)
            }
            (None, Some(steps)) => {
                let plan = self.plan(steps)?;
                self.run_with(Stream::<Mechanism>::open(self, plan, Plan::standard_deviation)?)
            }
            (Some(first), _) => {
                let deviation = |plan: &DoublingPlan, step| plan.standard_deviation(step).ok();
                self.run_with(Stream::<DoublingMechanism>::open(self, self.doubling_plan(first)?, deviation)?)
            }
            (None, None) => Err(Usage::error("how many rows? give --steps, or --doubling if nobody knows")),
        }
    }

    fn run_with<M: Resumable<Plan: Clone>>(&self, mut stream: Stream<M>) -> Result<()> {
        let OutputArguments { output, plot, json, .. } = &self.output;
        let format = if *json { Format::Json } else { Format::Csv };
        let mut sink = Sink::open(output, format, self.output.is_resumable(), plot.is_some())?;
        stream.show_again(&mut sink)?;
        let progress = output::progress(&self.input, self.steps.unwrap_or(0), stream.step());
        let rows = Rows::open(&self.input, &self.column, stream.step(), self.group.min(1024));
        while let Some(first) = rows.wait() {
            let mut problem = None;
            let mut next = Some(first);
            let mut group = 0;
            // Whatever has arrived by now becomes durable together.
            while let Some(row) = next.take() {
                match row.and_then(|row| self.stage(&mut stream, &row)) {
                    Ok(()) => group += 1,
                    Err(error) => {
                        problem = Some(error);
                        break;
                    }
                }
                next = if group < self.group { rows.ready() } else { None };
            }
            if group > 0 {
                stream.commit(&mut sink)?;
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

    fn plan(&self, steps: usize) -> Result<Plan> {
        let budget = self.noise.budget.required()?;
        let workload = arguments::workload(&self.workload)?;
        let strategy = arguments::strategy(&self.strategy, &workload, steps, self.participation)?;
        Plan::new(strategy, self.footprint()?, budget).context("this combination cannot be calibrated")
    }

    fn doubling_plan(&self, first: usize) -> Result<DoublingPlan> {
        let budget = self.noise.budget.required()?;
        let workload = arguments::workload(&self.workload)?;
        let strategy = arguments::endless_strategy(&self.strategy, &workload, first, self.participation)?;
        DoublingPlan::new(&workload, strategy, self.footprint()?, budget, first)
            .context("this combination cannot be calibrated")
    }

    fn exact_plan(&self, steps: usize) -> Result<ExactPlan> {
        let budget = self.noise.budget.exact()?;
        let workload = arguments::workload(&self.workload)?;
        let strategy =
            arguments::exact_strategy(&self.strategy, &workload, steps, self.participation, budget)?;
        let (low, high) = self.bounds;
        // A power of two, so that whole numbers and simple fractions are not rounded.
        let default = || (low.abs().max(high.abs()).log2().floor() - 16.0).exp2();
        let grid = self.grid.unwrap_or_else(default);
        ExactPlan::new(&strategy, self.footprint()?, 1, grid, budget).map_err(Usage::error)
    }

    fn footprint(&self) -> Result<Footprint> {
        let (low, high) = self.bounds;
        Footprint::scalar(low, high, self.relation, self.participation).map_err(Usage::error)
    }

    fn stage<M: Resumable<Plan: Clone>>(&self, stream: &mut Stream<M>, row: &Row) -> Result<()> {
        let (low, high) = self.bounds;
        let value = if self.clamp { row.value.clamp(low, high) } else { row.value };
        if !(low..=high).contains(&value) {
            bail!(
                "line {}: {value} is outside the bounds {low}:{high}; correct the row, declare wider --bounds, or pass \
                 --clamp",
                row.line
            );
        }
        stream.stage(value).with_context(|| format!("line {}", row.line))
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

/// The mechanism, with or without a state on disk, and the releases of the current group.
struct Stream<M: Resumable> {
    engine: Engine<M>,
    plan: M::Plan,
    standard_deviation: fn(&M::Plan, usize) -> Option<f64>,
}

enum Engine<M> {
    /// Releases become visible right away and cannot be continued.
    Volatile { mechanism: Box<M>, staged: Vec<(usize, f64)> },
    /// Releases become visible once they are on disk.
    Durable(Box<DurableMechanism<M>>),
}

impl<M: Resumable<Plan: Clone>> Stream<M> {
    fn open(
        command: &Release,
        plan: M::Plan,
        standard_deviation: fn(&M::Plan, usize) -> Option<f64>,
    ) -> Result<Self> {
        let seed = command.noise.reproducible_seed().map(Seed::reproducible);
        let engine = match (command.output.open_state()?, seed) {
            (None, seed) => {
                let seed = match seed {
                    Some(seed) => seed,
                    None => Seed::from_system()?,
                };
                Engine::Volatile { mechanism: Box::new(M::start(plan.clone(), 1, seed)?), staged: Vec::new() }
            }
            (Some(file), seed) => {
                let mechanism = match seed {
                    Some(seed) => DurableMechanism::open_reproducible(plan.clone(), 1, file, seed)?,
                    None => DurableMechanism::open(plan.clone(), 1, file)?,
                };
                Engine::Durable(Box::new(mechanism))
            }
        };
        Ok(Self { engine, plan, standard_deviation })
    }

    /// The number of steps that are already released.
    fn step(&self) -> usize {
        match &self.engine {
            Engine::Volatile { mechanism, .. } => mechanism.step(),
            Engine::Durable(mechanism) => mechanism.step(),
        }
    }

    /// Brings an output up to date with the state: writes what a crash kept from it, exactly as it was released.
    fn show_again(&self, sink: &mut Sink) -> Result<()> {
        let Engine::Durable(mechanism) = &self.engine else { return Ok(()) };
        let written = sink.lines().to_vec();
        let last_written = written.last().map(|line| line.step);
        let committed = mechanism.last_committed();
        let first = mechanism.step() + 1 - committed.len();
        if let Some(last) = last_written {
            if last > mechanism.step() {
                bail!(
                    "the output holds step {last}, but the state has released {} steps: they do not belong together; \
                     restore the state, or choose another output file",
                    mechanism.step()
                );
            }
            if last + 1 < first {
                bail!(
                    "the output ends at step {last}, but the state remembers releases from step {first} only; restore \
                     the output file, or continue in a new one"
                );
            }
        }
        for (step, release) in committed.iter() {
            let line = self.line(step, release)?;
            // The lines are consecutive, so the distance from the end finds the one of this step, if there is any.
            let behind = last_written.and_then(|last| last.checked_sub(step));
            let old =
                behind.and_then(|behind| written.len().checked_sub(behind + 1)).map(|index| &written[index]);
            match old {
                None if last_written.is_none_or(|last| step > last) => sink.write(&line)?,
                Some(old) if old.release != line.release => bail!(
                    "the output holds {} for step {}, but {} was released; restore the output file, or continue in a \
                     new one",
                    old.release,
                    line.step,
                    line.release
                ),
                _ => {}
            }
        }
        sink.make_durable()
    }

    fn stage(&mut self, value: f64) -> Result<()> {
        match &mut self.engine {
            Engine::Volatile { mechanism, staged } => {
                let mut output = [0.0];
                let release = mechanism.release(&[value], &mut output)?;
                staged.push((release.step, output[0]));
            }
            Engine::Durable(mechanism) => mechanism.stage(&[value])?,
        }
        Ok(())
    }

    /// Makes what is staged durable, then writes it.
    fn commit(&mut self, sink: &mut Sink) -> Result<()> {
        match &mut self.engine {
            Engine::Volatile { staged, .. } => {
                for (step, release) in std::mem::take(staged) {
                    sink.write(&self.line(step, &[release])?)?;
                }
                sink.flush()
            }
            Engine::Durable(mechanism) => {
                // The state forgets the group before: by now it must be safe in the output.
                sink.make_durable()?;
                for (step, release) in mechanism.commit()?.clone().iter() {
                    sink.write(&self.line(step, release)?)?;
                }
                sink.flush()
            }
        }
    }

    fn finish(&mut self, sink: &mut Sink) -> Result<()> {
        sink.make_durable()?;
        if let Engine::Durable(mechanism) = &mut self.engine {
            mechanism.acknowledge()?;
        }
        Ok(())
    }

    fn line(&self, step: usize, release: &[f64]) -> Result<Line> {
        let standard_deviation = (self.standard_deviation)(&self.plan, step)
            .ok_or_else(|| anyhow!("step {step} is not in the plan"))?;
        Ok(Line { step, release: release.first().copied().unwrap_or(f64::NAN), standard_deviation })
    }
}
