//! The statistics that are released: lower-triangular matrices A, streamed and never stored as matrices.
//!
//! | name | generating function or matrix | state per coordinate |
//! |---|---|---|
//! | `count`, or `total` | `1/(1-x)` | 1 |
//! | `average` | `diag(1/t) · count` | 1 |
//! | `window:W` | `(1-x^W)/(1-x)` | a ring of W |
//! | `step`, which is `window:1` | 1 | a ring of 1 |
//! | `exp:A`, A ≥ 1 | `1/(1-x/A)` | 1 |
//! | `poly:C`, C > 0 | `a_k = (k+1)^{-C}` | the past inputs (no finite recurrence exists) |
//! | `weights:…` | any finite `a_0 > 0, a_1, …`; zero past the end of the list | the past inputs |
//! | `momentum:B`, 0 ≤ B < 1 | `M_η M_β`, learning rates η_t | 2 |

mod stream;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use dp_linalg::series;
use ndarray::Array2;

pub use stream::{InverseStream, WorkloadStream};

use crate::error::{Error, Result, check_positive};

/// A lower-triangular matrix A whose products with the stream are released.
///
/// # Example
/// ```
/// use dp_mechanisms::Workload;
/// let window: Workload = "window:2".parse()?;
/// let mut stream = window.stream(4, 1)?;
/// let mut output = [0.0];
/// let mut sums = Vec::new();
/// for input in [1.0, 2.0, 3.0, 4.0] {
///     stream.push(&[input], &mut output)?;
///     sums.push(output[0]);
/// }
/// assert_eq!(sums, [1.0, 3.0, 5.0, 7.0]);
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    kind: Kind,
}

/// The kinds of workloads; values are validated by the constructors of [`Workload`]. Nothing outside this file knows them: what a
/// kind means is said by the methods below, and a new one is a variant and an arm in each.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// The running count: every prefix sum.
    Count,
    /// The running average.
    Average,
    /// The sum of the last `width` inputs.
    Window {
        /// The number of inputs, the newest included.
        width: usize,
    },
    /// Weights `alpha^{-k}` for an input k steps old.
    Exponential {
        /// The base, at least 1.
        alpha: f64,
    },
    /// Weights `(k+1)^{-power}`.
    Polynomial {
        /// The exponent, above 0.
        power: f64,
    },
    /// Given weights; an input older than the list has weight 0.
    Weights {
        /// `a_0, a_1, …`
        weights: Arc<[f64]>,
    },
    /// Gradient descent with momentum: `s_t = s_{t-1} + η_t m_t`, `m_t = β m_{t-1} + g_t`.
    Momentum {
        /// The momentum β in [0, 1).
        beta: f64,
        /// The learning rates η_1, η_2, …; the last one holds for all later steps.
        rates: Arc<[f64]>,
    },
}

/// How the release of a step follows from what was kept of the steps before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Recurrence {
    /// `s_t = decay · s_{t-1} + x_t`, and `s_t` over its divisor is released.
    First { decay: f64 },
    /// `s_t = s_{t-1} + x_t - x_{t-width}`.
    Window { width: usize },
    /// `m_t = β m_{t-1} + x_t` and `s_t = s_{t-1} + η_t m_t` with the rate η_t.
    Second { beta: f64 },
    /// None: the release is a convolution with the series.
    None,
}

impl Workload {
    /// Every prefix sum.
    pub fn count() -> Self {
        Self { kind: Kind::Count }
    }

    /// Every prefix average.
    pub fn average() -> Self {
        Self { kind: Kind::Average }
    }

    /// The sum of the last `width` inputs.
    ///
    /// # Errors
    /// A width of zero.
    pub fn window(width: usize) -> Result<Self> {
        crate::error::check_count("window width", width)?;
        Ok(Self { kind: Kind::Window { width } })
    }

    /// The input of every step by itself: the window of one input, `A = I`.
    pub fn step() -> Self {
        Self { kind: Kind::Window { width: 1 } }
    }

    /// Weights `alpha^{-k}`; `alpha = 1` is the count.
    ///
    /// # Errors
    /// An alpha below 1 or not finite.
    pub fn exponential(alpha: f64) -> Result<Self> {
        if !(alpha >= 1.0 && alpha.is_finite()) {
            return Err(Error::OutOfRange {
                what: "decay alpha",
                value: alpha,
                range: "a finite number of at least 1",
            });
        }
        Ok(Self { kind: Kind::Exponential { alpha } })
    }

    /// Weights `(k+1)^{-power}`.
    ///
    /// # Errors
    /// A power that is not finite and positive.
    pub fn polynomial(power: f64) -> Result<Self> {
        check_positive("decay power", power)?;
        Ok(Self { kind: Kind::Polynomial { power } })
    }

