//! `dp train`: one training, with a guarantee.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use dp_ftrl::data::Examples;
use dp_ftrl::train::{
    Aim, CyclicSampling, FinishedEpoch, ModelFile, NoiseFloor, Place, Privacy, Trainer, Training,
};
use dp_mechanisms::accountant::sampling::{CyclicPoisson, SampledPlan};
use dp_mechanisms::budget::Kind;
use dp_mechanisms::{Participation, Plan, Relation, Seed, StateFile};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Learning, percent, progress, spinner};
use crate::arguments::{self, BudgetArguments, Usage};
use crate::commands::plan;
use crate::output::{self, Table};
use crate::plot::{self, Curve, Panel};

/// Train a classifier privately
///
/// Trains by gradient descent with momentum. Each person's gradient is clipped, and noise is added to the sum over a
/// batch, correlated over the steps so that it cancels in the model. The models after all steps together satisfy the
/// budget for every training example.
///
/// Scores are measured on test examples, which nothing protects: name public ones by --test, or leave them out. With --state the run can be interrupted at any time,
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
    /// Who takes part when: everybody once an epoch in a fixed order, or people who are drawn at random in secret, which
    /// needs less noise; --batch is then the expected size of a batch
    #[arg(long, value_enum, default_value = "fixed")]
    sampling: Taking,
    /// With --sampling cyclic-poisson: the number of groups that take turns, and of bands of the noise [default: the best]
    #[arg(long, value_name = "B")]
    bands: Option<usize>,
    /// With --sampling cyclic-poisson: room for at most this many people in a step, paid for out of δ [default: no limit]
    #[arg(long, value_name = "PEOPLE")]
    capacity: Option<usize>,
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
enum Taking {
    /// Everybody once an epoch
    Fixed,
    /// Each person of one group after the other with the same probability
    CyclicPoisson,
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
    /// What the guarantee does not cover.
    not_protected: Vec<String>,
    private: bool,
    training_examples: usize,
    people: usize,
    /// The number of test examples, none where nothing was scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_examples: Option<usize>,
    parameters: usize,
    steps: usize,
    participation: Participation,
    /// How people were drawn; none where everybody took part in a fixed order.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Value>,
    /// The standard deviation of the noise in each coordinate of the last model; none without privacy, or where the
    /// optimizer is not linear.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_noise: Option<f64>,
    /// That of the noise in the average gradient of the last step, where the optimizer is not linear.
    #[serde(skip_serializing_if = "Option::is_none")]
    gradient_noise: Option<f64>,
    /// The same in units of the clipping norm, where that moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    clipped_gradient_noise: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sigma: Option<f64>,
    /// The norm that gradients were clipped to in the end.
    clipping_norm: f64,
    epochs: &'a [FinishedEpoch],
    #[serde(skip_serializing_if = "Option::is_none")]
    test_accuracy: Option<f64>,
}

/// The trained model, as it is written to a file.
#[derive(Serialize)]
struct Model<'a> {
    /// Inputs, hidden units of each layer, classes.
    layers: &'a [usize],
    activation: String,
    guarantee: &'a str,
    not_protected: &'a [String],
    parameters: &'a [f64],
}

