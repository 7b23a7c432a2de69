//! Errors that shipped elsewhere, and what they would have given away.

use dp_linalg::{dense, series};
use dp_mechanisms::{
    Budget, Error, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Seed, Workload,
};
use dp_tests::audit::audit;
use dp_tests::{exhaustive_sensitivity, squared_norm};
use ndarray::Array2;

fn plan(steps: usize) -> Plan {
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), steps).unwrap()).unwrap();
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    Plan::idealized(strategy, footprint, Budget::gaussian(1.0).unwrap()).unwrap()
}

/// A mechanism that starts its noise again after the horizon answers a second time with the same noise, and the
/// difference of the two answers is the data. 200 games with each bit, α = 1e-5: everything is shown that 200 games
/// can show. Ours refuses the first step past the horizon.
#[test]
fn noise_that_repeats_after_the_horizon_cancels() {
    let plan = plan(4);
    let mut past = 0;
    let claim = Budget::gaussian(1.0).unwrap();
    let audit = audit(&claim, 200, 1e-5, |bit, seed| {
        let mut once_around = |first: f64| {
            let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(seed)).unwrap();
            let mut last = [0.0];
            for input in [first, 1.0, 0.0, 1.0] {
                mechanism.release(&[input], &mut last).unwrap();
            }
            let refused = mechanism.release(&[0.0], &mut [0.0]);
            assert_eq!(refused, Err(Error::HorizonReached { horizon: 4 }));
            past += 1;
            last[0]
        };
        once_around(f64::from(u8::from(bit))) - once_around(0.0)
    });
    assert!(audit.refutes() && audit.shown > 2.0, "{audit:?}");
    assert_eq!(past, 800);
}

/// `X = CᵀC` has unit diagonal when the *columns* of C have norm 1. The root on the other side has rows of norm 1 and
/// columns of any length: noise calibrated as if it had unit columns is too small.
#[test]
fn a_root_on_the_wrong_side_is_too_sensitive() {
    let n = 16;
    let root = Method::NormalizedSqrt.build(&Problem::new(Workload::count(), n).unwrap()).unwrap();
    let strategy = root.materialize().unwrap().strategy;
    let gram = dense::gram(strategy.view());
    let longest = |matrix: &Array2<f64>| matrix.columns().into_iter().map(squared_norm).fold(0.0, f64::max);
    let right = dense::lower_root(gram.view()).unwrap();
    assert!((longest(&right) - 1.0).abs() < 1e-12);
    let wrong = dense::lq_lower(strategy.t()).unwrap();
    let product = wrong.dot(&wrong.t());
    assert!((&product - &gram).iter().all(|difference| difference.abs() < 1e-12), "a root all the same");
    for row in wrong.rows() {
        assert!((squared_norm(row) - 1.0).abs() < 1e-12, "rows of norm 1");
    }
    assert!(longest(&wrong) > 1.5, "{}", longest(&wrong));
    // What we report for the strategy is about its columns.
    let reported = root.sensitivity(Participation::Single).unwrap().squared;
    assert!((reported - 1.0).abs() < 1e-12, "{reported}");
}

/// A person in k leaves changes the input by √k in ℓ2. Times the longest column this is no bound: the nodes above
/// several of the leaves move by their number.
#[test]
fn a_tree_moves_more_than_the_norm_of_a_spread_out_change() {
    let steps = 8;
    let tree = Method::BinaryTree.build(&Problem::new(Workload::count(), steps).unwrap()).unwrap();
    let matrix = tree.materialize().unwrap().strategy;
    let levels = tree.sensitivity(Participation::Single).unwrap().squared;
    for times in 2..=steps {
        let participation = Participation::repeated(times, 1).unwrap();
        let truth = exhaustive_sensitivity(&matrix, participation);
        let claimed = tree.sensitivity(participation).unwrap().squared;
        assert!(truth > times as f64 * levels, "k = {times}: {truth} within the wrong bound");
        assert!(claimed >= truth, "k = {times}: {claimed} below {truth}");
    }
}

/// Whoever can try all seeds reads the data: with 12 unknown bits one release of four steps is enough, and 31 bits or
/// the time of day are no different. A seed of the operating system is none of those, and no two are alike.
#[test]
fn a_seed_that_can_be_guessed_gives_the_data_away() {
    let plan = plan(4);
    let run = |mut mechanism: Mechanism, inputs: [f64; 4]| {
        inputs.map(|input| {
            let mut output = [0.0];
            mechanism.release(&[input], &mut output).unwrap();
            output[0]
        })
    };
    let guessed = |number| Mechanism::new(plan.clone(), Seed::reproducible(number)).unwrap();
    // With the right seed, releases minus noise are small integers that go up by 0 or 1.
    let explains = |releases: [f64; 4], number: u64| {
        let noise = run(guessed(number), [0.0; 4]);
        let counts: Vec<f64> = releases.iter().zip(noise).map(|(release, noise)| release - noise).collect();
        counts.iter().all(|count| (count - count.round()).abs() < 1e-9)
            && counts.windows(2).all(|pair| (-1e-9..1.0 + 1e-9).contains(&(pair[1] - pair[0])))
    };
    let seeds = 1 << 12;
    let weak = run(guessed(2718), [1.0, 0.0, 1.0, 1.0]);
    assert_eq!((0..seeds).filter(|number| explains(weak, *number)).collect::<Vec<u64>>(), [2718]);
    let system =
        || run(Mechanism::new(plan.clone(), Seed::from_system().unwrap()).unwrap(), [1.0, 0.0, 1.0, 1.0]);
    let (first, second) = (system(), system());
    assert!((0..seeds).all(|number| !explains(first, number)));
    assert!(first.iter().zip(second).all(|(a, b)| (a - b).abs() > 0.0), "two mechanisms, one noise");
}

/// The recurrence of the square root, `c_k = (1 - 1/(2k)) c_{k-1}`, drifts in f32: near 1 the factors are rounded, to
/// the same side for a long time, and every error stays. The coefficient is 0.9 % off at k = 10^6 and a quarter of it
/// is missing at 1.6·10^7, so a sensitivity from exact coefficients is not that of the coefficients in use.
#[test]
fn coefficients_in_single_precision_drift() {
    // c_k = Γ(k + ½) / (Γ(½) k!) = (πk)^{-1/2} (1 - 1/(8k) + 1/(128k²) + O(k⁻³)).
    let truth = |k: usize| {
        let eighth = 1.0 / (8.0 * k as f64);
        (1.0 - eighth + eighth * eighth / 2.0) / (std::f64::consts::PI * k as f64).sqrt()
    };
    for (last, least) in [(1_000_000, 0.005), (16_000_000, 0.2)] {
        let single = (1..=last).fold(1.0_f32, |c, k| c * (1.0 - 1.0 / (2.0 * k as f32)));
        let drift = (f64::from(single) / truth(last) - 1.0).abs();
        println!("c_k at k = {last}: off by {:.2} % in f32", 100.0 * drift);
        assert!(drift > least, "k = {last}: {drift}");
    }
    let ours = series::binomial(0.5, 1_000_001);
    for k in (10_000..=1_000_000).step_by(1000) {
        assert!((ours[k] / truth(k) - 1.0).abs() < 1e-13, "k = {k}: {} {}", ours[k], truth(k));
    }
}
