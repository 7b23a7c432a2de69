//! Optimizers against closed forms, and projections against their defining property.

use dp_ftrl::{Adam, Error, Ftrl, Rates, Region, Sgd};
use proptest::prelude::{Just, ProptestConfig, Strategy, prop};
use proptest::{prop_assert, prop_oneof, proptest};

fn domains() -> impl Strategy<Value = Region> {
    prop_oneof![
        Just(Region::Everything),
        (0.1..3.0).prop_map(|radius| Region::Ball { radius }),
        (-2.0..0.5, 0.0..2.0).prop_map(|(low, width): (f64, f64)| Region::Box { low, high: low + width }),
        Just(Region::Simplex),
    ]
}

/// A point of the domain made of arbitrary numbers.
fn member(domain: Region, numbers: &[f64]) -> Vec<f64> {
    match domain {
        Region::Everything => numbers.to_vec(),
        Region::Ball { radius } => {
            let norm = numbers.iter().map(|value| value * value).sum::<f64>().sqrt().max(1.0);
            numbers.iter().map(|value| radius * value / norm).collect()
        }
        Region::Box { low, high } => {
            numbers.iter().map(|value| low + (high - low) * (value.sin() + 1.0) / 2.0).collect()
        }
        Region::Simplex => {
            let total: f64 = numbers.iter().map(|value| value.exp()).sum();
            numbers.iter().map(|value| value.exp() / total).collect()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without noise: θ minimizes ⟨s, θ⟩ + (λ/2)‖θ‖² over the domain, which for a convex function says that no admissible
    /// direction descends: ⟨s + λθ, v - θ⟩ ≥ 0 for every v of the domain. And θ itself is in the domain.
    #[test]
    fn the_leader_minimizes_what_it_should(
        domain in domains(),
        lambda in 0.1..10.0,
        gradients in prop::collection::vec(prop::collection::vec(-3.0..3.0, 5), 1..6),
        others in prop::collection::vec(prop::collection::vec(-4.0..4.0, 5), 8),
    ) {
        let mut optimizer = Ftrl::new(5, lambda, domain).unwrap();
        for gradient in &gradients {
            optimizer.update(gradient).unwrap();
        }
        let theta = optimizer.parameters();
        let slope: Vec<f64> = (0..5)
            .map(|i| gradients.iter().map(|gradient| gradient[i]).sum::<f64>() + lambda * theta[i])
            .collect();
        for other in &others {
            let point = member(domain, other);
            let ascent: f64 = slope.iter().zip(&point).zip(theta).map(|((s, v), t)| s * (v - t)).sum();
            prop_assert!(ascent >= -1e-9, "{domain:?}: {ascent}");
        }
        match domain {
            Region::Everything => {}
            Region::Ball { radius } => {
                prop_assert!(theta.iter().map(|value| value * value).sum::<f64>().sqrt() <= radius * (1.0 + 1e-12));
            }
            Region::Box { low, high } => prop_assert!(theta.iter().all(|value| (low..=high).contains(value))),
            Region::Simplex => {
                prop_assert!((theta.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                prop_assert!(theta.iter().all(|value| *value >= 0.0));
            }
        }
    }

    /// No point of the domain has a smaller linear loss, and some have one as small as is claimed.
    #[test]
    fn linear_minima_are_minima(
        domain in domains(),
        direction in prop::collection::vec(-3.0..3.0, 4),
        others in prop::collection::vec(prop::collection::vec(-4.0..4.0, 4), 8),
    ) {
        let minimum = domain.linear_minimum(&direction);
        let loss = |point: &[f64]| direction.iter().zip(point).map(|(s, v)| s * v).sum::<f64>();
        prop_assert!(others.iter().all(|other| loss(&member(domain, other)) >= minimum - 1e-9));
        if domain != Region::Everything {
            // The leader of an overwhelming gradient plays the best point.
            let mut optimizer = Ftrl::new(4, 1e-9, domain).unwrap();
            let best = loss(optimizer.update(&direction).unwrap());
            prop_assert!((best - minimum).abs() < 1e-6, "{domain:?}: {best} {minimum}");
        }
    }
}

#[test]
fn without_noise_the_leader_has_its_closed_form() {
    let gradients = [[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]];
    let expected = |domain: Region| -> [f64; 2] {
        let mut optimizer = Ftrl::new(2, 2.0, domain).unwrap();
        for gradient in &gradients {
            optimizer.update(gradient).unwrap();
        }
        [optimizer.parameters()[0], optimizer.parameters()[1]]
    };
    // The sum is (4.5, -1), so -(1/λ)s = (-2.25, 0.5).
    assert_eq!(expected(Region::Everything), [-2.25, 0.5]);
    let length = 2.25_f64.hypot(0.5);
    let ball = expected(Region::Ball { radius: 1.0 });
    assert!((ball[0] + 2.25 / length).abs() < 1e-15 && (ball[1] - 0.5 / length).abs() < 1e-15);
    assert_eq!(expected(Region::Box { low: -1.0, high: 0.25 }), [-1.0, 0.25]);
    assert_eq!(expected(Region::Simplex), [0.0, 1.0]);
    let start = Ftrl::new(4, 1.0, Region::Simplex).unwrap();
    assert_eq!(start.parameters(), [0.25; 4], "the point of the simplex nearest to zero");
}

#[test]
fn descent_with_momentum_has_its_closed_form() {
    let rates = Rates::list(&[1.0, 0.5, 0.25]).unwrap();
    let mut optimizer = Sgd::starting_at(vec![10.0], 0.5, rates).unwrap();
    let mut seen = Vec::new();
    for gradient in [1.0, 2.0, 4.0, 0.0] {
        seen.push(optimizer.update(&[gradient]).unwrap()[0]);
    }
    // Velocities 1, 2.5, 5.25, 2.625 and rates 1, 0.5, 0.25, 0.25.
    assert_eq!(seen, [9.0, 7.75, 6.4375, 5.781_25]);
}

#[test]
fn schedules_go_from_first_to_last() {
    let linear = Rates::linear(1.0, 0.5, 3).unwrap();
    assert_eq!([0, 1, 2, 9].map(|step| linear.rate(step)), [1.0, 0.75, 0.5, 0.5]);
    let cosine = Rates::cosine(1.0, 0.5, 5).unwrap();
    for (step, expected) in [(0, 1.0), (1, 0.75 + 0.25 * 0.5_f64.sqrt()), (2, 0.75), (4, 0.5), (7, 0.5)] {
        assert!((cosine.rate(step) - expected).abs() < 1e-15, "{step}");
    }
    assert_eq!(Rates::linear(1.0, 0.5, 1).unwrap().rate(0), 0.5);
    assert_eq!(Rates::constant(0.3).unwrap().values(100), [0.3]);
    assert_eq!(linear.values(4), [1.0, 0.75, 0.5, 0.5]);
}

#[test]
fn saved_optimizers_continue_bit_for_bit() {
    let gradient = |step: usize| [(step as f64).sin(), 0.1 * step as f64];
    let domain = Region::Ball { radius: 0.3 };
    let mut sgd = Sgd::new(2, 0.9, Rates::cosine(0.1, 0.01, 10).unwrap()).unwrap();
    let mut ftrl = Ftrl::new(2, 3.0, domain).unwrap();
    for step in 0..10 {
        let mut other_sgd = Sgd::new(2, 0.9, Rates::cosine(0.1, 0.01, 10).unwrap()).unwrap();
        let mut other_ftrl = Ftrl::new(2, 3.0, domain).unwrap();
        other_sgd.restore(sgd.step(), &sgd.state()).unwrap();
        other_ftrl.restore(ftrl.step(), &ftrl.state()).unwrap();
        assert_eq!(sgd.parameters(), other_sgd.parameters());
        assert_eq!(ftrl.parameters(), other_ftrl.parameters());
        let gradient = gradient(step);
        assert_eq!(sgd.update(&gradient), other_sgd.update(&gradient));
        assert_eq!(ftrl.update(&gradient), other_ftrl.update(&gradient));
    }
    assert!(sgd.restore(1, &[0.0; 3]).is_err() && ftrl.restore(1, &[f64::NAN, 0.0]).is_err());
}

#[test]
fn nonsense_is_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Rates::constant(bad), Err(Error::OutOfRange { .. })));
        assert!(Rates::list(&[0.1, bad]).is_err() && Rates::list(&[]).is_err());
        assert!(Rates::linear(bad, 1.0, 3).is_err() && Rates::cosine(1.0, bad, 3).is_err());
        assert!(Ftrl::new(1, bad, Region::Everything).is_err());
        assert!(Ftrl::new(1, 1.0, Region::Ball { radius: bad }).is_err());
    }
    assert!(Ftrl::new(1, 1.0, Region::Box { low: 1.0, high: 0.0 }).is_err());
    assert!(Ftrl::new(1, 1.0, Region::Box { low: f64::NAN, high: 0.0 }).is_err());
    assert!(Ftrl::new(0, 1.0, Region::Everything).is_err());
    for momentum in [-0.1, 1.0, f64::NAN] {
        assert!(Sgd::new(1, momentum, Rates::constant(1.0).unwrap()).is_err());
    }
    assert!(Rates::linear(1.0, 1.0, 0).is_err());
    let mut sgd = Sgd::new(2, 0.0, Rates::constant(1.0).unwrap()).unwrap();
    assert!(sgd.update(&[1.0, f64::NAN]).is_err() && sgd.update(&[1.0]).is_err());
    assert_eq!((sgd.step(), sgd.parameters()), (0, [0.0; 2].as_slice()));
}

