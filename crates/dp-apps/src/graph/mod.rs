//! Graphs under continual observation, one private edge at a time.
//!
//! | what is released | entry point | one step costs |
//! |---|---|---|
//! | all edge weights, hence every cut | [`CutEncoding`] | O(V²) |
//! | a function of the graph (edges, spanning forest, triangles, stars, degrees) | [`GraphFunction`] | a few numbers |
//!
//! Choose the first when the questions are cuts, many, or not known in advance; the second when one number (or a
//! degree histogram) is wanted: its noise does not grow with the number of vertices.
//!
//! [`GraphEncoding`] is either of them, by name, with the cuts that are asked for.
//!
//! Released weights are negative in places. [`project`] turns them into an ordinary graph whose cuts stay close, and
//! [`min_cut`], [`max_cut`] and [`sparsest_cut`] read it; all of that is post-processing and costs no privacy.
//! Whole graphs go in and out as [`petgraph`] types through [`VertexPairs`].

mod cuts;
mod encoding;
mod forest;
mod functions;
mod karate;
mod lanczos;
mod pairs;
mod partition;
mod projection;

pub use cuts::{CutEncoding, CutError};
pub use encoding::{Cut, GraphEncoding};
pub use forest::SpanningForest;
pub use functions::{FunctionStream, GraphFunction, degree_histogram};
pub use karate::karate_club;
pub use pairs::{EdgeUpdate, VertexPairs};
pub use partition::{Partition, max_cut, min_cut, sparsest_cut};
pub use projection::{Projection, clip, project};
