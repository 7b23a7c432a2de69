//! Henzinger, Upadhyay, Upadhyay: *Almost Tight Error Bounds on Differentially Private Continual Counting*.

use std::f64::consts::{LN_2, PI};

use anyhow::{Context, Result};
use dp_linalg::{norms, series};
use dp_mechanisms::budget::{self, published};
use dp_mechanisms::{Budget, Footprint, Participation, Plan, Relation, Workload, bounds, certificate};
use ndarray::Array2;

use crate::lab::{build, largest, mean_error, mean_error_of, root_norms, sensitivity};
use crate::row::{Row, at_least_formula, at_most, at_most_formula, equals_formula, figure, rounds_to};

/// `1 + ln(4n/5)/π`.
fn printed_norm(n: f64) -> f64 {
    1.0 + (0.8 * n).ln() / PI
}

/// The right-hand side of Theorem 3 in units of `C²`.
pub(crate) fn printed_lower_bound(n: f64) -> f64 {
    ((2.0 + ((2.0 * n + 1.0) / 5.0).ln() + (2.0 * n + 1.0).ln() / (2.0 * n)) / PI).powi(2)
}

/// The right-hand side of Theorem 2 in units of `C²`.
pub(crate) fn printed_upper_bound(n: f64) -> f64 {
    printed_norm(n).powi(2)
}

/// How far the tree is behind, as Theorem 5 bounds it.
fn printed_ratio(log: f64) -> f64 {
    log * (1.0 + log) / (2.0 * printed_upper_bound(log.exp2()))
}

/// How far the tree is behind.
pub(crate) fn ratio(log: usize) -> Result<f64> {
    Ok(mean_error("binary-tree", "count", 1 << log)? / mean_error("sqrt", "count", 1 << log)?)
}

/// A lower bound on E2 of the count that is tight to all printed digits.
pub(crate) fn certified(steps: usize) -> Result<f64> {
    let bound = certificate::banded_bound(&Workload::count(), steps)?;
    Ok(bound.context("the inverse of the count is bidiagonal")?.lower_bound)
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = norms_of_the_root();
    rows.extend(lower_bounds());
    rows.extend(binary_tree());
    rows.extend(privacy());
    rows.extend(learning_and_parities());
    rows
}

fn norms_of_the_root() -> Vec<Row> {
    let entries = |of: fn(f64, f64) -> f64| {
        let root = series::binomial(0.5, 1 << 12);
        root.into_iter().enumerate().skip(1).map(move |(k, c)| of(k as f64, c))
    };
    let mut rows = vec![
        Row::new("Theorem 21", "c_k² π(k + 1/4), largest for k ≤ 4096", at_most("1"), move |_| {
            largest(entries(|k, c| c * c * PI * (k + 0.25)))
        }),
        Row::new("Theorem 21", "c_k² π(k + 4/π - 1), least for k ≤ 4096", at_least_formula(1.0 - 1e-12), move |_| {
            // Equality for k = 1, which rounding may miss.
            Ok(-largest(entries(|k, c| -c * c * PI * (k + 4.0 / PI - 1.0)))?)
        }),
        Row::new("eq. (28)", "‖R‖² of the root, n = 1024", at_most_formula(printed_norm(1024.0)), |_| {
            sensitivity(build("sqrt", "count", 1024)?.as_ref())
        })
        .corrected(
            rounds_to("3.27255"),
            "a falling function summed from 1 to t-1 exceeds its integral over the same range; noise calibrated from \
             the bound is too small",
        ),
        Row::new("eq. (28)", "horizons in 2 … 2^17 that break the bound on ‖R‖²", rounds_to("0"), |_| {
            let truth = (1..).zip(root_norms(1 << 17)).skip(1);
            Ok(truth.filter(|(n, norm)| *norm > printed_norm(f64::from(*n))).count() as f64)
        })
        .corrected(rounds_to("131071"), "all of them: the norm exceeds the bound by 0.100 at n = 2 and by 0.137 in the limit"),
        Row::new("Theorem 2", "horizons up to 2^16 that break the bound on E2", rounds_to("0"), |_| {
            Ok(broken(printed_upper_bound) as f64)
        })
        .corrected(rounds_to("6"), "n = 1 … 6; one release of one input has E2 = 1 and the bound is 0.863"),
        Row::new("Corollary 39", "horizons up to 2^16 that break (1 + ln(n)/π)²", rounds_to("0"), |_| {
            Ok(broken(|n| (1.0 + n.ln() / PI).powi(2)) as f64)
        }),
    ];
    for log in [10, 16, 20] {
        let n = f64::from(log).exp2();
        rows.push(Row::new(
            "Theorem 2",
            format!("E2 of the root, n = 2^{log}"),
            at_most_formula(printed_upper_bound(n)),
            move |_| mean_error("sqrt", "count", 1 << log),
        ));
    }
    rows
}

