//! Secrets: where the randomness of a mechanism comes from, and which of its rows follow from which secret.

use std::fmt;

use rand::{Rng, SeedableRng, TryRng};
use rand_chacha::ChaCha20Rng;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::{Error, Result};

/// Where a seed comes from. It is part of every saved state, and no state continues with a seed of another origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Secret bytes of the operating system.
    System,
    /// Secret bytes that several machines share.
    Shared,
    /// A public number: nothing that is released is private.
    Reproducible,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::System => "secret noise from the operating system",
            Self::Shared => "noise from a shared secret",
            Self::Reproducible => "noise from a public number, which is not private",
        })
    }
}

/// The secret from which all noise of one mechanism follows. Wiped from memory on drop, never printed, and not
/// `Clone`: two mechanisms with one seed would give away each other's data.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Seed {
    secret: [u8; 32],
    #[zeroize(skip)]
    origin: Origin,
}

impl Seed {
    /// A fresh secret from the operating system.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn from_system() -> Result<Self> {
        let mut seed = Self { secret: [0; 32], origin: Origin::System };
        system_bytes(&mut seed.secret)?;
        Ok(seed)
    }

    /// A seed that anybody can repeat: for tests and reproductions only. Releases made with it are **not
    /// private**, because whoever knows the seed can subtract the noise.
    pub fn reproducible(number: u64) -> Self {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&number.to_le_bytes());
        Self { secret, origin: Origin::Reproducible }
    }

    /// A secret that several machines share, each of which makes the noise of its own coordinates
    /// ([`ShardedNoise`](super::ShardedNoise)). It must come from a cryptographic generator, travel over a channel that
    /// nobody else reads, and never serve a second run: whoever knows it can subtract the noise, and two runs with one noise
    /// give away the difference of their data.
    pub fn shared(secret: [u8; 32]) -> Self {
        Self { secret, origin: Origin::Shared }
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The same secret once more, for the two parts of one mechanism.
    pub(crate) fn duplicate(&self) -> Self {
        Self { secret: self.secret, origin: self.origin }
    }

    /// A seed that counts as secret and is the same in every run of a test.
    #[cfg(test)]
    pub(crate) fn secret(number: u64) -> Self {
        Self { origin: Origin::System, ..Self::reproducible(number) }
    }

    /// The secret bytes of a saved state.
    pub(crate) fn from_bytes(secret: [u8; 32], origin: Origin) -> Self {
        Self { secret, origin }
    }

    /// The secret bytes, for a saved state only.
    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.secret
    }

    /// An independent seed for one part of a mechanism.
    fn part(&self, index: usize) -> Self {
        let mut generator = ChaCha20Rng::from_seed(self.secret);
        generator.set_stream(index as u64);
        let mut own = Self { secret: [0; 32], origin: self.origin };
        generator.fill_bytes(&mut own.secret);
        own
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seed(secret)")
    }
}

/// Fills a buffer with secret bytes of the operating system.
pub(crate) fn system_bytes(bytes: &mut [u8]) -> Result<()> {
    rand::rngs::SysRng.try_fill_bytes(bytes).map_err(|error| Error::Entropy { reason: error.to_string() })
}

/// A seed from a row of the noise on.
pub(crate) struct Segment {
    /// The part of the mechanism: the number of the epoch where there are epochs, 0 otherwise.
    pub(crate) part: usize,
    /// The first row of that part.
    pub(crate) row: usize,
    pub(crate) seed: Seed,
}

/// The seeds of one mechanism: a new one from each row on that no release had used when the mechanism was resumed.
///
/// # Privacy
/// Rows of `z` are independent, so it does not matter which secret a row comes from. Two continuations of one state share the
/// rows that were used before, which measured the same data in both, and nothing else: together they cost what two
/// mechanisms cost, and their difference is not the data.
pub(crate) struct Seeds(Vec<Segment>);

impl From<Seed> for Seeds {
    fn from(seed: Seed) -> Self {
        Self(vec![Segment { part: 0, row: 0, seed }])
    }
}

