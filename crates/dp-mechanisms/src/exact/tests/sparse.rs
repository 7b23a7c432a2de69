//! Coordinates that are measured when somebody asks: the same law as those that are measured in every step.

use super::*;
use crate::SparseMechanism;
use crate::exact::measure::Measure;
use crate::exact::sparse::ExactCells;
use crate::sensitivity::Term;

fn encoded(name: &str, workload: &str, steps: usize) -> crate::Result<ExactPlan> {
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
    ExactPlan::new(&build(name, workload, steps)?, footprint, 5, 1.0, BUDGET)
}

/// What a step adds: several coordinates, one of them in every step and one never.
fn changes(step: usize) -> Vec<(u64, i64)> {
    vec![((step * 7 % 3) as u64, 1), (3, 2 - (step % 5).cast_signed() as i64), ((step % 2) as u64, 4)]
}

#[test]
fn measurements_are_those_of_the_dense_mechanism() {
    let mut covered = 0;
    for name in Method::ALL.iter().map(|method| method.name()) {
        for workload in ["count", "average", "window:9", "exp:1.2"] {
            let steps = 77;
            let Ok(plan) = encoded(name, workload, steps) else { continue };
            covered += 1;
            let mut dense = Measure::new(plan.shared_strategy(), 5, plan.lattice().magnitude());
            let mut inputs = vec![Vec::new(); 5];
            for step in 0..steps {
                let mut row = [0; 5];
                for (coordinate, units) in changes(step) {
                    row[coordinate as usize] += units;
                }
                for (inputs, units) in inputs.iter_mut().zip(row) {
                    if units != 0 {
                        inputs.push((step, units));
                    }
                }
                let mut expected = vec![0; dense.next_rows().1 * 5];
                dense.push(&row, &mut expected);
                for (coordinate, inputs) in inputs.iter().enumerate() {
                    let mut rows = [0; 64];
                    let count = super::super::sparse::measure(plan.strategy(), inputs, step, &mut rows);
                    assert_eq!(count * 5, expected.len(), "{name} {workload}");
                    let expected: Vec<i128> = expected.iter().skip(coordinate).step_by(5).copied().collect();
                    assert_eq!(rows[..count], expected, "{name} {workload} at {step}, {coordinate}");
                }
            }
        }
    }
    assert!(covered > 40, "{covered}");
}

#[test]
fn answers_are_the_decoded_measurements_whenever_they_are_asked_for() {
    for name in ["sqrt", "blt", "scaled-blt", "binary-tree", "honaker-online", "optimal", "banded-inverse"] {
        for workload in ["count", "average", "window:9", "exp:1.2"] {
            let steps = 70;
            let Ok(plan) = encoded(name, workload, steps) else { continue };
            let start = || ExactCells::new(&plan, Seed::reproducible(5).into());
            let (mut always, mut late) = (start(), start());
            let far = (1 << 50) - 1;
            let mut truth = workload.parse::<Workload>().unwrap().stream(steps, 5).unwrap();
            for step in 0..steps {
                let mut row = [0.0; 5];
                for (coordinate, units) in changes(step) {
                    row[coordinate as usize] += units as f64;
                    always.add(coordinate, step, units);
                    late.add(coordinate, step, units);
                }
                let mut exact = [0.0; 5];
                truth.push(&row, &mut exact).unwrap();
                let deviation = plan.standard_deviation(step + 1).unwrap();
                for (coordinate, exact) in (0..5).zip(exact) {
                    let answer = always.ask(coordinate, step + 1).unwrap();
                    assert_eq!(answer, always.ask(coordinate, step + 1).unwrap());
                    assert!(
                        (answer - exact).abs() < 7.0 * deviation,
                        "{name} {workload} {step}: {answer} {exact}"
                    );
                    if step % 23 == 22 || step + 1 == steps {
                        assert_eq!(
                            answer,
                            late.ask(coordinate, step + 1).unwrap(),
                            "{name} {workload} {step}"
                        );
                    }
                }
                if step + 1 == steps {
                    assert_eq!(always.ask(far, steps).unwrap(), late.ask(far, steps).unwrap());
                    assert_ne!(always.ask(far, steps).unwrap(), always.ask(4, steps).unwrap());
                }
            }
        }
    }
}

/// A coordinate that is touched in every step is measured by a convolution from some step on; the answers do not change.
#[test]
fn many_inputs_are_measured_as_few_are() {
    let steps = 2600;
    for name in ["blt", "scaled-blt"] {
        let plan = encoded(name, "count", steps).unwrap();
        let start = || ExactCells::new(&plan, Seed::reproducible(5).into());
        let (mut always, mut late) = (start(), start());
        let mut row = [0; 64];
        let mut inputs = Vec::new();
        for step in 0..steps {
            let units = 3 - (step % 7).cast_signed() as i64 * 2;
            inputs.push((step, units));
            always.add(1, step, units);
            late.add(1, step, units);
            always.ask(1, step + 1).unwrap();
            let (_, with_noise) = always.witnesses(step + 1).next().unwrap();
            super::super::sparse::measure(plan.strategy(), &inputs, step, &mut row);
            // The noise of one measurement is what is left, and never more than ten deviations.
            let left = with_noise - row[0] as f64;
            assert!(left.abs() < 10.0 * plan.noise().variance().sqrt(), "{name} at {step}");
        }
        assert_eq!(always.ask(1, steps).unwrap(), late.ask(1, steps).unwrap(), "{name}");
    }
}

