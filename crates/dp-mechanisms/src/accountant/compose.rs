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
//! relative to δ however small it is, and only a few deviations of g around ε have to be held. Every θ > 0 gives the same curve:
//! where rare large losses make g wide, a smaller one needs a shorter transform ([`Tilt`] is chosen by `search`).
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
//! - *Losses* of a step are off by some last digits, which move ε by as much for every step: `Pair::slack` in `pair`.
//! - *Infinite losses* have probability at most `Σ k_i f_i(∞)`, added to δ.

use dp_linalg::fft::{Factor, cyclic_product_of_powers};

use super::lattice::Lattice;
use crate::error::{Error, Result};

/// The relative accuracy of the mass of a step on the lattice, with room for a rounding of each mass of the product.
const MASS_ERROR: f64 = 4e-12;

/// Lattice points that the window holds on either side of the loss that is asked for.
const MARGIN: f64 = 16.0;

/// The largest transform.
pub(super) const LARGEST: usize = 1 << 21;

/// Independent steps whose losses stand on one lattice.
#[derive(Debug)]
pub(super) struct Composition {
    pub(super) unit: f64,
    /// Distributions and how often they are used.
    pub(super) parts: Vec<(Lattice, u64)>,
}

/// How a composition is tilted, and how much of it is held. Bounds hold for every choice; a good one makes them tight with a
/// short transform.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tilt {
    /// θ, positive.
    pub(super) theta: f64,
    /// `-ln` of the tilted mass outside the window, on either side.
    pub(super) outside: f64,
    /// The rates η of Chernoff's bound below and above the window, positive.
    pub(super) rate_below: f64,
    pub(super) rate_above: f64,
    /// The loss at which the curve is wanted, which the window holds in any case.
    pub(super) around: f64,
}

/// The tilted distribution g of the sum of all losses of a composition, on a window of the lattice.
#[derive(Debug)]
pub(super) struct Tilted {
    pub(super) unit: f64,
    pub(super) theta: f64,
    /// `K(θ)`.
    pub(super) log_scale: f64,
    /// The lattice point of the first mass.
    pub(super) first: i64,
    pub(super) masses: Vec<f64>,
    /// A bound of the Euclidean distance of the masses from the exact ones of the cyclic window.
    pub(super) error: f64,
    pub(super) window: Window,
    /// A bound of the relative error of every mass.
    pub(super) relative: f64,
    /// A bound of the probability of an infinite loss.
    pub(super) infinite: f64,
}

/// The curve δ(ε) of a composition at the points of the lattice.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) unit: f64,
    pub(super) tilt: f64,
    /// `K(θ)`.
    pub(super) log_scale: f64,
    /// The lattice point of the first value.
    pub(super) first: i64,
    /// `Σ g ψ` at each lattice point.
    pub(super) sums: Vec<f64>,
    /// A bound of what rounding did to each sum.
    pub(super) rounding: f64,
    pub(super) window: Window,
    /// A bound of the relative error of everything.
    pub(super) relative: f64,
    /// A bound of the probability of an infinite loss.
    pub(super) infinite: f64,
}

/// The losses that the transform holds: beyond them the tilted loss lies with probability at most
/// `e^{-outside - rate·distance}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    low: f64,
    high: f64,
    rate_below: f64,
    rate_above: f64,
    pub(super) outside: f64,
}

/// Which bound of the curve is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Upper,
    Lower,
}

