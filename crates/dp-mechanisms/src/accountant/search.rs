//! Which lattice is fine enough for a question.
//!
//! Nothing here has to be accurate: lattices are chosen by a rough sample of the losses, and made finer until the
//! upper and the lower answer agree. Whatever is chosen, both are bounds.

use super::Bracket;
use super::compose::{Composition, Curve, LARGEST, Side, Tilt};
use super::pair::{Direction, Pair, Resolution, Sample, WIDEST};
use crate::error::{Error, Result};

/// How far upper and lower answers are meant to be apart, relative to the upper one.
pub(super) const TOLERANCE: f64 = 5e-4;

/// How far they may be apart at most: a second lattice costs more than the first, and a thousandth is what is promised.
pub(super) const ACCEPTED: f64 = 8e-4;

/// The smallest ε that is told to a thousandth of itself; no smaller one is told any closer than this one.
pub(super) const SMALLEST: f64 = 1e-3;

/// How far they may be apart on a first look at the direction that is expected to be the better one.
const ROUGH: f64 = 2e-2;

/// How often the lattice is made finer.
const ATTEMPTS: usize = 9;

/// Finer lattices that leave so much of a gap between the answers are not worth finer ones.
pub(super) const STALLED: f64 = 0.9;

/// `-ln` of the error that a window may cause, beside what it is an error of, to begin with.
pub(super) const OUTSIDE: f64 = 13.0;

/// Parts of the saddle's tilt that are tried where the transform would be long.
pub(super) const TILTS: [f64; 9] = [0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02];

/// By how much a lattice that would be too large is made coarser at most.
const COARSER: f64 = 4.0;

/// A transform of so many points is short.
const SHORT: f64 = 4096.0;

/// How far below the rate of Gaussian losses, in logarithms, the rates of bounds are looked for.
const RATES: f64 = 6.0;

/// How far below it they are looked for where a few losses are far larger than the deviation.
const LOWEST_RATES: f64 = 36.0;

/// About the relative error of a transform for each step that is composed.
const TRANSFORM_ERROR: f64 = 5e-14;

/// How large the bounded errors may be beside what they are errors of.
const ERROR_SHARE: f64 = 2e-5;

/// How large errors of the transform may be beside it, for the sake of a short one.
const LARGEST_SHARE: f64 = 1e-4;

/// What is asked of the curve.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    /// ε at this δ.
    Epsilon(f64),
    /// δ at this ε.
    Delta(f64),
}

/// ε of the composition of several pairs at δ.
pub(super) fn epsilon(parts: &[(Pair, u64)], delta: f64) -> Result<Bracket> {
    answer(parts, Question::Epsilon(delta))
}

/// δ of the composition of several pairs at ε.
pub(super) fn delta(parts: &[(Pair, u64)], epsilon: f64) -> Result<Bracket> {
    answer(parts, Question::Delta(epsilon))
}

fn answer(parts: &[(Pair, u64)], question: Question) -> Result<Bracket> {
    parts.iter().try_for_each(|(pair, _)| pair.check())?;
    let remove = Pilot::new(parts, Direction::Remove, question);
    if parts.iter().all(|(pair, _)| pair.is_symmetric()) {
        return remove.bracket();
    }
    let add = Pilot::new(parts, Direction::Add, question);
    let (worse, better) = if remove.guess >= add.guess { (&remove, &add) } else { (&add, &remove) };
    let first = worse.bracket()?;
    let bounded = matches!(question, Question::Epsilon(_)) && better.largest_loss() <= first.upper;
    if bounded || better.is_impossible() {
        return Ok(first);
    }
    // The other direction matters only if it is not better, which a rough lattice can tell.
    let (scale, unit) = better.resolution(ROUGH);
    if better
        .on_lattice(scale, better.divided(unit), false)
        .is_ok_and(|(rough, _)| rough.upper <= first.upper)
    {
        return Ok(first);
    }
    let second = better.bracket()?;
    Ok(Bracket { upper: first.upper.max(second.upper), lower: first.lower.max(second.lower) })
}

/// A rough picture of the losses of a composition in one direction.
#[derive(Clone)]
pub(super) struct Pilot<'a> {
    pub(super) parts: &'a [(Pair, u64)],
    pub(super) direction: Direction,
    pub(super) question: Question,
    pub(super) samples: Vec<Vec<Sample>>,
    pub(super) tail: f64,
    pub(super) tilt: f64,
    /// About the answer.
    pub(super) guess: f64,
    /// `-ln` of the error that a window may cause, beside what it is an error of.
    pub(super) outside: f64,
}

