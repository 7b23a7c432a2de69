//! States that are begun with two threads and continued with one. Dense planning is cut into the same pieces for any number of
//! threads and ends at the same bits; where another math library ends at others, the state continues with its own.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn dp(directory: &Path, threads: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dp"))
        .current_dir(directory)
        .env("RAYON_NUM_THREADS", threads)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn succeeds(output: &Output, what: &str) {
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The lines of a file without their deviations: a report, which is computed anew and may round differently.
fn released(directory: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(directory.join(name)).unwrap();
    text.lines().filter_map(|line| line.rsplit_once(',')).map(|(values, _)| values.to_owned()).collect()
}

/// At so many steps planning that is cut into as many pieces as there are threads ends at other last bits with one than with two;
/// at 256 it does not.
const STEPS: &str = "365";

const BUDGET: [&str; 6] = ["--epsilon", "1", "--delta", "1e-6", "--reproducible-seed", "11"];

#[test]
fn a_release_continues_with_another_number_of_threads() {
    let numbers = ["--column", "x", "--bounds", "0:1", "--relation", "zero-out", "--workload", "count"];
    let cases: [(&str, &[&str]); 4] =
        [("optimal", &[]), ("structured", &[]), ("auto", &["--idealized"]), ("structured", &["--idealized"])];
    for (strategy, arithmetic) in cases {
        let directory = tempfile::tempdir().unwrap();
        let base = ["release", "--steps", STEPS, "--strategy", strategy];
        let run = |threads: &str, rows: usize, more: &[&str]| {
            let text: String = (0..rows).map(|row| ["0\n", "1\n"][row % 2]).collect();
            fs::write(directory.path().join("rows.csv"), format!("x\n{text}")).unwrap();
            let words = [&base[..], &numbers, &BUDGET, arithmetic, &["--input", "rows.csv"], more].concat();
            dp(directory.path(), threads, &words)
        };
        let state = ["--state", "state", "--output", "part.csv"];
        succeeds(&run("2", 9, &["--output", "whole.csv"]), strategy);
        succeeds(&run("2", 4, &state), strategy);
        succeeds(&run("1", 9, &state), strategy);
        let [part, whole] = ["part.csv", "whole.csv"].map(|name| released(directory.path(), name));
        assert_eq!(part, whole, "{strategy} {arithmetic:?}");
        assert!(directory.path().join("state.plan").exists());
    }
}

/// Epochs of doubling length are planned when they begin, and again by every later run: the first of 365 steps, or the third.
#[test]
fn a_stream_without_an_end_continues_with_another_number_of_threads() {
    let numbers = ["--column", "x", "--bounds", "0:1", "--relation", "zero-out", "--workload", "count"];
    for (first, arithmetic, parts) in [("365", &[][..], [4, 9]), ("92", &["--idealized"], [280, 285])] {
        let directory = tempfile::tempdir().unwrap();
        let base = ["release", "--doubling", first, "--strategy", "optimal"];
        let run = |threads: &str, rows: usize, more: &[&str]| {
            let text: String = (0..rows).map(|row| ["0\n", "1\n"][row % 2]).collect();
            fs::write(directory.path().join("rows.csv"), format!("x\n{text}")).unwrap();
            let words = [&base[..], &numbers, &BUDGET, arithmetic, &["--input", "rows.csv"], more].concat();
            dp(directory.path(), threads, &words)
        };
        let state = ["--state", "state", "--output", "part.csv", "--group", "100"];
        succeeds(&run("2", parts[1], &["--output", "whole.csv"]), first);
        succeeds(&run("2", parts[0], &state), first);
        succeeds(&run("1", parts[1], &state), first);
        let [part, whole] = ["part.csv", "whole.csv"].map(|name| released(directory.path(), name));
        assert_eq!(part, whole, "{first} {arithmetic:?}");
    }
}

/// A dashboard of a year keeps what was fitted: begun with two threads, continued with one, and then with two.
#[test]
fn a_dashboard_continues_with_another_number_of_threads() {
    for budget in ["epsilon = 1.0\ndelta = 1e-6", "rho = 0.5", "epsilon = 1.0"] {
        let spec = super::places::DASHBOARD.replace("2026-01-08", "2026-12-31");
        let spec = spec.replace("epsilon = 1.0\ndelta = 1e-6", budget);
        let run = |order: [&str; 3]| {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("dashboard.toml"), &spec).unwrap();
            fs::write(directory.path().join("rows.csv"), super::places::VISITS).unwrap();
            for (threads, until) in order.iter().zip(["2026-01-03", "2026-01-05", "2026-01-06"]) {
                let words = ["run", "dashboard.toml", "--until", until, "--reproducible-seed", "3"];
                succeeds(&dp(directory.path(), threads, &words), budget);
            }
            let public = directory.path().join("public");
            ["visits.csv", "cost.csv", "people.csv", "waiting.csv", "guarantee.md", "index.html"]
                .map(|name| fs::read_to_string(public.join(name)).unwrap())
        };
        assert!(run(["2", "1", "2"]) == run(["2", "2", "2"]), "{budget}");
    }
}

#[test]
fn a_graph_continues_with_another_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("updates.csv"), "step,u,v,weight\n1,0,1,1\n2,1,2,1\n4,0,2,1\n").unwrap();
    let base = ["graph", "edges", "--vertices", "4", "--steps", STEPS, "--relation", "zero-out"];
    let run = |threads: &str, until: &str, more: &[&str]| {
        let input = ["--strategy", "optimal", "--input", "updates.csv", "--until", until];
        dp(directory.path(), threads, &[&base[..], &BUDGET, &input, more].concat())
    };
    let state = ["--state", "state", "--output", "part.csv"];
    succeeds(&run("2", "5", &["--output", "whole.csv"]), "whole");
    succeeds(&run("2", "4", &state), "begun");
    succeeds(&run("1", "5", &state), "continued");
    assert_eq!(released(directory.path(), "part.csv"), released(directory.path(), "whole.csv"));
}

#[test]
fn a_training_is_opened_with_another_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let row = |i: u32| {
        let (a, b) = (i * 37 % 60, i * 23 % 60 + 1);
        format!("{a},{},{b}\n", if a > b { "yes" } else { "no" })
    };
    let rows: String = (0..365).map(row).collect();
    fs::write(directory.path().join("people.csv"), format!("a,answer,b\n{rows}")).unwrap();
    let base =
        ["train", "--data", "people.csv", "--label", "answer", "--classes", "no,yes", "--bounds", "0:60"];
    let private = ["--epsilon", "2", "--delta", "1e-5", "--relation", "zero-out", "--seed", "7"];
    let long = ["--epochs", "1", "--batch", "1", "--strategy", "optimal", "--state", "state"];
    let run = |threads: &str, model: &str| {
        dp(directory.path(), threads, &[&base[..], &private, &long, &["--output", model]].concat())
    };
    succeeds(&run("2", "model.json"), "trained");
    succeeds(&run("1", "again.json"), "shown again");
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(read("again.json"), read("model.json"));
}
