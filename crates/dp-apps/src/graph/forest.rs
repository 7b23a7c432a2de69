//! A minimum spanning forest under insertions.

use super::pairs::VertexPairs;
use crate::error::{Error, Result};

const NONE: u32 = u32::MAX;

/// The minimum spanning forest of a growing graph.
///
/// A link-cut tree: every vertex and every edge of the forest is a node, paths are splay trees, and every splay
/// subtree knows its heaviest edge. A new edge that closes a cycle replaces the heaviest edge of the cycle.
///
/// # Complexity
/// O(log V) amortized per insertion, O(V) memory; nothing is allocated after construction.
#[derive(Clone)]
pub struct SpanningForest {
    pairs: VertexPairs,
    parent: Vec<u32>,
    children: Vec<[u32; 2]>,
    /// Whether the children of all nodes below (and of the node itself) are still to be exchanged.
    reversed: Vec<bool>,
    /// The weight of an edge node; vertices are lighter than any edge.
    weight: Vec<f64>,
    heaviest: Vec<u32>,
    /// Edge nodes that are not in the forest.
    unused: Vec<u32>,
    /// The way from a splay root down to a node.
    trail: Vec<u32>,
}

/// The edges are data.
impl std::fmt::Debug for SpanningForest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SpanningForest").field("pairs", &self.pairs).finish_non_exhaustive()
    }
}

impl SpanningForest {
    /// The forest of a graph without edges.
    ///
    /// # Errors
    /// Fewer than 2 vertices, or more than 2^20.
    pub fn new(vertices: usize) -> Result<Self> {
        let pairs = VertexPairs::new(vertices)?;
        // A forest has at most V - 1 edges.
        let nodes = 2 * vertices - 1;
        Ok(Self {
            pairs,
            parent: vec![NONE; nodes],
            children: vec![[NONE; 2]; nodes],
            reversed: vec![false; nodes],
            weight: vec![f64::NEG_INFINITY; nodes],
            heaviest: (0..nodes as u32).collect(),
            unused: (vertices as u32..nodes as u32).collect(),
            trail: Vec::with_capacity(nodes),
        })
    }

    /// Inserts an edge and returns the change of the forest's weight: the edge's own weight if it joins two trees,
    /// otherwise the weight minus that of the heaviest edge on the cycle, or 0 if the edge itself is the heaviest.
    ///
    /// # Errors
    /// An unknown vertex, a loop, or a weight that is not finite.
    pub fn insert(&mut self, u: usize, v: usize, weight: f64) -> Result<f64> {
        self.pairs.index(u, v)?;
        if !weight.is_finite() {
            let (low, high) = (f64::MIN, f64::MAX);
            return Err(Error::Weight { u, v, weight, low, high });
        }
        let (u, v) = (u as u32, v as u32);
        self.make_root(u);
        self.access(v);
        let mut change = weight;
        if self.parent[u as usize] != NONE {
            let replaced = self.heaviest[v as usize];
            if self.weight[replaced as usize] <= weight {
                return Ok(0.0);
            }
            change -= self.weight[replaced as usize];
            self.detach(replaced);
            self.unused.push(replaced);
        }
        // Two trees joined by one more edge still fit V - 1 edges, so there is a node left.
        if let Some(edge) = self.unused.pop() {
            self.weight[edge as usize] = weight;
            self.heaviest[edge as usize] = edge;
            self.make_root(u);
            self.parent[u as usize] = edge;
            self.parent[edge as usize] = v;
        }
        Ok(change)
    }

    /// Takes an edge node out of its tree. The path through it has just been accessed.
    fn detach(&mut self, edge: u32) {
        self.splay(edge);
        for child in std::mem::replace(&mut self.children[edge as usize], [NONE; 2]) {
            if child != NONE {
                self.parent[child as usize] = NONE;
            }
        }
        self.parent[edge as usize] = NONE;
    }

    /// Makes a vertex the root of its tree.
    fn make_root(&mut self, node: u32) {
        self.access(node);
        self.reversed[node as usize] ^= true;
    }

    /// Makes the path from the root of the tree to `node` one splay tree, with `node` on top.
    fn access(&mut self, node: u32) {
        let mut below = NONE;
        let mut current = node;
        while current != NONE {
            self.splay(current);
            self.children[current as usize][1] = below;
            self.update(current);
            below = current;
            current = self.parent[current as usize];
        }
        self.splay(node);
    }

