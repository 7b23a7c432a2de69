//! An ordinary graph close to released weights, negative ones included.

use ndarray::{Array1, Array2};

use super::lanczos::lanczos;
use super::pairs::VertexPairs;
use crate::error::{Error, Result, check_length};

/// A graph with non-negative weights near a released weight vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// The weights, none negative, in the order of [`VertexPairs`].
    pub weights: Vec<f64>,
    /// `‖L(w) - L(ŵ)‖`, the largest absolute eigenvalue, computed from the final weights.
    pub spectral_error: f64,
    /// No graph with non-negative weights has a smaller spectral error than this: a certificate of how far from the
    /// optimum the projection can be at most. Sharp (a few percent) for sparse graphs under strong noise, loose otherwise.
    pub lower_bound: f64,
}

impl Projection {
    /// A bound on how far the cut (S, V∖S) of the projection is from that of the released weights, for |S| = s:
    /// `spectral_error · s(V-s)/V`.
    ///
    /// The indicator of S has squared length `s(V-s)/V` outside the constants, on which both Laplacians vanish.
    pub fn cut_shift(&self, pairs: VertexPairs, s: usize) -> f64 {
        let vertices = pairs.vertices();
        let s = s.min(vertices) as f64;
        self.spectral_error * s * (vertices as f64 - s) / vertices as f64
    }
}

/// Sweeps over the vertices that match degrees.
const SWEEPS: usize = 30;
/// Steps of the Lanczos iteration per gradient.
const LANCZOS_STEPS: usize = 48;
/// The smoothing of each stage, relative to the error reached so far, and its iterations.
const STAGES: [(f64, usize); 3] = [(0.3, 80), (0.1, 120), (0.03, 120)];
/// Eigenvectors with a smaller share of the gradient are left out.
const SMALLEST_SHARE: f64 = 1e-4;

/// Finds non-negative weights w that keep all cuts close to those of the released weights ŵ: minimizes
/// `‖L(w) - L(ŵ)‖` over w ≥ 0, where L is the Laplacian and the norm the largest absolute eigenvalue.
///
/// Post-processing: it costs no privacy. The true weights are themselves non-negative, so the minimum is at most the
/// norm of the noise, and the projection is within *twice* the norm of the noise of the truth. Setting negative weights
/// to zero ([`clip`]) instead adds about 0.4 standard deviations to each of the C(V,2) pairs, and every cut of a
/// sparse graph comes out too large by that many.
///
/// # Method
/// The start keeps all degrees: the nearest weights `max(ŵ_uv + a_u + a_v, 0)` in the Euclidean norm with the released
/// degrees, by water filling at one vertex after the other. That removes the diagonal of the difference, which is most
/// of its norm. From there, accelerated projected gradient steps on the soft maximum of the absolute eigenvalues, whose
/// gradient is a mixture of `(y_u - y_v)²` over the extreme eigenvectors y, found by the Lanczos iteration; the
/// smoothing falls in stages. The best weights on the way are returned.
///
/// # Complexity
/// O(V²) memory; 320 Lanczos runs of O(48·V²), and one full eigendecomposition, O(V³), for the reported error.
///
/// # Errors
/// A wrong number of weights, or a weight that is not finite.
///
/// # Example
/// ```
/// use dp_apps::graph::{VertexPairs, clip, project};
/// let pairs = VertexPairs::new(3)?;
/// let released = [2.0, 1.0, -0.9];
/// let projection = project(pairs, &released)?;
/// assert!(projection.weights.iter().all(|weight| *weight >= 0.0));
/// assert!(projection.spectral_error < clip(pairs, &released)?.spectral_error);
/// # Ok::<(), dp_apps::Error>(())
/// ```
pub fn project(pairs: VertexPairs, released: &[f64]) -> Result<Projection> {
    check_weights(pairs, released)?;
    let mut best = match_degrees(pairs, released);
    let mut best_error = spectral_norm(pairs, &difference(&best, released))?;
    let clipped = clip(pairs, released)?;
    if clipped.spectral_error < best_error {
        best.clone_from(&clipped.weights);
        best_error = clipped.spectral_error;
    }
    let mut certificate = 0.0;
    if best_error > 0.0 {
        certificate = descend(pairs, released, &mut best, best_error)?;
    }
    let report = report(pairs, released, best)?;
    let lower_bound = report.lower_bound.max(certificate).min(report.spectral_error);
    Ok(Projection { lower_bound, ..report })
}

