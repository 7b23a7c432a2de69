//! Composition: the sum of the losses of all steps by Fourier transform, with every error bounded.
//!
//! # Tilting
//!
//! Transforms err by a fraction of the largest masses, and what is asked for is a small tail. The masses `f(x)` of every
//! step are therefore replaced by `f(x) e^{θx}/M(θ)`, `M(θ) = E e^{θL}`: sums of tilted losses are distributed as tilted sums,
//! and with `K(θ) = Σ k_i ln M_i(θ)` and g the tilted distribution of the sum
//!
//! `δ(ε) = e^{K(θ) - θε} Σ_{x > ε} g(x) ψ(x - ε)`, `ψ(y) = e^{-θy} (1 - e^{-y})`.
//!
//! The factor in front is of the size of δ itself when θ is near the minimum of the exponent, so that errors of g count
//! relative to δ however small it is, and only a few deviations of g around ε have to be held.
//!
//! # Errors
//!
//! - *Wrapping.* The transform is cyclic: what lies outside the window `[a, b]` appears inside, shifted by its length. Chernoff's
//!   bound gives rates η, η' with `P(X > b + y) ≤ e^{-c - ηy}` and `P(X < a - y) ≤ e^{-c - η'y}` for the tilted sum, for all
//!   `y ≥ 0`. What comes from above and is counted was above `b + (ε - a)`; what comes from below and lies `y` under b
//!   again was at most y below a (or further), and counts with `ψ ≤ e^{-θ(b-ε-y)}`; and what is missing from above
//!   would have counted with `e^{-θ(b-ε)}`. Together the sum changes by at most
//!   `e^{-c} (e^{-η(ε-a)} + 2 e^{-min(θ,η')(b-ε)})`, and that times `e^{-θε}` falls in ε and is convex in e^ε.
//! - *Transforms.* The distance ‖g̃ - g‖₂ is bounded by [`dp_linalg::fft::cyclic_product_of_powers`], and the sum changes by at
//!   most `‖ψ‖₂` times it (Cauchy and Schwarz).
//! - *Masses.* Every mass of a step is accurate to [`MASS_ERROR`] relative, tilting included, so that δ of k steps is
//!   accurate to `(1 + MASS_ERROR)^k`.
//! - *Infinite losses* have probability at most `Σ k_i f_i(∞)`, added to δ.

use dp_linalg::fft::{Factor, cyclic_product_of_powers, cyclic_size};

use super::lattice::Lattice;
use crate::error::{Error, Result};

/// The relative accuracy of the mass of a step on the lattice.
const MASS_ERROR: f64 = 4e-12;

/// The largest transform.
const LARGEST: usize = 1 << 21;

/// Independent steps whose losses stand on one lattice.
#[derive(Debug)]
pub(super) struct Composition {
    pub(super) unit: f64,
    /// Distributions and how often they are used.
    pub(super) parts: Vec<(Lattice, u64)>,
    /// `-ln` of the tilted mass outside the window, on either side.
    pub(super) outside: f64,
}

/// The curve δ(ε) of a composition at the points of the lattice.
#[derive(Debug)]
pub(super) struct Curve {
    unit: f64,
    tilt: f64,
    /// `K(θ)`.
    log_scale: f64,
    /// The lattice point of the first value.
    first: i64,
    /// `Σ g ψ` at each lattice point.
    sums: Vec<f64>,
    /// A bound of what rounding did to each sum.
    rounding: f64,
    window: Window,
    /// A bound of the relative error of everything.
    relative: f64,
    /// A bound of the probability of an infinite loss.
    infinite: f64,
}

/// The losses that the transform holds: beyond them the tilted loss lies with probability at most
/// `e^{-outside - rate·distance}`.
#[derive(Debug, Clone, Copy)]
struct Window {
    low: f64,
    high: f64,
    rate_below: f64,
    rate_above: f64,
    outside: f64,
}

/// Which bound of the curve is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Upper,
    Lower,
}

impl Composition {
    /// `ln E e^{θL}` of one part.
    fn part_log_moment(&self, part: &Lattice, tilt: f64) -> f64 {
        let exponent = |&(index, mass): &(i64, f64)| mass.ln() + tilt * self.unit * index as f64;
        log_sum_exp(part.entries.iter().map(exponent))
    }

    /// `K(θ)`.
    fn log_moment(&self, tilt: f64) -> f64 {
        self.parts.iter().map(|(part, times)| *times as f64 * self.part_log_moment(part, tilt)).sum()
    }

