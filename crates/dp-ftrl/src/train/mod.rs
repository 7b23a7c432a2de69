//! Training: the loop that ties examples, model, private gradients and optimizer together.
//!
//! # What is guaranteed
//! The model after every step, all of them together, satisfies the budget for every *training* example; see
//! [`Training`]. Accuracy and loss are measured on *test* examples, if there are any: a score on training data would be a
//! statistic of it that no noise covers. Test examples are not protected by anything, so they must not be private.
//!
//! Settings are public. Choosing them by trying several on private data and keeping the best would release the choice;
//! choose them on public data of the same kind.
//!
//! # What it reaches
//! Handwritten digits, logistic regression, one pass in 360 steps of 4 examples, δ = 1e-5, zero-out: test accuracy in %,
//! mean of 100 runs ± standard error, from `cargo xtask compare-training --runs 100 --plot docs/learning.svg` (the picture
//! in `docs/learning.svg`):
//!
//! | noise | ε = 0.5 | 1 | 2 | 4 | 8 | 16 |
//! |---|---|---|---|---|---|---|
//! | none, no privacy | 85.5 ± 0.1 | 85.5 ± 0.1 | 85.5 ± 0.1 | 85.5 ± 0.1 | 85.5 ± 0.1 | 85.5 ± 0.1 |
//! | `optimal` for the momentum workload | 42.8 ± 0.8 | 65.7 ± 0.6 | 79.3 ± 0.3 | 83.5 ± 0.2 | 84.9 ± 0.1 | 85.2 ± 0.1 |
//! | `sqrt` | 34.9 ± 0.8 | 56.7 ± 0.8 | 74.9 ± 0.4 | 82.1 ± 0.2 | 84.5 ± 0.1 | 85.1 ± 0.1 |
//! | `honaker-online` | 22.6 ± 0.7 | 38.0 ± 0.7 | 60.8 ± 0.6 | 76.9 ± 0.4 | 83.0 ± 0.2 | 84.6 ± 0.1 |
//! | `binary-tree` | 19.2 ± 0.6 | 30.1 ± 0.7 | 50.1 ± 0.7 | 70.4 ± 0.4 | 80.6 ± 0.3 | 83.9 ± 0.2 |
//! | `identity`: independent noise, no amplification | 13.0 ± 0.5 | 16.0 ± 0.5 | 23.5 ± 0.6 | 40.6 ± 0.7 | 63.5 ± 0.5 | 77.3 ± 0.3 |
//!
//! Each row leads the one below it at every ε by more than three standard errors of the paired difference, which the
//! command prints as well: at ε = 4 by 1.4 ± 0.1 (optimal over square root), 5.3 ± 0.4, 6.5 ± 0.5 and 29.8 ± 0.8.
//! `scaled-blt` for the momentum workload does as well as `optimal` (65.7 and 65.9 at ε = 1 in the same 40 runs).
//!
//! Momentum 0.9 was not tuned. Rate and clip were chosen among rates 0.0125 to 0.1 and clips 0.25 to 2 on the last 360
//! training digits at ε = 4 (`--validation-rows 360 --epsilons 4 --runs 20`): 0.05 and 1 are as good as any for `sqrt`. They
//! are the same for everyone. With the pair that is best for `binary-tree` instead (0.0125 and 0.25), ε = 4, 100 runs, the
//! order is the same: optimal 76.6 ± 0.3, square root 76.1 ± 0.3, Honaker 72.6 ± 0.5, binary tree 70.1 ± 0.5; the leads are
//! 0.5 ± 0.1, 3.5 ± 0.5 and 2.5 ± 0.6. With a power of two as the number of steps, the last model of a tree would be one
//! node, and luckier than its other models; 360 has four ones in binary, as many as a number of its size has on average.
//!
//! Five passes in as many steps, of 20 examples each, with each person in five of them, 72 steps apart, and the same
//! settings otherwise: `cargo xtask compare-training --runs 100 --epochs 5 --batch 20 --epsilons 0.5,1,2,4 --strategies
//! none,identity,binary-tree,honaker-online,sqrt,blt:momentum,optimal-toeplitz:momentum`:
//!
//! | noise | ε = 0.5 | 1 | 2 | 4 |
//! |---|---|---|---|---|
//! | none, no privacy | 86.3 ± 0.0 | 86.3 ± 0.0 | 86.3 ± 0.0 | 86.3 ± 0.0 |
//! | `optimal-toeplitz` for the momentum workload and the participation | 62.9 ± 0.6 | 78.3 ± 0.3 | 84.0 ± 0.1 | 85.8 ± 0.1 |
//! | `blt` for both, in a few buffers | 62.5 ± 0.6 | 78.2 ± 0.3 | 84.0 ± 0.1 | 85.7 ± 0.1 |
//! | `sqrt` | 53.6 ± 0.8 | 73.8 ± 0.4 | 82.7 ± 0.2 | 85.4 ± 0.1 |
//! | `honaker-online` | 39.4 ± 0.7 | 63.0 ± 0.6 | 79.0 ± 0.3 | 84.2 ± 0.2 |
//! | `binary-tree` | 32.7 ± 0.7 | 54.9 ± 0.6 | 74.6 ± 0.4 | 83.0 ± 0.2 |
//! | `identity` | 17.4 ± 0.6 | 27.5 ± 0.7 | 48.9 ± 0.6 | 71.5 ± 0.4 |
//!
//! The first two do not differ beyond their errors; all other leads do, by more than four of them. Every private row is
//! above that of one pass: larger batches drown more noise than the four additional participations cost.
//!

