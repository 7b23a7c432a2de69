//! The accountant against independent values, closed forms and the laws of privacy.

use std::f64::consts::SQRT_2;

use super::lattice::Lattice;
use super::pair::{Direction, Mixture, Pair, Resolution};
use super::*;
use crate::Budget;
use crate::budget::{delta_from_gdp, epsilon_from_gdp};

fn sampled(noise: f64, rate: f64, steps: u64) -> Accountant {
    Accountant::new().with(&Event::sampled_gaussian(noise, rate).unwrap(), steps).unwrap()
}

fn assert_contains(bracket: Bracket, exact: f64, tolerance: f64, what: &str) {
    let Bracket { upper, lower } = bracket;
    // The expected values have sixteen digits.
    assert!(
        lower <= exact * (1.0 + 1e-14) && exact <= upper * (1.0 + 1e-14),
        "{what}: {lower} {exact} {upper}"
    );
    assert!(upper - lower <= tolerance * exact, "{what}: {lower} {exact} {upper}");
}

/// The upper tail of the standard normal distribution.
fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x / SQRT_2)
}

/// The exact curve of one sampled step in terms of t = e^ε.
fn one_step(direction: Direction, shift: f64, rate: f64, t: f64) -> f64 {
    let at = |t: f64| shift / 2.0 + ((t - 1.0 + rate) / rate).ln() / shift;
    match direction {
        Direction::Remove if t <= 1.0 - rate => 1.0 - t,
        Direction::Remove => {
            let z = at(t);
            (1.0 - rate - t) * tail(z) + rate * tail(z - shift)
        }
        Direction::Add if 1.0 / t <= 1.0 - rate => 0.0,
        Direction::Add => {
            let z = at(1.0 / t);
            tail(-z) - t * ((1.0 - rate) * tail(-z) + rate * tail(shift - z))
        }
    }
}

/// The curve of a distribution on a lattice.
fn curve(lattice: &Lattice, unit: f64, t: f64) -> f64 {
    let finite: f64 = lattice
        .entries
        .iter()
        .map(|(index, mass)| mass * (1.0 - t * (-(*index as f64) * unit).exp()).max(0.0))
        .sum();
    finite + lattice.infinite
}

#[test]
fn agrees_with_dp_accounting() {
    let document: serde_json::Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    let rows: Vec<[f64; 6]> = serde_json::from_value(document["rows"].clone()).unwrap();
    assert!(rows.len() >= 200);
    for [noise, rate, steps, delta, optimistic, pessimistic] in rows {
        let Bracket { upper, lower } = sampled(noise, rate, steps as u64).epsilon(delta).unwrap();
        let what = format!("noise {noise}, rate {rate}, {steps} steps, δ {delta}: {lower} to {upper}");
        assert!(upper >= optimistic && lower <= pessimistic, "{what}: {optimistic} {pessimistic}");
        assert!((upper / pessimistic - 1.0).abs() <= 1e-3, "{what}: {pessimistic}");
        assert!(upper - lower <= 1e-3 * upper, "{what}");
    }
}

