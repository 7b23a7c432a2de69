//! Finding what some stages need, and installing it where the machine lets us.

use anyhow::Result;
use xshell::{Shell, cmd};

/// Something outside of cargo that a stage needs.
pub(crate) struct Need {
    name: &'static str,
    /// The package that brings it on Debian and its descendants.
    package: &'static str,
    /// Whether it is there. The thing itself is tried, no package database is consulted.
    present: fn(&Shell) -> Result<bool>,
}

/// What the `openblas` feature links with.
pub(crate) const OPENBLAS: Need =
    Need { name: "OpenBLAS", package: "libopenblas-dev", present: openblas_links };

/// What the report and the page of a dashboard are opened in.
pub(crate) const CHROMIUM: Need = Need {
    name: "Chromium",
    package: "chromium",
    present: |shell| Ok(succeeds(shell, &["chromium", "--version"])),
};

/// Whether a program that asks for OpenBLAS links.
pub(crate) fn openblas_links(shell: &Shell) -> Result<bool> {
    let scratch = shell.create_temp_dir()?;
    let program = scratch.path().join("probe");
    let probe = cmd!(shell, "cc -x c - -lopenblas -o {program}").stdin("int main(void) { return 0; }\n");
    Ok(probe.quiet().ignore_stdout().ignore_stderr().run().is_ok())
}

impl Need {
    /// Makes it available, or returns the sentence that says what is missing. Whatever is installed is announced first.
    pub(crate) fn provide(
        &self,
        shell: &Shell,
        may_install: bool,
    ) -> Result<std::result::Result<(), String>> {
        if (self.present)(shell)? {
            return Ok(Ok(()));
        }
        let Self { name, package, .. } = self;
        let missing = |why: &str| Ok(Err(format!("{name} is missing and {why}; install {package}")));
        if !may_install {
            return missing("--no-install was given");
        }
        if !succeeds(shell, &["apt-get", "--version"]) {
            return missing("there is no apt-get");
        }
        let Some(privilege) = privilege(shell) else {
            return missing("this user may not install packages");
        };
        eprintln!(
            "{name} is missing: installing the system package {package} with apt-get; `cargo xtask test --no-install` \
             goes without"
        );
        // The package lists of a fresh container are empty, those of a machine in use are not: refresh only when needed.
        let install = || apt_get(shell, privilege, &["install", "-y", "--no-install-recommends", package]);
        let update = || apt_get(shell, privilege, &["update"]);
        let installed = install() || (update() && install());
        if installed && (self.present)(shell)? { Ok(Ok(())) } else { missing("could not be installed") }
    }
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
