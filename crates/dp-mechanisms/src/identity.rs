//! What a saved state belongs to: a description, field by field, by which two plans are the same or differ.

use std::fmt;

/// Named values that say what is released and with which noise. Written as one `name=value` line each, in an order that never
/// changes; the first line is the version of the description itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(Vec<(String, String)>);

/// The version of the description.
const VERSION: &str = "2";

impl Identity {
    pub(crate) fn new() -> Self {
        Self(vec![("description".to_owned(), VERSION.to_owned())])
    }

    /// Adds a field. Line breaks would split it.
    pub(crate) fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.0.push((name.to_owned(), value.to_string().replace('\n', " ")));
        self
    }

    /// Reads what [`fmt::Display`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let field =
            |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.lines().map(field).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Whether another identity has the same fields, and differs in the values of the named ones at most.
    pub(crate) fn differs_only_in(&self, now: &Self, names: &[&str]) -> bool {
        let same = |(one, other): (&(String, String), &(String, String))| {
            one.0 == other.0 && (one.1 == other.1 || names.contains(&one.0.as_str()))
        };
        self.0.len() == now.0.len() && self.0.iter().zip(&now.0).all(same)
    }

    /// The fields in which another identity differs, in words: `epsilon was 1, now 2`.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let value = |of: &Self, name: &str| {
            of.0.iter().find(|(known, _)| known == name).map_or("nothing", |(_, value)| value).to_owned()
        };
        let mut names: Vec<&String> = self.0.iter().chain(&now.0).map(|(name, _)| name).collect();
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(*name));
        names
            .into_iter()
            .map(|name| (name, value(self, name), value(now, name)))
            .filter(|(_, before, after)| before != after)
            .map(|(name, before, after)| format!("{name} was {before}, now {after}"))
            .collect()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(formatter, "{name}={value}"))
    }
}

/// A short number for many: the FNV-1a hash of their bits. It tells versions of coefficients apart, and guards against
/// mistakes rather than attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, bits: u64) {
        for byte in bits.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn add_all(&mut self, values: &[f64]) {
        values.iter().for_each(|value| self.add(value.to_bits()));
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_by_name() {
        let saved = Identity::new().with("epsilon", 1).with("steps", 10).with("grid", "0.5");
        let now = Identity::new().with("epsilon", 2).with("steps", 10).with("first epoch", 4);
        assert_eq!(
            saved.differences(&now),
            ["epsilon was 1, now 2", "grid was 0.5, now nothing", "first epoch was nothing, now 4"]
        );
        assert_eq!(Identity::parse(&saved.to_string()), Some(saved.clone()));
        assert!(saved.differences(&saved).is_empty() && Identity::parse("no sign").is_none());
    }
}
