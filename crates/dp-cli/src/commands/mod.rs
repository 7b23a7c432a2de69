//! One file per command.

pub(crate) mod calibrate;
pub(crate) mod demo;
pub(crate) mod plan;
pub(crate) mod release;