mod compare;
mod floor;
mod history;
mod optimizer;
mod sampled;
mod saved;
mod source;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{
    Budget, GaussianSource, Method, Plan, Problem, Relation, Seed, StateFile, Strategy, Workload,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub use compare::{Accuracy, Comparison, Contestant, Mean, Noise};
pub use floor::{NoiseFloor, Place};
pub use history::FinishedEpoch;
pub use optimizer::Optimizer;
pub use sampled::CyclicSampling;
pub use saved::{ModelFile, SavedModel};

use crate::data::{DataError, Examples};
use crate::error::{Error, Result, check_positive};
use crate::gradients;
use crate::model::{Network, Workspace};
use crate::{AdaptiveNorm, ClippedSum, Clipping, CyclicBatches, PoissonBatches, PrivateGradients, Rates};
use optimizer::Live;
use source::Source;

/// How to train: everything that is chosen before the data is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Passes over the examples: one person takes part in as many steps.
    pub epochs: usize,
    /// Examples in a step.
    pub batch: usize,
    /// The learning rate η for the *average* of a batch; where the schedule starts.
    pub rate: f64,
    /// How the rate changes over the steps.
    pub schedule: Schedule,
    /// What is made of noisy sums.
    pub optimizer: Optimizer,
    /// The momentum β in [0, 1); for Adam the decay of its first moment.
    pub momentum: f64,
    /// The norm κ that one person's gradient is clipped to; where it starts, if it follows a quantile.
    pub clip: f64,
    /// The quantile of the gradients' norms that the clipping norm follows, paid for by the same budget; none for a norm
    /// that stays.
    pub quantile: Option<f64>,
    /// Whether each of the L layers is clipped by itself, to `κ/√L`, in place of the whole gradient to κ: no layer with large
    /// gradients shortens the others. Together they are no longer than κ, and the noise is the same.
    #[serde(default)]
    pub per_layer: bool,
    /// Determines the order of the examples and the first parameters. Public, and no part of the noise.
    pub order: u64,
}

/// One pass over the examples in batches of 4, plain descent with momentum 0.9 at rate 0.05, gradients clipped to norm 1.
impl Default for Settings {
    fn default() -> Self {
        Self {
            epochs: 1,
            batch: 4,
            rate: 0.05,
            schedule: Schedule::Constant,
            optimizer: Optimizer::Sgd,
            momentum: 0.9,
            clip: 1.0,
            quantile: None,
            per_layer: false,
            order: 1,
        }
    }
}

/// How the learning rate changes over the steps: known before training starts, so that noise can be correlated for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Not at all.
    Constant,
    /// Along a straight line to a last rate.
    Linear {
        /// The rate of the last step.
        last: f64,
    },
    /// Along half a period of the cosine to a last rate.
    Cosine {
        /// The rate of the last step.
        last: f64,
    },
}

