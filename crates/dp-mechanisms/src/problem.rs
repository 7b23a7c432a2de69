//! What is asked for: which statistic over how many steps, who takes part how often, and which error counts.

use serde::Serialize;

use crate::error::{Result, check_count};
use crate::sensitivity::Participation;
use crate::strategy::RowNorms;
use crate::workload::Workload;

/// Which error counts, and to which the optimized strategies are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
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

/// What a strategy is built for.
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
    workload: Workload,
    steps: usize,
    participation: Participation,
    metric: Metric,
}

impl Problem {
    /// The mean squared error of a workload over so many steps, for a single participation.
    ///
    /// # Errors
    /// Zero steps.
    pub fn new(workload: Workload, steps: usize) -> Result<Self> {
        check_count("steps", steps)?;
        Ok(Self { workload, steps, participation: Participation::Single, metric: Metric::Mse })
    }

    /// The same under another participation.
    pub fn with_participation(self, participation: Participation) -> Self {
        Self { participation, ..self }
    }

    /// The same for another metric.
    pub fn with_metric(self, metric: Metric) -> Self {
        Self { metric, ..self }
    }

    /// The same over another number of steps, which is not zero.
    pub(crate) fn with_steps(&self, steps: usize) -> Self {
        Self { steps: steps.max(1), ..self.clone() }
    }

    /// What is released.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The number of steps n, at least 1.
    pub fn steps(&self) -> usize {
        self.steps
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
}
