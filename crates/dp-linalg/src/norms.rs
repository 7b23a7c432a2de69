//! Norms of matrices, and sums that can be trusted to the last digit.

use std::f64::consts::PI;

use ndarray::{Array1, ArrayView2, Axis};

use crate::dense;
use crate::error::Result;

/// The squared Euclidean norm of each column.
///
/// **Complexity** O(m n), one pass.
pub fn column_squared_norms(a: ArrayView2<f64>) -> Array1<f64> {
    let mut norms = Array1::zeros(a.ncols());
    for row in a.outer_iter() {
        norms.zip_mut_with(&row, |norm, &value| *norm += value * value);
    }
    norms
}

/// The squared Euclidean norm of each row.
///
/// **Complexity** O(m n), one pass.
pub fn row_squared_norms(a: ArrayView2<f64>) -> Array1<f64> {
    a.map_axis(Axis(1), |row| row.dot(&row))
}

/// The squared Frobenius norm, the sum of all squared entries, with compensated summation.
///
/// **Complexity** O(m n).
pub fn frobenius_squared(a: ArrayView2<f64>) -> f64 {
    compensated_sum(a.iter().map(|value| value * value))
}

/// The largest Euclidean norm of a column; 0 for a matrix without columns.
///
/// **Complexity** O(m n).
pub fn max_column_norm(a: ArrayView2<f64>) -> f64 {
    column_squared_norms(a).fold(0.0_f64, |largest, &norm| largest.max(norm)).sqrt()
}

/// The Schatten 1-norm (nuclear norm), the sum of the singular values.
///
/// **Complexity** O(m n min(m, n)).
///
/// # Errors
/// The matrix is empty or not finite, or the backend did not converge.
pub fn schatten1(a: ArrayView2<f64>) -> Result<f64> {
    Ok(compensated_sum(dense::singular_values(a)?))
}

/// The spectral norm, the largest singular value.
///
/// **Complexity** O(m n min(m, n)).
///
/// # Errors
/// The matrix is empty or not finite, or the backend did not converge.
pub fn spectral(a: ArrayView2<f64>) -> Result<f64> {
    Ok(dense::singular_values(a)?.fold(0.0_f64, |largest, &value| largest.max(value)))
}

/// The Schatten 1-norm of the n×n prefix-sum matrix (ones on and below the diagonal) in closed form:
/// `Σ_{i=1}^{n} 1/(2 sin((2i-1)π/(4n+2)))`, its singular values.
///
/// **Complexity** that of [`cosecant_sum`].
pub fn count_schatten1(n: usize) -> f64 {
    0.5 * cosecant_sum(2 * n + 1)
}

/// `Σ_{i ≤ n/2} 1/sin((2i-1)π/(2n))`, the half of a regular grid of cosecants that rises from the middle to the pole.
///
/// The first few thousand terms are added up; the rest is the Euler–Maclaurin formula with two corrections. Even derivatives
/// of the cosecant are positive, so that the first correction left out bounds the error: less than an ulp of the sum.
///
/// **Complexity** O(1).
pub fn cosecant_sum(n: usize) -> f64 {
    const ONE_BY_ONE: usize = 4096;
    let count = n / 2;
    let step = PI / n as f64;
    let point = |i: usize| (i as f64 + 0.5) * step;
    let first = count.min(ONE_BY_ONE);
    let head = (0..first).map(|i| 1.0 / point(i).sin());
    if first == count {
        return compensated_sum(head);
    }
    // Value, integral, first and third derivative.
    let at = |x: f64| {
        let (csc, cot) = (1.0 / x.sin(), 1.0 / x.tan());
        (csc, (0.5 * x).tan().ln(), -csc * cot, -csc * cot * (6.0 * csc * csc - 1.0))
    };
    let (left, right) = (at(point(first)), at(point(count - 1)));
    compensated_sum(head.chain([
        (right.1 - left.1) / step,
        0.5 * (left.0 + right.0),
        step / 12.0 * (right.2 - left.2),
        -step.powi(3) / 720.0 * (right.3 - left.3),
    ]))
}

