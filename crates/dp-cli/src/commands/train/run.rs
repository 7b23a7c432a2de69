//! `dp train`: one training, with a guarantee.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use dp_ftrl::train::{Aim, Epoch, Privacy, SavedModel, Trainer, Training};
use dp_mechanisms::budget::Kind;
use dp_mechanisms::{Participation, Plan, Relation, StateFile};
use serde::Serialize;

use super::{Learning, percent, progress, spinner};
use crate::arguments::{self, BudgetArguments, Usage};
use crate::output::{self, Table};
use crate::plot::{self, Curve, Panel};

/// Train a classifier privately
///
/// Trains by gradient descent with momentum. Each person's gradient is clipped, and noise is added to the sum over a
/// batch, correlated over the steps so that it cancels in the model. The models after all steps together satisfy the
/// budget for every training example.
///
/// Scores are measured on test examples, which nothing protects. With --state the run can be interrupted at any time,
/// even killed, and continued with the same command.
#[derive(Args)]
pub(crate) struct Train {
    #[command(flatten)]
    learning: Learning,
    /// How noise is correlated: a name that `dp plan` lists, auto for the best, or none for no noise and NO PRIVACY
    #[arg(long, value_name = "NAME|none", default_value = "auto")]
    strategy: String,
    /// What the noise is to cancel in: the model with its momentum, or the plain running sum of gradients
    #[arg(long, value_enum, default_value = "momentum")]
    workload: Correlated,
    /// What is protected: that a person is there at all (zero-out), or what the person's data is (replace)
    #[arg(long, value_name = "zero-out|replace", default_value = "zero-out")]
    relation: Relation,
    /// Keep the state here, sealed, and the model beside it in FILE.model, so that the run can be continued
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// The key of the state [default: the state's name with .key appended; made if there is none]
    #[arg(long, value_name = "FILE", requires = "state")]
    state_key: Option<PathBuf>,
    /// Write the trained parameters here
    #[arg(long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Draw the accuracy after each epoch
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// NOT PRIVATE: noise that everybody can repeat and subtract, for tests and demonstrations
    #[arg(long, value_name = "NUMBER", visible_alias = "seed")]
    reproducible_seed: Option<u64>,
    #[command(flatten)]
    budget: BudgetArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Correlated {
    Momentum,
    Count,
}

impl Correlated {
    pub(super) fn aim(self) -> Aim {
        match self {
            Self::Momentum => Aim::Iterates,
            Self::Count => Aim::Sums,
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    strategy: &'a str,
    guarantee: String,
    private: bool,
    training_examples: usize,
    test_examples: usize,
    parameters: usize,
    steps: usize,
    participation: Participation,
    /// The standard deviation of the noise in each coordinate of the last model; none without privacy, or where the
    /// noise was correlated for something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_noise: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sigma: Option<f64>,
    epochs: &'a [Epoch],
    test_accuracy: f64,
}

/// The trained model, as it is written to a file.
#[derive(Serialize)]
struct Model<'a> {
    /// Inputs, hidden units of each layer, classes.
    layers: &'a [usize],
    activation: String,
    guarantee: &'a str,
    parameters: &'a [f64],
}

impl Train {
    pub(crate) fn run(&self) -> Result<()> {
        if self.reproducible_seed.is_some() {
            eprintln!("warning: --reproducible-seed makes a model that is NOT PRIVATE");
        }
        let (train, test) = self.learning.examples()?;
        let network = self.learning.network(&train)?;
        let trainer = Trainer::new(network, &train, self.learning.settings()).map_err(Usage::error)?;
        let mut training = self.start(&trainer)?;

        let bar = progress(trainer.batches().steps(), "steps");
        bar.set_position(training.step() as u64);
        while training.advance(&test)? {
            if let Some(state) = &self.state {
                save(&model_path(state), &training.save())?;
            }
            bar.inc(1);
            if let Some(epoch) = training.epochs().last() {
                bar.set_message(format!("(epoch {}: {})", epoch.epoch, percent(epoch.accuracy)));
            }
        }
        bar.finish_and_clear();

        let plan = training.plan();
        let guarantee = self.guarantee(plan, trainer.batches().participation());
        if let Some(path) = &self.output {
            let network = trainer.network();
            let model = Model {
                layers: network.widths(),
                activation: self.learning.activation.to_string(),
                guarantee: &guarantee,
                parameters: training.parameters(),
            };
            let text = serde_json::to_string(&model)?;
            fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        if let Some(path) = &self.plot {
            let untrained =
                trainer.network().score(&trainer.network().initial(self.learning.order), &test)?;
            let title = match plan {
                None => "no noise, NOT PRIVATE".to_owned(),
                Some(plan) => format!("noise: {}, {}", plan.strategy().name(), budget(plan)),
            };
            draw(path, title, untrained.accuracy, training.epochs())?;
        }
        let aim = self.workload.aim();
        let report = Report {
            strategy: plan.map_or("none", |plan| plan.strategy().name()),
            guarantee,
            private: plan.is_some() && self.reproducible_seed.is_none(),
            training_examples: train.len(),
            test_examples: test.len(),
            parameters: trainer.network().parameters(),
            steps: trainer.batches().steps(),
            participation: trainer.batches().participation(),
            model_noise: plan
                .filter(|_| aim == Aim::Iterates)
                .and_then(|plan| plan.standard_deviation(plan.steps())),
            sigma: plan.map(Plan::sigma),
            epochs: training.epochs(),
            test_accuracy: training.epochs().last().map_or(0.0, |epoch| epoch.accuracy),
        };
        if self.json { output::json(&report) } else { print(&report) }
    }

    fn start<'a>(&self, trainer: &Trainer<'a>) -> Result<Training<'a>> {
        if self.strategy == "none" {
            if self.state.is_some() || self.budget.optional()?.is_some() {
                return Err(Usage::error(
                    "without noise there is neither a budget nor a state; choose a --strategy, or leave them out",
                ));
            }
            eprintln!("warning: --strategy none trains without noise: the model is NOT PRIVATE");
            return Ok(trainer.start_without_privacy()?);
        }
        let budget = self.budget.required()?;
        let workload = trainer.workload(self.workload.aim())?;
        let batches = trainer.batches();
        let choosing = spinner("choosing and calibrating the noise");
        let strategy =
            arguments::strategy(&self.strategy, &workload, batches.steps(), batches.participation())?;
        choosing.finish_and_clear();
        let privacy = Privacy { strategy, relation: self.relation, budget };
        match (&self.state, self.reproducible_seed) {
            (None, None) => Ok(trainer.start(&privacy)?),
            (None, Some(seed)) => Ok(trainer.start_reproducible(&privacy, seed)?),
            (Some(state), seed) => {
                let file = StateFile::open(state, self.state_key.as_deref())?;
                let saved = load(&model_path(state))?;
                Ok(trainer.resume(&privacy, file, seed, saved)?)
            }
        }
    }

