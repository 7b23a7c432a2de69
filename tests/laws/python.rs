//! Numbers that the tests of the Python package read as well: whatever makes them from one seed makes the same, to the last bit.

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::shards::NoiseShard;
use dp_mechanisms::{
    Budget, Footprint, Mechanism, Method, Participation, Plan, Problem, Relation, Seed, Workload,
};
use serde::Deserialize;

const GOLDEN: &str = include_str!("../../crates/dp-python/tests/golden.json");

#[derive(Deserialize)]
struct Golden {
    releases: Vec<Case>,
    noise: Vec<Case>,
    refusals: Vec<Refusal>,
}

/// An argument of Python's `plan` that is refused, and the words.
#[derive(Deserialize)]
struct Refusal {
    argument: String,
    value: serde_json::Value,
    words: String,
}

impl Refusal {
    /// What the libraries say about it.
    fn found(&self) -> dp_mechanisms::Result<()> {
        let text = self.value.as_str().unwrap_or_default();
        let number = |index: usize| self.value[index].as_f64().unwrap();
        match self.argument.as_str() {
            "workload" => text.parse::<Workload>().map(drop),
            "relation" => text.parse::<Relation>().map(drop),
            "strategy" => text.parse::<Method>().map(drop),
            "participation" => Participation::repeated(number(0) as usize, number(1) as usize).map(drop),
            "mu" => Budget::gaussian(self.value.as_f64().unwrap()).map(drop),
            "steps" => Problem::new(Workload::count(), self.value.as_u64().unwrap() as usize).map(drop),
            "bounds" => {
                let once = Participation::Single;
                Footprint::vector(number(0), number(1), 1, Relation::ZeroOut, once).map(drop)
            }
            other => panic!("no such argument: {other}"),
        }
    }
}

/// One run: the arguments of Python's `plan`, the inputs, and the bits of what is released.
#[derive(Deserialize)]
struct Case {
    name: String,
    workload: String,
    arguments: Arguments,
    seed: u64,
    inputs: Vec<f64>,
    released: Vec<String>,
}

#[derive(Deserialize)]
struct Arguments {
    strategy: String,
    steps: usize,
    dimension: usize,
    relation: String,
    mu: f64,
    exact: bool,
    #[serde(default)]
    grid: f64,
    #[serde(default)]
    bounds: Option<(f64, f64)>,
    #[serde(default)]
    clip: f64,
}

impl Case {
    fn plan(&self) -> Plan {
        let Arguments { strategy, steps, dimension, relation, mu, exact, grid, bounds, clip } =
            &self.arguments;
        let workload: Workload = self.workload.parse().unwrap();
        let problem = Problem::new(workload, *steps).unwrap();
        let strategy = strategy.parse::<Method>().unwrap().build(&problem).unwrap();
        let (relation, once) = (relation.parse::<Relation>().unwrap(), Participation::Single);
        let footprint = if let Some((low, high)) = bounds {
            Footprint::vector(*low, *high, *dimension, relation, once).unwrap()
        } else {
            let term = Term { weight: *clip, participation: once };
            Footprint::encoded(vec![term], relation).unwrap().of_dimension(*dimension).unwrap()
        };
        let budget = Budget::gaussian(*mu).unwrap();
        if *exact {
            return Plan::exact(&strategy, footprint, budget, *grid).unwrap();
        }
        Plan::idealized(strategy, footprint, budget).unwrap()
    }
}

#[test]
fn releases_are_those_that_python_makes() {
    let golden: Golden = serde_json::from_str(GOLDEN).unwrap();
    assert!(golden.releases.len() >= 4);
    for case in &golden.releases {
        let dimension = case.arguments.dimension;
        let mut mechanism = Mechanism::new(case.plan(), Seed::reproducible(case.seed)).unwrap();
        let mut released = Vec::new();
        for input in case.inputs.chunks_exact(dimension) {
            let mut output = vec![0.0; dimension];
            mechanism.release(input, &mut output).unwrap();
            let shown = output.iter().map(|value| mechanism.plan().on_grid(*value));
            released.extend(shown.map(|value| format!("{:016x}", value.to_bits())));
        }
        assert_eq!(released, case.released, "{}", case.name);
    }
}

#[test]
fn noise_is_that_which_python_adds() {
    let golden: Golden = serde_json::from_str(GOLDEN).unwrap();
    assert!(golden.noise.len() >= 2);
    for case in &golden.noise {
        let dimension = case.arguments.dimension;
        let seed = Seed::reproducible(case.seed);
        let mut shard = NoiseShard::in_memory(&case.plan(), dimension, 1, seed).unwrap().remove(0);
        let mut released = Vec::new();
        for input in case.inputs.chunks_exact(dimension) {
            let mut output = vec![0.0_f32; dimension];
            shard.release(input, &mut output).unwrap();
            released.extend(output.iter().map(|value| format!("{:08x}", value.to_bits())));
        }
        assert_eq!(released, case.released, "{}", case.name);
    }
}

#[test]
fn refusals_have_the_words_that_python_says() {
    let golden: Golden = serde_json::from_str(GOLDEN).unwrap();
    assert!(golden.refusals.len() >= 5);
    for case in &golden.refusals {
        assert_eq!(case.found().unwrap_err().to_string(), case.words, "{}", case.argument);
    }
}
