//! Sensitivities dominate every admissible change, and exact ones are attained.

use dp_mechanisms::strategy::{optimal::Optimal, unwatched};
use dp_mechanisms::{Method, Participation, Problem, Workload};
use dp_tests::{
    CASES, Case, GoldenParticipation, assert_close, case, exhaustive_sensitivity, golden, squared_norm,
    workloads,
};
use ndarray::{Array1, Array2};

/// Rounding of exact sensitivities.
const TIGHT: f64 = 1e-12;

fn longest_column(strategy: &Array2<f64>) -> f64 {
    strategy.columns().into_iter().map(squared_norm).fold(0.0, f64::max)
}

/// What a strategy with a separately computed inverse is charged at most for the rounding of that inverse.
const CHARGE: f64 = 1e-9;

/// Fails if a bound is below a change that can happen. The change itself is known to the last bit.
fn assert_dominates(case: &Case, participation: Participation, change: f64) {
    let bound = case.strategy.sensitivity(participation).unwrap();
    let context = format!("{}, {participation}: {bound:?} against {change}", case.context());
    assert!(bound.squared >= change.next_down(), "{context}");
}

#[test]
fn single_participation_is_the_longest_column() {
    for case in CASES.iter() {
        let bound = case.strategy.sensitivity(Participation::Single).unwrap();
        let longest = longest_column(&case.strategy.materialize().unwrap().strategy);
        assert_dominates(case, Participation::Single, longest);
        if bound.exact {
            assert_close(bound.squared, longest, CHARGE, &case.context());
        }
    }
    // Only a strategy that is given by its decoder knows no better than a bound.
    let inexact: Vec<Method> = CASES
        .iter()
        .filter(|case| !case.strategy.sensitivity(Participation::Single).unwrap().exact)
        .map(|case| case.method)
        .collect();
    assert!(inexact.iter().all(|method| *method == Method::Structured), "{inexact:?}");
}

#[test]
fn absolute_sensitivity_is_the_longest_column_in_that_norm() {
    let mut refused = Vec::new();
    for case in CASES.iter() {
        let Ok(bound) = case.strategy.absolute_sensitivity(Participation::Single) else {
            refused.push(case.method);
            continue;
        };
        let matrix = case.strategy.materialize().unwrap().strategy;
        let absolute = |column: ndarray::ArrayView1<'_, f64>| column.iter().map(|c| c.abs()).sum::<f64>();
        let longest = matrix.columns().into_iter().map(absolute).fold(0.0, f64::max);
        let context = format!("{}: {bound} against {longest}", case.context());
        assert!(bound >= longest * (1.0 - 1e-15), "{context}");
        assert!(bound <= longest * (1.0 + 1e-9), "{context}");
        let thrice = Participation::repeated(3, 2).unwrap();
        let times = thrice.times_within(case.strategy.steps()) as f64;
        let repeated = case.strategy.absolute_sensitivity(thrice).unwrap();
        assert!(
            repeated >= times * bound * (1.0 - 1e-15) && repeated <= times * bound * (1.0 + 1e-12),
            "{context}"
        );
    }
    // Laplace noise needs a decoder that looks at nothing later.
    let looks_ahead = [Method::HonakerFull, Method::Group];
    assert!(refused.iter().all(|method| looks_ahead.contains(method)), "{refused:?}");
    assert!(refused.contains(&Method::HonakerFull));
}

#[test]
fn trees_are_sensitive_once_per_level() {
    let trees = [Method::BinaryTree, Method::HonakerOnline, Method::HonakerFull];
    for case in CASES.iter().filter(|case| trees.contains(&case.method)) {
        let levels = f64::from(case.strategy.steps().ilog2() + 1);
        let bound = case.strategy.sensitivity(Participation::Single).unwrap();
        assert_eq!(bound.squared, levels, "{}", case.context());
    }
}

