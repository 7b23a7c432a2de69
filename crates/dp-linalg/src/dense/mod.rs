//! Dense linear algebra behind one backend: eigendecompositions, square roots, triangular factors and least squares.
//!
//! This is the only module that knows a linear-algebra library. [`Backend`] names the ones that were compiled in:
//! `faer` (pure Rust, the default) and `openblas` (LAPACK through the system's OpenBLAS, preferred when both are
//! enabled). Everything takes and returns [`ndarray`] types and means the same on both.
//!
//! The cores belong to rayon: faer's parallelism is rayon's, and OpenBLAS is kept to one thread.

mod backend;
#[cfg(feature = "faer")]
mod faer_backend;
#[cfg(feature = "openblas")]
mod openblas_backend;
#[cfg(feature = "openblas")]
mod threads;

#[cfg(test)]
mod tests;

use ndarray::{Array1, Array2, ArrayView2, Axis, s};

use crate::error::{Error, Result, check_length};

pub use backend::{Backend, available_backends};
use backend::{ThinSvd, preferred};

/// Negative eigenvalues of a positive semidefinite matrix down to this many `n ε max|λ|` are rounding and count as zero.
const CLAMP: f64 = 8.0;

/// The decomposition `a = V diag(λ) Vᵀ` of a symmetric matrix.
#[derive(Debug, Clone)]
pub struct SymmetricEigen {
    /// The eigenvalues λ, ascending.
    pub values: Array1<f64>,
    /// The orthonormal eigenvectors V, one per column, in the order of the values.
    pub vectors: Array2<f64>,
}

/// Eigenvalues and eigenvectors of a symmetric matrix, of which only the lower triangle is read.
///
/// **Complexity** O(n³), divide and conquer with faer.
///
/// # Errors
/// The matrix is empty, not square or not finite, or the backend did not converge.
///
/// # Example
/// ```
/// use ndarray::array;
/// let eigen = dp_linalg::dense::symmetric_eigen(array![[2.0, 1.0], [1.0, 2.0]].view())?;
/// assert!((eigen.values[0] - 1.0).abs() < 1e-14 && (eigen.values[1] - 3.0).abs() < 1e-14);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn symmetric_eigen(a: ArrayView2<f64>) -> Result<SymmetricEigen> {
    check_square("symmetric matrix", a)?;
    preferred().symmetric_eigen(a)
}

/// [`symmetric_eigen`] with a backend of the caller's choice, for side-by-side measurements.
///
/// # Errors
/// As [`symmetric_eigen`].
pub fn symmetric_eigen_with(backend: Backend, a: ArrayView2<f64>) -> Result<SymmetricEigen> {
    check_square("symmetric matrix", a)?;
    backend.routines().symmetric_eigen(a)
}

/// `V diag(f(λ)) Vᵀ`, the function `f` of the symmetric matrix whose decomposition is given. Exactly symmetric.
///
/// **Complexity** one product of n×n matrices, half of one where f is non-negative.
pub fn symmetric_function(eigen: &SymmetricEigen, f: impl Fn(f64) -> f64) -> Array2<f64> {
    let values = eigen.values.mapv(f);
    if values.iter().all(|&value| value >= 0.0) {
        // W Wᵀ with W = V diag(√f) needs one triangle only.
        let scaled = &eigen.vectors * &values.mapv(f64::sqrt);
        return gram(scaled.t());
    }
    let scaled = &eigen.vectors * &values;
    let mut product = preferred().matmul(scaled.view(), eigen.vectors.t());
    mirror_lower(&mut product);
    product
}

/// The positive semidefinite square root of a symmetric positive semidefinite matrix (its lower triangle is read).
///
/// Eigenvalues in `[-8 n ε max|λ|, 0)` are rounding noise of a semidefinite matrix and count as zero.
///
/// **Complexity** O(n³).
///
/// # Errors
/// The matrix is empty, not square or not finite, or has an eigenvalue below that tolerance.
pub fn symmetric_sqrt(a: ArrayView2<f64>) -> Result<Array2<f64>> {
    let eigen = symmetric_eigen(a)?;
    let largest = eigen.values.fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let smallest = eigen.values[0];
    if smallest < -CLAMP * a.nrows() as f64 * f64::EPSILON * largest {
        return Err(Error::NotPositiveDefinite { smallest });
    }
    Ok(symmetric_function(&eigen, |value| value.max(0.0).sqrt()))
}

