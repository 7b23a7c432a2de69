//! Nothing but released values depends on the data: not the number of lines, their names, the files, their sizes, the
//! messages or the exit code.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::places::DASHBOARD;
use super::subject::{SUBJECTS, Subject, dp, lists, text};

/// A line with its released number left out.
fn masked(line: &str, header: &str) -> String {
    if let Ok(serde_json::Value::Object(mut object)) = serde_json::from_str(line) {
        object.insert("release".to_owned(), serde_json::Value::Null);
        return serde_json::Value::Object(object).to_string();
    }
    let place = header.split(',').position(|column| column == "release");
    let fields = line.split(',').enumerate();
    fields
        .map(|(index, field)| if Some(index) == place { "value" } else { field })
        .collect::<Vec<_>>()
        .join(",")
}

fn masked_text(contents: &str, name: &str) -> String {
    if name.starts_with("local") {
        // A table: the estimates stand in the last column.
        let first =
            |line: &str| line.rsplit_once(' ').map_or(String::new(), |(rest, _)| rest.trim_end().to_owned());
        return contents.lines().map(first).collect::<Vec<_>>().join("\n");
    }
    let header = contents.lines().next().unwrap_or_default();
    contents.lines().map(|line| masked(line, header)).collect::<Vec<_>>().join("\n")
}

/// Everything that can be seen of a run but the released values.
#[derive(Debug, PartialEq)]
struct Seen {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// The files by name, with their masked contents or, for states and plots, what is public of their size.
    files: BTreeMap<String, String>,
}

fn seen(subject: &Subject, rows: &str, more: &[&str]) -> Seen {
    let directory = tempfile::tempdir().unwrap();
    lists(directory.path());
    let output = subject.run(directory.path(), rows, more);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "rows.csv" {
            let public = public_part(subject, &path, &name);
            files.insert(name, public);
        }
    }
    let stdout = masked_text(&text(&output.stdout), subject.name);
    Seen { code: output.status.code(), stdout, stderr: text(&output.stderr), files }
}

fn public_part(subject: &Subject, path: &Path, name: &str) -> String {
    match name {
        "output" => masked_text(&fs::read_to_string(path).unwrap(), subject.name),
        "state" if subject.fixed_size => fs::metadata(path).unwrap().len().to_string(),
        _ => String::new(),
    }
}

#[test]
fn neighbouring_inputs_differ_in_released_values_only() {
    for subject in &SUBJECTS {
        let stored = ["--state", "state", "--output", "output", "--plot", "plot.svg"];
        let mut forms: Vec<&[&str]> = vec![&[]];
        if subject.keeps_state {
            forms.extend([&["--json"][..], &stored]);
        }
        for more in forms {
            let (with, without) = (seen(subject, subject.with, more), seen(subject, subject.without, more));
            assert_eq!(with.code, Some(0), "{}: {}", subject.name, with.stderr);
            assert_eq!(with, without, "{} {more:?}", subject.name);
            // A bad row that is dropped or clamped is one more neighbour.
            for policy in ["drop", "clamp"] {
                let more = [more, &["--bad-rows", policy]].concat();
                let bad = subject.with.trim_end().rsplit_once('\n').unwrap().0.to_owned();
                let columns = bad.lines().next().unwrap().split(',').count();
                // For a graph a bad row is no update; elsewhere it takes the step of the row that it replaces.
                let row = vec!["é☃"; columns].join(",");
                let bad = seen(subject, &format!("{bad}\n{row}\n"), &more);
                assert_eq!(bad, seen(subject, subject.with, &more), "{} {more:?}", subject.name);
            }
        }
    }
}

/// The law has power: it would notice a line less, another name, another message.
#[test]
fn the_comparison_sees_everything_but_the_values() {
    let header = "step,item,release,standard_deviation";
    assert_eq!(masked("1,a,0.5,2", header), masked("1,a,-7.5,2", header));
    for other in ["2,a,0.5,2", "1,b,0.5,2", "1,a,0.5,3", "1,a,0.5"] {
        assert_ne!(masked("1,a,0.5,2", header), masked(other, header), "{other}");
    }
    let object =
        |release: &str, item: &str| format!("{{\"step\":1,\"item\":\"{item}\",\"release\":{release}}}");
    assert_eq!(masked(&object("1.5", "a"), ""), masked(&object("2", "a"), ""));
    assert_ne!(masked(&object("1.5", "a"), ""), masked(&object("1.5", "b"), ""));
    // More rows are more steps where every row is one, and that is seen.
    let release = &SUBJECTS[0];
    assert_ne!(seen(release, release.with, &[]), seen(release, "x\n1\n0\n1\n", &[]));
}

