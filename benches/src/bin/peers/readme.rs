//! The table of README, made of the record.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dp_benches::record::{self, Record};

use crate::rows::{OURS, Row, Section, duration, three_digits};

/// What stands between these two lines of README is made here.
const MARKS: (&str, &str) = ("<!-- made by `cargo xtask peers --readme` -->", "<!-- end of what is made -->");

/// README, beside the packages.
pub(crate) fn path() -> PathBuf {
    let folder = record::folder();
    folder.ancestors().nth(2).unwrap_or(Path::new(".")).join("README.md")
}

/// README as it is, and as it is with the table of a record.
///
/// # Errors
/// A README without the marks, or a record without a row that the table shows.
pub(crate) fn before_and_after(record: &Record<Vec<Section>>) -> Result<(String, String)> {
    let path = path();
    let before =
        std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let (head, rest) = before.split_once(MARKS.0).context("README has no mark where the table begins")?;
    let (_, tail) = rest.split_once(MARKS.1).context("README has no mark where the table ends")?;
    let after = [head, MARKS.0, "\n", &text(record)?, MARKS.1, tail].concat();
    Ok((before, after))
}

/// The sentence above the table, and the table.
fn text(record: &Record<Vec<Section>>) -> Result<String> {
    let table = Table { sections: &record.results };
    let mut dates: Vec<&str> = record.results.iter().map(|section| section.date(record)).collect();
    dates.sort_unstable();
    let days = match (dates.first(), dates.last()) {
        (Some(first), Some(last)) if first != last => format!("between {first} and {last}"),
        _ => format!("on {}", record.date),
    };
    let mut text = format!(
        "Both sides of a line in one run on the same work, {days}, with `cargo xtask peers` ({}).\n\n\
         | work | this library | others |\n|---|---|---|\n",
        record.machine
    );
    for [work, ours, others] in table.lines()? {
        text += &["| ", &work, " | ", &ours, " | ", &others, " |\n"].concat();
    }
    Ok(text)
}

/// Rows by what was done, by whom and how.
struct Table<'a> {
    sections: &'a [Section],
}

