//! An attack on floating point noise that succeeds on the idealized mode and learns nothing from the exact one.

use super::*;
use crate::mechanism::Mechanism;
use crate::{JointPlan, Statistic};

/// Whether a number can be what the idealized mode releases when the true sum is zero.
///
/// It is then the rounded product of σ and a double v. Where the product keeps the exponent of v, consecutive products
/// are σ/2^⌊log2 σ⌋ units in the last place apart, so up to half of all doubles are nobody's product.
fn is_product(released: f64, sigma: f64) -> bool {
    let near = released / sigma;
    [near.next_down(), near, near.next_up()].iter().any(|v| v * sigma == released)
}

/// How many of many releases of a one-step stream cannot come from a zero.
fn impossible_releases(games: u64, mut release: impl FnMut(u64) -> f64, sigma: f64) -> u32 {
    (0..games).map(|seed| u32::from(!is_product(release(seed), sigma))).sum()
}

/// The first step of every kind of workload is the person's value and noise, and nothing else.
#[test]
fn low_bits_betray_the_idealized_mode_and_not_the_exact_one() {
    attack("count", 4000);
    for workload in ["average", "exp:1.5", "poly:0.5", "window:3", "momentum:0.9"] {
        attack(workload, 400);
    }
}

/// Whoever asks for no arithmetic has the exact one: of one statistic or several, of numbers or vectors, under every budget.
#[test]
fn the_main_door_is_exact() {
    let budgets = [
        Budget::approximate(1.0, 1e-6).unwrap(),
        Budget::zero_concentrated(0.5).unwrap(),
        Budget::gaussian(1.0).unwrap(),
        Budget::pure(1.0).unwrap(),
    ];
    for (budget, dimension) in budgets.into_iter().flat_map(|budget| [(budget, 1), (budget, 3)]) {
        let (relation, once) = (Relation::ZeroOut, Participation::Single);
        let footprint = Footprint::vector(0.0, 1.0, dimension, relation, once).unwrap();
        for text in ["count", "average", "exp:1.5", "poly:0.5", "window:3", "momentum:0.9"] {
            let problem = Problem::new(text.parse().unwrap(), 8).unwrap();
            let plan = Plan::best(&problem, footprint.clone(), budget).unwrap();
            assert_eq!(plan.arithmetic(), Arithmetic::Exact { grid: 1.0 / 65_536.0 }, "{text}");
            let mut mechanism = Mechanism::new(plan, Seed::reproducible(1)).unwrap();
            mechanism.release(&vec![1.0; dimension], &mut vec![0.0; dimension]).unwrap();
        }
        let statistics =
            ["count", "window:3"].map(|text| Statistic::new(text.parse().unwrap(), 1.0).unwrap());
        let problem = Problem::joint(statistics.to_vec(), 8).unwrap();
        let joint = JointPlan::best(problem, footprint, budget).unwrap();
        assert_eq!(joint.plan().arithmetic(), Arithmetic::Exact { grid: 1.0 / 65_536.0 });
    }
}

fn attack(workload: &str, games: u64) {
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    // σ = 1.45: half of all products keep their exponent, and a third of the doubles there is nobody's product.
    let budget = Budget::zero_concentrated(1.0 / (2.0 * 1.45 * 1.45)).unwrap();
    let strategy = build("identity", workload, 1).unwrap();
    let idealized = Plan::idealized(strategy.clone(), footprint.clone(), budget).unwrap();
    let sigma = idealized.sigma();
    let float = |input: f64| {
        impossible_releases(
            games,
            |seed| {
                let mut output = [0.0];
                let seed = Seed::reproducible(seed);
                let mut mechanism = Mechanism::new(idealized.clone(), seed).unwrap();
                mechanism.release(&[input], &mut output).unwrap();
                output[0]
            },
            sigma,
        )
    };
    // One release in eight or so proves, with certainty, that the person is in the data. The budget allows no such proof.
    assert_eq!(float(0.0), 0, "{workload}");
    let proofs = float(1.0);
    assert!(u64::from(proofs) > games / 16, "{workload}: {proofs} of {games}");

    let exact = ExactPlan::new(&strategy, footprint, 1, 1.0, budget.kind()).unwrap();
    let unit = libm::ldexp(1.0, exact.strategy().bits().cast_signed());
    let integer = |input: f64| {
        impossible_releases(
            games,
            |seed| {
                let mut output = [0.0];
                let seed = Seed::reproducible(seed);
                let mut mechanism = live(exact.clone(), seed);
                mechanism.release(&[input], &mut output).unwrap();
                // Whoever is in the data: an integer over a power of two, and each of them is possible.
                assert_eq!((output[0] * unit).fract(), 0.0);
                assert_eq!(output[0] * unit, mechanism.measurements()[0] as f64);
                output[0]
            },
            sigma,
        )
    };
    // The same test fires as often for one neighbour as for the other, up to chance: five deviations of a difference
    // of two binomial counts.
    let (without, with) = (integer(0.0), integer(1.0));
    let chance = 5.0 * f64::from(without + with).sqrt();
    assert!((f64::from(with) - f64::from(without)).abs() <= chance, "{workload}: {without} against {with}");
}