impl<'a> Pilot<'a> {
    pub(super) fn new(parts: &'a [(Pair, u64)], direction: Direction, question: Question) -> Self {
        let mut pilot = Self {
            parts,
            direction,
            question,
            samples: Vec::new(),
            tail: 0.0,
            tilt: 1.0,
            guess: 0.0,
            outside: OUTSIDE,
        };
        match question {
            Question::Epsilon(delta) => pilot.sample(delta),
            Question::Delta(_) => {
                // A first look decides how much of the tails counts.
                pilot.sample(1e-100);
                pilot.optimize();
                pilot.sample(pilot.guess);
            }
        }
        pilot.optimize();
        pilot
    }

    /// ε and ln δ where the integral for δ has its saddle at this tilt.
    ///
    /// `δ = (2πi)⁻¹ ∫ e^{K(s) - sε} / (s (1+s)) ds`, whose integrand has its saddle at θ where `ε = K'(θ) - 1/θ - 1/(1+θ)`.
    fn saddle(&self, tilt: f64) -> (f64, f64) {
        let [value, mean, variance] = self.cumulants(tilt);
        let epsilon = mean - 1.0 / tilt - 1.0 / (1.0 + tilt);
        let curvature = variance + tilt.powi(-2) + (1.0 + tilt).powi(-2);
        let scale = tilt * (1.0 + tilt) * (2.0 * std::f64::consts::PI * curvature).sqrt();
        (epsilon, value - tilt * epsilon - scale.ln())
    }

    /// `K(θ)` and its first two derivatives: mean and variance of the tilted sum of all losses.
    pub(super) fn cumulants(&self, tilt: f64) -> [f64; 3] {
        self.cumulants_of(&self.samples, tilt)
    }

    /// The same for other samples of the same steps.
    pub(super) fn cumulants_of(&self, samples: &[Vec<Sample>], tilt: f64) -> [f64; 3] {
        let mut sums = [0.0; 3];
        for (samples, (_, times)) in samples.iter().zip(self.parts).filter(|(samples, _)| !samples.is_empty())
        {
            for (sum, value) in sums.iter_mut().zip(moments(samples, tilt)) {
                *sum += *times as f64 * value;
            }
        }
        sums
    }

    /// The tilt, window and rates with which the transform is accurate and short and its errors are small beside the curve at the guess.
    ///
    /// With a = -(A + c)/η' and b = (B + c)/η the ends of the window, the error is about
    /// `e^{-c} (e^{-η(ε-a)} + 2 e^{-min(θ,η')(b-ε)})`, which is to be e^-outside of the sum `δ e^{θε - K(θ)}`: c is as small as that
    /// allows.
    fn tilted(&self, unit: f64) -> Tilt {
        let (epsilon, log_delta) = self.point();
        let smallest = self.smallest_sum();
        let (mut best, mut shortest, mut largest) = self.window(self.tilt, epsilon, log_delta, smallest);
        for part in TILTS {
            if largest >= smallest && shortest <= SHORT * unit {
                break;
            }
            let (tilt, length, log_sum) = self.window(part * self.tilt, epsilon, log_delta, smallest);
            let better =
                if largest < smallest { log_sum > largest } else { log_sum >= smallest && length < shortest };
            if better {
                (best, shortest, largest) = (tilt, length, log_sum);
            }
        }
        best
    }

    /// About where the curve is asked for: ε and ln δ.
    pub(super) fn point(&self) -> (f64, f64) {
        match self.question {
            Question::Epsilon(delta) => (self.guess, delta.ln()),
            Question::Delta(epsilon) => (epsilon, self.guess.ln()),
        }
    }

    /// The logarithm of a tilted sum that may be no smaller beside errors of the transform.
    fn smallest_sum(&self) -> f64 {
        let times: f64 = self.parts.iter().map(|(_, times)| *times as f64).sum();
        (TRANSFORM_ERROR * times / LARGEST_SHARE).ln().clamp(-30.0, 0.0)
    }

