//! The privacy game against our mechanisms, and against mechanisms broken on purpose.

use dp_linalg::dense;
use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Workload};
use dp_mechanisms::{GaussianSource, Seed};
use dp_tests::audit::{Audit, audit};
use dp_tests::{case, squared_norm};
use ndarray::{Array1, Array2, s};

/// Games with each value of the bit: half of them choose the threshold, half of them count.
const ROUNDS: usize = 65_536;

/// The probability that an audit refutes a mechanism that keeps its promise.
const ALPHA: f64 = 1e-5;

/// Games that one mechanism plays at once, one in each coordinate.
const TABLES: usize = 512;

/// The best distinguisher of two streams that differ by one at step `target`, for noise `factor · z`.
///
/// The releases are normal with covariance `Σ = F Fᵀ` and the change moves their mean by the target's column a of A.
/// So the likelihood ratio is a function of `⟨Σ⁻¹a, releases - mean⟩`, and the noise is μ-GDP against this change with
/// `μ² = aᵀ Σ⁻¹ a`, and no smaller μ.
struct Adversary {
    weights: Array1<f64>,
    target: usize,
    mu: f64,
}

impl Adversary {
    fn new(workload: &Array2<f64>, factor: &Array2<f64>) -> Self {
        let lower = dense::lq_lower(factor.view()).unwrap();
        let inverse = dense::inverse_lower(lower.view()).unwrap();
        let moved = inverse.dot(workload);
        let strength = |step: usize| squared_norm(moved.column(step));
        let target =
            (0..workload.ncols()).max_by(|a, b| strength(*a).total_cmp(&strength(*b))).unwrap_or_default();
        Self { weights: inverse.t().dot(&moved.column(target)), target, mu: strength(target).sqrt() }
    }

    /// The input that the adversary chooses for a step, given what the releases so far have said: it answers every
    /// release. Only the target's own input is not the adversary's to choose.
    fn choose(&self, step: usize, score: f64) -> f64 {
        f64::from(u8::from(step != self.target && score > 0.0))
    }
}

/// One game: the adversary sees every release before it chooses the next input.
fn play(
    adversary: &Adversary,
    workload: &Array2<f64>,
    bit: bool,
    mut release: impl FnMut(usize, f64) -> f64,
) -> f64 {
    let mut chosen = Array1::<f64>::zeros(workload.ncols());
    let mut score = 0.0;
    for step in 0..workload.nrows() {
        chosen[step] = adversary.choose(step, score);
        let input = if step == adversary.target { f64::from(u8::from(bit)) } else { chosen[step] };
        let known = workload.row(step).dot(&chosen);
        score += adversary.weights[step] * (release(step, input) - known);
    }
    score
}

/// The plan of a strategy for one number in [0, 1] per step, in one of any number of games that know
/// nothing of each other.
fn plan(method: Method, workload: &str, steps: usize, budget: Budget) -> Option<Plan> {
    let labelled = ("", workload.parse::<Workload>().unwrap());
    let strategy = case(method, &labelled, steps, Participation::Single)?.strategy;
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
    Some(Plan::idealized(strategy, footprint, budget).unwrap())
}

/// Audits the mechanism of a plan against a claim, with `TABLES` independent games in one mechanism.
fn audit_plan(plan: &Plan, claim: &Budget) -> (Audit, f64) {
    let workload = plan.strategy().workload().materialize(plan.steps()).unwrap();
    let decoder = plan.strategy().materialize().unwrap().decoder;
    let adversary = Adversary::new(&workload, &(decoder * plan.sigma()));
    let scores = [false, true].map(|bit| {
        let mut scores = Vec::with_capacity(ROUNDS);
        for batch in 0..(ROUNDS / TABLES) as u64 {
            let seed = Seed::reproducible(2 * batch + u64::from(bit));
            let mut mechanism = Mechanism::new(plan.clone().of_dimension(TABLES).unwrap(), seed).unwrap();
            let mut games: Vec<(f64, Vec<f64>)> = vec![(0.0, Vec::new()); TABLES];
            let (mut inputs, mut outputs) = ([0.0; TABLES], [0.0; TABLES]);
            for step in 0..plan.steps() {
                for (input, (score, chosen)) in inputs.iter_mut().zip(&mut games) {
                    chosen.push(adversary.choose(step, *score));
                    *input = if step == adversary.target { f64::from(u8::from(bit)) } else { chosen[step] };
                }
                mechanism.release(&inputs, &mut outputs).unwrap();
                for (output, (score, chosen)) in outputs.iter().zip(&mut games) {
                    let known: f64 = workload.row(step).iter().zip(&*chosen).map(|(a, x)| a * x).sum();
                    *score += adversary.weights[step] * (output - known);
                }
            }
            scores.extend(games.iter().map(|(score, _)| *score));
        }
        scores
    });
    let audit =
        audit(claim, ROUNDS, ALPHA, |bit, seed| scores[usize::from(bit)][usize::try_from(seed / 2).unwrap()]);
    (audit, adversary.mu)
}

