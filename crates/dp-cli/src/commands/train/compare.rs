//! `dp compare-training`: accuracy against ε, for several strategies.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use dp_ftrl::data::Examples;
use dp_ftrl::train::{Accuracy, Aim, Comparison, Contestant, Noise, Trainer};
use dp_mechanisms::{Budget, Relation};
use serde::Serialize;

use super::{Learning, hold_back, progress, spinner};
use crate::arguments::{self, Usage};
use crate::output::{self, Table};
use crate::plot::{self, Dots, Measured};

/// Train with several strategies and budgets, and compare the accuracies
///
/// Everything but the noise is the same for all. Each training is repeated with other orders of the examples and other
/// noise; a mean is printed with its standard error. The noise is public: use it with data that everybody may see.
#[derive(Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    learning: Learning,
    /// The strategies: none, or a name that `dp plan` lists, with :momentum to correlate for the model instead of the
    /// plain running sum of gradients. With people who are drawn at random: dp-sgd for independent noise, cyclic-poisson for
    /// the best number of bands at each ε
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "none,identity,binary-tree,honaker-online,sqrt,optimal:momentum"
    )]
    strategies: Vec<String>,
    /// The values of ε
    #[arg(long, value_name = "E,…", value_delimiter = ',', default_value = "0.5,1,2,4,8,16")]
    epsilons: Vec<f64>,
    /// δ
    #[arg(long, default_value = "1e-5")]
    delta: f64,
    /// What is protected: that a person is there at all (zero-out), or what the person's data is (replace)
    #[arg(long, value_name = "zero-out|replace", default_value = "zero-out")]
    relation: Relation,
    /// How often every training is repeated
    #[arg(long, default_value = "20")]
    runs: usize,
    /// Draw accuracy against ε
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Choose settings with this: the last ROWS training examples take the place of the test examples
    #[arg(long, value_name = "ROWS")]
    validation_rows: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    training_examples: usize,
    steps: usize,
    runs: usize,
    delta: f64,
    relation: Relation,
    strategies: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    /// One for each ε; one alone without privacy.
    accuracies: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    accuracy: f64,
    standard_error: f64,
    /// The lead over the strategy in front of it in the list, run by run.
    #[serde(skip_serializing_if = "Option::is_none")]
    lead: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lead_standard_error: Option<f64>,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<()> {
        let (train, test) = self.examples()?;
        let network = self.learning.network(&train)?;
        let trainer =
            Trainer::new(network.clone(), &train, self.learning.settings()).map_err(Usage::error)?;
        let budgets: Vec<Budget> = self
            .epsilons
            .iter()
            .map(|epsilon| Budget::approximate(*epsilon, self.delta).map_err(Usage::error))
            .collect::<Result<_>>()?;
        let choosing = spinner("building the strategies");
        let contestants: Vec<Contestant> = self
            .strategies
            .iter()
            .map(|name| Ok(Contestant { name: name.clone(), noise: noise(&trainer, name)? }))
            .collect::<Result<_>>()?;
        choosing.finish_and_clear();
        let comparison = Comparison {
            network,
            train: &train,
            test: &test,
            settings: self.learning.settings(),
            relation: self.relation,
            runs: self.runs,
        };
        let bar = progress(comparison.trainings(&contestants, &budgets), "trainings");
        let accuracies = comparison.run(&contestants, &budgets, || bar.inc(1)).map_err(Usage::error)?;
        bar.finish_and_clear();
        let report = Report {
            training_examples: train.len(),
            steps: trainer.batches().steps(),
            runs: self.runs,
            delta: self.delta,
            relation: self.relation,
            strategies: self.rows(&accuracies),
        };
        if let Some(path) = &self.plot {
            self.draw(path, &report)?;
        }
        if self.json { output::json(&report) } else { self.print(&report) }
    }

    /// The examples to train with, and those to score with.
    fn examples(&self) -> Result<(Examples, Examples)> {
        let (train, test) = self.learning.examples()?;
        match (self.validation_rows, test) {
            (Some(rows), _) => hold_back(train, rows),
            (None, Some(test)) => Ok((train, test)),
            (None, None) => Err(Usage::error(
                "a comparison scores its models; name examples for it by --test or --test-rows",
            )),
        }
    }

    fn rows(&self, accuracies: &[Vec<Accuracy>]) -> Vec<Row> {
        let row = |(index, name): (usize, &String)| {
            let own = &accuracies[index];
            let before = index.checked_sub(1).map(|index| (&self.strategies[index], &accuracies[index]));
            let cell = |(column, accuracy): (usize, &Accuracy)| {
                let estimate = accuracy.estimate();
                let rival = before.filter(|(rival, _)| name != "none" && *rival != "none");
                let lead = rival.map(|(_, rival)| accuracy.lead_over(&rival[column]));
                Cell {
                    epsilon: (name != "none").then(|| self.epsilons[column]),
                    accuracy: estimate.mean,
                    standard_error: estimate.standard_error,
                    lead: lead.map(|lead| lead.mean),
                    lead_standard_error: lead.map(|lead| lead.standard_error),
                }
            };
            Row { name: name.clone(), accuracies: own.iter().enumerate().map(cell).collect() }
        };
        self.strategies.iter().enumerate().map(row).collect()
    }

    fn print(&self, report: &Report) -> Result<()> {
        output::line(&format!(
            "test accuracy in % after {} steps, mean over {} runs ± standard error; δ = {:e}, {}\n",
            report.steps, report.runs, report.delta, report.relation
        ))?;
        let heading: Vec<String> = self.epsilons.iter().map(|epsilon| format!("ε = {epsilon}")).collect();
        let headings: Vec<&str> =
            std::iter::once("strategy").chain(heading.iter().map(String::as_str)).collect();
        let mut table = Table::new(&headings);
        let mut leads = Table::new(&headings);
        for (row, before) in
            report.strategies.iter().zip(std::iter::once(None).chain(report.strategies.iter().map(Some)))
        {
            let cells = row.accuracies.iter().cycle().take(self.epsilons.len());
            let values = cells
                .map(|cell| format!("{:.2} ± {:.2}", 100.0 * cell.accuracy, 100.0 * cell.standard_error));
            table.row(std::iter::once(row.name.clone()).chain(values).collect());
            let differences: Vec<String> = row
                .accuracies
                .iter()
                .filter_map(|cell| Some((cell.lead?, cell.lead_standard_error?)))
                .map(|(lead, error)| format!("{:+.2} ± {:.2}", 100.0 * lead, 100.0 * error))
                .collect();
            if let (Some(before), false) = (before, differences.is_empty()) {
                let name = format!("{} over {}", row.name, before.name);
                leads.row(std::iter::once(name).chain(differences).collect());
            }
        }
        table.print()?;
        output::line("\nlead, run by run with the same order of examples and the same unit noise:\n")?;
        leads.print()
    }

    fn draw(&self, path: &std::path::Path, report: &Report) -> Result<()> {
        let dots = |cells: &[Cell]| -> Vec<Measured> {
            let along = cells.iter().cycle().zip(&self.epsilons);
            along
                .map(|(cell, epsilon)| Measured {
                    at: *epsilon,
                    value: 100.0 * cell.accuracy,
                    error: 100.0 * cell.standard_error,
                })
                .collect()
        };
        let series: Vec<Dots> = report
            .strategies
            .iter()
            .map(|row| Dots {
                label: label(&row.name),
                dashed: row.name == "none",
                points: dots(&row.accuracies),
            })
            .collect();
        let sampled = |name: &String| name.starts_with("dp-sgd") || name.starts_with("cyclic-poisson");
        let often = if self.strategies.iter().any(sampled) { " on average" } else { "" };
        let title = format!(
            "{}, {} training examples: accuracy after {} steps, each person in {} of them{often}",
            self.learning.data, report.training_examples, report.steps, self.learning.epochs
        );
        plot::draw_against_budget(path, &title, "test accuracy in %", &series)
    }
}

