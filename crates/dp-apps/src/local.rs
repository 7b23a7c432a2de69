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
//! # Privacy
//! Two clients' increments v and v' are non-negative with sums at most 1. `‖C(v - v')‖` is convex in (v, v'), so it is largest
//! at corners of the two sets, where v and v' are one-hot or zero: `‖C_i - C_j‖² ≤ ‖C_i‖² + ‖C_j‖² ≤ 2Δ_1²` for columns with
//! non-negative inner products, or `‖C_i‖² ≤ Δ_1²`. Up to 1024 intervals all pairs are looked at: the footprint is a single change
//! of size `max ‖C_i - C_j‖/Δ_1` (or 1 if that is more), from 10 to 16 % less than the √2 that is taken beyond.
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
//! (Messages in exact integers have slopes on a grid of 2^-16 and are multiples of it, which moves the rise by at most two units more,
//! and discrete noise, whose quantile is [`Plan::tail_deviations`].)
//!
//! Correlated noise cancels in the integral: for the square root s is about half of the standard deviation of a single
//! average. By the triangle inequality it is never more than the mean of theirs.

use std::sync::Arc;

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Budget, Footprint, Mechanism, Participation, Plan, Relation, Seed, Strategy};
use ndarray::Array2;

use crate::counts::{Encoding, root_up};
use crate::error::{Error, Result};

/// Up to this many intervals all pairs of columns are compared.
const PAIRS_LIMIT: usize = 1024;

/// What the columns of the integer matrix may lie further apart than those of the real one, relative to the longest: its entries
/// have at least 20 bits, so two columns of up to 1024 entries differ from the real ones by `2·32·2^-21` at most, and the longest,
/// which is at least 1 for the count, by half of that.
const INTEGER_MARGIN: f64 = 1.0 + 1e-4;

/// Up to this many intervals the integral of the noise is judged by all its covariances.
const INTEGRATED_LIMIT: usize = 1024;

/// The unit of the slopes that clients send: fine against any noise, and a power of two, so that differences are exact.
const GRID: f64 = 1.0 / 65536.0;

/// What clients and server agree on in public: the number of intervals, and the calibrated plan of a client.
///
/// # Example
/// ```
/// use dp_apps::local::{Client, Protocol, Server, intervals};
/// use dp_mechanisms::{Budget, Method, Problem, Seed, Workload};
/// let clients = 500;
/// let strategy =
///     Method::Sqrt.build(&Problem::new(Workload::count(), intervals(1.0, clients)?)?)?;
/// let protocol = Protocol::new(&strategy, Budget::approximate(1.0, 1e-6)?)?;
/// let mut server = Server::new(&protocol);
/// for client in 0..clients {
///     let age = client as f64 / clients as f64;
///     server.receive(&Client::new(&protocol, Seed::from_system()?)?.value(age)?)?;
/// }
/// let median = server.quantile(0.5)?;
/// assert!((0.0..=1.0).contains(&median));
/// println!("{median:.2}, excess risk at most {:.2}", server.excess_risk(0.05)?);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Protocol {
    plan: Plan,
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

/// `max(Δ_1, max ‖C_i - C_j‖)/Δ_1` over all pairs of columns, rounded up; nothing for a strategy whose matrix cannot be looked at.
///
/// # Privacy
/// The Gram matrix of the written-out C is off by less than `(rows + 8) ε` times the longest squared column in every entry, and
/// four such errors are added. What a strategy states as `Δ_1` above its longest column is a charge ηΔ_1 for the matrix that its
/// stream really applies, `‖(C' - C) e_j‖ ≤ ηΔ_1`: a pair pays it twice.
fn largest_pair(strategy: &dyn Strategy) -> Result<Option<f64>> {
    let Ok(factors) = strategy.materialize() else { return Ok(None) };
    let gram = dp_linalg::dense::gram(factors.strategy.view());
    let longest = gram.diag().iter().copied().fold(0.0, f64::max);
    let stated = strategy.sensitivity(Participation::Single)?.squared;
    let slack = 4.0 * longest * (factors.strategy.nrows() as f64 + 8.0) * f64::EPSILON;
    let pairs = gram.indexed_iter().map(|((i, j), product)| gram[[i, i]] + gram[[j, j]] - 2.0 * product);
    let change = (pairs.fold(longest, f64::max) + slack).sqrt();
    let charge = (stated.sqrt() - longest.sqrt()).max(0.0) + longest.sqrt() * slack;
    Ok(Some((((change + 2.0 * charge) / stated.sqrt()) * (1.0 + 4.0 * f64::EPSILON)).max(1.0)))
}

