//! The page in a real browser, without a window.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The names under which Chromium is installed.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser on this machine, if there is one.
pub(crate) fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

/// Opens a page and fails unless its script ran to the end without an error and filled the planner's table.
pub(crate) fn check(page: &Path) -> Result<()> {
    let Some(program) = find() else {
        bail!("there is no Chromium on this machine; install the package `chromium`, or leave out --check");
    };
    let page = page.canonicalize().with_context(|| format!("there is no `{}`", page.display()))?;
    let profile = std::env::temp_dir().join(format!("dp-report-{}", std::process::id()));
    let output = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args(["--disable-component-update", "--disable-sync", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .context("the browser could not be started")?;
    // The profile is the browser's own; what it leaves behind is of no use to anybody.
    let _ = std::fs::remove_dir_all(&profile);
    ensure!(
        output.status.success(),
        "the browser failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    verdict(&String::from_utf8_lossy(&output.stdout))
}

/// What the page looks like after its script has run.
fn verdict(document: &str) -> Result<()> {
    if let Some((_, after)) = document.split_once("data-error=\"") {
        bail!("the page reports a script error: {}", after.split('"').next().unwrap_or_default());
    }
    ensure!(document.contains("data-ready=\"yes\""), "the script of the page did not run to its end");
    let filled = document
        .split_once("<tbody id=\"plan\">")
        .is_some_and(|(_, after)| after.trim_start().starts_with("<tr"));
    ensure!(filled, "the planner's table is empty");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_must_be_ready_filled_and_free_of_errors() {
        let good = "<html data-ready=\"yes\"><tbody id=\"plan\"><tr><td>sqrt</td></tr></tbody>";
        assert!(verdict(good).is_ok());
        assert!(verdict(&good.replace("yes", "no")).is_err());
        assert!(verdict(&good.replace("<tr>", "")).is_err());
        let broken = verdict(&good.replace("<html", "<html data-error=\"x is not defined\""));
        assert!(broken.unwrap_err().to_string().contains("x is not defined"));
    }

    /// Where a browser is installed, the real page must pass and a page with a broken script must not.
    #[test]
    fn a_browser_shows_the_page() {
        if find().is_none() {
            eprintln!("no browser on this machine: the page was not opened");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        let page = crate::page(&crate::root(), true).unwrap();
        std::fs::write(&path, &page).unwrap();
        check(&path).unwrap();
        std::fs::write(&path, page.replace("show();\n", "nothing();\n")).unwrap();
        assert!(check(&path).is_err());
    }
}
