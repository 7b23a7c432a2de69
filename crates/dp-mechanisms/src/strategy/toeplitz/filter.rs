//! The noise of Toeplitz strategies, streamed: `ξ_t = (T⁻¹ D1⁻¹ z)_t / D2_t`.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use dp_linalg::rational::{CombStream, RationalStream, Sample};
use dp_linalg::toeplitz::{BandedStream, BlockKernel, BlockToeplitz, OnlineToeplitz};
use rayon::prelude::*;
use zeroize::Zeroize;

use super::core::Core;
use super::pieces::{BLOCK, Block, Pieces};
use super::shape::{Scaling, Shape};
use crate::error::{Error, Result};
use crate::noise::{self, Side, UnitNoise};
use crate::strategy::NoiseFilter;

/// Up to this many values the noise of a known horizon is made in a few large blocks by FFT; above it, online.
const BLOCKS_LIMIT: usize = 1 << 25;

/// The filter that suits the core.
pub(super) fn build(
    shape: &Shape,
    kernel: &OnceLock<Arc<BlockKernel>>,
    steps: usize,
    dimension: usize,
) -> Result<Box<dyn NoiseFilter>> {
    if let Some(filter) = recurrence::<f64>(shape, steps, dimension)? {
        return Ok(filter);
    }
    if steps.saturating_mul(dimension) > BLOCKS_LIMIT {
        let operator = Box::new(OnlineToeplitz::new(&shape.core().inverse(steps)?, dimension)?);
        return Ok(around(shape, Online { operator, z: vec![0.0; dimension] }));
    }
    let kernel = if let Some(kernel) = kernel.get() {
        Arc::clone(kernel)
    } else {
        let made = Arc::new(BlockKernel::new(&shape.core().inverse(steps)?)?);
        Arc::clone(kernel.get_or_init(|| made))
    };
    Ok(Box::new(Blocks {
        rows: Vec::with_capacity(kernel.block() * dimension),
        operator: BlockToeplitz::new(kernel, dimension)?,
        scaling: Reader::new(shape),
        step: 0,
        served: 0,
    }))
}

/// The filter of a core with a short memory, which is kept in numbers of type T; nothing for a core without.
pub(super) fn recurrence<T: Sample>(
    shape: &Shape,
    steps: usize,
    dimension: usize,
) -> Result<Option<Box<dyn NoiseFilter>>> {
    let within = |band: &[f64]| BandedStream::<T>::new(&band[..band.len().min(steps)], dimension);
    Ok(Some(match shape.core().as_ref() {
        Core::Full { .. } => return Ok(None),
        Core::Rational(rational) => around(shape, RationalStream::<T>::new(rational, dimension)?),
        Core::Windowed { rational, comb } => {
            let (comb, rational) =
                (CombStream::<T>::new(comb, dimension)?, RationalStream::new(rational, dimension)?);
            around(shape, Windowed { comb, rational })
        }
        Core::Banded(band) => around(shape, Substitution(within(band)?)),
        Core::BandedInverse(band) => around(shape, Finite(within(band)?)),
    }))
}

/// `T⁻¹` on a stream.
trait Inverse: Send {
    /// Takes the next rows of z and leaves those of `T⁻¹ z`.
    fn solve(&mut self, rows: &mut [f64]) -> Result<()>;

    /// Asks for what is kept of these coordinates, because the next step is about to need it.
    fn fetch(&self, _coordinates: Range<usize>) {}

    /// As [`NoiseFilter::rows_at_once`].
    fn rows_at_once(&self) -> usize {
        1
    }

    /// As [`NoiseFilter::save`].
    fn save(&self, _state: &mut Vec<f64>) -> bool {
        false
    }

    /// As [`NoiseFilter::restore`].
    fn restore(&mut self, _steps: usize, _state: &[f64]) -> Result<()> {
        Err(Error::State { reason: "noise without a short memory cannot be saved".to_owned() })
    }
}

fn append<T: Sample>(kept: &[T], state: &mut Vec<f64>) -> bool {
    state.extend(kept.iter().map(|value| value.to_f64()));
    true
}

fn rounded<T: Sample>(state: &[f64]) -> Vec<T> {
    state.iter().map(|value| T::from_f64(*value)).collect()
}

impl<T: Sample> Inverse for RationalStream<T> {
    fn solve(&mut self, rows: &mut [f64]) -> Result<()> {
        Ok(self.solve_in_place(rows)?)
    }

    fn fetch(&self, coordinates: Range<usize>) {
        RationalStream::fetch(self, coordinates);
    }

    fn save(&self, state: &mut Vec<f64>) -> bool {
        append(self.state(), state)
    }

