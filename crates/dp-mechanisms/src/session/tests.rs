//! A session through crashes, copies, links and other accidents.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::mechanism::tests::plan as make_plan;
use crate::noise::Seed;

fn plan(steps: usize) -> Plan {
    make_plan("identity", "count", steps).unwrap()
}

fn state(directory: &Path) -> PathBuf {
    directory.join("state")
}

fn try_open(path: &Path, steps: usize) -> Result<Session> {
    let file = StateFile::open(path, None)?;
    Session::open(plan(steps), Seed::from_system()?, Some(file))
}

fn open(directory: &Path) -> Session {
    try_open(&state(directory), 6).unwrap()
}

/// Opens, takes one step and closes.
fn step(directory: &Path, input: [f64; 2]) -> Vec<f64> {
    let mut session = open(directory);
    session.stage(&input).unwrap();
    let released = session.commit().unwrap().iter().last().unwrap().1.to_vec();
    session.acknowledge().unwrap();
    released
}

fn refusal(result: Result<Session>) -> String {
    match result {
        Err(Error::State { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn resumes_with_the_releases_that_were_not_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut session = open(directory.path());
    assert!(session.last_committed().is_empty());
    session.stage(&[1.0, 0.5]).unwrap();
    session.stage(&[0.0, 0.5]).unwrap();
    assert_eq!(session.step(), 0, "nothing is visible before it is durable");
    let first = session.commit().unwrap().clone();
    assert_eq!(first.iter().map(|(step, _)| step).collect::<Vec<_>>(), [1, 2]);
    // Killed with a step staged: nobody has seen it, so it never happened.
    session.stage(&[1.0, 1.0]).unwrap();
    drop(session);
    let mut session = open(directory.path());
    assert_eq!(session.step(), 2);
    assert_eq!(*session.last_committed(), first);
    assert!(session.stage(&[f64::NAN, 0.0]).is_err());
    session.stage(&[1.0, 1.0]).unwrap();
    assert!(session.acknowledge().is_err());
    let second = session.commit().unwrap().clone();
    assert_eq!(second.iter().map(|(step, _)| step).collect::<Vec<_>>(), [3]);
    session.acknowledge().unwrap();
    drop(session);
    let session = open(directory.path());
    assert!(session.last_committed().is_empty() && session.step() == 3);
}

#[test]
fn interrupted_runs_release_what_an_uninterrupted_one_does() {
    let run = |group: usize| {
        let directory = tempfile::tempdir().unwrap();
        let mut seen: Vec<Vec<f64>> = Vec::new();
        while seen.len() < 6 {
            let file = StateFile::open(&state(directory.path()), None).unwrap();
            let mut session = Session::open(plan(6), Seed::reproducible(4), Some(file)).unwrap();
            for t in session.step()..(session.step() + group).min(6) {
                session.stage(&[t as f64 / 6.0, 1.0]).unwrap();
            }
            seen.extend(session.commit().unwrap().iter().map(|(_, release)| release.to_vec()));
        }
        seen
    };
    assert_eq!(run(1), run(6));
    assert_eq!(run(4), run(6));
    let mut volatile = Session::open(plan(6), Seed::reproducible(4), None).unwrap();
    for t in 0..6 {
        volatile.stage(&[f64::from(t) / 6.0, 1.0]).unwrap();
    }
    assert_eq!(
        volatile.commit().unwrap().iter().map(|(_, release)| release.to_vec()).collect::<Vec<_>>(),
        run(6)
    );
    assert!(!volatile.is_durable());
}

#[test]
fn noise_of_another_origin_does_not_continue_a_state() {
    let directory = tempfile::tempdir().unwrap();
    let open = |seed: Seed| {
        let file = StateFile::open(&state(directory.path()), None).unwrap();
        Session::open(plan(6), seed, Some(file))
    };
    let mut session = open(Seed::reproducible(4)).unwrap();
    session.stage(&[0.0, 0.0]).unwrap();
    session.commit().unwrap();
    drop(session);
    let secret = refusal(open(Seed::from_system().unwrap()));
    assert!(secret.contains("begun with noise from a public number"), "{secret}");
    let other = refusal(open(Seed::reproducible(5)));
    assert!(other.contains("another seed"), "{other}");
    assert_eq!(open(Seed::reproducible(4)).unwrap().step(), 1);
    // The other way round.
    let directory = tempfile::tempdir().unwrap();
    step(directory.path(), [0.0, 0.0]);
    let file = StateFile::open(&state(directory.path()), None).unwrap();
    let public = refusal(Session::open(plan(6), Seed::reproducible(4), Some(file)));
    assert!(public.contains("begun with secret noise"), "{public}");
}

#[test]
fn another_plan_is_told_by_what_differs() {
    let directory = tempfile::tempdir().unwrap();
    step(directory.path(), [0.0, 0.0]);
    let other = refusal(try_open(&state(directory.path()), 7));
    assert!(other.contains("steps was 6, now 7"), "{other}");
    let file = StateFile::open(&state(directory.path()), None).unwrap();
    let plan = plan(6);
    let budget = crate::Budget::approximate(2.0, 1e-6).unwrap();
    let plan = Plan::idealized(plan.strategy().clone(), plan.footprint().clone(), budget).unwrap();
    let other = refusal(Session::open(plan, Seed::from_system().unwrap(), Some(file)));
    assert!(other.contains("epsilon was 1, now 2") && !other.contains("delta was"), "{other}");
}

#[test]
fn two_names_of_one_state_are_one_state() {
    let directory = tempfile::tempdir().unwrap();
    step(directory.path(), [0.0, 0.0]);
    let (path, link) = (state(directory.path()), directory.path().join("link"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut through_link = try_open(&link, 6).unwrap();
    let second = refusal(try_open(&path, 6));
    assert!(second.contains("another process"), "{second}");
    through_link.stage(&[1.0, 1.0]).unwrap();
    through_link.commit().unwrap();
    drop(through_link);
    assert!(link.is_symlink(), "the link still leads to the state");
    assert_eq!(try_open(&path, 6).unwrap().step(), 2);
    // A hard link would keep the old state alive when the new one is renamed over the other name.
    fs::remove_file(&link).unwrap();
    fs::hard_link(&path, &link).unwrap();
    for name in [&path, &link] {
        let refused = refusal(try_open(name, 6));
        assert!(refused.contains("hard link"), "{refused}");
    }
    // A link to nothing, and a directory.
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(directory.path().join("nowhere"), &link).unwrap();
    assert!(try_open(&link, 6).is_err());
    assert!(refusal(try_open(directory.path(), 6)).contains("regular file"));
}

#[test]
fn removing_lock_or_key_does_not_make_a_second_live_copy() {
    let directory = tempfile::tempdir().unwrap();
    step(directory.path(), [0.0, 0.0]);
    let path = state(directory.path());
    let mut first = open(directory.path());
    first.stage(&[1.0, 0.0]).unwrap();
    // Whatever lies beside the state and looks like a lock may go.
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap().path();
        if entry.extension().is_some_and(|kind| kind == "lock") {
            fs::remove_file(entry).unwrap();
        }
    }
    assert!(refusal(try_open(&path, 6)).contains("another process"));
    // The same key under another inode can be locked; the first to write wins, the other is told.
    let key = directory.path().join("state.key");
    let copy = directory.path().join("copy");
    fs::copy(&key, &copy).unwrap();
    fs::remove_file(&key).unwrap();
    fs::rename(&copy, &key).unwrap();
    let mut second = try_open(&path, 6).unwrap();
    second.stage(&[0.0, 0.0]).unwrap();
    second.commit().unwrap();
    let refused = first.commit().map(drop).unwrap_err().to_string();
    assert!(refused.contains("somebody else has replaced it"), "{refused}");
    assert_eq!(first.step(), 1, "nothing of it was shown");
}

#[test]
fn an_old_state_put_back_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = state(directory.path());
    step(directory.path(), [0.0, 0.0]);
    let old = fs::read(&path).unwrap();
    step(directory.path(), [1.0, 0.0]);
    fs::write(&path, &old).unwrap();
    let refused = refusal(try_open(&path, 6));
    assert!(refused.contains("older than the last one"), "{refused}");
    // Without its mark nobody could tell.
    fs::remove_file(directory.path().join("state.key.mark")).unwrap();
    let refused = refusal(try_open(&path, 6));
    assert!(refused.contains("mark of this state is missing"), "{refused}");
}

#[test]
fn a_state_that_is_gone_does_not_begin_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = state(directory.path());
    // A key that has sealed nothing yet is fine: a run was stopped before its first commit.
    drop(open(directory.path()));
    step(directory.path(), [0.0, 0.0]);
    let away = directory.path().join("away");
    fs::rename(&path, &away).unwrap();
    let refused = refusal(try_open(&path, 6));
    assert!(refused.contains("second time"), "{refused}");
    fs::rename(&away, &path).unwrap();
    assert_eq!(open(directory.path()).step(), 1);
    // Nor does its key seal another state.
    let key = directory.path().join("state.key");
    let other = directory.path().join("other");
    assert!(StateFile::open(&other, Some(&key)).is_err());
}

#[test]
fn two_continuations_of_one_state_have_noise_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    step(directory.path(), [0.0, 0.0]);
    // Everything is copied, mark and all: what no check can find out.
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    // With one noise, the difference of two continuations with equal data would be zero.
    let one = step(directory.path(), [1.0, 0.0]);
    let other = step(copy.path(), [1.0, 0.0]);
    assert!(one.iter().zip(&other).all(|(one, other)| one != other), "{one:?} {other:?}");
    // What both had released before is what it was.
    let snapshots = [directory.path(), copy.path()].map(|directory| {
        let file = StateFile::open(&state(directory), None).unwrap();
        file.read().unwrap().unwrap()
    });
    let [first, second] = snapshots.each_ref().map(|snapshot| snapshot.seeds().segments());
    assert_eq!(first.len(), second.len());
    assert_eq!(first[0].seed.expose(), second[0].seed.expose());
    assert_ne!(first.last().unwrap().seed.expose(), second.last().unwrap().seed.expose());
}

#[test]
fn resumed_noise_is_the_noise_of_its_segments() {
    // A release after a resume is the statistic plus what the strategy makes of the old rows and of the new ones: remade here
    // from the saved segments alone, for a strategy whose noise reaches back and one that looks ahead.
    for name in ["sqrt", "blt", "honaker-online", "group", "identity"] {
        let plan = make_plan(name, "count", 9).unwrap();
        let mut mechanism = Mechanism::new(plan.clone(), Seed::secret(20)).unwrap();
        let mut released = Vec::new();
        for t in 0..9_u8 {
            if t == 3 || t == 4 || t == 7 {
                let saved = mechanism.snapshot();
                mechanism = Mechanism::resume(plan.clone(), &saved, Seed::secret(20 + u64::from(t))).unwrap();
            }
            let mut output = [0.0; 2];
            mechanism.release(&[1.0, 0.0], &mut output).unwrap();
            released.push(output);
        }
        let saved = mechanism.snapshot();
        assert!(saved.seeds().segments().len() <= 4);
        let source = Box::new(crate::GaussianSource::from_seeds(saved.seeds().duplicate(), 2));
        let mut noise =
            crate::CorrelatedNoise::new(plan.strategy().as_ref(), 2, crate::Side::Output, source).unwrap();
        for (t, released) in released.iter().enumerate() {
            let mut current = [0.0; 2];
            noise.next_into(&mut current).unwrap();
            assert_eq!(released[0], (t + 1) as f64 + plan.sigma() * current[0], "{name} step {t}");
            assert_eq!(released[1], plan.sigma() * current[1], "{name} step {t}");
        }
    }
}

#[test]
fn attachments_survive_and_are_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let mut session = open(directory.path());
    session.attach("input", b"first".to_vec());
    session.attach("input", b"second".to_vec());
    session.attach("names", b"a,b".to_vec());
    session.stage(&[0.0, 0.0]).unwrap();
    session.commit().unwrap();
    drop(session);
    let session = open(directory.path());
    assert_eq!(session.attachment("input"), Some(&b"second"[..]));
    assert_eq!((session.attachment("names"), session.attachment("none")), (Some(&b"a,b"[..]), None));
}

