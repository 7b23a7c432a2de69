//! `B C = A`, and the row norms and errors that follow from B.

use std::collections::HashMap;

use dp_linalg::{dense, norms};
use dp_mechanisms::{Participation, bounds};
use dp_tests::{CASES, ROUNDING, assert_close, assert_matrices_close};

#[test]
fn decoder_times_strategy_is_the_workload() {
    for case in CASES.iter() {
        let factors = case.strategy.materialize().unwrap();
        let product = dense::matmul(factors.decoder.view(), factors.strategy.view());
        let workload = case.strategy.workload().materialize(case.strategy.steps()).unwrap();
        assert_matrices_close(&product, &workload, ROUNDING, &case.context());
    }
}

#[test]
fn row_norms_are_the_rows_of_the_decoder() {
    for case in CASES.iter() {
        let context = case.context();
        let rows = case.strategy.row_norms().unwrap();
        assert!(rows.is_exact(), "{context}");
        assert_eq!(rows.steps(), case.strategy.steps(), "{context}");
        let decoder = case.strategy.materialize().unwrap().decoder;
        let dense = norms::row_squared_norms(decoder.view());
        for (t, (fast, slow)) in rows.iter().zip(&dense).enumerate() {
            assert_close(fast, *slow, ROUNDING, &format!("{context}, step {}", t + 1));
        }
        let mean = norms::frobenius_squared(decoder.view()) / case.strategy.steps() as f64;
        assert_close(rows.mean(), mean, ROUNDING, &context);
        assert_close(rows.max(), dense.fold(0.0, |max: f64, row| max.max(*row)), ROUNDING, &context);
    }
}

#[test]
fn no_strategy_beats_a_lower_bound() {
    // (mean, max): what the library reports, the mean never below an independent Schatten bound.
    let mut known: HashMap<(&str, usize), (f64, f64)> = HashMap::new();
    for case in CASES.iter() {
        let context = case.context();
        let steps = case.strategy.steps();
        let (mean_bound, max_bound) = *known.entry((case.label, steps)).or_insert_with(|| {
            let workload = case.strategy.workload();
            let matrix = workload.materialize(steps).unwrap();
            let schatten = (norms::schatten1(matrix.view()).unwrap() / steps as f64).powi(2);
            let mean = bounds::mean(workload, steps).unwrap().value;
            assert!(mean >= schatten * (1.0 - ROUNDING), "{context}: {mean} weaker than {schatten}");
            (mean, bounds::max(workload, steps).unwrap().value)
        });
        let rows = case.strategy.row_norms().unwrap();
        let sensitivity = case.strategy.sensitivity(Participation::Single).unwrap().squared;
        let (mean, max) = (sensitivity * rows.mean(), sensitivity * rows.max());
        assert!(mean >= mean_bound * (1.0 - ROUNDING), "{context}: mean {mean} below {mean_bound}");
        assert!(max >= max_bound * (1.0 - ROUNDING), "{context}: max {max} below {max_bound}");
        assert!(max >= mean * (1.0 - ROUNDING), "{context}: max {max} below mean {mean}");
    }
}
