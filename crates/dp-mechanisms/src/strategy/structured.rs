//! The structured strategy: the decoder B of the optimal one, compressed to h diagonals and a lower triangle of rank r.
//!
//! `B̂_ij = B_ij` for `i - j < h`, and below the band
//!
//! `B̂_ij = Σ_k late_ik · θ_k^{i-j-h} · early_jk`
//!
//! fitted to B by alternating least squares. The powers of θ add nothing to what a rank-r triangle can express; with
//! time scales θ that are spread over the horizon they keep both factors of moderate size, so that neither the
//! fit nor the stream meets large numbers.
//!
//! `C = B̂⁻¹ A` follows. Its columns are nearly, not exactly, of norm 1, and a sensitivity set by the longest one makes
//! the error grow in proportion to the error of the fit (by half, for a window of 16 in 512 steps). So the columns are normalized
//! as well: `C D⁻¹` with `D = diag(‖C[:,j]‖)` has sensitivity 1 and the noise `ξ = D A⁻¹ B̂ z`. B is optimal, hence the loss
//! is of second order in the error of the fit. Workloads that cannot be undone with a short memory (polynomial decay,
//! given weights) keep the common factor `D = max_j ‖C[:,j]‖` and the noise `D B̂ z` on the output.
//!
//! Noise costs O((h + r) d) time per step and as much memory (and a ring of w for a window).

use std::sync::Arc;

use dp_linalg::{dense, forget, norms};
use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;

use super::optimal::{Optimal, of_normalized_columns};
use super::{
    Coefficients, Factorization, NoiseFilter, RowNorms, Strategy, Watch, check_materializable, least,
};
use crate::error::{Error, Result, check_count};
use crate::noise::{Side, UnitNoise};
use crate::problem::{Metric, Problem};
use crate::sensitivity::{self, Participation, Sensitivity};
use crate::workload::{InverseStream, Recurrence, Workload};

/// How much of B is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// h, the diagonals that are kept as they are, at least 1.
    pub diagonals: usize,
    /// r, the rank of the triangle below them.
    pub rank: usize,
}

impl Shape {
    /// `h = ⌈log2(n)/2⌉` and `r = ⌊log2(n)/2⌋`, which cost about a percent of the error up to n = 4096.
    pub fn for_steps(steps: usize) -> Self {
        let levels = steps.max(2).ilog2() as usize;
        Self { diagonals: levels.div_ceil(2).max(1), rank: (levels / 2).max(1) }
    }
}

/// The sweeps of the alternating fit.
const SWEEPS: usize = 40;

/// The ridge of every small least-squares problem, relative to its diagonal.
const RIDGE: f64 = 1e-10;

/// B̂ as the stream uses it.
#[derive(Debug, Clone)]
struct Compressed {
    /// Row t, age a: `B̂[t, t-a]`.
    band: Array2<f64>,
    /// θ.
    decays: Vec<f64>,
    /// Row j: what `z_j` adds to every accumulator when it leaves the band.
    early: Array2<f64>,
    /// Row t: how much of every accumulator release t contains.
    late: Array2<f64>,
}

