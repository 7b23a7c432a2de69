//! `dp histogram`: private counts of items after every row.

mod ranges;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use dp_apps::histogram::discovery::{Discovery, Threshold};
use dp_apps::histogram::{Change, Histogram as Encoding, Rules, Universe};
use dp_mechanisms::budget::Kind;
use dp_mechanisms::sparse::MOST_COORDINATES;
use dp_mechanisms::{Participation, Plan, Snapshot};

use crate::arguments::Usage;
use crate::counting::{Counter, Counting, CountingArguments, Refusal};
use crate::dated::{self, DatedArguments, Job};
use crate::output;
use crate::records::{BadRows, Fault};

/// Count the items of a CSV column privately
///
/// Each row is one person's contribution to one step: up to --items items, separated by --separator. Writes
/// `step,item,release,standard_deviation` for the items of --show, or for the largest released counts.
///
/// The universe is public: a file with one item per line, or a range of integers. If nobody knows beforehand which items
/// there are, --discover prints those whose released counts stand out, from the first time they do: an item of a single
/// person appears with probability --threshold-delta at most, which is added to the δ of the budget. After the rows that --every
/// names and the last of --steps they have to stand out less than elsewhere: the fewer are printed, the less.
///
/// Of integers, --range and --quantile are read off a tree over them: half of a million values costs less than 10 standard deviations
/// of a single count, and not the 707 of as many counts.
///
/// With --time, a row holds one item, and rows of many people are counted by day, week or hour: a small job of `dp run`, whose
/// table is written. Half of the δ is then for --discover.
#[derive(Args)]
pub(crate) struct Histogram {
    /// All items there can be: a file with one per line
    #[arg(long, value_name = "FILE", required_unless_present_any = ["integers", "discover"])]
    universe: Option<PathBuf>,
    /// All items there can be: the integers FIRST to LAST
    #[arg(long, value_name = "FIRST:LAST", conflicts_with = "universe", allow_hyphen_values = true)]
    integers: Option<String>,
    /// Nobody knows which items there are: print those that stand out
    #[arg(long, conflicts_with_all = ["universe", "integers"])]
    discover: bool,
    /// With --discover and without --time, the probability with which an item of a single person may appear; it adds to --delta
    #[arg(long, value_name = "DELTA", requires = "discover", allow_negative_numbers = true)]
    threshold_delta: Option<f64>,
    /// Print how many there are between two of the --integers, both included; may be given several times
    #[arg(long, value_name = "LOW:HIGH", requires = "integers", conflicts_with_all = ["show", "top"], allow_hyphen_values = true)]
    range: Vec<String>,
    /// Print the integer up to which this part of everything lies, such as 0.5 for the median; may be given several times
    #[arg(long, value_name = "PART", requires = "integers", conflicts_with_all = ["show", "top"])]
    quantile: Vec<f64>,
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
    /// In how many rows one person may appear: single, or K:B for at most K rows, any two at least B apart; with --time, in how
    /// many steps [default: single]
    #[arg(long, value_name = "K:B")]
    participation: Option<Participation>,
    #[command(flatten)]
    dated: DatedArguments,
    // Last, because it ends with a heading of its own.
    #[command(flatten)]
    counting: CountingArguments,
}

impl Histogram {
    pub(crate) fn run(&self) -> Result<()> {
        if self.dated.is_given()? {
            return self.by_calendar();
        }
        let participation = self.participation.unwrap_or(Participation::Single);
        let rules = Rules {
            items: self.items,
            distinct: !self.repeated,
            removals: self.removed.is_some(),
            relation: self.counting.relation,
            participation,
        };
        let columns: Vec<&str> =
            [Some(self.counting.column.as_str()), self.removed.as_deref()].into_iter().flatten().collect();
        let list = self.universe.as_deref().map(|path| ("--universe", path));
        let counting = Counting { columns: &columns, list, participation };
        if self.discover {
            let delta = self.threshold_delta.ok_or_else(|| {
                Usage::error(
                    "--discover needs --threshold-delta: how likely a single person's item may appear",
                )
            })?;
            return self.discover(rules, delta, &counting);
        }
        if !self.range.is_empty() || !self.quantile.is_empty() {
            return self.order(participation, &counting);
        }
        let encoding = Encoding::new(self.universe()?, rules).map_err(Usage::error)?;
        self.counting.count(&counting, encoding, |encoding, fields| {
            let contribution = self.known(&rules, &columns, fields, encoding.universe())?;
            Ok(vec![contribution].into_boxed_slice())
        })
    }

