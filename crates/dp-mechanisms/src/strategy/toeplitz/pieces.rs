//! The diagonals of `C = D1 · T · D2` over very long horizons, without a table: D1 in pieces of geometric sequences.
//!
//! Time is cut into pieces that are short against the distance to either end, a few hundred of them for any horizon. Within a
//! piece `d_t² = E g^{t-a}`, and with a rational core everything that the strategy needs has a closed form:
//!
//! - The sums `R_il(j) = Σ_{t≥j} d_t² (θ_i θ_l)^{t-j}` behind the column norms are geometric within a piece. They are kept at the
//!   beginning of each one; from there any column norm takes O(k²), and a block of them the recursion of
//!   [`covariance`](super::covariance).
//! - In units of `1/d_t` the state space of the noise does not change within a piece, if the column norms are geometric there
//!   as well (nearly: they are interpolated, for the report of errors alone). The covariance then leaps over L steps by
//!   `log2 L` squarings of O(k²) each.

use dp_linalg::rational::Rational;

use super::covariance::{Pair, Recursion, nothing_cancels, pairs};
use super::{CLOSED_FORM_MARGIN, Scaling};
use crate::error::{Error, Result};
use crate::strategy::{Coefficients, RowNorms};
use crate::workload::{Recurrence, Workload};

/// The length of a piece in the logit of time.
const LENGTH: f64 = 0.1;

/// The same where rows are fitted.
const ROUGH: f64 = 0.3;

/// The parts of a piece within each of which the column norms are taken to be geometric, for the report of errors.
const PARTS: usize = 12;

/// Larger logarithms of rows than this, whose squares come near the limits of f64, are left to others to refuse.
const LARGEST_LOG: f64 = 300.0;

/// A part of `e^{-40}` is nothing.
const FORGOTTEN: f64 = 40.0;

/// The steps whose diagonals are computed together.
pub(super) const BLOCK: usize = 1024;

/// Both diagonals of a normalized strategy with a rational core.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pieces {
    steps: usize,
    parts: Vec<Piece>,
    pairs: Vec<Pair>,
    /// The largest `ln d_t`.
    highest: f64,
    /// `R_il` at the start of every piece and past the last, where it is 0.
    sums: Vec<Vec<f64>>,
}

/// Steps from `start` on in which `ln d_t` is linear in t.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    start: usize,
    log_row: f64,
    slope: f64,
}

/// The diagonals of a block of steps, and what it takes to compute them.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) scaling: Scaling,
    recursion: Recursion,
}

impl Default for Block {
    fn default() -> Self {
        let empty = || Vec::with_capacity(BLOCK);
        Self { scaling: Scaling { rows: empty(), column_norms: empty() }, recursion: Recursion::default() }
    }
}

impl Pieces {
    /// The diagonal of D1 by its logarithm, and D2 such that every column has norm at most 1; nothing for a core whose
    /// coefficients may cancel, or rows that are not finite.
    ///
    /// # Privacy
    /// The norms are sums of positive terms, each with a relative error of less than 1e-12; more than that is added.
    ///
    /// **Complexity** O(k² log n).
    pub(super) fn new(core: &Rational, log_row: impl Fn(usize) -> f64, steps: usize) -> Option<Self> {
        Self::of_length(LENGTH, core, log_row, steps)
    }

    /// [`Pieces::new`] with pieces of another length in the logit of time: a fit is content with few of them.
    fn of_length(length: f64, core: &Rational, log_row: impl Fn(usize) -> f64, steps: usize) -> Option<Self> {
        if !nothing_cancels(core) {
            return None;
        }
        let starts = starts(steps, length);
        let logs: Vec<f64> = starts.iter().map(|&start| log_row(start)).collect();
        if !logs.iter().all(|log| log.abs() < LARGEST_LOG) {
            return None;
        }
        let slope = |index: usize| match (starts.get(index + 1), logs.get(index + 1)) {
            (Some(next), Some(log)) => (log - logs[index]) / (next - starts[index]) as f64,
            _ => 0.0,
        };
        let pieces: Vec<Piece> = (0..starts.len())
            .map(|index| Piece { start: starts[index], log_row: logs[index], slope: slope(index) })
            .collect();
        let pairs = pairs(core);
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sums = vec![vec![0.0; pairs.len()]; pieces.len() + 1];
        let mut this = Self { steps, parts: pieces, pairs, highest, sums };
        for index in (0..this.parts.len()).rev() {
            let start = this.parts[index].start;
            this.sums[index] = (0..this.pairs.len()).map(|pair| this.sum_at(index, start, pair)).collect();
        }
        Some(this)
    }