impl Seeds {
    /// Segments in their order, the first of which starts at the first row.
    pub(crate) fn from_segments(segments: Vec<Segment>) -> Option<Self> {
        let ordered = segments.is_sorted_by(|one, next| (one.part, one.row) < (next.part, next.row));
        let first = segments.first()?;
        let alike = segments.iter().all(|segment| segment.seed.origin == first.seed.origin);
        (ordered && alike && (first.part, first.row) == (0, 0)).then_some(Self(segments))
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub(crate) fn origin(&self) -> Origin {
        self.0.first().map_or(Origin::System, |segment| segment.seed.origin)
    }

    /// The segment of a row, where there is one part only.
    pub(crate) fn segment_of(&self, row: usize) -> usize {
        self.0.partition_point(|segment| segment.row <= row).saturating_sub(1)
    }

    /// The row after the last one of a segment.
    pub(crate) fn end_of(&self, segment: usize) -> usize {
        self.0.get(segment + 1).map_or(usize::MAX, |next| next.row)
    }

    pub(crate) fn seed(&self, segment: usize) -> &Seed {
        &self.0[segment].seed
    }

    pub(crate) fn duplicate(&self) -> Self {
        let copy = |old: &Segment| Segment { part: old.part, row: old.row, seed: old.seed.duplicate() };
        Self(self.0.iter().map(copy).collect())
    }

    /// The seeds of one part, each derived from the mechanism's.
    pub(crate) fn of_part(&self, part: usize) -> Self {
        let earlier = self.0.partition_point(|segment| (segment.part, segment.row) <= (part, 0));
        let of_part = |old: &Segment| Segment { part: 0, row: old.row, seed: old.seed.part(part) };
        let mut own = Vec::new();
        if let Some(last) = earlier.checked_sub(1).and_then(|index| self.0.get(index)) {
            own.push(Segment { row: 0, ..of_part(last) });
        }
        own.extend(self.0[earlier..].iter().take_while(|segment| segment.part == part).map(of_part));
        Self(own)
    }

    /// Continues a saved mechanism. A secret of the system takes over from the first row that no release has used; others
    /// must be what they were, because somebody relies on repeating them.
    pub(crate) fn continue_with(&mut self, part: usize, row: usize, seed: Seed) -> Result<()> {
        if seed.origin != self.origin() {
            return Err(Error::State {
                reason: format!(
                    "it was begun with {}, and is to continue with {}; continue as it was begun, or start a new state \
                     elsewhere",
                    self.origin(),
                    seed.origin
                ),
            });
        }
        if seed.origin != Origin::System {
            let same = self.0.iter().all(|segment| segment.seed.secret == seed.secret);
            return if same {
                Ok(())
            } else {
                Err(Error::State {
                    reason: format!(
                        "it was begun with another seed ({}); continue with that one",
                        seed.origin
                    ),
                })
            };
        }
        self.0.retain(|segment| (segment.part, segment.row) < (part, row));
        self.0.push(Segment { part, row, seed });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{GaussianSource, TILE, UnitNoise};

    #[test]
    fn rows_before_a_new_seed_stay_and_later_ones_are_new() {
        for (dimension, change) in [(1, 5), (1, TILE), (3, 1000), (5000, 4), (7, 0)] {
            let rows = 3 * TILE / dimension.min(100);
            let old = GaussianSource::new(Seed::reproducible(1), dimension);
            let fresh = Seed::secret(2);
            let new = GaussianSource::new(fresh.duplicate(), dimension);
            let mut seeds = Seeds::from(Seed::secret(1));
            seeds.continue_with(0, change, fresh).unwrap();
            let mut mixed = GaussianSource::from_seeds(seeds, dimension);
            let mut together = vec![0.0; rows * dimension];
            mixed.fill_rows(0, dimension, &mut together);
            let (mut expected, mut single) = (vec![0.0; dimension], vec![0.0; dimension]);
            for row in (0..rows).step_by(97).chain([change.saturating_sub(1), change, change + 1]) {
                let source = if row < change { &old } else { &new };
                source.fill_range(row, 0, &mut expected);
                mixed.fill_row(row, &mut single);
                assert_eq!(single, expected, "row {row} of {dimension}, changed at {change}");
                assert_eq!(together[row * dimension..][..dimension], expected, "row {row} of {dimension}");
            }
        }
    }

    #[test]
    fn seeds_of_another_origin_or_another_number_are_refused() {
        let begun = || Seeds::from(Seed::reproducible(1));
        assert!(begun().continue_with(0, 3, Seed::reproducible(1)).is_ok());
        for other in [Seed::reproducible(2), Seed::shared([1; 32]), Seed::from_system().unwrap()] {
            assert!(begun().continue_with(0, 3, other).is_err());
        }
        let mut system = Seeds::from(Seed::from_system().unwrap());
        let refused = system.continue_with(0, 3, Seed::reproducible(1)).unwrap_err().to_string();
        assert!(refused.contains("operating system") && refused.contains("public number"), "{refused}");
        system.continue_with(0, 3, Seed::from_system().unwrap()).unwrap();
        system.continue_with(0, 3, Seed::from_system().unwrap()).unwrap();
        assert_eq!(system.segments().len(), 2, "a seed that no release has used is forgotten");
        system.continue_with(2, 1, Seed::from_system().unwrap()).unwrap();
        let rows = |part| system.of_part(part).segments().iter().map(|one| one.row).collect::<Vec<_>>();
        assert_eq!([rows(0), rows(1), rows(2), rows(3)], [vec![0, 3], vec![0], vec![0, 1], vec![0]]);
    }
}