/// What a client says, interval by interval: the weight to the left of the next midpoint in, what it has grown by out.
///
/// # Privacy
/// Weights are corrected to the nearest that do not fall and stay within [0, 1], on a grid; rounding is monotone. So the increments
/// of one client are non-negative with a sum of at most 1 whatever it says, and [the module](self) has the proof of the footprint:
/// one interval loses the client and another gains it, two steps of opposite sign.
struct Increments {
    footprint: Footprint,
    last: f64,
}

impl Increments {
    /// The margin covers what the matrix in use may differ from the strategy's own.
    fn new(strategy: &dyn Strategy, margin: f64) -> Result<Self> {
        if *strategy.workload() != dp_mechanisms::Workload::count() {
            return Err(Error::NotPrefixSums { workload: strategy.workload().to_string() });
        }
        let change = if strategy.steps() <= PAIRS_LIMIT { largest_pair(strategy)? } else { None };
        let weight = change.map_or_else(|| root_up(2.0), |change| (change * margin).next_up());
        let term = Term { weight, participation: Participation::Single };
        let footprint = Footprint::encoded(vec![term], Relation::Replace)?;
        let footprint = if change.is_none() { footprint.needing_non_negative_columns() } else { footprint };
        Ok(Self { footprint, last: 0.0 })
    }

    /// That of one client, for a plan that was made before.
    fn of(plan: &Plan) -> Self {
        Self { footprint: plan.footprint().clone(), last: 0.0 }
    }
}

impl Encoding for Increments {
    type Event = f64;

    fn dimension(&self) -> u64 {
        1
    }

    fn footprint(&self) -> Result<Footprint> {
        Ok(self.footprint.clone())
    }

    fn encode(&mut self, weight: &f64, changes: &mut Vec<(u64, f64)>) -> Result<()> {
        if weight.is_nan() {
            return Err(Error::OutOfRange { what: "derivative of a loss", value: *weight, range: "[-1, 1]" });
        }
        let next = (weight.clamp(self.last, 1.0) / GRID).round() * GRID;
        changes.push((0, next - self.last));
        self.last = next;
        Ok(())
    }

    fn identity(&self) -> String {
        "increments of a client".to_owned()
    }

    fn label(&self, coordinate: u64) -> Option<String> {
        (coordinate == 0).then(|| "weight to the left".to_owned())
    }

    fn coordinate(&self, label: &str) -> Option<u64> {
        (self.label(0).as_deref() == Some(label)).then_some(0)
    }

    fn grid(&self) -> f64 {
        GRID
    }
}

impl Protocol {
    /// Calibrates every client's message in exact integers; the strategy's steps are the intervals, its workload must be the
    /// count. Whoever sees all bits of a message learns nothing beyond the budget.
    ///
    /// # Errors
    /// Another workload, a strategy that cannot be measured on live data, or what cannot be calibrated.
    pub fn new(strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Self> {
        Ok(Self { plan: Increments::new(strategy.as_ref(), INTEGER_MARGIN)?.plan(strategy, budget)? })
    }

    /// The same in floating point, where the low bits of a message can give its client away.
    ///
    /// # Errors
    /// Another workload, or what cannot be calibrated.
    pub fn idealized(strategy: &Arc<dyn Strategy>, budget: Budget) -> Result<Self> {
        Ok(Self { plan: Increments::new(strategy.as_ref(), 1.0)?.idealized_plan(strategy, budget)? })
    }

    /// The number of intervals.
    pub fn intervals(&self) -> usize {
        self.plan.steps()
    }

    /// The plan of one client.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The largest standard deviation of the integral of one message's noise between two borders of intervals, or an
    /// upper bound of it.
    fn integrated_deviation(&self) -> Result<f64> {
        let intervals = self.intervals();
        if intervals > INTEGRATED_LIMIT {
            return Ok(self.plan.sigma() * self.plan.row_norms().iter().map(f64::sqrt).sum::<f64>()
                / intervals as f64);
        }
        // Up to σ/w, column k holds the coefficients by which z enters the integral up to border k.
        let decoder = self.plan.strategy().materialize()?.decoder;
        let mut integrals = Array2::zeros((decoder.ncols(), intervals + 1));
        for (interval, row) in decoder.outer_iter().enumerate() {
            let next = &integrals.column(interval) + &row;
            integrals.column_mut(interval + 1).assign(&next);
        }
        let gram = dp_linalg::dense::gram(integrals.view());
        let pairs = gram.indexed_iter().map(|((a, b), product)| gram[[a, a]] + gram[[b, b]] - 2.0 * product);
        Ok(self.plan.sigma() * pairs.fold(0.0, f64::max).sqrt() / intervals as f64)
    }

    /// The middle of an interval, counted from 0.
    pub fn midpoint(&self, interval: usize) -> f64 {
        (interval as f64 + 0.5) / self.intervals() as f64
    }
}

/// One client, who sends one message and is used up by it.
#[derive(Debug)]
pub struct Client<'a> {
    protocol: &'a Protocol,
    mechanism: Mechanism,
}

