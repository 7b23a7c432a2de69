//! Golden values that were computed independently.

use dp_linalg::norms;
use dp_mechanisms::{Budget, Method, Participation, Problem};
use dp_tests::{GoldenError, GoldenGaussian, GoldenSchatten, assert_close, golden};

#[test]
fn errors_of_strategies() {
    let rows: Vec<GoldenError> = golden("errors");
    assert_eq!(rows.len(), 47);
    for row in rows {
        let problem = Problem::new(row.workload.parse().unwrap(), row.steps).unwrap();
        let strategy = row.strategy.parse::<Method>().unwrap().build(&problem).unwrap();
        let sensitivity = strategy.sensitivity(Participation::Single).unwrap().squared;
        let norms = strategy.row_norms().unwrap();
        let context = format!("{row:?}");
        // What a separately computed inverse really applies is charged for, so a sensitivity may be above, never below.
        assert!(sensitivity >= row.sensitivity_squared * (1.0 - 1e-11), "{context}: {sensitivity}");
        // The bound on the rounding of long transforms grows with their length.
        assert_close(sensitivity, row.sensitivity_squared, 1e-12 * row.steps.max(1000) as f64, &context);
        assert_close(norms.mean() * row.sensitivity_squared, row.mean_squared_error, 1e-11, &context);
        assert_close(norms.max() * row.sensitivity_squared, row.max_squared_error, 1e-11, &context);
    }
}

#[test]
fn lower_bounds_of_the_count() {
    let rows: Vec<GoldenSchatten> = golden("schatten");
    assert_eq!(rows.len(), 12);
    for row in rows {
        let bound = (norms::count_schatten1(row.steps) / row.steps as f64).powi(2);
        assert_close(bound, row.lower_bound, 1e-12, &format!("{row:?}"));
    }
}

#[test]
fn calibration_of_the_gaussian_mechanism() {
    let rows: Vec<GoldenGaussian> = golden("gaussian");
    assert_eq!(rows.len(), 5);
    for row in rows {
        let budget = Budget::approximate(row.epsilon, row.delta).unwrap();
        assert_close(budget.mu(), row.mu, 1e-10, &format!("{row:?}"));
        assert_close(budget.unit_sigma(), row.sigma, 1e-10, &format!("{row:?}"));
    }
}
