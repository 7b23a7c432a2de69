//! Where releases go: one line each, to a file or to standard output.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::output;

/// One line of output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) step: usize,
    pub(crate) release: f64,
    pub(crate) standard_deviation: f64,
}

/// How a line is written. Numbers are written so that reading them back gives the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    Json,
}

const HEADER: &str = "step,release,standard_deviation";

impl Format {
    fn write(self, line: &Line, to: &mut impl Write) -> Result<()> {
        match self {
            Self::Csv => writeln!(to, "{},{},{}", line.step, line.release, line.standard_deviation)?,
            Self::Json => {
                serde_json::to_writer(&mut *to, line)?;
                writeln!(to)?;
            }
        }
        Ok(())
    }

    fn read(self, text: &str) -> Option<Line> {
        match self {
            Self::Csv => {
                let mut fields = text.split(',');
                let line = Line {
                    step: fields.next()?.parse().ok()?,
                    release: fields.next()?.parse().ok()?,
                    standard_deviation: fields.next()?.parse().ok()?,
                };
                fields.next().is_none().then_some(line)
            }
            Self::Json => serde_json::from_str(text).ok(),
        }
    }
}

/// An output that knows which steps it holds already.
pub(crate) struct Sink {
    format: Format,
    target: Target,
    lines: Vec<Line>,
    keep: bool,
}

enum Target {
    Standard(BufWriter<std::io::Stdout>),
    File(BufWriter<File>),
}

impl Sink {
    /// Opens `-` or a file. A file is continued if `resumable`, behind its last complete line; otherwise it is
    /// started anew. With `keep`, all lines are remembered for a plot.
    pub(crate) fn open(path: &Path, format: Format, resumable: bool, keep: bool) -> Result<Self> {
        let mut lines = Vec::new();
        let mut fresh = true;
        let target = if path == Path::new("-") {
            Target::Standard(BufWriter::new(std::io::stdout()))
        } else {
            let (mut file, contents) = output::open(path, resumable)?;
            lines = read_lines(&contents, format)
                .with_context(|| format!("`{}` is not the output of this release", path.display()))?;
            fresh = contents.is_empty();
            // A line that a crash cut short is written again, whole.
            output::continue_after(&mut file, contents.len())?;
            Target::File(BufWriter::new(file))
        };
        let mut sink = Self { format, target, lines, keep };
        if fresh && format == Format::Csv {
            writeln!(sink.writer(), "{HEADER}")?;
            sink.writer().flush()?;
        }
        Ok(sink)
    }

    /// The lines that stood in the file when it was opened.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Writes one line.
    pub(crate) fn write(&mut self, line: &Line) -> Result<()> {
        let format = self.format;
        format.write(line, &mut self.writer())?;
        if self.keep {
            self.lines.push(*line);
        }
        Ok(())
    }

    /// Shows everything written so far to its reader.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.writer().flush()?)
    }

    /// Makes everything written so far survive a power failure, where the output is a file.
    pub(crate) fn make_durable(&mut self) -> Result<()> {
        self.flush()?;
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

/// Reads what an earlier run wrote: consecutive steps.
fn read_lines(text: &str, format: Format) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if format == Format::Csv && number == 0 {
            if line != HEADER {
                bail!("line 1 is `{line}`, expected `{HEADER}`; choose another output file");
            }
            continue;
        }
        let Some(read) = format.read(line) else {
            bail!("line {} is `{line}`; restore it, or choose another output file", number + 1);
        };
        if lines.last().is_some_and(|last| last.step + 1 != read.step) {
            bail!("line {} is step {}, out of order; restore the file", number + 1, read.step);
        }
        lines.push(read);
    }
    Ok(lines)
}
