//! Every small world: how far one person really moves the cells, against what the footprint says.
//!
//! All sequences of rows of one person are put beside the rows of another, through the whole path from rows to cells, under
//! every limit and policy. The measured difference `‖C d‖²` of a strategy must stay within the sensitivity, and for a
//! release whose bound is tight some world must reach it.

use dp_mechanisms::{Method, Participation, Problem, Relation, Workload};

use crate::encoding::Encoding;
use crate::intake::Intake;
use crate::people::HashKey;
use crate::rows;
use crate::spec::Spec;

/// What the person in question may have in a row: steps, keys and values, some of them useless.
const DAYS: [&str; 4] = ["2026-01-01", "2026-01-02", "2026-01-03", "nonsense"];
const KEYS: [&str; 3] = ["a", "b", "z"];
const VALUES: [&str; 4] = ["-3", "0", "2", "many"];

struct World<'a> {
    spec: &'a Spec,
    encodings: &'a [Encoding],
}

impl World<'_> {
    /// The cells of all steps, by release and then by step. One step is closed before the last rows come.
    fn cells(&self, early: &[String], late: &[String]) -> Vec<Vec<Vec<i64>>> {
        let columns = self.spec.columns();
        let path = std::path::Path::new("rows.csv");
        let mut intake = Intake::new(self.spec, self.encodings, HashKey::new([1; 32]));
        let mut steps: Vec<Vec<Vec<i64>>> = Vec::new();
        for (rows, closed) in [(early, 1), (late, self.spec.calendar.steps())] {
            let text = format!("day,who,key,value\n{}\n", rows.join("\n"));
            rows::read_text(&text, &columns, &mut |row| intake.push(row, path)).unwrap();
            while intake.open() < closed {
                steps.push(intake.close());
            }
            intake.forget();
        }
        (0..self.encodings.len())
            .map(|index| steps.iter().map(|cells| cells[index].clone()).collect())
            .collect()
    }
}

fn spec(protects: &str, relation: &str, limits: &str, late: &str) -> Spec {
    let person = if protects == "event" { "" } else { "person = \"who\"" };
    let people = if protects == "person" {
        "[[release]]\nname = \"people\"\nof = \"people\"\nstatistics = [\"total\"]\n\
         by = { column = \"key\", values = [\"a\", \"b\"] }"
    } else {
        ""
    };
    let text = format!(
        r#"
        [privacy]
        rho = 0.5
        protects = "{protects}"
        relation = "{relation}"
        [input]
        files = ["rows.csv"]
        time = "day"
        {person}
        {limits}
        [steps]
        length = "1 day"
        first = "2026-01-01"
        last = "2026-01-03"
        late = "{late}"
        [[release]]
        name = "rows"
        statistics = ["total"]
        by = {{ column = "key", values = ["a"], other = "rest" }}
        [[release]]
        name = "sum"
        value = {{ column = "value", bounds = [-3, 2], resolution = 1 }}
        statistics = ["total"]
        [[release]]
        name = "mean"
        value = {{ column = "value", bounds = [-3, 2], resolution = 1 }}
        statistics = ["mean"]
        by = {{ column = "key", values = ["a", "b"] }}
        [[release]]
        name = "median"
        value = {{ column = "value", bounds = [-3, 2], resolution = 1 }}
        statistics = ["quantile:0.5"]
        {people}
        [output]
        folder = "public"
        "#
    );
    Spec::parse(&text, "worlds.toml".as_ref()).unwrap()
}

/// All rows that the person may have, and all pairs of them.
fn sequences() -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (index, day) in DAYS.iter().enumerate() {
        for (other, key) in KEYS.iter().enumerate() {
            for (third, value) in VALUES.iter().enumerate() {
                // Of the rows that are useless in several ways one is enough.
                if usize::from(index == 3) + usize::from(other == 2) + usize::from(third == 3) < 2 {
                    rows.push(format!("{day},me,{key},{value}"));
                }
            }
        }
    }
    let mut sequences = vec![Vec::new()];
    sequences.extend(rows.iter().map(|row| vec![row.clone()]));
    // Pairs and triples of rows that count, which is where limits decide.
    let few: Vec<&String> = rows
        .iter()
        .filter(|row| {
            row.starts_with('2') && !row.contains('z') && !row.ends_with(",0") && !row.ends_with('y')
        })
        .collect();
    for first in &few {
        for second in &few {
            sequences.push(vec![(*first).clone(), (*second).clone()]);
            sequences
                .extend(few.iter().map(|third| vec![(*first).clone(), (*second).clone(), (*third).clone()]));
        }
    }
    sequences
}

/// `‖C d‖²` summed over the cells, for the strategy as a matrix.
fn moved(strategy: &[Vec<f64>], left: &[Vec<i64>], right: &[Vec<i64>]) -> f64 {
    let cells = left[0].len();
    (0..cells)
        .map(|cell| {
            strategy
                .iter()
                .map(|row| {
                    let sum: f64 = row
                        .iter()
                        .zip(left.iter().zip(right))
                        .map(|(c, (l, r))| c * (l[cell] - r[cell]) as f64)
                        .sum();
                    sum * sum
                })
                .sum::<f64>()
        })
        .sum()
}

