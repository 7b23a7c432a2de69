//! The dense program against certified optima and against its own duality gap.

use super::*;
use crate::bounds::{dual_certificate, weighted_schatten_max};
use crate::noise::UnitNoise;
use crate::strategy::Progress;
use approx::assert_relative_eq;
use ndarray::array;
use std::ops::ControlFlow;

fn workload(text: &str) -> Workload {
    text.parse().unwrap()
}

fn optimal(text: &str, steps: usize, objective: &Objective) -> Optimal {
    let problem = Problem::new(workload(text), steps).unwrap();
    Optimal::for_objective(&problem, objective, Stopping::default(), &mut unwatched).unwrap()
}

fn repeated(text: &str, steps: usize, participation: Participation, metric: Metric) -> Optimal {
    let problem = Problem::new(workload(text), steps).unwrap();
    let problem = problem.with_participation(participation).with_metric(metric);
    Optimal::new(&problem, &mut unwatched).unwrap()
}

#[test]
fn certified_optima_of_the_mean_squared_error() {
    // Computed elsewhere by the plain fixed point, to a gap of 1e-9 (the last three to the digits shown).
    let rows = [
        ("count", 64, 4.409_397_207, 1e-6),
        ("count", 256, 6.372_668_147, 1e-6),
        ("average", 128, 0.022_987_684_89, 1e-6),
        ("window:16", 128, 4.259_030_289, 1e-6),
        ("momentum:0.9", 128, 189.574_750_2, 1e-6),
        ("exp:1.1", 128, 2.156_712_597, 1e-6),
        ("exp:1.1", 256, 2.1709, 3e-5),
        ("poly:1", 256, 1.2245, 5e-5),
    ];
    for (text, steps, expected, tolerance) in rows {
        let strategy = optimal(text, steps, &Objective::Mean);
        let Certificate { error, lower_bound, eigendecompositions } = strategy.certificate();
        assert!(eigendecompositions <= 5, "{text} at {steps}: {eigendecompositions}");
        assert!(lower_bound <= error && strategy.certificate().gap() <= 1e-6, "{text} at {steps}");
        assert_relative_eq!(error, expected, max_relative = tolerance);
        // What is proved is what is used.
        let sensitivity = strategy.sensitivity(Participation::Single).unwrap().squared;
        assert_relative_eq!(sensitivity, 1.0, max_relative = 1e-13);
        assert_relative_eq!(sensitivity * strategy.row_norms().unwrap().mean(), error, max_relative = 1e-9);
        let matrix = workload(text).materialize(steps).unwrap();
        let verified = dual_certificate(matrix.view(), strategy.column_weights()).unwrap();
        assert_relative_eq!(verified, lower_bound, max_relative = 1e-9);
    }
}

#[test]
fn thousands_of_steps_take_few_eigendecompositions() {
    for (steps, expected) in [(1024, 8.734_696), (2048, 10.063_582)] {
        let certificate = optimal("count", steps, &Objective::Mean).certificate();
        assert_relative_eq!(certificate.error, expected, max_relative = 1e-6);
        assert!(certificate.gap() <= 1e-6 && certificate.eigendecompositions <= 3, "{certificate:?}");
    }
}

#[test]
fn newton_needs_no_good_start_and_agrees_with_the_fixed_point() {
    for text in ["count", "momentum:0.9", "window:5"] {
        let matrix = workload(text).materialize(24).unwrap();
        let run = |ascent, eigendecompositions| {
            let options = Stopping { eigendecompositions, ascent, ..Stopping::default() };
            let mut gaps = Vec::new();
            let mut watch = |progress| {
                let Progress::Optimum { gap, .. } = progress else { return ControlFlow::Break(()) };
                gaps.push(gap);
                ControlFlow::Continue(())
            };
            let optimum = solve(matrix.view(), &Objective::Mean, &[1.0; 24], options, &mut watch).unwrap();
            assert!(gaps.windows(2).all(|pair| pair[1] <= pair[0]), "{gaps:?}");
            assert_eq!(gaps.len(), optimum.certificate.eigendecompositions);
            optimum.certificate
        };
        let (newton, plain) = (run(Ascent::Newton, 10), run(Ascent::FixedPoint, 2000));
        assert!(newton.gap() <= 1e-6 && plain.gap() <= 1e-6, "{newton:?} {plain:?}");
        assert_relative_eq!(newton.error, plain.error, max_relative = 2e-6);
    }
}

