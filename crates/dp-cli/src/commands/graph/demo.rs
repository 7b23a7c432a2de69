//! `dp graph --demo`: the messages of a karate club, and how well their cuts survive.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use dp_apps::graph::{CutEncoding, EdgeUpdate, clip, karate_club, project};
use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{Budget, GaussianSource, Mechanism, Method, Plan, Problem, Relation, Seed, Workload};
use petgraph::visit::EdgeRef;
use plotters::prelude::*;
use serde::Serialize;

use crate::output;

const WEEKS: usize = 52;
const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
/// Anybody can repeat the noise of the demonstration: that is what it is for.
const SEED: u64 = 1977;
/// Cuts in the picture.
const CUTS: usize = 2000;
/// Cells of the heat map in each direction.
const CELLS: usize = 40;

#[derive(Serialize)]
struct Report {
    weeks: usize,
    members: usize,
    messages: f64,
    epsilon: f64,
    delta: f64,
    /// Root mean square error of random cuts, of the released weights, of the projected graph, and of clipped weights.
    released_error: f64,
    projected_error: f64,
    clipped_error: f64,
    csv: PathBuf,
    svg: PathBuf,
}

pub(super) fn run(directory: &Path, json: bool) -> Result<()> {
    let club = karate_club();
    let vertices = club.node_count();
    let encoding = CutEncoding::with_weights(vertices, 0.0, 1.0)?;
    let pairs = encoding.pairs();
    let count = Method::NormalizedSqrt.build(&Problem::new(Workload::count(), WEEKS)?)?;
    let plan =
        Plan::idealized(count, encoding.footprint(Relation::ZeroOut)?, Budget::approximate(EPSILON, DELTA)?)?;
    let mut mechanism = Mechanism::new(plan.of_dimension(encoding.dimension())?, Seed::reproducible(SEED))?;
    let mut truth = vec![0.0; encoding.dimension()];
    let (mut input, mut released) = (truth.clone(), truth.clone());
    for week in 0..WEEKS {
        // Friends exchange between none and four messages a week, by a pattern of their own.
        let messages: Vec<EdgeUpdate> = club
            .edge_references()
            .enumerate()
            .flat_map(|(number, edge)| {
                let update = EdgeUpdate::new(edge.source().index(), edge.target().index(), 1.0);
                std::iter::repeat_n(update, (number * 7 + week * 3 + week * number) % 5)
            })
            .collect();
        encoding.encode(&messages, &mut input)?;
        mechanism.release(&input, &mut released)?;
        truth.iter_mut().zip(&input).for_each(|(total, new)| *total += new);
    }
    let (projected, clipped) = (project(pairs, &released)?, clip(pairs, &released)?);
    let cuts = random_cuts(vertices);
    let values = |weights: &[f64]| -> Result<Vec<f64>> {
        cuts.iter().map(|(s, p)| Ok(encoding.cut(weights, s, p, 0.0)?.value)).collect()
    };
    let exact = values(&truth)?;
    let answers = [values(&released)?, values(&projected.weights)?, values(&clipped.weights)?];
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create `{}`", directory.display()))?;
    let (csv, svg) = (directory.join("graph.csv"), directory.join("graph.svg"));
    let mut writer =
        csv::Writer::from_path(&csv).with_context(|| format!("cannot write `{}`", csv.display()))?;
    writer.write_record(["true_cut", "released", "projected", "clipped"])?;
    for (index, exact) in exact.iter().enumerate() {
        let row = [*exact, answers[0][index], answers[1][index], answers[2][index]];
        writer.write_record(row.map(|value| value.to_string()))?;
    }
    writer.flush()?;
    draw(&svg, &exact, &answers[1], &answers[2])
        .map_err(|error| anyhow!("cannot draw `{}`: {error}", svg.display()))?;
    let error = |values: &[f64]| {
        let squares: f64 = values.iter().zip(&exact).map(|(value, exact)| (value - exact).powi(2)).sum();
        (squares / exact.len() as f64).sqrt()
    };
    let report = Report {
        weeks: WEEKS,
        members: vertices,
        messages: truth.iter().sum(),
        epsilon: EPSILON,
        delta: DELTA,
        released_error: error(&answers[0]),
        projected_error: error(&answers[1]),
        clipped_error: error(&answers[2]),
        csv,
        svg,
    };
    if json { output::json(&report) } else { print(&report) }
}

