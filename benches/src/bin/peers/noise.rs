//! One step of correlated noise for long vectors.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use dp_benches::{sample_single, shortest};
use dp_linalg::rational::Rational;
use dp_mechanisms::noise::{Precision, ShardedNoise};
use dp_mechanisms::strategy::toeplitz::{Core, ToeplitzStrategy};
use dp_mechanisms::strategy::{banded, blt, unwatched};
use dp_mechanisms::{CorrelatedNoise, GaussianSource, Problem, Seed, Side, Workload};

use crate::cores;
use crate::python::{Peers, Question};
use crate::rows::{OURS, Row, Section};

/// The horizon to which the strategies are fitted.
const HORIZON: usize = 4096;

/// Steps that are timed together, and how often.
const STEPS: usize = 8;
const RUNS: usize = 5;

/// Steps that are timed one by one where vectors are long, and how long they may be elsewhere.
const LONG_STEPS: usize = 4;
const MOST_ELSEWHERE: usize = 10_000_000;

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let problem = Problem::new(Workload::count(), HORIZON)?;
    let rational = blt::fit(&problem, blt::default_buffers(HORIZON), &mut unwatched)?;
    let strategies = [
        ToeplitzStrategy::plain("blt", problem.workload(), HORIZON, Core::Rational(rational))?,
        banded::banded(&problem, &mut unwatched)?,
    ];
    let mut rows = Vec::new();
    for dimension in if quick { [10_000, 100_000] } else { [100_000, 1_000_000] } {
        for strategy in &strategies {
            let (kind, size, parameters) = match strategy.core().as_ref() {
                Core::Rational(core) => ("blt", format!("{} buffers", core.buffers()), parameters(core)),
                Core::Banded(band) => ("banded", format!("{} bands", band.len()), vec![list(band)]),
                _ => continue,
            };
            let work = format!("{size}, d = {dimension}");
            peers.doing(work.clone());
            let mut compared = vec![ours(&work, strategy, dimension)?];
            let mut arguments =
                vec![kind.to_owned(), dimension.to_string(), STEPS.to_string(), RUNS.to_string()];
            arguments.extend(parameters);
            let question = Question {
                package: "jax-privacy",
                script: "jax_noise",
                arguments: &arguments,
                limit: Duration::from_secs(240),
            };
            compared.extend(peers.rows(&work, &question));
            for row in &mut compared {
                row.quality = row.seconds.map(|seconds| seconds / dimension as f64 * 1e9);
            }
            peers.measured(&compared);
            rows.extend(compared);
        }
    }
    for &dimension in if quick { &[1_000_000][..] } else { &[10_000_000, 100_000_000] } {
        rows.extend(long(peers, &strategies[0], dimension)?);
    }
    Ok(Section {
        title: "Correlated noise, per step".to_owned(),
        conditions: format!(
            "Both sides stream the very same strategy, fitted to {HORIZON} steps by this library. The time is that of one \
             step, from the shortest of {RUNS} runs of {STEPS} steps. This library draws from ChaCha20, jax-privacy from \
             Threefry. From 10^7 coordinates on in single precision, the shortest of {LONG_STEPS} single steps, beside plain \
             sampling of as many values by this library."
        ),
        quality: "ns a value".to_owned(),
        rows,
        findings: Vec::new(),
        measured: None,
        sources: Vec::new(),
    })
}

/// The noise of a model: in shards and single precision on our side, where the other side runs while its state fits.
fn long(peers: &Peers, strategy: &ToeplitzStrategy, dimension: usize) -> Result<Vec<Row>> {
    let core = strategy.core();
    let Core::Rational(core) = core.as_ref() else { return Ok(Vec::new()) };
    let work = format!("{} buffers, d = {dimension}", core.buffers());
    peers.doing(work.clone());
    let (seed, precision) = (Seed::reproducible(1), Precision::Single);
    let mut noise = ShardedNoise::new(strategy, seed, dimension, 0..dimension, precision)?;
    let source = GaussianSource::new(Seed::reproducible(2), dimension);
    let mut out = vec![0.0_f32; dimension];
    // The first step finds its memory.
    noise.next_into(&mut out)?;
    let (mut step, mut sampling) = (f64::INFINITY, f64::INFINITY);
    // In turns: whatever else the machine does falls on both.
    for row in 0..LONG_STEPS {
        let started = Instant::now();
        sample_single(&source, row, &mut out);
        sampling = sampling.min(started.elapsed().as_secs_f64());
        let started = Instant::now();
        noise.next_into(black_box(&mut out))?;
        step = step.min(started.elapsed().as_secs_f64());
    }
    drop(noise);
    let row = |variant: &str, seconds: f64, note: String| Row {
        work: work.clone(),
        who: OURS.to_owned(),
        variant: variant.to_owned(),
        seconds: Some(seconds),
        note,
        ..Row::default()
    };
    let times = format!("ShardedNoise, {:.2} times plain sampling, {} threads", step / sampling, cores());
    let mut rows =
        vec![row("f32", step, times), row("plain sampling", sampling, format!("{} threads", cores()))];
    if dimension <= MOST_ELSEWHERE {
        let mut arguments =
            vec!["blt".to_owned(), dimension.to_string(), "1".to_owned(), LONG_STEPS.to_string()];
        arguments.extend(parameters(core));
        let limit = Duration::from_secs(240);
        let question = Question { package: "jax-privacy", script: "jax_noise", arguments: &arguments, limit };
        rows.extend(peers.rows(&work, &question));
    }
    for row in &mut rows {
        row.quality = row.seconds.map(|seconds| seconds / dimension as f64 * 1e9);
    }
    peers.measured(&rows);
    Ok(rows)
}

fn ours(work: &str, strategy: &ToeplitzStrategy, dimension: usize) -> Result<Row> {
    let source = Box::new(GaussianSource::new(Seed::reproducible(1), dimension));
    let mut noise = CorrelatedNoise::new(strategy, dimension, Side::Input, source)?;
    let mut out = vec![0.0; dimension];
    let mut outcome = noise.next_into(&mut out);
    let spent = shortest(RUNS, || {
        for _ in 0..STEPS {
            if outcome.is_ok() {
                outcome = noise.next_into(&mut out);
            }
            black_box(&out);
        }
    });
    outcome?;
    Ok(Row {
        work: work.to_owned(),
        who: OURS.to_owned(),
        variant: "f64".to_owned(),
        seconds: Some(spent.as_secs_f64() / STEPS as f64),
        note: format!("CorrelatedNoise, {} threads", cores()),
        ..Row::default()
    })
}

/// The two lists that describe a rational strategy.
pub(crate) fn parameters(rational: &Rational) -> Vec<String> {
    vec![list(rational.theta()), list(rational.omega())]
}

/// Numbers for a script, to the last bit.
pub(crate) fn list(values: &[f64]) -> String {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(",")
}
