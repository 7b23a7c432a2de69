//! The plan: what is released, for how long, in which arithmetic, and with how much noise. The only place that computes σ.

mod continued;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::accountant::sampling::CyclicPoisson;
use crate::budget::{Budget, Kind, upper_quantile};
use crate::error::{Error, Result, check_count};
use crate::exact::{ExactPlan, ExactRun};
use crate::horizon::{DoublingPlan, DoublingRun};
use crate::identity::Digest;
use crate::noise::{Seeds, Side, used_rows};
use crate::run::{LinearRun, Run};
use crate::saved::Saved;
use crate::sensitivity::{Domain, Footprint, Sensitivity};
use crate::strategy::{Method, RowNorms, Strategy, check_columns};
use crate::workload::Workload;

/// A strategy with the noise that a budget and a footprint demand. It exists only calibrated.
///
/// `σ = Δ / μ`, where Δ is the sensitivity of the strategy under the footprint and μ what the budget buys; every
/// step of the computation is rounded up. [`Plan::best`] chooses the strategy, [`Plan::exact`] takes one: data meets noise in exact
/// integers there, Δ is an integer and σ² a rational. Whoever publishes nothing but what is learned from it may ask for floating point by
/// its name, [`Plan::idealized`]. Without a known end ([`Plan::doubling`]) there is a σ for every epoch.
///
/// # Privacy
/// All releases together satisfy the budget under the footprint's neighbouring relation, for adaptively chosen
/// inputs.
///
/// # Example
/// ```
/// use dp_mechanisms::{Budget, Footprint, Method, Participation, Plan, Problem, Relation, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 365)?)?;
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// // Visits are whole numbers: the unit is 1.
/// let plan = Plan::exact(&strategy, footprint, Budget::approximate(1.0, 1e-6)?, 1.0)?;
/// assert!(plan.standard_deviation(365).unwrap() < 13.0);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    footprint: Footprint,
    budget: Budget,
    side: Side,
    form: Form,
    numbers: Arc<Numbers>,
}

/// The coefficients in use, looked up by the first who asks.
#[derive(Debug, Default)]
struct Numbers {
    digest: OnceLock<Digest>,
    saved: OnceLock<Option<Arc<Saved>>>,
}

/// How a plan runs.
#[derive(Debug, Clone)]
enum Form {
    Idealized(Arc<Calibrated>),
    Exact(Arc<ExactPlan>),
    Doubling(DoublingPlan),
}

/// A strategy with its noise.
#[derive(Debug)]
struct Calibrated {
    strategy: Arc<dyn Strategy>,
    sensitivity: Sensitivity,
    sigma: f64,
    rows: RowNorms,
    /// Who is drawn when, where that is part of the guarantee.
    sampling: Option<CyclicPoisson>,
}

/// In which arithmetic data meets noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arithmetic {
    /// Gaussian noise in floating point, whose low bits are not those of real numbers: for learning, not for publishing.
    Idealized,
    /// Integers plus discrete noise; inputs are multiples of the grid.
    Exact {
        /// The unit of the data.
        grid: f64,
    },
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idealized => formatter.write_str("idealized"),
            Self::Exact { grid } => write!(formatter, "exact on a grid of {grid}"),
        }
    }
}

/// For how many steps there is noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizon {
    /// So many.
    Steps(usize),
    /// Without an end: epochs of doubling length, the first of so many steps.
    Doubling(usize),
}

impl fmt::Display for Horizon {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(formatter, "{steps} steps"),
            Self::Doubling(first) => write!(formatter, "no end, in epochs of {first} steps and doubling"),
        }
    }
}

