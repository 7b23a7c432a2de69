//! What exactness costs: times of exact and idealized releases of the same input in one run, as ratios beside what is wanted.
//!
//! `cargo bench -p dp-benches --bench cost` prints them; every time is the least of a few, taken in turn.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dp_apps::histogram::{Change, Histogram, Rules, Universe};
use dp_apps::{Counts, Encoding};
use dp_mechanisms::strategy::Strategy;
use dp_mechanisms::{
    Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Result, Seed, Workload,
};

const STEPS: usize = 1 << 20;
const DAYS: usize = 730;
const ITEMS: usize = 100_000;
const TIMES: usize = 3;

fn main() {
    let short = std::env::args().any(|word| word == "--test");
    if let Err(error) = report(if short { 1 << 10 } else { STEPS }, if short { 100 } else { ITEMS }) {
        println!("{error}");
        std::process::exit(1);
    }
}

fn report(steps: usize, items: usize) -> std::result::Result<(), Box<dyn std::error::Error>> {
    println!(
        "a count of {steps} events, one at a time; wanted: idealized at most 45 ms, exact at most 6 times that"
    );
    for method in [Method::Blt, Method::ScaledBlt, Method::Sqrt, Method::BinaryTree] {
        let strategy = method.build(&Problem::new(Workload::count(), steps)?)?;
        let plans = [plan(&strategy, false)?, plan(&strategy, true)?];
        let mut least = [Duration::MAX; 2];
        for _ in 0..TIMES {
            for (least, plan) in least.iter_mut().zip(&plans) {
                *least = (*least).min(count(plan, steps)?);
            }
        }
        print_ratio(method.name(), least);
        let last = plans.each_ref().map(|plan| plan.standard_deviation(steps).unwrap_or(f64::NAN));
        let root = plans.each_ref().map(|plan| plan.sigma() * plan.row_norms().mean().sqrt());
        println!(
            "    noise, last: {:.6} and {:.6}; root mean square: {:.6} and {:.6}",
            last[0], last[1], root[0], root[1]
        );
    }
    println!(
        "a histogram of {items} items over {DAYS} steps, the top ten after every step; wanted: exact at most 8 times"
    );
    for method in [Method::Blt, Method::ScaledBlt] {
        let strategy = method.build(&Problem::new(Workload::count(), DAYS)?)?;
        let times = [histogram(&strategy, items, false)?, histogram(&strategy, items, true)?];
        print_ratio(method.name(), times);
    }
    Ok(())
}

fn print_ratio(name: &str, [idealized, exact]: [Duration; 2]) {
    let ratio = exact.as_secs_f64() / idealized.as_secs_f64();
    println!(
        "  {name:12} idealized {:9.1} ms, exact {:9.1} ms: {ratio:.2} times",
        millis(idealized),
        millis(exact)
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn plan(strategy: &Arc<dyn Strategy>, exact: bool) -> Result<Plan> {
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)?;
    let budget = Budget::approximate(1.0, 1e-6)?;
    if exact {
        Plan::exact(strategy, footprint, budget, 1.0)
    } else {
        Plan::idealized(strategy.clone(), footprint, budget)
    }
}

fn count(plan: &Plan, steps: usize) -> Result<Duration> {
    let mut mechanism = Mechanism::new(plan.clone(), Seed::reproducible(1))?;
    let mut output = [0.0];
    let start = Instant::now();
    for step in 0..steps {
        mechanism.release(&[(step % 2) as f64], &mut output)?;
        black_box(output[0]);
    }
    Ok(start.elapsed())
}

fn histogram(strategy: &Arc<dyn Strategy>, items: usize, exact: bool) -> dp_apps::Result<Duration> {
    let universe = Universe::integers(0, items as u64)?;
    let encoding = Histogram::new(universe, Rules::one_item(Relation::ZeroOut))?;
    let (budget, seed) = (Budget::approximate(1.0, 1e-6)?, Seed::reproducible(1));
    let plan =
        if exact { encoding.plan(strategy, budget)? } else { encoding.idealized_plan(strategy, budget)? };
    let mut counts = Counts::new(encoding, plan, seed)?;
    let start = Instant::now();
    for step in 0..DAYS {
        counts.push(&[vec![Change::Insert((step * step % items) as u64)]])?;
        black_box(counts.top(10, 0.05)?);
    }
    Ok(start.elapsed())
}
