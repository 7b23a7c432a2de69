//! Shards of a large model: together they are the one mechanism, however the model is cut.

use dp_ftrl::{Clipping, Error, GradientShard, PrivateGradients, gradients};
use dp_mechanisms::{Budget, Method, Participation, Plan, Problem, Relation, Seed, Workload};

const STEPS: usize = 9;
/// More than two tiles of noise, and not a multiple of one.
const DIMENSION: usize = 9001;
const SECRET: [u8; 32] = [11; 32];

fn plan(name: &str) -> Plan {
    let strategy =
        name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), STEPS).unwrap()).unwrap();
    let budget = Budget::approximate(1.0, 1e-6).unwrap();
    let clipping = Clipping::flat(1.0).unwrap();
    gradients::plan(strategy, &clipping, Relation::ZeroOut, Participation::Single, budget).unwrap()
}

fn shard(name: &str, range: std::ops::Range<usize>) -> GradientShard {
    GradientShard::new(plan(name), Seed::shared(SECRET), DIMENSION, range).unwrap()
}

#[test]
fn any_cut_of_the_model_gets_the_same_noise_to_the_last_bit() {
    for name in
        ["identity", "binary-tree", "honaker-online", "blt", "scaled-blt", "banded", "banded-inverse", "sqrt"]
    {
        let mut whole = shard(name, 0..DIMENSION);
        let cuts = [0, 1, 4096, 5000, DIMENSION];
        let mut parts: Vec<GradientShard> =
            cuts.windows(2).map(|pair| shard(name, pair[0]..pair[1])).collect();
        for step in 1..=STEPS {
            let mut expected = vec![0.25_f32; DIMENSION];
            assert_eq!(whole.finish(&mut expected).unwrap().step, step);
            for part in &mut parts {
                let mut sum = vec![0.25_f32; part.range().len()];
                part.finish(&mut sum).unwrap();
                assert_eq!(sum, expected[part.range()], "{name}, step {step}, {:?}", part.range());
            }
        }
        let mut late = shard(name, 4096..5000);
        late.skip_to(STEPS - 1).unwrap();
        let mut sum = vec![0.25_f32; 904];
        late.finish(&mut sum).unwrap();
        let mut again = shard(name, 0..DIMENSION);
        again.skip_to(STEPS - 1).unwrap();
        let mut expected = vec![0.25_f32; DIMENSION];
        again.finish(&mut expected).unwrap();
        assert_eq!(sum, expected[4096..5000], "{name}, after an interruption");
    }
}

#[test]
fn single_precision_releases_what_double_precision_does() {
    for name in ["binary-tree", "blt", "scaled-blt", "banded"] {
        let mut shard = shard(name, 0..DIMENSION);
        let strategy = plan(name).strategy().clone();
        let mut whole = PrivateGradients::new(
            strategy,
            Clipping::flat(1.0).unwrap(),
            DIMENSION,
            Relation::ZeroOut,
            Participation::Single,
            Budget::approximate(1.0, 1e-6).unwrap(),
            Seed::shared(SECRET),
        )
        .unwrap();
        let sigma = whole.noise_standard_deviation();
        let mut double = vec![0.0; DIMENSION];
        for _ in 0..STEPS {
            let mut single = vec![0.0_f32; DIMENSION];
            assert_eq!(shard.finish(&mut single).unwrap(), whole.finish(&mut double).unwrap());
            for (one, other) in single.iter().zip(&double) {
                // Nine steps of state, each rounded by 2^-24, of values that stay below 8σ.
                assert!((f64::from(*one) - other).abs() < 64.0 * sigma * 2.0_f64.powi(-24) * 9.0, "{name}");
            }
        }
    }
}

#[test]
fn refusals_leave_sum_and_noise_as_they_were() {
    let mut touched = shard("blt", 0..10);
    let mut untouched = shard("blt", 0..10);
    let mut bad = vec![1.0_f32; 10];
    bad[3] = f32::NAN;
    assert!(matches!(touched.finish(&mut bad), Err(Error::NonFinite { index: 3, .. })));
    assert_eq!(bad[2], 1.0);
    assert!(matches!(touched.finish(&mut [0.0; 9]), Err(Error::Dimension { expected: 10, actual: 9, .. })));
    for _ in 0..STEPS {
        let (mut one, mut other) = ([0.5_f32; 10], [0.5_f32; 10]);
        touched.finish(&mut one).unwrap();
        untouched.finish(&mut other).unwrap();
        assert_eq!(one, other);
    }
    assert!(touched.finish(&mut [0.0; 10]).is_err(), "the horizon is over");
    let refused = GradientShard::new(plan("blt"), Seed::shared(SECRET), 10, 4..12);
    assert!(refused.is_err(), "past the end of the model");
    assert!(!format!("{touched:?}").contains("11"), "the secret is not printed");
}

#[test]
fn a_norm_taken_down_for_rounding_is_kept_after_it() {
    // Vectors of norm exactly κ·ROUNDING, rounded to single precision, in exact arithmetic on their squares.
    let kappa = 0.7;
    for seed in 1..200_u32 {
        let direction: Vec<f64> =
            (1..40).map(|i| f64::from((seed * 7919 + i * 104_729) % 1009) - 500.0).collect();
        let norm = direction.iter().map(|value| value * value).sum::<f64>().sqrt();
        let rounded = direction.iter().map(|value| (value / norm * kappa * GradientShard::ROUNDING) as f32);
        let after = rounded.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        assert!(after <= kappa, "{seed}: {after}");
    }
}
