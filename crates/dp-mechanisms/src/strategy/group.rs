//! The group-algebra factorization of the count (Henzinger, Upadhyay 2025), for the maximum error.
//!
//! The count is the upper left quarter of the circulant matrix M of size 2n with first column `1ⁿ 0ⁿ`. With R the circulant
//! square root of M, `A = B C` for B the upper half of R (n × 2n) and C its left half (2n × n): every row of B and every
//! column of C has the squared norm `Σ r_k² = ½ + γ̂(n)/2`, `γ̂(n) = (1/n) Σ_j 1/|sin((2j-1)π/(2n))|`. All releases have the same
//! variance, and the noise `B z` is a stationary process.
//!
//! The eigenvalues of M at even frequencies vanish, but for the one at 0. So r is a constant `κ = 1/(2√n)` plus a sequence s that
//! changes sign every n steps, and `(B z)_t = κ Σ_j z_j + Σ_{j<n} s_{t-j} (z_j - z_{j+n})`: a product modulo `x^n + 1`, of half the
//! length that the circulant suggests.
//!
//! B is not lower triangular: noise depends on all of z from the first release on. That is private for adaptive streams
//! because z is Gaussian and never depends on the data.

use std::sync::{Arc, OnceLock};

use dp_linalg::fft::{self, NegacyclicKernel};
use dp_linalg::norms;
use ndarray::Array2;
use zeroize::Zeroize;

use super::{
    Coefficients, Factorization, Measurement, NoiseFilter, RowNorms, Strategy, check_materializable,
};
use crate::error::{Error, Result, check_count};
use crate::noise::{Side, UnitNoise};
use crate::problem::Problem;
use crate::sensitivity::{self, Participation, Sensitivity};
use crate::workload::Workload;

/// Both halves of the circulant square root.
#[derive(Debug, Clone)]
pub struct Group {
    workload: Workload,
    /// The first column of R: 2n values.
    root: Vec<f64>,
    /// What streams multiply by, made by the first one and shared by all.
    kernel: OnceLock<Arc<NegacyclicKernel>>,
}

impl Group {
    /// The factorization of the count over the given number of steps.
    ///
    /// # Complexity
    /// Two transforms of length 2n.
    ///
    /// # Errors
    /// A workload other than the count.
    pub fn new(problem: &Problem) -> Result<Self> {
        let (workload, steps) = (problem.workload(), problem.steps());
        if !workload.is_count() {
            return Err(Error::NotApplicable {
                strategy: "group",
                workload: workload.to_string(),
                reason: "it is a factorization of the count",
            });
        }
        let mut column = vec![0.0; 2 * steps];
        column[..steps].fill(1.0);
        let mut root = fft::circulant_power(&column, |eigenvalue| eigenvalue.powf(0.5));
        // The root of an eigenvalue that should vanish is the root of its rounding error: the parts are put together anew.
        let constant = constant_part(steps);
        let (first, second) = root.split_at_mut(steps);
        for (a, b) in first.iter_mut().zip(second) {
            let odd = (*a - *b) / 2.0;
            (*a, *b) = (constant + odd, constant - odd);
        }
        Ok(Self { workload: workload.clone(), root, kernel: OnceLock::new() })
    }

    /// The strategy that consists of the numbers of [`Strategy::coefficients`].
    ///
    /// # Errors
    /// [`Error::State`] for a list that is missing or of another length.
    pub(crate) fn of_coefficients(workload: &Workload, steps: usize, saved: &Coefficients) -> Result<Self> {
        let root = saved.list_of("root", steps.saturating_mul(2))?;
        Ok(Self { workload: workload.clone(), root, kernel: OnceLock::new() })
    }

    fn squared_norm(&self) -> f64 {
        norms::round_up_sum_of_squares(&self.root)
    }
}

