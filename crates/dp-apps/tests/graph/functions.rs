//! Graph functions: every stream of up to six insertions on four vertices, every neighbour.

use dp_apps::graph::{EdgeUpdate, GraphFunction, degree_histogram, karate_club};
use dp_mechanisms::Relation;
use petgraph::visit::EdgeRef;

use crate::small_worlds::{Worst, gram, squared_change};

const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

fn functions() -> Vec<GraphFunction> {
    let mut functions = vec![GraphFunction::Edges, GraphFunction::SpanningForest { largest_weight: 1.0 }];
    for degree_bound in 1..=3 {
        if degree_bound > 1 {
            functions.push(GraphFunction::Triangles { degree_bound });
        }
        functions.extend((1..=degree_bound).map(|leaves| GraphFunction::Stars { leaves, degree_bound }));
        functions.push(GraphFunction::HighDegree { threshold: degree_bound });
        functions.push(GraphFunction::DegreeHistogram { degree_bound });
    }
    functions
}

/// The weights that tell something: a spanning forest looks at them, the others do not.
fn weights(function: &GraphFunction) -> &'static [f64] {
    if matches!(function, GraphFunction::SpanningForest { .. }) { &[0.0, 1.0] } else { &[1.0] }
}

/// The difference sequence of batches.
fn differences(function: &GraphFunction, vertices: usize, batches: &[Vec<EdgeUpdate>]) -> Vec<Vec<f64>> {
    let mut stream = function.start(vertices).unwrap();
    batches
        .iter()
        .map(|batch| {
            let mut difference = vec![0.0; function.dimension()];
            stream.encode(batch, &mut difference).unwrap();
            difference
        })
        .collect()
}

/// Every sequence of `length` pairs, all different unless `repeated`, with every choice of weights.
fn streams(length: usize, weights: &[f64], repeated: bool, visit: &mut dyn FnMut(&[EdgeUpdate])) {
    fn extend(
        left: usize,
        weights: &[f64],
        repeated: bool,
        stream: &mut Vec<EdgeUpdate>,
        visit: &mut dyn FnMut(&[EdgeUpdate]),
    ) {
        if left == 0 {
            return visit(stream);
        }
        for (u, v) in PAIRS {
            if !repeated && stream.iter().any(|edge| (edge.u, edge.v) == (u, v)) {
                continue;
            }
            for weight in weights {
                stream.push(EdgeUpdate::new(u, v, *weight));
                extend(left - 1, weights, repeated, stream, visit);
                stream.pop();
            }
        }
    }
    extend(length, weights, repeated, &mut Vec::new(), visit);
}

/// Cuts a stream into batches of the given sizes.
fn batches(stream: &[EdgeUpdate], sizes: &[usize]) -> Vec<Vec<EdgeUpdate>> {
    let mut rest = stream;
    sizes
        .iter()
        .map(|size| {
            let (batch, after) = rest.split_at((*size).min(rest.len()));
            rest = after;
            batch.to_vec()
        })
        .collect()
}

/// The worst removal of one edge, over all streams of up to six different pairs and several ways to batch them.
fn worst_removal(function: &GraphFunction) -> Worst {
    let mut worst = Worst::new(6);
    let layouts: [&[usize]; 4] = [&[1; 6], &[2, 2, 2, 0, 0, 0], &[1, 0, 2, 3, 0, 0], &[0, 3, 0, 3, 0, 0]];
    for length in 1..=6 {
        streams(length, weights(function), false, &mut |stream| {
            let layouts = if weights(function).len() == 1 { &layouts[..] } else { &layouts[..1] };
            for sizes in layouts {
                let whole = batches(stream, sizes);
                let original = differences(function, 4, &whole);
                for removed in stream {
                    let less: Vec<Vec<EdgeUpdate>> = whole
                        .iter()
                        .map(|batch| batch.iter().filter(|edge| *edge != removed).copied().collect())
                        .collect();
                    worst.look_at(&original, &differences(function, 4, &less));
                }
            }
        });
    }
    worst
}

