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
/// that of a mechanism that had known the horizon t. For the count, the square-root strategy and a first epoch of 16
/// steps it is 1.00 at t = 16, 1.27 at 48, 1.63 at 240, 1.89 at 1008 and 2.11 at 4080, the ends of epochs.
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
        let length =
            self.first_epoch.checked_shl(index as u32).filter(|length| *length > 0).ok_or(too_long)?;
        let plan = plan_epoch(&self.workload, &self.strategy, &self.footprint, &self.budget, start, length)?;
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
            Err(Error::OutOfRange {
                what: "step",
                value: step as f64,
                range: "a step of an epoch that has begun",
            })
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
    let mut within_epoch = Footprint::encoded(terms, footprint.relation())?;
    if footprint.needs_non_negative_columns() {
        within_epoch = within_epoch.needing_non_negative_columns();
    }
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
    let Kind::Momentum { beta, .. } = workload.kind() else {
        // The average, the only other workload that is not Toeplitz.
        return Ok(vec![1.0 / step as f64; columns.len()]);
    };
    // Momentum: Σ_{i=j}^{step-1} η_i β^{i-j}, from the last column backwards.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensitivity::Relation;

    fn mechanism(
        workload: &Workload,
        strategy: &str,
        participation: Participation,
        first: usize,
    ) -> DoublingMechanism {
        let footprint = Footprint::scalar(-1.0, 1.0, Relation::ZeroOut, participation).unwrap();
        let budget = Budget::gaussian(0.7).unwrap();
        let seed = Seed::reproducible(5);
        DoublingMechanism::reproducible(workload, strategy, footprint, budget, 1, first, seed).unwrap()
    }

    fn run(mechanism: &mut DoublingMechanism, steps: usize) -> Vec<f64> {
        let mut output = [0.0];
        (0..steps)
            .map(|t| {
                let release = mechanism.release(&[f64::from(t as u32 % 3) - 1.0], &mut output).unwrap();
                assert_eq!(release.step, t + 1);
                output[0]
            })
            .collect()
    }

    fn workloads() -> Vec<Workload> {
        let mut all: Vec<Workload> =
            ["count", "average", "window:5", "window:100", "exp:1.2", "poly:0.7", "momentum:0.9"]
                .map(|text| text.parse().unwrap())
                .into();
        all.push(Workload::weights(&[1.0, 0.5, 0.5, 0.1]).unwrap());
        all.push(Workload::momentum(0.5, &[1.0, 0.5, 0.25, 2.0, 1.0, 0.5]).unwrap());
        all
    }

    #[test]
    fn the_statistic_is_exact_through_every_epoch() {
        for workload in workloads() {
            // Two budgets with the same seed: the noise differs by a known factor, so it can be removed.
            let footprint =
                || Footprint::scalar(-1.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
            let mut releases = [1.0, 2.0].map(|mu| {
                let budget = Budget::gaussian(mu).unwrap();
                let seed = Seed::reproducible(9);
                let mut mechanism =
                    DoublingMechanism::reproducible(&workload, "identity", footprint(), budget, 1, 3, seed)
                        .unwrap();
                run(&mut mechanism, 40)
            });
            let exact = workload.materialize(40).unwrap();
            let inputs: Vec<f64> = (0..40).map(|t| f64::from(t % 3) - 1.0).collect();
            let exact = exact.dot(&ndarray::aview1(&inputs));
            let [one, two] = &mut releases;
            for t in 0..40 {
                assert!((2.0 * two[t] - one[t] - exact[t]).abs() < 1e-9, "{workload} step {}", t + 1);
            }
        }
    }

    #[test]
    fn standard_deviations_equal_those_of_the_matrices() {
        for workload in workloads() {
            for strategy in ["identity", "output", "sqrt", "binary-tree"] {
                // Trees and roots exist for some workloads only.
                if strategy::build(strategy, &workload, 3, Participation::Single).is_err() {
                    continue;
                }
                let mut mechanism = mechanism(&workload, strategy, Participation::Single, 3);
                run(&mut mechanism, 30);
                for step in 1..=30 {
                    let mut variance = 0.0;
                    for epoch in mechanism.epochs.iter().filter(|epoch| epoch.start < step) {
                        // The whole covariance of the epoch's input noise, from its factors.
                        let length = epoch.plan.steps();
                        let decoder = epoch.plan.strategy().materialize().unwrap().decoder;
                        let block = epoch.plan.strategy().workload().materialize(length).unwrap();
                        let noise = dp_linalg::dense::solve_lower(block.view(), decoder.view()).unwrap();
                        let row = workload.materialize(40).unwrap();
                        let end = epoch.end().min(40);
                        let row = row.slice(ndarray::s![step - 1, epoch.start..end]);
                        let moved = row.dot(&noise.slice(ndarray::s![..end - epoch.start, ..]));
                        variance += epoch.plan.sigma().powi(2) * moved.dot(&moved);
                    }
                    let found = mechanism.standard_deviation(step).unwrap();
                    assert!(
                        (found / variance.sqrt() - 1.0).abs() < 1e-9,
                        "{workload} {strategy} step {step}: {found}"
                    );
                }
            }
        }
    }

    #[test]
    fn any_split_of_the_participations_stays_within_the_budget() {
        for (times, separation) in [(1, 1), (3, 2), (5, 4), (4, 100)] {
            let participation = Participation::repeated(times, separation).unwrap();
            for strategy in ["identity", "output", "sqrt"] {
                let mut mechanism = mechanism(&Workload::count(), strategy, participation, 4);
                run(&mut mechanism, 60);
                // The best use of the first epochs with at most m participations, exactly.
                let mut worst = vec![0.0_f64; times + 1];
                for epoch in &mechanism.epochs {
                    let variance = epoch.plan.sigma().powi(2);
                    let most = participation.times_within(epoch.plan.steps());
                    let before = worst.clone();
                    for (total, value) in worst.iter_mut().enumerate() {
                        for m in 1..=total.min(most) {
                            let participation = Participation::repeated(m, separation).unwrap();
                            let own = epoch.plan.strategy().sensitivity(participation).unwrap().squared;
                            *value = value.max(before[total - m] + own / variance);
                        }
                    }
                }
                let budget = 0.7_f64.powi(2);
                assert!(worst[times] <= budget, "{strategy} {participation}: {}", worst[times]);
                assert!(
                    worst[times] >= 0.99 * budget,
                    "{strategy} {participation}: wasteful, {}",
                    worst[times]
                );
            }
        }
    }

    #[test]
    fn not_knowing_the_horizon_costs_what_the_documentation_says() {
        let mut mechanism = mechanism(&Workload::count(), "sqrt", Participation::Single, 16);
        run(&mut mechanism, 4080);
        // Square roots have Δ² = Σ_{k<L} c_k² = ‖last row‖², so the variance at the end of an epoch is Σ_i Δ_i⁴.
        let squared = |steps: usize| {
            let (mut sum, mut coefficient) = (0.0, 1.0);
            for k in 1..=steps {
                sum += coefficient * coefficient;
                coefficient *= 1.0 - 0.5 / k as f64;
            }
            sum
        };
        for (step, printed) in [(16, 1.00), (48, 1.27), (240, 1.63), (1008, 1.89), (4080, 2.11)] {
            let (mut variance, mut start, mut length) = (0.0, 0, 16);
            while start < step {
                variance += f64::powi(squared(length), 2);
                start += length;
                length *= 2;
            }
            let expected = variance.sqrt() / squared(step);
            let cost = mechanism.cost(step).unwrap();
            assert!((cost / expected - 1.0).abs() < 1e-9, "step {step}: {cost}");
            assert!((cost - printed).abs() < 0.005, "step {step}: {cost}");
        }
    }

    #[test]
    fn refused_inputs_leave_no_trace() {
        let workload = Workload::count();
        let mut touched = mechanism(&workload, "identity", Participation::Single, 2);
        let mut untouched = mechanism(&workload, "identity", Participation::Single, 2);
        for t in 0..20 {
            let (mut a, mut b) = ([0.0], [0.0]);
            for bad in [f64::NAN, f64::INFINITY, 1.5, -1.1] {
                assert!(touched.release(&[bad], &mut a).is_err());
            }
            assert!(touched.release(&[0.0, 0.0], &mut a).is_err());
            assert!(touched.release(&[0.0], &mut []).is_err());
            let input = [f64::from(t % 2)];
            assert_eq!(touched.release(&input, &mut a).unwrap(), untouched.release(&input, &mut b).unwrap());
            assert_eq!(a, b);
        }
    }

    #[test]
    fn constructors_refuse_what_makes_no_sense() {
        let make = |dimension, first, terms: Vec<Term>| {
            let footprint = Footprint::encoded(terms, Relation::ZeroOut).unwrap();
            let budget = Budget::gaussian(1.0).unwrap();
            DoublingMechanism::new(&Workload::count(), "identity", footprint, budget, dimension, first)
        };
        let single = Term { weight: 1.0, participation: Participation::Single };
        let twice = Term { weight: 1.0, participation: Participation::repeated(2, 1).unwrap() };
        assert!(make(1, 4, vec![single]).is_ok());
        assert!(make(0, 4, vec![single]).is_err());
        assert!(make(1, 0, vec![single]).is_err());
        assert!(make(1, 4, vec![single, twice]).is_err());
        let mut printed = make(1, 4, vec![single]).unwrap();
        printed.release(&[123_456.0], &mut [0.0]).unwrap();
        assert!(!format!("{printed:?}").contains("123456"));
    }
}
