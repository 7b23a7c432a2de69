//! Shards that are kept, continued, damaged and asked twice.

use std::fs;
use std::path::Path;

use super::*;
use crate::sensitivity::Term;
use crate::{Budget, Footprint, Method, Participation, Problem, Relation, Workload};

const STEPS: usize = 11;
/// More than two tiles of noise, and not a multiple of one.
const DIMENSION: usize = 9001;
const RANGES: [Range<usize>; 2] = [0..5000, 5000..DIMENSION];
const SHORT_MEMORY: [&str; 7] =
    ["identity", "binary-tree", "honaker-online", "blt", "scaled-blt", "banded", "banded-inverse"];

fn plan(name: &str) -> Plan {
    let strategy = name.parse::<Method>().unwrap().build(&Problem::new(Workload::count(), STEPS).unwrap());
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
    Plan::idealized(strategy.unwrap(), footprint, Budget::approximate(1.0, 1e-6).unwrap()).unwrap()
}

fn create(place: &Path, plan: &Plan) -> ShardSet {
    ShardSet::create(place, plan, DIMENSION, &RANGES, Seed::reproducible(5)).unwrap()
}

fn sum(range: &Range<usize>, step: usize) -> Vec<f64> {
    range.clone().map(|index| (index * 7 + step * 13) as f64 % 5.0 / 3.0).collect()
}

fn release(shard: &mut NoiseShard) -> Vec<f32> {
    let mut out = vec![0.0; shard.range().len()];
    let step = shard.step();
    assert_eq!(shard.release(&sum(&shard.range(), step), &mut out), Ok(step + 1));
    out
}

/// All releases of a shard of the whole, in one run.
fn uninterrupted(plan: &Plan) -> Vec<Vec<f32>> {
    let mut whole = NoiseShard::in_memory(plan, DIMENSION, 1, Seed::reproducible(5)).unwrap();
    (0..STEPS).map(|_| release(&mut whole[0])).collect()
}

fn reason<T: fmt::Debug>(outcome: Result<T>) -> String {
    match outcome {
        Err(Error::State { reason }) => reason,
        other => format!("not refused for its state: {other:?}"),
    }
}

#[test]
fn the_sum_and_its_noise_are_added_in_double_precision_and_rounded_once() {
    let plan = plan("blt");
    let mut noise = ShardedNoise::new(
        plan.strategy().as_ref(),
        Seed::reproducible(5),
        DIMENSION,
        0..DIMENSION,
        Precision::Single,
    )
    .unwrap();
    let mut row = vec![0.0_f64; DIMENSION];
    for (step, released) in uninterrupted(&plan).iter().enumerate() {
        noise.next_into(&mut row).unwrap();
        for ((out, noise), exact) in released.iter().zip(&row).zip(sum(&(0..DIMENSION), step)) {
            assert_eq!(*out, (exact + plan.sigma() * noise) as f32);
        }
    }
}

/// Stopped at every step, with the next row already made or not: what comes after is what would have come, to the last bit,
/// for every strategy that can be kept.
#[test]
fn a_shard_continues_from_its_checkpoint() {
    for name in SHORT_MEMORY {
        let plan = plan(name);
        let whole = uninterrupted(&plan);
        for prepared in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let place = directory.path().join("set");
            create(&place, &plan);
            for (step, expected) in whole.iter().enumerate() {
                for index in 0..RANGES.len() {
                    let mut shard = ShardSet::open(&place, &plan).unwrap().shard(index).unwrap();
                    assert_eq!((shard.step(), shard.answered()), (step, step), "{name}");
                    assert_eq!(release(&mut shard), expected[shard.range()], "{name}, step {step}");
                    if prepared {
                        shard.prepare();
                    }
                    assert_eq!(shard.checkpoint(), Ok(step + 1));
                }
            }
            let mut shard = ShardSet::open(&place, &plan).unwrap().shard(1).unwrap();
            let over = shard.release(&sum(&RANGES[1], 0), &mut vec![0.0; RANGES[1].len()]);
            assert_eq!(over, Err(Error::HorizonReached { horizon: STEPS }));
        }
    }
}

