//! Strategies in integers: the matrix C̃ that is measured, and its sensitivity without rounding.
//!
//! `C̃ = round(2^s · C)` entry by entry; trees are 0/1 matrices, so `2^s · C` itself. For `C = D1 · T · D2` the three
//! factors are rounded and their exact product is C̃. Whatever the rounding did, C̃ *is* what is measured: its own columns give
//! the sensitivity. Decoding may use the recursion of the real T where the difference is nothing beside the noise
//! ([`super::decode`]); the diagonals are always undone as they were rounded.
//!
//! | part of `D1 · T · D2` | bits | why |
//! |---|---|---|
//! | T | as many as the decoder needs, 36 first | an error in T is an error in the release |
//! | D1 | 20 of its smallest entry, or down to 10 where measurements would be too large | undone exactly, and near the optimum the mean of the noise changes with the square of an error, but that of a step in proportion |
//! | D2 | 24 of its smallest entry, or down to 14 where measurements would be too large | undone exactly, but a column that is too short by one unit wastes that much |

use std::sync::Arc;

use dp_linalg::{fft, series, tree};
use ndarray::Array2;
use num_bigint::BigUint;

use super::sums::{
    Energies, bands, ceiling, combined, energy, largest, magnitudes, never_rises, square, toeplitz,
};
use super::transform::LONGEST;
use crate::error::{Error, Result};
use crate::identity::Digest;
use crate::sensitivity::{self, Participation};
use crate::strategy::toeplitz::Core;
use crate::strategy::weighted_tree::WeightedNodes;
use crate::strategy::{
    Measurement, Strategy, check_materializable, has_non_negative_products, refused_columns,
};

/// The number of bits of an entry of C̃ that are tried first.
pub const ENTRY_BITS: u32 = 40;

/// The same for the core of a scaled matrix, whose entries have those of the diagonals besides.
const CORE_BITS: u32 = 36;

/// The most bits that decoding can ask for.
pub const MOST_BITS: u32 = 56;

/// The smallest number of bits at which C̃ still resembles C.
pub const FEWEST_BITS: u32 = 20;

/// Bits of the smallest entry of D1, as far as those of the largest one go: where there is room, and where there is none.
const ROW_BITS: [(u32, u32); 2] = [(20, 40), (10, 22)];

/// Bits of the smallest entry of D2: where there is room; where measurements would be too large; and where inputs times its largest
/// entry would be.
const COLUMN_BITS: [u32; 3] = [24, 14, 10];

/// The largest range of D2 in bits.
const COLUMN_RANGE: u32 = 30;

/// Entries of D2 that are added up by one transform in f64 are within so many bits of each other.
const ALIKE: f64 = 8.0;

/// The most transforms for that.
const MOST_BLOCKS: usize = 8;

/// How finely a strategy is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Precision {
    /// Bits of an entry, or of an entry of the core of a scaled matrix.
    pub(super) entries: u32,
    /// Bits of the largest entry of D1, and how many of them can be spared.
    rows: (u32, u32),
    /// Bits of the smallest entry of D2, and how many of them can be spared.
    columns: (u32, u32),
}

impl Precision {
    /// So many bits for entries, and as many as there can be for diagonals.
    pub(super) fn new(entries: u32) -> Self {
        Self { entries, rows: (u32::MAX, 0), columns: (COLUMN_BITS[0], 0) }
    }

    /// So many bits less: those of the diagonals go first, whose loss costs noise; the others are needed to decode.
    pub(super) fn without(mut self, excess: u32) -> Self {
        for left in (1..=excess).rev() {
            let larger = if self.rows.1 >= self.columns.1 { &mut self.rows } else { &mut self.columns };
            if larger.1 == 0 {
                self.entries = self.entries.saturating_sub(left);
                break;
            }
            *larger = (larger.0 - 1, larger.1 - 1);
        }
        self
    }

    /// Whether only entries are left to be cut.
    pub(super) fn has_coarsest_diagonals(self) -> bool {
        (self.rows.1, self.columns.1) == (0, 0)
    }
}

