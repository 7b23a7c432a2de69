//! The low bits of what is published: nothing to be seen in exact mode, a person to be seen in the idealized one.

use std::fmt::Write as _;
use std::fs;

use super::subject::{dp, lists, text};

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
}

const PEOPLE: usize = 600;
const SEED: &str = "53";
/// Pairs of 36 vertices: 630.
const VERTICES: usize = 36;

/// One step per person, nothing remembered, and independent noise.
const ALONE: [&str; 10] = [
    "--relation",
    "zero-out",
    "--steps",
    "600",
    "--workload",
    "window:1",
    "--strategy",
    "identity",
    "--mu",
    "0.69",
];

const ATTACKS: [Attack; 7] = [
    Attack {
        name: "release",
        words: &["release", "--column", "x", "--bounds", "0:1"],
        header: "x,y",
        present: "1,",
        absent: "0,",
        pairs: false,
    },
    Attack {
        name: "histogram",
        words: &["histogram", "--column", "x", "--universe", "universe.txt", "--show", "a"],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
    },
    Attack {
        name: "histogram --discover",
        words: &["histogram", "--column", "x", "--discover", "--threshold-delta", "1e-6", "--show", "a"],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
    },
    Attack {
        name: "substrings",
        words: &["substrings", "--column", "x", "--alphabet", "a", "--length", "1", "--show", "a"],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
    },
    Attack {
        name: "substrings --dictionary",
        words: &["substrings", "--column", "x", "--dictionary", "words.txt", "--show", "c"],
        header: "x,y",
        present: "c,",
        absent: ",",
        pairs: false,
    },
    Attack {
        name: "episodes",
        words: &["episodes", "--column", "x", "--alphabet", "a", "--length", "1", "--show", "a"],
        header: "x,y",
        present: "a,",
        absent: ",",
        pairs: false,
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
/// always. That attack decides correctly here for every command. By default all releases are multiples of the grid that the
/// guarantee states, for whoever is there: the share is 1 for both, with certainty.
#[test]
fn low_bits_betray_the_idealized_mode_and_not_the_default_of_any_command() {
    for attack in &ATTACKS {
        let share = |present, more: &[&str], within| coarse(&attack.releases(present, more), within);
        let (absent, present) = (share(false, &["--idealized"], 0.25), share(true, &["--idealized"], 0.25));
        assert!(absent < 0.5 && present == 1.0, "{}: {absent} {present}", attack.name);
        for present in [false, true] {
            let releases = attack.releases(present, &[]);
            assert_eq!(coarse(&releases, 2.0), 1.0, "{}", attack.name);
            // Numbers within 0:1 have a grid of 2^-16; events are counted in whole numbers.
            let unit = if ["release", "graph"].contains(&attack.name) { 65536.0 } else { 1.0 };
            let off = releases.iter().find(|release| (**release * unit).fract() != 0.0);
            assert_eq!(off, None, "{}", attack.name);
        }
    }
}
