//! What a budget buys when the noise is a discrete Gaussian or a discrete Laplace.
//!
//! | budget | theorem | variance for squared ℓ2 sensitivity Δ² |
//! |---|---|---|
//! | ρ-zCDP | discrete Gaussian: Canonne, Kamath, Steinke 2020 | `σ² = Δ²/(2ρ)` |
//! | (ε, δ) | the better of the two routes below | `σ² = Δ²/μ²` |
//! | μ-GDP | the second of the two routes below, with its slack | `σ² = Δ²/μ²` |
//! | (ε, 0) | discrete Laplace | scale `Δ_1/ε`, ℓ1 sensitivity |
//!
//! # Two routes to (ε, δ)
//!
//! **Through zCDP.** ρ-zCDP implies (ε, δ) for `δ = min_α exp((α-1)(αρ-ε)) (1-1/α)^α / (α-1)`; every order
//! `α > 1` gives a valid δ, so an inexact minimum costs a little noise and never privacy. It holds at any σ, and asks for
//! several percent more noise than the continuous Gaussian.
//!
//! **Through the rounded Gaussian.** Let g be the discrete Gaussian and r a continuous one rounded to the nearest
//! integer, both with parameter σ² ≥ 1/24, and φ the density. For every integer k
//!
//! `r(k)/φ(k) = ∫_{-½}^{½} e^{-u²/2σ²} cosh(ku/σ²) du ≥ ∫_{-½}^{½} (1 - u²/2σ²) du = 1 - 1/(24σ²)`,
//!
//! while `g(k) = φ(k)/Z` with `Z = Σφ(k) > 1` (Poisson summation). Hence the total variation distance is
//! `Σ (g - r)⁺ ≤ Z (1/Z - 1 + 1/(24σ²)) ≤ 1/(24σ²)`. Integer measurements plus rounded noise are the
//! measurements plus Gaussian noise, rounded afterwards: post-processing of the Gaussian mechanism, which is exactly
//! `Δ/σ`-GDP, adaptively. Exchanging all m noise values for discrete ones moves each of the two transcripts by at most
//! `m/(24σ²)`, so the discrete mechanism is (ε, δ) for
//!
//! `δ = δ_GDP(ε; Δ/σ) + (1 + e^ε) m/(24σ²)`.
//!
//! Only values of coordinates that the one person can change count for m. The measurements of all others are equal in the two
//! worlds, and so is their noise: they are made in the same way from the same past in both, whatever their law, and add
//! nothing to the divergence of the adaptive composition, in the discrete mechanism as in the rounded one. So m is the
//! number of rows times the number of coordinates that one person can reach, not times all that there are.
//!
//! For a μ-GDP budget the same distance is the slack of the claim: whatever test somebody runs on the releases, its two error
//! rates are those of a test against `N(0, 1)` and `N(μ, 1)`, each up to `m/(24σ²)` ([`gaussian_slack`]).
//!
//! Measurements are taken on a fine lattice (40 bits below the unit, σ ≈ 2^40 and more), so the second term is about
//! 10^-19 for ε = 1 and a million values, and the price against the continuous calibration vanishes:
//!
//! | ε | δ | m | noise through zCDP | noise through the rounded Gaussian, σ = 2^40 |
//! |---|---|---|---|---|
//! | 0.1 | 1e-6 | 2^20 | 1.087 | 1.000000 |
//! | 1 | 1e-6 | 2^20 | 1.072 | 1.000000 |
//! | 1 | 1e-9 | 2^20 | 1.052 | 1.000000 |
//! | 8 | 1e-6 | 2^20 | 1.056 | 1.000000 |
//!
//! (standard deviations relative to the continuous calibration of [`crate::budget`]; a test computes this table).

use crate::budget::{Budget, delta_from_gdp};
use crate::error::{Error, Result, check_positive};

/// How far exact noise may be from the Gaussian that a μ-GDP budget speaks of: `m/(24σ²)`, rounded up, in total variation,
/// for m values of noise with parameter σ².
///
/// # Privacy
/// With this slack s every pair of error rates (α, β) of a test satisfies `β ≥ G_μ(α + s) - s`, and
/// `δ(ε) ≤ δ_GDP(ε; μ) + (1 + e^ε) s` for every ε.
pub fn gaussian_slack(measurements: f64, variance: f64) -> f64 {
    if variance < 1.0 {
        1.0
    } else {
        (measurements / (24.0 * variance) * (1.0 + 4.0 * f64::EPSILON)).min(1.0)
    }
}

