//! Shared ground of the cross-crate tests: golden values and small independent references.