#[test]
fn a_step_is_answered_again_for_the_same_input_only() {
    let plan = plan("scaled-blt");
    let whole = uninterrupted(&plan);
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("set");
    let set = create(&place, &plan);
    let mut shard = set.shard(0).unwrap();
    for _ in 0..2 {
        release(&mut shard);
    }
    shard.checkpoint().unwrap();
    for _ in 2..5 {
        release(&mut shard);
    }
    // The process dies: the releases of steps 3 to 5 may have been seen.
    drop(shard);
    let mut shard = set.shard(0).unwrap();
    assert_eq!((shard.step(), shard.answered()), (2, 5));
    let mut other = sum(&RANGES[0], 2);
    let last = other.len() - 1;
    other[last] += f64::EPSILON;
    let mut untouched = vec![7.0; RANGES[0].len()];
    let refused = reason(shard.release(&other, &mut untouched));
    assert!(
        refused.contains("step 3 was answered before") && refused.contains("skip to step 5"),
        "{refused}"
    );
    assert!(untouched.iter().all(|value| *value == 7.0) && shard.step() == 2);
    assert_eq!(release(&mut shard), whole[2][RANGES[0].clone()], "the same input has the same answer");
    // Whoever cannot repeat the inputs gives the lost steps up.
    shard.skip_to(5).unwrap();
    assert!(reason(shard.skip_to(4)).contains("cannot go back"));
    assert_eq!(release(&mut shard), whole[5][RANGES[0].clone()]);
    assert!(shard.skip_to(STEPS + 1).is_err());
    drop(shard);
    // Without its checkpoint a shard starts again, and the record still protects every step.
    fs::remove_file(place.join("shard-0.state")).unwrap();
    let mut shard = set.shard(0).unwrap();
    assert_eq!((shard.step(), shard.answered()), (0, 6));
    assert!(shard.release(&other, &mut untouched).is_err());
    assert_eq!(release(&mut shard), whole[0][RANGES[0].clone()]);
    // A step that was skipped in all lives cannot be noted any more.
    shard.skip_to(8).unwrap();
    release(&mut shard);
    drop(shard);
    let mut shard = set.shard(0).unwrap();
    shard.skip_to(6).unwrap();
    let skipped = reason(shard.release(&sum(&RANGES[0], 6), &mut untouched));
    assert!(skipped.contains("was skipped before"), "{skipped}");
}

#[test]
fn shards_cover_every_coordinate_once() {
    let plan = plan("blt");
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("set");
    // A single range is a list of one here.
    #[allow(clippy::single_range_in_vec_init)]
    for ranges in [
        &[0..10, 9..20][..],
        &[0..10, 11..20],
        &[1..20],
        &[0..19],
        &[0..21],
        &[0..10, 10..10, 10..20],
        &[10..20, 0..10],
        &[],
    ] {
        let refused = ShardSet::create(&place, &plan, 20, ranges, Seed::reproducible(1));
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{ranges:?}");
        assert!(!place.exists(), "nothing was made");
    }
    let set = create(&place, &plan);
    assert_eq!((set.ranges(), set.dimension()), (&RANGES[..], DIMENSION));
    assert!(matches!(set.shard(2), Err(Error::OutOfRange { .. })));
    let again = ShardSet::create(&place, &plan, DIMENSION, &RANGES, Seed::reproducible(5));
    assert!(again.is_err(), "a set is made once");
    let held = set.shard(0).unwrap();
    assert!(reason(set.shard(0)).contains("another process"), "one live copy of a shard");
    assert!(set.shard(1).is_ok());
    drop(held);
    assert!(set.shard(0).is_ok());
    // In memory, too: nobody else holds the seed.
    let shards = NoiseShard::in_memory(&plan, DIMENSION, 3, Seed::reproducible(1)).unwrap();
    let covered: Vec<usize> = shards.iter().flat_map(NoiseShard::range).collect();
    assert_eq!(covered, (0..DIMENSION).collect::<Vec<_>>());
}

