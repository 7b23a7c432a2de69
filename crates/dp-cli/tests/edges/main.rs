//! The edges of the command line: what depends on the data, which files survive, what cannot fit, and what happens when
//! something is killed, full, closed or nonsense. One table of commands, and laws over all of them.

mod bits;
mod files;
mod fuzz;
mod kills;
mod limits;
mod neighbours;
mod pinned;
mod places;
mod subject;
mod threads;
