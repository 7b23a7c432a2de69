//! Who takes part when: schedules of batches, fixed or drawn at random, with a participation that can be proved.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use dp_mechanisms::Participation;
use dp_mechanisms::accountant::sampling::CyclicPoisson;
use dp_mechanisms::noise::HashKey;

use crate::error::{Error, Result, check_count};

/// Several passes over the examples, always in the same order and the same batches.
///
/// Example i stands in batch `⌊i/B⌋` of every epoch; the last batch is shorter if the batch size does not divide the
/// number of examples.
///
/// # Privacy
/// With `b = ⌈n/B⌉` batches in an epoch, example i takes part in the steps `⌊i/B⌋ + e·b` for the epochs e = 0, 1, …, and
/// in no others: as many steps as there are epochs, any two of them a multiple of b apart and so at least b. This is what
/// [`CyclicBatches::participation`] declares. It holds because the order never changes; a random but fixed order is as
/// good, while shuffling again for each epoch can bring the same example in two steps in a row and has separation 1.
/// "One person" is one example: who owns several of them is protected only if they are merged into one gradient.
///
/// [`PoissonBatches`] draws people at random in secret instead, and needs less noise for it.
///
/// # Example
/// ```
/// use dp_ftrl::CyclicBatches;
/// let batches = CyclicBatches::new(10, 4, 3)?;
/// assert_eq!(batches.steps(), 9);
/// assert_eq!(batches.batch(2), Some(8..10));
/// assert_eq!(batches.participation().to_string(), "3:3");
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CyclicBatches {
    examples: usize,
    batch: usize,
    epochs: usize,
    participation: Participation,
}

impl CyclicBatches {
    /// `epochs` passes over `examples` examples in batches of `batch`.
    ///
    /// # Errors
    /// Zero for any of the numbers, a batch larger than the data, or more steps than can be counted.
    pub fn new(examples: usize, batch: usize, epochs: usize) -> Result<Self> {
        check_count("number of examples", examples)?;
        check_count("batch size", batch)?;
        check_count("number of epochs", epochs)?;
        if batch > examples {
            return Err(Error::OutOfRange {
                what: "batch size",
                value: batch as f64,
                range: "at most the number of examples",
            });
        }
        if examples.div_ceil(batch).checked_mul(epochs).is_none() {
            return Err(Error::OutOfRange {
                what: "number of epochs",
                value: epochs as f64,
                range: "few enough that the steps can be counted",
            });
        }
        let participation = Participation::repeated(epochs, examples.div_ceil(batch))?;
        Ok(Self { examples, batch, epochs, participation })
    }

    /// The number of steps in an epoch, `⌈n/B⌉`.
    pub fn per_epoch(&self) -> usize {
        self.examples.div_ceil(self.batch)
    }

    /// The number of steps, for which the strategy is built.
    pub fn steps(&self) -> usize {
        self.per_epoch() * self.epochs
    }

    /// In how many steps one example takes part, and how far they are apart.
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// The examples of a step (counted from 0), or nothing past the last one.
    pub fn batch(&self, step: usize) -> Option<Range<usize>> {
        if step >= self.steps() {
            return None;
        }
        let start = step % self.per_epoch() * self.batch;
        Some(start..(start + self.batch).min(self.examples))
    }

    /// All steps with their examples, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        let batches = *self;
        (0..batches.steps()).filter_map(move |step| batches.batch(step))
    }

    /// The largest number of examples in a step: public, and so what a noisy sum may be divided by.
    pub fn batch_size(&self) -> usize {
        self.batch
    }
}

/// Groups of people that take turns, of which every step draws each one independently: cyclic Poisson sampling.
///
/// A person's group follows from a keyed hash of their identifier, and whether they are drawn in a step from the same secret,
/// the step and their place in the group. The sizes of batches vary; their expected size is public, and what sums are
/// divided by.
///
/// # Privacy
/// [`dp_mechanisms::accountant::sampling`] proves what noise is needed when person i of group `h(i)` takes part in the steps
/// `t ≡ h(i) (mod b)`, in each with probability p, independently of everything else and of everything that is released. Here
/// the bits behind both choices come from ChaCha20 under one key, without which they cannot be told from independent ones; p
/// is rounded down to a multiple of 2⁻⁶⁴. The identifiers of others do not move a person to another group. Places in
/// a group may shift when somebody is added or removed, which changes no probability: the draws are independent and all alike.
///
/// Who was drawn is a **secret**, as the noise is: whoever knows it has the guarantee of [`CyclicBatches`] at most. Take the key
/// from the mechanism that makes the noise ([`crate::PrivateGradients::hash_key`]), so that both end with the same state.
///
/// # Complexity
/// Eight bytes of ChaCha20 for each person of the group in a step. Nothing is allocated in a step beyond the caller's batch.
///
/// # Example
/// ```
/// use dp_ftrl::PoissonBatches;
/// use dp_mechanisms::accountant::sampling::CyclicPoisson;
/// use dp_mechanisms::noise::HashKey;
/// let people: Vec<String> = (0..1000).map(|number| format!("person {number}")).collect();
/// let sampling = CyclicPoisson::new(4, 0.1, 20)?;
/// let batches = PoissonBatches::new(sampling, &people, HashKey::from_system()?)?;
/// let mut batch = Vec::new();
/// for step in 0..20 {
///     assert!(batches.draw(step, &mut batch) && batch.len() <= batches.largest_group());
/// }
/// assert_eq!(batches.expected_size(), 25.0);
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
pub struct PoissonBatches {
    sampling: CyclicPoisson,
    key: HashKey,
    /// The people of each group, by their place in the list.
    groups: Vec<Vec<usize>>,
    people: usize,
    /// `⌊p 2⁶⁴⌋`.
    threshold: u128,
}

