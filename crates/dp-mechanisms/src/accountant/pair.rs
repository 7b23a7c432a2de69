//! Dominating pairs: two distributions that are at least as easy to tell apart as any two neighbouring runs of a step.
//!
//! A pair (P, Q) is used through its privacy loss `L = ln(dP/dQ)`, distributed as under P. Pairs of Gaussian mixtures are
//! described by one coordinate z in which Q is the standard normal distribution and L increases.

use std::f64::consts::PI;

use super::lattice::{Atom, Cell, Cells, ON_THE_LATTICE};
use crate::error::{Error, Result};

/// Which of the two neighbours holds the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The true data hold the person: P is the mixture and Q plain noise.
    Remove,
    /// The true data do not: P is plain noise and Q the mixture.
    Add,
}

/// A dominating pair of one step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pair {
    /// `Σ w_i N(s_i, 1)` with `s_i ≥ 0`, against N(0, 1).
    Mixture(Mixture),
    /// Laplace noise of scale 1/ε against the same noise shifted by 1; symmetric.
    Laplace {
        /// The largest loss.
        epsilon: f64,
    },
    /// Two outcomes with losses ε and -ε: what every ε-private step is dominated by; symmetric.
    Pure {
        /// The largest loss.
        epsilon: f64,
    },
}

/// Weights and shifts of a mixture of unit Gaussians.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mixture {
    /// `(w_i, s_i)`, weights positive with sum 1, shifts not negative, at least one of them positive.
    components: Vec<(f64, f64)>,
    /// The logarithm of the weight of shift 0: the loss is always above it.
    infimum: f64,
    /// The weight and shift of the only other component, where there is only one.
    only: Option<(f64, f64)>,
    largest_shift: f64,
}

/// The losses of one step as the sum of two: those of the bell about their loss x₀, and x₀ or one of the rest.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) bell: Cells,
    pub(super) rest: Cells,
    /// The probability of the rest.
    pub(super) outside: f64,
    /// How far `ln E e^{-loss}` of the bell may be from 0.
    pub(super) slack: f64,
}

/// A sample of a loss distribution that is good enough to choose a grid by, and for nothing else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) loss: f64,
    /// The logarithm of the probability that this sample stands for.
    pub(super) log_mass: f64,
    /// The length of the interval of losses that it stands for; zero for an atom.
    pub(super) spacing: f64,
}

/// How wide cells may be: `width = scale · density^(-1/3)` in whole units of the lattice, where the density is that of the
/// loss tilted by `e^{θ·loss}`. That minimizes the number of cells for a given `Σ mass · width²`, to which the error is
/// proportional.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolution {
    /// The distance of two lattice points.
    pub(super) unit: f64,
    pub(super) scale: f64,
    /// No cell whose loss is at most `near` is wider than this, unless the unit is.
    pub(super) widest: f64,
    pub(super) near: f64,
    /// No cell is wider than this share of its loss, unless the unit is.
    pub(super) share: f64,
    pub(super) tilt: f64,
    /// `ln E e^{θ·loss}` of this pair.
    pub(super) log_moment: f64,
    /// The probability that may be left out at either end.
    pub(super) tail: f64,
}

/// The most cells: what needs more takes seconds, or has losses that no lattice holds.
const MOST_CELLS: usize = 1 << 19;

/// No cell is wider than this: `e^width` stays near 1.
pub(super) const WIDEST: f64 = 0.25;

impl Resolution {
    fn steps(&self, log_density: f64, loss: f64) -> i64 {
        let widest = if loss.abs() <= self.near { self.widest } else { WIDEST };
        let width = (self.scale * (-log_density / 3.0).exp()).min(widest).min(self.share * loss.abs());
        ((width / self.unit).floor() as i64).max(1)
    }
}

/// The value beyond which a standard normal variable lies with probability at most `tail`, on either side.
pub(super) fn normal_quantile_bound(tail: f64) -> f64 {
    // Φ(-z) ≤ exp(-z²/2)/2.
    (-2.0 * (2.0 * tail).ln()).max(1.0).sqrt()
}

