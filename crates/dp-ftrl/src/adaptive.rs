//! A clipping norm that follows a quantile of the gradients' norms, privately.

use crate::clip::Clipping;
use crate::error::{Error, Result, check_count, check_finite, check_length, check_positive};

/// The clipping norm C_t as a running estimate of the γ-quantile of all gradients' norms.
///
/// Every gradient is divided by the current norm and shortened to length 1, and carries one coordinate more that says
/// whether it was short: `(clip(g/C_t), ±w/2)`, plus for `‖g‖ ≤ C_t`. The noisy sum of that coordinate, divided by w and by the
/// public size of a batch, is the share of short gradients up to ½, and the norm moves by
///
/// `C_{t+1} = C_t · exp(-η (share - γ))`.
///
/// The other coordinates are multiplied by C_t again: what an optimizer gets are noisy sums of gradients clipped to C_t.
///
/// # Privacy
/// What a person adds has the norm `√(1 + w²/4)` at most, whatever C_t is, because its two parts are clipped to 1 and w/2:
/// that is what [`AdaptiveNorm::clipping`] declares, and so what the quantile costs is in the budget, `√(1 + w²/4) - 1` more
/// noise (3 % for w = ½). C_t itself is a function of noisy sums that were released, so dividing by it before the sum and
/// multiplying by it after is adaptive use of one mechanism and post-processing. A schedule of batches must not depend on
/// the data, and the batch size must be public, as everywhere.
///
/// The logarithm of C_t is a running sum of noisy shares, so that noise which is correlated for running sums cancels in it.
///
/// # Complexity
/// One pass over a gradient and one over a sum. Nothing is allocated.
///
/// # Example
/// ```
/// use dp_ftrl::adaptive::AdaptiveNorm;
/// let mut norm = AdaptiveNorm::new(8.0, 0.5, 2)?;
/// // Two people, both with gradients of norm 5: all of them are short.
/// let mut sum = [0.0; 3];
/// for mut gradient in [[3.0, 4.0, 0.0], [0.0, 5.0, 0.0]] {
///     norm.encode(&mut gradient)?;
///     norm.clipping(2)?.clip(&mut gradient)?;
///     sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
/// }
/// norm.decode(&mut sum)?;
/// assert!((sum[1] - 9.0).abs() < 1e-12 && norm.current() < 8.0);
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveNorm {
    current: f64,
    quantile: f64,
    batch: usize,
    rate: f64,
    weight: f64,
}

/// The norm stays within these bounds, where clipping is accurate.
const NORMS: (f64, f64) = (1e-30, 1e30);

impl AdaptiveNorm {
    /// Starts at a norm and follows a quantile of gradients in batches of a public size, with the rate η = 0.2 and the
    /// weight w = ½.
    ///
    /// # Errors
    /// A norm outside `[1e-30, 1e30]`, a quantile outside (0, 1), or a batch of zero.
    pub fn new(start: f64, quantile: f64, batch: usize) -> Result<Self> {
        check_count("batch size", batch)?;
        if !(NORMS.0..=NORMS.1).contains(&start) {
            return Err(Error::OutOfRange {
                what: "first clipping norm",
                value: start,
                range: "between 1e-30 and 1e30",
            });
        }
        if !(quantile > 0.0 && quantile < 1.0) {
            return Err(Error::OutOfRange {
                what: "quantile",
                value: quantile,
                range: "above 0 and below 1",
            });
        }
        Ok(Self { current: start, quantile, batch, rate: 0.2, weight: 0.5 })
    }

    /// With another rate, at which the norm follows.
    ///
    /// # Errors
    /// Anything but a finite number above 0.
    pub fn with_rate(mut self, rate: f64) -> Result<Self> {
        self.rate = check_positive("rate of the clipping norm", rate)?;
        Ok(self)
    }

