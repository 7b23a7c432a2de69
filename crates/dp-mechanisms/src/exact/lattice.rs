//! Data on a grid: which integers an input becomes, and how far one person can move them.

use num_bigint::BigUint;

use super::plan::{SquaredChange, generous_square};
use super::sums::ceiling;
use crate::error::{Error, Result};
use crate::sensitivity::{Domain, Footprint, Relation, Term};

/// Integers above this are not exact in f64, and states are saved as such.
const LARGEST_UNITS: f64 = (1_u64 << 53) as f64;

/// The largest coordinate of an encoded event, in grid units: counts per step stay far below it.
const ENCODED_MAGNITUDE: u64 = 1 << 31;

/// Sums of measurements stay below `2^127`, and this times them is a double.
const LARGEST_GRID: f64 = f64::from_bits((1023 + 896) << 52);

/// The unit for numbers up to `largest` where nobody asks for another: a power of two near 1/65536 of it, so that whole numbers
/// and simple fractions are not rounded.
///
/// # Example
/// ```
/// assert_eq!(dp_mechanisms::exact::grid(1.0), 1.0 / 65_536.0);
/// ```
pub fn grid(largest: f64) -> f64 {
    (largest.log2().floor() - 16.0).exp2()
}

/// The grid `value = grid · integer` with the declared bounds in its units.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lattice {
    grid: f64,
    domain: Domain,
    bounds: Bounds,
}

#[derive(Debug, Clone, PartialEq)]
enum Bounds {
    /// Every coordinate between two integers.
    Interval { low: i64, high: i64 },
    /// The squared norm of the integers is at most this.
    Ball { squared: u128, magnitude: u64 },
    /// Multiples of the grid, of bounded magnitude.
    Encoded,
}

impl Lattice {
    pub(super) fn new(footprint: &Footprint, dimension: usize, grid: f64) -> Result<Self> {
        let too_fine = |value: f64| Error::OutOfRange {
            what: "the declared bounds in grid units",
            value,
            range: "at most 2^53 (choose a coarser grid)",
        };
        // A release is `grid` times sums of integers, and the grid times the largest sum must not leave the doubles.
        if !(grid < LARGEST_GRID) {
            return Err(Error::OutOfRange {
                what: "grid",
                value: grid,
                range: "below 2^896: sums of so large values would be infinite",
            });
        }
        let domain = footprint.domain();
        let bounds = match domain {
            Domain::Interval { low, high } => {
                let units = |value: f64| {
                    let units = (value / grid).round();
                    if units.abs() <= LARGEST_UNITS { Ok(units as i64) } else { Err(too_fine(units)) }
                };
                let (low, high) = (units(low)?, units(high)?);
                let change = match footprint.relation() {
                    Relation::ZeroOut => low.abs().max(high.abs()),
                    Relation::Replace => high - low,
                };
                if change == 0 {
                    return Err(Error::OutOfRange {
                        what: "grid",
                        value: grid,
                        range: "fine enough that not all values in the bounds are equal",
                    });
                }
                Bounds::Interval { low, high }
            }
            Domain::Ball { .. } => {
                // The weight of a ball is its radius, with the margin that the domain check leaves, once or twice.
                let weight = footprint.terms()[0].weight;
                let radius = if footprint.relation() == Relation::Replace { weight / 2.0 } else { weight };
                // Rounding moves a vector by at most half a unit in every coordinate.
                let units = radius / grid + (dimension as f64).sqrt() / 2.0;
                if !(units <= LARGEST_UNITS) {
                    return Err(too_fine(units));
                }
                let squared = u128::try_from(generous_square(units)).map_err(|_| too_fine(units))?;
                Bounds::Ball { squared, magnitude: squared.isqrt() as u64 + 1 }
            }
            Domain::Encoded => Bounds::Encoded,
        };
        Ok(Self { grid, domain, bounds })
    }