impl Compressed {
    fn fit(decoder: ArrayView2<'_, f64>, shape: Shape) -> Self {
        let steps = decoder.nrows();
        let diagonals = shape.diagonals.min(steps);
        let band = Array2::from_shape_fn(
            (steps, diagonals),
            |(t, a)| if a <= t { decoder[[t, t - a]] } else { 0.0 },
        );
        let rest = steps - diagonals;
        let rank = shape.rank.min(rest);
        let decays: Vec<f64> = (0..rank)
            .map(|k| {
                let share = (k as f64 + 0.5) / rank as f64;
                let scale = diagonals as f64 * (steps as f64 / diagonals as f64).powf(share);
                (-1.0 / scale).exp()
            })
            .collect();
        let mut early = Array2::ones((steps, rank));
        let mut late = Array2::zeros((steps, rank));
        if rank > 0 {
            // Both halves of a sweep are the same problem once the matrix is turned around: release t against
            // the inputs up to t-h, or input j against the releases from j+h on, the farthest first.
            let by_release = |i: usize, j: usize| decoder[[diagonals + i, j]];
            let by_input = |i: usize, j: usize| decoder[[steps - 1 - j, rest - 1 - i]];
            for _ in 0..SWEEPS {
                let fixed: Vec<&[f64]> = early.rows().into_iter().filter_map(|row| row.to_slice()).collect();
                let fitted = half_sweep(rest, &decays, &fixed[..rest], by_release);
                for (i, row) in fitted.iter().enumerate() {
                    late.row_mut(diagonals + i).iter_mut().zip(row).for_each(|(value, new)| *value = *new);
                }
                let fixed: Vec<&[f64]> =
                    late.rows().into_iter().rev().filter_map(|row| row.to_slice()).collect();
                let fitted = half_sweep(rest, &decays, &fixed[..rest], by_input);
                for (i, row) in fitted.iter().enumerate() {
                    early.row_mut(rest - 1 - i).iter_mut().zip(row).for_each(|(value, new)| *value = *new);
                }
            }
        }
        Self { band, decays, early, late }
    }

    fn diagonals(&self) -> usize {
        self.band.ncols()
    }

    /// B̂ as a matrix.
    fn matrix(&self) -> Array2<f64> {
        let steps = self.band.nrows();
        let h = self.diagonals();
        let mut matrix = Array2::zeros((steps, steps));
        let mut state = vec![0.0; self.decays.len()];
        for (t, mut row) in matrix.outer_iter_mut().enumerate() {
            for j in t.saturating_sub(h - 1)..=t {
                row[j] = self.band[[t, t - j]];
            }
            // From the newest input outside the band to the oldest.
            state.iter_mut().zip(self.late.row(t)).for_each(|(power, late)| *power = *late);
            for j in (0..(t + 1).saturating_sub(h)).rev() {
                for ((power, decay), early) in state.iter_mut().zip(&self.decays).zip(self.early.row(j)) {
                    row[j] += *power * early;
                    *power *= decay;
                }
            }
        }
        matrix
    }
}

/// For every `i < rest` the coefficients x that minimize `Σ_{j ≤ i} (target(i, j) - Σ_k x_k θ_k^{i-j} fixed_jk)²`.
///
/// # Complexity
/// O(rest² · r + rest · r³), in parallel.
fn half_sweep(
    rest: usize,
    decays: &[f64],
    fixed: &[&[f64]],
    target: impl Fn(usize, usize) -> f64 + Sync,
) -> Vec<Vec<f64>> {
    let rank = decays.len();
    let mut grams = Vec::with_capacity(rest);
    let mut gram = vec![0.0; rank * rank];
    for row in fixed {
        for k in 0..rank {
            for l in 0..rank {
                let entry = &mut gram[k * rank + l];
                *entry = *entry * decays[k] * decays[l] + row[k] * row[l];
            }
        }
        grams.push(gram.clone());
    }
    grams
        .into_par_iter()
        .enumerate()
        .map(|(i, mut gram)| {
            let mut right = vec![0.0; rank];
            for (j, row) in fixed[..=i].iter().enumerate() {
                let value = target(i, j);
                for ((sum, decay), fixed) in right.iter_mut().zip(decays).zip(*row) {
                    *sum = *sum * decay + fixed * value;
                }
            }
            solve_ridge(&mut gram, &mut right);
            right
        })
        .collect()
}

