//! Every release with its strategy, its noise and its part of the budget, before any data is read.
//!
//! Fitting strategies takes seconds, so it happens once: what was fitted is kept in the sealed state, and every later run
//! measures with the same coefficients.

mod fitted;

use std::collections::HashMap;
use std::sync::Arc;

use dp_apps::histogram::discovery::Threshold;
use dp_mechanisms::exact::budget::rho_from_approximate;
use dp_mechanisms::sparse::MOST_COORDINATES;
use dp_mechanisms::{
    Budget, Footprint, Method, Participation, Plan, Problem, Statistic as JointStatistic, Strategy, Workload,
    planner,
};

pub(crate) use fitted::Fitted;
use fitted::{Shape, floats};

use crate::encoding::{Encoding, Measure};
use crate::error::{Error, Result};
use crate::ledger::Entry;
use crate::spec::{By, Promise, Protects, Release, Spec, Statistic};

/// The methods whose noise serves any statistic of the stream, best first.
const METHODS: [Method; 3] = [Method::ScaledSqrt, Method::NormalizedSqrt, Method::Sqrt];

/// The methods for a statistic alone, best first. Over long horizons those come first whose rows have closed forms.
fn methods_alone(problem: &Problem, pure: bool) -> &'static [Method] {
    let is = |workload: Workload| *problem.workload() == workload;
    if pure {
        &PURE_METHODS
    } else if problem.steps() <= LONG {
        &METHODS
    } else if is(Workload::step()) {
        &[Method::Identity]
    } else if is(Workload::count()) || is(Workload::average()) {
        &[Method::ScaledBlt, Method::ScaledSqrt]
    } else {
        &METHODS
    }
}

/// Beyond this many steps the rows of a strategy with a full core take many transforms of the horizon.
const LONG: usize = 1 << 14;

/// The same for Laplace noise; which is best depends on the statistics.
const PURE_METHODS: [Method; 2] = [Method::WeightedTree, Method::Identity];

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
    spent: Entry,
    /// Where keys are found: from which total a key is shown, by step.
    thresholds: Vec<f64>,
    fitted: Fitted,
    /// Every statistic alone, where that was needed for the plan.
    alone: Vec<Alone>,
}

/// A statistic that has a noise of its own.
#[derive(Debug, Clone, Copy)]
struct Alone {
    /// Its mean squared error.
    error: f64,
    /// What nothing can beat, where that is known.
    bound: Option<f64>,
}

