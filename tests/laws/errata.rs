//! Published statements that are false, and the ones that hold instead.

use std::collections::HashMap;
use std::f64::consts::PI;
use std::path::Path;

use dp_linalg::{norms, series};
use dp_mechanisms::{
    Budget, Footprint, Method, Participation, Plan, Problem, Relation, Strategy, Workload, bounds, budget,
    certificate,
};
use dp_tests::goodness::normal_cdf;
use dp_tests::{assert_close, squared_norm};
use ndarray::{Array1, s};

fn build(name: &str, workload: &str, steps: usize) -> std::sync::Arc<dyn Strategy> {
    name.parse::<Method>().unwrap().build(&Problem::new(workload.parse().unwrap(), steps).unwrap()).unwrap()
}

fn sensitivity(strategy: &dyn Strategy) -> f64 {
    strategy.sensitivity(Participation::Single).unwrap().squared
}

/// E2.
fn mean_squared_error(strategy: &dyn Strategy) -> f64 {
    sensitivity(strategy) * strategy.row_norms().unwrap().mean()
}

/// E∞.
fn max_squared_error(strategy: &dyn Strategy) -> f64 {
    sensitivity(strategy) * strategy.row_norms().unwrap().max()
}

/// `Σ_{k<n} c_k²` of the square root of the count for n = 1, 2, …
fn squared_norms_of_root(longest: usize) -> Vec<f64> {
    series::binomial(0.5, longest)
        .iter()
        .scan(0.0, |sum, c| {
            *sum += c * c;
            Some(*sum)
        })
        .collect()
}

/// `1 + ln(4n/5)/π`.
fn published_norm(n: usize) -> f64 {
    1.0 + (0.8 * n as f64).ln() / PI
}

/// Published: `‖L‖² ≤ 1 + ln(4n/5)/π` and `≤ 1 + ln(n-1)/π`. Both are false for every n ≥ 2, so noise calibrated from
/// them is too small.
#[test]
fn squared_norm_of_the_root_exceeds_its_published_bounds() {
    let euler = 0.577_215_664_901_532_9;
    for (n, truth) in (1..).zip(squared_norms_of_root(1 << 17)).skip(1) {
        assert!(truth > published_norm(n), "n = {n}");
        assert!(truth > 1.0 + ((n - 1) as f64).ln() / PI, "n = {n}");
        assert!(truth < ((n as f64).ln() + euler + 4.0 * 2.0_f64.ln()) / PI, "n = {n}: a bound that holds");
    }
    let ours = sensitivity(build("sqrt", "count", 1024).as_ref());
    assert_close(ours, 3.27255, 1e-5, "n = 1024");
    assert_close(published_norm(1024), 3.1353, 1e-4, "n = 1024");
    assert_close(1.0 + 1023_f64.ln() / PI, 3.2060, 1e-4, "n = 1024");
}

/// Published: `E2 ≤ (1 + ln(4n/5)/π)²`. False for n = 1 … 6, true from n = 7 on.
#[test]
fn mean_error_of_the_root_exceeds_its_published_bound_up_to_six_steps() {
    let squared = squared_norms_of_root(1 << 16);
    let mut sum = 0.0;
    for (n, norm) in (1..).zip(&squared) {
        sum += norm;
        let holds = norm * sum / n as f64 <= published_norm(n).powi(2);
        assert_eq!(holds, n >= 7, "n = {n}");
    }
    for n in [1, 6, 7, 100] {
        let sum: f64 = squared[..n].iter().sum();
        let ours = mean_squared_error(build("sqrt", "count", n).as_ref());
        assert_close(ours, squared[n - 1] * sum / n as f64, 1e-12, &format!("n = {n}"));
    }
}

/// Published: the binary tree is 10.2 times worse. That is the limit.
#[test]
fn binary_tree_is_not_ten_times_worse() {
    for (log, ratio) in [(8, 5.06), (10, 5.69), (20, 7.43)] {
        let tree = mean_squared_error(build("binary-tree", "count", 1 << log).as_ref());
        let root = mean_squared_error(build("sqrt", "count", 1 << log).as_ref());
        assert!((tree / root - ratio).abs() < 0.005, "n = 2^{log}: {}", tree / root);
    }
}

