//! Correlated noise and whole releases against plain sampling: what a strategy, and a mechanism around it, cost beyond the Gaussian
//! values that they are made of.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use dp_benches::Spent;
use dp_linalg::dense;
use dp_mechanisms::{
    Budget, CorrelatedNoise, Footprint, GaussianSource, Mechanism, Method, Participation, Plan, Problem,
    Relation, Seed, Side, Strategy, Workload,
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

/// One row of the table, and whether its ratio is within the limit. The time of processors counts, not that on the clock.
fn print_row(what: &str, values: usize, spent: Spent, sampled: Spent, limit: Option<f64>) -> bool {
    let per_value = |time: Duration| time.as_secs_f64() * 1e9 / values as f64;
    let by_processor = spent.processor_ratio(&sampled);
    let ratio =
        by_processor.parse().unwrap_or_else(|_| spent.elapsed.as_secs_f64() / sampled.elapsed.as_secs_f64());
    let within = limit.is_none_or(|limit| ratio <= limit);
    let target = limit
        .map_or_else(String::new, |limit| format!("at most {limit}{}", if within { "" } else { ": MISSED" }));
    println!(
        "{what:<34} {:>8.2} ns {:>8.2} ns {:>7.2} {by_processor:>12}   {target}",
        per_value(spent.elapsed),
        per_value(sampled.elapsed),
        spent.elapsed.as_secs_f64() / sampled.elapsed.as_secs_f64(),
    );
    within
}

/// Times the noise of a stream beside as many plain samples.
fn compare(method: Method, steps: usize, dimension: usize, runs: usize, limit: Option<f64>) {
    let Some(strategy) = build(method, steps) else {
        println!("{method}: not for {steps} steps");
        return;
    };
    let stream = || {
        let (stream, mut out) = (noise(strategy.as_ref(), dimension), vec![0.0; dimension]);
        move || drain(stream, steps, &mut out)
    };
    beside_sampling(
        &format!("{method}, n = {steps}, d = {dimension}"),
        steps,
        dimension,
        runs,
        limit,
        stream,
    );
}

/// Times a count whose events come one at a time, each followed by a release, beside as many plain samples: whatever is computed
/// in every step shows, such as a standard deviation that nobody asked for.
fn compare_count(method: Method, steps: usize, runs: usize, limit: f64) -> bool {
    let Some(strategy) = build(method, steps) else {
        println!("{method}: not for {steps} steps");
        return true;
    };
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single);
    let footprint = footprint.expect("bounds in order");
    let budget = Budget::zero_concentrated(0.5).expect("a positive budget");
    let plan = Plan::idealized(strategy, footprint, budget).expect("a strategy for one event");
    let stream = || {
        let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(1)).expect("a plan for numbers");
        move || {
            let (mut sum, mut count) = (0.0, [0.0]);
            for _ in 0..steps {
                mechanism.release(&[1.0], &mut count).expect("as many steps as the horizon has");
                sum += count[0];
            }
            sum
        }
    };
    beside_sampling(&format!("count of {steps}, {method}"), steps, 1, runs, Some(limit), stream)
}

/// Times streams beside as many plain samples, one after the other.
fn beside_sampling<W: FnOnce() -> f64>(
    what: &str,
    steps: usize,
    dimension: usize,
    runs: usize,
    limit: Option<f64>,
    mut stream: impl FnMut() -> W,
) -> bool {
    let mut out = vec![0.0; dimension];
    let mut generator = ChaCha20Rng::seed_from_u64(3);
    // In turns, so that whatever else the machine does falls on both.
    let mut once = || {
        let stream = stream();
        let spent = Spent::on(|| {
            black_box(stream());
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
    print_row(what, steps * dimension, spent, sampled, limit)
}

/// The strategies that are built in reasonable time for so many steps: dense programs take minutes.
fn methods_for(steps: usize) -> impl Iterator<Item = Method> {
    Method::ALL.iter().copied().filter(move |method| method.practical_limit(Participation::Single) >= steps)
}

/// Prints the table, and says whether counts are within their limits.
fn print_ratios() -> bool {
    println!("\ncorrelated noise / plain sampling, per value (shortest of several runs)");
    println!("{:<34} {:>11} {:>11} {:>7} {:>12}", "", "noise", "sampling", "ratio", "by processor");
    for method in methods_for(1 << 12) {
        compare(method, 1 << 12, 1, 9, None);
    }
    for method in methods_for(1 << 20) {
        compare(method, 1 << 20, 1, 5, Some(5.0));
    }
    let mut within = true;
    for method in [Method::Blt, Method::ScaledBlt] {
        within &= compare_count(method, 1 << 20, 5, 6.0);
    }
    // 40 steps of a million coordinates are past what is made in one piece: here the square root runs online.
    for (method, steps) in [
        (Method::BinaryTree, 16),
        (Method::HonakerOnline, 16),
        (Method::Sqrt, 16),
        (Method::BinaryTree, 40),
        (Method::Sqrt, 40),
    ] {
        compare(method, steps, 1_000_000, 1, None);
    }
    within
}

fn main() -> ExitCode {
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
    if std::env::args().any(|argument| argument == "--bench") && !print_ratios() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
