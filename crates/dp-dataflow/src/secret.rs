//! The secret that all processes of a run share.

use std::path::Path;

use zeroize::Zeroizing;

use crate::{Result, failed};

/// The variable that may hold it.
pub const VARIABLE: &str = "DP_SECRET";

/// No secret is shorter, in bytes.
const SHORTEST: usize = 32;

/// The secret that all processes of a run share: by it they know each other, and under it the key of pseudonyms travels. It
/// comes from a file that its owner alone may read, or from a variable, never from a command line; it is kept in no file of ours,
/// wiped from memory and never printed.
pub struct Secret(Zeroizing<[u8; 32]>);

impl Secret {
    /// The secret in a file, or in the variable `DP_SECRET` where no file is named.
    ///
    /// # Errors
    /// A file that others may read, or none; a secret of fewer than 32 bytes.
    pub fn load(file: Option<&Path>) -> Result<Self> {
        let (text, place) = if let Some(path) = file {
            let place = path.display().to_string();
            check_rights(path)?;
            let text = std::fs::read(path).map_err(|error| failed(format!("{place}: {error}")))?;
            (Zeroizing::new(text), place)
        } else {
            let text = std::env::var(VARIABLE).map_err(|_| {
                failed(format!(
                    "several processes need a secret in common: name a file with --secret, or set {VARIABLE}"
                ))
            })?;
            (Zeroizing::new(text.into_bytes()), VARIABLE.to_owned())
        };
        Self::new(text.trim_ascii()).ok_or_else(|| {
            failed(format!(
                "{place}: a secret has at least {SHORTEST} bytes; make one with a generator of passwords"
            ))
        })
    }

    /// The secret that follows from some bytes, if they are enough.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let hash = || blake3::derive_key("dp-dataflow secret of a run", bytes);
        (bytes.len() >= SHORTEST).then(|| Self(Zeroizing::new(hash())))
    }

    /// A keyed hash of what two processes said to each other.
    pub(crate) fn proof(&self, what: &str, from: usize, to: usize, parts: [&[u8; 32]; 2]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(what.as_bytes()).update(&[0]);
        hasher.update(&(from as u64).to_le_bytes()).update(&(to as u64).to_le_bytes());
        parts.iter().for_each(|part| {
            hasher.update(*part);
        });
        *hasher.finalize().as_bytes()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

#[cfg(unix)]
fn check_rights(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let place = path.display();
    let mode = std::fs::metadata(path).map_err(|error| failed(format!("{place}: {error}")))?.mode();
    if mode & 0o077 != 0 {
        return Err(failed(format!(
            "{place}: others may read this secret; take their rights away with chmod 600"
        )));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_rights(_: &Path) -> Result<()> {
    Ok(())
}

/// Hides the key of pseudonyms from whoever does not know the session, or shows it again. A session serves once.
pub(crate) fn masked(session: &[u8; 32], key: &[u8; 32]) -> [u8; 32] {
    let mask = Zeroizing::new(*blake3::keyed_hash(session, b"dp-dataflow key of pseudonyms").as_bytes());
    std::array::from_fn(|index| key[index] ^ mask[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_for_their_owner_alone() {
        assert!(Secret::new(&[1; 31]).is_none());
        let (one, other) = (Secret::new(&[1; 32]).unwrap(), Secret::new(&[2; 32]).unwrap());
        let parts = [&[3; 32], &[4; 32]];
        assert_eq!(one.proof("a", 0, 1, parts), one.proof("a", 0, 1, parts));
        for different in
            [other.proof("a", 0, 1, parts), one.proof("b", 0, 1, parts), one.proof("a", 1, 0, parts)]
        {
            assert_ne!(one.proof("a", 0, 1, parts), different);
        }
        let hidden = masked(&[7; 32], &[8; 32]);
        assert_ne!(hidden, [8; 32]);
        assert_eq!(masked(&[7; 32], &hidden), [8; 32]);
        assert_eq!(format!("{one:?}"), "Secret");
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        for (mode, fine) in [(0o644, false), (0o640, false), (0o600, true), (0o400, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Secret::load(Some(&path)).is_ok(), fine, "{mode:o}");
        }
        std::fs::write(folder.path().join("short"), "short").unwrap();
        assert!(Secret::load(Some(&folder.path().join("nowhere"))).is_err());
    }
}
