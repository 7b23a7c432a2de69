//! Planned real convolutions.
