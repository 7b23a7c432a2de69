//! The local model in one dimension: clients that trust nobody, and a server that minimizes convex losses.
//!
//! The unit interval is cut into w intervals of equal width. A client with the loss `ℓ(θ)`, convex and 1-Lipschitz,
//! sends one privatized vector of w numbers: `G(m_1) … G(m_w)` at the midpoints, where `G(θ) = (1 + ℓ'(θ))/2`. As `ℓ'` is
//! non-decreasing in [-1, 1], these are prefix sums of non-negative increments with total at most 1; for the loss
//! `|θ - d|` of a median they are the prefix sums of the one-hot vector of d's interval, and the average over clients is the
//! distribution function. The server averages, integrates and minimizes.
//!
//! # One vector is enough
//! The derivative at a midpoint is "weight to the left minus weight to the right", `2G - 1`. The weight to the right
//! is a sum from the other end, and it is tempting to send that as a second vector with half of the budget. But the weights of
//! one client sum to 1 (what is missing lies beyond the last midpoint), so the sum from the right is `1 - G`: computed
//! from what was sent already. The one vector has the whole budget.
//!
//! # Two kinds of messages
//! A message is a vector with the noise of a plan ([`Protocol::new`]), or the answer to one question that was drawn at random
//! ([`Protocol::answers`]): a few bytes, (ε, 0)-differentially private, and less noise unless ε is large. At 142 intervals and ε = 1 the mean
//! deviation of one message is 4.9 against 13.2 of vectors with δ = 1e-6. [`Protocol::best`] takes the smaller one.
//!
//! # Error
//! The step function that has G's value at the midpoint in each interval differs from G by at most `1/(2w)` when integrated: to
//! the left of a midpoint by the increase of G in the left half, to the right by that in the right half, each over a width of
//! 1/(2w), and all increases sum to at most 1. So the average loss R and its counterpart R' from exact step functions rise
//! between any two places by amounts that differ by at most `1/w`.
//!
//! What is minimized is `R' + 2W`, with `W(θ)` the integral of the noise up to θ. Its minimizer is one of the w + 1 borders
//! of intervals; call it `θ'`, and `θ*` a minimizer of R. Then `R(θ') - R(θ*) ≤ 2 (W(θ*) - W(θ')) + 1/w`. Here `θ*` does not
//! depend on the noise, and between borders W is linear, so for each border `θ'` the difference is a centred Gaussian whose
//! standard deviation is at most s, the largest of `W(b) - W(a)` over borders a, b. With probability 1 - β all w + 1
//! differences are at most `s Φ⁻¹(1 - β/(w + 1))`: the excess risk is at most `2 s Φ⁻¹(1 - β/(w + 1)) + 1/w`.
//!
//! (Averages of answers are no Gaussians: their quantile is Bernstein's, which is proved where they are.)
//!
//! (Messages in exact integers have slopes on a grid of 2^-16 and are multiples of it, which moves the rise by at most two units more,
//! and discrete noise, whose quantile is [`Plan::tail_deviations`].)
//!
//! Correlated noise cancels in the integral: for the square root s is about half of the standard deviation of a single
//! average. By the triangle inequality it is never more than the mean of theirs.

mod answers;
mod sums;

use std::sync::Arc;

use dp_mechanisms::budget::Kind;
use dp_mechanisms::noise::response::{Answer, RandomizedResponse};
use dp_mechanisms::{Budget, Mechanism, Plan, Seed, Strategy};

use crate::counts::Encoding;
use crate::error::{Error, Result};
use answers::Answers;
use sums::{INTEGER_MARGIN, Increments, integrated_deviation};

/// The unit of the slopes that clients send: fine against any noise, and a power of two, so that differences are exact.
const GRID: f64 = 1.0 / 65536.0;

/// What clients and server agree on in public: the number of intervals, and how a client privatizes its message.
///
/// # Example
/// ```
/// use dp_apps::local::{Protocol, Server, intervals};
/// use dp_mechanisms::{Budget, Method, Problem, Seed, Workload};
/// let clients = 500;
/// let strategy =
///     Method::Sqrt.build(&Problem::new(Workload::count(), intervals(1.0, clients)?)?)?;
/// let protocol = Protocol::new(&strategy, Budget::approximate(1.0, 1e-6)?)?;
/// let mut server = Server::new(&protocol);
/// for client in 0..clients {
///     let age = client as f64 / clients as f64;
///     server.receive(&protocol.message(age, Seed::from_system()?)?)?;
/// }
/// let median = server.quantile(0.5)?;
/// assert!((0.0..=1.0).contains(&median));
/// println!("{median:.2}, excess risk at most {:.2}", server.excess_risk(0.05)?);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Protocol {
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Sums(Plan),
    Answers(Answers),
}

