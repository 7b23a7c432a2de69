//! No person moves all that is measured of a dashboard further than its one budget pays for.

use std::path::Path;
use std::sync::Arc;

use dp_events::Spec;
use dp_events::encoding::ReleaseCells;
use dp_events::intake::{Intake, Parser};
use dp_events::people::PseudonymKey;
use dp_events::plan::{Planned, plan};
use dp_events::rows::Row;
use dp_mechanisms::{Joint, Method, Participation, Problem, Statistic, Workload};
use ndarray::Array2;

const STEPS: usize = 3;
const RHO: f64 = 0.5;
/// Strategies are written down in sixteen bits of their numbers; what is rebuilt here is not.
const WRITTEN: f64 = 1e-3;

/// Three releases of one budget: rows by key, a sum of values, and different people.
fn spec(rows_per_step: usize, steps: usize) -> Arc<Spec> {
    let text = format!(
        r#"
        [privacy]
        rho = {RHO}
        protects = "person"
        relation = "zero-out"
        [input]
        files = ["rows.csv"]
        time = "day"
        person = "who"
        [limits]
        rows_per_step = {rows_per_step}
        steps = {steps}
        [steps]
        length = "1 day"
        first = "2026-01-01"
        last = "2026-01-03"
        [[release]]
        name = "visits"
        statistics = ["total"]
        by = {{ column = "key", values = ["a", "b"] }}
        [[release]]
        name = "spent"
        share = 2
        value = {{ column = "value", bounds = [-3, 2], resolution = 1 }}
        statistics = ["total"]
        [[release]]
        name = "people"
        of = "people"
        statistics = ["total"]
        [output]
        folder = "public"
        "#
    );
    Arc::new(Spec::parse(&text, Path::new("dashboard.toml")).unwrap())
}

/// A row of the file.
type Fields = [&'static str; 4];
const COLUMNS: Fields = ["day", "who", "key", "value"];
const DAYS: [&str; STEPS] = ["2026-01-01", "2026-01-02", "2026-01-03"];
const OTHERS: [Fields; 2] = [[DAYS[0], "you", "a", "2"], [DAYS[2], "you", "b", "1"]];

/// The cells of every release at every step: a matrix each, with a row for every step.
fn cells(parser: &Parser, person: &[&Fields]) -> Vec<Array2<f64>> {
    let mut intake = Intake::new(parser.clone());
    let columns = parser.spec().columns();
    for fields in OTHERS.iter().chain(person.iter().copied()) {
        let place = |column: &String| COLUMNS.iter().position(|one| one == column);
        let fields: Vec<_> =
            columns.iter().map(|column| place(column).map(|place| fields[place].as_bytes())).collect();
        intake.push(&Row::new(1, &fields), Path::new("rows.csv")).unwrap();
    }
    let steps: Vec<_> = (0..STEPS).map(|_| intake.close()).collect();
    (0..parser.encodings().len())
        .map(|release| {
            let of_step = |step: usize| match &steps[step].releases()[release] {
                ReleaseCells::Listed(cells) => cells,
                ReleaseCells::Named(_) => panic!("all keys are listed"),
            };
            Array2::from_shape_fn((STEPS, of_step(0).len()), |(step, cell)| of_step(step)[cell] as f64)
        })
        .collect()
}

/// What is measured of a release, and the standard deviation of the noise: the strategy of its name, built again.
fn measured(planned: &Planned, participation: Participation) -> (Array2<f64>, f64) {
    let statistics = vec![Statistic::new(Workload::count(), 1.0).unwrap()];
    let problem = Problem::joint(statistics, STEPS).unwrap().with_participation(participation);
    let strategy = planned.strategy().parse::<Method>().unwrap().build(&problem).unwrap();
    let joint = Joint::new(problem, Arc::clone(&strategy)).unwrap();
    let sigma = |step: usize| {
        let squared = joint.row_norms(0).unwrap().at(step).unwrap();
        planned.standard_deviation(0, step).unwrap() / squared.sqrt()
    };
    for step in 1..STEPS {
        assert!((sigma(step) / sigma(0) - 1.0).abs() < WRITTEN, "it is another strategy that is published");
    }
    (strategy.materialize().unwrap().strategy, sigma(0))
}

/// Everything that one person may write into the file in up to three rows, under limits that count all of them or not, beside
/// nothing of that person: the releases together lose no more than ρ, and somebody loses all of it.
#[test]
fn one_person_moves_a_dashboard_no_further_than_its_budget_pays_for() {
    let mut rows: Vec<Fields> = Vec::new();
    for day in DAYS {
        for key in ["a", "b"] {
            rows.extend(["-3", "2"].map(|value| [day, "me", key, value]));
        }
    }
    let count = rows.len() + 1;
    for (rows_per_step, steps) in [(1, 1), (2, 1), (3, 1), (1, 2), (1, 3)] {
        let spec = spec(rows_per_step, steps);
        let days = Participation::repeated(steps, 1).unwrap();
        // Nobody is a different person twice.
        let participation = |release: &str| if release == "people" { Participation::Single } else { days };
        let parser = Parser::new(Arc::clone(&spec), Arc::new(PseudonymKey::new([1; 32])));
        let releases: Vec<_> = plan(&spec, 0)
            .unwrap()
            .iter()
            .map(|planned| measured(planned, participation(&planned.name)))
            .collect();
        let without = cells(&parser, &[]);
        let mut largest = 0.0_f64;
        for world in 0..count.pow(3) {
            let digits = [world % count, world / count % count, world / count / count];
            let chosen: Vec<&Fields> = digits.iter().filter_map(|one| rows.get(*one)).collect();
            let with = cells(&parser, &chosen);
            let lost =
                releases.iter().zip(with.iter().zip(&without)).map(|((strategy, sigma), (with, without))| {
                    let moved = strategy.dot(&(with - without));
                    moved.iter().map(|value| value * value).sum::<f64>() / (2.0 * sigma * sigma)
                });
            largest = largest.max(lost.sum());
        }
        let of = format!("{rows_per_step} rows in {steps} steps lose ρ = {largest} of {RHO}");
        assert!(largest <= RHO * (1.0 + WRITTEN), "{of}");
        assert!(largest > 0.97 * RHO, "{of}: a limit that is not enforced would go unnoticed");
    }
}