/// Published: upper and lower bound differ by at most 10·C² for n ≤ 2^50. It is 11.05 at 2^40.
#[test]
fn published_bounds_of_the_count_differ_by_more_than_ten() {
    let gap = |log: i32| {
        let n = 2.0_f64.powi(log);
        let upper = (1.0 + (0.8 * n).ln() / PI).powi(2);
        let lower = ((2.0 + ((2.0 * n + 1.0) / 5.0).ln() + (2.0 * n + 1.0).ln() / (2.0 * n)) / PI).powi(2);
        upper - lower
    };
    assert!((gap(40) - 11.05).abs() < 0.005, "{}", gap(40));
    assert!(gap(50) > gap(40));
}

/// Published: the squared norm of the root of a window of w is at most `1 + ln(w)/π + 2/w`. False for every w ≥ 32 at any
/// horizon from w on, and over 4w steps already for w ≥ 11.
#[test]
fn squared_norm_of_the_root_of_a_window_exceeds_its_published_bound() {
    for w in 1..=300 {
        let published = 1.0 + (w as f64).ln() / PI + 2.0 / w as f64;
        for (steps, false_from) in [(w, 32), (4 * w, 11)] {
            let ours = sensitivity(build("sqrt", &format!("window:{w}"), steps).as_ref());
            assert_eq!(ours > published, w >= false_from, "w = {w}, n = {steps}: {ours} against {published}");
        }
    }
}

/// Published: the optimum of the dense program for n = 4096 is 217.3, the root of `n·E2`. A streaming factorization is
/// below it.
#[test]
fn dense_optimum_for_4096_steps_is_not_optimal() {
    let ours = (4096.0 * mean_squared_error(build("scaled-sqrt", "count", 4096).as_ref())).sqrt();
    assert!(ours < 217.3, "{ours}");
    let certified = 216.95;
    assert!(ours > certified, "{ours}");
}

/// Published: the Gaussian mechanism has `ρ = Δ²/σ²`. The Rényi divergence of order a is `aΔ²/(2σ²)`, hence half of that.
#[test]
fn concentrated_privacy_of_gaussian_noise_is_half_of_the_published() {
    let (change, sigma) = (1.0, 2.0);
    let rho = change * change / (2.0 * sigma * sigma);
    for order in [1.5, 2.0, 5.0] {
        let width = 1e-3;
        let integral: f64 = (-40_000..40_000)
            .map(|i| {
                let x = f64::from(i) * width;
                let log_density = |mean: f64| {
                    -(x - mean).powi(2) / (2.0 * sigma * sigma) - (sigma * (2.0 * PI).sqrt()).ln()
                };
                (order * log_density(change) + (1.0 - order) * log_density(0.0)).exp() * width
            })
            .sum();
        assert_close(integral.ln() / (order - 1.0), rho * order, 1e-9, &format!("order {order}"));
    }
    assert_close(Budget::zero_concentrated(rho).unwrap().unit_sigma(), sigma, 1e-12, "ours");
}

/// Published: noise made ahead of time, scaled by `C_{ε,δ}` alone. Without Δ(C), ε = 0.5 becomes 1.1 for n = 2^16.
#[test]
fn precomputed_noise_without_the_sensitivity_doubles_epsilon() {
    let delta = 1e-8;
    let bought = Budget::approximate(0.5, delta).unwrap();
    let squared = sensitivity(build("sqrt", "count", 1 << 16).as_ref());
    let actual = budget::epsilon_from_gdp(bought.mu() * squared.sqrt(), delta).unwrap();
    assert!((actual - 1.1).abs() < 0.05, "{actual}");
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    let plan = Plan::idealized(build("sqrt", "count", 1 << 16), footprint, bought).unwrap();
    assert!(plan.sigma() * bought.mu() >= squared.sqrt());
}

/// Published: a fresh noise vector for each release, with the variance of the t×t corner. Each release is as private as
/// claimed; together 64 of them are not: their μ add up in squares.
#[test]
fn fresh_noise_for_each_release_composes() {
    let squared = squared_norms_of_root(64);
    // Release t moves by 1 and has the deviation Δ_t·‖b_t‖/μ, both of them norms of the root.
    let each: Vec<f64> = squared.iter().map(|norm| 1.0 / norm).collect();
    assert!(each.iter().all(|mu| *mu <= 1.0));
    let together = budget::compose_gdp(&each);
    assert!(together > 3.5, "{together}");
}