impl Planned {
    /// The strategy behind the noise.
    pub fn strategy(&self) -> &'static str {
        self.plan.strategy().name()
    }

    /// What this release spends.
    pub fn spent(&self) -> &Entry {
        &self.spent
    }

    /// What this release spends, as ρ of zero-concentrated differential privacy.
    pub fn rho(&self) -> f64 {
        self.spent.rho
    }

    /// The number of cells that are measured at every step, where keys are listed.
    pub fn dimension(&self) -> usize {
        self.encoding.dimension()
    }

    /// How far its noise is from Gaussian noise, in total variation: what a composition by μ adds to δ.
    pub fn slack(&self) -> f64 {
        self.spent.slack
    }

    /// The statistics, in the order in which they are printed.
    pub fn statistics(&self) -> &[Statistic] {
        &self.statistics
    }

    /// The number of steps that it is planned for.
    pub fn steps(&self) -> usize {
        self.plan.steps()
    }

    /// About the bytes that a run takes at most for the keys that are listed: five words for every cell at every step while
    /// the cells are measured, and some 400 bytes for every number while the tables and the page are written.
    pub fn memory(&self) -> usize {
        let (cells, numbers) = (self.dimension(), self.keys * self.statistics.len());
        (cells * 5 * size_of::<i64>() + numbers * 400) * self.plan.steps()
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
            (Measure::Values(tree), Statistic::Range(low, high)) => {
                let (first, end) = self.encoding.leaves(*low, *high);
                return Some(
                    self.deviations.get(statistic)?.get(step)? * tree.range_variance(first, end).sqrt(),
                );
            }
            _ => 1.0,
        };
        Some(self.deviations.get(statistic)?.get(step)? * factor * self.encoding.resolution())
    }

    /// From which released total a key is shown at a step counted from 0, where keys are found in the rows.
    pub fn threshold(&self, step: usize) -> Option<f64> {
        self.thresholds.get(step).copied()
    }

    /// The standard deviation of a statistic of cells at a step counted from 0, in units of a cell.
    pub(crate) fn cell_deviation(&self, statistic: usize, step: usize) -> f64 {
        self.deviations.get(statistic).and_then(|steps| steps.get(step)).copied().unwrap_or(f64::INFINITY)
    }

    /// The half-width of a 95 % band, in standard deviations.
    pub(crate) fn band(&self) -> f64 {
        self.plan.budget().band()
    }

    pub(crate) fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// How far the root of the mean squared error of the strategy, over its statistics as they are weighted, is above what no strategy
    /// can beat, as a fraction: certified when it was planned.
    pub fn gap(&self) -> Option<f64> {
        self.fitted.gap.map(|squared| (1.0 + f64::from_bits(squared)).sqrt() - 1.0)
    }

    /// A statistic beside what it could be alone and at best; nothing for means and quantiles, whose error depends on the
    /// numbers themselves.
    ///
    /// # Complexity
    /// That of planning the statistic alone.
    ///
    /// # Errors
    /// What planning refuses.
    pub fn comparison(&self, statistic: usize) -> dp_mechanisms::Result<Option<Comparison>> {
        let steps = self.steps();
        let squares = (0..steps).map(|step| self.standard_deviation(statistic, step).map(|one| one * one));
        let Some(sum) = squares.sum::<Option<f64>>() else { return Ok(None) };
        let (Some(one), Some(rows)) = (self.statistics.get(statistic), self.fitted.row_norms.get(statistic))
        else {
            return Ok(None);
        };
        let participation =
            self.plan.footprint().terms().first().map_or(Participation::Single, |term| term.participation);
        let pure = self.spent.epsilon.is_some();
        let strategy = self.plan.strategy();
        let squared = if pure {
            strategy.absolute_sensitivity(participation)?.powi(2)
        } else {
            strategy.sensitivity(participation)?.squared
        };
        let error = squared * floats(rows).iter().sum::<f64>() / steps as f64;
        let problem = Problem::new(one.workload()?, steps)?.with_participation(participation);
        let parts = self.statistics.len() as f64;
        // The variance of Gaussian noise is one over its part of ρ, that of Laplace noise one over the square of its part of ε.
        let price = if pure { parts * parts } else { parts };
        let typical = (sum / steps as f64).sqrt();
        let alone = match self.alone.get(statistic) {
            Some(alone) => *alone,
            None => Alone { error: least_alone(&problem, pure)?, bound: None },
        };
        let bound = match alone.bound {
            Some(bound) => bound,
            None => planner::lower_bound(&problem)?,
        };
        Ok(Some(Comparison {
            typical,
            least: typical * (bound / error).sqrt(),
            split: typical * (price * alone.error / error).sqrt(),
        }))
    }
}

/// Plans every release of a description for all steps from one on, counted from 0.
///
/// # Privacy
/// All releases together satisfy the budget. A single release gets it as it is stated. Several that share an (ε, δ) get parts of
/// the μ that it buys: Gaussian noise composes to `μ² = Σ μ_i²` exactly, also adaptively, and the distance of discrete from
/// Gaussian noise costs `(1 + e^ε) Σ slack_i` of δ, for which a part of δ is set aside. Where that is not enough, and for a
/// stated ρ, the parts are those of ρ, which discrete noise satisfies without slack. Parts of a pure ε add up to it. Where keys
/// are found in the rows, half of δ is for showing a key that one person alone has caused ([`crate::releases`]).
///
/// # Errors
/// What calibration refuses, by the name of the release.
pub fn plan(spec: &Spec, from: usize) -> Result<Vec<Planned>> {
    Builder::new(spec, from).all()
}

