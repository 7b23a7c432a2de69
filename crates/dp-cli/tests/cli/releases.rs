//! Releases of a column, and rows that are refused.

use super::*;

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
    let (more, plot) = (["--workload", "window:3", "--workload", "step"], at("plot.svg"));
    let run = |input: &str, state: &str, output: &str| {
        let (input, state, output) = (at(input), at(state), at(output));
        let words =
            release(&[("--input", &input), ("--strategy", "auto"), ("--grid", "1"), ("--workload", "total")]);
        let kept = ["--state", &state, "--output", &output, "--plot", &plot];
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
        for (name, from) in [("total", 0), ("window:3", step.saturating_sub(2))] {
            let line =
                lines.iter().find(|line| line[0] == (step + 1).to_string() && line[1] == name).unwrap();
            let rounding = 0.5 * (step - from + 2) as f64;
            assert!((value(line) - sum(from)).abs() <= rounding, "{line:?}: {}", sum(from));
        }
    }
    // They have the names under which they were asked for, and each is drawn.
    let plot = std::fs::read_to_string(&plot).unwrap();
    assert!(plot.contains("total of value") && plot.matches("<polygon").count() >= 3, "{plot}");
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
