//! Arguments that several commands share, and how they become values of the library.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use dp_mechanisms::planner::{self, Report, Request};
use dp_mechanisms::strategy::{Progress, Watch};
use dp_mechanisms::{
    Budget, Footprint, Method, Participation, Problem, Relation, Seed, StateFile, Strategy, Workload, joint,
};

use crate::files::{self, Files, Kind};
use crate::{output, plot};

/// A request that makes no sense, as opposed to one that failed.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    /// An error about the arguments.
    pub(crate) fn error(message: impl fmt::Display) -> anyhow::Error {
        Self(message.to_string()).into()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The largest ε: twice its exponential is still a number.
pub(crate) const LARGEST_EPSILON: f64 = 700.0;

/// The privacy budget for all releases together.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Privacy budget (one of three forms)")]
pub(crate) struct BudgetArguments {
    /// ε of (ε, δ)-differential privacy; alone, of pure differential privacy
    #[arg(long, allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// δ of (ε, δ)-differential privacy
    #[arg(long, requires = "epsilon", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// ρ of zero-concentrated differential privacy
    #[arg(long, conflicts_with_all = ["epsilon", "delta", "mu"], allow_negative_numbers = true)]
    rho: Option<f64>,
    /// μ of Gaussian differential privacy
    #[arg(long, conflicts_with_all = ["epsilon", "delta"], allow_negative_numbers = true)]
    mu: Option<f64>,
}

impl BudgetArguments {
    /// Refuses an ε that means nothing.
    fn check(self) -> Result<()> {
        match self.epsilon {
            Some(epsilon) if epsilon > LARGEST_EPSILON => Err(Usage::error(format!(
                "ε = {epsilon:e} promises nothing: e^ε is no number any more; give at most {LARGEST_EPSILON}"
            ))),
            _ => Ok(()),
        }
    }

    /// The budget, if one was given.
    pub(crate) fn optional(self) -> Result<Option<Budget>> {
        self.check()?;
        let budget = match self {
            Self { epsilon: Some(epsilon), delta: Some(delta), .. } => Budget::approximate(epsilon, delta),
            Self { rho: Some(rho), .. } => Budget::zero_concentrated(rho),
            Self { mu: Some(mu), .. } => Budget::gaussian(mu),
            Self { epsilon: Some(_), .. } => {
                return Err(Usage::error("--epsilon needs --delta here: pure ε takes exact Laplace noise"));
            }
            _ => return Ok(None),
        };
        budget.map(Some).map_err(Usage::error)
    }

    /// ε, if it was given without a δ or with one of zero.
    pub(crate) fn pure(self) -> Result<Option<f64>> {
        match self {
            Self { epsilon: Some(epsilon), delta: None | Some(0.0), .. } => {
                Budget::pure(epsilon).map_err(Usage::error)?;
                Ok(Some(epsilon))
            }
            _ => Ok(None),
        }
    }

    /// The budget, which must have been given.
    pub(crate) fn required(self) -> Result<Budget> {
        self.optional()?
            .ok_or_else(|| Usage::error("no privacy budget; give --epsilon and --delta, or --rho, or --mu"))
    }
}

impl BudgetArguments {
    /// The budget as the fields of a description of a dashboard.
    pub(crate) fn fields(self) -> Result<String> {
        self.check()?;
        match self {
            Self { epsilon: Some(epsilon), delta: None | Some(0.0), .. } => {
                Ok(format!("epsilon = {epsilon:?}\n"))
            }
            Self { epsilon: Some(epsilon), delta: Some(delta), .. } => {
                Ok(format!("epsilon = {epsilon:?}\ndelta = {delta:e}\n"))
            }
            Self { rho: Some(rho), .. } => Ok(format!("rho = {rho:?}\n")),
            Self { mu: Some(_), .. } => Err(Usage::error(
                "with --time the budget is --epsilon and --delta, --epsilon alone, or --rho",
            )),
            _ => self.required().map(|_| String::new()),
        }
    }

    /// The budget in words.
    pub(crate) fn words(self) -> String {
        match self {
            Self { epsilon: Some(epsilon), delta: Some(delta), .. } => {
                format!("(ε, δ)-differential privacy with ε = {epsilon}, δ = {delta:e}")
            }
            Self { epsilon: Some(epsilon), .. } => {
                format!("pure differential privacy with ε = {epsilon}, δ = 0")
            }
            Self { rho: Some(rho), .. } => format!("zero-concentrated differential privacy with ρ = {rho}"),
            Self { mu: Some(mu), .. } => format!("Gaussian differential privacy with μ = {mu}"),
            _ => "no budget".to_owned(),
        }
    }

    /// The budget for exact noise: δ may be zero.
    pub(crate) fn exact(self) -> Result<Budget> {
        self.check()?;
        match self.pure()? {
            Some(epsilon) => Budget::pure(epsilon),
            None => return self.required(),
        }
        .map_err(Usage::error)
    }
}

/// How much noise, and whose.
#[derive(Args)]
pub(crate) struct NoiseArguments {
    /// NOT PRIVATE: noise that everybody can repeat and subtract, for tests and demonstrations
    #[arg(long, value_name = "NUMBER")]
    reproducible_seed: Option<u64>,
    #[command(flatten)]
    pub(crate) budget: BudgetArguments,
}

impl NoiseArguments {
    /// The number behind repeatable noise, with a warning, if the noise is to be repeatable.
    pub(crate) fn reproducible_seed(&self) -> Option<u64> {
        if self.reproducible_seed.is_some() {
            output::note("warning: --reproducible-seed makes releases that are NOT PRIVATE");
        }
        self.reproducible_seed
    }

    /// Where the noise comes from, with a warning if anybody can repeat it.
    pub(crate) fn seed(&self) -> Result<Seed> {
        match self.reproducible_seed() {
            Some(number) => Ok(Seed::reproducible(number)),
            None => Ok(Seed::from_system()?),
        }
    }
}

/// Where releases go, and how a run is continued.
#[derive(Args)]
pub(crate) struct OutputArguments {
    /// Keep the state here, sealed, so that the run can be continued; with --time, a folder
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// The key of the state [default: the state's name with .key appended; made if there is none]
    #[arg(long, value_name = "FILE", requires = "state")]
    pub(crate) state_key: Option<PathBuf>,
    /// Where releases go, or - for standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Draw the releases with their 95 % bands
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Write one JSON object per line instead of CSV
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the ends of the band that holds 95 % of the noise to every line, low and high
    #[arg(long)]
    pub(crate) band: bool,
    /// The most steps that become durable, and visible, together
    #[arg(long, value_name = "STEPS", default_value = "1024", value_parser = steps)]
    pub(crate) group: usize,
    /// Throw away what the output file holds; without --state, the same rows are released again and spend their budget again
    #[arg(long, conflicts_with = "state")]
    pub(crate) overwrite: bool,
}

impl OutputArguments {
    /// Refuses files that are both read and written, before anything is opened; `files` holds what is read.
    pub(crate) fn check(&self, mut files: Files) -> Result<()> {
        if let Some(state) = &self.state {
            if files::kind(&self.output)? == Kind::Stream {
                return Err(Usage::error(
                    "--state needs --output FILE: from a pipe that closes early, or a device, what was released could not \
                     be repeated",
                ));
            }
            files.writes("--state", state);
            for suffix in [".new", ".plan", ".plan.new"] {
                files.writes("a file beside --state", &files::beside(state, suffix));
            }
            let key = self.state_key.clone().unwrap_or_else(|| files::beside(state, ".key"));
            files.writes("--state-key", &key);
        }
        files.writes("--output", &self.output);
        if let Some(plot) = &self.plot {
            files.writes("--plot", plot);
            plot::check(plot, self.overwrite)?;
        }
        files.check()
    }

    /// Whether the run can be continued.
    pub(crate) fn is_resumable(&self) -> bool {
        self.state.is_some()
    }

    /// The state, locked, if the run can be continued.
    pub(crate) fn open_state(&self) -> Result<Option<StateFile>> {
        let open = |path: &PathBuf| StateFile::open(path, self.state_key.as_deref());
        Ok(self.state.as_ref().map(open).transpose()?)
    }
}

/// The most steps that the command line plans for: the standard deviation of every step is kept in memory.
const MOST_STEPS: u64 = 1 << 27;

/// The number of steps.
pub(crate) fn steps(text: &str) -> Result<usize, String> {
    match text.parse::<u64>() {
        Ok(steps @ 1..=MOST_STEPS) => Ok(steps as usize),
        _ => Err(format!("expected an integer from 1 to {MOST_STEPS}")),
    }
}

/// The largest bound of a value.
const LARGEST_BOUND: f64 = 1e100;

/// Two numbers LO:HI.
pub(crate) fn bounds(text: &str) -> Result<(f64, f64), String> {
    let parse = |part: &str| part.trim().parse::<f64>().ok();
    let (low, high) = text
        .split_once(':')
        .and_then(|(low, high)| Some((parse(low)?, parse(high)?)))
        .ok_or_else(|| "expected two numbers LO:HI such as 0:1 or -1:1".to_owned())?;
    // Sums of squares of so large numbers would not be finite.
    let most = low.abs().max(high.abs());
    if most.is_finite() && most > LARGEST_BOUND {
        return Err(format!("a bound may be {LARGEST_BOUND:e} at most: change the unit"));
    }
    Ok((low, high))
}

/// A workload by its short form, or `weights:FILE` with one weight per line, the newest input's first.
pub(crate) fn workload(text: &str) -> Result<Workload> {
    let Some(path) = text.strip_prefix("weights:") else {
        return text
            .parse()
            .map_err(|error| Usage::error(format!("{error}, or weights:FILE with one weight per line")));
    };
    let contents = files::list(Path::new(path), "the weights")?;
    let weights: Vec<f64> = contents
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            line.trim().parse().with_context(|| {
                format!(
                    "{path}, line {}: `{}` is not a number; write one weight per line",
                    number + 1,
                    line.trim()
                )
            })
        })
        .collect::<Result<_>>()?;
    Workload::weights(&weights).with_context(|| format!("the weights in `{path}` cannot be used"))
}

