//! What a privacy budget buys: the exact calibration of Gaussian noise.
//!
//! Gaussian noise of standard deviation σ against an ℓ2 change Δ is exactly μ-GDP with `μ = Δ/σ`, and μ-GDP is
//! (ε, δ)-DP for precisely
//!
//! `δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) = ∫_0^μ φ(ε/m - m/2) dm`.
//!
//! The integral has a positive integrand, so nothing cancels: it is accurate to a few ulps however small δ is.

use crate::error::{Error, Result, check_positive};

/// A privacy budget for the whole stream of releases.
///
/// # Example
/// ```
/// use dp_mechanisms::Budget;
/// let budget = Budget::approximate(1.0, 1e-6)?;
/// // The largest μ for which μ-GDP implies (1, 1e-6)-DP.
/// assert!((budget.mu() - 0.236_704_380_663_435_72).abs() < 1e-12);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "crate::written::Budget")
)]
pub struct Budget {
    kind: Kind,
    mu: f64,
}

/// The form in which a budget was stated.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Kind {
    /// (ε, δ)-differential privacy.
    Approximate {
        /// ε.
        epsilon: f64,
        /// δ.
        delta: f64,
    },
    /// ρ-zero-concentrated differential privacy.
    ZeroConcentrated {
        /// ρ.
        rho: f64,
    },
    /// μ-Gaussian differential privacy.
    Gaussian {
        /// μ.
        mu: f64,
    },
    /// (ε, 0)-differential privacy, which exact plans alone can keep.
    Pure {
        /// ε.
        epsilon: f64,
    },
}

impl Budget {
    /// (ε, δ): buys the largest μ with `δ(ε) ≤ δ`, rounded to the private side and re-checked.
    ///
    /// # Errors
    /// ε not finite and positive, δ not in (0, 1), or a combination beyond f64.
    pub fn approximate(epsilon: f64, delta: f64) -> Result<Self> {
        check_positive("epsilon", epsilon)?;
        if !(delta > 0.0 && delta < 1.0) {
            return Err(Error::OutOfRange { what: "delta", value: delta, range: "strictly between 0 and 1" });
        }
        let mu = gdp_from_approximate(epsilon, delta)?;
        Ok(Self { kind: Kind::Approximate { epsilon, delta }, mu })
    }

    /// ρ-zCDP: buys `μ = sqrt(2ρ)`.
    ///
    /// # Errors
    /// ρ not finite and positive.
    pub fn zero_concentrated(rho: f64) -> Result<Self> {
        check_positive("rho", rho)?;
        let mu = check_positive("mu bought by rho", (2.0 * rho).sqrt().next_down())?;
        Ok(Self { kind: Kind::ZeroConcentrated { rho }, mu })
    }

    /// μ-GDP.
    ///
    /// # Errors
    /// μ not finite and positive.
    pub fn gaussian(mu: f64) -> Result<Self> {
        Ok(Self { kind: Kind::Gaussian { mu }, mu: check_positive("mu", mu)? })
    }

    /// (ε, 0): discrete Laplace noise in an exact plan. No amount of Gaussian noise satisfies it.
    ///
    /// # Errors
    /// ε not finite and positive.
    pub fn pure(epsilon: f64) -> Result<Self> {
        Ok(Self { kind: Kind::Pure { epsilon: check_positive("epsilon", epsilon)? }, mu: 0.0 })
    }

    /// What the budget buys in Gaussian differential privacy: noise per unit sensitivity is `1/μ`. A pure ε buys none, 0.
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// The budget as it was stated.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The standard deviation for unit sensitivity, rounded up.
    pub fn unit_sigma(&self) -> f64 {
        (1.0 / self.mu).next_up()
    }

    /// The half-width of the band around a single release that holds 95 % of its noise, in standard deviations: the Gaussian
    /// quantile; where Laplace noise is asked for that of a single value, `ln(20)/√2`, of which sums have lighter tails.
    pub fn band(&self) -> f64 {
        match self.kind {
            Kind::Pure { .. } => 2.118_302_605_249_420_3,
            _ => 1.959_963_984_540_054,
        }
    }

