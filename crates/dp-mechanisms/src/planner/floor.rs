//! What no strategy can beat: the best of all bounds that are affordable for a problem.

use std::sync::Arc;

use super::{Bounds, Evaluation};
use crate::bounds::{self, LowerBound};
use crate::certificate::{self, MeanBound};
use crate::error::Result;
use crate::problem::{Metric, Problem, Statistic};
use crate::sensitivity::Participation;
use crate::strategy::{Strategy, optimal};
use crate::workload::{Recurrence, Workload};

/// Up to this many steps the bound is sharpened by one dense dual certificate.
const CERTIFICATE_LIMIT: usize = 1024;

/// Longer streams of one person in several steps are bounded by the certificates of consecutive parts of this many steps.
const PART: usize = 512;

/// Up to this many steps the matrix of a window is decomposed in less time than it takes to avoid it.
const DENSE: usize = 512;

/// Above this many steps bounds come from weights in closed form where there are such.
const LONG: usize = 1 << 13;

/// Up to this many steps, and up to this many times its memory, the weights of momentum's rows and columns are found by climbing in
/// little time. Beyond, the climb takes up to a minute and ends far from the top.
const SHORT_MOMENTUM: usize = 256;
const SHORT_MEMORIES: f64 = 4.0;

/// More than sums of positive weights can gain by rounding.
const ROUNDED_DOWN: f64 = 1.0 - 1e-12;

/// The steps of a long average in which nearly all of its error is.
const PREFIX: usize = 1 << 18;

impl Bounds {
    fn new(mean: &LowerBound, max: &LowerBound) -> Self {
        Self { mse: mean.value, kind: mean.kind.to_owned(), max_se: max.value, max_kind: max.kind.to_owned() }
    }

    /// The bound on one metric.
    pub(crate) fn of(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Mse => self.mse,
            Metric::Max => self.max_se,
        }
    }
}

/// What the mean squared error of no strategy is below, for one statistic or for the weighted sum of several: the factor E2, per
/// unit of what one person can change. It holds for Laplace noise as well, because no ℓ1 norm is below the ℓ2 norm.
///
/// # Complexity
/// A closed form, a few passes over the steps, or an eigendecomposition where there are few.
///
/// # Errors
/// What the certificates refuse.
///
/// # Example
/// ```
/// use dp_mechanisms::{Method, Problem, Workload, planner};
/// let problem = Problem::new(Workload::count(), 64)?;
/// let bound = planner::lower_bound(&problem)?;
/// let error = problem.error(Method::ScaledSqrt.build(&problem)?.as_ref())?;
/// assert!(bound <= error && error < 1.01 * bound);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn lower_bound(problem: &Problem) -> Result<f64> {
    Ok(lower_bounds(&problem.clone().with_metric(Metric::Mse), &[])?.mse)
}

