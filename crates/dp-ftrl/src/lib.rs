//! Private learning with correlated noise.
pub mod data;
mod error;
pub mod model;
pub use error::{Error, Result};
