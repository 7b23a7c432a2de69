//! Histograms over an unknown universe: which items there are is itself private.
//!
//! The keys that occur cannot simply be listed: a key that only one person ever mentions would give that person away.
//! [`Discovery`] shows a key once its *released* count reaches a threshold that keys of a single person reach with
//! probability δ' at most.
//!
//! # Theorem
//! Let the noisy release of *all* conceivable keys be (ε, δ)-DP. Let one person touch at most K keys
//! altogether (both versions of a replaced person taken together), and raise no statistic by more than c. Let the noise of one
//! key after step t exceed `q_t` of its standard deviations `σ‖b_t‖` with probability `p_t` at most, where `Σ p_t ≤ δ'/K` over
//! all n steps. With `τ_t = c + q_t σ‖b_t‖`, showing the keys that are touched and have reached `τ_t` at
//! some step, with their releases, is (ε, δ + δ')-DP, adaptively.
//!
//! The quantile `q_t` is [`Plan::tail_deviations`]: `Φ⁻¹(1 - p_t)` for continuous Gaussian noise; for the discrete noise of exact
//! plans the same up to what it is proved to differ, which is beyond the printed digits. The proof uses nothing else about the
//! law of the noise than that every key has a column of its own, independent of all others.
//!
//! Where every step is printed, `p_t = δ'/(n K)`. Where only some are planned to be ([`Threshold::printing_every`]), they share seven
//! eighths of δ', and the last eighth is for all others: one may look after any step, but thresholds are lower where it was planned. For 365 steps and
//! δ' = 1e-6, q is 5.83 if all are printed, 5.27 if every thirtieth is, and 4.78 if only the last one is.
//!
//! # Proof
//! Let x and x' be neighbours and `Y` the release of all conceivable keys, whether touched or not; its laws under x and
//! x' are (ε, δ)-close. What is shown is a function of Y and of the touched keys: `f_x(Y)` under x, `f_x'(Y)` under x'.
//! Let E be the event that some key reaches the threshold at a step at which it is touched in exactly one of the two
//! streams. Outside E a key that is shown was touched in both streams when it was first shown, hence in both ever after,
//! so `f_x(Y) = f_x'(Y)`. For every set O of outputs
//!
//! `P_x(f_x(Y) ∈ O) ≤ P_x(f_x'(Y) ∈ O, not E) + P_x(E) ≤ e^ε P_x'(f_x'(Y) ∈ O) + δ + P_x(E)`
//!
//! and the same with x and x' exchanged. It remains to bound the probability of E, under either stream. A key that is
//! touched in exactly one stream is touched by the one person alone, as everybody else's changes are in both; its
//! statistic is at most c (0 in the other stream). So E needs the noise of such a key to reach `τ_t - c` at some step t. There are at most
//! K such keys, each with probability `Σ p_t ≤ δ'/K` at most: δ' in total. This also holds when streams are chosen
//! adaptively: nothing has been said about the noise of a key before it is touched — a key that somebody *asks* for
//! counts as touched in both streams from then on — and outside E its presence has had no effect on any output.
//! So the noise of the j-th such key is a fresh column whatever led to it, and the union over (j, t) stands. ∎
//!
//! The union over the steps loses little, although their noise is correlated: the joint law of all steps would allow quantiles that are
//! 0.2 % lower at δ' = 1e-6 and 0.05 % lower at 1e-9, for 365 and for 2000 steps of a count (1 % at 1e-3). High above its mean,
//! noise that has reached the threshold once seldom does so again.
//!
//! The column of a key follows from a keyed hash of the key, so that a key keeps its column whether or not the run in which
//! it was asked for was saved.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dp_mechanisms::budget::Kind;
use dp_mechanisms::noise::HashKey;
use dp_mechanisms::sparse::MOST_COORDINATES;
use dp_mechanisms::{Budget, Footprint, Plan, Relation, Seed, Snapshot, SparseMechanism, Strategy};