/// The best bounds: closed forms, what building the strategies proved, and dual certificates where they are
/// affordable.
pub(crate) fn lower_bounds(problem: &Problem, found: &[(Evaluation, Arc<dyn Strategy>)]) -> Result<Bounds> {
    if problem.is_joint() {
        return joint(problem, found);
    }
    let (workload, steps, participation) = (problem.workload(), problem.steps(), problem.participation());
    let closed_form = bounds::mean(workload, steps)?;
    let mut mean = closed_form.clone();
    let mut max = bounds::max_above(closed_form.clone(), workload, steps)?;
    for (metric, value) in found.iter().filter_map(|(_, strategy)| strategy.proven_lower_bound()) {
        let bound = LowerBound { value, kind: "optimality certificate" };
        match metric {
            Metric::Mse => mean = mean.or(bound),
            Metric::Max => max = max.or(bound),
        }
    }
    let limit = certificate::practical_limit(workload);
    let long = |metric, above: usize| -> Result<Option<LowerBound>> {
        let value = if steps > above { certificate::long_bound(workload, steps, metric)? } else { None };
        Ok(value.map(|value| LowerBound { value, kind: "dual certificate" }))
    };
    let long_mean = long(Metric::Mse, LONG)?;
    // For the count, weights in closed form are better than stretched ones; of several participations they say nothing.
    let closed = long_mean.is_some() && workload.is_count() && problem.times() <= 1;
    if let Some(bound) = long_mean {
        mean = mean.or(bound);
    }
    let banded = if !closed && steps <= limit { certificate::banded_bound(workload, steps)? } else { None };
    // Certificates are proved by column weights, from which follows what several participations add.
    let raised = |value: f64, weights: &[f64]| LowerBound {
        value: value * bounds::participation_factor(weights, participation),
        kind: "dual certificate",
    };
    let window = if steps > DENSE { windowed(workload, steps, Metric::Mse)? } else { None };
    if let Some(bound) = banded.or(window) {
        mean = mean.or(raised(bound.lower_bound, &bound.column_weights));
    } else if steps <= CERTIFICATE_LIMIT {
        let weights = optimal::scaled_sqrt_start(problem)?;
        let matrix = workload.materialize(steps)?;
        mean = mean.or(raised(bounds::dual_certificate(matrix.view(), &weights)?, &weights));
    }
    if steps > limit && workload.is_average() {
        // The sum of the errors of some steps is not larger than that of all.
        if let Some(bound) = certificate::banded_bound(workload, PREFIX)? {
            let value = bound.lower_bound * (PREFIX as f64 / steps as f64);
            mean = mean.or(LowerBound { value, kind: "dual certificate of a prefix" });
        }
    }
    if problem.metric() == Metric::Max {
        let short = short_momentum(workload);
        let long_max = long(Metric::Max, if short.is_some() { 0 } else { LONG })?;
        let climbed = !closed && (long_max.is_none() || short.is_none_or(|short| steps <= short));
        if let Some(bound) = long_max {
            max = max.or(bound);
        }
        if climbed
            && steps <= limit
            && let Some(value) = certificate::banded_max_bound(workload, steps)?
        {
            max = max.or(LowerBound { value, kind: "dual certificate" });
        }
        if let Some(bound) = windowed(workload, steps, Metric::Max)? {
            max = max.or(LowerBound { value: bound.lower_bound, kind: "dual certificate" });
        }
    }
    // The Schatten bound is the certificate of equal weights.
    let schatten = closed_form;
    if schatten.kind != "diagonal" {
        let block = bounds::block(workload, steps);
        let columns = steps / block * block;
        let factor = bounds::equal_participation_factor(columns, participation);
        let kind = if factor > 1.0 { "schatten, repeated participation" } else { schatten.kind };
        mean = mean.or(LowerBound { value: schatten.value * factor, kind });
    }
    if let Some(bound) = repeated(problem)? {
        mean = mean.or(bound);
    }
    let max = max.or(mean.clone());
    Ok(Bounds::new(&mean, &max))
}

/// What the same contribution of one person in several steps proves, see [`bounds::repeated_certificate`]; nothing where one person
/// takes part once.
///
/// The rows of a part of the stream and the steps within it alone are the problem of that part, and `‖B‖_F²` is the sum over the
/// rows of all parts; where the workload is Toeplitz, all parts are the same.
fn repeated(problem: &Problem) -> Result<Option<LowerBound>> {
    let (steps, participation) = (problem.steps(), problem.participation());
    if problem.times() <= 1 {
        return Ok(None);
    }
    let mut part = problem.clone();
    let mut share = 1.0;
    let mut blocks = None;
    if steps > CERTIFICATE_LIMIT {
        blocks = in_blocks(problem)?;
        for one in problem.statistics() {
            if one.workload().series(1)?.is_none() {
                return Ok(blocks);
            }
        }
        part = Problem::joint(problem.statistics().to_vec(), PART)?.with_participation(participation);
        share = (steps / PART * PART) as f64 / steps as f64;
    }
    let weights = optimal::scaled_sqrt_start(&part)?;
    let target = optimal::target(&part)?;
    let value = share * bounds::repeated_certificate(target.view(), &weights, participation)?;
    let bound = LowerBound { value, kind: "dual certificate, repeated participation" };
    Ok(Some(blocks.map_or(bound.clone(), |blocks| blocks.or(bound))))
}