/// The largest `q`, rounded down, such that `σ² ≥ Δ²/q` satisfies (ε, δ) for `measurements` values of exact Gaussian
/// noise against a squared sensitivity of at least `least_squared_sensitivity`.
pub(super) fn variance_divisor(
    epsilon: f64,
    delta: f64,
    measurements: f64,
    least_squared_sensitivity: f64,
) -> Result<f64> {
    let through_zcdp = 2.0 * rho_from_approximate(epsilon, delta)?;
    // Less than δ is left for the Gaussian, so σ will be at least what δ itself asks for.
    let continuous = Budget::approximate(epsilon, delta)?.mu();
    let least_variance = least_squared_sensitivity / (continuous * continuous);
    let distance = (1.0 + epsilon.exp()) * measurements / (24.0 * least_variance) * (1.0 + 1e-12);
    if !(distance < delta && least_variance > 1.0) {
        return Ok(through_zcdp);
    }
    let mu = Budget::approximate(epsilon, (delta - distance).next_down())?.mu();
    Ok(through_zcdp.max((mu * mu).next_down()))
}

/// From ρ-zCDP to (ε, δ): the δ of the best Rényi order, rounded up.
///
/// # Errors
/// Parameters that are not finite and positive.
pub fn delta_from_zcdp(epsilon: f64, rho: f64) -> Result<f64> {
    check_positive("epsilon", epsilon)?;
    check_positive("rho", rho)?;
    // Exponential and product round by less than this.
    Ok((log_delta(epsilon, rho).exp() * (1.0 + 4.0 * f64::EPSILON)).min(1.0))
}

/// From (ε, δ) to zCDP: the largest ρ for which ρ-zCDP is known to imply (ε, δ), rounded down and re-checked.
///
/// # Errors
/// ε not finite and positive, δ not in (0, 1), or a combination beyond f64.
pub fn rho_from_approximate(epsilon: f64, delta: f64) -> Result<f64> {
    check_positive("epsilon", epsilon)?;
    if !(delta > 0.0 && delta < 1.0) {
        return Err(Error::OutOfRange { what: "delta", value: delta, range: "strictly between 0 and 1" });
    }
    // ρ = ε²/4 already needs no more than δ = 1 asks for; the logarithm of ρ is bisected.
    let (mut low, mut high) = (-700.0_f64, (epsilon + 100.0).ln());
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if !(middle > low && middle < high) {
            break;
        }
        if log_delta(epsilon, middle.exp()) <= delta.ln() { low = middle } else { high = middle }
    }
    let mut rho = low.exp();
    for _ in 0..100 {
        rho *= 1.0 - 1e-13;
        if rho > f64::MIN_POSITIVE && delta_from_zcdp(epsilon, rho)? <= delta {
            return Ok(rho);
        }
    }
    Err(Error::OutOfRange {
        what: "delta",
        value: delta,
        range: "large enough for f64 arithmetic at this epsilon",
    })
}

/// The logarithm of δ at the best order found, by a golden section over `ln(α - 1)`, rounded up.
///
/// With `a = α - 1` it is `a (αρ - ε) - a ln(1 + 1/a) - ln(1 + a)`. No two terms of this form nearly cancel at the best
/// order, where αρ is about half of ε. Each factor and each sum rounds by half a unit of its own magnitude, and the logarithms
/// by less than one: sixteen units of the sum of magnitudes are more than all of it.
fn log_delta(epsilon: f64, rho: f64) -> f64 {
    let at = |log: f64| {
        let above = log.exp();
        let order = 1.0 + above;
        let (gain, loss) = (above * (order * rho), above * epsilon);
        let (shrink, spread) = (above * (1.0 / above).ln_1p(), above.ln_1p());
        let rounding = 16.0 * f64::EPSILON * (gain + loss + shrink + spread);
        above * (order * rho - epsilon) - shrink - spread + rounding
    };
    // The best order is near 1 + (ε - ρ)/(2ρ), and never far from it on a logarithmic scale.
    let centre = ((epsilon / (2.0 * rho)).max(1e-12)).ln();
    let (mut low, mut high) = (centre - 20.0, centre + 4.0);
    let ratio = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..100 {
        let (left, right) = (high - ratio * (high - low), low + ratio * (high - low));
        if at(left) <= at(right) { high = right } else { low = left }
    }
    at(low + (high - low) / 2.0).min(0.0)
}