    /// The curve, most accurate where the tilted losses have their mean.
    pub(super) fn curve(&self, tilt: f64) -> Result<Curve> {
        let mut entries: Vec<Vec<(i64, f64)>> = Vec::with_capacity(self.parts.len());
        let (mut log_scale, mut mean, mut variance) = (0.0, 0.0, 0.0);
        for (part, times) in &self.parts {
            let log_moment = self.part_log_moment(part, tilt);
            let tilted: Vec<(i64, f64)> = part
                .entries
                .iter()
                .map(|&(index, mass)| {
                    (index, (mass.ln() + tilt * self.unit * index as f64 - log_moment).exp())
                })
                .collect();
            let average: f64 = tilted.iter().map(|(index, mass)| mass * *index as f64).sum();
            let spread: f64 =
                tilted.iter().map(|(index, mass)| mass * (*index as f64 - average).powi(2)).sum();
            log_scale += *times as f64 * log_moment;
            mean += *times as f64 * average * self.unit;
            variance += *times as f64 * spread * self.unit * self.unit;
            entries.push(tilted);
        }
        let deviation = variance.sqrt().max(self.unit);
        let window = self.window(tilt, log_scale, deviation);
        let (low, high) = (window.low.min(mean), window.high.max(mean));
        let first = (low / self.unit).floor();
        let length = (high / self.unit).ceil() - first + 1.0;
        if !(length.is_finite() && length <= LARGEST as f64 && first.abs() < 1e15) {
            return Err(Error::OutOfRange {
                what: "the number of lattice points of the accountant",
                value: length,
                range: "at most 2^21; ask for less accuracy, or for another δ",
            });
        }
        let (first, length) = (first as i64, length as usize);
        let factors: Vec<Factor<'_>> = entries
            .iter()
            .zip(&self.parts)
            .map(|(entries, (_, times))| Factor { entries, power: *times })
            .collect();
        let product = cyclic_product_of_powers(&factors, length)?;
        let size = cyclic_size(length);
        // Σ_{i > j} g_i q^{i-j} (1 - r^{i-j}) by a recurrence of positive terms from the top.
        let (decay, shrink) = ((-tilt * self.unit).exp(), (-self.unit).exp());
        let rise = -(-self.unit).exp_m1();
        let mut sums = vec![0.0; size];
        let (mut mass, mut sum) = (0.0_f64, 0.0_f64);
        for offset in (0..size).rev() {
            sums[offset] = sum;
            let index = (first + offset.cast_signed() as i64).rem_euclid(size.cast_signed() as i64) as usize;
            mass = decay * (mass + product.values[index].max(0.0));
            sum = rise * mass + shrink * decay * sum;
        }
        // ‖ψ‖₂ over the lattice.
        let (mut power, mut remaining, mut square) = (1.0, 1.0, 0.0);
        for _ in 0..size {
            power *= decay;
            remaining *= shrink;
            let term: f64 = power * (1.0 - remaining);
            square += term * term;
            if power < 1e-18 {
                break;
            }
        }
        let times: f64 = self.parts.iter().map(|(_, times)| *times as f64).sum();
        let infinite = self.parts.iter().map(|(part, times)| *times as f64 * part.infinite).sum();
        Ok(Curve {
            unit: self.unit,
            tilt,
            log_scale,
            first,
            sums,
            rounding: product.error * square.sqrt(),
            window,
            relative: MASS_ERROR * (times + 1.0) + 1e-15 * (size as f64 + log_scale.abs()),
            infinite,
        })
    }

    fn window(&self, tilt: f64, log_scale: f64, deviation: f64) -> Window {
        let guess = (2.0 * self.outside).sqrt() / deviation;
        // P(X > b) ≤ e^{K(θ+η) - K(θ) - ηb} for every η > 0.
        let bound = |sign: f64| {
            [0.125, 0.25, 0.5, 1.0, 2.0].into_iter().fold((f64::INFINITY, 0.0), |best, factor| {
                let rate = guess * factor;
                let end = (self.log_moment(tilt + sign * rate) - log_scale + self.outside) / rate;
                if end < best.0 { (end, rate) } else { best }
            })
        };
        let ((below, rate_below), (high, rate_above)) = (bound(-1.0), bound(1.0));
        Window { low: -below, high, rate_below, rate_above, outside: self.outside }
    }
}

impl Curve {
    /// A bound of the error of the sum at a lattice point.
    fn error(&self, offset: usize) -> f64 {
        let Window { low, high, rate_below, rate_above, .. } = self.window;
        let (up, down) = ((self.loss(offset) - low).max(0.0), (high - self.loss(offset)).max(0.0));
        let wrapped = (-rate_above * up).exp() + 2.0 * (-self.tilt.min(rate_below) * down).exp();
        self.rounding + (-self.window.outside).exp() * wrapped
    }