/// Sets negative weights to zero: the baseline that [`project`] is measured against.
///
/// # Errors
/// A wrong number of weights, or a weight that is not finite.
pub fn clip(pairs: VertexPairs, released: &[f64]) -> Result<Projection> {
    check_weights(pairs, released)?;
    report(pairs, released, released.iter().map(|weight| weight.max(0.0)).collect())
}

fn check_weights(pairs: VertexPairs, released: &[f64]) -> Result<()> {
    check_length("the weight vector", released.len(), pairs.len())?;
    match released.iter().find(|weight| !weight.is_finite()) {
        Some(&value) => Err(Error::OutOfRange { what: "released weight", value, range: "a finite number" }),
        None => Ok(()),
    }
}

fn difference(weights: &[f64], released: &[f64]) -> Vec<f64> {
    weights.iter().zip(released).map(|(weight, released)| weight - released).collect()
}

/// The largest absolute eigenvalue of a Laplacian, to rounding.
fn spectral_norm(pairs: VertexPairs, weights: &[f64]) -> Result<f64> {
    let values = dp_linalg::dense::symmetric_eigen(pairs.laplacian(weights).view())?.values;
    Ok(values.iter().fold(0.0, |largest, value| value.abs().max(largest)))
}

fn report(pairs: VertexPairs, released: &[f64], weights: Vec<f64>) -> Result<Projection> {
    let spectral_error = spectral_norm(pairs, &difference(&weights, released))?;
    // L(w) has no negative eigenvalue, so L(w) - L(ŵ) is at least -L(ŵ) everywhere.
    let released = dp_linalg::dense::symmetric_eigen(pairs.laplacian(released).view())?.values;
    let lower_bound = released.iter().fold(0.0, |largest, value| (-value).max(largest));
    Ok(Projection { weights, spectral_error, lower_bound: lower_bound.min(spectral_error) })
}

/// The non-negative weights nearest to the released ones with the same degrees (0 for negative degrees), after a
/// fixed number of sweeps.
fn match_degrees(pairs: VertexPairs, released: &[f64]) -> Vec<f64> {
    let vertices = pairs.vertices();
    let adjacency = pairs.adjacency(released);
    let mut potential = vec![0.0; vertices];
    let mut shifted = Vec::with_capacity(vertices);
    for _ in 0..SWEEPS {
        for u in 0..vertices {
            let degree = adjacency.row(u).sum().max(0.0);
            shifted.clear();
            shifted.extend((0..vertices).filter(|v| *v != u).map(|v| adjacency[[u, v]] + potential[v]));
            potential[u] = water_level(&mut shifted, degree);
        }
    }
    let weight = |(u, v): (usize, usize)| (adjacency[[u, v]] + potential[u] + potential[v]).max(0.0);
    pairs.iter().map(weight).collect()
}

/// The a with `Σ max(x_i + a, 0) = total`; the largest such a if the total is 0. Sorts the values.
fn water_level(values: &mut [f64], total: f64) -> f64 {
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut level = -values[0];
    let mut sum = 0.0;
    for (count, value) in values.iter().enumerate() {
        // The value takes part if the level that the larger ones alone demand leaves it positive.
        if count > 0 && value + level <= 0.0 {
            break;
        }
        sum += value;
        level = (total - sum) / (count + 1) as f64;
    }
    level
}

