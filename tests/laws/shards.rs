//! Noise made in parts is the noise of the whole, and single precision does not drift.

use std::ops::Range;

use dp_mechanisms::noise::{Precision, ShardedNoise};
use dp_mechanisms::{
    CorrelatedNoise, Error, GaussianSource, Method, Problem, Seed, Side, Strategy, Workload,
};
use dp_tests::{CASES, largest};
use ndarray::Array2;

/// The strategies with a short memory, which serve vectors of any length.
const SHORT_MEMORY: [&str; 8] =
    ["identity", "output", "binary-tree", "honaker-online", "blt", "scaled-blt", "banded", "banded-inverse"];

fn shard(
    strategy: &dyn Strategy,
    dimension: usize,
    range: Range<usize>,
    precision: Precision,
) -> ShardedNoise {
    ShardedNoise::new(strategy, Seed::reproducible(11), dimension, range, precision).unwrap()
}

fn build(name: &str, steps: usize) -> std::sync::Arc<dyn Strategy> {
    let problem = Problem::new(Workload::count(), steps).unwrap();
    name.parse::<Method>().unwrap().build(&problem).unwrap()
}

#[test]
fn a_shard_is_its_range_of_the_whole() {
    let steps = 9;
    // Rows shorter than a tile, of one tile, and of several; ranges that start and end anywhere, down to one coordinate.
    let shapes: [(usize, &[Range<usize>]); 3] = [
        (37, &[0..1, 5..37, 36..37]),
        (4096, &[0..4095, 4000..4096]),
        (9001, &[0..9001, 1..4097, 4096..8192, 4090..4110, 8192..9001, 8999..9001]),
    ];
    for name in SHORT_MEMORY.into_iter().chain(["sqrt", "honaker-full", "group"]) {
        let strategy = build(name, steps);
        for precision in [Precision::Single, Precision::Double] {
            for (dimension, ranges) in shapes {
                let mut whole = shard(strategy.as_ref(), dimension, 0..dimension, precision);
                let mut parts: Vec<ShardedNoise> = ranges
                    .iter()
                    .map(|range| shard(strategy.as_ref(), dimension, range.clone(), precision))
                    .collect();
                let mut all = vec![0.0_f64; dimension];
                for step in 0..steps {
                    whole.next_into(&mut all).unwrap();
                    for part in &mut parts {
                        let mut some = vec![0.0_f64; part.range().len()];
                        part.next_into(&mut some).unwrap();
                        assert_eq!(
                            some,
                            all[part.range()],
                            "{name}, {precision:?}, step {step}: {:?} of {dimension}",
                            part.range()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn shards_in_double_precision_are_the_correlated_noise() {
    for case in CASES.iter().filter(|case| case.strategy.steps() == 64) {
        for dimension in [50, 4101] {
            let mut sharded = shard(case.strategy.as_ref(), dimension, 0..dimension, Precision::Double);
            let source = Box::new(GaussianSource::new(Seed::reproducible(11), dimension));
            let mut noise =
                CorrelatedNoise::new(case.strategy.as_ref(), dimension, Side::Input, source).unwrap();
            let (mut parts, mut whole) = (vec![0.0_f64; dimension], vec![0.0; dimension]);
            for step in 0..5 {
                sharded.next_into(&mut parts).unwrap();
                noise.next_into(&mut whole).unwrap();
                for (a, b) in parts.iter().zip(&whole) {
                    assert!((a - b).abs() <= 1e-11, "{}, step {step}: {a} {b}", case.context());
                }
            }
        }
    }
}

#[test]
fn all_shards_together_are_the_whole() {
    let strategy = build("blt", 3);
    let dimension = 20_001;
    let mut whole = shard(strategy.as_ref(), dimension, 0..dimension, Precision::Single);
    let mut all = vec![0.0_f32; dimension];
    whole.next_into(&mut all).unwrap();
    for count in [1, 2, 3, 100] {
        let seed = Seed::reproducible(11);
        let shards =
            ShardedNoise::shards(strategy.as_ref(), seed, dimension, count, Precision::Single).unwrap();
        assert_eq!(shards.len(), count.min(5));
        let mut next = 0;
        for mut shard in shards {
            assert_eq!((shard.range().start, shard.dimension()), (next, dimension));
            next = shard.range().end;
            let mut part = vec![1.0_f32; shard.range().len()];
            shard.add_to(2.0, &mut part).unwrap();
            for (added, noise) in part.iter().zip(&all[shard.range()]) {
                // The sum is rounded once; the noise that it is compared with was rounded by itself.
                assert!((added - (1.0 + 2.0 * noise)).abs() <= 4.0 * f32::EPSILON * (1.0 + noise.abs()));
            }
        }
        assert_eq!(next, dimension);
    }
}

/// 2048 steps of 48 coordinates. Every number that is kept is rounded by at most u = 2^-24 of itself, in either direction. If
/// none of it were forgotten, n roundings would add up to about u·√n of the largest value; six times that is what chance
/// leaves possible. A systematic drift would grow like u·n.
#[test]
fn single_precision_does_not_drift() {
    let (steps, dimension) = (2048, 48);
    let bound = 6.0 * (steps as f64).sqrt() * 2.0_f64.powi(-24);
    for name in SHORT_MEMORY {
        let strategy = build(name, steps);
        let made = |precision| {
            let mut noise = shard(strategy.as_ref(), dimension, 0..dimension, precision);
            let mut rows = Array2::<f64>::zeros((steps, dimension));
            for mut row in rows.rows_mut() {
                noise.next_into(row.as_slice_mut().unwrap()).unwrap();
            }
            rows
        };
        let (single, double) = (made(Precision::Single), made(Precision::Double));
        let error = largest(&(&single - &double)) / largest(&double);
        assert!(error <= bound, "{name}: input noise is off by {error:e} of the largest");
        // What the noise adds up to, which is what training sees.
        let summed = |mut rows: Array2<f64>| {
            rows.accumulate_axis_inplace(ndarray::Axis(0), |before, now| *now += before);
            rows
        };
        let (single, double) = (summed(single), summed(double));
        let error = largest(&(&single - &double)) / largest(&double);
        assert!(error <= bound, "{name}: output noise is off by {error:e} of the largest");
    }
}

#[test]
fn wrong_shards_are_refused() {
    let strategy = build("blt", 4);
    let refused = |dimension: usize, range: Range<usize>| {
        ShardedNoise::new(strategy.as_ref(), Seed::reproducible(1), dimension, range, Precision::Single)
    };
    for (dimension, range) in [(0, 0..0), (5, 2..2), (5, 3..6)] {
        assert!(matches!(refused(dimension, range), Err(Error::OutOfRange { .. })));
    }
    let none = ShardedNoise::shards(strategy.as_ref(), Seed::reproducible(1), 5, 0, Precision::Single);
    assert!(matches!(none, Err(Error::OutOfRange { .. })));

    let mut noise = refused(5, 1..4).unwrap();
    assert_eq!(
        noise.next_into(&mut [0.0_f32; 5]),
        Err(Error::Dimension { what: "the vector of a shard", expected: 3, actual: 5 })
    );
    assert!(matches!(noise.add_to(f64::NAN, &mut [0.0_f32; 3]), Err(Error::OutOfRange { .. })));
    assert_eq!(noise.step(), 0);
    noise.skip_to(4).unwrap();
    assert_eq!(noise.next_into(&mut [0.0_f32; 3]), Err(Error::HorizonReached { horizon: 4 }));
    assert_eq!(noise.skip_to(5), Err(Error::HorizonReached { horizon: 4 }));
    assert!(!format!("{noise:?}").contains("state"));

    // A strategy that keeps the whole horizon serves what fits in memory, and says what to use beyond.
    let sqrt = build("sqrt", 2048);
    let outcome =
        ShardedNoise::new(sqrt.as_ref(), Seed::reproducible(1), 1_000_000, 0..1_000_000, Precision::Single);
    assert!(matches!(outcome, Err(Error::NotApplicable { strategy: "sqrt", .. })));
}

#[test]
fn skipping_catches_up_with_the_same_shard() {
    for name in SHORT_MEMORY {
        let strategy = build(name, 20);
        let mut whole = shard(strategy.as_ref(), 5000, 10..4500, Precision::Single);
        let mut resumed = shard(strategy.as_ref(), 5000, 10..4500, Precision::Single);
        let (mut one, mut other) = (vec![0.0_f32; 4490], vec![0.0_f32; 4490]);
        for _ in 0..13 {
            whole.next_into(&mut one).unwrap();
        }
        resumed.skip_to(12).unwrap();
        resumed.next_into(&mut other).unwrap();
        assert_eq!(one, other, "{name}");
    }
}
