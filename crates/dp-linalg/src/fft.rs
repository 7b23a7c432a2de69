//! Planned real convolutions. The only module that knows the FFT crate.
//!
//! Plans are made once per transform size and shared by all threads. Every product of two real sequences costs
//! three real transforms; a fixed factor ([`Kernel`]) keeps its spectrum and costs two.
//!
//! # Accuracy
//!
//! An FFT product is accurate *normwise*: each coefficient of `a * b` carries an absolute error of a few
//! `ε · log2(n) · ‖a‖₂ ‖b‖₂`, where `ε = 2⁻⁵³`. Coefficients much smaller than `‖a‖₂ ‖b‖₂` are relatively less
//! accurate; short products are computed directly and do not have this limit.

mod negacyclic;
mod powers;

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ndarray::{Array2, ArrayView2, Axis, parallel::prelude::*};
pub use num_complex::Complex64;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

pub use negacyclic::NegacyclicKernel;
pub use powers::{BoundedProduct, Factor, HARDLY_MOVING, cyclic_product_of_powers, cyclic_size};

use crate::buffers::forget;
use crate::{Error, Result};

/// Below this length of the shorter factor the direct product is faster than three transforms.
const DIRECT_LENGTH: usize = 48;

/// Columns that one task transforms one after the other with the same buffers.
const COLUMNS_PER_TASK: usize = 16;

static PLANNER: LazyLock<Mutex<RealFftPlanner<f64>>> = LazyLock::new(|| Mutex::new(RealFftPlanner::new()));

/// Forward and inverse real transform of one size.
#[derive(Clone)]
pub(crate) struct Plan {
    forward: Arc<dyn RealToComplex<f64>>,
    inverse: Arc<dyn ComplexToReal<f64>>,
}

impl Plan {
    /// The plan of exactly this size; made once, then shared.
    pub(crate) fn exact(size: usize) -> Self {
        // A panic elsewhere leaves at worst a plan missing from the planner's table, so poison is harmless.
        let mut planner = PLANNER.lock().unwrap_or_else(PoisonError::into_inner);
        Self { forward: planner.plan_fft_forward(size), inverse: planner.plan_fft_inverse(size) }
    }

    /// The plan of the fastest size that holds `length` values.
    pub(crate) fn at_least(length: usize) -> Self {
        Self::exact(transform_size(length))
    }

    /// The number of real values of one transform.
    pub(crate) fn size(&self) -> usize {
        self.forward.len()
    }

    /// The number of complex values of one spectrum.
    pub(crate) fn spectrum_size(&self) -> usize {
        self.forward.complex_len()
    }

    /// The working space that [`Plan::forward`] and [`Plan::inverse`] ask for.
    pub(crate) fn work_size(&self) -> usize {
        self.forward.get_scratch_len().max(self.inverse.get_scratch_len())
    }

    /// Transforms `real` (used up as working space) into `spectrum`.
    pub(crate) fn forward(&self, real: &mut [f64], spectrum: &mut [Complex64], work: &mut [Complex64]) {
        let outcome = self.forward.process_with_scratch(real, spectrum, work);
        debug_assert!(outcome.is_ok(), "{outcome:?}");
    }

    /// Transforms `spectrum` (used up) back into `real`, scaled so that it undoes [`Plan::forward`].
    pub(crate) fn inverse(&self, spectrum: &mut [Complex64], real: &mut [f64], work: &mut [Complex64]) {
        self.inverse_unscaled(spectrum, real, work);
        let scale = 1.0 / self.size() as f64;
        for value in real {
            *value *= scale;
        }
    }

