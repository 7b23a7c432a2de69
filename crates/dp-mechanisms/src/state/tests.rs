//! States on disk: what is read back, and what is refused.

use super::*;
use crate::mechanism::Mechanism;
use crate::mechanism::tests::plan as make_plan;
use crate::noise::Seed;
use crate::plan::Plan;
use crate::session::Session;

fn plan(steps: usize) -> Plan {
    make_plan("identity", "count", steps).unwrap()
}

fn open(directory: &Path) -> Session {
    let file = StateFile::open(&directory.join("state"), None).unwrap();
    Session::open(plan(6), Seed::from_system().unwrap(), Some(file)).unwrap()
}

fn reason(result: Result<Option<Snapshot>>) -> String {
    match result {
        Err(Error::State { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_are_few_and_never_much_above_what_is_held() {
    let mut lengths = std::collections::BTreeSet::new();
    for length in (0..100_000).step_by(7) {
        let padded = padded_length(length);
        assert!(padded >= length && padded <= (length + length / 8 + 1).max(SHORTEST), "{length}: {padded}");
        lengths.insert(padded);
    }
    assert!(lengths.len() < 128, "{}", lengths.len());
    // Ten more touched items do not show.
    assert_eq!(padded_length(10_000), padded_length(10_000 - 160));
}

#[test]
fn damage_at_any_byte_and_any_truncation_is_refused() {
    let mut mechanism = Mechanism::new(plan(6), Seed::from_system().unwrap()).unwrap();
    let mut release = [0.0; 2];
    mechanism.release(&[1.0, -1.0], &mut release).unwrap();
    let snapshot = mechanism.snapshot().with_releases(release.to_vec()).unwrap();
    let key = [7; 32];
    let mut write = Last { name: [3; NAME], number: 5, nonce: None };
    let sealed = seal(&key, &snapshot.identity().to_string(), snapshot.encode(), &mut write).unwrap();
    let (identity, secret, read) = open_sealed(&key, &sealed).unwrap();
    assert!(read == write && write.nonce.is_some());
    let opened = Snapshot::decode(Identity::parse(&identity).unwrap(), &secret).unwrap();
    assert_eq!(opened.releases(), release);
    assert_eq!(*opened.encode(), *snapshot.encode());
    let refused = |bytes: &[u8]| matches!(open_sealed(&key, bytes), Err(Error::State { .. }));
    for index in 0..sealed.len() {
        let mut damaged = sealed.clone();
        for bit in 0..8 {
            damaged[index] ^= 1 << bit;
            assert!(refused(&damaged), "byte {index}, bit {bit}");
            damaged[index] ^= 1 << bit;
        }
        assert!(refused(&sealed[..index]), "truncated to {index}");
    }
    let mut extended = sealed.clone();
    extended.push(0);
    assert!(refused(&extended));
    // Nothing secret stands in the file as it is.
    let secret = snapshot.seeds().seed(0).expose();
    assert!(!sealed.windows(8).any(|window| secret.windows(8).any(|part| part == window)));
    let value = 1.0_f64.to_le_bytes();
    assert!(!sealed.windows(8).any(|window| window == value));
}

#[test]
fn every_refusal_has_a_reason_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let mut mechanism = open(directory.path());
    mechanism.stage(&[0.0, 0.0]).unwrap();
    mechanism.commit().unwrap();
    drop(mechanism);
    let intact = fs::read(&path).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = intact.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        reason(StateFile::open(&path, None).unwrap().read())
    };
    let reasons = [
        with(&|bytes| bytes[0] ^= 1),
        with(&|bytes| bytes[8] = 2),
        with(&|bytes| bytes.truncate(100)),
        with(&|bytes| {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        }),
    ];
    for (reason, expected) in reasons.iter().zip([
        "not a state file",
        "format version 2",
        "truncated or extended",
        "seal is broken",
    ]) {
        assert!(reason.contains(expected), "{reason}");
    }
    fs::write(&path, &intact).unwrap();
    // Another key, a missing key, a short key.
    let other_key = directory.path().join("other.key");
    make_key(&other_key).unwrap();
    fs::copy(beside(&beside(&path, ".key"), ".mark"), beside(&other_key, ".mark")).unwrap();
    let broken = reason(StateFile::open(&path, Some(&other_key)).unwrap().read());
    assert!(broken.contains("another key"), "{broken}");
    let missing = StateFile::open(&path, Some(&directory.path().join("none"))).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
    let key = beside(&path, ".key");
    fs::remove_file(&key).unwrap();
    owner_only().open(&key).unwrap().write_all(&[1; 31]).unwrap();
    let short = StateFile::open(&path, None).unwrap_err();
    assert!(short.to_string().contains("32 bytes"), "{short}");
}

#[test]
fn two_processes_cannot_use_one_state() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let held = StateFile::open(&path, None).unwrap();
    let refused = StateFile::open(&path, None).unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
    drop(held);
    assert!(StateFile::open(&path, None).is_ok());
}

#[cfg(unix)]
#[test]
fn key_and_state_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let mut mechanism = open(directory.path());
    mechanism.stage(&[0.0, 0.0]).unwrap();
    mechanism.commit().unwrap();
    drop(mechanism);
    let key = beside(&path, ".key");
    for file in [&path, &key] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = StateFile::open(&path, None).unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
}
