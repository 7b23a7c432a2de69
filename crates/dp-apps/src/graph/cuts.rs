//! A synthetic graph whose every cut is close to the true one.

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Relation};

use super::pairs::{EdgeUpdate, VertexPairs};
use crate::Estimate;
use crate::error::{Error, Result, check_length};

/// Edge updates as vectors over all pairs of vertices: the released prefix sums are the weights of a synthetic graph,
/// and the sum of its weights between two sets of vertices answers that cut.
///
/// # Privacy
/// One *update* is protected; see [`CutEncoding::footprint`].
///
/// # Complexity
/// O(V²) per step, for the noise; O(1) per update.
///
/// # Example
/// ```
/// use dp_apps::graph::{CutEncoding, EdgeUpdate};
/// use dp_mechanisms::{Budget, Mechanism, Method, Plan, Problem, Relation, Seed, Workload};
/// let encoding = CutEncoding::signed(5)?;
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 10)?)?;
/// let footprint = encoding.footprint(Relation::ZeroOut)?.of_dimension(encoding.dimension())?;
/// let plan = Plan::exact(&strategy, footprint, Budget::zero_concentrated(0.5)?, 0.5)?;
/// let mut mechanism = Mechanism::new(plan, Seed::from_system()?)?;
/// let (mut input, mut weights) = (vec![0.0; 10], vec![0.0; 10]);
/// encoding.encode(&[EdgeUpdate::new(0, 1, 1.0), EdgeUpdate::new(3, 4, 0.5)], &mut input)?;
/// let step = mechanism.release(&input, &mut weights)?;
/// let deviation = mechanism.plan().standard_deviation(step).unwrap_or(f64::NAN);
/// let answer = encoding.cut(&weights, &[0], &[1, 2], deviation)?;
/// assert!(answer.standard_deviation > deviation);
/// # Ok::<(), dp_apps::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CutEncoding {
    pairs: VertexPairs,
    low: f64,
    high: f64,
}

/// The most pairs whose weights are all released.
const MOST_PAIRS: usize = 1 << 24;

impl CutEncoding {
    /// Updates with weights in [-1, 1].
    ///
    /// # Errors
    /// Fewer than 2 vertices, or more than 2^24 pairs of them.
    pub fn signed(vertices: usize) -> Result<Self> {
        Self::with_weights(vertices, -1.0, 1.0)
    }

    /// Updates with weights in `[low, high]`; insertions of unit weight are `[0, 1]`.
    ///
    /// # Errors
    /// Bounds that are not finite, not ordered, or both zero; fewer than 2 vertices, or more than 2^24 pairs of them.
    pub fn with_weights(vertices: usize, low: f64, high: f64) -> Result<Self> {
        let range = "finite bounds in order, not both zero";
        for value in [low, high] {
            if !(value.is_finite() && low <= high && low.abs().max(high.abs()) > 0.0) {
                return Err(Error::OutOfRange { what: "weight bound", value, range });
            }
        }
        let pairs = VertexPairs::new(vertices)?;
        if pairs.len() > MOST_PAIRS {
            return Err(Error::OutOfRange {
                what: "number of pairs of vertices, each with a weight",
                value: pairs.len() as f64,
                range: "at most 2^24; release a function of the graph instead",
            });
        }
        Ok(Self { pairs, low, high })
    }

    /// The pairs of vertices behind the coordinates.
    pub fn pairs(&self) -> VertexPairs {
        self.pairs
    }

    /// The number of coordinates, C(V,2).
    pub fn dimension(&self) -> usize {
        self.pairs.len()
    }

