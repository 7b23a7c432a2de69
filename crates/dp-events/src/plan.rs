//! Every release with its strategy, its noise and its part of the budget, before any data is read.

use dp_mechanisms::exact::budget::rho_from_approximate;
use dp_mechanisms::exact::{ExactBudget, ExactPlan};
use dp_mechanisms::{Method, Participation, Problem, Statistic as JointStatistic, Workload};

use crate::encoding::{Encoding, Measure};
use crate::error::{Error, Result};
use crate::spec::{Promise, Release, Spec, Statistic};

/// The methods whose noise serves any statistic of the stream, best first.
const METHODS: [Method; 3] = [Method::ScaledSqrt, Method::NormalizedSqrt, Method::Sqrt];

/// One release, planned.
pub struct Planned {
    /// The name of the release.
    pub name: String,
    pub(crate) plan: ExactPlan,
    pub(crate) encoding: Encoding,
    pub(crate) statistics: Vec<Statistic>,
    pub(crate) keys: usize,
    /// The standard deviation of every statistic at every step, in units of a cell.
    deviations: Vec<Vec<f64>>,
    /// What this release adds to the total, `ρ = Δ²/(2σ²)`, rounded up.
    rho: f64,
}

impl Planned {
    /// The strategy behind the noise.
    pub fn strategy(&self) -> &'static str {
        self.plan.strategy().name()
    }

    /// What this release spends, as ρ of zero-concentrated differential privacy.
    pub fn rho(&self) -> f64 {
        self.rho
    }

    /// The number of cells that are measured at every step.
    pub fn dimension(&self) -> usize {
        self.plan.dimension()
    }

    /// The statistics, in the order in which they are printed.
    pub fn statistics(&self) -> &[Statistic] {
        &self.statistics
    }

    /// The bytes that a run keeps of this release: its cells at every step.
    pub fn memory(&self) -> usize {
        self.plan.dimension() * self.plan.steps() * size_of::<i64>()
    }

    /// The standard deviation of a statistic at a step counted from 0, as it is printed; nothing for means and quantiles,
    /// whose error depends on the numbers themselves.
    pub fn standard_deviation(&self, statistic: usize, step: usize) -> Option<f64> {
        let factor = match (&self.encoding.measure, self.statistics.get(statistic)?) {
            (_, Statistic::Mean | Statistic::Quantile(_)) => return None,
            (Measure::Mean { centre, half }, _) => {
                let share = *centre as f64 / *half as f64;
                libm::sqrt(1.0 + share * share)
            }
            _ => 1.0,
        };
        Some(self.deviations.get(statistic)?.get(step)? * factor * self.encoding.resolution())
    }

    /// The standard deviation of a statistic of cells at a step counted from 0, in units of a cell.
    pub(crate) fn cell_deviation(&self, statistic: usize, step: usize) -> f64 {
        self.deviations.get(statistic).and_then(|steps| steps.get(step)).copied().unwrap_or(f64::INFINITY)
    }
}

/// Plans every release of a description.
///
/// # Privacy
/// All releases together satisfy the budget: discrete Gaussian noise of parts `ρ_i` composes to `Σ ρ_i`, also adaptively. A
/// single release gets the budget as it is stated.
///
/// # Errors
/// What calibration refuses, by the name of the release.
pub fn plan(spec: &Spec) -> Result<Vec<Planned>> {
    let columns = spec.columns();
    let encodings = Encoding::all(spec, &columns);
    let budgets = shares(spec)?;
    let planned = spec.releases.iter().zip(encodings).zip(budgets);
    planned
        .map(|((release, encoding), budget)| {
            one(spec, release, encoding, budget)
                .map_err(|source| Error::Mechanism { release: release.name.clone(), source })
        })
        .collect()
}

/// The budget of every release.
fn shares(spec: &Spec) -> Result<Vec<ExactBudget>> {
    let refuse = |source| Error::Mechanism { release: spec.releases[0].name.clone(), source };
    let rho = match (spec.privacy.budget, spec.releases.len()) {
        (Promise::Approximate { epsilon, delta }, 1) => {
            return Ok(vec![ExactBudget::Approximate { epsilon, delta }]);
        }
        (Promise::Approximate { epsilon, delta }, _) => {
            rho_from_approximate(epsilon, delta).map_err(refuse)?
        }
        (Promise::ZeroConcentrated { rho }, _) => rho,
    };
    let total: f64 = spec.releases.iter().map(|release| release.share).sum();
    // Every part is rounded down by more than what it, and the sum of parts, can gain by rounding later.
    let slack = 1.0 - 1e-11;
    let parts = spec.releases.iter().map(|release| rho * (release.share / total) * slack);
    Ok(parts.map(|rho| ExactBudget::ZeroConcentrated { rho }).collect())
}

fn one(
    spec: &Spec,
    release: &Release,
    encoding: Encoding,
    budget: ExactBudget,
) -> dp_mechanisms::Result<Planned> {
    let steps = spec.calendar.steps();
    let footprint = encoding.footprint(spec)?;
    let participation = footprint.terms().first().map_or(Participation::Single, |term| term.participation);
    let workloads: Vec<Workload> =
        release.statistics.iter().map(|one| one.workload()).collect::<dp_mechanisms::Result<_>>()?;
    // The error of every statistic counts in units of what it would be alone.
    let weighted = workloads.iter().zip(&release.weights).map(|(workload, importance)| {
        let alone = Problem::new(workload.clone(), steps)?.with_participation(participation);
        JointStatistic::new(workload.clone(), importance / least_error(&alone)?)
    });
    let weighted = weighted.collect::<dp_mechanisms::Result<_>>()?;
    let problem = Problem::joint(weighted, steps)?.with_participation(participation);
    let mut refusal = None;
    for method in METHODS {
        let planned = method.build(&problem).and_then(|strategy| {
            let plan = ExactPlan::new(&strategy, footprint.clone(), encoding.dimension(), 1.0, budget)?;
            let rows = problem.row_norms(strategy.as_ref())?;
            Ok((plan, rows))
        });
        let (plan, rows) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                refusal = Some(error);
                continue;
            }
        };
        // The noise of a measurement, in units of a cell.
        let first = plan.standard_deviation(1).zip(plan.row_norms().at(0));
        let sigma = first.map_or(f64::INFINITY, |(deviation, squared)| deviation / squared.sqrt());
        let deviations = rows.iter().map(|rows| rows.iter().map(|squared| sigma * squared.sqrt()).collect());
        return Ok(Planned {
            name: release.name.clone(),
            rho: spent(&plan),
            plan,
            encoding,
            statistics: release.statistics.clone(),
            keys: release.keys(),
            deviations: deviations.collect(),
        });
    }
    Err(refusal.unwrap_or(dp_mechanisms::Error::Empty { what: "the list of strategies" }))
}

/// `Δ²/(2σ²)` from the integers of the plan, rounded up.
fn spent(plan: &ExactPlan) -> f64 {
    let sensitivity: f64 = plan.sensitivity().to_string().parse().unwrap_or(f64::INFINITY);
    sensitivity / (2.0 * plan.noise().variance()) * (1.0 + 1e-12)
}

/// The mean squared error of a statistic alone, by the first method that serves it.
fn least_error(alone: &Problem) -> dp_mechanisms::Result<f64> {
    let mut refusal = dp_mechanisms::Error::Empty { what: "the list of strategies" };
    for method in METHODS {
        match method.build(alone).and_then(|strategy| alone.error(strategy.as_ref())) {
            Ok(error) => return Ok(error),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}
