//! The command line: plan, calibrate and make private releases of a stream.
//!
//! Exit codes: 0 when everything asked for was done, 1 when something failed on the way (a bad row, a full disk, a
//! damaged state), 2 when the request itself makes no sense.

// These macros panic where a stream cannot be written.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod arguments;
mod commands;
mod consumed;
mod counting;
mod dated;
mod engine;
mod files;
mod guarantee;
mod output;
mod plot;
mod records;
mod rows;
mod sink;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Statistics of a stream, released after every step under one differential privacy guarantee for all of them.
#[derive(Parser)]
#[command(name = "dp", version, propagate_version = true, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Publish a dashboard from files of events: every step that is over
    Run(commands::run::Run),
    /// Plan a dashboard without data, and find every mistake in its description
    Check(commands::check::Check),
    /// Write the description of a dashboard, commented
    New(commands::new::New),
    /// Print what a dashboard has spent
    Ledger(commands::ledger::Ledger),
    /// Compare the strategies for a workload and say which is best
    Plan(commands::plan::Plan),
    /// Say how much noise a privacy budget demands
    Calibrate(commands::calibrate::Calibrate),
    /// Say how private many steps are together, sampled or not
    Account(commands::account::Account),
    /// Release a statistic of a CSV column, one line per row
    Release(commands::release::Release),
    /// Count the items of a CSV column privately
    Histogram(commands::histogram::Histogram),
    /// Count short strings in a CSV column of letters privately
    Substrings(commands::substrings::Substrings),
    /// Count minimal occurrences of episodes in a CSV column of letters privately
    Episodes(commands::episodes::Episodes),
    /// Estimate quantiles in the local model
    Local(commands::local::Local),
    /// Release a year of synthetic case counts, and draw it
    Demo(commands::demo::Demo),
    /// Release cuts, weights or a function of a graph from a CSV of edge updates
    Graph(Box<commands::graph::Graph>),
    /// Train a classifier privately
    Train(Box<commands::train::Train>),
    /// Train with several strategies and budgets, and compare the accuracies
    CompareTraining(Box<commands::train::Compare>),
    /// Print completions for a shell
    Completions(commands::shell::Completions),
    /// Write manual pages
    Manual(commands::shell::Manual),
}

fn main() -> ExitCode {
    let result = match CommandLine::parse().command {
        Command::Run(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::New(command) => command.run(),
        Command::Ledger(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Calibrate(command) => command.run(),
        Command::Account(command) => command.run(),
        Command::Release(command) => command.run(),
        Command::Histogram(command) => command.run(),
        Command::Substrings(command) => command.run(),
        Command::Episodes(command) => command.run(),
        Command::Local(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Graph(command) => command.run(),
        Command::Train(command) => command.run(),
        Command::CompareTraining(command) => command.run(),
        Command::Completions(command) => command.run(CommandLine::command()),
        Command::Manual(command) => command.run(CommandLine::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {error:#}"));
            ExitCode::from(if error.is::<arguments::Usage>() { 2 } else { 1 })
        }
    }
}
