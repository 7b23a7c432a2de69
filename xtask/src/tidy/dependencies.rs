//! Every dependency is used, one on a crate of this workspace names its version, and the workspace lists no other.
//!
//! A dependency counts as used where its name stands in the source of the package: in `src` or a build script for an
//! ordinary one, anywhere in the package for one that only tests and benches need. A crate that depends on a path alone
//! cannot be packaged, and whoever takes the crate without this workspace could not build it; one that only tests need may be
//! given by its path alone, and is left out of the package then.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Finding;
use super::edges::manifest_line;

/// The manifest of the workspace.
const WORKSPACE: &str = "Cargo.toml";

/// Looks at the dependencies of every package.
pub(super) fn check(
    packages: &[Value],
    root: &Path,
    files: &BTreeSet<PathBuf>,
    read: impl Fn(&Path) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = unused_in_workspace(packages, &read(Path::new(WORKSPACE)).unwrap_or_default());
    for package in packages {
        let Some(manifest) = package["manifest_path"].as_str() else { continue };
        let manifest = Path::new(manifest);
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
        let Some(home) = manifest.parent() else { continue };
        let content = read(manifest).unwrap_or_default();
        let is_rust = |path: &&PathBuf| path.starts_with(home) && path.extension().is_some_and(|e| e == "rs");
        let sources: Vec<(bool, String)> = files
            .iter()
            .filter(is_rust)
            .filter_map(|path| Some((is_production(path.strip_prefix(home).ok()?), read(path)?)))
            .collect();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(name) = dependency["name"].as_str() else { continue };
            let key = dependency["rename"].as_str().unwrap_or(name);
            let mut report = |message: String| {
                let line = manifest_line(&content, key);
                findings.push(Finding { path: manifest.to_owned(), line, message });
            };
            let tests_only = dependency["kind"] == "dev";
            if dependency["path"].is_string() && dependency["req"] == "*" && !tests_only {
                report(format!("{name} is given by its path alone; add its version"));
            }
            let identifier = key.replace('-', "_");
            let used = sources
                .iter()
                .any(|(production, source)| (tests_only || *production) && mentions(source, &identifier));
            if !used {
                report(format!("{name} is not used by the source of this package"));
            }
        }
    }
    findings
}

/// The dependencies that the workspace gives a version for and no package takes.
fn unused_in_workspace(packages: &[Value], content: &str) -> Vec<Finding> {
    let dependencies = packages.iter().filter_map(|package| package["dependencies"].as_array()).flatten();
    let taken: BTreeSet<&str> = dependencies
        .filter_map(|dependency| dependency["rename"].as_str().or(dependency["name"].as_str()))
        .collect();
    (1..)
        .zip(content.lines())
        .skip_while(|(_, line)| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter_map(|(number, line)| Some((number, line.split_once(" =")?.0)))
        .filter(|(_, key)| !key.starts_with('#') && !taken.contains(key))
        .map(|(line, key)| Finding {
            path: WORKSPACE.into(),
            line,
            message: format!("{key} is a dependency of the workspace that no package takes"),
        })
        .collect()
}

/// Whether a file, relative to its package, is compiled into what the package offers.
fn is_production(path: &Path) -> bool {
    // Packages of tests and benches hold them as their targets, and those are what such a package offers.
    !["tests", "examples"].iter().any(|folder| path.starts_with(folder))
}

/// Whether a word stands in the source outside of line comments.
fn mentions(source: &str, word: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    source.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        line.match_indices(word).any(|(start, _)| {
            let after = line[start + word.len()..].chars().next();
            !is_part(line[..start].chars().next_back()) && !is_part(after)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(dependency: &Value, file: &str, source: &str) -> Vec<String> {
        let package =
            json!({ "name": "low", "manifest_path": "/w/low/Cargo.toml", "dependencies": [dependency] });
        let files = BTreeSet::from([PathBuf::from(file)]);
        let read = |path: &Path| match path.to_str() {
            Some("low/Cargo.toml") => Some("[dependencies]\nbig-number = \"1\"\n".to_owned()),
            _ => Some(source.to_owned()),
        };
        check(&[package], Path::new("/w"), &files, read).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_that_is_named_is_used() {
        let dependency = json!({ "name": "big-number", "req": "^1" });
        assert!(findings(&dependency, "low/src/lib.rs", "use big_number::Big;\n").is_empty());
        for source in ["use bigger_number::Big;\n", "// big_number would do\n", "let my_big_number = 1;\n"] {
            let found = findings(&dependency, "low/src/lib.rs", source);
            assert!(found.len() == 1 && found[0].starts_with("low/Cargo.toml:2: big-number"), "{found:?}");
        }
    }

    #[test]
    fn the_workspace_lists_what_is_taken_only() {
        let package = json!({ "name": "low", "dependencies": [{ "name": "taken", "req": "^1" }] });
        let manifest = "[workspace]\nunrelated = 1\n[workspace.dependencies]\n# Why = so.\ntaken = \"1\"\n\
                        forgotten = { version = \"1\" }\n\n[profile.dev]\nopt-level = 1\n";
        let found = unused_in_workspace(&[package], manifest);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().starts_with("Cargo.toml:6: forgotten"), "{found:?}");
    }

    #[test]
    fn what_only_tests_use_is_a_dependency_of_tests() {
        let source = "use big_number::Big;\n";
        let ordinary = json!({ "name": "big-number", "req": "^1" });
        assert_eq!(findings(&ordinary, "low/tests/all.rs", source).len(), 1);
        let of_tests = json!({ "name": "big-number", "req": "^1", "kind": "dev" });
        assert!(findings(&of_tests, "low/tests/all.rs", source).is_empty());
        assert!(findings(&of_tests, "low/src/lib.rs", source).is_empty(), "tests stand in src as well");
    }

    #[test]
    fn another_name_is_the_name_that_counts() {
        let renamed = json!({ "name": "huge-number", "rename": "big-number", "req": "^1" });
        assert!(findings(&renamed, "low/src/lib.rs", "use big_number::Big;\n").is_empty());
        assert_eq!(findings(&renamed, "low/src/lib.rs", "use huge_number::Big;\n").len(), 1);
    }

    #[test]
    fn a_path_needs_a_version_beside_it() {
        let source = "use big_number::Big;\n";
        let bare = json!({ "name": "big-number", "req": "*", "path": "/w/big" });
        let found = findings(&bare, "low/src/lib.rs", source);
        assert!(found.len() == 1 && found[0].contains("version"), "{found:?}");
        let versioned = json!({ "name": "big-number", "req": "^0.1.0", "path": "/w/big" });
        assert!(findings(&versioned, "low/src/lib.rs", source).is_empty());
        let of_tests = json!({ "name": "big-number", "req": "*", "path": "/w/big", "kind": "dev" });
        assert!(findings(&of_tests, "low/src/lib.rs", source).is_empty());
    }
}
