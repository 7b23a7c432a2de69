//! `dp plan --sampling-rate`: how many bands are best when every step draws a part of the people.

use anyhow::Result;
use dp_mechanisms::accountant::sampling::{SampledPlan, compare_bands};
use dp_mechanisms::budget::Kind;
use dp_mechanisms::{Budget, Problem};
use serde_json::{Value, json};

use crate::arguments::Usage;
use crate::output::{self, Table};

/// Prints a row for each number of bands: independent noise with the most amplification first, the most correlation last.
pub(super) fn run(problem: &Problem, rate: f64, budget: &Budget, as_json: bool) -> Result<()> {
    let Kind::Approximate { epsilon, delta } = budget.kind() else {
        return Err(Usage::error("--sampling-rate needs a budget of --epsilon and --delta"));
    };
    let plans = compare_bands(problem, rate, None, 1.0, epsilon, delta).map_err(Usage::error)?;
    let error = |plan: &SampledPlan| plan.error(problem.metric());
    let best = plans.iter().map(error).fold(f64::INFINITY, f64::min);
    let chosen = plans.iter().find(|plan| error(plan) <= best).map_or(1, |plan| plan.sampling().groups());
    if as_json {
        let rows: Vec<Value> = plans.iter().map(row).collect();
        return output::json(&json!({
            "workload": problem.workload().to_string(),
            "steps": problem.steps(),
            "sampling_rate": rate,
            "epsilon": epsilon,
            "delta": delta,
            "bands": rows,
            "chosen": chosen,
        }));
    }
    output::line(&format!(
        "{} over {} steps, each with {rate} of the people; add or remove one person\n",
        problem.workload(),
        problem.steps()
    ))?;
    table(&plans).print()?;
    output::line(&format!(
        "\nbest: {chosen} bands, with the people in as many groups that take turns; deviations for a contribution of at most 1"
    ))
}

/// A line for each plan.
pub(crate) fn table(plans: &[SampledPlan]) -> Table {
    let mut table = Table::new(&[
        "bands and groups",
        "rate in a group",
        "noise multiplier",
        "σ",
        "typical deviation",
        "largest deviation",
    ]);
    for plan in plans {
        table.row(vec![
            plan.sampling().groups().to_string(),
            format!("{:.6}", plan.sampling().rate()),
            format!("{:.4}", plan.multiplier().upper),
            format!("{:.4}", plan.sigma()),
            format!("{:.4}", plan.mean_squared_error().sqrt()),
            format!("{:.4}", plan.max_squared_error().sqrt()),
        ]);
    }
    table
}

/// The same for a program.
pub(crate) fn row(plan: &SampledPlan) -> Value {
    json!({
        "bands": plan.sampling().groups(),
        "rate": plan.sampling().rate(),
        "rounds": plan.sampling().rounds(),
        "noise_multiplier": plan.multiplier().upper,
        "noise_multiplier_lower": plan.multiplier().lower,
        "sensitivity_squared": plan.sensitivity_squared(),
        "sigma": plan.sigma(),
        "standard_deviation": plan.mean_squared_error().sqrt(),
        "max_standard_deviation": plan.max_squared_error().sqrt(),
    })
}
