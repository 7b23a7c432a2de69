//! The page: one file of HTML that loads nothing and shows every series with its band.

use std::fmt::Write as _;

use crate::guarantee;
use crate::publish::Table;
use crate::spec::{Late, Protects, Spec};
use crate::state::{Header, Randomness};

const TEMPLATE: &str = include_str!("page.html");

/// What stands above everything where the noise is no secret.
const WARNING: &str =
    "<p class=\"warning\">These numbers were made with a reproducible seed and protect nobody.</p>";

/// The page of all tables.
pub(crate) fn page(spec: &Spec, header: &Header, tables: &[Table<'_>]) -> String {
    let published = header.from + tables.first().map_or(0, |table| table.times().count());
    filled(|name| match name {
        "title" => escape(&spec.title),
        "standing" => escape(&standing(spec, published)),
        "warning" if header.randomness != Randomness::System => WARNING.to_owned(),
        "tables" => links(tables),
        "counted" => counted(spec),
        "promise" => promise(spec, header),
        // Safe inside a script: nothing in the data can end it.
        "data" => data(spec, tables).replace('<', "\\u003c"),
        _ => String::new(),
    })
}

/// The template with every `{{name}}` replaced once; what stands in a replacement is not looked at.
fn filled(replacement: impl Fn(&str) -> String) -> String {
    let mut parts = TEMPLATE.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or(("", part));
        text.push_str(&replacement(name));
        text.push_str(rest);
    }
    text
}

/// How far the dashboard has come.
fn standing(spec: &Spec, published: usize) -> String {
    let (calendar, steps) = (&spec.calendar, spec.calendar.steps());
    let length = calendar.length();
    match published {
        0 => format!(
            "Nothing is published yet; the first of {steps} steps of {length} ends at {}.",
            calendar.end_label(0)
        ),
        _ if published == steps => format!(
            "All {steps} steps of {length} are published, from {} until {}.",
            calendar.label(0),
            calendar.end_label(steps - 1)
        ),
        _ => format!(
            "{published} of {steps} steps of {length} are published, from {} until {}. The next follows after {}.",
            calendar.label(0),
            calendar.end_label(published - 1),
            calendar.end_label(published)
        ),
    }
}

/// The tables, for readers without the script.
fn links(tables: &[Table<'_>]) -> String {
    let link = |table: &Table<'_>| format!("<a href=\"{0}.csv\">{0}.csv</a>", escape(&table.release.name));
    tables.iter().map(link).collect::<Vec<_>>().join(", ")
}

/// What the numbers leave out, which no band tells.
fn counted(spec: &Spec) -> String {
    let limited = match spec.privacy.protects {
        Protects::Event => "",
        Protects::Person | Protects::PersonStep => {
            "Of every person only so much counts as the limits below allow, so a number can lie below a plain count or sum. "
        }
    };
    let late = match spec.late {
        Late::Drop => "does not count",
        Late::Next => "counts in the next step",
    };
    format!("<p>{limited}What is reported after its time was published {late}.</p>")
}

/// The guarantee in plain words.
fn promise(spec: &Spec, header: &Header) -> String {
    let mut text = String::new();
    for paragraph in [
        Some(guarantee::protection(spec)),
        guarantee::odds(spec, header),
        guarantee::limits(spec),
        Some(guarantee::AGAINST.to_owned()),
    ]
    .into_iter()
    .flatten()
    {
        let _ = writeln!(text, "<p>{}</p>", escape(&paragraph));
    }
    let _ = write!(
        text,
        "<p>The budget of everything together is {}. <a href=\"guarantee.md\">The whole guarantee</a> says how it is kept. \
         Made by {}.</p>",
        escape(&guarantee::budget(spec)),
        guarantee::PROGRAM
    );
    text
}

/// Every number of every series, for the script.
fn data(spec: &Spec, tables: &[Table<'_>]) -> String {
    let string = |text: &str| serde_json::Value::from(text).to_string();
    let list = |items: &[String]| format!("[{}]", items.join(","));
    let times: Vec<String> =
        tables.first().map_or_else(Vec::new, |table| table.times().map(|time| string(&time)).collect());
    let mut releases = Vec::new();
    for table in tables {
        let release = table.release;
        let mut keys = table.keys();
        let names: Vec<String> = release.statistics.iter().map(|one| string(&one.to_string())).collect();
        let mut series = table.series();
        if keys.is_empty() {
            // No key stands out yet: a place for one, with nothing in it.
            keys.push("—");
            let nothing = vec!["null".to_owned(); times.len()];
            series = vec![[(); 3].map(|()| nothing.clone()); names.len()];
        }
        let series: Vec<String> =
            series.into_iter().map(|columns| list(&columns.map(|column| list(&column)))).collect();
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
    format!(
        "{{\"length\":{},\"times\":{},\"releases\":{}}}",
        string(&spec.calendar.length().to_string()),
        list(&times),
        list(&releases)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
