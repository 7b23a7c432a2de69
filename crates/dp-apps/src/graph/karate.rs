//! A small real network for demonstrations and tests.

use petgraph::graph::UnGraph;

/// Zachary's karate club (1977): 34 members and the 78 friendships between them, each of weight 1. The club split in
/// two over a quarrel between member 0, the instructor, and member 33, the administrator.
pub fn karate_club() -> UnGraph<(), f64> {
    UnGraph::from_edges(EDGES.iter().map(|&(u, v)| (u, v, 1.0)))
}

/// The friendships, by the smaller member.
#[rustfmt::skip]
const EDGES: [(u32, u32); 78] = [
    (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8), (0, 10), (0, 11), (0, 12), (0, 13), (0, 17),
    (0, 19), (0, 21), (0, 31), (1, 2), (1, 3), (1, 7), (1, 13), (1, 17), (1, 19), (1, 21), (1, 30), (2, 3), (2, 7),
    (2, 8), (2, 9), (2, 13), (2, 27), (2, 28), (2, 32), (3, 7), (3, 12), (3, 13), (4, 6), (4, 10), (5, 6), (5, 10),
    (5, 16), (6, 16), (8, 30), (8, 32), (8, 33), (9, 33), (13, 33), (14, 32), (14, 33), (15, 32), (15, 33), (18, 32),
    (18, 33), (19, 33), (20, 32), (20, 33), (22, 32), (22, 33), (23, 25), (23, 27), (23, 29), (23, 32), (23, 33),
    (24, 25), (24, 27), (24, 31), (25, 31), (26, 29), (26, 33), (27, 33), (28, 31), (28, 33), (29, 32), (29, 33),
    (30, 32), (30, 33), (31, 32), (31, 33), (32, 33),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_published_shape() {
        let graph = karate_club();
        assert_eq!((graph.node_count(), graph.edge_count()), (34, 78));
        let degree = |vertex: u32| graph.edges(vertex.into()).count();
        assert_eq!((degree(0), degree(33), degree(32), degree(2), degree(11)), (16, 17, 12, 10, 1));
        let pairs: std::collections::BTreeSet<(u32, u32)> = EDGES.into_iter().collect();
        assert_eq!(pairs.len(), 78);
        // The club has 45 triangles.
        let triangles = EDGES
            .iter()
            .map(|&(u, v)| {
                (v + 1..34).filter(|w| pairs.contains(&(u, *w)) && pairs.contains(&(v, *w))).count()
            })
            .sum::<usize>();
        assert_eq!(triangles, 45);
    }
}
