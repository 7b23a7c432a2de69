//! Laws of the mechanism without a horizon.

use super::*;
use crate::budget::Budget;
use crate::noise::Seed;
use crate::plan::Horizon;
use crate::sensitivity::{Footprint, Participation, Relation, Term};
use crate::{Arithmetic, Error, Mechanism, Plan};
use crate::{Method, Problem};

fn plan(workload: &Workload, strategy: &str, participation: Participation, first: usize) -> DoublingPlan {
    let footprint = Footprint::scalar(-1.0, 1.0, Relation::ZeroOut, participation).unwrap();
    DoublingPlan::new(
        workload,
        strategy.parse().unwrap(),
        footprint,
        Budget::gaussian(0.7).unwrap(),
        None,
        first,
    )
    .unwrap()
}

fn mechanism(workload: &Workload, strategy: &str, participation: Participation, first: usize) -> Mechanism {
    let plan = plan(workload, strategy, participation, first);
    Mechanism::new(Plan::of_epochs(plan), Seed::reproducible(5)).unwrap()
}

fn run(mechanism: &mut Mechanism, steps: usize) -> Vec<f64> {
    let mut output = [0.0];
    (0..steps)
        .map(|t| {
            let release = mechanism.release(&[f64::from(t as u32 % 3) - 1.0], &mut output).unwrap();
            assert_eq!(release, t + 1);
            output[0]
        })
        .collect()
}

fn workloads() -> Vec<Workload> {
    let mut all: Vec<Workload> =
        ["count", "average", "window:5", "window:100", "exp:1.2", "poly:0.7", "momentum:0.9"]
            .map(|text| text.parse().unwrap())
            .into();
    all.push(Workload::weights(&[1.0, 0.5, 0.5, 0.1]).unwrap());
    all.push(Workload::momentum(0.5, &[1.0, 0.5, 0.25, 2.0, 1.0, 0.5]).unwrap());
    all
}

