//! The low bits of what is published: nothing to be seen in exact mode, a person to be seen in the idealized one.

use std::fs;

use super::subject::{dp, text};

/// Releases of so many people who all have `value`, one step each, with independent noise of deviation about 1.45.
fn releases(value: &str, people: usize, more: &[&str]) -> Vec<f64> {
    let directory = tempfile::tempdir().unwrap();
    let row = format!("{value}\n");
    let rows: String = std::iter::once("x\n").chain(std::iter::repeat_n(row.as_str(), people)).collect();
    fs::write(directory.path().join("rows.csv"), rows).unwrap();
    let steps = people.to_string();
    let words = [
        "release",
        "--input",
        "rows.csv",
        "--column",
        "x",
        "--bounds",
        "0:1",
        "--relation",
        "zero-out",
        "--steps",
        &steps,
        "--workload",
        "window:1",
        "--strategy",
        "identity",
        "--mu",
        "0.69",
    ];
    let output = dp(directory.path(), &[&words[..], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value = |line: &str| line.split(',').nth(1).unwrap().parse().unwrap();
    text(&output.stdout).lines().skip(1).map(value).collect()
}

/// Of the releases near 0, the share that is a multiple of 2^-53. Noise near -1 has no finer bits, so 1 plus noise always
/// is; noise near 0 has up to ten bits more and rarely is.
fn coarse(releases: &[f64]) -> f64 {
    let near: Vec<&f64> = releases.iter().filter(|release| release.abs() < 0.25).collect();
    assert!(near.len() > 40, "{}", near.len());
    let coarse = near.iter().filter(|release| (**release * 2.0_f64.powi(53)).fract() == 0.0).count();
    coarse as f64 / near.len() as f64
}

/// n = 600 releases each, of which about 80 (absent) and 65 (present) fall near 0. Idealized: a release of an absent person is
/// coarse with probability below 1/4, so that half of 40 or more are with probability below 1e-3; of a present one always.
/// Exact: equally often for both, about 1/4 of the time on the finest lattice; the difference of two such shares has a standard
/// deviation of at most 0.09, so that it exceeds 0.4 with probability below 1e-5, while the idealized mode exceeds 0.5.
#[test]
fn low_bits_betray_the_idealized_mode_and_not_the_default() {
    let (absent, present) = (releases("0", 600, &["--idealized"]), releases("1", 600, &["--idealized"]));
    assert!(coarse(&absent) < 0.5 && coarse(&present) == 1.0, "{} {}", coarse(&absent), coarse(&present));
    let (absent, present) = (releases("0", 600, &[]), releases("1", 600, &[]));
    assert!((coarse(&absent) - coarse(&present)).abs() < 0.4, "{} {}", coarse(&absent), coarse(&present));
}
