//! Nothing but released values depends on the data: not the number of lines, their names, the files, their sizes, the
//! messages or the exit code.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::subject::{SUBJECTS, Subject, lists, text};

/// A line with its released number left out.
fn masked(line: &str, header: &str) -> String {
    if let Ok(serde_json::Value::Object(mut object)) = serde_json::from_str(line) {
        object.insert("release".to_owned(), serde_json::Value::Null);
        return serde_json::Value::Object(object).to_string();
    }
    let place = header.split(',').position(|column| column == "release");
    let fields = line.split(',').enumerate();
    fields
        .map(|(index, field)| if Some(index) == place { "value" } else { field })
        .collect::<Vec<_>>()
        .join(",")
}

fn masked_text(contents: &str, name: &str) -> String {
    if name == "local" {
        // A table: the estimates stand in the last column.
        let first =
            |line: &str| line.rsplit_once(' ').map_or(String::new(), |(rest, _)| rest.trim_end().to_owned());
        return contents.lines().map(first).collect::<Vec<_>>().join("\n");
    }
    let header = contents.lines().next().unwrap_or_default();
    contents.lines().map(|line| masked(line, header)).collect::<Vec<_>>().join("\n")
}

/// Everything that can be seen of a run but the released values.
#[derive(Debug, PartialEq)]
struct Seen {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// The files by name, with their masked contents or, for states and plots, what is public of their size.
    files: BTreeMap<String, String>,
}

fn seen(subject: &Subject, rows: &str, more: &[&str]) -> Seen {
    let directory = tempfile::tempdir().unwrap();
    lists(directory.path());
    let output = subject.run(directory.path(), rows, more);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "rows.csv" {
            let public = public_part(subject, &path, &name);
            files.insert(name, public);
        }
    }
    let stdout = masked_text(&text(&output.stdout), subject.name);
    Seen { code: output.status.code(), stdout, stderr: text(&output.stderr), files }
}

fn public_part(subject: &Subject, path: &Path, name: &str) -> String {
    match name {
        "output" => masked_text(&fs::read_to_string(path).unwrap(), subject.name),
        "state" if subject.fixed_size => fs::metadata(path).unwrap().len().to_string(),
        _ => String::new(),
    }
}

#[test]
fn neighbouring_inputs_differ_in_released_values_only() {
    for subject in &SUBJECTS {
        let stored = ["--state", "state", "--output", "output", "--plot", "plot.svg"];
        let mut forms: Vec<&[&str]> = vec![&[]];
        if subject.keeps_state {
            forms.extend([&["--json"][..], &stored]);
        }
        for more in forms {
            let (with, without) = (seen(subject, subject.with, more), seen(subject, subject.without, more));
            assert_eq!(with.code, Some(0), "{}: {}", subject.name, with.stderr);
            assert_eq!(with, without, "{} {more:?}", subject.name);
            // A bad row that is dropped or clamped is one more neighbour.
            for policy in ["drop", "clamp"] {
                let more = [more, &["--bad-rows", policy]].concat();
                let bad = subject.with.trim_end().rsplit_once('\n').unwrap().0.to_owned();
                let columns = bad.lines().next().unwrap().split(',').count();
                // For a graph a bad row is no update; elsewhere it takes the step of the row that it replaces.
                let row = vec!["é☃"; columns].join(",");
                let bad = seen(subject, &format!("{bad}\n{row}\n"), &more);
                assert_eq!(bad, seen(subject, subject.with, &more), "{} {more:?}", subject.name);
            }
        }
    }
}

/// The law has power: it would notice a line less, another name, another message.
#[test]
fn the_comparison_sees_everything_but_the_values() {
    let header = "step,item,release,standard_deviation";
    assert_eq!(masked("1,a,0.5,2", header), masked("1,a,-7.5,2", header));
    for other in ["2,a,0.5,2", "1,b,0.5,2", "1,a,0.5,3", "1,a,0.5"] {
        assert_ne!(masked("1,a,0.5,2", header), masked(other, header), "{other}");
    }
    let object =
        |release: &str, item: &str| format!("{{\"step\":1,\"item\":\"{item}\",\"release\":{release}}}");
    assert_eq!(masked(&object("1.5", "a"), ""), masked(&object("2", "a"), ""));
    assert_ne!(masked(&object("1.5", "a"), ""), masked(&object("1.5", "b"), ""));
    // More rows are more steps where every row is one, and that is seen.
    let release = &SUBJECTS[0];
    assert_ne!(seen(release, release.with, &[]), seen(release, "x\n1\n0\n1\n", &[]));
}

#[test]
fn every_command_says_what_it_promises() {
    for subject in &SUBJECTS {
        let directory = tempfile::tempdir().unwrap();
        lists(directory.path());
        let message = text(&subject.run(directory.path(), subject.with, &[]).stderr);
        for words in [
            "guarantee: all releases together satisfy",
            "ε = 1, δ = 1e-6",
            "protected: ",
            "not protected: ",
            "noise: strategy sqrt for",
        ] {
            assert!(message.contains(words), "{}: `{words}` is not in {message}", subject.name);
        }
        // Exact unless something else was asked for, or there is nothing else yet.
        let exact = subject.name == "release" || subject.name.starts_with("graph");
        assert!(
            message.contains(if exact { "; exact:" } else { "; idealized:" }),
            "{}: {message}",
            subject.name
        );
        assert!(!message.contains("row is there at all"), "{message}");
    }
}