#[test]
fn files_of_another_plan_shard_or_key_and_damaged_ones_are_refused() {
    let make = plan("blt");
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("set");
    let set = create(&place, &make);
    for index in 0..2 {
        let mut shard = set.shard(index).unwrap();
        release(&mut shard);
        shard.checkpoint().unwrap();
    }
    assert!(reason(ShardSet::open(&place, &plan("banded"))).contains("another plan"));
    assert!(ShardSet::open(&directory.path().join("nowhere"), &make).is_err());
    let state = |index: usize| place.join(format!("shard-{index}.state"));
    let (first, second) = (fs::read(state(0)).unwrap(), fs::read(state(1)).unwrap());
    fs::write(state(0), &second).unwrap();
    assert!(reason(set.shard(0)).contains("another shard"));
    // Every byte of the header, the ends of chunks, and some between.
    let places: Vec<usize> =
        (0..60).chain((60..first.len()).step_by(9973)).chain([first.len() - 1, first.len() - 17]).collect();
    for position in places {
        let mut damaged = first.clone();
        damaged[position] ^= 4;
        fs::write(state(0), &damaged).unwrap();
        assert!(set.shard(0).is_err(), "byte {position}");
    }
    for length in [0, 10, 57, 1000, first.len() - 1] {
        fs::write(state(0), &first[..length]).unwrap();
        assert!(reason(set.shard(0)).contains("truncated"), "{length}");
    }
    fs::write(state(0), [&first[..], &[0]].concat()).unwrap();
    assert!(reason(set.shard(0)).contains("follows its end"));
    fs::write(state(0), &first).unwrap();
    assert_eq!(set.shard(0).unwrap().step(), 1);
    // The record: torn by a crash, damaged, gone.
    let record = place.join("shard-0.record");
    let noted = fs::read(&record).unwrap();
    fs::write(&record, [&noted[..], &[9; 5]].concat()).unwrap();
    assert_eq!(set.shard(0).unwrap().answered(), 1);
    assert_eq!(fs::read(&record).unwrap(), noted);
    fs::write(&record, [&noted[..], &noted].concat()).unwrap();
    assert!(reason(set.shard(0)).contains("not in order"));
    fs::remove_file(&record).unwrap();
    assert!(
        reason(set.shard(0)).contains("record of the steps"),
        "whoever lost it cannot know what was seen"
    );
    // Nothing secret stands in the manifest as it is.
    let manifest = fs::read(place.join("manifest")).unwrap();
    let mut broken = manifest.clone();
    *broken.last_mut().unwrap() ^= 1;
    fs::write(place.join("manifest"), broken).unwrap();
    assert!(reason(ShardSet::open(&place, &make)).contains("damaged"));
    assert!(!format!("{set:?}").contains("seed"));
}

#[test]
fn noise_made_ahead_is_the_noise_made_in_time() {
    let plan = plan("blt");
    let whole = uninterrupted(&plan);
    // A single thread that waits must do the work itself; outside of a pool the global one does it.
    for threads in [None, Some(1), Some(3)] {
        let run = || {
            let mut shards = NoiseShard::in_memory(&plan, DIMENSION, 1, Seed::reproducible(5)).unwrap();
            (0..STEPS)
                .map(|_| {
                    shards[0].prepare();
                    shards[0].prepare();
                    release(&mut shards[0])
                })
                .collect::<Vec<_>>()
        };
        let made = match threads {
            None => run(),
            Some(threads) => {
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
            }
        };
        assert_eq!(made, whole, "{threads:?}");
    }
}

#[test]
fn refusals_leave_the_shard_as_it_was() {
    let plan = plan("blt");
    let whole = uninterrupted(&plan);
    let mut shards = NoiseShard::in_memory(&plan, DIMENSION, 1, Seed::reproducible(5)).unwrap();
    let shard = &mut shards[0];
    let mut out = vec![7.0; DIMENSION];
    let mut bad = vec![0.0; DIMENSION];
    bad[4711] = f64::NAN;
    let refused = shard.release(&bad, &mut out);
    assert!(matches!(refused, Err(Error::NonFiniteInput { step: 1, index: 4711, .. })), "{refused:?}");
    assert!(shard.release(&bad[1..], &mut out).is_err());
    assert!(shard.release(&vec![0.0; DIMENSION], &mut out[1..]).is_err());
    assert!(reason(shard.checkpoint()).contains("not kept"));
    assert!(out.iter().all(|value| *value == 7.0));
    assert_eq!(release(shard), whole[0]);
}

#[test]
fn noise_that_cannot_fit_in_memory_or_be_kept_is_refused_with_its_size() {
    // Twelve buffers at most, of 10^15 coordinates in four bytes each: more than any machine has.
    let refused = NoiseShard::in_memory(&plan("blt"), 1_000_000_000_000_000, 1, Seed::reproducible(1));
    let Err(Error::OutOfRange { what, value, .. }) = refused else { unreachable!("accepted") };
    assert!(what.contains("bytes") && value >= 4e15, "{what} {value}");
    let directory = tempfile::tempdir().unwrap();
    for name in ["sqrt", "output"] {
        let plan = plan(name);
        let set = create(&directory.path().join(name), &plan);
        assert!(matches!(set.shard(0), Err(Error::NotApplicable { .. })), "{name}");
    }
}

