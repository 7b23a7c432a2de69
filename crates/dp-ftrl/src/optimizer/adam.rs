//! Adam: steps that adapt to the size of each coordinate's gradients.

use super::Rates;
use crate::error::{Error, Result, check_count, check_finite, check_length, check_positive};

/// Adam on noisy sums: `m ← β₁m + (1-β₁)g`, `v ← β₂v + (1-β₂)g²`, `θ ← θ - η_t m̂/(√(v̂ - s²) + ε)`, with m̂ and v̂ corrected for
/// their start at zero, and the part that noise alone has in v̂ taken off.
///
/// The second moment of a noisy gradient is that of the gradient plus the variance s² of its noise, which is public. Where
/// noise dominates, plain Adam divides everything by nearly the same number and is descent with momentum at a smaller rate;
/// [`Adam::with_noise`] subtracts s² (and keeps a floor below it), so that coordinates with larger gradients are found again.
///
/// Its iterates are no linear function of the gradients, so there is no workload for which its noise is exactly least. Were
/// the denominators constant, it would be that of [`crate::Sgd`] with momentum β₁: build the strategy for that.
///
/// # Privacy
/// None of its business: post-processing, including everything that it adapts to.
///
/// # Complexity
/// O(d) a step, two buffers. Nothing is allocated.
///
/// # Example
/// ```
/// use dp_ftrl::{Adam, Rates};
/// let mut adam = Adam::starting_at(vec![0.0; 2], Rates::constant(0.1)?)?;
/// // The first step has the length of the rate in every coordinate, whatever the gradient is.
/// let after = adam.update(&[4.0, -0.01])?;
/// assert!((after[0] + 0.1).abs() < 1e-6 && (after[1] - 0.1).abs() < 1e-6);
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Adam {
    rates: Rates,
    first_decay: f64,
    second_decay: f64,
    /// What is added to the root in the denominator.
    floor: f64,
    /// The variance of the noise in a coordinate of one gradient.
    noise: f64,
    step: usize,
    first: Vec<f64>,
    second: Vec<f64>,
    parameters: Vec<f64>,
}

/// The share of the noise's variance that stays in the denominator: an estimate of a variance is off by itself, and what is
/// left after the subtraction must not vanish by chance.
const LEFT_OF_NOISE: f64 = 0.01;

impl Adam {
    /// An optimizer before its first gradient, with the usual decays 0.9 and 0.999 and a floor of 1e-8.
    ///
    /// # Errors
    /// No parameters, or parameters that are not finite.
    pub fn starting_at(parameters: Vec<f64>, rates: Rates) -> Result<Self> {
        check_count("dimension", parameters.len())?;
        check_finite("the starting point", &parameters)?;
        let zeros = || vec![0.0; parameters.len()];
        Ok(Self {
            rates,
            first_decay: 0.9,
            second_decay: 0.999,
            floor: 1e-8,
            noise: 0.0,
            step: 0,
            first: zeros(),
            second: zeros(),
            parameters,
        })
    }

    /// With other decays of the two moments.
    ///
    /// # Errors
    /// A decay outside [0, 1).
    pub fn with_decays(mut self, first: f64, second: f64) -> Result<Self> {
        for (what, value) in [("decay of the first moment", first), ("decay of the second moment", second)] {
            if !(0.0..1.0).contains(&value) {
                return Err(Error::OutOfRange { what, value, range: "[0, 1)" });
            }
        }
        (self.first_decay, self.second_decay) = (first, second);
        Ok(self)
    }

    /// With another number that is added to the denominator.
    ///
    /// # Errors
    /// Anything but a finite number above 0.
    pub fn with_floor(mut self, floor: f64) -> Result<Self> {
        self.floor = check_positive("floor of the denominator", floor)?;
        Ok(self)
    }

    /// For gradients whose noise has the given standard deviation in each coordinate: its square is taken off the second
    /// moment. Public, because it follows from the plan.
    ///
    /// # Errors
    /// Anything but a finite number of at least 0.
    pub fn with_noise(mut self, standard_deviation: f64) -> Result<Self> {
        if !(standard_deviation >= 0.0 && standard_deviation.is_finite()) {
            return Err(Error::OutOfRange {
                what: "standard deviation of the noise",
                value: standard_deviation,
                range: "a finite number of at least 0",
            });
        }
        self.noise = standard_deviation * standard_deviation;
        Ok(self)
    }

    /// Takes the next gradient and returns the parameters after it.
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN or infinities; the optimizer is then as before.
    pub fn update(&mut self, gradient: &[f64]) -> Result<&[f64]> {
        check_length("the gradient", self.parameters.len(), gradient.len())?;
        check_finite("the gradient", gradient)?;
        let rate = self.rates.rate(self.step);
        self.step += 1;
        let steps = i32::try_from(self.step).unwrap_or(i32::MAX);
        let (a, b) = (self.first_decay, self.second_decay);
        let (first_scale, second_scale) = (1.0 / (1.0 - a.powi(steps)), 1.0 / (1.0 - b.powi(steps)));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((parameter, (first, second)), value) in self.parameters.iter_mut().zip(moments).zip(gradient) {
            *first = a * *first + (1.0 - a) * value;
            *second = b * *second + (1.0 - b) * value * value;
            let spread = (*second * second_scale - self.noise).max(LEFT_OF_NOISE * self.noise);
            *parameter -= rate * (*first * first_scale) / (spread.sqrt() + self.floor);
        }
        Ok(&self.parameters)
    }

    /// The parameters θ.
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// The number of gradients taken.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Everything the optimizer knows, as numbers: both moments, then parameters. As public as the gradients it was given.
    pub fn state(&self) -> Vec<f64> {
        [self.first.as_slice(), &self.second, &self.parameters].concat()
    }

    /// Continues from a state of an optimizer with the same dimension and settings.
    ///
    /// # Errors
    /// A state of another length, NaN or infinities; the optimizer is then as before.
    pub fn restore(&mut self, step: usize, state: &[f64]) -> Result<()> {
        let dimension = self.parameters.len();
        check_length("the saved state", 3 * dimension, state.len())?;
        check_finite("the saved state", state)?;
        self.first.copy_from_slice(&state[..dimension]);
        self.second.copy_from_slice(&state[dimension..2 * dimension]);
        self.parameters.copy_from_slice(&state[2 * dimension..]);
        self.step = step;
        Ok(())
    }
}
