//! Curves with bands, drawn as SVG.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::files;

/// Colours that stay apart in print and for colour-blind readers.
pub(crate) const BLUE: RGBColor = RGBColor(0, 90, 181);
/// See [`BLUE`].
pub(crate) const ORANGE: RGBColor = RGBColor(220, 90, 0);
/// See [`BLUE`].
pub(crate) const GREEN: RGBColor = RGBColor(34, 136, 51);
/// See [`BLUE`].
pub(crate) const DARK: RGBColor = RGBColor(40, 40, 40);
/// Colours for several series side by side, told apart also by their lightness.
const SERIES: [RGBColor; 6] =
    [RGBColor(136, 136, 136), RGBColor(204, 187, 68), ORANGE, GREEN, RGBColor(102, 204, 238), BLUE];

/// A curve, and a band with a lower and an upper edge at every point unless `band` is empty.
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) colour: RGBColor,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) band: Vec<(f64, f64)>,
}

impl Curve {
    /// A curve through noisy values with the band that holds 95 % of their noise, from triples of place, value and
    /// standard deviation.
    pub(crate) fn noisy(
        label: String,
        colour: RGBColor,
        values: impl IntoIterator<Item = (f64, f64, f64)>,
    ) -> Self {
        let (points, band) = values
            .into_iter()
            .map(|(x, y, deviation)| ((x, y), (y - 1.96 * deviation, y + 1.96 * deviation)))
            .unzip();
        Self { label, colour, points, band }
    }
}

/// As many columns as a drawing has: more points than this many times two cannot be told apart.
const COLUMNS: usize = 960;

impl Curve {
    /// A curve with at most two points per column of the drawing, the lowest and the highest of each, so that what stands out
    /// stays; its band is as wide as that of all points of the column.
    fn for_screen(&self) -> Self {
        let Self { label, colour, .. } = self;
        let (mut points, mut band) = (Vec::new(), Vec::new());
        let width = self.points.len().div_ceil(COLUMNS);
        if width <= 2 {
            points.clone_from(&self.points);
            band.clone_from(&self.band);
        } else {
            for (column, chunk) in self.points.chunks(width).enumerate() {
                let by_height = |left: &&(f64, f64), right: &&(f64, f64)| left.1.total_cmp(&right.1);
                let (low, high) = (chunk.iter().min_by(by_height), chunk.iter().max_by(by_height));
                let (Some(low), Some(high)) = (low, high) else { continue };
                let pair = if low.0 <= high.0 { [*low, *high] } else { [*high, *low] };
                points.extend(pair);
                if let Some(edges) = self.band.get(column * width..column * width + chunk.len()) {
                    let bottom = edges.iter().map(|edge| edge.0).fold(f64::INFINITY, f64::min);
                    let top = edges.iter().map(|edge| edge.1).fold(f64::NEG_INFINITY, f64::max);
                    band.extend([(bottom, top); 2]);
                }
            }
        }
        Self { label: label.clone(), colour: *colour, points, band }
    }
}

/// Refuses to draw over a file that is not a drawing, before anything is released.
pub(crate) fn check(path: &Path, overwrite: bool) -> Result<()> {
    if overwrite || files::kind(path)? != files::Kind::Regular {
        return Ok(());
    }
    let mut start = [0; 4];
    let mut file = File::open(path).with_context(|| format!("cannot look at `{}`", path.display()))?;
    let length = file.read(&mut start).with_context(|| format!("cannot look at `{}`", path.display()))?;
    if length > 0 && start[..length] != b"<svg"[..length] {
        bail!("`{}` is not a drawing, and --plot would replace it; give another file", path.display());
    }
    Ok(())
}

/// One diagram.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) horizontal: String,
    pub(crate) vertical: String,
    /// Room for the legend above the curves, as a share of their height.
    pub(crate) headroom: f64,
    pub(crate) curves: Vec<Curve>,
}

/// Draws panels below one another.
pub(crate) fn draw(path: &Path, title: &str, panels: &[Panel]) -> Result<()> {
    let height = 60 + 420 * panels.len() as u32;
    let root = SVGBackend::new(path, (960, height)).into_drawing_area();
    let drawn =
        draw_on(&root, title, panels).and_then(|()| root.present().map_err(|error| error.to_string()));
    drawn.map_err(|error| anyhow!("cannot draw `{}`: {error}", path.display()))
}

