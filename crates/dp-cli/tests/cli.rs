//! The command line as its users meet it: what it prints, what it refuses, and what survives when it is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

fn dp(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dp")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dp"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The process may refuse its arguments and never read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn close(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value / expected - 1.0).abs() < 1e-9)
}

/// The arguments of a release, with some replaced or added.
fn release<'a>(changes: &[(&'a str, &'a str)]) -> Vec<&'a str> {
    let mut options: Vec<(&str, &str)> = vec![
        ("--input", "-"),
        ("--column", "value"),
        ("--bounds", "0:1"),
        ("--relation", "zero-out"),
        ("--steps", "8"),
        ("--workload", "count"),
        ("--strategy", "sqrt"),
        ("--epsilon", "1"),
        ("--delta", "1e-6"),
        ("--reproducible-seed", "7"),
    ];
    for change in changes {
        match options.iter_mut().find(|option| option.0 == change.0) {
            Some(option) => *option = *change,
            None => options.push(*change),
        }
    }
    let words = options.iter().flat_map(|(name, value)| [*name, *value]).filter(|word| !word.is_empty());
    std::iter::once("release").chain(words).collect()
}

/// Lines of either format as step → release.
fn releases(output: &str) -> BTreeMap<usize, String> {
    output
        .lines()
        .filter(|line| !line.starts_with("step"))
        .map(|line| {
            if line.starts_with('{') {
                let object: Value = serde_json::from_str(line).unwrap();
                return (object["step"].as_u64().unwrap() as usize, object["release"].to_string());
            }
            let mut fields = line.split(',');
            (fields.next().unwrap().parse().unwrap(), fields.next().unwrap().to_owned())
        })
        .collect()
}

fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

#[test]
fn help_names_every_command_and_the_version_is_printed() {
    let help = text(&dp(&["--help"]).stdout);
    for command in ["plan", "calibrate", "release", "demo"] {
        assert!(help.contains(command), "{help}");
        assert!(dp(&[command, "--help"]).status.success());
    }
    assert!(text(&dp(&["--version"]).stdout).starts_with("dp "));
}

#[test]
fn calibration_is_the_exact_one() {
    let found = json(&dp(&["calibrate", "--epsilon", "1", "--delta", "1e-6", "--json"]));
    assert!(close(&found["mu"], 0.236_704_380_663_435_72), "{found}");
    assert!(close(&found["sigma"], 1.0 / 0.236_704_380_663_435_72), "{found}");
    assert!(close(&found["rho_equivalent"], 0.236_704_380_663_435_72_f64.powi(2) / 2.0), "{found}");
    let found = json(&dp(&["calibrate", "--rho", "0.5", "--json"]));
    assert!(close(&found["mu"], 1.0) && close(&found["sigma"], 1.0), "{found}");
    assert!(text(&dp(&["calibrate", "--mu", "2"]).stdout).contains("0.5"));
}

/// Every way in leads to every way out, and several releases add up in squares: 0.3² + 0.4² = 0.5². The pair (ε, δ) of
/// μ = 0.5 was computed with fifty digits in mpmath.
#[test]
fn calibration_converts_in_every_direction_and_composes() {
    let ask = |words: &[&str]| {
        json(&dp(&[&["calibrate", "--json", "--at-delta", "1e-6", "--at-epsilon", "1"], words].concat()))
    };
    for (parts, words) in [
        (1, &["--mu", "0.5"][..]),
        (1, &["--rho", "0.125"]),
        (1, &["--sigma", "2"]),
        (1, &["--sigma", "20", "--change", "10"]),
        (1, &["--epsilon", "2.254084650219741", "--delta", "1e-6"]),
        (2, &["--mu", "0.3", "--mu", "0.4"]),
        (2, &["--mu", "0.3", "--sigma", "2.5"]),
        (3, &["--rho", "0.045", "--rho", "0.04", "--sigma", "3.535533905932738", "--change", "1"]),
    ] {
        let found = ask(words);
        assert_eq!(found["parts"], parts, "{words:?}: {found}");
        assert!(close(&found["mu"], 0.5) && close(&found["rho_equivalent"], 0.125), "{words:?}: {found}");
        let change = found["change"].as_f64().unwrap();
        assert!(close(&found["sigma"], 2.0 * change), "{words:?}: {found}");
        let curve = &found["curve"];
        assert!(close(&curve[0]["epsilon"], 2.254_084_650_219_741), "{words:?}: {found}");
        assert!(close(&curve[1]["delta"], 0.006_829_594_983_114_575), "{words:?}: {found}");
    }
    let words = text(&dp(&["calibrate", "--mu", "0.3", "--mu", "0.4"]).stdout);
    assert!(words.contains("2 releases together") && words.contains("0.500000"), "{words}");
}

