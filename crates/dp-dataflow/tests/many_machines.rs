//! Runs over several workers and processes, started for real on this machine: the output of a run in one place, to the last bit,
//! through kills and refusals. The processes are this test itself, started again.
//!
//! `DP_KILLS` says how many processes are killed at random moments; few by default.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use dp_dataflow::{Hosts, Secret, Workers};
use dp_events::calendar::Calendar;
use dp_events::{Dashboard, Randomness, Spec};
use dp_tests::description::{self, Description};
use dp_tests::free_addresses;

/// No run takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(240);

/// A multiplicative generator, for choices that need not be good.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The variable that makes this test a process of a run: the description, and names with values.
const ARGUMENTS: &str = "DP_FLOW_ARGUMENTS";

/// What a process is asked to do.
struct Asked(Vec<String>);

impl Asked {
    fn spawn(self) -> Started {
        self.spawn_by(&std::env::current_exe().unwrap())
    }

    fn spawn_by(self, program: &Path) -> Started {
        let child = Command::new(program)
            .args(["--exact", "a_process_of_a_run"])
            .env(ARGUMENTS, serde_json::to_string(&self.0).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Started(Some(child))
    }
}

/// A process that was started, and is killed at the latest when this value goes.
struct Started(Option<Child>);

impl Started {
    fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A process of a run, where it is asked for; otherwise, that one which is asked for nonsense fails.
#[test]
fn a_process_of_a_run() {
    let Ok(words) = std::env::var(ARGUMENTS) else {
        let nowhere = Place::new(&DESCRIPTION);
        assert!(complaint(&nowhere.run(&["--workers", "1"])).contains("events.csv"));
        return;
    };
    let words: Vec<String> = serde_json::from_str(&words).unwrap();
    if let Err(error) = process(&words) {
        let mut stderr = std::io::stderr();
        writeln!(stderr, "error: {error}").unwrap();
        std::process::exit(1);
    }
    std::process::exit(0);
}

fn process(words: &[String]) -> dp_dataflow::Result<()> {
    let value = |name: &str| words.iter().position(|word| word == name).map(|at| words[at + 1].as_str());
    let number = |name: &str| value(name).map(|text| text.parse::<usize>().unwrap());
    let spec = Spec::load(words[0].as_ref())?;
    let until = value("--until").map_or(Calendar::now(), |text| spec.calendar.read_instant(text).unwrap());
    let randomness = number("--reproducible-seed")
        .map_or(Randomness::System, |seed| Randomness::Reproducible(seed as u64));
    let dashboard = Dashboard::new(spec)?;
    let hosts = match (number("--process"), value("--hosts"), value("--secret")) {
        (Some(process), Some(hosts), Some(secret)) => {
            let addresses = fs::read_to_string(hosts).unwrap().lines().map(str::to_owned).collect();
            let patience = Duration::from_secs(number("--wait").unwrap_or(60) as u64);
            Some((Hosts { process, addresses, patience }, Secret::load(Some(secret.as_ref()))?))
        }
        _ => None,
    };
    if hosts.is_none() && value("--workers").is_none() {
        return dashboard.run(until, randomness).map(|_| ());
    }
    let options = Workers { workers: number("--workers").unwrap_or(1), hosts, log: None };
    dp_dataflow::run(&dashboard, until, randomness, options).map(|_| ())
}

/// A dashboard in a folder of its own.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(description: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("dashboard.toml"), description).unwrap();
        let place = Self { folder };
        place.write("secret", "correct horse battery staple, thirty-two\n");
        owner_only(&place.path("secret"));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Asked {
        let file = self.path("dashboard.toml").to_string_lossy().into_owned();
        Asked(std::iter::once(file).chain(arguments.iter().map(ToString::to_string)).collect())
    }

    /// One process, to its end.
    fn run(&self, arguments: &[&str]) -> Output {
        wait(self.command(arguments).spawn())
    }