#[test]
fn one_step_is_its_closed_form() {
    // ε of the worse direction, solved with 60 digits.
    let rows = [
        (1.0, 0.01, 1e-5, 0.199_450_447_795_914_72),
        (1.0, 0.001, 1e-9, 0.123_540_845_474_896_9),
        (0.5, 0.1, 1e-6, 7.695_080_691_571_318),
        (2.0, 0.1, 1e-5, 0.369_036_690_286_591_5),
        (2.0, 0.5, 1e-3, 0.796_191_545_930_356_8),
        (10.0, 0.2, 1e-4, 0.048_772_071_943_840_19),
        (0.3, 0.01, 1e-8, 16.176_052_163_975_486),
        (1.0, 0.9, 1e-12, 7.118_151_657_713_422),
        (4.0, 0.99, 1e-30, 2.803_404_524_879_508),
        (0.7, 0.3, 0.1, 0.318_690_742_390_080_8),
        // Hardly anybody is drawn: tiny losses beside rare large ones.
        (0.655_1, 6.942e-4, 2.16e-5, 0.019_316_006_251_886_54),
        (0.25, 1e-4, 1e-5, 3.103_374_609_707_688_4),
        (0.5, 1e-4, 1e-7, 0.178_994_149_419_662_06),
        (0.25, 1e-5, 1e-7, 5.016_513_278_202_748),
        (0.25, 1e-5, 1e-10, 12.868_687_995_627_758),
        (0.35, 1e-6, 1e-10, 0.828_863_601_927_517_5),
    ];
    for (noise, rate, delta, exact) in rows {
        let what = format!("noise {noise}, rate {rate}, δ {delta}");
        assert_contains(sampled(noise, rate, 1).epsilon(delta).unwrap(), exact, 1e-3, &what);
        assert_contains(sampled(noise, rate, 1).delta(exact).unwrap(), delta, 1e-2, &what);
    }
    // A person with up to two records, each sampled with probability 0.1.
    let records = [(0.81, 0.0), (0.18, 1.0), (0.01, 2.0)];
    let rows = [
        (1.0, 1e-5, 3.617_650_993_540_923),
        (3.0, 1e-4, 0.278_067_496_799_899_83),
        (0.6, 1e-10, 19.073_138_669_798_2),
    ];
    for (noise, delta, exact) in rows {
        let step = Event::gaussian_mixture(noise, &records).unwrap();
        let found = Accountant::new().with(&step, 1).unwrap().epsilon(delta).unwrap();
        assert_contains(found, exact, 1e-3, &format!("mixture, noise {noise}"));
    }
}

#[test]
fn mixtures_of_one_shift_are_sampled_steps() {
    // The general inversion and the closed one lead to the same curve.
    let mixture = Event::gaussian_mixture(1.3, &[(0.9, 0.0), (0.04, 1.0), (0.06, 1.0)]).unwrap();
    let general = Accountant::new().with(&mixture, 50).unwrap().epsilon(1e-6).unwrap();
    let closed = sampled(1.3, 0.1, 50).epsilon(1e-6).unwrap();
    assert!(general.lower <= closed.upper && closed.lower <= general.upper);
    assert!((general.upper / closed.upper - 1.0).abs() < 1e-3);
}

#[test]
fn lattices_enclose_the_exact_curve_of_one_step() {
    let mut looseness: f64 = 0.0;
    for (noise, rate) in [(1.0, 0.1), (0.5, 0.01), (3.0, 0.7), (1.0, 1.0), (0.5, 1e-3), (0.25, 1e-5)] {
        let mixture = Mixture::new(&[(1.0 - rate, 0.0), (rate, 1.0 / noise)]);
        let pair = Pair::Mixture(mixture);
        for direction in [Direction::Remove, Direction::Add] {
            // Coarse on purpose: every cell shows.
            let unit = 0.02;
            let resolution = Resolution {
                unit,
                scale: 0.02,
                widest: 0.1,
                near: 1.0,
                share: f64::INFINITY,
                tilt: 2.0,
                log_moment: 0.0,
                tail: 1e-13,
            };
            let cells = pair.cells(direction, &resolution).unwrap();
            let (upper, lower) = (cells.upper(), cells.lower());
            let scale = (-cells.offset).exp();
            let total: f64 = upper.entries.iter().map(|(_, mass)| mass).sum();
            let other: f64 = upper
                .entries
                .iter()
                .map(|(index, mass)| scale * mass * (-(*index as f64) * unit).exp())
                .sum();
            // What the cells leave out is rare under the first distribution, and a little less so under the other.
            assert!((total - 1.0).abs() < 1e-12, "{total}");
            assert!(other <= 1.0 + 1e-12 && other > 1.0 - 1e-6, "{other}");
            for step in -60..400 {
                let t = (f64::from(step) * 0.0137).exp();
                let exact = one_step(direction, 1.0 / noise, rate, t);
                let (above, below) = (curve(&upper, unit, scale * t), curve(&lower, unit, scale * t));
                let what = format!("{noise} {rate} {direction:?} {t}");
                assert!(above >= exact - 1e-14, "{what}: {above} {exact}");
                assert!(below <= exact + 1e-14, "{what}: {below} {exact}");
                looseness = looseness.max(above - below);
            }
        }
    }
    assert!(looseness < 0.02, "{looseness}");
}