/// The horizons up to 2^16 at which E2 of the root exceeds a bound.
fn broken(bound: impl Fn(f64) -> f64) -> usize {
    let mut sum = 0.0;
    let exceeds = |(index, norm): (usize, f64)| {
        sum += norm;
        let n = (index + 1) as f64;
        norm * sum / n > bound(n) * (1.0 + 1e-12)
    };
    root_norms(1 << 16).into_iter().enumerate().map(exceeds).filter(|exceeds| *exceeds).count()
}

fn lower_bounds() -> Vec<Row> {
    let gap = |log: i32| {
        let n = f64::from(log).exp2();
        printed_upper_bound(n) - printed_lower_bound(n)
    };
    let mut rows = vec![
        Row::new(
            "§5.2",
            "largest singular value of the count, n = 64",
            equals_formula(0.5 / (PI / 258.0).sin(), 1e-12),
            |_| norms::spectral(Workload::count().materialize(64)?.view()).map_err(Into::into),
        ),
        Row::new(
            "Theorem 3",
            "horizons up to 512 at which ‖A‖₁²/n² is below the bound",
            rounds_to("0"),
            |_| {
                let below = |n: &usize| bounds::schatten_count(*n) < printed_lower_bound(*n as f64);
                Ok((1..=512).filter(below).count() as f64)
            },
        ),
        Row::new(
            "Lemma 1",
            "γ_F of the count, n = 64: above ‖A‖₁/√n",
            at_least_formula((64.0 * bounds::schatten_count(64)).sqrt()),
            |lab| Ok((64.0 * lab.optimal("count", 64)?.0.certificate().error).sqrt()),
        ),
        Row::new(
            "Lemma 1",
            "γ_F of the count, n = 64: below ‖A‖_F",
            at_most_formula((64.0 * 65.0 / 2.0_f64).sqrt()),
            |lab| Ok((64.0 * lab.optimal("count", 64)?.0.certificate().error).sqrt()),
        ),
        Row::new("after Theorem 3", "gap of the bounds at n = 2^30, over C²", at_most("10"), move |_| {
            Ok(gap(30))
        }),
        Row::new("after Theorem 3", "gap of the bounds at n = 2^40, over C²", at_most("10"), move |_| {
            Ok(gap(40))
        })
        .corrected(rounds_to("11.05"), "evaluate Theorem 2 minus Theorem 3"),
        Row::new("after Theorem 3", "gap of the bounds at n = 2^50, over C²", at_most("10"), move |_| {
            Ok(gap(50))
        })
        .corrected(rounds_to("13.63"), "the constants beside ln n differ, so the gap grows like 0.37 ln n"),
    ];
    for log in [10, 14] {
        let printed = printed_lower_bound(f64::from(log).exp2());
        rows.push(Row::new(
            "Theorem 3",
            format!("least E2 of any strategy, n = 2^{log} (certified)"),
            at_least_formula(printed),
            move |_| certified(1 << log),
        ));
    }
    let any = |epsilon: f64| printed_lower_bound(1024.0) / (4.0 * epsilon).exp_m1().powi(2);
    let oblivious = |epsilon: f64| printed_lower_bound(1024.0) / (2.0 * epsilon).exp_m1().powi(2);
    rows.extend([
        Row::new(
            "Theorem 4",
            "least error of any mechanism, n = 1024, ε = 0.5",
            at_least_formula(any(0.5)),
            |_| Ok(bounds::any_mechanism(certified(1024)?, 0.5)?),
        ),
        Row::new(
            "Theorem 4",
            "least error with oblivious noise, n = 1024, ε = 0.5",
            at_least_formula(oblivious(0.5)),
            |_| Ok(bounds::any_data_independent_mechanism(certified(1024)?, 0.5)?),
        ),
    ]);
    rows
}