impl Schedule {
    /// The rates of so many steps, from the first one on; all of them divided by `divisor`.
    fn rates(self, first: f64, steps: usize, divisor: f64) -> Result<Rates> {
        check_positive("learning rate", first)?;
        match self {
            Self::Constant => Rates::constant(first / divisor),
            Self::Linear { last } => Rates::linear(first / divisor, last / divisor, steps),
            Self::Cosine { last } => Rates::cosine(first / divisor, last / divisor, steps),
        }
    }
}

/// The sums for which noise is correlated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Prefix sums of gradients, of which momentum is post-processing.
    Sums,
    /// The optimizer's iterates themselves, momentum and schedule included; for Adam as if its denominators stood still.
    Iterates,
}

/// A noise strategy together with the guarantee that it is to give.
#[derive(Debug, Clone)]
pub struct Privacy {
    /// How noise is correlated over the steps; see [`Trainer::strategy`].
    pub strategy: Arc<dyn Strategy>,
    /// Which two data sets must be hard to tell apart.
    pub relation: Relation,
    /// For the whole run.
    pub budget: Budget,
}

/// A model, examples and settings that fit together; starts any number of trainings.
///
/// # Example
/// ```
/// use dp_ftrl::data::digits;
/// use dp_ftrl::model::Network;
/// use dp_ftrl::train::{Aim, Privacy, Settings, Trainer};
/// use dp_mechanisms::{Budget, Method, Relation};
/// let (train, test) = digits()?;
/// let settings = Settings { epochs: 1, batch: 60, rate: 0.5, momentum: 0.5, ..Settings::default() };
/// let trainer = Trainer::new(Network::logistic(64, 10)?, &train, settings)?;
/// let strategy = trainer.strategy(Method::Sqrt, Aim::Sums)?;
/// let privacy = Privacy { strategy, relation: Relation::ZeroOut, budget: Budget::approximate(8.0, 1e-5)? };
/// let mut training = trainer.start(&privacy)?;
/// training.run(Some(&test))?;
/// assert_eq!((training.step(), training.epochs().len()), (24, 1));
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Trainer<'a> {
    network: Network,
    examples: &'a Examples,
    settings: Settings,
    batches: CyclicBatches,
    optimizer: Live,
}

/// A training between two steps. Live: it cannot be cloned, because its noise cannot.
///
/// # Privacy
/// Every iterate is post-processing of [`PrivateGradients`] over [`CyclicBatches`]: person i takes part once in each
/// epoch, always the same number of steps after the last time. Who has several examples contributes the average of their
/// gradients, which is clipped as one: the guarantee is for the person, however many examples they have. The order is a function of [`Settings::order`] alone, and
/// sums are divided by the planned batch size, which is public, also where the last batch of an epoch is shorter.
///
/// With a plan of [`Trainer::sampled_plan`] every step draws people at random instead ([`PoissonBatches`]), from the secret that
/// makes the noise; the sizes of batches vary, and sums are divided by their expected size.
///
/// # Complexity
/// A step costs the gradients of a batch, on all cores, and one step of the strategy's noise. The result does not depend
/// on the number of cores. Nothing is allocated per example.
pub struct Training<'a> {
    network: Network,
    examples: &'a Examples,
    settings: Settings,
    batches: CyclicBatches,
    order: Vec<usize>,
    /// Who is drawn instead, where the noise relies on it.
    draws: Option<PoissonBatches>,
    /// The people of the open step.
    drawn: Vec<usize>,
    optimizer: Live,
    source: Source,
    /// The parts of a batch, each summed by one core.
    parts: Vec<Part>,
    /// The noisy sum of a step.
    sum: Vec<f64>,
    epochs: Vec<FinishedEpoch>,
    epoch_started: Instant,
    /// The clipping norm, where it moves.
    adaptive: Option<AdaptiveNorm>,
    /// Where the model is kept beside the state of its noise.
    file: Option<ModelFile>,
}

