//! From a row to the cells it adds to, and how far one person can move them.
//!
//! | what is released | cells of a key | what a row adds |
//! |---|---|---|
//! | counts of rows or people | 1 | 1 |
//! | sums of a value | 1 | the value in units of its resolution |
//! | sums and means | 2 | the value less the middle of its bounds, and half their width |
//! | quantiles | a tree of ranges | 1 to every range that holds the value |
//!
//! Keys are listed in the description, and then every key has its place among the cells; or they are found in the rows, and
//! then a cell is known by the name of its key.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use dp_linalg::ranges::ValueTree;
use dp_mechanisms::sensitivity::Term;
use dp_mechanisms::{Footprint, Participation, Relation};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::rows::Row;
use crate::spec::{By, Of, Promise, Protects, Release, Spec, Statistic};

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
pub struct Encoding {
    key_column: Option<usize>,
    keys: HashMap<Vec<u8>, u32>,
    other: Option<u32>,
    key_count: usize,
    /// Whether keys are known by their names.
    named: bool,
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

/// The key that a row adds to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Key {
    /// The place of a key that the description lists; 0 where a release is not split.
    Listed(u32),
    /// The name of a key that was found in the rows.
    Named(Box<str>),
}

/// What a row adds to a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contribution {
    /// The release, counted from 0 in the order of the description.
    pub release: u32,
    /// The key.
    pub key: Key,
    /// The value in units, 1 where rows are counted.
    pub units: i64,
}

/// Why a row adds nothing to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// Its key is not among those that are published, or blank, which is no mistake.
    Elsewhere,
    /// Its line ends before the key.
    NoKey,
    /// Its value is no number.
    NoNumber,
}

impl Encoding {
    /// The encodings of all releases of a description, for rows with the fields of [`Spec::columns`].
    pub fn all(spec: &Spec) -> Vec<Self> {
        let columns = spec.columns();
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
            Some(scale) if release.statistics.iter().any(|one| one.is_ordered()) => {
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
            named: by.is_some_and(By::is_found),
            value: scale,
            measure,
        }
    }

    /// The number of cells of a key.
    pub fn width(&self) -> usize {
        match &self.measure {
            Measure::Count | Measure::People(_) | Measure::Sum => 1,
            Measure::Mean { .. } => 2,
            Measure::Values(tree) => tree.nodes(),
        }
    }

    /// The number of cells of all keys that are listed.
    pub fn dimension(&self) -> usize {
        self.key_count * self.width()
    }

    /// Whether keys are found in the rows, and known by their names.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// Whether a person counts once, in the first step of all; the index tells several such releases apart.
    pub(crate) fn counts_people(&self) -> Option<usize> {
        match self.measure {
            Measure::People(index) => Some(index),
            _ => None,
        }
    }

    /// What a row adds to the release of a number, or why it does not.
    ///
    /// # Errors
    /// Why it does not.
    pub fn encode(&self, release: u32, row: &Row<'_>) -> Result<Contribution, Unfit> {
        let key = match self.key_column {
            None => Key::Listed(0),
            Some(column) => {
                let key = match row.field(column) {
                    Some(key) => key.trim_ascii(),
                    // As the same table has it in CSV.
                    None if row.has_blanks_absent() => b"",
                    None => return Err(Unfit::NoKey),
                };
                if !self.named {
                    Key::Listed(self.keys.get(key).copied().or(self.other).ok_or(Unfit::Elsewhere)?)
                } else if key.is_empty() {
                    return Err(Unfit::Elsewhere);
                } else {
                    Key::Named(String::from_utf8_lossy(key).into())
                }
            }
        };
        let units = match &self.value {
            None => 1,
            Some(scale) => scale.units(row.field(scale.column)).ok_or(Unfit::NoNumber)?,
        };
        Ok(Contribution { release, key, units })
    }

