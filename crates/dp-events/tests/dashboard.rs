//! Whole runs: what is published, against what is counted by hand, and what must not depend on data.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dp_events::{Dashboard, Error, Ledger, Outcome, Randomness, Spec};
use dp_tests::description::Description;

/// A folder with a description and files.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(spec: &str, files: &[(&str, &str)]) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.write("dashboard.toml", spec);
        for (name, text) in files {
            place.write(name, text);
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn dashboard(&self) -> Dashboard {
        Dashboard::new(Spec::load(&self.path("dashboard.toml")).unwrap()).unwrap()
    }

    fn run(&self, until: &str) -> Result<Outcome, Error> {
        let dashboard = self.dashboard();
        let until = dashboard.spec().calendar.read_instant(until).unwrap();
        dashboard.run(until, Randomness::Reproducible(7))
    }

    /// Everything published, by name.
    fn published(&self) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(self.path("public")).unwrap();
        entries
            .map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let text = self.read(&format!("public/{name}"));
                (name, text)
            })
            .collect()
    }
}

/// The example of the guide, over fewer steps and with a budget at which noise is smaller than what it hides.
const EXAMPLE: &str = r#"
[privacy]
rho = 2e6
protects = "person"
relation = "zero-out"

[input]
files = ["cases.csv"]
time = "date"
person = "patient"

[limits]
rows_per_step = 1
steps = 3
separation = 1

[steps]
length = "1 day"
first = "2026-01-01"
last = "2026-03-01"
late = "drop"

[[release]]
name = "cases"
statistics = ["total", "window:7", "step", "average", "exp:1.5", "poly:0.5"]
by = { column = "region", values = ["North", "South"], other = "Elsewhere" }
share = 2

[[release]]
name = "cost"
value = { column = "cost", bounds = [0, 500] }
statistics = ["total", "mean"]

[[release]]
name = "patients"
of = "people"
statistics = ["total"]

[[release]]
name = "waiting"
value = { column = "wait_minutes", bounds = [0, 240], resolution = 1 }
statistics = ["quantile:0.5", "quantile:0.9"]

[output]
folder = "public"
"#;

const HEADER: &str = "date,patient,region,cost,wait_minutes\n";

/// A small generator, so that the invented rows need no dependency.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[derive(Clone)]
struct Event {
    day: usize,
    patient: u64,
    region: &'static str,
    cost: f64,
    wait: u64,
}

impl Event {
    fn line(&self) -> String {
        format!("{},p{},{},{:.1},{}\n", date(self.day), self.patient, self.region, self.cost, self.wait)
    }
}

fn date(day: usize) -> String {
    let (month, day) = match day {
        0..31 => (1, day + 1),
        31..59 => (2, day - 30),
        _ => (3, day - 58),
    };
    format!("2026-{month:02}-{day:02}")
}

/// Sixty days of visits, in the order of days.
fn events(seed: u64) -> Vec<Event> {
    let mut numbers = Numbers(seed);
    let mut events = Vec::new();
    for day in 0..60 {
        for _ in 0..20 + numbers.below(20) {
            let region = ["North", "South", "West", "East"][numbers.below(4) as usize];
            let cost = numbers.below(6000) as f64 / 10.0;
            events.push(Event { day, patient: numbers.below(300), region, cost, wait: numbers.below(300) });
        }
    }
    events
}

/// The events that count under the limits of the example, by reading the rule again.
fn counted(events: &[Event]) -> Vec<Event> {
    let mut used: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut kept = Vec::new();
    for event in events {
        let days = used.entry(event.patient).or_default();
        if days.contains(&event.day) || days.len() == 3 {
            continue;
        }
        days.push(event.day);
        kept.push(event.clone());
    }
    kept
}

/// The lines of a table as maps from column to field.
fn table(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            header.iter().zip(line.split(',')).map(|(a, b)| ((*a).to_owned(), b.to_owned())).collect()
        })
        .collect()
}

fn field(line: &BTreeMap<String, String>, name: &str) -> f64 {
    line[name].parse().unwrap()
}

fn csv(events: &[Event]) -> String {
    let lines: String = events.iter().map(Event::line).collect();
    format!("{HEADER}{lines}")
}

