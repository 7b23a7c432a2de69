//! Exact sensitivities of small streams, through the matrices of strategies.

use dp_mechanisms::{Method, Problem, Workload};
use ndarray::Array2;

/// The strategies that sensitivities are measured through. The identity has orthogonal columns, the others do not.
pub(crate) const STRATEGIES: [&str; 3] = ["sqrt", "binary-tree", "identity"];

/// The Gram matrix of a strategy for the count, divided by its longest squared column: sensitivities come out per Δ_1.
pub(crate) fn gram(name: &str, steps: usize) -> Array2<f64> {
    let strategy =
        name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), steps).unwrap()).unwrap();
    let matrix = strategy.materialize().unwrap().strategy;
    let gram = matrix.t().dot(&matrix);
    let longest = gram.diag().iter().copied().fold(0.0, f64::max);
    gram / longest
}

/// `Σ_s ‖C d_s‖² / Δ_1²` of two input sequences, one vector per step.
pub(crate) fn squared_change(gram: &Array2<f64>, a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let mut total = 0.0;
    for s in 0..a[0].len() {
        for (t, (at, bt)) in a.iter().zip(b).enumerate() {
            let left = at[s] - bt[s];
            if left != 0.0 {
                for (r, (ar, br)) in a.iter().zip(b).enumerate() {
                    total += left * gram[[t, r]] * (ar[s] - br[s]);
                }
            }
        }
    }
    total
}

/// The largest change over neighbours, for each strategy.
pub(crate) struct Worst {
    grams: Vec<Array2<f64>>,
    pub(crate) squared: Vec<f64>,
    /// The most that a coordinate gains in all steps together when `a` becomes `b`, and the most that it loses.
    pub(crate) gained: f64,
    pub(crate) lost: f64,
}

impl Worst {
    pub(crate) fn new(steps: usize) -> Self {
        let grams: Vec<_> = STRATEGIES.iter().map(|name| gram(name, steps)).collect();
        Self { squared: vec![0.0; grams.len()], grams, gained: 0.0, lost: 0.0 }
    }

    pub(crate) fn look_at(&mut self, a: &[Vec<f64>], b: &[Vec<f64>]) {
        if a == b {
            return;
        }
        for (gram, worst) in self.grams.iter().zip(&mut self.squared) {
            *worst = worst.max(squared_change(gram, a, b));
        }
        for s in 0..a[0].len() {
            let gained = |from: &[Vec<f64>], to: &[Vec<f64>]| -> f64 {
                from.iter().zip(to).map(|(from, to)| (to[s] - from[s]).max(0.0)).sum()
            };
            self.gained = self.gained.max(gained(a, b));
            self.lost = self.lost.max(gained(b, a));
        }
    }

    /// Whether noise for a change of `weight·Δ_1` covers everything that was looked at.
    pub(crate) fn covered_by(&self, weight: f64) -> bool {
        self.squared.iter().all(|squared| squared.sqrt() <= weight * (1.0 + 1e-12))
    }

    /// The share of the bound that is attained, by the worst strategy.
    pub(crate) fn ratio(&self, weight: f64) -> f64 {
        self.squared.iter().copied().fold(0.0, f64::max).sqrt() / weight
    }
}