/// Plans every release as it was planned before, from what was fitted then.
///
/// # Errors
/// As [`plan`], and where the fit is that of something else.
pub(crate) fn plan_again(spec: &Spec, from: usize, kept: &[Fitted]) -> Result<Vec<Planned>> {
    Builder { kept: Some(kept), ..Builder::new(spec, from) }.all()
}

/// The part of δ that is set aside for the difference between discrete and Gaussian noise.
const SET_ASIDE: f64 = 1e-6;

/// The part of δ for the thresholds of keys that are found in the rows.
const FOR_THRESHOLDS: f64 = 0.5;

/// By how much every part is rounded down: more than it, and the sum of parts, can gain by rounding later.
const ROUNDED_DOWN: f64 = 1.0 - 1e-11;

/// A statistic beside what it could be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The root of the mean squared deviation over all steps, in units of a deviation as it is planned.
    pub typical: f64,
    /// The least that it could be if the statistic were alone and had the whole budget of the release.
    pub least: f64,
    /// What it would be if every statistic of the release had a noise of its own and an equal part of the budget.
    pub split: f64,
}

/// What is planned, and what has been found out on the way.
struct Builder<'a> {
    spec: &'a Spec,
    from: usize,
    kept: Option<&'a [Fitted]>,
    /// The least error of a workload alone, by what it is.
    alone: HashMap<String, f64>,
    /// What nothing can beat for a workload alone, by what it is.
    bounds: HashMap<String, f64>,
    /// Strategies, without their rows, by what they were fitted to.
    fitted: HashMap<String, Built>,
}

/// A fit, and the strategy that was built of it.
type Built = (Fitted, Arc<dyn Strategy>);

/// A fit, the strategy that was built of it, its plan where one was made to try it, and every statistic alone where that is known.
struct Fit {
    fitted: Fitted,
    strategy: Arc<dyn Strategy>,
    plan: Option<Plan>,
    alone: Vec<Alone>,
}

impl<'a> Builder<'a> {
    fn new(spec: &'a Spec, from: usize) -> Self {
        Self { spec, from, kept: None, alone: HashMap::new(), bounds: HashMap::new(), fitted: HashMap::new() }
    }

    fn all(&mut self) -> Result<Vec<Planned>> {
        let spec = self.spec;
        let refuse = |source| Error::Mechanism { release: spec.releases[0].name.clone(), source };
        let found = spec.releases.iter().any(|release| release.by.as_ref().is_some_and(By::is_found));
        let (epsilon, delta) = match (spec.privacy.budget, spec.releases.len()) {
            (Promise::ZeroConcentrated { rho }, _) => {
                return self.with_budgets(&parts_of_rho(spec, rho).map_err(refuse)?, 0.0);
            }
            (Promise::Pure { epsilon }, _) => {
                let parts = shares(spec).map(|share| Budget::pure(epsilon * share * ROUNDED_DOWN));
                let parts = parts.collect::<dp_mechanisms::Result<Vec<_>>>().map_err(refuse)?;
                return self.with_budgets(&parts, 0.0);
            }
            (Promise::Approximate { epsilon, delta }, _) if found => {
                // The noise of all conceivable keys is far from as many Gaussians, which zCDP does not mind.
                let reserve = delta * FOR_THRESHOLDS;
                let rho = rho_from_approximate(epsilon, delta - reserve).map_err(refuse)?;
                return self.with_budgets(&parts_of_rho(spec, rho).map_err(refuse)?, reserve);
            }
            (Promise::Approximate { epsilon, delta }, 1) => {
                return self.with_budgets(&[Budget::approximate(epsilon, delta).map_err(refuse)?], 0.0);
            }
            (Promise::Approximate { epsilon, delta }, _) => (epsilon, delta),
        };
        let reserve = delta * SET_ASIDE;
        let whole = Budget::approximate(epsilon, delta - reserve).map_err(refuse)?;
        let parts = shares(spec).map(|share| Budget::gaussian(whole.mu() * share.sqrt() * ROUNDED_DOWN));
        let parts = parts.collect::<dp_mechanisms::Result<Vec<_>>>().map_err(refuse)?;
        let planned = self.with_budgets(&parts, 0.0)?;
        let slack: f64 = planned.iter().map(Planned::slack).sum();
        if (1.0 + epsilon.exp()) * slack * (1.0 + 1e-9) <= reserve {
            return Ok(planned);
        }
        let rho = rho_from_approximate(epsilon, delta).map_err(refuse)?;
        self.with_budgets(&parts_of_rho(spec, rho).map_err(refuse)?, 0.0)
    }