    /// Adds the numbers that both diagonals are made of.
    pub(super) fn save(&self, saved: Coefficients) -> Coefficients {
        let pieces = self.parts.iter().flat_map(|piece| [piece.start as f64, piece.log_row, piece.slope]);
        saved
            .with("pieces", pieces.collect::<Vec<f64>>())
            .with("highest", [self.highest])
            .with("logarithms", self.pairs.iter().map(|pair| pair.log_decay).collect::<Vec<f64>>())
            .with("sums", self.sums.concat())
    }

    /// Reads what [`Pieces::save`] added, if it did.
    ///
    /// # Errors
    /// [`Error::State`] for lists that are missing or of another length.
    pub(super) fn of_coefficients(
        core: &Rational,
        steps: usize,
        saved: &Coefficients,
    ) -> Result<Option<Self>> {
        let Some(numbers) = saved.get("pieces") else { return Ok(None) };
        let piece =
            |numbers: &[f64]| Piece { start: numbers[0] as usize, log_row: numbers[1], slope: numbers[2] };
        let parts: Vec<Piece> = numbers.chunks_exact(3).map(piece).collect();
        let rising = parts.windows(2).all(|pair| pair[0].start < pair[1].start);
        if !(rising && parts.first().is_some_and(|first| first.start == 0))
            || parts.last().is_some_and(|last| last.start >= steps)
        {
            return Err(Error::State { reason: "the pieces of its rows are out of order".to_owned() });
        }
        let mut pairs = pairs(core);
        let logarithms = saved.list_of("logarithms", pairs.len())?;
        for (pair, log) in pairs.iter_mut().zip(logarithms) {
            pair.log_decay = log;
        }
        let sums = saved.list_of("sums", (parts.len() + 1) * pairs.len())?;
        let sums = sums.chunks_exact(pairs.len()).map(<[f64]>::to_vec).collect();
        Ok(Some(Self { steps, parts, pairs, highest: saved.number("highest")?, sums }))
    }

    /// The number of values kept.
    pub(super) fn memory(&self) -> usize {
        3 * self.parts.len() + self.sums.len() * self.pairs.len()
    }

    fn end(&self, piece: usize) -> usize {
        self.parts.get(piece + 1).map_or(self.steps, |next| next.start)
    }

    /// The piece that a step belongs to.
    fn piece_of(&self, step: usize) -> usize {
        self.parts.partition_point(|piece| piece.start <= step) - 1
    }

    /// `R_il(step)` for a step of a piece or its end, from the sum at its end.
    fn sum_at(&self, piece: usize, step: usize, pair: usize) -> f64 {
        let after = self.sums[piece + 1][pair];
        let length = (self.end(piece) - step) as f64;
        if length == 0.0 {
            return after;
        }
        let log = self.pairs[pair].log_decay;
        let ratio = 2.0 * self.parts[piece].slope + log;
        let within = if ratio == 0.0 { length } else { (length * ratio).exp_m1() / ratio.exp_m1() };
        (2.0 * self.log_row(piece, step)).exp() * within + (length * log).exp() * after
    }

    /// Writes both diagonals of a block of steps.
    ///
    /// A pair that forgets within the rest of the piece is in proportion to the row by then: it takes no recursion.
    ///
    /// **Complexity** O(1) a step for each pair that remembers longer.
    pub(super) fn block(&self, index: usize, block: &mut Block) {
        let (from, to) = (index * BLOCK, ((index + 1) * BLOCK).min(self.steps));
        let Block { scaling: Scaling { rows, column_norms }, recursion } = block;
        let (first, last) = (self.piece_of(from), self.piece_of(to - 1));
        rows.clear();
        if first == last {
            let ratio = self.parts[first].slope.exp();
            let row = self.log_row(first, from).exp();
            rows.extend(std::iter::successors(Some(row), |row| Some(row * ratio)).take(to - from));
        } else {
            let mut piece = first;
            rows.extend((from..to).map(|step| {
                if step == self.end(piece) {
                    piece += 1;
                }
                self.log_row(piece, step).exp()
            }));
        }
        // However much larger later rows are, what is left of them must be nothing beside those of this block.
        let lowest = self.log_row(first, from).min(self.log_row(last, to - 1));
        let forgotten = FORGOTTEN + 2.0 * (self.highest - lowest);
        let growth = 2.0 * self.parts[last].slope;
        let left = (self.end(last) - to) as f64;
        let (mut factor, next) = (1.0, growth.exp());
        recursion.clear();
        for (index, pair) in self.pairs.iter().enumerate() {
            let ratio = growth + pair.log_decay;
            if first == last && left * ratio.max(pair.log_decay) < -forgotten {
                factor += pair.weight * next / -ratio.exp_m1();
            } else {
                recursion.push(*pair, self.sum_at(last, to, index));
            }
        }
        column_norms.clear();
        column_norms.resize(to - from, 0.0);
        recursion.norms(factor, rows, CLOSED_FORM_MARGIN, column_norms);
    }

