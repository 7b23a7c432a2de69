//! The work whose growth is measured.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dp_benches::growth::{Cost, Quantity};
use dp_benches::peak_bytes;
use dp_mechanisms::{
    Budget, CorrelatedNoise, Footprint, GaussianSource, Mechanism, Method, Participation, Plan, Problem,
    Relation, Seed, Side, Workload,
};
use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) quantity: Quantity,
    pub(crate) strategy: String,
    pub(crate) size: usize,
}

/// The horizon of the steps in d coordinates. At a million coordinates its noise is far too much to make at once.
const HORIZON: usize = 2048;

/// The strategies whose memory does not grow with the horizon, or only with its logarithm.
const STREAMED: [Method; 5] =
    [Method::Identity, Method::BinaryTree, Method::HonakerOnline, Method::Blt, Method::ScaledBlt];

/// What is measured, by quantity, strategy and sizes.
pub(crate) fn plans(quick: bool) -> Vec<(Quantity, Method, Vec<usize>)> {
    let powers = |from: u32, to: u32, step: usize| -> Vec<usize> {
        (from..=to).step_by(step).map(|exponent| 1 << exponent).collect()
    };
    let tens = |to: u32| -> Vec<usize> { (0..=to).map(|exponent| 10_usize.pow(exponent)).collect() };
    let (longest, widest) = if quick { (16, 4) } else { (24, 7) };
    let mut plans = Vec::new();
    for method in [
        Method::Sqrt,
        Method::ScaledBlt,
        Method::Blt,
        Method::ScaledSqrt,
        Method::HonakerOnline,
        Method::BinaryTree,
    ] {
        // What the planner itself would refuse to try is not offered at that size either.
        let fits = |size: &usize| *size <= method.practical_limit(Participation::Single);
        let sizes: Vec<usize> = powers(10, longest, 2).into_iter().filter(fits).collect();
        for quantity in [Quantity::Planning, Quantity::Noise, Quantity::Release] {
            plans.push((quantity, method, sizes.clone()));
        }
    }
    for method in STREAMED {
        plans.push((Quantity::NoiseStep, method, tens(widest)));
        plans.push((Quantity::ReleaseStep, method, tens(widest)));
    }
    plans.sort_by_key(|(quantity, _, _)| *quantity as usize);
    plans
}

/// Measures a task in this process.
pub(crate) fn measure(task: &Task) -> Result<Cost> {
    let steps = match task.quantity {
        Quantity::Planning | Quantity::Noise | Quantity::Release => task.size,
        Quantity::NoiseStep | Quantity::ReleaseStep => HORIZON,
    };
    let count = Workload::count();
    let plan = || -> Result<Plan> {
        let strategy = task.strategy.parse::<Method>()?.build(&Problem::new(count.clone(), steps)?)?;
        // Vectors of norm at most 1: a scalar in [-1, 1], or a clipped sum.
        let footprint = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single)?;
        Ok(Plan::idealized(strategy, footprint, Budget::approximate(1.0, 1e-6)?)?)
    };
    if task.quantity == Quantity::Planning {
        let before = peak_bytes();
        let seconds = shortest(|| plan().map(|plan| plan.sigma()))?;
        return Ok(Cost { seconds, bytes: beyond(before) });
    }
    let plan = plan()?;
    let before = peak_bytes();
    let noise = |dimension: usize| -> Result<CorrelatedNoise> {
        let source = Box::new(GaussianSource::new(Seed::reproducible(1), dimension));
        Ok(CorrelatedNoise::new(plan.strategy().as_ref(), dimension, Side::Output, source)?)
    };
    let mechanism = |dimension: usize| {
        let plan = plan.clone().of_dimension(dimension)?;
        Mechanism::new(plan, Seed::reproducible(1)).context("the mechanism")
    };
    let seconds = match task.quantity {
        Quantity::Planning => 0.0,
        Quantity::Noise => shortest(|| {
            let mut noise = noise(1)?;
            let mut out = [0.0];
            for _ in 0..steps {
                noise.next_into(&mut out)?;
                black_box(&out);
            }
            Ok(out[0])
        })?,
        Quantity::Release => shortest(|| {
            let mut mechanism = mechanism(1)?;
            let mut out = [0.0];
            for _ in 0..steps {
                mechanism.release(&[1.0], &mut out)?;
                black_box(&out);
            }
            Ok(out[0])
        })?,
        Quantity::NoiseStep => {
            let (mut noise, mut out) = (noise(task.size)?, vec![0.0; task.size]);
            per_step(|| Ok(noise.next_into(&mut out)?))?
        }
        Quantity::ReleaseStep => {
            let (mut mechanism, mut out) = (mechanism(task.size)?, vec![0.0; task.size]);
            let input = vec![0.0; task.size];
            per_step(|| {
                mechanism.release(&input, &mut out)?;
                Ok(())
            })?
        }
    };
    Ok(Cost { seconds, bytes: beyond(before) })
}

/// How long small pieces of work are repeated.
const LONG_ENOUGH: Duration = Duration::from_millis(200);

/// Seconds of the shortest run, of as many as fit into a fraction of a second, and at least one.
fn shortest(mut work: impl FnMut() -> Result<f64>) -> Result<f64> {
    let start = Instant::now();
    let mut best = Duration::MAX;
    while best == Duration::MAX || start.elapsed() < LONG_ENOUGH {
        let run = Instant::now();
        black_box(work()?);
        best = best.min(run.elapsed());
    }
    Ok(best.as_secs_f64())
}

/// Seconds of a step, the mean over blocks of steps and the shortest block. The first block warms up.
fn per_step(mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    // Powers of two: trees have cheap and dear steps, and every block holds the same mixture of them.
    let (blocks, length) = (8, 16);
    for block in 0..blocks {
        let run = Instant::now();
        for _ in 0..length {
            step()?;
        }
        if block > 0 {
            best = best.min(run.elapsed().as_secs_f64() / f64::from(length));
        }
        if block > 1 && start.elapsed() > 20 * LONG_ENOUGH {
            break;
        }
    }
    Ok(best)
}

fn beyond(before: Option<u64>) -> Option<u64> {
    peak_bytes().zip(before).map(|(after, before)| after.saturating_sub(before))
}