pub use super::threshold::{Deviations, Threshold};
use super::{Change, Rules};
use crate::counts::{ATTACHMENT, Estimate, check_owner, owner, width};
use crate::error::{Error, Result};

/// A key whose released count stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The key.
    pub key: String,
    /// Its released statistic.
    pub value: f64,
}

/// A histogram over an unknown universe of text keys.
///
/// # Privacy
/// The theorem of [the module](self): the budget of the noise, plus the threshold's δ'. See [`Self::total_delta`].
///
/// # Complexity
/// A step costs O(1) per change, [`Self::found`] one question for each key that was touched or asked for.
///
/// # Example
/// ```
/// use dp_apps::histogram::discovery::{Discovery, Threshold};
/// use dp_apps::histogram::{Change, Rules};
/// use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 30)?)?;
/// let rules = Rules::one_item(Relation::ZeroOut);
/// let plan = Discovery::plan_for(&rules, &strategy, Budget::approximate(1.0, 5e-7)?)?;
/// let mut words = Discovery::new(rules, plan, Threshold::new(1e-12)?, Seed::from_system()?)?;
/// words.push(&[vec![Change::Insert("rust".to_owned())]])?;
/// assert!(words.found()?.is_empty(), "one person's word stays hidden");
/// # Ok::<(), dp_apps::Error>(())
/// ```
pub struct Discovery {
    rules: Rules,
    mechanism: SparseMechanism,
    when: Threshold,
    /// The most that one person can add to one key's statistic.
    largest_count: f64,
    /// How many standard deviations the threshold lies above that.
    deviations: Deviations,
    keys: Keys,
    changes: Vec<(u64, f64)>,
}

/// The columns of noise of keys that nobody listed, one of all [`MOST_COORDINATES`] for each.
///
/// The column of a key follows from a keyed hash of the key: it does not matter when a key was first touched or asked for, or
/// whether a run that only asked was saved. Numbered in the order of arrival, two keys that are asked for in two such runs would be
/// answered with one and the same noise, and equal answers would prove that neither ever occurred. Two keys whose hashes collide
/// are told apart by hashing again.
pub struct Columns {
    secret: HashKey,
    taken: HashSet<u64>,
}

impl Columns {
    /// No key yet. The secret belongs to the noise: [`SparseMechanism::hash_key`], or as it was saved.
    pub fn new(secret: HashKey) -> Self {
        Self { secret, taken: HashSet::new() }
    }

    /// The secret, for a sealed state.
    pub fn secret(&self) -> &HashKey {
        &self.secret
    }

    /// The column of a key that has none yet.
    pub fn assign(&mut self, key: &str) -> u64 {
        let mut hash = self.secret.child(key.as_bytes());
        let mut column = hash.number(b"") % MOST_COORDINATES;
        while !self.taken.insert(column) {
            hash = hash.child(b"again");
            column = hash.number(b"") % MOST_COORDINATES;
        }
        column
    }

    /// Takes a column that was assigned before it was saved; says whether that is possible.
    pub fn restore(&mut self, column: u64) -> bool {
        column < MOST_COORDINATES && self.taken.insert(column)
    }
}

/// The keys that were touched or asked for, with their columns; those that were shown stay shown.
struct Keys {
    columns: Columns,
    places: HashMap<String, usize>,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    coordinate: u64,
    shown: bool,
}

impl Keys {
    fn new(secret: HashKey) -> Self {
        Self { columns: Columns::new(secret), places: HashMap::new(), entries: Vec::new() }
    }

    fn coordinate(&mut self, key: &str) -> u64 {
        if let Some(place) = self.places.get(key) {
            return self.entries[*place].coordinate;
        }
        let coordinate = self.columns.assign(key);
        self.places.insert(key.to_owned(), self.entries.len());
        self.entries.push(Entry { name: key.to_owned(), coordinate, shown: false });
        coordinate
    }

