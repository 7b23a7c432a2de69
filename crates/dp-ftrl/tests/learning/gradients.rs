//! Private gradients: what is released, that it can be continued, and how far one person moves it.

use std::path::Path;
use std::sync::Arc;

use dp_ftrl::{ClippedSum, Clipping, Error, PrivateGradients, gradients};
use dp_mechanisms::{
    Budget, CorrelatedNoise, GaussianSource, Method, Participation, Plan, Problem, Relation, Seed, Side,
    StateFile, Strategy, Workload,
};

const STEPS: usize = 7;

fn build(name: &str, steps: usize, participation: Participation) -> Arc<dyn Strategy> {
    let problem = Problem::new(Workload::count(), steps).unwrap().with_participation(participation);
    name.parse::<Method>().unwrap().build(&problem).unwrap()
}

fn budget() -> Budget {
    Budget::approximate(1.0, 1e-6).unwrap()
}

fn start(name: &str, clipping: &Clipping, dimension: usize, seed: u64) -> PrivateGradients {
    let (single, zero_out) = (Participation::Single, Relation::ZeroOut);
    let strategy = build(name, STEPS, single);
    let seed = Seed::reproducible(seed);
    PrivateGradients::new(strategy, clipping.clone(), dimension, zero_out, single, budget(), seed).unwrap()
}

/// The plan behind [`start`].
fn plan(name: &str, clipping: &Clipping) -> Plan {
    let single = Participation::Single;
    gradients::plan(build(name, STEPS, single), clipping, Relation::ZeroOut, single, budget()).unwrap()
}

/// The gradients of a batch: none in some, several in others, long ones among them.
fn batch(step: usize) -> Vec<[f64; 3]> {
    (0..step % 4).map(|i| [i as f64, 0.1 * step as f64, -0.2 * (i + step) as f64]).collect()
}

fn finish_batch(gradients: &mut PrivateGradients, step: usize) -> [f64; 3] {
    for gradient in batch(step) {
        gradients.add(&gradient).unwrap();
    }
    let mut out = [0.0; 3];
    assert_eq!(gradients.finish(&mut out).unwrap().step, step + 1);
    out
}

#[test]
fn a_release_is_the_clipped_sum_plus_the_noise_of_the_strategy() {
    let clipping = Clipping::per_layer(&[1, 2], &[0.5, 1.0]).unwrap();
    for name in Method::ALL.iter().map(|method| method.name()) {
        let mut gradients = start(name, &clipping, 3, 5);
        let source = Box::new(GaussianSource::new(Seed::reproducible(5), 3));
        let plan = gradients.plan().clone();
        let mut noise = CorrelatedNoise::new(plan.strategy().as_ref(), 3, Side::Input, source).unwrap();
        for step in 0..STEPS {
            let released = finish_batch(&mut gradients, step);
            let mut expected = [0.0; 3];
            noise.next_into(&mut expected).unwrap();
            expected.iter_mut().for_each(|value| *value *= plan.sigma());
            for mut gradient in batch(step) {
                clipping.clip(&mut gradient).unwrap();
                expected.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
            }
            for (value, expected) in released.iter().zip(expected) {
                assert!((value - expected).abs() < 1e-12 * plan.sigma(), "{name}, step {step}");
            }
        }
        assert!(gradients.noise_standard_deviation() == plan.sigma());
    }
}

#[test]
fn parts_of_a_batch_come_together() {
    let clipping = Clipping::flat(0.7).unwrap();
    let (mut whole, mut split) = (start("sqrt", &clipping, 3, 1), start("sqrt", &clipping, 3, 1));
    let mut part = ClippedSum::new(clipping, 3).unwrap();
    for step in 0..STEPS {
        let expected = finish_batch(&mut whole, step);
        for (index, gradient) in batch(step).iter().enumerate() {
            if index % 2 == 0 { part.add(gradient).unwrap() } else { split.add(gradient).unwrap() }
        }
        split.absorb(&mut part).unwrap();
        let mut out = [0.0; 3];
        split.finish(&mut out).unwrap();
        for (value, expected) in out.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "step {step}");
        }
    }
}

