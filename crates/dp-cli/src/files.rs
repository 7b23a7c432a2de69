//! Which files a command reads and writes: checked before any of them is opened for writing.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use dp_events::rows;

use crate::arguments::Usage;

/// The most bytes that a list (a universe, a dictionary, weights) may have.
const LONGEST_LIST: u64 = 1 << 30;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing yet.
    Missing,
    /// A regular file: it can be read back, cut and synced.
    Regular,
    /// A pipe or a device: it can only be written to, or only be read from.
    Stream,
}

/// What stands at a path; `-` is a stream.
pub(crate) fn kind(path: &Path) -> Result<Kind> {
    if path == Path::new("-") {
        return Ok(Kind::Stream);
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => bail!("`{}` is a directory; give a file", path.display()),
        Ok(found) if found.is_file() => Ok(Kind::Regular),
        Ok(_) => Ok(Kind::Stream),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Kind::Missing),
        Err(error) => Err(error).with_context(|| format!("cannot look at `{}`", path.display())),
    }
}

/// The files of one run, by the options that name them.
#[derive(Default)]
pub(crate) struct Files {
    read: Vec<(&'static str, PathBuf)>,
    written: Vec<(&'static str, PathBuf)>,
}

impl Files {
    /// Adds a file that is read.
    pub(crate) fn reads(&mut self, option: &'static str, path: &Path) -> &mut Self {
        self.read.push((option, path.to_owned()));
        self
    }

    /// Adds a file that is written.
    pub(crate) fn writes(&mut self, option: &'static str, path: &Path) -> &mut Self {
        self.written.push((option, path.to_owned()));
        self
    }

    /// Refuses a file that is both read and written, or written twice, and one that cannot be made because its directory is
    /// missing. Pipes and devices may stand in several places.
    pub(crate) fn check(&self) -> Result<()> {
        for (index, (option, path)) in self.written.iter().enumerate() {
            let kind = kind(path)?;
            if kind == Kind::Stream {
                continue;
            }
            if let Some(parent) =
                path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir())
            {
                bail!(
                    "`{}` for {option} has no directory `{}`; make it first",
                    path.display(),
                    parent.display()
                );
            }
            for (other, rival) in self.read.iter().chain(&self.written[..index]) {
                if same(path, rival) {
                    return Err(Usage::error(format!(
                        "{option} and {other} are both `{}`; it would be destroyed: give each a file of its own",
                        path.display()
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Whether two paths lead to one file, by their names or through links.
fn same(left: &Path, right: &Path) -> bool {
    place(left) == place(right) || identity(left).is_some_and(|left| identity(right) == Some(left))
}

/// The path without links and detours; of a file that does not exist yet, that of its directory and its name.
fn place(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// What tells a file from all others on the machine.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

/// A path with something appended to its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens a file that is started anew, or a pipe or device. A file that has contents is not thrown away unless that was
/// asked for.
pub(crate) fn create(path: &Path, overwrite: bool) -> Result<File> {
    let context = || format!("cannot write to `{}`", path.display());
    let mut options = OpenOptions::new();
    options.write(true);
    match kind(path)? {
        Kind::Stream => {}
        Kind::Missing => {
            options.create(true);
        }
        Kind::Regular => {
            let standing = fs::metadata(path).with_context(context)?.len();
            if standing > 0 && !overwrite {
                return Err(Usage::error(format!(
                    "`{}` exists; releasing the same rows again spends the budget a second time. Give another file, \
                     --state to continue a run, or --overwrite if it may go",
                    path.display()
                )));
            }
            options.truncate(true);
        }
    }
    options.open(path).with_context(context)
}

/// The text of a list that somebody wrote, such as a universe.
pub(crate) fn list(path: &Path, what: &str) -> Result<String> {
    let context = || format!("cannot read {what} from `{}`", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(context)?;
    file.take(LONGEST_LIST + 1).read_to_end(&mut bytes).with_context(context)?;
    if bytes.len() as u64 > LONGEST_LIST {
        bail!("`{}` has more than {LONGEST_LIST} bytes, which is too long for {what}", path.display());
    }
    rows::text_of(bytes)
        .map_err(|(line, message)| anyhow::anyhow!("line {line}: {message}"))
        .with_context(context)
}
