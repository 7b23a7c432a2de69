//! What live objects leave behind in memory when they are dropped: nothing of the data, and nothing of the seed.
//!
//! An allocator looks at every block that is given back while somebody watches, and counts those in which a value stands that was
//! chosen to be recognized. It sees copies that a growing vector leaves behind as well. What it cannot see are copies in
//! registers, on the stack and in the inner state of generators.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use dp_ftrl::clip::{ClippedSum, Clipping};
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::shards::NoiseShard;
use dp_mechanisms::{
    Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Seed, Session, Snapshot,
    SparseMechanism, StateFile, Workload,
};

struct Watching;

static WATCHED: AtomicBool = AtomicBool::new(false);
static MARKS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// Counts the block if one of the marks stands in it, at any multiple of eight bytes.
fn look(block: *const u8, size: usize) {
    if !WATCHED.load(Ordering::Relaxed) || !(block as usize).is_multiple_of(8) {
        return;
    }
    let marks = MARKS.each_ref().map(|mark| mark.load(Ordering::Relaxed));
    for index in 0..size / 8 {
        // SAFETY: the block is alive until it is handed to the system, and it has `size` bytes.
        #[allow(unsafe_code)]
        let word = u64::from_ne_bytes(unsafe { block.add(8 * index).cast::<[u8; 8]>().read_volatile() });
        if word != 0 && marks.contains(&word) {
            FOUND.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

// SAFETY: every request is passed on to the system's allocator as it is.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Cleared, so that a block that is given back unused does not show what stood there before.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        look(block, layout.size());
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// A number within 0 and 1 that no computation makes by chance.
const VALUE: f64 = 0.732_498_723_434_987_6;
/// The same in units of 2^-20, as an integer that is on the grid.
const UNITS: f64 = 768_081.0 / 1_048_576.0;

/// How many blocks that are given back while `run` runs, and while what it returns is dropped, show one of these marks.
fn left_behind<T>(marks: [u64; 3], run: impl FnOnce() -> T) -> usize {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    MARKS.iter().zip(marks).for_each(|(mark, value)| mark.store(value, Ordering::Relaxed));
    FOUND.store(0, Ordering::Relaxed);
    WATCHED.store(true, Ordering::Relaxed);
    drop(run());
    WATCHED.store(false, Ordering::Relaxed);
    FOUND.load(Ordering::Relaxed)
}

/// A seed whose bytes can be recognized, and the mark of it.
fn seed() -> (Seed, u64) {
    let bytes: [u8; 32] = std::array::from_fn(|index| 0xa1 ^ (index as u8).wrapping_mul(37));
    (Seed::shared(bytes), u64::from_le_bytes(bytes[..8].try_into().unwrap()))
}

fn plan(name: &str, workload: &str, exact: bool) -> Option<Plan> {
    let workload: Workload = workload.parse().unwrap();
    let strategy = name.parse::<Method>().unwrap().build(&Problem::new(workload, 24).unwrap()).ok()?;
    let footprint = Footprint::vector(0.0, 1.0, 2, Relation::ZeroOut, Participation::Single).unwrap();
    let budget = Budget::zero_concentrated(0.5).unwrap();
    if exact {
        Plan::exact(&strategy, footprint, budget, 1.0 / 1_048_576.0).ok()
    } else {
        Plan::idealized(strategy, footprint, budget).ok()
    }
}

#[test]
fn the_watch_sees_what_is_given_back() {
    let marks = [VALUE.to_bits(), 0, 0];
    assert_eq!(left_behind(marks, || vec![0.0, VALUE]), 1);
    assert_eq!(left_behind(marks, || zeroize::Zeroizing::new(vec![0.0, VALUE])), 0);
    let grown = || {
        let mut values = Vec::with_capacity(1);
        values.extend([VALUE, 1.0, 2.0]);
        values[0] = 0.0;
        values
    };
    assert_eq!(left_behind(marks, grown), 0, "a vector that grows before it holds anything");
    let copied = || {
        let mut values = vec![VALUE];
        values.reserve(100);
        values[0] = 0.0;
        values
    };
    assert_eq!(left_behind(marks, copied), 1, "the copy that a growing vector leaves behind");
}

#[test]
fn mechanisms_leave_neither_inputs_nor_seeds_behind() {
    let mut covered = 0;
    for method in Method::ALL {
        for workload in ["count", "window:5", "average", "exp:1.25", "poly:0.5", "momentum:0.9"] {
            for exact in [false, true] {
                let Some(plan) = plan(method.name(), workload, exact) else { continue };
                let input = if exact { UNITS } else { VALUE };
                let in_units = if exact { (input * 1_048_576.0) as u64 } else { 0 };
                let (_, of_seed) = seed();
                let found = left_behind([input.to_bits(), of_seed, in_units], || {
                    let mut mechanism = Mechanism::new(plan.clone(), seed().0).ok()?;
                    let mut output = [0.0; 2];
                    mechanism.release(&[input, 0.0], &mut output).unwrap();
                    for _ in 0..9 {
                        mechanism.release(&[0.0, input], &mut output).unwrap();
                    }
                    let snapshot = mechanism.snapshot();
                    let read = Snapshot::from_bytes(&snapshot.to_bytes()).unwrap();
                    let mut again = Mechanism::resume(plan.clone(), &read, seed().0).unwrap();
                    again.release(&[input, 0.0], &mut output).unwrap();
                    Some((mechanism, again))
                });
                assert_eq!(found, 0, "{method} {workload}, exact: {exact}");
                covered += 1;
            }
        }
    }
    assert!(covered > 40, "{covered}");
}

#[test]
fn sessions_shards_and_sums_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let marks = [VALUE.to_bits(), seed().1, 0];
    let kept = plan("sqrt", "count", false).unwrap();
    let found = left_behind(marks, || {
        for _ in 0..2 {
            let file = StateFile::open(&directory.path().join("state"), None).unwrap();
            let mut session = Session::open(kept.clone(), seed().0, Some(file)).unwrap();
            for _ in 0..3 {
                session.stage(&[VALUE, VALUE]).unwrap();
            }
            session.commit().unwrap();
            session.acknowledge().unwrap();
            session.stage(&[VALUE, 0.0]).unwrap();
        }
    });
    assert_eq!(found, 0, "a session");

    for workload in [Workload::count(), Workload::window(7).unwrap()] {
        sparse_cells_leave_nothing_behind(&workload);
    }
    let strategy = Method::Blt.build(&Problem::new(Workload::count(), 24).unwrap()).unwrap();
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
    let budget = Budget::zero_concentrated(0.5).unwrap();
    let plan = Plan::idealized(strategy, footprint, budget).unwrap();
    let found = left_behind(marks, || {
        let mut shards = NoiseShard::in_memory(&plan, 64, 1, seed().0).unwrap();
        let mut noisy = [0.0; 64];
        shards[0].release(&[VALUE; 64], &mut noisy).unwrap();
        shards
    });
    assert_eq!(found, 0, "a shard");

    let clipping = Clipping::flat(100.0).unwrap();
    let found = left_behind(marks, || {
        let mut sum = ClippedSum::new(clipping.clone(), 3).unwrap();
        sum.add(&[VALUE, 0.0, VALUE]).unwrap();
        sum
    });
    assert_eq!(found, 0, "a sum of clipped gradients");
}

/// Coordinates that are touched once, again and again, and many in one step, in both arithmetics.
fn sparse_cells_leave_nothing_behind(workload: &Workload) {
    let strategy = Method::Sqrt.build(&Problem::new(workload.clone(), 24).unwrap()).unwrap();
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap().of_dimension(50).unwrap();
    let budget = Budget::zero_concentrated(0.5).unwrap();
    let idealized = Plan::idealized(strategy.clone(), footprint.clone(), budget).unwrap();
    let exact = Plan::exact(&strategy, footprint, budget, 1.0).unwrap();
    // As a count, an integer that nothing else makes.
    for (plan, value) in [(idealized, VALUE), (exact, 768_081.0)] {
        // Not the seed: the generator of a column that was asked for holds it, and is not wiped.
        let marks = [value.to_bits(), 0, if value > 1.0 { value as u64 } else { 0 }];
        let found = left_behind(marks, || {
            let mut mechanism = SparseMechanism::new(plan.clone(), seed().0).unwrap();
            for coordinate in 0..20 {
                mechanism.push(&[(coordinate, value), (7, 0.0), (3, value)]).unwrap();
            }
            // More than a stable sort takes without room of its own.
            let all: [(u64, f64); 45] = std::array::from_fn(|index| (49 - index as u64, value));
            mechanism.push(&all).unwrap();
            mechanism.ask(3).unwrap();
            let saved = mechanism.snapshot();
            let again = SparseMechanism::resume(plan.clone(), &saved, seed().0).unwrap();
            (mechanism, again)
        });
        assert_eq!(found, 0, "a sparse mechanism for {workload} of {value}");
    }
}
