//! What has been promised to whom, release by release, and what it adds up to.

use std::path::Path;

use dp_mechanisms::budget::delta_from_gdp;
use dp_mechanisms::exact::budget::delta_from_zcdp;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::state;

/// What one release spends of the budget, once and for its whole horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of the release.
    pub release: String,
    /// The number of steps that it may be published for.
    pub steps: usize,
    /// The strategy behind its noise.
    pub strategy: String,
    /// ρ of zero-concentrated differential privacy.
    pub rho: f64,
    /// How far the noise is from Gaussian noise of `μ = sqrt(2ρ)`, in total variation.
    pub slack: f64,
}

impl Entry {
    /// μ of Gaussian differential privacy for noise of this ρ.
    pub fn mu(&self) -> f64 {
        (2.0 * self.rho).sqrt()
    }
}

/// The ledger of a state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// Release by release.
    pub entries: Vec<Entry>,
    /// Whether the noise can be repeated by anybody, which protects nobody.
    pub reproducible: bool,
}

impl Ledger {
    /// Reads the ledger of the state in a folder.
    ///
    /// # Errors
    /// A folder without a state, or one that cannot be opened.
    pub fn load(folder: &Path) -> Result<Self> {
        let (header, _) = state::read_header(folder)?;
        let reproducible = header.randomness != state::Randomness::System;
        Ok(Self { entries: header.ledger, reproducible })
    }

    /// The total as ρ, rounded up.
    pub fn rho(&self) -> f64 {
        total_rho(&self.entries)
    }

    /// The total as μ: `μ² = Σ μ_i²`.
    pub fn mu(&self) -> f64 {
        (2.0 * self.rho()).sqrt().next_up()
    }

    /// The total as ε at a given δ.
    ///
    /// # Errors
    /// A δ that is not strictly between 0 and 1.
    pub fn epsilon(&self, delta: f64) -> dp_mechanisms::Result<f64> {
        epsilon_of(&self.entries, delta)
    }
}

pub(crate) fn total_rho(entries: &[Entry]) -> f64 {
    entries.iter().fold(0.0, |sum: f64, entry| (sum + entry.rho).next_up())
}

/// The least ε, rounded up, that the parts together are known to satisfy at δ, by the better of two routes: ρ-zCDP, or μ-GDP
/// with the distance of the noise from a Gaussian added to δ.
pub(crate) fn epsilon_of(entries: &[Entry], delta: f64) -> dp_mechanisms::Result<f64> {
    if !(delta > 0.0 && delta < 1.0) {
        return Err(dp_mechanisms::Error::OutOfRange {
            what: "delta",
            value: delta,
            range: "strictly between 0 and 1",
        });
    }
    let rho = total_rho(entries);
    let mu = (2.0 * rho).sqrt().next_up();
    let slack = entries.iter().fold(0.0, |sum: f64, entry| (sum + entry.slack).next_up());
    let enough = |epsilon: f64| -> dp_mechanisms::Result<bool> {
        let gaussian = delta_from_gdp(epsilon, mu)? + (1.0 + epsilon.exp()) * slack * (1.0 + 1e-9);
        Ok(delta_from_zcdp(epsilon, rho)?.min(gaussian) <= delta)
    };
    // ε = ρ + 2 sqrt(ρ ln(1/δ)) is always enough.
    let (mut low, mut high) = (0.0, rho + 2.0 * (rho * (1.0 / delta).ln()).sqrt() + 1e-12);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if !(middle > low && middle < high) {
            break;
        }
        if enough(middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_in_rho_and_in_squares_of_mu() {
        let entry =
            |rho| Entry { release: String::new(), steps: 1, strategy: String::new(), rho, slack: 0.0 };
        let ledger = Ledger { entries: vec![entry(0.02), entry(0.01)], reproducible: false };
        assert!((ledger.rho() - 0.03).abs() < 1e-15 && ledger.rho() >= 0.03);
        let squares: f64 = ledger.entries.iter().map(|entry| entry.mu() * entry.mu()).sum();
        assert!((ledger.mu() * ledger.mu() - squares).abs() < 1e-12);
        let epsilon = ledger.epsilon(1e-6).unwrap();
        assert!(delta_from_gdp(epsilon, ledger.mu()).unwrap() <= 1e-6);
        assert!(delta_from_gdp(epsilon * (1.0 - 1e-9), ledger.mu()).unwrap() > 1e-6);
        // Noise that is far from a Gaussian is charged as zCDP, which asks for more.
        let mut coarse = ledger.clone();
        coarse.entries[0].slack = 1e-3;
        let larger = coarse.epsilon(1e-6).unwrap();
        assert!(larger > epsilon * 1.01 && delta_from_zcdp(larger, coarse.rho()).unwrap() <= 1e-6);
        assert!(ledger.epsilon(0.0).is_err() && ledger.epsilon(f64::NAN).is_err());
    }
}
