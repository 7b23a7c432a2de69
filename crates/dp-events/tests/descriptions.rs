//! Mistakes in a description: each is found, with its line, together with all others.

use dp_events::{Error, Spec};

const GOOD: &str = r#"[privacy]
epsilon = 1.0
delta = 1e-6
protects = "person"
relation = "zero-out"
[input]
files = ["cases.csv"]
time = "date"
person = "patient"
[limits]
rows_per_step = 1
steps = 3
separation = 1
[steps]
length = "1 day"
first = "2026-01-01"
last = "2027-12-31"
late = "drop"
[[release]]
name = "cases"
statistics = ["total", "window:7", "step"]
by = { column = "region", values = ["North", "South"] }
share = 2
[[release]]
name = "cost"
value = { column = "cost", bounds = [0, 500] }
statistics = ["total", "mean"]
[output]
folder = "public"
"#;

fn mistakes(text: &str) -> Vec<String> {
    match Spec::parse(text, "d.toml".as_ref()) {
        Err(Error::Spec(mistakes)) => mistakes.iter().map(ToString::to_string).collect(),
        Err(other) => vec![other.to_string()],
        Ok(_) => Vec::new(),
    }
}

#[test]
fn a_good_description_has_none() {
    assert_eq!(mistakes(GOOD), [""; 0]);
    let spec = Spec::parse(GOOD, "folder/d.toml".as_ref()).unwrap();
    assert_eq!(spec.calendar.steps(), 730);
    assert_eq!(spec.columns(), ["date", "patient", "region", "cost"]);
    assert_eq!(spec.output, std::path::Path::new("folder/public"));
    assert_eq!(spec.state, std::path::Path::new("folder/d.state"));
    assert_eq!(spec.releases[1].value.as_ref().unwrap().resolution, 0.1);
}

