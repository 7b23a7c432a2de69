//! The low bits of what is published: nothing to be seen in exact mode, a person to be seen in the idealized one.

use std::fmt::Write as _;
use std::fs;

use super::places::{DASHBOARD, VISITS};
use super::subject::{SUBJECTS, dp, lists, text};

/// The attack on one command: so many people who are all there, or all absent, each in a release of its own with independent
/// noise of deviation 1.45.
struct Attack {
    name: &'static str,
    words: &'static [&'static str],
    header: &'static str,
    present: &'static str,
    absent: &'static str,
    /// Whether all people are pairs of vertices in one step, and not a step each.
    pairs: bool,
    /// What every release by default is a multiple of: the grid of its statistic, or what it is decoded from.
    unit: Unit,
}

enum Unit {
    /// The grid of the data, which the guarantee states.
    Grid(f64),
    /// A unit of the integers that are measured.
    Integers(f64),
    /// Decoded from these integers by transforms, in floating point.
    Decoded,
}

const PEOPLE: usize = 600;
const SEED: &str = "53";
/// Pairs of 36 vertices: 630.
const VERTICES: usize = 36;

/// One step per person, and independent noise.
const ALONE: [&str; 8] =
    ["--relation", "zero-out", "--steps", "600", "--strategy", "identity", "--mu", "0.69"];

/// 2^-16, the grid of numbers within 0:1.
const FINE: f64 = 1.0 / 65536.0;

/// 2^-56: a unit of the integer measurements behind them.
const LATTICE: f64 = FINE / (1_u64 << 40) as f64;

const ATTACKS: [Attack; 9] = [
    Attack {
        name: "release",
        words: &["release", "--column", "x", "--bounds", "0:1", "--workload", "window:1"],
        header: "x,y",
        present: "1,",
        absent: "0,",
        pairs: false,
        unit: Unit::Grid(FINE),
    },
    // Weights that fall so fast that nothing of the past is left: statistics that have no grid.
    Attack {
        name: "release of exp",
        words: &["release", "--column", "x", "--bounds", "0:1", "--workload", "exp:1e40"],
        header: "x,y",
        present: "1,",
        absent: "0,",
        pairs: false,
        unit: Unit::Integers(LATTICE),
    },
    Attack {
        name: "release of poly",
        words: &["release", "--column", "x", "--bounds", "0:1", "--workload", "poly:300"],
        header: "x,y",
        present: "1,",
        absent: "0,",
        pairs: false,
        unit: Unit::Decoded,
    },
    Attack {
        name: "histogram",
        words: &[
            "histogram",
            "--column",
            "x",
            "--universe",
            "universe.txt",
            "--show",
            "a",
            "--workload",
            "window:1",
        ],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
        unit: Unit::Grid(1.0),
    },
    Attack {
        name: "histogram --discover",
        words: &[
            "histogram",
            "--column",
            "x",
            "--discover",
            "--threshold-delta",
            "1e-6",
            "--show",
            "a",
            "--workload",
            "window:1",
        ],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
        unit: Unit::Grid(1.0),
    },
    Attack {
        name: "substrings",
        words: &[
            "substrings",
            "--column",
            "x",
            "--alphabet",
            "a",
            "--length",
            "1",
            "--show",
            "a",
            "--workload",
            "window:1",
        ],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
        unit: Unit::Grid(1.0),
    },
    Attack {
        name: "substrings --dictionary",
        words: &[
            "substrings",
            "--column",
            "x",
            "--dictionary",
            "words.txt",
            "--show",
            "c",
            "--workload",
            "window:1",
        ],
        header: "x,y",
        present: "c,",
        absent: ",",
        pairs: false,
        unit: Unit::Grid(1.0),
    },
    Attack {
        name: "episodes",
        words: &[
            "episodes",
            "--column",
            "x",
            "--alphabet",
            "a",
            "--length",
            "1",
            "--show",
            "a",
            "--workload",
            "window:1",
        ],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
        unit: Unit::Grid(1.0),
    },
    Attack {
        name: "graph",
        words: &[
            "graph",
            "weights",
            "--vertices",
            "36",
            "--weights",
            "0:1",
            "--relation",
            "zero-out",
            "--steps",
            "1",
            "--strategy",
            "identity",
            "--mu",
            "0.69",
        ],
        header: "step,u,v,weight",
        present: "",
        absent: "",
        pairs: true,
        unit: Unit::Grid(FINE),
    },
];

impl Attack {
    fn rows(&self, present: bool) -> String {
        let mut rows = format!("{}\n", self.header);
        if self.pairs {
            for v in 0..if present { VERTICES } else { 0 } {
                for u in 0..v {
                    let _ = writeln!(rows, "1,{u},{v},1");
                }
            }
            return rows;
        }
        let row = if present { self.present } else { self.absent };
        for _ in 0..PEOPLE {
            let _ = writeln!(rows, "{row}");
        }
        rows
    }

    /// The released numbers; the noise follows from the seed, so that the attack succeeds or fails alike in every run.
    fn releases(&self, present: bool, more: &[&str]) -> Vec<f64> {
        let directory = tempfile::tempdir().unwrap();
        lists(directory.path());
        fs::write(directory.path().join("rows.csv"), self.rows(present)).unwrap();
        let alone = if self.pairs { &[][..] } else { &ALONE };
        let words = [self.words, alone, &["--input", "rows.csv", "--reproducible-seed", SEED], more].concat();
        let output = dp(directory.path(), &words);
        assert!(output.status.success(), "{}: {}", self.name, text(&output.stderr));
        let value = |line: &str| line.rsplit(',').nth(1).unwrap().parse().unwrap();
        text(&output.stdout).lines().skip(1).map(value).collect()
    }
}