#[test]
fn errors_leave_everything_as_it_was() {
    let clipping = Clipping::flat(1.0).unwrap();
    let (mut careful, mut careless) = (start("blt", &clipping, 3, 2), start("blt", &clipping, 3, 2));
    for step in 0..STEPS {
        for bad in [[f64::NAN, 0.0, 0.0], [0.0, f64::INFINITY, 0.0]] {
            assert!(matches!(careless.add(&bad), Err(Error::NonFinite { .. })));
        }
        assert!(matches!(careless.add(&[0.0; 2]), Err(Error::Dimension { .. })));
        let mut short = [7.0; 2];
        assert!(matches!(careless.finish(&mut short), Err(Error::Dimension { .. })));
        assert_eq!(short, [7.0; 2]);
        assert_eq!(finish_batch(&mut careful, step), finish_batch(&mut careless, step));
    }
    careless.add(&[1.0, 0.0, 0.0]).unwrap();
    let mut untouched = [7.0; 3];
    for _ in 0..2 {
        let refused = careless.finish(&mut untouched);
        let horizon = dp_mechanisms::Error::HorizonReached { horizon: STEPS };
        assert_eq!(refused, Err(Error::Mechanism(horizon)));
    }
    assert_eq!((untouched, careless.added(), careless.step()), ([7.0; 3], 1, STEPS));
}

/// The live object of [`plan`], with a state in a file.
fn open(directory: &Path, name: &str, clipping: &Clipping) -> Result<PrivateGradients, Error> {
    let file = StateFile::open(&directory.join("state"), None)?;
    PrivateGradients::open(plan(name, clipping), clipping.clone(), 3, Seed::reproducible(4), Some(file))
}

#[test]
fn crashes_lose_and_repeat_nothing() {
    let clipping = Clipping::flat(0.9).unwrap();
    for name in Method::ALL.iter().map(|method| method.name()) {
        let mut whole = start(name, &clipping, 3, 4);
        let expected: Vec<[f64; 3]> = (0..STEPS).map(|step| finish_batch(&mut whole, step)).collect();
        let directory = tempfile::tempdir().unwrap();
        let open = || open(directory.path(), name, &clipping).unwrap();
        let mut shown = [0.0; 3];
        assert_eq!(open().last_finished(&mut shown), Ok(None));
        for (step, expected) in expected.iter().enumerate() {
            let mut gradients = open();
            assert_eq!(gradients.step(), step);
            // Killed in the middle of a batch: nobody has seen anything of it, and it is added again from the start.
            gradients.add(&[5.0, 5.0, 5.0]).unwrap();
            drop(gradients);
            let mut gradients = open();
            for gradient in batch(step) {
                gradients.add(&gradient).unwrap();
            }
            assert_eq!(gradients.finish(&mut shown).unwrap().step, step + 1);
            assert_eq!(shown.map(f64::to_bits), expected.map(f64::to_bits), "{name}, step {step}");
            // Killed before the optimizer used the release: it is shown again.
            drop(gradients);
            let mut again = [0.0; 3];
            assert_eq!(open().last_finished(&mut again).unwrap().map(|step| step.step), Some(step + 1));
            assert_eq!(again, shown);
        }
        let mut gradients = open();
        assert!(gradients.finish(&mut shown).is_err(), "the horizon holds across crashes");
    }
}

#[test]
fn a_state_is_continued_by_its_own_plan_only() {
    let clipping = Clipping::flat(1.0).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut gradients = open(directory.path(), "sqrt", &clipping).unwrap();
    gradients.add(&[1.0, 0.0, 0.0]).unwrap();
    gradients.finish(&mut [0.0; 3]).unwrap();
    drop(gradients);
    // A plan that covers less than the clipping lets through, or another strategy, cannot continue.
    let wider = Clipping::flat(2.0).unwrap();
    let file = StateFile::open(&directory.path().join("state"), None).unwrap();
    let (narrow, seed) = (plan("sqrt", &clipping), Seed::reproducible(4));
    let refused = PrivateGradients::open(narrow, wider.clone(), 3, seed, Some(file));
    assert!(matches!(refused, Err(Error::Clipping { .. })));
    let refused = open(directory.path(), "sqrt", &wider);
    assert!(matches!(refused, Err(Error::Mechanism(dp_mechanisms::Error::State { .. }))));
    assert!(open(directory.path(), "blt", &clipping).is_err());
    assert_eq!(open(directory.path(), "sqrt", &clipping).unwrap().step(), 1);
}

