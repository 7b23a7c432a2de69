//! One file per command.

use std::path::Path;

use anyhow::{Context, Result, bail};

pub(crate) mod calibrate;
pub(crate) mod demo;
pub(crate) mod episodes;
pub(crate) mod graph;
pub(crate) mod histogram;
pub(crate) mod local;
pub(crate) mod plan;
pub(crate) mod release;
pub(crate) mod substrings;
pub(crate) mod train;

/// The letter of a row; nothing where the field is empty.
fn letter(fields: &[&str]) -> Result<Box<Option<char>>> {
    let text = fields.first().copied().unwrap_or("");
    let mut letters = text.chars();
    let letter = letters.next();
    if letters.next().is_some() {
        bail!("`{text}` is more than one letter; write one letter per row");
    }
    Ok(Box::new(letter))
}

/// The lines of a file that are not empty.
fn lines(path: &Path, what: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {what} from `{}`", path.display()))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect())
}
