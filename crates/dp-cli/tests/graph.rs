//! `dp graph` as its users meet it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn dp(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dp")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A growing graph: a triangle, an idle step, then a fourth vertex.
const ROWS: &str = "step,u,v,weight\n1,0,1,0.5\n2,1,2,0.25\n2,0,2,1\n4,3,0,0.5\n4,3,1,0.75\n";

/// Runs `dp graph` on rows, with hardly any noise unless a budget is among the arguments.
fn graph(directory: &Path, rows: &str, arguments: &[&str]) -> Output {
    let input = directory.join("rows.csv");
    fs::write(&input, rows).unwrap();
    let mut all = vec!["graph", "--input", input.to_str().unwrap(), "--vertices", "4", "--steps", "6"];
    if !arguments.contains(&"--until") {
        all.extend(["--until", "4"]);
    }
    all.extend(["--relation", "zero-out", "--strategy", "sqrt", "--reproducible-seed", "5"]);
    if !arguments.contains(&"--mu") {
        all.extend(["--mu", "1e9"]);
    }
    all.extend(arguments);
    dp(&all)
}

/// The released values, in order.
fn values(output: &Output) -> Vec<f64> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value = |line: &str| line.split(',').nth(2).unwrap().parse::<f64>().unwrap();
    text(&output.stdout).lines().skip(1).map(value).collect()
}