    pub(super) fn grid(&self) -> f64 {
        self.grid
    }

    /// The most by which rounding moves a coordinate.
    pub(super) fn largest_rounding(&self) -> f64 {
        match self.bounds {
            Bounds::Encoded => 0.0,
            _ => self.grid / 2.0,
        }
    }

    /// The largest coordinate, in units.
    pub(super) fn magnitude(&self) -> u64 {
        match self.bounds {
            Bounds::Interval { low, high } => low.unsigned_abs().max(high.unsigned_abs()),
            Bounds::Ball { magnitude, .. } => magnitude,
            Bounds::Encoded => ENCODED_MAGNITUDE,
        }
    }

    /// The largest coordinate that was declared, in units; encodings declare none.
    pub(super) fn declared_magnitude(&self) -> Option<u64> {
        (self.bounds != Bounds::Encoded).then(|| self.magnitude())
    }

    /// At least the number of coordinates that one person can change within so many steps.
    ///
    /// A term bounds the norm of what a person changes at each of the steps it takes part in. Encoded changes are whole units,
    /// so at most `(weight/grid)²` of them are not zero. (Where an encoding proves its weight for sequences of changes that may
    /// cancel in part, each coordinate that changes has a share of a squared unit at least: the bound must hold for a change that is
    /// not taken back before the end.)
    pub(super) fn touched(&self, footprint: &Footprint, dimension: usize, steps: usize) -> f64 {
        let all = dimension as f64;
        if self.bounds != Bounds::Encoded {
            return all;
        }
        let term = |term: &Term| {
            let units = (term.weight / self.grid).next_up();
            (units * units).floor().max(1.0) * term.participation.times_within(steps) as f64
        };
        footprint.terms().iter().map(term).sum::<f64>().min(all)
    }

    /// The squared change of one participation in a term of the footprint, in squared units.
    pub(super) fn squared_change(&self, footprint: &Footprint, term: usize) -> SquaredChange {
        match self.bounds {
            Bounds::Interval { .. } => {
                // One person may change every coordinate by as much.
                let change = BigUint::from(self.scalar_change(footprint, term));
                SquaredChange::integer(&change * &change * footprint.dimension().unwrap_or(1))
            }
            Bounds::Ball { squared, .. } => SquaredChange::integer(match footprint.relation() {
                Relation::ZeroOut => squared.into(),
                Relation::Replace => BigUint::from(squared) << 2,
            }),
            Bounds::Encoded => SquaredChange::of((footprint.terms()[term].weight / self.grid).next_up()),
        }
    }

    /// The change of one participation in a term of the footprint in ℓ1: for numbers with bounds of their own, and for encodings
    /// that state it.
    pub(super) fn absolute_change(&self, footprint: &Footprint, term: usize) -> Result<BigUint> {
        match (&self.bounds, footprint.absolute_weight(term)) {
            (Bounds::Interval { .. }, _) => {
                let change = BigUint::from(self.scalar_change(footprint, term));
                Ok(change * footprint.dimension().unwrap_or(1))
            }
            (Bounds::Encoded, Some(weight)) => Ok(ceiling((weight / self.grid).next_up())),
            _ => Err(Error::OutOfRange {
                what: "a pure epsilon budget",
                value: 0.0,
                range: "for numbers with declared bounds, and encodings that bound an l1 norm",
            }),
        }
    }