#[test]
fn nobody_moves_the_cells_further_than_the_footprint_says() {
    let other: Vec<String> =
        ["2026-01-01,you,a,2", "2026-01-02,you,b,-1", "2026-01-03,you,a,0"].map(str::to_owned).into();
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 3).unwrap()).unwrap();
    let factor = strategy.materialize().unwrap().strategy;
    let matrix: Vec<Vec<f64>> = factor.rows().into_iter().map(|row| row.to_vec()).collect();
    let sequences = sequences();
    let cases = [
        ("person", "[limits]\nrows_per_step = 1\nsteps = 1"),
        ("person", "[limits]\nrows_per_step = 2\nsteps = 1"),
        ("person", "[limits]\nrows_per_step = 1\nsteps = 2"),
        ("person", "[limits]\nrows_per_step = 2\nsteps = 2\nseparation = 2"),
        ("person-step", "[limits]\nrows_per_step = 2"),
        ("event", ""),
    ];
    for (protects, limits) in cases {
        for (relation, late) in
            [("zero-out", "drop"), ("zero-out", "next"), ("replace", "drop"), ("replace", "next")]
        {
            let spec = spec(protects, relation, limits, late);
            let encodings = Encoding::all(&spec, &spec.columns());
            let world = World { spec: &spec, encodings: &encodings };
            let allowed: Vec<f64> = encodings
                .iter()
                .map(|encoding| {
                    let footprint = encoding.footprint(&spec).unwrap();
                    footprint
                        .squared_sensitivity(|participation| strategy.sensitivity(participation))
                        .unwrap()
                        .squared
                })
                .collect();
            // What may be there in place of the person's rows: nothing, or rows at other times with other contents.
            let mut reference = vec![Vec::new()];
            if relation == "replace" {
                reference.push(vec!["2026-01-03,me,b,2".to_owned(), "2026-01-03,me,b,2".to_owned()]);
                reference.push(vec!["2026-01-01,me,a,2".to_owned(), "2026-01-01,me,a,2".to_owned()]);
            }
            // One row alone where one row is protected, one step alone where a step is.
            let admissible = |rows: &[String]| match protects {
                "event" => rows.len() <= 1,
                "person-step" => rows.windows(2).all(|pair| pair[0][..10] == pair[1][..10]),
                _ => true,
            };
            let mut largest = vec![0.0_f64; encodings.len()];
            for before in reference.iter().filter(|rows| admissible(rows)) {
                // All rows come before the first step is closed, or all after it: then those of the first day are late.
                for after_closing in [false, true] {
                    let cells = |mine: &[String]| {
                        let rows: Vec<String> = other.iter().chain(mine).cloned().collect();
                        if after_closing { world.cells(&[], &rows) } else { world.cells(&rows, &[]) }
                    };
                    let base = cells(before);
                    for mine in sequences.iter().filter(|rows| admissible(rows)) {
                        for (index, (left, right)) in cells(mine).iter().zip(&base).enumerate() {
                            largest[index] = largest[index].max(moved(&matrix, left, right));
                        }
                    }
                }
            }
            for (index, (largest, allowed)) in largest.iter().zip(&allowed).enumerate() {
                let name = &spec.releases[index].name;
                assert!(
                    *largest <= allowed * (1.0 + 1e-9),
                    "{protects} {relation} {late} {limits} {name}: {largest} > {allowed}"
                );
                // Zero-out is tight for everything: somebody with as many rows as count can reach the bound.
                let rows = match protects {
                    "person" => spec.limits.rows_per_step * spec.limits.steps,
                    _ => spec.limits.rows_per_step,
                };
                if relation == "zero-out" && rows <= 3 {
                    assert!(
                        *largest >= allowed * (1.0 - 1e-9),
                        "{protects} {relation} {late} {limits} {name}: only {largest} of {allowed}"
                    );
                }
            }
        }
    }
}

/// The check above is able to fail: with a limit that is not enforced, somebody moves the cells too far.
#[test]
fn a_limit_that_is_not_enforced_is_noticed() {
    let strict = spec("person", "zero-out", "[limits]\nrows_per_step = 1\nsteps = 1", "drop");
    let loose = spec("person", "zero-out", "[limits]\nrows_per_step = 2\nsteps = 1", "drop");
    let encodings = Encoding::all(&loose, &loose.columns());
    let world = World { spec: &loose, encodings: &encodings };
    let allowed = encodings[0].footprint(&strict).unwrap();
    assert_eq!(
        (allowed.relation(), allowed.terms()[0].participation),
        (Relation::ZeroOut, Participation::Single)
    );
    let twice = ["2026-01-01,me,a,2".to_owned(), "2026-01-01,me,a,2".to_owned()];
    let identity: Vec<Vec<f64>> =
        (0..3).map(|i| (0..3).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let distance = moved(&identity, &world.cells(&twice, &[])[0], &world.cells(&[], &[])[0]);
    assert!(distance > allowed.terms()[0].weight.powi(2) * 1.5);
}
