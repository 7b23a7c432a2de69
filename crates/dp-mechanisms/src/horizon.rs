//! Streams of unknown length: a fresh strategy for every epoch, each twice as long as the one before.

use std::fmt;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::budget::Budget;
use crate::error::{Error, Result, check_count};
use crate::mechanism::{Release, check_vectors};
use crate::noise::{CorrelatedNoise, GaussianSource, Seed, Side};
use crate::plan::Plan;
use crate::sensitivity::{Footprint, Participation, Term};
use crate::strategy;
use crate::workload::{Kind, Workload, WorkloadStream};

/// A mechanism that never ends: epochs of `n0, 2·n0, 4·n0, …` steps, each with its own strategy and noise.
///
/// The strategy of the whole stream is block diagonal, `C = diag(C_0, C_1, …)`. The input noise
/// `ξ = (σ_0 C_0⁻¹ z_0, σ_1 C_1⁻¹ z_1, …)` is added to the data and one exact workload stream runs over the sum, so
/// that what is released is `A (x + ξ)` for any workload A.
///
/// # Privacy
/// What is released is a function of the measurements `C_i x_i + σ_i z_i` of the epochs alone. If one person takes
/// part in `m_i` steps of epoch i, those measurements together are μ'-GDP with `μ'² = Σ_i Δ_i(m_i)²/σ_i²`, also
/// adaptively.
/// - *Single participation*: one `m_i` is 1 and all others are 0, so `σ_i = Δ_i(1)/μ` gives `μ' = μ`: every epoch gets
///   the **full** budget (parallel composition), and nothing is paid for the number of epochs.
/// - *At most k steps, b apart*: σ_i is chosen so that `Δ_i(m)²/σ_i² ≤ μ² m/k` for every `m ≤ min(k, ⌈len_i/b⌉)`. As
///   `Σ m_i ≤ k`, `μ'² ≤ Σ_i μ² m_i/k ≤ μ²` however the person spreads over the epochs.
/// - *Several terms* (disjoint groups of coordinates, weights w_j, one participation): the same with
///   `Δ_i(m)² Σ_j w_j²`; the groups may even be affected in different epochs, since each contributes at most its
///   share `w_j²/Σ w_j²` of μ².
///
/// # Cost
/// The noise of finished epochs stays in the sum. [`Self::cost`] is the ratio of the standard deviation at step t to
/// that of a mechanism that had known the horizon t. For the count, square-root strategy and first epoch of 16
/// it is 1.00 at t = 16, 1.18 at t = 48, 1.51 at 1008 and 1.61 at 4080 when an epoch ends there.
///
/// # Complexity
/// Per step that of the strategy. Memory is that of the current epoch's strategy, allocated when the epoch
/// starts; nothing is allocated within an epoch. Workloads without a finite recurrence (`poly`, `weights`) keep
/// the past, and are rebuilt from it at the start of each epoch.
pub struct DoublingMechanism {
    workload: Workload,
    strategy: String,
    footprint: Footprint,
    budget: Budget,
    dimension: usize,
    first_epoch: usize,
    seed: Seed,
    statistic: WorkloadStream,
    epochs: Vec<Epoch>,
    noise: CorrelatedNoise,
    current: Vec<f64>,
}

/// One epoch: where it starts and how it is calibrated.
struct Epoch {
    start: usize,
    plan: Plan,
}

impl Epoch {
    fn end(&self) -> usize {
        self.start + self.plan.steps()
    }
}

impl DoublingMechanism {
    /// A mechanism with secret noise from the operating system.
    ///
    /// `strategy` is a name of [`strategy::build`]; `first_epoch` the number of steps of the first epoch.
    ///
    /// # Errors
    /// A dimension or first epoch of zero, a footprint whose terms differ in their participation, or what strategy
    /// and plan refuse.
    pub fn new(
        workload: &Workload,
        strategy: &str,
        footprint: Footprint,
        budget: Budget,
        dimension: usize,
        first_epoch: usize,
    ) -> Result<Self> {
        let seed = Seed::from_system()?;
        Self::reproducible(workload, strategy, footprint, budget, dimension, first_epoch, seed)
    }