/// What one core needs to sum its part of a batch. Private data passes through it, and is wiped in the end.
struct Part {
    sum: ClippedSum,
    workspace: Workspace,
    gradient: Zeroizing<Vec<f64>>,
    /// Room for one of several gradients of a person; empty where nobody has several examples.
    single: Zeroizing<Vec<f64>>,
}

impl Part {
    /// Leaves the average of the gradients of a person's examples in `gradient`.
    fn gradient_of(
        &mut self,
        network: &Network,
        parameters: &[f64],
        examples: &Examples,
        person: usize,
    ) -> Result<()> {
        let Self { workspace, gradient, single, .. } = self;
        let gradient = &mut gradient[..parameters.len()];
        let rows = examples.of_person(person);
        let count = rows.len() as f64;
        for (index, row) in rows.enumerate() {
            let Some((features, label)) = examples.get(row) else { continue };
            if index == 0 {
                network.gradient(parameters, features, label, workspace, gradient)?;
            } else {
                network.gradient(parameters, features, label, workspace, single)?;
                gradient.iter_mut().zip(single.iter()).for_each(|(sum, value)| *sum += value);
            }
        }
        if count > 1.0 {
            gradient.iter_mut().for_each(|sum| *sum /= count);
        }
        Ok(())
    }
}

/// A training takes at most this many steps: strategies keep numbers for each of them.
const MOST_STEPS: usize = 1 << 24;
/// The noise of a training keeps at most this many numbers, of eight bytes each.
const MOST_NOISE: usize = 1 << 28;
/// A core sums at least this many gradients before another one helps.
const EXAMPLES_PER_PART: usize = 32;
/// A batch is cut into at most this many parts, each with two buffers of the model's size.
const MOST_PARTS: usize = 16;

impl<'a> Trainer<'a> {
    /// Checks that everything fits.
    ///
    /// # Errors
    /// Examples of another shape than the model's, none at all, or settings outside their ranges.
    pub fn new(network: Network, examples: &'a Examples, settings: Settings) -> Result<Self> {
        if examples.is_empty() {
            return Err(DataError::Empty.into());
        }
        network.check_examples(examples)?;
        adaptive(&settings)?;
        Clipping::flat(settings.clip)?;
        let batches = CyclicBatches::new(examples.people(), settings.batch, settings.epochs)?;
        if batches.steps() > MOST_STEPS {
            return Err(Error::OutOfRange {
                what: "number of steps",
                value: batches.steps() as f64,
                range: "at most 2^24 = 16777216; use larger batches or fewer epochs",
            });
        }
        let optimizer = Live::new(&settings, network.initial(settings.order), batches.steps())?;
        Ok(Self { network, examples, settings, batches, optimizer })
    }

    /// Who takes part when.
    pub fn batches(&self) -> CyclicBatches {
        self.batches
    }

    /// The model's shape.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The workload for which noise is to be correlated.
    ///
    /// # Errors
    /// None for a trainer that was accepted.
    pub fn workload(&self, aim: Aim) -> Result<Workload> {
        match aim {
            Aim::Sums => Ok(Workload::count()),
            Aim::Iterates => self.optimizer.workload(&self.settings, self.batches.steps()),
        }
    }

    /// A strategy, built for the number of steps, the participation, and what its noise is meant to cancel in.
    ///
    /// # Errors
    /// A workload that the strategy does not serve.
    pub fn strategy(&self, method: Method, aim: Aim) -> Result<Arc<dyn Strategy>> {
        let problem = Problem::new(self.workload(aim)?, self.batches.steps())?;
        Ok(method.build(&problem.with_participation(self.batches.participation()))?)
    }

