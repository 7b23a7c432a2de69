//! The tables of errors on the crate page of `dp-mechanisms`, computed again, every cell with its bound.

mod unknown;

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use dp_mechanisms::planner::{self, Report, Request, evaluate};
use dp_mechanisms::{Method, Metric, Problem, Workload};

/// Print the tables of the crate page: the strategies for the count, `scaled-blt` over very long horizons, how far the planner's choice
/// is above its bound, windows near their horizon, and what it costs not to know the horizon
#[derive(Parser)]
struct Arguments {
    /// Only 64 and 256 steps, which take less than a minute
    #[arg(long, conflicts_with = "up_to")]
    quick: bool,
    /// The longest horizon, as a power of two
    #[arg(long, value_name = "POWER", default_value = "20")]
    up_to: u32,
    /// The seconds that the planner may take for a cell; `optimal` at 1024 steps takes a minute for some workloads
    #[arg(long, default_value = "100")]
    seconds: u64,
}

/// The horizons of the tables, as powers of two.
const STRATEGY_HORIZONS: [u32; 4] = [10, 12, 16, 20];
const GAP_HORIZONS: [u32; 3] = [10, 16, 20];
const WINDOW_HORIZONS: [u32; 3] = [12, 16, 20];
const QUICK_HORIZONS: [u32; 2] = [6, 8];

/// The horizons of `scaled-blt`, which plans the longest as quickly as the others.
const LONG_HORIZONS: [usize; 6] = [1 << 10, 1 << 12, 1 << 16, 1 << 20, 1 << 24, 100_000_000];
const LONG_WORKLOADS: [&str; 3] = ["count", "momentum:0.9", "momentum:0.99"];

/// The workloads of the third table, by name and as the command line writes them.
const WORKLOADS: [(&str, &str); 8] = [
    ("count", "count"),
    ("exponential, α = 1.001", "exp:1.001"),
    ("average", "average"),
    ("window of 32", "window:32"),
    ("window of 1000", "window:1000"),
    ("polynomial, c = ½", "poly:0.5"),
    ("momentum 0.9", "momentum:0.9"),
    ("momentum 0.99", "momentum:0.99"),
];

/// The strategies of the table of windows.
const WINDOWED: [Method; 2] = [Method::ScaledSqrt, Method::ScaledBlt];

/// Windows, by their share of the horizon.
const SHARES: [(&str, f64); 7] = [
    ("97/100", 0.97),
    ("7/10", 0.7),
    ("1/2", 0.5),
    ("1/4", 0.25),
    ("1/10", 0.1),
    ("1/100", 0.01),
    ("1/1000", 0.001),
];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let time = Duration::from_secs(arguments.seconds);
    print!("{}", strategies(&arguments.horizons(&STRATEGY_HORIZONS), time)?);
    println!();
    let long: &[usize] = if arguments.quick { &[64, 256] } else { &LONG_HORIZONS };
    print!("{}", scaled_blt(long)?);
    println!();
    print!("{}", gaps(&arguments.horizons(&GAP_HORIZONS), time)?);
    println!();
    print!("{}", windows(&arguments.horizons(&WINDOW_HORIZONS))?);
    println!();
    let expected: &[usize] = if arguments.quick { &[64] } else { &unknown::EXPECTED };
    print!("{}", unknown::table(expected, arguments.up_to)?);
    Ok(())
}

impl Arguments {
    /// Those horizons of a table that are computed.
    fn horizons(&self, all: &[u32]) -> Vec<u32> {
        let asked = if self.quick { &QUICK_HORIZONS } else { all };
        asked.iter().copied().filter(|power| *power <= self.up_to).collect()
    }
}

fn report(workload: &Workload, power: u32, metric: Metric, time: Duration) -> Result<Report> {
    let problem = Problem::new(workload.clone(), 1 << power)?.with_metric(metric);
    Ok(evaluate(&Request { time, ..Request::new(problem) })?)
}

/// E2 and E∞ of every strategy for the count. Each is built for the mean; the number in brackets is its largest error where it is
/// built for that.
fn strategies(powers: &[u32], time: Duration) -> Result<String> {
    let count = Workload::count();
    let mut reports = Vec::new();
    for &power in powers {
        reports.push((report(&count, power, Metric::Mse, time)?, report(&count, power, Metric::Max, time)?));
    }
    let cells = |cell: &dyn Fn(&Report, &Report) -> String| -> Vec<String> {
        reports.iter().map(|(mean, max)| cell(mean, max)).collect()
    };
    let mut rows = vec![
        ("lower bound on E2".to_owned(), cells(&|mean, _| number(mean.lower_bound.mse))),
        ("lower bound on E∞".to_owned(), cells(&|_, max| number(max.lower_bound.max_se))),
    ];
    for method in Method::ALL {
        let errors = |report: &Report| {
            let found = report.strategies.iter().find(|one| one.name == method.name());
            found.map(|one| (one.mse, one.max_se))
        };
        let row = cells(&|mean, max| pair(errors(mean), errors(max).map(|(_, largest)| largest)));
        if row.iter().any(|cell| !cell.is_empty()) {
            rows.push((format!("`{}`", method.name()), row));
        }
    }
    let titles: Vec<String> = powers.iter().map(|&power| format!("E2, E∞ at {}", steps(power))).collect();
    Ok(table("strategy", &titles, &rows))
}