#[test]
fn in_place_is_the_same_release_in_either_precision() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["blt", "sqrt"] {
        let plan = plan(name);
        let all = || NoiseShard::in_memory(&plan, DIMENSION, 1, Seed::reproducible(5)).unwrap().remove(0);
        let (mut apart, mut single, mut double) = (all(), all(), all());
        for step in 1..=STEPS {
            // Sums that single precision holds.
            let sum: Vec<f64> =
                sum(&(0..DIMENSION), step).iter().map(|value| f64::from(*value as f32)).collect();
            let mut out = vec![0.0_f32; DIMENSION];
            apart.release(&sum, &mut out).unwrap();
            let mut values: Vec<f32> = sum.iter().map(|value| *value as f32).collect();
            assert_eq!(single.release_in_place(&mut values), Ok(step));
            assert_eq!(values, out, "{name}");
            let mut values = sum.clone();
            assert_eq!(double.release_in_place(&mut values), Ok(step));
            assert!(values.iter().zip(&out).all(|(double, single)| *double as f32 == *single), "{name}");
            assert!(values.iter().any(|value| f64::from(*value as f32) != *value), "not rounded");
        }
        assert!(matches!(
            single.release_in_place(&mut vec![0.0_f32; DIMENSION]),
            Err(Error::HorizonReached { .. })
        ));
    }
    // A kept shard remembers what it answered in place as well, and refused values stay as they are.
    let plan = plan("blt");
    let set = ShardSet::create(
        &directory.path().join("set"),
        &plan,
        40,
        std::slice::from_ref(&(0..40)),
        Seed::reproducible(5),
    )
    .unwrap();
    let mut shard = set.shard(0).unwrap();
    let mut values = [f32::NAN; 40];
    assert!(matches!(shard.release_in_place(&mut values), Err(Error::NonFiniteInput { index: 0, .. })));
    assert!(values.iter().all(|value| value.is_nan()));
    assert!(matches!(shard.release_in_place(&mut [0.0_f64; 39]), Err(Error::Dimension { .. })));
    let mut first = [0.5_f32; 40];
    shard.release_in_place(&mut first).unwrap();
    drop(shard);
    let mut shard = set.shard(0).unwrap();
    let mut other = [0.25_f32; 40];
    assert!(reason(shard.release_in_place(&mut other)).contains("for another input"));
    assert_eq!(other, [0.25; 40]);
    let mut again = [0.5_f32; 40];
    shard.release_in_place(&mut again).unwrap();
    assert_eq!(again, first);
}

/// A set that was made with two threads is opened with one, by a plan that is made anew there: at 365 steps, where bands are fitted
/// by products that are shared among threads.
#[test]
fn a_set_is_opened_with_another_number_of_threads() {
    let with = |threads: usize, run: &(dyn Fn(Plan) + Sync)| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| {
            let problem = Problem::new(Workload::count(), 365).unwrap();
            let term = Term { weight: 1.0, participation: Participation::Single };
            let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
            let strategy = Method::Banded.build(&problem).unwrap();
            run(Plan::idealized(strategy, footprint, Budget::approximate(1.0, 1e-6).unwrap()).unwrap());
        });
    };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("set");
    let released = std::sync::Mutex::new(Vec::new());
    with(2, &|plan| {
        let mut shard = create(&place, &plan).shard(0).unwrap();
        let first = release(&mut shard);
        shard.checkpoint().unwrap();
        released.lock().unwrap().extend([first, release(&mut shard)]);
    });
    with(1, &|plan| {
        let mut shard = ShardSet::open(&place, &plan).unwrap().shard(0).unwrap();
        assert_eq!(shard.step(), 1);
        assert_eq!(release(&mut shard), released.lock().unwrap()[1]);
    });
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    /// Whatever stands in the files of a set: no panic, and what can be opened answers as before.
    #[test]
    fn any_bytes_in_the_files_of_a_set_are_read_or_refused(
        file in proptest::sample::select(vec!["manifest", "key", "shard-0.state", "shard-0.record"]),
        flips in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 1_u8..), 0..4),
        length in proptest::option::of(0.0..2.0_f64),
    ) {
        let plan = plan("blt");
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("set");
        let ranges = std::slice::from_ref(&(0..40));
        let open = |place: &Path| ShardSet::open(place, &plan).and_then(|set| set.shard(0));
        let input: Vec<f64> = (0..40).map(f64::from).collect();
        let mut shard =
            ShardSet::create(&place, &plan, 40, ranges, Seed::reproducible(5)).unwrap().shard(0).unwrap();
        let mut releases = [[0.0; 40], [0.0; 40]];
        shard.release(&input, &mut releases[0]).unwrap();
        shard.checkpoint().unwrap();
        shard.release(&input, &mut releases[1]).unwrap();
        drop(shard);
        let mut bytes = fs::read(place.join(file)).unwrap();
        for (index, flip) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= flip;
        }
        if let Some(length) = length {
            bytes.resize((bytes.len() as f64 * length) as usize, 7);
        }
        fs::write(place.join(file), &bytes).unwrap();
        if let Ok(mut shard) = open(&place) {
            let mut out = [0.0; 40];
            // A record that lost its last entry cannot know that it was there.
            if shard.release(&input, &mut out).is_ok() {
                proptest::prop_assert_eq!(out, releases[1]);
            }
        }
    }
}
