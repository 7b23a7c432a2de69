//! ε of many sampled steps: how close to what cannot be beaten, and how fast.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use dp_benches::shortest;
use dp_mechanisms::accountant::{Accountant, Bracket, Event};

use crate::python::{Peers, Question, missing};
use crate::rows::{OURS, Row, Section, three_digits};

/// Noise multiplier, rate, steps and δ.
type Point = (f64, f64, u64, f64);

const POINTS: [Point; 5] = [
    (1.0, 0.01, 1000, 1e-5),
    (0.7, 0.001, 10_000, 1e-6),
    (2.0, 0.05, 2000, 1e-6),
    (5.0, 0.2, 500, 1e-8),
    (1.0, 0.004, 15_000, 1e-5),
];

/// How many times as long as ours the other accountant is expected to take, at least.
const WANTED: f64 = 10.0;

pub(crate) fn compare(peers: &Peers, quick: bool) -> Result<Section> {
    let points = if quick { &POINTS[..2] } else { &POINTS };
    peers.doing("ε of sampled steps");
    let mut rows = Vec::new();
    let mut brackets = Vec::new();
    for point in points {
        let (row, bracket) = ours(point)?;
        rows.push(row);
        brackets.push(bracket);
    }
    let text: Vec<String> =
        points.iter().map(|(noise, rate, steps, delta)| format!("{noise}:{rate}:{steps}:{delta}")).collect();
    let arguments = ["1e-4".to_owned(), text.join(",")];
    let limit = Duration::from_secs(600);
    let question = Question { package: "dp-accounting", script: "accounting", arguments: &arguments, limit };
    let (replies, failure) = peers.ask(&question);
    // Replies come in the order of the points, each behind our own row of it.
    for (index, (reply, bracket)) in replies.iter().zip(&brackets).enumerate() {
        let mut row = reply.row(&work(&points[index]));
        let answer = reply.answers.as_deref().and_then(|answers| *answers.first()?);
        row.quality = answer.map(|answer| answer / bracket.lower - 1.0);
        rows.insert(2 * index + 1, row);
    }
    if let Some(why) = failure {
        rows.push(missing("ε of sampled steps", "dp-accounting", why));
    }
    peers.measured(&rows);
    let finding = finding(&rows);
    Ok(Section {
        title: "Accounting for sampled steps".to_owned(),
        conditions: "The smallest ε for which steps of Gaussian noise with Poisson sampling are private, add or remove one person, \
                     proved from above; the time is the shortest of several. The quality is how far the answer is above what is \
                     proved from below that it cannot be under. One thread."
            .to_owned(),
        quality: "relative excess of ε".to_owned(),
        rows,
        findings: finding.into_iter().collect(),
        measured: None,
        sources: Vec::new(),
    })
}

fn work((noise, rate, steps, delta): &Point) -> String {
    format!("noise {noise}, rate {rate}, {steps} steps, δ = {delta:e}")
}

fn ours(point: &Point) -> Result<(Row, Bracket)> {
    let &(noise, rate, steps, delta) = point;
    let solve = || Accountant::new().with(&Event::sampled_gaussian(noise, rate)?, steps)?.epsilon(delta);
    let bracket = solve()?;
    let spent = shortest(10, || {
        let _ = black_box(solve());
    });
    let row = Row {
        work: work(point),
        who: OURS.to_owned(),
        seconds: Some(spent.as_secs_f64()),
        quality: Some(bracket.upper / bracket.lower - 1.0),
        note: "with a lower bound".to_owned(),
        ..Row::default()
    };
    Ok((row, bracket))
}

/// All points together, and the one at which the lead is smallest.
fn finding(rows: &[Row]) -> Option<String> {
    let pairs: Vec<(f64, f64)> = rows
        .windows(2)
        .filter(|pair| pair[0].who == OURS && pair[0].work == pair[1].work)
        .filter_map(|pair| Some((pair[0].seconds?, pair[1].seconds?)))
        .collect();
    let least = pairs.iter().map(|(ours, theirs)| theirs / ours).reduce(f64::min)?;
    let sum = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>();
    Some(format!(
        "dp-accounting takes {} times as long over all points, and {} times at the point where it is closest (wanted: at least \
         {WANTED}).",
        three_digits(sum(|pair| pair.1) / sum(|pair| pair.0)),
        three_digits(least),
    ))
}
