//! Follow the regularized leader.

use super::Region;
use crate::error::{Result, check_count, check_finite, check_length, check_positive};

/// Follow the regularized leader: `θ_{t+1} = Π(-(1/λ) s_t)`, with `s_t` the sum of all (noisy) gradients so far and Π the
/// projection to the domain.
///
/// The parameters minimize `⟨s_t, θ⟩ + (λ/2)‖θ‖²` over the domain, so the step from one gradient is `1/λ`. Use it with a
/// strategy for the count. [`crate::regret`] bounds what it loses, and finds the λ that loses least.
///
/// # Privacy
/// None of its business: post-processing.
///
/// # Complexity
/// O(d) a step (the simplex: O(d log d)). Nothing is allocated.
#[derive(Debug, Clone)]
pub struct Ftrl {
    lambda: f64,
    domain: Region,
    step: usize,
    sum: Vec<f64>,
    parameters: Vec<f64>,
    scratch: Vec<f64>,
}

impl Ftrl {
    /// An optimizer before its first gradient, at the point of the domain that is nearest to zero.
    ///
    /// # Errors
    /// A dimension of zero, a λ that is not finite and positive, or a domain without points.
    pub fn new(dimension: usize, lambda: f64, domain: Region) -> Result<Self> {
        check_count("dimension", dimension)?;
        check_positive("lambda", lambda)?;
        domain.check()?;
        let scratch = if domain == Region::Simplex { vec![0.0; dimension] } else { Vec::new() };
        let zeros = || vec![0.0; dimension];
        let mut optimizer = Self { lambda, domain, step: 0, sum: zeros(), parameters: zeros(), scratch };
        optimizer.domain.project(&mut optimizer.parameters, &mut optimizer.scratch);
        Ok(optimizer)
    }

    /// Takes the next gradient and returns the parameters after it.
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN or infinities; the optimizer is then as before.
    pub fn update(&mut self, gradient: &[f64]) -> Result<&[f64]> {
        check_length("the gradient", self.sum.len(), gradient.len())?;
        check_finite("the gradient", gradient)?;
        let factor = -1.0 / self.lambda;
        for ((sum, parameter), value) in self.sum.iter_mut().zip(&mut self.parameters).zip(gradient) {
            *sum += value;
            *parameter = factor * *sum;
        }
        self.domain.project(&mut self.parameters, &mut self.scratch);
        self.step += 1;
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

    /// Everything the optimizer knows, as numbers: the sum of the gradients. As public as the gradients it was given.
    pub fn state(&self) -> Vec<f64> {
        self.sum.clone()
    }

    /// Continues from a state of an optimizer with the same dimension, λ and domain.
    ///
    /// # Errors
    /// A state of another length, NaN or infinities; the optimizer is then as before.
    pub fn restore(&mut self, step: usize, state: &[f64]) -> Result<()> {
        check_length("the saved state", self.sum.len(), state.len())?;
        check_finite("the saved state", state)?;
        self.sum.copy_from_slice(state);
        let factor = -1.0 / self.lambda;
        for (parameter, sum) in self.parameters.iter_mut().zip(&self.sum) {
            *parameter = factor * *sum;
        }
        self.domain.project(&mut self.parameters, &mut self.scratch);
        self.step = step;
        Ok(())
    }
}
