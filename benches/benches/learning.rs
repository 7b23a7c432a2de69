//! One step of noise for models of many parameters, beside plain sampling of as many normal values by the same threads.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use dp_benches::{Spent, sample_single as sample};
use dp_mechanisms::noise::{Precision, ShardedNoise};
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::shards::{NoiseShard, ShardSet};
use dp_mechanisms::{
    Budget, Footprint, GaussianSource, Method, Participation, Plan, Problem, Relation, Seed, Strategy,
    Workload,
};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Steps of a training run; `blt` has five buffers for so many.
const STEPS: usize = 4096;

const METHODS: [Method; 5] =
    [Method::Identity, Method::BinaryTree, Method::Blt, Method::ScaledBlt, Method::Banded];

fn build(method: Method) -> Arc<dyn Strategy> {
    let problem = Problem::new(Workload::count(), STEPS).expect("some steps");
    method.build(&problem).expect("a strategy for the count")
}

fn noise(strategy: &dyn Strategy, dimension: usize) -> ShardedNoise {
    ShardedNoise::new(strategy, Seed::reproducible(1), dimension, 0..dimension, Precision::Single)
        .expect("a strategy with a short memory")
}

/// Fast and naive agree before they are timed: the identity strategy is plain sampling.
fn check() {
    let dimension = 10_000;
    let mut noise = noise(build(Method::Identity).as_ref(), dimension);
    let source = GaussianSource::new(Seed::reproducible(1), dimension);
    let (mut made, mut plain) = (vec![0.0; dimension], vec![0.0; dimension]);
    for row in 0..3 {
        noise.next_into(&mut made).expect("a step within the horizon");
        sample(&source, row, &mut plain);
        assert_eq!(made, plain);
    }
}

fn steps(criterion: &mut Criterion) {
    let dimension = 1_000_000;
    let mut group = criterion.benchmark_group("a step of 10^6 coordinates in single precision");
    group.throughput(Throughput::Elements(dimension as u64));
    let mut out = vec![0.0_f32; dimension];
    let source = GaussianSource::new(Seed::reproducible(1), dimension);
    let mut row = 0;
    group.bench_function("plain sampling", |bencher| {
        bencher.iter(|| {
            sample(&source, row, &mut out);
            row += 1;
        });
    });
    for method in [Method::Blt, Method::ScaledBlt] {
        let strategy = build(method);
        let mut stream = noise(strategy.as_ref(), dimension);
        group.bench_function(method.name(), |bencher| {
            bencher.iter(|| {
                if stream.step() == STEPS {
                    stream = noise(strategy.as_ref(), dimension);
                }
                stream.next_into(&mut out).expect("a step within the horizon");
            });
        });
    }
    group.finish();
}

/// Times of one step of each strategy and of plain sampling, in turns: whatever else the machine does falls on both.
fn compare(pool: &ThreadPool, dimension: usize, methods: &[Method], runs: usize) {
    let mut out = vec![0.0_f32; dimension];
    for &method in methods {
        let mut stream = noise(build(method).as_ref(), dimension);
        let source = GaussianSource::new(Seed::reproducible(2), dimension);
        let mut once = |row: usize| {
            let sampled = Spent::on(|| pool.install(|| sample(&source, row, black_box(&mut out))));
            let step = Spent::on(|| {
                pool.install(|| stream.next_into(black_box(&mut out)).expect("a step within the horizon"));
            });
            (step, sampled)
        };
        let (mut step, mut sampled) = once(0);
        for row in 1..runs {
            let again = once(row);
            (step, sampled) = (step.and(again.0), sampled.and(again.1));
        }
        let target = if dimension == 1_000_000 && [Method::Blt, Method::ScaledBlt].contains(&method) {
            "at most 2.5"
        } else {
            ""
        };
        println!(
            "{method:<16} d = {dimension:<9} {} threads {:>9.2} ms {:>9.2} ms {:>7.2} {:>12}   {target}",
            pool.current_num_threads(),
            step.elapsed.as_secs_f64() * 1e3,
            sampled.elapsed.as_secs_f64() * 1e3,
            step.elapsed.as_secs_f64() / sampled.elapsed.as_secs_f64(),
            step.processor_ratio(&sampled),
        );
    }
}

