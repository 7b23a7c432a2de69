//! The mechanism: push an input, get the release.

use std::fmt;

use crate::durable::Resumable;
use crate::error::{Error, Result};
use crate::noise::{CorrelatedNoise, GaussianSource, Seed, Side};
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::workload::WorkloadStream;

/// A live stream of private releases: after every input, the statistic of the prefix plus correlated noise,
/// `(A x)_t + σ (B z)_t`.
///
/// A mechanism is not `Clone` (two copies would answer twice with one noise) and prints neither its noise nor
/// its true state.
///
/// # Privacy
/// All releases together satisfy the plan's budget under its footprint, also when inputs depend on earlier
/// releases. The guarantee is that of real-valued Gaussian noise; [`crate::exact`] is for adversaries who look at
/// the low bits of a floating point number. Refused inputs leave no trace in the state, but *that*
/// an input was refused is visible to whoever sees the error: validate or clamp with bounds that do not depend
/// on the data.
///
/// # Complexity
/// Per step that of the workload's stream and of the strategy's noise filter. Nothing is allocated per step.
///
/// # Example
/// ```
/// use dp_mechanisms::{Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Workload};
/// let strategy = Method::Identity.build(&Problem::new(Workload::count(), 3)?)?;
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let plan = Plan::new(strategy, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// let mut mechanism = Mechanism::new(plan, 1)?;
/// let mut count = [0.0];
/// for visit in [1.0, 0.0, 1.0] {
///     let release = mechanism.release(&[visit], &mut count)?;
///     println!("step {}: {} ± {}", release.step, count[0], release.standard_deviation);
/// }
/// assert!(mechanism.release(&[1.0], &mut count).is_err(), "the horizon is over");
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct Mechanism {
    plan: Plan,
    dimension: usize,
    statistic: WorkloadStream,
    noise: CorrelatedNoise,
    seed: Seed,
    /// The noise of the current step, overwritten at every one.
    current: Vec<f64>,
}

/// What is known about a release beside its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    /// The step, counted from 1.
    pub step: usize,
    /// The standard deviation of the noise in each coordinate.
    pub standard_deviation: f64,
}

impl Mechanism {
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
        let statistic = plan.strategy().workload().stream(plan.steps(), dimension)?;
        let source = Box::new(GaussianSource::new(seed.duplicate(), dimension));
        let noise = CorrelatedNoise::new(plan.strategy().as_ref(), dimension, Side::Output, source)?;
        Ok(Self { plan, dimension, statistic, noise, seed, current: vec![0.0; dimension] })
    }

    /// Takes the input of the next step and writes the release after it.
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
        self.statistic.push(input, output)?;
        let sigma = self.plan.sigma();
        for (value, noise) in output.iter_mut().zip(&self.current) {
            *value += sigma * noise;
        }
        Ok(Release { step, standard_deviation })
    }

    /// The number of releases made so far.
    pub fn step(&self) -> usize {
        self.statistic.step()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of coordinates of an input.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Everything needed to continue later. It holds the seed and the true statistic: a secret.
    ///
    /// # Complexity
    /// The size of the workload's state; the noise is not stored but made again from the seed.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(
            self.plan.identity(),
            self.dimension,
            self.step(),
            self.seed.duplicate(),
            self.statistic.state(),
            self.current.clone(),
        )
    }

    /// Continues where a snapshot was taken, with the very same noise.
    ///
    /// # Privacy
    /// Resuming twice from one snapshot with *different* data and publishing both gives the difference of the
    /// data away: the noise cancels. [`crate::durable`] keeps one live copy of the state and locks it.
    ///
    /// # Complexity
    /// That of making the noise of all steps before.
    ///
    /// # Errors
    /// A snapshot of another plan, one whose contents do not fit the plan, or noise that does not come out as it was
    /// (another build or processor may round the strategy differently; continuing would mix two strategies).
    pub fn resume(plan: Plan, snapshot: &Snapshot) -> Result<Self> {
        snapshot.check_identity(&plan.identity())?;
        let mut mechanism = Self::with_seed(plan, snapshot.dimension(), snapshot.seed().duplicate())?;
        mechanism
            .statistic
            .restore(snapshot.step(), snapshot.statistic())
            .map_err(|error| Error::State { reason: format!("its contents do not fit the plan: {error}") })?;
        mechanism.noise.skip_to(snapshot.step(), &mut mechanism.current)?;
        snapshot.check_noise(&mechanism.current)?;
        Ok(mechanism)
    }
}