/// The noise of a name in the list.
fn noise(trainer: &Trainer<'_>, text: &str) -> Result<Noise> {
    let (name, aim) = match text.split_once(':') {
        None | Some((_, "count")) => (text.split(':').next().unwrap_or(text), Aim::Sums),
        Some((name, "momentum")) => (name, Aim::Iterates),
        Some((_, other)) => {
            return Err(Usage::error(anyhow!("`{other}` is neither momentum nor count, in `{text}`")));
        }
    };
    match name {
        "none" => Ok(Noise::None),
        "dp-sgd" => Ok(Noise::Sampled { aim, bands: Some(1) }),
        "cyclic-poisson" => Ok(Noise::Sampled { aim, bands: None }),
        name => {
            let strategy = trainer.strategy(arguments::method(name)?, aim);
            strategy.map(Noise::Strategy).map_err(Usage::error)
        }
    }
}

fn label(name: &str) -> String {
    match name {
        "none" => "no privacy".to_owned(),
        "identity" => "independent noise (identity)".to_owned(),
        "optimal:momentum" => "optimal for momentum".to_owned(),
        "scaled-sqrt:momentum" => "scaled-sqrt for momentum".to_owned(),
        "dp-sgd" => "DP-SGD: independent noise, sampled".to_owned(),
        "cyclic-poisson:momentum" => "banded for momentum, sampled".to_owned(),
        other => other.to_owned(),
    }
}