fn print_ratios() {
    println!("\na step of noise, n = {STEPS} / plain sampling of as many values by the same threads");
    println!("{:<40} {:>12} {:>12} {:>7} {:>12}", "", "noise", "sampling", "ratio", "by processor");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for threads in [threads, 1] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        compare(&pool, 1_000_000, &METHODS, 12);
        compare(&pool, 10_000_000, &METHODS, 3);
        compare(&pool, 100_000_000, &[Method::Blt, Method::ScaledBlt], 2);
    }
}

/// The plan of vectors of norm 1.
fn plan() -> Plan {
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).expect("a footprint");
    Plan::idealized(build(Method::Blt), footprint, Budget::approximate(1.0, 1e-6).expect("a budget"))
        .expect("a plan")
}

/// A step of a shard of 10^7 parameters beside a gradient computation that takes about as long and keeps one thread busy:
/// with its noise made when it is needed, and made meanwhile by the other cores. What is left of the step is the addition.
fn print_hidden() {
    let dimension = self::parameters();
    let plan = plan();
    let mut shard =
        NoiseShard::in_memory(&plan, dimension, 1, Seed::reproducible(1)).expect("memory").remove(0);
    let (sum, mut out) = (vec![0.25; dimension], vec![0.0; dimension]);
    let parameters = vec![1e-3_f64; dimension];
    let compute = |passes: usize| {
        let pass = |_| parameters.iter().map(|value| value.sin()).sum::<f64>();
        black_box((0..passes).map(pass).sum::<f64>());
    };
    let started = Instant::now();
    shard.release(&sum, &mut out).expect("a step");
    let alone = started.elapsed();
    let started = Instant::now();
    compute(1);
    let passes = (2.0 * alone.as_secs_f64() / started.elapsed().as_secs_f64()).ceil() as usize;
    println!(
        "\na step of a shard, d = {dimension}, n = {STEPS}, beside a gradient computation on one thread"
    );
    for ahead in [false, true] {
        let (mut computing, mut step) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..5 {
            if ahead {
                shard.prepare();
            }
            let started = Instant::now();
            compute(passes);
            computing += started.elapsed();
            let started = Instant::now();
            shard.release(&sum, black_box(&mut out)).expect("a step");
            step += started.elapsed();
        }
        let name = if ahead { "noise made meanwhile" } else { "noise made when needed" };
        println!(
            "{name:<24} computation {:>9.2} ms, step {:>9.2} ms",
            computing.as_secs_f64() * 200.0,
            step.as_secs_f64() * 200.0
        );
    }
}

/// The parameters of the models that are kept and resumed: 10^7, or what `LEARNING_PARAMETERS` says.
fn parameters() -> usize {
    std::env::var("LEARNING_PARAMETERS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000)
}

/// A kept shard: opening it, beside reading the bytes of its state alone and beside making the noise of 2000 of 4096 steps again.
/// What is kept does not grow with the steps, so that it stands for a shard at any of them.
fn print_resume() {
    let dimension = parameters();
    let plan = plan();
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("set");
    let whole = std::iter::once(0..dimension).collect::<Vec<_>>();
    let set = ShardSet::create(&place, &plan, dimension, &whole, Seed::reproducible(1)).expect("a set");
    let mut shard = set.shard(0).expect("a shard");
    let started = Instant::now();
    shard.skip_to(4).expect("four steps");
    let step = started.elapsed() / 4;
    let timed = |work: &mut dyn FnMut()| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64() * 1e3
    };
    let saving = timed(&mut || assert_eq!(shard.checkpoint().expect("a checkpoint"), 4));
    drop(shard);
    let bytes = std::fs::metadata(place.join("shard-0.state")).map_or(0, |data| data.len());
    let reading =
        timed(&mut || drop(black_box(std::fs::read(place.join("shard-0.state")).expect("a state"))));
    let opening = timed(&mut || drop(set.shard(0).expect("a shard")));
    println!(
        "\na kept shard, d = {dimension}: checkpoint of {bytes} bytes {saving:.0} ms, opened in {opening:.0} ms, {:.1} times \
         reading its bytes alone; making the noise of 2000 steps again would take {:.0} s",
        opening / reading,
        2000.0 * step.as_secs_f64()
    );
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .configure_from_args();
    check();
    steps(&mut criterion);
    criterion.final_summary();
    // `cargo test --benches` runs every bench once to see that it works; measuring belongs to `cargo bench`.
    if std::env::args().any(|argument| argument == "--bench") {
        print_ratios();
        print_hidden();
        print_resume();
    }
}
