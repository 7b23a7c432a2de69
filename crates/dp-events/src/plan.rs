//! Every release with its strategy, its noise and its part of the budget, before any data is read.

use dp_mechanisms::exact::budget::rho_from_approximate;
use dp_mechanisms::{Budget, Method, Participation, Plan, Problem, Statistic as JointStatistic, Workload};

use crate::encoding::{Encoding, Measure};
use crate::error::{Error, Result};
use crate::spec::{Promise, Release, Spec, Statistic};

/// The methods whose noise serves any statistic of the stream, best first.
const METHODS: [Method; 3] = [Method::ScaledSqrt, Method::NormalizedSqrt, Method::Sqrt];

/// One release, planned.
pub struct Planned {
    /// The name of the release.
    pub name: String,
    pub(crate) plan: Plan,
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
        self.encoding.dimension()
    }

    /// How far its noise is from Gaussian noise, in total variation: what a composition by μ adds to δ.
    pub fn slack(&self) -> f64 {
        self.plan.slack()
    }

    /// The statistics, in the order in which they are printed.
    pub fn statistics(&self) -> &[Statistic] {
        &self.statistics
    }

    /// The bytes that a run keeps of this release: its cells at every step.
    pub fn memory(&self) -> usize {
        self.dimension() * self.plan.steps() * size_of::<i64>()
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
/// All releases together satisfy the budget. A single release gets it as it is stated. Several that share an (ε, δ) get parts of
/// the μ that it buys: Gaussian noise composes to `μ² = Σ μ_i²` exactly, also adaptively, and the distance of discrete from
/// Gaussian noise costs `(1 + e^ε) Σ slack_i` of δ, for which a part of δ is set aside. Where that is not enough, and for a
/// stated ρ, the parts are those of ρ, which discrete noise satisfies without slack.
///
/// # Errors
/// What calibration refuses, by the name of the release.
pub fn plan(spec: &Spec) -> Result<Vec<Planned>> {
    let refuse = |source| Error::Mechanism { release: spec.releases[0].name.clone(), source };
    let (epsilon, delta) = match (spec.privacy.budget, spec.releases.len()) {
        (Promise::ZeroConcentrated { rho }, _) => {
            return with_budgets(spec, &parts_of_rho(spec, rho).map_err(refuse)?);
        }
        (Promise::Approximate { epsilon, delta }, 1) => {
            return with_budgets(spec, &[Budget::approximate(epsilon, delta).map_err(refuse)?]);
        }
        (Promise::Approximate { epsilon, delta }, _) => (epsilon, delta),
    };
    let reserve = delta * SET_ASIDE;
    let whole = Budget::approximate(epsilon, delta - reserve).map_err(refuse)?;
    let parts = shares(spec).map(|share| Budget::gaussian(whole.mu() * share.sqrt() * ROUNDED_DOWN));
    let parts = parts.collect::<dp_mechanisms::Result<Vec<_>>>().map_err(refuse)?;
    let planned = with_budgets(spec, &parts)?;
    let slack: f64 = planned.iter().map(Planned::slack).sum();
    if (1.0 + epsilon.exp()) * slack * (1.0 + 1e-9) <= reserve {
        return Ok(planned);
    }
    let rho = rho_from_approximate(epsilon, delta).map_err(refuse)?;
    with_budgets(spec, &parts_of_rho(spec, rho).map_err(refuse)?)
}

/// The part of δ that is set aside for the difference between discrete and Gaussian noise.
const SET_ASIDE: f64 = 1e-6;

/// By how much every part is rounded down: more than it, and the sum of parts, can gain by rounding later.
const ROUNDED_DOWN: f64 = 1.0 - 1e-11;

/// The part of every release in the whole.
fn shares(spec: &Spec) -> impl Iterator<Item = f64> {
    let total: f64 = spec.releases.iter().map(|release| release.share).sum();
    spec.releases.iter().map(move |release| release.share / total)
}

fn parts_of_rho(spec: &Spec, rho: f64) -> dp_mechanisms::Result<Vec<Budget>> {
    shares(spec).map(|share| Budget::zero_concentrated(rho * share * ROUNDED_DOWN)).collect()
}

fn with_budgets(spec: &Spec, budgets: &[Budget]) -> Result<Vec<Planned>> {
    let encodings = Encoding::all(spec, &spec.columns());
    let planned = spec.releases.iter().zip(encodings).zip(budgets);
    planned
        .map(|((release, encoding), budget)| {
            one(spec, release, encoding, *budget)
                .map_err(|source| Error::Mechanism { release: release.name.clone(), source })
        })
        .collect()
}

fn one(spec: &Spec, release: &Release, encoding: Encoding, budget: Budget) -> dp_mechanisms::Result<Planned> {
    let steps = spec.calendar.steps();
    let footprint = encoding.footprint(spec)?.of_dimension(encoding.dimension())?;
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
            let plan = Plan::exact(&strategy, footprint.clone(), budget, 1.0)?;
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
        // In units of a cell.
        let sigma = plan.sigma();
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

/// `Δ²/(2σ²)`, rounded up.
fn spent(plan: &Plan) -> f64 {
    plan.sensitivity().squared / (2.0 * plan.sigma() * plan.sigma()) * (1.0 + 1e-12)
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
