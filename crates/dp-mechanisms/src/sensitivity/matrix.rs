//! Sensitivities of matrices: Toeplitz and scaled ones, those with orthogonal columns, dense ones through their Gram matrix.

use dp_linalg::norms;
use ndarray::{Array2, ArrayView2};

use super::{Participation, Sensitivity};
use crate::error::{Error, Result};

/// The largest dense matrix for which repeated participation is bounded through the Gram matrix.
pub const DENSE_LIMIT: usize = 4096;

/// The sensitivity of `C = D1 · T · D2` when nothing in it increases: coefficients of T that are non-negative and do not
/// increase, and positive diagonals that do not increase in time. The set `{0, b, 2b, …}` is the worst.
///
/// # Privacy
/// Exact. With `S = {x_1 < x_2 < …}` admissible, `x_m ≥ (m-1)b` and `x_l - x_m ≥ (l-m)b`. The inner product of columns i < j
/// is `s_i s_j Σ_u d_{u+j}² c_u c_{u+j-i}` over `u < n-j`: non-negative, and it does not fall if j becomes smaller, or
/// the distance j-i, or i alone. So no inner product falls when every `x_m` moves to `(m-1)b`.
///
/// # Complexity
/// O(n · times).
pub(crate) fn non_increasing(
    coefficients: &[f64],
    rows: &[f64],
    columns: &[f64],
    participation: Participation,
) -> Sensitivity {
    let steps = coefficients.len();
    let times = participation.times_within(steps);
    let mut combined = vec![0.0_f64; steps];
    for shift in (0..times).map(|i| i * participation.separation()) {
        for (sum, coefficient) in combined[shift..].iter_mut().zip(coefficients) {
            // Rounding up keeps the bound on the private side; all terms are non-negative.
            *sum = (*sum + (coefficient * columns[shift]).next_up()).next_up();
        }
    }
    for (sum, row) in combined.iter_mut().zip(rows) {
        *sum = (*sum * row).next_up();
    }
    Sensitivity::exact(norms::round_up_sum_of_squares(&combined))
}

/// [`non_increasing`] without scaling: `Δ² = Σ_t (Σ_i c_{t - i·b})²` over the first `times` multiples of the separation that
/// fit. For any other sign pattern the caller must not use this function; see [`toeplitz`].
fn monotone_toeplitz(coefficients: &[f64], participation: Participation) -> Sensitivity {
    let ones = vec![1.0; coefficients.len()];
    non_increasing(coefficients, &ones, &ones, participation)
}

/// The sensitivity of a lower-triangular Toeplitz strategy with the given coefficients.
///
/// # Privacy
/// Single participation: the first column is the longest, exactly. Repeated: exact for non-negative,
/// non-increasing coefficients (Choquette-Choo, McMahan, Rush, Thakurta 2023); otherwise the same sum over
/// the non-increasing majorant `m_k = max_{l ≥ k} |c_l|`, whose every inner product dominates the absolute
/// inner product of the original columns, is a proven upper bound, and so is `times · Δ_single`. Bands no wider
/// than the separation make orthogonal columns, of any sign: `Δ² = times · Δ_single²`.
///
/// # Complexity
/// O(n · times).
pub fn toeplitz(coefficients: &[f64], participation: Participation) -> Sensitivity {
    let single = norms::round_up_sum_of_squares(coefficients);
    let times = participation.times_within(coefficients.len());
    if times <= 1 {
        return Sensitivity::exact(single);
    }
    let monotone = coefficients.windows(2).all(|pair| pair[0] >= pair[1])
        && coefficients.last().is_some_and(|last| *last >= 0.0);
    if monotone {
        return monotone_toeplitz(coefficients, participation);
    }
    let bands = coefficients.iter().rposition(|value| *value != 0.0).map_or(0, |last| last + 1);
    let separation = participation.separation();
    if bands <= separation {
        // No two of the columns overlap; all are whole if the last participation leaves room for its band.
        let squared = (times as f64 * single).next_up();
        return Sensitivity { squared, exact: (times - 1) * separation + bands <= coefficients.len() };
    }
    let mut majorant: Vec<f64> = coefficients.iter().map(|value| value.abs()).collect();
    for index in (1..majorant.len()).rev() {
        majorant[index - 1] = majorant[index - 1].max(majorant[index]);
    }
    let bound = monotone_toeplitz(&majorant, participation).squared;
    let trivial = triangle_bound(times, single);
    Sensitivity::upper_bound(bound.min(trivial))
}