#[test]
fn rare_large_losses_are_held_from_both_sides() {
    // Many steps that hardly anybody enters: upper and lower answers agree to a thousandth, and where a person is drawn once or never
    // the curve is that of one step, with δ divided among the steps.
    for (noise, rate, steps, delta) in [
        (0.25, 1e-4, 10_000, 1e-7),
        (0.35, 1e-4, 10_000, 1e-5),
        (0.25, 1e-5, 100, 1e-5),
        (0.25, 1e-5, 10_000, 1e-5),
        (0.25, 1e-6, 10_000, 1e-7),
        (0.5, 1e-5, 100, 1e-7),
        // A bell and rare large losses, on a lattice each.
        (0.7, 1e-5, 100_000, 1e-5),
        (0.9, 1e-5, 100_000, 1e-5),
        // The first look at ε is thirty times too large.
        (0.6895, 2.842e-7, 7_635_441, 1.32e-10),
    ] {
        let Bracket { upper, lower } = sampled(noise, rate, steps).epsilon(delta).unwrap();
        let what = format!("noise {noise}, rate {rate}, {steps} steps, δ {delta}: {lower} to {upper}");
        assert!(lower > 0.0 && upper - lower <= 1e-3 * upper, "{what}");
        let expected = rate * steps as f64;
        if expected <= 1e-3 {
            let once = sampled(noise, rate, 1).epsilon(delta / steps as f64).unwrap();
            assert!((upper / once.upper - 1.0).abs() <= 2e-2, "{what}: {once:?}");
        }
    }
}

#[test]
fn rare_losses_of_every_size_are_held_from_both_sides() {
    // Losses whose tail falls like a power, so that no tilt shows what counts. The expected values come from powers of the transform of
    // one step on uniform lattices in extended precision, extrapolated to none; they are known to about 1e-5.
    for (noise, rate, steps, delta, exact) in [
        (0.778, 9.6e-6, 14_458, 1.5e-10, 0.033_128_3),
        (0.764, 2.3e-6, 18_665, 1.3e-12, 0.019_703_8),
        (0.771, 2e-5, 1395, 2.5e-12, 0.119_229_0),
        (0.571, 6.8e-7, 375_536, 3.9e-11, 0.119_484_3),
        (0.753, 2e-6, 833_104, 8.8e-12, 0.029_750_7),
    ] {
        let Bracket { upper, lower } = sampled(noise, rate, steps).epsilon(delta).unwrap();
        let what =
            format!("noise {noise}, rate {rate}, {steps} steps, δ {delta}: {lower} to {upper}, {exact}");
        assert!(lower <= exact * (1.0 + 1e-5) && upper >= exact * (1.0 - 1e-5), "{what}");
        assert!(upper - lower <= 1e-3 * upper, "{what}");
    }
}

