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
fn coarse(name: &str, steps: usize, budget: Kind) -> ExactPlan {
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
        let plan = coarse(name, steps, Kind::ZeroConcentrated { rho });
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
        let plan = coarse(name, steps, Kind::Approximate { epsilon, delta });
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
        let plan = coarse(name, steps, Kind::Pure { epsilon });
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

/// The law of the sum of so many independent values, each on `-reach ..= reach`.
fn law_of_sum(noise: &[f64], times: usize) -> Vec<f64> {
    (1..times).fold(noise.to_vec(), |law, _| {
        let mut sum = vec![0.0; law.len() + noise.len() - 1];
        for (i, p) in law.iter().enumerate() {
            for (j, q) in noise.iter().enumerate() {
                sum[i + j] += p * q;
            }
        }
        sum
    })
}

/// The noise of the third count of independent noise is a sum of three values, written out here in full. It exceeds the stated
/// number of its deviations with the stated probability at most; for a fine lattice, two thirds of that number do not suffice.
#[test]
fn tails_are_no_heavier_than_they_are_stated() {
    let footprint = || Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    let strategy = build("identity", "count", 3).unwrap();
    let mut covered = 0;
    for (scale, gaussian) in
        [(0.3, true), (0.8, true), (2.5, true), (12.0, true), (0.4, false), (1.5, false), (6.0, false)]
    {
        let budget = if gaussian {
            Kind::ZeroConcentrated { rho: 1.0 / (2.0 * scale * scale) }
        } else {
            Kind::Pure { epsilon: 1.0 / scale }
        };
        let exact = ExactPlan::with_few_bits(&strategy, footprint(), budget, 0).unwrap();
        let log_weight: Box<dyn Fn(f64) -> f64> = match exact.noise() {
            NoiseParameter::SquaredScale { .. } => {
                let variance = exact.noise().variance();
                assert!((variance / (scale * scale) - 1.0).abs() < 1e-9, "{variance}");
                Box::new(move |k| -k * k / (2.0 * variance))
            }
            NoiseParameter::Scale { numerator, denominator } => {
                let rate = denominator as f64 / numerator as f64;
                assert!((rate * scale - 1.0).abs() < 1e-9, "{rate}");
                Box::new(move |k| -k.abs() * rate)
            }
        };
        let reach = if gaussian { 14.0 * scale } else { 40.0 * scale }.ceil() as i64;
        let noise = distribution(reach, log_weight);
        let plan = whole(exact.clone());
        for times in [1, 3] {
            let law = law_of_sum(&noise, times);
            let middle = times as f64 * reach as f64;
            let deviation = exact.standard_deviation(times).unwrap();
            let beyond = |limit: f64| -> f64 {
                let far = law.iter().enumerate().filter(|(index, _)| *index as f64 - middle > limit);
                far.map(|(_, p)| p).sum()
            };
            for probability in [0.4, 0.1, 1e-2, 1e-4, 1e-9] {
                let deviations = plan.tail_deviations(probability, 1.0).unwrap();
                let truth = beyond(deviations * deviation);
                assert!(truth <= probability, "scale {scale}, sum of {times}: {truth} above {probability}");
                if gaussian {
                    assert!(deviations <= (2.0 * -probability.ln()).sqrt() * (1.0 + 1e-9), "{deviations}");
                }
                if gaussian && scale > 10.0 && probability <= 1e-2 {
                    assert!(beyond(deviations * deviation / 1.5) > probability, "{scale} {probability}");
                    covered += 1;
                }
            }
        }
        for probability in [0.0, 1.0, f64::NAN, -0.5] {
            assert!(plan.tail_deviations(probability, 1.0).is_err(), "{probability}");
        }
    }
    assert_eq!(covered, 6);
    // Continuous noise, and the finest lattice: a quantile of the normal law, up to the rounding to a lattice.
    let budget = Budget::zero_concentrated(0.5).unwrap();
    let idealized = Plan::idealized(strategy.clone(), footprint(), budget).unwrap();
    let fine = Plan::exact(&strategy, footprint(), budget, 1.0).unwrap();
    // Quantiles of the normal law from tables.
    for (probability, quantile) in [(0.1, 1.281_551_565_5), (1e-2, 2.326_347_874), (1e-6, 4.753_424_309)] {
        for plan in [&idealized, &fine] {
            let found = plan.tail_deviations(probability, 1.0).unwrap();
            assert!(found >= quantile - 1e-9 && found < quantile + 1e-6, "{found} for {quantile}");
        }
    }
}
