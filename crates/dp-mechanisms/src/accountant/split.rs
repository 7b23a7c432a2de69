//! Many steps that hardly anybody enters: a bell of common tiny losses and rare large ones, on a lattice each.
//!
//! One lattice must be fine enough for the bell, because every step rounds, and long enough for the rare losses. Two need not:
//! the loss of a step is held as a sum of two independent ones.
//!
//! # Privacy
//!
//! With probability m the loss L of a step lies in its bell, and is `x₀ + B`, where `e^{-x₀}` is the mean of `U = e^{-L}` in the bell,
//! so that `E e^{-B} = 1`. Let M be x₀ with probability m, and L given that it is not in the bell otherwise.
//!
//! - **Upper.** `B + M` with B independent of M has the law of L in the bell, and elsewhere is L times a factor of mean 1 in U, which
//!   never makes δ smaller (Jensen's inequality, see [`super::lattice`]). So δ of k steps is at most that of `Σ B_i + Σ M_i`, k of each.
//! - **Lower.** Where at most j steps of k are outside of their bells, at least `k - j` have a B; leaving others out puts a mean in
//!   the place of a factor, which never makes δ larger. So δ is at least that of k - j terms B and k terms M, less the
//!   probability that more than j steps are outside: with q the probability of one, `P(J ≥ a) ≤ e^{a - kq} (kq/a)^a` for `a > kq`.
//! - With `E e^{-B} = e^{±s}` in place of 1, every step changes its loss by at most s.
//!
//! The sum of the M is composed on a coarse lattice, tilted ([`super::compose`]); with g its tilted distribution, c its lattice points and δ_B
//! the curve of the bells on a fine one,
//!
//! `δ(ε) = e^{K_M - θε} Σ_c g(c) T(c)`, `T(c) = e^{θ(ε-c)} δ_B(ε - c)`.
//!
//! The curve of the bells is computed twice, tilted like the rest and tilted for its own tail, and at each point the better bound counts.
//! Between lattice points δ_B is linear in e^ε. Below its window it is at most the chord to `δ_B(-∞) ≤ 1`, and at least the
//! mass less e^ε times the mass under Q; above the window it is at most what it is at its end. Its errors by wrapping are at most
//! `3 e^{-c}` of its scale everywhere. Because `T ≤ e^{K_B(θ)}` (Chernoff), what wraps around the coarse lattice changes the sum by at
//! most `2 e^{K_B(θ) - c}`, and what its transform did by at most the distance that is bounded there, times `‖T‖₂`. Where at most one
//! step is in the rest on average, that distance is a fraction of how many are ([`dp_linalg::fft::cyclic_product_of_powers`]), which
//! keeps it small beside a δ that no tilt makes larger: tails of rare losses fall like powers.

use dp_linalg::fft::HARDLY_MOVING;

use super::Bracket;
use super::compose::{Composition, Curve, LARGEST, Side, Tilt, Tilted};
use super::lattice::Lattice;
use super::pair::{Direction, Resolution, Sample, Split, WIDEST};
use super::search::{
    ACCEPTED, OUTSIDE, Pilot, Question, SMALLEST, STALLED, TILTS, TOLERANCE, chernoff, lattice_for, moments,
};
use crate::error::Result;

/// How often both lattices are made finer, or made for another ε.
const ATTEMPTS: usize = 12;

/// The largest share of the steps that may be outside of their bells: so much of the bell is unknown.
const OUTSIDE_OF_BELLS: f64 = 1e-4;

/// What may be missing beside δ.
const MISSING: f64 = 1e-6;

/// A coarse lattice point costs as much as this many fine ones: each is looked at for every ε that is tried.
const COARSE_COST: f64 = 16.0;

/// About the error of the transform of the rest, for each root of a lattice point and as much as moves.
const TRANSFORM_ERROR: f64 = 1.5e-14;

/// How large it may be beside δ for the sake of a cheap choice.
const LARGEST_SHARE: f64 = 1e-4;