    /// Any finite weights with a positive first one; zero past the end.
    ///
    /// # Errors
    /// No weights, NaN or infinities among them, or a first weight that is not positive.
    pub fn weights(weights: &[f64]) -> Result<Self> {
        let first = *weights.first().ok_or(Error::Empty { what: "weights" })?;
        check_positive("first weight", first)?;
        if let Some(value) = weights.iter().find(|value| !value.is_finite()) {
            return Err(Error::OutOfRange { what: "weight", value: *value, range: "a finite number" });
        }
        Ok(Self { kind: Kind::Weights { weights: weights.into() } })
    }

    /// Momentum β with learning rates η_t; the last rate holds for all later steps.
    ///
    /// # Errors
    /// β outside [0, 1), no rates, or a rate that is not finite and positive.
    pub fn momentum(beta: f64, rates: &[f64]) -> Result<Self> {
        if !(0.0..1.0).contains(&beta) {
            return Err(Error::OutOfRange { what: "momentum", value: beta, range: "[0, 1)" });
        }
        if rates.is_empty() {
            return Err(Error::Empty { what: "learning rates" });
        }
        for rate in rates {
            check_positive("learning rate", *rate)?;
        }
        Ok(Self { kind: Kind::Momentum { beta, rates: rates.into() } })
    }

    /// How a release follows from those before it.
    pub(crate) fn recurrence(&self) -> Recurrence {
        match &self.kind {
            Kind::Count | Kind::Average => Recurrence::First { decay: 1.0 },
            Kind::Exponential { alpha } => Recurrence::First { decay: 1.0 / alpha },
            Kind::Window { width } => Recurrence::Window { width: *width },
            Kind::Momentum { beta, .. } => Recurrence::Second { beta: *beta },
            Kind::Polynomial { .. } | Kind::Weights { .. } => Recurrence::None,
        }
    }

    /// The square of the decay of a recurrence of first order, rounded once; nothing for others.
    pub(crate) fn squared_decay(&self) -> Option<f64> {
        match &self.kind {
            Kind::Count | Kind::Average => Some(1.0),
            Kind::Exponential { alpha } => Some(1.0 / (alpha * alpha)),
            _ => None,
        }
    }

    /// By what the sum after a step (counted from 0) is divided: its number for the average, 1 otherwise.
    pub(crate) fn divisor(&self, step: usize) -> f64 {
        if self.is_average() { (step + 1) as f64 } else { 1.0 }
    }

    /// The learning rate of a step (counted from 0); 1 for workloads without a schedule.
    pub(crate) fn rate(&self, step: usize) -> f64 {
        match &self.kind {
            Kind::Momentum { rates, .. } => rates[step.min(rates.len() - 1)],
            _ => 1.0,
        }
    }

    /// The learning rate of all steps, unless they differ.
    pub(crate) fn constant_rate(&self) -> Option<f64> {
        match &self.kind {
            Kind::Momentum { rates, .. } => rates.iter().all(|rate| *rate == rates[0]).then_some(rates[0]),
            _ => Some(1.0),
        }
    }

    /// Whether this is the count.
    pub(crate) fn is_count(&self) -> bool {
        self.kind == Kind::Count
    }

    /// Whether this is the average.
    pub(crate) fn is_average(&self) -> bool {
        self.kind == Kind::Average
    }

    /// Whether prefix sums are released, or what they are when divided.
    pub(crate) fn is_prefix_sum(&self) -> bool {
        self.is_count() || self.is_average()
    }

    /// Whether inputs are added up as they are, so that the sums stay on the grid of the inputs.
    pub(crate) fn stays_on_grid(&self) -> bool {
        matches!(self.kind, Kind::Count | Kind::Window { .. })
    }

    /// Whether the series does not fall to zero within so many steps: `(1-x) a(x)` does.
    pub(crate) fn is_running_sum(&self, steps: usize) -> bool {
        match &self.kind {
            Kind::Count | Kind::Average | Kind::Momentum { .. } => true,
            Kind::Exponential { alpha } => *alpha == 1.0,
            Kind::Window { width } => *width >= steps,
            Kind::Polynomial { .. } | Kind::Weights { .. } => false,
        }
    }

    /// The distances of the poles of the generating function from 1, without division and schedule: that of the sum of which a
    /// window is a difference, and none where there is no recurrence.
    pub(crate) fn pole_gaps(&self) -> Vec<f64> {
        match &self.kind {
            Kind::Count | Kind::Average | Kind::Window { .. } => vec![0.0],
            Kind::Exponential { alpha } => vec![(alpha - 1.0) / alpha],
            Kind::Momentum { beta, .. } => vec![0.0, 1.0 - beta],
            Kind::Polynomial { .. } | Kind::Weights { .. } => Vec::new(),
        }
    }

