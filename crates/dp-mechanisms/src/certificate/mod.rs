//! Lower bounds on what any factorization can reach, proved by a point of the dual program.
//!
//! For every positive vector v of column weights, with `D = diag(v)`,
//!
//! `n · min E2 ≥ ‖A D^{1/2}‖_*² / Σ v`
//!
//! (the sum of singular values, squared). It is the best multiple of v in `tr(D (2 X(v) - I))`, and tight at the
//! optimum. A vector of any origin proves a bound; only its quality depends on where it comes from.
//!
//! [`dual_certificate`] serves any workload through a dense matrix. Where the *inverse* of the workload is
//! bidiagonal (count, average, exponential decay) [`bidiagonal_bound`] finds nearly optimal weights and their bound
//! without any matrix, at millions of steps.

mod bidiagonal;

use ndarray::{ArrayView2, Axis};

pub use bidiagonal::{MeanBound, bidiagonal_bound, bidiagonal_certificate};

use crate::error::{Error, Result, check_positive};

/// The lower bound `‖A D^{1/2}‖_*² / (n Σ v)` on E2 of every strategy for the workload matrix A.
///
/// # Complexity
/// The singular values of a dense matrix, O(n³).
///
/// # Errors
/// Weights that are not as many as columns, or not all finite and positive.
///
/// # Example
/// ```
/// use dp_mechanisms::{Workload, certificate::dual_certificate};
/// let count = Workload::count().materialize(2)?;
/// // Equal weights give the bound by the Schatten norm: σ₁ + σ₂ = √5.
/// assert!((dual_certificate(count.view(), &[1.0, 1.0])? - 1.25).abs() < 1e-12);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn dual_certificate(workload: ArrayView2<'_, f64>, v: &[f64]) -> Result<f64> {
    check_weights(v, workload.ncols())?;
    let mut scaled = workload.to_owned();
    for (mut column, weight) in scaled.axis_iter_mut(Axis(1)).zip(v) {
        column *= weight.sqrt();
    }
    let nuclear = dp_linalg::norms::schatten1(scaled.view())?;
    Ok(nuclear * nuclear / (workload.nrows() as f64 * v.iter().sum::<f64>()))
}

/// Refuses anything but one finite positive weight per column.
fn check_weights(v: &[f64], columns: usize) -> Result<()> {
    if v.len() != columns {
        return Err(Error::Dimension { what: "the column weights", expected: columns, actual: v.len() });
    }
    v.iter().try_for_each(|weight| check_positive("column weight", *weight).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Both ways to the bound agree, for any weights and every workload that has both.
        #[test]
        fn the_bidiagonal_bound_is_the_dense_one(
            logarithms in prop::collection::vec(-3.0_f64..3.0, 1..40),
        ) {
            let v: Vec<f64> = logarithms.iter().map(|x| x.exp()).collect();
            for text in ["count", "average", "exp:1", "exp:1.3"] {
                let workload: Workload = text.parse().unwrap();
                let dense = dual_certificate(workload.materialize(v.len()).unwrap().view(), &v).unwrap();
                let bound = bidiagonal_certificate(&workload, &v).unwrap().unwrap();
                prop_assert!((bound / dense - 1.0).abs() < 1e-8, "{text}: {bound} {dense}");
                prop_assert!(bound <= dense * (1.0 + 1e-12), "{text}: {bound} {dense}");
            }
        }
    }

    #[test]
    fn bad_weights_are_refused() {
        let count = Workload::count();
        let matrix = count.materialize(3).unwrap();
        for v in [vec![1.0, 1.0], vec![1.0, 0.0, 1.0], vec![1.0, f64::NAN, 1.0], vec![-1.0, 1.0, 1.0]] {
            assert!(dual_certificate(matrix.view(), &v).is_err());
            if v.len() == 3 {
                assert!(bidiagonal_certificate(&count, &v).is_err());
            }
        }
        assert!(bidiagonal_certificate(&Workload::window(3).unwrap(), &[1.0, 1.0]).unwrap().is_none());
    }

    #[test]
    fn the_bound_reaches_the_certified_optimum() {
        // Values of the dense program, computed elsewhere to a gap of 1e-9.
        let rows = [
            ("count", 64, 4.409_397_205),
            ("count", 256, 6.372_668_143),
            ("average", 128, 0.022_987_684_89),
            ("exp:1.1", 128, 2.156_712_597),
        ];
        for (text, steps, optimum) in rows {
            let bound = bidiagonal_bound(&text.parse().unwrap(), steps).unwrap().unwrap();
            let ratio = bound.lower_bound / optimum;
            assert!((1.0 - 1e-5..1.0 + 1e-9).contains(&ratio), "{text} at {steps}: {ratio}");
        }
        // At 4096 steps the optimum lies between 11.49055 and 11.49068.
        let bound = bidiagonal_bound(&Workload::count(), 4096).unwrap().unwrap().lower_bound;
        assert!((11.4902..11.49068).contains(&bound), "{bound}");
        assert!(bidiagonal_bound(&"poly:1".parse().unwrap(), 16).unwrap().is_none());
    }
}
