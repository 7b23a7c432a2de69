//! `dp check`: what a dashboard will publish and how exactly, without data.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use dp_events::Dashboard;
use dp_events::dashboard::Change;
use dp_events::plan::Planned;
use dp_events::spec::Statistic;
use serde::Serialize;

use crate::commands::run::load;
use crate::output::{self, Table};

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

/// The most rows of a kind that are listed.
const MOST_ROWS: usize = 20;

#[derive(Serialize, Clone)]
struct Line {
    release: String,
    statistic: String,
    strategy: &'static str,
    /// At the first, middle and last step; nothing for means and quantiles.
    standard_deviation: [Option<f64>; 3],
    /// Over all steps: the root of the mean square, the least there can be, and what a split budget would cost.
    typical: Option<f64>,
    least: Option<f64>,
    split: Option<f64>,
    /// How far the deviations of the strategy are above what nothing can beat, over all statistics of the release.
    gap: Option<f64>,
    cells: usize,
    bytes: usize,
    rho: f64,
}

impl Check {
    pub(crate) fn run(self) -> Result<()> {
        let dashboard = Dashboard::new(load(&self.file)?)?;
        let steps = dashboard.spec().calendar.steps();
        let lines = output::while_working(&format!("planning the noise of {steps} steps"), || {
            let planned = dashboard.planned()?.iter().map(|planned| lines_of(&dashboard, planned));
            Ok::<_, anyhow::Error>(planned.collect::<Result<Vec<_>>>()?.concat())
        })?;
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
        let found = dashboard.examine(MOST_ROWS)?;
        for finding in &found {
            output::line(&finding.mistake.to_string())?;
        }
        let elsewhere = found.iter().filter(|finding| finding.elsewhere).count();
        let told = |number: usize| match number {
            MOST_ROWS => format!("the first {MOST_ROWS} rows"),
            1 => "1 row".to_owned(),
            number => format!("{number} rows"),
        };
        if elsewhere > 0 {
            output::line(&format!("{} with a key in no list; a run leaves such rows out", told(elsewhere)))?;
        }
        match found.len() - elsewhere {
            0 => output::line("every row can be used"),
            number => bail!("{} that cannot be used; a run leaves such rows out", told(number)),
        }
    }
}

fn lines_of(dashboard: &Dashboard, planned: &Planned) -> Result<Vec<Line>> {
    let steps = dashboard.spec().calendar.steps();
    let places = [0, (steps - 1) / 2, steps - 1];
    let line = |(index, statistic): (usize, &Statistic)| {
        let compared = planned.comparison(index)?;
        Ok(Line {
            release: planned.name.clone(),
            statistic: statistic.to_string(),
            strategy: planned.strategy(),
            standard_deviation: places.map(|step| planned.standard_deviation(index, step)),
            typical: compared.map(|compared| compared.typical),
            least: compared.map(|compared| compared.least),
            split: compared.map(|compared| compared.split),
            gap: planned.gap(),
            cells: planned.dimension(),
            bytes: planned.memory(),
            rho: planned.rho(),
        })
    };
    planned.statistics().iter().enumerate().map(line).collect()
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
    let mut table = Table::new(&[
        "release",
        "statistic",
        "strategy",
        "sd, first",
        "middle",
        "last",
        "typical",
        "least",
        "if split",
        "cells",
        "rho",
    ]);
    for line in lines {
        let numbers = line.standard_deviation.into_iter().chain([line.typical, line.least, line.split]);
        let mut cells = vec![line.release.clone(), line.statistic.clone(), line.strategy.to_owned()];
        cells.extend(numbers.map(|number| number.map_or("by data".to_owned(), short)));
        cells.extend([line.cells.to_string(), format!("{:.6}", line.rho)]);
        table.row(cells);
    }
    table.print()?;
    output::line(
        "typical: the root of the mean square over all steps; least: nothing can be below, for the statistic alone with the \
         budget of its release; if split: with a noise of its own and an equal part of that budget",
    )?;
    for planned in dashboard.planned()?.iter() {
        if let Some(gap) = planned.gap() {
            output::line(&format!(
                "{}: {} is within {:.2} % of the least standard deviation that its statistics can have together",
                planned.name,
                planned.strategy(),
                (1e4 * gap).ceil() / 100.0
            ))?;
        }
    }
    if dashboard.spec().counts_repeatedly() {
        output::line(
            "where a person counts in several steps, most of a margin above a few percent is what the proof gives away: the least \
             lies somewhere between, and less is known of it",
        )?;
    }
    let bytes: usize = dashboard.planned()?.iter().map(Planned::memory).sum();
    output::line(&format!(
        "memory: about {:.1} MB for the keys that are listed, and 250 bytes for each person",
        bytes as f64 / 1e6
    ))
}

/// A deviation with two decimals, or as many as hold two digits of it: an average over many steps has a small one.
fn short(deviation: f64) -> String {
    if deviation > 0.0 && deviation < 1e-5 {
        return format!("{deviation:.1e}");
    }
    let decimals = if deviation > 0.0 { (1.0 - deviation.log10().floor()).max(2.0) } else { 2.0 };
    format!("{deviation:.*}", decimals as usize)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_deviations_keep_two_digits() {
        for (deviation, text) in [
            (27108.276, "27108.28"),
            (1.5, "1.50"),
            (0.123, "0.12"),
            (0.000_418_2, "0.00042"),
            (3.21e-7, "3.2e-7"),
            (0.0, "0.00"),
        ] {
            assert_eq!(short(deviation), text);
        }
    }
}