    /// How far one person moves a number with bounds, in units: no further than the bounds allow, and no further than the term
    /// of the footprint says.
    ///
    /// # Privacy
    /// Let two numbers differ by at most c. Rounding moves a quotient by at most one half, so the integers differ by at most
    /// `⌊c/g + 1 + e⌋`, where e is what dividing rounds. Where division is exact, by a power of two, and all numbers have one sign,
    /// halves are rounded in one direction: then rounding is monotone and commutes with adding an integer, and `⌈c/g⌉` is enough.
    fn scalar_change(&self, footprint: &Footprint, term: usize) -> u64 {
        let (Bounds::Interval { low, high }, Domain::Interval { low: least, high: most }) =
            (&self.bounds, self.domain)
        else {
            return 0;
        };
        let (low, high, weight) = (*low, *high, footprint.terms()[term].weight);
        // A number that is blanked becomes 0; one that changes by less may pass from one side of 0 to the other.
        let blanked = footprint.relation() == Relation::ZeroOut && weight >= least.abs().max(most.abs());
        let bounds = if blanked { low.unsigned_abs().max(high.unsigned_abs()) } else { high.abs_diff(low) };
        let units = weight / self.grid;
        let power_of_two = self.grid.is_normal() && self.grid.to_bits().trailing_zeros() >= 52;
        let one_sign = low >= 0 || high <= 0;
        let stated = if power_of_two && one_sign {
            units.ceil()
        } else {
            let rounded = 2.0 * f64::EPSILON * self.magnitude() as f64;
            (units.next_up() + 1.0 + rounded).next_up().floor()
        };
        // What is beyond the integers is beyond the bounds.
        bounds.min(stated as u64)
    }

    /// The integers nearest to an input, or a refusal before anything happens.
    pub(super) fn round(&self, step: usize, input: &[f64], units: &mut [i64]) -> Result<()> {
        self.domain.check(step, input)?;
        for (index, (unit, value)) in units.iter_mut().zip(input).enumerate() {
            // Division and rounding are monotone, so values within the bounds become integers within the bounds.
            let rounded = (value / self.grid).round();
            let limit = self.magnitude() as f64;
            let fits =
                rounded.abs() <= limit && (self.bounds != Bounds::Encoded || rounded * self.grid == *value);
            if !fits {
                return Err(Error::OutOfBounds {
                    step,
                    index,
                    value: *value,
                    low: -limit * self.grid,
                    high: limit * self.grid,
                });
            }
            *unit = rounded as i64;
        }
        self.check_units(step, units)
    }

