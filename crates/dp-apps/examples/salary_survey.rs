//! A survey of salaries without a trusted survey office: everybody privatizes the answer before sending it.

use dp_apps::Result;
use dp_apps::local::{Protocol, Server, intervals};
use dp_mechanisms::{Budget, Method, Problem, Seed, Workload};

/// Runs the story; fixed seeds make it the same every time, which also makes it *not private*.
pub(crate) fn main() -> Result<()> {
    let (people, epsilon, highest) = (40_000_u64, 4.0, 200_000.0);
    let number = intervals(epsilon, people as usize)?.min(64);
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), number)?)?;
    let protocol = Protocol::best(&strategy, Budget::approximate(epsilon, 1e-6)?)?;
    let mut server = Server::new(&protocol);
    let mut salaries = Vec::new();
    for person in 0..people {
        let rank = (person as f64 + 0.5) / people as f64;
        let salary = 30_000.0 + 60_000.0 * rank + 60_000.0 * rank.powi(6);
        salaries.push(salary);
        server.receive(&protocol.message(salary / highest, Seed::reproducible(person))?)?;
    }
    for level in [0.25, 0.5, 0.75] {
        let estimate = server.quantile(level)? * highest;
        let truth = salaries[(level * people as f64) as usize];
        println!("quantile {level}: {estimate:.0} (truth {truth:.0})");
    }
    println!(
        "the median's average distance exceeds the smallest by at most {:.0}, 95 %",
        server.excess_risk(0.05)? * highest
    );
    Ok(())
}
