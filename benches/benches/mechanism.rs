//! Correlated noise against plain sampling: what a strategy costs beyond the Gaussian values that it is made of.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use dp_benches::Spent;
use dp_linalg::dense;
use dp_mechanisms::{
    CorrelatedNoise, GaussianSource, Method, Participation, Problem, Seed, Side, Strategy, Workload,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};

/// The strategy for the count, or nothing where it does not serve that many steps.
fn build(method: Method, steps: usize) -> Option<Arc<dyn Strategy>> {
    method.build(&Problem::new(Workload::count(), steps).ok()?).ok()
}

fn noise(strategy: &dyn Strategy, dimension: usize) -> CorrelatedNoise {
    let source = Box::new(GaussianSource::new(Seed::reproducible(1), dimension));
    CorrelatedNoise::new(strategy, dimension, Side::Output, source).expect("a positive dimension")
}

/// All the noise of a stream, step by step; the sum keeps the compiler from dropping any of it.
fn drain(mut noise: CorrelatedNoise, steps: usize, out: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for _ in 0..steps {
        noise.next_into(out).expect("as many steps as the horizon has");
        sum += out[0];
    }
    sum
}

/// Independent standard normal values from the same generator.
fn plain(generator: &mut ChaCha20Rng, out: &mut [f64]) {
    for value in out {
        *value = StandardNormal.sample(generator);
    }
}

fn plain_sum(generator: &mut ChaCha20Rng, steps: usize, out: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for _ in 0..steps {
        plain(generator, out);
        sum += out[0];
    }
    sum
}

/// The noise of a strategy with unit vectors in place of z is its matrix: fast and dense agree before they are timed.
fn check(method: Method) {
    struct Impulses;
    impl dp_mechanisms::noise::UnitNoise for Impulses {
        fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
            for (column, value) in (first..).zip(out) {
                *value = f64::from(u8::from(column == row));
            }
        }
    }
    let Some(strategy) = build(method, 32) else { return };
    let decoder = strategy.materialize().expect("a small strategy").decoder;
    let mut noise =
        CorrelatedNoise::new(strategy.as_ref(), decoder.ncols(), Side::Output, Box::new(Impulses))
            .expect("a positive dimension");
    let mut row = vec![0.0; decoder.ncols()];
    for expected in decoder.rows() {
        noise.next_into(&mut row).expect("as many steps as the horizon has");
        for (value, expected) in row.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-9, "{method}: {value} against {expected}");
        }
    }
}

/// One scalar release of each strategy over 4096 steps, all costs of the stream shared among its steps.
fn scalar_steps(criterion: &mut Criterion) {
    let steps = 1 << 12;
    let mut group = criterion.benchmark_group("scalar stream of 4096 steps");
    group.throughput(Throughput::Elements(steps as u64));
    let mut generator = ChaCha20Rng::seed_from_u64(1);
    group.bench_function("plain sampling", |bencher| {
        bencher.iter(|| plain_sum(&mut generator, steps, &mut [0.0]));
    });
    for method in methods_for(steps) {
        let Some(strategy) = build(method, steps) else { continue };
        group.bench_function(BenchmarkId::from_parameter(method), |bencher| {
            bencher.iter_batched(
                || noise(strategy.as_ref(), 1),
                |noise| drain(noise, steps, &mut [0.0]),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// A whole small strategy the naive way: the matrix B times z.
fn against_the_matrix(criterion: &mut Criterion) {
    let (steps, dimension) = (256, 64);
    let mut group = criterion.benchmark_group("256 steps of 64 coordinates");
    group.throughput(Throughput::Elements((steps * dimension) as u64));
    for method in [Method::Sqrt, Method::BinaryTree, Method::HonakerFull] {
        let Some(strategy) = build(method, steps) else { continue };
        group.bench_function(BenchmarkId::new("streamed", method), |bencher| {
            let mut out = vec![0.0; dimension];
            bencher.iter_batched(
                || noise(strategy.as_ref(), dimension),
                |noise| drain(noise, steps, &mut out),
                BatchSize::LargeInput,
            );
        });
        let decoder = strategy.materialize().expect("a small strategy").decoder;
        let mut generator = ChaCha20Rng::seed_from_u64(2);
        group.bench_function(BenchmarkId::new("matrix (naive)", method), |bencher| {
            bencher.iter(|| {
                let mut z = ndarray::Array2::zeros((decoder.ncols(), dimension));
                plain(&mut generator, z.as_slice_mut().expect("a fresh array"));
                dense::matmul(decoder.view(), z.view())
            });
        });
    }
    group.finish();
}

/// One row of the table.
fn print_row(what: &str, values: usize, spent: Spent, sampled: Spent, target: &str) {
    let per_value = |time: Duration| time.as_secs_f64() * 1e9 / values as f64;
    println!(
        "{what:<34} {:>8.2} ns {:>8.2} ns {:>7.2} {:>12}   {target}",
        per_value(spent.elapsed),
        per_value(sampled.elapsed),
        spent.elapsed.as_secs_f64() / sampled.elapsed.as_secs_f64(),
        spent.processor_ratio(&sampled),
    );
}

/// Times the noise of a stream beside as many plain samples, one after the other.
fn compare(method: Method, steps: usize, dimension: usize, runs: usize, target: &str) {
    let Some(strategy) = build(method, steps) else {
        println!("{method}: not for {steps} steps");
        return;
    };
    let mut out = vec![0.0; dimension];
    let mut generator = ChaCha20Rng::seed_from_u64(3);
    // In turns, so that whatever else the machine does falls on both.
    let mut once = || {
        let stream = noise(strategy.as_ref(), dimension);
        let spent = Spent::on(|| {
            black_box(drain(stream, steps, &mut out));
        });
        let sampled = Spent::on(|| {
            black_box(plain_sum(&mut generator, steps, &mut out));
        });
        (spent, sampled)
    };
    let (mut spent, mut sampled) = once();
    for _ in 1..runs {
        let again = once();
        (spent, sampled) = (spent.and(again.0), sampled.and(again.1));
    }
    print_row(&format!("{method}, n = {steps}, d = {dimension}"), steps * dimension, spent, sampled, target);
}

/// The strategies that are built in reasonable time for so many steps: dense programs take minutes.
fn methods_for(steps: usize) -> impl Iterator<Item = Method> {
    Method::ALL.iter().copied().filter(move |method| method.practical_limit(Participation::Single) >= steps)
}

fn print_ratios() {
    println!("\ncorrelated noise / plain sampling, per value (shortest of several runs)");
    println!("{:<34} {:>11} {:>11} {:>7} {:>12}", "", "noise", "sampling", "ratio", "by processor");
    for method in methods_for(1 << 12) {
        compare(method, 1 << 12, 1, 9, "");
    }
    for method in methods_for(1 << 20) {
        compare(method, 1 << 20, 1, 5, "at most 5");
    }
    // 40 steps of a million coordinates are past what is made in one piece: here the square root runs online.
    for (method, steps) in [
        (Method::BinaryTree, 16),
        (Method::HonakerOnline, 16),
        (Method::Sqrt, 16),
        (Method::BinaryTree, 40),
        (Method::Sqrt, 40),
    ] {
        compare(method, steps, 1_000_000, 1, "");
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .configure_from_args();
    for &method in Method::ALL {
        check(method);
    }
    scalar_steps(&mut criterion);
    against_the_matrix(&mut criterion);
    criterion.final_summary();
    // `cargo test --benches` runs every bench once to see that it works; measuring belongs to `cargo bench`.
    if std::env::args().any(|argument| argument == "--bench") {
        print_ratios();
    }
}
