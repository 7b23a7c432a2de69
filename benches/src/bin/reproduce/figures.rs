//! The figures of the papers, computed again and drawn as SVG.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use dp_linalg::norms;
use dp_mechanisms::bounds;
use dp_mechanisms::budget::published;
use dp_mechanisms::strategy::optimal::{Method, Options};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::lab::{Lab, build, errors_of, max_error, mean_error, root_norms};
use crate::{almost_tight, constant_later, operators, unifying};

/// Colours that stay apart in print and for colour-blind readers.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 90, 0),
    RGBColor(40, 40, 40),
    RGBColor(0, 140, 110),
    RGBColor(170, 60, 150),
    RGBColor(150, 130, 0),
];

struct Curve {
    label: String,
    points: Vec<(f64, f64)>,
}

fn curve(label: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Curve {
    Curve { label: label.into(), points: points.into_iter().collect() }
}

/// One diagram; `logarithmic` draws and labels log10 of the values.
struct Panel {
    title: String,
    horizontal: &'static str,
    vertical: &'static str,
    logarithmic: bool,
    curves: Vec<Curve>,
}

/// Draws every figure and returns the folder.
pub(crate) fn draw(lab: &Lab, full: bool) -> Result<PathBuf> {
    // cargo names the package to the programs that it runs; the workspace is its parent.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let target = package.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).join("target");
    let folder = target.join("reproduce");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let figures: [(&str, Vec<Panel>); 6] = [
        ("per-step-error", per_step_error(lab)?),
        ("counting-error", counting_error()?),
        ("max-error-gaps", max_error_gaps()?),
        ("counting-runs", counting_runs()?),
        ("coefficients", coefficients()?),
        ("loss-against-time", loss_against_time(if full { 2048 } else { 512 })?),
    ];
    for (name, panels) in figures {
        let path = folder.join(name).with_extension("svg");
        let height = 420 * panels.len() as u32;
        let root = SVGBackend::new(&path, (960, height)).into_drawing_area();
        let drawn =
            draw_panels(&root, &panels).and_then(|()| root.present().map_err(|error| error.to_string()));
        drawn.map_err(|error| anyhow!("cannot draw `{}`: {error}", path.display()))?;
    }
    Ok(folder)
}

fn steps(values: Vec<f64>) -> impl Iterator<Item = (f64, f64)> {
    values.into_iter().enumerate().map(|(index, value)| ((index + 1) as f64, value))
}

fn per_step_error(lab: &Lab) -> Result<Vec<Panel>> {
    let n = 512;
    let mut counts = Vec::new();
    for name in ["binary-tree", "honaker-online", "honaker-full"] {
        counts.push(curve(name, steps(errors_of(build(name, "count", n)?.as_ref())?)));
    }
    counts.push(curve("optimal", steps(errors_of(lab.optimal("count", n)?.0.as_ref())?)));
    let momentum = operators::momentum_errors(lab, operators::MOMENTUM, n)?;
    Ok(vec![
        Panel {
            title: format!("Prefix sums, n = {n}: squared error of each release"),
            horizontal: "step",
            vertical: "Δ²‖b‖²",
            logarithmic: false,
            curves: counts,
        },
        Panel {
            title: format!("Momentum iterates, β = {}, n = {n}", operators::MOMENTUM),
            horizontal: "step",
            vertical: "log10 of Δ²‖b‖²",
            logarithmic: true,
            curves: momentum.into_iter().map(|(label, errors)| curve(label, steps(errors))).collect(),
        },
    ])
}

fn counting_error() -> Result<Vec<Panel>> {
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
        Panel {
            title: "Mean squared error of counting, δ = 1e-10, with the published constant".to_owned(),
            horizontal: "log2 n",
            vertical: "log10 of the mean squared error",
            logarithmic: true,
            curves,
        },
        Panel {
            title: "Published upper and lower bound, and their gap, in units of C²".to_owned(),
            horizontal: "log2 n",
            vertical: "E2",
            logarithmic: false,
            curves: vec![
                bound("upper bound", almost_tight::printed_upper_bound),
                bound("lower bound", almost_tight::printed_lower_bound),
                bound("gap", |n| almost_tight::printed_upper_bound(n) - almost_tight::printed_lower_bound(n)),
            ],
        },
    ])
}

