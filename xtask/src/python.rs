//! The Python package: its environment, its wheel and its tests.
//!
//! The wheel is built in the dev profile and the workspace's own target directory, with the features that the rest of the
//! workspace asks of common dependencies (`shared-build`), so that it shares what was compiled for everything else. What the tests use beside numpy is installed if it can be; tests that need something that
//! could not be say so and are named.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

/// Without these nothing can be built or tested.
const NEEDED: &[&str] = &["maturin>=1.9.4,<2", "numpy>=1.22", "pytest", "mypy"];

/// What single tests need: data frames, and a library for learning.
const WISHED: &[&str] = &["pandas", "polars", "pyarrow", "jax", "optax"];

/// The oldest version of Python that the package serves.
const OLDEST: (u32, u32) = (3, 9);

/// What the package is measured beside, in an environment of its own.
const MEASURED: &[&str] = &["numpy>=1.22", "jax-privacy==2.0.0", "opendp==0.16.0", "dp-accounting==0.6.0"];

/// What is done with the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// Build it quickly and test it.
    Test,
    /// Build the wheel as it is published, and stop there.
    Release,
    /// Build that wheel and measure it beside other packages.
    Bench,
}

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    aim: Aim,
    /// Words for pytest, or for the measurement.
    rest: Vec<String>,
}

impl Options {
    /// Reads the words after `python`.
    pub(crate) fn parse(words: &[String]) -> Self {
        let aim = match words.first().map(String::as_str) {
            Some("--release") => Aim::Release,
            Some("bench") => Aim::Bench,
            _ => return Self { aim: Aim::Test, rest: words.to_vec() },
        };
        Self { aim, rest: words[1..].to_vec() }
    }
}

/// A Python that the package serves, or the sentence that says what is missing.
fn interpreter(shell: &Shell) -> std::result::Result<&'static str, String> {
    let found = ["python3", "python"].into_iter().find(|name| {
        let version = "import sys; print(sys.version_info[0], sys.version_info[1])";
        let read = cmd!(shell, "{name} -c {version}").quiet().ignore_stderr().read();
        read.is_ok_and(|text| version_of(&text).is_some_and(|version| version >= OLDEST))
    });
    found.ok_or_else(|| format!("no Python {}.{} or newer was found", OLDEST.0, OLDEST.1))
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(' ')?;
    Some((major.parse().ok()?, minor.trim().parse().ok()?))
}

/// Makes the environment, builds and installs the wheel, and runs its tests.
///
/// Returns the tests that were not run; or, where nothing could be, the sentence that says why.
///
/// # Errors
/// A wheel that does not build, or a test that fails.
pub(crate) fn run(
    shell: &Shell,
    options: &Options,
    may_install: bool,
) -> Result<std::result::Result<Vec<String>, String>> {
    let python = match interpreter(shell) {
        Ok(python) => python,
        Err(missing) => return Ok(Err(missing)),
    };
    let root = shell.current_dir();
    let package = root.join("crates/dp-python");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let home = target.join("python");
    let Ok(bin) = environment(shell, python, &home.join("environment")) else {
        return Ok(Err(format!("{python} cannot make a virtual environment; install its module venv")));
    };
    let system = python;
    let python = bin.join("python");
    if !has(shell, &python, NEEDED) {
        if !may_install {
            return Ok(Err("its environment is not there yet and --no-install was given".to_owned()));
        }
        let words = NEEDED;
        if cmd!(shell, "{python} -m pip install --quiet --disable-pip-version-check {words...}")
            .run()
            .is_err()
        {
            return Ok(Err(format!("pip could not install {}", words.join(", "))));
        }
    }
    let wheel = build(shell, &bin, &package, &home, options.aim != Aim::Test)?;
    eprintln!("{} ({:.1} MB)", wheel.display(), std::fs::metadata(&wheel)?.len() as f64 / 1e6);
    match options.aim {
        Aim::Test => {}
        Aim::Release => return Ok(Ok(Vec::new())),
        Aim::Bench => {
            let Ok(bin) = environment(shell, system, &home.join("measured")) else {
                return Ok(Err(format!(
                    "{system} cannot make a virtual environment; install its module venv"
                )));
            };
            return bench(shell, &bin.join("python"), &package, &wheel, &options.rest).map(Ok);
        }
    }
    cmd!(
        shell,
        "{python} -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall {wheel}"
    )
    .run()?;
    let mut not_run = Vec::new();
    for name in WISHED {
        let wanted = std::slice::from_ref(name);
        let there = has(shell, &python, wanted)
            || (may_install
                && cmd!(shell, "{python} -m pip install --quiet --disable-pip-version-check {name}")
                    .quiet()
                    .run()
                    .is_ok());
        if !there {
            not_run.push(format!("Python tests with {name}"));
        }
    }
    // The tests see the wheel, not the source beside them.
    let _elsewhere = shell.push_dir(&package);
    let dp = target.join("debug").join(format!("dp{}", std::env::consts::EXE_SUFFIX));
    let _program = if dp.exists() {
        Some(shell.push_env("CONTINUAL_DP_PROGRAM", &dp))
    } else {
        not_run.push("Python beside the program dp, which is not built".to_owned());
        None
    };
    tests(shell, &python, &options.rest)?;
    Ok(Ok(not_run))
}

