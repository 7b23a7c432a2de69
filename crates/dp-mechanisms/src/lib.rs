//! Differential privacy under continual observation.
