//! Exact discrete noise: samples per second by σ, beside the continuous normal and another exact sampler.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dp_mechanisms::noise::discrete::{DiscreteGaussian, DiscreteLaplace};
use prio::dp::{Rational, distributions::DiscreteGaussian as PrioDiscreteGaussian};
use rand::{SeedableRng, distr::Distribution};
use rand_chacha::ChaCha20Rng;
use rand_distr::StandardNormal;

const SCALES: [u128; 4] = [1, 1_000, 1_000_000, 1_000_000_000];

fn samples(c: &mut Criterion) {
    let mut group = c.benchmark_group("discrete");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(20);
    group.throughput(Throughput::Elements(1));

    let mut rng = ChaCha20Rng::seed_from_u64(1);
    group.bench_function("rand_distr StandardNormal (continuous)", |b| {
        b.iter(|| black_box::<f64>(StandardNormal.sample(&mut rng)));
    });
    for scale in SCALES {
        let ours = DiscreteGaussian::new(scale * scale, 1).expect("the variance is in range");
        group.bench_function(BenchmarkId::new("gaussian", scale), |b| b.iter(|| ours.sample(&mut rng)));

        let scale_ratio = Rational::from_unsigned(scale, 1).expect("the denominator is not zero");
        let peer = PrioDiscreteGaussian::new(scale_ratio).expect("the deviation is positive");
        group.bench_function(BenchmarkId::new("gaussian of prio", scale), |b| {
            b.iter(|| peer.sample(&mut rng));
        });

        let laplace = DiscreteLaplace::new(scale, 1).expect("the scale is in range");
        group.bench_function(BenchmarkId::new("laplace", scale), |b| b.iter(|| laplace.sample(&mut rng)));
    }
    group.finish();
}

/// The one-off cost of the table.
fn construction(c: &mut Criterion) {
    let mut group = c.benchmark_group("discrete construction");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(20);
    for scale in SCALES {
        group.bench_function(BenchmarkId::new("gaussian", scale), |b| {
            b.iter(|| DiscreteGaussian::new(black_box(scale * scale), 1));
        });
    }
    group.finish();
}

criterion_group!(benches, samples, construction);
criterion_main!(benches);
