//! The rules about the source that no compiler checks.
//!
//! | module | rule |
//! |---|---|
//! | [`text`] | every module says what it is; no disabled tests, no unfinished code, no paths of one machine |
//! | [`reach`] | every Rust file belongs to a target that cargo builds |
//! | [`edges`] | the workspace's crates depend on one another exactly as ARCHITECTURE.md lists |
//! | [`dependencies`] | every dependency is used, and one on a crate of this workspace names its version |
//!
//! All findings are printed, as `file:line: what is wrong`, before the task fails.

mod dependencies;
mod edges;
mod reach;
mod text;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xshell::{Shell, cmd};

/// One broken rule, where it is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Relative to the root of the workspace.
    path: PathBuf,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

/// Checks every rule on the whole workspace.
pub(crate) fn run(shell: &Shell) -> Result<()> {
    let metadata = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
    let root = metadata["workspace_root"].as_str().context("cargo metadata names no workspace root")?;
    let root = Path::new(root);
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;

    let files = project_files(shell, root)?;
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();

    let mut findings = BTreeSet::new();
    for path in &files {
        // What is not UTF-8 is not text.
        if let Some(content) = read(path) {
            findings.extend(text::check(path, &content));
        }
    }
    findings.extend(reach::check(&files, &reach::targets(packages, root), read));
    findings.extend(edges::check(packages, root, read));
    findings.extend(dependencies::check(packages, root, &files, read));

    for finding in &findings {
        eprintln!("{finding}");
    }
    ensure!(findings.is_empty(), "tidy: {} findings in {} files", findings.len(), count_files(&findings));
    eprintln!("tidy: {} files, nothing to say", files.len());
    Ok(())
}

fn count_files(findings: &BTreeSet<Finding>) -> usize {
    findings.iter().map(|finding| &finding.path).collect::<BTreeSet<_>>().len()
}

/// The files of the project, relative to its root: what git tracks, and what it would track if it were added.
/// In a copy without history, every file outside the build directory.
fn project_files(shell: &Shell, root: &Path) -> Result<BTreeSet<PathBuf>> {
    let listing = cmd!(shell, "git -C {root} ls-files -z --cached --others --exclude-standard");
    if let Ok(listing) = listing.quiet().ignore_stderr().read() {
        // A file that is deleted but not yet committed is still listed.
        let present = |path: &PathBuf| root.join(path).is_file();
        return Ok(listing.split_terminator('\0').map(PathBuf::from).filter(present).collect());
    }
    let mut files = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for path in shell.read_dir(&directory)? {
            if !path.is_dir() {
                files.insert(path.strip_prefix(root)?.to_owned());
            } else if !path.ends_with(".git") && !path.ends_with("target") {
                open.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_like_compiler_messages_and_sort_by_place() {
        let finding = |path: &str, line| Finding { path: path.into(), line, message: "wrong".to_owned() };
        assert_eq!(finding("a/b.rs", 7).to_string(), "a/b.rs:7: wrong");
        let findings = BTreeSet::from([finding("b.rs", 1), finding("a.rs", 10), finding("a.rs", 9)]);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [9, 10, 1]);
        assert_eq!(count_files(&findings), 2);
    }
}
