//! The examples tell their stories to the end.

#[path = "../../examples/club_cuts.rs"]
mod club_cuts;
#[path = "../../examples/growing_network.rs"]
mod growing_network;

#[test]
fn the_examples_run() {
    club_cuts::main().unwrap();
    growing_network::main().unwrap();
}