#[test]
fn two_steps_by_hand() {
    // X = [[1, x], [x, 1]]: (3 - 2x)/(1 - x²) is least at x = (3 - √5)/2, where it is φ².
    let strategy = optimal("count", 2, &Objective::Mean);
    let golden_ratio = f64::midpoint(1.0, 5.0_f64.sqrt());
    assert_relative_eq!(strategy.certificate().error, golden_ratio.powi(2) / 2.0, max_relative = 1e-6);
    let x = strategy.strategy.t().dot(strategy.strategy.as_ref());
    assert!((x[[0, 1]] - (3.0 - 5.0_f64.sqrt()) / 2.0).abs() < 1e-3);
    assert_relative_eq!(optimal("count", 1, &Objective::Max).certificate().error, 1.0);
}

#[test]
fn the_largest_row() {
    let rows = [("count", 16, 2.905, 2e-4), ("count", 256, 6.415, 1e-4), ("average", 32, 1.0, 1e-6)];
    for (text, steps, expected, tolerance) in rows {
        let strategy = optimal(text, steps, &Objective::Max);
        assert!(strategy.certificate().gap() <= 1e-6, "{text} at {steps}: {:?}", strategy.certificate());
        assert_relative_eq!(strategy.certificate().error, expected, max_relative = tolerance);
        assert_relative_eq!(
            strategy.row_norms().unwrap().max(),
            strategy.certificate().error,
            max_relative = 1e-6
        );
    }
}

#[test]
fn the_largest_row_starts_from_shorter_horizons() {
    // From the weights of the mean these take 5, 11 and 16 eigendecompositions.
    for (text, most) in [("count", 4), ("average", 4), ("momentum:0.9", 10)] {
        let certificate = optimal(text, 256, &Objective::Max).certificate();
        assert!(
            certificate.gap() <= 1e-6 && certificate.eigendecompositions <= most,
            "{text}: {certificate:?}"
        );
    }
    // An odd horizon, and what proves it.
    let strategy = optimal("momentum:0.9", 131, &Objective::Max);
    assert!(strategy.certificate().gap() <= 1e-6);
    assert_relative_eq!(
        strategy.row_norms().unwrap().max(),
        strategy.certificate().error,
        max_relative = 1e-6
    );
}

#[test]
fn stretched_weights_keep_powers_and_ends() {
    let power = |steps: usize| -> Vec<f64> { (0..steps).map(|t| (t as f64 + 0.5).powf(-0.7)).collect() };
    for steps in [64, 65, 97, 128] {
        let stretched = stretched(&power(50), steps);
        let ratios: Vec<f64> = stretched.iter().zip(power(steps)).map(|(a, b)| a / b).collect();
        // Up to the last quarter, whose shape is that of the last steps. Interpolation begins at the fifth of the short weights,
        // where it is off by 0.7/8 of 1/4.9², and the scale does not count.
        let (before, _) = ratios.split_at(steps - 12);
        assert!(before.iter().all(|ratio| (ratio / ratios[0] - 1.0).abs() < 4e-3), "{steps}: {ratios:?}");
        let ends =
            |values: &[f64]| (values[1] / values[0], values[values.len() - 1] / values[values.len() - 12]);
        let (made, kept) = (ends(&stretched.to_vec()), ends(&power(50)));
        assert_relative_eq!(made.0, kept.0, max_relative = 1e-12);
        assert_relative_eq!(made.1, kept.1, max_relative = 1e-12);
    }
}

#[test]
fn weighted_rows() {
    let mean = optimal("count", 32, &Objective::Mean).certificate();
    let same = optimal("count", 32, &Objective::Weighted(vec![3.0; 32])).certificate();
    assert_relative_eq!(mean.error, same.error, max_relative = 1e-6);
    // One release of a sum needs no more noise than one number.
    let mut last = vec![0.0; 32];
    last[31] = 1.0;
    let certificate = optimal("count", 32, &Objective::Weighted(last)).certificate();
    assert!(certificate.lower_bound <= 1.0 + 1e-9, "{certificate:?}");
    assert_relative_eq!(certificate.error, 1.0, max_relative = 1e-4);
    // The inputs after the last release that counts are free.
    let mut early = vec![0.0; 32];
    early[..16].fill(1.0);
    let half = optimal("count", 32, &Objective::Weighted(early)).certificate();
    let alone = optimal("count", 16, &Objective::Mean).certificate();
    assert_relative_eq!(half.error, alone.error, max_relative = 1e-4);
    for weights in [vec![1.0], vec![0.0, 0.0], vec![1.0, -1.0], vec![f64::NAN, 1.0]] {
        let objective = Objective::Weighted(weights);
        let problem = Problem::new(Workload::count(), 2).unwrap();
        assert!(Optimal::for_objective(&problem, &objective, Stopping::default(), &mut unwatched).is_err());
    }
}

