//! Laws that hold for every strategy.
