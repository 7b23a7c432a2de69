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
    /// Read with so many workers at once, in every process
    #[arg(long, value_name = "NUMBER", conflicts_with = "accept_change")]
    workers: Option<usize>,
    /// Share the work among so many processes, on one machine or on many; start every one of them
    #[arg(long, value_name = "NUMBER", requires_all = ["process", "hosts"], conflicts_with = "accept_change")]
    processes: Option<usize>,
    /// Which of the processes this is, counted from 0; the first publishes
    #[arg(long, value_name = "NUMBER", requires = "processes")]
    process: Option<usize>,
    /// A file with the address of every process, `host:port`, one on each line
    #[arg(long, value_name = "FILE", requires = "processes")]
    hosts: Option<PathBuf>,
    /// A file with the secret that the processes share, readable by its owner alone [default: the variable DP_SECRET]
    #[arg(long, value_name = "FILE", requires = "processes")]
    secret: Option<PathBuf>,
    /// Wait so many seconds for the other processes
    #[arg(long, value_name = "SECONDS", requires = "processes", default_value_t = 60)]
    wait: u64,
    /// Say how far the workers are, on standard error: for whoever may see the data
    #[arg(long, conflicts_with = "accept_change")]
    progress: bool,
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
                output::note("warning: --reproducible-seed makes releases that are NOT PRIVATE");
                Randomness::Reproducible(number)
            }
            None => Randomness::System,
        };
        let dashboard = Dashboard::new(spec)?;
        let outcome = if self.accept_change {
            output::while_working("planning anew", || dashboard.run_changed(until, randomness))?
        } else if self.workers.is_some() || self.processes.is_some() || self.progress {
            match dp_dataflow::run(&dashboard, until, randomness, self.workers()?)? {
                Some(outcome) => outcome,
                None => return output::line("the first process has published"),
            }
        } else {
            output::while_working("planning, reading and publishing", || dashboard.run(until, randomness))?
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

impl Run {
    /// Over which workers and processes.
    fn workers(&self) -> Result<dp_dataflow::Workers> {
        let workers = self.workers.unwrap_or(1);
        if workers == 0 {
            return Err(Usage::error("--workers: there must be at least one"));
        }
        let hosts = match (self.processes, self.process, &self.hosts) {
            (Some(processes), Some(process), Some(file)) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| Usage::error(format!("{}: {error}", file.display())))?;
                let addresses: Vec<String> =
                    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
                if addresses.len() != processes || process >= processes {
                    return Err(Usage::error(format!(
                        "{} names {} addresses for {processes} processes, and this is process {process}, counted from 0",
                        file.display(),
                        addresses.len()
                    )));
                }
                let patience = std::time::Duration::from_secs(self.wait);
                let secret = dp_dataflow::Secret::load(self.secret.as_deref())?;
                Some((dp_dataflow::Hosts { process, addresses, patience }, secret))
            }
            _ => None,
        };
        let log: Option<dp_dataflow::Log> = if self.progress { Some(Box::new(output::note)) } else { None };
        Ok(dp_dataflow::Workers { workers, hosts, log })
    }
}

/// A description whose mistakes are mistakes of the request.
pub(crate) fn load(file: &Path) -> Result<Spec> {
    Spec::load(file).map_err(|error| match error {
        mistakes @ dp_events::Error::Spec(_) => Usage::error(mistakes),
        other => other.into(),
    })
}