/// What one client sends.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// All prefix sums, with noise.
    Sums(Vec<f64>),
    /// The answer to one question.
    Answer(Answer),
}

/// `w = ⌈ε √clients⌉`, at least 2: the width at which rounding to intervals stops to matter beside the noise.
///
/// # Errors
/// ε not finite and positive, no clients, or more than 2^24 intervals.
pub fn intervals(epsilon: f64, clients: usize) -> Result<usize> {
    let number = (epsilon * (clients as f64).sqrt()).ceil();
    if !(epsilon > 0.0 && clients > 0 && number <= f64::from(1 << 24)) {
        return Err(Error::OutOfRange {
            what: "epsilon times the root of the number of clients",
            value: number,
            range: "above 0, at most 2^24",
        });
    }
    Ok((number as usize).max(2))
}

/// Refuses workloads that are no prefix sums.
fn check(strategy: &dyn Strategy) -> Result<()> {
    if *strategy.workload() == dp_mechanisms::Workload::count() {
        return Ok(());
    }
    Err(Error::NotPrefixSums { workload: strategy.workload().to_string() })
}

/// The weight to the left of a midpoint, corrected to the nearest on the grid that is neither below the last one nor above 1.
fn corrected(weight: f64, last: f64) -> Result<f64> {
    if weight.is_nan() {
        return Err(Error::OutOfRange { what: "derivative of a loss", value: weight, range: "[-1, 1]" });
    }
    Ok((weight.clamp(last, 1.0) / GRID).round() * GRID)
}

