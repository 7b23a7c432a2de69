//! How a cost grows with the size of the work: measured points, fitted exponents, tables and charts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chart::{Axis, Chart, Line};
use crate::record;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A calibrated plan of the count over n steps.
    Planning,
    /// The noise of n scalar releases.
    Noise,
    /// n scalar releases, the data included.
    Release,
    /// One step of noise in d coordinates.
    NoiseStep,
    /// One release of d coordinates.
    ReleaseStep,
}

impl Quantity {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] =
        [Self::Planning, Self::Noise, Self::Release, Self::NoiseStep, Self::ReleaseStep];

    /// The symbol of the size.
    pub fn size_name(self) -> &'static str {
        match self {
            Self::Planning | Self::Noise | Self::Release => "n",
            Self::NoiseStep | Self::ReleaseStep => "d",
        }
    }

    /// What the size is.
    pub fn size_axis(self) -> &'static str {
        match self {
            Self::Planning | Self::Noise | Self::Release => "steps n",
            Self::NoiseStep | Self::ReleaseStep => "coordinates d",
        }
    }

    /// A name for files.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Noise => "noise",
            Self::Release => "release",
            Self::NoiseStep => "noise-step",
            Self::ReleaseStep => "release-step",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Planning => "planning a count over n steps",
            Self::Noise => "noise of n scalar releases",
            Self::Release => "n scalar releases",
            Self::NoiseStep => "one step of noise in d coordinates",
            Self::ReleaseStep => "one release of d coordinates",
        })
    }
}

/// What one task took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Seconds of the shortest run.
    pub seconds: f64,
    /// Peak memory beyond what the process had before, in bytes; absent where the system does not say.
    pub bytes: Option<u64>,
}

/// One line of the result: a quantity and a strategy over all sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// What was measured.
    pub quantity: Quantity,
    /// The strategy.
    pub strategy: String,
    /// The sizes, ascending.
    pub sizes: Vec<usize>,
    /// What each size took.
    pub costs: Vec<Cost>,
    /// Time grows like the size to this power.
    pub time_exponent: Option<f64>,
    /// Memory grows like the size to this power.
    pub memory_exponent: Option<f64>,
}

/// Below these the fixed costs of a run hide how it grows.
const SMALLEST_SECONDS: f64 = 1e-5;
const SMALLEST_BYTES: u64 = 1 << 20;

impl Growth {
    /// Fits the exponents of measured costs.
    pub fn new(quantity: Quantity, strategy: &str, sizes: Vec<usize>, costs: Vec<Cost>) -> Self {
        let along = |value: &dyn Fn(&Cost) -> Option<f64>| -> Vec<(f64, f64)> {
            sizes.iter().zip(&costs).filter_map(|(size, cost)| Some((*size as f64, value(cost)?))).collect()
        };
        let times = along(&|cost| (cost.seconds >= SMALLEST_SECONDS).then_some(cost.seconds));
        let memory =
            along(&|cost| cost.bytes.filter(|bytes| *bytes >= SMALLEST_BYTES).map(|bytes| bytes as f64));
        Self {
            quantity,
            strategy: strategy.to_owned(),
            time_exponent: slope(&times),
            memory_exponent: slope(&memory),
            sizes,
            costs,
        }
    }
}

/// The slope of the least squares line through the logarithms of at least three points.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) = (
        logs.iter().map(|point| point.0).sum::<f64>() / count,
        logs.iter().map(|point| point.1).sum::<f64>() / count,
    );
    let covariance: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    Some(covariance / variance)
}

