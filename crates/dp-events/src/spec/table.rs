//! Tables of a TOML file that are taken apart field by field, with every mistake noted at its line.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Mistake;

/// The mistakes found so far in one file.
pub(super) struct Mistakes<'a> {
    file: PathBuf,
    text: &'a str,
    found: RefCell<Vec<Mistake>>,
}

impl<'a> Mistakes<'a> {
    pub(super) fn new(file: &Path, text: &'a str) -> Self {
        Self { file: file.to_owned(), text, found: RefCell::new(Vec::new()) }
    }

    /// Notes a mistake at a place in the text.
    pub(super) fn note(&self, span: &Range<usize>, message: impl Into<String>) {
        let line = line_at(self.text, span.start);
        self.found.borrow_mut().push(Mistake { file: self.file.clone(), line, message: message.into() });
    }

    /// All mistakes, in the order of their lines.
    pub(super) fn into_sorted(self) -> Vec<Mistake> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|mistake| mistake.line);
        found.dedup();
        found
    }
}

/// The line of a byte of a text, counted from 1.
pub(super) fn line_at(text: &str, place: usize) -> u64 {
    let before = text.as_bytes().get(..place).unwrap_or(text.as_bytes());
    1 + before.split(|byte| *byte == b'\n').skip(1).count() as u64
}

/// A value with its place and the path of names that leads to it.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) name: String,
    pub(super) span: Range<usize>,
    value: &'a DeValue<'a>,
    mistakes: &'a Mistakes<'a>,
}

impl<'a> Field<'a> {
    /// Notes a mistake about this value; what is returned stands for a value that could not be used.
    pub(super) fn wrong<T>(&self, message: impl std::fmt::Display) -> Option<T> {
        self.mistakes.note(&self.span, format!("`{}`: {message}", self.name));
        None
    }

    fn expected<T>(&self, what: &str) -> Option<T> {
        self.wrong(format!("expected {what}, found {}", self.value.type_str()))
    }

    pub(super) fn text(&self) -> Option<String> {
        match self.value.as_str() {
            Some("") => self.wrong("is empty; write a text or leave the field out"),
            Some(text) => Some(text.to_owned()),
            None => self.expected("a text in quotes"),
        }
    }

    /// A text, or a date that TOML writes without quotes.
    pub(super) fn moment(&self) -> Option<String> {
        match self.value {
            DeValue::Datetime(moment) => Some(moment.to_string()),
            _ => self.text(),
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        let text = match self.value {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().replace('_', ""),
            DeValue::Float(float) => float.as_str().replace('_', ""),
            _ => return self.expected("a number"),
        };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Some(number),
            _ => self.wrong("is not a finite number"),
        }
    }

    pub(super) fn positive(&self) -> Option<f64> {
        let number = self.number()?;
        if number > 0.0 { Some(number) } else { self.wrong(format!("{number} is not above 0")) }
    }

    /// A whole number from 1 to a limit.
    pub(super) fn count(&self, most: u32) -> Option<u32> {
        let DeValue::Integer(integer) = self.value else { return self.expected("a whole number") };
        match integer.as_str().replace('_', "").parse::<u32>() {
            Ok(count) if (1..=most).contains(&count) && integer.radix() == 10 => Some(count),
            _ => self.wrong(format!("{} is not a whole number from 1 to {most}", integer.as_str())),
        }
    }

    pub(super) fn list(&self) -> Option<Vec<Field<'a>>> {
        let Some(array) = self.value.as_array() else { return self.expected("a list in square brackets") };
        Some(array.iter().map(|value| self.inner(self.name.clone(), value)).collect())
    }

    pub(super) fn texts(&self) -> Option<Vec<String>> {
        self.list()?.iter().map(Field::text).collect()
    }

    /// Whether this is a list rather than a single value.
    pub(super) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    pub(super) fn table(&self) -> Option<Table<'a>> {
        match self.value.as_table() {
            Some(table) => Some(Table::new(self.name.clone(), self.span.clone(), table, self.mistakes)),
            None => self.expected("a table"),
        }
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let list: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.wrong(format!("\"{text}\" is none of {}", list.join(", ")))
    }

    fn inner(&self, name: String, value: &'a Spanned<DeValue<'a>>) -> Field<'a> {
        Field { name, span: value.span(), value: value.get_ref(), mistakes: self.mistakes }
    }
}

/// A table whose fields are taken one by one; what is left in the end is unknown.
pub(super) struct Table<'a> {
    name: String,
    pub(super) span: Range<usize>,
    fields: &'a DeTable<'a>,
    mistakes: &'a Mistakes<'a>,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        name: String,
        span: Range<usize>,
        fields: &'a DeTable<'a>,
        mistakes: &'a Mistakes<'a>,
    ) -> Self {
        Self { name, span, fields, mistakes, known: RefCell::new(Vec::new()) }
    }

    /// A field that may be missing.
    pub(super) fn optional(&self, name: &'static str) -> Option<Field<'a>> {
        self.known.borrow_mut().push(name);
        let value = self.fields.get(name)?;
        Some(Field {
            name: self.path(name),
            span: value.span(),
            value: value.get_ref(),
            mistakes: self.mistakes,
        })
    }

    /// A field that must be there.
    pub(super) fn required(&self, name: &'static str, what: &str) -> Option<Field<'a>> {
        let field = self.optional(name);
        if field.is_none() {
            self.wrong::<()>(format!("`{}` is missing; it is {what}", self.path(name)));
        }
        field
    }

    /// Notes a mistake about the table as a whole.
    pub(super) fn wrong<T>(&self, message: impl Into<String>) -> Option<T> {
        self.mistakes.note(&self.span, message);
        None
    }

    /// Notes every field that nobody asked for.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for (key, _) in self.fields {
            if !known.iter().any(|name| *name == key.get_ref().as_ref()) {
                let list: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                let message = format!(
                    "`{}` is no field; the fields here are {}",
                    self.path(key.get_ref()),
                    list.join(", ")
                );
                self.mistakes.note(&key.span(), message);
            }
        }
    }

    fn path(&self, name: &str) -> String {
        if self.name.is_empty() { name.to_owned() } else { format!("{}.{name}", self.name) }
    }
}