/// Of the releases near 0, the share that is a multiple of 2^-53. Noise near -1 has no finer bits, so 1 plus noise always
/// is; noise near 0 has up to ten bits more and rarely is.
fn coarse(releases: &[f64], within: f64) -> f64 {
    let near: Vec<&f64> = releases.iter().filter(|release| release.abs() < within).collect();
    assert!(near.len() > 40, "{}", near.len());
    let coarse = near.iter().filter(|release| (**release * 2.0_f64.powi(53)).fract() == 0.0).count();
    coarse as f64 / near.len() as f64
}

/// 600 releases each, or 630. Idealized: about 80 (absent) and 65 (present) fall within a quarter of 0; a release of an absent
/// person is coarse with probability below 1/4, so that half of 40 or more are with probability below 1e-3; of a present one
/// always. That attack decides correctly here for every command. By default all releases are multiples of one unit, whoever is
/// there: the grid that the guarantee states, of which the share is 1 for both with certainty; or, where the statistic has no grid,
/// made of the integers that were measured, of which it is below a half for both.
#[test]
fn low_bits_betray_the_idealized_mode_and_not_the_default_of_any_command() {
    for attack in &ATTACKS {
        let share = |present, more: &[&str], within| coarse(&attack.releases(present, more), within);
        let (absent, present) = (share(false, &["--idealized"], 0.25), share(true, &["--idealized"], 0.25));
        assert!(absent < 0.5 && present == 1.0, "{}: {absent} {present}", attack.name);
        for present in [false, true] {
            let releases = attack.releases(present, &[]);
            let (unit, shown) = match attack.unit {
                Unit::Grid(unit) => (Some(unit), coarse(&releases, 2.0) == 1.0),
                Unit::Integers(unit) => (Some(unit), coarse(&releases, 0.25) < 0.5),
                Unit::Decoded => (None, coarse(&releases, 0.25) < 0.5),
            };
            assert!(shown, "{}, present: {present}", attack.name);
            if let Some(unit) = unit {
                let off = releases.iter().find(|release| (**release / unit).fract() != 0.0);
                assert_eq!(off, None, "{}", attack.name);
            }
        }
    }
}

/// What the other commands and workloads print: by default every release is a multiple of the grid that is stated, where its statistic
/// has one, for a person who is there and for one who is not. Idealized releases are not, so that the law has something to find.
#[test]
fn releases_are_multiples_of_the_stated_grid_whoever_is_there() {
    let mut found = 0;
    for subject in SUBJECTS.iter().filter(|subject| subject.keeps_state) {
        for more in [&[][..], &["--idealized"]] {
            let mut whole = true;
            for rows in [subject.with, subject.without] {
                let directory = tempfile::tempdir().unwrap();
                lists(directory.path());
                let output = subject.run(directory.path(), rows, more);
                assert!(output.status.success(), "{}: {}", subject.name, text(&output.stderr));
                let stated = text(&output.stderr);
                let grid =
                    stated.split_once("on a grid of ").map(|(_, rest)| rest.split(',').next().unwrap());
                let grid: f64 = grid.map_or(1.0 / 65536.0, |grid| grid.parse().unwrap());
                let value = |line: &str| line.rsplit(',').nth(1).unwrap().parse::<f64>().unwrap();
                let lines = text(&output.stdout);
                assert!(lines.lines().count() > 2);
                whole &= lines.lines().skip(1).all(|line| (value(line) / grid).fract() == 0.0);
            }
            assert_eq!(whole, more.is_empty(), "{} {more:?}", subject.name);
            found += 1;
        }
    }
    assert_eq!(found, 22);
}

/// Dashboards: whole numbers where rows and people are counted, and six digits of means, the sums beside them, and bands, all made of
/// exact measurements. The same for a person who is there and one who is not.
#[test]
fn dashboards_publish_on_the_grid_of_their_statistics() {
    for rows in [VISITS, VISITS.rsplit_once("2026-01-04").unwrap().0] {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("dashboard.toml"), DASHBOARD).unwrap();
        fs::write(at.join("rows.csv"), rows).unwrap();
        let words = ["run", "dashboard.toml", "--until", "2026-01-06", "--reproducible-seed", "3"];
        let output = dp(at, &words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut statistics = std::collections::BTreeMap::new();
        for release in ["visits", "cost", "people", "waiting"] {
            for line in fs::read_to_string(at.join(format!("public/{release}.csv"))).unwrap().lines().skip(1)
            {
                let fields: Vec<&str> = line.split(',').collect();
                let [statistic, value, _, low, high] = fields[fields.len() - 5..].try_into().unwrap();
                // Sums beside a mean are made of two measurements, as the mean is.
                let unit = (release != "cost").then_some(1.0);
                *statistics.entry((release, statistic.to_owned())).or_insert(0) += 1;
                if let Some(unit) = unit {
                    assert_eq!((value.parse::<f64>().unwrap() / unit).fract(), 0.0, "{release}: {line}");
                }
                for number in [value, low, high].iter().filter(|_| unit.is_none()) {
                    let significant = number.trim_start_matches(['-', '0', '.']);
                    assert!(significant.bytes().filter(u8::is_ascii_digit).count() <= 6, "{line}");
                }
            }
        }
        assert_eq!(statistics.len(), 7, "{statistics:?}");
    }
}