impl Plan {
    /// Calibrates a strategy in floating point: for learning, whose gradients are no integers, and for experiments.
    ///
    /// # Privacy
    /// That of Gaussian noise in the real numbers. The low bits of a released double are not theirs, and can give a person away to
    /// whoever studies them: publish what [`Plan::best`] and [`Plan::exact`] plan.
    ///
    /// # Errors
    /// When the sensitivity under the footprint cannot be bounded (or is proved for other strategies only), σ is not
    /// a finite number, or the budget is a pure ε, which no Gaussian noise satisfies.
    pub fn idealized(strategy: Arc<dyn Strategy>, footprint: Footprint, budget: Budget) -> Result<Self> {
        if let Kind::Pure { epsilon } = budget.kind() {
            return Err(Error::OutOfRange {
                what: "a pure epsilon budget for Gaussian noise",
                value: epsilon,
                range: "one with a delta, or an exact plan, which has discrete Laplace noise",
            });
        }
        check_columns(strategy.as_ref(), &footprint)?;
        let sensitivity =
            footprint.squared_sensitivity(|participation| strategy.sensitivity(participation))?;
        let sigma = (sensitivity.squared.sqrt().next_up() / budget.mu()).next_up();
        if !(sigma > 0.0 && sigma.is_finite()) {
            return Err(Error::OutOfRange {
                what: "the noise that budget and bounds demand",
                value: sigma,
                range: "a finite positive number",
            });
        }
        let rows = strategy.row_norms()?;
        let calibrated = Calibrated { strategy, sensitivity, sigma, rows, sampling: None };
        Ok(Self::of(footprint, budget, Form::Idealized(Arc::new(calibrated))))
    }

    fn of(footprint: Footprint, budget: Budget, form: Form) -> Self {
        Self { footprint, budget, side: Side::Output, form, numbers: Arc::default() }
    }

    /// What the accountant has calibrated for people who are drawn at random; see
    /// [`SampledPlan::releases`](crate::accountant::sampling::SampledPlan::releases), which alone makes it.
    pub(crate) fn sampled(
        strategy: Arc<dyn Strategy>,
        footprint: Footprint,
        budget: Budget,
        sensitivity: Sensitivity,
        sigma: f64,
        rows: RowNorms,
        sampling: CyclicPoisson,
    ) -> Self {
        let calibrated = Calibrated { strategy, sensitivity, sigma, rows, sampling: Some(sampling) };
        Self::of(footprint, budget, Form::Idealized(Arc::new(calibrated)))
    }

    /// Calibrates a strategy for inputs that are multiples of `grid`, in exact integers: see [`crate::exact`].
    ///
    /// # Privacy
    /// As [`Plan::idealized`], also for somebody who sees every bit. A μ-GDP budget is satisfied up to [`Plan::slack`].
    ///
    /// # Errors
    /// A footprint that does not state its dimension, a strategy that cannot be measured on live data, bounds that are too
    /// wide or a grid that is too fine, a pure ε for anything but numbers with bounds, or what calibration refuses.
    pub fn exact(
        strategy: &Arc<dyn Strategy>,
        footprint: Footprint,
        budget: Budget,
        grid: f64,
    ) -> Result<Self> {
        let dimension = stated(&footprint)?;
        let exact = ExactPlan::new(strategy, footprint.clone(), dimension, grid, budget.kind())?;
        Ok(Self::of(footprint, budget, Form::Exact(Arc::new(exact))))
    }

    /// A stream without a known end: epochs of doubling length, the first of `first_epoch` steps, each with a strategy of its
    /// own by the same method and the whole budget for whoever takes part in it. [`Method::Anytime`] is calibrated for ever and
    /// expects `first_epoch` steps: for counts and averages its first epoch does not end (before 2^40 steps), and the mean squared error of a
    /// count of single contributions stays within 1.3 times the best for exactly t steps for all t from the expected length (of a hundred or more) on.
    ///
    /// In exact integers every epoch is measured as [`Plan::exact`] does, and the statistic is read off the noisy inputs.
    ///
    /// # Privacy
    /// As [`Plan::exact`] and [`Plan::idealized`]. Under several participations an (ε, δ) is shared in exact integers as the
    /// zCDP that implies it, which adds up exactly for discrete noise, and so costs more noise than in floating point.
    ///
    /// # Errors
    /// A first epoch of zero steps, several participations in one footprint, or what its strategy refuses; in exact integers also
    /// what [`Plan::exact`] refuses, and a μ-GDP budget: its slack grows with the number of steps.
    pub fn doubling(
        workload: &Workload,
        method: Method,
        footprint: Footprint,
        budget: Budget,
        arithmetic: Arithmetic,
        first_epoch: usize,
    ) -> Result<Self> {
        let grid = match arithmetic {
            Arithmetic::Exact { grid } => {
                stated(&footprint)?;
                Some(grid)
            }
            Arithmetic::Idealized => None,
        };
        Ok(Self::of_epochs(DoublingPlan::new(workload, method, footprint, budget, grid, first_epoch)?))
    }

