//! `dp account`: how private many steps are together, and the noise that makes them so.

use anyhow::Result;
use clap::Args;
use dp_mechanisms::accountant::{self, Accountant, Event};
use serde::Serialize;

use crate::arguments::Usage;
use crate::output::{self, Table};

/// Say how private many steps are together
///
/// Steps of Gaussian noise in which everybody takes part independently with a given probability (Poisson sampling), as in
/// private learning by stochastic gradients. Neighbours differ in the presence of one person. Prints ε for a noise multiplier,
/// or the noise multiplier for ε; both are proved bounds, printed with how loose they can be.
#[derive(Args)]
pub(crate) struct Account {
    /// The standard deviation of the noise of a step, divided by what one person can change in Euclidean norm
    #[arg(
        long,
        value_name = "SIGMA",
        required_unless_present = "epsilon",
        conflicts_with = "epsilon",
        allow_negative_numbers = true
    )]
    noise_multiplier: Option<f64>,
    /// ε: asks for the noise multiplier
    #[arg(long, allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// δ
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
    /// The probability with which one person takes part in a step
    #[arg(long, value_name = "P", default_value = "1", allow_negative_numbers = true)]
    sampling_rate: f64,
    /// The number of steps
    #[arg(long, value_name = "N", default_value = "1")]
    steps: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Accounted {
    epsilon: f64,
    epsilon_lower: f64,
    delta: f64,
    noise_multiplier: f64,
    /// No smaller noise multiplier reaches ε; absent where the noise was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_multiplier_lower: Option<f64>,
    sampling_rate: f64,
    steps: u64,
}

impl Account {
    pub(crate) fn run(&self) -> Result<()> {
        let accounted = self.account().map_err(Usage::error)?;
        if self.json {
            return output::json(&accounted);
        }
        let mut table = Table::new(&["", "at most", "at least"]);
        let row = |name: &str, upper: f64, lower: Option<f64>| {
            let lower = lower.map_or_else(String::new, |lower| format!("{lower:.6}"));
            vec![name.to_owned(), format!("{upper:.6}"), lower]
        };
        table.row(row("ε", accounted.epsilon, Some(accounted.epsilon_lower)));
        table.row(row("noise multiplier", accounted.noise_multiplier, accounted.noise_multiplier_lower));
        table.print()?;
        output::line(&format!(
            "\nat δ = {:e}, {} steps, sampling rate {}; add or remove one person",
            self.delta, self.steps, self.sampling_rate
        ))?;
        if accounted.epsilon == 0.0 {
            output::line("so large a δ covers whoever is drawn at all: they are promised nothing")?;
        }
        Ok(())
    }

    fn account(&self) -> dp_mechanisms::Result<Accounted> {
        let (noise, lower) = match (self.noise_multiplier, self.epsilon) {
            (None, Some(epsilon)) => {
                let found =
                    accountant::noise_multiplier(epsilon, self.delta, self.sampling_rate, self.steps)?;
                (found.upper, Some(found.lower))
            }
            (given, _) => (given.unwrap_or(f64::NAN), None),
        };
        let step = Event::sampled_gaussian(noise, self.sampling_rate)?;
        let epsilon = Accountant::new().with(&step, self.steps)?.epsilon(self.delta)?;
        Ok(Accounted {
            epsilon: epsilon.upper,
            epsilon_lower: epsilon.lower,
            delta: self.delta,
            noise_multiplier: noise,
            noise_multiplier_lower: lower,
            sampling_rate: self.sampling_rate,
            steps: self.steps,
        })
    }
}
