//! What is asked for: which statistics over how many steps, who takes part how often, and which error counts.

use crate::error::{Error, Result, check_count, check_positive};
use crate::sensitivity::Participation;
use crate::strategy::{RowNorms, Strategy};
use crate::workload::Workload;

/// Which error counts, and to which the optimized strategies are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Metric {
    /// The mean squared error over all releases, `E2 = Δ² ‖B‖_F² / n`.
    #[default]
    Mse,
    /// The largest squared error of a release, `E∞ = Δ² max_t ‖b_t‖²`.
    Max,
}

impl Metric {
    /// The metric of a strategy's row norms, before the sensitivity.
    pub fn of(self, rows: &RowNorms) -> f64 {
        match self {
            Self::Mse => rows.mean(),
            Self::Max => rows.max(),
        }
    }

    /// The exponents of the power means of squared row norms that are minimized one after the other. The mean is itself;
    /// the maximum is approached through means that are smooth.
    pub(crate) fn power_means(self) -> &'static [i32] {
        match self {
            Self::Mse => &[1],
            Self::Max => &[16, 64, 256, 1000],
        }
    }
}

/// A statistic, and how much its squared error counts beside that of others.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistic {
    workload: Workload,
    weight: f64,
}

impl Statistic {
    /// A statistic whose squared error counts `weight` times.
    ///
    /// # Errors
    /// A weight that is not finite and positive.
    pub fn new(workload: Workload, weight: f64) -> Result<Self> {
        Ok(Self { workload, weight: check_positive("weight of a statistic", weight)? })
    }

    /// What is released.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// How much its squared error counts.
    pub fn weight(&self) -> f64 {
        self.weight
    }
}

/// What a strategy is built for: one statistic, or several of the same stream.
///
/// # Several statistics
///
/// Statistics `A_1 … A_m` of one stream need one noise and not m budgets: all of them are read off the inputs with the
/// strategy's noise, `A_i (x + C⁻¹z)`, which is post-processing of the one measurement `C x + z`. A [`Problem::joint`]
/// asks for the strategy of least `Σ w_i E_i`, where `E_i = Δ² ‖A_i C⁻¹‖_F² / n`. What its mechanism releases is the noisy
/// input of every step, [`Workload::step`]; [`crate::joint`] goes on from there.
///
/// # Example
/// ```
/// use dp_mechanisms::{Method, Metric, Participation, Problem, Workload};
/// let year = Problem::new(Workload::count(), 365)?;
/// let strategy = Method::ScaledBlt.build(&year)?;
/// assert!(strategy.row_norms()?.mean() < 7.1);
/// // Somebody comes back after a month at the earliest, four times at most; the worst day counts.
/// let regulars = year.with_participation(Participation::repeated(4, 30)?).with_metric(Metric::Max);
/// assert_eq!((regulars.steps(), regulars.metric()), (365, Metric::Max));
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// What is released.
    workload: Workload,
    /// What the error is measured by: the workload, or several statistics that are read off the noisy inputs.
    statistics: Vec<Statistic>,
    joint: bool,
    steps: usize,
    participation: Participation,
    metric: Metric,
    expected: Option<usize>,
}

impl Problem {
    /// The mean squared error of a workload over so many steps, for a single participation.
    ///
    /// # Errors
    /// Zero steps.
    pub fn new(workload: Workload, steps: usize) -> Result<Self> {
        check_count("steps", steps)?;
        let statistics = vec![Statistic { workload: workload.clone(), weight: 1.0 }];
        let (participation, metric) = (Participation::Single, Metric::Mse);
        Ok(Self { workload, statistics, joint: false, steps, participation, metric, expected: None })
    }

    /// The weighted sum of the mean squared errors of several statistics of one stream, for a single participation.
    ///
    /// # Errors
    /// Zero steps, or no statistics.
    pub fn joint(statistics: Vec<Statistic>, steps: usize) -> Result<Self> {
        if statistics.is_empty() {
            return Err(Error::Empty { what: "the list of statistics" });
        }
        Ok(Self { statistics, joint: true, ..Self::new(Workload::step(), steps)? })
    }

    /// The same under another participation.
    pub fn with_participation(self, participation: Participation) -> Self {
        Self { participation, ..self }
    }

    /// The same for another metric.
    pub fn with_metric(self, metric: Metric) -> Self {
        Self { metric, ..self }
    }

    /// The same where about so many steps are expected, and [`Problem::steps`] are the most that there can be: what
    /// [`Method::Anytime`](crate::Method::Anytime) is made for, and nothing else.
    ///
    /// # Errors
    /// Zero steps.
    pub fn expecting(self, steps: usize) -> Result<Self> {
        let expected = Some(check_count("expected length", steps)?);
        Ok(Self { expected, ..self })
    }

    /// The same over another number of steps, which is not zero.
    pub(crate) fn with_steps(&self, steps: usize) -> Self {
        Self { steps: steps.max(1), ..self.clone() }
    }

    /// What a mechanism releases: the statistic, or the noisy inputs from which several are read off.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// What the error is measured by, and the fitted strategies are fitted to.
    pub fn statistics(&self) -> &[Statistic] {
        &self.statistics
    }

    /// Whether the statistics are read off noisy inputs, and not released themselves: a [`Problem::joint`].
    pub fn is_joint(&self) -> bool {
        self.joint
    }

    /// The number of steps n, at least 1.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// How many steps are expected, where that was said.
    pub fn expected(&self) -> Option<usize> {
        self.expected
    }

    /// How often one person takes part: what the optimized strategies are fitted to.
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// The error that counts.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The largest number of steps that one person can take part in.
    pub fn times(&self) -> usize {
        self.participation.times_within(self.steps)
    }

    /// Whether one person can take part up to the end: `times · separation ≥ n`. Then little is lost where no two columns of one
    /// person meet.
    pub(crate) fn fills_horizon(&self) -> bool {
        self.times().saturating_mul(self.participation.separation()) >= self.steps
    }

    /// The squared norms of the rows of every statistic's decoder `A_i C⁻¹`, in the order of the statistics.
    ///
    /// # Errors
    /// A strategy whose noise serves its own workload alone, or as [`Strategy::row_norms`].
    pub fn row_norms(&self, strategy: &dyn Strategy) -> Result<Vec<RowNorms>> {
        if !self.is_joint() {
            return Ok(vec![strategy.row_norms()?]);
        }
        self.statistics.iter().map(|one| strategy.reading(&one.workload)?.row_norms()).collect()
    }

    /// The error of a strategy, `Σ w_i E_i`: `Δ²` under the participation times the metric of the rows.
    ///
    /// # Errors
    /// As [`Problem::row_norms`] and [`Strategy::sensitivity`].
    pub fn error(&self, strategy: &dyn Strategy) -> Result<f64> {
        let rows = self.row_norms(strategy)?;
        Ok(strategy.sensitivity(self.participation)?.squared * self.total(&rows, self.metric))
    }

    /// The weighted sum of a metric over the statistics.
    pub(crate) fn total(&self, rows: &[RowNorms], metric: Metric) -> f64 {
        self.statistics.iter().zip(rows).map(|(one, rows)| one.weight * metric.of(rows)).sum()
    }
}