/// The sum of the values with Neumaier's compensation: the error is a few ulps of the result plus n ε² Σ|v|.
///
/// **Complexity** O(n), four additions per value.
pub fn compensated_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for value in values {
        let (next, error) = two_sum(sum, value);
        sum = next;
        lost += error;
    }
    // Once the sum is infinite or NaN the compensation is NaN and means nothing.
    if sum.is_finite() { sum + lost } else { sum }
}

/// An upper bound of `Σ v²`, taken over the given values as exact real numbers, at most a few ulps above it.
///
/// The result is exact where the computation is (a single 1 gives 1). Overflow and non-finite values give infinity, which
/// is still an upper bound.
///
/// Each square is split without error into `p + e` (`e` by fused multiply-add) and the `p` are added without error into
/// `s` plus remainders `t`. What is left is `Σ (e + t)`, summed in plain arithmetic: by the standard model each of its two
/// additions per value is off by at most half an ε of its own result, so those results are added up as a running bound.
/// The running bound itself is a sum of at most 2⁵¹ non-negative terms, and doubling it covers its own rounding. Where a
/// square is so small that `e` may be subnormal, one smallest subnormal per value is added. The final additions round up.
///
/// **Complexity** O(n).
pub fn round_up_sum_of_squares(values: &[f64]) -> f64 {
    /// Above this square, `e` is either 0 or a normal number, hence exact: its last bit is at least ε² times the square.
    const EXACT_FROM: f64 = 1e-280;
    let (mut sum, mut rest, mut drift, mut tiny) = (0.0_f64, 0.0_f64, 0.0_f64, 0_u64);
    for &value in values {
        let square = value * value;
        let (next, carried) = two_sum(sum, square);
        let remainder = value.mul_add(value, -square) + carried;
        sum = next;
        rest += remainder;
        drift += remainder.abs() + rest.abs();
        if square < EXACT_FROM && value != 0.0 {
            tiny += 1;
        }
    }
    // ε is twice the unit roundoff, which is the doubling.
    let margin = f64::EPSILON * drift + tiny as f64 * f64::from_bits(1);
    let rest = if drift == 0.0 && tiny == 0 { 0.0 } else { add_up(rest, margin.next_up()) };
    let bound = add_up(sum, rest);
    if bound.is_finite() { bound } else { f64::INFINITY }
}

/// The smallest f64 that is at least `a + b`.
fn add_up(a: f64, b: f64) -> f64 {
    let (sum, error) = two_sum(a, b);
    if error > 0.0 { sum.next_up() } else { sum }
}