#[test]
fn removing_an_edge_stays_within_the_bound() {
    for function in functions() {
        let worst = worst_removal(&function);
        let weight = function.footprint(Relation::ZeroOut).unwrap().terms()[0].weight;
        // A removal takes what the edge had added, and the other way round.
        let (added, taken) = function.change_bounds().unwrap();
        println!(
            "{function:?}: attained {:.3} of Δ, {:.3} of {added} added, {:.3} of {taken} taken",
            worst.ratio(weight),
            worst.lost,
            worst.gained
        );
        assert!(worst.covered_by(weight), "{function:?}");
        assert!(worst.lost <= added + 1e-12 && worst.gained <= taken + 1e-12, "{function:?}");
    }
}

#[test]
fn the_smaller_published_bounds_are_refuted() {
    // What the bound would be if the degree bound were a promise and not enforced, or if an edge changed a count once.
    let wrong = [
        (GraphFunction::SpanningForest { largest_weight: 1.0 }, 1.0, "the edge's own weight"),
        (GraphFunction::Stars { leaves: 1, degree_bound: 2 }, 2.0, "2·C(D-1, k-1), with degrees promised"),
        (GraphFunction::Stars { leaves: 2, degree_bound: 2 }, 2.0, "2·C(D-1, k-1), with degrees promised"),
        (GraphFunction::HighDegree { threshold: 1 }, 2.0, "two vertices, once each"),
        (GraphFunction::DegreeHistogram { degree_bound: 1 }, 2.0, "two vertices, once each"),
        (
            GraphFunction::DegreeHistogram { degree_bound: 2 },
            8.0_f64.sqrt(),
            "two vertices, once in each bin",
        ),
    ];
    for (function, weight, reason) in wrong {
        let worst = worst_removal(&function);
        assert!(!worst.covered_by(weight), "{function:?} is covered by {weight}: {reason}");
    }
}

#[test]
fn signs_make_the_bounds_smaller_by_up_to_the_root_of_two() {
    let root = f64::sqrt;
    let (leaves, degree_bound) = (2, 4);
    let cases = [
        (GraphFunction::Edges, 1.0, root(2.0)),
        (GraphFunction::SpanningForest { largest_weight: 3.0 }, 3.0 * root(2.0), 6.0 * root(2.0)),
        (GraphFunction::Triangles { degree_bound }, 3.0 * root(5.0), 9.0 * root(2.0)),
        (GraphFunction::Stars { leaves, degree_bound }, 6.0 * root(2.0), 12.0 * root(2.0)),
        (GraphFunction::HighDegree { threshold: 5 }, root(8.0), root(32.0)),
        (GraphFunction::DegreeHistogram { degree_bound: 9 }, 3.0 * root(8.0), 3.0 * root(32.0)),
    ];
    for (function, removed, replaced) in cases {
        for (relation, expected) in [(Relation::ZeroOut, removed), (Relation::Replace, replaced)] {
            let footprint = function.footprint(relation).unwrap();
            let weight = footprint.terms()[0].weight;
            assert!((1.0 - 1e-15..1.0 + 1e-14).contains(&(weight / expected)), "{function:?}: {weight}");
            // Only what has one sign may do without a condition on the columns.
            let one_sign = function == GraphFunction::Edges && relation == Relation::ZeroOut;
            assert_eq!(footprint.needs_non_negative_columns(), !one_sign, "{function:?}");
        }
    }
}

#[test]
fn replacing_an_edge_stays_within_the_bound() {
    for function in functions() {
        let mut worst = Worst::new(4);
        let weights = weights(&function);
        streams(4, weights, false, &mut |stream| {
            let original = differences(&function, 4, &batches(stream, &[1; 4]));
            for place in 0..stream.len() {
                for (u, v) in PAIRS {
                    // The pair must be a new one; the same pair may change its weight.
                    let taken =
                        |(other, edge): (usize, &EdgeUpdate)| other != place && (edge.u, edge.v) == (u, v);
                    if stream.iter().enumerate().any(taken) {
                        continue;
                    }
                    for weight in weights {
                        let mut changed = stream.to_vec();
                        changed[place] = EdgeUpdate::new(u, v, *weight);
                        let changed = differences(&function, 4, &batches(&changed, &[1; 4]));
                        worst.look_at(&original, &changed);
                    }
                }
            }
        });
        let weight = function.footprint(Relation::Replace).unwrap().terms()[0].weight;
        println!("{function:?}: attained {:.3} of Δ under replacement", worst.ratio(weight));
        assert!(worst.covered_by(weight), "{function:?}");
    }
}

