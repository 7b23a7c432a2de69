//! The words of the guarantee, written once and printed by every command: what is promised, about what, and with which
//! noise.

use dp_mechanisms::budget::Kind;
use dp_mechanisms::noise::response::RandomizedResponse;
use dp_mechanisms::{Arithmetic, Budget, Horizon, Participation, Plan, Relation};

use crate::output;

/// Whose data one event is, in the words of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A row of its own step, such as a number, a letter or a person's items: without it, the row is blank.
    Row,
    /// A row that holds many people, of whom one changes it by as much as the plan's footprint says.
    Part,
    /// An update of a graph, anywhere among the rows of a step: without it, the row is not there.
    Update,
    /// An edge of a graph, with all rows that insert it.
    Edge,
    /// A client that privatizes its value before anybody else sees it.
    Client,
}

/// What a command promises.
pub(crate) struct Guarantee<'a> {
    pub(crate) unit: Unit,
    /// In how many rows one person may appear.
    pub(crate) participation: Participation,
    /// The budget, in words.
    pub(crate) budget: String,
    pub(crate) plan: &'a Plan,
}

impl Guarantee<'_> {
    /// Prints the guarantee to standard error.
    pub(crate) fn print(&self) {
        for line in self.lines() {
            output::note(&line);
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("guarantee: all releases together satisfy {}", self.budget),
            format!("protected: {}", self.protected()),
            format!("not protected: {}", self.not_protected()),
            format!("noise: {}", self.noise()),
        ];
        lines.extend(meaning(self.plan.budget()));
        lines
    }

    fn protected(&self) -> String {
        let one = match (self.unit, self.participation) {
            (Unit::Row, Participation::Single) => "one row".to_owned(),
            (Unit::Row, repeated) => {
                let (times, apart) = (repeated.times_within(usize::MAX), repeated.separation());
                format!("all rows of one person, at most {times} of them and any two at least {apart} apart")
            }
            (Unit::Part, participation) => {
                let change = self.plan.footprint().terms().first().map_or(0.0, |term| term.weight);
                let rows = if participation == Participation::Single {
                    "one row".to_owned()
                } else {
                    let (times, apart) = (participation.times_within(usize::MAX), participation.separation());
                    format!("at most {times} rows, any two at least {apart} apart,")
                };
                format!("one person, who is in {rows} and changes its value by at most {change}")
            }
            (Unit::Update, _) => "one update".to_owned(),
            (Unit::Edge, _) => "one edge, with all rows that insert it".to_owned(),
            (Unit::Client, _) => CLIENT.to_owned(),
        };
        let change = match (self.unit, self.plan.footprint().relation()) {
            (Unit::Row, Relation::ZeroOut) => "what it says, if it might as well have been blank (zero-out)",
            (Unit::Part, Relation::ZeroOut) => "that he or she is there at all (zero-out)",
            (Unit::Part, Relation::Replace) => "what he or she adds to it (replace)",
            (Unit::Update | Unit::Edge, Relation::ZeroOut) => "that it is there at all (zero-out)",
            (Unit::Client, _) | (_, Relation::Replace) => CLIENT_CHANGE,
        };
        format!("{one}: {change}")
    }

    fn not_protected(&self) -> &'static str {
        match (self.unit, self.plan.footprint().relation()) {
            (Unit::Row, Relation::ZeroOut) => {
                "how many rows there are and when (a row is blanked, not removed), the options of this command, and \
                 whatever else is published about the same people"
            }
            (Unit::Part, _) => {
                "what is true of many people at once, how many rows there are and when, the options of this command, and \
                 whatever else is published about the same people"
            }
            (Unit::Row, Relation::Replace) => {
                "how many rows there are, and in which step a row is (it is replaced where it stands), the options of \
                 this command, and whatever else is published about the same people"
            }
            (Unit::Update | Unit::Edge, Relation::ZeroOut) => {
                "how many steps there are, the options of this command, and whatever else is published about the same \
                 people"
            }
            (Unit::Update | Unit::Edge, Relation::Replace) => {
                "that there is one more or one fewer, the options of this command, and whatever else is published about \
                 the same people"
            }
            (Unit::Client, _) => CLIENT_NOT,
        }
    }

    fn noise(&self) -> String {
        let plan = self.plan;
        let length = match (plan.horizon(), self.unit) {
            (Horizon::Steps(intervals), Unit::Client) => format!("{intervals} intervals"),
            (Horizon::Steps(steps), _) => format!("{steps} steps"),
            (Horizon::Doubling(first), _) => format!("epochs that double, from {first} steps on"),
        };
        // Every epoch has a scale of its own.
        let sigma = match plan.horizon() {
            Horizon::Steps(_) => format!(", σ = {:.6}", plan.sigma()),
            Horizon::Doubling(_) => String::new(),
        };
        let arithmetic = match plan.arithmetic() {
            Arithmetic::Idealized => {
                "idealized: floating-point numbers, whose low bits can give a person away to whoever studies them"
                    .to_owned()
            }
            Arithmetic::Exact { grid } => format!(
                "exact: measured in integers on a grid of {grid}, so that every bit of a release is covered"
            ),
        };
        format!("strategy {} for {length}{sigma}; {arithmetic}", plan.strategy().name())
    }
}

