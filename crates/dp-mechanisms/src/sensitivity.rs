//! How much one person can move what a strategy measures.
//!
//! The neighbouring relation ([`Relation`]) and how often one person takes part ([`Participation`]) are always
//! explicit. An encoding of events describes what one person can change by a [`Footprint`]; together with a
//! strategy it determines the squared sensitivity
//!
//! `Δ² = Σ_terms weight² · Δ(C, participation)²`
//!
//! from which [`crate::plan`] — and nothing else — computes the noise.

use std::fmt;
use std::str::FromStr;

use dp_linalg::norms;

use crate::error::{Error, Result, check_count, check_positive};
use crate::exact;

mod matrix;

pub use matrix::{DENSE_LIMIT, dense, toeplitz};
pub(crate) use matrix::{non_increasing, orthogonal_columns, triangle_bound};

/// Which two streams must be hard to tell apart.
///
/// There is no default: the two relations differ by up to a factor 2 in noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Relation {
    /// One person's contribution becomes zero (add or remove one person).
    ZeroOut,
    /// One person's contribution becomes any other admissible one.
    Replace,
}

impl fmt::Display for Relation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ZeroOut => "zero-out",
            Self::Replace => "replace",
        })
    }
}

impl FromStr for Relation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "zero-out" => Ok(Self::ZeroOut),
            "replace" => Ok(Self::Replace),
            _ => {
                Err(Error::Parse { what: "relation", text: text.to_owned(), expected: "zero-out or replace" })
            }
        }
    }
}

/// In how many steps one person's data may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "crate::written::Participation", into = "crate::written::Participation")
)]
pub enum Participation {
    /// In one step only.
    Single,
    /// In several steps; made by [`Participation::repeated`].
    Repeated(Repeated),
}

/// At most so many steps, any two of them so far apart. Both numbers are checked: a person who takes part zero times, or
/// twice in one step, would be promised something that the noise does not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repeated {
    times: usize,
    separation: usize,
}

impl Repeated {
    /// The largest number of steps, at least 2.
    pub fn times(self) -> usize {
        self.times
    }

    /// The smallest distance between two of them, at least 1.
    pub fn separation(self) -> usize {
        self.separation
    }
}

impl Participation {
    /// At most `times` steps, any two at least `separation` apart.
    ///
    /// # Errors
    /// Zero for either number.
    pub fn repeated(times: usize, separation: usize) -> Result<Self> {
        check_count("participation times", times)?;
        check_count("participation separation", separation)?;
        Ok(if times == 1 { Self::Single } else { Self::Repeated(Repeated { times, separation }) })
    }

    /// The largest number of steps one person can take part in within `steps` steps.
    pub fn times_within(self, steps: usize) -> usize {
        match self {
            Self::Single => steps.min(1),
            Self::Repeated(Repeated { times, separation }) => times.min(steps.div_ceil(separation)),
        }
    }

    /// The smallest distance between two participations (irrelevant, and 1, for a single one).
    pub fn separation(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Repeated(Repeated { separation, .. }) => separation,
        }
    }
}

impl fmt::Display for Participation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => formatter.write_str("single"),
            Self::Repeated(Repeated { times, separation }) => write!(formatter, "{times}:{separation}"),
        }
    }
}

impl FromStr for Participation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let error = || Error::Parse {
            what: "participation",
            text: text.to_owned(),
            expected: "`single`, or TIMES:SEPARATION such as 5:100",
        };
        if text == "single" {
            return Ok(Self::Single);
        }
        let (times, separation) = text.split_once(':').ok_or_else(error)?;
        Self::repeated(times.parse().map_err(|_| error())?, separation.parse().map_err(|_| error())?)
    }
}

/// A squared sensitivity, never below the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Sensitivity {
    /// An upper bound of Δ², rounded up.
    pub squared: f64,
    /// Whether the bound is attained (up to rounding) or only proven from above.
    pub exact: bool,
}

impl Sensitivity {
    /// A sensitivity that some admissible change attains.
    pub fn exact(squared: f64) -> Self {
        Self { squared, exact: true }
    }

    /// A proven upper bound.
    pub fn upper_bound(squared: f64) -> Self {
        Self { squared, exact: false }
    }
}

/// What the mechanism accepts as an input, checked at every step.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Domain {
    /// Every coordinate lies in `[low, high]`.
    Interval {
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// The Euclidean norm is at most `radius`.
    Ball {
        /// The bound.
        radius: f64,
    },
    /// Any finite vector: the encoding in front of the mechanism bounds what one person can change.
    Encoded,
}

