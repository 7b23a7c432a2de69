//! Lines `step,item,release,standard_deviation`, any number of them per step, to a file or to standard output.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::output;

/// One line of output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) step: usize,
    pub(super) item: String,
    pub(super) release: f64,
    pub(super) standard_deviation: f64,
}

const HEADER: &str = "step,item,release,standard_deviation\n";

/// The output, continued where the state says.
pub(super) struct Sink {
    json: bool,
    writer: BufWriter<Box<dyn Write>>,
    file: Option<File>,
    /// What an earlier run wrote before the step that is shown again.
    pub(super) earlier: Vec<Line>,
}

impl Sink {
    /// Opens `-` or a file, and writes `again`, the lines of the step that the state stands at (there may be none). A
    /// continued file must agree with them as far as it goes; what a crash cut short is completed.
    pub(super) fn open(
        path: &Path,
        json: bool,
        resumable: bool,
        step: usize,
        again: &[Line],
    ) -> Result<Self> {
        let context = || format!("cannot write to `{}`", path.display());
        let mut earlier = Vec::new();
        let mut missing = if json { String::new() } else { HEADER.to_owned() };
        let (target, file): (Box<dyn Write>, Option<File>) = if path == Path::new("-") {
            (Box::new(std::io::stdout()), None)
        } else {
            let (mut file, contents) = output::open(path, resumable)?;
            let mut standing = 0;
            if !contents.is_empty() {
                earlier = kept(&contents, json, step, again)
                    .with_context(|| format!("`{}` does not belong to this state", path.display()))?;
                for line in &earlier {
                    missing += &text(line, json)?;
                }
                if !contents.starts_with(&missing) {
                    bail!("`{}` was edited since it was written; choose another output file", path.display());
                }
                standing = std::mem::take(&mut missing).len();
            }
            // What stands before the step that is shown again is never touched.
            output::continue_after(&mut file, standing)?;
            (Box::new(file.try_clone().with_context(context)?), Some(file))
        };
        let mut sink = Self { json, writer: BufWriter::new(target), file, earlier };
        sink.writer.write_all(missing.as_bytes())?;
        for line in again {
            sink.write(line)?;
        }
        sink.make_durable()?;
        Ok(sink)
    }

    pub(super) fn write(&mut self, line: &Line) -> Result<()> {
        self.writer.write_all(text(line, self.json)?.as_bytes())?;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    pub(super) fn make_durable(&mut self) -> Result<()> {
        self.flush()?;
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        Ok(())
    }
}

fn text(line: &Line, json: bool) -> Result<String> {
    if json {
        return Ok(serde_json::to_string(line)? + "\n");
    }
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.serialize(line)?;
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// The lines of an earlier run before `step`; those of that step must be the beginning of `again`.
fn kept(contents: &str, json: bool, step: usize, again: &[Line]) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    if json {
        for line in contents.lines() {
            lines.push(serde_json::from_str(line).context("a line is not a release")?);
        }
    } else {
        for line in csv::Reader::from_reader(contents.as_bytes()).deserialize() {
            lines.push(line.context("a line is not a release")?);
        }
    }
    if let Some(later) = lines.iter().find(|line| line.step > step) {
        bail!("it holds step {}, but the state stands at step {step}; restore the state", later.step);
    }
    let before = lines.iter().position(|line| line.step == step).unwrap_or(lines.len());
    let same = lines[before..].iter().zip(again).all(|(old, new)| old == new);
    if !same || lines.len() - before > again.len() {
        bail!(
            "its lines of step {step} are not those that were released; restore the file, or choose another"
        );
    }
    lines.truncate(before);
    Ok(lines)
}