impl Table<'_> {
    fn row(&self, work: &str, who: &str, variant: &str) -> Result<&Row> {
        let mut rows = self.sections.iter().flat_map(|section| &section.rows);
        rows.find(|row| row.work == work && row.who.starts_with(who) && row.variant.starts_with(variant))
            .with_context(|| format!("the record has no row `{work}` of {who}, {variant}"))
    }

    fn time(&self, work: &str, who: &str, variant: &str) -> Result<String> {
        Ok(self.row(work, who, variant)?.seconds.map_or_else(|| "not measured".to_owned(), duration))
    }

    /// `time (variant)` for several ways of this library.
    fn ways(&self, work: &str, variants: &[&str]) -> Result<String> {
        let ways = variants.iter().map(|way| Ok(format!("{} (`{way}`)", self.time(work, OURS, way)?)));
        Ok(ways.collect::<Result<Vec<_>>>()?.join(", "))
    }

    fn jax(&self) -> Result<&str> {
        Ok(&self.row("any matrix, n = 1024", "jax-privacy", "")?.who)
    }

    fn lines(&self) -> Result<Vec<[String; 3]>> {
        let mut lines = Vec::new();
        self.strategies(&mut lines)?;
        self.noise(&mut lines)?;
        self.calibration(&mut lines)?;
        self.sampled(&mut lines)?;
        Ok(lines)
    }

    fn strategies(&self, lines: &mut Vec<[String; 3]>) -> Result<()> {
        let jax = self.jax()?;
        let proven = |work: &str| -> Result<String> {
            let gap = self.row(work, OURS, "optimal")?.above_bound.unwrap_or(f64::NAN);
            Ok(format!("{}, proven within {gap:.1e}", self.time(work, OURS, "optimal")?))
        };
        let work = "any matrix, n = 1024";
        let stopped = self.row(work, "jax-privacy", "its own stop")?;
        lines.push([
            "best strategy for a count of 1024, any matrix".to_owned(),
            proven(work)?,
            format!(
                "{jax}: {} and {} above; {} to 1e-6",
                self.time(work, "jax-privacy", "its own stop")?,
                above(stopped),
                self.time(work, "jax-privacy", "until the gap")?
            ),
        ]);
        let work = "any matrix, n = 4096";
        let other = self.row(work, "jax-privacy", "")?;
        let others = format!("{}: {}, {} above", other.who, other.variant, above(other));
        lines.push(["the same for 4096".to_owned(), proven(work)?, others]);
        let work = "4 buffers, E2, n = 1024";
        let (ours, theirs) = (self.row(work, OURS, "scaled-blt")?, self.row(work, "jax-privacy", "")?);
        lines.push([
            "a strategy with 4 buffers, n = 1024".to_owned(),
            format!(
                "{}, {} above the bound (`scaled-blt`)",
                self.time(work, OURS, "scaled-blt")?,
                above(ours)
            ),
            format!("{}: {}, {} above", theirs.who, self.time(work, "jax-privacy", "")?, above(theirs)),
        ]);
        Ok(())
    }

    fn noise(&self, lines: &mut Vec<[String; 3]>) -> Result<()> {
        let jax = self.jax()?;
        // Records from before vectors of this length were measured have no such row.
        let work = "5 buffers, d = 100000000";
        if let (Ok(step), Ok(sampling)) =
            (self.time(work, OURS, "f32"), self.time(work, OURS, "plain sampling"))
        {
            lines.push([
                "a step of noise, 5 buffers, d = 10^8".to_owned(),
                format!("{step} (f32)"),
                format!("nobody else; plain sampling by this library takes {sampling}"),
            ]);
        }
        for (work, name) in [
            ("5 buffers, d = 1000000", "a step of noise, 5 buffers, d = 10^6"),
            ("32 bands, d = 100000", "a step of noise, 32 bands, d = 10^5"),
        ] {
            let [single, double] =
                [self.time(work, "jax-privacy", "f32")?, self.time(work, "jax-privacy", "f64")?];
            lines.push([
                name.to_owned(),
                format!("{} (f64)", self.time(work, OURS, "f64")?),
                format!("{jax}: {single} (f32), {double} (f64)"),
            ]);
        }
        let work = "7 buffers";
        lines.push([
            "a count of 2^20 events, one at a time".to_owned(),
            self.ways(work, &["blt", "scaled-blt"])?,
            format!(
                "{jax}: {}; {} if all events are known beforehand",
                self.time(work, "jax-privacy", "stream")?,
                self.time(work, "jax-privacy", "at once")?
            ),
        ]);
        let work = "exact noise";
        let other = self.row(work, "opendp", "")?;
        let times = |way: &str| -> Result<String> {
            let ours = self.row(work, OURS, way)?;
            Ok(three_digits(other.quality.unwrap_or(f64::NAN) / ours.quality.unwrap_or(f64::NAN)))
        };
        lines.push([
            "the same with exact noise".to_owned(),
            self.ways(work, &["binary-tree", "sqrt"])?,
            format!(
                "{}: {}, at {} and {} times the error",
                other.who,
                self.time(work, "opendp", "")?,
                times("binary-tree")?,
                times("sqrt")?
            ),
        ]);
        let work = "σ = 1000";
        let others = ["opendp", "prio"].map(|who| -> Result<String> {
            Ok(format!("{}: {}", self.row(work, who, "")?.who, self.time(work, who, "")?))
        });
        let [opendp, prio] = others;
        lines.push([
            "a discrete Gaussian, σ = 1000".to_owned(),
            self.time(work, OURS, "")?,
            format!("{}, {}", opendp?, prio?),
        ]);
        Ok(())
    }

    fn calibration(&self, lines: &mut Vec<[String; 3]>) -> Result<()> {
        let works = ["δ from 1e-3 to 1e-10", "δ = 1e-30"];
        let quality = |who: &str| -> Result<String> {
            let mut points = (0, 0);
            let mut worst = 0.0_f64;
            for work in works {
                let row = self.row(work, who, "")?;
                worst = worst.max(row.quality.unwrap_or(f64::NAN));
                let (short, all) = too_little(&row.note)
                    .with_context(|| format!("a note that does not count points: {}", row.note))?;
                points = (points.0 + short, points.1 + all);
            }
            let off = if worst < 1e-3 { format!("{worst:.0e}") } else { format!("{:.0} %", worst * 100.0) };
            Ok(format!("off by up to {off}, too little noise at {} of {} points", points.0, points.1))
        };
        let others = ["dp-accounting", "opendp"].map(|who| -> Result<String> {
            Ok(format!("{}: {}", self.row(works[0], who, "")?.who, quality(who)?))
        });
        let [accounting, opendp] = others;
        lines.push([
            "σ for (ε, δ), δ down to 1e-30".to_owned(),
            quality(OURS)?,
            format!("{}; {}", accounting?, opendp?),
        ]);
        Ok(())
    }

    /// ε of sampled steps, and strategies and noise for them.
    fn sampled(&self, lines: &mut Vec<[String; 3]>) -> Result<()> {
        let work = "noise 1, rate 0.01, 1000 steps, δ = 1e-5";
        let excess = |who: &str| -> Result<String> {
            let row = self.row(work, who, "")?;
            let share = row.quality.with_context(|| format!("a row without its excess: {row}"))?;
            Ok(format!(
                "{}, {} % above what is proved from below",
                self.time(work, who, "")?,
                three_digits(share * 100.0)
            ))
        };
        lines.push([
            "ε of 1000 sampled steps".to_owned(),
            excess(OURS)?,
            format!("{}: {}", self.row(work, "dp-accounting", "")?.who, excess("dp-accounting")?),
        ]);
        let work = "16 bands, n = 1024, rate 0.25";
        let deviation = |who: &str| -> Result<String> {
            let row = self.row(work, who, "")?;
            let deviation = row.quality.with_context(|| format!("a row without its deviation: {row}"))?;
            Ok(format!("{}, deviation {deviation:.2}", self.time(work, who, "")?))
        };
        lines.push([
            "16 bands and their noise, amplified by sampling, n = 1024".to_owned(),
            deviation(OURS)?,
            format!("{}: {}", self.row(work, "jax-privacy", "")?.who, deviation("jax-privacy")?),
        ]);
        Ok(())
    }
}