impl Domain {
    /// Refuses an input outside the domain, before it touches any state.
    ///
    /// # Errors
    /// NaN, infinities, values outside the interval, norms above the radius.
    pub fn check(self, step: usize, input: &[f64]) -> Result<()> {
        if let Self::Interval { low, high } = self
            && input.iter().all(|value| value.is_finite() && (low..=high).contains(value))
        {
            return Ok(());
        }
        self.refuse(step, input)
    }

    /// The same with the reason, one condition after the other.
    #[cold]
    fn refuse(self, step: usize, input: &[f64]) -> Result<()> {
        if let Some(index) = input.iter().position(|value| !value.is_finite()) {
            return Err(Error::NonFiniteInput { step, index, value: input[index] });
        }
        match self {
            Self::Interval { low, high } => {
                match input.iter().position(|value| !(low..=high).contains(value)) {
                    Some(index) => Err(Error::OutOfBounds { step, index, value: input[index], low, high }),
                    None => Ok(()),
                }
            }
            Self::Ball { radius } => {
                let norm = norms::round_up_sum_of_squares(input).sqrt();
                // A vector clipped to the radius may exceed it by rounding; the footprint covers this margin.
                if norm <= radius * BALL_MARGIN {
                    Ok(())
                } else {
                    Err(Error::NormTooLarge { step, norm, radius })
                }
            }
            Self::Encoded => Ok(()),
        }
    }
}

/// By how much a clipped vector may exceed its radius through rounding; included in the sensitivity.
const BALL_MARGIN: f64 = 1.0 + 1e-12;

/// One part of what a single person can change: a sequence of differences with ℓ2 norm at most `weight` at each
/// step of an admissible set of steps.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Term {
    /// The ℓ2 norm of the difference at each affected step.
    pub weight: f64,
    /// The steps that may be affected.
    pub participation: Participation,
}

/// What one person's change does to the sequence of input vectors.
///
/// A footprint is a sum of [`Term`]s over disjoint groups of coordinates. Differences in the *same* coordinate
/// add up before the norm is taken, which is why a change that touches a coordinate several times is a term
/// with a repeated [`Participation`] and never several terms.
///
/// # Dimension
/// A bound on one number says nothing about a hundred of them, so a footprint knows how long its vectors are and a
/// mechanism takes its dimension from there. Balls and encodings bound the whole vector, however long it is: they are stated
/// without a dimension, and given one by [`Footprint::of_dimension`] before a mechanism is made.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Footprint {
    terms: Vec<Term>,
    domain: Domain,
    relation: Relation,
    non_negative_columns: bool,
    dimension: Option<usize>,
    /// For encodings: the ℓ1 norms that belong to the terms, where they have been proved.
    absolute: Vec<f64>,
}

/// What one person can change in a number with bounds.
fn largest_change(low: f64, high: f64, relation: Relation) -> f64 {
    match relation {
        Relation::ZeroOut => low.abs().max(high.abs()),
        // The subtraction may round down.
        Relation::Replace => (high - low).next_up(),
    }
}

impl Footprint {
    /// One number in `[low, high]` per step and person: vectors of one coordinate.
    ///
    /// ζ is `max(|low|, |high|)` under zero-out and `high - low` under replace.
    ///
    /// # Errors
    /// Bounds that are not finite, not ordered, or leave nothing to protect (both zero).
    pub fn scalar(low: f64, high: f64, relation: Relation, participation: Participation) -> Result<Self> {
        Self::vector(low, high, 1, relation, participation)
    }

    /// So many numbers in `[low, high]` per step and person, all of which one person can change at once: ζ is that of
    /// [`Footprint::scalar`] times the square root of the dimension.
    ///
    /// # Errors
    /// As [`Footprint::scalar`], or a dimension of zero.
    pub fn vector(
        low: f64,
        high: f64,
        dimension: usize,
        relation: Relation,
        participation: Participation,
    ) -> Result<Self> {
        check_count("dimension", dimension)?;
        if !(low.is_finite() && high.is_finite() && low <= high) {
            let value = if low.is_finite() { high } else { low };
            return Err(Error::OutOfRange {
                what: "bounds",
                value,
                range: "two finite numbers LO:HI with LO not above HI",
            });
        }
        let change = largest_change(low, high, relation);
        let change = match dimension {
            1 => change,
            // Root and product each round to nearest.
            _ => (change * (dimension as f64).sqrt().next_up()).next_up(),
        };
        let weight = check_positive("largest change allowed by the bounds", change)?;
        Ok(Self {
            terms: vec![Term { weight, participation }],
            domain: Domain::Interval { low, high },
            relation,
            non_negative_columns: false,
            dimension: Some(dimension),
            absolute: Vec::new(),
        })
    }