impl Mixture {
    /// Components of shift zero are put together; others must be positive.
    pub(super) fn new(components: &[(f64, f64)]) -> Self {
        let zero: f64 = components.iter().filter(|(_, shift)| *shift == 0.0).map(|(weight, _)| weight).sum();
        let mut merged: Vec<(f64, f64)> =
            components.iter().copied().filter(|(weight, shift)| *shift > 0.0 && *weight > 0.0).collect();
        let only = if let [one] = merged[..] { Some(one) } else { None };
        let largest_shift = merged.iter().fold(0.0_f64, |largest, (_, shift)| largest.max(*shift));
        // 1 - p is exact enough only through the other weights where p is tiny.
        let infimum = match only {
            Some((weight, _)) if zero > 0.0 => (-weight).ln_1p(),
            _ => zero.ln(),
        };
        if zero > 0.0 {
            merged.push((zero, 0.0));
        }
        Self { components: merged, infimum, only, largest_shift }
    }

    /// The shift, if the pair is plain Gaussian noise.
    pub(super) fn plain_shift(&self) -> Option<f64> {
        self.only.filter(|_| self.infimum == f64::NEG_INFINITY).map(|(_, shift)| shift)
    }

    /// `L(z) = ln Σ w_i exp(s_i z - s_i²/2)` and its derivative.
    fn loss(&self, z: f64) -> (f64, f64) {
        if let Some((weight, shift)) = self.only {
            let exponent = weight.ln() + shift * (z - shift / 2.0);
            if self.infimum == f64::NEG_INFINITY {
                return (shift * (z - shift / 2.0), shift);
            }
            let share = 1.0 / (1.0 + (self.infimum - exponent).exp());
            // ln(1 - p + p e^y) = ln(1 + p (e^y - 1)) keeps its digits where p is tiny.
            let rise = weight * (shift * (z - shift / 2.0)).min(700.0).exp_m1();
            let loss = if exponent > 30.0 {
                exponent + (self.infimum - exponent).exp().ln_1p()
            } else {
                rise.ln_1p()
            };
            return (loss, shift * share);
        }
        let exponent = |weight: f64, shift: f64| weight.ln() + shift * (z - shift / 2.0);
        let largest = self
            .components
            .iter()
            .fold(f64::NEG_INFINITY, |m, &(weight, shift)| m.max(exponent(weight, shift)));
        let (mut sum, mut slope) = (0.0, 0.0);
        for &(weight, shift) in &self.components {
            let part = (exponent(weight, shift) - largest).exp();
            sum += part;
            slope += part * shift;
        }
        (largest + sum.ln(), slope / sum)
    }

    /// The z with `L(z) = loss`, which lies above `from`.
    fn inverse(&self, loss: f64, from: f64) -> f64 {
        if let Some((weight, shift)) = self.only {
            let logarithm = if self.infimum == f64::NEG_INFINITY {
                loss - weight.ln()
            } else {
                // ln((e^loss - (1 - p))/p)
                loss + (-(self.infimum - loss).exp_m1()).ln() - weight.ln()
            };
            return shift / 2.0 + logarithm / shift;
        }
        // L is convex and increasing; Newton from above converges monotonically.
        let (mut low, mut high) = (from, from + 1.0);
        while self.loss(high).0 < loss {
            low = high;
            high += (high - from).max(1.0);
        }
        for _ in 0..200 {
            let (value, slope) = self.loss(high);
            let next = (high - (value - loss) / slope).max(low);
            if next.partial_cmp(&high) != Some(std::cmp::Ordering::Less)
                || high - next <= 1e-15 * high.abs().max(1.0)
            {
                return next.min(high);
            }
            high = next;
        }
        high
    }

    fn too_little_noise(&self) -> Error {
        Error::OutOfRange {
            what: "the noise multiplier",
            value: 1.0 / self.largest_shift,
            range: "large enough that its losses fit into 2^19 cells; what they add up to cannot be certified",
        }
    }