impl Train {
    pub(crate) fn run(&self) -> Result<()> {
        if self.reproducible_seed.is_some() {
            output::note("warning: --reproducible-seed makes a model that is NOT PRIVATE");
        }
        self.check_options()?;
        self.check_files()?;
        let (train, test) = self.learning.examples()?;
        let network = self.learning.network(&train)?;
        let trainer = Trainer::new(network, &train, self.learning.settings()).map_err(Usage::error)?;
        let (mut training, compared) = self.start(&trainer)?;

        let bar = progress(trainer.batches().steps(), "steps");
        bar.set_position(training.step() as u64);
        while training.advance(test.as_ref())? {
            bar.inc(1);
            if let Some(epoch) = training.epochs().last() {
                let accuracy = epoch.accuracy.map(|accuracy| format!(": {}", percent(accuracy)));
                bar.set_message(format!("(epoch {}{})", epoch.epoch, accuracy.unwrap_or_default()));
            }
        }
        bar.finish_and_clear();

        let plan = training.plan();
        let sampling = plan.and_then(Plan::sampling);
        let participation = sampling.map_or(trainer.batches().participation(), |one| one.participation());
        let guarantee = self.guarantee(plan, participation);
        let mut not_protected = self.learning.not_protected();
        if sampling.is_some() {
            not_protected.push(
                "anybody, from somebody who sees who was drawn: it must stay as secret as the noise, and with it how many \
                 people a step took and how long"
                    .to_owned(),
            );
        }
        let floor = plan.and_then(|plan| trainer.noise_floor(plan));
        let last_noise = |place: Place| {
            floor
                .as_ref()
                .filter(|floor| floor.place == place)
                .and_then(|floor| floor.deviations.last().copied())
        };
        if let Some(path) = &self.output {
            let network = trainer.network();
            let model = Model {
                layers: network.widths(),
                activation: self.learning.activation.to_string(),
                guarantee: &guarantee,
                not_protected: &not_protected,
                parameters: training.parameters(),
            };
            let text = serde_json::to_string(&model)?;
            fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        if let (Some(path), Some(test)) = (&self.plot, &test) {
            let untrained = trainer.network().score(&trainer.network().initial(self.learning.order), test)?;
            let title = match plan {
                None => "no noise, NOT PRIVATE".to_owned(),
                Some(plan) => format!("noise: {}, {}", plan.strategy().name(), budget(plan)),
            };
            draw(path, title, untrained.accuracy, training.epochs(), floor.as_ref())?;
        }
        let report = Report {
            strategy: plan.map_or("none", |plan| plan.strategy().name()),
            guarantee,
            not_protected,
            private: plan.is_some() && self.reproducible_seed.is_none(),
            training_examples: train.len(),
            people: train.people(),
            test_examples: test.as_ref().map(Examples::len),
            parameters: trainer.network().parameters(),
            steps: trainer.batches().steps(),
            participation,
            sampling: sampling.map(|sampling| {
                json!({
                    "groups": sampling.groups(),
                    "rate": sampling.rate(),
                    "rounds": sampling.rounds(),
                    "expected_batch": self.learning.batch,
                    "capacity": self.capacity,
                    "bands": compared.iter().map(plan::sampling::row).collect::<Vec<_>>(),
                })
            }),
            model_noise: last_noise(Place::Model),
            gradient_noise: last_noise(Place::Gradient),
            clipped_gradient_noise: last_noise(Place::ClippedGradient),
            sigma: plan.map(Plan::sigma),
            clipping_norm: training.clipping_norm(),
            epochs: training.epochs(),
            test_accuracy: training.epochs().last().and_then(|epoch| epoch.accuracy),
        };
        if self.json {
            return output::json(&report);
        }
        if !compared.is_empty() {
            output::line("noise by the number of bands, typical deviation of a parameter:\n")?;
            plan::sampling::table(&compared).print()?;
            output::line("")?;
        }
        print(&report)
    }

    /// Refuses, before any data is read, options that do not go together.
    fn check_options(&self) -> Result<()> {
        if self.sampling == Taking::Fixed {
            if self.bands.is_some() || self.capacity.is_some() {
                return Err(Usage::error("--bands and --capacity belong to --sampling cyclic-poisson"));
            }
            return Ok(());
        }
        if self.relation != Relation::ZeroOut {
            return Err(Usage::error(
                "sampling protects whether a person takes part at all; leave out --relation replace",
            ));
        }
        match (self.strategy.as_str(), self.bands) {
            ("auto" | "banded", _) | ("identity", None | Some(1)) => Ok(()),
            _ => Err(Usage::error(
                "people who are drawn need a strategy with few bands: --strategy auto, or identity for one band",
            )),
        }
    }

    /// Training with people who are drawn, and the plans among which its own was chosen.
    fn start_sampled<'a>(&self, trainer: &Trainer<'a>) -> Result<(Training<'a>, Vec<SampledPlan>)> {
        let sampling = CyclicSampling {
            aim: self.workload.aim(),
            bands: if self.strategy == "identity" { Some(1) } else { self.bands },
            capacity: self.capacity,
            budget: self.budget.required()?,
        };
        let choosing = spinner("choosing bands, strategy and noise");
        let plans = trainer.sampled_plans(&sampling).map_err(Usage::error)?;
        let plan = trainer.best_of(plans.clone()).map_err(Usage::error)?;
        choosing.finish_and_clear();
        let seed =
            self.reproducible_seed.map_or_else(Seed::from_system, |seed| Ok(Seed::reproducible(seed)))?;
        let training = match &self.state {
            None => trainer.start_with(plan, seed)?,
            Some(state) => {
                let file = StateFile::open(state, self.state_key.as_deref())?;
                trainer.resume_with(plan, file, seed, ModelFile::beside(state))?
            }
        };
        Ok((training, plans))
    }