#[test]
fn repeated_participation_dominates_every_set_and_sign() {
    for steps in [1, 5, 10] {
        for labelled in &workloads() {
            for (times, separation) in [(2, 1), (2, 3), (2, 5), (3, 2), (10, 1)] {
                let participation = Participation::repeated(times, separation).unwrap();
                for &method in Method::ALL {
                    let Some(case) = case(method, labelled, steps, participation) else { continue };
                    let matrix = case.strategy.materialize().unwrap().strategy;
                    let worst = exhaustive_sensitivity(&matrix, participation);
                    // Adding up columns rounds, unlike their entries.
                    assert_dominates(&case, participation, worst * (1.0 - 1e-15));
                    let bound = case.strategy.sensitivity(participation).unwrap();
                    if bound.exact {
                        let context = format!("{}, {participation}", case.context());
                        assert_close(bound.squared, worst, TIGHT, &context);
                    }
                }
            }
        }
    }
}

#[test]
fn repeated_participation_dominates_regular_sets_of_long_streams() {
    for case in CASES.iter().filter(|case| [64, 100].contains(&case.strategy.steps())) {
        let matrix = case.strategy.materialize().unwrap().strategy;
        let single = case.strategy.sensitivity(Participation::Single).unwrap().squared;
        for (times, separation) in [(2, 1), (4, 16), (5, 13), (64, 1)] {
            let participation = Participation::repeated(times, separation).unwrap();
            let mut worst = 0.0_f64;
            for offset in 0..separation {
                for alternating in [1.0, -1.0] {
                    let mut change = Array1::<f64>::zeros(matrix.nrows());
                    let mut sign = 1.0;
                    for step in (offset..matrix.ncols()).step_by(separation).take(times) {
                        change.scaled_add(sign, &matrix.column(step));
                        sign *= alternating;
                    }
                    worst = worst.max(squared_norm(change.view()));
                }
            }
            assert_dominates(case, participation, worst * (1.0 - 1e-14));
            let bound = case.strategy.sensitivity(participation).unwrap().squared;
            let trivial = (times * times) as f64 * single;
            assert!(bound >= single * (1.0 - TIGHT), "{}, {participation}", case.context());
            assert!(bound <= trivial * (1.0 + CHARGE), "{}, {participation}", case.context());
        }
    }
}

#[test]
fn the_optimum_under_repeated_participation_is_near_that_of_all_sets_and_signs() {
    let rows: Vec<GoldenParticipation> = golden("participation");
    assert_eq!(rows.len(), 6);
    for row in rows {
        let workload: Workload = row.workload.parse().unwrap();
        let participation = Participation::repeated(row.times, row.separation).unwrap();
        let problem = Problem::new(workload, row.steps).unwrap().with_participation(participation);
        let optimal = Optimal::new(&problem, &mut unwatched).unwrap();
        let certificate = optimal.certificate();
        // The golden value is a minimum that was found by descent, to about 1e-4.
        assert!(certificate.error > row.optimum * (1.0 - 3e-4), "{row:?}: {certificate:?}");
        assert!(certificate.error < row.optimum * 1.003, "{row:?}: {certificate:?}");
        assert!(certificate.lower_bound < row.optimum, "{row:?}: {certificate:?}");
    }
}

#[test]
fn no_other_strategy_beats_the_optimum_under_repeated_participation() {
    let participation = Participation::repeated(4, 16).unwrap();
    for text in ["count", "momentum:0.9"] {
        let problem = Problem::new(text.parse().unwrap(), 64).unwrap().with_participation(participation);
        let error = |method: Method| {
            let strategy = method.build(&problem).ok()?;
            let sensitivity = strategy.sensitivity(participation).unwrap();
            Some(sensitivity.squared * strategy.row_norms().unwrap().mean())
        };
        let optimum = error(Method::Optimal).unwrap();
        for &method in Method::ALL {
            let Some(error) = error(method) else { continue };
            assert!(error >= optimum * (1.0 - 1e-9), "{method} × {text}: {error} below {optimum}");
        }
        assert!(error(Method::Banded).unwrap() > 1.05 * optimum, "{text}");
    }
}
