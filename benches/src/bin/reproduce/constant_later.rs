//! Fichtenberger, Henzinger, Upadhyay: *Constant Matters*, the later version.

use std::f64::consts::PI;

use anyhow::Result;
use dp_apps::Encoding;
use dp_apps::histogram::Rules;
use dp_apps::substrings::Substrings;
use dp_linalg::{norms, series};
use dp_mechanisms::budget::{self, published};
use dp_mechanisms::{Budget, Footprint, Mechanism, Participation, Plan, Relation, Seed, Workload, bounds};
use ndarray::{Array2, ArrayView2, Axis, s};

use crate::lab::{build, largest, max_error, mean, mean_error, root_norms, sensitivity};
use crate::row::{Cost, Row, at_least, at_most, at_most_formula, equals_formula, rounds_to};

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// The privacy parameters of Figure 1.
pub(crate) const FIGURE_BUDGET: (f64, f64) = (0.8, 1e-10);

/// `γ̂(T) - 2 ln(T)/π` in the limit, `(2/π)(γ + ln(8/π))`.
fn limit_of_gamma() -> f64 {
    2.0 / PI * (EULER + (8.0 / PI).ln())
}

/// `π²·2T(T+1)/(3(2T+1)²)`, the printed bound for the average.
pub(crate) fn printed_average(steps: f64) -> f64 {
    PI * PI * 2.0 * steps * (steps + 1.0) / (3.0 * (2.0 * steps + 1.0).powi(2))
}

/// The printed bound of the count, `1 + ln(T-1)/π`.
pub(crate) fn printed_count(steps: f64) -> f64 {
    1.0 + (steps - 1.0).ln() / PI
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = counting();
    rows.extend(additive_error());
    rows.extend(runs());
    rows.extend(averaging());
    rows.extend(applications());
    rows
}

fn counting() -> Vec<Row> {
    let horizons = || (1..=20).map(|log| 1_usize << log);
    vec![
        Row::new("Lemma 2", "S_m² πm, largest for m ≤ 4096", at_most("1"), |_| {
            let root = series::binomial(0.5, 1 << 12);
            largest(root.into_iter().enumerate().map(|(m, c)| c * c * PI * m as f64))
        }),
        Row::new(
            "Theorem 1, Lemma 4",
            "‖L‖‖R‖ of the root, T = 1024",
            at_most_formula(printed_count(1024.0)),
            |_| max_error("sqrt", "count", 1024).map(f64::sqrt),
        )
        .corrected(
            rounds_to("3.27255"),
            "the sum of 1/(πi) up to T-1 exceeds its integral from 1; false for every T ≥ 2",
        ),
        Row::new("Theorem 1, Lemma 4", "horizons in 2 … 2^17 that break the bound", rounds_to("0"), |_| {
            let truth = (1..).zip(root_norms(1 << 17)).skip(1);
            Ok(truth.filter(|(n, norm)| *norm > printed_count(f64::from(*n))).count() as f64)
        })
        .corrected(
            rounds_to("131071"),
            "all of them; ‖L‖² - ln(T)/π tends to (γ + 4 ln 2)/π = 1.0663, not to 1",
        ),
        Row::new("Lemma 1", "γ̂(t) - 2 ln(t)/π at t = 2^20", rounds_to("0.00"), |_| {
            let steps = 1_usize << 20;
            Ok(bounds::mathias_gamma(steps) - 2.0 * (steps as f64).ln() / PI)
        })
        .corrected(
            rounds_to("0.9625"),
            "(2/π)(γ + ln(8/π)): the ratio tends to 1, the difference does not vanish",
        ),
        Row::new("after eq. (3)", "upper minus lower bound of Mathias, T = 2^20", rounds_to("0.5"), |_| {
            let steps = 1 << 20;
            Ok(bounds::mathias_count_upper(steps).sqrt() - bounds::mathias_count(steps).sqrt())
        }),
        Row::new(
            "Figure 1(b)",
            "eq. (4) minus Mathias' upper bound, largest for T ≤ 2^20",
            at_most("0.02").in_a_figure(),
            move |_| {
                largest(horizons().map(|n| printed_count(n as f64) - bounds::mathias_count_upper(n).sqrt()))
            },
        ),
        Row::new(
            "Figure 1(b)",
            "the same in the limit, for T up to 2^44",
            at_most("0.02").in_a_figure(),
            |_| Ok(0.5 - limit_of_gamma() / 2.0),
        ),
        Row::new(
            "Figure 1(b)",
            "‖L‖‖R‖ itself minus Mathias' upper bound, T = 2^20",
            at_most("0.02"),
            |_| Ok(root_norms(1 << 20)[(1 << 20) - 1] - bounds::mathias_count_upper(1 << 20).sqrt()),
        )
        .corrected(rounds_to("0.085"), "eq. (4) is below the norm it bounds by 0.066"),
        Row::new(
            "Figure 1(c)",
            "eq. (4) minus Mathias' lower bound, largest for T ≤ 2^20",
            at_most("0.52").in_a_figure(),
            move |_| largest(horizons().map(|n| printed_count(n as f64) - bounds::mathias_count(n).sqrt())),
        ),
        Row::new(
            "Figure 1(c)",
            "‖L‖‖R‖ itself minus Mathias' lower bound, T = 2^20",
            at_most("0.52"),
            |_| Ok(root_norms(1 << 20)[(1 << 20) - 1] - bounds::mathias_count(1 << 20).sqrt()),
        )
        .corrected(rounds_to("0.585"), "as for Figure 1(b)"),
        Row::new(
            "§1.2",
            "Mathias' upper bound attained by an explicit factorization, T = 4096",
            equals_formula(bounds::mathias_count_upper(4096).sqrt(), 1e-9),
            |_| max_error("group", "count", 4096).map(f64::sqrt),
        ),
    ]
}