    /// Whether the node is on top of its splay tree.
    fn is_top(&self, node: u32) -> bool {
        let parent = self.parent[node as usize];
        parent == NONE || !self.children[parent as usize].contains(&node)
    }

    /// Moves a node to the top of its splay tree.
    fn splay(&mut self, node: u32) {
        self.trail.clear();
        let mut current = node;
        self.trail.push(current);
        while !self.is_top(current) {
            current = self.parent[current as usize];
            self.trail.push(current);
        }
        // Reversals are carried out from the top, so that left and right mean what they say below.
        while let Some(above) = self.trail.pop() {
            self.push_down(above);
        }
        while !self.is_top(node) {
            let parent = self.parent[node as usize];
            if !self.is_top(parent) {
                let same = self.side(node) == self.side(parent);
                self.rotate(if same { parent } else { node });
            }
            self.rotate(node);
        }
    }

    /// Which child of its parent the node is.
    fn side(&self, node: u32) -> usize {
        usize::from(self.children[self.parent[node as usize] as usize][1] == node)
    }

    /// Exchanges a node and its parent.
    fn rotate(&mut self, node: u32) {
        let parent = self.parent[node as usize];
        let grandparent = self.parent[parent as usize];
        let side = self.side(node);
        if !self.is_top(parent) {
            let parent_side = self.side(parent);
            self.children[grandparent as usize][parent_side] = node;
        }
        let inner = self.children[node as usize][1 - side];
        self.children[parent as usize][side] = inner;
        if inner != NONE {
            self.parent[inner as usize] = parent;
        }
        self.children[node as usize][1 - side] = parent;
        self.parent[parent as usize] = node;
        self.parent[node as usize] = grandparent;
        self.update(parent);
        self.update(node);
    }

    fn push_down(&mut self, node: u32) {
        if std::mem::take(&mut self.reversed[node as usize]) {
            self.children[node as usize].swap(0, 1);
            for child in self.children[node as usize] {
                if child != NONE {
                    self.reversed[child as usize] ^= true;
                }
            }
        }
    }

    /// The heaviest edge of a subtree from those of its children.
    fn update(&mut self, node: u32) {
        let mut heaviest = node;
        for child in self.children[node as usize] {
            if child != NONE {
                let candidate = self.heaviest[child as usize];
                if self.weight[candidate as usize] > self.weight[heaviest as usize] {
                    heaviest = candidate;
                }
            }
        }
        self.heaviest[node as usize] = heaviest;
    }
}

#[cfg(test)]
mod tests {
    use petgraph::unionfind::UnionFind;
    use proptest::prelude::*;

    use super::*;

    /// Kruskal's algorithm, from scratch.
    fn kruskal(vertices: usize, edges: &[(usize, usize, f64)]) -> f64 {
        let mut sorted = edges.to_vec();
        sorted.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut trees = UnionFind::<usize>::new(vertices);
        sorted.iter().filter(|(u, v, _)| trees.union(*u, *v)).map(|edge| edge.2).sum()
    }

    proptest! {
        #[test]
        fn follows_kruskal(
            vertices in 2_usize..12,
            edges in prop::collection::vec((0_usize..100, 0_usize..100, 0_u8..20), 0..80),
        ) {
            let mut forest = SpanningForest::new(vertices).unwrap();
            let mut inserted = Vec::new();
            let mut weight = 0.0;
            for (u, v, w) in edges {
                let (u, v, w) = (u % vertices, v % vertices, f64::from(w));
                if u == v {
                    prop_assert!(forest.insert(u, v, w).is_err());
                    continue;
                }
                weight += forest.insert(u, v, w).unwrap();
                inserted.push((u, v, w));
                prop_assert_eq!(weight, kruskal(vertices, &inserted));
            }
        }
    }

    #[test]
    fn a_long_path_closed_to_a_cycle_drops_its_heaviest_edge() {
        let vertices = 20_000;
        let mut forest = SpanningForest::new(vertices).unwrap();
        for u in 0..vertices - 1 {
            let weight = ((u * 7919) % 10_007) as f64;
            assert_eq!(forest.insert(u, u + 1, weight), Ok(weight));
        }
        assert_eq!(forest.insert(0, vertices - 1, 0.5), Ok(0.5 - 10_006.0));
        assert!(forest.insert(0, 1, f64::NAN).is_err());
    }
}
