//! Which code a comparison measured, and whether that code is still the same.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use dp_benches::record;
use serde::{Deserialize, Serialize};

/// A file or a folder of the repository, and what it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// The path from the root of the repository.
    pub(crate) path: String,
    /// A hash of all Rust and Python files in it, of their paths and what they hold.
    pub(crate) digest: String,
}

impl Source {
    /// The source as it is now.
    pub(crate) fn now(path: &str) -> Result<Self> {
        Ok(Self { path: path.to_owned(), digest: digest(&root(), path)? })
    }

    /// Whether the files are other ones by now, or gone.
    pub(crate) fn changed(&self) -> bool {
        digest(&root(), &self.path).map_or(true, |digest| digest != self.digest)
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let folder = record::folder();
    folder.ancestors().nth(2).unwrap_or(Path::new(".")).to_path_buf()
}

/// FNV-1a of 64 bits: nobody forges a record of their own code.
fn digest(root: &Path, path: &str) -> Result<String> {
    let mut files = Vec::new();
    collect(&root.join(path), &mut files)?;
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file);
        add(name.to_string_lossy().replace('\\', "/").as_bytes());
        add(&fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?);
    }
    Ok(format!("{hash:016x}"))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path).with_context(|| format!("cannot list `{}`", path.display()))? {
            collect(&entry?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
        files.push(path.to_path_buf());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_sees_contents_and_names_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join("code").join(name), text).unwrap();
        fs::create_dir(folder.path().join("code")).unwrap();
        write("a.rs", "1");
        let first = digest(folder.path(), "code").unwrap();
        write("notes.md", "not code");
        assert_eq!(digest(folder.path(), "code").unwrap(), first);
        write("a.rs", "2");
        assert_ne!(digest(folder.path(), "code").unwrap(), first);
        write("a.rs", "1");
        assert_eq!(digest(folder.path(), "code").unwrap(), first);
        fs::rename(folder.path().join("code/a.rs"), folder.path().join("code/b.rs")).unwrap();
        assert_ne!(digest(folder.path(), "code").unwrap(), first);
    }

    #[test]
    fn what_is_gone_has_changed() {
        assert!(!Source::now("benches/src").unwrap().changed());
        assert!(Source { path: "no/such/folder".to_owned(), digest: String::new() }.changed());
    }
}
