//! Clipping: what bounds the part that one person has in a step.

use std::fmt;

use dp_linalg::norms;
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Relation};
use zeroize::Zeroize;

use crate::error::{Error, Result, check_count, check_finite, check_length};

/// Shortens vectors to a given Euclidean norm: `g ↦ g · min(1, κ/‖g‖)`, for the whole vector or layer by layer.
///
/// # Privacy
/// One person adds `clip(g)` to the sum of a step, for a gradient g that may depend on everything released before. With
/// κ the norm, zeroing that person out moves the sum by `‖clip(g)‖ ≤ κ`; replacing the gradient by any other moves it by
/// `‖clip(g) - clip(g')‖ ≤ 2κ`, attained by `g' = -g`. Both hold in each step in which the person takes part. Layers are
/// disjoint groups of coordinates, each with a norm of its own, so that the whole is bounded by the ℓ2 norm of the
/// layers' norms. [`Clipping::footprint`] states this to the mechanism.
///
/// The norm of a clipped vector, taken over its coordinates as exact real numbers, never exceeds κ: see
/// [`Clipping::clip`].
///
/// # Example
/// ```
/// use dp_ftrl::Clipping;
/// let clipping = Clipping::flat(1.0)?;
/// let mut gradient = [3.0, -4.0];
/// assert!((clipping.clip(&mut gradient)? - 5.0).abs() < 1e-12);
/// assert!((gradient[0] - 0.6).abs() < 1e-12 && (gradient[1] + 0.8).abs() < 1e-12);
/// # Ok::<(), dp_ftrl::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Clipping {
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Flat { norm: f64 },
    Layers { ends: Vec<usize>, norms: Vec<f64> },
}

/// The norms that are accepted: far from underflow and overflow, so that the rounding analysis of [`shrink`] holds.
const NORMS: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

impl Clipping {
    /// The whole vector to one norm.
    ///
    /// # Errors
    /// A norm outside `[1e-100, 1e100]`.
    pub fn flat(norm: f64) -> Result<Self> {
        Ok(Self { rule: Rule::Flat { norm: check_norm(norm)? } })
    }

    /// Consecutive layers of the given lengths, each to its own norm.
    ///
    /// # Errors
    /// No layers, an empty one, as many norms as layers missing, or a norm outside `[1e-100, 1e100]`.
    pub fn per_layer(lengths: &[usize], norms: &[f64]) -> Result<Self> {
        check_count("number of layers", lengths.len())?;
        check_length("the list of layer norms", lengths.len(), norms.len())?;
        let mut end = 0_usize;
        let mut ends = Vec::with_capacity(lengths.len());
        for length in lengths {
            end = end.saturating_add(check_count("length of a layer", *length)?);
            ends.push(end);
        }
        let norms = norms.iter().map(|norm| check_norm(*norm)).collect::<Result<Vec<f64>>>()?;
        Ok(Self { rule: Rule::Layers { ends, norms } })
    }

    /// The largest norm of a clipped vector: κ, or the ℓ2 norm of the layers' norms.
    pub fn norm(&self) -> f64 {
        match &self.rule {
            Rule::Flat { norm } => *norm,
            Rule::Layers { norms, .. } => norms::round_up_sum_of_squares(norms).sqrt(),
        }
    }

    /// Clips in place and returns the norm before.
    ///
    /// A vector of zeros stays as it is; so does every vector (or layer) whose norm is below κ by more than 1e-13 κ. The
    /// norm before is infinite where the true one is beyond the range of `f64`. It is as private as the gradient.
    ///
    /// # Complexity
    /// O(d), two passes over the vector and a third where something is shortened. Nothing is allocated.
    ///
    /// # Errors
    /// NaN or infinities, or a length that is not that of the layers; the vector is then untouched.
    pub fn clip(&self, gradient: &mut [f64]) -> Result<f64> {
        self.check(gradient)?;
        let mut before = 0.0_f64;
        for (layer, norm) in self.layers(gradient.len()) {
            let values = &mut gradient[layer];
            let shrink = shrink(values, norm);
            before = before.hypot(shrink.before);
            if !shrink.changes_nothing() {
                values.iter_mut().for_each(|value| *value = shrink.apply(*value));
            }
        }
        Ok(before)
    }

