//! The page: one file of HTML that loads nothing and shows every series with its band.

use std::fmt::Write as _;

use crate::guarantee;
use crate::publish::Table;
use crate::spec::Spec;
use crate::state::{Header, Randomness};

const TEMPLATE: &str = include_str!("page.html");

/// The page of all tables.
pub(crate) fn page(spec: &Spec, header: &Header, tables: &[Table<'_>]) -> String {
    let string = |text: &str| serde_json::Value::from(text).to_string();
    let list = |items: &[String]| format!("[{}]", items.join(","));
    let steps = spec.calendar.steps();
    let published = tables.first().map_or(0, |table| table.series(0, 0).count());
    let times: Vec<String> = (0..published).map(|step| string(&spec.calendar.label(step))).collect();
    let mut releases = Vec::new();
    for table in tables {
        let release = table.release;
        let keys = table.keys();
        let names: Vec<String> = release.statistics.iter().map(|one| string(&one.to_string())).collect();
        let mut series = Vec::new();
        for key in 0..keys.len() {
            for statistic in 0..names.len() {
                let mut columns: [Vec<String>; 3] = Default::default();
                for numbers in table.series(key, statistic) {
                    for (column, number) in columns.iter_mut().zip(numbers) {
                        column.push(number);
                    }
                }
                series.push(list(&columns.map(|column| list(&column))));
            }
        }
        let column = release.by.as_ref().map_or_else(|| "null".to_owned(), |by| string(&by.column));
        let keys: Vec<String> = keys.iter().map(|key| string(key)).collect();
        releases.push(format!(
            "{{\"name\":{},\"column\":{column},\"keys\":{},\"statistics\":{},\"series\":{}}}",
            string(&release.name),
            list(&keys),
            list(&names),
            list(&series)
        ));
    }
    let data = format!(
        "{{\"length\":{},\"times\":{},\"releases\":{}}}",
        string(&spec.calendar.length().to_string()),
        list(&times),
        list(&releases)
    );
    let mut promise = String::new();
    if header.randomness != Randomness::System {
        promise.push_str(
            "<p class=\"warning\">These numbers were made with a reproducible seed and protect nobody.</p>",
        );
    }
    let _ = write!(promise, "<p>{} {}</p>", escape(&guarantee::protection(spec)), escape(guarantee::AGAINST));
    if let Some(limits) = guarantee::limits(spec) {
        let _ = write!(promise, "<p>{}</p>", escape(&limits));
    }
    let _ = write!(
        promise,
        "<p>The budget of everything together is {}. <a href=\"guarantee.md\">The whole guarantee</a> says how it is kept.</p>",
        escape(&guarantee::budget(spec))
    );
    let until =
        if published == 0 { "nothing yet".to_owned() } else { spec.calendar.end_label(published - 1) };
    TEMPLATE
        .replace("{{published}}", &published.to_string())
        .replace("{{steps}}", &steps.to_string())
        .replace("{{until}}", &escape(&until))
        .replace("{{promise}}", &promise)
        // Last, and safe inside a script: nothing in the data can end it.
        .replace("{{data}}", &data.replace('<', "\\u003c"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
