//! A dashboard over workers and processes on this machine, measured beside the run in one place and beside `sort | uniq -c`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use xshell::{Shell, cmd};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    rows: u64,
    people: u64,
    keys: u64,
    repeats: usize,
    /// Whether to measure how the cost grows from these sizes on.
    growth: bool,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut options = Self { rows: 1_000_000, people: 100_000, keys: 1000, repeats: 3, growth: false };
        let mut words = words.iter();
        while let Some(name) = words.next() {
            if name == "--growth" {
                options.growth = true;
                continue;
            }
            let value = words.next().with_context(|| format!("{name} needs a number"))?;
            let number: u64 =
                value.replace('_', "").parse().with_context(|| format!("{name}: {value} is no number"))?;
            ensure!(number > 0, "{name} must be positive");
            match name.as_str() {
                "--rows" => options.rows = number,
                "--people" => options.people = number,
                "--keys" => options.keys = number,
                "--repeats" => options.repeats = number as usize,
                _ => {
                    bail!("`machines` takes --rows, --people, --keys, --repeats and --growth, and not {name}")
                }
            }
        }
        Ok(options)
    }

    /// These sizes, each of them ten and a hundred times as large alone (keys also a thousand times), and all together.
    fn grown(self) -> Vec<Self> {
        let mut sizes = vec![self];
        for factor in [10, 100] {
            sizes.push(Self { rows: factor * self.rows, ..self });
        }
        for factor in [10, 100] {
            sizes.push(Self { rows: 10 * self.rows, people: factor * self.people, ..self });
        }
        for factor in [10, 100, 1000] {
            sizes.push(Self { keys: factor * self.keys, ..self });
        }
        sizes.push(Self { rows: 100 * self.rows, people: 100 * self.people, keys: 1000 * self.keys, ..self });
        sizes
    }
}

/// The ways in which the same file is read.
const WAYS: [Way; 6] = [
    Way::Sort,
    Way::Local,
    Way::Spread { processes: 1, workers: 1 },
    Way::Spread { processes: 1, workers: 2 },
    Way::Spread { processes: 2, workers: 1 },
    Way::Spread { processes: 2, workers: 2 },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `cut | sort | uniq -c` of the keys.
    Sort,
    /// `dp run` as it is.
    Local,
    /// `dp run` over workers.
    Spread { processes: usize, workers: usize },
}

/// What a way took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wall: f64,
    /// Processor time, where the system says it.
    processor: f64,
    /// The largest memory of one process, in megabytes, as far as it was seen.
    memory: f64,
}

impl Cost {
    const NONE: Self = Self { wall: f64::INFINITY, processor: f64::INFINITY, memory: 0.0 };

    fn best(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            processor: self.processor.min(other.processor),
            memory: self.memory.max(other.memory),
        }
    }
}

/// Measures every way in turn, several times, and prints the best of each: time on the clock, which others on the machine
/// disturb, and processor time, which they disturb less.
pub(crate) fn run(shell: &Shell, options: Options) -> Result<()> {
    cmd!(shell, "cargo build --release --quiet -p dp-cli --bin dp").run()?;
    let root = shell.current_dir();
    let program = root.join("target").join("release").join("dp");
    let folder = root.join("target").join("machines");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let place = Place { program, folder, secret: "for measurements on one machine alone".to_owned() };
    if options.growth {
        return growth(&place, options);
    }
    let bytes = place.write_rows("events.csv", options)?;
    let few = Options { rows: 10, ..options };
    place.write_rows("few.csv", few)?;
    println!(
        "{} rows ({:.0} MB), {} people, {} keys, 7 steps; best of {}\n",
        options.rows,
        bytes as f64 / 1e6,
        options.people,
        options.keys,
        options.repeats
    );
    let mut costs = [Cost::NONE; WAYS.len()];
    let mut bases = [Cost::NONE; WAYS.len()];
    for _ in 0..options.repeats {
        for (index, way) in WAYS.into_iter().enumerate() {
            costs[index] = costs[index].best(place.measure(way, "events.csv", options)?);
            bases[index] = match way {
                Way::Sort => Cost { wall: 0.0, processor: 0.0, memory: 0.0 },
                // The same with ten rows: planning, noise and output.
                _ => bases[index].best(place.measure(way, "few.csv", options)?),
            };
        }
    }
    fs::remove_dir_all(&place.folder)?;
    print!("{}", table(options.rows, &costs, &bases));
    Ok(())
}