/// A strategy by name, or for `auto` the choice of [`planner::best`]: the same in every command and in either arithmetic.
pub(crate) fn strategy(
    name: &str,
    workload: &Workload,
    steps: usize,
    participation: Participation,
) -> Result<Arc<dyn Strategy>> {
    let change = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, participation).map_err(Usage::error)?;
    strategy_for(name, workload, steps, &change, 1)
}

/// The same for what one person can change, where every one of `dimension` coordinates keeps noise of its own.
pub(crate) fn strategy_for(
    name: &str,
    workload: &Workload,
    steps: usize,
    footprint: &Footprint,
    dimension: u64,
) -> Result<Arc<dyn Strategy>> {
    strategy_of(
        name,
        &problem(workload, steps, planner::main_participation(footprint))?,
        footprint,
        dimension,
    )
}

/// The same for a problem of one statistic or several.
pub(crate) fn strategy_of(
    name: &str,
    problem: &Problem,
    footprint: &Footprint,
    dimension: u64,
) -> Result<Arc<dyn Strategy>> {
    match name {
        "auto" => planner::best(problem, footprint, dimension).map_err(Usage::error),
        _ => method(name)?.build(problem).map_err(Usage::error),
    }
}

/// A strategy by its name, as a method.
pub(crate) fn method(name: &str) -> Result<Method> {
    name.parse().map_err(Usage::error)
}