    /// The weight of an input of the given age, for recurrences of first order and windows.
    pub(crate) fn weight(&self, age: usize) -> f64 {
        match &self.kind {
            Kind::Window { width } if age >= *width => 0.0,
            Kind::Exponential { alpha } => alpha.powf(-(age as f64)),
            _ => 1.0,
        }
    }

    /// The numbers that its name leaves out.
    pub(crate) fn unnamed(&self) -> Option<&[f64]> {
        match &self.kind {
            Kind::Weights { weights } => Some(weights),
            Kind::Momentum { rates, .. } => Some(rates),
            _ => None,
        }
    }

    /// What the same input in blocks of `times` steps, any two of them `distance` apart, adds to every block's last release: a
    /// Toeplitz workload of whole blocks with the weights `a'_m = Σ_{i<times} a_{(m·times+i)·distance}`, and what its
    /// squared errors are multiplied by. Nothing for workloads that are not Toeplitz, and where weights cancel.
    ///
    /// # Errors
    /// What the numeric core refuses.
    pub(crate) fn in_blocks(
        &self,
        times: usize,
        distance: usize,
        blocks: usize,
    ) -> Result<Option<(Self, f64)>> {
        let squared = (times as f64).powi(2);
        match &self.kind {
            Kind::Count => return Ok(Some((self.clone(), squared))),
            Kind::Window { width } => {
                let inputs = width.div_ceil(distance);
                if inputs.is_multiple_of(times) {
                    return Ok(Some((Self::window(inputs / times)?, squared)));
                }
            }
            Kind::Exponential { alpha } => {
                let between = alpha.powf((times * distance) as f64);
                if between.is_finite() {
                    let block: f64 = (0..times).map(|index| alpha.powf(-((index * distance) as f64))).sum();
                    return Ok(Some((Self::exponential(between)?, block * block)));
                }
            }
            _ => {}
        }
        let Some(series) = self.series(times * distance * blocks)? else { return Ok(None) };
        let apart: Vec<f64> = series.into_iter().step_by(distance).collect();
        let mut weights: Vec<f64> = apart.chunks_exact(times).map(|block| block.iter().sum()).collect();
        let last = weights.iter().rposition(|weight| *weight != 0.0).unwrap_or(0);
        weights.truncate(last + 1);
        Ok(Self::weights(&weights).ok().map(|workload| (workload, 1.0)))
    }