/// The numbers are what a direct count of the rows gives, within the noise: with this budget every deviation is known, and
/// six of them bound all numbers of the test at once (some 2000 numbers, so a correct program fails less than once in 2e5
/// seeds; the seed is fixed).
#[test]
fn numbers_are_those_counted_by_hand() {
    let events = events(1);
    let place = Place::new(EXAMPLE, &[("cases.csv", &csv(&events))]);
    assert_eq!(place.run("2026-03-02").unwrap().published, 60);
    let kept = counted(&events);
    let region = |event: &Event| match event.region {
        "North" => "North",
        "South" => "South",
        _ => "Elsewhere",
    };
    let mut noise = Vec::new();
    for line in table(&place.read("public/cases.csv")) {
        let step = field(&line, "step") as usize;
        let of_day = |day: usize| {
            kept.iter().filter(|event| event.day == day && region(event) == line["region"]).count() as f64
        };
        let weight = |age: usize| match line["statistic"].as_str() {
            "total" => 1.0,
            "step" => f64::from(u8::from(age == 0)),
            "window:7" => f64::from(u8::from(age < 7)),
            "average" => 1.0 / step as f64,
            "exp:1.5" => 1.5_f64.powf(-(age as f64)),
            _ => ((age + 1) as f64).powf(-0.5),
        };
        let truth: f64 = (0..step).map(|day| weight(step - 1 - day) * of_day(day)).sum();
        let (value, deviation) = (field(&line, "value"), field(&line, "standard_deviation"));
        // Counts are rounded to whole numbers.
        assert!((value - truth).abs() <= 6.0 * deviation + 0.5, "{line:?}: {truth}");
        assert!(
            (field(&line, "high") - field(&line, "low") - 2.0 * 1.96 * deviation).abs()
                < 0.01 * deviation + 1e-3
        );
        if line["statistic"] == "exp:1.5" {
            noise.push((value - truth) / deviation);
        }
        assert_eq!(line["time"], date(step - 1));
    }
    // 180 normal values, correlated in time: their mean square is near 1 unless the deviation is wrong by a third.
    let mean_square = noise.iter().map(|value| value * value).sum::<f64>() / noise.len() as f64;
    assert!((0.6..1.6).contains(&mean_square), "{mean_square}");
    for line in table(&place.read("public/cost.csv")) {
        let step = field(&line, "step") as usize;
        let costs: Vec<f64> =
            kept.iter().filter(|event| event.day < step).map(|event| event.cost.min(500.0)).collect();
        let truth = match line["statistic"].as_str() {
            "total" => costs.iter().sum::<f64>(),
            _ => costs.iter().sum::<f64>() / costs.len() as f64,
        };
        let deviation = field(&line, "standard_deviation");
        assert!((field(&line, "value") - truth).abs() <= 6.0 * deviation + 1e-3 * truth, "{line:?}: {truth}");
    }
    for line in table(&place.read("public/patients.csv")) {
        let step = field(&line, "step") as usize;
        let people: std::collections::BTreeSet<u64> =
            kept.iter().filter(|event| event.day < step).map(|event| event.patient).collect();
        let deviation = field(&line, "standard_deviation");
        assert!((field(&line, "value") - people.len() as f64).abs() <= 6.0 * deviation + 0.5, "{line:?}");
    }
    for line in table(&place.read("public/waiting.csv")) {
        let step = field(&line, "step") as usize;
        let part: f64 = line["statistic"].strip_prefix("quantile:").unwrap().parse().unwrap();
        let mut waits: Vec<u64> =
            kept.iter().filter(|event| event.day < step).map(|event| event.wait.min(240)).collect();
        waits.sort_unstable();
        let rank = |value: f64| waits.iter().filter(|wait| (**wait as f64) <= value).count() as f64;
        // Fewer rows than the rank are below the band, and at least as many up to its upper end.
        let goal = part * waits.len() as f64;
        assert!(rank(field(&line, "low") - 1.0) <= goal + 1.0, "{line:?}");
        assert!(rank(field(&line, "high")) + 1.0 >= goal, "{line:?}");
    }
}

