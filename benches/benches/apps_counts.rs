//! Events per second of the counting applications, beside the same counts without privacy.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use dp_apps::episodes::Episodes;
use dp_apps::histogram::{Change, Histogram, Rules, Universe};
use dp_apps::substrings::Substrings;
use dp_apps::substrings::dictionary::Dictionary;
use dp_apps::{Counts, Encoding};
use dp_mechanisms::{Budget, Problem, Relation, Seed, Workload, planner};

const STEPS: usize = 4096;

fn letters() -> Vec<Option<char>> {
    let mut state = 7_u64;
    (0..STEPS)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some(['a', 'b', 'c', 'd'][(state >> 60) as usize % 4])
        })
        .collect()
}

/// A whole stream: exact counts alone, private counts with ten coordinates answered every 64 steps, and with ten
/// answered after every step.
fn stream<E: Encoding + Clone>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    encoding: &E,
    events: &[&E::Event],
) {
    let footprint = encoding.footprint().expect("the encoding has a footprint");
    let problem = Problem::new(Workload::count(), STEPS).expect("some steps");
    // What the command line chooses as well.
    let strategy = planner::best(&problem, &footprint, encoding.dimension()).expect("some strategy applies");
    let budget = Budget::approximate(1.0, 1e-6).expect("the budget is valid");
    group.throughput(Throughput::Elements(events.len() as u64));
    group.bench_function(format!("{name}, not private"), |bencher| {
        bencher.iter_batched(
            || encoding.clone(),
            |mut encoding| {
                let mut counts: HashMap<u64, f64> = HashMap::new();
                let mut changes = Vec::new();
                for event in events {
                    changes.clear();
                    encoding.encode(event, &mut changes).expect("the event is valid");
                    for (coordinate, amount) in &changes {
                        *counts.entry(*coordinate).or_default() += amount;
                    }
                }
                black_box(counts.len())
            },
            BatchSize::LargeInput,
        );
    });
    let plan = encoding.plan(&strategy, budget).expect("the plan is valid");
    for every in [64, 1] {
        group.bench_function(format!("{name}, ten answers every {every}"), |bencher| {
            bencher.iter_batched(
                || {
                    Counts::new(encoding.clone(), plan.clone(), Seed::reproducible(1))
                        .expect("the plan is valid")
                },
                |mut counts| {
                    let mut sum = 0.0;
                    for event in events {
                        let step = counts.push(event).expect("the event is valid");
                        if step % every == 0 {
                            for coordinate in 0..10 {
                                sum += counts.ask(coordinate).expect("the coordinate exists").value;
                            }
                        }
                    }
                    black_box(sum)
                },
                BatchSize::LargeInput,
            );
        });
    }
}

fn counts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("apps_counts");
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1)).sample_size(10);

    let universe = Universe::integers(0, 1_000_000).expect("the universe is valid");
    let histogram =
        Histogram::new(universe, Rules::one_item(Relation::ZeroOut)).expect("the rules are valid");
    let items: Vec<Vec<Vec<Change<u64>>>> =
        (0..STEPS as u64).map(|step| vec![vec![Change::Insert(step * step * 7919 % 1_000_000)]]).collect();
    let events: Vec<&[Vec<Change<u64>>]> = items.iter().map(Vec::as_slice).collect();
    stream(&mut group, "histogram of a million items", &histogram, &events);

    let text = letters();
    let events: Vec<&Option<char>> = text.iter().collect();
    let substrings = Substrings::new("abcd".chars(), 5, Relation::Replace).expect("the alphabet is valid");
    stream(&mut group, "substrings up to 5", &substrings, &events);
    let words = ["abc", "abab", "dd", "cdab", "bad", "cab", "dad", "add", "a", "bcd"].map(String::from);
    let dictionary = Dictionary::new(words, Relation::Replace).expect("the words are valid");
    stream(&mut group, "dictionary of 10", &dictionary, &events);
    let episodes = Episodes::all("abcd".chars(), 3, Relation::Replace).expect("the alphabet is valid");
    stream(&mut group, "episodes up to 3", &episodes, &events);
    group.finish();
}

criterion_group!(benches, counts);
criterion_main!(benches);