/// Solves `(G + ridge · diag G) x = b` in place for a small positive semidefinite G, by Cholesky.
fn solve_ridge(gram: &mut [f64], right: &mut [f64]) {
    let rank = right.len();
    for k in 0..rank {
        gram[k * rank + k] = gram[k * rank + k] * (1.0 + RIDGE) + f64::MIN_POSITIVE;
        let floor = RIDGE * gram[k * rank + k];
        for l in 0..=k {
            let dot: f64 = (0..l).map(|m| gram[k * rank + m] * gram[l * rank + m]).sum();
            let entry = gram[k * rank + l] - dot;
            gram[k * rank + l] = if l == k { entry.max(floor).sqrt() } else { entry / gram[l * rank + l] };
        }
    }
    for k in 0..rank {
        let dot: f64 = (0..k).map(|m| gram[k * rank + m] * right[m]).sum();
        right[k] = (right[k] - dot) / gram[k * rank + k];
    }
    for k in (0..rank).rev() {
        let dot: f64 = (k + 1..rank).map(|m| gram[m * rank + k] * right[m]).sum();
        right[k] = (right[k] - dot) / gram[k * rank + k];
    }
}

/// The strategy of the compressed decoder.
///
/// # Privacy
/// The columns of the C that B̂ implies are normalized by upper bounds of their norms: the computed norm, rounded up,
/// times `1 + 4 n ε ‖B̂⁻¹‖_F ‖B̂‖_F` for the rounding of the triangular solve. The fit can cost accuracy, never privacy.
///
/// # Complexity
/// O((h + r) d) per step, besides undoing the workload.
#[derive(Debug, Clone)]
pub struct Structured {
    workload: Workload,
    /// Input if the columns have norms of their own.
    side: Side,
    compressed: Arc<Compressed>,
    /// The diagonal of D: the norms of the columns before, over those after.
    column_norms: Arc<[f64]>,
    /// The norm of the longest column; the others may be shorter.
    longest: f64,
    /// By how much rounding may have falsified an entry of C, relative to its column.
    rounding: f64,
    rows: RowNorms,
}

impl Structured {
    /// Compresses the strategy of least mean squared error to the default shape; for several participations that of least
    /// error under them, or the one for a single participation where its compression serves them better.
    ///
    /// # Errors
    /// As [`Structured::of`] and [`Optimal::new`].
    pub fn new(problem: &Problem, watch: &mut Watch<'_>) -> Result<Self> {
        let shape = Shape::for_steps(problem.steps());
        let once = problem.clone().with_participation(Participation::Single).with_metric(Metric::Mse);
        let single = Self::of(&Optimal::new(&once, watch)?, shape)?;
        if problem.times() <= 1 {
            return Ok(single);
        }
        let repeated = Self::of(&Optimal::new(problem, watch)?, shape)?;
        Ok(least([repeated, single.clone()], problem)?.unwrap_or(single))
    }

    /// Compresses a given optimal strategy. Its columns keep the norms that they have there.
    ///
    /// # Complexity
    /// O(n² r) for each sweep of the fit, and a few products of n×n matrices.
    ///
    /// # Errors
    /// No diagonals, or what the numeric core refuses.
    pub fn of(optimal: &Optimal, shape: Shape) -> Result<Self> {
        check_count("diagonals", shape.diagonals)?;
        let steps = optimal.steps();
        check_materializable(steps)?;
        let Factorization { decoder, strategy: fitted } = optimal.materialize()?;
        let lengths = norms::column_squared_norms(fitted.view()).mapv(f64::sqrt);
        let compressed = Compressed::fit(decoder.view(), shape);
        let workload = optimal.workload().materialize(steps)?;
        let matrix = compressed.matrix();
        let strategy = dense::solve_lower(matrix.view(), workload.view())?;
        let size = |matrix: Array2<f64>| norms::frobenius_squared(matrix.view()).sqrt();
        let inverse = size(dense::inverse_lower(matrix.view())?);
        let rounding = 4.0 * steps as f64 * f64::EPSILON * inverse * size(matrix.clone());
        let mut column_norms: Vec<f64> = strategy
            .axis_iter(Axis(1))
            .zip(&lengths)
            .map(|(column, length)| {
                let norm = norms::round_up_sum_of_squares(&column.to_vec()).sqrt().next_up();
                ((norm * (1.0 + rounding)).next_up() / length).next_up()
            })
            .collect();
        let side = native_side(optimal.workload());
        if side == Side::Output {
            let longest = column_norms.iter().copied().fold(0.0, f64::max);
            column_norms.fill(longest);
        }
        let mut this = Self {
            workload: optimal.workload().clone(),
            side,
            compressed: Arc::new(compressed),
            column_norms: column_norms.into(),
            longest: lengths.fold(0.0, |longest: f64, length| longest.max(*length)),
            rounding,
            rows: RowNorms::exact(Vec::new()),
        };
        this.rows = RowNorms::exact(norms::row_squared_norms(this.decoder(&matrix)?.view()).to_vec());
        Ok(this)
    }

