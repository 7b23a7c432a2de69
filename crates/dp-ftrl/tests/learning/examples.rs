//! The examples run to their ends.

#[path = "../../examples/momentum_errors.rs"]
pub(crate) mod momentum_errors;
#[path = "../../examples/online_regret.rs"]
pub(crate) mod online_regret;
#[path = "../../examples/your_own_trainer.rs"]
mod your_own_trainer;

#[test]
fn every_example_succeeds() -> dp_ftrl::Result<()> {
    your_own_trainer::main()?;
    online_regret::main()?;
    momentum_errors::main()
}
