//! The workspace's crates depend on one another exactly as ARCHITECTURE.md lists.
//!
//! The list is the fenced block that opens with three backticks and the word `edges`; a line reads
//! `from -> to, to, …`. Development and build dependencies count like any other: they too say who knows whom.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Finding;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// An edge between two crates of the workspace, by their names.
type Edge = (String, String);

/// Where each edge stands: a file, relative to the root, and a line.
type Places = BTreeMap<Edge, (PathBuf, usize)>;

/// Compares the edges of `cargo metadata` with the list, in both directions.
pub(super) fn check(packages: &[Value], root: &Path, read: impl Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let (listed, mut findings) = listed_edges(&read(Path::new(DOCUMENT)).unwrap_or_default());
    let actual = actual_edges(packages, root, read);
    let mut report = |edges: &Places, others: &Places, complaint: &str| {
        for ((from, to), (path, line)) in edges.iter().filter(|(edge, _)| !others.contains_key(*edge)) {
            let message = format!("{from} -> {to} {complaint}");
            findings.push(Finding { path: path.clone(), line: *line, message });
        }
    };
    report(&actual, &listed, &format!("is not in the `edges` block of {DOCUMENT}"));
    report(&listed, &actual, "is listed, but no manifest has this dependency");
    findings
}

/// The dependencies between workspace members, each at its line in the manifest of the crate that depends.
fn actual_edges(packages: &[Value], root: &Path, read: impl Fn(&Path) -> Option<String>) -> Places {
    let members: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut edges = Places::new();
    for package in packages {
        let (Some(from), Some(manifest)) = (package["name"].as_str(), package["manifest_path"].as_str())
        else {
            continue;
        };
        let manifest = Path::new(manifest);
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
        let content = read(manifest).unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(to) = dependency["name"].as_str().filter(|name| members.contains(name)) else {
                continue;
            };
            let key = dependency["rename"].as_str().unwrap_or(to);
            let line = manifest_line(&content, key);
            edges.entry((from.to_owned(), to.to_owned())).or_insert((manifest.to_owned(), line));
        }
    }
    edges
}

/// The line of a manifest that declares the dependency `key`; the first line if it is written in an unusual way.
pub(super) fn manifest_line(content: &str, key: &str) -> usize {
    let declares = |line: &str| {
        line.strip_prefix(key).is_some_and(|rest| rest.starts_with('.') || rest.trim_start().starts_with('='))
    };
    content.lines().position(declares).map_or(1, |index| index + 1)
}

/// The edges that the document lists, and what is wrong with the list itself.
fn listed_edges(document: &str) -> (Places, Vec<Finding>) {
    let mut edges = Places::new();
    let mut findings = Vec::new();
    let mut report = |line, message: String| findings.push(Finding { path: DOCUMENT.into(), line, message });
    let mut lines = (1..).zip(document.lines()).skip_while(|(_, text)| text.trim() != "```edges");
    if lines.next().is_none() {
        report(1, "there is no fenced block that opens with ```edges".to_owned());
    }
    for (line, text) in lines.take_while(|(_, text)| text.trim() != "```") {
        let Some((from, targets)) = text.split_once("->") else {
            if !text.trim().is_empty() {
                report(line, format!("`{text}` does not read `from -> to, to`"));
            }
            continue;
        };
        for to in targets.split(',') {
            let edge = (from.trim().to_owned(), to.trim().to_owned());
            if edges.insert(edge, (DOCUMENT.into(), line)).is_some() {
                report(line, format!("{} -> {} is listed twice", from.trim(), to.trim()));
            }
        }
    }
    (edges, findings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(document: &str) -> Vec<String> {
        let packages = [
            json!({ "name": "low", "manifest_path": "/w/low/Cargo.toml", "dependencies": [{ "name": "serde" }] }),
            json!({ "name": "high", "manifest_path": "/w/high/Cargo.toml",
                    "dependencies": [{ "name": "low" }, { "name": "laws", "kind": "dev" }] }),
            json!({ "name": "laws", "manifest_path": "/w/laws/Cargo.toml", "dependencies": [] }),
        ];
        let read = |path: &Path| match path.to_str() {
            Some("ARCHITECTURE.md") => Some(document.to_owned()),
            Some("high/Cargo.toml") => {
                Some("[package]\n\n[dependencies]\nlow-level = \"1\"\nlow.workspace = true\n".to_owned())
            }
            _ => None,
        };
        check(&packages, Path::new("/w"), read).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_complete_list_passes_in_either_notation() {
        assert!(findings("# Map\n```edges\nhigh -> low, laws\n```\n").is_empty());
        assert!(findings("```edges\nhigh -> low\n\nhigh -> laws\n```\nlow -> high\n").is_empty());
    }

    #[test]
    fn an_edge_that_is_not_listed_is_reported_in_its_manifest() {
        let found = findings("```edges\nhigh -> laws\n```\n");
        assert!(found.len() == 1 && found[0].starts_with("high/Cargo.toml:5: high -> low"), "{found:?}");
    }

    #[test]
    fn development_edges_are_edges() {
        let found = findings("```edges\nhigh -> low\n```\n");
        assert!(found.len() == 1 && found[0].contains("high -> laws"), "{found:?}");
    }

    #[test]
    fn an_edge_that_is_gone_is_reported_in_the_document() {
        let found = findings("```edges\nhigh -> low, laws\nlow -> laws\n```\n");
        assert!(found.len() == 1 && found[0].starts_with("ARCHITECTURE.md:3: low -> laws"), "{found:?}");
    }

    #[test]
    fn a_broken_list_is_reported() {
        assert_eq!(findings("No block.\n").len(), 3, "the block and both edges are missing");
        let found = findings("```edges\nhigh -> low, laws\nhigh, low\nhigh -> low\n```\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("ARCHITECTURE.md:3: ") && found[1].contains("twice"), "{found:?}");
    }
}