    fn with_budgets(&mut self, budgets: &[Budget], for_thresholds: f64) -> Result<Vec<Planned>> {
        let spec = self.spec;
        let found = spec.releases.iter().filter(|release| release.by.as_ref().is_some_and(By::is_found));
        let threshold_delta = for_thresholds / found.count().max(1) as f64;
        let planned = spec.releases.iter().zip(Encoding::all(spec)).zip(budgets).enumerate();
        planned
            .map(|(index, ((release, encoding), budget))| {
                self.one(index, release, encoding, *budget, threshold_delta)
                    .map_err(|source| Error::Mechanism { release: release.name.clone(), source })
            })
            .collect()
    }

    fn one(
        &mut self,
        index: usize,
        release: &Release,
        encoding: Encoding,
        budget: Budget,
        threshold_delta: f64,
    ) -> dp_mechanisms::Result<Planned> {
        let spec = self.spec;
        let footprint = encoding.footprint(spec)?;
        let dimension = if encoding.is_named() { MOST_COORDINATES as usize } else { encoding.dimension() };
        let footprint = footprint.of_dimension(dimension)?;
        let participation =
            footprint.terms().first().map_or(Participation::Single, |term| term.participation);
        let pure = matches!(spec.privacy.budget, Promise::Pure { .. });
        let Fit { fitted, strategy, plan, alone } = match self.kept {
            Some(kept) => {
                let fitted = kept.get(index).cloned().ok_or(dp_mechanisms::Error::State {
                    reason: "it holds the strategies of other releases".to_owned(),
                })?;
                let strategy = fitted.strategy(&self.joint(release, participation, None)?)?;
                Fit { fitted, strategy, plan: None, alone: Vec::new() }
            }
            None => self.fit(release, &footprint, participation, budget, pure)?,
        };
        let plan = match plan {
            Some(plan) => plan,
            None => Plan::exact(&strategy, footprint, budget, 1.0)?,
        };
        let steps = plan.steps();
        let expected = release.statistics.len() + 1;
        if fitted.row_norms.len() != expected || fitted.row_norms.iter().any(|rows| rows.len() != steps) {
            return Err(dp_mechanisms::Error::State { reason: "its strategies are damaged".to_owned() });
        }
        // In units of a cell.
        let sigma = noise_of(&plan)?;
        let deviation = |rows: &Vec<u64>| -> Vec<f64> {
            rows.iter().map(|squared| sigma * f64::from_bits(*squared).sqrt()).collect()
        };
        let mut deviations: Vec<Vec<f64>> = fitted.row_norms.iter().map(deviation).collect();
        let totals = deviations.pop().unwrap_or_default();
        let thresholds = if encoding.is_named() {
            thresholds(spec, &encoding, participation, &plan, &totals, threshold_delta)?
        } else {
            Vec::new()
        };
        let spent = Entry {
            release: release.name.clone(),
            first: self.from + 1,
            steps,
            strategy: plan.strategy().name().to_owned(),
            rho: match budget.kind() {
                dp_mechanisms::budget::Kind::Pure { epsilon } => (epsilon * epsilon / 2.0).next_up(),
                _ => spent(&plan),
            },
            epsilon: match budget.kind() {
                dp_mechanisms::budget::Kind::Pure { epsilon } => Some(epsilon),
                _ => None,
            },
            slack: plan.slack(),
            delta: if encoding.is_named() { threshold_delta } else { 0.0 },
        };
        Ok(Planned {
            name: release.name.clone(),
            plan,
            encoding,
            statistics: release.statistics.clone(),
            keys: release.keys(),
            deviations,
            spent,
            thresholds,
            fitted,
            alone,
        })
    }