/// `times² · longest`, rounded up: the triangle inequality bounds any strategy by its longest squared column. Computed in
/// floating point from the start, for the square of a count need not fit an integer.
pub(crate) fn triangle_bound(times: usize, longest: f64) -> f64 {
    let times = (times as f64).next_up();
    ((times * times).next_up() * longest).next_up()
}

/// The sensitivity of columns of which no two that can meet in one person overlap, by their squared norms.
///
/// # Privacy
/// `‖Σ_{j∈S} C_j u_j‖² = Σ_{j∈S} ‖C_j‖² ‖u_j‖²` whatever the contributions, so the heaviest admissible set is exact.
///
/// # Complexity
/// O(n · times).
pub(crate) fn orthogonal_columns(squared_norms: &[f64], participation: Participation) -> Sensitivity {
    let times = participation.times_within(squared_norms.len());
    let heaviest = heaviest_set(squared_norms, times, participation.separation());
    // Each addition rounds to nearest.
    Sensitivity::exact(heaviest * (1.0 + times as f64 * f64::EPSILON))
}

/// The sensitivity of a strategy given as a matrix, by its columns.
///
/// # Privacy
/// Single participation: the longest *column* (rows say nothing about privacy). Repeated participation: exact
/// for a triangular matrix with bands no wider than the separation (their heaviest set); otherwise from the Gram
/// matrix `G = CᵀC`, for every admissible set S has `‖Σ_{j∈S} C_j u_j‖² ≤ Σ_{i,j∈S} |G_ij|` for contributions of norm at
/// most 1. The smallest of three bounds on the largest such sum is taken, each found exactly by dynamic programming:
///
/// - `max_S Σ_{i∈S} r_i`, where `r_i` is the largest `Σ_{j∈S} |G_ij|` over admissible sets S that contain i;
/// - only neighbours in S can be closer than `2b`. Their products are the edges of a chain, and `f_i` is the largest
///   `Σ |G_ij|` over the others: `max_S Σ_{i∈S} (G_ii + f_i) + 2 Σ_{neighbours} |G_ij|`. Signs along a chain can be
///   chosen so that every product counts as positive: where nothing is left for f — two participations, or bands no
///   wider than `2b` — the bound is attained;
/// - steps that are l ≥ 2 places apart in S are at least `l·b` apart in time, so that their product is at most
///   `q_l(j) = max_{i ≤ j - l·b} |G_ij|` for the later step j. The m-th step of S has one step l places before it for every l < m:
///   `max_S Σ_m (G_{x_m x_m} + 2 Σ_{2 ≤ l < m} q_l(x_m)) + 2 Σ_{neighbours} |G_ij|`.
///
/// # Complexity
/// O(rows · n²) for the Gram matrix and O(times · n²) for the maximizations.
///
/// # Errors
/// More than [`DENSE_LIMIT`] columns with repeated participation.
pub fn dense(strategy: ArrayView2<'_, f64>, participation: Participation) -> Result<Sensitivity> {
    let steps = strategy.ncols();
    let times = participation.times_within(steps);
    let separation = participation.separation();
    let columns: Vec<f64> = strategy
        .columns()
        .into_iter()
        .map(|column| norms::round_up_sum_of_squares(&column.to_vec()))
        .collect();
    let longest = columns.iter().copied().fold(0.0, f64::max);
    if times <= 1 {
        return Ok(Sensitivity::exact(longest));
    }
    let in_bands = |(i, j): (usize, usize)| j <= i && i < j + separation;
    if strategy.indexed_iter().all(|(place, value)| in_bands(place) || *value == 0.0) {
        return Ok(orthogonal_columns(&columns, participation));
    }
    if steps > DENSE_LIMIT {
        return Err(Error::TooLarge {
            what: "repeated participation for this strategy",
            steps,
            limit: DENSE_LIMIT,
        });
    }
    let gram: Array2<f64> = dp_linalg::dense::gram(strategy);
    Ok(from_gram(gram.view(), longest, times, separation))
}

