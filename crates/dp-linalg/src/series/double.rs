//! Double-double numbers: unevaluated sums of two `f64`, about 32 decimal digits.
//!
//! Used where a recurrence is only accurate to the last bit if it is carried with more digits than it returns, and as
//! the reference in tests. Multiplication splits its factors (Dekker), so it needs no fused multiply-add.

/// `high + low`, with `|low|` at most half a unit in the last place of `high`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Double {
    high: f64,
    low: f64,
}

/// The rounded sum and its exact error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// Like [`two_sum`], for `|a| ≥ |b|`.
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// The rounded product and its exact error.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let split = |x: f64| {
        let scaled = 134_217_729.0 * x; // 2^27 + 1
        let high = scaled - (scaled - x);
        (high, x - high)
    };
    let product = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (split(a), split(b));
    (product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)
}

impl Double {
    /// The exact sum of two numbers.
    pub(crate) fn sum(a: f64, b: f64) -> Self {
        let (high, low) = two_sum(a, b);
        Self { high, low }
    }

    /// The nearest `f64`.
    pub(crate) fn value(self) -> f64 {
        self.high
    }

    /// `self + other`.
    pub(crate) fn plus(self, other: Self) -> Self {
        let (high, error) = two_sum(self.high, other.high);
        let (low, low_error) = two_sum(self.low, other.low);
        let (high, error) = fast_two_sum(high, error + low);
        let (high, low) = fast_two_sum(high, error + low_error);
        Self { high, low }
    }

    /// `self · factor`.
    pub(crate) fn times(self, factor: f64) -> Self {
        let (high, error) = two_product(self.high, factor);
        let (high, low) = fast_two_sum(high, error + self.low * factor);
        Self { high, low }
    }

    /// `self · other`.
    pub(crate) fn product(self, other: Self) -> Self {
        let (high, error) = two_product(self.high, other.high);
        let (high, low) = fast_two_sum(high, error + self.high * other.low + self.low * other.high);
        Self { high, low }
    }

    /// `self / divisor`.
    pub(crate) fn over(self, divisor: f64) -> Self {
        let quotient = self.high / divisor;
        let (product, error) = two_product(quotient, divisor);
        let rest = ((self.high - product) - error) + self.low;
        let (high, low) = fast_two_sum(quotient, rest / divisor);
        Self { high, low }
    }
}

impl From<f64> for Double {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

/// Arithmetic that only the references in tests need.
#[cfg(test)]
impl Double {
    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(Self { high: -other.high, low: -other.low })
    }

    pub(crate) fn quotient(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self.minus(other.times(first));
        let second = rest.high / other.high;
        let last = rest.minus(other.times(second)).high / other.high;
        Self::from(first).plus(Self::from(second)).plus(Self::from(last))
    }

    pub(crate) fn sqrt(self) -> Self {
        let root = self.high.sqrt();
        let rest = self.minus(Self::from(root).times(root));
        Self::from(root).plus(rest.over(2.0 * root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_and_roots_have_thirty_digits() {
        let third = Double::from(1.0).over(3.0);
        assert!(third.times(3.0).minus(Double::from(1.0)).value().abs() < 1e-31);
        let root = Double::from(2.0).sqrt();
        assert!(root.product(root).minus(Double::from(2.0)).value().abs() < 1e-31);
        let ratio = third.quotient(root);
        assert!(ratio.product(root).minus(third).value().abs() < 1e-31);
    }
}
