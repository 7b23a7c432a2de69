//! Several answers per step, one line each, to a file or to standard output.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::output;

/// A released number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Answer {
    pub(super) release: f64,
    pub(super) standard_deviation: f64,
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    step: usize,
    name: &'a str,
    release: f64,
    standard_deviation: f64,
}

const HEADER: &str = "step,name,release,standard_deviation";

/// An output that knows the steps it holds: for each, one line per name.
pub(super) struct Series {
    target: Target,
    json: bool,
    names: Vec<String>,
    /// `names.len()` answers per step, from step 1 on in a continued file, from the first written one otherwise.
    answers: Vec<(usize, Answer)>,
}

enum Target {
    Standard(BufWriter<std::io::Stdout>),
    File(BufWriter<File>),
}

impl Series {
    /// Opens `-` or a file. A file is continued if `resumable`, behind its last complete step.
    pub(super) fn open(path: &Path, json: bool, resumable: bool, names: Vec<String>) -> Result<Self> {
        let mut answers = Vec::new();
        let mut kept = 0;
        let target = if path == Path::new("-") {
            Target::Standard(BufWriter::new(std::io::stdout()))
        } else {
            let (mut file, contents) = output::open(path, resumable)?;
            (answers, kept) = complete_steps(&contents, json, &names)
                .with_context(|| format!("`{}` is not the output of this release", path.display()))?;
            // A step that a crash cut short is written again, whole.
            output::continue_after(&mut file, kept)?;
            Target::File(BufWriter::new(file))
        };
        let mut series = Self { target, json, names, answers };
        if kept == 0 && !json {
            writeln!(series.writer(), "{HEADER}")?;
        }
        Ok(series)
    }

    /// What the answers of a step are called.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The last step written, 0 before the first.
    pub(super) fn last_step(&self) -> usize {
        self.answers.last().map_or(0, |(step, _)| *step)
    }

    /// Step, index of the name, and answer, of everything written.
    pub(super) fn answers(&self) -> impl Iterator<Item = (usize, usize, Answer)> {
        let count = self.names.len();
        self.answers.iter().enumerate().map(move |(index, (step, answer))| (*step, index % count, *answer))
    }

    /// Writes and shows the answers of a step.
    pub(super) fn write(&mut self, step: usize, answers: &[Answer]) -> Result<()> {
        for (index, answer) in answers.iter().enumerate() {
            let Answer { release, standard_deviation } = *answer;
            let line = Line { step, name: &self.names[index], release, standard_deviation };
            let text = if self.json {
                serde_json::to_string(&line)?
            } else {
                format!("{step},{},{release},{standard_deviation}", line.name)
            };
            writeln!(self.writer(), "{text}")?;
            self.answers.push((step, *answer));
        }
        Ok(self.writer().flush()?)
    }

    /// Makes everything written so far survive a power failure, where the output is a file.
    pub(super) fn make_durable(&mut self) -> Result<()> {
        self.writer().flush()?;
        if let Target::File(file) = &self.target {
            file.get_ref().sync_data()?;
        }
        Ok(())
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.target {
            Target::Standard(output) => output,
            Target::File(output) => output,
        }
    }
}

/// The answers of all complete steps in a file, and the number of bytes they take.
fn complete_steps(contents: &str, json: bool, names: &[String]) -> Result<(Vec<(usize, Answer)>, usize)> {
    let mut answers = Vec::new();
    let (mut position, mut kept) = (0, 0);
    for (number, line) in contents.split_inclusive('\n').enumerate() {
        let text = line.trim_end_matches('\n');
        position += line.len();
        if !json && number == 0 {
            if text != HEADER {
                bail!("line 1 is `{text}`, expected `{HEADER}`; choose another output file");
            }
            kept = position;
            continue;
        }
        let name = &names[answers.len() % names.len()];
        let step = answers.len() / names.len() + 1;
        match parse(text, json) {
            Some((read, found, answer)) if read == step && found == *name => answers.push((step, answer)),
            _ => bail!("line {} is `{text}`, expected step {step} of {name}; restore the file", number + 1),
        }
        if answers.len() % names.len() == 0 {
            kept = position;
        }
    }
    answers.truncate(answers.len() / names.len() * names.len());
    Ok((answers, kept))
}

fn parse(text: &str, json: bool) -> Option<(usize, String, Answer)> {
    if json {
        let line: Line = serde_json::from_str(text).ok()?;
        let answer = Answer { release: line.release, standard_deviation: line.standard_deviation };
        return Some((line.step, line.name.to_owned(), answer));
    }
    let mut fields = text.split(',');
    let (step, name) = (fields.next()?.parse().ok()?, fields.next()?.to_owned());
    let mut number = || fields.next()?.parse().ok();
    let answer = Answer { release: number()?, standard_deviation: number()? };
    fields.next().is_none().then_some((step, name, answer))
}
