//! The guide and the README of the command line, run as they are printed: every file and every command, in order, in an empty folder.

use std::path::Path;
use std::process::{Command, Stdio};

/// A fenced block: the words after the fence, its lines, and the line where it begins.
struct Block<'a> {
    words: Vec<&'a str>,
    text: String,
    line: usize,
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (number, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(words), None) => {
                let words = words.split_whitespace().collect();
                open = Some(Block { words, text: String::new(), line: number + 1 });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// Writes the files of a document and runs its commands; the commands of `dp` that it uses, and the number of blocks that were run.
fn run_document(name: &str) -> (Vec<String>, usize) {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_dp"));
    let mut search = vec![program.parent().unwrap().to_owned()];
    search.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let search = std::env::join_paths(search).unwrap();
    let (mut run, mut commands) = (0, Vec::new());
    for Block { words, text, line } in blocks(&document) {
        match words[..] {
            ["text"] => {}
            ["csv" | "toml", file] => std::fs::write(folder.path().join(file), text).unwrap(),
            ["sh", ref expected @ ..] => {
                let output = Command::new("sh")
                    .args(["-e", "-c", &text])
                    .current_dir(folder.path())
                    .env("PATH", &search)
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                let told = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.success(), expected.is_empty(), "{name}:{line}: {text}{told}");
                if !expected.is_empty() {
                    assert_eq!(expected, ["fails"], "{name}:{line}");
                    assert!(told.contains("visits.csv"), "{name}:{line}: {told}");
                }
                let of_dp = text.lines().filter_map(|line| line.strip_prefix("dp "));
                commands.extend(of_dp.filter_map(|rest| rest.split_whitespace().next()).map(str::to_owned));
                run += 1;
            }
            _ => panic!("{name}:{line}: nobody knows how to run a block of {words:?}"),
        }
    }
    (commands, run)
}

/// The commands that stand within sentences and in blocks that are not run, word by word.
fn mentioned(document: &str) -> Vec<Vec<String>> {
    let mut prose = String::new();
    let mut found = Vec::new();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut fence: Option<&str> = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(kind), None) => fence = Some(kind),
            (Some(_), Some(_)) => fence = None,
            (None, Some("text")) => found.extend(line.find("dp ").map(|place| words(&line[place..]))),
            (None, Some(_)) => {}
            (None, None) => prose.extend([line, " "]),
        }
    }
    let spans = prose.split('`').skip(1).step_by(2).filter(|span| span.starts_with("dp "));
    found.extend(spans.map(words));
    found
}

/// What a sentence advises can be done: the command is there, and has the options.
#[test]
fn every_command_that_is_mentioned_exists() {
    for name in ["../../docs/guide.md", "../../README.md", "README.md"] {
        let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        let mentioned = mentioned(&document);
        assert!(!mentioned.is_empty(), "{name}");
        for words in mentioned {
            let asked = if words[1] == "help" { vec!["help"] } else { vec![words[1].as_str(), "--help"] };
            let help = Command::new(env!("CARGO_BIN_EXE_dp")).args(asked).output().unwrap();
            let told = String::from_utf8(help.stdout).unwrap();
            assert!(help.status.success(), "{name}: {words:?}");
            for option in words.iter().filter(|word| word.starts_with("--")) {
                assert!(told.contains(option.as_str()), "{name}: {words:?} has no {option}");
            }
        }
    }
    let text = "See `dp run\n--fast`, `cargo test` and\n```text\n0 0 * * *  cd /srv && dp check x.toml\n```\n```sh\ndp new\n```\n";
    assert_eq!(mentioned(text), [vec!["dp", "check", "x.toml"], vec!["dp", "run", "--fast"]]);
}

#[test]
fn every_command_of_the_guide_works() {
    let (commands, run) = run_document("../../docs/guide.md");
    assert!(run > 10, "{run} blocks");
    for command in ["new", "check", "run", "ledger", "calibrate", "plan"] {
        assert!(commands.iter().any(|known| known == command), "the guide does not use dp {command}");
    }
}

#[test]
fn every_command_of_the_readme_works() {
    let (commands, run) = run_document("README.md");
    assert_eq!((commands, run), (["plan", "release", "calibrate"].map(str::to_owned).to_vec(), 1));
}