    /// The logarithm of the density of the loss of a direction at z, tilted by `e^{θ·loss}` and normalized.
    fn log_tilted_density(&self, direction: Direction, z: f64, resolution: &Resolution) -> f64 {
        let (loss, slope) = self.loss(z);
        let exponent = match direction {
            Direction::Remove => 1.0 + resolution.tilt,
            Direction::Add => -resolution.tilt,
        };
        -z * z / 2.0 - 0.5 * (2.0 * PI).ln() + exponent * loss - slope.ln() - resolution.log_moment
    }

    /// Masses of the mixture over `[start, end]` in z, whose losses lie in `[low, low + width]`, moved to the ends of that
    /// interval so that the masses under both distributions of the pair stay what they are.
    ///
    /// With `q = ∫ φ` and `m = ∫ φ e^L`, the mass moved up is `(m - q e^low) / (1 - e^-width)` and the mass moved down
    /// `q e^low - (m - q e^low) / (e^width - 1)`. The difference in the first is integrated as the positive function
    /// `φ(z) (e^L - e^low)`, so nothing cancels.
    ///
    /// # Accuracy
    /// The rule with 6 nodes errs on a piece of length h by `h^13 6!^4 / (13 12!^3) = 1.88e-16 h^13` times a 12th derivative, and
    /// `φ^(12)(x) = φ(x) E (x + iZ)^12 ≤ φ(x) (|x| + 2.162)^12`, Z standard normal. Pieces have `h (|x - u| + 2.162) ≤ 1.34` for all
    /// shifts u of the mixture, and φ varies by less than `e^{1/2}` in them: q is accurate to 1e-14. The growth is the integral over u of
    /// `w (z - start) φ(z) e^{u (z - start)}`, whose 12th derivative has `12 (|x| + 2.162)^11` beside it and which is at least h/2 on average: 3e-13.
    fn cell(&self, start: f64, end: f64, low: f64, width: f64) -> (f64, f64) {
        // Weights of the components at the start, relative to e^low.
        let relative = |weight: f64, shift: f64| weight * (shift * (start - shift / 2.0) - low).exp();
        let only = self.only.map(|(weight, shift)| (relative(weight, shift), shift));
        // Zero where the start is where the loss is `low`; the lowest cell starts within.
        let step = (self.loss(start).0 - low).max(0.0).exp_m1();
        let (mut base, mut rise) = (0.0, 0.0);
        // Places are counted from the start, so that the growth there keeps its digits in narrow cells.
        let (mut passed, whole) = (0.0, end - start);
        while passed < whole {
            let from = start + passed;
            let length = (PIECE / (1.0 + from.abs() + self.largest_shift)).min(whole - passed);
            for (node, node_weight) in GAUSS_LEGENDRE {
                for half in [0.5 - node / 2.0, 0.5 + node / 2.0] {
                    let along = passed + length * half;
                    let z = start + along;
                    let density = node_weight * length / 2.0 * (low - z * z / 2.0).exp();
                    let growth: f64 = if let Some((weight, shift)) = only {
                        weight * (shift * along).exp_m1()
                    } else {
                        let part = |&(w, s): &(f64, f64)| relative(w, s) * (s * along).exp_m1();
                        self.components.iter().map(part).sum()
                    };
                    base += density;
                    rise += density * (growth + step);
                }
            }
            // The last piece may be too short to move on.
            passed = if passed + length > passed { passed + length } else { whole };
        }
        let normal = 1.0 / (2.0 * PI).sqrt();
        let (base, rise) = (base * normal, rise * normal);
        ((base - rise / width.exp_m1()).max(0.0), -rise / (-width).exp_m1())
    }

    /// Where most losses are, seen from cells that are as wide as the unit: the loss of those within a unit of zero when they are
    /// put together, `ln(P/Q)` of the event that the loss is at most a unit.
    pub(super) fn offset(&self, unit: f64) -> f64 {
        if self.infimum == f64::NEG_INFINITY || self.infimum < -unit {
            return 0.0;
        }
        // Just above, so that what is moved there for a lower bound is moved up.
        self.offset_below(unit).2 * (1.0 - 1e-9)
    }