    /// Several processes; those that others describe get their own places.
    fn start(&self, processes: usize, arguments: &[&str]) -> Vec<Started> {
        self.write("hosts", &free_addresses(processes));
        (0..processes).map(|process| self.start_one(process, processes, arguments)).collect()
    }

    fn start_one(&self, process: usize, processes: usize, arguments: &[&str]) -> Started {
        self.asked(process, processes, arguments).spawn()
    }

    fn asked(&self, process: usize, processes: usize, arguments: &[&str]) -> Asked {
        let Asked(mut words) = self.command(arguments);
        let path = |name: &str| self.path(name).to_string_lossy().into_owned();
        for (name, value) in [
            ("--processes", processes.to_string()),
            ("--process", process.to_string()),
            ("--hosts", path("hosts")),
            ("--secret", path("secret")),
        ] {
            words.extend([name.to_owned(), value]);
        }
        Asked(words)
    }

    /// Everything published, by name; nothing before the first run.
    fn published(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.path("public")) else { return Vec::new() };
        let mut files: Vec<(String, Vec<u8>)> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| !path.to_string_lossy().ends_with(".new"))
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
            .collect();
        files.sort();
        files
    }

    fn table(&self, name: &str) -> String {
        fs::read_to_string(self.path("public").join(format!("{name}.csv"))).unwrap_or_default()
    }
}

#[cfg(unix)]
fn owner_only(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[cfg(not(unix))]
fn owner_only(_: &Path) {}

/// The end of a process, which must come.
fn wait(mut started: Started) -> Output {
    let start = Instant::now();
    while started.child().try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "a process did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    started.0.take().unwrap().wait_with_output().unwrap()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn all_succeed(children: Vec<Started>) {
    children.into_iter().map(wait).for_each(|output| succeeded(&output));
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Counts, means, medians and different people, with limits that decide in what order rows are taken.
static DESCRIPTION: LazyLock<String> = LazyLock::new(|| {
    Description::of_people("who", 2, 3)
        .set("input.files", r#"["events.csv", "more.csv"]"#)
        .set("limits.separation", "2")
        .days("2026-01-01", "2026-01-12")
        .set("steps.late", "\"next\"")
        .set("output.state", "\"state\"")
        .release(
            "visits",
            r#"statistics = ["total", "step"]
            by = { column = "region", values = ["North", "South", "East, far"], other = "elsewhere" }"#,
        )
        .release(
            "cost",
            r#"value = { column = "cost", bounds = [0, 50], resolution = 1 }
            statistics = ["total", "mean"]"#,
        )
        .release(
            "waiting",
            r#"value = { column = "cost", bounds = [0, 50], resolution = 1 }
            statistics = ["quantile:0.5"]"#,
        )
        .release(
            "people",
            r#"of = "people"
            statistics = ["total"]
            by = { column = "region", values = ["North", "South"] }"#,
        )
        .to_string()
});

/// Rows in no order of time, some of them quoted with line ends inside, late, useless or beyond the limits.
fn rows(choices: &mut Choices, count: usize, days: u64) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let day = 1 + choices.below(days);
        let who = choices.below(150).min(choices.below(150));
        let region = ["North", "South", "\"East, far\"", "\"a\nb \"\"c\"\"\"", "West", "North"]
            [choices.below(6) as usize];
        let cost = choices.below(60);
        let note = if choices.below(9) == 0 { "\"two\nlines, and a quote \"\" here\"" } else { "plain" };
        if choices.below(50) == 0 {
            writeln!(text, "not a day,{who},{region},{cost},{note}").unwrap();
        } else {
            writeln!(text, "2026-01-{day:02},p{who},{region},{cost},{note}").unwrap();
        }
    }
    text
}

const HEADER: &str = "day,who,region,cost,note\n";

/// What the input is before each of the runs, and until when each of them closes steps.
fn history() -> Vec<(String, String, &'static str)> {
    let mut choices = Choices(5);
    let mut first = format!("{HEADER}{}", rows(&mut choices, 700, 6));
    let mut second = HEADER.to_owned();
    let mut stages = vec![(first.clone(), second.clone(), "2026-01-04")];
    first += &rows(&mut choices, 500, 9);
    second += &rows(&mut choices, 200, 12);
    stages.push((first.clone(), second.clone(), "2026-01-08"));
    second += &rows(&mut choices, 300, 12);
    stages.push((first, second, "2026-01-13"));
    stages
}

fn prepare(place: &Place, stage: &(String, String, &str)) {
    place.write("events.csv", &stage.0);
    place.write("more.csv", &stage.1);
}

const SEED: [&str; 2] = ["--reproducible-seed", "7"];

/// Where a process is killed before it has connected, the others wait no longer than this.
const SHORTLY: [&str; 2] = ["--wait", "2"];

/// What a run in one place publishes after each stage.
fn in_one_place(description: &str) -> Vec<Vec<(String, Vec<u8>)>> {
    let place = Place::new(description);
    history()
        .iter()
        .map(|stage| {
            prepare(&place, stage);
            succeeded(&place.run(&[SEED[0], SEED[1], "--until", stage.2]));
            place.published()
        })
        .collect()
}

#[test]
fn any_number_of_workers_and_processes_publishes_the_same() {
    let expected = in_one_place(&DESCRIPTION);
    assert!(expected[0].len() >= 10 && expected[0] != expected[1] && expected[1] != expected[2]);
    for (processes, workers) in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)] {
        publishes(&DESCRIPTION, &expected, processes, workers);
    }
}