    /// With another weight of the coordinate that counts short gradients: a larger one sees the quantile better and costs
    /// the gradients more noise.
    ///
    /// # Errors
    /// A weight outside (0, 100].
    pub fn with_weight(mut self, weight: f64) -> Result<Self> {
        if !(weight > 0.0 && weight <= 100.0) {
            return Err(Error::OutOfRange {
                what: "weight of the quantile",
                value: weight,
                range: "above 0, at most 100",
            });
        }
        self.weight = weight;
        Ok(self)
    }

    /// The rule that encoded gradients of `dimension` coordinates, and one more, are clipped by.
    ///
    /// # Errors
    /// A dimension of zero.
    pub fn clipping(&self, dimension: usize) -> Result<Clipping> {
        Clipping::per_layer(&[dimension, 1], &[1.0, self.weight / 2.0])
    }

    /// Turns a gradient, with room for one coordinate more behind it, into what is clipped and summed.
    ///
    /// # Errors
    /// No gradient, NaN or infinities; it is then as before.
    pub fn encode(&self, gradient: &mut [f64]) -> Result<()> {
        let Some((short, gradient)) = gradient.split_last_mut() else {
            return check_length("the gradient", 2, 0);
        };
        check_finite("the gradient", gradient)?;
        let scale = 1.0 / self.current;
        let mut squared = 0.0;
        for value in gradient {
            *value = (*value * scale).clamp(-f64::MAX, f64::MAX);
            squared += *value * *value;
        }
        *short = if squared <= 1.0 { self.weight / 2.0 } else { -self.weight / 2.0 };
        Ok(())
    }

    /// Turns a noisy sum of encoded gradients into one of gradients, and moves the norm by what its last coordinate says.
    ///
    /// # Errors
    /// No sum, NaN or infinities; sum and norm are then as before.
    pub fn decode(&mut self, sum: &mut [f64]) -> Result<()> {
        check_finite("the sum", sum)?;
        let Some((short, sum)) = sum.split_last_mut() else { return check_length("the sum", 2, 0) };
        sum.iter_mut().for_each(|value| *value *= self.current);
        let share = 0.5 + *short / (self.weight * self.batch as f64);
        // No noise moves the norm by more than a factor of e² in one step.
        let moved = (self.rate * (self.quantile - share)).clamp(-2.0, 2.0);
        self.current = (self.current * moved.exp()).clamp(NORMS.0, NORMS.1);
        *short = 0.0;
        Ok(())
    }

    /// The current norm: as public as the noisy sums.
    pub fn current(&self) -> f64 {
        self.current
    }

    /// Continues from a norm that was saved.
    ///
    /// # Errors
    /// A norm outside `[1e-30, 1e30]`.
    pub fn restore(&mut self, norm: f64) -> Result<()> {
        self.current = Self::new(norm, self.quantile, self.batch)?.current;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed, Workload};

    use super::*;
    use crate::PrivateGradients;

    /// Norms spread evenly over (0, 20): without noise the running norm settles at the quantile.
    #[test]
    fn settles_at_the_quantile() {
        for quantile in [0.1, 0.5, 0.9] {
            let mut norm = AdaptiveNorm::new(0.01, quantile, 50).unwrap();
            let clipping = norm.clipping(2).unwrap();
            let mut average = 0.0;
            for step in 0..400 {
                let mut sum = [0.0; 3];
                for person in 0..50 {
                    let length = 0.2 + 0.4 * f64::from(person);
                    let mut gradient = [0.6 * length, -0.8 * length, 0.0];
                    norm.encode(&mut gradient).unwrap();
                    clipping.clip(&mut gradient).unwrap();
                    sum.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
                }
                let before = norm.current();
                norm.decode(&mut sum).unwrap();
                // The sum is that of the gradients clipped to the norm of this step.
                let expected: f64 = (0..50).map(|person| (0.2 + 0.4 * f64::from(person)).min(before)).sum();
                assert!((sum[0] - 0.6 * expected).abs() < 1e-9 && sum[2] == 0.0, "step {step}");
                if step >= 300 {
                    average += norm.current() / 100.0;
                }
            }
            assert!((average - 20.0 * quantile).abs() < 0.5, "{quantile}: {average}");
        }
    }

