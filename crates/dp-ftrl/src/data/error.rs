//! What is wrong with data, each case with its place.

use thiserror::Error as ThisError;

/// Data that cannot be used, found before anything is learned from it. Rows count from 1; of a table, below its header.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum DataError {
    /// Nothing to learn from.
    #[error("there are no examples; give at least one row")]
    Empty,
    /// Examples that are already known by their people take no others.
    #[error("the people of these examples are known; add all examples before")]
    Grouped,
    /// Labels without features.
    #[error("there are no features; give at least one column beside the label")]
    NoFeatures,
    /// One class is no question.
    #[error("{classes} classes leave nothing to tell apart; name at least two")]
    TooFewClasses {
        /// The number of classes.
        classes: usize,
    },
    /// A class that is named twice.
    #[error("the class `{class}` is named twice")]
    DuplicateClass {
        /// The name.
        class: String,
    },
    /// The label's column is missing.
    #[error("there is no column `{column}`; choose one of: {available}")]
    NoColumn {
        /// The column that was asked for.
        column: String,
        /// The columns that exist.
        available: String,
    },
    /// A number of bounds that fits neither all features together nor each of them.
    #[error("{actual} bounds for {features} features; give one for all, or one for each")]
    BoundsCount {
        /// The number of features.
        features: usize,
        /// The number of bounds.
        actual: usize,
    },
    /// Bounds that contain no interval.
    #[error("the bounds {low}:{high} are not two finite numbers LO:HI with LO below HI")]
    Bounds {
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// A row with too few or too many values.
    #[error("row {row} has {actual} values, but {expected} are expected; complete the row")]
    Ragged {
        /// The row.
        row: usize,
        /// The number of values of every row.
        expected: usize,
        /// The number of values of this one.
        actual: usize,
    },
    /// A value that is not a finite number.
    #[error("row {row}, column `{column}`: not a finite number; correct or remove the row")]
    NotANumber {
        /// The row.
        row: usize,
        /// The name of the column.
        column: String,
        /// What stands there: somebody's data, and no part of the message.
        text: String,
    },
    /// A feature outside [0, 1].
    #[error("feature {index} of row {row} is outside [0, 1]; scale it by public bounds first")]
    Unscaled {
        /// The row.
        row: usize,
        /// The feature, from 0.
        index: usize,
        /// Its value: somebody's data, and no part of the message.
        value: f64,
    },
    /// A label that is no class.
    #[error("row {row}: the label is not among the classes, which are fixed and public")]
    Label {
        /// The row.
        row: usize,
        /// The label: somebody's data, and no part of the message.
        label: String,
    },
    /// A character that is no pixel, or a missing label.
    #[error("line {line} of the digits is not 64 pixels from 0 to g, a space and a digit")]
    Digit {
        /// The line, from 1.
        line: usize,
    },
    /// More examples than there are.
    #[error("{wanted} of {available} examples cannot be split off")]
    Split {
        /// The number that was asked for.
        wanted: usize,
        /// The number that exists.
        available: usize,
    },
    /// The table cannot be read at all.
    #[error("the table cannot be read: {reason}")]
    Unreadable {
        /// Why not.
        reason: String,
    },
}
