//! Ordered values as a tree of ranges: quantiles at the price of a logarithm.
//!
//! A row adds 1 to every node above its value, one per level, so it moves the vector of all nodes by `√levels`. Any range is a
//! sum of few nodes, and least squares over the whole tree makes the best of all of them.

/// A tree over the values `0 .. leaves`, level by level from the leaves to one root.
///
/// # Example
/// ```
/// use dp_linalg::ranges::ValueTree;
/// let tree = ValueTree::best(1000);
/// let mut nodes = vec![0.0; tree.nodes()];
/// for value in [10, 20, 30] {
///     tree.path(value).for_each(|node| nodes[node] += 1.0);
/// }
/// let [median, ..] = tree.quantile(&mut nodes, &mut Vec::new(), 0.5, 0.0);
/// assert_eq!(median, 20);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ValueTree {
    branching: usize,
    /// Where each level begins among the nodes, and how many nodes it has.
    levels: Vec<(usize, usize)>,
}

/// The branchings that are tried.
const BRANCHINGS: [usize; 8] = [2, 3, 4, 5, 6, 8, 12, 16];

/// The number of places at which the error of ranges is looked at.
const PLACES: usize = 33;

/// The same where trees are only compared.
const FEW_PLACES: usize = 5;

impl ValueTree {
    /// The tree over so many values whose ranges have the smallest error.
    pub fn best(leaves: usize) -> Self {
        let cost = |tree: &Self| tree.variance_at(0.5, FEW_PLACES) * tree.levels.len() as f64;
        let trees = BRANCHINGS.iter().map(|branching| Self::new(leaves, *branching));
        let costs = trees.map(|tree| (cost(&tree), tree));
        let best = costs.min_by(|left, right| left.0.total_cmp(&right.0));
        best.map_or_else(|| Self::new(leaves, 2), |(_, tree)| tree)
    }

    fn new(leaves: usize, branching: usize) -> Self {
        let mut levels = vec![(0, leaves)];
        let mut last = (0, leaves);
        while last.1 > 1 {
            last = (last.0 + last.1, last.1.div_ceil(branching));
            levels.push(last);
        }
        Self { branching, levels }
    }

    /// The number of values.
    pub fn leaves(&self) -> usize {
        self.levels[0].1
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.levels.last().map_or(0, |(first, count)| first + count)
    }

    /// The number of nodes above a value, itself included.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The nodes above a value.
    pub fn path(&self, mut leaf: usize) -> impl Iterator<Item = usize> {
        self.levels.iter().map(move |(first, _)| {
            let node = first + leaf;
            leaf /= self.branching;
            node
        })
    }

    /// The value at which the running sum of rows reaches the part `part` of all rows, by the least squares estimate from
    /// measurements of all nodes, whose sums are made to rise; with it those where it reaches `margin` rows less and more.
    ///
    /// # Complexity
    /// Linear in the number of nodes. The measurements are overwritten.
    pub fn quantile(&self, nodes: &mut [f64], scratch: &mut Vec<f64>, part: f64, margin: f64) -> [usize; 3] {
        self.least_squares(nodes, scratch);
        let leaves = &mut nodes[..self.leaves()];
        let rank = part * leaves.iter().sum::<f64>();
        rising_sums(leaves);
        [rank, rank - margin, rank + margin]
            .map(|rank| leaves.partition_point(|sum| *sum < rank).min(leaves.len() - 1))
    }

    /// The least squares estimate of all leaves from measurements of all nodes with equal noise, left in front of the
    /// measurements.
    ///
    /// Upwards, a node's own measurement and the sum of its children are averaged by the inverse of their variances;
    /// downwards, what a node knows beyond the sum of its children is shared among them by their variances.
    ///
    /// # Complexity
    /// Linear in the number of nodes.
    pub fn least_squares(&self, nodes: &mut [f64], variances: &mut Vec<f64>) {
        variances.clear();
        variances.resize(self.nodes(), 1.0);
        for level in 1..self.levels.len() {
            let (below, children) = self.levels[level - 1];
            let (first, count) = self.levels[level];
            for node in 0..count {
                let range =
                    below + node * self.branching..below + ((node + 1) * self.branching).min(children);
                let sum: f64 = nodes[range.clone()].iter().sum();
                let variance: f64 = variances[range].iter().sum();
                let weight = variance / (1.0 + variance);
                nodes[first + node] = weight * nodes[first + node] + (1.0 - weight) * sum;
                variances[first + node] = weight;
            }
        }
        for level in (1..self.levels.len()).rev() {
            let (below, children) = self.levels[level - 1];
            let (first, count) = self.levels[level];
            for node in 0..count {
                let range =
                    below + node * self.branching..below + ((node + 1) * self.branching).min(children);
                let sum: f64 = nodes[range.clone()].iter().sum();
                let variance: f64 = variances[range.clone()].iter().sum();
                let share = (nodes[first + node] - sum) / variance;
                for child in range {
                    nodes[child] += share * variances[child];
                }
            }
        }
    }

    /// The variance of `Σ_v w_v x_v` under unit noise: `wᵀ(TᵀT)⁻¹w`, which is the estimate from w at the leaves and
    /// nothing elsewhere, weighted with w.
    fn variance(&self, weights: impl Fn(usize) -> f64, nodes: &mut Vec<f64>, scratch: &mut Vec<f64>) -> f64 {
        nodes.clear();
        nodes.extend((0..self.leaves()).map(&weights));
        nodes.resize(self.nodes(), 0.0);
        self.least_squares(nodes, scratch);
        nodes[..self.leaves()].iter().enumerate().map(|(leaf, value)| weights(leaf) * value).sum()
    }