#[test]
fn the_statistic_is_exact_through_every_epoch() {
    for workload in workloads() {
        // Two budgets with the same seed: the noise differs by a known factor, so it can be removed.
        let footprint = || Footprint::scalar(-1.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
        let mut releases = [1.0, 2.0].map(|mu| {
            let budget = Budget::gaussian(mu).unwrap();
            let plan = DoublingPlan::new(&workload, Method::Identity, footprint(), budget, None, 3).unwrap();
            let mut mechanism = Mechanism::new(Plan::of_epochs(plan), Seed::reproducible(9)).unwrap();
            run(&mut mechanism, 40)
        });
        let exact = workload.materialize(40).unwrap();
        let inputs: Vec<f64> = (0..40).map(|t| f64::from(t % 3) - 1.0).collect();
        let exact = exact.dot(&ndarray::aview1(&inputs));
        let [one, two] = &mut releases;
        for t in 0..40 {
            assert!((2.0 * two[t] - one[t] - exact[t]).abs() < 1e-9, "{workload} step {}", t + 1);
        }
    }
}

#[test]
fn standard_deviations_equal_those_of_the_matrices() {
    for workload in workloads() {
        for strategy in ["identity", "output", "sqrt", "binary-tree"] {
            // Trees and roots exist for some workloads only.
            if strategy.parse::<Method>().unwrap().build(&Problem::new(workload.clone(), 3).unwrap()).is_err()
            {
                continue;
            }
            let plan = plan(&workload, strategy, Participation::Single, 3);
            for step in 1..=30 {
                let mut variance = 0.0;
                for epoch in (0..4).map(|index| plan.epoch(index).unwrap()).filter(|epoch| epoch.start < step)
                {
                    // The whole covariance of the epoch's input noise, from its factors.
                    let length = epoch.plan.steps();
                    let decoder = epoch.plan.strategy().materialize().unwrap().decoder;
                    let block = epoch.plan.strategy().workload().materialize(length).unwrap();
                    let noise = dp_linalg::dense::solve_lower(block.view(), decoder.view()).unwrap();
                    let row = workload.materialize(40).unwrap();
                    let end = epoch.end().min(40);
                    let row = row.slice(ndarray::s![step - 1, epoch.start..end]);
                    let moved = row.dot(&noise.slice(ndarray::s![..end - epoch.start, ..]));
                    variance += epoch.plan.sigma().powi(2) * moved.dot(&moved);
                }
                let found = plan.standard_deviation(step).unwrap();
                assert!(
                    (found / variance.sqrt() - 1.0).abs() < 1e-9,
                    "{workload} {strategy} step {step}: {found}"
                );
            }
        }
    }
}

#[test]
fn any_split_of_the_participations_stays_within_the_budget() {
    for (times, separation) in [(1, 1), (3, 2), (5, 4), (4, 100)] {
        let participation = Participation::repeated(times, separation).unwrap();
        for strategy in ["identity", "output", "sqrt"] {
            let plan = plan(&Workload::count(), strategy, participation, 4);
            // The best use of the first epochs with at most m participations, exactly.
            let mut worst = vec![0.0_f64; times + 1];
            for epoch in (0..4).map(|index| plan.epoch(index).unwrap()) {
                let variance = epoch.plan.sigma().powi(2);
                let most = participation.times_within(epoch.plan.steps());
                let before = worst.clone();
                for (total, value) in worst.iter_mut().enumerate() {
                    for m in 1..=total.min(most) {
                        let participation = Participation::repeated(m, separation).unwrap();
                        let own = epoch.plan.strategy().sensitivity(participation).unwrap().squared;
                        *value = value.max(before[total - m] + own / variance);
                    }
                }
            }
            let budget = 0.7_f64.powi(2);
            assert!(worst[times] <= budget, "{strategy} {participation}: {}", worst[times]);
            assert!(worst[times] >= 0.99 * budget, "{strategy} {participation}: wasteful, {}", worst[times]);
        }
    }
}

#[test]
fn not_knowing_the_horizon_costs_what_the_documentation_says() {
    let plan = plan(&Workload::count(), "sqrt", Participation::Single, 16);
    // Square roots have Δ² = Σ_{k<L} c_k² = ‖last row‖², so the variance at the end of an epoch is Σ_i Δ_i⁴.
    let squared = |steps: usize| {
        let (mut sum, mut coefficient) = (0.0, 1.0);
        for k in 1..=steps {
            sum += coefficient * coefficient;
            coefficient *= 1.0 - 0.5 / k as f64;
        }
        sum
    };
    for (step, printed) in [(16, 1.00), (48, 1.27), (240, 1.63), (1008, 1.89), (4080, 2.11)] {
        let (mut variance, mut start, mut length) = (0.0, 0, 16);
        while start < step {
            variance += f64::powi(squared(length), 2);
            start += length;
            length *= 2;
        }
        let expected = variance.sqrt() / squared(step);
        let cost = plan.cost(step).unwrap();
        assert!((cost / expected - 1.0).abs() < 1e-9, "step {step}: {cost}");
        assert!((cost - printed).abs() < 0.005, "step {step}: {cost}");
    }
}

#[test]
fn refused_inputs_leave_no_trace() {
    let workload = Workload::count();
    let mut touched = mechanism(&workload, "identity", Participation::Single, 2);
    let mut untouched = mechanism(&workload, "identity", Participation::Single, 2);
    for t in 0..20 {
        let (mut a, mut b) = ([0.0], [0.0]);
        for bad in [f64::NAN, f64::INFINITY, 1.5, -1.1] {
            assert!(touched.release(&[bad], &mut a).is_err());
        }
        assert!(touched.release(&[0.0, 0.0], &mut a).is_err());
        assert!(touched.release(&[0.0], &mut []).is_err());
        let input = [f64::from(t % 2)];
        assert_eq!(touched.release(&input, &mut a).unwrap(), untouched.release(&input, &mut b).unwrap());
        assert_eq!(a, b);
    }
}

#[test]
fn constructors_refuse_what_makes_no_sense() {
    let make = |dimension, first, terms: Vec<Term>| {
        let footprint = Footprint::encoded(terms, Relation::ZeroOut).unwrap();
        let budget = Budget::gaussian(1.0).unwrap();
        let plan = Plan::doubling(
            &Workload::count(),
            Method::Identity,
            footprint,
            budget,
            Arithmetic::Idealized,
            first,
        )?;
        Mechanism::new(plan.of_dimension(dimension)?, Seed::reproducible(3))
    };
    let single = Term { weight: 1.0, participation: Participation::Single };
    let twice = Term { weight: 1.0, participation: Participation::repeated(2, 1).unwrap() };
    assert!(make(1, 4, vec![single]).is_ok());
    assert!(make(0, 4, vec![single]).is_err());
    assert!(make(1, 0, vec![single]).is_err());
    assert!(make(1, 4, vec![single, twice]).is_err());
    let mut printed = make(1, 4, vec![single]).unwrap();
    printed.release(&[123_456.0], &mut [0.0]).unwrap();
    assert!(!format!("{printed:?}").contains("123456"));
}

#[test]
fn a_resumed_mechanism_continues_bit_for_bit() {
    for workload in workloads() {
        let plan = Plan::of_epochs(plan(&workload, "identity", Participation::Single, 3));
        let make = || Mechanism::new(plan.clone(), Seed::reproducible(11)).unwrap();
        let inputs: Vec<f64> = (0..40).map(|t| f64::from(t % 3) - 1.0).collect();
        let mut output = [0.0];
        let mut uninterrupted = make();
        let expected: Vec<f64> = inputs
            .iter()
            .map(|input| {
                uninterrupted.release(&[*input], &mut output).unwrap();
                output[0]
            })
            .collect();
        // A snapshot after every step: at the first one, within epochs, and on both sides of their ends.
        let mut mechanism = make();
        for (input, expected) in inputs.iter().zip(&expected) {
            mechanism =
                Mechanism::resume(plan.clone(), &mechanism.snapshot(), Seed::reproducible(11)).unwrap();
            mechanism.release(&[*input], &mut output).unwrap();
            assert_eq!(output[0].to_bits(), expected.to_bits(), "{workload} step {}", mechanism.step());
        }
    }
}

fn exact(workload: &Workload, method: Method, budget: Budget, participation: Participation) -> Result<Plan> {
    let footprint = Footprint::scalar(-1.0, 1.0, Relation::ZeroOut, participation)?;
    Plan::doubling(workload, method, footprint, budget, Arithmetic::Exact { grid: 0.25 }, 3)
}

const EXACT: [Method; 6] =
    [Method::Identity, Method::Sqrt, Method::Blt, Method::ScaledSqrt, Method::BinaryTree, Method::Optimal];

#[test]
fn exact_epochs_release_the_statistic_and_continue_bit_for_bit() {
    // So little noise that the statistic is seen: σ is at most about 1e-4, and sums of 40 of them below 1e-2.
    let budget = Budget::zero_concentrated(1e9).unwrap();
    let inputs: Vec<f64> = (0..40).map(|t| f64::from(t % 3) - 1.0).collect();
    for workload in workloads() {
        let statistic = workload.materialize(40).unwrap().dot(&ndarray::aview1(&inputs));
        for method in EXACT {
            let Ok(plan) = exact(&workload, method, budget, Participation::Single) else { continue };
            assert!(matches!(plan.arithmetic(), crate::Arithmetic::Exact { .. }));
            let make = || Mechanism::new(plan.clone(), Seed::reproducible(11)).unwrap();
            let (mut whole, mut resumed, mut output, mut again) = (make(), make(), [0.0], [0.0]);
            for (t, input) in inputs.iter().enumerate() {
                whole.release(&[*input], &mut output).unwrap();
                assert!((output[0] - statistic[t]).abs() < 1e-2, "{workload} {method} {t}: {}", output[0]);
                let saved = resumed.snapshot();
                let read = crate::Snapshot::decode(saved.identity().clone(), &saved.encode()).unwrap();
                resumed = Mechanism::resume(plan.clone(), &read, Seed::reproducible(11)).unwrap();
                resumed.release(&[*input], &mut again).unwrap();
                assert_eq!(again[0].to_bits(), output[0].to_bits(), "{workload} {method} {t}");
            }
        }
    }
}

#[test]
fn exact_epochs_have_the_noise_that_they_report() {
    // 600 runs: the variance is within 30 % of the truth, or 5 standard deviations of its estimate; noise of 2/3 or 3/2 is at
    // 0.44 or 2.25.
    let budget = Budget::approximate(1.0, 1e-6).unwrap();
    for (workload, method) in
        [("count", Method::Sqrt), ("window:5", Method::Identity), ("average", Method::Blt)]
    {
        let workload: Workload = workload.parse().unwrap();
        let plan = exact(&workload, method, budget, Participation::Single).unwrap();
        let steps = [3, 20];
        let mut squares = [0.0; 2];
        for seed in 0..600 {
            let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(seed)).unwrap();
            let mut output = [0.0];
            for step in 1..=20 {
                mechanism.release(&[0.0], &mut output).unwrap();
                if let Some(index) = steps.iter().position(|known| *known == step) {
                    squares[index] += output[0] * output[0] / 600.0;
                }
            }
        }
        for (step, squared) in steps.iter().zip(squares) {
            let ratio = squared / plan.standard_deviation(*step).unwrap().powi(2);
            assert!((0.7..1.3).contains(&ratio), "{workload} {method} step {step}: {ratio}");
        }
    }
}

