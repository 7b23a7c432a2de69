//! Seeded inputs shared by the benches.