    /// What one person can move in each step in which they take part; the proof stands with [`Clipping`].
    ///
    /// One term for each layer, of weight κ under zero-out and 2κ under replace.
    ///
    /// # Errors
    /// Never for a clipping that was accepted; the mechanism's own checks are passed on.
    pub fn footprint(&self, relation: Relation, participation: Participation) -> Result<Footprint> {
        let norms = match &self.rule {
            Rule::Flat { norm } => std::slice::from_ref(norm),
            Rule::Layers { norms, .. } => norms,
        };
        let moves = match relation {
            Relation::ZeroOut => 1.0,
            Relation::Replace => 2.0,
        };
        let terms = norms.iter().map(|norm| Term { weight: moves * norm, participation }).collect();
        Ok(Footprint::encoded(terms, relation)?)
    }

    /// Refuses a vector that cannot be clipped.
    fn check(&self, gradient: &[f64]) -> Result<()> {
        if let Rule::Layers { ends, .. } = &self.rule {
            check_length("the gradient", ends.last().copied().unwrap_or_default(), gradient.len())?;
        }
        check_finite("the gradient", gradient)
    }

    /// The coordinates of each layer, and its norm.
    pub(crate) fn layers(&self, dimension: usize) -> impl Iterator<Item = (std::ops::Range<usize>, f64)> {
        let (ends, norms) = match &self.rule {
            Rule::Flat { norm } => (None, std::slice::from_ref(norm)),
            Rule::Layers { ends, norms } => (Some(ends), norms.as_slice()),
        };
        let mut start = 0;
        norms.iter().enumerate().map(move |(index, norm)| {
            let end = ends.map_or(dimension, |ends| ends[index]);
            (std::mem::replace(&mut start, end)..end, *norm)
        })
    }
}

impl fmt::Display for Clipping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Flat { norm } => write!(formatter, "norm {norm}"),
            Rule::Layers { norms, .. } => {
                write!(formatter, "{} layers of norms {norms:?}, together {}", norms.len(), self.norm())
            }
        }
    }
}

fn check_norm(norm: f64) -> Result<f64> {
    if NORMS.contains(&norm) {
        Ok(norm)
    } else {
        Err(Error::OutOfRange { what: "clipping norm", value: norm, range: "between 1e-100 and 1e100" })
    }
}

/// How one vector is shortened: multiplied by both factors, one after the other.
struct Shrink {
    before: f64,
    first: f64,
    second: f64,
}

impl Shrink {
    fn apply(&self, value: f64) -> f64 {
        value * self.first * self.second
    }

    fn changes_nothing(&self) -> bool {
        self.first == 1.0 && self.second == 1.0
    }
}

/// By how much [`norm`] may fall short of the truth, and a product may round up, relative to it; see [`shrink`].
const MARGIN: f64 = 160.0 * f64::EPSILON;

/// Norms in between are computed without a scale; squares neither overflow nor lose anything notable to underflow.
const SAFE: std::ops::Range<f64> = 1e-140..1e140;

/// The scales outside, powers of two: products with them are exact unless they underflow.
const UP: f64 = f64::from_bits((1023 + 600) << 52);
const DOWN: f64 = f64::from_bits((1023 - 600) << 52);

/// The factors that bring finite values to norm at most κ.
///
/// With u = 2⁻⁵³, the computed norm is at least `‖g‖(1 - 140u)`: see [`norm`]. The factor κ/norm and the products with it
/// each add a relative error of u, so a factor smaller by 160ε = 320u leaves the exact norm of the rounded coordinates
/// below κ. Underflow changes a coordinate by less than 2⁻¹⁰⁷⁴ before or after the multiplication with `κ/norm`, and no
/// norm that is divided by is below 1e-101: nothing beside the margin. The same margin decides that a vector is short
/// enough to be left alone.
fn shrink(values: &[f64], kappa: f64) -> Shrink {
    let mut computed = norm(values, 1.0);
    if computed < SAFE.start {
        computed = norm(values, UP) / UP;
    }
    if computed <= kappa * (1.0 - MARGIN) {
        return Shrink { before: computed, first: 1.0, second: 1.0 };
    }
    if computed < SAFE.end {
        return Shrink { before: computed, first: 1.0, second: kappa / computed * (1.0 - MARGIN) };
    }
    let scaled = norm(values, DOWN);
    Shrink { before: scaled / DOWN, first: DOWN, second: kappa / scaled * (1.0 - MARGIN) }
}