    /// [`Plan::inverse`] without the factor `1/size`, for callers whose other factor holds it already.
    pub(crate) fn inverse_unscaled(
        &self,
        spectrum: &mut [Complex64],
        real: &mut [f64],
        work: &mut [Complex64],
    ) {
        // The spectrum of a real sequence is real at both ends; rounding leaves dust there, which realfft refuses.
        if let Some(first) = spectrum.first_mut() {
            first.im = 0.0;
        }
        if self.size().is_multiple_of(2)
            && let Some(last) = spectrum.last_mut()
        {
            last.im = 0.0;
        }
        let outcome = self.inverse.process_with_scratch(spectrum, real, work);
        debug_assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// The fastest transform size that holds `length` values: `2^a` times 1, 9/8, 5/4 or 3/2.
///
/// Sizes with one small odd factor run at nearly the speed per value of a power of two, so the next of them is faster
/// than the next power of two. Sizes stay even, which halves the work of a real transform.
fn transform_size(length: usize) -> usize {
    let power = length.max(2).next_power_of_two();
    // From the smallest candidate in (power/2, power] to the largest; tiny sizes have no odd factor to offer.
    [9, 10, 12]
        .into_iter()
        .filter(|_| power >= 64)
        .map(|sixteenths| power / 16 * sixteenths)
        .find(|&size| size >= length)
        .unwrap_or(power)
}

/// Buffers of one transform, grown on first use and then reused.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(crate) real: Vec<f64>,
    pub(crate) spectrum: Vec<Complex64>,
    pub(crate) work: Vec<Complex64>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        forget(&mut self.real);
        forget(&mut self.spectrum);
        forget(&mut self.work);
    }
}

impl Scratch {
    /// Makes room for transforms of this plan; nothing is allocated if there is room already.
    pub(crate) fn reserve(&mut self, plan: &Plan) {
        if self.real.len() < plan.size() {
            self.real.resize(plan.size(), 0.0);
        }
        if self.spectrum.len() < plan.spectrum_size() {
            self.spectrum.resize(plan.spectrum_size(), Complex64::ZERO);
        }
        if self.work.len() < plan.work_size() {
            self.work.resize(plan.work_size(), Complex64::ZERO);
        }
    }

    /// The spectrum of `values` padded with zeros, written to `spectrum`.
    pub(crate) fn spectrum_into(&mut self, plan: &Plan, values: &[f64], spectrum: &mut [Complex64]) {
        self.reserve(plan);
        let real = &mut self.real[..plan.size()];
        real[..values.len()].copy_from_slice(values);
        real[values.len()..].fill(0.0);
        plan.forward(real, spectrum, &mut self.work[..plan.work_size()]);
    }

    /// The cyclic product of two spectra: `plan.size()` real values.
    pub(crate) fn cyclic_product(&mut self, plan: &Plan, a: &[Complex64], b: &[Complex64]) -> &[f64] {
        self.reserve(plan);
        let spectrum = &mut self.spectrum[..plan.spectrum_size()];
        for ((out, &x), &y) in spectrum.iter_mut().zip(a).zip(b) {
            *out = x * y;
        }
        let real = &mut self.real[..plan.size()];
        plan.inverse(spectrum, real, &mut self.work[..plan.work_size()]);
        real
    }

    /// The cyclic product of `values`, padded with zeros, and the sequence whose spectrum is `fixed`.
    pub(crate) fn cyclic_filter(&mut self, plan: &Plan, values: &[f64], fixed: &[Complex64]) -> &[f64] {
        self.reserve(plan);
        let real = &mut self.real[..plan.size()];
        real[..values.len()].copy_from_slice(values);
        real[values.len()..].fill(0.0);
        self.filter_in_place(plan, fixed)
    }

    /// Like [`Scratch::cyclic_filter`], for values that stand in `self.real[..plan.size()]` already.
    pub(crate) fn filter_in_place(&mut self, plan: &Plan, fixed: &[Complex64]) -> &[f64] {
        let real = &mut self.real[..plan.size()];
        let spectrum = &mut self.spectrum[..plan.spectrum_size()];
        let work = &mut self.work[..plan.work_size()];
        plan.forward(real, spectrum, work);
        for (out, &factor) in spectrum.iter_mut().zip(fixed) {
            *out *= factor;
        }
        plan.inverse(spectrum, real, work);
        real
    }
}

