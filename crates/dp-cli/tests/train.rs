//! `dp train` and `dp compare-training` as their users meet them.

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

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The outcome without the times.
fn outcome(report: &Value) -> Vec<(Value, Value)> {
    let epochs = report["epochs"].as_array().unwrap();
    epochs.iter().map(|epoch| (epoch["accuracy"].clone(), epoch["loss"].clone())).collect()
}

/// Sixty people: whoever has `a` above `b` says yes.
fn table(directory: &Path) -> String {
    let row = |i: u32| {
        let (a, b) = (i * 37 % 60, i * 23 % 60 + 1);
        format!("{a},{},{b}\n", if a > b { "yes" } else { "no" })
    };
    let path = directory.join("people.csv");
    fs::write(&path, format!("a,answer,b\n{}", (0..60).map(row).collect::<String>())).unwrap();
    path.to_str().unwrap().to_owned()
}

const PRIVATE: &[&str] = &["--epsilon", "2", "--delta", "1e-5", "--relation", "zero-out", "--seed", "7"];
const COLUMNS: &[&str] = &["--label", "answer", "--classes", "no,yes", "--bounds", "0:60"];

#[test]
fn learns_digits_and_says_what_is_guaranteed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (svg, model) = (at("accuracy.svg"), at("model.json"));
    let fast = ["train", "--epochs", "2", "--batch", "30", "--rate", "0.2", "--json"];
    let without = json(&dp(&[&fast[..], &["--strategy", "none"]].concat()));
    assert_eq!(without["private"], false);
    assert!(without["test_accuracy"].as_f64().unwrap() > 0.8, "{without}");
    let files = ["--plot", &svg, "--output", &model];
    let private = dp(&[&fast[..], PRIVATE, &files].concat());
    assert!(text(&private.stderr).contains("NOT PRIVATE"), "a public seed is pointed out");
    let report = json(&private);
    assert_eq!((&report["steps"], &report["parameters"]), (&96.into(), &650.into()));
    let guarantee = report["guarantee"].as_str().unwrap();
    for part in ["(2, 1e-5)-differentially private", "2 times, 48 steps apart", "NOTHING IS PRIVATE"] {
        assert!(guarantee.contains(part), "{guarantee}");
    }
    assert!(fs::read_to_string(svg).unwrap().contains("<svg"));
    let model: Value = serde_json::from_str(&fs::read_to_string(model).unwrap()).unwrap();
    assert_eq!(model["parameters"].as_array().unwrap().len(), 650);
    // The same seed gives the same model, and the table says what the JSON says.
    let again = dp(&[&fast[..7], PRIVATE].concat());
    let accuracy = format!("{:.1} %", 100.0 * report["test_accuracy"].as_f64().unwrap());
    assert!(text(&again.stdout).contains(&format!("test examples: {accuracy}")), "{}", text(&again.stdout));
}

#[test]
fn learns_from_a_table_and_continues_where_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let data = table(directory.path());
    let state = directory.path().join("state").to_str().unwrap().to_owned();
    let base = ["train", "--data", &data, "--epochs", "3", "--model", "network", "--hidden", "4", "--json"];
    let with = |more: &[&str]| dp(&[&base[..], COLUMNS, PRIVATE, &["--test-rows", "12"], more].concat());
    let whole = json(&with(&[]));
    assert_eq!((&whole["training_examples"], &whole["test_examples"]), (&48.into(), &12.into()));
    let unprotected = whole["not_protected"].to_string();
    assert!(unprotected.contains("the last 12 rows"), "{unprotected}");
    let kept = json(&with(&["--state", &state]));
    assert_eq!(outcome(&kept), outcome(&whole));
    // Finished trainings show their result again; the noise is not used for another training.
    assert_eq!(outcome(&json(&with(&["--state", &state]))), outcome(&whole));
    let other = with(&["--state", &state, "--order", "9"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("other settings"), "{}", text(&other.stderr));
    // A crash between the state of the noise and the model's file.
    fs::write(format!("{state}.model"), "{}").unwrap();
    let damaged = with(&["--state", &state]);
    assert!(text(&damaged.stderr).contains("is not a saved model"), "{}", text(&damaged.stderr));
}

