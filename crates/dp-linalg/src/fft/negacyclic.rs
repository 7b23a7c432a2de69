//! Products that wrap around with a change of sign.

use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;
use rustfft::{Fft, FftPlanner};

use super::{Plan, Scratch};
use crate::error::{Result, check_finite, check_length};

/// A fixed factor of products modulo `x^n + 1`: `y_t = Σ_{s≤t} c_{t-s} v_s - Σ_{s>t} c_{n+t-s} v_s`.
///
/// For even n the residue modulo `x^{n/2} - i` says everything about a real sequence, since the other half is its
/// conjugate: one complex transform of n/2 values in each direction. For odd n the substitution `x → -x` makes the product
/// an ordinary cyclic one.
///
/// **Complexity** O(n log n), any n.
pub struct NegacyclicKernel {
    length: usize,
    transform: Transform,
    spectrum: Vec<Complex64>,
}

enum Transform {
    /// `x = ω y` with `ω = e^{iπ/n}` turns `x^{n/2} - i` into `y^{n/2} - 1`; the powers of ω are kept.
    Even {
        forward: Arc<dyn Fft<f64>>,
        inverse: Arc<dyn Fft<f64>>,
        powers: Vec<Complex64>,
    },
    Odd(Plan),
}

impl NegacyclicKernel {
    /// Prepares the factor c; its length is n.
    ///
    /// # Errors
    /// An empty factor, or one that is not finite.
    pub fn new(factor: &[f64]) -> Result<Self> {
        check_finite("the factor of a product", factor)?;
        let length = factor.len();
        let mut spectrum = Vec::new();
        let transform = if length.is_multiple_of(2) {
            let mut planner = FftPlanner::new();
            let half = length / 2;
            let powers: Vec<Complex64> =
                (0..half).map(|k| Complex64::cis(PI * k as f64 / length as f64)).collect();
            let (forward, inverse) = (planner.plan_fft_forward(half), planner.plan_fft_inverse(half));
            spectrum.resize(half, Complex64::ZERO);
            fold(factor, &powers, &mut spectrum);
            forward.process(&mut spectrum);
            // What the inverse transform leaves out.
            let scale = 1.0 / half as f64;
            spectrum.iter_mut().for_each(|value| *value *= scale);
            Transform::Even { forward, inverse, powers }
        } else {
            let plan = Plan::exact(length);
            let mut alternating = factor.to_vec();
            alternate(&mut alternating);
            spectrum.resize(plan.spectrum_size(), Complex64::ZERO);
            Scratch::default().spectrum_into(&plan, &alternating, &mut spectrum);
            Transform::Odd(plan)
        };
        Ok(Self { length, transform, spectrum })
    }

    /// Replaces `values` by their product with the factor.
    ///
    /// Allocates only while `scratch` grows to this size, and for lengths that no fast transform divides.
    ///
    /// # Errors
    /// [`Error::Dimension`](crate::Error::Dimension) unless there are n values.
    pub fn apply_in_place(&self, values: &mut [f64], scratch: &mut Scratch) -> Result<()> {
        check_length("the values of a product", self.length, values.len())?;
        match &self.transform {
            Transform::Even { forward, inverse, powers } => {
                let half = powers.len();
                scratch.spectrum.resize(scratch.spectrum.len().max(half), Complex64::ZERO);
                scratch.work.resize(scratch.work.len().max(half), Complex64::ZERO);
                // From one buffer to the other and back: transforms out of place need no more memory and less time.
                let (from, to) = (&mut scratch.spectrum[..half], &mut scratch.work[..half]);
                let more = forward.get_outofplace_scratch_len().max(inverse.get_outofplace_scratch_len());
                let mut more = vec![Complex64::ZERO; more];
                fold(values, powers, from);
                forward.process_outofplace_with_scratch(from, to, &mut more);
                to.iter_mut().zip(&self.spectrum).for_each(|(value, factor)| *value *= factor);
                inverse.process_outofplace_with_scratch(to, from, &mut more);
                let (low, high) = values.split_at_mut(half);
                for (((low, high), value), power) in low.iter_mut().zip(high).zip(from).zip(powers) {
                    let value = *value * power.conj();
                    (*low, *high) = (value.re, value.im);
                }
            }
            Transform::Odd(plan) => {
                alternate(values);
                values.copy_from_slice(scratch.cyclic_filter(plan, values, &self.spectrum));
                alternate(values);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for NegacyclicKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NegacyclicKernel").field("length", &self.length).finish_non_exhaustive()
    }
}

/// The residue modulo `x^{n/2} - i` in the variable y: `(v_k + i v_{k+n/2}) ω^k`.
fn fold(values: &[f64], powers: &[Complex64], out: &mut [Complex64]) {
    let (low, high) = values.split_at(powers.len());
    for (((out, low), high), power) in out.iter_mut().zip(low).zip(high).zip(powers) {
        *out = Complex64::new(*low, *high) * power;
    }
}

/// `x → -x`.
fn alternate(values: &mut [f64]) {
    values.iter_mut().skip(1).step_by(2).for_each(|value| *value = -*value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn products_wrap_with_a_change_of_sign() {
        for n in [1, 2, 3, 4, 5, 6, 9, 64, 100, 257] {
            let factor: Vec<f64> = (0..n).map(|k| ((k * k % 17) as f64 * 0.7).cos()).collect();
            let values: Vec<f64> = (0..n).map(|k| ((k * 3 % 11) as f64 + 0.5).sin()).collect();
            let mut expected = vec![0.0; n];
            for (s, value) in values.iter().enumerate() {
                for (k, c) in factor.iter().enumerate() {
                    let sign = if s + k < n { 1.0 } else { -1.0 };
                    expected[(s + k) % n] += sign * c * value;
                }
            }
            let kernel = NegacyclicKernel::new(&factor).unwrap();
            let mut product = values;
            kernel.apply_in_place(&mut product, &mut Scratch::default()).unwrap();
            for (x, y) in product.iter().zip(&expected) {
                assert!((x - y).abs() <= 1e-13 * n as f64, "{n}: {x} against {y}");
            }
        }
    }

    #[test]
    fn wrong_sizes_are_refused() {
        assert!(matches!(NegacyclicKernel::new(&[]), Err(Error::Empty { .. })));
        assert!(matches!(NegacyclicKernel::new(&[f64::NAN]), Err(Error::NonFinite { .. })));
        let kernel = NegacyclicKernel::new(&[1.0; 4]).unwrap();
        let outcome = kernel.apply_in_place(&mut [0.0; 3], &mut Scratch::default());
        assert!(matches!(outcome, Err(Error::Dimension { expected: 4, actual: 3, .. })));
    }
}
