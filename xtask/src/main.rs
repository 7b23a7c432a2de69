//! Development tasks, and a thin door to the command line.
//!
//! `cargo xtask <task>` runs one of the tasks below. Every other word belongs to the command line: it is handed to
//! `dp-cli` as it stands, so that this package neither lists the commands nor depends on the numeric crates.

mod cargo;
mod machines;
mod packages;
mod passthrough;
mod python;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use xshell::Shell;

const HELP: &str = "\
cargo xtask <task>

Development tasks:
  test [--no-install]   everything that must hold before a change is merged: formatting, tidy, lints, unit,
                        integration and documentation tests, the packages, rustdoc, the pages in a browser, and
                        the numeric core on OpenBLAS; installs Chromium and OpenBLAS where they are missing and it
                        may, or with --no-install goes without and names what was not run
  statistical [filter]  the statistical tests alone, in release, with their output
  bench [name] [args]   the criterion benches, all or one; further arguments go to `cargo bench`
  reproduce             the tables and figures of the source papers, computed again, with a verdict for each row
  peers                 this library beside others on the same work, in one run
  scale                 how time and memory grow with the horizon and the dimension
  tables [--quick]      the tables of errors on the crate page of dp-mechanisms, computed again; quickly: at 64 and
                        256 steps only
  machines [--rows N] [--people N] [--keys N] [--repeats N] [--growth]
                        a dashboard over workers and processes beside the run in one place and `sort | uniq -c`
  report                one HTML page with the figures and the comparisons
  python [args]         the Python package: its environment, its wheel and its tests; further arguments go to pytest
  python --release      the wheel as it is published, the same to the last byte wherever it is built
  python bench [args]   that wheel beside other Python packages, in one run; --record keeps the figures
  packages [--build]    every crate, packed as it would be published; built from its package alone, which takes minutes
  doc                   the documentation of the workspace; a warning is an error
  tidy                  the rules about the source that no compiler checks
  help                  this text

Everything else goes to the command line unchanged, for example
  cargo xtask demo
  cargo xtask plan --help
The command line lists its own commands with
  cargo run --release --quiet -p dp-cli -- --help
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let shell = Shell::new()?;
    let Some((task, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    match (task.as_str(), rest) {
        ("help" | "--help" | "-h", []) => print!("{HELP}"),
        ("test", words) => test::Options::parse(words).and_then(|options| test::run(&shell, options))?,
        ("statistical", filter) => cargo::statistical(&shell, filter)?,
        ("bench", rest) => cargo::bench(&shell, rest)?,
        ("python", words) => {
            let outcome = python::run(&shell, &python::Options::parse(words), true)?;
            for missing in outcome.map_err(anyhow::Error::msg)? {
                eprintln!("not run: {missing}");
            }
        }
        ("machines", words) => machines::run(&shell, machines::Options::parse(words)?)?,
        ("packages", words) => cargo::packages(&shell, words)?,
        ("doc", _) => alone(task, rest).and_then(|()| cargo::doc(&shell))?,
        ("tidy", _) => alone(task, rest).and_then(|()| tidy::run(&shell))?,
        (program @ ("reproduce" | "peers" | "report" | "scale" | "tables"), rest) => {
            return passthrough::run(&shell, "dp-benches", program, rest);
        }
        _ => return passthrough::run(&shell, "dp-cli", "dp", arguments),
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses arguments that a task would otherwise silently ignore.
fn alone(task: &str, rest: &[String]) -> Result<()> {
    ensure!(rest.is_empty(), "`{task}` takes no arguments, but was given: {}", rest.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_task() {
        for task in [
            "test",
            "statistical",
            "bench",
            "reproduce",
            "peers",
            "scale",
            "tables",
            "machines",
            "report",
            "python",
            "packages",
            "doc",
            "tidy",
            "help",
        ] {
            assert!(
                HELP.lines().any(|line| line.trim_start().starts_with(task)),
                "{task} is missing from the help"
            );
        }
    }

    #[test]
    fn surplus_arguments_are_refused_by_name() {
        assert!(alone("tidy", &[]).is_ok());
        let message = alone("tidy", &["--fix".to_owned()]).unwrap_err().to_string();
        assert!(message.contains("tidy") && message.contains("--fix"), "{message}");
    }
}
