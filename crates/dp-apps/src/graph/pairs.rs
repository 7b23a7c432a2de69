//! Pairs of vertices as coordinates of a vector, and graphs as such vectors.

use ndarray::Array2;
use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::EdgeRef;

use crate::error::{Error, Result, check_length};

/// A change of the weight between two vertices: the weight is added to what is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeUpdate {
    /// One end, counted from 0.
    pub u: usize,
    /// The other end.
    pub v: usize,
    /// What is added.
    pub weight: f64,
}

impl EdgeUpdate {
    /// An update of the weight between `u` and `v`.
    pub fn new(u: usize, v: usize, weight: f64) -> Self {
        Self { u, v, weight }
    }

    /// Refuses a pair that does not exist and a weight outside `[low, high]`.
    pub(super) fn check(&self, pairs: VertexPairs, low: f64, high: f64) -> Result<()> {
        let Self { u, v, weight } = *self;
        pairs.index(u, v)?;
        if (low..=high).contains(&weight) { Ok(()) } else { Err(Error::Weight { u, v, weight, low, high }) }
    }
}

/// The C(V,2) unordered pairs of V vertices, in the order (0,1), (0,2), …, (1,2), ….
///
/// # Example
/// ```
/// use dp_apps::graph::VertexPairs;
/// let pairs = VertexPairs::new(4)?;
/// assert_eq!((pairs.len(), pairs.index(2, 1)?, pairs.index(1, 2)?), (6, 3, 3));
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VertexPairs {
    vertices: usize,
}

/// The most vertices: petgraph counts them in 32 bits, and the number of pairs must fit a `usize`.
pub(super) const MOST_VERTICES: usize = 1 << 20;

impl VertexPairs {
    /// The pairs of `vertices` vertices.
    ///
    /// # Errors
    /// Fewer than 2 vertices, or more than 2^20.
    pub fn new(vertices: usize) -> Result<Self> {
        if !(2..=MOST_VERTICES).contains(&vertices) {
            return Err(Error::Vertices { vertices, range: "2 to 2^20" });
        }
        Ok(Self { vertices })
    }

    /// The number of vertices.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// The number of pairs.
    #[expect(clippy::len_without_is_empty, reason = "there is always a pair")]
    pub fn len(&self) -> usize {
        self.vertices * (self.vertices - 1) / 2
    }

    /// The coordinate of a pair, in either order.
    ///
    /// # Errors
    /// A vertex that does not exist, or the same vertex twice.
    pub fn index(&self, u: usize, v: usize) -> Result<usize> {
        let (low, high) = (u.min(v), u.max(v));
        if high >= self.vertices {
            return Err(Error::UnknownVertex { vertex: high, vertices: self.vertices });
        }
        if low == high {
            return Err(Error::Loop { vertex: low });
        }
        Ok(self.position(low, high))
    }

    /// The coordinate of a pair that is known to exist, `low < high`.
    pub(super) fn position(self, low: usize, high: usize) -> usize {
        low * (2 * self.vertices - low - 1) / 2 + (high - low - 1)
    }

    /// All pairs, in the order of their coordinates.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let vertices = self.vertices;
        (0..vertices).flat_map(move |u| (u + 1..vertices).map(move |v| (u, v)))
    }

    /// The weights of a graph as a vector. Parallel edges add up.
    ///
    /// # Errors
    /// A number of vertices that differs, or an edge from a vertex to itself.
    pub fn weights_of<N>(&self, graph: &UnGraph<N, f64>) -> Result<Vec<f64>> {
        check_length("the graph", graph.node_count(), self.vertices)?;
        let mut weights = vec![0.0; self.len()];
        for edge in graph.edge_references() {
            weights[self.index(edge.source().index(), edge.target().index())?] += edge.weight();
        }
        Ok(weights)
    }

    /// The graph of a weight vector, with an edge for every weight that is not zero.
    ///
    /// # Errors
    /// A wrong number of weights.
    pub fn graph_of(&self, weights: &[f64]) -> Result<UnGraph<(), f64>> {
        check_length("the weight vector", weights.len(), self.len())?;
        let mut graph = UnGraph::with_capacity(self.vertices, 0);
        for _ in 0..self.vertices {
            graph.add_node(());
        }
        for ((u, v), weight) in self.iter().zip(weights) {
            if *weight != 0.0 {
                graph.add_edge(NodeIndex::new(u), NodeIndex::new(v), *weight);
            }
        }
        Ok(graph)
    }

    /// The symmetric matrix of the weights, with a zero diagonal.
    pub(super) fn adjacency(self, weights: &[f64]) -> Array2<f64> {
        let mut matrix = Array2::zeros((self.vertices, self.vertices));
        for ((u, v), weight) in self.iter().zip(weights) {
            matrix[[u, v]] = *weight;
            matrix[[v, u]] = *weight;
        }
        matrix
    }

    /// The Laplacian `L = diag(degrees) - adjacency`.
    pub(super) fn laplacian(self, weights: &[f64]) -> Array2<f64> {
        let mut matrix = Array2::zeros((self.vertices, self.vertices));
        for ((u, v), weight) in self.iter().zip(weights) {
            matrix[[u, v]] = -weight;
            matrix[[v, u]] = -weight;
            matrix[[u, u]] += weight;
            matrix[[v, v]] += weight;
        }
        matrix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_count_through_the_pairs() {
        for vertices in 2..9 {
            let pairs = VertexPairs::new(vertices).unwrap();
            let listed: Vec<(usize, usize)> = pairs.iter().collect();
            assert_eq!(listed.len(), pairs.len());
            for (index, (u, v)) in listed.into_iter().enumerate() {
                assert_eq!((pairs.index(u, v), pairs.index(v, u)), (Ok(index), Ok(index)));
            }
        }
    }

    #[test]
    fn refuses_loops_strangers_and_degenerate_sizes() {
        let pairs = VertexPairs::new(3).unwrap();
        assert_eq!(pairs.index(1, 1), Err(Error::Loop { vertex: 1 }));
        assert_eq!(pairs.index(0, 3), Err(Error::UnknownVertex { vertex: 3, vertices: 3 }));
        for vertices in [0, 1, MOST_VERTICES + 1] {
            assert!(VertexPairs::new(vertices).is_err());
        }
    }

    #[test]
    fn a_graph_survives_the_round_trip_and_parallel_edges_add_up() {
        let pairs = VertexPairs::new(4).unwrap();
        let weights = [0.5, 0.0, -1.0, 2.0, 0.0, 0.25];
        let graph = pairs.graph_of(&weights).unwrap();
        assert_eq!(graph.edge_count(), 4);
        assert_eq!(pairs.weights_of(&graph).unwrap(), weights);
        let mut doubled = graph.clone();
        doubled.add_edge(NodeIndex::new(1), NodeIndex::new(0), 0.25);
        assert_eq!(pairs.weights_of(&doubled).unwrap()[0], 0.75);
        assert!(VertexPairs::new(5).unwrap().weights_of(&graph).is_err());
    }
}