#[test]
fn any_split_of_the_participations_stays_within_an_exact_budget() {
    for (times, separation) in [(3, 2), (5, 4), (4, 100)] {
        let participation = Participation::repeated(times, separation).unwrap();
        let rho = 0.245;
        for method in [Method::Identity, Method::Sqrt, Method::Blt] {
            let budget = Budget::zero_concentrated(rho).unwrap();
            let footprint = Footprint::scalar(-1.0, 1.0, Relation::ZeroOut, participation).unwrap();
            let plan =
                DoublingPlan::new(&Workload::count(), method, footprint, budget, Some(0.25), 4).unwrap();
            for epoch in (0..4).map(|index| plan.epoch(index).unwrap()) {
                let exact = epoch.plan.integers().unwrap();
                let variance = exact.noise().variance();
                let mut used = 0.0_f64;
                for m in 1..=participation.times_within(epoch.plan.steps()) {
                    let part = Participation::repeated(m, separation).unwrap();
                    // Four units of the grid are the largest change.
                    let squared = crate::exact::to_f64(&exact.strategy().squared_sensitivity(part).unwrap());
                    let share = 16.0 * squared / (2.0 * variance) / (rho * m as f64 / times as f64);
                    assert!(share <= 1.0, "{method} {participation}, {m} steps of an epoch: {share}");
                    used = used.max(share);
                }
                assert!(used > 0.999_999, "{method} {participation}: wasteful, {used}");
            }
        }
    }
    let repeated = Participation::repeated(3, 2).unwrap();
    let approximate = Budget::approximate(1.0, 1e-6).unwrap();
    let plan = exact(&Workload::count(), Method::Sqrt, approximate, repeated).unwrap();
    assert_eq!(plan.horizon(), Horizon::Doubling(3));
    // The zCDP that implies (1, 1e-6) buys less than the μ that is equivalent to it, but not by a third.
    let same = Plan::doubling(
        plan.workload(),
        Method::Sqrt,
        plan.footprint().clone(),
        approximate,
        Arithmetic::Idealized,
        3,
    )
    .unwrap();
    let ratio = plan.sigma() / same.sigma();
    assert!((1.0..1.3).contains(&ratio), "{ratio}");
    let gaussian = Budget::gaussian(1.0).unwrap();
    let refused = exact(&Workload::count(), Method::Sqrt, gaussian, Participation::Single);
    assert!(matches!(refused, Err(Error::OutOfRange { .. })));
    let pure = Budget::pure(1.0).unwrap();
    assert!(exact(&Workload::count(), Method::BinaryTree, pure, repeated).is_ok());
}

