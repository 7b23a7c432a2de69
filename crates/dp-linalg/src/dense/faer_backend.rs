//! The routines of [`super::backend::Routines`] by faer.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{LltRegularization, cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::{matmul, triangular};
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size};
use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatMut, MatRef, Par, Spec};
use ndarray::{Array1, Array2, ArrayView2, CowArray, Ix2, ShapeBuilder};

use super::SymmetricEigen;
use super::backend::{Routines, ThinSvd};
use crate::error::{Error, Result};

/// Below this dimension handing work to other threads costs more than it saves.
const PARALLEL_FROM: usize = 192;

pub(super) struct Faer;

/// How many pieces the work on a large matrix is cut into. Always as many, however many threads there are to take them: where a
/// sum is cut decides its last bits, and a strategy must be planned alike on every machine that continues a state.
const PIECES: usize = 8;

/// rayon's threads for a matrix whose smaller side is `size`.
fn parallelism(size: usize) -> Par {
    if size >= PARALLEL_FROM { Par::rayon(PIECES) } else { Par::Seq }
}

/// The matrix in one piece, copied only when it is neither row-major nor column-major.
fn contiguous(a: ArrayView2<f64>) -> CowArray<f64, Ix2> {
    if a.is_standard_layout() || a.t().is_standard_layout() {
        a.into()
    } else {
        a.as_standard_layout().into_owned().into()
    }
}

/// faer's view of a matrix that [`contiguous`] has prepared.
fn view<'a>(a: &'a CowArray<f64, Ix2>) -> MatRef<'a, f64> {
    let (rows, columns) = a.dim();
    if let Some(row_major) = a.as_slice() {
        return MatRef::from_row_major_slice(row_major, rows, columns);
    }
    let column_major = a.as_slice_memory_order().expect("one piece by construction");
    MatRef::from_column_major_slice(column_major, rows, columns)
}

/// faer's view of an array that was just allocated in row-major order.
fn view_mut(a: &mut Array2<f64>) -> MatMut<'_, f64> {
    let (rows, columns) = a.dim();
    MatMut::from_row_major_slice_mut(a.as_slice_mut().expect("row-major by construction"), rows, columns)
}

fn column_major_zeros(rows: usize, columns: usize) -> Array2<f64> {
    Array2::zeros((rows, columns).f())
}

/// faer's view of an array that was just allocated in column-major order, which its decompositions prefer.
fn column_major_mut(a: &mut Array2<f64>) -> MatMut<'_, f64> {
    let (rows, columns) = a.dim();
    let slice = a.as_slice_memory_order_mut().expect("one piece by construction");
    MatMut::from_column_major_slice_mut(slice, rows, columns)
}

fn copy_of(a: ArrayView2<f64>) -> Mat<f64> {
    view(&contiguous(a)).to_owned()
}

fn to_array(diagonal: &Diag<f64>) -> Array1<f64> {
    diagonal.column_vector().iter().copied().collect()
}

