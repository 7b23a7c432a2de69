//! Where the noise comes from.
//!
//! All randomness of a mechanism is one matrix `z` of independent standard normal values with a row per row of
//! the strategy and a column per coordinate. [`GaussianSource`] makes any part of it on demand as a pure
//! function of a secret 256-bit [`Seed`]: a resumed mechanism continues the very same noise, and a machine that
//! holds a range of coordinates makes exactly the noise that any other machine would make for it.

mod correlated;
pub mod discrete;
mod keyed;
pub mod response;
mod seeds;
mod sharded;

use std::fmt;
use std::ops::Range;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use zeroize::Zeroize;

pub(crate) use correlated::used_rows;
pub use correlated::{CorrelatedNoise, Side};
pub use keyed::HashKey;
pub use seeds::{Origin, Seed};
pub(crate) use seeds::{Seeds, Segment, system_bytes};
pub use sharded::{Precision, ShardedNoise};

/// A matrix of independent unit-variance noise, read by rows.
///
/// The production implementation is [`GaussianSource`]; tests put unit vectors or constants here.
pub trait UnitNoise: Send + Sync {
    /// Writes the coordinates `first .. first + out.len()` of row `row`. A pure function of its arguments.
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]);

    /// Writes a whole row; rows asked for in order may be served from a cache.
    fn fill_row(&mut self, row: usize, out: &mut [f64]) {
        self.fill_range(row, 0, out);
    }

    /// Writes a whole row, and may call `meanwhile` with the parts of it that are done, in order: memory that is asked for then
    /// is there when the row is.
    fn fill_row_while(&mut self, row: usize, out: &mut [f64], _meanwhile: &mut dyn FnMut(Range<usize>)) {
        self.fill_row(row, out);
    }

    /// Writes as many whole rows of `dimension` coordinates as `out` holds, from row `first` on.
    fn fill_rows(&mut self, first: usize, dimension: usize, out: &mut [f64]) {
        for (row, values) in (first..).zip(out.chunks_exact_mut(dimension)) {
            self.fill_row(row, values);
        }
    }
}

/// Standard normal noise from ChaCha20, addressable by row and coordinate.
///
/// The matrix is cut into tiles of about [`TILE`] values: `columns` coordinates by `TILE / columns` rows. Each
/// tile is filled by the ziggurat from its own position of the ChaCha20 stream (the nonce is the tile's column,
/// the counter starts at its row), far enough from its neighbours that no words are shared.
///
/// # Complexity
/// About one ChaCha20 block per 8 values, however the rows are visited in order; a random access costs a tile. Rows of
/// several tiles are shared among threads.
pub struct GaussianSource {
    tiles: Tiles,
    /// The rows of the current tile row, row-major over all coordinates; empty when a tile has one row.
    cache: Vec<f64>,
    /// The segment of seeds and the tile row in the cache.
    cached: Option<(usize, usize)>,
}

/// The number of values in a tile of noise.
pub const TILE: usize = 4096;

/// Distance between tiles in the ChaCha20 stream, in 32-bit words. A tile needs about 2.04 words a value (about 6 for
/// exact discrete noise); the chance that rejections make it need 2^20 words is below 2^-10000.
const WORDS_PER_TILE: u128 = 1 << 20;

/// How a matrix of noise is cut into tiles, each with its own part of the ChaCha20 streams of one seed.
pub(crate) struct Tiles {
    seeds: Seeds,
    /// Coordinates per tile, a power of two.
    columns: usize,
    /// Rows per tile.
    pub(crate) rows: usize,
    pub(crate) dimension: usize,
}

impl Tiles {
    pub(crate) fn new(seeds: impl Into<Seeds>, dimension: usize) -> Self {
        let columns = dimension.max(1).next_power_of_two().min(TILE);
        Self { seeds: seeds.into(), columns, rows: TILE / columns, dimension }
    }

    /// The tile that holds a row: the segment of its seed, and the tile row. Where a segment begins within a tile, the rows
    /// before come from the tile of the segment before.
    pub(crate) fn of(&self, row: usize) -> (usize, usize) {
        (self.seeds.segment_of(row), row / self.rows)
    }

    /// The generator at the start of a tile.
    fn generator(&self, (segment, tile_row): (usize, usize), tile_column: usize) -> ChaCha20Rng {
        let mut generator = ChaCha20Rng::from_seed(*self.seeds.seed(segment).expose());
        generator.set_stream(tile_column as u64);
        generator.set_word_pos(tile_row as u128 * WORDS_PER_TILE);
        generator
    }

    /// The coordinates that a tile column covers.
    fn coordinates(&self, tile_column: usize) -> Range<usize> {
        let start = tile_column * self.columns;
        start..(start + self.columns).min(self.dimension)
    }