    /// Adds a contribution to the cells of a step.
    fn add(&self, contribution: &Contribution, cells: &mut ReleaseCells) {
        let units = contribution.units;
        let (cells, key) = match (cells, &contribution.key) {
            (ReleaseCells::Named(cells), Key::Named(name)) => {
                match cells.get_mut(name) {
                    Some(cell) => *cell += units,
                    None => _ = cells.insert(name.clone(), units),
                }
                return;
            }
            (ReleaseCells::Listed(cells), Key::Listed(key)) => (cells, *key),
            // The parser makes the keys that the cells have.
            _ => return,
        };
        let first = key as usize * self.width();
        let Some(cells) = cells.get_mut(first..first + self.width()) else { return };
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
    /// so `‖C(u-v)‖² ≤ ‖Cu‖² + ‖Cv‖²`: a factor `√2`. Otherwise the triangle inequality gives 2, and in ℓ1, which a pure ε asks
    /// for, it always does.
    pub(crate) fn footprint(&self, spec: &Spec) -> dp_mechanisms::Result<Footprint> {
        let (weight, absolute, rising) = self.largest_row();
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
        let absolute = absolute * f64::from(rows);
        let term = |factor: f64| vec![Term { weight: (weight * factor).next_up(), participation }];
        match (spec.privacy.relation, rising && !matches!(spec.privacy.budget, Promise::Pure { .. })) {
            (Relation::ZeroOut, _) => {
                Footprint::encoded(term(1.0), Relation::ZeroOut)?.with_absolute_weights(vec![absolute])
            }
            (Relation::Replace, true) => {
                let footprint =
                    Footprint::encoded(term(std::f64::consts::SQRT_2.next_up()), Relation::Replace)?;
                Ok(footprint.needing_non_negative_columns())
            }
            (Relation::Replace, false) => {
                Footprint::encoded(term(2.0), Relation::Replace)?.with_absolute_weights(vec![2.0 * absolute])
            }
        }
    }

    /// The norms of what one row adds at most, ℓ2 rounded up and ℓ1 (a whole number), and whether it can only add.
    fn largest_row(&self) -> (f64, f64, bool) {
        match (&self.measure, &self.value) {
            (Measure::Sum, Some(scale)) => {
                let largest = scale.low_units.abs().max(scale.high_units.abs()) as f64;
                (largest, largest, scale.low_units >= 0 || scale.high_units <= 0)
            }
            (Measure::Mean { half, .. }, _) => {
                let half = *half as f64;
                ((half * std::f64::consts::SQRT_2.next_up()).next_up(), 2.0 * half, false)
            }
            (Measure::Values(tree), _) => {
                let levels = tree.levels() as f64;
                (levels.sqrt().next_up(), levels, true)
            }
            (Measure::Count | Measure::People(_) | Measure::Sum, _) => (1.0, 1.0, true),
        }
    }

    /// The leaves of the tree that hold the values from one bound to another, as first and end.
    pub(crate) fn leaves(&self, low: f64, high: f64) -> (usize, usize) {
        let Some(scale) = &self.value else { return (0, 0) };
        let leaf = |value: f64, round: fn(f64) -> f64| {
            let units = round(value.clamp(scale.low, scale.high) / scale.resolution) as i64;
            (units.clamp(scale.low_units, scale.high_units) - scale.low_units) as usize
        };
        let (first, last) = (leaf(low, f64::ceil), leaf(high, f64::floor));
        (first, (last + 1).max(first))
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

/// The keys of one of several owners: of the keys that a description lists a contiguous range, in the order of the owners, and of
/// those that are found in the rows the ones whose hash falls to it.
///
/// The shares of `a·b` owners lie within those of a: a process and its workers agree on who owns a key.
///
/// # Example
/// ```
/// use dp_events::encoding::Share;
/// let owners: Vec<usize> = (0..5).map(|key| Share::owner_of(key, 5, 2)).collect();
/// assert_eq!(owners, [0, 0, 0, 1, 1]);
/// let named = Share::owner_of_name("North", 6);
/// assert_eq!(Share::owner_of_name("North", 2), named / 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    owner: usize,
    owners: usize,
}

impl Share {
    /// Every key.
    pub const WHOLE: Self = Self { owner: 0, owners: 1 };

    /// The share of an owner, counted from 0, of so many.
    pub fn new(owner: usize, owners: usize) -> Self {
        let owners = owners.max(1);
        Self { owner: owner.min(owners - 1), owners }
    }

    /// The owner of one of so many listed keys.
    pub fn owner_of(key: usize, keys: usize, owners: usize) -> usize {
        (key * owners / keys.max(1)).min(owners - 1)
    }

    /// The owner of a key that is found in the rows.
    pub fn owner_of_name(name: &str, owners: usize) -> usize {
        let hash = blake3::hash(name.as_bytes());
        let word = hash.as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes);
        ((u128::from(word) * owners as u128) >> 64) as usize
    }

    /// The listed keys of a release that belong to it.
    pub fn keys(self, encoding: &Encoding) -> Range<usize> {
        let first = |owner: usize| (owner * encoding.key_count).div_ceil(self.owners);
        first(self.owner)..first(self.owner + 1)
    }

    /// Their cells.
    pub fn cells(self, encoding: &Encoding) -> Range<usize> {
        let (keys, width) = (self.keys(encoding), encoding.width());
        keys.start * width..keys.end * width
    }
}

/// The cells of one release in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseCells {
    /// Key after key, as the description lists them.
    Listed(Vec<i64>),
    /// By the names of keys; one that is absent holds 0.
    Named(BTreeMap<Box<str>, i64>),
}

