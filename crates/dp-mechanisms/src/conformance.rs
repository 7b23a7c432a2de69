//! The laws that every strategy keeps, run on one of your own.
//!
//! A [`Strategy`] from outside this crate is trusted with privacy: [`crate::Plan`] computes σ from the sensitivity that it
//! states, and adds the noise that its filter makes. [`check`] runs on it what this crate runs on its own strategies. It finds
//! mistakes, and proves nothing: a sensitivity still needs a proof, for every horizon and participation that it is used at.

use std::fmt;

use dp_linalg::{dense, norms};
use ndarray::{Array2, ArrayView1};

use crate::error::Result;
use crate::noise::{CorrelatedNoise, Side, UnitNoise};
use crate::sensitivity::Participation;
use crate::strategy::{Factorization, Measurement, Strategy};

/// Agreement up to rounding, relative to the largest value that takes part.
const ROUNDING: f64 = 1e-9;

/// Row norms that were interpolated agree to this.
const INTERPOLATION: f64 = 0.05;

/// About so many sets of steps with signs are tried for a participation.
const MOST_SETS: usize = 1 << 16;

/// A law of [`Strategy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Law {
    /// `B · C = A`, lower triangular: no release depends on later inputs.
    Factorization,
    /// The noise that is streamed is that of the matrices, to the last step, and needs no row of z that C does not have.
    Stream,
    /// Several steps at once are the same steps one by one, to the last bit.
    Blocks,
    /// No set of steps that one person can take moves the matrix *that the stream applies* further than is stated.
    Sensitivity,
    /// The stated row norms are those of B.
    RowNorms,
    /// The memory grows with the dimension, in proportion.
    Memory,
    /// What is measured on live data is C, and row t of it knows the inputs up to step t alone.
    Measurement,
}

/// A law that does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{strategy} breaks the law of {law:?}: {finding}")]
pub struct Violation {
    /// The strategy.
    pub strategy: &'static str,
    /// The law.
    pub law: Law,
    /// What was found.
    pub finding: String,
}

/// Runs all laws on a strategy of few steps, and its sensitivity under the participations that it will be used with.
///
/// Build it for a dozen steps: all sets of steps that one person can take are then tried with all signs. Where there are more than
/// about 65,000 of them, equidistant ones are tried instead. One participation is always among them.
///
/// # Complexity
/// O(n³), and what the sets take.
///
/// # Errors
/// What the strategy refuses; the violation is the inner result.
///
/// # Example
/// ```
/// use dp_mechanisms::conformance::check;
/// use dp_mechanisms::{Method, Participation, Problem, Workload};
/// let strategy = Method::Sqrt.build(&Problem::new(Workload::count(), 12)?)?;
/// assert_eq!(check(strategy.as_ref(), &[Participation::repeated(3, 4)?])?, Ok(()));
/// # Ok::<(), dp_mechanisms::Error>(())
/// ```
pub fn check(
    strategy: &dyn Strategy,
    participations: &[Participation],
) -> Result<std::result::Result<(), Violation>> {
    let laws = Laws::new(strategy)?;
    let mut outcome = laws.factorization()?;
    outcome = outcome.and(laws.stream());
    outcome = outcome.and(laws.blocks()?);
    if outcome.is_ok() {
        let applied = laws.applied()?;
        for participation in [Participation::Single].iter().chain(participations) {
            outcome = outcome.and(laws.sensitivity(&applied, *participation)?);
        }
    }
    outcome = outcome.and(laws.row_norms()?);
    outcome = outcome.and(laws.memory());
    Ok(outcome.and(laws.measurement()))
}

struct Laws<'a> {
    strategy: &'a dyn Strategy,
    factors: Factorization,
    /// The streamed noise on the input side, by rows of z.
    inputs: Array2<f64>,
    /// The same on the output side.
    outputs: Array2<f64>,
}

type Outcome = std::result::Result<(), Violation>;