/// The factor that brings a vector of a norm that is known up to a relative error of 140u to norm at most κ, by the argument
/// of [`shrink`]; for norms far from underflow and overflow.
pub(crate) fn factor(norm: f64, kappa: f64) -> f64 {
    if norm <= kappa * (1.0 - MARGIN) { 1.0 } else { kappa / norm * (1.0 - MARGIN) }
}

/// `‖scale · g‖`, infinite if a square overflows, with a relative error below 140u. Squares below the smallest normal
/// number may be lost.
///
/// Sums of 1024 squares run in 8 lanes, 128 additions deep; the sums of blocks are added without a notable error.
fn norm(values: &[f64], scale: f64) -> f64 {
    const LANES: usize = 8;
    let block = |block: &[f64]| {
        let mut sums = [0.0; LANES];
        let (whole, rest) = block.as_chunks::<LANES>();
        for chunk in whole {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                let value = value * scale;
                *sum += value * value;
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            let value = value * scale;
            *sum += value * value;
        }
        sums.iter().sum::<f64>()
    };
    norms::compensated_sum(values.chunks(1024).map(block)).sqrt()
}

/// A sum of clipped vectors, which nothing but clipping can enter: at most one from each person.
///
/// Parts of a batch that are summed elsewhere, for example by other threads, come together by [`ClippedSum::absorb`].
/// It holds private data: it is not `Clone`, prints nothing of it, and wipes it when dropped.
pub struct ClippedSum {
    clipping: Clipping,
    sum: Vec<f64>,
    added: usize,
}

impl ClippedSum {
    /// An empty sum.
    ///
    /// # Errors
    /// A dimension of zero, or one that is not that of the clipping's layers.
    pub fn new(clipping: Clipping, dimension: usize) -> Result<Self> {
        check_count("dimension", dimension)?;
        if let Rule::Layers { ends, .. } = &clipping.rule {
            check_length("the model", ends.last().copied().unwrap_or_default(), dimension)?;
        }
        Ok(Self { clipping, sum: vec![0.0; dimension], added: 0 })
    }

    /// Clips one person's gradient into the sum. The gradient itself stays as it is.
    ///
    /// # Complexity
    /// O(d), three passes. Nothing is allocated.
    ///
    /// # Errors
    /// A wrong number of coordinates, NaN or infinities; the sum is then as before, as if the person were absent.
    pub fn add(&mut self, gradient: &[f64]) -> Result<()> {
        check_length("the gradient", self.sum.len(), gradient.len())?;
        self.clipping.check(gradient)?;
        for (layer, norm) in self.clipping.layers(gradient.len()) {
            let values = &gradient[layer.clone()];
            let shrink = shrink(values, norm);
            for (sum, value) in self.sum[layer].iter_mut().zip(values) {
                *sum += shrink.apply(*value);
            }
        }
        self.added += 1;
        Ok(())
    }

    /// Moves everything from another sum into this one; the other is empty afterwards and ready for the next batch.
    ///
    /// # Errors
    /// Another dimension or another clipping; both sums are then as before.
    pub fn absorb(&mut self, other: &mut Self) -> Result<()> {
        check_length("the other sum", self.sum.len(), other.sum.len())?;
        if self.clipping != other.clipping {
            return Err(Error::Clipping { what: "the other sum", expected: self.clipping.to_string() });
        }
        for (sum, value) in self.sum.iter_mut().zip(&other.sum) {
            *sum += value;
        }
        self.added += other.added;
        other.clear();
        Ok(())
    }

    /// Forgets what was added.
    pub fn clear(&mut self) {
        self.sum.fill(0.0);
        self.added = 0;
    }

    /// The number of gradients in the sum.
    pub fn added(&self) -> usize {
        self.added
    }

    /// The number of coordinates.
    pub fn dimension(&self) -> usize {
        self.sum.len()
    }

    /// The clipping rule.
    pub fn clipping(&self) -> &Clipping {
        &self.clipping
    }

    /// The sum itself, without noise.
    pub(crate) fn values(&self) -> &[f64] {
        &self.sum
    }
}

/// The sum never leaves through a debug print.
impl fmt::Debug for ClippedSum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClippedSum")
            .field("clipping", &self.clipping)
            .field("dimension", &self.sum.len())
            .finish_non_exhaustive()
    }
}

impl Drop for ClippedSum {
    fn drop(&mut self) {
        self.sum.zeroize();
    }
}