    /// As [`Self::new`] with a given seed: **not private** under a [`Seed::reproducible`] one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn reproducible(
        workload: &Workload,
        strategy: &str,
        footprint: Footprint,
        budget: Budget,
        dimension: usize,
        first_epoch: usize,
        seed: Seed,
    ) -> Result<Self> {
        check_count("dimension", dimension)?;
        check_count("first epoch", first_epoch)?;
        let plan = plan_epoch(workload, strategy, &footprint, &budget, 0, first_epoch)?;
        let noise = epoch_noise(&seed, 0, &plan, dimension)?;
        let statistic = workload.stream(known_steps(workload, first_epoch), dimension)?;
        Ok(Self {
            workload: workload.clone(),
            strategy: strategy.to_owned(),
            footprint,
            budget,
            dimension,
            first_epoch,
            seed,
            statistic,
            epochs: vec![Epoch { start: 0, plan }],
            noise,
            current: vec![0.0; dimension],
        })
    }

    /// Takes the input of the next step and writes the release after it.
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN, infinities, an input outside the declared domain, or a next epoch that is
    /// too long for the strategy. The mechanism then releases the same as if nothing had been asked.
    pub fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release> {
        let step = self.step() + 1;
        check_vectors(self.dimension, input, output)?;
        self.footprint.domain().check(step, input)?;
        if self.epochs.last().is_none_or(|epoch| step > epoch.end()) {
            self.start_epoch()?;
        }
        let standard_deviation = self.standard_deviation(step)?;
        self.noise.next_into(&mut self.current)?;
        let sigma = self.epochs.last().map_or(0.0, |epoch| epoch.plan.sigma());
        for (noise, value) in self.current.iter_mut().zip(input) {
            *noise = value + sigma * *noise;
        }
        self.statistic.push(&self.current, output)?;
        Ok(Release { step, standard_deviation })
    }

    fn start_epoch(&mut self) -> Result<()> {
        let index = self.epochs.len();
        let start = self.step();
        let too_long = Error::HorizonReached { horizon: start };
        let length = self.first_epoch.checked_shl(index as u32).filter(|length| *length > 0).ok_or(too_long)?;
        let plan =
            plan_epoch(&self.workload, &self.strategy, &self.footprint, &self.budget, start, length)?;
        let noise = epoch_noise(&self.seed, index as u64, &plan, self.dimension)?;
        if is_convolution(&self.workload) {
            let mut longer = self.workload.stream(start.saturating_add(length), self.dimension)?;
            longer.restore(start, &self.statistic.state())?;
            self.statistic = longer;
        }
        self.noise = noise;
        self.epochs.push(Epoch { start, plan });
        Ok(())
    }

    /// The number of releases made so far.
    pub fn step(&self) -> usize {
        self.statistic.step()
    }

    /// The plan of the running epoch, and the steps before it.
    pub fn epoch(&self) -> Option<(usize, &Plan)> {
        self.epochs.last().map(|epoch| (epoch.start, &epoch.plan))
    }

    /// The standard deviation of each coordinate of the release of `step`, counted from 1, which must lie in an epoch
    /// that has begun.
    ///
    /// # Complexity
    /// O(number of epochs) for the count, the average and exponential decay, whose past is one number. Others
    /// are computed from matrices.
    ///
    /// # Errors
    /// A step of a later epoch, or matrices that would be too large.
    pub fn standard_deviation(&self, step: usize) -> Result<f64> {
        let mut variance = 0.0;
        let mut known = false;
        for epoch in self.epochs.iter().take_while(|epoch| epoch.start < step) {
            let within = step.min(epoch.end()) - epoch.start;
            known |= step <= epoch.end();
            variance += epoch.plan.sigma().powi(2) * self.squared_row(epoch, step, within)?;
        }
        if known {
            Ok(variance.sqrt())
        } else {
            Err(Error::OutOfRange { what: "step", value: step as f64, range: "a step of an epoch that has begun" })
        }
    }

    /// The squared norm of row `step` of A, restricted to an epoch, times the unit input noise of that epoch.
    fn squared_row(&self, epoch: &Epoch, step: usize, within: usize) -> Result<f64> {
        let local = epoch.plan.row_norms().squared.get(within - 1).copied().unwrap_or(0.0);
        match self.workload.kind() {
            Kind::Count => Ok(local),
            // The first epoch has an average of its own; the later ones are sums, divided here.
            Kind::Average if epoch.start == 0 => Ok(local * (within as f64 / step as f64).powi(2)),
            Kind::Average => Ok(local / (step as f64).powi(2)),
            Kind::Exponential { alpha } => {
                let age = (step - epoch.start - within) as f64;
                Ok(local * alpha.powf(-2.0 * age))
            }
            _ if step <= epoch.end() => Ok(local),
            _ => self.squared_row_of_finished(epoch, step),
        }
    }

    /// As [`Self::squared_row`], from the matrices of a finished epoch.
    fn squared_row_of_finished(&self, epoch: &Epoch, step: usize) -> Result<f64> {
        let length = epoch.plan.steps();
        let factors = epoch.plan.strategy().materialize()?;
        let block = epoch.plan.strategy().workload().materialize(length)?;
        let mut row = workload_row(&self.workload, step, epoch.start..epoch.end())?;
        // row · block⁻¹ by back substitution: the block is lower triangular with a positive diagonal.
        for j in (0..length).rev() {
            row[j] /= block[[j, j]];
            for i in 0..j {
                row[i] -= row[j] * block[[j, i]];
            }
        }
        let noise = ndarray::aview1(&row).dot(&factors.decoder);
        Ok(noise.dot(&noise))
    }

    /// What not knowing the horizon costs: the standard deviation of the release of `step` over that of the same
    /// strategy planned for exactly `step` steps.
    ///
    /// # Errors
    /// As [`Self::standard_deviation`], and what the plan for the known horizon refuses.
    pub fn cost(&self, step: usize) -> Result<f64> {
        let unknown = self.standard_deviation(step)?;
        let participation = common_participation(&self.footprint)?;
        let strategy = strategy::build(&self.strategy, &self.workload, step, participation)?;
        let known = Plan::new(strategy, self.footprint.clone(), self.budget)?;
        Ok(unknown / known.standard_deviation(step).unwrap_or(f64::NAN))
    }
}