#[test]
fn several_statistics_are_planned_together_and_compared_with_a_split_budget() {
    let three =
        ["plan", "--workload", "total", "--workload", "window:7", "--workload", "step", "--steps", "256"];
    let arguments =
        |more: &[&'static str]| three.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    let found = json(&dp(&arguments(&["--strategy", "optimal", "--json"])));
    // An independent solution of the dense program, to four digits.
    for (index, (name, above)) in [("count", 1.384), ("window:7", 1.353), ("step", 1.525)].iter().enumerate()
    {
        let one = &found["joint"]["statistics"][index];
        assert_eq!(one["workload"], *name);
        assert!((one["above_alone"].as_f64().unwrap() - above).abs() < 6e-4, "{one}");
        assert!((one["split"].as_f64().unwrap() / one["alone"].as_f64().unwrap() - 3.0).abs() < 1e-12);
    }
    assert!(found["joint"]["gap"].as_f64().unwrap() < 2e-6);
    let shown = dp(&arguments(&["--strategy", "sqrt", "--mu", "1"]));
    let shown = text(&shown.stdout);
    for part in ["count + window:7 + step", "times alone", "split budget", "typical deviation"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_refused(&dp(&arguments(&["--weights", "1,2"])), 2, &["2 numbers for 3 statistics"]);
    assert_refused(&dp(&arguments(&["--weights", "1,2,0"])), 2, &["weight of a statistic"]);
}

#[test]
fn account_prints_epsilon_and_noise_with_what_is_unknown() {
    let sampled = ["--sampling-rate", "0.01", "--steps", "1000", "--delta", "1e-5", "--json"];
    let found = json(&dp(&[&["account", "--noise-multiplier", "1"][..], &sampled].concat()));
    let (upper, lower) = (found["epsilon"].as_f64().unwrap(), found["epsilon_lower"].as_f64().unwrap());
    // By another accountant on a fine grid: 1.8282.
    assert!(lower < 1.8282 && 1.8279 < upper && upper < 1.001 * lower, "{found}");
    let found = json(&dp(&[&["account", "--epsilon", "2"][..], &sampled].concat()));
    let noise = found["noise_multiplier"].as_f64().unwrap();
    assert!(
        found["noise_multiplier_lower"].as_f64().unwrap() < noise && (0.95..0.97).contains(&noise),
        "{found}"
    );
    assert!(found["epsilon"].as_f64().unwrap() <= 2.0);
    // Without sampling, the exact curve.
    let found = json(&dp(&["account", "--noise-multiplier", "1", "--delta", "1e-5", "--json"]));
    assert!((found["epsilon"].as_f64().unwrap() - 4.377_178_095_681).abs() < 1e-9);
    let table = text(&dp(&["account", "--noise-multiplier", "1", "--delta", "1e-5"]).stdout);
    assert!(table.contains("4.377178") && table.contains("add or remove one person"), "{table}");
}

#[test]
fn plans_print_the_known_errors() {
    let found = json(&dp(&["plan", "--workload", "count", "--steps", "512", "--mu", "0.5", "--json"]));
    assert_eq!(found["workload"], "count");
    assert_eq!(found["steps"], 512);
    let strategies = found["strategies"].as_array().unwrap();
    assert_eq!(found["chosen"], strategies[0]["name"]);
    let of = |name: &str| strategies.iter().find(|entry| entry["name"] == name).unwrap();
    // The dense optimum at 512 steps is 7.504; square root and normalized square root are 8.347 and 7.695.
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 6e-4;
    assert!(near(&of("sqrt")["mse"], 8.347) && near(&of("normalized-sqrt")["mse"], 7.695), "{found}");
    assert!(near(&of("binary-tree")["sensitivity_squared"], 10.0));
    let bound = found["lower_bound"]["mse"].as_f64().unwrap();
    assert!(bound > 7.0 && bound < 7.5045 && found["lower_bound"]["kind"].is_string(), "{bound}");
    for entry in strategies {
        for key in ["sensitivity_squared", "mse", "max_se", "gap", "standard_deviation"] {
            assert!(entry[key].as_f64().is_some_and(f64::is_finite), "{key}: {entry}");
        }
        assert!(close(&entry["gap"], entry["mse"].as_f64().unwrap() / bound - 1.0), "{entry}");
    }
    let alone =
        json(&dp(&["plan", "--workload", "window:4", "--steps", "32", "--strategy", "sqrt", "--json"]));
    assert_eq!(alone["strategies"].as_array().unwrap().len(), 1);
    let table = dp(&["plan", "--workload", "average", "--steps", "64", "--metric", "max"]);
    assert!(
        table.status.success() && text(&table.stdout).contains("best: identity"),
        "{}",
        text(&table.stdout)
    );
    assert_refused(&dp(&["plan", "--workload", "count", "--steps", "8", "--strategy", "x"]), 2, &["`x`"]);
}

#[test]
fn pure_epsilon_is_planned_in_the_absolute_norm() {
    let report = json(&dp(&["plan", "--workload", "count", "--steps", "1024", "--epsilon", "1", "--json"]));
    assert_eq!(report["chosen"], "weighted-tree");
    let best = &report["strategies"][0];
    let mean = best["mse"].as_f64().unwrap();
    assert!(mean < 105.0 && mean > 101.0, "{mean}");
    let deviation = best["standard_deviation"].as_f64().unwrap();
    assert!((deviation - (2.0 * mean).sqrt()).abs() < 6e-4, "{deviation} {mean}");
    assert!(report["lower_bound"]["mse"].as_f64().unwrap() < mean);
}

#[test]
fn plans_with_sampling_compare_numbers_of_bands() {
    let request = ["plan", "--workload", "count", "--steps", "256", "--sampling-rate", "0.03125"];
    let budget = ["--epsilon", "2", "--delta", "1e-6"];
    let found = json(&dp(&[&request[..], &budget, &["--json"]].concat()));
    let rows = found["bands"].as_array().unwrap();
    let bands: Vec<u64> = rows.iter().map(|row| row["bands"].as_u64().unwrap()).collect();
    assert_eq!(bands, [1, 2, 4, 8, 16, 32]);
    let deviation = |row: &Value| row["standard_deviation"].as_f64().unwrap();
    let best = rows.iter().min_by(|a, b| deviation(a).total_cmp(&deviation(b))).unwrap();
    assert_eq!(found["chosen"], best["bands"]);
    assert!(deviation(best) < deviation(&rows[0]), "{found}");
    let table = dp(&[&request[..], &budget].concat());
    assert!(text(&table.stdout).contains("best:"), "{}", text(&table.stdout));
    assert_refused(&dp(&request), 2, &["--epsilon"]);
    let bad = ["plan", "--workload", "count", "--steps", "8", "--sampling-rate", "2"];
    assert_refused(&dp(&[&bad[..], &budget].concat()), 2, &["sampling rate"]);
}

#[test]
fn bad_budgets_are_usage_errors() {
    for arguments in [
        &["calibrate"][..],
        &["account", "--delta", "1e-5"],
        &["account", "--noise-multiplier", "1", "--epsilon", "1", "--delta", "1e-5"],
        &["account", "--noise-multiplier", "0", "--delta", "1e-5"],
        &["account", "--noise-multiplier", "1", "--delta", "1"],
        &["account", "--noise-multiplier", "1", "--sampling-rate", "1.5", "--delta", "1e-5"],
        &["account", "--noise-multiplier", "1", "--sampling-rate", "nan", "--delta", "1e-5"],
        &["account", "--noise-multiplier", "1", "--steps", "0", "--delta", "1e-5"],
        &["account", "--epsilon", "-1", "--delta", "1e-5"],
        &["calibrate", "--epsilon", "1"],
        &["calibrate", "--epsilon", "-1", "--delta", "0.1"],
        &["calibrate", "--epsilon", "nan", "--delta", "0.1"],
        &["calibrate", "--epsilon", "1", "--delta", "0"],
        &["calibrate", "--epsilon", "1", "--delta", "1"],
        &["calibrate", "--rho", "0"],
        &["calibrate", "--mu", "inf"],
        &["calibrate", "--mu", "1", "--epsilon", "1"],
        &["calibrate", "--sigma", "0"],
        &["calibrate", "--mu", "1", "--at-delta", "0"],
        &["calibrate", "--mu", "1", "--at-epsilon", "-1"],
        &["calibrate", "--sigma", "1", "--change", "nan"],
        &["calibrate", "--mu", "much"],
    ] {
        assert_refused(&dp(arguments), 2, &["error"]);
    }
}

#[test]
fn a_release_says_what_its_noise_is() {
    let output = with_input(&[release(&[]), vec!["--band"]].concat(), "value,other\n1,x\n0,y\n1,z\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "step,release,standard_deviation,low,high");
    assert_eq!(lines.len(), 4);
    // The first row of the square root is 1, and Δ² = Σ_{k<8} (C(2k,k)/4^k)².
    let mut coefficient = 1.0_f64;
    let mut squared = 1.0;
    for k in 1..8 {
        coefficient *= 1.0 - 1.0 / (2.0 * f64::from(k));
        squared += coefficient * coefficient;
    }
    let sigma = f64::sqrt(squared) / 0.236_704_380_663_435_72;
    let deviation: f64 = lines[1].split(',').nth(2).unwrap().parse().unwrap();
    assert!((deviation / sigma - 1.0).abs() < 1e-9, "{deviation} {sigma}");
    let again =
        with_input(&[release(&[]), vec!["--json", "--band"]].concat(), "value,other\n1,x\n0,y\n1,z\n");
    for (line, csv) in text(&again.stdout).lines().zip(&lines[1..]) {
        let object: Value = serde_json::from_str(line).unwrap();
        let fields: Vec<f64> = csv.split(',').map(|field| field.parse().unwrap()).collect();
        assert_eq!(object["step"].as_f64().unwrap(), fields[0]);
        assert_eq!(object["release"].as_f64().unwrap(), fields[1]);
        assert_eq!(object["standard_deviation"].as_f64().unwrap(), fields[2]);
        // 95 % of Gaussian noise, Φ(1.959964) = 0.975.
        for (name, place, sign) in [("low", 3, -1.0), ("high", 4, 1.0)] {
            assert_eq!(object[name].as_f64().unwrap(), fields[place]);
            assert!((fields[place] - fields[1] - sign * 1.959_964 * fields[2]).abs() < 1e-5 * fields[2]);
        }
    }
}

/// A row of many people of whom one changes it by 1: the noise is that of one person, however far the bounds reach, and the words
/// say so.
#[test]
fn what_one_person_changes_is_apart_from_what_a_row_may_be() {
    let deviation = |output: &Output| -> f64 {
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().nth(1).unwrap().split(',').nth(2).unwrap().parse().unwrap()
    };
    let rows = "value\n1\n0\n1\n";
    let one = deviation(&with_input(&release(&[]), rows));
    let many = with_input(&release(&[("--bounds", "0:5000"), ("--change", "1")]), "value\n140\n3000\n77\n");
    assert!((deviation(&many) / one - 1.0).abs() < 1e-9, "{} {one}", deviation(&many));
    assert!(text(&many.stderr).contains("changes its value by at most 1: that he or she is there at all"));
    let wide = deviation(&with_input(&release(&[("--bounds", "0:5000")]), rows));
    assert!((wide / one / 5000.0 - 1.0).abs() < 1e-9, "{wide} {one}");
    for change in ["0", "-1", "nan", "5001"] {
        let refused = with_input(&release(&[("--bounds", "0:5000"), ("--change", change)]), rows);
        assert_refused(&refused, 2, &["what one person can change"]);
    }
    // Whoever meets the bounds first is told.
    let outside = with_input(&release(&[]), "value\n140\n");
    assert_refused(&outside, 1, &["line 2", "outside the bounds 0:1", "give --change"]);
}

/// Several statistics of one noise: each has the deviation of the joint plan, all follow from the same noisy numbers, and a run
/// that is continued comes out as one that was not interrupted.
#[test]
fn several_statistics_are_read_off_one_noise() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let rows: Vec<String> = (0..8).map(|row| format!("{}", row % 2)).collect();
    std::fs::write(at("rows.csv"), format!("value\n{}\n", rows.join("\n"))).unwrap();
    std::fs::write(at("five.csv"), format!("value\n{}\n", rows[..5].join("\n"))).unwrap();
    let more = ["--workload", "window:3", "--workload", "step"];
    let run = |input: &str, state: &str, output: &str| {
        let (input, state, output) = (at(input), at(state), at(output));
        let words = release(&[("--input", &input), ("--strategy", "auto"), ("--grid", "1")]);
        let kept = ["--state", &state, "--output", &output];
        dp(&[&words[..], &more, &kept].concat())
    };
    for (input, state, output) in [
        ("rows.csv", "whole", "whole.csv"),
        ("five.csv", "parts", "parts.csv"),
        ("rows.csv", "parts", "parts.csv"),
    ] {
        let done = run(input, state, output);
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    let table = std::fs::read_to_string(at("whole.csv")).unwrap();
    assert_eq!(table, std::fs::read_to_string(at("parts.csv")).unwrap());
    let lines: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 24);
    let value = |line: &[&str]| line[2].parse::<f64>().unwrap();
    let steps: Vec<f64> = lines.iter().filter(|line| line[1] == "step").map(|line| value(line)).collect();
    for step in 0..8 {
        // Rounded to whole numbers, each by itself.
        let sum = |from: usize| steps[from..=step].iter().sum::<f64>();
        for (name, from) in [("count", 0), ("window:3", step.saturating_sub(2))] {
            let line =
                lines.iter().find(|line| line[0] == (step + 1).to_string() && line[1] == name).unwrap();
            let rounding = 0.5 * (step - from + 2) as f64;
            assert!((value(line) - sum(from)).abs() <= rounding, "{line:?}: {}", sum(from));
        }
    }
    // The state belongs to these statistics.
    let (input, state, output) = (at("rows.csv"), at("parts"), at("parts.csv"));
    let words = release(&[("--input", &input), ("--strategy", "auto"), ("--grid", "1"), ("--state", &state)]);
    let refused =
        dp(&[&words[..], &["--workload", "window:2", "--workload", "step", "--output", &output]].concat());
    assert!(!refused.status.success(), "{}", text(&refused.stdout));
}

#[test]
fn secret_noise_differs_between_runs() {
    let arguments = release(&[("--reproducible-seed", "")]);
    let arguments: Vec<&str> =
        arguments.into_iter().filter(|argument| *argument != "--reproducible-seed").collect();
    // One release is a multiple of 2^-16, and two are equal one time in a million; eight never are.
    let run = || text(&with_input(&arguments, "value\n1\n0\n1\n0\n1\n0\n1\n0\n").stdout);
    assert_ne!(run(), run());
}

#[test]
fn bad_rows_are_named_and_leave_the_releases_before_them() {
    for (input, words, released) in [
        ("", &["empty", "header"][..], 0),
        ("other\n1\n", &["no column `value`", "other"], 0),
        ("value,other\n1,a\n1\n", &["line 3", "1 fields", "correct the row"], 1),
        ("value\n1\n0\nlots\n1\n", &["line 4", "column `value`", "not a number"], 2),
        ("value\n1\nNaN\n", &["line 3", "finite"], 1),
        ("value\ninf\n", &["line 2", "finite"], 0),
        ("value,other\n,3\n", &["line 2", "not a number"], 0),
        ("value\n0.5\n1.625\n", &["line 3", "0:1", "--bad-rows"], 1),
        ("value\n1\n1\n1\n1\n1\n1\n1\n1\n1\n", &["line 10", "all 8 planned steps"], 8),
    ] {
        let output = with_input(&release(&[]), input);
        assert_refused(&output, 1, words);
        assert_eq!(text(&output.stdout).lines().skip(1).count(), released, "{input:?}");
        // Whose value it is stays with whoever asks for it.
        let values = ["lots", "NaN", "`inf`", "1.625"].map(|value| text(&output.stderr).contains(value));
        assert_eq!(values, [false; 4], "{}", text(&output.stderr));
    }
    let shown = with_input(&[release(&[]), vec!["--show-values"]].concat(), "value\n1.625\n");
    assert_refused(&shown, 1, &["line 2", "1.625"]);
    let run = |policy, rows: &str| {
        with_input(&[release(&[]), vec!["--bad-rows", policy]].concat(), &format!("value,other\n{rows}"))
    };
    let exact = run("refuse", "0.5,x\n1,x\n0,x\n0,x\n0,x\n");
    let clamped = run("clamp", "0.5,x\n1.5,x\n-3,x\nmany,x\n1\n");
    assert!(clamped.status.success(), "{}", text(&clamped.stderr));
    assert_eq!(clamped.stdout, exact.stdout);
    let dropped = run("drop", "0.5,x\n1,x\n1.5,x\n\"\",x\n1,x,y\n");
    assert!(dropped.status.success(), "{}", text(&dropped.stderr));
    assert_eq!(
        (dropped.stdout, dropped.stderr),
        (exact.stdout, exact.stderr),
        "a dropped row leaves no trace"
    );
}

#[test]
fn requests_that_make_no_sense_are_usage_errors() {
    for (change, words) in [
        (("--bounds", "1"), &["LO:HI"][..]),
        (("--bounds", "2:1"), &["bounds"]),
        (("--bounds", "0:0"), &["change"]),
        (("--bounds", "0:nan"), &["bounds"]),
        (("--relation", "swap"), &["zero-out or replace"]),
        (("--steps", "0"), &["integer from 1"]),
        (("--steps", "99999999999999"), &["integer from 1"]),
        (("--workload", "median"), &["`median`", "window:W"]),
        (("--workload", "window:0"), &["width"]),
        (("--strategy", "magic"), &["`magic`"]),
        (("--participation", "3"), &["TIMES:SEPARATION"]),
        (("--participation", "0:1"), &["at least 1"]),
    ] {
        assert_refused(&with_input(&release(&[change]), "value\n1\n"), 2, words);
    }
    assert_refused(&dp(&release(&[("--input", "no such file")])), 1, &["no such file"]);
    assert_refused(
        &with_input(&release(&[("--workload", "weights:no such file")]), ""),
        1,
        &["no such file"],
    );
}

#[test]
fn weights_come_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weights");
    fs::write(&path, "1\n0.5\n\n0.25\n").unwrap();
    let workload = format!("weights:{}", path.display());
    let output = with_input(&release(&[("--workload", &workload)]), "value\n1\n1\n1\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::write(&path, "1\nhalf\n").unwrap();
    assert_refused(
        &with_input(&release(&[("--workload", &workload)]), "value\n1\n"),
        1,
        &["line 2", "`half`", "one weight per line"],
    );
}

/// A directory with an input of `rows` rows.
fn workspace(rows: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut input = "value\n".to_owned();
    for row in 0..rows {
        input.push_str(if row % 3 == 0 { "1\n" } else { "0.25\n" });
    }
    fs::write(directory.path().join("input.csv"), input).unwrap();
    directory
}

fn in_directory(directory: &Path, changes: &[(&str, &str)]) -> Command {
    let mut all = vec![("--input", "input.csv"), ("--state", "state"), ("--output", "output.csv")];
    all.extend_from_slice(changes);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(release(&all)).current_dir(directory).stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_default()
}

#[test]
fn killed_at_any_point_a_release_continues_and_never_contradicts_itself() {
    const ROWS: usize = 240;
    let steps = ROWS.to_string();
    let mut all_kills = 0;
    // Delays in milliseconds, spread so that kills fall before, into and between the writes.
    for (group, format, delays) in [
        ("1", &[][..], [3, 11, 23, 7, 31]),
        ("7", &[], [2, 5, 9, 14, 4]),
        ("3", &["--json"], [2, 8, 13, 5, 21]),
        ("5", &["--grid", "0.25"], [2, 8, 13, 5, 21]),
        ("5", &["--idealized"], [2, 8, 13, 5, 21]),
    ] {
        let whole = workspace(ROWS);
        let status = in_directory(whole.path(), &[("--steps", &steps)]).args(format).status().unwrap();
        assert!(status.success());
        let whole = read(whole.path(), "output.csv");
        assert_eq!(releases(&whole).len(), ROWS);
        let directory = workspace(ROWS);
        let mut seen: BTreeMap<usize, String> = BTreeMap::new();
        let mut kills = 0;
        for attempt in 0.. {
            let mut command = in_directory(directory.path(), &[("--steps", &steps), ("--group", group)]);
            let mut child = command.args(format).spawn().unwrap();
            // At once, which no run survives; then longer and longer, so that a slow machine gets to the end as well.
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(
                    delays[attempt % delays.len()] * (1 + attempt as u64 / 20),
                ));
            }
            let finished = child.try_wait().unwrap();
            child.kill().unwrap();
            let status = child.wait().unwrap();
            let mut message = String::new();
            child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
            let output = read(directory.path(), "output.csv");
            let complete = &output[..output.rfind('\n').map_or(0, |last| last + 1)];
            for (step, release) in releases(complete) {
                let earlier = seen.entry(step).or_insert_with(|| release.clone());
                assert_eq!(*earlier, release, "step {step} was answered twice");
            }
            if finished.is_some() {
                assert!(status.success(), "{message}");
                break;
            }
            kills += 1;
            // Now and then a line is torn as well, as by a power failure.
            if attempt % 4 == 0 && complete.len() > 40 {
                fs::write(directory.path().join("output.csv"), format!("{complete}17,0.12")).unwrap();
            }
        }
        assert_eq!(read(directory.path(), "output.csv"), whole, "group {group}, after {kills} kills");
        all_kills += kills;
    }
    assert!(all_kills > 0, "no run was interrupted");
}

