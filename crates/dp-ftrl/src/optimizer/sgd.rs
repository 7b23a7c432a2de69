//! Gradient descent with momentum and a schedule of learning rates.

use std::f64::consts::PI;
use std::sync::Arc;

use dp_mechanisms::Workload;

use crate::error::{Error, Result, check_count, check_finite, check_length, check_positive};

/// Learning rates η_1, η_2, …, known before training starts: a strategy can be built for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Constant(f64),
    List(Arc<[f64]>),
    Linear { first: f64, last: f64, steps: usize },
    Cosine { first: f64, last: f64, steps: usize },
}

impl Rates {
    /// The same rate at every step.
    ///
    /// # Errors
    /// A rate that is not finite and positive.
    pub fn constant(rate: f64) -> Result<Self> {
        Ok(Self { shape: Shape::Constant(check_positive("learning rate", rate)?) })
    }

    /// One rate for each step; the last one holds for all later steps.
    ///
    /// # Errors
    /// No rates, or one that is not finite and positive.
    pub fn list(rates: &[f64]) -> Result<Self> {
        check_count("number of learning rates", rates.len())?;
        rates.iter().try_for_each(|rate| check_positive("learning rate", *rate).map(|_| ()))?;
        Ok(Self { shape: Shape::List(rates.into()) })
    }

    /// From `first` to `last` along a straight line in `steps` steps, and `last` from then on.
    ///
    /// # Errors
    /// Rates that are not finite and positive (a workload cannot be undone through a rate of 0), or no steps.
    pub fn linear(first: f64, last: f64, steps: usize) -> Result<Self> {
        check_ramp(first, last, steps)?;
        Ok(Self { shape: Shape::Linear { first, last, steps } })
    }

    /// From `first` to `last` along half a period of the cosine in `steps` steps, and `last` from then on.
    ///
    /// # Errors
    /// As [`Rates::linear`].
    pub fn cosine(first: f64, last: f64, steps: usize) -> Result<Self> {
        check_ramp(first, last, steps)?;
        Ok(Self { shape: Shape::Cosine { first, last, steps } })
    }

    /// The rate of a step, counted from 0.
    pub fn rate(&self, step: usize) -> f64 {
        match &self.shape {
            Shape::Constant(rate) => *rate,
            Shape::List(rates) => rates[step.min(rates.len() - 1)],
            Shape::Linear { first, last, steps } => mix(*first, *last, progress(step, *steps)),
            Shape::Cosine { first, last, steps } => {
                mix(*first, *last, (1.0 - (PI * progress(step, *steps)).cos()) / 2.0)
            }
        }
    }

    /// The rates of the first `steps` steps; a single one if they are all the same.
    pub fn values(&self, steps: usize) -> Vec<f64> {
        let needed = if matches!(self.shape, Shape::Constant(_)) { 1 } else { steps.max(1) };
        (0..needed).map(|step| self.rate(step)).collect()
    }
}

fn check_ramp(first: f64, last: f64, steps: usize) -> Result<()> {
    check_positive("first learning rate", first)?;
    check_positive("last learning rate", last)?;
    check_count("steps of the schedule", steps).map(|_| ())
}

/// The part of a schedule that is done: 0 at the first step, 1 at the last and all later ones.
fn progress(step: usize, steps: usize) -> f64 {
    if step + 1 >= steps { 1.0 } else { step as f64 / (steps - 1) as f64 }
}

fn mix(first: f64, last: f64, part: f64) -> f64 {
    first * (1.0 - part) + last * part
}

/// Gradient descent with momentum: `m ← β m + g`, `θ ← θ - η_t m`.
///
/// After t steps `θ = θ_0 - (M g)_t` with M the matrix of [`Sgd::workload`]. Build the strategy for that workload where the
/// iterates are what is looked at; see [`crate::optimizer`].
///
/// # Privacy
/// None of its business: post-processing.
///
/// # Complexity
/// O(d) a step. Nothing is allocated.
#[derive(Debug, Clone)]
pub struct Sgd {
    momentum: f64,
    rates: Rates,
    step: usize,
    velocity: Vec<f64>,
    parameters: Vec<f64>,
}

impl Sgd {
    /// An optimizer before its first gradient, with all parameters zero.
    ///
    /// # Errors
    /// A dimension of zero, or a momentum outside [0, 1).
    pub fn new(dimension: usize, momentum: f64, rates: Rates) -> Result<Self> {
        check_count("dimension", dimension)?;
        Self::starting_at(vec![0.0; dimension], momentum, rates)
    }

    /// An optimizer before its first gradient, at given parameters.
    ///
    /// # Errors
    /// No parameters, parameters that are not finite, or a momentum outside [0, 1).
    pub fn starting_at(parameters: Vec<f64>, momentum: f64, rates: Rates) -> Result<Self> {
        check_count("dimension", parameters.len())?;
        check_finite("the starting point", &parameters)?;
        if !(0.0..1.0).contains(&momentum) {
            return Err(Error::OutOfRange { what: "momentum", value: momentum, range: "[0, 1)" });
        }
        Ok(Self { momentum, rates, step: 0, velocity: vec![0.0; parameters.len()], parameters })
    }

    /// The workload whose releases are this optimizer's iterates (up to sign and starting point), over `steps` steps: build
    /// the strategy for it.
    ///
    /// # Errors
    /// Never for an optimizer that was accepted; the workload's own checks are passed on.
    pub fn workload(&self, steps: usize) -> Result<Workload> {
        Ok(Workload::momentum(self.momentum, &self.rates.values(steps))?)
    }

    /// Takes the next gradient and returns the parameters after it.
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN or infinities; the optimizer is then as before.
    pub fn update(&mut self, gradient: &[f64]) -> Result<&[f64]> {
        check_length("the gradient", self.parameters.len(), gradient.len())?;
        check_finite("the gradient", gradient)?;
        let rate = self.rates.rate(self.step);
        for ((parameter, velocity), value) in self.parameters.iter_mut().zip(&mut self.velocity).zip(gradient)
        {
            *velocity = self.momentum * *velocity + value;
            *parameter -= rate * *velocity;
        }
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

    /// Everything the optimizer knows, as numbers: velocity, then parameters. As public as the gradients it was given.
    pub fn state(&self) -> Vec<f64> {
        [self.velocity.as_slice(), &self.parameters].concat()
    }

    /// Continues from a state of an optimizer with the same dimension, momentum and rates.
    ///
    /// # Errors
    /// A state of another length, NaN or infinities; the optimizer is then as before.
    pub fn restore(&mut self, step: usize, state: &[f64]) -> Result<()> {
        check_length("the saved state", 2 * self.parameters.len(), state.len())?;
        check_finite("the saved state", state)?;
        let (velocity, parameters) = state.split_at(self.parameters.len());
        self.velocity.copy_from_slice(velocity);
        self.parameters.copy_from_slice(parameters);
        self.step = step;
        Ok(())
    }
}
