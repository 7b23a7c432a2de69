//! The page in a real browser, without a window: driven by the keyboard, at the width of a phone, in the dark, printed.

mod chromium;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use chromium::Browser;
use dp_events::{Dashboard, Randomness, Spec};
use dp_tests::description::Description;

/// Publishes forty days of a small town, and returns the page and the table of its visits.
fn published(folder: &Path) -> (PathBuf, String) {
    let mut rows = String::from("date,who,region,minutes\n");
    for day in 0..40 {
        for visit in 0..30 {
            let (month, of_month) = if day < 31 { (1, day + 1) } else { (2, day - 30) };
            let region = ["North", "\"South & \"\"<East>\"\"\"", "West"][(day + visit * visit) % 3];
            let _ = writeln!(
                rows,
                "2026-{month:02}-{of_month:02},p{},{region},{}",
                (day * 13 + visit) % 311,
                visit * 2
            );
        }
    }
    std::fs::write(folder.join("visits.csv"), rows).unwrap();
    let town = Description::of_people("who", 1, 3)
        .approximate(1.0, 1e-6)
        .set("input.files", r#"["visits.csv"]"#)
        .set("input.time", "\"date\"")
        .days("2026-01-01", "2026-02-28")
        .set("output.title", r#""Visits </script> of a town""#)
        .release(
            "visits",
            r#"statistics = ["total", "window:7", "step"]
            by = { column = "region", values = ["North", "South & \"<East>\"", "West"] }"#,
        )
        .release(
            "waiting",
            r#"value = { column = "minutes", bounds = [0, 60] }
            statistics = ["mean"]"#,
        );
    std::fs::write(folder.join("town.toml"), town.to_string()).unwrap();
    let dashboard = Dashboard::new(Spec::load(&folder.join("town.toml")).unwrap()).unwrap();
    let until = dashboard.spec().calendar.read_instant("2026-02-10").unwrap();
    dashboard.run(until, Randomness::Reproducible(3)).unwrap();
    let public = folder.join("public");
    (public.join("index.html"), std::fs::read_to_string(public.join("visits.csv")).unwrap())
}

/// The value, its band's lower and its upper end of one line of the table.
fn line(table: &str, step: usize, key: &str, statistic: &str) -> [f64; 3] {
    let beginning = format!("{step},2026-01-{step:02},{key},{statistic},");
    let line = table.lines().find_map(|line| line.strip_prefix(&beginning)).unwrap();
    let numbers: Vec<f64> = line.split(',').map(|number| number.parse().unwrap()).collect();
    [numbers[0], numbers[2], numbers[3]]
}

/// The numbers in a text, in order.
fn numbers(text: &str) -> Vec<f64> {
    let text = text.replace(['\u{2212}'], "-").replace(',', "");
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Chooses the second region and the second statistic, goes to the third day, and reads; all with the keyboard.
fn read_third_day(browser: &mut Browser) -> String {
    browser.tab_to("key");
    browser.press("ArrowDown");
    browser.tab_to("statistic");
    browser.press("ArrowDown");
    browser.tab_to("chart");
    browser.press("Home");
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    browser.text("document.getElementById('chart').getAttribute('aria-valuetext')")
}

fn shows(read: &str, [value, low, high]: [f64; 3]) -> bool {
    let found = numbers(read.split_once(": ").map_or("", |(_, numbers)| numbers));
    found.len() == 3
        && found.iter().zip([value, low, high]).all(|(found, exact)| (found - exact).abs() <= 0.5)
}

/// Where a browser is installed: the keyboard reaches everything, and what is read is what the table says.
#[test]
fn a_browser_reads_the_page_with_the_keyboard() {
    let Some(program) = chromium::find() else {
        eprintln!("no browser on this machine: the page was not opened");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (page, table) = published(folder.path());
    let mut browser = Browser::start(&program);
    browser.resize(390, 844);
    browser.open(&page).unwrap();
    assert_eq!(browser.text("document.title"), "Visits </script> of a town");
    let expected = line(&table, 3, "\"South & \"\"<East>\"\"\"", "window:7");
    let read = read_third_day(&mut browser);
    assert!(read.starts_with("3 January 2026: ") && shows(&read, expected), "{read}, not {expected:?}");
    let heading = browser.text("document.getElementById('heading').textContent");
    assert_eq!(heading, "visits · South & \"<East>\" · last 7 days");
    let shown = browser.text("document.getElementById('reading').textContent");
    assert!(shown.contains("3 January 2026"), "{shown}");
    // The last day, and past it.
    browser.press("End");
    browser.press("ArrowRight");
    let last = browser.text("document.getElementById('chart').getAttribute('aria-valuetext')");
    assert!(last.starts_with("9 February 2026: "), "{last}");
    assert_eq!(browser.value("document.querySelectorAll('#several button').length"), 3);
    assert!(browser.text("document.getElementById('csv').href").ends_with("/visits.csv"));
    // Another release, without regions.
    browser.value("document.getElementById('release').focus()");
    browser.press("ArrowDown");
    assert_eq!(
        browser.text("document.getElementById('heading').textContent"),
        "waiting · mean of all values so far"
    );
    assert_eq!(browser.value("document.getElementById('key-label').offsetHeight"), 0);
    browser.complaints().unwrap();
    // The address leads back to the same view.
    let address = browser.text("location.hash");
    assert_eq!(address, "#waiting//mean/0");

    // A page that moves by two days, and one whose script is wrong, are found out.
    let text = std::fs::read_to_string(&page).unwrap();
    let broken = folder.path().join("public").join("broken.html");
    std::fs::write(&broken, text.replace("ArrowRight: at + 1", "ArrowRight: at + 2")).unwrap();
    browser.open(&broken).unwrap();
    let read = read_third_day(&mut browser);
    assert!(!(read.starts_with("3 January 2026: ") && shows(&read, expected)), "{read}");
    std::fs::write(&broken, text.replace("recall();\nshow();", "nothing();")).unwrap();
    assert!(browser.open(&broken).unwrap_err().contains("nothing is not defined"));
    std::fs::write(&broken, text.replace("<main>", "<main><img src=\"picture.png\" alt=\"\">")).unwrap();
    assert!(browser.open(&broken).is_err(), "a page that loads something is found out");
}

/// Of hours, the last day and the last week can be chosen; the curve then begins there.
#[test]
fn a_browser_offers_days_and_weeks_of_hours() {
    let Some(program) = chromium::find() else {
        eprintln!("no browser on this machine: the page was not opened");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let hours = Description::of_events()
        .set("steps.length", "\"1 hour\"")
        .days("2026-01-01", "2026-01-09")
        .release("rows", r#"statistics = ["step"]"#);
    std::fs::write(folder.path().join("hours.toml"), hours.to_string()).unwrap();
    std::fs::write(folder.path().join("rows.csv"), "day\n2026-01-01T10:00\n").unwrap();
    let dashboard = Dashboard::new(Spec::load(&folder.path().join("hours.toml")).unwrap()).unwrap();
    let until = dashboard.spec().calendar.read_instant("2026-01-08T12:00").unwrap();
    assert_eq!(dashboard.run(until, Randomness::Reproducible(3)).unwrap().published, 180);
    let mut browser = Browser::start(&program);
    browser.resize(390, 844);
    browser.open(&folder.path().join("public").join("index.html")).unwrap();
    let offered =
        browser.text("[...document.getElementById('span').options].map(one => one.textContent).join(', ')");
    assert_eq!(offered, "All, Last 7 days, Last day");
    browser.tab_to("span");
    browser.press("End");
    let first = browser.value("+document.getElementById('chart').getAttribute('aria-valuemin')");
    assert_eq!(first, 180 - 24 + 1);
    browser.complaints().unwrap();
}

/// The ratio of luminances of two colours `rgb(r, g, b)`, as the accessibility guidelines define it.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |colour: &str| {
        let channels: Vec<f64> = colour
            .trim_start_matches("rgb(")
            .trim_end_matches(')')
            .split(',')
            .map(|channel| channel.trim().parse::<f64>().unwrap() / 255.0)
            .map(|c| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) })
            .collect();
        0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Light, dark and printed, wide and narrow: everything fits and can be read.
#[test]
fn a_browser_shows_the_page_everywhere() {
    let Some(program) = chromium::find() else {
        eprintln!("no browser on this machine: the page was not opened");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = published(folder.path());
    let mut browser = Browser::start(&program);
    for (width, height) in [(320, 640), (390, 844), (1280, 900)] {
        browser.resize(width, height);
        for (medium, scheme) in [("screen", "light"), ("screen", "dark"), ("print", "dark")] {
            browser.medium(medium, scheme);
            browser.open(&page).unwrap();
            let what = format!("{medium}, {scheme}, {width} wide");
            let over =
                browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert_eq!(over, 0, "{what}: the page is wider than its window");
            let style = |browser: &mut Browser, element: &str, name: &str| {
                browser.text(&format!("getComputedStyle(document.querySelector('{element}')).{name}"))
            };
            let paper = style(&mut browser, "body", "backgroundColor");
            let light = contrast(&paper, "rgb(0,0,0)") > 10.0;
            assert_eq!(light, scheme == "light" || medium == "print", "{what}: {paper}");
            for (element, name) in [
                ("body", "color"),
                (".quiet", "color"),
                ("#csv", "color"),
                (".axis", "fill"),
                (".line", "stroke"),
            ] {
                let ink = style(&mut browser, element, name);
                assert!(contrast(&ink, &paper) >= 4.5, "{what}: {element} {ink} on {paper}");
            }
            let form = style(&mut browser, "form", "display");
            assert_eq!(form == "none", medium == "print", "{what}: {form}");
            // Labels of the calendar do not run into one another.
            let crowded = browser.value(
                "(() => { const boxes = [...document.querySelectorAll('#chart text')].map(e => e.getBoundingClientRect()); \
                 return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right && b.left < a.right && \
                 a.top < b.bottom - 2 && b.top < a.bottom - 2)); })()",
            );
            assert_eq!(crowded, false, "{what}: labels overlap");
        }
    }
}
