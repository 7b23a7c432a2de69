//! Updates per second of the graph applications, beside the same computation without privacy.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dp_apps::graph::{CutEncoding, EdgeUpdate, GraphFunction, clip, project};
use dp_mechanisms::{Budget, Mechanism, Method, Plan, Problem, Relation, Seed, Workload};

const STEPS: usize = 256;
const PER_STEP: usize = 64;

/// Edges that look random, the same in every run.
fn edges(vertices: usize) -> Vec<EdgeUpdate> {
    (0..STEPS * PER_STEP)
        .map(|number| {
            let u = (number * 7919 + number / 97) % vertices;
            let v = (u + 1 + (number * 104_729 + number / 31) % (vertices - 1)) % vertices;
            EdgeUpdate::new(u, v, (number % 10) as f64 / 10.0)
        })
        .collect()
}

fn mechanism(footprint: dp_mechanisms::Footprint, dimension: usize) -> Mechanism {
    let count = Method::Sqrt.build(&Problem::new(Workload::count(), STEPS).unwrap()).unwrap();
    let plan = Plan::idealized(count, footprint, Budget::gaussian(1.0).unwrap()).unwrap();
    Mechanism::new(plan.of_dimension(dimension).unwrap(), Seed::reproducible(1)).unwrap()
}

fn weights(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph weights, 100 vertices, 64 updates per step");
    group.sample_size(10).throughput(Throughput::Elements((STEPS * PER_STEP) as u64));
    let edges = edges(100);
    let encoding = CutEncoding::signed(100).unwrap();
    let dimension = encoding.dimension();
    group.bench_function("not private", |bencher| {
        bencher.iter(|| {
            let mut total = vec![0.0; dimension];
            for edge in &edges {
                total[encoding.pairs().index(edge.u, edge.v).unwrap()] += edge.weight;
            }
            black_box(total)
        });
    });
    group.bench_function("private", |bencher| {
        bencher.iter_with_setup(
            || mechanism(encoding.footprint(Relation::ZeroOut).unwrap(), dimension),
            |mut mechanism| {
                let (mut input, mut output) = (vec![0.0; dimension], vec![0.0; dimension]);
                for batch in edges.chunks(PER_STEP) {
                    encoding.encode(batch, &mut input).unwrap();
                    mechanism.release(&input, &mut output).unwrap();
                }
                black_box(output)
            },
        );
    });
    group.finish();
}

fn functions(criterion: &mut Criterion) {
    let edges = edges(1000);
    for (name, function) in [
        ("spanning forest", GraphFunction::SpanningForest { largest_weight: 1.0 }),
        ("triangles", GraphFunction::Triangles { degree_bound: 50 }),
        ("degree histogram", GraphFunction::DegreeHistogram { degree_bound: 50 }),
    ] {
        let mut group =
            criterion.benchmark_group(format!("graph {name}, 1000 vertices, 64 updates per step"));
        group.sample_size(10).throughput(Throughput::Elements((STEPS * PER_STEP) as u64));
        let dimension = function.dimension();
        group.bench_function("not private", |bencher| {
            bencher.iter(|| {
                let mut stream = function.start(1000).unwrap();
                let mut change = vec![0.0; dimension];
                for batch in edges.chunks(PER_STEP) {
                    stream.encode(batch, &mut change).unwrap();
                }
                black_box(change)
            });
        });
        group.bench_function("private", |bencher| {
            bencher.iter_with_setup(
                || mechanism(function.footprint(Relation::ZeroOut).unwrap(), dimension),
                |mut mechanism| {
                    let mut stream = function.start(1000).unwrap();
                    let (mut change, mut output) = (vec![0.0; dimension], vec![0.0; dimension]);
                    for batch in edges.chunks(PER_STEP) {
                        stream.encode(batch, &mut change).unwrap();
                        mechanism.release(&change, &mut output).unwrap();
                    }
                    black_box(output)
                },
            );
        });
        group.finish();
    }
}

fn projection(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph projection, 100 vertices");
    group.sample_size(10);
    let encoding = CutEncoding::signed(100).unwrap();
    let mut mechanism = mechanism(encoding.footprint(Relation::ZeroOut).unwrap(), encoding.dimension());
    let (mut input, mut output) = (vec![0.0; encoding.dimension()], vec![0.0; encoding.dimension()]);
    encoding.encode(&edges(100)[..200], &mut input).unwrap();
    mechanism.release(&input, &mut output).unwrap();
    group.bench_function("clip", |bencher| {
        bencher.iter(|| clip(encoding.pairs(), black_box(&output)).unwrap());
    });
    group.bench_function("project", |bencher| {
        bencher.iter(|| project(encoding.pairs(), black_box(&output)).unwrap());
    });
    group.finish();
}

criterion_group!(benches, weights, functions, projection);
criterion_main!(benches);
