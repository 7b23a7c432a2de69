//! `dp new`: write the description of a dashboard, commented.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use dp_events::Spec;

use crate::arguments::Usage;
use crate::output;

/// Writes a commented description of a dashboard; what is not given is asked for.
#[derive(Args)]
pub(crate) struct New {
    /// The description to write
    #[arg(value_name = "FILE.toml", default_value = "dashboard.toml")]
    file: PathBuf,
    /// The file or folder with the rows
    #[arg(long, value_name = "PATH")]
    input: Option<String>,
    /// The column with the time of a row
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// The column that identifies a person; - if there is none
    #[arg(long, value_name = "COLUMN")]
    person: Option<String>,
    /// The first day
    #[arg(long, value_name = "DATE")]
    first: Option<String>,
    /// The last day
    #[arg(long, value_name = "DATE")]
    last: Option<String>,
    /// The length of a step
    #[arg(long, default_value = "1 day")]
    length: String,
    /// ε of everything together
    #[arg(long, default_value_t = 1.0)]
    epsilon: f64,
    /// δ of everything together
    #[arg(long, default_value_t = 1e-6)]
    delta: f64,
    /// Promise ε without any δ: Laplace noise, which suits few numbers
    #[arg(long, conflicts_with = "delta")]
    pure: bool,
    /// The column by which rows are counted
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    /// The values of that column to publish, separated by commas; without them, those are published that stand out so far that
    /// no single person can have caused it
    #[arg(long, value_name = "A,B,…", requires = "by")]
    values: Option<String>,
}

impl New {
    pub(crate) fn run(self) -> Result<()> {
        if self.file.exists() {
            return Err(Usage::error(format!(
                "`{}` is there already; choose another name",
                self.file.display()
            )));
        }
        let input = answer(self.input.as_deref(), "file or folder with the rows")?;
        let time = answer(self.time.as_deref(), "column with the time of a row")?;
        let person = answer(self.person.as_deref(), "column that identifies a person (- if there is none)")?;
        let first = answer(self.first.as_deref(), "first day (such as 2026-01-01)")?;
        let last = answer(self.last.as_deref(), "last day")?;
        let text = self.text(&input, &time, &person, &first, &last);
        // What is written must be what `dp run` reads.
        Spec::parse(&text, &self.file)
            .map_err(|error| Usage::error(format!("this would not be a dashboard:\n{error}")))?;
        std::fs::write(&self.file, text)
            .with_context(|| format!("cannot write `{}`", self.file.display()))?;
        output::line(&format!(
            "wrote {}; look at it, then `dp check {0}` and `dp run {0}`",
            Path::new(&self.file).display()
        ))
    }

    fn text(&self, input: &str, time: &str, person: &str, first: &str, last: &str) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (protects, person, limits) = if person == "-" {
            ("event", String::new(), String::new())
        } else {
            let person = format!("person = {}\n", quoted(person));
            let limits = "[limits]                 # of one person; enforced, and what is left out is never reported\n\
                          rows_per_step = 1        # within one step\n\
                          steps = 3                # in which one person counts, the first ones\n\
                          separation = 1           # between two of them, in steps\n\n";
            ("person", person, limits.to_owned())
        };
        let by = match (&self.by, &self.values) {
            (Some(column), Some(values)) => {
                let values: Vec<String> = values.split(',').map(|value| quoted(value.trim())).collect();
                format!(
                    "by = {{ column = {}, values = [{}] }}   # rows elsewhere are left out\n",
                    quoted(column),
                    values.join(", ")
                )
            }
            (Some(column), None) => format!(
                "by = {{ column = {} }}   # keys are published once they stand out; `values = [...]` lists them\n",
                quoted(column)
            ),
            _ => "# by = { column = \"region\", values = [\"North\", \"South\"], other = \"Elsewhere\" }\n"
                .to_owned(),
        };
        let people = if protects == "person" {
            "[[release]]\nname = \"people\"\nof = \"people\"            # different people so far\nstatistics = [\"total\"]\n\n"
        } else {
            ""
        };
        let delta = if self.pure {
            String::new()
        } else {
            format!("delta = {:e}             # well below one over the number of people\n", self.delta)
        };
        format!(
            "[privacy]\n\
             epsilon = {:?}            # of everything together, for ever\n\
             {delta}\
             protects = \"{protects}\"      # \"person\", \"person-step\" or \"event\"\n\
             relation = \"zero-out\"    # or \"replace\"\n\n\
             [input]\n\
             files = [{}]\n\
             time = {}\n\
             # format = \"%d.%m.%Y\"   # of the time, where it is not 2026-01-31 or 2026-01-31T08:00:00Z; %s for seconds since 1970\n\
             {person}\n\
             {limits}\
             [steps]\n\
             length = {}\n\
             first = {}\n\
             last = {}\n\
             # zone = \"Europe/Berlin\"   # whose days begin at its midnight; UTC otherwise\n\
             late = \"drop\"            # rows of a step that is published already; or \"next\"\n\n\
             [[release]]\n\
             name = \"rows\"\n\
             statistics = [\"total\", \"window:7\", \"step\"]\n\
             {by}\n\
             {people}\
             # [[release]]\n\
             # name = \"cost\"\n\
             # value = {{ column = \"cost\", bounds = [0, 500] }}   # values beyond the bounds count as the bound\n\
             # statistics = [\"total\", \"mean\"]\n\n\
             [output]\n\
             folder = \"public\"\n",
            self.epsilon,
            quoted(input),
            quoted(time),
            quoted(&self.length),
            quoted(first),
            quoted(last),
        )
    }
}

/// What was given, or what somebody types.
fn answer(given: Option<&str>, question: &str) -> Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    // Where nobody sees the question, the answer may come all the same.
    let mut error = std::io::stderr().lock();
    let _ = write!(error, "{question}: ").and_then(|()| error.flush());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let line = line.trim();
    if line.is_empty() {
        return Err(Usage::error(format!("no {question}; type it, or give it as an argument")));
    }
    Ok(line.to_owned())
}