/// Thresholds between bell and rest that are tried, each half of the one before, from the ε that is asked for.
const THRESHOLDS: i32 = 14;

/// One kind of step in two parts.
#[derive(Debug)]
pub(super) struct TwoParts {
    pub(super) bell: Lattice,
    /// How often the bell is composed.
    pub(super) bells: u64,
    /// The losses that are not in the bell, if any are held apart.
    pub(super) rest: Option<Lattice>,
    pub(super) times: u64,
}

/// Bounds of the finite part of δ of a curve, which is linear in e^ε between lattice points.
#[derive(Debug)]
struct Bell {
    curve: Curve,
    side: Side,
    /// What rounding and wrapping do to each of its sums at most.
    error: f64,
    /// Where its window begins, the bound there, and the one past its end.
    low: f64,
    first: f64,
    beyond: f64,
}

/// A curve that is read off two lattices.
#[derive(Debug)]
pub(super) struct TwoScales {
    /// The bell, tilted like the rest, and tilted for its own tail.
    bells: [Bell; 2],
    rest: Tilted,
    side: Side,
    /// Logarithms of the masses of all bells together under both distributions, and how far each may be off.
    log_masses: (f64, f64, f64),
    /// What δ may be too large by, from below.
    missing: f64,
}

impl TwoScales {
    /// Composes both parts, on lattices with the given units.
    ///
    /// # Errors
    /// A window that needs more than 2^21 lattice points.
    fn new(parts: Vec<TwoParts>, choice: &Choice, side: Side, missing: f64) -> Result<Self> {
        let mut bell = Composition { unit: choice.units[0], parts: Vec::new() };
        let mut rest = Composition { unit: choice.units[1], parts: Vec::new() };
        let mut log_masses = (0.0, 0.0, 0.0);
        for part in parts {
            let masses = |under: f64| -> f64 {
                let entries = part.bell.entries.iter();
                entries.map(|(index, mass)| mass * (-under * *index as f64 * choice.units[0]).exp()).sum()
            };
            log_masses.0 += part.bells as f64 * masses(0.0).ln();
            log_masses.1 += part.bells as f64 * masses(1.0).ln();
            // Sums of as many positive terms, whose exponentials are accurate to their exponents' last bits.
            let farthest = part.bell.entries.iter().map(|(index, _)| index.unsigned_abs()).max().unwrap_or(0);
            let roundings = (part.bell.entries.len() + 8) as f64 + farthest as f64 * choice.units[0];
            log_masses.2 += part.bells as f64 * f64::EPSILON * roundings;
            bell.parts.push((part.bell, part.bells));
            rest.parts.extend(part.rest.map(|rest| (rest, part.times)));
        }
        let bells =
            [Bell::new(bell.curve(&choice.bells[0])?, side), Bell::new(bell.curve(&choice.bells[1])?, side)];
        Ok(Self { bells, rest: rest.tilted(&choice.rest)?, side, log_masses, missing })
    }

    /// The bound of δ of the bells alone.
    fn bell_delta(&self, epsilon: f64) -> f64 {
        let [one, other] = self.bells.each_ref().map(|bell| bell.delta(epsilon));
        match self.side {
            Side::Upper => one.min(other).min(1.0),
            Side::Lower => {
                let (mass, under, error) = self.log_masses;
                one.max(other).max(-((mass - error).exp() * (epsilon + under - mass + 2.0 * error).exp_m1()))
            }
        }
    }

