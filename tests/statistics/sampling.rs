//! The privacy game against training with people who are drawn at random, from outside, and against versions of it broken on
//! purpose.

use dp_ftrl::{Clipping, PrivateGradients, SampledGradients};
use dp_mechanisms::accountant::sampling::CyclicPoisson;
use dp_mechanisms::accountant::{Accountant, Event, noise_multiplier};
use dp_mechanisms::{Budget, Plan, Problem, Relation, Seed, Workload};
use dp_tests::audit::{Audit, audit};
use ndarray::{Array1, Array2};

/// Games with each value of the bit: half of them choose the threshold, half of them count.
const ROUNDS: usize = 32_768;

/// The probability that an audit refutes a trainer that keeps its promise.
const ALPHA: f64 = 1e-5;

/// People in one run, each with a gradient along a coordinate of their own: as many independent games at once.
const TABLES: usize = 64;

const EPSILON: f64 = 1.5;
const DELTA: f64 = 0.05;
const RATE: f64 = 0.5;
const GROUPS: usize = 3;
const STEPS: usize = 12;

/// What 32768 games show at least of a trainer that uses all of its budget. Four rounds at rate 1/2 need the noise multiplier 1.17
/// at (1.5, 0.05). There the best test (simulated 400,000 times beside this code) shows 1.17 of an infinitely exact 1.5 once
/// Clopper-Pearson has widened its rates by 4.4 deviations, and noise × 3/2 shows 0.51. The limit stands halfway between the two; the
/// deviation of what is shown was not simulated and is estimated at 0.05, so that each side is about six of them away.
const SHOWN: f64 = 0.85;

fn sampling() -> CyclicPoisson {
    CyclicPoisson::new(GROUPS, RATE, STEPS).unwrap()
}

fn claim() -> Budget {
    Budget::approximate(EPSILON, DELTA).unwrap()
}

/// A plan with a noise multiplier under a sampling.
fn plan(sampling: CyclicPoisson, multiplier: f64) -> Plan {
    let (rate, rounds) = (sampling.rate(), sampling.rounds());
    let step = Event::sampled_gaussian(multiplier, rate).unwrap();
    let epsilon = Accountant::new().with(&step, rounds).unwrap().epsilon(DELTA).unwrap().upper;
    let problem = Problem::new(Workload::count(), sampling.steps()).unwrap();
    let planned = sampling.plan(&problem, 1.0, epsilon, DELTA).unwrap();
    assert!((planned.multiplier().upper / multiplier - 1.0).abs() < 5e-3, "{:?}", planned.multiplier());
    let clipping = Clipping::flat(1.0).unwrap();
    planned.releases(clipping.footprint(Relation::ZeroOut, sampling.participation()).unwrap()).unwrap()
}

/// The multiplier that the claim needs.
fn needed(sampling: CyclicPoisson) -> f64 {
    noise_multiplier(EPSILON, DELTA, sampling.rate(), sampling.rounds()).unwrap().upper
}

/// The adversary knows the group of the person and everything but the draws: `C y` in the block of each round is that round's
/// column of C, if the person was drawn, plus independent noise, and the likelihood ratio is a product over the rounds.
struct Adversary {
    strategy: Array2<f64>,
    variance: f64,
    /// The probability with which the adversary believes people to be drawn.
    rate: f64,
}

impl Adversary {
    fn new(plan: &Plan, rate: f64) -> Self {
        let strategy = plan.strategy().materialize().unwrap().strategy;
        Self { strategy, variance: plan.sigma().powi(2), rate }
    }

    /// The logarithm of the likelihood ratio of all noisy sums in one coordinate.
    fn score(&self, sums: &Array1<f64>, group: usize, groups: usize) -> f64 {
        let measured = self.strategy.dot(sums);
        (group..sums.len())
            .step_by(groups)
            .map(|step| {
                let column = self.strategy.column(step);
                let exponent = (column.dot(&measured) - 0.5 * column.dot(&column)) / self.variance;
                (1.0 - self.rate + self.rate * exponent.exp()).ln()
            })
            .sum()
    }
}

/// One honest run: everybody who is drawn contributes, if their bit is set, a gradient much longer than allowed.
fn run(plan: &Plan, adversary: &Adversary, bit: bool, seed: u64) -> Vec<f64> {
    let clipping = Clipping::flat(1.0).unwrap();
    let people = (0..TABLES as u64).map(u64::to_le_bytes);
    let mut gradients =
        SampledGradients::new(plan.clone(), clipping, TABLES, people, Seed::reproducible(seed)).unwrap();
    let mut sums = Array2::zeros((TABLES, plan.steps()));
    let (mut gradient, mut noisy) = ([0.0; TABLES], [0.0; TABLES]);
    for step in 0..plan.steps() {
        for person in gradients.drawn().to_vec() {
            gradient[person] = if bit { 100.0 } else { 0.0 };
            gradients.add(person, &gradient).unwrap();
            gradient[person] = 0.0;
        }
        gradients.finish(&mut noisy).unwrap();
        sums.column_mut(step).assign(&ndarray::aview1(&noisy));
    }
    let groups = gradients.batches().sampling().groups();
    let score = |person: usize| {
        let group = gradients.batches().group_of(person).unwrap();
        adversary.score(&sums.row(person).to_owned(), group, groups)
    };
    (0..TABLES).map(score).collect()
}

/// Audits a claim with runs that each play [`TABLES`] games.
fn audited(claim: &Budget, run: impl Fn(bool, u64) -> Vec<f64>) -> Audit {
    let scores = [false, true].map(|bit| {
        let one = |number: u64| run(bit, 2 * number + u64::from(bit));
        (0..(ROUNDS / TABLES) as u64).flat_map(one).collect::<Vec<f64>>()
    });
    audit(claim, ROUNDS, ALPHA, |bit, seed| scores[usize::from(bit)][usize::try_from(seed / 2).unwrap()])
}