    /// An offset near `x₀ = ln(P/Q)` of the event that the loss is at most `offset + unit`, the coordinate up to which it is, and x₀.
    fn offset_below(&self, unit: f64) -> (f64, f64, f64) {
        let below = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
        let (mut offset, mut end, mut put_together) = (0.0, 0.0, 0.0);
        for _ in 0..4 {
            offset = put_together;
            end = self.inverse(offset + unit, -40.0);
            let share = |&(weight, shift): &(f64, f64)| weight * (below(end - shift) / below(end) - 1.0);
            put_together = self.components.iter().map(share).sum::<f64>().ln_1p();
        }
        (offset, end, put_together)
    }

    /// The coordinates between which the loss of a direction lies, but for at most `tail` on either side.
    fn reach(&self, direction: Direction, tail: f64) -> (f64, f64) {
        let reach = normal_quantile_bound(tail);
        match direction {
            Direction::Remove => (-reach, self.largest_shift + reach),
            Direction::Add => (-reach, reach),
        }
    }

    fn cells(&self, direction: Direction, resolution: &Resolution) -> Result<Cells> {
        let (first, last) = self.reach(direction, resolution.tail);
        // Lattice points are whole units away from the offset, which is that of the losses of removing.
        let offset = self.offset(resolution.unit);
        let low = ((self.loss(first).0 - offset) / resolution.unit).floor() as i64;
        self.cells_between((first, last), (low, offset), direction, resolution)
    }

    /// The bell of the losses nearest to zero and the rest of them; `None` where the losses have no such bell.
    ///
    /// The bell holds the coordinates up to the one whose loss is about `threshold` above the loss `x₀ = ln(P/Q)` of the whole bell.
    pub(super) fn split(
        &self,
        direction: Direction,
        threshold: f64,
        [fine, coarse]: [&Resolution; 2],
    ) -> Result<Option<Split>> {
        if self.infimum == f64::NEG_INFINITY {
            return Ok(None);
        }
        let (first, last) = self.reach(direction, fine.tail);
        // The rest begins on its lattice, at least a unit away from the bell.
        let start = (threshold / coarse.unit).round().max(1.0);
        let (offset, end, put_together) = self.offset_below(start * coarse.unit);
        if !(first < end && end < last) {
            return Ok(None);
        }
        let low = ((self.loss(first).0 - offset) / fine.unit).floor() as i64;
        let bell = self.cells_between((first, end), (low, offset), direction, fine)?;
        let mut rest = self.cells_between((end, last), (start as i64, offset), direction, coarse)?;
        // P of what is not in the bell, and of the bell.
        let beyond = |shift: f64| 0.5 * libm::erfc((end - shift) / std::f64::consts::SQRT_2);
        let outside = match direction {
            Direction::Remove => self.components.iter().map(|(weight, shift)| weight * beyond(*shift)).sum(),
            Direction::Add => beyond(0.0),
        };
        // The bell is one loss in the rest, between cells without mass.
        let atom = match direction {
            Direction::Remove => Cell { low: -1, high: 0, at_low: 0.0, at_high: 1.0 - outside },
            Direction::Add => Cell { low: 0, high: 1, at_low: 1.0 - outside, at_high: 0.0 },
        };
        match direction {
            Direction::Remove => rest.row.splice(0..0, [atom, Cell::empty(0, start as i64)]),
            Direction::Add => rest.row.splice(rest.row.len().., [Cell::empty(-(start as i64), 0), atom]),
        };
        // What x₀ is away from the offset, its own rounding included: shifts of 0 contribute nothing to it.
        let weights: f64 = self.components.iter().filter(|(_, shift)| *shift > 0.0).map(|(w, _)| w).sum();
        let slack = (put_together - offset).abs() + 1e-15 * weights;
        Ok(Some(Split { bell: bell.centred(1.0 - outside), rest, outside, slack }))
    }

