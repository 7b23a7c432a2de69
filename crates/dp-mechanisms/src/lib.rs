//! Differential privacy under continual observation.
//!
//! One line from data to release: `workload A → strategy C → calibrated plan σ → correlated noise → release`.
//!
//! | module | owns |
//! |---|---|
//! | [`workload`] | the statistics A, streamed |
//! | [`problem`] | what a strategy is built for: workload, steps, participation, metric |
//! | [`strategy`] | the factorizations `A = B C`, one file each |
//! | [`sensitivity`] | neighbouring relation, participation, footprint of an encoding |
//! | [`budget`] | (ε, δ), zCDP, GDP and the exact Gaussian calibration |
//! | [`accountant`] | many steps together, sampled or not: privacy loss distributions, bounded from both sides |
//! | [`plan`] | the only place that computes σ |
//! | [`bounds`], [`certificate`] | what nothing can beat, in closed form and by duality without matrices |
//! | [`planner`] | evaluates the strategies for a workload and picks |
//! | [`conformance`] | whether a strategy from elsewhere keeps its promises |
//! | [`joint`] | several statistics of one stream from one noise |
//! | [`noise`] | where `z` comes from, and the correlated noise made of it |
//! | [`mechanism`] | push an input, get the release: the one live object |
//! | [`exact`] | the same in exact integers, for adversaries who look at every bit |
//! | [`snapshot`], [`session`], [`state`] | continuing later, and surviving crashes |
//! | [`identity`] | what a saved state belongs to |
//! | [`sparse`] | a mechanism over a huge number of coordinates, few of them touched or asked for |
//!
//! # Which strategy
//!
//! Errors of the running count in units of `(ζ/μ)²`, mean (E2) and largest (E∞), from `cargo xtask tables`, which prints this
//! table, those of the gaps below and that of unknown horizons (memory and planning time: `cargo xtask plan --workload count --steps N --json`):
//!
//! | strategy | E2, E∞ at 1024 | at 4096 | at 2^16 | at 2^20 | values kept per coordinate | planning at 2^16 |
//! |---|---|---|---|---|---|---|
//! | lower bound on E2 | 8.7347 | 11.4906 | 18.1724 | 26.4189 | | |
//! | lower bound on E∞ | 8.7640 | 11.515 | 18.195 | 26.437 | | |
//! | `optimal` | 8.7347, 10.202 | 11.4906 | | | n | 0.7 s at 1024, 34 s at 4096 |
//! | `structured` | 8.7356, 10.202 | | | | about 11 | 1.0 s at 1024 |
//! | `scaled-blt` | 8.7456, 10.491 | 11.507, 14.047 | 18.213, 24.192 | 26.490, 39.263 | 5 to 8 | 15 ms |
//! | `scaled-sqrt` | 8.7521, 10.413 | 11.515, 13.881 | 18.222, 22.866 | 26.531, 34.505 | n to 2n | 0.9 s |
//! | `normalized-sqrt` | 8.9482, 9.491 | 11.749, 12.377 | 18.520, 19.318 | 26.850, 27.818 | n to 2n | 0.12 s |
//! | `optimal-toeplitz` | 9.3427, 11.284 | 12.233, 14.458 | 19.184, 21.972 | | n to 2n | 0.21 s |
//! | `blt` | 9.3475, 11.240 | 12.238, 14.406 | 19.192, 21.913 | 27.709, 30.983 | 4 to 8 | 7 ms |
//! | `sqrt` | 9.6708, 10.710 | 12.612, 13.793 | 19.664, 21.127 | 28.275, 30.019 | n to 2n | 9 ms |
//! | `group` | 10.161, 10.161 | 13.169, 13.169 | 20.353, 20.353 | 29.095, 29.095 | 3n | 22 ms |
//! | `anytime` (that many at most) | 9.173, 10.064 | 12.391, 13.615 | 20.441, 22.068 | 30.396, 32.326 | 5 to 8 | 10 ms |
//! | `honaker-full` | 13.588, 19.699 | 18.223, 26.169 | 29.495, 41.777 | 43.435, 60.941 | n | 1 ms |
//! | `honaker-online` | 31.921, 63.831 | 44.223, 88.442 | 74.829, 149.66 | 113.44, 226.87 | 2 log2 n | 2 ms |
//! | `binary-tree` | 55.011, 110.00 | 78.003, 156.00 | 136.00, 272.00 | 210.00, 420.00 | log2 n | 0.3 ms |
//!
//! Planning times are of the release profile on two cores. Beyond 2^16 steps `blt` and `scaled-blt` are planned without tables: a
//! plan of 2^24 steps takes 5 ms and 10 ms, and keeps 8 values of a coordinate and 12,000 beside them. With `--metric max` the
//! fitted strategies aim at E∞ instead, and beat `normalized-sqrt` and `group` there. For `scaled-blt` it is then
//!
//! | steps | 1024 | 4096 | 2^16 | 2^20 | 2^24 | 10^8 |
//! |---|---|---|---|---|---|---|
//! | E∞ | 8.803 | 11.56 | 18.26 | 26.54 | 36.40 | 43.62 |
//! | lower bound | 8.764 | 11.515 | 18.195 | 26.437 | 36.239 | 43.375 |
//!
//! Pure ε needs Laplace noise and hence columns that are short in ℓ1. There the factor `Δ_1² ‖B‖_F²/n` of the count is, from
//! `cargo xtask plan --workload count --steps N --epsilon 1` (variances are 2/ε² times that):
//!
//! | strategy | at 1024 | at 2^20 | values kept per coordinate |
//! |---|---|---|---|
//! | lower bound (that of ℓ2) | 8.7347 | 26.4189 | |
//! | `weighted-tree` | 104 | 779 | 4 to 8 |
//! | `honaker-online` | 351 | 2382 | 2 log2 n |
//! | `binary-tree` | 605 | 4410 | log2 n |
//! | `identity` | 512.5 | 524,288.5 | 0 |
//!
//! and of windows, for which `weighted-tree` measures blocks of their length, `--workload window:WIDTH`:
//!
//! | strategy | 100 in 1024 | 1000 in 4096 | 1000 in 10^5 |
//! |---|---|---|---|
//! | lower bound (that of ℓ2) | 7.8354 | 12.95 | 14.30 |
//! | `weighted-tree` | 65.2 | 198 | 225 |
//! | `identity` | 95.2 | 878 | 995 |
//! | `honaker-online` | 494 | 869 | |
//!
//! How far the planner's choice is above what is proved that nothing can beat, from
//! `cargo xtask plan --workload W --steps N [--metric max]`:
//!
//! | workload | E2 at 1024 | at 2^16 | at 2^20 | E∞ at 1024 | at 2^16 | at 2^20 |
//! |---|---|---|---|---|---|---|
//! | count | 0.00 % | 0.22 % | 0.27 % | 0.00 % | 0.36 % | 0.38 % |
//! | exponential, α = 1.001 | 0.00 % | 0.01 % | 0.02 % | 0.00 % | 0.17 % | 0.03 % |
//! | average | 0.00 % | 0.03 % | 0.04 % | 0 | 0 | 0 |
//! | window of 32 | 0.00 % | 0.03 % | | 0.00 % | 0.00 % | |
//! | window of 1000 | 0.00 % | 0.11 % | 0.35 % | 0.00 % | 0.10 % | 0.01 % |
//! | polynomial, c = ½ | 0.00 % | 0.10 % | 0.03 % | 0.00 % | 0.10 % | 0.03 % |
//! | momentum 0.9 | 0.00 % | 0.28 % | 0.36 % | 0.00 % | 0.59 % | |
//! | momentum 0.99 | 0.00 % | 0.32 % | 0.54 % | 0.00 % | 0.71 % | 0.57 % |
//!
//! The mean error of a count of 2^24 steps is 0.31 % above its bound. Both errors of momentum, by `scaled-blt`:
//!
//! | momentum | steps | E2 | lower bound | above |
//! |---|---|---|---|---|
//! | 0.5 | 2^20 | 92.134 | 91.854 | 0.31 % |
//! | 0.9 | 4096 | 610.04 | 608.97 | 0.18 % |
//! | 0.9 | 2^16 | 1115.2 | 1112.1 | 0.28 % |
//! | 0.9 | 2^20 | 1776.7 | 1770.3 | 0.36 % |
//! | 0.9 | 2^24 | 2595.4 | 2585.5 | 0.39 % |
//! | 0.9 | 10^8 | 3204.3 | 3192.8 | 0.36 % |
//! | 0.99 | 4096 | 30079 | 30036 | 0.14 % |
//! | 0.99 | 2^16 | 67722 | 67504 | 0.32 % |
//! | 0.99 | 2^20 | 120630 | 119983 | 0.54 % |
//! | 0.99 | 2^24 | 189209 | 188340 | 0.46 % |
//! | 0.99 | 10^8 | 241656 | 240592 | 0.44 % |
//! | 0.999 | 2^20 | 7552360 | 7475774 | 1.02 % |
//!
//! | momentum | steps | E∞ | lower bound | above |
//! |---|---|---|---|---|
//! | 0.5 | 3000 | 35.090 | 34.885 | 0.59 % |
//! | 0.5 | 2^20 | 92.354 | 91.937 | 0.45 % |
//! | 0.9 | 1024 | 425.11 | 421.91 | 0.76 % |
//! | 0.9 | 2^16 | 1121.9 | 1115.4 | 0.59 % |
//! | 0.9 | 2^24 | 2601.3 | 2588.0 | 0.51 % |
//! | 0.99 | 2048 | 24519 | 24243 | 1.14 % |
//! | 0.99 | 2^16 | 68532 | 68046 | 0.71 % |
//! | 0.99 | 2^20 | 121262 | 120580 | 0.57 % |
//! | 0.99 | 10^8 | 242711 | 240976 | 0.72 % |
//! | 0.999 | 2^16 | 3664185 | 3623049 | 1.14 % |
//! | 0.999 | 2^20 | 7626334 | 7577331 | 0.65 % |
//!
//! Windows near their horizon: E2 above what nothing can beat ([`certificate::window_bound`]), by their share of the horizon.
//! `scaled-blt` keeps a ring of the window's width and up to eight buffers, `scaled-sqrt` a value of every step:
//!
//! | E2 of a window | 97/100 | 7/10 | 1/2 | 1/4 | 1/10 | 1/100 | 1/1000 |
//! |---|---|---|---|---|---|---|---|
//! | lower bound at 4096 | 11.689 | 12.973 | 13.392 | 12.982 | 11.265 | 6.1970 | 2.4070 |
//! | `scaled-sqrt` at 4096 | 0.46 % | 0.87 % | 0.80 % | 0.57 % | 0.25 % | 0.05 % | 0.04 % |
//! | `scaled-blt` at 4096 | 0.51 % | 0.82 % | 0.71 % | 0.48 % | 0.36 % | 0.27 % | 0.20 % |
//! | lower bound at 2^16 | 18.506 | 20.761 | 21.743 | 21.762 | 19.840 | 13.031 | 7.2152 |
//! | `scaled-sqrt` at 2^16 | 0.43 % | 0.86 % | 0.86 % | 0.72 % | 0.28 % | 0.03 % | 0.06 % |
//! | `scaled-blt` at 2^16 | 0.48 % | 0.81 % | 0.75 % | 0.59 % | 0.36 % | 0.29 % | 0.30 % |
//! | lower bound at 2^20 | 26.909 | 30.384 | 32.113 | 32.799 | 30.832 | 22.384 | 14.447 |
//! | `scaled-blt` at 2^20 | 0.48 % | 0.83 % | 0.81 % | 0.61 % | 0.44 % | 0.33 % | 0.65 % |
//!
//! Their largest error is bounded as closely, but not attained: at 1024 steps `normalized-sqrt` is 5 % above for a quarter of the horizon,
//! and 13 % for seven tenths. `blt`, which remembers no more than a few values, is up to 17 % above for windows.
//!
//! No known horizon: the mean squared error of the first t steps of a count, over what is proved that nothing can beat for exactly t
//! steps. `doubling` is [`Plan::doubling`] with `scaled-blt`, its first epoch as long as expected. [`strategy::anytime`] proves that
//! its ratio is bounded for ever; with a cap it is made for that many steps at most.
//!
//! | expected | strategy | t = ⅒ of it | 1 | 3 | 10 | 30 | 100 | 300 | 1000 |
//! |---|---|---|---|---|---|---|---|---|---|
//! | 100 | `anytime` | 1.45 | 1.27 | 1.26 | 1.26 | 1.26 | 1.26 | 1.27 | 1.27 |
//! | | with a cap of 1000 times that | 1.45 | 1.27 | 1.25 | 1.25 | 1.25 | 1.24 | 1.23 | 1.16 |
//! | | doubling | 1.81 | 1.00 | 1.51 | 2.29 | 3.01 | 3.93 | 4.78 | 5.55 |
//! | 1024 | `anytime` | 1.35 | 1.22 | 1.21 | 1.22 | 1.23 | 1.24 | 1.24 | 1.25 |
//! | | with a cap of 1000 times that | 1.35 | 1.22 | 1.21 | 1.22 | 1.22 | 1.22 | 1.21 | 1.15 |
//! | | doubling | 1.60 | 1.00 | 1.59 | 2.48 | 3.33 | 4.42 | 5.46 | 6.42 |
//! | 10^4 | `anytime` | 1.28 | 1.19 | 1.19 | 1.20 | 1.20 | 1.21 | 1.22 | 1.22 |
//! | | doubling | 1.46 | 1.00 | 1.67 | 2.68 | 3.70 | 4.98 | 6.23 | 7.40 |
//!
//! One person in several steps, TIMES:SEPARATION. E2 at 512 steps, from
//! `cargo xtask plan --workload W --steps 512 --participation P`, and in brackets the same strategy fitted to a single
//! participation (the lower bound: by singular values alone). First where participations can fill the horizon,
//!
//! | strategy | count, 4:128 | count, 8:64 | momentum:0.95, 4:128 | momentum:0.95, 8:64 |
//! |---|---|---|---|---|
//! | lower bound | 32.90 (28.95) | 77.80 (57.89) | 4712 (3488) | 13123 (6976) |
//! | `optimal` | 32.98 (45.78) | 78.68 (133.80) | 4743 (7343) | 13275 (23879) |
//! | `scaled-sqrt` | 33.31 (46.63) | 80.61 (135.39) | 4868 (7402) | 13603 (23987) |
//! | `normalized-sqrt` | 35.98 (49.28) | 92.46 (151.41) | 5309 (8420) | 15280 (29167) |
//! | `optimal-toeplitz` | 36.05 | 87.34 | 5356 | 15171 |
//! | `scaled-blt` | 38.80 (46.21) | 95.72 (134.56) | 5850 (7362) | 16223 (23961) |
//! | `blt` | 38.80 | 96.83 | 5954 | 17369 |
//!
//! and then where they cannot, for the count:
//!
//! | strategy | 4:32 | 2:64 | 8:16 | 4:1 |
//! |---|---|---|---|---|
//! | lower bound | 47.62 | 17.98 | 140.2 | 84.72 |
//! | `optimal` | 48.13 | 18.04 | 143.4 | 86.67 |
//! | `scaled-sqrt` | 49.29 | 18.37 | 147.7 | 89.36 |
//! | `scaled-blt`, `blt` | 54.69 | 20.00 | 164.5 | 92.98 |
//!
//! - Counts and decays of any length and dimension: `scaled-blt`, and windows too: there it keeps a ring of their width.
//! - A thousand steps, and every fraction of a percent: `optimal`, which proves its own optimality.
//! - The same people again and again: `scaled-sqrt`, within a few percent of `optimal` and planned in a second, which keeps as many
//!   values per coordinate as the participations are apart where they can fill the horizon, and those of every step where they cannot; `blt` where
//!   that is too many. All are built for the participation.
//! - No horizon: `anytime`, fitted to an expected length ([`Problem::expecting`]), by itself or in [`Plan::doubling`].