fn additive_error() -> Vec<Row> {
    let noise = published::constant_matters(FIGURE_BUDGET.0, FIGURE_BUDGET.1);
    vec![
        Row::new(
            "§1, Figure 1(d)",
            "additive error of the tree, T = 2^10",
            at_least("250").in_a_figure(),
            move |_| Ok(noise * (max_error("binary-tree", "count", 1 << 10)? * (6.0 * 1024_f64).ln()).sqrt()),
        ),
        Row::new(
            "Figure 1(d)",
            "additive error of the root over that of the tree, T = 2^10",
            at_most("1").in_a_figure(),
            |_| {
                Ok((max_error("sqrt", "count", 1 << 10)? / max_error("binary-tree", "count", 1 << 10)?)
                    .sqrt())
            },
        ),
        Row::new(
            "Figure 1(e)",
            "additive error minus Mathias' lower bound, T = 8.8e9",
            at_most("30").in_a_figure(),
            move |_| {
                let steps = 8.8e9_f64;
                let lower = (2.0 * steps.ln() / PI + limit_of_gamma()) * 0.5;
                Ok(noise * (printed_count(steps) - lower) * (6.0 * steps).ln().sqrt())
            },
        ),
        Row::new(
            "Figure 1(f)",
            "E2 of the root over Mathias' upper bound squared, T = 2^16",
            at_most("1").in_a_figure(),
            |_| Ok(mean_error("sqrt", "count", 1 << 16)? / bounds::mathias_count_upper(1 << 16)),
        ),
        Row::new(
            "proof of Theorem 2",
            "2 exp(-a²/2) at a² = ln(6T), T = 1000",
            at_most_formula(1.0 / 3000.0),
            |_| Ok(2.0 * (-6000_f64.ln() / 2.0).exp()),
        )
        .corrected(
            rounds_to("0.0258"),
            "it is 2/sqrt(6T); a² = 2 ln(6T) makes it 1/(3T), a factor √2 in the error",
        ),
        Row::new(
            "proof of Theorem 2",
            "μ of 64 releases with fresh z from the t×t corner, budget μ = 1",
            at_most("1"),
            |_| {
                let each: Vec<f64> = root_norms(64).iter().map(|norm| 1.0 / norm).collect();
                Ok(budget::compose_gdp(&each))
            },
        )
        .corrected(
            rounds_to("4.0"),
            "each release is as private as claimed, but the first input moves all 64 of them",
        ),
    ]
}

/// The mean absolute error over several reproducible runs of the count at ε = 0.8, by step.
pub(crate) fn mean_absolute_errors(name: &str, steps: usize, runs: usize) -> Result<Vec<f64>> {
    let footprint = Footprint::ball(1.0, Relation::ZeroOut, Participation::Single)?;
    let budget = Budget::approximate(FIGURE_BUDGET.0, FIGURE_BUDGET.1)?;
    let plan = Plan::idealized(build(name, "count", steps)?, footprint, budget)?;
    // Coordinates are independent runs over the same stream of zeros.
    let mut mechanism = Mechanism::new(plan.of_dimension(runs)?, Seed::reproducible(20_220_217))?;
    let (zeros, mut output) = (vec![0.0; runs], vec![0.0; runs]);
    (0..steps)
        .map(|_| {
            mechanism.release(&zeros, &mut output)?;
            Ok(output.iter().map(|error| error.abs()).sum::<f64>() / runs as f64)
        })
        .collect()
}

