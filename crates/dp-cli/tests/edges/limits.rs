//! What cannot fit or cannot end is refused with its number, before anything is allocated or released.

use std::fs;

use super::subject::{dp, text};

const COMMON: [&str; 8] = ["--input", "rows.csv", "--relation", "zero-out", "--mu", "1", "--output", "out"];

#[test]
fn what_cannot_fit_is_refused_with_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("rows.csv"), "x,step,u,v\na,1,0,1\n").unwrap();
    let graph = ["--vertices", "4", "--steps", "4", "--strategy", "sqrt"];
    let letters = ["--column", "x", "--steps", "4", "--strategy", "sqrt"];
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (
            [&["graph", "degrees", "--degree-bound", "9223372036854775807"], &graph[..]].concat(),
            "922337203685477",
        ),
        ([&["graph", "degrees", "--degree-bound", "1000000000000"], &graph[..]].concat(), "1000000000000"),
        (
            vec!["graph", "weights", "--vertices", "100000", "--steps", "4", "--strategy", "sqrt"],
            "4999950000",
        ),
        (
            vec!["graph", "weights", "--vertices", "5000", "--steps", "1000000", "--strategy", "sqrt"],
            "12497500",
        ),
        (
            [&["graph", "stars", "--leaves", "40", "--degree-bound", "4294967296"], &graph[..]].concat(),
            "4294967296",
        ),
        (
            [&["substrings", "--alphabet", "a", "--length", "9007199254740992"], &letters[..]].concat(),
            "9007199254740992",
        ),
        (
            [&["substrings", "--alphabet", "ab", "--length", "4000000000"], &letters[..]].concat(),
            "4000000000",
        ),
        ([&["episodes", "--alphabet", "a", "--length", "67108864"], &letters[..]].concat(), "67108864"),
        ([&["episodes", "--alphabet", "abcdefghij", "--length", "8"], &letters[..]].concat(), "111111110"),
        ([&["histogram", "--integers", "0:999999999999"], &letters[..]].concat(), "1000000000000"),
    ];
    for (words, number) in cases {
        let output = dp(at, &[&words[..], &COMMON].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        assert!(message.contains(number), "{words:?}: {message}");
        assert!(!at.join("out").exists(), "{words:?}");
    }
}

#[test]
fn large_numbers_that_mean_no_more_than_small_ones_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("rows.csv"), "x,step,u,v\na,1,0,1\n").unwrap();
    let graph = ["--vertices", "4", "--steps", "4", "--strategy", "sqrt"];
    for words in [
        [
            &["histogram", "--integers", "0:9", "--top", "9223372036854775807", "--bad-rows", "drop"][..],
            &["--column", "x", "--steps", "4", "--strategy", "sqrt"],
        ]
        .concat(),
        [&["graph", "stars", "--degree-bound", "4294967296"], &graph[..]].concat(),
        [&["graph", "stars", "--leaves", "1", "--degree-bound", "18446744073709551615"], &graph[..]].concat(),
        [&["graph", "triangles", "--degree-bound", "4294967296"], &graph[..]].concat(),
        [&["graph", "high-degree", "--threshold", "18446744073709551615"], &graph[..]].concat(),
    ] {
        let output = dp(at, &[&words[..], &COMMON, &["--overwrite"]].concat());
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn budgets_that_promise_nothing_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("rows.csv"), "x\n1\n").unwrap();
    for delta in ["1e-6", "0"] {
        let words =
            ["release", "--input", "rows.csv", "--column", "x", "--steps", "4", "--workload", "count"];
        let budget = [
            "--bounds",
            "0:1",
            "--relation",
            "zero-out",
            "--epsilon",
            "1e300",
            "--delta",
            delta,
            "--strategy",
            "sqrt",
        ];
        let output = dp(directory.path(), &[&words[..], &budget].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("1e300"), "{}", text(&output.stderr));
    }
}

#[test]
fn bounds_beyond_what_sums_can_hold_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("rows.csv"), "x\n1\n").unwrap();
    for bounds in ["0:1e308", "-1e200:0"] {
        let words = ["release", "--column", "x", "--steps", "4", "--workload", "count", "--bounds", bounds];
        let output = dp(directory.path(), &[&words[..], &COMMON].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("1e100"), "{}", text(&output.stderr));
    }
}

/// A quote that is never closed makes one field of all that follows.
#[test]
fn a_field_without_an_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut rows = b"x\n1\n\"".to_vec();
    rows.resize(40 << 20, b'a');
    fs::write(directory.path().join("rows.csv"), rows).unwrap();
    let words = ["release", "--column", "x", "--steps", "4", "--workload", "count", "--bounds", "0:1"];
    let output = dp(directory.path(), &[&words[..], &COMMON, &["--strategy", "sqrt"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("line 3") && message.contains("16777216"), "{message}");
    assert_eq!(fs::read_to_string(directory.path().join("out")).unwrap().lines().count(), 2);
}

#[test]
fn a_plot_of_many_rows_fits_a_screen_and_short_axes_have_different_labels() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let words =
        ["release", "--column", "x", "--workload", "count", "--bounds", "0:1", "--strategy", "identity"];
    for (rows, size) in [(100_000, 600_000), (5, 600_000)] {
        let text_rows: String = std::iter::once("x\n").chain(std::iter::repeat_n("1\n", rows)).collect();
        fs::write(at.join("rows.csv"), text_rows).unwrap();
        let steps = rows.to_string();
        let more = ["--steps", steps.as_str(), "--plot", "plot.svg", "--overwrite"];
        let output = dp(at, &[&words[..], &COMMON, &more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let svg = fs::read_to_string(at.join("plot.svg")).unwrap();
        assert!(svg.len() < size, "{rows}: {}", svg.len());
        // The labels of the horizontal axis stand at the bottom, in the middle of their ticks.
        let labels: Vec<&str> = svg
            .split("<text ")
            .filter(|label| label.contains("text-anchor=\"middle\"") && label.contains("dy=\"0.76em\""))
            .filter_map(|label| label.split('>').nth(1)?.split('<').next().map(str::trim))
            .filter(|label| label.parse::<f64>().is_ok())
            .collect();
        let mut different = labels.clone();
        different.sort_unstable();
        different.dedup();
        assert!(labels.len() >= 3 && different.len() == labels.len(), "{rows}: {labels:?}");
    }
}
