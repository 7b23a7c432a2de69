//! Everything that can be wrong with a dashboard's files, case by case: a message with file, line and what to do, nothing
//! written, and nothing lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A dashboard of everything, short; the lines of the cases below are lines of this text.
const SPEC: &str = r#"[privacy]
rho = 0.5
protects = "person"
relation = "zero-out"
[input]
files = ["cases.csv"]
time = "date"
person = "patient"
bad_rows = "drop"
[limits]
rows_per_step = 1
steps = 3
separation = 1
[steps]
length = "1 day"
first = "2026-01-01"
last = "2026-01-06"
[[release]]
name = "cases"
statistics = ["total", "step"]
by = { column = "region", values = ["North", "South"] }
[[release]]
name = "cost"
value = { column = "cost", bounds = [0, 500] }
statistics = ["total", "mean"]
[[release]]
name = "waiting"
value = { column = "wait_minutes", bounds = [0, 240], resolution = 10 }
statistics = ["quantile:0.5"]
[output]
folder = "public"
"#;

const ROWS: &str = "date,patient,region,cost,wait_minutes\n\
                    2026-01-01,p1,North,10,5\n\
                    2026-01-01,p2,South,20,15\n\
                    2026-01-02,p1,North,30,25\n\
                    2026-01-02,p3,South,40,35\n\
                    2026-01-03,p4,North,50,45\n";

const RUN: [&str; 6] = ["run", "dashboard.toml", "--until", "2026-01-05", "--reproducible-seed", "3"];

fn dp(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Every file below a folder, by its name, with all its bytes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(inside).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                found.insert(name, b"a folder".to_vec());
                folders.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let there = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &there);
        } else {
            fs::copy(&path, &there).unwrap();
        }
    }
}

/// A folder in which nothing has run, and one in which two steps are published.
struct Places {
    fresh: tempfile::TempDir,
    begun: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        let [fresh, begun] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for place in [&fresh, &begun] {
            fs::write(place.path().join("dashboard.toml"), SPEC).unwrap();
            fs::write(place.path().join("cases.csv"), ROWS).unwrap();
        }
        let run = ["run", "dashboard.toml", "--until", "2026-01-03", "--reproducible-seed", "3"];
        let first = dp(begun.path(), &run);
        assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
        Self { fresh, begun }
    }

    /// A copy of one of them in which one file is another; nothing for a file is one that is not there.
    fn with(&self, begun: bool, file: &str, contents: Option<&[u8]>) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        copy(if begun { self.begun.path() } else { self.fresh.path() }, place.path());
        match contents {
            Some(contents) => fs::write(place.path().join(file), contents).unwrap(),
            None => fs::remove_file(place.path().join(file)).unwrap(),
        }
        place
    }
}

/// Runs, which must be refused with all of these words, and leave every byte as it was.
#[track_caller]
fn refused(name: &str, place: &Path, code: i32, words: &[&str]) {
    let before = contents(place);
    let output = dp(place, &RUN);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{name}: {message}");
    assert_eq!(output.stdout, b"", "{name}");
    for words in words {
        assert!(message.contains(words), "{name}: `{words}` is not in: {message}");
    }
    assert!(contents(place) == before, "{name}: something was written");
}

/// What is in the published folder after a run.
#[track_caller]
fn published(name: &str, place: &Path) -> BTreeMap<String, Vec<u8>> {
    let output = dp(place, &RUN);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    contents(&place.join("public"))
}

