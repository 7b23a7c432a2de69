//! The plan of an exact release: the integer matrix, its exact sensitivity, and the rational noise they demand.

use std::sync::Arc;

use num_bigint::BigUint;

use super::budget::{gaussian_slack, variance_divisor};
use super::decode::{decoder_row_norms, recursion_bias};
use super::integer::{Entries, IntegerStrategy, MOST_BITS, Precision, Source};
use super::lattice::Lattice;
use super::noise::Sampler;
use super::sums::{ceiling, dyadic, to_f64};
use super::transform::REACH;
use crate::budget::{Kind, upper_quantile};
use crate::error::{Error, Result, check_positive};
use crate::identity::Digest;
use crate::noise::discrete::{DiscreteGaussian, DiscreteLaplace};
use crate::saved::{Saved, SavedNoise, same_scale};
use crate::sensitivity::{Footprint, Sensitivity};
use crate::strategy::{Coefficients, RowNorms, Strategy};

/// An exact release, calibrated: the only place that computes the integer noise.
///
/// # Privacy
/// All releases together satisfy the budget under the footprint's neighbouring relation, for adaptively chosen inputs.
/// The measured matrix, the sensitivity, the noise and their sum are integers or rationals; every bound that keeps
/// them from overflowing is checked here, before data arrives.
#[derive(Debug, Clone)]
pub(crate) struct ExactPlan {
    strategy: Arc<IntegerStrategy>,
    #[cfg(test)]
    footprint: Footprint,
    lattice: Lattice,
    dimension: usize,
    budget: Kind,
    sensitivity: BigUint,
    noise: NoiseParameter,
    sampler: Sampler,
    rows: Arc<RowNorms>,
    /// `Σ_j |A_tj|` for every step.
    reach: Arc<[f64]>,
    bias: f64,
    /// At least the number of coordinates that one person can change.
    touched: f64,
}

/// The parameter of the noise, an exact rational.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseParameter {
    /// Discrete Gaussian noise with `σ² = 4^doublings · numerator / denominator`.
    SquaredScale {
        /// The numerator.
        numerator: u128,
        /// The denominator.
        denominator: u128,
        /// The power of four.
        doublings: u32,
    },
    /// Discrete Laplace noise with this scale.
    Scale {
        /// The numerator.
        numerator: u128,
        /// The denominator.
        denominator: u128,
    },
}

/// Measurements stay below this power of two, and the sampler below `2^123`: their sum leaves no 128 bits.
const LARGEST_MEASUREMENT_BITS: u64 = 125;

/// The same for what a convolution must recover, before rows are scaled.
const LARGEST_CONVOLUTION_BITS: u64 = 122;

// Exact products recover whatever is allowed.
const _: () = assert!(REACH >> LARGEST_CONVOLUTION_BITS > 0);

/// The widest exact noise, in bits of σ².
const WIDEST_VARIANCE_BITS: u64 = 200;

/// Decoding moves a release by less than this many standard deviations.
const LARGEST_BIAS: f64 = 1e-6;

/// Inputs of encodings have no declared bound. Up to this many events of a coordinate in every step the bias is below
/// [`LARGEST_BIAS`]; more of them move it in proportion.
const ENCODED_EVENTS: u64 = 1 << 20;

impl ExactPlan {
    /// Calibrates a strategy for vectors of the given dimension whose values are multiples of `grid`.
    ///
    /// The entries of the integer matrix get [`super::ENTRY_BITS`] bits, or as many as decoding needs, or as many as the noise
    /// sampler and 128-bit sums allow.
    ///
    /// Pure ε asks for a small ℓ1 sensitivity, which trees have; use `binary-tree` or `honaker-online` there.
    ///
    /// # Errors
    /// A strategy that cannot be measured on live data, bounds that are too wide or a grid that is too fine for 20-bit
    /// entries, a pure budget for anything but scalars, or what calibration refuses.
    pub(crate) fn new(
        strategy: &Arc<dyn Strategy>,
        footprint: Footprint,
        dimension: usize,
        grid: f64,
        budget: Kind,
    ) -> Result<Self> {
        Self::of_source(&Source::new(strategy)?, footprint, dimension, grid, budget)
    }

