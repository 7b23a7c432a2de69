//! The mechanism: push an input, get the release.

use std::fmt;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::noise::{HashKey, Seed};
use crate::plan::Plan;
use crate::run::Run;
use crate::sensitivity::Domain;
use crate::snapshot::Snapshot;

/// A live stream of private releases: a plan, a seed, and a state that moves forward one step at a time.
///
/// After every input it releases the statistic of the prefix with correlated noise, `(A x)_t + σ (B z)_t`, or the input with
/// its noise where the plan says so ([`Plan::releasing_inputs`]); in floating point or in exact integers; for a known
/// number of steps or without an end. All of that is the plan's, and the mechanism is the same.
///
/// A mechanism is not `Clone` (two copies would answer twice with one noise), prints neither its noise nor
/// its true state, and overwrites what it keeps of both with zeros when it is dropped.
///
/// # Privacy
/// All releases together satisfy the plan's budget under its footprint, also when inputs depend on earlier
/// releases. For a plan that was asked for in floating point ([`Plan::idealized`]) the guarantee is that of real-valued Gaussian noise,
/// and says nothing about the low bits of a number. Refused inputs leave no trace in the state, but *that*
/// an input was refused is visible to whoever sees the error: validate or clamp with bounds that do not depend
/// on the data.
///
/// # Complexity
/// Per step that of the workload's stream and of the strategy's noise filter. Nothing is allocated per step (without an end:
/// within an epoch).
///
/// # Example
/// ```
/// use dp_mechanisms::{Budget, Footprint, Mechanism, Participation, Plan, Problem, Relation, Seed, Workload};
/// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let three = Problem::new(Workload::count(), 3)?;
/// let plan = Plan::best(&three, footprint, Budget::approximate(1.0, 1e-6)?)?;
/// let mut mechanism = Mechanism::new(plan.clone(), Seed::from_system()?)?;
/// let mut count = [0.0];
/// for (visit, deviation) in [1.0, 0.0, 1.0].into_iter().zip(plan.deviations()) {
///     let step = mechanism.release(&[visit], &mut count)?;
///     println!("step {step}: {} ± {deviation}", count[0]);
/// }
/// assert!(mechanism.release(&[1.0], &mut count).is_err(), "the horizon is over");
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct Mechanism {
    plan: Plan,
    /// What every step asks of the plan, at hand.
    horizon: usize,
    domain: Domain,
    dimension: usize,
    seeds: crate::noise::Seeds,
    step: usize,
    run: Box<dyn Run>,
}

impl Mechanism {
    /// A mechanism before its first step. Where its noise comes from is the seed's: [`Seed::from_system`] for releases that
    /// are private, [`Seed::reproducible`] for those that anybody can repeat.
    ///
    /// # Errors
    /// A plan whose footprint does not state its dimension, or what the strategy refuses.
    pub fn new(plan: Plan, seed: Seed) -> Result<Self> {
        Self::with_seeds(plan, seed.into())
    }

    fn with_seeds(plan: Plan, seeds: crate::noise::Seeds) -> Result<Self> {
        let dimension = plan.dimension()?;
        let run = plan.start(dimension, seeds.duplicate())?;
        Ok(Self::begin(plan, dimension, seeds, run))
    }

    /// The coordinates `part` of a mechanism: inputs and releases are those coordinates, to the last bit as the whole mechanism
    /// with this seed would release them, and nothing is computed for the others. Machines that share a secret
    /// ([`Seed::shared`]) release a long vector together this way, without asking each other.
    ///
    /// # Privacy
    /// The parts of one plan under one secret, each coordinate in one part, are together the whole mechanism.
    ///
    /// # Complexity
    /// That of the part alone; of noise, a tile ([`crate::noise::TILE`]) more at either end.
    ///
    /// # Errors
    /// Coordinates that the plan does not have, or a plan that is not exact, or whose footprint bounds the norm of the whole
    /// vector: no part could check it.
    pub fn part(plan: Plan, part: Range<usize>, seed: Seed) -> Result<Self> {
        Self::part_with_seeds(plan, part, seed.into())
    }

