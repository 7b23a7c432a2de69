//! The description of a dashboard: one TOML file, checked as a whole before anything else happens.
//!
//! Every mistake in the file is reported at once, with its line and what to do. A [`Spec`] holds only what has been checked.

mod identity;
mod reading;
mod statistic;
mod table;

use std::path::{Path, PathBuf};

use dp_mechanisms::Relation;

pub use identity::Identity;
pub use statistic::Statistic;

use crate::calendar::Calendar;
use crate::error::{Error, Mistake, Result};
use crate::rows;

/// What a dashboard promises, reads, releases and writes.
///
/// # Example
/// ```
/// use dp_events::spec::Spec;
/// let text = r#"
///     [privacy]
///     epsilon = 1.0
///     delta = 1e-6
///     protects = "event"
///     relation = "zero-out"
///     [input]
///     files = ["visits.csv"]
///     time = "date"
///     [steps]
///     length = "1 day"
///     first = "2026-01-01"
///     last = "2026-12-31"
///     [[release]]
///     name = "visits"
///     statistics = ["total", "window:7"]
///     [output]
///     folder = "public"
/// "#;
/// let spec = Spec::parse(text, "dashboard.toml".as_ref())?;
/// assert_eq!(spec.calendar.steps(), 365);
/// let mistake = Spec::parse(&text.replace("1.0", "-1.0"), "dashboard.toml".as_ref()).unwrap_err();
/// assert!(mistake.to_string().starts_with("dashboard.toml:3: `privacy.epsilon`"));
/// # Ok::<(), dp_events::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Spec {
    /// The file that this was read from; paths in it are relative to its folder.
    pub path: PathBuf,
    /// What is promised.
    pub privacy: Privacy,
    /// What is read.
    pub input: Input,
    /// What of one person counts.
    pub limits: Limits,
    /// The steps.
    pub calendar: Calendar,
    /// What happens to a row whose step is released already.
    pub late: Late,
    /// What is published.
    pub releases: Vec<Release>,
    /// What the page is called.
    pub title: String,
    /// Where it is published.
    pub output: PathBuf,
    /// Where the sealed state lies.
    pub state: PathBuf,
    /// Where the key of the state and its mark lie, where not beside the state.
    pub key: Option<PathBuf>,
}

/// What is promised to whom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Privacy {
    /// The budget of everything together.
    pub budget: Promise,
    /// What the promise is about.
    pub protects: Protects,
    /// Which two inputs must be hard to tell apart.
    pub relation: Relation,
}

/// A budget as it is written in the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// (ε, δ).
    Approximate {
        /// ε.
        epsilon: f64,
        /// δ.
        delta: f64,
    },
    /// ρ-zCDP.
    ZeroConcentrated {
        /// ρ.
        rho: f64,
    },
    /// ε alone.
    Pure {
        /// ε.
        epsilon: f64,
    },
}

/// What the promise is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protects {
    /// All rows of a person.
    Person,
    /// All rows of a person within one step.
    PersonStep,
    /// One row.
    Event,
}

impl Protects {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::PersonStep => "person-step",
            Self::Event => "event",
        }
    }
}

/// What is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Files and folders, as they are written in the description.
    pub files: Vec<PathBuf>,
    /// The column with the time.
    pub time: String,
    /// How the time is written, where not as a date or after RFC 3339.
    pub format: Option<String>,
    /// The column with the identifier of the person.
    pub person: Option<String>,
    /// What happens to a row that cannot be used.
    pub bad_rows: BadRows,
}

/// What happens to a row that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRows {
    /// It is left out, and nobody is told: whether there was one is a matter of the data.
    Drop,
    /// The run stops at its position, before anything is written. That it stopped then depends on the data.
    Refuse,
}

/// What of one person counts; the rest is left out, row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows within a step.
    pub rows_per_step: u32,
    /// Steps; `u32::MAX` where every step is protected by itself.
    pub steps: u32,
    /// The smallest distance between two of them.
    pub separation: u32,
}