    fn restore(&mut self, _steps: usize, state: &[f64]) -> Result<()> {
        Ok(RationalStream::restore(self, &rounded::<T>(state))?)
    }
}

/// A comb and what is smooth, one after the other.
struct Windowed<T: Sample> {
    comb: CombStream<T>,
    rational: RationalStream<T>,
}

impl<T: Sample> Inverse for Windowed<T> {
    fn solve(&mut self, rows: &mut [f64]) -> Result<()> {
        self.comb.solve_in_place(rows)?;
        Ok(self.rational.solve_in_place(rows)?)
    }

    fn fetch(&self, coordinates: Range<usize>) {
        self.rational.fetch(coordinates);
    }

    fn save(&self, state: &mut Vec<f64>) -> bool {
        append(self.comb.state(), state) && append(self.rational.state(), state)
    }

    fn restore(&mut self, steps: usize, state: &[f64]) -> Result<()> {
        let (ring, buffers) = state.split_at(state.len().min(self.comb.state().len()));
        self.comb.restore(steps, &rounded::<T>(ring))?;
        Ok(self.rational.restore(&rounded::<T>(buffers))?)
    }
}

/// Forward substitution for a banded T.
struct Substitution<T: Sample>(BandedStream<T>);

impl<T: Sample> Inverse for Substitution<T> {
    fn solve(&mut self, rows: &mut [f64]) -> Result<()> {
        Ok(self.0.solve_in_place(rows)?)
    }

    fn fetch(&self, coordinates: Range<usize>) {
        self.0.fetch(coordinates);
    }

    fn rows_at_once(&self) -> usize {
        self.0.rows_at_once()
    }

    fn save(&self, state: &mut Vec<f64>) -> bool {
        append(self.0.state(), state)
    }

    fn restore(&mut self, steps: usize, state: &[f64]) -> Result<()> {
        Ok(self.0.restore(steps, &rounded::<T>(state))?)
    }
}

/// A banded inverse.
struct Finite<T: Sample>(BandedStream<T>);

impl<T: Sample> Inverse for Finite<T> {
    fn solve(&mut self, rows: &mut [f64]) -> Result<()> {
        Ok(self.0.apply_in_place(rows)?)
    }

    fn fetch(&self, coordinates: Range<usize>) {
        self.0.fetch(coordinates);
    }

    fn rows_at_once(&self) -> usize {
        self.0.rows_at_once()
    }

    fn save(&self, state: &mut Vec<f64>) -> bool {
        append(self.0.state(), state)
    }

    fn restore(&mut self, steps: usize, state: &[f64]) -> Result<()> {
        Ok(self.0.restore(steps, &rounded::<T>(state))?)
    }
}

struct Online {
    operator: Box<OnlineToeplitz>,
    /// The row that the operator works on.
    z: Vec<f64>,
}

impl Inverse for Online {
    fn solve(&mut self, rows: &mut [f64]) -> Result<()> {
        for row in rows.chunks_exact_mut(self.z.len()) {
            self.z.copy_from_slice(row);
            self.operator.push(&self.z, row)?;
        }
        Ok(())
    }
}

/// An inverse between the two diagonals.
struct Scaled<I> {
    scaling: Option<Reader>,
    step: usize,
    inner: I,
}

fn around<I: Inverse + 'static>(shape: &Shape, inner: I) -> Box<dyn NoiseFilter> {
    Box::new(Scaled { scaling: Reader::new(shape), step: 0, inner })
}

impl<I: Inverse> Scaled<I> {
    /// Turns the rows of z of the next steps into those of ξ.
    fn filter(&mut self, dimension: usize, rows: &mut [f64]) -> Result<()> {
        let Some(scaling) = &mut self.scaling else {
            self.step += rows.len() / dimension;
            return self.inner.solve(rows);
        };
        let mut rest = rows;
        while !rest.is_empty() {
            let count = scaling.ready(self.step).min(rest.len() / dimension);
            let (part, later) = rest.split_at_mut(count * dimension);
            scaling.undo_rows(self.step, dimension, part);
            self.inner.solve(part)?;
            scaling.undo_columns(self.step, dimension, part);
            self.step += count;
            rest = later;
        }
        Ok(())
    }
}

