//! What every command releases for a seed, kept in a file: a change of a released value is seen, and belongs into the changelog
//! as value-breaking.

use super::subject::{SUBJECTS, lists, text};

const PINNED: &str = include_str!("pinned.txt");

#[test]
fn released_values_are_what_they_were() {
    for subject in SUBJECTS.iter().filter(|subject| subject.keeps_state) {
        let directory = tempfile::tempdir().unwrap();
        lists(directory.path());
        let output = subject.run(directory.path(), subject.with, &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let heading = format!("# {}\n", subject.name);
        let pinned =
            PINNED.split_once(&heading).map(|(_, rest)| rest.split("\n# ").next().unwrap_or_default());
        assert_eq!(pinned.map(str::trim_end), Some(text(&output.stdout).trim_end()), "{}", subject.name);
    }
}
