//! The other side: a Python environment of its own, and scripts that answer in JSON lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use indicatif::ProgressBar;
use serde::Deserialize;

use crate::absolute;
use crate::rows::Row;

/// One answer of a script.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Reply {
    /// The library, with its version.
    pub(crate) who: String,
    /// Which of several ways.
    #[serde(default)]
    pub(crate) variant: String,
    /// The time when everything is loaded and compiled.
    pub(crate) seconds: Option<f64>,
    /// The time of the first run.
    pub(crate) first_seconds: Option<f64>,
    /// The measure of quality of the section, where the script can tell.
    pub(crate) quality: Option<f64>,
    /// A strategy as Toeplitz coefficients.
    pub(crate) toeplitz: Option<Vec<f64>>,
    /// Whether the columns of that strategy are divided by their norms.
    #[serde(default)]
    pub(crate) normalized: bool,
    /// A strategy as a file: a square matrix of little-endian f64, by rows.
    pub(crate) matrix: Option<PathBuf>,
    /// Numbers that were asked for; null where the library has none to give.
    pub(crate) answers: Option<Vec<Option<f64>>>,
    /// The conditions.
    #[serde(default)]
    pub(crate) note: String,
}

impl Reply {
    /// The row of a reply, whose strategy or answers are left for others to judge.
    pub(crate) fn row(&self, work: &str) -> Row {
        Row {
            work: work.to_owned(),
            who: self.who.clone(),
            variant: self.variant.clone(),
            seconds: self.seconds,
            first_seconds: self.first_seconds,
            quality: self.quality,
            above_bound: None,
            note: self.note.clone(),
        }
    }
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Line {
    Progress { progress: String },
    Reply(Box<Reply>),
}

/// Reads a line of a script. What a library prints on its own account is not JSON, and passed over.
fn parse(line: &str) -> Result<Option<Line>> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    serde_json::from_str(line).map(Some).with_context(|| format!("not an answer: {line}"))
}

/// A question to one package.
pub(crate) struct Question<'a> {
    /// The package, as its requirement names it.
    pub(crate) package: &'static str,
    /// The script, without its ending.
    pub(crate) script: &'static str,
    /// What the script is told.
    pub(crate) arguments: &'a [String],
    /// The longest it may take.
    pub(crate) limit: Duration,
}

/// The installed packages, and those that are missing.
pub(crate) struct Peers {
    python: PathBuf,
    scripts: PathBuf,
    folder: PathBuf,
    /// The reasons, by package.
    missing: BTreeMap<String, String>,
    bar: ProgressBar,
}

