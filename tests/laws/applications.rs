//! No person moves what is measured of an application further than its plan is calibrated for.

use dp_apps::Encoding;
use dp_apps::histogram::{Change, Histogram, Rules, Universe};
use dp_apps::ordered::Ordered;
use dp_apps::substrings::Substrings;
use dp_apps::substrings::dictionary::Dictionary;
use dp_mechanisms::{Budget, Method, Participation, Problem, Relation, Workload};
use ndarray::Array2;

const STEPS: usize = 4;

/// What an encoding makes of a stream: a row for each step.
fn inputs<E: Encoding>(mut encoding: E, stream: &[&E::Event]) -> Array2<f64> {
    let mut rows = Array2::zeros((stream.len(), encoding.dimension() as usize));
    let mut changes = Vec::new();
    for (step, event) in stream.iter().enumerate() {
        changes.clear();
        encoding.encode(event, &mut changes).unwrap();
        for (coordinate, change) in &changes {
            rows[[step, *coordinate as usize]] += change;
        }
    }
    rows
}

/// Tries all streams over an alphabet whose first event is the blank one, and blanks each of their events. Returns the largest
/// squared distance of what is measured over the squared sensitivity that the plan states.
fn worst<E: Encoding>(encoding: impl Fn() -> E, alphabet: &[&E::Event], method: Method) -> f64 {
    let strategy = method.build(&Problem::new(Workload::count(), STEPS).unwrap()).unwrap();
    let plan = encoding().idealized_plan(&strategy, Budget::zero_concentrated(0.5).unwrap()).unwrap();
    let matrix = strategy.materialize().unwrap().strategy;
    let size = alphabet.len();
    let mut largest = 0.0_f64;
    for number in 0..size.pow(STEPS as u32) {
        let stream: Vec<&E::Event> =
            (0..STEPS as u32).map(|step| alphabet[number / size.pow(step) % size]).collect();
        let whole = inputs(encoding(), &stream);
        for step in 0..STEPS {
            let mut without = stream.clone();
            without[step] = alphabet[0];
            let moved = matrix.dot(&(&whole - &inputs(encoding(), &without)));
            largest = largest.max(moved.iter().map(|value| value * value).sum());
        }
    }
    largest / plan.sensitivity().squared
}

#[test]
fn one_person_moves_an_application_no_further_than_its_plan_says() {
    let relation = Relation::ZeroOut;
    for method in [Method::Sqrt, Method::ScaledBlt, Method::Identity] {
        let letters: Vec<Option<char>> = vec![None, Some('a'), Some('b')];
        let letters: Vec<&Option<char>> = letters.iter().collect();
        let universe = || Universe::integers(0, 3).unwrap();
        let histogram = || Histogram::new(universe(), Rules::one_item(relation)).unwrap();
        let items = [vec![], vec![vec![Change::Insert(0)]], vec![vec![Change::Insert(2)]]];
        let values: [&[f64]; 3] = [&[], &[0.0], &[3.0]];
        let found = [
            worst(histogram, &items.each_ref().map(Vec::as_slice), method),
            worst(|| Ordered::new(0.0, 3.0, 1.0, relation, Participation::Single).unwrap(), &values, method),
            worst(|| Substrings::new("ab".chars(), 2, relation).unwrap(), &letters, method),
            worst(|| Dictionary::new(["ab", "b"].map(str::to_owned), relation).unwrap(), &letters, method),
        ];
        for (application, ratio) in ["histogram", "ordered", "substrings", "dictionary"].iter().zip(found) {
            // Never above; and not so far below that a wrong factor would go unnoticed.
            assert!(ratio <= 1.0 + 1e-12 && ratio > 0.2, "{application} by {method}: {ratio}");
        }
    }
}
