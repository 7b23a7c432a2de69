//! How far the matrix that is really applied lies from the one whose norms are known.
//!
//! A filter that streams with separately computed coefficients g of `1/c` applies the strategy `1/g` and not c. With
//! `r = c·g - 1`, all n coefficients of it, `1/g = c/(1+r)`. Written as matrices the strategy in use is `C E` with
//! `E = D2⁻¹ (1+R)⁻¹ D2`, where D2 scales the columns (or is 1). Column j of `E - 1` has ℓ1 norm at most
//! `κ ‖r‖_1 / (1 - ‖r‖_1)`, κ the largest ratio of a later entry of `D2⁻¹` to an earlier one, and for contributions d of one
//! person
//!
//! `‖C E d‖ ≤ ‖C d‖ + Σ_j |d_j| ‖C (E-1) e_j‖ ≤ Δ (1 + times · κ ‖r‖_1 / (1 - ‖r‖_1))`,
//!
//! since no column is longer than Δ. A comb is undone by its own recursion, which applies c itself; but its coefficients are differences, and
//! what is computed of them is a c̃. With `r = (c̃ - c)/c` again `c = c̃/(1+r)`, and [`dp_linalg::rational::Comb::rounding`] bounds
//! `‖r‖_1`. That factor is charged; a filter whose inverse has lost most of its digits is refused.

use dp_linalg::fft;

use super::{Core, Scaling};
use crate::error::{Error, Result};
use crate::workload::Workload;

/// The largest `‖r‖_1` that is charged; the sensitivity grows by less than this fraction for each participation.
const LARGEST_RESIDUAL: f64 = 1e-3;

/// Up to this many steps the product is summed directly, whose rounding is bounded more tightly.
const DIRECT_LIMIT: usize = 4096;

/// An upper bound of `‖c·g - 1‖_1` for a core that streams with a separate inverse, and 0 for one that is undone by its own
/// recursion. A comb is undone by its own recursion too, but its coefficients are differences: for them it is what rounding may
/// have left between the recursion and the coefficients.
///
/// # Complexity
/// One product of series.
///
/// # Errors
/// [`Error::NotApplicable`] where the inverse is too far from one to be charged for.
pub(super) fn residual(core: &Core, name: &'static str, workload: &Workload, steps: usize) -> Result<f64> {
    let bound = match core {
        Core::Full { .. } | Core::BandedInverse(_) => {
            product_residual(&core.coefficients(steps)?, &core.inverse(steps)?)
        }
        Core::Windowed { rational, comb } => comb.rounding(rational, steps)?,
        Core::Rational(_) | Core::Banded(_) => return Ok(0.0),
    };
    if bound <= LARGEST_RESIDUAL {
        return Ok(bound);
    }
    Err(Error::NotApplicable {
        strategy: name,
        workload: workload.to_string(),
        reason: "the inverse of its coefficients grows so fast that rounding would change what is measured; \
                 use optimal, identity or output",
    })
}

/// `‖c·g - 1‖_1`, and what rounding may have hidden.
fn product_residual(coefficients: &[f64], inverse: &[f64]) -> f64 {
    let steps = coefficients.len();
    let distance = |(index, value): (usize, f64)| (value - f64::from(u8::from(index == 0))).abs();
    if steps <= DIRECT_LIMIT {
        let entry = |index: usize| {
            let terms = coefficients[..=index].iter().zip(inverse[..=index].iter().rev());
            let (sum, absolute) = terms.fold((0.0, 0.0), |(sum, absolute), (c, g)| {
                let term = c * g;
                (sum + term, absolute + term.abs())
            });
            distance((index, sum)) + (index + 4) as f64 * f64::EPSILON * absolute
        };
        return (0..steps).map(entry).sum::<f64>() * (1.0 + steps as f64 * f64::EPSILON);
    }
    let energy = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let depth = (steps as f64).log2() + 4.0;
    let rounding = 16.0 * depth * f64::EPSILON * energy(coefficients) * energy(inverse);
    let product = fft::convolve_truncated(coefficients, inverse, steps);
    let sum: f64 = product.into_iter().enumerate().map(distance).sum();
    (sum + steps as f64 * rounding) * (1.0 + steps as f64 * f64::EPSILON)
}

/// By what the squared sensitivity under so many participations grows for a residual.
pub(super) fn charge(residual: f64, spread: f64, times: usize) -> f64 {
    let factor = 1.0 + times as f64 * spread * (residual / (1.0 - residual)) * (1.0 + 1e-12);
    (factor * factor).next_up().next_up()
}