impl Peers {
    /// Makes the environment and installs every line of `requirements.txt` on its own.
    ///
    /// A missing Python or package is not an error: whoever asks it later is told.
    pub(crate) fn install(python: &str, scripts: &Path, folder: &Path, bar: ProgressBar) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        let (scripts, folder) = (absolute(scripts)?, absolute(folder)?);
        let environment = folder.join("environment");
        let programs = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
        let mut peers =
            Self { python: programs.join("python"), scripts, folder, missing: BTreeMap::new(), bar };
        peers.bar.set_message("making a Python environment");
        let made = peers.make_environment(python, &environment);
        for requirement in peers.requirements() {
            let package = requirement.split("==").next().unwrap_or(&requirement).to_owned();
            peers.bar.set_message(format!("installing {requirement}"));
            let installed = match &made {
                Ok(()) => peers.pip(&requirement),
                Err(error) => Err(anyhow!("{error:#}")),
            };
            if let Err(error) = installed {
                peers.missing.insert(package, format!("{error:#}"));
            }
        }
        Ok(peers)
    }

    fn make_environment(&self, python: &str, environment: &Path) -> Result<()> {
        if self.python.exists() {
            return Ok(());
        }
        quietly(Command::new(python).args(["-m", "venv"]).arg(environment))
            .with_context(|| format!("`{python}` makes no environment"))
    }

    fn pip(&self, requirement: &str) -> Result<()> {
        let mut command = Command::new(&self.python);
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]);
        quietly(&mut command).with_context(|| format!("`{requirement}` is not to be had"))
    }

    /// The lines of `requirements.txt` that are not comments.
    fn requirements(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.scripts.join("requirements.txt")).unwrap_or_default();
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect()
    }

    /// Where scripts may leave files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Says what our side is doing.
    pub(crate) fn doing(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Says what has been measured; the tables come at the end.
    pub(crate) fn measured(&self, rows: &[Row]) {
        self.bar.suspend(|| rows.iter().for_each(|row| eprintln!("{row}")));
    }

    /// The last word on progress.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Runs a script and collects its replies, those it made before failing or running out of time included.
    ///
    /// The second part is why there are no more.
    pub(crate) fn ask(&self, question: &Question<'_>) -> (Vec<Reply>, Option<String>) {
        let mut replies = Vec::new();
        let outcome = self.collect(question, &mut replies);
        (replies, outcome.err().map(|error| format!("{error:#}")))
    }

    /// The rows of a question whose replies need no further judgement.
    pub(crate) fn rows(&self, work: &str, question: &Question<'_>) -> Vec<Row> {
        let (replies, failure) = self.ask(question);
        let mut rows: Vec<Row> = replies.iter().map(|reply| reply.row(work)).collect();
        rows.extend(failure.map(|why| missing(work, question.package, why)));
        rows
    }

    fn collect(&self, question: &Question<'_>, replies: &mut Vec<Reply>) -> Result<()> {
        let Question { package, script, arguments, limit } = question;
        if let Some(why) = self.missing.get(*package) {
            bail!("{why}");
        }
        self.doing(format!("{package}: {script} {}", arguments.first().map_or("", String::as_str)));
        let log = self.folder.join(script).with_extension("log");
        let mut child = Command::new(&self.python)
            // Caches of compiled scripts have no place among the sources.
            .arg("-B")
            .arg(self.scripts.join(script).with_extension("py"))
            .args(*arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).with_context(|| format!("cannot write `{}`", log.display()))?)
            .spawn()
            .with_context(|| format!("cannot start `{}`", self.python.display()))?;
        let read = self.read(&mut child, *limit, replies);
        if read.is_err() {
            // It may have ended on its own by now.
            let _ = child.kill();
        }
        let status = child.wait().context("the script cannot be waited for")?;
        read?;
        ensure!(status.success(), "{}", last_line(&std::fs::read_to_string(&log).unwrap_or_default()));
        Ok(())
    }

    fn read(&self, child: &mut Child, limit: Duration, replies: &mut Vec<Reply>) -> Result<()> {
        let output = child.stdout.take().context("the script has no output")?;
        let (sender, lines) = mpsc::channel();
        // A read has no time limit; the thread ends with the output of the script.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let deadline = Instant::now() + limit;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match parse(&line)? {
                    Some(Line::Progress { progress }) => self.doing(progress),
                    Some(Line::Reply(reply)) => replies.push(*reply),
                    None => {}
                },
                Err(RecvTimeoutError::Timeout) => bail!("not done after {} s", limit.as_secs()),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// A row that says why there is nothing to compare with.
pub(crate) fn missing(work: &str, who: &str, why: String) -> Row {
    Row { work: work.to_owned(), who: who.to_owned(), note: why, ..Row::default() }
}