impl PoissonBatches {
    /// Groups the people, of whom each must be named once.
    ///
    /// # Errors
    /// Nobody at all, a person who is named twice and so would enter a batch twice, or another number of people than batches
    /// are truncated for.
    pub fn new<I: AsRef<[u8]>>(
        sampling: CyclicPoisson,
        people: impl IntoIterator<Item = I>,
        key: HashKey,
    ) -> Result<Self> {
        let mut groups = vec![Vec::new(); sampling.groups()];
        let mut known = HashSet::new();
        let mut count = 0;
        let by_group = key.child(b"group");
        for (place, person) in people.into_iter().enumerate() {
            let name = person.as_ref();
            if !known.insert(name.to_vec()) {
                return Err(Error::NamedTwice { place });
            }
            let group = by_group.number(name) % sampling.groups() as u64;
            groups[group as usize].push(place);
            count += 1;
        }
        check_count("number of people", count)?;
        if let Some(truncation) = sampling.truncation()
            && truncation.people != count as u64
        {
            return Err(Error::Dimension {
                what: "the list of people",
                expected: truncation.people as usize,
                actual: count,
            });
        }
        // A multiple of a power of two: exact, and the remainder is dropped.
        let threshold = (sampling.rate() * 2.0_f64.powi(64)) as u128;
        Ok(Self { sampling, key: key.child(b"draw"), groups, people: count, threshold })
    }

    /// Writes who takes part in a step (counted from 0), by their places in the list and in rising order, and says whether
    /// there is such a step. Where a step has no room for everybody who was drawn, the last in the list are left out.
    pub fn draw(&self, step: usize, batch: &mut Vec<usize>) -> bool {
        batch.clear();
        if step >= self.sampling.steps() {
            return false;
        }
        let group = &self.groups[step % self.groups.len()];
        let numbers = self.key.numbers(&(step as u64).to_le_bytes());
        let drawn = group.iter().zip(numbers).filter(|(_, number)| u128::from(*number) < self.threshold);
        batch.extend(drawn.map(|(person, _)| *person));
        if let Some(truncation) = self.sampling.truncation() {
            batch.truncate(usize::try_from(truncation.capacity).unwrap_or(usize::MAX));
        }
        true
    }

    /// The expected number of people in a step over all groupings: public, and so what a noisy sum may be divided by.
    pub fn expected_size(&self) -> f64 {
        self.people as f64 * self.sampling.rate() / self.sampling.groups() as f64
    }

    /// The group of a person, by their place in the list: no secret, unlike the draws. It takes part in the steps
    /// `group, group + b, …`, counted from 0.
    pub fn group_of(&self, person: usize) -> Option<usize> {
        self.groups.iter().position(|group| group.binary_search(&person).is_ok())
    }

    /// The number of people in the largest group, which no batch exceeds.
    pub fn largest_group(&self) -> usize {
        self.groups.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// Who may take part when.
    pub fn sampling(&self) -> CyclicPoisson {
        self.sampling
    }
}

/// Who is drawn is as secret as the noise.
impl fmt::Debug for PoissonBatches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PoissonBatches")
            .field("sampling", &self.sampling)
            .field("people", &self.people)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use dp_mechanisms::accountant::sampling::Truncation;

    use super::*;

    fn key(byte: u8) -> HashKey {
        HashKey::from_bytes([byte; 32])
    }

    fn names(count: u32) -> impl Iterator<Item = [u8; 4]> {
        (0..count).map(u32::to_le_bytes)
    }

