//! `dp demo`: the whole job from rows about people to a dashboard, with nothing to set up.

mod town;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use dp_events::{Dashboard, Randomness, Spec};
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{
    Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Seed, Workload, planner,
};
use serde::Serialize;

use self::town::{DAYS, DISTRICTS, Visit};
use crate::arguments::{self, Usage};
use crate::output::{self, Table};
use crate::plot::{self, Curve, Panel};

/// Anybody can repeat the noise of the demonstration: that is what it is for.
const SEED: u64 = 2026;

/// The district that is drawn.
const DRAWN: usize = 1;

/// The steps in which one person counts.
const STEPS: usize = 4;

/// The statistics of the first release, as the description and the planner call them.
const STATISTICS: [&str; 3] = ["total", "window:7", "step"];

/// The beginnings of the months after the first, and the end of the year: when the dashboard is brought up to date.
const RUNS: [&str; 12] = [
    "2026-02-01",
    "2026-03-01",
    "2026-04-01",
    "2026-05-01",
    "2026-06-01",
    "2026-07-01",
    "2026-08-01",
    "2026-09-01",
    "2026-10-01",
    "2026-11-01",
    "2026-12-01",
    "2027-01-01",
];

/// Publish a year of an invented town's visits, and draw it
///
/// A town reports every visit to its emergency rooms: a line with the day, the patient, the district and the minutes waited.
/// Patients come several times and some visits are reported late. Every day the number of visits so far, of the last seven days
/// and of the day itself is published for each district, with the number of different patients and how long they wait; all of
/// it together tells almost nothing about any single patient (ε = 1, δ = 1e-6). Writes the line list, its description
/// (town.toml), the dashboard (public/index.html), and demo.csv and demo.svg, which compare it with other ways to spend the
/// same budget.
///
/// The data is invented and the noise repeatable: a demonstration, not a private release.
#[derive(Args)]
pub(crate) struct Demo {
    /// The folder for everything that is written
    #[arg(long, value_name = "FOLDER", default_value = "demo-output")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    days: usize,
    visits: usize,
    patients: usize,
    late: usize,
    left_out: usize,
    epsilon: f64,
    delta: f64,
    statistics: Vec<Compared>,
    page: PathBuf,
    csv: PathBuf,
    svg: PathBuf,
}

/// A statistic of one district: the root mean square, over the year, of the standard deviation in visits.
#[derive(Serialize)]
struct Compared {
    statistic: &'static str,
    /// One noise for all statistics, as published.
    joint: f64,
    /// Every statistic with its best strategy and an equal share of the budget.
    split: f64,
    /// The same with binary trees.
    binary_tree: f64,
    /// What the published numbers were off by in this run.
    in_this_run: f64,
}

/// A year of one statistic of one district.
struct Year {
    values: Vec<f64>,
    deviations: Vec<f64>,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<()> {
        let visits = town::visits();
        let dashboard = self.publish(&visits)?;
        let calendar = &dashboard.spec().calendar;
        let months = RUNS.iter().map(|month| Ok(calendar.closed_at(calendar.read_instant(month)?)));
        let months = months.collect::<Result<Vec<_>, String>>().map_err(anyhow::Error::msg)?;
        let truth = truth(&visits, &months);
        let planned = dashboard.planned()?.first().context("the town has no releases")?;
        // What the first release got of the budget, to be spent in other ways.
        let whole = Budget::gaussian((2.0 * planned.rho()).sqrt())?;
        let published = read(&dashboard.spec().output.join("visits.csv"), DISTRICTS[DRAWN].0)?;
        let mut statistics = Vec::new();
        let mut others = Vec::new();
        for (index, statistic) in STATISTICS.into_iter().enumerate() {
            let workload = arguments::workload(statistic)?;
            let share = whole.share(1.0 / STATISTICS.len() as f64)?;
            let split = other(&workload, &truth.cases, share, None, SEED + index as u64)?;
            let tree =
                other(&workload, &truth.cases, share, Some(Method::BinaryTree), SEED + 10 + index as u64)?;
            let year = &published[index];
            let errors: Vec<f64> = year
                .values
                .iter()
                .zip(&truth.statistics[index])
                .map(|(value, exact)| value - exact)
                .collect();
            statistics.push(Compared {
                statistic,
                joint: root_mean_square(&year.deviations),
                split: root_mean_square(&split.deviations),
                binary_tree: root_mean_square(&tree.deviations),
                in_this_run: root_mean_square(&errors),
            });
            others.push([split, tree]);
        }
        let (csv, svg) = (self.output.join("demo.csv"), self.output.join("demo.svg"));
        write_csv(&csv, &truth, &published, &others)?;
        draw(&svg, &truth, &published, &others)?;
        let patients: std::collections::HashSet<u64> = visits.iter().map(|visit| visit.person).collect();
        let report = Report {
            days: DAYS,
            visits: visits.len(),
            patients: patients.len(),
            late: visits.iter().filter(|visit| visit.reported > visit.day).count(),
            left_out: truth.left_out,
            epsilon: 1.0,
            delta: 1e-6,
            statistics,
            page: dashboard.spec().output.join("index.html"),
            csv,
            svg,
        };
        if self.json { output::json(&report) } else { print(&report) }
    }

