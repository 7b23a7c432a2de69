//! What must be the same for all processes, and what must not change while they read.

use std::path::Path;
use std::time::SystemTime;

use dp_events::Randomness;
use dp_events::rows::{self, InputFile};
use dp_events::spec::{Identity, Spec};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, failed};

/// How far the clocks of two machines may be apart.
const SKEW: u64 = 300;

/// Bytes at either end of a file by which processes find out that they have different ones.
const SAMPLE: u64 = 1 << 16;

/// What must be the same for all processes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Facts {
    version: String,
    program: [u8; 32],
    workers: usize,
    identity: Identity,
    pub(crate) randomness: Randomness,
    files: Vec<FileFacts>,
    /// Seconds since 1970.
    clock: u64,
}

#[derive(Serialize, Deserialize, PartialEq)]
pub(crate) struct FileFacts {
    name: String,
    length: u64,
    sample: [u8; 32],
}

/// What must be the same for all processes, as this one has it.
pub(crate) fn facts(
    spec: &Spec,
    files: &[InputFile],
    workers: usize,
    randomness: Randomness,
) -> Result<Facts> {
    // Both ends and the length of a program tell one build from another.
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let program = sample(&program, rows::length(&program)?)?;
    let files = files.iter().map(|file| {
        let length = rows::length(&file.path)?;
        Ok(FileFacts { name: file.name.clone(), length, sample: sample(&file.path, length)? })
    });
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program,
        workers,
        identity: spec.identity(),
        randomness,
        files: files.collect::<Result<_>>()?,
        clock,
    })
}

/// A hash of the length and of both ends of a file.
fn sample(path: &Path, length: u64) -> Result<[u8; 32]> {
    use std::io::{Read, Seek, SeekFrom};
    let failed = |error| Error::file(path, error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&length.to_le_bytes());
    let mut bytes = Vec::new();
    for start in [0, length.saturating_sub(SAMPLE)] {
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        bytes.clear();
        (&mut file).take(SAMPLE).read_to_end(&mut bytes).map_err(failed)?;
        hasher.update(&bytes);
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Refuses a process that is not like this one.
pub(crate) fn compare(other: usize, here: &Facts, there: &Facts) -> Result<()> {
    let refuse = |reason: String| Err(failed(format!("process {other} {reason}")));
    if here.version != there.version {
        return refuse(format!(
            "runs version {} of the program, this is version {}",
            there.version, here.version
        ));
    }
    if here.program != there.program {
        return refuse("runs another build of the program; start the same file everywhere".to_owned());
    }
    if here.workers != there.workers {
        return refuse(format!("has {} workers, this one {}", there.workers, here.workers));
    }
    let differences = here.identity.differences(&there.identity);
    if !differences.is_empty() {
        return refuse(format!("has another description: {}", differences.join("; ")));
    }
    if here.randomness != there.randomness {
        return refuse("was started with another seed".to_owned());
    }
    let names = |facts: &Facts| facts.files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
    if names(here) != names(there) {
        return refuse(format!(
            "has other input files: {} against {}",
            names(there).join(", "),
            names(here).join(", ")
        ));
    }
    for (mine, theirs) in here.files.iter().zip(&there.files) {
        if mine != theirs {
            return refuse(format!("has another {}: it must be the same file everywhere", mine.name));
        }
    }
    if here.clock.abs_diff(there.clock) > SKEW {
        return refuse(format!(
            "has a clock that differs by {} seconds from this one",
            here.clock.abs_diff(there.clock)
        ));
    }
    Ok(())
}

/// When each file was last changed, and how long it is.
pub(crate) fn stamps(files: &[InputFile]) -> Result<Vec<(u64, Option<SystemTime>)>> {
    let stamp = |file: &InputFile| {
        let data = std::fs::metadata(&file.path).map_err(|error| Error::file(&file.path, error))?;
        Ok((data.len(), data.modified().ok()))
    };
    files.iter().map(stamp).collect()
}

pub(crate) fn unchanged(files: &[InputFile], before: &[(u64, Option<SystemTime>)]) -> Result<()> {
    for ((file, now), before) in files.iter().zip(stamps(files)?).zip(before) {
        if now != *before {
            return Err(Error::file(
                &file.path,
                "it changed while it was read; run again when nobody writes to it",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use dp_tests::description::Description;

    use super::*;

    fn here(rho: &str) -> Facts {
        let text = Description::of_events()
            .set("privacy.rho", rho)
            .set("input.files", "[\"a.csv\"]")
            .release("visits", "statistics = [\"total\"]");
        let spec = Spec::parse(&text.to_string(), "dashboard.toml".as_ref()).unwrap();
        let file = FileFacts { name: "a.csv".to_owned(), length: 7, sample: [1; 32] };
        Facts {
            version: "1.0.0".to_owned(),
            program: [2; 32],
            workers: 2,
            identity: spec.identity(),
            randomness: Randomness::System,
            files: vec![file],
            clock: 1_000_000,
        }
    }

    /// Everything in which a process may differ is named, and small differences of clocks are not minded.
    #[test]
    fn what_is_different_is_named() {
        let refused = |there: &Facts| compare(3, &here("0.5"), there).unwrap_err().to_string();
        assert!(compare(3, &here("0.5"), &Facts { clock: 1_000_000 + SKEW, ..here("0.5") }).is_ok());
        let files = |name: &str, sample: u8| {
            vec![FileFacts { name: name.to_owned(), length: 7, sample: [sample; 32] }]
        };
        for (there, expected) in [
            (
                Facts { version: "1.0.1".to_owned(), ..here("0.5") },
                "runs version 1.0.1 of the program, this is version 1.0.0",
            ),
            (Facts { program: [3; 32], ..here("0.5") }, "runs another build of the program"),
            (Facts { workers: 1, ..here("0.5") }, "has 1 workers, this one 2"),
            (here("0.6"), "has another description: privacy was rho = 0.5, now rho = 0.6"),
            (
                Facts { randomness: Randomness::Reproducible(1), ..here("0.5") },
                "was started with another seed",
            ),
            (Facts { files: files("b.csv", 1), ..here("0.5") }, "has other input files: b.csv against a.csv"),
            (Facts { files: files("a.csv", 9), ..here("0.5") }, "has another a.csv"),
            (Facts { clock: 1_000_301, ..here("0.5") }, "has a clock that differs by 301 seconds"),
            (Facts { clock: 999_699, ..here("0.5") }, "has a clock that differs by 301 seconds"),
        ] {
            let text = refused(&there);
            assert!(text.contains(&format!("process 3 {expected}")), "{text}");
        }
    }
}
