//! The private input: push a vector, get it back with the strategy's correlated noise, and do anything with it.

use std::fmt;

use crate::durable::Resumable;
use crate::error::{Error, Result};
use crate::mechanism::{Release, check_vectors};
use crate::noise::{CorrelatedNoise, GaussianSource, Seed, Side};
use crate::plan::Plan;
use crate::snapshot::Snapshot;

/// A live stream of private inputs: after every input x_t the release `x_t + σ ξ_t`, `ξ = A⁻¹ B z`.
///
/// The workload applied to these releases is what a [`crate::Mechanism`] of the same plan and seed releases,
/// `A (x + σξ) = A x + σ B z`. A caller who computes on from the noisy inputs, such as an optimizer, needs no statistic
/// kept here: everything it makes of them is post-processing.
///
/// Like every live mechanism it is not `Clone` and prints neither its noise nor its inputs.
///
/// # Privacy
/// That of [`crate::Mechanism`], of which it is an invertible function: all releases together satisfy the plan's budget
/// under its footprint, also when inputs depend on earlier releases.
///
/// # Complexity
/// Per step that of the strategy's noise filter plus O(d). Nothing is allocated per step.
pub struct InputMechanism {
    plan: Plan,
    dimension: usize,
    noise: CorrelatedNoise,
    seed: Seed,
    /// The noise of the current step, overwritten at every one.
    current: Vec<f64>,
}

impl InputMechanism {
    /// A mechanism for vectors of the given dimension, with secret noise from the operating system.
    ///
    /// # Errors
    /// A dimension of zero, no system randomness, or what the strategy refuses.
    pub fn new(plan: Plan, dimension: usize) -> Result<Self> {
        Self::with_seed(plan, dimension, Seed::from_system()?)
    }

    /// A mechanism whose noise anybody who knows the seed can repeat and subtract: for tests, demonstrations and
    /// reproductions only. Its releases are **not private** under a [`Seed::reproducible`] seed.
    ///
    /// # Errors
    /// A dimension of zero, or what the strategy refuses.
    pub fn reproducible(plan: Plan, dimension: usize, seed: Seed) -> Result<Self> {
        Self::with_seed(plan, dimension, seed)
    }

    fn with_seed(plan: Plan, dimension: usize, seed: Seed) -> Result<Self> {
        plan.footprint().check_dimension(dimension)?;
        let source = Box::new(GaussianSource::new(seed.duplicate(), dimension));
        let noise = CorrelatedNoise::new(plan.strategy().as_ref(), dimension, Side::Input, source)?;
        Ok(Self { plan, dimension, noise, seed, current: vec![0.0; dimension] })
    }

    /// Takes the input of the next step and writes it with its noise.
    ///
    /// The standard deviation in the result is that of the *workload's* answer, `σ‖b_t‖`: the noise of one input says
    /// little, because most of it cancels in the next ones.
    ///
    /// # Errors
    /// A step past the horizon, a wrong number of coordinates, NaN, infinities, or an input outside the declared
    /// domain. The mechanism is then exactly as before, and the output untouched.
    pub fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release> {
        let step = self.step() + 1;
        let standard_deviation =
            self.plan.standard_deviation(step).ok_or(Error::HorizonReached { horizon: self.plan.steps() })?;
        check_vectors(self.dimension, input, output)?;
        self.plan.footprint().domain().check(step, input)?;
        self.noise.next_into(&mut self.current)?;
        let sigma = self.plan.sigma();
        for ((out, value), noise) in output.iter_mut().zip(input).zip(&self.current) {
            *out = value + sigma * noise;
        }
        Ok(Release { step, standard_deviation })
    }

    /// The number of releases made so far.
    pub fn step(&self) -> usize {
        self.noise.step()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of coordinates of an input.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Everything needed to continue later: the seed and the number of steps. A secret.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(
            identity(&self.plan),
            self.dimension,
            self.step(),
            self.seed.duplicate(),
            Vec::new(),
            self.current.clone(),
        )
    }

    /// Continues where a snapshot was taken, with the very same noise; see [`crate::Mechanism::resume`].
    ///
    /// # Complexity
    /// That of making the noise of all steps before.
    ///
    /// # Errors
    /// A snapshot of another plan or another kind of mechanism, or noise that does not come out as it was.
    pub fn resume(plan: Plan, snapshot: &Snapshot) -> Result<Self> {
        snapshot.check_identity(&identity(&plan))?;
        let mut mechanism = Self::with_seed(plan, snapshot.dimension(), snapshot.seed().duplicate())?;
        mechanism.noise.skip_to(snapshot.step(), &mut mechanism.current)?;
        snapshot.check_noise(&mechanism.current)?;
        Ok(mechanism)
    }
}

