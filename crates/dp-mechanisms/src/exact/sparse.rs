//! Exact releases of many coordinates of which few are touched or looked at.
//!
//! A coordinate is measured like any other, `y = C̃x + z`, but only when somebody asks for it: what is kept of a
//! coordinate that was touched are its inputs that are not zero, and of one that was asked for a column of noise and a decoder,
//! both at the step of the last question. The column is a pure function of the seed and the coordinate.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use dp_linalg::tree;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroize;

use super::convolution::{Kernel, OnlineConvolution};
use super::decode::Decoder;
use super::integer::{Entries, IntegerStrategy};
use super::noise::Sampler;
use super::plan::ExactPlan;
use super::transform::REACH;
use crate::error::Result;
use crate::noise::{Seeds, Side};
use crate::sparse::append;
use crate::strategy::weighted_tree::WeightedNodes;

/// Rows of noise per chunk of a column's stream.
const CHUNK: usize = 64;

/// Distance between chunks in the stream, in 32-bit words; a chunk needs about 600.
const WORDS_PER_CHUNK: u128 = 1 << 16;

/// A coordinate of a Toeplitz strategy with more inputs than this is measured by an online convolution.
const MANY: usize = 2048;

/// The coordinates of an exact release that were touched or asked for.
///
/// # Privacy
/// Every answer is a function of the noisy measurements of its coordinate, which are exactly those of a dense exact release with
/// another matrix of noise of the same law. Which coordinates are asked for must not depend on data.
///
/// # Complexity
/// A change costs O(1). An answer costs, for each step since the coordinate was last asked for (all of them at first), one sample
/// of noise, one step of the decoder and one product for each input that is not zero and that the row of the strategy
/// reaches; from 2048 inputs on amortized O(log² n) for Toeplitz strategies, scaled or not. Memory: two words for each such input,
/// and for each coordinate that was asked for the decoder's values, which are few for `blt`, `scaled-blt`, the bands and trees,
/// and the horizon for the others; about four horizons more for a coordinate with more than 2048 inputs.
pub(crate) struct ExactCells {
    strategy: Arc<IntegerStrategy>,
    sampler: Sampler,
    grid: f64,
    seeds: Seeds,
    /// The changes of the step that is being taken, in grid units.
    staged: Vec<(u64, i64)>,
    inputs: HashMap<u64, Inputs>,
    columns: HashMap<u64, Column>,
    /// For coordinates with many inputs, made by the first of them.
    kernel: Option<Arc<Kernel>>,
    /// No sum of the convolution exceeds this.
    reach: u128,
}

/// The inputs of one coordinate that are not zero, in grid units, oldest first, each with its step counted from 0.
#[derive(Default)]
struct Inputs(Vec<(usize, i64)>);

impl Drop for Inputs {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// One coordinate at the step it was last asked for.
struct Column {
    generator: ChaCha20Rng,
    /// The row of noise that comes next, and the one from which on the generator is another.
    row: usize,
    until: usize,
    decoder: Decoder,
    step: usize,
    current: f64,
    /// The latest measurement, by which a resumed mechanism proves that it measures with the same noise.
    measured: i128,
    /// How the coordinate is measured once it has many inputs.
    many: Option<Many>,
}

/// All inputs of a coordinate, times their column scales, and their convolution.
struct Many {
    operator: OnlineConvolution,
    /// One per step of the horizon.
    inputs: Vec<i64>,
    /// How many of those that are not zero stand there.
    taken: usize,
}

impl Many {
    fn new(kernel: Arc<Kernel>, horizon: usize) -> Self {
        Self { operator: OnlineConvolution::with_kernel(kernel, 1), inputs: vec![0; horizon], taken: 0 }
    }

    /// The row of a step; all steps must be asked for in turn.
    fn measure(&mut self, strategy: &IntegerStrategy, inputs: &[(usize, i64)], step: usize) -> i128 {
        let (columns, scale) = match &strategy.entries {
            Entries::Scaled { rows, columns, .. } => (Some(columns), rows[step]),
            _ => (None, 1),
        };
        while let Some((past, value)) = inputs.get(self.taken)
            && *past <= step
        {
            self.inputs[*past] = columns.map_or(1, |columns| columns[*past]) * value;
            self.taken += 1;
        }
        let mut row = [0];
        self.operator.push(step, &self.inputs, &mut row);
        row[0] * i128::from(scale)
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.inputs.zeroize();
    }
}

impl ExactCells {
    pub(crate) fn new(plan: &ExactPlan, seeds: Seeds) -> Self {
        Self {
            strategy: plan.shared_strategy(),
            sampler: plan.sampler(),
            grid: plan.grid(),
            seeds,
            staged: Vec::new(),
            inputs: HashMap::new(),
            columns: HashMap::new(),
            kernel: None,
            reach: u128::try_from(plan.strategy().convolution_reach() * plan.lattice().magnitude())
                .unwrap_or(REACH - 1),
        }
    }

