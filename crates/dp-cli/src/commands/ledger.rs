//! `dp ledger`: what a dashboard has spent.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use dp_events::Ledger as Spent;
use serde_json::json;

use crate::arguments::Usage;
use crate::output;

/// Prints what has been spent, release by release, and what it adds up to.
#[derive(Args)]
pub(crate) struct Ledger {
    /// The folder of the state; several, whose totals add up, where they are about the same people
    #[arg(value_name = "STATE", required = true)]
    states: Vec<PathBuf>,
    /// The key of the state, where it does not lie in the folder
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The δ at which the total is printed as ε
    #[arg(long, default_value_t = 1e-6)]
    delta: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Ledger {
    pub(crate) fn run(self) -> Result<()> {
        let mut spent = Spent { entries: Vec::new(), reproducible: false };
        for state in &self.states {
            spent.add(Spent::load_with(state, self.key.as_deref())?);
        }
        let epsilon = spent.epsilon(self.delta).map_err(Usage::error)?;
        let (rho, mu) = (spent.rho(), spent.mu());
        if self.json {
            return output::json(&json!({
                "releases": spent.entries,
                "reproducible": spent.reproducible,
                "total": {
                    "epsilon": epsilon, "delta": self.delta, "pure_epsilon": spent.pure_epsilon(), "rho": rho, "mu": mu,
                },
            }));
        }
        if spent.reproducible {
            output::line("the noise is reproducible: these releases protect nobody")?;
        }
        output::line(&format!(
            "{:<20} {:>12} {:<18} {:>12} {:>12}",
            "release", "steps", "strategy", "rho", "mu"
        ))?;
        for entry in &spent.entries {
            output::line(&format!(
                "{:<20} {:>12} {:<18} {:>12.6} {:>12.6}",
                entry.release,
                format!("{}..{}", entry.first, entry.first - 1 + entry.steps),
                entry.strategy,
                entry.rho,
                entry.mu()
            ))?;
        }
        output::line(&format!("{:<20} {:>12} {:<18} {rho:>12.6} {mu:>12.6}", "all together", "", ""))?;
        if let Some(pure) = spent.pure_epsilon() {
            output::line(&format!("which is epsilon = {pure:.4} without any delta"))?;
        }
        output::line(&format!("which is epsilon = {epsilon:.4} at delta = {:e}", self.delta))
    }
}
