//! Cuts that are extreme in a graph with non-negative weights.

use ndarray::Array2;

use super::pairs::VertexPairs;
use crate::error::{Error, Result, check_length};

/// The vertices in two sides, neither of them empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// For every vertex, whether it is on the first side.
    pub side: Vec<bool>,
    /// The weight across.
    pub weight: f64,
}

impl Partition {
    /// The vertices of the first side.
    pub fn first(&self) -> Vec<usize> {
        (0..self.side.len()).filter(|vertex| self.side[*vertex]).collect()
    }

    /// The vertices of the second side.
    pub fn second(&self) -> Vec<usize> {
        (0..self.side.len()).filter(|vertex| !self.side[*vertex]).collect()
    }

    /// The weight across per pair of vertices on different sides, which [`sparsest_cut`] makes small; infinite if a
    /// side is empty.
    pub fn sparsity(&self) -> f64 {
        let first = self.side.iter().filter(|side| **side).count();
        let separated = first * (self.side.len() - first);
        if separated == 0 { f64::INFINITY } else { self.weight / separated as f64 }
    }

    fn of(adjacency: &Array2<f64>, side: Vec<bool>) -> Self {
        let weight = adjacency
            .indexed_iter()
            .filter(|((u, v), _)| u < v && side[*u] != side[*v])
            .map(|(_, weight)| weight)
            .sum();
        Self { side, weight }
    }
}

/// The adjacency matrix, if no weight is negative.
fn adjacency(pairs: VertexPairs, weights: &[f64]) -> Result<Array2<f64>> {
    check_length("the weight vector", weights.len(), pairs.len())?;
    match weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
        Some(&value) => {
            let range = "not negative; project the released weights first";
            Err(Error::OutOfRange { what: "weight", value, range })
        }
        None => Ok(pairs.adjacency(weights)),
    }
}

/// A cut of the smallest weight, exactly (Stoer and Wagner 1997).
///
/// Each phase lists the vertices, always the one most strongly tied to those listed before; the last one alone is a
/// smallest cut between itself and the one before it, after which the two are merged.
///
/// # Complexity
/// O(V³) time, O(V²) memory.
///
/// # Errors
/// A wrong number of weights, or a negative one.
pub fn min_cut(pairs: VertexPairs, weights: &[f64]) -> Result<Partition> {
    let original = adjacency(pairs, weights)?;
    let vertices = pairs.vertices();
    let mut merged = original.clone();
    let mut members: Vec<Vec<usize>> = (0..vertices).map(|vertex| vec![vertex]).collect();
    let mut alive: Vec<usize> = (0..vertices).collect();
    let mut best = (f64::INFINITY, Vec::new());
    while alive.len() > 1 {
        let mut waiting = alive.clone();
        let mut tie = vec![0.0_f64; vertices];
        let (mut before, mut last) = (alive[0], alive[0]);
        while !waiting.is_empty() {
            let mut strongest = 0;
            for (place, vertex) in waiting.iter().enumerate() {
                if tie[*vertex] > tie[waiting[strongest]] {
                    strongest = place;
                }
            }
            before = last;
            last = waiting.swap_remove(strongest);
            for vertex in &waiting {
                tie[*vertex] += merged[[last, *vertex]];
            }
        }
        if tie[last] < best.0 {
            best = (tie[last], members[last].clone());
        }
        let moved = std::mem::take(&mut members[last]);
        members[before].extend(moved);
        for vertex in &alive {
            let sum = merged[[before, *vertex]] + merged[[last, *vertex]];
            merged[[before, *vertex]] = sum;
            merged[[*vertex, before]] = sum;
        }
        merged[[before, before]] = 0.0;
        alive.retain(|vertex| *vertex != last);
    }
    let mut side = vec![false; vertices];
    for vertex in best.1 {
        side[vertex] = true;
    }
    Ok(Partition::of(&original, side))
}

/// Random-looking hyperplanes that round one solution of the relaxation.
const ROUNDINGS: usize = 32;
/// Sweeps of the relaxation.
const RELAXATION_SWEEPS: usize = 100;

