//! Cuts: sensitivity of the encoding, distribution of the answers, and the stated bounds.

use dp_apps::Error;
use dp_apps::graph::{CutEncoding, EdgeUpdate, karate_club};
use dp_mechanisms::{Budget, Mechanism, Method, Plan, Problem, Relation, Seed, Workload};
use petgraph::visit::EdgeRef;

use crate::small_worlds::Worst;

/// Every batch of at most two updates on three vertices with extreme weights.
fn small_batches(weights: &[f64]) -> Vec<Vec<EdgeUpdate>> {
    let pairs = [(0, 1), (0, 2), (1, 2)];
    let updates: Vec<EdgeUpdate> =
        pairs.iter().flat_map(|&(u, v)| weights.iter().map(move |w| EdgeUpdate::new(u, v, *w))).collect();
    let mut batches = vec![Vec::new()];
    batches.extend(updates.iter().map(|update| vec![*update]));
    batches.extend(updates.iter().flat_map(|a| updates.iter().map(move |b| vec![*a, *b])));
    batches
}

fn encoded(encoding: &CutEncoding, batches: &[Vec<EdgeUpdate>]) -> Vec<Vec<f64>> {
    batches
        .iter()
        .map(|batch| {
            let mut input = vec![0.0; encoding.dimension()];
            encoding.encode(batch, &mut input).unwrap();
            input
        })
        .collect()
}

#[test]
fn one_update_changes_what_the_footprint_says() {
    // Bounds, and the footprint's weight for both relations, all of them attained.
    let cases = [(-1.0, 1.0, 1.0, 2.0), (0.0, 1.0, 1.0, 2.0_f64.sqrt()), (-0.5, 1.0, 1.0, 1.5)];
    for (low, high, zero_out, replace) in cases {
        let encoding = CutEncoding::with_weights(3, low, high).unwrap();
        let options = small_batches(&[low, high]);
        let (mut removed, mut replaced) = (Worst::new(2), Worst::new(2));
        for first in &options {
            for second in options.iter().step_by(5) {
                for (step, batch) in [first, second].into_iter().enumerate() {
                    let stream = [first.clone(), second.clone()];
                    let original = encoded(&encoding, &stream);
                    for place in 0..batch.len() {
                        let mut changed = stream.clone();
                        changed[step].remove(place);
                        removed.look_at(&original, &encoded(&encoding, &changed));
                        for other in &options[1..=6] {
                            changed = stream.clone();
                            changed[step][place] = other[0];
                            replaced.look_at(&original, &encoded(&encoding, &changed));
                        }
                    }
                }
            }
        }
        for (relation, worst, expected) in
            [(Relation::ZeroOut, removed, zero_out), (Relation::Replace, replaced, replace)]
        {
            let weight = encoding.footprint(relation).unwrap().terms()[0].weight;
            println!("weights in [{low}, {high}], {relation}: attained {:.4}", worst.ratio(weight));
            assert!((weight - expected).abs() < 1e-12 && worst.covered_by(weight));
            assert!(!worst.covered_by(0.999 * weight), "the bound is attained");
        }
    }
}

fn plan(encoding: &CutEncoding, steps: usize) -> Plan {
    let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), steps).unwrap()).unwrap();
    let footprint = encoding.footprint(Relation::ZeroOut).unwrap();
    Plan::idealized(strategy, footprint, Budget::gaussian(1.0).unwrap()).unwrap()
}

/// Inserts the edges evenly over the steps and returns the last release with its standard deviation.
fn release(encoding: &CutEncoding, edges: &[EdgeUpdate], steps: usize, seed: u64) -> (Vec<f64>, f64) {
    let dimension = encoding.dimension();
    let mut mechanism =
        Mechanism::new(plan(encoding, steps).of_dimension(dimension).unwrap(), Seed::reproducible(seed))
            .unwrap();
    let (mut input, mut output) = (vec![0.0; dimension], vec![0.0; dimension]);
    let mut deviation = 0.0;
    let size = edges.len().div_ceil(steps);
    for step in 0..steps {
        let batch = &edges[(step * size).min(edges.len())..((step + 1) * size).min(edges.len())];
        encoding.encode(batch, &mut input).unwrap();
        let step = mechanism.release(&input, &mut output).unwrap();
        deviation = mechanism.plan().standard_deviation(step).unwrap();
    }
    (output, deviation)
}

fn club() -> (CutEncoding, Vec<EdgeUpdate>, Vec<f64>) {
    let graph = karate_club();
    let encoding = CutEncoding::signed(34).unwrap();
    let edges: Vec<EdgeUpdate> = graph
        .edge_references()
        .map(|edge| EdgeUpdate::new(edge.source().index(), edge.target().index(), *edge.weight()))
        .collect();
    let weights = encoding.pairs().weights_of(&graph).unwrap();
    (encoding, edges, weights)
}

#[test]
fn answers_are_unbiased_with_the_stated_variance() {
    // n = 500 seeded releases of the karate club, one cut each; two-sided tests at α = 1e-6 (4.9 standard errors).
    let runs = 500;
    let (encoding, edges, truth) = club();
    let (s, p): (Vec<usize>, Vec<usize>) = ((0..12).collect(), (20..34).collect());
    let expected = encoding.cut(&truth, &s, &p, 0.0).unwrap().value;
    let standardized: Vec<f64> = (0..runs)
        .map(|seed| {
            let (weights, deviation) = release(&encoding, &edges, 6, seed);
            let answer = encoding.cut(&weights, &s, &p, deviation).unwrap();
            (answer.value - expected) / answer.standard_deviation
        })
        .collect();
    let n = runs as f64;
    let mean = standardized.iter().sum::<f64>() / n.sqrt();
    assert!(mean.abs() < 4.9, "{mean}");
    let spread =
        |scale: f64| (standardized.iter().map(|z| (z / scale).powi(2)).sum::<f64>() - n) / (2.0 * n).sqrt();
    println!("mean {mean:.2}, spread {:.2} standard errors", spread(1.0));
    assert!(spread(1.0).abs() < 4.9);
    for wrong in [2.0 / 3.0, 1.5] {
        assert!(spread(wrong).abs() > 4.9, "the test tells a deviation that is wrong by {wrong}");
    }
}

