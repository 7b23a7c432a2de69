//! Power series and Toeplitz operators against the quadratic algorithms they replace, and the three ratios that the
//! fast algorithms are held to.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use dp_linalg::toeplitz::{LowerToeplitz, OnlineToeplitz};
use dp_linalg::{fft, series};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// Uniform values in [-1, 1), the same in every run.
fn uniform(seed: u64, n: usize) -> Vec<f64> {
    let mut generator = ChaCha20Rng::seed_from_u64(seed);
    (0..n).map(|_| generator.random_range(-1.0..1.0)).collect()
}

/// A series without a closed form: polynomial decay with a seeded ripple.
fn general_series(n: usize) -> Vec<f64> {
    uniform(1, n).iter().enumerate().map(|(k, x)| (1.0 + 0.1 * x) / ((k + 1) as f64).sqrt()).collect()
}

fn push_all(online: &mut OnlineToeplitz, inputs: &[f64]) -> f64 {
    let mut output = [0.0];
    for input in inputs {
        online.push(std::slice::from_ref(input), &mut output).expect("one push per step of the horizon");
    }
    output[0]
}

fn convolution(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("convolution");
    for n in [1 << 10, 1 << 13] {
        let (a, b) = (uniform(2, n), uniform(3, n));
        group.bench_function(BenchmarkId::new("fft", n), |bencher| bencher.iter(|| fft::convolve(&a, &b)));
        group.bench_function(BenchmarkId::new("naive", n), |bencher| {
            bencher.iter(|| {
                let mut out = vec![0.0; 2 * n - 1];
                for (shift, factor) in a.iter().enumerate() {
                    for (sum, x) in out[shift..].iter_mut().zip(&b) {
                        *sum += factor * x;
                    }
                }
                out
            });
        });
    }
    group.finish();
}

fn roots(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("square root and inverse");
    for n in [1 << 10, 1 << 13] {
        let a = general_series(n);
        group.bench_function(BenchmarkId::new("sqrt newton", n), |bencher| {
            bencher.iter(|| series::sqrt(&a, n));
        });
        group.bench_function(BenchmarkId::new("sqrt recurrence (naive)", n), |bencher| {
            bencher.iter(|| series::sqrt_recurrence(&a, n));
        });
        group.bench_function(BenchmarkId::new("inverse newton", n), |bencher| {
            bencher.iter(|| series::inverse(&a, n));
        });
        group.bench_function(BenchmarkId::new("inverse recurrence (naive)", n), |bencher| {
            bencher.iter(|| series::inverse_recurrence(&a, n));
        });
    }
    group.finish();
}

fn closed_forms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("square root of a window");
    let (w, n) = (64, 1 << 13);
    let a = series::window(w, n).expect("a window of 64");
    group.bench_function("closed form", |bencher| bencher.iter(|| series::sqrt_window(w, n)));
    group.bench_function("newton", |bencher| bencher.iter(|| series::sqrt(&a, n)));
    group.bench_function("recurrence (naive)", |bencher| bencher.iter(|| series::sqrt_recurrence(&a, n)));
    group.finish();
}

fn online(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("online Toeplitz");
    let n = 1 << 13;
    let (coefficients, inputs) = (series::binomial(0.5, n), uniform(4, n));
    let fresh = OnlineToeplitz::new(&coefficients, 1).expect("finite coefficients");
    group.bench_function("relaxed", |bencher| {
        bencher.iter_batched_ref(
            || fresh.clone(),
            |online| push_all(online, &inputs),
            criterion::BatchSize::LargeInput,
        );
    });
    group.bench_function("one dot product per step (naive)", |bencher| {
        bencher.iter(|| {
            (1..=n)
                .map(|t| inputs[..t].iter().rev().zip(&coefficients).map(|(x, c)| x * c).sum::<f64>())
                .sum::<f64>()
        });
    });
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

fn print_ratio(what: &str, over: Duration, under: Duration, bound: &str) {
    let ratio = over.as_secs_f64() / under.as_secs_f64();
    let (over, under) = (over.as_secs_f64() * 1e3, under.as_secs_f64() * 1e3);
    println!("{what:<52} {over:>10.2} ms / {under:>8.2} ms = {ratio:>8.2}   ({bound})");
}

/// Prints what the fast algorithms cost relative to one another.
fn print_ratios() {
    println!("\nratios (shortest of several runs)");
    let n = 1 << 20;
    let (a, b) = (general_series(n), uniform(5, n));
    let convolution = shortest(7, || drop(black_box(fft::convolve(&a, &b))));
    let root = shortest(7, || drop(black_box(series::sqrt(&a, n))));
    print_ratio("sqrt / convolution, n = 2^20", root, convolution, "at most 15");
    let inverse = shortest(5, || drop(black_box(series::inverse(&a, n))));
    print_ratio("inverse / convolution, n = 2^20", inverse, convolution, "no bound");

    let short = &a[..1 << 16];
    let newton = shortest(15, || drop(black_box(series::sqrt(short, short.len()))));
    let recurrence = shortest(1, || drop(black_box(series::sqrt_recurrence(short, short.len()))));
    print_ratio("sqrt recurrence / Newton, n = 2^16", recurrence, newton, "at least 200");

    let coefficients = series::binomial(0.5, n);
    let fresh = OnlineToeplitz::new(&coefficients, 1).expect("finite coefficients");
    let offline = LowerToeplitz::new(coefficients).expect("finite coefficients");
    let applied = shortest(7, || drop(black_box(offline.apply(&b))));
    let mut copies: Vec<OnlineToeplitz> = vec![fresh; 5];
    let pushed = shortest(5, || {
        if let Some(mut online) = copies.pop() {
            black_box(push_all(&mut online, &b));
        }
    });
    print_ratio("online / offline apply, n = 2^20, d = 1", pushed, applied, "at most 30");
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    convolution(&mut criterion);
    roots(&mut criterion);
    closed_forms(&mut criterion);
    online(&mut criterion);
    criterion.final_summary();
    // `cargo test --benches` runs every bench once to see that it works; measuring belongs to `cargo bench`.
    if std::env::args().any(|argument| argument == "--bench") {
        print_ratios();
    }
}
