//! Sums of powers `q^k` in closed form, given the gap `1 - q`.

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
        match self {
            Sum::Plain => plain(gap, n),
            Sum::Triangular => triangular(gap, n),
        }
    }
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

/// `Σ_{k<n} (1-gap)^k = (1 - (1-gap)^n)/gap`.
fn plain(gap: f64, n: usize) -> f64 {
    if gap == 0.0 {
        n as f64
    } else if gap < 1.0 {
        -(n as f64 * (-gap).ln_1p()).exp_m1() / gap
    } else {
        (1.0 - power(gap, n)) / gap
    }
}

/// `Σ_{k<n} (n-k)(1-gap)^k`, which is `(n - (1-gap) · plain)/gap` and, expanded in the gap, `Σ_m (-gap)^m C(n+1, m+2)`.
fn triangular(gap: f64, n: usize) -> f64 {
    let length = n as f64;
    if length * gap > 1.0 {
        return (length - (1.0 - gap) * plain(gap, n)) / gap;
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
    use crate::norms::compensated_sum;
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
