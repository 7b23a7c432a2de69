//! The privacy claim on cases small enough to write out: the distribution of everything that is released.

use super::*;
use crate::exact::budget::{delta_of_discrete_gaussian, rho_from_approximate};
use crate::exact::measure::Measure;

/// The measurements of a stream, without noise.
fn measured(plan: &ExactPlan, inputs: &[i64]) -> Vec<i128> {
    let mut measure = Measure::new(plan.shared_strategy(), 1, 4);
    let mut all = Vec::new();
    for input in inputs {
        let mut rows = vec![0; measure.next_rows().1];
        measure.push(&[*input], &mut rows);
        all.extend(rows);
    }
    all
}

/// A one-dimensional noise distribution on `-reach ..= reach`; what is left out weighs less than any δ that is tested.
fn distribution(reach: i64, log_weight: impl Fn(f64) -> f64) -> Vec<f64> {
    let weights: Vec<f64> = (-reach..=reach).map(|k| log_weight(k as f64).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// `Σ_y f(P(y), Q(y))` where P and Q are the noise around zero and around `shift`, over all y at once.
///
/// A product distribution is walked coordinate by coordinate.
fn sum_over_outputs(noise: &[f64], shift: &[i128], f: &dyn Fn(f64, f64) -> f64) -> f64 {
    fn walk(noise: &[f64], shift: &[i128], p: f64, q: f64, f: &dyn Fn(f64, f64) -> f64) -> f64 {
        let Some((first, rest)) = shift.split_first() else { return f(p, q) };
        let at = |index: i128| {
            usize::try_from(index).ok().and_then(|index| noise.get(index)).copied().unwrap_or(0.0)
        };
        let span = first.abs();
        (-span..noise.len() as i128 + span).map(|y| walk(noise, rest, p * at(y), q * at(y - first), f)).sum()
    }
    walk(noise, shift, 1.0, 1.0, f)
}

fn hockey_stick(noise: &[f64], shift: &[i128], epsilon: f64) -> f64 {
    sum_over_outputs(noise, shift, &|p, q| (p - epsilon.exp() * q).max(0.0))
}

/// Neighbouring streams that differ as much as one person can make them, with the change of their measurements.
///
/// The matrix is that of the plan divided by a power of two so that noise of a few units can be enumerated; it is
/// measured by the code that measures releases.
fn changes(strategy: &IntegerStrategy, plan: &ExactPlan, steps: usize) -> Vec<Vec<i128>> {
    assert_eq!(strategy.steps(), steps);
    let mut found = Vec::new();
    for position in 0..steps {
        for others in 0..2_i64.pow(steps as u32) {
            let base: Vec<i64> = (0..steps).map(|t| others >> t & 1).collect();
            let mut neighbour = base.clone();
            neighbour[position] = 0;
            let (a, b) = (measured(plan, &base), measured(plan, &neighbour));
            found.push(a.iter().zip(b).map(|(a, b)| a - b).collect());
        }
    }
    found
}

/// A plan whose matrix has entries of two bits: `round(4 c)`.
fn coarse(name: &str, steps: usize, budget: ExactBudget) -> ExactPlan {
    let strategy = build(name, "count", steps).unwrap();
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    ExactPlan::with_few_bits(&strategy, footprint, budget, 2).unwrap()
}

fn variance(plan: &ExactPlan) -> f64 {
    plan.noise().variance()
}

#[test]
fn concentrated_privacy_holds_with_equality_and_fails_with_too_little_noise() {
    for (name, steps, rho) in [
        ("sqrt", 1, 0.5),
        ("sqrt", 2, 0.7),
        ("sqrt", 3, 2.0),
        ("binary-tree", 3, 1.0),
        ("blt", 3, 2.0),
        ("anytime", 2, 0.7),
        ("scaled-blt", 2, 2.0),
        ("banded-inverse", 3, 2.0),
    ] {
        let plan = coarse(name, steps, ExactBudget::ZeroConcentrated { rho });
        let noise =
            |variance: f64| distribution((9.0 * variance.sqrt()) as i64 + 1, |k| -k * k / (2.0 * variance));
        let divergence = |noise: &[f64], shift: &[i128], order: f64| {
            let terms = |p: f64, q: f64| if q > 0.0 { p.powf(order) * q.powf(1.0 - order) } else { 0.0 };
            sum_over_outputs(noise, shift, &terms).ln() / (order - 1.0)
        };
        let mut tightest = 0.0_f64;
        for order in [1.5, 2.0, 4.0] {
            for shift in changes(plan.strategy(), &plan, steps) {
                let ratio = divergence(&noise(variance(&plan)), &shift, order) / (order * rho);
                assert!(ratio <= 1.0 + 1e-9, "{name} over {steps} steps, order {order}: {ratio}");
                tightest = tightest.max(ratio);
            }
        }
        assert!(tightest > 0.99, "{name} over {steps} steps: the claim is tight, {tightest}");
        // With a sensitivity that is 5 % too small the same check fails.
        let careless = noise(variance(&plan) * 0.95 * 0.95);
        let broken = changes(plan.strategy(), &plan, steps)
            .iter()
            .any(|shift| divergence(&careless, shift, 2.0) > 2.0 * rho);
        assert!(broken, "{name} over {steps} steps");
    }
}

#[test]
fn approximate_privacy_holds_through_zcdp_and_fails_with_too_little_noise() {
    for (name, steps, epsilon, delta) in
        [("sqrt", 2, 6.0, 1e-8), ("sqrt", 3, 9.0, 1e-9), ("binary-tree", 3, 6.0, 1e-8), ("blt", 2, 6.0, 1e-8)]
    {
        let plan = coarse(name, steps, ExactBudget::Approximate { epsilon, delta });
        let noise =
            |variance: f64| distribution((10.0 * variance.sqrt()) as i64 + 1, |k| -k * k / (2.0 * variance));
        let worst = |variance: f64| {
            changes(plan.strategy(), &plan, steps)
                .iter()
                .map(|shift| hockey_stick(&noise(variance), shift, epsilon))
                .fold(0.0, f64::max)
        };
        let claimed = worst(variance(&plan));
        assert!(claimed <= delta, "{name} over {steps} steps: {claimed:e}");
        let careless = worst(variance(&plan) * 0.95 * 0.95);
        assert!(careless > delta, "{name} over {steps} steps: {careless:e} with too little noise");
    }
}

#[test]
fn the_rounded_gaussian_route_holds_and_is_tight() {
    // One measurement of a change of Δ units, with σ large enough for the route to be the better one.
    for (change, epsilon, delta) in [(3000_i128, 1.0, 1e-5), (2000, 0.5, 1e-4), (800, 2.0, 1e-3)] {
        let squared = (change * change) as f64;
        let divisor = budget::variance_divisor(epsilon, delta, 1.0, squared).unwrap();
        assert!(divisor > 2.0 * rho_from_approximate(epsilon, delta).unwrap(), "the better route is taken");
        let worst = |variance: f64| {
            let noise = distribution((9.0 * variance.sqrt()) as i64, |k| -k * k / (2.0 * variance));
            hockey_stick(&noise, &[change], epsilon)
        };
        let variance = squared / divisor;
        let true_delta = worst(variance);
        let claimed = delta_of_discrete_gaussian(epsilon, squared, variance, 1.0).unwrap();
        assert!(
            true_delta <= claimed && claimed <= delta * (1.0 + 1e-9),
            "{true_delta:e} {claimed:e} {delta:e}"
        );
        assert!(true_delta > 0.98 * delta, "{true_delta:e} against {delta:e}");
        assert!(worst(variance * 0.95 * 0.95) > delta);
    }
    // Two measurements at once.
    let (shift, epsilon, delta) = ([60_i128, 80], 1.5, 1e-2);
    let divisor = budget::variance_divisor(epsilon, delta, 2.0, 1e4).unwrap();
    let noise =
        |variance: f64| distribution((6.0 * f64::sqrt(variance)) as i64, |k| -k * k / (2.0 * variance));
    assert!(hockey_stick(&noise(1e4 / divisor), &shift, epsilon) <= delta);
    assert!(hockey_stick(&noise(1e4 / divisor * 0.95 * 0.95), &shift, epsilon) > delta);
}

#[test]
fn pure_privacy_holds_at_every_output_and_fails_with_too_little_noise() {
    for (name, steps, epsilon) in [("binary-tree", 3, 1.0), ("honaker-online", 2, 0.7), ("identity", 3, 0.3)]
    {
        let plan = coarse(name, steps, ExactBudget::Pure { epsilon });
        let NoiseParameter::Scale { numerator, denominator } = plan.noise() else { panic!("{plan:?}") };
        let scale = numerator as f64 / denominator as f64;
        // The largest log-ratio over all outputs is the ℓ1 norm of the change over the scale.
        let worst = |scale: f64| {
            changes(plan.strategy(), &plan, steps)
                .iter()
                .map(|shift| {
                    shift
                        .iter()
                        .map(|shift| {
                            (-40..40)
                                .map(|y| ((y - *shift as i64).abs() - i64::abs(y)) as f64 / scale)
                                .fold(0.0, f64::max)
                        })
                        .sum::<f64>()
                })
                .fold(0.0, f64::max)
        };
        let loss = worst(scale);
        assert!(loss <= epsilon * (1.0 + 1e-12) && loss > epsilon * (1.0 - 1e-9), "{name}: {loss}");
        assert!(worst(scale * 0.95) > epsilon);
    }
}
