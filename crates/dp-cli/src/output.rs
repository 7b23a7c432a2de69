//! What the commands print: aligned tables for people, JSON for programs.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Prints one JSON document.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    line(&serde_json::to_string_pretty(value)?)
}

/// Prints a line, with an error instead of a panic when nobody reads it.
pub(crate) fn line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Says something to whoever watches standard error. Where nobody can, nothing is lost: no release stands there.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A bar over the planned steps, where somebody watches and the input is not a pipe that brings rows at its own pace.
pub(crate) fn progress(input: &Path, steps: usize, done: usize) -> ProgressBar {
    if input == Path::new("-") || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64).with_position(done as u64);
    match ProgressStyle::with_template("{bar:40} {pos}/{len} steps, {per_sec}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A bar over the strategies that are tried, where somebody watches; it shows itself when that takes longer than a moment.
pub(crate) fn planning() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    match ProgressStyle::with_template("{bar:40} {pos}/{len} strategies, {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Does something that may take a while, and says what it is and for how long it has been at it where somebody watches.
pub(crate) fn while_working<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let style = ProgressStyle::with_template("{msg}, {elapsed} so far");
    let (Ok(style), true) = (style, std::io::stderr().is_terminal()) else { return work() };
    let bar = ProgressBar::new_spinner().with_style(style).with_message(what.to_owned());
    // The first tick comes after a second: most of what is done takes less.
    bar.enable_steady_tick(Duration::from_secs(1));
    let done = work();
    bar.finish_and_clear();
    done
}

/// A table with aligned columns: the first to the left, the others to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with the given headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints the table.
    pub(crate) fn print(&self) -> Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                })
                .collect();
            line(cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Whether the failure is only that the reader of our output went away.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == ErrorKind::BrokenPipe)
}
