//! What the weights, the decoder and the errors of weighted trees must be.

use dp_linalg::dense;
use ndarray::{Array1, s};

use super::*;

const HORIZONS: [usize; 9] = [1, 2, 7, 16, 33, 64, 100, 257, 300];

fn tree(steps: usize) -> WeightedTree {
    WeightedTree::new(&Problem::new(Workload::count(), steps).unwrap())
}

#[test]
fn every_column_has_the_absolute_norm_one_and_at_most_the_squared_norm_that_is_claimed() {
    for steps in HORIZONS {
        let tree = tree(steps);
        let matrix = tree.materialize().unwrap().strategy;
        let mut longest = 0.0_f64;
        for column in matrix.columns() {
            // Multiples of 2^-12: the sums are exact.
            assert_eq!(column.iter().map(|entry| entry.abs()).sum::<f64>(), 1.0, "{steps}");
            longest = longest.max(column.iter().map(|entry| entry * entry).sum());
        }
        assert_eq!(tree.sensitivity(Participation::Single).unwrap().squared, longest, "{steps}");
        assert_eq!(tree.absolute_sensitivity(Participation::Single).unwrap(), 1.0);
        let measured = tree.measurement().unwrap().absolute_column(steps).unwrap();
        assert_eq!(measured, 1.0);
    }
    let thrice = Participation::repeated(3, 2).unwrap();
    assert_eq!(tree(100).absolute_sensitivity(thrice).unwrap(), 3.0);
    assert_eq!(tree(3).absolute_sensitivity(thrice).unwrap(), 2.0);
}

/// Of all unbiased decoders of what is measured up to a step, the one in use has the least variance: its row is a
/// combination of the rows that are there, `b = C u`.
#[test]
fn decoding_is_least_squares_over_what_is_there() {
    let steps = 100;
    let tree = tree(steps);
    let Factorization { decoder, strategy } = tree.materialize().unwrap();
    let rows = tree.row_norms().unwrap();
    for t in [1, 13, 40, 99, 100] {
        // A measurement is there when its last leaf is.
        let there: Vec<usize> = (0..strategy.nrows())
            .filter(|row| strategy.row(*row).slice(s![t..]).iter().all(|c| *c == 0.0))
            .collect();
        let known = Array2::from_shape_fn((there.len(), t), |(i, j)| strategy[[there[i], j]]);
        let gram = dense::gram(known.view());
        let mut weights = Array1::<f64>::ones(t);
        // Conjugate gradients on CᵀC u = 1.
        let mut solution = Array1::<f64>::zeros(t);
        let mut direction = weights.clone();
        for _ in 0..4 * t {
            let energy = weights.dot(&weights);
            if energy < 1e-26 {
                break;
            }
            let image = gram.dot(&direction);
            let length = energy / direction.dot(&image);
            solution.scaled_add(length, &direction);
            weights.scaled_add(-length, &image);
            direction = &weights + &(&direction * (weights.dot(&weights) / energy));
        }
        let least = solution.sum();
        let ours = rows.at(t - 1).unwrap();
        assert!((ours - least).abs() <= 1e-9 * least, "step {t}: {ours}, least {least}");
        // Later measurements have no weight.
        for row in (0..strategy.nrows()).filter(|row| !there.contains(row)) {
            assert_eq!(decoder[[t - 1, row]], 0.0, "step {t}, row {row}");
        }
    }
}

#[test]
fn errors_are_those_of_an_independent_minimization() {
    // Trees of 8·8, 16·16 and 16·8·8 leaves with real weights, by a general-purpose minimizer: weights in units of 2^-12
    // and a search over other numbers of children change them by less than half a percent for the worse.
    for (steps, reference) in [(64, 24.889_095), (256, 55.237_805), (1024, 103.996_273)] {
        let error = tree(steps).row_norms().unwrap().mean();
        assert!(error < 1.005 * reference, "{steps}: {error}");
        // Nested intervals of any sizes with any weights, by dynamic programming, reach 24.456, 54.294 and 101.818.
        assert!(error > 0.978 * reference, "{steps}: {error}");
    }
    // No tree pays off below some length.
    for steps in [1, 2, 3, 8] {
        let error = tree(steps).row_norms().unwrap().mean();
        assert_eq!(error, f64::midpoint(steps as f64, 1.0), "{steps}");
    }
}

#[test]
fn long_streams_keep_few_vectors() {
    for (log, memory, factor) in [(14, 6, 280.0), (20, 9, 785.0)] {
        let tree = tree(1 << log);
        assert!(tree.memory(1) <= memory, "2^{log}: {}", tree.memory(1));
        let error = tree.row_norms().unwrap().mean();
        assert!(error < factor, "2^{log}: {error}");
    }
}

#[test]
fn any_step_knows_what_it_measures() {
    for steps in HORIZONS {
        let Ok(Measurement::WeightedNodes(nodes)) = tree(steps).measurement() else { panic!("{steps}") };
        let mut position = nodes.position();
        for step in 0..steps {
            let measured: Vec<MeasuredNode> = position.next().filter(|node| node.weight > 0).collect();
            assert_eq!(nodes.measured_at(step).collect::<Vec<_>>(), measured, "{steps}, step {step}");
            position.advance();
        }
        assert_eq!(position.rows(), nodes.measurements());
    }
}

#[test]
fn nothing_is_made_beyond_the_horizon() {
    let mut filter = tree(5).noise_filter(2).unwrap();
    let mut out = [0.0; 2];
    for _ in 0..5 {
        filter.next_into(&mut UnitRows, &mut out).unwrap();
    }
    assert!(matches!(filter.next_into(&mut UnitRows, &mut out), Err(Error::HorizonReached { horizon: 5 })));
}

/// The closed form is the sum over the rows of the decoder, and blocks as long as the window are better than a tree over all steps.
#[test]
fn windows_have_trees_of_their_own() {
    for (steps, width) in [(30, 2), (64, 5), (100, 20), (257, 40), (300, 150), (300, 200), (50, 60)] {
        let problem = Problem::new(Workload::window(width).unwrap(), steps).unwrap();
        let tree = WeightedTree::new(&problem);
        let rows = tree.row_norms().unwrap();
        let Factorization { decoder, strategy } = tree.materialize().unwrap();
        for (t, row) in decoder.outer_iter().enumerate() {
            let expected = row.dot(&row);
            let norm = rows.at(t).unwrap();
            assert!((norm / expected - 1.0).abs() < 1e-10, "{steps} {width} {t}: {norm} {expected}");
        }
        for column in strategy.columns() {
            assert_eq!(column.iter().sum::<f64>(), 1.0, "{steps} {width}");
        }
        let whole = WeightedTree { workload: tree.workload.clone(), shape: Arc::new(Shape::fitted(steps)) };
        let whole = whole.row_norms().unwrap().mean();
        assert!(rows.mean() < 1.001 * whole, "{steps} {width}: {} {whole}", rows.mean());
    }
    // Independent noise has 1000 here.
    let long = Problem::new(Workload::window(1000).unwrap(), 100_000).unwrap();
    let error = WeightedTree::new(&long).row_norms().unwrap().mean();
    assert!(error < 230.0, "{error}");
}
