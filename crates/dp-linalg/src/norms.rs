//! Matrix and operator norms.