impl Strategy for Group {
    fn name(&self) -> &'static str {
        "group"
    }

    fn workload(&self) -> &Workload {
        &self.workload
    }

    fn steps(&self) -> usize {
        self.root.len() / 2
    }

    /// Exact for one participation. For more, inner products of columns depend on their distance alone, and the i-th and
    /// j-th participation are at least `|i-j| · separation` apart: with `h_d` the largest magnitude at distance d or more,
    /// `Δ² ≤ times · h_0 + 2 Σ_{m≥1} (times - m) h_{m·separation}`.
    fn sensitivity(&self, participation: Participation) -> Result<Sensitivity> {
        let single = self.squared_norm();
        let steps = self.steps();
        let times = participation.times_within(steps);
        if times <= 1 {
            return Ok(Sensitivity::exact(single));
        }
        // Distances stay below n, so the cyclic correlation is the sum of the two ways around.
        let size = self.root.len();
        let forward = fft::correlate(&self.root, &self.root);
        let slack = 64.0 * f64::EPSILON * (size as f64).log2() * single;
        let mut majorant: Vec<f64> = (0..steps)
            .map(|distance| {
                let backward = if distance == 0 { 0.0 } else { forward[size - distance] };
                (forward[distance] + backward).abs() + slack
            })
            .collect();
        for distance in (1..steps).rev() {
            majorant[distance - 1] = majorant[distance - 1].max(majorant[distance]);
        }
        let crossed: f64 = (1..times)
            .map(|m| 2.0 * (times - m) as f64 * majorant[(m * participation.separation()).min(steps - 1)])
            .sum();
        let bound = (times as f64 * single + crossed) * (1.0 + (times + 8) as f64 * f64::EPSILON);
        let trivial = sensitivity::triangle_bound(times, single);
        Ok(Sensitivity::upper_bound(bound.min(trivial)))
    }

    fn row_norms(&self) -> Result<RowNorms> {
        Ok(RowNorms::exact(vec![self.squared_norm(); self.steps()]))
    }

    fn noise_filter(&self, dimension: usize) -> Result<Box<dyn NoiseFilter>> {
        check_count("dimension", dimension)?;
        let kernel = if let Some(kernel) = self.kernel.get() {
            Arc::clone(kernel)
        } else {
            let (first, second) = self.root.split_at(self.steps());
            let odd: Vec<f64> = first.iter().zip(second).map(|(a, b)| (a - b) / 2.0).collect();
            let made = Arc::new(NegacyclicKernel::new(&odd)?);
            Arc::clone(self.kernel.get_or_init(|| made))
        };
        let constant = constant_part(self.steps());
        Ok(Box::new(Stationary { kernel, constant, steps: self.steps(), noise: Vec::new(), step: 0 }))
    }

    fn memory(&self, dimension: usize) -> usize {
        self.root.len() + self.steps() * dimension
    }

    fn coefficients(&self) -> Option<Coefficients> {
        Some(Coefficients::none().with("root", self.root.as_slice()))
    }

    fn measurement(&self) -> Result<Measurement> {
        Err(Error::NotApplicable {
            strategy: self.name(),
            workload: self.workload().to_string(),
            reason: "its measurements know later inputs",
        })
    }

    fn materialize(&self) -> Result<Factorization> {
        let steps = self.steps();
        check_materializable(steps)?;
        let size = self.root.len();
        let entry = |(i, j): (usize, usize)| self.root[(i + size - j) % size];
        Ok(Factorization {
            decoder: Array2::from_shape_fn((steps, size), entry),
            strategy: Array2::from_shape_fn((size, steps), entry),
        })
    }
}

/// κ.
fn constant_part(steps: usize) -> f64 {
    0.5 / (steps as f64).sqrt()
}

/// The whole stationary process, made by FFT when the first step asks for it.
struct Stationary {
    kernel: Arc<NegacyclicKernel>,
    /// κ.
    constant: f64,
    steps: usize,
    /// The vectors of all steps, one after the other; empty until the first step.
    noise: Vec<f64>,
    step: usize,
}

/// Rows of z that are read together.
const ROWS: usize = 1 << 12;

impl Stationary {
    fn make(&mut self, source: &mut dyn UnitNoise, dimension: usize) -> Result<()> {
        let mut noise = vec![0.0; self.steps * dimension];
        source.fill_rows(0, dimension, &mut noise);
        let mut sums = vec![0.0; dimension];
        let mut later = vec![0.0; ROWS.min(self.steps) * dimension];
        for (part, rows) in noise.chunks_mut(later.len()).enumerate() {
            let later = &mut later[..rows.len()];
            source.fill_rows(self.steps + part * ROWS.min(self.steps), dimension, later);
            for (row, later) in rows.chunks_exact_mut(dimension).zip(later.chunks_exact(dimension)) {
                for ((value, later), sum) in row.iter_mut().zip(later).zip(&mut sums) {
                    *sum += *value + later;
                    *value -= later;
                }
            }
        }
        later.zeroize();
        let mut scratch = fft::Scratch::default();
        let mut column = vec![0.0; if dimension == 1 { 0 } else { self.steps }];
        for (coordinate, sum) in sums.iter().enumerate() {
            let shift = self.constant * sum;
            if dimension == 1 {
                self.kernel.apply_in_place(&mut noise, &mut scratch)?;
                noise.iter_mut().for_each(|value| *value += shift);
                continue;
            }
            let strided = noise[coordinate..].iter_mut().step_by(dimension);
            column.iter_mut().zip(strided).for_each(|(value, noise)| *value = *noise);
            self.kernel.apply_in_place(&mut column, &mut scratch)?;
            let strided = noise[coordinate..].iter_mut().step_by(dimension);
            column.iter().zip(strided).for_each(|(value, noise)| *noise = value + shift);
        }
        column.zeroize();
        self.noise = noise;
        Ok(())
    }
}

