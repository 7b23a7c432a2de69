//! The state of a process that keeps some of the people and keys of a dashboard, for runs over several processes.
//!
//! The first process keeps the state of the dashboard, and writes it last. Until it has, nobody knows whether the run has
//! happened; so the state of every other process holds its part before and after the latest run, each with the number of
//! the dashboard's state that it belongs to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dp_mechanisms::StateFile;
use zeroize::Zeroizing;

use crate::dashboard::Design;
use crate::encoding::{Encoding, Share};
use crate::error::{Error, Result};
use crate::intake::OpenSteps;
use crate::people::{People, take};
use crate::releases::Releases;
use crate::spec::Spec;
use crate::state::{Randomness, SecretBytes, make_folder};

/// What stands in front of the sealed part.
const DESCRIPTION: &str = "description=2\nholds=a part of a dashboard\n";

/// What one of several processes keeps of a dashboard.
pub struct Part {
    /// Its people.
    pub people: People,
    /// The open steps of its keys.
    pub steps: OpenSteps,
    /// The releases of its keys, with their noise.
    pub releases: Releases,
}

impl Part {
    fn encode(&self, bytes: &mut SecretBytes) {
        self.releases.save(bytes);
        self.steps.encode(bytes);
        self.people.encode(bytes);
    }
}

/// A part before and after its latest run, locked against every other run while this value lives.
pub struct PartFolder {
    file: StateFile,
    place: PartOf,
    /// The part that the run began with.
    before: Zeroizing<Vec<u8>>,
}

/// Which part of what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartOf {
    /// The name that the states of all processes of a dashboard have in common.
    pub set: [u8; 16],
    /// How often the dashboard's state was written.
    pub number: u64,
    /// The process, counted from 0.
    pub process: usize,
    /// Of so many.
    pub processes: usize,
}

impl PartFolder {
    /// Opens the state of a process for a run that goes on from a number of the dashboard's state, and takes the part that
    /// belongs to it.
    ///
    /// # Errors
    /// A state of another dashboard, of another process, of another number of processes, or older than the dashboard's.
    pub fn open(
        path: &Path,
        place: PartOf,
        spec: &Spec,
        design: &Design,
        randomness: Randomness,
    ) -> Result<(Self, Part)> {
        make_folder(path)?;
        let file = StateFile::open(&path.join("sealed"), Some(&path.join("key"))).map_err(Error::Sealed)?;
        let saved = match file.read_secret().map_err(Error::Sealed)? {
            None => None,
            Some((description, secret)) if description == DESCRIPTION => {
                Some(decode(&secret).ok_or_else(|| damaged(path))?)
            }
            Some(_) => return Err(Error::state(path, "it is not the state of a process of a dashboard")),
        };
        let bytes = saved.map_or_else(|| none(path, place.number), |saved| fitting(path, place, saved))?;
        let planned: Arc<[_]> = design.planned(spec)?.into();
        let encodings: Arc<[Encoding]> = Encoding::all(spec).into();
        let share = Share::new(place.process, place.processes);
        let part = if bytes.is_empty() {
            Part {
                people: People::new(spec.limits),
                steps: OpenSteps::new(encodings, share),
                releases: Releases::new(planned, share, randomness)?,
            }
        } else {
            let rest = &mut bytes.as_slice();
            let releases = Releases::resume(planned, share, rest, randomness, || damaged(path))?;
            let steps = OpenSteps::decode(encodings, share, spec.calendar.steps(), rest);
            let steps = steps.ok_or_else(|| damaged(path))?;
            let people = People::decode(spec.limits, rest).ok_or_else(|| damaged(path))?;
            Part { people, steps, releases }
        };
        Ok((Self { file, place, before: bytes }, part))
    }

    /// Writes the part after a run, beside the one before it. When this returns, both survive a crash.
    ///
    /// # Errors
    /// A file system that refuses.
    pub fn stage(&mut self, part: &Part, number: u64) -> Result<()> {
        let mut after = SecretBytes::default();
        part.encode(&mut after);
        let after = after.finish();
        let size = 64 + self.before.len() + after.len();
        // The exact capacity, with room for padding: a vector that grows would leave copies of the secret behind.
        let mut plain = Zeroizing::new(Vec::with_capacity(size + after.len() / 4));
        plain.extend_from_slice(&self.place.set);
        for word in [self.place.process, self.place.processes] {
            plain.extend_from_slice(&(word as u64).to_le_bytes());
        }
        for (number, bytes) in [(self.place.number, &self.before), (number, &after)] {
            plain.extend_from_slice(&number.to_le_bytes());
            plain.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            plain.extend_from_slice(bytes);
        }
        self.file.write_secret(DESCRIPTION, plain).map_err(Error::Sealed)
    }
}

/// Where nothing was saved: right for a dashboard that begins.
fn none(path: &Path, number: u64) -> Result<Zeroizing<Vec<u8>>> {
    if number == 0 {
        return Ok(Zeroizing::new(Vec::new()));
    }
    Err(Error::state(
        path,
        format!("it is missing, but the dashboard has written {number} states with it; restore it"),
    ))
}