/// Keys that are found in the rows belong to whom their hash says; some are shown from a later step on, some never.
#[test]
fn keys_that_are_found_are_published_the_same() {
    let description = DESCRIPTION.replace("rho = 0.5", "epsilon = 20.0\ndelta = 1e-3").replace(
        "[output]",
        "[[release]]\nname = \"found\"\nstatistics = [\"total\", \"step\"]\nby = { column = \"note\" }\nshare = 4.0\n[output]",
    );
    let expected = in_one_place(&description);
    let found = |stage: usize| -> String {
        let file = expected[stage].iter().find(|(name, _)| name == "found.csv");
        String::from_utf8(file.unwrap().1.clone()).unwrap()
    };
    assert!(found(0).lines().count() > 2 && found(2).contains("plain") && found(2).contains("lines"));
    for (processes, workers) in [(2, 2), (3, 1)] {
        publishes(&description, &expected, processes, workers);
    }
}

/// Every stage published by so many processes with so many workers is what is expected.
fn publishes(description: &str, expected: &[Vec<(String, Vec<u8>)>], processes: usize, workers: usize) {
    let place = Place::new(description);
    let workers = workers.to_string();
    for (stage, expected) in history().iter().zip(expected) {
        prepare(&place, stage);
        let arguments = [SEED[0], SEED[1], "--until", stage.2, "--workers", &workers];
        if processes == 1 {
            succeeded(&place.run(&arguments));
        } else {
            all_succeed(place.start(processes, &arguments));
        }
        for (found, expected) in place.published().iter().zip(expected) {
            assert_eq!(found.0, expected.0, "{processes} processes, {workers} workers");
            assert!(
                found.1 == expected.1,
                "{}: {processes} processes, {workers} workers, {}",
                found.0,
                stage.2
            );
        }
        assert_eq!(place.published().len(), expected.len());
    }
}

/// A state goes from one worker to many and back: people and rows are remembered alike.
#[test]
fn a_state_goes_from_one_worker_to_many_and_back() {
    let expected = in_one_place(&DESCRIPTION);
    let place = Place::new(&DESCRIPTION);
    for ((stage, expected), workers) in history().iter().zip(&expected).zip(["2", "0", "3"]) {
        prepare(&place, stage);
        let mut arguments = vec![SEED[0], SEED[1], "--until", stage.2];
        if workers != "0" {
            arguments.extend(["--workers", workers]);
        }
        succeeded(&place.run(&arguments));
        assert!(place.published() == *expected, "{workers} workers");
        // And once more: nothing is new.
        succeeded(&place.run(&arguments));
        assert!(place.published() == *expected, "{workers} workers, again");
    }
}