    /// Refuses integers outside the bounds.
    pub(super) fn check_units(&self, step: usize, units: &[i64]) -> Result<()> {
        let (low, high) = match self.bounds {
            Bounds::Interval { low, high } => (low, high),
            Bounds::Ball { magnitude, .. } => (-(magnitude.cast_signed()), magnitude.cast_signed()),
            Bounds::Encoded => (-(ENCODED_MAGNITUDE.cast_signed()), ENCODED_MAGNITUDE.cast_signed()),
        };
        if let Some(index) = units.iter().position(|unit| !(low..=high).contains(unit)) {
            let value = |unit: i64| unit as f64 * self.grid;
            return Err(Error::OutOfBounds {
                step,
                index,
                value: value(units[index]),
                low: value(low),
                high: value(high),
            });
        }
        if let (Bounds::Ball { squared, .. }, Domain::Ball { radius }) = (&self.bounds, self.domain) {
            let sum = units
                .iter()
                .try_fold(0_u128, |sum, unit| sum.checked_add(u128::from(unit.unsigned_abs()).pow(2)))
                .unwrap_or(u128::MAX);
            if sum > *squared {
                return Err(Error::NormTooLarge { step, norm: (sum as f64).sqrt() * self.grid, radius });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensitivity::Participation;

    /// Every pair of numbers within the bounds that one person may exchange, on fine lattices and at the places where rounding
    /// turns: the integers differ by no more than the change in units, and some pair reaches it where division is exact.
    #[test]
    fn a_stated_change_bounds_what_rounding_makes_of_it() {
        let cases = [
            (0.5, 1.0),
            (1.0, 2.0),
            (1.0, 2.9999),
            (0.5, 2.75),
            (0.25, 0.3),
            (0.1, 0.1),
            (0.1, 0.25),
            (0.3, 1.0),
            (0.7, 0.05),
            (0.7, 2.95),
        ];
        for ((grid, change), (low, high)) in
            cases.into_iter().flat_map(|case| [(case, (-2.0, 3.0)), (case, (0.0, 5.0)), (case, (-4.0, 0.0))])
        {
            let footprint = Footprint::scalar(low, high, Relation::ZeroOut, Participation::Single).unwrap();
            let footprint = footprint.with_change(change).unwrap();
            let lattice = Lattice::new(&footprint, 1, grid).unwrap();
            let fine = (-400..=500).map(|i| f64::from(i) / 100.0);
            let turns = (-50..=60).flat_map(|i| {
                let turn = (f64::from(i) + 0.5) * grid;
                [turn.next_down(), turn, turn.next_up(), turn - change, turn + change]
            });
            let numbers = fine.chain(turns).filter(|x| (low..=high).contains(x));
            let numbers: Vec<(f64, i64)> = numbers
                .map(|number| {
                    let mut unit = [0];
                    lattice.round(1, &[number], &mut unit).unwrap();
                    (number, unit[0])
                })
                .collect();
            let mut largest = 0;
            // Differences of doubles round; those of such integers do not.
            let exactly = |number: f64| (number * 2_f64.powi(80)) as i128;
            let change_exactly = exactly(change);
            for (left, unit) in &numbers {
                let near = |right: f64| (exactly(right) - exactly(*left)).abs() <= change_exactly;
                for (_, other) in numbers.iter().filter(|(right, _)| near(*right)) {
                    largest = largest.max(unit.abs_diff(*other));
                }
            }
            let allowed = lattice.scalar_change(&footprint, 0);
            let case = format!("{low}:{high}, grid {grid}, change {change}: {largest} of {allowed}");
            assert!(largest <= allowed, "{case}");
            assert!(largest == allowed || ![0.25, 0.5, 1.0].contains(&grid), "{case}");
        }
        // Bounds that say less than the term leave everything as it was.
        let plain = Footprint::scalar(0.0, 1.0, Relation::Replace, Participation::Single).unwrap();
        assert_eq!(Lattice::new(&plain, 1, 0.25).unwrap().scalar_change(&plain, 0), 4);
        assert!(plain.clone().with_change(0.0).is_err() && plain.with_change(1.5).is_err());
    }

    /// Cells that one person can reach, counted by hand: a replaced item moves two; four rows in cells of their own, four; a
    /// letter within a string of length 3 leaves three windows and enters three; in five steps, but in four at most where they
    /// are two apart and there are seven; never more than there are.
    #[test]
    fn a_person_reaches_no_more_coordinates_than_are_counted() {
        let many = Participation::repeated(3, 1).unwrap();
        let apart = Participation::repeated(5, 2).unwrap();
        let once = Participation::Single;
        let term = |weight: f64, participation| Term { weight, participation };
        let cases = [
            (vec![term(2.0_f64.sqrt(), once)], 1000, 2.0),
            (vec![term(2.0, once)], 1000, 4.0),
            (vec![term(1.0, many), term(3.0_f64.sqrt(), once)], 1000, 6.0),
            (vec![term(1.0, apart)], 1000, 4.0),
            (vec![term(2.0, once)], 3, 3.0),
        ];
        for (terms, dimension, reached) in cases {
            let footprint = Footprint::encoded(terms, Relation::Replace).unwrap();
            let footprint = footprint.of_dimension(dimension).unwrap();
            let lattice = Lattice::new(&footprint, dimension, 1.0).unwrap();
            assert_eq!(lattice.touched(&footprint, dimension, 7), reached, "{footprint:?}");
        }
        // Numbers with bounds: one person changes every coordinate.
        let vector = Footprint::vector(0.0, 1.0, 9, Relation::ZeroOut, once).unwrap();
        assert_eq!(Lattice::new(&vector, 9, 0.5).unwrap().touched(&vector, 9, 7), 9.0);
    }
}
