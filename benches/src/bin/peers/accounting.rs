//! ε of many sampled steps: how close to what cannot be beaten, and how fast.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use dp_benches::shortest;
use dp_mechanisms::accountant::{Accountant, Bracket, Event};

use crate::python::{Peers, Question, missing};
use crate::rows::{OURS, Row, Section};

/// Noise multiplier, rate, steps and δ.
type Point = (f64, f64, u64, f64);

const POINTS: [Point; 5] = [
    (1.0, 0.01, 1000, 1e-5),
    (0.7, 0.001, 10_000, 1e-6),
    (2.0, 0.05, 2000, 1e-6),
    (5.0, 0.2, 500, 1e-8),
    (1.0, 0.004, 15_000, 1e-5),
];

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let points = if quick { &POINTS[..2] } else { &POINTS };
    let work = format!("ε at {} points", points.len());
    peers.doing(&work);
    let (ours, brackets) = ours(&work, points)?;
    let mut rows = vec![ours];
    let text: Vec<String> =
        points.iter().map(|(noise, rate, steps, delta)| format!("{noise}:{rate}:{steps}:{delta}")).collect();
    let arguments = ["1e-4".to_owned(), text.join(",")];
    let limit = Duration::from_secs(if quick { 120 } else { 600 });
    let question = Question { package: "dp-accounting", script: "accounting", arguments: &arguments, limit };
    let (replies, failure) = peers.ask(&question);
    for reply in replies {
        let mut row = reply.row(&work);
        row.quality = worst(&brackets, &reply.answers.unwrap_or_default());
        rows.push(row);
    }
    if let Some(why) = failure {
        rows.push(missing(&work, "dp-accounting", why));
    }
    peers.measured(&rows);
    Ok(Section {
        title: "Accounting for sampled steps".to_owned(),
        conditions: "The smallest ε for which steps of Gaussian noise with Poisson sampling are private, add or remove one person, \
                     proved from above. The time is the mean over the points. The quality is how far the answer is above what is \
                     proved from below that it cannot be under. One thread."
            .to_owned(),
        quality: "largest relative excess of ε".to_owned(),
        rows,
        findings: Vec::new(),
    })
}

fn ours(work: &str, points: &[Point]) -> Result<(Row, Vec<Bracket>)> {
    let solve = || {
        points.iter().map(|(noise, rate, steps, delta)| {
            Accountant::new().with(&Event::sampled_gaussian(*noise, *rate)?, *steps)?.epsilon(*delta)
        })
    };
    let brackets: Vec<Bracket> = solve().collect::<Result<_, _>>()?;
    let spent = shortest(5, || {
        for answer in solve() {
            let _ = black_box(answer);
        }
    });
    let answers: Vec<Option<f64>> = brackets.iter().map(|bracket| Some(bracket.upper)).collect();
    let row = Row {
        work: work.to_owned(),
        who: OURS.to_owned(),
        seconds: Some(spent.as_secs_f64() / points.len() as f64),
        quality: worst(&brackets, &answers),
        note: "with a lower bound".to_owned(),
        ..Row::default()
    };
    Ok((row, brackets))
}

/// The largest relative distance of an answer from the lower bound.
fn worst(brackets: &[Bracket], answers: &[Option<f64>]) -> Option<f64> {
    let excess =
        |(bracket, answer): (&Bracket, &Option<f64>)| answer.map(|answer| answer / bracket.lower - 1.0);
    brackets.iter().zip(answers).filter_map(excess).reduce(f64::max)
}
