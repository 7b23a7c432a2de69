//! Rows per second from a wide file of events to a sealed and published dashboard, beside a plain reader of the same file.
//!
//! `cargo bench -p dp-benches --bench events -- [ROWS]` prints both and the ratio, and the memory of a file that is four times
//! as long.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;

use dp_benches::{Spent, peak_bytes};
use dp_events::{Dashboard, Randomness, Spec};

/// How often everything is measured.
const ROUNDS: usize = 3;

const SPEC: &str = r#"
[privacy]
epsilon = 1.0
delta = 1e-6
protects = "person"
relation = "zero-out"
[input]
files = ["events.csv"]
time = "date"
person = "who"
[limits]
rows_per_step = 1
steps = 3
[steps]
length = "1 day"
first = "2026-01-01"
last = "2026-01-28"
[[release]]
name = "visits"
statistics = ["total", "step"]
by = { column = "region", values = ["North", "South", "East"], other = "Elsewhere" }
[[release]]
name = "cost"
value = { column = "cost", bounds = [0, 500] }
statistics = ["total", "mean"]
[output]
folder = "public"
"#;

/// Twenty columns, of which four are used.
fn write_rows(path: &Path, rows: usize) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("the folder is ours"));
    let names: Vec<String> = (0..16).map(|column| format!("unused_{column}")).collect();
    writeln!(file, "date,{},who,region,cost", names.join(",")).expect("there is room");
    let mut state = 1_u64;
    let mut line = String::new();
    for row in 0..rows {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = state >> 33;
        line.clear();
        let _ = write!(line, "2026-01-{:02}", 1 + row * 28 / rows);
        for column in 0..16 {
            let _ = write!(line, ",{}", (number >> column) % 100_000);
        }
        let region = ["North", "South", "East", "West"][number as usize % 4];
        let _ = write!(line, ",p{},{region},{}.{}", number % 50_000, number % 600, number % 10);
        writeln!(file, "{line}").expect("there is room");
    }
}

/// All fields of all rows, and nothing done with them.
fn read_plainly(path: &Path) -> usize {
    let mut reader = csv::Reader::from_path(path).expect("the file is there");
    let mut record = csv::ByteRecord::new();
    let mut fields = 0;
    while reader.read_byte_record(&mut record).expect("the file is well formed") {
        fields += record.len();
    }
    fields
}

/// The first run of a dashboard, with a state of its own: the time of planning, and of everything else.
fn publish(folder: &Path, run: usize) -> (Spent, Spent) {
    let text = format!("{SPEC}state = \"state-{run}\"\n");
    let spec = Spec::parse(&text, &folder.join("dashboard.toml")).expect("the description is right");
    let dashboard = Dashboard::new(spec).expect("the description is right");
    let planning = Spent::on(|| {
        dashboard.planned().expect("the budget is right");
    });
    let until = dashboard.spec().calendar.read_instant("2026-02-01").expect("a date");
    let running = Spent::on(|| {
        black_box(dashboard.run(until, Randomness::Reproducible(1)).expect("the rows are right"));
    });
    (planning, running)
}

fn main() {
    let rows: usize = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(800_000);
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let input = folder.path().join("events.csv");
    write_rows(&input, rows);
    let size = std::fs::metadata(&input).map_or(0, |file| file.len());
    assert_eq!(read_plainly(&input), 20 * rows);
    println!("{rows} rows, {:.0} bytes each", size as f64 / rows as f64);
    // In turns, so that other work on the machine disturbs both alike; nothing but planning has more than one thread.
    let turns = (0..ROUNDS).map(|run| {
        let plain = Spent::on(|| _ = black_box(read_plainly(&input)));
        let (planning, running) = publish(folder.path(), run);
        [plain, planning, running]
    });
    let together = turns.reduce(|left, right| [0, 1, 2].map(|i| left[i].and(right[i])));
    let [plain, planning, running] = together.expect("there is a round");
    let all = (rows * ROUNDS) as f64;
    for (name, spent) in [("plain reader", plain), ("dashboard", running)] {
        println!(
            "{name:<13} {:.2} million rows a second by the clock, {:.2} by processor time",
            rows as f64 / spent.elapsed.as_secs_f64() / 1e6,
            all / spent.processor.as_secs_f64() / 1e6
        );
    }
    println!(
        "ratio         {:.2} by the clock, {} by processor time; planning before the first row: {:.2} s",
        running.elapsed.as_secs_f64() / plain.elapsed.as_secs_f64(),
        running.processor_ratio(&plain),
        planning.elapsed.as_secs_f64()
    );
    let few = peak_bytes();
    write_rows(&input, 4 * rows);
    publish(folder.path(), ROUNDS);
    if let (Some(few), Some(many)) = (few, peak_bytes()) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "memory        {:.1} MiB at most, and {:.1} MiB after four times as many rows of the same people",
            mib(few),
            mib(many)
        );
    }
}
