//! Dyadic decompositions: the binary tree over the leaves 0, 1, …, n-1, for any n.
//!
//! The node of level h and index i covers the leaves `[i 2^h, (i+1) 2^h)`. A node is *complete* when all its leaves are
//! below n; only complete nodes are ever used, so n need not be a power of two and nothing is padded.

use std::ops::Range;

/// A node of the binary tree: `2^level` leaves starting at `index · 2^level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// The height above the leaves, which have level 0.
    pub level: usize,
    /// The position among the nodes of the level, from the left.
    pub index: usize,
}

impl Node {
    /// The leaves under the node.
    pub fn leaves(self) -> Range<usize> {
        self.index << self.level..(self.index + 1) << self.level
    }

    /// Whether all leaves of the node are among the first n.
    pub fn is_complete(self, n: usize) -> bool {
        self.index < n >> self.level
    }

    /// The node above.
    pub fn parent(self) -> Node {
        Node { level: self.level + 1, index: self.index / 2 }
    }

    /// The left and the right child, or nothing for a leaf.
    pub fn children(self) -> Option<[Node; 2]> {
        let level = self.level.checked_sub(1)?;
        Some([Node { level, index: 2 * self.index }, Node { level, index: 2 * self.index + 1 }])
    }
}

/// The number of levels that hold a complete node: `⌊log2 n⌋ + 1`, and 0 for n = 0.
pub fn levels(n: usize) -> usize {
    n.checked_ilog2().map_or(0, |log| log as usize + 1)
}

/// The nodes that tile `[0, t)`, from left to right: one for each 1 in the binary digits of t, the largest first.
///
/// All of them are complete as soon as the first t leaves are there.
///
/// **Complexity** O(popcount(t)), nothing is allocated.
///
/// # Example
/// ```
/// use dp_linalg::tree::{dyadic_nodes, Node};
/// let nodes: Vec<Node> = dyadic_nodes(6).collect();
/// assert_eq!(nodes, [Node { level: 2, index: 0 }, Node { level: 1, index: 2 }]);
/// ```
pub fn dyadic_nodes(t: usize) -> impl Iterator<Item = Node> {
    let mut rest = t;
    std::iter::from_fn(move || {
        let level = rest.checked_ilog2()? as usize;
        rest ^= 1 << level;
        // The digits of t above this one say how many nodes of this size lie to the left.
        Some(Node { level, index: (t >> level) - 1 })
    })
}

/// The number of complete nodes over n leaves, `Σ_h ⌊n/2^h⌋ = 2n - popcount(n)`.
pub fn complete_nodes(n: usize) -> usize {
    2 * n - n.count_ones() as usize
}

/// The position of a node in the order in which nodes become complete as leaves arrive: leaf by leaf, and after each leaf
/// the nodes that it completes from the bottom up.
///
/// The complete nodes over n leaves occupy exactly the positions `0 .. complete_nodes(n)`, for every n.
///
/// **Complexity** O(1).
pub fn position(node: Node) -> usize {
    // The node is complete after leaf `end - 1`; before that leaf came all complete nodes of the first `end - 1` leaves.
    let end = node.leaves().end;
    complete_nodes(end - 1) + node.level
}

/// The node at a [`position`].
///
/// **Complexity** O(log n).
pub fn node_at(position: usize) -> Node {
    // The largest number of leaves whose complete nodes all come before or at the position. It lies in
    // [position/2, position/2 + log], because complete_nodes(m) is between 2m - log2(m) - 1 and 2m - 1.
    let mut leaves = position / 2;
    while complete_nodes(leaves + 1) <= position {
        leaves += 1;
    }
    let level = position - complete_nodes(leaves);
    Node { level, index: ((leaves + 1) >> level) - 1 }
}

/// The complete nodes over n leaves that contain a leaf, from the leaf upwards; none when the leaf is not below n.
///
/// **Complexity** O(log n), nothing is allocated.
pub fn complete_ancestors(leaf: usize, n: usize) -> impl Iterator<Item = Node> {
    (0..levels(n))
        .map(move |level| Node { level, index: leaf >> level })
        .take_while(move |node| node.is_complete(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn levels_of_small_trees() {
        let expected = [0, 1, 2, 2, 3, 3, 3, 3, 4];
        for (n, &levels_of_n) in expected.iter().enumerate() {
            assert_eq!(levels(n), levels_of_n, "n = {n}");
        }
        assert_eq!(levels(usize::MAX), usize::BITS as usize);
    }

    #[test]
    fn every_complete_node_has_its_own_position() {
        for n in 0..200 {
            let mut seen = vec![false; complete_nodes(n)];
            for level in 0..levels(n) {
                for index in 0..n >> level {
                    let node = Node { level, index };
                    assert!(node.is_complete(n));
                    assert!(node.leaves().end <= n);
                    assert!(!std::mem::replace(&mut seen[position(node)], true), "{node:?} twice");
                    assert_eq!(node_at(position(node)), node);
                }
                assert!(!Node { level, index: n >> level }.is_complete(n));
            }
            assert!(seen.iter().all(|&seen| seen), "n = {n}");
        }
    }

    #[test]
    fn ancestors_are_the_complete_nodes_that_contain_the_leaf() {
        for n in 1..70 {
            for leaf in 0..n + 3 {
                let expected: Vec<Node> = (0..levels(n))
                    .flat_map(|level| (0..n >> level).map(move |index| Node { level, index }))
                    .filter(|node| node.leaves().contains(&leaf))
                    .collect();
                assert_eq!(complete_ancestors(leaf, n).collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn family_relations() {
        let node = Node { level: 3, index: 5 };
        let [left, right] = node.children().unwrap();
        assert_eq!((left.parent(), right.parent()), (node, node));
        assert_eq!((left.leaves().start, left.leaves().end), (40, right.leaves().start));
        assert_eq!(right.leaves().end, node.leaves().end);
        assert_eq!(Node { level: 0, index: 7 }.children(), None);
    }

    proptest! {
        #[test]
        fn dyadic_nodes_tile_the_prefix(t in 0_usize..1 << 40) {
            let mut covered = 0;
            let mut count = 0;
            for node in dyadic_nodes(t) {
                prop_assert_eq!(node.leaves().start, covered);
                prop_assert!(node.is_complete(t));
                covered = node.leaves().end;
                count += 1;
            }
            prop_assert_eq!(covered, t);
            prop_assert_eq!(count, t.count_ones());
        }

        #[test]
        fn positions_invert(position_in in 0_usize..1 << 40) {
            prop_assert_eq!(position(node_at(position_in)), position_in);
        }
    }
}