/// Both errors of `scaled-blt`, each where it is built for that, and how far they are above what nothing can beat.
fn scaled_blt(horizons: &[usize]) -> Result<String> {
    let mut rows = Vec::new();
    for text in LONG_WORKLOADS {
        let workload: Workload = text.parse()?;
        for (name, metric) in [("E2", Metric::Mse), ("E∞", Metric::Max)] {
            let mut cells = Vec::new();
            for &steps in horizons {
                let problem = Problem::new(workload.clone(), steps)?.with_metric(metric);
                let request = Request { method: Some(Method::ScaledBlt), ..Request::new(problem) };
                let report = evaluate(&request)?;
                let best = &report.strategies[0];
                let (error, bound) = match metric {
                    Metric::Mse => (best.mse, report.lower_bound.mse),
                    Metric::Max => (best.max_se, report.lower_bound.max_se),
                };
                cells.push(format!("{}, {}", number(error), above(Some(best.gap), bound)));
            }
            rows.push((format!("{text}, {name}"), cells));
        }
    }
    let titles: Vec<String> = horizons.iter().map(|steps| format!("at {steps}")).collect();
    Ok(table("`scaled-blt`", &titles, &rows))
}

/// How far the planner's choice is above what nothing can beat, and that bound.
fn gaps(powers: &[u32], time: Duration) -> Result<String> {
    let columns: Vec<(Metric, u32)> = [Metric::Mse, Metric::Max]
        .into_iter()
        .flat_map(|metric| powers.iter().map(move |power| (metric, *power)))
        .collect();
    let mut rows = Vec::new();
    for (name, text) in WORKLOADS {
        let workload: Workload = text.parse()?;
        let mut cells = Vec::new();
        for &(metric, power) in &columns {
            let report = report(&workload, power, metric, time)?;
            let bound = match metric {
                Metric::Mse => report.lower_bound.mse,
                Metric::Max => report.lower_bound.max_se,
            };
            cells.push(above(report.strategies.first().map(|best| best.gap), bound));
        }
        rows.push((name.to_owned(), cells));
    }
    let title = |&(metric, power): &(Metric, u32)| {
        format!("{} at {}", if metric == Metric::Mse { "E2" } else { "E∞" }, steps(power))
    };
    Ok(table("workload", &columns.iter().map(title).collect::<Vec<_>>(), &rows))
}

/// E2 of two strategies above what nothing can beat for a window of a share of the horizon, and that bound.
fn windows(powers: &[u32]) -> Result<String> {
    let mut rows = Vec::new();
    for &power in powers {
        let mut bounds = Vec::new();
        let mut above = WINDOWED.map(|_| Vec::new());
        for (_, share) in SHARES {
            // A window of one step needs no strategy.
            let width = (share * (1_u64 << power) as f64).round().max(2.0) as usize;
            let problem = Problem::new(Workload::window(width)?, 1 << power)?;
            let bound = planner::lower_bound(&problem)?;
            bounds.push(number(bound));
            for (method, cells) in WINDOWED.iter().zip(&mut above) {
                let error = problem.error(method.build(&problem)?.as_ref())?;
                cells.push(percent(error / bound - 1.0));
            }
        }
        rows.push((format!("lower bound at {}", steps(power)), bounds));
        let named = WINDOWED.iter().zip(above);
        rows.extend(named.map(|(method, cells)| (format!("`{}` at {}", method.name(), steps(power)), cells)));
    }
    let titles: Vec<String> = SHARES.iter().map(|(name, _)| (*name).to_owned()).collect();
    Ok(table("E2 of a window", &titles, &rows))
}

/// A table in Markdown.
fn table(first: &str, titles: &[String], rows: &[(String, Vec<String>)]) -> String {
    let line = |name: &str, cells: &[String]| format!("| {name} | {} |\n", cells.join(" | "));
    let mut text = line(first, titles) + "|---|" + &"---|".repeat(titles.len()) + "\n";
    text.extend(rows.iter().map(|(name, cells)| line(name, cells)));
    text
}

