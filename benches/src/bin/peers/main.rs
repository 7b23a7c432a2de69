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
mod rows;
mod sampling;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use dp_benches::record::{self, Record};
use indicatif::{ProgressBar, ProgressStyle};

use python::Peers;
use rows::Section;

/// Measures this library beside jax-privacy, opendp, dp-accounting and prio.
///
/// Takes about a quarter of an hour, most of it spent waiting for the dense optimizer of jax-privacy. Writes peers.json
/// and peers.md to target/peers.
#[derive(Parser)]
#[command(name = "cargo xtask peers")]
struct Arguments {
    /// Smaller work: minutes in all
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Also keep the figures in benches/record
    #[arg(long)]
    record: bool,
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
        record.results.push(match group {
            Group::Factorization => factorization::compare(&peers, arguments.quick)?,
            Group::Noise => noise::compare(&peers, arguments.quick)?,
            Group::Count => count::compare(&peers, arguments.quick)?,
            Group::Discrete => discrete::compare(&peers, arguments.quick)?,
            Group::Calibration => calibration::compare(&peers, arguments.quick)?,
            Group::Accounting => accounting::compare(&peers, arguments.quick)?,
            Group::Sampling => sampling::compare(&peers, arguments.quick)?,
        });
        let markdown = rows::markdown(&record.results);
        record.write(folder, "peers", &markdown)?;
        if arguments.record {
            record.write(&record::folder(), "peers", &markdown)?;
        }
    }
    peers.finish();
    Ok(record)
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
        let arguments = Arguments { quick: true, json: false, record: false, only: Some(Group::Calibration) };
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
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
        let arguments = Arguments::parse_from(["peers", "--only", "noise", "--record"]);
        assert_eq!(command(&arguments), "cargo xtask peers --only noise");
    }
}
