//! `dp histogram`: private counts of items after every row.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use dp_apps::histogram::{Change, Histogram as Encoding, Rules, Universe};
use dp_mechanisms::Participation;

use crate::arguments::Usage;
use crate::counting::CountingArguments;

/// Count the items of a CSV column privately
///
/// Each row is one person's contribution to one step: up to --items items, separated by --separator. The universe is
/// public: a file with one item per line, or a range of integers. Writes `step,item,release,standard_deviation` for the
/// items of --show, or for the largest released counts.
#[derive(Args)]
pub(crate) struct Histogram {
    #[command(flatten)]
    counting: CountingArguments,
    /// All items there can be: a file with one per line
    #[arg(long, value_name = "FILE", required_unless_present = "integers")]
    universe: Option<PathBuf>,
    /// All items there can be: the integers FIRST to LAST
    #[arg(long, value_name = "FIRST:LAST", conflicts_with = "universe", allow_hyphen_values = true)]
    integers: Option<String>,
    /// A column with items that are removed
    #[arg(long, value_name = "NAME")]
    removed: Option<String>,
    /// The most items in a row; the noise depends on it
    #[arg(long, default_value = "1")]
    items: usize,
    /// A row may name one item several times; this needs more noise
    #[arg(long)]
    repeated: bool,
    /// What separates the items of a row
    #[arg(long, default_value = ";")]
    separator: char,
    /// In how many rows one person may appear: single, or K:B for at most K rows, any two at least B apart
    #[arg(long, value_name = "K:B", default_value = "single")]
    participation: Participation,
}

impl Histogram {
    pub(crate) fn run(&self) -> Result<()> {
        let rules = Rules {
            items: self.items,
            distinct: !self.repeated,
            removals: self.removed.is_some(),
            relation: self.counting.relation,
            participation: self.participation,
        };
        let encoding = Encoding::new(self.universe()?, rules).map_err(Usage::error)?;
        let columns: Vec<&str> =
            [Some(self.counting.column.as_str()), self.removed.as_deref()].into_iter().flatten().collect();
        let changes: [fn(u64) -> Change<u64>; 2] = [Change::Insert, Change::Remove];
        self.counting.run(encoding, &columns, |encoding, fields| {
            let mut contribution = Vec::new();
            for (field, change) in fields.iter().zip(changes) {
                for item in field.split(self.separator).map(str::trim).filter(|item| !item.is_empty()) {
                    let position = encoding
                        .universe()
                        .position(item)
                        .ok_or_else(|| anyhow!("`{item}` is not in the universe; it must hold every item"))?;
                    contribution.push(change(position));
                }
            }
            Ok(vec![contribution].into_boxed_slice())
        })
    }

    fn universe(&self) -> Result<Universe> {
        if let Some(range) = &self.integers {
            let numbers: Option<(i64, i64)> = range
                .split_once(':')
                .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)));
            return match numbers {
                Some((first, last)) if first <= last => {
                    Universe::integers(first, last.abs_diff(first).saturating_add(1)).map_err(Usage::error)
                }
                _ => {
                    Err(Usage::error(format!("`{range}` is not a range of integers FIRST:LAST such as 0:99")))
                }
            };
        }
        let Some(path) = &self.universe else {
            return Err(Usage::error("no universe; give --universe or --integers"));
        };
        Universe::named(super::lines(path, "the universe")?)
            .with_context(|| format!("the universe in `{}` cannot be used", path.display()))
    }
}
