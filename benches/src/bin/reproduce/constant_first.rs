//! Henzinger, Upadhyay: *Constant Matters … Using Completely Bounded Norms*, the first version.

use std::f64::consts::PI;

use dp_linalg::norms;
use dp_mechanisms::budget::published;
use dp_mechanisms::{Workload, bounds};
use ndarray::Array2;

use crate::constant_later::{printed_average, printed_count};
use crate::lab::{largest, max_error};
use crate::row::{Row, at_least, at_least_formula, at_most_formula, figure, rounds_to};

/// The left-hand side of Theorem 1.
fn printed_lower_bound(steps: f64) -> f64 {
    (steps.ln().powi(2) - 2.0 * steps.ln() + 2.0).sqrt() / PI - 1.0 / steps
}

/// The test matrix of eq. (7): `1/(j - i)` off the diagonal.
fn test_matrix(steps: usize) -> Array2<f64> {
    let entry = |(i, j): (usize, usize)| if i == j { 0.0 } else { 1.0 / (j as f64 - i as f64) };
    Array2::from_shape_fn((steps, steps), entry)
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = counting();
    rows.extend(averaging());
    rows
}

fn counting() -> Vec<Row> {
    vec![
        Row::new("eq. (8)", "spectral norm of the test matrix, T = 256", at_most_formula(PI), |_| {
            Ok(norms::spectral(test_matrix(256).view())?)
        }),
        Row::new(
            "Theorem 1",
            "lower bound on γ_2 from the test matrix, T = 256",
            at_least_formula(printed_lower_bound(256.0)),
            |_| {
                let workload = Workload::count().materialize(256)?;
                Ok(bounds::haagerup(workload.view(), test_matrix(256).view())?.sqrt())
            },
        ),
        Row::new(
            "Theorem 1",
            "lower bound of Mathias on γ_2, T = 2^20",
            at_least_formula(printed_lower_bound(1_048_576.0)),
            |_| Ok(bounds::mathias_count(1 << 20).sqrt()),
        ),
        Row::new(
            "footnote 3",
            "lower bound of Mathias on γ_2, T = 1024, against 4 ln(T)/(5π)",
            at_least_formula(0.8 * 1024_f64.ln() / PI),
            |_| Ok(bounds::mathias_count(1024).sqrt()),
        ),
        Row::new(
            "Theorem 1",
            "‖L‖‖R‖ of the root, T = 256",
            at_most_formula(printed_count(256.0)),
            |_| max_error("sqrt", "count", 256).map(f64::sqrt),
        )
        .corrected(rounds_to("2.83105"), "as for the later version: a sum is bounded by a smaller integral"),
        Row::new(
            "abstract, Theorem 1",
            "gap of the bounds in the limit, 1 + 1/π",
            rounds_to("1.30"),
            |_| Ok(1.0 + 1.0 / PI),
        )
        .corrected(rounds_to("1.32"), "1 + 1/π = 1.3183"),
        Row::new(
            "§1.1",
            "γ̂(4) with sin((2j-1)π/T) as printed, against 2 ln(4)/π",
            at_least_formula(2.0 * 4_f64.ln() / PI),
            |_| Ok((1..=4).map(|j| 1.0 / (f64::from(2 * j - 1) * PI / 4.0).sin()).sum::<f64>().abs() / 4.0),
        )
        .corrected(
            at_most_formula(1e-12),
            "the terms cancel in pairs; the argument is (2j-1)π/(2T), which makes every term positive",
        ),
        Row::new("§1.1", "γ̂(T) - 2 ln(T)/π, least for T ≤ 1024", at_least("0"), |_| {
            let difference = |steps: usize| bounds::mathias_gamma(steps) - 2.0 * (steps as f64).ln() / PI;
            Ok(-largest((1..=1024).map(|steps| -difference(steps)))?)
        }),
        Row::new(
            "§1, Figure 1",
            "largest standard deviation of the tree, T = 2^20, ε = 0.5, δ = 1e-8",
            at_least("250").in_a_figure(),
            |_| {
                Ok(published::constant_matters(0.5, 1e-8)
                    * max_error("binary-tree", "count", 1 << 20)?.sqrt())
            },
        ),
    ]
}

fn averaging() -> Vec<Row> {
    vec![
        Row::new(
            "Theorem 2",
            "lower bound on γ_2 of the average, T = 256 (first release)",
            at_least("1"),
            |_| Ok(bounds::max(&Workload::average(), 256)?.value.sqrt()),
        ),
        Row::new(
            "Theorem 2, eq. (4)",
            "the bound π²T(T+1)/(3(2T+1)²) for T = 1e6, on a norm of at least 1",
            at_least("1"),
            |_| Ok(printed_average(1e6) / 2.0),
        )
        .corrected(
            rounds_to("0.822"),
            "a factor 2 is missing: Theorem 3 gives π²·2T(T+1)/(3(2T+1)²), which tends to π²/6",
        ),
        Row::new("after Theorem 2", "π²/√6 - 1", rounds_to("0.64"), |_| {
            Ok(PI * PI / 6.0_f64.sqrt() - 1.0)
        })
        .corrected(rounds_to("3.03"), "π²/6 - 1 = 0.645 is meant"),
        Row::new(
            "Figure 2",
            "upper minus lower bound for the average, T = 1000",
            figure("0.64", 0.01),
            |_| Ok(printed_average(1000.0) - bounds::max(&Workload::average(), 1000)?.value.sqrt()),
        ),
    ]
}