    /// The zCDP parameter that the bought Gaussian noise satisfies, `ρ = μ²/2`, rounded up.
    pub fn rho_equivalent(&self) -> f64 {
        (self.mu * self.mu / 2.0).next_up()
    }

    /// An ε such that everything that is ε-differentially private, with δ = 0, is within this budget, rounded down: the ε that was stated;
    /// `sqrt(2ρ)` for ρ-zCDP (Bun and Steinke 2016); `ln(Φ(μ/2)/Φ(-μ/2))` for μ-GDP.
    ///
    /// # Privacy
    /// The last: the trade-off curve of ε consists of the segments from (0, 1) over (a, a) to (1, 0) with `a = 1/(1 + e^ε)`. That of μ
    /// is convex, has the same two ends, and meets the diagonal at `Φ(-μ/2) = a`: it lies below the segments.
    pub fn pure_epsilon(&self) -> f64 {
        match self.kind {
            Kind::Approximate { epsilon, .. } | Kind::Pure { epsilon } => epsilon,
            Kind::ZeroConcentrated { .. } => self.mu,
            Kind::Gaussian { mu } => {
                let tail = |x: f64| 0.5 * libm::erfc(x / std::f64::consts::SQRT_2);
                // The two tails are accurate to a few ulps, their quotient is at least 1.
                ((tail(-mu / 2.0) / tail(mu / 2.0)).ln() - 1e-14).max(0.0) * (1.0 - 1e-13)
            }
        }
    }

    /// A share of this budget for one of several releases over the same data: μ² is additive, so a release
    /// that gets the fraction `share` of μ² may use `μ·sqrt(share)`; a pure ε is additive itself. Shares that sum to at most 1 compose to
    /// this budget, also adaptively.
    ///
    /// # Errors
    /// A share outside (0, 1].
    pub fn share(&self, share: f64) -> Result<Self> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(Error::OutOfRange { what: "share of the budget", value: share, range: "(0, 1]" });
        }
        if share == 1.0 {
            return Ok(*self);
        }
        if let Kind::Pure { epsilon } = self.kind {
            // Pure budgets add up themselves.
            return Self::pure((epsilon * share).next_down());
        }
        Self::gaussian((self.mu * share.sqrt()).next_down().next_down())
    }
}

/// The total μ of several Gaussian releases over the same data, `sqrt(Σ μ_i²)`, rounded up.
pub fn compose_gdp(mus: &[f64]) -> f64 {
    dp_linalg::norms::round_up_sum_of_squares(mus).sqrt().next_up()
}

/// From μ-GDP to (ε, δ): the exact δ at a given ε.
///
/// # Errors
/// Parameters that are not finite and positive.
pub fn delta_from_gdp(epsilon: f64, mu: f64) -> Result<f64> {
    check_positive("epsilon", epsilon)?;
    check_positive("mu", mu)?;
    Ok(gaussian_delta(epsilon, mu).min(1.0))
}

/// From μ-GDP to (ε, δ): the smallest ε at a given δ, rounded up to the private side.
///
/// # Errors
/// μ not finite and positive, δ not in (0, 1).
pub fn epsilon_from_gdp(mu: f64, delta: f64) -> Result<f64> {
    check_positive("mu", mu)?;
    if !(delta > 0.0 && delta < 1.0) {
        return Err(Error::OutOfRange { what: "delta", value: delta, range: "strictly between 0 and 1" });
    }
    // δ(ε) decreases in ε; at ε = μ²/2 + μ·40 it is below any f64.
    let (mut low, mut high) = (f64::MIN_POSITIVE, mu * (mu / 2.0 + 40.0));
    if gaussian_delta(low, mu) <= delta {
        return Ok(low);
    }
    for _ in 0..200 {
        // Bisection in the logarithm while the bracket spans magnitudes, in the value afterwards.
        let middle = if high > 4.0 * low { (low * high).sqrt() } else { low + (high - low) / 2.0 };
        if !(middle > low && middle < high) {
            break;
        }
        if gaussian_delta(middle, mu) <= delta { high = middle } else { low = middle }
    }
    Ok((high * (1.0 + PRIVATE_MARGIN)).next_up())
}

