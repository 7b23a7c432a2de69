//! The measurements `(C̃x)_t` in integers, while the inputs arrive: the only place where data is touched.

use std::sync::Arc;

use dp_linalg::tree;
use zeroize::Zeroize;

use super::convolution::OnlineConvolution;
use super::integer::{Entries, IntegerStrategy};
use super::transform::REACH;
use crate::strategy::weighted_tree::{WeightedNodes, WeightedPosition};

/// The state of the measured stream.
pub(super) struct Measure {
    strategy: Arc<IntegerStrategy>,
    dimension: usize,
    step: usize,
    /// Coordinate after coordinate, one input per step of the horizon.
    inputs: Vec<i64>,
    state: State,
}

enum State {
    /// Toeplitz matrices, scaled or not; `scaled` holds the inputs times their column scales, if there are any.
    Convolution { operator: Box<OnlineConvolution>, scaled: Vec<i64> },
    /// The sum of all inputs so far, and its latest value for each number of trailing zeros of the step.
    Nodes { sum: Vec<i128>, latest: Vec<i128> },
    /// Where the stream stands among weighted nodes, the rows of the latest step, and by level the sum below the open node.
    Weighted { position: WeightedPosition, latest_rows: usize, open: Vec<i128> },
    /// Sums over rows as they are.
    Rows,
}

impl Measure {
    /// Measures vectors whose coordinates are at most `magnitude`; the plan has checked that no sum overflows.
    pub(super) fn new(strategy: Arc<IntegerStrategy>, dimension: usize, magnitude: u64) -> Self {
        let steps = strategy.steps();
        let reach = u128::try_from(strategy.convolution_reach() * magnitude).unwrap_or(REACH - 1);
        let convolution = |coefficients: &Vec<i64>| {
            Box::new(OnlineConvolution::new(coefficients.clone(), dimension, reach))
        };
        let state = match &strategy.entries {
            Entries::Toeplitz { coefficients, .. } => {
                State::Convolution { operator: convolution(coefficients), scaled: Vec::new() }
            }
            Entries::Scaled { coefficients, .. } => {
                State::Convolution { operator: convolution(coefficients), scaled: vec![0; steps * dimension] }
            }
            Entries::LeftNodes { .. } | Entries::AllNodes { .. } => {
                State::Nodes { sum: vec![0; dimension], latest: vec![0; tree::levels(steps) * dimension] }
            }
            Entries::WeightedNodes { nodes, .. } => State::Weighted {
                position: nodes.position(),
                latest_rows: 0,
                open: vec![0; nodes.levels() * dimension],
            },
            Entries::Dense { .. } => State::Rows,
        };
        Self { dimension, step: 0, inputs: vec![0; steps * dimension], strategy, state }
    }

    /// The number of steps measured.
    #[cfg(test)]
    pub(super) fn step(&self) -> usize {
        self.step
    }

    /// The rows that the next step measures, `(first, number)`.
    pub(super) fn next_rows(&self) -> (usize, usize) {
        match (&self.strategy.entries, &self.state) {
            (Entries::AllNodes { .. }, _) => {
                (tree::complete_nodes(self.step), (self.step + 1).trailing_zeros() as usize + 1)
            }
            (_, State::Weighted { position, .. }) => (position.rows(), position.next_rows()),
            _ => (self.step, 1),
        }
    }

    /// The number of rows that the latest step measured.
    #[cfg(test)]
    pub(super) fn latest_rows(&self) -> usize {
        match (&self.strategy.entries, &self.state) {
            (Entries::AllNodes { .. }, _) => self.step.trailing_zeros() as usize + 1,
            (_, State::Weighted { latest_rows, .. }) => *latest_rows,
            _ => 1,
        }
    }

    /// The most rows that a step measures.
    pub(super) fn most_rows(&self) -> usize {
        match &self.strategy.entries {
            Entries::AllNodes { .. } => tree::levels(self.strategy.steps()),
            Entries::WeightedNodes { nodes, .. } => nodes.levels(),
            _ => 1,
        }
    }