/// The values were computed from the formulas in another language.
#[test]
fn adam_takes_the_steps_of_its_formula() {
    let gradients = [[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]];
    let adam = || {
        let adam = Adam::starting_at(vec![0.3, -0.1], Rates::constant(0.1).unwrap()).unwrap();
        adam.with_decays(0.8, 0.95).unwrap().with_floor(1e-3).unwrap()
    };
    let plain = [
        [0.200_099_900_099_9, -4.997_501_249_368_041_5e-5],
        [0.108_151_481_688_294_73, -0.030_395_759_836_032_13],
        [0.106_260_989_064_296_51, -0.057_507_275_002_507_17],
    ];
    let without_noise = [
        [0.160_167_795_847_778_96, 0.006_695_152_877_224_234],
        [-0.043_219_566_852_102_015, -0.024_850_410_700_515_885],
        [-0.046_426_944_107_843_49, -0.053_658_287_145_323_93],
    ];
    for (mut adam, expected) in [(adam(), plain), (adam().with_noise(0.7).unwrap(), without_noise)] {
        let mut continued = adam.clone();
        for (step, (gradient, expected)) in gradients.iter().zip(&expected).enumerate() {
            let parameters = adam.update(gradient).unwrap();
            assert!(parameters.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-14), "{parameters:?}");
            // A fresh one that is given the state takes the same next step.
            assert!(continued.update(gradient).is_ok());
            let mut other = continued.clone();
            other.update(&[9.0, 9.0]).unwrap();
            other.restore(step + 1, &continued.state()).unwrap();
            assert_eq!((other.state(), other.step()), (adam.state(), step + 1));
            continued = other;
        }
    }
    assert!(matches!(adam().update(&[1.0]), Err(Error::Dimension { .. })));
    assert!(matches!(adam().update(&[1.0, f64::NAN]), Err(Error::NonFinite { index: 1, .. })));
    assert!(adam().restore(1, &[0.0; 5]).is_err());
    for bad in [-0.1, 1.0, f64::NAN] {
        assert!(adam().with_decays(bad, 0.5).is_err() && adam().with_decays(0.5, bad).is_err(), "{bad}");
    }
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(adam().with_noise(bad).is_err() && adam().with_floor(bad).is_err(), "{bad}");
    }
}