    /// What one update can change, with M the largest absolute weight.
    ///
    /// # Privacy
    /// - Zero-out: one update disappears. One coordinate of one step changes by its weight, so `Δ = M·Δ_1`.
    /// - Replace: one update (e, w) of a step becomes (e', w') of the same step. If e = e', one coordinate changes by
    ///   `|w - w'| ≤ high - low`. If e ≠ e', two coordinates change by at most M each, and
    ///   `‖C d_e‖² + ‖C d_e'‖² ≤ 2M²Δ_1²`. So `Δ = max(high - low, √2·M)·Δ_1`: 2Δ_1 for [-1, 1], √2·Δ_1 for [0, 1].
    ///
    /// Both are attained. The number of updates in a step is not limited, and it is not hidden unless the caller
    /// releases at fixed times.
    ///
    /// # Errors
    /// None for bounds that the constructor accepted.
    pub fn footprint(&self, relation: Relation) -> Result<Footprint> {
        let largest = self.low.abs().max(self.high.abs());
        let weight = match relation {
            Relation::ZeroOut => largest,
            // Both may round down.
            Relation::Replace => {
                (self.high - self.low).next_up().max((2.0_f64.sqrt().next_up() * largest).next_up())
            }
        };
        let term = Term { weight, participation: Participation::Single };
        Ok(Footprint::encoded(vec![term], relation)?)
    }

    /// The smallest and the largest weight of an update.
    pub fn weights(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Refuses an update that cannot be encoded.
    ///
    /// # Errors
    /// An unknown vertex, a loop, or a weight outside the bounds.
    pub fn check(&self, update: &EdgeUpdate) -> Result<()> {
        let (low, high) = self.weights();
        update.check(self.pairs, low, high)
    }

    /// Writes the input vector of a step: the sum of its updates.
    ///
    /// # Errors
    /// An unknown vertex, a loop, a weight outside the bounds, or a buffer of the wrong length. The buffer is then
    /// untouched.
    pub fn encode(&self, updates: &[EdgeUpdate], input: &mut [f64]) -> Result<()> {
        check_length("the input buffer", input.len(), self.dimension())?;
        for update in updates {
            self.check(update)?;
        }
        input.fill(0.0);
        for update in updates {
            input[self.pairs.index(update.u, update.v)?] += update.weight;
        }
        Ok(())
    }

    /// The (S, P)-cut of a weight vector: the weight between two disjoint sets of vertices.
    ///
    /// `standard_deviation` is that of each released weight; the noise of different pairs is independent, so the
    /// variance of the answer is |S||P| times its square. Pass 0 for weights without noise.
    ///
    /// # Complexity
    /// O(|S||P| + V).
    ///
    /// # Errors
    /// An unknown vertex, a vertex that stands twice in S and P together, or a wrong number of weights.
    pub fn cut(
        &self,
        weights: &[f64],
        s: &[usize],
        p: &[usize],
        standard_deviation: f64,
    ) -> Result<Estimate> {
        check_length("the weight vector", weights.len(), self.dimension())?;
        let vertices = self.pairs.vertices();
        let mut used = vec![false; vertices];
        for &vertex in s.iter().chain(p) {
            let mark = used.get_mut(vertex).ok_or(Error::UnknownVertex { vertex, vertices })?;
            if std::mem::replace(mark, true) {
                return Err(Error::RepeatedVertex { vertex });
            }
        }
        let across = s.iter().flat_map(|&u| p.iter().map(move |&v| self.pairs.position(u.min(v), u.max(v))));
        let value = across.map(|index| weights[index]).sum();
        let standard_deviation = ((s.len() * p.len()) as f64).sqrt() * standard_deviation;
        Ok(Estimate { value, standard_deviation })
    }

    /// What can be said about the errors of cuts whose edge weights have the given standard deviation.
    pub fn error(&self, standard_deviation: f64) -> CutError {
        CutError { vertices: self.pairs.vertices(), standard_deviation, steps: 1 }
    }
}

/// Error statements about cuts of a released graph, with all constants.
///
/// A fixed (S, P)-cut has Gaussian noise with variance `|S||P|v²`, where v is the standard deviation of one weight, so
/// it is off by more than `x·v·sqrt(|S||P|)` with probability at most `2exp(-x²/2)`. Statements about all cuts at once
/// are union bounds that share the failure probability β equally between the *sizes* of cuts, so that small cuts pay
/// for the few small cuts only:
///
/// `|error(S,P)| ≤ v sqrt(|S||P|) sqrt(2 ln(2 K N(|S|,|P|) / β))`
///
/// with N the number of cuts of this size and K the number of sizes. As `ln N ≤ (|S|+|P|) ln V` this is
/// `O(v sqrt(|S||P| (|S|+|P|) ln V))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CutError {
    vertices: usize,
    standard_deviation: f64,
    steps: usize,
}