/// Lowers the spectral error of `best` by accelerated projected gradient steps, and returns the best [`certificate`] met
/// on the way.
fn descend(pairs: VertexPairs, released: &[f64], best: &mut Vec<f64>, mut best_error: f64) -> Result<f64> {
    let vertices = pairs.vertices();
    let logarithm = (2.0 * vertices as f64).ln();
    let mut gradient = vec![0.0; pairs.len()];
    // No vertex is like another, so that no eigenvector is orthogonal to the start.
    let noise = Array1::from_shape_fn(vertices, |i| ((i + 1) as f64 * 12.9898).sin());
    let mut start = noise.clone();
    let mut bound = 0.0_f64;
    for (smoothing, iterations) in STAGES {
        let mut previous = best.clone();
        let mut point = best.clone();
        let mut momentum = 1.0_f64;
        let mut last_error = f64::INFINITY;
        for _ in 0..iterations {
            let matrix = pairs.laplacian(&difference(&point, released));
            let temperature = smoothing * best_error / logarithm;
            let (error, mixture) = soft_gradient(pairs, &matrix, &start, temperature, &mut gradient)?;
            bound = bound.max(certificate(pairs, released, &gradient));
            if error < best_error {
                best_error = error;
                best.clone_from(&point);
            }
            if error > last_error {
                momentum = 1.0;
            }
            last_error = error;
            start = mixture + &noise * 1e-2;
            // The map from weights to Laplacians stretches by at most sqrt(V), so the gradient of the soft maximum
            // changes by at most V / temperature times a change of the weights.
            let step = temperature / vertices as f64;
            let next_momentum = f64::midpoint(1.0, (1.0 + 4.0 * momentum * momentum).sqrt());
            let carry = (momentum - 1.0) / next_momentum;
            momentum = next_momentum;
            for ((point, previous), slope) in point.iter_mut().zip(&mut previous).zip(&gradient) {
                let moved = (*point - step * slope).max(0.0);
                *point = (moved + carry * (moved - *previous)).max(0.0);
                *previous = moved;
            }
        }
    }
    Ok(bound)
}

/// A lower bound of the spectral error of all non-negative weights, from a gradient `g_uv = Z_uu + Z_vv - 2Z_uv` with
/// `‖Z‖_* ≤ 1`.
///
/// Adding `(m/2)(I - J/V)` to Z raises every g_uv by m and the nuclear norm by at most m(V-1)/2. If then no g_uv is
/// negative, `⟨Z, L(w) - L(ŵ)⟩ = ⟨g, w⟩ - ⟨g, ŵ⟩ ≥ -⟨g, ŵ⟩` for all w ≥ 0, and the left side is at most the nuclear
/// norm times the spectral error.
fn certificate(pairs: VertexPairs, released: &[f64], gradient: &[f64]) -> f64 {
    let lift = gradient.iter().fold(0.0_f64, |lift, slope| lift.max(-slope));
    let nuclear = 1.0 + lift * (pairs.vertices() - 1) as f64 / 2.0;
    let product: f64 = released.iter().zip(gradient).map(|(weight, slope)| weight * (slope + lift)).sum();
    // The eigenvectors behind the gradient are orthonormal up to rounding only.
    -product / nuclear * (1.0 - 1e-9)
}

/// The largest absolute eigenvalue, the gradient of its soft version with respect to the weights, and a mixture of the
/// eigenvectors behind it.
fn soft_gradient(
    pairs: VertexPairs,
    matrix: &Array2<f64>,
    start: &Array1<f64>,
    temperature: f64,
    gradient: &mut [f64],
) -> Result<(f64, Array1<f64>)> {
    let ritz = lanczos(matrix.view(), start, LANCZOS_STEPS)?;
    let error = ritz.values.iter().fold(0.0, |largest: f64, value| value.abs().max(largest));
    let share = |value: f64| ((value.abs() - error) / temperature).exp();
    let total: f64 = ritz.values.iter().map(|value| share(*value)).sum();
    gradient.fill(0.0);
    let mut mixture = Array1::zeros(matrix.nrows());
    for (index, value) in ritz.values.iter().enumerate() {
        let share = share(*value) / total;
        if share < SMALLEST_SHARE {
            continue;
        }
        let vector = ritz.vector(index);
        let signed = share * value.signum();
        for ((u, v), slope) in pairs.iter().zip(&mut *gradient) {
            let across = vector[u] - vector[v];
            *slope += signed * across * across;
        }
        mixture.scaled_add(share.sqrt(), &vector);
    }
    Ok((error, mixture))
}