    /// The same numbers where each holds many people, and one person changes it by at most `change`: the bounds say what a
    /// number may be, and ζ is the change.
    ///
    /// # Errors
    /// A change that is not positive or not below what blanking a number of either sign changes, one above what the bounds
    /// allow anyway, or anything but one number with bounds.
    ///
    /// # Example
    /// ```
    /// use dp_mechanisms::{Footprint, Participation, Relation};
    /// let visits = Footprint::scalar(0.0, 5000.0, Relation::ZeroOut, Participation::Single)?.with_change(1.0)?;
    /// assert_eq!(visits.terms()[0].weight, 1.0);
    /// # Ok::<(), dp_mechanisms::Error>(())
    /// ```
    pub fn with_change(mut self, change: f64) -> Result<Self> {
        let (Domain::Interval { low, high }, Some(1)) = (self.domain, self.dimension) else {
            return Err(Error::Empty { what: "one number with bounds, of which one person changes a part" });
        };
        // Blanking moves a number to 0 and never past it, which a change of the same size may.
        let blanks = self.relation == Relation::ZeroOut && low < 0.0 && high > 0.0;
        for term in &mut self.terms {
            if !(change > 0.0 && change <= term.weight) || (blanks && change == term.weight) {
                return Err(Error::OutOfRange {
                    what: "what one person can change in a number",
                    value: change,
                    range: "above 0, and at most what the bounds allow (below it for numbers of either sign that are blanked)",
                });
            }
            term.weight = change;
        }
        Ok(self)
    }

    /// The unit of exact measurements where nobody asks for another: a power of two near 1/65536 of what one number may be, finer
    /// where one person changes less than that ([`Footprint::with_change`]), but not so fine that the bounds have too many; 1 for
    /// encodings, which count.
    ///
    /// # Example
    /// ```
    /// use dp_mechanisms::{Footprint, Participation, Relation};
    /// let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
    /// assert_eq!(footprint.grid(), 1.0 / 65_536.0);
    /// # Ok::<(), dp_mechanisms::Error>(())
    /// ```
    pub fn grid(&self) -> f64 {
        match self.domain {
            Domain::Interval { low, high } => {
                let of_bounds = exact::grid(low.abs().max(high.abs()));
                let change = self.terms.iter().map(|term| term.weight).fold(0.0, f64::max);
                if self.dimension == Some(1) && change < largest_change(low, high, self.relation) {
                    exact::grid(change).max(of_bounds / 65_536.0)
                } else {
                    of_bounds
                }
            }
            Domain::Ball { radius } => exact::grid(radius),
            Domain::Encoded => 1.0,
        }
    }

    /// One vector of Euclidean norm at most `radius` per step and person: ζ is `radius` under zero-out and
    /// `2·radius` under replace.
    ///
    /// # Errors
    /// A radius that is not finite and positive.
    pub fn ball(radius: f64, relation: Relation, participation: Participation) -> Result<Self> {
        check_positive("norm bound", radius)?;
        let margin = (radius * BALL_MARGIN).next_up();
        let weight = match relation {
            Relation::ZeroOut => margin,
            Relation::Replace => 2.0 * margin,
        };
        Ok(Self {
            terms: vec![Term { weight, participation }],
            domain: Domain::Ball { radius },
            relation,
            non_negative_columns: false,
            dimension: None,
            absolute: Vec::new(),
        })
    }

    /// What an encoding of events proves about itself: its terms, over disjoint groups of coordinates.
    ///
    /// # Errors
    /// No terms, or a weight that is not finite and positive.
    pub fn encoded(terms: Vec<Term>, relation: Relation) -> Result<Self> {
        if terms.is_empty() {
            return Err(Error::Empty { what: "footprint" });
        }
        for term in &terms {
            check_positive("footprint weight", term.weight)?;
        }
        Ok(Self {
            terms,
            domain: Domain::Encoded,
            relation,
            non_negative_columns: false,
            dimension: None,
            absolute: Vec::new(),
        })
    }

