//! Cyclic convolution powers of probability vectors, with a bound on what rounding did to them.

use super::{Complex64, Plan, Scratch, transform_size};
use crate::{Error, Result};

/// One factor of a [`cyclic_product_of_powers`]: a sparse vector and how often it is convolved.
#[derive(Debug, Clone, Copy)]
pub struct Factor<'a> {
    /// Positions, taken modulo the size of the transform, and values; values at the same position add up.
    pub entries: &'a [(i64, f64)],
    /// How many copies of the vector are convolved.
    pub power: u64,
}

/// A convolution with a proven distance to the exact one.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedProduct {
    /// The computed cyclic convolution; position `j` stands at `j mod values.len()`.
    pub values: Vec<f64>,
    /// A bound of the Euclidean distance between `values` and the exact cyclic convolution of the given entries, but for a
    /// relative 1e-15 of each value.
    pub error: f64,
}

/// Half the distance between 1 and the next number.
const UNIT: f64 = f64::EPSILON / 2.0;

/// A frequency whose power is below `e^-80` of the largest possible is set to zero.
const NEGLIGIBLE: f64 = 80.0;

/// A factor with so much of its mass at position 0 is treated as 1 and a small change.
const MOSTLY_RESTING: f64 = 0.99;

/// Where `Σ k (1 - f_0)` is at most this, [`cyclic_product_of_powers`] errs by a fraction of what moves only.
pub const HARDLY_MOVING: f64 = 1.0;

/// The size of the transform that [`cyclic_product_of_powers`] uses for at least `length` positions.
pub fn cyclic_size(length: usize) -> usize {
    transform_size(length)
}

