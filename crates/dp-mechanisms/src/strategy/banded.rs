//! Banded strategies: few coefficients in C, or few in its inverse.
//!
//! A banded C is undone by forward substitution over the last b-1 values of ξ. When one person's participations are at least
//! b steps apart its columns do not overlap, so `Δ² = times · Σ c_k²` without any cross terms. A banded inverse is a finite
//! filter over the last b values of z.

use dp_linalg::series;

use super::Metric;
use super::optimal_toeplitz::minimize_coefficients;
use super::toeplitz::{Core, ToeplitzStrategy, sqrt_core};
use crate::error::{Result, check_count};
use crate::sensitivity::Participation;
use crate::workload::{Kind, Workload};

/// The number of bands for one participation, and the most for several: each costs a multiplication per coordinate and step.
const DEFAULT_BANDS: usize = 32;

/// The longest horizon to which coefficients are fitted; far beyond the band they do not depend on it.
const FIT_LIMIT: usize = 1 << 13;

/// As many bands as a step can afford, and no more than the participations are apart.
pub fn default_bands(steps: usize, participation: Participation) -> usize {
    let apart = match participation {
        Participation::Single => DEFAULT_BANDS,
        Participation::Repeated { separation, .. } => separation,
    };
    apart.min(DEFAULT_BANDS).min(steps).max(1)
}

/// The optimal strategy with `default_bands` coefficients.
///
/// # Errors
/// Zero steps, or weights whose series has no square root to start from.
pub fn banded(
    workload: &Workload,
    steps: usize,
    participation: Participation,
    metric: Metric,
) -> Result<ToeplitzStrategy> {
    check_count("steps", steps)?;
    let bands = default_bands(steps, participation);
    let band = minimize_coefficients(workload, steps.min(FIT_LIMIT), bands, participation, metric)?;
    ToeplitzStrategy::plain("banded", workload, steps, Core::Banded(band))
}

/// The first `default_bands` coefficients of the inverse of the square root.
///
/// # Errors
/// Zero steps, or weights whose series has no square root.
pub fn banded_inverse(
    workload: &Workload,
    steps: usize,
    participation: Participation,
) -> Result<ToeplitzStrategy> {
    check_count("steps", steps)?;
    let bands = default_bands(steps, participation);
    let band = match workload.kind() {
        Kind::Count | Kind::Average => series::binomial(-0.5, bands),
        _ => sqrt_core(workload, steps)?.inverse(bands)?,
    };
    ToeplitzStrategy::plain("banded-inverse", workload, steps, Core::BandedInverse(band))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Strategy;

    fn error(strategy: &dyn Strategy, participation: Participation) -> f64 {
        strategy.sensitivity(participation).unwrap().squared * strategy.row_norms().unwrap().mean()
    }

    #[test]
    fn factors_multiply_to_the_workload() {
        let repeated = Participation::repeated(3, 8).unwrap();
        for text in ["count", "window:6", "average"] {
            let workload: Workload = text.parse().unwrap();
            let expected = workload.materialize(50).unwrap();
            for strategy in [
                banded(&workload, 50, repeated, Metric::Mse).unwrap(),
                banded_inverse(&workload, 50, repeated).unwrap(),
            ] {
                let factors = strategy.materialize().unwrap();
                let product = factors.decoder.dot(&factors.strategy);
                let worst = (&product - &expected).iter().fold(0.0_f64, |m, v| m.max(v.abs()));
                assert!(worst < 1e-12, "{text} {}: {worst}", strategy.name());
            }
        }
    }

    #[test]
    fn bands_that_do_not_meet_have_no_cross_terms() {
        let participation = Participation::repeated(5, 16).unwrap();
        let strategy = banded(&Workload::count(), 200, participation, Metric::Mse).unwrap();
        let single = strategy.sensitivity(Participation::Single).unwrap();
        let repeated = strategy.sensitivity(participation).unwrap();
        assert!(repeated.exact);
        assert!((repeated.squared / (5.0 * single.squared) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn optimizing_beats_truncating_the_square_root() {
        let workload = Workload::count();
        for participation in [Participation::Single, Participation::repeated(10, 40).unwrap()] {
            let fitted = banded(&workload, 400, participation, Metric::Mse).unwrap();
            let truncated = Core::Banded(series::binomial(0.5, default_bands(400, participation)));
            let truncated = ToeplitzStrategy::plain("banded", &workload, 400, truncated).unwrap();
            let (fitted, truncated) = (error(&fitted, participation), error(&truncated, participation));
            assert!(fitted < 0.99 * truncated, "{participation}: {fitted} {truncated}");
        }
    }
}
