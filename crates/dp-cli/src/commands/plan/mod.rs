//! `dp plan`: which strategy is best, and how much better any other could be.

mod joint;
pub(crate) mod sampling;

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use dp_mechanisms::Participation;
use dp_mechanisms::planner::{Noise, Report, Request};
use serde_json::{Value, json};

use crate::arguments::{self, BudgetArguments};
use crate::output::{self, Table};

/// Compare the strategies for a workload, or for several at once, and say which is best
///
/// Computes the error of every strategy that serves the workload, beside a lower bound that no strategy can beat. The
/// errors are factors: multiplied by the square of what one person can change, and divided by μ², they are variances.
/// With a budget, standard deviations for a change of at most 1 are printed as well. An ε without δ asks for pure
/// differential privacy, hence for Laplace noise, and strategies are compared by their ℓ1 sensitivity.
///
/// Several statistics of one stream are planned together: one noise serves them all, each counts in units of the error that
/// it would have alone, and the table compares that with splitting the budget among them.
#[derive(Args)]
pub(crate) struct Plan {
    /// The statistic: count or total (running sum), step (its value alone), average, window:W, exp:A, poly:C, momentum:B or
    /// weights:FILE; give it again for several statistics of the same stream
    #[arg(long, required = true)]
    workload: Vec<String>,
    /// How much each of several statistics counts, in their order
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    weights: Vec<f64>,
    /// The number of steps
    #[arg(long, value_parser = arguments::steps)]
    steps: usize,
    /// How many steps are expected, where --steps is the most that there can be: what anytime is fitted to
    #[arg(long, value_name = "STEPS", value_parser = arguments::steps)]
    expected: Option<usize>,
    /// Evaluate this strategy alone
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// The error to minimize: the mean over the steps, or the largest
    #[arg(long, value_enum, default_value = "mse")]
    metric: Metric,
    /// In how many steps one person may appear: single, or K:B for at most K steps, any two at least B apart
    #[arg(long, value_name = "K:B", default_value = "single")]
    participation: Participation,
    /// Draw this fraction of all people for a step, and compare numbers of bands; needs --epsilon and --delta
    #[arg(long, value_name = "P", requires = "epsilon", conflicts_with_all = ["strategy", "participation"])]
    sampling_rate: Option<f64>,
    /// The number of coordinates of a step, on which memory depends
    #[arg(long, value_name = "D", default_value = "1", value_parser = arguments::steps)]
    dimension: usize,
    /// Skip strategies whose noise keeps more than this many values
    #[arg(long, value_name = "VALUES")]
    memory: Option<usize>,
    /// Try no further strategy after this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "20")]
    time: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    budget: BudgetArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Metric {
    Mse,
    Max,
}

impl Plan {
    pub(crate) fn run(&self) -> Result<()> {
        let (noise, mu) = match self.budget.pure()? {
            // A Laplace variable of scale 1/ε has the variance 2/ε².
            Some(epsilon) => (Noise::Laplace, Some(epsilon / std::f64::consts::SQRT_2)),
            None => (Noise::Gaussian, self.budget.optional()?.map(|budget| budget.mu())),
        };
        let metric = match self.metric {
            Metric::Mse => dp_mechanisms::Metric::Mse,
            Metric::Max => dp_mechanisms::Metric::Max,
        };
        let workloads =
            self.workload.iter().map(|text| arguments::workload(text)).collect::<Result<Vec<_>>>()?;
        let problem = arguments::joint_problem(&workloads, &self.weights, self.steps, self.participation)?;
        let problem = match self.expected {
            Some(expected) => problem.expecting(expected)?,
            None => problem,
        };
        if let Some(rate) = self.sampling_rate {
            if problem.is_joint() {
                return Err(arguments::Usage::error("--sampling-rate plans one statistic at a time"));
            }
            return sampling::run(&problem.with_metric(metric), rate, &self.budget.required()?, self.json);
        }
        let report = arguments::evaluate(&Request {
            problem: problem.clone().with_metric(metric),
            method: self.strategy.as_deref().map(arguments::method).transpose()?,
            dimension: self.dimension,
            memory: self.memory,
            time: Duration::from_secs(self.time),
            others: Vec::new(),
            noise,
        })?;
        if problem.is_joint() {
            return joint::show(problem, &report, mu, self.json);
        }
        if self.json { output::json(&document(&report, mu)?) } else { print(&report, mu) }
    }
}

/// The report, with standard deviations where a budget is known.
fn document(report: &Report, mu: Option<f64>) -> Result<Value> {
    let mut document = serde_json::to_value(report)?;
    if let Some(mu) = mu {
        document["mu"] = json!(mu);
        let strategies =
            document["strategies"].as_array_mut().ok_or_else(|| anyhow!("the report is empty"))?;
        for (entry, evaluation) in strategies.iter_mut().zip(&report.strategies) {
            entry["standard_deviation"] = json!(evaluation.mse.sqrt() / mu);
            entry["max_standard_deviation"] = json!(evaluation.max_se.sqrt() / mu);
        }
    }
    Ok(document)
}

fn print(report: &Report, mu: Option<f64>) -> Result<()> {
    output::line(&format!(
        "{} over {} steps, participation {}\n",
        report.workload, report.steps, report.participation
    ))?;
    let mut headings = vec!["strategy", "sensitivity²", "mean error²", "max error²", "above the bound"];
    if mu.is_some() {
        headings.extend(["typical deviation", "largest deviation"]);
    }
    let mut table = Table::new(&headings);
    for evaluation in &report.strategies {
        let mut row = vec![
            evaluation.name.to_owned(),
            factor(evaluation.sensitivity_squared),
            factor(evaluation.mse),
            factor(evaluation.max_se),
            format!("{:.2} %", 100.0 * evaluation.gap),
        ];
        if let Some(mu) = mu {
            row.push(factor(evaluation.mse.sqrt() / mu));
            row.push(factor(evaluation.max_se.sqrt() / mu));
        }
        table.row(row);
    }
    let bound = &report.lower_bound;
    let cells = ["nothing is below".to_owned(), String::new(), factor(bound.mse), factor(bound.max_se)];
    table.row(cells.to_vec());
    table.print()?;
    output::line(&format!("\nbest: {}; bounds by {} and {}", report.chosen, bound.kind, bound.max_kind))?;
    for skipped in &report.skipped {
        output::line(&format!("not evaluated: {}: {}", skipped.name, skipped.reason))?;
    }
    Ok(())
}

/// A factor with four decimals, or four significant digits where it is small.
fn factor(value: f64) -> String {
    let decimals =
        if value > 0.0 && value < 0.1 { 3 + (-value.log10()).ceil().min(12.0) as usize } else { 4 };
    format!("{value:.decimals$}")
}
