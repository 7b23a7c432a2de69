//! From the text of the file to a checked description.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dp_mechanisms::Relation;
use toml::de::{DeTable, DeValue};

use super::table::{Field, Mistakes, Table, line_at};
use super::{
    BadRows, By, Input, Late, Limits, Of, Privacy, Promise, Protects, Release, Spec, Statistic, Value,
    resolve,
};
use crate::calendar::{self, Calendar, Length};
use crate::error::Mistake;
use crate::people::MOST_PEOPLE_RELEASES;
use crate::rows;

/// The most keys of one release.
const MOST_KEYS: usize = 1_000_000;

/// The most values that quantiles are taken over.
const MOST_VALUES: f64 = 1_000_000.0;

/// The most rows of one person within a step that may count.
const MOST_ROWS: u32 = 1_000_000;

pub(super) fn read(text: &str, path: &Path) -> Result<Spec, Vec<Mistake>> {
    let mistakes = Mistakes::new(path, text);
    let parsed = match DeTable::parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            mistakes.note(&error.span().unwrap_or(0..0), error.message().to_owned());
            return Err(mistakes.into_sorted());
        }
    };
    // A second value, because the fields borrow from it for as long as the mistakes do.
    let value = DeValue::Table(parsed.into_inner());
    let spec = value.as_table().and_then(|table| whole(table, path, &mistakes));
    let found = mistakes.into_sorted();
    match spec {
        Some(spec) if found.is_empty() => Ok(spec),
        _ => Err(found),
    }
}

/// The line of a field of a description, by its name in an [`Identity`](super::Identity), or of the nearest thing around it.
pub(super) fn line_of(text: &str, name: &str) -> Option<u64> {
    let parsed = DeTable::parse(text).ok()?;
    let mut table = parsed.get_ref();
    let mut place = 0;
    let path = match name.strip_prefix("release `").and_then(|rest| rest.split_once("`.")) {
        Some((release, path)) => {
            let named = |one: &&toml::Spanned<DeValue<'_>>| {
                let name = one.get_ref().as_table().and_then(|table| table.get("name"));
                name.and_then(|name| name.get_ref().as_str()) == Some(release)
            };
            let found = table.get("release")?.get_ref().as_array()?.iter().find(named)?;
            (place, table) = (found.span().start, found.get_ref().as_table()?);
            path
        }
        // The number of steps follows from the last one.
        None if name == "steps" => "steps.last",
        None => name,
    };
    for part in path.split('.') {
        let Some(field) = table.get(part) else { break };
        place = field.span().start;
        let Some(inner) = field.get_ref().as_table() else { break };
        table = inner;
    }
    Some(line_at(text, place))
}

fn whole<'a>(table: &'a DeTable<'a>, path: &Path, mistakes: &'a Mistakes<'a>) -> Option<Spec> {
    let root = Table::new(String::new(), 0..0, table, mistakes);
    let section = |name, what| root.required(name, what).and_then(|field| field.table());
    // What is protected decides what else must be there, also where the budget is a mistake.
    let (privacy, protects) =
        section("privacy", "what is promised").map_or((None, None), |table| privacy(&table));
    let input = section("input", "what is read").and_then(|table| input(&table, protects));
    let limits = limits(&root, protects);
    let format = input.as_ref().and_then(|input| input.format.clone());
    let steps = section("steps", "the calendar").and_then(|table| steps(&table, format.as_deref()));
    let releases = releases(&root, path, protects, privacy.as_ref());
    let output = section("output", "where releases are written").and_then(|table| {
        let folder = table.required("folder", "the folder for everything that is published");
        let folder = folder.and_then(|field| field.text()).map(PathBuf::from);
        let state = table.optional("state").map(|field| field.text());
        let title = table.optional("title").map(|field| field.text());
        let key = table.optional("key").map(|field| field.text());
        table.finish();
        let key = match key {
            Some(key) => Some(resolve(path, Path::new(&key?))),
            None => None,
        };
        let state = match state {
            Some(state) => PathBuf::from(state?),
            None => path.file_stem().map(PathBuf::from)?.with_extension("state"),
        };
        let title = match title {
            Some(title) => title?,
            None => title_of(path),
        };
        Some((title, resolve(path, &folder?), resolve(path, &state), key))
    });
    root.finish();
    let ((calendar, late), (title, output, state, key)) = (steps?, output?);
    if output == state {
        return root.wrong(
            "`output.folder` and `output.state` are the same folder; the state must not be published",
        );
    }
    Some(Spec {
        path: path.to_owned(),
        privacy: privacy?,
        input: input?,
        limits: limits?,
        calendar,
        late,
        releases: releases?,
        title,
        output,
        state,
        key,
    })
}

