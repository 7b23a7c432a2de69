//! A browser without a window that is told what to do through a pipe: real key presses, real media, no network.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The names under which Chromium is installed.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// How long an answer may take on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser on this machine, if there is one.
pub(crate) fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    /// What happened beside the answers.
    events: Vec<Value>,
    session: Option<String>,
    last: u64,
    /// Its profile, which goes when it goes.
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and answers on 4: a shell puts our pipes there.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--remote-debugging-pipe",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                message.clear();
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Self { child, commands, answers, events: Vec::new(), session: None, last: 0, _profile: profile };
        let targets = browser.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().unwrap();
        let page = targets.iter().find(|target| target["type"] == "page").unwrap()["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": page, "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut answer =
                self.answers.recv_timeout(left).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The text of an expression in the page.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().to_owned()
    }

    /// How wide and high the window is, in the pixels of a page.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", screen);
    }

    /// What the page is shown on: `screen` or `print`, `light` or `dark`.
    pub(crate) fn medium(&mut self, medium: &str, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": medium, "features": features }));
    }

    /// Opens a file and waits until its script has run; says what went wrong otherwise.
    pub(crate) fn open(&mut self, page: &Path) -> Result<(), String> {
        self.events.clear();
        let address = format!("file://{}", page.canonicalize().unwrap().display());
        self.call("Page.navigate", json!({ "url": address }));
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.value("document.documentElement?.dataset.ready ?? null") == "yes" {
                return self.complaints();
            }
            self.complaints()?;
            if Instant::now() > deadline {
                return Err("the script of the page did not run to its end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Errors of the script, and everything that was loaded beside the page.
    pub(crate) fn complaints(&mut self) -> Result<(), String> {
        for event in &self.events {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => return Err(parameters["exceptionDetails"].to_string()),
                "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                    return Err(parameters["entry"].to_string());
                }
                "Network.requestWillBeSent" if parameters["type"] != "Document" => {
                    return Err(format!("the page loads {}", parameters["request"]["url"]));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Presses a key, as a person would.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            other => panic!("no code for the key {other}"),
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Moves on with the tabulator until an element has the focus.
    pub(crate) fn tab_to(&mut self, id: &str) {
        for _ in 0..30 {
            self.press("Tab");
            if self.text("document.activeElement.id") == id {
                return;
            }
        }
        panic!("the keyboard does not reach #{id}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
