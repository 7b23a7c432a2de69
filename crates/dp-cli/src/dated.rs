//! Rows with times: a small job as a dashboard of a single release, whose table goes to the output.
//!
//! The flags are written as the description that `dp run` would read, and everything else is its business: steps, people, limits,
//! noise, state and words.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use dp_events::calendar::Calendar;
use dp_events::intake::BadRow;
use dp_events::{Dashboard, Mistake, Randomness, Spec};
use dp_mechanisms::{Participation, Relation};

use crate::arguments::{NoiseArguments, OutputArguments, Usage};
use crate::files::{self, Files, Kind};
use crate::output;
use crate::records::BadRows;

/// When rows happened, of whom they are, and how they are split.
#[derive(Args)]
#[command(next_help_heading = "Rows with times (steps by the calendar in place of one per row)")]
pub(crate) struct DatedArguments {
    /// The column with the time of a row, a date or a date-time; a step then holds the rows of a day, or of another --length
    #[arg(long, value_name = "COLUMN", requires_all = ["first", "last"])]
    pub(crate) time: Option<String>,
    /// The beginning of the first step, such as 2026-01-01
    #[arg(long, value_name = "DATE", requires = "time")]
    first: Option<String>,
    /// The beginning of the last step
    #[arg(long, value_name = "DATE", requires = "time")]
    last: Option<String>,
    /// The length of a step: 1 day, 6 hours, 1 week, …
    #[arg(long, value_name = "LENGTH", requires = "time", default_value = "1 day")]
    length: String,
    /// The column that identifies a person; --participation then counts steps and is enforced: what is beyond it is left out.
    /// Without it, one row is protected
    #[arg(long, value_name = "COLUMN", requires_all = ["time", "participation"])]
    person: Option<String>,
    /// The most rows of one person that count within a step
    #[arg(long, value_name = "ROWS", requires = "person", default_value_t = 1)]
    rows_per_step: u32,
    /// The column by which the release is split
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Option<String>,
    /// The values of --by that are published, chosen without looking at the data; rows elsewhere are left out. Without them,
    /// those are published that stand out so far that no single person can have caused it
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', requires = "by")]
    values: Vec<String>,
    /// Release the steps that ended by then [default: now]
    #[arg(long, value_name = "TIME", requires = "time")]
    until: Option<String>,
}

/// What is to be released of rows with times, beside what the arguments say.
pub(crate) struct Job<'a> {
    pub(crate) input: &'a Path,
    pub(crate) relation: Relation,
    pub(crate) participation: Option<Participation>,
    pub(crate) bad_rows: BadRows,
    /// The value that is summed, averaged or ordered, as the field of a description; nothing where rows are counted.
    pub(crate) value: Option<String>,
    pub(crate) statistics: Vec<String>,
    /// The column and the keys by which the release is split, where the command says so itself.
    pub(crate) by: Option<(&'a str, Option<Vec<String>>)>,
    pub(crate) output: &'a OutputArguments,
    pub(crate) noise: &'a NoiseArguments,
}

/// A mistake in a row, with advice that somebody without a description can follow.
fn in_words_of_flags(mut mistake: Mistake) -> Mistake {
    let bad = [BadRow::Time, BadRow::Person, BadRow::Value];
    if bad.iter().any(|bad| bad.sentence() == mistake.message) {
        let message = mistake.message.replace(", or give `input.format`", "");
        mistake.message = format!("{message}; or leave such rows out with --bad-rows drop");
    }
    mistake
}

/// A text as TOML has it, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Refuses a file that is not a table of an earlier run.
fn check_table(path: &Path) -> Result<()> {
    let mut start = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(10).read_to_string(&mut start));
    if read.is_ok()
        && (start.is_empty() || start.starts_with("step,time,") || start.starts_with("{\"step\":"))
    {
        return Ok(());
    }
    Err(Usage::error(format!(
        "`{}` is not a table of releases and would be replaced; give another file",
        path.display()
    )))
}

impl DatedArguments {
    /// Whether rows have times. Without them every row is a step of its own, which nothing can split.
    pub(crate) fn is_given(&self) -> Result<bool> {
        if self.by.is_some() && self.time.is_none() {
            return Err(Usage::error(
                "--by splits what is counted in a step, and without --time every row is a step of its own; give --time with --first \
                 and --last. Where rows have no time, add a column with the same date to all of them, and give that date as \
                 --first and --last: all rows are then one step",
            ));
        }
        Ok(self.time.is_some())
    }