    fn part_with_seeds(plan: Plan, part: Range<usize>, seeds: crate::noise::Seeds) -> Result<Self> {
        let dimension = part.len();
        let run = plan.start_part(part, seeds.duplicate())?;
        Ok(Self::begin(plan, dimension, seeds, run))
    }

    fn begin(plan: Plan, dimension: usize, seeds: crate::noise::Seeds, run: Box<dyn Run>) -> Self {
        let (horizon, domain) = (plan.steps(), plan.footprint().domain());
        Self { plan, horizon, domain, dimension, seeds, step: 0, run }
    }

    /// Takes the input of the next step, writes the release after it, and returns the step, counted from 1.
    ///
    /// What is known about the release beside its value is a property of the plan ([`Plan::standard_deviation`],
    /// [`Plan::deviations`]), and costs nothing here.
    ///
    /// # Errors
    /// A step past the horizon, a wrong number of coordinates, NaN, infinities, or an input outside the declared
    /// domain. The mechanism is then exactly as before, and the output untouched.
    pub fn release(&mut self, input: &[f64], output: &mut [f64]) -> Result<usize> {
        if self.step >= self.horizon {
            return Err(Error::HorizonReached { horizon: self.horizon });
        }
        if input.len() != self.dimension {
            return Err(self.unfit("the input", input.len()));
        }
        if output.len() != self.dimension {
            return Err(self.unfit("the output buffer", output.len()));
        }
        self.domain.check(self.step + 1, input)?;
        self.run.advance(self.step + 1, input, output)?;
        self.step += 1;
        Ok(self.step)
    }

    #[cold]
    fn unfit(&self, what: &'static str, actual: usize) -> Error {
        Error::Dimension { what, expected: self.dimension, actual }
    }

    /// The number of releases made so far.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The secret of a keyed hash for one purpose, which follows from the first seed: the same through every resume once a step
    /// has been released, and independent of the noise.
    pub fn hash_key(&self, purpose: &str) -> HashKey {
        HashKey::derive(self.seeds.seed(0), purpose)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of coordinates of an input.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    #[cfg(test)]
    pub(crate) fn measurements(&self) -> &[i128] {
        self.run.measurements()
    }

    /// Everything needed to continue later. It holds the seeds and the true statistic: a secret.
    ///
    /// # Complexity
    /// The size of the workload's state, or of all inputs so far where they are measured exactly; noise is not stored but made
    /// again.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(
            self.plan.identity(),
            self.dimension,
            self.step,
            self.seeds.duplicate(),
            self.run.save(),
            self.run.witness(),
        )
        .with_saved(self.plan.saved())
    }

    /// Continues where a snapshot was taken, with the coefficients that it was begun with: those that were planned here may
    /// differ from them in their last bits. Rows of noise that a release has used stay what they were; a seed from the system
    /// makes all others, a reproducible or shared one must be that of the beginning.
    ///
    /// # Privacy
    /// Resuming twice from one snapshot with *different* data, and publishing both, costs what two mechanisms cost: their
    /// noise is independent from the snapshot on. (Strategies that look ahead, `group` and `honaker-full`, have used rows of
    /// later steps already, and so have reproducible and shared seeds: there the difference of two continuations is that of
    /// the data.) [`crate::Session`] keeps one live copy of the state and locks it.
    ///
    /// # Complexity
    /// That of making the noise of all steps before.
    ///
    /// # Errors
    /// A snapshot of another plan, by what is different; one whose contents do not fit the plan; a seed of another origin; or
    /// noise that does not come out as it was (another build or processor may round the strategy differently; continuing would
    /// mix two strategies).
    pub fn resume(plan: Plan, snapshot: &Snapshot, seed: Seed) -> Result<Self> {
        let dimension = plan.dimension()?;
        Self::resume_with(plan, dimension, snapshot, seed, Self::with_seeds)
    }

    /// Continues a part ([`Mechanism::part`]) as [`Mechanism::resume`] continues a whole.
    ///
    /// # Errors
    /// Those of both.
    pub fn resume_part(plan: Plan, part: Range<usize>, snapshot: &Snapshot, seed: Seed) -> Result<Self> {
        Self::resume_with(plan, part.len(), snapshot, seed, |plan, seeds| {
            Self::part_with_seeds(plan, part, seeds)
        })
    }

    fn resume_with(
        plan: Plan,
        dimension: usize,
        snapshot: &Snapshot,
        seed: Seed,
        begin: impl FnOnce(Plan, crate::noise::Seeds) -> Result<Self>,
    ) -> Result<Self> {
        let plan = snapshot.plan_to_continue(plan, Plan::identity)?;
        if snapshot.dimension() != dimension {
            return Err(Error::Dimension {
                what: "the saved state",
                expected: dimension,
                actual: snapshot.dimension(),
            });
        }
        let step = snapshot.step();
        if step > plan.steps() {
            return Err(crate::run::unfit("it is past its horizon"));
        }
        let mut seeds = snapshot.seeds().duplicate();
        let (part, row) = plan.used_rows(step)?;
        seeds.continue_with(part, row, seed)?;
        let mut mechanism = begin(plan, seeds)?;
        mechanism.run.restore(step, snapshot.payload())?;
        mechanism.step = step;
        let mut witness = mechanism.run.witness();
        let outcome = snapshot.check_witness(&witness);
        zeroize::Zeroize::zeroize(&mut witness);
        outcome.map(|()| mechanism)
    }
}