/// What the same contribution of one person in a whole block of steps proves: up to k² times the bound of a shorter stream.
///
/// Let one person take part k times, s steps apart, and let `l = k s`. Of the releases `t > l - s`, behind which there are so many
/// steps, look at those of one residue `t ≡ r (mod l)` alone, and at the inputs that are the same number in the k steps `t, t-s, …, t-(k-1)s` behind each of them and 0 elsewhere. The measurement
/// of one block is the sum of k columns of C, no longer than Δ, since such a block is a participation. Read by these
/// releases, blocks are the steps of a Toeplitz problem with the weights of [`Workload::in_blocks`] and of `N = ⌊(n-l+s)/l⌋` steps at
/// least, in which one person takes part once: the sum of their squared errors is at least `N E'`. The l residues have
/// different rows of B, so that `n E ≥ l N E'`. All statistics are read off the same measurements, so E' may be a weighted sum.
///
/// Blocks of fewer participations leave some for other blocks: `⌊k/k'⌋` blocks of k' each, next to each other if they like.
///
/// Statistics that are not Toeplitz are left out, which lowers the sum.
fn in_blocks(problem: &Problem) -> Result<Option<LowerBound>> {
    let (steps, times) = (problem.steps(), problem.times());
    let distance = problem.participation().separation();
    let mut best: Option<LowerBound> = None;
    let sizes = std::iter::successors(Some(times), |size| Some(size / 2)).take_while(|size| *size > 1);
    for size in sizes {
        let length = size.saturating_mul(distance);
        let blocks = (steps + distance).saturating_sub(length) / length;
        if blocks == 0 {
            continue;
        }
        let mut statistics = Vec::new();
        for one in problem.statistics() {
            if let Some((workload, factor)) = one.workload().in_blocks(size, distance, blocks)? {
                statistics.push(Statistic::new(workload, one.weight() * factor)?);
            }
        }
        if statistics.is_empty() {
            return Ok(None);
        }
        let reduced = Problem::joint(statistics, blocks)?;
        let reduced = reduced.with_participation(Participation::repeated(times / size, 1)?);
        // A bound that cannot be computed is no bound, and no mistake of the problem.
        let Ok(bounds) = lower_bounds(&reduced, &[]) else { continue };
        let value = bounds.mse * ((length * blocks) as f64 / steps as f64) * ROUNDED_DOWN;
        let bound = LowerBound { value, kind: "the same contribution in blocks" };
        best = Some(best.map_or(bound.clone(), |best| best.or(bound)));
    }
    Ok(best)
}

/// What proves the bound of a window; nothing for any other workload.
fn windowed(workload: &Workload, steps: usize, metric: Metric) -> Result<Option<MeanBound>> {
    let Recurrence::Window { width } = workload.recurrence() else { return Ok(None) };
    certificate::window_bound(width, steps, metric)
}

/// The steps of momentum up to which its largest error is bounded by climbing as well; nothing for any other workload.
fn short_momentum(workload: &Workload) -> Option<usize> {
    let Recurrence::Second { beta } = workload.recurrence() else { return None };
    let memories = SHORT_MEMORIES / (1.0 - beta);
    Some(SHORT_MOMENTUM.max(memories as usize).min(LONG))
}