/// κ: the largest ratio of an entry of `D2⁻¹` to an earlier one, at least 1.
pub(super) fn spread(scaling: &Scaling) -> f64 {
    let mut smallest = f64::INFINITY;
    scaling.column_norms.iter().fold(1.0_f64, |largest, norm| {
        smallest = smallest.min(*norm);
        largest.max(norm / smallest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::sensitivity::Participation;
    use crate::strategy::toeplitz::ToeplitzStrategy;
    use crate::strategy::{Measurement, Method, Strategy};
    use crate::{Problem, planner};

    #[test]
    fn an_inverse_without_digits_is_refused_and_the_planner_goes_on() {
        // The root is 1 + 1.08x. Its inverse grows to 10^20, and what is applied in its place has a sensitivity of 2e5, not 1.47.
        let workload = Workload::weights(&[1.0, 2.16, 1.08 * 1.08]).unwrap();
        let long = Problem::new(workload.clone(), 600).unwrap();
        let refused = [Method::Sqrt, Method::NormalizedSqrt, Method::ScaledSqrt, Method::BandedInverse];
        for method in refused {
            assert!(matches!(method.build(&long), Err(Error::NotApplicable { .. })), "{method}");
        }
        let core = crate::strategy::toeplitz::sqrt_core(&workload, 600).unwrap();
        for columns in [None, Some(vec![1.0; 600])] {
            let measurement = Measurement::Scaled { rows: vec![1.0; 600], core: core.clone(), columns };
            let refused = ToeplitzStrategy::measuring("measured", &workload, 600, measurement);
            assert!(matches!(refused, Err(Error::NotApplicable { .. })));
        }
        let footprint = crate::Footprint::scalar(0.0, 1.0, crate::Relation::ZeroOut, Participation::Single);
        let chosen = planner::best(&long, &footprint.unwrap(), 1).unwrap();
        assert!(!refused.iter().any(|method| method.name() == chosen.name()), "{}", chosen.name());
        // Over a few steps nothing is lost.
        let short = Method::Sqrt.build(&Problem::new(workload, 20).unwrap()).unwrap();
        let squared = short.sensitivity(Participation::Single).unwrap().squared;
        assert!((squared - (1.0 + 1.08 * 1.08)).abs() < 1e-9, "{squared}");
    }

    #[test]
    fn what_is_charged_covers_the_matrix_in_use() {
        // An inverse that is off by a known series: r = 1e-4 (x - x²) c.
        let steps = 12;
        let coefficients = dp_linalg::series::binomial(0.5, steps);
        let mut inverse = dp_linalg::series::binomial(-0.5, steps);
        inverse[1] += 1e-4;
        inverse[2] -= 1e-4;
        let core = Core::Full { coefficients, inverse };
        let falling = (0..steps).map(|t| 1.0 - 0.02 * t as f64).collect::<Vec<f64>>();
        let rising = falling.iter().rev().copied().collect::<Vec<f64>>();
        let given = |columns: Option<Vec<f64>>| Measurement::Scaled {
            rows: vec![1.0; steps],
            core: core.clone(),
            columns,
        };
        let measured =
            [Measurement::Toeplitz(core.clone()), given(None), given(Some(falling)), given(Some(rising))];
        let strategies = measured.map(|measurement| {
            ToeplitzStrategy::measuring("measured", &Workload::count(), steps, measurement).unwrap()
        });
        let repeated = Participation::repeated(3, 2).unwrap();
        for strategy in &strategies {
            let applied = {
                let inverse = strategy.materialize().unwrap();
                let inverse =
                    dp_linalg::dense::inverse_lower(Workload::count().materialize(steps).unwrap().view())
                        .unwrap()
                        .dot(&inverse.decoder);
                dp_linalg::dense::inverse_lower(inverse.view()).unwrap()
            };
            for participation in [Participation::Single, repeated] {
                let stated = strategy.sensitivity(participation).unwrap().squared;
                let attained = conformance::worst_set(&applied, participation);
                assert!(
                    stated >= attained && stated < attained * 1.05,
                    "{participation}: {stated} {attained}"
                );
            }
        }
    }

    #[test]
    fn accurate_inverses_cost_nothing_that_is_seen() {
        for (steps, limit) in [(365, 1e-10), (4096, 1e-9), (100_000, 1e-7)] {
            let core = super::super::sqrt_core(&Workload::count(), steps).unwrap();
            let bound = residual(&core, "sqrt", &Workload::count(), steps).unwrap();
            assert!(bound > 0.0 && bound < limit, "{steps}: {bound}");
        }
    }
}