    pub(crate) fn of_epochs(epochs: DoublingPlan) -> Self {
        let (footprint, budget) = (epochs.footprint().clone(), *epochs.budget());
        Self::of(footprint, budget, Form::Doubling(epochs))
    }

    #[cfg(test)]
    pub(crate) fn of_exact(exact: ExactPlan, budget: Budget) -> Self {
        let footprint = exact.footprint().clone().of_dimension(exact.dimension()).unwrap();
        Self::of(footprint, budget, Form::Exact(Arc::new(exact)))
    }

    /// The same plan, releasing every input with its noise, `x_t + σ ξ_t` with `ξ = A⁻¹ B z`, instead of the statistic.
    ///
    /// The workload applied to these releases is what the statistic's release would have been, `A (x + σξ) = A x + σ B z`. A
    /// caller who computes on from the noisy inputs, such as an optimizer, needs no statistic kept here: everything it makes
    /// of them is post-processing. Standard deviations stay those of the workload's answers; the noise of one input says
    /// little, because most of it cancels in the next ones.
    ///
    /// # Privacy
    /// The same, of which it is an invertible function.
    ///
    /// # Errors
    /// Exact arithmetic and unknown horizons, which release the statistic only.
    pub fn releasing_inputs(mut self) -> Result<Self> {
        if !matches!(self.form, Form::Idealized(_)) {
            return Err(Error::NotApplicable {
                strategy: self.strategy().name(),
                workload: self.workload().to_string(),
                reason: "inputs are released with their noise in floating point and for a known number of steps only",
            });
        }
        self.side = Side::Input;
        Ok(self)
    }

    /// The same plan for vectors of so many coordinates; see [`Footprint::of_dimension`].
    ///
    /// # Errors
    /// A dimension of zero, or another one than the footprint was proved for.
    pub fn of_dimension(mut self, dimension: usize) -> Result<Self> {
        self.footprint = self.footprint.of_dimension(dimension)?;
        Ok(self)
    }

    /// The number of coordinates of an input.
    ///
    /// # Errors
    /// A footprint that does not state it.
    pub fn dimension(&self) -> Result<usize> {
        stated(&self.footprint)
    }

    /// The statistic.
    pub fn workload(&self) -> &Workload {
        match &self.form {
            Form::Doubling(epochs) => epochs.workload(),
            _ => self.strategy().workload(),
        }
    }

    /// The strategy; that of the first epoch where there are epochs.
    pub fn strategy(&self) -> &Arc<dyn Strategy> {
        match &self.form {
            Form::Idealized(calibrated) => &calibrated.strategy,
            Form::Exact(exact) => exact.strategy().source(),
            Form::Doubling(epochs) => epochs.first().plan.strategy(),
        }
    }

    /// What one person can change.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// The budget for all releases together.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// In which arithmetic data meets noise.
    pub fn arithmetic(&self) -> Arithmetic {
        match &self.form {
            Form::Exact(exact) => Arithmetic::Exact { grid: exact.grid() },
            Form::Doubling(epochs) => epochs.first().plan.arithmetic(),
            Form::Idealized(_) => Arithmetic::Idealized,
        }
    }

    /// For how many steps there is noise.
    pub fn horizon(&self) -> Horizon {
        match &self.form {
            Form::Doubling(epochs) => Horizon::Doubling(epochs.first_epoch()),
            _ => Horizon::Steps(self.steps()),
        }
    }

    /// Who must be drawn when, where the noise relies on it; nothing where the footprint alone is enough.
    pub fn sampling(&self) -> Option<CyclicPoisson> {
        match &self.form {
            Form::Idealized(calibrated) => calibrated.sampling,
            _ => None,
        }
    }

    /// Whether inputs are released instead of the statistic.
    pub fn releases_inputs(&self) -> bool {
        self.side == Side::Input
    }

