//! Dense linear algebra: every backend that was compiled in, and a textbook algorithm beside it.
//!
//! `cargo bench -p dp-benches --bench dense` measures faer; with `--features openblas` both backends in one run.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use dp_linalg::dense::{available_backends, matmul_with, singular_values_with, symmetric_eigen_with};
use ndarray::Array2;
use std::hint::black_box;
use std::time::Duration;

/// The matrix of prefix sums with its columns scaled unevenly: the matrices that the optimal factorization meets.
fn scaled_prefix_sum(n: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, n), |(i, j)| if j <= i { 1.0 + (j as f64).sin() * 0.3 } else { 0.0 })
}

/// The product by three loops, rows of `b` innermost.
fn naive_matmul(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let mut product = Array2::zeros((a.nrows(), b.ncols()));
    for (i, row) in a.outer_iter().enumerate() {
        for (&factor, line) in row.iter().zip(b.outer_iter()) {
            product.row_mut(i).scaled_add(factor, &line);
        }
    }
    product
}

/// The eigenvalues of a symmetric matrix by cyclic Jacobi rotations, until the off-diagonal part is negligible.
fn jacobi_eigenvalues(a: &Array2<f64>) -> Vec<f64> {
    let mut a = a.clone();
    let n = a.nrows();
    for _sweep in 0..30 {
        let off: f64 = a.indexed_iter().filter(|((i, j), _)| i != j).map(|(_, value)| value * value).sum();
        let all: f64 = a.iter().map(|value| value * value).sum();
        if off <= 1e-24 * all {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, p, q);
            }
        }
    }
    a.diag().to_vec()
}

/// The rotation of the plane (p, q) that makes `a[p,q]` zero.
fn rotate(a: &mut Array2<f64>, p: usize, q: usize) {
    if a[[p, q]] == 0.0 {
        return;
    }
    let ratio = (a[[q, q]] - a[[p, p]]) / (2.0 * a[[p, q]]);
    let tangent = ratio.signum() / (ratio.abs() + ratio.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    for k in 0..a.nrows() {
        let (x, y) = (a[[k, p]], a[[k, q]]);
        a[[k, p]] = cosine * x - sine * y;
        a[[k, q]] = sine * x + cosine * y;
    }
    for k in 0..a.nrows() {
        let (x, y) = (a[[p, k]], a[[q, k]]);
        a[[p, k]] = cosine * x - sine * y;
        a[[q, k]] = sine * x + cosine * y;
    }
}

fn matmul(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("matmul");
    for n in [256, 1024] {
        let a = scaled_prefix_sum(n);
        for &backend in available_backends() {
            group.bench_function(BenchmarkId::new(format!("{backend:?}"), n), |bencher| {
                bencher.iter(|| matmul_with(backend, black_box(a.t()), a.view()));
            });
        }
        if n <= 256 {
            group.bench_function(BenchmarkId::new("three loops", n), |bencher| {
                let transpose = a.t().as_standard_layout().into_owned();
                bencher.iter(|| naive_matmul(black_box(&transpose), &a));
            });
        }
    }
}

fn symmetric_eigen(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("symmetric eigen");
    for n in [128, 1024, 2048] {
        let a = scaled_prefix_sum(n);
        let gram = a.t().dot(&a);
        for &backend in available_backends() {
            group.bench_function(BenchmarkId::new(format!("{backend:?}"), n), |bencher| {
                bencher.iter(|| symmetric_eigen_with(backend, black_box(gram.view())));
            });
        }
        if n <= 128 {
            group.bench_function(BenchmarkId::new("Jacobi, values only", n), |bencher| {
                bencher.iter(|| jacobi_eigenvalues(black_box(&gram)));
            });
        }
    }
}

fn singular_values(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("singular values");
    for n in [128, 1024] {
        let a = scaled_prefix_sum(n);
        for &backend in available_backends() {
            group.bench_function(BenchmarkId::new(format!("{backend:?}"), n), |bencher| {
                bencher.iter(|| singular_values_with(backend, black_box(a.view())));
            });
        }
        if n <= 128 {
            // Squares the condition number as well: good to half the digits only.
            group.bench_function(BenchmarkId::new("Jacobi on the Gram matrix", n), |bencher| {
                bencher.iter(|| jacobi_eigenvalues(black_box(&a.t().dot(&a))));
            });
        }
    }
}

criterion_group! {
    name = dense;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = matmul, symmetric_eigen, singular_values
}
criterion_main!(dense);