    /// The window for one tilt, its length, and the logarithm of the sum in it.
    fn window(&self, theta: f64, epsilon: f64, log_delta: f64, smallest: f64) -> (Tilt, f64, f64) {
        let log_sum = (log_delta + theta * epsilon - self.cumulants(theta)[0]).min(0.0);
        // A rough look that found nothing has no window.
        if !log_sum.is_finite() {
            let tilt =
                Tilt { theta, outside: self.outside, rate_below: theta, rate_above: theta, around: epsilon };
            return (tilt, f64::INFINITY, f64::NEG_INFINITY);
        }
        let needed = self.outside - log_sum.max(smallest.max(-40.0));
        let cumulants = |theta: f64| self.cumulants(theta);
        let chernoff = |sign: f64, outside: f64| chernoff(&cumulants, theta, sign, outside, needed);
        let (mut outside, mut below, mut above, mut ends) = (needed, 0.0, 0.0, (0.0, 0.0));
        for _ in 0..2 {
            (below, ends.0) = chernoff(-1.0, outside);
            (above, ends.1) = chernoff(1.0, outside);
            let counted = theta.min(below);
            let from_above = (needed - above * (epsilon + ends.0)) / (1.0 + above / below);
            let from_below = (needed + 0.7 - counted * (ends.1 - epsilon)) / (1.0 + counted / above);
            outside = from_above.max(from_below).clamp(1.0, needed + 0.7);
        }
        let tilt = Tilt { theta, outside, rate_below: below, rate_above: above, around: epsilon };
        let length = ends.0 + outside / below + ends.1 + outside / above;
        let fits = length.is_finite();
        (tilt, if fits { length } else { f64::INFINITY }, if fits { log_sum } else { f64::NEG_INFINITY })
    }