/// 32768 games with each bit, α = 1e-5. Power: noise × 2/3 is refuted, and noise × 3/2 shows too little.
#[test]
fn drawn_people_have_the_promised_privacy_and_no_more() {
    for (scale, expected) in [(1.0, true), (2.0 / 3.0, false), (1.5, false)] {
        let plan = plan(sampling(), scale * needed(sampling()));
        let adversary = Adversary::new(&plan, RATE);
        let audit = audited(&claim(), |bit, seed| run(&plan, &adversary, bit, seed));
        println!("cyclic Poisson, noise × {scale:.3}: ε ≥ {:.3} shown, {EPSILON} claimed", audit.shown);
        assert_eq!(!audit.refutes() && audit.shown >= SHOWN, expected, "noise × {scale}: {audit:?}");
        assert_eq!(audit.refutes(), scale < 1.0, "noise × {scale}: {audit:?}");
    }
}

/// Everybody takes part in every round of their group, and the noise is that of people who are drawn. 32768 games with each
/// bit, α = 1e-5.
#[test]
fn fixed_batches_are_not_sampled_ones() {
    let plan = plan(sampling(), needed(sampling()));
    // The adversary knows that nobody is left out.
    let adversary = Adversary::new(&plan, 1.0);
    let audit = audited(&claim(), |bit, seed| {
        let clipping = Clipping::flat(1.0).unwrap();
        let seed = Seed::reproducible(seed);
        let mut gradients = PrivateGradients::open(plan.clone(), clipping, TABLES, seed, None).unwrap();
        let mut sums = Array2::zeros((TABLES, STEPS));
        let (mut gradient, mut noisy) = ([0.0; TABLES], [0.0; TABLES]);
        for step in 0..STEPS {
            for person in (step % GROUPS..TABLES).step_by(GROUPS) {
                gradient[person] = if bit { 1.0 } else { 0.0 };
                gradients.add(&gradient).unwrap();
                gradient[person] = 0.0;
            }
            gradients.finish(&mut noisy).unwrap();
            sums.column_mut(step).assign(&ndarray::aview1(&noisy));
        }
        (0..TABLES)
            .map(|person| adversary.score(&sums.row(person).to_owned(), person % GROUPS, GROUPS))
            .collect()
    });
    println!("fixed batches: ε ≥ {:.3} shown, {EPSILON} claimed", audit.shown);
    assert!(audit.refutes(), "{audit:?}");
}

/// Groups by the place among those who are there: the first person, by being there, moves everybody else to the other group.
/// 2048 games with each bit, α = 1e-5.
#[test]
fn groups_must_not_depend_on_who_is_there() {
    let halves = CyclicPoisson::new(2, RATE, 4).unwrap();
    let plan = plan(halves, needed(halves));
    let play = |bit: bool, seed: u64| {
        let clipping = Clipping::flat(1.0).unwrap();
        let seed = Seed::reproducible(seed);
        let mut gradients = PrivateGradients::open(plan.clone(), clipping, 1, seed, None).unwrap();
        let draws = gradients.hash_key("draws of this test").numbers(b"first step");
        // The others' gradients are 1 and -1 in turn, and known to the adversary.
        let others = (0..20).map(|other| if other % 2 == 0 { 1.0 } else { -1.0 });
        let people: Vec<f64> = bit.then_some(1.0).into_iter().chain(others).collect();
        for (gradient, draw) in people.iter().step_by(2).zip(draws) {
            if draw < u64::MAX / 2 {
                gradients.add(&[*gradient]).unwrap();
            }
        }
        let mut noisy = [0.0];
        gradients.finish(&mut noisy).unwrap();
        -noisy[0]
    };
    let audit = audit(&claim(), 2048, ALPHA, play);
    println!("groups by place: ε ≥ {:.3} shown, {EPSILON} claimed", audit.shown);
    assert!(audit.refutes(), "{audit:?}");
}

/// Noise for removing a person alone, measured in the direction in which the loss of a step is at most `-ln(1 - p)`: what
/// adding a person costs is far more. One round, (½, 0.1), 32768 games with each bit, α = 1e-5.
#[test]
fn one_direction_is_not_enough() {
    let (epsilon, delta) = (0.5_f64, 0.1);
    let normal = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    // δ of N(0, σ²) against ½ N(0, σ²) + ½ N(1, σ²), whose worst event is everything below x.
    let wrong = |sigma: f64| {
        let x = 0.5 + sigma * sigma * (((-epsilon).exp() - 1.0 + RATE) / RATE).ln();
        let (outside, inside) = (normal(x / sigma), normal((x - 1.0) / sigma));
        outside - epsilon.exp() * ((1.0 - RATE) * outside + RATE * inside)
    };
    let (mut low, mut high) = (0.1, 2.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if wrong(middle) > delta { low = middle } else { high = middle }
    }
    let right = noise_multiplier(epsilon, delta, RATE, 1).unwrap().lower;
    assert!(high < 0.6 * right, "{high} {right}");
    let once = CyclicPoisson::new(GROUPS, RATE, GROUPS).unwrap();
    // The plan of that noise at the δ of the other tests: what is looked at here is σ alone.
    let plan = plan(once, high);
    let adversary = Adversary::new(&plan, RATE);
    let claim = Budget::approximate(epsilon, delta).unwrap();
    let audit = audited(&claim, |bit, seed| run(&plan, &adversary, bit, seed));
    println!("one direction: ε ≥ {:.3} shown, {epsilon} claimed", audit.shown);
    assert!(audit.refutes(), "{audit:?}");
}
