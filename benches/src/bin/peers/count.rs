//! A running count of many events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use dp_mechanisms::strategy::toeplitz::{Core, ToeplitzStrategy};
use dp_mechanisms::strategy::{Strategy, blt, unwatched};
use dp_mechanisms::{
    Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Seed, Workload,
};

use crate::noise::parameters;
use crate::python::{Peers, Question};
use crate::rows::{OURS, Row, Section, duration};

/// ρ of zero-concentrated privacy: the Gaussian mechanism with a noise of one sensitivity.
const RHO: f64 = 0.5;

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let steps: usize = if quick { 1 << 16 } else { 1 << 20 };
    let count = Workload::count();
    let problem = Problem::new(count.clone(), steps)?;
    let rational = blt::fit(&problem, blt::default_buffers(steps), &mut unwatched)?;
    let core = Core::Rational(rational.clone());
    let same: Arc<dyn Strategy> = Arc::new(ToeplitzStrategy::plain("blt", &count, steps, core)?);
    let sigma = plan(same.clone())?.sigma();

    let work = format!("{} buffers", rational.buffers());
    let mut rows = Vec::new();
    for strategy in [same, Method::ScaledBlt.build(&problem)?] {
        peers.doing(format!("{steps} events: {}", strategy.name()));
        let variant = strategy.name();
        let mut mechanism = Mechanism::new(plan(strategy)?, Seed::from_system()?)?;
        rows.push(stream(&work, variant, steps, |event, out| mechanism.release(&[event], out).map(drop))?);
    }
    let mut arguments = vec![steps.to_string(), sigma.to_string()];
    arguments.extend(parameters(&rational));
    rows.extend(peers.rows(&work, &question("jax-privacy", "jax_count", &arguments)));

    let work = "exact noise";
    for method in [Method::BinaryTree, Method::Sqrt] {
        peers.doing(format!("{steps} events: exact {method}"));
        let strategy = method.build(&problem)?;
        let budget = Budget::zero_concentrated(RHO)?;
        let plan = Plan::exact(&strategy, footprint()?, budget, 1.0)?;
        let mut mechanism = Mechanism::new(plan, Seed::from_system()?)?;
        rows.push(stream(work, method.name(), steps, |event, out| {
            mechanism.release(&[event], out).map(drop)
        })?);
    }
    let arguments = [steps.to_string(), RHO.to_string()];
    rows.extend(peers.rows(work, &question("opendp", "opendp_count", &arguments)));

    peers.measured(&rows);
    Ok(Section {
        title: format!("A running count of {steps} events"),
        conditions: format!(
            "{RHO}-zCDP for one event added or removed; every event is counted and every count released. The time is that of \
             the whole stream, planning not counted. This library sees one event at a time, on one thread. \
             dp-accounting has no counter."
        ),
        quality: "root mean squared error of one run".to_owned(),
        rows,
        findings: Vec::new(),
        measured: None,
        sources: Vec::new(),
    })
}

fn question<'a>(package: &'static str, script: &'static str, arguments: &'a [String]) -> Question<'a> {
    Question { package, script, arguments, limit: Duration::from_secs(300) }
}

fn footprint() -> dp_mechanisms::Result<Footprint> {
    Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single)
}

fn plan(strategy: Arc<dyn Strategy>) -> dp_mechanisms::Result<Plan> {
    Plan::idealized(strategy, footprint()?, Budget::zero_concentrated(RHO)?)
}

/// Times a stream of ones, released one by one.
fn stream(
    work: &str,
    variant: &str,
    steps: usize,
    mut release: impl FnMut(f64, &mut [f64]) -> dp_mechanisms::Result<()>,
) -> Result<Row> {
    let mut counts = vec![0.0; steps];
    let start = Instant::now();
    for count in &mut counts {
        release(1.0, std::slice::from_mut(count))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let squares: f64 = (1..).zip(&counts).map(|(step, count)| (count - f64::from(step)).powi(2)).sum();
    Ok(Row {
        work: work.to_owned(),
        who: OURS.to_owned(),
        variant: variant.to_owned(),
        seconds: Some(seconds),
        quality: Some((squares / steps as f64).sqrt()),
        note: format!("one event at a time, {} each", duration(seconds / steps as f64)),
        ..Row::default()
    })
}
