//! What counts and graphs are made with: one meaning of their shared arguments.

use std::sync::Arc;

use dp_mechanisms::{Budget, Footprint, Method, Problem, Relation, Seed, Strategy, Workload, planner};
use pyo3::prelude::*;

use crate::arguments;
use crate::errors::Refusal;
use crate::watch::watched;

/// The arguments that are the same everywhere.
pub(crate) struct Common {
    pub(crate) workload: Workload,
    pub(crate) steps: usize,
    pub(crate) relation: Relation,
    pub(crate) budget: Budget,
    strategy: Option<Method>,
    pub(crate) seed: Seed,
}

impl Common {
    pub(crate) fn new(
        py: Python<'_>,
        workload: &str,
        steps: usize,
        relation: &str,
        (epsilon, delta, rho, mu): (Option<f64>, Option<f64>, Option<f64>, Option<f64>),
        strategy: &str,
        reproducible_seed: Option<u64>,
    ) -> PyResult<Self> {
        Ok(Self {
            workload: workload.parse().map_err(Refusal::from)?,
            steps,
            relation: relation.parse().map_err(Refusal::from)?,
            budget: arguments::budget(epsilon, delta, rho, mu)?,
            strategy: arguments::method(strategy)?,
            seed: arguments::seed(py, reproducible_seed)?,
        })
    }

    /// The strategy by its name, or the best for what one person can change.
    pub(crate) fn strategy(
        &self,
        py: Python<'_>,
        footprint: &Footprint,
        dimension: u64,
    ) -> PyResult<Arc<dyn Strategy>> {
        watched(py, |watch| {
            let participation = planner::main_participation(footprint);
            let problem = Problem::new(self.workload.clone(), self.steps)?.with_participation(participation);
            match self.strategy {
                Some(method) => method.build_watched(&problem, watch),
                None => planner::best_watched(&problem, footprint, dimension, watch),
            }
        })
    }
}

/// A class whose constructor takes arguments of its own and those of [`Common`], keyword by keyword: classes of Python
/// cannot be generic.
macro_rules! counting {
    (
        $(#[$($described:tt)*])*
        class $name:ident($base:ty)
        signature ($($own:tt)*)
        arguments ($($(#[$($read:tt)*])? $argument:ident: $kind:ty),* $(,)?)
        new ($py:ident, $common:ident) $new:block
        $($methods:tt)*
    ) => {
        $(#[$($described)*])*
        #[pyclass(extends = $base, frozen, module = "continual_dp")]
        pub(crate) struct $name;

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (
                $($own)*, steps, relation, workload="count", epsilon=None, delta=None, rho=None, mu=None, strategy="auto",
                reproducible_seed=None
            ))]
            #[allow(clippy::too_many_arguments)]
            fn new(
                $py: Python<'_>,
                $($(#[$($read)*])? $argument: $kind,)*
                #[pyo3(from_py_with = whole)] steps: usize,
                relation: &str,
                workload: &str,
                epsilon: Option<f64>,
                delta: Option<f64>,
                rho: Option<f64>,
                mu: Option<f64>,
                strategy: &str,
                #[pyo3(from_py_with = whole_or_none)] reproducible_seed: Option<u64>,
            ) -> PyResult<PyClassInitializer<Self>> {
                let budget = (epsilon, delta, rho, mu);
                let $common = Common::new($py, workload, steps, relation, budget, strategy, reproducible_seed)?;
                $new
            }

            $($methods)*
        }
    };
}

pub(crate) use counting;
