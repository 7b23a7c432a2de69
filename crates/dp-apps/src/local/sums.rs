//! Messages that are vectors: all prefix sums of a client, with the noise of a plan.
//!
//! # Privacy
//! Two clients' increments v and v' are non-negative with sums at most 1. `‖C(v - v')‖` is convex in (v, v'), so it is largest
//! at corners of the two sets, where v and v' are one-hot or zero: `‖C_i - C_j‖² ≤ ‖C_i‖² + ‖C_j‖² ≤ 2Δ_1²` for columns with
//! non-negative inner products, or `‖C_i‖² ≤ Δ_1²`. Up to 1024 intervals all pairs are looked at: the footprint is a single change
//! of size `max ‖C_i - C_j‖/Δ_1` (or 1 if that is more), from 10 to 16 % less than the √2 that is taken beyond.

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Plan, Relation, Strategy};
use ndarray::Array2;

use crate::counts::{Encoding, root_up};
use crate::error::Result;
use crate::local::GRID;

/// Up to this many intervals all pairs of columns are compared.
const PAIRS_LIMIT: usize = 1024;

/// What the columns of the integer matrix may lie further apart than those of the real one, relative to the longest: its entries
/// have at least 20 bits, so two columns of up to 1024 entries differ from the real ones by `2·32·2^-21` at most, and the longest,
/// which is at least 1 for the count, by half of that.
pub(super) const INTEGER_MARGIN: f64 = 1.0 + 1e-4;

/// Up to this many intervals the integral of the noise is judged by all its covariances.
const INTEGRATED_LIMIT: usize = 1024;

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
pub(super) struct Increments {
    footprint: Footprint,
    last: f64,
}

impl Increments {
    /// The margin covers what the matrix in use may differ from the strategy's own.
    pub(super) fn new(strategy: &dyn Strategy, margin: f64) -> Result<Self> {
        super::check(strategy)?;
        let change = if strategy.steps() <= PAIRS_LIMIT { largest_pair(strategy)? } else { None };
        let weight = change.map_or_else(|| root_up(2.0), |change| (change * margin).next_up());
        let term = Term { weight, participation: Participation::Single };
        let footprint = Footprint::encoded(vec![term], Relation::Replace)?;
        let footprint = if change.is_none() { footprint.needing_non_negative_columns() } else { footprint };
        Ok(Self { footprint, last: 0.0 })
    }

    /// That of one client, for a plan that was made before.
    pub(super) fn of(plan: &Plan) -> Self {
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
        let next = super::corrected(*weight, self.last)?;
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

/// The largest standard deviation of the integral of one message's noise between two borders of intervals, or an
/// upper bound of it.
pub(super) fn integrated_deviation(plan: &Plan) -> Result<f64> {
    let intervals = plan.steps();
    if intervals > INTEGRATED_LIMIT {
        return Ok(plan.sigma() * plan.row_norms().iter().map(f64::sqrt).sum::<f64>() / intervals as f64);
    }
    // Up to σ/w, column k holds the coefficients by which z enters the integral up to border k.
    let decoder = plan.strategy().materialize()?.decoder;
    let mut integrals = Array2::zeros((decoder.ncols(), intervals + 1));
    for (interval, row) in decoder.outer_iter().enumerate() {
        let next = &integrals.column(interval) + &row;
        integrals.column_mut(interval + 1).assign(&next);
    }
    let gram = dp_linalg::dense::gram(integrals.view());
    let pairs = gram.indexed_iter().map(|((a, b), product)| gram[[a, a]] + gram[[b, b]] - 2.0 * product);
    Ok(plan.sigma() * pairs.fold(0.0, f64::max).sqrt() / intervals as f64)
}

#[cfg(test)]
mod tests {
    use dp_mechanisms::{Budget, Method, Problem, Workload};

    use super::*;
    use crate::local::Protocol;

    /// The footprint against every pair of corners, for the matrices of two strategies.
    #[test]
    fn no_two_clients_differ_by_more_than_the_footprint() {
        for name in ["sqrt", "binary-tree"] {
            let strategy =
                name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), 16).unwrap()).unwrap();
            let matrix = strategy.materialize().unwrap().strategy;
            let protocol = Protocol::new(&strategy, Budget::gaussian(1.0).unwrap()).unwrap();
            let bound = protocol.plan().unwrap().sensitivity().squared;
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

    #[test]
    fn integrals_of_noise_have_the_deviation_of_their_coefficients() {
        let deviation = |name: &str, intervals: usize| {
            let strategy = name
                .parse::<Method>()
                .unwrap()
                .build(&Problem::new(Workload::count(), intervals).unwrap())
                .unwrap();
            let protocol = Protocol::new(&strategy, Budget::gaussian(1.0).unwrap()).unwrap();
            integrated_deviation(protocol.plan().unwrap()).unwrap() / protocol.plan().unwrap().sigma()
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
            let squared = idealized.plan().unwrap().sigma().powi(2);
            assert!(squared >= furthest && squared < furthest * (1.0 + 1e-6), "{name}: {squared} {furthest}");
            // The integer matrix may have another scale, which σ and the decoder share: the releases tell. The margin for it adds
            // 2e-4 to the variance, and the coarse column scales of `scaled-blt` up to 4e-4.
            let exact = Protocol::new(&strategy, budget).unwrap();
            for step in [1, intervals] {
                let deviation =
                    |protocol: &Protocol| protocol.plan().unwrap().standard_deviation(step).unwrap();
                let ratio = (deviation(&exact) / deviation(&idealized)).powi(2);
                assert!((1.0..1.0 + 6e-4).contains(&ratio), "{name} at {step}: {ratio}");
            }
        }
        // Orthogonal columns are the worst case, and the square root's are far from it.
        let sensitivity = |name: &str| {
            let problem = Problem::new(Workload::count(), 142).unwrap();
            let strategy = name.parse::<Method>().unwrap().build(&problem).unwrap();
            let longest = strategy.sensitivity(Participation::Single).unwrap().squared.sqrt();
            Protocol::idealized(&strategy, Budget::gaussian(1.0).unwrap()).unwrap().plan().unwrap().sigma()
                / longest
        };
        assert!((sensitivity("identity") - 2.0_f64.sqrt()).abs() < 1e-9);
        assert!(sensitivity("sqrt") < 0.9 * 2.0_f64.sqrt(), "{}", sensitivity("sqrt"));
    }
}
