//! The plan of a stream without an end: one calibrated epoch after the other, made when it is first needed.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dp_linalg::dense;
use ndarray::Array2;

use crate::budget::{self, Budget};
use crate::error::{Error, Result, check_count};
use crate::exact::budget::rho_from_approximate;
use crate::exact::to_f64;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::sensitivity::{Footprint, Participation};
use crate::strategy::Method;
use crate::workload::{Recurrence, Workload};

/// How a stream of unknown length is released: epochs of `n0, 2·n0, 4·n0, …` steps, each with its own strategy. A strategy
/// that is calibrated for ever ([`Method::Anytime`]) hands over to no other: its first epoch has 2^40 steps, of which n0 are
/// expected.
///
/// Copies share the epochs that have been calibrated.
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
/// # Complexity
/// An epoch is calibrated when it is first needed, at the cost of building its strategy, and kept.
#[derive(Clone)]
pub(crate) struct DoublingPlan(Arc<Parts>);

struct Parts {
    workload: Workload,
    method: Method,
    footprint: Footprint,
    budget: Budget,
    /// The unit of the data, where it is measured in integers.
    grid: Option<f64>,
    first_epoch: usize,
    first: Arc<Epoch>,
    epochs: Mutex<Vec<Arc<Epoch>>>,
}

/// The steps of an epoch that need not end: what the buffers of [`Method::Anytime`] remember.
const ENDLESS: usize = 1 << 40;

/// One epoch: where it starts and how it is calibrated.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// The steps before it.
    pub start: usize,
    /// Its strategy and noise.
    pub plan: Plan,
    /// `A⁻¹ B`: what a row of z does to the inputs of the epoch, made by the first report that needs it.
    input_noise: OnceLock<Option<Array2<f64>>>,
}

/// Up to this many steps the noise of a finished epoch is written out for the reports of workloads whose past is more than
/// one number; a report about longer ones would slow the releases down.
const REPORTED_EPOCH: usize = 512;

impl Epoch {
    fn new(start: usize, plan: Plan) -> Self {
        Self { start, plan, input_noise: OnceLock::new() }
    }

    /// What a row of z does to the inputs, where it is small enough to be written out.
    fn input_noise(&self) -> Option<&Array2<f64>> {
        let made = || {
            let (strategy, length) = (self.plan.strategy(), self.plan.steps());
            let decoder = strategy.materialize().ok()?.decoder;
            let block = strategy.workload().materialize(length).ok()?;
            dense::solve_lower(block.view(), decoder.view()).ok()
        };
        let small = self.plan.steps() <= REPORTED_EPOCH;
        self.input_noise.get_or_init(|| small.then(made).flatten()).as_ref()
    }

    /// The last step of the epoch, counted from 1.
    pub(crate) fn end(&self) -> usize {
        self.start + self.plan.steps()
    }
}

impl DoublingPlan {
    /// A plan whose first epoch is calibrated.
    ///
    /// Every epoch gets a strategy of the method; the first has `first_epoch` steps.
    ///
    /// # Errors
    /// A first epoch of zero, a footprint whose terms differ in their participation, or what strategy and plan refuse.
    pub(crate) fn new(
        workload: &Workload,
        method: Method,
        footprint: Footprint,
        budget: Budget,
        grid: Option<f64>,
        first_epoch: usize,
    ) -> Result<Self> {
        check_count("first epoch", first_epoch)?;
        let expected = (method == Method::Anytime).then_some(first_epoch);
        // Integers are written out step by step, and so are the rows of workloads that forget.
        let endless = expected.is_some() && grid.is_none() && workload.is_prefix_sum();
        let length = if endless { ENDLESS } else { first_epoch };
        let plan = plan_epoch(workload, (method, expected), &footprint, &budget, grid, 0, length)?;
        let first = Arc::new(Epoch::new(0, plan));
        let epochs = Mutex::new(vec![Arc::clone(&first)]);
        let workload = workload.clone();
        let parts = Parts { workload, method, footprint, budget, grid, first_epoch, first, epochs };
        Ok(Self(Arc::new(parts)))
    }

    /// The statistic.
    pub(crate) fn workload(&self) -> &Workload {
        &self.0.workload
    }

    /// What one person can change.
    pub(crate) fn footprint(&self) -> &Footprint {
        &self.0.footprint
    }

    /// The budget for the whole endless stream.
    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// The number of steps of the first epoch, or how many are expected of one that need not end.
    pub(crate) fn first_epoch(&self) -> usize {
        self.0.first_epoch
    }

    /// The first epoch.
    pub(crate) fn first(&self) -> &Arc<Epoch> {
        &self.0.first
    }

