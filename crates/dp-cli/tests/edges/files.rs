//! Files that are named by mistake survive, and devices and pipes are written to.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::places::PLACES;
use super::subject::{SUBJECTS, Subject, finish, lists, text};

fn fresh(subject: &Subject) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    lists(directory.path());
    fs::write(directory.path().join("rows.csv"), subject.with).unwrap();
    directory
}

/// All files of a directory with their contents.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn no_file_is_both_read_and_written() {
    for subject in &SUBJECTS {
        let directory = fresh(subject);
        let at = directory.path();
        fs::hard_link(at.join("rows.csv"), at.join("hard")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("rows.csv", at.join("soft")).unwrap();
        let before = contents(at);
        let mut cases: Vec<Vec<&str>> = vec![
            vec!["--plot", "rows.csv"],
            vec!["--plot", "./rows.csv"],
            vec!["--plot", "hard"],
            vec!["--plot", "soft"],
            vec!["--plot", "universe.txt"],
        ];
        if subject.keeps_state {
            for same in ["rows.csv", "./rows.csv", "hard", "soft"] {
                cases.push(vec!["--output", same]);
                cases.push(vec!["--output", same, "--overwrite"]);
                cases.push(vec!["--output", same, "--state", "state"]);
                cases.push(vec!["--output", "new", "--state", same]);
                cases.push(vec!["--output", "new", "--state", "state", "--state-key", same]);
            }
            cases.push(vec!["--output", "new", "--plot", "new"]);
            cases.push(vec!["--output", "state.key", "--state", "state"]);
            cases.push(vec!["--output", "no such directory/new"]);
            if subject.words.contains(&"universe.txt") {
                cases.push(vec!["--output", "universe.txt", "--overwrite"]);
            }
            if subject.words.contains(&"words.txt") {
                cases.push(vec!["--output", "words.txt", "--overwrite"]);
            }
        }
        for more in cases {
            let output = finish(subject.command(at, &more).spawn().unwrap(), subject.name);
            let code = output.status.code();
            assert!(matches!(code, Some(1 | 2)), "{} {more:?}: {code:?}", subject.name);
            assert!(
                contents(at) == before,
                "{} {more:?} changed a file: {}",
                subject.name,
                text(&output.stderr)
            );
        }
    }
}

#[test]
fn mistakes_leave_yesterdays_output_alone() {
    for subject in SUBJECTS.iter().filter(|subject| subject.keeps_state) {
        let directory = fresh(subject);
        let at = directory.path();
        let run = |more: &[&str]| finish(subject.command(at, more).spawn().unwrap(), subject.name);
        assert!(run(&["--output", "out"]).status.success());
        let yesterday = fs::read(at.join("out")).unwrap();
        // The same rows released again are a second budget.
        let again = run(&["--output", "out"]);
        assert_eq!(again.status.code(), Some(2));
        assert!(text(&again.stderr).contains("--overwrite"), "{}", text(&again.stderr));
        // A header without the column, found only after the file is open for reading.
        fs::write(at.join("rows.csv"), "other,stuff\n1,2\n").unwrap();
        for more in [&["--output", "out", "--overwrite"][..], &["--output", "out", "--strategy", "magic"]] {
            assert!(!run(more).status.success());
        }
        fs::remove_file(at.join("rows.csv")).unwrap();
        assert!(!run(&["--output", "out", "--overwrite"]).status.success());
        assert!(fs::read(at.join("out")).unwrap() == yesterday, "{}", subject.name);
        fs::write(at.join("rows.csv"), subject.with).unwrap();
        assert!(run(&["--output", "out", "--overwrite"]).status.success());
    }
}

#[cfg(unix)]
#[test]
fn devices_and_pipes_are_written_and_never_read_back() {
    for subject in SUBJECTS.iter().filter(|subject| subject.keeps_state) {
        let directory = fresh(subject);
        let at = directory.path();
        let run = |more: &[&str]| finish(subject.command(at, more).spawn().unwrap(), subject.name);
        let null = run(&["--output", "/dev/null"]);
        assert!(null.status.success() && null.stdout.is_empty(), "{}", text(&null.stderr));
        let full = run(&["--output", "/dev/full"]);
        assert_eq!(full.status.code(), Some(1), "{}", subject.name);
        assert!(text(&full.stderr).contains("No space left"), "{}", text(&full.stderr));
        let standard = run(&["--output", "/dev/stdout"]);
        assert!(standard.status.success(), "{}", text(&standard.stderr));
        assert_eq!(text(&standard.stdout), text(&run(&[]).stdout), "{}", subject.name);
        for device in ["/dev/null", "/dev/full", "-"] {
            let kept = run(&["--output", device, "--state", "state"]);
            assert_eq!(kept.status.code(), Some(2), "{}", text(&kept.stderr));
        }
    }
}

#[cfg(unix)]
#[test]
fn whoever_reads_only_the_beginning_ends_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let rows: String = std::iter::once("x\n").chain(std::iter::repeat_n("1\n", 200_000)).collect();
    fs::write(directory.path().join("rows.csv"), rows).unwrap();
    for target in ["-", "/dev/stdout"] {
        let script = format!(
            "{} release --input rows.csv --column x --bounds 0:1 --relation zero-out --steps 200000 --workload count \
             --strategy identity --mu 1 --output {target} 2>/dev/null | head -n 1",
            env!("CARGO_BIN_EXE_dp")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(directory.path()).stdin(Stdio::null());
        let output = finish(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), target);
        assert_eq!(text(&output.stdout), "step,release,standard_deviation\n", "{target}");
    }
}

#[cfg(unix)]
#[test]
fn a_standard_error_that_cannot_be_written_changes_nothing() {
    for subject in &SUBJECTS {
        let directory = fresh(subject);
        let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let said = finish(subject.command(directory.path(), &[]).spawn().unwrap(), subject.name);
        let unsaid =
            finish(subject.command(directory.path(), &[]).stderr(full()).spawn().unwrap(), subject.name);
        assert_eq!(unsaid.status.code(), Some(0), "{}", subject.name);
        assert_eq!(unsaid.stdout, said.stdout, "{}", subject.name);
        let mut wrong = subject.command(directory.path(), &["--strategy", "magic"]);
        let wrong = finish(wrong.stderr(full()).spawn().unwrap(), subject.name);
        assert_eq!(wrong.status.code(), Some(2), "{}", subject.name);
    }
    // Dashboards and trainings warn of public noise; a dashboard that asks finds nobody who answers.
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = |at: &Path, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(words).current_dir(at).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full());
        finish(command.spawn().unwrap(), words[0]).status.code()
    };
    for place in &PLACES {
        let directory = tempfile::tempdir().unwrap();
        place.prepare(directory.path());
        for words in place.commands.iter().filter(|words| words[0] != "check") {
            assert_eq!(run(directory.path(), words), Some(0), "{} {words:?}", place.name);
        }
        assert_eq!(run(directory.path(), &["new", "another.toml"]), Some(2));
    }
}
