//! Lower-triangular Toeplitz operators: all at once ([`LowerToeplitz`]), a block of steps at a time ([`BlockToeplitz`]) or
//! one step at a time ([`OnlineToeplitz`], [`BandedStream`]).
//!
//! The matrix with entries `T[i,j] = c_{i-j}` for `i ≥ j` is multiplication by the power series `c(x)`, cut after n
//! coefficients; products, inverses and roots of such matrices are those of their series.

mod banded;
mod blocks;
mod online;

use ndarray::{Array2, ArrayView2};

pub use banded::BandedStream;
pub use blocks::{BlockKernel, BlockToeplitz};
pub use online::OnlineToeplitz;

use crate::error::check_finite;
use crate::{Error, Result, fft, series};

/// The n×n lower-triangular Toeplitz matrix with given first column, held as its n coefficients.
///
/// ```
/// use dp_linalg::toeplitz::LowerToeplitz;
/// let prefix_sum = LowerToeplitz::new(vec![1.0; 3])?;
/// assert_eq!(prefix_sum.apply(&[1.0, 2.0, 3.0])?, [1.0, 3.0, 6.0]);
/// assert_eq!(prefix_sum.sqrt()?.coefficients(), [1.0, 0.5, 0.375]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LowerToeplitz {
    coefficients: Vec<f64>,
}

impl LowerToeplitz {
    /// The operator with these coefficients.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] or [`Error::NonFinite`].
    pub fn new(coefficients: Vec<f64>) -> Result<Self> {
        check_finite("Toeplitz coefficients", &coefficients)?;
        Ok(Self { coefficients })
    }

    /// The first column `c_0 … c_{n-1}`.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// The number of rows, n; never 0.
    #[allow(clippy::len_without_is_empty, reason = "an operator of size 0 cannot be made")]
    pub fn len(&self) -> usize {
        self.coefficients.len()
    }