/// A lower-triangular integer matrix, by its structure.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entries {
    /// By coefficients, in units of `2^-bits`.
    Toeplitz { coefficients: Vec<i64>, bits: u32 },
    /// `rows[i] · coefficients[i-j] · columns[j]`.
    Scaled { rows: Vec<i64>, coefficients: Vec<i64>, columns: Vec<i64>, bits: [u32; 3] },
    /// `2^bits` times the indicator of the node that ends at each step and covers as many steps as its lowest digit is
    /// worth.
    LeftNodes { bits: u32 },
    /// `2^bits` times the indicators of all complete nodes, in the order in which they become complete.
    AllNodes { bits: u32 },
    /// `2^bits` times weighted indicators of nodes, whose weights are multiples of `2^-BITS`.
    WeightedNodes { nodes: WeightedNodes, bits: u32 },
    /// Rows one after the other, each up to its diagonal.
    Dense { packed: Vec<i64>, bits: u32 },
}

/// An integer matrix with one column per step.
#[derive(Debug, Clone)]
pub struct IntegerStrategy {
    pub(super) entries: Entries,
    /// The real T, if its inverse is a recursion of few values that decodes well enough.
    pub(super) recursion: Option<Core>,
    /// How finely it is rounded: for diagonals what became of what was asked for.
    pub(super) precision: Precision,
    /// The squared norm of the longest column, where finding it takes a convolution.
    longest: Option<BigUint>,
    /// The largest sum of magnitudes in a row, and in a row of the core times D2.
    reach: [BigUint; 2],
    bands: usize,
    steps: usize,
    name: &'static str,
    source: Arc<dyn Strategy>,
}

/// What is rounded to integers, looked up once for any number of bits.
pub(super) struct Source {
    strategy: Arc<dyn Strategy>,
    matrix: Known,
}

/// What is known of the matrix.
enum Known {
    /// Its real entries, to be rounded.
    Real(Measurement),
    /// Its integers.
    Integers(Entries),
}

impl Source {
    pub(super) fn new(strategy: &Arc<dyn Strategy>) -> Result<Self> {
        let steps = strategy.steps();
        if steps > LONGEST {
            return Err(Error::TooLarge { what: "an exact convolution", steps, limit: LONGEST });
        }
        let measurement = strategy.measurement()?;
        if matches!(measurement, Measurement::Dense(_)) {
            check_materializable(steps)?;
        }
        Ok(Self { strategy: strategy.clone(), matrix: Known::Real(measurement) })
    }

    /// The integers of a dense matrix that were saved, in units of `2^-bits`.
    ///
    /// # Errors
    /// [`Error::State`] for anything but the lower triangle of the strategy's steps, with a diagonal.
    pub(super) fn of_integers(strategy: &Arc<dyn Strategy>, packed: &[f64], bits: u32) -> Result<Self> {
        let steps = strategy.steps();
        check_materializable(steps)?;
        let integral = |value: &f64| value.fract() == 0.0 && value.abs() <= libm::ldexp(1.0, 60);
        let diagonal = |i: usize| packed[i * (i + 1) / 2 + i] != 0.0;
        if packed.len() != steps * (steps + 1) / 2
            || !packed.iter().all(integral)
            || !(0..steps).all(diagonal)
        {
            return Err(Error::State { reason: "its integer matrix does not fit the plan".to_owned() });
        }
        let packed = packed.iter().map(|value| *value as i64).collect();
        let matrix = Known::Integers(Entries::Dense { packed, bits });
        Ok(Self { strategy: strategy.clone(), matrix })
    }

    /// What is rounded.
    pub(super) fn strategy(&self) -> &Arc<dyn Strategy> {
        &self.strategy
    }

    /// The number of bits to begin with.
    pub(super) fn first_bits(&self) -> u32 {
        match self.matrix {
            Known::Real(Measurement::Scaled { .. }) => CORE_BITS,
            _ => ENTRY_BITS,
        }
    }

