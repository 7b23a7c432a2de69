//! What the exact mode promises, tested from the outside in.

mod attack;
mod privacy;
mod sparse;
mod state;

use std::sync::Arc;

use num_bigint::{BigInt, BigUint};
use proptest::prelude::*;

use super::*;
use crate::noise::Seed;
use crate::sensitivity::{Footprint, Participation, Relation};
use crate::strategy::Strategy;
use crate::workload::Workload;
use crate::{Arithmetic, Budget, Mechanism, Method, Plan, Problem};

fn build(name: &str, workload: &str, steps: usize) -> crate::Result<Arc<dyn Strategy>> {
    let workload: Workload = workload.parse()?;
    name.parse::<Method>().unwrap().build(&Problem::new(workload.clone(), steps).unwrap())
}

fn scalar(low: f64, high: f64) -> Footprint {
    Footprint::scalar(low, high, Relation::Replace, Participation::Single).unwrap()
}

const BUDGET: Kind = Kind::Approximate { epsilon: 1.0, delta: 1e-6 };

fn plan(name: &str, workload: &str, steps: usize, dimension: usize, grid: f64) -> crate::Result<ExactPlan> {
    let footprint =
        Footprint::vector(-1.0, 2.0, dimension, Relation::Replace, Participation::Single).unwrap();
    ExactPlan::new(&build(name, workload, steps)?, footprint, dimension, grid, BUDGET)
}

/// An exact plan at work.
fn live(plan: ExactPlan, seed: Seed) -> Mechanism {
    Mechanism::new(whole(plan), seed).unwrap()
}

/// The plan of which an exact plan is the form. What its budget is called makes no difference here.
fn whole(plan: ExactPlan) -> Plan {
    Plan::of_exact(plan, Budget::approximate(1.0, 1e-6).unwrap())
}

/// A release of inputs in grid units.
fn release_units(mechanism: &mut Mechanism, units: &[i64], output: &mut [f64]) -> crate::Result<usize> {
    let Arithmetic::Exact { grid } = mechanism.plan().arithmetic() else { panic!("an exact plan") };
    let input: Vec<f64> = units.iter().map(|unit| *unit as f64 * grid).collect();
    mechanism.release(&input, output)
}

/// Every entry of C̃ as a big integer, from its parts.
fn matrix(strategy: &IntegerStrategy) -> Vec<Vec<BigInt>> {
    use super::integer::Entries;
    let n = strategy.steps();
    let lower = |entry: &dyn Fn(usize, usize) -> BigInt| {
        (0..n).map(|i| (0..n).map(|j| if i >= j { entry(i, j) } else { BigInt::ZERO }).collect()).collect()
    };
    match &strategy.entries {
        Entries::Toeplitz { coefficients, .. } => lower(&|i, j| coefficients[i - j].into()),
        Entries::Scaled { rows, coefficients, columns, .. } => {
            lower(&|i, j| BigInt::from(rows[i]) * coefficients[i - j] * columns[j])
        }
        Entries::Dense { packed, .. } => lower(&|i, j| packed[i * (i + 1) / 2 + j].into()),
        Entries::WeightedNodes { bits, .. } => {
            // Weights have few bits: the products are exact.
            let nodes = strategy.materialize().unwrap();
            assert!(
                nodes.iter().all(|entry| entry.fract() == 0.0 && *entry <= 2.0_f64.powi(bits.cast_signed()))
            );
            let row =
                |row: ndarray::ArrayView1<'_, f64>| row.iter().map(|entry| (*entry as i64).into()).collect();
            nodes.rows().into_iter().map(row).collect()
        }
        Entries::LeftNodes { bits } | Entries::AllNodes { bits } => {
            let nodes = strategy.source().materialize().unwrap().strategy;
            nodes
                .rows()
                .into_iter()
                .map(|row| row.iter().map(|entry| BigInt::from(*entry as i64) << *bits).collect())
                .collect()
        }
    }
}

