//! The privacy game against private gradients, with canaries, and against trainers broken on purpose.

use std::sync::Arc;

use dp_ftrl::{Clipping, CyclicBatches, PrivateGradients};
use dp_linalg::dense;
use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed, Strategy, Workload};
use dp_tests::audit::{Audit, audit};
use dp_tests::squared_norm;
use ndarray::Array1;

/// Games with each value of the bit: half of them choose the threshold, half of them count.
const ROUNDS: usize = 32_768;

/// The probability that an audit refutes a trainer that keeps its promise.
const ALPHA: f64 = 1e-5;

/// People in one run, each with a gradient along a coordinate of their own: as many independent games at once.
const TABLES: usize = 64;

/// The part of μ that this many games show of a trainer that uses all of it: at μ = 1 the error rates are 0.31, which
/// 16384 games know to within 0.016 (at α/2), and a draw as far on the other side still shows 0.82.
const SHOWN: f64 = 0.8;

/// A trainer, the canary that it meets, and the distinguisher that makes the most of the canary.
struct Game {
    strategy: Arc<dyn Strategy>,
    clipping: Clipping,
    /// What the trainer believes about its people, and the budget it calibrates to.
    relation: Relation,
    participation: Participation,
    budget: Budget,
    /// The canary's gradient, along its own coordinate, with the bit off and on.
    canary: [f64; 2],
    /// The steps in which the canary takes part.
    visits: Vec<usize>,
    weights: Array1<f64>,
    /// What the noise is against this canary, exactly.
    mu: f64,
}

impl Game {
    /// The canary, clipped, moves the noisy sums by `change` in each of its visits. With `F Fᵀ` the covariance of their noise, the
    /// likelihood ratio is a function of `⟨(F Fᵀ)⁻¹ change, sums⟩`, and `μ² = ‖F⁻¹ change‖²`.
    fn new(
        strategy: Arc<dyn Strategy>,
        clipping: Clipping,
        relation: Relation,
        participation: Participation,
        budget: Budget,
        canary: [f64; 2],
        visits: Vec<usize>,
    ) -> Self {
        let steps = strategy.steps();
        let mut game = Self {
            strategy,
            clipping,
            relation,
            participation,
            budget,
            canary,
            visits,
            weights: Array1::zeros(steps),
            mu: 0.0,
        };
        let workload = game.strategy.workload().materialize(steps).unwrap();
        let decoder = game.strategy.materialize().unwrap().decoder;
        let factor = dense::solve_lower(workload.view(), decoder.view()).unwrap();
        let factor = factor * game.start(Seed::reproducible(0)).noise_standard_deviation();
        let inverse = dense::inverse_lower(dense::lq_lower(factor.view()).unwrap().view()).unwrap();
        let [off, on] = canary.map(|value| {
            let mut clipped = [value];
            game.clipping.clip(&mut clipped).unwrap();
            clipped[0]
        });
        let mut change = Array1::zeros(steps);
        for visit in &game.visits {
            change[*visit] = on - off;
        }
        let moved = inverse.dot(&change);
        game.weights = inverse.t().dot(&moved);
        game.mu = squared_norm(moved.view()).sqrt();
        game
    }

    fn start(&self, seed: Seed) -> PrivateGradients {
        let (strategy, clipping) = (self.strategy.clone(), self.clipping.clone());
        let (relation, participation) = (self.relation, self.participation);
        PrivateGradients::new(strategy, clipping, TABLES, relation, participation, self.budget, seed).unwrap()
    }

    /// One run with the bit of every canary set to `bit`. The adversary sees every noisy sum and then chooses, for each
    /// coordinate, whether somebody else contributes to the next one.
    fn run(&self, bit: bool, seed: u64) -> Vec<f64> {
        let mut gradients = self.start(Seed::reproducible(seed));
        let mut scores = vec![0.0; TABLES];
        let (mut gradient, mut noisy) = ([0.0; TABLES], [0.0; TABLES]);
        let other = 0.5 * self.clipping.norm();
        for step in 0..self.strategy.steps() {
            let mut add = |coordinate: usize, value: f64| {
                gradient[coordinate] = value;
                gradients.add(&gradient).unwrap();
                gradient[coordinate] = 0.0;
            };
            for coordinate in (0..TABLES).filter(|coordinate| scores[*coordinate] > 0.0) {
                add(coordinate, other);
            }
            if self.visits.contains(&step) {
                (0..TABLES).for_each(|coordinate| add(coordinate, self.canary[usize::from(bit)]));
            }
            gradients.finish(&mut noisy).unwrap();
            for (score, value) in scores.iter_mut().zip(noisy) {
                let known = if *score > 0.0 { other } else { 0.0 };
                *score += self.weights[step] * (value - known);
            }
        }
        scores
    }

    /// Audits the claim that the trainer is as private as the budget says.
    fn audit(&self, claim: &Budget) -> Audit {
        let scores = [false, true].map(|bit| {
            let run = |run: u64| self.run(bit, 2 * run + u64::from(bit));
            (0..(ROUNDS / TABLES) as u64).flat_map(run).collect::<Vec<f64>>()
        });
        audit(claim, ROUNDS, ALPHA, |bit, seed| scores[usize::from(bit)][usize::try_from(seed / 2).unwrap()])
    }
}

/// Three epochs of four batches: 12 steps, three visits, four steps apart.
fn epochs() -> CyclicBatches {
    CyclicBatches::new(4, 1, 3).unwrap()
}

/// The steps of the first example.
fn visits() -> Vec<usize> {
    (0..epochs().steps()).filter(|step| epochs().batch(*step).unwrap().contains(&0)).collect()
}