/// The δ that `measurements` values of discrete Gaussian noise with parameter `variance` are known to satisfy at ε, through
/// the better of the two routes.
///
/// # Errors
/// Parameters that are not finite and positive.
pub fn delta_of_discrete_gaussian(
    epsilon: f64,
    squared_sensitivity: f64,
    variance: f64,
    measurements: f64,
) -> Result<f64> {
    let q = (squared_sensitivity / variance).next_up();
    let zcdp = delta_from_zcdp(epsilon, q / 2.0)?;
    if variance < 1.0 {
        return Ok(zcdp);
    }
    let gaussian = delta_from_gdp(epsilon, q.sqrt().next_up())?;
    let distance = (1.0 + epsilon.exp()) * measurements / (24.0 * variance);
    Ok(zcdp.min((gaussian + distance) * (1.0 + 1e-12)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_of_prices_is_true() {
        let rows = [(0.1, 1e-6, 1.087), (1.0, 1e-6, 1.072), (1.0, 1e-9, 1.052), (8.0, 1e-6, 1.056)];
        for (epsilon, delta, price) in rows {
            let continuous = Budget::approximate(epsilon, delta).unwrap().mu();
            let zcdp = (2.0 * rho_from_approximate(epsilon, delta).unwrap()).sqrt();
            assert!((continuous / zcdp - price).abs() < 5e-4, "{epsilon} {delta}: {}", continuous / zcdp);
            let sensitivity = 2.0_f64.powi(80) * continuous * continuous;
            let rounded = variance_divisor(epsilon, delta, 2.0_f64.powi(20), sensitivity).unwrap().sqrt();
            assert!((continuous / rounded - 1.0).abs() < 1e-6, "{epsilon} {delta}: {}", continuous / rounded);
        }
    }

    /// The total variation distance itself, summed, against the bound of the module's proof.
    #[test]
    fn the_rounded_gaussian_is_as_close_as_claimed() {
        for variance in [0.1_f64, 0.25, 1.0, 4.0, 30.0] {
            let sigma = variance.sqrt();
            let cdf = |x: f64| 0.5 * libm::erfc(-x / (sigma * std::f64::consts::SQRT_2));
            let weight = |k: i32| (-f64::from(k * k) / (2.0 * variance)).exp();
            let total: f64 = (-200..=200).map(weight).sum();
            let distance: f64 = (-200..=200)
                .map(|k: i32| {
                    // By symmetry the lower tail, where nothing cancels.
                    let x = -f64::from(k.abs());
                    (weight(k) / total - (cdf(x + 0.5) - cdf(x - 0.5))).max(0.0)
                })
                .sum();
            let bound = 1.0 / (24.0 * variance);
            assert!(distance <= bound, "{variance}: {distance} > {bound}");
            assert!(distance > 0.1 * bound || variance < 0.2, "{variance}: {distance} against {bound}");
        }
    }

    /// The minimum over all orders, by an independent search in 60-digit arithmetic.
    #[test]
    fn the_logarithm_of_delta_is_rounded_up_and_no_more_than_that() {
        for (epsilon, rho, least) in [
            (1.0, 0.015, -20.691_510_333_215_33),
            (0.1, 0.0001, -32.174_439_337_546_16),
            (0.01, 1e-6, -34.521_999_839_252_814),
            (1e-3, 1e-9, -264.122_861_384_292_96),
            (1e-4, 1e-12, -2_518.727_583_543_399_6),
            (8.0, 0.5, -31.211_502_884_534_68),
            (1.0, 1e-8, -25_000_018.227_533_575),
            (0.5, 1e-10, -625_000_022.389_556_5),
            (20.0, 3.0, -26.291_031_085_171_19),
            (1e-6, 1e-16, -2_523.332_803_229_387),
            (3.0, 1.5, -1.477_601_573_735_725_5),
            (0.1, 0.2, -1.108_261_948_161_545_2),
            (1e-5, 1e-9, -10.751_626_104_033_67),
        ] {
            let computed = log_delta(epsilon, rho);
            // The reference itself is a rounded double.
            let ulp = f64::EPSILON * f64::abs(least);
            assert!(computed >= least - ulp, "{epsilon} {rho}: {computed} below {least}");
            assert!(computed <= least + 80.0 * ulp + 1e-13, "{epsilon} {rho}: {computed} above {least}");
        }
    }

    #[test]
    fn the_slack_is_what_discrete_noise_costs() {
        assert!(gaussian_slack(24.0, 100.0) >= 0.01 && gaussian_slack(24.0, 100.0) < 0.010_000_001);
        assert_eq!(gaussian_slack(1.0, 0.5), 1.0, "nothing is known of such narrow noise");
        assert!(Budget::pure(0.0).is_err() && Budget::pure(f64::NAN).is_err());
        assert!(rho_from_approximate(1.0, 1.0).is_err() && rho_from_approximate(f64::NAN, 0.1).is_err());
    }

    proptest! {
        #[test]
        fn zcdp_conversion_is_sound_and_tight(log_epsilon in -5.0_f64..4.0, log_delta in -60.0_f64..-1.0) {
            let (epsilon, delta) = (log_epsilon.exp(), log_delta.exp());
            let rho = rho_from_approximate(epsilon, delta).unwrap();
            prop_assert!(delta_from_zcdp(epsilon, rho).unwrap() <= delta);
            prop_assert!(delta_from_zcdp(epsilon, rho * (1.0 + 1e-6)).unwrap() > delta);
            // A Gaussian with this ρ has its exact δ below: the conversion never promises too much.
            prop_assert!(delta_from_gdp(epsilon, (2.0 * rho).sqrt()).unwrap() <= delta);
        }
    }
}
