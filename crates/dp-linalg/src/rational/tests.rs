//! Closed forms against summation, algebra of inverses, and streams against the series.

use approx::assert_relative_eq;
use proptest::prelude::*;

use super::*;

/// Three well-separated poles with positive weights, the best ones for prefix sums of length 1024.
fn three_poles() -> Rational {
    let theta = [2.8863e-3, 4.0249e-2, 0.33638].map(|gap| 1.0 - gap).to_vec();
    Rational::new(theta, vec![0.070_330, 0.141_883, 0.278_547]).unwrap()
}

/// Poles as close to 1 as the gap 1e-7.
fn long_memory() -> Rational {
    let theta = [1e-7, 3e-6, 2e-4, 1e-2, 0.3].map(|gap| 1.0 - gap).to_vec();
    Rational::new(theta, vec![3e-4, 2e-3, 1.5e-2, 0.08, 0.3]).unwrap()
}

/// `b = 1/(c · (1 - p x))` from its recurrence.
fn quotient(c: &Rational, pole: f64, n: usize) -> Vec<f64> {
    let mut buffers = vec![0.0; c.buffers()];
    let (mut term, mut impulse) = (0.0, 1.0);
    (0..n)
        .map(|_| {
            let mut inverse = impulse;
            for (&omega, &buffer) in c.omega().iter().zip(&buffers) {
                inverse -= omega * buffer;
            }
            for (&theta, buffer) in c.theta().iter().zip(&mut buffers) {
                *buffer = theta * *buffer + inverse;
            }
            impulse = 0.0;
            term = pole * term + inverse;
            term
        })
        .collect()
}

/// The chosen sum of the squares, term by term.
fn summed(values: &[f64], sum: Sum) -> f64 {
    compensated_sum(values.iter().enumerate().map(|(k, value)| value * value * sum.weight(k, values.len())))
}

fn prefix_sum(c: &Rational, sum: Sum, n: usize) -> f64 {
    sum_of_squares(&c.quotient_modes(&[0.0]).unwrap(), sum, n)
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len()).map(|k| (0..=k).map(|i| a[i] * b[k - i]).sum()).collect()
}

fn assert_is_one(series: &[f64], tolerance: f64) {
    for (k, &value) in series.iter().enumerate() {
        let expected = if k == 0 { 1.0 } else { 0.0 };
        assert!((value - expected).abs() <= tolerance, "coefficient {k} is {value}");
    }
}

#[test]
fn mean_squared_error_of_prefix_sums_with_three_buffers() {
    let c = three_poles();
    let factor = c.sum_of_squares(1024) * prefix_sum(&c, Sum::Triangular, 1024) / 1024.0;
    assert_relative_eq!(factor, 9.35547, max_relative = 1e-5);
    let theta = [7.0176e-4, 8.4762e-3, 6.5093e-2, 0.40687].map(|gap| 1.0 - gap).to_vec();
    let c = Rational::new(theta, vec![0.034_144, 0.061_199, 0.154_841, 0.245_519]).unwrap();
    let factor = c.sum_of_squares(4096) * prefix_sum(&c, Sum::Triangular, 4096) / 4096.0;
    assert_relative_eq!(factor, 12.2419, max_relative = 1e-5);
}

#[test]
fn sums_of_squares_match_the_coefficients() {
    for c in [three_poles(), long_memory(), three_poles().inverse().unwrap()] {
        for n in [0, 1, 2, 3, 77, 5000, 1 << 20] {
            let direct = compensated_sum(c.coefficients(n).iter().map(|value| value * value));
            assert_relative_eq!(c.sum_of_squares(n), direct, max_relative = 1e-13);
        }
    }
}

#[test]
fn closed_forms_match_the_recurrence() {
    let mut covered = 0;
    for c in [three_poles(), long_memory(), three_poles().inverse().unwrap()] {
        // 1/α above, among and below the poles of the inverse.
        for alpha in [1.0, 1.0 + 1e-9, 1.0 + 1e-6, 1.0 + 1e-3, 1.05, 2.0, 50.0] {
            let gap = (alpha - 1.0) / alpha;
            let Some(modes) = c.quotient_modes(&[gap]) else { continue };
            covered += 1;
            for n in [0, 1, 2, 10, 1000, 1 << 17] {
                let b = quotient(&c, 1.0 - gap, n);
                for sum in [Sum::Plain, Sum::Triangular] {
                    let closed = sum_of_squares(&modes, sum, n);
                    assert_relative_eq!(closed, summed(&b, sum), max_relative = 1e-11);
                }
            }
        }
    }
    assert!(covered >= 15, "{covered}");
}

