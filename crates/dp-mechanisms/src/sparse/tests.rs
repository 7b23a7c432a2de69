//! Sparse mechanisms: what they release, keep and refuse.

use super::*;
use crate::budget::Budget;
use crate::sensitivity::{Footprint, Participation, Relation, Term};
use crate::{Method, Problem};

fn plan(name: &str, workload: &str, steps: usize) -> Plan {
    let strategy = name
        .parse::<Method>()
        .unwrap()
        .build(&Problem::new(workload.parse().unwrap(), steps).unwrap())
        .unwrap();
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
    Plan::idealized(strategy, footprint, Budget::gaussian(1.0).unwrap()).unwrap()
}

fn sized(name: &str, workload: &str, steps: usize, dimension: u64) -> Plan {
    plan(name, workload, steps).of_dimension(usize::try_from(dimension).unwrap()).unwrap()
}

fn start(name: &str, workload: &str, steps: usize, dimension: u64) -> SparseMechanism {
    SparseMechanism::new(sized(name, workload, steps, dimension), Seed::reproducible(5)).unwrap()
}

fn changes(step: usize) -> Vec<(u64, f64)> {
    vec![((step * 7 % 5) as u64, 1.0), (3, -0.5), ((step % 2) as u64, 2.0)]
}

#[test]
fn rows_are_the_same_in_any_order() {
    let mut forward = ColumnSource::new(Seed::reproducible(2), 9);
    let whole: Vec<f64> = (0..200)
        .map(|row| {
            let mut out = [0.0];
            forward.fill_row(row, &mut out);
            out[0]
        })
        .collect();
    for row in (0..200).rev().step_by(3) {
        let mut out = [0.0];
        forward.fill_range(row, 0, &mut out);
        assert_eq!(out[0], whole[row]);
    }
    let mut other = ColumnSource::new(Seed::reproducible(2), 10);
    let mut out = [0.0];
    other.fill_row(0, &mut out);
    assert_ne!(out[0], whole[0]);
}

#[test]
fn answers_are_the_statistic_plus_the_noise_of_the_strategy() {
    let steps = 21;
    for name in ["sqrt", "normalized-sqrt", "binary-tree", "honaker-online", "identity", "output"] {
        for workload in ["count", "average", "window:4", "exp:1.3"] {
            let Ok(strategy) = name
                .parse::<Method>()
                .unwrap()
                .build(&Problem::new(workload.parse().unwrap(), steps).unwrap())
            else {
                continue;
            };
            let mut mechanism = start(name, workload, steps, 5);
            let mut statistic = strategy.workload().stream(steps, 5).unwrap();
            let sources = (0..5).map(|s| ColumnSource::new(Seed::reproducible(5), s));
            let mut noise: Vec<CorrelatedNoise> = sources
                .map(|source| {
                    CorrelatedNoise::new(strategy.as_ref(), 1, Side::Output, Box::new(source)).unwrap()
                })
                .collect();
            for step in 1..=steps {
                let mut input = [0.0; 5];
                for (coordinate, value) in changes(step) {
                    input[coordinate as usize] += value;
                }
                mechanism.push(&changes(step)).unwrap();
                let mut exact = [0.0; 5];
                statistic.push(&input, &mut exact).unwrap();
                for coordinate in 0..5 {
                    let mut z = [0.0];
                    noise[coordinate].next_into(&mut z).unwrap();
                    let expected = exact[coordinate] + mechanism.plan().sigma() * z[0];
                    let answer = mechanism.ask(coordinate as u64).unwrap();
                    assert!((answer - expected).abs() < 1e-9, "{name} {workload} {step} {coordinate}");
                }
            }
        }
    }
}

#[test]
fn when_and_what_is_asked_does_not_change_an_answer() {
    let steps = 70;
    let mut always = start("sqrt", "count", steps, 1 << 40);
    let mut late = start("sqrt", "count", steps, 1 << 40);
    let far = (1 << 40) - 1;
    for step in 1..=steps {
        always.push(&changes(step)).unwrap();
        late.push(&changes(step)).unwrap();
        let answers = [0, 3, far].map(|s| always.ask(s).unwrap());
        assert_eq!(answers, [0, 3, far].map(|s| always.ask(s).unwrap()));
        if step % 23 == 0 {
            assert_eq!(answers[1], late.ask(3).unwrap());
        }
        if step == steps {
            assert_eq!(answers[2], late.ask(far).unwrap());
            assert_eq!(answers[0], late.ask(0).unwrap());
        }
    }
}

#[test]
fn resuming_at_every_step_equals_never_stopping() {
    for workload in ["count", "average", "window:4", "exp:1.3"] {
        let steps = 12;
        let mut running = start("sqrt", workload, steps, 6);
        for step in 1..=steps {
            let mut resumed = SparseMechanism::resume(
                sized("sqrt", workload, steps, 6),
                &running.snapshot(),
                Seed::reproducible(5),
            )
            .unwrap();
            running.push(&changes(step)).unwrap();
            resumed.push(&changes(step)).unwrap();
            for coordinate in 0..6 {
                assert_eq!(running.ask(coordinate).unwrap(), resumed.ask(coordinate).unwrap());
            }
        }
        let mut shown_again = SparseMechanism::resume(
            sized("sqrt", workload, steps, 6),
            &running.snapshot(),
            Seed::reproducible(5),
        )
        .unwrap();
        assert_eq!(running.ask(2).unwrap(), shown_again.ask(2).unwrap());
    }
}