#[test]
fn a_killed_training_continues_to_the_same_model() {
    let directory = tempfile::tempdir().unwrap();
    let data = table(directory.path());
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (state, whole, continued) = (at("state"), at("whole.json"), at("continued.json"));
    // 144 steps, each synchronized to the disk.
    let base = ["train", "--data", &data, "--epochs", "3", "--batch", "1", "--strategy", "sqrt"];
    let base = [&base[..], COLUMNS, PRIVATE].concat();
    assert!(dp(&[&base[..], &["--output", &whole]].concat()).status.success());
    let durable = [&base[..], &["--state", &state, "--output", &continued]].concat();
    for kill in 1..=3 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dp"))
            .args(&durable)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed as soon as the model has changed a few times since the last kill, or after it has ended by itself.
        let model = format!("{state}.model");
        let steps = || fs::read(&model).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let reached = |value: Value| value["step"].as_u64().is_some_and(|step| step >= 20 * kill);
        while !steps().is_some_and(reached) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let _ = child.kill();
        child.wait().unwrap();
    }
    let finished = dp(&durable);
    assert!(finished.status.success(), "{}", text(&finished.stderr));
    assert_eq!(fs::read_to_string(continued).unwrap(), fs::read_to_string(whole).unwrap());
}

#[test]
fn refuses_with_the_place_and_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let good = table(directory.path());
    let file = |name: &str, rows: &str| {
        let path = directory.path().join(name);
        fs::write(&path, rows).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ragged = file("ragged.csv", "a,answer,b\n1,yes,2\n1,yes\n");
    let hole = file("hole.csv", "a,answer,b\n1,yes,2\n1,yes,NaN\n");
    let empty = file("empty.csv", "");
    let strange = file("strange.csv", "a,answer,b\n1,maybe,2\n");
    let narrow = file("narrow.csv", "a,answer\n1,yes\n");
    let cases: [(&str, &[&str], i32, &str); 26] = [
        (&ragged, COLUMNS, 1, "row 2 has 2 values"),
        (&hole, COLUMNS, 1, "row 2, column `b`: not a finite number"),
        (&empty, COLUMNS, 1, "no examples"),
        (&strange, COLUMNS, 1, "row 1: the label is not among the classes"),
        ("nowhere.csv", COLUMNS, 1, "cannot read `nowhere.csv`"),
        (&good, &[], 2, "--classes and --bounds"),
        (
            &good,
            &["--label", "x", "--classes", "no,yes", "--bounds", "0:1"],
            1,
            "choose one of: a, answer, b",
        ),
        ("digits", &["--batch", "0"], 2, "batch size"),
        ("digits", &["--rate", "-1"], 2, "learning rate = -1"),
        ("digits", &["--strategy", "magic"], 2, "magic"),
        ("digits", &["--strategy", "none"], 2, "neither a budget nor a state"),
        // Private rows are never scored unless they are named as unprotected.
        ("digits", &["--validation-rows", "14"], 2, "unexpected argument"),
        ("digits", &["--test-rows", "5"], 2, "test examples of their own"),
        (&good, &[COLUMNS, &["--test-rows", "60"]].concat(), 2, "cannot be held back"),
        (&good, &[COLUMNS, &["--person", "a", "--test-rows", "5"]].concat(), 2, "a file of others"),
        (&good, &[COLUMNS, &["--test", &narrow]].concat(), 2, "1 features"),
        (&good, &[COLUMNS, &["--plot", "no.svg"]].concat(), 2, "--plot draws scores"),
        (&good, &[COLUMNS, &["--output", &good]].concat(), 2, "read and written over"),
        ("digits", &["--person", "who"], 2, "another person"),
        (&good, &[COLUMNS, &["--person", "who"]].concat(), 1, "choose one of: a, answer, b"),
        ("digits", &["--clip-quantile", "1"], 2, "quantile = 1"),
        ("digits", &["--last-rate", "0.1"], 2, "a constant rate has no last one"),
        ("digits", &["--schedule", "cosine", "--last-rate", "0"], 2, "last learning rate"),
        // What cannot fit in memory is refused with its size.
        ("digits", &["--model", "network", "--hidden", "1000000000000000000"], 2, "7500000000000000"),
        ("digits", &["--model", "network", "--hidden", "100000000"], 2, "7500000010"),
        ("digits", &["--epochs", "134217729"], 2, "number of steps = 48318382440"),
    ];
    for (data, arguments, code, message) in cases {
        let output = dp(&[&["train", "--data", data][..], PRIVATE, arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{message}: {}", text(&output.stderr));
        // What stands in a row is somebody's data, and messages are read by others.
        assert!(!text(&output.stderr).contains("maybe"), "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("NaN"), "{}", text(&output.stderr));
    }
    assert!(text(&dp(&["train"]).stderr).contains("no privacy budget"));
}

/// Two data sets that differ in one private row: without noise in the way (a seed that is public), nothing but the model
/// may differ, and scores only where public examples were named for them.
#[test]
fn private_rows_are_not_scored() {
    let directory = tempfile::tempdir().unwrap();
    let data = table(directory.path());
    let base = ["train", "--data", &data, "--batch", "10", "--strategy", "sqrt", "--json"];
    let with = |more: &[&str]| json(&dp(&[&base[..], COLUMNS, PRIVATE, more].concat()));
    let unscored = with(&[]);
    assert_eq!(unscored["training_examples"], 60, "nobody is held back unasked");
    assert!(unscored.get("test_accuracy").is_none() && unscored["epochs"][0].get("loss").is_none());
    let public = directory.path().join("public.csv").to_str().unwrap().to_owned();
    fs::write(&public, "a,answer,b\n1,no,50\n50,yes,1\n2,no,40\n").unwrap();
    let scored = with(&["--test", &public]);
    assert_eq!((&scored["training_examples"], &scored["test_examples"]), (&60.into(), &3.into()));
    assert!(scored["test_accuracy"].is_number());
    assert!(scored["not_protected"].to_string().contains("public.csv"), "{scored}");
    assert!(!unscored["not_protected"].to_string().contains("scored"), "{unscored}");
}

#[test]
fn people_with_several_rows_are_protected_as_people() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("visits.csv").to_str().unwrap().to_owned();
    let row = |i: usize| {
        format!("{},{},{},p{}\n", i * 37 % 60, if i.is_multiple_of(3) { "yes" } else { "no" }, i % 60, i % 20)
    };
    fs::write(&data, format!("a,answer,b,who\n{}", (0..60).map(row).collect::<String>())).unwrap();
    let base = ["train", "--data", &data, "--batch", "5", "--strategy", "sqrt", "--person", "who", "--json"];
    let settings = ["--optimizer", "adam", "--schedule", "linear", "--rate", "0.01"];
    let report = json(&dp(&[&base[..], COLUMNS, PRIVATE, &settings].concat()));
    assert_eq!(
        (&report["people"], &report["training_examples"], &report["steps"]),
        (&20.into(), &60.into(), &4.into())
    );
    let guarantee = report["guarantee"].as_str().unwrap();
    assert!(guarantee.contains("any one person's data"), "{guarantee}");
    assert!(!report["not_protected"].to_string().contains("each row is protected by itself"), "{report}");
}

#[test]
fn what_is_protected_is_said_also_where_it_was_not_asked_for() {
    let train = [
        "train",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--strategy",
        "sqrt",
        "--epochs",
        "1",
        "--batch",
        "360",
    ];
    for (relation, protected) in [
        (&[][..], "whether any one training example was used at all"),
        (&["--relation", "replace"], "what any one training example was"),
    ] {
        let output = dp(&[&train[..], relation].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(protected), "{said}");
    }
}

#[test]
fn compares_strategies_and_draws_them() {
    let directory = tempfile::tempdir().unwrap();
    let svg = directory.path().join("learning.svg").to_str().unwrap().to_owned();
    let base = ["compare-training", "--batch", "90", "--runs", "2", "--epsilons", "0.5,64"];
    let names = ["--strategies", "none,identity,sqrt,optimal:momentum"];
    let report = json(&dp(&[&base[..], &names, &["--plot", &svg, "--json"]].concat()));
    let strategies = report["strategies"].as_array().unwrap();
    let cells: Vec<usize> =
        strategies.iter().map(|row| row["accuracies"].as_array().unwrap().len()).collect();
    assert_eq!(cells, [1, 2, 2, 2]);
    for row in &strategies[2..] {
        assert!(
            row["accuracies"][0]["lead"].is_number() && row["accuracies"][1]["lead"].is_number(),
            "{row}"
        );
    }
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.contains("<svg") && svg.contains("optimal for momentum"));
    let table = dp(&[&base[..], &names].concat());
    assert!(text(&table.stdout).contains("sqrt over identity"), "{}", text(&table.stdout));
    let unknown = dp(&[&base[..], &["--strategies", "sqrt:window"]].concat());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("neither momentum nor count"), "{}", text(&unknown.stderr));
}