#[test]
fn a_delta_that_covers_whoever_is_drawn_asks_for_nothing() {
    // δ at ε = 0 is the total variation distance: p (2Φ(1/(2σ)) - 1) for a step, tanh(ε/2) for one that is ε-private.
    let (noise, rate): (f64, f64) = (0.8, 0.01);
    let one = rate * (1.0 - 2.0 * tail(0.5 / noise));
    let laplace = Accountant::new().with(&Event::laplace(2.0).unwrap(), 1).unwrap();
    let pure = Accountant::new().with(&Event::pure(0.3).unwrap(), 1).unwrap();
    for (what, steps, distance) in [
        ("sampled", sampled(noise, rate, 1), one),
        ("pure", pure, 0.15_f64.tanh()),
        ("Laplace", laplace, -(-0.25_f64).exp_m1()),
    ] {
        assert_eq!(
            steps.epsilon(distance * (1.0 + 1e-9)).unwrap(),
            Bracket { upper: 0.0, lower: 0.0 },
            "{what}"
        );
        assert!(steps.epsilon(0.99 * distance).unwrap().lower > 0.0, "{what}");
    }
    // Nobody is drawn in 22 steps but with probability 4.6e-4, and no noise at all would do.
    let vacuous = noise_multiplier(5.875, 6.44e-4, 2.095e-5, 22).unwrap();
    assert_eq!(vacuous, Bracket { upper: 1e-4, lower: 0.0 });
    let enough = noise_multiplier(5.875, 4e-4, 2.095e-5, 22).unwrap();
    assert!(enough.lower > 1e-2 && enough.upper < 1.002 * enough.lower, "{enough:?}");
}

#[test]
fn two_lattices_agree_with_one() {
    // Where one lattice is enough, both ways bound the same ε and the same δ, in both directions.
    for (noise, rate, steps, delta) in [(0.7, 1e-4, 1000, 1e-5), (1.0, 1e-4, 10_000, 1e-7)] {
        let step = Event::sampled_gaussian(noise, rate).unwrap();
        let parts = [(step.pair, steps)];
        for direction in [Direction::Remove, Direction::Add] {
            let at = |question| search::Pilot::new(&parts, direction, question);
            let pilot = at(search::Question::Epsilon(delta));
            let (one, two) = (pilot.clone().on_one_lattice().unwrap(), pilot.on_two_lattices(None).unwrap());
            let what = format!("{noise} {rate} {steps} {direction:?}: {one:?} {two:?}");
            assert!(two.lower <= one.upper && one.lower <= two.upper, "{what}");
            // A few steps outside of their bells are one in some hundred here.
            assert!(two.upper - two.lower <= 5e-3 * two.upper, "{what}");
            let found = at(search::Question::Delta(one.upper)).on_two_lattices(None).unwrap();
            assert!(
                found.lower <= delta && found.upper >= 0.99 * delta && found.lower > 0.9 * delta,
                "{found:?} {what}"
            );
        }
    }
}

#[test]
fn extremes_are_answered_or_refused() {
    let mut refused = 0;
    for noise in [1e-4, 0.003, 1.0, 1e8] {
        for rate in [1e-9, 0.5, 1.0] {
            for steps in [1, 1_000_000_000, 1_000_000_000_000] {
                for delta in [1e-300, 0.9] {
                    let step = Event::sampled_gaussian(noise, rate).unwrap();
                    let found = Accountant::new().with(&step, steps).and_then(|all| all.epsilon(delta));
                    let what = format!("noise {noise}, rate {rate}, {steps} steps, δ {delta}: {found:?}");
                    match found {
                        Ok(Bracket { upper, lower }) => {
                            assert!(0.0 <= lower && lower <= upper && upper.is_finite(), "{what}");
                        }
                        Err(Error::OutOfRange { .. } | Error::NoConvergence { .. }) => refused += 1,
                        Err(other) => panic!("{other}: {what}"),
                    }
                }
            }
        }
    }
    assert!(refused < 72 - 8, "{refused} of 72");
    // So little noise that its losses fit on no lattice is refused by name, at once.
    let hopeless = sampled(1e-4, 0.5, 1_000_000_000).epsilon(1e-5);
    assert!(matches!(hopeless, Err(Error::OutOfRange { what: "the noise multiplier", .. })), "{hopeless:?}");
}

