//! The same checks on whichever backend is preferred, and agreement with every other one that was compiled in.

use approx::assert_relative_eq;
use ndarray::{Array1, Array2, ArrayView2, array, s};
use proptest::prelude::*;

use super::*;
use crate::norms::column_squared_norms;

/// A deterministic matrix with entries in (-1, 1) and no structure.
fn scrambled(rows: usize, columns: usize, seed: u64) -> Array2<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    Array2::from_shape_fn((rows, columns), |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    })
}

fn positive_definite(n: usize, seed: u64) -> Array2<f64> {
    let a = scrambled(n, n, seed);
    a.t().dot(&a) + Array2::<f64>::eye(n)
}

fn prefix_sum(n: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, n), |(i, j)| if j <= i { 1.0 } else { 0.0 })
}

fn assert_close(a: ArrayView2<f64>, b: ArrayView2<f64>, tolerance: f64) {
    assert_eq!(a.dim(), b.dim());
    let scale = b.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let distance = (&a - &b).iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    assert!(distance <= tolerance * scale, "distance {distance:e} at scale {scale:e}");
}

fn assert_exactly_lower(a: &Array2<f64>) {
    assert!(a.indexed_iter().all(|((i, j), &value)| j <= i || value == 0.0), "{a}");
}

#[test]
fn the_preferred_backend_is_the_first_one() {
    assert!(!available_backends().is_empty());
    #[cfg(feature = "openblas")]
    assert_eq!(available_backends()[0], Backend::OpenBlas);
    #[cfg(all(feature = "faer", not(feature = "openblas")))]
    assert_eq!(available_backends(), [Backend::Faer]);
}

#[test]
fn eigenvalues_of_the_second_difference_are_known() {
    // λ_k = 2 - 2 cos(kπ/(n+1)); 250 is above the size where work is shared among threads.
    for n in [1, 2, 40, 250] {
        let a = Array2::from_shape_fn((n, n), |(i, j): (usize, usize)| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        });
        for &backend in available_backends() {
            let eigen = symmetric_eigen_with(backend, a.view()).unwrap();
            for (k, &value) in eigen.values.iter().enumerate() {
                let angle = (k + 1) as f64 * std::f64::consts::PI / (n + 1) as f64;
                assert_relative_eq!(value, 2.0 - 2.0 * angle.cos(), epsilon = 4e-14);
            }
            assert_close(eigen.vectors.t().dot(&eigen.vectors).view(), Array2::eye(n).view(), 1e-13);
            assert_close(symmetric_function(&eigen, |value| value).view(), a.view(), 1e-13);
            assert_close(
                symmetric_function(&eigen, |value| 1.0 - value).view(),
                (Array2::eye(n) - &a).view(),
                1e-13,
            );
        }
    }
}

#[test]
fn only_the_lower_triangle_is_read() {
    let full = positive_definite(9, 3);
    let mut half = full.clone();
    for i in 0..9 {
        half.slice_mut(s![i, i + 1..]).fill(1e3);
    }
    let eigen = symmetric_eigen(half.view()).unwrap();
    let expected = symmetric_eigen(full.view()).unwrap();
    assert_relative_eq!(
        eigen.values.as_slice().unwrap(),
        expected.values.as_slice().unwrap(),
        max_relative = 1e-13
    );
    assert_close(lower_root(half.view()).unwrap().view(), lower_root(full.view()).unwrap().view(), 1e-14);
    let lower = lower_root(full.view()).unwrap();
    let mut dirty = lower.clone();
    dirty.slice_mut(s![0, 1..]).fill(7.0);
    assert_close(
        inverse_lower(dirty.view()).unwrap().view(),
        inverse_lower(lower.view()).unwrap().view(),
        1e-15,
    );
}