    /// Both diagonals as tables.
    pub(super) fn tables(&self) -> Scaling {
        let mut block = Block::default();
        let mut whole = Scaling { rows: Vec::new(), column_norms: Vec::new() };
        for index in 0..self.steps.div_ceil(BLOCK) {
            self.block(index, &mut block);
            whole.rows.extend(&block.scaling.rows);
            whole.column_norms.extend(&block.scaling.column_norms);
        }
        whole
    }

    /// `ln d_t` for a step of a piece.
    fn log_row(&self, piece: usize, step: usize) -> f64 {
        let Piece { start, log_row, slope } = self.parts[piece];
        log_row + slope * (step - start) as f64
    }

    /// The logarithm of the norm of a column.
    fn log_norm(&self, column: usize) -> f64 {
        let piece = self.piece_of(column);
        let energy = (2.0 * self.log_row(piece, column)).exp();
        let sums = self
            .pairs
            .iter()
            .enumerate()
            .map(|(index, pair)| pair.weight * self.sum_at(piece, column + 1, index));
        0.5 * (energy + sums.sum::<f64>()).ln()
    }

    /// The squared row norms of `B = A D2⁻¹ T⁻¹ D1⁻¹`, given the inverse of the core, for a workload that
    /// [`leaps`](super::covariance::leaps): those at the ends of the pieces and of their parts, and a curve between.
    ///
    /// **Complexity** O(k² log² n).
    pub(super) fn row_norms(&self, workload: &Workload, inverse: &Rational) -> RowNorms {
        let (rows, squared) = self.some_row_norms(workload, inverse, PARTS);
        RowNorms::interpolated(&rows, &squared, &[], self.steps)
    }

    /// The squared row norms at the ends of so many parts of every piece, and these rows.
    fn some_row_norms(
        &self,
        workload: &Workload,
        inverse: &Rational,
        parts: usize,
    ) -> (Vec<usize>, Vec<f64>) {
        let readout = Carries::of(workload);
        let mut covariance = Covariance::new(inverse.buffers(), readout.outputs());
        let (mut rows, mut squared) = (Vec::new(), Vec::new());
        let mut log_norm = self.log_norm(0);
        for (index, piece) in self.parts.iter().enumerate() {
            let length = self.end(index) - piece.start;
            let mut from = piece.start;
            for to in (1..=parts).map(|part| piece.start + length * part / parts) {
                if to == from {
                    continue;
                }
                // The last step of all is in the units of its own beginning.
                let next = if to < self.steps { self.log_norm(to) } else { log_norm };
                let growth = (next - log_norm) / (to - from) as f64;
                covariance.leap(Transition::new(inverse, piece.slope, growth, readout), to - from);
                (log_norm, from) = (next, to);
                let units = 2.0 * (log_norm - self.log_row(index, to));
                let time = workload.divisor(to - 1);
                rows.push(to - 1);
                squared.push(covariance.release() * units.exp() / (time * time));
            }
        }
        (rows, squared)
    }
}

