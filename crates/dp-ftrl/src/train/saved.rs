//! The model between two steps, kept beside the sealed state of its noise.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FinishedEpoch, Settings};
use crate::error::{Error, Result};

/// A model between two steps as it is saved beside the sealed state of its noise. Everything in it has been released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedModel {
    pub(super) settings: Settings,
    pub(super) examples: usize,
    pub(super) step: usize,
    /// The clipping norm, where it moves.
    pub(super) norm: Option<f64>,
    pub(super) optimizer: Vec<f64>,
    pub(super) epochs: Vec<FinishedEpoch>,
}

impl SavedModel {
    /// The number of steps that the model has taken.
    pub fn step(&self) -> usize {
        self.step
    }
}

/// The file of a [`SavedModel`].
///
/// It is replaced at once, so that a crash leaves the old model or the new one: written beside, synchronized, renamed,
/// and the directory synchronized. The state of the noise forgets all but its last step, so a model must have reached
/// the disk before the next step is taken; [`super::Training`] sees to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFile {
    path: PathBuf,
}

impl ModelFile {
    /// The model beside a state: the name of the state with `.model` appended.
    pub fn beside(state: &Path) -> Self {
        Self { path: with_suffix(state, ".model") }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The saved model, if there is one.
    ///
    /// # Errors
    /// [`Error::ModelFile`]: it cannot be read, or is no model.
    pub fn read(&self) -> Result<Option<SavedModel>> {
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| {
                self.refuse("it is not a saved model; restore it, or start a new state elsewhere".to_owned())
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.refuse(error.to_string())),
        }
    }

    /// Replaces the saved model. When this returns, the new one survives a crash of the machine.
    ///
    /// # Errors
    /// [`Error::ModelFile`] when the file system refuses. One of the two models is then in place, and the step can be
    /// made up for from either of them.
    pub fn write(&self, model: &SavedModel) -> Result<()> {
        let replace = || -> std::io::Result<()> {
            let temporary = with_suffix(&self.path, ".new");
            let mut file = File::create(&temporary)?;
            file.write_all(&serde_json::to_vec(model)?)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            sync_directory(&self.path)
        };
        replace().map_err(|error| self.refuse(error.to_string()))
    }

    fn refuse(&self, reason: String) -> Error {
        Error::ModelFile { path: self.path.display().to_string(), reason }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a rename in the directory of `path` durable.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    // Elsewhere a directory cannot be opened as a file, and renames are durable without it.
    #[cfg(unix)]
    {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
