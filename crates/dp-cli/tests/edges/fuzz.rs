//! Every command and every file format it reads, with arguments and contents that mean nothing: no panic, no hang, no lost
//! file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::places::PLACES;
use super::subject::{SUBJECTS, dp, finish, lists, text};

/// How often each command is run; `DP_FUZZ_RUNS` asks for more.
fn runs() -> usize {
    std::env::var("DP_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(24)
}

/// Words that options may be followed by, sense and nonsense.
const WORDS: [&str; 48] = [
    "--bad-rows",
    "drop",
    "clamp",
    "--show-values",
    "--json",
    "--steps",
    "--until",
    "--column",
    "x",
    "y",
    "step",
    "--bounds",
    "0:1",
    "-1e99:1e99",
    "--relation",
    "replace",
    "--mu",
    "--epsilon",
    "--delta",
    "1e-9",
    "1e300",
    "--strategy",
    "auto",
    "blt",
    "anytime",
    "group",
    "--participation",
    "2:1",
    "9:4294967296",
    "--top",
    "--every",
    "--show",
    "a",
    "--items",
    "0",
    "1",
    "3",
    "9223372036854775807",
    "--from-row",
    "--overwrite",
    "--degree-bound",
    "--leaves",
    "--threshold",
    "--length",
    "nan",
    "-1",
    "",
    "é☃",
];

fn contents(runner: &mut TestRunner, sample: &str) -> Vec<u8> {
    let strategy = proptest::prop_oneof![
        proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        "(x|step,u,v|step,u,v,weight|a)\n([-0-9a-c.,;\"\r\n é☃]{0,9}\n){0,12}".prop_map(String::into_bytes),
        (0..sample.len().max(1), proptest::prelude::any::<u8>()).prop_map({
            let sample = sample.to_owned();
            move |(place, byte)| {
                let mut bytes = sample.clone().into_bytes();
                if let Some(there) = bytes.get_mut(place) {
                    *there = byte;
                }
                bytes
            }
        }),
    ];
    strategy.new_tree(runner).unwrap().current()
}

#[test]
fn nonsense_neither_panics_nor_hangs_nor_destroys() {
    let mut runner = TestRunner::deterministic();
    let mut total = 0;
    for subject in &SUBJECTS {
        for run in 0..runs() {
            let directory = tempfile::tempdir().unwrap();
            let at = directory.path();
            lists(at);
            fs::write(at.join("rows.csv"), subject.with).unwrap();
            if subject.keeps_state {
                // A run that can be continued, and an output that belongs to it.
                let stored = ["--state", "state", "--output", "out"];
                assert!(subject.run(at, subject.with, &stored).status.success(), "{}", subject.name);
            }
            let broken = ["rows.csv", "universe.txt", "words.txt", "state", "state.key", "out"][run % 6];
            let sample = fs::read(at.join(broken)).map(|bytes| text(&bytes)).unwrap_or_default();
            fs::write(at.join(broken), contents(&mut runner, &sample)).unwrap();
            let words = proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..5);
            let words = words.new_tree(&mut runner).unwrap().current();
            let stored = subject.keeps_state && run % 2 == 0;
            let mut more = if stored { vec!["--state", "state", "--output", "out"] } else { Vec::new() };
            // Half of the runs have arguments that make sense, and files that do not.
            if run % 4 > 1 {
                more.extend(words);
            }
            let before: Vec<Vec<u8>> = ["rows.csv", "universe.txt", "words.txt"]
                .map(|name| fs::read(at.join(name)).unwrap())
                .to_vec();
            let output = finish(subject.command(at, &more).spawn().unwrap(), subject.name);
            total += 1;
            let (code, message) = (output.status.code(), text(&output.stderr));
            assert!(matches!(code, Some(0..=2)), "{} {more:?}, {broken}: {code:?} {message}", subject.name);
            assert!(code == Some(0) || !message.is_empty());
            assert!(!message.contains("panicked"), "{message}");
            let after: Vec<Vec<u8>> = ["rows.csv", "universe.txt", "words.txt"]
                .map(|name| fs::read(at.join(name)).unwrap())
                .to_vec();
            assert!(before == after, "{} {more:?} lost a file", subject.name);
        }
    }
    println!("{total} runs");
}

/// The commands that read no rows.
#[test]
fn nonsense_arguments_are_refused_by_the_other_commands() {
    let mut runner = TestRunner::deterministic();
    let commands = [
        "plan",
        "calibrate",
        "account",
        "demo",
        "train",
        "compare-training",
        "run",
        "check",
        "new",
        "ledger",
    ];
    for command in commands.into_iter().chain(["", "nothing"]) {
        for _ in 0..=runs() / 4 {
            let directory = tempfile::tempdir().unwrap();
            let words = proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 1..6);
            let words = words.new_tree(&mut runner).unwrap().current();
            // Without a column such as --data, an option that no command has makes the request nonsense.
            let mut dp = Command::new(env!("CARGO_BIN_EXE_dp"));
            dp.arg(command).args(&words).arg("--no-such-option").current_dir(directory.path());
            dp.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let output = finish(dp.spawn().unwrap(), command);
            assert_eq!(output.status.code(), Some(2), "{command} {words:?}");
        }
    }
}

