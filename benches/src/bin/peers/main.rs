//! This library beside others: the same work, in one run, on one machine.
//!
//! The others are Python packages. They are installed into an environment of their own under `target/peers` and asked
//! through the scripts of `benches/peers`, each of which prints what it measured as JSON lines. A package that cannot be
//! installed, or a script that fails, costs its own rows and says why; our side is measured either way.

mod accounting;
mod calibration;
mod count;
mod discrete;
mod factorization;
mod noise;
mod python;
mod readme;
mod rows;
mod sampling;
mod sources;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use dp_benches::record::{self, Record};
use indicatif::{ProgressBar, ProgressStyle};

use python::Peers;
use rows::Section;
use sources::Source;

/// Measures this library beside jax-privacy, opendp, dp-accounting and prio.
///
/// Takes about a quarter of an hour, most of it spent waiting for the dense optimizer of jax-privacy. Writes peers.json
/// and peers.md to target/peers.
#[derive(Parser)]
#[command(name = "cargo xtask peers")]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct Arguments {
    /// Smaller work: minutes in all
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Also keep the figures in benches/record, with the other groups as they are there, and the table of README
    #[arg(long, conflicts_with = "quick")]
    record: bool,
    /// Measure nothing: write the table of README from the record, and say which code changed after it was made
    #[arg(long, conflicts_with_all = ["quick", "record", "only"])]
    readme: bool,
    /// Only one group of comparisons
    #[arg(long, value_name = "GROUP")]
    only: Option<Group>,
}

/// The groups of comparisons, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Finding strategies: the time, and the error of what was found
    Factorization,
    /// Correlated noise for long vectors, per step
    Noise,
    /// A running count of a million events
    Count,
    /// Exact discrete Gaussian samples
    Discrete,
    /// The noise that (ε, δ) asks for
    Calibration,
    /// ε of many sampled steps
    Accounting,
    /// Banded strategies with amplification by sampling
    Sampling,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.readme {
        let record = Record::read(&record::folder(), "peers")?.context("there is no record")?;
        return write_readme(&record);
    }
    let package = record::folder();
    let package = package.parent().unwrap_or(Path::new("benches"));
    let folder = package.with_file_name("target").join("peers");
    let record = run(&arguments, "python3", &package.join("peers"), &folder)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        println!("{}\n\n{}", record.heading(), rows::markdown(&record.results));
    }
    Ok(())
}

/// Runs the groups that are asked for. What is known after each of them is written, so that a run that is interrupted
/// leaves something.
fn run(arguments: &Arguments, python: &str, scripts: &Path, folder: &Path) -> Result<Record<Vec<Section>>> {
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let peers = Peers::install(python, scripts, folder, bar)?;
    let groups = match arguments.only {
        Some(group) => vec![group],
        None => Group::value_variants().to_vec(),
    };
    let mut record = Record::now(&command(arguments), Vec::new());
    for group in groups {
        let section = match group {
            Group::Factorization => factorization::compare(&peers, arguments.quick)?,
            Group::Noise => noise::compare(&peers, arguments.quick)?,
            Group::Count => count::compare(&peers, arguments.quick)?,
            Group::Discrete => discrete::compare(&peers, arguments.quick)?,
            Group::Calibration => calibration::compare(&peers, arguments.quick)?,
            Group::Accounting => accounting::compare(&peers, arguments.quick)?,
            Group::Sampling => sampling::compare(&peers, arguments.quick)?,
        };
        let sources = group.sources().iter().map(|path| Source::now(path)).collect::<Result<_>>()?;
        record.results.push(Section { sources, ..section });
        let markdown = rows::markdown(&record.results);
        record.write(folder, "peers", &markdown)?;
        if arguments.record {
            let kept = Record::read(&record::folder(), "peers")?;
            let merged = merged(kept, &record);
            merged.write(&record::folder(), "peers", &rows::markdown(&merged.results))?;
        }
    }
    if arguments.record
        && let Some(kept) = Record::read(&record::folder(), "peers")?
    {
        write_readme(&kept)?;
    }
    peers.finish();
    Ok(record)
}

impl Group {
    /// The code that a group measures, from the root of the repository.
    fn sources(self) -> &'static [&'static str] {
        const NUMBERS: &str = "crates/dp-linalg/src";
        const NOISE: &str = "crates/dp-mechanisms/src/noise";
        const STRATEGIES: &str = "crates/dp-mechanisms/src/strategy";
        const WORKLOADS: &str = "crates/dp-mechanisms/src/workload";
        match self {
            Self::Factorization => &[NUMBERS, STRATEGIES, "benches/peers/jax_factorization.py"],
            Self::Noise => &[NUMBERS, NOISE, STRATEGIES, "benches/peers/jax_noise.py"],
            Self::Count => &[
                NUMBERS,
                NOISE,
                STRATEGIES,
                WORKLOADS,
                "crates/dp-mechanisms/src/mechanism.rs",
                "crates/dp-mechanisms/src/run.rs",
                "crates/dp-mechanisms/src/exact",
                "benches/peers/jax_count.py",
                "benches/peers/opendp_count.py",
            ],
            Self::Discrete => {
                &["crates/dp-mechanisms/src/noise/discrete", "benches/peers/opendp_discrete.py"]
            }
            Self::Calibration => &["crates/dp-mechanisms/src/budget.rs", "benches/peers/calibration.py"],
            Self::Accounting => &["crates/dp-mechanisms/src/accountant", "benches/peers/accounting.py"],
            Self::Sampling => &[
                "crates/dp-mechanisms/src/accountant",
                "crates/dp-mechanisms/src/strategy/banded.rs",
                "benches/peers/jax_banded.py",
            ],
        }
    }
}

