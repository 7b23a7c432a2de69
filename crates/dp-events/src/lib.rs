//! From files of events to a private dashboard.
//!
//! Rows of many people come in, numbers of every step go out, under one promise for all of them:
//!
//! `rows → people and limits → cells of a step → measurement with exact noise → statistics → tables and a page`
//!
//! | module | owns |
//! |---|---|
//! | [`spec`] | the file that describes a dashboard, checked as a whole |
//! | [`calendar`] | the public clock: steps, zones, times of rows |
//! | [`rows`] | reading CSV and Parquet |
//! | [`consumed`] | which rows were read before, and that they have not changed |
//! | [`people`] | limits per person, enforced by keyed hashes |
//! | [`encoding`] | what a row adds to which cells, and how far one person can move them |
//! | [`intake`] | all of this, one row after the other |
//! | [`plan`](mod@plan) | strategy, noise and part of the budget of every release |
//! | [`releases`] | the cells of a closed step in, its numbers out |
//! | [`statistics`] | from noisy cells to numbers with bands |
//! | `state` | the sealed folder between two runs |
//! | [`dashboard`] | a run |
//! | [`part`] | the people and keys that one of several processes keeps |
//! | `publish`, [`guarantee`], `page` | what everybody sees |
//! | [`ledger`] | what was spent |
//!
//! [`Dashboard`] runs all of it over files, with a state on disk. Whoever has rows elsewhere, or many machines, takes the parts:
//! [`intake::Parser`], [`people::People`] and [`encoding::Cells`] may run anywhere, as long as all rows of a person meet the same
//! `People`; [`Releases`] takes the cells of each step once.
//!
//! # Three things that are not the same
//!
//! A *row* is one event, a *person* may have many rows, and a *step* is what is published together. What is protected is a
//! choice: a row, the rows of a person within a step, or a person. Only limits make the last two finite, and they are
//! enforced: what exceeds them is left out, by looking at the rows of that person alone.

pub mod calendar;
pub mod consumed;
pub mod dashboard;
pub mod encoding;
mod error;
pub mod guarantee;
pub mod intake;
pub mod ledger;
mod page;
pub mod part;
pub mod people;
pub mod plan;
mod publish;
pub mod releases;
pub mod rows;
#[cfg(test)]
mod small_worlds;
pub mod spec;
mod state;
pub mod statistics;

pub use dashboard::{Dashboard, Outcome};
pub use error::{Error, Mistake, Result};
pub use ledger::Ledger;
pub use releases::Releases;
#[cfg(feature = "parquet")]
pub use rows::{parquet_columns, read_parquet};
pub use spec::Spec;
pub use state::Randomness;

/// The example of the README is an example like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