    /// The statistics of a release as one problem; without weights, whatever they are.
    fn joint(
        &mut self,
        release: &Release,
        participation: Participation,
        importance: Option<&[f64]>,
    ) -> dp_mechanisms::Result<Problem> {
        let steps = self.spec.calendar.steps() - self.from;
        // Means and quantiles are made of totals: one workload counts once, with all its weight.
        let mut wanted: Vec<(Workload, f64)> = Vec::new();
        let weights = importance.unwrap_or(&release.weights);
        for (statistic, weight) in release.statistics.iter().zip(weights) {
            let workload = statistic.workload()?;
            match wanted.iter_mut().find(|(known, _)| *known == workload) {
                Some((_, sum)) => *sum += weight,
                None => wanted.push((workload, *weight)),
            }
        }
        let statistics = wanted
            .into_iter()
            .map(|(workload, weight)| JointStatistic::new(workload, weight))
            .collect::<dp_mechanisms::Result<_>>()?;
        Ok(Problem::joint(statistics, steps)?.with_participation(participation))
    }

    /// Fits a strategy to the statistics of a release.
    fn fit(
        &mut self,
        release: &Release,
        footprint: &Footprint,
        participation: Participation,
        budget: Budget,
        pure: bool,
    ) -> dp_mechanisms::Result<Fit> {
        let plain = self.joint(release, participation, None)?;
        let mut alone = Vec::new();
        let problem = if plain.statistics().len() == 1 {
            plain
        } else {
            // The error of every statistic counts in units of what it would be alone.
            for statistic in &release.statistics {
                let error = self.alone(statistic.workload()?, participation, pure)?;
                alone.push(Alone { error, bound: None });
            }
            let weights = release.weights.iter().zip(&alone);
            let weights: Vec<f64> = weights.map(|(importance, alone)| importance / alone.error).collect();
            self.joint(release, participation, Some(&weights))?
        };
        let ((fitted, strategy), plan) = self.strategy(&problem, footprint, budget, pure)?;
        let mut row_norms = Vec::new();
        for workload in release.statistics.iter().map(|one| one.workload()).chain([Ok(Workload::count())]) {
            let rows = strategy.reading(&workload?)?.row_norms()?;
            row_norms.push(rows.iter().map(f64::to_bits).collect());
        }
        let error =
            if pure { absolute_error(&problem, strategy.as_ref()) } else { problem.error(strategy.as_ref()) };
        let (error, bound) = (error?, self.bound(&problem)?);
        let gap = (error / bound - 1.0).max(0.0);
        if let [one] = problem.statistics()
            && (pure || methods_alone(&problem, false)[0].name() == fitted.method)
        {
            // It is alone, and this is the strategy that it would have.
            let itself = Alone { error: error / one.weight(), bound: Some(bound / one.weight()) };
            alone = vec![itself; release.statistics.len()];
        }
        Ok(Fit { fitted: Fitted { row_norms, gap: Some(gap.to_bits()), ..fitted }, strategy, plan, alone })
    }

    /// What nothing can beat for a problem.
    fn bound(&mut self, problem: &Problem) -> dp_mechanisms::Result<f64> {
        let [one] = problem.statistics() else { return planner::lower_bound(problem) };
        let participation = problem.participation();
        let name = format!("{} {participation}", one.workload());
        if let Some(bound) = self.bounds.get(&name) {
            return Ok(bound * one.weight());
        }
        let plain = Problem::new(one.workload().clone(), problem.steps())?;
        let bound = planner::lower_bound(&plain.with_participation(participation))?;
        self.bounds.insert(name, bound);
        Ok(bound * one.weight())
    }