pub mod accountant;
pub mod bounds;
pub mod budget;
pub mod certificate;
pub mod conformance;
mod error;
pub mod exact;
mod horizon;
pub mod identity;
pub mod joint;
pub mod mechanism;
pub mod noise;
#[cfg(test)]
mod pinned;
pub mod plan;
pub mod planner;
pub mod problem;
mod run;
mod saved;
pub mod sensitivity;
pub mod session;
pub mod shards;
pub mod snapshot;
pub mod sparse;
pub mod state;
pub mod strategy;
pub mod workload;
#[cfg(feature = "serde")]
mod written;

pub use budget::Budget;
pub use error::{Error, Result};
pub use identity::Identity;
pub use joint::{Joint, JointPlan, Readout};
pub use mechanism::Mechanism;
pub use noise::{CorrelatedNoise, GaussianSource, Origin, Seed, Side};
pub use plan::{Arithmetic, Horizon, Plan};
pub use problem::{Metric, Problem, Statistic};
pub use sensitivity::{Footprint, Participation, Relation, Sensitivity};
pub use session::Session;
pub use snapshot::Snapshot;
pub use sparse::SparseMechanism;
pub use state::StateFile;
pub use strategy::{Method, Strategy};
pub use workload::Workload;

/// The example of the README is an example like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
