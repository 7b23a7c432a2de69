//! The streamed noise is `B z`, ends at the horizon and never repeats.

use std::collections::HashSet;

use dp_linalg::dense;
use dp_mechanisms::{CorrelatedNoise, Error, GaussianSource, Method, Seed, Side};
use dp_tests::{CASES, Case, Impulses, Ones, ROUNDING, assert_matrices_close, streamed};
use ndarray::Array2;

/// Noise from a seed that anybody can repeat.
fn seeded(case: &Case, side: Side, dimension: usize, seed: u64) -> CorrelatedNoise {
    let source = GaussianSource::new(Seed::reproducible(seed), dimension);
    CorrelatedNoise::new(case.strategy.as_ref(), dimension, side, Box::new(source)).unwrap()
}

#[test]
fn streamed_noise_is_the_decoder() {
    for case in CASES.iter() {
        let context = case.context();
        let decoder = case.strategy.materialize().unwrap().decoder;
        let rows = decoder.ncols();
        let output = streamed(case.strategy.as_ref(), rows, Side::Output, Impulses { rows });
        assert_matrices_close(&output, &decoder, ROUNDING, &format!("{context}, output noise"));
        let workload = case.strategy.workload().materialize(case.strategy.steps()).unwrap();
        let expected = dense::solve_lower(workload.view(), decoder.view()).unwrap();
        let input = streamed(case.strategy.as_ref(), rows, Side::Input, Impulses { rows });
        assert_matrices_close(&input, &expected, ROUNDING, &format!("{context}, input noise"));
    }
}

#[test]
fn unit_noise_adds_up_to_the_row_sums() {
    for case in CASES.iter() {
        let decoder = case.strategy.materialize().unwrap().decoder;
        let sums = streamed(case.strategy.as_ref(), 1, Side::Output, Ones);
        // Rows may cancel, so the sums are compared on the scale of what was added.
        let scale = decoder.rows().into_iter().map(|row| row.iter().map(|b| b.abs()).sum());
        let scale = scale.fold(0.0, |largest: f64, sum: f64| largest.max(sum));
        for (t, (sum, row)) in sums.iter().zip(decoder.rows()).enumerate() {
            let expected = row.sum();
            let context = case.context();
            assert!(
                (sum - expected).abs() <= ROUNDING * scale,
                "{context}, step {}: {sum} {expected}",
                t + 1
            );
            if case.method == Method::BinaryTree && case.label == "count" {
                assert_eq!(*sum, f64::from((t + 1).count_ones()), "{context}: one unit per dyadic node");
            }
        }
    }
}

#[test]
fn noise_ends_at_the_horizon() {
    for case in CASES.iter() {
        let horizon = case.strategy.steps();
        for side in [Side::Input, Side::Output] {
            let mut noise = seeded(case, side, 2, 1);
            let mut out = [0.0; 2];
            for _ in 0..horizon {
                noise.next_into(&mut out).unwrap();
            }
            for _ in 0..2 {
                assert_eq!(
                    noise.next_into(&mut out),
                    Err(Error::HorizonReached { horizon }),
                    "{}",
                    case.context()
                );
            }
            assert_eq!(noise.step(), horizon);
        }
    }
}

#[test]
fn noise_never_repeats() {
    for case in CASES.iter() {
        for side in [Side::Input, Side::Output] {
            let mut noise = seeded(case, side, 2, 2);
            let mut seen = HashSet::new();
            let mut out = [0.0_f64; 2];
            for _ in 0..case.strategy.steps() {
                noise.next_into(&mut out).unwrap();
                for value in out {
                    assert!(value.is_finite() && seen.insert(value.to_bits()), "{}: {value}", case.context());
                }
            }
        }
    }
}

#[test]
fn skipping_catches_up_with_the_same_noise() {
    for case in CASES.iter() {
        let steps = case.strategy.steps();
        let source = GaussianSource::new(Seed::reproducible(3), 3);
        let whole: Array2<f64> = streamed(case.strategy.as_ref(), 3, Side::Output, source);
        let mut resumed = seeded(case, Side::Output, 3, 3);
        let mut out = [0.0; 3];
        resumed.skip_to(steps / 2, &mut out).unwrap();
        for t in steps / 2..steps {
            resumed.next_into(&mut out).unwrap();
            assert_eq!(whole.row(t).to_vec(), out, "{}, step {}", case.context(), t + 1);
        }
    }
}