#[test]
fn several_poles_match_the_recurrence() {
    let c = three_poles();
    for gaps in [[0.0, 0.1], [0.0, 0.5], [0.0, 0.01], [1e-3, 0.9]] {
        let mut b = quotient(&c, 1.0 - gaps[0], 5000);
        for k in 1..b.len() {
            b[k] += (1.0 - gaps[1]) * b[k - 1];
        }
        let modes = c.quotient_modes(&gaps).unwrap();
        for n in [1, 2, 17, 5000] {
            for sum in [Sum::Plain, Sum::Triangular] {
                let closed = sum_of_squares(&modes, sum, n);
                assert_relative_eq!(closed, summed(&b[..n], sum), max_relative = 1e-10);
            }
        }
    }
    assert!(c.quotient_modes(&[0.1, 0.1]).is_none());
    assert!(c.quotient_modes(&[]).is_none());
    // More modes than fit on the stack.
    let many: Vec<Mode> = (0..40).map(|i| Mode { gap: 0.01 * f64::from(i), weight: 1.0 }).collect();
    let values: Vec<f64> =
        (0..9).map(|k| many.iter().map(|mode| (1.0 - mode.gap).powi(k)).sum::<f64>()).collect();
    assert_relative_eq!(
        sum_of_squares(&many, Sum::Plain, 9),
        summed(&values, Sum::Plain),
        max_relative = 1e-13
    );
}

/// One pole has an inverse that can be written down: b_k = 1 - ω(1 - θ̂^k)/(1 - θ̂) with θ̂ = θ - ω.
#[test]
fn long_horizons_match_an_explicit_inverse() {
    let n = 1 << 24;
    let (gap, omega) = (2.0_f64.powi(-23), 2.0_f64.powi(-20));
    let c = Rational::new(vec![1.0 - gap], vec![omega]).unwrap();
    let gap_hat = gap + omega;
    let logarithm = (-gap_hat).ln_1p();
    let b = |k: usize| 1.0 + omega * (k as f64 * logarithm).exp_m1() / gap_hat;
    let row = compensated_sum((0..n).map(|k| b(k).powi(2)));
    assert_relative_eq!(prefix_sum(&c, Sum::Plain, n), row, max_relative = 1e-12);
    let total = compensated_sum((0..n).map(|k| (n - k) as f64 * b(k).powi(2)));
    assert_relative_eq!(prefix_sum(&c, Sum::Triangular, n), total, max_relative = 1e-12);
}

#[test]
fn long_horizons_with_several_poles_match_the_recurrence() {
    let c = long_memory();
    let n = 1 << 22;
    let b = quotient(&c, 1.0, n);
    for sum in [Sum::Plain, Sum::Triangular] {
        assert_relative_eq!(prefix_sum(&c, sum, n), summed(&b, sum), max_relative = 1e-11);
    }
}

#[test]
fn coincident_poles() {
    // Twice the same pole is one pole with both weights.
    let split = Rational::new(vec![0.9, 0.9, 0.4], vec![0.1, 0.2, 0.3]).unwrap();
    let merged = Rational::new(vec![0.9, 0.4], vec![0.1 + 0.2, 0.3]).unwrap();
    let inverse = split.inverse().unwrap();
    assert_eq!(inverse.buffers(), 3);
    assert_is_one(&product(&split.coefficients(50), &inverse.coefficients(50)), 1e-14);
    for n in [1, 40, 10_000] {
        assert_relative_eq!(split.sum_of_squares(n), merged.sum_of_squares(n), max_relative = 1e-14);
        assert_relative_eq!(
            prefix_sum(&split, Sum::Triangular, n),
            prefix_sum(&merged, Sum::Triangular, n),
            max_relative = 1e-13
        );
    }
    // Nearly the same pole: the zero between them is squeezed into the last digits.
    for distance in [1e-15, 1e-13, 1e-10, 1e-6] {
        let near = Rational::new(vec![0.9, 0.9 - distance, 0.4], vec![0.1, 0.2, 0.3]).unwrap();
        let direct = summed(&quotient(&near, 1.0, 3000), Sum::Triangular);
        assert_relative_eq!(prefix_sum(&near, Sum::Triangular, 3000), direct, max_relative = 1e-12);
        assert_is_one(&product(&near.coefficients(50), &near.inverse().unwrap().coefficients(50)), 1e-13);
    }
    // A workload whose pole coincides with a pole of the inverse has no partial fractions, and one with a pole of c loses it.
    let c = Rational::new(vec![0.75], vec![0.25]).unwrap();
    for alpha in [2.0, 1.999_999, 2.000_001] {
        assert!(c.quotient_modes(&[1.0 - 1.0 / alpha]).is_none());
    }
    let direct = summed(&quotient(&c, 0.75, 100), Sum::Plain);
    let modes = c.quotient_modes(&[0.25]).unwrap();
    assert_relative_eq!(sum_of_squares(&modes, Sum::Plain, 100), direct, max_relative = 1e-12);
}

