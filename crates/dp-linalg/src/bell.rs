//! Partial Bell polynomials in scaled form, and the square root of a series by them.
//!
//! With `s_i = i! a_i`, Faà di Bruno's formula writes the coefficients of `sqrt(1 + u)`, `u = Σ_{i≥1} a_i x^i`, as
//! `c_k = (1/k!) Σ_j B_{k,j}(s_1, s_2, …) Π_{m<j}(½ - m)`. Factorials overflow near k = 170, but the scaled polynomial
//! `T_{k,j} = B_{k,j} j!/k!` is an ordinary power series coefficient, `T_{k,j} = [x^k] u(x)^j`, and
//! `T_{k,j} = Σ_l a_{k-l} T_{l,j-1}`, `c_k = Σ_j C(½,j) T_{k,j}`.
//!
//! # Two dangers and what is done about them
//!
//! *Overflow.* `T_{k,j}` can still grow like `2^k` (for the count it is `C(k-1,j-1)`). Everything is therefore computed
//! for `u(ρx)`, ρ a power of two with `Σ|u_i| ρ^i ≤ 1`; then every `ρ^k T_{k,j}` lies in [-1, 1].
//!
//! *Cancellation.* `C(½,j)` alternates, so `c_k` is what is left when terms of size `ρ^{-k}` cancel: in `f64` nothing is
//! left from k ≈ 50 on. [`sqrt_via_bell`] therefore adds in fixed point, with `log2(1/ρ)` bits per coefficient more than
//! it returns. This makes it a slow but independent check of [`crate::series::sqrt`].

use crate::error::check_finite;
use crate::{Error, Result};

/// The scaled partial Bell polynomials `T_{k,j} = B_{k,j}(1! a_1, 2! a_2, …) j!/k! = [x^k] (Σ_{i≥1} a_i x^i)^j`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaledBell {
    halvings: usize,
    /// Row j holds `ρ^k T_{k,j}` for k = 0 … n-1.
    rows: Vec<Vec<f64>>,
}

impl ScaledBell {
    /// All `T_{k,j}` with `j ≤ k < n` of the series `a`, whose constant term does not enter.
    ///
    /// **Complexity** O(n³) time, O(n²) memory: every entry is a plain sum, so that small ones keep their digits.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] or [`Error::NonFinite`].
    pub fn new(a: &[f64], n: usize) -> Result<Self> {
        check_finite("series", a)?;
        let halvings = radius_halvings(&a[..n.min(a.len())]);
        let u: Vec<f64> =
            a.iter().take(n).enumerate().map(|(i, &value)| scaled(value, halvings * i)).collect();
        let mut rows = Vec::with_capacity(n);
        let mut row = vec![0.0; n];
        if let Some(constant) = row.first_mut() {
            *constant = 1.0;
        }
        for j in 1..=n {
            let next = next_row(&row, &u, j);
            rows.push(std::mem::replace(&mut row, next));
        }
        Ok(Self { halvings, rows })
    }

    /// The power of two ρ of the scaling.
    pub fn radius(&self) -> f64 {
        (-(self.halvings as f64)).exp2()
    }

    /// `ρ^k T_{k,j}`, in [-1, 1]; zero if k < j, or if too small for an `f64`; `None` past the table.
    pub fn scaled(&self, k: usize, j: usize) -> Option<f64> {
        self.rows.get(j)?.get(k).copied()
    }
}

/// Row j of the table from row j-1: `T_{k,j} = Σ_{l ≥ j-1} u_{k-l} T_{l,j-1}`. The constant term of `u` counts as zero.
fn next_row(previous: &[f64], u: &[f64], j: usize) -> Vec<f64> {
    let mut row = vec![0.0; previous.len()];
    for (l, &factor) in previous.iter().enumerate().skip(j - 1) {
        for (sum, x) in row[l..].iter_mut().zip(u).skip(1) {
            *sum += factor * x;
        }
    }
    row
}