#[test]
fn all_cuts_of_a_random_graph_stay_within_the_simultaneous_bound() {
    // 9 vertices: all 9330 pairs of disjoint sets are looked at, in 100 releases at failure probability 0.1.
    let encoding = CutEncoding::signed(9).unwrap();
    let pairs = encoding.pairs();
    let edges: Vec<EdgeUpdate> = pairs
        .iter()
        .filter(|(u, v)| (u * 7 + v * 5) % 3 == 0)
        .map(|(u, v)| EdgeUpdate::new(u, v, 1.0))
        .collect();
    let mut truth = vec![0.0; pairs.len()];
    encoding.encode(&edges, &mut truth).unwrap();
    let (mut failures, mut tightest) = (0, 0.0_f64);
    for seed in 0..100 {
        let (weights, deviation) = release(&encoding, &edges, 3, seed);
        let error: Vec<f64> = weights.iter().zip(&truth).map(|(a, b)| a - b).collect();
        let bounds = encoding.error(deviation);
        let mut worst = 0.0_f64;
        for code in 0..3_usize.pow(9) {
            let side = |vertex: usize| code / 3_usize.pow(vertex as u32) % 3;
            let s = (0..9).filter(|v| side(*v) == 1).count();
            let p = (0..9).filter(|v| side(*v) == 2).count();
            if s == 0 || p == 0 || s > p {
                continue;
            }
            let crosses = |u: usize, v: usize| side(u) * side(v) == 2;
            let across: f64 =
                pairs.iter().zip(&error).filter(|((u, v), _)| crosses(*u, *v)).map(|(_, error)| error).sum();
            worst = worst.max(across.abs() / bounds.all_pairs(s, p, 0.1).unwrap());
        }
        failures += u32::from(worst > 1.0);
        tightest = tightest.max(worst);
        if seed >= 20 && failures == 0 && tightest > 0.6 {
            break;
        }
    }
    println!("{failures} failures; the worst cut used {tightest:.2} of its bound");
    assert!(failures <= 25, "25 of 100 would be 5 standard errors above 10");
    assert!(tightest > 0.5, "the bound says something");
}

#[test]
fn bounds_are_ordered_and_follow_their_formula() {
    let encoding = CutEncoding::signed(34).unwrap();
    let error = encoding.error(2.0);
    let one = error.one_cut(3, 5, 0.05).unwrap();
    assert!((one - 2.0 * 15.0_f64.sqrt() * (2.0 * 40.0_f64.ln()).sqrt()).abs() < 1e-12);
    let (cuts, pairs) = (error.all_cuts(3, 0.05).unwrap(), error.all_pairs(3, 31, 0.05).unwrap());
    // 17 sizes and C(34, 3) = 5984 cuts of this one.
    let expected = 2.0 * 93.0_f64.sqrt() * (2.0 * (2.0 * 17.0 * 5984.0 / 0.05_f64).ln()).sqrt();
    assert!((cuts - expected).abs() < 1e-9);
    assert!(error.one_cut(3, 31, 0.05).unwrap() < cuts && cuts < pairs);
    assert!(error.over_steps(100).all_cuts(3, 0.05).unwrap() > cuts);
    // The published bound for all cuts, 3 |S| sqrt((|S|+|P|) ln(|S|+|P|)) per standard deviation, is far above.
    for s in 1..=17 {
        let published = 3.0 * 2.0 * s as f64 * (34.0 * 34.0_f64.ln()).sqrt();
        assert!(error.all_cuts(s, 1.0 / 3.0).unwrap() < published, "{s}");
    }
    for (s, p, failure) in
        [(0, 1, 0.1), (1, 0, 0.1), (20, 20, 0.1), (1, 1, 0.0), (1, 1, 1.0), (1, 1, f64::NAN)]
    {
        assert!(error.all_pairs(s, p, failure).is_err(), "{s} {p} {failure}");
    }
}

#[test]
fn refuses_what_is_not_a_cut_or_an_update() {
    let encoding = CutEncoding::signed(4).unwrap();
    let weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(encoding.cut(&weights, &[0, 1], &[2, 3], 1.0).unwrap().value, 14.0);
    assert_eq!(encoding.cut(&weights, &[0, 1], &[1], 1.0), Err(Error::RepeatedVertex { vertex: 1 }));
    assert!(
        encoding.cut(&weights, &[0], &[4], 1.0).is_err() && encoding.cut(&[0.0], &[0], &[1], 1.0).is_err()
    );
    let mut input = [9.0; 6];
    for weight in [1.1, -1.1, f64::NAN, f64::INFINITY] {
        let updates = [EdgeUpdate::new(0, 1, 1.0), EdgeUpdate::new(0, 1, weight)];
        assert!(encoding.encode(&updates, &mut input).is_err());
        assert_eq!(input, [9.0; 6]);
    }
    for (low, high) in [(0.0, 0.0), (1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        assert!(CutEncoding::with_weights(4, low, high).is_err(), "{low} {high}");
    }
}
