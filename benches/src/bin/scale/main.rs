//! How time and memory grow with the horizon and with the dimension.
//!
//! Every size is measured in a process of its own, so that its peak memory is its own. Small pieces of work are repeated
//! and the shortest run counts.

mod work;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;
use dp_benches::chart;
use dp_benches::growth::{self, Growth};
use dp_benches::record::{self, Record};
use indicatif::{ProgressBar, ProgressStyle};
use work::Task;

/// Measure how time and memory grow with the horizon n and the dimension d
#[derive(Parser)]
struct Arguments {
    /// Only sizes that take seconds in all
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Keep the result under version control
    #[arg(long)]
    record: bool,
    /// Where charts, JSON and Markdown go
    #[arg(long, value_name = "FOLDER", default_value = "target/scale")]
    output: PathBuf,
    /// Measure one task, given as JSON, and print what it took: how this program calls itself
    #[arg(long, hide = true)]
    task: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scale: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(task) = &arguments.task {
        let task: Task = serde_json::from_str(task).context("the task is not understood")?;
        println!("{}", serde_json::to_string(&work::measure(&task)?)?);
        return Ok(());
    }
    let growths = measure_all(arguments.quick)?;
    let command = if arguments.quick { "cargo xtask scale --quick" } else { "cargo xtask scale" };
    let record = Record::now(command, growths);
    let markdown = growth::markdown(&record.results);
    std::fs::create_dir_all(&arguments.output)?;
    for (name, chart) in growth::charts(&record.results) {
        let path = arguments.output.join(name).with_extension("svg");
        std::fs::write(&path, chart::svg(&chart)?).with_context(|| path.display().to_string())?;
    }
    record.write(&arguments.output, "scale", &markdown)?;
    if arguments.record {
        record.write(&record::folder(), "scale", &markdown)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        println!("{}\n\n{markdown}", record.heading());
        eprintln!("charts, JSON and Markdown are in {}", arguments.output.display());
    }
    Ok(())
}

fn measure_all(quick: bool) -> Result<Vec<Growth>> {
    let plans = work::plans(quick);
    let total: usize = plans.iter().map(|(_, _, sizes)| sizes.len()).sum();
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(total as u64).with_style(
            ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")
                .unwrap_or(ProgressStyle::default_bar()),
        )
    } else {
        ProgressBar::hidden()
    };
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let mut growths = Vec::new();
    for (quantity, strategy, sizes) in plans {
        let mut costs = Vec::new();
        for &size in &sizes {
            bar.set_message(format!("{quantity}, {strategy}, {size}"));
            let task = serde_json::to_string(&Task { quantity, strategy: strategy.to_string(), size })?;
            let output = Command::new(&program).args(["--task", &task]).output()?;
            if !output.status.success() {
                bail!(
                    "{quantity}, {strategy}, size {size}: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
            }
            costs.push(serde_json::from_slice(&output.stdout).context("a measurement is not understood")?);
            bar.inc(1);
        }
        growths.push(Growth::new(quantity, strategy.name(), sizes, costs));
    }
    bar.finish_and_clear();
    Ok(growths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_is_measured_at_a_small_size() {
        for (quantity, strategy, sizes) in work::plans(true) {
            let size = *sizes.first().unwrap();
            let cost = work::measure(&Task { quantity, strategy: strategy.to_string(), size }).unwrap();
            assert!(cost.seconds > 0.0, "{quantity} {strategy}");
        }
    }
}
