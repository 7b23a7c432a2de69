//! Completions and manual pages name every command.

use std::process::Command;

/// The commands that the program lists.
fn commands() -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_dp")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<String> =
        listed.filter_map(|line| line.split_whitespace().next()).map(String::from).collect();
    assert!(names.len() > 10, "{names:?}");
    names
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(env!("CARGO_BIN_EXE_dp")).args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    let status = Command::new(env!("CARGO_BIN_EXE_dp")).arg("manual").arg(&pages).status().unwrap();
    assert!(status.success());
    assert!(pages.join("dp.1").is_file());
    for command in commands().iter().filter(|command| *command != "help") {
        let page = std::fs::read_to_string(pages.join(format!("dp-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") || page.contains(".SH NAME"), "{command}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_dp")).arg("manual").arg(&file).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}