impl<I: Inverse> NoiseFilter for Scaled<I> {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let inner = &self.inner;
        source.fill_row_while(self.step, out, &mut |done| inner.fetch(done));
        self.filter(out.len(), out)
    }

    fn next_rows(&mut self, source: &mut dyn UnitNoise, dimension: usize, out: &mut [f64]) -> Result<()> {
        source.fill_rows(self.step, dimension, out);
        self.filter(dimension, out)
    }

    fn rows_at_once(&self) -> usize {
        self.inner.rows_at_once()
    }

    fn save(&self, state: &mut Vec<f64>) -> bool {
        self.inner.save(state)
    }

    fn restore(&mut self, steps: usize, state: &[f64]) -> Result<()> {
        self.inner.restore(steps, state)?;
        self.step = steps;
        Ok(())
    }
}

/// The diagonals as a stream reads them: tables as they are, and of the pieces one block at a time.
enum Reader {
    Tables(Arc<Scaling>),
    Pieces {
        pieces: Arc<Pieces>,
        /// The block that is at hand.
        index: Option<usize>,
        block: Box<Block>,
    },
}

impl Reader {
    /// Nothing where there are no diagonals.
    fn new(shape: &Shape) -> Option<Self> {
        match shape {
            Shape::Plain(_) => None,
            Shape::Tables(_, scaling, _) => Some(Self::Tables(Arc::clone(scaling))),
            Shape::Pieces(_, pieces) => {
                Some(Self::Pieces { pieces: Arc::clone(pieces), index: None, block: Box::default() })
            }
        }
    }

    /// How many rows from a step on can be worked on at once.
    fn ready(&self, step: usize) -> usize {
        match self {
            Self::Tables(_) => usize::MAX,
            Self::Pieces { .. } => BLOCK - step % BLOCK,
        }
    }

    /// Both diagonals from a step on, as far as they are ready.
    fn from(&mut self, step: usize) -> (&[f64], &[f64]) {
        let (scaling, step): (&Scaling, usize) = match self {
            Self::Tables(scaling) => (scaling, step),
            Self::Pieces { pieces, index, block } => {
                let wanted = step / BLOCK;
                if *index != Some(wanted) {
                    pieces.block(wanted, block);
                    *index = Some(wanted);
                }
                (&block.scaling, step % BLOCK)
            }
        };
        (&scaling.rows[step..], &scaling.column_norms[step..])
    }

    /// `D1⁻¹` on the rows from `step` on, no more than are ready.
    fn undo_rows(&mut self, step: usize, dimension: usize, rows: &mut [f64]) {
        let (scales, _) = self.from(step);
        if dimension == 1 {
            // Side by side, without a loop of one round in each.
            return rows.iter_mut().zip(scales).for_each(|(value, scale)| *value *= 1.0 / scale);
        }
        for (row, scale) in rows.chunks_exact_mut(dimension).zip(scales) {
            multiply(row, 1.0 / scale);
        }
    }

    /// `D2⁻¹` on the rows from `step` on, no more than are ready.
    fn undo_columns(&mut self, step: usize, dimension: usize, rows: &mut [f64]) {
        let (_, norms) = self.from(step);
        if dimension == 1 {
            return rows.iter_mut().zip(norms).for_each(|(value, norm)| *value *= norm);
        }
        for (row, norm) in rows.chunks_exact_mut(dimension).zip(norms) {
            multiply(row, *norm);
        }
    }
}

fn multiply(values: &mut [f64], factor: f64) {
    if values.len() <= noise::TILE {
        values.iter_mut().for_each(|value| *value *= factor);
    } else {
        values
            .par_chunks_mut(noise::TILE)
            .for_each(|tile| tile.iter_mut().for_each(|value| *value *= factor));
    }
}

/// ξ in large blocks, each made when its first step is asked for.
struct Blocks {
    operator: BlockToeplitz,
    /// Tables: a core that takes large blocks has no pieces.
    scaling: Option<Reader>,
    /// The vectors of the current block, one after the other.
    rows: Vec<f64>,
    step: usize,
    /// How much of the current block has been asked for.
    served: usize,
}

impl NoiseFilter for Blocks {
    fn side(&self) -> Side {
        Side::Input
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let dimension = out.len();
        self.next_rows(source, dimension, out)
    }

    fn next_rows(&mut self, source: &mut dyn UnitNoise, dimension: usize, out: &mut [f64]) -> Result<()> {
        let mut rest = out;
        while !rest.is_empty() {
            if self.served == self.rows.len() {
                self.rows.resize(self.operator.next_steps() * dimension, 0.0);
                source.fill_rows(self.step, dimension, &mut self.rows);
                if let Some(scaling) = &mut self.scaling {
                    scaling.undo_rows(self.step, dimension, &mut self.rows);
                }
                self.operator.push_block(&mut self.rows)?;
                if let Some(scaling) = &mut self.scaling {
                    scaling.undo_columns(self.step, dimension, &mut self.rows);
                }
                self.served = 0;
            }
            let ready = &self.rows[self.served..];
            let (part, later) = rest.split_at_mut(rest.len().min(ready.len()));
            part.copy_from_slice(&ready[..part.len()]);
            self.served += part.len();
            self.step += part.len() / dimension;
            rest = later;
        }
        Ok(())
    }
}