    fn start<'a>(&self, trainer: &Trainer<'a>) -> Result<(Training<'a>, Vec<SampledPlan>)> {
        if self.sampling == Taking::CyclicPoisson {
            return self.start_sampled(trainer);
        }
        Ok((self.start_fixed(trainer)?, Vec::new()))
    }

    fn start_fixed<'a>(&self, trainer: &Trainer<'a>) -> Result<Training<'a>> {
        if self.strategy == "none" {
            if self.state.is_some() || self.budget.optional()?.is_some() {
                return Err(Usage::error(
                    "without noise there is neither a budget nor a state; choose a --strategy, or leave them out",
                ));
            }
            output::note("warning: --strategy none trains without noise: the model is NOT PRIVATE");
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
                Ok(trainer.resume(&privacy, file, seed, ModelFile::beside(state))?)
            }
        }
    }

    /// Refuses, before anything is opened, to write over what is read and to draw what nobody scores.
    fn check_files(&self) -> Result<()> {
        let written = [&self.output, &self.plot, &self.state].into_iter().flatten();
        for path in written {
            if self.learning.inputs().any(|input| same_file(input, path)) {
                return Err(Usage::error(format!("`{}` would be read and written over", path.display())));
            }
        }
        if self.plot.is_some() && !self.learning.scores() {
            return Err(Usage::error("--plot draws scores; name public examples for them by --test"));
        }
        Ok(())
    }

    /// What was guaranteed, in one sentence.
    fn guarantee(&self, plan: Option<&Plan>, participation: Participation) -> String {
        let Some(plan) = plan else {
            return "Nothing is guaranteed: the model was trained without noise.".to_owned();
        };
        let budget = budget(plan);
        let unit = if self.learning.person.is_some() { "person's data" } else { "training example" };
        let protected = match plan.footprint().relation() {
            Relation::ZeroOut => format!("whether any one {unit} was used at all"),
            Relation::Replace => format!("what any one {unit} was"),
        };
        let often = match (plan.sampling(), participation) {
            (Some(sampling), _) => self.draws_in_words(plan, sampling),
            (None, Participation::Single) => "which took part once".to_owned(),
            (None, Participation::Repeated(often)) => {
                format!("which took part {} times, {} steps apart", often.times(), often.separation())
            }
        };
        let exception = match self.reproducible_seed {
            Some(_) => " This would hold for secret noise; this noise is public, so NOTHING IS PRIVATE.",
            None => "",
        };
        format!(
            "The models after all {} steps together are {budget} about {protected}, {often}.{exception}",
            plan.steps()
        )
    }

    /// How people were drawn, and all that the guarantee rests on.
    fn draws_in_words(&self, plan: &Plan, sampling: CyclicPoisson) -> String {
        let room = self.capacity.map_or_else(String::new, |capacity| {
            format!(", with room for {capacity} people in a step, whose overflow δ includes")
        });
        format!(
            "added or removed: everybody is in one of {} groups by a keyed hash, the groups take turns, and a step draws each \
             person of its group with probability {} in secret, in at most {} steps{room}; sums are divided by the public \
             expected size of a batch, {}; noise of {} bands, σ = {}, for contributions clipped as said",
            sampling.groups(),
            sampling.rate(),
            sampling.rounds(),
            self.learning.batch,
            sampling.groups(),
            plan.sigma()
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
            epoch.accuracy.map_or_else(|| "not measured".to_owned(), percent),
            epoch.loss.map_or_else(|| "not measured".to_owned(), |loss| format!("{loss:.4}")),
            format!("{:.2} s", epoch.seconds),
        ]);
    }
    table.print()?;
    if let (Some(examples), Some(accuracy)) = (report.test_examples, report.test_accuracy) {
        output::line(&format!("\nfinal accuracy on {examples} test examples: {}", percent(accuracy)))?;
    }
    let noises = [
        ("each parameter of the last model", report.model_noise, ""),
        ("each coordinate of the last step's average gradient", report.gradient_noise, ""),
        (
            "each coordinate of the last step's average gradient",
            report.clipped_gradient_noise,
            " times the clipping norm",
        ),
    ];
    for (place, noise, unit) in noises {
        if let Some(noise) = noise {
            output::line(&format!("noise in {place}: standard deviation {noise:.4}{unit}"))?;
        }
    }
    output::line(&report.guarantee)?;
    output::line(&format!("Not protected: {}.", report.not_protected.join("; ")))
}

/// Whether two names lead to one file, by whichever way.
fn same_file(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The accuracy after each epoch, and below it the noise that the training had to live with at each step.
fn draw(
    path: &Path,
    title: String,
    untrained: f64,
    epochs: &[FinishedEpoch],
    floor: Option<&NoiseFloor>,
) -> Result<()> {
    let scores = epochs.iter().filter_map(|epoch| Some((epoch.steps as f64, 100.0 * epoch.accuracy?)));
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
    let floor = floor.map(|NoiseFloor { place, deviations }| {
        let (vertical, label) = match place {
            Place::Model => ("noise in a parameter", "standard deviation of the noise in each parameter"),
            Place::Gradient => (
                "noise in a gradient",
                "standard deviation of the noise in each coordinate of the average gradient that reaches the optimizer",
            ),
            Place::ClippedGradient => (
                "noise / clipping norm",
                "standard deviation of the noise in the average gradient that reaches the optimizer, in clipping norms",
            ),
        };
        let thinned = deviations.iter().enumerate().step_by(deviations.len().div_ceil(1000));
        Panel {
            title: "the noise floor".to_owned(),
            horizontal: "step".to_owned(),
            vertical: vertical.to_owned(),
            headroom: 0.15,
            curves: vec![Curve {
                label: label.to_owned(),
                colour: plot::ORANGE,
                points: thinned.map(|(index, deviation)| ((index + 1) as f64, *deviation)).collect(),
                band: Vec::new(),
            }],
        }
    });
    let panels: Vec<Panel> = std::iter::once(panel).chain(floor).collect();
    plot::draw(path, "Private training", &panels)
}