/// A mechanism whose noise is subtracted again leaves C̃x, which must be that of big integers.
fn measured_without_noise(plan: &ExactPlan, inputs: &[Vec<i64>]) -> Vec<Vec<BigInt>> {
    let mut mechanism = live(plan.clone(), Seed::reproducible(5));
    let mut noise = noise::IntegerNoise::new(
        Seed::reproducible(5),
        plan.dimension(),
        0..plan.dimension(),
        plan.sampler(),
    );
    let mut output = vec![0.0; plan.dimension()];
    let mut rows = Vec::new();
    for input in inputs {
        release_units(&mut mechanism, input, &mut output).unwrap();
        for measured in mechanism.measurements().chunks_exact(plan.dimension()) {
            let mut z = vec![0; plan.dimension()];
            noise.add_row(rows.len(), &mut z);
            rows.push(measured.iter().zip(z).map(|(y, z)| BigInt::from(*y) - z).collect());
        }
    }
    rows
}

fn by_big_integers(plan: &ExactPlan, inputs: &[Vec<i64>]) -> Vec<Vec<BigInt>> {
    matrix(plan.strategy())
        .iter()
        .map(|row| {
            (0..plan.dimension())
                .map(|j| row.iter().zip(inputs).map(|(c, x)| c * x[j]).sum::<BigInt>())
                .collect()
        })
        .collect()
}

#[test]
fn measurements_at_the_extremes_of_the_bounds_are_those_of_big_integers() {
    let mut covered = 0;
    for name in Method::ALL.iter().map(|method| method.name()) {
        for workload in ["count", "average", "window:40", "poly:0.5"] {
            for grid in [1.0, 1e-3, 2.0_f64.powi(-18)] {
                let Ok(plan) = plan(name, workload, 150, 2, grid) else { continue };
                covered += 1;
                let (low, high) = ((-1.0 / grid).round() as i64, (2.0 / grid).round() as i64);
                // All at the upper bound, all at the lower, alternating, and a single change of sign.
                let shapes: [&dyn Fn(usize) -> i64; 4] =
                    [&|_| high, &|_| low, &|t| if t % 2 == 0 { low } else { high }, &|t| {
                        if t < 75 { high } else { low }
                    }];
                for pair in shapes.windows(2) {
                    let inputs: Vec<Vec<i64>> = (0..150).map(|t| vec![pair[0](t), pair[1](t)]).collect();
                    assert!(
                        measured_without_noise(&plan, &inputs) == by_big_integers(&plan, &inputs),
                        "{name} {workload} on {grid}"
                    );
                }
            }
        }
    }
    assert!(covered > 40, "{covered}");
}

#[test]
fn widest_bounds_that_a_plan_accepts_do_not_overflow() {
    // The largest inputs of all, with sums of 79 bits.
    let strategy = build("output", "count", 600).unwrap();
    let budget = Kind::ZeroConcentrated { rho: 1e10 };
    let plan = ExactPlan::new(&strategy, scalar(-1e15, 1e15), 1, 1.0, budget).unwrap();
    let inputs: Vec<Vec<i64>> =
        (0..600).map(|t| vec![if t < 599 { 1_000_000_000_000_000 } else { -1 }]).collect();
    assert!(measured_without_noise(&plan, &inputs) == by_big_integers(&plan, &inputs));
    // Noise of 66 bits beside them.
    let plan = ExactPlan::new(&strategy, scalar(-1e15, 1e15), 1, 1.0, BUDGET).unwrap();
    assert!(plan.noise().variance() > 2.0_f64.powi(130));
    assert!(measured_without_noise(&plan, &inputs) == by_big_integers(&plan, &inputs));
    // And wider ones are refused rather than cut.
    assert!(ExactPlan::new(&strategy, scalar(-1e16, 1e16), 1, 1.0, budget).is_err());
    for bound in [1e160, 1e300, 1.7e308] {
        assert!(ExactPlan::new(&strategy, scalar(-1.0, bound), 1, bound, BUDGET).is_err() == (bound > 1e270));
        assert!(ExactPlan::new(&strategy, scalar(-1.0, bound), 1, 1.0, BUDGET).is_err());
    }
}

