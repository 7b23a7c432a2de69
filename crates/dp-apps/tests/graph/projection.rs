//! What the projection to a graph without negative weights is worth, beside clipping.

use dp_apps::graph::{CutEncoding, VertexPairs, clip, karate_club, max_cut, min_cut, project, sparsest_cut};
use dp_mechanisms::noise::UnitNoise;
use dp_mechanisms::{GaussianSource, Seed};
use ndarray::Array2;

/// Weights with independent noise.
fn noisy(truth: &[f64], deviation: f64, seed: u64) -> Vec<f64> {
    let mut noise = vec![0.0; truth.len()];
    GaussianSource::new(Seed::reproducible(seed), truth.len()).fill_range(0, 0, &mut noise);
    truth.iter().zip(&noise).map(|(weight, noise)| weight + deviation * noise).collect()
}

/// A sparse graph: a ring with chords.
fn sparse(vertices: usize) -> (VertexPairs, Vec<f64>) {
    let pairs = VertexPairs::new(vertices).unwrap();
    let edge = |(u, v): (usize, usize)| {
        v - u == 1 || v - u == vertices - 1 || (u % 5 == 0 && v == (u * 3 + 7) % vertices)
    };
    (pairs, pairs.iter().map(|pair| f64::from(u8::from(edge(pair)))).collect())
}

/// Root mean square error of 300 cuts into halves that look random.
fn cut_error(pairs: VertexPairs, weights: &[f64], truth: &[f64]) -> f64 {
    let encoding = CutEncoding::signed(pairs.vertices()).unwrap();
    let difference: Vec<f64> = weights.iter().zip(truth).map(|(a, b)| a - b).collect();
    let squares: f64 = (0..300)
        .map(|cut| {
            let side = noisy(&vec![0.0; pairs.vertices()], 1.0, 1_000 + cut);
            let (s, p): (Vec<usize>, Vec<usize>) = (0..side.len()).partition(|v| side[*v] > 0.0);
            encoding.cut(&difference, &s, &p, 0.0).unwrap().value.powi(2)
        })
        .sum();
    (squares / 300.0).sqrt()
}

#[test]
fn beats_clipping_on_sparse_graphs() {
    // How many times smaller the error of balanced cuts is, at least.
    for (vertices, factor) in [(20, 3.0), (40, 10.0)] {
        let (pairs, truth) = sparse(vertices);
        for deviation in [0.5, 2.0] {
            let released = noisy(&truth, deviation, 5);
            let (projected, clipped) = (project(pairs, &released).unwrap(), clip(pairs, &released).unwrap());
            let raw = cut_error(pairs, &released, &truth);
            let (ours, theirs) =
                (cut_error(pairs, &projected.weights, &truth), cut_error(pairs, &clipped.weights, &truth));
            println!(
                "V = {vertices}, deviation {deviation}: cut error raw {raw:.1}, projected {ours:.1}, clipped {theirs:.1}; \
                 spectral {:.1} (at least {:.1}) against {:.1}",
                projected.spectral_error, projected.lower_bound, clipped.spectral_error
            );
            assert!(projected.weights.iter().all(|weight| *weight >= 0.0));
            assert!(ours * factor < theirs, "V = {vertices}, deviation {deviation}");
            assert!(projected.spectral_error * 1.3 < clipped.spectral_error);
            assert!(projected.spectral_error <= 1.1 * projected.lower_bound);
        }
    }
}

#[test]
fn leaves_graphs_alone_and_stays_within_its_bounds() {
    let (pairs, truth) = sparse(12);
    let same = project(pairs, &truth).unwrap();
    assert!(
        same.spectral_error < 1e-12 && same.weights.iter().zip(&truth).all(|(a, b)| (a - b).abs() < 1e-12)
    );
    let released = noisy(&truth, 1.0, 3);
    let projection = project(pairs, &released).unwrap();
    let encoding = CutEncoding::signed(12).unwrap();
    for mask in 1..1_usize << 11 {
        let (s, p): (Vec<usize>, Vec<usize>) = (0..12).partition(|v| mask >> v & 1 == 1);
        let cut = |weights: &[f64]| encoding.cut(weights, &s, &p, 0.0).unwrap().value;
        let shift = (cut(&projection.weights) - cut(&released)).abs();
        assert!(shift <= projection.cut_shift(pairs, s.len()) * (1.0 + 1e-9));
    }
    assert!(project(pairs, &[0.0]).is_err());
    let mut broken = released;
    broken[4] = f64::NAN;
    assert!(project(pairs, &broken).is_err() && clip(pairs, &broken).is_err());
}