/// Neither noise nor true state leaves through a debug print.
impl fmt::Debug for Mechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Mechanism")
            .field("plan", &self.plan)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop};
    use proptest::{prop_assert, prop_assert_eq, prop_assume, prop_oneof, proptest};

    use super::*;
    use crate::budget::Budget;
    use crate::noise::{CorrelatedNoise, GaussianSource, Side};
    use crate::sensitivity::{Footprint, Participation, Relation};
    use crate::workload::Workload;
    use crate::{Method, Problem};

    pub(crate) fn plan(name: &str, workload: &str, steps: usize) -> Result<Plan> {
        let workload: Workload = workload.parse()?;
        let strategy = name.parse::<Method>()?.build(&Problem::new(workload.clone(), steps)?)?;
        let footprint = Footprint::vector(-1.0, 2.0, 2, Relation::Replace, Participation::Single)?;
        Plan::idealized(strategy, footprint, Budget::approximate(1.0, 1e-6)?)
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
            let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(3)).unwrap();
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
    fn one_number_at_a_time_is_a_vector_of_one() {
        // More steps than are made together; workloads with and without a recurrence of first order.
        let steps = 600;
        for name in ["identity", "binary-tree", "sqrt", "blt", "scaled-blt"] {
            for workload in ["count", "average", "exp:1.3", "window:4", "momentum:0.9", "poly:0.5"] {
                let workload: Workload = workload.parse().unwrap();
                let problem = Problem::new(workload.clone(), steps).unwrap();
                let Ok(strategy) = name.parse::<Method>().unwrap().build(&problem) else { continue };
                let footprint =
                    Footprint::scalar(-1.0, 2.0, Relation::ZeroOut, Participation::Single).unwrap();
                let plan =
                    Plan::idealized(strategy.clone(), footprint, Budget::zero_concentrated(0.5).unwrap())
                        .unwrap();
                let inputs = plan.clone().releasing_inputs().unwrap();
                for (plan, side) in [(plan, Side::Output), (inputs, Side::Input)] {
                    let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(4)).unwrap();
                    let source = Box::new(GaussianSource::new(Seed::reproducible(4), 1));
                    let mut noise = CorrelatedNoise::new(strategy.as_ref(), 1, side, source).unwrap();
                    let mut stream = workload.stream(steps, 1).unwrap();
                    for step in 0..steps {
                        let (mut release, mut expected, mut current) = ([0.0], [0.0], [0.0]);
                        let input = [input(step)[0]];
                        mechanism.release(&input, &mut release).unwrap();
                        noise.next_into(&mut current).unwrap();
                        stream.push(&input, &mut expected).unwrap();
                        let exact = if side == Side::Output { expected } else { input };
                        let expected = exact[0] + plan.sigma() * current[0];
                        assert_eq!(release[0].to_bits(), expected.to_bits(), "{name} {workload} step {step}");
                    }
                    let refused = mechanism.release(&[0.0], &mut [0.0]);
                    assert_eq!(refused, Err(Error::HorizonReached { horizon: steps }));
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
                let Ok(statistic) = plan(name, workload, steps) else { continue };
                covered += 1;
                let inputs = statistic.clone().releasing_inputs().unwrap();
                for plan in [statistic, inputs] {
                    let whole =
                        releases(&mut Mechanism::new(plan.clone(), Seed::reproducible(8)).unwrap(), steps);
                    let mut running = Mechanism::new(plan.clone(), Seed::reproducible(8)).unwrap();
                    for stop in 0..=steps {
                        let mut resumed =
                            Mechanism::resume(plan.clone(), &running.snapshot(), Seed::reproducible(8))
                                .unwrap();
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
        }
        assert!(covered >= Method::ALL.len(), "every strategy serves some workload");
    }

    #[test]
    fn parts_are_the_whole_to_the_last_bit() {
        // Narrower than a tile of noise, and several tiles wide; parts that begin and end within tiles and at their ends.
        for (dimension, steps, parts) in [
            (7, 300, vec![0..1, 1..4, 4..7]),
            (300, 40, vec![0..128, 128..300]),
            (10_000, 3, vec![0..4096, 4096..5000, 5000..9999, 9999..10_000]),
        ] {
            for method in ["sqrt", "binary-tree", "scaled-sqrt"] {
                let problem = Problem::new(Workload::count(), steps).unwrap();
                let Ok(strategy) = method.parse::<Method>().unwrap().build(&problem) else { continue };
                let term = crate::sensitivity::Term { weight: 1.0, participation: Participation::Single };
                let footprint = Footprint::encoded(vec![term], Relation::ZeroOut)
                    .unwrap()
                    .of_dimension(dimension)
                    .unwrap();
                let plan =
                    Plan::exact(&strategy, footprint, Budget::approximate(1.0, 1e-6).unwrap(), 1.0).unwrap();
                let input: Vec<f64> = (0..dimension).map(|index| (index % 13) as f64).collect();
                let mut whole = Mechanism::new(plan.clone(), Seed::reproducible(5)).unwrap();
                let mut pieces: Vec<Mechanism> = parts
                    .iter()
                    .map(|part| Mechanism::part(plan.clone(), part.clone(), Seed::reproducible(5)).unwrap())
                    .collect();
                let (mut expected, mut released) = (vec![0.0; dimension], vec![0.0; dimension]);
                for step in 0..steps {
                    whole.release(&input, &mut expected).unwrap();
                    for (piece, part) in pieces.iter_mut().zip(&parts) {
                        piece.release(&input[part.clone()], &mut released[part.clone()]).unwrap();
                    }
                    assert_eq!(released, expected, "{method}, {dimension} coordinates, step {step}");
                    if step == steps / 2 {
                        let (piece, part) = (&mut pieces[1], parts[1].clone());
                        let seed = Seed::reproducible(5);
                        *piece = Mechanism::resume_part(plan.clone(), part, &piece.snapshot(), seed).unwrap();
                    }
                }
                for outside in [0..0, dimension..dimension + 1, 0..dimension + 1] {
                    assert!(Mechanism::part(plan.clone(), outside, Seed::reproducible(5)).is_err());
                }
            }
        }
        let idealized = plan("sqrt", "count", 5).unwrap();
        assert!(Mechanism::part(idealized, 0..1, Seed::reproducible(5)).is_err());
    }

    #[test]
    fn strategies_are_built_the_same_every_time() {
        // What a resumed mechanism in another process relies on. Sums that depend on the order in which threads
        // finish differ within a few tries.
        for name in Method::ALL.iter().map(|method| method.name()) {
            let Ok(first) = plan(name, "count", 300) else { continue };
            let run = |plan: &Plan| {
                releases(&mut Mechanism::new(plan.clone(), Seed::reproducible(2)).unwrap(), 300)
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
        let mut mechanism = Mechanism::new(make(), Seed::reproducible(1)).unwrap();
        releases(&mut mechanism, 2);
        let mut witness = mechanism.run.witness();
        witness[1] = witness[1].next_up();
        let plan = make();
        let seeds = Seed::reproducible(1).into();
        let other = Snapshot::new(plan.identity(), 2, 2, seeds, mechanism.run.save(), witness);
        let refused = Mechanism::resume(plan, &other, Seed::reproducible(1));
        assert!(matches!(refused, Err(Error::State { reason }) if reason.contains("noise")));
    }

    #[test]
    fn every_mechanism_has_noise_of_its_own() {
        let mut first =
            Mechanism::new(plan("identity", "count", 4).unwrap(), Seed::from_system().unwrap()).unwrap();
        let mut second =
            Mechanism::new(plan("identity", "count", 4).unwrap(), Seed::from_system().unwrap()).unwrap();
        assert_ne!(releases(&mut first, 4), releases(&mut second, 4));
    }

    #[test]
    fn refuses_no_dimension_the_horizon_and_foreign_snapshots() {
        let make = |steps| plan("identity", "count", steps).unwrap();
        for dimension in [0, 1, 3] {
            assert!(make(3).of_dimension(dimension).is_err(), "calibrated for two coordinates");
        }
        let ball = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single).unwrap();
        let plan = Plan::idealized(make(3).strategy().clone(), ball, *make(3).budget()).unwrap();
        assert!(Mechanism::new(plan.clone(), Seed::reproducible(1)).is_err(), "of how many coordinates?");
        assert!(Mechanism::new(plan.of_dimension(9).unwrap(), Seed::reproducible(1)).is_ok());
        let mut mechanism = Mechanism::new(make(3), Seed::from_system().unwrap()).unwrap();
        releases(&mut mechanism, 3);
        let mut untouched = [7.0; 2];
        assert_eq!(mechanism.release(&[0.0; 2], &mut untouched), Err(Error::HorizonReached { horizon: 3 }));
        assert_eq!(untouched, [7.0; 2]);
        let refused = Mechanism::resume(make(4), &mechanism.snapshot(), Seed::from_system().unwrap());
        assert!(matches!(refused, Err(Error::State { reason }) if reason.contains("steps was 3, now 4")));
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut mechanism =
            Mechanism::new(plan("identity", "count", 3).unwrap(), Seed::reproducible(0)).unwrap();
        let mut output = [0.0; 2];
        mechanism.release(&[1.234_567, 0.0], &mut output).unwrap();
        let noise = (output[0] - 1.234_567) / mechanism.plan().sigma();
        for text in [format!("{mechanism:?}"), format!("{:?}", mechanism.snapshot())] {
            assert!(!text.contains("1.2345") && !text.contains(&format!("{noise:.4}")), "{text}");
        }
    }

    #[test]
    fn the_workload_of_noisy_inputs_is_the_noisy_workload() {
        let mut covered = 0;
        for name in Method::ALL.iter().map(|method| method.name()) {
            for workload in ["count", "momentum:0.9"] {
                let Ok(plan) = plan(name, workload, 13) else { continue };
                covered += 1;
                let mut inputs =
                    Mechanism::new(plan.clone().releasing_inputs().unwrap(), Seed::reproducible(3)).unwrap();
                let mut outputs = Mechanism::new(plan.clone(), Seed::reproducible(3)).unwrap();
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
    fn a_state_of_inputs_is_no_state_of_the_statistic() {
        let statistic = || plan("sqrt", "count", 2).unwrap();
        let inputs = || statistic().releasing_inputs().unwrap();
        let saved = |plan: Plan| Mechanism::new(plan, Seed::reproducible(1)).unwrap().snapshot();
        for (plan, other) in [(statistic(), inputs()), (inputs(), statistic())] {
            let refused = Mechanism::resume(plan, &saved(other), Seed::reproducible(1)).unwrap_err();
            assert!(refused.to_string().contains("releases was "), "{refused}");
        }
        let mut mechanism = Mechanism::new(inputs(), Seed::reproducible(1)).unwrap();
        for _ in 0..2 {
            assert!(mechanism.release(&[2.5, 0.0], &mut [0.0; 2]).is_err(), "outside the declared bounds");
            mechanism.release(&[1.0; 2], &mut [0.0; 2]).unwrap();
        }
        let refused = mechanism.release(&[1.0; 2], &mut [0.0; 2]);
        assert_eq!(refused, Err(Error::HorizonReached { horizon: 2 }));
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
            let mut touched = Mechanism::new(plan.clone(), Seed::reproducible(1)).unwrap();
            let mut untouched = Mechanism::new(plan, Seed::reproducible(1)).unwrap();
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