    /// Takes the input of the next step and writes its measurements, row after row.
    pub(super) fn push(&mut self, input: &[i64], rows: &mut [i128]) {
        let steps = self.strategy.steps();
        let (step, dimension) = (self.step, self.dimension);
        for (history, input) in self.inputs.chunks_exact_mut(steps).zip(input) {
            history[step] = *input;
        }
        match (&mut self.state, &self.strategy.entries) {
            (State::Convolution { operator, scaled }, Entries::Scaled { rows: scales, columns, .. }) => {
                for (history, input) in scaled.chunks_exact_mut(steps).zip(input) {
                    history[step] = columns[step] * input;
                }
                operator.push(step, scaled, rows);
                rows.iter_mut().for_each(|row| *row *= i128::from(scales[step]));
            }
            (State::Convolution { operator, .. }, _) => operator.push(step, &self.inputs, rows),
            (State::Nodes { sum, latest }, Entries::LeftNodes { bits } | Entries::AllNodes { bits }) => {
                for (sum, input) in sum.iter_mut().zip(input) {
                    *sum += i128::from(*input);
                }
                let now = step + 1;
                let top = now.trailing_zeros() as usize;
                let lowest = if matches!(self.strategy.entries, Entries::AllNodes { .. }) { 0 } else { top };
                for (level, row) in (lowest..=top).zip(rows.chunks_exact_mut(dimension)) {
                    // The node is what came since the step where it starts; no later step has as many trailing zeros.
                    let start = now - (1 << level);
                    let before = (start > 0).then(|| start.trailing_zeros() as usize * dimension);
                    for (coordinate, value) in row.iter_mut().enumerate() {
                        let earlier = before.map_or(0, |first| latest[first + coordinate]);
                        *value = (sum[coordinate] - earlier) << *bits;
                    }
                }
                latest[top * dimension..][..dimension].copy_from_slice(sum);
            }
            (State::Weighted { position, latest_rows, open }, Entries::WeightedNodes { bits, .. }) => {
                for level in open.chunks_exact_mut(dimension) {
                    for (sum, input) in level.iter_mut().zip(input) {
                        *sum += i128::from(*input);
                    }
                }
                let mut rows = rows.chunks_exact_mut(dimension);
                *latest_rows = 0;
                for node in position.next() {
                    let sums = &mut open[node.level * dimension..][..dimension];
                    if node.weight > 0
                        && let Some(row) = rows.next()
                    {
                        *latest_rows += 1;
                        let weight = i128::from(node.weight) << (*bits - WeightedNodes::BITS);
                        for (value, sum) in row.iter_mut().zip(&*sums) {
                            *value = weight * sum;
                        }
                    }
                    sums.fill(0);
                }
                position.advance();
            }
            (_, Entries::Dense { packed, .. }) => {
                let row = &packed[step * (step + 1) / 2..][..=step];
                for (value, history) in rows.iter_mut().zip(self.inputs.chunks_exact(steps)) {
                    *value = row.iter().zip(history).map(|(c, x)| i128::from(*c) * i128::from(*x)).sum();
                }
            }
            // `new` pairs states and entries.
            (State::Nodes { .. } | State::Weighted { .. } | State::Rows, _) => {}
        }
        self.step += 1;
    }

    /// All inputs so far, step after step.
    pub(super) fn history(&self) -> Vec<i64> {
        let steps = self.strategy.steps();
        let mut values = Vec::with_capacity(self.step * self.dimension);
        for step in 0..self.step {
            values.extend(self.inputs.iter().skip(step).step_by(steps));
        }
        values
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        self.inputs.zeroize();
        match &mut self.state {
            State::Convolution { scaled, .. } => scaled.zeroize(),
            State::Nodes { sum, latest } => {
                sum.zeroize();
                latest.zeroize();
            }
            State::Weighted { open, .. } => open.zeroize(),
            State::Rows => {}
        }
    }
}
