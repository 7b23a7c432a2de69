//! One file per command.

use std::path::Path;

use anyhow::Result;

use crate::files;
use crate::records::Fault;

pub(crate) mod account;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod episodes;
pub(crate) mod graph;
pub(crate) mod histogram;
pub(crate) mod ledger;
pub(crate) mod local;
pub(crate) mod new;
pub(crate) mod plan;
pub(crate) mod release;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod substrings;
pub(crate) mod train;

/// The letter of a row; nothing where the field is empty.
fn letter(column: &str, fields: &[String]) -> Result<Option<char>, Fault> {
    let text = fields.first().map_or("", String::as_str);
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (letter, None) => Ok(letter),
        _ => Err(Fault::new(column, "more than one letter", text)),
    }
}

/// The lines of a file that are not empty.
fn lines(path: &Path, what: &str) -> Result<Vec<String>> {
    let text = files::list(path, what)?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect())
}