/// Runs a program for its effect; what it complained of last is the reason if it fails.
fn quietly(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{}", last_line(&String::from_utf8_lossy(&output.stderr)));
    Ok(())
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or("it failed without a word").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// An environment whose Python is a shell script.
    ///
    /// A process of its own writes the script: a file that this process has open for writing is inherited by whatever
    /// another test starts at that moment, and the system does not execute a file that anybody may still write.
    #[cfg(unix)]
    fn with_python(body: &str, requirements: &str) -> (tempfile::TempDir, Peers) {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("environment/bin");
        std::fs::create_dir_all(&programs).unwrap();
        let python = programs.join("python");
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
        assert!(Command::new("sh").args(["-c", write]).arg(&python).arg(body).status().unwrap().success());
        std::fs::write(folder.path().join("requirements.txt"), requirements).unwrap();
        let bar = ProgressBar::hidden();
        let peers = Peers::install("no-such-python", folder.path(), folder.path(), bar).unwrap();
        (folder, peers)
    }

    fn question(package: &'static str, limit: Duration) -> Question<'static> {
        Question { package, script: "script", arguments: &[], limit }
    }

    #[test]
    fn lines_are_progress_replies_or_chatter() {
        let progress = parse(r#"{"progress": "step 1"}"#).unwrap().unwrap();
        assert_eq!(progress, Line::Progress { progress: "step 1".to_owned() });
        let line = r#"{"who": "jax-privacy 2.0.0", "variant": "f32", "seconds": 0.5, "toeplitz": [1.0, 0.5],
            "normalized": true, "answers": [2.5, null], "note": "warm"}"#;
        let expected = Reply {
            who: "jax-privacy 2.0.0".to_owned(),
            variant: "f32".to_owned(),
            seconds: Some(0.5),
            toeplitz: Some(vec![1.0, 0.5]),
            normalized: true,
            answers: Some(vec![Some(2.5), None]),
            note: "warm".to_owned(),
            ..Reply::default()
        };
        assert_eq!(parse(line).unwrap(), Some(Line::Reply(Box::new(expected))));
        assert_eq!(parse("WARNING: no accelerator").unwrap(), None);
        // Python writes numbers that JSON does not have.
        assert!(parse(r#"{"who": "x", "seconds": NaN}"#).is_err());
        assert!(parse(r#"{"seconds": 1.0}"#).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_package_that_is_not_available_costs_its_own_rows_only() {
        let body = r#"case "$*" in
            *"install"*"absent==2"*) echo "noise" >&2; echo "ERROR: No matching distribution" >&2; exit 1;;
            *"install"*) exit 0;;
        esac
        echo '{"progress": "working"}'; echo 'chatter'; echo '{"who": "present 1", "seconds": 2.0}'"#;
        let (_folder, peers) = with_python(body, "# two\nabsent==2\n\npresent==1\n");
        let rows = peers.rows("work", &question("present", HOUR));
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].who.as_str(), rows[0].seconds), ("present 1", Some(2.0)));
        let rows = peers.rows("work", &question("absent", HOUR));
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].who.as_str(), rows[0].seconds), ("absent", None));
        assert!(rows[0].note.contains("absent==2") && rows[0].note.contains("No matching"), "{:?}", rows[0]);
    }

    #[cfg(unix)]
    #[test]
    fn a_script_that_fails_keeps_what_it_said_before_and_one_that_hangs_is_ended() {
        let body = r#"echo '{"who": "p", "seconds": 1.0}'; echo 'ValueError: bad' >&2; exit 1"#;
        let (_folder, peers) = with_python(body, "");
        let (replies, failure) = peers.ask(&question("p", HOUR));
        assert_eq!((replies.len(), failure.as_deref()), (1, Some("ValueError: bad")));
        let (_folder, peers) = with_python("exec sleep 3600", "");
        let (_, failure) = peers.ask(&question("p", Duration::from_millis(50)));
        assert_eq!(failure.as_deref(), Some("not done after 0 s"));
    }

    #[test]
    fn without_python_every_package_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("requirements.txt"), "one==1\n").unwrap();
        let bar = ProgressBar::hidden();
        let peers = Peers::install("no-such-python", folder.path(), folder.path(), bar).unwrap();
        let (replies, failure) = peers.ask(&question("one", HOUR));
        assert!(replies.is_empty() && failure.is_some_and(|why| why.contains("no-such-python")));
    }
}
