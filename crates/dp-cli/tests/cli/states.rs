//! What survives when a release is killed, and what is refused to go on.

use super::*;

#[test]
fn killed_at_any_point_a_release_continues_and_never_contradicts_itself() {
    const ROWS: usize = 240;
    let steps = ROWS.to_string();
    let mut all_kills = 0;
    // Delays in milliseconds, spread so that kills fall before, into and between the writes.
    for (group, format, delays) in [
        ("1", &[][..], [3, 11, 23, 7, 31]),
        ("7", &[], [2, 5, 9, 14, 4]),
        ("3", &["--json"], [2, 8, 13, 5, 21]),
        ("5", &["--grid", "0.25"], [2, 8, 13, 5, 21]),
        ("5", &["--idealized"], [2, 8, 13, 5, 21]),
    ] {
        let whole = workspace(ROWS);
        let status = in_directory(whole.path(), &[("--steps", &steps)]).args(format).status().unwrap();
        assert!(status.success());
        let whole = read(whole.path(), "output.csv");
        assert_eq!(releases(&whole).len(), ROWS);
        let directory = workspace(ROWS);
        let mut seen: BTreeMap<usize, String> = BTreeMap::new();
        let mut kills = 0;
        for attempt in 0.. {
            let mut command = in_directory(directory.path(), &[("--steps", &steps), ("--group", group)]);
            let mut child = command.args(format).spawn().unwrap();
            // At once, which no run survives; then longer and longer, so that a slow machine gets to the end as well.
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(
                    delays[attempt % delays.len()] * (1 + attempt as u64 / 20),
                ));
            }
            let finished = child.try_wait().unwrap();
            child.kill().unwrap();
            let status = child.wait().unwrap();
            let mut message = String::new();
            child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
            let output = read(directory.path(), "output.csv");
            let complete = &output[..output.rfind('\n').map_or(0, |last| last + 1)];
            for (step, release) in releases(complete) {
                let earlier = seen.entry(step).or_insert_with(|| release.clone());
                assert_eq!(*earlier, release, "step {step} was answered twice");
            }
            if finished.is_some() {
                assert!(status.success(), "{message}");
                break;
            }
            kills += 1;
            // Now and then a line is torn as well, as by a power failure.
            if attempt % 4 == 0 && complete.len() > 40 {
                fs::write(directory.path().join("output.csv"), format!("{complete}17,0.12")).unwrap();
            }
        }
        assert_eq!(read(directory.path(), "output.csv"), whole, "group {group}, after {kills} kills");
        all_kills += kills;
    }
    assert!(all_kills > 0, "no run was interrupted");
}

#[test]
fn a_pipe_continues_with_new_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (state, output) = (directory.path().join("state"), directory.path().join("output.csv"));
    let (state, output) = (state.to_str().unwrap(), output.to_str().unwrap());
    let run = |from: &str, input: &str| {
        with_input(&release(&[("--state", state), ("--output", output), ("--from-row", from)]), input)
    };
    let first = run("1", "value\n1\n0\n");
    assert!(first.status.success(), "{}", text(&first.stderr));
    let whole = with_input(&release(&[]), "value\n1\n0\n1\n");
    // The same pipe once more without a word about where it begins, or with a wrong one, would count everybody twice.
    let silent = with_input(&release(&[("--state", state), ("--output", output)]), "value\n1\n0\n");
    assert_refused(&silent, 2, &["--from-row"]);
    for from in ["2", "4"] {
        assert_refused(&run(from, "value\n1\n"), 1, &["used 2 rows", "--from-row 3"]);
    }
    assert_refused(&run("1", "value\n1\n1\n1\n"), 1, &["row 2 is", "not what this state has used"]);
    assert!(run("1", "value\n1\n0\n").status.success(), "the same rows again change nothing");
    assert!(run("3", "value\n1\n").status.success());
    assert_eq!(releases(&fs::read_to_string(output).unwrap()), releases(&text(&whole.stdout)));
    // A reader that closes early would lose steps for good.
    let lost = with_input(&release(&[("--state", state), ("--from-row", "1")]), "value\n");
    assert_refused(&lost, 2, &["--output FILE"]);
}

