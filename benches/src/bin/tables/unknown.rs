//! What it costs not to know the horizon: the mean squared error of the first t steps, over what is proved that nothing can beat
//! for exactly t steps.

use anyhow::Result;
use dp_mechanisms::{Method, Participation, Problem, Workload, planner};

/// The expected lengths of the table.
pub(crate) const EXPECTED: [usize; 3] = [100, 1024, 10_000];

/// Lengths of streams, as powers of ten of the expected one, and their names.
const LENGTHS: [(f64, &str); 9] = [
    (-1.0, "1/10"),
    (-0.5, "1/3"),
    (0.0, "1"),
    (0.5, "3"),
    (1.0, "10"),
    (1.5, "30"),
    (2.0, "100"),
    (2.5, "300"),
    (3.0, "1000"),
];

/// More steps than any stream has: no cap.
const NO_CAP: usize = 1 << 40;

/// The ratios for epochs of doubling length, the first as long as expected, and for `anytime`, with a cap of a thousand times
/// that and without, in Markdown; streams are at most `2^up_to` steps long.
pub(crate) fn table(expected: &[usize], up_to: u32) -> Result<String> {
    let titles: Vec<String> = LENGTHS.iter().map(|(_, name)| format!("t = {name}")).collect();
    let mut rows = Vec::new();
    for &expected in expected {
        let lengths: Vec<usize> = LENGTHS
            .iter()
            .map(|(decades, _)| (expected as f64 * 10.0_f64.powf(*decades)).round().max(1.0) as usize)
            .filter(|length| *length <= 1 << up_to)
            .collect();
        let mut best = Vec::new();
        for &length in &lengths {
            best.push(planner::lower_bound(&Problem::new(Workload::count(), length)?)?);
        }
        let ratios = |means: Vec<f64>| {
            means.iter().zip(&best).map(|(mean, best)| format!("{:.2}", mean / best)).collect()
        };
        rows.push((format!("doubling, {expected} expected"), ratios(doubling(expected, &lengths)?)));
        for (cap, words) in [(NO_CAP, ""), (1000 * expected, ", a cap of 1000 times that")] {
            let means = anytime(expected, cap, &lengths)?;
            rows.push((format!("`anytime`, {expected} expected{words}"), ratios(means)));
        }
    }
    Ok(super::table("strategy", &titles, &rows))
}

/// Mean squared errors of the first steps under epochs of doubling length.
fn doubling(first: usize, lengths: &[usize]) -> Result<Vec<f64>> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let (mut length, mut finished) = (first, 0.0);
    let mut variances = Vec::new();
    while variances.len() < longest {
        let problem = Problem::new(Workload::count(), length)?;
        let strategy = Method::ScaledBlt.build(&problem)?;
        let squared = strategy.sensitivity(Participation::Single)?.squared;
        let rows = strategy.row_norms()?;
        variances.extend(rows.iter().map(|row| finished + squared * row));
        // The noise of an epoch stays in the sum.
        finished = variances.last().copied().unwrap_or(0.0);
        length *= 2;
    }
    Ok(means(&variances, lengths))
}

/// Mean squared errors of the first steps of `anytime`.
fn anytime(expected: usize, cap: usize, lengths: &[usize]) -> Result<Vec<f64>> {
    let longest = lengths.iter().copied().max().unwrap_or(1);
    let strategy = Method::Anytime.build(&Problem::new(Workload::count(), cap)?.expecting(expected)?)?;
    let squared = strategy.sensitivity(Participation::Single)?.squared;
    let variances: Vec<f64> = strategy.row_norms()?.iter().take(longest).map(|row| squared * row).collect();
    Ok(means(&variances, lengths))
}

/// The means of the first so many values.
fn means(values: &[f64], lengths: &[usize]) -> Vec<f64> {
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    sums.extend(values.iter().map(|value| {
        sum += value;
        sum
    }));
    lengths.iter().map(|&length| sums[length] / length as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_the_first() {
        assert_eq!(means(&[1.0, 3.0, 8.0], &[1, 2, 3]), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn whoever_knew_the_length_pays_nothing() {
        // The first epoch of doubling ones is a plan for exactly that length; later ones pay, and less without a horizon.
        let best = planner::lower_bound(&Problem::new(Workload::count(), 64).unwrap()).unwrap();
        let doubled = doubling(64, &[64, 6400]).unwrap();
        assert!((doubled[0] / best - 1.0).abs() < 0.01, "{doubled:?}");
        let endless = anytime(64, NO_CAP, &[64, 6400]).unwrap();
        assert!(endless[1] < 0.5 * doubled[1] && anytime(64, 6400, &[6400]).unwrap()[0] < endless[1]);
    }
}