/// Some of the squared row norms of [`Pieces::row_norms`], roughly, each with the number of steps that it stands for; nothing where
/// there are no pieces.
///
/// **Complexity** O(k² log² n), a small part of that of all of them.
pub(crate) fn rough_row_norms(
    workload: &Workload,
    core: &Rational,
    inverse: &Rational,
    log_row: impl Fn(usize) -> f64,
    steps: usize,
) -> Option<Vec<(f64, f64)>> {
    let pieces = Pieces::of_length(ROUGH, core, log_row, steps)?;
    let (rows, squared) = pieces.some_row_norms(workload, inverse, 1);
    let before = std::iter::once(0).chain(rows.iter().map(|row| row + 1));
    let lengths = before.zip(&rows).map(|(start, row)| (row + 1 - start) as f64);
    Some(squared.into_iter().zip(lengths).collect())
}

/// The first steps of pieces of `length`: all steps near both ends, evenly spread in the logit of time between; the last
/// step is a piece of its own.
pub(crate) fn starts(steps: usize, length: f64) -> Vec<usize> {
    let range = (2.0 * steps as f64).ln();
    let count = (2.0 * range / length).ceil() as usize;
    let mut starts: Vec<usize> = (0..=count)
        .map(|index| {
            let x = range * (2.0 * index as f64 / count as f64 - 1.0);
            ((steps as f64 / (1.0 + (-x).exp())) as usize).min(steps - 1)
        })
        .chain([0, steps - 1])
        .collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// What a release remembers of those before it.
#[derive(Clone, Copy)]
enum Carries {
    /// A part of the last one.
    One(f64),
    /// A momentum, and the sum of all momenta times the rate.
    Momentum { beta: f64, rate: f64 },
}

impl Carries {
    /// Of a workload that [`leaps`](super::covariance::leaps).
    fn of(workload: &Workload) -> Self {
        match workload.recurrence() {
            Recurrence::First { decay } => Self::One(decay),
            Recurrence::Second { beta } => Self::Momentum { beta, rate: workload.rate(0) },
            Recurrence::Window { .. } | Recurrence::None => Self::One(1.0),
        }
    }

    /// The states beside those of the noise, the release last.
    fn outputs(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Momentum { .. } => 2,
        }
    }
}

/// One step of `(v, outputs)` within a piece, or several at once: `v_i ← f_i v_i + noise`, `output ← Σ_i r_i v_i + Σ c · outputs +
/// noise`, where the noise has a covariance of its own. The outputs are the release, behind a momentum if there is one.
#[derive(Clone)]
struct Transition {
    poles: Vec<f64>,
    /// A row for each output.
    reads: Vec<Vec<f64>>,
    /// What an output takes from itself and from the one before it.
    carries: Vec<[f64; 2]>,
    /// The covariance of what is added, the release last.
    noise: Covariance,
}

impl Transition {
    /// One step: v in units of `1/d_t`, the outputs in units of `n_t/d_t`.
    fn new(inverse: &Rational, slope: f64, growth: f64, readout: Carries) -> Self {
        let (state, release) = (slope.exp(), (slope - growth).exp());
        let (gains, carries) = match readout {
            Carries::One(decay) => (vec![release], vec![[release * decay, 0.0]]),
            Carries::Momentum { beta, rate } => {
                let both = vec![[release * beta, 0.0], [release, release * rate * beta]];
                (vec![release, release * rate], both)
            }
        };
        let mut noise = Covariance::new(inverse.buffers(), gains.len());
        let added = |index: usize| match index.checked_sub(inverse.buffers()) {
            Some(output) => gains[output],
            None => state,
        };
        for i in 0..noise.size {
            for l in 0..noise.size {
                noise.entries[i * noise.size + l] = added(i) * added(l);
            }
        }
        Self {
            poles: inverse.theta().iter().map(|theta| state * theta).collect(),
            reads: gains
                .iter()
                .map(|gain| inverse.omega().iter().map(|omega| gain * omega).collect())
                .collect(),
            carries,
            noise,
        }
    }

    /// Twice as many steps.
    fn double(&mut self) {
        let mut noise = self.noise.clone();
        noise.step(self);
        self.noise = noise;
        // From the last output on: each needs the one before it as it was.
        for output in (0..self.reads.len()).rev() {
            let (before, rest) = self.reads.split_at_mut(output);
            let [own, other] = self.carries[output];
            for (index, (read, pole)) in rest[0].iter_mut().zip(&self.poles).enumerate() {
                *read *= *pole + own;
                if let Some(before) = before.last() {
                    *read += other * before[index];
                }
            }
            let first = output.checked_sub(1).map_or(0.0, |before| self.carries[before][0]);
            self.carries[output] = [own * own, other * (own + first)];
        }
        self.poles.iter_mut().for_each(|pole| *pole *= *pole);
    }
}