    /// The strategy that consists of the numbers of [`Strategy::coefficients`].
    ///
    /// # Errors
    /// [`Error::State`] for lists that are missing or of another length.
    pub(crate) fn of_coefficients(workload: &Workload, steps: usize, saved: &Coefficients) -> Result<Self> {
        let decays = saved.list("decays")?;
        let table = |name: &str, width: usize| {
            let values = saved.list_of(name, steps.saturating_mul(width))?;
            Array2::from_shape_vec((steps, width), values)
                .map_err(|_| Error::State { reason: format!("its {name} do not fit") })
        };
        let diagonals = saved.number("diagonals")? as usize;
        check_count("diagonals", diagonals)?;
        let (early, late) = (table("early", decays.len())?, table("late", decays.len())?);
        let compressed = Compressed { band: table("band", diagonals)?, decays, early, late };
        Ok(Self {
            workload: workload.clone(),
            side: native_side(workload),
            compressed: Arc::new(compressed),
            column_norms: saved.list_of("column norms", steps)?.into(),
            longest: saved.number("longest")?,
            rounding: saved.number("rounding")?,
            rows: RowNorms::exact(saved.list_of("squared norms", steps)?),
        })
    }

    /// `A D A⁻¹ B̂`.
    fn decoder(&self, compressed: &Array2<f64>) -> Result<Array2<f64>> {
        if self.side == Side::Output {
            return Ok(compressed * self.column_norms[0]);
        }
        let workload = self.workload.materialize(self.steps())?;
        let mut undone = dense::solve_lower(workload.view(), compressed.view())?;
        for (mut row, norm) in undone.outer_iter_mut().zip(self.column_norms.iter()) {
            row *= *norm;
        }
        Ok(dense::matmul(workload.view(), undone.view()))
    }
}

/// Where the noise is made: on the release where the workload cannot be undone in a short memory.
fn native_side(workload: &Workload) -> Side {
    if workload.recurrence() == Recurrence::None { Side::Output } else { Side::Input }
}

