//! The standard deviations that are printed are those of the noise that is added.

use std::fmt::Write as _;

use dp_events::{Dashboard, Randomness, Spec};
use dp_tests::description::{self, Description};

/// Nobody comes, so that every published number is its noise; 400 keys have independent noise.
///
/// For each statistic at each of the steps 1 and 12, the mean square of 400 values in units of the printed deviation is 1 up to
/// 4.5 standard errors, `4.5 sqrt(2/400) = 0.32`: twelve looks of a correct dashboard fail with probability below 1e-4, while noise
/// of 2/3 or 3/2 of what is printed gives 0.44 or 2.25.
#[test]
fn printed_deviations_are_those_of_the_noise() {
    for steps in [1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let keys = description::numbered(400);
        let text = Description::of_people("who", 1, steps)
            .approximate(1.0, 1e-6)
            .set("input.time", "\"date\"")
            .days("2026-01-01", "2026-01-24")
            .release(
                "rows",
                &format!(
                    r#"statistics = ["total", "window:7", "step"]
                    by = {{ column = "key", values = {keys} }}"#
                ),
            )
            .to_string();
        std::fs::write(folder.path().join("spec.toml"), text).unwrap();
        std::fs::write(folder.path().join("rows.csv"), "date,who,key\n").unwrap();
        let dashboard = Dashboard::new(Spec::load(&folder.path().join("spec.toml")).unwrap()).unwrap();
        let until = dashboard.spec().calendar.read_instant("2026-01-13").unwrap();
        dashboard.run(until, Randomness::Reproducible(11)).unwrap();
        let table = std::fs::read_to_string(folder.path().join("public").join("rows.csv")).unwrap();
        for step in ["1", "12"] {
            for statistic in ["total", "window:7", "step"] {
                let squares: Vec<f64> = table
                    .lines()
                    .map(|line| line.split(',').collect::<Vec<_>>())
                    .filter(|fields| fields[0] == step && fields[3] == statistic)
                    .map(|fields| {
                        (fields[4].parse::<f64>().unwrap() / fields[5].parse::<f64>().unwrap()).powi(2)
                    })
                    .collect();
                assert_eq!(squares.len(), 400);
                let mean = squares.iter().sum::<f64>() / 400.0;
                assert!(
                    (mean - 1.0).abs() < 0.32,
                    "{steps} steps of a person, {statistic} at step {step}: {mean}"
                );
            }
        }
    }
}

/// The lines of a table of one release, by the names of its columns, as numbers where they are.
fn lines(text: &str, rows: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.toml"), text).unwrap();
    std::fs::write(folder.path().join("rows.csv"), rows).unwrap();
    let dashboard = Dashboard::new(Spec::load(&folder.path().join("spec.toml")).unwrap()).unwrap();
    let until = dashboard.spec().calendar.read_instant("2026-01-09").unwrap();
    dashboard.run(until, Randomness::Reproducible(5)).unwrap();
    let table = std::fs::read_to_string(folder.path().join("public").join("one.csv")).unwrap();
    table.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn description(pure: bool, release: &str, keys: usize) -> String {
    let keys = description::numbered(keys);
    let described = Description::of_events().set("input.time", "\"date\"").days("2026-01-01", "2026-01-08");
    let described = if pure {
        described.unset("privacy.rho").set("privacy.epsilon", "1.0")
    } else {
        described.approximate(1.0, 1e-6)
    };
    described.release("one", &format!("{release}\nby = {{ column = \"key\", values = {keys} }}")).to_string()
}

/// Of so many bands, how many hold the truth.
fn covered(lines: &[Vec<String>], statistic: &str, truth: f64) -> (usize, usize) {
    let mine: Vec<&Vec<String>> =
        lines.iter().filter(|line| line[0] == "8" && line[3] == statistic).collect();
    let number = |text: &str| text.parse::<f64>().unwrap();
    let holds = |line: &&&Vec<String>| number(&line[6]) <= truth && truth <= number(&line[7]);
    (mine.iter().filter(holds).count(), mine.len())
}

/// Bands hold the number without noise with 95 %. Of n = 2000 keys nobody comes to, each with noise of its own, the bands of total,
/// step and range after 8 steps hold 0 in `1900 ± 4.5 √(2000·0.05·0.95) = 1900 ± 44` cases (α = 7e-6 for each of three looks): a band that
/// is 3/2 as wide as it should be holds 1993, one of 2/3 holds 1618. Sums of Laplace noise have lighter tails than the single value
/// from which their band comes, so that with a pure ε only the lower limit holds.
#[test]
fn bands_hold_what_they_say() {
    let counts = "statistics = [\"total\", \"step\"]";
    let ranges =
        "value = { column = \"value\", bounds = [0, 15], resolution = 1 }\nstatistics = [\"range:3:9\"]";
    for (pure, release, statistics) in [
        (false, counts, &["total", "step"][..]),
        (false, ranges, &["range:3:9"]),
        (true, counts, &["total", "step"]),
    ] {
        let lines = lines(&description(pure, release, 2000), "date,key,value\n");
        for statistic in statistics {
            let (held, all) = covered(&lines, statistic, 0.0);
            assert_eq!(all, 2000);
            assert!(held >= 1856 && (held <= 1944 || pure), "{pure} {statistic}: {held}");
        }
    }
}

/// Means and quantiles of known values: every one of 300 keys has the values 0 to 15, twenty times each. The band of a mean (Fieller)
/// and that of a quantile (which takes the least certain rank for all) hold the truth in at least
/// `0.95·300 - 4.5 √(300·0.05·0.95) = 268` cases, and their middle is near it; bands of half the width would hold about 201 means.
#[test]
fn bands_of_means_and_quantiles_hold_the_truth() {
    let mut rows = String::from("date,key,value\n");
    for key in 0..300 {
        for row in 0..320 {
            let _ = writeln!(rows, "2026-01-0{},k{key},{}", 1 + row % 8, row % 16);
        }
    }
    let value = "value = { column = \"value\", bounds = [0, 15], resolution = 1 }";
    for (statistic, truth) in [("mean", 7.5), ("quantile:0.55", 8.0)] {
        let release = format!("{value}\nstatistics = [\"{statistic}\"]");
        let lines = lines(&description(false, &release, 300), &rows);
        let (held, all) = covered(&lines, statistic, truth);
        assert!(all == 300 && held >= 268, "{statistic}: {held} of {all}");
        let narrow = lines
            .iter()
            .filter(|line| line[0] == "8")
            .all(|line| line[7].parse::<f64>().unwrap() - line[6].parse::<f64>().unwrap() < 13.0);
        assert!(narrow, "{statistic}: a band that says nothing holds everything");
    }
}
