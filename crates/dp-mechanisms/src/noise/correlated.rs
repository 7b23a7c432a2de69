//! Noise with memory: what a strategy makes of the independent rows of `z`.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::noise::UnitNoise;
use crate::strategy::{NoiseFilter, Strategy};
use crate::workload::{InverseStream, WorkloadStream};

/// Where noise is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// To the input of a step, before the workload: `ξ = A⁻¹ B z`.
    Input,
    /// To the release of a step, after the workload: `B z`.
    Output,
}

/// The correlated noise of one strategy, one step at a time, of unit σ.
///
/// Applications add the output noise `(Bz)_t` to exact statistics, optimizers add the input noise `ξ_t` to
/// gradients. Both come from one and the same `z`, drawn once for the whole horizon.
///
/// # Privacy
/// The noise of a step is a linear function of `z` alone. Adding it to the stream is private for adaptively
/// chosen inputs because `z` is Gaussian and the workload is lower triangular.
///
/// # Complexity
/// That of the strategy's filter, plus one O(d) pass where the filter works on the other side. Vectors of few coordinates
/// are made several steps at a time, which costs little more than one step, and long ones where the filter keeps much
/// ([`NoiseFilter::rows_at_once`]); a step is then served from what is made. Blocks
/// start at multiples of their length, whoever asks: the noise of a step does not depend on how it was reached.
pub struct CorrelatedNoise {
    filter: Box<dyn NoiseFilter>,
    conversion: Conversion,
    source: Box<dyn UnitNoise>,
    /// The steps made together, one after the other; empty where each step is made by itself.
    block: Vec<f64>,
    /// Where the next step stands in the block.
    served: usize,
    dimension: usize,
    steps: usize,
    step: usize,
}

/// The values of the steps that are made together.
const BLOCK: usize = 256;

enum Conversion {
    None,
    ToOutput(Box<WorkloadStream>),
    ToInput(Box<InverseStream>),
}

impl CorrelatedNoise {
    /// The noise of a strategy for vectors of the given dimension, on the given side.
    ///
    /// # Errors
    /// A dimension of zero, or what the strategy refuses.
    pub fn new(
        strategy: &dyn Strategy,
        dimension: usize,
        side: Side,
        source: Box<dyn UnitNoise>,
    ) -> Result<Self> {
        crate::error::check_count("dimension", dimension)?;
        let filter = strategy.noise_filter(dimension)?;
        let steps = strategy.steps();
        let conversion = match (filter.side(), side) {
            (Side::Input, Side::Output) => {
                Conversion::ToOutput(Box::new(strategy.workload().stream(steps, dimension)?))
            }
            (Side::Output, Side::Input) => {
                Conversion::ToInput(Box::new(strategy.workload().inverse_stream(steps, dimension)?))
            }
            _ => Conversion::None,
        };
        let together = (BLOCK / dimension).max(filter.rows_at_once()).min(steps);
        let block = if together > 1 { vec![0.0; together * dimension] } else { Vec::new() };
        let served = block.len();
        Ok(Self { filter, conversion, source, block, served, dimension, steps, step: 0 })
    }

    /// The number of steps whose noise has been made.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Writes the noise of the next step.
    ///
    /// # Errors
    /// A buffer of another dimension, or a step past the horizon: noise never repeats and never runs on.
    pub fn next_into(&mut self, out: &mut [f64]) -> Result<()> {
        if self.step >= self.steps {
            return Err(Error::HorizonReached { horizon: self.steps });
        }
        if out.len() != self.dimension {
            return Err(Error::Dimension {
                what: "the output buffer",
                expected: self.dimension,
                actual: out.len(),
            });
        }
        if self.block.is_empty() {
            self.filter.next_into(self.source.as_mut(), out)?;
            self.conversion.apply(out)?;
        } else {
            if self.served == self.block.len() {
                self.make_block()?;
            }
            out.copy_from_slice(&self.block[self.served..self.served + self.dimension]);
            self.served += self.dimension;
        }
        self.step += 1;
        Ok(())
    }

    /// The same for vectors of one coordinate.
    #[inline]
    pub(crate) fn next_number(&mut self) -> Result<f64> {
        if self.dimension == 1
            && let Some(made) = self.block.get(self.served)
            && self.step < self.steps
        {
            (self.served, self.step) = (self.served + 1, self.step + 1);
            return Ok(*made);
        }
        self.next_number_made()
    }

    #[cold]
    fn next_number_made(&mut self) -> Result<f64> {
        let mut number = [0.0];
        self.next_into(&mut number)?;
        Ok(number[0])
    }

    /// Makes the steps that are served next.
    fn make_block(&mut self) -> Result<()> {
        let values = self.block.len().min((self.steps - self.step) * self.dimension);
        let rows = &mut self.block[..values];
        self.filter.next_rows(self.source.as_mut(), self.dimension, rows)?;
        self.conversion.apply(rows)?;
        self.served = 0;
        Ok(())
    }

    /// Makes and drops noise until `step` steps have been made: how a resumed mechanism catches up.
    ///
    /// # Complexity
    /// That of making the noise.
    ///
    /// # Errors
    /// A step past the horizon.
    pub fn skip_to(&mut self, step: usize, scratch: &mut [f64]) -> Result<()> {
        while self.step < step {
            self.next_into(scratch)?;
        }
        Ok(())
    }
}

/// The number of rows of `z` that the noise of the first `step` steps is made of. Some strategies look ahead.
///
/// # Complexity
/// That of the noise of one coordinate.
pub(crate) fn used_rows(strategy: &dyn Strategy, step: usize) -> Result<usize> {
    struct Asked(AtomicUsize);
    impl UnitNoise for Asked {
        fn fill_range(&self, row: usize, _first: usize, out: &mut [f64]) {
            self.0.fetch_max(row + 1, Ordering::Relaxed);
            out.fill(0.0);
        }
    }
    let mut asked = Asked(AtomicUsize::new(0));
    let mut filter = strategy.noise_filter(1)?;
    for _ in 0..step {
        filter.next_into(&mut asked, &mut [0.0])?;
    }
    Ok(asked.0.into_inner())
}

impl Conversion {
    /// Turns rows of noise on the filter's side into rows on the other.
    fn apply(&mut self, rows: &mut [f64]) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::ToOutput(stream) => stream.apply_in_place(rows),
            Self::ToInput(stream) => stream.apply_in_place(rows),
        }
    }
}

/// What was made ahead is wiped from memory.
impl Drop for CorrelatedNoise {
    fn drop(&mut self) {
        self.block.zeroize();
    }
}

/// The noise never leaves through a debug print.
impl fmt::Debug for CorrelatedNoise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CorrelatedNoise").field("step", &self.step).finish_non_exhaustive()
    }
}