/// Sixty daily runs over a file that grows equal one run at the end, to the last bit; a run with nothing new changes nothing.
#[test]
fn daily_runs_equal_one_run() {
    let events = events(2);
    let whole = Place::new(EXAMPLE, &[("cases.csv", &csv(&events))]);
    whole.run("2026-03-02").unwrap();
    let daily = Place::new(EXAMPLE, &[]);
    for day in (0..60).step_by(6) {
        let so_far: Vec<Event> = events.iter().filter(|event| event.day < day + 6).cloned().collect();
        daily.write("cases.csv", &csv(&so_far));
        let end = if day + 6 < 60 { date(day + 6) } else { "2026-03-02".to_owned() };
        assert_eq!(daily.run(&end).unwrap().published, day + 6);
        let sealed = std::fs::read(daily.path("dashboard.state/sealed")).unwrap();
        assert_eq!(daily.run(&end).unwrap().before, day + 6);
        assert_eq!(sealed, std::fs::read(daily.path("dashboard.state/sealed")).unwrap());
    }
    assert_eq!(whole.published(), daily.published());
    // The same rows as files of their own, in a folder.
    let folder = Place::new(&EXAMPLE.replace("\"cases.csv\"", "\"in\""), &[]);
    std::fs::create_dir(folder.path("in")).unwrap();
    for (name, range) in [("a.csv", 0..20), ("b.csv", 20..45), ("c.csv", 45..60)] {
        let part: Vec<Event> = events.iter().filter(|event| range.contains(&event.day)).cloned().collect();
        folder.write(&format!("in/{name}"), &csv(&part));
        folder.run(&if range.end < 60 { date(range.end) } else { "2026-03-02".to_owned() }).unwrap();
    }
    assert_eq!(whole.published(), folder.published());
}

/// A secret that is on disk would be found: no identifier stands in any file that a run writes.
#[test]
fn no_identifier_is_kept_in_clear() {
    let lines = "2026-01-01,Xanthippe-4711,North,1.0,3\n2026-01-02,Xanthippe-4711,North,1.0,3\n";
    let place = Place::new(EXAMPLE, &[("cases.csv", &format!("{HEADER}{lines}"))]);
    place.run("2026-01-03").unwrap();
    let mut folders = vec![place.path("dashboard.state"), place.path("public")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(9).any(|window| window == b"Xanthippe"), "{}", path.display());
            files += 1;
        }
    }
    assert!(files >= 12, "{files}");
}

/// Two inputs that differ in one person, who has good, bad, late and surplus rows: the same lines, keys, times, message and
/// files, and states of the same size.
#[test]
fn one_person_changes_nothing_but_values() {
    let others = events(3);
    let mine = [
        "2026-01-05,me,North,9.0,3\n",
        "2026-01-05,me,South,9.0,3\n",
        "nonsense,me,North,x,y\n",
        "2026-01-09,me\n",
    ];
    let late = "2026-01-02,me,North,1.0,1\n2026-02-01,me,Nowhere,1e9,-7\n";
    let shape = |with: bool, bad_spec: &str| {
        let early: Vec<Event> = others.iter().filter(|event| event.day < 20).cloned().collect();
        let mut text = csv(&early);
        let place = Place::new(bad_spec, &[]);
        if with {
            text.push_str(&mine.concat());
        }
        place.write("cases.csv", &text);
        let first = place.run("2026-01-21").unwrap();
        if with {
            text.push_str(late);
        }
        place.write("cases.csv", &text);
        let second = place.run("2026-02-10").unwrap();
        let tables: Vec<(String, Vec<Vec<String>>)> = place
            .published()
            .into_iter()
            .filter(|(name, _)| Path::new(name).extension().is_some_and(|ending| ending == "csv"))
            .map(|(name, text)| {
                let values = ["value", "standard_deviation", "low", "high"];
                let fixed = |line: BTreeMap<String, String>| {
                    line.into_iter()
                        .filter(|(column, _)| !values.contains(&column.as_str()))
                        .map(|(_, text)| text)
                        .collect()
                };
                (name, table(&text).into_iter().map(fixed).collect())
            })
            .collect();
        let names: Vec<String> = place.published().into_keys().collect();
        let guarantee = place.read("public/guarantee.md");
        let size = std::fs::metadata(place.path("dashboard.state/sealed")).unwrap().len();
        (first, second, names, tables, guarantee, size)
    };
    for late in ["drop", "next"] {
        let spec = EXAMPLE.replace("late = \"drop\"", &format!("late = \"{late}\""));
        assert_eq!(shape(true, &spec), shape(false, &spec));
    }
}