#[test]
fn the_lattice_finds_the_exact_gaussian_curve() {
    // Through the lattice on purpose: the accountant itself answers plain Gaussian noise in closed form.
    for (mu, steps) in [(0.004, 1), (0.05, 1), (1.0, 1), (4.0, 1), (10.0, 1), (0.1, 100), (0.002, 1_000_000)]
    {
        let parts = [(Pair::Mixture(Mixture::new(&[(1.0, mu)])), steps)];
        let total = mu * (steps as f64).sqrt();
        for delta in [1e-3, 1e-6, 1e-12, 1e-60] {
            let exact = epsilon_from_gdp(total, delta).unwrap();
            if (0.01..=100.0).contains(&exact) {
                let found = search::epsilon(&parts, delta).unwrap();
                assert_contains(found, exact, 1e-3, &format!("μ {mu}, {steps} steps, δ {delta}"));
            }
        }
    }
    let parts = [(0.3, 4), (0.7, 2)].map(|(mu, steps)| (Pair::Mixture(Mixture::new(&[(1.0, mu)])), steps));
    let exact = epsilon_from_gdp((4.0 * 0.09_f64 + 2.0 * 0.49).sqrt(), 1e-7).unwrap();
    assert_contains(search::epsilon(&parts, 1e-7).unwrap(), exact, 1e-3, "two kinds");
}

#[test]
fn without_sampling_the_curve_is_gaussian_to_the_last_digits() {
    for (noise, steps, delta) in [(1.0, 1, 1e-5), (20.0, 1000, 1e-6), (3.0, 7, 1e-30)] {
        let mu = (steps as f64).sqrt() / noise;
        let accountant = Accountant::new().with(&Event::gaussian(noise).unwrap(), steps).unwrap();
        assert_eq!(accountant, sampled(noise, 1.0, steps));
        let epsilon = accountant.epsilon(delta).unwrap();
        assert!((epsilon.upper / epsilon_from_gdp(mu, delta).unwrap() - 1.0).abs() < 1e-13);
        let found = accountant.delta(epsilon.upper).unwrap();
        assert!((found.upper / delta_from_gdp(epsilon.upper, mu).unwrap() - 1.0).abs() < 1e-9);
        let back = noise_multiplier(epsilon.upper, delta, 1.0, steps).unwrap();
        assert!((back.upper / noise - 1.0).abs() < 1e-9, "{back:?} {noise}");
        assert!(
            back.upper
                >= Budget::approximate(epsilon.upper, delta).unwrap().unit_sigma() * (steps as f64).sqrt()
        );
    }
    // Nearly always sampled is nearly Gaussian, and more private.
    let nearly = sampled(1.0, 1.0 - 1e-6, 10).epsilon(1e-5).unwrap();
    let always = sampled(1.0, 1.0, 10).epsilon(1e-5).unwrap();
    assert!(nearly.lower <= always.upper && (nearly.upper / always.upper - 1.0).abs() < 1e-3);
}

#[test]
fn pure_steps_compose_like_coins() {
    for (epsilon, steps, at) in [(0.1, 50_u64, 1.3), (0.5, 10, 2.2), (1.0, 1, 0.4), (0.01, 2000, 1.1)] {
        let likely = 1.0 / (1.0 + f64::exp(-epsilon));
        // Σ C(k, j) q^j (1-q)^(k-j) (1 - e^{ε - (2j-k) ε₀})_+ with the binomial by recurrence in logarithms.
        let (mut log_mass, mut delta) = (steps as f64 * (1.0 - likely).ln(), 0.0);
        for j in 0..=steps {
            let loss = (2.0 * j as f64 - steps as f64) * epsilon;
            delta += log_mass.exp() * (1.0 - (at - loss).exp()).max(0.0);
            log_mass += ((steps - j) as f64 / (j as f64 + 1.0)).ln() + (likely / (1.0 - likely)).ln();
        }
        let accountant = Accountant::new().with(&Event::pure(epsilon).unwrap(), steps).unwrap();
        assert_contains_loosely(accountant.delta(at).unwrap(), delta, 1e-3);
        assert_contains_loosely(accountant.epsilon(delta).unwrap(), at, 1e-3);
    }
}

