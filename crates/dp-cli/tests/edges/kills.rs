//! Killed at any moment, every command that keeps a state continues and never contradicts itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::places::{DASHBOARD, people};
use super::subject::{SUBJECTS, Subject, dp, lists, text};

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

/// Runs a command until it ends by itself; before that it is killed, at moments that fall before, into and between its writes and
/// that come later and later, so that a slow machine ends as well. Returns how often it was killed; `seen` looks after every life.
fn until_it_ends(at: &Path, words: &[&str], run: usize, seen: &mut dyn FnMut()) -> usize {
    for attempt in 0_usize.. {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(words).current_dir(at).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let delay = [0, 7, 15, 31, 22, 44][(attempt + run) % 6] * (1 + attempt as u64 / 6);
        std::thread::sleep(Duration::from_millis(delay));
        let finished = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        let ended = child.wait_with_output().unwrap();
        seen();
        if finished {
            assert!(ended.status.success(), "{words:?} after {attempt} kills: {}", text(&ended.stderr));
            return attempt;
        }
    }
    unreachable!("a command ends")
}

/// Eight days of a dashboard with a run a day, and a training: what is published, and the model, are those of a run that nobody
/// killed, and no published line ever changes.
#[test]
fn killed_at_any_moment_dashboards_and_trainings_continue_and_never_contradict_themselves() {
    let seed = ["--reproducible-seed", "5"];
    let date = |day: usize| format!("2026-01-{:02}", day + 1);
    let rows = |days: usize| -> String {
        let row = |i: usize| {
            let (day, place) = (date(i / 6), ["here", "there", "nowhere"][i % 3]);
            format!("{day},p{},{place},{}\n", i * 7 % 11, i * 13 % 60)
        };
        "date,who,place,cost\n".to_owned() + &(0..6 * days).map(row).collect::<String>()
    };
    let table = |at: &Path| fs::read_to_string(at.join("public/visits.csv")).unwrap_or_default();
    let place = || {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("dashboard.toml"), DASHBOARD).unwrap();
        directory
    };
    let (mut kills, mut of_trainings) = (0, 0);
    for run in 0..runs() {
        let (whole, killed) = (place(), place());
        for day in 1..=8 {
            let until = date(day);
            let words = [&["run", "dashboard.toml", "--until", &until], &seed[..]].concat();
            for directory in [&whole, &killed] {
                fs::write(directory.path().join("rows.csv"), rows(day)).unwrap();
            }
            assert!(dp(whole.path(), &words).status.success());
            let mut last = table(killed.path());
            kills += until_it_ends(killed.path(), &words, run + day, &mut || {
                let now = table(killed.path());
                assert!(now.starts_with(&last), "a line that was published has changed");
                last = now;
            });
            assert!(last == table(whole.path()), "day {day} after {kills} kills");
        }

        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("people.csv"), people(60)).unwrap();
        let base =
            ["train", "--data", "people.csv", "--label", "answer", "--classes", "no,yes", "--bounds", "0:60"];
        let private = ["--epsilon", "2", "--delta", "1e-5", "--relation", "zero-out", "--seed", "7"];
        let long = ["--epochs", "2", "--batch", "2", "--strategy", "sqrt", "--output"];
        let train = [&base[..], &private, &long].concat();
        assert!(dp(at, &[&train[..], &["whole.json"]].concat()).status.success());
        let words = [&train[..], &["model.json", "--state", "state"]].concat();
        of_trainings += until_it_ends(at, &words, run, &mut || {});
        let model = |name: &str| fs::read_to_string(at.join(name)).unwrap();
        assert!(model("model.json") == model("whole.json"), "after {of_trainings} kills");
    }
    println!("{kills} kills of dashboards, {of_trainings} of trainings");
    assert!(kills > 0 && of_trainings > 0, "no run was interrupted");
}
