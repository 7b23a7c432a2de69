//! Banded strategies: few coefficients in C, or few in its inverse.
//!
//! A banded C is undone by forward substitution over the last b-1 values of ξ. When one person's participations are at least
//! b steps apart its columns do not overlap, so `Δ² = times · Σ c_k²` without any cross terms. A banded inverse is a finite
//! filter over the last b values of z.

use dp_linalg::series;

use super::Watch;
use super::optimal_toeplitz::minimize_coefficients;
use super::toeplitz::{Core, ToeplitzStrategy, root_core};
use crate::error::Result;
use crate::problem::Problem;
use crate::sensitivity::Participation;

/// The number of bands for one participation, and the most for several: each costs a multiplication per coordinate and step.
const DEFAULT_BANDS: usize = 32;

/// The longest horizon to which coefficients are fitted; far beyond the band they do not depend on it.
const FIT_LIMIT: usize = 1 << 13;

/// As many bands as a step can afford, and no more than the participations are apart.
pub fn default_bands(problem: &Problem) -> usize {
    let participation = problem.participation();
    let several = participation != Participation::Single;
    let apart = if several { participation.separation() } else { DEFAULT_BANDS };
    apart.min(DEFAULT_BANDS).min(problem.steps())
}

/// The optimal strategy with `default_bands` coefficients.
///
/// # Errors
/// Weights whose series has no square root to start from, or a watch that stops the fit.
pub fn banded(problem: &Problem, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    with_bands(problem, default_bands(problem), watch)
}

/// The optimal strategy with so many coefficients, and no more than there are steps.
///
/// # Errors
/// No bands, weights whose series has no square root to start from, or a watch that stops the fit.
pub fn with_bands(problem: &Problem, bands: usize, watch: &mut Watch<'_>) -> Result<ToeplitzStrategy> {
    let steps = problem.steps();
    let shorter = problem.with_steps(steps.min(FIT_LIMIT));
    let band = minimize_coefficients(&shorter, bands.min(shorter.steps()), watch)?;
    ToeplitzStrategy::plain("banded", problem.workload(), steps, Core::Banded(band))
}

/// The first `default_bands` coefficients of the inverse of the square root.
///
/// # Errors
/// Weights whose series has no square root.
pub fn banded_inverse(problem: &Problem) -> Result<ToeplitzStrategy> {
    let (workload, steps, bands) = (problem.workload(), problem.steps(), default_bands(problem));
    let band = match problem.statistics() {
        [one] if one.workload().is_prefix_sum() => series::binomial(-0.5, bands),
        statistics => root_core(statistics, steps)?.inverse(bands)?,
    };
    ToeplitzStrategy::plain("banded-inverse", workload, steps, Core::BandedInverse(band))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use crate::strategy::{Strategy, unwatched};

    fn problem(workload: &Workload, steps: usize, participation: Participation) -> Problem {
        Problem::new(workload.clone(), steps).unwrap().with_participation(participation)
    }

    fn error(strategy: &dyn Strategy, participation: Participation) -> f64 {
        strategy.sensitivity(participation).unwrap().squared * strategy.row_norms().unwrap().mean()
    }

    #[test]
    fn factors_multiply_to_the_workload() {
        let repeated = Participation::repeated(3, 8).unwrap();
        for text in ["count", "window:6", "average"] {
            let workload: Workload = text.parse().unwrap();
            let expected = workload.materialize(50).unwrap();
            let problem = problem(&workload, 50, repeated);
            for strategy in [banded(&problem, &mut unwatched).unwrap(), banded_inverse(&problem).unwrap()] {
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
        let problem = problem(&Workload::count(), 200, participation);
        let strategy = banded(&problem, &mut unwatched).unwrap();
        let single = strategy.sensitivity(Participation::Single).unwrap();
        let repeated = strategy.sensitivity(participation).unwrap();
        assert!(repeated.exact);
        assert!((repeated.squared / (5.0 * single.squared) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn optimizing_beats_truncating_the_square_root() {
        let workload = Workload::count();
        for participation in [Participation::Single, Participation::repeated(10, 40).unwrap()] {
            let problem = problem(&workload, 400, participation);
            let fitted = banded(&problem, &mut unwatched).unwrap();
            let truncated = Core::Banded(series::binomial(0.5, default_bands(&problem)));
            let truncated = ToeplitzStrategy::plain("banded", &workload, 400, truncated).unwrap();
            let (fitted, truncated) = (error(&fitted, participation), error(&truncated, participation));
            assert!(fitted < 0.99 * truncated, "{participation}: {fitted} {truncated}");
        }
    }
}