#[test]
fn a_saved_state_survives_the_disk_and_notices_other_noise() {
    let mut mechanism = start("sqrt", "count", 9, 1 << 30);
    for step in 1..=4 {
        mechanism.push(&changes(step)).unwrap();
    }
    let answer = mechanism.ask(3).unwrap();
    let snapshot = mechanism.snapshot().with_attachment("names", b"names".to_vec());
    let read = Snapshot::decode(snapshot.identity().clone(), &snapshot.encode()).unwrap();
    assert_eq!(read.attachment("names"), Some(&b"names"[..]));
    let mut resumed =
        SparseMechanism::resume(sized("sqrt", "count", 9, 1 << 30), &read, Seed::reproducible(5)).unwrap();
    assert_eq!(resumed.ask(3).unwrap(), answer);
    let Payload::Cells(numbers) = snapshot.payload() else { panic!("cells are saved") };
    let state = |seed: u64, numbers: &[f64]| {
        let payload = Payload::Cells(numbers.to_vec());
        let seeds = Seed::reproducible(seed).into();
        Snapshot::new(snapshot.identity().clone(), 1, 4, seeds, payload, Vec::new())
    };
    let resume = |seed: u64, state: &Snapshot| {
        SparseMechanism::resume(sized("sqrt", "count", 9, 1 << 30), state, Seed::reproducible(seed))
    };
    let refused = resume(6, &state(6, numbers));
    assert!(matches!(refused, Err(Error::State { reason }) if reason.contains("noise")));
    for length in 0..numbers.len() {
        let cut = state(5, &numbers[..length]);
        // A state cut between two cells cannot be told from one with fewer cells; the seal on the file can.
        if let Ok(mut resumed) = resume(5, &cut) {
            assert!(resumed.ask(0).is_ok());
        }
    }
}

#[test]
fn refusals_leave_no_trace() {
    let mut touched = start("sqrt", "count", 2, 4);
    let mut untouched = start("sqrt", "count", 2, 4);
    assert!(touched.ask(0).is_err(), "nothing is known before the first step");
    for bad in [vec![(0, 1.0), (4, 1.0)], vec![(0, 1.0), (1, f64::NAN)], vec![(2, f64::INFINITY)]] {
        assert!(touched.push(&bad).is_err());
    }
    for mechanism in [&mut touched, &mut untouched] {
        mechanism.push(&[(1, 1.0)]).unwrap();
        mechanism.push(&[]).unwrap();
        assert_eq!(mechanism.push(&[]), Err(Error::HorizonReached { horizon: 2 }));
        assert!(mechanism.ask(4).is_err());
    }
    assert_eq!(touched.ask(0).unwrap(), untouched.ask(0).unwrap());
    assert!(SparseMechanism::new(plan("sqrt", "count", 2), Seed::reproducible(5)).is_err(), "no dimension");
    assert!(
        SparseMechanism::new(sized("sqrt", "count", 2, MOST_COORDINATES + 1), Seed::reproducible(5)).is_err()
    );
    assert!(SparseMechanism::new(sized("sqrt", "poly:0.5", 2, 3), Seed::reproducible(5)).is_err());
    assert!(
        SparseMechanism::resume(sized("sqrt", "count", 3, 4), &touched.snapshot(), Seed::reproducible(5))
            .is_err()
    );
    assert!(
        SparseMechanism::resume(sized("sqrt", "count", 2, 5), &touched.snapshot(), Seed::reproducible(5))
            .is_err()
    );
    let dense = crate::Mechanism::new(sized("sqrt", "count", 2, 4), Seed::reproducible(5)).unwrap();
    assert!(
        SparseMechanism::resume(sized("sqrt", "count", 2, 4), &dense.snapshot(), Seed::reproducible(5))
            .is_err()
    );
}

#[test]
fn changes_that_add_up_to_more_than_was_declared_are_refused() {
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 4).unwrap()).unwrap();
    let with = |footprint: Footprint| {
        let plan = Plan::idealized(strategy.clone(), footprint, Budget::gaussian(1.0).unwrap())?;
        SparseMechanism::new(plan.of_dimension(3)?, Seed::reproducible(1))
    };
    let numbers =
        |low, high| Footprint::vector(low, high, 3, Relation::ZeroOut, Participation::Single).unwrap();
    let mut mechanism = with(numbers(-1.0, 2.0)).unwrap();
    assert!(mechanism.push(&[(1, 2.0), (2, -1.0), (0, 1.0), (0, 1.0)]).is_ok());
    assert!(matches!(mechanism.push(&[(1, 2.5)]), Err(Error::OutOfBounds { index: 1, .. })));
    let refused = mechanism.push(&[(2, 1.5), (0, 0.0), (2, 1.0)]);
    assert!(matches!(refused, Err(Error::OutOfBounds { index: 2, value: 2.5, .. })), "{refused:?}");
    assert!(mechanism.push(&[(0, 3.0), (0, -1.0)]).is_ok(), "what counts is the sum");
    assert_eq!(mechanism.step(), 2);
    // A coordinate that nobody touches has input 0.
    assert!(with(numbers(1.0, 2.0)).is_err());
    let ball = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single).unwrap();
    let mut mechanism = with(ball).unwrap();
    assert!(mechanism.push(&[(0, 0.6), (1, 0.8)]).is_ok());
    assert!(matches!(mechanism.push(&[(0, 0.8), (1, 0.8)]), Err(Error::NormTooLarge { .. })));
    assert!(mechanism.push(&[(0, f64::MAX), (0, f64::MAX)]).is_err());
    // A plan for other vectors.
    let scalar = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    assert!(matches!(with(scalar), Err(Error::Dimension { expected: 1, actual: 3, .. })));
}

#[test]
fn secrets_are_not_printed() {
    let mut mechanism = start("identity", "count", 3, 2);
    mechanism.push(&[(0, 1.234_567)]).unwrap();
    let text = format!("{mechanism:?}");
    assert!(!text.contains("1.2345"), "{text}");
}