/// The kept record with the sections of a new one in the places of those with the same title, each with its own day.
fn merged(kept: Option<Record<Vec<Section>>>, new: &Record<Vec<Section>>) -> Record<Vec<Section>> {
    let Some(mut all) = kept else { return new.clone() };
    for section in &new.results {
        let section = Section { measured: Some(new.date.clone()), ..section.clone() };
        match all.results.iter_mut().find(|old| old.title == section.title) {
            Some(old) => *old = section,
            None => all.results.push(section),
        }
    }
    // What was all measured on one day is the record of that day.
    if all.results.iter().all(|section| section.measured.as_ref() == Some(&new.date)) {
        all.results.iter_mut().for_each(|section| section.measured = None);
        (all.date, all.machine) = (new.date.clone(), new.machine.clone());
    }
    all
}

/// Writes the table of README, and says which sections of the record are older than the code.
fn write_readme(record: &Record<Vec<Section>>) -> Result<()> {
    for section in &record.results {
        if let Some(reason) = section.outdated() {
            eprintln!("`{}` was measured on {}; {reason}", section.title, section.date(record));
        }
    }
    let (before, after) = readme::before_and_after(record)?;
    if before != after {
        std::fs::write(readme::path(), after).context("cannot write README")?;
    }
    Ok(())
}

/// The command that repeats the run.
fn command(arguments: &Arguments) -> String {
    let mut words = vec!["cargo xtask peers".to_owned()];
    if arguments.quick {
        words.push("--quick".to_owned());
    }
    if let Some(group) = arguments.only.and_then(|group| group.to_possible_value()) {
        words.push(format!("--only {}", group.get_name()));
    }
    words.join(" ")
}

/// What both sides of a comparison may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// An absolute path, for programs that run elsewhere.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("`{}` has no absolute form", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rows::OURS;

    #[test]
    fn without_python_our_side_is_measured_and_every_other_row_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = Arguments {
            quick: true,
            json: false,
            record: false,
            readme: false,
            only: Some(Group::Calibration),
        };
        let record = run(&arguments, "no-such-python", Path::new("peers"), folder.path()).unwrap();
        assert_eq!(record.command, "cargo xtask peers --quick --only calibration");
        let rows = &record.results[0].rows;
        let (ours, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.who == OURS);
        assert!(!ours.is_empty() && ours.iter().all(|row| row.seconds.is_some_and(|seconds| seconds > 0.0)));
        for package in ["dp-accounting", "opendp", "jax-privacy"] {
            let row = others.iter().find(|row| row.who == package).unwrap();
            assert!(row.seconds.is_none() && row.note.contains("no-such-python"), "{row:?}");
        }
    }

    #[test]
    fn a_part_that_is_measured_again_replaces_itself() {
        let section = |title: &str, findings: &str| Section {
            title: title.to_owned(),
            conditions: String::new(),
            quality: String::new(),
            rows: Vec::new(),
            findings: vec![findings.to_owned()],
            measured: None,
            sources: Vec::new(),
        };
        let old = Record {
            date: "2000-01-01".to_owned(),
            ..Record::now("cargo xtask peers", vec![section("a", "old"), section("b", "old")])
        };
        let part = Record::now("cargo xtask peers --only b", vec![section("b", "new")]);
        let both = merged(Some(old.clone()), &part);
        assert_eq!(both.results[0], old.results[0]);
        assert_eq!(both.results[1].findings, ["new"]);
        assert_eq!(both.results[1].date(&both), part.date);
        assert_eq!((both.date.as_str(), both.command.as_str()), ("2000-01-01", "cargo xtask peers"));
        let rest = Record::now("cargo xtask peers --only a", vec![section("a", "new")]);
        let all = merged(Some(both), &rest);
        assert!(all.date == rest.date && all.results.iter().all(|section| section.measured.is_none()));
        assert_eq!(merged(None, &part), part);
    }

    #[test]
    fn every_group_names_code_that_exists() {
        for group in Group::value_variants() {
            assert!(group.sources().iter().all(|path| !Source::now(path).unwrap().changed()), "{group:?}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
        let arguments = Arguments::parse_from(["peers", "--only", "noise", "--record"]);
        assert_eq!(command(&arguments), "cargo xtask peers --only noise");
    }
}
