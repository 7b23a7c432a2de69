//! Series against double-double references and against each other.

use super::*;
use proptest::prelude::*;

/// The square root by its recurrence in double-double numbers.
fn reference_sqrt(a: &[f64]) -> Vec<f64> {
    let mut c: Vec<Double> = vec![Double::from(a[0]).sqrt()];
    for k in 1..a.len() {
        let mut rest = Double::from(a[k]);
        for i in 1..k.div_ceil(2) {
            rest = rest.minus(c[i].product(c[k - i]).times(2.0));
        }
        if k.is_multiple_of(2) {
            rest = rest.minus(c[k / 2].product(c[k / 2]));
        }
        c.push(rest.quotient(c[0].times(2.0)));
    }
    c.into_iter().map(Double::value).collect()
}

/// `max_k |x_k - y_k| / max_k |y_k|`.
fn normwise(actual: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    largest(&mut actual.iter().zip(expected).map(|(x, y)| (x - y).abs()))
        / largest(&mut expected.iter().map(|y| y.abs()))
}

/// `max_k |x_k - y_k| / |y_k|`.
fn elementwise(actual: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    actual.iter().zip(expected).map(|(x, y)| ((x - y) / y).abs()).fold(0.0, f64::max)
}

fn families(n: usize) -> Vec<(&'static str, Vec<f64>)> {
    let custom = (0..n).map(|k| 2.0 + (0.37 * k as f64).cos()).map(|x| x / 3.0).collect();
    vec![
        ("count", count(n)),
        ("exponential 1.5", exponential(1.5, n).unwrap()),
        ("exponential 1.001", exponential(1.001, n).unwrap()),
        ("polynomial 0.5", polynomial(0.5, n).unwrap()),
        ("polynomial 1", polynomial(1.0, n).unwrap()),
        ("polynomial 2", polynomial(2.0, n).unwrap()),
        ("window 7", window(7, n).unwrap()),
        ("window 300", window(300, n).unwrap()),
        ("custom", custom),
    ]
}

#[test]
fn newton_square_roots_match_the_double_double_recurrence() {
    let n = 1500;
    for (name, a) in families(n) {
        let expected = reference_sqrt(&a);
        let error = normwise(&sqrt(&a, n).unwrap(), &expected);
        assert!(error < 1e-13, "{name}: Newton {error:e}");
        let error = normwise(&sqrt_recurrence(&a, n).unwrap(), &expected);
        assert!(error < 1e-13, "{name}: recurrence {error:e}");
    }
}

#[test]
fn closed_forms_match_the_double_double_recurrence_elementwise() {
    let n = 1500;
    let cases = [
        (binomial(0.5, n), count(n)),
        (sqrt_exponential(1.001, n).unwrap(), exponential(1.001, n).unwrap()),
        (sqrt_exponential(1.5, n).unwrap(), exponential(1.5, n).unwrap()),
    ];
    for (closed, a) in cases {
        // Rounding the weights themselves moves the root by up to k units in the last place.
        assert!(elementwise(&closed, &reference_sqrt(&a)) < 1e-12);
    }
    for w in [1, 2, 7, 300, 1499, 1500, 4000] {
        let expected = reference_sqrt(&window(w, n).unwrap());
        for (k, (x, y)) in sqrt_window(w, n).unwrap().iter().zip(&expected).enumerate() {
            assert!((x - y).abs() <= 1e-14 * y.abs().max(1e-12), "w = {w}, k = {k}: {x} against {y}");
        }
    }
}

/// Single coefficients of `(1-x^w)^{1/2} (1-x)^{-1/2}`, summed in double-double numbers.
#[test]
fn long_square_roots_are_accurate_to_the_last_coefficient() {
    let n = 1 << 20;
    let doubles = |power: f64, n: usize| {
        let mut c = vec![Double::from(1.0)];
        for k in 1..n {
            c.push(c[k - 1].product(Double::sum(power - 1.0, k as f64)).over(k as f64));
        }
        c
    };
    let root = doubles(0.5, n);
    for w in [3, 1000] {
        let inverse_root = doubles(-0.5, n / w + 1);
        let c = sqrt_window(w, n).unwrap();
        for k in [w, 10 * w + 1, 4321, 65_537, n - 2, n - 1] {
            let expected = (0..=k / w)
                .fold(Double::default(), |sum, j| sum.plus(inverse_root[j].product(root[k - w * j])))
                .value();
            assert!(((c[k] - expected) / expected).abs() < 1e-14, "w = {w}, k = {k}: {} {expected}", c[k]);
        }
    }
    // C(2k,k)/4^k = (1 - 1/8k + 1/128k² + …)/sqrt(πk): an independent value of the last coefficient.
    let k = (n - 1) as f64;
    let expected = (1.0 - 1.0 / (8.0 * k) + 1.0 / (128.0 * k * k)) / (std::f64::consts::PI * k).sqrt();
    let last = binomial(0.5, n)[n - 1];
    assert!(((last - expected) / expected).abs() < 1e-15);

    let newton = sqrt(&count(n), n).unwrap();
    let closed = binomial(0.5, n);
    assert!(normwise(&newton, &closed) < 1e-13);
    assert!(elementwise(&newton, &closed) < 1e-9);
}

