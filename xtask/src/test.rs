//! Everything that must hold before a change is merged, in stages, the quick ones first.

use std::time::Instant;

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

use crate::packages::{CHROMIUM, Need, OPENBLAS};
use crate::{cargo, tidy};

/// How a stage ended, other than by failing.
enum Outcome {
    Passed,
    /// What was missing, so that the stage was not run.
    NotRun(String),
}

struct Stage {
    name: &'static str,
    /// The command that runs this stage alone.
    command: &'static str,
    /// Runs the stage; most run the command as it is written.
    run: fn(&Shell, &str) -> Result<Outcome>,
}

const STAGES: &[Stage] = &[
    Stage { name: "format", command: "cargo fmt --all --check", run: as_written },
    Stage { name: "tidy", command: "cargo xtask tidy", run: |shell, _| passed(tidy::run(shell)) },
    Stage {
        name: "lints",
        command: "cargo clippy --workspace --all-targets -- -D warnings",
        run: as_written,
    },
    Stage { name: "tests", command: "cargo test --workspace", run: as_written },
    Stage { name: "documentation", command: "cargo xtask doc", run: |shell, _| passed(cargo::doc(shell)) },
    Stage {
        name: "report in a browser",
        command: "cargo test --workspace --bin report browser",
        run: |shell, command| with(&CHROMIUM, shell, command),
    },
    Stage {
        name: "tests on OpenBLAS",
        command: "cargo test -p dp-linalg --no-default-features --features openblas",
        run: |shell, command| with(&OPENBLAS, shell, command),
    },
];

/// Runs every stage and stops at the first that fails.
pub(crate) fn run(shell: &Shell) -> Result<()> {
    let start = Instant::now();
    let mut not_run = Vec::new();
    for (position, Stage { name, command, run }) in (1..).zip(STAGES) {
        eprintln!("\n== {position}/{} {name}", STAGES.len());
        let stage_start = Instant::now();
        let outcome = run(shell, command);
        let seconds = stage_start.elapsed().as_secs_f64();
        match outcome {
            Ok(Outcome::Passed) => eprintln!("== {name}: passed in {seconds:.1} s"),
            Ok(Outcome::NotRun(why)) => {
                eprintln!("== {name}: not run ({why})");
                not_run.push(*name);
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
    if !not_run.is_empty() {
        eprintln!("== not run: {}", not_run.join(", "));
    }
    Ok(())
}

fn passed(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

fn as_written(shell: &Shell, command: &str) -> Result<Outcome> {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    passed(cmd!(shell, "{program} {words...}").run().map_err(Into::into))
}

/// Runs a stage that needs more than cargo; a machine without it is told what it did not check.
fn with(need: &Need, shell: &Shell, command: &str) -> Result<Outcome> {
    match need.provide(shell)? {
        Ok(()) => as_written(shell, command),
        Err(missing) => Ok(Outcome::NotRun(missing)),
    }
}
