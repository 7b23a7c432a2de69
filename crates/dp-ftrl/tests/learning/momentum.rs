//! Momentum inside the workload and momentum as post-processing.

use dp_ftrl::{Clipping, PrivateGradients, Rates, Sgd, iterates};
use dp_mechanisms::{Budget, Mechanism, Method, Participation, Plan, Problem, Relation, Seed, Workload};

use crate::examples::momentum_errors::{MOMENTA, PREFIX_SUM_STRATEGIES, errors};

/// One gradient per step, and the iterates of an optimizer fed by private gradients under the given strategy.
fn trained(mut optimizer: Sgd, gradients: &mut PrivateGradients, steps: usize) -> Vec<[f64; 2]> {
    (0..steps)
        .map(|step| {
            gradients.add(&gradient(step)).unwrap();
            let mut noisy = [0.0; 2];
            gradients.finish(&mut noisy).unwrap();
            let parameters = optimizer.update(&noisy).unwrap();
            [parameters[0], parameters[1]]
        })
        .collect()
}

fn gradient(step: usize) -> [f64; 2] {
    [0.6 * (step % 3) as f64 / 2.0, -0.1 * (step % 5) as f64]
}

/// With the strategy of the momentum workload, the iterates are the releases of the mechanism for that workload: the
/// same noise, whether it enters with the gradients or with the iterates.
#[test]
fn momentum_in_the_workload_equals_momentum_after_the_noise() {
    let steps = 24;
    let single = Participation::Single;
    let budget = Budget::gaussian(2.0).unwrap();
    let schedules = [
        Rates::constant(0.5).unwrap(),
        Rates::list(&[1.0, 0.5, 0.25]).unwrap(),
        Rates::linear(1.0, 0.1, steps).unwrap(),
        Rates::cosine(1.0, 0.01, steps).unwrap(),
    ];
    for rates in schedules {
        for momentum in [0.0, 0.9] {
            let optimizer = || Sgd::new(2, momentum, rates.clone()).unwrap();
            let workload = optimizer().workload(steps).unwrap();
            let mut covered = 0;
            let problem = Problem::new(workload.clone(), steps).unwrap();
            for method in Method::ALL {
                let Ok(strategy) = method.build(&problem) else { continue };
                covered += 1;
                let (clipping, seed) = (Clipping::flat(1.0).unwrap(), Seed::reproducible(3));
                let mut gradients =
                    PrivateGradients::new(strategy, clipping, 2, Relation::ZeroOut, single, budget, seed)
                        .unwrap();
                let noisy = gradients.plan();
                let plan =
                    Plan::idealized(noisy.strategy().clone(), noisy.footprint().clone(), *noisy.budget())
                        .unwrap();
                let post = trained(optimizer(), &mut gradients, steps);
                let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(3)).unwrap();
                for (step, iterate) in post.iter().enumerate() {
                    let mut release = [0.0; 2];
                    mechanism.release(&gradient(step), &mut release).unwrap();
                    for (one, other) in iterate.iter().zip(release) {
                        assert!(
                            (one + other).abs() < 1e-9 * plan.sigma(),
                            "{method}, β = {momentum}, {rates:?}, step {step}: {one} and {other}"
                        );
                    }
                }
            }
            assert!(covered >= 3, "{rates:?}: {covered} strategies");
        }
    }
}

/// The error of the iterates agrees with the one that a strategy for their own workload computes of itself.
#[test]
fn the_error_of_iterates_is_that_of_their_workload() {
    for (workload, names) in [
        (Workload::count(), ["sqrt", "binary-tree", "scaled-blt"].as_slice()),
        (Workload::momentum(0.9, &[1.0, 0.5, 0.25, 0.1]).unwrap(), &["optimal", "identity"]),
    ] {
        for name in names {
            let strategy =
                name.parse::<Method>().unwrap().build(&Problem::new(workload.clone(), 40).unwrap()).unwrap();
            let rows = iterates::squared_row_norms(strategy.as_ref(), &workload).unwrap();
            let expected = strategy.row_norms().unwrap();
            for (row, expected) in rows.iter().zip(expected.iter()) {
                assert!((row / expected - 1.0).abs() < 1e-9, "{name} {workload}: {row} {expected}");
            }
        }
    }
    // By hand: independent noise under β = ½ and two steps has M = [1 0; 3/2 1], so (1 + 9/4 + 1)/2.
    let identity = Method::Identity.build(&Problem::new(Workload::count(), 2).unwrap()).unwrap();
    let half = Workload::momentum(0.5, &[1.0]).unwrap();
    let error = iterates::mean_squared_error(identity.as_ref(), &half, Participation::Single).unwrap();
    assert!((error - 4.25 / 2.0).abs() < 1e-12, "{error}");
}

/// A strategy that is optimal for the momentum workload beats every strategy for prefix sums at every momentum. Without
/// momentum the two optima are one; with it, no strategy for prefix sums is optimal.
#[test]
fn the_optimum_for_the_momentum_beats_every_prefix_sum_strategy() {
    let rows = errors(64).unwrap();
    // The dense program stops at a relative gap far below this.
    let tolerance = 1e-4;
    for (name, row) in PREFIX_SUM_STRATEGIES.iter().zip(&rows[1..]) {
        for ((own, other), momentum) in rows[0].iter().zip(row).zip(MOMENTA) {
            assert!(*own <= other * (1.0 + tolerance), "{name}, β = {momentum}: {own} against {other}");
            if momentum > 0.0 {
                assert!(*own < other * (1.0 - tolerance), "{name}, β = {momentum}: {own} against {other}");
            }
        }
    }
    assert!((rows[0][0] / rows[1][0] - 1.0).abs() < tolerance, "no momentum: {rows:?}");
}
