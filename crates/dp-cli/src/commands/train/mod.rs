//! `dp train` and `dp compare-training`: private learning on digits or on a table of one's own.

mod compare;
mod run;

use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use dp_ftrl::data::{Examples, Table, digits, made};
use dp_ftrl::model::{Activation, Network};
use dp_ftrl::train::{Optimizer, Schedule, Settings};
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use self::compare::Compare;
pub(crate) use self::run::Train;
use crate::arguments::{self, Usage};

/// What is learned, from what, and how: the same for one training and for a comparison of many.
#[derive(Args)]
struct Learning {
    /// `digits` (1797 handwritten digits that come with the program), `made` (60,000 examples from a recipe in the program),
    /// or a CSV or Parquet file with named columns and a row per person
    #[arg(long, value_name = "digits|made|FILE", default_value = "digits")]
    data: String,
    /// The column of a file that holds the label; all others are features
    #[arg(long, value_name = "COLUMN", default_value = "label")]
    label: String,
    /// The column of a file that says whose row it is: all rows of a person are one contribution, and the guarantee is
    /// for the person [default: every row is another person]
    #[arg(long, value_name = "COLUMN")]
    person: Option<String>,
    /// The labels that a file may hold: public, named without looking
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    classes: Vec<String>,
    /// What the features of a file may be, one for all or one for each: public, chosen without looking. Values
    /// outside are moved to the nearest bound
    #[arg(long, value_name = "LO:HI,…", value_delimiter = ',', value_parser = arguments::bounds, allow_hyphen_values = true)]
    bounds: Vec<(f64, f64)>,
    /// Public examples to test with, in the columns of the file that is learned from: they are scored without noise, and NOT
    /// protected
    #[arg(long, value_name = "FILE", conflicts_with = "test_rows")]
    test: Option<PathBuf>,
    /// Take the last ROWS of the file away from training and test with them: they are scored without noise, and NOT
    /// protected; not with --person, whose rows may stand anywhere
    #[arg(long, value_name = "ROWS")]
    test_rows: Option<usize>,
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
    /// How the learning rate changes from step to step; noise can be correlated for it
    #[arg(long, value_enum, default_value = "constant")]
    schedule: Along,
    /// The learning rate of the last step of a schedule [default: a tenth of --rate]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    last_rate: Option<f64>,
    /// What is made of noisy sums
    #[arg(long, value_enum, default_value = "sgd")]
    optimizer: Makes,
    /// The momentum, from 0 to below 1; for adam the decay of its first moment
    #[arg(long, default_value = "0.9", allow_negative_numbers = true)]
    momentum: f64,
    /// The norm that one person's gradient is clipped to; where it starts with --clip-quantile
    #[arg(long, default_value = "1", allow_negative_numbers = true)]
    clip: f64,
    /// Let the clipping norm follow this quantile of the gradients' norms, from 0 to 1; the budget pays for it
    #[arg(long, value_name = "QUANTILE", allow_negative_numbers = true)]
    clip_quantile: Option<f64>,
    /// Clip each layer of a network by itself, to --clip divided by the root of their number, so that no layer with large
    /// gradients shortens the others; the noise is the same
    #[arg(long, conflicts_with = "clip_quantile")]
    clip_layers: bool,
    /// The order of the examples and the first weights of a network; public, no part of the noise
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    order: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Along {
    /// The same rate at every step
    Constant,
    /// A straight line to the last rate
    Linear,
    /// Half a period of the cosine to the last rate
    Cosine,
}

#[derive(Clone, Copy, ValueEnum)]
enum Makes {
    /// Gradient descent with momentum
    Sgd,
    /// Steps that adapt to the size of each coordinate's gradients
    Adam,
}

#[derive(Clone, Copy, ValueEnum)]
enum Model {
    /// Multinomial logistic regression
    Logistic,
    /// A neural network with dense layers
    Network,
}

impl Learning {
    /// The examples to train with, and those to test with, if there are any.
    fn examples(&self) -> Result<(Examples, Option<Examples>)> {
        if self.last_rate.is_some() && self.schedule == Along::Constant {
            return Err(Usage::error("a constant rate has no last one; choose --schedule linear or cosine"));
        }
        if self.is_built_in() {
            if self.person.is_some() {
                return Err(Usage::error(format!("each of the {} belongs to another person", self.data)));
            }
            if self.test.is_some() || self.test_rows.is_some() {
                return Err(Usage::error(format!("the {} come with test examples of their own", self.data)));
            }
            let (train, test) = if self.data == "made" { made()? } else { digits()? };
            return Ok((train, Some(test)));
        }
        if self.classes.is_empty() || self.bounds.is_empty() {
            return Err(Usage::error(
                "a file needs --classes and --bounds, chosen without looking at it: what is computed from the \
                 data would be released without noise",
            ));
        }
        if self.person.is_some() && self.test_rows.is_some() {
            return Err(Usage::error(
                "the last rows may belong to people who are learned from; with --person, test with a file of others: --test",
            ));
        }
        let examples = self.read(Path::new(&self.data))?;
        match (&self.test, self.test_rows) {
            (None, None) => Ok((examples, None)),
            (Some(file), _) => {
                let test = self.read(file)?;
                if test.width() != examples.width() {
                    return Err(Usage::error(format!(
                        "`{}` has {} features and `{}` has {}; test with the columns that are learned from",
                        file.display(),
                        test.width(),
                        self.data,
                        examples.width()
                    )));
                }
                Ok((examples, Some(test)))
            }
            (None, Some(rows)) => {
                let (train, test) = hold_back(examples, rows)?;
                Ok((train, Some(test)))
            }
        }
    }

