//! Functions of a growing graph, released through their difference sequence.
//!
//! Of a function `f` the steps `f_t - f_{t-1}` go into the mechanism, whose prefix sums are `f` again. If one edge
//! adds at most Γ⁺ to the difference sequence `d` and takes at most Γ⁻ from it, both in **ℓ1**, then for every strategy C
//! whose columns have non-negative inner products
//!
//! `‖C d‖² = ‖C d⁺‖² + ‖C d⁻‖² - 2⟨C d⁺, C d⁻⟩ ≤ ((Γ⁺)² + (Γ⁻)²)·Δ_1²`,
//!
//! by the triangle inequality for each sign. For any other strategy `‖C d‖ ≤ (Γ⁺ + Γ⁻)·Δ_1` is all there is, up to √2 more.
//! A bound of d in ℓ2 would not do: changes of one sign in many steps add up.

use std::collections::HashSet;

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Relation};

use super::forest::SpanningForest;
use super::pairs::{EdgeUpdate, MOST_VERTICES, VertexPairs};
use crate::counts::root_up;
use crate::error::{Error, Result, check_length};

/// A function of a graph that only grows.
///
/// The first insertion of a pair of vertices counts, with its weight; later ones of the same pair are ignored. What is
/// protected is an *edge*: a pair of vertices with all its insertions.
///
/// | function | Γ⁺, Γ⁻: what one edge adds to the difference sequence and takes from it (ℓ1, per coordinate) | Δ/Δ_1 |
/// |---|---|---|
/// | edges | 1, 0 | 1 |
/// | minimum spanning forest, weights in [0, W] | W, W | √2·W |
/// | triangles, degrees bounded by D | D-1, 2(D-1) | √5·(D-1) |
/// | k-stars, degrees bounded by D | 2·C(D-1, k-1), the same | 2√2·C(D-1, k-1) |
/// | vertices of degree at least τ | 2, 2 | 2√2 |
/// | degree histogram up to D | 2, 2, in each of D coordinates | 2√2·√D |
///
/// The proofs stand at [`GraphFunction::footprint`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum GraphFunction {
    /// The number of edges.
    Edges,
    /// The weight of a minimum spanning forest.
    SpanningForest {
        /// W: weights are between 0 and this.
        largest_weight: f64,
    },
    /// The number of triangles among the edges that are within the first D at *both* of their ends.
    Triangles {
        /// D, at least 2.
        degree_bound: usize,
    },
    /// The number of stars: a centre and `leaves` of its first D neighbours, `Σ_v C(min(deg v, D), k)`.
    Stars {
        /// k, at least 1.
        leaves: usize,
        /// D, at least k.
        degree_bound: usize,
    },
    /// The number of vertices with at least so many neighbours.
    HighDegree {
        /// τ, at least 1.
        threshold: usize,
    },
    /// For j = 1 … D the number of vertices of degree at least j; [`degree_histogram`] makes a histogram of it.
    DegreeHistogram {
        /// D, at least 1.
        degree_bound: usize,
    },
}

impl GraphFunction {
    /// The number of coordinates: 1, or D for the degree histogram.
    pub fn dimension(&self) -> usize {
        match self {
            Self::DegreeHistogram { degree_bound } => *degree_bound,
            _ => 1,
        }
    }

    /// Whether [`degree_histogram`] makes bins of what is released.
    pub(crate) fn is_histogram(&self) -> bool {
        matches!(self, Self::DegreeHistogram { .. })
    }