    /// Adds what an encoding proves about itself in ℓ1, which a pure ε asks for: the ℓ1 norm of the difference at each
    /// affected step, term by term.
    ///
    /// # Errors
    /// Another number of norms than of terms, one that is not finite and positive, or a footprint that is not that of an encoding.
    pub fn with_absolute_weights(mut self, weights: Vec<f64>) -> Result<Self> {
        if weights.len() != self.terms.len() || self.domain != Domain::Encoded {
            let (expected, actual) = (self.terms.len(), weights.len());
            return Err(Error::Dimension { what: "the l1 norms of an encoding", expected, actual });
        }
        for weight in &weights {
            check_positive("footprint weight", *weight)?;
        }
        self.absolute = weights;
        Ok(self)
    }

    /// `Δ_1 = Σ_terms weight_1 · Δ_1(C, participation)` of an encoding that states its ℓ1 norms; nothing where it does not.
    ///
    /// # Errors
    /// What the strategy refuses.
    pub fn absolute_sensitivity(
        &self,
        mut of_strategy: impl FnMut(Participation) -> Result<f64>,
    ) -> Result<Option<f64>> {
        if self.absolute.is_empty() {
            return Ok(None);
        }
        let mut sum = 0.0;
        for (term, weight) in self.terms.iter().zip(&self.absolute) {
            sum += (weight * of_strategy(term.participation)?).next_up();
        }
        Ok(Some(sum))
    }

    /// The ℓ1 norm of a term of an encoding, if it has been stated.
    pub(crate) fn absolute_weight(&self, term: usize) -> Option<f64> {
        self.absolute.get(term).copied()
    }

    /// States the number of coordinates, where the terms were proved for the whole vector, however long it is.
    ///
    /// # Errors
    /// A dimension of zero, or another one than the footprint was proved for.
    pub fn of_dimension(mut self, dimension: usize) -> Result<Self> {
        check_count("dimension", dimension)?;
        match self.dimension {
            Some(proved) if proved != dimension => Err(Error::Dimension {
                what: "the vector of a footprint that bounds each of its numbers",
                expected: proved,
                actual: dimension,
            }),
            _ => {
                self.dimension = Some(dimension);
                Ok(self)
            }
        }
    }

    /// The same changes with another participation in all of them.
    pub(crate) fn with_participation(mut self, participation: Participation) -> Self {
        self.terms.iter_mut().for_each(|term| term.participation = participation);
        self
    }

    /// The number of coordinates, if it has been stated.
    pub fn dimension(&self) -> Option<usize> {
        self.dimension
    }

    /// Says that the proof behind the terms needs columns of C with non-negative inner products: differences of
    /// opposite sign at different steps then shorten each other. A plan with any other strategy is refused.
    pub fn needing_non_negative_columns(mut self) -> Self {
        self.non_negative_columns = true;
        self
    }

    /// Whether the proof behind the terms needs columns of C with non-negative inner products.
    pub fn needs_non_negative_columns(&self) -> bool {
        self.non_negative_columns
    }

    /// Refuses a vector of another dimension than the footprint was proved for.
    pub(crate) fn check_dimension(&self, dimension: usize) -> Result<()> {
        check_count("dimension", dimension)?;
        match self.dimension {
            Some(expected) if expected != dimension => Err(Error::Dimension {
                what: "the vector that the plan is to serve",
                expected,
                actual: dimension,
            }),
            _ => Ok(()),
        }
    }

    /// The neighbouring relation this footprint speaks of.
    pub fn relation(&self) -> Relation {
        self.relation
    }

    /// The inputs that are accepted.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// The parts of the change.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The squared sensitivity, given the strategy's own for each participation.
    ///
    /// # Errors
    /// What `of_strategy` returns.
    pub fn squared_sensitivity(
        &self,
        mut of_strategy: impl FnMut(Participation) -> Result<Sensitivity>,
    ) -> Result<Sensitivity> {
        let mut squared = 0.0_f64;
        let mut exact = true;
        for term in &self.terms {
            let part = of_strategy(term.participation)?;
            let weighted = (term.weight * term.weight).next_up() * part.squared;
            squared = (squared + weighted.next_up()).next_up();
            exact &= part.exact;
        }
        Ok(Sensitivity { squared, exact })
    }
}

#[cfg(test)]
mod tests;
