//! Descriptions of dashboards from their parts, so that a test says what it is about and nothing else.

use std::fmt::{Display, Formatter};

/// A description of a dashboard: what is not said is a small dashboard of single rows, ρ = 0.5, with the days of the column `day` of
/// `rows.csv` as steps, published in `public`.
///
/// # Example
/// ```
/// use dp_tests::description::Description;
/// let text = Description::of_people("who", 2, 3)
///     .days("2026-01-01", "2026-01-09")
///     .set("privacy.rho", "2e6")
///     .release("visits", r#"statistics = ["total"]"#)
///     .to_string();
/// assert!(text.starts_with("[privacy]\nrho = 2e6\nprotects = \"person\"\n"));
/// assert!(text.contains("[limits]\nrows_per_step = 2\nsteps = 3\n"));
/// ```
#[derive(Debug, Clone)]
pub struct Description {
    /// Sections with their fields, in the order in which they are written.
    sections: Vec<(&'static str, Vec<(String, String)>)>,
    /// Names, with the other lines.
    releases: Vec<(String, String)>,
}

impl Description {
    /// Every row is protected by itself.
    pub fn of_events() -> Self {
        let empty = Self {
            sections: ["privacy", "input", "limits", "steps", "output"].map(|name| (name, Vec::new())).into(),
            releases: Vec::new(),
        };
        empty
            .set("privacy.rho", "0.5")
            .set("privacy.protects", "\"event\"")
            .set("privacy.relation", "\"zero-out\"")
            .set("input.files", "[\"rows.csv\"]")
            .set("input.time", "\"day\"")
            .set("steps.length", "\"1 day\"")
            .set("output.folder", "\"public\"")
            .days("2026-01-01", "2026-01-02")
    }

    /// People are protected, by a column that identifies them: so many rows of one count in a step, in so many steps.
    pub fn of_people(column: &str, rows_per_step: u32, steps: u32) -> Self {
        Self::of_events()
            .set("privacy.protects", "\"person\"")
            .set("input.person", &format!("\"{column}\""))
            .set("limits.rows_per_step", &rows_per_step.to_string())
            .set("limits.steps", &steps.to_string())
    }

    /// (ε, δ) in place of ρ.
    #[must_use]
    pub fn approximate(self, epsilon: f64, delta: f64) -> Self {
        let budget =
            [("epsilon".to_owned(), format!("{epsilon:?}")), ("delta".to_owned(), format!("{delta:e}"))];
        let mut without = self.unset("privacy.rho");
        without.section("privacy").splice(0..0, budget);
        without
    }

    /// The first and the last step.
    #[must_use]
    pub fn days(self, first: &str, last: &str) -> Self {
        self.set("steps.first", &format!("\"{first}\"")).set("steps.last", &format!("\"{last}\""))
    }

    /// A field, by section and name, as it is written in the file.
    #[must_use]
    pub fn set(mut self, field: &str, value: &str) -> Self {
        let (section, name) = parted(field);
        let fields = self.section(section);
        match fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => value.clone_into(known),
            None => fields.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    /// Without a field.
    #[must_use]
    pub fn unset(mut self, field: &str) -> Self {
        let (section, name) = parted(field);
        self.section(section).retain(|(known, _)| known != name);
        self
    }

    /// One more release, by its name and its other lines.
    #[must_use]
    pub fn release(mut self, name: &str, lines: &str) -> Self {
        self.releases.push((name.to_owned(), lines.to_owned()));
        self
    }

    fn section(&mut self, name: &str) -> &mut Vec<(String, String)> {
        let found = self.sections.iter_mut().find(|(known, _)| *known == name);
        &mut found.unwrap_or_else(|| panic!("there is no section {name}")).1
    }
}

fn parted(field: &str) -> (&str, &str) {
    field.split_once('.').unwrap_or_else(|| panic!("{field} has no section"))
}

/// Keys as a list: `["k0", "k1", …]`.
pub fn numbered(count: usize) -> String {
    let keys: Vec<String> = (0..count).map(|key| format!("\"k{key}\"")).collect();
    format!("[{}]", keys.join(", "))
}

impl Display for Description {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        for (section, fields) in &self.sections {
            if *section == "output" {
                for (name, lines) in &self.releases {
                    writeln!(formatter, "[[release]]\nname = \"{name}\"\n{}", lines.trim())?;
                }
            }
            if fields.is_empty() {
                continue;
            }
            writeln!(formatter, "[{section}]")?;
            for (name, value) in fields {
                writeln!(formatter, "{name} = {value}")?;
            }
        }
        Ok(())
    }
}
