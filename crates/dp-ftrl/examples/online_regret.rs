//! Regret of private online learning against an adversary: measured beside the bound that the library proves, for
//! several strategies at one budget.

use dp_ftrl::{Clipping, Ftrl, PrivateGradients, Region, Regret, RegretBound, Result};
use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed};

const DIMENSION: usize = 4;

/// What a number of runs have lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// The mean over the runs of the mean regret.
    pub(crate) measured: f64,
    /// Its standard error.
    pub(crate) error: f64,
    /// The bound on its expectation.
    pub(crate) bound: f64,
}

/// Plays `runs` games of `steps` steps. One person comes at a time, and the adversary always sends the gradient that
/// hurts the current parameters most, with a small preference that some fixed point could have used. Each run has noise
/// that is `scale` times what the bound knows of.
pub(crate) fn play(name: &str, steps: usize, runs: u64, budget: Budget, scale: f64) -> Result<Outcome> {
    let single = Participation::Single;
    let domain = Region::Ball { radius: 1.0 };
    let strategy = name.parse::<Method>()?.build(&Problem::new(dp_mechanisms::Workload::count(), steps)?)?;
    let clipping = Clipping::flat(1.0)?;
    let known = dp_ftrl::gradients::plan(strategy.clone(), &clipping, Relation::ZeroOut, single, budget)?;
    let bound = RegretBound::new(&known, clipping.norm(), DIMENSION, 1.0)?;
    let used = Budget::gaussian(budget.mu() / scale)?;
    let mut regrets = Vec::new();
    for run in 0..runs {
        let mut gradients = PrivateGradients::new(
            strategy.clone(),
            clipping.clone(),
            DIMENSION,
            Relation::ZeroOut,
            single,
            used,
            Seed::reproducible(run),
        )?;
        let mut optimizer = Ftrl::new(DIMENSION, bound.best_lambda(), domain)?;
        let mut regret = Regret::new(DIMENSION, domain)?;
        let (mut gradient, mut noisy) = ([0.0; DIMENSION], [0.0; DIMENSION]);
        for _ in 0..steps {
            gradient.copy_from_slice(optimizer.parameters());
            gradient[0] += 0.01;
            let norm = gradient.iter().map(|value| value * value).sum::<f64>().sqrt();
            gradient.iter_mut().for_each(|value| *value /= norm.max(1e-12));
            regret.play(optimizer.parameters(), &gradient)?;
            gradients.add(&gradient)?;
            gradients.finish(&mut noisy)?;
            optimizer.update(&noisy)?;
        }
        regrets.push(regret.mean());
    }
    let count = runs as f64;
    let measured = regrets.iter().sum::<f64>() / count;
    let variance = regrets.iter().map(|regret| (regret - measured).powi(2)).sum::<f64>() / (count - 1.0);
    Ok(Outcome { measured, error: (variance / count).sqrt(), bound: bound.best() })
}

/// Prints the table.
pub(crate) fn main() -> Result<()> {
    let budget = Budget::approximate(4.0, 1e-6)?;
    println!("mean regret over 512 steps, 4 dimensions, ε = 4, δ = 1e-6, 20 runs");
    println!("| strategy | measured | bound |");
    println!("|---|---|---|");
    for name in ["scaled-sqrt", "sqrt", "honaker-online", "binary-tree", "identity"] {
        let outcome = play(name, 512, 20, budget, 1.0)?;
        println!("| `{name}` | {:.4} ± {:.4} | {:.4} |", outcome.measured, outcome.error, outcome.bound);
    }
    Ok(())
}