fn build(name: &str, participation: Participation) -> Arc<dyn Strategy> {
    let problem = Problem::new(Workload::count(), epochs().steps()).unwrap();
    name.parse::<Method>().unwrap().build(&problem.with_participation(participation)).unwrap()
}

fn claim() -> Budget {
    Budget::gaussian(1.0).unwrap()
}

/// An honest trainer with noise scaled by `scale`, and a canary much longer than what it is allowed.
fn honest(name: &str, relation: Relation, scale: f64) -> Game {
    let participation = epochs().participation();
    let canary = match relation {
        Relation::ZeroOut => [0.0, 100.0],
        Relation::Replace => [-100.0, 100.0],
    };
    let budget = Budget::gaussian(1.0 / scale).unwrap();
    let clipping = Clipping::flat(0.5).unwrap();
    Game::new(build(name, participation), clipping, relation, participation, budget, canary, visits())
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

/// Over three epochs, 32768 games with each bit, α = 1e-5. Power: noise × 2/3 is refuted, and noise × 3/2 shows too
/// little.
#[test]
fn training_keeps_its_promise_and_wastes_little() {
    for (name, relation) in [
        ("sqrt", Relation::ZeroOut),
        ("sqrt", Relation::Replace),
        ("optimal-toeplitz", Relation::ZeroOut),
        ("banded", Relation::ZeroOut),
        ("identity", Relation::Replace),
    ] {
        let game = honest(name, relation, 1.0);
        // Exact sensitivities leave nothing unused.
        assert!((game.mu - 1.0).abs() < 1e-9, "{name}: {}", game.mu);
        let audit = game.audit(&claim());
        println!("{name}, {relation}: μ = {:.3} shown, {:.3} attainable", audit.shown, game.mu);
        verdict(audit, SHOWN * game.mu).unwrap_or_else(|error| panic!("{name}, {relation}: {error}"));
        for scale in [2.0 / 3.0, 1.5] {
            let scaled = honest(name, relation, scale).audit(&claim());
            assert!(verdict(scaled, SHOWN * game.mu).is_err(), "{name}, noise × {scale}: {scaled:?}");
        }
    }
}

/// Strategies whose sensitivity for three visits is a proven bound, or whose decoder leaves something unused: the promise
/// is kept, perhaps with something to spare. 32768 games with each bit, α = 1e-5.
#[test]
fn bounded_sensitivities_keep_the_promise_too() {
    for name in ["binary-tree", "honaker-online"] {
        let game = honest(name, Relation::ZeroOut, 1.0);
        assert!(game.mu <= 1.0, "{name}: {}", game.mu);
        let audit = game.audit(&claim());
        println!("{name}: μ = {:.3} shown, {:.3} attainable", audit.shown, game.mu);
        verdict(audit, SHOWN * game.mu).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Fails unless the audit refutes a claim of μ = 1, and prints by how much.
#[track_caller]
fn assert_broken(what: &str, game: &Game) {
    let audit = game.audit(&claim());
    println!("{what}: μ ≥ {:.3} shown, {:.3} true, 1 claimed", audit.shown, game.mu);
    assert!(audit.refutes(), "{what}: {audit:?}, true {}", game.mu);
}

/// Noise for one participation, and three epochs of training. 32768 games with each bit, α = 1e-5.
#[test]
fn noise_for_one_epoch_does_not_pay_for_three() {
    let single = Participation::Single;
    for name in ["sqrt", "binary-tree"] {
        let (clipping, canary) = (Clipping::flat(1.0).unwrap(), [0.0, 1.0]);
        let game =
            Game::new(build(name, single), clipping, Relation::ZeroOut, single, claim(), canary, visits());
        assert_broken(&format!("{name}, one participation"), &game);
    }
}

/// Clipping by `κ/‖g‖²`: at κ = 1/4 a gradient of norm 1/2 stays as it is, twice as long as the noise (that of κ = 1/4 at
/// μ = 1, and so that of 1/2 at μ = 2) allows. 32768 games with each bit, α = 1e-5.
#[test]
fn clipping_by_the_squared_norm_lets_too_much_through() {
    let (kappa, norm) = (0.25, 0.5);
    let passed = norm * f64::min(1.0, kappa / (norm * norm));
    let single = Participation::Single;
    let budget = Budget::gaussian(passed / kappa).unwrap();
    let (clipping, canary) = (Clipping::flat(passed).unwrap(), [0.0, passed]);
    let zero_out = Relation::ZeroOut;
    let game = Game::new(build("sqrt", single), clipping, zero_out, single, budget, canary, vec![0]);
    let right = Clipping::flat(kappa).unwrap();
    let right = dp_ftrl::gradients::plan(build("sqrt", single), &right, zero_out, single, claim()).unwrap();
    let used = game.start(Seed::reproducible(0)).noise_standard_deviation();
    assert!((used / right.sigma() - 1.0).abs() < 1e-12, "the noise of the right rule");
    assert_broken("clipped by κ/‖g‖²", &game);
}

/// Training again with the same noise, and publishing both: everything that 256 games with each bit (α = 1e-5) can show is
/// shown.
#[test]
fn training_twice_with_one_noise_gives_the_difference_away() {
    let game = honest("sqrt", Relation::ZeroOut, 1.0);
    let first_sums = |bit: bool, seed: u64| {
        let mut gradients = game.start(Seed::reproducible(seed));
        let mut gradient = [0.0; TABLES];
        gradient[0] = game.canary[usize::from(bit)];
        gradients.add(&gradient).unwrap();
        gradients.finish(&mut gradient).unwrap();
        gradient[0]
    };
    let audit = audit(&claim(), 256, ALPHA, |bit, seed| first_sums(bit, seed) - first_sums(false, seed));
    println!("one noise for two runs: {audit:?}");
    assert!(audit.refutes() && audit.shown > 2.0, "{audit:?}");
}