    /// Private training, with secret noise from the operating system.
    ///
    /// # Errors
    /// What [`PrivateGradients::new`] refuses, among others a strategy for another number of steps.
    pub fn start(&self, privacy: &Privacy) -> Result<Training<'a>> {
        self.start_with(self.plan(privacy)?, Seed::from_system()?)
    }

    /// Training with noise that anybody who knows the seed can repeat and subtract: **not private**, for tests and
    /// comparisons.
    ///
    /// # Errors
    /// As [`Trainer::start`].
    pub fn start_reproducible(&self, privacy: &Privacy, seed: u64) -> Result<Training<'a>> {
        self.start_with(self.plan(privacy)?, Seed::reproducible(seed))
    }

    /// Training by a plan of this trainer's: [`Trainer::plan`], or [`Trainer::sampled_plan`] for people who are drawn at
    /// random. Where noise and draws come from is the seed's.
    ///
    /// # Errors
    /// A plan for another clipping, participation, number of steps or expected batch size.
    pub fn start_with(&self, plan: Plan, seed: Seed) -> Result<Training<'a>> {
        self.private(self.gradients(plan, seed, None)?)
    }

    /// The live object of a plan of this trainer's.
    fn gradients(&self, plan: Plan, seed: Seed, file: Option<StateFile>) -> Result<PrivateGradients> {
        self.check_plan(&plan)?;
        PrivateGradients::open(plan, self.clipping()?, self.dimension(), seed, file)
    }

    fn private(&self, gradients: PrivateGradients) -> Result<Training<'a>> {
        let draws = self.draws(gradients.plan(), |purpose| gradients.hash_key(purpose))?;
        self.training(Source::Private(Box::new(gradients)), draws)
    }

    /// Training without noise: **not private**. Gradients are clipped all the same, so that what remains is what the
    /// noise costs.
    ///
    /// # Errors
    /// None for a trainer that was accepted.
    pub fn start_without_privacy(&self) -> Result<Training<'a>> {
        self.training(Source::Exact(self.empty_sum()?), None)
    }

    /// Private training that survives crashes: continues the state in the file and the model saved beside it, or starts
    /// both. The model is saved after every step; a crash between the state's step and the model's is made up for, and
    /// what was made up is saved before the next step. Noise from a `seed` can be repeated by anybody who knows it: **not
    /// private**, for tests.
    ///
    /// # Errors
    /// A state or model of other settings, data or budget; a model that is missing or older than the state by more than
    /// one step; what [`PrivateGradients::open`] and [`ModelFile`] refuse.
    pub fn resume(
        &self,
        privacy: &Privacy,
        file: StateFile,
        seed: Option<u64>,
        model: ModelFile,
    ) -> Result<Training<'a>> {
        let seed = match seed {
            None => Seed::from_system()?,
            Some(seed) => Seed::reproducible(seed),
        };
        self.resume_with(self.plan(privacy)?, file, seed, model)
    }

    /// As [`Trainer::resume`], by a plan of this trainer's. Draws are those that an undisturbed training would have made.
    ///
    /// # Errors
    /// As [`Trainer::resume`] and [`Trainer::start_with`].
    pub fn resume_with(
        &self,
        plan: Plan,
        file: StateFile,
        seed: Seed,
        model: ModelFile,
    ) -> Result<Training<'a>> {
        let saved = model.read()?;
        let mut gradients = self.gradients(plan, seed, Some(file))?;
        self.check_data(&mut gradients)?;
        let released = gradients.step();
        let mut training = self.private(gradients)?;
        let saved = saved.unwrap_or_else(|| training.save());
        let fresh = training.save();
        if (saved.settings, saved.examples) != (fresh.settings, fresh.examples) {
            return Err(Error::SavedModel { reason: "it was trained with other settings or other data" });
        }
        training.optimizer.restore(saved.step, &saved.optimizer)?;
        training.epochs = saved.epochs;
        if let (Some(adaptive), Some(norm)) = (&mut training.adaptive, saved.norm) {
            adaptive.restore(norm)?;
        }
        if saved.step + 1 == released {
            training.source.last_finished(&mut training.sum)?;
            training.apply_sum()?;
            // The state forgets this step at the next one: a model that stayed behind could never catch up.
            model.write(&training.save())?;
        }
        if training.step() != released {
            return Err(Error::SavedModel { reason: "it does not belong to the step of the saved noise" });
        }
        training.file = Some(model);
        Ok(training)
    }

    /// Seals a keyed digest of the examples in a new state, and refuses a state of other examples.
    fn check_data(&self, gradients: &mut PrivateGradients) -> Result<()> {
        const NAME: &str = "training data";
        let digest = self.examples.digest(&gradients.hash_key(NAME)).to_le_bytes();
        match gradients.attachment(NAME) {
            Some(known) if known == digest => Ok(()),
            None if gradients.step() == 0 => {
                gradients.attach(NAME, digest.to_vec());
                Ok(())
            }
            _ => Err(Error::SavedModel { reason: "it was trained with other settings or other data" }),
        }
    }

    /// The plan by which a strategy's noise covers the gradients of this training.
    ///
    /// # Errors
    /// A strategy for another number of steps, one that does not fit in memory, or a sensitivity that cannot be bounded.
    pub fn plan(&self, privacy: &Privacy) -> Result<Plan> {
        self.check_strategy(privacy.strategy.as_ref())?;
        let strategy = Arc::clone(&privacy.strategy);
        let participation = self.batches.participation();
        gradients::plan(strategy, &self.clipping()?, privacy.relation, participation, privacy.budget)
    }

    /// Refuses a strategy that would run out of noise before the end, was fitted to another run, or does not fit in memory.
    fn check_strategy(&self, strategy: &dyn Strategy) -> Result<()> {
        if strategy.steps() != self.batches.steps() {
            return Err(Error::OutOfRange {
                what: "number of steps of the strategy",
                value: strategy.steps() as f64,
                range: "the number of steps of the training",
            });
        }
        let memory = strategy.memory(self.dimension());
        if memory > MOST_NOISE {
            return Err(Error::OutOfRange {
                what: "the numbers that the noise keeps for all parameters",
                value: memory as f64,
                range: "at most 2^28; use blt, scaled-blt or binary-tree, or a smaller model",
            });
        }
        Ok(())
    }

    fn clipping(&self) -> Result<Clipping> {
        match adaptive(&self.settings)? {
            None if self.settings.per_layer => {
                let lengths = self.network.layers();
                let norm = self.settings.clip / (lengths.len() as f64).sqrt();
                Clipping::per_layer(&lengths, &vec![norm; lengths.len()])
            }
            None => Clipping::flat(self.settings.clip),
            Some(adaptive) => adaptive.clipping(self.network.parameters()),
        }
    }

    /// The coordinates of a sum: the parameters, and one for a clipping norm that moves.
    fn dimension(&self) -> usize {
        self.network.parameters() + usize::from(self.settings.quantile.is_some())
    }

    fn empty_sum(&self) -> Result<ClippedSum> {
        ClippedSum::new(self.clipping()?, self.dimension())
    }

    fn training(&self, source: Source, draws: Option<PoissonBatches>) -> Result<Training<'a>> {
        let dimension = self.dimension();
        let parts = self.settings.batch.div_ceil(EXAMPLES_PER_PART).min(MOST_PARTS);
        let part = || -> Result<Part> {
            let workspace = self.network.workspace();
            let several = self.examples.people() < self.examples.len();
            let room = |length: usize| Zeroizing::new(vec![0.0; length]);
            let single = room(if several { self.network.parameters() } else { 0 });
            Ok(Part { sum: self.empty_sum()?, workspace, gradient: room(dimension), single })
        };
        Ok(Training {
            network: self.network.clone(),
            examples: self.examples,
            settings: self.settings,
            batches: self.batches,
            order: shuffled(self.examples.people(), self.settings.order),
            drawn: Vec::with_capacity(draws.as_ref().map_or(0, PoissonBatches::largest_group)),
            draws,
            optimizer: self.optimizer.clone(),
            source,
            parts: (0..parts).map(|_| part()).collect::<Result<_>>()?,
            sum: vec![0.0; dimension],
            epochs: Vec::new(),
            epoch_started: Instant::now(),
            adaptive: adaptive(&self.settings)?,
            file: None,
        })
    }
}

