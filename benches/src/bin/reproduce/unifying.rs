//! Henzinger, Upadhyay, Upadhyay: *A Unifying Framework for Differentially Private Sums under Continual Observation*.

use std::f64::consts::PI;

use anyhow::Result;
use dp_linalg::{bell, norms, series};
use dp_mechanisms::budget::published;
use dp_mechanisms::strategy::{optimal::Optimal, unwatched};
use dp_mechanisms::{Metric, Problem, bounds};
use ndarray::s;

use crate::almost_tight::certified;
use crate::lab::{build, largest, max_error, mean_error, root_norms, sensitivity};
use crate::row::{Row, at_least, at_least_formula, at_most, at_most_formula, equals_formula, rounds_to};

/// Terms of a sum over all n that stands for its limit.
const LONG: usize = 1 << 17;

/// `1 + ln(w)/π + 2/w`.
fn printed_window(width: f64) -> f64 {
    1.0 + width.ln() / PI + 2.0 / width
}

/// `Σ_{n≥1} (n+1)^{-2c}`.
fn zeta_less_one(power: f64, terms: usize) -> f64 {
    norms::compensated_sum((1..terms).rev().map(|n| ((n + 1) as f64).powf(-2.0 * power)))
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = factorization_norms();
    rows.extend(coefficients());
    rows.extend(exponential());
    rows.extend(windows());
    rows.extend(comparisons());
    rows
}

fn factorization_norms() -> Vec<Row> {
    let mut rows = vec![Row::new(
        "Theorem 2",
        "γ_2 for f(n) = 1/n over two steps",
        equals_formula(2.0 / (4.0 - 0.25_f64).sqrt(), 1e-6),
        |_| {
            let problem = Problem::new("poly:1".parse()?, 2)?.with_metric(Metric::Max);
            let optimum = Optimal::new(&problem, &mut unwatched)?;
            Ok(optimum.certificate().error.sqrt())
        },
    )];
    for power in [1.0_f64, 2.0, 3.0] {
        let lower = 2.0 / (4.0 - 2.0_f64.powf(-2.0 * power)).sqrt();
        rows.push(Row::new(
            "Theorem 2",
            format!("‖L‖‖R‖ of the root for f(n) = n^-{power}, T = 512: above the lower bound"),
            at_least_formula(lower),
            move |_| max_error("sqrt", &format!("poly:{power}"), 512).map(f64::sqrt),
        ));
        rows.push(Row::new(
            "Theorem 3",
            format!("‖L‖‖R‖ of the root for f(n) = n^-{power}, T = 512: below 1 + Σf²/4"),
            at_most_formula(1.0 + zeta_less_one(power, 512) / 4.0),
            move |_| max_error("sqrt", &format!("poly:{power}"), 512).map(f64::sqrt),
        ));
    }
    let truths = [None, Some("0.0127"), None, Some("5.31e-4"), Some("1.266e-4")];
    for ((power, printed), truth) in (1..=5).zip(["0.13", "0.0125", "0.003", "5e-4", "1.25e-4"]).zip(truths) {
        let row = Row::new(
            "after Theorem 3",
            format!("upper minus lower bound on γ_2 for f(n) = n^-{power}, all T"),
            at_most(printed),
            move |_| {
                let power = f64::from(power);
                let lower = bounds::two_steps(2.0_f64.powf(-power))?.sqrt();
                Ok(1.0 + zeta_less_one(power, LONG) / 4.0 - lower)
            },
        );
        rows.push(match truth {
            None => row,
            Some(truth) => {
                row.corrected(rounds_to(truth), "1 + (ζ(2c)-1)/4 - 2/sqrt(4 - 4^-c), to more digits")
            }
        });
    }
    rows
}

/// `f(n+1)/2 - a_n` for `f(n) = n^{-c}`.
pub(crate) fn coefficient_gaps(power: f64, terms: usize) -> Result<Vec<f64>> {
    let weights = series::polynomial(power, terms)?;
    let root = series::sqrt(&weights, terms)?;
    Ok(weights.iter().zip(&root).map(|(f, a)| f / 2.0 - a).collect())
}