    /// The epoch of the last of so many steps, and its number.
    ///
    /// # Errors
    /// As [`Self::epoch`].
    pub(crate) fn epoch_of(&self, step: usize) -> Result<(usize, Arc<Epoch>)> {
        let mut index = 0;
        loop {
            let epoch = self.epoch(index)?;
            if step <= epoch.end() {
                return Ok((index, epoch));
            }
            index += 1;
        }
    }

    /// An epoch, counted from 0.
    ///
    /// # Errors
    /// An epoch that is too long for the strategy or to count.
    pub(crate) fn epoch(&self, index: usize) -> Result<Arc<Epoch>> {
        let parts = &self.0;
        let mut epochs = parts.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        while epochs.len() <= index {
            let start = epochs.last().map_or(0, |epoch| epoch.end());
            let length = u32::try_from(epochs.len())
                .ok()
                .and_then(|doublings| 1_usize.checked_shl(doublings))
                .and_then(|factor| parts.first.end().checked_mul(factor))
                .filter(|length| length.checked_add(start).is_some())
                .ok_or(Error::HorizonReached { horizon: start })?;
            let Parts { workload, method, footprint, budget, grid, .. } = parts.as_ref();
            let plan = plan_epoch(workload, (*method, None), footprint, budget, *grid, start, length)?;
            epochs.push(Arc::new(Epoch::new(start, plan)));
        }
        Ok(Arc::clone(&epochs[index]))
    }

    /// The standard deviation of each coordinate of the release of `step`, counted from 1.
    ///
    /// # Complexity
    /// O(number of epochs) for the count, the average and exponential decay, whose past is one number. For others O(512²) at
    /// most: the noise of finished epochs of up to 512 steps is written out once, and nothing is said beyond them.
    ///
    /// # Errors
    /// Step zero, an epoch that cannot be planned, or matrices that would be too large.
    pub(crate) fn standard_deviation(&self, step: usize) -> Result<f64> {
        check_count("step", step)?;
        let mut variance = 0.0;
        for index in 0.. {
            let epoch = self.epoch(index)?;
            let within = step.min(epoch.end()) - epoch.start;
            variance += epoch.plan.sigma().powi(2) * self.squared_row(&epoch, step, within)?;
            if step <= epoch.end() {
                break;
            }
        }
        Ok(variance.sqrt())
    }

    /// What not knowing the horizon costs: the standard deviation of the release of `step` over that of the same
    /// strategy planned for exactly `step` steps.
    ///
    /// # Errors
    /// As [`Self::standard_deviation`], and what the plan for the known horizon refuses.
    #[cfg(test)]
    pub(crate) fn cost(&self, step: usize) -> Result<f64> {
        let unknown = self.standard_deviation(step)?;
        let parts = &self.0;
        let participation = common_participation(&parts.footprint)?;
        let problem = Problem::new(parts.workload.clone(), step)?.with_participation(participation);
        let known = Plan::idealized(parts.method.build(&problem)?, parts.footprint.clone(), parts.budget)?;
        Ok(unknown / known.standard_deviation(step).unwrap_or(f64::NAN))
    }

    /// The squared norm of row `step` of A, restricted to an epoch, times the unit input noise of that epoch.
    fn squared_row(&self, epoch: &Epoch, step: usize, within: usize) -> Result<f64> {
        let local = epoch.plan.row_norms().at(within - 1).unwrap_or(0.0);
        let workload = &self.0.workload;
        match workload.recurrence() {
            // The first epoch has an average of its own; the later ones are sums, divided here.
            Recurrence::First { .. } => {
                let divisor = workload.divisor(step - 1) / epoch.plan.workload().divisor(within - 1);
                Ok(local * (workload.weight(step - epoch.start - within) / divisor).powi(2))
            }
            _ if step <= epoch.end() => Ok(local),
            // The window has left the epoch behind.
            Recurrence::Window { width } if step - epoch.end() >= width => Ok(0.0),
            _ => self.squared_row_of_finished(epoch, step),
        }
    }

    /// As [`Self::squared_row`], from the matrices of a finished epoch.
    fn squared_row_of_finished(&self, epoch: &Epoch, step: usize) -> Result<f64> {
        let input_noise = epoch.input_noise().ok_or(Error::TooLarge {
            what: "the noise of a finished epoch",
            steps: epoch.plan.steps(),
            limit: REPORTED_EPOCH,
        })?;
        let row = self.0.workload.row(step, epoch.start..epoch.end())?;
        let noise = ndarray::aview1(&row).dot(input_noise);
        Ok(noise.dot(&noise))
    }
}