/// The clipping norm of the settings, if it moves.
///
/// # Errors
/// A norm or quantile that cannot be followed, or one for each layer, which nothing follows.
fn adaptive(settings: &Settings) -> Result<Option<AdaptiveNorm>> {
    if let (Some(quantile), true) = (settings.quantile, settings.per_layer) {
        return Err(Error::OutOfRange {
            what: "quantile of the clipping norm",
            value: quantile,
            range: "none where every layer is clipped by itself",
        });
    }
    settings.quantile.map(|quantile| AdaptiveNorm::new(settings.clip, quantile, settings.batch)).transpose()
}

/// The numbers below `count` in an order that depends on `number` alone.
fn shuffled(count: usize, number: u64) -> Vec<usize> {
    let mut keys = vec![0.0; count];
    // Row 0 belongs to the first parameters.
    GaussianSource::new(Seed::reproducible(number), count).fill_row(1, &mut keys);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]));
    order
}

impl Training<'_> {
    /// Takes one step: the gradients of the next batch at the current parameters, clipped, summed, noised, applied.
    /// Says whether there was a step left to take.
    ///
    /// # Errors
    /// A model that has diverged to NaN or infinity, or a state that cannot be saved.
    pub fn step_forward(&mut self) -> Result<bool> {
        let Some(batch) = self.batches.batch(self.step()) else { return Ok(false) };
        if let Some(draws) = &self.draws {
            draws.draw(self.optimizer.step(), &mut self.drawn);
        } else {
            self.drawn.clear();
            self.drawn.extend_from_slice(&self.order[batch]);
        }
        self.add_gradients()?;
        self.source.finish(&mut self.sum)?;
        self.apply_sum()?;
        if let Some(file) = &self.file {
            file.write(&self.save())?;
        }
        Ok(true)
    }

    /// Moves the model, and the clipping norm if it moves, by the noisy sum of a step.
    fn apply_sum(&mut self) -> Result<()> {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.decode(&mut self.sum)?;
        }
        self.optimizer.update(&self.sum[..self.network.parameters()])
    }

    /// The current clipping norm.
    pub fn clipping_norm(&self) -> f64 {
        self.adaptive.as_ref().map_or(self.settings.clip, AdaptiveNorm::current)
    }

    /// The number of steps taken.
    pub fn step(&self) -> usize {
        self.optimizer.step()
    }

    /// Who takes part when.
    pub fn batches(&self) -> CyclicBatches {
        self.batches
    }

    /// The current parameters.
    pub fn parameters(&self) -> &[f64] {
        self.optimizer.parameters()
    }

    /// The plan of the noise; none without privacy.
    pub fn plan(&self) -> Option<&Plan> {
        self.source.plan()
    }

    /// The model as it stands.
    fn save(&self) -> SavedModel {
        SavedModel {
            settings: self.settings,
            examples: self.examples.people(),
            step: self.step(),
            norm: self.adaptive.as_ref().map(AdaptiveNorm::current),
            optimizer: self.optimizer.state(),
            epochs: self.epochs.clone(),
        }
    }

    /// Adds the clipped gradients of a batch to the open sum. How a batch is cut depends on its size alone and the parts
    /// are added in their order, so that the result is the same to the last bit on any number of cores.
    fn add_gradients(&mut self) -> Result<()> {
        let batch = &self.drawn;
        let (network, examples, parameters) = (&self.network, self.examples, self.optimizer.parameters());
        let adaptive = self.adaptive.as_ref();
        // Nobody at all may have been drawn.
        let size = batch.len().div_ceil(self.parts.len()).max(1);
        let work = |(part, members): (&mut Part, &[usize])| -> Result<()> {
            for member in members {
                part.gradient_of(network, parameters, examples, *member)?;
                if let Some(adaptive) = adaptive {
                    adaptive.encode(&mut part.gradient)?;
                }
                part.sum.add(&part.gradient)?;
            }
            Ok(())
        };
        if let [only] = self.parts.as_mut_slice() {
            work((only, batch))?;
        } else {
            self.parts.par_iter_mut().zip(batch.par_chunks(size)).try_for_each(work)?;
        }
        self.parts.iter_mut().try_for_each(|part| self.source.absorb(&mut part.sum))
    }
}

/// Neither data nor noise leaves through a debug print.
impl fmt::Debug for Training<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Training")
            .field("settings", &self.settings)
            .field("step", &self.step())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_contains_everybody_once_and_depends_on_its_number() {
        let order = shuffled(1000, 7);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(order, shuffled(1000, 7));
        let fixed = order.iter().zip(shuffled(1000, 8)).filter(|(a, b)| **a == *b).count();
        // Two random orders agree in one place on average, and in ten or more with probability 1e-7.
        assert!(fixed < 10, "{fixed}");
    }
}