impl Routines for Faer {
    fn symmetric_eigen(&self, a: ArrayView2<f64>) -> Result<SymmetricEigen> {
        let n = a.nrows();
        let par = parallelism(n);
        let a = contiguous(a);
        let mut values = Diag::zeros(n);
        let mut vectors = column_major_zeros(n, n);
        let scratch = self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, par, Spec::default());
        self_adjoint_evd(
            view(&a),
            values.as_mut(),
            Some(column_major_mut(&mut vectors)),
            par,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Spec::default(),
        )
        .map_err(|_| Error::NoConvergence { routine: "symmetric eigendecomposition" })?;
        Ok(SymmetricEigen { values: to_array(&values), vectors })
    }

    fn matmul(&self, a: ArrayView2<f64>, b: ArrayView2<f64>) -> Array2<f64> {
        let (a, b) = (contiguous(a), contiguous(b));
        let mut product = Array2::zeros((a.nrows(), b.ncols()));
        let par = parallelism(a.nrows().min(b.ncols()).min(a.ncols()));
        matmul(view_mut(&mut product), Accum::Replace, view(&a), view(&b), 1.0, par);
        product
    }

    fn gram(&self, a: ArrayView2<f64>) -> Array2<f64> {
        let a = contiguous(a);
        let n = a.ncols();
        let mut product = Array2::zeros((n, n));
        let a = view(&a);
        triangular::matmul(
            view_mut(&mut product),
            triangular::BlockStructure::TriangularLower,
            Accum::Replace,
            a.transpose(),
            triangular::BlockStructure::Rectangular,
            a,
            triangular::BlockStructure::Rectangular,
            1.0,
            parallelism(n.min(a.nrows())),
        );
        product
    }

    fn singular_values(&self, a: ArrayView2<f64>) -> Result<Array1<f64>> {
        let (rows, columns) = a.dim();
        let size = rows.min(columns);
        let par = parallelism(size);
        let a = contiguous(a);
        let mut values = Diag::zeros(size);
        let none = ComputeSvdVectors::No;
        let scratch = svd_scratch::<f64>(rows, columns, none, none, par, Spec::default());
        svd(
            view(&a),
            values.as_mut(),
            None,
            None,
            par,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Spec::default(),
        )
        .map_err(|_| Error::NoConvergence { routine: "singular values" })?;
        Ok(to_array(&values))
    }

    fn thin_svd(&self, a: ArrayView2<f64>) -> Result<(ThinSvd, Array1<f64>)> {
        let (rows, columns) = a.dim();
        let size = rows.min(columns);
        let par = parallelism(size);
        let a = contiguous(a);
        let mut values = Diag::zeros(size);
        let mut left = column_major_zeros(rows, size);
        let mut right = column_major_zeros(columns, size);
        let thin = ComputeSvdVectors::Thin;
        let scratch = svd_scratch::<f64>(rows, columns, thin, thin, par, Spec::default());
        svd(
            view(&a),
            values.as_mut(),
            Some(column_major_mut(&mut left)),
            Some(column_major_mut(&mut right)),
            par,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Spec::default(),
        )
        .map_err(|_| Error::NoConvergence { routine: "singular value decomposition" })?;
        Ok((ThinSvd { left, right }, to_array(&values)))
    }

    fn upper_of_qr(&self, a: ArrayView2<f64>) -> Result<Array2<f64>> {
        let (rows, columns) = a.dim();
        let size = rows.min(columns);
        let par = parallelism(size);
        let block = recommended_block_size::<f64>(rows, columns);
        let mut factors = copy_of(a);
        let mut coefficients = Mat::zeros(block, size);
        let scratch = qr_in_place_scratch::<f64>(rows, columns, block, par, Spec::default());
        qr_in_place(
            factors.as_mut(),
            coefficients.as_mut(),
            par,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Spec::default(),
        );
        let mut upper = Array2::zeros((size, columns));
        view_mut(&mut upper).copy_from(factors.get(..size, ..));
        Ok(upper)
    }

    fn cholesky_lower(&self, a: ArrayView2<f64>) -> Option<Array2<f64>> {
        let n = a.nrows();
        let par = parallelism(n);
        let mut factor = copy_of(a);
        let scratch = cholesky_in_place_scratch::<f64>(n, par, Spec::default());
        cholesky_in_place(
            factor.as_mut(),
            LltRegularization::default(),
            par,
            MemStack::new(&mut MemBuffer::new(scratch)),
            Spec::default(),
        )
        .ok()?;
        let mut lower = Array2::zeros((n, n));
        view_mut(&mut lower).copy_from(&factor);
        Some(lower)
    }

    fn solve_lower(&self, l: ArrayView2<f64>, b: ArrayView2<f64>) -> Result<Array2<f64>> {
        let l = contiguous(l);
        let mut solution = b.as_standard_layout().into_owned();
        let par = parallelism(l.nrows().min(b.ncols()));
        solve_lower_triangular_in_place(view(&l), view_mut(&mut solution), par);
        Ok(solution)
    }

    fn inverse_lower(&self, l: ArrayView2<f64>) -> Result<Array2<f64>> {
        let n = l.nrows();
        let l = contiguous(l);
        let mut inverse = Array2::zeros((n, n));
        invert_lower_triangular(view_mut(&mut inverse), view(&l), parallelism(n));
        Ok(inverse)
    }
}