/// A fixed factor of many convolutions, with its spectrum kept.
///
/// **Complexity** `new` one transform, [`Kernel::apply_into`] two, of size about `kernel.len() + input_length`.
#[derive(Clone)]
pub struct Kernel {
    plan: Plan,
    spectrum: Vec<Complex64>,
    length: usize,
    input_length: usize,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Kernel")
            .field("length", &self.length)
            .field("input_length", &self.input_length)
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// Prepares `kernel` for inputs of at most `input_length` values.
    pub fn new(kernel: &[f64], input_length: usize) -> Self {
        let plan = Plan::at_least((kernel.len() + input_length).saturating_sub(1));
        let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
        Scratch::default().spectrum_into(&plan, kernel, &mut spectrum);
        Self { plan, spectrum, length: kernel.len(), input_length }
    }

    /// Writes the first `out.len()` coefficients of `kernel * input`; those past its end are zero.
    ///
    /// Allocates only while `scratch` grows to this size.
    ///
    /// # Errors
    ///
    /// [`Error::Dimension`] if `input` is longer than the length this kernel was made for.
    pub fn apply_into(&self, input: &[f64], out: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        if input.len() > self.input_length {
            return Err(Error::Dimension {
                what: "input of the kernel",
                expected: self.input_length,
                actual: input.len(),
            });
        }
        let product = scratch.cyclic_filter(&self.plan, input, &self.spectrum);
        copy_padded(product, (self.length + input.len()).saturating_sub(1), out);
        Ok(())
    }

    /// Writes the first rows of `kernel * column` for every column, in parallel over the columns; rows past its end
    /// stay as they are, and input past the length this kernel was made for is left out.
    pub fn apply_columns(&self, columns: ArrayView2<'_, f64>, out: &mut Array2<f64>) {
        let rows = columns.nrows().min(self.input_length);
        let full = (self.length + rows).saturating_sub(1).min(out.nrows());
        out.axis_chunks_iter_mut(Axis(1), COLUMNS_PER_TASK)
            .into_par_iter()
            .zip(columns.axis_chunks_iter(Axis(1), COLUMNS_PER_TASK).into_par_iter())
            .for_each(|(mut results, inputs)| {
                let mut scratch = Scratch::default();
                scratch.reserve(&self.plan);
                for (mut result, input) in results.columns_mut().into_iter().zip(inputs.columns()) {
                    let real = &mut scratch.real[..self.plan.size()];
                    for (value, &x) in real.iter_mut().zip(input.iter().take(rows)) {
                        *value = x;
                    }
                    real[rows..].fill(0.0);
                    let product = scratch.filter_in_place(&self.plan, &self.spectrum);
                    for (value, &x) in result.iter_mut().zip(&product[..full]) {
                        *value = x;
                    }
                }
            });
    }
}

/// Copies the first `length` values of `from` to the front of `to` and clears the rest of `to`.
fn copy_padded(from: &[f64], length: usize, to: &mut [f64]) {
    let kept = length.min(to.len());
    to[..kept].copy_from_slice(&from[..kept]);
    to[kept..].fill(0.0);
}

/// The full product `out[k] = Σ_i a_i b_{k-i}`, of length `a.len() + b.len() - 1`; empty if a factor is empty.
///
/// **Complexity** O(N log N), N the length of the result; direct if one factor is short.
///
/// ```
/// assert_eq!(dp_linalg::fft::convolve(&[1.0, 2.0], &[3.0, 4.0, 5.0]), [3.0, 10.0, 13.0, 10.0]);
/// ```
pub fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    convolve_truncated(a, b, a.len() + b.len() - 1)
}