fn coefficients() -> Vec<Row> {
    let bell_error = |power: f64| -> Result<f64> {
        let weights = series::polynomial(power, 256)?;
        let (bell, recurrence) =
            (bell::sqrt_via_bell(&weights, 256)?, series::sqrt_recurrence(&weights, 256)?);
        largest(bell.iter().zip(&recurrence).map(|(a, b)| (a / b - 1.0).abs()))
    };
    let mut rows = Vec::new();
    for power in [1.0, 2.0] {
        rows.push(Row::new(
            "Theorem 2, Remark 12",
            format!("a_n by Bell polynomials against the recurrence, f(n) = n^-{power}, n < 256"),
            at_most("1e-9"),
            move |_| bell_error(power),
        ));
        rows.push(Row::new(
            "proof of Theorem 3",
            format!("2a_n/f(n+1), largest for n ≤ 2048, f(n) = n^-{power}"),
            at_most("1"),
            move |_| {
                let weights = series::polynomial(power, 2049)?;
                let root = series::sqrt(&weights, 2049)?;
                largest(weights.iter().zip(&root).skip(1).map(|(f, a)| 2.0 * a / f))
            },
        ));
        rows.push(Row::new(
            "§1.1",
            format!("least a_n for n ≤ 2048: f(n) = n^-{power} is in the family F"),
            at_least("0"),
            move |_| {
                let root = series::sqrt(&series::polynomial(power, 2049)?, 2049)?;
                Ok(-largest(root.iter().map(|a| -a))?)
            },
        ));
    }
    let why = "the print is (f(2048)/2)², a power of 2: the squared estimate itself, with nothing subtracted";
    rows.extend([
        Row::new(
            "§1.1, Appendix F",
            "f(2049)/2 - a_2048 for f(n) = 1/n",
            rounds_to("5.960464477539063e-8"),
            |_| Ok(coefficient_gaps(1.0, 2049)?[2048]),
        )
        .corrected(rounds_to("1.6e-4"), why),
        Row::new(
            "§1.1, Appendix F",
            "f(2049)/2 - a_2048 for f(n) = n^-2",
            rounds_to("1.4210854715202004e-14"),
            |_| Ok(coefficient_gaps(2.0, 2049)?[2048]),
        )
        .corrected(rounds_to("2.6e-8"), why),
    ]);
    rows
}

fn exponential() -> Vec<Row> {
    let sum = |alpha: f64| norms::compensated_sum((1..2000).rev().map(|n| alpha.powi(-2 * n) / f64::from(n)));
    let mut rows = vec![
        Row::new(
            "§1.1, Theorem 4",
            "weight of the newest item, f(1), for f(n) = α^-n, α = 1.25",
            rounds_to("1.0"),
            |_| Ok(1.25_f64.powi(-1)),
        )
        .corrected(rounds_to("0.8"), "f(1) = 1 is assumed throughout: the weights are α^-(n-1)"),
    ];
    for alpha in [1.1_f64, 2.0] {
        let x = alpha * alpha;
        rows.push(Row::new(
            "Theorem 4",
            format!("‖L‖‖R‖ of the root for α = {alpha}, T = 512: the sum"),
            at_most_formula(1.0 + sum(alpha) / PI),
            move |_| max_error("sqrt", &format!("exp:{alpha}"), 512).map(f64::sqrt),
        ));
        rows.push(Row::new(
            "Theorem 4, Claim 14",
            format!("Σ 1/(nα^2n) for α = {alpha}"),
            at_most_formula(x / (x - 1.0).powi(2)),
            move |_| Ok(sum(alpha)),
        ));
    }
    rows
}

/// E2 of a window of w over n steps by counters that start again in every block of w, with the total of the previous
/// block added: what the published procedure becomes once its answer is right.
fn block_counters(width: usize, steps: usize) -> Result<f64> {
    let root = build("sqrt", "count", width)?;
    let matrix = root.materialize()?.strategy;
    let own = norms::row_squared_norms(matrix.view());
    let last = matrix.slice(s![width - 1, ..]).to_owned();
    let left_over = |offset: usize| {
        norms::frobenius_squared((&last - &matrix.row(offset)).insert_axis(ndarray::Axis(0)).view())
    };
    let row = |t: usize| own[t % width] + if t < width { 0.0 } else { left_over(t % width) };
    Ok(sensitivity(root.as_ref())? * norms::compensated_sum((0..steps).map(row)) / steps as f64)
}