    /// How large the errors are beside the sum at a loss.
    pub(super) fn error_share(&self, loss: f64) -> f64 {
        let offset = (loss / self.unit - self.first as f64).clamp(0.0, (self.sums.len() - 1) as f64) as usize;
        self.error(offset) / self.sums[offset]
    }

    /// The logarithm of a bound of δ at the lattice point `first + offset`.
    fn log_delta(&self, offset: usize, side: Side) -> f64 {
        let scale = self.log_scale - self.tilt * self.loss(offset);
        match side {
            Side::Upper => {
                let finite = scale + self.relative + (self.sums[offset] + self.error(offset)).ln();
                log_sum_exp([finite, self.infinite.ln()].into_iter())
            }
            Side::Lower => scale - self.relative + (self.sums[offset] - self.error(offset)).max(0.0).ln(),
        }
    }

    /// The ε at which the bound of δ is `delta`: no smaller than that for the upper side, no larger for the lower; `None`
    /// where it is beyond the window.
    pub(super) fn epsilon(&self, delta: f64, side: Side) -> Option<f64> {
        let target = delta.ln();
        // Without its errors the curve decreases; with those of the upper side it still does.
        let value = |offset: usize| match side {
            Side::Upper => self.log_delta(offset, side),
            Side::Lower => self.log_scale - self.tilt * self.loss(offset) + self.sums[offset].ln(),
        };
        let (mut low, mut high) = (0, self.sums.len() - 1);
        if value(high) > target {
            return None;
        }
        if value(low) <= target {
            return (side == Side::Upper).then_some(self.loss(0));
        }
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if value(middle) <= target { high = middle } else { low = middle }
        }
        if side == Side::Lower {
            // δ is above the target at a lattice point that is proved to be; errors are small, so one is near.
            let proved = (0..=low).rev().take(1000).find(|&offset| self.log_delta(offset, side) > target)?;
            return Some(self.between(proved, target, self.log_delta(proved, side), self.shifted(proved)));
        }
        // The curve of the lattice is linear in e^ε between its points, and the errors are convex: the chord is above.
        Some(self.between(low, target, value(low), value(high)))
    }

    /// The loss of a lattice point.
    fn loss(&self, offset: usize) -> f64 {
        (self.first + offset.cast_signed() as i64) as f64 * self.unit
    }

    /// The lower bound at the lattice point after `offset`, with the larger errors of the one at `offset`.
    fn shifted(&self, offset: usize) -> f64 {
        let next = (-self.tilt * self.unit).exp() * self.sums[offset + 1] - self.error(offset);
        self.log_scale - self.tilt * self.loss(offset) - self.relative + next.max(0.0).ln()
    }

    /// Where the line in e^ε through the logarithms `above` at a lattice point and `below` at the next one has the value
    /// `target`; the right end where both are above it.
    fn between(&self, offset: usize, target: f64, above: f64, below: f64) -> f64 {
        let end = self.loss(offset + 1);
        if below >= target {
            return end;
        }
        let share = -(below - target).exp_m1() / ((above - target).exp() - (below - target).exp());
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 };
        end + (share * (-self.unit).exp_m1()).ln_1p()
    }

    /// A bound of δ at ε.
    pub(super) fn delta(&self, epsilon: f64, side: Side) -> f64 {
        let position = epsilon / self.unit - self.first as f64;
        if !(position >= 0.0 && position < (self.sums.len() - 1) as f64) {
            // Beyond the window δ is at most what it is at its end, and before it at most 1.
            return match side {
                Side::Upper if position > 0.0 => self.log_delta(self.sums.len() - 1, side).exp().min(1.0),
                Side::Upper => 1.0,
                Side::Lower => 0.0,
            };
        }
        let offset = position.floor() as usize;
        match side {
            Side::Upper => {
                // The chord in e^ε.
                let share = ((position - offset as f64) * self.unit).exp_m1() / self.unit.exp_m1();
                let (left, right) =
                    (self.log_delta(offset, side).exp(), self.log_delta(offset + 1, side).exp());
                (left + share * (right - left)).min(1.0)
            }
            Side::Lower => {
                let share = ((position - offset as f64) * self.unit).exp_m1() / self.unit.exp_m1();
                let left = self.sums[offset];
                let right = (-self.tilt * self.unit).exp() * self.sums[offset + 1];
                let sum = (left + share * (right - left) - self.error(offset)).max(0.0);
                let scale = self.log_scale - self.tilt * self.loss(offset);
                (scale - self.relative + sum.ln()).exp()
            }
        }
    }
}

/// `ln Σ e^x`.
pub(super) fn log_sum_exp(exponents: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = exponents.clone().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        return largest;
    }
    largest + exponents.map(|exponent| (exponent - largest).exp()).sum::<f64>().ln()
}