fn max_error_gaps() -> Result<Vec<Panel>> {
    let norms = root_norms(1 << 20);
    let over =
        |of: &dyn Fn(usize) -> f64| (2..=20).map(|log| (f64::from(log), of(1 << log))).collect::<Vec<_>>();
    let upper = |n: usize| bounds::mathias_count_upper(n).sqrt();
    let lower = |n: usize| bounds::mathias_count(n).sqrt();
    let printed = |n: usize| constant_later::printed_count(n as f64);
    let average = |label: &str, of: &dyn Fn(usize) -> Result<f64>| -> Result<Curve> {
        let points: Result<Vec<(f64, f64)>> =
            (1..=8).map(|log| Ok((f64::from(log), of(1 << log)?))).collect();
        Ok(curve(label, points?))
    };
    let largest_error = |name: &str, n: usize| max_error(name, "average", n).map(f64::sqrt);
    let printed_average = |log: u32| (f64::from(log), constant_later::printed_average(f64::from(1 << log)));
    Ok(vec![
        Panel {
            title: "Counting: above the bounds of Mathias".to_owned(),
            horizontal: "log2 T",
            vertical: "difference",
            logarithmic: false,
            curves: vec![
                curve("published bound - upper bound", over(&|n| printed(n) - upper(n))),
                curve("norm of the root - upper bound", over(&|n| norms[n - 1] - upper(n))),
                curve("published bound - lower bound", over(&|n| printed(n) - lower(n))),
                curve("norm of the root - lower bound", over(&|n| norms[n - 1] - lower(n))),
            ],
        },
        Panel {
            title: "Averaging: root of the largest squared error".to_owned(),
            horizontal: "log2 T",
            vertical: "‖L‖‖R‖",
            logarithmic: false,
            curves: vec![
                curve("published bound", (1..=8).map(printed_average)),
                average("root of the average matrix", &constant_later::average_root_norm)?,
                average("root of the count, divided by t", &|n| largest_error("sqrt", n))?,
                average("noise on each input", &|n| largest_error("identity", n))?,
            ],
        },
    ])
}

fn counting_runs() -> Result<Vec<Panel>> {
    let (n, runs) = (1 << 16, 8);
    let mut curves = Vec::new();
    for name in ["binary-tree", "sqrt"] {
        let errors = constant_later::mean_absolute_errors(name, n, runs)?;
        // Means over blocks keep the drawing small.
        let blocks = errors.chunks(128).enumerate();
        let mean = |block: &[f64]| norms::compensated_sum(block.iter().copied()) / block.len() as f64;
        curves.push(curve(name, blocks.map(|(index, block)| (128.0 * (index as f64 + 0.5), mean(block)))));
    }
    Ok(vec![Panel {
        title:
            "Counting 2^16 bits, ε = 0.8, δ = 1e-10: mean absolute error of 8 runs, by blocks of 128 steps"
                .to_owned(),
        horizontal: "step",
        vertical: "mean absolute error",
        logarithmic: false,
        curves,
    }])
}

fn coefficients() -> Result<Vec<Panel>> {
    let mut curves = Vec::new();
    for power in [1.0, 2.0] {
        let gaps = unifying::coefficient_gaps(power, 2049)?;
        let points = gaps.into_iter().enumerate().skip(2).map(|(index, gap)| (index as f64, gap));
        curves.push(curve(format!("f(n) = n^-{power}"), points));
    }
    Ok(vec![Panel {
        title: "f(n+1)/2 - a_n: the estimate of a coefficient less the coefficient".to_owned(),
        horizontal: "n",
        vertical: "log10 of the gap",
        logarithmic: true,
        curves,
    }])
}

fn loss_against_time(n: usize) -> Result<Vec<Panel>> {
    let mut curves = Vec::new();
    for (label, method, eigendecompositions) in
        [("fixed point", Method::FixedPoint, 15), ("Newton's method", Method::Newton, 15)]
    {
        let options = Options { method, eigendecompositions, ..Options::default() };
        curves.push(curve(label, operators::gap_against_time(n, options)?));
    }
    Ok(vec![Panel {
        title: format!("Optimal factorization of {n} prefix sums, from equal weights: what is left to gain"),
        horizontal: "seconds",
        vertical: "log10 of the relative duality gap",
        logarithmic: true,
        curves,
    }])
}

fn draw_panels(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    panels: &[Panel],
) -> std::result::Result<(), String> {
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    for (panel, area) in panels.iter().zip(root.split_evenly((panels.len(), 1))) {
        draw_panel(&area, panel).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    panel: &Panel,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let shown = |value: f64| if panel.logarithmic { value.log10() } else { value };
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let (left, right) = extent(points().map(|(x, _)| *x));
    let (low, high) = extent(points().map(|(_, y)| shown(*y)));
    let air = (high - low) * 0.06;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 19))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(70)
        // Room above the curves for the legend.
        .build_cartesian_2d(left..right, (low - air)..(high + (high - low) * 0.45))?;
    chart
        .configure_mesh()
        .x_desc(panel.horizontal)
        .y_desc(panel.vertical)
        .x_label_formatter(&|value| axis_label(*value, right - left))
        .y_label_formatter(&|value| axis_label(*value, high - low))
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (curve, colour) in panel.curves.iter().zip(COLOURS) {
        chart
            .draw_series(LineSeries::new(
                curve.points.iter().map(|(x, y)| (*x, shown(*y))),
                colour.stroke_width(2),
            ))?
            .label(&curve.label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 14))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .legend_area_size(30)
        .draw()?;
    Ok(())
}

/// A number with as many digits as the range of an axis needs.
fn axis_label(value: f64, range: f64) -> String {
    let digits = if range >= 20.0 { 0 } else { (1.0 - range.log10()).ceil().clamp(0.0, 12.0) as usize };
    format!("{value:.digits$}")
}

/// The least and the largest, apart from each other.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if high > low { (low, high) } else { (low.min(0.0), low.max(0.0) + 1.0) }
}
