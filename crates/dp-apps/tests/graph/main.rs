//! Graphs: what one edge can change, checked exhaustively; the noise of cuts; what projection is worth.

mod cuts;
mod examples;
mod functions;
mod projection;
mod small_worlds;