/// People who are drawn at random: what is promised lists all that it rests on, a state continues to the same model, other data
/// is refused, and so is what cannot be promised.
#[test]
fn draws_people_at_random_and_says_all_that_the_guarantee_rests_on() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let base = ["train", "--sampling", "cyclic-poisson", "--batch", "30", "--epochs", "2"];
    let report = json(&dp(&[&base[..], PRIVATE, &["--json"]].concat()));
    let sampling = &report["sampling"];
    let groups = sampling["groups"].as_u64().unwrap();
    assert!((sampling["rate"].as_f64().unwrap() - groups as f64 / 48.0).abs() < 1e-12, "{sampling}");
    assert_eq!((&sampling["expected_batch"], &report["steps"]), (&30.into(), &96.into()));
    assert_eq!(sampling["bands"].as_array().unwrap().len(), 7, "1, 2, 4, …, 32 and 48 bands");
    let guarantee = report["guarantee"].as_str().unwrap();
    for part in
        ["(2, 1e-5)-differentially private", "added or removed", "keyed hash", "in secret", "expected size"]
    {
        assert!(guarantee.contains(part), "{part}: {guarantee}");
    }
    assert!(report["not_protected"].to_string().contains("who was drawn"), "{report}");
    let printed = text(&dp(&[&base[..], PRIVATE, &["--capacity", "90", "--bands", "2"]].concat()).stdout);
    assert!(printed.contains("bands and groups") && printed.contains("room for 90 people"), "{printed}");

    // Through a state: the same model as without one.
    let (state, model, whole) = (at("state"), at("model.json"), at("whole.json"));
    for (output, state) in [(&whole, &[][..]), (&model, &["--state", &state])] {
        json(&dp(&[&base[..], PRIVATE, &["--json", "--output", output], state].concat()));
    }
    assert_eq!(fs::read(&whole).unwrap(), fs::read(&model).unwrap());

    let more: &[&str] = &["--sampling", "cyclic-poisson", "--bands", "49", "--batch", "30"];
    let cases: [(&[&str], &str); 6] = [
        (more, "groups = 49"),
        (&["--bands", "2"], "belong to --sampling"),
        (&["--sampling", "cyclic-poisson", "--relation", "replace"], "leave out --relation replace"),
        (&["--sampling", "cyclic-poisson", "--strategy", "sqrt"], "few bands"),
        (&["--sampling", "cyclic-poisson", "--batch", "30", "--capacity", "40"], "capacity = 40"),
        (&["--sampling", "cyclic-poisson", "--batch", "2000"], "batch size = 2000"),
    ];
    for (arguments, message) in cases {
        let budget = ["train", "--epsilon", "2", "--delta", "1e-5", "--seed", "7"];
        let output = dp(&[&budget[..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{message}: {}", text(&output.stderr));
    }
    let gaussian = dp(&["train", "--mu", "1", "--sampling", "cyclic-poisson", "--batch", "30"]);
    assert!(text(&gaussian.stderr).contains("one delta at a time"), "{}", text(&gaussian.stderr));
}

/// A state belongs to its data: one changed value is another training.
#[test]
fn a_state_is_refused_for_other_data() {
    let directory = tempfile::tempdir().unwrap();
    let data = table(directory.path());
    let state = directory.path().join("state").to_str().unwrap().to_owned();
    let run = || {
        let base = ["train", "--data", &data, "--batch", "10", "--strategy", "sqrt", "--state", &state];
        dp(&[&base[..], COLUMNS, PRIVATE].concat())
    };
    assert!(run().status.success() && run().status.success());
    let rows = fs::read_to_string(&data).unwrap();
    fs::write(&data, rows.replacen("37,", "38,", 1)).unwrap();
    let refused = run();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("other data"), "{}", text(&refused.stderr));
    fs::write(&data, rows).unwrap();
    assert!(run().status.success());
}

/// The same rows as CSV and as Parquet make the same model.
#[test]
fn learns_from_parquet_what_it_learns_from_csv() {
    use std::sync::Arc;

    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let directory = tempfile::tempdir().unwrap();
    let csv = table(directory.path());
    let (mut a, mut answer, mut b) = (Vec::new(), Vec::new(), Vec::new());
    for line in fs::read_to_string(&csv).unwrap().lines().skip(1) {
        let mut fields = line.split(',');
        a.push(fields.next().unwrap().parse::<i32>().unwrap());
        answer.push(ByteArray::from(fields.next().unwrap()));
        b.push(fields.next().unwrap().parse::<f64>().unwrap());
    }
    let parquet = directory.path().join("people.parquet").to_str().unwrap().to_owned();
    let schema = "message rows { required int32 a; required binary answer (UTF8); required double b; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer =
        SerializedFileWriter::new(fs::File::create(&parquet).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int32Type>().write_batch(&a, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&answer, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<DoubleType>().write_batch(&b, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();

    let model = |data: &str, name: &str| {
        let output = directory.path().join(name).to_str().unwrap().to_owned();
        let base = ["train", "--data", data, "--batch", "10", "--strategy", "sqrt", "--output", &output];
        let done = dp(&[&base[..], COLUMNS, PRIVATE].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        fs::read(output).unwrap()
    };
    assert_eq!(model(&csv, "csv.json"), model(&parquet, "parquet.json"));
    let wrong = ["train", "--data", &parquet, "--label", "x", "--classes", "no,yes", "--bounds", "0:1"];
    let refused = dp(&[&wrong[..], PRIVATE].concat());
    assert!(text(&refused.stderr).contains("choose one of: a, answer, b"), "{}", text(&refused.stderr));
    let nowhere = dp(&[&["train", "--data", "nowhere.parquet"][..], COLUMNS, PRIVATE].concat());
    assert_eq!(nowhere.status.code(), Some(1), "{}", text(&nowhere.stderr));
}
