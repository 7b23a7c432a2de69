//! The promise in words, for people and for the file of a data protection officer.

use std::fmt::Write as _;

use dp_mechanisms::Relation;

use crate::encoding::{LARGEST_CELL, Measure};
use crate::ledger::{Ledger, epsilon_of};
use crate::plan::Planned;
use crate::spec::{BadRows, By, Late, Of, Promise, Protects, Spec};
use crate::state::{Header, Randomness};

/// What the budget is, in one phrase.
pub(crate) fn budget(spec: &Spec) -> String {
    match spec.privacy.budget {
        Promise::Approximate { epsilon, delta } => format!("ε = {epsilon}, δ = {delta:e}"),
        Promise::ZeroConcentrated { rho } => format!("ρ = {rho} (zero-concentrated)"),
        Promise::Pure { epsilon } => format!("ε = {epsilon} (pure, without any δ)"),
    }
}

/// The program that makes the promise.
pub(crate) const PROGRAM: &str = concat!("dp ", env!("CARGO_PKG_VERSION"));

/// The δ at which a budget that has none is said as an ε.
const USUAL_DELTA: f64 = 1e-6;

/// What "almost the same" means here.
pub(crate) fn odds(spec: &Spec, header: &Header) -> Option<String> {
    let (epsilon, delta) = match spec.privacy.budget {
        Promise::Approximate { epsilon, delta } => (epsilon, delta),
        Promise::Pure { epsilon } => (epsilon, 0.0),
        Promise::ZeroConcentrated { .. } => (epsilon_of(header.present(), USUAL_DELTA).ok()?, USUAL_DELTA),
    };
    Some(meaning(epsilon, delta))
}

/// What a promise of (ε, δ) means for whoever is protected: `P(S) ≤ e^ε P'(S) + δ` for every event S, in words.
///
/// # Example
/// ```
/// let words = dp_events::guarantee::meaning(1.0, 0.0);
/// assert!(words.contains("at most 2.719 times"));
/// ```
pub fn meaning(epsilon: f64, delta: f64) -> String {
    // Rounded up, as a promise must be.
    let factor = (epsilon.exp() * 1000.0).ceil() / 1000.0;
    let (plus, symbols) =
        if delta > 0.0 { (format!(", plus {delta}"), "e^ε and δ") } else { (String::new(), "e^ε") };
    format!(
        "Almost the same means: whatever somebody could conclude from all of it, the chance of that conclusion is at most \
         {factor} times what it would be then{plus} ({symbols} of differential privacy)."
    )
}

/// The promise on a slip of paper: what is protected, how much of one person counts, what that means, against whom it holds, and
/// what it costs.
pub(crate) fn receipt(spec: &Spec, header: &Header) -> Vec<String> {
    let mut lines = Vec::new();
    if header.randomness != Randomness::System {
        lines.push("These numbers were made with a reproducible seed and protect nobody.".to_owned());
    }
    lines.push(protection(spec));
    lines.extend(limits(spec));
    lines.extend(odds(spec, header));
    lines.push(AGAINST.to_owned());
    let spent = Ledger { entries: header.ledger.clone(), reproducible: false };
    lines.push(format!(
        "The budget is {}, spent once for all steps: ρ = {:.6}, μ = {:.6}.",
        budget(spec),
        spent.rho(),
        spent.mu()
    ));
    lines
}

/// What is protected, in one sentence.
pub(crate) fn protection(spec: &Spec) -> String {
    let change = match spec.privacy.relation {
        Relation::ZeroOut => "left out",
        Relation::Replace => "replaced by any others",
    };
    let whose = match spec.privacy.protects {
        Protects::Person => "all rows of any one person",
        Protects::PersonStep => "all rows of any one person within one step",
        Protects::Event => "any one row",
    };
    format!(
        "Everything published here, over all {} steps together, would look almost the same if {whose} were {change}.",
        spec.calendar.steps()
    )
}

/// Who this protects against, and from what it does not.
pub(crate) const AGAINST: &str = "This holds against anybody who sees all of it, whatever else they know and however much \
    they compute. It does not hold against whoever holds the input files or the sealed state, and it does not hide what is \
    true of many people at once.";

/// How much of one person counts, in one sentence.
pub(crate) fn limits(spec: &Spec) -> Option<String> {
    let limits = spec.limits;
    match spec.privacy.protects {
        Protects::Person => Some(format!(
            "Of one person at most {} in a step and at most {} count{}; the rest is left out, and nobody is told.",
            counted(limits.rows_per_step, "row"),
            counted(limits.steps, "step"),
            if limits.steps > 1 && limits.separation > 1 {
                format!(", any two at least {} steps apart", limits.separation)
            } else {
                String::new()
            }
        )),
        Protects::PersonStep => Some(format!(
            "Of one person at most {} in a step count; the rest is left out, and nobody is told. Somebody who appears in many \
             steps is protected in each of them, not in all together.",
            counted(limits.rows_per_step, "row")
        )),
        Protects::Event => None,
    }
}