    /// The integer matrix whose entries, or those of its factors, have at most so many bits, for inputs up to a magnitude.
    pub(super) fn round(&self, precision: Precision, magnitude: u64) -> Result<IntegerStrategy> {
        let bits = precision.entries;
        if !(FEWEST_BITS..=MOST_BITS).contains(&bits) {
            return Err(Error::OutOfRange {
                what: "bits of an integer strategy",
                value: f64::from(bits),
                range: "20 to 56 (choose a coarser grid or a larger budget)",
            });
        }
        let (strategy, steps) = (&self.strategy, self.strategy.steps());
        let refuse = |reason| Error::NotApplicable {
            strategy: strategy.name(),
            workload: strategy.workload().to_string(),
            reason,
        };
        let mut used = precision;
        let (entries, core, longest) = match &self.matrix {
            Known::Integers(entries) => (entries.clone(), None, None),
            Known::Real(Measurement::Toeplitz(core)) => {
                let (coefficients, bits) = rounded(&core.coefficients(steps)?, bits)?;
                (Entries::Toeplitz { coefficients, bits }, Some(core), None)
            }
            Known::Real(Measurement::Scaled { rows, core, columns }) => {
                let coefficients = core.coefficients(steps)?;
                let (entries, longest, diagonals) =
                    scaled(rows, &coefficients, columns.as_deref(), precision, magnitude)?;
                used = diagonals;
                (entries, Some(core), Some(longest))
            }
            Known::Real(Measurement::LeftNodes) => (Entries::LeftNodes { bits }, None, None),
            Known::Real(Measurement::AllNodes) => (Entries::AllNodes { bits }, None, None),
            Known::Real(Measurement::WeightedNodes(nodes)) => {
                (Entries::WeightedNodes { nodes: nodes.clone(), bits }, None, None)
            }
            Known::Real(Measurement::Dense(matrix)) => {
                if matrix.dim() != (steps, steps) {
                    return Err(refuse("an exact release measures square or tree-shaped matrices only"));
                }
                let entries = dense(matrix, bits)?
                    .ok_or_else(|| refuse("its matrix is not lower triangular with a diagonal"))?;
                (entries, None, None)
            }
        };
        if let Entries::Toeplitz { coefficients, .. } | Entries::Scaled { coefficients, .. } = &entries
            && coefficients[0] == 0
        {
            return Err(refuse("its diagonal rounds to zero"));
        }
        let recursion = core.filter(|core| !matches!(core, Core::Full { .. })).cloned();
        let reach = reach(&entries, steps);
        let bands = match &entries {
            Entries::Toeplitz { coefficients, .. } | Entries::Scaled { coefficients, .. } => {
                bands(coefficients)
            }
            _ => steps,
        };
        Ok(IntegerStrategy {
            entries,
            precision: used,
            recursion,
            longest,
            reach,
            bands,
            steps,
            name: strategy.name(),
            source: strategy.clone(),
        })
    }
}

impl IntegerStrategy {
    /// Rounds a strategy to entries of at most `bits` bits; those of a scaled matrix have the bits of its diagonals besides.
    ///
    /// # Complexity
    /// O(n log n) for Toeplitz matrices, scaled or not; O(n²) time and memory for dense ones, which are written out.
    ///
    /// # Errors
    /// Fewer than 20 bits or more than 56, a decoder that looks ahead, a dense matrix that is not lower triangular with a
    /// diagonal, or more steps than a dense matrix is written out for.
    pub fn new(strategy: &Arc<dyn Strategy>, bits: u32) -> Result<Self> {
        Source::new(strategy)?.round(Precision::new(bits), 1)
    }

    /// Refuses a matrix whose columns may have negative inner products; see [`crate::strategy::check_columns`].
    ///
    /// # Errors
    /// [`Error::NotApplicable`], or a matrix too large to look at.
    pub(super) fn check_columns(&self) -> Result<()> {
        let non_negative = |values: &[i64]| values.iter().all(|value| *value >= 0);
        let fine = match &self.entries {
            Entries::Toeplitz { coefficients, .. } => non_negative(coefficients),
            Entries::Scaled { rows, coefficients, columns, .. } => {
                [rows, coefficients, columns].iter().all(|part| non_negative(part))
            }
            Entries::LeftNodes { .. } | Entries::AllNodes { .. } | Entries::WeightedNodes { .. } => true,
            Entries::Dense { packed, .. } => {
                non_negative(packed) || has_non_negative_products(&self.materialize()?)
            }
        };
        if fine { Ok(()) } else { Err(refused_columns(self.source.as_ref())) }
    }

