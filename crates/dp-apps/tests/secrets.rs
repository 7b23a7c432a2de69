//! What a live application shows of itself when it is printed.

use std::fmt::Debug;

use dp_apps::episodes::Episodes;
use dp_apps::graph::{EdgeUpdate, GraphFunction, SpanningForest};
use dp_apps::histogram::discovery::{Discovery, Threshold};
use dp_apps::histogram::{Change, Histogram, Rules, Universe};
use dp_apps::substrings::Substrings;
use dp_apps::substrings::dictionary::Dictionary;
use dp_apps::{Counts, Encoding};
use dp_mechanisms::{Budget, Method, Problem, Relation, Seed, Workload};

/// The same printed text after different events.
fn assert_same<T: Debug>(what: &str, left: &T, right: &T) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"), "{what} shows its events");
    assert!(format!("{left:?}").contains(what), "{left:?}");
}

#[test]
fn debug_prints_parameters_only() {
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 8).unwrap()).unwrap();
    let budget = Budget::approximate(1.0, 1e-6).unwrap();
    let rules = Rules::one_item(Relation::ZeroOut);

    let histogram = |item: u64| {
        let encoding = Histogram::new(Universe::integers(0, 9).unwrap(), rules).unwrap();
        let plan = encoding.plan(&strategy, budget).unwrap();
        let mut counts = Counts::new(encoding, plan, Seed::reproducible(1)).unwrap();
        counts.push(&[vec![Change::Insert(item)]]).unwrap();
        counts
    };
    assert_same("Counts", &histogram(1), &histogram(2));

    let discovery = |item: &str| {
        let plan = Discovery::plan_for(&rules, &strategy, budget).unwrap();
        let mut keys =
            Discovery::new(rules, plan, Threshold::new(1e-6).unwrap(), Seed::reproducible(1)).unwrap();
        keys.push(&[vec![Change::Insert(item.to_owned())]]).unwrap();
        keys
    };
    assert_same("Discovery", &discovery("a"), &discovery("b"));

    let strings = |letter| read(Substrings::new("ab".chars(), 2, Relation::Replace).unwrap(), letter);
    assert_same("Substrings", &strings('a'), &strings('b'));
    let words = |letter| read(Dictionary::new(["ab".to_owned()], Relation::Replace).unwrap(), letter);
    assert_same("Dictionary", &words('a'), &words('b'));
    let episodes = |letter| read(Episodes::all("ab".chars(), 2, Relation::Replace).unwrap(), letter);
    assert_same("Episodes", &episodes('a'), &episodes('b'));

    let triangles = |v| {
        let mut stream = GraphFunction::Triangles { degree_bound: 3 }.start(4).unwrap();
        stream.encode(&[EdgeUpdate::new(0, v, 1.0)], &mut [0.0]).unwrap();
        stream
    };
    assert_same("FunctionStream", &triangles(1), &triangles(2));
    let forest = |v| {
        let mut forest = SpanningForest::new(4).unwrap();
        forest.insert(0, v, 1.0).unwrap();
        forest
    };
    assert_same("SpanningForest", &forest(1), &forest(2));
}

/// An encoding that has seen a letter.
fn read<E: Encoding<Event = Option<char>>>(mut encoding: E, letter: char) -> E {
    encoding.encode(&Some(letter), &mut Vec::new()).unwrap();
    encoding
}
