//! Measured regret against its bound.

use dp_ftrl::{Clipping, Error, Region, Regret, RegretBound, gradients};
use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Workload};

use crate::examples::online_regret::play;

/// 60 runs of 256 steps for each strategy. The bound holds in expectation; the mean of the runs exceeds it by 4 standard
/// errors with probability below 1e-4 (α, for all strategies together). The adversary makes the noise cost what it can:
/// the runs exceed the bound `sqrt(1/n)` of learning without noise, and runs with four times the noise that the bound
/// knows of exceed the bound itself.
#[test]
fn measured_regret_stays_below_the_bound_and_too_much_noise_does_not() {
    let steps = 256;
    let budget = Budget::gaussian(1.0).unwrap();
    for name in ["scaled-sqrt", "sqrt", "binary-tree"] {
        let honest = play(name, steps, 60, budget, 1.0).unwrap();
        assert!(honest.measured <= honest.bound + 4.0 * honest.error, "{name}: {honest:?}");
        assert!(honest.measured - 4.0 * honest.error > (1.0 / steps as f64).sqrt(), "{name}: {honest:?}");
        let noisy = play(name, steps, 60, budget, 4.0).unwrap();
        assert!(noisy.measured > noisy.bound + 4.0 * noisy.error, "{name}: {noisy:?}");
    }
}

#[test]
fn the_bound_is_what_its_formula_says() {
    // Independent noise over 3 steps: b_t has t ones, ‖b_1‖ + ‖b_2‖ = 1 + √2, and Δ = 1, so σ = κ/μ = 2/0.5 = 4.
    let single = Participation::Single;
    let strategy = Method::Identity.build(&Problem::new(Workload::count(), 3).unwrap()).unwrap();
    let clipping = Clipping::flat(2.0).unwrap();
    let budget = Budget::gaussian(0.5).unwrap();
    let plan = gradients::plan(strategy, &clipping, Relation::ZeroOut, single, budget).unwrap();
    let bound = RegretBound::new(&plan, 2.0, 9, 5.0).unwrap();
    let a = 2.0 * 2.0 / 2.0 + 2.0 * 3.0 * 4.0 * (1.0 + 2.0_f64.sqrt()) / 3.0;
    assert!((bound.at(7.0) - (a / 7.0 + 7.0 * 25.0 / 6.0)).abs() < 1e-9);
    assert!((bound.best() - 5.0 * (2.0 * a / 3.0).sqrt()).abs() < 1e-9);
    assert!((bound.at(bound.best_lambda()) - bound.best()).abs() < 1e-9);
    for factor in [0.5, 0.9, 1.1, 2.0] {
        assert!(bound.at(factor * bound.best_lambda()) > bound.best());
    }
    assert!(
        RegretBound::new(&plan, f64::NAN, 9, 5.0).is_err() && RegretBound::new(&plan, 2.0, 0, 5.0).is_err()
    );
    let momentum = Workload::momentum(0.9, &[1.0]).unwrap();
    let other = Method::Identity.build(&Problem::new(momentum.clone(), 3).unwrap()).unwrap();
    let other = gradients::plan(other, &clipping, Relation::ZeroOut, single, budget).unwrap();
    assert!(matches!(RegretBound::new(&other, 2.0, 9, 5.0), Err(Error::Workload { .. })));
}

#[test]
fn regret_is_counted_against_the_best_fixed_point() {
    let mut regret = Regret::new(2, Region::Ball { radius: 2.0 }).unwrap();
    assert_eq!(regret.mean(), 0.0);
    regret.play(&[1.0, 0.0], &[3.0, 0.0]).unwrap();
    regret.play(&[0.0, 1.0], &[0.0, 4.0]).unwrap();
    assert!(regret.play(&[0.0, f64::NAN], &[0.0, 1.0]).is_err());
    // Paid 3 + 4; the best point lost -2·‖(3, 4)‖ = -10; the point (1, -1) lost -1.
    assert!((regret.mean() - 17.0 / 2.0).abs() < 1e-12);
    assert!((regret.mean_against(&[1.0, -1.0]).unwrap() - 8.0 / 2.0).abs() < 1e-12);
    assert!(regret.mean_against(&[1.0]).is_err());
    let mut free = Regret::new(1, Region::Everything).unwrap();
    free.play(&[0.0], &[1.0]).unwrap();
    assert_eq!(free.mean(), f64::INFINITY);
}