    fn read(&self, path: &Path) -> Result<Examples> {
        let name = format!("`{}`", path.display());
        let table = Table {
            label: self.label.clone(),
            person: self.person.clone(),
            classes: self.classes.clone(),
            bounds: self.bounds.clone(),
        };
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
            let columns = dp_events::parquet_columns(path)?;
            let mut rows = table.rows(columns.iter().map(String::as_str)).with_context(|| name.clone())?;
            dp_events::read_parquet(path, &columns, |fields| -> Result<()> {
                rows.push(fields.iter().copied()).with_context(|| name.clone())
            })?;
            return rows.finish().with_context(|| name);
        }
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        table.read(file).with_context(|| name)
    }

    /// What the guarantee of a training does not cover.
    fn not_protected(&self) -> Vec<String> {
        let mut list = vec!["how many take part, the columns, and every setting of this command".to_owned()];
        if self.person.is_none() {
            list.push("a person with several rows: each row is protected by itself".to_owned());
        }
        if let Some(file) = &self.test {
            list.push(format!("the test examples in `{}`, scored without noise", file.display()));
        }
        if let Some(rows) = self.test_rows {
            list.push(format!("the last {rows} rows of `{}`, scored without noise", self.data));
        }
        list
    }

    /// Whether there are test examples to score with.
    fn scores(&self) -> bool {
        self.is_built_in() || self.test.is_some() || self.test_rows.is_some()
    }

    /// Whether the data come with the program.
    fn is_built_in(&self) -> bool {
        ["digits", "made"].contains(&self.data.as_str())
    }

    /// The files that are read.
    fn inputs(&self) -> impl Iterator<Item = &Path> {
        let data = (!self.is_built_in()).then(|| Path::new(&self.data));
        data.into_iter().chain(self.test.as_deref())
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
            schedule: match (self.schedule, self.last_rate.unwrap_or(0.1 * self.rate)) {
                (Along::Constant, _) => Schedule::Constant,
                (Along::Linear, last) => Schedule::Linear { last },
                (Along::Cosine, last) => Schedule::Cosine { last },
            },
            optimizer: match self.optimizer {
                Makes::Sgd => Optimizer::Sgd,
                Makes::Adam => Optimizer::Adam,
            },
            momentum: self.momentum,
            clip: self.clip,
            quantile: self.clip_quantile,
            per_layer: self.clip_layers,
            order: self.order,
        }
    }
}

/// The first examples, and the last `rows` of them.
fn hold_back(examples: Examples, rows: usize) -> Result<(Examples, Examples)> {
    match examples.len().checked_sub(rows) {
        Some(rest) if rest > 0 && rows > 0 => Ok(examples.split_at(rest)?),
        _ => Err(Usage::error(format!(
            "{rows} of {} rows cannot be held back; leave at least one for each purpose",
            examples.len()
        ))),
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
