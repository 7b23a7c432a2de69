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
    /// The folder of the state
    #[arg(value_name = "STATE")]
    state: PathBuf,
    /// The δ at which the total is printed as ε
    #[arg(long, default_value_t = 1e-6)]
    delta: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Ledger {
    pub(crate) fn run(self) -> Result<()> {
        let spent = Spent::load(&self.state)?;
        let epsilon = spent.epsilon(self.delta).map_err(Usage::error)?;
        let (rho, mu) = (spent.rho(), spent.mu());
        if self.json {
            return output::json(&json!({
                "releases": spent.entries,
                "reproducible": spent.reproducible,
                "total": { "epsilon": epsilon, "delta": self.delta, "rho": rho, "mu": mu },
            }));
        }
        if spent.reproducible {
            output::line("the noise is reproducible: these releases protect nobody")?;
        }
        output::line(&format!(
            "{:<20} {:>8} {:<18} {:>12} {:>12}",
            "release", "steps", "strategy", "rho", "mu"
        ))?;
        for entry in &spent.entries {
            output::line(&format!(
                "{:<20} {:>8} {:<18} {:>12.6} {:>12.6}",
                entry.release,
                entry.steps,
                entry.strategy,
                entry.rho,
                entry.mu()
            ))?;
        }
        output::line(&format!("{:<20} {:>8} {:<18} {rho:>12.6} {mu:>12.6}", "all together", "", ""))?;
        output::line(&format!("which is epsilon = {epsilon:.4} at delta = {:e}", self.delta))
    }
}