    /// The sensitivity of the strategy under the footprint: ℓ2, squared, in units of the data. That of the integer strategy in
    /// exact arithmetic (the square of the ℓ1 sensitivity for a pure ε), and of the first epoch where there are epochs.
    pub fn sensitivity(&self) -> Sensitivity {
        match &self.form {
            Form::Idealized(calibrated) => calibrated.sensitivity,
            Form::Exact(exact) => exact.sensitivity_in_units_of_data(),
            Form::Doubling(epochs) => epochs.first().plan.sensitivity(),
        }
    }

    /// The standard deviation of every entry of `z`, in units of the data; of the first epoch where there are epochs.
    pub fn sigma(&self) -> f64 {
        match &self.form {
            Form::Idealized(calibrated) => calibrated.sigma,
            Form::Exact(exact) => exact.sigma(),
            Form::Doubling(epochs) => epochs.first().plan.sigma(),
        }
    }

    /// The number of steps; [`usize::MAX`] without an end.
    pub fn steps(&self) -> usize {
        match &self.form {
            Form::Idealized(calibrated) => calibrated.strategy.steps(),
            Form::Exact(exact) => exact.steps(),
            Form::Doubling(_) => usize::MAX,
        }
    }

    /// The standard deviation `σ‖b_t‖` of each coordinate of the release of step `t`, counted from 1. Without an end, nothing
    /// where it would take matrices that are too large.
    pub fn standard_deviation(&self, step: usize) -> Option<f64> {
        if let Form::Doubling(epochs) = &self.form {
            epochs.standard_deviation(step).ok()
        } else {
            let index = step.checked_sub(1)?;
            self.row_norms().at(index).map(|squared| self.sigma() * squared.sqrt())
        }
    }

    /// The standard deviations of all steps in turn: for a stream, O(1) amortized where [`Plan::standard_deviation`] evaluates a
    /// closed form. Without an end it goes on for as long as they are known.
    pub fn deviations(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        if let Form::Doubling(_) = &self.form {
            Box::new((1..).map_while(|step| self.standard_deviation(step)))
        } else {
            let sigma = self.sigma();
            Box::new(self.row_norms().iter().map(move |squared| sigma * squared.sqrt()))
        }
    }

    /// The most by which rounding inputs to the grid moves the release of step `t`; 0 in floating point. Without an end it is
    /// known for the first epoch.
    pub fn quantization(&self, step: usize) -> f64 {
        match &self.form {
            Form::Exact(exact) => exact.quantization(step).unwrap_or(0.0),
            Form::Doubling(epochs) => epochs.first().plan.quantization(step),
            Form::Idealized(_) => 0.0,
        }
    }

    /// The unit of which every statistic is a multiple, where there is one: inputs are multiples of a grid and are summed up,
    /// all of them or those of a window.
    pub fn release_unit(&self) -> Option<f64> {
        self.unit_of(self.workload())
    }

    /// The same for a statistic that is read off the noisy inputs.
    pub(crate) fn unit_of(&self, workload: &Workload) -> Option<f64> {
        match self.arithmetic() {
            Arithmetic::Exact { grid } if workload.stays_on_grid() && !self.releases_inputs() => Some(grid),
            _ => None,
        }
    }

    /// A release on the grid of its statistic, so that counts come out as whole numbers; as it is where the statistic has none.
    /// Post-processing, which moves it by half a unit at most.
    ///
    /// # Example
    /// ```
    /// use dp_mechanisms::{Budget, Footprint, Method, Participation, Plan, Problem, Relation, Workload};
    /// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 365)?)?;
    /// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
    /// let budget = Budget::approximate(1.0, 1e-6)?;
    /// assert_eq!(Plan::exact(&strategy, footprint.clone(), budget, 1.0)?.on_grid(41.7), 42.0);
    /// assert_eq!(Plan::idealized(strategy, footprint, budget)?.on_grid(41.7), 41.7);
    /// # Ok::<(), dp_mechanisms::Error>(())
    /// ```
    pub fn on_grid(&self, release: f64) -> f64 {
        self.on_grid_of(self.workload(), release)
    }

    /// The same for a statistic that is read off the noisy inputs.
    pub(crate) fn on_grid_of(&self, workload: &Workload, release: f64) -> f64 {
        // Adding zero turns the negative one, which would be written with its sign, into the other.
        self.unit_of(workload).map_or(release, |unit| (release / unit).round() * unit + 0.0)
    }