/// The noise on the input and that on the release are made of one z: a state of one must not continue as the other.
fn identity(plan: &Plan) -> String {
    format!("{} side=input", plan.identity())
}

impl Resumable for InputMechanism {
    type Plan = Plan;

    fn start(plan: Plan, dimension: usize, seed: Seed) -> Result<Self> {
        Self::with_seed(plan, dimension, seed)
    }

    fn resume(plan: Plan, snapshot: &Snapshot) -> Result<Self> {
        Self::resume(plan, snapshot)
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot()
    }

    fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<Release> {
        self.release(input, output)
    }

    fn plan(&self) -> &Plan {
        self.plan()
    }

    fn dimension(&self) -> usize {
        self.dimension()
    }

    fn step(&self) -> usize {
        self.step()
    }
}

/// Neither noise nor inputs leave through a debug print.
impl fmt::Debug for InputMechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("InputMechanism")
            .field("plan", &self.plan)
            .field("dimension", &self.dimension)
            .field("step", &self.step())
            .finish_non_exhaustive()
    }
}

impl Drop for InputMechanism {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Mechanism;
    use crate::mechanism::tests::plan;
    use crate::strategy::Method;

    fn input(step: usize) -> [f64; 2] {
        [(step % 4) as f64 - 1.0, (step % 3) as f64 * 0.1]
    }

    fn releases(mechanism: &mut InputMechanism, steps: usize) -> Vec<[f64; 2]> {
        (0..steps)
            .map(|_| {
                let mut output = [0.0; 2];
                mechanism.release(&input(mechanism.step()), &mut output).unwrap();
                output
            })
            .collect()
    }

    #[test]
    fn the_workload_of_noisy_inputs_is_the_noisy_workload() {
        let mut covered = 0;
        for name in Method::ALL.iter().map(|method| method.name()) {
            for workload in ["count", "momentum:0.9"] {
                let Ok(plan) = plan(name, workload, 13) else { continue };
                covered += 1;
                let mut inputs =
                    InputMechanism::reproducible(plan.clone(), 2, Seed::reproducible(3)).unwrap();
                let mut outputs = Mechanism::reproducible(plan.clone(), 2, Seed::reproducible(3)).unwrap();
                let mut stream = plan.strategy().workload().stream(13, 2).unwrap();
                let (mut noisy, mut sums, mut expected) = ([0.0; 2], [0.0; 2], [0.0; 2]);
                for step in 0..13 {
                    let one = inputs.release(&input(step), &mut noisy).unwrap();
                    let other = outputs.release(&input(step), &mut expected).unwrap();
                    stream.push(&noisy, &mut sums).unwrap();
                    assert_eq!(one, other);
                    for (sum, expected) in sums.iter().zip(expected) {
                        assert!((sum - expected).abs() < 1e-9 * plan.sigma(), "{name} {workload} {step}");
                    }
                }
            }
        }
        assert!(covered >= Method::ALL.len(), "every strategy serves some workload");
    }

    #[test]
    fn resuming_at_every_step_equals_never_stopping() {
        for name in Method::ALL.iter().map(|method| method.name()) {
            let Ok(plan) = plan(name, "count", 9) else { continue };
            let start = || InputMechanism::reproducible(plan.clone(), 2, Seed::reproducible(8)).unwrap();
            let whole = releases(&mut start(), 9);
            let mut running = start();
            for stop in 0..=9 {
                let mut resumed = InputMechanism::resume(plan.clone(), &running.snapshot()).unwrap();
                assert_eq!(releases(&mut resumed, 9 - stop), whole[stop..], "{name} at {stop}");
                if stop < 9 {
                    running.release(&input(stop), &mut [0.0; 2]).unwrap();
                }
            }
        }
    }

    #[test]
    fn refuses_the_horizon_bad_inputs_and_the_state_of_the_other_side() {
        let make = || plan("sqrt", "count", 2).unwrap();
        let mut mechanism = InputMechanism::new(make(), 2).unwrap();
        let mut untouched = [7.0; 2];
        assert!(mechanism.release(&[f64::NAN, 0.0], &mut untouched).is_err());
        assert!(mechanism.release(&[2.5, 0.0], &mut untouched).is_err(), "outside the declared bounds");
        assert!(mechanism.release(&[0.0; 3], &mut untouched).is_err());
        assert_eq!((untouched, mechanism.step()), ([7.0; 2], 0));
        for _ in 0..2 {
            mechanism.release(&[1.0; 2], &mut [0.0; 2]).unwrap();
        }
        assert_eq!(mechanism.release(&[1.0; 2], &mut untouched), Err(Error::HorizonReached { horizon: 2 }));
        assert!(Mechanism::resume(make(), &mechanism.snapshot()).is_err());
        let other = Mechanism::new(make(), 2).unwrap();
        assert!(InputMechanism::resume(make(), &other.snapshot()).is_err());
    }
}
