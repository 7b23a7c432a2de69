//! `dp run`: publish every step of a dashboard that is over.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use dp_events::calendar::Calendar;
use dp_events::{Dashboard, Randomness, Spec};

use crate::arguments::Usage;
use crate::output;

/// Reads what is new, closes every step that is over, and writes tables, guarantee and page.
///
/// Meant to be started again and again, by hand or by a timer: a run with nothing new changes nothing, and one that was killed
/// is made good by the next.
#[derive(Args)]
pub(crate) struct Run {
    /// The description of the dashboard
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Close the steps that ended by then, such as 2026-02-01 [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Go on under a description that was changed: its releases begin anew with the next step, and their budget adds to what
    /// was spent before (`dp check` says what that comes to)
    #[arg(long)]
    accept_change: bool,
    /// NOT PRIVATE: noise that everybody can repeat and subtract, for tests and demonstrations
    #[arg(long, value_name = "NUMBER")]
    reproducible_seed: Option<u64>,
}

impl Run {
    pub(crate) fn run(self) -> Result<()> {
        let spec = load(&self.file)?;
        let until = match &self.until {
            Some(text) => {
                spec.calendar.read_instant(text).map_err(|error| Usage::error(format!("--until: {error}")))?
            }
            None => Calendar::now(),
        };
        let randomness = match self.reproducible_seed {
            Some(number) => {
                eprintln!("warning: --reproducible-seed makes releases that are NOT PRIVATE");
                Randomness::Reproducible(number)
            }
            None => Randomness::System,
        };
        let dashboard = Dashboard::new(spec)?;
        let outcome = if self.accept_change {
            dashboard.run_changed(until, randomness)?
        } else {
            dashboard.run(until, randomness)?
        };
        let folder = dashboard.spec().output.display();
        let (before, now, steps) = (outcome.before, outcome.published, outcome.steps);
        output::line(&match now - before {
            0 => format!("no step ended since the last run: {now} of {steps} are published in {folder}"),
            1 => format!("published step {now} of {steps} in {folder}"),
            _ => format!("published steps {} to {now} of {steps} in {folder}", before + 1),
        })
    }
}

/// A description whose mistakes are mistakes of the request.
pub(crate) fn load(file: &Path) -> Result<Spec> {
    Spec::load(file).map_err(|error| match error {
        mistakes @ dp_events::Error::Spec(_) => Usage::error(mistakes),
        other => other.into(),
    })
}