impl NoiseFilter for Stationary {
    fn side(&self) -> Side {
        Side::Output
    }

    fn next_into(&mut self, source: &mut dyn UnitNoise, out: &mut [f64]) -> Result<()> {
        let dimension = out.len();
        self.next_rows(source, dimension, out)
    }

    fn next_rows(&mut self, source: &mut dyn UnitNoise, dimension: usize, out: &mut [f64]) -> Result<()> {
        if self.noise.is_empty() {
            self.make(source, dimension)?;
        }
        out.copy_from_slice(&self.noise[self.step * dimension..][..out.len()]);
        self.step += out.len() / dimension;
        Ok(())
    }
}

/// What was made ahead is wiped from memory.
impl Drop for Stationary {
    fn drop(&mut self) {
        self.noise.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(steps: usize) -> Group {
        Group::new(&Problem::new(Workload::count(), steps).unwrap()).unwrap()
    }

    #[test]
    fn every_row_and_column_has_the_norm_of_the_closed_form() {
        for steps in [1, 2, 3, 16, 100, 256] {
            let strategy = count(steps);
            let factors = strategy.materialize().unwrap();
            let worst = (factors.decoder.dot(&factors.strategy)
                - Workload::count().materialize(steps).unwrap())
            .iter()
            .fold(0.0_f64, |m, v| m.max(v.abs()));
            assert!(worst < 1e-12, "{steps}: {worst}");
            let gamma = (1..=steps)
                .map(|j| ((2 * j - 1) as f64 * std::f64::consts::PI / (2 * steps) as f64).sin().abs().recip())
                .sum::<f64>()
                / steps as f64;
            let expected = 0.5 + 0.5 * gamma;
            for norm in factors
                .decoder
                .rows()
                .into_iter()
                .chain(factors.strategy.columns())
                .map(|v| v.iter().map(|x| x * x).sum::<f64>())
                .chain([strategy.squared_norm(), strategy.row_norms().unwrap().max()])
            {
                assert!((norm / expected - 1.0).abs() < 1e-12, "{steps}: {norm} {expected}");
            }
        }
    }

    #[test]
    fn repeated_participation_is_bounded() {
        let strategy = count(12);
        let matrix = strategy.materialize().unwrap().strategy;
        for (times, separation) in [(2, 3), (3, 5), (4, 1), (12, 1)] {
            let participation = Participation::repeated(times, separation).unwrap();
            let bound = strategy.sensitivity(participation).unwrap().squared;
            let mut worst = 0.0_f64;
            for set in 1_u32..1 << 12 {
                let steps: Vec<usize> = (0..12).filter(|j| set >> j & 1 == 1).collect();
                let apart = steps.windows(2).all(|pair| pair[1] - pair[0] >= separation);
                if steps.len() <= times && apart {
                    let total =
                        steps.iter().fold(ndarray::Array1::zeros(24), |sum, &j| sum + matrix.column(j));
                    worst = worst.max(total.dot(&total));
                }
            }
            assert!(bound >= worst && bound < 2.0 * worst, "{times}:{separation}: {bound} {worst}");
        }
    }

    #[test]
    fn other_workloads_are_refused() {
        let refused = Group::new(&Problem::new(Workload::average(), 8).unwrap());
        assert!(matches!(refused, Err(Error::NotApplicable { strategy: "group", .. })));
    }

    #[test]
    fn the_noise_is_that_of_the_decoder() {
        let (steps, dimension) = (9, 2);
        let strategy = count(steps);
        let decoder = strategy.materialize().unwrap().decoder;
        let mut source = crate::GaussianSource::new(crate::Seed::reproducible(5), dimension);
        let mut z = Array2::zeros((2 * steps, dimension));
        let mut row = vec![0.0; dimension];
        for step in 0..2 * steps {
            source.fill_row(step, &mut row);
            z.row_mut(step).iter_mut().zip(&row).for_each(|(out, value)| *out = *value);
        }
        let expected = decoder.dot(&z);
        let mut filter = strategy.noise_filter(dimension).unwrap();
        for step in 0..steps {
            filter.next_into(&mut source, &mut row).unwrap();
            for (made, wanted) in row.iter().zip(expected.row(step)) {
                assert!((made - wanted).abs() < 1e-12);
            }
        }
    }
}
