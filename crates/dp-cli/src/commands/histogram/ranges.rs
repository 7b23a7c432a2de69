//! Ranges and quantiles of items that are integers, off a tree over them.

use anyhow::Result;
use dp_apps::Counts;
use dp_apps::ordered::Ordered;
use dp_mechanisms::{Participation, Plan, Snapshot};

use super::Histogram;
use crate::arguments::Usage;
use crate::counting::{Counter, Counting, Refusal};
use crate::records::Fault;
use crate::sink::Line;

/// The probability with which a band misses the number without noise.
const FAILURE: f64 = 0.05;

/// One question about the order of the items.
struct Question {
    name: String,
    kind: Kind,
}

enum Kind {
    /// How many there are from one value to another, both included.
    Range(f64, f64),
    /// Where this part of everything is reached.
    Quantile(f64),
}

impl Histogram {
    /// Counts the nodes of a tree over the items, and answers the questions off it.
    pub(super) fn order(&self, participation: Participation, counting: &Counting) -> Result<()> {
        let unfit = [("--items", self.items != 1), ("--removed", self.removed.is_some())];
        if let Some((option, _)) = unfit.iter().find(|(_, given)| *given) {
            return Err(Usage::error(format!(
                "{option}: ranges and quantiles are of one value in every row"
            )));
        }
        let (first, last) = self.bounds()?;
        let questions = self.questions(first, last)?;
        let relation = self.counting.relation;
        let encoding = Ordered::new(first as f64, last as f64, 1.0, relation, participation);
        let encoding = encoding.map_err(Usage::error)?;
        let plan = self.counting.plan(&encoding)?;
        self.counting.run(counting, |saved, seed| {
            let counts = match saved {
                Some(snapshot) => Counts::resume(encoding, plan, snapshot, seed),
                None => Counts::new(encoding, plan, seed),
            };
            let column = &self.counting.column;
            Ok(Values { counts: counts?, column, bounds: (first, last), questions })
        })
    }

    fn questions(&self, first: i64, last: i64) -> Result<Vec<Question>> {
        let ranges = self.range.iter().map(|text| {
            let ends = text.split_once(':').and_then(|(low, high)| {
                let end = |text: &str| text.trim().parse::<i64>().ok();
                Some((end(low)?, end(high)?))
                    .filter(|(low, high)| first <= *low && low <= high && *high <= last)
            });
            let Some((low, high)) = ends else {
                return Err(Usage::error(format!("--range {text} is no range LOW:HIGH within --integers")));
            };
            Ok(Question { name: format!("range:{text}"), kind: Kind::Range(low as f64, high as f64) })
        });
        let quantiles = self.quantile.iter().map(|part| {
            if !(*part > 0.0 && *part < 1.0) {
                return Err(Usage::error(format!("--quantile {part} is not strictly between 0 and 1")));
            }
            Ok(Question { name: format!("quantile:{part}"), kind: Kind::Quantile(*part) })
        });
        ranges.chain(quantiles).collect()
    }
}

/// Counts of ordered values.
struct Values<'a> {
    counts: Counts<Ordered>,
    column: &'a str,
    bounds: (i64, i64),
    questions: Vec<Question>,
}

impl Counter for Values<'_> {
    fn step(&self) -> usize {
        self.counts.step()
    }

    fn plan(&self) -> &Plan {
        self.counts.plan()
    }

    fn push(&mut self, fields: Option<&[String]>) -> Result<(), Refusal> {
        let text = fields.and_then(|fields| fields.first()).map(|text| text.trim());
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            self.counts.push(&[])?;
            return Ok(());
        };
        let (first, last) = self.bounds;
        let value = text.parse::<i64>().ok().filter(|value| (first..=last).contains(value));
        let what = "not one of --integers, which must hold every item";
        let value = value.ok_or_else(|| Refusal::Row(Fault::new(self.column, what, text)))?;
        self.counts.push(&[value as f64])?;
        Ok(())
    }

    /// A row that was counted is not needed again.
    fn replay(&mut self, _fields: Option<&[String]>) -> Result<(), Refusal> {
        Ok(())
    }

    fn knows(&self, _item: &str) -> bool {
        false
    }

    fn items(&self) -> u64 {
        self.counts.encoding().values() as u64
    }

    fn count(&mut self, item: &str) -> dp_apps::Result<f64> {
        Ok(self.counts.count(item)?.value)
    }

    /// Ranges and quantiles are asked for by name.
    fn largest(&mut self, _most: Option<usize>) -> Result<Vec<(String, f64)>> {
        Ok(Vec::new())
    }

    fn lines(&mut self, _show: &[String], _top: Option<usize>) -> Result<Vec<Line>> {
        let (step, band) = (self.counts.step(), self.counts.plan().budget().band());
        let counts = &mut self.counts;
        let mut lines = Vec::with_capacity(self.questions.len());
        for Question { name, kind } in &self.questions {
            let item = Some(name.clone());
            lines.push(match kind {
                Kind::Range(low, high) => {
                    let sum = counts.between(*low, *high)?;
                    Line { step, item, release: sum.value, standard_deviation: sum.standard_deviation }
                }
                Kind::Quantile(part) => {
                    let found = counts.quantile(*part, FAILURE)?;
                    // So large that the band around the release holds both ends.
                    let reach = (found.high - found.value).max(found.value - found.low);
                    Line { step, item, release: found.value, standard_deviation: reach / band }
                }
            });
        }
        Ok(lines)
    }

    fn snapshot(&self) -> Snapshot {
        self.counts.snapshot()
    }

    fn accuracy(&self) -> Result<String> {
        Ok(format!("ranges and quantiles come from a tree over {} values", self.items()))
    }
}