/// Each change to the good description, and what must be said about it.
#[test]
fn every_mistake_is_named_with_its_line() {
    let table: &[(&str, &str, &str)] = &[
        ("epsilon = 1.0", "epsilon = 0", "d.toml:2: `privacy.epsilon`: 0 is not above 0"),
        ("epsilon = 1.0", "epsilon = nan", "d.toml:2: `privacy.epsilon`: is not a finite number"),
        ("delta = 1e-6", "delta = 1", "d.toml:3: `privacy.delta`: 1 is not strictly between 0 and 1"),
        ("epsilon = 1.0\n", "", "`privacy.epsilon` is missing beside"),
        ("epsilon = 1.0\ndelta = 1e-6\n", "", "there is no budget"),
        ("delta = 1e-6", "rho = 1", "there are two budgets"),
        (
            "\"person\"",
            "\"people\"",
            "d.toml:4: `privacy.protects`: \"people\" is none of \"person\", \"person-step\", \"event\"",
        ),
        ("relation = \"zero-out\"\n", "", "`privacy.relation` is missing"),
        ("time = \"date\"", "time = 3", "d.toml:8: `input.time`: expected a text in quotes"),
        ("person = \"patient\"\n", "", "`input.person` is missing"),
        ("steps = 3", "steps = 0", "d.toml:12: `limits.steps`: 0 is not a whole number from 1"),
        ("rows_per_step = 1\n", "", "`limits.rows_per_step` is missing"),
        ("separation = 1", "seperation = 1", "d.toml:13: `limits.seperation` is no field"),
        ("1 day", "1 dog", "d.toml:15: `steps.length`: `1 dog` is not a length"),
        ("2027-12-31", "2025-12-31", "the last step begins at 2025-12-31T00:00:00, before the first"),
        ("2026-01-01", "1.1.2026", "`1.1.2026` is not a date"),
        (
            "late = \"drop\"",
            "late = \"soon\"",
            "d.toml:18: `steps.late`: \"soon\" is none of \"drop\", \"next\"",
        ),
        ("late = \"drop\"", "zone = \"Mars\"", "`Mars` is not a known time zone"),
        ("name = \"cases\"", "name = \"../x\"", "d.toml:20: `release.name`: is part of a file name"),
        ("name = \"cost\"", "name = \"Cases\"", "another release has this name"),
        ("\"window:7\"", "\"window:0\"", "d.toml:21: `release.statistics`: \"window:0\""),
        ("\"window:7\"", "\"median\"", "\"median\" is no statistic"),
        ("\"window:7\"", "\"total\"", "total is there twice"),
        ("\"window:7\"", "\"mean\"", "mean is of a value"),
        ("[\"total\", \"mean\"]", "[\"total\", \"quantile:0.5\"]", "put them into a release of their own"),
        ("[\"total\", \"mean\"]", "[\"quantile:0.5\"]", "`resolution` is missing"),
        ("[\"total\", \"mean\"]", "[]", "is empty; name at least one statistic"),
        (
            "bounds = [0, 500]",
            "bounds = [500, 0]",
            "d.toml:26: `release.value.bounds`: the lower bound 500 is not below",
        ),
        (
            "bounds = [0, 500]",
            "bounds = [0, 500], resolution = 900",
            "900 is coarser than the bounds are wide",
        ),
        ("[\"North\", \"South\"]", "[\"North\", \"North\"]", "the key \"North\" is there twice"),
        ("[\"North\", \"South\"]", "\"nowhere.txt\"", "cannot read `nowhere.txt`"),
        (
            ", values = [\"North\", \"South\"]",
            ", other = \"Rest\"",
            "has no meaning where keys are found in the rows",
        ),
        (
            "bounds = [0, 500] }",
            "bounds = [0, 500] }\nby = { column = \"region\" }",
            "rows are counted where keys are not listed",
        ),
        ("[\"total\", \"mean\"]", "[\"range:9:3\"]", "expected two numbers LOW:HIGH"),
        ("column = \"region\"", "column = \"value\"", "`value` is the name of a column of the output"),
        ("[\"North\", \"South\"] }", "[\"North\"], other = \"North\" }", "\"North\" is one of the values"),
        ("share = 2", "share = -2", "d.toml:23: `release.share`: -2 is not above 0"),
        ("share = 2", "weights = [1, 2]", "there are 2 weights for 3 statistics"),
        ("share = 2", "colour = \"red\"", "`release.colour` is no field; the fields here are `name`"),
        ("folder = \"public\"", "folder = \"d.state\"", "are the same folder"),
        ("folder = \"public\"", "fodler = \"public\"", "`output.folder` is missing"),
        ("share = 2", "share = ", "d.toml:23: "),
        ("protects = \"person\"", "protects = \"event\"", "`input.person`: nobody's rows are bounded"),
        ("protects = \"person\"", "protects = \"person-step\"", "`limits.steps`: has no meaning"),
        (
            "share = 2",
            "of = \"people\"\nvalue = { column = \"x\", bounds = [0, 1] }",
            "different people are counted, not summed",
        ),
    ];
    for (old, new, expected) in table {
        assert!(GOOD.contains(old), "{old}");
        let found = mistakes(&GOOD.replacen(old, new, 1));
        assert!(found.iter().any(|mistake| mistake.contains(expected)), "{new}: {found:?}, not {expected}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_lines() {
    let text = GOOD
        .replace("epsilon = 1.0", "epsilon = -1.0")
        .replace("steps = 3", "steps = 0")
        .replace("\"window:7\"", "\"window:x\"")
        .replace("share = 2", "shares = 2");
    let lines: Vec<String> =
        mistakes(&text).iter().map(|mistake| mistake.split(':').nth(1).unwrap().to_owned()).collect();
    assert_eq!(lines, ["2", "12", "21", "23"]);
}

/// A pure ε and a ρ are budgets too; only keys that are found in the rows need a δ.
#[test]
fn keys_that_are_not_listed_need_a_delta() {
    let unlisted = GOOD.replace(", values = [\"North\", \"South\"]", "");
    assert_eq!(mistakes(&unlisted), [""; 0]);
    for budget in ["epsilon = 1.0\n", "rho = 0.1\n"] {
        let other = |text: &str| text.replace("epsilon = 1.0\ndelta = 1e-6\n", budget);
        assert_eq!(mistakes(&other(GOOD)), [""; 0]);
        let found = mistakes(&other(&unlisted));
        assert!(found.len() == 1 && found[0].contains("which needs a `delta`"), "{found:?}");
    }
}