fn draw_on(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    panels: &[Panel],
) -> std::result::Result<(), String> {
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    let area = root.titled(title, ("sans-serif", 26)).map_err(|error| error.to_string())?;
    for (panel, area) in panels.iter().zip(area.split_evenly((panels.len(), 1))) {
        draw_panel(&area, panel).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    panel: &Panel,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (horizontal, vertical) = ranges(panel);
    let curves: Vec<Curve> = panel.curves.iter().map(Curve::for_screen).collect();
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 19))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(horizontal.0..horizontal.1, vertical.0..vertical.1)?;
    chart
        .configure_mesh()
        .x_desc(&panel.horizontal)
        .y_desc(&panel.vertical)
        .x_label_formatter(&|value| label(*value, horizontal.1 - horizontal.0))
        .y_label_formatter(&|value| label(*value, vertical.1 - vertical.0))
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for curve in &curves {
        if !curve.band.is_empty() {
            let along = || curve.points.iter().zip(&curve.band);
            let lower = along().map(|((x, _), (low, _))| (*x, *low));
            let upper = along().rev().map(|((x, _), (_, high))| (*x, *high));
            let outline: Vec<(f64, f64)> = lower.chain(upper).collect();
            chart.draw_series(std::iter::once(Polygon::new(outline, curve.colour.mix(0.18))))?;
        }
    }
    for curve in &curves {
        let colour = curve.colour;
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?
            .label(&curve.label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 15))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .margin(8)
        .legend_area_size(30)
        .draw()?;
    Ok(())
}

/// A measured value with its standard error.
pub(crate) struct Measured {
    pub(crate) at: f64,
    pub(crate) value: f64,
    pub(crate) error: f64,
}

/// Measurements of one thing under several budgets.
pub(crate) struct Dots {
    pub(crate) label: String,
    /// Beside the point: a limit rather than a contestant.
    pub(crate) dashed: bool,
    pub(crate) points: Vec<Measured>,
}

/// Draws measurements with error bars of two standard errors over a logarithmic ε.
pub(crate) fn draw_against_budget(path: &Path, title: &str, vertical: &str, series: &[Dots]) -> Result<()> {
    let root = SVGBackend::new(path, (960, 600)).into_drawing_area();
    let drawn = draw_dots(&root, title, vertical, series)
        .and_then(|()| root.present().map_err(std::convert::Into::into))
        .map_err(|error| error.to_string());
    drawn.map_err(|error| anyhow!("cannot draw `{}`: {error}", path.display()))
}

fn draw_dots(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    vertical: &str,
    series: &[Dots],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let points = || series.iter().flat_map(|dots| &dots.points);
    let mut budgets: Vec<f64> = points().map(|point| point.at).collect();
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    let (first, last) = (budgets.first().copied().unwrap_or(1.0), budgets.last().copied().unwrap_or(1.0));
    let bars = points().flat_map(|point| [point.value - 2.0 * point.error, point.value + 2.0 * point.error]);
    let extent = bars.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
    let (low, high) = widen(extent, 0.06);
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 22))
        .margin(12)
        .margin_right(24)
        .x_label_area_size(48)
        .y_label_area_size(70)
        .build_cartesian_2d((first / 1.15..last * 1.15).log_scale().with_key_points(budgets), low..high)?;
    chart
        .configure_mesh()
        .x_desc("ε (logarithmic); bars: two standard errors")
        .y_desc(vertical)
        .x_label_formatter(&ToString::to_string)
        .y_label_formatter(&|value| label(*value, high - low))
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for (index, dots) in series.iter().enumerate() {
        let colour = if dots.dashed { DARK } else { SERIES[index % SERIES.len()] };
        let line = dots.points.iter().map(|point| (point.at, point.value));
        let style = colour.stroke_width(2);
        let drawn = if dots.dashed {
            chart.draw_series(DashedLineSeries::new(line, 6, 5, style))?
        } else {
            chart.draw_series(LineSeries::new(line, style))?
        };
        drawn
            .label(&dots.label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(3)));
        for point in &dots.points {
            let (at, half) = (point.at, 2.0 * point.error);
            let bar = vec![(at, point.value - half), (at, point.value + half)];
            chart.draw_series([PathElement::new(bar, style)])?;
            chart.draw_series([Circle::new((at, point.value), 3, colour.filled())])?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(("sans-serif", 15))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .margin(8)
        .legend_area_size(30)
        .draw()?;
    Ok(())
}

/// A number with as many digits as the range of an axis needs.
fn label(value: f64, range: f64) -> String {
    let digits = if range >= 20.0 { 0 } else { (1.0 - range.log10()).ceil().clamp(1.0, 12.0) as usize };
    format!("{value:.digits$}")
}

/// The extent of curves and bands, with some air above and below. A constant curve gets a range around it.
fn ranges(panel: &Panel) -> ((f64, f64), (f64, f64)) {
    let mut horizontal = (f64::INFINITY, f64::NEG_INFINITY);
    let mut vertical = horizontal;
    for curve in &panel.curves {
        for (index, (x, y)) in curve.points.iter().enumerate() {
            let (low, high) = curve.band.get(index).copied().unwrap_or((*y, *y));
            horizontal = (horizontal.0.min(*x), horizontal.1.max(*x));
            vertical = (vertical.0.min(low.min(*y)), vertical.1.max(high.max(*y)));
        }
    }
    let (low, high) = widen(vertical, 0.06);
    (widen(horizontal, 0.0), (low, high + (high - low) * panel.headroom))
}

fn widen((low, high): (f64, f64), share: f64) -> (f64, f64) {
    if !(low.is_finite() && high.is_finite()) {
        return (0.0, 1.0);
    }
    let air = (high - low) * share;
    if high > low { (low - air, high + air) } else { (low - 1.0, high + 1.0) }
}