#[test]
fn functions_and_cuts_come_out_right() {
    let directory = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &[f64]); 9] = [
        (&["edges"], &[1.0, 3.0, 3.0, 5.0]),
        (&["forest"], &[0.5, 0.75, 0.75, 1.25]),
        (&["triangles"], &[0.0, 1.0, 1.0, 2.0]),
        // The changes of the last two steps, and changes of which half is left after each step.
        (&["edges", "--workload", "window:2"], &[1.0, 3.0, 2.0, 2.0]),
        (&["forest", "--workload", "exp:2"], &[0.5, 0.5, 0.25, 0.625]),
        (&["cuts", "--cut", "0:1,2", "--workload", "exp:2"], &[0.5, 1.25, 0.625, 0.3125]),
        (&["stars", "--leaves", "3"], &[0.0, 0.0, 0.0, 2.0]),
        (&["high-degree", "--threshold", "2"], &[0.0, 3.0, 3.0, 4.0]),
        (&["cuts", "--cut", "0:1,2", "--cut", "3:"], &[0.5, 0.0, 1.5, 0.0, 1.5, 0.0, 1.5, 1.25]),
    ];
    for (arguments, expected) in cases {
        let released = values(&graph(directory.path(), ROWS, arguments));
        assert_eq!(released.len(), expected.len(), "{arguments:?}");
        let close = released.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close, "{arguments:?}: {released:?}");
    }
    let degrees = values(&graph(directory.path(), ROWS, &["degrees", "--degree-bound", "2"]));
    assert_eq!(
        degrees.iter().map(|count| count.round() as i64).collect::<Vec<_>>(),
        [2, 2, 0, 1, 0, 3, 1, 0, 3, 0, 0, 4]
    );
    assert_eq!(values(&graph(directory.path(), ROWS, &["weights"])).len(), 4 * 6);
    let refused = graph(directory.path(), ROWS, &["degrees", "--workload", "window:2"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_continued_run_equals_an_uninterrupted_one() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (state, part) = (at("state"), at("part.csv"));
    for what in [&["triangles"][..], &["cuts", "--cut", "0,1:", "--cut", "2:3"]] {
        for json in [&[][..], &["--json"]] {
            let whole = graph(directory.path(), ROWS, &[what, json, &["--mu", "1"]].concat());
            let resumed = |rows: &str, until: &str| {
                let storage = ["--mu", "1", "--state", &state, "--output", &part, "--until", until];
                graph(directory.path(), rows, &[what, json, &storage].concat())
            };
            let first: String = ROWS.split_inclusive('\n').take(4).collect();
            assert!(resumed(&first, "2").status.success());
            // A crash loses the end of the last line; it is written again from the state.
            let written = fs::read_to_string(&part).unwrap();
            fs::write(&part, &written[..written.len() - 5]).unwrap();
            // A past that was edited, has an update more or one fewer.
            for rows in [ROWS.replace("0.25", "0.75"), ROWS.replace("1,0,1,0.5\n", "1,0,1,0.5\n1,0,3,1\n")] {
                let edited = resumed(&rows, "4");
                assert_eq!(edited.status.code(), Some(1));
                assert!(
                    text(&edited.stderr).contains("not what this state has used"),
                    "{}",
                    text(&edited.stderr)
                );
            }
            let fewer = resumed(&ROWS.replace("2,0,2,1\n", ""), "4");
            assert!(text(&fewer.stderr).contains("it has used 3"), "{}", text(&fewer.stderr));
            let second = resumed(ROWS, "4");
            assert!(second.status.success(), "{}", text(&second.stderr));
            assert_eq!(fs::read_to_string(&part).unwrap(), text(&whole.stdout));
            // Fewer rows than were used already, or an earlier end, cannot be continued.
            let lost = resumed("step,u,v,weight\n1,0,1,0.5\n", "4");
            assert_eq!(lost.status.code(), Some(1));
            assert_eq!(resumed(ROWS, "3").status.code(), Some(1));
            let other = ["--mu", "1", "--state", &state, "--output", &part, "--degree-bound", "11"];
            let other = graph(directory.path(), ROWS, &[&["triangles"][..], json, &other].concat());
            assert_eq!(other.status.code(), Some(1), "another function is not a continuation");
            // A key without its state would be refused: the state may have been lost.
            for file in fs::read_dir(directory.path()).unwrap() {
                fs::remove_file(file.unwrap().path()).unwrap();
            }
        }
    }
}

#[test]
fn refuses_with_the_place_and_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let cases: [(&str, &[&str], i32, &str); 10] = [
        ("step,u\n1,0\n", &["edges"], 1, "no column `v`"),
        ("step,u,v\n1,0,4\n", &["edges"], 1, "not one of the 4 vertices"),
        ("step,u,v\n1,2,2\n", &["edges"], 1, "itself"),
        ("step,u,v\n2,0,1\n1,0,2\n", &["edges"], 1, "sort the rows"),
        ("step,u,v\n7,0,1\n", &["edges"], 1, "beyond the 6"),
        ("step,u,v,weight\n1,0,1,3\n", &["weights"], 1, "outside [-1, 1]"),
        ("step,u,v,weight\n1,0,1,-1\n", &["edges", "--show-values"], 1, "weight -1"),
        (ROWS, &["edges", "--state", "nowhere"], 2, "--output FILE"),
        (ROWS, &["cuts"], 2, "--cut"),
        (ROWS, &["cuts", "--cut", "0,1:1"], 2, "twice"),
    ];
    for (rows, arguments, code, message) in cases {
        let output = graph(directory.path(), rows, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
    assert_eq!(dp(&["graph", "edges"]).status.code(), Some(2));
}

#[test]
fn draws_releases_and_the_demonstration() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("edges.svg");
    let output = graph(directory.path(), ROWS, &["edges", "--plot", svg.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read_to_string(svg).unwrap().contains("<svg"));
    let demo = dp(&["graph", "--demo", directory.path().to_str().unwrap(), "--json"]);
    assert!(demo.status.success(), "{}", text(&demo.stderr));
    let report: Value = serde_json::from_slice(&demo.stdout).unwrap();
    let error = |name: &str| report[name].as_f64().unwrap();
    assert!(3.0 * error("projected_error") < error("clipped_error"), "{report}");
    assert!(fs::read_to_string(directory.path().join("graph.svg")).unwrap().contains("<svg"));
    assert_eq!(fs::read_to_string(directory.path().join("graph.csv")).unwrap().lines().count(), 2001);
}