fn windows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (width, truth) in [(16, None), (64, Some("2.38885")), (1024, Some("3.27255"))] {
        let row = Row::new(
            "Theorem 7",
            format!("squared norm of the root of a block of w = {width}"),
            at_most_formula(printed_window(width as f64)),
            move |_| sensitivity(build("sqrt", "count", width)?.as_ref()),
        );
        rows.push(match truth {
            None => row,
            Some(truth) => row.corrected(
                rounds_to(truth),
                "it is ln(w)/π + 1.0663 - O(1/w): above the bound from w = 32 on",
            ),
        });
    }
    rows.extend([
        Row::new(
            "Theorem 7",
            "widths up to 4096 at which the bound on the norm is broken",
            rounds_to("0"),
            |_| {
                let broken = |(width, norm): &(u32, f64)| *norm > printed_window(f64::from(*width));
                Ok((1..).zip(root_norms(4096)).filter(broken).count() as f64)
            },
        )
        .corrected(rounds_to("4065"), "every w from 32 on"),
        Row::new(
            "§3.6, step 4",
            "answer of u[t] - u[t-w] on a stream of ones, w = 32, t = 100",
            rounds_to("32"),
            |_| {
                let width = 32;
                let prefix = |t: usize| (t % width + 1) as f64;
                Ok(prefix(99) - prefix(99 - width))
            },
        )
        .corrected(
            rounds_to("0"),
            "u starts again in every block; the total of the previous block is missing",
        ),
        Row::new(
            "Theorem 7",
            "E2 of block counters with the missing total, w = 32, n = 512",
            at_most_formula(2.0 * printed_window(32.0).powi(2)),
            |_| block_counters(32, 512),
        )
        .corrected(
            rounds_to("9.54"),
            "the norm is above its bound, and the missing total brings noise of its own",
        ),
        Row::new(
            "Theorem 7",
            "E2 of the root of the window itself over block counters, w = 32, n = 512",
            at_most("1"),
            |_| Ok(mean_error("sqrt", "window:32", 512)? / block_counters(32, 512)?),
        ),
    ]);
    rows
}

fn comparisons() -> Vec<Row> {
    vec![
        Row::new(
            "eq. (7) against Constant Matters, eq. (2)",
            "σ of the one over C of the other, ε = 0.5, δ = 1e-8",
            rounds_to("1.0"),
            |_| Ok(published::unifying_framework(0.5, 1e-8) / published::constant_matters(0.5, 1e-8)),
        )
        .corrected(
            rounds_to("2.00"),
            "three constants for one mechanism; Definition 17 of the same paper prints a fourth, √2 smaller",
        ),
        Row::new(
            "Lemma 16, eq. (14)",
            "(1 + ΣS/π)² over Σα^-2n, largest on a grid of T and α",
            at_most("1"),
            |_| {
                let ratio = |steps: i32, alpha: f64| {
                    let terms =
                        |of: fn(i32) -> f64| (1..steps).map(|n| alpha.powi(-2 * n) / of(n)).sum::<f64>();
                    (1.0 + terms(f64::from) / PI).powi(2) / (1.0 + terms(|_| 1.0))
                };
                largest(
                    [2, 3, 10, 100, 1000].into_iter().flat_map(|steps| {
                        [1.001, 1.01, 1.1, 1.5, 2.0, 10.0].map(|alpha| ratio(steps, alpha))
                    }),
                )
            },
        ),
        Row::new("Lemma 16", "1 + (H-1)/4 over sqrt(H) for f(n) = 1/n, all T", at_most("1"), |_| {
            let sum = 1.0 + zeta_less_one(1.0, LONG);
            Ok((1.0 + (sum - 1.0) / 4.0) / sum.sqrt())
        }),
        Row::new(
            "§4.2",
            "‖L‖‖R‖ of the root over noise on each output, f(n) = 1/n, T = 512",
            at_most("1"),
            |_| Ok((max_error("sqrt", "poly:1", 512)? / max_error("output", "poly:1", 512)?).sqrt()),
        ),
        Row::new("§4.3", "(ζ(2c)-1)/4 against 1/(4(2c-1)) for c = 1", at_most_formula(0.25), |_| {
            Ok(zeta_less_one(1.0, LONG) / 4.0)
        }),
        Row::new(
            "footnote 2",
            "lower bound on γ_2 of the count, T = 1024 (Mathias)",
            at_least_formula(1.0 / 2048.0 + 1024_f64.ln() / PI),
            |_| Ok(bounds::mathias_count(1024).sqrt()),
        ),
        Row::new(
            "footnote 2",
            "γ_2 of the count, T = 1024, is at least the root of the least E2",
            at_most_formula(0.5 + 1024_f64.ln() / PI),
            |_| certified(1024).map(f64::sqrt),
        )
        .corrected(
            rounds_to("2.955"),
            "γ̂/2 is ln(T)/π + 0.481, not ln(T)/π: Mathias' upper bound is ln(T)/π + 0.981",
        ),
    ]
}