    /// What was guaranteed, in one sentence.
    fn guarantee(&self, plan: Option<&Plan>, participation: Participation) -> String {
        let Some(plan) = plan else {
            return "Nothing is guaranteed: the model was trained without noise.".to_owned();
        };
        let budget = budget(plan);
        let protected = match plan.footprint().relation() {
            Relation::ZeroOut => "whether any one training example was used at all",
            Relation::Replace => "what any one training example was",
        };
        let often = match participation {
            Participation::Single => "once".to_owned(),
            Participation::Repeated(often) => {
                format!("{} times, {} steps apart", often.times(), often.separation())
            }
        };
        let exception = match self.reproducible_seed {
            Some(_) => " This would hold for secret noise; this noise is public, so NOTHING IS PRIVATE.",
            None => "",
        };
        format!(
            "The models after all {} steps together are {budget} about {protected}, which took part {often}.{exception}",
            plan.steps()
        )
    }
}

/// The budget in words.
fn budget(plan: &Plan) -> String {
    match plan.budget().kind() {
        Kind::Approximate { epsilon, delta } => format!("({epsilon}, {delta:e})-differentially private"),
        _ => format!("{}-Gaussian differentially private", plan.budget().mu()),
    }
}

fn print(report: &Report) -> Result<()> {
    output::line(&format!(
        "{} training examples, {} parameters, {} steps, noise: {}\n",
        report.training_examples, report.parameters, report.steps, report.strategy
    ))?;
    let mut table = Table::new(&["epoch", "test accuracy", "test loss", "time"]);
    for epoch in report.epochs {
        table.row(vec![
            epoch.epoch.to_string(),
            percent(epoch.accuracy),
            format!("{:.4}", epoch.loss),
            format!("{:.2} s", epoch.seconds),
        ]);
    }
    table.print()?;
    output::line(&format!(
        "\nfinal accuracy on {} test examples: {}",
        report.test_examples,
        percent(report.test_accuracy)
    ))?;
    if let Some(noise) = report.model_noise {
        output::line(&format!("noise in each parameter of the last model: standard deviation {noise:.4}"))?;
    }
    output::line(&report.guarantee)
}

fn draw(path: &Path, title: String, untrained: f64, epochs: &[Epoch]) -> Result<()> {
    let scores = epochs.iter().map(|epoch| (epoch.steps as f64, 100.0 * epoch.accuracy));
    let curve = Curve {
        label: "accuracy on test examples, after each epoch".to_owned(),
        colour: plot::BLUE,
        points: std::iter::once((0.0, 100.0 * untrained)).chain(scores).collect(),
        band: Vec::new(),
    };
    let panel = Panel {
        title,
        horizontal: "step".to_owned(),
        vertical: "accuracy in %".to_owned(),
        headroom: 0.15,
        curves: vec![curve],
    };
    plot::draw(path, "Private training", &[panel])
}

/// Where the model is kept beside the state of its noise.
fn model_path(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".model");
    name.into()
}

fn load(path: &Path) -> Result<Option<SavedModel>> {
    let name = || format!("`{}`", path.display());
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .with_context(|| format!("{} is not a saved model; restore it, or start a new state", name())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", name())),
    }
}

/// Replaces the saved model at once: a crash leaves the old one or the new one. The state of the noise forgets all but its
/// last step, so the model must be on the disk before the next step is taken.
fn save(path: &Path, model: &SavedModel) -> Result<()> {
    let context = || format!("cannot write `{}`", path.display());
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let mut file = File::create(&temporary).with_context(context)?;
    file.write_all(&serde_json::to_vec(model)?).with_context(context)?;
    file.sync_all().with_context(context)?;
    fs::rename(&temporary, path).with_context(context)
}