#[test]
fn a_past_that_changed_stops_the_run_before_anything_is_written() {
    let events = events(4);
    let place = Place::new(EXAMPLE, &[("cases.csv", &csv(&events[..200]))]);
    place.run("2026-01-03").unwrap();
    let (published, sealed) =
        (place.published(), std::fs::read(place.path("dashboard.state/sealed")).unwrap());
    let mut changed = events.clone();
    changed[150].wait += 1;
    for (text, place_named) in
        [(csv(&changed), "row 151 is"), (csv(&events[..199]), "200 rows, now there are 199")]
    {
        place.write("cases.csv", &text);
        let message = place.run("2026-02-01").unwrap_err().to_string();
        assert!(message.contains(place_named), "{message}");
        assert_eq!(published, place.published());
        assert_eq!(sealed, std::fs::read(place.path("dashboard.state/sealed")).unwrap());
    }
    place.write("cases.csv", &csv(&events));
    assert_eq!(place.run("2026-02-01").unwrap().published, 31);
}

#[test]
fn states_are_tied_to_their_description_their_seed_and_their_latest_version() {
    let events = events(5);
    let place = Place::new(EXAMPLE, &[("cases.csv", &csv(&events))]);
    place.run("2026-01-10").unwrap();
    let old = std::fs::read(place.path("dashboard.state/sealed")).unwrap();
    place.write(
        "dashboard.toml",
        &EXAMPLE.replace("steps = 3", "steps = 4").replace("rho = 2e6", "rho = 3e6"),
    );
    let message = place.run("2026-01-20").unwrap_err().to_string();
    assert!(message.contains("privacy was rho = 2000000, now rho = 3000000"), "{message}");
    assert!(message.contains("limits.steps was 3, now 4"), "{message}");
    place.write("dashboard.toml", EXAMPLE);
    let dashboard = place.dashboard();
    let until = dashboard.spec().calendar.read_instant("2026-01-20").unwrap();
    for other in [Randomness::System, Randomness::Reproducible(8)] {
        assert!(dashboard.run(until, other).unwrap_err().to_string().contains("reproducible"));
    }
    place.run("2026-01-20").unwrap();
    std::fs::write(place.path("dashboard.state/sealed"), &old).unwrap();
    assert!(place.run("2026-01-21").unwrap_err().to_string().contains("it is older than the last one"));
    std::fs::remove_file(place.path("dashboard.state/sealed")).unwrap();
    assert!(place.run("2026-01-21").unwrap_err().to_string().contains("the state is missing"));
    std::fs::write(place.path("dashboard.state/sealed"), &old).unwrap();
    std::fs::remove_file(place.path("dashboard.state/key")).unwrap();
    assert!(place.run("2026-01-21").unwrap_err().to_string().contains("the key of this state is missing"));
}

/// A whole folder that was put back: refused where the mark lies outside, and continued with noise of its own where it lies
/// inside; a reproducible seed is for tests and repeats itself.
#[test]
fn a_folder_that_was_put_back_is_refused_or_has_noise_of_its_own() {
    let events = events(6);
    let copy = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    };
    // Little noise would be told apart from none by rounding; here it is far above 1.
    let noisy = small().set("privacy.rho", "1e-3").to_string();
    for outside in [false, true] {
        let key = if outside { "\nkey = \"elsewhere.key\"" } else { "" };
        let spec = noisy.replace("folder = \"public\"", &format!("folder = \"public\"{key}"));
        let place = Place::new(&spec, &[("cases.csv", &csv(&events))]);
        let run = |until: &str| {
            let dashboard = place.dashboard();
            let until = dashboard.spec().calendar.read_instant(until).unwrap();
            dashboard.run(until, Randomness::System)
        };
        run("2026-01-03").unwrap();
        copy(&place.path("dashboard.state"), &place.path("backup"));
        run("2026-01-06").unwrap();
        let first = table(&place.read("public/cases.csv"));
        std::fs::remove_dir_all(place.path("dashboard.state")).unwrap();
        copy(&place.path("backup"), &place.path("dashboard.state"));
        if outside {
            let message = run("2026-01-06").unwrap_err().to_string();
            assert!(message.contains("it is older than the last one"), "{message}");
            continue;
        }
        run("2026-01-06").unwrap();
        let second = table(&place.read("public/cases.csv"));
        for (one, other) in first.iter().zip(&second) {
            let same = one["value"] == other["value"];
            let old = field(one, "step") <= 2.0;
            // Two independent values of noise are the same with a probability of about one in a hundred; of the nine later
            // ones at least three differ but for one time in 10^11.
            assert!(same || !old, "a step that was published before changed: {one:?}");
        }
        let later = first.iter().zip(&second).filter(|(one, _)| field(one, "step") > 2.0);
        let different = later.filter(|(one, other)| one["value"] != other["value"]).count();
        assert!(different >= 3, "{different}");
    }
}