#[test]
fn descriptions_are_refused_by_line() {
    let places = Places::new();
    // What is written in place of what, the line, and what the message says.
    let cases: [(&str, &str, u32, &str); 19] = [
        ("\nsteps = 3", "\nsteps = 0", 12, "`limits.steps`: 0 is not a whole number from 1"),
        ("rows_per_step = 1", "rows_per_step = 0", 11, "0 is not a whole number from 1 to 1000000"),
        ("separation = 1", "separation = 0", 13, "0 is not a whole number from 1"),
        ("\nsteps = 3", "\nsteps = -1", 12, "-1 is not a whole number from 1"),
        ("\nsteps = 3\n", "\n", 10, "`limits.steps` is missing"),
        ("\"total\", \"step\"", "\"total\", \"mean\"", 20, "mean is of a value; add `value = "),
        ("\"total\", \"step\"", "\"quantile:0.5\"", 20, "quantile:0.5 is of a value; add `value = "),
        ("\"total\", \"mean\"", "\"total\", \"quantile:0.5\"", 25, "put them into a release of their own"),
        ("\"quantile:0.5\"", "\"quantile:50\"", 29, "expected a number between 0 and 1"),
        ("\"quantile:0.5\"", "\"median\"", 29, "the statistics are total, step, window:W"),
        (", resolution = 10", "", 28, "`resolution` is missing"),
        ("[0, 500]", "[500, 0]", 24, "the lower bound 500 is not below the upper bound 0"),
        ("values = [\"North\", \"South\"]", "values = []", 21, "there are no keys; name at least one"),
        ("rho = 0.5", "rho = 0", 2, "0 is not above 0"),
        ("rho = 0.5", "delta = 1e-6", 1, "`privacy.epsilon` is missing"),
        ("person = \"patient\"\n", "", 5, "name the column that identifies a person"),
        ("\"2026-01-06\"", "\"2025-01-06\"", 14, "before the first"),
        ("[output]", "[outptu]", 30, "the fields here are"),
        ("rho = 0.5", "rho = 0.5 rho", 2, "dashboard.toml:2: "),
    ];
    for (old, new, line, words) in cases {
        assert!(SPEC.contains(old), "{old}");
        let spec = SPEC.replacen(old, new, 1);
        for begun in [false, true] {
            let place = places.with(begun, "dashboard.toml", Some(spec.as_bytes()));
            refused(new, place.path(), 2, &[&format!("dashboard.toml:{line}: "), words]);
        }
    }
}

/// Descriptions and lists that were written elsewhere: a mark in front of UTF-8 is no part of them, and what is no UTF-8 is refused by
/// its line.
#[test]
fn descriptions_and_lists_may_have_a_mark_and_must_be_utf_8() {
    let places = Places::new();
    let listed = SPEC.replace("[\"North\", \"South\"]", "\"regions.txt\"");
    let expected = published("as it is", places.with(false, "dashboard.toml", Some(SPEC.as_bytes())).path());
    let place = places.with(false, "dashboard.toml", Some(format!("\u{feff}{listed}").as_bytes()));
    fs::write(place.path().join("regions.txt"), "\u{feff}North\r\nSouth\r\n").unwrap();
    assert!(published("with marks", place.path()) == expected);
    fs::write(place.path().join("regions.txt"), b"North\nK\xf6ln\n").unwrap();
    let words = [
        "dashboard.toml:21: `release.by.values`: ",
        "regions.txt:2`: this line is not UTF-8; save the file as",
    ];
    refused("a list in Latin-1", place.path(), 2, &words);
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(SPEC.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for begun in [false, true] {
        let place = places.with(begun, "dashboard.toml", Some(&utf16));
        refused(
            "UTF-16",
            place.path(),
            2,
            &["dashboard.toml:1: the file is written in UTF-16; save it as UTF-8"],
        );
    }
}

/// What it is, the file, and what the message says.
type Case<'a> = (&'a str, Option<Vec<u8>>, &'a [&'a str]);