fn binary_tree() -> Vec<Row> {
    let limit = (PI / LN_2).powi(2) / 2.0;
    let mut rows = vec![
        Row::new("Lemma 40", "‖R‖² of the tree, n = 1024", rounds_to("11"), |_| {
            sensitivity(build("binary-tree", "count", 1024)?.as_ref())
        }),
        Row::new("Lemma 40", "‖L‖_F² of the tree, n = 1024", rounds_to("5120"), |_| {
            Ok(1024.0 * build("binary-tree", "count", 1024)?.row_norms()?.mean())
        })
        .corrected(rounds_to("5121"), "the last release is the root, one node more than the count of digits"),
        Row::new("§1, Theorem 5", "(π log2 e)²/2", rounds_to("10.2"), move |_| Ok(limit))
            .corrected(rounds_to("10.27"), "π²/(2 ln²2) = 10.2711"),
    ];
    for (log, true_ratio) in [(8, "5.06"), (10, "5.69"), (20, "7.43")] {
        rows.push(Row::new(
            "Theorem 5",
            format!("E2 of the tree over E2 of the root, n = 2^{log}: the bound"),
            at_least_formula(printed_ratio(log as f64)),
            move |_| ratio(log),
        ));
        rows.push(
            Row::new(
                "§1, Theorem 5",
                format!("E2 of the tree over E2 of the root, n = 2^{log}: “approximately 10.2”"),
                rounds_to("10.2"),
                move |_| ratio(log),
            )
            .corrected(rounds_to(true_ratio), "10.27 is the limit, approached like 1/ln n from below"),
        );
    }
    rows.extend([
        Row::new(
            "Theorem 5, second part",
            "E2 of the tree over the least E2, n = 1024",
            equals_formula(PI * PI * 110.0 / 2.0 / (PI * PI * printed_lower_bound(1024.0)), 1e-3),
            |_| Ok(mean_error("binary-tree", "count", 1024)? / certified(1024)?),
        )
        .corrected(
            rounds_to("6.298"),
            "Theorem 3 is a lower bound that no strategy attains; the certified optimum is 8.7347",
        ),
        Row::new(
            "Figure 1",
            "error of the root at ε = 0.3 over error of the tree at ε = 0.8, n = 2^19",
            at_most("1").in_a_figure(),
            |_| {
                let scale = published::almost_tight_counting(0.3, 1e-10)
                    / published::almost_tight_counting(0.8, 1e-10);
                Ok(scale.powi(2) / ratio(19)?)
            },
        ),
        Row::new(
            "Figure 1",
            "smallest log2 n at which the root at ε = 0.3 beats the tree at ε = 0.8",
            figure("19", 1.0),
            |_| {
                let needed = (0.8_f64 / 0.3).powi(2);
                for log in 1..=24 {
                    if ratio(log)? > needed {
                        return Ok(log as f64);
                    }
                }
                Ok(f64::INFINITY)
            },
        ),
    ]);
    rows
}

fn privacy() -> Vec<Row> {
    vec![
        Row::new(
            "eq. (6) against Constant Matters, eq. (2)",
            "C of the one over C of the other, ε = 0.5, δ = 1e-8",
            rounds_to("1.0"),
            |_| Ok(published::almost_tight_counting(0.5, 1e-8) / published::constant_matters(0.5, 1e-8)),
        )
        .corrected(rounds_to("1.41421"), "both claim the noise of one Gaussian mechanism; they differ by √2"),
        Row::new("eq. (6)", "C over the noise that (0.5, 1e-8) needs", rounds_to("1"), |_| {
            let needed = Budget::approximate(0.5, 1e-8)?.unit_sigma();
            Ok(published::almost_tight_counting(0.5, 1e-8) / needed)
        })
        .corrected(rounds_to("1.75"), "the exact δ(ε) of Gaussian noise needs a standard deviation of 9.8635"),
        Row::new(
            "Corollary 39, steps 1 to 3",
            "ε at δ = 1e-8 of noise scaled by C alone, n = 2^16, budget 0.5",
            at_most("0.5"),
            |_| {
                let squared = sensitivity(build("sqrt", "count", 1 << 16)?.as_ref())?;
                let bought = Budget::approximate(0.5, 1e-8)?;
                Ok(budget::epsilon_from_gdp(bought.mu() * squared.sqrt(), 1e-8)?)
            },
        )
        .corrected(rounds_to("1.1"), "the factor Δ(C) = ‖R‖ is missing from g: what is measured moves by 2.14, not by 1"),
        Row::new("Algorithm 1, line 4", "μ of 64 releases with a fresh z each, budget μ = 1", at_most("1"), |_| {
            let norms = root_norms(64);
            let squared = norms[63];
            let each: Vec<f64> = norms.iter().map(|norm| 1.0 / (squared * norm).sqrt()).collect();
            Ok(budget::compose_gdp(&each))
        })
        .corrected(
            rounds_to("3.6"),
            "each release alone moves by 1 against Δ‖b_t‖; independent releases add up in squares, so z must be drawn once",
        ),
    ]
}