/// A description with one release and few steps, which is planned at once.
fn small() -> Description {
    Description::of_people("patient", 1, 3)
        .set("privacy.rho", "50")
        .set("input.files", r#"["cases.csv"]"#)
        .set("input.time", "\"date\"")
        .days("2026-01-01", "2026-01-12")
        .release("cases", BY_REGION)
}

const BY_REGION: &str = r#"statistics = ["total", "step"]
by = { column = "region", values = ["North", "South"] }"#;

/// A changed description is refused; accepted, it begins anew with the next step and adds to what was spent.
#[test]
fn a_change_is_refused_or_accepted_at_its_price() {
    let events = events(8);
    let place = Place::new(&small().to_string(), &[("cases.csv", &csv(&events))]);
    place.run("2026-01-05").unwrap();
    let before = Ledger::load(&place.path("dashboard.state")).unwrap();
    let old = place.read("public/cases.csv");
    let longer = small().days("2026-01-01", "2026-01-20").set("limits.steps", "2").to_string();
    place.write("dashboard.toml", &longer);
    let message = place.run("2026-01-08").unwrap_err().to_string();
    assert!(
        message.contains("limits.steps was 3, now 2") && message.contains("--accept-change"),
        "{message}"
    );
    assert!(message.contains("steps was 12 steps, now 20 steps"), "{message}");
    let change = place.dashboard().change().unwrap().unwrap();
    assert_eq!((change.published, change.differences.len()), (4, 2));
    assert!((change.after.rho() - 2.0 * before.rho()).abs() < 1e-6 * before.rho());
    let accept = |until: &str| {
        let dashboard = place.dashboard();
        let until = dashboard.spec().calendar.read_instant(until).unwrap();
        dashboard.run_changed(until, Randomness::Reproducible(7))
    };
    let outcome = accept("2026-01-08").unwrap();
    assert_eq!((outcome.before, outcome.published, outcome.steps), (4, 7, 20));
    assert_eq!(place.read("public/until-4/cases.csv"), old);
    let lines = table(&place.read("public/cases.csv"));
    assert_eq!(
        (lines[0]["step"].as_str(), lines[0]["time"].as_str(), lines.len()),
        ("5", "2026-01-05", 3 * 4)
    );
    // The rows of the fifth day are counted, those before are not.
    let here = |event: &&Event| event.day == 4 && event.region == "North";
    let north = events.iter().filter(here).count() as f64;
    assert!((field(&lines[0], "value") - north).abs() <= 4.0, "{north}: {:?}", lines[0]);
    let after = Ledger::load(&place.path("dashboard.state")).unwrap();
    assert_eq!((after.entries.len(), after.entries[1].first, after.entries[1].steps), (2, 5, 16));
    assert_eq!(place.run("2026-01-10").unwrap().published, 9);
    assert_eq!(place.dashboard().change().unwrap(), None);
    // What cannot be changed at all.
    place.write("dashboard.toml", &longer.replace("\"zero-out\"", "\"replace\""));
    let message = accept("2026-01-12").unwrap_err().to_string();
    assert!(message.contains("cannot be changed at all"), "{message}");
    place.write("dashboard.toml", &longer.replace("2026-01-20", "2026-01-03"));
    assert!(accept("2026-01-12").unwrap_err().to_string().contains("choose a later `steps.last`"));
}

/// A pure ε: Laplace noise, a ledger without any δ, and numbers near the truth.
#[test]
fn a_pure_epsilon_needs_no_delta() {
    let events = events(9);
    let small = small().unset("privacy.rho").set("privacy.epsilon", "200.0").to_string();
    let spec = small.replace("\"step\"]", "\"step\", \"window:3\"]");
    let place = Place::new(&spec, &[("cases.csv", &csv(&events))]);
    place.run("2026-01-13").unwrap();
    let ledger = Ledger::load(&place.path("dashboard.state")).unwrap();
    let epsilon = ledger.pure_epsilon().unwrap();
    assert!(epsilon <= 200.0 && epsilon > 199.999, "{epsilon}");
    assert!(place.read("public/guarantee.md").contains("discrete Laplace"));
    // Rows of other regions count nowhere, and use up nothing.
    let listed: Vec<Event> =
        events.iter().filter(|event| ["North", "South"].contains(&event.region)).cloned().collect();
    let kept = counted(&listed);
    for line in table(&place.read("public/cases.csv")) {
        let step = field(&line, "step") as usize;
        let width = match line["statistic"].as_str() {
            "total" => step,
            "step" => 1,
            _ => step.min(3),
        };
        let inside =
            |event: &&Event| event.region == line["region"] && (step - width..step).contains(&event.day);
        let truth = kept.iter().filter(inside).count() as f64;
        let deviation = field(&line, "standard_deviation");
        // Laplace noise beyond 12 deviations has a probability of e^-17.
        assert!(
            deviation < 1.0 && (field(&line, "value") - truth).abs() <= 12.0 * deviation + 0.5,
            "{line:?}"
        );
    }
}

/// Keys that nobody listed: frequent ones are found and stay, those of a few people are never shown.
#[test]
fn keys_are_found_in_the_rows() {
    let spec =
        small().approximate(4.0, 1e-6).to_string().replace(", values = [\"North\", \"South\"] }", " }");
    let mut text = HEADER.to_owned();
    let mut daily = Vec::new();
    for day in 0..12 {
        for visit in 0..40 {
            let _ = writeln!(text, "{},p{day}-{visit},Harbour,1,1", date(day));
        }
        let _ = writeln!(text, "{},q{day},\"A, lone \"\"hut\"\"\",1,1", date(day));
        daily.push(text.clone());
    }
    let whole = Place::new(&spec, &[("cases.csv", &text)]);
    whole.run("2026-01-13").unwrap();
    let lines = table(&whole.read("public/cases.csv"));
    assert!(lines.iter().all(|line| line["region"] == "Harbour"), "{lines:?}");
    let first = field(&lines[0], "step");
    assert!(first < 6.0, "{first}");
    // From the first step on, every step has both statistics.
    assert_eq!(lines.len(), 2 * (13 - first as usize));
    for line in lines.iter().filter(|line| line["statistic"] == "total") {
        let truth = 40.0 * field(line, "step");
        assert!(
            (field(line, "value") - truth).abs() <= 5.0 * field(line, "standard_deviation") + 0.5,
            "{line:?}"
        );
    }
    let ledger = Ledger::load(&whole.path("dashboard.state")).unwrap();
    assert!((ledger.entries[0].delta - 5e-7).abs() < 1e-12);
    assert!(ledger.epsilon(1e-6).unwrap() <= 4.0);
    // Day by day it comes out the same, to the last bit.
    let by_day = Place::new(&spec, &[]);
    for (day, text) in daily.iter().enumerate() {
        by_day.write("cases.csv", text);
        by_day.run(&date(day + 1)).unwrap();
    }
    assert!(whole.published() == by_day.published(), "{}", by_day.read("public/cases.csv"));
}

/// The lines of rows are those of an editor: fields go over several, lines are blank, end with one byte or two, or not at all.
#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let lines = ["a,b", "", "\"1\",", "2,\"x", "", "y\"", "", "", "3,z", "\"4\"", "", "5"];
    let expected = [(3, "1"), (4, "2"), (9, "3"), (10, "4"), (12, "5")];
    for end in ["\n", "\r\n"] {
        for (mark, last) in [("", ""), ("\u{feff}", end), ("", end)] {
            let text = format!("{mark}{}{last}", lines.join(end));
            std::fs::write(&path, &text).unwrap();
            let mut found = Vec::new();
            dp_events::rows::read(&path, &["a".to_owned()], &mut |row| {
                found.push((row.line, String::from_utf8_lossy(row.field(0).unwrap()).into_owned()));
                Ok(())
            })
            .unwrap();
            let found: Vec<(u64, &str)> = found.iter().map(|(line, field)| (*line, field.as_str())).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}

/// The parts of the budget add up to the whole and not more, and the ledger says so.
#[test]
fn the_ledger_adds_up_to_the_promise() {
    let promise = EXAMPLE.replace("rho = 2e6", "epsilon = 1.0\ndelta = 1e-6");
    let place = Place::new(&promise, &[("cases.csv", HEADER)]);
    place.run("2026-01-03").unwrap();
    let ledger = Ledger::load(&place.path("dashboard.state")).unwrap();
    assert_eq!(ledger.entries.len(), 4);
    let epsilon = ledger.epsilon(1e-6).unwrap();
    assert!(epsilon <= 1.0 && epsilon > 0.9999, "{epsilon}");
    let share = ledger.entries[0].rho / ledger.rho();
    assert!((share - 0.4).abs() < 1e-6, "{share}");
    assert!(Ledger::load(&place.path("public")).is_err());
}