#[test]
fn the_saddle_point_proves_the_largest_row() {
    let matrix = Workload::count().materialize(40).unwrap();
    let optimum =
        solve(matrix.view(), &Objective::Max, &[1.0; 40], Stopping::default(), &mut unwatched).unwrap();
    let bound = weighted_schatten_max(matrix.view(), &optimum.row_weights, &optimum.column_weights).unwrap();
    assert_relative_eq!(bound, optimum.certificate.lower_bound, max_relative = 1e-9);
    assert!(optimum.certificate.gap() <= 1e-6 && bound <= optimum.certificate.error);
}

/// Row i of z is the i-th unit vector, so that noise is a matrix.
struct Units;

impl UnitNoise for Units {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        for (coordinate, value) in out.iter_mut().enumerate() {
            *value = if coordinate + first == row { 1.0 } else { 0.0 };
        }
    }
}

#[test]
fn both_filters_apply_the_inverse() {
    let strategy = optimal("momentum:0.9", 12, &Objective::Mean);
    let Factorization { decoder, strategy: matrix } = strategy.materialize().unwrap();
    let product = decoder.dot(&matrix);
    let workload = strategy.workload().materialize(12).unwrap();
    assert!((&product - &workload).iter().all(|difference| difference.abs() < 1e-10));
    for mut filter in
        [filter::build(&strategy.strategy, 12, 12), filter::step_by_step(&strategy.strategy, 12)]
    {
        let mut noise = Array2::zeros((12, 12));
        for mut row in noise.outer_iter_mut() {
            filter.next_into(&mut Units, row.as_slice_mut().unwrap()).unwrap();
        }
        assert!((matrix.dot(&noise) - Array2::<f64>::eye(12)).iter().all(|entry| entry.abs() < 1e-12));
    }
}

#[test]
fn repeated_participation_is_bounded_from_the_matrix() {
    let strategy = optimal("count", 20, &Objective::Mean);
    let twice = strategy.sensitivity(Participation::repeated(2, 5).unwrap()).unwrap().squared;
    // Two columns of norm 1 with a non-negative inner product.
    assert!(twice > 2.0 && twice <= 4.0 + 1e-12, "{twice}");
    // Coarse enough to be the same wherever it is computed, and never below what was computed.
    let coarse = |squared| of_normalized_columns(Sensitivity::upper_bound(squared), 2);
    for squared in [2.5, 2.5 + 1e-10, 4.0, 4.5] {
        let (bound, again) = (coarse(squared), coarse(squared.next_down()));
        assert!(bound.squared >= squared && bound.squared < squared + 1e-9, "{bound:?}");
        assert!(bound.squared - again.squared < 3e-10 && !bound.exact);
    }
    assert!(of_normalized_columns(Sensitivity::exact(1.5), 1).squared >= 1.5);
}

#[test]
fn workloads_without_a_square_root_start_elsewhere() {
    // A generating function with tiny, alternating later weights.
    let workload = Workload::weights(&[1.0, -0.5, 0.25, 3.0]).unwrap();
    let strategy = Optimal::new(&Problem::new(workload, 10).unwrap(), &mut unwatched).unwrap();
    assert!(strategy.certificate().gap() <= 1e-6, "{:?}", strategy.certificate());
    let matrix = array![[2.0, 0.0], [0.0, 1.0]];
    let options = Stopping::default();
    let optimum = solve(matrix.view(), &Objective::Mean, &[1.0, 1.0], options, &mut unwatched).unwrap();
    assert_relative_eq!(optimum.certificate.error, 2.5, max_relative = 1e-6);
    assert!(solve(matrix.view(), &Objective::Mean, &[1.0], options, &mut unwatched).is_err());
}