/// Audits a mechanism that releases `A x + F z` with a new z in every game.
fn audit_linear(workload: &str, factor: &Array2<f64>, claim: &Budget) -> (Audit, f64) {
    let steps = factor.nrows();
    let workload = workload.parse::<Workload>().unwrap().materialize(steps).unwrap();
    let adversary = Adversary::new(&workload, factor);
    let mut z = Array1::<f64>::zeros(factor.ncols());
    let audit = audit(claim, ROUNDS, ALPHA, |bit, seed| {
        GaussianSource::new(Seed::reproducible(seed), z.len()).fill_range(0, 0, z.as_slice_mut().unwrap());
        let noise = factor.dot(&z);
        let mut inputs = Array1::<f64>::zeros(steps);
        play(&adversary, &workload, bit, |step, input| {
            inputs[step] = input;
            workload.row(step).dot(&inputs) + noise[step]
        })
    });
    (audit, adversary.mu)
}

/// Privacy is kept, and what could be shown about its loss is shown: neither too little noise passes nor too much.
fn verdict(audit: Audit, at_least: f64) -> Result<(), String> {
    if audit.refutes() {
        return Err(format!("{audit:?}: the claim is refuted"));
    }
    if audit.shown.is_nan() || audit.shown < at_least {
        return Err(format!("{audit:?}: less than {at_least} shown"));
    }
    Ok(())
}

/// The part of μ that this many games show of a mechanism that uses all of it.
const SHOWN: f64 = 0.85;

/// Every strategy: 65536 games with each bit, α = 1e-5.
#[test]
fn every_mechanism_keeps_its_promise_and_wastes_little() {
    let claim = Budget::gaussian(1.0).unwrap();
    let workloads = [("count", 8), ("average", 6), ("window:3", 7)];
    let mut audited = 0;
    for (workload, steps) in workloads {
        for &method in Method::ALL {
            // One workload for all, the others for one strategy of each structure.
            if workload != "count" && ![Method::Sqrt, Method::HonakerFull, Method::Identity].contains(&method)
            {
                continue;
            }
            let Some(honest) = plan(method, workload, steps, claim) else { continue };
            audited += 1;
            let (audit, attainable) = audit_plan(&honest, &claim);
            println!(
                "{method} × {workload} × {steps}: μ = {:.3} shown, {attainable:.3} attainable",
                audit.shown
            );
            verdict(audit, SHOWN * attainable)
                .unwrap_or_else(|error| panic!("{method} × {workload}: {error}"));
            for scale in [2.0 / 3.0, 1.5] {
                let scaled = plan(method, workload, steps, Budget::gaussian(1.0 / scale).unwrap()).unwrap();
                let (audit, _) = audit_plan(&scaled, &claim);
                assert!(
                    verdict(audit, SHOWN * attainable).is_err(),
                    "{method} × {workload}, noise × {scale}: {audit:?}"
                );
            }
        }
    }
    assert!(audited >= Method::ALL.len() + 4, "{audited}");
}

/// The claim in (ε, δ): 65536 games with each bit, α = 1e-5. The likelihood ratio is best near a threshold with few
/// false alarms, so a smaller part of ε can be shown than of μ.
#[test]
fn the_promise_is_kept_in_epsilon_and_delta() {
    let claim = Budget::approximate(1.0, 0.02).unwrap();
    for method in [Method::Sqrt, Method::ScaledSqrt, Method::BinaryTree] {
        let (honest, _) = audit_plan(&plan(method, "count", 8, claim).unwrap(), &claim);
        println!("{method}: ε = {:.3} shown of {}", honest.shown, honest.claimed);
        let at_least = 0.6 * honest.claimed;
        verdict(honest, at_least).unwrap_or_else(|error| panic!("{method}: {error}"));
        for scale in [2.0 / 3.0, 1.5] {
            let budget = Budget::gaussian(claim.mu() / scale).unwrap();
            let (scaled, _) = audit_plan(&plan(method, "count", 8, budget).unwrap(), &claim);
            assert!(verdict(scaled, at_least).is_err(), "{method}, noise × {scale}: {scaled:?}");
        }
    }
}

/// One number per step in a live mechanism, the game as the definition tells it: 4096 games with each bit, α = 1e-5.
#[test]
fn a_scalar_mechanism_keeps_its_promise_game_by_game() {
    let claim = Budget::gaussian(1.0).unwrap();
    let audit_with = |mu: f64| {
        let plan = plan(Method::Sqrt, "count", 8, Budget::gaussian(mu).unwrap()).unwrap();
        let workload = Workload::count().materialize(8).unwrap();
        let decoder = plan.strategy().materialize().unwrap().decoder;
        let adversary = Adversary::new(&workload, &(decoder * plan.sigma()));
        audit(&claim, 4096, ALPHA, |bit, seed| {
            let mut mechanism =
                Mechanism::new(plan.clone().of_dimension(1).unwrap(), Seed::reproducible(seed)).unwrap();
            play(&adversary, &workload, bit, |_, input| {
                let mut output = [0.0];
                mechanism.release(&[input], &mut output).unwrap();
                output[0]
            })
        })
    };
    // Fewer games show less.
    let at_least = 0.7;
    verdict(audit_with(1.0), at_least).unwrap();
    assert!(verdict(audit_with(1.5), at_least).is_err());
    assert!(verdict(audit_with(2.0 / 3.0), at_least).is_err());
}