#[test]
fn weights_of_both_signs_have_no_real_inverse() {
    let c = Rational::new(vec![0.9, 0.5], vec![0.4, -0.3]).unwrap();
    assert!(matches!(c.inverse(), Err(Error::OutOfRange { what: "omega", .. })));
    assert!(c.quotient_modes(&[0.0]).is_none());
}

#[test]
fn inverses_that_do_not_decay_are_refused() {
    // 1 - 0.6x/(1 - 0.5x) vanishes inside the unit circle, 1 + 1.9x/(1 - 0.5x) on the other side.
    assert!(Rational::new(vec![0.5], vec![-0.6]).unwrap().inverse().is_err());
    assert!(Rational::new(vec![0.5], vec![1.9]).unwrap().inverse().is_err());
    // A negative pole of the inverse is fine.
    let inverse = Rational::new(vec![0.5], vec![0.75]).unwrap().inverse().unwrap();
    assert_relative_eq!(inverse.theta()[0], -0.25, max_relative = 1e-15);
    assert_relative_eq!(inverse.omega()[0], -0.75, max_relative = 1e-15);
}

#[test]
fn bad_parameters_are_named() {
    assert!(matches!(Rational::new(vec![], vec![]), Err(Error::Empty { .. })));
    assert!(matches!(Rational::new(vec![1.0], vec![1.0]), Err(Error::OutOfRange { value: 1.0, .. })));
    assert!(matches!(Rational::new(vec![f64::NAN], vec![1.0]), Err(Error::NonFinite { .. })));
    assert!(matches!(Rational::new(vec![0.5], vec![f64::INFINITY]), Err(Error::NonFinite { .. })));
    assert!(matches!(Rational::new(vec![0.5], vec![1.0, 2.0]), Err(Error::Dimension { .. })));
    assert!(matches!(Rational::from_roots(&[0.5, 0.5], &[0.1, 0.2]), Err(Error::OutOfRange { .. })));
    assert!(matches!(Rational::from_roots(&[0.5], &[0.1, 0.2]), Err(Error::Dimension { .. })));
    let c = three_poles();
    assert!(RationalStream::<f64>::new(&c, 0).is_err());
    let mut stream = RationalStream::<f64>::new(&c, 2).unwrap();
    assert!(stream.solve_step(&[0.0], &mut [0.0; 2]).is_err());
    assert!(stream.solve_step(&[0.0; 2], &mut [0.0; 3]).is_err());
    assert!(stream.apply_step(&[0.0; 2], &mut [0.0; 3]).is_err());
    assert!(stream.solve_in_place(&mut [0.0; 3]).is_err());
    assert!(stream.restore(&[0.0; 5]).is_err());
}

/// An entry of a stream of vectors without structure.
fn entry(step: usize, coordinate: usize) -> f64 {
    let mixed = (step * 7919 + coordinate * 104_729 + 13).wrapping_mul(2_654_435_761) % 20_011;
    mixed as f64 / 10_005.5 - 1.0
}