impl<'a> Laws<'a> {
    fn new(strategy: &'a dyn Strategy) -> Result<Self> {
        let factors = strategy.materialize()?;
        let rows = factors.strategy.nrows();
        let (inputs, outputs) = (
            impulse_responses(strategy, rows, Side::Input)?,
            impulse_responses(strategy, rows, Side::Output)?,
        );
        Ok(Self { strategy, factors, inputs, outputs })
    }

    fn broken(&self, law: Law, finding: impl fmt::Display) -> Outcome {
        Err(Violation { strategy: self.strategy.name(), law, finding: finding.to_string() })
    }

    fn factorization(&self) -> Result<Outcome> {
        let Factorization { decoder, strategy } = &self.factors;
        let steps = self.strategy.steps();
        if strategy.ncols() != steps || decoder.nrows() != steps || decoder.ncols() != strategy.nrows() {
            let shapes = format!("B is {:?} and C is {:?} for {steps} steps", decoder.dim(), strategy.dim());
            return Ok(self.broken(Law::Factorization, shapes));
        }
        let workload = self.strategy.workload().materialize(steps)?;
        let product = dense::matmul(decoder.view(), strategy.view());
        Ok(match difference(&product, &workload) {
            Some(found) => self.broken(Law::Factorization, format!("B·C differs from A by {found:e}")),
            None => Ok(()),
        })
    }

    fn stream(&self) -> Outcome {
        match difference(&self.outputs, &self.factors.decoder) {
            Some(found) => {
                self.broken(Law::Stream, format!("the streamed noise differs from B by {found:e}"))
            }
            None => Ok(()),
        }
    }

    fn blocks(&self) -> Result<Outcome> {
        let (steps, dimension) = (self.strategy.steps(), 3);
        let mut source = Waves;
        let mut one_by_one = vec![0.0; steps * dimension];
        let mut filter = self.strategy.noise_filter(dimension)?;
        for row in one_by_one.chunks_exact_mut(dimension) {
            filter.next_into(&mut source, row)?;
        }
        for size in [2, 5, steps] {
            let mut filter = self.strategy.noise_filter(dimension)?;
            let mut at_once = vec![0.0; steps * dimension];
            for rows in at_once.chunks_mut(size * dimension) {
                filter.next_rows(&mut source, dimension, rows)?;
            }
            if at_once.iter().zip(&one_by_one).any(|(a, b)| a.to_bits() != b.to_bits()) {
                return Ok(
                    self.broken(Law::Blocks, format!("{size} steps at once are not the same as one by one"))
                );
            }
        }
        Ok(Ok(()))
    }

    /// The matrix whose inverse the stream applies; where C is not square, C.
    fn applied(&self) -> Result<Array2<f64>> {
        let square = self.inputs.nrows() == self.inputs.ncols();
        let causal = self.inputs.indexed_iter().all(|((t, row), value)| row <= t || *value == 0.0);
        if square && causal {
            return Ok(dense::inverse_lower(self.inputs.view())?);
        }
        Ok(self.factors.strategy.clone())
    }

    fn sensitivity(&self, applied: &Array2<f64>, participation: Participation) -> Result<Outcome> {
        let stated = self.strategy.sensitivity(participation)?.squared;
        let found = worst_set(applied, participation);
        // Inverting the noise again rounds.
        if !(stated >= found * (1.0 - ROUNDING)) {
            let finding = format!("{stated} is stated for {participation}, and {found} is attained");
            return Ok(self.broken(Law::Sensitivity, finding));
        }
        Ok(Ok(()))
    }

    fn row_norms(&self) -> Result<Outcome> {
        let stated = self.strategy.row_norms()?;
        if stated.steps() != self.strategy.steps() {
            return Ok(self.broken(Law::RowNorms, format!("there are {} of them", stated.steps())));
        }
        let tolerance = if stated.is_exact() { ROUNDING } else { INTERPOLATION };
        let rows = norms::row_squared_norms(self.factors.decoder.view());
        for (step, (stated, found)) in stated.iter().zip(&rows).enumerate() {
            if !((stated - found).abs() <= tolerance * found.abs()) {
                let finding = format!("{stated} is stated for step {}, and {found} is that of B", step + 1);
                return Ok(self.broken(Law::RowNorms, finding));
            }
        }
        Ok(Ok(()))
    }