    /// The variance of the number of rows in the leaves from `first` to before `end`, under unit noise.
    pub fn range_variance(&self, first: usize, end: usize) -> f64 {
        let weights = |leaf: usize| f64::from(u8::from((first..end).contains(&leaf)));
        self.variance(weights, &mut Vec::new(), &mut Vec::new())
    }

    /// The largest variance, over places looked at, of the number of rows up to a value less the part `q` of all rows.
    pub fn largest_variance(&self, part: f64) -> f64 {
        self.variance_at(part, PLACES)
    }

    fn variance_at(&self, part: f64, count: usize) -> f64 {
        let (mut nodes, mut scratch) = (Vec::new(), Vec::new());
        let leaves = self.leaves();
        let places = (0..count).map(|place| place * leaves.saturating_sub(1) / (count - 1));
        let variances = places.map(|place| {
            let weights = |leaf: usize| if leaf <= place { 1.0 - part } else { -part };
            self.variance(weights, &mut nodes, &mut scratch)
        });
        variances.fold(0.0, f64::max)
    }
}

/// Running sums made to rise: the nearest rising sequence in the largest difference.
fn rising_sums(leaves: &mut [f64]) {
    let mut sum = 0.0;
    for value in leaves.iter_mut() {
        sum += *value;
        *value = sum;
    }
    let mut highest = f64::NEG_INFINITY;
    let lowest: Vec<f64> = {
        let mut lowest = f64::INFINITY;
        let mut from_behind: Vec<f64> = leaves
            .iter()
            .rev()
            .map(|value| {
                lowest = lowest.min(*value);
                lowest
            })
            .collect();
        from_behind.reverse();
        from_behind
    };
    for (value, lowest) in leaves.iter_mut().zip(lowest) {
        highest = value.max(highest);
        *value = f64::midpoint(highest, lowest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_hold_one_node_of_every_level() {
        for (leaves, branching) in [(1, 2), (2, 2), (7, 2), (10, 3), (241, 16)] {
            let tree = ValueTree::new(leaves, branching);
            for leaf in 0..leaves {
                let path: Vec<usize> = tree.path(leaf).collect();
                assert_eq!(path.len(), tree.levels());
                assert_eq!(path[0], leaf);
                assert_eq!(path.last(), Some(&(tree.nodes() - 1)));
            }
        }
    }

    /// Least squares by the normal equations, solved by elimination: another way to the same numbers.
    fn normal_equations(tree: &ValueTree, measured: &[f64]) -> Vec<f64> {
        let n = tree.leaves();
        let mut system = vec![vec![0.0; n + 1]; n];
        let covers: Vec<Vec<usize>> = (0..tree.nodes())
            .map(|node| (0..n).filter(|leaf| tree.path(*leaf).any(|other| other == node)).collect())
            .collect();
        for (node, leaves) in covers.iter().enumerate() {
            for i in leaves {
                for j in leaves {
                    system[*i][*j] += 1.0;
                }
                system[*i][n] += measured[node];
            }
        }
        for pivot in 0..n {
            let row = system[pivot].clone();
            for (i, other) in system.iter_mut().enumerate() {
                if i != pivot {
                    let factor = other[pivot] / row[pivot];
                    other.iter_mut().zip(&row).for_each(|(value, row)| *value -= factor * row);
                }
            }
        }
        (0..n).map(|i| system[i][n] / system[i][i]).collect()
    }

    #[test]
    fn estimates_solve_the_normal_equations() {
        for (leaves, branching) in [(1, 2), (5, 2), (9, 3), (13, 4), (6, 16)] {
            let tree = ValueTree::new(leaves, branching);
            let measured: Vec<f64> = (0..tree.nodes()).map(|i| ((i * 37 + 11) % 23) as f64 - 7.0).collect();
            let expected = normal_equations(&tree, &measured);
            let mut nodes = measured;
            tree.least_squares(&mut nodes, &mut Vec::new());
            for (value, expected) in nodes.iter().zip(&expected) {
                assert!((value - expected).abs() < 1e-9, "{leaves} {branching}: {value} {expected}");
            }
        }
    }

    #[test]
    fn a_tree_of_a_million_values_beats_independent_bins_by_far() {
        let tree = ValueTree::best(1_000_000);
        let deviation = (tree.largest_variance(0.5) * tree.levels() as f64).sqrt();
        // Independent bins: half of the values cost sqrt(500,000) = 707.
        assert!(deviation < 10.0, "{deviation} with branching {}", tree.branching);
    }

    #[test]
    fn sums_rise_and_those_that_rise_stay() {
        let mut rising = vec![1.0, 0.0, 2.0];
        rising_sums(&mut rising);
        assert_eq!(rising, [1.0, 1.0, 3.0]);
        let mut noisy = vec![3.0, -2.0, 1.0, -4.0, 10.0];
        rising_sums(&mut noisy);
        assert!(noisy.windows(2).all(|pair| pair[0] <= pair[1]), "{noisy:?}");
        assert_eq!(noisy, [0.5, 0.5, 0.5, 0.5, 8.0]);
    }
}