/// The first `n` coefficients of `sqrt(a(x))` by partial Bell polynomials.
///
/// The same numbers as [`crate::series::sqrt`] by an unrelated computation.
///
/// **Complexity** O(n³ b) time, b = `1 + n log2(1/ρ)/64` the number of machine words per coefficient: for checks, up to a
/// few hundred coefficients.
///
/// # Errors
///
/// [`Error::NoSquareRoot`] unless `a_0 > 0`; [`Error::Empty`] or [`Error::NonFinite`] if `a` is.
pub fn sqrt_via_bell(a: &[f64], n: usize) -> Result<Vec<f64>> {
    check_finite("series", a)?;
    let leading = a[0];
    if leading <= 0.0 {
        return Err(Error::NoSquareRoot { leading });
    }
    if n == 0 {
        return Ok(Vec::new());
    }
    let ratios: Vec<f64> = (0..n).map(|i| a.get(i).copied().unwrap_or(0.0) / leading).collect();
    check_finite("series over its constant term", &ratios)?;
    let halvings = radius_halvings(&ratios);
    let u: Vec<Factor> =
        ratios.iter().enumerate().map(|(i, &ratio)| Factor::new(ratio, halvings * i)).collect();

    // Bits below the point: those of the smallest scaled weight, 53 for its digits, and room for n³ rounding errors.
    let smallest = u.iter().map(Factor::leading_zeros).max().unwrap_or(0).max(halvings * n);
    let guard = 3 * (usize::BITS - n.leading_zeros()) as usize + 32;
    let words = (smallest + 53 + guard + INTEGER_BITS).div_ceil(64);

    // Horner: y ← C(½,j) + u y for j = n-1 … 0. Multiplying by u shifts by one, so step j needs n - j coefficients only.
    let mut y = vec![Fixed::zero(words); n];
    let mut next = y.clone();
    for (j, weight) in half_binomials(n, words).into_iter().enumerate().rev() {
        for (k, sum) in next.iter_mut().enumerate().take(n - j).skip(1) {
            sum.0.fill(0);
            for (value, factor) in y[..k].iter().zip(u[1..=k].iter().rev()) {
                sum.add_product(value, factor);
            }
        }
        next[0] = weight;
        std::mem::swap(&mut y, &mut next);
    }
    let root = leading.sqrt();
    let c: Vec<f64> = y.iter().enumerate().map(|(k, value)| root * value.doubled(halvings * k)).collect();
    check_finite("square root series", &c)?;
    Ok(c)
}

/// The smallest h ≥ 0 with `Σ_{i≥1} |a_i| 2^{-h i} ≤ 1`: the radius is `ρ = 2^{-h}`.
fn radius_halvings(a: &[f64]) -> usize {
    let mut halvings = 0;
    // Ends, since the values are finite: at h = 1100 the sum is below 1 for any of them.
    while halvings < 1100 && (1..a.len()).map(|i| scaled(a[i], halvings * i).abs()).sum::<f64>() > 1.0 {
        halvings += 1;
    }
    halvings
}

/// `value · 2^{-halvings}`, zero if that is too small for an `f64`.
fn scaled(value: f64, halvings: usize) -> f64 {
    // In two halves: a power of two alone can be too small where the product is not.
    let first = halvings.min(3000) / 2;
    let second = halvings.min(3000) - first;
    value * (-(first as f64)).exp2() * (-(second as f64)).exp2()
}

/// The binomial coefficients `C(½,j)`, j < n.
fn half_binomials(n: usize, words: usize) -> Vec<Fixed> {
    let mut magnitude = Fixed::zero(words);
    magnitude.0[words - 1] = 1 << (64 - INTEGER_BITS);
    let mut weights = vec![magnitude.clone()];
    for j in 1..n as u64 {
        // |C(½,j)| = |C(½,j-1)| |2j-3| / 2j
        let mut remainder = 0;
        for word in magnitude.0.iter_mut().rev() {
            let dividend = (u128::from(remainder) << 64) | u128::from(*word);
            *word = (dividend / u128::from(2 * j)) as u64;
            remainder = (dividend % u128::from(2 * j)) as u64;
        }
        let mut carry = 0;
        for word in &mut magnitude.0 {
            let product = u128::from(*word) * u128::from((2 * j).abs_diff(3)) + carry;
            *word = product as u64;
            carry = product >> 64;
        }
        let mut weight = magnitude.clone();
        if j.is_multiple_of(2) {
            weight.negate();
        }
        weights.push(weight);
    }
    weights
}

/// Bits of a [`Fixed`] above the binary point, the sign included.
const INTEGER_BITS: usize = 3;

/// A fixed-point number in [-4, 4): two's complement, most significant word last.
#[derive(Debug, Clone)]
struct Fixed(Vec<u64>);

impl Fixed {
    fn zero(words: usize) -> Self {
        Self(vec![0; words])
    }

    fn is_negative(&self) -> bool {
        self.0.last().is_some_and(|top| top >> 63 == 1)
    }