/// What the page is called where nobody says: the name of the description, as words.
fn title_of(path: &Path) -> String {
    let name =
        path.file_stem().map(|name| name.to_string_lossy().replace(['-', '_'], " ")).unwrap_or_default();
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn privacy(table: &Table<'_>) -> (Option<Privacy>, Option<Protects>) {
    let epsilon = table.optional("epsilon").map(|field| field.positive());
    let delta = table.optional("delta");
    let rho = table.optional("rho").map(|field| field.positive());
    let delta = delta.map(|field| {
        let delta = field.number()?;
        if delta > 0.0 && delta < 1.0 {
            Some(delta)
        } else {
            field.wrong(format!(
                "{delta} is not strictly between 0 and 1; well below one over the number of people is usual"
            ))
        }
    });
    let budget = match (epsilon, delta, rho) {
        (Some(epsilon), Some(delta), None) => {
            epsilon.zip(delta).map(|(epsilon, delta)| Promise::Approximate { epsilon, delta })
        }
        (None, None, Some(rho)) => rho.map(|rho| Promise::ZeroConcentrated { rho }),
        (Some(epsilon), None, None) => epsilon.map(|epsilon| Promise::Pure { epsilon }),
        (None, Some(_), None) => table.wrong("`privacy.epsilon` is missing beside `privacy.delta`"),
        (None, None, None) => table
            .wrong("there is no budget; write `epsilon`, `epsilon` and `delta`, or `rho`, under [privacy]"),
        (_, _, Some(_)) => table.wrong("there are two budgets; write `epsilon` and `delta`, or `rho`"),
    };
    let protects = table.required("protects", "\"person\", \"person-step\" or \"event\"").and_then(|field| {
        field.choice(&[
            ("person", Protects::Person),
            ("person-step", Protects::PersonStep),
            ("event", Protects::Event),
        ])
    });
    let relation = table
        .required("relation", "\"zero-out\" or \"replace\"")
        .and_then(|field| field.choice(&[("zero-out", Relation::ZeroOut), ("replace", Relation::Replace)]));
    table.finish();
    let privacy = budget.zip(protects).zip(relation);
    (privacy.map(|((budget, protects), relation)| Privacy { budget, protects, relation }), protects)
}

fn input(table: &Table<'_>, protects: Option<Protects>) -> Option<Input> {
    let files = table.required("files", "a list of files and folders").and_then(|field| {
        let files = if field.is_list() { field.texts()? } else { vec![field.text()?] };
        if files.is_empty() {
            return field.wrong("is empty; name at least one file or folder");
        }
        Some(files.into_iter().map(PathBuf::from).collect())
    });
    let time = table.required("time", "the column with the time of a row").and_then(|field| field.text());
    let format = table.optional("format").map(|field| {
        let format = field.text()?;
        match calendar::check_format(&format) {
            Ok(()) => Some(format),
            Err(message) => field.wrong(message),
        }
    });
    let person = match (table.optional("person"), protects) {
        (Some(field), Some(Protects::Event)) => {
            field.wrong("nobody's rows are bounded where protects = \"event\"; remove it, or protect \"person\"")
        }
        (Some(field), _) => field.text().map(Some),
        (None, Some(Protects::Person | Protects::PersonStep)) => table.wrong(
            "`input.person` is missing; name the column that identifies a person, or write protects = \"event\"",
        ),
        (None, _) => Some(None),
    };
    let bad_rows = match table.optional("bad_rows") {
        None => Some(BadRows::Drop),
        Some(field) => field.choice(&[("drop", BadRows::Drop), ("refuse", BadRows::Refuse)]),
    };
    table.finish();
    let format = match format {
        Some(format) => Some(format?),
        None => None,
    };
    Some(Input { files: files?, time: time?, format, person: person?, bad_rows: bad_rows? })
}

fn limits(root: &Table<'_>, protects: Option<Protects>) -> Option<Limits> {
    let single = Limits { rows_per_step: 1, steps: 1, separation: 1 };
    let Some(field) = root.optional("limits") else {
        return match protects? {
            Protects::Event => Some(single),
            Protects::Person | Protects::PersonStep => root.wrong(
                "[limits] is missing; say how much of one person counts, such as `rows_per_step = 1` and `steps = 3`",
            ),
        };
    };
    let table = field.table()?;
    let rows = table.optional("rows_per_step").map(|field| field.count(MOST_ROWS));
    let steps = table.optional("steps");
    let separation = table.optional("separation");
    table.finish();
    match protects? {
        Protects::Event => field
            .wrong("a single row is protected and needs no limits; remove [limits], or protect \"person\""),
        Protects::PersonStep => {
            for field in [steps, separation].into_iter().flatten() {
                field.wrong::<()>(
                    "has no meaning where protects = \"person-step\"; remove it, or protect \"person\"",
                );
            }
            let Some(rows) = rows else {
                return table.wrong(
                    "`limits.rows_per_step` is missing; it is the number of rows of a person in a step",
                );
            };
            Some(Limits { rows_per_step: rows?, steps: u32::MAX, separation: 1 })
        }
        Protects::Person => {
            let most = calendar::MOST_STEPS as u32;
            let steps = steps.map(|field| field.count(most));
            let separation = separation.map_or(Some(1), |field| field.count(most));
            if rows.is_none() {
                table.wrong::<()>(
                    "`limits.rows_per_step` is missing; it is the number of rows of a person in a step",
                );
            }
            if steps.is_none() {
                table.wrong::<()>(
                    "`limits.steps` is missing; it is the number of steps in which a person counts",
                );
            }
            Some(Limits { rows_per_step: rows??, steps: steps??, separation: separation? })
        }
    }
}

fn steps(table: &Table<'_>, format: Option<&str>) -> Option<(Calendar, Late)> {
    let length = table.required("length", "the length of a step, such as \"1 day\"").and_then(|field| {
        let text = field.text()?;
        Length::parse(&text).map_or_else(|message| field.wrong(message), Some)
    });
    let first = table.required("first", "the beginning of the first step, such as \"2026-01-01\"");
    let last = table.required("last", "the beginning of the last step, such as \"2026-12-31\"");
    let zone = table.optional("zone").map(|field| field.text());
    let late = match table.optional("late") {
        None => Some(Late::Drop),
        Some(field) => field.choice(&[("drop", Late::Drop), ("next", Late::Next)]),
    };
    table.finish();
    let zone = match zone {
        Some(zone) => Some(zone?),
        None => None,
    };
    let (first, last) = (first.and_then(|field| field.moment()), last.and_then(|field| field.moment()));
    match Calendar::new(length?, &first?, &last?, zone.as_deref(), format) {
        Ok(calendar) => Some((calendar, late?)),
        Err(message) => table.wrong(format!("[steps]: {message}")),
    }
}

fn releases(
    root: &Table<'_>,
    path: &Path,
    protects: Option<Protects>,
    privacy: Option<&Privacy>,
) -> Option<Vec<Release>> {
    let field = root.required("release", "a list of tables [[release]], one for each thing to publish")?;
    let list = field.list()?;
    if list.is_empty() {
        return field.wrong("is empty; describe at least one release under [[release]]");
    }
    let mut names = HashSet::new();
    let mut releases = Vec::new();
    let mut complete = true;
    for field in &list {
        match release(field, path, protects, privacy) {
            Some((release, name)) => {
                if !names.insert(release.name.to_lowercase()) {
                    complete =
                        name.wrong::<()>("another release has this name; every name is used once").is_some();
                }
                releases.push(release);
            }
            None => complete = false,
        }
    }
    if releases.iter().filter(|release| release.of == Of::People).count() > MOST_PEOPLE_RELEASES {
        return field.wrong(format!("at most {MOST_PEOPLE_RELEASES} releases can be of different people"));
    }
    complete.then_some(releases)
}

fn release<'a>(
    field: &Field<'a>,
    path: &Path,
    protects: Option<Protects>,
    privacy: Option<&Privacy>,
) -> Option<(Release, Field<'a>)> {
    let table = field.table()?;
    let name = table.required("name", "the name of the release and of its files").and_then(|field| {
        let name = field.text()?;
        let fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        if name.len() <= 64 && name.chars().all(fine) {
            Some((name, field))
        } else {
            field.wrong("is part of a file name; use at most 64 letters, digits, hyphens and underscores")
        }
    });
    let of = match table.optional("of") {
        None => Some(Of::Rows),
        Some(field) => match field.choice(&[("rows", Of::Rows), ("people", Of::People)]) {
            Some(Of::People) if protects.is_some_and(|protects| protects != Protects::Person) => field.wrong(
                "different people are counted once over all steps, which protects a whole person only; write \
                 protects = \"person\"",
            ),
            of => of,
        },
    };
    let value_field = table.optional("value");
    let statistics_field = table.required("statistics", "a list such as [\"total\", \"window:7\"]");
    let statistics: Option<Vec<Statistic>> = statistics_field.as_ref().and_then(|field| {
        let list = field.list()?;
        if list.is_empty() {
            return field.wrong("is empty; name at least one statistic, such as \"total\"");
        }
        let mut statistics: Vec<Statistic> = Vec::new();
        let mut complete = true;
        for item in list {
            match item.text().map(|text| Statistic::parse(&text)) {
                Some(Ok(statistic)) if statistics.contains(&statistic) => {
                    complete = item.wrong::<()>(format!("{statistic} is there twice")).is_some();
                }
                Some(Ok(statistic)) => statistics.push(statistic),
                Some(Err(message)) => complete = item.wrong::<()>(message).is_some(),
                None => complete = false,
            }
        }
        complete.then_some(statistics)
    });
    let ordered = statistics.as_ref().is_some_and(|list| list.iter().any(|one| one.is_ordered()));
    let value = value_field.as_ref().map(|field| value(field, ordered));
    if let (Some(list), Some(field)) = (&statistics, &statistics_field) {
        if ordered && list.iter().any(|one| !one.is_ordered()) {
            field.wrong::<()>(
                "quantiles and ranges are measured by themselves; put them into a release of their own",
            );
        }
        let needs_value = list.iter().find(|one| **one == Statistic::Mean || one.is_ordered());
        if let (Some(statistic), None) = (needs_value, &value_field) {
            field.wrong::<()>(format!(
                "{statistic} is of a value; add `value = {{ column = \"…\", bounds = [low, high] }}`"
            ));
        }
    }
    if let (Some(Of::People), Some(field)) = (of, &value_field) {
        field.wrong::<()>("different people are counted, not summed; remove it, or `of = \"people\"`");
    }
    let weights = match (table.optional("weights"), &statistics) {
        (None, statistics) => Some(vec![1.0; statistics.as_ref().map_or(0, Vec::len)]),
        (Some(field), statistics) => {
            let weights: Option<Vec<f64>> =
                field.list().and_then(|list| list.iter().map(Field::positive).collect());
            match (&weights, statistics) {
                (Some(weights), Some(statistics)) if weights.len() != statistics.len() => {
                    field.wrong(format!(
                        "there are {} weights for {} statistics; write one for each",
                        weights.len(),
                        statistics.len()
                    ))
                }
                _ => weights,
            }
        }
    };
    let by_field = table.optional("by");
    let by = by_field.as_ref().map(|field| by(field, path));
    if let (Some(field), Some(Some(by))) = (&by_field, &by) {
        check_found(field, by, value_field.is_some(), privacy);
    }
    let share = table.optional("share").map_or(Some(1.0), |field| field.positive());
    table.finish();
    let value = match value {
        Some(value) => Some(value?),
        None => None,
    };
    let by = match by {
        Some(by) => Some(by?),
        None => None,
    };
    let (name, name_field) = name?;
    let release =
        Release { name, of: of?, value, statistics: statistics?, weights: weights?, by, share: share? };
    Some((release, name_field))
}

