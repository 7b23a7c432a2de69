//! The noise in an optimizer's iterates, for any pair of strategy and optimizer.
//!
//! A strategy for a workload A puts `A⁻¹ B z` on the gradients. An optimizer whose iterates are `W ĝ` turns it into
//! `W A⁻¹ B z`, whichever workload the strategy was built for, so the mean squared error of the iterates is
//!
//! `E2 = Δ(C)² ‖W A⁻¹ B‖_F² / n`
//!
//! in units of `(κ/μ)²`. Momentum over 256 steps, one participation, rate 1: the best strategy for the momentum workload
//! beside strategies for prefix sums whose noise passes through the same momentum, from
//! `cargo run --release --package dp-ftrl --example momentum_errors`:
//!
//! | strategy | β = 0 | β = 0.5 | β = 0.9 | β = 0.95 | β = 0.99 |
//! |---|---|---|---|---|---|
//! | `optimal` for the momentum | 6.3727 | 19.033 | 256.12 | 746.67 | 6097.4 |
//! | `optimal` for the count | 6.3727 | 20.189 | 335.63 | 1061.6 | 9356.4 |
//! | `scaled-sqrt` for the count | 6.3838 | 20.348 | 341.70 | 1084.8 | 9592.8 |
//! | `sqrt` for the count | 7.1224 | 22.403 | 369.75 | 1171.8 | 10601 |
//! | `honaker-online` for the count | 21.624 | 67.901 | 1070.4 | 3262.6 | 26187 |
//! | `binary-tree` for the count | 36.035 | 111.53 | 1602.5 | 4552.0 | 28559 |
//!
//! Iterates grow like `1/(1-β)`, so only the errors within a column can be compared.

use dp_mechanisms::{Participation, Strategy, Workload};

use crate::error::Result;

/// The squared norms of the rows of `W A⁻¹ B`: the noise in iterate t has variance `σ²` times the t-th of them in each
/// coordinate.
///
/// # Complexity
/// O(n) steps of the two workloads over as many coordinates as C has rows: O(n²) for workloads of constant state.
///
/// # Errors
/// More steps than a strategy is written out for as a matrix.
pub fn squared_row_norms(strategy: &dyn Strategy, iterates: &Workload) -> Result<Vec<f64>> {
    let decoder = strategy.materialize()?.decoder;
    let (steps, rows) = decoder.dim();
    let mut to_gradients = strategy.workload().inverse_stream(steps, rows)?;
    let mut to_iterates = iterates.stream(steps, rows)?;
    let (mut release, mut gradient, mut iterate) = (vec![0.0; rows], vec![0.0; rows], vec![0.0; rows]);
    decoder
        .rows()
        .into_iter()
        .map(|row| {
            for (value, entry) in release.iter_mut().zip(row) {
                *value = *entry;
            }
            to_gradients.push(&release, &mut gradient)?;
            to_iterates.push(&gradient, &mut iterate)?;
            Ok(iterate.iter().map(|value| value * value).sum())
        })
        .collect()
}

/// `E2` of the iterates under a participation, in units of `(κ/μ)²`.
///
/// # Complexity
/// That of [`squared_row_norms`].
///
/// # Errors
/// As [`squared_row_norms`], and what the strategy's sensitivity refuses.
pub fn mean_squared_error(
    strategy: &dyn Strategy,
    iterates: &Workload,
    participation: Participation,
) -> Result<f64> {
    let norms = squared_row_norms(strategy, iterates)?;
    let mean = dp_linalg::norms::compensated_sum(norms.iter().copied()) / norms.len() as f64;
    Ok(strategy.sensitivity(participation)?.squared * mean)
}