#[test]
fn streams_match_the_series() {
    let c = three_poles();
    let steps = 40;
    let coefficients = c.coefficients(steps);
    let inverse = c.inverse().unwrap().coefficients(steps);
    // One coordinate, a full and a partial tile, and a dimension that is shared among threads.
    for dimension in [1, 515, 70_001] {
        let mut solve = RationalStream::<f64>::new(&c, dimension).unwrap();
        let mut apply = RationalStream::<f64>::new(&c, dimension).unwrap();
        let mut single = RationalStream::<f32>::new(&c, dimension).unwrap();
        let (mut xi, mut single_xi, mut back) =
            (vec![0.0; dimension], vec![0.0; dimension], vec![0.0; dimension]);
        let watched = [0, dimension / 2, dimension - 1];
        // The same coordinates by themselves, all steps at once.
        let mut alone = RationalStream::<f64>::new(&c, watched.len()).unwrap();
        let mut together: Vec<f64> =
            (0..steps).flat_map(|t| watched.map(|coordinate| entry(t, coordinate))).collect();
        alone.solve_in_place(&mut together).unwrap();
        for t in 0..steps {
            let z: Vec<f64> = (0..dimension).map(|coordinate| entry(t, coordinate)).collect();
            solve.solve_step(&z, &mut xi).unwrap();
            apply.apply_step(&xi, &mut back).unwrap();
            single.solve_step(&z, &mut single_xi).unwrap();
            assert!(back.iter().zip(&z).all(|(a, b)| (a - b).abs() < 1e-13));
            assert!(single_xi.iter().zip(&xi).all(|(a, b)| (a - b).abs() < 1e-5));
            assert_eq!(
                together[t * watched.len()..][..watched.len()],
                watched.map(|coordinate| xi[coordinate])
            );
            for coordinate in watched {
                let expected: f64 = (0..=t).map(|s| inverse[t - s] * entry(s, coordinate)).sum();
                assert!((xi[coordinate] - expected).abs() < 1e-13);
            }
        }
        // The operator itself, after a reset, from the impulse.
        apply.reset();
        for &coefficient in &coefficients[..5] {
            let impulse = if coefficient == 1.0 { 1.0 } else { 0.0 };
            apply.apply_step(&vec![impulse; dimension], &mut back).unwrap();
            assert!(back.iter().all(|value| (value - coefficient).abs() < 1e-15));
        }
    }
}

#[test]
fn a_snapshot_continues_where_it_was_taken() {
    let c = three_poles();
    let mut stream = RationalStream::<f64>::new(&c, 3).unwrap();
    let mut output = [0.0; 3];
    stream.solve_step(&[1.0, -2.0, 0.5], &mut output).unwrap();
    let snapshot = stream.state().to_vec();
    stream.solve_step(&[0.0, 1.0, 0.0], &mut output).unwrap();
    let mut other = RationalStream::<f64>::new(&c, 3).unwrap();
    other.restore(&snapshot).unwrap();
    let mut again = [0.0; 3];
    other.solve_step(&[0.0, 1.0, 0.0], &mut again).unwrap();
    assert_eq!(output, again);
    assert_eq!(other.dimension(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_inverse_inverts(
        poles in prop::collection::vec((1e-4_f64..0.999, 1e-6_f64..0.2), 1..7),
    ) {
        let (gaps, omega): (Vec<f64>, Vec<f64>) = poles.into_iter().unzip();
        let c = Rational::new(gaps.iter().map(|gap| 1.0 - gap).collect(), omega).unwrap();
        prop_assume!(c.inverse().is_ok());
        let inverse = c.inverse().unwrap();
        prop_assert!(inverse.omega().iter().all(|&weight| weight <= 0.0));
        assert_is_one(&product(&c.coefficients(120), &inverse.coefficients(120)), 1e-12);
        let again = inverse.inverse().unwrap();
        for (a, b) in again.coefficients(120).iter().zip(c.coefficients(120)) {
            prop_assert!((a - b).abs() <= 1e-11, "{} {}", a, b);
        }
    }

    #[test]
    fn interlacing_roots_swap_under_inversion(
        gaps in prop::collection::btree_set(1_u32..10_000, 2..13),
    ) {
        let mut roots: Vec<f64> = gaps.into_iter().map(|gap| 1.0 - f64::from(gap) * 1e-4).collect();
        if roots.len() % 2 == 1 {
            roots.pop();
        }
        let theta: Vec<f64> = roots.iter().copied().step_by(2).collect();
        let theta_hat: Vec<f64> = roots.iter().copied().skip(1).step_by(2).collect();
        let c = Rational::from_roots(&theta, &theta_hat).unwrap();
        prop_assert!(c.omega().iter().all(|&weight| weight > 0.0));
        let swapped = Rational::from_roots(&theta_hat, &theta).unwrap();
        assert_is_one(&product(&c.coefficients(100), &swapped.coefficients(100)), 1e-12);
        let mut found = c.inverse().unwrap().theta().to_vec();
        found.sort_by(|a, b| b.total_cmp(a));
        for (a, b) in found.iter().zip(&theta_hat) {
            prop_assert!((a - b).abs() <= 1e-12, "{} {}", a, b);
        }
    }
}
