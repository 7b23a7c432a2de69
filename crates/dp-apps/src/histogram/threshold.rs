//! How far a released statistic must stand out before a key that nobody listed is shown.

use dp_mechanisms::Plan;

use crate::error::{Error, Result};

/// The part of δ' that is left for steps after which nothing is planned to be printed.
const OTHERS: f64 = 0.125;

/// How likely a key of a single person may ever be shown, and after which steps keys are planned to be printed: p of
/// [the theorem](super::discovery).
///
/// # Example
/// ```
/// use dp_apps::histogram::discovery::Threshold;
/// let monthly = Threshold::new(1e-6)?.printing_every(30)?;
/// assert!(Threshold::new(0.0).is_err() && monthly.printing_every(0).is_err());
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    delta: f64,
    every: usize,
}

impl Threshold {
    /// A probability δ' for whatever is printed after any step.
    ///
    /// # Errors
    /// A probability outside (0, 1).
    pub fn new(delta: f64) -> Result<Self> {
        if delta > 0.0 && delta < 1.0 {
            return Ok(Self { delta, every: 1 });
        }
        let range = "strictly between 0 and 1";
        Err(Error::OutOfRange { what: "threshold delta", value: delta, range })
    }

    /// The same for keys that are planned to be printed after every so many steps, and after the last one. After other steps they can be
    /// looked for as well, but have to stand out further.
    ///
    /// # Errors
    /// Zero steps.
    pub fn printing_every(self, steps: usize) -> Result<Self> {
        if steps > 0 {
            return Ok(Self { every: steps, ..self });
        }
        let range = "an integer of at least 1";
        Err(Error::OutOfRange { what: "steps between two that are printed", value: 0.0, range })
    }

    /// δ'.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// From step to step that is planned to be printed.
    pub fn every(&self) -> usize {
        self.every
    }

    /// Whether keys are planned to be printed after a step, counted from 1, of so many.
    pub fn is_planned(&self, step: usize, steps: usize) -> bool {
        step.is_multiple_of(self.every) || step == steps
    }

    /// How many standard deviations of its noise a statistic must lie above what one person can add to it: q of [the
    /// theorem](super::discovery), for `touched` keys of one person, who adds at most `events` to a key in a step.
    ///
    /// # Errors
    /// A probability that is too small for the plan's noise.
    pub fn deviations(&self, plan: &Plan, touched: f64, events: f64) -> Result<Deviations> {
        let steps = plan.steps();
        let planned = steps.div_ceil(self.every);
        let share = if planned < steps { 1.0 - OTHERS } else { 1.0 };
        let quantile = |share: f64, steps: usize| -> Result<f64> {
            let noise = plan.tail_deviations(share * self.delta / (steps as f64 * touched), 1.0)?;
            // Decoding moves a statistic by less than its bias for up to 2^20 events of a step, and in proportion beyond.
            Ok(noise + plan.decoding_bias() * (events / f64::from(1 << 20)).max(1.0))
        };
        let after_planned = quantile(share, planned)?;
        let after_others = if planned < steps { quantile(OTHERS, steps - planned)? } else { after_planned };
        Ok(Deviations { after_planned, after_others })
    }
}

/// Standard deviations of noise that a statistic must lie above what one person can add.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviations {
    /// After steps that are planned to be printed.
    pub after_planned: f64,
    /// After all others.
    pub after_others: f64,
}
