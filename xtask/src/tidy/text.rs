//! Rules about the text of one file.

use std::path::Path;

use super::Finding;

/// What no Rust file may contain, and why. Each pattern is put together from two parts so that this file passes.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("#[", "ignore"), "a disabled test checks nothing: mend it or remove it"),
    (concat!("```", "ignore"), "a disabled example rots: mark it `no_run` or `text`"),
    (concat!("should", "_panic"), "assert the error that is returned instead of a panic"),
    (concat!("todo", "!"), "unfinished code"),
    (concat!("unimplemented", "!"), "unfinished code"),
    (concat!("dbg", "!"), "leftover debugging"),
];

/// Top-level directories that hold one machine's files. System directories such as those of programs and devices
/// are the same everywhere and may be named.
const MACHINE_DIRECTORIES: &[&str] = &["home", "root", "work", "workspace", "tmp", "mnt", "Users"];

/// Checks one file: every text file for machine paths, Rust files also for their first line and forbidden words.
pub(super) fn check(path: &Path, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report =
        |line: usize, message: String| findings.push(Finding { path: path.to_owned(), line, message });

    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    if is_rust && !starts_with_module_doc(content) {
        report(1, "the first line is not a `//!` sentence that says what this module is".to_owned());
    }
    for (line, text) in (1..).zip(content.lines()) {
        if is_rust {
            for (word, reason) in forbidden_words(text) {
                report(line, format!("`{word}`: {reason}"));
            }
        }
        if let Some(directory) = machine_path(text) {
            report(line, format!("a path under /{directory} exists on one machine only"));
        }
    }
    findings
}

fn starts_with_module_doc(content: &str) -> bool {
    content
        .strip_prefix("//!")
        .and_then(|rest| rest.lines().next())
        .is_some_and(|text| !text.trim().is_empty())
}

fn forbidden_words(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FORBIDDEN.iter().copied().filter(move |(word, _)| {
        // A longer name that merely ends in the word is a different name.
        text.match_indices(word).any(|(start, _)| {
            let before = text[..start].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
        })
    })
}

/// The machine directory that an absolute path in `text` starts with, if there is one.
fn machine_path(text: &str) -> Option<&'static str> {
    MACHINE_DIRECTORIES.iter().copied().find(|directory| {
        text.match_indices(directory).any(|(start, _)| {
            let Some(before) = text[..start].strip_suffix('/') else { return false };
            // After a name the slash continues a relative path or an address, and is not the root.
            let continues = |c: char| c.is_alphanumeric() || "_-.~*)}]".contains(c);
            let is_root = !before.chars().next_back().is_some_and(continues);
            let ends = |c: char| "/\"'`".contains(c);
            is_root && text[start + directory.len()..].chars().next().is_some_and(ends)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, content: &str) -> Vec<String> {
        check(Path::new(path), content).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_module_starts_with_a_sentence_about_itself() {
        for good in ["//! Power series.\n", "//!Power series.\nfn f() {}\n"] {
            assert!(starts_with_module_doc(good), "{good:?}");
        }
        for bad in
            ["", "fn f() {}\n", "//!\n//! Late.\n", "\n//! Late.\n", "// A comment.\n", "/// An item.\n"]
        {
            assert!(!starts_with_module_doc(bad), "{bad:?}");
        }
        assert_eq!(messages("a.rs", "fn f() {}\n").len(), 1);
        assert!(messages("a.md", "fn f() {}\n").is_empty());
    }

    #[test]
    fn each_forbidden_word_is_found_on_its_line() {
        for (word, _) in FORBIDDEN {
            let content = format!("//! Module.\n\n    {word}(1)\n");
            let found = messages("a.rs", &content);
            assert!(found.len() == 1 && found[0].starts_with("a.rs:3: "), "{word}: {found:?}");
            assert!(messages("a.md", &content).is_empty(), "{word} is a rule for Rust files");
        }
    }

    #[test]
    fn names_that_only_resemble_a_forbidden_word_are_fine() {
        for good in ["my_dbg!(x)", "fn ignore() {}", "#[test]", "let todo = 1;", "debug!(\"x\")"] {
            assert_eq!(forbidden_words(good).count(), 0, "{good}");
        }
    }

    #[test]
    fn every_finding_of_a_file_is_listed() {
        let content = format!("fn f() {{ {}() }}\n{}(x)\n", FORBIDDEN[3].0, FORBIDDEN[5].0);
        assert_eq!(messages("a.rs", &content).len(), 3);
    }

    #[test]
    fn machine_paths_are_found_in_any_text() {
        for directory in MACHINE_DIRECTORIES {
            for place in ["", "see ", "\"", "(", "file://", "PATH=", "a:"] {
                let bad = format!("{place}/{directory}/x");
                assert_eq!(machine_path(&bad), Some(*directory), "{bad}");
            }
            let whole = format!("Path::new(\"/{directory}\").join(name)");
            assert_eq!(machine_path(&whole), Some(*directory), "{whole}");
        }
        assert_eq!(messages("notes.md", &format!("Text.\nIn /{}/x.\n", MACHINE_DIRECTORIES[0])).len(), 1);
    }

    #[test]
    fn relative_paths_addresses_and_system_paths_are_fine() {
        for directory in MACHINE_DIRECTORIES {
            for good in [
                format!("src/{directory}/x"),
                format!("../{directory}/x"),
                format!("https://example.org/{directory}/x"),
                format!("${{ROOT}}/{directory}/x"),
                format!("/{directory}stead/x"),
                format!("1/{directory} of it"),
                format!("/var/{directory}/x"),
            ] {
                assert_eq!(machine_path(&good), None, "{good}");
            }
        }
        assert_eq!(machine_path("#!/usr/bin/env bash"), None);
        assert_eq!(machine_path("> /dev/null"), None);
    }
}
