//! `dp episodes`: private counts of minimal occurrences of short subsequences.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use dp_apps::episodes::Episodes as Encoding;
use dp_mechanisms::Participation;

use super::letter;
use crate::arguments::Usage;
use crate::counting::{Counting, CountingArguments};

/// Count minimal occurrences of episodes in a CSV column of letters privately
///
/// An episode is a short sequence of letters that occur in this order, with anything between them; a minimal occurrence
/// contains no shorter one. Each row holds one letter, or "" for a step without one. Writes `step,item,release,standard_deviation`; what is
/// printed is chosen by --show or by released values, never by true counts.
#[derive(Args)]
pub(crate) struct Episodes {
    /// All letters there can be
    #[arg(long, requires = "length", required_unless_present = "list")]
    alphabet: Option<String>,
    /// The length of the longest episodes
    #[arg(long, requires = "alphabet")]
    length: Option<usize>,
    /// The episodes to count, one per line, in place of all
    #[arg(long, value_name = "FILE", conflicts_with = "alphabet")]
    list: Option<PathBuf>,
    // Last, because it ends with a heading of its own.
    #[command(flatten)]
    counting: CountingArguments,
}

impl Episodes {
    pub(crate) fn run(&self) -> Result<()> {
        let relation = self.counting.relation;
        let encoding = match (&self.list, &self.alphabet, self.length) {
            (Some(path), ..) => Encoding::listed(super::lines(path, "the episodes")?, relation)
                .with_context(|| format!("the episodes in `{}` cannot be used", path.display()))?,
            (None, Some(alphabet), Some(length)) => {
                Encoding::all(alphabet.chars(), length, relation).map_err(Usage::error)?
            }
            _ => return Err(Usage::error("give --alphabet and --length, or --list")),
        };
        let column = self.counting.column.as_str();
        let list = self.list.as_deref().map(|path| ("--list", path));
        let counting = Counting { columns: &[column], list, participation: Participation::Single };
        self.counting
            .count(&counting, encoding, |_, fields| letter(column, fields.unwrap_or_default()).map(Box::new))
    }
}
