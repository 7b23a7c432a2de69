//! Sums of powers `q^k` in closed form, given the gap `1 - q`.

use crate::norms::compensated_sum;

/// A weighted sum over the first n powers.
#[derive(Debug, Clone, Copy)]
pub enum Sum {
    /// `Σ_{k<n} q^k`.
    Plain,
    /// `Σ_{k<n} (n-k) q^k`, the sum of the plain sums of lengths 1 … n.
    Triangular,
}

impl Sum {
    /// The weight of the k-th of n powers.
    #[cfg(test)]
    pub(super) fn weight(self, k: usize, n: usize) -> f64 {
        match self {
            Sum::Plain => 1.0,
            Sum::Triangular => (n - k) as f64,
        }
    }

    /// The sum for `q = 1 - gap`, `0 ≤ gap < 2`, to a few ulps: nothing cancels as q approaches 1.
    ///
    /// **Complexity** O(1).
    pub fn of_powers(self, gap: f64, n: usize) -> f64 {
        self.after(gap, lost(gap, n), n)
    }

    /// The sum from `1 - q^n`.
    fn after(self, gap: f64, lost: f64, n: usize) -> f64 {
        let plain = if gap == 0.0 { n as f64 } else { lost / gap };
        match self {
            Sum::Plain => plain,
            Sum::Triangular => triangular(gap, plain, n),
        }
    }
}

/// A geometric sequence `weight · (1-gap)^k`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// One minus the ratio of the sequence, in [0, 2).
    pub gap: f64,
    /// The first value.
    pub weight: f64,
}

/// The chosen sum over the first n values of `(Σ_i w_i (1-γ_i)^k)²`.
///
/// Ratios `q_i q_l` have the gap `γ_i + γ_l - γ_i γ_l`, and `1 - (q_i q_l)^n` follows in the same way from the powers of each:
/// without cancellation, and with one exponential per mode and none per pair.
///
/// **Complexity** O(k²), whatever n is.
pub fn sum_of_squares(modes: &[Mode], sum: Sum, n: usize) -> f64 {
    let both = |a: f64, b: f64| a + b - a * b;
    let mut losses = [0.0; 32];
    let mut spilled = Vec::new();
    let losses = if let Some(losses) = losses.get_mut(..modes.len()) {
        losses
    } else {
        spilled.resize(modes.len(), 0.0);
        &mut spilled
    };
    for (loss, mode) in losses.iter_mut().zip(modes) {
        *loss = lost(mode.gap, n);
    }
    let losses = &*losses;
    compensated_sum(modes.iter().enumerate().flat_map(|(i, a)| {
        modes[..=i].iter().enumerate().map(move |(l, b)| {
            let twice = if l == i { 1.0 } else { 2.0 };
            twice * a.weight * b.weight * sum.after(both(a.gap, b.gap), both(losses[i], losses[l]), n)
        })
    }))
}

/// `(1-gap)^m`.
pub(super) fn power(gap: f64, m: usize) -> f64 {
    if m == 0 {
        1.0
    } else if gap < 1.0 {
        (m as f64 * (-gap).ln_1p()).exp()
    } else {
        let sign = if m.is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * (gap - 1.0).powf(m as f64)
    }
}

/// `1 - (1-gap)^n`.
fn lost(gap: f64, n: usize) -> f64 {
    // e^{-40} is below half of the last digit of 1.
    if gap < 1.0 && n as f64 * gap > 40.0 {
        1.0
    } else if gap < 1.0 {
        -(n as f64 * (-gap).ln_1p()).exp_m1()
    } else {
        1.0 - power(gap, n)
    }
}

/// `Σ_{k<n} (n-k)(1-gap)^k`, which is `(n - (1-gap) · plain)/gap` and, expanded in the gap, `Σ_m (-gap)^m C(n+1, m+2)`.
fn triangular(gap: f64, plain: f64, n: usize) -> f64 {
    let length = n as f64;
    if length * gap > 1.0 {
        return (length - (1.0 - gap) * plain) / gap;
    }
    // The closed form cancels here; the expansion alternates with terms that shrink at least threefold.
    let mut term = 0.5 * length * (length + 1.0);
    let mut sum = term;
    let mut m = 0.0;
    while term.abs() > 1e-18 * sum && m + 1.0 < length {
        term *= -gap * (length - 1.0 - m) / (m + 3.0);
        sum += term;
        m += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn closed_forms_match_summation() {
        for gap in [0.0, 1e-16, 1e-12, 1e-7, 3e-5, 1e-3, 0.02, 0.4, 1.0, 1.3, 1.9] {
            for n in [0, 1, 2, 3, 10, 49, 50, 51, 1000, 33_333, 1 << 18] {
                for sum in [Sum::Plain, Sum::Triangular] {
                    let direct = compensated_sum((0..n).map(|k| sum.weight(k, n) * power(gap, k)));
                    assert_relative_eq!(sum.of_powers(gap, n), direct, max_relative = 4e-14);
                }
            }
        }
    }

    #[test]
    fn powers_match_repeated_multiplication() {
        assert_relative_eq!(power(0.25, 5), 0.75_f64.powi(5), max_relative = 1e-15);
        assert_relative_eq!(power(1.25, 5), (-0.25_f64).powi(5), max_relative = 1e-15);
        assert_relative_eq!(power(1.25, 6), (-0.25_f64).powi(6), max_relative = 1e-15);
        assert_eq!(power(1.0, 3), 0.0);
        assert_eq!(power(1.0, 0), 1.0);
    }
}
