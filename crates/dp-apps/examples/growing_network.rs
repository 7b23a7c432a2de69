//! A network of acquaintances grows for a hundred days. Every day five figures about it are published, each private to
//! the single acquaintance, each with a fifth of the budget.
//!
//! `cargo run --package dp-apps --example growing_network`

use dp_apps::graph::{EdgeUpdate, GraphFunction};
use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{Budget, GaussianSource, Mechanism, Method, Plan, Problem, Relation, Seed, Workload};

const DAYS: usize = 100;
const PEOPLE: usize = 400;
const PER_DAY: usize = 40;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let functions = [
        ("acquaintances", GraphFunction::Edges),
        ("spanning forest", GraphFunction::SpanningForest { largest_weight: 1.0 }),
        ("triangles", GraphFunction::Triangles { degree_bound: 40 }),
        ("wedges", GraphFunction::Stars { leaves: 2, degree_bound: 40 }),
        ("people with 20 or more", GraphFunction::HighDegree { threshold: 20 }),
    ];
    // Five releases share the budget: their μ add up in squares.
    let share = Budget::approximate(2.0, 1e-6)?.share(1.0 / functions.len() as f64)?;
    println!("{:<24}{:>12}{:>12}{:>12}", "after 100 days", "released", "± 95 %", "true");
    for (number, (name, function)) in functions.into_iter().enumerate() {
        let count = Method::NormalizedSqrt.build(&Problem::new(Workload::count(), DAYS)?)?;
        let plan = Plan::idealized(count, function.footprint(Relation::ZeroOut)?, share)?;
        // A published seed, so that the story is the same for every reader: use `Seed::from_system` for real people.
        let seed = Seed::reproducible(number as u64);
        let mut mechanism = Mechanism::new(plan.of_dimension(1)?, seed)?;
        let mut stream = function.start(PEOPLE)?;
        let (mut change, mut released, mut exact) = ([0.0], [0.0], 0.0);
        let mut deviation = 0.0;
        for day in 0..DAYS {
            stream.encode(&meetings(day), &mut change)?;
            let step = mechanism.release(&change, &mut released)?;
            deviation = mechanism.plan().standard_deviation(step).unwrap_or(f64::NAN);
            exact += change[0];
        }
        println!("{name:<24}{:>12.1}{:>12.1}{exact:>12.1}", released[0], 1.96 * deviation);
    }
    println!(
        "\n(The forest is lighter the better people are connected: distances between them are at most 1.)"
    );
    Ok(())
}

/// The new acquaintances of a day: people live on a ring and meet mostly their neighbours.
fn meetings(day: usize) -> Vec<EdgeUpdate> {
    let mut draws = vec![0.0; 2 * PER_DAY];
    GaussianSource::new(Seed::reproducible(365), 2 * PER_DAY).fill_range(day, 0, &mut draws);
    draws
        .chunks(2)
        .enumerate()
        .map(|(meeting, draw)| {
            let person = (day * 131 + meeting * 97) % PEOPLE;
            let distance = 1 + (draw[0].abs() * 8.0) as usize % (PEOPLE - 1);
            EdgeUpdate::new(person, (person + distance) % PEOPLE, (draw[1].abs() / 3.0).min(1.0))
        })
        .collect()
}
