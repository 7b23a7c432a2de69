//! Clipping of anything a gradient can be.

use dp_ftrl::{ClippedSum, Clipping, Error};
use dp_linalg::norms::round_up_sum_of_squares;
use dp_mechanisms::{Participation, Relation};
use proptest::num::f64 as floats;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};

/// Vectors of ordinary, huge, tiny, subnormal and zero values, alone and mixed, up to several blocks long.
fn finite_vectors() -> impl Strategy<Value = Vec<f64>> {
    let any = floats::NORMAL | floats::SUBNORMAL | floats::ZERO | floats::NEGATIVE | floats::POSITIVE;
    let ordinary = (-1.0..1.0, -3..3).prop_map(|(value, power): (f64, i32)| value * 10_f64.powi(power));
    let at_the_edges = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::MAX),
        Just(-f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(f64::from_bits(1)),
        Just(1.0),
    ];
    prop_oneof![
        prop::collection::vec(any, 0..40),
        prop::collection::vec(ordinary, 0..3000),
        prop::collection::vec(at_the_edges, 0..40),
    ]
}

/// Norms over the whole accepted range.
fn clipping_norms() -> impl Strategy<Value = f64> {
    prop_oneof![
        (1.0..10.0, -100..100).prop_map(|(value, power): (f64, i32)| value * 10_f64.powi(power)),
        Just(1e-100),
        Just(1e100),
        Just(1.0),
    ]
}

/// The norm of values of any size, with a relative error below 1e-13.
fn norm(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    largest * values.iter().map(|value| (value / largest).powi(2)).sum::<f64>().sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_clipped_vector_is_never_too_long(gradient in finite_vectors(), kappa in clipping_norms()) {
        let clipping = Clipping::flat(kappa).unwrap();
        let mut clipped = gradient.clone();
        let before = clipping.clip(&mut clipped).unwrap();
        // In exact arithmetic: an upper bound of the sum of squares against a lower bound of κ².
        prop_assert!(round_up_sum_of_squares(&clipped) <= (kappa * kappa).next_down());
        let truth = norm(&gradient);
        prop_assert!(before == truth || (before / truth - 1.0).abs() < 1e-12, "{before} {truth}");
        if truth < kappa * (1.0 - 1e-13) {
            prop_assert_eq!(&clipped, &gradient, "short enough");
        }
        if truth > kappa {
            prop_assert!(norm(&clipped) >= kappa * (1.0 - 1e-12), "{} of {kappa}", norm(&clipped));
            for (value, original) in clipped.iter().zip(&gradient) {
                // The same direction, up to what underflow takes: 2⁻¹⁰⁷⁵ of a vector that was scaled to a norm of at
                // least 1e140 · 2⁻⁶⁰⁰ and is then brought to κ, and as much of the result.
                let expected = original / truth * kappa;
                let expected = if truth.is_finite() { expected } else { *value };
                prop_assert!((value - expected).abs() <= 1e-12 * expected.abs() + 1e-282 * kappa + 1e-320);
                prop_assert!(value * original >= 0.0);
            }
        }
        // Clipping again changes nothing beyond rounding, and never makes it longer.
        let once = clipped.clone();
        clipping.clip(&mut clipped).unwrap();
        prop_assert!(clipped.iter().zip(&once).all(|(two, one)| two.abs() <= one.abs()));
    }

    #[test]
    fn layers_are_clipped_alone(
        first in finite_vectors(), second in finite_vectors(), kappas in [clipping_norms(), clipping_norms()]
    ) {
        let (mut first, mut second) = ([&[0.5], first.as_slice()].concat(), [&[0.5], second.as_slice()].concat());
        let clipping = Clipping::per_layer(&[first.len(), second.len()], &kappas).unwrap();
        let mut whole = [first.as_slice(), &second].concat();
        let mut sum = ClippedSum::new(clipping.clone(), whole.len()).unwrap();
        sum.add(&whole).unwrap();
        clipping.clip(&mut whole).unwrap();
        Clipping::flat(kappas[0]).unwrap().clip(&mut first).unwrap();
        Clipping::flat(kappas[1]).unwrap().clip(&mut second).unwrap();
        prop_assert_eq!(whole, [first, second].concat());
        prop_assert!(clipping.norm() >= kappas[0].max(kappas[1]) * (1.0 - 1e-15));
        prop_assert!((clipping.norm() / kappas[0].hypot(kappas[1]) - 1.0).abs() < 1e-14);
    }

    #[test]
    fn nan_and_infinities_are_refused_and_nothing_is_touched(
        gradient in finite_vectors(),
        position in 0_usize..4000,
        bad in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
    ) {
        let mut gradient = gradient;
        let position = position.min(gradient.len());
        gradient.insert(position, bad);
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
        let before = bits(&gradient);
        let refused = Clipping::flat(1.0).unwrap().clip(&mut gradient);
        let at_position =
            matches!(refused, Err(Error::NonFinite { index, value, .. }) if index == position && value.to_bits() == bad.to_bits());
        prop_assert!(at_position, "{:?}", refused);
        prop_assert_eq!(bits(&gradient), before);
    }
}

