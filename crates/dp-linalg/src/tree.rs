//! Dyadic decompositions.