#[test]
fn binomial_series_of_integer_powers_are_exact() {
    assert_eq!(binomial(1.0, 1000), count(1000));
    assert_eq!(binomial(-3.0, 6), [1.0, -3.0, 3.0, -1.0, 0.0, 0.0]);
    assert_eq!(binomial(2.0, 5), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(binomial(-0.5, 4), [1.0, -0.5, -0.125, -0.0625]);
}

#[test]
fn lengths_zero_and_one_are_allowed() {
    for n in [0, 1] {
        assert_eq!(sqrt(&[4.0, 1.0], n).unwrap(), vec![2.0; n]);
        assert_eq!(inverse(&[4.0, 1.0], n).unwrap(), vec![0.25; n]);
        assert_eq!(window(3, n).unwrap(), vec![1.0; n]);
        assert_eq!(sqrt_window(3, n).unwrap(), vec![1.0; n]);
        assert_eq!(binomial(0.5, n), vec![1.0; n]);
    }
}

#[test]
fn inputs_without_an_answer_are_refused() {
    for leading in [0.0, -0.0, -1.0] {
        assert!(matches!(sqrt(&[leading, 1.0], 500), Err(Error::NoSquareRoot { .. })), "{leading}");
    }
    assert!(matches!(sqrt(&[f64::NAN], 3), Err(Error::NonFinite { index: 0, .. })));
    assert!(matches!(sqrt(&[1.0, f64::INFINITY], 3), Err(Error::NonFinite { index: 1, .. })));
    assert!(matches!(sqrt(&[], 3), Err(Error::Empty { .. })));
    assert!(matches!(inverse(&[0.0, 1.0], 3), Err(Error::NotInvertible { .. })));
    assert!(matches!(divide(&[1.0, f64::NAN], &[1.0], 3), Err(Error::NonFinite { index: 1, .. })));
    // 1/(1-2x) overflows at k = 1024.
    assert!(matches!(inverse(&[1.0, -2.0], 1100), Err(Error::NonFinite { .. })));
    for alpha in [0.99, f64::NAN, f64::INFINITY] {
        assert!(matches!(exponential(alpha, 3), Err(Error::OutOfRange { .. })));
        assert!(matches!(sqrt_exponential(alpha, 3), Err(Error::OutOfRange { .. })));
    }
    for c in [0.0, -1.0, f64::NAN] {
        assert!(matches!(polynomial(c, 3), Err(Error::OutOfRange { .. })));
    }
    assert!(matches!(window(0, 3), Err(Error::OutOfRange { .. })));
    assert!(matches!(sqrt_window(0, 3), Err(Error::OutOfRange { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn root_squared_and_inverse_times_series_give_back(
        leading in 0.5..2.0_f64,
        tail in prop::collection::vec(-1.0..1.0_f64, 0..700),
        n in 1_usize..900,
    ) {
        // Weights that sum to less than the leading one keep root and inverse bounded.
        let scale = 0.9 * leading / (1.0 + tail.len() as f64);
        let a: Vec<f64> = std::iter::once(leading).chain(tail.iter().map(|x| x * scale)).collect();
        let mut padded = a.clone();
        padded.resize(n, 0.0);

        let root = sqrt(&a, n).unwrap();
        prop_assert!(normwise(&product(&root, &root, n), &padded) < 1e-13);
        prop_assert!(normwise(&root, &sqrt_recurrence(&a, n).unwrap()) < 1e-13);

        let reciprocal = inverse(&a, n).unwrap();
        let mut one = vec![0.0; n];
        one[0] = 1.0;
        prop_assert!(normwise(&product(&reciprocal, &a, n), &one) < 1e-13);
        prop_assert!(normwise(&reciprocal, &inverse_recurrence(&a, n).unwrap()) < 1e-13);
        prop_assert!(normwise(&divide(&root, &root, n).unwrap(), &one) < 1e-12);
    }

    #[test]
    fn newton_lengths_double_at_most(n in 0_usize..1_000_000) {
        let lengths = newton_lengths(n);
        prop_assert!(lengths[0] <= RECURRENCE_LENGTH);
        prop_assert_eq!(lengths[lengths.len() - 1], n);
        prop_assert!(lengths.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= 2 * pair[0]));
    }
}