    /// How many standard deviations the noise of a release exceeds, to one side, with the given probability at most: for any
    /// fixed linear combination of the noise of so many coordinates' releases.
    ///
    /// `Φ⁻¹(1 - p)` for continuous Gaussian noise. Discrete Gaussian noise is within `s = m/(24σ²)` of a continuous one rounded to
    /// integers, in total variation and for all m values together ([`crate::exact`]). Rounding moves a combination
    /// `Σ a_i z_i` by at most `½ Σ|a_i| ≤ ½ √m ‖a‖`, which is `√m/(2σ)` of its deviations `σ‖a‖`. So
    /// `Φ⁻¹(1 - (p - s)) + √m/(2σ)` deviations are enough; and so are `√(2 ln(1/p))`, because the exponential moments of the
    /// discrete Gaussian are at most those of the continuous one. The smaller of the two is taken. For discrete Laplace noise it is
    /// Cantelli's bound `√(1/p)`.
    ///
    /// # Errors
    /// A probability outside (0, 1), or so small that f64 has no quantile for it.
    pub fn tail_deviations(&self, probability: f64, coordinates: f64) -> Result<f64> {
        let range = "strictly between 0 and 1, and large enough for f64";
        let refused = Error::OutOfRange { what: "probability of a tail", value: probability, range };
        if !(probability > 0.0 && probability < 1.0) {
            return Err(refused);
        }
        let deviations = match &self.form {
            Form::Exact(exact) => exact.tail_deviations(probability, coordinates),
            _ => upper_quantile(probability),
        };
        if deviations < 40.0 || self.integers().is_some() { Ok(deviations) } else { Err(refused) }
    }

    /// The most by which decoding with the real matrix moves a release, in standard deviations of its noise; 0 in floating
    /// point. Below 1e-6 for inputs within their bounds; for encodings, with at most `2^20` grid units of a coordinate in
    /// every step. Of the first epoch where there are epochs.
    pub fn decoding_bias(&self) -> f64 {
        match &self.form {
            Form::Exact(exact) => exact.decoding_bias(),
            Form::Doubling(epochs) => epochs.first().plan.decoding_bias(),
            Form::Idealized(_) => 0.0,
        }
    }

    /// How far exact noise is from the Gaussian noise that a μ-GDP budget speaks of, in total variation: the releases are
    /// within this distance of those of a mechanism that is μ-GDP. Every other budget is satisfied without slack, and so is
    /// this one in idealized arithmetic.
    pub fn slack(&self) -> f64 {
        match &self.form {
            Form::Exact(exact) => exact.slack(),
            _ => 0.0,
        }
    }

    /// The squared row norms behind the standard deviations; of the first epoch where there are epochs.
    pub fn row_norms(&self) -> &RowNorms {
        match &self.form {
            Form::Idealized(calibrated) => &calibrated.rows,
            Form::Exact(exact) => exact.row_norms(),
            Form::Doubling(epochs) => epochs.first().plan.row_norms(),
        }
    }

    /// The half-width within which all `steps · dimension` released coordinates stay at once with probability
    /// `1 - failure`: `σ max_t‖b_t‖ sqrt(2 ln(2nd/β))`.
    ///
    /// # Errors
    /// A failure probability outside (0, 1), a dimension of zero, or an unknown number of steps.
    pub fn simultaneous_band(&self, dimension: usize, failure: f64) -> Result<f64> {
        check_count("dimension", dimension)?;
        if !(failure > 0.0 && failure < 1.0) {
            return Err(Error::OutOfRange {
                what: "failure probability",
                value: failure,
                range: "strictly between 0 and 1",
            });
        }
        if matches!(self.form, Form::Doubling(_)) {
            return Err(Error::HorizonReached { horizon: 0 });
        }
        let values = self.steps() as f64 * dimension as f64;
        Ok(self.sigma() * self.row_norms().max().sqrt() * (2.0 * (2.0 * values / failure).ln()).sqrt())
    }

    /// The integers behind the plan, where it is exact.
    pub(crate) fn integers(&self) -> Option<&Arc<ExactPlan>> {
        match &self.form {
            Form::Exact(exact) => Some(exact),
            _ => None,
        }
    }