/// The cyclic convolution `f_1^{*k_1} * f_2^{*k_2} * …` on `cyclic_size(length)` positions, for non-negative factors whose
/// values sum to at most 1 (up to rounding).
///
/// # Accuracy
///
/// Let F be the transform of a factor, F + e the computed one, N the size. A transform by mixed radix errs by at most
/// `γ ‖·‖₂` with `γ = 8 u log2 N` (Higham, *Accuracy and Stability of Numerical Algorithms*, theorem 24.2, gives less than
/// `5 u log2 N` for twiddle factors that are accurate to u), so `‖e‖₂ ≤ γ √N ‖f‖₂`. Every |F| ≤ Σ f ≤ 1, and with
/// `|F + e| ≤ 1 + ρ` everywhere
///
/// `|(F + e)^k - F^k| ≤ k |e| (1 + ρ)^(k-1)`.
///
/// Products of factors add these bounds up. Powers by squaring are accurate to `3 u k` relative to themselves, frequencies
/// that are left out are below `e^-80`, and the inverse transform errs by `γ` of what it returns. Divided by √N (Parseval)
/// and added up, that is [`BoundedProduct::error`].
///
/// A factor with an entry `f_0 ≥ 0.99` at position 0 is `1 + G` with `G = F + (f_0 - 1)`, where F is the transform of all other entries.
/// That transform errs by `γ` of the norm of what moves alone. With `r ≥ 1 - f_0` and at least the mass that moves, |G| ≤ 2r; G is added
/// up to `4ur`. `k ln(1 + G)`, of size at most `4kr`, is accurate to `24ukr`, the cancellation in its real part included, and so is
/// its exponential relative to itself; `|1 + G|^k` is bounded by the largest that was computed. Where m entries meet at a position, they
/// are added up with `(m - 1) u`, which is added to `γ`.
///
/// Where all factors are like that and `Σ k (1 - f_0) ≤ 1`, the product is `R e^S` with `R = Π f_0^k`, the part that rests, and
/// `S = Σ k ln(1 + V)`, `V = F/f_0`, and only `R (e^S - 1)` is transformed back, so that nothing errs by a fraction of what rests. Here
/// `|V| ≤ 0.02`, each logarithm is accurate to `6u|V|` and of size at most `1.1 |V|`, m of them are added up with as many roundings, and
/// `e^S - 1` is accurate to `9u |S| max(1, e^{Re S})`. Since R and `|R e^S|` are at most 1 but for rounding, `R (e^S - 1)` is accurate to
/// `(20 + 2m) u Σ k |V|`, beside that of R relative to itself; and V over √N has the norm of what moves over f_0 (Parseval).
///
/// **Complexity** O(m N log N) for m factors, whatever the powers.
///
/// # Errors
///
/// [`Error::NonFinite`] for entries that are not finite.
///
/// ```
/// use dp_linalg::fft::{Factor, cyclic_product_of_powers};
/// // Three fair coins.
/// let coin = [(0, 0.5), (1, 0.5)];
/// let product = cyclic_product_of_powers(&[Factor { entries: &coin, power: 3 }], 4)?;
/// assert!((product.values[1] - 0.375).abs() <= product.error && product.error < 1e-13);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn cyclic_product_of_powers(factors: &[Factor<'_>], length: usize) -> Result<BoundedProduct> {
    let plan = Plan::at_least(length);
    let size = plan.size();
    let gamma = 8.0 * UNIT * (size as f64).log2();
    let mut scratch = Scratch::default();
    scratch.reserve(&plan);
    let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
    // What rests in every factor, where that is nearly everything of each; its power is then taken apart.
    let largest_at_rest: Vec<Option<usize>> = factors.iter().map(|factor| resting(factor, size)).collect();
    let moves: f64 = factors
        .iter()
        .zip(&largest_at_rest)
        .map(|(factor, rest)| {
            rest.map_or(f64::INFINITY, |at| factor.power as f64 * (1.0 - factor.entries[at].1))
        })
        .sum();
    let apart = moves <= HARDLY_MOVING;
    // The product of the powers, or the sum of their logarithms without what rests.
    let mut product = vec![if apart { Complex64::ZERO } else { Complex64::ONE }; plan.spectrum_size()];
    let mut log_rest = 0.0;
    // Σ k γ ‖f‖₂, the sum of the powers, and the logarithm of the factor (1 + ρ)^k.
    let (mut transforms, mut powers, mut growth, mut dropped) = (0.0, 0.0, 0.0, 0.0);
    let mut meeting = vec![0_u32; size];
    for (factor, &at_rest) in factors.iter().zip(&largest_at_rest) {
        let real = &mut scratch.real[..size];
        real.fill(0.0);
        meeting.fill(0);
        for (index, &(position, value)) in factor.entries.iter().enumerate() {
            if !value.is_finite() {
                return Err(Error::NonFinite { what: "entry of a factor", index, value });
            }
            // What stands at position 0 has a constant transform, which is exact.
            if at_rest != Some(index) {
                let position = position.rem_euclid(size.cast_signed() as i64) as usize;
                real[position] += value;
                meeting[position] += 1;
            }
        }
        let most = meeting.iter().copied().max().unwrap_or(0);
        let gamma = gamma + UNIT * f64::from(most.saturating_sub(1));
        let norm = real.iter().map(|value| value * value).sum::<f64>().sqrt();
        plan.forward(real, &mut spectrum, &mut scratch.work[..plan.work_size()]);
        let times = factor.power as f64;
        let smallest = (-2.0 * NEGLIGIBLE / times.max(1.0)).exp();
        if let Some(resting) = at_rest.map(|index| factor.entries[index].1) {
            if apart {
                for (out, value) in product.iter_mut().zip(&spectrum) {
                    *out += times * ln_1p(value / resting);
                }
                log_rest += times * resting.ln();
                transforms += times * (gamma + (20.0 + 2.0 * factors.len() as f64) * UNIT) * norm / resting;
                continue;
            }
            let total: f64 = factor.entries.iter().map(|(_, value)| value).sum();
            let moving = (total - resting).max(1.0 - resting).max(0.0) + UNIT * factor.entries.len() as f64;
            let mut largest = 0.0_f64;
            for (out, value) in product.iter_mut().zip(&spectrum) {
                let power = times * ln_1p(Complex64::new(value.re + (resting - 1.0), value.im));
                largest = largest.max(power.re);
                *out *= if power.re < -NEGLIGIBLE { Complex64::ZERO } else { power.exp() };
            }
            transforms += times * (gamma * norm + 4.0 * UNIT * moving);
            powers += 8.0 * times * moving + 4.0;
            growth += largest + times * 16.0 * UNIT * moving;
            dropped += (-NEGLIGIBLE).exp();
            continue;
        }
        let mut largest: f64 = 1.0;
        for (out, value) in product.iter_mut().zip(&spectrum) {
            let square = value.norm_sqr();
            largest = largest.max(square);
            *out *= if square < smallest { Complex64::ZERO } else { integer_power(*value, factor.power) };
        }
        transforms += times * gamma * norm;
        powers += times;
        growth += times * 0.5 * (largest * (1.0 + 4.0 * UNIT)).ln();
        dropped += (-NEGLIGIBLE).exp();
    }
    let rest = log_rest.exp();
    if apart {
        for value in &mut product {
            growth = f64::max(growth, log_rest + value.re);
            *value = rest * exp_m1(*value);
        }
        // What rests is off by roundings of its logarithm, and so are all that are multiplied by it.
        powers = 1.0 + log_rest.abs();
        growth += 1e-9;
    }
    // The other half of the spectrum mirrors this one.
    let norm = (2.0 * product.iter().map(Complex64::norm_sqr).sum::<f64>() / size as f64).sqrt();
    let mut values = vec![0.0; size];
    plan.inverse(&mut product, &mut values, &mut scratch.work[..plan.work_size()]);
    if apart {
        values[0] += rest;
    }
    let arithmetic = 3.0 * UNIT * (powers + factors.len() as f64 + 2.0) + gamma;
    let error = (transforms + dropped) * growth.exp() + arithmetic * norm;
    Ok(BoundedProduct { values, error: error * (1.0 + 1e-6) })
}

