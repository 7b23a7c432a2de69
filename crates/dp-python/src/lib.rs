//! The Python package `continual_dp`: a thin border in front of the libraries.
//!
//! | module | owns |
//! |---|---|
//! | `errors` | the libraries' refusals as Python exceptions, without anybody's data |
//! | `live` | objects that must not be copied, and every call that leaves the interpreter |
//! | `arguments` | words and numbers of Python as values of the libraries |
//! | `arrays` | arrays in and out, without copying where that is possible |
//! | `watch` | computations that Ctrl-C stops |
//! | `plan`, `compare`, `calibrate` | everything that happens before data |
//! | `account` | how private many steps are together |
//! | `common` | the arguments that counts and graphs share |
//! | `counts` | items, ordered values, substrings and episodes, of which many are counted at once |
//! | `graph` | weights, cuts and functions of a graph |
//! | `dashboard`, `arrow` | dashboards from files or from data frames, which are read where they are |
//! | `learning` | noise in place, and private gradients |
//! | `release` | the live release of a statistic, or of several |
//!
//! Nothing here computes noise or privacy. Python code under `python/continual_dp` holds the exceptions, the types and what
//! is made for other packages.

// Documentation of what Python sees is written for Python.
#![allow(clippy::doc_link_with_quotes)]

// Their features alone are wanted.
#[cfg(feature = "shared-build")]
use {
    bitflags as _, bytemuck as _, either as _, num_bigint as _, num_iter as _, num_rational as _,
    subtle as _, typenum as _,
};

mod account;
mod arguments;
mod arrays;
mod arrow;
mod calibrate;
mod common;
mod compare;
mod counts;
mod dashboard;
mod errors;
mod graph;
mod learning;
mod live;
mod plan;
mod release;
mod watch;

/// The compiled part of `continual_dp`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::account::{Accountant, Bracket, account};
    #[pymodule_export]
    use crate::calibrate::{Calibration, calibrate};
    #[pymodule_export]
    use crate::compare::{Comparison, compare};
    #[pymodule_export]
    use crate::counts::{Counts, Discovery, Episodes, Histogram, Quantiles, Substrings};
    #[pymodule_export]
    use crate::dashboard::{Outcome, run};
    #[pymodule_export]
    use crate::graph::{Graph, GraphRelease};
    #[pymodule_export]
    use crate::learning::{Noise, PrivateGradients};
    #[pymodule_export]
    use crate::live::Live;
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::plan::choice::plan;
    #[pymodule_export]
    use crate::release::{Release, Stream};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