    /// One person's items by their places in a universe.
    fn known(
        &self,
        rules: &Rules,
        columns: &[&str],
        fields: Option<&[String]>,
        universe: &Universe,
    ) -> Result<Vec<Change<u64>>, Fault> {
        self.contribution(rules, columns, fields, |item| {
            universe.position(item).ok_or("not in the universe, which must hold every item")
        })
    }

    /// The same job on rows with times.
    fn by_calendar(&self) -> Result<()> {
        let CountingArguments { column, strategy, workload, show, top, idealized, .. } = &self.counting;
        let unfit = [
            ("--items", self.items != 1),
            ("--repeated", self.repeated),
            ("--removed", self.removed.is_some()),
            ("--strategy", strategy != "auto"),
            ("--top", top.is_some()),
            ("--idealized", *idealized),
            ("--threshold-delta", self.threshold_delta.is_some()),
        ];
        if let Some((option, _)) = unfit.iter().find(|(_, given)| *given) {
            return Err(Usage::error(format!(
                "{option} is for one step per row; with --time a row holds one item, and all items are published"
            )));
        }
        let ordered = self.range.iter().map(|range| format!("range:{range}"));
        let ordered: Vec<String> =
            ordered.chain(self.quantile.iter().map(|part| format!("quantile:{part}"))).collect();
        let (value, by, statistics) = if ordered.is_empty() {
            if self.dated.by.is_some() {
                return Err(Usage::error(
                    "counts are split by their items; --by splits ranges and quantiles",
                ));
            }
            let all = || -> Result<Vec<String>> {
                let universe = self.universe()?;
                Ok((0..universe.size()).map_while(|place| universe.name(place)).collect())
            };
            let items = match (self.discover, show.is_empty()) {
                (true, _) => None,
                (false, false) => Some(show.clone()),
                (false, true) => Some(all()?),
            };
            (None, Some((column.as_str(), items)), vec![workload.replace("count", "total")])
        } else {
            let (first, last) = self.bounds()?;
            let column = dated::quoted(column);
            let value = format!("{{ column = {column}, bounds = [{first}, {last}], resolution = 1 }}");
            (Some(value), None, ordered)
        };
        self.dated.run(&Job {
            input: &self.counting.input,
            relation: self.counting.relation,
            participation: self.participation,
            bad_rows: self.counting.rows.bad_rows,
            value,
            statistics,
            by,
            output: &self.counting.output,
            noise: &self.counting.noise,
        })
    }

    /// One person's items: those of the first field are inserted, those of the second removed. Without fields, none.
    fn contribution<T: PartialEq>(
        &self,
        rules: &Rules,
        columns: &[&str],
        fields: Option<&[String]>,
        find: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<Vec<Change<T>>, Fault> {
        let clamp = self.counting.rows.bad_rows == BadRows::Clamp;
        let changes: [fn(T) -> Change<T>; 2] = [Change::Insert, Change::Remove];
        let mut contribution: Vec<Change<T>> = Vec::new();
        for ((field, column), change) in fields.unwrap_or_default().iter().zip(columns).zip(changes) {
            for text in field.split(self.separator).map(str::trim).filter(|text| !text.is_empty()) {
                match find(text) {
                    Ok(item) => {
                        // Clamped to the rules: what is given twice and what is too many does not count.
                        let twice =
                            rules.distinct && contribution.iter().any(|known| *known.parts().0 == item);
                        if !(clamp && (twice || contribution.len() >= rules.items)) {
                            contribution.push(change(item));
                        }
                    }
                    Err(_) if clamp => {}
                    Err(what) => return Err(Fault::new(column, what, text)),
                }
            }
        }
        Ok(contribution)
    }

    fn discover(&self, rules: Rules, threshold_delta: f64, counting: &Counting) -> Result<()> {
        let budget = self.counting.budget()?;
        let when = Threshold::new(threshold_delta).and_then(|when| when.printing_every(self.counting.every));
        let when = when.map_err(Usage::error)?;
        let footprint = rules.footprint(None).map_err(Usage::error)?;
        let strategy = self.counting.strategy(&footprint, MOST_COORDINATES)?;
        let plan_for =
            if self.counting.idealized { Discovery::idealized_plan_for } else { Discovery::plan_for };
        let plan = plan_for(&rules, &strategy, budget).map_err(Usage::error)?;
        self.counting.run(counting, |saved, seed| {
            let keys = match saved {
                Some(snapshot) => Discovery::resume(rules, plan, when, snapshot, seed),
                None => Discovery::new(rules, plan, when, seed),
            };
            let keys = keys.map_err(|error| match error {
                dp_apps::Error::OutOfRange { .. } => Usage::error(error),
                _ => error.into(),
            })?;
            output::note(&guarantee(&keys, threshold_delta));
            Ok(Discovered { keys, command: self, rules, columns: counting.columns })
        })
    }

    /// The first and the last of --integers.
    fn bounds(&self) -> Result<(i64, i64)> {
        let range = self.integers.as_deref().unwrap_or_default();
        let numbers: Option<(i64, i64)> = range
            .split_once(':')
            .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)));
        numbers.filter(|(first, last)| first <= last).ok_or_else(|| {
            Usage::error(format!("`{range}` is not a range of integers FIRST:LAST such as 0:99"))
        })
    }

    fn universe(&self) -> Result<Universe> {
        if self.integers.is_some() {
            let (first, last) = self.bounds()?;
            return Universe::integers(first, last.abs_diff(first).saturating_add(1)).map_err(Usage::error);
        }
        let Some(path) = &self.universe else {
            return Err(Usage::error("no universe; give --universe, --integers or --discover"));
        };
        Universe::named(super::lines(path, "the universe")?)
            .with_context(|| format!("the universe in `{}` cannot be used", path.display()))
    }
}