#[test]
fn sensitivities_are_exact_or_above_for_every_admissible_change() {
    let participations: Vec<Participation> =
        ["single", "2:1", "2:3", "3:2", "8:1"].iter().map(|text| text.parse().unwrap()).collect();
    let n = 8_usize;
    let mut covered = 0;
    for name in Method::ALL.iter().map(|method| method.name()) {
        for workload in ["count", "average", "window:3", "exp:1.5", "momentum:0.9"] {
            let Ok(strategy) = build(name, workload, n) else { continue };
            let Ok(integer) = IntegerStrategy::new(&strategy, ENTRY_BITS) else { continue };
            covered += 1;
            let matrix = matrix(&integer);
            for participation in &participations {
                let bound = BigInt::from(integer.squared_sensitivity(*participation).unwrap());
                let absolute = BigInt::from(integer.absolute_sensitivity(*participation).unwrap());
                let (mut worst, mut worst_absolute) = (BigInt::ZERO, BigInt::ZERO);
                for code in 0..3_u32.pow(8) {
                    let signs: Vec<i32> =
                        (0..8).map(|j| (code / 3_u32.pow(j) % 3).cast_signed() - 1).collect();
                    let used: Vec<usize> = (0..n).filter(|j| signs[*j] != 0).collect();
                    if used.len() > participation.times_within(n)
                        || used.windows(2).any(|pair| pair[1] - pair[0] < participation.separation())
                    {
                        continue;
                    }
                    let moved: Vec<BigInt> = matrix
                        .iter()
                        .map(|row| used.iter().map(|j| &row[*j] * signs[*j]).sum::<BigInt>())
                        .collect();
                    worst = worst.max(moved.iter().map(|value| value * value).sum());
                    worst_absolute = worst_absolute
                        .max(moved.iter().map(|value| BigInt::from(value.magnitude().clone())).sum());
                }
                assert!(bound >= worst, "{name} {workload} {participation}: {bound} < {worst}");
                assert!(absolute >= worst_absolute, "{name} {workload} {participation}");
                if *participation == Participation::Single || (name == "sqrt" && workload == "count") {
                    assert_eq!(bound, worst, "{name} {workload} {participation}");
                }
            }
        }
    }
    assert!(covered >= 20, "{covered}");
}

/// Strategies that were built for several participations, against every admissible change of one person.
#[test]
fn sensitivities_of_strategies_made_for_repetition_are_exact_or_above() {
    let n = 9_usize;
    for text in ["2:4", "3:2", "3:3", "9:1"] {
        let participation: Participation = text.parse().unwrap();
        let sets: Vec<Vec<usize>> = (0..1_u32 << n)
            .map(|set| (0..n).filter(|j| set >> j & 1 == 1).collect::<Vec<usize>>())
            .filter(|set| set.len() <= participation.times_within(n))
            .filter(|set| set.windows(2).all(|pair| pair[1] - pair[0] >= participation.separation()))
            .collect();
        for name in ["blt", "scaled-blt", "banded", "sqrt", "optimal"] {
            for workload in ["count", "momentum:0.9"] {
                let problem = Problem::new(workload.parse().unwrap(), n).unwrap();
                let problem = problem.with_participation(participation);
                let strategy = name.parse::<Method>().unwrap().build(&problem).unwrap();
                let integer = IntegerStrategy::new(&strategy, ENTRY_BITS).unwrap();
                let bound = BigInt::from(integer.squared_sensitivity(participation).unwrap());
                let matrix = matrix(&integer);
                let mut worst = BigInt::ZERO;
                for set in &sets {
                    for signs in 0..1_u32 << set.len() {
                        let moved = matrix.iter().map(|row| {
                            let parts = set.iter().enumerate();
                            parts
                                .map(|(i, j)| if signs >> i & 1 == 1 { -&row[*j] } else { row[*j].clone() })
                                .sum::<BigInt>()
                        });
                        worst = worst.max(moved.map(|value| &value * &value).sum());
                    }
                }
                assert!(bound >= worst, "{name} {workload} {text}: {bound} < {worst}");
                if name == "blt" || name == "sqrt" {
                    assert_eq!(bound, worst, "{name} {workload} {text}");
                }
            }
        }
    }
}

