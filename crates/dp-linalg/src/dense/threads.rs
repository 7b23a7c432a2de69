//! The one place that configures OpenBLAS's threads.

use std::ffi::c_int;
use std::sync::Once;

// The linking crate has to mention the crate that carries the link flags.
use openblas_src as _;

// SAFETY: the signature is the one OpenBLAS documents in its `cblas.h`; any positive count is valid, and the function
// may be called from any thread.
#[allow(unsafe_code)]
unsafe extern "C" {
    safe fn openblas_set_num_threads(threads: c_int);
}

/// Keeps OpenBLAS to one thread from the first use on.
///
/// rayon owns the cores. A threaded OpenBLAS called from rayon's workers starts its own threads on the same cores and
/// takes 6 to 7 times as long as a single-threaded one. Setting the environment variable from inside the process would
/// be too late: OpenBLAS reads it when it is loaded.
pub(super) fn pin() {
    static PINNED: Once = Once::new();
    PINNED.call_once(|| openblas_set_num_threads(1));
}
