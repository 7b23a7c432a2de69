//! The two tables of errors on the crate page of `dp-mechanisms`, computed again, every cell with its bound.

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use dp_mechanisms::planner::{Report, Request, evaluate};
use dp_mechanisms::{Method, Metric, Problem, Workload};

/// Print the tables of the crate page: the strategies for the count, and how far the planner's choice is above its bound
#[derive(Parser)]
struct Tables {
    /// The longest horizon, as a power of two
    #[arg(long, default_value = "24")]
    up_to: u32,
    /// The seconds that the planner may take for a cell; `optimal` at 1024 steps takes a minute
    #[arg(long, default_value = "100")]
    seconds: u64,
}

/// The horizons of the tables, as powers of two.
const STRATEGY_HORIZONS: [u32; 4] = [10, 12, 16, 20];
const GAP_HORIZONS: [u32; 4] = [10, 16, 20, 24];

/// The workloads of the second table, by name and as the command line writes them.
const WORKLOADS: [(&str, &str); 8] = [
    ("count", "count"),
    ("exponential, α = 1.001", "exp:1.001"),
    ("average", "average"),
    ("window of 32", "window:32"),
    ("window of 1000", "window:1000"),
    ("polynomial, c = ½", "poly:0.5"),
    ("momentum 0.9", "momentum:0.9"),
    ("momentum 0.99", "momentum:0.99"),
];

fn main() -> Result<()> {
    let options = Tables::parse();
    let within = |horizons: [u32; 4]| horizons.into_iter().filter(|power| *power <= options.up_to);
    strategies(&within(STRATEGY_HORIZONS).collect::<Vec<_>>(), &options)?;
    println!();
    gaps(&within(GAP_HORIZONS).collect::<Vec<_>>(), &options)
}

fn report(workload: &Workload, power: u32, metric: Metric, options: &Tables) -> Result<Report> {
    let problem = Problem::new(workload.clone(), 1 << power)?.with_metric(metric);
    Ok(evaluate(&Request { time: Duration::from_secs(options.seconds), ..Request::new(problem) })?)
}

/// E2 and E∞ of every strategy for the count. Each is built for the mean; the second number in brackets is its largest error where
/// it is built for that.
fn strategies(powers: &[u32], options: &Tables) -> Result<()> {
    let count = Workload::count();
    let reports = |metric| {
        powers.iter().map(|power| report(&count, *power, metric, options)).collect::<Result<Vec<_>>>()
    };
    let (mean, max) = (reports(Metric::Mse)?, reports(Metric::Max)?);
    header("strategy", powers, |power| format!("E2, E∞ at {}", steps(power)));
    let bounds: Vec<String> = mean
        .iter()
        .zip(&max)
        .map(|(mean, max)| format!("{}, {}", number(mean.lower_bound.mse), number(max.lower_bound.max_se)))
        .collect();
    println!("| lower bound | {} |", bounds.join(" | "));
    for method in Method::ALL {
        let cells: Vec<String> = mean
            .iter()
            .zip(&max)
            .map(|(mean, max)| {
                let of =
                    |report: &Report| report.strategies.iter().find(|one| one.name == method.name()).cloned();
                match (of(mean), of(max)) {
                    (Some(mean), Some(max)) if max.max_se < 0.9999 * mean.max_se => {
                        format!("{}, {} ({})", number(mean.mse), number(mean.max_se), number(max.max_se))
                    }
                    (Some(mean), _) => format!("{}, {}", number(mean.mse), number(mean.max_se)),
                    _ => String::new(),
                }
            })
            .collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            println!("| `{}` | {} |", method.name(), cells.join(" | "));
        }
    }
    Ok(())
}

/// How far the planner's choice is above what nothing can beat, and that bound.
fn gaps(powers: &[u32], options: &Tables) -> Result<()> {
    let columns: Vec<(Metric, u32)> = [Metric::Mse, Metric::Max]
        .into_iter()
        .flat_map(|metric| powers.iter().map(move |power| (metric, *power)))
        .collect();
    let title = |(metric, power): (Metric, u32)| {
        format!("{} at {}", if metric == Metric::Mse { "E2" } else { "E∞" }, steps(power))
    };
    header("workload", &columns, title);
    for (name, text) in WORKLOADS {
        let workload: Workload = text.parse()?;
        let mut cells = Vec::new();
        for (metric, power) in &columns {
            let report = report(&workload, *power, *metric, options)?;
            let bound = match metric {
                Metric::Mse => report.lower_bound.mse,
                Metric::Max => report.lower_bound.max_se,
            };
            let best = report.strategies.first().map_or(f64::NAN, |best| best.gap);
            cells.push(format!("{:.2} % above {}", 100.0 * best.max(0.0), number(bound)));
        }
        println!("| {name} | {} |", cells.join(" | "));
    }
    Ok(())
}

fn header<T: Copy>(first: &str, columns: &[T], title: impl Fn(T) -> String) {
    let titles: Vec<String> = columns.iter().map(|column| title(*column)).collect();
    println!("| {first} | {} |", titles.join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
}

fn steps(power: u32) -> String {
    if power <= 12 { (1_u64 << power).to_string() } else { format!("2^{power}") }
}

/// Five digits.
fn number(value: f64) -> String {
    let digits = (4 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
    format!("{value:.digits$}")
}