fn print(report: &Report) -> Result<()> {
    output::line(&format!(
        "A karate club of {} members exchanges {} messages in {} weeks. Who writes to whom is released every week;\n\
         all releases together are ({}, {:e})-differentially private for every single message.\n\n\
         Messages across a random cut, root mean square error after the last week:\n\
         \u{20} released weights             {:>8.1}\n\
         \u{20} projected to a graph         {:>8.1}\n\
         \u{20} negative weights set to zero {:>8.1}\n\n\
         Wrote {} and {}.\n\n\
         DEMONSTRATION ONLY: the messages are invented and the noise comes from a published seed.",
        report.members,
        report.messages,
        report.weeks,
        report.epsilon,
        report.delta,
        report.released_error,
        report.projected_error,
        report.clipped_error,
        report.csv.display(),
        report.svg.display()
    ))
}

/// Cuts that look random, of all sizes.
fn random_cuts(vertices: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut source = GaussianSource::new(Seed::reproducible(34), vertices + 1);
    let mut row = vec![0.0; vertices + 1];
    (0..)
        .map(|number| {
            source.fill_row(number, &mut row);
            (0..vertices).partition(|vertex| row[*vertex] > row[vertices])
        })
        .filter(|(s, p): &(Vec<usize>, Vec<usize>)| !s.is_empty() && !p.is_empty())
        .take(CUTS)
        .collect()
}

/// Two heat maps side by side, how often a true cut comes with a private one; on the diagonal nothing is wrong.
fn draw(
    path: &Path,
    exact: &[f64],
    projected: &[f64],
    clipped: &[f64],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let largest = exact.iter().chain(projected).chain(clipped).copied().fold(1.0, f64::max) * 1.05;
    let root = SVGBackend::new(path, (1100, 560)).into_drawing_area();
    root.fill(&WHITE)?;
    let area = root
        .titled("Messages across 2000 cuts of a karate club, after 52 private weeks", ("sans-serif", 24))?;
    let titles =
        ["projected to a graph (darker: more cuts)", "negative weights set to zero (darker: more cuts)"];
    for ((area, values), title) in area.split_evenly((1, 2)).iter().zip([projected, clipped]).zip(titles) {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 19))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..largest, 0.0..largest)?;
        chart
            .configure_mesh()
            .x_desc("true cut")
            .y_desc("private cut")
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .axis_desc_style(("sans-serif", 16))
            .label_style(("sans-serif", 14))
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .draw()?;
        let cell = largest / CELLS as f64;
        let place = |value: f64| ((value / cell).max(0.0) as usize).min(CELLS - 1);
        let mut counts = vec![0_u32; CELLS * CELLS];
        for (x, y) in exact.iter().zip(values) {
            counts[place(*y) * CELLS + place(*x)] += 1;
        }
        let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
        chart.draw_series(counts.iter().enumerate().filter(|(_, count)| **count > 0).map(
            |(index, count)| {
                let (x, y) = ((index % CELLS) as f64 * cell, (index / CELLS) as f64 * cell);
                let shade = 0.15 + 0.85 * (f64::from(*count) / most).sqrt();
                Rectangle::new([(x, y), (x + cell, y + cell)], crate::plot::BLUE.mix(shade).filled())
            },
        ))?;
        chart.draw_series(LineSeries::new(
            [(0.0, 0.0), (largest, largest)],
            crate::plot::ORANGE.stroke_width(2),
        ))?;
    }
    root.present()?;
    Ok(())
}