fn runs() -> Vec<Row> {
    let steps = 1_usize << 16;
    vec![
        Row::new(
            "Figure 1(a)",
            "steps at which the error of the root falls, T = 2^16",
            rounds_to("0").in_a_figure(),
            move |_| {
                let rows = build("sqrt", "count", steps)?.row_norms()?.iter().collect::<Vec<_>>();
                Ok(rows.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64)
            },
        ),
        Row::new(
            "Figure 1(a)",
            "nodes in the tree's answer at t = 2^15",
            rounds_to("1").in_a_figure(),
            move |_| {
                Ok(build("binary-tree", "count", steps)?.row_norms()?.at((1 << 15) - 1).unwrap_or(f64::NAN))
            },
        ),
        Row::new(
            "Figure 1(a)",
            "nodes in the tree's answer at t = 2^16 - 1",
            rounds_to("16").in_a_figure(),
            move |_| Ok(build("binary-tree", "count", steps)?.row_norms()?.at(steps - 2).unwrap_or(f64::NAN)),
        ),
        Row::new(
            "Figure 1(a)",
            "mean error of 8 runs, root over tree, T = 2^16",
            at_most("1").in_a_figure(),
            move |_| {
                let root = mean_absolute_errors("sqrt", steps, 8)?;
                let tree = mean_absolute_errors("binary-tree", steps, 8)?;
                Ok(mean(&root) / mean(&tree))
            },
        )
        .costing(Cost::Default),
    ]
}

fn averaging() -> Vec<Row> {
    vec![
        Row::new(
            "Theorem 3, item 1",
            "γ_2 of the average, T = 512 (noise on each input)",
            rounds_to("1"),
            |_| max_error("identity", "average", 512).map(f64::sqrt),
        ),
        Row::new(
            "Theorem 3, eq. (6)",
            "‖L‖‖R‖ of the root of the average, T = 256",
            at_most_formula(printed_average(256.0)),
            |_| average_root_norm(256),
        ),
        Row::new("Theorem 3", "π²/6 - 1", rounds_to("0.64"), |_| Ok(PI * PI / 6.0 - 1.0)),
        Row::new(
            "after Theorem 3",
            "gap of the best explicit lower-triangular factorization",
            rounds_to("0.64"),
            |_| Ok(max_error("identity", "average", 256)?.sqrt() - 1.0),
        )
        .corrected(
            rounds_to("0.00"),
            "A = A·I: rows of norm t^{-1/2} ≤ 1, columns of norm 1; the square root is not needed",
        ),
        Row::new(
            "proof of Theorem 3",
            "j·L[j,1] of the root of the average, largest for 2 ≤ j ≤ 128",
            at_most("1"),
            |_| {
                let root = average_root(128)?;
                largest(
                    root.column(0)
                        .iter()
                        .enumerate()
                        .skip(1)
                        .map(|(index, entry)| (index + 1) as f64 * entry),
                )
            },
        ),
        Row::new("Lemma 7", "Σ 1/i² over its upper bound, largest for T ≤ 1000", at_most("1"), |_| {
            largest(partial_zeta().map(|(steps, sum)| sum / printed_average(steps)))
        }),
        Row::new("Lemma 7", "Σ 1/i² over its lower bound, least for T ≤ 1000", at_least("1"), |_| {
            let lower = |t: f64| PI * PI * t * (2.0 * t - 1.0) / (3.0 * (2.0 * t + 1.0).powi(2));
            Ok(-largest(partial_zeta().map(|(steps, sum)| -sum / lower(steps)))?)
        }),
        Row::new(
            "Theorem 4",
            "what the first input moves after t = 16 steps of the root",
            at_most_formula(printed_average(16.0).sqrt() / 16.0),
            |_| {
                let root = average_root(16)?;
                Ok(norms::column_squared_norms(root.view())[0].sqrt())
            },
        )
        .corrected(
            at_least("1"),
            "the first release is the first input itself, which moves by 1 however many steps follow",
        ),
    ]
}

/// The lower-triangular square root of the average matrix, row by row as the paper solves for it.
///
/// The library has no such strategy: its root for the average is the root of the count, divided by t.
fn average_root(steps: usize) -> Result<Array2<f64>> {
    let average = Workload::average().materialize(steps)?;
    let mut root = Array2::<f64>::zeros((steps, steps));
    for i in 0..steps {
        root[[i, i]] = average[[i, i]].sqrt();
        for j in (0..i).rev() {
            let between = root.slice(s![i, j + 1..i]).dot(&root.slice(s![j + 1..i, j]));
            root[[i, j]] = (average[[i, j]] - between) / (root[[i, i]] + root[[j, j]]);
        }
    }
    Ok(root)
}

