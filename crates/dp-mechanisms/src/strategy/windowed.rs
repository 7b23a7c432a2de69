//! The core of strategies for windows: a few buffers for the count, and a ring for what the window lets go of.
//!
//! The square root of `(1 - x^w)/(1 - x)` is that of the count times `(1 - x^w)^{1/2}`, and
//!
//! `c(x) = r(x) · (1 - ζ x^w)/(1 - π x^w)`, `0 < π < ζ < 1`,
//!
//! approximates both factors by rational functions, r as in [`super::blt`]. The noise takes k buffers and a ring of w values for each
//! coordinate, as many as the window itself, where the square root takes all steps. Near the frequencies at which `1 - x^w`
//! vanishes the two differ, but little of the error comes from there: 0.3 % in all for windows far from the horizon.
//!
//! From window to window c and the decoder `b = a/c` are sums of k or k+1 geometric sequences, to which each window adds
//! another impulse. So both norms are closed forms, O(k²) for every window of the horizon.

use dp_linalg::minimize::{self, Options};
use dp_linalg::rational::{Comb, Mode, Sum, sum_of_squares};

use super::blt::{self, Roots};
use super::toeplitz::Core;
use super::{Progress, Watch, tell};
use crate::error::{Result, check_count};

/// The windows of the horizon to which a core is fitted. More of them change nothing.
const MOST_WINDOWS: usize = 32;

/// Log-odds of ζ, and of π as a part of ζ, where the fit begins: they hardly depend on the window.
const START: [f64; 2] = [0.9, -0.6];

/// The number of buffers beside the ring: one more than for a count as long as the window.
pub(super) fn default_buffers(width: usize) -> usize {
    blt::default_buffers(width) + 1
}

/// The best core for a window within so many steps, by the mean squared error.
///
/// # Complexity
/// Some hundred evaluations of [`Fit::error`] for every parameter.
///
/// # Errors
/// Zero buffers, what the numeric core refuses, or a watch that stops the fit.
pub(super) fn fit(width: usize, steps: usize, buffers: usize, watch: &mut Watch<'_>) -> Result<Core> {
    check_count("buffers", buffers)?;
    let fit = Fit { width, steps: steps.min(MOST_WINDOWS.saturating_mul(width)) };
    let objective = |point: &[f64], gradient: &mut [f64]| -> Result<f64> {
        tell(watch, Progress::Evaluation)?;
        minimize::numeric_gradient(|point| Ok(fit.error(point)), point, 1e-5, gradient)
    };
    let options = Options { iterations: 200, relative_decrease: 1e-11, memory: 16 };
    let mut start = blt::spread(width, buffers);
    start.extend(START);
    let point = minimize::lbfgs(objective, start, options)?.point;
    let (roots, [zero, pole]) = parts(&point);
    Ok(Core::Windowed { rational: roots.simplified().rational()?, comb: Comb::new(width, zero, pole)? })
}

/// The roots of r, and ζ and π.
fn parts(point: &[f64]) -> (Roots, [f64; 2]) {
    let (roots, odds) = point.split_at(point.len() - START.len());
    let share = |odds: f64| 1.0 / (1.0 + (-odds).exp());
    let zero = share(odds[0]);
    (Roots::at(roots, 0.0), [zero, zero * share(odds[1])])
}

/// The error as a function of the parameters.
struct Fit {
    width: usize,
    steps: usize,
}

impl Fit {
    /// `Δ² ‖B‖_F²/n` of the core.
    ///
    /// **Complexity** O(k²) for every window of the horizon.
    fn error(&self, point: &[f64]) -> f64 {
        let (roots, [zero, pole]) = parts(point);
        let error = self.strategy(&roots, zero, pole) * self.decoder(&roots, zero, pole);
        // Roots that have met make the fractions cancel; nothing positive comes of them.
        if error > 0.0 { error } else { f64::INFINITY }
    }

    /// The starts of all windows, and how many steps they have.
    fn windows(&self) -> impl Iterator<Item = (usize, usize)> {
        let (width, steps) = (self.width, self.steps);
        (0..steps).step_by(width).map(move |start| (start, width.min(steps - start)))
    }

