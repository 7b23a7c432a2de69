//! Which strategies serve which workloads: the other laws cannot pass by having nothing to check.

use std::collections::HashSet;

use dp_mechanisms::{Method, Problem, Workload};
use dp_tests::{CASES, HORIZONS, workloads};

/// The strategies that exist for any workload at all.
const UNIVERSAL: [Method; 8] = [
    Method::Optimal,
    Method::Structured,
    Method::Identity,
    Method::Output,
    Method::BinaryTree,
    Method::HonakerOnline,
    Method::HonakerFull,
    Method::WeightedTree,
];

/// The strategies that exist at least for workloads with a square root, that is, for all Toeplitz ones.
const TOEPLITZ: [Method; 3] = [Method::Sqrt, Method::NormalizedSqrt, Method::ScaledSqrt];

#[test]
fn every_strategy_serves_what_it_must() {
    let served: HashSet<(Method, &str, usize)> =
        CASES.iter().map(|case| (case.method, case.label, case.strategy.steps())).collect();
    for steps in HORIZONS.into_iter().filter(|steps| *steps <= 100) {
        for (label, workload) in workloads() {
            let toeplitz = workload.series(steps).unwrap().is_some();
            for &method in Method::ALL {
                let must =
                    label == "count" || UNIVERSAL.contains(&method) || toeplitz && TOEPLITZ.contains(&method);
                assert!(
                    !must || served.contains(&(method, label, steps)),
                    "{method} × {label} × n = {steps}"
                );
            }
        }
    }
}

#[test]
fn strategies_say_what_they_are() {
    for case in CASES.iter() {
        assert_eq!(case.strategy.name(), case.method.name());
        let (_, workload) = workloads().into_iter().find(|(label, _)| *label == case.label).unwrap();
        assert_eq!(*case.strategy.workload(), workload, "{}", case.context());
    }
}

#[test]
fn there_is_no_problem_of_zero_steps() {
    assert!(Problem::new(Workload::count(), 0).is_err());
}
