//! What is published: tables, the guarantee and the page, all made from the sealed state.

use std::fmt::Write as _;
use std::path::Path;

use crate::encoding::Measure;
use crate::error::{Error, Result};
use crate::guarantee;
use crate::page;
use crate::plan::Planned;
use crate::releases::{Archive, Published};
use crate::spec::{By, Release, Spec, Statistic};
use crate::state::{Header, write_public};
use crate::statistics::Number;

/// The names of the columns beside the key.
pub(crate) const COLUMNS: [&str; 7] =
    ["step", "time", "statistic", "value", "standard_deviation", "low", "high"];

/// Writes every file that is not as it should be.
pub(crate) fn publish(spec: &Spec, header: &Header, planned: &[Planned], archive: &Archive) -> Result<()> {
    std::fs::create_dir_all(&spec.output).map_err(|error| {
        Error::file(
            &spec.output,
            format!("{error}. The state is saved and nothing is lost: mend this, and run again"),
        )
    })?;
    let tables = tables(spec, header, planned, archive);
    for table in &tables {
        let name = &table.release.name;
        replace(&spec.output.join(format!("{name}.csv")), &table.csv())?;
        replace(&spec.output.join(format!("{name}.jsonl")), &table.json_lines())?;
    }
    let document = guarantee::document(spec, planned, header);
    replace(&spec.output.join("guarantee.md"), &document)?;
    replace(&spec.output.join("index.html"), &page::page(spec, header, &tables))
}

/// The tables of all releases, in their order.
pub(crate) fn tables<'a>(
    spec: &'a Spec,
    header: &Header,
    planned: &'a [Planned],
    archive: &Archive,
) -> Vec<Table<'a>> {
    let all = spec.releases.iter().zip(planned).enumerate();
    let table = |(index, (release, planned)): (usize, (&'a Release, &'a Planned))| {
        let published = archive.published(index, planned)?;
        Some(Table::new(spec, release, planned, header.from, archive.step(), published))
    };
    all.filter_map(table).collect()
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
    /// The number of steps before the first of these.
    from: usize,
    steps: usize,
    published: Published,
}

impl<'a> Table<'a> {
    fn new(
        spec: &'a Spec,
        release: &'a Release,
        planned: &'a Planned,
        from: usize,
        steps: usize,
        mut published: Published,
    ) -> Self {
        let (measure, resolution) = (&planned.encoding.measure, planned.encoding.resolution());
        if let Some(by) = release.by.as_ref().filter(|by| !by.is_found()) {
            for (key, name) in published.keys.iter_mut().zip(by.names()) {
                name.clone_into(&mut key.name);
            }
        }
        Self { spec, release, measure, resolution, from, steps, published }
    }

    /// The times of all steps.
    pub(crate) fn times(&self) -> impl Iterator<Item = String> {
        (self.from..self.from + self.steps).map(|step| self.spec.calendar.label(step))
    }

    /// Value and band of every series, by key and then by statistic, over all steps; a key that is found later has nothing
    /// before.
    pub(crate) fn series(&self) -> Vec<[Vec<String>; 3]> {
        let statistics = &self.release.statistics;
        let mut series = vec![<[Vec<String>; 3]>::default(); self.published.keys.len() * statistics.len()];
        let mut numbers = self.published.numbers.iter();
        for step in 0..self.steps {
            for (key, columns) in self.published.keys.iter().zip(series.chunks_exact_mut(statistics.len())) {
                for (statistic, columns) in statistics.iter().zip(columns) {
                    let number = if key.from <= step { numbers.next() } else { None };
                    let printed = number.map(|number| self.printed(*statistic, number));
                    let [value, _, low, high] =
                        printed.unwrap_or_else(|| [(); 4].map(|()| "null".to_owned()));
                    for (column, number) in columns.iter_mut().zip([value, low, high]) {
                        column.push(number);
                    }
                }
            }
        }
        series
    }

    /// The keys in the order in which they are printed.
    pub(crate) fn keys(&self) -> Vec<&str> {
        self.published.keys.iter().map(|key| key.name.as_str()).collect()
    }

    pub(crate) fn csv(&self) -> String {
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

    pub(crate) fn json_lines(&self) -> String {
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
        let names: Vec<String> = self.release.statistics.iter().map(ToString::to_string).collect();
        let mut numbers = self.published.numbers.iter();
        for (step, time) in self.times().enumerate() {
            for key in self.published.keys.iter().filter(|key| key.from <= step) {
                for (statistic, name) in self.release.statistics.iter().zip(&names) {
                    let Some(number) = numbers.next() else { return };
                    line(self.from + step + 1, &time, &key.name, name, self.printed(*statistic, number));
                }
            }
        }
    }

    /// Value, standard deviation and band as text: whole numbers where whole numbers are counted, multiples of the
    /// resolution where such are summed, six digits otherwise.
    fn printed(&self, statistic: Statistic, number: &Number) -> [String; 4] {
        let exact = statistic.is_whole() || matches!(statistic, Statistic::Quantile(_));
        let value = if exact && !matches!(self.measure, Measure::Mean { .. }) {
            // Rows in a range are counted, whatever the unit of their values.
            let unit = if matches!(statistic, Statistic::Range(..)) { 1.0 } else { self.resolution };
            on_grid(number.value, unit)
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

/// A field of CSV, in quotes where it needs them.
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