    /// The strategy for a problem, without the rows of its statistics, and its plan unless it was fitted for another release.
    fn strategy(
        &mut self,
        problem: &Problem,
        footprint: &Footprint,
        budget: Budget,
        pure: bool,
    ) -> dp_mechanisms::Result<(Built, Option<Plan>)> {
        let name = match problem.statistics() {
            [one] => one.workload().to_string(),
            several => {
                let weighted = several.iter().map(|one| format!("{}*{}", one.workload(), one.weight()));
                weighted.collect::<Vec<_>>().join(" ")
            }
        };
        let needs = footprint.needs_non_negative_columns();
        let name = format!("{name} {} {needs}", problem.participation());
        if let Some(fitted) = self.fitted.get(&name) {
            return Ok((fitted.clone(), None));
        }
        let mut refusal = dp_mechanisms::Error::Empty { what: "the list of strategies" };
        let mut best: Option<(f64, Built, Plan)> = None;
        for method in if pure { &PURE_METHODS[..] } else { &METHODS[..] } {
            let tried = method.build(problem).and_then(|strategy| {
                let shape = Shape::of(strategy.as_ref())?;
                let method = method.name().to_owned();
                let fitted = Fitted { method, shape, row_norms: Vec::new(), gap: None };
                // What is measured is what can be built again, not what was fitted.
                let strategy = fitted.strategy(problem)?;
                let plan = Plan::exact(&strategy, footprint.clone(), budget, 1.0)?;
                let error = if pure { absolute_error(problem, strategy.as_ref())? } else { 0.0 };
                Ok((error, (fitted, strategy), plan))
            });
            match tried {
                Ok(tried) => {
                    if best.as_ref().is_none_or(|(least, ..)| tried.0 < *least) {
                        best = Some(tried);
                    }
                    if !pure {
                        break;
                    }
                }
                Err(error) => refusal = error,
            }
        }
        let (_, fitted, plan) = best.ok_or(refusal)?;
        self.fitted.insert(name, fitted.clone());
        Ok((fitted, Some(plan)))
    }

    /// The mean squared error of a statistic alone, by the first method that serves it.
    fn alone(
        &mut self,
        workload: Workload,
        participation: Participation,
        pure: bool,
    ) -> dp_mechanisms::Result<f64> {
        let name = format!("{workload} {participation}");
        if let Some(error) = self.alone.get(&name) {
            return Ok(*error);
        }
        let steps = self.spec.calendar.steps() - self.from;
        let problem = Problem::new(workload, steps)?.with_participation(participation);
        let least = least_alone(&problem, pure)?;
        self.alone.insert(name, least);
        Ok(least)
    }
}

/// The mean squared error of a statistic alone, by the first method that serves it; for Laplace noise by the best.
fn least_alone(problem: &Problem, pure: bool) -> dp_mechanisms::Result<f64> {
    let mut refusal = dp_mechanisms::Error::Empty { what: "the list of strategies" };
    let mut least: Option<f64> = None;
    for method in methods_alone(problem, pure) {
        let error = method.build(problem).and_then(|strategy| {
            if pure { absolute_error(problem, strategy.as_ref()) } else { problem.error(strategy.as_ref()) }
        });
        match error {
            Ok(error) => {
                least = Some(least.map_or(error, |least| least.min(error)));
                if !pure {
                    break;
                }
            }
            Err(error) => refusal = error,
        }
    }
    least.ok_or(refusal)
}

/// `Σ w_i Δ_1² ‖B_i‖²_F/n`: the error under Laplace noise.
fn absolute_error(problem: &Problem, strategy: &dyn Strategy) -> dp_mechanisms::Result<f64> {
    let rows = problem.row_norms(strategy)?;
    let sum: f64 = problem.statistics().iter().zip(&rows).map(|(one, rows)| one.weight() * rows.mean()).sum();
    let absolute = strategy.absolute_sensitivity(problem.participation())?;
    Ok(absolute * absolute * sum)
}

/// The part of every release in the whole.
fn shares(spec: &Spec) -> impl Iterator<Item = f64> {
    let total: f64 = spec.releases.iter().map(|release| release.share).sum();
    spec.releases.iter().map(move |release| release.share / total)
}

