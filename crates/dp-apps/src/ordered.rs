//! Ordered values: how many lie between two bounds, and below which value a given part of them lies.
//!
//! The values of a public range, in steps of a public resolution, are the leaves of a tree ([`ValueTree`]); a value counts in
//! every node above it. All nodes are counted privately, and least squares over the tree makes the best of all of them: the
//! error of a range or a quantile grows with the logarithm of the number of values, not with the number itself.

use dp_linalg::ranges::ValueTree;
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Relation};

use crate::counts::root_up;
use crate::error::{Error, Result};
use crate::{Counts, Encoding, Estimate};

/// The most values that are told apart.
const MOST_VALUES: f64 = 1e6;

/// Values of people, one each in a step, as counts in a tree of ranges.
///
/// # Example
/// ```
/// use dp_apps::ordered::Ordered;
/// use dp_apps::{Counts, Encoding};
/// use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Seed, Workload};
/// let ages = Ordered::new(0.0, 120.0, 1.0, Relation::ZeroOut, Participation::Single)?;
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 365)?)?;
/// let plan = ages.plan(&strategy, Budget::approximate(1.0, 1e-6)?)?;
/// let mut counts = Counts::new(ages, plan, Seed::from_system()?)?;
/// counts.push(&[31.0, 42.0, 67.0])?;
/// let median = counts.quantile(0.5, 0.05)?;
/// assert!(median.low <= median.value && median.value <= median.high);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Ordered {
    tree: ValueTree,
    low: f64,
    resolution: f64,
    relation: Relation,
    participation: Participation,
}

/// A released quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// The released value, one of those that are told apart.
    pub value: f64,
    /// The true quantile lies between this
    pub low: f64,
    /// and this, except with the stated probability.
    pub high: f64,
}

impl Ordered {
    /// The values `low, low + resolution, …` up to `high`.
    ///
    /// # Errors
    /// Bounds that are not finite or not in order, a resolution that is not above zero, or fewer than 2 or more than a million
    /// values.
    pub fn new(
        low: f64,
        high: f64,
        resolution: f64,
        relation: Relation,
        participation: Participation,
    ) -> Result<Self> {
        if !(low.is_finite() && high.is_finite() && low < high) {
            let range = "finite bounds of values, in order";
            return Err(Error::OutOfRange { what: "width between the bounds", value: high - low, range });
        }
        // The last value may lie a rounding error beyond the bound.
        let steps = ((high - low) / resolution + 1e-9).floor();
        if !(resolution > 0.0 && (1.0..MOST_VALUES).contains(&steps)) {
            let range = "above 0, for 2 to a million values between the bounds";
            return Err(Error::OutOfRange { what: "resolution", value: resolution, range });
        }
        let tree = ValueTree::best(steps as usize + 1);
        Ok(Self { tree, low, resolution, relation, participation })
    }

    /// The number of values that are told apart.
    pub fn values(&self) -> usize {
        self.tree.leaves()
    }

    /// The place of the nearest value.
    fn leaf(&self, value: f64) -> usize {
        // What is below the first becomes 0.
        (((value - self.low) / self.resolution).round() as usize).min(self.values() - 1)
    }

    fn value(&self, leaf: usize) -> f64 {
        self.low + leaf as f64 * self.resolution
    }
}

impl Encoding for Ordered {
    /// One value of each person of a step; values beyond the bounds count as the nearest bound.
    type Event = [f64];

    fn dimension(&self) -> u64 {
        self.tree.nodes() as u64
    }

    /// # Privacy
    /// A value v adds 1 to the L nodes above it, one on each level. *Zero-out* takes them away: `‖u_v‖² = L`, and L in ℓ1.
    /// *Replace* exchanges v for w: the nodes above both stay, and the root always is one of them, so that at most `2(L - 1)`
    /// entries change, each by 1: `‖u_v - u_w‖² ≤ 2(L - 1)`, and as much in ℓ1. Both are attained, the second by values under
    /// different children of the root.
    fn footprint(&self) -> Result<Footprint> {
        let levels = self.tree.levels() as f64;
        let squared = match self.relation {
            Relation::ZeroOut => levels,
            Relation::Replace => 2.0 * (levels - 1.0),
        };
        let term = Term { weight: root_up(squared), participation: self.participation };
        Ok(Footprint::encoded(vec![term], self.relation)?.with_absolute_weights(vec![squared])?)
    }