/// The bounds of [`dense`] from a Gram matrix and the longest squared column, for at least two participations.
fn from_gram(gram: ArrayView2<'_, f64>, longest: f64, times: usize, separation: usize) -> Sensitivity {
    let steps = gram.ncols();
    let trivial = triangle_bound(times, longest);
    // The products behind the Gram matrix round; no entry is wrong by more than this.
    let slack = longest * (steps as f64 + 8.0) * f64::EPSILON;
    let far = if times == 2 { steps } else { 2 * separation };
    let mut magnitude = vec![0.0; steps];
    let (mut reach, mut nodes) = (vec![0.0; steps], vec![0.0; steps]);
    let mut attained = true;
    for (i, row) in gram.rows().into_iter().enumerate() {
        for (magnitude, value) in magnitude.iter_mut().zip(row) {
            *magnitude = value.abs() + slack;
        }
        reach[i] = heaviest_set_containing(&magnitude, i, times, separation);
        for (j, magnitude) in magnitude.iter_mut().enumerate().filter(|(j, _)| *j != i) {
            if i.abs_diff(j) < far {
                *magnitude = 0.0;
            } else {
                attained &= *magnitude <= 2.0 * slack;
            }
        }
        nodes[i] = heaviest_set_containing(&magnitude, i, times, separation);
    }
    let edge = |i, j| 2.0 * (gram[[i, j]].abs() + slack);
    let chain = heaviest_chain(|_, i| nodes[i], steps, edge, far, times, separation);
    let charged = charged_to_the_later(gram, slack, times, separation);
    let charged = heaviest_chain(|m, i| charged[[i, m]], steps, edge, steps, times, separation);
    // The additions along a set round as well.
    let rounding = 1.0 + 8.0 * times as f64 * f64::EPSILON;
    let bound = heaviest_set(&reach, times, separation).min(chain).min(charged) * rounding;
    Sensitivity { squared: bound.min(trivial).max(longest), exact: attained }
}

/// For every step j and place m (from 0) in a set: `G_jj + 2 Σ_{2 ≤ l ≤ m} max_{i ≤ j - l·b} |G_ij|`.
fn charged_to_the_later(
    gram: ArrayView2<'_, f64>,
    slack: f64,
    times: usize,
    separation: usize,
) -> Array2<f64> {
    let steps = gram.ncols();
    let mut nodes = Array2::zeros((steps, times));
    for (j, row) in gram.rows().into_iter().enumerate() {
        let mut largest = vec![0.0_f64; times];
        let mut so_far = 0.0_f64;
        for (i, value) in row.iter().take(j).enumerate() {
            so_far = so_far.max(value.abs() + slack);
            let distance = j - i;
            if distance.is_multiple_of(separation) && distance / separation < times {
                largest[distance / separation] = so_far;
            }
        }
        let mut weight = row[j].abs() + slack;
        for m in 0..times {
            if m >= 2 {
                weight += 2.0 * largest[m];
            }
            nodes[[j, m]] = weight;
        }
    }
    nodes
}

