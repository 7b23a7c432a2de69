//! One step of the rational strategies at a million coordinates, beside the plain sampling of as many normal values.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{CorrelatedNoise, GaussianSource, Method, Problem, Seed, Side, Workload};

const DIMENSION: usize = 1_000_000;
const STEPS: usize = 1 << 12;

fn noise(method: Method, steps: usize) -> CorrelatedNoise {
    let problem = Problem::new(Workload::count(), steps).expect("some steps");
    let strategy = method.build(&problem).expect("a strategy for the count");
    let source = GaussianSource::new(Seed::reproducible(1), DIMENSION);
    CorrelatedNoise::new(strategy.as_ref(), DIMENSION, Side::Input, Box::new(source)).expect("a stream")
}

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a step of 10^6 coordinates");
    let mut out = vec![0.0; DIMENSION];
    let mut source = GaussianSource::new(Seed::reproducible(1), DIMENSION);
    let mut row = 0;
    group.bench_function("independent noise (naive)", |bencher| {
        bencher.iter(|| {
            source.fill_row(row, &mut out);
            row += 1;
        });
    });
    for method in [Method::Blt, Method::ScaledBlt] {
        let mut stream = noise(method, 1 << 20);
        group.bench_function(method.name(), |bencher| {
            bencher.iter(|| stream.next_into(&mut out).expect("a step within the horizon"));
        });
    }
    group.finish();
}

/// The shortest of several runs: the run that other work on the machine disturbed least.
fn shortest(runs: usize, mut work: impl FnMut()) -> Duration {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

/// Prints what correlation costs on top of sampling.
fn print_ratios() {
    println!("\nratios (shortest of 30 steps)");
    let mut out = vec![0.0; DIMENSION];
    let mut source = GaussianSource::new(Seed::reproducible(2), DIMENSION);
    let mut row = 0;
    let sampled = shortest(30, || {
        source.fill_row(row, &mut out);
        row += 1;
        black_box(&out);
    });
    let cases = [STEPS, 1 << 20].map(|steps| [(Method::Blt, steps), (Method::ScaledBlt, steps)]);
    for (method, steps) in cases.into_iter().flatten() {
        let mut stream = noise(method, steps);
        let step = shortest(30, || stream.next_into(&mut out).expect("a step within the horizon"));
        let ratio = step.as_secs_f64() / sampled.as_secs_f64();
        println!(
            "{method:<12} n = 2^{:<3} {:>8.2} ms / {:>8.2} ms = {ratio:>6.2}   (at most 2.5)",
            steps.ilog2(),
            step.as_secs_f64() * 1e3,
            sampled.as_secs_f64() * 1e3
        );
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    steps(&mut criterion);
    criterion.final_summary();
    // `cargo test --benches` runs every bench once to see that it works; measuring belongs to `cargo bench`.
    if std::env::args().any(|argument| argument == "--bench") {
        print_ratios();
    }
}