/// What a budget means for whoever is protected, where it is an ε.
fn meaning(budget: &Budget) -> Option<String> {
    let (epsilon, delta) = match budget.kind() {
        Kind::Approximate { epsilon, delta } => (epsilon, delta),
        Kind::Pure { epsilon } => (epsilon, 0.0),
        _ => return None,
    };
    Some(format!(
        "meaning: the releases would look almost the same without what is protected. {}",
        dp_events::guarantee::meaning(epsilon, delta)
    ))
}

const CLIENT: &str = "each client's value, from everybody else";
const CLIENT_CHANGE: &str =
    "what it says, if it might as well have said anything else at the same step (replace)";
const CLIENT_NOT: &str =
    "who takes part, the options of this command, and whatever else is published about the same people";

/// Prints what is promised to clients who answer one question each.
pub(crate) fn print_answers(budget: &str, intervals: usize, response: &RandomizedResponse) {
    let wrong = 1.0 / (1.0 + response.epsilon().exp());
    let lines = [
        format!("guarantee: all releases together satisfy {budget}"),
        format!("protected: {CLIENT}: {CLIENT_CHANGE}"),
        format!("not protected: {CLIENT_NOT}"),
        format!(
            "noise: answers about {intervals} intervals, one sign of each client, wrong with probability {wrong:.6}, which is \
             ε = {:.6} without a δ; exact: drawn in integers, so that every bit of an answer is covered",
            response.epsilon()
        ),
    ];
    lines.iter().for_each(|line| output::note(line));
    meaning(&response.budget()).iter().for_each(|line| output::note(line));
}

#[cfg(test)]
mod tests {
    use dp_mechanisms::{Footprint, Method, Problem, Workload};

    use super::*;

    /// A row is blanked and not removed, and a replaced row stays at its step: the words must say so.
    #[test]
    fn the_words_say_what_stays() {
        let words = |unit, relation, participation| {
            let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 8).unwrap()).unwrap();
            let footprint = Footprint::scalar(0.0, 1.0, relation, Participation::Single).unwrap();
            let plan = Plan::exact(&strategy, footprint, Budget::gaussian(1.0).unwrap(), 0.5).unwrap();
            let guarantee = Guarantee { unit, participation, budget: "ε = 1".to_owned(), plan: &plan };
            guarantee.lines().join("\n")
        };
        let row = words(Unit::Row, Relation::ZeroOut, Participation::Single);
        assert!(row.contains("blanked, not removed") && !row.contains("there at all"), "{row}");
        let replaced = words(Unit::Row, Relation::Replace, "3:7".parse().unwrap());
        assert!(
            replaced.contains("replaced where it stands") && replaced.contains("at most 3"),
            "{replaced}"
        );
        let part = words(Unit::Part, Relation::ZeroOut, "3:7".parse().unwrap());
        assert!(part.contains("at most 3 rows") && part.contains("by at most 1: that he or she"), "{part}");
        assert!(words(Unit::Edge, Relation::ZeroOut, Participation::Single).contains("there at all"));
        for word in ["strategy sqrt", "8 steps", "σ = 1.", "exact", "grid of 0.5", "ε = 1", "zero-out"] {
            assert!(row.contains(word), "{word}: {row}");
        }
    }
}