    fn encode(&mut self, event: &Self::Event, changes: &mut Vec<(u64, f64)>) -> Result<()> {
        if event.iter().any(|value| value.is_nan()) {
            return Err(Error::OutOfRange { what: "a value", value: f64::NAN, range: "a number" });
        }
        let mut leaves: Vec<usize> = event.iter().map(|value| self.leaf(*value)).collect();
        leaves.sort_unstable();
        for same in leaves.chunk_by(PartialEq::eq) {
            changes.extend(self.tree.path(same[0]).map(|node| (node as u64, same.len() as f64)));
        }
        Ok(())
    }

    fn identity(&self) -> String {
        let Self { tree, low, resolution, relation, participation } = self;
        let (values, nodes) = (tree.leaves(), tree.nodes());
        format!(
            "{values} values from {low} in steps of {resolution}, {nodes} nodes, {relation}, {participation}"
        )
    }

    /// Values by their number; the ranges above them have no names.
    fn label(&self, coordinate: u64) -> Option<String> {
        let leaf = usize::try_from(coordinate).ok().filter(|leaf| *leaf < self.values())?;
        Some(self.value(leaf).to_string())
    }

    fn coordinate(&self, label: &str) -> Option<u64> {
        let leaf = self.leaf(label.parse().ok()?);
        (self.value(leaf).to_string() == label).then_some(leaf as u64)
    }
}

impl Counts<Ordered> {
    /// The number of values from one bound to another, both included, and the standard deviation of its noise.
    ///
    /// # Complexity
    /// One question for each node of the tree, and twice as much arithmetic.
    ///
    /// # Errors
    /// Bounds that are not in order, or as [`Counts::ask`].
    pub fn between(&mut self, low: f64, high: f64) -> Result<Estimate> {
        let ordered = self.encoding();
        let place = |value: f64| (value - ordered.low) / ordered.resolution;
        // As close as the rounding of a quotient lets a bound be to one of the values.
        let (first, end) = ((place(low) - 1e-9).ceil().max(0.0), (place(high) + 1e-9).floor() + 1.0);
        let end = end.min(ordered.values() as f64);
        if !(low <= high && first < end) {
            let range = "at least 0, with one of the values in between";
            return Err(Error::OutOfRange { what: "width of the range", value: high - low, range });
        }
        let (first, end) = (first as usize, end as usize);
        let deviation = ordered.tree.range_variance(first, end).sqrt();
        let mut nodes = self.nodes()?;
        self.encoding().tree.least_squares(&mut nodes, &mut Vec::new());
        let value = self.plan().on_grid(nodes[first..end].iter().sum());
        Ok(Estimate { value, standard_deviation: deviation * self.standard_deviation() })
    }

    /// The value below which the part `part` of all values lies; the true one is between its bounds except with probability
    /// `failure`.
    ///
    /// # Complexity
    /// One question for each node of the tree, and a hundred times as much arithmetic for the bounds.
    ///
    /// # Errors
    /// A part outside [0, 1], a probability outside (0, 1), or as [`Counts::ask`].
    pub fn quantile(&mut self, part: f64, failure: f64) -> Result<Quantile> {
        if !(0.0..=1.0).contains(&part) {
            return Err(Error::OutOfRange { what: "part of all values", value: part, range: "from 0 to 1" });
        }
        let coordinates = self.encoding().tree.nodes() as f64;
        let deviations = self.plan().tail_deviations(failure / 2.0, coordinates)?;
        let unit = self.encoding().tree.largest_variance(part).sqrt();
        let margin = deviations * unit * self.standard_deviation();
        let mut nodes = self.nodes()?;
        let ordered = self.encoding();
        let found = ordered.tree.quantile(&mut nodes, &mut Vec::new(), part, margin);
        let [value, low, high] = found.map(|leaf| ordered.value(leaf));
        Ok(Quantile { value, low, high })
    }