    fn of_source(
        source: &Source,
        footprint: Footprint,
        dimension: usize,
        grid: f64,
        budget: Kind,
    ) -> Result<Self> {
        footprint.check_dimension(dimension)?;
        check_positive("grid", grid)?;
        let lattice = Lattice::new(&footprint, dimension, grid)?;
        let touched = lattice.touched(&footprint, dimension, source.strategy().steps());
        let (mut precision, mut most) = (Precision::new(source.first_bits()), MOST_BITS);
        loop {
            let mut integer = source.round(precision, lattice.magnitude())?;
            if footprint.needs_non_negative_columns() {
                integer.check_columns()?;
            }
            let draft = Draft::new(&integer, &lattice, &footprint, touched, budget)?;
            if draft.excess > 0 {
                // This falls at every turn, and rounding refuses in the end.
                precision = integer.precision.without(draft.excess);
                if precision.has_coarsest_diagonals() {
                    most = precision.entries;
                }
                continue;
            }
            let mut rows = decoder_row_norms(&integer)?;
            let bias = relative_bias(&integer, &lattice, &rows, draft.noise)?;
            if bias > LARGEST_BIAS {
                if precision.entries < most {
                    let missing = (bias / LARGEST_BIAS).log2().ceil().clamp(1.0, f64::from(MOST_BITS));
                    precision.entries = most.min(precision.entries + missing as u32);
                    continue;
                }
                // No more bits to be had: the coefficients of the integer matrix itself decode.
                integer.recursion = None;
                rows = decoder_row_norms(&integer)?;
            }
            let bias = if integer.recursion.is_some() { bias } else { 0.0 };
            let sampler = draft.noise.sampler()?;
            return Ok(Self {
                strategy: Arc::new(integer),
                lattice,
                dimension,
                budget,
                sensitivity: draft.sensitivity,
                noise: draft.noise,
                sampler,
                rows: Arc::new(rows),
                reach: row_sums(source.strategy().as_ref())?.into(),
                #[cfg(test)]
                footprint,
                bias,
                touched,
            });
        }
    }

    /// What a state keeps of the plan: of a matrix without structure its integers, otherwise what they are rounded from.
    pub(crate) fn saved(&self) -> Option<Saved> {
        let coefficients = match &self.strategy.entries {
            Entries::Dense { packed, bits } => {
                // They were rounded in f64, so they are exact there.
                let values: Vec<f64> = packed.iter().map(|entry| *entry as f64).collect();
                Coefficients::none().with("integer matrix", values).with("bits", [f64::from(*bits)])
            }
            _ => self.strategy.source().coefficients()?,
        };
        Some(Saved { coefficients, noise: SavedNoise::Exact(self.noise) })
    }

    /// The same plan with the numbers that were saved; see [`crate::Plan::continuing`].
    ///
    /// # Errors
    /// Numbers that do not fit the plan.
    pub(crate) fn continuing(&self, saved: &Saved, footprint: Footprint) -> Result<Self> {
        let planned = self.strategy.source();
        let source = if let Some(packed) = saved.coefficients.get("integer matrix") {
            Source::of_integers(planned, packed, saved.coefficients.number("bits")? as u32)?
        } else {
            let (workload, steps) = (planned.workload(), planned.steps());
            let again = saved.coefficients.build(planned.name(), workload, steps)?;
            Source::new(again.as_ref().unwrap_or(planned))?
        };
        let mut plan = Self::of_source(&source, footprint, self.dimension, self.grid(), self.budget)?;
        if let SavedNoise::Exact(noise) = saved.noise
            && same_scale(noise.variance(), plan.noise.variance())
        {
            plan.noise = noise;
            plan.sampler = noise.sampler()?;
        }
        Ok(plan)
    }