    /// Fills the rows of a tile row, row-major over all coordinates, by one draw per value.
    pub(crate) fn fill<T>(
        &self,
        tile: (usize, usize),
        out: &mut [T],
        mut draw: impl FnMut(&mut ChaCha20Rng) -> T,
    ) {
        if self.dimension <= self.columns {
            // One tile wide: its rows follow each other.
            let mut generator = self.generator(tile, 0);
            out.iter_mut().for_each(|value| *value = draw(&mut generator));
            return;
        }
        for tile_column in 0..self.dimension.div_ceil(self.columns) {
            let mut generator = self.generator(tile, tile_column);
            for row in out.chunks_exact_mut(self.dimension) {
                for value in &mut row[self.coordinates(tile_column)] {
                    *value = draw(&mut generator);
                }
            }
        }
    }
}

impl Tiles {
    /// The same for a range of coordinates, row-major over the range: exactly what [`Self::fill`] writes there. Of a tile that the
    /// range covers in part, what stands before is drawn and dropped.
    pub(crate) fn fill_part<T>(
        &self,
        tile: (usize, usize),
        part: &Range<usize>,
        out: &mut [T],
        mut draw: impl FnMut(&mut ChaCha20Rng) -> T,
    ) {
        if *part == (0..self.dimension) {
            return self.fill(tile, out, draw);
        }
        let mut start = part.start;
        while start < part.end {
            let tile_column = start / self.columns;
            let covered = self.coordinates(tile_column);
            let end = covered.end.min(part.end);
            // Nothing follows in a tile of one row.
            let drawn = if self.rows == 1 { covered.start..end } else { covered.clone() };
            let mut generator = self.generator(tile, tile_column);
            for row in out.chunks_exact_mut(part.len()) {
                for coordinate in drawn.clone() {
                    let value = draw(&mut generator);
                    if (start..end).contains(&coordinate) {
                        row[coordinate - part.start] = value;
                    }
                }
            }
            start = covered.end;
        }
    }
}

impl GaussianSource {
    /// Noise for vectors of the given dimension.
    pub fn new(seed: Seed, dimension: usize) -> Self {
        Self::from_seeds(seed, dimension)
    }

    pub(crate) fn from_seeds(seeds: impl Into<Seeds>, dimension: usize) -> Self {
        let tiles = Tiles::new(seeds, dimension);
        let cache = if tiles.rows > 1 { vec![0.0; tiles.rows * dimension] } else { Vec::new() };
        Self { tiles, cache, cached: None }
    }

    fn load(&mut self, tile: (usize, usize)) {
        self.tiles.fill(tile, &mut self.cache, |generator| StandardNormal.sample(generator));
        self.cached = Some(tile);
    }
}

/// Values between two calls of what is done meanwhile. With the five buffers of a usual strategy, that is ten lines of memory,
/// fewer than a core can wait for at once.
const MEANWHILE: usize = 32;

impl GaussianSource {
    /// [`UnitNoise::fill_range`], with calls of `meanwhile` for parts of `out` that are done.
    fn fill_range_while(
        &self,
        row: usize,
        first: usize,
        out: &mut [f64],
        mut meanwhile: impl FnMut(Range<usize>),
    ) {
        let (tile, row_in_tile) = (self.tiles.of(row), row % self.tiles.rows);
        let mut done = 0;
        while done < out.len() {
            let coordinate = first + done;
            let tile_column = coordinate / self.tiles.columns;
            let covered = self.tiles.coordinates(tile_column);
            let mut generator = self.tiles.generator(tile, tile_column);
            // The ziggurat uses a varying number of words: what stands before in the tile is drawn and dropped.
            for _ in 0..row_in_tile * covered.len() + (coordinate - covered.start) {
                let _: f64 = StandardNormal.sample(&mut generator);
            }
            let end = done + (covered.end.max(coordinate + 1) - coordinate).min(out.len() - done);
            for values in out[done..end].chunks_mut(MEANWHILE) {
                for value in &mut *values {
                    *value = StandardNormal.sample(&mut generator);
                }
                meanwhile(done..done + values.len());
                done += values.len();
            }
        }
    }
}

