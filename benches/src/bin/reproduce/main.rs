//! The tables and figures of the source papers, computed again: published value, ours, and a verdict for each row.
//!
//! `cargo xtask reproduce` runs what takes seconds; `--full` adds the factorizations of 4096 steps, which take minutes.
//! The exit code is 1 if and only if a row is DIFFERENT, that is, neither reproduced nor corrected with a reason.

mod almost_tight;
mod constant_first;
mod constant_later;
mod figures;
mod lab;
mod operators;
mod row;
mod unifying;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use dp_benches::record::{self, Record};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::lab::Lab;
use crate::row::{Cost, Outcome, Row, Verdict, digits};

/// The tables and figures of the source papers, computed again.
#[derive(Debug, Parser)]
#[command(name = "reproduce")]
struct Arguments {
    /// Print the outcomes as JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Also the rows that take minutes: factorizations of 4096 steps.
    #[arg(long)]
    full: bool,
    /// Keep the outcomes under benches/record; needs --full.
    #[arg(long)]
    record: bool,
    /// Only rows whose place, statement or paper contains this text, and no figures.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// A paper and its rows.
struct Paper {
    title: &'static str,
    rows: Vec<Row>,
}

fn papers() -> Vec<Paper> {
    let paper = |title, rows| Paper { title, rows };
    vec![
        paper(
            "Henzinger, Upadhyay, Upadhyay: Almost Tight Error Bounds on Differentially Private Continual Counting",
            almost_tight::rows(),
        ),
        paper(
            "Denisov, McMahan, Rush, Smith, Thakurta: Improved Differential Privacy for SGD via Optimal Private Linear \
             Operators on Adaptive Streams",
            operators::rows(),
        ),
        paper(
            "Henzinger, Upadhyay, Upadhyay: A Unifying Framework for Differentially Private Sums under Continual \
             Observation",
            unifying::rows(),
        ),
        paper(
            "Henzinger, Upadhyay: Constant Matters: Fine-grained Complexity of Differentially Private Continual \
             Observation Using Completely Bounded Norms (first version)",
            constant_first::rows(),
        ),
        paper(
            "Fichtenberger, Henzinger, Upadhyay: Constant Matters: Fine-grained Complexity of Differentially Private \
             Continual Observation (later version)",
            constant_later::rows(),
        ),
    ]
}

/// The outcomes of one paper.
#[derive(Debug, Serialize, Deserialize)]
struct Section {
    paper: String,
    outcomes: Vec<Outcome>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    ensure!(
        !arguments.record || (arguments.full && arguments.only.is_none()),
        "a record holds every row: `--record` needs `--full` and no `--only`"
    );
    let lab = Lab::default();
    let limit = if arguments.full { Cost::Full } else { Cost::Default };
    let sections = run(&papers(), &lab, limit, arguments.only.as_deref())?;
    ensure!(
        !sections.is_empty(),
        "no row mentions `{}`: leave `--only` out to see all of them",
        arguments.only.unwrap_or_default()
    );
    let text = markdown(&sections);
    if arguments.record {
        let record = Record::now("cargo xtask reproduce --full --record", &sections);
        let path = record.write(&record::folder(), "reproduce", &text)?;
        eprintln!("recorded in {}", path.display());
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&sections)?);
    } else {
        println!("{text}");
    }
    if arguments.only.is_none() {
        eprintln!("figures in {}", figures::draw(&lab, arguments.full)?.display());
    }
    Ok(exit_code(&sections))
}

