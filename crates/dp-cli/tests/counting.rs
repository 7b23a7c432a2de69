//! The counting commands and the local model as their users meet them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn dp(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dp")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let output = dp(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn fail(arguments: &[&str], code: i32, message: &str) {
    let output = dp(arguments);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
}

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).to_str().unwrap().to_owned()
}

/// A column of letters, `rows` of them.
fn letters(file: &str, rows: usize) {
    let rows: String = "abacab".chars().cycle().take(rows).flat_map(|letter| [letter, '\n']).collect();
    fs::write(file, format!("letter\n{rows}")).unwrap();
}

const QUIET: [&str; 8] =
    ["--mu", "1e6", "--relation", "replace", "--steps", "60", "--reproducible-seed", "4"];

/// Ranges and quantiles of integers: right without noise, printed with bands, and with far less noise than as many counts.
#[test]
fn ranges_and_quantiles_of_integers() {
    let directory = tempfile::tempdir().unwrap();
    let input = path(&directory, "in.csv");
    let rows: Vec<String> = (0..60).map(|row| (row * 100).to_string()).collect();
    fs::write(&input, format!("value\n{}\n", rows.join("\n"))).unwrap();
    let run = |integers: &str, budget: [&str; 2], questions: &[&str]| -> Vec<Vec<String>> {
        let words = [
            "histogram",
            "--input",
            &input,
            "--column",
            "value",
            "--every",
            "60",
            "--steps",
            "60",
            "--integers",
            integers,
            "--relation",
            "zero-out",
            "--reproducible-seed",
            "3",
            "--strategy",
            "sqrt",
        ];
        let stdout = succeed(&[&words[..], &budget, questions].concat());
        stdout.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let questions = ["--range", "0:2999", "--range", "5901:5999", "--quantile", "0.49", "--quantile", "0.89"];
    let lines = run("0:5999", ["--mu", "1e6"], &questions);
    let values: Vec<(&str, &str)> = lines.iter().map(|line| (line[1].as_str(), line[2].as_str())).collect();
    assert_eq!(
        values,
        [
            ("range:0:2999", "30"),
            ("range:5901:5999", "0"),
            ("quantile:0.49", "2900"),
            ("quantile:0.89", "5300")
        ]
    );
    // Half of all values: fewer than 10 deviations of a count of one value, in place of √3000 = 55.
    let deviation = |line: &[String]| line[3].parse::<f64>().unwrap();
    let noisy = run("0:5999", ["--mu", "1"], &questions[..2]);
    let one = run("0:5999", ["--mu", "1"], &["--show", "0"]);
    let ratio = deviation(&noisy[0]) / deviation(&one[0]);
    assert!(ratio < 10.0, "{ratio}");
    for wrong in [
        ["--range", "5:4"],
        ["--range", "0:6000"],
        ["--range", "x"],
        ["--quantile", "1"],
        ["--quantile", "nan"],
    ] {
        let words = [
            "histogram",
            "--input",
            &input,
            "--column",
            "value",
            "--steps",
            "60",
            "--integers",
            "0:5999",
            "--relation",
            "zero-out",
            "--mu",
            "1",
        ];
        let refused = dp(&[&words[..], &wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn without_noise_the_counts_are_right() {
    let directory = tempfile::tempdir().unwrap();
    let (input, universe) = (path(&directory, "in.csv"), path(&directory, "universe.txt"));
    letters(&input, 60);
    let common = ["--input", &input, "--column", "letter", "--every", "60"];
    let counts = |command: &str, more: &[&str]| {
        let stdout = succeed(&[&[command], &common[..], &QUIET, more].concat());
        let lines = stdout.lines().skip(1);
        lines
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                let release: f64 = fields[2].parse().unwrap();
                (fields[1].to_owned(), release.round())
            })
            .collect::<Vec<(String, f64)>>()
    };
    let expected =
        |pairs: &[(&str, f64)]| pairs.iter().map(|(item, n)| ((*item).to_owned(), *n)).collect::<Vec<_>>();
    fs::write(&universe, "a\nb\nc\n").unwrap();
    assert_eq!(
        counts("histogram", &["--universe", &universe]),
        expected(&[("a", 30.0), ("b", 20.0), ("c", 10.0)])
    );
    let strings = ["--alphabet", "abc", "--length", "3", "--show", "aba,ca,b"];
    assert_eq!(counts("substrings", &strings), expected(&[("aba", 19.0), ("ca", 10.0), ("b", 20.0)]));
    let episodes = ["--alphabet", "abc", "--length", "2", "--show", "bc,cc,a"];
    assert_eq!(counts("episodes", &episodes), expected(&[("bc", 10.0), ("cc", 9.0), ("a", 30.0)]));
    let words = path(&directory, "words.txt");
    fs::write(&words, "bac\nab\n").unwrap();
    assert_eq!(counts("substrings", &["--dictionary", &words, "--top", "1"]), expected(&[("ab", 20.0)]));
    assert_eq!(counts("episodes", &["--list", &words, "--show", "bac"]), expected(&[("bac", 10.0)]));
}

#[test]
fn an_interrupted_run_continues_as_if_it_had_never_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let input = path(&directory, "in.csv");
    for (command, more) in [
        ("substrings", vec!["--alphabet", "abc", "--length", "2"]),
        ("episodes", vec!["--alphabet", "abc", "--length", "2", "--show", "ab,ca", "--json"]),
        ("histogram", vec!["--integers", "0:2"]),
    ] {
        let write = |rows: usize| {
            if command == "histogram" {
                let rows: String = (0..rows).map(|row| ["0\n", "1\n", "2\n"][row % 3]).collect();
                fs::write(&input, format!("letter\n{rows}")).unwrap();
            } else {
                letters(&input, rows);
            }
        };
        let common = [
            "--input",
            &input,
            "--column",
            "letter",
            "--relation",
            "replace",
            "--steps",
            "40",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--every",
            "7",
            "--reproducible-seed",
            "5",
        ];
        let run = |output: &str, state: Option<&str>| {
            let mut arguments = [&[command], &common[..], &more].concat();
            arguments.extend(["--output", output]);
            arguments.extend(state.map(|state| ["--state", state]).into_iter().flatten());
            dp(&arguments)
        };
        write(40);
        let whole = path(&directory, &format!("{command}.whole"));
        assert!(run(&whole, None).status.success());
        let whole = fs::read_to_string(&whole).unwrap();
        // Stop at 14 and 28, which are printed anyway, so that both runs print the same steps.
        let (parts, state) =
            (path(&directory, &format!("{command}.parts")), path(&directory, &format!("{command}.state")));
        write(14);
        assert!(run(&parts, Some(&state)).status.success());
        let first = fs::read_to_string(&parts).unwrap();
        // A crash that kept the last lines from the output, or cut one of them.
        for cut in [first.len() - 5, first.len() - first.lines().last().unwrap().len() - 1] {
            fs::write(&parts, &first[..cut]).unwrap();
            assert!(run(&parts, Some(&state)).status.success());
            assert_eq!(fs::read_to_string(&parts).unwrap(), first);
        }
        write(28);
        assert!(run(&parts, Some(&state)).status.success());
        write(40);
        let output = run(&parts, Some(&state));
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(fs::read_to_string(&parts).unwrap(), whole, "{command}");
        // An output or an input of something else is refused.
        fs::write(&parts, whole.replace("40,", "41,").replace(":40,", ":41,")).unwrap();
        assert_eq!(run(&parts, Some(&state)).status.code(), Some(1));
        write(10);
        assert_eq!(run(&path(&directory, "other"), Some(&state)).status.code(), Some(1));
    }
}

#[test]
fn a_state_is_not_continued_under_other_names() {
    let directory = tempfile::tempdir().unwrap();
    let [input, universe, state, output] =
        ["in.csv", "universe.txt", "state", "out.csv"].map(|name| path(&directory, name));
    letters(&input, 12);
    let files = ["--input", &input, "--column", "letter", "--state", &state, "--output", &output];
    let run = |names: &str| {
        fs::write(&universe, names).unwrap();
        dp(&[&["histogram"], &files[..], &QUIET, &["--universe", &universe]].concat())
    };
    assert!(run("a\nb\nc\n").status.success());
    let other = run("c\nb\na\n");
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("counts something else"), "{}", text(&other.stderr));
    assert!(run("a\nb\nc\n").status.success());
}

/// Two items that many name and, in every row, one that nobody else does.
fn orders(file: &str, rows: usize) {
    let row = |row: usize| match row % 4 {
        0 => format!("coffee;only {row}\n"),
        _ => format!("\"tea, black;only {row}\"\n"),
    };
    let rows: String = (0..rows).map(row).collect();
    fs::write(file, format!("order\n{rows}")).unwrap();
}

/// `dp histogram --discover` over up to 160 orders, with the same noise every time.
fn discover(input: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(["histogram", "--discover", "--input", input, "--column", "order", "--items", "2"]);
    command.args(["--relation", "zero-out", "--steps", "160", "--strategy", "sqrt", "--epsilon", "8"]);
    command.args(["--delta", "1e-6", "--reproducible-seed", "3"]).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const THRESHOLD: [&str; 2] = ["--threshold-delta", "1e-7"];

#[test]
fn items_that_nobody_knew_are_discovered_and_the_run_can_be_continued() {
    let directory = tempfile::tempdir().unwrap();
    let [input, parts, state, plot] =
        ["in.csv", "parts.csv", "state", "plot.svg"].map(|name| path(&directory, name));
    for json in [&[][..], &["--json"]] {
        let run = |more: &[&str]| {
            discover(&input, &[&THRESHOLD, &["--every", "5"], json, more].concat()).output().unwrap()
        };
        orders(&input, 160);
        let whole = run(&[]);
        let (stdout, stderr) = (text(&whole.stdout), text(&whole.stderr));
        assert!(whole.status.success(), "{stderr}");
        assert!(stderr.contains("(8, 1.100e-6)-differentially private"), "{stderr}");
        assert!(stdout.contains("tea, black") && stdout.contains("coffee"), "{stdout}");
        assert!(!stdout.contains("only"), "{stdout}");
        // A state without anything to show yet, and one between two orders of coffee.
        for rows in [5, 90, 160] {
            orders(&input, rows);
            let saved = run(&["--state", &state, "--output", &parts, "--plot", &plot]);
            assert!(saved.status.success(), "{}", text(&saved.stderr));
        }
        assert_eq!(fs::read_to_string(&parts).unwrap(), stdout);
        assert!(fs::read_to_string(&plot).unwrap().contains("coffee"));
        let storage = ["--state", &state, "--output", &parts];
        // An item that is only asked for, in runs of their own: no two have one noise.
        let orders_of = |item: &str| {
            let alone = path(&directory, "alone.csv");
            let asked = run(&["--state", &state, "--output", &alone, "--show", item]);
            assert!(asked.status.success(), "{}", text(&asked.stderr));
            let line = fs::read_to_string(&alone).unwrap().lines().last().unwrap().to_owned();
            fs::remove_file(&alone).unwrap();
            line.split(item).nth(1).unwrap().to_owned()
        };
        assert_ne!(orders_of("never"), orders_of("not once"));
        for (threshold, every, more, message) in [
            ("1e-8", "5", &[][..], "counts something else"),
            ("1e-7", "4", &[], "counts something else"),
            ("1e-7", "5", &["--repeated"], "another plan"),
        ] {
            let other = [&["--threshold-delta", threshold, "--every", every], json, &storage, more].concat();
            let other = discover(&input, &other).output().unwrap();
            assert_eq!(other.status.code(), Some(1));
            assert!(text(&other.stderr).contains(message), "{}", text(&other.stderr));
        }
        // Whoever asks for an item by name is answered, whether it stands out or not.
        let asked = text(&run(&["--show", "coffee,never"]).stdout);
        assert!(asked.contains("never"), "{asked}");
        // The fewer steps are printed, the less has to stand out.
        let threshold = |every: &str| -> f64 {
            let command = discover(&input, &[&THRESHOLD[..], &["--every", every]].concat());
            let notes = text(&{ command }.output().unwrap().stderr);
            let number = notes.split("its release reaches ").nth(1).and_then(|rest| rest.split(';').next());
            number.unwrap().parse().unwrap()
        };
        assert!(threshold("160") < threshold("5") && threshold("5") < threshold("1"));
        // A key without its state would be refused: the state may have been lost.
        for file in fs::read_dir(directory.path()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

#[test]
fn killed_at_any_point_a_discovery_continues_and_never_contradicts_itself() {
    let directory = tempfile::tempdir().unwrap();
    let [input, output, state] = ["in.csv", "out.csv", "state"].map(|name| path(&directory, name));
    orders(&input, 80);
    let whole = text(&discover(&input, &THRESHOLD).output().unwrap().stdout);
    let mut seen: BTreeMap<(usize, String), f64> = BTreeMap::new();
    let mut kills = 0;
    for attempt in 0.. {
        let mut child =
            discover(&input, &[&THRESHOLD[..], &["--state", &state, "--output", &output]].concat())
                .spawn()
                .unwrap();
        // At once, which no run survives; then delays that fall before, into and between the writes, and grow so that a slow
        // machine ends as well.
        if attempt > 0 {
            let delay = [3, 11, 23, 7, 31][attempt % 5] * (1 + attempt as u64 / 20);
            std::thread::sleep(Duration::from_millis(delay));
        }
        let finished = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        let ended = child.wait_with_output().unwrap();
        let contents = fs::read_to_string(&output).unwrap_or_default();
        let complete = &contents[..contents.rfind('\n').map_or(0, |last| last + 1)];
        for line in csv::Reader::from_reader(complete.as_bytes()).deserialize() {
            let (step, item, release, _): (usize, String, f64, f64) = line.unwrap();
            let earlier = *seen.entry((step, item)).or_insert(release);
            assert_eq!(earlier, release, "step {step} was answered twice");
        }
        if finished {
            assert!(ended.status.success(), "{}", text(&ended.stderr));
            break;
        }
        kills += 1;
        // Now and then a line is torn as well, as by a power failure.
        if attempt % 4 == 0 && complete.lines().count() > 1 {
            // The tear goes through a letter of two bytes.
            fs::write(&output, [complete.as_bytes(), b"17,\"th\xc3"].concat()).unwrap();
        }
    }
    assert!(kills > 0, "no run was interrupted");
    assert!(fs::read_to_string(&output).unwrap() == whole, "after {kills} kills");
}

#[test]
fn plots_and_json_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let (input, plot) = (path(&directory, "in.csv"), path(&directory, "plot.svg"));
    letters(&input, 30);
    let common =
        ["--input", &input, "--column", "letter", "--plot", &plot, "--alphabet", "abc", "--length", "2"];
    let stdout = succeed(&[&["episodes"], &common[..], &QUIET, &["--json", "--show", "ab"]].concat());
    assert_eq!(stdout.lines().count(), 30);
    let first: serde_json::Value = serde_json::from_str(stdout.lines().next().unwrap()).unwrap();
    assert_eq!((first["step"].as_u64(), first["item"].as_str()), (Some(1), Some("ab")));
    assert!(fs::read_to_string(&plot).unwrap().contains("ab"));
    fs::write(&input, "v\n1\n2\n3\n4\n5\n").unwrap();
    let local = [
        "local",
        "--input",
        &input,
        "--column",
        "v",
        "--bounds",
        "0:10",
        "--mu",
        "1e6",
        "--intervals",
        "100",
        "--reproducible-seed",
        "4",
    ];
    let report: serde_json::Value =
        serde_json::from_str(&succeed(&[&local[..], &["--json", "--plot", &plot]].concat())).unwrap();
    let median = report["quantiles"][0]["value"].as_f64().unwrap();
    assert!((median - 3.0).abs() <= 0.1 + 1e-9, "{median}");
    assert!(Path::new(&plot).exists());
    assert!(succeed(&local).contains("excess risk"));
    // A pure ε is enough for answers, and for nothing else.
    let pure = ["local", "--input", &input, "--column", "v", "--bounds", "0:10", "--epsilon", "1"];
    assert!(succeed(&pure).contains("excess risk"));
    fail(&[&pure[..], &["--strategy", "sqrt"]].concat(), 2, "--strategy answers");
    fail(&[&pure[..], &["--strategy", "answers", "--idealized"]].concat(), 2, "--idealized is for vectors");
}

#[test]
fn nonsense_is_refused_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let (input, state) = (path(&directory, "in.csv"), path(&directory, "state"));
    letters(&input, 6);
    let strings =
        ["substrings", "--input", &input, "--column", "letter", "--relation", "replace", "--steps", "5"];
    let shape = ["--alphabet", "abc", "--length", "2"];
    let budget = ["--mu", "1"];
    fail(&[&strings[..], &shape].concat(), 2, "no privacy budget");
    fail(&[&strings[..], &shape, &budget].concat(), 1, "all 5 planned steps");
    fail(&[&strings[..], &["--alphabet", "ab", "--length", "2"], &budget].concat(), 1, "not a known letter");
    fail(&[&strings[..], &["--alphabet", "aa", "--length", "2"], &budget].concat(), 2, "given twice");
    fail(&[&strings[..], &shape, &budget, &["--show", "abc"]].concat(), 2, "`abc`");
    let pipe = ["substrings", "--input", "-", "--column", "letter", "--relation", "replace", "--steps", "5"];
    let stored = ["--state", &state, "--output", &path(&directory, "out.csv")];
    fail(&[&pipe[..], &shape, &budget, &stored].concat(), 2, "--state needs a file");
    let items =
        ["histogram", "--input", &input, "--column", "letter", "--relation", "zero-out", "--steps", "9"];
    fail(&[&items[..], &["--integers", "5:1"], &budget].concat(), 2, "FIRST:LAST");
    fail(&[&items[..], &["--integers", "0:1"], &budget].concat(), 1, "not in the universe");
    fail(&[&items[..], &budget].concat(), 2, "--universe");
    fail(&[&items[..], &["--discover"], &budget].concat(), 2, "--threshold-delta");
    fail(
        &[&items[..], &["--integers", "0:1", "--by", "place"], &budget].concat(),
        2,
        "all rows are then one step",
    );
    fail(&[&items[..], &["--discover", "--threshold-delta", "1.5"], &budget].concat(), 2, "1.5");
    fs::write(&input, "letter\na;b\n").unwrap();
    let universe = path(&directory, "universe.txt");
    fs::write(&universe, "a\nb\n").unwrap();
    fail(&[&items[..], &["--universe", &universe], &budget].concat(), 1, "the 1 that the rules allow");
    fs::write(&input, "letter\nab\n").unwrap();
    fail(&[&strings[..], &shape, &budget].concat(), 1, "more than one letter");
    let local = ["local", "--input", &input, "--column", "letter", "--bounds", "0:1"];
    fail(&[&local[..], &budget].concat(), 1, "not a number");
    fail(
        &["local", "--input", &input, "--column", "letter", "--bounds", "1:0", "--mu", "1"],
        2,
        "LO below HI",
    );
}
