//! Correlated noise for very long vectors, in single precision and in parts.

use std::fmt;
use std::ops::Range;

use dp_linalg::rational::Sample;
use rayon::prelude::*;

use super::{GaussianSource, Seed, Side, TILE, UnitNoise};
use crate::error::{Error, Result, check_count};
use crate::strategy::{NoiseFilter, Strategy};
use crate::workload::InverseStream;

/// How the state of a filter is kept. Sums are in f64 either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Four bytes a number.
    ///
    /// Each number that is kept is rounded by at most 2^-24 of itself. Strategies forget (their poles are inside the unit
    /// circle, a tree adds at most one node per level), so roundings do not build up: over 2048 steps the noise, and what it
    /// adds up to, differs from that of [`Precision::Double`] by less than 1e-6 of its largest value.
    Single,
    /// Eight bytes a number.
    Double,
}

/// A strategy without a short memory keeps a value for each step and coordinate; this many values at most.
const WHOLE_HORIZON_LIMIT: usize = 1 << 27;

/// The input noise `ξ = A⁻¹ B z` of a range of coordinates, one step at a time, of unit σ: what an optimizer adds to gradients.
///
/// The coordinates are cut into tiles that are independent of each other, each with its own filter, and shared among threads;
/// a tile is sampled and filtered while it is in the cache, and its buffers come from memory while it is sampled. The noise of
/// a coordinate depends on the seed, the strategy, the dimension and the step alone: a range that is made by itself, on any
/// machine of the same kind, equals that range of the whole to the last bit.
///
/// # Privacy
/// As [`CorrelatedNoise`](super::CorrelatedNoise): scaled by the plan's σ and added to the input of every step, by each
/// coordinate exactly once. Shards that share a seed must not overlap in what they publish: [`ShardedNoise::shards`]
/// consumes the seed and makes ranges that do not, and [`crate::shards`] keeps that true through crashes.
///
/// # Complexity
/// Per step that of the strategy's filter, for the coordinates of the range alone. Nothing is allocated per step.
///
/// # Example
/// ```
/// use dp_mechanisms::noise::{Precision, ShardedNoise};
/// use dp_mechanisms::{Method, Problem, Seed, Workload};
/// let strategy = Method::Blt.build(&Problem::new(Workload::count(), 100)?)?;
/// let shard = |range| {
///     ShardedNoise::new(strategy.as_ref(), Seed::reproducible(1), 10_000, range, Precision::Single)
/// };
/// let (mut whole, mut part) = (shard(0..10_000)?, shard(4000..5000)?);
/// let (mut all, mut some) = (vec![0.0_f32; 10_000], vec![0.0_f32; 1000]);
/// whole.next_into(&mut all)?;
/// part.next_into(&mut some)?;
/// assert_eq!(all[4000..5000], some);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub struct ShardedNoise {
    source: GaussianSource,
    dimension: usize,
    range: Range<usize>,
    tiles: Vec<Tile>,
    /// Room for a whole row, where rows are short and made several at a time.
    row: Vec<f64>,
    steps: usize,
    step: usize,
}

/// Coordinates that lie in one tile of the source.
struct Tile {
    first: usize,
    length: usize,
    filter: Box<dyn NoiseFilter>,
    /// From noise on the release to noise on the input, where the filter makes the former.
    conversion: Option<Box<InverseStream>>,
}