/// What keys that are found in the rows need: counts, and a δ.
fn check_found(field: &Field<'_>, by: &By, has_value: bool, privacy: Option<&Privacy>) {
    if !by.is_found() {
        return;
    }
    if has_value {
        field.wrong::<()>("rows are counted where keys are not listed; list `values`, or remove `value`");
    }
    if privacy.is_some_and(|privacy| !matches!(privacy.budget, Promise::Approximate { .. })) {
        field.wrong::<()>(
            "keys that are not listed are found with a small probability of showing one that a single person has caused, \
             which needs a `delta`; list `values`, or write `epsilon` and `delta`",
        );
    }
}

fn value(field: &Field<'_>, ordered: bool) -> Option<Value> {
    let table = field.table()?;
    let column = table.required("column", "the column with the value").and_then(|field| field.text());
    let bounds_field =
        table.required("bounds", "two numbers [low, high]; values beyond them count as the bound");
    let bounds = bounds_field.as_ref().and_then(|field| {
        let bounds: Vec<f64> = field.list()?.iter().map(Field::number).collect::<Option<_>>()?;
        match bounds[..] {
            [low, high] if low < high => Some((low, high)),
            [low, high] => field.wrong(format!("the lower bound {low} is not below the upper bound {high}")),
            _ => field.wrong("expected two numbers [low, high]"),
        }
    });
    let resolution = match table.optional("resolution") {
        Some(field) => Some((field.positive()?, Some(field))),
        None if ordered => table.wrong(
            "`resolution` is missing; quantiles are taken over the values from the lower to the upper bound in steps of it",
        ),
        None => bounds.map(|(low, high)| (default_resolution(low, high), None)),
    };
    table.finish();
    let ((low, high), (resolution, place)) = (bounds?, resolution?);
    let place = place.as_ref().unwrap_or(field);
    let values = (high - low) / resolution;
    if !(values >= 1.0) {
        return place
            .wrong(format!("{resolution} is coarser than the bounds are wide; write a smaller resolution"));
    }
    if ordered && !(values <= MOST_VALUES) {
        return place.wrong(format!(
            "there are {values:.0} values; quantiles are taken over at most {MOST_VALUES:.0}"
        ));
    }
    if !(low.abs().max(high.abs()) / resolution <= f64::from(1 << 24)) {
        return place.wrong("is too fine for these bounds: at most 2^24 steps from zero to the larger bound");
    }
    Some(Value { column: column?, low, high, resolution })
}