#[test]
fn square_roots_of_semidefinite_matrices() {
    let vector = array![[1.0], [2.0], [2.0]];
    let rank_one = vector.dot(&vector.t());
    // v vᵀ / ‖v‖ squares to v vᵀ.
    assert_close(symmetric_sqrt(rank_one.view()).unwrap().view(), (&rank_one / 3.0).view(), 1e-7);
    let root = symmetric_sqrt(rank_one.view()).unwrap();
    assert_close(root.dot(&root).view(), rank_one.view(), 1e-13);
    assert_eq!(symmetric_sqrt(Array2::zeros((3, 3)).view()).unwrap(), Array2::<f64>::zeros((3, 3)));
    let indefinite = array![[1.0, 2.0], [2.0, 1.0]];
    match symmetric_sqrt(indefinite.view()) {
        Err(Error::NotPositiveDefinite { smallest }) => {
            assert_relative_eq!(smallest, -1.0, max_relative = 1e-13);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn lower_root_puts_the_diagonal_into_column_norms() {
    let x = array![[4.0, 2.0, 0.6], [2.0, 5.0, 1.5], [0.6, 1.5, 3.0]];
    let c = lower_root(x.view()).unwrap();
    assert_exactly_lower(&c);
    assert_close(c.t().dot(&c).view(), x.view(), 1e-15);
    let norms = column_squared_norms(c.view());
    assert_relative_eq!(norms.as_slice().unwrap(), [4.0, 5.0, 3.0].as_slice(), max_relative = 1e-14);
    // The other side is a different matrix, so the check above can fail.
    assert!((c.dot(&c.t()) - &x)[[0, 0]].abs() > 0.1);
    assert!(matches!(
        lower_root(array![[1.0, 2.0], [2.0, 1.0]].view()),
        Err(Error::NotPositiveDefinite { smallest }) if (smallest + 1.0).abs() < 1e-13
    ));
}

#[test]
fn larger_matrices_take_the_parallel_path() {
    let n = 260;
    let a = prefix_sum(n);
    let gram_of_a = gram(a.view());
    // (AᵀA)[i,j] = n - max(i,j).
    let expected = Array2::from_shape_fn((n, n), |(i, j)| (n - i.max(j)) as f64);
    assert_eq!(gram_of_a, expected);
    assert_eq!(matmul(a.t(), a.view()), expected);
    assert_close(lower_root(gram_of_a.view()).unwrap().view(), a.view(), 1e-13);
    assert_close(lq_lower(a.view()).unwrap().view(), a.view(), 1e-13);
    let inverse = inverse_lower(a.view()).unwrap();
    let difference = Array2::from_shape_fn((n, n), |(i, j)| match i.wrapping_sub(j) {
        0 => 1.0,
        1 => -1.0,
        _ => 0.0,
    });
    assert_eq!(inverse, difference);
    assert_close(
        solve_lower(a.view(), expected.view()).unwrap().view(),
        difference.dot(&expected).view(),
        1e-14,
    );
    let root = symmetric_sqrt(gram_of_a.view()).unwrap();
    assert_close(root.dot(&root).view(), expected.view(), 1e-12);
    assert_close(pseudo_inverse(a.view()).unwrap().view(), difference.view(), 1e-11);
}

#[test]
fn views_in_any_memory_order_give_the_same_numbers() {
    let a = positive_definite(7, 5);
    let padded = {
        let mut padded = Array2::from_elem((14, 9), f64::NAN);
        padded.slice_mut(s![..;2, 1..8]).assign(&a);
        padded
    };
    let strided = padded.slice(s![..;2, 1..8]);
    let b = scrambled(7, 4, 6);
    for (left, right) in
        [(strided, a.view()), (a.t(), a.view()), (a.slice(s![..;-1, ..]), a.slice(s![..;-1, ..]))]
    {
        assert_close(matmul(left, b.view()).view(), matmul(right, b.view()).view(), 1e-15);
        assert_close(gram(left).view(), gram(right).view(), 1e-15);
        assert_close(lq_lower(left).unwrap().view(), lq_lower(right).unwrap().view(), 1e-13);
    }
    assert_close(lower_root(strided).unwrap().view(), lower_root(a.view()).unwrap().view(), 1e-15);
    let eigen = symmetric_eigen(strided).unwrap();
    assert_close(symmetric_function(&eigen, |value| value).view(), a.view(), 1e-13);
}

#[test]
fn rank_deficient_least_squares_has_the_least_norm() {
    // Both columns are equal: x1 + x2 is determined, and the shortest solution splits it evenly.
    let a = array![[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]];
    let x = least_squares(a.view(), array![[1.0], [2.0], [2.0]].view()).unwrap();
    assert_close(x.view(), array![[0.5], [0.5]].view(), 1e-14);
    assert_close(pseudo_inverse(a.view()).unwrap().view(), (&a.t() / 18.0).view(), 1e-14);
    assert_eq!(pseudo_inverse(Array2::zeros((3, 2)).view()).unwrap(), Array2::<f64>::zeros((2, 3)));
    // A line through (0,1), (1,3), (2,4), (3,4): intercept 1.5, slope 1.
    let design = array![[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]];
    let line = least_squares(design.view(), array![[1.0], [3.0], [4.0], [4.0]].view()).unwrap();
    assert_close(line.view(), array![[1.5], [1.0]].view(), 1e-14);
}

#[test]
fn bad_input_is_named() {
    let rectangular = Array2::<f64>::zeros((2, 3));
    assert!(matches!(
        symmetric_eigen(rectangular.view()),
        Err(Error::Dimension { expected: 2, actual: 3, .. })
    ));
    assert!(matches!(lower_root(rectangular.view()), Err(Error::Dimension { .. })));
    assert!(matches!(singular_values(Array2::zeros((0, 4)).view()), Err(Error::Empty { .. })));
    let mut broken = Array2::<f64>::eye(3);
    broken[[1, 2]] = f64::NAN;
    assert!(matches!(symmetric_sqrt(broken.view()), Err(Error::NonFinite { index: 5, .. })));
    assert!(matches!(lq_lower(broken.view()), Err(Error::NonFinite { .. })));
    assert!(matches!(pseudo_inverse(broken.view()), Err(Error::NonFinite { .. })));
    let singular = array![[1.0, 0.0], [5.0, 0.0]];
    assert!(matches!(inverse_lower(singular.view()), Err(Error::Singular { index: 1, .. })));
    assert!(matches!(solve_lower(singular.view(), singular.view()), Err(Error::Singular { .. })));
    assert!(matches!(
        solve_lower(Array2::eye(2).view(), Array2::zeros((3, 1)).view()),
        Err(Error::Dimension { expected: 2, actual: 3, .. })
    ));
    assert!(matches!(
        least_squares(Array2::eye(2).view(), Array2::zeros((3, 1)).view()),
        Err(Error::Dimension { .. })
    ));
}

#[test]
fn small_singular_values_keep_their_digits() {
    // Columns of very different lengths that are orthogonal: the lengths are the singular values.
    let lengths = [1e-13, 3e-9, 2e-5, 0.5, 1.0];
    let basis = symmetric_eigen(positive_definite(5, 7).view()).unwrap().vectors;
    let a = &basis * &Array1::from(lengths.to_vec());
    let SymmetricEigen { values, vectors } = gram_root_eigen(a.view()).unwrap();
    for (value, length) in values.iter().zip(lengths) {
        assert!((value - length).abs() < 1e-15, "{value} {length}");
    }
    let root = (&vectors * &values).dot(&vectors.t());
    assert_close(root.view(), Array2::from_diag(&Array1::from(lengths.to_vec())).view(), 1e-14);
    assert!(gram_root_eigen(Array2::zeros((2, 3)).view()).is_err());
    assert!(gram_root_eigen(array![[f64::NAN]].view()).is_err());
}

#[test]
fn backends_agree() {
    let a = scrambled(60, 45, 11);
    let spectra: Vec<Array1<f64>> = available_backends()
        .iter()
        .map(|&backend| singular_values_with(backend, a.view()).unwrap())
        .collect();
    let squares = symmetric_eigen(gram(a.view()).view()).unwrap().values;
    for spectrum in &spectra {
        assert!(spectrum.windows(2).into_iter().all(|pair| pair[0] >= pair[1]));
        for (value, square) in spectrum.iter().zip(squares.iter().rev()) {
            assert_relative_eq!(value * value, *square, epsilon = 1e-11);
        }
        assert_relative_eq!(
            spectrum.as_slice().unwrap(),
            spectra[0].as_slice().unwrap(),
            max_relative = 1e-12
        );
    }
    for &backend in available_backends() {
        assert_close(matmul_with(backend, a.t(), a.view()).view(), gram(a.view()).view(), 1e-14);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lq_keeps_the_row_geometry(rows in 1_usize..12, columns in 1_usize..12, seed: u64) {
        let a = scrambled(rows, columns, seed);
        let l = lq_lower(a.view()).unwrap();
        assert_exactly_lower(&l);
        prop_assert!(l.diag().iter().all(|&pivot| pivot >= 0.0));
        assert_close(l.dot(&l.t()).view(), a.dot(&a.t()).view(), 1e-13);
    }

    #[test]
    fn roots_square_to_the_matrix(n in 1_usize..14, seed: u64) {
        let x = positive_definite(n, seed);
        let root = symmetric_sqrt(x.view()).unwrap();
        prop_assert_eq!(&root, &root.t());
        assert_close(root.dot(&root).view(), x.view(), 1e-13);
        let lower = lower_root(x.view()).unwrap();
        assert_exactly_lower(&lower);
        assert_close(lower.t().dot(&lower).view(), x.view(), 1e-13);
        prop_assert!(lower.diag().iter().all(|&pivot| pivot > 0.0));
    }

    #[test]
    fn triangular_solves_undo_products(n in 1_usize..14, columns in 1_usize..6, seed: u64) {
        let l = lower_root(positive_definite(n, seed).view()).unwrap();
        let x = scrambled(n, columns, seed ^ 1);
        assert_close(solve_lower(l.view(), matmul(l.view(), x.view()).view()).unwrap().view(), x.view(), 1e-12);
        let inverse = inverse_lower(l.view()).unwrap();
        assert_exactly_lower(&inverse);
        assert_close(inverse.dot(&l).view(), Array2::eye(n).view(), 1e-12);
    }

    #[test]
    fn the_pseudo_inverse_satisfies_penrose(rows in 1_usize..10, columns in 1_usize..10, rank in 1_usize..10, seed: u64) {
        let a = scrambled(rows, rank, seed).dot(&scrambled(rank, columns, seed ^ 2));
        // Only well-conditioned cases have an inverse to compare at this accuracy.
        let spectrum = singular_values(a.view()).unwrap();
        let full = rank.min(rows).min(columns);
        prop_assume!(spectrum[full - 1] > 1e-3 * spectrum[0]);
        let inverse = pseudo_inverse(a.view()).unwrap();
        assert_close(a.dot(&inverse).dot(&a).view(), a.view(), 1e-11);
        assert_close(inverse.dot(&a).dot(&inverse).view(), inverse.view(), 1e-10);
        let b = scrambled(rows, 2, seed ^ 3);
        assert_close(least_squares(a.view(), b.view()).unwrap().view(), inverse.dot(&b).view(), 1e-10);
    }
}