    /// Rounds the changes of a step, counted from 1, one for each coordinate, and keeps them for [`Self::take`].
    ///
    /// # Errors
    /// Changes outside the declared domain or, for encodings, off the grid. Nothing is kept then.
    pub(crate) fn stage(
        &mut self,
        plan: &ExactPlan,
        step: usize,
        touched: &[(u64, f64)],
        values: &[f64],
    ) -> Result<()> {
        self.wipe_staged();
        let mut units = vec![0; values.len()];
        let outcome = plan.lattice().round(step, values, &mut units);
        if outcome.is_ok() {
            self.staged
                .extend(touched.iter().zip(&units).map(|((coordinate, _), units)| (*coordinate, *units)));
        }
        units.zeroize();
        outcome
    }

    /// Takes the changes that were staged as those of a step, counted from 1.
    pub(crate) fn take(&mut self, step: usize) {
        for index in 0..self.staged.len() {
            let (coordinate, units) = self.staged[index];
            self.add(coordinate, step - 1, units);
        }
        self.wipe_staged();
    }

    fn wipe_staged(&mut self) {
        self.staged.iter_mut().for_each(Zeroize::zeroize);
        self.staged.clear();
    }

    /// Adds a saved input, whose steps must rise; whether it did.
    pub(crate) fn restore(&mut self, coordinate: u64, step: usize, units: i64) -> bool {
        let last = self.inputs.get(&coordinate).and_then(|Inputs(inputs)| inputs.last());
        let rises = last.is_none_or(|(last, _)| *last < step);
        if rises {
            self.add(coordinate, step, units);
        }
        rises
    }

    /// Adds to the input of a step, counted from 0, which must not be before the last one. The caller has checked the bounds.
    pub(crate) fn add(&mut self, coordinate: u64, step: usize, units: i64) {
        if units == 0 {
            return;
        }
        let Inputs(inputs) = self.inputs.entry(coordinate).or_default();
        match inputs.last_mut() {
            Some((last, sum)) if *last == step => *sum += units,
            _ => append(inputs, (step, units)),
        }
    }

    /// The release of a coordinate after so many steps.
    ///
    /// # Errors
    /// What the decoder refuses; never depends on data.
    pub(crate) fn ask(&mut self, coordinate: u64, steps: usize) -> Result<f64> {
        self.ask_each(coordinate, steps, &mut |_| {})
    }

    /// As [`Self::ask`], and hands over the release of every step since the last question.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn ask_each(
        &mut self,
        coordinate: u64,
        steps: usize,
        each: &mut dyn FnMut(f64),
    ) -> Result<f64> {
        let strategy = &self.strategy;
        let most_rows = most_rows(strategy);
        let column = match self.columns.entry(coordinate) {
            Entry::Occupied(column) => column.into_mut(),
            Entry::Vacant(place) => {
                let generator = ChaCha20Rng::from_seed(*self.seeds.seed(0).expose());
                let decoder = Decoder::new(strategy.clone(), 1, most_rows, Side::Output)?;
                let column = Column {
                    generator,
                    row: 0,
                    until: 0,
                    decoder,
                    step: 0,
                    current: 0.0,
                    measured: 0,
                    many: None,
                };
                place.insert(column)
            }
        };
        let inputs = self.inputs.get(&coordinate).map_or(&[][..], |Inputs(inputs)| inputs);
        if let Entries::Toeplitz { coefficients, .. } | Entries::Scaled { coefficients, .. } =
            &strategy.entries
            && inputs.len() > MANY
            && column.many.is_none()
        {
            let make = || Arc::new(Kernel::new(coefficients.clone(), self.reach));
            let kernel = self.kernel.get_or_insert_with(make).clone();
            let mut many = Many::new(kernel, strategy.steps());
            for step in 0..column.step {
                many.measure(strategy, inputs, step);
            }
            column.many = Some(many);
        }
        let mut measured = [0_i128; usize::BITS as usize];
        let mut output = [0.0];
        while column.step < steps {
            let first = column.row;
            let rows = match &mut column.many {
                Some(many) => {
                    measured[0] = many.measure(strategy, inputs, column.step);
                    1
                }
                None => measure(strategy, inputs, column.step, &mut measured),
            };
            for value in &mut measured[..rows] {
                *value += column.noise(&self.sampler, &self.seeds, coordinate);
            }
            column.decoder.push(first, &measured[..rows], &mut output)?;
            column.current = output[0] * self.grid;
            column.measured = measured[rows - 1];
            column.step += 1;
            each(column.current);
        }
        Ok(column.current)
    }