/// The lower-triangular `L` with `L Lᵀ = a aᵀ` and a non-negative diagonal: `a` (m×k) rotated from the right.
///
/// The diagonal is positive where `a` has full row rank; `L` is m×m for every shape of `a`, and exactly zero above its
/// diagonal.
///
/// **Complexity** O(m² k), by Householder reflections: nothing is squared, so no accuracy is lost.
///
/// # Errors
/// The matrix is empty or not finite.
pub fn lq_lower(a: ArrayView2<f64>) -> Result<Array2<f64>> {
    check_matrix("matrix", a)?;
    let upper = preferred().upper_of_qr(a.t())?;
    let mut lower = Array2::zeros((a.nrows(), a.nrows()));
    for (k, row) in upper.outer_iter().enumerate() {
        let sign = if row[k] < 0.0 { -1.0 } else { 1.0 };
        lower.slice_mut(s![k.., k]).assign(&(&row.slice(s![k..]) * sign));
    }
    Ok(lower)
}

/// The lower-triangular `C` with `Cᵀ C = x` and a positive diagonal, for a symmetric positive definite `x`.
///
/// Mind the side. Cholesky's factor has `L Lᵀ = x`; here the squared norm of *column* j of `C` is `x[j,j]`. With `J` the
/// reversal, `J x J = L Lᵀ` gives `C = J Lᵀ J`. The lower triangle of `x` is read.
///
/// **Complexity** O(n³/3).
///
/// # Errors
/// The matrix is empty, not square, not finite or not positive definite.
///
/// # Example
/// ```
/// use ndarray::array;
/// let c = dp_linalg::dense::lower_root(array![[5.0, 6.0], [6.0, 9.0]].view())?;
/// assert!((&c - &array![[1.0, 0.0], [2.0, 3.0]]).iter().all(|x| x.abs() < 1e-15));
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn lower_root(x: ArrayView2<f64>) -> Result<Array2<f64>> {
    check_square("positive definite matrix", x)?;
    // Transposed as well, so that the triangle the factorization reads is the lower one of `x`.
    let reversed = x.slice(s![..;-1, ..;-1]).reversed_axes();
    match preferred().cholesky_lower(reversed) {
        Some(lower) => Ok(lower_triangle(lower.slice(s![..;-1, ..;-1]).reversed_axes())),
        None => Err(Error::NotPositiveDefinite { smallest: symmetric_eigen(x)?.values[0] }),
    }
}

/// The solution `X` of `l X = b` for a lower-triangular `l`; what stands above the diagonal of `l` is not read.
///
/// **Complexity** O(n² k) for k right-hand sides.
///
/// # Errors
/// A matrix is empty, has the wrong shape or is not finite, or the diagonal of `l` has a zero.
pub fn solve_lower(l: ArrayView2<f64>, b: ArrayView2<f64>) -> Result<Array2<f64>> {
    check_pivots(l)?;
    check_matrix("right-hand side", b)?;
    check_length("right-hand side", l.nrows(), b.nrows())?;
    preferred().solve_lower(l, b)
}

/// The inverse of a lower-triangular matrix, exactly lower triangular; what stands above the diagonal is not read.
///
/// **Complexity** O(n³/3) with faer, O(n³) with OpenBLAS.
///
/// # Errors
/// The matrix is empty, not square or not finite, or its diagonal has a zero.
pub fn inverse_lower(l: ArrayView2<f64>) -> Result<Array2<f64>> {
    check_pivots(l)?;
    Ok(lower_triangle(preferred().inverse_lower(l)?.view()))
}

/// The product `a b`.
///
/// **Complexity** O(m k n), in parallel under rayon with faer.
///
/// # Panics
/// When the inner dimensions differ, like every product in [`ndarray`].
pub fn matmul(a: ArrayView2<f64>, b: ArrayView2<f64>) -> Array2<f64> {
    assert_eq!(a.ncols(), b.nrows(), "the inner dimensions of a product must agree");
    preferred().matmul(a, b)
}

/// [`matmul`] with a backend of the caller's choice, for side-by-side measurements.
///
/// # Panics
/// As [`matmul`].
pub fn matmul_with(backend: Backend, a: ArrayView2<f64>, b: ArrayView2<f64>) -> Array2<f64> {
    assert_eq!(a.ncols(), b.nrows(), "the inner dimensions of a product must agree");
    backend.routines().matmul(a, b)
}

/// The Gram matrix `aᵀ a` of the columns of `a`, exactly symmetric.
///
/// **Complexity** O(m n²), one triangle of it with faer.
pub fn gram(a: ArrayView2<f64>) -> Array2<f64> {
    let mut product = preferred().gram(a);
    mirror_lower(&mut product);
    product
}

/// The singular values of `a`, descending.
///
/// **Complexity** O(m n min(m, n)).
///
/// # Errors
/// The matrix is empty or not finite, or the backend did not converge.
pub fn singular_values(a: ArrayView2<f64>) -> Result<Array1<f64>> {
    check_matrix("matrix", a)?;
    preferred().singular_values(a)
}