    /// The smallest tilt that is not too low; ε rises and δ falls with the tilt.
    fn search_tilt(&self, too_low: impl Fn(f64, f64) -> bool) -> f64 {
        let (mut low, mut high) = (-12.0_f64, 23.0_f64);
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            let (epsilon, log_delta) = self.saddle(middle.exp());
            if too_low(epsilon, log_delta) { low = middle } else { high = middle }
        }
        f64::midpoint(low, high).exp()
    }

    /// The tilt for the question, and the answer by the saddle point.
    fn optimize(&mut self) {
        self.tilt = match self.question {
            Question::Epsilon(delta) => self.search_tilt(|_, log_delta| log_delta > delta.ln()),
            Question::Delta(target) => self.search_tilt(|epsilon, _| epsilon < target),
        };
        let (epsilon, log_delta) = self.saddle(self.tilt);
        self.guess = match self.question {
            Question::Epsilon(_) => epsilon,
            Question::Delta(_) => log_delta.exp(),
        };
    }

    /// Replaces a guess that turned out to be far too large.
    pub(super) fn correct(&mut self, answer: f64) {
        match self.question {
            Question::Epsilon(_) => self.tilt = self.search_tilt(|epsilon, _| epsilon < answer),
            Question::Delta(_) => {
                self.sample(answer);
                self.optimize();
            }
        }
        self.guess = answer;
    }

    /// Samples the losses as far out as this δ asks for: what is left out of all steps together changes it by a
    /// millionth.
    fn sample(&mut self, delta: f64) {
        let times: f64 = self.parts.iter().map(|(_, times)| *times as f64).sum();
        self.tail = 1e-7 * delta.clamp(1e-200, 1.0) / times;
        self.samples = self.parts.iter().map(|(pair, _)| pair.sample(self.direction, self.tail)).collect();
    }

    /// How far two answers are apart beside the upper one, and beside [`SMALLEST`] for an ε that is smaller.
    pub(super) fn gap(&self, found: &Bracket) -> f64 {
        let smallest = if matches!(self.question, Question::Epsilon(_)) { SMALLEST } else { 0.0 };
        (found.upper - found.lower) / found.upper.max(smallest)
    }

    /// A loss of all steps together that is never exceeded, rounded up: δ is zero there.
    fn largest_loss(&self) -> f64 {
        let losses = self.parts.iter().map(|(pair, times)| *times as f64 * pair.largest_loss(self.direction));
        losses.sum::<f64>() * (1.0 + 1e-12)
    }

    /// Whether the question is about an ε that no loss exceeds.
    fn is_impossible(&self) -> bool {
        matches!(self.question, Question::Delta(epsilon) if epsilon >= self.largest_loss())
    }

    /// Upper and lower answers that agree to the tolerance, or as far as lattices go.
    fn bracket(&self) -> Result<Bracket> {
        if self.is_impossible() {
            return Ok(Bracket { upper: 0.0, lower: 0.0 });
        }
        let mut pilot = self.clone();
        let found = pilot.on_one_lattice();
        if found.as_ref().is_ok_and(|found| !(self.gap(found) > ACCEPTED)) {
            return found;
        }
        match (pilot.on_two_lattices(found.as_ref().ok().copied()), found) {
            (Some(two), Ok(one)) => {
                Ok(Bracket { upper: two.upper.min(one.upper), lower: two.lower.max(one.lower) })
            }
            (Some(two), Err(_)) => Ok(two),
            (None, found) => found,
        }
    }

    /// The same on one lattice, with a guess that is corrected on the way.
    pub(super) fn on_one_lattice(&mut self) -> Result<Bracket> {
        let pilot = self;
        let (mut scale, mut unit) = pilot.resolution(TOLERANCE);
        let mut best: Option<Bracket> = None;
        let mut last_share = f64::INFINITY;
        let (mut last_unit, mut last_gap) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ATTEMPTS {
            let (found, share) = match pilot.on_lattice(scale, pilot.divided(unit), true) {
                Ok(found) => found,
                // The finest lattice that fits, if it is finer than the last.
                Err(error @ Error::OutOfRange { value, .. }) if value > LARGEST as f64 => {
                    let coarser = 1.1 * value / LARGEST as f64;
                    if coarser > COARSER || coarser * unit > 0.8 * last_unit {
                        return best.ok_or(error);
                    }
                    (scale, unit) = (coarser * scale, coarser * unit);
                    continue;
                }
                Err(error) => return best.ok_or(error),
            };
            let alone = pilot.gap(&found);
            let found = match best {
                Some(Bracket { upper, lower }) => {
                    Bracket { upper: upper.min(found.upper), lower: lower.max(found.lower) }
                }
                None => found,
            };
            best = Some(found);
            last_unit = unit;
            let gap = pilot.gap(&found);
            // No gap at all may be 0/0.
            if !(gap > ACCEPTED) {
                break;
            }
            // Where the tilted loss has two modes, the answer may lie between them, and the window must be held more exactly.
            // What is left when that no longer helps is rounding. An error of δ moves ε by its share over θε.
            let negligible = 0.05 * gap * (pilot.tilt * pilot.point().0).min(1.0);
            if !(share < ERROR_SHARE.max(negligible)) && !(share > 0.5 * last_share) {
                last_share = share;
                pilot.outside += (share / ERROR_SHARE).ln().clamp(4.0, 16.0) + 3.0;
                continue;
            }
            // Rare large losses beside many small ones have no single saddle; the answer shows where the curve is needed.
            if found.upper < 0.8 * pilot.guess {
                pilot.correct(found.upper);
                (last_share, last_gap) = (f64::INFINITY, f64::INFINITY);
                (scale, unit) = pilot.resolution(TOLERANCE);
                continue;
            }
            // A finer lattice that is no better, because of errors of the transform, is not mended by a still finer one.
            if alone > STALLED * last_gap && share > negligible {
                break;
            }
            last_gap = alone;
            // The gap is of second order in the cells, once they are small.
            let finer = (0.8 * (TOLERANCE / gap).sqrt()).clamp(0.25, 0.8);
            scale *= finer;
            unit *= finer;
        }
        best.filter(|found| found.upper.is_finite()).ok_or(Error::NoConvergence {
            what: "the accountant",
            gap: f64::INFINITY,
            iterations: ATTEMPTS,
        })
    }

    /// The scale of the cells and the unit of the lattice for which the two answers should be `tolerance` apart.
    fn resolution(&self, tolerance: f64) -> (f64, f64) {
        let points = self.points(&self.samples);
        let [_, mean, square] = self.cumulants(self.tilt);
        let deviation = square.sqrt();
        let period = self.parts.iter().filter_map(|(pair, _)| pair.period()).fold(f64::INFINITY, f64::min);
        if points.is_empty() {
            return (period, period);
        }
        let allowed = self.allowed(tolerance, self.guess.max(0.01 * deviation));
        let allowed = if allowed.is_finite() && allowed > 0.0 { allowed } else { mean.abs().max(1.0) };
        let (scale, unit) = lattice_for(&points, allowed, WIDEST.min(period));
        // A window of twenty deviations must fit on the largest lattice.
        (scale, unit.max(20.0 * deviation / LARGEST as f64))
    }

    /// What `S = Σ p w²` may be over all cells, of width w with tilted mass p, for the two answers to be `tolerance` apart.
    ///
    /// The upper answer is about `(1+θ) S/12` above the truth in ε, and the lower one twice that below (in `ln δ`: θ times as much).
    pub(super) fn allowed(&self, tolerance: f64, epsilon: f64) -> f64 {
        match self.question {
            Question::Epsilon(_) => 4.0 * tolerance * epsilon / (1.0 + self.tilt),
            Question::Delta(_) => 4.0 * tolerance / (self.tilt * (1.0 + self.tilt)),
        }
    }

    /// How wide a cell around ε may be where all of the error of a single step is in it: δ falls like `e^{-slope·ε}` there.
    pub(super) fn widest(&self, tolerance: f64) -> f64 {
        let (epsilon, slope) = match self.question {
            Question::Epsilon(delta) => (self.guess.max(1e-3), -delta.ln() / self.guess.max(1e-3)),
            Question::Delta(epsilon) => (epsilon, -self.guess.ln() / epsilon),
        };
        (8.0 * tolerance * epsilon / (1.0 + slope.max(self.tilt))).sqrt().min(WIDEST)
    }

    /// Samples of the same steps as points for [`lattice_for`].
    pub(super) fn points(&self, samples: &[Vec<Sample>]) -> Vec<Point> {
        let mut points = Vec::new();
        for (samples, (_, times)) in samples.iter().zip(self.parts) {
            let log_moment = moments(samples, self.tilt)[0];
            for sample in samples {
                let mass = (sample.log_mass + self.tilt * sample.loss - log_moment).exp();
                if sample.spacing > 0.0 && mass > 1e-30 {
                    points.push(Point {
                        mass: *times as f64 * mass,
                        width: (sample.spacing / mass).cbrt(),
                        loss: sample.loss.abs(),
                    });
                }
            }
        }
        points
    }

    /// The unit, made smaller so that it divides the first distance of atoms.
    pub(super) fn divided(&self, unit: f64) -> f64 {
        match self.parts.iter().find_map(|(pair, _)| pair.period()) {
            Some(period) => period / (period / unit - 1e-9).ceil().max(1.0),
            None => unit,
        }
    }

    /// How far the losses of all steps together may stand from where their cells put them.
    pub(super) fn slack(&self) -> f64 {
        self.parts.iter().map(|(pair, times)| *times as f64 * pair.slack()).sum()
    }

    /// Both answers on one lattice, the lower one only if it is asked for, and how large the errors of the upper one are.
    fn on_lattice(&self, scale: f64, unit: f64, with_lower: bool) -> Result<(Bracket, f64)> {
        let epsilon = match self.question {
            Question::Epsilon(_) => self.guess.max(1e-3),
            Question::Delta(epsilon) => epsilon,
        };
        let widest = self.widest(TOLERANCE);
        let cells = self
            .parts
            .iter()
            .zip(&self.samples)
            .map(|((pair, times), samples)| {
                let log_moment = moments(samples, self.tilt)[0];
                let resolution = Resolution {
                    unit,
                    scale,
                    widest,
                    near: 3.0 * epsilon,
                    share: f64::INFINITY,
                    tilt: self.tilt,
                    log_moment,
                    tail: self.tail,
                };
                Ok((pair.cells(self.direction, &resolution)?, *times))
            })
            .collect::<Result<Vec<_>>>()?;
        // Sums of losses stand on lattice points that are so far from multiples of the unit.
        let offset: f64 = cells.iter().map(|(cells, times)| *times as f64 * cells.offset).sum();
        let compose = |parts| Composition { unit, parts };
        let mut tilt = self.tilted(unit);
        tilt.around -= offset;
        let upper = compose(cells.iter().map(|(cells, times)| (cells.upper(), *times)).collect());
        // A step about which nothing is known from below may be left out.
        let lowered: Vec<_> = cells
            .iter()
            .map(|(cells, times)| (cells.lower(), *times, cells.offset))
            .filter(|(part, ..)| !part.entries.is_empty())
            .collect();
        let lower_offset: f64 = lowered.iter().map(|(_, times, offset)| *times as f64 * offset).sum();
        let lower = compose(lowered.into_iter().map(|(part, times, _)| (part, times)).collect());
        let slack = self.slack();
        let curve = upper.curve(&tilt)?;
        let upper = self.read(&curve, Side::Upper, offset + slack).unwrap_or(f64::INFINITY);
        let share = curve.error_share(
            match self.question {
                Question::Epsilon(_) => upper,
                Question::Delta(epsilon) => epsilon,
            } - offset,
        );
        let lower = if !with_lower || lower.parts.is_empty() {
            0.0
        } else {
            // A lower bound that does not fit on the lattice is none.
            let curve = lower.curve(&tilt).ok();
            curve.and_then(|curve| self.read(&curve, Side::Lower, lower_offset - slack)).unwrap_or(0.0)
        };
        Ok((Bracket { upper, lower: lower.min(upper) }, share))
    }

    fn read(&self, curve: &Curve, side: Side, slack: f64) -> Option<f64> {
        match self.question {
            Question::Epsilon(delta) => curve.epsilon(delta, side).map(|epsilon| (epsilon + slack).max(0.0)),
            Question::Delta(epsilon) => Some(curve.delta(epsilon - slack, side)),
        }
    }
}

