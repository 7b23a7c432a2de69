//! The door to the programs of the workspace: the command line, and those that measure.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// Hands all arguments to a program as they stand and returns its exit code.
///
/// The child keeps the caller's directory and its three standard streams, so that relative paths and pipes work.
pub(crate) fn run(shell: &Shell, package: &str, program: &str, arguments: &[String]) -> Result<ExitCode> {
    let mut command = Command::from(cmd!(
        shell,
        "cargo run --release --quiet -p {package} --bin {program} -- {arguments...}"
    ));
    let status = command.status().context("cargo could not be started")?;
    Ok(exit_code(status.code()))
}

/// A child that a signal ended has no code; that is a failure.
fn exit_code(code: Option<i32>) -> ExitCode {
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_pass_unchanged_and_a_signal_is_a_failure() {
        assert_eq!(exit_code(Some(0)), ExitCode::SUCCESS);
        assert_eq!(exit_code(Some(2)), ExitCode::from(2));
        assert_eq!(exit_code(None), ExitCode::FAILURE);
        assert_eq!(exit_code(Some(-1)), ExitCode::FAILURE);
    }
}
