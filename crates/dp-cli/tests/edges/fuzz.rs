//! Every command and every file format it reads, with arguments and contents that mean nothing: no panic, no hang, no lost
//! file.

use std::fs;
use std::process::{Command, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::subject::{SUBJECTS, finish, lists, text};

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
    for command in ["plan", "calibrate", "demo", "train", "compare-training", "", "nothing"] {
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