    fn memory(&self) -> Outcome {
        let [one, two, three] = [1, 2, 3].map(|dimension| self.strategy.memory(dimension));
        if one <= two && three.wrapping_sub(two) == two - one {
            return Ok(());
        }
        self.broken(Law::Memory, format!("{one}, {two} and {three} values for 1, 2 and 3 coordinates"))
    }

    fn measurement(&self) -> Outcome {
        // What cannot be measured on live data says so.
        let Ok(Measurement::Dense(matrix)) = self.strategy.measurement() else { return Ok(()) };
        let largest = matrix.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        if matrix.indexed_iter().any(|((t, step), value)| step > t && value.abs() > ROUNDING * largest) {
            return self.broken(Law::Measurement, "a row of C knows later inputs");
        }
        match difference(&matrix, &self.factors.strategy) {
            Some(found) => {
                self.broken(Law::Measurement, format!("what is measured differs from C by {found:e}"))
            }
            None => Ok(()),
        }
    }
}

/// By how much matrices differ, if by more than rounding; infinity for different shapes.
fn difference(actual: &Array2<f64>, expected: &Array2<f64>) -> Option<f64> {
    if actual.dim() != expected.dim() {
        return Some(f64::INFINITY);
    }
    let largest =
        |matrix: &Array2<f64>| matrix.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let found = largest(&(actual - expected));
    let fine = found <= ROUNDING * largest(expected) && actual.iter().all(|value| value.is_finite());
    (!fine).then_some(found)
}

/// A `z` whose row r is the r-th unit vector: the noise of a strategy becomes its matrix. Beyond its rows it is infinite.
struct Impulses {
    rows: usize,
}

impl UnitNoise for Impulses {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        if row >= self.rows {
            return out.fill(f64::INFINITY);
        }
        for (column, value) in (first..).zip(out) {
            *value = f64::from(u8::from(column == row));
        }
    }
}

/// Any fixed numbers.
struct Waves;

impl UnitNoise for Waves {
    fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
        for (column, value) in (first..).zip(out) {
            *value = (1.0 + row as f64 * 0.7 + column as f64 * 1.3).sin();
        }
    }
}

fn impulse_responses(strategy: &dyn Strategy, rows: usize, side: Side) -> Result<Array2<f64>> {
    let mut noise = CorrelatedNoise::new(strategy, rows, side, Box::new(Impulses { rows }))?;
    let mut matrix = Array2::zeros((strategy.steps(), rows));
    let mut buffer = vec![0.0; rows];
    for mut row in matrix.rows_mut() {
        noise.next_into(&mut buffer)?;
        row.assign(&ArrayView1::from(&buffer));
    }
    Ok(matrix)
}

/// The largest `‖Σ_{j∈S} ±C_j‖²` over admissible sets S and signs: all of them, or the equidistant ones where there are too many.
pub(crate) fn worst_set(strategy: &Array2<f64>, participation: Participation) -> f64 {
    let steps = strategy.ncols();
    let (times, separation) = (participation.times_within(steps), participation.separation());
    let moved = vec![0.0; strategy.nrows()];
    let every = (0..steps).collect::<Vec<_>>();
    if sets(steps, times, separation) <= MOST_SETS as f64 {
        return extend(strategy, &every, times, separation, &moved);
    }
    let mut worst = 0.0_f64;
    for stride in separation..=steps {
        for offset in 0..stride.min(steps) {
            let regular: Vec<usize> = (offset..steps).step_by(stride).take(times.min(10)).collect();
            worst = worst.max(extend(strategy, &regular, times, separation, &moved));
        }
    }
    worst
}

/// About how many sets with signs there are.
fn sets(steps: usize, times: usize, separation: usize) -> f64 {
    let free = (steps.saturating_sub((times.saturating_sub(1)) * (separation - 1))) as f64;
    (0..times).map(|chosen| 2.0 * (free - chosen as f64).max(1.0) / (chosen + 1) as f64).product()
}