#[test]
fn a_failed_write_shows_nothing_and_can_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let mut session = open(&inner);
    session.stage(&[0.0, 0.0]).unwrap();
    let away = directory.path().join("away");
    fs::rename(&inner, &away).unwrap();
    assert!(session.commit().is_err());
    assert_eq!(session.step(), 0);
    fs::rename(&away, &inner).unwrap();
    assert_eq!(session.commit().unwrap().len(), 1);
}

#[test]
fn hidden_releases_are_not_printed() {
    let mut session = Session::open(plan(6), Seed::reproducible(1), None).unwrap();
    session.stage(&[1.234_567, 0.0]).unwrap();
    session.attach("secret", b"1.234567".to_vec());
    let staged = session.live.staged.values.clone();
    let text = format!("{session:?} {:?}", session.live.staged);
    for value in staged.iter().chain(&[1.234_567]) {
        assert!(!text.contains(&format!("{value:.4}")), "{text}");
    }
}

#[test]
fn a_run_is_kept_from_any_step_on_and_in_one_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| StateFile::open(&directory.path().join(name), None).unwrap();
    let step = |session: &mut Session| {
        session.stage(&[1.0, 0.5]).unwrap();
        session.commit().unwrap().iter().next().unwrap().1.to_vec()
    };
    let mut whole = Session::open(plan(6), Seed::reproducible(5), None).unwrap();
    let expected: Vec<Vec<f64>> = (0..4).map(|_| step(&mut whole)).collect();
    let mut session = Session::open(plan(6), Seed::reproducible(5), None).unwrap();
    let mut released = vec![step(&mut session)];
    session.stage(&[0.0, 0.0]).unwrap();
    assert!(session.keep(file("early")).is_err(), "a staged step is nobody's yet");
    drop(session);
    let mut session = Session::open(plan(6), Seed::reproducible(5), None).unwrap();
    step(&mut session);
    session.keep(file("state")).unwrap();
    assert!(session.is_durable() && session.last_committed().is_empty());
    assert!(session.keep(file("second")).is_err(), "two files would be two live runs");
    released.push(step(&mut session));
    drop(session);
    let mut session = Session::open(plan(6), Seed::reproducible(5), Some(file("state"))).unwrap();
    assert_eq!((session.step(), session.last_committed().len()), (2, 1));
    released.push(step(&mut session));
    released.push(step(&mut session));
    assert_eq!(released, expected);
    drop(session);
    let mut other = Session::open(plan(6), Seed::reproducible(5), None).unwrap();
    assert!(other.keep(file("state")).is_err(), "it holds a run already");
}
