//! Exact integer noise, addressable by row: a pure function of seed, row and coordinate.

use std::ops::Range;

use rand::CryptoRng;
use zeroize::Zeroize;

use crate::noise::discrete::{DiscreteGaussian, DiscreteLaplace};
use crate::noise::{Seeds, Tiles};

/// The distribution of every entry of the noise.
#[derive(Debug, Clone)]
pub(super) enum Sampler {
    Gaussian(DiscreteGaussian),
    Laplace(DiscreteLaplace),
}

impl Sampler {
    pub(super) fn sample<R: CryptoRng + ?Sized>(&self, generator: &mut R) -> i128 {
        match self {
            Self::Gaussian(sampler) => sampler.sample(generator),
            Self::Laplace(sampler) => sampler.sample(generator),
        }
    }
}

/// The rows of the integer noise matrix, one after the other or from any row on.
///
/// A saved state holds the seed and not the noise; asking for the same row again gives the same row.
pub(super) struct IntegerNoise {
    tiles: Tiles,
    /// The coordinates that are asked for.
    part: Range<usize>,
    sampler: Sampler,
    cache: Vec<i128>,
    cached: Option<(usize, usize)>,
}

impl IntegerNoise {
    /// The coordinates `part` of the noise of vectors of a dimension.
    pub(super) fn new(
        seeds: impl Into<Seeds>,
        dimension: usize,
        part: Range<usize>,
        sampler: Sampler,
    ) -> Self {
        let tiles = Tiles::new(seeds, dimension);
        let cache = vec![0; tiles.rows * part.len()];
        Self { tiles, part, sampler, cache, cached: None }
    }

    /// Adds a row of noise to the coordinates of the part.
    pub(super) fn add_row(&mut self, row: usize, sums: &mut [i128]) {
        let (tile, row) = (self.tiles.of(row), row % self.tiles.rows);
        if self.cached != Some(tile) {
            let sampler = &self.sampler;
            let draw = |generator: &mut _| sampler.sample(generator);
            self.tiles.fill_part(tile, &self.part, &mut self.cache, draw);
            self.cached = Some(tile);
        }
        let start = row * self.part.len();
        for (sum, noise) in sums.iter_mut().zip(&self.cache[start..start + self.part.len()]) {
            *sum += noise;
        }
    }
}

impl Drop for IntegerNoise {
    fn drop(&mut self) {
        self.cache.zeroize();
    }
}