/// The saved part that belongs to a number of the dashboard's state.
fn fitting(path: &Path, place: PartOf, (found, generations): Saved) -> Result<Zeroizing<Vec<u8>>> {
    // What was staged for a dashboard that never came to be.
    if place.number == 0 && generations.iter().all(|(number, _)| *number <= 1) {
        return Ok(Zeroizing::new(Vec::new()));
    }
    if found.set != place.set {
        return Err(Error::state(
            path,
            "it belongs to another dashboard; restore its own, or name another state",
        ));
    }
    if (found.process, found.processes) != (place.process, place.processes) {
        return Err(Error::state(
            path,
            format!(
                "it was made by process {} of {}, and this is process {} of {}",
                found.process, found.processes, place.process, place.processes
            ),
        ));
    }
    let fits = generations.into_iter().find(|(number, _)| *number == place.number);
    fits.map(|(_, part)| part).ok_or_else(|| {
        Error::state(
            path,
            format!(
                "it does not belong to state {} of the dashboard: an older one was put back; restore the latest of all processes",
                place.number
            ),
        )
    })
}

fn damaged(path: &Path) -> Error {
    Error::state(path, "its contents contradict each other")
}

type Saved = (PartOf, Vec<(u64, Zeroizing<Vec<u8>>)>);

fn decode(mut bytes: &[u8]) -> Option<Saved> {
    let bytes = &mut bytes;
    let set = take(bytes)?;
    let word = |bytes: &mut &[u8]| take(bytes).map(u64::from_le_bytes);
    let count = |bytes: &mut &[u8]| usize::try_from(word(bytes)?).ok();
    let (process, processes) = (count(bytes)?, count(bytes)?);
    let mut generations = Vec::new();
    for _ in 0..2 {
        let (number, length) = (word(bytes)?, count(bytes)?);
        let (part, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        generations.push((number, Zeroizing::new(part.to_vec())));
    }
    let number = generations.last()?.0;
    Some((PartOf { set, number, process, processes }, generations))
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
    use dp_tests::description::Description;

    use super::*;
    use crate::Dashboard;
    use crate::encoding::Cells;
    use crate::people::PseudonymKey;

    fn part_of(set: u8, process: usize, processes: usize, number: u64) -> PartOf {
        PartOf { set: [set; 16], number, process, processes }
    }

    #[test]
    fn a_process_goes_on_from_the_state_that_the_dashboard_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder_of(folder.path(), 1);
        let text = Description::of_people("who", 1, 2)
            .approximate(1.0, 1e-6)
            .days("2026-01-01", "2026-01-05")
            .release(
                "visits",
                r#"statistics = ["total", "step"]
                by = { column = "key", values = ["a", "b", "c"] }"#,
            )
            .release(
                "found",
                r#"statistics = ["total"]
                by = { column = "key" }"#,
            )
            .release("all", r#"statistics = ["total"]"#);
        let spec = Spec::parse(&text.to_string(), "rows.toml".as_ref()).unwrap();
        let dashboard = Dashboard::new(spec).unwrap();
        let spec = dashboard.spec();
        let design = Design::of(0, dashboard.planned().unwrap());
        let try_open = |place: PartOf| PartFolder::open(&path, place, spec, &design, Randomness::System);
        let open = |number: u64| try_open(part_of(1, 1, 2, number));
        let key = PseudonymKey::new([9; 32]);
        let (ada, bob) = (key.pseudonym(b"Ada"), key.pseudonym(b"Bob"));
        assert!(open(3).is_err(), "a state that is missing");
        let (mut folder, mut part) = open(0).unwrap();
        part.people.admit(ada, 0);
        part.releases.close(&part.steps.close()).unwrap();
        folder.stage(&part, 1).unwrap();
        drop(folder);
        // The dashboard's state was not written: the run has not happened, for another dashboard neither.
        assert_eq!(open(0).unwrap().1.people.len(), 0);
        assert_eq!(try_open(part_of(2, 1, 2, 0)).unwrap().1.releases.step(), 0);
        // It was: it has.
        let (mut folder, mut part) = open(1).unwrap();
        assert_eq!((part.people.len(), part.steps.open(), part.releases.step()), (1, 1, 1));
        part.people.admit(bob, 0);
        let encodings = Encoding::all(spec);
        let mut late = Cells::of_share(&encodings, Share::new(1, 2));
        late.add_sums(0, &[(0, 5)], &[]);
        part.steps.add(3, &late);
        part.releases.close(&part.steps.close()).unwrap();
        folder.stage(&part, 2).unwrap();
        drop(folder);
        for (number, known) in [(1, 1), (2, 2)] {
            let part = open(number).unwrap().1;
            assert_eq!((part.people.len(), part.releases.step()), (known, known));
        }
        let mut part = open(2).unwrap().1;
        assert!(part.steps.close() == Cells::of_share(&encodings, Share::new(1, 2)));
        assert!(part.steps.close() == late, "the cells of a later step");
        for number in [0, 3] {
            assert!(open(number).is_err(), "neither the state before nor the one after: {number}");
        }
        for place in [part_of(2, 1, 2, 2), part_of(1, 2, 3, 2), part_of(1, 1, 3, 2)] {
            assert!(try_open(place).is_err());
        }
    }
}
