//! What a shell and a reader of manuals expect of a program that is installed: completions and manual pages.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// Print the completions of a shell, to be put where it looks for them.
///
/// For bash: `dp completions bash > ~/.local/share/bash-completion/completions/dp`
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut program: Command) -> Result<()> {
        // The generator panics where it cannot write, so it writes to memory.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "dp", &mut script);
        Ok(io::stdout().lock().write_all(&script)?)
    }
}

/// Write a manual page for the program and one for each command.
#[derive(Args)]
pub(crate) struct Manual {
    /// The folder to write them into, which is made if it is not there
    folder: PathBuf,
}

impl Manual {
    pub(crate) fn run(self, program: Command) -> Result<()> {
        let Self { folder } = self;
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        clap_mangen::generate_to(program, &folder)
            .with_context(|| format!("cannot write the manual into `{}`", folder.display()))
    }
}