/// An environment, made where there is none yet, and where its programs are.
fn environment(shell: &Shell, python: &str, place: &Path) -> Result<PathBuf> {
    let bin = place.join(if cfg!(windows) { "Scripts" } else { "bin" });
    if !bin.join("python").exists() && !bin.join("python.exe").exists() {
        cmd!(shell, "{python} -m venv {place}").run()?;
    }
    Ok(bin)
}

/// Measures the published wheel beside other packages, as far as they can be installed.
fn bench(shell: &Shell, python: &Path, package: &Path, wheel: &Path, rest: &[String]) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for name in MEASURED {
        if cmd!(shell, "{python} -m pip install --quiet --disable-pip-version-check {name}").run().is_err() {
            missing.push(format!("rows of {name}, which pip could not install"));
        }
    }
    cmd!(
        shell,
        "{python} -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall {wheel}"
    )
    .run()?;
    let script = package.join("bench/side_by_side.py");
    cmd!(shell, "{python} {script} --wheel {wheel} {rest...}").run()?;
    Ok(missing)
}

fn tests(shell: &Shell, python: &Path, rest: &[String]) -> Result<()> {
    let _no_litter = shell.push_env("PYTHONDONTWRITEBYTECODE", "1");
    cmd!(shell, "{python} -m pytest -q -p no:cacheprovider {rest...}").run()?;
    let cache = std::env::temp_dir().join("continual-dp-mypy");
    cmd!(shell, "{python} -m mypy --strict --cache-dir {cache} -p continual_dp").run()?;
    cmd!(shell, "{python} -m mypy --strict --cache-dir {cache} tests/typed.py").run()?;
    Ok(())
}

/// Whether all of these can be imported, by the first word of what pip calls them.
fn has(shell: &Shell, python: &Path, packages: &[&str]) -> bool {
    let names: Vec<&str> = packages.iter().map(|package| name_of(package)).collect();
    let program = format!(
        "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(n) is None for n in {names:?}))"
    );
    cmd!(shell, "{python} -c {program}").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}

fn name_of(package: &str) -> &str {
    package.split(['<', '>', '=']).next().unwrap_or(package)
}

/// Builds the wheel and returns where it is.
///
/// The published one is the same to the last byte wherever it is built from a commit by the same compilers: dependencies are
/// those of the lock file, paths of the machine are left out, and times are that of the commit.
fn build(shell: &Shell, bin: &Path, package: &Path, home: &Path, release: bool) -> Result<PathBuf> {
    let wheels = home.join(if release { "published" } else { "wheels" });
    shell.remove_path(&wheels)?;
    let (maturin, python) = (bin.join("maturin"), bin.join("python"));
    let manifest = package.join("Cargo.toml");
    let mut kept = Vec::new();
    let profile: &[&str] = if release {
        kept.push(shell.push_env("CARGO_ENCODED_RUSTFLAGS", remapped(&shell.current_dir())?));
        // What is compiled with these flags is of no use to anything else.
        kept.push(shell.push_env("CARGO_TARGET_DIR", home.join("target")));
        let date = cmd!(shell, "git log -1 --format=%ct").quiet().ignore_stderr().read();
        kept.push(shell.push_env("SOURCE_DATE_EPOCH", date.unwrap_or_else(|_| "0".to_owned())));
        &["--release", "--locked"]
    } else {
        &["--profile", "dev", "--features", "shared-build"]
    };
    cmd!(
        shell,
        "{maturin} build --quiet {profile...} --manifest-path {manifest} --interpreter {python} --out {wheels}"
    )
    .run()?;
    drop(kept);
    let mut found = shell.read_dir(&wheels)?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    match found.pop() {
        Some(wheel) if found.is_empty() => Ok(wheel),
        _ => bail!("maturin did not leave exactly one wheel in {}", wheels.display()),
    }
}

/// Flags that replace where the source, the dependencies and the standard library lie by names that are the same everywhere.
fn remapped(root: &Path) -> Result<String> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let Some(cargo) = cargo else { bail!("neither CARGO_HOME nor a home directory is known") };
    let flag = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    // The separator of cargo's list: paths may hold spaces.
    Ok([flag(root, "/source"), flag(&cargo, "/cargo")].join("\u{1f}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version_of("3 11\n"), Some((3, 11)));
        assert!(version_of("3 10").unwrap() > OLDEST && version_of("2 7").unwrap() < OLDEST);
        assert_eq!(version_of("nothing"), None);
    }

    #[test]
    fn a_package_is_imported_by_its_first_word() {
        assert_eq!(
            NEEDED.iter().map(|one| name_of(one)).collect::<Vec<_>>(),
            ["maturin", "numpy", "pytest", "mypy"]
        );
    }

    #[test]
    fn only_a_leading_word_asks_for_the_published_wheel() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(Options::parse(&words("--release")).aim, Aim::Release);
        let bench = Options::parse(&words("bench --quick"));
        assert!(bench.aim == Aim::Bench && bench.rest == words("--quick"));
        let some = Options::parse(&words("-k noise"));
        assert!(some.aim == Aim::Test && some.rest == words("-k noise"));
    }

    #[test]
    fn no_path_of_the_machine_is_left() {
        let flags = remapped(Path::new("/somewhere with spaces")).unwrap();
        let first = flags.split('\u{1f}').next().unwrap();
        assert_eq!(first, "--remap-path-prefix=/somewhere with spaces=/source");
    }
}
