//! `dp episodes`: private counts of minimal occurrences of short subsequences.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use dp_apps::episodes::Episodes as Encoding;

use super::letter;
use crate::arguments::Usage;
use crate::counting::CountingArguments;

/// Count minimal occurrences of episodes in a CSV column of letters privately
///
/// An episode is a short sequence of letters that occur in this order, with anything between them; a minimal occurrence
/// contains no shorter one. Each row holds one letter, or "" for a step without one. Writes `step,item,release,standard_deviation`; what is
/// printed is chosen by --show or by released values, never by true counts.
#[derive(Args)]
pub(crate) struct Episodes {
    #[command(flatten)]
    counting: CountingArguments,
    /// All letters there can be
    #[arg(long, requires = "length", required_unless_present = "list")]
    alphabet: Option<String>,
    /// The length of the longest episodes
    #[arg(long, requires = "alphabet")]
    length: Option<usize>,
    /// The episodes to count, one per line, in place of all
    #[arg(long, value_name = "FILE", conflicts_with = "alphabet")]
    list: Option<PathBuf>,
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
        self.counting.count(encoding, &[self.counting.column.as_str()], |_, fields| letter(fields))
    }
}
