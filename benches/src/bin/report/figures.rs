//! The figures of the page.

use std::fmt::Write as _;

use anyhow::Result;
use dp_benches::chart::{self, Axis, Chart, Line};
use dp_benches::growth::{self, Growth};
use dp_benches::record::{self, Record};
use dp_mechanisms::{Method, Participation, Problem, Workload, bounds};

/// An SVG document as a figure that follows the colours of the page.
pub(crate) fn figure(svg: &str, caption: &str) -> String {
    // Its own width would keep it from shrinking on a phone; the view box keeps its proportions.
    let themed = chart::themed(svg);
    let body = themed.find("<svg").map_or(themed.as_str(), |start| &themed[start..]);
    let responsive = match (body.find(" width="), body.find(" viewBox=")) {
        (Some(width), Some(view)) if width < view => format!("{}{}", &body[..width], &body[view..]),
        _ => body.to_owned(),
    };
    format!("<figure>{responsive}<figcaption>{caption}</figcaption></figure>\n")
}

/// Errors over the horizon and over the steps.
pub(crate) fn accuracy(quick: bool) -> Result<String> {
    let count = Workload::count();
    let mut horizons: Vec<usize> = (3..=if quick { 8 } else { 20 }).map(|exponent| 1 << exponent).collect();
    let error = |name: &str, steps: usize| -> Result<f64> {
        let strategy = name.parse::<Method>()?.build(&Problem::new(count.clone(), steps)?)?;
        Ok(strategy.sensitivity(Participation::Single)?.squared * strategy.row_norms()?.mean())
    };
    let mut lines = Vec::new();
    for name in ["binary-tree", "honaker-online", "honaker-full", "sqrt", "normalized-sqrt", "scaled-blt"] {
        let points = horizons
            .iter()
            .map(|&steps| Ok((steps as f64, error(name, steps)?)))
            .collect::<Result<Vec<_>>>()?;
        lines.push(Line { label: name.to_owned(), points });
    }
    horizons.retain(|&steps| steps >= 8);
    let points = horizons
        .iter()
        .map(|&steps| Ok((steps as f64, bounds::mean(&count, steps)?.value)))
        .collect::<Result<Vec<_>>>()?;
    lines.push(Line { label: "no strategy is below".to_owned(), points });
    let over_horizons = Chart {
        title: "Mean squared error of the running count".to_owned(),
        horizontal: ("steps n".to_owned(), Axis::Logarithmic),
        vertical: ("error² at unit sensitivity and μ".to_owned(), Axis::Linear),
        lines,
    };
    let steps = if quick { 64 } else { 512 };
    let mut lines = Vec::new();
    for name in ["binary-tree", "honaker-online", "honaker-full", "optimal"] {
        let strategy = name.parse::<Method>()?.build(&Problem::new(count.clone(), steps)?)?;
        let squared = strategy.sensitivity(Participation::Single)?.squared;
        let rows = strategy.row_norms()?;
        let points = rows.iter().zip(1..).map(|(row, t)| (f64::from(t), squared * row)).collect();
        lines.push(Line { label: name.to_owned(), points });
    }
    let over_steps = Chart {
        title: format!("Squared error of every step of {steps}"),
        horizontal: ("step".to_owned(), Axis::Linear),
        vertical: ("error² at unit sensitivity and μ".to_owned(), Axis::Linear),
        lines,
    };
    let mut body = String::from(
        "<p>All strategies below answer the same question with the same guarantee. The difference is how noise is \
         correlated across steps.</p>",
    );
    body += &figure(
        &chart::svg(&over_horizons)?,
        "The lowest line is a lower bound that holds for every factorization; the best strategies lie on it.",
    );
    body += &figure(
        &chart::svg(&over_steps)?,
        "The binary tree is as uneven as the number of ones in t; the optimal strategy is smooth and far below.",
    );
    Ok(body)
}

/// How time and memory grow, from the record.
pub(crate) fn costs() -> Result<String> {
    let Some(record) = Record::<Vec<Growth>>::read(&record::folder(), "scale")? else {
        return Ok("<p>Not recorded yet; run <code>cargo xtask scale --record</code>.</p>".to_owned());
    };
    let mut body = crate::markdown(&record.heading());
    for (_, chart) in growth::charts(&record.results) {
        write!(body, "{}", figure(&chart::svg(&chart)?, ""))?;
    }
    body += &crate::markdown(&growth::markdown(&record.results));
    Ok(body)
}