/// Standardized answers of 3,000 coordinates that nobody touched, in 16 cells of probability 1/16 each, for both mechanisms:
/// chi-squared with 15 degrees of freedom exceeds 44.3 with probability 1e-4. Noise that is two thirds or three halves as wide
/// does so by far. The same cells of the one mechanism against the other have 15 degrees of freedom as well.
#[test]
fn sparse_and_dense_answers_have_one_law() {
    let coordinates = 3000;
    for (name, steps) in [("blt", 40), ("scaled-blt", 40), ("honaker-online", 13)] {
        let term = Term { weight: 1.0, participation: Participation::Single };
        let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
        let strategy = build(name, "count", steps).unwrap();
        let plan = ExactPlan::new(&strategy, footprint, coordinates, 1.0, BUDGET).unwrap();
        let deviation = plan.standard_deviation(steps).unwrap();
        let mut cells = ExactCells::new(&plan, Seed::reproducible(21).into());
        let sparse: Vec<f64> =
            (0..coordinates as u64).map(|index| cells.ask(index, steps).unwrap() / deviation).collect();
        let mut mechanism = live(plan, Seed::reproducible(22));
        let mut dense = vec![0.0; coordinates];
        for _ in 0..steps {
            release_units(&mut mechanism, &vec![0; coordinates], &mut dense).unwrap();
        }
        dense.iter_mut().for_each(|value| *value /= deviation);
        let counts = |answers: &[f64], stretch: f64| {
            let mut cells = [0.0_f64; 16];
            for answer in answers {
                let rank = 0.5 * libm::erfc(-answer * stretch / std::f64::consts::SQRT_2);
                cells[((rank * 16.0) as usize).min(15)] += 1.0;
            }
            cells
        };
        let expected = coordinates as f64 / 16.0;
        let statistic = |answers: &[f64], stretch: f64| {
            counts(answers, stretch).iter().map(|count| (count - expected).powi(2) / expected).sum::<f64>()
        };
        for answers in [&sparse, &dense] {
            assert!(statistic(answers, 1.0) < 44.3, "{name}: {}", statistic(answers, 1.0));
            assert!(statistic(answers, 1.5) > 88.6 && statistic(answers, 2.0 / 3.0) > 88.6, "{name}");
        }
        let between: f64 = counts(&sparse, 1.0)
            .iter()
            .zip(counts(&dense, 1.0))
            .map(|(a, b)| (a - b).powi(2) / (a + b).max(1.0))
            .sum();
        assert!(between < 44.3, "{name}: {between}");
    }
}

/// Rows and columns of the noise of one seed are independent of each other: no two entries are equal, and neighbouring columns
/// are not correlated beyond five deviations.
#[test]
fn columns_of_noise_differ() {
    let plan = encoded("identity", "window:1", 200).unwrap();
    let mut cells = ExactCells::new(&plan, Seed::reproducible(9).into());
    let column = |cells: &mut ExactCells, coordinate: u64| -> Vec<f64> {
        (1..=200).map(|step| cells.ask(coordinate, step).unwrap()).collect()
    };
    let columns: Vec<Vec<f64>> = [0, 1, 2, 1 << 40].map(|coordinate| column(&mut cells, coordinate)).into();
    let mut all: Vec<u64> = columns.iter().flatten().map(|value| value.to_bits()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 800);
    let deviation = plan.standard_deviation(1).unwrap();
    for pair in columns.windows(2) {
        let product: f64 = pair[0].iter().zip(&pair[1]).map(|(a, b)| a * b / (deviation * deviation)).sum();
        assert!(product.abs() < 5.0 * 200.0_f64.sqrt(), "{product}");
    }
}

/// The plan of a sparse mechanism over six coordinates.
fn sparse_plan(name: &str, workload: &str, steps: usize) -> crate::Result<Plan> {
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut)?.of_dimension(6)?;
    Plan::exact(&build(name, workload, steps)?, footprint, Budget::approximate(1.0, 1e-6)?, 1.0)
}

fn real_changes(step: usize) -> Vec<(u64, f64)> {
    changes(step).into_iter().map(|(coordinate, units)| (coordinate, units as f64)).collect()
}

