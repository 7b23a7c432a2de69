//! A laboratory reads a patient's genome base by base and reports motif counts as they accumulate; every single base is
//! protected. All strings up to length 3 are available, or, with less noise, the words of a short public dictionary.

use dp_apps::substrings::Substrings;
use dp_apps::substrings::dictionary::Dictionary;
use dp_apps::{Counts, Encoding, Result};
use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};

const BASES: usize = 2000;

/// Runs the story; fixed seeds make it the same every time, which also makes it *not private*.
pub(crate) fn main() -> Result<()> {
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), BASES)?)?;
    let budget = Budget::approximate(1.0, 1e-6)?;
    let all = Substrings::new("ACGT".chars(), 3, Relation::Replace)?;
    let plan = all.plan(&strategy, budget)?;
    let mut all = Counts::new(all, plan, Seed::reproducible(1))?;
    let motifs = Dictionary::new(["TATA", "CG"].map(String::from), Relation::Replace)?;
    let plan = motifs.plan(&strategy, budget)?;
    let mut motifs = Counts::new(motifs, plan, Seed::reproducible(2))?;
    // A sequence with many repeats of TATA, from a small generator.
    let mut state = 12_345_u64;
    for base in 0..BASES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letter = if base % 10 < 4 {
            ['T', 'A', 'T', 'A'][base % 10]
        } else {
            ['A', 'C', 'G', 'T'][(state >> 33) as usize % 4]
        };
        all.push(&Some(letter))?;
        motifs.push(&Some(letter))?;
        if (base + 1) % 500 == 0 {
            let tata = motifs.count("TATA")?;
            println!("after {} bases: TATA {:.0} ± {:.0}", base + 1, tata.value, tata.standard_deviation);
        }
    }
    let top = all.top(4, 0.05)?;
    println!("the most frequent strings up to length 3 (all within {:.0} with probability 95 %):", top.band);
    for (coordinate, value) in &top.entries {
        println!("  {:3} {value:6.0}", all.encoding().label(*coordinate).unwrap_or_default());
    }
    Ok(())
}