fn parts_of_rho(spec: &Spec, rho: f64) -> dp_mechanisms::Result<Vec<Budget>> {
    shares(spec).map(|share| Budget::zero_concentrated(rho * share * ROUNDED_DOWN)).collect()
}

/// The standard deviation that goes with the rows of the strategy: exact plans measure a scaled matrix in a scale of its own, and
/// their σ belongs to that. What is released has the same noise in either.
fn noise_of(plan: &Plan) -> dp_mechanisms::Result<f64> {
    let first = plan.standard_deviation(1).zip(plan.strategy().row_norms()?.at(0));
    first
        .map(|(deviation, squared)| deviation / squared.sqrt())
        .ok_or(dp_mechanisms::Error::Empty { what: "the horizon" })
}

/// `Δ²/(2σ²)`, rounded up.
fn spent(plan: &Plan) -> f64 {
    plan.sensitivity().squared / (2.0 * plan.sigma() * plan.sigma()) * (1.0 + 1e-12)
}

/// From which released total a key is shown, by step: `c + q σ‖b_t‖`, q by [`Threshold::deviations`] as every step is printed.
///
/// # Privacy
/// One person raises no total by more than c, and touches at most K keys (both versions of a replaced one taken together):
/// what the theorem of [`dp_apps::histogram::discovery`] asks for.
fn thresholds(
    spec: &Spec,
    encoding: &Encoding,
    participation: Participation,
    plan: &Plan,
    totals: &[f64],
    threshold_delta: f64,
) -> dp_mechanisms::Result<Vec<f64>> {
    let (rows, times) = match (encoding.counts_people(), spec.privacy.protects) {
        (Some(_), _) | (None, Protects::Event) => (1.0, 1.0),
        (None, _) => (f64::from(spec.limits.rows_per_step), participation.times_within(totals.len()) as f64),
    };
    let versions = match spec.privacy.relation {
        dp_mechanisms::Relation::ZeroOut => 1.0,
        dp_mechanisms::Relation::Replace => 2.0,
    };
    let deviations =
        Threshold::new(threshold_delta).and_then(|when| when.deviations(plan, versions * rows * times, rows));
    let deviations = deviations.map_err(|error| match error {
        dp_apps::Error::Mechanism(error) => error,
        _ => dp_mechanisms::Error::OutOfRange {
            what: "delta of finding keys",
            value: threshold_delta,
            range: "strictly between 0 and 1",
        },
    })?;
    Ok(totals.iter().map(|deviation| rows * times + deviations.after_planned * deviation).collect())
}

#[cfg(test)]
mod tests {
    use dp_tests::description::Description;

    use super::*;

    /// A state keeps what was fitted. On a machine where fitting ends at other last bits, the kept coefficients measure.
    #[test]
    fn a_dashboard_continues_with_what_was_fitted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dashboard.toml");
        let text = Description::of_events()
            .days("2026-01-01", "2026-01-20")
            .release("rows", "statistics = [\"total\", \"step\"]");
        std::fs::write(&path, text.to_string()).unwrap();
        let spec = Spec::load(&path).unwrap();
        let planned = plan(&spec, 0).unwrap();
        let mut elsewhere = planned[0].fitted().clone();
        let shape = elsewhere.shape.as_mut().unwrap();
        let rows = shape.rows.as_mut().unwrap();
        rows[7] += 1;
        let again = plan_again(&spec, 0, std::slice::from_ref(&elsewhere)).unwrap();
        let measures = |planned: &Planned| {
            let source = planned.plan.strategy();
            Shape::of(source.as_ref()).unwrap().unwrap()
        };
        assert_ne!(measures(&planned[0]), measures(&again[0]));
        assert_eq!(Some(measures(&again[0])), elsewhere.shape);
        // What was kept of something else is refused.
        elsewhere.row_norms.pop();
        assert!(plan_again(&spec, 0, &[elsewhere]).is_err());
        assert!(plan_again(&spec, 0, &[]).is_err());
    }
}