impl ShardedNoise {
    /// The noise of the coordinates `range` out of `dimension`.
    ///
    /// # Errors
    /// An empty range or one that does not lie within the dimension; a strategy that keeps the whole horizon where it would
    /// take more than 2^27 values; noise that needs more memory than the machine has left; what the strategy refuses.
    pub fn new(
        strategy: &dyn Strategy,
        seed: Seed,
        dimension: usize,
        range: Range<usize>,
        precision: Precision,
    ) -> Result<Self> {
        check_count("dimension", dimension)?;
        check_count("coordinates of a shard", range.len())?;
        if range.end > dimension {
            return Err(Error::OutOfRange {
                what: "the end of a shard",
                value: range.end as f64,
                range: "at most the dimension",
            });
        }
        let steps = strategy.steps();
        let short_memory = strategy.compact_filter(1)?.is_some();
        if !short_memory && steps.saturating_mul(range.len()) > WHOLE_HORIZON_LIMIT {
            return Err(Error::NotApplicable {
                strategy: strategy.name(),
                workload: strategy.workload().to_string(),
                reason: "its noise for so many steps and coordinates does not fit in memory; use blt, scaled-blt, banded \
                         or binary-tree, or smaller shards",
            });
        }
        check_memory(strategy, range.len(), precision)?;
        let tile = |first: usize| -> Result<Tile> {
            let length = (first / TILE + 1).saturating_mul(TILE).min(range.end) - first;
            let compact = match precision {
                Precision::Single => strategy.compact_filter(length)?,
                Precision::Double => None,
            };
            let filter = match compact {
                Some(filter) => filter,
                None => strategy.noise_filter(length)?,
            };
            let conversion = match filter.side() {
                Side::Input => None,
                Side::Output => Some(Box::new(strategy.workload().inverse_stream(steps, length)?)),
            };
            Ok(Tile { first, length, filter, conversion })
        };
        let aligned = (range.start / TILE + 1..range.end.div_ceil(TILE)).map(|index| index * TILE);
        let tiles = std::iter::once(range.start).chain(aligned).map(tile).collect::<Result<_>>()?;
        let row = vec![0.0; if dimension < TILE { dimension } else { 0 }];
        Ok(Self {
            source: GaussianSource::new(seed, dimension),
            dimension,
            range,
            tiles,
            row,
            steps,
            step: 0,
        })
    }

    /// All coordinates, cut into `count` ranges of nearly equal length (fewer if there are not so many tiles). The seed is
    /// consumed: no second set of shards can be made of it.
    ///
    /// # Errors
    /// A count of zero, and as [`ShardedNoise::new`].
    pub fn shards(
        strategy: &dyn Strategy,
        seed: Seed,
        dimension: usize,
        count: usize,
        precision: Precision,
    ) -> Result<Vec<Self>> {
        Self::cuts(dimension, count)?
            .into_iter()
            .map(|range| Self::new(strategy, seed.duplicate(), dimension, range, precision))
            .collect()
    }

    /// The ranges of [`ShardedNoise::shards`].
    ///
    /// # Errors
    /// A count or a dimension of zero.
    pub fn cuts(dimension: usize, count: usize) -> Result<Vec<Range<usize>>> {
        check_count("number of shards", count)?;
        check_count("dimension", dimension)?;
        let length = dimension.div_ceil(TILE).div_ceil(count) * TILE;
        Ok((0..dimension).step_by(length).map(|first| first..(first + length).min(dimension)).collect())
    }

    /// The coordinates that this shard makes.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The number of coordinates of the whole vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The number of steps whose noise has been made.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The number of steps in all.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The number of parts that are saved one by one, each with its own state.
    pub(crate) fn parts(&self) -> usize {
        self.tiles.len()
    }

    /// Appends the state of a part, exactly; says whether there is one that can be saved.
    pub(crate) fn save_part(&self, part: usize, state: &mut Vec<f64>) -> bool {
        let tile = &self.tiles[part];
        tile.conversion.is_none() && tile.filter.save(state)
    }

    /// Puts the state of a part back into fresh noise, after so many steps; [`ShardedNoise::restored`] ends it.
    pub(crate) fn restore_part(&mut self, part: usize, steps: usize, state: &[f64]) -> Result<()> {
        self.tiles[part].filter.restore(steps, state)
    }

    /// All parts have been put back: the next step is the one behind so many.
    pub(crate) fn restored(&mut self, steps: usize) {
        self.step = steps;
    }

    /// Writes the noise of the next step.
    ///
    /// # Errors
    /// A buffer that is not as long as the range, or a step past the horizon.
    pub fn next_into<T: Sample>(&mut self, out: &mut [T]) -> Result<()> {
        self.next_with(out, |value, noise| *value = T::from_f64(noise))
    }

    /// Adds `factor` times the noise of the next step; the factor is the plan's σ.
    ///
    /// # Errors
    /// A factor that is not finite, a vector that is not as long as the range, or a step past the horizon.
    pub fn add_to<T: Sample>(&mut self, factor: f64, values: &mut [T]) -> Result<()> {
        if !factor.is_finite() {
            return Err(Error::OutOfRange {
                what: "the factor of noise",
                value: factor,
                range: "a finite number",
            });
        }
        self.next_with(values, |value, noise| *value = T::from_f64(value.to_f64() + factor * noise))
    }

    /// Makes and drops noise until `step` steps have been made: how a resumed optimizer catches up.
    ///
    /// # Complexity
    /// That of making the noise.
    ///
    /// # Errors
    /// A step past the horizon.
    pub fn skip_to(&mut self, step: usize) -> Result<()> {
        if step > self.steps {
            return Err(Error::HorizonReached { horizon: self.steps });
        }
        let mut nothing = vec![0.0_f32; if self.step < step { self.range.len() } else { 0 }];
        while self.step < step {
            self.next_with(&mut nothing, |_, _| ())?;
        }
        Ok(())
    }