/// Processes are killed at random moments. The others end, with a sentence; what is published is what a run in one place
/// publishes before or after, and in the end every step and every person is there exactly once.
#[test]
fn killed_processes_lose_nothing_and_repeat_nothing() {
    let kills: u64 = std::env::var("DP_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let expected = in_one_place(&DESCRIPTION);
    let stages = history();
    let mut choices = Choices(11);
    let (mut place, mut at) = (Place::new(&DESCRIPTION), 0);
    // How long the last run took that nobody disturbed, so that kills come at all of its moments.
    let (mut longest, mut broken, mut complete) = (Duration::from_millis(400), 0, 0);
    let mut done = 0;
    while done < kills {
        let stage = &stages[at];
        prepare(&place, stage);
        let arguments = [SEED[0], SEED[1], "--until", stage.2];
        let mut children = place.start(2, &[&arguments[..], &SHORTLY].concat());
        let moment = Duration::from_micros(choices.below(longest.as_micros() as u64 + 1));
        std::thread::sleep(moment);
        let victim = choices.below(2) as usize;
        let alive = children[victim].child().try_wait().unwrap().is_none();
        children[victim].child().kill().unwrap();
        done += u64::from(alive);
        let outputs: Vec<Output> = children.into_iter().map(wait).collect();
        if outputs.iter().all(|output| output.status.success()) {
            complete += 1;
        } else {
            broken += 1;
            let other = &outputs[1 - victim];
            if !other.status.success() {
                let text = complaint(other);
                assert_eq!(text.lines().filter(|line| line.starts_with("error")).count(), 1, "{text}");
                assert!(!text.contains("panicked"), "{text}");
            }
        }
        let before = if at == 0 { &[][..] } else { &expected[at - 1] };
        check_published(&place, before, &expected[at]);
        // Then without a kill: the stage is complete.
        prepare(&place, stage);
        let start = Instant::now();
        all_succeed(place.start(2, &arguments));
        longest = start.elapsed();
        assert!(place.published() == expected[at], "after kill {done} at {moment:?} of process {victim}");
        at += 1;
        if at == stages.len() {
            (place, at) = (Place::new(&DESCRIPTION), 0);
        }
    }
    println!("{done} kills: {broken} runs broken, {complete} complete");
    assert!(broken > 0);
}

/// Every file is as it was before the run, or as it is after.
fn check_published(place: &Place, before: &[(String, Vec<u8>)], after: &[(String, Vec<u8>)]) {
    for (name, bytes) in place.published() {
        let known = before.iter().chain(after).any(|(other, expected)| *other == name && *expected == bytes);
        assert!(known, "{name} is neither what it was nor what it is to be");
    }
}

/// With secret noise: what was published once stays as it is, whoever was killed in between.
#[test]
fn published_lines_stay_when_processes_are_killed() {
    let place = Place::new(&DESCRIPTION);
    let mut choices = Choices(3);
    let mut last = String::new();
    for stage in history() {
        prepare(&place, &stage);
        let arguments = ["--until", stage.2];
        for _ in 0..2 {
            let mut children = place.start(2, &[&arguments[..], &SHORTLY].concat());
            std::thread::sleep(Duration::from_millis(choices.below(300)));
            children[choices.below(2) as usize].child().kill().unwrap();
            children.into_iter().for_each(|child| drop(wait(child)));
            let now = place.table("visits");
            assert!(now.starts_with(&last), "lines that were published have changed");
            last = now;
        }
        all_succeed(place.start(2, &arguments));
        let now = place.table("visits");
        assert!(now.starts_with(&last) && now.len() > last.len().min(now.len() - 1));
        last = now;
    }
    // 12 steps, 4 keys, 2 statistics, and a line of names.
    assert_eq!(last.lines().count(), 1 + 12 * 4 * 2);
}

/// An audit from outside: 2000 keys, in every second of which somebody has more rows than count, spread over the file so that
/// both processes read some of them. How far the published numbers tell the two kinds of keys apart is the μ of the release,
/// and the description promises `μ = sqrt(2 ρ) = 1`. With 1000 keys of each kind the standard error of the estimate is 0.05; an
/// error of 4 of them has probability below 1e-4, and the seed is fixed. Noise that is a third too small, or limits that hold in
/// each process by itself only, give 1.5 or more.
#[test]
fn an_audit_from_outside_finds_the_mu_that_is_promised() {
    let counts = format!(
        "statistics = [\"total\"]\nby = {{ column = \"key\", values = {} }}",
        description::numbered(2000)
    );
    let description = Description::of_people("who", 2, 1)
        .set("input.files", "[\"events.csv\"]")
        .days("2026-01-01", "2026-01-01")
        .release("counts", &counts)
        .to_string();
    let place = Place::new(&description);
    let mut text = String::from("day,who,key\n");
    for _ in 0..6 {
        for key in (0..2000).skip(1).step_by(2) {
            writeln!(text, "2026-01-01,somebody-{key},k{key}").unwrap();
        }
    }
    place.write("events.csv", &text);
    all_succeed(place.start(2, &[SEED[0], SEED[1], "--until", "2026-01-02"]));
    let mut kinds = [Vec::new(), Vec::new()];
    for line in place.table("counts").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let key: usize = fields[2][1..].parse().unwrap();
        kinds[key % 2].push(fields[4].parse::<f64>().unwrap());
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let means = [mean(&kinds[0]), mean(&kinds[1])];
    let variances =
        [0, 1].map(|kind| mean(&kinds[kind].iter().map(|x| (x - means[kind]).powi(2)).collect::<Vec<_>>()));
    let mu = (means[1] - means[0]) / (f64::midpoint(variances[0], variances[1])).sqrt();
    assert_eq!((kinds[0].len(), kinds[1].len()), (1000, 1000));
    assert!((mu - 1.0).abs() < 0.2, "an observer sees μ = {mu}");
}

#[test]
fn processes_that_do_not_fit_are_refused_by_name() {
    let place = Place::new(&DESCRIPTION);
    let stage = &history()[0];
    prepare(&place, stage);
    // Long enough for a process to start on a busy machine; where the secret differs, the first waits for all of it.
    let arguments = [SEED[0], SEED[1], "--until", stage.2, "--wait", "10"];
    let both = |children: Vec<Started>| -> [String; 2] {
        let texts: Vec<String> = children.into_iter().map(|child| complaint(&wait(child))).collect();
        texts.try_into().unwrap()
    };

    // Nobody answers.
    place.write("hosts", &free_addresses(2));
    let shortly = [&arguments[..4], &SHORTLY].concat();
    let alone = complaint(&wait(place.start_one(0, 2, &shortly)));
    assert!(alone.contains("process 1 (127.0.0.1:") && alone.contains("did not connect"), "{alone}");
    let alone = complaint(&wait(place.start_one(1, 2, &shortly)));
    assert!(alone.contains("process 0 (127.0.0.1:") && alone.contains("did not answer"), "{alone}");

    // Another secret, another description, another file.
    let other = Place::new(&DESCRIPTION);
    prepare(&other, stage);
    let start = |other: &Place| {
        place.write("hosts", &free_addresses(2));
        fs::copy(place.path("hosts"), other.path("hosts")).unwrap();
        vec![place.start_one(0, 2, &arguments), other.start_one(1, 2, &arguments)]
    };
    other.write("secret", "another secret, which is long enough too\n");
    let texts = both(start(&other));
    assert!(texts[1].contains("does not hold the secret"), "{texts:?}");
    fs::copy(place.path("secret"), other.path("secret")).unwrap();
    other.write("dashboard.toml", &DESCRIPTION.replace("rho = 0.5", "rho = 0.6"));
    let texts = both(start(&other));
    assert!(
        texts[0].contains("process 1 has another description: privacy was rho = 0.5, now rho = 0.6"),
        "{texts:?}"
    );
    assert!(texts[1].contains("another description"), "{texts:?}");
    other.write("dashboard.toml", &DESCRIPTION);
    other.write("more.csv", &format!("{HEADER}2026-01-01,x,North,1,\n"));
    let texts = both(start(&other));
    assert!(texts.iter().all(|text| text.contains("process 1 has another more.csv")), "{texts:?}");
    assert!(place.published().is_empty() && !place.path("state/sealed").exists());
}

#[test]
fn old_and_foreign_states_and_clocks_that_go_back_are_refused() {
    let place = Place::new(&DESCRIPTION);
    let stages = history();
    let run = |stage: usize| {
        prepare(&place, &stages[stage]);
        place.start(2, &[SEED[0], SEED[1], "--until", stages[stage].2, "--wait", "20"])
    };
    let texts = |children: Vec<Started>| -> Vec<String> {
        children.into_iter().map(|child| complaint(&wait(child))).collect()
    };
    all_succeed(run(0));
    let old = fs::read(place.path("state/process-1/sealed")).unwrap();
    let old_mark = fs::read(place.path("state/process-1/key.mark")).unwrap();
    all_succeed(run(1));
    let published = place.published();
    // The people of a process as they were: a step would be counted with limits that forgot it.
    let new = fs::read(place.path("state/process-1/sealed")).unwrap();
    let new_mark = fs::read(place.path("state/process-1/key.mark")).unwrap();
    fs::write(place.path("state/process-1/sealed"), &old).unwrap();
    let refused = texts(run(2));
    assert!(refused.iter().all(|text| text.contains("older than the last one")), "{refused:?}");
    // Also where its mark was put back with it.
    fs::write(place.path("state/process-1/key.mark"), &old_mark).unwrap();
    fs::write(place.path("state/process-1/sealed"), &old).unwrap();
    all_or_nothing(&texts(run(2)), "restore the latest of all processes");
    fs::write(place.path("state/process-1/sealed"), &new).unwrap();
    fs::write(place.path("state/process-1/key.mark"), &new_mark).unwrap();
    // A run in one place would not know the people of the other process.
    let alone = complaint(&place.run(&[SEED[0], SEED[1]]));
    assert!(alone.contains("its people and keys are kept by 2 processes"), "{alone}");
    // Steps that are published already, and a clock at which they are not over.
    let back = texts(place.start(2, &[SEED[0], SEED[1], "--until", "2026-01-02", "--wait", "20"]));
    assert!(back.iter().all(|text| text.contains("the clock went backwards")), "{back:?}");
    // A past that changed.
    place.write("events.csv", &stages[1].0.replacen("North", "South", 1));
    let changed = texts(place.start(2, &[SEED[0], SEED[1], "--until", stages[2].2]));
    assert!(changed.iter().all(|text| text.contains("not as an earlier run read them")), "{changed:?}");
    assert!(place.published() == published);
    all_succeed(run(2));
}

/// A key with half of all events, a person with very many rows, and ten thousand keys of which most are empty: limits and sums are
/// those of one place. `DP_ROWS_OF_ONE` says how many rows the one person has; few by default.
#[test]
fn skew_changes_nothing() {
    let rows: u64 = std::env::var("DP_ROWS_OF_ONE").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
    let counts = format!(
        "statistics = [\"total\"]\nby = {{ column = \"key\", values = {} }}",
        description::numbered(10_000)
    );
    let description = Description::of_people("who", 2, 2)
        .set("input.files", "[\"events.csv\"]")
        .set("output.state", "\"state\"")
        .release("counts", &counts)
        .to_string();
    let mut choices = Choices(21);
    let mut text = String::from("day,who,key\n");
    for row in 0..2 * rows {
        let day = 1 + choices.below(2);
        let key = if row % 2 == 0 { 77 } else { choices.below(40) };
        let who = if row % 4 < 2 { 0 } else { 1 + choices.below(rows) };
        writeln!(text, "2026-01-{day:02},p{who},k{key}").unwrap();
    }
    let published = |processes: usize, workers: &str| {
        let place = Place::new(&description);
        place.write("events.csv", &text);
        let mut arguments = vec![SEED[0], SEED[1], "--until", "2026-01-03"];
        if workers != "0" {
            arguments.extend(["--workers", workers]);
        }
        if processes == 1 {
            succeeded(&place.run(&arguments));
        } else {
            all_succeed(place.start(processes, &arguments));
        }
        place.published()
    };
    let expected = published(1, "0");
    assert!(expected.iter().any(|(name, bytes)| name == "counts.csv" && bytes.len() > 20_000 * 20));
    for (processes, workers) in [(1, "2"), (2, "2")] {
        assert!(published(processes, workers) == expected, "{processes} processes, {workers} workers");
    }
}

/// A row that is added after the input was shared out, and before it is read to its end, is noticed, and nothing is published.
#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    let place = Place::new(&DESCRIPTION);
    let stage = &history()[0];
    prepare(&place, stage);
    let spec = Spec::load(&place.path("dashboard.toml")).unwrap();
    let until = spec.calendar.read_instant(stage.2).unwrap();
    let dashboard = Dashboard::new(spec).unwrap();
    let file = place.path("events.csv");
    let log = move |line: &str| {
        if line.contains("are to be closed") {
            let mut file = fs::OpenOptions::new().append(true).open(&file).unwrap();
            writeln!(file, "2026-01-01,somebody,North,1,plain").unwrap();
        }
    };
    let run = |log: Option<dp_dataflow::Log>| {
        let options = Workers { workers: 2, hosts: None, log };
        dp_dataflow::run(&dashboard, until, Randomness::Reproducible(7), options)
    };
    let refused = run(Some(Box::new(log))).unwrap_err().to_string();
    assert!(refused.contains("events.csv") && refused.contains("changed while it was read"), "{refused}");
    assert!(place.published().is_empty() && !place.path("state/sealed").exists());
    run(None).unwrap();
    assert!(place.published().len() >= 10);
}

/// Another build of the program, which is this one with a byte behind its end, is refused by both sides.
#[cfg(unix)]
#[test]
fn another_build_is_refused() {
    let place = Place::new(&DESCRIPTION);
    let stage = &history()[0];
    prepare(&place, stage);
    let other = place.path("another-build");
    // Written by a process of its own: what this one has open is inherited by the programs that other tests start, and
    // a file that anybody may still write is not executed.
    let write = r#"cp "$0" "$1" && echo >> "$1""#;
    let shell =
        Command::new("sh").args(["-c", write]).arg(std::env::current_exe().unwrap()).arg(&other).status();
    assert!(shell.unwrap().success());
    place.write("hosts", &free_addresses(2));
    let arguments = [SEED[0], SEED[1], "--until", stage.2];
    let first = place.start_one(0, 2, &arguments);
    let second = place.asked(1, 2, &arguments).spawn_by(&other);
    for text in [first, second].map(|child| complaint(&wait(child))) {
        assert!(text.contains("process 1 runs another build of the program"), "{text}");
    }
    assert!(place.published().is_empty() && !place.path("state/sealed").exists());
}

fn all_or_nothing(texts: &[String], part: &str) {
    assert!(texts.iter().all(|text| text.contains(part)), "{texts:?}");
}
