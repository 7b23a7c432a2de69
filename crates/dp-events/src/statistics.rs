//! From noisy cells to the numbers that are published: post-processing, one step after the other.

use dp_mechanisms::workload::WorkloadStream;
use serde::{Deserialize, Serialize};

use crate::encoding::Measure;
use crate::plan::Planned;
use crate::spec::Statistic;

/// A published number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The number.
    pub value: f64,
    /// Its standard deviation; for a mean or quantile, a quarter of the band, more or less.
    pub standard_deviation: f64,
    /// The lower end of its 95 % band.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Makes the numbers of some keys of a release out of their noisy cells.
pub(crate) struct Statistics {
    streams: Vec<WorkloadStream>,
    /// What each stream gave at the current step.
    outputs: Vec<Vec<f64>>,
    /// What the order of values asks for, by statistic.
    orders: Vec<Order>,
    nodes: Vec<f64>,
    scratch: Vec<f64>,
    keys: usize,
    step: usize,
}

/// What a statistic of the order of values asks for.
#[derive(Clone, Copy, Default)]
struct Order {
    /// The standard deviation of a number of rows for unit noise: in a range, or the largest up to a value.
    deviation: f64,
    /// The leaves of a range.
    leaves: (usize, usize),
}

impl Statistics {
    pub(crate) fn new(planned: &Planned, keys: usize) -> dp_mechanisms::Result<Self> {
        let (steps, dimension) = (planned.plan.steps(), keys * planned.encoding.width());
        let streams = planned.statistics.iter().map(|one| one.workload()?.stream(steps, dimension));
        let streams = streams.collect::<dp_mechanisms::Result<Vec<_>>>()?;
        let orders =
            planned.statistics.iter().map(|statistic| match (statistic, &planned.encoding.measure) {
                (Statistic::Quantile(part), Measure::Values(tree)) => {
                    Order { deviation: tree.largest_variance(*part).sqrt(), leaves: (0, 0) }
                }
                (Statistic::Range(low, high), Measure::Values(tree)) => {
                    let leaves = planned.encoding.leaves(*low, *high);
                    Order { deviation: tree.range_variance(leaves.0, leaves.1).sqrt(), leaves }
                }
                _ => Order::default(),
            });
        Ok(Self {
            outputs: vec![vec![0.0; dimension]; streams.len()],
            streams,
            orders: orders.collect(),
            nodes: Vec::new(),
            scratch: Vec::new(),
            keys,
            step: 0,
        })
    }

    /// What goes on from step to step, stream after stream: it follows from what was measured.
    pub(crate) fn state(&self) -> Vec<Vec<f64>> {
        self.streams.iter().map(WorkloadStream::state).collect()
    }

    /// Continues after so many steps.
    pub(crate) fn restore(&mut self, step: usize, saved: &[Vec<f64>]) -> dp_mechanisms::Result<()> {
        if saved.len() != self.streams.len() {
            let (expected, actual) = (self.streams.len(), saved.len());
            return Err(dp_mechanisms::Error::Dimension { what: "the saved statistics", expected, actual });
        }
        self.step = step;
        self.streams.iter_mut().zip(saved).try_for_each(|(stream, saved)| stream.restore(step, saved))
    }

    /// Takes the noisy cells of the next step and appends its numbers, by key and then by statistic.
    pub(crate) fn push(
        &mut self,
        planned: &Planned,
        cells: &[f64],
        numbers: &mut Vec<Number>,
    ) -> dp_mechanisms::Result<()> {
        for (stream, output) in self.streams.iter_mut().zip(&mut self.outputs) {
            stream.push(cells, output)?;
        }
        let width = planned.encoding.width();
        for key in 0..self.keys {
            for (index, statistic) in planned.statistics.iter().enumerate() {
                let deviation = planned.cell_deviation(index, self.step);
                let cells = &self.outputs[index][key * width..(key + 1) * width];
                let (nodes, scratch) = (&mut self.nodes, &mut self.scratch);
                let order = self.orders[index];
                numbers.push(number(planned, *statistic, cells, deviation, order, nodes, scratch));
            }
        }
        self.step += 1;
        Ok(())
    }
}