    /// Exhaustively over gradients far below, at and far above the norm, and over norms: one person moves the sum by no more
    /// than the footprint declares, and there is one who does.
    #[test]
    fn one_person_moves_what_the_footprint_says() {
        let mut largest: f64 = 0.0;
        for start in [1e-30, 0.5, 1e30] {
            let norm = AdaptiveNorm::new(start, 0.5, 3).unwrap().with_weight(0.7).unwrap();
            let clipping = norm.clipping(2).unwrap();
            let declared = clipping.norm();
            assert!((declared - (1.0_f64 + 0.7 * 0.7 / 4.0).sqrt()).abs() < 1e-12);
            for a in [0.0, 1e-300, 0.3, 0.5, 1e200, f64::MAX] {
                for b in [0.0, -0.4, 0.5, -1e30, f64::MIN] {
                    let mut gradient = [a, b, 9.0];
                    norm.encode(&mut gradient).unwrap();
                    clipping.clip(&mut gradient).unwrap();
                    let moved = gradient.iter().map(|value| value * value).sum::<f64>().sqrt();
                    assert!(moved <= declared, "{a} {b} at {start}: {moved}");
                    largest = largest.max(moved / declared);
                }
            }
        }
        assert!(largest > 1.0 - 1e-9, "the footprint is attained: {largest}");
    }

    /// With noise at ε = 1 and batches of 200 people whose norms are all 3: the norm finds them within a factor of two from
    /// three orders of magnitude away, in each of 5 seeded runs, and the noise of the plan is that of the larger footprint.
    #[test]
    fn finds_the_norms_through_the_noise() {
        let steps = 200;
        let mut norm = AdaptiveNorm::new(0.003, 0.5, 200).unwrap();
        let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), steps).unwrap()).unwrap();
        let budget = Budget::approximate(1.0, 1e-6).unwrap();
        for seed in 0..5 {
            norm.restore(0.003).unwrap();
            let mut gradients = PrivateGradients::new(
                strategy.clone(),
                norm.clipping(1).unwrap(),
                2,
                Relation::ZeroOut,
                Participation::Single,
                budget,
                Seed::reproducible(seed),
            )
            .unwrap();
            let mut sum = [0.0; 2];
            for _ in 0..steps {
                for _ in 0..200 {
                    let mut gradient = [3.0, 0.0];
                    norm.encode(&mut gradient).unwrap();
                    gradients.add(&gradient).unwrap();
                }
                gradients.finish(&mut sum).unwrap();
                norm.decode(&mut sum).unwrap();
            }
            assert!((1.5..6.0).contains(&norm.current()), "{seed}: {}", norm.current());
        }
    }

    #[test]
    fn refuses_what_is_no_norm_quantile_or_gradient() {
        for bad in [0.0, -1.0, 1e31, f64::NAN, f64::INFINITY] {
            assert!(AdaptiveNorm::new(bad, 0.5, 1).is_err(), "{bad}");
        }
        let mut norm = AdaptiveNorm::new(1.0, 0.5, 1).unwrap();
        for bad in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(AdaptiveNorm::new(1.0, bad, 1).is_err(), "{bad}");
            assert!(norm.restore(bad).is_err() != (bad == 1.0), "{bad}");
        }
        assert!(AdaptiveNorm::new(1.0, 0.5, 0).is_err());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(norm.clone().with_rate(bad).is_err() && norm.clone().with_weight(bad).is_err(), "{bad}");
        }
        let mut broken = [f64::NAN, 1.0];
        assert!(norm.encode(&mut broken).is_err() && norm.encode(&mut []).is_err());
        assert!(norm.decode(&mut broken).is_err() && norm.decode(&mut []).is_err());
        assert_eq!(norm.current(), 1.0);
    }
}