impl CutError {
    /// The same statements, holding at all of `steps` steps together (β is shared between the steps).
    pub fn over_steps(self, steps: usize) -> Self {
        Self { steps: steps.max(1), ..self }
    }

    /// The standard deviation of one cut with sides of these sizes.
    pub fn standard_deviation(&self, s: usize, p: usize) -> f64 {
        self.standard_deviation * ((s * p) as f64).sqrt()
    }

    /// A half-width that holds a fixed cut with probability `1 - failure`.
    ///
    /// # Errors
    /// Sizes that do not fit the graph, or a probability outside (0, 1).
    pub fn one_cut(&self, s: usize, p: usize, failure: f64) -> Result<f64> {
        self.half_width(s, p, 0.0, failure)
    }

    /// Half-widths that hold the cuts between *any* two disjoint sets at once with probability `1 - failure`: the
    /// one for sides of these sizes.
    ///
    /// There are `K = ⌊V²/4⌋` unordered pairs of sizes and at most `N = V!/(s! p! (V-s-p)!)` cuts of one.
    ///
    /// # Errors
    /// Sizes that do not fit the graph, or a probability outside (0, 1).
    pub fn all_pairs(&self, s: usize, p: usize, failure: f64) -> Result<f64> {
        let vertices = self.vertices;
        let sizes = ((vertices * vertices / 4) as f64).ln();
        let cuts =
            if s + p <= vertices { log_binomial(vertices, s) + log_binomial(vertices - s, p) } else { 0.0 };
        self.half_width(s, p, sizes + cuts, failure)
    }

    /// Half-widths that hold all cuts (S, V∖S) at once with probability `1 - failure`: the one for |S| = s.
    ///
    /// There are `K = ⌊V/2⌋` sizes of the smaller side and at most `N = C(V,s)` cuts of one.
    ///
    /// # Errors
    /// A size that does not fit the graph, or a probability outside (0, 1).
    pub fn all_cuts(&self, s: usize, failure: f64) -> Result<f64> {
        let p = self.vertices.saturating_sub(s);
        let sizes = ((self.vertices / 2) as f64).ln();
        let cuts = if s <= self.vertices { log_binomial(self.vertices, s) } else { 0.0 };
        self.half_width(s, p, sizes + cuts, failure)
    }

    /// `v sqrt(sp) sqrt(2 (ln 2 + ln(statements) + ln(steps) - ln β))`.
    fn half_width(&self, s: usize, p: usize, log_statements: f64, failure: f64) -> Result<f64> {
        if s == 0 || p == 0 || s + p > self.vertices {
            let range = "at least 1 on each side and no more than the vertices together";
            return Err(Error::OutOfRange { what: "size of a cut", value: (s + p) as f64, range });
        }
        if !(failure > 0.0 && failure < 1.0) {
            let range = "strictly between 0 and 1";
            return Err(Error::OutOfRange { what: "failure probability", value: failure, range });
        }
        let logarithm = (2.0 * self.steps as f64 / failure).ln() + log_statements;
        Ok(self.standard_deviation(s, p) * (2.0 * logarithm).sqrt())
    }
}

/// ln C(n, k).
fn log_binomial(n: usize, k: usize) -> f64 {
    let k = k.min(n - k);
    (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum()
}