    fn negate(&mut self) {
        let mut carry = true;
        for word in &mut self.0 {
            (*word, carry) = (!*word).overflowing_add(u64::from(carry));
        }
    }

    /// Adds `value · factor`, rounded down to the last bit (give or take one).
    fn add_product(&mut self, value: &Self, factor: &Factor) {
        let (skipped, shift) = (factor.halvings / 64, factor.halvings % 64);
        let top = value.0.len();
        if factor.mantissa == 0 || skipped > top {
            return;
        }
        let negative = value.is_negative();
        let mut carry = 0;
        // The words of value · mantissa in rising order. Two's complement stands for value + 2^(64 top) if the value is
        // negative: the surplus is taken off above the top word, and the sign goes on from there.
        let mut product_word = |position: usize| {
            if position < top {
                let product = u128::from(value.0[position]) * u128::from(factor.mantissa) + u128::from(carry);
                carry = (product >> 64) as u64;
                product as u64
            } else if position == top {
                if negative { carry.wrapping_sub(factor.mantissa) } else { carry }
            } else if negative {
                u64::MAX
            } else {
                0
            }
        };
        // The words that the shift drops matter only through the carry of the last of them.
        if skipped > 0 {
            product_word(skipped - 1);
        }
        let mut current = product_word(skipped);
        let flip = if factor.negative { u64::MAX } else { 0 };
        let mut sum_carry = factor.negative;
        for (offset, sum) in self.0.iter_mut().enumerate() {
            let following = product_word(skipped + offset + 1);
            let piece = if shift == 0 { current } else { (current >> shift) | (following << (64 - shift)) };
            let (partial, first) = sum.overflowing_add(piece ^ flip);
            let (total, second) = partial.overflowing_add(u64::from(sum_carry));
            (*sum, sum_carry) = (total, first || second);
            current = following;
        }
    }

    /// `self · 2^doublings` as the nearest `f64`, up to one unit in the last place.
    fn doubled(&self, doublings: usize) -> f64 {
        let mut magnitude = self.clone();
        let negative = self.is_negative();
        if negative {
            magnitude.negate();
        }
        let Some(top) = magnitude.0.iter().rposition(|&word| word != 0) else {
            return 0.0;
        };
        let next = if top > 0 { magnitude.0[top - 1] } else { 0 };
        let digits = magnitude.0[top] as f64 + next as f64 * (-64.0_f64).exp2();
        let exponent = (64 * top + doublings) as f64 - (64 * self.0.len() - INTEGER_BITS) as f64;
        let half = (exponent / 2.0).floor();
        let value = digits * half.exp2() * (exponent - half).exp2();
        if negative { -value } else { value }
    }
}

/// `± mantissa · 2^{-halvings}`, of magnitude at most 1.
#[derive(Debug, Clone)]
struct Factor {
    negative: bool,
    mantissa: u64,
    halvings: usize,
}

impl Factor {
    /// `value · 2^{-halvings}`, exactly.
    fn new(value: f64, halvings: usize) -> Self {
        let bits = value.to_bits();
        let biased = ((bits >> 52) & 0x7ff) as usize;
        let fraction = bits & ((1 << 52) - 1);
        // value = mantissa · 2^(max(biased, 1) - 1075). Where the sum cannot be negative by more than the mantissa has
        // trailing zeros, saturation is exact; magnitudes at most 1 never come near it.
        let mantissa = if biased == 0 { fraction } else { fraction | (1 << 52) };
        Self {
            negative: value.is_sign_negative(),
            mantissa,
            halvings: (halvings + 1075).saturating_sub(biased.max(1)),
        }
    }