/// Published: noise of the running average divided by t, since "the sensitivity is 1/t". The first input moves what is
/// measured by as much as ever.
#[test]
fn sensitivity_of_the_average_does_not_fall_with_time() {
    for name in ["identity", "sqrt"] {
        let matrix = build(name, "average", 32).materialize().unwrap().strategy;
        for t in 2..=32 {
            let corner = matrix.slice(s![..t, ..t]);
            let longest = corner.columns().into_iter().map(squared_norm).fold(0.0, f64::max);
            let moved = squared_norm(corner.column(0));
            assert!(moved > longest / f64::from(t * t), "{name}, t = {t}");
            assert!(moved >= 1.0, "{name}, t = {t}: the first release alone moves by 1");
        }
    }
}

/// Published: the square root as the factorization of the average, with a bound that tends to π²/6 on the root of E∞.
/// Noise on each input gives 1 exactly, and nothing is better: the first input moves the first release by 1.
#[test]
fn identity_is_optimal_for_the_max_error_of_the_average() {
    for steps in [1, 2, 7, 64, 200] {
        let t = steps as f64;
        let published = PI * PI * 2.0 * t * (t + 1.0) / (3.0 * (2.0 * t + 1.0).powi(2));
        let identity = max_squared_error(build("identity", "average", steps).as_ref());
        assert_eq!(identity, 1.0);
        assert!(published > 1.4, "{published}");
        let average = Problem::new(Workload::average(), steps).unwrap();
        for method in Method::ALL {
            let Ok(strategy) = method.build(&average) else { continue };
            let error = max_squared_error(strategy.as_ref());
            assert!(error >= 1.0 - 1e-12, "{method}, n = {steps}: {error}");
        }
    }
}

/// Published: within `sqrt(log(6T))` deviations with probability 2/3. The factor √2 that is missing makes it 4 % for
/// T = 1000 independent releases; `sqrt(2 ln(2T/β))` holds.
#[test]
fn simultaneous_error_lacks_a_factor_of_root_two() {
    let within = |a: f64, count: i32| (1.0 - 2.0 * normal_cdf(-a)).powi(count);
    for count in [100, 1000, 100_000] {
        let published = (6.0 * f64::from(count)).ln().sqrt();
        assert!(within(published, count) < 0.35, "T = {count}");
        assert!(within(published * 2.0_f64.sqrt(), count) >= 2.0 / 3.0, "T = {count}");
    }
    assert!(within(6000_f64.ln().sqrt(), 1000) < 0.05);
    // Independent releases of deviation 1: the identity on a window of 1.
    let footprint = Footprint::scalar(0.0, 1.0, Relation::ZeroOut, Participation::Single).unwrap();
    let plan =
        Plan::idealized(build("identity", "window:1", 1000), footprint, Budget::gaussian(1.0).unwrap())
            .unwrap();
    assert_close(plan.simultaneous_band(1, 1.0 / 3.0).unwrap(), (2.0 * 6000_f64.ln()).sqrt(), 1e-9, "ours");
}

/// Published: a window sum as `u[t] - u[t-w]` with prefix sums u that start again in every block of w. That misses the
/// total of the previous block; with it the answer is right, and ours streams it.
#[test]
fn window_sum_over_blocks_misses_the_previous_block() {
    let (w, steps) = (5, 23);
    let inputs: Vec<f64> = (0..steps).map(|t| ((7 * t) % 4) as f64 + 1.0).collect();
    let prefix = |t: usize| -> f64 { inputs[t / w * w..=t].iter().sum() };
    let mut stream = Workload::window(w).unwrap().stream(steps, 1).unwrap();
    for t in 0..steps {
        let mut ours = [0.0];
        stream.push(&[inputs[t]], &mut ours).unwrap();
        let truth: f64 = inputs[(t + 1).saturating_sub(w)..=t].iter().sum();
        assert_eq!(ours[0], truth, "t = {t}");
        if t >= w {
            let published = prefix(t) - prefix(t - w);
            let block_total = prefix(t / w * w - 1);
            assert_eq!(published + block_total, truth, "t = {t}");
            assert_ne!(published, truth, "t = {t}");
        }
    }
}