impl Strategy for Structured {
    fn name(&self) -> &'static str {
        "structured"
    }

    fn workload(&self) -> &Workload {
        &self.workload
    }

    fn steps(&self) -> usize {
        self.column_norms.len()
    }

    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
        let times = participation.times_within(self.steps());
        if times <= 1 {
            let squared = Sensitivity::exact(self.longest * self.longest * (1.0 + 1e-15));
            return Ok(Sensitivity { exact: false, ..of_normalized_columns(squared, times) });
        }
        // Every computed column is off by at most the margin that its norm was raised by.
        let computed = sensitivity::dense(self.materialize()?.strategy.view(), participation)?;
        let length = computed.squared.sqrt() + times as f64 * self.longest * self.rounding;
        Ok(of_normalized_columns(Sensitivity::upper_bound(length * length * (1.0 + 1e-14)), times))
    }

    fn row_norms(&self) -> Result<RowNorms> {
        Ok(self.rows.clone())
    }

    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        let compressed = Arc::clone(&self.compressed);
        Ok(Box::new(Compression {
            ring: vec![0.0; compressed.diagonals() * dimension],
            accumulators: vec![0.0; compressed.decays.len() * dimension],
            release: vec![0.0; dimension],
            undo: match self.side {
                Side::Input => Some(self.workload.inverse_stream(self.steps(), dimension)?),
                Side::Output => None,
            },
            column_norms: Arc::clone(&self.column_norms),
            compressed,
            step: 0,
        }))
    }

    fn memory(&self, dimension: usize) -> usize {
        let kept = self.compressed.diagonals() + self.compressed.decays.len();
        let undo = match self.workload.recurrence() {
            Recurrence::Window { width } => width,
            _ => 1,
        };
        (kept + undo) * dimension + (kept + self.compressed.decays.len() + 1) * self.steps()
    }

    fn coefficients(&self) -> Option<Coefficients> {
        let Compressed { band, decays, early, late } = self.compressed.as_ref();
        let values = |table: &Array2<f64>| table.iter().copied().collect::<Vec<f64>>();
        let saved = Coefficients::none()
            .with("diagonals", [band.ncols() as f64])
            .with("band", values(band))
            .with("decays", decays.as_slice())
            .with("early", values(early))
            .with("late", values(late))
            .with("column norms", self.column_norms.as_ref())
            .with("longest", [self.longest])
            .with("rounding", [self.rounding]);
        Some(saved.with("squared norms", self.rows.iter().collect::<Vec<f64>>()))
    }

    fn materialize(&self) -> Result<Factorization> {
        let matrix = self.compressed.matrix();
        let workload = self.workload.materialize(self.steps())?;
        let mut strategy = dense::solve_lower(matrix.view(), workload.view())?;
        for (mut column, norm) in strategy.axis_iter_mut(Axis(1)).zip(self.column_norms.iter()) {
            column /= *norm;
        }
        Ok(Factorization { decoder: self.decoder(&matrix)?, strategy })
    }
}

/// `D_t (A⁻¹ B̂ z)_t` on the input, or `D (B̂ z)_t` on the output.
struct Compression {
    compressed: Arc<Compressed>,
    column_norms: Arc<[f64]>,
    /// The last h rows of z; step t stands in slot `t mod h`.
    ring: Vec<f64>,
    /// `Σ_{j ≤ t-h} θ_k^{t-h-j} early_jk z_j`, one row for each k.
    accumulators: Vec<f64>,
    /// `(B̂ z)_t`.
    release: Vec<f64>,
    /// `A⁻¹`, when the noise goes to the input.
    undo: Option<InverseStream>,
    step: usize,
}

impl Drop for Compression {
    fn drop(&mut self) {
        [&mut self.ring, &mut self.accumulators, &mut self.release].into_iter().for_each(|kept| forget(kept));
    }
}

