//! Everything that must hold before a change is merged, in stages, the quick ones first.

use std::time::Instant;

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

use crate::packages::{CHROMIUM, Need, OPENBLAS};
use crate::{cargo, python, tidy};

/// How a stage ended, other than by failing.
enum Outcome {
    Passed,
    /// What was missing, so that the stage was not run.
    NotRun(String),
}

/// What the caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether system packages that a stage needs may be installed.
    pub(crate) may_install: bool,
}

impl Options {
    /// Reads the words after `test`.
    ///
    /// # Errors
    /// Anything but `--no-install`.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        match words {
            [] => Ok(Self { may_install: true }),
            [word] if word == "--no-install" => Ok(Self { may_install: false }),
            _ => bail!("`test` takes --no-install or nothing, but was given: {}", words.join(" ")),
        }
    }
}

struct Stage {
    name: &'static str,
    /// The command that runs this stage alone.
    command: &'static str,
    /// Runs the stage; most run the command as it is written.
    run: fn(&Shell, &str, Options) -> Result<Outcome>,
}

const STAGES: &[Stage] = &[
    Stage { name: "format", command: "cargo fmt --all --check", run: as_written },
    Stage { name: "tidy", command: "cargo xtask tidy", run: |shell, _, _| passed(tidy::run(shell)) },
    Stage {
        name: "lints",
        command: "cargo clippy --workspace --all-targets -- -D warnings",
        run: as_written,
    },
    Stage { name: "tests", command: "cargo test --workspace", run: as_written },
    Stage {
        name: "packages",
        command: "cargo xtask packages",
        run: |shell, _, _| passed(cargo::packages(shell, &[])),
    },
    Stage { name: "Python package", command: "cargo xtask python", run: python_package },
    Stage { name: "documentation", command: "cargo xtask doc", run: |shell, _, _| passed(cargo::doc(shell)) },
    Stage {
        name: "pages in a browser",
        command: "cargo test --workspace --bin report --test browser browser",
        run: |shell, command, options| with(&CHROMIUM, shell, command, options),
    },
    Stage {
        name: "tests on OpenBLAS",
        command: "cargo test -p dp-linalg --no-default-features --features openblas",
        run: |shell, command, options| with(&OPENBLAS, shell, command, options),
    },
];

/// Runs every stage and stops at the first that fails.
pub(crate) fn run(shell: &Shell, options: Options) -> Result<()> {
    let start = Instant::now();
    let mut not_run = Vec::new();
    for (position, Stage { name, command, run }) in (1..).zip(STAGES) {
        eprintln!("\n== {position}/{} {name}", STAGES.len());
        let stage_start = Instant::now();
        let outcome = run(shell, command, options);
        let seconds = stage_start.elapsed().as_secs_f64();
        match outcome {
            Ok(Outcome::Passed) => eprintln!("== {name}: passed in {seconds:.1} s"),
            Ok(Outcome::NotRun(why)) => {
                eprintln!("== {name}: not run ({why})");
                not_run.push(format!("{name} ({why}; run it alone with: {command})"));
            }
            Err(error) => {
                eprintln!("{error:#}");
                bail!("stage `{name}` failed after {seconds:.1} s; run it alone with: {command}");
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let passed = STAGES.len() - not_run.len();
    eprintln!("\n== {passed} of {} stages passed in {seconds:.1} s", STAGES.len());
    for stage in not_run {
        eprintln!("== not run: {stage}");
    }
    Ok(())
}

fn passed(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

fn as_written(shell: &Shell, command: &str, _: Options) -> Result<Outcome> {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    passed(cmd!(shell, "{program} {words...}").run().map_err(Into::into))
}

/// Builds and tests the Python package, where there is a Python.
fn python_package(shell: &Shell, _: &str, options: Options) -> Result<Outcome> {
    Ok(match python::run(shell, &python::Options::parse(&[]), options.may_install)? {
        Ok(not_run) => {
            not_run.iter().for_each(|test| eprintln!("== not run: {test}"));
            Outcome::Passed
        }
        Err(missing) => Outcome::NotRun(missing),
    })
}

/// Runs a stage that needs more than cargo; a machine without it is told what it did not check.
fn with(need: &Need, shell: &Shell, command: &str, options: Options) -> Result<Outcome> {
    match need.provide(shell, options.may_install)? {
        Ok(()) => as_written(shell, command, options),
        Err(missing) => Ok(Outcome::NotRun(missing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_unless_told_otherwise() {
        let parse = |words: &[&str]| {
            Options::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).map(|o| o.may_install)
        };
        assert!(parse(&[]).unwrap());
        assert!(!parse(&["--no-install"]).unwrap());
        assert!(parse(&["--install"]).unwrap_err().to_string().contains("--install"));
    }
}