    /// The latest measurement of a coordinate after so many steps, in f64.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn measurement(&mut self, coordinate: u64, steps: usize) -> Result<f64> {
        self.ask(coordinate, steps)?;
        Ok(self.columns.get(&coordinate).map_or(0.0, |column| column.measured as f64))
    }

    /// Forgets which coordinates were asked for; their noise is made again when they are.
    pub(crate) fn forget_questions(&mut self) {
        self.columns.clear();
    }

    /// The inputs that are not zero of all coordinates, each with its step counted from 0.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = (u64, &[(usize, i64)])> {
        self.inputs.iter().map(|(coordinate, Inputs(inputs))| (*coordinate, inputs.as_slice()))
    }

    /// The coordinates that were asked for at this very step, with their latest measurements in f64: as public as the answers.
    pub(crate) fn witnesses(&self, steps: usize) -> impl Iterator<Item = (u64, f64)> {
        self.columns
            .iter()
            .filter(move |(_, column)| column.step == steps)
            .map(|(coordinate, column)| (*coordinate, column.measured as f64))
    }
}

impl Column {
    /// The noise of the next row.
    fn noise(&mut self, sampler: &Sampler, seeds: &Seeds, coordinate: u64) -> i128 {
        if self.row == self.until {
            let segment = seeds.segment_of(self.row);
            self.generator = ChaCha20Rng::from_seed(*seeds.seed(segment).expose());
            self.generator.set_stream(coordinate);
            self.generator.set_word_pos((self.row / CHUNK) as u128 * WORDS_PER_CHUNK);
            // A seed that takes over within a chunk starts it anew.
            self.until = ((self.row / CHUNK + 1) * CHUNK).min(seeds.end_of(segment));
        }
        self.row += 1;
        sampler.sample(&mut self.generator)
    }
}

/// The most rows that a step measures.
fn most_rows(strategy: &IntegerStrategy) -> usize {
    match &strategy.entries {
        Entries::AllNodes { .. } => tree::levels(strategy.steps()),
        Entries::WeightedNodes { nodes, .. } => nodes.levels(),
        _ => 1,
    }
}

/// The rows of `C̃x` that belong to a step, counted from 0, and their number. The plan has checked that no sum overflows.
pub(super) fn measure(
    strategy: &IntegerStrategy,
    inputs: &[(usize, i64)],
    step: usize,
    rows: &mut [i128],
) -> usize {
    let until = |step: usize| inputs.partition_point(|(past, _)| *past <= step);
    match &strategy.entries {
        Entries::Toeplitz { coefficients, .. } => {
            // Nothing reaches back beyond the last coefficient that is not zero.
            let from = (step + 1).saturating_sub(strategy.bands());
            let start = inputs.partition_point(|(past, _)| *past < from);
            rows[0] = inputs[start..until(step)]
                .iter()
                .map(|(past, value)| i128::from(coefficients[step - past]) * i128::from(*value))
                .sum();
            1
        }
        Entries::Scaled { rows: scales, coefficients, columns, .. } => {
            let from = (step + 1).saturating_sub(strategy.bands());
            let start = inputs.partition_point(|(past, _)| *past < from);
            let sum: i128 = inputs[start..until(step)]
                .iter()
                .map(|(past, value)| {
                    // One word: columns leave room for the inputs.
                    i128::from(coefficients[step - past]) * i128::from(columns[*past] * value)
                })
                .sum();
            rows[0] = sum * i128::from(scales[step]);
            1
        }
        Entries::LeftNodes { bits } | Entries::AllNodes { bits } => {
            let now = step + 1;
            let top = now.trailing_zeros() as usize;
            let lowest = if matches!(strategy.entries, Entries::AllNodes { .. }) { 0 } else { top };
            for (level, row) in (lowest..=top).zip(rows.iter_mut()) {
                let start = inputs.partition_point(|(past, _)| *past < now - (1 << level));
                let sum: i128 = inputs[start..until(step)].iter().map(|(_, value)| i128::from(*value)).sum();
                *row = sum << *bits;
            }
            top + 1 - lowest
        }
        Entries::WeightedNodes { nodes, bits } => {
            let mut count = 0;
            for (node, row) in nodes.measured_at(step).zip(rows.iter_mut()) {
                let start = inputs.partition_point(|(past, _)| *past < step + 1 - node.leaves);
                let sum: i128 = inputs[start..until(step)].iter().map(|(_, value)| i128::from(*value)).sum();
                *row = sum * (i128::from(node.weight) << (*bits - WeightedNodes::BITS));
                count += 1;
            }
            count
        }
        Entries::Dense { packed, .. } => {
            let row = &packed[step * (step + 1) / 2..][..=step];
            rows[0] = inputs[..until(step)]
                .iter()
                .map(|(past, value)| i128::from(row[*past]) * i128::from(*value))
                .sum();
            1
        }
    }
}