    /// The plan at work, before its first step.
    pub(crate) fn start(&self, dimension: usize, seeds: Seeds) -> Result<Box<dyn Run>> {
        Ok(match &self.form {
            Form::Idealized(calibrated) => {
                let strategy = calibrated.strategy.as_ref();
                Box::new(LinearRun::new(strategy, calibrated.sigma, dimension, self.side, seeds)?)
            }
            Form::Exact(exact) => Box::new(ExactRun::new(Arc::clone(exact), 0..dimension, seeds, self.side)?),
            Form::Doubling(epochs) => Box::new(DoublingRun::new(epochs.clone(), dimension, seeds)?),
        })
    }

    /// The coordinates `part` of the plan at work, before their first step.
    ///
    /// # Errors
    /// Coordinates that the plan does not have, and plans whose coordinates are not measured one by one: those in floating
    /// point, those without an end, and those of vectors whose norm is bounded as a whole.
    pub(crate) fn start_part(&self, part: Range<usize>, seeds: Seeds) -> Result<Box<dyn Run>> {
        let dimension = self.dimension()?;
        if part.is_empty() || part.end > dimension {
            return Err(Error::Dimension {
                what: "the plan of which a part is asked for",
                expected: part.end.max(part.start + 1),
                actual: dimension,
            });
        }
        match (&self.form, self.footprint.domain()) {
            (Form::Exact(exact), Domain::Encoded | Domain::Interval { .. }) => {
                Ok(Box::new(ExactRun::new(Arc::clone(exact), part, seeds, self.side)?))
            }
            _ => Err(Error::OutOfRange {
                what: "the part of a plan",
                value: part.len() as f64,
                range: "all coordinates, unless the plan is exact and bounds every coordinate by itself",
            }),
        }
    }

    /// The first row of noise, by part of the mechanism, that no release up to a step has used.
    pub(crate) fn used_rows(&self, step: usize) -> Result<(usize, usize)> {
        match &self.form {
            Form::Idealized(calibrated) => Ok((0, used_rows(calibrated.strategy.as_ref(), step)?)),
            Form::Exact(exact) => Ok((0, exact.used_rows(step))),
            Form::Doubling(epochs) => {
                let (index, epoch) = epochs.epoch_of(step)?;
                Ok((index, epoch.plan.used_rows(step - epoch.start)?.1))
            }
        }
    }
}

pub(crate) fn stated(footprint: &Footprint) -> Result<usize> {
    footprint.dimension().ok_or(Error::OutOfRange {
        what: "the dimension of a footprint that bounds whole vectors",
        value: f64::NAN,
        range: "one that is stated before a mechanism is made: Plan::of_dimension",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensitivity::{Participation, Relation, Term};
    use crate::workload::Workload;
    use crate::{Method, Problem};

    #[test]
    fn proofs_that_need_non_negative_columns_get_them() {
        let term = Term { weight: 1.0, participation: Participation::Single };
        let footprint = Footprint::encoded(vec![term], Relation::Replace).unwrap();
        let budget = Budget::gaussian(1.0).unwrap();
        // 1 - x: neighbouring columns have inner product -1, and their difference has squared norm 6, not 4.
        let signed = Workload::weights(&[1.0, -1.0]).unwrap();
        let plan = |method: Method, workload: &Workload, footprint: Footprint| {
            let strategy = method.build(&Problem::new(workload.clone(), 9)?)?;
            Plan::idealized(strategy, footprint, budget)
        };
        assert!(plan(Method::Output, &signed, footprint.clone()).is_ok());
        let needing = footprint.needing_non_negative_columns();
        let refused = plan(Method::Output, &signed, needing.clone());
        assert!(matches!(refused, Err(Error::NotApplicable { strategy: "output", .. })));
        for &method in Method::ALL {
            // Every strategy for the count is decided by what its columns do.
            let outcome = plan(method, &Workload::count(), needing.clone());
            let columns = method.build(&Problem::new(Workload::count(), 9).unwrap()).unwrap();
            let matrix = columns.materialize().unwrap().strategy;
            let smallest = matrix.t().dot(&matrix).iter().copied().fold(f64::INFINITY, f64::min);
            assert_eq!(outcome.is_ok(), smallest >= -1e-12, "{method}: smallest inner product {smallest}");
        }
    }
}
