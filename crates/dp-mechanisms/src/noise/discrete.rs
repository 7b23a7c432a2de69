//! Exact discrete noise.