    /// The number of bytes that [`Self::encode`] appends.
    fn encoded_length(&self) -> usize {
        32 + self.entries.iter().map(|entry| 9 + entry.name.len()).sum::<usize>()
    }

    /// The secret, and for each key in the order of arrival: whether it was shown, the length of its name, its name.
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.columns.secret().as_bytes());
        for Entry { name, shown, .. } in &self.entries {
            bytes.push(u8::from(*shown));
            bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
    }

    /// Reads what [`Self::encode`] wrote; nothing if that is not what it is.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (secret, mut bytes) = bytes.split_first_chunk()?;
        let mut keys = Self::new(HashKey::from_bytes(*secret));
        while let [shown, rest @ ..] = bytes {
            let (length, rest) = rest.split_first_chunk()?;
            let (name, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            let known = keys.entries.len();
            keys.coordinate(std::str::from_utf8(name).ok()?);
            let entry = keys.entries.get_mut(known)?;
            if *shown > 1 {
                return None;
            }
            entry.shown = *shown == 1;
            bytes = rest;
        }
        Some(keys)
    }
}

/// Which keys there are is a secret, and so are the changes of the last step.
impl std::fmt::Debug for Discovery {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Discovery")
            .field("rules", &self.rules)
            .field("when", &self.when)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

impl Discovery {
    /// The calibrated plan in exact integers, over all keys that there can be.
    ///
    /// # Errors
    /// Rules without items, what cannot be calibrated, or a strategy that cannot be measured on live data.
    pub fn plan_for(rules: &Rules, strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Plan> {
        Ok(Plan::exact(strategy, footprint(rules)?, budget, 1.0)?)
    }

    /// The same in floating point, whose low bits can give a person away to whoever studies them.
    ///
    /// # Errors
    /// Rules without items, or what cannot be calibrated.
    pub fn idealized_plan_for(rules: &Rules, strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Plan> {
        Ok(Plan::idealized(Arc::clone(strategy), footprint(rules)?, budget)?)
    }

    /// Starts. Where the noise comes from is the seed's. The workload must have weights of at most 1, which is
    /// true of all that [`SparseMechanism`] serves.
    ///
    /// # Errors
    /// A δ' that is too small for the plan's noise, or a plan for other rules.
    pub fn new(rules: Rules, plan: Plan, when: Threshold, seed: Seed) -> Result<Self> {
        Self::start(rules, plan, when, |plan| SparseMechanism::new(plan, seed))
    }

    /// Continues where a snapshot was taken: what was shown then is found again with the same releases. See
    /// [`SparseMechanism::resume`] for what must never be done.
    ///
    /// # Errors
    /// A snapshot of another plan, other rules or another threshold.
    pub fn resume(
        rules: Rules,
        plan: Plan,
        when: Threshold,
        snapshot: &Snapshot,
        seed: Seed,
    ) -> Result<Self> {
        let mut resumed =
            Self::start(rules, plan, when, |plan| SparseMechanism::resume(plan, snapshot, seed))?;
        let keys = check_owner(snapshot, &resumed.identity())?;
        resumed.keys = Keys::decode(keys).ok_or_else(|| dp_mechanisms::Error::State {
            reason: "its list of keys cannot be read".to_owned(),
        })?;
        Ok(resumed)
    }

    fn start(
        rules: Rules,
        plan: Plan,
        when: Threshold,
        mechanism: impl FnOnce(Plan) -> dp_mechanisms::Result<SparseMechanism>,
    ) -> Result<Self> {
        if *plan.footprint() != footprint(&rules)? {
            return Err(Error::OtherPlan { encoding: format!("{rules:?}") });
        }
        let times = rules.participation.times_within(plan.steps()) as f64;
        let versions = if rules.relation == Relation::Replace { 2.0 } else { 1.0 };
        let touched = versions * rules.items as f64 * times;
        let largest_count = times * if rules.distinct { 1.0 } else { rules.items as f64 };
        let deviations = when.deviations(&plan, touched, rules.items as f64)?;
        let mechanism = mechanism(plan)?;
        let keys = Keys::new(mechanism.hash_key("coordinates of discovered keys"));
        Ok(Self { rules, mechanism, when, largest_count, deviations, keys, changes: Vec::new() })
    }

    /// Everything needed to continue later, the keys and which of them were shown included: a secret. Its size depends on
    /// how many keys there are.
    pub fn snapshot(&self) -> Snapshot {
        let mut attachment = owner(&self.identity(), self.keys.encoded_length());
        self.keys.encode(&mut attachment);
        self.mechanism.snapshot().with_attachment(ATTACHMENT, attachment)
    }

    /// Two thresholds can differ where the plans agree: the rules, δ' and the steps that are printed decide on them.
    fn identity(&self) -> String {
        let printed = match self.when.every() {
            1 => String::new(),
            every => format!(", printed every {every}"),
        };
        format!("discovery to {:e}{printed}, {:?}", self.when.delta(), self.rules)
    }

    /// Takes everything that happens in one step: one contribution for each person.
    ///
    /// # Errors
    /// A contribution outside the rules, or a step past the horizon; nothing has changed then.
    pub fn push(&mut self, event: &[Vec<Change<String>>]) -> Result<usize> {
        let horizon = self.mechanism.plan().steps();
        if self.mechanism.step() >= horizon {
            return Err(dp_mechanisms::Error::HorizonReached { horizon }.into());
        }
        for contribution in event {
            self.rules.check(contribution)?;
        }
        self.changes.clear();
        for change in event.iter().flatten() {
            let (key, amount) = change.parts();
            self.changes.push((self.keys.coordinate(key), amount));
        }
        Ok(self.mechanism.push(&self.changes)?)
    }

    /// The keys that stand out now or have done so when this was called before, with their current releases, largest
    /// first. (Never in the order in which they arrived: that would say more than the releases do.)
    ///
    /// # Errors
    /// No step taken yet.
    pub fn found(&mut self) -> Result<Vec<Found>> {
        let threshold = self.threshold();
        let mut found = Vec::new();
        for entry in &mut self.keys.entries {
            let value = self.mechanism.ask(entry.coordinate)?;
            entry.shown |= value >= threshold;
            if entry.shown {
                found.push(Found { key: entry.name.clone(), value });
            }
        }
        found
            .sort_by(|left, right| right.value.total_cmp(&left.value).then_with(|| left.key.cmp(&right.key)));
        found.iter_mut().for_each(|found| found.value = self.mechanism.plan().on_grid(found.value));
        Ok(found)
    }

    /// The release of a key that the reader names, whether it has ever occurred or not.
    ///
    /// # Errors
    /// No step taken yet.
    pub fn count(&mut self, key: &str) -> Result<Estimate> {
        let coordinate = self.keys.coordinate(key);
        let value = self.mechanism.ask(coordinate)?;
        Ok(Estimate { value: self.plan().on_grid(value), standard_deviation: self.standard_deviation() })
    }

    /// The released value from which a key is shown after the current step, `τ_t`.
    pub fn threshold(&self) -> f64 {
        let planned = self.when.is_planned(self.mechanism.step(), self.mechanism.plan().steps());
        let Deviations { after_planned, after_others } = self.deviations;
        let deviations = if planned { after_planned } else { after_others };
        self.largest_count + deviations * self.standard_deviation()
    }

    /// The standard deviation of every release after the current step; 0 before the first.
    pub fn standard_deviation(&self) -> f64 {
        self.mechanism.plan().standard_deviation(self.mechanism.step()).unwrap_or(0.0)
    }

    /// δ + δ' of the (ε, δ + δ') guarantee, if the budget was stated as (ε, δ).
    pub fn total_delta(&self) -> Option<f64> {
        match self.mechanism.plan().budget().kind() {
            Kind::Approximate { delta, .. } => Some((delta + self.when.delta()).next_up()),
            _ => None,
        }
    }

    /// The plan of the noisy release.
    pub fn plan(&self) -> &Plan {
        self.mechanism.plan()
    }

    /// The number of steps taken.
    pub fn step(&self) -> usize {
        self.mechanism.step()
    }
}

/// What one person can change among all keys that there can be.
fn footprint(rules: &Rules) -> Result<Footprint> {
    Ok(rules.footprint(None)?.of_dimension(width(MOST_COORDINATES))?)
}

#[cfg(test)]
mod tests {
    use dp_mechanisms::{Method, Participation, Problem, Workload};

    use super::*;

    fn start(rules: Rules, steps: usize, delta: f64, seed: u64) -> Discovery {
        let strategy = Method::Sqrt
            .build(&Problem::new(Workload::count(), steps).unwrap().with_participation(rules.participation))
            .unwrap();
        let budget = Budget::approximate(1.0, 1e-6).unwrap();
        let plan = Discovery::plan_for(&rules, &strategy, budget).unwrap();
        Discovery::new(rules, plan, Threshold::new(delta).unwrap(), Seed::reproducible(seed)).unwrap()
    }

    fn visit(key: &str, people: usize) -> Vec<Vec<Change<String>>> {
        vec![vec![Change::Insert(key.to_owned())]; people]
    }

    #[test]
    fn frequent_keys_appear_and_stay_and_rare_ones_do_not() {
        let mut keys = start(Rules::one_item(Relation::ZeroOut), 20, 1e-6, 4);
        let mut first = None;
        for step in 1..=20 {
            let mut event = visit("common", 12);
            event.extend(visit(&format!("rare {step}"), 1));
            keys.push(&event).unwrap();
            let found = keys.found().unwrap();
            assert!(found.iter().all(|found| found.key == "common"));
            if !found.is_empty() {
                first.get_or_insert(step);
            }
            assert_eq!(found.len(), usize::from(first.is_some()), "what was shown stays");
        }
        assert!(first.is_some_and(|step| step > 1));
    }

    /// Rate of false discoveries of a lone key against δ', with a large δ' so that it can be counted: where it is looked for after
    /// every step as planned, after every step though only the last one was planned, and after that one alone. n = 4000 streams;
    /// the bound is a union, so the rate is below δ' but not by orders of magnitude. α: with rate exactly δ' the count
    /// exceeds the mean by 4 standard deviations with probability 3e-5. Power: a threshold with the largest count
    /// forgotten (c = 0) or two thirds of the deviations shows the key at more than twice the allowed rate.
    #[test]
    fn a_lone_key_is_shown_with_probability_at_most_the_threshold_delta() {
        let (delta, streams) = (0.05, 4000);
        let rules = Rules::one_item(Relation::ZeroOut);
        let strategy = Method::Sqrt
            .build(&Problem::new(Workload::count(), 4).unwrap().with_participation(rules.participation))
            .unwrap();
        let plan = Discovery::plan_for(&rules, &strategy, Budget::approximate(1.0, 1e-6).unwrap()).unwrap();
        let rate = |every: usize, looks: usize, share: f64| {
            let when = Threshold::new(delta).unwrap().printing_every(every).unwrap();
            let mut shown = 0;
            for seed in 0..streams {
                let seed = Seed::reproducible(seed);
                let mut keys = Discovery::new(rules, plan.clone(), when, seed).unwrap();
                keys.deviations.after_planned *= share;
                keys.deviations.after_others *= share;
                keys.push(&visit("only me", 1)).unwrap();
                let mut seen = looks == 1 && !keys.found().unwrap().is_empty();
                for step in 2..=4 {
                    keys.push(&[]).unwrap();
                    seen |= step % looks == 0 && !keys.found().unwrap().is_empty();
                }
                shown += u32::from(seen);
            }
            f64::from(shown) / streams as f64
        };
        let slack = 4.0 * (delta * (1.0 - delta) / streams as f64).sqrt();
        for (every, looks, least) in [(1, 1, delta / 4.0), (4, 1, delta / 4.0), (4, 4, 0.875 * delta - slack)]
        {
            let proper = rate(every, looks, 1.0);
            assert!(proper <= delta + slack, "{every}, {looks}: {proper}");
            assert!(proper >= least, "the union bound is not that loose: {every}, {looks}: {proper}");
            let weak = rate(every, looks, 2.0 / 3.0);
            assert!(weak > 2.0 * delta, "{every}, {looks}: {weak}");
        }
    }

    /// Quantiles of the normal distribution by another program, for 365 steps of one key: at 1e-6/365, at 7/8 of that for 13 steps, 1/8
    /// for the other 352, and at 7/8 for the last step alone.
    #[test]
    fn keys_have_to_stand_out_less_where_fewer_steps_are_printed() {
        let rules = Rules::one_item(Relation::ZeroOut);
        let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 365).unwrap()).unwrap();
        let budget = Budget::approximate(1.0, 1e-6).unwrap();
        let plan = Discovery::idealized_plan_for(&rules, &strategy, budget).unwrap();
        for (every, expected) in [
            (1, [5.831_915_948_27, 5.831_915_948_27]),
            (30, [5.272_448_818_60, 6.163_793_106_89]),
            (365, [4.780_338_834_02, 6.169_096_466_90]),
            (1000, [4.780_338_834_02, 6.169_096_466_90]),
        ] {
            let when = Threshold::new(1e-6).unwrap().printing_every(every).unwrap();
            let found = when.deviations(&plan, 1.0, 1.0).unwrap();
            for (found, expected) in [found.after_planned, found.after_others].into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-8, "{every}: {found} {expected}");
            }
            let mut keys = Discovery::new(rules, plan.clone(), when, Seed::reproducible(1)).unwrap();
            for step in 1..=365 {
                keys.push(&[]).unwrap();
                let deviations = if step % every == 0 || step == 365 { expected[0] } else { expected[1] };
                let stands_out = (keys.threshold() - 1.0) / keys.standard_deviation();
                assert!((stands_out - deviations).abs() < 1e-7, "{every}, {step}: {stands_out}");
            }
        }
    }

    #[test]
    fn thresholds_grow_with_what_one_person_can_do() {
        let threshold = |rules: Rules| {
            let mut keys = start(rules, 10, 1e-6, 0);
            keys.push(&[]).unwrap();
            (keys.largest_count, keys.deviations.after_planned)
        };
        let one = Rules::one_item(Relation::ZeroOut);
        let several = Rules { items: 3, distinct: false, ..one };
        let often = Rules { participation: Participation::repeated(4, 1).unwrap(), ..several };
        assert_eq!(threshold(one).0, 1.0);
        assert_eq!(threshold(several).0, 3.0);
        assert_eq!(threshold(often).0, 12.0);
        assert!(threshold(often).1 > threshold(several).1 && threshold(several).1 > threshold(one).1);
        let replaced = Rules { relation: Relation::Replace, ..one };
        assert!(threshold(replaced).1 > threshold(one).1);
    }

    #[test]
    fn resuming_at_every_step_equals_never_stopping() {
        let rules = Rules { items: 2, ..Rules::one_item(Relation::ZeroOut) };
        let strategy = Method::Sqrt
            .build(&Problem::new(Workload::count(), 12).unwrap().with_participation(rules.participation))
            .unwrap();
        let budget = Budget::gaussian(5.0).unwrap();
        let plan = Discovery::plan_for(&rules, &strategy, budget).unwrap();
        let resume = |rules, when, snapshot: &Snapshot| {
            let plan = Discovery::plan_for(&rules, &strategy, budget)?;
            Discovery::resume(rules, plan, when, snapshot, Seed::reproducible(2))
        };
        let when = Threshold::new(1e-6).unwrap();
        let mut running = Discovery::new(rules, plan, when, Seed::reproducible(2)).unwrap();
        let mut most = 0;
        for step in 0..12 {
            // `early` stays below the threshold after its first steps, and stays shown.
            let mut event = visit("late", step);
            event.extend(visit("early", if step < 3 { 8 } else { 0 }));
            event.push(vec![Change::Insert(format!("rare {step}"))]);
            let mut resumed = resume(rules, when, &running.snapshot()).unwrap();
            running.push(&event).unwrap();
            resumed.push(&event).unwrap();
            let found = running.found().unwrap();
            assert_eq!(found, resumed.found().unwrap());
            assert_eq!(found, resume(rules, when, &running.snapshot()).unwrap().found().unwrap());
            most = most.max(found.len());
        }
        assert_eq!(most, 2);
        let saved = running.snapshot();
        // The plan is the same; the threshold, or what may be counted, is not.
        for (rules, when) in [
            (rules, Threshold::new(2e-6).unwrap()),
            (rules, when.printing_every(3).unwrap()),
            (Rules { removals: true, ..rules }, when),
        ] {
            let refused = resume(rules, when, &saved).unwrap_err().to_string();
            assert!(refused.contains("something else"), "{refused}");
        }
        for length in 1..saved.attachment(ATTACHMENT).unwrap().len() {
            let cut = running
                .snapshot()
                .with_attachment(ATTACHMENT, saved.attachment(ATTACHMENT).unwrap()[..length].to_vec());
            // Cut between two keys it cannot be told from fewer keys; the seal on the file can.
            if let Ok(mut resumed) = resume(rules, when, &cut) {
                assert!(resumed.found().is_ok());
            }
        }
    }

    /// Questions in runs that were never saved: each item has its own noise, and keeps it once it occurs.
    #[test]
    fn questions_that_were_not_saved_share_no_noise() {
        let rules = Rules::one_item(Relation::ZeroOut);
        let mut keys = start(rules, 4, 1e-6, 8);
        keys.push(&visit("somebody", 1)).unwrap();
        let saved = keys.snapshot();
        let plan = keys.plan().clone();
        let when = Threshold::new(1e-6).unwrap();
        let resumed = || Discovery::resume(rules, plan.clone(), when, &saved, Seed::reproducible(8)).unwrap();
        let alone = |key: &str| resumed().count(key).unwrap().value;
        let mut together = resumed();
        let mut seen = Vec::new();
        for key in ["never", "not once", "nobody", "somebody"] {
            let value = alone(key);
            assert_eq!(value, together.count(key).unwrap().value, "{key}");
            seen.push(value.to_bits());
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4, "two items have one noise");
        // An item that first occurs later does not inherit what was shown for another one.
        let asked = alone("never");
        let mut later = resumed();
        later.count("newcomer").unwrap();
        assert_eq!(later.count("never").unwrap().value, asked);
    }

    #[test]
    fn keys_that_are_asked_for_have_one_answer_and_refusals_leave_no_trace() {
        let mut keys = start(Rules::one_item(Relation::ZeroOut), 2, 1e-6, 0);
        assert!(keys.push(&[vec![Change::Remove("a".to_owned())]]).is_err());
        assert!(keys.found().unwrap().is_empty());
        keys.push(&visit("a", 1)).unwrap();
        assert_eq!(keys.count("never seen").unwrap(), keys.count("never seen").unwrap());
        assert_eq!(keys.total_delta(), Some((1e-6_f64 + 1e-6).next_up()));
        assert!(!format!("{keys:?}").contains("never seen"));
        keys.push(&[]).unwrap();
        assert!(keys.push(&[]).is_err());
        for bad in [0.0, 1.0, f64::NAN] {
            assert!(Threshold::new(bad).is_err());
        }
        assert!(Threshold::new(0.5).unwrap().printing_every(0).is_err());
    }
}
