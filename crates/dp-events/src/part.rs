//! The state of a process that keeps some of the people of a dashboard, for runs over several processes.
//!
//! The first process keeps the state of the dashboard, and writes it last. Until it has, nobody knows whether the run has
//! happened; so the state of every other process holds its people before and after the latest run, each with the number of
//! the dashboard's state that it belongs to.

use std::path::{Path, PathBuf};

use dp_mechanisms::StateFile;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::people::{People, take};
use crate::spec::Limits;
use crate::state::make_folder;

/// What stands in front of the sealed part.
const DESCRIPTION: &str = "description=1\nholds=some people of a dashboard\n";

/// The people of one process, before and after its latest run, locked against every other run while this value lives.
pub struct PartFolder {
    file: StateFile,
    front: Front,
    /// The people that the run began with, with their number.
    before: (u64, Zeroizing<Vec<u8>>),
}

/// Whose part it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Front {
    set: [u8; 16],
    process: u64,
    processes: u64,
}

impl PartFolder {
    /// Opens the state of a process for a run that goes on from a number of the dashboard's state, and takes the people that
    /// belong to it.
    ///
    /// # Errors
    /// A state of another dashboard, of another process, of another number of processes, or older than the dashboard's.
    pub fn open(
        path: &Path,
        set: [u8; 16],
        process: usize,
        processes: usize,
        number: u64,
        limits: Limits,
    ) -> Result<(Self, People)> {
        make_folder(path)?;
        let file = StateFile::open(&path.join("sealed"), Some(&path.join("key"))).map_err(Error::Sealed)?;
        let front = Front { set, process: process as u64, processes: processes as u64 };
        let saved = match file.read_secret().map_err(Error::Sealed)? {
            None => None,
            Some((description, secret)) if description == DESCRIPTION => {
                Some(decode(&secret).ok_or_else(|| damaged(path))?)
            }
            Some(_) => return Err(Error::state(path, "it is not the state of a process of a dashboard")),
        };
        let mut bytes = Zeroizing::new(Vec::new());
        match saved {
            None if number == 0 => {}
            None => {
                return Err(Error::state(
                    path,
                    format!(
                        "it is missing, but the dashboard has written {number} states with it; restore it"
                    ),
                ));
            }
            // What was staged for a dashboard that never came to be.
            Some((_, generations)) if number == 0 && generations.iter().all(|(number, _)| *number <= 1) => {}
            Some((found, _)) if found.set != front.set => {
                return Err(Error::state(
                    path,
                    "it belongs to another dashboard; restore its own, or name another state",
                ));
            }
            Some((found, _)) if found != front => {
                return Err(Error::state(
                    path,
                    format!(
                        "it was made by process {} of {}, and this is process {process} of {processes}",
                        found.process, found.processes
                    ),
                ));
            }
            Some((_, generations)) => {
                let fits = generations.into_iter().find(|(found, _)| *found == number);
                let (_, people) = fits.ok_or_else(|| {
                    Error::state(
                        path,
                        format!("it does not belong to state {number} of the dashboard: an older one was put back; restore the latest of all processes"),
                    )
                })?;
                bytes = people;
            }
        }
        let people = if bytes.is_empty() {
            People::new(limits)
        } else {
            People::decode(limits, &mut bytes.as_slice()).ok_or_else(|| damaged(path))?
        };
        Ok((Self { file, front, before: (number, bytes) }, people))
    }

    /// Writes the people after a run, beside those before it. When this returns, both survive a crash.
    ///
    /// # Errors
    /// A file system that refuses.
    pub fn stage(&mut self, people: &People, number: u64) -> Result<()> {
        let mut after = Zeroizing::new(Vec::new());
        people.encode(&mut after);
        let mut plain =
            Zeroizing::new(Vec::with_capacity(64 + self.before.1.len() + after.len() + after.len() / 4));
        plain.extend_from_slice(&self.front.set);
        for word in [self.front.process, self.front.processes] {
            plain.extend_from_slice(&word.to_le_bytes());
        }
        for (number, bytes) in [(self.before.0, &self.before.1), (number, &after)] {
            plain.extend_from_slice(&number.to_le_bytes());
            plain.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            plain.extend_from_slice(bytes);
        }
        self.file.write_secret(DESCRIPTION, plain).map_err(Error::Sealed)
    }
}

fn damaged(path: &Path) -> Error {
    Error::state(path, "its contents contradict each other")
}

type Generations = Vec<(u64, Zeroizing<Vec<u8>>)>;

fn decode(mut bytes: &[u8]) -> Option<(Front, Generations)> {
    let bytes = &mut bytes;
    let set = take(bytes)?;
    let word = |bytes: &mut &[u8]| take(bytes).map(u64::from_le_bytes);
    let front = Front { set, process: word(bytes)?, processes: word(bytes)? };
    let mut generations = Vec::new();
    for _ in 0..2 {
        let (number, length) = (word(bytes)?, usize::try_from(word(bytes)?).ok()?);
        let (people, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        generations.push((number, Zeroizing::new(people.to_vec())));
    }
    Some((front, generations))
}

/// Fresh secret bytes from the operating system.
///
/// # Errors
/// A system that has none.
pub fn fresh() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    crate::state::random(Path::new("."), &mut bytes)?;
    Ok(bytes)
}

/// The folder of a process within the folder of a state.
pub fn folder_of(state: &Path, process: usize) -> PathBuf {
    state.join(format!("process-{process}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::people::HashKey;

    const LIMITS: Limits = Limits { rows_per_step: 1, steps: 2, separation: 1 };

    #[test]
    fn a_process_goes_on_from_the_state_that_the_dashboard_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder_of(folder.path(), 1);
        let open = |number: u64| PartFolder::open(&path, [1; 16], 1, 2, number, LIMITS);
        let key = HashKey::new([9; 32]);
        let (ada, bob) = (key.pseudonym(b"Ada"), key.pseudonym(b"Bob"));
        assert!(open(3).is_err(), "a state that is missing");
        let (mut part, mut people) = open(0).unwrap();
        people.admit(ada, 0);
        part.stage(&people, 1).unwrap();
        drop(part);
        // The dashboard's state was not written: the run has not happened, for another dashboard neither.
        assert_eq!(open(0).unwrap().1.len(), 0);
        assert_eq!(PartFolder::open(&path, [2; 16], 1, 2, 0, LIMITS).unwrap().1.len(), 0);
        // It was: it has.
        let (mut part, mut people) = open(1).unwrap();
        assert_eq!(people.len(), 1);
        people.admit(bob, 0);
        part.stage(&people, 2).unwrap();
        drop(part);
        for (number, known) in [(1, 1), (2, 2)] {
            assert_eq!(open(number).unwrap().1.len(), known);
        }
        for number in [0, 3] {
            assert!(open(number).is_err(), "neither the state before nor the one after: {number}");
        }
        for (set, process, processes) in [([2; 16], 1, 2), ([1; 16], 2, 3), ([1; 16], 1, 3)] {
            assert!(PartFolder::open(&path, set, process, processes, 2, LIMITS).is_err());
        }
    }
}