/// What happens to a row whose step is released already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It is left out.
    Drop,
    /// It counts in the first step that is still open.
    Next,
}

/// One thing that is published.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// Its name, and that of its files.
    pub name: String,
    /// Rows or people.
    pub of: Of,
    /// The value that is summed, averaged or ordered.
    pub value: Option<Value>,
    /// The statistics.
    pub statistics: Vec<Statistic>,
    /// How much the error of each counts, in units of what it could be alone.
    pub weights: Vec<f64>,
    /// The keys by which it is split.
    pub by: Option<By>,
    /// Its part of the budget, relative to the others.
    pub share: f64,
}

impl Release {
    /// The number of keys, 1 where it is not split.
    pub fn keys(&self) -> usize {
        self.by.as_ref().map_or(1, By::len)
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Rows.
    Rows,
    /// Different people so far.
    People,
}

/// A numeric column.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Its name.
    pub column: String,
    /// Smaller values count as this.
    pub low: f64,
    /// Larger values count as this.
    pub high: f64,
    /// Values are rounded to multiples of this.
    pub resolution: f64,
}

/// The keys by which a release is split.
#[derive(Debug, Clone, PartialEq)]
pub struct By {
    /// The column.
    pub column: String,
    /// Its values that are published; none where they are found in the rows.
    pub values: Vec<String>,
    /// Under which name all other values are published, if they are.
    pub other: Option<String>,
}

impl By {
    /// The number of keys that are listed.
    pub fn len(&self) -> usize {
        self.values.len() + usize::from(self.other.is_some())
    }

    /// Whether none is listed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether keys are found in the rows: one is published once its count stands out so far that no single person can have
    /// caused it.
    pub fn is_found(&self) -> bool {
        self.values.is_empty()
    }

    /// The names in the order in which they are printed.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str).chain(self.other.as_deref())
    }
}

impl Spec {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Spec`] with every mistake in it.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| Error::file(path, error))?;
        let text = rows::text_of(bytes).map_err(|(line, message)| {
            Error::Spec(vec![Mistake { file: path.to_owned(), line, message: message.to_owned() }])
        })?;
        Self::parse(&text, path)
    }

    /// Checks the text of a file.
    ///
    /// # Errors
    /// [`Error::Spec`] with every mistake in it.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        reading::read(text, path).map_err(Error::Spec)
    }

    /// A path as it is meant: relative to the folder of the description.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        resolve(&self.path, path)
    }

    /// The columns that are used, each once: the time first, then the person, then what the releases ask for.
    pub fn columns(&self) -> Vec<String> {
        let mut columns = vec![self.input.time.clone()];
        let person = self.input.person.iter().cloned();
        let asked = self.releases.iter().flat_map(|release| {
            let by = release.by.as_ref().map(|by| by.column.clone());
            by.into_iter().chain(release.value.as_ref().map(|value| value.column.clone()))
        });
        for column in person.chain(asked) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    }

    /// Whether one protected person can count in several steps.
    pub fn counts_repeatedly(&self) -> bool {
        self.privacy.protects == Protects::Person && self.limits.steps > 1
    }

    /// Sentences of [`Identity::differences`], each with the file and the line of what it is about.
    pub(crate) fn placed(&self, differences: &[String]) -> Vec<String> {
        // Descriptions that were never in a file have no lines.
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let place = |difference: &String| {
            let name = difference.split_once(" was ").map_or("", |(name, _)| name);
            match reading::line_of(&text, name) {
                Some(line) if !text.is_empty() => format!("{}:{line}: {difference}", self.path.display()),
                _ => difference.clone(),
            }
        };
        differences.iter().map(place).collect()
    }

    /// The parts of the description that a state belongs to.
    pub fn identity(&self) -> Identity {
        Identity::of(self)
    }
}

fn resolve(spec: &Path, path: &Path) -> PathBuf {
    match spec.parent() {
        Some(folder) => folder.join(path),
        None => path.to_owned(),
    }
}