impl Protocol {
    /// Calibrates every client's message in exact integers; the strategy's steps are the intervals, its workload must be the
    /// count. Whoever sees all bits of a message learns nothing beyond the budget.
    ///
    /// # Errors
    /// Another workload, a strategy that cannot be measured on live data, or what cannot be calibrated.
    pub fn new(strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Self> {
        let plan = Increments::new(strategy.as_ref(), INTEGER_MARGIN)?.plan(strategy, budget)?;
        Ok(Self { form: Form::Sums(plan) })
    }

    /// The same in floating point, where the low bits of a message can give its client away.
    ///
    /// # Errors
    /// Another workload, or what cannot be calibrated.
    pub fn idealized(strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Self> {
        let plan = Increments::new(strategy.as_ref(), 1.0)?.idealized_plan(strategy, budget)?;
        Ok(Self { form: Form::Sums(plan) })
    }

    /// Messages that are the answer to one question each, for a budget of any form: (ε, 0)-differentially private with
    /// [`Budget::pure_epsilon`], drawn in integers.
    ///
    /// # Errors
    /// No intervals or more than 2^24, or an ε below 2^-32.
    pub fn answers(intervals: usize, budget: Budget) -> Result<Self> {
        Ok(Self { form: Form::Answers(Answers::new(intervals, budget)?) })
    }

    /// [`Self::answers`] or, if its mean squared deviation is smaller, [`Self::new`]. For a pure ε always the former.
    ///
    /// # Errors
    /// As they have.
    pub fn best(strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Self> {
        check(strategy.as_ref())?;
        let answers = Self::answers(strategy.steps(), budget)?;
        if matches!(budget.kind(), Kind::Pure { .. }) {
            return Ok(answers);
        }
        let sums = Self::new(strategy, budget)?;
        Ok(if answers.mean_squared_deviation() <= sums.mean_squared_deviation() { answers } else { sums })
    }

    /// The number of intervals.
    pub fn intervals(&self) -> usize {
        match &self.form {
            Form::Sums(plan) => plan.steps(),
            Form::Answers(answers) => answers.intervals(),
        }
    }

    /// The plan of one client, where messages are vectors.
    pub fn plan(&self) -> Option<&Plan> {
        match &self.form {
            Form::Sums(plan) => Some(plan),
            Form::Answers(_) => None,
        }
    }

    /// How questions are drawn and answered, where messages are answers.
    pub fn response(&self) -> Option<&RandomizedResponse> {
        match &self.form {
            Form::Sums(_) => None,
            Form::Answers(answers) => Some(answers.response()),
        }
    }

    /// The standard deviation of what one message says about a midpoint, counted from 1; for answers the root of the second moment,
    /// which is a little more and the same for every client.
    pub fn deviation(&self, midpoint: usize) -> f64 {
        match &self.form {
            Form::Sums(plan) => plan.standard_deviation(midpoint).unwrap_or(0.0),
            Form::Answers(answers) => answers.deviation(midpoint),
        }
    }

    /// The mean over all midpoints of the squared [`Self::deviation`].
    pub fn mean_squared_deviation(&self) -> f64 {
        let squares = (1..=self.intervals()).map(|midpoint| self.deviation(midpoint).powi(2));
        squares.sum::<f64>() / self.intervals() as f64
    }

    /// The middle of an interval, counted from 0.
    pub fn midpoint(&self, interval: usize) -> f64 {
        (interval as f64 + 0.5) / self.intervals() as f64
    }

    /// The message of a client with the value d in [0, 1]: for medians and quantiles. Its noise comes from the seed, which is the
    /// client's own; the guarantee is for one message of each client.
    ///
    /// # Errors
    /// A value outside [0, 1].
    pub fn message(&self, value: f64, seed: Seed) -> Result<Message> {
        if !(0.0..=1.0).contains(&value) {
            return Err(Error::OutOfRange { what: "value of a client", value, range: "[0, 1]" });
        }
        self.noisy(|theta| f64::from(u8::from(value <= theta)), seed)
    }

    /// The message of a client with a convex 1-Lipschitz loss, given by its derivative. Derivatives outside [-1, 1] and
    /// falling ones are corrected to the nearest that is allowed, so that privacy does not depend on them. For the seed see
    /// [`Self::message`].
    ///
    /// # Errors
    /// A derivative that is NaN.
    pub fn message_of_loss(&self, derivative: impl Fn(f64) -> f64, seed: Seed) -> Result<Message> {
        self.noisy(|theta| f64::midpoint(1.0, derivative(theta)), seed)
    }

    fn noisy(&self, weight_to_the_left: impl Fn(f64) -> f64, seed: Seed) -> Result<Message> {
        let weight = |interval| weight_to_the_left(self.midpoint(interval));
        let intervals = 0..self.intervals();
        match &self.form {
            Form::Sums(plan) => {
                let mut encoding = Increments::of(plan);
                let mut changes = Vec::with_capacity(intervals.len());
                for interval in intervals {
                    encoding.encode(&weight(interval), &mut changes)?;
                }
                let mut mechanism = Mechanism::new(plan.clone(), seed)?;
                let mut message = vec![0.0; changes.len()];
                for ((_, change), release) in changes.iter().zip(message.chunks_exact_mut(1)) {
                    mechanism.release(&[*change], release)?;
                    release[0] = plan.on_grid(release[0]);
                }
                Ok(Message::Sums(message))
            }
            Form::Answers(answers) => {
                let (mut last, mut weights) = (0.0, Vec::with_capacity(intervals.len()));
                for interval in intervals {
                    let next = corrected(weight(interval), last)?;
                    weights.push(((next - last) / GRID) as i32);
                    last = next;
                }
                let value = |level, row| answers.value(&weights, level, row);
                Ok(Message::Answer(answers.response().answer(seed, value)))
            }
        }
    }
}

/// The server, which sees messages only.
#[derive(Debug, Clone)]
pub struct Server<'a> {
    protocol: &'a Protocol,
    /// Of the numbers in vectors, or of the signs for each question.
    sums: Vec<f64>,
    clients: usize,
}

impl<'a> Server<'a> {
    /// A server that has received nothing.
    pub fn new(protocol: &'a Protocol) -> Self {
        let numbers = match &protocol.form {
            Form::Sums(plan) => plan.steps(),
            Form::Answers(answers) => answers.questions(),
        };
        Self { protocol, sums: vec![0.0; numbers], clients: 0 }
    }

    /// Takes the message of one client.
    ///
    /// # Errors
    /// A message of another kind or length, an answer to no question, or numbers that are not finite; it is not counted then.
    pub fn receive(&mut self, message: &Message) -> Result<()> {
        match (message, &self.protocol.form) {
            (Message::Sums(message), Form::Sums(_)) => {
                if message.len() != self.sums.len() {
                    return Err(Error::Message { expected: self.sums.len(), actual: message.len() });
                }
                if let Some(value) = message.iter().find(|value| !value.is_finite()) {
                    return Err(Error::OutOfRange {
                        what: "message",
                        value: *value,
                        range: "finite numbers",
                    });
                }
                for (sum, value) in self.sums.iter_mut().zip(message) {
                    *sum += value;
                }
            }
            (Message::Answer(answer), Form::Answers(answers)) => {
                let sum = answers.index(answer).and_then(|index| self.sums.get_mut(index));
                let sum = sum.ok_or(Error::OtherMessage)?;
                *sum += if answer.positive { 1.0 } else { -1.0 };
            }
            _ => return Err(Error::OtherMessage),
        }
        self.clients += 1;
        Ok(())
    }

    /// The number of messages.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// The estimated distribution function at each midpoint, unbiased, with the standard deviation of its noise (at most, for
    /// answers: [`Protocol::deviation`]). (Not monotone, nor within [0, 1]: that would bias it.)
    ///
    /// # Errors
    /// No messages.
    pub fn distribution(&self) -> Result<Vec<(f64, f64)>> {
        self.check()?;
        let clients = self.clients as f64;
        let estimates = match &self.protocol.form {
            Form::Sums(_) => self.sums.iter().map(|sum| sum / clients).collect(),
            Form::Answers(answers) => answers.estimates(&self.sums, clients),
        };
        let deviation = |midpoint| self.protocol.deviation(midpoint) / clients.sqrt();
        Ok((1..).zip(estimates).map(|(midpoint, estimate)| (estimate, deviation(midpoint))).collect())
    }

    /// The minimizer of the integrated step function `G - level`: a quantile of the clients' values.
    ///
    /// # Errors
    /// No messages, or a level outside (0, 1).
    pub fn quantile(&self, level: f64) -> Result<f64> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::OutOfRange {
                what: "quantile",
                value: level,
                range: "strictly between 0 and 1",
            });
        }
        let width = 1.0 / self.protocol.intervals() as f64;
        let (mut risk, mut best, mut minimizer) = (0.0, 0.0, 0.0);
        for (interval, (value, _)) in self.distribution()?.into_iter().enumerate() {
            risk += (value - level) * width;
            if risk < best {
                best = risk;
                minimizer = (interval + 1) as f64 * width;
            }
        }
        Ok(minimizer)
    }

    /// The minimizer of the average loss of the clients.
    ///
    /// # Errors
    /// No messages.
    pub fn minimizer(&self) -> Result<f64> {
        self.quantile(0.5)
    }

    /// With probability `1 - failure` the average loss at [`Self::minimizer`] exceeds its minimum by at most this:
    /// `2 s Φ⁻¹(1 - β/(w + 1)) + 1/w`, see [the module](self). (For a quantile's loss, half of it.) The losses must not
    /// depend on other clients' messages.
    ///
    /// # Complexity
    /// O(w³) up to 1024 intervals, O(w) above, where the bound is wider.
    ///
    /// # Errors
    /// No messages, or a failure probability outside (0, 1).
    pub fn excess_risk(&self, failure: f64) -> Result<f64> {
        self.check()?;
        if !(failure > 0.0 && failure < 1.0) {
            return Err(Error::OutOfRange {
                what: "failure probability",
                value: failure,
                range: "strictly between 0 and 1",
            });
        }
        let (intervals, clients) = (self.protocol.intervals() as f64, self.clients as f64);
        let each = failure / (intervals + 1.0);
        // Slopes and messages on a grid move a rise of the average loss by at most two units.
        let (rise, unit) = match &self.protocol.form {
            Form::Sums(plan) => {
                let deviation = integrated_deviation(plan)? / clients.sqrt();
                // A deviation below the mean would be no bound: with few borders and a large failure probability.
                (
                    deviation * plan.tail_deviations(each, clients)?.max(0.0),
                    plan.release_unit().unwrap_or(0.0),
                )
            }
            Form::Answers(answers) => (answers.integrated_quantile(each, clients), GRID),
        };
        Ok(2.0 * rise + 1.0 / intervals + 2.0 * unit)
    }

    fn check(&self) -> Result<()> {
        if self.clients > 0 {
            return Ok(());
        }
        Err(Error::OutOfRange { what: "number of messages", value: 0.0, range: "at least 1" })
    }
}