#[test]
fn exact_releases_are_integers_over_a_power_of_two_and_serve_pure_budgets() {
    let input = "value\n1\n0\n1\n";
    for (delta, strategy) in [("1e-6", "identity"), ("0", "identity"), ("0", "auto"), ("1e-6", "auto")] {
        let mut arguments = release(&[("--strategy", strategy), ("--delta", delta)]);
        arguments.extend(["--grid", "1"]);
        let output = with_input(&arguments, input);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines = releases(&text(&output.stdout));
        assert_eq!(lines.len(), 3);
        if strategy == "identity" {
            // 40 bits below the unit.
            let first: f64 = lines[&1].parse().unwrap();
            assert_eq!((first * 2.0_f64.powi(40)).fract(), 0.0);
        }
    }
    let refused = |changes: &[(&str, &str)], more: &[&str]| {
        let mut arguments = release(changes);
        arguments.extend(more);
        let output = with_input(&arguments, input);
        assert!(!output.status.success() && output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(refused(&[("--delta", "0")], &["--idealized"]).contains("delta"));
    assert!(refused(&[], &["--idealized", "--grid", "1"]).contains("--idealized"));
    assert!(refused(&[], &["--grid", "-1"]).contains("grid"));
    assert!(refused(&[], &["--grid", "1e-30"]).contains("grid"));
    assert!(refused(&[("--strategy", "honaker-full")], &[]).contains("honaker-online"));
}

#[test]
fn a_pipe_continues_with_new_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (state, output) = (directory.path().join("state"), directory.path().join("output.csv"));
    let (state, output) = (state.to_str().unwrap(), output.to_str().unwrap());
    let run = |from: &str, input: &str| {
        with_input(&release(&[("--state", state), ("--output", output), ("--from-row", from)]), input)
    };
    let first = run("1", "value\n1\n0\n");
    assert!(first.status.success(), "{}", text(&first.stderr));
    let whole = with_input(&release(&[]), "value\n1\n0\n1\n");
    // The same pipe once more without a word about where it begins, or with a wrong one, would count everybody twice.
    let silent = with_input(&release(&[("--state", state), ("--output", output)]), "value\n1\n0\n");
    assert_refused(&silent, 2, &["--from-row"]);
    for from in ["2", "4"] {
        assert_refused(&run(from, "value\n1\n"), 1, &["used 2 rows", "--from-row 3"]);
    }
    assert_refused(&run("1", "value\n1\n1\n1\n"), 1, &["row 2 is", "not what this state has used"]);
    assert!(run("1", "value\n1\n0\n").status.success(), "the same rows again change nothing");
    assert!(run("3", "value\n1\n").status.success());
    assert_eq!(releases(&fs::read_to_string(output).unwrap()), releases(&text(&whole.stdout)));
    // A reader that closes early would lose steps for good.
    let lost = with_input(&release(&[("--state", state), ("--from-row", "1")]), "value\n");
    assert_refused(&lost, 2, &["--output FILE"]);
}

#[test]
fn a_stream_of_unknown_length_continues_across_its_epochs() {
    let doubling = |arithmetic: &[&str], changes: &[(&'static str, &str)], input: &str| {
        let words = release(changes);
        let words = [&words[..], arithmetic].concat();
        // Epochs of 2, 4, 8, … rows in place of 8 steps.
        let words: Vec<&str> = words
            .iter()
            .map(|word| match *word {
                "--steps" => "--doubling",
                "8" => "2",
                word => word,
            })
            .collect();
        with_input(&words, input)
    };
    let rows = |count: usize| format!("value\n{}", "1\n".repeat(count));
    for arithmetic in [&[][..], &["--idealized"]] {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let whole = doubling(arithmetic, &[], &rows(20));
        assert!(whole.status.success(), "{}", text(&whole.stderr));
        let whole = releases(&text(&whole.stdout));
        assert_eq!(whole.len(), 20);
        let output = directory.path().join("output.csv");
        // Stops within the second epoch, at its end, and within later ones.
        for count in [3, 6, 7, 12, 20] {
            let files = [("--state", state.to_str().unwrap()), ("--output", output.to_str().unwrap())];
            let part = doubling(arithmetic, &[&files[..], &[("--from-row", "1")]].concat(), &rows(count));
            assert!(part.status.success(), "{}", text(&part.stderr));
        }
        assert_eq!(releases(&fs::read_to_string(output).unwrap()), whole);
        let best = doubling(arithmetic, &[("--strategy", "auto")], &rows(9));
        assert!(best.status.success(), "{}", text(&best.stderr));
    }
    let mut both = release(&[]);
    both.extend(["--doubling", "2"]);
    assert_refused(&with_input(&both, &rows(1)), 2, &["--steps", "--doubling"]);
}

#[test]
fn states_and_outputs_that_do_not_belong_together_are_refused() {
    let directory = workspace(6);
    let run = |changes: &[(&str, &str)]| in_directory(directory.path(), changes).output().unwrap();
    assert!(run(&[]).status.success());
    assert_eq!(releases(&read(directory.path(), "output.csv")).len(), 6);
    // Nothing new: nothing happens.
    let before = read(directory.path(), "output.csv");
    assert!(run(&[]).status.success());
    assert_eq!(read(directory.path(), "output.csv"), before);
    assert_refused(&run(&[("--steps", "9")]), 1, &["another plan"]);
    assert_refused(&run(&[("--epsilon", "2")]), 1, &["another plan"]);
    // A state that was lost: going on would release every step a second time.
    assert_refused(&run(&[("--state", "elsewhere")]), 1, &["does not belong", "step 1"]);
    // An output that lost lines which the state no longer remembers.
    let lines: Vec<&str> = before.lines().collect();
    fs::write(directory.path().join("output.csv"), lines[..3].join("\n") + "\n").unwrap();
    assert_refused(&run(&[]), 1, &["ends at step 2", "restore"]);
    fs::write(directory.path().join("output.csv"), "something else\n").unwrap();
    assert_refused(&run(&[]), 1, &["line 1"]);
    // An input that became shorter.
    fs::write(directory.path().join("output.csv"), &before).unwrap();
    let input = read(directory.path(), "input.csv");
    fs::write(directory.path().join("input.csv"), "value\n1\n").unwrap();
    assert_refused(&run(&[]), 1, &["1 rows", "used 6"]);
    // An input whose past was edited, or has a row more in its middle, which would shift the others.
    let rows: Vec<&str> = input.lines().collect();
    for (changed, row) in [(1, "row 1 is"), (4, "row 4 is")] {
        let mut edited = rows.clone();
        edited[changed] = "0.5";
        fs::write(directory.path().join("input.csv"), edited.join("\n") + "\n").unwrap();
        assert_refused(&run(&[]), 1, &[row, "not what this state has used"]);
        let mut longer = rows.clone();
        longer.insert(changed, "0.125");
        fs::write(directory.path().join("input.csv"), longer.join("\n") + "\n").unwrap();
        assert_refused(&run(&[]), 1, &[row, "not what this state has used"]);
    }
    fs::write(directory.path().join("input.csv"), input).unwrap();
    assert_eq!(read(directory.path(), "output.csv"), before);
    // Damage.
    let mut state = fs::read(directory.path().join("state")).unwrap();
    let middle = state.len() / 2;
    state[middle] ^= 1;
    fs::write(directory.path().join("state"), state).unwrap();
    assert_refused(&run(&[]), 1, &["saved state"]);
}

#[test]
fn a_plot_is_drawn() {
    let directory = workspace(8);
    assert!(in_directory(directory.path(), &[("--plot", "plot.svg")]).status().unwrap().success());
    let plot = read(directory.path(), "plot.svg");
    assert!(plot.starts_with("<svg") && plot.contains("polygon") && plot.contains("count of value"));
}

#[test]
fn the_demo_needs_no_arguments_and_repeats_itself() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.arg("demo").args(arguments).current_dir(directory.path()).output().unwrap()
    };
    let table = run(&[]);
    assert!(table.status.success(), "{}", text(&table.stderr));
    assert!(text(&table.stdout).contains("DEMONSTRATION ONLY"));
    let first = read(directory.path(), "demo-output/demo.csv");
    assert_eq!(first.lines().count(), 1 + 3 * 365);
    let report = json(&run(&["--output", "again", "--json"]));
    assert_eq!(read(directory.path(), "again/demo.csv"), first);
    assert!(read(directory.path(), "again/demo.svg").starts_with("<svg"));
    let statistics = report["statistics"].as_array().unwrap();
    assert_eq!(statistics.len(), 3);
    for one in statistics {
        let [joint, split, tree, off] =
            ["joint", "split", "binary_tree", "in_this_run"].map(|name| one[name].as_f64().unwrap());
        assert!(split > joint && tree > 2.0 * split, "{one}");
        // The same seed every time: the published year lies as far from the truth as it was planned to.
        assert!(off > 0.5 * joint && off < 2.0 * joint, "{one}");
    }
    assert!(
        read(directory.path(), "again/public/index.html").contains("Emergency rooms of an invented town")
    );
    // It begins anew where it was before, and not over something else.
    assert!(run(&["--output", "again"]).status.success());
    assert_eq!(read(directory.path(), "again/demo.csv"), first);
    fs::write(directory.path().join("again/town.toml"), "[privacy]\n").unwrap();
    assert_refused(&run(&["--output", "again"]), 2, &["town.toml", "--output"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn no_arguments_make_it_panic(
        command in prop::sample::select(vec!["release", "calibrate", "plan", "demo", "", "nothing"]),
        words in prop::collection::vec(prop_oneof![
            prop::sample::select(vec![
                "--epsilon", "--delta", "--rho", "--mu", "--bounds", "--steps", "--workload", "--strategy", "--input",
                "--column", "--relation", "--participation", "--json", "--bad-rows", "--group", "-", "1", "0", "-1", "nan",
                "1e308", "1e-320", "18446744073709551615", "0:1", "1:0", "-inf:inf", "count", "poly:1e-300", "window:9",
                "exp:1e308", "auto", "sqrt", "zero-out", "🦀", "\u{0}x",
            ]).prop_map(str::to_owned),
            "[ -~]{0,12}",
        ], 0..14),
    ) {
        let directory = tempfile::tempdir().unwrap();
        // A word with a NUL cannot be an argument at all; a plan or demo that succeeds is fine.
        let words: Vec<&String> = words.iter().filter(|word| !word.contains('\0')).collect();
        let output = Command::new(env!("CARGO_BIN_EXE_dp"))
            .arg(command)
            .args(words)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let code = output.status.code();
        prop_assert!(matches!(code, Some(0..=2)), "{:?}: {}", code, text(&output.stderr));
        prop_assert!(code == Some(0) || !output.stderr.is_empty());
    }

    #[test]
    fn no_file_makes_it_panic(
        rows in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..160),
            "x\n([01nae.\",;\r\n -]{0,6}\n){0,12}".prop_map(String::into_bytes),
            "(x|y|\"x\"|x,x),?y?\n([0-1],?){0,9}\n?".prop_map(String::into_bytes),
        ],
        idealized in any::<bool>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("rows.csv");
        std::fs::write(&input, &rows).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_dp"))
            .args(["release", "--column", "x", "--bounds", "0:1", "--relation", "zero-out", "--steps", "8"])
            .args(["--workload", "count", "--strategy", "identity", "--epsilon", "1", "--delta", "1e-6", "--input"])
            .arg(&input)
            .args(idealized.then_some("--idealized"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let code = output.status.code();
        prop_assert!(matches!(code, Some(0 | 1)), "{:?}: {}", code, text(&output.stderr));
        prop_assert!(code == Some(0) || !output.stderr.is_empty());
        // Whatever was released before the bad row is there, a line each, and never more than was planned.
        prop_assert!(text(&output.stdout).lines().count() <= 9);
    }
}