impl<'a> Client<'a> {
    /// A client. Where its noise comes from is the seed's.
    ///
    /// # Errors
    /// What the strategy refuses.
    pub fn new(protocol: &'a Protocol, seed: Seed) -> Result<Self> {
        Ok(Self { protocol, mechanism: Mechanism::new(protocol.plan.clone(), seed)? })
    }

    /// The message of a client with the value d in [0, 1]: for medians and quantiles.
    ///
    /// # Errors
    /// A value outside [0, 1].
    pub fn value(self, value: f64) -> Result<Vec<f64>> {
        if !(0.0..=1.0).contains(&value) {
            return Err(Error::OutOfRange { what: "value of a client", value, range: "[0, 1]" });
        }
        self.message(|theta| f64::from(u8::from(value <= theta)))
    }

    /// The message of a client with a convex 1-Lipschitz loss, given by its derivative. Derivatives outside [-1, 1] and
    /// falling ones are corrected to the nearest that is allowed, so that privacy does not depend on them.
    ///
    /// # Errors
    /// A derivative that is NaN.
    pub fn loss(self, derivative: impl Fn(f64) -> f64) -> Result<Vec<f64>> {
        self.message(|theta| f64::midpoint(1.0, derivative(theta)))
    }

    fn message(mut self, weight_to_the_left: impl Fn(f64) -> f64) -> Result<Vec<f64>> {
        let protocol = self.protocol;
        let mut encoding = Increments::of(&protocol.plan);
        let mut changes = Vec::with_capacity(protocol.intervals());
        for interval in 0..protocol.intervals() {
            encoding.encode(&weight_to_the_left(protocol.midpoint(interval)), &mut changes)?;
        }
        let mut message = vec![0.0; changes.len()];
        for ((_, change), release) in changes.iter().zip(message.chunks_exact_mut(1)) {
            self.mechanism.release(&[*change], release)?;
            release[0] = protocol.plan.on_grid(release[0]);
        }
        Ok(message)
    }
}

/// The server, which sees messages only.
#[derive(Debug, Clone)]
pub struct Server<'a> {
    protocol: &'a Protocol,
    sums: Vec<f64>,
    clients: usize,
}

impl<'a> Server<'a> {
    /// A server that has received nothing.
    pub fn new(protocol: &'a Protocol) -> Self {
        Self { protocol, sums: vec![0.0; protocol.intervals()], clients: 0 }
    }

    /// Takes the message of one client.
    ///
    /// # Errors
    /// A message of another length, or one that is not finite; it is not counted then.
    pub fn receive(&mut self, message: &[f64]) -> Result<()> {
        if message.len() != self.sums.len() {
            return Err(Error::Message { expected: self.sums.len(), actual: message.len() });
        }
        if let Some(value) = message.iter().find(|value| !value.is_finite()) {
            return Err(Error::OutOfRange { what: "message", value: *value, range: "finite numbers" });
        }
        for (sum, value) in self.sums.iter_mut().zip(message) {
            *sum += value;
        }
        self.clients += 1;
        Ok(())
    }

    /// The number of messages.
    pub fn clients(&self) -> usize {
        self.clients
    }