    /// Cells of the losses of the coordinates from the first to the last; `low` is the lattice point at or below the first.
    fn cells_between(
        &self,
        (first, last): (f64, f64),
        (mut low, offset): (i64, f64),
        direction: Direction,
        resolution: &Resolution,
    ) -> Result<Cells> {
        let unit = resolution.unit;
        let at = |index: i64| offset + index as f64 * unit;
        let mut cells: Vec<Cell> = Vec::new();
        let mut z = first;
        while z < last {
            if cells.len() == MOST_CELLS {
                return Err(self.too_little_noise());
            }
            let inverse = |index: i64| self.inverse(at(index), z).clamp(z, last);
            let steps_at = |z: f64| {
                let log_density = self.log_tilted_density(direction, z, resolution);
                resolution.steps(log_density, self.loss(z).0)
            };
            // Densities are compared at the ends of cells only, so cells are short against the width of the noise.
            let near = ((self.loss(z + 0.25).0 - offset) / unit).floor() as i64 - low;
            let mut steps = steps_at(z).min(near).max(1);
            let mut end = inverse(low + steps);
            // Where the density rises within the cell, the cell is as narrow as its end asks for.
            while steps > 1 && steps_at(end) < steps {
                steps = steps_at(end).max(steps / 2);
                end = inverse(low + steps);
            }
            let width = steps as f64 * unit;
            let (at_low, at_high) = self.cell(z, end, at(low), width);
            cells.push(Cell { low, high: low + steps, at_low, at_high });
            low += steps;
            z = end;
        }
        if direction == Direction::Add {
            cells.reverse();
            for cell in &mut cells {
                // The mass under the other distribution is e^-loss times the mass under this one.
                *cell = Cell {
                    low: -cell.high,
                    high: -cell.low,
                    at_low: cell.at_high * (-at(cell.high)).exp(),
                    at_high: cell.at_low * (-at(cell.low)).exp(),
                };
            }
        }
        let offset = if direction == Direction::Add { -offset } else { offset };
        Ok(Cells { unit, offset, row: cells, atoms: Vec::new(), left_out: 2.0 * resolution.tail })
    }

    fn sample(&self, direction: Direction, tail: f64) -> Vec<Sample> {
        let reach = normal_quantile_bound(tail);
        let (from, to) = (-reach, self.largest_shift + reach);
        let points = (((to - from) / 0.125).ceil() as usize).clamp(64, 20_000);
        let spacing = (to - from) / points as f64;
        let sample = |index: usize| {
            let z = from + (index as f64 + 0.5) * spacing;
            let (loss, slope) = self.loss(z);
            let log_mass = -z * z / 2.0 - 0.5 * (2.0 * PI).ln() + spacing.ln();
            match direction {
                Direction::Remove => Sample { loss, log_mass: log_mass + loss, spacing: slope * spacing },
                Direction::Add => Sample { loss: -loss, log_mass, spacing: slope * spacing },
            }
        };
        (0..points).map(sample).collect()
    }
}