#[test]
fn a_stream_of_unknown_length_continues_across_its_epochs() {
    let doubling = |arithmetic: &[&str], changes: &[(&'static str, &str)], input: &str| {
        let words = release(changes);
        let words = [&words[..], arithmetic].concat();
        // Epochs of 2, 4, 8, … rows in place of 8 steps.
        let words: Vec<&str> = words
            .iter()
            .map(|word| match *word {
                "--steps" => "--doubling",
                "8" => "2",
                word => word,
            })
            .collect();
        with_input(&words, input)
    };
    let rows = |count: usize| format!("value\n{}", "1\n".repeat(count));
    for arithmetic in [&[][..], &["--idealized"]] {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let whole = doubling(arithmetic, &[], &rows(20));
        assert!(whole.status.success(), "{}", text(&whole.stderr));
        let whole = releases(&text(&whole.stdout));
        assert_eq!(whole.len(), 20);
        let output = directory.path().join("output.csv");
        // Stops within the second epoch, at its end, and within later ones.
        for count in [3, 6, 7, 12, 20] {
            let files = [("--state", state.to_str().unwrap()), ("--output", output.to_str().unwrap())];
            let part = doubling(arithmetic, &[&files[..], &[("--from-row", "1")]].concat(), &rows(count));
            assert!(part.status.success(), "{}", text(&part.stderr));
        }
        assert_eq!(releases(&fs::read_to_string(output).unwrap()), whole);
        let best = doubling(arithmetic, &[("--strategy", "auto")], &rows(9));
        assert!(best.status.success(), "{}", text(&best.stderr));
    }
    let mut both = release(&[]);
    both.extend(["--doubling", "2"]);
    assert_refused(&with_input(&both, &rows(1)), 2, &["--steps", "--doubling"]);
}

#[test]
fn states_and_outputs_that_do_not_belong_together_are_refused() {
    let directory = workspace(6);
    let run = |changes: &[(&str, &str)]| in_directory(directory.path(), changes).output().unwrap();
    assert!(run(&[]).status.success());
    assert_eq!(releases(&read(directory.path(), "output.csv")).len(), 6);
    // Nothing new: nothing happens.
    let before = read(directory.path(), "output.csv");
    assert!(run(&[]).status.success());
    assert_eq!(read(directory.path(), "output.csv"), before);
    assert_refused(&run(&[("--steps", "9")]), 1, &["another plan"]);
    assert_refused(&run(&[("--epsilon", "2")]), 1, &["another plan"]);
    // A state that was lost: going on would release every step a second time.
    assert_refused(&run(&[("--state", "elsewhere")]), 1, &["does not belong", "step 1"]);
    // An output that lost lines which the state no longer remembers.
    let lines: Vec<&str> = before.lines().collect();
    fs::write(directory.path().join("output.csv"), lines[..3].join("\n") + "\n").unwrap();
    assert_refused(&run(&[]), 1, &["ends at step 2", "restore"]);
    fs::write(directory.path().join("output.csv"), "something else\n").unwrap();
    assert_refused(&run(&[]), 1, &["line 1"]);
    // An input that became shorter.
    fs::write(directory.path().join("output.csv"), &before).unwrap();
    let input = read(directory.path(), "input.csv");
    fs::write(directory.path().join("input.csv"), "value\n1\n").unwrap();
    assert_refused(&run(&[]), 1, &["1 rows", "used 6"]);
    // An input whose past was edited, or has a row more in its middle, which would shift the others.
    let rows: Vec<&str> = input.lines().collect();
    for (changed, row) in [(1, "row 1 is"), (4, "row 4 is")] {
        let mut edited = rows.clone();
        edited[changed] = "0.5";
        fs::write(directory.path().join("input.csv"), edited.join("\n") + "\n").unwrap();
        assert_refused(&run(&[]), 1, &[row, "not what this state has used"]);
        let mut longer = rows.clone();
        longer.insert(changed, "0.125");
        fs::write(directory.path().join("input.csv"), longer.join("\n") + "\n").unwrap();
        assert_refused(&run(&[]), 1, &[row, "not what this state has used"]);
    }
    fs::write(directory.path().join("input.csv"), input).unwrap();
    assert_eq!(read(directory.path(), "output.csv"), before);
    // Damage.
    let mut state = fs::read(directory.path().join("state")).unwrap();
    let middle = state.len() / 2;
    state[middle] ^= 1;
    fs::write(directory.path().join("state"), state).unwrap();
    assert_refused(&run(&[]), 1, &["saved state"]);
}