#[test]
fn an_edge_with_all_its_insertions_stays_within_the_bound() {
    for function in functions() {
        let mut worst = Worst::new(4);
        streams(4, weights(&function), true, &mut |stream| {
            let whole = batches(stream, &[1; 4]);
            let original = differences(&function, 4, &whole);
            for (u, v) in PAIRS {
                let less: Vec<Vec<EdgeUpdate>> = whole
                    .iter()
                    .map(|batch| batch.iter().filter(|edge| (edge.u, edge.v) != (u, v)).copied().collect())
                    .collect();
                worst.look_at(&original, &differences(&function, 4, &less));
            }
        });
        let weight = function.footprint(Relation::ZeroOut).unwrap().terms()[0].weight;
        assert!(worst.covered_by(weight), "{function:?}");
    }
}

/// A stream on seven vertices whose first edge decides nine triangles at degree bound 4: three on itself, and three
/// on each of the two edges that are kept in its place.
fn nine_triangles() -> Vec<EdgeUpdate> {
    let (u, v, x, y) = (0, 1, 5, 6);
    let mut edges = vec![(u, v)];
    edges.extend((2..5).flat_map(|w| [(x, w), (y, w)]));
    edges.extend((2..5).flat_map(|w| [(u, w), (v, w)]));
    edges.extend([(u, x), (v, y)]);
    edges.into_iter().map(|(u, v)| EdgeUpdate::new(u, v, 1.0)).collect()
}

#[test]
fn enforcing_a_degree_bound_triples_what_an_edge_can_do() {
    let function = GraphFunction::Triangles { degree_bound: 4 };
    let stream = nine_triangles();
    let steps = stream.len();
    let mut worst = Worst::new(steps);
    let whole = batches(&stream, &vec![1; steps]);
    let mut less = whole.clone();
    less[0].clear();
    worst.look_at(&differences(&function, 7, &whole), &differences(&function, 7, &less));
    assert_eq!((worst.lost, worst.gained), (3.0, 6.0));
    assert_eq!(function.change_bounds(), Ok((3.0, 6.0)));
    assert!(worst.covered_by(3.0 * 5.0_f64.sqrt()));
    assert!(!worst.covered_by(3.0), "D - 1 is the bound for graphs that keep their promise");
}

#[test]
fn counting_kept_edges_instead_of_arrivals_lets_one_edge_change_all() {
    // On a path, degree bound 1: the greedy rule keeps every other edge, and without the first all the others.
    let greedy = |edges: &[(usize, usize)]| -> Vec<(usize, usize)> {
        let mut degree = [0; 40];
        let mut keep = |&(u, v): &(usize, usize)| {
            let keep = degree[u] < 1 && degree[v] < 1;
            degree[u] += usize::from(keep);
            degree[v] += usize::from(keep);
            keep
        };
        edges.iter().filter(|edge| keep(edge)).copied().collect()
    };
    let path: Vec<(usize, usize)> = (0..39).map(|u| (u, u + 1)).collect();
    let (with, without) = (greedy(&path), greedy(&path[1..]));
    let differ = path.iter().filter(|edge| with.contains(edge) != without.contains(edge)).count();
    assert_eq!(differ, 39);
}

