//! `dp substrings`: private counts of short strings in a stream of letters.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use dp_apps::substrings::Substrings as Encoding;
use dp_apps::substrings::dictionary::Dictionary;
use dp_mechanisms::Participation;

use super::letter;
use crate::arguments::Usage;
use crate::counting::{Counting, CountingArguments};
use crate::records::Fault;

/// Count short strings in a CSV column of letters privately
///
/// Each row holds one letter, or "" for a step without one, which separates. Counts all strings up to --length over --alphabet, or the words
/// of a public dictionary, and writes `step,item,release,standard_deviation`.
#[derive(Args)]
pub(crate) struct Substrings {
    /// All letters there can be, such as ACGT
    #[arg(long, requires = "length", required_unless_present = "dictionary")]
    alphabet: Option<String>,
    /// The length of the longest strings
    #[arg(long, requires = "alphabet")]
    length: Option<usize>,
    /// The words to count, one per line, in place of all strings
    #[arg(long, value_name = "FILE", conflicts_with = "alphabet")]
    dictionary: Option<PathBuf>,
    // Last, because it ends with a heading of its own.
    #[command(flatten)]
    counting: CountingArguments,
}

impl Substrings {
    pub(crate) fn run(&self) -> Result<()> {
        let relation = self.counting.relation;
        let columns = [self.counting.column.as_str()];
        let list = self.dictionary.as_deref().map(|path| ("--dictionary", path));
        let counting = Counting { columns: &columns, list, participation: Participation::Single };
        if let Some(path) = &self.dictionary {
            let words = super::lines(path, "the dictionary")?;
            let encoding = Dictionary::new(words, relation)
                .with_context(|| format!("the dictionary in `{}` cannot be used", path.display()))?;
            return self.counting.count(&counting, encoding, |_, fields| self.letter(fields));
        }
        let (Some(alphabet), Some(length)) = (&self.alphabet, self.length) else {
            return Err(Usage::error("give --alphabet and --length, or --dictionary"));
        };
        let encoding = Encoding::new(alphabet.chars(), length, relation).map_err(Usage::error)?;
        self.counting.count(&counting, encoding, |_, fields| self.letter(fields))
    }

    fn letter(&self, fields: Option<&[String]>) -> Result<Box<Option<char>>, Fault> {
        letter(&self.counting.column, fields.unwrap_or_default()).map(Box::new)
    }
}
