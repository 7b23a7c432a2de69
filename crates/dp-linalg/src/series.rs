//! Power series: product, inverse, square root, and the series of the workloads with their closed forms.
//!
//! A series is the slice of its first coefficients; coefficients past the end of a slice are zero. `n` is always the
//! number of coefficients of the result.
//!
//! # Accuracy
//!
//! With `ĉ` the computed and `c` the exact coefficients:
//!
//! - *Elementwise*, `|ĉ_k - c_k| ≤ 1e-12 |c_k|` for every k: [`binomial`], [`count`], [`exponential`], [`polynomial`],
//!   [`window`], [`sqrt_exponential`], [`sqrt_window`] (linear recurrences, carried with double-double numbers).
//! - *Normwise*, `max_k |ĉ_k - c_k| ≤ 1e-12 max_k |c_k|`: [`sqrt`], [`inverse`], [`product`], [`divide`] for series whose
//!   result stays of moderate size. An FFT product spreads its rounding error evenly over all coefficients, so a tail
//!   coefficient that is 10⁻⁶ of the largest has about six digits less. Use a closed form where the tail matters.
//! - [`sqrt_recurrence`] and [`inverse_recurrence`] subtract sums of O(k) terms and have no transform error.

pub(crate) mod double;

use num_complex::Complex64;

use crate::error::check_finite;
use crate::fft::{self, Plan, Scratch};
use crate::{Error, Result};
use double::Double;

/// Up to this many coefficients the recurrences are faster than a Newton step.
const RECURRENCE_LENGTH: usize = 128;

/// The first `n` coefficients of `a(x) b(x)`.
///
/// **Complexity** O(n log n).
pub fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    fft::convolve_truncated(a, b, n)
}

/// The first `n` coefficients of `1/a(x)`.
///
/// Newton's iteration `g ← g - g (a g - 1)` doubles the number of correct coefficients. The lower half of `a g - 1` is
/// known to vanish, so both products of a step fit a cyclic transform of the new length.
///
/// **Complexity** O(n log n): about 1.7 products of length n. O(n²) recurrence for small n.
///
/// # Errors
///
/// [`Error::NotInvertible`] if `a_0 = 0`; [`Error::Empty`] or [`Error::NonFinite`] if `a` is, or if the result overflows.
///
/// ```
/// let inverse = dp_linalg::series::inverse(&[1.0, -0.5], 4)?;
/// assert_eq!(inverse, [1.0, 0.5, 0.25, 0.125]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn inverse(a: &[f64], n: usize) -> Result<Vec<f64>> {
    let lengths = newton_lengths(n);
    let mut g = inverse_recurrence(a, lengths[0])?;
    let mut newton = Newton::new(n);
    for &length in &lengths[1..] {
        let plan = Plan::at_least(length);
        newton.reciprocal_step(&plan, &mut g, &a[..a.len().min(length)], length);
    }
    finite("inverse series", g)
}

/// The first `n` coefficients of `sqrt(a(x))`, the root with positive constant term.
///
/// Newton's iteration for `h = sqrt(a)` and `g = 1/h` together: from m correct coefficients of both,
/// `h ← h + g (a - h²)/2` and `g ← g - g (h g - 1)` give 2m. The lower half of `h²` is known to be `a`, so `h²` is found
/// from a cyclic transform of length m, whose input spectrum is left over from the step before; the spectrum of g serves
/// three products; the last step leaves out g.
///
/// **Complexity** O(n log n): about two products of length n. O(n²) recurrence for small n.
///
/// # Errors
///
/// [`Error::NoSquareRoot`] unless `a_0 > 0`; [`Error::Empty`] or [`Error::NonFinite`] if `a` is, or if the result
/// overflows.
///
/// ```
/// let root = dp_linalg::series::sqrt(&[1.0, 1.0, 1.0, 1.0], 4)?;
/// assert_eq!(root, [1.0, 0.5, 0.375, 0.3125]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn sqrt(a: &[f64], n: usize) -> Result<Vec<f64>> {
    let lengths = newton_lengths(n);
    let mut h = sqrt_recurrence(a, lengths[0])?;
    if lengths.len() == 1 {
        return Ok(h);
    }
    let mut g = inverse_recurrence(&h, lengths[0])?;
    let coefficient = |k: usize| a.get(k).copied().unwrap_or(0.0);
    let mut newton = Newton::new(n);
    let mut plan = Plan::at_least(lengths[0]);
    newton.transform_first(&plan, &h);
    let mut residual = Vec::with_capacity(n / 2 + 1);
    for &length in &lengths[1..] {
        let known = h.len();
        let size = plan.size();
        let square = newton.square_of_first(&plan);
        residual.clear();
        residual.extend((known..length).map(|k| {
            // Position k of the square, where it did not wrap; else what it added to the known position k - size.
            let squared = if k < size { square[k] } else { square[k - size] - coefficient(k - size) };
            coefficient(k) - squared
        }));
        plan = Plan::at_least(length);
        newton.transform_second(&plan, &g);
        let correction = newton.filter_by_second(&plan, &residual);
        h.extend(correction[..length - known].iter().map(|value| 0.5 * value));
        if length < n {
            newton.transform_first(&plan, &h);
            newton.extend_reciprocal(&plan, &mut g, length);
        }
    }
    finite("square root series", h)
}