/// From (ε, δ) to GDP: the largest μ for which μ-GDP implies (ε, δ)-DP, rounded down.
///
/// # Errors
/// When δ is so small, or ε so large, that no f64 describes the answer.
fn gdp_from_approximate(epsilon: f64, delta: f64) -> Result<f64> {
    let excess = |log_mu: f64| gaussian_delta(epsilon, log_mu.exp()).ln() - delta.ln();
    // μ is below the solution of ε = μ²/2 when δ < ½, and never above sqrt(2ε) + 2·40.
    let (mut low, mut high) = (-700.0_f64, ((2.0 * epsilon).sqrt() + 80.0).ln());
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if !(middle > low && middle < high) {
            break;
        }
        if excess(middle) <= 0.0 { low = middle } else { high = middle }
    }
    let mut mu = low.exp();
    // Step to the private side of every rounding error, then check the very number that is returned.
    for _ in 0..100 {
        mu *= 1.0 - PRIVATE_MARGIN;
        if mu > f64::MIN_POSITIVE && gaussian_delta(epsilon, mu) * (1.0 + PRIVATE_MARGIN) <= delta {
            return Ok(mu);
        }
    }
    Err(Error::OutOfRange {
        what: "delta",
        value: delta,
        range: "large enough for f64 arithmetic at this epsilon",
    })
}

/// The relative margin that is kept to the private side; the quadrature is accurate to less.
const PRIVATE_MARGIN: f64 = 2e-14;

/// The exact δ(ε) of μ-GDP, to about 1e-14 relative.
fn gaussian_delta(epsilon: f64, mu: f64) -> f64 {
    let above = epsilon / mu - mu / 2.0;
    let below = epsilon / mu + mu / 2.0;
    if above < 0.0 && mu > 0.01 {
        // Both tails are of order one and their difference is of order μ: nothing is lost.
        let root = std::f64::consts::SQRT_2;
        let tail = (-above * above / 2.0).exp() * errorfunctions::RealErrorFunctions::erfcx(below / root);
        return 0.5 * (libm::erfc(above / root) - tail);
    }
    // ∫_0^μ φ(ε/m - m/2) dm with m = μ e^{-s}: the integrand falls like exp(-s·above·below - (s·below)²/2).
    let argument = |s: f64| epsilon / mu * s.exp() - mu / 2.0 * (-s).exp();
    let integrand = |s: f64| {
        let a = argument(s);
        // Relative to the value at s = 0, so that nothing underflows before the end.
        ((above - a) * (above + a) / 2.0 - s).exp()
    };
    let mut width = 1.0 / (1.0 + above.abs() * below + below);
    let (mut start, mut total) = (0.0, 0.0);
    loop {
        let part: f64 = GAUSS_LEGENDRE
            .iter()
            .map(|&(node, weight)| {
                weight
                    * (integrand(start + width * (0.5 - node / 2.0))
                        + integrand(start + width * (0.5 + node / 2.0)))
            })
            .sum::<f64>()
            * (width / 2.0);
        total += part;
        start += width;
        if (part <= total * 1e-18 && argument(start) > 0.0) || start > 1500.0 {
            break;
        }
        width = (width * 1.5).min(0.5);
    }
    let log_density = -above * above / 2.0 - 0.5 * (2.0 * std::f64::consts::PI).ln();
    mu * (log_density + total.ln()).exp()
}

/// Positive nodes and weights of the 16-point Gauss-Legendre rule.
const GAUSS_LEGENDRE: [(f64, f64); 8] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5),
    (0.281_603_550_779_258_9, 0.182_603_415_044_923_6),
    (0.458_016_777_657_227_4, 0.169_156_519_395_002_54),
    (0.617_876_244_402_643_8, 0.149_595_988_816_576_73),
    (0.755_404_408_355_003, 0.124_628_971_255_533_87),
    (0.865_631_202_387_831_7, 0.095_158_511_682_492_78),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_894),
    (0.989_400_934_991_649_9, 0.027_152_459_411_754_095),
];