    fn next_with<T: Sample>(&mut self, out: &mut [T], combine: impl Fn(&mut T, f64) + Sync) -> Result<()> {
        if self.step >= self.steps {
            return Err(Error::HorizonReached { horizon: self.steps });
        }
        if out.len() != self.range.len() {
            return Err(Error::Dimension {
                what: "the vector of a shard",
                expected: self.range.len(),
                actual: out.len(),
            });
        }
        if let ([tile], false) = (&mut self.tiles[..], self.row.is_empty()) {
            let mut rows = ShortRows { source: &mut self.source, first: tile.first, row: &mut self.row };
            tile.next_with(&mut rows, out, &combine)?;
        } else {
            let columns = |first: usize| Columns { source: &self.source, first };
            // Only the first tile of a range may start between two tiles of the source.
            let ragged = usize::from(!self.range.start.is_multiple_of(TILE));
            let (head, tiles) = self.tiles.split_at_mut(ragged);
            let (start, rest) = out.split_at_mut(head.iter().map(|tile| tile.length).sum());
            for tile in head {
                tile.next_with(&mut columns(tile.first), start, &combine)?;
            }
            tiles
                .par_iter_mut()
                .zip(rest.par_chunks_mut(TILE))
                .try_for_each(|(tile, out)| tile.next_with(&mut columns(tile.first), out, &combine))?;
        }
        self.step += 1;
        Ok(())
    }
}

/// Refuses noise for which the machine has no memory left.
fn check_memory(strategy: &dyn Strategy, coordinates: usize, precision: Precision) -> Result<()> {
    let bytes = match precision {
        Precision::Single => 4.0,
        Precision::Double => 8.0,
    };
    let (one, two) = (strategy.memory(1) as f64, strategy.memory(2) as f64);
    let needed = bytes * (two - one) * coordinates as f64;
    if needed <= memory_left() {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what: "the number of bytes for the noise of a shard",
        value: needed,
        range: "at most the memory that is left; use a strategy with fewer buffers, or smaller shards on more machines",
    })
}

/// How many bytes the machine could give; what a large machine has where it does not say so.
fn memory_left() -> f64 {
    let stated = || -> Option<f64> {
        let table = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        Some(1024.0 * line.split_whitespace().next()?.parse::<f64>().ok()?)
    };
    stated().unwrap_or(2.0_f64.powi(38))
}

impl Tile {
    #[allow(
        clippy::large_stack_arrays,
        reason = "a tile is made for the cache, and threads have room for many"
    )]
    fn next_with<T: Sample>(
        &mut self,
        source: &mut dyn UnitNoise,
        out: &mut [T],
        combine: impl Fn(&mut T, f64),
    ) -> Result<()> {
        let mut noise = [0.0; TILE];
        let noise = &mut noise[..self.length];
        self.filter.next_into(source, noise)?;
        if let Some(conversion) = &mut self.conversion {
            conversion.apply_in_place(noise)?;
        }
        out.iter_mut().zip(noise).for_each(|(value, noise)| combine(value, *noise));
        Ok(())
    }
}

/// The rows of z from a coordinate on.
struct Columns<'a> {
    source: &'a GaussianSource,
    first: usize,
}

impl UnitNoise for Columns<'_> {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        self.source.fill_range(row, self.first + first, out);
    }

    fn fill_row_while(&mut self, row: usize, out: &mut [f64], meanwhile: &mut dyn FnMut(Range<usize>)) {
        self.source.fill_range_while(row, self.first, out, meanwhile);
    }
}

/// The same for rows that are shorter than a tile, which the source makes several at a time.
struct ShortRows<'a> {
    source: &'a mut GaussianSource,
    first: usize,
    row: &'a mut [f64],
}

impl UnitNoise for ShortRows<'_> {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        self.source.fill_range(row, self.first + first, out);
    }

    fn fill_row(&mut self, row: usize, out: &mut [f64]) {
        self.source.fill_row(row, self.row);
        out.copy_from_slice(&self.row[self.first..][..out.len()]);
    }
}

/// The noise never leaves through a debug print.
impl fmt::Debug for ShardedNoise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShardedNoise")
            .field("dimension", &self.dimension)
            .field("range", &self.range)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl Drop for ShardedNoise {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.row);
    }
}