    /// The workload of the inputs from a later step on: the diagonal block of A, up to a scaling of its rows.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn beginning_at(&self, start: usize) -> Result<Self> {
        match &self.kind {
            // The divisor changes by a factor of 2 at most over as many steps as came before: a count in essence.
            Kind::Average if start > 0 => Ok(Self::count()),
            Kind::Momentum { beta, rates } => Self::momentum(*beta, &rates[start.min(rates.len() - 1)..]),
            _ => Ok(self.clone()),
        }
    }

    /// The series of the Toeplitz matrix behind a workload, and the weight of every squared row norm: what an optimizer of
    /// Toeplitz strategies sees.
    ///
    /// The average is the count with rows divided by t; a learning-rate schedule is left out.
    ///
    /// # Errors
    /// What the numeric core refuses.
    pub(crate) fn toeplitz_part(&self, steps: usize) -> Result<(Vec<f64>, Vec<f64>)> {
        let behind = match &self.kind {
            Kind::Average => Self::count(),
            Kind::Momentum { beta, .. } => Self::momentum(*beta, &[1.0])?,
            _ => self.clone(),
        };
        let series = behind.series(steps)?.unwrap_or_default();
        Ok((series, (0..steps).map(|step| self.divisor(step).powi(-2)).collect()))
    }

    /// The coefficients of the square root of the Toeplitz matrix behind the workload, see [`Self::toeplitz_part`].
    ///
    /// # Errors
    /// Weights whose series has no square root.
    pub(crate) fn root_series(&self, steps: usize) -> Result<Vec<f64>> {
        Ok(match &self.kind {
            Kind::Count | Kind::Average => series::binomial(0.5, steps),
            Kind::Exponential { alpha } => series::sqrt_exponential(*alpha, steps)?,
            Kind::Window { width } => series::sqrt_window(*width, steps)?,
            Kind::Momentum { beta, .. } => {
                // (1 - x)^{-1/2} (1 - βx)^{-1/2}.
                let binomial = series::binomial(0.5, steps);
                let mut power = 1.0;
                let decaying = binomial.iter().map(|coefficient| {
                    let term = coefficient * power;
                    power *= beta;
                    term
                });
                series::product(&binomial, &decaying.collect::<Vec<f64>>(), steps)
            }
            Kind::Polynomial { .. } | Kind::Weights { .. } => {
                series::sqrt(&self.series(steps)?.unwrap_or_default(), steps)?
            }
        })
    }

    /// The first `steps` coefficients of the generating function, if the workload is Toeplitz.
    ///
    /// # Errors
    /// What the numeric core refuses.
    pub fn series(&self, steps: usize) -> Result<Option<Vec<f64>>> {
        Ok(Some(match &self.kind {
            Kind::Count => series::count(steps),
            Kind::Window { width } => series::window(*width, steps)?,
            Kind::Exponential { alpha } => series::exponential(*alpha, steps)?,
            Kind::Polynomial { power } => series::polynomial(*power, steps)?,
            Kind::Weights { weights } => {
                let mut padded: Vec<f64> = weights.iter().copied().take(steps).collect();
                padded.resize(steps, 0.0);
                padded
            }
            Kind::Momentum { beta, rates } if self.constant_rate().is_some() => {
                let mut power = 1.0;
                let mut sum = 0.0;
                (0..steps)
                    .map(|_| {
                        sum += rates[0] * power;
                        power *= beta;
                        sum
                    })
                    .collect()
            }
            Kind::Average | Kind::Momentum { .. } => return Ok(None),
        }))
    }

    /// The matrix itself, for tests and dense programs.
    ///
    /// # Errors
    /// What the numeric core refuses.
    pub fn materialize(&self, steps: usize) -> Result<Array2<f64>> {
        if let Some(series) = self.series(steps)? {
            return Ok(Array2::from_shape_fn(
                (steps, steps),
                |(i, j)| if i >= j { series[i - j] } else { 0.0 },
            ));
        }
        Ok(match &self.kind {
            Kind::Momentum { beta, .. } => {
                let mut matrix = Array2::zeros((steps, steps));
                for j in 0..steps {
                    let (mut power, mut sum) = (1.0, 0.0);
                    for i in j..steps {
                        sum += self.rate(i) * power;
                        power *= beta;
                        matrix[[i, j]] = sum;
                    }
                }
                matrix
            }
            _ => Array2::from_shape_fn(
                (steps, steps),
                |(i, j)| if i >= j { 1.0 / (i + 1) as f64 } else { 0.0 },
            ),
        })
    }

    /// Row `step` (counted from 1) of the matrix, at the given columns.
    ///
    /// # Errors
    /// What the numeric core refuses.
    pub(crate) fn row(&self, step: usize, columns: std::ops::Range<usize>) -> Result<Vec<f64>> {
        if let Some(series) = self.series(step)? {
            return Ok(columns.map(|j| series[step - 1 - j]).collect());
        }
        let Kind::Momentum { beta, .. } = &self.kind else {
            return Ok(vec![1.0 / self.divisor(step - 1); columns.len()]);
        };
        // Σ_{i=j}^{step-1} η_i β^{i-j}, from the last column backwards.
        let mut row = vec![0.0; columns.len()];
        let mut sum = 0.0;
        for j in (columns.start..step).rev() {
            sum = self.rate(j) + beta * sum;
            if j < columns.end {
                row[j - columns.start] = sum;
            }
        }
        Ok(row)
    }

    /// A stream that applies the workload to `dimension` coordinates, one step at a time.
    ///
    /// # Complexity
    /// O(dimension) per step with the state of the table above; amortized O(dimension · log² steps) for
    /// polynomial decay and given weights.
    ///
    /// # Errors
    /// Zero steps or dimension.
    pub fn stream(&self, steps: usize, dimension: usize) -> Result<WorkloadStream> {
        WorkloadStream::new(self, steps, dimension)
    }

    /// A stream that undoes the workload: releases in, inputs out.
    ///
    /// # Errors
    /// Zero steps or dimension.
    pub fn inverse_stream(&self, steps: usize, dimension: usize) -> Result<InverseStream> {
        InverseStream::new(self, steps, dimension)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Count => formatter.write_str("count"),
            Kind::Average => formatter.write_str("average"),
            Kind::Window { width: 1 } => formatter.write_str("step"),
            Kind::Window { width } => write!(formatter, "window:{width}"),
            Kind::Exponential { alpha } => write!(formatter, "exp:{alpha}"),
            Kind::Polynomial { power } => write!(formatter, "poly:{power}"),
            Kind::Weights { weights } => write!(formatter, "weights[{}]", weights.len()),
            Kind::Momentum { beta, .. } => write!(formatter, "momentum:{beta}"),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    /// Reads `count` (or `total`), `average`, `window:W`, `step` (or `window:1`), `exp:A`, `poly:C` and `momentum:B` (constant
    /// learning rate 1).
    /// Weights come from a file and have no short form.
    fn from_str(text: &str) -> Result<Self> {
        let error = || Error::Parse {
            what: "workload",
            text: text.to_owned(),
            expected: "count (or total), average, window:W, step, exp:A, poly:C or momentum:B",
        };
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let number = || value.and_then(|value| value.parse::<f64>().ok()).ok_or_else(error);
        match (name, value) {
            ("count" | "total", None) => Ok(Self::count()),
            ("step", None) => Ok(Self::step()),
            ("average", None) => Ok(Self::average()),
            ("window", Some(width)) => Self::window(width.parse().map_err(|_| error())?),
            ("exp", Some(_)) => Self::exponential(number()?),
            ("poly", Some(_)) => Self::polynomial(number()?),
            ("momentum", Some(_)) => Self::momentum(number()?, &[1.0]),
            _ => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn all() -> Vec<Workload> {
        let mut workloads: Vec<Workload> = [
            "count",
            "average",
            "window:1",
            "window:5",
            "exp:1",
            "exp:1.5",
            "poly:0.5",
            "poly:2",
            "momentum:0.9",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        workloads.push(Workload::weights(&[1.0, 0.7, 0.7, -0.1, 0.2]).unwrap());
        workloads.push(Workload::momentum(0.5, &[1.0, 0.5, 0.25, 2.0]).unwrap());
        workloads
    }

    #[test]
    fn streams_equal_the_matrix_and_invert() {
        for workload in all() {
            for (steps, dimension) in [(1, 1), (2, 3), (37, 2)] {
                let matrix = workload.materialize(steps).unwrap();
                let inputs = Array2::from_shape_fn((steps, dimension), |(i, j)| {
                    ((i * 7 + j * 3) % 11) as f64 - 4.0 + 0.25 * j as f64
                });
                let expected = matrix.dot(&inputs);
                let mut forward = workload.stream(steps, dimension).unwrap();
                let mut backward = workload.inverse_stream(steps, dimension).unwrap();
                let mut output = vec![0.0; dimension];
                let mut recovered = vec![0.0; dimension];
                for t in 0..steps {
                    forward.push(inputs.row(t).as_slice().unwrap(), &mut output).unwrap();
                    backward.push(&output, &mut recovered).unwrap();
                    for j in 0..dimension {
                        assert!((output[j] - expected[[t, j]]).abs() < 1e-10, "{workload} step {t}");
                        assert!((recovered[j] - inputs[[t, j]]).abs() < 1e-7, "{workload} step {t} back");
                    }
                }
                assert!(matches!(
                    forward.push(&vec![0.0; dimension], &mut output),
                    Err(Error::HorizonReached { .. })
                ));
            }
        }
    }

    #[test]
    fn saved_state_continues_the_same_stream() {
        for workload in all() {
            let steps = 23;
            let mut whole = workload.stream(steps, 2).unwrap();
            let mut output = [0.0; 2];
            for t in 0..9 {
                whole.push(&[f64::from(t) + 0.1, 1.0], &mut output).unwrap();
            }
            let mut resumed = workload.stream(steps, 2).unwrap();
            resumed.restore(whole.step(), &whole.state()).unwrap();
            let mut other = [0.0; 2];
            for t in 9..steps {
                whole.push(&[t as f64, -1.0], &mut output).unwrap();
                resumed.push(&[t as f64, -1.0], &mut other).unwrap();
                assert_eq!(output, other, "{workload}");
            }
        }
    }

    #[test]
    fn names_round_trip_and_bad_ones_are_refused() {
        for text in ["count", "average", "window:32", "step", "exp:1.5", "poly:2", "momentum:0.9"] {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
        }
        assert_eq!("total".parse(), Ok(Workload::count()));
        assert_eq!("window:1".parse(), Ok(Workload::step()));
        for text in [
            "",
            "counts",
            "window",
            "window:0",
            "window:-1",
            "exp:0.5",
            "exp:nan",
            "poly:0",
            "poly:inf",
            "momentum:1",
            "count:3",
            "total:1",
            "step:2",
        ] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
        assert!(Workload::weights(&[]).is_err() && Workload::weights(&[0.0]).is_err());
        assert!(Workload::weights(&[1.0, f64::NAN]).is_err());
    }
}
