//! `dp demo`: the whole line from data to picture, with nothing to set up.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{
    Budget, Footprint, GaussianSource, Mechanism, Participation, Plan, Relation, Seed, Strategy, Workload,
};
use serde::Serialize;

use crate::arguments;
use crate::output::{self, Table};
use crate::plot::{self, Curve, Panel};

const DAYS: usize = 365;
const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
/// Anybody can repeat the noise of the demonstration: that is what it is for.
const SEED: u64 = 2026;

/// Release a year of synthetic case counts, and draw it
///
/// An invented town reports its new cases every day for a year. The number of cases so far is released every day,
/// so that all 365 releases together tell almost nothing about any single person (ε = 1, δ = 1e-6), once with the best
/// strategy and once with the classic binary tree. Writes demo.csv and demo.svg.
///
/// The data is invented and the noise repeatable: a demonstration, not a private release.
#[derive(Args)]
pub(crate) struct Demo {
    /// The directory for demo.csv and demo.svg
    #[arg(long, value_name = "DIR", default_value = "demo-output")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One strategy's releases of the year.
struct Run {
    name: &'static str,
    releases: Vec<f64>,
    deviations: Vec<f64>,
    errors: Vec<f64>,
}

#[derive(Serialize)]
struct Report {
    days: usize,
    cases: f64,
    epsilon: f64,
    delta: f64,
    strategies: Vec<StrategyReport>,
    csv: PathBuf,
    svg: PathBuf,
}

#[derive(Serialize)]
struct StrategyReport {
    name: &'static str,
    /// The root mean square of the standard deviations: what to expect.
    expected_error: f64,
    /// The root mean square error of this run.
    typical_error: f64,
    /// The largest error of this run.
    worst_error: f64,
    /// How many times smaller the expected error is than the binary tree's.
    noise_reduction: f64,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<()> {
        let cases = epidemic();
        let truth: Vec<f64> = cases
            .iter()
            .scan(0.0, |total, today| {
                *total += today;
                Some(*total)
            })
            .collect();
        let count = Workload::count();
        let best = arguments::strategy("auto", &count, DAYS, Participation::Single)?;
        let tree = arguments::strategy("binary-tree", &count, DAYS, Participation::Single)?;
        // Each strategy draws its own noise.
        let runs = [run(&best, &cases, &truth, SEED)?, run(&tree, &cases, &truth, SEED + 1)?];

        std::fs::create_dir_all(&self.output)
            .with_context(|| format!("cannot create `{}`", self.output.display()))?;
        let (csv, svg) = (self.output.join("demo.csv"), self.output.join("demo.svg"));
        write_csv(&csv, &cases, &truth, &runs)?;
        draw(&svg, &truth, &runs)?;

        let tree_error = root_mean_square(&runs[1].deviations);
        let strategies: Vec<StrategyReport> = runs
            .iter()
            .map(|run| StrategyReport {
                name: run.name,
                expected_error: root_mean_square(&run.deviations),
                typical_error: root_mean_square(&run.errors),
                worst_error: run.errors.iter().fold(0.0, |worst, error| error.abs().max(worst)),
                noise_reduction: tree_error / root_mean_square(&run.deviations),
            })
            .collect();
        let total = truth.last().copied().unwrap_or(0.0);
        let report =
            Report { days: DAYS, cases: total, epsilon: EPSILON, delta: DELTA, strategies, csv, svg };
        if self.json { output::json(&report) } else { print(&report) }
    }
}

fn print(report: &Report) -> Result<()> {
    output::line(&format!(
        "An invented town counts its cases: {} in {} days. The running total is released every day;\n\
         all {} releases together are ({}, {:e})-differentially private for every single case.\n",
        report.cases, report.days, report.days, report.epsilon, report.delta
    ))?;
    let mut table =
        Table::new(&["strategy", "expected error", "typical error", "worst error", "noise reduction"]);
    for strategy in &report.strategies {
        table.row(vec![
            strategy.name.to_owned(),
            format!("{:.1} cases", strategy.expected_error),
            format!("{:.1} cases", strategy.typical_error),
            format!("{:.1} cases", strategy.worst_error),
            format!("{:.2}x", strategy.noise_reduction),
        ]);
    }
    table.print()?;
    output::line(&format!(
        "\nexpected: by the plan, before any data; typical and worst: in this run (root mean square, maximum);\n\
         noise reduction: against the binary tree, at the same privacy.\n\n\
         Wrote {} and {}.\n\n\
         DEMONSTRATION ONLY: the data is invented and the noise comes from a published seed, so that everybody\n\
         sees the same picture. Real releases use secret noise: see `dp release --help`.",
        report.csv.display(),
        report.svg.display()
    ))
}

/// New cases per day: three waves over a low background, fewer reports at weekends, and day-to-day variation.
fn epidemic() -> Vec<f64> {
    let mut source = GaussianSource::new(Seed::reproducible(1918), 1);
    (0..DAYS)
        .map(|day| {
            let t = day as f64;
            let wave =
                |peak: f64, height: f64, width: f64| height * (-((t - peak) / width).powi(2) / 2.0).exp();
            let level = 0.6 + wave(70.0, 9.0, 17.0) + wave(205.0, 4.0, 24.0) + wave(318.0, 14.0, 20.0);
            let weekly = 1.0 + 0.3 * (TAU * t / 7.0).cos();
            let mean = level * weekly;
            let mut variation = [0.0];
            source.fill_row(day, &mut variation);
            (mean + mean.sqrt() * variation[0]).round().max(0.0)
        })
        .collect()
}

fn run(strategy: &Arc<dyn Strategy>, cases: &[f64], truth: &[f64], seed: u64) -> Result<Run> {
    // Every person is at most one case: adding or removing one changes one day's count by 1.
    let footprint = Footprint::encoded(
        vec![Term { weight: 1.0, participation: Participation::Single }],
        Relation::ZeroOut,
    )?;
    let plan = Plan::new(Arc::clone(strategy), footprint, Budget::approximate(EPSILON, DELTA)?)?;
    let mut mechanism = Mechanism::new(plan.clone().of_dimension(1)?, Seed::reproducible(seed))?;
    let mut run =
        Run { name: strategy.name(), releases: Vec::new(), deviations: Vec::new(), errors: Vec::new() };
    let mut output = [0.0];
    for ((today, exact), deviation) in cases.iter().zip(truth).zip(plan.deviations()) {
        mechanism.release(&[*today], &mut output)?;
        run.releases.push(output[0]);
        run.deviations.push(deviation);
        run.errors.push(output[0] - exact);
    }
    Ok(run)
}

fn band<'a>(centres: impl Iterator<Item = &'a f64>, deviations: &[f64]) -> Vec<(f64, f64)> {
    let pairs = centres.zip(deviations);
    pairs.map(|(centre, deviation)| (centre - 1.96 * deviation, centre + 1.96 * deviation)).collect()
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
}