/// What a strategy is built for.
pub(crate) fn problem(workload: &Workload, steps: usize, participation: Participation) -> Result<Problem> {
    let problem = Problem::new(workload.clone(), steps).map_err(Usage::error)?;
    Ok(problem.with_participation(participation))
}

/// What a strategy for several statistics is built for: they are weighted in units of what each would have alone, equally where
/// no weights are given. One statistic without weights is the problem of that statistic.
pub(crate) fn joint_problem(
    workloads: &[Workload],
    weights: &[f64],
    steps: usize,
    participation: Participation,
) -> Result<Problem> {
    if let ([one], []) = (workloads, weights) {
        return problem(one, steps, participation);
    }
    if !weights.is_empty() && weights.len() != workloads.len() {
        return Err(Usage::error(format!(
            "--weights has {} numbers for {} statistics; give one for each --workload",
            weights.len(),
            workloads.len()
        )));
    }
    let importance = weights.iter().copied().chain(std::iter::repeat(1.0));
    let wanted: Vec<(Workload, f64)> = workloads.iter().cloned().zip(importance).collect();
    let statistics = joint::in_own_units(&wanted, steps, participation).map_err(Usage::error)?;
    let problem = Problem::joint(statistics, steps).map_err(Usage::error)?;
    Ok(problem.with_participation(participation))
}