/// What all lines together satisfy.
fn guarantee(keys: &Discovery, threshold_delta: f64) -> String {
    match (keys.plan().budget().kind(), keys.total_delta()) {
        (Kind::Approximate { epsilon, delta }, Some(total)) => format!(
            "all lines together are ({epsilon}, {total:.3e})-differentially private: δ = {delta:e} of the budget, and \
             {threshold_delta:e} of the threshold"
        ),
        _ => format!(
            "all lines together satisfy the budget up to a δ of {threshold_delta:e}, which is that of the threshold"
        ),
    }
}

/// Counts of items that nobody knows beforehand.
struct Discovered<'a> {
    keys: Discovery,
    command: &'a Histogram,
    rules: Rules,
    columns: &'a [&'a str],
}

impl Counter for Discovered<'_> {
    fn step(&self) -> usize {
        self.keys.step()
    }

    fn plan(&self) -> &Plan {
        self.keys.plan()
    }

    fn push(&mut self, fields: Option<&[String]>) -> Result<(), Refusal> {
        let contribution =
            self.command.contribution(&self.rules, self.columns, fields, |item| Ok(one_line(item)));
        self.keys.push(&[contribution.map_err(Refusal::Row)?])?;
        Ok(())
    }

    /// The keys are in the state; a row that was counted is not needed again.
    fn replay(&mut self, _fields: Option<&[String]>) -> Result<(), Refusal> {
        Ok(())
    }

    fn knows(&self, _item: &str) -> bool {
        true
    }

    /// Only items that were named or asked for are looked at.
    fn items(&self) -> u64 {
        1
    }

    fn count(&mut self, item: &str) -> dp_apps::Result<f64> {
        Ok(self.keys.count(item)?.value)
    }

    fn largest(&mut self, most: Option<usize>) -> Result<Vec<(String, f64)>> {
        let found = self.keys.found()?.into_iter().map(|found| (found.key, found.value));
        Ok(found.take(most.unwrap_or(usize::MAX)).collect())
    }

    fn snapshot(&self) -> Snapshot {
        self.keys.snapshot()
    }

    fn accuracy(&self) -> Result<String> {
        Ok(format!(
            "an item appears once its release reaches {:.2}; a release has a standard deviation of {:.2}",
            self.keys.threshold(),
            self.standard_deviation()
        ))
    }
}

/// The item with control characters spelled out, so that a line of output is one line.
fn one_line(item: &str) -> String {
    let spell = |letter: char| {
        let spelled = letter.is_control().then(|| letter.escape_default());
        spelled.into_iter().flatten().chain((!letter.is_control()).then_some(letter))
    };
    item.chars().flat_map(spell).collect()
}