/// The closed-form multipliers printed in the literature, for reproducing published figures only.
///
/// They are proved for ε < 1, disagree with one another by up to a factor 2, and add 1.16 to 3.15 times the
/// standard deviation that is needed. No mechanism in this library uses them.
pub mod published {
    use std::f64::consts::PI;

    /// `(2/ε) sqrt(4/9 + ln(sqrt(2/π)/δ))`, from *Almost Tight Error Bounds on Differentially Private Continual Counting*.
    pub fn almost_tight_counting(epsilon: f64, delta: f64) -> f64 {
        2.0 / epsilon * (4.0 / 9.0 + ((2.0 / PI).sqrt() / delta).ln()).sqrt()
    }

    /// `(1/ε) sqrt(8/9 + 2 ln(sqrt(2/π)/δ))`, from *Constant Matters*.
    pub fn constant_matters(epsilon: f64, delta: f64) -> f64 {
        1.0 / epsilon * (8.0 / 9.0 + 2.0 * ((2.0 / PI).sqrt() / delta).ln()).sqrt()
    }

    /// `2 sqrt(2 ln(1.25/δ))/ε`, from *A Unifying Framework for Differentially Private Sums*.
    pub fn unifying_framework(epsilon: f64, delta: f64) -> f64 {
        2.0 * (2.0 * (1.25 / delta).ln()).sqrt() / epsilon
    }
}