/// Measures in one place and over two workers and processes what more rows, people and keys cost, a line for each size as
/// soon as it is known.
fn growth(place: &Place, options: Options) -> Result<()> {
    const WAYS: [Way; 3] =
        [Way::Local, Way::Spread { processes: 1, workers: 2 }, Way::Spread { processes: 2, workers: 1 }];
    println!(
        "seconds on the clock / of the processor / memory of the largest process in MB\n\n\
         | rows | people | keys | file, MB | in one place | 2 workers | 2 processes |\n|---|---|---|---|---|---|---|"
    );
    for size in options.grown() {
        let bytes = place.write_rows("events.csv", size)?;
        let mut line =
            format!("| {} | {} | {} | {:.0} |", size.rows, size.people, size.keys, bytes as f64 / 1e6);
        for way in WAYS {
            let cost = place.measure(way, "events.csv", size)?;
            let _ = write!(line, " {:.1} / {:.1} / {:.0} |", cost.wall, cost.processor, cost.memory);
        }
        println!("{line}");
    }
    fs::remove_dir_all(&place.folder)?;
    Ok(())
}

/// The table: all of it, and rows alone, which is without what ten rows take.
fn table(rows: u64, costs: &[Cost; WAYS.len()], bases: &[Cost; WAYS.len()]) -> String {
    let mut text = String::from(
        "| way | seconds | of the processor | rows alone, seconds | of the processor | thousand rows a second | memory of a process, MB |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let alone = |index: usize| costs[index].wall - bases[index].wall;
    let alone_processor = |index: usize| costs[index].processor - bases[index].processor;
    for (index, way) in WAYS.iter().enumerate() {
        let name = match way {
            Way::Sort => "`cut \\| sort \\| uniq -c`".to_owned(),
            Way::Local => "in one place".to_owned(),
            Way::Spread { processes, workers } => format!("processes {processes}, workers {workers}"),
        };
        let cost = costs[index];
        let _ = writeln!(
            text,
            "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
            cost.wall,
            cost.processor,
            alone(index),
            alone_processor(index),
            rows as f64 / alone(index) / 1e3,
            cost.memory
        );
    }
    let _ = writeln!(
        text,
        "\none worker / in one place: {:.2} by the clock, {:.2} by the processor\n\
         one worker / two workers: {:.2} by the clock ({:.2} of the processor's time)\n\
         one worker / two processes: {:.2} by the clock ({:.2} of the processor's time)",
        alone(2) / alone(1),
        alone_processor(2) / alone_processor(1),
        alone(2) / alone(3),
        alone_processor(3) / alone_processor(2),
        alone(2) / alone(4),
        alone_processor(4) / alone_processor(2),
    );
    text
}

/// Where everything lies while it is measured.
struct Place {
    program: PathBuf,
    folder: PathBuf,
    secret: String,
}

impl Place {
    /// Rows of invented people, in the order of their days; the keys of few are those of many.
    fn write_rows(&self, name: &str, options: Options) -> Result<u64> {
        let path = self.folder.join(name);
        let mut file = BufWriter::new(File::create(&path)?);
        writeln!(file, "day,who,key")?;
        let mut last = 7_u64;
        let mut below = |bound: u64| {
            last = last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (last >> 33) % bound
        };
        for row in 0..options.rows {
            let key = below(options.keys).min(below(options.keys));
            let day = 1 + row * 7 / options.rows;
            writeln!(file, "2026-01-{day:02},person-{},key-{key}", below(options.people))?;
        }
        file.flush()?;
        Ok(fs::metadata(&path)?.len())
    }

    /// The description of a dashboard in a new folder.
    fn describe(&self, input: &str, options: Options) -> Result<PathBuf> {
        let folder = self.folder.join("run");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        let keys: Vec<String> = (0..options.keys).map(|key| format!("\"key-{key}\"")).collect();
        let text = format!(
            "[privacy]\nrho = 0.5\nprotects = \"person\"\nrelation = \"zero-out\"\n[input]\nfiles = [\"../{input}\"]\n\
             time = \"day\"\nperson = \"who\"\n[limits]\nrows_per_step = 10\nsteps = 7\n[steps]\nlength = \"1 day\"\n\
             first = \"2026-01-01\"\nlast = \"2026-01-07\"\n[[release]]\nname = \"counts\"\nstatistics = [\"total\"]\n\
             by = {{ column = \"key\", values = [{}] }}\n[output]\nfolder = \"public\"\nstate = \"state\"\n",
            keys.join(", ")
        );
        let path = folder.join("dashboard.toml");
        fs::write(&path, text)?;
        Ok(path)
    }

    fn measure(&self, way: Way, input: &str, options: Options) -> Result<Cost> {
        let description = self.describe(input, options)?;
        let start = Instant::now();
        let children = match way {
            Way::Sort => {
                let line = format!("LC_ALL=C cut -d, -f3 {input} | LC_ALL=C sort | uniq -c > run/sorted");
                vec![Command::new("sh").current_dir(&self.folder).args(["-c", &line]).spawn()?]
            }
            Way::Local => vec![self.start(&description, &[])?],
            Way::Spread { processes: 1, workers } => {
                vec![self.start(&description, &["--workers".to_owned(), workers.to_string()])?]
            }
            Way::Spread { processes, workers } => {
                let hosts = self.folder.join("hosts");
                fs::write(&hosts, free_addresses(processes)?)?;
                let one = |process: usize| {
                    let words = [
                        ("--workers", workers.to_string()),
                        ("--processes", processes.to_string()),
                        ("--process", process.to_string()),
                        ("--hosts", hosts.display().to_string()),
                    ];
                    let words: Vec<String> =
                        words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
                    self.start(&description, &words)
                };
                (0..processes).map(one).collect::<Result<_>>()?
            }
        };
        let (processor, memory) = wait(children)?;
        Ok(Cost { wall: start.elapsed().as_secs_f64(), processor, memory })
    }

    fn start(&self, description: &Path, words: &[String]) -> Result<Child> {
        let child = Command::new(&self.program)
            .arg("run")
            .arg(description)
            .args(["--until", "2026-01-08", "--reproducible-seed", "7"])
            .args(words)
            .env("DP_SECRET", &self.secret)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(child)
    }
}

fn free_addresses(count: usize) -> Result<String> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<_>>()?;
    let addresses = listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string()));
    Ok(addresses.collect::<Result<Vec<_>>>()?.join("\n"))
}