    /// n = 4000 people over 60 steps of 5 groups at rate 0.3: 48,000 chances to be drawn. The number drawn has the standard
    /// deviation sqrt(48000 · 0.21) = 100.4, groups have 800 people with a deviation of 25.3; both bounds are 5 deviations, which
    /// right draws miss with α < 6e-7 each, and draws at the rates 0.2 and 0.45 always.
    #[test]
    fn people_are_drawn_in_their_group_alone_at_the_rate() {
        let sampling = CyclicPoisson::new(5, 0.3, 60).unwrap();
        let batches = PoissonBatches::new(sampling, names(4000), key(1)).unwrap();
        let mut batch = Vec::new();
        let mut home = vec![None; 4000];
        let mut total = 0;
        let mut pairs = 0;
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); 5];
        for step in 0..60 {
            assert!(batches.draw(step, &mut batch));
            assert!(batch.is_sorted_by(|a, b| a < b), "nobody enters twice");
            for person in &batch {
                assert_eq!(*home[*person].get_or_insert(step % 5), step % 5);
            }
            total += batch.len();
            pairs += batch.iter().filter(|person| before[step % 5].contains(person)).count();
            before[step % 5].clone_from(&batch);
        }
        assert!(!batches.draw(60, &mut batch) && batch.is_empty());
        assert!((total as f64 - 14_400.0).abs() < 502.0, "{total}");
        // Drawn in two rounds in a row: 44,000 chances at 0.09, whose sum has a deviation of at most 80.
        assert!((pairs as f64 - 3960.0).abs() < 400.0, "{pairs}");
        assert!((batches.expected_size() - 240.0).abs() < 1e-9);
        assert!(batches.groups.iter().all(|group| group.len().abs_diff(800) < 127));
    }

    #[test]
    fn draws_follow_from_the_key_and_groups_from_the_name() {
        let sampling = CyclicPoisson::new(3, 0.5, 30).unwrap();
        let all = |key: HashKey, count: u32| {
            let batches = PoissonBatches::new(sampling, names(count), key).unwrap();
            let mut batch = Vec::new();
            let mut everything = Vec::new();
            for step in 0..30 {
                batches.draw(step, &mut batch);
                everything.push(batch.clone());
            }
            (everything, batches.groups)
        };
        assert_eq!(all(key(1), 200), all(key(1), 200));
        assert_ne!(all(key(1), 200).0, all(key(2), 200).0);
        // Somebody more changes nobody's group.
        let (fewer, more) = (all(key(1), 200).1, all(key(1), 201).1);
        assert!(fewer.iter().zip(&more).all(|(fewer, more)| more.starts_with(fewer)));
        // Everybody of a group at the rate 1.
        let sure = CyclicPoisson::new(3, 1.0, 30).unwrap();
        let batches = PoissonBatches::new(sure, names(200), key(1)).unwrap();
        let mut batch = Vec::new();
        batches.draw(4, &mut batch);
        assert_eq!(batch, batches.groups[1]);
        assert!(!format!("{batches:?}").contains("key"));
    }

    #[test]
    fn truncated_batches_and_bad_lists() {
        let room = Truncation { people: 100, capacity: 7 };
        let sampling = CyclicPoisson::new(2, 0.9, 10).unwrap().with_truncation(room).unwrap();
        let batches = PoissonBatches::new(sampling, names(100), key(3)).unwrap();
        let mut batch = Vec::new();
        for step in 0..10 {
            batches.draw(step, &mut batch);
            assert_eq!(batch.len(), 7);
        }
        assert!(matches!(
            PoissonBatches::new(sampling, names(99), key(3)),
            Err(Error::Dimension { expected: 100, actual: 99, .. })
        ));
        let twice = [b"ann", b"bob", b"ann"];
        let free = CyclicPoisson::new(2, 0.9, 10).unwrap();
        assert!(matches!(PoissonBatches::new(free, twice, key(3)), Err(Error::NamedTwice { place: 2 })));
        assert!(PoissonBatches::new(free, names(0), key(3)).is_err());
    }

    #[test]
    fn every_example_comes_once_an_epoch_and_no_sooner_than_declared() {
        for examples in 1..=12 {
            for batch in 1..=examples {
                for epochs in 1..=4 {
                    let batches = CyclicBatches::new(examples, batch, epochs).unwrap();
                    let (times, separation) = match batches.participation() {
                        Participation::Single => (1, usize::MAX),
                        Participation::Repeated(repeated) => (repeated.times(), repeated.separation()),
                    };
                    let steps: Vec<Range<usize>> = batches.iter().collect();
                    assert_eq!(steps.len(), batches.steps());
                    assert!(steps.iter().all(|step| !step.is_empty() && step.len() <= batch));
                    assert_eq!(batches.batch(batches.steps()), None);
                    for example in 0..examples {
                        let visits: Vec<usize> =
                            (0..steps.len()).filter(|step| steps[*step].contains(&example)).collect();
                        assert_eq!(visits.len(), epochs, "{batches:?}");
                        assert!(visits.len() <= times, "{batches:?}");
                        assert!(visits.windows(2).all(|pair| pair[1] - pair[0] >= separation), "{batches:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_nothing_to_do_and_more_than_can_be_counted() {
        for (examples, batch, epochs) in
            [(0, 1, 1), (1, 0, 1), (1, 1, 0), (3, 4, 1), (usize::MAX, 1, 2), (4, 2, usize::MAX)]
        {
            let refused = CyclicBatches::new(examples, batch, epochs);
            assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{examples} {batch} {epochs}");
        }
    }
}