fn write_csv(path: &Path, cases: &[f64], truth: &[f64], runs: &[Run; 2]) -> Result<()> {
    let mut writer =
        csv::Writer::from_path(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    let mut header = vec!["day".to_owned(), "new_cases".to_owned(), "true_total".to_owned()];
    for run in runs {
        header.push(format!("{}_release", run.name));
        header.push(format!("{}_standard_deviation", run.name));
    }
    writer.write_record(&header)?;
    for day in 0..cases.len() {
        let mut record = vec![(day + 1).to_string(), cases[day].to_string(), truth[day].to_string()];
        for run in runs {
            record.push(run.releases[day].to_string());
            record.push(run.deviations[day].to_string());
        }
        writer.write_record(&record)?;
    }
    writer.flush()?;
    Ok(())
}

fn draw(path: &Path, truth: &[f64], runs: &[Run; 2]) -> Result<()> {
    let by_day = |values: &[f64]| -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(day, value)| ((day + 1) as f64, *value)).collect()
    };
    let [best, tree] = runs;
    // What is published comes with a band around it; an error has a band around zero, known before any data.
    let published = |run: &Run, colour| Curve {
        label: format!("{}, with its 95 % band", run.name),
        colour,
        points: by_day(&run.releases),
        band: band(run.releases.iter(), &run.deviations),
    };
    let error = |run: &Run, colour| Curve {
        label: format!(
            "{}: expect to be {:.0} cases off; shaded: where 95 % of errors fall",
            run.name,
            root_mean_square(&run.deviations)
        ),
        colour,
        points: by_day(&run.errors),
        band: band(std::iter::repeat(&0.0), &run.deviations),
    };
    let exact = |label: &str, values: &[f64]| Curve {
        label: label.to_owned(),
        colour: plot::DARK,
        points: by_day(values),
        band: Vec::new(),
    };
    let totals = Panel {
        title: "What is published every day: the number of cases so far, plus noise".to_owned(),
        horizontal: "day of the year".to_owned(),
        vertical: "cases so far".to_owned(),
        headroom: 0.0,
        curves: vec![
            published(tree, plot::ORANGE),
            published(best, plot::BLUE),
            exact("the truth (never published)", truth),
        ],
    };
    let errors = Panel {
        title: "How far off it is: published minus true".to_owned(),
        horizontal: "day of the year".to_owned(),
        vertical: "error in cases".to_owned(),
        headroom: 0.3,
        curves: vec![
            error(tree, plot::ORANGE),
            error(best, plot::BLUE),
            exact("no error", &vec![0.0; truth.len()]),
        ],
    };
    plot::draw(
        path,
        "A year of daily totals, both strategies at the same privacy (ε = 1, δ = 1e-6)",
        &[totals, errors],
    )
}
