//! Two halves of a club drift apart. Every week the club publishes who writes to whom, private to the single message,
//! and anybody can ask for the traffic between any two groups of members, or look for the split.
//!
//! `cargo run --package dp-apps --example club_cuts`

use dp_apps::graph::{CutEncoding, EdgeUpdate, clip, karate_club, max_cut, min_cut, project, sparsest_cut};
use dp_mechanisms::{Budget, Mechanism, Method, Plan, Problem, Relation, Seed, Workload};
use petgraph::visit::EdgeRef;

const WEEKS: usize = 52;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let club = karate_club();
    let encoding = CutEncoding::with_weights(club.node_count(), 0.0, 1.0)?;
    let count = Method::NormalizedSqrt.build(&Problem::new(Workload::count(), WEEKS)?)?;
    let plan =
        Plan::idealized(count, encoding.footprint(Relation::ZeroOut)?, Budget::approximate(1.0, 1e-6)?)?;
    // A published seed, so that the story is the same for every reader: use `Seed::from_system` for real messages.
    let mut mechanism = Mechanism::new(plan.of_dimension(encoding.dimension())?, Seed::reproducible(1977))?;

    // Those who stayed with the instructor (0), and those who left with the administrator (33).
    let instructor: Vec<usize> =
        (0..34).filter(|v| [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 16, 17, 19, 21].contains(v)).collect();
    let administrator: Vec<usize> = (0..34).filter(|v| !instructor.contains(v)).collect();

    let mut truth = vec![0.0; encoding.dimension()];
    let (mut input, mut released) = (truth.clone(), truth.clone());
    println!("week   messages between the halves (released ± 95 %, true)");
    for week in 1..=WEEKS {
        let mut messages = Vec::new();
        for (number, edge) in club.edge_references().enumerate() {
            let (u, v) = (edge.source().index(), edge.target().index());
            let apart = instructor.contains(&u) != instructor.contains(&v);
            // Friends in one half write up to nine messages a week; across the halves they fall silent by mid-year.
            let written = if apart && week > WEEKS / 2 { 0 } else { (number * 7 + week * 3) % 10 };
            messages.extend(std::iter::repeat_n(EdgeUpdate::new(u, v, 1.0), written));
        }
        encoding.encode(&messages, &mut input)?;
        let step = mechanism.release(&input, &mut released)?;
        truth.iter_mut().zip(&input).for_each(|(total, new)| *total += new);
        if week % 13 == 0 {
            let deviation = mechanism.plan().standard_deviation(step).unwrap_or(f64::NAN);
            let answer = encoding.cut(&released, &instructor, &administrator, deviation)?;
            let exact = encoding.cut(&truth, &instructor, &administrator, 0.0)?.value;
            println!(
                "{week:>4}   {:>7.0} ± {:<5.0} {exact:>7}",
                answer.value,
                1.96 * answer.standard_deviation
            );
        }
    }

    let pairs = encoding.pairs();
    let (projected, clipped) = (project(pairs, &released)?, clip(pairs, &released)?);
    println!(
        "\nas a graph: spectral error {:.0} (no graph is below {:.0}); setting negative weights to zero: {:.0}",
        projected.spectral_error, projected.lower_bound, clipped.spectral_error
    );
    let total: f64 = truth.iter().sum();
    let shares = [&projected.weights, &clipped.weights].map(|weights| weights.iter().sum::<f64>() / total);
    println!(
        "messages in all, as a share of the truth: {:.2} projected, {:.2} clipped",
        shares[0], shares[1]
    );

    let sparse = sparsest_cut(pairs, &projected.weights)?;
    let circle = if sparse.first().len() < 17 { sparse.first() } else { sparse.second() };
    println!("\nthe sparsest cut of the synthetic graph separates members {circle:?}");
    let (least, most) = (min_cut(pairs, &projected.weights)?, max_cut(pairs, &projected.weights)?);
    println!("minimum cut {:.0}, maximum cut {:.0} of {total} messages", least.weight, most.weight);
    Ok(())
}
