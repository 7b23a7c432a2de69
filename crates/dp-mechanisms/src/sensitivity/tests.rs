//! Sensitivities against exhaustive search.

use super::*;
use ndarray::Array2;
use proptest::prelude::*;

/// Every admissible set, and the largest squared norm over all sign patterns of unit contributions.
fn brute_force(strategy: &Array2<f64>, participation: Participation) -> f64 {
    let steps = strategy.ncols();
    let times = participation.times_within(steps);
    let separation = participation.separation();
    let mut worst = 0.0_f64;
    // Each step contributes -1, 0 or +1.
    for code in 0..3_usize.pow(steps as u32) {
        let signs: Vec<f64> = (0..steps).map(|j| ((code / 3_usize.pow(j as u32)) % 3) as f64 - 1.0).collect();
        let used: Vec<usize> = (0..steps).filter(|&j| signs[j] != 0.0).collect();
        let admissible = used.len() <= times && used.windows(2).all(|pair| pair[1] - pair[0] >= separation);
        if admissible {
            let change: f64 = strategy
                .rows()
                .into_iter()
                .map(|row| row.iter().zip(&signs).map(|(c, s)| c * s).sum::<f64>().powi(2))
                .sum();
            worst = worst.max(change);
        }
    }
    worst
}

fn to_dense(coefficients: &[f64]) -> Array2<f64> {
    let n = coefficients.len();
    Array2::from_shape_fn((n, n), |(i, j)| if i >= j { coefficients[i - j] } else { 0.0 })
}