    /// Writes the line list month by month, as it is reported, and brings the dashboard up to date after each.
    fn publish(&self, visits: &[Visit]) -> Result<Dashboard> {
        let folder = &self.output;
        let rows = folder.join("visits");
        std::fs::create_dir_all(&rows).with_context(|| format!("cannot create `{}`", rows.display()))?;
        let (file, description) = (folder.join("town.toml"), description());
        if file.exists() && std::fs::read_to_string(&file).ok().as_ref() != Some(&description) {
            return Err(Usage::error(format!(
                "`{}` is there already and describes something else; give another --output",
                file.display()
            )));
        }
        write(&file, &description)?;
        let dashboard = Dashboard::new(Spec::load(&file)?)?;
        let spec = dashboard.spec();
        let calendar = &spec.calendar;
        // A demonstration begins anew; its state protects nobody.
        if spec.state.exists() {
            std::fs::remove_dir_all(&spec.state)
                .with_context(|| format!("cannot remove `{}`", spec.state.display()))?;
        }
        for month in RUNS {
            remove(&rows.join(format!("reported-before-{month}.csv")))?;
        }
        let mut left = visits;
        for month in RUNS {
            let until = calendar.read_instant(month).map_err(anyhow::Error::msg)?;
            let (now, later) =
                left.split_at(left.partition_point(|visit| visit.reported < calendar.closed_at(until)));
            left = later;
            let mut text = String::from("date,patient,district,minutes\n");
            for Visit { day, person, district, minutes, .. } in now {
                let (date, name) = (calendar.label(*day), DISTRICTS[*district].0);
                writeln!(text, "{date},P{person:06},{name},{minutes}")?;
            }
            write(&rows.join(format!("reported-before-{month}.csv")), &text)?;
            dashboard.run(until, Randomness::Reproducible(SEED))?;
        }
        Ok(dashboard)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// The description of the dashboard, as somebody would write it.
fn description() -> String {
    let names: Vec<String> = DISTRICTS.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let statistics: Vec<String> = STATISTICS.iter().map(|name| format!("\"{name}\"")).collect();
    format!(
        r#"# An invented town. Try `dp check town.toml` and `dp ledger town.state`.
[privacy]
epsilon = 1.0                 # of everything together, for the whole year
delta = 1e-6
protects = "person"
relation = "zero-out"

[input]
files = ["visits"]            # a folder: one file a month, with whatever was reported in it
time = "date"
person = "patient"

[limits]                      # enforced; what exceeds them is left out, and nobody is told
rows_per_step = 1
steps = {STEPS}

[steps]
length = "1 day"
first = "2026-01-01"
last = "2026-12-31"
late = "next"                 # what is reported late counts on the first day that is not published yet

[[release]]
name = "visits"
statistics = [{}]   # all from one noise
by = {{ column = "district", values = [{}] }}
share = 4

[[release]]
name = "patients"
of = "people"                 # different people so far
statistics = ["total"]

[[release]]
name = "waiting"
value = {{ column = "minutes", bounds = [0, 240], resolution = 5 }}
statistics = ["quantile:0.5", "quantile:0.9"]

[output]
folder = "public"
title = "Emergency rooms of an invented town"
"#,
        statistics.join(", "),
        names.join(", ")
    )
}

/// What is never published: one district without noise.
struct Truth {
    /// The visits of every day that the limits let count; late ones on the day on which they do.
    cases: Vec<f64>,
    /// Every statistic of them.
    statistics: Vec<Vec<f64>>,
    /// The visits, of all districts, that exceed the limits.
    left_out: usize,
}

/// Counts what a dashboard must count, in the plainest way.
fn truth(visits: &[Visit], months: &[usize]) -> Truth {
    let mut cases = vec![0.0; DAYS];
    let mut counted: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut left_out = 0;
    for visit in visits {
        // The last beginning of a month up to the report: all days before it are published.
        let open =
            months[..months.partition_point(|month| *month <= visit.reported)].last().copied().unwrap_or(0);
        let day = visit.day.max(open);
        let days = counted.entry(visit.person).or_default();
        if days.contains(&day) || days.len() >= STEPS {
            left_out += 1;
            continue;
        }
        days.push(day);
        if visit.district == DRAWN {
            cases[day] += 1.0;
        }
    }
    let sum = |days: std::ops::RangeInclusive<usize>| cases[days].iter().sum::<f64>();
    let statistics = vec![
        (0..DAYS).map(|day| sum(0..=day)).collect(),
        (0..DAYS).map(|day| sum(day.saturating_sub(6)..=day)).collect(),
        cases.clone(),
    ];
    Truth { cases, statistics, left_out }
}

/// The published numbers of a district, statistic by statistic.
fn read(path: &Path, district: &str) -> Result<Vec<Year>> {
    let mut years: HashMap<String, Year> = HashMap::new();
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    for line in reader.records() {
        let line = line?;
        if line.get(2) == Some(district) {
            let year = years
                .entry(line[3].to_owned())
                .or_insert_with(|| Year { values: Vec::new(), deviations: Vec::new() });
            year.values.push(line[4].parse()?);
            year.deviations.push(line[5].parse()?);
        }
    }
    let year = |name: &str| years.remove(name).with_context(|| format!("`{}` has no {name}", path.display()));
    STATISTICS.iter().copied().map(year).collect()
}

/// One statistic with a noise of its own: by a method, or by the best.
fn other(
    workload: &Workload,
    cases: &[f64],
    budget: Budget,
    method: Option<Method>,
    seed: u64,
) -> Result<Year> {
    let participation: Participation = format!("{STEPS}:1").parse()?;
    let footprint = Footprint::encoded(vec![Term { weight: 1.0, participation }], Relation::ZeroOut)?;
    let problem = Problem::new(workload.clone(), DAYS)?.with_participation(participation);
    let strategy = match method {
        Some(method) => method.build(&problem)?,
        None => planner::best(&problem, &footprint, 1)?,
    };
    let plan = Plan::idealized(strategy, footprint, budget)?.of_dimension(1)?;
    let deviations = plan.deviations().collect();
    let mut mechanism = Mechanism::new(plan, Seed::reproducible(seed))?;
    let mut values = Vec::new();
    let mut output = [0.0];
    for today in cases {
        mechanism.release(&[*today], &mut output)?;
        values.push(output[0]);
    }
    Ok(Year { values, deviations })
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
}

fn print(report: &Report) -> Result<()> {
    output::line(&format!(
        "An invented town: {} visits of {} patients in {} days, {} of them reported late. Published every day for\n\
         six districts; all numbers of the year together are ({}, {:e})-differentially private for every patient.\n\
         The limits leave {} visits out ({:.1} %), so that no patient counts on more than {STEPS} days.\n\n\
         Typical noise of a district in visits, at the same privacy:\n",
        report.visits,
        report.patients,
        report.days,
        report.late,
        report.epsilon,
        report.delta,
        report.left_out,
        100.0 * report.left_out as f64 / report.visits as f64
    ))?;
    let mut table = Table::new(&[
        "statistic",
        "one noise for all",
        "budget split in three",
        "split, binary trees",
        "off in this run",
    ]);
    for one in &report.statistics {
        table.row(vec![
            one.statistic.to_owned(),
            format!("{:.1}", one.joint),
            format!("{:.1} ({:.2}x)", one.split, one.split / one.joint),
            format!("{:.1} ({:.2}x)", one.binary_tree, one.binary_tree / one.joint),
            format!("{:.1}", one.in_this_run),
        ]);
    }
    table.print()?;
    output::line(&format!(
        "\nThe first three are standard deviations, known before any data (root mean square over the year); the last is\n\
         what the published numbers of {} were off by.\n\n\
         Open {} in a browser. {} and {} hold the comparison.\n\n\
         DEMONSTRATION ONLY: the data is invented and the noise comes from a published seed, so that everybody\n\
         sees the same picture. Real dashboards use secret noise: see `dp new --help` and `dp run --help`.",
        DISTRICTS[DRAWN].0,
        report.page.display(),
        report.csv.display(),
        report.svg.display()
    ))
}

fn write_csv(path: &Path, truth: &Truth, published: &[Year], others: &[[Year; 2]]) -> Result<()> {
    let mut writer =
        csv::Writer::from_path(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    writer.write_record([
        "day",
        "statistic",
        "truth",
        "published",
        "standard_deviation",
        "split_budget",
        "split_budget_standard_deviation",
        "binary_tree",
        "binary_tree_standard_deviation",
    ])?;
    for day in 0..DAYS {
        for (index, statistic) in STATISTICS.into_iter().enumerate() {
            let mut record =
                vec![(day + 1).to_string(), statistic.to_owned(), truth.statistics[index][day].to_string()];
            let [split, tree] = &others[index];
            for year in [&published[index], split, tree] {
                record.push(year.values[day].to_string());
                record.push(year.deviations[day].to_string());
            }
            writer.write_record(&record)?;
        }
    }
    writer.flush()?;
    Ok(())
}

fn draw(path: &Path, truth: &Truth, published: &[Year], others: &[[Year; 2]]) -> Result<()> {
    let by_day = |values: &[f64]| -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(day, value)| ((day + 1) as f64, *value)).collect()
    };
    let noisy = |label: &str, year: &Year, colour| {
        let label = format!("{label}: noise of {:.0} visits", root_mean_square(&year.deviations));
        let values = year.values.iter().zip(&year.deviations).enumerate();
        Curve::noisy(
            label,
            colour,
            values.map(|(day, (value, deviation))| ((day + 1) as f64, *value, *deviation)),
        )
    };
    let exact = |values: &[f64]| Curve {
        label: "what counts, without noise (never published)".to_owned(),
        colour: plot::DARK,
        points: by_day(values),
        band: Vec::new(),
    };
    let panel = |title: &str, vertical: &str, curves| Panel {
        title: title.to_owned(),
        horizontal: "day of the year".to_owned(),
        vertical: vertical.to_owned(),
        headroom: 0.3,
        curves,
    };
    let week = panel(
        "The last seven days",
        "visits in seven days",
        vec![
            noisy("split budget, binary tree", &others[1][1], plot::ORANGE),
            noisy("one noise for everything", &published[1], plot::BLUE),
            exact(&truth.statistics[1]),
        ],
    );
    // Totals are large beside their noise: what they are off by says more.
    let off = |label: &str, year: &Year, colour| {
        let errors = year.values.iter().zip(&truth.statistics[0]).map(|(value, exact)| value - exact);
        let errors = Year { values: errors.collect(), deviations: year.deviations.clone() };
        let mut curve = noisy(label, &errors, colour);
        curve.band = year.deviations.iter().map(|deviation| (-1.96 * deviation, 1.96 * deviation)).collect();
        curve
    };
    let total = panel(
        "What the total so far is off by; shaded: where 95 % of the noise falls",
        "error in visits",
        vec![
            off("split budget, binary tree", &others[0][1], plot::ORANGE),
            off("split budget, best strategy", &others[0][0], plot::GREEN),
            off("one noise for everything", &published[0], plot::BLUE),
        ],
    );
    plot::draw(
        path,
        &format!("A year of emergency visits in {}, at the same privacy", DISTRICTS[DRAWN].0),
        &[week, total],
    )
}
