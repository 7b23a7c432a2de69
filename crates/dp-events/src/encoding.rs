//! From a row to the cells it adds to, and how far one person can move them.
//!
//! | what is released | cells of a key | what a row adds |
//! |---|---|---|
//! | counts of rows or people | 1 | 1 |
//! | sums of a value | 1 | the value in units of its resolution |
//! | sums and means | 2 | the value less the middle of its bounds, and half their width |
//! | quantiles | a tree of ranges | 1 to every range that holds the value |

use std::collections::HashMap;

use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Relation};

use crate::rows::Row;
use crate::spec::{Of, Protects, Release, Spec, Statistic};
use crate::values::ValueTree;

/// The largest sum of a cell within a step, in units: what the exact mechanism takes.
///
/// Larger sums count as this one. Cutting a sum moves no difference away from zero, so no sensitivity grows by it.
pub(crate) const LARGEST_CELL: i64 = 1 << 31;

/// What the cells of a key mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Measure {
    /// The number of rows.
    Count,
    /// The number of different people; the index tells several such releases apart.
    People(usize),
    /// The sum of a value in units.
    Sum,
    /// The sum of a value less `centre`, and `half` times the number of rows, so that both weigh the same.
    Mean {
        /// The middle of the bounds, in units.
        centre: i64,
        /// Half the width of the bounds, in units, rounded up.
        half: i64,
    },
    /// The number of rows in every range of a tree over the values.
    Values(ValueTree),
}

/// The encoding of one release.
#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    key_column: Option<usize>,
    keys: HashMap<Vec<u8>, u32>,
    other: Option<u32>,
    key_count: usize,
    value: Option<Scale>,
    pub(crate) measure: Measure,
}

/// A numeric column in whole units.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    column: usize,
    low: f64,
    high: f64,
    resolution: f64,
    low_units: i64,
    high_units: i64,
}

/// What a row adds to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contribution {
    key: u32,
    /// The value in units, 1 where rows are counted.
    units: i64,
}

/// Why a row adds nothing to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Its key is not among those that are published, which is no mistake.
    Elsewhere,
    /// It has no key.
    NoKey,
    /// Its value is no number.
    NoNumber,
}

impl Encoding {
    /// The encodings of all releases, given where the columns stand.
    pub(crate) fn all(spec: &Spec, columns: &[String]) -> Vec<Self> {
        let place = |name: &str| columns.iter().position(|column| column == name).unwrap_or(usize::MAX);
        let mut people = 0;
        spec.releases
            .iter()
            .map(|release| {
                let mut encoding = Self::new(release, place);
                if let Measure::People(index) = &mut encoding.measure {
                    *index = people;
                    people += 1;
                }
                encoding
            })
            .collect()
    }

    fn new(release: &Release, place: impl Fn(&str) -> usize) -> Self {
        let scale = release.value.as_ref().map(|value| {
            let units = |bound: f64| (bound / value.resolution).round() as i64;
            Scale {
                column: place(&value.column),
                low: value.low,
                high: value.high,
                resolution: value.resolution,
                low_units: units(value.low),
                high_units: units(value.high),
            }
        });
        let measure = match scale {
            None if release.of == Of::People => Measure::People(0),
            None => Measure::Count,
            Some(scale) if release.statistics.iter().any(|one| matches!(one, Statistic::Quantile(_))) => {
                Measure::Values(ValueTree::best((scale.high_units - scale.low_units) as usize + 1))
            }
            Some(scale) if release.statistics.contains(&Statistic::Mean) => {
                let centre = (scale.low_units + scale.high_units).div_euclid(2);
                Measure::Mean { centre, half: (scale.high_units - centre).max(centre - scale.low_units) }
            }
            Some(_) => Measure::Sum,
        };
        let by = release.by.as_ref();
        let keys = by.map_or(&[][..], |by| &by.values);
        Self {
            key_column: by.map(|by| place(&by.column)),
            keys: keys.iter().zip(0..).map(|(key, index)| (key.as_bytes().to_vec(), index)).collect(),
            other: by.filter(|by| by.other.is_some()).map(|by| by.values.len() as u32),
            key_count: release.keys(),
            value: scale,
            measure,
        }
    }

    /// The number of cells of a key.
    pub(crate) fn width(&self) -> usize {
        match &self.measure {
            Measure::Count | Measure::People(_) | Measure::Sum => 1,
            Measure::Mean { .. } => 2,
            Measure::Values(tree) => tree.nodes(),
        }
    }

    /// The number of cells of all keys.
    pub(crate) fn dimension(&self) -> usize {
        self.key_count * self.width()
    }

    /// What a row adds, or why it does not.
    pub(crate) fn encode(&self, row: &Row<'_>) -> Result<Contribution, Unfit> {
        let key = match self.key_column {
            None => 0,
            Some(column) => {
                let key = row.field(column).ok_or(Unfit::NoKey)?.trim_ascii();
                self.keys.get(key).copied().or(self.other).ok_or(Unfit::Elsewhere)?
            }
        };
        let units = match &self.value {
            None => 1,
            Some(scale) => scale.units(row.field(scale.column)).ok_or(Unfit::NoNumber)?,
        };
        Ok(Contribution { key, units })
    }

