//! The place of private learning with correlated noise. It holds no code yet.