#[test]
fn every_command_says_what_it_promises() {
    for subject in &SUBJECTS {
        let directory = tempfile::tempdir().unwrap();
        lists(directory.path());
        let message = text(&subject.run(directory.path(), subject.with, &[]).stderr);
        // Clients answer one question each; everybody else gets the noise of a strategy.
        let noise = if subject.name == "local" { "noise: answers about" } else { "noise: strategy sqrt for" };
        for words in [
            "guarantee: all releases together satisfy",
            "ε = 1, δ = 1e-6",
            "protected: ",
            "not protected: ",
            noise,
        ] {
            assert!(message.contains(words), "{}: `{words}` is not in {message}", subject.name);
        }
        // Exact unless something else was asked for.
        let exact = !subject.words.contains(&"--idealized");
        assert!(
            message.contains(if exact { "; exact:" } else { "; idealized:" }),
            "{}: {message}",
            subject.name
        );
        assert!(!message.contains("row is there at all"), "{message}");
    }
}

/// What commands show on rows, without the released values and the band around them: exit codes, what they say, the names of all
/// files, the tables, the page, and the size of everything in the folder of a state.
fn shown(rows: &str, spec: &str, commands: &[&[&str]]) -> Vec<(String, String)> {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("rows.csv"), rows).unwrap();
    fs::write(at.join("dashboard.toml"), spec).unwrap();
    let mut seen = Vec::new();
    for words in commands {
        let output = dp(at, words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        let printed = text(&output.stdout);
        let printed = if printed.starts_with("step,time,") { without_values(&printed) } else { printed };
        seen.push((words.join(" "), printed + &text(&output.stderr)));
    }
    let folders = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    for folder in folders.chain([at.to_owned()]).collect::<Vec<_>>() {
        let secret = folder.join("sealed").exists();
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let contents = match path.extension().and_then(|end| end.to_str()) {
                _ if secret => path.metadata().unwrap().len().to_string(),
                Some("csv") if name != "rows.csv" => without_values(&fs::read_to_string(&path).unwrap()),
                Some("jsonl") => fs::read_to_string(&path).unwrap().lines().map(without_numbers).collect(),
                Some("md") => fs::read_to_string(&path).unwrap(),
                Some("html") => without_series(&fs::read_to_string(&path).unwrap()),
                _ => String::new(),
            };
            seen.push((name, contents));
        }
    }
    seen.sort();
    seen
}

/// What `dp run` and `dp check` show on rows.
fn dashboard(spec: &str, rows: &str) -> Vec<(String, String)> {
    shown(
        rows,
        spec,
        &[
            &["check", "dashboard.toml"],
            &["run", "dashboard.toml", "--until", "2026-01-05", "--reproducible-seed", "3"],
            &["run", "dashboard.toml", "--until", "2026-01-06", "--reproducible-seed", "3"],
        ],
    )
}

/// The columns that hold released numbers. The error of means and quantiles follows from those numbers, that of all other
/// statistics from the description.
fn released(line: &str) -> &'static [&'static str] {
    if line.contains("mean") || line.contains("quantile") {
        &["value", "low", "high", "standard_deviation"]
    } else {
        &["value", "low", "high"]
    }
}

/// A table without its released numbers.
fn without_values(table: &str) -> String {
    let columns: Vec<&str> = table.lines().next().unwrap_or_default().split(',').collect();
    let kept = |line: &str| {
        let fields = line.split(',').zip(&columns).filter(|(_, column)| !released(line).contains(column));
        fields.map(|(field, _)| field).collect::<Vec<_>>().join(",") + "\n"
    };
    table.lines().map(kept).collect()
}

