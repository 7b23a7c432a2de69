//! The commands that read rows, each with a small request and two inputs that differ in one person's data.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A command with what it needs to run in a directory.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// The command and its options, without input, output and state.
    pub(crate) words: &'static [&'static str],
    /// The rows, with one person's data.
    pub(crate) with: &'static str,
    /// The same rows with that person's data blanked, or for updates of a graph removed.
    pub(crate) without: &'static str,
    /// Whether the run can be continued with --state.
    pub(crate) keeps_state: bool,
    /// Whether the size of the state depends on nothing but the number of steps.
    pub(crate) fixed_size: bool,
}

const BUDGET: [&str; 6] = ["--epsilon", "1", "--delta", "1e-6", "--reproducible-seed", "11"];

/// Lists that some of the requests read.
pub(crate) fn lists(directory: &Path) {
    fs::write(directory.join("universe.txt"), "a\nb\nc\n").unwrap();
    fs::write(directory.join("words.txt"), "ab\nc\n").unwrap();
}

pub(crate) const SUBJECTS: [Subject; 13] = [
    Subject {
        name: "release",
        words: &[
            "release",
            "--column",
            "x",
            "--bounds",
            "0:1",
            "--relation",
            "zero-out",
            "--steps",
            "8",
            "--workload",
            "count",
            "--strategy",
            "sqrt",
        ],
        with: "x\n1\n0\n1\n0.5\n1\n",
        without: "x\n1\n0\n1\n0.5\n0\n",
        keeps_state: true,
        fixed_size: true,
    },
    Subject {
        name: "release, doubling",
        words: &[
            "release",
            "--column",
            "x",
            "--bounds",
            "0:1",
            "--relation",
            "replace",
            "--doubling",
            "2",
            "--workload",
            "count",
            "--strategy",
            "sqrt",
        ],
        with: "x\n1\n0\n1\n0.5\n1\n",
        without: "x\n1\n0\n1\n0.5\n0.25\n",
        keeps_state: true,
        fixed_size: true,
    },
    Subject {
        name: "histogram",
        words: &[
            "histogram",
            "--column",
            "x",
            "--universe",
            "universe.txt",
            "--relation",
            "zero-out",
            "--steps",
            "8",
            "--strategy",
            "sqrt",
            "--show",
            "a,b,c",
        ],
        with: "x,y\na,1\nb,1\na,1\nc,1\n",
        without: "x,y\na,1\nb,1\na,1\n\"\",1\n",
        keeps_state: true,
        fixed_size: false,
    },
    Subject {
        name: "histogram, discovering",
        words: &[
            "histogram",
            "--column",
            "x",
            "--discover",
            "--threshold-delta",
            "1e-6",
            "--relation",
            "zero-out",
            "--steps",
            "8",
            "--strategy",
            "sqrt",
            "--show",
            "a,b,nobody",
        ],
        with: "x,y\na,1\nb,1\na,1\nonly me,1\n",
        without: "x,y\na,1\nb,1\na,1\n\"\",1\n",
        keeps_state: true,
        fixed_size: false,
    },
    Subject {
        name: "substrings",
        words: &[
            "substrings",
            "--column",
            "x",
            "--alphabet",
            "abc",
            "--length",
            "2",
            "--relation",
            "zero-out",
            "--steps",
            "8",
            "--strategy",
            "sqrt",
            "--show",
            "ab,c",
        ],
        with: "x,y\na,1\nb,1\na,1\nc,1\n",
        without: "x,y\na,1\nb,1\na,1\n\"\",1\n",
        keeps_state: true,
        fixed_size: false,
    },
    Subject {
        name: "substrings of a dictionary",
        words: &[
            "substrings",
            "--column",
            "x",
            "--dictionary",
            "words.txt",
            "--relation",
            "replace",
            "--steps",
            "8",
            "--strategy",
            "sqrt",
            "--show",
            "ab,c",
        ],
        with: "x,y\na,1\nb,1\na,1\nc,1\n",
        without: "x,y\na,1\nb,1\na,1\nb,1\n",
        keeps_state: true,
        fixed_size: false,
    },
    Subject {
        name: "episodes",
        words: &[
            "episodes",
            "--column",
            "x",
            "--alphabet",
            "abc",
            "--length",
            "2",
            "--relation",
            "zero-out",
            "--steps",
            "8",
            "--strategy",
            "sqrt",
            "--show",
            "ab,c",
        ],
        with: "x,y\na,1\nb,1\na,1\nc,1\n",
        without: "x,y\na,1\nb,1\na,1\n\"\",1\n",
        keeps_state: true,
        fixed_size: false,
    },
    Subject {
        name: "graph edges",
        words: &[
            "graph",
            "edges",
            "--vertices",
            "4",
            "--steps",
            "6",
            "--relation",
            "zero-out",
            "--strategy",
            "sqrt",
        ],
        with: "step,u,v\n1,0,1\n2,1,2\n5,0,3\n",
        without: "step,u,v\n1,0,1\n2,1,2\n",
        keeps_state: true,
        fixed_size: true,
    },
    Subject {
        name: "graph triangles",
        words: &[
            "graph",
            "triangles",
            "--vertices",
            "4",
            "--steps",
            "6",
            "--until",
            "5",
            "--relation",
            "zero-out",
            "--strategy",
            "sqrt",
        ],
        with: "step,u,v\n1,0,1\n2,1,2\n5,0,2\n",
        without: "step,u,v\n1,0,1\n2,1,2\n",
        keeps_state: true,
        fixed_size: true,
    },
    Subject {
        name: "graph degrees",
        words: &[
            "graph",
            "degrees",
            "--vertices",
            "4",
            "--degree-bound",
            "3",
            "--steps",
            "6",
            "--relation",
            "replace",
            "--strategy",
            "sqrt",
        ],
        with: "step,u,v\n1,0,1\n2,1,2\n5,0,3\n",
        without: "step,u,v\n1,0,1\n2,1,2\n6,2,3\n",
        keeps_state: true,
        fixed_size: true,
    },
    Subject {
        name: "graph cuts",
        words: &[
            "graph",
            "cuts",
            "--cut",
            "0,1:",
            "--vertices",
            "4",
            "--steps",
            "6",
            "--relation",
            "zero-out",
            "--strategy",
            "sqrt",
        ],
        with: "step,u,v,weight\n1,0,1,1\n2,1,2,0.5\n5,0,3,-1\n",
        without: "step,u,v,weight\n1,0,1,1\n2,1,2,0.5\n",
        keeps_state: true,
        fixed_size: true,
    },
    Subject {
        name: "local",
        words: &["local", "--column", "x", "--bounds", "0:10"],
        with: "x\n1\n2\n3\n4\n",
        without: "x\n1\n2\n3\n9\n",
        keeps_state: false,
        fixed_size: false,
    },
    Subject {
        name: "local vectors",
        words: &["local", "--column", "x", "--bounds", "0:10", "--strategy", "sqrt"],
        with: "x\n1\n2\n3\n4\n",
        without: "x\n1\n2\n3\n9\n",
        keeps_state: false,
        fixed_size: false,
    },
];

impl Subject {
    /// The command on `rows.csv` of a directory, with more options.
    pub(crate) fn command(&self, directory: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
        command.args(self.words).args(["--input", "rows.csv"]).args(BUDGET).args(more);
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command on rows.
    pub(crate) fn run(&self, directory: &Path, rows: &str, more: &[&str]) -> Output {
        fs::write(directory.join("rows.csv"), rows).unwrap();
        finish(self.command(directory, more).spawn().unwrap(), self.name)
    }
}

/// Waits for a process to end; one that does not is a failure.
#[track_caller]
pub(crate) fn finish(mut child: Child, name: &str) -> Output {
    // Far beyond what any of these requests takes; it only tells slow from endless.
    let deadline = Instant::now() + Duration::from_secs(240);
    // What it prints is read meanwhile, or it would wait for us.
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reader = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let stdout = reader(stdout.map(|pipe| Box::new(pipe) as _));
    let stderr = reader(stderr.map(|pipe| Box::new(pipe) as _));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{name} does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `dp` in a directory.
pub(crate) fn dp(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dp"));
    command.args(words).current_dir(directory).stdin(Stdio::null());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), &words.join(" "))
}