/// Published: `f(n) = α^{-n}` with `f(1) = 1`. One of the two is shifted: the newest input has weight 1.
#[test]
fn exponential_decay_starts_at_one() {
    let matrix = Workload::exponential(1.25).unwrap().materialize(4).unwrap();
    for ((i, j), weight) in matrix.indexed_iter() {
        let expected = if i >= j { 0.8_f64.powf((i - j) as f64) } else { 0.0 };
        assert!((weight - expected).abs() < 1e-15, "({i}, {j})");
    }
}

/// Published: three constants for one and the same Gaussian mechanism. They differ by up to 2, and the smallest is more
/// than what is needed.
#[test]
fn published_gaussian_constants_disagree() {
    for (epsilon, delta) in [(0.1, 1e-5), (0.5, 1e-8), (0.99, 1e-10)] {
        let constants = [
            budget::published::almost_tight_counting(epsilon, delta),
            budget::published::constant_matters(epsilon, delta),
            budget::published::unifying_framework(epsilon, delta),
        ];
        let [smallest, largest] = [f64::min, f64::max].map(|of| constants.into_iter().reduce(of).unwrap());
        assert!((1.9..2.1).contains(&(largest / smallest)), "{constants:?}");
        let needed = Budget::approximate(epsilon, delta).unwrap().unit_sigma();
        assert!(smallest > 1.1 * needed, "{constants:?} {needed}");
    }
}

/// Published: gradients clipped by `κ/‖g‖²`, and the sensitivity `κ‖R‖²`. The first leaves a gradient of norm between κ and 1 as it is;
/// the second is not homogeneous: twice the strategy is four times the noise for the same release.
#[test]
fn clipping_and_sensitivity_have_no_squares() {
    let (kappa, norm) = (0.25_f64, 0.4_f64);
    assert!(norm * (kappa / (norm * norm)).min(1.0) > kappa, "the published factor leaves it too long");
    assert!(norm * (kappa / norm).min(1.0) <= kappa);
    let sigma = |radius: f64| {
        let footprint = Footprint::ball(radius, Relation::ZeroOut, Participation::Single).unwrap();
        Plan::idealized(build("sqrt", "count", 64), footprint, Budget::gaussian(1.0).unwrap())
            .unwrap()
            .sigma()
    };
    let norm_of_strategy = sensitivity(build("sqrt", "count", 64).as_ref()).sqrt();
    assert_close(sigma(kappa), kappa * norm_of_strategy, 1e-11, "κ‖R‖");
    assert_close(sigma(3.0), 3.0 * sigma(1.0), 1e-11, "homogeneous in κ");
}

/// Published: the best λ makes the regret `‖θ‖ sqrt(a/(2n))`. The minimum of `a/λ + λ‖θ‖²/(2n)` is twice that.
#[test]
fn best_regret_is_twice_the_published() {
    let (a, norm, n) = (3.0_f64, 2.0_f64, 100.0_f64);
    let regret = |lambda: f64| a / lambda + lambda * norm * norm / (2.0 * n);
    let least = (1..1_000_000).map(|i| regret(f64::from(i) * 1e-4)).fold(f64::INFINITY, f64::min);
    assert_close(least, norm * (2.0 * a / n).sqrt(), 1e-6, "the minimum");
    assert_close(least, 2.0 * norm * (a / (2.0 * n)).sqrt(), 1e-6, "twice the published");
}

/// Published: `‖L_binary‖_F² = n log2(n)/2`. For n = 2^h it is one more: the last release is the root.
#[test]
fn frobenius_norm_of_the_tree_decoder_is_one_more() {
    for log in 0..=10 {
        let steps = 1 << log;
        let decoder = build("binary-tree", "count", steps).materialize().unwrap().decoder;
        assert_eq!(norms::frobenius_squared(decoder.view()), (steps * log / 2 + 1) as f64, "n = 2^{log}");
    }
}

