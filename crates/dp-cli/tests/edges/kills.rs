//! Killed at any moment, every command that keeps a state continues and never contradicts itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::subject::{SUBJECTS, Subject, lists, text};

/// The lines of an output by what stands before the released number, as far as they are complete.
fn answers(contents: &str) -> BTreeMap<String, String> {
    let complete = &contents[..contents.rfind('\n').map_or(0, |last| last + 1)];
    complete
        .lines()
        .map(|line| {
            let mut parts = line.rsplitn(3, ',');
            let (deviation, release) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            (parts.next().unwrap_or_default().to_owned(), format!("{release},{deviation}"))
        })
        .collect()
}

/// Rows of a subject repeated, so that there is time to be killed.
fn many(subject: &Subject) -> (String, usize) {
    let mut lines = subject.with.lines();
    let header = lines.next().unwrap();
    let rows: Vec<&str> = lines.collect();
    if subject.words[0] == "graph" {
        // Three rows a step.
        let row = |step: usize| {
            format!(
                "{step},0,1{0}\n{step},1,2{0}\n{step},0,3{0}\n",
                if header.contains("weight") { ",1" } else { "" }
            )
        };
        return (format!("{header}\n{}", (1..=40).map(row).collect::<String>()), 40);
    }
    let repeated: Vec<&str> = rows.iter().copied().cycle().take(40).collect();
    (format!("{header}\n{}\n", repeated.join("\n")), 40)
}

/// The command with more steps than in its small request.
fn command(subject: &Subject, directory: &Path, steps: usize, more: &[&str]) -> std::process::Command {
    let mut words: Vec<String> = subject.words.iter().map(ToString::to_string).collect();
    for index in 0..words.len() {
        if words[index] == "--steps" || words[index] == "--until" {
            words[index + 1] = steps.to_string();
        }
    }
    let small = subject.command(directory, more);
    let mut command = std::process::Command::new(small.get_program());
    command.args(words).args(small.get_args().skip(subject.words.len()));
    command.current_dir(directory).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command
}

/// How often each command is run to its end; `DP_KILL_RUNS` asks for more.
fn runs() -> usize {
    std::env::var("DP_KILL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

#[test]
fn killed_at_any_moment_every_command_continues_and_never_contradicts_itself() {
    let mut kills = 0;
    let subjects = SUBJECTS.iter().filter(|subject| subject.keeps_state);
    for (run, subject) in (0..runs()).flat_map(|run| subjects.clone().map(move |subject| (run, subject))) {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        lists(at);
        let (rows, steps) = many(subject);
        fs::write(at.join("rows.csv"), rows).unwrap();
        let whole = command(subject, at, steps, &[]).output().unwrap();
        assert!(whole.status.success(), "{}: {}", subject.name, text(&whole.stderr));
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for attempt in 0_u64.. {
            // A write for every step, or for a few together.
            let group = ["1", "7", "3"][(attempt as usize + run) % 3];
            let more = ["--state", "state", "--output", "out", "--group", group];
            let mut child = command(subject, at, steps, &more).spawn().unwrap();
            // Delays that fall before, into and between the writes, and grow so that a slow machine ends as well.
            let delay = [2, 7, 4, 12, 19][(attempt as usize + run) % 5] * (1 + attempt / 10);
            std::thread::sleep(Duration::from_millis(delay));
            let finished = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            let ended = child.wait_with_output().unwrap();
            let contents = fs::read_to_string(at.join("out")).unwrap_or_default();
            for (name, release) in answers(&contents) {
                let earlier = seen.entry(name.clone()).or_insert_with(|| release.clone());
                assert_eq!(*earlier, release, "{}: {name} was answered twice", subject.name);
            }
            if finished {
                assert!(ended.status.success(), "{}: {}", subject.name, text(&ended.stderr));
                break;
            }
            kills += 1;
            if attempt % 3 == 0 && contents.lines().count() > 2 {
                // A line is torn as well, as by a power failure.
                let complete = &contents[..contents.rfind('\n').map_or(0, |last| last + 1)];
                fs::write(at.join("out"), format!("{complete}17,0.12")).unwrap();
            }
        }
        let out = fs::read_to_string(at.join("out")).unwrap();
        assert!(out == text(&whole.stdout), "{} after {kills} kills", subject.name);
    }
    println!("{kills} kills");
    assert!(kills > 0, "no run was interrupted");
}
