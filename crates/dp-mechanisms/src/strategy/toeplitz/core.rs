//! Lower-triangular Toeplitz operators T, by what makes them cheap to undo.

use dp_linalg::rational::{Comb, Rational};
use dp_linalg::series;

use crate::error::{Error, Result};
use crate::strategy::Coefficients;

/// A lower-triangular Toeplitz operator, by what makes it cheap to invert on a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Core {
    /// All coefficients of T and of its inverse; the noise is a convolution with the latter.
    Full {
        /// `c_0 … c_{n-1}`.
        coefficients: Vec<f64>,
        /// The coefficients of `1/c(x)`.
        inverse: Vec<f64>,
    },
    /// A rational generating function: one buffer per pole.
    Rational(Rational),
    /// The same times a comb with the width of a window: the buffers, and a ring of as many values.
    Windowed {
        /// What is smooth.
        rational: Rational,
        /// What happens when the window lets go of an input.
        comb: Comb,
    },
    /// `c_k = 0` for k ≥ b: forward substitution over the last b-1 values of ξ.
    Banded(Vec<f64>),
    /// The inverse has b coefficients: a finite filter over the last b values of z.
    BandedInverse(Vec<f64>),
}

impl Core {
    /// A core from its coefficients, with the inverse computed from them.
    ///
    /// # Errors
    /// Coefficients that are not finite or start with zero.
    pub fn full(coefficients: Vec<f64>) -> Result<Self> {
        let inverse = series::inverse(&coefficients, coefficients.len())?;
        Ok(Self::Full { coefficients, inverse })
    }

    pub(super) fn save(&self) -> Coefficients {
        let none = Coefficients::none();
        let poles = |rational: &Rational| {
            Coefficients::none().with("theta", rational.theta()).with("omega", rational.omega())
        };
        match self {
            Self::Full { coefficients, inverse } => {
                none.with("coefficients", coefficients.as_slice()).with("inverse", inverse.as_slice())
            }
            Self::Rational(rational) => poles(rational),
            Self::Windowed { rational, comb } => {
                poles(rational).with("comb", [comb.width() as f64, comb.zero(), comb.pole()])
            }
            Self::Banded(band) => none.with("band", band.as_slice()),
            Self::BandedInverse(band) => none.with("inverse band", band.as_slice()),
        }
    }

    pub(super) fn of_coefficients(saved: &Coefficients, steps: usize) -> Result<Self> {
        let band = |name: &str| match saved.list(name) {
            Ok(band) if band.is_empty() => {
                Err(Error::State { reason: "its strategy has no bands".to_owned() })
            }
            band => band,
        };
        if saved.get("theta").is_some() {
            let rational = Rational::new(saved.list("theta")?, saved.list("omega")?)?;
            if saved.get("comb").is_none() {
                return Ok(Self::Rational(rational));
            }
            let comb = saved.list_of("comb", 3)?;
            if !(1.0..=steps as f64).contains(&comb[0]) {
                return Err(Error::State { reason: "its strategy has a window beyond its steps".to_owned() });
            }
            return Ok(Self::Windowed { rational, comb: Comb::new(comb[0] as usize, comb[1], comb[2])? });
        }
        if saved.get("band").is_some() {
            return Ok(Self::Banded(band("band")?));
        }
        if saved.get("inverse band").is_some() {
            return Ok(Self::BandedInverse(band("inverse band")?));
        }
        let coefficients = saved.list_of("coefficients", steps)?;
        Ok(Self::Full { coefficients, inverse: saved.list_of("inverse", steps)? })
    }

    /// The first `steps` coefficients of T.
    pub(crate) fn coefficients(&self, steps: usize) -> Result<Vec<f64>> {
        Ok(match self {
            Self::Full { coefficients, .. } => coefficients[..steps].to_vec(),
            Self::Rational(rational) => rational.coefficients(steps),
            Self::Windowed { rational, comb } => multiplied(rational.coefficients(steps), comb),
            Self::Banded(band) => padded(band, steps),
            Self::BandedInverse(band) => series::inverse(&padded(band, steps), steps)?,
        })
    }

    /// The first `steps` coefficients of the inverse of T.
    pub(crate) fn inverse(&self, steps: usize) -> Result<Vec<f64>> {
        Ok(match self {
            Self::Full { inverse, .. } => inverse[..steps].to_vec(),
            Self::Rational(rational) => rational.inverse()?.coefficients(steps),
            Self::Windowed { rational, comb } => {
                multiplied(rational.inverse()?.coefficients(steps), &comb.inverse())
            }
            Self::Banded(band) => series::inverse(&padded(band, steps), steps)?,
            Self::BandedInverse(band) => padded(band, steps),
        })
    }
}

fn multiplied(mut coefficients: Vec<f64>, comb: &Comb) -> Vec<f64> {
    comb.multiply(&mut coefficients);
    coefficients
}

/// A short list of coefficients, continued by zeros.
fn padded(band: &[f64], steps: usize) -> Vec<f64> {
    let mut coefficients: Vec<f64> = band.iter().copied().take(steps).collect();
    coefficients.resize(steps, 0.0);
    coefficients
}