#[test]
fn a_sparse_mechanism_resumed_at_every_step_equals_one_that_never_stopped() {
    for name in ["sqrt", "blt", "scaled-blt", "binary-tree", "honaker-online"] {
        for workload in ["count", "average", "window:4", "exp:1.3"] {
            let steps = 12;
            let Ok(plan) = sparse_plan(name, workload, steps) else { continue };
            let mut running = SparseMechanism::new(plan.clone(), Seed::reproducible(5)).unwrap();
            for step in 1..=steps {
                let saved = running.snapshot();
                let mut resumed =
                    SparseMechanism::resume(plan.clone(), &saved, Seed::reproducible(5)).unwrap();
                running.push(&real_changes(step)).unwrap();
                resumed.push(&real_changes(step)).unwrap();
                for coordinate in 0..6 {
                    let (a, b) = (running.ask(coordinate).unwrap(), resumed.ask(coordinate).unwrap());
                    assert_eq!(a, b, "{name} {workload} at {step}");
                }
            }
            let saved = running.snapshot();
            let mut again = SparseMechanism::resume(plan, &saved, Seed::reproducible(5)).unwrap();
            assert_eq!(running.ask(2).unwrap(), again.ask(2).unwrap());
        }
    }
}

/// Secret seeds change at every resume: what was answered stays, and later rows of noise come from another seed.
#[test]
fn a_resumed_sparse_mechanism_repeats_what_was_answered_and_goes_on_with_fresh_noise() {
    let plan = sparse_plan("blt", "count", 20).unwrap();
    let mut running = SparseMechanism::new(plan.clone(), Seed::secret(1)).unwrap();
    for step in 1..=9 {
        running.push(&real_changes(step)).unwrap();
    }
    let answers: Vec<f64> = (0..6).map(|coordinate| running.ask(coordinate).unwrap()).collect();
    let saved = running.snapshot();
    let mut resumed = SparseMechanism::resume(plan, &saved, Seed::secret(2)).unwrap();
    for (coordinate, answer) in answers.iter().enumerate() {
        assert_eq!(resumed.ask(coordinate as u64).unwrap(), *answer);
    }
    running.push(&[]).unwrap();
    resumed.push(&[]).unwrap();
    for coordinate in 0..6 {
        assert_ne!(running.ask(coordinate).unwrap(), resumed.ask(coordinate).unwrap());
    }
}

#[test]
fn inputs_off_the_grid_leave_no_trace_in_a_sparse_mechanism() {
    let start =
        || SparseMechanism::new(sparse_plan("blt", "count", 3).unwrap(), Seed::reproducible(5)).unwrap();
    let (mut touched, mut untouched) = (start(), start());
    for bad in [vec![(0, 1.0), (1, 0.5)], vec![(0, 1.0), (6, 1.0)], vec![(2, f64::NAN)], vec![(3, 1e300)]] {
        assert!(touched.push(&bad).is_err(), "{bad:?}");
    }
    for mechanism in [&mut touched, &mut untouched] {
        // Halves that add up to a whole are on the grid.
        mechanism.push(&[(1, 0.5), (1, 0.5)]).unwrap();
    }
    for coordinate in 0..6 {
        assert_eq!(touched.ask(coordinate).unwrap(), untouched.ask(coordinate).unwrap());
    }
}

/// 2,000 coordinates touched once each: the mean error of the answers is that of the stated noise, five deviations at most,
/// and noise two thirds or three halves as wide would show in their spread (its own deviation is below 2 %).
#[test]
fn sparse_answers_are_the_statistic_plus_noise_of_the_stated_size() {
    let (steps, coordinates) = (30, 2000);
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint =
        Footprint::encoded(vec![term], Relation::ZeroOut).unwrap().of_dimension(coordinates).unwrap();
    let strategy = build("scaled-blt", "count", steps).unwrap();
    let plan = Plan::exact(&strategy, footprint, Budget::approximate(1.0, 1e-6).unwrap(), 1.0).unwrap();
    let mut mechanism = SparseMechanism::new(plan, Seed::reproducible(8)).unwrap();
    for step in 0..steps as u64 {
        let changes: Vec<(u64, f64)> = (0..coordinates as u64)
            .filter(|index| index % steps as u64 == step)
            .map(|index| (index, 3.0))
            .collect();
        mechanism.push(&changes).unwrap();
    }
    let deviation = mechanism.plan().standard_deviation(steps).unwrap();
    let errors: Vec<f64> = (0..coordinates as u64)
        .map(|coordinate| (mechanism.ask(coordinate).unwrap() - 3.0) / deviation)
        .collect();
    let mean = errors.iter().sum::<f64>() / coordinates as f64;
    let spread = (errors.iter().map(|error| error * error).sum::<f64>() / coordinates as f64).sqrt();
    assert!(mean.abs() < 5.0 / (coordinates as f64).sqrt(), "{mean}");
    assert!((spread - 1.0).abs() < 0.1, "{spread}");
}