/// A symmetric matrix over k states and the outputs.
#[derive(Clone)]
struct Covariance {
    size: usize,
    outputs: usize,
    entries: Vec<f64>,
}

impl Covariance {
    fn new(buffers: usize, outputs: usize) -> Self {
        let size = buffers + outputs;
        Self { size, outputs, entries: vec![0.0; size * size] }
    }

    fn release(&self) -> f64 {
        self.entries[self.entries.len() - 1]
    }

    /// `P ← F P Fᵀ + Q`.
    fn step(&mut self, transition: &Transition) {
        let (size, states) = (self.size, self.size - self.outputs);
        let at = |i: usize, l: usize| i * size + l;
        let Transition { poles, reads, carries, noise } = transition;
        // Covariances of the next outputs with the present states, then with the next ones.
        let mut crossed = vec![vec![0.0; size]; self.outputs];
        for (output, crossed) in crossed.iter_mut().enumerate() {
            let [own, other] = carries[output];
            let here = states + output;
            for (l, cross) in crossed.iter_mut().enumerate() {
                let read: f64 =
                    reads[output].iter().enumerate().map(|(i, read)| read * self.entries[at(i, l)]).sum();
                *cross = read + own * self.entries[at(here, l)];
                if output > 0 {
                    *cross += other * self.entries[at(here - 1, l)];
                }
            }
        }
        for (output, crossed) in crossed.iter().enumerate() {
            for partner in 0..=output {
                let read: f64 = reads[partner].iter().zip(crossed).map(|(read, cross)| read * cross).sum();
                let [own, other] = carries[partner];
                let mut both = read + own * crossed[states + partner];
                if partner > 0 {
                    both += other * crossed[states + partner - 1];
                }
                self.entries[at(states + output, states + partner)] = both;
                self.entries[at(states + partner, states + output)] = both;
            }
        }
        for i in 0..states {
            for l in 0..states {
                self.entries[at(i, l)] *= poles[i] * poles[l];
            }
            for (output, crossed) in crossed.iter().enumerate() {
                let cross = poles[i] * crossed[i];
                self.entries[at(i, states + output)] = cross;
                self.entries[at(states + output, i)] = cross;
            }
        }
        for (entry, added) in self.entries.iter_mut().zip(&noise.entries) {
            *entry += added;
        }
    }