/// What no strategy can beat for several statistics: what none can for each of them, and for all of them together the
/// certificates of `G = Σ w_i A_iᵀA_i`.
fn joint(problem: &Problem, found: &[(Evaluation, Arc<dyn Strategy>)]) -> Result<Bounds> {
    let (steps, participation) = (problem.steps(), problem.participation());
    let (mut mean, mut max) = (0.0, 0.0);
    for one in problem.statistics() {
        let alone = Problem::new(one.workload().clone(), steps)?.with_participation(participation);
        let bounds = lower_bounds(&alone.with_metric(problem.metric()), &[])?;
        mean += one.weight() * bounds.mse;
        max += one.weight() * bounds.max_se;
    }
    let apart = |value| LowerBound { value, kind: "each statistic alone" };
    let mut mean = apart(mean);
    for (metric, value) in found.iter().filter_map(|(_, strategy)| strategy.proven_lower_bound()) {
        if metric == Metric::Mse {
            mean = mean.or(LowerBound { value, kind: "optimality certificate" });
        }
    }
    if mean.kind != "optimality certificate" {
        if steps <= CERTIFICATE_LIMIT {
            let weights = optimal::scaled_sqrt_start(problem)?;
            let value = bounds::dual_certificate(optimal::target(problem)?.view(), &weights)?;
            let factor = bounds::participation_factor(&weights, participation);
            mean = mean.or(LowerBound { value: value * factor, kind: "dual certificate" });
        } else if let Some(value) = bounds::joint_circulant(problem.statistics(), steps)? {
            let length = steps.min(bounds::CIRCULANT_LIMIT);
            let factor = bounds::equal_participation_factor(steps / length * length, participation);
            mean = mean.or(LowerBound { value: value * factor, kind: "circulant" });
        }
    }
    if let Some(bound) = repeated(problem)? {
        mean = mean.or(bound);
    }
    // The sum of the largest is at least the sum of the means.
    let max = apart(max).or(mean.clone());
    Ok(Bounds::new(&mean, &max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;

    /// No strategy is below the bound of repeated participation, at any distance of the steps, and where they are close together it
    /// is a multiple of what random signs prove.
    #[test]
    fn the_same_contribution_in_several_steps_is_bounded_closely() {
        let rows = [
            ("count", 64, 3, 1, 1.8),
            ("count", 64, 10, 1, 3.0),
            ("count", 64, 3, 7, 1.25),
            ("window:7", 50, 4, 2, 1.0),
            ("average", 40, 2, 1, 1.0),
            ("count", 1200, 3, 1, 2.3),
            ("window:30", 1100, 3, 1, 1.5),
            ("window:100", 1100, 3, 2, 1.2),
            ("exp:1.001", 1300, 6, 1, 3.0),
            ("poly:0.5", 1100, 4, 1, 1.05),
        ];
        for (text, steps, times, separation, gain) in rows {
            let participation = Participation::repeated(times, separation).unwrap();
            let problem = Problem::new(text.parse().unwrap(), steps).unwrap();
            let once = lower_bounds(&problem, &[]).unwrap().mse;
            let problem = problem.with_participation(participation);
            let bound = lower_bounds(&problem, &[]).unwrap().mse;
            assert!(bound >= gain * times as f64 * once, "{text} {steps} {participation}: {bound} {once}");
            let few = [Method::Sqrt, Method::Banded, Method::Identity];
            for method in if steps < 100 { Method::ALL } else { &few } {
                let Ok(strategy) = method.build(&problem) else { continue };
                let error = problem.error(strategy.as_ref()).unwrap();
                assert!(
                    bound <= error * (1.0 + 1e-9),
                    "{text} {steps} {participation}: {} {error}",
                    method.name()
                );
            }
        }
    }

    /// The whole argument on small matrices: sums of the columns of a person, read by the last release of every block, are the
    /// problem of blocks, entry by entry, and the bound stays below every strategy.
    #[test]
    fn blocks_of_one_contribution_are_a_problem_of_their_own() {
        for text in ["count", "window:7", "window:12", "exp:1.1", "poly:0.5", "step"] {
            let workload: Workload = text.parse().unwrap();
            for (steps, times, distance) in [(24, 3, 1), (25, 2, 3), (40, 4, 2), (31, 3, 4), (26, 6, 2)] {
                let length = times * distance;
                let blocks = (steps + distance - length) / length;
                let (reduced, factor) = workload.in_blocks(times, distance, blocks).unwrap().unwrap();
                let (matrix, reduced) =
                    (workload.materialize(steps).unwrap(), reduced.materialize(blocks).unwrap());
                for first in 0..length {
                    let ends: Vec<usize> =
                        (0..blocks).map(|block| length - distance + first + block * length).collect();
                    assert!(ends.iter().all(|end| *end < steps), "{text} {steps} {times} {distance}");
                    for (row, release) in ends.iter().enumerate() {
                        for (column, end) in ends.iter().enumerate() {
                            let sum: f64 =
                                (0..times).map(|index| matrix[[*release, end - index * distance]]).sum();
                            let difference = sum - factor.sqrt() * reduced[[row, column]];
                            assert!(
                                difference.abs() < 1e-12,
                                "{text} {steps} {times} {distance}: {difference}"
                            );
                        }
                    }
                }
                let participation = Participation::repeated(times, distance).unwrap();
                let problem =
                    Problem::new(workload.clone(), steps).unwrap().with_participation(participation);
                let Some(bound) = in_blocks(&problem).unwrap() else { continue };
                for method in Method::ALL {
                    let Ok(strategy) = method.build(&problem) else { continue };
                    let error = problem.error(strategy.as_ref()).unwrap();
                    assert!(
                        bound.value <= error * (1.0 + 1e-9),
                        "{text} {steps} {participation}: {method} {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_largest_error_of_momentum_is_bounded_closely_within_its_memory_and_beyond() {
        // What `scaled-blt` attains, and `sqrt` in the last row: a bound above that would be wrong.
        let rows = [
            ("momentum:0.9", 1448, 469.777_702, 1.01),
            ("momentum:0.99", 1448, 21_397.375_8, 1.013),
            ("momentum:0.999", 512, 163_796.951, 1.025),
        ];
        for (text, steps, attained, limit) in rows {
            let problem = Problem::new(text.parse().unwrap(), steps).unwrap().with_metric(Metric::Max);
            let bounds = lower_bounds(&problem, &[]).unwrap();
            let ratio = attained / bounds.max_se;
            assert!((1.0..limit).contains(&ratio), "{text} at {steps}: {bounds:?} {ratio}");
        }
    }
}
