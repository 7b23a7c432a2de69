//! What a state needs of its plan: whom it belongs to, and the numbers to continue with.

use std::sync::Arc;

use super::{Form, Horizon, Plan};
use crate::budget::Kind;
use crate::error::Result;
use crate::identity::{Digest, Identity};
use crate::noise::UnitNoise;
use crate::saved::{Saved, SavedNoise, same_scale};
use crate::sensitivity::Domain;
use crate::workload::Workload;

impl Plan {
    /// What the plan is, field by field: two plans of one identity release the same thing with the same noise.
    pub fn identity(&self) -> Identity {
        let horizon = match self.horizon() {
            Horizon::Steps(steps) => ("steps", steps),
            Horizon::Doubling(first) => ("first epoch of doubling ones", first),
        };
        let mut identity = Identity::new()
            .with("arithmetic", self.arithmetic())
            .with("releases", if self.releases_inputs() { "inputs" } else { "statistic" })
            .with("workload", self.workload())
            .with("weights or rates", parameters(self.workload()))
            .with(horizon.0, horizon.1)
            .with("strategy", self.strategy().name())
            .with("coefficients", self.digest())
            .with("sigma", format_args!("{:e}", self.sigma()))
            .with("relation", self.footprint.relation());
        for (name, value) in stated_budget(self.budget.kind()) {
            identity = identity.with(name, value);
        }
        identity = match self.footprint.domain() {
            Domain::Interval { low, high } => identity.with("bounds", format_args!("{low}:{high}")),
            Domain::Ball { radius } => identity.with("norm", radius),
            Domain::Encoded => identity.with("bounds", "those of the encoding"),
        };
        for (index, term) in self.footprint.terms().iter().enumerate() {
            let name = format!("change {}", index + 1);
            identity = identity.with(&name, format_args!("{} in {}", term.weight, term.participation));
        }
        if let Some(sampling) = self.sampling() {
            identity = identity.with("sampling", sampling);
        }
        match self.footprint.dimension() {
            Some(dimension) => identity.with("dimension", dimension),
            None => identity.with("dimension", "any"),
        }
    }

    /// A digest of the coefficients in use, all of them: the integer matrix and its noise; the numbers that a strategy is made
    /// of; or, of one from elsewhere, what it makes of fixed noise in all its steps. Coefficients that differ in their last
    /// bits differ here. Later epochs are not built yet: there it is that of the first.
    fn digest(&self) -> Digest {
        *self.numbers.digest.get_or_init(|| self.compute_digest())
    }

    fn compute_digest(&self) -> Digest {
        /// Rows that anybody can write down, none of them like another.
        struct Fixed;
        impl UnitNoise for Fixed {
            fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
                for (coordinate, value) in (first..).zip(out) {
                    *value = 1.0 / (row + coordinate + 1) as f64;
                }
            }
        }
        let mut digest = Digest::new();
        let strategy = match &self.form {
            Form::Exact(exact) => {
                exact.add_to(&mut digest);
                return digest;
            }
            Form::Doubling(epochs) => return epochs.first().plan.digest(),
            Form::Idealized(calibrated) => &calibrated.strategy,
        };
        if let Some(coefficients) = strategy.coefficients() {
            coefficients.add_to(&mut digest);
        } else if let Ok(mut filter) = strategy.noise_filter(1) {
            let mut value = [0.0];
            for _ in 0..strategy.steps() {
                if filter.next_into(&mut Fixed, &mut value).is_ok() {
                    digest.add_all(&value);
                }
            }
        }
        digest
    }

    /// The numbers in use, for a state to continue with; nothing for a strategy that does not say them, and without an end,
    /// where every epoch is planned when it begins.
    pub(crate) fn saved(&self) -> Option<Arc<Saved>> {
        self.numbers.saved.get_or_init(|| self.look_up().map(Arc::new)).clone()
    }

    fn look_up(&self) -> Option<Saved> {
        match &self.form {
            Form::Idealized(calibrated) => Some(Saved {
                coefficients: calibrated.strategy.coefficients()?,
                noise: SavedNoise::Idealized(calibrated.sigma),
            }),
            Form::Exact(exact) => exact.saved(),
            Form::Doubling(_) => None,
        }
    }

    /// The same plan with the numbers that were saved in place of those that were planned here. It is calibrated anew, so they
    /// are checked; where the scale of the noise comes out the same but for rounding, the saved one is used.
    ///
    /// # Errors
    /// Numbers that do not fit the plan.
    pub(crate) fn continuing(&self, saved: &Saved) -> Result<Self> {
        let mut plan = match &self.form {
            // The accountant alone calibrates these.
            Form::Idealized(calibrated) if calibrated.sampling.is_some() => return Ok(self.clone()),
            Form::Idealized(calibrated) => {
                let strategy = &calibrated.strategy;
                let (workload, steps) = (strategy.workload(), strategy.steps());
                let again = saved.coefficients.build(strategy.name(), workload, steps)?;
                let strategy = again.unwrap_or_else(|| Arc::clone(strategy));
                Self::idealized(strategy, self.footprint.clone(), self.budget)?
            }
            Form::Exact(exact) => {
                let exact = exact.continuing(saved, self.footprint.clone())?;
                Self::of(self.footprint.clone(), self.budget, Form::Exact(Arc::new(exact)))
            }
            Form::Doubling(_) => self.clone(),
        };
        plan.side = self.side;
        if let (Form::Idealized(calibrated), SavedNoise::Idealized(sigma)) = (&mut plan.form, saved.noise)
            && same_scale(sigma, calibrated.sigma)
            && let Some(calibrated) = Arc::get_mut(calibrated)
        {
            calibrated.sigma = sigma;
        }
        Ok(plan)
    }
}

/// The budget as it was stated, by its parameters.
fn stated_budget(kind: Kind) -> Vec<(&'static str, f64)> {
    match kind {
        Kind::Approximate { epsilon, delta } => vec![("epsilon", epsilon), ("delta", delta)],
        Kind::Pure { epsilon } => vec![("epsilon", epsilon), ("delta", 0.0)],
        Kind::ZeroConcentrated { rho } => vec![("rho", rho)],
        Kind::Gaussian { mu } => vec![("mu", mu)],
    }
}

/// What the name of a workload leaves out.
fn parameters(workload: &Workload) -> String {
    let of = |values: &[f64]| {
        let mut digest = Digest::new();
        digest.add_all(values);
        format!("{} numbers {digest}", values.len())
    };
    workload.unnamed().map_or_else(|| "none".to_owned(), of)
}
