//! Power series.