/// Lines of a description that are wrong, or right and huge.
const LINES: [&str; 33] = [
    "epsilon = 0",
    "epsilon = 1e300",
    "delta = 1",
    "rho = 1e-300",
    "protects = \"event\"",
    "protects = \"nobody\"",
    "relation = \"replace\"",
    "files = []",
    "files = [\"rows.csv\", \"rows.csv\"]",
    "files = [\".\", \"public\", \"dashboard.toml\"]",
    "time = \"who\"",
    "format = \"%\"",
    "person = \"place\"",
    "rows_per_step = 18446744073709551615",
    "rows_per_step = 0",
    "steps = 4294967296",
    "separation = 9223372036854775807",
    "length = \"1 hour\"",
    "length = \"999999999999 weeks\"",
    "length = \"0 days\"",
    "zone = \"Mars/Olympus\"",
    "first = \"0001-01-01\"",
    "last = \"9999-12-31\"",
    "last = \"2025-01-01\"",
    "statistics = [\"window:0\", \"total\"]",
    "statistics = [\"quantile:2\", \"mean\"]",
    "statistics = [\"poly:1e9\", \"exp:1e308\", \"window:99999999999\"]",
    "by = { column = \"place\", values = [] }",
    "value = { column = \"cost\", bounds = [0, 1e308], resolution = 1e-300 }",
    "value = { column = \"cost\", bounds = [5, 5] }",
    "share = -1",
    "folder = \"dashboard.state\"",
    "[[release]]",
];

/// Bytes that were something: flipped, cut, doubled, with a line of theirs replaced, or nothing like them.
fn mutated(runner: &mut TestRunner, sample: &[u8]) -> Vec<u8> {
    let mut draw = |below: usize| (0..below.max(1)).new_tree(runner).unwrap().current();
    let mut bytes = sample.to_vec();
    let length = bytes.len();
    match draw(6) {
        0 => (0..=draw(4)).for_each(|_| {
            let (place, byte) = (draw(length), draw(256));
            if let Some(there) = bytes.get_mut(place) {
                *there = byte as u8;
            }
        }),
        1 => bytes.truncate(draw(length + 1)),
        2 => {
            let (start, end) = (draw(length + 1), draw(length + 1));
            bytes.extend_from_within(start.min(end)..start.max(end));
        }
        3 => bytes = (0..draw(300)).map(|_| draw(256) as u8).collect(),
        _ => {
            let whole = String::from_utf8_lossy(sample).into_owned();
            let mut lines: Vec<&str> = whole.lines().collect();
            for _ in 0..=draw(3) {
                let place = draw(lines.len());
                match (draw(3), lines.get(place)) {
                    (0, Some(_)) => _ = lines.remove(place),
                    (1, Some(line)) => lines.insert(draw(lines.len()), line),
                    (_, Some(_)) => lines[place] = LINES[draw(LINES.len())],
                    _ => {}
                }
            }
            bytes = lines.join("\n").into_bytes();
        }
    }
    bytes
}

/// A copy of a folder and of the folders in it.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copied(&path, &target) } else { _ = fs::copy(&path, &target).unwrap() }
    }
}

/// Dashboards and trainings: one of the files that they read or keep is broken, and one of the commands that read it runs. It
/// ends, without a panic; no input is changed, nor what is kept where the command refuses.
#[test]
fn nonsense_in_the_files_of_dashboards_and_trainings_is_survived() {
    let mut runner = TestRunner::deterministic();
    let (mut total, mut refused) = (0, 0);
    for place in &PLACES {
        let template = tempfile::tempdir().unwrap();
        place.make(template.path());
        let files: Vec<&str> = place.inputs.iter().chain(place.kept).copied().collect();
        for run in 0..runs() {
            let directory = tempfile::tempdir().unwrap();
            let at = directory.path();
            copied(template.path(), at);
            // A description, or the first input, every other time.
            let broken = files[if run % 2 == 0 { 0 } else { run / 2 % files.len() }];
            let sample = fs::read(at.join(broken)).unwrap_or_default();
            fs::write(at.join(broken), mutated(&mut runner, &sample)).unwrap();
            // Every third time nothing was kept before.
            if run % 3 == 2 && place.inputs.contains(&broken) {
                place.kept.iter().for_each(|name| _ = fs::remove_file(at.join(name)));
            }
            let read = |names: &[&'static str]| -> BTreeMap<&str, Option<Vec<u8>>> {
                names.iter().map(|name| (*name, fs::read(at.join(name)).ok())).collect()
            };
            let (inputs, kept) = (read(place.inputs), read(place.kept));
            let command = place.commands[run % place.commands.len()];
            let output = dp(at, command);
            total += 1;
            let (code, message) = (output.status.code(), text(&output.stderr));
            let what = format!("{} {command:?} with another {broken}: {code:?} {message}", place.name);
            assert!(matches!(code, Some(0..=2)) && !message.contains("panicked"), "{what}");
            assert!(inputs == read(place.inputs), "{what} changed an input");
            if code != Some(0) {
                refused += 1;
                assert!(!message.is_empty() || command[0] == "check", "{what}");
                let now = read(place.kept);
                let lost = kept.iter().find(|(name, bytes)| bytes.is_some() && now[*name] != **bytes);
                assert_eq!(lost.map(|(name, _)| name), None, "{what} changed what is kept");
            }
        }
    }
    println!("{total} runs, {refused} refused");
    assert!(refused > total / 4 && refused < total, "{refused} of {total} were refused");
}