fn extend(strategy: &Array2<f64>, steps: &[usize], left: usize, separation: usize, moved: &[f64]) -> f64 {
    let mut worst = norms::compensated_sum(moved.iter().map(|value| value * value));
    if left == 0 {
        return worst;
    }
    for (index, &step) in steps.iter().enumerate() {
        let later = &steps[index + 1..];
        let later = &later[later.partition_point(|other| *other < step + separation)..];
        for sign in [1.0, -1.0] {
            let next: Vec<f64> =
                moved.iter().zip(strategy.column(step)).map(|(sum, value)| sum + sign * value).collect();
            worst = worst.max(extend(strategy, later, left - 1, separation, &next));
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Method, NoiseFilter, RowNorms};
    use crate::{Problem, Sensitivity, Workload};

    #[test]
    fn every_strategy_of_this_crate_conforms() {
        let participations = [(2, 1), (3, 4), (2, 6)].map(|(k, b)| Participation::repeated(k, b).unwrap());
        for text in ["count", "average", "window:4", "step", "exp:1.3", "poly:0.5", "momentum:0.8"] {
            let problem = Problem::new(text.parse().unwrap(), 12).unwrap();
            for &method in Method::ALL {
                let Ok(strategy) = method.build(&problem) else { continue };
                assert_eq!(check(strategy.as_ref(), &participations).unwrap(), Ok(()), "{method} {text}");
            }
        }
    }

    /// A strategy with one thing wrong.
    #[derive(Debug)]
    struct Broken {
        inner: std::sync::Arc<dyn Strategy>,
        wrong: Law,
    }

    /// A filter whose noise is a third too small.
    struct Quiet(Box<dyn NoiseFilter>);

    impl NoiseFilter for Quiet {
        fn side(&self) -> Side {
            self.0.side()
        }

        fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
            self.0.next_into(source, out)?;
            out.iter_mut().for_each(|value| *value *= 2.0 / 3.0);
            Ok(())
        }
    }

    impl Strategy for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn workload(&self) -> &Workload {
            self.inner.workload()
        }

        fn steps(&self) -> usize {
            self.inner.steps()
        }

        fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
            let stated = self.inner.sensitivity(participation)?;
            let share = if self.wrong == Law::Sensitivity { 0.99 } else { 1.0 };
            Ok(Sensitivity { squared: share * stated.squared, ..stated })
        }

        fn row_norms(&self) -> Result<RowNorms> {
            let share = if self.wrong == Law::RowNorms { 0.99 } else { 1.0 };
            Ok(RowNorms::exact(self.inner.row_norms()?.iter().map(|norm| share * norm).collect()))
        }

        fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
            let filter = self.inner.noise_filter(dimension)?;
            Ok(if self.wrong == Law::Stream { Box::new(Quiet(filter)) } else { filter })
        }

        fn memory(&self, dimension: usize) -> usize {
            if self.wrong == Law::Memory { dimension * dimension } else { self.inner.memory(dimension) }
        }

        fn materialize(&self) -> Result<Factorization> {
            let mut factors = self.inner.materialize()?;
            if self.wrong == Law::Factorization {
                factors.strategy[[3, 1]] += 0.1;
            }
            Ok(factors)
        }

        fn measurement(&self) -> Result<Measurement> {
            let mut matrix = self.inner.materialize()?.strategy;
            if self.wrong == Law::Measurement {
                matrix[[1, 3]] = 0.1;
            }
            Ok(Measurement::Dense(matrix))
        }
    }

    #[test]
    fn every_broken_law_is_found() {
        let problem = Problem::new(Workload::count(), 10).unwrap();
        let wrongs =
            [Law::Factorization, Law::Stream, Law::Sensitivity, Law::RowNorms, Law::Memory, Law::Measurement];
        for wrong in wrongs {
            let inner = Method::Sqrt.build(&problem).unwrap();
            let found = check(&Broken { inner, wrong }, &[]).unwrap();
            assert_eq!(found.map_err(|violation| violation.law), Err(wrong));
        }
    }
}