/// The power of ten that divides the larger bound into between a thousand and ten thousand parts: far finer than the noise.
fn default_resolution(low: f64, high: f64) -> f64 {
    let exponent = (low.abs().max(high.abs()) / 1000.0).log10().floor();
    // Read from text, because powers of ten computed in floating point are not the nearest ones.
    format!("1e{exponent:.0}").parse().unwrap_or(1.0)
}

fn by(field: &Field<'_>, path: &Path) -> Option<By> {
    let table = field.table()?;
    let column = table.required("column", "the column by which the release is split").and_then(|field| {
        let column = field.text()?;
        if crate::publish::COLUMNS.contains(&column.as_str()) {
            return field
                .wrong(format!("`{column}` is the name of a column of the output; rename it in the input"));
        }
        Some(column)
    });
    // Without a list, keys are found in the rows.
    let values_field = table.optional("values");
    let values = values_field.as_ref().map_or(Some(Vec::new()), |field| {
        let values = if field.is_list() {
            field.texts()?
        } else {
            let file = resolve(path, Path::new(&field.text()?));
            let bytes = match std::fs::read(&file) {
                Ok(bytes) => bytes,
                Err(error) => return field.wrong(format!("cannot read `{}`: {error}", file.display())),
            };
            match rows::text_of(bytes) {
                Ok(text) => {
                    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
                }
                Err((line, message)) => {
                    return field.wrong(format!("`{}:{line}`: {message}", file.display()));
                }
            }
        };
        let mut seen = HashSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(value.as_str())) {
            return field.wrong(format!("the key \"{twice}\" is there twice"));
        }
        match values.len() {
            0 => field.wrong("there are no keys; name at least one"),
            1..=MOST_KEYS => Some(values),
            many => field.wrong(format!("there are {many} keys; at most {MOST_KEYS} can be published")),
        }
    });
    let other = table.optional("other").map(|field| {
        let other = field.text()?;
        match &values {
            Some(values) if values.is_empty() => {
                field.wrong("has no meaning where keys are found in the rows; list `values`, or remove it")
            }
            Some(values) if values.contains(&other) => {
                field.wrong(format!("\"{other}\" is one of the values; choose another name for the rest"))
            }
            _ => Some(other),
        }
    });
    table.finish();
    let other = match other {
        Some(other) => Some(other?),
        None => None,
    };
    Some(By { column: column?, values: values?, other })
}