/// A tilted loss that cells are made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Its tilted mass, times the steps that have it.
    mass: f64,
    /// How wide its cells are for a scale of 1.
    width: f64,
    loss: f64,
}

/// The scale of the cells and the unit of a lattice, at most `widest`, for which `Σ p w²` over all cells is `allowed`.
pub(super) fn lattice_for(points: &[Point], allowed: f64, widest: f64) -> (f64, f64) {
    let total: f64 = points.iter().map(|point| point.mass * point.width * point.width).sum();
    // Cells are cheap and lattice points are not: the cells get a tenth.
    let (of_cells, of_unit) = (0.1 * allowed, 0.7 * allowed);
    let scale = (of_cells / total).sqrt();
    // The largest unit that adds no more than the rest: a loss x splits into the ends of its cell with the variance x (unit - x),
    // unit²/6 on average and hardly more than x·unit where most losses are close to a lattice point.
    let excess = |unit: f64| -> f64 {
        let added = |point: &Point| {
            point.mass * (unit * unit.min(6.0 * point.loss) - (scale * point.width).powi(2)).max(0.0)
        };
        points.iter().map(added).sum()
    };
    let (mut low, mut high) = (0.0, widest);
    if excess(high) > of_unit {
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if excess(middle) <= of_unit { low = middle } else { high = middle }
        }
    }
    (scale, high)
}