impl Pair {
    /// Refuses noise so small that its losses, of up to half the square of the shift and more, fit into no lattice.
    ///
    /// # Errors
    /// So little noise.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Mixture(mixture) if mixture.largest_shift.powi(2) / 2.0 > WIDEST * MOST_CELLS as f64 => {
                Err(mixture.too_little_noise())
            }
            _ => Ok(()),
        }
    }

    /// A bound of the total variation distance of the two distributions, which is δ at ε = 0: that of a mixture is at most the mean
    /// of those of its components, `2Φ(s/2) - 1`.
    pub(super) fn distance(&self) -> f64 {
        let exact: f64 = match self {
            Self::Mixture(mixture) => {
                let distance = |shift: f64| libm::erf(shift / (2.0 * std::f64::consts::SQRT_2));
                mixture.components.iter().map(|&(weight, shift)| weight * distance(shift)).sum()
            }
            Self::Laplace { epsilon } => -(-epsilon / 2.0).exp_m1(),
            Self::Pure { epsilon } => (epsilon / 2.0).tanh(),
        };
        (exact * (1.0 + 1e-13)).min(1.0)
    }

    /// Whether both directions have the same distribution of losses.
    pub(super) fn is_symmetric(&self) -> bool {
        match self {
            Self::Mixture(mixture) => mixture.plain_shift().is_some(),
            Self::Laplace { .. } | Self::Pure { .. } => true,
        }
    }

    /// Whether most losses may form a bell near zero: somebody may not take part at all.
    pub(super) fn has_bell(&self) -> bool {
        matches!(self, Self::Mixture(mixture) if mixture.infimum > f64::NEG_INFINITY)
    }

    /// A loss that is never exceeded; infinite where there is none.
    pub(super) fn largest_loss(&self, direction: Direction) -> f64 {
        match (self, direction) {
            (Self::Mixture(_), Direction::Remove) => f64::INFINITY,
            (Self::Mixture(mixture), Direction::Add) => -mixture.infimum,
            (Self::Laplace { epsilon } | Self::Pure { epsilon }, _) => *epsilon,
        }
    }

    /// The distance that lattice points must divide so that the atoms of this pair stand on them.
    pub(super) fn period(&self) -> Option<f64> {
        match self {
            Self::Mixture(_) => None,
            Self::Laplace { epsilon } | Self::Pure { epsilon } => Some(*epsilon),
        }
    }

    /// How far the loss of a step may stand from where its cell puts it: atoms beside their lattice points, and cells of a mixture
    /// whose ends are off by some last digits of `s z`, `ln w` and the loss, for `|z| ≤ s + 32`, which holds all that f64 can weigh.
    pub(super) fn slack(&self) -> f64 {
        match self {
            Self::Mixture(mixture) => {
                let shift = mixture.largest_shift;
                let rarest = mixture.components.iter().map(|(weight, _)| -weight.ln()).fold(0.0, f64::max);
                1e-15 * (8.0 + 2.0 * rarest + 2.0 * shift * (shift + 32.0))
            }
            Self::Laplace { epsilon } | Self::Pure { epsilon } => epsilon * 2.0 * ON_THE_LATTICE,
        }
    }

    /// Points of the distribution of the loss, to choose a grid by.
    pub(super) fn sample(&self, direction: Direction, tail: f64) -> Vec<Sample> {
        let atom = |loss: f64, mass: f64| Sample { loss, log_mass: mass.ln(), spacing: 0.0 };
        match self {
            Self::Mixture(mixture) => mixture.sample(direction, tail),
            Self::Pure { epsilon } => {
                let rare = (-epsilon).exp();
                vec![atom(*epsilon, 1.0 / (1.0 + rare)), atom(-epsilon, rare / (1.0 + rare))]
            }
            Self::Laplace { epsilon } => {
                let points = 64;
                let spacing = 2.0 * epsilon / f64::from(points);
                let between = (0..points).map(|index| {
                    let loss = (f64::from(index) + 0.5) * spacing - epsilon;
                    Sample { loss, log_mass: (loss - epsilon) / 2.0 + (spacing / 4.0).ln(), spacing }
                });
                let ends =
                    [atom(*epsilon, 0.5), Sample { log_mass: -epsilon - 2_f64.ln(), ..atom(-epsilon, 0.5) }];
                between.chain(ends).collect()
            }
        }
    }

    /// The bell and the rest of the loss, where it has a bell.
    ///
    /// # Errors
    /// So little noise that its losses need more than 2^19 cells.
    pub(super) fn split(
        &self,
        direction: Direction,
        threshold: f64,
        resolutions: [&Resolution; 2],
    ) -> Result<Option<Split>> {
        match self {
            Self::Mixture(mixture) => mixture.split(direction, threshold, resolutions),
            Self::Laplace { .. } | Self::Pure { .. } => Ok(None),
        }
    }

    /// The distribution of the loss in cells whose ends are multiples of the unit.
    ///
    /// # Errors
    /// So little noise that its losses need more than 2^19 cells.
    pub(super) fn cells(&self, direction: Direction, resolution: &Resolution) -> Result<Cells> {
        let unit = resolution.unit;
        Ok(match self {
            Self::Mixture(mixture) => return mixture.cells(direction, resolution),
            Self::Pure { epsilon } => {
                let rare = (-epsilon).exp();
                let atoms =
                    vec![Atom::at(-epsilon, rare / (1.0 + rare)), Atom::at(*epsilon, 1.0 / (1.0 + rare))];
                Cells { unit, offset: 0.0, row: Vec::new(), atoms, left_out: 0.0 }
            }
            Self::Laplace { epsilon } => {
                // P is e^{(loss - ε)/2}/4 between -ε and ε; the rest sits on both ends.
                let mut cells = Vec::new();
                let lowest = (-epsilon / unit - 1e-9).ceil() as i64;
                let highest = (epsilon / unit + 1e-9).floor() as i64;
                let mut low = lowest;
                while low < highest {
                    let start = low as f64 * unit;
                    let log_density = (start - epsilon) / 2.0 - 4_f64.ln() + resolution.tilt * start
                        - resolution.log_moment;
                    let steps = resolution.steps(log_density, start).min(highest - low);
                    let width = steps as f64 * unit;
                    // m - q e^low = 2 e^{(low - ε)/2} sinh²(width/4), q e^low = e^{(low - ε)/2} (1 - e^{-width/2})/2.
                    let level = ((start - epsilon) / 2.0).exp();
                    let rise = 2.0 * level * (width / 4.0).sinh().powi(2);
                    let base = -0.5 * level * (-width / 2.0).exp_m1();
                    cells.push(Cell {
                        low,
                        high: low + steps,
                        at_low: (base - rise / width.exp_m1()).max(0.0),
                        at_high: -rise / (-width).exp_m1(),
                    });
                    low += steps;
                }
                // Between the outermost lattice points and ±ε, where the unit does not divide ε.
                let mut atoms = vec![Atom::at(-epsilon, 0.5 * (-epsilon).exp()), Atom::at(*epsilon, 0.5)];
                let (first, last) = (lowest as f64 * unit, highest as f64 * unit);
                for (low, high) in [(-epsilon, first), (last, *epsilon)] {
                    let mass = 0.5 * ((low - epsilon) / 2.0).exp() * ((high - low) / 2.0).exp_m1();
                    if mass > 0.0 {
                        atoms.push(Atom { low, high, mass });
                    }
                }
                Cells { unit, offset: 0.0, row: cells, atoms, left_out: 0.0 }
            }
        })
    }
}

