//! Shards of a large model: together they are the one mechanism, however the model is cut, and nothing unclipped enters.

use dp_ftrl::shard::{MeasuredPart, PartNorms, Shortening};
use dp_ftrl::{Clipping, Error, GradientShard, PrivateGradients, gradients};
use dp_mechanisms::shards::{NoiseShard, ShardSet};
use dp_mechanisms::{Budget, Method, Participation, Plan, Problem, Relation, Seed, Workload};

const STEPS: usize = 9;
/// More than two tiles of noise, and not a multiple of one.
const DIMENSION: usize = 9001;

fn clippings() -> [Clipping; 2] {
    [Clipping::flat(0.75).unwrap(), Clipping::per_layer(&[1, 4999, 4001], &[0.5, 0.3, 1.5]).unwrap()]
}

fn plan(name: &str, clipping: &Clipping) -> Plan {
    let strategy =
        name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), STEPS).unwrap()).unwrap();
    let budget = Budget::approximate(1.0, 1e-6).unwrap();
    gradients::plan(strategy, clipping, Relation::ZeroOut, Participation::Single, budget).unwrap()
}

fn shards(name: &str, clipping: &Clipping, count: usize) -> Vec<GradientShard> {
    NoiseShard::in_memory(&plan(name, clipping), DIMENSION, count, Seed::reproducible(11))
        .unwrap()
        .into_iter()
        .map(|noise| GradientShard::new(noise, clipping.clone()).unwrap())
        .collect()
}

/// The gradient of a person in a step: of all sizes, from far below the clipping norm to far above.
fn gradient(person: usize, step: usize) -> Vec<f32> {
    let scale = 10.0_f32.powf(((person * 3 + step) % 7) as f32 - 4.0);
    (0..DIMENSION).map(|i| scale * (((i * 31 + person * 17 + step * 7) % 101) as f32 - 50.0)).collect()
}

/// Both phases of clipping for one person.
fn add(shards: &mut [GradientShard], clipping: &Clipping, gradient: &[f32]) {
    let norms: Vec<PartNorms> =
        shards.iter().map(|shard| shard.measure(&gradient[shard.range()]).unwrap()).collect();
    let shortening = Shortening::of(clipping, gradient.len(), norms.clone()).unwrap();
    for (shard, norms) in shards.iter_mut().zip(&norms) {
        shard.add(MeasuredPart::new(&gradient[shard.range()], norms), &shortening).unwrap();
    }
}

fn finish(shards: &mut [GradientShard]) -> Vec<f32> {
    let mut out = vec![0.0; DIMENSION];
    for shard in shards {
        shard.finish(&mut out[shard.range()]).unwrap();
    }
    out
}

/// However the model is cut, all releases differ by no more than the order in which norms are added up, a few units in the
/// last place of double precision, and so by at most one of single precision.
#[test]
fn any_cut_of_the_model_gets_the_same_releases() {
    for name in
        ["identity", "binary-tree", "honaker-online", "blt", "scaled-blt", "banded", "banded-inverse", "sqrt"]
    {
        for clipping in clippings() {
            let mut whole = shards(name, &clipping, 1);
            let mut parts = shards(name, &clipping, 3);
            assert_eq!((whole.len(), parts.len()), (1, 3));
            for step in 1..=STEPS {
                for person in 0..3 {
                    add(&mut whole, &clipping, &gradient(person, step));
                    add(&mut parts, &clipping, &gradient(person, step));
                }
                for (one, other) in finish(&mut whole).iter().zip(finish(&mut parts)) {
                    assert!(
                        (one - other).abs() <= f32::EPSILON * one.abs(),
                        "{name} at {step}: {one} {other}"
                    );
                }
            }
        }
    }
}