#[test]
fn releases_are_the_statistic_plus_noise_of_the_stated_size() {
    for name in Method::ALL.iter().map(|method| method.name()) {
        for workload in ["count", "average", "window:5", "exp:1.2", "momentum:0.8", "poly:0.7"] {
            let steps = 40;
            let Ok(plan) = plan(name, workload, steps, 1, 0.125) else { continue };
            let (mut squares, mut worst) = (0.0, 0.0_f64);
            for seed in 0..60 {
                let mut mechanism = live(plan.clone(), Seed::reproducible(seed));
                let mut truth = workload.parse::<Workload>().unwrap().stream(steps, 1).unwrap();
                let (mut output, mut exact) = ([0.0], [0.0]);
                for t in 0..steps {
                    let input = [(t % 9) as f64 * 0.125];
                    truth.push(&input, &mut exact).unwrap();
                    let step = mechanism.release(&input, &mut output).unwrap();
                    let error = (output[0] - exact[0]) / plan.standard_deviation(step).unwrap();
                    squares += error * error / (60 * steps) as f64;
                    worst = worst.max(error.abs());
                }
            }
            // 60 independent streams: the mean square of standardized errors is within a factor of two of one.
            assert!((0.5..2.0).contains(&squares) && worst < 7.0, "{name} {workload}: {squares}, {worst}");
        }
    }
}

#[test]
fn exact_errors_are_those_of_the_idealized_mode() {
    let steps = 1024;
    let footprint = || Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    for (name, tolerance) in [
        ("sqrt", 1e-9),
        ("blt", 1e-9),
        ("anytime", 1e-4),
        ("normalized-sqrt", 1e-4),
        ("scaled-sqrt", 1e-4),
        ("scaled-blt", 1e-4),
        ("binary-tree", 1e-12),
        ("identity", 1e-12),
    ] {
        let strategy = build(name, "count", steps).unwrap();
        let budget = crate::Budget::approximate(1.0, 1e-6).unwrap();
        let idealized = crate::Plan::idealized(strategy.clone(), footprint(), budget).unwrap();
        let exact = ExactPlan::new(&strategy, footprint(), 1, 1.0, budget.kind()).unwrap();
        let expected =
            strategy.sensitivity(Participation::Single).unwrap().squared * idealized.row_norms().mean();
        let factor = exact.mean_squared_error_factor(Participation::Single).unwrap();
        assert!((factor / expected - 1.0).abs() < tolerance, "{name}: E2 = {factor} against {expected}");
        // And the calibration adds nothing: the released noise itself is the same.
        for step in [1, 100, 1024] {
            let ratio = exact.standard_deviation(step).unwrap() / idealized.standard_deviation(step).unwrap();
            assert!((ratio - 1.0).abs() < 30.0 * tolerance.max(1e-9), "{name} at {step}: {ratio}");
            assert!(ratio < 1.0 + 1e-4, "{name} at {step}: {ratio}");
        }
    }
}

/// Beyond the horizons that are written out as a matrix, and beyond those whose diagonals are tables.
#[test]
fn long_horizons_have_the_noise_of_the_idealized_mode() {
    let steps = 70_000;
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    let budget = crate::Budget::approximate(1.0, 1e-6).unwrap();
    for name in ["blt", "scaled-blt", "anytime"] {
        let strategy = build(name, "count", steps).unwrap();
        let idealized = crate::Plan::idealized(strategy.clone(), footprint.clone(), budget).unwrap();
        let exact = ExactPlan::new(&strategy, footprint.clone(), 1, 1.0, budget.kind()).unwrap();
        for step in [1, 2, 1000, 35_000, 69_990, 70_000] {
            let ratio = exact.standard_deviation(step).unwrap() / idealized.standard_deviation(step).unwrap();
            assert!(ratio < 1.0 + 1e-4, "{name} at {step}: {ratio}");
        }
        assert!(exact.decoding_bias() < 1e-6, "{name}: {}", exact.decoding_bias());
        assert!(exact.strategy().recursion.is_some(), "{name}");
    }
}