fn learning_and_parities() -> Vec<Row> {
    // a, ‖θ‖, n.
    let (a, norm, n) = (3.0_f64, 2.0_f64, 100.0_f64);
    vec![
        Row::new("eq. (31)", "norm after clipping to κ = 0.25, ‖g‖ = 0.4", at_most("0.25"), |_| {
            let (kappa, norm) = (0.25_f64, 0.4_f64);
            Ok(norm * (kappa / norm.powi(2)).min(1.0))
        })
        .corrected(rounds_to("0.40"), "κ/‖g‖² = 1.56 shortens nothing; the factor is κ/‖g‖"),
        Row::new(
            "proof of Theorem 41",
            "sensitivity of R G for κ = 1, n = 64",
            equals_formula(root_norms(64)[63], 1e-3),
            |_| {
                let footprint = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single)?;
                let plan = Plan::idealized(build("sqrt", "count", 64)?, footprint, Budget::gaussian(1.0)?)?;
                Ok(plan.sigma())
            },
        )
        .corrected(rounds_to("1.54559"), "‖R(G - G')‖ = ‖R e_i‖ ‖g‖ ≤ κ‖R‖: no square"),
        Row::new(
            "Theorems 6 and 41",
            "least a/λ + λ‖θ‖²/(2n) for a = 3, ‖θ‖ = 2, n = 100",
            equals_formula(norm * (a / (2.0 * n)).sqrt(), 1e-6),
            move |_| {
                let regret = |lambda: f64| a / lambda + lambda * norm * norm / (2.0 * n);
                Ok(-largest((1..100_000).map(|i| -regret(f64::from(i) * 1e-3)))?)
            },
        )
        .corrected(
            rounds_to("0.489898"),
            "at λ = sqrt(2an)/‖θ‖ both terms are equal: ‖θ‖ sqrt(2a/n), twice the print",
        ),
        Row::new("§8", "‖S‖₁/√m of the parity queries, d = 6, w = 3", rounds_to("20"), |_| {
            let sets: Vec<u32> = (0..64_u32).filter(|set| set.count_ones() == 3).collect();
            let sign = |(row, point): (usize, usize)| {
                1.0 - 2.0 * f64::from((sets[row] & point as u32).count_ones() % 2)
            };
            let queries = Array2::from_shape_fn((sets.len(), 64), sign);
            Ok(norms::schatten1(queries.view())? / 8.0)
        }),
        Row::new(
            "Theorem 9",
            "least error of parity queries, d = 10, w = 3, ε = 0.5 (any mechanism)",
            equals_formula(120.0 / 2.0_f64.exp_m1().powi(2), 1e-12),
            |_| Ok(bounds::parity_queries(10, 3, 0.5)?),
        ),
        Row::new(
            "§6",
            "E2 of Honaker's optimized decoding over the plain tree, n = 1024",
            at_most("1"),
            |_| {
                let full = mean_error_of(build("honaker-full", "count", 1024)?.as_ref())?;
                Ok(full / mean_error("binary-tree", "count", 1024)?)
            },
        ),
        Row::new(
            "§6",
            "E2 of Honaker's streaming decoding over the plain tree, n = 1024",
            at_most("1"),
            |_| Ok(mean_error("honaker-online", "count", 1024)? / mean_error("binary-tree", "count", 1024)?),
        ),
    ]
}
