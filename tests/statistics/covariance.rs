//! The released noise is Gaussian with covariance `σ²BBᵀ`.

use dp_linalg::dense;
use dp_mechanisms::noise::{Precision, ShardedNoise};
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Budget, Footprint, Method, Participation, Plan, Relation, Side, Workload};
use dp_mechanisms::{CorrelatedNoise, GaussianSource, Mechanism, Seed};
use dp_tests::goodness::{covariance_fits, is_standard_normal, whitened};
use dp_tests::{Case, case, squared_norm};
use ndarray::{Array1, Array2, ArrayView2, s};

/// The probability of a false alarm of one test of one case, over all choices of seeds.
const ALPHA: f64 = 1e-6;

/// Draws of the noise of a whole stream, `SEEDS` mechanisms of `DIMENSION` coordinates: 4096 columns.
const SEEDS: u64 = 64;
const DIMENSION: usize = 64;

const MU: f64 = 0.7;

const CLAIMED: f64 = 1.0;
const SCALES: [f64; 2] = [2.0 / 3.0, 1.5];

/// Every strategy for the count, and for some workloads of other structures.
fn cases() -> Vec<Case> {
    let rows = [("count", 8), ("count", 12), ("window:5", 12), ("average", 12), ("momentum:0.9", 11)];
    let labelled = rows.map(|(text, steps)| ((text, text.parse::<Workload>().unwrap()), steps));
    labelled
        .iter()
        .flat_map(|(labelled, steps)| {
            Method::ALL
                .iter()
                .filter_map(move |&method| case(method, labelled, *steps, Participation::Single))
        })
        .collect()
}

/// What a mechanism releases when all the data is zero, a column per draw.
fn released(case: &Case) -> Array2<f64> {
    let term = Term { weight: 1.0, participation: Participation::Single };
    let footprint = Footprint::encoded(vec![term], Relation::ZeroOut).unwrap();
    let plan = Plan::idealized(case.strategy.clone(), footprint, Budget::gaussian(MU).unwrap()).unwrap();
    draws(case.strategy.steps(), |seed, block| {
        let mut mechanism =
            Mechanism::new(plan.clone().of_dimension(DIMENSION).unwrap(), Seed::reproducible(seed)).unwrap();
        for row in block.rows_mut() {
            mechanism.release(&[0.0; DIMENSION], row.into_slice().unwrap()).unwrap();
        }
    })
}

fn draws(steps: usize, fill: impl Fn(u64, &mut Array2<f64>)) -> Array2<f64> {
    let mut all = Array2::zeros((steps, SEEDS as usize * DIMENSION));
    let mut block = Array2::zeros((steps, DIMENSION));
    for seed in 0..SEEDS {
        fill(seed, &mut block);
        let start = seed as usize * DIMENSION;
        all.slice_mut(s![.., start..start + DIMENSION]).assign(&block);
    }
    all
}

/// Both tests of one set of draws against one covariance; the power is that of each test alone.
#[track_caller]
fn check(draws: &Array2<f64>, factor: ArrayView2<'_, f64>, context: &str) {
    let covariance = |scale: f64| covariance_fits((draws * scale).view(), factor, ALPHA);
    let normality = |scale: f64| is_standard_normal(whitened((draws * scale).view(), factor), ALPHA);
    covariance(CLAIMED).unwrap_or_else(|error| panic!("{context}: {error}"));
    normality(CLAIMED).unwrap_or_else(|error| panic!("{context}: {error}"));
    for scale in SCALES {
        assert!(
            covariance(scale).is_err(),
            "{context}: noise scaled by {scale} passes for the right covariance"
        );
        assert!(normality(scale).is_err(), "{context}: noise scaled by {scale} passes for normal");
    }
}

/// Every case: 4096 draws, α = 2e-6.
#[test]
fn released_noise_has_the_covariance_of_the_factorization() {
    let cases = cases();
    assert!(cases.len() >= 5 * Method::ALL.len() / 2, "{}", cases.len());
    for case in cases {
        // From the matrices alone: neither the plan's σ nor the strategy's own sensitivity is believed.
        let factors = case.strategy.materialize().unwrap();
        let longest = factors.strategy.columns().into_iter().map(squared_norm).fold(0.0, f64::max);
        let factor = factors.decoder * (longest.sqrt() / MU);
        check(&released(&case), factor.view(), &case.context());
    }
}