#[test]
fn several_participations_cost_what_they_cost_in_the_idealized_mode() {
    let steps = 200;
    let budget = crate::Budget::approximate(1.0, 1e-6).unwrap();
    for text in ["4:50", "3:7"] {
        let participation: Participation = text.parse().unwrap();
        let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, participation).unwrap();
        for name in
            ["sqrt", "blt", "scaled-blt", "banded", "optimal", "binary-tree", "honaker-online", "identity"]
        {
            let problem = Problem::new(Workload::count(), steps).unwrap().with_participation(participation);
            let strategy = name.parse::<Method>().unwrap().build(&problem).unwrap();
            let idealized = crate::Plan::idealized(strategy.clone(), footprint.clone(), budget).unwrap();
            let exact = ExactPlan::new(&strategy, footprint.clone(), 1, 1.0, budget.kind()).unwrap();
            let ratio =
                exact.standard_deviation(steps).unwrap() / idealized.standard_deviation(steps).unwrap();
            assert!((ratio - 1.0).abs() < 2e-4, "{name} {text}: {ratio}");
        }
    }
}

/// The same measurements decoded by the recursion of the real matrix and by the coefficients of the integer one.
#[test]
fn decoding_with_the_real_matrix_moves_nothing() {
    let steps = 1500;
    for name in ["blt", "scaled-blt", "banded", "banded-inverse", "identity"] {
        for workload in ["count", "average", "window:40", "exp:1.1", "poly:0.5", "momentum:0.9"] {
            let Ok(plan) = plan(name, workload, steps, 1, 1.0) else { continue };
            let Some(bias) = decode::recursion_bias(plan.strategy()).unwrap() else { continue };
            let mut by_series = plan.clone();
            by_series.decode_by_series();
            let mut both = [plan.clone(), by_series].map(|plan| live(plan, Seed::reproducible(3)));
            for step in 1..=steps {
                let input = [if step % 100 < 60 { 2.0 } else { -1.0 }];
                let [a, b] = both.each_mut().map(|mechanism| {
                    let mut output = [0.0];
                    mechanism.release(&input, &mut output).unwrap();
                    output[0]
                });
                let deviation = plan.standard_deviation(step).unwrap();
                // The bound for inputs together with their noise, and the rounding of sums of this size in f64.
                let inputs = 2.0 + 20.0 * plan.standard_deviation(steps).unwrap();
                let allowed = inputs * bias[step - 1] + 1e-11 * (deviation + b.abs());
                assert!((a - b).abs() <= allowed, "{name} {workload} at {step}: {a} {b}");
                assert!((a - b).abs() < 1e-6 * deviation, "{name} {workload} at {step}: {a} {b}");
            }
        }
    }
}

/// Bits are added until decoding is accurate, and where none are left the integer matrix itself is decoded.
#[test]
fn small_noise_gets_more_bits_and_no_noise_to_speak_of_another_decoder() {
    let make = |rho: f64| {
        let budget = Kind::ZeroConcentrated { rho };
        ExactPlan::new(&build("blt", "count", 300).unwrap(), scalar(0.0, 1.0), 1, 1.0, budget).unwrap()
    };
    let [usual, fine, finest] = [0.5, 1e12, 1e26].map(make);
    assert_eq!(usual.strategy().bits(), ENTRY_BITS - 1, "one bit is above the unit");
    assert!(fine.strategy().bits() > usual.strategy().bits() && fine.strategy().recursion.is_some());
    assert!(finest.strategy().recursion.is_none());
    for plan in [usual, fine, finest] {
        assert!(plan.decoding_bias() < 1e-6);
        let mut mechanism = live(plan.clone(), Seed::reproducible(1));
        let mut output = [0.0];
        for step in 1..=300 {
            mechanism.release(&[1.0], &mut output).unwrap();
            let deviation = plan.standard_deviation(step).unwrap();
            assert!((output[0] - step as f64).abs() < 7.0 * deviation + 1e-12 * step as f64);
        }
    }
}