#[test]
fn a_step_that_waits_for_the_disk_takes_no_more_gradients() {
    let clipping = Clipping::flat(0.9).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (inside, away) = (directory.path().join("inside"), directory.path().join("away"));
    std::fs::create_dir(&inside).unwrap();
    let mut gradients = open(&inside, "sqrt", &clipping).unwrap();
    gradients.add(&[0.5, 0.0, 0.0]).unwrap();
    std::fs::rename(&inside, &away).unwrap();
    let mut out = [7.0; 3];
    assert!(gradients.finish(&mut out).is_err());
    assert_eq!(out, [7.0; 3]);
    assert_eq!(gradients.add(&[0.5, 0.0, 0.0]), Err(Error::UnsavedStep { step: 1 }));
    std::fs::rename(&away, &inside).unwrap();
    assert_eq!(gradients.finish(&mut out).unwrap().step, 1);
    let mut whole = start("sqrt", &clipping, 3, 4);
    whole.add(&[0.5, 0.0, 0.0]).unwrap();
    let mut expected = [0.0; 3];
    whole.finish(&mut expected).unwrap();
    assert_eq!(out, expected, "the step was made once");
}

/// All releases of a run in which one person contributes the same gradient to every step (or nothing), and another one
/// takes part in every step.
fn run(mut gradients: PrivateGradients, steps: usize, one: Option<[f64; 2]>) -> Vec<[f64; 2]> {
    (0..steps)
        .map(|_| {
            gradients.add(&[0.3, 0.4]).unwrap();
            if let Some(gradient) = one {
                gradients.add(&gradient).unwrap();
            }
            let mut out = [0.0; 2];
            gradients.finish(&mut out).unwrap();
            out
        })
        .collect()
}

/// All sets of at most `times` steps, any two at least `separation` apart.
fn admissible(steps: usize, times: usize, separation: usize) -> Vec<Vec<usize>> {
    (0_usize..1 << steps)
        .map(|mask| (0..steps).filter(|step| mask >> step & 1 == 1).collect::<Vec<usize>>())
        .filter(|set| set.len() <= times && set.windows(2).all(|pair| pair[1] - pair[0] >= separation))
        .collect()
}

/// The whole run, exhaustively: the strategy's measurement of what one person changed, over every admissible set of
/// steps and a grid of gradients (shorter and much longer than κ), is never above the sensitivity that the noise was
/// made for; and where that is exact, some change attains it.
#[test]
fn no_person_moves_a_run_by_more_than_its_sensitivity() {
    let kappa = 0.8;
    let directions = [[30.0, 0.0], [-30.0, 0.0], [0.0, 0.5]];
    let steps = 6;
    for name in ["sqrt", "binary-tree", "honaker-online", "blt", "banded", "optimal", "identity"] {
        for (times, separation) in [(1, 1), (2, 1), (2, 3), (3, 2), (6, 1)] {
            let participation = Participation::repeated(times, separation).unwrap();
            let strategy = build(name, steps, participation);
            let matrix = strategy.materialize().unwrap().strategy;
            for relation in [Relation::ZeroOut, Relation::Replace] {
                let make = || {
                    let (clipping, seed) = (Clipping::flat(kappa).unwrap(), Seed::reproducible(1));
                    let strategy = strategy.clone();
                    PrivateGradients::new(strategy, clipping, 2, relation, participation, budget(), seed)
                        .unwrap()
                };
                let claimed = make().plan().sensitivity();
                // A gradient changes the release of its own step only, so runs with it in all steps know every change.
                let changes = directions.map(|direction| {
                    let with = run(make(), steps, Some(direction));
                    let without = match relation {
                        Relation::ZeroOut => run(make(), steps, None),
                        Relation::Replace => run(make(), steps, Some(direction.map(|value| -value))),
                    };
                    let change = |step: usize| [0, 1].map(|i| with[step][i] - without[step][i]);
                    (0..steps).map(change).collect::<Vec<[f64; 2]>>()
                });
                let mut worst = 0.0_f64;
                for set in admissible(steps, times, separation) {
                    for assignment in 0..3_usize.pow(set.len() as u32) {
                        let direction = |position: usize| assignment / 3_usize.pow(position as u32) % 3;
                        let moved = matrix.rows().into_iter().map(|row| {
                            let mut measured = [0.0; 2];
                            for (position, step) in set.iter().enumerate() {
                                for (sum, change) in
                                    measured.iter_mut().zip(changes[direction(position)][*step])
                                {
                                    *sum += row[*step] * change;
                                }
                            }
                            measured[0] * measured[0] + measured[1] * measured[1]
                        });
                        worst = worst.max(moved.sum());
                    }
                }
                let context = format!("{name}, {participation}, {relation}: {worst} against {claimed:?}");
                // The noise cancels in the differences up to rounding.
                assert!(worst <= claimed.squared * (1.0 + 1e-9), "{context}");
                if claimed.exact {
                    assert!(worst >= claimed.squared * (1.0 - 1e-9), "{context}");
                }
            }
        }
    }
}
