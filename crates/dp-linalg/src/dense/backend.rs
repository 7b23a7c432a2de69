//! The backends that were compiled in, and the few routines each of them supplies.

use ndarray::{Array1, Array2, ArrayView2};

use super::SymmetricEigen;
use crate::error::Result;

#[cfg(not(any(feature = "faer", feature = "openblas")))]
compile_error!("dp-linalg needs a dense backend: enable the feature `faer` (default) or `openblas`");

/// A linear-algebra library. Only those that were compiled in exist, so an absent one cannot be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// LAPACK through the system's OpenBLAS.
    #[cfg(feature = "openblas")]
    OpenBlas,
    /// faer, in pure Rust.
    #[cfg(feature = "faer")]
    Faer,
}

const AVAILABLE: &[Backend] = &[
    #[cfg(feature = "openblas")]
    Backend::OpenBlas,
    #[cfg(feature = "faer")]
    Backend::Faer,
];

/// The backends that were compiled in; the first one serves every call that does not name another.
pub fn available_backends() -> &'static [Backend] {
    AVAILABLE
}

impl Backend {
    pub(super) fn routines(self) -> &'static dyn Routines {
        match self {
            #[cfg(feature = "openblas")]
            Backend::OpenBlas => &super::openblas_backend::OpenBlas,
            #[cfg(feature = "faer")]
            Backend::Faer => &super::faer_backend::Faer,
        }
    }
}

pub(super) fn preferred() -> &'static dyn Routines {
    AVAILABLE[0].routines()
}

/// The orthonormal factors of `a = U diag(σ) Vᵀ`, min(m, n) columns each.
pub(super) struct ThinSvd {
    pub(super) left: Array2<f64>,
    pub(super) right: Array2<f64>,
}

/// What a backend supplies. Arguments are non-empty, finite and of matching shape: the callers have checked.
pub(super) trait Routines: Sync {
    /// Reads the lower triangle; values ascending.
    fn symmetric_eigen(&self, a: ArrayView2<f64>) -> Result<SymmetricEigen>;
    fn matmul(&self, a: ArrayView2<f64>, b: ArrayView2<f64>) -> Array2<f64>;
    /// `aᵀ a`; only the lower triangle means anything.
    fn gram(&self, a: ArrayView2<f64>) -> Array2<f64>;
    /// Descending.
    fn singular_values(&self, a: ArrayView2<f64>) -> Result<Array1<f64>>;
    /// With the singular values, descending.
    fn thin_svd(&self, a: ArrayView2<f64>) -> Result<(ThinSvd, Array1<f64>)>;
    /// `R` of `a = Q R`, min(m, n)×n; only its upper triangle means anything.
    fn upper_of_qr(&self, a: ArrayView2<f64>) -> Result<Array2<f64>>;
    /// `L` with `L Lᵀ = a`, from the lower triangle of `a`, or nothing when a pivot is not positive; only the lower
    /// triangle means anything.
    fn cholesky_lower(&self, a: ArrayView2<f64>) -> Option<Array2<f64>>;
    fn solve_lower(&self, l: ArrayView2<f64>, b: ArrayView2<f64>) -> Result<Array2<f64>>;
    /// Only the lower triangle means anything.
    fn inverse_lower(&self, l: ArrayView2<f64>) -> Result<Array2<f64>>;
}