/// Beside the gradients in double precision on one machine, with the same seed: nine steps of a filter's state, each rounded
/// by 2^-24, of values that stay below 8σ, and one rounding of the result.
#[test]
fn shards_release_what_private_gradients_do() {
    for name in ["binary-tree", "blt", "scaled-blt", "banded"] {
        for clipping in clippings() {
            let strategy = plan(name, &clipping).strategy().clone();
            let mut whole = PrivateGradients::new(
                strategy,
                clipping.clone(),
                DIMENSION,
                Relation::ZeroOut,
                Participation::Single,
                Budget::approximate(1.0, 1e-6).unwrap(),
                Seed::reproducible(11),
            )
            .unwrap();
            let sigma = whole.noise_standard_deviation();
            let mut parts = shards(name, &clipping, 2);
            let mut double = vec![0.0; DIMENSION];
            for step in 1..=STEPS {
                for person in 0..2 {
                    let gradient = gradient(person, step);
                    add(&mut parts, &clipping, &gradient);
                    let gradient: Vec<f64> = gradient.iter().map(|value| f64::from(*value)).collect();
                    whole.add(&gradient).unwrap();
                }
                whole.finish(&mut double).unwrap();
                for (one, other) in finish(&mut parts).iter().zip(&double) {
                    let error = (f64::from(*one) - other).abs();
                    assert!(error < 64.0 * sigma * 2.0_f64.powi(-24) * 9.0, "{name}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn a_part_that_was_not_measured_with_all_others_does_not_enter() {
    for clipping in clippings() {
        let mut shards = shards("blt", &clipping, 3);
        let (one, other) = (gradient(1, 1), gradient(2, 1));
        let measure = |shards: &[GradientShard], gradient: &[f32]| -> Vec<PartNorms> {
            shards.iter().map(|shard| shard.measure(&gradient[shard.range()]).unwrap()).collect()
        };
        let norms = measure(&shards, &one);
        let shortening = Shortening::of(&clipping, DIMENSION, norms.clone()).unwrap();
        let refused =
            |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::Parts { .. })), "{outcome:?}");
        let range = shards[0].range();
        // Another gradient under the norms of this one; another's norms; another shard's part.
        refused(shards[0].add(MeasuredPart::new(&other[range.clone()], &norms[0]), &shortening));
        let others = measure(&shards, &other);
        refused(shards[0].add(MeasuredPart::new(&other[range.clone()], &others[0]), &shortening));
        refused(shards[0].add(MeasuredPart::new(&one[range.clone()], &norms[1]), &shortening));
        assert_eq!(shards[0].added(), 0);
        // Parts that are missing, there twice, or of another rule.
        let incomplete = |parts: Vec<PartNorms>| {
            let outcome = Shortening::of(&clipping, DIMENSION, parts);
            assert!(matches!(outcome, Err(Error::Parts { .. })), "{outcome:?}");
        };
        incomplete(norms[..2].to_vec());
        incomplete(norms[1..].to_vec());
        incomplete(vec![norms[0].clone(), norms[2].clone()]);
        incomplete(vec![norms[0].clone(), norms[0].clone(), norms[1].clone(), norms[2].clone()]);
        incomplete(Vec::new());
        // The order in which they arrive does not matter.
        let reversed = Shortening::of(&clipping, DIMENSION, norms.iter().rev().cloned().collect()).unwrap();
        assert_eq!(reversed, shortening);
        let mut bad = one.clone();
        bad[5] = f32::NAN;
        assert!(matches!(shards[0].measure(&bad[range.clone()]), Err(Error::NonFinite { index: 5, .. })));
        assert!(matches!(shards[0].measure(&bad[..7]), Err(Error::Dimension { .. })));
        shards[0].add(MeasuredPart::new(&one[range], &norms[0]), &shortening).unwrap();
        // A batch that is not finished is neither skipped nor saved.
        assert!(matches!(shards[0].skip_to(1), Err(Error::UnfinishedBatch { added: 1 })));
        assert!(matches!(shards[0].checkpoint(), Err(Error::UnfinishedBatch { added: 1 })));
        shards[0].clear();
        shards[0].skip_to(1).unwrap();
        assert_eq!(shards[0].step(), 1);
    }
    let [flat, layers] = clippings();
    let noise =
        NoiseShard::in_memory(&plan("blt", &flat), DIMENSION, 1, Seed::reproducible(1)).unwrap().remove(0);
    assert!(matches!(GradientShard::new(noise, layers.clone()), Err(Error::Clipping { .. })));
    let short =
        NoiseShard::in_memory(&plan("blt", &layers), 100, 1, Seed::reproducible(1)).unwrap().remove(0);
    assert!(matches!(GradientShard::new(short, layers), Err(Error::Dimension { .. })));
}

#[test]
fn a_killed_set_of_shards_continues_to_the_same_releases() {
    let clipping = Clipping::flat(1.0).unwrap();
    let plan = plan("scaled-blt", &clipping);
    let mut whole = shards("scaled-blt", &clipping, 2);
    let batch = |shards: &mut [GradientShard], step: usize| {
        for person in 0..2 {
            add(shards, &clipping, &gradient(person, step));
        }
        finish(shards)
    };
    let expected: Vec<Vec<f32>> = (1..=STEPS).map(|step| batch(&mut whole, step)).collect();
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("set");
    let ranges: Vec<_> = whole.iter().map(GradientShard::range).collect();
    ShardSet::create(&place, &plan, DIMENSION, &ranges, Seed::reproducible(11)).unwrap();
    let open = || -> Vec<GradientShard> {
        let set = ShardSet::open(&place, &plan).unwrap();
        (0..2).map(|index| GradientShard::new(set.shard(index).unwrap(), clipping.clone()).unwrap()).collect()
    };
    // Each life takes three steps, saves both shards after the first and only one of them after the second, and dies.
    let mut model = 0;
    while model < STEPS {
        let mut shards = open();
        // The model was saved before the first checkpoint; the shards are brought to its step.
        for shard in &mut shards {
            shard.skip_to(model).unwrap();
        }
        let saved = (model + 1).min(STEPS);
        for step in model + 1..=(model + 3).min(STEPS) {
            assert_eq!(batch(&mut shards, step), expected[step - 1], "step {step}");
            shards[0].prepare();
            if step == saved {
                assert_eq!(shards[0].checkpoint(), Ok(step));
                // The second shard's checkpoint is lost every other time: it stays further behind.
                if step % 2 == 0 {
                    shards[1].checkpoint().unwrap();
                }
            }
        }
        model = saved;
    }
    let mut shards = open();
    assert!(shards.iter_mut().all(|shard| shard.skip_to(STEPS).is_ok() && shard.answered() == STEPS));
}