#[cfg(test)]
mod tests {
    use dp_mechanisms::{Method, Problem, Workload};

    use super::*;

    fn protocol(intervals: usize, budget: Budget) -> Protocol {
        let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), intervals).unwrap()).unwrap();
        Protocol::new(&strategy, budget).unwrap()
    }

    /// Noise so small that the algorithm itself is seen.
    fn quiet(intervals: usize) -> Protocol {
        protocol(intervals, Budget::gaussian(1e9).unwrap())
    }

    fn gather(protocol: &Protocol, values: &[f64]) -> Vec<Message> {
        values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let seed = Seed::reproducible(index as u64);
                protocol.message(*value, seed).unwrap()
            })
            .collect()
    }

    #[test]
    fn without_noise_quantiles_are_right_to_an_interval() {
        let protocol = quiet(50);
        let values: Vec<f64> = (0..200).map(|i| (f64::from(i) / 200.0).powi(2)).collect();
        let mut server = Server::new(&protocol);
        for message in gather(&protocol, &values) {
            server.receive(&message).unwrap();
        }
        for level in [0.1, 0.5, 0.9] {
            let found = server.quantile(level).unwrap();
            assert!((found - level * level).abs() <= 0.02 + 1e-9, "{level}: {found}");
        }
    }

    #[test]
    fn without_noise_convex_losses_are_minimized() {
        // Losses of Huber's kind around different centres, and a linear one that pushes to the border.
        let protocol = quiet(100);
        let huber = |centre: f64| move |theta: f64| ((theta - centre) / 0.1).clamp(-1.0, 1.0);
        let risk = |theta: f64| {
            [0.2, 0.3, 0.35, 0.9]
                .iter()
                .map(|centre: &f64| {
                    let distance = (theta - centre).abs();
                    if distance <= 0.1 { distance * distance / 0.2 } else { distance - 0.05 }
                })
                .sum::<f64>()
        };
        let mut server = Server::new(&protocol);
        for (index, centre) in [0.2, 0.3, 0.35, 0.9].into_iter().enumerate() {
            let seed = Seed::reproducible(index as u64);
            server.receive(&protocol.message_of_loss(huber(centre), seed).unwrap()).unwrap();
        }
        let best = (0..=1000).map(|i| risk(f64::from(i) / 1000.0)).fold(f64::INFINITY, f64::min);
        let excess = (risk(server.minimizer().unwrap()) - best) / 4.0;
        assert!(excess <= 1.0 / 100.0, "{excess}");
        for (slope, end) in [(1.0, 0.0), (-1.0, 1.0)] {
            let mut server = Server::new(&protocol);
            let message = protocol.message_of_loss(|_| slope, Seed::reproducible(9));
            server.receive(&message.unwrap()).unwrap();
            assert!((server.minimizer().unwrap() - end).abs() < 1e-9);
        }
    }

    /// 400 rounds of 25 clients, seeded; α = 1e-4 two-sided for the mean (3.9 deviations) and for the variance (the
    /// chi-square with 400 degrees lies within 0.74 … 1.3 of its mean with that probability). Power: noise scaled by 2/3
    /// or 3/2 has variance 0.44 or 2.25 of the statement, beyond both limits.
    #[test]
    fn estimates_are_unbiased_with_the_stated_deviation() {
        let answers = Protocol::answers(8, Budget::pure(0.5).unwrap()).unwrap();
        for protocol in [protocol(8, Budget::gaussian(0.5).unwrap()), answers] {
            let values: Vec<f64> = (0..25).map(|i| f64::from(i) / 25.0).collect();
            let rounds = 400;
            let (mut mean, mut square, mut deviation) = (0.0, 0.0, 0.0);
            for round in 0..rounds {
                let mut server = Server::new(&protocol);
                for (index, value) in values.iter().enumerate() {
                    let seed = Seed::reproducible(round * 1000 + index as u64);
                    server.receive(&protocol.message(*value, seed).unwrap()).unwrap();
                }
                let (estimate, stated) = server.distribution().unwrap()[4];
                let truth =
                    values.iter().filter(|value| **value <= protocol.midpoint(4)).count() as f64 / 25.0;
                mean += (estimate - truth) / stated / rounds as f64;
                square += ((estimate - truth) / stated).powi(2) / rounds as f64;
                deviation = stated;
            }
            assert!(mean.abs() < 3.9 / (rounds as f64).sqrt(), "{mean}");
            assert!((0.74..1.3).contains(&square), "{square}");
            assert!(deviation > 0.0);
            assert!(!(0.74..1.3).contains(&(square * 4.0 / 9.0)) && !(0.74..1.3).contains(&(square * 2.25)));
        }
    }

    /// 400 rounds of 4 clients, seeded, with limits and power as above for the variance of the integral over all intervals,
    /// which for this strategy is the largest. The bound of the excess risk with failure 0.2 may break in 80 of 400
    /// rounds and 4 deviations (α = 3e-5) more.
    #[test]
    fn excess_risk_keeps_its_promise() {
        let protocol = protocol(20, Budget::gaussian(1.0).unwrap());
        let values = [0.1, 0.3, 0.35, 0.9];
        let risk = |theta: f64| values.iter().map(|d| (theta - d).abs()).sum::<f64>() / 4.0;
        let (mut square, mut broken) = (0.0, 0.0);
        let rounds = 400;
        for round in 0..rounds {
            let mut server = Server::new(&protocol);
            for (index, value) in values.iter().enumerate() {
                let seed = Seed::reproducible(round * 1000 + index as u64);
                server.receive(&protocol.message(*value, seed).unwrap()).unwrap();
            }
            let truth =
                |interval| values.iter().filter(|value| **value <= protocol.midpoint(interval)).count();
            let noise: f64 = server
                .distribution()
                .unwrap()
                .iter()
                .enumerate()
                .map(|(interval, (estimate, _))| estimate - truth(interval) as f64 / 4.0)
                .sum();
            square += (noise / 20.0 / (integrated_deviation(protocol.plan().unwrap()).unwrap() / 2.0))
                .powi(2)
                / rounds as f64;
            let excess = risk(server.minimizer().unwrap()) - risk(0.3);
            broken += f64::from(u8::from(excess > server.excess_risk(0.2).unwrap()));
        }
        assert!((0.74..1.3).contains(&square), "{square}");
        assert!(!(0.74..1.3).contains(&(square * 4.0 / 9.0)) && !(0.74..1.3).contains(&(square * 2.25)));
        assert!(broken <= 80.0 + 4.0 * 64.0_f64.sqrt(), "{broken}");
    }

    /// 200 rounds of 100 clients: the bound with failure 0.2 may break in 40 of 200 rounds and 4 deviations (α = 3e-5) more. Bernstein's
    /// inequality for the worst border is far from attained, so the bound without the noise has to break.
    #[test]
    fn the_excess_risk_of_answers_keeps_its_promise() {
        let protocol = Protocol::answers(20, Budget::pure(1.0).unwrap()).unwrap();
        let values: Vec<f64> = (0..100).map(|i| (f64::from(i) / 100.0).powi(2)).collect();
        let risk = |theta: f64| values.iter().map(|d| (theta - d).abs()).sum::<f64>() / 100.0;
        let best = (0..=1000).map(|i| risk(f64::from(i) / 1000.0)).fold(f64::INFINITY, f64::min);
        let (mut broken, mut noisy) = (0, 0);
        for round in 0..200 {
            let mut server = Server::new(&protocol);
            for (index, value) in values.iter().enumerate() {
                let seed = Seed::reproducible(round * 1000 + index as u64);
                server.receive(&protocol.message(*value, seed).unwrap()).unwrap();
            }
            let excess = risk(server.minimizer().unwrap()) - best;
            broken += u32::from(excess > server.excess_risk(0.2).unwrap());
            noisy += u32::from(excess > 1.0 / 20.0 + 2.0 * GRID);
        }
        assert!(broken <= 62 && noisy > 40, "{broken}, {noisy}");
    }

    #[test]
    fn the_better_kind_of_message_is_chosen() {
        let sqrt =
            |intervals| Method::Sqrt.build(&Problem::new(Workload::count(), intervals).unwrap()).unwrap();
        for (intervals, budget, answers) in [
            (142, Budget::approximate(1.0, 1e-6), true),
            (142, Budget::approximate(4.0, 1e-6), true),
            (142, Budget::zero_concentrated(0.05), false),
            (142, Budget::gaussian(1.0), false),
            (142, Budget::pure(50.0), true),
            (1, Budget::approximate(1.0, 1e-6), true),
        ] {
            let (strategy, budget) = (sqrt(intervals), budget.unwrap());
            let best = Protocol::best(&strategy, budget).unwrap();
            assert_eq!(best.response().is_some(), answers, "{intervals} intervals, {budget:?}");
            assert_eq!(best.plan().is_some(), !answers);
            if let Ok(sums) = Protocol::new(&strategy, budget) {
                let other = Protocol::answers(intervals, budget).unwrap();
                let least = sums.mean_squared_deviation().min(other.mean_squared_deviation());
                assert_eq!(best.mean_squared_deviation(), least);
                println!(
                    "{intervals} intervals, {budget:?}: vectors {:.3}, answers {:.3}",
                    sums.mean_squared_deviation().sqrt(),
                    other.mean_squared_deviation().sqrt()
                );
            }
        }
    }

    /// Of 600 clients each, the messages near 0 that are multiples of 2^-53: of an idealized client whose value lies to the left
    /// all of them, as 1 plus noise near -1 has no finer bits; of one to the right less than half (below a quarter each, and
    /// more than 40 of them: probability below 1e-3). Exact messages are multiples of something coarser for everybody.
    #[test]
    fn low_bits_of_a_message_betray_its_client_in_the_idealized_mode_only() {
        let strategy = Method::Identity.build(&Problem::new(Workload::count(), 2).unwrap()).unwrap();
        // √2/μ = 1.45.
        let budget = Budget::gaussian(0.975).unwrap();
        let coarse = |protocol: &Protocol, value: f64| {
            let first = |seed| match protocol.message(value, Seed::reproducible(seed)).unwrap() {
                Message::Sums(message) => message[0],
                Message::Answer(_) => f64::NAN,
            };
            let near: Vec<f64> = (0..600).map(first).filter(|sent| sent.abs() < 0.25).collect();
            assert!(near.len() > 40, "{}", near.len());
            let coarse = near.iter().filter(|sent| (**sent * 2.0_f64.powi(53)).fract() == 0.0).count();
            coarse as f64 / near.len() as f64
        };
        let idealized = Protocol::idealized(&strategy, budget).unwrap();
        assert!(coarse(&idealized, 1.0) < 0.5 && coarse(&idealized, 0.0) == 1.0);
        let exact = Protocol::new(&strategy, budget).unwrap();
        assert_eq!((coarse(&exact, 1.0), coarse(&exact, 0.0)), (1.0, 1.0));
    }

    #[test]
    fn nonsense_is_refused() {
        let protocol = quiet(4);
        for bad in [-0.1, 1.1, f64::NAN] {
            assert!(protocol.message(bad, Seed::reproducible(1)).is_err());
        }
        assert!(protocol.message_of_loss(|_| f64::NAN, Seed::reproducible(1)).is_err());
        let mut server = Server::new(&protocol);
        assert!(server.quantile(0.5).is_err() && server.excess_risk(0.1).is_err());
        assert!(server.receive(&Message::Sums(vec![0.0; 3])).is_err());
        assert!(server.receive(&Message::Sums(vec![0.0, 0.0, 0.0, f64::NAN])).is_err());
        let answer = Answer { group: 0, question: 0, positive: true };
        assert_eq!(server.receive(&Message::Answer(answer)), Err(Error::OtherMessage));
        server.receive(&Message::Sums(vec![0.0; 4])).unwrap();
        assert!(server.quantile(1.0).is_err() && server.excess_risk(1.0).is_err());
        assert!(intervals(0.0, 10).is_err() && intervals(1.0, 0).is_err() && intervals(f64::NAN, 3).is_err());
        assert_eq!((intervals(1.0, 100).unwrap(), intervals(0.001, 1).unwrap()), (10, 2));
        let average = Method::Sqrt
            .build(&Problem::new(Workload::average(), 4).unwrap())
            .or_else(|_| Method::Identity.build(&Problem::new(Workload::average(), 4).unwrap()))
            .unwrap();
        assert!(Protocol::new(&average, Budget::gaussian(1.0).unwrap()).is_err());
    }
}
