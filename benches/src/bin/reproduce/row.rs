//! A row: what is printed where, how it is computed here, and the verdict.

use std::fmt;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::lab::Lab;

/// A published statement about one number: the values that agree with it.
///
/// A statement without a number of its own (“the same noise”, “less error than”) is put as a ratio against 1, or as a count of
/// exceptions against 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    text: String,
    low: f64,
    high: f64,
    /// The number was read off a curve, or stands for what a sentence says about one.
    figure: bool,
}

/// A printed number: what rounds to it in its last printed digit agrees.
pub(crate) fn rounds_to(printed: &str) -> Claim {
    let (value, unit) = parse(printed);
    // The last half unit belongs to both neighbours.
    let half = unit * 0.5 * (1.0 + 1e-9);
    Claim { text: printed.to_owned(), low: value - half, high: value + half, figure: false }
}

/// A printed upper bound.
pub(crate) fn at_most(printed: &str) -> Claim {
    Claim { text: format!("≤ {printed}"), low: f64::NEG_INFINITY, high: parse(printed).0, figure: false }
}

/// A printed lower bound.
pub(crate) fn at_least(printed: &str) -> Claim {
    Claim { text: format!("≥ {printed}"), low: parse(printed).0, high: f64::INFINITY, figure: false }
}

/// An upper bound that is printed as a formula, evaluated.
pub(crate) fn at_most_formula(bound: f64) -> Claim {
    Claim { text: format!("≤ {}", digits(bound)), low: f64::NEG_INFINITY, high: bound, figure: false }
}

/// A lower bound that is printed as a formula, evaluated.
pub(crate) fn at_least_formula(bound: f64) -> Claim {
    Claim { text: format!("≥ {}", digits(bound)), low: bound, high: f64::INFINITY, figure: false }
}

/// An equation that is printed as a formula, evaluated: agreement to the relative tolerance.
pub(crate) fn equals_formula(value: f64, tolerance: f64) -> Claim {
    let width = tolerance * value.abs();
    Claim { text: digits(value), low: value - width, high: value + width, figure: false }
}

/// A number off a curve: what lies within the tolerance agrees.
pub(crate) fn figure(printed: &str, tolerance: f64) -> Claim {
    let (value, _) = parse(printed);
    let text = format!("{printed} ± {}", digits(tolerance));
    Claim { text, low: value - tolerance, high: value + tolerance, figure: true }
}

impl Claim {
    /// The same claim, marked as what a figure shows rather than what a table or theorem states.
    pub(crate) fn in_a_figure(self) -> Self {
        Self { figure: true, ..self }
    }

    fn agrees(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }
}

/// A decimal number and the unit of its last digit. What is not a number agrees with nothing.
fn parse(printed: &str) -> (f64, f64) {
    let (mantissa, exponent) = printed.split_once('e').unwrap_or((printed, "0"));
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let unit = 10.0_f64.powf(exponent.parse().unwrap_or(0.0) - decimals as f64);
    (printed.parse().unwrap_or(f64::NAN), unit)
}

/// Six significant digits, in powers of ten where the number is very small or large.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor();
    if !(-4.0..9.0).contains(&magnitude) {
        return format!("{value:.4e}");
    }
    let decimals = (5.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The statement that holds in place of a wrong one.
#[derive(Debug, Clone, PartialEq)]
struct Correction {
    holds: Claim,
    /// A line of proof, or a counter-example.
    why: &'static str,
}

/// How long a row takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cost {
    /// Milliseconds: part of the tests.
    Quick,
    /// Seconds in release.
    Default,
    /// Minutes in release: with `--full` only.
    Full,
}

type Computation = Box<dyn Fn(&Lab) -> Result<f64>>;

/// One published statement and the computation that checks it.
pub(crate) struct Row {
    /// The table, figure or theorem.
    place: String,
    /// What the number is.
    statement: String,
    claim: Claim,
    correction: Option<Correction>,
    cost: Cost,
    compute: Computation,
}

impl Row {
    /// A quick row for a statement that is right.
    pub(crate) fn new(
        place: impl Into<String>,
        statement: impl Into<String>,
        claim: Claim,
        compute: impl Fn(&Lab) -> Result<f64> + 'static,
    ) -> Self {
        Self {
            place: place.into(),
            statement: statement.into(),
            claim,
            correction: None,
            cost: Cost::Quick,
            compute: Box::new(compute),
        }
    }

    /// The statement is wrong in print; this claim holds instead.
    pub(crate) fn corrected(self, holds: Claim, why: &'static str) -> Self {
        Self { correction: Some(Correction { holds, why }), ..self }
    }