/// A cut of large weight: the low-rank form of the Goemans-Williamson relaxation (each vertex a unit vector, moved
/// against the weighted sum of its neighbours until nothing changes), rounded by hyperplanes, each result improved by
/// moving single vertices. The best is returned.
///
/// At least half of all weight is always across, since no single move improves the result. In practice it is
/// nearly always the maximum on small graphs; there is no certificate.
///
/// # Complexity
/// O(V^2.5) per sweep of the relaxation, O(V²) per round of moves.
///
/// # Errors
/// A wrong number of weights, or a negative one.
pub fn max_cut(pairs: VertexPairs, weights: &[f64]) -> Result<Partition> {
    let adjacency = adjacency(pairs, weights)?;
    let vertices = pairs.vertices();
    let rank = (2.0 * vertices as f64).sqrt().ceil() as usize + 1;
    let mut vectors = Array2::from_shape_fn((vertices, rank), |(i, j)| spread(i * rank + j));
    for mut vector in vectors.rows_mut() {
        let norm = vector.dot(&vector).sqrt();
        vector /= norm;
    }
    for _ in 0..RELAXATION_SWEEPS {
        let mut moved = 0.0_f64;
        for u in 0..vertices {
            let pull = vectors.t().dot(&adjacency.row(u));
            let norm = pull.dot(&pull).sqrt();
            if norm > 0.0 {
                let target = pull / -norm;
                let step = &target - &vectors.row(u);
                moved = moved.max(step.dot(&step));
                vectors.row_mut(u).assign(&target);
            }
        }
        if moved < 1e-12 {
            break;
        }
    }
    let mut best: Option<Partition> = None;
    for rounding in 0..ROUNDINGS {
        let mut side: Vec<bool> = vectors
            .rows()
            .into_iter()
            .map(|vector| {
                let along = |(j, x): (usize, &f64)| x * spread((rounding + vertices) * rank + j);
                vector.iter().enumerate().map(along).sum::<f64>() > 0.0
            })
            .collect();
        improve(&adjacency, &mut side);
        let found = Partition::of(&adjacency, side);
        if best.as_ref().is_none_or(|best| found.weight > best.weight) {
            best = Some(found);
        }
    }
    let mut best = best.unwrap_or_else(|| Partition::of(&adjacency, vec![false; vertices]));
    if best.side.iter().all(|side| *side == best.side[0]) {
        // A graph without weights has no cut to improve; still, both sides are promised to be inhabited.
        best.side[0] = !best.side[0];
    }
    Ok(best)
}

/// Moves single vertices, the best first, until no move makes the cut heavier.
fn improve(adjacency: &Array2<f64>, side: &mut [bool]) {
    let vertices = side.len();
    let mut gain: Vec<f64> = (0..vertices)
        .map(|u| {
            let row = adjacency.row(u);
            (0..vertices).map(|v| if side[u] == side[v] { row[v] } else { -row[v] }).sum()
        })
        .collect();
    // Every move gains more than rounding, so the weight bounds their number; the limit is a second belt.
    for _ in 0..vertices * vertices {
        let Some(best) = (0..vertices).max_by(|a, b| gain[*a].total_cmp(&gain[*b])) else { return };
        if gain[best] <= 1e-12 * adjacency.row(best).sum() {
            return;
        }
        side[best] = !side[best];
        gain[best] = -gain[best];
        for v in (0..vertices).filter(|v| *v != best) {
            let weight = 2.0 * adjacency[[best, v]];
            gain[v] += if side[v] == side[best] { weight } else { -weight };
        }
    }
}

