//! The tasks that are one call of cargo.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::packages;

/// Runs the statistical tests alone, in release, with the figures they print.
pub(crate) fn statistical(shell: &Shell, filter: &[String]) -> Result<()> {
    Ok(cmd!(shell, "cargo test --release -p dp-tests --test statistics -- --nocapture {filter...}").run()?)
}

/// Runs the criterion benches: all of them, or the one that is named first.
///
/// The OpenBLAS groups are measured where the library is installed; a bench never installs it.
pub(crate) fn bench(shell: &Shell, arguments: &[String]) -> Result<()> {
    let (target, rest) = split_target(arguments);
    let features: &[&str] = if packages::openblas_links(shell)? { &["--features", "openblas"] } else { &[] };
    Ok(cmd!(shell, "cargo bench -p dp-benches {features...} {target...} {rest...}").run()?)
}

/// Builds the documentation of every workspace crate; a warning is an error.
pub(crate) fn doc(shell: &Shell) -> Result<()> {
    let _warnings_are_errors = shell.push_env("RUSTDOCFLAGS", "-D warnings");
    Ok(cmd!(shell, "cargo doc --no-deps --workspace").run()?)
}

/// Packs every crate that others can use as it would be published. With `--build` each is also built from what was packed,
/// alone and with no features but its own defaults; further arguments go to `cargo package`.
///
/// That build shares nothing with the others, for the packages do not know the profiles of the workspace: some minutes.
pub(crate) fn packages(shell: &Shell, arguments: &[String]) -> Result<()> {
    let (verify, rest): (&[&str], _) = match arguments.split_first() {
        Some((word, rest)) if word == "--build" => (&[], rest),
        _ => (&["--no-verify"], arguments),
    };
    let _apart = shell.push_env("CARGO_TARGET_DIR", "target/packages");
    let _small = shell.push_env("CARGO_PROFILE_DEV_DEBUG", "0");
    let ours = ["dp-tests", "dp-benches", "xtask"].iter().flat_map(|name| ["--exclude", name]);
    Ok(cmd!(shell, "cargo package --workspace --allow-dirty --quiet {ours...} {verify...} {rest...}")
        .run()?)
}

/// Separates the name of a bench, if the first argument is one, from what cargo gets as it stands.
fn split_target(arguments: &[String]) -> (Vec<&str>, &[String]) {
    match arguments.split_first() {
        Some((name, rest)) if !name.starts_with('-') => (vec!["--bench", name], rest),
        _ => (Vec::new(), arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_a_leading_word_names_a_bench() {
        let named = words("toeplitz -- --quick");
        assert_eq!(split_target(&named), (vec!["--bench", "toeplitz"], &named[1..]));
        let unnamed = words("-- toeplitz");
        assert_eq!(split_target(&unnamed), (vec![], &unnamed[..]));
        assert_eq!(split_target(&[]), (vec![], &[][..]));
    }
}
