//! The norm of one person's gradient when every machine has only a part of it.

use std::ops::Range;

use dp_linalg::norms::compensated_sum;
use rayon::prelude::*;

use crate::clip::{Clipping, factor};
use crate::error::{Error, Result, check_length};

/// The squared norms of one part of a gradient, layer by layer: what a machine tells the others in the first phase of
/// clipping. As private as the gradient itself.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PartNorms {
    range: Range<usize>,
    /// One for each layer of the whole model, zero for those outside the range.
    squared: Vec<f64>,
}

/// One person's part of a gradient between the two phases of clipping: measured, and lent until it is added.
#[derive(Clone, Copy)]
pub struct MeasuredPart<'g> {
    pub(super) values: &'g [f32],
    pub(super) norms: &'g PartNorms,
}

/// By how much one person's gradient is shortened, from the norms of all its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortening {
    parts: Vec<PartNorms>,
    /// One for each layer.
    factors: Vec<f64>,
}

impl PartNorms {
    /// Measures a part of a gradient.
    ///
    /// Values in single precision have squares that are exact in double precision and neither overflow nor underflow. They
    /// are added in blocks of which each is off by less than 140 units in the last place, as the margin of
    /// [`Clipping`] allows for, and the blocks without a notable error; the result does not depend on the number of cores.
    pub(super) fn of(
        clipping: &Clipping,
        dimension: usize,
        range: &Range<usize>,
        values: &[f32],
    ) -> Result<Self> {
        check_length("the part of a gradient", range.len(), values.len())?;
        let within = |layer: Range<usize>| {
            let (start, end) = (layer.start.max(range.start), layer.end.min(range.end));
            if start < end { squares(&values[start - range.start..end - range.start]) } else { 0.0 }
        };
        let squared: Vec<f64> = clipping.layers(dimension).map(|(layer, _)| within(layer)).collect();
        if squared.iter().all(|value| value.is_finite()) {
            return Ok(Self { range: range.clone(), squared });
        }
        let index = values.iter().position(|value| !value.is_finite()).unwrap_or_default();
        Err(Error::NonFinite {
            what: "the gradient",
            index: range.start + index,
            value: f64::from(values[index]),
        })
    }

    /// The coordinates of the part.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl<'g> MeasuredPart<'g> {
    /// The values together with what [`super::GradientShard::measure`] said of them.
    pub fn new(values: &'g [f32], norms: &'g PartNorms) -> Self {
        Self { values, norms }
    }
}

impl Shortening {
    /// Adds up the norms of all parts of one person's gradient.
    ///
    /// # Errors
    /// [`Error::Parts`]: parts that overlap, leave out a coordinate, or were measured for other layers.
    pub fn of(clipping: &Clipping, dimension: usize, mut parts: Vec<PartNorms>) -> Result<Self> {
        parts.sort_by_key(|part| part.range.start);
        let mut end = 0;
        let layers = clipping.layers(dimension).count();
        for part in &parts {
            if part.range.start != end || part.range.is_empty() {
                return Err(Error::Parts {
                    reason: "they overlap or leave out a coordinate",
                    at: part.range.start,
                });
            }
            if part.squared.len() != layers || !part.squared.iter().all(|value| *value >= 0.0) {
                return Err(Error::Parts {
                    reason: "they were not measured for these layers",
                    at: part.range.start,
                });
            }
            end = part.range.end;
        }
        if end != dimension {
            return Err(Error::Parts { reason: "they leave out the last coordinates", at: end });
        }
        let norm = |layer: usize| compensated_sum(parts.iter().map(|part| part.squared[layer])).sqrt();
        let factors = clipping
            .layers(dimension)
            .enumerate()
            .map(|(layer, (_, kappa))| factor(norm(layer), kappa))
            .collect();
        Ok(Self { parts, factors })
    }

    /// The factor of each layer, if the part is one of those that were added up.
    pub(super) fn factors(&self, part: &PartNorms) -> Result<&[f64]> {
        let same = |known: &PartNorms| {
            known.range == part.range
                && known.squared.iter().zip(&part.squared).all(|(a, b)| a.to_bits() == b.to_bits())
        };
        let found = self.parts.binary_search_by_key(&part.range.start, |known| known.range.start);
        match found {
            Ok(index) if same(&self.parts[index]) => Ok(&self.factors),
            _ => Err(Error::Parts {
                reason: "the part that is added is not one of those that were added up",
                at: part.range.start,
            }),
        }
    }
}

/// The sum of squares; infinite or NaN exactly where a value is.
fn squares(values: &[f32]) -> f64 {
    const LANES: usize = 8;
    let block = |block: &[f32]| {
        let mut sums = [0.0; LANES];
        let (whole, rest) = block.as_chunks::<LANES>();
        for chunk in whole {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(*value) * f64::from(*value);
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += f64::from(*value) * f64::from(*value);
        }
        sums.iter().sum::<f64>()
    };
    let run = |values: &[f32]| compensated_sum(values.chunks(1024).map(block));
    if values.len() <= SHARED {
        return run(values);
    }
    let runs: Vec<f64> = values.par_chunks(SHARED).map(run).collect();
    compensated_sum(runs)
}

/// Parts longer than this are measured by several cores.
const SHARED: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// What enters the sums is factor · value, in double precision: its norm, by squares that are added with an error far
    /// below the margin, is at most κ, and short of κ by no more than the margin where anything is shortened at all.
    #[test]
    fn nobody_moves_the_sums_by_more_than_the_norm() {
        let dimension = 9001;
        let layered = Clipping::per_layer(&[1, 4999, 4001], &[0.5, 0.3, 1.5]).unwrap();
        for clipping in [Clipping::flat(0.75).unwrap(), layered] {
            for person in 0..60_usize {
                let scale = 10.0_f32.powf(person as f32 - 42.0);
                let value = |i: usize| scale * (((i * 31 + person * 17) % 101) as f32 - 50.0);
                let gradient: Vec<f32> = (0..dimension).map(value).collect();
                let cuts = [0, 1, 17, 4096, 5001, dimension];
                let part = |pair: &[usize]| {
                    PartNorms::of(&clipping, dimension, &(pair[0]..pair[1]), &gradient[pair[0]..pair[1]])
                        .unwrap()
                };
                let parts = cuts.windows(2).map(part).collect();
                let shortening = Shortening::of(&clipping, dimension, parts).unwrap();
                for ((layer, kappa), factor) in clipping.layers(dimension).zip(&shortening.factors) {
                    let norm = |factor: f64| {
                        let values = gradient[layer.clone()].iter().map(|value| factor * f64::from(*value));
                        compensated_sum(values.map(|value| value * value)).sqrt()
                    };
                    let (before, after) = (norm(1.0), norm(*factor));
                    assert!(after <= kappa, "{before} became {after}, above {kappa}");
                    let expected = before.min(kappa * (1.0 - 1e-12));
                    assert!(after >= expected, "{before} became {after}, far below {kappa}");
                }
            }
        }
    }
}
