//! What commands release for a seed, kept in a file: a change of a released value is seen, and belongs into the changelog as
//! value-breaking.

use super::subject::{SUBJECTS, lists, text};

const PINNED: &str = include_str!("pinned.txt");

#[test]
fn released_values_are_what_they_were() {
    for section in PINNED.trim_end().trim_start_matches("# ").split("\n# ") {
        let (name, lines) = section.split_once('\n').unwrap();
        let subject = SUBJECTS.iter().find(|subject| subject.name == name).unwrap();
        let directory = tempfile::tempdir().unwrap();
        lists(directory.path());
        let output = subject.run(directory.path(), subject.with, &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(lines, text(&output.stdout).trim_end(), "{name}");
    }
}