/// The first `length` coefficients of the product of `a` and `b`, padded with zeros past its end.
///
/// **Complexity** O(N log N), N = `min(a.len(), length) + min(b.len(), length)`.
pub fn convolve_truncated(a: &[f64], b: &[f64], length: usize) -> Vec<f64> {
    let (a, b) = (&a[..a.len().min(length)], &b[..b.len().min(length)]);
    let mut out = vec![0.0; length];
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    if short.len() <= DIRECT_LENGTH {
        for (shift, &factor) in short.iter().enumerate() {
            for (value, &x) in out[shift..].iter_mut().zip(long) {
                *value += factor * x;
            }
        }
        return out;
    }
    let full = a.len() + b.len() - 1;
    let plan = Plan::at_least(full);
    let mut scratch = Scratch::default();
    let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
    scratch.spectrum_into(&plan, short, &mut spectrum);
    copy_padded(scratch.cyclic_filter(&plan, long, &spectrum), full, &mut out);
    out
}

/// The correlation `out[i] = Σ_j a_{i+j} b_j` for `i < a.len()`, with `a` zero past its end.
///
/// **Complexity** O(N log N), N = `a.len() + b.len()`; direct if one of them is short.
pub fn correlate(a: &[f64], b: &[f64]) -> Vec<f64> {
    let b = &b[..b.len().min(a.len())];
    let mut out = vec![0.0; a.len()];
    if b.len() <= DIRECT_LENGTH {
        for (shift, &factor) in b.iter().enumerate() {
            for (value, &x) in out.iter_mut().zip(&a[shift..]) {
                *value += factor * x;
            }
        }
        return out;
    }
    // Negative shifts of the cyclic correlation wrap to the end of the transform, past the values that are kept.
    let plan = Plan::at_least(a.len() + b.len() - 1);
    let mut scratch = Scratch::default();
    let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
    scratch.spectrum_into(&plan, b, &mut spectrum);
    for value in &mut spectrum {
        *value = value.conj();
    }
    copy_padded(scratch.cyclic_filter(&plan, a, &spectrum), a.len(), &mut out);
    out
}

/// The first `length` coefficients of `kernel * column` for every column, in parallel over the columns.
///
/// **Complexity** O(d N log N) time for d columns, N = `kernel.len() + columns.nrows()`; one spectrum of the kernel.
pub fn convolve_columns(kernel: &[f64], columns: ArrayView2<'_, f64>, length: usize) -> Array2<f64> {
    let kernel = &kernel[..kernel.len().min(length)];
    let rows = columns.nrows().min(length);
    let mut out = Array2::zeros((length, columns.ncols()));
    if kernel.is_empty() || rows == 0 || columns.ncols() == 0 {
        return out;
    }
    Kernel::new(kernel, rows).apply_columns(columns, &mut out);
    out
}

/// The first column of `f(M)`, M the circulant matrix with the given first column.
///
/// The eigenvalues of M are the discrete Fourier transform of its first column. `f` must satisfy
/// `f(z̄) = conj(f(z))`, as every function with real Taylor coefficients does: then `f(M)` is real.
///
/// **Complexity** O(N log N), N the length of the column (any length).
pub fn circulant_power(first_column: &[f64], f: impl Fn(Complex64) -> Complex64) -> Vec<f64> {
    if first_column.is_empty() {
        return Vec::new();
    }
    let plan = Plan::exact(first_column.len());
    let mut scratch = Scratch::default();
    let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
    scratch.spectrum_into(&plan, first_column, &mut spectrum);
    for value in &mut spectrum {
        *value = f(*value);
    }
    let mut out = vec![0.0; first_column.len()];
    plan.inverse(&mut spectrum, &mut out, &mut scratch.work[..plan.work_size()]);
    out
}