/// `‖L‖‖R‖` of the square root of the average matrix.
pub(crate) fn average_root_norm(steps: usize) -> Result<f64> {
    let root = average_root(steps)?;
    let longest_row = largest(norms::row_squared_norms(root.view()))?.sqrt();
    Ok(longest_row * norms::max_column_norm(root.view()))
}

/// `(T, Σ_{i≤T} 1/i²)`.
fn partial_zeta() -> impl Iterator<Item = (f64, f64)> {
    (1..=1000).map(f64::from).scan(0.0, |sum, t| {
        *sum += 1.0 / (t * t);
        Some((t, *sum))
    })
}

fn applications() -> Vec<Row> {
    let squared = |footprint: &Footprint, steps: usize| -> Result<f64> {
        let root = build("sqrt", "count", steps)?;
        let whole = footprint.squared_sensitivity(|participation| root.sensitivity(participation))?;
        Ok(whole.squared / sensitivity(root.as_ref())?)
    };
    let mut rows = vec![
        Row::new(
            "Corollary 2",
            "sensitivity of a histogram under replacement, over that of a count",
            rounds_to("1.0"),
            move |_| squared(&Rules::one_item(Relation::Replace).footprint(None)?, 64).map(f64::sqrt),
        )
        .corrected(rounds_to("1.41421"), "a replaced item leaves one bin and enters another"),
        Row::new(
            "Corollary 3",
            "what an ℓ2 change of 1 can move, n = 256, over ‖R‖",
            at_most("1"),
            |_| {
                let root = build("sqrt", "count", 256)?;
                let spectral = norms::spectral(root.materialize()?.strategy.view())?;
                Ok(spectral / sensitivity(root.as_ref())?.sqrt())
            },
        )
        .corrected(
            rounds_to("7.87"),
            "the spectral norm grows like sqrt(n); an ℓ1 change of 1 moves at most ‖R‖",
        ),
        Row::new(
            "proof of Corollary 4",
            "ΣΣ 2 over 0 ≤ i < ℓ, i < j ≤ ℓ, for ℓ = 3",
            at_most("9"),
            |_| Ok((0..3).map(|i| f64::from(2 * (3 - i))).sum()),
        )
        .corrected(rounds_to("12"), "the double sum is ℓ(ℓ+1), above ℓ² already before anything adds up"),
    ];
    for (longest, steps, printed, truth) in [(1, 8, "1", "2"), (2, 8, "4", "6.97"), (3, 9, "9", "15.5")] {
        rows.push(
            Row::new(
                "Corollary 4",
                format!(
                    "squared sensitivity of substrings up to ℓ = {longest}, over that of a count, n = {steps}"
                ),
                at_most(printed),
                move |_| {
                    let root = build("sqrt", "count", steps)?;
                    let moved = replaced_letter(root.materialize()?.strategy.view(), longest)?;
                    Ok(moved / sensitivity(root.as_ref())?)
                },
            )
            .corrected(
                rounds_to(truth),
                "aaaa… with one letter replaced: the windows over it change the same counts several times",
            ),
        );
    }
    rows.push(
        Row::new(
            "Corollary 4",
            "squared sensitivity of substrings up to ℓ = 4, over that of a count, n = 512",
            at_most("16"),
            move |_| squared(&Substrings::new("ab".chars(), 4, Relation::Replace)?.footprint()?, 512),
        )
        .corrected(
            rounds_to("35.18"),
            "Σ_m (c_m² + mΔ²), c_m² the squared norm of m neighbouring columns together",
        ),
    );
    rows
}

/// `Σ_s ‖C d_s‖²` when one letter of aaaa… is replaced, at the worst place: of every length m the word of m letters a
/// loses one at each of the m ends over the letter, and m new words gain one each.
fn replaced_letter(strategy: ArrayView2<'_, f64>, longest: usize) -> Result<f64> {
    let steps = strategy.ncols();
    let moved = |position: usize, length: usize| {
        let ends = position.max(length - 1)..steps.min(position + length);
        let columns = strategy.slice(s![.., ends]);
        let together = columns.sum_axis(Axis(1)).insert_axis(Axis(1));
        norms::frobenius_squared(together.view()) + norms::frobenius_squared(columns)
    };
    largest((0..steps).map(|position| (1..=longest).map(|length| moved(position, length)).sum()))
}