/// Numbers without pattern in (-1, 1), the same at every call: nothing secret or random is decided by them.
fn spread(index: usize) -> f64 {
    let mut bits = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Eigenvectors that are swept for a sparse cut.
const SWEPT: usize = 4;

/// A cut of small weight per pair of separated vertices ([`Partition::sparsity`]): the best prefix of the vertices sorted
/// by one of the eigenvectors of the smallest eigenvalues of the Laplacian, or the minimum cut, improved by moving single vertices while that
/// helps.
///
/// By Cheeger's inequality the second eigenvector alone finds a cut whose sparsity, for a graph with degrees at most D, is
/// at most of the order of the square root of D times the smallest one.
///
/// # Complexity
/// O(V³) time, O(V²) memory.
///
/// # Errors
/// A wrong number of weights, or a negative one.
pub fn sparsest_cut(pairs: VertexPairs, weights: &[f64]) -> Result<Partition> {
    let adjacency = adjacency(pairs, weights)?;
    let vertices = pairs.vertices();
    let eigen = dp_linalg::dense::symmetric_eigen(pairs.laplacian(weights).view())?;
    // A graph in several pieces has cuts of weight 0, which its eigenvectors show only mixed with one another.
    let mut best = min_cut(pairs, weights)?;
    for vector in eigen.vectors.columns().into_iter().take(SWEPT) {
        let mut order: Vec<usize> = (0..vertices).collect();
        order.sort_by(|a, b| vector[*a].total_cmp(&vector[*b]));
        let mut partition = Partition { side: vec![false; vertices], weight: 0.0 };
        for &vertex in &order[..vertices - 1] {
            flip(&adjacency, &mut partition, vertex);
            if partition.sparsity() < best.sparsity() {
                best.clone_from(&partition);
            }
        }
    }
    let mut improved = true;
    for _ in 0..vertices {
        if !std::mem::take(&mut improved) {
            break;
        }
        for vertex in 0..vertices {
            let before = best.clone();
            flip(&adjacency, &mut best, vertex);
            // Less than rounding would be no improvement, and might come back for ever.
            if best.sparsity() < before.sparsity() - 1e-12 * before.sparsity().abs() {
                improved = true;
            } else {
                best = before;
            }
        }
    }
    Ok(Partition::of(&adjacency, best.side))
}

/// Moves a vertex to the other side.
fn flip(adjacency: &Array2<f64>, partition: &mut Partition, vertex: usize) {
    let side = partition.side[vertex];
    for (other, weight) in adjacency.row(vertex).iter().enumerate() {
        if other != vertex {
            partition.weight += if partition.side[other] == side { *weight } else { -weight };
        }
    }
    partition.side[vertex] = !side;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every partition of a small graph.
    fn all(pairs: VertexPairs, weights: &[f64]) -> Vec<Partition> {
        let adjacency = pairs.adjacency(weights);
        let vertices = pairs.vertices();
        (1_u32..1 << (vertices - 1))
            .map(|mask| Partition::of(&adjacency, (0..vertices).map(|v| mask >> v & 1 == 1).collect()))
            .collect()
    }

    fn smallest(values: impl Iterator<Item = f64>) -> f64 {
        values.fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn extreme_cuts_against_all_cuts(
            vertices in 2_usize..9,
            mut weights in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0], 36),
        ) {
            let pairs = VertexPairs::new(vertices).unwrap();
            weights.truncate(pairs.len());
            let all = all(pairs, &weights);
            let min = min_cut(pairs, &weights).unwrap();
            prop_assert!((min.weight - smallest(all.iter().map(|cut| cut.weight))).abs() < 1e-12);
            let heaviest = -smallest(all.iter().map(|cut| -cut.weight));
            let max = max_cut(pairs, &weights).unwrap();
            prop_assert!(max.weight <= heaviest + 1e-12 && max.weight >= 0.98 * heaviest);
            let sparsest = smallest(all.iter().map(Partition::sparsity));
            let found = sparsest_cut(pairs, &weights).unwrap();
            prop_assert!(found.sparsity() >= sparsest - 1e-12);
            prop_assert!(found.sparsity() <= 1.25 * sparsest + 1e-12, "{} {}", found.sparsity(), sparsest);
            for cut in [min, max, found] {
                prop_assert!(!cut.first().is_empty() && !cut.second().is_empty());
            }
        }
    }

    #[test]
    fn two_cliques_with_a_bridge() {
        let pairs = VertexPairs::new(10).unwrap();
        let weights: Vec<f64> = pairs
            .iter()
            .map(|(u, v)| if (u < 5) == (v < 5) { 1.0 } else { f64::from(u8::from((u, v) == (4, 5))) })
            .collect();
        for cut in [min_cut(pairs, &weights).unwrap(), sparsest_cut(pairs, &weights).unwrap()] {
            assert_eq!(cut.weight, 1.0);
            assert!(cut.first() == [0, 1, 2, 3, 4] || cut.second() == [0, 1, 2, 3, 4]);
        }
        // 2 × 3 of the 5 in each clique, and the bridge.
        assert_eq!(max_cut(pairs, &weights).unwrap().weight, 13.0);
    }

    #[test]
    fn refuses_negative_weights() {
        let pairs = VertexPairs::new(3).unwrap();
        for weights in [vec![1.0, -0.1, 0.0], vec![f64::NAN, 0.0, 0.0], vec![1.0]] {
            assert!(min_cut(pairs, &weights).is_err());
            assert!(max_cut(pairs, &weights).is_err());
            assert!(sparsest_cut(pairs, &weights).is_err());
        }
    }
}