    /// The estimated distribution function at each midpoint, unbiased, with the standard deviation of its noise. (Not
    /// monotone, nor within [0, 1]: that would bias it.)
    ///
    /// # Errors
    /// No messages.
    pub fn distribution(&self) -> Result<Vec<(f64, f64)>> {
        self.check()?;
        let root = (self.clients as f64).sqrt();
        let deviation = |step| self.protocol.plan.standard_deviation(step).unwrap_or(0.0) / root;
        Ok(self
            .sums
            .iter()
            .enumerate()
            .map(|(interval, sum)| (sum / self.clients as f64, deviation(interval + 1)))
            .collect())
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
        let intervals = self.protocol.intervals() as f64;
        let deviation = self.protocol.integrated_deviation()? / (self.clients as f64).sqrt();
        // A deviation below the mean would be no bound: with few borders and a large failure probability.
        let plan = &self.protocol.plan;
        let deviations = plan.tail_deviations(failure / (intervals + 1.0), self.clients as f64)?.max(0.0);
        // Slopes and messages on a grid move a rise of the average loss by at most two units.
        let unit = plan.release_unit().unwrap_or(0.0);
        Ok(2.0 * deviation * deviations + 1.0 / intervals + 2.0 * unit)
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

    fn gather(protocol: &Protocol, values: &[f64]) -> Vec<Vec<f64>> {
        values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let seed = Seed::reproducible(index as u64);
                Client::new(protocol, seed).unwrap().value(*value).unwrap()
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
            let client = Client::new(&protocol, Seed::reproducible(index as u64)).unwrap();
            server.receive(&client.loss(huber(centre)).unwrap()).unwrap();
        }
        let best = (0..=1000).map(|i| risk(f64::from(i) / 1000.0)).fold(f64::INFINITY, f64::min);
        let excess = (risk(server.minimizer().unwrap()) - best) / 4.0;
        assert!(excess <= 1.0 / 100.0, "{excess}");
        for (slope, end) in [(1.0, 0.0), (-1.0, 1.0)] {
            let mut server = Server::new(&protocol);
            let client = Client::new(&protocol, Seed::reproducible(9)).unwrap();
            server.receive(&client.loss(|_| slope).unwrap()).unwrap();
            assert!((server.minimizer().unwrap() - end).abs() < 1e-9);
        }
    }