    /// The bound of δ at ε.
    pub(super) fn delta(&self, epsilon: f64) -> f64 {
        let rest = &self.rest;
        let (mut sum, mut square) = (0.0, 0.0);
        for (index, mass) in rest.masses.iter().enumerate() {
            let loss = (rest.first + index.cast_signed() as i64) as f64 * rest.unit;
            let here = self.bell_delta(epsilon - loss) * (rest.theta * (epsilon - loss)).exp();
            sum += mass * here;
            square += here * here;
        }
        let wrapped = 2.0 * (self.bells[0].curve.log_scale.max(0.0) - rest.window.outside).exp();
        let error = wrapped + rest.error * f64::sqrt(square);
        let scale = rest.log_scale - rest.theta * epsilon;
        let relative = rest.relative + 1e-15 * rest.masses.len() as f64;
        match self.side {
            Side::Upper => {
                let infinite = self.bells[0].curve.infinite + rest.infinite;
                ((scale + relative).exp() * (sum + error) + infinite).min(1.0)
            }
            Side::Lower => ((scale - relative).exp() * (sum - error).max(0.0) - self.missing).max(0.0),
        }
    }
}

impl Bell {
    fn new(curve: Curve, side: Side) -> Self {
        let low = curve.first as f64 * curve.unit;
        let error = curve.rounding + 3.0 * (-curve.window.outside).exp();
        let mut bell = Self { side, error, low, first: 0.0, beyond: 0.0, curve };
        bell.first = bell.bound(bell.curve.sums[0], low);
        bell.beyond = bell.bound(0.0, low + (bell.curve.sums.len() - 1) as f64 * bell.curve.unit);
        bell
    }

    /// The bound for a sum of the curve at a loss.
    fn bound(&self, sum: f64, at: f64) -> f64 {
        let Curve { tilt, log_scale, relative, .. } = self.curve;
        match self.side {
            Side::Upper => (sum + self.error) * (log_scale - tilt * at + relative).exp(),
            Side::Lower => (sum - self.error).max(0.0) * (log_scale - tilt * at - relative).exp(),
        }
    }

    /// The bound at ε.
    fn delta(&self, epsilon: f64) -> f64 {
        let Curve { unit, tilt, first, ref sums, .. } = self.curve;
        let position = epsilon / unit - first as f64;
        if position < 0.0 {
            return match self.side {
                // The chord in e^ε from 1 at minus infinity.
                Side::Upper => {
                    let fall = (epsilon - self.low).exp_m1();
                    self.first.min(1.0) * (1.0 + fall) - fall
                }
                Side::Lower => self.first,
            };
        }
        let offset = position as usize;
        let (Some(left), Some(right)) = (sums.get(offset), sums.get(offset.saturating_add(1))) else {
            return self.beyond;
        };
        let share = ((position - offset as f64) * unit).exp_m1() / unit.exp_m1();
        // The error of the left end, which is no smaller.
        self.bound(left + share * ((-tilt * unit).exp() * right - left), self.low + offset as f64 * unit)
    }
}

/// Where the bell ends, and how both parts are held.
#[derive(Debug, Clone, Copy)]
struct Choice {
    threshold: f64,
    /// How wide cells may be beside their losses, whose tails fall like powers where no tilt shows what counts.
    share: f64,
    scales: [f64; 2],
    units: [f64; 2],
    bells: [Tilt; 2],
    rest: Tilt,
}

