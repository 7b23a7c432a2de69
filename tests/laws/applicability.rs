//! Which strategies serve which workloads: the other laws cannot pass by having nothing to check.

use std::collections::HashSet;

use dp_mechanisms::{Participation, Workload, strategy};
use dp_tests::{CASES, HORIZONS, workloads};

/// The strategies that exist for any workload at all.
const UNIVERSAL: [&str; 7] =
    ["optimal", "structured", "identity", "output", "binary-tree", "honaker-online", "honaker-full"];

/// The strategies that exist at least for workloads with a square root, that is, for all Toeplitz ones.
const TOEPLITZ: [&str; 3] = ["sqrt", "normalized-sqrt", "scaled-sqrt"];

#[test]
fn every_strategy_serves_what_it_must() {
    let served: HashSet<(&str, &str, usize)> =
        CASES.iter().map(|case| (case.name, case.label, case.strategy.steps())).collect();
    for steps in HORIZONS.into_iter().filter(|steps| *steps <= 100) {
        for (label, workload) in workloads() {
            let toeplitz = workload.series(steps).unwrap().is_some();
            for &name in strategy::NAMES {
                let must =
                    label == "count" || UNIVERSAL.contains(&name) || toeplitz && TOEPLITZ.contains(&name);
                assert!(!must || served.contains(&(name, label, steps)), "{name} × {label} × n = {steps}");
            }
        }
    }
    for name in UNIVERSAL.iter().chain(&TOEPLITZ) {
        assert!(strategy::NAMES.contains(name), "{name} is gone");
    }
}

#[test]
fn strategies_say_what_they_are() {
    for case in CASES.iter() {
        assert_eq!(case.strategy.name(), case.name);
        let (_, workload) = workloads().into_iter().find(|(label, _)| *label == case.label).unwrap();
        assert_eq!(*case.strategy.workload(), workload, "{}", case.context());
    }
}

#[test]
fn nothing_is_built_for_zero_steps_or_an_unknown_name() {
    for name in strategy::NAMES {
        assert!(strategy::build(name, &Workload::count(), 0, Participation::Single).is_err(), "{name}");
    }
    assert!(strategy::build("square-root", &Workload::count(), 8, Participation::Single).is_err());
}
