//! `dp calibrate`: from any way to state how private Gaussian noise is to all others.

use anyhow::Result;
use clap::Args;
use dp_mechanisms::Budget;
use dp_mechanisms::budget::{compose_gdp, delta_from_gdp, epsilon_from_gdp};
use serde::Serialize;

use crate::arguments::{LARGEST_EPSILON, Usage};
use crate::output::{self, Table};

/// Convert between noise and budgets, and compose several
///
/// Takes the noise or the budget of one release or of several, each by a standard deviation, μ, ρ, or ε with δ, and says what
/// all of them together amount to in every other form, by the exact conversions of Gaussian noise (no closed-form bounds),
/// rounded to the private side. Several add up in squares: μ² = Σ μ_i².
///
/// The standard deviation is for one number that one person can change by at most --change.
#[derive(Args)]
pub(crate) struct Calibrate {
    /// The standard deviation σ of noise; may be given again for another release, like all of these
    #[arg(long, value_name = "SIGMA", allow_negative_numbers = true)]
    sigma: Vec<f64>,
    /// μ of Gaussian differential privacy
    #[arg(long, allow_negative_numbers = true)]
    mu: Vec<f64>,
    /// ρ of zero-concentrated differential privacy
    #[arg(long, allow_negative_numbers = true)]
    rho: Vec<f64>,
    /// ε of (ε, δ)-differential privacy; the first --epsilon belongs to the first --delta, and so on
    #[arg(long, allow_negative_numbers = true)]
    epsilon: Vec<f64>,
    /// δ of (ε, δ)-differential privacy
    #[arg(long, allow_negative_numbers = true)]
    delta: Vec<f64>,
    /// What one person can change of a number with noise σ
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    change: f64,
    /// Print ε at this δ; may be given again
    #[arg(long, value_name = "DELTA", default_values_t = [1e-5, 1e-6, 1e-9], allow_negative_numbers = true)]
    at_delta: Vec<f64>,
    /// Print δ at this ε; may be given again
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    at_epsilon: Vec<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Calibration {
    /// How many releases these are.
    parts: usize,
    change: f64,
    sigma: f64,
    mu: f64,
    rho_equivalent: f64,
    curve: Vec<Point>,
}

/// A pair that all of it satisfies.
#[derive(Serialize)]
struct Point {
    epsilon: f64,
    delta: f64,
}

impl Calibrate {
    pub(crate) fn run(&self) -> Result<()> {
        let parts = self.parts()?;
        // One part is what it was stated as; several are rounded up as they are added.
        let total = match parts[..] {
            [one] => one,
            _ => Budget::gaussian(compose_gdp(&parts.iter().map(Budget::mu).collect::<Vec<_>>()))
                .map_err(Usage::error)?,
        };
        let at_delta = self.at_delta.iter().map(|delta| {
            let epsilon = epsilon_from_gdp(total.mu(), *delta).map_err(Usage::error)?;
            Ok(Point { epsilon, delta: *delta })
        });
        let at_epsilon = self.at_epsilon.iter().map(|epsilon| {
            let delta = delta_from_gdp(*epsilon, total.mu()).map_err(Usage::error)?;
            Ok(Point { epsilon: *epsilon, delta })
        });
        let calibration = Calibration {
            parts: parts.len(),
            change: self.change,
            sigma: (total.unit_sigma() * self.change).next_up(),
            mu: total.mu(),
            rho_equivalent: total.rho_equivalent(),
            curve: at_delta.chain(at_epsilon).collect::<Result<_>>()?,
        };
        if self.json { output::json(&calibration) } else { print(&calibration) }
    }

    /// Every release as a budget.
    fn parts(&self) -> Result<Vec<Budget>> {
        if !(self.change > 0.0 && self.change.is_finite()) {
            return Err(Usage::error(format!("--change {} is not finite and positive", self.change)));
        }
        if self.epsilon.len() != self.delta.len() {
            return Err(Usage::error(format!(
                "there are {} --epsilon and {} --delta; give one δ for every ε (pure ε takes exact Laplace noise: see `dp \
                 account`)",
                self.epsilon.len(),
                self.delta.len()
            )));
        }
        if let Some(epsilon) = self.epsilon.iter().chain(&self.at_epsilon).find(|one| **one > LARGEST_EPSILON)
        {
            return Err(Usage::error(format!(
                "ε = {epsilon:e} promises nothing: e^ε is no number any more; give at most {LARGEST_EPSILON}"
            )));
        }
        let mut parts = Vec::new();
        for sigma in &self.sigma {
            if !(*sigma > 0.0 && sigma.is_finite()) {
                return Err(Usage::error(format!("--sigma {sigma} is not finite and positive")));
            }
            parts.push(Budget::gaussian((self.change / sigma).next_up()));
        }
        parts.extend(self.mu.iter().map(|mu| Budget::gaussian(*mu)));
        parts.extend(self.rho.iter().map(|rho| Budget::zero_concentrated(*rho)));
        let pairs = self.epsilon.iter().zip(&self.delta);
        parts.extend(pairs.map(|(epsilon, delta)| Budget::approximate(*epsilon, *delta)));
        if parts.is_empty() {
            return Err(Usage::error(
                "nothing to convert; give --sigma, --mu, --rho, or --epsilon with --delta, each as often as there are releases",
            ));
        }
        parts.into_iter().map(|part| part.map_err(Usage::error)).collect()
    }
}

fn print(calibration: &Calibration) -> Result<()> {
    let what = match calibration.parts {
        1 => format!("for a change of at most {}", calibration.change),
        parts => format!("{parts} releases together"),
    };
    let mut table = Table::new(&[&what, ""]);
    let sigma = match calibration.parts {
        1 => "standard deviation σ".to_owned(),
        _ => format!("as one release with σ, for a change of {}", calibration.change),
    };
    table.row(vec![sigma, format!("{:.6}", calibration.sigma)]);
    table.row(vec!["Gaussian differential privacy μ".to_owned(), format!("{:.6}", calibration.mu)]);
    table.row(vec!["zero-concentrated ρ = μ²/2".to_owned(), format!("{:.6}", calibration.rho_equivalent)]);
    for Point { epsilon, delta } in &calibration.curve {
        table.row(vec![
            "(ε, δ)-differential privacy".to_owned(),
            format!("ε = {epsilon:.6}, δ = {delta:.4e}"),
        ]);
    }
    table.print()
}
