//! What is reported: one row for each side of a comparison, and tables of them.

use std::fmt;

use dp_benches::record;
use serde::{Deserialize, Serialize};

use crate::sources::Source;

/// How the rows of this library are signed.
pub(crate) const OURS: &str = "this library";

/// One side of one comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// What was done; rows with the same work are compared.
    pub(crate) work: String,
    /// The library, with its version.
    pub(crate) who: String,
    /// Which of several ways it was done.
    pub(crate) variant: String,
    /// The time when everything is loaded and compiled; absent where nothing was measured.
    pub(crate) seconds: Option<f64>,
    /// The time of the first run, compilation included, where that differs.
    pub(crate) first_seconds: Option<f64>,
    /// How good the result is, in the measure of the section.
    pub(crate) quality: Option<f64>,
    /// `quality / bound - 1`, where there is a proven lower bound.
    pub(crate) above_bound: Option<f64>,
    /// The conditions, or why nothing was measured.
    pub(crate) note: String,
}

impl fmt::Display for Row {
    /// One line, for whoever waits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.work, self.signature())?;
        match self.seconds {
            Some(seconds) => write!(formatter, ", {}", duration(seconds))?,
            None => write!(formatter, ", not measured: {}", self.note)?,
        }
        match self.quality {
            Some(quality) => write!(formatter, ", {}", number(quality)),
            None => Ok(()),
        }
    }
}

impl Row {
    /// Who, and in which way.
    fn signature(&self) -> String {
        [self.who.as_str(), self.variant.as_str()].join(", ").trim_end_matches(", ").to_owned()
    }
}

/// The comparisons of one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    /// What is compared.
    pub(crate) title: String,
    /// What one time is the time of, and how both sides were treated.
    pub(crate) conditions: String,
    /// The name of the measure of quality.
    pub(crate) quality: String,
    /// The rows, those of one work together.
    pub(crate) rows: Vec<Row>,
    /// What was wanted, and what was found.
    pub(crate) findings: Vec<String>,
    /// The day of the measurement, where it is not that of the whole record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<String>,
    /// What of this library was measured; empty where it was not written down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<Source>,
}

impl Section {
    /// The day of the measurement.
    pub(crate) fn date<'a, T>(&'a self, record: &'a record::Record<T>) -> &'a str {
        self.measured.as_deref().unwrap_or(&record.date)
    }

    /// What was measured and is not the same any more, for whoever reads the record.
    pub(crate) fn outdated(&self) -> Option<String> {
        if self.sources.is_empty() {
            return Some("what it measured was not written down".to_owned());
        }
        let changed: Vec<&str> = self
            .sources
            .iter()
            .filter(|source| source.changed())
            .map(|source| source.path.as_str())
            .collect();
        (!changed.is_empty()).then(|| format!("changed since: {}", changed.join(", ")))
    }

    /// How many times as long as ours a row took: as the first row of this library for the same work.
    pub(crate) fn times_ours(&self, row: &Row) -> Option<f64> {
        let ours = self.rows.iter().find(|other| other.who == OURS && other.work == row.work)?;
        Some(row.seconds? / ours.seconds?)
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let duration = |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), duration);
        let quality = match (row.quality, row.above_bound) {
            (Some(quality), Some(above)) => format!("{} (+{})", number(quality), percent(above)),
            (Some(quality), None) => number(quality),
            _ => String::new(),
        };
        vec![
            row.work.clone(),
            row.signature(),
            duration(row.seconds),
            row.first_seconds.map_or_else(String::new, |seconds| duration(Some(seconds))),
            self.times_ours(row).map_or_else(String::new, three_digits),
            quality,
            row.note.clone(),
        ]
    }
}

/// All sections as Markdown.
pub(crate) fn markdown(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let rows: Vec<Vec<String>> = section.rows.iter().map(|row| section.cells(row)).collect();
        let headings =
            ["work", "who", "time", "first run", "times ours", &section.quality, "conditions"].to_vec();
        let findings: String = section.findings.iter().flat_map(|finding| ["\n- ", finding]).collect();
        let day = section.measured.as_ref().map(|day| format!(" Measured on {day}.")).unwrap_or_default();
        text += &["## ", &section.title, "\n\n", &section.conditions, &day, "\n\n"].concat();
        text += &(record::table(&headings, &rows) + &findings + "\n\n");
    }
    text.trim_end().to_owned()
}

/// A time with three digits and the unit that suits it.
pub(crate) fn duration(seconds: f64) -> String {
    let (factor, unit) = match seconds {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", three_digits(seconds * factor))
}

/// Three digits before or after the point: as much as a time is worth.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}

/// Enough digits to tell errors apart.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.1e}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A percentage where two decimals say something.
fn percent(share: f64) -> String {
    if share.abs() < 5e-5 { format!("{share:.0e}") } else { format!("{:.2}%", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Section {
        let row = |work: &str, who: &str, seconds: Option<f64>| Row {
            work: work.to_owned(),
            who: who.to_owned(),
            seconds,
            ..Row::default()
        };
        Section {
            title: "Things".to_owned(),
            conditions: "Done twice.".to_owned(),
            quality: "E2".to_owned(),
            rows: vec![
                Row { quality: Some(8.7347), above_bound: Some(0.0031), ..row("a", OURS, Some(0.5)) },
                Row { variant: "fast".to_owned(), ..row("a", "other 1.0", Some(10.0)) },
                Row { note: "not installed".to_owned(), ..row("a", "third", None) },
                row("b", "other 1.0", Some(1.0)),
            ],
            findings: vec!["20 times".to_owned()],
            measured: None,
            sources: Vec::new(),
        }
    }

    #[test]
    fn ratios_are_to_our_row_of_the_same_work() {
        let section = section();
        let ratios: Vec<Option<f64>> = section.rows.iter().map(|row| section.times_ours(row)).collect();
        assert_eq!(ratios, [Some(1.0), Some(20.0), None, None]);
    }

    #[test]
    fn tables_name_both_sides_and_what_is_missing() {
        let text = markdown(&[section()]);
        let line = |start: &str| text.lines().find(|line| line.contains(start)).unwrap().to_owned();
        let cells = |line: &str| -> Vec<String> {
            line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
        };
        assert!(text.starts_with("## Things\n\nDone twice.\n\n| work"), "{text}");
        assert_eq!(cells(&line(OURS)), ["a", OURS, "500 ms", "1.00", "8.7347 (+0.31%)"]);
        assert_eq!(cells(&line("fast")), ["a", "other 1.0, fast", "10.0 s", "20.0"]);
        assert_eq!(cells(&line("third")), ["a", "third", "–", "not installed"]);
        assert!(text.ends_with("\n- 20 times"), "{text}");
        let lines: Vec<String> = section().rows.iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], "a: this library, 500 ms, 8.7347");
        assert_eq!(lines[2], "a: third, not measured: not installed");
    }

    #[test]
    fn figures_keep_the_digits_that_count() {
        assert_eq!(duration(123.4), "123 s");
        assert_eq!(duration(0.012_34), "12.3 ms");
        assert_eq!(duration(2.5e-6), "2.50 µs");
        assert_eq!(duration(4e-9), "4.00 ns");
        assert_eq!(three_digits(0.0004), "4e-4");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(11.490_65), "11.491");
        assert_eq!(number(-2e-9), "-2.0e-9");
        assert_eq!(percent(0.0123), "1.23%");
        assert_eq!(percent(0.2), "20.00%");
        assert_eq!(percent(3e-7), "3e-7");
    }
}