impl Resumable for Mechanism {
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

/// Refuses vectors of the wrong length.
pub(crate) fn check_vectors(dimension: usize, input: &[f64], output: &[f64]) -> Result<()> {
    for (what, actual) in [("the input", input.len()), ("the output buffer", output.len())] {
        if actual != dimension {
            return Err(Error::Dimension { what, expected: dimension, actual });
        }
    }
    Ok(())
}

/// Neither noise nor true state leaves through a debug print.
impl fmt::Debug for Mechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Mechanism")
            .field("plan", &self.plan)
            .field("dimension", &self.dimension)
            .field("step", &self.step())
            .finish_non_exhaustive()
    }
}

impl Drop for Mechanism {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.current);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop};
    use proptest::{prop_assert, prop_assert_eq, prop_assume, prop_oneof, proptest};

    use super::*;
    use crate::budget::Budget;
    use crate::sensitivity::{Footprint, Participation, Relation};
    use crate::workload::Workload;
    use crate::{Method, Problem};

    pub(crate) fn plan(name: &str, workload: &str, steps: usize) -> Result<Plan> {
        let workload: Workload = workload.parse()?;
        let strategy = name.parse::<Method>()?.build(&Problem::new(workload.clone(), steps)?)?;
        let footprint = Footprint::vector(-1.0, 2.0, 2, Relation::Replace, Participation::Single)?;
        Plan::new(strategy, footprint, Budget::approximate(1.0, 1e-6)?)
    }

    fn input(step: usize) -> [f64; 2] {
        [(step % 4) as f64 - 1.0, (step % 3) as f64 * 0.1]
    }

    fn releases(mechanism: &mut Mechanism, steps: usize) -> Vec<[f64; 2]> {
        (0..steps)
            .map(|_| {
                let mut output = [0.0; 2];
                mechanism.release(&input(mechanism.step()), &mut output).unwrap();
                output
            })
            .collect()
    }

    #[test]
    fn a_release_is_the_statistic_plus_the_noise_of_the_strategy() {
        for name in Method::ALL.iter().map(|method| method.name()) {
            let Ok(plan) = plan(name, "count", 13) else { continue };
            let mut mechanism = Mechanism::reproducible(plan.clone(), 2, Seed::reproducible(3)).unwrap();
            let source = Box::new(GaussianSource::new(Seed::reproducible(3), 2));
            let mut noise = CorrelatedNoise::new(plan.strategy().as_ref(), 2, Side::Output, source).unwrap();
            let mut sums = [0.0; 2];
            for (step, release) in releases(&mut mechanism, 13).iter().enumerate() {
                let mut current = [0.0; 2];
                noise.next_into(&mut current).unwrap();
                for j in 0..2 {
                    sums[j] += input(step)[j];
                    assert_eq!(release[j], sums[j] + plan.sigma() * current[j], "{name} step {step}");
                }
            }
        }
    }

    #[test]
    fn resuming_at_every_step_equals_never_stopping() {
        let steps = 17;
        let mut covered = 0;
        for name in Method::ALL.iter().map(|method| method.name()) {
            for workload in ["count", "average", "window:4", "exp:1.3", "poly:0.5", "momentum:0.9"] {
                let Ok(plan) = plan(name, workload, steps) else { continue };
                covered += 1;
                let whole = releases(
                    &mut Mechanism::reproducible(plan.clone(), 2, Seed::reproducible(8)).unwrap(),
                    steps,
                );
                let mut running = Mechanism::reproducible(plan.clone(), 2, Seed::reproducible(8)).unwrap();
                for stop in 0..=steps {
                    let mut resumed = Mechanism::resume(plan.clone(), &running.snapshot()).unwrap();
                    assert_eq!(resumed.step(), stop);
                    assert_eq!(
                        releases(&mut resumed, steps - stop),
                        whole[stop..],
                        "{name} {workload} at {stop}"
                    );
                    if stop < steps {
                        running.release(&input(stop), &mut [0.0; 2]).unwrap();
                    }
                }
            }
        }
        assert!(covered >= Method::ALL.len(), "every strategy serves some workload");
    }

    #[test]
    fn strategies_are_built_the_same_every_time() {
        // What a resumed mechanism in another process relies on. Sums that depend on the order in which threads
        // finish differ within a few tries.
        for name in Method::ALL.iter().map(|method| method.name()) {
            let Ok(first) = plan(name, "count", 300) else { continue };
            let run = |plan: &Plan| {
                releases(&mut Mechanism::reproducible(plan.clone(), 2, Seed::reproducible(2)).unwrap(), 300)
            };
            let expected = run(&first);
            for _ in 0..4 {
                let again = plan(name, "count", 300).unwrap();
                assert_eq!(again.identity(), first.identity());
                assert_eq!(again.row_norms(), first.row_norms(), "{name}");
                assert_eq!(run(&again), expected, "{name}");
            }
        }
    }

    #[test]
    fn noise_that_comes_out_differently_is_refused() {
        let make = || plan("identity", "count", 5).unwrap();
        let mut mechanism = Mechanism::new(make(), 2).unwrap();
        releases(&mut mechanism, 2);
        mechanism.current[1] = mechanism.current[1].next_up();
        let refused = Mechanism::resume(make(), &mechanism.snapshot());
        assert!(matches!(refused, Err(Error::State { reason }) if reason.contains("noise")));
    }

    #[test]
    fn every_mechanism_has_noise_of_its_own() {
        let mut first = Mechanism::new(plan("identity", "count", 4).unwrap(), 2).unwrap();
        let mut second = Mechanism::new(plan("identity", "count", 4).unwrap(), 2).unwrap();
        assert_ne!(releases(&mut first, 4), releases(&mut second, 4));
    }

    #[test]
    fn refuses_no_dimension_the_horizon_and_foreign_snapshots() {
        let make = |steps| plan("identity", "count", steps).unwrap();
        for dimension in [0, 1, 3] {
            assert!(Mechanism::new(make(3), dimension).is_err(), "calibrated for two coordinates");
        }
        let mut mechanism = Mechanism::new(make(3), 2).unwrap();
        releases(&mut mechanism, 3);
        let mut untouched = [7.0; 2];
        assert_eq!(mechanism.release(&[0.0; 2], &mut untouched), Err(Error::HorizonReached { horizon: 3 }));
        assert_eq!(untouched, [7.0; 2]);
        let refused = Mechanism::resume(make(4), &mechanism.snapshot());
        assert!(matches!(refused, Err(Error::State { reason }) if reason.contains("another plan")));
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut mechanism =
            Mechanism::reproducible(plan("identity", "count", 3).unwrap(), 2, Seed::reproducible(0)).unwrap();
        let mut output = [0.0; 2];
        mechanism.release(&[1.234_567, 0.0], &mut output).unwrap();
        let noise = (output[0] - 1.234_567) / mechanism.plan().sigma();
        for text in [format!("{mechanism:?}"), format!("{:?}", mechanism.snapshot())] {
            assert!(!text.contains("1.2345") && !text.contains(&format!("{noise:.4}")), "{text}");
        }
    }

    /// An input that must be refused.
    fn bad() -> impl Strategy<Value = Vec<f64>> {
        prop_oneof![
            Just(vec![f64::NAN, 0.0]),
            Just(vec![0.0, f64::INFINITY]),
            Just(vec![f64::NEG_INFINITY, f64::NAN]),
            (2.000_001..1e300, any::<bool>()).prop_map(|(x, second)| if second {
                vec![0.0, x]
            } else {
                vec![x, 0.0]
            }),
            (-1e300..-1.000_001).prop_map(|x: f64| vec![x, x]),
            prop::collection::vec(-1.0..2.0, 0..5).prop_filter("wrong length", |v| v.len() != 2),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn refused_inputs_leave_no_trace(
            method in prop::sample::select(Method::ALL),
            script in prop::collection::vec((prop::collection::vec(bad(), 0..3), -1.0..=2.0, -1.0..=2.0), 1..20),
        ) {
            let plan = plan(method.name(), "window:3", script.len());
            prop_assume!(plan.is_ok());
            let plan = plan.unwrap();
            let mut touched = Mechanism::reproducible(plan.clone(), 2, Seed::reproducible(1)).unwrap();
            let mut untouched = Mechanism::reproducible(plan, 2, Seed::reproducible(1)).unwrap();
            for (refused, x, y) in script {
                let (mut a, mut b) = ([0.0; 2], [0.0; 2]);
                for input in refused {
                    prop_assert!(touched.release(&input, &mut a).is_err());
                    prop_assert_eq!(a, [0.0; 2]);
                }
                prop_assert!(touched.release(&[x, y], &mut [0.0; 3]).is_err());
                touched.release(&[x, y], &mut a).unwrap();
                untouched.release(&[x, y], &mut b).unwrap();
                prop_assert_eq!(a, b);
            }
        }
    }
}