impl Pilot<'_> {
    /// Upper and lower answers that agree, or as far as two lattices go, better than `known`; `None` where the losses have no bell.
    pub(super) fn on_two_lattices(&self, known: Option<Bracket>) -> Option<Bracket> {
        // One lattice may have asked for windows that are longer than two need.
        let mut pilot = Self { outside: OUTSIDE, ..self.clone() };
        let mut best: Option<Bracket> = None;
        // The finest tolerance that was reached, and the next one.
        let (mut reached, mut tolerance) = (f64::INFINITY, 0.3 * TOLERANCE);
        let (mut last_gap, mut stalled) = (f64::INFINITY, false);
        for _ in 0..ATTEMPTS {
            let found = match pilot.choose(tolerance).map(|choice| pilot.bracket_on(&choice, best.or(known)))
            {
                Some(Ok(Some(found))) => found,
                // The finest lattices that fit, if they are finer than the last.
                _ if 4.0 * tolerance < 0.7 * reached => {
                    tolerance *= 4.0;
                    continue;
                }
                _ => break,
            };
            reached = tolerance;
            let found = best.or(known).map_or(found, |best| Bracket {
                upper: best.upper.min(found.upper),
                lower: best.lower.max(found.lower),
            });
            best = Some(found);
            let gap = pilot.gap(&found);
            if !(gap > ACCEPTED) {
                break;
            }
            if matches!(pilot.question, Question::Epsilon(_)) && found.upper < 0.9 * pilot.guess {
                pilot.correct(found.upper);
                (reached, last_gap, stalled) = (f64::INFINITY, f64::INFINITY, false);
            } else if stalled && gap > STALLED * last_gap {
                break;
            } else {
                (stalled, last_gap) = (gap > STALLED * last_gap, gap);
                tolerance *= (0.7 * TOLERANCE / gap).clamp(0.05, 0.7);
            }
        }
        best
    }

    /// The bell and the rest of the samples of every step, for a threshold, the largest share of the rest in a step, and how many steps
    /// are in the rest on average.
    fn parted(&self, threshold: f64) -> (Vec<Vec<Sample>>, Vec<Vec<Sample>>, f64, f64) {
        let (mut bells, mut rests, mut largest, mut moving) = (Vec::new(), Vec::new(), 0.0_f64, 0.0);
        for ((pair, times), samples) in self.parts.iter().zip(&self.samples) {
            if !pair.has_bell() {
                bells.push(samples.clone());
                rests.push(Vec::new());
                continue;
            }
            let near = |sample: &&Sample| match self.direction {
                Direction::Remove => sample.loss <= threshold,
                Direction::Add => sample.loss >= -threshold,
            };
            let (bell, mut rest): (Vec<&Sample>, Vec<&Sample>) = samples.iter().partition(near);
            let mass: f64 = bell.iter().map(|sample| sample.log_mass.exp()).sum();
            let other: f64 = bell.iter().map(|sample| (sample.log_mass - sample.loss).exp()).sum();
            let outside: f64 = rest.iter().map(|sample| sample.log_mass.exp()).sum();
            // The sum of so many samples knows no better where the bell is.
            let offset = if outside < 1e-6 { 0.0 } else { (mass / other).ln() };
            let centred = |sample: &&Sample| Sample { loss: sample.loss - offset, ..**sample };
            bells.push(bell.iter().map(centred).collect());
            rest.retain(|sample| sample.log_mass > -600.0);
            let atom = Sample { loss: 0.0, log_mass: (-outside).ln_1p(), spacing: 0.0 };
            rests.push(rest.iter().map(centred).chain([atom]).collect());
            largest = largest.max(outside);
            moving += *times as f64 * outside;
        }
        (bells, rests, largest, moving)
    }

    /// The tilt, threshold and units with the shortest transforms among those whose errors are small beside δ, or else with the
    /// smallest errors.
    fn choose(&self, tolerance: f64) -> Option<Choice> {
        let (epsilon, log_delta) = self.point();
        let allowed = self.allowed(tolerance, epsilon);
        // Where one rare loss decides, the cell around ε has all of the error.
        let widest = self.widest(tolerance);
        let mut best: Option<(Choice, (f64, f64))> = None;
        for power in 0..THRESHOLDS {
            let threshold = epsilon * 0.5_f64.powi(power);
            let (bells, rests, outside, moving) = self.parted(threshold);
            if outside > OUTSIDE_OF_BELLS
                || bells.iter().any(Vec::is_empty)
                || rests.iter().all(Vec::is_empty)
            {
                continue;
            }
            let (fine_scale, fine) = lattice_for(&self.points(&bells), 0.5 * allowed, WIDEST);
            let fine = self.divided(fine);
            let (coarse_scale, coarse) =
                lattice_for(&self.points(&rests), 0.5 * allowed, threshold.min(widest));
            let needed = self.outside + 2.0 - log_delta.max(-40.0);
            let window = |samples: &[Vec<Sample>], theta: f64| {
                let cumulants = |theta: f64| self.cumulants_of(samples, theta);
                let (rate_below, below) = chernoff(&cumulants, theta, -1.0, needed, needed);
                let (rate_above, above) = chernoff(&cumulants, theta, 1.0, needed, needed);
                let length = below + needed / rate_below + above + needed / rate_above;
                (Tilt { theta, outside: needed, rate_below, rate_above, around: 0.0 }, length)
            };
            let (own, own_length) = window(&bells, self.bell_tilt(&bells, epsilon));
            for part in [1.0].into_iter().chain(TILTS) {
                let theta = part * self.tilt;
                let log_sum = log_delta + theta * epsilon - self.cumulants(theta)[0];
                let ((bell, bell_length), (rest, rest_length)) =
                    (window(&bells, theta), window(&rests, theta));
                let lengths = [bell_length.max(own_length) / fine, rest_length / coarse];
                let cost = lengths[0] + COARSE_COST * lengths[1];
                let fits = cost.is_finite() && lengths.iter().all(|length| *length < 0.9 * LARGEST as f64);
                // What rests has no part in the errors where hardly anything moves.
                let moved = if moving <= HARDLY_MOVING { moving } else { 1.0 + moving };
                let share = TRANSFORM_ERROR * moved * lengths[1].sqrt() * (-log_sum).exp();
                let rank = (share.max(LARGEST_SHARE), cost);
                if fits && best.is_none_or(|(_, least)| rank < least) {
                    let choice = Choice {
                        threshold,
                        share: tolerance.sqrt(),
                        scales: [fine_scale, coarse_scale],
                        units: [fine, coarse],
                        bells: [bell, own],
                        rest,
                    };
                    best = Some((choice, rank));
                }
            }
        }
        best.map(|(choice, _)| choice)
    }

    /// The tilt at which the bells alone have their saddle for ε, or where they reach only this far.
    fn bell_tilt(&self, bells: &[Vec<Sample>], epsilon: f64) -> f64 {
        let (mut low, mut high) = (self.tilt.min(1.0).ln(), 23.0_f64);
        for _ in 0..20 {
            let middle = f64::midpoint(low, high);
            let tilt = middle.exp();
            let [_, mean, _] = self.cumulants_of(bells, tilt);
            if mean - 1.0 / tilt - 1.0 / (1.0 + tilt) < epsilon { low = middle } else { high = middle }
        }
        low.exp()
    }

    /// Both answers on two lattices, the search for ε beginning at what is known.
    fn bracket_on(&self, choice: &Choice, known: Option<Bracket>) -> Result<Option<Bracket>> {
        let (_, log_delta) = self.point();
        let [fine, coarse] = [0, 1].map(|part| Resolution {
            unit: choice.units[part],
            scale: choice.scales[part],
            widest: WIDEST,
            near: 0.0,
            share: choice.share,
            tilt: self.tilt,
            log_moment: 0.0,
            tail: self.tail,
        });
        let (mut uppers, mut lowers) = (Vec::new(), Vec::new());
        let (mut offset, mut slack, mut missing) = (0.0, 0.0, 0.0);
        for ((pair, times), samples) in self.parts.iter().zip(&self.samples) {
            let log_moment = moments(samples, self.tilt)[0];
            let resolutions = [&Resolution { log_moment, ..fine }, &Resolution { log_moment, ..coarse }];
            let steps = *times as f64;
            let Some(Split { bell, rest, outside, slack: own }) =
                pair.split(self.direction, choice.threshold, resolutions)?
            else {
                let whole = pair.cells(self.direction, resolutions[0])?;
                offset += steps * whole.offset;
                uppers.push(TwoParts { bell: whole.upper(), bells: *times, rest: None, times: *times });
                lowers.push(TwoParts { bell: whole.lower(), bells: *times, rest: None, times: *times });
                continue;
            };
            offset += steps * rest.offset;
            slack += steps * own;
            let (most, unlikely) = most_outside(steps * outside, log_delta + MISSING.ln());
            missing += unlikely;
            let (lower, bells) = surely_inside(bell.lower(), *times, most);
            uppers.push(TwoParts {
                bell: bell.upper(),
                bells: *times,
                rest: Some(rest.upper()),
                times: *times,
            });
            lowers.push(TwoParts { bell: lower, bells, rest: Some(rest.lower()), times: *times });
        }
        if uppers.iter().all(|part| part.rest.is_none()) {
            return Ok(None);
        }
        slack += self.slack();
        let upper = TwoScales::new(uppers, choice, Side::Upper, 0.0)?;
        let held = lowers.iter().all(|part| {
            !part.bell.entries.is_empty() && part.rest.as_ref().is_none_or(|rest| !rest.entries.is_empty())
        });
        let lower = if held { TwoScales::new(lowers, choice, Side::Lower, missing).ok() } else { None };
        Ok(Some(match self.question {
            Question::Delta(epsilon) => Bracket {
                upper: upper.delta(epsilon - offset - slack),
                lower: lower.map_or(0.0, |lower| lower.delta(epsilon - offset + slack)),
            },
            Question::Epsilon(delta) => {
                let start =
                    known.map(|known| known.upper).filter(|upper| upper.is_finite()).unwrap_or(self.guess);
                let above = crossing(|epsilon| upper.delta(epsilon - offset - slack), delta, start);
                let below = lower.map_or((0.0, 0.0), |lower| {
                    crossing(|epsilon| lower.delta(epsilon - offset + slack), delta, above.1)
                });
                Bracket { upper: above.1, lower: below.0 }
            }
        }))
    }
}