impl NoiseFilter for Compression {
    fn side(&self) -> Side {
        if self.undo.is_some() { Side::Input } else { Side::Output }
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let Compressed { band, decays, early, late } = self.compressed.as_ref();
        let (t, h, dimension) = (self.step, band.ncols(), out.len());
        let slot = t % h * dimension..(t % h + 1) * dimension;
        self.release.fill(0.0);
        if let Some(left) = t.checked_sub(h) {
            let leaving = &self.ring[slot.clone()];
            for (k, accumulator) in self.accumulators.chunks_exact_mut(dimension).enumerate() {
                let (decay, early, late) = (decays[k], early[[left, k]], late[[t, k]]);
                for ((sum, z), value) in accumulator.iter_mut().zip(leaving).zip(&mut self.release) {
                    *sum = *sum * decay + early * z;
                    *value += late * *sum;
                }
            }
        }
        source.fill_row(t, &mut self.ring[slot]);
        for age in 0..h.min(t + 1) {
            let start = (t - age) % h * dimension;
            let weight = band[[t, age]];
            for (value, z) in self.release.iter_mut().zip(&self.ring[start..start + dimension]) {
                *value += weight * z;
            }
        }
        match &mut self.undo {
            Some(undo) => undo.push(&self.release, out)?,
            None => out.copy_from_slice(&self.release),
        }
        let norm = self.column_norms[t];
        for value in out {
            *value *= norm;
        }
        self.step += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::unwatched;

    fn optimal(workload: &Workload, steps: usize) -> Optimal {
        Optimal::new(&Problem::new(workload.clone(), steps).unwrap(), &mut unwatched).unwrap()
    }

    #[test]
    fn the_published_losses_are_reached() {
        // The square root of n·E2: the optimum, and what was published for this shape.
        let rows = [(256, 40.3906, 40.4, 4, 4), (512, 61.9852, 62.2, 5, 4), (1024, 94.5745, 95.5, 5, 5)];
        for (steps, optimum, published, diagonals, rank) in rows {
            let shape = Shape::for_steps(steps);
            assert_eq!(shape, Shape { diagonals, rank });
            let optimal = optimal(&Workload::count(), steps);
            let strategy = Structured::of(&optimal, shape).unwrap();
            let loss = (steps as f64 * strategy.row_norms().unwrap().mean()).sqrt();
            assert!(loss > optimum * (1.0 - 1e-5) && loss < optimum * 1.0002, "{steps}: {loss}");
            assert!(loss < published, "{steps}: {loss}");
        }
    }

    /// Row i of z is the i-th unit vector, so that noise is a matrix.
    struct Units;

    impl UnitNoise for Units {
        fn fill_range(&self, row: usize, first: usize, out: &mut [f64]) {
            for (coordinate, value) in out.iter_mut().enumerate() {
                *value = if coordinate + first == row { 1.0 } else { 0.0 };
            }
        }
    }

    #[test]
    fn the_stream_is_the_matrix_and_the_matrices_factor_the_workload() {
        let steps = 24;
        let close = |left: &Array2<f64>, right: &Array2<f64>| {
            (left - right).iter().all(|difference| difference.abs() < 1e-9)
        };
        for text in ["count", "average", "window:5", "exp:1.2", "poly:1", "momentum:0.5"] {
            let workload: Workload = text.parse().unwrap();
            let matrix = workload.materialize(steps).unwrap();
            let optimal = optimal(&workload, steps);
            for (diagonals, rank) in
                [(1, 0), (1, 1), (4, 2), (steps - 1, 3), (steps, 3), (2 * steps, 40), (2, 40)]
            {
                let strategy = Structured::of(&optimal, Shape { diagonals, rank }).unwrap();
                let factors = strategy.materialize().unwrap();
                assert!(close(&factors.decoder.dot(&factors.strategy), &matrix), "{text} {diagonals} {rank}");
                let mut filter = strategy.noise_filter(steps).unwrap();
                let mut noise = Array2::zeros((steps, steps));
                for mut row in noise.outer_iter_mut() {
                    filter.next_into(&mut Units, row.as_slice_mut().unwrap()).unwrap();
                }
                let release = if filter.side() == Side::Input { matrix.dot(&noise) } else { noise };
                assert!(close(&release, &factors.decoder), "{text} {diagonals} {rank}");
                let longest = norms::max_column_norm(factors.strategy.view());
                assert!(longest <= 1.0 && longest > 1.0 - 1e-9, "{text} {diagonals} {rank}: {longest}");
                if diagonals >= steps {
                    let ratio = strategy.row_norms().unwrap().mean() / optimal.certificate().error;
                    assert!((ratio - 1.0).abs() < 1e-8, "{text}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn bounds_and_refusals() {
        let optimal = optimal(&Workload::count(), 20);
        assert!(Structured::of(&optimal, Shape { diagonals: 0, rank: 2 }).is_err());
        let strategy = Structured::of(&optimal, Shape { diagonals: 3, rank: 2 }).unwrap();
        let single = strategy.sensitivity(Participation::Single).unwrap().squared;
        assert!((1.0..1.0 + 1e-12).contains(&single));
        let twice = strategy.sensitivity(Participation::repeated(2, 5).unwrap()).unwrap().squared;
        assert!(twice > 2.0 && twice < 4.0 + 1e-9, "{twice}");
        let problem = Problem::new(Workload::count(), 1).unwrap();
        let one = Structured::new(&problem, &mut unwatched).unwrap();
        assert!((one.row_norms().unwrap().mean() - 1.0).abs() < 1e-12);
    }
}