#[test]
fn an_l2_bound_of_the_differences_is_not_enough() {
    // The first edge at a vertex takes part in one new 2-star with each of the next five.
    let function = GraphFunction::Stars { leaves: 2, degree_bound: 6 };
    let whole: Vec<Vec<EdgeUpdate>> = (1..7).map(|v| vec![EdgeUpdate::new(0, v, 1.0)]).collect();
    let mut less = whole.clone();
    less[0].clear();
    let (a, b) = (differences(&function, 7, &whole), differences(&function, 7, &less));
    let l2: f64 = a.iter().zip(&b).map(|(a, b)| (a[0] - b[0]).powi(2)).sum();
    assert_eq!(l2, 5.0);
    for name in ["sqrt", "binary-tree"] {
        let squared = squared_change(&gram(name, 6), &a, &b);
        println!("{name}: ‖C d‖² = {squared:.2} against the ℓ2 rule's {l2}");
        assert!(squared > l2, "{name}");
    }
}

#[test]
fn functions_of_the_karate_club() {
    let graph = karate_club();
    let stream: Vec<EdgeUpdate> = graph
        .edge_references()
        .map(|edge| EdgeUpdate::new(edge.source().index(), edge.target().index(), 0.5))
        .collect();
    let total = |function: GraphFunction| -> Vec<f64> {
        let mut sum = vec![0.0; function.dimension()];
        // In one batch and edge by edge must be the same.
        let mut batch = sum.clone();
        function.start(34).unwrap().encode(&stream, &mut batch).unwrap();
        for difference in differences(&function, 34, &batches(&stream, &[1; 78])) {
            sum.iter_mut().zip(&difference).for_each(|(sum, difference)| *sum += difference);
        }
        assert_eq!(sum, batch);
        sum
    };
    assert_eq!(total(GraphFunction::Edges), [78.0]);
    assert_eq!(total(GraphFunction::SpanningForest { largest_weight: 1.0 }), [16.5]);
    assert_eq!(total(GraphFunction::Triangles { degree_bound: 17 }), [45.0]);
    // Σ C(deg, 2) = 528 two-stars: the published transitivity is 3·45/528 = 0.2557.
    assert_eq!(total(GraphFunction::Stars { leaves: 2, degree_bound: 17 }), [528.0]);
    assert_eq!(total(GraphFunction::HighDegree { threshold: 10 }), [4.0]);
    let histogram = degree_histogram(34, &total(GraphFunction::DegreeHistogram { degree_bound: 5 }), 1.0);
    let counts: Vec<f64> = histogram.iter().map(|bin| bin.0).collect();
    assert_eq!(counts, [0.0, 1.0, 11.0, 6.0, 6.0, 10.0]);
    assert_eq!((histogram[0].1, histogram[5].1), (1.0, 1.0));
    assert!((histogram[1].1 - 2.0_f64.sqrt()).abs() < 1e-15);
}

#[test]
fn refused_insertions_leave_no_trace() {
    let ranges = [
        GraphFunction::SpanningForest { largest_weight: f64::NAN },
        GraphFunction::SpanningForest { largest_weight: 0.0 },
        GraphFunction::Triangles { degree_bound: 1 },
        GraphFunction::Stars { leaves: 0, degree_bound: 3 },
        GraphFunction::Stars { leaves: 4, degree_bound: 3 },
        GraphFunction::Stars { leaves: 50, degree_bound: 100 },
        GraphFunction::HighDegree { threshold: 0 },
        GraphFunction::DegreeHistogram { degree_bound: 0 },
    ];
    for function in ranges {
        assert!(function.footprint(Relation::ZeroOut).is_err() && function.start(4).is_err(), "{function:?}");
    }
    let mut forest = GraphFunction::SpanningForest { largest_weight: 1.0 }.start(3).unwrap();
    let mut difference = [7.0];
    for bad in [(0, 0, 0.5), (0, 3, 0.5), (0, 1, 1.5), (0, 1, -0.5), (0, 1, f64::NAN)] {
        let batch = [EdgeUpdate::new(1, 2, 0.5), EdgeUpdate::new(bad.0, bad.1, bad.2)];
        assert!(forest.encode(&batch, &mut difference).is_err());
        assert_eq!(difference, [7.0]);
    }
    forest.encode(&[EdgeUpdate::new(1, 2, 0.5)], &mut difference).unwrap();
    assert_eq!(difference, [0.5], "the refused batches did not insert it");
    assert!(forest.encode(&[], &mut [0.0; 2]).is_err());
}
