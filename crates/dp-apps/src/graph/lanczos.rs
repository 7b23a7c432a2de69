//! The ends of the spectrum of a symmetric matrix.

use ndarray::{Array1, Array2, ArrayView2};

use crate::error::Result;

/// Approximate eigenpairs of a symmetric matrix; those at both ends of the spectrum converge first.
pub(super) struct RitzPairs {
    /// Ascending.
    pub(super) values: Array1<f64>,
    /// One column per value.
    coefficients: Array2<f64>,
    /// One row per step of the iteration.
    basis: Array2<f64>,
}

impl RitzPairs {
    /// The approximate unit eigenvector of a value.
    pub(super) fn vector(&self, index: usize) -> Array1<f64> {
        self.basis.t().dot(&self.coefficients.column(index))
    }
}

/// The Lanczos iteration with full reorthogonalization, from a start vector that is not zero.
///
/// # Complexity
/// O(steps · V² + steps² · V).
pub(super) fn lanczos(matrix: ArrayView2<f64>, start: &Array1<f64>, steps: usize) -> Result<RitzPairs> {
    let size = matrix.nrows();
    let steps = steps.clamp(1, size);
    let mut basis = Array2::<f64>::zeros((steps, size));
    let mut tridiagonal = Array2::<f64>::zeros((steps, steps));
    basis.row_mut(0).assign(&(start / start.dot(start).sqrt()));
    let mut used = steps;
    for step in 0..steps {
        let mut next = matrix.dot(&basis.row(step));
        let scale = next.dot(&next).sqrt();
        tridiagonal[[step, step]] = next.dot(&basis.row(step));
        // Once is not enough: the first pass leaves rounding errors of the size of what it removed.
        for _ in 0..2 {
            let known = basis.slice(ndarray::s![..=step, ..]);
            next -= &known.t().dot(&known.dot(&next));
        }
        let norm = next.dot(&next).sqrt();
        if step + 1 == steps {
            break;
        }
        if norm <= 1e-12 * scale || norm == 0.0 {
            // The start vector lies in an invariant subspace, and its spectrum is complete.
            used = step + 1;
            break;
        }
        basis.row_mut(step + 1).assign(&(next / norm));
        tridiagonal[[step, step + 1]] = norm;
        tridiagonal[[step + 1, step]] = norm;
    }
    let eigen = dp_linalg::dense::symmetric_eigen(tridiagonal.slice(ndarray::s![..used, ..used]))?;
    let basis = basis.slice_move(ndarray::s![..used, ..]);
    Ok(RitzPairs { values: eigen.values, coefficients: eigen.vectors, basis })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_both_ends_of_a_known_spectrum() {
        // The second difference matrix has eigenvalues 2 - 2cos(kπ/(n+1)).
        let size = 60;
        let mut matrix = Array2::zeros((size, size));
        for i in 0..size {
            matrix[[i, i]] = 2.0;
            if i > 0 {
                matrix[[i, i - 1]] = -1.0;
                matrix[[i - 1, i]] = -1.0;
            }
        }
        let start = Array1::from_shape_fn(size, |i| 1.0 + ((i * i) as f64).sin());
        let expected = |k: usize| 2.0 - 2.0 * (k as f64 * std::f64::consts::PI / (size as f64 + 1.0)).cos();
        let pairs = lanczos(matrix.view(), &start, size).unwrap();
        for k in [1, 2, size - 1, size] {
            assert!((pairs.values[k - 1] - expected(k)).abs() < 1e-10, "{k}");
            let vector = pairs.vector(k - 1);
            let residual = matrix.dot(&vector) - &vector * pairs.values[k - 1];
            assert!(residual.dot(&residual).sqrt() < 1e-9);
        }
        // A third of the steps reach the ends, though not yet to rounding.
        let early = lanczos(matrix.view(), &start, 20).unwrap();
        assert!((early.values[19] - expected(size)).abs() < 1e-2);
    }

    #[test]
    fn stops_in_an_invariant_subspace() {
        let matrix = Array2::from_diag(&Array1::from(vec![3.0, -1.0, 5.0]));
        let pairs = lanczos(matrix.view(), &Array1::from(vec![1.0, 1.0, 0.0]), 3).unwrap();
        assert_eq!(pairs.values.len(), 2);
        assert!((pairs.values[0] + 1.0).abs() < 1e-12 && (pairs.values[1] - 3.0).abs() < 1e-12);
    }
}