/// The squared moduli of the discrete Fourier transform at the frequencies `0 … N/2`; those above mirror them.
///
/// **Complexity** O(N log N), N the number of values (any number).
///
/// ```
/// assert_eq!(dp_linalg::fft::power_spectrum(&[1.0, 1.0, 0.0, 0.0]), [4.0, 2.0, 0.0]);
/// ```
pub fn power_spectrum(values: &[f64]) -> Vec<f64> {
    if values.is_empty() {
        return Vec::new();
    }
    let plan = Plan::exact(values.len());
    let mut spectrum = vec![Complex64::ZERO; plan.spectrum_size()];
    Scratch::default().spectrum_into(&plan, values, &mut spectrum);
    spectrum.iter().map(Complex64::norm_sqr).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn direct(a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; (a.len() + b.len()).saturating_sub(1)];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                out[i + j] += x * y;
            }
        }
        out
    }

    fn assert_close(actual: &[f64], expected: &[f64], scale: f64) {
        assert_eq!(actual.len(), expected.len());
        for (k, (x, y)) in actual.iter().zip(expected).enumerate() {
            assert!((x - y).abs() <= 1e-13 * scale, "{k}: {x} against {y}");
        }
    }

    fn sequence(lengths: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-1.0..1.0_f64, lengths)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn convolution_is_the_double_sum(a in sequence(1..400), b in sequence(1..400), length in 0_usize..900) {
            let expected = direct(&a, &b);
            let scale = (a.len() + b.len()) as f64;
            assert_close(&convolve(&a, &b), &expected, scale);
            let mut truncated = expected;
            truncated.resize(length, 0.0);
            assert_close(&convolve_truncated(&a, &b, length), &truncated, scale);
        }

        #[test]
        fn correlation_is_the_double_sum(a in sequence(1..300), b in sequence(0..400)) {
            let expected: Vec<f64> = (0..a.len())
                .map(|i| a[i..].iter().zip(&b).map(|(x, y)| x * y).sum())
                .collect();
            assert_close(&correlate(&a, &b), &expected, (a.len() + b.len()) as f64);
        }

        #[test]
        fn kernel_and_columns_agree_with_convolution(
            kernel in sequence(1..150), columns in sequence(60..200), length in 1_usize..250,
        ) {
            let scale = (kernel.len() + columns.len()) as f64;
            let prepared = Kernel::new(&kernel, columns.len());
            let mut scratch = Scratch::default();
            let mut out = vec![f64::NAN; length];
            prepared.apply_into(&columns, &mut out, &mut scratch).unwrap();
            assert_close(&out, &convolve_truncated(&kernel, &columns, length), scale);

            let width = 19;
            let rows = columns.len() / width;
            let matrix = ArrayView2::from_shape((rows, width), &columns[..rows * width]).unwrap();
            let batched = convolve_columns(&kernel, matrix, length);
            for (result, input) in batched.columns().into_iter().zip(matrix.columns()) {
                assert_close(&result.to_vec(), &convolve_truncated(&kernel, &input.to_vec(), length), scale);
            }
        }

        #[test]
        fn circulant_square_is_the_cyclic_square(column in sequence(1..80)) {
            let n = column.len();
            let mut expected = vec![0.0; n];
            for (k, value) in direct(&column, &column).into_iter().enumerate() {
                expected[k % n] += value;
            }
            assert_close(&circulant_power(&column, |z| z * z), &expected, n as f64);
        }
    }

    #[test]
    fn empty_factors_give_empty_or_zero_results() {
        assert!(convolve(&[], &[1.0]).is_empty());
        assert_eq!(convolve_truncated(&[], &[1.0], 3), [0.0; 3]);
        assert!(correlate(&[], &[1.0]).is_empty());
        assert_eq!(correlate(&[1.0, 2.0], &[]), [0.0; 2]);
        assert!(circulant_power(&[], |z| z).is_empty());
    }

    #[test]
    fn kernel_refuses_longer_inputs() {
        let kernel = Kernel::new(&[1.0, 2.0], 3);
        let outcome = kernel.apply_into(&[0.0; 4], &mut [0.0; 4], &mut Scratch::default());
        assert!(matches!(outcome, Err(Error::Dimension { expected: 3, actual: 4, .. })));
    }

    #[test]
    fn transform_sizes_are_even_tight_and_sufficient() {
        for length in 1..5000 {
            let size = transform_size(length);
            assert!(size >= length && size.is_multiple_of(2));
            assert!(size <= 64.max(length * 4 / 3 + 2), "{length} -> {size}");
        }
        assert_eq!([1025, 1153, 1281, 1537].map(transform_size), [1152, 1280, 1536, 2048]);
    }
}
