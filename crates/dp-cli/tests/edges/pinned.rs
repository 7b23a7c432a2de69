//! What commands release for a seed, kept in files: a change of a released value is seen, and belongs into the changelog as
//! value-breaking.

use std::fmt::Write as _;
use std::fs;

use super::places::{PLACES, Place};
use super::subject::{SUBJECTS, lists, text};

const PINNED: &str = include_str!("pinned.txt");
const PINNED_FILES: &str = include_str!("pinned-files.txt");

#[test]
fn released_values_are_what_they_were() {
    let mut names = Vec::new();
    for section in PINNED.trim_end().trim_start_matches("# ").split("\n# ") {
        let (name, lines) = section.split_once('\n').unwrap();
        let subject = SUBJECTS.iter().find(|subject| subject.name == name).unwrap();
        let directory = tempfile::tempdir().unwrap();
        lists(directory.path());
        let output = subject.run(directory.path(), subject.with, &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(lines, text(&output.stdout).trim_end(), "{name}");
        names.push(name);
    }
    assert_eq!(names, SUBJECTS.each_ref().map(|subject| subject.name), "a command that is not pinned");
}

/// What dashboards and trainings leave in files, a line for every number. Their strategies are fitted, and end at other last bits on
/// other machines: numbers are compared to a part in ten thousand of their size or of their noise, which a changed sample exceeds.
#[test]
fn published_files_are_what_they_were() {
    let mut found = String::new();
    for place in PLACES.iter().filter(|place| !place.name.contains("Parquet")) {
        let directory = tempfile::tempdir().unwrap();
        place.make(directory.path());
        found += &numbers(place, directory.path());
    }
    let lines = |text: &'static str| text.lines().map(|line| line.rsplit_once(' ').unwrap());
    let same = found.lines().count() == PINNED_FILES.lines().count()
        && found.lines().zip(lines(PINNED_FILES)).all(|(found, (name, pinned))| {
            let (found_name, number) = found.rsplit_once(' ').unwrap();
            let [number, pinned]: [f64; 2] = [number, pinned].map(|number| number.parse().unwrap());
            found_name == name && (number - pinned).abs() <= 1e-4 * pinned.abs().max(1.0)
        });
    assert!(same, "these numbers are not those of pinned-files.txt:\n{found}");
}

/// The numbers that a place has published, with their names. The middle of a band stands for a number that is rounded to whole ones.
fn numbers(place: &Place, at: &std::path::Path) -> String {
    if place.name == "training" {
        let model: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(at.join("model.json")).unwrap()).unwrap();
        let parameters = model["parameters"].as_array().unwrap();
        let lines: Vec<String> = parameters.iter().map(|number| format!("training {number}")).collect();
        return lines.join("\n") + "\n";
    }
    let mut lines = String::new();
    for release in ["visits", "cost", "people", "waiting"] {
        let table = fs::read_to_string(at.join(format!("public/{release}.csv"))).unwrap();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [low, high] = [2, 1].map(|end| fields[fields.len() - end].parse::<f64>());
            let value = match (low, high) {
                (Ok(low), Ok(high)) => f64::midpoint(low, high),
                _ => fields[fields.len() - 4].parse().unwrap(),
            };
            let _ = writeln!(lines, "{release} {} {value:.3}", fields[..fields.len() - 4].join(" "));
        }
    }
    lines
}