/// Like [`assert_contains`] for expected values with eleven digits.
fn assert_contains_loosely(Bracket { upper, lower }: Bracket, exact: f64, tolerance: f64) {
    assert!(lower <= exact * (1.0 + 1e-11) && exact <= upper * (1.0 + 1e-11), "{lower} {exact} {upper}");
    assert!(upper - lower <= tolerance * exact, "{lower} {exact} {upper}");
}

#[test]
fn laplace_noise_is_its_closed_form_alone_and_beside_gaussian_noise() {
    for (scale, epsilon) in [(1.0, 0.3), (0.2, 4.0), (5.0, 0.01)] {
        let exact = -((epsilon - 1.0 / scale) / 2.0_f64).exp_m1();
        let accountant = Accountant::new().with(&Event::laplace(scale).unwrap(), 1).unwrap();
        assert_contains_loosely(accountant.delta(epsilon).unwrap(), exact, 2e-3);
    }
    // δ = E δ_μ(ε - L), L the loss of Laplace noise: atoms at ±1/b and the density e^{(L - 1/b)/2}/4 between.
    let (bound, mu, epsilon): (f64, f64, f64) = (0.5, 0.4, 1.5);
    let gaussian = |x: f64| tail(x / mu - mu / 2.0) - x.exp() * tail(x / mu + mu / 2.0);
    let panels = 2000;
    let width = 2.0 * bound / f64::from(panels);
    let mut delta = 0.5 * gaussian(epsilon - bound) + 0.5 * (-bound).exp() * gaussian(epsilon + bound);
    for panel in 0..=panels {
        let loss = f64::from(panel) * width - bound;
        let weight = if panel == 0 || panel == panels { 1.0 } else { 2.0 + 2.0 * f64::from(panel % 2) };
        delta += weight * width / 3.0 * ((loss - bound) / 2.0).exp() / 4.0 * gaussian(epsilon - loss);
    }
    let both = Accountant::new()
        .with(&Event::laplace(1.0 / bound).unwrap(), 1)
        .unwrap()
        .with(&Event::gaussian(1.0 / mu).unwrap(), 1)
        .unwrap();
    assert_contains_loosely(both.delta(epsilon).unwrap(), delta, 2e-3);
    assert_contains_loosely(both.epsilon(delta).unwrap(), epsilon, 1e-3);
}

#[test]
fn composition_does_not_depend_on_order_or_grouping() {
    let [one, two, three] =
        [(1.0, 0.02), (0.8, 0.01), (5.0, 1.0)].map(|(n, p)| Event::sampled_gaussian(n, p).unwrap());
    let forward =
        Accountant::new().with(&one, 300).unwrap().with(&two, 100).unwrap().with(&three, 4).unwrap();
    let backward = Accountant::new()
        .with(&three, 4)
        .and_then(|so_far| so_far.with(&two, 60)?.with(&one, 300)?.with(&two, 40))
        .unwrap();
    assert_eq!(forward, backward);
    let epsilon = forward.epsilon(1e-6).unwrap();
    assert_eq!(epsilon, backward.epsilon(1e-6).unwrap());
    assert!(epsilon.upper - epsilon.lower <= 1e-3 * epsilon.upper);
    // Every part alone is more private than all of them.
    for (event, steps) in [(&one, 300), (&two, 100), (&three, 4)] {
        let alone = Accountant::new().with(event, steps).unwrap().epsilon(1e-6).unwrap();
        assert!(alone.upper < epsilon.lower);
    }
}

#[test]
fn answers_are_monotone_in_every_parameter() {
    let epsilon =
        |noise: f64, rate: f64, steps: u64, delta: f64| sampled(noise, rate, steps).epsilon(delta).unwrap();
    for noise in [0.6, 1.0, 3.0] {
        for rate in [0.002, 0.04, 0.5] {
            for steps in [1, 30, 1000] {
                let here = epsilon(noise, rate, steps, 1e-6);
                for other in [
                    epsilon(noise * 1.05, rate, steps, 1e-6),
                    epsilon(noise, rate * 0.95, steps, 1e-6),
                    epsilon(noise, rate, steps, 1.5e-6),
                ] {
                    assert!(other.upper < here.lower, "{noise} {rate} {steps}: {other:?} {here:?}");
                }
                let more = epsilon(noise, rate, steps + steps.div_ceil(10), 1e-6);
                assert!(here.upper < more.lower, "{noise} {rate} {steps}: {here:?} {more:?}");
                let at = sampled(noise, rate, steps);
                let (near, far) = (at.delta(here.upper).unwrap(), at.delta(here.upper * 1.05).unwrap());
                assert!(far.upper < near.lower && near.lower <= 1e-6, "{near:?} {far:?}");
            }
        }
    }
}