impl UnitNoise for GaussianSource {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        self.fill_range_while(row, first, out, |_| ());
    }

    fn fill_row(&mut self, row: usize, out: &mut [f64]) {
        if self.tiles.rows == 1 {
            // Whole tiles: none of the values is drawn twice.
            let this = &*self;
            return out
                .par_chunks_mut(TILE)
                .enumerate()
                .for_each(|(tile, values)| this.fill_range(row, tile * TILE, values));
        }
        let tile = self.tiles.of(row);
        if self.cached != Some(tile) {
            self.load(tile);
        }
        let start = row % self.tiles.rows * self.tiles.dimension;
        out.copy_from_slice(&self.cache[start..start + self.tiles.dimension]);
    }

    fn fill_rows(&mut self, first: usize, dimension: usize, out: &mut [f64]) {
        if self.tiles.rows == 1 || dimension != self.tiles.dimension {
            for (row, values) in (first..).zip(out.chunks_exact_mut(dimension)) {
                self.fill_row(row, values);
            }
            return;
        }
        let whole = out.len() / dimension * dimension;
        let (mut row, mut rest) = (first, &mut out[..whole]);
        while !rest.is_empty() {
            let (tile, start) = (self.tiles.of(row), row % self.tiles.rows * dimension);
            let in_segment = (self.tiles.seeds.end_of(tile.0) - row).saturating_mul(dimension);
            let length = rest.len().min(self.cache.len() - start).min(in_segment);
            let (part, later) = rest.split_at_mut(length);
            if part.len() == self.cache.len() {
                // A whole tile goes straight to its place.
                self.tiles.fill(tile, part, |generator| StandardNormal.sample(generator));
            } else {
                if self.cached != Some(tile) {
                    self.load(tile);
                }
                part.copy_from_slice(&self.cache[start..start + part.len()]);
            }
            row += part.len() / dimension;
            rest = later;
        }
    }
}

impl fmt::Debug for GaussianSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GaussianSource")
            .field("dimension", &self.tiles.dimension)
            .finish_non_exhaustive()
    }
}

impl Drop for GaussianSource {
    fn drop(&mut self) {
        self.cache.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_equals_the_same_part_of_the_whole() {
        for dimension in [1, 3, 100, 4096, 5000, 10_000] {
            let mut source = GaussianSource::new(Seed::reproducible(7), dimension);
            let rows = if dimension < 100 { 3 * TILE } else { 45 };
            let mut whole = vec![0.0; dimension];
            for row in (0..rows).step_by(if dimension < 100 { 997 } else { 11 }) {
                source.fill_row(row, &mut whole);
                for (first, length) in
                    [(0, dimension), (dimension / 2, dimension - dimension / 2), (dimension - 1, 1)]
                {
                    let mut part = vec![0.0; length];
                    source.fill_range(row, first, &mut part);
                    assert_eq!(
                        part,
                        whole[first..first + length],
                        "row {row}, {first}+{length} of {dimension}"
                    );
                }
            }
        }
    }

    #[test]
    fn many_rows_are_the_rows_one_by_one() {
        for dimension in [1_usize, 3, 1000, 5000] {
            let rows = TILE / dimension.next_power_of_two().min(TILE);
            let mut source = GaussianSource::new(Seed::reproducible(8), dimension);
            // Within a tile, across its end, and over a whole tile with parts of its neighbours.
            for (first, count) in [(0, 1), (rows / 2, rows), (rows - 1, rows + 2), (0, 2 * rows)] {
                let mut together = vec![0.0; count * dimension];
                source.fill_rows(first, dimension, &mut together);
                let mut single = vec![0.0; dimension];
                for (row, part) in (first..).zip(together.chunks_exact(dimension)) {
                    source.fill_range(row, 0, &mut single);
                    assert_eq!(part, single, "row {row} of {first}+{count}, {dimension} coordinates");
                }
            }
        }
    }

    #[test]
    fn rows_and_seeds_differ() {
        let mut a = GaussianSource::new(Seed::reproducible(1), 4);
        let mut b = GaussianSource::new(Seed::reproducible(2), 4);
        let mut rows = Vec::new();
        for row in 0..5000 {
            for source in [&mut a, &mut b] {
                let mut out = [0.0_f64; 4];
                source.fill_row(row, &mut out);
                rows.push(out.map(f64::to_bits));
            }
        }
        rows.sort_unstable();
        let distinct = rows.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
        assert_eq!(distinct, 10_000);
    }

    #[test]
    fn system_seeds_use_all_their_bits() {
        // A clock or a 31-bit seed leaves most bytes zero or equal between two draws.
        let seeds: Vec<Seed> = (0..64).map(|_| Seed::from_system().unwrap()).collect();
        for byte in 0..32 {
            let distinct: std::collections::HashSet<u8> =
                seeds.iter().map(|seed| seed.expose()[byte]).collect();
            // In one of 32 bytes, 64 uniform draws have fewer than 36 distinct values with probability 1.5e-14.
            assert!(distinct.len() >= 36, "byte {byte}: {} values", distinct.len());
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let seed = Seed::reproducible(0x0123_4567_89ab_cdef);
        assert_eq!(format!("{seed:?}"), "Seed(secret)");
        assert!(!format!("{:?}", GaussianSource::new(seed, 2)).contains("239"));
    }
}