/// The rounded sum and its rounding error, which is a float as well (Knuth). Exact for every pair without overflow.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (a - a_part) + (b - b_part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;
    use ndarray::{Array2, array};
    use proptest::prelude::*;

    #[test]
    fn small_norms_by_hand() {
        let a = array![[3.0, 0.0, -1.0], [4.0, 2.0, 1.0]];
        assert_eq!(column_squared_norms(a.view()), array![25.0, 4.0, 2.0]);
        assert_eq!(row_squared_norms(a.view()), array![10.0, 21.0]);
        assert_eq!(frobenius_squared(a.view()), 31.0);
        assert_eq!(max_column_norm(a.view()), 5.0);
        assert_eq!(max_column_norm(Array2::zeros((3, 0)).view()), 0.0);
        let diagonal = array![[3.0, 0.0], [0.0, -4.0]];
        assert_relative_eq!(schatten1(diagonal.view()).unwrap(), 7.0, max_relative = 1e-14);
        assert_relative_eq!(spectral(diagonal.view()).unwrap(), 4.0, max_relative = 1e-14);
        assert!(schatten1(array![[f64::NAN]].view()).is_err());
    }

    #[test]
    fn closed_form_of_the_prefix_sum_matches_its_singular_values() {
        for n in [1, 2, 3, 17, 64, 200] {
            let count = Array2::from_shape_fn((n, n), |(i, j)| if j <= i { 1.0 } else { 0.0 });
            assert_relative_eq!(count_schatten1(n), schatten1(count.view()).unwrap(), max_relative = 1e-12);
        }
        // (Schatten norm / n)² at n = 1024 and n = 2^20, computed elsewhere.
        assert_relative_eq!(
            (count_schatten1(1024) / 1024.0).powi(2),
            8.465_681_309_376_945,
            max_relative = 1e-13
        );
        assert_relative_eq!(
            (count_schatten1(1 << 20) / f64::from(1 << 20)).powi(2),
            26.159_249_453_705_932,
            max_relative = 1e-13
        );
    }

    #[test]
    fn cosecants_are_added_up() {
        for n in [0, 1, 2, 3, 8191, 8192, 8193, 8194, 8195, 8200, 20_001, 1 << 17, (1 << 20) + 1] {
            let one_by_one =
                compensated_sum((1..=n / 2).map(|i| 1.0 / ((2 * i - 1) as f64 * PI / (2 * n) as f64).sin()));
            assert_relative_eq!(cosecant_sum(n), one_by_one, max_relative = 1e-14);
        }
    }

    #[test]
    fn compensation_recovers_what_plain_addition_loses() {
        assert_eq!(compensated_sum([1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!(compensated_sum(std::iter::repeat_n(0.1, 10_000_000)), 1_000_000.0);
        assert_eq!(compensated_sum([f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(compensated_sum([]), 0.0);
    }

    #[test]
    fn exact_sums_are_not_inflated() {
        assert_eq!(round_up_sum_of_squares(&[]), 0.0);
        assert_eq!(round_up_sum_of_squares(&[0.0, -0.0]), 0.0);
        assert_eq!(round_up_sum_of_squares(&[1.0]), 1.0);
        assert_eq!(round_up_sum_of_squares(&[3.0, -4.0, 0.5]), 25.25);
        assert_eq!(round_up_sum_of_squares(&[1e200]), f64::INFINITY);
        assert_eq!(round_up_sum_of_squares(&[f64::NAN, 1.0]), f64::INFINITY);
        assert_eq!(round_up_sum_of_squares(&[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(round_up_sum_of_squares(&[1e-200]) > 0.0);
    }

    /// Σ v² for integers up to 2^53 in exact integer arithmetic, against the bound.
    fn assert_tight_above(integers: &[i64]) {
        let exact: u128 = integers.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2)).sum();
        let values: Vec<f64> = integers.iter().map(|&v| v as f64).collect();
        let bound = round_up_sum_of_squares(&values);
        // Every f64 in this range is an integer, so the comparison is exact.
        let above = (bound as u128).checked_sub(exact);
        let ulp = (bound.next_up() - bound) as u128;
        assert!(above.is_some_and(|above| above <= 2 * ulp), "{bound} against {exact}");
    }

    proptest! {
        #[test]
        fn the_bound_holds_and_is_tight(
            integers in prop::collection::vec(-(1_i64 << 53)..(1_i64 << 53), 1..400),
        ) {
            assert_tight_above(&integers);
        }

        #[test]
        fn the_bound_holds_for_mixed_magnitudes(
            parts in prop::collection::vec((-(1_i64 << 30)..(1_i64 << 30), 0_u32..23), 1..400),
        ) {
            let integers: Vec<i64> = parts.iter().map(|&(m, shift)| m << shift).collect();
            assert_tight_above(&integers);
        }

        /// Scaling by a power of two moves every quantity down to where squares are subnormal.
        #[test]
        fn the_bound_holds_next_to_underflow(
            integers in prop::collection::vec(-(1_i64 << 23)..(1_i64 << 23), 1..40),
            exponent in 480_i32..540,
        ) {
            let scale = 2.0_f64.powi(-exponent);
            let values: Vec<f64> = integers.iter().map(|&v| v as f64 * scale).collect();
            let bound = round_up_sum_of_squares(&values);
            // The sum of squares stays below 2^52, so it is an exact f64, and undoing the scale is exact as well.
            let exact: u128 = integers.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2)).sum();
            let scaled_back = bound * 2.0_f64.powi(exponent) * 2.0_f64.powi(exponent);
            prop_assert!(scaled_back >= exact as f64);
        }
    }
}