/// The largest absolute eigenvalue of the Laplacian of weights of any sign.
fn laplacian_norm(pairs: VertexPairs, weights: &[f64]) -> f64 {
    let mut laplacian = Array2::<f64>::zeros((pairs.vertices(), pairs.vertices()));
    for ((u, v), weight) in pairs.iter().zip(weights) {
        for (row, column, sign) in [(u, u, 1.0), (v, v, 1.0), (u, v, -1.0), (v, u, -1.0)] {
            laplacian[[row, column]] += sign * weight;
        }
    }
    let values = dp_linalg::dense::symmetric_eigen(laplacian.view()).unwrap().values;
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

#[test]
fn is_closer_than_the_truth_and_its_certificate_holds() {
    // The truth is one of the candidates, so the optimum is at most the norm of the noise, and so is its certificate.
    let (pairs, ring) = sparse(30);
    for (scale, shift) in [(1.0, 0.0), (10.0, 0.0), (3.0, 0.2), (1.0, 2.0)] {
        let truth: Vec<f64> = ring.iter().map(|weight| scale * weight + shift).collect();
        for seed in 0..3 {
            let released = noisy(&truth, 1.0, seed);
            let noise: Vec<f64> = released.iter().zip(&truth).map(|(a, b)| a - b).collect();
            let projection = project(pairs, &released).unwrap();
            let of_noise = laplacian_norm(pairs, &noise);
            println!(
                "ring × {scale} + {shift}: {:.3}, at least {:.3}; noise {of_noise:.1}",
                projection.spectral_error, projection.lower_bound
            );
            assert!(projection.lower_bound <= of_noise && projection.spectral_error <= of_noise);
            let moved: Vec<f64> = projection
                .weights
                .iter()
                .zip(&released)
                .map(|(weight, released)| weight - released)
                .collect();
            assert!((laplacian_norm(pairs, &moved) - projection.spectral_error).abs() < 1e-9);
            // The certificate is sharp where noise is all there is to see.
            if (scale, shift) == (1.0, 0.0) {
                assert!(projection.spectral_error < 1.05 * projection.lower_bound);
            }
        }
    }
}

#[test]
fn extreme_cuts_survive_in_the_karate_club() {
    let graph = karate_club();
    let pairs = VertexPairs::new(34).unwrap();
    let truth = pairs.weights_of(&graph).unwrap();
    // The club: its lightest cut is a member with one friend, and 61 of 78 friendships can be cut at once.
    assert_eq!(min_cut(pairs, &truth).unwrap().weight, 1.0);
    assert_eq!(max_cut(pairs, &truth).unwrap().weight, 61.0);
    // Five members know nobody else but the instructor, by four friendships.
    let circle = sparsest_cut(pairs, &truth).unwrap();
    assert!([circle.first(), circle.second()].contains(&vec![4, 5, 6, 10, 16]));
    assert_eq!(circle.weight, 4.0);
    // With little noise the projection still shows them, or something as sparse.
    let projection = project(pairs, &noisy(&truth, 0.1, 11)).unwrap();
    let private = sparsest_cut(pairs, &projection.weights).unwrap();
    let encoding = CutEncoding::signed(34).unwrap();
    let of_truth = encoding.cut(&truth, &private.first(), &private.second(), 0.0).unwrap().value;
    let separated = (private.first().len() * private.second().len()) as f64;
    println!(
        "sparsity {:.4} by the private cut, {:.4} by the true one",
        of_truth / separated,
        circle.sparsity()
    );
    assert!(of_truth / separated < 1.5 * circle.sparsity());
}