fn counted(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The document.
pub(crate) fn document(spec: &Spec, planned: &[Planned], header: &Header) -> String {
    let mut text = String::from("# Guarantee\n\n");
    if header.randomness != Randomness::System {
        text.push_str("**These numbers were made with a reproducible seed and protect nobody.**\n\n");
    }
    let _ = writeln!(text, "{} {AGAINST}\n", protection(spec));
    text.push_str("## What is promised\n\n| | |\n|---|---|\n");
    let _ = writeln!(text, "| budget of everything together | {} |", budget(spec));
    let relation = match spec.privacy.relation {
        Relation::ZeroOut => "zero-out: inputs with and without the data of one",
        Relation::Replace => "replace: the data of one exchanged for any other, at the same or other times",
    };
    let _ = writeln!(text, "| protects | {} |", spec.privacy.protects.word());
    let _ = writeln!(text, "| neighbouring inputs | {relation} |");
    let first = spec.calendar.label(0);
    let end = spec.calendar.end_label(spec.calendar.steps() - 1);
    let _ = writeln!(
        text,
        "| steps | {} of {}, from {first} to {end} ({}) |",
        spec.calendar.steps(),
        spec.calendar.length(),
        spec.calendar.zone()
    );
    let late = match spec.late {
        Late::Drop => "left out",
        Late::Next => "counted in the first open step, to which they then belong",
    };
    let _ = writeln!(text, "| rows of a step that is published already | {late} |");
    let bad = match spec.input.bad_rows {
        BadRows::Drop => "left out, and nobody is told",
        BadRows::Refuse => {
            "the run stops; that it stopped depends on the data and is seen by the operator only"
        }
    };
    let _ = writeln!(text, "| rows that cannot be used | {bad} |");
    if let Some(limits) = limits(spec) {
        let _ = writeln!(text, "\n{limits}");
    }
    spending(&mut text, spec, planned, header);
    let noise = match spec.privacy.budget {
        Promise::Pure { .. } => "discrete Laplace",
        _ => "discrete Gaussian",
    };
    let margin = if spec.counts_repeatedly() {
        "; where a person counts in several steps, most of a margin above a few percent is that of the proof"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "\nThe noise is {noise}, sampled and added in exact integer arithmetic; rounding afterwards cannot \
         undo it. The standard deviation of the strategy (the root of the mean square over all steps, and over the statistics of a release \
         as they are weighted) is proved to be at most as much above that of any other strategy as the table says{margin}. Bands hold the number without noise with probability 95 %, each by itself."
    );
    if planned.iter().any(|planned| planned.encoding.measure == Measure::Sum) {
        let _ = writeln!(
            text,
            "A sum within one step and key counts as at most {LARGEST_CELL} units of its resolution."
        );
    }
    let _ = writeln!(text, "\nMade by {PROGRAM}.");
    text
}

/// A fraction in percent, rounded up.
fn at_most(fraction: f64) -> String {
    format!("at most {:.2} %", (fraction * 1e4).ceil() / 100.0)
}

/// What is spent, release by release.
fn spending(text: &mut String, spec: &Spec, planned: &[Planned], header: &Header) {
    text.push_str(
        "\nA step is published when its end has passed, whether it has rows or not: the number, the times and the names of \
         all lines are known beforehand, but for keys that are not listed.\n\n## What is spent\n\nThe budget is spent once, for all steps of the horizon, when the \
         first step is published.\n\n| release | of | statistics | keys | strategy | standard deviation above the least there can be | ρ | μ |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (release, planned) in spec.releases.iter().zip(planned) {
        let of = match (&planned.encoding.measure, release.of, &release.value) {
            (_, Of::People, _) => "different people so far".to_owned(),
            (_, _, None) => "rows".to_owned(),
            (_, _, Some(value)) => {
                format!("`{}` between {} and {}", value.column, value.low, value.high)
            }
        };
        let statistics: Vec<String> = release.statistics.iter().map(ToString::to_string).collect();
        let keys = release.by.as_ref().map_or_else(
            || "—".to_owned(),
            |by| {
                if by.is_found() {
                    format!("those of `{}` that stand out", by.column)
                } else {
                    format!("{} of `{}`", by.len(), by.column)
                }
            },
        );
        let rho = planned.rho();
        let _ = writeln!(
            text,
            "| {} | {of} | {} | {keys} | {} | {} | {rho:.6} | {:.6} |",
            release.name,
            statistics.join(", "),
            planned.strategy(),
            planned.gap().map_or_else(|| "—".to_owned(), at_most),
            planned.spent().mu()
        );
    }
    let all = Ledger { entries: header.present().to_vec(), reproducible: false };
    let _ = writeln!(text, "| **all together** | | | | | | {:.6} | {:.6} |", all.rho(), all.mu());
    if header.ledger.len() > header.present().len() {
        let earlier = Ledger { entries: header.ledger.clone(), reproducible: false };
        let _ = writeln!(
            text,
            "\nThis description holds from step {} on. What was published before it was spent as well: with that, \
             ρ = {:.6} and μ = {:.6} for whoever was there all the time.",
            header.from + 1,
            earlier.rho(),
            earlier.mu()
        );
    }
    if spec.releases.iter().any(|release| release.by.as_ref().is_some_and(By::is_found)) {
        let delta: f64 = header.present().iter().map(|entry| entry.delta).sum();
        let _ = writeln!(
            text,
            "\nKeys that are not listed are published once their total stands out so far that no single person can have caused \
             it. With a probability of at most {delta:e}, which is part of δ, one that a single person has caused is published."
        );
    }
    if let Promise::ZeroConcentrated { .. } = spec.privacy.budget
        && let Ok(epsilon) = all.epsilon(USUAL_DELTA)
    {
        let _ = writeln!(
            text,
            "\nThis is (ε, δ)-differential privacy for ε = {epsilon:.4} at δ = {USUAL_DELTA:e}, and for other pairs."
        );
    }
}
