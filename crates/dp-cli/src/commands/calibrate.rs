//! `dp calibrate`: how much noise a budget demands.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::arguments::BudgetArguments;
use crate::output::{self, Table};

/// Say how much noise a privacy budget demands
///
/// The standard deviation of Gaussian noise for one number that one person can change by at most 1, by the
/// exact conversion from the budget (no closed-form bound), rounded to the private side.
#[derive(Args)]
pub(crate) struct Calibrate {
    #[command(flatten)]
    budget: BudgetArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Calibration {
    sigma: f64,
    mu: f64,
    rho_equivalent: f64,
}

impl Calibrate {
    pub(crate) fn run(&self) -> Result<()> {
        let budget = self.budget.required()?;
        let calibration = Calibration {
            sigma: budget.unit_sigma(),
            mu: budget.mu(),
            rho_equivalent: budget.rho_equivalent(),
        };
        if self.json {
            return output::json(&calibration);
        }
        let mut table = Table::new(&["for a change of at most 1", ""]);
        table.row(vec!["standard deviation σ".to_owned(), format!("{:.6}", calibration.sigma)]);
        table.row(vec!["Gaussian differential privacy μ".to_owned(), format!("{:.6}", calibration.mu)]);
        table
            .row(vec!["zero-concentrated ρ = μ²/2".to_owned(), format!("{:.6}", calibration.rho_equivalent)]);
        table.print()
    }
}