#[test]
fn reports_about_long_epochs_end_and_releases_do_not() {
    let plan = plan(&"window:700".parse().unwrap(), "identity", Participation::Single, 600);
    assert!(plan.standard_deviation(600).is_ok());
    assert!(plan.standard_deviation(601).is_err(), "the first epoch is too long to be written out");
    let mut mechanism = Mechanism::new(Plan::of_epochs(plan), Seed::reproducible(1)).unwrap();
    run(&mut mechanism, 1300);
    assert_eq!(mechanism.plan().standard_deviation(1200), None);
}

#[test]
fn another_plan_or_other_noise_is_refused() {
    let count = Workload::count();
    let mut saved = mechanism(&count, "sqrt", Participation::Single, 4);
    run(&mut saved, 9);
    let snapshot = saved.snapshot();
    for other in [
        plan(&count, "sqrt", Participation::Single, 8),
        plan(&count, "identity", Participation::Single, 4),
        plan(&Workload::average(), "identity", Participation::Single, 4),
    ] {
        let resumed = Mechanism::resume(Plan::of_epochs(other), &snapshot, Seed::reproducible(5));
        assert!(matches!(resumed, Err(Error::State { .. })));
    }
    let resume = |seed| Mechanism::resume(saved.plan().clone(), &snapshot, Seed::reproducible(seed));
    assert!(matches!(resume(6), Err(Error::State { .. })));
    assert_eq!(resume(5).unwrap().step(), 9);
}
