//! Seeded statistical tests. Each states how many draws it looks at and the probability α of a false alarm, and proves
//! its power on noise that is scaled by 2/3 and by 3/2, which it must reject.

/// The released noise is Gaussian with covariance `σ²BBᵀ`.
mod covariance;
/// Errors that shipped elsewhere, and what they would have given away.
mod mistakes;
/// The privacy game against our mechanisms, and against mechanisms broken on purpose.
mod privacy;
