//! What has been promised to whom, release by release, and what it adds up to.

use std::path::Path;

use dp_mechanisms::budget::{delta_from_gdp, upper_quantile};
use dp_mechanisms::exact::budget::delta_from_zcdp;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::state;

/// What one release spends of the budget, once and for its whole horizon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of the release.
    pub release: String,
    /// The first step that it may be published for, counted from 1.
    pub first: usize,
    /// The number of steps that it may be published for.
    pub steps: usize,
    /// The strategy behind its noise.
    pub strategy: String,
    /// ρ of zero-concentrated differential privacy.
    pub rho: f64,
    /// ε where the noise is Laplace noise and satisfies it without any δ.
    pub epsilon: Option<f64>,
    /// How far the noise is from Gaussian noise of `μ = sqrt(2ρ)`, in total variation.
    pub slack: f64,
    /// The probability with which a key of one person alone is shown, where keys are found in the rows: it adds to δ.
    pub delta: f64,
}

impl Entry {
    /// μ of Gaussian differential privacy: that of Gaussian noise of this ρ, or the least that follows from a pure ε.
    pub fn mu(&self) -> f64 {
        mu_of(std::slice::from_ref(self))
    }
}

/// The ledger of one state, or of several that are about the same people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// Release by release.
    pub entries: Vec<Entry>,
    /// Whether the noise can be repeated by anybody, which protects nobody.
    pub reproducible: bool,
}

impl Ledger {
    /// Reads the ledger of the state in a folder, whose key lies in it.
    ///
    /// # Errors
    /// A folder without a state, or one that cannot be opened.
    pub fn load(folder: &Path) -> Result<Self> {
        Self::load_with(folder, None)
    }

    /// Reads the ledger of the state in a folder, whose key may lie elsewhere.
    ///
    /// # Errors
    /// A folder without a state, or one that cannot be opened.
    pub fn load_with(folder: &Path, key: Option<&Path>) -> Result<Self> {
        let header = state::read_header(folder, key)?;
        let reproducible = header.randomness != state::Randomness::System;
        Ok(Self { entries: header.ledger, reproducible })
    }

    /// Adds what another dashboard has spent on the same people.
    pub fn add(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.reproducible |= other.reproducible;
    }

    /// The total as ρ, rounded up.
    pub fn rho(&self) -> f64 {
        total_rho(&self.entries)
    }

    /// The total as μ: `μ² = Σ μ_i²`, where several pure ε count as one.
    pub fn mu(&self) -> f64 {
        mu_of(&self.entries)
    }

    /// The total as ε without any δ, where all noise is Laplace noise.
    pub fn pure_epsilon(&self) -> Option<f64> {
        pure_epsilon(&self.entries)
    }

    /// The total as ε at a given δ.
    ///
    /// # Errors
    /// A δ that is not strictly between 0 and 1, or below what finding keys in the rows costs already.
    pub fn epsilon(&self, delta: f64) -> dp_mechanisms::Result<f64> {
        epsilon_of(&self.entries, delta)
    }
}

pub(crate) fn total_rho(entries: &[Entry]) -> f64 {
    entries.iter().fold(0.0, |sum: f64, entry| (sum + entry.rho).next_up())
}

fn sum_of_epsilons(entries: &[Entry]) -> f64 {
    entries.iter().filter_map(|entry| entry.epsilon).fold(0.0, |sum: f64, epsilon| (sum + epsilon).next_up())
}

/// ε without δ, where every entry has one and no key is found in the rows.
pub(crate) fn pure_epsilon(entries: &[Entry]) -> Option<f64> {
    let pure = entries.iter().all(|entry| entry.epsilon.is_some() && entry.delta == 0.0);
    pure.then(|| sum_of_epsilons(entries))
}

/// μ of all together. A pure ε is μ-GDP for `Φ(-μ/2) = 1/(1 + e^ε)`: the curves of both meet there and at the ends, and that of
/// the Gaussian is convex, so it lies below the two straight lines of ε.
fn mu_of(entries: &[Entry]) -> f64 {
    let gaussian: f64 = entries
        .iter()
        .filter(|entry| entry.epsilon.is_none())
        .fold(0.0, |sum: f64, entry| (sum + 2.0 * entry.rho).next_up());
    let epsilon = sum_of_epsilons(entries);
    let pure = if epsilon == 0.0 { 0.0 } else { 2.0 * upper_quantile(1.0 / (1.0 + epsilon.exp())) };
    (gaussian + pure * pure).sqrt().next_up()
}

/// The least ε, rounded up, that the parts together are known to satisfy at δ, by the best of three routes: ρ-zCDP; μ-GDP
/// with the distance of the noise from a Gaussian added to δ; and the sum of pure ε, where all are.
pub(crate) fn epsilon_of(entries: &[Entry], delta: f64) -> dp_mechanisms::Result<f64> {
    let thresholds = entries.iter().fold(0.0, |sum: f64, entry| (sum + entry.delta).next_up());
    if !(delta > thresholds && delta < 1.0) {
        return Err(dp_mechanisms::Error::OutOfRange {
            what: "delta",
            value: delta,
            range: "strictly between 0, or what finding keys costs, and 1",
        });
    }
    let delta = if thresholds == 0.0 { delta } else { (delta - thresholds).next_down() };
    let (rho, mu) = (total_rho(entries), mu_of(entries));
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
    Ok(pure_epsilon(entries).map_or(high, |pure| pure.min(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_in_rho_and_in_squares_of_mu() {
        let entry = |rho| Entry {
            release: String::new(),
            first: 1,
            steps: 1,
            strategy: String::new(),
            rho,
            epsilon: None,
            slack: 0.0,
            delta: 0.0,
        };
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

    #[test]
    fn pure_parts_add_up_and_are_gaussian_where_the_curves_meet() {
        let entry = |epsilon: f64| Entry {
            release: String::new(),
            first: 1,
            steps: 1,
            strategy: String::new(),
            rho: epsilon * epsilon / 2.0,
            epsilon: Some(epsilon),
            slack: 0.0,
            delta: 0.0,
        };
        let ledger = Ledger { entries: vec![entry(0.3), entry(0.7)], reproducible: false };
        assert!((ledger.pure_epsilon().unwrap() - 1.0).abs() < 1e-12);
        // Φ(-μ/2) = 1/(1+e) = 0.268941, so μ/2 = 0.616018.
        assert!((ledger.mu() - 2.0 * 0.616_018).abs() < 1e-5, "{}", ledger.mu());
        // A pure ε is never worse than itself, and a large δ buys something: that of this μ is 0.3 near ε = 0.62, and zCDP
        // may say less.
        assert!(ledger.epsilon(1e-9).unwrap() <= 1.0 + 1e-12);
        assert!(ledger.epsilon(0.3).unwrap() < 0.65);
        let mut found = ledger.clone();
        found.entries[0].delta = 1e-7;
        assert!(found.pure_epsilon().is_none() && found.epsilon(1e-7).is_err());
        assert!(found.epsilon(1e-6).unwrap() > 1.0);
    }
}