/// Both errors of a strategy that is built for the mean, and in brackets the largest error of the one that is built for that, where
/// it is smaller; nothing for a strategy that was not evaluated.
fn pair(errors: Option<(f64, f64)>, leveled: Option<f64>) -> String {
    let Some((mean, largest)) = errors else { return String::new() };
    let leveled = leveled.filter(|leveled| *leveled < 0.9999 * largest);
    let bracket = leveled.map_or(String::new(), |leveled| format!(" ({})", number(leveled)));
    format!("{}, {}{bracket}", number(mean), number(largest))
}

/// The gap of the best strategy, if there is one.
fn above(gap: Option<f64>, bound: f64) -> String {
    let Some(gap) = gap else { return format!("nothing, bound {}", number(bound)) };
    format!("{} above {}", percent(gap), number(bound))
}

/// No minus sign for what is rounding; a gap that is truly negative would be an error to be seen.
fn percent(gap: f64) -> String {
    format!("{:.2} %", if gap.abs() < 5e-5 { 0.0 } else { 100.0 * gap })
}

fn steps(power: u32) -> String {
    if power <= 12 { (1_u64 << power).to_string() } else { format!("2^{power}") }
}

/// Five significant digits, at most nine of them behind the point.
fn number(value: f64) -> String {
    // Rounded first: 9.99999 has two digits before the point.
    let scientific = format!("{value:.4e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let digits = (4 - exponent.unwrap_or(0)).clamp(0, 9) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits() {
        let rows = [
            (8.734_66, "8.7347"),
            (9.999_99, "10.000"),
            (26.418_87, "26.419"),
            (149.664, "149.66"),
            (99_999.7, "100000"),
            (524_288.5, "524288"),
            (0.022_987_684, "0.022988"),
            (1.0, "1.0000"),
            (0.0, "0.0000"),
            (1.234_56e-9, "0.000000001"),
        ];
        for (value, text) in rows {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn cells_say_what_was_found() {
        assert_eq!(pair(Some((8.7456, 10.491)), Some(8.803)), "8.7456, 10.491 (8.8030)");
        assert_eq!(
            pair(Some((9.6708, 10.71)), Some(10.7095)),
            "9.6708, 10.710",
            "the same strategy for both"
        );
        assert_eq!(pair(Some((9.6708, 10.71)), None), "9.6708, 10.710");
        assert_eq!(pair(None, Some(10.71)), "");
        assert_eq!(above(Some(0.002_21), 18.172_4), "0.22 % above 18.172");
        assert_eq!(above(Some(-1e-9), 1.0), "0.00 % above 1.0000");
        assert_eq!(above(Some(-0.01), 1.0), "-1.00 % above 1.0000", "a wrong bound is not hidden");
        assert_eq!(above(None, 1.0), "nothing, bound 1.0000");
        assert_eq!([steps(6), steps(12), steps(16)], ["64", "4096", "2^16"]);
    }

    #[test]
    fn the_errors_of_scaled_blt_stand_beside_their_bounds() {
        let text = scaled_blt(&[64]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 2 * LONG_WORKLOADS.len(), "{text}");
        // The optimum is 4.4094.
        assert!(lines[2].starts_with("| count, E2 | 4.4") && lines[2].contains(" % above 4.409"), "{text}");
    }

    #[test]
    fn windows_stand_below_their_bounds() {
        let text = windows(&[6]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 1 + WINDOWED.len(), "{text}");
        assert!(lines[2].starts_with("| lower bound at 64 |"), "{text}");
        assert!(lines[4].starts_with("| `scaled-blt` at 64 | 0."), "{text}");
        assert!(lines.iter().all(|line| line.matches('|').count() == SHARES.len() + 2), "{text}");
    }

    #[test]
    fn tables_are_markdown() {
        let row = |name: &str, cells: [&str; 2]| (name.to_owned(), cells.map(str::to_owned).to_vec());
        let text =
            table("w", &["a".to_owned(), "b".to_owned()], &[row("x", ["1", ""]), row("y", ["2", "3"])]);
        assert_eq!(text, "| w | a | b |\n|---|---|---|\n| x | 1 |  |\n| y | 2 | 3 |\n");
    }

    #[test]
    fn horizons_are_those_that_were_asked_for() {
        let of = |words: &[&str]| {
            let words = ["tables"].iter().chain(words);
            Arguments::try_parse_from(words).map(|arguments| arguments.horizons(&STRATEGY_HORIZONS))
        };
        assert_eq!(of(&[]).unwrap(), STRATEGY_HORIZONS);
        assert_eq!(of(&["--up-to", "12"]).unwrap(), [10, 12]);
        assert_eq!(of(&["--quick"]).unwrap(), QUICK_HORIZONS);
        assert!(of(&["--quick", "--up-to", "12"]).is_err());
    }
}
