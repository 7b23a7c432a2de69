//! `dp check`: what a dashboard will publish and how exactly, without data.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use dp_events::Dashboard;
use dp_events::dashboard::Change;
use dp_events::plan::Planned;
use serde::Serialize;

use crate::commands::run::load;
use crate::output;

/// Plans a dashboard without reading a row: mistakes in the file with their lines, and the error of every number.
#[derive(Args)]
pub(crate) struct Check {
    /// The description of the dashboard
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Read the rows too, and list those that cannot be used: for whoever may see the data, never for publication
    #[arg(long)]
    rows: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    release: String,
    statistic: String,
    strategy: &'static str,
    /// At the first, middle and last step; nothing for means and quantiles.
    standard_deviation: [Option<f64>; 3],
    cells: usize,
    bytes: usize,
    rho: f64,
}

impl Check {
    pub(crate) fn run(self) -> Result<()> {
        let dashboard = Dashboard::new(load(&self.file)?)?;
        let lines: Vec<Line> =
            dashboard.planned()?.iter().flat_map(|planned| lines(&dashboard, planned)).collect();
        if self.json {
            output::json(&lines)?;
        } else {
            print(&dashboard, &lines)?;
        }
        if dashboard.spec().state.join("sealed").exists()
            && !self.json
            && let Some(change) = dashboard.change()?
        {
            print_change(&change)?;
        }
        if !self.rows {
            return Ok(());
        }
        let found = dashboard.examine(20)?;
        for finding in &found {
            output::line(&finding.mistake.to_string())?;
        }
        match found.len() {
            0 => output::line("every row can be used"),
            20 => bail!("these are the first 20 rows that cannot be used; a run leaves them out"),
            some => bail!("{some} rows cannot be used; a run leaves them out"),
        }
    }
}

fn lines(dashboard: &Dashboard, planned: &Planned) -> Vec<Line> {
    let steps = dashboard.spec().calendar.steps();
    let places = [0, (steps - 1) / 2, steps - 1];
    planned
        .statistics()
        .iter()
        .enumerate()
        .map(|(index, statistic)| Line {
            release: planned.name.clone(),
            statistic: statistic.to_string(),
            strategy: planned.strategy(),
            standard_deviation: places.map(|step| planned.standard_deviation(index, step)),
            cells: planned.dimension(),
            bytes: planned.memory(),
            rho: planned.rho(),
        })
        .collect()
}

fn print(dashboard: &Dashboard, lines: &[Line]) -> Result<()> {
    let calendar = &dashboard.spec().calendar;
    let steps = calendar.steps();
    output::line(&format!(
        "{steps} steps of {}, from {} to {}",
        calendar.length(),
        calendar.label(0),
        calendar.end_label(steps - 1)
    ))?;
    output::line(&format!(
        "{:<16} {:<14} {:<16} {:>12} {:>12} {:>12} {:>8} {:>10}",
        "release", "statistic", "strategy", "sd, first", "middle", "last", "cells", "rho"
    ))?;
    for line in lines {
        let [first, middle, last] = line.standard_deviation.map(|deviation| match deviation {
            Some(deviation) => format!("{deviation:.2}"),
            None => "by data".to_owned(),
        });
        output::line(&format!(
            "{:<16} {:<14} {:<16} {first:>12} {middle:>12} {last:>12} {:>8} {:>10.6}",
            line.release, line.statistic, line.strategy, line.cells, line.rho
        ))?;
    }
    let bytes: usize = dashboard.planned()?.iter().map(Planned::memory).sum();
    output::line(&format!(
        "memory: {:.1} MB for the cells of all steps, and about 100 bytes for each person",
        bytes as f64 / 1e6
    ))
}

/// What going on under a changed description costs.
fn print_change(change: &Change) -> Result<()> {
    output::line("the description is not the one that the state was made for:")?;
    for difference in &change.differences {
        output::line(&format!("  {difference}"))?;
    }
    output::line(&format!(
        "with `dp run --accept-change` its releases begin anew after step {}, and whoever is there all the time is promised",
        change.published
    ))?;
    for (when, ledger) in [("so far", &change.before), ("then", &change.after)] {
        let epsilon = match ledger.pure_epsilon() {
            Some(epsilon) => format!("epsilon = {epsilon:.4}"),
            None => format!("epsilon = {:.4} at delta = 1e-6", ledger.epsilon(1e-6)?),
        };
        output::line(&format!("  {when:<7} rho = {:.6}, mu = {:.6}, {epsilon}", ledger.rho(), ledger.mu()))?;
    }
    Ok(())
}
