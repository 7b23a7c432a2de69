//! The privacy game, played often: how much privacy a mechanism provably does *not* provide.
//!
//! Two neighbouring streams, a hidden bit, and an adversary who guesses the bit from the releases. The error rates of
//! any such guess limit the privacy parameters from below, whatever the mechanism is: that makes the audit a test of
//! a claim that knows nothing about why the claim should hold.

use dp_mechanisms::{Budget, budget};

use crate::goodness::normal_quantile;

/// What an audit found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Audit {
    /// With probability at least 1 - α the mechanism's parameter is at least this.
    pub shown: f64,
    /// The parameter that was claimed: ε for an (ε, δ) budget (at its δ), μ for all others.
    pub claimed: f64,
}

impl Audit {
    /// Whether the claim is refuted.
    pub fn refutes(self) -> bool {
        self.shown > self.claimed
    }
}

/// Plays `rounds` games with each value of the bit and bounds the mechanism's parameter from below.
///
/// `play(bit, seed)` plays one game with fresh randomness from the seed and returns a score that is larger the more
/// the releases look like those of the stream with the bit set. The first half of the games chooses the threshold of
/// the guess; the second half, which the choice does not depend on, counts its errors. Clopper-Pearson bounds both
/// error rates from above, with probability α/2 of being wrong each.
///
/// For a ρ-zCDP budget the parameter is the μ of the Gaussian noise that it buys.
pub fn audit(budget: &Budget, rounds: usize, alpha: f64, mut play: impl FnMut(bool, u64) -> f64) -> Audit {
    let mut scores = |bit: bool| -> Vec<f64> {
        // No two games share a seed.
        (0..rounds as u64).map(|round| play(bit, 2 * round + u64::from(bit))).collect()
    };
    let (mut absent, mut present) = (scores(false), scores(true));
    let counted = [absent.split_off(rounds / 2), present.split_off(rounds / 2)].map(sorted);
    let training = [absent, present].map(sorted);
    let shown = |scores: &[Vec<f64>; 2], threshold: f64| {
        let below = |scores: &[f64]| scores.partition_point(|score| *score < threshold);
        let [absent, present] = scores;
        let false_alarms = clopper_pearson_upper(absent.len() - below(absent), absent.len(), alpha / 2.0);
        let misses = clopper_pearson_upper(below(present), present.len(), alpha / 2.0);
        parameter(budget, false_alarms, misses)
    };
    let pooled = sorted(training.concat());
    let (best, _) = (1..THRESHOLDS)
        .map(|part| pooled[part * pooled.len() / THRESHOLDS])
        .map(|threshold| (threshold, shown(&training, threshold)))
        .max_by(|(_, one), (_, other)| one.total_cmp(other))
        .unwrap_or_default();
    let claimed = match budget.kind() {
        budget::Kind::Approximate { epsilon, .. } => epsilon,
        _ => budget.mu(),
    };
    Audit { shown: shown(&counted, best), claimed }
}

/// The number of thresholds to choose from, evenly spread over the scores.
const THRESHOLDS: usize = 200;

fn sorted(mut scores: Vec<f64>) -> Vec<f64> {
    scores.sort_by(f64::total_cmp);
    scores
}

/// The smallest parameter of the budget's kind that is compatible with the rates of wrong guesses.
///
/// (ε, δ): `e^ε FPR + FNR ≥ 1 - δ` and the same with the rates exchanged. μ: `Φ⁻¹(1 - FPR) - Φ⁻¹(FNR) ≤ μ`.
fn parameter(budget: &Budget, false_alarms: f64, misses: f64) -> f64 {
    match budget.kind() {
        budget::Kind::Approximate { delta, .. } => {
            let side = |numerator: f64, denominator: f64| {
                if numerator > 0.0 { (numerator / denominator).ln() } else { f64::NEG_INFINITY }
            };
            side(1.0 - delta - misses, false_alarms).max(side(1.0 - delta - false_alarms, misses))
        }
        _ => normal_quantile(1.0 - false_alarms) - normal_quantile(misses),
    }
}

/// The largest rate under which `successes` or fewer in `trials` have probability at least `alpha`: an upper bound of
/// the true rate that fails with probability at most `alpha`.
pub fn clopper_pearson_upper(successes: usize, trials: usize, alpha: f64) -> f64 {
    if successes >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (successes as f64 / trials as f64, 1.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if binomial_cdf(successes, trials, middle) > alpha { low = middle } else { high = middle }
    }
    high
}

/// `P(X ≤ successes)` for `X ~ Binomial(trials, rate)`, for rates above `successes / trials`: there the terms fall
/// from the last one down, so the sum ends where they no longer matter.
fn binomial_cdf(successes: usize, trials: usize, rate: f64) -> f64 {
    let (k, n) = (successes as f64, trials as f64);
    let log_last = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
        + k * rate.ln()
        + (n - k) * (-rate).ln_1p();
    let (mut term, mut sum) = (1.0, 0.0);
    for index in (0..=successes).rev() {
        sum += term;
        term *= index as f64 / (n - index as f64 + 1.0) * (1.0 - rate) / rate;
        if term < 1e-17 * sum {
            break;
        }
    }
    log_last.exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bounds_agree_with_known_ones() {
        // No success in n trials: 1 - α^{1/n}. One success in two trials: (1-p)² + 2p(1-p) = α, so p = sqrt(1-α).
        for (successes, trials, alpha, expected) in [
            (0, 10, 0.05, 1.0 - 0.05_f64.powf(0.1)),
            (0, 1000, 1e-6, 1.0 - 1e-6_f64.powf(1e-3)),
            (1, 2, 0.05, 0.95_f64.sqrt()),
            (5, 5, 0.05, 1.0),
        ] {
            let bound = clopper_pearson_upper(successes, trials, alpha);
            assert!((bound - expected).abs() < 1e-9, "{successes} of {trials}: {bound} against {expected}");
        }
    }

    #[test]
    fn coverage_is_what_was_asked_for() {
        // For every outcome k the probability of k or fewer under the bound is α.
        for successes in [0, 1, 7, 30, 99] {
            let bound = clopper_pearson_upper(successes, 100, 0.01);
            assert!((binomial_cdf(successes, 100, bound) - 0.01).abs() < 1e-6, "{successes}");
        }
    }
}
