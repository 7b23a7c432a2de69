//! Line charts as SVG text, for files and for pages.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Equal steps.
    Linear,
    /// Equal ratios, of positive values.
    Logarithmic,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    /// What the legend says.
    pub label: String,
    /// Its points, from left to right. Points that are not finite, or that a logarithmic axis has no place for, are left
    /// out.
    pub points: Vec<(f64, f64)>,
}

/// One chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The sentence above it.
    pub title: String,
    /// What the horizontal axis shows.
    pub horizontal: (String, Axis),
    /// What the vertical axis shows.
    pub vertical: (String, Axis),
    /// The lines, at most as many as there are colours that can be told apart.
    pub lines: Vec<Line>,
}

/// Colours that stay apart in print, for colour-blind readers, and on light and dark paper.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(150, 110, 30),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 240),
    RGBColor(128, 128, 128),
];

const SIZE: (u32, u32) = (860, 460);

/// The chart as an SVG document on white paper.
///
/// # Errors
/// No point to draw.
pub fn svg(chart: &Chart) -> Result<String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&root, chart).map_err(|error| anyhow!("cannot draw `{}`: {error}", chart.title))?;
    }
    Ok(text)
}

/// An SVG document for a page with light and dark paper: the page's own text colour in place of black and nearly black, and
/// no paper of its own.
pub fn themed(svg: &str) -> String {
    [
        ("#000000", "currentColor"),
        ("#282828", "currentColor"),
        ("fill=\"#FFFFFF\"", "fill=\"none\""),
        ("stroke=\"#FFFFFF\"", "stroke=\"none\""),
    ]
    .iter()
    .fold(svg.to_owned(), |text, (fixed, themed)| text.replace(fixed, themed))
}

type Failure = Box<dyn std::error::Error>;

fn draw(root: &DrawingArea<SVGBackend<'_>, Shift>, chart: &Chart) -> Result<(), Failure> {
    root.fill(&WHITE)?;
    // Room for the legend above the lines.
    let headroom = if chart.lines.len() > 1 { 0.1 + 0.05 * chart.lines.len() as f64 } else { 0.05 };
    let x = extent(chart, chart.horizontal.1, 0.02, |point| point.0)?;
    let y = extent(chart, chart.vertical.1, headroom, |point| point.1)?;
    match (chart.horizontal.1, chart.vertical.1) {
        (Axis::Linear, Axis::Linear) => draw_in(root, chart, x, y),
        (Axis::Linear, Axis::Logarithmic) => draw_in(root, chart, x, y.log_scale()),
        (Axis::Logarithmic, Axis::Linear) => draw_in(root, chart, x.log_scale(), y),
        (Axis::Logarithmic, Axis::Logarithmic) => draw_in(root, chart, x.log_scale(), y.log_scale()),
    }?;
    root.present()?;
    Ok(())
}

fn draw_in<X, Y>(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    chart: &Chart,
    horizontal: X,
    vertical: Y,
) -> Result<(), Failure>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut canvas = ChartBuilder::on(root)
        .caption(&chart.title, ("sans-serif", 20))
        .margin(10)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(76)
        .build_cartesian_2d(horizontal, vertical)?;
    canvas
        .configure_mesh()
        .x_desc(&chart.horizontal.0)
        .y_desc(&chart.vertical.0)
        .x_labels(6)
        .x_label_formatter(&|value| label(*value))
        .y_label_formatter(&|value| label(*value))
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.13))
        .draw()?;
    for (line, colour) in chart.lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = drawable(chart, line).collect();
        canvas
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(&line.label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(3)));
        if points.len() <= 40 {
            canvas.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
    }
    if chart.lines.len() > 1 {
        canvas
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans-serif", 14))
            .background_style(TRANSPARENT)
            .border_style(BLACK.mix(0.25))
            .margin(8)
            .legend_area_size(30)
            .draw()?;
    }
    Ok(())
}

fn drawable<'a>(chart: &Chart, line: &'a Line) -> impl Iterator<Item = (f64, f64)> + use<'a> {
    let fits = |axis: Axis| move |value: f64| value.is_finite() && (axis == Axis::Linear || value > 0.0);
    let (horizontally, vertically) = (fits(chart.horizontal.1), fits(chart.vertical.1));
    line.points.iter().copied().filter(move |(x, y)| horizontally(*x) && vertically(*y))
}

/// The range of a coordinate, with some air below it and a share of its length above.
fn extent(
    chart: &Chart,
    axis: Axis,
    above: f64,
    coordinate: impl Fn((f64, f64)) -> f64,
) -> Result<std::ops::Range<f64>, Failure> {
    let on_axis = |value: f64| if axis == Axis::Logarithmic { value.ln() } else { value };
    let values =
        || chart.lines.iter().flat_map(|line| drawable(chart, line)).map(|point| on_axis(coordinate(point)));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    if !(low <= high) {
        return Err("there are no points".into());
    }
    let length = if high > low { high - low } else { 1.0 };
    let (low, high) = (low - 0.03 * length, high + above * length);
    Ok(if axis == Axis::Logarithmic { low.exp()..high.exp() } else { low..high })
}

/// A number as a person would write it on an axis.
fn label(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1e5 || (magnitude < 1e-2 && magnitude > 0.0) {
        return format!("{value:.0e}");
    }
    // As many digits as it needs, and no trailing zeros.
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(axis: Axis, points: Vec<(f64, f64)>) -> Chart {
        Chart {
            title: "growth".to_owned(),
            horizontal: ("steps".to_owned(), axis),
            vertical: ("seconds".to_owned(), axis),
            lines: vec![Line { label: "one".to_owned(), points }],
        }
    }

    #[test]
    fn every_combination_of_axes_draws_its_points() {
        let points = vec![(1.0, 0.5), (10.0, 5.0), (100.0, f64::NAN), (1000.0, 400.0)];
        for axis in [Axis::Linear, Axis::Logarithmic] {
            let text = svg(&chart(axis, points.clone())).unwrap();
            assert!(text.starts_with("<svg") && text.contains("growth"), "{text}");
            assert_eq!(text.matches("<circle").count(), 3);
            let page = themed(&text);
            assert!(!page.contains("#000000") && !page.contains("#FFFFFF") && page.contains("currentColor"));
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(svg(&chart(Axis::Linear, vec![])).is_err());
        assert!(svg(&chart(Axis::Logarithmic, vec![(0.0, 1.0), (1.0, -2.0)])).is_err());
    }

    #[test]
    fn labels_are_short() {
        for (value, text) in [(0.0, "0"), (1.5, "1.5"), (1024.0, "1024"), (1e6, "1e6"), (2e-3, "2e-3")] {
            assert_eq!(label(value), text);
        }
    }
}