    /// A plan with a coarser matrix than any that [`ExactPlan::new`] makes, whose noise can be enumerated.
    #[cfg(test)]
    pub(super) fn with_few_bits(
        strategy: &Arc<dyn Strategy>,
        footprint: Footprint,
        budget: Kind,
        bits: u32,
    ) -> Result<Self> {
        let mut plan = Self::new(strategy, footprint, 1, 1.0, budget)?;
        let integer = plan.strategy.with_bits(bits);
        let draft = Draft::new(&integer, &plan.lattice, &plan.footprint, 1.0, budget)?;
        plan.sampler = draft.noise.sampler()?;
        plan.strategy = Arc::new(integer);
        plan.sensitivity = draft.sensitivity;
        plan.noise = draft.noise;
        plan.rows = Arc::new(decoder_row_norms(&plan.strategy)?);
        Ok(plan)
    }

    /// Decodes the integer matrix itself, whatever its core allows.
    #[cfg(test)]
    pub(super) fn decode_by_series(&mut self) {
        let mut strategy = (*self.strategy).clone();
        strategy.recursion = None;
        self.strategy = Arc::new(strategy);
    }

    /// The integer matrix.
    pub(crate) fn strategy(&self) -> &IntegerStrategy {
        &self.strategy
    }

    pub(super) fn shared_strategy(&self) -> Arc<IntegerStrategy> {
        self.strategy.clone()
    }

    pub(super) fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    pub(super) fn sampler(&self) -> Sampler {
        self.sampler.clone()
    }

    /// What one person can change.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// The unit of the data.
    pub(crate) fn grid(&self) -> f64 {
        self.lattice.grid()
    }

    /// The number of coordinates.
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// The number of steps.
    pub(crate) fn steps(&self) -> usize {
        self.strategy.steps()
    }

    /// The sensitivity of the measurements: squared ℓ2 for Gaussian noise, ℓ1 for Laplace noise.
    #[cfg(test)]
    pub(crate) fn sensitivity(&self) -> &BigUint {
        &self.sensitivity
    }

    /// The noise of every measurement.
    #[cfg(test)]
    pub(crate) fn noise(&self) -> NoiseParameter {
        self.noise
    }

    /// The standard deviation of each coordinate of the release of step `t`, counted from 1: that of the noise, to which
    /// inputs off the grid add at most [`ExactPlan::quantization`].
    #[cfg(test)]
    pub(crate) fn standard_deviation(&self, step: usize) -> Option<f64> {
        let squared = self.rows.at(step.checked_sub(1)?)?;
        let unit = self.grid() * libm::ldexp(1.0, -self.strategy.bits().cast_signed());
        Some(unit * (self.noise.variance() * squared).sqrt())
    }

    /// The most by which rounding the inputs to the grid moves the release of step `t`: `½ grid · Σ_j |A_tj|`.
    pub(crate) fn quantization(&self, step: usize) -> Option<f64> {
        let sum = self.reach.get(step.checked_sub(1)?)?;
        Some(self.lattice.largest_rounding() * sum)
    }

    /// The most by which decoding with the real matrix moves a release, in standard deviations of its noise: below 1e-6, and 0
    /// where the integer matrix itself is decoded. For encodings, whose inputs have no declared bound, with at most `2^20`
    /// grid units of a coordinate in every step.
    pub(crate) fn decoding_bias(&self) -> f64 {
        self.bias
    }

    /// How far the noise may be from the Gaussian of a μ-GDP budget, in total variation; see [`gaussian_slack`]. Other budgets
    /// hold as they are.
    pub(crate) fn slack(&self) -> f64 {
        match self.budget {
            Kind::Gaussian { .. } => {
                gaussian_slack(self.strategy.measurements() as f64 * self.touched, self.noise.variance())
            }
            _ => 0.0,
        }
    }