impl Composition {
    /// The tilted distribution of the sum of all losses.
    ///
    /// # Errors
    /// A window that needs more than 2^21 lattice points.
    pub(super) fn tilted(&self, tilt: &Tilt) -> Result<Tilted> {
        let theta = tilt.theta;
        let logarithms: Vec<Vec<f64>> = self
            .parts
            .iter()
            .map(|(part, _)| part.entries.iter().map(|(_, mass)| mass.ln()).collect())
            .collect();
        // Logarithms of the masses, tilted but not normalized.
        let exponents = |part: usize, theta: f64| {
            let unit = theta * self.unit;
            let entries = self.parts[part].0.entries.iter().zip(&logarithms[part]);
            entries.map(move |((index, _), logarithm)| logarithm + unit * *index as f64)
        };
        // `K(θ)`.
        let log_moment = |theta: f64| -> f64 {
            let parts = self.parts.iter().enumerate();
            parts.map(|(part, (_, times))| *times as f64 * log_sum_exp(exponents(part, theta))).sum()
        };
        let mut entries: Vec<Vec<(i64, f64)>> = Vec::with_capacity(self.parts.len());
        let (mut log_scale, mut mean) = (0.0, 0.0);
        for (part, (lattice, times)) in self.parts.iter().enumerate() {
            let log_moment = log_sum_exp(exponents(part, theta));
            let tilted: Vec<(i64, f64)> = lattice
                .entries
                .iter()
                .zip(exponents(part, theta))
                .map(|((index, _), exponent)| (*index, (exponent - log_moment).exp()))
                .collect();
            let average: f64 = tilted.iter().map(|(index, mass)| mass * *index as f64).sum();
            log_scale += *times as f64 * log_moment;
            mean += *times as f64 * average * self.unit;
            entries.push(tilted);
        }
        // P(X > b) ≤ e^{K(θ+η) - K(θ) - ηb} for every η > 0, and the same below.
        let end = |sign: f64, rate: f64| (log_moment(theta + sign * rate) - log_scale + tilt.outside) / rate;
        let window = Window {
            low: -end(-1.0, tilt.rate_below),
            high: end(1.0, tilt.rate_above),
            rate_below: tilt.rate_below,
            rate_above: tilt.rate_above,
            outside: tilt.outside,
        };
        let beside = MARGIN * self.unit + 0.1 * tilt.around.abs();
        let low = window.low.min(mean).min(tilt.around - beside);
        let high = window.high.max(mean).max(tilt.around + beside);
        let first = (low / self.unit).floor();
        let length = (high / self.unit).ceil() - first + 1.0;
        if !(length.is_finite() && length <= LARGEST as f64 && first.abs() < 1e15) {
            return Err(Error::OutOfRange {
                what: "the number of lattice points of the accountant",
                value: length,
                range: "at most 2^21; ask for another δ or for fewer steps, or with more noise",
            });
        }
        let (first, length) = (first as i64, length as usize);
        let factors: Vec<Factor<'_>> = entries
            .iter()
            .zip(&self.parts)
            .map(|(entries, (_, times))| Factor { entries, power: *times })
            .collect();
        let mut product = cyclic_product_of_powers(&factors, length)?;
        // The window starts somewhere in the cyclic product.
        let start = first.rem_euclid(product.values.len().cast_signed() as i64) as usize;
        product.values.rotate_left(start);
        // Masses are not negative: this only brings them nearer to the truth.
        product.values.iter_mut().for_each(|mass| *mass = mass.max(0.0));
        let times: f64 = self.parts.iter().map(|(_, times)| *times as f64).sum();
        Ok(Tilted {
            unit: self.unit,
            theta,
            log_scale,
            first,
            relative: MASS_ERROR * (times + 1.0) + 1e-15 * (product.values.len() as f64 + log_scale.abs()),
            infinite: self.parts.iter().map(|(part, times)| *times as f64 * part.infinite).sum(),
            masses: product.values,
            error: product.error,
            window,
        })
    }

    /// The curve, most accurate where the tilted losses have their mean.
    ///
    /// # Errors
    /// A window that needs more than 2^21 lattice points.
    pub(super) fn curve(&self, tilt: &Tilt) -> Result<Curve> {
        let Tilted { unit, theta, log_scale, first, masses, error, window, relative, infinite } =
            self.tilted(tilt)?;
        // Σ_{i > j} g_i q^{i-j} (1 - r^{i-j}) by a recurrence of positive terms from the top.
        let (decay, shrink) = ((-theta * unit).exp(), (-unit).exp());
        let rise = -(-unit).exp_m1();
        let mut sums = masses;
        let (mut mass, mut sum) = (0.0_f64, 0.0_f64);
        for value in sums.iter_mut().rev() {
            let here = std::mem::replace(value, sum);
            mass = decay * (mass + here);
            sum = rise * mass + shrink * decay * sum;
        }
        // ‖ψ‖₂ over the lattice.
        let (mut power, mut remaining, mut square) = (1.0, 1.0, 0.0);
        for _ in 0..sums.len() {
            power *= decay;
            remaining *= shrink;
            let term: f64 = power * (1.0 - remaining);
            square += term * term;
            if power < 1e-18 {
                break;
            }
        }
        let rounding = error * square.sqrt();
        Ok(Curve { unit, tilt: theta, log_scale, first, sums, rounding, window, relative, infinite })
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