/// The largest `Σ_s ‖C d_s‖²` in units of `Δ_1²` over all binary texts of `n` letters and all replacements of one
/// letter, where `d_s` is the change of the counts of the substring s (at the step at which it ends).
fn exhaustive_substring_sensitivity(n: usize, longest: usize) -> f64 {
    let root = Array1::from(series::binomial(0.5, n));
    let measured = |changes: &[f64]| -> f64 {
        (0..n).map(|t| (0..=t).map(|j| root[t - j] * changes[j]).sum::<f64>().powi(2)).sum()
    };
    let mut worst = 0.0_f64;
    for text in 0..1_u32 << n {
        for position in 0..n {
            let replaced = text ^ (1 << position);
            let mut changes: HashMap<(usize, u32), Vec<f64>> = HashMap::new();
            for length in 1..=longest {
                // Windows that contain the position, by their ends.
                for end in (position.max(length - 1))..n.min(position + length) {
                    let window = |text: u32| text >> (end + 1 - length) & ((1 << length) - 1);
                    changes.entry((length, window(text))).or_insert_with(|| vec![0.0; n])[end] -= 1.0;
                    changes.entry((length, window(replaced))).or_insert_with(|| vec![0.0; n])[end] += 1.0;
                }
            }
            worst = worst.max(changes.values().map(|change| measured(change)).sum());
        }
    }
    worst / root.dot(&root)
}

/// Published: the counts of all substrings of up to ℓ letters have sensitivity ℓ. One count can change several times.
#[test]
fn substring_sensitivity_exceeds_its_length() {
    for (longest, n, found) in [(1, 8, 2.0), (2, 8, 6.97), (3, 9, 15.5)] {
        let truth = exhaustive_substring_sensitivity(n, longest);
        assert!((truth - found).abs() < 0.05, "ℓ = {longest}: {truth}");
        assert!(truth > (longest * longest) as f64, "ℓ = {longest}: {truth} within the published bound");
        // Ours: Σ_m (c_m² + m Δ_1²), with c_m² for m steps in a row.
        let root = build("sqrt", "count", n);
        let single = sensitivity(root.as_ref());
        let ours: f64 = (1..=longest)
            .map(|m| {
                let together = root.sensitivity(Participation::repeated(m, 1).unwrap()).unwrap().squared;
                together / single + m as f64
            })
            .sum();
        assert!(ours >= truth * (1.0 - 1e-12), "ℓ = {longest}: {truth} above our {ours}");
    }
}

/// Published: it suffices to bound the difference sequence in ℓ2. A change of ℓ2 norm 1 moves the measurements by up to
/// the spectral norm of C, which grows like √n; a change of ℓ1 norm 1 by at most Δ(C), which hardly grows.
#[test]
fn spectral_norm_of_the_root_grows_with_the_square_root_of_the_horizon() {
    let norms = |steps: usize| {
        let root = build("sqrt", "count", steps);
        let matrix = root.materialize().unwrap().strategy;
        (norms::spectral(matrix.view()).unwrap(), sensitivity(root.as_ref()).sqrt())
    };
    let (short, long) = (norms(64), norms(256));
    assert!((long.0 / short.0 - 2.0).abs() < 0.05, "{short:?} {long:?}");
    assert!(long.1 / short.1 < 1.1, "{short:?} {long:?}");
    assert!(short.0 > 3.0 * short.1, "{short:?}");
}

/// Published: a histogram has sensitivity 1 under replacement. A replaced item moves two bins.
#[test]
fn replaced_item_moves_two_bins() {
    let matrix = build("sqrt", "count", 6).materialize().unwrap().strategy;
    let single = squared_norm(matrix.column(0));
    let mut worst = 0.0_f64;
    for step in 0..6 {
        for (old, new) in [(0, 1), (0, 2), (1, 2), (2, 2)] {
            let moved: f64 = (0..3)
                .map(|bin| {
                    let change = f64::from(u8::from(bin == new)) - f64::from(u8::from(bin == old));
                    squared_norm((&matrix.column(step) * change).view())
                })
                .sum();
            worst = worst.max(moved / single);
        }
    }
    assert_close(worst, 2.0, 1e-12, "Δ² of a replaced item");
}

/// Published: the binary tree is `π² log2(n)(1 + log2 n)/(2(…)²)` times worse than the best strategy, with a lower bound
/// in the place of its error. No strategy attains that bound.
#[test]
fn tree_is_closer_to_the_optimum_than_to_the_published_lower_bound() {
    let n = 1024.0_f64;
    let published = ((2.0 + ((2.0 * n + 1.0) / 5.0).ln() + (2.0 * n + 1.0).ln() / (2.0 * n)) / PI).powi(2);
    let certified = certificate::banded_bound(&Workload::count(), 1024).unwrap().unwrap().lower_bound;
    let tree = mean_squared_error(build("binary-tree", "count", 1024).as_ref());
    assert!((55.0 / published - 8.44).abs() < 0.005, "{published}");
    assert!((tree / certified - 6.30).abs() < 0.005, "{tree} {certified}");
}

