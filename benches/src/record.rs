//! Results that are kept: what was measured, when, by which command and on what shape of machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One kept measurement, as it stands in `benches/record/<name>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record<T> {
    /// The day of the measurement, in UTC, as YYYY-MM-DD.
    pub date: String,
    /// The command that repeats it.
    pub command: String,
    /// What it ran on.
    pub machine: Machine,
    /// What was found.
    pub results: T,
}

/// The shape of a machine: enough to judge a figure, too little to name the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The architecture the program was built for.
    pub architecture: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Memory in GiB, rounded; absent where the system does not say.
    pub memory_gib: Option<u64>,
}

impl Machine {
    /// The machine this process runs on.
    pub fn here() -> Self {
        Self {
            architecture: std::env::consts::ARCH.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, {} cores", self.architecture, self.cores)?;
        match self.memory_gib {
            Some(memory) => write!(formatter, ", {memory} GiB"),
            None => Ok(()),
        }
    }
}

fn memory_gib() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes: u64 =
        info.lines().find(|line| line.starts_with("MemTotal:"))?.split_whitespace().nth(1)?.parse().ok()?;
    Some((kilobytes + (1 << 19)) >> 20)
}

impl<T> Record<T> {
    /// A record of today.
    pub fn now(command: &str, results: T) -> Self {
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        Self { date, command: command.to_owned(), machine: Machine::here(), results }
    }

    /// The line that stands above every table made of this record.
    pub fn heading(&self) -> String {
        format!("Measured on {} with `{}` ({}).", self.date, self.command, self.machine)
    }
}

impl<T: Serialize> Record<T> {
    /// Writes `<name>.json`, and `<name>.md` with the heading above the given text, into a folder.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn write(&self, folder: &Path, name: &str, markdown: &str) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        let json = folder.join(name).with_extension("json");
        let text = format!("{}\n\n{}\n", self.heading(), markdown.trim_end());
        for (path, contents) in [
            (&json, serde_json::to_string_pretty(self)? + "\n"),
            (&folder.join(name).with_extension("md"), text),
        ] {
            std::fs::write(path, contents).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(json)
    }
}

impl<T: for<'a> Deserialize<'a>> Record<T> {
    /// Reads `<name>.json` from a folder; nothing if there is no such file.
    ///
    /// # Errors
    /// A file that is there but cannot be read.
    pub fn read(folder: &Path, name: &str) -> Result<Option<Self>> {
        let path = folder.join(name).with_extension("json");
        if !path.exists() {
            return Ok(None);
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("`{}` is not a record", path.display())).map(Some)
    }
}

/// Where records are kept under version control: `record` beside the manifest of this package, which cargo names to the
/// programs that it runs.
pub fn folder() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from("benches"), PathBuf::from)
        .join("record")
}

/// A Markdown table with aligned columns, which reads as well in a terminal.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(column, heading)| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([heading.chars().count(), 3]).max().unwrap_or(3)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("| {} |\n", padded.join(" | "))
    };
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = line(headings.to_vec()) + &line(rules.iter().map(String::as_str).collect());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::now("cargo xtask nothing", vec![1.5, 2.5]);
        assert!(Record::<Vec<f64>>::read(folder.path(), "numbers").unwrap().is_none());
        record.write(folder.path(), "numbers", "text").unwrap();
        assert_eq!(Record::read(folder.path(), "numbers").unwrap(), Some(record.clone()));
        let markdown = std::fs::read_to_string(folder.path().join("numbers.md")).unwrap();
        assert!(markdown.starts_with(&record.heading()) && markdown.ends_with("\n\ntext\n"), "{markdown}");
        assert_eq!(record.date.len(), 10);
        assert!(Record::<Vec<String>>::read(folder.path(), "numbers").is_err());
    }

    #[test]
    fn tables_are_aligned() {
        let text = table(&["a", "longer"], &[vec!["σ²".to_owned(), "1".to_owned()]]);
        assert_eq!(text, "| a   | longer |\n| --- | ------ |\n| σ²  | 1      |\n");
    }
}