/// The first `n` coefficients of `a(x)/b(x)`.
///
/// **Complexity** O(n log n): one inverse and one product.
///
/// # Errors
///
/// As [`inverse`] for `b`, and [`Error::Empty`] or [`Error::NonFinite`] if `a` is.
pub fn divide(a: &[f64], b: &[f64], n: usize) -> Result<Vec<f64>> {
    check_finite("dividend series", a)?;
    finite("quotient series", product(a, &inverse(b, n)?, n))
}

/// [`sqrt`] by `c_k = (a_k - Σ_{0<i<k} c_i c_{k-i}) / (2 c_0)`: the reference, and the start of the Newton iteration.
///
/// **Complexity** O(n²) time.
///
/// # Errors
///
/// As [`sqrt`].
pub fn sqrt_recurrence(a: &[f64], n: usize) -> Result<Vec<f64>> {
    check_finite("series", a)?;
    let leading = a[0];
    if leading <= 0.0 {
        return Err(Error::NoSquareRoot { leading });
    }
    let mut c = Vec::with_capacity(n);
    for k in 0..n {
        let target = a.get(k).copied().unwrap_or(0.0);
        if k == 0 {
            c.push(leading.sqrt());
            continue;
        }
        // The sum is symmetric: the pairs (i, k-i) with i < k-i count twice, the middle once.
        let half = k.div_ceil(2);
        let pairs: f64 = c[1..half].iter().zip(c[k / 2 + 1..].iter().rev()).map(|(x, y)| x * y).sum();
        let middle = if k.is_multiple_of(2) { c[k / 2] * c[k / 2] } else { 0.0 };
        c.push((target - 2.0 * pairs - middle) / (2.0 * c[0]));
    }
    finite("square root series", c)
}

/// [`inverse`] by `g_k = -(Σ_{0<i≤k} a_i g_{k-i}) / a_0`: the reference, and the start of the Newton iteration.
///
/// **Complexity** O(n²) time.
///
/// # Errors
///
/// As [`inverse`].
pub fn inverse_recurrence(a: &[f64], n: usize) -> Result<Vec<f64>> {
    check_finite("series", a)?;
    let leading = a[0];
    if leading == 0.0 {
        return Err(Error::NotInvertible { leading });
    }
    let mut g = Vec::with_capacity(n);
    for k in 0..n {
        if k == 0 {
            g.push(1.0 / leading);
        } else {
            let sum: f64 = a[1..].iter().zip(g.iter().rev()).map(|(x, y)| x * y).sum();
            g.push(-sum / leading);
        }
    }
    finite("inverse series", g)
}

/// The first `n` coefficients of `(1-x)^{-power}`.
///
/// The recurrence `c_k = c_{k-1} (power + k - 1)/k`, elementwise accurate for every n. Power 1 is the count, ½ its square
/// root, -½ the inverse of its square root.
///
/// **Complexity** O(n).
///
/// ```
/// assert_eq!(dp_linalg::series::binomial(0.5, 4), [1.0, 0.5, 0.375, 0.3125]);
/// ```
pub fn binomial(power: f64, n: usize) -> Vec<f64> {
    let mut current = Double::from(1.0);
    (0..n)
        .map(|k| {
            if k > 0 {
                current = current.product(Double::sum(power - 1.0, k as f64)).over(k as f64);
            }
            current.value()
        })
        .collect()
}

/// The series `1/(1-x)` of the prefix sum: `n` ones.
pub fn count(n: usize) -> Vec<f64> {
    vec![1.0; n]
}

/// The series `1/(1-x/α)` of exponential decay: `a_k = α^{-k}`.
///
/// # Errors
///
/// [`Error::OutOfRange`] unless α ≥ 1 and finite.
pub fn exponential(alpha: f64, n: usize) -> Result<Vec<f64>> {
    if !(alpha >= 1.0 && alpha.is_finite()) {
        return Err(Error::OutOfRange { what: "decay rate", value: alpha, range: "finite, at least 1" });
    }
    Ok((0..n).map(|k| alpha.powf(-(k as f64))).collect())
}

/// The series of polynomial decay: `a_k = (k+1)^{-c}`.
///
/// # Errors
///
/// [`Error::OutOfRange`] unless c > 0 and finite.
pub fn polynomial(c: f64, n: usize) -> Result<Vec<f64>> {
    if !(c > 0.0 && c.is_finite()) {
        return Err(Error::OutOfRange { what: "decay exponent", value: c, range: "finite, above 0" });
    }
    Ok((0..n).map(|k| ((k + 1) as f64).powf(-c)).collect())
}

/// The series `(1-x^w)/(1-x)` of a sliding window: `w` ones, then zeros.
///
/// # Errors
///
/// [`Error::OutOfRange`] if w = 0.
pub fn window(w: usize, n: usize) -> Result<Vec<f64>> {
    check_window(w)?;
    let mut a = vec![0.0; n];
    a[..w.min(n)].fill(1.0);
    Ok(a)
}