#[test]
fn gaussian_budgets_are_kept_with_their_slack() {
    let strategy = build("blt", "count", 300).unwrap();
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    let budget = crate::Budget::gaussian(0.5).unwrap();
    let exact = ExactPlan::new(&strategy, footprint.clone(), 1, 1.0, budget.kind()).unwrap();
    let idealized = crate::Plan::idealized(strategy, footprint, budget).unwrap();
    let ratio = exact.standard_deviation(300).unwrap() / idealized.standard_deviation(300).unwrap();
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
    // Δ²/σ² is not above μ², and the slack is that of 300 values of noise on a lattice of 2^-39.
    let squared = sums::to_f64(exact.sensitivity()) / exact.noise().variance();
    assert!(squared <= 0.25 * (1.0 + 1e-12));
    assert!(exact.slack() > 0.0 && exact.slack() < 1e-20, "{}", exact.slack());
}

/// Rounding may turn the sign of an entry; the proof of an encoding holds for what is measured.
#[test]
fn encodings_look_at_the_integer_matrix() {
    use crate::sensitivity::Term;
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap().needing_non_negative_columns();
    let make =
        |name: &str| ExactPlan::new(&build(name, "count", 20).unwrap(), footprint.clone(), 3, 1.0, BUDGET);
    for name in ["sqrt", "blt", "scaled-blt", "binary-tree", "optimal"] {
        assert!(make(name).is_ok(), "{name}");
    }
    let mut rounded = make("sqrt").unwrap().strategy().clone();
    rounded.check_columns().unwrap();
    if let integer::Entries::Toeplitz { coefficients, .. } = &mut rounded.entries {
        coefficients[19] = -1;
    }
    assert!(rounded.check_columns().is_err());
}

#[test]
fn inputs_off_the_grid_move_releases_by_no_more_than_stated() {
    let plan = plan("sqrt", "window:6", 30, 1, 0.25).unwrap();
    let run = |shift: f64| {
        let mut mechanism = live(plan.clone(), Seed::reproducible(1));
        let mut output = [0.0];
        (0..30)
            .map(|_| {
                mechanism.release(&[0.5 + shift], &mut output).unwrap();
                output[0]
            })
            .collect::<Vec<f64>>()
    };
    let (on, off) = (run(0.0), run(0.12));
    assert_eq!(on, off, "0.62 is rounded to 0.5");
    for step in [1, 6, 30] {
        let bound = plan.quantization(step).unwrap();
        assert_eq!(bound, 0.125 * step.min(6) as f64);
    }
}

#[test]
fn plans_that_cannot_be_exact_are_refused() {
    let count = build("sqrt", "count", 64).unwrap();
    let make =
        |footprint, dimension, grid, budget| ExactPlan::new(&count, footprint, dimension, grid, budget);
    assert!(make(scalar(0.0, 1.0), 0, 1.0, BUDGET).is_err());
    for grid in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 10.0] {
        assert!(make(scalar(0.0, 1.0), 1, grid, BUDGET).is_err(), "{grid}");
    }
    let ball = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single).unwrap();
    assert!(make(ball.clone(), 3, 0.01, Kind::Pure { epsilon: 1.0 }).is_err());
    assert!(make(ball, 3, 0.01, BUDGET).is_ok());
    for weights in [[1e30, 1.0], [1e-200, 1e-201]] {
        let workload = Workload::weights(&weights).unwrap();
        let output = Method::Output.build(&Problem::new(workload.clone(), 2).unwrap()).unwrap();
        assert!(ExactPlan::new(&output, scalar(0.0, 1.0), 1, 1.0, BUDGET).is_err(), "{weights:?}");
    }
    let full = build("honaker-full", "count", 64).unwrap();
    let refused = ExactPlan::new(&full, scalar(0.0, 1.0), 1, 1.0, BUDGET).unwrap_err();
    assert!(refused.to_string().contains("honaker-online"), "{refused}");
}

#[test]
fn vectors_are_checked_after_rounding() {
    let footprint = Footprint::ball(1.0, Relation::Replace, Participation::Single).unwrap();
    let strategy = build("sqrt", "count", 16).unwrap();
    let plan = ExactPlan::new(&strategy, footprint, 3, 0.01, BUDGET).unwrap();
    // (1/0.01 + sqrt(3)/2)², doubled for replacement.
    let squared = plan.strategy().squared_sensitivity(Participation::Single).unwrap();
    let change = (100.0 + 3.0_f64.sqrt() / 2.0).powi(2) * 4.0;
    let ratio = sums::to_f64(plan.sensitivity()) / (sums::to_f64(&squared) * change);
    assert!((1.0..1.001).contains(&ratio), "{ratio}");
    let mut mechanism = live(plan, Seed::reproducible(0));
    let mut output = [0.0; 3];
    assert!(mechanism.release(&[0.6, 0.6, 0.6], &mut output).is_err());
    assert!(release_units(&mut mechanism, &[101, 0, 0], &mut output).is_err());
    assert_eq!(mechanism.step(), 0);
    mechanism.release(&[0.6, 0.0, -0.8], &mut output).unwrap();
}