/// The largest entry at position 0 of a factor, if the factor is nearly all there.
fn resting(factor: &Factor<'_>, size: usize) -> Option<usize> {
    let here = factor.entries.iter().enumerate().filter(|(_, (position, value))| {
        *value >= MOSTLY_RESTING && position.rem_euclid(size.cast_signed() as i64) == 0
    });
    here.max_by(|(_, one), (_, other)| one.1.total_cmp(&other.1)).map(|(index, _)| index)
}

/// `e^value - 1`.
fn exp_m1(value: Complex64) -> Complex64 {
    let half = (0.5 * value.im).sin();
    Complex64::new(value.re.exp_m1() * value.im.cos() - 2.0 * half * half, value.re.exp() * value.im.sin())
}

/// `ln(1 + value)` for values below 1/2 in size, accurate to some units in the last place of the value.
fn ln_1p(value: Complex64) -> Complex64 {
    let real = 0.5 * (2.0 * value.re + value.norm_sqr()).ln_1p();
    Complex64::new(real, value.im.atan2(1.0 + value.re))
}

/// `value^power` by repeated squaring.
fn integer_power(value: Complex64, mut power: u64) -> Complex64 {
    let (mut square, mut result) = (value, Complex64::ONE);
    while power > 0 {
        if power & 1 == 1 {
            result *= square;
        }
        power >>= 1;
        if power > 0 {
            square *= square;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::convolve;
    use super::*;
    use proptest::prelude::*;

    /// The exact cyclic power by products of short direct convolutions, folded.
    fn folded_power(values: &[f64], power: usize, size: usize) -> Vec<f64> {
        let mut result = vec![1.0];
        for _ in 0..power {
            result = convolve(&result, values);
        }
        let mut folded = vec![0.0; size];
        for (index, value) in result.into_iter().enumerate() {
            folded[index % size] += value;
        }
        folded
    }

    #[test]
    fn factors_that_hardly_move_are_held_as_changes_of_one() {
        // Binomial probabilities by their recurrence, folded; the bound is far below that of a million rounded transforms.
        // The rate is a power of two, so that the masses are exact.
        let (rate, power): (f64, u64) = (2_f64.powi(-20), 1 << 20);
        let entries = [(0, 1.0 - rate), (3, rate)];
        let product = cyclic_product_of_powers(&[Factor { entries: &entries, power }], 64).unwrap();
        assert!(product.error < 1e-11, "{}", product.error);
        let mut exact = vec![0.0; product.values.len()];
        let mut mass = (power as f64 * (-rate).ln_1p()).exp();
        for hits in 0..40_usize {
            exact[3 * hits % product.values.len()] += mass;
            mass *= (power as f64 - hits as f64) / (hits as f64 + 1.0) * rate / (1.0 - rate);
        }
        let distance = product.values.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        assert!(distance <= product.error, "{distance} {}", product.error);
    }

    #[test]
    fn what_hardly_moves_errs_by_a_fraction_of_what_moves() {
        // Steps of two kinds, both positions met by something that rests; what moves at all is a hundred-thousandth.
        let (rate, other): (f64, f64) = (2_f64.powi(-40), 2_f64.powi(-30));
        let one = [(0, 1.0 - rate), (3, rate)];
        let two = [(0, 1.0 - other), (64, other / 2.0), (5, other / 2.0)];
        let (many, some) = (1_u64 << 20, 1_u64 << 13);
        let factors = [Factor { entries: &one, power: many }, Factor { entries: &two, power: some }];
        let product = cyclic_product_of_powers(&factors, 64).unwrap();
        assert!(product.error < 1e-18, "{}", product.error);
        // Binomial probabilities of each kind; half of the second one's steps end where they began.
        let binomial = |times: u64, rest: f64, moved: f64| {
            let mut mass = (times as f64 * (rest - 1.0).ln_1p()).exp();
            let mut masses = vec![mass];
            for hits in 0..5_u64 {
                mass *= (times - hits) as f64 / (hits + 1) as f64 * moved / rest;
                masses.push(mass);
            }
            masses
        };
        let mut exact = vec![0.0; product.values.len()];
        for (first, a) in binomial(many, 1.0 - rate, rate).into_iter().enumerate() {
            for (second, b) in binomial(some, 1.0 - other / 2.0, other / 2.0).into_iter().enumerate() {
                exact[3 * first + 5 * second] += a * b;
            }
        }
        // Each value has a last rounding of its own, and the expected ones have theirs.
        let beyond = |(a, b): (&f64, &f64)| ((a - b).abs() - 4e-15 * b).max(0.0).powi(2);
        let distance = product.values.iter().zip(&exact).map(beyond).sum::<f64>().sqrt();
        assert!(distance <= product.error, "{distance} {}", product.error);
    }

    #[test]
    fn what_is_missing_of_a_factor_and_what_meets_at_its_start_is_bounded() {
        // A hundredth is missing, and position 64 of the transform is position 0: both are powers of two apart from 1.
        let (lost, moved): (f64, f64) = (2_f64.powi(-7), 2_f64.powi(-30));
        let entries = [(0, 1.0 - lost - moved - moved / 4.0), (64, moved / 4.0), (5, moved)];
        for power in [1, 100, 5000] {
            let product = cyclic_product_of_powers(&[Factor { entries: &entries, power }], 64).unwrap();
            let rest = 1.0 - lost - moved;
            let mut exact = vec![0.0; product.values.len()];
            let mut mass = (power as f64 * rest.ln()).exp();
            for hits in 0..10_usize {
                exact[5 * hits % product.values.len()] += mass;
                mass *= (power as f64 - hits as f64) / (hits as f64 + 1.0) * moved / rest;
            }
            let distance =
                product.values.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            assert_eq!(product.values.len(), 64);
            assert!(
                distance <= product.error && product.error < 1e-10,
                "{power}: {distance} {}",
                product.error
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn powers_are_repeated_convolutions_within_the_bound(
            weights in prop::collection::vec(0.0..1.0_f64, 1..30), power in 0_usize..20, length in 2_usize..200,
        ) {
            let sum: f64 = weights.iter().sum::<f64>().max(1e-300);
            let values: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
            let entries: Vec<(i64, f64)> = values.iter().enumerate().map(|(i, v)| (i.cast_signed() as i64 - 7, *v)).collect();
            let product =
                cyclic_product_of_powers(&[Factor { entries: &entries, power: power as u64 }], length).unwrap();
            let size = product.values.len();
            prop_assert_eq!(size, cyclic_size(length));
            let expected = folded_power(&values, power, size);
            let distance: f64 = (0..size)
                .map(|j| {
                    let at = (j + 7 * power * (size - 1)) % size;
                    (product.values[at] - expected[j]).powi(2)
                })
                .sum::<f64>()
                .sqrt();
            prop_assert!(distance <= product.error + 1e-15, "{distance} {}", product.error);
            prop_assert!(product.error < 1e-11);
        }
    }

    #[test]
    fn a_million_coins_stay_within_the_bound_of_the_binomial() {
        // The probability of exactly half heads in 2^20 throws, from the logarithm of factorials by Stirling's series.
        let throws = 1_u64 << 20;
        let coin = [(0, 0.5), (1, 0.5)];
        let product = cyclic_product_of_powers(&[Factor { entries: &coin, power: throws }], 1 << 14).unwrap();
        let half = (throws / 2) as usize % product.values.len();
        let n = throws as f64;
        let exact = (2.0 / (std::f64::consts::PI * n)).sqrt() * (-1.0 / (4.0 * n)).exp();
        assert!((product.values[half] - exact).abs() <= product.error, "{} {exact}", product.values[half]);
        assert!(product.error < 1e-7);
    }

    #[test]
    fn factors_multiply_and_bad_entries_are_refused() {
        let (coin, step) = ([(0, 0.5), (1, 0.5)], [(-1, 0.25), (2, 0.75)]);
        let factors = [Factor { entries: &coin, power: 2 }, Factor { entries: &step, power: 1 }];
        let product = cyclic_product_of_powers(&factors, 8).unwrap();
        let expected = [0.125, 0.0625, 0.1875, 0.375, 0.1875, 0.0, 0.0, 0.0625];
        for (value, exact) in product.values.iter().zip(expected) {
            assert!((value - exact).abs() < 1e-15, "{value} {exact}");
        }
        let bad = [(0, f64::NAN)];
        assert!(cyclic_product_of_powers(&[Factor { entries: &bad, power: 1 }], 8).is_err());
    }
}