/// The square root of [`exponential`]: `c_k = α^{-k} C(2k,k)/4^k`.
///
/// **Complexity** O(n).
///
/// # Errors
///
/// [`Error::OutOfRange`] unless α ≥ 1 and finite.
pub fn sqrt_exponential(alpha: f64, n: usize) -> Result<Vec<f64>> {
    let mut c = exponential(alpha, n)?;
    for (value, root) in c.iter_mut().zip(binomial(0.5, n)) {
        *value *= root;
    }
    Ok(c)
}

/// The square root of [`window`].
///
/// `c² = a` gives `2 a c' = a' c`, and with `a = (1-x^w)/(1-x)` the sparse recurrence
/// `2k c_k = (2k-1) c_{k-1} + (2k-3w) c_{k-w} - (2k-1-3w) c_{k-w-1}`.
/// A rounding error made once stays for ever while `c_k` decays like `k^{-3/2}`: in plain `f64` the relative error at
/// k = 2²⁰ is 6e-8 for w = 3 and 2e-9 for w = 1000; carried with double-double numbers all digits are kept.
///
/// **Complexity** O(n) time and memory.
///
/// # Errors
///
/// [`Error::OutOfRange`] if w = 0.
pub fn sqrt_window(w: usize, n: usize) -> Result<Vec<f64>> {
    check_window(w)?;
    // A window that never forgets within n steps is the count.
    if w >= n {
        return Ok(binomial(0.5, n));
    }
    let mut c: Vec<Double> = Vec::with_capacity(n);
    c.push(Double::from(1.0));
    for k in 1..n {
        let twice = 2.0 * k as f64;
        let forgotten = 3.0 * w as f64;
        let mut sum = c[k - 1].times(twice - 1.0);
        if k >= w {
            sum = sum.plus(c[k - w].times(twice - forgotten));
        }
        if k > w {
            sum = sum.plus(c[k - w - 1].times(forgotten + 1.0 - twice));
        }
        c.push(sum.over(twice));
    }
    Ok(c.into_iter().map(Double::value).collect())
}

fn check_window(w: usize) -> Result<()> {
    if w == 0 {
        return Err(Error::OutOfRange { what: "window", value: 0.0, range: "at least 1" });
    }
    Ok(())
}

/// Refuses a result that overflowed.
fn finite(what: &'static str, values: Vec<f64>) -> Result<Vec<f64>> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::NonFinite { what, index, value: values[index] }),
        None => Ok(values),
    }
}

/// Lengths of a Newton iteration that ends at exactly `n`: each at most twice the one before, the first one short enough
/// for a recurrence.
fn newton_lengths(n: usize) -> Vec<usize> {
    let mut lengths = vec![n];
    let mut length = n;
    while length > RECURRENCE_LENGTH {
        length = length.div_ceil(2);
        lengths.push(length);
    }
    lengths.reverse();
    lengths
}

/// Two spectra and the transform buffers that all steps of one Newton iteration share.
struct Newton {
    first: Vec<Complex64>,
    second: Vec<Complex64>,
    scratch: Scratch,
}

impl Newton {
    fn new(n: usize) -> Self {
        let spectrum = vec![Complex64::ZERO; Plan::at_least(n).spectrum_size()];
        Self { first: spectrum.clone(), second: spectrum, scratch: Scratch::default() }
    }

    fn transform_first(&mut self, plan: &Plan, values: &[f64]) {
        self.scratch.spectrum_into(plan, values, &mut self.first[..plan.spectrum_size()]);
    }

    fn transform_second(&mut self, plan: &Plan, values: &[f64]) {
        self.scratch.spectrum_into(plan, values, &mut self.second[..plan.spectrum_size()]);
    }

    fn square_of_first(&mut self, plan: &Plan) -> &[f64] {
        self.scratch.cyclic_product(plan, &self.first, &self.first)
    }

    fn filter_by_second(&mut self, plan: &Plan, values: &[f64]) -> &[f64] {
        self.scratch.cyclic_filter(plan, values, &self.second)
    }

    /// Extends `g`, the reciprocal of `series`, to `length` coefficients.
    fn reciprocal_step(&mut self, plan: &Plan, g: &mut Vec<f64>, series: &[f64], length: usize) {
        self.transform_first(plan, series);
        self.transform_second(plan, g);
        self.extend_reciprocal(plan, g, length);
    }

    /// The second half of a reciprocal step: `first` holds the spectrum of the series, `second` that of `g`.
    fn extend_reciprocal(&mut self, plan: &Plan, g: &mut Vec<f64>, length: usize) {
        let known = g.len();
        let product = self.scratch.cyclic_product(plan, &self.first, &self.second);
        // What wraps around lands in the lower part, which is known to be 1, 0, 0, …
        let excess = product[known..length].to_vec();
        let correction = self.filter_by_second(plan, &excess);
        g.extend(correction[..length - known].iter().map(|value| -value));
    }
}

#[cfg(test)]
mod tests;