/// A Markdown table for every quantity: the exponents, and what the largest size took.
pub fn markdown(growths: &[Growth]) -> String {
    let mut parts = Vec::new();
    for quantity in Quantity::ALL {
        let rows: Vec<Vec<String>> = growths
            .iter()
            .filter(|growth| growth.quantity == quantity)
            .filter_map(|growth| {
                let (size, cost) = growth.sizes.iter().zip(&growth.costs).next_back()?;
                let exponent =
                    |value: Option<f64>| value.map_or("—".to_owned(), |value| format!("{value:.2}"));
                let per_unit = cost.seconds * 1e9 / *size as f64;
                Some(vec![
                    growth.strategy.clone(),
                    exponent(growth.time_exponent),
                    exponent(growth.memory_exponent),
                    size.to_string(),
                    seconds(cost.seconds),
                    format!("{per_unit:.1}"),
                    cost.bytes.map_or("—".to_owned(), bytes),
                ])
            })
            .collect();
        if rows.is_empty() {
            continue;
        }
        let size = quantity.size_name();
        let headings = [
            "strategy",
            &format!("time ∝ {size}^"),
            &format!("memory ∝ {size}^"),
            &format!("largest {size}"),
            "time there",
            &format!("ns per {size}"),
            "memory there",
        ];
        parts.push(format!("**{quantity}**\n\n{}\n", record::table(&headings, &rows)));
    }
    parts.concat()
}

fn seconds(value: f64) -> String {
    match value {
        value if value >= 1.0 => format!("{value:.2} s"),
        value if value >= 1e-3 => format!("{:.2} ms", value * 1e3),
        value => format!("{:.2} µs", value * 1e6),
    }
}

fn bytes(value: u64) -> String {
    format!("{:.1} MiB", value as f64 / f64::from(1 << 20))
}

/// A chart of time for every quantity, and one of memory.
pub fn charts(growths: &[Growth]) -> Vec<(String, Chart)> {
    let mut charts = Vec::new();
    for quantity in Quantity::ALL {
        let of_quantity: Vec<&Growth> = growths.iter().filter(|growth| growth.quantity == quantity).collect();
        for (what, unit, value) in [
            ("time", "seconds", (|cost: &Cost| Some(cost.seconds)) as fn(&Cost) -> Option<f64>),
            ("memory", "bytes beyond the bare process", |cost| {
                cost.bytes.filter(|bytes| *bytes >= SMALLEST_BYTES).map(|bytes| bytes as f64)
            }),
        ] {
            let lines: Vec<Line> = of_quantity
                .iter()
                .map(|growth| Line {
                    label: growth.strategy.clone(),
                    points: growth
                        .sizes
                        .iter()
                        .zip(&growth.costs)
                        .filter_map(|(size, cost)| Some((*size as f64, value(cost)?)))
                        .collect(),
                })
                .filter(|line| line.points.len() > 1)
                .collect();
            if lines.is_empty() {
                continue;
            }
            let chart = Chart {
                title: format!("{quantity}: {what}"),
                horizontal: (quantity.size_axis().to_owned(), Axis::Logarithmic),
                vertical: (unit.to_owned(), Axis::Logarithmic),
                lines,
            };
            charts.push((format!("{}-{what}", quantity.file_name()), chart));
        }
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(power: f64) -> Growth {
        let sizes: Vec<usize> = (10..17).map(|exponent| 1 << exponent).collect();
        let costs = sizes
            .iter()
            .map(|size| Cost {
                seconds: 1e-6 * (*size as f64).powf(power),
                bytes: Some(1000 * *size as u64 + 7),
            })
            .collect();
        Growth::new(Quantity::Noise, "sqrt", sizes, costs)
    }

    #[test]
    fn exponents_are_found_and_need_enough_points() {
        for power in [0.9, 1.0, 1.5] {
            let found = growth(power).time_exponent.unwrap();
            assert!((found - power).abs() < 1e-9, "{found} for {power}");
        }
        // Memory below 1 MiB does not count: six of the seven sizes are left here.
        assert!((growth(1.0).memory_exponent.unwrap() - 1.0).abs() < 1e-3);
        assert_eq!(slope(&[(1.0, 1.0), (2.0, 2.0)]), None);
    }

    #[test]
    fn tables_and_charts_hold_every_strategy() {
        let growths = [growth(1.0)];
        assert!(markdown(&growths).contains("| sqrt "));
        let charts = charts(&growths);
        assert_eq!(charts.len(), 2);
        for (_, chart) in charts {
            crate::chart::svg(&chart).unwrap();
        }
    }
}