    /// Γ⁺ and Γ⁻: what an edge adds to the difference sequence of a coordinate and what it takes from it, each in ℓ1.
    ///
    /// # Errors
    /// Parameters outside their range.
    pub fn change_bounds(&self) -> Result<(f64, f64)> {
        match *self {
            Self::Edges => Ok((1.0, 0.0)),
            Self::SpanningForest { largest_weight } => {
                if !(largest_weight > 0.0 && largest_weight.is_finite()) {
                    let range = "a finite number above 0";
                    return Err(Error::OutOfRange { what: "largest weight", value: largest_weight, range });
                }
                Ok((largest_weight, largest_weight))
            }
            Self::Triangles { degree_bound } => {
                at_least("degree bound", degree_bound, 2, "an integer of at least 2")?;
                let triangles = (degree_bound - 1) as f64;
                Ok((triangles, 2.0 * triangles))
            }
            Self::Stars { leaves, degree_bound } => {
                at_least("leaves of a star", leaves, 1, "an integer of at least 1")?;
                at_least("degree bound", degree_bound, leaves, "at least the number of leaves")?;
                let stars = binomial(degree_bound as u128 - 1, leaves as u128 - 1);
                stars.map(|stars| (2.0 * stars, 2.0 * stars)).ok_or(Error::OutOfRange {
                    what: "degree bound",
                    value: degree_bound as f64,
                    range: "so small that the number of stars at one vertex stays below 2^53",
                })
            }
            Self::HighDegree { threshold } => {
                at_least("degree threshold", threshold, 1, "an integer of at least 1")?;
                Ok((2.0, 2.0))
            }
            Self::DegreeHistogram { degree_bound } => {
                let range = "an integer from 1 to 2^20, the most vertices there can be";
                at_least("degree bound", degree_bound, 1, range)?;
                if degree_bound > MOST_VERTICES {
                    return Err(Error::OutOfRange {
                        what: "degree bound",
                        value: degree_bound as f64,
                        range,
                    });
                }
                Ok((2.0, 2.0))
            }
        }
    }

    /// What one edge can change.
    ///
    /// # Privacy
    /// Zero-out: one edge disappears. Replace: one edge, with its weight and time, becomes any other, which is a removal
    /// and an insertion: each sign has at most `Γ = Γ⁺ + Γ⁻`. With columns of non-negative inner products, which the plan
    /// checks, each coordinate s has `‖C d_s‖² ≤ ((Γ⁺)² + (Γ⁻)²)·Δ_1²`, and `2Γ²·Δ_1²` under replace; all coordinates together have
    /// as many times that. Several insertions in one step only add up differences, which cannot make either sign larger. It
    /// remains to bound, for the removal of e = {u, v} that arrives at t₀, how far `g_t = f(G_t) - f(G_t - e)`, which
    /// is zero before t₀, rises and falls in all.
    ///
    /// - **Edges.** g jumps to 1 and stays: 1 and 0.
    /// - **Spanning forest.** Let b_t be the smallest possible heaviest weight of a path from u to v in `G_t - e`, infinite
    ///   without a path; it never increases. Then `g_t = w(e)` while there is no path and `g_t = min(0, w(e) - b_t)` from
    ///   then on. With b the first finite value: g rises to w(e), falls to min(0, w(e) - b) and climbs back to at most 0.
    ///   It falls by `w + max(0, b - w) = max(w, b) ≤ W`, and rises by at most as much; with a path from the beginning it
    ///   falls by `max(0, b - w) ≤ W` and rises by at most as much.
    /// - **Triangles.** An edge is kept if it is within the first D arrivals at both ends, *counting edges that were not
    ///   kept*. Without e one later edge moves up to the D-th place at u, and one at v, and no other place changes:
    ///   besides e at most two edges differ, f_u and f_v, kept only without e. (If kept edges were counted instead, every
    ///   difference could cause the next one, without limit.) With K the edges kept in both cases, `K + e` has at most
    ///   D-1 triangles on e, which appear at some steps, once each, and `K + f_u + f_v` has at most D-1 triangles on each
    ///   of the two: D-1 rises and 2(D-1) falls.
    /// - **Stars.** Only the degrees a_t of u and v change, by one, from t₀ on. At u, `g_t = C(min(a,D),k) - C(min(a-1,D),k)`
    ///   is C(a-1, k-1), which grows with a, until a exceeds D, and 0 from then on: it rises by C(D-1, k-1) and falls by
    ///   as much, and the same at v.
    /// - **High degree, degree histogram.** With a at least j, `g_t` is 1 while a = j and 0 while a > j: one up and one down
    ///   for u and for v, in each coordinate.
    ///
    /// # Errors
    /// Parameters outside their range.
    pub fn footprint(&self, relation: Relation) -> Result<Footprint> {
        let (added, taken) = self.change_bounds()?;
        let (added, taken) = match relation {
            Relation::ZeroOut => (added, taken),
            Relation::Replace => ((added + taken).next_up(), (added + taken).next_up()),
        };
        let footprint = |squared: f64| -> Result<Footprint> {
            let weight = root_up((self.dimension() as f64 * squared).next_up());
            let term = Term { weight, participation: Participation::Single };
            Ok(Footprint::encoded(vec![term], relation)?)
        };
        if taken == 0.0 {
            // Changes of one sign need no sign of the columns.
            return footprint((added * added).next_up());
        }
        let squared = (added * added).next_up() + (taken * taken).next_up();
        Ok(footprint(squared.next_up())?.needing_non_negative_columns())
    }

