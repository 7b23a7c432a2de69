//! Dashboards and trainings: commands that keep a folder of files, with small requests that can be continued.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::subject::{dp, text};

/// A small dashboard of everything that a dashboard can publish.
pub(crate) const DASHBOARD: &str = r#"
[privacy]
epsilon = 1.0
delta = 1e-6
protects = "person"
relation = "zero-out"
[input]
files = ["rows.csv"]
time = "date"
person = "who"
[limits]
rows_per_step = 1
steps = 2
[steps]
length = "1 day"
first = "2026-01-01"
last = "2026-01-08"
[[release]]
name = "visits"
statistics = ["total", "window:2", "step"]
by = { column = "place", values = ["here", "there"] }
[[release]]
name = "cost"
value = { column = "cost", bounds = [0, 50] }
statistics = ["total", "mean"]
[[release]]
name = "people"
of = "people"
statistics = ["total"]
[[release]]
name = "waiting"
value = { column = "cost", bounds = [0, 50], resolution = 10 }
statistics = ["quantile:0.5"]
[output]
folder = "public"
"#;

pub(crate) const VISITS: &str = "date,who,place,cost\n2026-01-01,p,here,10\n2026-01-02,q,there,20\n2026-01-03,p,here,90\n\
                                 2026-01-03,r,there,5.5\n2026-01-04,s,here,30\n2026-01-05,s,nowhere,1\n";

/// A request whose files lie in a folder, made by a first run.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// What it reads from others.
    pub(crate) inputs: &'static [&'static str],
    /// What it keeps for itself.
    pub(crate) kept: &'static [&'static str],
    /// The commands that read these files; the first makes what is kept.
    pub(crate) commands: &'static [&'static [&'static str]],
}

const RUN: &[&str] = &["run", "dashboard.toml", "--until", "2026-01-05", "--reproducible-seed", "3"];
const LATER: &[&str] = &["run", "dashboard.toml", "--until", "2026-01-07", "--reproducible-seed", "3"];
const WORKERS: &[&str] =
    &["run", "dashboard.toml", "--until", "2026-01-07", "--reproducible-seed", "3", "--workers", "2"];
const CHANGED: &[&str] =
    &["run", "dashboard.toml", "--until", "2026-01-07", "--reproducible-seed", "3", "--accept-change"];
const CHECK: &[&str] = &["check", "dashboard.toml", "--rows"];
const LEDGER: &[&str] = &["ledger", "dashboard.state"];
const KEPT: &[&str] = &[
    "dashboard.state/sealed",
    "dashboard.state/key",
    "dashboard.state/key.mark",
    "public/visits.csv",
    "public/index.html",
];
const TRAINING: &[&str] =
    &["state", "state.key", "state.key.mark", "state.model", "state.plan", "model.json"];

macro_rules! train {
    ($data:literal) => {
        &[
            "train",
            "--data",
            $data,
            "--label",
            "answer",
            "--classes",
            "no,yes",
            "--bounds",
            "0:60",
            "--batch",
            "10",
            "--strategy",
            "sqrt",
            "--epsilon",
            "2",
            "--delta",
            "1e-5",
            "--relation",
            "zero-out",
            "--seed",
            "7",
            "--test",
            "public.csv",
            "--state",
            "state",
            "--output",
            "model.json",
        ]
    };
}

pub(crate) const PLACES: [Place; 4] = [
    Place {
        name: "dashboard",
        inputs: &["dashboard.toml", "rows.csv"],
        kept: KEPT,
        commands: &[RUN, LATER, CHECK, WORKERS, LEDGER, CHANGED],
    },
    Place {
        name: "dashboard of Parquet",
        inputs: &["dashboard.toml", "rows.parquet"],
        kept: KEPT,
        commands: &[RUN, LATER, CHECK, WORKERS],
    },
    Place {
        name: "training",
        inputs: &["people.csv", "public.csv"],
        kept: TRAINING,
        commands: &[train!("people.csv")],
    },
    Place {
        name: "training on Parquet",
        inputs: &["people.parquet", "public.csv"],
        kept: TRAINING,
        commands: &[train!("people.parquet")],
    },
];

impl Place {
    /// Writes the inputs.
    pub(crate) fn prepare(&self, at: &Path) {
        for input in self.inputs {
            match *input {
                "dashboard.toml" if self.inputs.contains(&"rows.parquet") => {
                    fs::write(at.join(input), DASHBOARD.replace("rows.csv", "rows.parquet")).unwrap();
                }
                "dashboard.toml" => fs::write(at.join(input), DASHBOARD).unwrap(),
                "rows.csv" => fs::write(at.join(input), VISITS).unwrap(),
                "rows.parquet" => parquet(&at.join(input), VISITS, &["cost"]),
                "people.csv" => fs::write(at.join(input), people(60)).unwrap(),
                "people.parquet" => parquet(&at.join(input), &people(60), &["a", "b"]),
                _ => fs::write(at.join(input), "a,answer,b\n1,no,50\n50,yes,1\n").unwrap(),
            }
        }
    }

    /// Writes the inputs and runs the first command.
    pub(crate) fn make(&self, at: &Path) {
        self.prepare(at);
        let first = dp(at, self.commands[0]);
        assert!(first.status.success(), "{}: {}", self.name, text(&first.stderr));
    }
}

/// Whoever has `a` above `b` says yes.
pub(crate) fn people(rows: u32) -> String {
    let row = |i: u32| {
        let (a, b) = (i * 37 % 60, i * 23 % 60 + 1);
        format!("{a},{},{b}\n", if a > b { "yes" } else { "no" })
    };
    format!("a,answer,b\n{}", (0..rows).map(row).collect::<String>())
}

/// The rows of a CSV file without quotes as Parquet: numbers where they are named so, texts elsewhere.
fn parquet(path: &Path, rows: &str, numbers: &[&str]) {
    let mut lines = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    let field = |name: &&str| {
        if numbers.contains(name) {
            format!("required double {name};")
        } else {
            format!("required binary {name} (UTF8);")
        }
    };
    let fields: String = header.iter().map(field).collect();
    let schema = Arc::new(parse_message_type(&format!("message rows {{ {fields} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(fs::File::create(path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (index, name) in header.iter().enumerate() {
        let values = rows.iter().map(|row| row[index]);
        let mut column = group.next_column().unwrap().unwrap();
        if numbers.contains(name) {
            let values: Vec<f64> = values.map(|value| value.parse().unwrap()).collect();
            column.typed::<DoubleType>().write_batch(&values, None, None).unwrap();
        } else {
            let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}