/// The factors of the square root, and `Δ` of its t×t corners.
fn square_root(workload: &str, steps: usize) -> (Array2<f64>, Vec<f64>) {
    let problem = Problem::new(workload.parse().unwrap(), steps).unwrap();
    let factors = Method::Sqrt.build(&problem).unwrap().materialize().unwrap();
    let corners = (1..=steps)
        .map(|t| {
            let corner = factors.strategy.slice(s![..t, ..t]);
            corner.columns().into_iter().map(squared_norm).fold(0.0, f64::max).sqrt()
        })
        .collect();
    (factors.decoder, corners)
}

/// `F` of a mechanism that draws a fresh z for each release and scales it by `scale(t)`: the z's stand side by side.
fn fresh_noise(decoder: &Array2<f64>, scale: impl Fn(usize) -> f64) -> Array2<f64> {
    let n = decoder.nrows();
    let mut factor = Array2::zeros((n, n * n));
    for t in 0..n {
        factor.slice_mut(s![t, t * n..(t + 1) * n]).assign(&(&decoder.row(t) * scale(t)));
    }
    factor
}

/// `F` of a mechanism with one z that scales the noise of release t by `scale(t)`.
fn rescaled_noise(decoder: &Array2<f64>, scale: impl Fn(usize) -> f64) -> Array2<f64> {
    let scales = Array1::from_shape_fn(decoder.nrows(), scale);
    decoder * &scales.insert_axis(ndarray::Axis(1))
}

/// Fails unless the audit refutes a claim of μ = 1, and prints by how much.
#[track_caller]
fn assert_broken(what: &str, workload: &str, factor: &Array2<f64>) {
    let (audit, truth) = audit_linear(workload, factor, &Budget::gaussian(1.0).unwrap());
    println!("{what}: μ ≥ {:.3} shown, {truth:.3} true, 1 claimed", audit.shown);
    assert!(audit.refutes(), "{what}: {audit:?}, true {truth}");
}

/// The control of all broken mechanisms below: one z, σ from the whole horizon. 65536 games each, α = 1e-5.
#[test]
fn one_noise_vector_scaled_for_the_whole_horizon_is_private() {
    for workload in ["count", "average"] {
        let (decoder, corners) = square_root(workload, 16);
        let factor = rescaled_noise(&decoder, |_| corners[15]);
        let (audit, truth) = audit_linear(workload, &factor, &Budget::gaussian(1.0).unwrap());
        verdict(audit, SHOWN * truth).unwrap_or_else(|error| panic!("{workload}: {error}"));
    }
}

/// Each release alone is private; the stream of them is not. 65536 games each, α = 1e-5.
#[test]
fn a_fresh_noise_vector_for_each_release_is_not_private() {
    let (decoder, corners) = square_root("count", 16);
    assert_broken("fresh z", "count", &fresh_noise(&decoder, |t| corners[t]));
}

/// The first releases are made with too little noise, and all later ones repeat it. 65536 games each, α = 1e-5.
#[test]
fn noise_that_grows_with_the_stream_is_not_private() {
    let (decoder, corners) = square_root("count", 64);
    assert_broken("one z, σ of the t×t corner", "count", &rescaled_noise(&decoder, |t| corners[t]));
}

/// Noise made ahead of time, with the budget's multiplier alone. 65536 games each, α = 1e-5.
#[test]
fn noise_without_the_sensitivity_of_the_strategy_is_not_private() {
    let (decoder, _) = square_root("count", 16);
    assert_broken("Δ(C) missing", "count", &decoder);
    // The same for a claim in (ε, δ).
    let claim = Budget::approximate(1.0, 0.02).unwrap();
    let (audit, _) = audit_linear("count", &(decoder / claim.mu()), &claim);
    println!("Δ(C) missing: ε ≥ {:.3} shown, {} claimed", audit.shown, audit.claimed);
    assert!(audit.refutes(), "{audit:?}");
}

/// One input moves the t-th average by 1/t, but it moves all of them. 65536 games each, α = 1e-5.
#[test]
fn an_average_whose_noise_is_divided_by_time_is_not_private() {
    let (decoder, corners) = square_root("average", 8);
    let divided = |t: usize| corners[t] / (t + 1) as f64;
    assert_broken("average, noise / t", "average", &rescaled_noise(&decoder, divided));
    assert_broken("average, fresh noise / t", "average", &fresh_noise(&decoder, divided));
}
