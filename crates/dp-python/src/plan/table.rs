//! The strategies of a report side by side, as text and as HTML.

use dp_mechanisms::Metric;
use dp_mechanisms::planner::{Evaluation, Report};

const HEADINGS: [&str; 5] = ["strategy", "mean error²", "largest error²", "above the bound", "values kept"];

fn cells(one: &Evaluation) -> [String; 5] {
    [
        one.name.to_owned(),
        format!("{:.4}", one.mse),
        format!("{:.4}", one.max_se),
        format!("{:.2} %", 100.0 * one.gap),
        one.memory.to_string(),
    ]
}

/// The strategies of a report as a table of text.
pub(crate) fn text_table(report: &Report) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(report.strategies.iter().map(cells));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |row: &[String; 5]| {
        let rest = (1..5).map(|column| format!("  {:>1$}", row[column], widths[column]));
        format!("{:<1$}{2}\n", row[0], widths[0], rest.collect::<String>())
    };
    let table: String = rows.iter().map(line).collect();
    format!("{table}nothing is below {:.4} ({})", bound_of(report), bound_kind(report))
}

fn bound_kind(report: &Report) -> &str {
    match report.metric {
        Metric::Mse => &report.lower_bound.kind,
        Metric::Max => &report.lower_bound.max_kind,
    }
}

/// The same as HTML. All words are ours or of the public description, none can hold markup.
pub(crate) fn html_table(words: &str, report: &Report) -> String {
    let row = |tag: &str, cells: &[String; 5]| {
        format!("<tr><{tag}>{}</{tag}></tr>", cells.join(&format!("</{tag}><{tag}>")))
    };
    let head = row("th", &HEADINGS.map(str::to_owned));
    let body: String = report.strategies.iter().map(|one| row("td", &cells(one))).collect();
    format!(
        "<p>{words}</p><table><thead>{head}</thead><tbody>{body}</tbody></table><p>nothing is below {:.4} ({})</p>",
        bound_of(report),
        bound_kind(report)
    )
}

/// What nothing can beat in the metric that was asked for.
pub(crate) fn bound_of(report: &Report) -> f64 {
    match report.metric {
        Metric::Mse => report.lower_bound.mse,
        Metric::Max => report.lower_bound.max_se,
    }
}