/// [`singular_values`] with a backend of the caller's choice, for side-by-side measurements.
///
/// # Errors
/// As [`singular_values`].
pub fn singular_values_with(backend: Backend, a: ArrayView2<f64>) -> Result<Array1<f64>> {
    check_matrix("matrix", a)?;
    backend.routines().singular_values(a)
}

/// The eigendecomposition of `(aᵀa)^{1/2}` for a matrix with at least as many rows as columns: the singular values of `a`,
/// ascending, and its right singular vectors.
///
/// The values are accurate to a few `ε σ_max`, where the roots of the eigenvalues of [`gram`] are off by up to `ε^{1/2} σ_max`.
///
/// **Complexity** O(m n²), several times that of [`symmetric_eigen`].
///
/// # Errors
/// The matrix is empty, wider than high or not finite, or the backend did not converge.
pub fn gram_root_eigen(a: ArrayView2<f64>) -> Result<SymmetricEigen> {
    check_matrix("matrix", a)?;
    check_length("rows beyond the columns", 0, a.ncols().saturating_sub(a.nrows()))?;
    let (ThinSvd { right, .. }, values) = preferred().thin_svd(a)?;
    Ok(SymmetricEigen {
        values: values.slice(s![..;-1]).to_owned(),
        vectors: right.slice(s![.., ..;-1]).as_standard_layout().into_owned(),
    })
}

/// The Moore-Penrose inverse of `a`; singular values up to `max(m, n) ε σ_max` count as zero.
///
/// **Complexity** O(m n min(m, n)).
///
/// # Errors
/// The matrix is empty or not finite, or the backend did not converge.
pub fn pseudo_inverse(a: ArrayView2<f64>) -> Result<Array2<f64>> {
    check_matrix("matrix", a)?;
    let ThinSvd { left, right } = scaled_svd(a)?;
    Ok(preferred().matmul(right.view(), left.t()))
}

/// The `X` of least Frobenius norm among those that minimize `‖a X - b‖_F`, with the rank rule of [`pseudo_inverse`].
///
/// **Complexity** O(m n min(m, n)) and O(m n) for each column of `b`.
///
/// # Errors
/// A matrix is empty, has the wrong shape or is not finite, or the backend did not converge.
pub fn least_squares(a: ArrayView2<f64>, b: ArrayView2<f64>) -> Result<Array2<f64>> {
    check_matrix("matrix", a)?;
    check_matrix("right-hand side", b)?;
    check_length("right-hand side", a.nrows(), b.nrows())?;
    let ThinSvd { left, right } = scaled_svd(a)?;
    let projected = preferred().matmul(left.t(), b);
    Ok(preferred().matmul(right.view(), projected.view()))
}

/// The factors `U` and `V Σ⁺` of the pseudo-inverse, without the directions whose singular value is rounding.
fn scaled_svd(a: ArrayView2<f64>) -> Result<ThinSvd> {
    let (svd, values) = preferred().thin_svd(a)?;
    let largest = values.first().copied().unwrap_or(0.0);
    let cutoff = largest * f64::EPSILON * a.nrows().max(a.ncols()) as f64;
    let rank = values.iter().take_while(|&&value| value > cutoff).count();
    let left = svd.left.slice(s![.., ..rank]).to_owned();
    let mut right = svd.right.slice(s![.., ..rank]).to_owned();
    for (mut column, value) in right.axis_iter_mut(Axis(1)).zip(&values) {
        column /= *value;
    }
    Ok(ThinSvd { left, right })
}

/// A copy of the lower triangle in row-major order, exactly zero above it.
fn lower_triangle(a: ArrayView2<f64>) -> Array2<f64> {
    Array2::from_shape_fn(a.raw_dim(), |(i, j)| if j <= i { a[[i, j]] } else { 0.0 })
}

/// Makes a matrix exactly symmetric by repeating its lower triangle above the diagonal.
fn mirror_lower(a: &mut Array2<f64>) {
    for i in 0..a.nrows() {
        for j in 0..i {
            a[[j, i]] = a[[i, j]];
        }
    }
}

fn check_matrix(what: &'static str, a: ArrayView2<f64>) -> Result<()> {
    if a.is_empty() {
        return Err(Error::Empty { what });
    }
    match a.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        Some((index, &value)) => Err(Error::NonFinite { what, index, value }),
        None => Ok(()),
    }
}

fn check_square(what: &'static str, a: ArrayView2<f64>) -> Result<()> {
    check_length(what, a.nrows(), a.ncols())?;
    check_matrix(what, a)
}

/// A square matrix without a zero on its diagonal.
fn check_pivots(l: ArrayView2<f64>) -> Result<()> {
    check_square("triangular matrix", l)?;
    match l.diag().iter().position(|&pivot| pivot == 0.0) {
        Some(index) => Err(Error::Singular { index, value: l[[index, index]] }),
        None => Ok(()),
    }
}