/// What is known from below of the bells of `times` steps of which at most `outside` are outside of theirs, and how often it is
/// composed: bells of which nothing is known are their mean, and so are all of them where no step need be in its own.
fn surely_inside(bell: Lattice, times: u64, outside: u64) -> (Lattice, u64) {
    match times.saturating_sub(outside) {
        inside if inside > 0 && !bell.entries.is_empty() => (bell, inside),
        _ => (Lattice { entries: vec![(0, 1.0)], infinite: 0.0 }, 1),
    }
}

/// How many steps are outside of their bells when `mean` are on average, but for a probability of at most `e^log_small`, which is
/// the second value.
fn most_outside(mean: f64, log_small: f64) -> (u64, f64) {
    let log_bound = |least: f64| least - mean - least * (least / mean).ln();
    let mut least = mean.ceil() + 1.0;
    while mean > 0.0 && log_bound(least) > log_small {
        least += (0.1 * least).ceil();
    }
    (least as u64 - 1, if mean > 0.0 { log_bound(least).exp() } else { 0.0 })
}

/// Two values of ε next to each other, near `start`: δ is above the target at the first and no longer at the second. No ε is below
/// zero, where δ may be no longer above it either.
fn crossing(delta: impl Fn(f64) -> f64, target: f64, start: f64) -> (f64, f64) {
    // The logarithm of δ is nearly a line that falls. What is not at most the target counts as above it.
    let excess = |epsilon: f64| {
        let here = delta(epsilon);
        let logarithm = (here / target).ln();
        if here <= target { logarithm.min(0.0) } else { logarithm.max(f64::MIN_POSITIVE) }
    };
    let (mut low, mut high, mut step) = ((0.0, f64::INFINITY), (start, excess(start)), 0.01 * start);
    if high.1 <= 0.0 {
        while step < start {
            let next = start - step;
            let value = excess(next);
            if value > 0.0 {
                low = (next, value);
                break;
            }
            high = (next, value);
            step *= 4.0;
        }
    } else {
        while high.1 > 0.0 {
            low = high;
            let next = start + step;
            high = (next, excess(next));
            step *= 4.0;
            if !(next < 1e9) {
                return (low.0, f64::INFINITY);
            }
        }
    }
    let (mut halve, mut before) = (false, f64::INFINITY);
    while high.0 - low.0 > NEXT * high.0.max(SMALLEST) {
        let (width, beside) = (high.0 - low.0, 0.5 * NEXT * high.0.max(SMALLEST));
        let share = low.1 / (low.1 - high.1);
        // A line that ends next to one of them is made to end beyond it, so that the other one follows.
        let line = (low.0 + share * width).max(low.0 + beside).min(high.0 - beside);
        let middle = if halve || !share.is_finite() { f64::midpoint(low.0, high.0) } else { line };
        let value = excess(middle);
        if value > 0.0 {
            low = (middle, value);
        } else {
            high = (middle, value);
        }
        // Two lines that do not halve what is left are followed by its middle.
        (halve, before) = (high.0 - low.0 > 0.5 * before, width);
    }
    (low.0, high.0)
}