    /// A row that takes longer than a test may.
    pub(crate) fn costing(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }

    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }

    /// Whether the text occurs in the place or the statement.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.place.contains(text) || self.statement.contains(text)
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Computes and judges.
    pub(crate) fn run(&self, lab: &Lab) -> Result<Outcome> {
        let value = (self.compute)(lab).with_context(|| format!("{}: {}", self.place, self.statement))?;
        Ok(Outcome {
            place: self.place.clone(),
            statement: self.statement.clone(),
            published: self.claim.text.clone(),
            computed: value,
            verdict: self.verdict(value),
            correction: self.correction.as_ref().map(|correction| correction.why.to_owned()),
        })
    }

    fn verdict(&self, value: f64) -> Verdict {
        match (self.claim.agrees(value), &self.correction) {
            (true, None) if self.claim.figure => Verdict::ReadOffAFigure,
            (true, None) => Verdict::Reproduced,
            (false, Some(correction)) if correction.holds.agrees(value) => Verdict::Corrected,
            // Also a correction of what is right, or one that does not hold either.
            _ => Verdict::Different,
        }
    }
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// Ours agrees within the precision of the print.
    Reproduced,
    /// Wrong in print; ours agrees with the correction.
    Corrected,
    /// Ours agrees with what a figure shows, within the stated tolerance.
    ReadOffAFigure,
    /// Nothing explains the difference.
    Different,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Reproduced => "reproduced",
            Self::Corrected => "corrected",
            Self::ReadOffAFigure => "read off a figure",
            Self::Different => "DIFFERENT",
        })
    }
}

/// A row with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) place: String,
    pub(crate) statement: String,
    pub(crate) published: String,
    pub(crate) computed: f64,
    pub(crate) verdict: Verdict,
    pub(crate) correction: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(claim: Claim, value: f64) -> Verdict {
        Row::new("", "", claim, move |_| Ok(value)).run(&Lab::default()).unwrap().verdict
    }

    #[test]
    fn a_number_agrees_to_its_last_printed_digit() {
        for (printed, inside, outside) in
            [("74.4", 74.449, 74.451), ("10", 10.5, 10.51), ("1.25e-4", 1.254e-4, 1.256e-4)]
        {
            assert_eq!(verdict(rounds_to(printed), inside), Verdict::Reproduced, "{printed}");
            assert_eq!(verdict(rounds_to(printed), outside), Verdict::Different, "{printed}");
        }
        assert_eq!(verdict(rounds_to("none"), 1.0), Verdict::Different);
        assert_eq!(verdict(rounds_to("1"), f64::NAN), Verdict::Different);
    }

    #[test]
    fn bounds_and_figures_agree_on_their_side() {
        assert_eq!(verdict(at_most("2"), 2.0), Verdict::Reproduced);
        assert_eq!(verdict(at_most("2"), 2.1), Verdict::Different);
        assert_eq!(verdict(at_least("2"), 2.0), Verdict::Reproduced);
        assert_eq!(verdict(at_least_formula(2.0), 1.9), Verdict::Different);
        assert_eq!(verdict(at_most_formula(2.0), 1.9), Verdict::Reproduced);
        assert_eq!(verdict(equals_formula(100.0, 0.01), 100.9), Verdict::Reproduced);
        assert_eq!(verdict(figure("250", 10.0), 259.0), Verdict::ReadOffAFigure);
        assert_eq!(verdict(figure("250", 10.0), 261.0), Verdict::Different);
        assert_eq!(verdict(at_most("2").in_a_figure(), 1.0), Verdict::ReadOffAFigure);
    }

    #[test]
    fn a_correction_must_be_needed_and_must_hold() {
        let corrected = |value: f64| {
            let row = Row::new("", "", rounds_to("217.3"), move |_| Ok(value));
            row.corrected(rounds_to("216.95"), "a proof").run(&Lab::default()).unwrap().verdict
        };
        assert_eq!(corrected(216.951), Verdict::Corrected);
        assert_eq!(corrected(217.3), Verdict::Different);
        assert_eq!(corrected(216.5), Verdict::Different);
    }

    #[test]
    fn numbers_are_shown_with_six_digits() {
        for (value, text) in
            [(3.272_551, "3.27255"), (0.0, "0"), (250.0, "250"), (1.25e-9, "1.2500e-9"), (65536.0, "65536")]
        {
            assert_eq!(digits(value), text);
        }
    }
}