/// Neither noise nor true state leaves through a debug print.
impl fmt::Debug for DoublingMechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DoublingMechanism")
            .field("workload", &self.workload)
            .field("strategy", &self.strategy)
            .field("budget", &self.budget)
            .field("step", &self.step())
            .finish_non_exhaustive()
    }
}

/// Whether the exact statistic needs all past inputs, and so a known number of steps.
fn is_convolution(workload: &Workload) -> bool {
    matches!(workload.kind(), Kind::Polynomial { .. } | Kind::Weights { .. })
}

/// The steps for which the exact statistic is made: as many as there are, unless its size depends on them.
fn known_steps(workload: &Workload, first_epoch: usize) -> usize {
    if is_convolution(workload) { first_epoch } else { usize::MAX }
}

/// The part of the workload that an epoch sees of itself: the diagonal block of A, up to a scaling of its rows.
fn epoch_workload(workload: &Workload, start: usize) -> Result<Workload> {
    Ok(match workload.kind() {
        // From the second epoch on the divisor 1/t changes by a factor of 2 at most: a count in essence.
        Kind::Average if start > 0 => Workload::count(),
        Kind::Momentum { beta, rates } => Workload::momentum(*beta, &rates[start.min(rates.len() - 1)..])?,
        _ => workload.clone(),
    })
}

/// The participation that all terms share.
fn common_participation(footprint: &Footprint) -> Result<Participation> {
    let mut participations = footprint.terms().iter().map(|term| term.participation);
    let first = participations.next().ok_or(Error::Empty { what: "footprint" })?;
    if participations.all(|other| other == first) {
        Ok(first)
    } else {
        Err(Error::State {
            reason: "an unknown horizon needs one participation for all parts of the footprint".to_owned(),
        })
    }
}

/// Calibrates an epoch so that m of a person's k steps use at most the fraction m/k of the budget (of μ²).
fn plan_epoch(
    workload: &Workload,
    name: &str,
    footprint: &Footprint,
    budget: &Budget,
    start: usize,
    length: usize,
) -> Result<Plan> {
    let participation = common_participation(footprint)?;
    let strategy = strategy::build(name, &epoch_workload(workload, start)?, length, participation)?;
    let (times, separation) = match participation {
        Participation::Single => (1, 1),
        Participation::Repeated { times, separation } => (times, separation),
    };
    // The number of steps whose share of the budget is the tightest.
    let (mut worst, mut worst_ratio) = (1, 0.0);
    for m in 1..=participation.times_within(length) {
        let squared = strategy.sensitivity(Participation::repeated(m, separation)?)?.squared;
        let ratio = squared / m as f64;
        if ratio > worst_ratio {
            (worst, worst_ratio) = (m, ratio);
        }
    }
    let participation = Participation::repeated(worst, separation)?;
    let terms = footprint.terms().iter().map(|term| Term { weight: term.weight, participation }).collect();
    let within_epoch = Footprint::encoded(terms, footprint.relation())?;
    Plan::new(strategy, within_epoch, budget.share(worst as f64 / times as f64)?)
}

/// The input noise of an epoch, from a seed of its own.
fn epoch_noise(seed: &Seed, index: u64, plan: &Plan, dimension: usize) -> Result<CorrelatedNoise> {
    let mut bytes = [0; 32];
    let mut generator = ChaCha20Rng::from_seed(*seed.expose());
    generator.set_stream(index);
    generator.fill_bytes(&mut bytes);
    let own = Seed::from_bytes(bytes);
    zeroize::Zeroize::zeroize(&mut bytes);
    let source = Box::new(GaussianSource::new(own, dimension));
    CorrelatedNoise::new(plan.strategy().as_ref(), dimension, Side::Input, source)
}

/// Row `step` (counted from 1) of the workload, at the given columns.
fn workload_row(workload: &Workload, step: usize, columns: std::ops::Range<usize>) -> Result<Vec<f64>> {
    if let Some(series) = workload.series(step)? {
        return Ok(columns.map(|j| series[step - 1 - j]).collect());
    }
    // Momentum: Σ_{i=j}^{step-1} η_i β^{i-j}, from the last column backwards. The average never comes here.
    let beta = match workload.kind() {
        Kind::Momentum { beta, .. } => *beta,
        _ => 0.0,
    };
    let mut row = vec![0.0; columns.len()];
    let mut sum = 0.0;
    for j in (columns.start..step).rev() {
        sum = workload.rate(j) + beta * sum;
        if j < columns.end {
            row[j - columns.start] = sum;
        }
    }
    Ok(row)
}