    /// See [`crate::Plan::tail_deviations`], without the bias of decoding.
    pub(crate) fn tail_deviations(&self, probability: f64, coordinates: f64) -> f64 {
        let variance = self.noise.variance();
        if matches!(self.noise, NoiseParameter::Scale { .. }) {
            // Cantelli: any law exceeds k of its deviations with probability at most 1/(1 + k²).
            return probability.recip().sqrt() * (1.0 + 1e-12);
        }
        let rows = self.strategy.measurements() as f64 * coordinates;
        let left = probability - gaussian_slack(rows, variance);
        let rounded =
            if left > 0.0 { upper_quantile(left) + (rows / variance).sqrt() / 2.0 } else { f64::INFINITY };
        let chernoff = (2.0 * -probability.ln()).sqrt();
        rounded.min(chernoff) * (1.0 + 1e-12)
    }

    /// The squared row norms of the decoder, in units of the integer matrix divided by its power of two.
    pub(crate) fn row_norms(&self) -> &RowNorms {
        &self.rows
    }

    /// The mean squared error factor `E2` of the integer matrix and its decoder, comparable with that of any strategy: per
    /// unit of squared change and of squared noise multiplier.
    ///
    /// # Errors
    /// What the sensitivity refuses.
    #[cfg(test)]
    pub(crate) fn mean_squared_error_factor(&self, participation: crate::Participation) -> Result<f64> {
        let squared = to_f64(&self.strategy.squared_sensitivity(participation)?);
        Ok(squared * libm::ldexp(1.0, -2 * self.strategy.bits().cast_signed()) * self.rows.mean())
    }

    /// The standard deviation of an entry of `z`, in units of the data.
    pub(crate) fn sigma(&self) -> f64 {
        self.unit() * self.noise.variance().sqrt()
    }

    /// One unit of a measurement, in units of the data.
    fn unit(&self) -> f64 {
        self.grid() * libm::ldexp(1.0, -self.strategy.bits().cast_signed())
    }

    /// The squared sensitivity in units of the data; the square of the ℓ1 sensitivity for Laplace noise.
    pub(crate) fn sensitivity_in_units_of_data(&self) -> Sensitivity {
        let own = to_f64(&self.sensitivity);
        let squared = match self.noise {
            NoiseParameter::SquaredScale { .. } => own * self.unit() * self.unit(),
            NoiseParameter::Scale { .. } => (own * self.unit()).powi(2),
        };
        Sensitivity::upper_bound(squared * (1.0 + 1e-12))
    }

    /// At least the number of rows that the first steps measure.
    pub(crate) fn used_rows(&self, step: usize) -> usize {
        match &self.strategy.entries {
            Entries::AllNodes { .. } => dp_linalg::tree::complete_nodes(step),
            // How many rows a step has depends on the shape; all of them is never too few.
            Entries::WeightedNodes { nodes, .. } => nodes.measurements(),
            _ => step,
        }
    }

    /// Adds every entry of the integer matrix and the noise to a digest.
    pub(crate) fn add_to(&self, digest: &mut Digest) {
        self.strategy.add_to(digest);
        self.sensitivity.iter_u64_digits().for_each(|digit| digest.add(digit));
        let (numerator, denominator, doublings) = match self.noise {
            NoiseParameter::SquaredScale { numerator, denominator, doublings } => {
                (numerator, denominator, doublings)
            }
            NoiseParameter::Scale { numerator, denominator } => (numerator, denominator, 0),
        };
        digest.add(u64::from(doublings));
        for word in
            [numerator, denominator].into_iter().flat_map(|value| [value as u64, (value >> 64) as u64])
        {
            digest.add(word);
        }
    }
}

impl NoiseParameter {
    fn sampler(self) -> Result<Sampler> {
        let refuse = |value: f64| Error::OutOfRange {
            what: "the exact noise that budget and bounds demand",
            value,
            range: "a scale between 2^-7 and 2^62 grid units, or 2^100 for Gaussian noise",
        };
        match self {
            Self::SquaredScale { numerator, denominator, doublings } => {
                DiscreteGaussian::wide(numerator, denominator, doublings)
                    .map(Sampler::Gaussian)
                    .map_err(|_| refuse(self.variance().sqrt()))
            }
            Self::Scale { numerator, denominator } => DiscreteLaplace::new(numerator, denominator)
                .map(Sampler::Laplace)
                .map_err(|_| refuse(numerator as f64 / denominator as f64)),
        }
    }