/// `Φ⁻¹(1 - probability)`, rounded up: bisection of the tail itself, which has full relative accuracy.
pub fn upper_quantile(probability: f64) -> f64 {
    let tail = |x: f64| 0.5 * libm::erfc(x / std::f64::consts::SQRT_2);
    // The error function is accurate to a few ulps; the margin covers them.
    let target = probability * (1.0 - 1e-13);
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if tail(middle) <= target { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is ε-differentially private has `δ(ε') ≤ (e^ε - e^ε')/(1 + e^ε)`, which randomized response attains: below that of μ everywhere, and
    /// equal to it at ε' = 0, so that no larger ε would do.
    #[test]
    fn a_pure_epsilon_is_within_the_gaussian_budget_it_stands_for() {
        for mu in [0.01, 0.3, 1.0, 4.0] {
            let epsilon = Budget::gaussian(mu).unwrap().pure_epsilon();
            let pure = |other: f64| (epsilon.exp() - other.exp()) / (1.0 + epsilon.exp());
            for other in (1..100).map(|step| epsilon * f64::from(step) / 100.0) {
                assert!(
                    pure(other) <= delta_from_gdp(other, mu).unwrap() * (1.0 + 1e-9),
                    "μ = {mu} at {other}"
                );
            }
            let tail = 0.5 * libm::erfc(mu / 2.0 / std::f64::consts::SQRT_2);
            assert!((pure(0.0) / (1.0 - 2.0 * tail) - 1.0).abs() < 1e-9);
        }
        assert_eq!(Budget::approximate(0.7, 1e-6).unwrap().pure_epsilon(), 0.7);
        assert!(Budget::zero_concentrated(0.5).unwrap().pure_epsilon() <= 1.0);
    }

    #[test]
    fn calibration_agrees_with_independent_values() {
        // Computed with 60-digit arithmetic.
        let rows = [
            (0.1, 1e-5, 0.032_520_784_056_203_91),
            (0.5, 1e-8, 0.101_383_542_720_552_18),
            (1.0, 1e-6, 0.236_704_380_663_435_72),
            (2.0, 1e-10, 0.330_491_814_932_867_8),
            (8.0, 1e-5, 1.666_030_597_845_718_2),
        ];
        for (epsilon, delta, mu) in rows {
            let got = Budget::approximate(epsilon, delta).unwrap().mu();
            assert!((got / mu - 1.0).abs() < 1e-12, "{epsilon} {delta}: {got} vs {mu}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_budget_that_was_written_down_buys_what_it_states() {
        let budget = Budget::approximate(1.0, 1e-6).unwrap();
        let text = serde_json::to_string(&budget).unwrap();
        assert_eq!(serde_json::from_str::<Budget>(&text).unwrap(), budget);
        // A larger μ than (ε, δ) buys is not believed, and no budget is made of nonsense.
        let forged = r#"{"kind":{"approximate":{"epsilon":1.0,"delta":1e-6}},"mu":50.0}"#;
        assert_eq!(serde_json::from_str::<Budget>(forged).unwrap(), budget);
        for bad in [
            r#"{"kind":{"approximate":{"epsilon":-1.0,"delta":1e-6}},"mu":0.2}"#,
            r#"{"kind":{"approximate":{"epsilon":1.0,"delta":0.0}},"mu":0.2}"#,
            r#"{"kind":{"zero-concentrated":{"rho":0.0}},"mu":1.0}"#,
            r#"{"kind":{"gaussian":{"mu":-1.0}},"mu":1.0}"#,
        ] {
            assert!(serde_json::from_str::<Budget>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn published_constants_add_too_much() {
        for (epsilon, delta) in [(0.1, 1e-5), (0.5, 1e-8), (0.99, 1e-10)] {
            let needed = Budget::approximate(epsilon, delta).unwrap().unit_sigma();
            for constant in [
                published::almost_tight_counting(epsilon, delta),
                published::constant_matters(epsilon, delta),
                published::unifying_framework(epsilon, delta),
            ] {
                let ratio = constant / needed;
                assert!((1.1..3.3).contains(&ratio), "{ratio}");
            }
        }
    }

    #[test]
    fn bad_budgets_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Budget::approximate(bad, 1e-6).is_err());
            assert!(Budget::zero_concentrated(bad).is_err());
            assert!(Budget::gaussian(bad).is_err());
            assert!(delta_from_gdp(bad, 1.0).is_err() && delta_from_gdp(1.0, bad).is_err());
        }
        for delta in [0.0, 1.0, 1.5, -0.1, f64::NAN] {
            assert!(Budget::approximate(1.0, delta).is_err());
        }
        assert!(Budget::gaussian(1.0).unwrap().share(0.0).is_err());
        assert!(Budget::gaussian(1.0).unwrap().share(1.1).is_err());
    }

    #[test]
    fn shares_compose_to_the_whole() {
        let budget = Budget::approximate(1.0, 1e-6).unwrap();
        let parts: Vec<f64> = [0.5, 0.3, 0.2].iter().map(|s| budget.share(*s).unwrap().mu()).collect();
        let total = compose_gdp(&parts);
        assert!(total <= budget.mu() * (1.0 + 1e-15) && total > budget.mu() * (1.0 - 1e-14));
    }

    proptest! {
        #[test]
        fn calibration_is_private_and_tight(
            log_epsilon in -9.0_f64..7.0, log_delta in -69.0_f64..-0.01,
        ) {
            let (epsilon, delta) = (log_epsilon.exp(), log_delta.exp());
            let mu = Budget::approximate(epsilon, delta).unwrap().mu();
            prop_assert!(delta_from_gdp(epsilon, mu).unwrap() <= delta);
            prop_assert!(delta_from_gdp(epsilon, mu * (1.0 + 1e-12)).unwrap() > delta);
            let back = epsilon_from_gdp(mu, delta).unwrap();
            prop_assert!(back <= epsilon * (1.0 + 1e-9));
        }
    }

    #[test]
    fn quantiles_agree_with_tables() {
        for (probability, quantile) in [
            (0.5, 0.0),
            (0.025, 1.959_963_984_540_054),
            (1e-6, 4.753_424_308_822_899),
            (1e-12, 7.034_483_825_301_67),
        ] {
            let actual = upper_quantile(probability);
            assert!((actual - quantile).abs() < 1e-9, "{probability}: {actual}");
        }
    }
}