    /// Adds a contribution to the cells of a step.
    pub(crate) fn add(&self, contribution: Contribution, cells: &mut [i64]) {
        let first = contribution.key as usize * self.width();
        let Some(cells) = cells.get_mut(first..first + self.width()) else { return };
        let units = contribution.units;
        match &self.measure {
            Measure::Count | Measure::People(_) | Measure::Sum => cells[0] += units,
            Measure::Mean { centre, half } => {
                cells[0] += units - centre;
                cells[1] += half;
            }
            Measure::Values(tree) => {
                let low = self.value.map_or(0, |scale| scale.low_units);
                tree.path((units - low) as usize).for_each(|node| cells[node] += 1);
            }
        }
    }

    /// What one person can change: the ℓ2 norm of the difference of the cells at every step in which the person counts.
    ///
    /// # Privacy
    /// A person has at most `r` rows in a step (`r = 1` where a single row is protected), and each moves the cells by at most
    /// w: 1 for a count, the larger bound for a sum, `√2` times half the width for sum and number of rows together, the root
    /// of the number of levels for a tree. All of them may share a cell, so a step moves by at most `r·w`. Different people
    /// are counted in one step of all, with one row.
    ///
    /// *Zero-out* is this. *Replace* takes one admissible sequence u away and puts another v in its place, whose steps may be
    /// others. Where no cell can fall by a row, `⟨C_s, C_t⟩⟨u_s, v_t⟩ ≥ 0` for columns of C with non-negative inner products,
    /// so `‖C(u-v)‖² ≤ ‖Cu‖² + ‖Cv‖²`: a factor `√2`. Otherwise the triangle inequality gives 2.
    pub(crate) fn footprint(&self, spec: &Spec) -> dp_mechanisms::Result<Footprint> {
        let (weight, rising) = self.largest_row();
        let participation = match (spec.privacy.protects, &self.measure) {
            (_, Measure::People(_)) | (Protects::Event | Protects::PersonStep, _) => Participation::Single,
            (Protects::Person, _) => {
                let limits = spec.limits;
                Participation::repeated(limits.steps as usize, limits.separation as usize)?
            }
        };
        let rows = match &self.measure {
            Measure::People(_) => 1,
            _ => spec.limits.rows_per_step,
        };
        let weight = (weight * f64::from(rows)).next_up();
        let term = |factor: f64| vec![Term { weight: (weight * factor).next_up(), participation }];
        match (spec.privacy.relation, rising) {
            (Relation::ZeroOut, _) => Footprint::encoded(term(1.0), Relation::ZeroOut),
            (Relation::Replace, true) => {
                let footprint =
                    Footprint::encoded(term(std::f64::consts::SQRT_2.next_up()), Relation::Replace)?;
                Ok(footprint.needing_non_negative_columns())
            }
            (Relation::Replace, false) => Footprint::encoded(term(2.0), Relation::Replace),
        }
    }

    /// The ℓ2 norm of what one row adds at most, rounded up, and whether it can only add.
    fn largest_row(&self) -> (f64, bool) {
        match (&self.measure, &self.value) {
            (Measure::Sum, Some(scale)) => {
                let largest = scale.low_units.abs().max(scale.high_units.abs());
                (largest as f64, scale.low_units >= 0 || scale.high_units <= 0)
            }
            (Measure::Mean { half, .. }, _) => {
                ((*half as f64 * std::f64::consts::SQRT_2.next_up()).next_up(), false)
            }
            (Measure::Values(tree), _) => ((tree.levels() as f64).sqrt().next_up(), true),
            (Measure::Count | Measure::People(_) | Measure::Sum, _) => (1.0, true),
        }
    }

    /// The size of a unit in what is printed.
    pub(crate) fn resolution(&self) -> f64 {
        self.value.map_or(1.0, |scale| scale.resolution)
    }

    /// The bounds of the value in units.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        self.value.map(|scale| (scale.low_units, scale.high_units))
    }
}

impl Scale {
    /// A field as a clipped number of units.
    fn units(&self, field: Option<&[u8]>) -> Option<i64> {
        let text = std::str::from_utf8(field?.trim_ascii()).ok()?;
        let value: f64 = text.parse().ok()?;
        if !value.is_finite() {
            return None;
        }
        let units = (value.clamp(self.low, self.high) / self.resolution).round() as i64;
        Some(units.clamp(self.low_units, self.high_units))
    }
}

/// The cells of a step as the mechanism takes them.
pub(crate) fn capped(cells: &mut [i64]) {
    cells.iter_mut().for_each(|cell| *cell = (*cell).clamp(-LARGEST_CELL, LARGEST_CELL));
}
