//! Shared ground of the cross-crate tests: the cases, golden values and small independent references.

// A panic is how a test fails.
#![allow(clippy::missing_panics_doc)]

/// The program on the first page compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct FirstPage;

pub mod audit;
pub mod description;
pub mod goodness;

use std::net::TcpListener;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use dp_linalg::norms;
use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{CorrelatedNoise, Error, Method, Participation, Problem, Side, Strategy, Workload};
use ndarray::{Array2, ArrayView1};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The horizons of the laws: the smallest ones, powers of two, and neighbours of powers of two.
pub const HORIZONS: [usize; 7] = [1, 2, 3, 7, 64, 100, 257];

/// Agreement up to rounding, relative to the largest value that takes part.
pub const ROUNDING: f64 = 1e-9;

/// Addresses on this machine at which nobody listens, none of them given to anybody else by this program, one on each line.
///
/// They lie below the ports that the system gives to outgoing connections, so that none of these takes one before it is used.
pub fn free_addresses(count: usize) -> String {
    static NEXT: Mutex<Option<u16>> = Mutex::new(None);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    // Tests that run beside this one begin elsewhere.
    let mut port = next.unwrap_or((std::process::id() % 1000 * 12) as u16);
    let mut addresses = Vec::new();
    while addresses.len() < count {
        port = (port + 1) % 12_000;
        let address = format!("127.0.0.1:{}", 20_000 + port);
        if TcpListener::bind(&address).is_ok() {
            addresses.push(address);
        }
    }
    *next = Some(port);
    addresses.join("\n")
}

/// A workload with a name that tells it from all others (weights and rates have no short form of their own).
pub type Labelled = (&'static str, Workload);

/// Every kind of workload, with weights that fall, jump up and down, and change sign.
///
/// The given weights are dominated by the first, so that their inverses stay bounded over any horizon.
pub fn workloads() -> Vec<Labelled> {
    let texts = [
        "count",
        "average",
        "window:5",
        "window:16",
        "exp:1.1",
        "exp:1.5",
        "poly:0.5",
        "poly:1",
        "momentum:0.9",
    ];
    let mut workloads: Vec<Labelled> = texts
        .into_iter()
        .map(|text| (text, text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))))
        .collect();
    let weights = |values: &[f64]| Workload::weights(values).unwrap_or_else(|error| panic!("{error}"));
    workloads.push(("weights, falling", weights(&[2.0, 1.0, 0.5, 0.25, 0.2, 0.1])));
    workloads.push(("weights, not monotone", weights(&[1.0, 0.1, 0.4, 0.0, 0.3])));
    workloads.push(("weights, both signs", weights(&[1.0, 0.5, -0.25, 0.125])));
    let rates = [0.1, 0.2, 0.3, 0.3, 0.25, 0.2, 0.15];
    let scheduled = Workload::momentum(0.9, &rates).unwrap_or_else(|error| panic!("{error}"));
    workloads.push(("momentum:0.9, scheduled", scheduled));
    workloads
}

/// One strategy for one workload over one horizon.
pub struct Case {
    /// How the strategy is built.
    pub method: Method,
    /// The workload's label.
    pub label: &'static str,
    /// The strategy.
    pub strategy: Arc<dyn Strategy>,
}

impl Case {
    /// What a failed assertion starts with.
    pub fn context(&self) -> String {
        format!("{} × {} × n = {}", self.method, self.label, self.strategy.steps())
    }
}

/// Builds the case, or nothing where the strategy says that it does not serve the workload.
pub fn case(
    method: Method,
    (label, workload): &Labelled,
    steps: usize,
    participation: Participation,
) -> Option<Case> {
    let problem = Problem::new(workload.clone(), steps);
    match problem.and_then(|problem| method.build(&problem.with_participation(participation))) {
        Ok(strategy) => Some(Case { method, label, strategy }),
        Err(Error::NotApplicable { .. }) => None,
        Err(error) => panic!("{method} × {label} × n = {steps}: {error}"),
    }
}

/// Every strategy × workload × horizon, each built once. The longest horizon takes one workload of each structure.
pub static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let workloads = workloads();
    let mut cases = Vec::new();
    for steps in HORIZONS {
        for labelled in &workloads {
            let structure =
                ["count", "average", "window:16", "momentum:0.9, scheduled"].contains(&labelled.0);
            if steps <= 100 || structure {
                let served = |&method: &Method| case(method, labelled, steps, Participation::Single);
                cases.extend(Method::ALL.iter().filter_map(served));
            }
        }
    }
    cases
});

/// A `z` whose row r is the r-th unit vector: the noise of a strategy becomes its matrix.
pub struct Impulses {
    /// The number of rows of the strategy; nobody may ask for more.
    pub rows: usize,
}

impl UnitNoise for Impulses {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        assert!(row < self.rows, "row {row} of a strategy with {} rows", self.rows);
        for (column, value) in (first..).zip(out) {
            *value = f64::from(u8::from(column == row));
        }
    }
}