/// Waits for all children: their processor time together, and the largest memory of one of them.
fn wait(children: Vec<Child>) -> Result<(f64, f64)> {
    let (mut processor, mut memory) = (0.0, 0.0_f64);
    for mut child in children {
        let id = child.id();
        // A process that has ended keeps its times until it is waited for.
        while let Some(state) = stat(id) {
            if state.ended {
                processor += state.processor;
                break;
            }
            memory = memory.max(peak(id).unwrap_or(0.0));
            std::thread::sleep(Duration::from_millis(5));
        }
        ensure!(child.wait()?.success(), "a run failed; start it by hand in target/machines/run");
    }
    Ok((processor, memory))
}

struct State {
    ended: bool,
    processor: f64,
}

/// What the system says of a process; nothing where it does not.
fn stat(process: u32) -> Option<State> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // User and system time, of the process and of its children, in hundredths of a second.
    let times = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok());
    Some(State { ended: *fields.first()? == "Z", processor: times.sum::<f64>() / 100.0 })
}

fn peak(process: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_numbers_by_name() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let options = Options::parse(&words("--rows 10_000 --keys 7")).unwrap();
        assert_eq!((options.rows, options.keys, options.people), (10_000, 7, 100_000));
        assert!(!options.growth && Options::parse(&words("--growth")).unwrap().growth);
        for wrong in ["--rows", "--rows x", "--rows 0", "--columns 3"] {
            assert!(Options::parse(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn growth_ends_at_the_largest_of_each() {
        let sizes = Options::parse(&[]).unwrap().grown();
        let last = sizes.last().unwrap();
        assert_eq!((last.rows, last.people, last.keys), (100_000_000, 10_000_000, 1_000_000));
        for size in &sizes {
            assert!(size.rows <= last.rows && size.people <= last.people && size.keys <= last.keys);
        }
    }

    #[test]
    fn ratios_are_those_of_rows_alone() {
        let cost = |wall: f64| Cost { wall, processor: wall, memory: 1.0 };
        let costs = [cost(1.0), cost(3.0), cost(4.0), cost(2.5), cost(2.5), cost(2.0)];
        let bases = [cost(0.0), cost(1.0), cost(1.0), cost(1.0), cost(1.0), cost(1.0)];
        let text = table(1000, &costs, &bases);
        assert!(text.contains("one worker / in one place: 1.50"), "{text}");
        assert!(text.contains("one worker / two workers: 2.00"), "{text}");
    }
}
