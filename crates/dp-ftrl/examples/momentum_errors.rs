//! The noise in the iterates of gradient descent with momentum: the best strategy for the momentum workload beside
//! strategies for prefix sums, as the table in the documentation of `dp_ftrl::iterates`.

use dp_ftrl::{Result, iterates};
use dp_mechanisms::{Method, Participation, Problem, Workload};

/// The momenta of the table.
pub(crate) const MOMENTA: [f64; 5] = [0.0, 0.5, 0.9, 0.95, 0.99];

/// The strategies for prefix sums that the best one for the momentum is compared with.
pub(crate) const PREFIX_SUM_STRATEGIES: [&str; 5] =
    ["optimal", "scaled-sqrt", "sqrt", "honaker-online", "binary-tree"];

/// E2 for each momentum: first of the best strategy for the momentum, then of those for prefix sums.
pub(crate) fn errors(steps: usize) -> Result<Vec<Vec<f64>>> {
    let single = Participation::Single;
    let workload = |momentum: f64| Workload::momentum(momentum, &[1.0]);
    let mut rows = vec![Vec::new(); 1 + PREFIX_SUM_STRATEGIES.len()];
    for momentum in MOMENTA {
        let own = Method::Optimal.build(&Problem::new(workload(momentum)?, steps)?)?;
        rows[0].push(iterates::mean_squared_error(own.as_ref(), &workload(momentum)?, single)?);
    }
    for (row, name) in rows[1..].iter_mut().zip(PREFIX_SUM_STRATEGIES) {
        let strategy = name.parse::<Method>()?.build(&Problem::new(Workload::count(), steps)?)?;
        for momentum in MOMENTA {
            row.push(iterates::mean_squared_error(strategy.as_ref(), &workload(momentum)?, single)?);
        }
    }
    Ok(rows)
}

/// Prints the table.
pub(crate) fn main() -> Result<()> {
    let rows = errors(256)?;
    println!("| strategy | β = {} |", MOMENTA.map(|momentum| momentum.to_string()).join(" | β = "));
    println!("|---|{}", "---|".repeat(MOMENTA.len()));
    let names = std::iter::once("`optimal` for the momentum".to_owned())
        .chain(PREFIX_SUM_STRATEGIES.map(|name| format!("`{name}` for the count")));
    for (name, row) in names.zip(&rows) {
        let values: Vec<String> = row.iter().map(|value| significant(*value)).collect();
        println!("| {name} | {} |", values.join(" | "));
    }
    Ok(())
}

/// Five significant digits.
fn significant(value: f64) -> String {
    let before = value.abs().log10().floor().max(0.0) as usize + 1;
    format!("{value:.*}", 5_usize.saturating_sub(before))
}
