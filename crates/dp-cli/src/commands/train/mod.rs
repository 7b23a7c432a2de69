//! `dp train` and `dp compare-training`: private learning on digits or on a table of one's own.

mod compare;
mod run;

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use dp_ftrl::data::{Examples, Table, digits};
use dp_ftrl::model::{Activation, Network};
use dp_ftrl::train::Settings;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use self::compare::Compare;
pub(crate) use self::run::Train;
use crate::arguments::{self, Usage};

/// What is learned, from what, and how: the same for one training and for a comparison of many.
#[derive(Args)]
struct Learning {
    /// `digits` (1797 handwritten digits that come with the program), or a CSV file with a header and a row per person
    #[arg(long, value_name = "digits|FILE.csv", default_value = "digits")]
    data: String,
    /// The column of a CSV file that holds the label; all others are features
    #[arg(long, value_name = "COLUMN", default_value = "label")]
    label: String,
    /// The labels that a CSV file may hold: public, named without looking
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    classes: Vec<String>,
    /// What the features of a CSV file may be, one for all or one for each: public, chosen without looking. Values
    /// outside are moved to the nearest bound
    #[arg(long, value_name = "LO:HI,…", value_delimiter = ',', value_parser = arguments::bounds, allow_hyphen_values = true)]
    bounds: Vec<(f64, f64)>,
    /// The last rows of a CSV file are for testing and NOT protected [default: a fifth of the rows]
    #[arg(long, value_name = "ROWS")]
    test_rows: Option<usize>,
    /// Choose settings with this: the last ROWS training examples take the place of the test examples
    #[arg(long, value_name = "ROWS")]
    validation_rows: Option<usize>,
    /// The model
    #[arg(long, value_enum, default_value = "logistic")]
    model: Model,
    /// The hidden units of a network, one number per layer
    #[arg(long, value_name = "UNITS,…", value_delimiter = ',', default_value = "32")]
    hidden: Vec<usize>,
    /// What the hidden units of a network compute
    #[arg(long, value_name = "tanh|relu", default_value = "tanh")]
    activation: Activation,
    /// Passes over the training examples: one person takes part that many times
    #[arg(long, value_name = "K", default_value = "1")]
    epochs: usize,
    /// Examples in a step
    #[arg(long, value_name = "B", default_value = "4")]
    batch: usize,
    /// The learning rate
    #[arg(long, default_value = "0.05", allow_negative_numbers = true)]
    rate: f64,
    /// The momentum, from 0 to below 1
    #[arg(long, default_value = "0.9", allow_negative_numbers = true)]
    momentum: f64,
    /// The norm that one person's gradient is clipped to
    #[arg(long, default_value = "1", allow_negative_numbers = true)]
    clip: f64,
    /// The order of the examples and the first weights of a network; public, no part of the noise
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    order: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Model {
    /// Multinomial logistic regression
    Logistic,
    /// A neural network with dense layers
    Network,
}

impl Learning {
    /// The examples to train with, and those to test with.
    fn examples(&self) -> Result<(Examples, Examples)> {
        let (train, test) = self.all_examples()?;
        let Some(rows) = self.validation_rows else { return Ok((train, test)) };
        match train.len().checked_sub(rows) {
            Some(rest) if rest > 0 && rows > 0 => Ok(train.split_at(rest)?),
            _ => Err(Usage::error(format!(
                "{rows} of {} training examples cannot be held back; leave at least one for each purpose",
                train.len()
            ))),
        }
    }

    fn all_examples(&self) -> Result<(Examples, Examples)> {
        if self.data == "digits" {
            return Ok(digits()?);
        }
        if self.classes.is_empty() || self.bounds.is_empty() {
            return Err(Usage::error(
                "a CSV file needs --classes and --bounds, chosen without looking at it: what is computed from the \
                 data would be released without noise",
            ));
        }
        let name = format!("`{}`", self.data);
        let file = File::open(Path::new(&self.data)).with_context(|| format!("cannot read {name}"))?;
        let table =
            Table { label: self.label.clone(), classes: self.classes.clone(), bounds: self.bounds.clone() };
        let examples = table.read(file).with_context(|| name.clone())?;
        let test = self.test_rows.unwrap_or(examples.len().div_ceil(5));
        match examples.len().checked_sub(test) {
            Some(train) if train > 0 && test > 0 => Ok(examples.split_at(train)?),
            _ => Err(Usage::error(format!(
                "{name} has {} rows, of which {test} cannot be for testing; leave at least one for each purpose",
                examples.len()
            ))),
        }
    }

    /// The model for the examples.
    fn network(&self, examples: &Examples) -> Result<Network> {
        let hidden: &[usize] = match self.model {
            Model::Logistic => &[],
            Model::Network => &self.hidden,
        };
        Network::new(examples.width(), hidden, examples.classes(), self.activation).map_err(Usage::error)
    }

    fn settings(&self) -> Settings {
        Settings {
            epochs: self.epochs,
            batch: self.batch,
            rate: self.rate,
            momentum: self.momentum,
            clip: self.clip,
            order: self.order,
        }
    }
}

/// A bar on standard error where a person looks.
fn progress(length: usize, unit: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length as u64);
    match ProgressStyle::with_template(&format!("{{bar:40}} {{pos}}/{{len}} {unit}, {{eta}} left {{msg}}")) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A sign of life on standard error where a person looks.
fn spinner(message: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner().with_message(message);
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