/// How far above the bound, in percent.
fn above(row: &Row) -> String {
    row.above_bound.map_or_else(|| "–".to_owned(), |share| format!("{} %", three_digits(share * 100.0)))
}

/// The figures of `too little noise at 10 of 18 points`.
fn too_little(note: &str) -> Option<(u32, u32)> {
    let (_, counts) = note.split_once("too little noise at ")?;
    let (short, rest) = counts.split_once(" of ")?;
    Some((short.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_readme_is_that_of_the_record() {
        let record = Record::<Vec<Section>>::read(&record::folder(), "peers").unwrap().unwrap();
        let (before, after) = before_and_after(&record).unwrap();
        assert!(before == after, "README differs from the record: run `cargo xtask peers --readme`");
    }

    #[test]
    fn a_record_without_a_row_is_refused_by_name() {
        let record = Record::now("cargo xtask peers", Vec::<Section>::new());
        let message = text(&record).unwrap_err().to_string();
        assert!(message.contains("any matrix, n = 1024") && message.contains("jax-privacy"), "{message}");
    }

    #[test]
    fn points_are_counted_from_notes() {
        assert_eq!(too_little("exact profile; too little noise at 10 of 18 points"), Some((10, 18)));
        assert_eq!(too_little("fitted"), None);
    }
}