/// The largest total of at most `times` nodes, any two neighbours at least `separation` apart, and of the edges between
/// neighbours that are closer than `far`. A node's weight depends on its place in the chain, from 0.
fn heaviest_chain(
    node: impl Fn(usize, usize) -> f64,
    steps: usize,
    edge: impl Fn(usize, usize) -> f64,
    far: usize,
    times: usize,
    separation: usize,
) -> f64 {
    // The best chain of so many nodes that ends at each place.
    let mut ending: Vec<f64> = (0..steps).map(|i| node(0, i)).collect();
    let mut heaviest = ending.iter().copied().fold(0.0, f64::max);
    for m in 1..times {
        let mut beyond = f64::NEG_INFINITY;
        let longer: Vec<f64> = (0..steps)
            .map(|i| {
                if let Some(left) = i.checked_sub(far) {
                    beyond = beyond.max(ending[left]);
                }
                let near = (i + 1).saturating_sub(far)..(i + 1).saturating_sub(separation);
                let before = near.map(|j| ending[j] + edge(i, j)).fold(beyond, f64::max);
                node(m, i) + before
            })
            .collect();
        ending = longer;
        heaviest = ending.iter().copied().fold(heaviest, f64::max);
    }
    heaviest
}

/// The largest total weight of at most `times` indices, any two at least `separation` apart.
fn heaviest_set(weights: &[f64], times: usize, separation: usize) -> f64 {
    // `best[i]`: the largest total among the first i, of one index more in every round.
    let extended = |best: &[f64]| {
        let mut longer = vec![0.0_f64; weights.len() + 1];
        for (i, weight) in weights.iter().enumerate() {
            longer[i + 1] = longer[i].max(best[(i + 1).saturating_sub(separation)] + weight);
        }
        longer
    };
    let mut best = vec![0.0_f64; weights.len() + 1];
    if times >= weights.len().div_ceil(separation) {
        // As many as fit: one round that builds on itself.
        for (i, weight) in weights.iter().enumerate() {
            best[i + 1] = best[i].max(best[(i + 1).saturating_sub(separation)] + weight);
        }
    } else {
        for _ in 0..times {
            best = extended(&best);
        }
    }
    best[weights.len()]
}

/// For every m up to `times` the largest total of at most m admissible indices.
///
/// **Complexity** O(n · times), and `separation · times` values of memory.
fn best_by_count<'a>(weights: impl Iterator<Item = &'a f64>, times: usize, separation: usize) -> Vec<f64> {
    // What was best among the first i indices, for the last `separation` values of i.
    let width = times + 1;
    let mut ring = vec![0.0_f64; separation * width];
    let mut best = vec![0.0_f64; width];
    for (i, weight) in weights.enumerate() {
        let newest = i % separation * width;
        ring[newest..newest + width].copy_from_slice(&best);
        let oldest = (i + 1) % separation * width;
        for m in (1..width).rev() {
            best[m] = best[m].max(ring[oldest + m - 1] + weight);
        }
    }
    best
}

/// The same, over the sets that contain `index`.
fn heaviest_set_containing(weights: &[f64], index: usize, times: usize, separation: usize) -> f64 {
    let left = &weights[..(index + 1).saturating_sub(separation)];
    let right = weights.get(index + separation..).unwrap_or_default();
    let left = best_by_count(left.iter(), times - 1, separation);
    let right = best_by_count(right.iter().rev(), times - 1, separation);
    let others = (0..times).map(|m| left[m] + right[times - 1 - m]).fold(0.0, f64::max);
    weights[index] + others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_set_that_contains_an_index_is_the_best_of_all() {
        let weights: Vec<f64> = (0..11).map(|index| f64::from(index * 7 % 11 + 1)).collect();
        for separation in 1..=5 {
            for times in 1..=4 {
                for index in 0..weights.len() {
                    let mut best = 0.0_f64;
                    for set in 0_u32..1 << weights.len() {
                        let members: Vec<usize> = (0..weights.len()).filter(|i| set >> i & 1 == 1).collect();
                        let apart = members.windows(2).all(|pair| pair[1] - pair[0] >= separation);
                        if apart && members.len() <= times && members.contains(&index) {
                            best = best.max(members.iter().map(|i| weights[*i]).sum());
                        }
                    }
                    let found = heaviest_set_containing(&weights, index, times, separation);
                    assert_eq!(found, best, "{times}:{separation} with {index}");
                }
            }
        }
    }
}