#[test]
fn zero_stays_zero() {
    let mut zeros = [0.0, -0.0, 0.0];
    assert_eq!(Clipping::flat(1.0).unwrap().clip(&mut zeros), Ok(0.0));
    assert_eq!(zeros.map(f64::to_bits), [0.0, -0.0, 0.0].map(f64::to_bits));
}

#[test]
fn the_footprint_says_what_one_person_moves() {
    let participation = Participation::repeated(3, 7).unwrap();
    let weights = |clipping: &Clipping, relation| -> Vec<f64> {
        let footprint = clipping.footprint(relation, participation).unwrap();
        assert_eq!(footprint.relation(), relation);
        assert!(footprint.terms().iter().all(|term| term.participation == participation));
        footprint.terms().iter().map(|term| term.weight).collect()
    };
    let flat = Clipping::flat(1.5).unwrap();
    assert_eq!(weights(&flat, Relation::ZeroOut), [1.5]);
    assert_eq!(weights(&flat, Relation::Replace), [3.0]);
    let layers = Clipping::per_layer(&[2, 5], &[3.0, 4.0]).unwrap();
    assert_eq!(weights(&layers, Relation::ZeroOut), [3.0, 4.0]);
    assert_eq!(weights(&layers, Relation::Replace), [6.0, 8.0]);
    assert_eq!(layers.norm(), 5.0);
}

#[test]
fn rules_that_cannot_be_kept_are_refused() {
    for norm in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-101, 1e101] {
        assert!(matches!(Clipping::flat(norm), Err(Error::OutOfRange { .. })), "{norm}");
        assert!(Clipping::per_layer(&[1, 1], &[1.0, norm]).is_err(), "{norm}");
    }
    assert!(Clipping::per_layer(&[], &[]).is_err());
    assert!(Clipping::per_layer(&[3, 0], &[1.0, 1.0]).is_err());
    assert!(matches!(Clipping::per_layer(&[3], &[1.0, 1.0]), Err(Error::Dimension { .. })));
    let layers = Clipping::per_layer(&[2, 2], &[1.0, 1.0]).unwrap();
    let mut short = [9.0; 3];
    assert!(matches!(layers.clip(&mut short), Err(Error::Dimension { expected: 4, actual: 3, .. })));
    assert_eq!(short, [9.0; 3]);
    assert!(ClippedSum::new(layers, 5).is_err());
}

#[test]
fn sums_come_together_only_under_one_rule() {
    let sum = |norm: f64| ClippedSum::new(Clipping::flat(norm).unwrap(), 2).unwrap();
    let (mut whole, mut part, mut other) = (sum(1.0), sum(1.0), sum(2.0));
    part.add(&[0.0, 3.0]).unwrap();
    other.add(&[0.0, 3.0]).unwrap();
    assert!(matches!(whole.absorb(&mut other), Err(Error::Clipping { .. })));
    assert_eq!((whole.added(), other.added()), (0, 1));
    whole.absorb(&mut part).unwrap();
    assert_eq!((whole.added(), part.added()), (1, 0));
    whole.absorb(&mut part).unwrap();
    assert_eq!(whole.added(), 1, "a part is absorbed once");
    assert!(!format!("{other:?}").contains("2.9") && !format!("{other:?}").contains("[0"), "{other:?}");
}
