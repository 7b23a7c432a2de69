//! The noise for a given (ε, δ), from the private side.

use super::pair::Direction;
use super::search::{Pilot, Question};
use super::{Accountant, Bracket, Event, NOISE_RANGE, check_delta, check_rate};
use crate::Budget;
use crate::error::{Error, Result, check_positive};

/// The smallest noise multiplier for which `steps` steps with Poisson sampling at `rate` are (ε, δ)-private.
///
/// [`Bracket::upper`] is the one to use: its own ε, rounded up, was checked to be at most the given one. Where δ is so large that it
/// covers whoever is drawn at all, that is the smallest noise multiplier there is, 1e-4, and nothing is below it.
///
/// # Example
/// ```
/// use dp_mechanisms::accountant::noise_multiplier;
/// let needed = noise_multiplier(2.0, 1e-5, 0.01, 1000)?;
/// assert!(0.95 < needed.lower && needed.upper < 0.97);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
///
/// # Errors
/// ε not finite and positive, δ outside (0, 1), a rate outside (0, 1], no steps, or no noise multiplier in [1e-4, 1e8] that
/// is private.
pub fn noise_multiplier(epsilon: f64, delta: f64, rate: f64, steps: u64) -> Result<Bracket> {
    check_rate(rate)?;
    if rate == 1.0 {
        // The steps are counted by the accountant's rule, then composed exactly.
        Accountant::new().with(&Event::gaussian(1.0)?, steps)?;
        let unit = Budget::approximate(epsilon, delta)?.unit_sigma();
        let upper = (unit * (steps as f64).sqrt().next_up()).next_up();
        return Ok(Bracket { upper, lower: upper * (1.0 - 1e-12) });
    }
    calibrate(|noise| Accountant::new().with(&Event::sampled_gaussian(noise, rate)?, steps), epsilon, delta)
}

/// The smallest noise for which what `steps` makes of it is (ε, δ)-private, when more noise is more private.
///
/// # Privacy
/// [`Bracket::upper`] is a noise whose own ε, with everything rounded up, was computed and is at most the given one.
///
/// # Errors
/// Those of `steps`, ε not finite and positive, δ outside (0, 1), or no noise in [1e-4, 1e8] that is private.
pub fn calibrate(steps: impl Fn(f64) -> Result<Accountant>, epsilon: f64, delta: f64) -> Result<Bracket> {
    check_positive("epsilon", epsilon)?;
    check_delta(delta)?;
    let rough = |noise: f64| -> Result<f64> {
        let parts = steps(noise)?.merged();
        Ok(Pilot::new(&parts, Direction::Remove, Question::Epsilon(delta)).guess)
    };
    let (mut low, mut high) = (NOISE_RANGE.start().ln(), NOISE_RANGE.end().ln());
    while high - low > 0.02 {
        let middle = f64::midpoint(low, high);
        if rough(middle.exp())? > epsilon { low = middle } else { high = middle }
    }
    let exact = |noise: f64| steps(noise)?.epsilon(delta);
    // The largest noise that is known not to do, the smallest that is known to, and the last point with its ε.
    let (mut too_little, mut enough): (Option<f64>, Option<(f64, Bracket)>) = (None, None);
    let mut last: Option<(f64, f64)> = None;
    let (mut noise, mut slope) = (high.exp(), -1.0);
    for _ in 0..40 {
        let found = exact(noise)?;
        if found.upper <= epsilon {
            enough = Some((noise, found));
            if found.upper >= epsilon * (1.0 - CALIBRATION) || noise <= *NOISE_RANGE.start() {
                break;
            }
        } else {
            too_little = Some(noise);
        }
        let point = (noise.ln(), found.upper.max(1e-300).ln());
        if let Some(before) = last.filter(|before| (point.0 - before.0).abs() > 1e-9) {
            let secant = (point.1 - before.1) / (point.0 - before.0);
            if secant < -0.05 && secant > -50.0 {
                slope = secant;
            }
        }
        last = Some(point);
        let aim = (epsilon * (1.0 - CALIBRATION / 2.0)).ln();
        let next = (point.0 + ((aim - point.1) / slope).clamp(-1.5, 1.5)).exp();
        noise = match (too_little, enough) {
            // A step out of the bracket is replaced by its middle.
            (Some(below), Some((above, _))) if !(below < next && next < above) => (below * above).sqrt(),
            _ => next.clamp(*NOISE_RANGE.start(), *NOISE_RANGE.end()),
        };
        if matches!((too_little, enough), (Some(below), Some((above, _))) if above / below < 1.0 + 1e-7) {
            break;
        }
    }
    let (upper, found) = enough.ok_or(Error::OutOfRange {
        what: "epsilon",
        value: epsilon,
        range: "what some noise multiplier in [1e-4, 1e8] reaches at this δ",
    })?;
    if upper <= *NOISE_RANGE.start() {
        return Ok(Bracket { upper, lower: 0.0 });
    }
    // How much less noise would certainly be too little.
    let mut below =
        upper * (1.0 + ((found.lower / epsilon).ln() / -slope).clamp(-0.5, 0.0) - 2.0 * CALIBRATION);
    for _ in 0..8 {
        if exact(below)?.lower > epsilon {
            return Ok(Bracket { upper, lower: below });
        }
        below = (below - 2.0 * (upper - below)).max(upper / 2.0);
    }
    Ok(Bracket { upper, lower: 0.0 })
}

/// How far ε of a calibrated noise may be below the one that was asked for.
const CALIBRATION: f64 = 2e-4;