    /// As many steps as given.
    fn leap(&mut self, mut transition: Transition, steps: usize) {
        let mut rest = steps;
        loop {
            if rest & 1 == 1 {
                self.step(&transition);
            }
            rest >>= 1;
            if rest == 0 {
                return;
            }
            transition.double();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use crate::strategy::toeplitz::{column_norms, for_each_row_norm};
    use crate::strategy::{blt, unwatched};
    use approx::assert_relative_eq;

    fn log_row(step: usize, steps: usize) -> f64 {
        let time = (step as f64 + 0.5) / steps as f64;
        0.3 * time.ln() + 0.2 * (1.0 - time).ln() + 0.02 * time.ln().powi(2)
    }

    fn pieces(workload: &Workload, steps: usize) -> (Rational, Pieces) {
        let problem = Problem::new(workload.clone(), 2 * steps).unwrap();
        let core = blt::fit(&problem, 5, &mut unwatched).unwrap();
        let pieces = Pieces::new(&core, |step| log_row(step, steps), steps).unwrap();
        (core, pieces)
    }

    #[test]
    fn column_norms_are_those_of_the_recursion_and_never_below() {
        // The longest has whole blocks within a piece.
        for steps in [2, 17, BLOCK, BLOCK + 1, 20_000, 400_000] {
            let (core, pieces) = pieces(&Workload::count(), steps);
            let Scaling { rows, column_norms: norms } = pieces.tables();
            assert_eq!((rows.len(), norms.len()), (steps, steps));
            for (step, row) in rows.iter().enumerate() {
                assert!((row.ln() - log_row(step, steps)).abs() < 2e-3, "{steps} {step}");
            }
            let recursion = column_norms(&core, &rows);
            for (step, (norm, expected)) in norms.iter().zip(&recursion).enumerate() {
                let ratio = norm / expected;
                assert!((1.0 - 5e-10..1.0 + 1e-10).contains(&ratio), "{steps} {step}: {ratio}");
            }
            let coefficients = core.coefficients(steps);
            for step in (0..steps).step_by(steps / 97 + 1).chain([steps - 1]) {
                let column: Vec<f64> =
                    coefficients.iter().zip(&rows[step..]).map(|(c, row)| c * row).collect();
                let squared = dp_linalg::norms::round_up_sum_of_squares(&column);
                assert!(norms[step] * norms[step] >= squared, "{steps} {step}");
            }
        }
    }

    #[test]
    fn rows_that_grow_by_many_orders_of_magnitude_are_not_forgotten() {
        let steps = 400_000;
        // One pole forgets within a piece, but not by as much as the rows of the next one grow.
        let core = Rational::new(vec![0.997, 0.9], vec![0.01, 0.2]).unwrap();
        // From 1 to 10^34 in the middle, and back.
        for direction in [1.0, -1.0] {
            let log_row = |step: usize| if step < steps / 2 { 0.0 } else { direction * 80.0 };
            let pieces = Pieces::new(&core, log_row, steps).unwrap();
            let Scaling { rows, column_norms: norms } = pieces.tables();
            for (norm, expected) in norms.iter().zip(&column_norms(&core, &rows)) {
                let ratio = norm / expected;
                assert!((1.0 - 5e-10..1.0 + 1e-10).contains(&ratio), "{direction}: {ratio}");
            }
        }
    }

    #[test]
    fn row_norms_are_those_of_the_recursion() {
        let steps = 30_000;
        let workloads = ["count", "average", "exp:1.001", "momentum:0.9", "momentum:0.999"]
            .map(|text| text.parse().unwrap())
            .into_iter()
            .chain([Workload::momentum(0.5, &[0.3]).unwrap()]);
        for workload in workloads {
            let text = workload.to_string();
            let (core, pieces) = pieces(&workload, steps);
            let inverse = core.inverse().unwrap();
            let Scaling { rows, column_norms } = pieces.tables();
            let mut every = Vec::new();
            for_each_row_norm(&workload, &inverse, &rows, &column_norms, |norm| every.push(norm));
            let every = RowNorms::exact(every);
            let leaps = pieces.row_norms(&workload, &inverse);
            assert!(!leaps.is_exact());
            // Two sums follow geometric column norms less closely than one.
            let (whole, each) = if text.starts_with("momentum") { (1e-4, 1e-3) } else { (3e-5, 1e-4) };
            assert_relative_eq!(leaps.mean(), every.mean(), max_relative = whole);
            assert_relative_eq!(leaps.max(), every.max(), max_relative = whole);
            for (row, (leap, expected)) in leaps.iter().zip(every.iter()).enumerate() {
                assert!((leap / expected - 1.0).abs() < each, "{text} {row}: {leap} {expected}");
            }
        }
    }

    #[test]
    fn many_steps_at_once_are_as_many_one_by_one() {
        let problem = Problem::new(Workload::count(), 100).unwrap();
        let core = blt::fit(&problem, 3, &mut unwatched).unwrap();
        for readout in [Carries::One(0.98), Carries::Momentum { beta: 0.9, rate: 0.3 }] {
            let transition = Transition::new(&core.inverse().unwrap(), 0.01, -0.003, readout);
            let empty = Covariance::new(core.buffers(), readout.outputs());
            let mut one_by_one = empty.clone();
            for steps in 1..40 {
                one_by_one.step(&transition);
                let mut leap = empty.clone();
                leap.leap(transition.clone(), steps);
                for (a, b) in leap.entries.iter().zip(&one_by_one.entries) {
                    assert_relative_eq!(a, b, max_relative = 1e-12);
                }
            }
        }
    }

    #[test]
    fn cores_that_may_cancel_and_rows_that_are_not_finite_have_no_pieces() {
        let core = Rational::new(vec![0.9, 0.5], vec![0.4, -0.3]).unwrap();
        assert!(Pieces::new(&core, |_| 0.0, 1000).is_none());
        let core = Rational::new(vec![0.9, 0.5], vec![0.4, 0.3]).unwrap();
        assert!(Pieces::new(&core, |_| 0.0, 1000).is_some());
        assert!(Pieces::new(&core, |step| if step == 0 { f64::NAN } else { 0.0 }, 1000).is_none());
    }
}