/// Runs the rows up to a cost, with a progress bar where there is a terminal.
fn run(papers: &[Paper], lab: &Lab, limit: Cost, only: Option<&str>) -> Result<Vec<Section>> {
    let chosen = |paper: &Paper, row: &Row| {
        row.cost() <= limit && only.is_none_or(|text| paper.title.contains(text) || row.mentions(text))
    };
    let total: usize = papers.iter().map(|p| p.rows.iter().filter(|row| chosen(p, row)).count()).sum();
    let bar = ProgressBar::new(total as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")?);
    let mut sections = Vec::new();
    for paper in papers {
        let mut outcomes = Vec::new();
        for row in paper.rows.iter().filter(|row| chosen(paper, row)) {
            bar.set_message(row.place().to_owned());
            outcomes.push(row.run(lab)?);
            bar.inc(1);
        }
        if !outcomes.is_empty() {
            sections.push(Section { paper: paper.title.to_owned(), outcomes });
        }
    }
    bar.finish_and_clear();
    Ok(sections)
}

/// Failure if and only if something is different without a reason.
fn exit_code(sections: &[Section]) -> ExitCode {
    if count(sections, Verdict::Different) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn count(sections: &[Section], verdict: Verdict) -> usize {
    sections.iter().flat_map(|section| &section.outcomes).filter(|outcome| outcome.verdict == verdict).count()
}

/// A table for each paper, the reasons of its corrections below it, and the totals at the end.
fn markdown(sections: &[Section]) -> String {
    let mut parts = Vec::new();
    for section in sections {
        let rows: Vec<Vec<String>> = section
            .outcomes
            .iter()
            .map(|outcome| {
                let computed = digits(outcome.computed);
                let verdict = outcome.verdict.to_string();
                vec![
                    outcome.place.clone(),
                    outcome.statement.clone(),
                    outcome.published.clone(),
                    computed,
                    verdict,
                ]
            })
            .collect();
        parts.push(format!("## {}\n", section.paper));
        parts.push(record::table(&["where", "what", "published", "computed", "verdict"], &rows));
        let corrections = section.outcomes.iter().filter_map(|outcome| {
            let why = outcome.correction.as_ref()?;
            Some(format!("- {}, {}: {why}.\n", outcome.place, outcome.statement))
        });
        let corrections: String = corrections.collect();
        if !corrections.is_empty() {
            parts.push(format!("Corrections:\n\n{corrections}"));
        }
    }
    let verdicts = [Verdict::Reproduced, Verdict::Corrected, Verdict::ReadOffAFigure, Verdict::Different];
    let totals: Vec<String> =
        verdicts.into_iter().map(|verdict| format!("{} {verdict}", count(sections, verdict))).collect();
    let rows: usize = sections.iter().map(|section| section.outcomes.len()).sum();
    parts.push(format!("{rows} rows: {}.\n", totals.join(", ")));
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::rounds_to;

    #[test]
    fn quick_rows_are_reproduced_or_corrected() {
        let sections = run(&papers(), &Lab::default(), Cost::Quick, None).unwrap();
        let different = sections
            .iter()
            .flat_map(|section| &section.outcomes)
            .filter(|outcome| outcome.verdict == Verdict::Different)
            .collect::<Vec<_>>();
        assert!(different.is_empty(), "{different:#?}");
        assert_eq!(exit_code(&sections), ExitCode::SUCCESS);
        assert!(count(&sections, Verdict::Corrected) >= 21, "one for each numerical erratum at least");
    }

    #[test]
    fn every_paper_is_there_with_forty_rows_together() {
        let papers = papers();
        assert_eq!(papers.len(), 5);
        assert!(papers.iter().all(|paper| paper.rows.len() >= 5));
        assert!(papers.iter().map(|paper| paper.rows.len()).sum::<usize>() >= 40);
    }

    #[test]
    fn a_wrong_value_without_a_reason_fails() {
        let wrong = Row::new("Table 2", "√L, n = 256", rounds_to("74.5"), |_| {
            let error = lab::mean_error("honaker-online", "count", 256)?;
            Ok((256.0 * error).sqrt())
        });
        let papers = [Paper { title: "A paper", rows: vec![wrong] }];
        let sections = run(&papers, &Lab::default(), Cost::Quick, None).unwrap();
        assert_eq!(exit_code(&sections), ExitCode::FAILURE);
        assert!(markdown(&sections).contains("| 74.4024") && markdown(&sections).contains("1 DIFFERENT"));
    }
}