#[test]
fn columns_that_meet_overlap_with_neighbours_only_and_their_noise_needs_only_the_bands() {
    let participation = Participation::repeated(3, 5).unwrap();
    for (text, metric) in [("count", Metric::Mse), ("momentum:0.9", Metric::Max), ("average", Metric::Mse)] {
        let strategy = repeated(text, 15, participation, metric);
        assert!(
            strategy.bands <= 10 && strategy.memory(2) == strategy.bands * 17,
            "{text}: {}",
            strategy.bands
        );
        let sensitivity = strategy.sensitivity(participation).unwrap();
        assert!(sensitivity.exact, "{text}");
        assert_relative_eq!(sensitivity.squared, 3.0, max_relative = 1e-12);
        let certificate = strategy.certificate();
        let error = sensitivity.squared * metric.of(&strategy.row_norms().unwrap());
        assert_relative_eq!(error, certificate.error, max_relative = 1e-9);
        assert!(certificate.lower_bound < error, "{text}: {certificate:?}");
        let mut noise = Array2::zeros((15, 15));
        let mut filter = strategy.noise_filter(15).unwrap();
        for mut row in noise.outer_iter_mut() {
            filter.next_into(&mut Units, row.as_slice_mut().unwrap()).unwrap();
        }
        let undone = strategy.strategy.dot(&noise);
        assert!((undone - Array2::<f64>::eye(15)).iter().all(|entry| entry.abs() < 1e-12), "{text}");
    }
}

/// Overlapping columns come close to a bound that no strategy can beat, where keeping them apart costs 22% (2:8) and 3%.
#[test]
fn repeated_participation_is_solved_to_a_certified_gap() {
    let rows = [
        ("count", 64, 4, 16, 20.05, 0.005),
        ("count", 64, 8, 8, 51.0, 0.01),
        ("count", 64, 4, 8, 26.95, 0.015),
        ("count", 64, 2, 8, 11.3, 0.01),
        ("momentum:0.9", 40, 3, 5, f64::INFINITY, 0.03),
    ];
    for (text, steps, times, separation, limit, gap) in rows {
        let participation = Participation::repeated(times, separation).unwrap();
        let strategy = repeated(text, steps, participation, Metric::Mse);
        let certificate = strategy.certificate();
        let error =
            strategy.sensitivity(participation).unwrap().squared * strategy.row_norms().unwrap().mean();
        assert_relative_eq!(error, certificate.error, max_relative = 1e-9);
        assert!(error < limit, "{text} {steps} {participation}: {certificate:?}");
        let above = error / certificate.lower_bound - 1.0;
        assert!((0.0..gap).contains(&above), "{text} {steps} {participation}: {certificate:?}");
    }
}

#[test]
fn the_metric_is_what_is_minimized() {
    let participation = Participation::repeated(2, 8).unwrap();
    let rows = |metric| repeated("count", 16, participation, metric).row_norms().unwrap();
    let (mean, largest) = (rows(Metric::Mse), rows(Metric::Max));
    assert!(mean.mean() < 0.99 * largest.mean() && largest.max() < 0.95 * mean.max(), "{mean:?} {largest:?}");
}

#[test]
fn ill_conditioned_and_degenerate_programs_are_solved_to_the_tolerance() {
    // The weights of the average span many orders of magnitude. Under the largest error of momentum most rows and columns do
    // not matter: their weights vanish, and the optimum leaves their columns short.
    let rows = [
        ("average", 700, Objective::Mean),
        ("average", 60, Objective::Max),
        ("momentum:0.99", 100, Objective::Max),
        ("momentum:0.9", 100, Objective::Max),
        ("momentum:0.99", 200, Objective::Mean),
    ];
    for (text, steps, objective) in rows {
        let optimum = optimal(text, steps, &objective);
        let certificate = optimum.certificate();
        assert!(certificate.gap() <= 1e-6, "{text} {objective:?}: {certificate:?}");
        let rows = optimum.row_norms().unwrap();
        let error = if objective == Objective::Max { rows.max() } else { rows.mean() };
        let error = error * optimum.sensitivity(Participation::Single).unwrap().squared;
        assert!(error <= certificate.error * (1.0 + 1e-8), "{text} {objective:?}: {error} {certificate:?}");
        assert!(error >= certificate.lower_bound * (1.0 - 1e-9), "{text} {objective:?}: {error}");
    }
}