/// The rate with the nearest end of a window on one side of the sum that is tilted by θ, and that end without the `outside` that it
/// is for: `η K'(θ±η) = K(θ±η) - K(θ) + outside`, whose left side rises faster.
pub(super) fn chernoff(
    cumulants: &impl Fn(f64) -> [f64; 3],
    theta: f64,
    sign: f64,
    outside: f64,
    needed: f64,
) -> (f64, f64) {
    let [log_moment, mean, variance] = cumulants(theta);
    let start = ((2.0 * needed).sqrt() / variance.sqrt().max(1e-9 * mean.abs()).max(1e-12)).ln();
    let too_low = |log_rate: f64| {
        let rate = log_rate.exp();
        let [value, slope, _] = cumulants(theta + sign * rate);
        sign * rate * slope < value - log_moment + outside
    };
    let (mut low, mut high) = (start - RATES, start + 2.0);
    // A few losses that are far larger than the deviation have rates far below those of Gaussian ones.
    while low > start - LOWEST_RATES && !too_low(low) {
        (low, high) = (low - RATES, low);
    }
    while high - low > 0.1 {
        let middle = f64::midpoint(low, high);
        if too_low(middle) { low = middle } else { high = middle }
    }
    let rate = f64::midpoint(low, high).exp();
    (rate, (cumulants(theta + sign * rate)[0] - log_moment) / rate)
}

/// `ln E e^{θL}` of a sample, and mean and variance of the tilted loss.
pub(super) fn moments(samples: &[Sample], tilt: f64) -> [f64; 3] {
    let exponent = |sample: &Sample| sample.log_mass + tilt * sample.loss;
    let largest = samples.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
    let [mut total, mut first, mut second] = [0.0; 3];
    for sample in samples {
        let mass = (exponent(sample) - largest).exp();
        total += mass;
        first += mass * sample.loss;
        second += mass * sample.loss * sample.loss;
    }
    let (mean, square) = (first / total, second / total);
    [largest + total.ln(), mean, (square - mean * mean).max(0.0)]
}
