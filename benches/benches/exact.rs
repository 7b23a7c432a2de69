//! Whole streams of releases: exact integers beside idealized floating point, in the same run.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dp_mechanisms::{
    Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Seed, Workload,
};

fn whole_streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("exact");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(4)).sample_size(10);
    for (method, steps) in [
        (Method::Sqrt, 1_usize << 16),
        (Method::Sqrt, 1 << 20),
        (Method::ScaledSqrt, 1 << 16),
        (Method::BinaryTree, 1 << 16),
        (Method::BinaryTree, 1 << 20),
    ] {
        group.throughput(Throughput::Elements(steps as u64));
        let problem = Problem::new(Workload::count(), steps).expect("some steps");
        let strategy = method.build(&problem).expect("the strategy serves the count");
        let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).expect("0 < 1");
        let budget = Budget::approximate(1.0, 1e-6).expect("a valid budget");
        let idealized =
            Plan::idealized(strategy.clone(), footprint.clone(), budget).expect("it can be calibrated");
        let id = |mode: &str| BenchmarkId::new(format!("{method} {mode}"), steps);
        group.bench_function(id("idealized"), |b| {
            b.iter(|| {
                let mut mechanism = Mechanism::new(idealized.clone(), Seed::reproducible(1))
                    .expect("the dimension is positive");
                let mut output = [0.0];
                for step in 0..steps {
                    mechanism.release(&[(step % 2) as f64], &mut output).expect("within the horizon");
                }
                black_box(output[0])
            });
        });
        for (mode, grid) in [("exact, whole numbers", 1.0), ("exact, grid of 2^-16", 1.0 / 65536.0)] {
            let plan = Plan::exact(&strategy, footprint.clone(), budget, grid).expect("it can be calibrated");
            group.bench_function(id(mode), |b| {
                b.iter(|| {
                    let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(1)).expect("it fits");
                    let mut output = [0.0];
                    for step in 0..steps {
                        mechanism.release(&[(step % 2) as f64], &mut output).expect("within the horizon");
                    }
                    black_box(output[0])
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, whole_streams);
criterion_main!(benches);