impl fmt::Debug for DoublingPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { workload, method, footprint, budget, grid, first_epoch, first: _, epochs: _ } =
            self.0.as_ref();
        formatter
            .debug_struct("DoublingPlan")
            .field("workload", workload)
            .field("method", method)
            .field("footprint", footprint)
            .field("budget", budget)
            .field("grid", grid)
            .field("first_epoch", first_epoch)
            .finish()
    }
}

/// The participation that all terms share.
fn common_participation(footprint: &Footprint) -> Result<Participation> {
    let mut participations = footprint.terms().iter().map(|term| term.participation);
    let first = participations.next().ok_or(Error::Empty { what: "footprint" })?;
    if participations.all(|other| other == first) {
        Ok(first)
    } else {
        Err(Error::OutOfRange {
            what: "the number of different participations in a footprint for an unknown horizon",
            value: footprint.terms().len() as f64,
            range: "one participation for all parts",
        })
    }
}

/// Calibrates an epoch so that m of a person's k steps use at most the fraction m/k of the budget (of μ²).
fn plan_epoch(
    workload: &Workload,
    (method, expected): (Method, Option<usize>),
    footprint: &Footprint,
    budget: &Budget,
    grid: Option<f64>,
    start: usize,
    length: usize,
) -> Result<Plan> {
    let participation = common_participation(footprint)?;
    let problem = Problem::new(workload.beginning_at(start)?, length)?.with_participation(participation);
    let problem = match expected {
        Some(expected) => problem.expecting(expected)?,
        None => problem,
    };
    let strategy = method.build(&problem)?;
    let (times, separation) = match participation {
        Participation::Single => (1, 1),
        Participation::Repeated(repeated) => (repeated.times(), repeated.separation()),
    };
    // The number of steps whose share of the budget is the tightest, by a squared sensitivity.
    let tightest = |squared: &dyn Fn(Participation) -> Result<f64>| -> Result<usize> {
        let (mut worst, mut worst_ratio) = (1, 0.0);
        for m in 1..=participation.times_within(length) {
            let ratio = squared(Participation::repeated(m, separation)?)? / m as f64;
            if ratio > worst_ratio {
                (worst, worst_ratio) = (m, ratio);
            }
        }
        Ok(worst)
    };
    let mut worst = tightest(&|participation| Ok(strategy.sensitivity(participation)?.squared))?;
    let within = |times: usize| -> Result<Footprint> {
        Ok(footprint.clone().with_participation(Participation::repeated(times, separation)?))
    };
    let Some(grid) = grid else {
        return Plan::idealized(strategy, within(worst)?, budget.share(worst as f64 / times as f64)?);
    };
    for _ in 0..4 {
        let plan = Plan::exact(&strategy, within(worst)?, exact_share(budget, worst, times)?, grid)?;
        // The integer matrix may find another number tighter.
        let integers = plan.integers().map(|exact| exact.strategy());
        let found = tightest(&|participation| match integers {
            Some(integers) => Ok(to_f64(&integers.squared_sensitivity(participation)?)),
            None => Ok(0.0),
        })?;
        // In l1 every number of participations is as tight as any other.
        if found == worst || matches!(budget.kind(), budget::Kind::Pure { .. }) {
            return Ok(plan);
        }
        worst = found;
    }
    Err(Error::NotApplicable {
        strategy: strategy.name(),
        workload: workload.to_string(),
        reason: "its integers leave open which participations are the worst",
    })
}

/// What m of k participations may use of a budget, for discrete noise: zCDP and pure ε add up exactly.
///
/// # Errors
/// A μ-GDP budget, which discrete noise satisfies up to a slack for every measurement, and so not for ever.
fn exact_share(budget: &Budget, some: usize, times: usize) -> Result<Budget> {
    // Less than the share by more than the ratios above are rounded.
    let share = some as f64 / times as f64 * (1.0 - 1e-12);
    match budget.kind() {
        budget::Kind::Gaussian { mu } => Err(Error::OutOfRange {
            what: "a mu-GDP budget for exact noise without an end",
            value: mu,
            range: "one of (epsilon, delta), rho or a pure epsilon, which hold without slack",
        }),
        _ if some == times && times == 1 => Ok(*budget),
        budget::Kind::Pure { .. } => budget.share(share),
        budget::Kind::ZeroConcentrated { rho } => Budget::zero_concentrated(rho * share),
        budget::Kind::Approximate { epsilon, delta } => {
            Budget::zero_concentrated(rho_from_approximate(epsilon, delta)? * share)
        }
    }
}