/// How far both values of a crossing may be apart, relative to the second, or to an ε that no answer need be told from.
const NEXT: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bell_is_counted_on_where_every_step_may_be_outside() {
        let bell = || Lattice { entries: vec![(-1, 0.5), (1, 0.5)], infinite: 0.0 };
        let (known, bells) = surely_inside(bell(), 10, 3);
        assert_eq!((known.entries, bells), (bell().entries, 7));
        for (lattice, times, outside) in [(bell(), 1, 1), (bell(), 2, 5), (Lattice::default(), 10, 3)] {
            assert_eq!(surely_inside(lattice, times, outside).0.entries, [(0, 1.0)]);
        }
    }

    #[test]
    fn crossings_are_found_in_a_few_looks() {
        let looks = std::cell::Cell::new(0);
        let looked = |value: f64| {
            looks.set(looks.get() + 1);
            value
        };
        // Smooth, with a kink, without any δ beyond, and from far away on either side.
        let smooth = |epsilon: f64| (-3.0 * epsilon - epsilon * epsilon).exp();
        let kinked =
            |epsilon: f64| if epsilon < 0.5 { 0.9 - epsilon } else { 0.4 * (-9.0 * (epsilon - 0.5)).exp() };
        let ending = |epsilon: f64| (1.0 - epsilon).max(0.0);
        for start in [0.1, 0.49, 0.505, 0.6, 30.0] {
            for (delta, target) in [
                (&smooth as &dyn Fn(f64) -> f64, smooth(0.5)),
                (&kinked, 0.39),
                (&ending, 0.5),
                (&|epsilon: f64| if epsilon < 0.5 { f64::NAN } else { 0.1 }, 0.2),
            ] {
                looks.set(0);
                let (low, high) = crossing(|epsilon| looked(delta(epsilon)), target, start);
                assert!(!(delta(low) <= target) && delta(high) <= target, "{start}: {low} {high}");
                assert!(high - low <= 1e-6 * high && (high - 0.5).abs() < 0.01, "{start}: {low} {high}");
                assert!(looks.get() <= 80, "{start}: {}", looks.get());
            }
            looks.set(0);
            crossing(|epsilon| looked(smooth(epsilon)), smooth(0.5), 0.505);
            assert!(looks.get() <= 8, "{}", looks.get());
        }
        assert_eq!(crossing(|_| 0.1, 0.2, 1.0).0, 0.0);
        assert_eq!(crossing(|_| 0.3, 0.2, 1.0).1, f64::INFINITY);
    }

    /// The bound of the number of steps outside beside the exact binomial tail.
    #[test]
    fn few_steps_are_outside_of_their_bells() {
        for (times, rate) in [(1, 1e-4), (100, 1e-4), (10_000, 1e-4), (1_000_000, 1e-6)] {
            let mean = f64::from(times) * rate;
            let (most, missed) = most_outside(mean, -25.0);
            assert!(missed <= f64::exp(-25.0) && most < 60, "{most} {missed}");
            let (mut mass, mut tail) = ((f64::from(times) * (-rate).ln_1p()).exp(), 0.0);
            for hits in 0..200_u64 {
                tail += if hits > most { mass } else { 0.0 };
                mass *= (f64::from(times) - hits as f64).max(0.0) / (hits as f64 + 1.0) * rate / (1.0 - rate);
            }
            assert!(tail <= missed, "{times} {rate}: {tail} {missed}");
        }
    }
}