#[test]
fn files_are_refused_by_line() {
    let places = Places::new();
    let header = "date,patient,region,cost,wait_minutes";
    let with = |new: &str| ROWS.replacen(header, new, 1).into_bytes();
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(ROWS.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let cases: [Case<'_>; 10] = [
        (
            "a column that is not there",
            Some(with("day,patient,region,cost,wait_minutes")),
            &["cases.csv:1: there is no column `date`; the columns are `day`, `patient`"],
        ),
        (
            "a column that is there twice",
            Some(with("date,patient,region,cost,cost,wait_minutes")),
            &["cases.csv:1: the column `cost` is there twice; rename one of them"],
        ),
        ("an empty file", Some(Vec::new()), &["cases.csv:1: ", "the file is empty"]),
        ("blank lines alone", Some(b"\n\r\n\n".to_vec()), &["cases.csv:1: ", "the file is empty"]),
        (
            "another delimiter",
            Some(ROWS.replace(',', ";").into()),
            &["cases.csv:1: there is no column `date`", "separated by semicolons: save the file with commas"],
        ),
        ("gzip", Some(b"\x1f\x8b\x08\x00\x00\x00\x00\x00".to_vec()), &["cases.csv:1: ", "gzip; unpack it"]),
        ("zip", Some(b"PK\x03\x04\x14\x00".to_vec()), &["cases.csv:1: ", "zip archive", "save it as CSV"]),
        ("Parquet", Some(b"PAR1\x15\x00".to_vec()), &["cases.csv:1: ", "ends in `.parquet`"]),
        ("UTF-16", Some(utf16), &["cases.csv:1: ", "save it as UTF-8"]),
        ("no file", None, &["cases.csv: ", "`input.files`"]),
    ];
    for (name, contents, words) in &cases {
        for begun in [false, true] {
            let place = places.with(begun, "cases.csv", contents.as_deref());
            refused(name, place.path(), 1, words);
        }
    }
    // A folder is read as one; where it holds no rows at all, they are somewhere else.
    for begun in [false, true] {
        let place = places.with(begun, "cases.csv", None);
        fs::create_dir(place.path().join("cases.csv")).unwrap();
        fs::write(place.path().join("cases.csv/rows.txt"), ROWS).unwrap();
        refused("a folder", place.path(), 1, &["cases.csv: ", "no file that ends in `.csv` or `.parquet`"]);
    }
    // The past, which only a state knows.
    let cases = [
        ("a file that shrank", ROWS.replace("2026-01-03,p4,North,50,45\n", ""), 5, "now there are 4"),
        ("a row that changed", ROWS.replace("p2,South", "p2,North"), 3, "row 2 is not as an earlier run"),
        ("a row that vanished", ROWS.replace("2026-01-01,p2,South,20,15\n", ""), 3, "row 2 is not as an"),
    ];
    for (name, rows, line, words) in cases {
        let place = places.with(true, "cases.csv", Some(rows.as_bytes()));
        refused(name, place.path(), 1, &[&format!("cases.csv:{line}: "), words, "Restore the file"]);
    }
}

#[test]
fn a_description_that_changed_is_refused_by_line() {
    let places = Places::new();
    let cases: [(&str, &str, u32, &str); 7] = [
        ("\nsteps = 3", "\nsteps = 4", 12, "limits.steps was 3, now 4"),
        ("rho = 0.5", "rho = 0.6", 1, "privacy was rho = 0.5, now rho = 0.6"),
        ("\"2026-01-06\"", "\"2026-01-09\"", 17, "steps was 6 steps, now 9 steps"),
        ("[0, 500]", "[0, 600]", 24, "release `cost`.value.bounds was [0, 500], now [0, 600]"),
        ("\"total\", \"step\"", "\"total\"", 20, "release `cases`.statistics was total, step, now total"),
        (
            "[\"North\", \"South\"]",
            "[\"North\"]",
            21,
            "release `cases`.by.values was a list of 2 values, now North",
        ),
        ("\"zero-out\"", "\"replace\"", 4, "privacy.relation was zero-out, now replace"),
    ];
    for (old, new, line, words) in cases {
        assert!(SPEC.contains(old), "{old}");
        let spec = SPEC.replacen(old, new, 1);
        let place = places.with(true, "dashboard.toml", Some(spec.as_bytes()));
        let named = format!("dashboard.toml:{line}: {words}");
        refused(new, place.path(), 1, &["dashboard.state: ", &named, "--accept-change"]);
        // Another description is no reason to lose the state: with the old one it goes on.
        fs::write(place.path().join("dashboard.toml"), SPEC).unwrap();
        published(new, place.path());
    }
}

/// Rows that cannot be used follow the policy: the run stops at their line, or it is as if they were not there.
#[test]
fn rows_follow_the_policy_and_nothing_is_lost() {
    let places = Places::new();
    let time =
        "the time is missing, cannot be read or lies outside the steps; correct it, or give `input.format`";
    let value = "the value is not a finite number; correct it";
    // What is appended, the line of the bad row, and what is said about it.
    let cases: [(&str, u32, &str); 13] = [
        ("yesterday,p9,North,1,1\n", 7, time),
        (",p9,North,1,1\n", 7, time),
        ("2026-02-30,p9,North,1,1\n", 7, time),
        ("2031-01-01,p9,North,1,1\n", 7, time),
        ("2025-12-31,p9,North,1,1\n", 7, time),
        ("2026-01-03,,North,1,1\n", 7, "the person has no identifier; every row must have one"),
        ("2026-01-03,   ,North,1,1\n", 7, "the person has no identifier; every row must have one"),
        ("2026-01-03\n", 7, "the person has no identifier; every row must have one"),
        ("yesterday,\"p\"\"9\",\"No\nrth\",1,1\n", 7, time),
        // Lines are counted as an editor counts them, also behind a field that goes over several.
        ("2026-01-03,p4,\"No\nrth\",1,1\n\n2026-01-09,p9,North,1,1\n", 10, time),
        ("2026-01-03,p4,North,NaN,1\n", 7, value),
        ("2026-01-03,p4,North,inf,1\n", 7, value),
        ("2026-01-03,p4,North,\"1,5\",1\n", 7, value),
    ];
    let refuse = SPEC.replace("bad_rows = \"drop\"", "bad_rows = \"refuse\"");
    let without = [false, true].map(|begun| {
        let place = places.with(begun, "cases.csv", Some(ROWS.as_bytes()));
        published("good rows", place.path())
    });
    assert!(without[0] == without[1], "two runs are not one");
    for (rows, line, words) in cases {
        for begun in [false, true] {
            let text = format!("{ROWS}{rows}");
            let place = places.with(begun, "cases.csv", Some(text.as_bytes()));
            let check = dp(place.path(), &["check", "dashboard.toml", "--rows"]);
            let found = String::from_utf8(check.stdout).unwrap();
            assert_eq!(check.status.code(), Some(1), "{rows}: {found}");
            assert!(found.contains(&format!("cases.csv:{line}: {words}")), "{rows}: {found}");
            fs::write(place.path().join("dashboard.toml"), &refuse).unwrap();
            refused(rows, place.path(), 1, &[&format!("cases.csv:{line}: {words}")]);
            // The row of the person who has counted on that day already adds nothing either.
            fs::write(place.path().join("dashboard.toml"), SPEC).unwrap();
            assert!(published(rows, place.path()) == without[0], "{rows}: the bad row was counted");
        }
    }
    // Good rows behind a bad one are not lost, and forms of CSV are forms: marks, line ends, quotes, spaces, more fields.
    let quoted = ROWS.replace("2026-01-02,p1,North", "\"2026-01-02\",\" p1\",\"North\"");
    let forms = [
        ROWS.replacen("2026-01-01,p2", "never,p9,North,1,1\n2026-01-01,p2", 1),
        ROWS.replace('\n', "\r\n"),
        format!("\u{feff}{ROWS}"),
        quoted,
        ROWS.replace(",10,5\n", ",10,5,more,and more\n"),
        ROWS.replace(",North,", ", North ,"),
        ROWS.trim_end().to_owned(),
    ];
    for rows in forms {
        let place = places.with(false, "cases.csv", Some(rows.as_bytes()));
        assert!(published(&rows, place.path()) == without[0], "{rows}");
    }
}

/// A key outside the list is no mistake, and stops nothing under any policy; whoever looks for such rows finds them.
#[test]
fn keys_outside_the_list_are_left_out_and_can_be_looked_for() {
    let places = Places::new();
    let alone = SPEC.replace("bad_rows = \"drop\"", "bad_rows = \"refuse\"");
    let from = alone.find("[[release]]\nname = \"cost\"").unwrap();
    let alone = format!("{}[output]\nfolder = \"public\"\n", &alone[..from]);
    let rows = format!("{ROWS}2026-01-04,p7,Atlantis,1,1\n2026-01-04,p7,North,1,1\n");
    let place = places.with(false, "cases.csv", Some(rows.as_bytes()));
    fs::write(place.path().join("dashboard.toml"), &alone).unwrap();
    let check = dp(place.path(), &["check", "dashboard.toml", "--rows"]);
    let found = String::from_utf8(check.stdout).unwrap();
    assert!(check.status.success() && found.ends_with("every row can be used\n"), "{found}");
    assert!(found.contains("cases.csv:7: the key is in the list of no release"), "{found}");
    assert!(found.contains("add the key to `values`") && !found.contains("Atlantis"), "{found}");
    let with = published("a key outside", place.path());
    let rows = rows.replace("2026-01-04,p7,Atlantis,1,1\n", "");
    let place = places.with(false, "cases.csv", Some(rows.as_bytes()));
    fs::write(place.path().join("dashboard.toml"), &alone).unwrap();
    // The row uses nothing up either: the person still counts in the list.
    assert!(with == published("without it", place.path()));
}