/// A page without the numbers of its series. How many there are, and all the rest of it, stays.
fn without_series(page: &str) -> String {
    let (before, rest) = page.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    let mut data: serde_json::Value = serde_json::from_str(data).unwrap();
    for release in data["releases"].as_array_mut().unwrap() {
        for column in
            release["series"].as_array_mut().unwrap().iter_mut().filter_map(|one| one.as_array_mut())
        {
            for numbers in column {
                let numbers = numbers.as_array_mut().unwrap();
                numbers.iter_mut().for_each(|number| *number = serde_json::Value::Null);
            }
        }
    }
    format!("{before}{data}{after}")
}

fn without_numbers(line: &str) -> String {
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    for name in released(line) {
        object.insert((*name).to_owned(), serde_json::Value::Null);
    }
    serde_json::Value::Object(object).to_string() + "\n"
}

#[test]
fn dashboards_of_neighbouring_rows_differ_in_released_values_only() {
    let others = "date,who,place,cost\n2026-01-01,p,here,10\n2026-01-02,q,there,20\n2026-01-03,p,here,90\n";
    // So many that both places are found: a key is shown from a released total of about 70 on.
    let visit = |number: usize| {
        let place = if number.is_multiple_of(2) { "here" } else { "there" };
        format!("2026-01-01,p{number},{place},{}\n", number % 60)
    };
    let crowd = format!("date,who,place,cost\n{}", (0..600).map(visit).collect::<String>());
    let pure = DASHBOARD.replace("delta = 1e-6\n", "");
    let found = DASHBOARD.replace(", values = [\"here\", \"there\"] }", " }");
    assert!(pure != DASHBOARD && found != DASHBOARD);
    for (spec, others) in [(DASHBOARD, others), (&pure, others), (&found, &crowd)] {
        let with = format!("{others}2026-01-04,only me,here,30\n2026-01-05,only me,my own hut,1\n");
        // A person who is not there, and rows that cannot be used: of nowhere, at no time, with no value.
        let bad = format!(
            "{others}2026-01-04,only me,nowhere,30\nyesterday,only me,there,1\n2026-01-05,me,here,x\n"
        );
        let seen = dashboard(spec, &with);
        assert_eq!(seen, dashboard(spec, others));
        assert_eq!(seen, dashboard(spec, &bad));
        assert!(
            seen.iter().any(|(name, lines)| name == "visits.csv" && lines.lines().count() == 1 + 5 * 2 * 3)
        );
        // The page is compared with five places for each of three numbers of each of six series of visits, and with its words.
        let page = &seen.iter().find(|(name, _)| name == "index.html").unwrap().1;
        assert!(
            page.matches("[null,null,null,null,null]").count() >= 18 && page.contains("differ"),
            "{page}"
        );
        for file in ["sealed", "key", "key.mark"] {
            assert!(
                seen.iter().any(|(name, size)| name == file && size.parse::<u64>().unwrap() > 0),
                "{file}"
            );
        }
        for (name, contents) in &seen {
            assert!(!contents.contains("hut") && !contents.contains("only me"), "{name}: {contents}");
        }
    }
    // The comparison sees everything else.
    let masked = |line: &str| without_values(&format!("step,value,low,statistic\n{line}\n"));
    assert_eq!(masked("1,2,3,total"), masked("1,-5,-9,total"));
    assert_ne!(masked("1,2,3,total"), masked("2,2,3,total"));
    assert_ne!(masked("1,2,3,total"), masked("1,2,3,step"));
    let page = |series: &str, word: &str| {
        let data = format!("{{\"releases\":[{{\"series\":[{series}]}}]}}");
        without_series(&format!("{word}<script id=\"data\" type=\"application/json\">{data}</script>"))
    };
    assert_eq!(page("[[1,2],[0,1],[2,3]]", "a"), page("[[7,null],[0,1],[2,3]]", "a"));
    assert_ne!(page("[[1,2],[0,1],[2,3]]", "a"), page("[[1],[0,1],[2,3]]", "a"));
    assert_ne!(page("[[1,2],[0,1],[2,3]]", "a"), page("[[1,2],[0,1],[2,3]]", "b"));
}

