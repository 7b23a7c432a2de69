//! What of a description a state belongs to, and how two differ.

use serde::{Deserialize, Serialize};

use super::{Promise, Spec};

/// The fields of a description that decide what is measured and promised, by name, in a stable form.
///
/// Where rows are read from and where releases are written is not among them: files may move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    fields: Vec<(String, String)>,
}

impl Identity {
    pub(super) fn of(spec: &Spec) -> Self {
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut note = |name: String, value: String| fields.push((name, value));
        let budget = match spec.privacy.budget {
            Promise::Approximate { epsilon, delta } => format!("epsilon = {epsilon}, delta = {delta:e}"),
            Promise::ZeroConcentrated { rho } => format!("rho = {rho}"),
            Promise::Pure { epsilon } => format!("epsilon = {epsilon}, no delta"),
        };
        note("privacy".to_owned(), budget);
        note("privacy.protects".to_owned(), spec.privacy.protects.word().to_owned());
        note("privacy.relation".to_owned(), spec.privacy.relation.to_string());
        note("input.time".to_owned(), spec.input.time.clone());
        note("input.format".to_owned(), spec.input.format.clone().unwrap_or_default());
        note("input.person".to_owned(), spec.input.person.clone().unwrap_or_default());
        note("limits.rows_per_step".to_owned(), spec.limits.rows_per_step.to_string());
        note("limits.steps".to_owned(), spec.limits.steps.to_string());
        note("limits.separation".to_owned(), spec.limits.separation.to_string());
        note("steps.length".to_owned(), spec.calendar.length().to_string());
        note("steps.zone".to_owned(), spec.calendar.zone().to_owned());
        note("steps.first".to_owned(), spec.calendar.label(0));
        note("steps".to_owned(), format!("{} steps", spec.calendar.steps()));
        for release in &spec.releases {
            let name = |field: &str| format!("release `{}`.{field}", release.name);
            note(name("of"), format!("{:?}", release.of).to_lowercase());
            note(name("share"), release.share.to_string());
            let statistics: Vec<String> = release.statistics.iter().map(ToString::to_string).collect();
            note(name("statistics"), statistics.join(", "));
            let weights: Vec<String> = release.weights.iter().map(ToString::to_string).collect();
            note(name("weights"), weights.join(", "));
            if let Some(value) = &release.value {
                note(name("value.column"), value.column.clone());
                note(name("value.bounds"), format!("[{}, {}]", value.low, value.high));
                note(name("value.resolution"), value.resolution.to_string());
            }
            if let Some(by) = &release.by {
                note(name("by.column"), by.column.clone());
                let values =
                    if by.is_found() { "found in the rows".to_owned() } else { by.values.join("\u{1f}") };
                note(name("by.values"), values);
                note(name("by.other"), by.other.clone().unwrap_or_default());
            }
        }
        Self { fields }
    }

    /// What became different, field by field, in sentences; nothing if all is the same.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let value = |identity: &Self, name: &str| {
            identity.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone())
        };
        let printed = |value: Option<String>| match value {
            Some(value) if value.is_empty() => "absent".to_owned(),
            Some(value) if value.contains('\u{1f}') => {
                format!("a list of {} values", value.split('\u{1f}').count())
            }
            Some(value) => value,
            None => "absent".to_owned(),
        };
        let mut names: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
        names.extend(
            now.fields.iter().map(|(name, _)| name.as_str()).filter(|name| value(self, name).is_none()),
        );
        let mut differences = Vec::new();
        for name in names {
            let (old, new) = (value(self, name), value(now, name));
            if old != new {
                differences.push(format!("{name} was {}, now {}", printed(old), printed(new)));
            }
        }
        // The order of releases decides which noise belongs to which.
        if differences.is_empty() && self != now {
            differences.push("the releases are in another order".to_owned());
        }
        differences
    }
}