#[test]
fn encoded_events_must_lie_on_the_grid() {
    let term = crate::sensitivity::Term { weight: 2.0_f64.sqrt(), participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::Replace).unwrap();
    let strategy = build("honaker-online", "count", 16).unwrap();
    let plan = ExactPlan::new(&strategy, footprint, 2, 1.0, BUDGET).unwrap();
    // 2 · levels · 4^bits, rounded up a little because the weight is the double above sqrt(2).
    let expected = 2.0 * 5.0 * 4.0_f64.powi(plan.strategy().bits().cast_signed());
    assert!((1.0..1.0 + 1e-12).contains(&(sums::to_f64(plan.sensitivity()) / expected)));
    let mut mechanism = live(plan, Seed::reproducible(0));
    let mut output = [0.0; 2];
    assert!(mechanism.release(&[0.5, 0.0], &mut output).is_err());
    assert!(mechanism.release(&[1e12, 0.0], &mut output).is_err());
    mechanism.release(&[3.0, -1.0], &mut output).unwrap();
}

#[test]
fn pure_budgets_pay_for_every_level() {
    let strategy = build("binary-tree", "count", 1000).unwrap();
    let footprint = Footprint::scalar(0.0, 3.0, Relation::ZeroOut, Participation::Single).unwrap();
    let plan = ExactPlan::new(&strategy, footprint, 1, 1.0, Kind::Pure { epsilon: 0.5 }).unwrap();
    let bits = plan.strategy().bits();
    assert_eq!(*plan.sensitivity(), BigUint::from(10_u32 * 3) << bits);
    let NoiseParameter::Scale { numerator, denominator } = plan.noise() else { panic!("{plan:?}") };
    assert_eq!(BigUint::from(numerator), (BigUint::from(60_u32) << bits) * denominator);
    // One node: variance 2 s² with s = 30/0.5.
    let deviation = plan.standard_deviation(512).unwrap();
    assert!((deviation - 60.0 * 2.0_f64.sqrt()).abs() < 1e-6, "{deviation}");
    let mut mechanism = live(plan, Seed::from_system().unwrap());
    mechanism.release(&[3.0], &mut [0.0]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_plan_is_refused_or_has_enough_noise(
        method in prop::sample::select(Method::ALL),
        steps in 1_usize..40,
        log_bound in -20.0_f64..40.0,
        log_grid in -60.0_f64..20.0,
        log_epsilon in -8.0_f64..6.0,
        kind in 0..3,
    ) {
        let (bound, grid, epsilon) = (log_bound.exp2(), log_grid.exp2(), log_epsilon.exp());
        let budget = match kind {
            0 => Kind::Approximate { epsilon, delta: 1e-7 },
            1 => Kind::ZeroConcentrated { rho: epsilon },
            _ => Kind::Pure { epsilon },
        };
        let footprint = Footprint::scalar(-bound, bound, Relation::ZeroOut, Participation::Single).unwrap();
        let made = build(method.name(), "count", steps)
            .and_then(|strategy| ExactPlan::new(&strategy, footprint, 1, grid, budget));
        prop_assume!(made.is_ok());
        let plan = made.unwrap();
        let sensitivity = plan.sensitivity().clone();
        match (plan.noise(), budget) {
            (
                NoiseParameter::SquaredScale { numerator, denominator, doublings },
                Kind::ZeroConcentrated { rho },
            ) => {
                // σ² ≥ Δ²/(2ρ), checked in integers: ρ = m 2^e.
                let (mantissa, exponent) = sums::dyadic(2.0 * rho);
                let variance = BigUint::from(numerator) << (2 * doublings);
                let (mut left, mut right) = (variance * mantissa, sensitivity * denominator);
                if exponent >= 0 { left <<= exponent.unsigned_abs() } else { right <<= exponent.unsigned_abs() }
                prop_assert!(left >= right);
            }
            (noise @ NoiseParameter::SquaredScale { .. }, Kind::Approximate { epsilon, delta }) => {
                let variance = noise.variance();
                let measurements = plan.strategy().measurements() as f64;
                let claimed = budget::delta_of_discrete_gaussian(
                    epsilon, sums::to_f64(&sensitivity) * (1.0 - 1e-12), variance, measurements,
                ).unwrap();
                prop_assert!(claimed <= delta * (1.0 + 1e-6), "{claimed}");
            }
            (NoiseParameter::Scale { numerator, denominator }, Kind::Pure { epsilon }) => {
                let (mantissa, exponent) = sums::dyadic(epsilon);
                let (mut left, mut right) = (BigUint::from(numerator) * mantissa, sensitivity * denominator);
                if exponent >= 0 { left <<= exponent.unsigned_abs() } else { right <<= exponent.unsigned_abs() }
                prop_assert!(left >= right);
            }
            _ => prop_assert!(false),
        }
        // And it runs.
        let mut mechanism = live(plan, Seed::reproducible(0));
        for _ in 0..steps {
            mechanism.release(&[bound], &mut [0.0]).unwrap();
        }
    }
}

#[test]
fn every_coordinate_that_a_person_can_change_is_paid_for() {
    let strategy = build("binary-tree", "count", 8).unwrap();
    let plan = |dimension, budget| {
        let footprint =
            Footprint::vector(0.0, 1.0, dimension, Relation::ZeroOut, Participation::Single).unwrap();
        ExactPlan::new(&strategy, footprint, dimension, 1.0, budget).unwrap()
    };
    let pure = Kind::Pure { epsilon: 1.0 };
    // All ten coordinates of one step change by 1: ten times as far in l1, ten times as far in squared l2.
    assert_eq!(*plan(10, pure).sensitivity(), plan(1, pure).sensitivity() * 10_u32);
    assert_eq!(*plan(10, BUDGET).sensitivity(), plan(1, BUDGET).sensitivity() * 10_u32);
    let scalar = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    let refused = ExactPlan::new(&strategy, scalar, 10, 1.0, pure);
    assert!(matches!(refused, Err(crate::Error::Dimension { expected: 1, actual: 10, .. })));
}

/// Rounding C to integers costs no noise that anybody would print: the standard deviation of every thousandth release and of
/// the last is within `2e-5` of the idealized one (which is interpolated at the longest horizon), the root of their mean
/// square within `2e-6`. Rows of an average fall by 2^15 and more, and are rounded as well.
#[test]
fn exact_noise_is_no_larger_than_idealized_noise_at_length() {
    for (name, workload, steps) in [
        ("scaled-blt", "count", 1 << 16),
        ("scaled-blt", "count", 1 << 20),
        ("scaled-sqrt", "count", 1 << 14),
        ("scaled-sqrt", "average", 1 << 14),
    ] {
        let strategy = build(name, workload, steps).unwrap();
        let budget = Budget::approximate(1.0, 1e-6).unwrap();
        let exact = Plan::exact(&strategy, scalar(0.0, 1.0), budget, 1.0 / 65536.0).unwrap();
        let idealized = Plan::idealized(strategy, scalar(0.0, 1.0), budget).unwrap();
        let (mut sums, mut worst) = ([0.0; 2], 0.0_f64);
        for step in (1..=steps).step_by(1000).chain([steps]) {
            let pair = [&exact, &idealized].map(|plan| plan.standard_deviation(step).unwrap());
            worst = worst.max(pair[0] / pair[1] - 1.0);
            sums = [sums[0] + pair[0] * pair[0], sums[1] + pair[1] * pair[1]];
        }
        let mean = (sums[0] / sums[1]).sqrt() - 1.0;
        assert!(worst < 2e-5 && mean < 2e-6, "{name} {workload}, {steps} steps: {worst:e}, {mean:e}");
    }
}
