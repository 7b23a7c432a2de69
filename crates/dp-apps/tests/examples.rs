//! The examples run to their ends.

#[path = "../examples/genome_reads.rs"]
mod genome_reads;
#[path = "../examples/library_loans.rs"]
mod library_loans;
#[path = "../examples/machine_alarms.rs"]
mod machine_alarms;
#[path = "../examples/salary_survey.rs"]
mod salary_survey;

#[test]
fn every_example_succeeds() -> dp_apps::Result<()> {
    library_loans::main()?;
    genome_reads::main()?;
    machine_alarms::main()?;
    salary_survey::main()
}