/// The cells of all releases in one step: what is measured once the step is over. Sums of parts are the cells of all rows, in
/// whatever order and on however many machines they were added.
///
/// # Example
/// ```
/// use dp_events::encoding::{Cells, Contribution, Encoding, Key, ReleaseCells};
/// # let text = r#"
/// #     [privacy]
/// #     rho = 0.1
/// #     protects = "event"
/// #     relation = "zero-out"
/// #     [input]
/// #     files = ["visits.csv"]
/// #     time = "date"
/// #     [steps]
/// #     length = "1 day"
/// #     first = "2026-01-01"
/// #     last = "2026-01-31"
/// #     [[release]]
/// #     name = "visits"
/// #     statistics = ["total"]
/// #     [output]
/// #     folder = "public"
/// # "#;
/// # let spec = dp_events::Spec::parse(text, "dashboard.toml".as_ref())?;
/// let encodings = Encoding::all(&spec);
/// let visit = Contribution { release: 0, key: Key::Listed(0), units: 1 };
/// let (mut here, mut there) = (Cells::new(&encodings), Cells::new(&encodings));
/// here.add(&encodings, &visit);
/// there.add(&encodings, &visit);
/// here.merge(&there);
/// assert_eq!(here.releases(), [ReleaseCells::Listed(vec![2])]);
/// # Ok::<(), dp_events::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cells {
    releases: Vec<ReleaseCells>,
}

impl Cells {
    /// Zero everywhere.
    pub fn new(encodings: &[Encoding]) -> Self {
        Self::of_share(encodings, Share::WHOLE)
    }

    /// The cells of the keys of one owner, all zero. Their places are counted from the first of them.
    pub fn of_share(encodings: &[Encoding], share: Share) -> Self {
        let empty = |encoding: &Encoding| {
            if encoding.named {
                ReleaseCells::Named(BTreeMap::new())
            } else {
                ReleaseCells::Listed(vec![0; share.cells(encoding).len()])
            }
        };
        Self { releases: encodings.iter().map(empty).collect() }
    }

    /// Adds what a row adds to a release.
    pub fn add(&mut self, encodings: &[Encoding], contribution: &Contribution) {
        let release = contribution.release as usize;
        if let (Some(encoding), Some(cells)) = (encodings.get(release), self.releases.get_mut(release)) {
            encoding.add(contribution, cells);
        }
    }

    /// Adds the cells of the same step from elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (cells, other) in self.releases.iter_mut().zip(&other.releases) {
            match (cells, other) {
                (ReleaseCells::Listed(cells), ReleaseCells::Listed(other)) => {
                    cells.iter_mut().zip(other).for_each(|(cell, other)| *cell += other);
                }
                (ReleaseCells::Named(cells), ReleaseCells::Named(other)) => {
                    for (name, other) in other {
                        *cells.entry(name.clone()).or_insert(0) += other;
                    }
                }
                _ => {}
            }
        }
    }

    /// Puts the cells of the next owner behind those of this one.
    pub fn join(&mut self, next: &Self) {
        for (cells, next) in self.releases.iter_mut().zip(&next.releases) {
            match (cells, next) {
                (ReleaseCells::Listed(cells), ReleaseCells::Listed(next)) => cells.extend_from_slice(next),
                (ReleaseCells::Named(cells), ReleaseCells::Named(next)) => {
                    cells.extend(next.iter().map(|(name, cell)| (name.clone(), *cell)));
                }
                _ => {}
            }
        }
    }

    /// Adds sums to the cells of a release: by their places where keys are listed, by their names where they are found.
    pub fn add_sums(&mut self, release: usize, listed: &[(u32, i64)], named: &[(Box<str>, i64)]) {
        match self.releases.get_mut(release) {
            Some(ReleaseCells::Listed(cells)) => {
                for (cell, sum) in listed {
                    if let Some(cell) = cells.get_mut(*cell as usize) {
                        *cell += sum;
                    }
                }
            }
            Some(ReleaseCells::Named(cells)) => {
                for (name, sum) in named {
                    *cells.entry(name.clone()).or_insert(0) += sum;
                }
            }
            None => {}
        }
    }

    /// The cells of every release, in the order of the description: the data itself.
    pub fn releases(&self) -> &[ReleaseCells] {
        &self.releases
    }

    pub(crate) fn releases_mut(&mut self) -> &mut [ReleaseCells] {
        &mut self.releases
    }

    /// Every sum cut to what the exact mechanism takes.
    pub fn capped(mut self) -> Self {
        let cap = |cell: &mut i64| *cell = (*cell).clamp(-LARGEST_CELL, LARGEST_CELL);
        for cells in &mut self.releases {
            match cells {
                ReleaseCells::Listed(cells) => cells.iter_mut().for_each(cap),
                ReleaseCells::Named(cells) => cells.values_mut().for_each(cap),
            }
        }
        self
    }
}

/// True counts are not for printing.
impl std::fmt::Debug for Cells {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cells").field("releases", &self.releases.len()).finish_non_exhaustive()
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        for cells in &mut self.releases {
            match cells {
                ReleaseCells::Listed(cells) => cells.zeroize(),
                ReleaseCells::Named(cells) => cells.values_mut().for_each(Zeroize::zeroize),
            }
        }
    }
}