    /// `Σ c_k²`.
    fn strategy(&self, roots: &Roots, zero: f64, pole: f64) -> f64 {
        let modes = roots.strategy_modes();
        let mut flight = resting(&modes);
        let (mut impulse, mut total) = (1.0, 0.0);
        for (start, length) in self.windows() {
            let value = impulse + flight.iter().map(|mode| mode.weight).sum::<f64>();
            for (state, mode) in flight.iter_mut().zip(&modes) {
                state.weight = state.weight * (1.0 - mode.gap) + impulse * mode.weight;
            }
            total += value * value + sum_of_squares(&flight, Sum::Plain, length - 1);
            advance(&mut flight, length - 1);
            impulse = if start == 0 { pole - zero } else { impulse * pole };
        }
        total
    }

    /// `Σ_k (n-k) b_k² / n`.
    fn decoder(&self, roots: &Roots, zero: f64, pole: f64) -> f64 {
        let modes = roots.decoder_modes(&[0.0]);
        let mut flight = resting(&modes);
        // Of (1 - π u)/(1 - ζ u), and times 1 - u.
        let (mut quotient, mut before, mut total) = (1.0, 0.0, 0.0);
        for (start, length) in self.windows() {
            for (state, mode) in flight.iter_mut().zip(&modes) {
                state.weight += (quotient - before) * mode.weight;
            }
            let later = (self.steps - start - length) as f64;
            total += sum_of_squares(&flight, Sum::Triangular, length);
            if later > 0.0 {
                total += later * sum_of_squares(&flight, Sum::Plain, length);
            }
            advance(&mut flight, length);
            before = quotient;
            quotient = if start == 0 { zero - pole } else { quotient * zero };
        }
        total / self.steps as f64
    }
}

/// The same sequences, before anything has set them going.
fn resting(modes: &[Mode]) -> Vec<Mode> {
    modes.iter().map(|mode| Mode { gap: mode.gap, weight: 0.0 }).collect()
}

/// The sequences so many steps later.
fn advance(modes: &mut [Mode], steps: usize) {
    for mode in modes {
        mode.weight *= (steps as f64 * (-mode.gap).ln_1p()).exp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::toeplitz::ToeplitzStrategy;
    use crate::strategy::{Strategy, unwatched};
    use crate::{Participation, Workload};
    use approx::assert_relative_eq;

    fn error(strategy: &ToeplitzStrategy) -> f64 {
        strategy.sensitivity(Participation::Single).unwrap().squared * strategy.row_norms().unwrap().mean()
    }

    #[test]
    fn closed_forms_agree_with_the_coefficients_in_use() {
        for (width, steps) in [(2, 40), (7, 100), (40, 300), (299, 300)] {
            let mut point = blt::spread(width, 3);
            point.extend([0.3, -0.4]);
            let (roots, [zero, pole]) = parts(&point);
            let core = Core::Windowed {
                rational: roots.rational().unwrap(),
                comb: Comb::new(width, zero, pole).unwrap(),
            };
            let workload = Workload::window(width).unwrap();
            let strategy = ToeplitzStrategy::plain("test", &workload, steps, core).unwrap();
            assert_relative_eq!(Fit { width, steps }.error(&point), error(&strategy), max_relative = 1e-8);
        }
    }

    #[test]
    fn a_ring_comes_close_to_the_whole_square_root() {
        for (width, steps) in [(32, 1024), (250, 1024)] {
            let workload = Workload::window(width).unwrap();
            let core = fit(width, steps, default_buffers(width), &mut unwatched).unwrap();
            let ring = error(&ToeplitzStrategy::plain("ring", &workload, steps, core).unwrap());
            let problem = crate::Problem::new(workload, steps).unwrap();
            let whole = error(&crate::strategy::toeplitz::sqrt(&problem).unwrap());
            let alone = error(&blt::blt(&problem, &mut unwatched).unwrap());
            assert!(ring < 1.004 * whole, "{width}: {ring} {whole}");
            assert!(ring < 0.93 * alone, "{width}: {ring} {alone}");
        }
    }
}
