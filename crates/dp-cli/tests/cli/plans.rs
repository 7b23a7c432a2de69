//! Calibration, accounting and plans.

use super::*;

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
    assert!(!table.contains("promised nothing"), "{table}");
    // Nobody is drawn but with a probability below δ: the least noise there is, and a word about it.
    let rare = ["--sampling-rate", "2.095e-5", "--steps", "22", "--delta", "6.44e-4"];
    let table = text(&dp(&[&["account", "--epsilon", "5.875"][..], &rare].concat()).stdout);
    assert!(table.contains("0.000100") && table.contains("promised nothing"), "{table}");
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