/// The same for small jobs by flags: what `dp release --time` and `dp histogram --time` print, their receipts, tables and states.
#[test]
fn small_jobs_of_neighbouring_rows_differ_in_released_values_only() {
    let others = "date,who,place,cost\n2026-01-01,p,here,10\n2026-01-02,q,there,20\n2026-01-03,p,here,90\n";
    let with = format!("{others}2026-01-04,only me,here,30\n2026-01-05,only me,my own hut,1\n");
    let bad =
        format!("{others}2026-01-04,only me,nowhere,30\nyesterday,only me,there,1\n2026-01-05,me,here,x\n");
    let common = "--input rows.csv --time date --first 2026-01-01 --last 2026-01-08 --person who --participation 2:1 \
                  --relation zero-out --bad-rows drop --epsilon 1 --delta 1e-6 --reproducible-seed 3";
    for words in [
        "release --workload total --workload step --by place --values here,there",
        "release --workload total --by place",
        "release --column cost --bounds 0:50 --workload total --workload mean",
        "histogram --column place --discover",
        "histogram --column cost --integers 0:50 --range 0:9 --quantile 0.5",
    ] {
        let words: Vec<&str> = words.split_whitespace().chain(common.split_whitespace()).collect();
        let printed = [&words[..], &["--until", "2026-01-06"]].concat();
        let kept =
            |until| [&words[..], &["--until", until, "--state", "kept", "--output", "table.csv"]].concat();
        let commands = [printed, kept("2026-01-05"), kept("2026-01-06")];
        let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
        let seen = shown(&with, "", &commands);
        assert_eq!(seen, shown(others, "", &commands));
        assert_eq!(seen, shown(&bad, "", &commands));
        for (name, contents) in &seen {
            assert!(!contents.contains("hut") && !contents.contains("only me"), "{name}: {contents}");
        }
        let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            ["sealed", "key", "key.mark", "table.csv"].iter().all(|file| names.contains(file)),
            "{names:?}"
        );
        assert!(seen.iter().any(|(_, contents)| contents.contains("5 of 8 steps")), "{seen:?}");
    }
}

/// A model may differ in its parameters, and in nothing else; scores are of public examples and may differ like the model.
#[test]
fn models_of_neighbouring_rows_differ_in_parameters_only() {
    let table = |last: &str| {
        let row = |i: usize| format!("{},{}\n", i % 10, if i.is_multiple_of(2) { "yes" } else { "no" });
        format!("a,answer\n{}{last}\n", (0..19).map(row).collect::<String>())
    };
    let train = |last: &str, relation: &str| {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("rows.csv"), table(last)).unwrap();
        fs::write(at.join("public.csv"), "a,answer\n1,no\n8,yes\n").unwrap();
        let words =
            ["train", "--data", "rows.csv", "--label", "answer", "--classes", "no,yes", "--bounds", "0:10"];
        let more = ["--test", "public.csv", "--strategy", "sqrt", "--seed", "5", "--relation", relation];
        let files = ["--state", "state", "--output", "model.json", "--json"];
        let output = dp(at, &[&words[..], &more, &files, &["--epsilon", "1", "--delta", "1e-6"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["test_accuracy"] = serde_json::Value::Null;
        for epoch in report["epochs"].as_array_mut().unwrap() {
            for name in ["accuracy", "loss", "seconds"] {
                epoch[name] = serde_json::Value::Null;
            }
        }
        let model = fs::read_to_string(at.join("model.json")).unwrap();
        let mut model: serde_json::Value = serde_json::from_str(&model).unwrap();
        let parameters = std::mem::take(&mut model["parameters"]);
        let number = parameters.as_array().unwrap().len();
        let mut files: Vec<(String, u64)> = fs::read_dir(at)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().len()))
            .filter(|(name, _)| name != "rows.csv")
            // The digits of the parameters, as text.
            .map(|(name, size)| if name.contains("model") { (name, 0) } else { (name, size) })
            .collect();
        files.sort();
        (parameters, (report.to_string(), model.to_string(), number, files, text(&output.stderr)))
    };
    for relation in ["replace", "zero-out"] {
        let (one, other) = (train("9,no", relation), train("0,yes", relation));
        assert_ne!(one.0, other.0, "a row that changes nothing shows nothing");
        assert_eq!(one.1, other.1);
    }
}