#[test]
fn calibrated_noise_is_private_and_a_little_less_is_not() {
    for (epsilon, delta, rate, steps) in
        [(0.05, 1e-6, 0.01, 10), (1.0, 1e-5, 0.02, 500), (8.0, 1e-6, 0.1, 2000), (90.0, 1e-5, 0.3, 100)]
    {
        let noise = noise_multiplier(epsilon, delta, rate, steps).unwrap();
        assert!(sampled(noise.upper, rate, steps).epsilon(delta).unwrap().upper <= epsilon);
        assert!(sampled(noise.lower, rate, steps).epsilon(delta).unwrap().lower > epsilon);
        assert!(noise.upper - noise.lower < 3e-3 * noise.upper, "{noise:?}");
    }
}

#[test]
fn a_million_steps_are_accounted() {
    // Many small steps are Gaussian in the limit: μ = p sqrt(k (e^{1/σ²} - 1)) for rates that fall like 1/sqrt(k).
    let (noise, steps): (f64, u64) = (2.0, 1_000_000);
    let rate = 1e-3;
    let mu = rate * (steps as f64 * (noise.powi(-2).exp() - 1.0)).sqrt();
    let limit = epsilon_from_gdp(mu, 1e-5).unwrap();
    let found = sampled(noise, rate, steps).epsilon(1e-5).unwrap();
    assert!(found.upper - found.lower < 1e-3 * found.upper, "{found:?}");
    assert!((found.upper / limit - 1.0).abs() < 0.01, "{found:?} {limit}");
}

#[test]
fn bad_input_is_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(Event::gaussian(bad), Err(Error::OutOfRange { what: "noise multiplier", .. })));
        assert!(matches!(
            Event::sampled_gaussian(1.0, bad),
            Err(Error::OutOfRange { what: "sampling rate", .. })
        ));
        assert!(Event::laplace(bad).is_err() && Event::pure(bad).is_err());
        assert!(Event::gaussian_mixture(bad, &[(1.0, 1.0)]).is_err());
        assert!(Event::gaussian_mixture(1.0, &[(bad, 1.0)]).is_err());
        assert!(noise_multiplier(bad, 1e-5, 0.1, 10).is_err());
        assert!(sampled(1.0, 0.1, 1).delta(bad).is_err());
    }
    assert!(Event::sampled_gaussian(1.0, 1.0 + 1e-9).is_err());
    for bad in [&[][..], &[(0.5, 1.0)], &[(1.0, 0.0)], &[(0.5, 1.0), (0.5, -1.0)], &[(1.0, f64::NAN)]] {
        assert!(Event::gaussian_mixture(1.0, bad).is_err(), "{bad:?}");
    }
    for bad in [0.0, 1.0, -0.1, f64::NAN] {
        assert!(matches!(sampled(1.0, 0.1, 1).epsilon(bad), Err(Error::OutOfRange { what: "delta", .. })));
        assert!(noise_multiplier(1.0, bad, 0.1, 10).is_err());
    }
    let step = Event::gaussian(1.0).unwrap();
    assert!(Accountant::new().with(&step, 0).is_err());
    assert!(Accountant::new().with(&step, u64::MAX).is_err());
    assert!(matches!(Accountant::new().epsilon(1e-5), Err(Error::Empty { .. })));
    assert!(noise_multiplier(1.0, 1e-5, 0.1, 0).is_err());
}
