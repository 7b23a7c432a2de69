//! Released values that are written down: whoever changes one for a seed and an input sees it here, and says so in the changelog.
//!
//! `pinned.txt` has a line for every strategy, workload and way to run a plan, in both arithmetics: releases of reproducible
//! seeds at a few steps. They are compared to a millionth of the noise, because fitted strategies end at other last bits on
//! other machines; a changed sample, seed, rounding or strategy moves them by a part of the noise itself. The bytes of saved
//! states are pinned by their digests. A line that is missing or differs is printed as it should be written.

use std::fmt::Write;

use crate::identity::Digest;
use crate::sensitivity::Term;
use crate::{
    Arithmetic, Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Result, Seed,
    Snapshot, SparseMechanism, Workload,
};

const PINNED: &str = include_str!("pinned.txt");
const STEPS: usize = 12;
const SHOWN: [usize; 4] = [1, 2, 7, 12];
const GRID: f64 = 0.125;

/// Its μ is exactly 1, whatever the math library.
fn budget() -> Budget {
    Budget::zero_concentrated(0.5).unwrap()
}

fn footprint() -> Footprint {
    Footprint::vector(-1.0, 2.0, 2, Relation::Replace, Participation::Single).unwrap()
}

fn input(step: usize) -> [f64; 2] {
    [(step % 4) as f64 - 1.0, (step % 3) as f64 * 0.25]
}

fn releases(plan: Plan) -> Result<Vec<f64>> {
    let mut mechanism = Mechanism::new(plan, Seed::reproducible(2024))?;
    let mut shown = Vec::new();
    let mut output = [0.0; 2];
    for step in 1..=STEPS {
        mechanism.release(&input(step), &mut output)?;
        if SHOWN.contains(&step) {
            shown.extend(output);
        }
    }
    Ok(shown)
}

fn sparse_plan(exact: bool) -> Result<Plan> {
    let strategy = Method::Blt.build(&Problem::new(Workload::count(), STEPS)?)?;
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut)?.of_dimension(1000)?;
    if exact {
        Plan::exact(&strategy, footprint, budget(), 1.0)
    } else {
        Plan::idealized(strategy, footprint, budget())
    }
}

fn sparse(exact: bool) -> Result<Vec<f64>> {
    let mut mechanism = SparseMechanism::new(sparse_plan(exact)?, Seed::reproducible(2024))?;
    let mut shown = Vec::new();
    for step in 1..=STEPS {
        mechanism.push(&[(7, 1.0), (step as u64, 1.0)])?;
        if SHOWN.contains(&step) {
            shown.extend([mechanism.ask(7)?, mechanism.ask(999)?]);
        }
    }
    Ok(shown)
}

/// Everything that is pinned, by name, with the size of its noise.
fn found() -> Vec<(String, Vec<f64>, f64)> {
    let mut found = Vec::new();
    let mut add = |name: String, plan: Result<Plan>| {
        let Ok(plan) = plan else { return };
        let size = plan.sigma() * plan.row_norms().max().sqrt();
        if let Ok(values) = releases(plan) {
            found.push((name, values, size));
        }
    };
    let workloads = ["average", "window:3", "exp:1.2", "poly:0.5", "momentum:0.9", "step"];
    let counted = Method::ALL.iter().map(|method| (*method, "count"));
    let others = [Method::Sqrt, Method::Blt, Method::BinaryTree].into_iter();
    let others = others.flat_map(|method| workloads.map(|workload| (method, workload)));
    let others = others.chain([(Method::ScaledBlt, "window:3")]);
    for (method, text) in counted.chain(others) {
        let workload: Workload = text.parse().unwrap();
        let Ok(strategy) = method.build(&Problem::new(workload.clone(), STEPS).unwrap()) else { continue };
        let idealized = Plan::idealized(strategy.clone(), footprint(), budget());
        add(format!("{method} {text} inputs"), idealized.clone().and_then(Plan::releasing_inputs));
        add(format!("{method} {text} idealized"), idealized);
        add(format!("{method} {text} exact"), Plan::exact(&strategy, footprint(), budget(), GRID));
        let doubling = Plan::doubling(&workload, method, footprint(), budget(), Arithmetic::Idealized, 3);
        add(format!("{method} {text} doubling"), doubling);
        let doubling =
            Plan::doubling(&workload, method, footprint(), budget(), Arithmetic::Exact { grid: GRID }, 3);
        add(format!("{method} {text} doubling exact"), doubling);
    }
    for exact in [false, true] {
        let name = if exact { "sparse exact" } else { "sparse idealized" };
        found.push((name.to_owned(), sparse(exact).unwrap(), sparse_plan(exact).unwrap().sigma()));
    }
    found
}

