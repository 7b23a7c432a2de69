//! What a state keeps of the plan that it was begun with: the numbers in use, down to their last bits.
//!
//! Planning the same problem again may end at other last bits: with another number of threads sums are split differently,
//! and another math library rounds differently. A state that continued with them would mix two strategies. It continues
//! with its own instead: the matrix and the noise scale that its first releases were made with.

use crate::exact::NoiseParameter;
use crate::strategy::Coefficients;

/// The numbers that a plan applies: those of its strategy, and the scale of its noise.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saved {
    pub(crate) coefficients: Coefficients,
    pub(crate) noise: SavedNoise,
}

/// The scale of the noise, exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SavedNoise {
    Idealized(f64),
    Exact(NoiseParameter),
}

/// Two scales are the same but for how a machine rounds: the noise of a continued release is that of its beginning.
pub(crate) fn same_scale(saved: f64, now: f64) -> bool {
    (saved / now - 1.0).abs() < 1e-9
}

/// The number of words of a noise scale.
const NOISE_WORDS: usize = 6;

impl SavedNoise {
    fn words(self) -> [u64; NOISE_WORDS] {
        let halves = |value: u128| [value as u64, (value >> 64) as u64];
        let (kind, numerator, denominator, doublings) = match self {
            Self::Idealized(sigma) => return [0, sigma.to_bits(), 0, 0, 0, 0],
            Self::Exact(NoiseParameter::SquaredScale { numerator, denominator, doublings }) => {
                (1, numerator, denominator, doublings)
            }
            Self::Exact(NoiseParameter::Scale { numerator, denominator }) => (2, numerator, denominator, 0),
        };
        let ([a, b], [c, d]) = (halves(numerator), halves(denominator));
        [kind, a, b, c, d, u64::from(doublings)]
    }

    fn from_words([kind, a, b, c, d, doublings]: [u64; NOISE_WORDS]) -> Option<Self> {
        let whole = |low: u64, high: u64| u128::from(low) | u128::from(high) << 64;
        let (numerator, denominator) = (whole(a, b), whole(c, d));
        Some(match kind {
            0 => Self::Idealized(f64::from_bits(a)),
            1 => {
                let doublings = u32::try_from(doublings).ok()?;
                Self::Exact(NoiseParameter::SquaredScale { numerator, denominator, doublings })
            }
            2 => Self::Exact(NoiseParameter::Scale { numerator, denominator }),
            _ => return None,
        })
    }
}

impl Saved {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.noise.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&self.coefficients.encode());
        bytes
    }

    /// Reads what [`Saved::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (noise, rest) = bytes.split_first_chunk::<{ 8 * NOISE_WORDS }>()?;
        let mut words = [0; NOISE_WORDS];
        for (word, bytes) in words.iter_mut().zip(noise.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(Self { coefficients: Coefficients::decode(rest)?, noise: SavedNoise::from_words(words)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::tests::plan;
    use crate::{Mechanism, Plan, Seed, Snapshot};

    /// The plan of another machine: the same but for the last bits of its coefficients and of its noise.
    fn elsewhere(plan: &Plan) -> Plan {
        let saved = plan.saved().unwrap();
        let mut moved = Coefficients::none();
        for name in ["matrix", "coefficients", "theta", "integer matrix"] {
            if let Some(values) = saved.coefficients.get(name) {
                let unit = if name == "integer matrix" { 1.0 } else { 1e-10 };
                let values: Vec<f64> =
                    values.iter().map(|value| value + unit * value.abs().min(1.0)).collect();
                moved = moved.with(name, values);
            }
        }
        for name in ["inverse", "omega", "rows", "column norms", "bands", "squared norms", "bits", "residual"]
        {
            if let Some(values) = saved.coefficients.get(name) {
                moved = moved.with(name, values);
            }
        }
        let noise = match saved.noise {
            SavedNoise::Idealized(sigma) => SavedNoise::Idealized(sigma * (1.0 + 1e-15)),
            exact @ SavedNoise::Exact(_) => exact,
        };
        plan.continuing(&Saved { coefficients: moved, noise }).unwrap()
    }

    fn run(mechanism: &mut Mechanism, steps: usize) -> Vec<f64> {
        let row = |step: usize| {
            let mut output = [0.0; 2];
            mechanism.release(&[(step % 3) as f64 - 1.0, 0.5], &mut output).unwrap();
            output
        };
        (0..steps).flat_map(row).collect()
    }

    #[test]
    fn a_state_continues_with_its_own_coefficients_whatever_is_planned_here() {
        for name in ["optimal", "scaled-sqrt", "blt", "optimal-toeplitz"] {
            let idealized = plan(name, "count", 24).unwrap();
            let footprint = idealized.footprint().clone();
            let exact = Plan::exact(idealized.strategy(), footprint, *idealized.budget(), 0.25).unwrap();
            for begun in [idealized, exact] {
                let here = elsewhere(&begun);
                assert_ne!(here.identity(), begun.identity(), "{name}");
                let seed = || Seed::reproducible(4);
                let mut whole = Mechanism::new(begun.clone(), seed()).unwrap();
                let mut first = Mechanism::new(begun.clone(), seed()).unwrap();
                run(&mut whole, 10);
                run(&mut first, 10);
                let snapshot = first.snapshot();
                let mut resumed = Mechanism::resume(here.clone(), &snapshot, seed()).unwrap();
                assert_eq!(resumed.plan().identity(), begun.identity());
                assert_eq!(run(&mut resumed, 14), run(&mut whole, 14), "{name}");
                // Without what was saved, the other plan is refused.
                let bare = Snapshot::decode(snapshot.identity().clone(), &snapshot.encode()).unwrap();
                let refused = Mechanism::resume(here, &bare, seed()).unwrap_err().to_string();
                assert!(refused.contains("coefficients was "), "{refused}");
            }
        }
    }

    #[test]
    fn another_plan_is_still_another_plan() {
        let begun = plan("optimal", "count", 24).unwrap();
        let snapshot = Mechanism::new(begun, Seed::reproducible(1)).unwrap().snapshot();
        for (name, workload, steps, word) in [
            ("sqrt", "count", 24, "strategy was optimal, now sqrt"),
            ("optimal", "average", 24, "workload was"),
            ("optimal", "count", 25, "steps was 24, now 25"),
        ] {
            let other = plan(name, workload, steps).unwrap();
            let refused = Mechanism::resume(other, &snapshot, Seed::reproducible(1)).unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn what_is_saved_is_read_again_and_damage_is_seen() {
        let noises = [
            SavedNoise::Idealized(3.25),
            SavedNoise::Exact(NoiseParameter::SquaredScale {
                numerator: u128::MAX - 5,
                denominator: 1 << 100,
                doublings: 7,
            }),
            SavedNoise::Exact(NoiseParameter::Scale { numerator: 3, denominator: 1 << 90 }),
        ];
        for noise in noises {
            let saved =
                Saved { coefficients: Coefficients::none().with("root", [1.0, -0.0, f64::MAX]), noise };
            let bytes = saved.encode();
            assert_eq!(Saved::decode(&bytes), Some(saved));
            assert_eq!(Saved::decode(&bytes[..40]), None);
        }
    }
}
