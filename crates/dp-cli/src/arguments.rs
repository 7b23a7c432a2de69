//! Arguments that several commands share, and how they become values of the library.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use dp_mechanisms::planner::{self, Report, Request};
use dp_mechanisms::{Budget, Participation, Strategy, Workload, strategy};

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

/// The privacy budget for all releases together.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Privacy budget (one of three forms)")]
pub(crate) struct BudgetArguments {
    /// ε of (ε, δ)-differential privacy
    #[arg(long, requires = "delta", allow_negative_numbers = true)]
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
    /// The budget, if one was given.
    pub(crate) fn optional(self) -> Result<Option<Budget>> {
        let budget = match self {
            Self { epsilon: Some(epsilon), delta: Some(delta), .. } => Budget::approximate(epsilon, delta),
            Self { rho: Some(rho), .. } => Budget::zero_concentrated(rho),
            Self { mu: Some(mu), .. } => Budget::gaussian(mu),
            _ => return Ok(None),
        };
        budget.map(Some).map_err(Usage::error)
    }

    /// The budget, which must have been given.
    pub(crate) fn required(self) -> Result<Budget> {
        self.optional()?
            .ok_or_else(|| Usage::error("no privacy budget; give --epsilon and --delta, or --rho, or --mu"))
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

/// Two numbers LO:HI.
pub(crate) fn bounds(text: &str) -> Result<(f64, f64), String> {
    let parse = |part: &str| part.trim().parse::<f64>().ok();
    text.split_once(':')
        .and_then(|(low, high)| Some((parse(low)?, parse(high)?)))
        .ok_or_else(|| "expected two numbers LO:HI such as 0:1 or -1:1".to_owned())
}

/// A workload by its short form, or `weights:FILE` with one weight per line, the newest input's first.
pub(crate) fn workload(text: &str) -> Result<Workload> {
    let Some(path) = text.strip_prefix("weights:") else {
        return text
            .parse()
            .map_err(|error| Usage::error(format!("{error}, or weights:FILE with one weight per line")));
    };
    let contents = std::fs::read_to_string(Path::new(path))
        .with_context(|| format!("cannot read the weights from `{path}`"))?;
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

/// A strategy by name; `auto` is the one with the smallest mean squared error.
pub(crate) fn strategy(
    name: &str,
    workload: &Workload,
    steps: usize,
    participation: Participation,
) -> Result<Arc<dyn Strategy>> {
    if name != "auto" {
        return strategy::build(name, workload, steps, participation).map_err(Usage::error);
    }
    // Without a time limit: a release that is continued on a slower machine must choose the same strategy again.
    let request = Request { participation, time: Duration::MAX, ..Request::new(workload.clone(), steps) };
    Ok(evaluate(&request)?.strategy)
}

/// What the planner finds; what it refuses is the request's fault.
pub(crate) fn evaluate(request: &Request) -> Result<Report> {
    planner::evaluate(request).map_err(Usage::error)
}
