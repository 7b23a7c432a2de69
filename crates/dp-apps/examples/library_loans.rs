//! A library publishes, after every day, how often its books were borrowed, without giving any reader away. The catalogue
//! has a million titles; a day costs what was borrowed and what is asked for. A second list shows search words, whose
//! universe nobody knows in advance.

use dp_apps::histogram::discovery::{Discovery, Threshold};
use dp_apps::histogram::{Change, Histogram, Rules, Universe};
use dp_apps::{Counts, Encoding, Result};
use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};

const DAYS: usize = 60;

/// How often something is published, in days.
const PRINTED: usize = 20;

/// Runs the story; fixed seeds make it the same every time, which also makes it *not private*.
pub(crate) fn main() -> Result<()> {
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), DAYS)?)?;
    let titles = Universe::integers(0, 1_000_000)?;
    let rules = Rules { items: 3, ..Rules::one_item(Relation::ZeroOut) };
    let budget = Budget::approximate(1.0, 1e-6)?;
    let encoding = Histogram::new(titles, rules)?;
    let plan = encoding.plan(&strategy, budget)?;
    let mut loans = Counts::new(encoding, plan, Seed::reproducible(1))?;
    let searches = Rules::one_item(Relation::ZeroOut);
    let half = Budget::approximate(1.0, 5e-7)?;
    let plan = Discovery::plan_for(&searches, &strategy, half)?;
    let when = Threshold::new(5e-7)?.printing_every(PRINTED)?;
    let mut words = Discovery::new(searches, plan, when, Seed::reproducible(2))?;
    for day in 0..DAYS as u64 {
        // Twenty readers a day: a best seller, a classic, and something that nobody else reads.
        let readers: Vec<Vec<Change<u64>>> = (0..20)
            .map(|reader| {
                let odd = 1000 + day * 20 + reader;
                vec![Change::Insert(17), Change::Insert(400 + reader % 4), Change::Insert(odd)]
            })
            .collect();
        loans.push(&readers)?;
        let typed: Vec<Vec<Change<String>>> = (0..20)
            .map(|reader| {
                let word = if reader < 12 { "dragons".to_owned() } else { format!("name {day} {reader}") };
                vec![Change::Insert(word)]
            })
            .collect();
        words.push(&typed)?;
        if (day + 1) % PRINTED as u64 == 0 {
            let seller = loans.count("17")?;
            let classics = loans.range(400..404)?;
            println!("day {}:", day + 1);
            println!("  best seller  {:7.0} ± {:.0}", seller.value, seller.standard_deviation);
            println!("  four classics{:7.0} ± {:.0}", classics.value, classics.standard_deviation);
            for found in words.found()? {
                println!(
                    "  searched for `{}`: {:.0} (shown from {:.0})",
                    found.key,
                    found.value,
                    words.threshold()
                );
            }
        }
    }
    Ok(())
}
