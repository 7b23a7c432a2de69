//! One self-contained HTML page: figures, the comparison with others, the planner's table, what each strategy costs.
//!
//! What takes long to measure comes from the records in `benches/record`; what takes seconds is computed here.

mod browser;
mod figures;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use dp_benches::record::{self, Record};
use dp_mechanisms::Workload;
use dp_mechanisms::planner::{self, Report, Request};
use dp_mechanisms::{Metric, Problem};
use indicatif::ProgressBar;
use pulldown_cmark::{Options, Parser as Markdown, html};

/// Write one HTML page with the figures, the comparison, the planner's table and the costs
#[derive(Parser)]
struct Arguments {
    /// Where the page goes
    #[arg(long, value_name = "FILE", default_value = "target/report.html")]
    output: PathBuf,
    /// Short horizons only, so that the page is made in seconds
    #[arg(long)]
    quick: bool,
    /// Open the page in a headless browser and check that it shows everything without a script error
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("report: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let root = root();
    let page = page(&root, arguments.quick)?;
    if let Some(folder) = arguments.output.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&arguments.output, page)
        .with_context(|| format!("cannot write `{}`", arguments.output.display()))?;
    eprintln!("the report is in {}", arguments.output.display());
    if arguments.check {
        browser::check(&arguments.output)?;
        eprintln!("a browser shows it without an error");
    }
    Ok(())
}

/// The root of the workspace: the parent of this package, or the current folder for a program outside of it.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|package| Path::new(&package).parent().map(Path::to_path_buf))
        .unwrap_or_default()
}

/// One section of the page.
struct Section {
    /// The anchor, and the word in the navigation.
    name: &'static str,
    title: &'static str,
    body: String,
}

fn page(root: &Path, quick: bool) -> Result<String> {
    let plans = plans(quick)?;
    let mut sections = vec![
        Section { name: "picture", title: "What is released", body: picture(root)? },
        Section { name: "accuracy", title: "How accurate it is", body: figures::accuracy(quick)? },
        Section { name: "chooser", title: "Which strategy is best", body: CHOOSER.to_owned() },
    ];
    let kept = [
        (
            "comparison",
            "Beside other libraries",
            record::folder().join("peers.md"),
            "not recorded yet; run `cargo xtask peers --record`",
        ),
        (
            "papers",
            "Beside the papers",
            record::folder().join("reproduce.md"),
            "not recorded yet; run `cargo xtask reproduce --record`",
        ),
        ("errata", "What is wrong in print", root.join("docs").join("errata.md"), "there is no such page"),
    ];
    for (name, title, path, otherwise) in kept {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| otherwise.to_owned());
        sections.push(Section {
            name,
            title,
            body: format!("<div class=\"prose\">{}</div>", markdown(&text)),
        });
    }
    sections.insert(4, Section { name: "costs", title: "What it costs", body: figures::costs()? });
    let (mut navigation, mut bodies) = (String::new(), String::new());
    for Section { name, title, body } in &sections {
        write!(navigation, "<a href=\"#{name}\">{title}</a>")?;
        writeln!(bodies, "<section id=\"{name}\"><h2>{title}</h2>\n{body}\n</section>")?;
    }
    let record = Record::now("cargo xtask report", ());
    // A script element ends at the first closing tag, whatever stands around it.
    let plans = serde_json::to_string(&plans)?.replace('<', "\\u003c");
    let heading = markdown(&record.heading().replace("Measured", "Made"));
    Ok(include_str!("page.html")
        .replace("{{heading}}", heading.trim().trim_start_matches("<p>").trim_end_matches("</p>"))
        .replace("{{navigation}}", &navigation)
        .replace("{{sections}}", &bodies)
        .replace("{{plans}}", &plans))
}

const CHOOSER: &str = "\
<p>For a workload and a horizon the best strategy is a computation. Errors are factors: multiplied by the square of what
one person can change, and divided by μ², they are variances. The bound holds for every factorization.</p>
<div class=\"controls\">
<label>workload <select id=\"choose-workload\"></select></label>
<label>steps <select id=\"choose-steps\"></select></label>
<label>error to minimize <select id=\"choose-metric\"></select></label>
</div>
<div class=\"scroll\"><table>
<thead><tr><th>strategy</th><th>sensitivity²</th><th>mean error²</th><th>largest error²</th><th>above the bound</th>
<th>values kept</th><th>planning</th></tr></thead>
<tbody id=\"plan\"></tbody></table></div>
<p class=\"soft\" id=\"plan-note\"></p>";

/// The picture of the README.
fn picture(root: &Path) -> Result<String> {
    let mut body = String::from(
        "<p>A synthetic epidemic, released every day at ε = 1, δ = 1e-6: by the best strategy and by the binary tree, \
         at the same budget (<code>cargo xtask demo</code>).</p>",
    );
    for (file, caption) in [
        ("demo.svg", "The published totals, and the error of both strategies."),
        (
            "learning.svg",
            "Private training on handwritten digits: accuracy against ε (<code>cargo xtask compare-training</code>).",
        ),
    ] {
        let path = root.join("docs").join(file);
        if !path.exists() {
            continue;
        }
        let svg =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        body += &figures::figure(&svg, caption);
    }
    Ok(body)
}

/// The plans that the page can show.
fn plans(quick: bool) -> Result<Vec<Report>> {
    let horizons: &[usize] = if quick { &[16, 64] } else { &[64, 256, 1024, 4096] };
    let workloads = ["count", "average", "window:32", "exp:1.1", "poly:0.5", "momentum:0.9"];
    let bar = ProgressBar::new((workloads.len() * horizons.len() * 2) as u64);
    let mut plans = Vec::new();
    for text in workloads {
        let workload: Workload = text.parse()?;
        for &steps in horizons {
            for metric in [Metric::Mse, Metric::Max] {
                let problem = Problem::new(workload.clone(), steps)?.with_metric(metric);
                let request = Request { time: Duration::from_secs(3), ..Request::new(problem) };
                bar.inc(1);
                plans
                    .push(planner::evaluate(&request).with_context(|| format!("{text} over {steps} steps"))?);
            }
        }
    }
    bar.finish_and_clear();
    Ok(plans)
}

/// Markdown as HTML, tables included.
fn markdown(text: &str) -> String {
    let mut page = String::new();
    html::push_html(&mut page, Markdown::new_ext(text, Options::ENABLE_TABLES));
    page.replace("<table>", "<div class=\"scroll\"><table>").replace("</table>", "</table></div>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_and_holds_every_section() {
        let page = page(&root(), true).unwrap();
        for name in ["picture", "accuracy", "chooser", "comparison", "costs", "papers", "errata"] {
            assert!(page.contains(&format!("<section id=\"{name}\">")), "{name}");
            assert!(page.contains(&format!("<a href=\"#{name}\">")), "{name}");
        }
        assert!(!page.contains("{{"), "a placeholder is left");
        for loaded in [" src=", "@import", "url(", "<link"] {
            assert!(!page.contains(loaded), "the page loads something: {loaded}");
        }
        assert!(page.matches("<svg").count() >= 3);
    }

    #[test]
    fn markdown_tables_scroll() {
        let page = markdown("| a | b |\n|---|---|\n| 1 | 2 |\n");
        assert!(page.contains("<div class=\"scroll\"><table>") && page.contains("<td>2</td>"), "{page}");
    }
}
