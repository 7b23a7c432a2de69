//! Banded strategies with cyclic Poisson sampling: how long they take to plan, and how much noise they leave.

use std::time::Duration;

use anyhow::{Context, Result};
use dp_benches::shortest;
use dp_mechanisms::accountant::sampling::CyclicPoisson;
use dp_mechanisms::strategy::Strategy;
use dp_mechanisms::strategy::toeplitz::{Core, ToeplitzStrategy};
use dp_mechanisms::{Participation, Problem, Workload};

use crate::python::{Peers, Question, Reply, missing};
use crate::rows::{OURS, Row, Section};

/// The part of all people that a step draws on average.
const SHARE: f64 = 1.0 / 64.0;
const EPSILON: f64 = 2.0;
const DELTA: f64 = 1e-6;

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let (steps, bands): (usize, &[usize]) = if quick { (256, &[4]) } else { (1024, &[1, 4, 16]) };
    let problem = Problem::new(Workload::count(), steps)?;
    let mut rows = Vec::new();
    for &bands in bands {
        let sampling = CyclicPoisson::of_share(bands, SHARE, steps)?;
        let work = format!("{bands} bands, n = {steps}, rate {}", sampling.rate());
        peers.doing(&work);
        let mut compared = vec![ours(&work, &problem, sampling)?];
        let arguments = [
            steps.to_string(),
            bands.to_string(),
            sampling.rate().to_string(),
            EPSILON.to_string(),
            DELTA.to_string(),
        ];
        let limit = Duration::from_secs(600);
        let question =
            Question { package: "jax-privacy", script: "jax_banded", arguments: &arguments, limit };
        let (replies, failure) = peers.ask(&question);
        for reply in replies {
            let mut row = reply.row(&work);
            let (deviation, multiplier) = deviation(&problem, &reply)?;
            row.quality = Some(deviation);
            row.note = format!("noise multiplier {multiplier:.4}; {}", row.note);
            compared.push(row);
        }
        if let Some(why) = failure {
            compared.push(missing(&work, "jax-privacy", why));
        }
        peers.measured(&compared);
        rows.extend(compared);
    }
    Ok(Section {
        title: "Banded noise with amplification by sampling".to_owned(),
        conditions: format!(
            "Everybody is in one of as many groups as there are bands; a step draws 1/64 of all people from one group. The running \
             count over all steps is ({EPSILON}, {DELTA:e})-private when one person is added or removed. The time is that of \
             finding the strategy and its noise. The quality is the root of the mean variance of a released sum for contributions \
             of at most 1, computed by this library from each side's strategy and noise multiplier."
        ),
        quality: "deviation of a sum".to_owned(),
        rows,
        findings: Vec::new(),
        measured: None,
        sources: Vec::new(),
    })
}

fn ours(work: &str, problem: &Problem, sampling: CyclicPoisson) -> Result<Row> {
    let mut planned = None;
    let spent = shortest(5, || planned = Some(sampling.plan(problem, 1.0, EPSILON, DELTA)));
    let plan = planned.context("nothing was planned")??;
    Ok(Row {
        work: work.to_owned(),
        who: OURS.to_owned(),
        seconds: Some(spent.as_secs_f64()),
        quality: Some(plan.mean_squared_error().sqrt()),
        note: format!(
            "noise multiplier {:.4}, at least {:.4} needed",
            plan.multiplier().upper,
            plan.multiplier().lower
        ),
        ..Row::default()
    })
}

/// The deviation of a released sum under the strategy and the noise multiplier of a reply, and that multiplier.
fn deviation(problem: &Problem, reply: &Reply) -> Result<(f64, f64)> {
    let band = reply.toeplitz.clone().context("a reply without its strategy")?;
    let multiplier = reply.answers.as_deref().and_then(|answers| *answers.first()?);
    let multiplier = multiplier.context("a reply without its noise multiplier")?;
    let strategy =
        ToeplitzStrategy::plain("banded", problem.workload(), problem.steps(), Core::Banded(band))?;
    let squared = strategy.sensitivity(Participation::Single)?.squared;
    Ok((multiplier * (squared * strategy.row_norms()?.mean()).sqrt(), multiplier))
}
