//! Seeded statistical tests. Each states how many draws it looks at and the probability α of a false alarm, and proves
//! its power on noise that is scaled by 2/3 and by 3/2, which it must reject.

mod covariance;
mod learning;
mod mistakes;
mod privacy;
mod sampling;