/// A `z` that is 1 everywhere.
pub struct Ones;

impl UnitNoise for Ones {
    fn fill_range(&self, _row: usize, _first: usize, out: &mut [f64]) {
        out.fill(1.0);
    }
}

/// All the noise of a strategy, a row per step.
pub fn streamed(
    strategy: &dyn Strategy,
    dimension: usize,
    side: Side,
    source: impl UnitNoise + 'static,
) -> Array2<f64> {
    let mut noise = CorrelatedNoise::new(strategy, dimension, side, Box::new(source))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut rows = Array2::zeros((strategy.steps(), dimension));
    let mut buffer = vec![0.0; dimension];
    for mut row in rows.rows_mut() {
        noise.next_into(&mut buffer).unwrap_or_else(|error| panic!("{error}"));
        row.assign(&ArrayView1::from(&buffer));
    }
    rows
}

/// The square of a matrix column's norm, with the rounding errors of the squares carried along.
pub fn squared_norm(values: ArrayView1<'_, f64>) -> f64 {
    norms::compensated_sum(values.iter().flat_map(|&value| {
        let square = value * value;
        [square, value.mul_add(value, -square)]
    }))
}

/// The largest `‖Σ_{j∈S} ±C_j‖²` over all admissible sets S and all signs, by trying them.
pub fn exhaustive_sensitivity(strategy: &Array2<f64>, participation: Participation) -> f64 {
    fn extend(strategy: &Array2<f64>, from: usize, left: usize, separation: usize, moved: &[f64]) -> f64 {
        let mut worst = squared_norm(ArrayView1::from(moved));
        if left > 0 {
            for step in from..strategy.ncols() {
                for sign in [1.0, -1.0] {
                    let next: Vec<f64> =
                        moved.iter().zip(strategy.column(step)).map(|(sum, c)| sum + sign * c).collect();
                    worst = worst.max(extend(strategy, step + separation, left - 1, separation, &next));
                }
            }
        }
        worst
    }
    let times = participation.times_within(strategy.ncols());
    extend(strategy, 0, times, participation.separation(), &vec![0.0; strategy.nrows()])
}

/// The largest absolute entry.
pub fn largest(matrix: &Array2<f64>) -> f64 {
    matrix.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()))
}

/// Fails unless the matrices agree up to `tolerance`, relative to the largest expected entry.
#[track_caller]
pub fn assert_matrices_close(actual: &Array2<f64>, expected: &Array2<f64>, tolerance: f64, context: &str) {
    assert_eq!(actual.dim(), expected.dim(), "{context}");
    let difference = largest(&(actual - expected));
    assert!(difference <= tolerance * largest(expected), "{context}: entries differ by {difference:e}");
}

/// Fails unless the values agree up to the relative `tolerance`.
#[track_caller]
pub fn assert_close(actual: f64, expected: f64, tolerance: f64, context: &str) {
    let difference = (actual - expected).abs();
    assert!(difference <= tolerance * expected.abs(), "{context}: {actual} against {expected}");
}

/// A strategy's sensitivity and error factors, computed independently.
#[derive(Debug, Deserialize)]
pub struct GoldenError {
    /// The strategy.
    pub strategy: String,
    /// The workload.
    pub workload: String,
    /// The horizon.
    pub steps: usize,
    /// `Δ²` for a single participation.
    pub sensitivity_squared: f64,
    /// E2.
    pub mean_squared_error: f64,
    /// E∞.
    pub max_squared_error: f64,
}

/// The least mean squared error factor under repeated participation.
///
/// Found by descent on a power mean (up to the 8192nd) of `‖C u‖²` over *all* admissible sets and signs u, over all
/// lower-triangular C, with SciPy's L-BFGS-B, from the square root and from a banded matrix.
#[derive(Debug, Deserialize)]
pub struct GoldenParticipation {
    /// The workload.
    pub workload: String,
    /// The horizon.
    pub steps: usize,
    /// The number of participations.
    pub times: usize,
    /// Their smallest distance.
    pub separation: usize,
    /// E2.
    pub optimum: f64,
}

/// The Schatten lower bound of the count.
#[derive(Debug, Deserialize)]
pub struct GoldenSchatten {
    /// The horizon.
    pub steps: usize,
    /// The bound on E2.
    pub lower_bound: f64,
}

/// The exact calibration of the Gaussian mechanism.
#[derive(Debug, Deserialize)]
pub struct GoldenGaussian {
    /// The budget's ε.
    pub epsilon: f64,
    /// The budget's δ.
    pub delta: f64,
    /// The μ it buys.
    pub mu: f64,
    /// The standard deviation for a unit change, `1/μ`.
    pub sigma: f64,
}

/// Reads a golden file of this package.
pub fn golden<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = format!("{}/golden/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}