/// Published: `γ̂(t)` comes arbitrarily close to `2 ln(t)/π`. It stays `(2/π)(γ + ln(8/π)) = 0.9625` above it.
#[test]
fn gamma_of_mathias_stays_above_the_logarithm() {
    let excess = |steps: usize| bounds::mathias_gamma(steps) - 2.0 * (steps as f64).ln() / PI;
    let euler = 0.577_215_664_901_532_9;
    let limit = 2.0 / PI * (euler + (8.0 / PI).ln());
    assert!((limit - 0.9625).abs() < 5e-5, "{limit}");
    for steps in [64, 1024, 1 << 16] {
        assert!((excess(steps) - limit).abs() < 1.0 / (steps as f64).powi(2), "{steps}: {}", excess(steps));
    }
}

/// Published: `γ̂(T)` with sines of `(2j-1)π/T`, without absolute values. For T = 4 the terms cancel, and the bounds on a norm
/// of at least 1 become 0 and ½.
#[test]
fn gamma_of_mathias_takes_half_the_angle() {
    let printed: f64 = (1..=4).map(|j| 1.0 / (f64::from(2 * j - 1) * PI / 4.0).sin()).sum::<f64>() / 4.0;
    assert!(printed.abs() < 1e-12 && f64::midpoint(printed, 1.0) < 1.0);
    assert!(bounds::mathias_count(4) > 1.0);
}

/// Published: `γ_2 ≤ ½ + ln(T)/π` for the count. The least mean squared error is already larger.
#[test]
fn largest_error_of_the_count_exceeds_half_and_the_logarithm() {
    for steps in [64, 1024] {
        let printed = 0.5 + (steps as f64).ln() / PI;
        let certified = certificate::banded_bound(&Workload::count(), steps).unwrap().unwrap().lower_bound;
        assert!(certified.sqrt() > printed, "T = {steps}: {} {printed}", certified.sqrt());
        assert!(certified < bounds::mathias_count_upper(steps), "T = {steps}");
    }
}

/// Published: the norm of the explicit factorization is within 0.02 of Mathias' upper bound. Its bound is; it is not.
#[test]
fn root_is_further_from_the_bound_of_mathias_than_its_published_bound() {
    let steps = 1 << 16;
    let upper = bounds::mathias_count_upper(steps).sqrt();
    let norm = squared_norms_of_root(steps)[steps - 1];
    assert!((norm - upper - 0.085).abs() < 5e-4, "{norm} {upper}");
    assert!(1.0 + ((steps - 1) as f64).ln() / PI - upper < 0.02);
}

/// Published: the first version bounds the norm of a factorization of the average by `π²T(T+1)/(3(2T+1)²)`, half of what its
/// proof gives: for every T less than 1, which is a lower bound. It also prints `π²/√6 - 1 ≈ 0.64`.
#[test]
fn first_bound_for_the_average_is_below_what_is_possible() {
    for steps in [2, 10, 1000] {
        let t = f64::from(steps);
        let printed = PI * PI * t * (t + 1.0) / (3.0 * (2.0 * t + 1.0).powi(2));
        assert!(printed < 1.0, "T = {steps}");
    }
    assert!((PI * PI / 6.0_f64.sqrt() - 1.0 - 0.64).abs() > 2.0);
    assert!((PI * PI / 6.0 - 1.0 - 0.645).abs() < 5e-4);
}

/// Published: the bounds of the first version are `1 + 1/π ≈ 1.30` apart in the limit.
#[test]
fn one_and_one_over_pi_is_not_one_point_three() {
    let gap = |steps: f64| {
        let lower = (steps.ln().powi(2) - 2.0 * steps.ln() + 2.0).sqrt() / PI - 1.0 / steps;
        1.0 + (steps - 1.0).ln() / PI - lower
    };
    assert!((gap(1e200) - 1.318).abs() < 1e-3, "{}", gap(1e200));
}