/// How long a piece of a cell is, times one and the size of its start and of the largest shift.
const PIECE: f64 = 0.5;

/// Positive nodes and weights of the 6-point Gauss-Legendre rule on [-1, 1].
const GAUSS_LEGENDRE: [(f64, f64); 3] = [
    (0.238_619_186_083_196_9, 0.467_913_934_572_691_04),
    (0.661_209_386_466_264_5, 0.360_761_573_048_138_6),
    (0.932_469_514_203_152, 0.171_324_492_379_170_36),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Both masses of wide cells about the middle of the noise, where the rule errs most, beside error functions.
    #[test]
    fn masses_of_wide_cells_keep_their_digits() {
        let below = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
        for (rate, shift) in [(1.0, 0.05), (0.3, 0.4), (1e-6, 2.0), (1.0, 3.0)] {
            let mixture = Mixture::new(&[(1.0 - rate, 0.0), (rate, shift)]);
            for (start, end) in [(-0.01, 0.99), (-1.3, 0.4), (-4.0, 2.0), (0.5, 1.5)] {
                let (low, high) = (mixture.loss(start).0, mixture.loss(end).0);
                let (at_low, at_high) = mixture.cell(start, end, low, high - low);
                // With low = L(start): masses of the mixture and of plain noise, the second less e^low times the first.
                let plain = below(end) - below(start);
                let shifted = below(end - shift) - below(start - shift);
                let mass = (1.0 - rate) * plain + rate * shifted;
                assert!(((at_low + at_high) / mass - 1.0).abs() < 1e-14 / rate.min(1e-2), "{start} {end}");
                // m - q e^low = p (shifted - plain e^{s start - s²/2}): nothing cancels but these two.
                let rise = rate * (shifted - plain * (shift * (start - shift / 2.0)).exp());
                let exact = rise / -(low - high).exp_m1();
                let accuracy = 1e-12 + 4e-16 * rate * shifted / rise;
                assert!(
                    (at_high / exact - 1.0).abs() < accuracy,
                    "{rate} {shift} {start} {end}: {at_high} {exact}"
                );
            }
        }
    }
}
