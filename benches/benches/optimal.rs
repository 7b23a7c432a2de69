//! The optimal factorization to a relative duality gap of 1e-6: Newton's method beside the plain fixed point, and the
//! matrix-free lower bound beside the dense one.
//!
//! The number of eigendecompositions of every case is printed before it is timed.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use dp_mechanisms::bounds::dual_certificate;
use dp_mechanisms::certificate::{banded_bound, banded_certificate};
use dp_mechanisms::strategy::optimal::{Ascent, Objective, Stopping, scaled_sqrt_start, solve, start};
use dp_mechanisms::strategy::unwatched;
use dp_mechanisms::{Problem, Workload};
use ndarray::Array2;
use std::hint::black_box;
use std::time::Duration;

/// The limit stands in for a fixed point that would take too long.
fn options(ascent: Ascent) -> Stopping {
    Stopping { ascent, eigendecompositions: 2000, ..Stopping::default() }
}

fn solve_and_count(workload: &Array2<f64>, from: &[f64], ascent: Ascent) -> usize {
    solve(workload.view(), &Objective::Mean, from, options(ascent), &mut unwatched)
        .map_or(0, |optimum| optimum.certificate.eigendecompositions)
}

fn to_the_gap(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("optimal, gap 1e-6");
    for (text, steps, with_fixed_point) in
        [("count", 256, true), ("momentum:0.9", 128, true), ("count", 1024, false)]
    {
        let Ok(workload) = text.parse::<Workload>() else { continue };
        let Ok(problem) = Problem::new(workload.clone(), steps) else { continue };
        let (Ok(matrix), Ok(sqrt), Ok(best)) =
            (workload.materialize(steps), scaled_sqrt_start(&problem), start(&problem))
        else {
            continue;
        };
        let mut cases = vec![
            ("Newton, best start", best, Ascent::Newton),
            ("Newton, scaled root", sqrt.clone(), Ascent::Newton),
            ("Newton, equal weights", vec![1.0; steps], Ascent::Newton),
        ];
        if with_fixed_point {
            cases.push(("fixed point, scaled root", sqrt, Ascent::FixedPoint));
        }
        for (name, from, ascent) in cases {
            let count = solve_and_count(&matrix, &from, ascent);
            println!("{text}, {steps} steps, {name}: {count} eigendecompositions");
            group.bench_function(BenchmarkId::new(name, format!("{text}/{steps}")), |bencher| {
                bencher.iter(|| solve_and_count(black_box(&matrix), &from, ascent));
            });
        }
    }
}

fn certificates(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lower bound of the count");
    let count = Workload::count();
    for steps in [1024, 16_384] {
        let Ok(Some(bound)) = banded_bound(&count, steps) else { continue };
        println!("count, {steps} steps: E2 >= {}", bound.lower_bound);
        let weights = bound.column_weights;
        group.bench_function(BenchmarkId::new("optimize the weights", steps), |bencher| {
            bencher.iter(|| banded_bound(black_box(&count), steps));
        });
        group.bench_function(BenchmarkId::new("given weights", steps), |bencher| {
            bencher.iter(|| banded_certificate(&count, black_box(&weights)));
        });
        if let (true, Ok(matrix)) = (steps <= 1024, count.materialize(steps)) {
            group.bench_function(BenchmarkId::new("given weights, dense", steps), |bencher| {
                bencher.iter(|| dual_certificate(black_box(matrix.view()), &weights));
            });
        }
    }
}

criterion_group! {
    name = optimal;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = to_the_gap, certificates
}
criterion_main!(optimal);
