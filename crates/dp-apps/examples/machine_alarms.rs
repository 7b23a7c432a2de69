//! A factory watches the order of alarms: overheating (H), pressure (P), stop (S). Which patterns precede a stop is
//! reported; that a particular alarm was ever raised is nobody's business, since it points to the shift that ignored it.

use dp_apps::episodes::Episodes;
use dp_apps::{Counts, Encoding, Result};
use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};

const HOURS: usize = 3000;

/// Runs the story; fixed seeds make it the same every time, which also makes it *not private*.
pub(crate) fn main() -> Result<()> {
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), HOURS)?)?;
    let budget = Budget::approximate(1.0, 1e-6)?;
    let episodes = Episodes::all("HPS".chars(), 2, Relation::ZeroOut)?;
    let plan = episodes.plan(&strategy, budget)?;
    let mut counts = Counts::new(episodes, plan, Seed::reproducible(4))?;
    for hour in 0..HOURS {
        // Heat, then pressure, then a stop, with quiet hours between them.
        let alarm = match hour % 6 {
            0 => Some('H'),
            2 => Some('P'),
            3 if hour % 12 < 6 => Some('S'),
            _ => None,
        };
        counts.push(&alarm)?;
    }
    // What is printed is chosen by released values, never by true counts.
    let top = counts.top(5, 0.05)?;
    println!("most frequent episodes, each within {:.0} with probability 95 %:", top.band);
    for (coordinate, value) in &top.entries {
        println!("  {:2} {value:6.0}", counts.encoding().label(*coordinate).unwrap_or_default());
    }
    Ok(())
}