/// Without a time limit: a release that is continued on a slower machine must choose the same strategy again.
fn unhurried(problem: Problem) -> Request {
    Request { time: Duration::MAX, ..Request::new(problem) }
}

/// Strategies for epochs that double for ever, at least one and the best first: `auto` is all that can be built for any number
/// of steps.
pub(crate) fn endless_strategies(
    name: &str,
    workload: &Workload,
    first_epoch: usize,
    participation: Participation,
) -> Result<Vec<Method>> {
    if name != "auto" {
        return Ok(vec![method(name)?]);
    }
    // Early epochs are over soon: what counts is a later one.
    let steps = first_epoch.saturating_mul(64).min(1 << 14).max(first_epoch);
    let report = evaluate(&unhurried(problem(workload, steps, participation)?))?;
    report.endless_methods(participation).map_err(Usage::error)
}

/// A strategy for one number and the noise that a budget asks for: for a pure ε, `auto` is the best for Laplace noise.
pub(crate) fn strategy_within(
    name: &str,
    problem: &Problem,
    footprint: &Footprint,
    budget: Budget,
) -> Result<Arc<dyn Strategy>> {
    match name {
        "auto" => watched(|watch| planner::best_within(problem, footprint, 1, &budget, watch)),
        _ => strategy_of(name, problem, footprint, 1),
    }
}

/// Refuses noise that cannot be kept in memory, and the `inputs` of so many steps beside it, before any of it is made.
pub(crate) fn check_memory(strategy: &dyn Strategy, dimension: usize, inputs: usize) -> Result<()> {
    let kept = inputs.saturating_mul(dimension);
    let values = strategy.memory(dimension).saturating_add(kept) as u64;
    let bytes = values.saturating_add(4 * dimension as u64).saturating_mul(8);
    let most = memory().unwrap_or(ASSUMED_MEMORY);
    if bytes > most {
        return Err(Usage::error(format!(
            "strategy {} would keep {values} numbers for {dimension} coordinates, {bytes} bytes of the {most} that this \
             machine has; choose a strategy with a short memory such as blt, fewer steps, or fewer coordinates",
            strategy.name()
        )));
    }
    Ok(())
}

/// What a machine is assumed to have that does not say.
const ASSUMED_MEMORY: u64 = 1 << 34;

/// The memory of this machine in bytes, where the operating system says so in a file.
fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the planner says about all strategies.
pub(crate) fn evaluate(request: &Request) -> Result<Report> {
    watched(|watch| planner::evaluate_watched(request, watch))
}

/// What the planner finds, with a bar where somebody watches; what it refuses is the request's fault.
fn watched<R>(work: impl FnOnce(&mut Watch<'_>) -> dp_mechanisms::Result<R>) -> Result<R> {
    let bar = output::planning();
    let mut watch = |progress| {
        match progress {
            Progress::Strategy { name, position, of } => {
                bar.set_length(of as u64);
                bar.set_position(position as u64);
                bar.set_message(name);
            }
            Progress::Optimum { eigendecompositions, gap } => {
                bar.set_message(format!(
                    "optimal: gap {gap:.1e} after {eigendecompositions} eigendecompositions"
                ));
            }
            _ => bar.tick(),
        }
        ControlFlow::Continue(())
    };
    let found = work(&mut watch);
    bar.finish_and_clear();
    found.map_err(Usage::error)
}