    /// The variance of a sample, to within rounding and, for the discrete Gaussian, from above.
    pub fn variance(self) -> f64 {
        match self {
            Self::SquaredScale { numerator, denominator, doublings } => {
                libm::ldexp(numerator as f64 / denominator as f64, 2 * doublings.cast_signed())
            }
            Self::Scale { numerator, denominator } => {
                // 2 e^{-1/s} / (1 - e^{-1/s})²
                let rate = denominator as f64 / numerator as f64;
                let sinh = (rate / 2.0).sinh();
                1.0 / (2.0 * sinh * sinh)
            }
        }
    }
}

/// What a number of bits leads to.
struct Draft {
    sensitivity: BigUint,
    noise: NoiseParameter,
    /// The number of bits by which some limit is exceeded.
    excess: u32,
}

impl Draft {
    fn new(
        strategy: &IntegerStrategy,
        lattice: &Lattice,
        footprint: &Footprint,
        touched: f64,
        budget: Kind,
    ) -> Result<Self> {
        let (sensitivity, divisor) = match budget {
            Kind::Pure { epsilon } => {
                let mut sensitivity = BigUint::ZERO;
                for (index, term) in footprint.terms().iter().enumerate() {
                    let change = lattice.absolute_change(footprint, index)?;
                    sensitivity += strategy.absolute_sensitivity(term.participation)? * change;
                }
                (sensitivity, check_positive("epsilon", epsilon)?)
            }
            Kind::ZeroConcentrated { .. } | Kind::Approximate { .. } | Kind::Gaussian { .. } => {
                let mut sensitivity = BigUint::ZERO;
                for (index, term) in footprint.terms().iter().enumerate() {
                    let squared = strategy.squared_sensitivity(term.participation)?;
                    sensitivity += lattice.squared_change(footprint, index).ceiling_of_product(&squared);
                }
                let divisor = match budget {
                    Kind::Approximate { epsilon, delta } => {
                        let measurements = strategy.measurements() as f64 * touched;
                        variance_divisor(epsilon, delta, measurements, to_f64(&sensitivity) * (1.0 - 1e-12))?
                    }
                    Kind::ZeroConcentrated { rho } => 2.0 * check_positive("rho", rho)?,
                    Kind::Gaussian { mu } => (mu * check_positive("mu", mu)?).next_down(),
                    Kind::Pure { epsilon } => epsilon,
                };
                (sensitivity, divisor)
            }
        };
        check_positive("what the budget allows per squared sensitivity", divisor)?;
        let (numerator, denominator, bits) = quotient_rounded_up(&sensitivity, divisor);
        let (noise, too_wide) = match budget {
            Kind::Pure { .. } => (NoiseParameter::Scale { numerator, denominator }, bits.saturating_sub(62)),
            _ if bits > 124 => {
                // Fewer digits of a wider number: `2^-(2 doublings)` of it, rounded up once more.
                let doublings = bits.saturating_sub(124).div_ceil(2);
                let unit = BigUint::from(1_u32) << (2 * doublings);
                let fewer = (&sensitivity + &unit - 1_u32) >> (2 * doublings);
                let (numerator, denominator, _) = quotient_rounded_up(&fewer, divisor);
                let doublings = u32::try_from(doublings).unwrap_or(u32::MAX);
                (
                    NoiseParameter::SquaredScale { numerator, denominator, doublings },
                    // The last rounding may carry.
                    (bits + 1).saturating_sub(WIDEST_VARIANCE_BITS).div_ceil(2),
                )
            }
            _ => (NoiseParameter::SquaredScale { numerator, denominator, doublings: 0 }, 0),
        };
        let magnitude = BigUint::from(lattice.magnitude());
        let bits_over = |reach: &BigUint, most: u64| (reach * &magnitude).bits().saturating_sub(most);
        let too_large = bits_over(strategy.reach(), LARGEST_MEASUREMENT_BITS)
            .max(bits_over(strategy.convolution_reach(), LARGEST_CONVOLUTION_BITS));
        let excess = too_wide.max(too_large);
        Ok(Self { sensitivity, noise, excess: u32::try_from(excess).unwrap_or(u32::MAX) })
    }
}