    /// The same matrix with entries in units of `2^-bits`, for tests that enumerate.
    #[cfg(test)]
    pub(super) fn with_bits(&self, few: u32) -> Self {
        let mut coarse = self.clone();
        match &mut coarse.entries {
            Entries::Toeplitz { coefficients, bits } => {
                for coefficient in coefficients {
                    *coefficient = (*coefficient + (1 << (*bits - few - 1))) >> (*bits - few);
                }
                *bits = few;
            }
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => *bits = few,
            Entries::WeightedNodes { bits, .. } => *bits = few.max(WeightedNodes::BITS),
            // One bit for what is scaled, and so a factor of 1 or 2.
            Entries::Scaled { rows, coefficients, columns, bits } => {
                let parts = [(&mut *rows, 1), (&mut *coefficients, few), (&mut *columns, 1)];
                for ((values, kept), bits) in parts.into_iter().zip(bits) {
                    for value in values {
                        *value = (*value >> (*bits - kept)).max(1);
                    }
                    *bits = kept;
                }
                coarse.longest =
                    Energies::new(rows, coefficients).ok().map(|energies| energies.longest(columns));
            }
            Entries::Dense { .. } => {}
        }
        // The real inverse is not that of so coarse a matrix.
        coarse.recursion = None;
        coarse.reach = reach(&coarse.entries, coarse.steps);
        coarse
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The name of the strategy this is a rounding of.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Adds every entry to a digest.
    pub(super) fn add_to(&self, digest: &mut Digest) {
        let mut all = |entries: &[i64]| entries.iter().for_each(|entry| digest.add(entry.cast_unsigned()));
        match &self.entries {
            Entries::Toeplitz { coefficients, .. } => all(coefficients),
            Entries::Scaled { rows, coefficients, columns, .. } => {
                all(rows);
                all(coefficients);
                all(columns);
            }
            Entries::Dense { packed, .. } => all(packed),
            Entries::WeightedNodes { nodes, .. } => digest.add(nodes.measurements() as u64),
            Entries::LeftNodes { .. } | Entries::AllNodes { .. } => {}
        }
        digest.add(self.bits().into());
    }

    /// The strategy this is a rounding of.
    pub(crate) fn source(&self) -> &Arc<dyn Strategy> {
        &self.source
    }

    /// The number of measurements, each with its own noise.
    pub fn measurements(&self) -> usize {
        match &self.entries {
            Entries::AllNodes { .. } => tree::complete_nodes(self.steps),
            Entries::WeightedNodes { nodes, .. } => nodes.measurements(),
            _ => self.steps,
        }
    }

    /// The power of two by which C̃ is larger than the strategy, up to the normalization of scaled ones.
    pub(super) fn bits(&self) -> u32 {
        match &self.entries {
            Entries::Scaled { bits, .. } => bits.iter().sum(),
            Entries::Toeplitz { bits, .. }
            | Entries::LeftNodes { bits }
            | Entries::AllNodes { bits }
            | Entries::WeightedNodes { bits, .. }
            | Entries::Dense { bits, .. } => *bits,
        }
    }

    /// The largest sum of magnitudes in a row: no measurement exceeds this times the largest input.
    pub(super) fn reach(&self) -> &BigUint {
        &self.reach[0]
    }

    /// The same before the rows of a scaled matrix are scaled: what a convolution must recover.
    pub(super) fn convolution_reach(&self) -> &BigUint {
        &self.reach[1]
    }

    /// The number of diagonals that are not zero.
    pub(super) fn bands(&self) -> usize {
        self.bands
    }

    /// `Δ(C̃)²` for unit changes: the exact integer, or a proven upper bound of it.
    ///
    /// # Privacy
    /// Single participation: the longest column, in integers. Repeated participation: where nothing increases in time
    /// (non-negative coefficients and both diagonals, and rounding keeps that) the sum of the columns `0, b, 2b, …`, in integers;
    /// for other Toeplitz matrices that of the non-increasing majorant; bands no wider than the separation
    /// make orthogonal columns; for trees the integer program of the tree times `4^bits`; otherwise the Gram bound of
    /// [`sensitivity::dense`] enlarged by its rounding, or the triangle inequality.
    ///
    /// # Errors
    /// What the Gram bound refuses, or a sum beyond 128 bits.
    pub fn squared_sensitivity(&self, participation: Participation) -> Result<BigUint> {
        let times = participation.times_within(self.steps);
        match &self.entries {
            Entries::Toeplitz { coefficients, .. } => {
                toeplitz(coefficients, times, participation.separation())
            }
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => {
                let nodes = self.source.sensitivity(participation)?.squared;
                Ok(ceiling(nodes) << (2 * bits))
            }
            Entries::WeightedNodes { nodes, bits } => {
                let longest = BigUint::from(nodes.squared_sensitivity());
                Ok((longest << (2 * (bits - WeightedNodes::BITS))) * times * times)
            }
            Entries::Scaled { rows, coefficients, columns, .. } => {
                let longest = self.longest.clone().unwrap_or_default();
                if times <= 1 {
                    return Ok(longest);
                }
                let separation = participation.separation();
                if [rows, coefficients, columns].iter().all(|part| never_rises(part)) {
                    let sums = combined(coefficients, Some(columns), times, separation)?;
                    return energy(sums.iter().zip(rows).map(|(sum, row)| sum.checked_mul((*row).into())));
                }
                if self.bands() <= separation {
                    return Ok(longest * times);
                }
                self.by_gram(participation, longest)
            }
            Entries::Dense { packed, .. } => {
                let mut energies = vec![BigUint::ZERO; self.steps];
                for row in rows_of(packed, self.steps) {
                    for (energy, entry) in energies.iter_mut().zip(row) {
                        *energy += square(*entry);
                    }
                }
                self.by_gram(participation, energies.into_iter().max().unwrap_or_default())
            }
        }
    }

    fn by_gram(&self, participation: Participation, longest: BigUint) -> Result<BigUint> {
        let times = participation.times_within(self.steps);
        if times <= 1 {
            return Ok(longest);
        }
        let bound = longest * times * times;
        if self.steps > sensitivity::DENSE_LIMIT {
            return Ok(bound);
        }
        let gram = sensitivity::dense(self.materialize()?.view(), participation)?.squared;
        // The entries of scaled matrices lose their last bits in f64; the margin is far above that.
        Ok(ceiling(gram * (1.0 + 1e-12)).min(bound))
    }

    /// The ℓ1 sensitivity for unit changes: the largest column sum of magnitudes, times the participations.
    ///
    /// # Errors
    /// What writing out a scaled matrix refuses.
    pub fn absolute_sensitivity(&self, participation: Participation) -> Result<BigUint> {
        let column = match &self.entries {
            Entries::Toeplitz { coefficients, .. } => magnitudes(coefficients),
            Entries::LeftNodes { bits } | Entries::AllNodes { bits } => {
                BigUint::from(tree::levels(self.steps)) << *bits
            }
            Entries::WeightedNodes { bits, .. } => BigUint::from(1_u32) << *bits,
            Entries::Scaled { rows, coefficients, columns, .. } => {
                magnitudes(coefficients) * largest(rows) * largest(columns)
            }
            Entries::Dense { packed, .. } => {
                let mut sums = vec![BigUint::ZERO; self.steps];
                for row in rows_of(packed, self.steps) {
                    for (sum, entry) in sums.iter_mut().zip(row) {
                        *sum += entry.unsigned_abs();
                    }
                }
                sums.into_iter().max().unwrap_or_default()
            }
        };
        Ok(column * participation.times_within(self.steps))
    }

    /// The matrix C̃ in f64, for tests and small dense programs; its entries of up to 53 bits are exact.
    ///
    /// # Errors
    /// More steps than a matrix is written out for.
    pub fn materialize(&self) -> Result<Array2<f64>> {
        check_materializable(self.steps)?;
        let n = self.steps;
        let lower = |entry: &dyn Fn(usize, usize) -> f64| {
            Array2::from_shape_fn((n, n), |(i, j)| if i >= j { entry(i, j) } else { 0.0 })
        };
        Ok(match &self.entries {
            Entries::Toeplitz { coefficients, .. } => lower(&|i, j| coefficients[i - j] as f64),
            Entries::Scaled { rows, coefficients, columns, .. } => lower(&|i, j| {
                (i128::from(rows[i]) * i128::from(coefficients[i - j]) * i128::from(columns[j])) as f64
            }),
            Entries::LeftNodes { bits }
            | Entries::AllNodes { bits }
            | Entries::WeightedNodes { bits, .. } => {
                self.source.materialize()?.strategy * 2.0_f64.powi(bits.cast_signed())
            }
            Entries::Dense { packed, .. } => lower(&|i, j| packed[i * (i + 1) / 2 + j] as f64),
        })
    }
}

/// The values times `2^s`, rounded, with the largest s that keeps them within `bits` bits.
fn rounded(values: &[f64], bits: u32) -> Result<(Vec<i64>, u32)> {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    // The largest magnitude is below 2^exponent.
    let exponent = libm::frexp(largest).1;
    let shift = u32::try_from(bits.cast_signed() - exponent).ok().filter(|shift| *shift <= 400);
    let shift = shift.ok_or(Error::OutOfRange {
        what: "the largest entry of an integer strategy",
        value: largest,
        range: "above 2^-346 and below 2 to the power of the bits of an entry",
    })?;
    let scale = libm::ldexp(1.0, shift.cast_signed());
    Ok((values.iter().map(|value| (value * scale).round() as i64).collect(), shift))
}

/// The bits in front of the smallest value, up to 1, and the largest.
fn range(values: &[f64]) -> u32 {
    let smallest = values.iter().copied().fold(1.0, f64::min);
    (1 - libm::frexp(smallest).1).unsigned_abs()
}

/// Rounds the factors of `D1 · T · D2`, and normalizes the columns of what came out if none are given. Returns the squared norm
/// of the longest column beside it, and how finely the diagonals are rounded.
fn scaled(
    rows: &[f64],
    coefficients: &[f64],
    columns: Option<&[f64]>,
    precision: Precision,
    magnitude: u64,
) -> Result<(Entries, BigUint, Precision)> {
    // What a convolution takes is one word: the columns must leave room for the inputs.
    let room = (1_u64 << 61) / magnitude.max(1);
    if room < 1 << COLUMN_BITS[1] {
        return Err(Error::OutOfRange {
            what: "the largest input of a scaled strategy in grid units",
            value: magnitude as f64,
            range: "below 2^47 (choose a coarser grid)",
        });
    }
    // Diagonals have no scale of their own: the largest row and the smallest column are one.
    let largest = rows.iter().copied().fold(0.0, f64::max);
    // Nor may rows differ by more than columns can that are to have one length.
    let least = room.ilog2().saturating_sub(COLUMN_BITS[2]).min(COLUMN_RANGE).cast_signed() - 2;
    let least = if columns.is_none() { libm::ldexp(1.0, -least) } else { 0.0 };
    let rows: Vec<f64> = rows.iter().map(|row| (row / largest).max(least)).collect();
    let row_range = range(&rows);
    let [row_bits, fewest] = ROW_BITS.map(|(smallest, largest)| (smallest + row_range).min(largest));
    let row_bits = row_bits.min(precision.rows.0);
    let unit = libm::ldexp(1.0, row_bits.cast_signed());
    let rows: Vec<i64> = rows.iter().map(|row| (row * unit).round().max(1.0) as i64).collect();
    let (coefficients, core_bits) = rounded(coefficients, precision.entries)?;
    let energies = Energies::new(&rows, &coefficients)?;
    let lengths: Vec<f64> = if let Some(columns) = columns {
        let smallest = columns.iter().copied().fold(f64::INFINITY, f64::min);
        columns.iter().map(|column| column / smallest).collect()
    } else {
        // Square roots of exact sums, in f64: how columns are scaled is a choice, not a claim.
        let norms: Vec<f64> = energies.estimates().into_iter().map(f64::sqrt).collect();
        let longest = norms.iter().copied().fold(0.0, f64::max);
        norms.iter().map(|norm| longest / norm).collect()
    };
    let longest = lengths.iter().copied().fold(1.0, f64::max);
    let column_range = range(&[longest.recip()]);
    let most = room.ilog2().saturating_sub(column_range).max(COLUMN_BITS[2]);
    let column_bits = precision.columns.0.min(most);
    let unit = f64::from(1_u32 << column_bits);
    let limit = (1_u64 << (column_bits + COLUMN_RANGE)).min(room) as f64;
    let columns: Vec<i64> =
        lengths.iter().map(|length| (unit * length).floor().clamp(1.0, limit) as i64).collect();
    let longest = energies.longest(&columns);
    let bits = [row_bits, core_bits, column_bits];
    let used = Precision {
        rows: (row_bits, row_bits.saturating_sub(fewest)),
        columns: (column_bits, column_bits.saturating_sub(COLUMN_BITS[1])),
        ..precision
    };
    Ok((Entries::Scaled { rows, coefficients, columns, bits }, longest, used))
}

/// The largest sums of magnitudes in a row: of the matrix, and of its core times D2.
fn reach(entries: &Entries, steps: usize) -> [BigUint; 2] {
    let same = |reach: BigUint| [reach.clone(), reach];
    match entries {
        Entries::Toeplitz { coefficients, .. } => same(magnitudes(coefficients)),
        Entries::Scaled { rows, coefficients, columns, .. } => {
            let real =
                |values: &[i64]| values.iter().map(|value| value.unsigned_abs() as f64).collect::<Vec<f64>>();
            let (core, columns) = (real(coefficients), real(columns));
            let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
            let mut sums = vec![0.0; steps];
            // Columns of one size at a time: the margin of large ones would be too much where rows are larger still.
            let (mut start, mut blocks) = (0, 0);
            while start < steps {
                let alike = |column: &f64| (column / columns[start]).log2().abs() <= ALIKE;
                let alike = columns[start..].iter().take_while(|column| alike(column)).count();
                let end = if blocks < MOST_BLOCKS { start + alike } else { steps };
                let block = &columns[start..end];
                // A transform in f64 is wrong by less than 1e-12 of the product of the norms.
                let margin = 1e-10 * norm(&core[..steps - start]) * norm(block);
                let part = fft::convolve_truncated(&core[..steps - start], block, steps - start);
                for (sum, value) in sums[start..].iter_mut().zip(part) {
                    *sum += (value.max(0.0) + margin) * (1.0 + 1e-9);
                }
                (start, blocks) = (end, blocks + 1);
            }
            let scaled = sums.iter().zip(rows).map(|(sum, row)| sum * row.unsigned_abs() as f64);
            [ceiling(scaled.fold(0.0, f64::max)), ceiling(sums.iter().copied().fold(0.0, f64::max))]
        }
        Entries::LeftNodes { bits } | Entries::AllNodes { bits } | Entries::WeightedNodes { bits, .. } => {
            same(BigUint::from(steps) << *bits)
        }
        Entries::Dense { packed, .. } => {
            same(rows_of(packed, steps).map(magnitudes).max().unwrap_or_default())
        }
    }
}

fn dense(matrix: &Array2<f64>, bits: u32) -> Result<Option<Entries>> {
    let steps = matrix.nrows();
    let (values, shift) = rounded(&matrix.iter().copied().collect::<Vec<f64>>(), bits)?;
    let mut packed = Vec::with_capacity(steps * (steps + 1) / 2);
    for (i, row) in values.chunks_exact(steps).enumerate() {
        if row[i] == 0 || row[i + 1..].iter().any(|entry| *entry != 0) {
            return Ok(None);
        }
        packed.extend_from_slice(&row[..=i]);
    }
    Ok(Some(Entries::Dense { packed, bits: shift }))
}

/// The rows of a packed lower triangle.
pub(super) fn rows_of(packed: &[i64], steps: usize) -> impl Iterator<Item = &[i64]> {
    (0..steps).map(|i| &packed[i * (i + 1) / 2..(i + 1) * (i + 2) / 2])
}

/// The coefficients of an integer series in units of `2^-bits`, exactly, and those of its inverse.
pub(super) fn inverse_series(coefficients: &[i64], bits: u32) -> Result<Vec<f64>> {
    let unit = libm::ldexp(1.0, -bits.cast_signed());
    let values: Vec<f64> = coefficients.iter().map(|value| *value as f64 * unit).collect();
    Ok(series::inverse(&values, values.len())?)
}
