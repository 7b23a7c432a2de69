//! Every Rust file belongs to a target that cargo builds.
//!
//! In a virtual workspace a stray file beside the test targets is silently never compiled, and so is a module that
//! no `mod` line names: tests that do not exist always pass. Starting from the targets of `cargo metadata`, the
//! `mod` lines are followed; what they do not reach is reported. Formatting is checked separately, so one
//! declaration per line is all that is parsed. A file module inside an inline module is not followed: give the
//! outer module a file of its own.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::Finding;

/// A `mod name;` line, with the `#[path]` above it if there is one.
#[derive(Debug, PartialEq, Eq)]
struct Declaration<'a> {
    name: &'a str,
    path: Option<&'a str>,
}

/// The root files of all targets of all packages, relative to the workspace.
pub(super) fn targets(packages: &[Value], root: &Path) -> Vec<PathBuf> {
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let sources = targets.filter_map(|target| target["src_path"].as_str());
    sources.filter_map(|source| Path::new(source).strip_prefix(root).ok()).map(Path::to_owned).collect()
}

/// Reports the Rust files that no target reaches.
pub(super) fn check(
    files: &BTreeSet<PathBuf>,
    targets: &[PathBuf],
    read: impl Fn(&Path) -> Option<String>,
) -> Vec<Finding> {
    let reached = reached(targets, read);
    let is_rust = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let lost = files.iter().filter(is_rust).filter(|path| !reached.contains(*path));
    let message = "no target reaches this file: declare it with `mod`, or as a target in Cargo.toml";
    lost.map(|path| Finding { path: path.clone(), line: 1, message: message.to_owned() }).collect()
}

/// All files that the module trees below the targets consist of.
fn reached(targets: &[PathBuf], read: impl Fn(&Path) -> Option<String>) -> BTreeSet<PathBuf> {
    let mut reached = BTreeSet::new();
    // A target's root looks for its modules beside itself, whatever its name is.
    let mut open: Vec<(PathBuf, bool)> = targets.iter().map(|target| (target.clone(), true)).collect();
    while let Some((file, beside)) = open.pop() {
        let Some(content) = read(&file) else { continue };
        if !reached.insert(file.clone()) {
            continue;
        }
        let here = file.parent().unwrap_or(Path::new(""));
        let below =
            if beside || file.ends_with("mod.rs") { here.to_owned() } else { file.with_extension("") };
        for Declaration { name, path } in declarations(&content) {
            if let Some(path) = path {
                // A file that is named by its path is a directory owner, like a `mod.rs`.
                open.push((normalized(&here.join(path)), true));
            } else {
                open.push((below.join(name).with_extension("rs"), false));
                open.push((below.join(name).join("mod.rs"), true));
            }
        }
    }
    reached
}

fn declarations(content: &str) -> Vec<Declaration<'_>> {
    let mut declarations = Vec::new();
    let mut path = None;
    for line in content.lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            path = Some(named);
        } else if let Some(name) = declared_module(line) {
            declarations.push(Declaration { name, path: path.take() });
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            path = None;
        }
    }
    declarations
}

/// `x` of `mod x;`, `pub mod x;` or `pub(crate) mod x;`.
fn declared_module(line: &str) -> Option<&str> {
    let (visibility, name) = line.strip_suffix(';')?.split_once("mod ")?;
    let is_visibility =
        matches!(visibility, "" | "pub ") || (visibility.starts_with("pub(") && visibility.ends_with(") "));
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.is_empty();
    (is_visibility && is_name).then_some(name)
}

/// Resolves `..` by name, as the files need not exist.
fn normalized(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                result.pop();
            }
            Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn lost(files: &[(&str, &str)], targets: &[&str]) -> Vec<String> {
        let files: BTreeMap<PathBuf, &str> =
            files.iter().map(|(path, content)| (path.into(), *content)).collect();
        let targets: Vec<PathBuf> = targets.iter().map(PathBuf::from).collect();
        let names = files.keys().cloned().collect();
        let findings = check(&names, &targets, |path| files.get(path).map(|content| (*content).to_owned()));
        findings.iter().map(|finding| finding.path.display().to_string()).collect()
    }

    #[test]
    fn a_stray_test_file_is_reported() {
        let files = [("tests/laws/main.rs", ""), ("tests/stray.rs", ""), ("tests/data.csv", "")];
        assert_eq!(lost(&files, &["tests/laws/main.rs"]), ["tests/stray.rs"]);
        assert!(lost(&files, &["tests/laws/main.rs", "tests/stray.rs"]).is_empty());
    }

    #[test]
    fn mod_lines_are_followed_through_both_layouts() {
        let files = [
            ("tests/laws/main.rs", "//! Laws.\nmod budget;\npub(crate) mod strategy;\n"),
            ("tests/laws/budget.rs", "mod exact;"),
            ("tests/laws/budget/exact.rs", ""),
            ("tests/laws/strategy/mod.rs", "    pub mod tree;"),
            ("tests/laws/strategy/tree.rs", ""),
            ("tests/laws/exact.rs", "//! Beside its parent's file, not below it."),
        ];
        assert_eq!(lost(&files, &["tests/laws/main.rs"]), ["tests/laws/exact.rs"]);
    }

    #[test]
    fn path_attributes_are_relative_to_the_file() {
        let files = [
            ("tests/laws/main.rs", "#[path = \"../shared/golden.rs\"]\n#[cfg(test)]\nmod golden;\n"),
            ("tests/shared/golden.rs", "mod table;"),
            ("tests/shared/table.rs", ""),
            ("tests/laws/golden.rs", ""),
        ];
        assert_eq!(lost(&files, &["tests/laws/main.rs"]), ["tests/laws/golden.rs"]);
    }

    #[test]
    fn only_declarations_declare() {
        for (line, name) in [("mod a;", "a"), ("pub mod a_1;", "a_1"), ("pub(in crate::x) mod a;", "a")] {
            assert_eq!(declared_module(line), Some(name));
        }
        for line in ["mod a {", "// mod a;", "/// mod a;", "use mod a;", "mod ;", "let modulus = 1;", "mod a"]
        {
            assert_eq!(declared_module(line), None, "{line}");
        }
        let content = "#[path = \"x.rs\"]\nmod a;\nmod b;\n";
        let expected = [Declaration { name: "a", path: Some("x.rs") }, Declaration { name: "b", path: None }];
        assert_eq!(declarations(content), expected);
    }

    #[test]
    fn targets_are_relative_to_the_workspace() {
        let packages =
            [json!({ "targets": [{ "src_path": "/w/tests/a.rs" }, { "src_path": "/elsewhere/b.rs" }] })];
        assert_eq!(targets(&packages, Path::new("/w")), [PathBuf::from("tests/a.rs")]);
    }
}