/// Published: for weights `n^-c` upper and lower bound on γ_2 differ by at most 0.0125, 5e-4 and 1.25e-4 for c = 2, 4 and 5.
#[test]
fn bounds_for_polynomial_decay_differ_by_a_little_more_than_published() {
    for (power, published, truth) in
        [(2, 0.0125, 0.012_675_5), (4, 5e-4, 5.307_0e-4), (5, 1.25e-4, 1.265_5e-4)]
    {
        let tail: f64 = (2..200_000).rev().map(|n| f64::from(n).powi(-2 * power)).sum();
        let lower = bounds::two_steps(0.5_f64.powi(power)).unwrap().sqrt();
        let gap = 1.0 + tail / 4.0 - lower;
        assert!(gap > published, "c = {power}: {gap}");
        assert_close(gap, truth, 1e-4, &format!("c = {power}"));
    }
}

/// Published: for weights `n^-c` the estimate `f(n+1)/2` of the coefficient `a_n` is off by 5.96e-8 and 1.42e-14 at n = 2048.
/// Those are `(f(2048)/2)²`; the differences are 1.6e-4 and 2.6e-8.
#[test]
fn estimates_of_coefficients_are_not_that_close() {
    for (power, published, truth) in
        [(1.0, 5.960_464_477_539_063e-8, 1.597e-4), (2.0, 1.421_085_471_520_200_4e-14, 2.640e-8)]
    {
        let weights = series::polynomial(power, 2049).unwrap();
        let root = series::sqrt_recurrence(&weights, 2049).unwrap();
        assert_close((weights[2047] / 2.0).powi(2), published, 1e-12, "what is printed");
        assert_close(weights[2048] / 2.0 - root[2048], truth, 1e-3, "the difference");
    }
}

/// Published: counters that start again in every block of w answer a window with E2 at most `2(1 + ln(w)/π + 2/w)²`. With the
/// previous total that their answer lacks, it is more; the root of the window itself needs much less.
#[test]
fn block_counters_exceed_their_published_error() {
    let (w, steps) = (32, 512);
    let root = build("sqrt", "count", w);
    let matrix = root.materialize().unwrap().strategy;
    let total: f64 = (0..steps)
        .map(|t| {
            let own = matrix.row(t % w);
            let rest = &matrix.row(w - 1) - &own;
            squared_norm(own) + if t < w { 0.0 } else { squared_norm(rest.view()) }
        })
        .sum();
    let blocks = sensitivity(root.as_ref()) * total / steps as f64;
    let published = 2.0 * (1.0 + (w as f64).ln() / PI + 2.0 / w as f64).powi(2);
    assert!(blocks > published, "{blocks} {published}");
    assert!((blocks - 9.54).abs() < 0.005, "{blocks}");
    assert!(mean_squared_error(build("sqrt", "window:32", steps).as_ref()) < 0.6 * blocks);
}

/// Published: ten times the noise multiplier 0.341 is (1.36, 1e-7)-DP. It is (1.40, 1e-7)-DP and not less.
#[test]
fn ten_times_the_noise_is_not_as_private_as_published() {
    let mu = 1.0 / 3.41;
    assert!(budget::delta_from_gdp(1.36, mu).unwrap() > 1e-7);
    let epsilon = budget::epsilon_from_gdp(mu, 1e-7).unwrap();
    assert!((epsilon - 1.40).abs() < 0.005, "{epsilon}");
    assert!(budget::epsilon_from_gdp(mu, 1e-6).unwrap() < 1.36, "the δ of the experiments");
}

/// Every row of `docs/errata.md` names tests that exist, and every test above is named there.
#[test]
fn every_erratum_names_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let is_test = |source: &str, name: &str| {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        let declared = |line: &&str| line.starts_with(&format!("fn {name}("));
        lines.iter().position(declared).is_some_and(|at| at > 0 && lines[at - 1] == "#[test]")
    };
    let document = read("docs/errata.md");
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    // The headings of the tables end in a column without a test.
    for row in rows.iter().filter(|row| !row.contains("| test |")) {
        let named: Vec<(&str, &str)> =
            row.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(".rs::")).collect();
        assert!(!named.is_empty(), "no test in: {row}");
        for (file, name) in named {
            assert!(is_test(&read(&format!("{file}.rs")), name), "{file}.rs has no test {name}");
        }
    }
    let own = read("tests/laws/errata.rs");
    let tests = own.split("#[test]\nfn ").skip(1).filter_map(|text| text.split('(').next());
    for name in tests.filter(|name| *name != "every_erratum_names_its_tests") {
        assert!(document.contains(name), "{name} is missing from docs/errata.md");
    }
}
