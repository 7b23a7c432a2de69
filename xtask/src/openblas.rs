//! Finding OpenBLAS, and installing it where the machine lets us.

use anyhow::Result;
use xshell::{Shell, cmd};

/// The package that brings the library on Debian and its descendants.
const PACKAGE: &str = "libopenblas-dev";

/// Whether a program that asks for OpenBLAS links. This is what the `openblas` feature will ask of the machine,
/// so no package database is consulted.
pub(crate) fn links(shell: &Shell) -> Result<bool> {
    let scratch = shell.create_temp_dir()?;
    let program = scratch.path().join("probe");
    let probe = cmd!(shell, "cc -x c - -lopenblas -o {program}").stdin("int main(void) { return 0; }\n");
    Ok(probe.quiet().ignore_stdout().ignore_stderr().run().is_ok())
}

/// Makes OpenBLAS available, or returns the sentence that says what is missing.
pub(crate) fn provide(shell: &Shell) -> Result<std::result::Result<(), String>> {
    if links(shell)? {
        return Ok(Ok(()));
    }
    let missing = |why: &str| Ok(Err(format!("OpenBLAS is missing and {why}; install {PACKAGE}")));
    if !succeeds(shell, &["apt-get", "--version"]) {
        return missing("there is no apt-get");
    }
    let Some(privilege) = privilege(shell) else {
        return missing("this user may not install packages");
    };
    // The package lists of a fresh container are empty, those of a machine in use are not: refresh only when needed.
    let installed = install(shell, privilege) || (update(shell, privilege) && install(shell, privilege));
    if installed && links(shell)? { Ok(Ok(())) } else { missing("could not be installed") }
}

/// The words to put before a command that needs the administrator, if there are any that ask no password.
fn privilege(shell: &Shell) -> Option<&'static [&'static str]> {
    if cmd!(shell, "id -u").quiet().read().is_ok_and(|user| user == "0") {
        Some(&[])
    } else if succeeds(shell, &["sudo", "-n", "true"]) {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

fn install(shell: &Shell, privilege: &[&str]) -> bool {
    apt_get(shell, privilege, &["install", "-y", "--no-install-recommends", PACKAGE])
}

fn update(shell: &Shell, privilege: &[&str]) -> bool {
    apt_get(shell, privilege, &["update"])
}

/// Runs apt-get without questions, and without waiting for a network that is not there.
fn apt_get(shell: &Shell, privilege: &[&str], arguments: &[&str]) -> bool {
    let settings = [
        "-qq",
        "-o",
        "Acquire::http::Timeout=20",
        "-o",
        "Acquire::https::Timeout=20",
        "-o",
        "Acquire::Retries=1",
    ];
    cmd!(shell, "env {privilege...} env DEBIAN_FRONTEND=noninteractive apt-get {settings...} {arguments...}")
        .run()
        .is_ok()
}

fn succeeds(shell: &Shell, command: &[&str]) -> bool {
    cmd!(shell, "env {command...}").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}