    /// `T x`.
    ///
    /// **Complexity** O(n log n).
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] unless `x` has length n.
    pub fn apply(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.check_length(x.len())?;
        Ok(fft::convolve_truncated(&self.coefficients, x, self.len()))
    }

    /// `T X`, in parallel over the columns of X.
    ///
    /// **Complexity** O(d n log n) for d columns.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] unless `x` has n rows.
    pub fn apply_columns(&self, x: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.check_length(x.nrows())?;
        Ok(fft::convolve_columns(&self.coefficients, x, self.len()))
    }

    /// `Tᵀ x`: entry j is `Σ_i c_i x_{j+i}`.
    ///
    /// **Complexity** O(n log n).
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] unless `x` has length n.
    pub fn apply_transpose(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.check_length(x.len())?;
        Ok(fft::correlate(x, &self.coefficients))
    }

    /// `T⁻¹ y`.
    ///
    /// **Complexity** O(n log n). For many right-hand sides keep [`LowerToeplitz::inverse`].
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] unless `y` has length n; [`Error::NotInvertible`] if `c_0 = 0`; [`Error::NonFinite`] if `y` is
    /// not finite or the solution overflows.
    pub fn solve(&self, y: &[f64]) -> Result<Vec<f64>> {
        self.check_length(y.len())?;
        series::divide(y, &self.coefficients, self.len())
    }

    /// `T⁻¹ Y`, in parallel over the columns of Y.
    ///
    /// **Complexity** O(d n log n) for d columns.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] unless `y` has n rows; otherwise as [`LowerToeplitz::inverse`].
    pub fn solve_columns(&self, y: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.check_length(y.nrows())?;
        self.inverse()?.apply_columns(y)
    }

    /// `T⁻¹`, again lower-triangular Toeplitz.
    ///
    /// # Errors
    ///
    /// As [`series::inverse`].
    pub fn inverse(&self) -> Result<Self> {
        Ok(Self { coefficients: series::inverse(&self.coefficients, self.len())? })
    }

    /// The square root with positive diagonal, again lower-triangular Toeplitz.
    ///
    /// # Errors
    ///
    /// As [`series::sqrt`].
    pub fn sqrt(&self) -> Result<Self> {
        Ok(Self { coefficients: series::sqrt(&self.coefficients, self.len())? })
    }

    /// The squared norm of every column: column j is `Σ_{k < n-j} c_k²`.
    ///
    /// **Complexity** O(n).
    pub fn column_squared_norms(&self) -> Vec<f64> {
        let mut norms = self.row_squared_norms();
        norms.reverse();
        norms
    }

    /// The squared norm of every row: row t (from 0) is `Σ_{k ≤ t} c_k²`.
    ///
    /// **Complexity** O(n).
    pub fn row_squared_norms(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let mut lost = 0.0;
        self.coefficients
            .iter()
            .map(|c| {
                // Kahan: terms are non-negative, so the running sum is never smaller than the term for long.
                let term = c * c - lost;
                let next = sum + term;
                lost = (next - sum) - term;
                sum = next;
                sum
            })
            .collect()
    }

    /// The matrix itself, for tests and small sizes.
    pub fn to_dense(&self) -> Array2<f64> {
        let n = self.len();
        Array2::from_shape_fn((n, n), |(i, j)| if i >= j { self.coefficients[i - j] } else { 0.0 })
    }

    fn check_length(&self, actual: usize) -> Result<()> {
        if actual == self.len() {
            return Ok(());
        }
        Err(Error::Dimension { what: "operand of a Toeplitz operator", expected: self.len(), actual })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array1, ArrayView1, Axis};
    use proptest::prelude::*;

    fn assert_close(actual: &[f64], expected: ArrayView1<'_, f64>) {
        assert_eq!(actual.len(), expected.len());
        for (x, y) in actual.iter().zip(expected) {
            assert!((x - y).abs() <= 1e-12 * (1.0 + y.abs()), "{x} against {y}");
        }
    }

    /// A dominant diagonal, so that inverse and root stay bounded, and an operand of the same length.
    fn operator_and_operand() -> impl Strategy<Value = (LowerToeplitz, Vec<f64>)> {
        (1_usize..160).prop_flat_map(|n| {
            let values = || prop::collection::vec(-1.0..1.0_f64, n);
            (values(), values()).prop_map(move |(mut c, x)| {
                for value in &mut c {
                    *value /= n as f64;
                }
                c[0] += 1.5;
                (LowerToeplitz::new(c).unwrap(), x)
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_operation_is_that_of_the_dense_matrix((t, x) in operator_and_operand()) {
            let dense = t.to_dense();
            let vector = Array1::from(x.clone());
            assert_close(&t.apply(&x).unwrap(), dense.dot(&vector).view());
            assert_close(&t.apply_transpose(&x).unwrap(), dense.t().dot(&vector).view());
            assert_close(&t.apply(&t.solve(&x).unwrap()).unwrap(), vector.view());
            let columns = vector.view().insert_axis(Axis(1));
            assert_close(&t.apply_columns(columns).unwrap().column(0).to_vec(), dense.dot(&vector).view());
            assert_close(&t.solve_columns(columns).unwrap().column(0).to_vec(), Array1::from(t.solve(&x).unwrap()).view());

            let root = t.sqrt().unwrap().to_dense();
            let identity = t.inverse().unwrap().to_dense().dot(&dense);
            for ((square, product), (&entry, (i, j))) in root
                .dot(&root)
                .iter()
                .zip(&identity)
                .zip(dense.iter().zip((0..t.len()).flat_map(|i| (0..t.len()).map(move |j| (i, j)))))
            {
                prop_assert!((square - entry).abs() < 1e-12);
                prop_assert!((product - f64::from(u8::from(i == j))).abs() < 1e-12);
            }

            let squares = dense.mapv(|entry| entry * entry);
            assert_close(&t.column_squared_norms(), squares.sum_axis(Axis(0)).view());
            assert_close(&t.row_squared_norms(), squares.sum_axis(Axis(1)).view());
        }
    }

    #[test]
    fn wrong_inputs_are_refused() {
        assert!(matches!(LowerToeplitz::new(vec![]), Err(Error::Empty { .. })));
        assert!(matches!(LowerToeplitz::new(vec![1.0, f64::NAN]), Err(Error::NonFinite { index: 1, .. })));
        let t = LowerToeplitz::new(vec![0.0, 1.0]).unwrap();
        assert!(matches!(t.apply(&[1.0]), Err(Error::Dimension { expected: 2, actual: 1, .. })));
        assert!(matches!(t.apply_transpose(&[1.0]), Err(Error::Dimension { .. })));
        assert!(matches!(t.apply_columns(Array2::zeros((3, 1)).view()), Err(Error::Dimension { .. })));
        assert!(matches!(t.solve_columns(Array2::zeros((3, 1)).view()), Err(Error::Dimension { .. })));
        assert!(matches!(t.solve(&[1.0, 1.0]), Err(Error::NotInvertible { .. })));
        assert!(matches!(t.inverse(), Err(Error::NotInvertible { .. })));
        assert!(matches!(t.sqrt(), Err(Error::NoSquareRoot { .. })));
    }
}