/// Every case: 4096 draws, α = 2e-6.
#[test]
fn input_noise_has_the_covariance_of_the_factorization() {
    for case in cases() {
        let workload = case.strategy.workload().materialize(case.strategy.steps()).unwrap();
        let decoder = case.strategy.materialize().unwrap().decoder;
        let factor = dense::solve_lower(workload.view(), decoder.view()).unwrap();
        let draws = draws(case.strategy.steps(), |seed, block| {
            let source = Box::new(GaussianSource::new(Seed::reproducible(1000 + seed), DIMENSION));
            let mut noise =
                CorrelatedNoise::new(case.strategy.as_ref(), DIMENSION, Side::Input, source).unwrap();
            for row in block.rows_mut() {
                noise.next_into(row.into_slice().unwrap()).unwrap();
            }
        });
        check(&draws, factor.view(), &format!("{}, input", case.context()));
    }
}

/// The coordinates of a shard that reaches over the end of a tile, in single precision: 4096 draws, α = 2e-6.
#[test]
fn noise_of_a_shard_has_the_covariance_of_the_factorization() {
    let labelled = ("count", Workload::count());
    let methods = [
        Method::Identity,
        Method::BinaryTree,
        Method::HonakerOnline,
        Method::Blt,
        Method::ScaledBlt,
        Method::Banded,
        Method::BandedInverse,
    ];
    for case in methods.map(|method| case(method, &labelled, 12, Participation::Single).unwrap()) {
        let workload = case.strategy.workload().materialize(case.strategy.steps()).unwrap();
        let decoder = case.strategy.materialize().unwrap().decoder;
        let factor = dense::solve_lower(workload.view(), decoder.view()).unwrap();
        let mut draws = Array2::zeros((case.strategy.steps(), 4096));
        let strategy = case.strategy.as_ref();
        let mut noise =
            ShardedNoise::new(strategy, Seed::reproducible(77), 10_000, 3000..7096, Precision::Single)
                .unwrap();
        for row in draws.rows_mut() {
            noise.next_into(row.into_slice().unwrap()).unwrap();
        }
        check(&draws, factor.view(), &format!("{}, shard", case.context()));
    }
}

/// The test sees correlations, not variances alone: shifting each step's draws against those of the others keeps the
/// variances and destroys the correlations. 4096 draws, α = 1e-6.
#[test]
fn noise_that_has_lost_its_correlations_is_rejected() {
    let mut correlated = 0;
    for case in cases() {
        let factor = case.strategy.materialize().unwrap().decoder;
        let covariance = factor.dot(&factor.t());
        let strongest = covariance
            .indexed_iter()
            .filter(|((i, j), _)| i < j)
            .map(|((i, j), value)| value.abs() / (covariance[[i, i]] * covariance[[j, j]]).sqrt())
            .fold(0.0, f64::max);
        if strongest < 0.3 {
            continue;
        }
        correlated += 1;
        let mut draws = released(&case);
        let count = draws.ncols();
        for (step, mut row) in draws.rows_mut().into_iter().enumerate() {
            let original: Array1<f64> = row.to_owned();
            for (index, value) in row.iter_mut().enumerate() {
                *value = original[(index + 101 * step) % count];
            }
        }
        let sigma = case.strategy.sensitivity(Participation::Single).unwrap().squared.sqrt() / MU;
        assert!(covariance_fits(draws.view(), (factor * sigma).view(), ALPHA).is_err(), "{}", case.context());
    }
    assert!(correlated >= 20, "{correlated}");
}

/// Coordinates are independent of one another, also those of different tiles: the noise of the second step, in 12
/// coordinates around the end of a tile. 2048 draws, α = 2e-6.
#[test]
fn coordinates_are_independent() {
    let labelled = ("count", Workload::count());
    let dimension = dp_mechanisms::noise::TILE + 6;
    for method in [Method::Sqrt, Method::BinaryTree] {
        let case = case(method, &labelled, 2, Participation::Single).unwrap();
        let mut draws = Array2::zeros((12, 2048));
        let mut out = vec![0.0; dimension];
        for (seed, mut column) in draws.columns_mut().into_iter().enumerate() {
            let source = Box::new(GaussianSource::new(Seed::reproducible(seed as u64), dimension));
            let mut noise =
                CorrelatedNoise::new(case.strategy.as_ref(), dimension, Side::Output, source).unwrap();
            noise.skip_to(2, &mut out).unwrap();
            column.assign(&ndarray::ArrayView1::from(&out[dimension - 12..]));
        }
        let norm = case.strategy.row_norms().unwrap().at(1).unwrap().sqrt();
        check(&draws, (Array2::<f64>::eye(12) * norm).view(), &case.context());
    }
}