    /// Starts with a graph of so many vertices and no edge.
    ///
    /// # Errors
    /// Parameters outside their range, fewer than 2 vertices, or more than 2^20.
    pub fn start(&self, vertices: usize) -> Result<FunctionStream> {
        let pairs = VertexPairs::new(vertices)?;
        self.change_bounds()?;
        let state = match *self {
            Self::Edges => State::Edges,
            Self::SpanningForest { .. } => State::Forest(SpanningForest::new(vertices)?),
            Self::Triangles { degree_bound } => State::Triangles {
                degree_bound: u32::try_from(degree_bound).unwrap_or(u32::MAX),
                arrivals: vec![0; vertices],
                neighbours: vec![Vec::new(); vertices],
            },
            Self::Stars { leaves, degree_bound } => State::Stars {
                degrees: vec![0; vertices],
                steps: star_steps(leaves as u128, degree_bound.min(vertices)),
            },
            Self::HighDegree { threshold } => {
                State::Exceedances { degrees: vec![0; vertices], lowest: threshold, highest: threshold }
            }
            Self::DegreeHistogram { degree_bound } => {
                State::Exceedances { degrees: vec![0; vertices], lowest: 1, highest: degree_bound }
            }
        };
        Ok(FunctionStream { function: *self, pairs, seen: HashSet::new(), state })
    }

    /// The smallest and the largest weight of an insertion.
    pub fn weights(&self) -> (f64, f64) {
        match self {
            Self::SpanningForest { largest_weight } => (0.0, *largest_weight),
            // The others do not look at weights; a negative one would be a deletion.
            _ => (0.0, f64::MAX),
        }
    }
}

/// `C(a, k-1)` for a = 0 … D-1: the stars that a vertex of degree a gains with its next edge. No degree reaches the number of
/// vertices, so D need not be larger.
fn star_steps(leaves: u128, degree_bound: usize) -> Vec<f64> {
    // None of them exceeds the change bound, which is below 2^53.
    (0..degree_bound as u128).map(|degree| binomial(degree, leaves - 1).unwrap_or(0.0)).collect()
}

/// `C(n, k)`, if it is at most 2^53.
fn binomial(n: u128, k: u128) -> Option<f64> {
    let mut value = 1_u128;
    if k > n {
        return Some(0.0);
    }
    // From one value to the next the factor is at least (n/2)/(n/2), and the product at least 2^i after i of them, so that the
    // loop ends after a few steps whatever n and k are.
    for i in 1..=k.min(n - k) {
        value = value * (n + 1 - i) / i;
        if value > 1 << 53 {
            return None;
        }
    }
    Some(value as f64)
}

fn at_least(what: &'static str, value: usize, least: usize, range: &'static str) -> Result<()> {
    if value >= least { Ok(()) } else { Err(Error::OutOfRange { what, value: value as f64, range }) }
}

/// A graph function that follows insertions.
///
/// # Complexity
/// Per insertion O(1) for edges, stars and degrees, O(D) for triangles, O(log V) amortized for the spanning forest.
/// Memory O(V + E): which pairs are already there must be remembered.
///
/// # Example
/// ```
/// use dp_apps::graph::{EdgeUpdate, GraphFunction};
/// let mut triangles = GraphFunction::Triangles { degree_bound: 5 }.start(4)?;
/// let mut difference = [0.0];
/// for (u, v, new) in [(0, 1, 0.0), (1, 2, 0.0), (2, 0, 1.0), (3, 0, 0.0), (3, 1, 1.0), (3, 2, 2.0)] {
///     triangles.encode(&[EdgeUpdate::new(u, v, 1.0)], &mut difference)?;
///     assert_eq!(difference, [new]);
/// }
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Clone)]
pub struct FunctionStream {
    function: GraphFunction,
    pairs: VertexPairs,
    /// The coordinates of the pairs that have arrived.
    seen: HashSet<usize>,
    state: State,
}