    /// The releases of all nodes.
    fn nodes(&mut self) -> Result<Vec<f64>> {
        (0..self.encoding().dimension()).map(|node| self.release_of(node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use dp_mechanisms::{Budget, Method, Problem, Seed, Workload};

    use super::*;

    fn ordered(low: f64, high: f64, resolution: f64, relation: Relation) -> Ordered {
        Ordered::new(low, high, resolution, relation, Participation::Single).unwrap()
    }

    fn vector(encoding: &mut Ordered, values: &[f64]) -> Vec<f64> {
        let mut changes = Vec::new();
        encoding.encode(values, &mut changes).unwrap();
        let mut vector = vec![0.0; encoding.dimension() as usize];
        changes.into_iter().for_each(|(node, change)| vector[node as usize] += change);
        vector
    }

    #[test]
    fn one_person_moves_the_tree_by_exactly_the_footprint() {
        for values in 2_u32..40 {
            let others = [3.0, 0.0, f64::from(values)];
            let mut largest = [0.0_f64; 2];
            let mut encoding = ordered(0.0, f64::from(values - 1), 1.0, Relation::ZeroOut);
            let without = vector(&mut encoding, &others);
            let with: Vec<Vec<f64>> = (0..values)
                .map(|value| vector(&mut encoding, &[others[0], f64::from(value), others[1], others[2]]))
                .collect();
            let squared = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            for one in &with {
                largest[0] = largest[0].max(squared(one, &without));
                for other in &with {
                    largest[1] = largest[1].max(squared(one, other));
                }
            }
            for (relation, squared) in [Relation::ZeroOut, Relation::Replace].into_iter().zip(largest) {
                let footprint = ordered(0.0, f64::from(values - 1), 1.0, relation).footprint().unwrap();
                let weight = footprint.terms()[0].weight;
                assert!(weight * weight >= squared && weight * weight < squared * (1.0 + 1e-14), "{values}");
            }
        }
    }

    /// Counts whose noise is far below one.
    fn quiet(encoding: Ordered) -> Counts<Ordered> {
        let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 3).unwrap()).unwrap();
        let plan = encoding.plan(&strategy, Budget::gaussian(1e4).unwrap()).unwrap();
        Counts::new(encoding, plan, Seed::reproducible(4)).unwrap()
    }

    #[test]
    fn without_noise_ranges_and_quantiles_are_those_of_the_values() {
        let mut counts = quiet(ordered(-1.0, 1.0, 0.1, Relation::Replace));
        assert_eq!(counts.encoding().values(), 21);
        counts.push(&[-0.5, 0.0, 0.04]).unwrap();
        // Beyond the bounds is the bound.
        counts.push(&[0.31, 7.0, -7.0, f64::INFINITY]).unwrap();
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        for (part, expected) in [(0.0, -1.0), (0.2, -0.5), (0.5, 0.0), (0.7, 0.3), (1.0, 1.0)] {
            let found = counts.quantile(part, 0.05).unwrap();
            assert!(close(found.value, expected), "{part}: {found:?}");
            assert!(found.low <= found.value && found.value <= found.high);
        }
        for (low, high, expected) in [(-1.0, 1.0, 7.0), (0.0, 0.3, 3.0), (0.05, 0.25, 0.0), (0.3, 9.0, 3.0)] {
            assert!(close(counts.between(low, high).unwrap().value, expected), "{low} to {high}");
        }
        assert!(close(counts.count("0").unwrap().value, 2.0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let new = |low, high, resolution| {
            Ordered::new(low, high, resolution, Relation::Replace, Participation::Single)
        };
        for (low, high, resolution) in
            [(0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (0.0, f64::NAN, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, -1.0)]
        {
            assert!(new(low, high, resolution).is_err(), "{low} {high} {resolution}");
        }
        assert!(
            new(0.0, 1.0, 2.0).is_err() && new(0.0, 1.0, 1e-7).is_err() && new(0.0, 1.0, f64::NAN).is_err()
        );
        let mut counts = quiet(ordered(0.0, 9.0, 1.0, Relation::ZeroOut));
        assert!(counts.push(&[1.0, f64::NAN]).is_err() && counts.step() == 0);
        counts.push(&[1.0]).unwrap();
        assert!(counts.quantile(1.5, 0.05).is_err() && counts.quantile(0.5, 0.0).is_err());
        assert!(counts.between(3.0, 2.0).is_err() && counts.between(0.2, 0.3).is_err());
    }
}
