//! What is published: tables, the guarantee and the page, all made from the sealed state.

use std::fmt::Write as _;
use std::path::Path;

use crate::encoding::Measure;
use crate::error::{Error, Result};
use crate::guarantee;
use crate::page;
use crate::plan::Planned;
use crate::spec::{By, Release, Spec, Statistic};
use crate::state::{Header, write_public};
use crate::statistics::Number;

/// The names of the columns beside the key.
pub(crate) const COLUMNS: [&str; 7] =
    ["step", "time", "statistic", "value", "standard_deviation", "low", "high"];

/// Writes every file that is not as it should be.
pub(crate) fn publish(
    spec: &Spec,
    planned: &[Planned],
    header: &Header,
    steps: usize,
    numbers: &[&[Number]],
) -> Result<()> {
    std::fs::create_dir_all(&spec.output).map_err(|error| Error::file(&spec.output, error))?;
    let mut tables = Vec::new();
    for ((release, planned), numbers) in spec.releases.iter().zip(planned).zip(numbers) {
        let table = Table::new(spec, release, planned, steps, numbers);
        replace(&spec.output.join(format!("{}.csv", release.name)), &table.csv())?;
        replace(&spec.output.join(format!("{}.jsonl", release.name)), &table.json_lines())?;
        tables.push(table);
    }
    replace(&spec.output.join("guarantee.md"), &guarantee::document(spec, planned, header))?;
    replace(&spec.output.join("index.html"), &page::page(spec, header, &tables))
}

/// Writes a file if it does not hold the text already.
fn replace(path: &Path, text: &str) -> Result<()> {
    if std::fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Ok(());
    }
    write_public(path, text.as_bytes())
}

/// The numbers of one release with their places.
pub(crate) struct Table<'a> {
    spec: &'a Spec,
    pub(crate) release: &'a Release,
    measure: &'a Measure,
    resolution: f64,
    steps: usize,
    numbers: &'a [Number],
}

impl<'a> Table<'a> {
    fn new(
        spec: &'a Spec,
        release: &'a Release,
        planned: &'a Planned,
        steps: usize,
        numbers: &'a [Number],
    ) -> Self {
        let (measure, resolution) = (&planned.encoding.measure, planned.encoding.resolution());
        Self { spec, release, measure, resolution, steps, numbers }
    }

    /// The numbers of one series, over all steps.
    pub(crate) fn series(&self, key: usize, statistic: usize) -> impl Iterator<Item = [String; 3]> {
        let (keys, statistics) = (self.release.keys(), self.release.statistics.len());
        (0..self.steps).filter_map(move |step| {
            let number = self.numbers.get((step * keys + key) * statistics + statistic)?;
            let [value, _, low, high] = self.printed(self.release.statistics[statistic], number);
            Some([value, low, high])
        })
    }

    /// The keys in the order in which they are printed.
    pub(crate) fn keys(&self) -> Vec<&str> {
        self.release.by.as_ref().map_or_else(|| vec![""], |by| by.names().collect())
    }

    fn csv(&self) -> String {
        let mut text = String::from("step,time,");
        if let Some(By { column, .. }) = &self.release.by {
            let _ = write!(text, "{},", quoted(column));
        }
        text.push_str("statistic,value,standard_deviation,low,high\n");
        self.each(|step, time, key, statistic, number| {
            let key = if self.release.by.is_some() { format!("{},", quoted(key)) } else { String::new() };
            let [value, deviation, low, high] = number;
            let _ = writeln!(text, "{step},{time},{key}{statistic},{value},{deviation},{low},{high}");
        });
        text
    }

    fn json_lines(&self) -> String {
        let mut text = String::new();
        let string = |text: &str| serde_json::Value::from(text).to_string();
        self.each(|step, time, key, statistic, number| {
            let key = match &self.release.by {
                Some(by) => format!("{}:{},", string(&by.column), string(key)),
                None => String::new(),
            };
            let [value, deviation, low, high] = number;
            let (time, statistic) = (string(time), string(statistic));
            let _ = writeln!(
                text,
                "{{\"step\":{step},\"time\":{time},{key}\"statistic\":{statistic},\"value\":{value},\
                 \"standard_deviation\":{deviation},\"low\":{low},\"high\":{high}}}"
            );
        });
        text
    }

    /// Every line in order: by step, key and statistic.
    fn each(&self, mut line: impl FnMut(usize, &str, &str, &str, [String; 4])) {
        let keys = self.keys();
        let names: Vec<String> = self.release.statistics.iter().map(ToString::to_string).collect();
        let mut numbers = self.numbers.iter();
        for step in 0..self.steps {
            let time = self.spec.calendar.label(step);
            for key in &keys {
                for (statistic, name) in self.release.statistics.iter().zip(&names) {
                    let Some(number) = numbers.next() else { return };
                    line(step + 1, &time, key, name, self.printed(*statistic, number));
                }
            }
        }
    }

    /// Value, standard deviation and band as text: whole numbers where whole numbers are counted, multiples of the
    /// resolution where such are summed, six digits otherwise.
    fn printed(&self, statistic: Statistic, number: &Number) -> [String; 4] {
        let exact = statistic.is_whole() || matches!(statistic, Statistic::Quantile(_));
        let value = if exact && !matches!(self.measure, Measure::Mean { .. }) {
            on_grid(number.value, self.resolution)
        } else {
            six_digits(number.value)
        };
        [value, six_digits(number.standard_deviation), six_digits(number.low), six_digits(number.high)]
    }
}

/// A multiple of a unit, with as many decimals as the unit has.
fn on_grid(value: f64, unit: f64) -> String {
    let decimals = (0..12).find(|digits| (unit * 10_f64.powi(*digits)).fract().abs() < 1e-9).unwrap_or(12);
    let text = format!("{value:.*}", decimals.unsigned_abs() as usize);
    without_negative_zero(text)
}

/// Six significant digits, without an exponent.
fn six_digits(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = (5 - magnitude).clamp(0, 12).unsigned_abs() as usize;
    let text = format!("{value:.decimals$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    without_negative_zero(text)
}

fn without_negative_zero(text: String) -> String {
    if text.starts_with('-') && text[1..].bytes().all(|byte| byte == b'0' || byte == b'.') {
        text[1..].to_owned()
    } else {
        text
    }
}

/// A field of CSV, in quotes where it needs them. A key that a spreadsheet would take for a formula gets them too.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_shortly_and_without_exponents() {
        for (value, text) in [
            (0.0, "0"),
            (-0.000_000_000_000_1, "0"),
            (12.5, "12.5"),
            (1_234_567.8, "1234568"),
            (0.012_345_678, "0.0123457"),
        ] {
            assert_eq!(six_digits(value), text);
        }
        assert_eq!(on_grid(12.340_000_01, 0.01), "12.34");
        assert_eq!(on_grid(-0.2, 1.0), "0");
        assert_eq!(on_grid(1500.0, 500.0), "1500");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