#[test]
fn bounds_dominate_exhaustive_search_and_exact_ones_attain_it() {
    let families: [&[f64]; 5] = [
        &[1.0, 0.5, 0.375, 0.3125, 0.27, 0.24, 0.22, 0.2],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        &[1.0, -0.5, -0.125, -0.06, -0.04, -0.03, -0.02],
        &[1.0, 0.2, 0.9, 0.0, 0.4, -0.3, 0.1],
        &[1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0],
    ];
    for coefficients in families {
        let matrix = to_dense(coefficients);
        for times in 1..=4 {
            for separation in 1..=3 {
                let participation = Participation::repeated(times, separation).unwrap();
                let truth = brute_force(&matrix, participation);
                for bound in
                    [toeplitz(coefficients, participation), dense(matrix.view(), participation).unwrap()]
                {
                    assert!(bound.squared >= truth, "{bound:?} < {truth} at {participation}");
                    if bound.exact {
                        assert!(bound.squared <= truth * (1.0 + 1e-12), "{bound:?} vs {truth}");
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn what_falls_in_time_is_worst_from_the_start(
        falls in prop::collection::vec(prop::collection::vec(0.0..1.0_f64, 7), 3),
        (times, separation) in (1..5_usize, 1..5_usize),
    ) {
        let falling = |steps: &[f64]| -> Vec<f64> {
            let mut value = 1.0;
            steps.iter().map(|fall| { value *= 1.0 - 0.5 * fall; value }).collect()
        };
        let (c, d, s) = (falling(&falls[0]), falling(&falls[1]), falling(&falls[2]));
        let entry = |(i, j): (usize, usize)| if i >= j { d[i] * c[i - j] * s[j] } else { 0.0 };
        let matrix = Array2::from_shape_fn((7, 7), entry);
        let participation = Participation::repeated(times, separation).unwrap();
        let (bound, truth) = (non_increasing(&c, &d, &s, participation), brute_force(&matrix, participation));
        prop_assert!(bound.squared >= truth * (1.0 - 1e-15) && bound.squared <= truth * (1.0 + 1e-13));
    }

    #[test]
    fn matrices_of_any_sign_are_bounded_and_short_bands_are_exact(
        entries in prop::collection::vec(-1.0..1.0_f64, 49),
        (times, separation, bands) in (2..5_usize, 1..4_usize, 1..8_usize),
    ) {
        let entry = |(i, j): (usize, usize)| if i >= j && i < j + bands { entries[7 * i + j] } else { 0.0 };
        let matrix = Array2::from_shape_fn((7, 7), entry);
        let participation = Participation::repeated(times, separation).unwrap();
        let (bound, truth) = (dense(matrix.view(), participation).unwrap(), brute_force(&matrix, participation));
        prop_assert!(bound.squared >= truth * (1.0 - 1e-14));
        // Two columns that are not neighbours in a set do not overlap.
        prop_assert!(bound.exact || bands > 2 * separation && participation.times_within(7) > 2);
        if bound.exact {
            prop_assert!(bound.squared <= truth * (1.0 + 1e-12) + 1e-13, "{} {}", bound.squared, truth);
        }
    }
}

#[test]
fn rows_are_not_columns() {
    // The longest row has squared norm 3, the longest column 2: only columns protect anyone.
    let matrix = Array2::from_shape_vec((3, 3), vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0]).unwrap();
    let bound = dense(matrix.view(), Participation::Single).unwrap();
    assert!(bound.squared >= 2.0 && bound.squared < 2.0 + 1e-12);
}

#[test]
fn relations_set_the_change() {
    let weight = |low, high, relation| {
        Footprint::scalar(low, high, relation, Participation::Single).unwrap().terms()[0].weight
    };
    assert_eq!(weight(0.0, 3.0, Relation::ZeroOut), 3.0);
    assert_eq!(weight(-4.0, 3.0, Relation::ZeroOut), 4.0);
    assert!((weight(-4.0, 3.0, Relation::Replace) - 7.0).abs() < 1e-12);
    let ball = |relation| Footprint::ball(2.0, relation, Participation::Single).unwrap().terms()[0].weight;
    assert!((ball(Relation::Replace) / ball(Relation::ZeroOut) - 2.0).abs() < 1e-15);
}

#[test]
fn bad_footprints_are_refused() {
    for (low, high) in [(1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (0.0, 0.0)] {
        assert!(Footprint::scalar(low, high, Relation::ZeroOut, Participation::Single).is_err());
    }
    for radius in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Footprint::ball(radius, Relation::ZeroOut, Participation::Single).is_err());
    }
    assert!(Participation::repeated(0, 1).is_err() && Participation::repeated(1, 0).is_err());
    assert!("3".parse::<Participation>().is_err() && "3:x".parse::<Participation>().is_err());
}

#[test]
fn domains_refuse_before_anything_happens() {
    let interval = Domain::Interval { low: 0.0, high: 1.0 };
    assert!(interval.check(1, &[0.5, 1.0]).is_ok());
    assert!(matches!(interval.check(4, &[0.5, 1.5]), Err(Error::OutOfBounds { step: 4, index: 1, .. })));
    assert!(matches!(interval.check(4, &[f64::NAN]), Err(Error::NonFiniteInput { .. })));
    assert!(Domain::Ball { radius: 5.0 }.check(1, &[3.0, 4.0]).is_ok());
    assert!(Domain::Ball { radius: 4.9 }.check(1, &[3.0, 4.0]).is_err());
    assert!(Domain::Encoded.check(1, &[1e300, f64::INFINITY]).is_err());
}

#[test]
fn numbers_are_bounded_for_the_dimension_they_were_proved_for() {
    let scalar = Footprint::scalar(-1.0, 3.0, Relation::ZeroOut, Participation::Single).unwrap();
    assert_eq!(scalar.dimension(), Some(1));
    assert!(matches!(
        scalar.clone().of_dimension(100),
        Err(Error::Dimension { expected: 1, actual: 100, .. })
    ));
    // A person who fills all d coordinates moves the vector by sqrt(d) times as much.
    let vector = Footprint::vector(-1.0, 3.0, 100, Relation::ZeroOut, Participation::Single).unwrap();
    let ratio = vector.terms()[0].weight / scalar.terms()[0].weight;
    assert!((10.0..10.0 + 1e-13).contains(&ratio), "{ratio}");
    assert!(Footprint::vector(0.0, 1.0, 0, Relation::ZeroOut, Participation::Single).is_err());
    // A ball bounds the whole vector, however long.
    let ball = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single).unwrap();
    assert_eq!(ball.dimension(), None);
    assert_eq!(ball.clone().of_dimension(7).unwrap().dimension(), Some(7));
    assert!(ball.clone().of_dimension(0).is_err());
    assert!(ball.of_dimension(7).unwrap().of_dimension(8).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn participations_are_checked_wherever_they_come_from() {
    let read = serde_json::from_str::<Participation>;
    assert_eq!(read("\"single\"").unwrap(), Participation::Single);
    let twice = Participation::repeated(2, 5).unwrap();
    let text = serde_json::to_string(&twice).unwrap();
    assert_eq!(text, r#"{"repeated":{"times":2,"separation":5}}"#);
    assert_eq!(read(&text).unwrap(), twice);
    assert_eq!(read(r#"{"repeated":{"times":1,"separation":5}}"#).unwrap(), Participation::Single);
    for bad in [r#"{"repeated":{"times":0,"separation":5}}"#, r#"{"repeated":{"times":2,"separation":0}}"#] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_square_of_a_count_that_fits_no_integer_is_still_above_it() {
    let times = 1_usize << 32;
    assert_eq!(times.wrapping_mul(times), 0, "what an integer product would have said");
    let bound = triangle_bound(times, 2.0);
    let square = (times as f64).powi(2);
    assert!(bound >= 2.0 * square && bound < 2.0 * square * (1.0 + 1e-14));
    // The same through the strategies that fall back on it.
    let problem = crate::Problem::new(crate::Workload::count(), 1 << 33).unwrap();
    let strategy = crate::Method::ScaledBlt.build(&problem).unwrap();
    let often = Participation::repeated(times, 2).unwrap();
    let single = strategy.sensitivity(Participation::Single).unwrap().squared;
    assert!(strategy.sensitivity(often).unwrap().squared >= single * times as f64);
}