    /// How many zeros follow the binary point; 0 for the number 0.
    fn leading_zeros(&self) -> usize {
        if self.mantissa == 0 {
            return 0;
        }
        (self.halvings + self.mantissa.leading_zeros() as usize).saturating_sub(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series;

    fn assert_matches(name: &str, via_bell: &[f64], expected: &[f64]) {
        assert_eq!(via_bell.len(), expected.len());
        for (k, (x, y)) in via_bell.iter().zip(expected).enumerate() {
            assert!((x - y).abs() <= 1e-10 * y.abs(), "{name}, k = {k}: {x:e} against {y:e}");
        }
    }

    #[test]
    fn square_roots_agree_with_the_series_coefficient_by_coefficient() {
        let n = 301;
        let root = |a: &[f64]| series::sqrt_recurrence(a, n).unwrap();
        let custom: Vec<f64> = (0..n).map(|k| 2.5 / (1.0 + (k as f64).sqrt() + (k % 5) as f64)).collect();
        let polynomial = |c| series::polynomial(c, n).unwrap();
        let cases = [
            ("count", series::count(n), series::binomial(0.5, n)),
            (
                "exponential 1.5",
                series::exponential(1.5, n).unwrap(),
                series::sqrt_exponential(1.5, n).unwrap(),
            ),
            ("polynomial 0.5", polynomial(0.5), root(&polynomial(0.5))),
            ("polynomial 1", polynomial(1.0), root(&polynomial(1.0))),
            ("polynomial 2", polynomial(2.0), root(&polynomial(2.0))),
            ("window 16", series::window(16, n).unwrap(), series::sqrt_window(16, n).unwrap()),
            ("custom", custom.clone(), root(&custom)),
        ];
        for (name, a, expected) in cases {
            assert_matches(name, &sqrt_via_bell(&a, n).unwrap(), &expected);
        }
    }

    #[test]
    fn signs_scales_and_short_series() {
        let a = [4.0, -3.0, 0.0, 7.5, -1e-3];
        assert_matches(
            "mixed signs",
            &sqrt_via_bell(&a, 40).unwrap(),
            &series::sqrt_recurrence(&a, 40).unwrap(),
        );
        assert_eq!(sqrt_via_bell(&[9.0], 3).unwrap(), [3.0, 0.0, 0.0]);
        assert!(sqrt_via_bell(&[9.0], 0).unwrap().is_empty());
    }

    /// B_{k,j}(1!, 2!, …) are the Lah numbers C(k-1,j-1) k!/j!, so T_{k,j} of the count is C(k-1,j-1).
    #[test]
    fn scaled_polynomials_of_the_count_are_binomial_coefficients() {
        let table = ScaledBell::new(&[1.0; 40], 40).unwrap();
        assert_eq!(table.radius(), 0.5);
        for k in 1..40_usize {
            let mut binomial = 1.0;
            for j in 1..=k {
                let scaled = table.scaled(k, j).unwrap();
                assert!(
                    (scaled * (k as f64).exp2() - binomial).abs() <= 1e-14 * binomial,
                    "k = {k}, j = {j}"
                );
                binomial *= (k - j) as f64 / j as f64;
            }
            assert_eq!(table.scaled(k - 1, k), Some(0.0));
        }
        assert_eq!(table.scaled(40, 1), None);
    }

    /// Far past where factorials (k = 170) and the unscaled `T_{k,j}` (k = 1030) overflow. In the middle of the last row,
    /// `C(1999,999)/2^2000` is half the coefficient `C(2000,1000)/4^1000` of the root of the count.
    #[test]
    fn nothing_overflows_at_two_thousand() {
        let table = ScaledBell::new(&[1.0; 2001], 2001).unwrap();
        assert!(table.rows.iter().flatten().all(|value| (0.0..=1.0).contains(value)));
        let expected = series::binomial(0.5, 1001)[1000] / 2.0;
        let actual = table.scaled(2000, 1000).unwrap();
        assert!((actual - expected).abs() < 1e-11 * expected, "{actual} against {expected}");
    }

    #[test]
    fn fixed_point_weights_are_the_binomial_coefficients_of_one_half() {
        let weights: Vec<f64> = half_binomials(2001, 40).iter().map(|weight| weight.doubled(0)).collect();
        let mut expected = series::binomial(-0.5, 2001);
        expected.iter_mut().skip(1).step_by(2).for_each(|value| *value = -*value);
        assert_matches("C(1/2, j)", &weights, &expected);
    }

    #[test]
    fn inputs_without_a_root_are_refused() {
        assert!(matches!(sqrt_via_bell(&[0.0, 1.0], 3), Err(Error::NoSquareRoot { .. })));
        assert!(matches!(sqrt_via_bell(&[-1.0], 3), Err(Error::NoSquareRoot { .. })));
        assert!(matches!(sqrt_via_bell(&[f64::NAN], 3), Err(Error::NonFinite { .. })));
        assert!(matches!(sqrt_via_bell(&[], 3), Err(Error::Empty { .. })));
        assert!(matches!(sqrt_via_bell(&[1e-300, 1e300], 3), Err(Error::NonFinite { index: 1, .. })));
        assert!(matches!(ScaledBell::new(&[1.0, f64::INFINITY], 3), Err(Error::NonFinite { index: 1, .. })));
    }
}