    /// The footprint against every pair of corners, for the matrices of two strategies.
    #[test]
    fn no_two_clients_differ_by_more_than_the_footprint() {
        for name in ["sqrt", "binary-tree"] {
            let strategy =
                name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), 16).unwrap()).unwrap();
            let matrix = strategy.materialize().unwrap().strategy;
            let protocol = Protocol::new(&strategy, Budget::gaussian(1.0).unwrap()).unwrap();
            let bound = protocol.plan().sensitivity().squared;
            let mut worst = 0.0_f64;
            for i in 0..16 {
                worst = worst.max(matrix.column(i).dot(&matrix.column(i)));
                for j in 0..i {
                    let difference = &matrix.column(i) - &matrix.column(j);
                    worst = worst.max(difference.dot(&difference));
                }
            }
            println!("{name}: bound / exact = {:.4}", bound / worst);
            assert!(worst <= bound && bound <= 1.5 * worst, "{name}: {bound} against {worst}");
        }
    }

    /// 400 rounds of 25 clients, seeded; α = 1e-4 two-sided for the mean (3.9 deviations) and for the variance (the
    /// chi-square with 400 degrees lies within 0.74 … 1.3 of its mean with that probability). Power: noise scaled by 2/3
    /// or 3/2 has variance 0.44 or 2.25 of the statement, beyond both limits.
    #[test]
    fn estimates_are_unbiased_with_the_stated_deviation() {
        let protocol = protocol(8, Budget::gaussian(0.5).unwrap());
        let values: Vec<f64> = (0..25).map(|i| f64::from(i) / 25.0).collect();
        let rounds = 400;
        let (mut mean, mut square, mut deviation) = (0.0, 0.0, 0.0);
        for round in 0..rounds {
            let mut server = Server::new(&protocol);
            for (index, value) in values.iter().enumerate() {
                let client = Client::new(&protocol, Seed::reproducible(round * 1000 + index as u64)).unwrap();
                server.receive(&client.value(*value).unwrap()).unwrap();
            }
            let (estimate, stated) = server.distribution().unwrap()[4];
            let truth = values.iter().filter(|value| **value <= protocol.midpoint(4)).count() as f64 / 25.0;
            mean += (estimate - truth) / stated / rounds as f64;
            square += ((estimate - truth) / stated).powi(2) / rounds as f64;
            deviation = stated;
        }
        assert!(mean.abs() < 3.9 / (rounds as f64).sqrt(), "{mean}");
        assert!((0.74..1.3).contains(&square), "{square}");
        assert!(deviation > 0.0);
        assert!(!(0.74..1.3).contains(&(square * 4.0 / 9.0)) && !(0.74..1.3).contains(&(square * 2.25)));
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
                server.receive(&Client::new(&protocol, seed).unwrap().value(*value).unwrap()).unwrap();
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
            square +=
                (noise / 20.0 / (protocol.integrated_deviation().unwrap() / 2.0)).powi(2) / rounds as f64;
            let excess = risk(server.minimizer().unwrap()) - risk(0.3);
            broken += f64::from(u8::from(excess > server.excess_risk(0.2).unwrap()));
        }
        assert!((0.74..1.3).contains(&square), "{square}");
        assert!(!(0.74..1.3).contains(&(square * 4.0 / 9.0)) && !(0.74..1.3).contains(&(square * 2.25)));
        assert!(broken <= 80.0 + 4.0 * 64.0_f64.sqrt(), "{broken}");
    }

    #[test]
    fn integrals_of_noise_have_the_deviation_of_their_coefficients() {
        let deviation = |name: &str, intervals: usize| {
            let strategy = name
                .parse::<Method>()
                .unwrap()
                .build(&Problem::new(Workload::count(), intervals).unwrap())
                .unwrap();
            let protocol = Protocol::new(&strategy, Budget::gaussian(1.0).unwrap()).unwrap();
            protocol.integrated_deviation().unwrap() / protocol.plan().sigma()
        };
        // z_1 enters both averages of the identity, z_2 the second: (2 z_1 + z_2)/2.
        assert!((deviation("identity", 2) - 5.0_f64.sqrt() / 2.0).abs() < 1e-12);
        // Above the limit, the mean of the norms 1, √2, √3, …
        let many = INTEGRATED_LIMIT + 1;
        let mean = (1..=many).map(|t| (t as f64).sqrt()).sum::<f64>() / many as f64;
        assert!((deviation("identity", many) - mean).abs() < 1e-9 * mean);
        // The square root: 0.8 by an independent computation, where a single average has 1.56.
        assert!((deviation("sqrt", 142) - 0.799_295_221_281_77).abs() < 1e-9);
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
            let first = |seed| {
                let client = Client::new(protocol, Seed::reproducible(seed)).unwrap();
                client.value(value).unwrap()[0]
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
    fn the_noise_is_that_of_the_two_columns_furthest_apart() {
        for (name, intervals) in
            [("sqrt", 2), ("sqrt", 142), ("scaled-blt", 100), ("binary-tree", 13), ("identity", 7)]
        {
            let problem = Problem::new(Workload::count(), intervals).unwrap();
            let strategy = name.parse::<Method>().unwrap().build(&problem).unwrap();
            let matrix = strategy.materialize().unwrap().strategy;
            let mut furthest = 0.0_f64;
            for left in matrix.columns() {
                furthest = furthest.max(left.iter().map(|value| value * value).sum());
                for right in matrix.columns() {
                    let distance: f64 = left.iter().zip(&right).map(|(a, b)| (a - b).powi(2)).sum();
                    furthest = furthest.max(distance);
                }
            }
            let budget = Budget::gaussian(1.0).unwrap();
            let idealized = Protocol::idealized(&strategy, budget).unwrap();
            let squared = idealized.plan().sigma().powi(2);
            assert!(squared >= furthest && squared < furthest * (1.0 + 1e-6), "{name}: {squared} {furthest}");
            // The integer matrix may have another scale, which σ and the decoder share: the releases tell. The margin for it adds
            // 2e-4 to the variance, and the coarse column scales of `scaled-blt` up to 4e-4.
            let exact = Protocol::new(&strategy, budget).unwrap();
            for step in [1, intervals] {
                let deviation = |protocol: &Protocol| protocol.plan().standard_deviation(step).unwrap();
                let ratio = (deviation(&exact) / deviation(&idealized)).powi(2);
                assert!((1.0..1.0 + 6e-4).contains(&ratio), "{name} at {step}: {ratio}");
            }
        }
        // Orthogonal columns are the worst case, and the square root's are far from it.
        let sensitivity = |name: &str| {
            let problem = Problem::new(Workload::count(), 142).unwrap();
            let strategy = name.parse::<Method>().unwrap().build(&problem).unwrap();
            let longest = strategy.sensitivity(Participation::Single).unwrap().squared.sqrt();
            Protocol::idealized(&strategy, Budget::gaussian(1.0).unwrap()).unwrap().plan().sigma() / longest
        };
        assert!((sensitivity("identity") - 2.0_f64.sqrt()).abs() < 1e-9);
        assert!(sensitivity("sqrt") < 0.9 * 2.0_f64.sqrt(), "{}", sensitivity("sqrt"));
    }

    #[test]
    fn nonsense_is_refused() {
        let protocol = quiet(4);
        for bad in [-0.1, 1.1, f64::NAN] {
            assert!(Client::new(&protocol, Seed::reproducible(1)).unwrap().value(bad).is_err());
        }
        assert!(Client::new(&protocol, Seed::reproducible(1)).unwrap().loss(|_| f64::NAN).is_err());
        let mut server = Server::new(&protocol);
        assert!(server.quantile(0.5).is_err() && server.excess_risk(0.1).is_err());
        assert!(server.receive(&[0.0; 3]).is_err() && server.receive(&[0.0, 0.0, 0.0, f64::NAN]).is_err());
        server.receive(&[0.0; 4]).unwrap();
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