fn digest(snapshot: &Snapshot) -> String {
    let mut digest = Digest::new();
    let identity = snapshot.identity().to_string();
    identity.bytes().chain(snapshot.encode().iter().copied()).for_each(|byte| digest.add(u64::from(byte)));
    digest.to_string()
}

/// Saved states of independent noise, whose numbers no math library touches.
fn states() -> Vec<(String, String)> {
    let strategy = Method::Identity.build(&Problem::new(Workload::count(), STEPS).unwrap()).unwrap();
    let (count, method) = (Workload::count(), Method::Identity);
    let doubling = |arithmetic| Plan::doubling(&count, method, footprint(), budget(), arithmetic, 3);
    let idealized = Plan::idealized(strategy.clone(), footprint(), budget()).unwrap();
    let plans = [
        ("inputs", idealized.clone().releasing_inputs().unwrap()),
        ("idealized", idealized),
        ("exact", Plan::exact(&strategy, footprint(), budget(), GRID).unwrap()),
        ("doubling", doubling(Arithmetic::Idealized).unwrap()),
        ("doubling exact", doubling(Arithmetic::Exact { grid: GRID }).unwrap()),
    ];
    plans
        .into_iter()
        .map(|(name, plan)| {
            let mut mechanism = Mechanism::new(plan, Seed::reproducible(2024)).unwrap();
            for step in 1..=5 {
                mechanism.release(&input(step), &mut [0.0; 2]).unwrap();
            }
            (format!("state {name}"), digest(&mechanism.snapshot()))
        })
        .collect()
}

#[test]
fn released_values_are_those_that_are_written_down() {
    let written = |name: &str| {
        PINNED.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
    };
    let (mut wrong, mut names) = (String::new(), Vec::new());
    for (name, values, size) in found() {
        let pinned: Vec<f64> = written(&name).split(' ').filter_map(|value| value.parse().ok()).collect();
        let close = |(value, pinned): (&f64, &f64)| (value - pinned).abs() < 1e-6 * size;
        if pinned.len() != values.len() || !values.iter().zip(&pinned).all(close) {
            let values: Vec<String> = values.iter().map(|value| format!("{value:.9}")).collect();
            writeln!(wrong, "{name}: {}", values.join(" ")).unwrap();
        }
        names.push(name);
    }
    for (name, digest) in states() {
        if written(&name) != digest {
            writeln!(wrong, "{name}: {digest}").unwrap();
        }
        names.push(name);
    }
    assert!(wrong.is_empty(), "these values are not those of pinned.txt:\n{wrong}");
    let lines = PINNED.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
    assert_eq!(lines.collect::<Vec<_>>(), names, "lines that nothing makes any more, or in another order");
}

#[test]
fn every_family_is_pinned_in_both_arithmetics() {
    for method in Method::ALL {
        assert!(PINNED.contains(&format!("{method} count idealized: ")), "{method}");
    }
    let exact = PINNED.lines().filter(|line| line.contains(" count exact: ")).count();
    // All but the two whose decoders look ahead.
    assert_eq!(exact, Method::ALL.len() - 2);
}
