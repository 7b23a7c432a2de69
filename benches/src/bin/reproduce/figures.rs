//! The figures of the papers, computed again and drawn as SVG.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dp_benches::chart::{self, Axis, Chart, Line};
use dp_linalg::norms;
use dp_mechanisms::bounds;
use dp_mechanisms::budget::published;
use dp_mechanisms::strategy::optimal::{Ascent, Stopping};

use crate::lab::{Lab, build, errors_of, max_error, mean_error, root_norms};
use crate::{almost_tight, constant_later, operators, unifying};

fn curve(label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
    Line { label: label.into(), points: points.into_iter().collect() }
}

fn panel(title: String, horizontal: &str, vertical: (&str, Axis), lines: Vec<Line>) -> Chart {
    let vertical = (vertical.0.to_owned(), vertical.1);
    Chart { title, horizontal: (horizontal.to_owned(), Axis::Linear), vertical, lines }
}

/// Draws every figure and returns the folder.
pub(crate) fn draw(lab: &Lab, full: bool) -> Result<PathBuf> {
    // cargo names the package to the programs that it runs; the workspace is its parent.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let target = package.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).join("target");
    let folder = target.join("reproduce");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let figures: [(&str, Vec<Chart>); 6] = [
        ("per-step-error", per_step_error(lab)?),
        ("counting-error", counting_error()?),
        ("max-error-gaps", max_error_gaps()?),
        ("counting-runs", counting_runs()?),
        ("coefficients", coefficients()?),
        ("loss-against-time", loss_against_time(if full { 2048 } else { 512 })?),
    ];
    for (name, panels) in figures {
        for (number, chart) in (1..).zip(&panels) {
            let path = folder.join(format!("{name}-{number}.svg"));
            std::fs::write(&path, chart::svg(chart)?)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
    }
    Ok(folder)
}

fn steps(values: Vec<f64>) -> impl Iterator<Item = (f64, f64)> {
    values.into_iter().enumerate().map(|(index, value)| ((index + 1) as f64, value))
}

fn per_step_error(lab: &Lab) -> Result<Vec<Chart>> {
    let n = 512;
    let mut counts = Vec::new();
    for name in ["binary-tree", "honaker-online", "honaker-full"] {
        counts.push(curve(name, steps(errors_of(build(name, "count", n)?.as_ref())?)));
    }
    counts.push(curve("optimal", steps(errors_of(lab.optimal("count", n)?.0.as_ref())?)));
    let momentum = operators::momentum_errors(lab, operators::MOMENTUM, n)?;
    Ok(vec![
        panel(
            format!("Prefix sums, n = {n}: squared error of each release"),
            "step",
            ("Δ²‖b‖²", Axis::Linear),
            counts,
        ),
        panel(
            format!("Momentum iterates, β = {}, n = {n}", operators::MOMENTUM),
            "step",
            ("Δ²‖b‖²", Axis::Logarithmic),
            momentum.into_iter().map(|(label, errors)| curve(label, steps(errors))).collect(),
        ),
    ])
}

fn counting_error() -> Result<Vec<Chart>> {
    let mut curves = Vec::new();
    for epsilon in [0.3, 0.8] {
        let scale = published::almost_tight_counting(epsilon, 1e-10).powi(2);
        for name in ["binary-tree", "sqrt"] {
            let points: Result<Vec<(f64, f64)>> = (1..=20)
                .map(|log| Ok((f64::from(log), scale * mean_error(name, "count", 1 << log)?)))
                .collect();
            curves.push(curve(format!("{name}, ε = {epsilon}"), points?));
        }
    }
    let bound = |name: &str, of: fn(f64) -> f64| {
        curve(name, (2..=40).map(|log| (f64::from(log), of(f64::from(log).exp2()))))
    };
    Ok(vec![
        panel(
            "Mean squared error of counting, δ = 1e-10, with the published constant".to_owned(),
            "log2 n",
            ("mean squared error", Axis::Logarithmic),
            curves,
        ),
        panel(
            "Published upper and lower bound, and their gap, in units of C²".to_owned(),
            "log2 n",
            ("E2", Axis::Linear),
            vec![
                bound("upper bound", almost_tight::printed_upper_bound),
                bound("lower bound", almost_tight::printed_lower_bound),
                bound("gap", |n| almost_tight::printed_upper_bound(n) - almost_tight::printed_lower_bound(n)),
            ],
        ),
    ])
}

fn max_error_gaps() -> Result<Vec<Chart>> {
    let norms = root_norms(1 << 20);
    let over =
        |of: &dyn Fn(usize) -> f64| (2..=20).map(|log| (f64::from(log), of(1 << log))).collect::<Vec<_>>();
    let upper = |n: usize| bounds::mathias_count_upper(n).sqrt();
    let lower = |n: usize| bounds::mathias_count(n).sqrt();
    let printed = |n: usize| constant_later::printed_count(n as f64);
    let average = |label: &str, of: &dyn Fn(usize) -> Result<f64>| -> Result<Line> {
        let points: Result<Vec<(f64, f64)>> =
            (1..=8).map(|log| Ok((f64::from(log), of(1 << log)?))).collect();
        Ok(curve(label, points?))
    };
    let largest_error = |name: &str, n: usize| max_error(name, "average", n).map(f64::sqrt);
    let printed_average = |log: u32| (f64::from(log), constant_later::printed_average(f64::from(1 << log)));
    Ok(vec![
        panel(
            "Counting: above the bounds of Mathias".to_owned(),
            "log2 T",
            ("difference", Axis::Linear),
            vec![
                curve("published bound - upper bound", over(&|n| printed(n) - upper(n))),
                curve("norm of the root - upper bound", over(&|n| norms[n - 1] - upper(n))),
                curve("published bound - lower bound", over(&|n| printed(n) - lower(n))),
                curve("norm of the root - lower bound", over(&|n| norms[n - 1] - lower(n))),
            ],
        ),
        panel(
            "Averaging: root of the largest squared error".to_owned(),
            "log2 T",
            ("‖L‖‖R‖", Axis::Linear),
            vec![
                curve("published bound", (1..=8).map(printed_average)),
                average("root of the average matrix", &constant_later::average_root_norm)?,
                average("root of the count, divided by t", &|n| largest_error("sqrt", n))?,
                average("noise on each input", &|n| largest_error("identity", n))?,
            ],
        ),
    ])
}

fn counting_runs() -> Result<Vec<Chart>> {
    let (n, runs) = (1 << 16, 8);
    let mut curves = Vec::new();
    for name in ["binary-tree", "sqrt"] {
        let errors = constant_later::mean_absolute_errors(name, n, runs)?;
        // Means over blocks keep the drawing small.
        let blocks = errors.chunks(128).enumerate();
        let mean = |block: &[f64]| norms::compensated_sum(block.iter().copied()) / block.len() as f64;
        curves.push(curve(name, blocks.map(|(index, block)| (128.0 * (index as f64 + 0.5), mean(block)))));
    }
    Ok(vec![panel(
        "Counting 2^16 bits, ε = 0.8, δ = 1e-10: mean error of 8 runs, by blocks of 128 steps".to_owned(),
        "step",
        ("mean absolute error", Axis::Linear),
        curves,
    )])
}

fn coefficients() -> Result<Vec<Chart>> {
    let mut curves = Vec::new();
    for power in [1.0, 2.0] {
        let gaps = unifying::coefficient_gaps(power, 2049)?;
        let points = gaps.into_iter().enumerate().skip(2).map(|(index, gap)| (index as f64, gap));
        curves.push(curve(format!("f(n) = n^-{power}"), points));
    }
    Ok(vec![panel(
        "f(n+1)/2 - a_n: the estimate of a coefficient less the coefficient".to_owned(),
        "n",
        ("gap", Axis::Logarithmic),
        curves,
    )])
}

fn loss_against_time(n: usize) -> Result<Vec<Chart>> {
    let mut curves = Vec::new();
    for (label, ascent, eigendecompositions) in
        [("fixed point", Ascent::FixedPoint, 15), ("Newton's method", Ascent::Newton, 15)]
    {
        let options = Stopping { ascent, eigendecompositions, ..Stopping::default() };
        curves.push(curve(label, operators::gap_against_time(n, options)?));
    }
    Ok(vec![panel(
        format!("Optimal factorization of {n} prefix sums, from equal weights: what is left to gain"),
        "seconds",
        ("relative duality gap", Axis::Logarithmic),
        curves,
    )])
}
