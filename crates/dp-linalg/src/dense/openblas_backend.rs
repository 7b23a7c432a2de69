//! The routines of [`super::backend::Routines`] by LAPACK, through the system's OpenBLAS.

use ndarray::{Array1, Array2, ArrayView2, CowArray, Ix2};
use ndarray_linalg::error::LinalgError;
use ndarray_linalg::{Cholesky, Diag, EighInto, JobSvd, QR, SVDDC, SolveTriangular, UPLO};

use super::backend::{Routines, ThinSvd};
use super::threads;
use super::{SymmetricEigen, mirror_lower};
use crate::error::{Error, Result};

pub(super) struct OpenBlas;

/// The matrix in row-major order, copied only when it is stored otherwise.
///
/// Every routine takes its arguments through here, so this is also where OpenBLAS is kept to one thread.
fn row_major<'a>(a: &'a ArrayView2<'_, f64>) -> CowArray<'a, f64, Ix2> {
    threads::pin();
    a.as_standard_layout()
}

fn failed(routine: &'static str) -> impl Fn(LinalgError) -> Error {
    move |_| Error::NoConvergence { routine }
}

impl Routines for OpenBlas {
    fn symmetric_eigen(&self, a: ArrayView2<f64>) -> Result<SymmetricEigen> {
        // ndarray-linalg reads the other triangle of a row-major matrix, so both have to hold the same numbers.
        let mut a = row_major(&a).into_owned();
        mirror_lower(&mut a);
        let (values, vectors) = a.eigh_into(UPLO::Lower).map_err(failed("symmetric eigendecomposition"))?;
        Ok(SymmetricEigen { values, vectors })
    }

    fn matmul(&self, a: ArrayView2<f64>, b: ArrayView2<f64>) -> Array2<f64> {
        threads::pin();
        a.dot(&b)
    }

    fn gram(&self, a: ArrayView2<f64>) -> Array2<f64> {
        self.matmul(a.t(), a)
    }

    fn singular_values(&self, a: ArrayView2<f64>) -> Result<Array1<f64>> {
        let (_, values, _) = row_major(&a).svddc(JobSvd::None).map_err(failed("singular values"))?;
        Ok(values)
    }

    /// Divide and conquer (`dgesdd`): the older `dgesvd` takes twenty times as long with vectors.
    fn thin_svd(&self, a: ArrayView2<f64>) -> Result<(ThinSvd, Array1<f64>)> {
        const ROUTINE: &str = "singular value decomposition";
        let (left, values, right) = row_major(&a).svddc(JobSvd::Some).map_err(failed(ROUTINE))?;
        match (left, right) {
            (Some(left), Some(right)) => Ok((ThinSvd { left, right: right.reversed_axes() }, values)),
            _ => Err(Error::NoConvergence { routine: ROUTINE }),
        }
    }

    fn upper_of_qr(&self, a: ArrayView2<f64>) -> Result<Array2<f64>> {
        let (_, upper) = row_major(&a).qr().map_err(failed("QR decomposition"))?;
        Ok(upper)
    }

    fn cholesky_lower(&self, a: ArrayView2<f64>) -> Option<Array2<f64>> {
        row_major(&a).cholesky(UPLO::Lower).ok()
    }

    fn solve_lower(&self, l: ArrayView2<f64>, b: ArrayView2<f64>) -> Result<Array2<f64>> {
        row_major(&l)
            .solve_triangular(UPLO::Lower, Diag::NonUnit, &row_major(&b))
            .map_err(failed("triangular solve"))
    }

    fn inverse_lower(&self, l: ArrayView2<f64>) -> Result<Array2<f64>> {
        self.solve_lower(l, Array2::eye(l.nrows()).view())
    }
}