/// One number from the cells of its key.
fn number(
    planned: &Planned,
    statistic: Statistic,
    cells: &[f64],
    deviation: f64,
    order: Order,
    nodes: &mut Vec<f64>,
    scratch: &mut Vec<f64>,
) -> Number {
    let (unit, band) = (planned.encoding.resolution(), planned.band());
    let (low, high) = planned.encoding.bounds().map_or((0.0, 0.0), |(low, high)| (low as f64, high as f64));
    match (&planned.encoding.measure, statistic) {
        (Measure::Mean { centre, half }, Statistic::Mean) => {
            let (centre, half) = (*centre as f64, *half as f64);
            ratio(cells[0], cells[1] / half, deviation, deviation / half, band)
                .shifted(centre)
                .within(low, high, band)
                .scaled(unit)
        }
        (Measure::Mean { centre, half }, _) => {
            let share = *centre as f64 / *half as f64;
            let sum = cells[0] + share * cells[1];
            linear(sum, deviation * libm::sqrt(1.0 + share * share), band).scaled(unit)
        }
        (Measure::Values(tree), Statistic::Range(..)) => {
            nodes.clear();
            nodes.extend_from_slice(cells);
            tree.least_squares(nodes, scratch);
            let rows: f64 = nodes[order.leaves.0..order.leaves.1].iter().sum();
            let mut number = linear(rows, order.deviation * deviation, band);
            number.value = number.value.round();
            number
        }
        (Measure::Values(tree), Statistic::Quantile(part)) => {
            nodes.clear();
            nodes.extend_from_slice(cells);
            let margin = band * order.deviation * deviation;
            let [found, from, to] = tree.quantile(nodes, scratch, part, margin).map(|leaf| leaf as f64);
            let standard_deviation = (to - from) / (2.0 * band);
            Number { value: found, standard_deviation, low: from, high: to }.shifted(low).scaled(unit)
        }
        _ => {
            let mut number = linear(cells[0], deviation, band);
            if statistic.is_whole() {
                number.value = number.value.round();
            }
            number.scaled(unit)
        }
    }
}

fn linear(value: f64, standard_deviation: f64, band: f64) -> Number {
    let margin = band * standard_deviation;
    Number { value, standard_deviation, low: value - margin, high: value + margin }
}

/// The ratio of two values with independent Gaussian noise, with Fieller's band: all m for which `sum - m·count` is within
/// its own band of zero. Where that is not an interval, every m is.
fn ratio(sum: f64, count: f64, sum_deviation: f64, count_deviation: f64, band: f64) -> Number {
    let squared = band * band;
    let a = count * count - squared * count_deviation * count_deviation;
    let b = sum * count;
    let c = sum * sum - squared * sum_deviation * sum_deviation;
    let root = (b * b - a * c).max(0.0).sqrt();
    let value = if count > 0.0 { sum / count } else { 0.0 };
    let (low, high) = if a > 0.0 && count > 0.0 {
        ((b - root) / a, (b + root) / a)
    } else {
        (f64::NEG_INFINITY, f64::INFINITY)
    };
    Number { value, standard_deviation: 0.0, low, high }
}

impl Number {
    fn shifted(self, by: f64) -> Self {
        Self { value: self.value + by, low: self.low + by, high: self.high + by, ..self }
    }

    fn scaled(self, unit: f64) -> Self {
        Self {
            value: self.value * unit,
            standard_deviation: self.standard_deviation * unit,
            low: self.low * unit,
            high: self.high * unit,
        }
    }

    /// Cut to where the true value must lie; the deviation is that of the band that is left.
    fn within(self, low: f64, high: f64, band: f64) -> Self {
        let (from, to) = (self.low.clamp(low, high), self.high.clamp(low, high));
        Self {
            value: self.value.clamp(low, high),
            standard_deviation: (to - from) / (2.0 * band),
            low: from,
            high: to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAND: f64 = 1.959_963_984_540_054;

    #[test]
    fn ratios_have_the_band_of_fieller() {
        // By hand: 100 ± 1·z over 50 ± 0.
        let plain = ratio(100.0, 50.0, 1.0, 0.0, BAND);
        assert!((plain.value - 2.0).abs() < 1e-15);
        assert!((plain.low - (100.0 - BAND) / 50.0).abs() < 1e-12);
        assert!((plain.high - (100.0 + BAND) / 50.0).abs() < 1e-12);
        // Both ends satisfy the equation that defines them.
        let both = ratio(120.0, 40.0, 3.0, 2.0, BAND);
        for end in [both.low, both.high] {
            let distance = (120.0 - end * 40.0).abs() / (9.0 + end * end * 4.0_f64).sqrt();
            assert!((distance - BAND).abs() < 1e-9, "{distance}");
        }
        let unknown = ratio(5.0, 1.0, 3.0, 2.0, BAND).within(-1.0, 4.0, BAND);
        assert_eq!((unknown.low, unknown.high), (-1.0, 4.0));
        assert_eq!(ratio(5.0, -1.0, 3.0, 2.0, BAND).within(-1.0, 4.0, BAND).value, 0.0);
    }
}