/// What was made ahead is wiped from memory.
impl Drop for Blocks {
    fn drop(&mut self) {
        self.rows.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::toeplitz::{Columns, ToeplitzStrategy};
    use crate::strategy::{Strategy, scaled_blt, unwatched};
    use crate::{CorrelatedNoise, GaussianSource, Problem, Seed, Workload};

    fn scaled(steps: usize) -> ToeplitzStrategy {
        let problem = Problem::new(Workload::count(), steps).unwrap();
        scaled_blt::scaled_blt(&problem, &mut unwatched).unwrap()
    }

    #[test]
    fn buffers_make_the_noise_of_the_matrix_at_any_dimension() {
        let steps = 12;
        let strategy = scaled(steps);
        let matrices = strategy.materialize().unwrap();
        // Below and above a tile of the source, and above what is shared among threads.
        for dimension in [3, noise::TILE + 5, 70_001] {
            let mut source = GaussianSource::new(Seed::reproducible(3), dimension);
            let mut filter = strategy.noise_filter(dimension).unwrap();
            let mut prefix = vec![0.0; dimension];
            let mut expected = vec![0.0; dimension];
            let mut row = vec![0.0; dimension];
            for step in 0..steps {
                filter.next_into(&mut source, &mut row).unwrap();
                prefix.iter_mut().zip(&row).for_each(|(sum, value)| *sum += value);
                expected.fill(0.0);
                for past in 0..=step {
                    source.fill_row(past, &mut row);
                    let weight = matrices.decoder[[step, past]];
                    expected.iter_mut().zip(&row).for_each(|(sum, z)| *sum += weight * z);
                }
                let worst = prefix.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-11, "{dimension} at step {step}: {worst}");
            }
        }
    }

    #[test]
    fn long_vectors_are_the_same_however_many_steps_are_made_at_once() {
        let steps = 20;
        let band: Vec<f64> = (0..9).map(|k| 1.0 / f64::from(k + 1)).collect();
        let count = Workload::count();
        let banded = ToeplitzStrategy::plain("banded", &count, steps, Core::Banded(band)).unwrap();
        // A part of a tile of noise, and several.
        for dimension in [700, 9000] {
            let source = || GaussianSource::new(Seed::reproducible(3), dimension);
            let mut noise =
                CorrelatedNoise::new(&banded, dimension, Side::Input, Box::new(source())).unwrap();
            let (mut source, mut filter) = (source(), banded.noise_filter(dimension).unwrap());
            assert_eq!(filter.rows_at_once(), 2);
            let (mut made, mut expected) = (vec![0.0; dimension], vec![0.0; dimension]);
            for step in 0..steps {
                noise.next_into(&mut made).unwrap();
                filter.next_into(&mut source, &mut expected).unwrap();
                assert!(made == expected, "{dimension} coordinates, step {step}");
            }
        }
    }

    #[test]
    fn diagonals_in_pieces_and_in_tables_make_the_same_noise() {
        let steps = 70_000;
        let pieces = scaled(steps);
        assert!(matches!(pieces.shape, Shape::Pieces(..)));
        let mut tables = pieces.clone();
        let scaling = Arc::new(pieces.shape.scaling().unwrap().into_owned());
        tables.shape = Shape::Tables(pieces.core().into_owned(), scaling, Columns::Normalized);
        for dimension in [1, 3] {
            let noise = |strategy: &ToeplitzStrategy, chunks: &[usize]| {
                let mut source = GaussianSource::new(Seed::reproducible(5), dimension);
                let mut filter = strategy.noise_filter(dimension).unwrap();
                let mut out = vec![0.0; steps * dimension];
                let (mut rest, mut sizes) = (&mut out[..], chunks.iter().cycle());
                while !rest.is_empty() {
                    let size = sizes.next().unwrap() * dimension;
                    let (part, later) = rest.split_at_mut(size.min(rest.len()));
                    filter.next_rows(&mut source, dimension, part).unwrap();
                    rest = later;
                }
                out
            };
            let expected = noise(&tables, &[steps]);
            for chunks in [&[1][..], &[7, 1000, 2500], &[steps]] {
                assert!(noise(&pieces, chunks) == expected, "{dimension} {chunks:?}");
            }
        }
        assert!(pieces.memory(1) < 6000 && tables.memory(1) > 2 * steps);
    }
}