/// The edges are data.
impl std::fmt::Debug for FunctionStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FunctionStream")
            .field("function", &self.function)
            .field("pairs", &self.pairs)
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum State {
    Edges,
    Forest(SpanningForest),
    /// Kept neighbours are sorted.
    Triangles {
        degree_bound: u32,
        arrivals: Vec<u32>,
        neighbours: Vec<Vec<u32>>,
    },
    Stars {
        degrees: Vec<usize>,
        steps: Vec<f64>,
    },
    Exceedances {
        degrees: Vec<usize>,
        lowest: usize,
        highest: usize,
    },
}

impl FunctionStream {
    /// The function.
    pub fn function(&self) -> GraphFunction {
        self.function
    }

    /// Refuses an insertion that cannot be encoded.
    ///
    /// # Errors
    /// An unknown vertex, a loop, or a weight out of range.
    pub fn check(&self, insertion: &EdgeUpdate) -> Result<()> {
        let (low, high) = self.function.weights();
        insertion.check(self.pairs, low, high)
    }

    /// Takes the insertions of a step, in order, and writes the change of the function.
    ///
    /// # Errors
    /// An unknown vertex, a loop, a weight out of range, or a buffer of the wrong length. Then nothing has changed.
    pub fn encode(&mut self, insertions: &[EdgeUpdate], difference: &mut [f64]) -> Result<()> {
        check_length("the input buffer", difference.len(), self.function.dimension())?;
        for insertion in insertions {
            self.check(insertion)?;
        }
        difference.fill(0.0);
        for insertion in insertions {
            if self.seen.insert(self.pairs.index(insertion.u, insertion.v)?) {
                self.state.insert(insertion, difference)?;
            }
        }
        Ok(())
    }
}

impl State {
    /// Inserts an edge that is not there yet, and adds what it changes.
    fn insert(&mut self, edge: &EdgeUpdate, difference: &mut [f64]) -> Result<()> {
        let EdgeUpdate { u, v, weight } = *edge;
        match self {
            Self::Edges => difference[0] += 1.0,
            Self::Forest(forest) => difference[0] += forest.insert(u, v, weight)?,
            Self::Triangles { degree_bound, arrivals, neighbours } => {
                let keep = arrivals[u] < *degree_bound && arrivals[v] < *degree_bound;
                arrivals[u] = arrivals[u].saturating_add(1);
                arrivals[v] = arrivals[v].saturating_add(1);
                if keep {
                    difference[0] += common(&neighbours[u], &neighbours[v]) as f64;
                    add_sorted(&mut neighbours[u], v as u32);
                    add_sorted(&mut neighbours[v], u as u32);
                }
            }
            Self::Stars { degrees, steps } => {
                for vertex in [u, v] {
                    difference[0] += steps.get(degrees[vertex]).copied().unwrap_or(0.0);
                    degrees[vertex] += 1;
                }
            }
            Self::Exceedances { degrees, lowest, highest } => {
                for vertex in [u, v] {
                    degrees[vertex] += 1;
                    if (*lowest..=*highest).contains(&degrees[vertex]) {
                        difference[degrees[vertex] - *lowest] += 1.0;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The number of common entries of two sorted lists.
fn common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                count += 1;
                i += 1;
                j += 1;
            }
        }
    }
    count
}

fn add_sorted(list: &mut Vec<u32>, entry: u32) {
    let place = list.partition_point(|other| *other < entry);
    list.insert(place, entry);
}

/// The degree histogram behind the released numbers of vertices of degree at least 1 … D: for degree 0 … D (the last bin
/// holds all degrees from D on), the released number of vertices and its standard deviation.
///
/// The number of vertices is public. Each bin is a difference of two independent coordinates, except the first and the
/// last, which hold one.
pub fn degree_histogram(vertices: usize, released: &[f64], standard_deviation: f64) -> Vec<(f64, f64)> {
    let last = released.len();
    (0..=last)
        .map(|degree| {
            let at_least = if degree == 0 { vertices as f64 } else { released[degree - 1] };
            let above = released.get(degree).copied().unwrap_or(0.0);
            let coordinates = f64::from(u8::from(degree > 0) + u8::from(degree < last));
            (at_least - above, coordinates.sqrt() * standard_deviation)
        })
        .collect()
}