/// [`recursion_bias`] for the inputs of a plan, in standard deviations of its noise: the largest over all steps.
fn relative_bias(
    strategy: &IntegerStrategy,
    lattice: &Lattice,
    rows: &RowNorms,
    noise: NoiseParameter,
) -> Result<f64> {
    let Some(bias) = recursion_bias(strategy)? else { return Ok(0.0) };
    let magnitude = lattice.declared_magnitude().unwrap_or(ENCODED_EVENTS) as f64;
    let scale = libm::ldexp(noise.variance().sqrt(), -strategy.bits().cast_signed());
    let relative = bias.iter().zip(rows.iter()).map(|(bias, row)| bias * magnitude / (scale * row.sqrt()));
    Ok(relative.fold(0.0, f64::max))
}

/// The least `numerator / 2^k` that is not below `value / divisor`, with as fine a denominator as 127 bits allow, and
/// the number of bits of its integer part.
fn quotient_rounded_up(value: &BigUint, divisor: f64) -> (u128, u128, u64) {
    let (mantissa, exponent) = dyadic(divisor);
    let quotient = |fraction: u32| {
        let shift = i64::from(fraction) - i64::from(exponent);
        let (mut top, mut bottom) = (value.clone(), BigUint::from(mantissa));
        if shift >= 0 {
            top <<= shift.unsigned_abs();
        } else {
            bottom <<= shift.unsigned_abs();
        }
        (top + &bottom - 1_u32) / bottom
    };
    let bits = quotient(0).bits();
    let fraction = u32::try_from(126_u64.saturating_sub(bits).min(40)).unwrap_or(0);
    // Too large a quotient is refused by its number of bits; the number itself is not used then.
    (u128::try_from(quotient(fraction)).unwrap_or(u128::MAX), 1 << fraction, bits)
}

/// `Σ_j |A_tj|` for every step.
fn row_sums(strategy: &dyn Strategy) -> Result<Vec<f64>> {
    let steps = strategy.steps();
    if let Some(weights) = strategy.workload().series(steps)? {
        let mut sum = 0.0;
        return Ok(weights
            .iter()
            .map(|weight| {
                sum += weight.abs();
                sum
            })
            .collect());
    }
    // The workloads that are not Toeplitz have no negative entries.
    let mut stream = strategy.workload().stream(steps, 1)?;
    let mut output = [0.0];
    (0..steps)
        .map(|_| {
            stream.push(&[1.0], &mut output)?;
            Ok(output[0])
        })
        .collect()
}

/// A squared change in grid units, `integer · 2^exponent`.
pub(super) struct SquaredChange {
    pub(super) integer: BigUint,
    pub(super) exponent: i32,
}

impl SquaredChange {
    /// An exact integer.
    pub(super) fn integer(integer: BigUint) -> Self {
        Self { integer, exponent: 0 }
    }

    /// The square of a finite positive number, exactly.
    pub(super) fn of(value: f64) -> Self {
        let (mantissa, exponent) = dyadic(value);
        Self { integer: BigUint::from(mantissa) * mantissa, exponent: 2 * exponent }
    }

    fn ceiling_of_product(&self, factor: &BigUint) -> BigUint {
        let product = &self.integer * factor;
        if self.exponent >= 0 {
            product << self.exponent.unsigned_abs()
        } else {
            let unit = BigUint::from(1_u32) << self.exponent.unsigned_abs();
            (product + &unit - 1_u32) / unit
        }
    }
}

/// The least integer not below `value²`, for a finite non-negative value, with a margin for how it was computed.
pub(super) fn generous_square(value: f64) -> BigUint {
    ceiling(value * value * (1.0 + 1e-12))
}
