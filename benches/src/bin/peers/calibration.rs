//! The noise that (ε, δ) asks for: how exact, and how fast.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result};
use dp_benches::shortest;
use dp_mechanisms::Budget;
use serde_json::json;

use crate::noise::list;
use crate::python::{Peers, Question, missing};
use crate::rows::{OURS, Row, Section};

const EPSILONS: [f64; 6] = [1e-3, 1e-2, 0.1, 1.0, 10.0, 20.0];

/// The values of δ that every library should manage, and one beyond the digits of f64.
const DELTAS: [(&str, &[f64]); 2] = [("δ from 1e-3 to 1e-10", &[1e-3, 1e-6, 1e-10]), ("δ = 1e-30", &[1e-30])];

const PACKAGES: [&str; 3] = ["dp-accounting", "opendp", "jax-privacy"];

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let epsilons = if quick { &EPSILONS[2..5] } else { &EPSILONS };
    // In seconds: some would take an hour.
    let patience: u64 = if quick { 10 } else { 60 };
    let mut rows = Vec::new();
    for (work, deltas) in DELTAS {
        let points: Vec<(f64, f64)> =
            deltas.iter().flat_map(|delta| epsilons.iter().map(move |epsilon| (*epsilon, *delta))).collect();
        peers.doing(work);
        let (ours, answers) = ours(work, &points)?;
        let (mut answered, mut answers) = (vec![ours], vec![answers]);
        for package in PACKAGES {
            let arguments = [package.to_owned(), patience.to_string(), list(epsilons), list(deltas)];
            // The script stops by itself after the point at which its patience ends.
            let limit = Duration::from_secs(2 * patience + 60);
            let (replies, failure) =
                peers.ask(&Question { package, script: "calibration", arguments: &arguments, limit });
            for reply in replies {
                answered.push(reply.row(work));
                answers.push(reply.answers.unwrap_or_default());
            }
            if let Some(why) = failure {
                answered.push(missing(work, package, why));
                answers.push(Vec::new());
            }
        }
        judge(peers, &points, &mut answered, &answers)?;
        peers.measured(&answered);
        rows.extend(answered);
    }
    Ok(Section {
        title: "Gaussian noise for (ε, δ)".to_owned(),
        conditions: format!(
            "The smallest σ for which sensitivity 1 is (ε, δ)-private, ε in {}. The time is the mean over the points that were \
             solved. The error of σ is relative to the exact root of the privacy profile, solved to fifty digits; too \
             little noise breaks the promise, too much only costs accuracy. One thread.",
            list(epsilons).replace(',', ", ")
        ),
        quality: "largest relative error of σ".to_owned(),
        rows,
        findings: Vec::new(),
        measured: None,
        sources: Vec::new(),
    })
}

fn ours(work: &str, points: &[(f64, f64)]) -> Result<(Row, Vec<Option<f64>>)> {
    let solve =
        || points.iter().map(|(epsilon, delta)| Ok(Budget::approximate(*epsilon, *delta)?.unit_sigma()));
    let answers: Vec<f64> = solve().collect::<Result<_>>()?;
    let spent = shortest(20, || {
        for answer in solve() {
            let _ = black_box(answer);
        }
    });
    let row = Row {
        work: work.to_owned(),
        who: OURS.to_owned(),
        seconds: Some(spent.as_secs_f64() / points.len() as f64),
        note: "exact profile".to_owned(),
        ..Row::default()
    };
    Ok((row, answers.into_iter().map(Some).collect()))
}

/// Writes the errors of all answers into their rows.
fn judge(peers: &Peers, points: &[(f64, f64)], rows: &mut [Row], answers: &[Vec<Option<f64>>]) -> Result<()> {
    let file = peers.folder().join("answers.json");
    let text = json!({ "points": points, "answers": answers }).to_string();
    std::fs::write(&file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    let arguments = ["judge".to_owned(), file.to_string_lossy().into_owned()];
    let limit = Duration::from_secs(300);
    let (verdicts, failure) =
        peers.ask(&Question { package: "mpmath", script: "calibration", arguments: &arguments, limit });
    for (row, verdict) in rows.iter_mut().zip(&verdicts) {
        let errors: Vec<f64> = verdict.answers.iter().flatten().copied().flatten().collect();
        if errors.is_empty() {
            continue;
        }
        row.quality = Some(errors.iter().fold(0.0, |largest: f64, error| largest.max(error.abs())));
        let short = errors.iter().filter(|error| **error < 0.0).count();
        row.note = format!("{}; too little noise at {short} of {} points", row.note, errors.len());
    }
    if let (Some(why), Some(row)) = (failure, rows.first_mut()) {
        row.note = format!("{}; no reference: {why}", row.note);
    }
    Ok(())
}
