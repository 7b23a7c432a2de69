//! Several statistics of one stream: the joint plan beside each statistic alone and beside a split budget.

use anyhow::Result;
use dp_mechanisms::planner::Report;
use dp_mechanisms::{Joint, Problem};
use serde_json::json;

use super::{document, factor, print};
use crate::arguments::Usage;
use crate::output::{self, Table};

/// Prints the planner's report and what its choice means for every statistic.
pub(super) fn show(problem: Problem, report: &Report, mu: Option<f64>, json: bool) -> Result<()> {
    let found = Joint::new(problem, report.strategy.clone()).and_then(|joint| joint.report());
    let found = found.map_err(Usage::error)?;
    if json {
        let mut document = document(report, mu)?;
        document["joint"] = json!(found);
        return output::json(&document);
    }
    print(report, mu)?;
    output::line(
        "\nThe errors above are weighted sums. Each statistic by itself, in the plan that is best for all:\n",
    )?;
    let mut headings = vec![
        "statistic",
        "weight",
        "mean error²",
        "alone",
        "times alone",
        "split budget",
        "nothing is below",
    ];
    if mu.is_some() {
        headings.push("typical deviation");
    }
    let mut table = Table::new(&headings);
    for one in &found.statistics {
        let mut row = vec![
            one.workload.clone(),
            factor(one.weight),
            factor(one.error),
            factor(one.alone),
            format!("{:.3}", one.above_alone),
            format!("{:.3}", one.split / one.alone),
            factor(one.lower_bound),
        ];
        if let Some(mu) = mu {
            row.push(factor(one.error.sqrt() / mu));
        }
        table.row(row);
    }
    table.print()?;
    output::line(&format!(
        "\none noise by {}: the weighted sum is within {:.2} % of what nothing can beat",
        found.strategy,
        100.0 * found.gap
    ))
}