    /// Releases the steps that are over, and prints what is promised.
    pub(crate) fn run(&self, job: &Job<'_>) -> Result<()> {
        let OutputArguments { output, plot, overwrite, state, json, .. } = job.output;
        if plot.is_some() {
            return Err(Usage::error(
                "--plot draws one curve over rows; with --time, describe a dashboard with `dp new`: its page draws",
            ));
        }
        let mut paths = Files::default();
        paths.reads("--input", job.input);
        paths.writes("--output", output);
        paths.check()?;
        let dashboard = Dashboard::new(self.spec(job)?)?;
        let until = match &self.until {
            Some(text) => dashboard
                .spec()
                .calendar
                .read_instant(text)
                .map_err(|error| Usage::error(format!("--until: {error}")))?,
            None => Calendar::now(),
        };
        let randomness = match job.noise.reproducible_seed() {
            Some(number) => Randomness::Reproducible(number),
            None => Randomness::System,
        };
        // The table of a state is replaced as a whole, because its numbers come from the state; nothing else is.
        if state.is_some() && files::kind(output)? == Kind::Regular {
            check_table(output)?;
        }
        let texts =
            dashboard.texts(until, randomness, state.is_some(), *json).map_err(|error| match error {
                dp_events::Error::Changed { differences, .. } => Usage::error(format!(
                    "the state was made for something else: {}; repeat its options, or begin another state",
                    differences.join("; ")
                )),
                dp_events::Error::Input(mistake) => anyhow::anyhow!(in_words_of_flags(mistake)),
                other => other.into(),
            })?;
        let table = texts.tables.first().map(String::as_str).unwrap_or_default();
        let mut target: Box<dyn std::io::Write> = if output == Path::new("-") {
            Box::new(std::io::stdout())
        } else {
            Box::new(files::create(output, *overwrite || state.is_some())?)
        };
        target
            .write_all(table.as_bytes())
            .and_then(|()| target.flush())
            .with_context(|| format!("cannot write to `{}`", output.display()))?;
        for line in &texts.receipt {
            output::note(line);
        }
        output::note(&format!("released {} of {} steps", texts.outcome.published, texts.outcome.steps));
        Ok(())
    }

    /// The description that the flags stand for.
    fn spec(&self, job: &Job<'_>) -> Result<Spec> {
        let text = self.description(job)?;
        Spec::parse(&text, Path::new("flags.toml")).map_err(|error| match error {
            // Nobody has seen the file, so its lines help nobody.
            dp_events::Error::Spec(mistakes) => {
                let messages: Vec<&str> = mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
                Usage::error(format!("in the words of a description: {}", messages.join("; ")))
            }
            other => other.into(),
        })
    }

    fn description(&self, job: &Job<'_>) -> Result<String> {
        let optional = |field: &str, value: &Option<String>| match value {
            Some(value) => format!("{field} = {}\n", quoted(value)),
            None => String::new(),
        };
        let path = |path: &Path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            match absolute.to_str() {
                Some(text) => Ok(quoted(text)),
                None => Err(Usage::error(format!("the name of `{}` is no text", path.display()))),
            }
        };
        let bad_rows = if job.bad_rows == BadRows::Refuse { "refuse" } else { "drop" };
        let protects = if self.person.is_some() { "person" } else { "event" };
        let mut text = format!(
            "[privacy]\n{}protects = \"{protects}\"\nrelation = \"{}\"\n\
             [input]\nfiles = [{}]\n{}{}bad_rows = \"{bad_rows}\"\n",
            job.noise.budget.fields()?,
            job.relation,
            path(job.input)?,
            optional("time", &self.time),
            optional("person", &self.person),
        );
        match (&self.person, job.participation) {
            (Some(_), participation) => {
                let participation = participation.unwrap_or(Participation::Single);
                let (steps, separation) =
                    (participation.times_within(usize::MAX), participation.separation());
                let _ = writeln!(
                    text,
                    "[limits]\nrows_per_step = {}\nsteps = {steps}\nseparation = {separation}",
                    self.rows_per_step
                );
            }
            (None, Some(_)) => {
                return Err(Usage::error(
                    "--participation is enforced by --person: name the column that identifies a person",
                ));
            }
            (None, None) => {}
        }
        let _ = write!(
            text,
            "[steps]\nlength = {}\n{}{}[[release]]\nname = \"release\"\nstatistics = [{}]\n",
            quoted(&self.length),
            optional("first", &self.first),
            optional("last", &self.last),
            job.statistics.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", "),
        );
        if let Some(value) = &job.value {
            let _ = writeln!(text, "value = {value}");
        }
        let listed = (!self.values.is_empty()).then(|| self.values.clone());
        let by = job.by.clone().or_else(|| self.by.as_deref().map(|column| (column, listed)));
        if let Some((column, values)) = by {
            let values = values.map(|values| {
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                format!(", values = [{}]", values.join(", "))
            });
            let _ = writeln!(text, "by = {{ column = {}{} }}", quoted(column), values.unwrap_or_default());
        }
        let state = job.output.state.clone().unwrap_or_else(|| PathBuf::from("nowhere"));
        let key = match &job.output.state_key {
            Some(key) => format!("key = {}\n", path(key)?),
            None => String::new(),
        };
        let _ = write!(text, "[output]\nfolder = \"tables\"\nstate = {}\n{key}", path(&state)?);
        Ok(text)
    }
}
