//! What the rows compute with: errors of strategies, and the optimal factorizations that several rows share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use dp_linalg::{norms, series};
use dp_mechanisms::strategy::{optimal::Optimal, unwatched};
use dp_mechanisms::{Method, Participation, Problem, Strategy};

/// An optimal factorization and the seconds that it took.
pub(crate) type Solved = (Rc<Optimal>, f64);

/// Keeps optimal factorizations, which take from milliseconds to minutes.
#[derive(Default)]
pub(crate) struct Lab {
    optimal: RefCell<HashMap<(String, usize), Solved>>,
}

impl Lab {
    /// The factorization of least mean squared error.
    pub(crate) fn optimal(&self, workload: &str, steps: usize) -> Result<Solved> {
        let key = (workload.to_owned(), steps);
        if let Some(known) = self.optimal.borrow().get(&key) {
            return Ok(known.clone());
        }
        let start = Instant::now();
        let optimal = Rc::new(Optimal::new(&Problem::new(workload.parse()?, steps)?, &mut unwatched)?);
        let solved = (optimal, start.elapsed().as_secs_f64());
        self.optimal.borrow_mut().insert(key, solved.clone());
        Ok(solved)
    }
}

/// A strategy by its name.
pub(crate) fn build(name: &str, workload: &str, steps: usize) -> Result<Arc<dyn Strategy>> {
    Ok(name.parse::<Method>()?.build(&Problem::new(workload.parse()?, steps)?)?)
}

/// `Δ(C)²` for one participation.
pub(crate) fn sensitivity(strategy: &dyn Strategy) -> Result<f64> {
    Ok(strategy.sensitivity(Participation::Single)?.squared)
}

/// E2 of a given strategy.
pub(crate) fn mean_error_of(strategy: &dyn Strategy) -> Result<f64> {
    Ok(sensitivity(strategy)? * strategy.row_norms()?.mean())
}

/// E2.
pub(crate) fn mean_error(name: &str, workload: &str, steps: usize) -> Result<f64> {
    mean_error_of(build(name, workload, steps)?.as_ref())
}

/// E∞.
pub(crate) fn max_error(name: &str, workload: &str, steps: usize) -> Result<f64> {
    let strategy = build(name, workload, steps)?;
    Ok(sensitivity(strategy.as_ref())? * strategy.row_norms()?.max())
}

/// The squared error of every release, `Δ²‖b_t‖²`.
pub(crate) fn errors_of(strategy: &dyn Strategy) -> Result<Vec<f64>> {
    let squared = sensitivity(strategy)?;
    Ok(strategy.row_norms()?.iter().map(|norm| squared * norm).collect())
}

/// `Σ_{k<n} c_k²` of the square root of the count, for n = 1, 2, … up to the longest.
pub(crate) fn root_norms(longest: usize) -> Vec<f64> {
    let squares = series::binomial(0.5, longest);
    squares
        .iter()
        .scan(0.0, |sum, c| {
            *sum += c * c;
            Some(*sum)
        })
        .collect()
}

/// The largest of finitely many numbers.
pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> Result<f64> {
    values.into_iter().reduce(f64::max).context("no values")
}

/// The mean of finitely many numbers.
pub(crate) fn mean(values: &[f64]) -> f64 {
    norms::compensated_sum(values.iter().copied()) / values.len() as f64
}
